//! Sections other than code, as the vendor's tool prints them: data with its symbols and relocations, notes, attributes,
//! the call graph.

use super::file::{Input, relocations};
use super::info;
use super::relocations::relocation_name;
use cubin::attr;
use cubin::elf::{ET_REL, Reloc, SHT_LOPROC, SHT_NOBITS, SHT_NOTE, Section, Symbol};
use sass::text::listing::Listing;
use std::fmt::Write as _;

/// The type of `.nv.rel.action`, less [`SHT_LOPROC`].
const RELOCINFO: u32 = 0xb;

/// What stands for a section's type; by what release 13.5 prints.
fn type_name(kind: u32) -> String {
    if kind >= SHT_LOPROC {
        let name = match kind - SHT_LOPROC {
            0x00 => "INFO",
            0x01 => "CALLGRAPH",
            0x02 => "PROTOTYPE",
            0x03 => "RESOLVED_RELA",
            0x04 => "METADATA",
            0x06 => "CONSTANT",
            0x07 => "GLOBAL",
            0x08 => "GLOBAL_INIT",
            0x09 => "LOCAL",
            0x0a => "SHARED",
            0x0b => "RELOCINFO",
            0x0e => "UFT",
            0x10 => "UFT_INDEX",
            0x11 => "UFT_ENTRY",
            0x12 => "UDT",
            0x14 => "UDT_ENTRY",
            0x15 => "SHARED_RESERVED",
            0x16 => "CAPMERC",
            n @ 0x64..=0x75 => return format!("@\"SHT_CUDA_CONSTANT_B{}\"", n - 0x64),
            0x86 => "COMPAT_INFO",
            _ => return format!("@\"{kind:#x}\""),
        };
        return format!("@\"SHT_CUDA_{name}\"");
    }
    match kind {
        SHT_NOTE => "@\"SHT_NOTE\"".into(),
        SHT_NOBITS => "@nobits".into(),
        _ => "@progbits".into(),
    }
}

/// How many bytes a relocation of data fills.
fn relocation_size(kind: u32) -> usize {
    match kind {
        0x01 | 0x03 | 0x06 | 0x07 | 0x22 | 0x34 | 0x48 | 0x67 => 4,
        0x65 => 2,
        0x4c..=0x63 | 0x68..=0x6f => 1,
        _ => 8,
    }
}

/// Bytes, sixteen a line; `.zero` where all are 0.
pub(super) fn rows_of_bytes(out: &mut String, at: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    if bytes.iter().all(|&b| b == 0) {
        let _ = writeln!(out, "\t.zero\t\t{}", bytes.len());
        return;
    }
    raw_rows(out, at, bytes);
}

fn raw_rows(out: &mut String, at: u64, bytes: &[u8]) {
    for (n, row) in bytes.chunks(16).enumerate() {
        let _ = write!(out, "        /*{:04x}*/ \t.byte\t", at + n as u64 * 16);
        for (i, b) in row.iter().enumerate() {
            let _ = write!(out, "{}{b:#04x}", if i == 0 { "" } else { ", " });
        }
        out.push('\n');
    }
}

/// What sections are printed from.
pub(super) struct Items<'a> {
    input: &'a Input<'a>,
    listing: &'a Listing<'a>,
    /// Symbols of objects, each with the number of the label at its end.
    ends: Vec<Option<usize>>,
    /// The next label.
    next: std::cell::Cell<usize>,
}

impl<'a> Items<'a> {
    /// `shown` says which sections are shown: the others' objects have no labels.
    pub fn new(input: &'a Input<'a>, listing: &'a Listing<'a>, shown: &dyn Fn(&Section) -> bool) -> Items<'a> {
        let mut next = 0;
        let end = |s: &Symbol| {
            // Objects that lie in a section of data; each takes a number.
            let section = input.elf.sections.get(s.shndx as usize).filter(|_| s.shndx != 0);
            let inside = section.is_some_and(shown) && is_object(s) && s.size > 0 && !sized_alone(s, input);
            inside.then(|| {
                next += 1;
                next - 1
            })
        };
        let ends = input.symbols.iter().map(end).collect();
        Items { input, listing, ends, next: next.into() }
    }

    /// The name of a symbol; of a section's, that of the section.
    pub fn symbol(&self, n: usize) -> Option<&str> {
        let s = self.input.symbols.get(n)?;
        if s.kind == 3 && s.name.is_empty() {
            return self.input.elf.sections.get(s.shndx as usize).map(|s| s.name.as_str());
        }
        Some(&s.name)
    }

    /// One section with its three lines of head; None for those that are never shown.
    pub fn section(&self, n: usize) -> Result<Option<String>, String> {
        let s = &self.input.elf.sections[n];
        if hidden(s) {
            return Ok(None);
        }
        let mut out = self.title(n, s);
        if s.kind == SHT_NOTE {
            notes(&mut out, s);
        } else if s.kind == SHT_LOPROC {
            let list = attr::read(&s.data).map_err(|d| d.message)?;
            let text = self.input.texts.iter().position(|&t| t == s.info as usize);
            let place = |offset: u64| text.and_then(|t| self.listing.label(t, offset)).map(str::to_string);
            let mut next = self.next.get();
            info::print(&mut out, &list, &mut next, self, &place)
                .map_err(|m| if m.starts_with("Unknown") { m } else { format!("Section \"{}\": {m}", s.name) })?;
            self.next.set(next);
        } else if matches!(s.kind.wrapping_sub(SHT_LOPROC), 1 | 2) {
            self.pairs(&mut out, s)?;
        } else if s.kind == SHT_LOPROC + RELOCINFO {
            // Shown without its name.
            raw_rows(&mut out, 0, &s.data);
        } else {
            self.data(&mut out, n, s);
        }
        Ok(Some(out))
    }

    fn title(&self, n: usize, s: &Section) -> String {
        let mut out = format!("//--------------------- {:<25} --------------------------\n", s.name);
        let flags: String = [(2, 'a'), (1, 'w'), (4, 'x')].iter().filter(|f| s.flags & f.0 != 0).map(|f| f.1).collect();
        let _ = writeln!(out, "\t.section\t{},\"{flags}\",{}", s.name, type_name(s.kind));
        let own = match s.flags & 0x0f00_0000 {
            0x0100_0000 => Some("SHF_NOTE_NV_CUINFO"),
            0x0200_0000 => Some("SHF_NOTE_NV_TKINFO"),
            _ => (s.flags & 0x40 != 0).then_some(""),
        };
        if let Some(own) = own {
            let _ = writeln!(out, "\t.sectionflags\t@\"{own}\"");
        }
        if s.kind != SHT_NOTE && s.align > 1 {
            let _ = writeln!(out, "\t.align\t{}", s.align);
        }
        if s.entsize != 0 {
            let _ = writeln!(out, "\t.sectionentsize\t{}", s.entsize);
        }
        let _ = n;
        out
    }

    /// The call graph and prototypes: pairs of symbols, or a symbol and a string.
    fn pairs(&self, out: &mut String, s: &Section) -> Result<(), String> {
        let strings = self.input.elf.sections.iter().find(|t| t.kind == 2).map(|t| t.link as usize);
        let strings =
            strings.and_then(|n| self.input.elf.sections.get(n)).map(|s| s.data.as_slice()).unwrap_or_default();
        let words: Vec<u32> = s.data.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
        // Which of the lists of the call graph it is.
        let mut list = if s.kind == SHT_LOPROC + 2 { 2 } else { 0 };
        for (n, &word) in words.iter().enumerate() {
            let second = n % 2 == 1;
            if second && word >= 0xffff_fffc {
                list = word.wrapping_neg();
            }
            let text = match word {
                0 | 0xffff_fffc.. => format!("{word:#010x}"),
                _ if second && matches!(list, 2 | 3) => {
                    format!("str_index@(\"{}\")", cubin::elf::string_at(strings, word))
                }
                _ => {
                    let name = self.symbol(word as usize).ok_or(format!("Unknown symbol index: {word}"))?;
                    format!("index@({name})")
                }
            };
            let _ = writeln!(out, "\t.align\t\t4\n        /*{:04x}*/ \t.word\t{text}", n * 4);
        }
        Ok(())
    }

    /// Bytes, with symbols and relocations where they lie.
    fn data(&self, out: &mut String, n: usize, s: &Section) {
        let inside = |(_, t): &(usize, &Symbol)| t.shndx as usize == n;
        let alone = self.input.elf.header.kind == ET_REL && s.kind == SHT_LOPROC + 0xa;
        // Shared memory of a linkable file: what stands as value is the alignment, each is printed by itself.
        let place = |t: &Symbol| if sized_alone(t, self.input) { 0 } else { t.value };
        let mut symbols: Vec<(usize, &Symbol)> = self.input.symbols.iter().enumerate().filter(inside).collect();
        let rank = |t: &Symbol| match (t.kind, t.bind) {
            (3, _) => 1,
            (_, 0) => 2,
            _ => 0,
        };
        symbols.sort_by_key(|(i, t)| if alone { (*i as u64, 0) } else { (place(t), rank(t)) });
        if alone {
            for (i, t) in symbols.iter().rev().filter(|(_, t)| t.kind != 3) {
                self.object(out, *i, t);
                let _ = writeln!(out, "\t.zero\t\t{}", t.size);
            }
            if symbols.iter().any(|(_, t)| t.kind == 3) {
                let _ = writeln!(out, "{}:", s.name);
            }
            return;
        }
        let mut relocs: Vec<Reloc> = relocations(self.input.elf, n);
        relocs.sort_by_key(|r| r.offset);
        let size = s.size;
        let mut labels: Vec<(u64, usize)> = symbols
            .iter()
            .filter_map(|(i, t)| {
                let end = t.value.saturating_add(t.size);
                let named = symbols.iter().any(|(_, o)| is_object(o) && o.value == end && o.size > 0);
                self.ends[*i].filter(|_| !named && t.size > 0).map(|l| (end, l))
            })
            .collect();
        labels.sort_unstable();
        labels.dedup_by_key(|l| l.0);
        // Jump tables of a linkable file.
        let table = s.name.strip_prefix(".nv.constant2").filter(|_| self.input.code.relocatable);
        let table =
            table.and_then(|k| self.input.code.sections.iter().position(|t| t.name.strip_prefix(".text") == Some(k)));
        let table = table.filter(|&t| !self.input.code.sections[t].tables.is_empty());
        let mut cuts: Vec<u64> = symbols.iter().map(|(_, t)| place(t)).collect();
        cuts.extend(labels.iter().map(|l| l.0));
        cuts.extend(relocs.iter().flat_map(|r| [r.offset, r.offset + relocation_size(r.kind) as u64]));
        cuts.extend([0, size]);
        cuts.retain(|&c| c <= size);
        cuts.sort_unstable();
        cuts.dedup();
        for (n, &at) in cuts.iter().enumerate() {
            let reloc = relocs.iter().find(|r| r.offset == at && at < size);
            if reloc.is_some_and(|r| relocation_size(r.kind) as u64 <= s.align && s.align > 1) {
                let _ = writeln!(out, "\t.align\t\t{}", relocation_size(reloc.map_or(0, |r| r.kind)));
            }
            if let Some((_, label)) = labels.iter().find(|l| l.0 == at) {
                let _ = writeln!(out, ".L_{label}:");
            }
            for (i, t) in symbols.iter().filter(|(_, t)| place(t) == at) {
                match t.kind {
                    3 => _ = writeln!(out, "{}:", if t.name.is_empty() { &s.name } else { &t.name }),
                    _ => self.object(out, *i, t),
                }
                if sized_alone(t, self.input) {
                    let _ = writeln!(out, "\t.zero\t\t{}", t.size);
                }
            }
            let Some(&next) = cuts.get(n + 1) else { break };
            match reloc {
                Some(r) => {
                    let what = match relocation_size(r.kind) {
                        1 => ".byte",
                        2 => ".short",
                        4 => ".word",
                        _ => ".dword",
                    };
                    // A texture and its sampler share a word.
                    let of = |kind| relocs.iter().find(|r| r.offset == at && r.kind == kind);
                    let said = match (of(0x06), of(0x07)) {
                        (Some(texture), Some(sampler)) => self.relocated(sampler, &self.relocated(texture, "0x0")),
                        _ => self.relocated(r, "0x0"),
                    };
                    let _ = writeln!(out, "        /*{at:04x}*/ \t{what}\t{said}");
                }
                None if table.is_some() => {
                    let bytes = s.data.get(at as usize..next as usize).unwrap_or_default();
                    self.targets(out, at, bytes, table.unwrap_or(0));
                }
                None => match s.data.get(at as usize..next as usize) {
                    Some(bytes) => rows_of_bytes(out, at, bytes),
                    None => _ = writeln!(out, "\t.zero\t\t{}", next - at),
                },
            }
        }
    }

    /// Words that are places in the code of a function.
    fn targets(&self, out: &mut String, at: u64, bytes: &[u8], text: usize) {
        for (n, word) in bytes.chunks(4).enumerate() {
            let at = at + n as u64 * 4;
            let value = word.iter().rev().fold(0u64, |v, b| v << 8 | *b as u64);
            match self.listing.label(text, value) {
                Some(label) if word.len() == 4 => {
                    let name = &self.input.code.sections[text].name;
                    let _ = writeln!(out, "        /*{at:04x}*/ \t.word\t({label} - {name})");
                }
                _ => rows_of_bytes(out, at, word),
            }
        }
    }

    /// What a relocation puts into its place, which holds `held` otherwise.
    fn relocated(&self, r: &Reloc, held: &str) -> String {
        let name = self.symbol(r.symbol as usize).unwrap_or("?");
        let function = self.input.numbers.get(r.symbol as usize).copied().flatten();
        let function = function.and_then(|f| self.input.code.functions.get(f));
        let label = function.and_then(|f| self.listing.place(f.section, f.offset.wrapping_add_signed(r.addend)));
        let place = match (r.addend, label) {
            (0, _) => name.to_string(),
            (_, Some(label)) => format!("({name} + {label}@srel)"),
            (n, None) if n < 0 => format!("({name} + -{:#x})", n.unsigned_abs()),
            (n, None) => format!("({name} + {n:#x})"),
        };
        match r.kind {
            1 | 2 => place,
            0x66 => format!("fun@unified({place})"),
            // Indices of textures, samplers and surfaces fill a part of their word.
            0x06 => format!("[20@lo({held})={place}]"),
            0x07 => format!("[0xfff00000@field({held})={place}]"),
            0x65 => format!("[12@lo({held})={place}]"),
            0x34 => format!("[20@lo({held})=fun@{}({place})]", relocation_name(r.kind)),
            kind => format!("fun@{}({place})", relocation_name(kind)),
        }
    }

    /// The lines of an object's symbol.
    fn object(&self, out: &mut String, n: usize, t: &Symbol) {
        let name = &t.name;
        match t.bind {
            0 => {}
            2 => _ = writeln!(out, "\t.weak\t\t{name}"),
            _ => _ = writeln!(out, "\t.global\t\t{name}"),
        }
        if let Some(kind) = kind_name(t.kind) {
            let _ = writeln!(out, "\t.type\t\t{name},{kind}");
        }
        if sized_alone(t, self.input) {
            let _ = writeln!(out, "\t.size\t\t{name}, {}, {}", t.size, t.value);
        } else if t.size > 0 {
            let end = t.value.saturating_add(t.size);
            let same = |o: &&Symbol| o.shndx == t.shndx && is_object(o) && o.value == end && o.size > 0;
            let end = match (self.input.symbols.iter().find(same), self.ends[n]) {
                (Some(next), _) => next.name.clone(),
                (None, Some(label)) => format!(".L_{label}"),
                (None, None) => ".".into(),
            };
            let _ = writeln!(out, "\t.size\t\t{name},({end} - {name})");
        }
        if t.other != 0 {
            let _ = writeln!(out, "\t.other\t\t{name},@\"{}\"", other(t.other));
        }
        let _ = writeln!(out, "{name}:");
    }

    /// The symbols that the file does not define.
    pub fn undefined(&self) -> String {
        let mut out = String::new();
        for t in self.input.symbols.iter().filter(|t| t.shndx == 0 && !t.name.is_empty()) {
            let name = &t.name;
            if let Some(kind) = kind_name(t.kind) {
                let _ = writeln!(out, "\t.type\t\t{name},{kind}");
            }
            if t.size != 0 {
                let _ = writeln!(out, "\t.size\t\t{name},{:#x}", t.size);
            }
            if t.other != 0 {
                let _ = writeln!(out, "\t.other\t\t{name},@\"{}\"", other(t.other));
            }
        }
        out
    }
}

/// Sections with names, symbols and relocations are not shown by themselves.
fn hidden(s: &Section) -> bool {
    matches!(s.kind, 0 | 2 | 3 | 4 | 9) || s.name.starts_with(".text.") || is_other_assembler(s)
}

/// What files from sm_100 on hold for another assembler: a second table of symbols, attributes and code.
pub(super) fn is_other_assembler(s: &Section) -> bool {
    s.name.starts_with(".nv.merc.") || s.name.starts_with(".nv.capmerc")
}

fn is_object(s: &Symbol) -> bool {
    matches!(s.kind, 1 | 13)
}

/// Objects of shared memory of a linkable file, and of reserved shared memory: they have an alignment and no place.
fn sized_alone(s: &Symbol, input: &Input) -> bool {
    match s.other & 0xe0 {
        0xa0 => true,
        0x40 => input.elf.header.kind == ET_REL,
        _ => false,
    }
}

fn kind_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        1 => "@object",
        2 => "@function",
        10 => "@\"STT_CUDA_TEXTURE\"",
        11 => "@\"STT_CUDA_SAMPLER\"",
        12 => "@\"STT_CUDA_SURFACE\"",
        13 => "@\"STT_CUDA_OBJECT\"",
        _ => return None,
    })
}

/// `st_other` in words: the memory space or what else, then the visibility.
fn other(bits: u8) -> String {
    let space = match bits & 0xe0 {
        0x20 => "STO_CUDA_GLOBAL ",
        0x40 => "STO_CUDA_SHARED ",
        0x60 => "STO_CUDA_LOCAL ",
        0x80 => "STO_CUDA_CONSTANT ",
        0xa0 => "STO_CUDA_RESERVED_SHARED ",
        _ => "",
    };
    let mut out = space.to_string();
    for (bit, name) in [(0x10, "STO_CUDA_ENTRY "), (0x08, "STO_CUDA_OBSCURE "), (0x04, "STO_CUDA_MANAGED ")] {
        if bits & bit != 0 {
            out.push_str(name);
        }
    }
    out + ["STV_DEFAULT", "STV_INTERNAL", "STV_HIDDEN", "STV_PROTECTED"][(bits & 3) as usize]
}

/// The vendor's notes: which tools made the file, and for what.
fn notes(out: &mut String, s: &Section) {
    let data = &s.data;
    let word = |at: usize| data.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mut at = 0;
    while at + 12 <= data.len() {
        let (name, size, kind) = (word(at) as usize, word(at + 4) as usize, word(at + 8));
        let from = at + 12 + name.next_multiple_of(4);
        let Some(desc) = from.checked_add(size).and_then(|end| data.get(from..end)) else {
            return rows_of_bytes(out, at as u64, &data[at..]);
        };
        match kind {
            0x7d0 if desc.len() >= 24 => {
                let _ = writeln!(out, "\t.tkinfo\n        /*{from:04x}*/ \t.word\t{:#010x}", word(from));
                let strings = &desc[24..];
                for n in 0..5 {
                    let text = cubin::elf::string_at(strings, word(from + 4 + n * 4));
                    let _ = writeln!(out, "        /*{:04x}*/ \t.string\t\"{}\"", from + 24, text.replace('"', "\\\""));
                }
                out.push('\n');
            }
            0x3e8 if desc.len() >= 8 => {
                for n in [0, 2, 4] {
                    let half = u16::from_le_bytes([desc[n], desc[n + 1]]);
                    let _ = writeln!(out, "        /*{:04x}*/ \t.short\t{half:#06x}", from + n);
                }
                rows_of_bytes(out, from as u64 + 6, &desc[6..]);
            }
            _ => rows_of_bytes(out, from as u64, desc),
        }
        at = from + size.next_multiple_of(4);
    }
}
