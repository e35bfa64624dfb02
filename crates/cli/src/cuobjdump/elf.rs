//! The sections of a cubin (`-elf`) as the vendor's tool prints them.

use super::{code, dwarf, frame, lines, symbols};
use crate::nvdisasm::relocation_name;
use cubin::attr;
use cubin::elf::{Elf, SHT_LOPROC, SHT_NOBITS, SHT_REL, SHT_RELA, Section, Symbol};
use std::collections::HashMap;
use std::fmt::Write;

/// Sections with data: their bytes are shown before all else.
const DATA: [&str; 3] = [".nv.constant", ".nv.global.init", ".nv.shared."];
/// The PTX, in files for debuggers.
const PTX: &str = ".nv_debug_ptx_txt";
/// Sections for debuggers in the order of the output; others come first.
const DEBUG: [&str; 10] = [
    ".debug_abbrev",
    ".debug_info",
    ".debug_loc",
    ".nv_debug_info_reg_sass",
    ".nv_debug_info_reg_type",
    ".debug_str",
    ".debug_line",
    ".nv_debug_line_sass",
    PTX,
    ".debug_frame",
];
/// Copies of sections for the capsules of sm_100 and later, which are not shown.
const CAPSULES: [&str; 2] = [".nv.merc.", ".nv.capmerc"];

/// A cubin's sections.
pub(super) struct Dump<'a> {
    pub elf: &'a Elf,
    pub symbols: Vec<Symbol>,
    pub out: String,
}

/// Prints everything in a cubin for a target. Where debugging information is damaged the text of a section ends before its
/// end; what is wrong comes beside the text.
///
/// # Errors
/// Where a table is damaged.
pub fn text(elf: &Elf, target: &str) -> Result<(String, Vec<String>), String> {
    let symbols = elf.symbols().map_err(|d| d.message)?;
    let mut dump = Dump { elf, symbols, out: String::new() };
    let mut wrong = Vec::new();
    dump.heading(target);
    dump.table_of_symbols();
    let shown = |s: &&Section| !CAPSULES.iter().any(|c| s.name.starts_with(c));
    let all: Vec<(usize, &Section)> = elf.sections.iter().enumerate().filter(|(_, s)| shown(s)).collect();
    let named = |start: &'static str| all.iter().filter(move |(_, s)| s.name.starts_with(start));
    for &(i, s) in &all {
        if DATA.iter().any(|d| s.name.starts_with(d)) {
            write!(dump.out, "\n\n{}\n", s.name).expect("a string");
            dump.bytes(s);
            dump.relocations(i);
        }
    }
    for &(_, s) in named(".note.") {
        dump.note(s);
    }
    for &(_, s) in all.iter().filter(|(_, s)| s.name.starts_with(".nv.info") || s.name == ".nv.compat") {
        write!(dump.out, "\n\n{}\n", s.name).expect("a string");
        let list = attr::read(&s.data).map_err(|d| d.message)?;
        dump.attributes(&list, s.name == ".nv.compat");
    }
    for &(_, s) in &all {
        match s.name.as_str() {
            ".nv.callgraph" => dump.pairs(s, false),
            ".nv.prototype" => dump.pairs(s, true),
            ".nv.rel.action" => dump.action(s),
            _ => {}
        }
    }
    for &(i, s) in named(".text.") {
        let shared = elf.section(&format!(".nv.shared.{}", &s.name[6..])).map_or(0, |x| x.1.size);
        write!(dump.out, "\n\n{}\nlmem=0\tsmem={shared}\n", s.name).expect("a string");
        dump.bytes(s);
        dump.relocations(i);
    }
    let debug = |s: &&(usize, &Section)| s.1.name.starts_with(".debug_") || s.1.name.starts_with(".nv_debug_");
    let mut shown: Vec<&(usize, &Section)> = all.iter().filter(|s| debug(s) && s.1.name != ".debug_macinfo").collect();
    shown.sort_by_key(|s| DEBUG.iter().position(|d| s.1.name.starts_with(d)).unwrap_or(0));
    for &&(i, s) in &shown {
        write!(dump.out, "\n.section {}\n", s.name).expect("a string");
        if let Err(d) = dump.debug(i, s) {
            wrong.push(format!("'{}': {}", s.name, d.message));
        }
        dump.relocations(i);
    }
    Ok((dump.out, wrong))
}

impl Dump<'_> {
    fn heading(&mut self, target: &str) {
        let h = &self.elf.header;
        let kind = match h.kind {
            cubin::elf::ET_EXEC => "ET_EXEC",
            cubin::elf::ET_REL => "ET_REL",
            _ => "ET_UNKNOWN",
        };
        const ABI_VERSION: usize = 8;
        let toolkit = code::toolkit(self.elf).unwrap_or(0);
        let _ = write!(
            self.out,
            "\n64-bit ELF: type={kind}, ABI={}, sm={}, toolkit={}.{}, flags={:#x}\nSections:\n\
             Index Offset   Size ES Align                      Type    Flags Link     Info Name\n",
            h.ident[ABI_VERSION],
            target.trim_start_matches("sm_"),
            toolkit / 10,
            toolkit % 10,
            h.flags
        );
        for (i, s) in self.elf.sections.iter().enumerate().skip(1) {
            let _ = writeln!(
                self.out,
                "{i:>5x}{:>7x}{:>7x}{:>3x}{:>3x}{:>29}{:>9x}{:>5x}{:>9x} {}",
                s.offset,
                s.size,
                s.entsize,
                s.align,
                type_name(s.kind),
                s.flags,
                s.link,
                s.info,
                s.name
            );
        }
    }

    fn table_of_symbols(&mut self) {
        self.out.push_str("\n.section .strtab\n\n.section .shstrtab\n\n.section .symtab\n");
        self.out.push_str(
            "   Num            Value             Size  Type          Bind    Vis        Other                                Ndx  Name\n",
        );
        for (i, s) in self.symbols.iter().enumerate() {
            let name = if s.name.is_empty() { "(null)" } else { &s.name };
            let _ = writeln!(
                self.out,
                "{:>6}{:>17}{:>17}  {}{:>6}  {name}",
                hex(i as u64),
                hex(s.value),
                hex(s.size),
                symbols::columns(s),
                hex(s.shndx as u64),
            );
        }
    }

    /// A section for debuggers.
    fn debug(&mut self, number: usize, s: &Section) -> dwarf::Printed {
        let other = |name: &str| self.elf.section(name).map_or(&[][..], |x| &x.1.data);
        let relocs =
            || self.elf.sections.iter().filter(|x| matches!(x.kind, SHT_REL | SHT_RELA) && x.info as usize == number);
        match s.name.as_str() {
            ".debug_abbrev" => dwarf::abbreviations(&mut self.out, &s.data),
            ".debug_info" => dwarf::entries(&mut self.out, &s.data, other(".debug_abbrev"), other(".debug_str")),
            ".debug_loc" => {
                let places = relocs().flat_map(|x| x.relocs()).map(|r| r.offset).collect();
                dwarf::locations(&mut self.out, &s.data, &places)
            }
            ".debug_frame" => {
                let names: HashMap<u64, u32> =
                    relocs().flat_map(|x| x.relocs()).map(|r| (r.offset, r.symbol)).collect();
                let symbols = &self.symbols;
                let function = |at: u64| symbols.get(*names.get(&at)? as usize).map(|s| s.name.as_str());
                frame::text(&mut self.out, &s.data, &function)
            }
            n if n.starts_with(".nv_debug_info_reg_sass") => dwarf::registers(&mut self.out, &s.data),
            n if n.starts_with(".nv_debug_info_reg_type") => dwarf::types(&mut self.out, &s.data),
            n => {
                let text = match n {
                    ".debug_line" | ".nv_debug_line_sass" => lines::text(&s.data),
                    // Texts, each with a zero behind it.
                    n if n == ".debug_str" || n.starts_with(PTX) => {
                        Some(String::from_utf8_lossy(&s.data).replace('\0', "\n")).filter(|t| t.ends_with('\n'))
                    }
                    _ => None,
                };
                match text {
                    Some(text) => self.out.push_str(&text),
                    None => self.bytes(s),
                }
                Ok(())
            }
        }
    }

    /// Words, four in a row, and the bytes that are left.
    fn bytes(&mut self, s: &Section) {
        if s.data.is_empty() && (s.kind == SHT_NOBITS || s.kind >= SHT_LOPROC) {
            self.out.push_str("   No data to be dumped. \n");
            return;
        }
        for row in s.data.chunks(16) {
            for (i, word) in row.chunks(4).enumerate() {
                let last = if i == 3 { "\n" } else { " " };
                let _ = match *word {
                    [a, b, c, d] => write!(self.out, "0x{:08x}{last}", u32::from_le_bytes([a, b, c, d])),
                    _ => word.iter().try_for_each(|b| write!(self.out, "0x{b:02x} ")),
                };
            }
        }
        self.out.push('\n');
    }

    /// The relocations of a section, without and with addends.
    fn relocations(&mut self, section: usize) {
        for (kind, what) in [(SHT_REL, "REL"), (SHT_RELA, "RELA")] {
            for s in self.elf.sections.iter().filter(|s| s.kind == kind && s.info as usize == section) {
                let _ = writeln!(self.out, "\n.section {}\t{what}", s.name);
                for r in s.relocs() {
                    let name = self.symbols.get(r.symbol as usize).map_or("", |s| &s.name);
                    let _ = write!(self.out, "{:#x}    {name}    {}", r.offset, relocation_name(r.kind));
                    let _ = match kind {
                        SHT_RELA => writeln!(self.out, "    {:#x}", r.addend),
                        _ => writeln!(self.out),
                    };
                }
            }
        }
    }

    /// Pairs of symbols, or of a symbol and a string; a symbol 0 opens a list of its own.
    fn pairs(&mut self, s: &Section, strings: bool) {
        let _ = write!(self.out, "\n\n{}\n", s.name);
        let names = self.elf.section(".strtab").map_or(&[][..], |x| &x.1.data);
        for p in s.data.chunks_exact(8) {
            let word = |i: usize| i32::from_le_bytes([p[i], p[i + 1], p[i + 2], p[i + 3]]);
            let (a, b) = (word(0), word(4));
            let text = if strings { format!("({})", cubin::elf::string_at(names, b as u32)) } else { String::new() };
            let _ = writeln!(self.out, " <{a},{b}{text}>");
        }
    }

    /// Which bits of an instruction the driver moves for a kind of relocation.
    fn action(&mut self, s: &Section) {
        const LINES: &str = "Reloc type : Symbol Kind,Addend Shift,Source Position1,length1,Destination Position1,\
                             Source Position2,length2,Destination Position2";
        let Some((kind, [addend, from1, length1, to1, from2, length2, to2, ..])) =
            s.data.split_first_chunk::<4>().and_then(|(k, rest)| {
                let fields: [u8; 7] = [
                    rest.get(4)?,
                    rest.get(5)?,
                    rest.get(7)?,
                    rest.get(8)?,
                    rest.get(9)?,
                    rest.get(10)?,
                    rest.get(11)?,
                ]
                .map(|b| *b);
                Some((u32::from_le_bytes(*k), fields))
            })
        else {
            return;
        };
        let name = relocation_name(kind);
        let _ = write!(
            self.out,
            "\n\n{}\nHeader : Base Relocation : {name}\n{LINES}\n{name} : EIVALUE_SYM_KIND_ADDR,{addend},{from1},{length1},{to1},{from2},{length2},{to2}\n",
            s.name
        );
    }

    /// The notes of a section: who made the file and for what.
    fn note(&mut self, s: &Section) {
        let _ = writeln!(self.out, "\n\n.section {}", s.name);
        let word =
            |at: usize| s.data.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
        let half = |at: usize| s.data.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
        let (mut at, mut number) = (0, 1);
        while at + 12 <= s.data.len() {
            let (name, size) = (word(at), word(at + 4));
            let body = at + 12 + name.next_multiple_of(4);
            let owner = code::string(s.data.get(at + 12..at + 12 + name).unwrap_or_default());
            let tool = s.name == ".note.nv.tkinfo";
            let what = if tool { "NVIDIA CUDA Toolkit Information" } else { "NVIDIA CUDA Information" };
            let _ = writeln!(self.out, "Entry: {number}\n  Owner                  Data size        Description");
            let _ = writeln!(self.out, "  {owner:<23}{size:<17}{what}");
            if tool {
                if number == 1 {
                    let _ = writeln!(self.out, "\tNote Version: {}", word(body));
                }
                let fields = ["Object File", "Tool Name", "Tool Version", "Tool Branch", "Tool Command Line Arguments"];
                for (i, field) in fields.iter().enumerate() {
                    // Offsets of strings, counted from behind them.
                    let offset = (body + 24).saturating_add(word(body + 4 + 4 * i));
                    let text = code::string(s.data.get(offset..).unwrap_or_default());
                    // Only files for debuggers name themselves.
                    if i > 0 || !text.is_empty() {
                        let _ = writeln!(self.out, "\t{field}: {text}");
                    }
                }
            } else {
                let (sm, toolkit) = (half(body + 2), half(body + 4));
                let _ = writeln!(
                    self.out,
                    "\tNote Version: {}\n\tCUDA Virtual SM: sm_{sm}\n\tCUDA Tool Kit Version: {}.{}",
                    half(body),
                    toolkit / 10,
                    toolkit % 10
                );
            }
            at = body.saturating_add(size.next_multiple_of(4));
            number += 1;
        }
    }
}

/// A number with `0x`, but 0.
fn hex(n: u64) -> String {
    if n == 0 { "0".into() } else { format!("{n:#x}") }
}

/// The name of a type of sections. (Read off what cuobjdump 13.5 prints for each number.)
fn type_name(kind: u32) -> String {
    let name = match kind {
        0 => "NULL",
        1 => "PROGBITS",
        2 => "SYMTAB",
        3 => "STRTAB",
        4 => "RELA",
        5 => "HASH",
        6 => "DYNAMIC",
        7 => "NOTE",
        8 => "NOBITS",
        9 => "REL",
        10 => "SHLIB",
        14 => "INIT_ARRAY",
        15 => "FINI_ARRAY",
        16 => "PREINIT_ARRAY",
        18 => "SYMTAB_SHNDX",
        _ => "",
    };
    let special = match kind.wrapping_sub(SHT_LOPROC) {
        0 => "INFO",
        1 => "CALLGRAPH",
        2 => "PROTOTYPE",
        3 => "RESOLVED_RELA",
        4 => "METADATA",
        6 => "CONSTANT",
        7 => "GLOBAL",
        8 => "GLOBAL_INIT",
        9 => "LOCAL",
        10 => "SHARED",
        11 => "RELOCINFO",
        14 => "UFT",
        16 => "UIDX",
        17 => "UFT_ENTRY",
        18 => "UDT",
        20 => "UDT_ENTRY",
        21 => "RESERVED_SHARED",
        0x86 => "COMPAT_INFO",
        0x87 => "EMBEDDED_HOST",
        0x89 => "METADATA_TRACE_MARK",
        n @ 0x64..=0x6b => return format!("CUDA_CONSTANT_B{}", n - 0x64),
        _ => "",
    };
    match (name, special) {
        ("", "") => format!("UNKNOWN: {:>3}", kind.wrapping_sub(SHT_LOPROC) as i32),
        ("", special) => format!("CUDA_{special}"),
        (name, _) => name.into(),
    }
}
