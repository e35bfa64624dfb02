//! What tells two linked cubins apart in what they mean: symbols with their addresses, attributes, resource figures, the bytes
//! of every section and the relocations that are left. Order and offsets in the file do not matter.

use cubin::attr::{self, Attr};
use cubin::elf::{
    Elf, SHT_CAPSULE_RELA, SHT_CAPSULE_RESOLVED, SHT_CAPSULE_SYMTAB, SHT_LOPROC, SHT_NOBITS, SHT_REL, SHT_RELA,
    SHT_RESOLVED, SHT_STRTAB, SHT_SYMTAB, Section, Symbol,
};
use diag::Diagnostic;
use rustc_hash::FxHashMap;
use std::fmt;

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The part: `header`, `symbols`, `segments` or a section's name.
    pub part: String,
    /// What differs there.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.what)
    }
}

/// Compares two cubins. Capsules are compared if both have one. Notes are not looked at, for they say who linked.
///
/// # Errors
/// Where one of them is no cubin.
pub fn diff(a: &[u8], b: &[u8]) -> Result<Vec<Difference>, Diagnostic> {
    let (a, b) = (File::read(a)?, File::read(b)?);
    let mut out = Vec::new();
    let mut say = |part: &str, what: String| out.push(Difference { part: part.to_string(), what });
    let (h, g) = (&a.elf.header, &b.elf.header);
    if (h.kind, h.machine, &h.ident) != (g.kind, g.machine, &g.ident) {
        say("header", "identification or type differ".into());
    }
    if h.flags >> 8 & 0xffff != g.flags >> 8 & 0xffff {
        say("header", format!("made for sm_{} and sm_{}", a.elf.sm(), b.elf.sm()));
    }
    let segments = |e: &Elf| e.segments.iter().map(|s| format!("type {} flags {}", s.kind, s.flags)).collect();
    if h.flags & 0xff == g.flags & 0xff {
        lists("segments", segments(&a.elf), segments(&b.elf), &mut say);
    }
    let capsules = a.has_capsule() && b.has_capsule();
    let names = |f: &File| if capsules { f.names() } else { f.plain_names() };
    lists("sections", names(&a), names(&b), &mut say);
    lists("symbols", a.symbol_lines(&a.symbols), b.symbol_lines(&b.symbols), &mut say);
    if a.has_capsule() != b.has_capsule() {
        say("header", format!("only the {} has a capsule", if a.has_capsule() { "first" } else { "second" }));
    }
    if capsules {
        lists("symbols of the capsule", a.symbol_lines(&a.capsule), b.symbol_lines(&b.capsule), &mut say);
    }
    for (key, &i) in a.by_key.iter().filter(|(key, _)| capsules || !of_capsule(&key.0)) {
        if let Some(&j) = b.by_key.get(key) {
            sections(&a, &a.elf.sections[i], &b, &b.elf.sections[j], &key.0, &mut say);
        }
    }
    out.sort_by(|x, y| (&x.part, &x.what).cmp(&(&y.part, &y.what)));
    Ok(out)
}

/// Types of sections of a capsule: attributes.
const CAPSULE_INFO: u32 = SHT_LOPROC + 0x83;

/// True for call graphs and prototypes, of a capsule, too.
fn is_pairs(kind: u32) -> bool {
    matches!(kind.wrapping_sub(SHT_LOPROC), 1 | 2 | 0x8a | 0x8b)
}

/// A section by name, and the how many-th of that name.
type Key = (String, u32);

/// True for entries of unified functions and variables.
fn is_unified(kind: u32) -> bool {
    matches!(kind.wrapping_sub(SHT_LOPROC), 0x11 | 0x14)
}

struct File {
    elf: Elf,
    symbols: Vec<Symbol>,
    /// Those of the capsule.
    capsule: Vec<Symbol>,
    by_key: FxHashMap<Key, usize>,
}

impl File {
    fn read(bytes: &[u8]) -> Result<File, Diagnostic> {
        let elf = Elf::read(bytes)?;
        let symbols = elf.symbols()?;
        let capsule = elf.sections.iter().find(|s| s.kind == SHT_CAPSULE_SYMTAB).map(|t| elf.symbols_of(t));
        let capsule = capsule.transpose()?.unwrap_or_default();
        let mut by_key: FxHashMap<Key, usize> = FxHashMap::default();
        let mut count: FxHashMap<&str, u32> = FxHashMap::default();
        for (i, s) in elf.sections.iter().enumerate().skip(1) {
            if compared(s) {
                let n = count.entry(&s.name).or_default();
                by_key.insert((s.name.clone(), *n), i);
                *n += 1;
            }
        }
        Ok(File { elf, symbols, capsule, by_key })
    }

    fn names(&self) -> Vec<String> {
        self.elf.sections.iter().skip(1).filter(|s| compared(s)).map(|s| s.name.clone()).collect()
    }

    fn plain_names(&self) -> Vec<String> {
        self.names().into_iter().filter(|n| !of_capsule(n)).collect()
    }

    /// True for a file whose header says so.
    fn has_capsule(&self) -> bool {
        self.elf.header.flags & 7 == 2
    }

    /// The symbols that a section names.
    fn table(&self, section: &Section) -> &[Symbol] {
        if of_capsule(&section.name) { &self.capsule } else { &self.symbols }
    }

    fn section_name(&self, index: u16) -> &str {
        match self.elf.sections.get(index as usize) {
            _ if index == 0 => "undefined",
            Some(s) => &s.name,
            None => "?",
        }
    }

    fn symbol_lines(&self, symbols: &[Symbol]) -> Vec<String> {
        let shown = symbols.iter().skip(1).filter(|s| s.kind != 3);
        let line = |s: &Symbol| {
            let bind = ["local", "global", "weak"].get(s.bind as usize).unwrap_or(&"?");
            let section = self.section_name(s.shndx);
            let (name, other) = (&s.name, s.other);
            // Files with a capsule keep the type of relocatable files for some.
            let kind = if s.kind == 13 { 1 } else { s.kind };
            format!("{name} ({bind}, type {kind}, other 0x{other:x}, {section}+0x{:x}, 0x{:x} bytes)", s.value, s.size)
        };
        shown.map(line).collect()
    }

    fn symbol<'s>(&'s self, table: &'s [Symbol], index: u32) -> &'s str {
        match table.get(index as usize) {
            Some(s) if s.kind == 3 => self.section_name(s.shndx),
            Some(s) => &s.name,
            None => "?",
        }
    }

    fn text(&self, offset: u32) -> String {
        let table = self.elf.sections.iter().find(|s| s.kind == SHT_SYMTAB);
        let strings = table.and_then(|t| self.elf.sections.get(t.link as usize));
        strings.map_or_else(String::new, |s| cubin::elf::string_at(&s.data, offset))
    }
}

fn compared(s: &Section) -> bool {
    let table = matches!(s.kind, SHT_SYMTAB | SHT_CAPSULE_SYMTAB | SHT_STRTAB);
    let empty = matches!(s.kind, SHT_REL | SHT_RELA | SHT_CAPSULE_RELA | SHT_NOBITS) && s.size == 0;
    // Shared memory of the system alone, which an entry that uses none may have.
    let shared = s.name.starts_with(".nv.shared.") && matches!(s.size, 0 | 0x400);
    !(table || empty || shared) && s.name != ".nv_debug.shared" && !s.name.starts_with(".note.nv.tkinfo")
}

/// True for names of sections of a capsule.
fn of_capsule(name: &str) -> bool {
    name.starts_with(".nv.merc.") || name.starts_with(".nv.capmerc.")
}

/// Says what only one of two lists has.
fn lists(part: &str, mut a: Vec<String>, mut b: Vec<String>, say: &mut dyn FnMut(&str, String)) {
    a.sort_unstable();
    b.sort_unstable();
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) if x == y => (i, j) = (i + 1, j + 1),
            (Some(x), y) if y.is_none_or(|y| x < y) => {
                say(part, format!("only the first has {x}"));
                i += 1;
            }
            (_, Some(y)) => {
                say(part, format!("only the second has {y}"));
                j += 1;
            }
            _ => return,
        }
    }
}

fn sections(a: &File, s: &Section, b: &File, t: &Section, name: &str, say: &mut dyn FnMut(&str, String)) {
    let mut field = |what: &str, x: u64, y: u64| {
        if x != y {
            say(name, format!("{what} 0x{x:x} and 0x{y:x}"));
        }
    };
    field("type", s.kind as u64, t.kind as u64);
    field("flags", s.flags, t.flags);
    field("alignment", s.align, t.align);
    if s.kind == SHT_NOBITS {
        field("size", s.size, t.size);
        return;
    }
    let code = name.starts_with(".text.");
    if code && arch::files(a.elf.sm()).registers_in_header {
        field("registers", s.info as u64 >> 24, t.info as u64 >> 24);
    }
    // The code of a capsule begins with the number of the plain section.
    let skip = if name.starts_with(".nv.capmerc.") { 4 } else { 0 };
    let (x, y) = (s.data.get(skip..).unwrap_or_default(), t.data.get(skip..).unwrap_or_default());
    match s.kind {
        SHT_REL | SHT_RELA | SHT_RESOLVED | SHT_CAPSULE_RELA | SHT_CAPSULE_RESOLVED => {
            lists(name, relocs(a, s), relocs(b, t), say)
        }
        k if k == SHT_LOPROC || k == CAPSULE_INFO || name == ".nv.compat" => {
            lists(name, attributes(a, s), attributes(b, t), say)
        }
        k if is_unified(k) => lists(name, entries(a, s), entries(b, t), say),
        k if is_pairs(k) => lists(name, pairs(a, s), pairs(b, t), say),
        _ if x != y => {
            let words = |d: &[u8]| d.chunks(16).map(<[u8]>::to_vec).collect::<Vec<_>>();
            let differing = words(x).iter().zip(words(y)).filter(|(x, y)| **x != *y).count();
            let at = skip + x.iter().zip(y).position(|(x, y)| x != y).unwrap_or(x.len().min(y.len()));
            let sizes = (s.data.len(), t.data.len());
            let m = format!("0x{:x} and 0x{:x} bytes, {differing} words differ, first at 0x{at:x}", sizes.0, sizes.1);
            say(name, m);
        }
        _ => {}
    }
}

fn relocs(f: &File, s: &Section) -> Vec<String> {
    let line = |r: cubin::elf::Reloc| {
        format!("0x{:x}: type 0x{:x} {}+0x{:x}", r.offset, r.kind, f.symbol(f.table(s), r.symbol), r.addend)
    };
    s.relocs().into_iter().map(line).collect()
}

fn entries(f: &File, s: &Section) -> Vec<String> {
    let line = |e: &[u8]| {
        let symbol = u32::from_le_bytes([e[0], e[1], e[2], e[3]]);
        format!("{} {:x?}", f.symbol(f.table(s), symbol), &e[4..])
    };
    s.data.chunks_exact(crate::unified::ENTRY).map(line).collect()
}

fn attributes(f: &File, s: &Section) -> Vec<String> {
    let Ok(list) = attr::read(&s.data) else { return vec!["unreadable attributes".into()] };
    let line = |a: &Attr| {
        if a.code != attr::EXTERNS {
            return cubin::diff::describe(a, f.table(s));
        }
        let mut names: Vec<&str> = a.to_words().into_iter().map(|w| f.symbol(f.table(s), w)).collect();
        names.sort_unstable();
        format!("EIATTR_EXTERNS {names:?}")
    };
    if s.name == ".nv.compat" {
        return list.iter().map(|a| format!("attribute 0x{:x} {:x?}", a.code, a.to_words())).collect();
    }
    list.iter().map(line).collect()
}

fn pairs(f: &File, s: &Section) -> Vec<String> {
    let prototypes = matches!(s.kind.wrapping_sub(SHT_LOPROC), 2 | 0x8b);
    let mut list = if prototypes { 2 } else { 0 };
    let mut out = Vec::new();
    for p in s.data.chunks_exact(8) {
        let word = |i: usize| u32::from_le_bytes([p[i], p[i + 1], p[i + 2], p[i + 3]]);
        let (x, y) = (word(0), word(4));
        if x == 0 && (y as i32) < 0 {
            list = -(y as i32);
            continue;
        }
        let second = if matches!(list, 2 | 3) { f.text(y) } else { f.symbol(f.table(s), y).to_string() };
        out.push(format!("list {list}: {} -> {second}", f.symbol(f.table(s), x)));
    }
    out
}
