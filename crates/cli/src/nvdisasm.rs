//! `nvdisasm`: the code of a cubin as text, as the vendor's tool prints it with `-c`, `-hex`, `-raw` and `-b SM90`.

use crate::options::{self, Kind, Opt};
use crate::report;
use cubin::attr;
use cubin::elf::{ET_REL, Elf};
use diag::Severity;
use sass::codec::{Decoded, decode};
use sass::text::listing::{self, Binding, Field, File, Function, Relocation, Section};
use sass::text::{NoLabels, print};
use std::fmt::Write;

const TOOL: &str = "nvdisasm";

const fn flag(long: &'static str, short: &'static str, help: &'static str, works: bool) -> Opt {
    Opt { long, short, kind: Kind::Flag, value: "", help, default: "", works }
}

const fn with(long: &'static str, short: &'static str, kind: Kind, value: &'static str, help: &'static str) -> Opt {
    Opt { long, short, kind, value, help, default: "", works: false }
}

static OPTIONS: [Opt; 21] = [
    flag("annotate", "annotate", "Print what the compiler noted.", false),
    Opt {
        default: "0x0",
        works: true,
        ..with("base-address", "base", Kind::Text, "<value>", "Address of the first word of raw code.")
    },
    Opt {
        works: true,
        ..with("binary", "b", Kind::Choice(&["SM90", "SM90a"]), "<SMxy>", "The input is raw code for this GPU.")
    },
    with("cuda-function-index", "fun", Kind::List, "<symbol index>,...", "Print the functions of these symbols only."),
    flag("emit-json", "json", "Print JSON.", false),
    flag("help", "h", "Print this text.", true),
    with("life-range-mode", "lrm", Kind::Text, "<mode>", "How register life ranges are shown."),
    flag("no-dataflow", "ndf", "Do not follow the data of branches.", false),
    flag("no-vliw", "novliw", "Old machines: print paired instructions apart.", false),
    with("options-file", "optf", Kind::List, "<file>,...", "Take more options from a file."),
    flag("output-control-flow-graph", "cfg", "Print the control flow graph.", false),
    flag("output-control-flow-graph-with-basic-blocks", "bbcfg", "Print the graph of basic blocks.", false),
    flag("print-code", "c", "Print the code only.", true),
    flag("print-instr-offsets-cfg", "poff", "Print offsets in graphs.", false),
    flag("print-instruction-encoding", "hex", "Print the words of instructions beside them.", true),
    flag("print-life-ranges", "plr", "Print register life ranges.", false),
    flag("print-line-info", "g", "Print source lines.", false),
    flag("print-raw", "raw", "Print without lining up.", true),
    flag("separate-functions", "sf", "Set functions apart.", false),
    flag("sort-sections", "sort", "Sort the sections.", false),
    flag("version", "V", "Print the version.", true),
];

fn fatal(message: &str) -> u8 {
    report::plain(TOOL, Severity::Fatal, message);
    1
}

/// Runs the tool; gives the exit code.
pub fn main(args: &[String]) -> u8 {
    let parsed = match options::parse(&OPTIONS, args, &|file| std::fs::read_to_string(file).ok()) {
        Ok(parsed) => parsed,
        Err(message) => return fatal(&message),
    };
    if args.is_empty() || parsed.has("help") {
        report::out(&options::help("nvdisasm [options] <image file>", &OPTIONS, &|_| None));
        return 0;
    }
    if parsed.has("version") {
        report::out(&crate::ptxas::version(TOOL, "CUDA disassembler"));
        return 0;
    }
    if let Some(o) = parsed.given.iter().find(|g| OPTIONS.iter().any(|o| o.long == **g && !o.works)) {
        return fatal(&format!("Option '{o}' is not supported yet"));
    }
    let [file] = parsed.inputs.as_slice() else { return fatal("Exactly one input file is wanted") };
    let Ok(bytes) = std::fs::read(file) else { return fatal(&format!("Cannot open object file {file}")) };
    let hex = parsed.has("print-instruction-encoding");
    let options = listing::Options { hex, raw: parsed.has("print-raw"), control: false };
    let done = if parsed.has("binary") {
        let base = parsed.get("base-address").unwrap_or("0x0");
        raw(&bytes, base, hex)
    } else if !parsed.has("print-code") {
        Err("Printing sections other than code is not supported yet; use -c".to_string())
    } else if !bytes.starts_with(b"\x7fELF") {
        Err(format!("File {file} does not appear to be an Elf file"))
    } else {
        Elf::read(&bytes).and_then(|elf| code(&elf, options)).map_err(|d| d.message)
    };
    match done {
        Ok(text) => {
            report::out(&text);
            0
        }
        Err(message) => fatal(&message),
    }
}

/// The vendor's tool prints it twice.
const RAW_HEADER: &str = "\t.headerflags\t@\"EF_CUDA_64BIT_ADDRESS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)\"\n";

fn raw(bytes: &[u8], base: &str, hex: bool) -> Result<String, String> {
    let (digits, radix) = base.strip_prefix("0x").map_or((base, 10), |d| (d, 16));
    let base = u64::from_str_radix(digits, radix).map_err(|_| format!("'{base}': expected a number"))?;
    if !bytes.len().is_multiple_of(16) {
        return Err(format!("The size of the input, {} bytes, is no multiple of 16", bytes.len()));
    }
    let mut out = RAW_HEADER.repeat(2);
    let lines: Vec<Line> =
        words(bytes).enumerate().map(|(n, word)| Line::new(word, base.wrapping_add(n as u64 * 16))).collect();
    let width = column(&lines);
    for line in &lines {
        line.print(&mut out, hex, width);
    }
    Ok(out)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u128> + '_ {
    bytes.chunks_exact(16).filter_map(|c| Some(u128::from_le_bytes(c.try_into().ok()?)))
}

/// An instruction as it stands in a listing.
struct Line {
    text: String,
    word: u128,
}

impl Line {
    fn new(word: u128, pc: u64) -> Line {
        let text = match decode(word, 90) {
            Decoded::Known(inst) => {
                let text = print(&inst, pc, &NoLabels);
                let (guard, body) = match text.split_once(' ') {
                    Some((guard, body)) if guard.starts_with('@') => (guard, body),
                    _ => ("", text.as_str()),
                };
                // Instructions without a stall are shown without the blank; special numbers carry one with them.
                let end = if inst.ctrl.stall == 0 { ";" } else { " ;" };
                let gap = if ["QNAN", "INF", " -0.0"].iter().any(|n| body.ends_with(n)) { " " } else { "" };
                format!("{guard:>17} {body}{gap}{end}")
            }
            Decoded::Unknown(_) => format!("                  .word {word:#034x} ;"),
        };
        Line { text: format!("        /*{pc:04x}*/ {text}"), word }
    }

    fn print(&self, out: &mut String, hex: bool, width: usize) {
        if hex {
            let (low, high) = (self.word as u64, (self.word >> 64) as u64);
            let _ = writeln!(out, "{:<width$}/* {low:#018x} */\n{:<width$}/* {high:#018x} */", self.text, "");
        } else {
            out.push_str(&self.text);
            out.push('\n');
        }
    }
}

/// Where the column of words begins.
fn column(lines: &[Line]) -> usize {
    lines.iter().map(|l| l.text.len()).max().unwrap_or(0) + 2
}

/// The listing of all code of a file, with the undefined symbols behind it.
fn code(elf: &Elf, options: listing::Options) -> Result<String, diag::Diagnostic> {
    let sm = elf.sm() & 0xfff;
    if sm != 90 {
        return Err(diag::Diagnostic::error(format!("code for sm_{sm} is not supported yet")));
    }
    let symbols = elf.symbols()?;
    let relocatable = elf.header.kind == ET_REL;
    let mut file = File { sm, relocatable, ..File::default() };
    let texts: Vec<usize> =
        elf.sections.iter().enumerate().filter(|(_, s)| s.name.starts_with(".text.")).map(|(i, _)| i).collect();
    // The number of a symbol's function in the file.
    let mut numbers = vec![None; symbols.len()];
    for (n, s) in symbols.iter().enumerate().filter(|(_, s)| s.kind == 2) {
        let Some(section) = texts.iter().position(|&t| t == s.shndx as usize) else { continue };
        numbers[n] = Some(file.functions.len());
        let binding = match s.bind {
            0 => Binding::Local,
            2 => Binding::Weak,
            _ => Binding::Global,
        };
        let (name, entry) = (s.name.clone(), s.other & 0x10 != 0);
        file.functions.push(Function { name, section, offset: s.value, size: s.size, binding, entry });
    }
    for &text in &texts {
        let s = &elf.sections[text];
        let mut section =
            Section { name: s.name.clone(), align: s.align, words: words(&s.data).collect(), ..Section::default() };
        let name = &s.name[".text.".len()..];
        for info in elf.sections.iter().filter(|i| i.info as usize == text && i.name.starts_with(".nv.info.")) {
            attributes(&attr::read(&info.data)?, &mut section);
        }
        if let (true, Some((_, table))) = (relocatable, elf.section(&format!(".nv.constant2.{name}"))) {
            let targets = table.data.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]) as u64);
            section.tables = targets.collect();
        }
        for r in elf.sections.iter().filter(|r| r.info as usize == text).flat_map(|r| r.relocs()) {
            let (Some(field), Some(symbol)) = (Field::of_type(r.kind), symbols.get(r.symbol as usize)) else {
                continue;
            };
            section.relocations.push(Relocation {
                offset: r.offset,
                field,
                symbol: symbol.name.clone(),
                function: numbers[r.symbol as usize],
                addend: r.addend,
            });
        }
        file.sections.push(section);
    }
    let compat = elf.section(".nv.compat").map(|(_, s)| attr::read(&s.data)).transpose()?.unwrap_or_default();
    let suffix = if compat.iter().any(|a| a.code == 9 && a.to_words() == [1]) { "a" } else { "" };
    let kind = if relocatable { "ET_REL" } else { "ET_EXEC" };
    let mut out = format!("\t.target\tsm_90{suffix}\n\n\t.elftype\t@\"{kind}\"\n");
    for section in listing::listing(&file, options) {
        let _ = write!(out, "\n\n{section}");
    }
    let _ = write!(out, "\n\n//--------------------- SYMBOLS --------------------------\n\n");
    for s in symbols.iter().filter(|s| s.shndx == 0 && s.kind == 1) {
        let _ = write!(out, "\t.type\t\t{0},@object\n\t.size\t\t{0},{1:#x}\n", s.name, s.size);
    }
    Ok(if options.raw { without_tabs(&out) } else { out })
}

/// Tabs as the blanks up to the next multiple of eight.
fn without_tabs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' => {
                let next = column / 8 * 8 + 8;
                out.extend(std::iter::repeat_n(' ', next - column));
                column = next;
                continue;
            }
            '\n' => column = 0,
            _ => column += 1,
        }
        out.push(c);
    }
    out
}

/// The offsets that attributes list, in their order.
fn attributes(list: &[attr::Attr], section: &mut Section) {
    for a in list {
        let words: Vec<u64> = a.to_words().into_iter().map(u64::from).collect();
        // Records of so many words, of which the first is an offset.
        let record = match a.code {
            attr::EXIT_INSTR_OFFSETS
            | attr::COOP_GROUP_INSTR_OFFSETS
            | attr::INT_WARP_WIDE_INSTR_OFFSETS
            | attr::SYSCALL_OFFSETS => 1,
            attr::UNUSED_LOAD_BYTE_OFFSET => 2,
            attr::MBARRIER_INSTR_OFFSETS => 4,
            attr::INDIRECT_BRANCH_TARGETS => {
                let mut rest = words.as_slice();
                while let [branch, _, count, tail @ ..] = rest {
                    let (targets, after) = tail.split_at((*count as usize).min(tail.len()));
                    section.marks.push(*branch);
                    section.marks.extend(targets);
                    section.branches.push((*branch, targets.to_vec()));
                    rest = after;
                }
                continue;
            }
            _ => continue,
        };
        section.marks.extend(words.iter().step_by(record));
    }
}
