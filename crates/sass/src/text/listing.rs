//! The code of a file as a listing: what the vendor's `nvdisasm` prints for `.text` sections, line by line.
//!
//! Read off what release 13.5 prints for code that releases 13.0 and 13.5 made for sm_90.
//!
//! Labels are numbered over the whole file, in five rounds:
//! 1. relocations that name a place inside a function (return addresses), by section and offset;
//! 2. targets of branches that are no function called or returned to, by section and offset;
//! 3. offsets that attributes list ([`Section::marks`]); each takes a number, used or not;
//! 4. targets in jump tables of relocatable files; each takes a number, used or not;
//! 5. ends of functions, in the order of symbols; each takes a number, used or not.

use super::{Labels, print_untrimmed};
use crate::codec::{Decoded, decode};
use crate::form::{Slot, SlotKind};
use crate::inst::{Operand, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Binding of a function's symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Seen in its file alone.
    Local,
    /// Visible.
    Global,
    /// Visible, and may be replaced.
    Weak,
}

/// A function's symbol.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name as in the symbol table.
    pub name: String,
    /// Index into [`File::sections`].
    pub section: usize,
    /// First byte, from the section's begin.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Binding.
    pub binding: Binding,
    /// A kernel (symbol flag `STO_CUDA_ENTRY`).
    pub entry: bool,
}

/// What a relocation puts into an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// A whole value in the 32-bit immediate.
    Value,
    /// The low half of an address in the 32-bit immediate.
    Low,
    /// The high half of an address in the 32-bit immediate.
    High,
    /// The low half of a function's address, which may be a unified function.
    UnifiedLow,
    /// The high half of such an address.
    UnifiedHigh,
    /// The offset of a constant.
    Constant,
    /// The address that is called.
    Call,
}

impl Field {
    /// The field of an ELF relocation's type; None for those that print nothing. The numbers are those that ptxas 13.0
    /// and 13.5 write into sm_90 code.
    pub fn of_type(kind: u32) -> Option<Field> {
        Some(match kind {
            0x37 | 0x3b => Field::Value,
            0x38 => Field::Low,
            0x39 => Field::High,
            0x70 => Field::UnifiedLow,
            0x71 => Field::UnifiedHigh,
            0x42 => Field::Constant,
            0x4b | 0x72 => Field::Call,
            _ => return None,
        })
    }

    /// Whether an operand in this slot is the one.
    fn fits(self, slot: &Slot, op: &Operand) -> bool {
        let from = slot.bits.first().map(|b| b.0);
        match self {
            Field::Constant => matches!(op.value, Value::Const { .. }),
            Field::Call => !matches!(op.value, Value::Reg(_)) && slot.bits.iter().any(|b| b.0 == 34),
            _ => matches!(slot.kind, SlotKind::Imm { .. }) && from == Some(32),
        }
    }
}

/// A relocation of a `.text` section.
#[derive(Clone, Debug)]
pub struct Relocation {
    /// The instruction's first byte, from the section's begin.
    pub offset: u64,
    /// Which bits.
    pub field: Field,
    /// Name of the symbol.
    pub symbol: String,
    /// Index into [`File::functions`], if the symbol is a function that is defined here.
    pub function: Option<usize>,
    /// Added to the symbol's value.
    pub addend: i64,
}

/// A `.text` section.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Name: `.text.kernel`.
    pub name: String,
    /// Alignment in bytes.
    pub align: u64,
    /// The code, in words of 16 bytes.
    pub words: Vec<u128>,
    /// Its relocations, in any order.
    pub relocations: Vec<Relocation>,
    /// The offsets of instructions in the attributes of `.nv.info.kernel` that list such (`EXIT_INSTR_OFFSETS`,
    /// `COOP_GROUP_INSTR_OFFSETS`, `INT_WARP_WIDE_INSTR_OFFSETS`, `SYSCALL_OFFSETS`, the first word of each pair of
    /// `UNUSED_LOAD_BYTE_OFFSET` and of each four of `MBARRIER_INSTR_OFFSETS`, and of
    /// `INDIRECT_BRANCH_TARGETS` the branch and then its targets), in their order.
    pub marks: Vec<u64>,
    /// Each indirect branch with its targets, as `INDIRECT_BRANCH_TARGETS` has them.
    pub branches: Vec<(u64, Vec<u64>)>,
    /// In a relocatable file, the targets in the kernel's jump tables (the objects in `.nv.constant2.kernel`), in order.
    pub tables: Vec<u64>,
}

/// The code of one file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Number of the SM.
    pub sm: u16,
    /// An object yet to be linked (`ET_REL`), in which indirect branches show what they are relative to.
    pub relocatable: bool,
    /// `.text` sections in the order of section headers.
    pub sections: Vec<Section>,
    /// Functions that are defined, in the order of symbols.
    pub functions: Vec<Function>,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-hex`: the words beside the instructions.
    pub hex: bool,
    /// `-raw`: guards are not lined up and tabs are spaces; `hex` has then no effect.
    pub raw: bool,
    /// Not of the vendor: the control field before each instruction.
    pub control: bool,
}

/// Labels of a section by offset.
type Places = BTreeMap<u64, String>;

/// The listing of every section of `file`, in order: the lines from the one that names the section to the label at its end,
/// each with a line feed. Between sections, `nvdisasm` prints two empty lines.
///
/// For a file it prints `\t.target\tsm_90\n\n\t.elftype\t@"ET_EXEC"\n` first, then two empty lines before each section;
/// `-c` prints code sections only and, as without it, the undefined symbols at the end.
/// A word that is no known instruction stands there as data (the vendor's tool refuses the file).
pub fn listing(file: &File, options: Options) -> Vec<String> {
    let code: Vec<Vec<Decoded>> =
        file.sections.iter().map(|s| s.words.iter().map(|&w| decode(w, file.sm)).collect()).collect();
    let labels = number(file, &code);
    let lines: Vec<Vec<Line>> =
        code.iter().enumerate().map(|(n, code)| lines(file, n, code, &labels, options)).collect();
    // One width for the whole file.
    let notes_at = lines.iter().flatten().map(Line::width).max().unwrap_or(0);
    let note = lines.iter().flatten().filter_map(|l| l.note.as_ref()).map(String::len).max();
    let columns = Columns { notes_at, words_at: notes_at + 2 + note.unwrap_or(0) };
    let sections = lines.iter().enumerate();
    sections.map(|(n, lines)| section(file, n, lines, &labels[n], columns, options)).collect()
}

/// Where what follows the instructions begins.
#[derive(Clone, Copy)]
struct Columns {
    notes_at: usize,
    words_at: usize,
}

/// Gives numbers to labels.
fn number(file: &File, code: &[Vec<Decoded>]) -> Vec<Places> {
    let mut places = vec![Places::new(); file.sections.len()];
    let mut next = 0u32;
    // Whether the place had no name yet.
    let mut name = |next: u32, section: usize, offset: u64| -> bool {
        let Some(places) = places.get_mut(section) else { return false };
        let new = !places.contains_key(&offset);
        if new {
            places.insert(offset, format!(".L_x_{next}"));
        }
        new
    };
    for section in &file.sections {
        let mut relocations: Vec<&Relocation> = section.relocations.iter().filter(|r| r.addend != 0).collect();
        relocations.sort_by_key(|r| r.offset);
        for relocation in relocations {
            let Some(function) = relocation.function.and_then(|f| file.functions.get(f)) else { continue };
            let target = function.offset.wrapping_add_signed(relocation.addend);
            next += name(next, function.section, target) as u32;
        }
    }
    for (n, words) in code.iter().enumerate() {
        let mut based = false;
        for (at, inst) in words.iter().enumerate() {
            let Some(inst) = inst.known() else { continue };
            // An indirect branch there goes to the section's begin, which has a name, but takes a number.
            if file.relocatable && !based && file.sections[n].branches.iter().any(|b| b.0 == at as u64 * 16) {
                (based, next) = (true, next + 1);
            }
            for op in &inst.operands {
                let Value::Target(distance) = op.value else { continue };
                let target = at as i64 * 16 + 16 + distance;
                let inside = (0..=words.len() as i64 * 16).contains(&target) && target % 16 == 0;
                let called = reaches_functions(inst.form().mnemonic) && function_at(file, n, target as u64).is_some();
                if inside && !called {
                    next += name(next, n, target as u64) as u32;
                }
            }
        }
    }
    for (n, section) in file.sections.iter().enumerate() {
        for &mark in &section.marks {
            name(next, n, mark);
            next += 1;
        }
    }
    for (n, section) in file.sections.iter().enumerate() {
        for &target in &section.tables {
            name(next, n, target);
            next += 1;
        }
    }
    for function in &file.functions {
        let end = function.offset.saturating_add(function.size);
        if function_at(file, function.section, end).is_none() {
            name(next, function.section, end);
        }
        next += 1;
    }
    places
}

/// Calls and returns show functions by name; branches do not.
fn reaches_functions(mnemonic: &str) -> bool {
    mnemonic.starts_with("CALL") || mnemonic.starts_with("RET")
}

fn function_at(file: &File, section: usize, offset: u64) -> Option<&Function> {
    file.functions.iter().find(|f| f.section == section && f.offset == offset)
}

/// What operands of one instruction show.
struct Names<'a> {
    file: &'a File,
    section: usize,
    places: &'a Places,
    functions: bool,
    replaced: Option<(Field, String)>,
}

impl Labels for Names<'_> {
    fn label(&self, address: i64) -> Option<&str> {
        let address = u64::try_from(address).ok()?;
        let function = if self.functions { function_at(self.file, self.section, address) } else { None };
        function.map(|f| f.name.as_str()).or_else(|| self.places.get(&address).map(String::as_str))
    }

    fn replaced(&self, slot: &Slot, op: &Operand) -> Option<&str> {
        self.replaced.as_ref().filter(|r| r.0.fits(slot, op)).map(|r| r.1.as_str())
    }
}

/// What stands in place of the operand that a relocation fills.
fn relocated(file: &File, labels: &[Places], relocation: &Relocation) -> String {
    let mut place = relocation.symbol.clone();
    if relocation.addend != 0 {
        let function = relocation.function.and_then(|f| file.functions.get(f));
        let label = function
            .and_then(|f| labels.get(f.section).and_then(|p| p.get(&f.offset.wrapping_add_signed(relocation.addend))));
        place = match label {
            Some(label) => format!("({place} + {label}@srel)"),
            None => {
                let sign = if relocation.addend < 0 { "-" } else { "" };
                format!("({place} + {sign}{:#x})", relocation.addend.unsigned_abs())
            }
        };
    }
    match relocation.field {
        Field::Value | Field::Call | Field::Constant => format!("`({place})"),
        Field::Low => format!("32@lo({place})"),
        Field::High => format!("32@hi({place})"),
        Field::UnifiedLow => format!("32@lo(fun@unified({place}))"),
        Field::UnifiedHigh => format!("32@hi(fun@unified({place}))"),
    }
}

/// An instruction's line, without its word.
struct Line {
    offset: u64,
    guard: String,
    /// The text; a space ends it unless the stall is 0.
    body: String,
    /// Comment on an indirect branch.
    note: Option<String>,
}

impl Line {
    /// Columns up to where a note may begin: the width that lines up notes and words.
    fn width(&self) -> usize {
        let digits = format!("{:04x}", self.offset).len();
        let guard = if self.guard.is_empty() { 0 } else { self.guard.len() + 1 };
        8 + digits + 4 + 19 + guard + self.body.len() + 1
    }
}

fn lines(file: &File, n: usize, code: &[Decoded], labels: &[Places], options: Options) -> Vec<Line> {
    let section = &file.sections[n];
    let mut relocations = BTreeMap::new();
    for relocation in &section.relocations {
        relocations.insert(relocation.offset, relocation);
    }
    let mut lines = Vec::with_capacity(code.len());
    for (at, decoded) in code.iter().enumerate() {
        let offset = at as u64 * 16;
        let Decoded::Known(inst) = decoded else {
            let body = format!(".word {:#034x} ", section.words[at]);
            lines.push(Line { offset, guard: String::new(), body, note: None });
            continue;
        };
        let names = Names {
            file,
            section: n,
            places: &labels[n],
            functions: reaches_functions(inst.form().mnemonic),
            replaced: relocations.get(&offset).map(|r| (r.field, relocated(file, labels, r))),
        };
        let mut text = String::with_capacity(64);
        print_untrimmed(&mut text, inst, offset, &names);
        let (guard, body) = match text.split_once(' ') {
            Some((guard, body)) if guard.starts_with('@') => (guard.to_string(), body),
            _ => (String::new(), text.as_str()),
        };
        let mut body = body.to_string();
        let branch = section.branches.iter().find(|b| b.0 == offset);
        if file.relocatable
            && branch.is_some()
            && let Some((head, _)) = body.rsplit_once(' ')
        {
            body = format!("{head} `((({} - .) - 0x10))", section.name);
        }
        if options.control {
            body = format!("{} {body}", super::print_control(&inst.ctrl));
        }
        if inst.ctrl.stall != 0 {
            body.push(' ');
        }
        let note = branch.map(|(_, targets)| {
            let names: Vec<&str> = targets.iter().filter_map(|t| labels[n].get(t).map(String::as_str)).collect();
            format!("(*\"BRANCH_TARGETS {}\"*)", names.join(","))
        });
        lines.push(Line { offset, guard, body, note });
    }
    lines
}

fn head(out: &mut String, function: &Function, end: &str) {
    let name = &function.name;
    match function.binding {
        Binding::Local => {}
        Binding::Global => _ = writeln!(out, "        .global         {name}"),
        Binding::Weak => _ = writeln!(out, "        .weak           {name}"),
    }
    let _ = writeln!(out, "        .type           {name},@function");
    let _ = writeln!(out, "        .size           {name},({end} - {name})");
    if function.entry {
        let _ = writeln!(out, "        .other          {name},@\"STO_CUDA_ENTRY STV_DEFAULT\"");
    }
    let _ = writeln!(out, "{name}:");
}

fn section(file: &File, n: usize, lines: &[Line], places: &Places, columns: Columns, options: Options) -> String {
    let section = &file.sections[n];
    let Columns { notes_at, words_at } = columns;
    let mut out = String::with_capacity(lines.len() * 96);
    let (tab, short) = if options.raw { ("        ", "  ") } else { ("\t", "\t") };
    let _ = writeln!(out, "//--------------------- {:<25} --------------------------", section.name);
    let _ = writeln!(out, "{tab}.section{tab}{},\"ax\",@progbits", section.name);
    let _ = writeln!(out, "{tab}.align{short}{}", section.align);
    let heads = |out: &mut String, offset: u64, local: Option<bool>| {
        for function in file.functions.iter().filter(|f| f.section == n && f.offset == offset) {
            if local.is_none_or(|l| l == (function.binding == Binding::Local)) {
                let end = function.offset.saturating_add(function.size);
                let next = function_at(file, n, end).map(|f| f.name.as_str());
                head(out, function, next.or_else(|| places.get(&end).map(String::as_str)).unwrap_or("."));
            }
        }
    };
    heads(&mut out, 0, Some(false));
    let _ = writeln!(out, "{}:", section.name);
    heads(&mut out, 0, Some(true));
    for (line, word) in lines.iter().zip(&section.words) {
        if line.offset != 0 {
            heads(&mut out, line.offset, None);
        }
        if let Some(label) = places.get(&line.offset) {
            let _ = writeln!(out, "{label}:");
        }
        let from = out.len();
        let _ = write!(out, "        /*{:04x}*/", line.offset);
        if options.raw {
            let _ = write!(out, "{:19}{}{}", "", line.guard, if line.guard.is_empty() { "" } else { " " });
        } else {
            let _ = write!(out, "{:>18} ", line.guard);
        }
        out.push_str(&line.body);
        if let Some(note) = &line.note {
            let at = if options.raw { out.len() - from + 9 } else { notes_at };
            pad(&mut out, from, at);
            out.push_str(note);
        }
        out.push(';');
        if options.hex && !options.raw {
            pad(&mut out, from, words_at);
            let _ = writeln!(out, "/* {:#018x} */", *word as u64);
            let _ = write!(out, "{:words_at$}/* {:#018x} */", "", (word >> 64) as u64);
        }
        out.push('\n');
    }
    if let Some(label) = places.get(&(lines.len() as u64 * 16)) {
        let _ = writeln!(out, "{label}:");
    }
    out
}

/// Spaces until the line that begins at `from` has `width` columns.
fn pad(out: &mut String, from: usize, width: usize) {
    let have = out.len() - from;
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(have)));
}
