//! `nvdisasm`: the code of a cubin as text, as the vendor's tool prints it with `-c`, `-c -hex` and `-b SM90`.

use crate::options::{self, Kind, Opt};
use crate::report;
use cubin::attr;
use cubin::elf::{Elf, Symbol};
use diag::Severity;
use sass::codec::{Decoded, decode};
use sass::inst::Value;
use sass::text::{Labels, NoLabels, print};
use std::collections::BTreeMap;
use std::fmt::Write;

const TOOL: &str = "nvdisasm";

const fn flag(long: &'static str, short: &'static str, help: &'static str, works: bool) -> Opt {
    Opt { long, short, kind: Kind::Flag, value: "", help, default: "", works }
}

const fn with(long: &'static str, short: &'static str, kind: Kind, value: &'static str, help: &'static str) -> Opt {
    Opt { long, short, kind, value, help, default: "", works: false }
}

static OPTIONS: [Opt; 20] = [
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
    let done = if parsed.has("binary") {
        let base = parsed.get("base-address").unwrap_or("0x0");
        raw(&bytes, base, hex)
    } else if !parsed.has("print-code") {
        Err("Printing sections other than code is not supported yet; use -c".to_string())
    } else if !bytes.starts_with(b"\x7fELF") {
        Err(format!("File {file} does not appear to be an Elf file"))
    } else {
        Elf::read(&bytes).and_then(|elf| code(&elf, hex)).map_err(|d| d.message)
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
        words(bytes).enumerate().map(|(n, word)| Line::new(word, base + n as u64 * 16, &NoLabels, None)).collect();
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
    fn new(word: u128, pc: u64, labels: &dyn Labels, targets: Option<&str>) -> Line {
        let text = match decode(word, 90) {
            Decoded::Known(inst) => {
                let text = print(&inst, pc, labels);
                let (guard, body) = match text.split_once(' ') {
                    Some((guard, body)) if guard.starts_with('@') => (guard, body),
                    _ => ("", text.as_str()),
                };
                // Instructions that issue together with nothing are shown without the blank.
                let end = match targets {
                    Some(list) => format!(
                        "{:>width$}(*\"BRANCH_TARGETS {list}\"*);",
                        "",
                        width = 46usize.saturating_sub(body.len())
                    ),
                    None if inst.ctrl.stall == 0 => ";".to_string(),
                    None => " ;".to_string(),
                };
                // Special numbers carry a blank with them.
                let gap = if body.ends_with("QNAN") || body.ends_with("INF") { " " } else { "" };
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

/// Where the column of words begins. In listings with labels the vendor's tool sometimes begins it a few blanks later.
fn column(lines: &[Line]) -> usize {
    lines.iter().map(|l| l.text.len()).max().unwrap_or(0) + 2
}

/// The names of addresses in one text section.
#[derive(Default)]
struct Names(BTreeMap<i64, String>);

impl Labels for Names {
    fn label(&self, address: i64) -> Option<&str> {
        self.0.get(&address).map(String::as_str)
    }
}

struct Text<'a> {
    index: usize,
    name: &'a str,
    data: &'a [u8],
    names: Names,
}

/// The listing of all code, with labels numbered as the vendor's tool does: first where branches go, then what the
/// attributes name, then the ends of functions; each counts, even where a place has a name already.
fn code(elf: &Elf, hex: bool) -> Result<String, diag::Diagnostic> {
    if elf.sm() & 0xfff != 90 {
        return Err(diag::Diagnostic::error(format!("code for sm_{} is not supported yet", elf.sm() & 0xfff)));
    }
    let symbols = elf.symbols()?;
    let mut texts: Vec<Text> = Vec::new();
    for (index, s) in elf.sections.iter().enumerate() {
        if let Some(name) = s.name.strip_prefix(".text.") {
            texts.push(Text { index, name, data: &s.data, names: Names::default() });
        }
    }
    let functions: Vec<&Symbol> = symbols.iter().filter(|s| s.kind == 2 && s.shndx != 0).collect();
    let mut counter = 0;
    let mut name = |names: &mut Names, at: i64, counts: bool| {
        if counts || !names.0.contains_key(&at) {
            names.0.entry(at).or_insert_with(|| format!(".L_x_{counter}"));
            counter += 1;
        }
    };
    for text in &mut texts {
        for f in functions.iter().filter(|f| f.shndx as usize == text.index) {
            text.names.0.entry(f.value as i64).or_insert_with(|| f.name.clone());
        }
        let end = text.data.len() as i64;
        for (n, word) in words(text.data).enumerate() {
            let Decoded::Known(inst) = decode(word, 90) else { continue };
            for op in &inst.operands {
                let Value::Target(distance) = op.value else { continue };
                let target = n as i64 * 16 + 16 + distance;
                if (0..end).contains(&target) && target % 16 == 0 {
                    name(&mut text.names, target, false);
                }
            }
        }
    }
    let mut branches: BTreeMap<(usize, i64), Vec<i64>> = BTreeMap::new();
    for section in elf.sections.iter().filter(|s| s.name.starts_with(".nv.info.")) {
        let Some(text) = texts.iter_mut().find(|t| t.index == section.info as usize) else { continue };
        for a in attr::read(&section.data)? {
            let w = a.to_words();
            match a.code {
                attr::EXIT_INSTR_OFFSETS
                | attr::COOP_GROUP_INSTR_OFFSETS
                | attr::INT_WARP_WIDE_INSTR_OFFSETS
                | attr::SYSCALL_OFFSETS => {
                    w.iter().for_each(|&at| name(&mut text.names, at as i64, true));
                }
                attr::UNUSED_LOAD_BYTE_OFFSET => {
                    w.iter().step_by(2).for_each(|&at| name(&mut text.names, at as i64, true));
                }
                attr::INDIRECT_BRANCH_TARGETS => {
                    let mut rest = w.as_slice();
                    while let [at, _, n, tail @ ..] = rest {
                        let (to, after) = tail.split_at((*n as usize).min(tail.len()));
                        name(&mut text.names, *at as i64, true);
                        to.iter().for_each(|&t| name(&mut text.names, t as i64, true));
                        branches.insert((text.index, *at as i64), to.iter().map(|&t| t as i64).collect());
                        rest = after;
                    }
                }
                _ => {}
            }
        }
    }
    for f in &functions {
        if let Some(text) = texts.iter_mut().find(|t| t.index == f.shndx as usize) {
            name(&mut text.names, f.value.wrapping_add(f.size) as i64, true);
        }
    }
    let kind = if elf.header.kind == cubin::elf::ET_EXEC { "ET_EXEC" } else { "ET_REL" };
    let compat = elf.section(".nv.compat").map(|(_, s)| attr::read(&s.data)).transpose()?.unwrap_or_default();
    let suffix = if compat.iter().any(|a| a.code == 9 && a.to_words() == [1]) { "a" } else { "" };
    let mut out = format!("\t.target\tsm_90{suffix}\n\n\t.elftype\t@\"{kind}\"\n\n\n");
    for text in &texts {
        let here: Vec<&&Symbol> = functions.iter().filter(|f| f.shndx as usize == text.index).collect();
        print_text(&mut out, text, &here, &branches, hex);
    }
    let _ = write!(out, "//--------------------- SYMBOLS --------------------------\n\n");
    for s in symbols.iter().filter(|s| s.shndx == 0 && s.kind == 1) {
        let _ = write!(out, "\t.type\t\t{0},@object\n\t.size\t\t{0},{1:#x}\n", s.name, s.size);
    }
    Ok(out)
}

fn print_text(
    out: &mut String,
    text: &Text,
    functions: &[&&Symbol],
    branches: &BTreeMap<(usize, i64), Vec<i64>>,
    hex: bool,
) {
    let label = |at: i64| text.names.label(at).unwrap_or("?").to_string();
    let section = format!(".text.{}", text.name);
    let _ = writeln!(out, "//--------------------- {section:<25} --------------------------");
    let _ = write!(out, "\t.section\t{section},\"ax\",@progbits\n\t.align\t128\n");
    let end = |f: &Symbol| label(f.value.wrapping_add(f.size) as i64);
    let lines: Vec<Line> = words(text.data)
        .enumerate()
        .map(|(n, word)| {
            let at = n as i64 * 16;
            let list =
                branches.get(&(text.index, at)).map(|l| l.iter().map(|&t| label(t)).collect::<Vec<_>>().join(","));
            Line::new(word, at as u64, &text.names, list.as_deref())
        })
        .collect();
    let width = column(&lines);
    for (n, line) in lines.iter().enumerate() {
        let at = n as i64 * 16;
        let begins: Vec<&&&Symbol> = functions.iter().filter(|f| f.value as i64 == at).collect();
        for f in &begins {
            let name = &f.name;
            match f.bind {
                1 => out.push_str(&format!("        .global         {name}\n")),
                2 => out.push_str(&format!("        .weak           {name}\n")),
                _ => {}
            }
            let _ = writeln!(out, "        .type           {name},@function");
            let _ = writeln!(out, "        .size           {name},({} - {name})", end(f));
            if f.other & 0x10 != 0 {
                let _ = writeln!(out, "        .other          {name},@\"STO_CUDA_ENTRY STV_DEFAULT\"");
            }
            let _ = writeln!(out, "{name}:");
        }
        if at == 0 {
            let _ = writeln!(out, "{section}:");
        }
        if begins.is_empty()
            && let Some(name) = text.names.label(at)
        {
            let _ = writeln!(out, "{name}:");
        }
        line.print(out, hex, width);
    }
    if let Some(name) = text.names.label(text.data.len() as i64) {
        let _ = writeln!(out, "{name}:");
    }
    out.push_str("\n\n");
}
