//! `nvdisasm`: a cubin as text, as the vendor's tool prints it.

pub(crate) mod file;
mod info;
mod json;
mod relocations;
mod sections;
mod source;

pub(crate) use info::attribute_name;
pub(crate) use relocations::relocation_name;

use crate::options::{self, Kind, Opt, Parsed};
use crate::report;
use cubin::elf::{ET_REL, Elf, Section};
use diag::Severity;
use file::Input;
use sass::codec::{Decoded, decode};
use sass::text::listing::{self, Graph, Listing, Ranges};
use sass::text::{NoLabels, print};
use sections::Items;
use std::fmt::Write;
use std::io::IsTerminal;

const TOOL: &str = "nvdisasm";

const fn flag(long: &'static str, short: &'static str, help: &'static str) -> Opt {
    Opt { long, short, kind: Kind::Flag, value: "", help, default: "", works: true }
}

const fn with(long: &'static str, short: &'static str, kind: Kind, value: &'static str, help: &'static str) -> Opt {
    Opt { long, short, kind, value, help, default: "", works: true }
}

/// The machines that `-b` takes: those of the vendor's release 13.5.
const MACHINES: &[&str] = &[
    "SM100", "SM100a", "SM100f", "SM101", "SM101a", "SM101f", "SM103", "SM103a", "SM103f", "SM107", "SM107a", "SM107f",
    "SM110", "SM110a", "SM110f", "SM120", "SM120a", "SM120f", "SM121", "SM121a", "SM121f", "SM75", "SM80", "SM86",
    "SM87", "SM88", "SM89", "SM90", "SM90a",
];

static OPTIONS: [Opt; 26] = [
    flag("annotate", "annotate", "Print what the compiler noted; with --emit-json."),
    Opt {
        default: "0x0",
        ..with("base-address", "base", Kind::Text, "<value>", "Address of the first word of raw code.")
    },
    with("binary", "b", Kind::Choice(MACHINES), "<SMxy>", "The input is raw code for this GPU."),
    flag(
        "control",
        "control",
        "Not of the vendor: the control field before each instruction, as [B--1---:R-:W2:-:S04].",
    ),
    with(
        "cuda-function-index",
        "fun",
        Kind::List,
        "<symbol index>,...",
        "Print the code that holds these symbols only.",
    ),
    flag("emit-json", "json", "Print the code as JSON."),
    flag("help", "h", "Print this text."),
    flag(
        "latency",
        "latency",
        "Not of the vendor: behind each instruction, after how many cycles its results are there.",
    ),
    with(
        "life-range-mode",
        "lrm",
        Kind::Choice(&["count", "narrow", "wide"]),
        "",
        "As --print-life-ranges; the form of the table.",
    ),
    flag("live-counts", "live-counts", "Not of the vendor: in graphs, how many registers each block needs."),
    flag("no-dataflow", "ndf", "Do not follow the data of branches."),
    flag("no-vliw", "novliw", "Without effect: for machines that paired instructions."),
    with("options-file", "optf", Kind::List, "<file>,...", "Take more options from a file."),
    flag("output-control-flow-graph", "cfg", "Print the control flow of hyperblocks for Graphviz."),
    flag(
        "output-control-flow-graph-with-basic-blocks",
        "bbcfg",
        "Print the control flow of basic blocks for Graphviz.",
    ),
    flag("print-code", "c", "Print the code only."),
    flag("print-instr-offsets-cfg", "poff", "Print offsets in graphs."),
    flag("print-instruction-encoding", "hex", "Print the words of instructions beside them."),
    flag("print-life-ranges", "plr", "Print which registers live where."),
    flag("print-line-info", "g", "Print source lines."),
    flag("print-line-info-inline", "gi", "Print source lines, and what was inlined."),
    flag("print-line-info-ptx", "gp", "Print lines of the PTX text."),
    flag("print-raw", "raw", "Print without lining up."),
    flag("separate-functions", "sf", "Set functions apart."),
    flag("sort-sections", "sort", "Sort the sections."),
    flag("version", "V", "Print the version."),
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
    if parsed.has("version") {
        report::out(&crate::ptxas::version(TOOL, "CUDA disassembler"));
        return 0;
    }
    if args.is_empty() || parsed.has("help") || parsed.inputs.len() != 1 {
        report::out(&options::help("nvdisasm [options] <image file>", &OPTIONS, &|_| None));
        return 0;
    }
    if let Some(message) = contradiction(&parsed) {
        return fatal(&message);
    }
    let file = &parsed.inputs[0];
    let Ok(bytes) = std::fs::read(file) else { return fatal(&format!("Cannot open object file {file}")) };
    let done = text(&bytes, file, &parsed);
    match done {
        Ok(text) => {
            let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let plain = parsed.has("emit-json") || parsed.given.iter().any(|g| g.starts_with("output-control-flow"));
            report::out(&if colour && !plain { coloured(&text) } else { text });
            0
        }
        Err(message) => fatal(&message),
    }
}

/// What the tool prints for the bytes of a file with these options.
///
/// # Errors
/// The message that the tool ends with.
pub fn print_bytes(bytes: &[u8], options: &[&str]) -> Result<String, String> {
    let args: Vec<String> = options.iter().map(|a| a.to_string()).collect();
    let parsed = options::parse(&OPTIONS, &args, &|_| None)?;
    contradiction(&parsed).map_or(Ok(()), Err)?;
    text(bytes, "input", &parsed)
}

fn text(bytes: &[u8], file: &str, parsed: &Parsed) -> Result<String, String> {
    match parsed.get("binary") {
        Some(machine) => raw(bytes, file, machine, parsed),
        None if bytes.len() < 64 => Err(format!("Object file {file} appears truncated")),
        None if !bytes.starts_with(b"\x7fELF") => Err(format!("File {file} does not appear to be an Elf file")),
        None => Elf::read(bytes).map_err(|d| d.message).and_then(|elf| disassemble(&elf, parsed)),
    }
}

fn contradiction(parsed: &Parsed) -> Option<String> {
    let has = |name| parsed.has(name);
    let ranges = has("print-life-ranges") || has("life-range-mode");
    let graph = has("output-control-flow-graph") || has("output-control-flow-graph-with-basic-blocks");
    if has("output-control-flow-graph") && has("output-control-flow-graph-with-basic-blocks") {
        return Some("Specify either -cfg or -bbcfg option".into());
    }
    if graph && ranges {
        return Some("Specify either -cfg or -plr option".into());
    }
    if has("annotate") && !has("emit-json") {
        return Some("Specify -annotate with -json option".into());
    }
    let unsupported = parsed.given.iter().find(|g| OPTIONS.iter().any(|o| o.long == **g && !o.works));
    unsupported.map(|o| format!("Option '{o}' is not supported yet"))
}

/// What a file is printed as.
fn disassemble(elf: &Elf, parsed: &Parsed) -> Result<String, String> {
    let mut input = Input::new(elf).map_err(|d| d.message)?;
    let keep = wanted(&input, parsed)?;
    if parsed.has("emit-json") {
        if parsed.has("annotate") {
            input.annotate().map_err(|d| d.message)?;
        }
        let listing = Listing::new(&input.code);
        return Ok(json::file(&input, &listing, &keep));
    }
    let blocks = parsed.has("output-control-flow-graph-with-basic-blocks");
    if blocks || parsed.has("output-control-flow-graph") {
        let graph = Graph {
            hyperblocks: !blocks,
            offsets: parsed.has("print-instr-offsets-cfg"),
            counts: parsed.has("live-counts"),
        };
        // Sections that are not shown name nothing.
        input.code.named.clear();
        return Ok(Listing::new(&input.code).graph(graph, &|n| keep.contains(&n)));
    }
    let ranges = match parsed.get("life-range-mode") {
        Some("count") => Some(Ranges::Count),
        Some("narrow") => Some(Ranges::Narrow),
        Some(_) => Some(Ranges::Wide),
        None => parsed.has("print-life-ranges").then_some(Ranges::Wide),
    };
    if ranges.is_some() {
        // Sections that are not shown name nothing.
        input.code.named.clear();
    }
    source::comments(&mut input, parsed).map_err(|d| d.message)?;
    let listing = Listing::new(&input.code);
    let options = listing::Options {
        hex: parsed.has("print-instruction-encoding"),
        raw: parsed.has("print-raw"),
        apart: parsed.has("separate-functions"),
        control: parsed.has("control"),
        latency: parsed.has("latency"),
    };
    let items = Items::new(&input, &listing, &|s| ranges.is_none() || with_ranges(s));
    let code = match ranges {
        Some(ranges) => listing.life_ranges(ranges, options),
        None => listing.sections(options),
    };
    let mut out = head(elf);
    let code_only = parsed.has("print-code");
    // Labels are numbered in the order of the file, whatever the order of printing.
    let mut shown = Vec::new();
    for (n, section) in elf.sections.iter().enumerate() {
        let text = match input.texts.iter().position(|&t| t == n) {
            Some(t) if keep.contains(&t) => Some(code[t].clone()),
            Some(_) => None,
            None if code_only || ranges.is_some() && !with_ranges(section) => None,
            None => items.section(n)?,
        };
        shown.extend(text.map(|text| (section.name.as_str(), text)));
    }
    if parsed.has("sort-sections") {
        shown.sort_by_key(|s| s.0);
    }
    for (_, text) in shown {
        let _ = write!(out, "\n\n{text}");
    }
    let undefined = items.undefined();
    if !undefined.is_empty() {
        let _ = write!(out, "\n\n//--------------------- SYMBOLS --------------------------\n\n{undefined}");
    }
    Ok(if options.raw { without_tabs(&out) } else { out })
}

/// Sections that are shown beside life ranges.
fn with_ranges(s: &Section) -> bool {
    [".text.", ".nv.info", ".nv.constant"].iter().any(|p| s.name.starts_with(p))
}

/// The first lines of a listing.
fn head(elf: &Elf) -> String {
    let kind = if elf.header.kind == ET_REL { "ET_REL" } else { "ET_EXEC" };
    let suffix = if accelerated(elf) { "a" } else { "" };
    format!("\t.target\tsm_{}{suffix}\n\n\t.elftype\t@\"{kind}\"\n", elf.sm() & 0xfff)
}

/// Code for a target with an `a`.
fn accelerated(elf: &Elf) -> bool {
    let compat = elf.section(".nv.compat").and_then(|(_, s)| cubin::attr::read(&s.data).ok()).unwrap_or_default();
    compat.iter().any(|a| a.code == 9 && a.to_words() == [1])
}

/// Which code sections `-fun` asks for: all without it.
fn wanted(input: &Input, parsed: &Parsed) -> Result<Vec<usize>, String> {
    let Some(list) = parsed.values.get("cuda-function-index") else { return Ok((0..input.texts.len()).collect()) };
    let mut out = Vec::new();
    for n in list {
        let index: usize = n.parse().map_err(|_| format!("'{n}': expected a number"))?;
        let symbol = input.symbols.get(index).ok_or(format!("No symbol with index {n}"))?;
        out.extend(input.texts.iter().position(|&t| t == symbol.shndx as usize));
    }
    Ok(out)
}

/// Raw code.
fn raw(bytes: &[u8], file: &str, machine: &str, parsed: &Parsed) -> Result<String, String> {
    let base = parsed.get("base-address").unwrap_or("0x0");
    let (digits, radix) = base.strip_prefix("0x").map_or((base, 10), |d| (d, 16));
    let base = u64::from_str_radix(digits, radix).map_err(|_| format!("'{base}': expected a number"))?;
    if !bytes.len().is_multiple_of(16) {
        return Err(format!("Input raw instruction binary file {file} appears to be truncated"));
    }
    let name = machine.trim_end_matches(['a', 'f']);
    let sm: u16 = name.trim_start_matches("SM").parse().map_err(|_| format!("unknown machine {machine}"))?;
    // The vendor's tool prints it twice.
    let header =
        format!("\t.headerflags\t@\"EF_CUDA_64BIT_ADDRESS EF_CUDA_{name} EF_CUDA_VIRTUAL_SM(EF_CUDA_{name})\"\n");
    let mut out = header.repeat(2);
    let hex = parsed.has("print-instruction-encoding");
    let words = bytes.chunks_exact(16).filter_map(|c| Some(u128::from_le_bytes(c.try_into().ok()?)));
    let lines: Vec<Line> =
        words.enumerate().map(|(n, word)| Line::new(word, base.wrapping_add(n as u64 * 16), sm)).collect();
    let width = lines.iter().map(|l| l.text.len()).max().unwrap_or(0) + 2;
    for line in &lines {
        line.print(&mut out, hex, width);
    }
    Ok(out)
}

/// An instruction as it stands in a listing.
struct Line {
    text: String,
    word: u128,
}

impl Line {
    fn new(word: u128, pc: u64, sm: u16) -> Line {
        let text = match decode(word, sm) {
            Decoded::Known(inst) => {
                let text = print(&inst, pc, &NoLabels);
                let (guard, body) = match text.split_once(' ') {
                    Some((guard, body)) if guard.starts_with('@') => (guard, body),
                    _ => ("", text.as_str()),
                };
                let end = if inst.ctrl.is_idle() { ";" } else { " ;" };
                // Special numbers carry a blank with them.
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

/// For terminals: labels yellow, offsets, titles and comments grey, opcodes blue.
fn coloured(text: &str) -> String {
    const GREY: &str = "\x1b[90m";
    const YELLOW: &str = "\x1b[33m";
    const BLUE: &str = "\x1b[34m";
    const END: &str = "\x1b[0m";
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        let code = line.split_once("*/ ").filter(|(offset, _)| offset.starts_with("        /*"));
        let _ = match code {
            _ if line.starts_with("//") => writeln!(out, "{GREY}{line}{END}"),
            _ if line.ends_with(':') => writeln!(out, "{YELLOW}{line}{END}"),
            Some((offset, rest)) => {
                let body = rest.trim_start();
                let blank = &rest[..rest.len() - body.len()];
                let guard = body.split_once(' ').filter(|(g, _)| g.starts_with('@')).map_or("", |(g, _)| g);
                let from = guard.len() + body[guard.len()..].len() - body[guard.len()..].trim_start().len();
                let to = body[from..].find([' ', ';']).map_or(body.len(), |n| from + n);
                let (opcode, operands) = (&body[from..to], &body[to..]);
                writeln!(out, "{GREY}{offset}*/{END} {blank}{}{BLUE}{opcode}{END}{operands}", &body[..from])
            }
            None => writeln!(out, "{line}"),
        };
    }
    out
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

/// What JSON names as the program that wrote it: the vendor's, whose format it is.
fn producer() -> String {
    format!("nvdisasm V{} Build cuda_13.5.r13.5/compiler.39125733_0", crate::compile::RELEASE_FULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_changes_no_character() {
        let text = "//---- .text.k ----\n.text.k:\n        /*0000*/              @!P0 FADD R0, R1, R2 ;\n\n.L_x_0:\n\
                    \t.section\t.text.k\n        /*0010*/                   EXIT;\n";
        let shown = coloured(text);
        let mut plain = String::new();
        let mut parts = shown.split('\x1b');
        plain.push_str(parts.next().unwrap_or_default());
        parts.for_each(|p| plain.push_str(p.split_once('m').map_or(p, |(_, rest)| rest)));
        assert_eq!(plain, text);
        assert!(shown.contains("\x1b[34mFADD\x1b[0m") && shown.contains("\x1b[33m.L_x_0:\x1b[0m"), "{shown:?}");
    }
}
