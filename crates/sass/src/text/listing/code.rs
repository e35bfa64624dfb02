//! Sections of code as assembly text: `-c`, `-hex`, `-raw`, `-sf`, and what all other ways share: the text of each
//! instruction and the rows of a section.

use super::labels::{function_at, reaches_functions};
use super::{Binding, Field, Function, Listing, Relocation};
use crate::codec::Decoded;
use crate::form::Slot;
use crate::inst::Operand;
use crate::text::{Labels, print_control, print_untrimmed};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-hex`: the words beside the instructions.
    pub hex: bool,
    /// `-raw`: guards are not lined up and tabs are spaces; `hex` has then no effect.
    pub raw: bool,
    /// `-sf`: empty lines before each function.
    pub apart: bool,
    /// Not of the vendor: the control field before each instruction.
    pub control: bool,
    /// Not of the vendor: behind each instruction, after how many cycles its results are there.
    pub latency: bool,
}

/// What operands of one instruction show.
struct Names<'a> {
    listing: &'a Listing<'a>,
    section: usize,
    functions: bool,
    replaced: Option<(Field, String)>,
}

impl Labels for Names<'_> {
    fn label(&self, address: i64) -> Option<&str> {
        let address = u64::try_from(address).ok()?;
        let function = if self.functions { function_at(self.listing.file, self.section, address) } else { None };
        function.map(|f| f.name.as_str()).or_else(|| self.listing.label(self.section, address))
    }

    fn replaced(&self, slot: &Slot, op: &Operand) -> Option<&str> {
        self.replaced.as_ref().filter(|r| r.0.fits(slot, op)).map(|r| r.1.as_str())
    }
}

/// An instruction's line, without its word.
pub(super) struct Line {
    /// Its offset in the section.
    pub offset: u64,
    /// `@P0`, or nothing.
    pub guard: String,
    /// The text; a space ends it unless the control is idle.
    pub body: String,
    /// Comment on an indirect branch.
    pub note: Option<String>,
    /// Stands in front of the text.
    control: String,
    /// Stands behind it.
    latency: String,
}

impl Line {
    /// Columns up to where a note may begin: the width that lines up notes and words.
    pub(super) fn width(&self) -> usize {
        let digits = format!("{:04x}", self.offset).len();
        let guard = if self.guard.is_empty() { 0 } else { self.guard.len() + 1 };
        8 + digits + 4 + 19 + guard + self.control.len() + self.body.len() + 1
    }
}

/// A row of a section behind its three header lines.
pub(super) enum Row<'a> {
    /// Function, and what stands for its end.
    Function(&'a Function, &'a str),
    /// The section's own name.
    Section,
    /// A label.
    Label(&'a str),
    /// The instruction of this index.
    Inst(usize),
}

/// The lines of a function's head, in the order in which they stand; the last is its label.
pub(super) fn head(function: &Function, end: &str) -> Vec<String> {
    let name = &function.name;
    let mut out = Vec::with_capacity(5);
    match function.binding {
        Binding::Local => {}
        Binding::Global => out.push(format!("        .global         {name}")),
        Binding::Weak => out.push(format!("        .weak           {name}")),
    }
    out.push(format!("        .type           {name},@function"));
    out.push(format!("        .size           {name},({end} - {name})"));
    if function.entry {
        out.push(format!("        .other          {name},@\"STO_CUDA_ENTRY STV_DEFAULT\""));
    }
    out.push(format!("{name}:"));
    out
}

/// Where what follows the instructions begins, the same for the whole file.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub notes_at: usize,
    pub words_at: usize,
}

impl<'a> Listing<'a> {
    /// Every section of code in order: the lines from the one that names the section to the label at its end, each with a
    /// line feed. Between sections, the vendor's tool prints two empty lines.
    ///
    /// A word that is no known instruction stands there as data (the vendor's tool refuses the file).
    pub fn sections(&self, options: Options) -> Vec<String> {
        let lines: Vec<Vec<Line>> = (0..self.code.len()).map(|n| self.lines(n, options)).collect();
        let columns = columns(&lines);
        (0..lines.len()).map(|n| self.section(n, &lines[n], columns, options)).collect()
    }

    /// The first lines of a section.
    pub(super) fn title(&self, n: usize, raw: bool) -> String {
        let section = &self.file.sections[n];
        let (tab, short) = if raw { ("        ", "  ") } else { ("\t", "\t") };
        let mut out = format!("//--------------------- {:<25} --------------------------\n", section.name);
        let _ = writeln!(out, "{tab}.section{tab}{},\"ax\",@progbits", section.name);
        for line in &section.properties {
            let _ = writeln!(out, "{tab}{line}");
        }
        let _ = writeln!(out, "{tab}.align{short}{}", section.align);
        out
    }

    /// The rows of a section with `count` instructions, without the label at its end.
    pub(super) fn rows(&self, n: usize, count: usize) -> Vec<Row<'_>> {
        let mut functions: Vec<&Function> = self.file.functions.iter().filter(|f| f.section == n).collect();
        functions.sort_by_key(|f| f.offset);
        let mut rows = Vec::with_capacity(count + 8);
        let row = |f: &'a Function| {
            let end = f.offset.saturating_add(f.size);
            let next = function_at(self.file, n, end).map(|f| f.name.as_str());
            Row::Function(f, next.or_else(|| self.label(n, end)).unwrap_or("."))
        };
        let at = |offset| functions.iter().copied().filter(move |f| f.offset == offset);
        rows.extend(at(0).filter(|f| f.leads).map(row));
        rows.push(Row::Section);
        rows.extend(at(0).filter(|f| !f.leads).map(row));
        let mut later = functions.iter().copied().filter(|f| f.offset > 0).peekable();
        for i in 0..count {
            let offset = i as u64 * 16;
            while let Some(f) = later.next_if(|f| f.offset <= offset) {
                if f.offset == offset {
                    rows.push(row(f));
                }
            }
            if let Some(label) = self.label(n, offset) {
                rows.push(Row::Label(label));
            }
            rows.push(Row::Inst(i));
        }
        rows
    }

    /// What stands in place of the operand that a relocation fills.
    fn relocated(&self, relocation: &Relocation) -> String {
        let mut place = relocation.symbol.clone();
        if relocation.addend != 0 {
            let function = relocation.function.and_then(|f| self.file.functions.get(f));
            let label = function.and_then(|f| self.label(f.section, f.offset.wrapping_add_signed(relocation.addend)));
            place = match label {
                Some(label) => format!("({place} + {label}@srel)"),
                None => {
                    let sign = if relocation.addend < 0 { "-" } else { "" };
                    format!("({place} + {sign}{:#x})", relocation.addend.unsigned_abs())
                }
            };
        }
        relocation.field.text(&place)
    }

    /// The instructions of a section.
    pub(super) fn lines(&self, n: usize, options: Options) -> Vec<Line> {
        let (section, code) = (&self.file.sections[n], &self.code[n]);
        let mut relocations = BTreeMap::new();
        for relocation in &section.relocations {
            relocations.insert(relocation.offset, relocation);
        }
        let branches: BTreeMap<u64, &Vec<u64>> = section.branches.iter().map(|b| (b.0, &b.1)).collect();
        let mut lines = Vec::with_capacity(code.len());
        let mut text = String::with_capacity(128);
        for (at, decoded) in code.iter().enumerate() {
            let offset = at as u64 * 16;
            let mut line = Line {
                offset,
                guard: String::new(),
                body: String::new(),
                note: None,
                control: String::new(),
                latency: String::new(),
            };
            let Decoded::Known(inst) = decoded else {
                line.body = format!(".word {:#034x} ", section.words[at]);
                lines.push(line);
                continue;
            };
            let names = Names {
                listing: self,
                section: n,
                functions: reaches_functions(inst.form().mnemonic),
                replaced: relocations.get(&offset).map(|r| (r.field, self.relocated(r))),
            };
            text.clear();
            print_untrimmed(&mut text, inst, offset, &names);
            let (guard, body) = match text.split_once(' ') {
                // A guard of the uniform datapath stands with the text.
                Some((guard, body)) if guard.starts_with('@') && !guard.contains("UP") => (guard, body),
                _ => ("", text.as_str()),
            };
            line.guard.push_str(guard);
            let branch = branches.get(&offset);
            match body.rsplit_once(' ') {
                Some((head, _)) if self.file.relocatable && branch.is_some() => {
                    line.body = format!("{head} `((({} - .) - 0x10))", section.name);
                }
                _ => line.body.push_str(body),
            }
            if !inst.ctrl.is_idle() {
                line.body.push(' ');
            }
            if options.control {
                line.control = print_control(&inst.ctrl);
            }
            if options.latency {
                line.latency = super::live::latency_note(inst, self.file.sm);
            }
            let noted = section.notes.iter().find(|n| n.0 == offset).map(|n| format!("(*\"{}\"*)", n.1));
            line.note = noted.or_else(|| {
                let targets = branch?;
                let names: Vec<&str> = targets.iter().filter_map(|&t| self.label(n, t)).collect();
                Some(format!("(*\"BRANCH_TARGETS {}\"*)", names.join(",")))
            });
            if relocations.get(&offset).is_some_and(|r| r.field == Field::Opcode) {
                // 280 is the opcode of NOP.
                line.note = Some(format!("(*\"RELOCATOR OPCODE,{},280\"*)", inst.form().mnemonic));
            }
            lines.push(line);
        }
        lines
    }

    fn section(&self, n: usize, lines: &[Line], columns: Columns, options: Options) -> String {
        let section = &self.file.sections[n];
        let mut out = String::with_capacity(lines.len() * 96);
        out.push_str(&self.title(n, options.raw));
        for row in self.rows(n, lines.len()) {
            match row {
                Row::Function(function, end) => {
                    if options.apart {
                        out.push_str("\n\n\n\n");
                    }
                    for line in head(function, end) {
                        out.push_str(&line);
                        out.push('\n');
                    }
                }
                Row::Section => _ = writeln!(out, "{}:", section.name),
                Row::Label(label) => _ = writeln!(out, "{label}:"),
                Row::Inst(i) => {
                    let from = section.comments.partition_point(|c| c.0 < lines[i].offset);
                    for (_, text) in section.comments[from..].iter().take_while(|c| c.0 == lines[i].offset) {
                        let _ = writeln!(out, "\t{text}");
                    }
                    instruction(&mut out, &lines[i], section.words[i], columns, options);
                }
            }
        }
        if let Some(label) = self.label(n, lines.len() as u64 * 16) {
            let _ = writeln!(out, "{label}:");
        }
        out
    }
}

pub(super) fn columns(lines: &[Vec<Line>]) -> Columns {
    let notes_at = lines.iter().flatten().map(Line::width).max().unwrap_or(0);
    let note = lines.iter().flatten().filter_map(|l| l.note.as_ref()).map(String::len).max();
    Columns { notes_at, words_at: notes_at + 2 + note.unwrap_or(0) }
}

/// The instruction up to its semicolon.
pub(super) fn statement(out: &mut String, line: &Line, columns: Columns, options: Options) {
    let from = out.len();
    let _ = write!(out, "        /*{:04x}*/", line.offset);
    if !line.control.is_empty() {
        let _ = write!(out, " {} {:>5} ", line.control, line.guard);
    } else if options.raw {
        let _ = write!(out, "{:19}{}{}", "", line.guard, if line.guard.is_empty() { "" } else { " " });
    } else {
        let _ = write!(out, "{:>18} ", line.guard);
    }
    out.push_str(&line.body);
    if let Some(note) = &line.note {
        let at = if options.raw { out.len() - from + 9 } else { columns.notes_at };
        pad(out, from, at);
        out.push_str(note);
    }
    out.push(';');
}

fn instruction(out: &mut String, line: &Line, word: u128, columns: Columns, options: Options) {
    let from = out.len();
    statement(out, line, columns, options);
    if !line.latency.is_empty() {
        pad(out, from, columns.notes_at + 2);
        out.push_str(&line.latency);
    }
    if options.hex && !options.raw {
        let words_at = columns.words_at + if options.latency { 40 } else { 0 };
        pad(out, from, words_at);
        let _ = writeln!(out, "/* {:#018x} */", word as u64);
        let _ = write!(out, "{:words_at$}/* {:#018x} */", "", (word >> 64) as u64);
    }
    out.push('\n');
}

/// Spaces until the line that begins at `from` has `width` columns.
pub(super) fn pad(out: &mut String, from: usize, width: usize) {
    let have = out.len() - from;
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(have)));
}
