//! What tells two linked cubins apart in what they mean: symbols with their addresses, attributes, resource figures, the bytes
//! of every section and the relocations that are left. Order and offsets in the file do not matter.

use cubin::attr::{self, Attr};
use cubin::elf::{
    Elf, SHT_LOPROC, SHT_NOBITS, SHT_REL, SHT_RELA, SHT_RESOLVED, SHT_STRTAB, SHT_SYMTAB, Section, Symbol,
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

/// Compares two cubins. Capsules are not looked at, and neither are notes, for they say who linked.
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
    // The low byte tells files with a capsule from others.
    if h.flags >> 8 & 0xffff != g.flags >> 8 & 0xffff {
        say("header", format!("made for sm_{} and sm_{}", a.elf.sm(), b.elf.sm()));
    }
    let segments = |e: &Elf| e.segments.iter().map(|s| format!("type {} flags {}", s.kind, s.flags)).collect();
    if h.flags & 0xff == g.flags & 0xff {
        lists("segments", segments(&a.elf), segments(&b.elf), &mut say);
    }
    lists("sections", a.names(), b.names(), &mut say);
    lists("symbols", a.symbol_lines(), b.symbol_lines(), &mut say);
    for (key, &i) in &a.by_key {
        if let Some(&j) = b.by_key.get(key) {
            sections(&a, &a.elf.sections[i], &b, &b.elf.sections[j], &key.0, &mut say);
        }
    }
    out.sort_by(|x, y| (&x.part, &x.what).cmp(&(&y.part, &y.what)));
    Ok(out)
}

/// A section by name, and the how many-th of that name.
type Key = (String, u32);

struct File {
    elf: Elf,
    symbols: Vec<Symbol>,
    by_key: FxHashMap<Key, usize>,
}

impl File {
    fn read(bytes: &[u8]) -> Result<File, Diagnostic> {
        let elf = Elf::read(bytes)?;
        let symbols = elf.symbols()?;
        let mut by_key: FxHashMap<Key, usize> = FxHashMap::default();
        let mut count: FxHashMap<&str, u32> = FxHashMap::default();
        for (i, s) in elf.sections.iter().enumerate().skip(1) {
            if compared(s) {
                let n = count.entry(&s.name).or_default();
                by_key.insert((s.name.clone(), *n), i);
                *n += 1;
            }
        }
        Ok(File { elf, symbols, by_key })
    }

    fn names(&self) -> Vec<String> {
        self.elf.sections.iter().skip(1).filter(|s| compared(s)).map(|s| s.name.clone()).collect()
    }

    fn section_name(&self, index: u16) -> &str {
        match self.elf.sections.get(index as usize) {
            _ if index == 0 => "undefined",
            Some(s) => &s.name,
            None => "?",
        }
    }

    fn symbol_lines(&self) -> Vec<String> {
        let shown = self.symbols.iter().skip(1).filter(|s| s.kind != 3);
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

    fn symbol(&self, index: u32) -> &str {
        match self.symbols.get(index as usize) {
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
    let table = matches!(s.kind, SHT_SYMTAB | SHT_STRTAB);
    let empty = matches!(s.kind, SHT_REL | SHT_RELA | SHT_NOBITS) && s.size == 0;
    // Shared memory of the system alone, which an entry that uses none may have.
    let shared = s.name.starts_with(".nv.shared.") && matches!(s.size, 0 | 0x400);
    let capsule = s.name.starts_with(".nv.merc.") || s.name.starts_with(".nv.capmerc.");
    !(table || empty || shared || capsule) && s.name != ".nv_debug.shared" && !s.name.starts_with(".note.nv.tkinfo")
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
    match s.kind {
        SHT_REL | SHT_RELA | SHT_RESOLVED => lists(name, relocs(a, s), relocs(b, t), say),
        _ if s.kind == SHT_LOPROC || name == ".nv.compat" => lists(name, attributes(a, s), attributes(b, t), say),
        k if k == SHT_LOPROC + 1 || k == SHT_LOPROC + 2 => lists(name, pairs(a, s), pairs(b, t), say),
        _ if s.data != t.data => {
            let words = |d: &[u8]| d.chunks(16).map(<[u8]>::to_vec).collect::<Vec<_>>();
            let differing = words(&s.data).iter().zip(words(&t.data)).filter(|(x, y)| **x != *y).count();
            let at = s.data.iter().zip(&t.data).position(|(x, y)| x != y).unwrap_or(s.data.len().min(t.data.len()));
            let sizes = (s.data.len(), t.data.len());
            let m = format!("0x{:x} and 0x{:x} bytes, {differing} words differ, first at 0x{at:x}", sizes.0, sizes.1);
            say(name, m);
        }
        _ => {}
    }
}

fn relocs(f: &File, s: &Section) -> Vec<String> {
    let line =
        |r: cubin::elf::Reloc| format!("0x{:x}: type 0x{:x} {}+0x{:x}", r.offset, r.kind, f.symbol(r.symbol), r.addend);
    s.relocs().into_iter().map(line).collect()
}

fn attributes(f: &File, s: &Section) -> Vec<String> {
    let Ok(list) = attr::read(&s.data) else { return vec!["unreadable attributes".into()] };
    let line = |a: &Attr| {
        if a.code != attr::EXTERNS {
            return cubin::diff::describe(a, &f.symbols);
        }
        let mut names: Vec<&str> = a.to_words().into_iter().map(|w| f.symbol(w)).collect();
        names.sort_unstable();
        format!("EIATTR_EXTERNS {names:?}")
    };
    if s.name == ".nv.compat" {
        return list.iter().map(|a| format!("attribute 0x{:x} {:x?}", a.code, a.to_words())).collect();
    }
    list.iter().map(line).collect()
}

fn pairs(f: &File, s: &Section) -> Vec<String> {
    let mut list = if s.kind == SHT_LOPROC + 2 { 2 } else { 0 };
    let mut out = Vec::new();
    for p in s.data.chunks_exact(8) {
        let word = |i: usize| u32::from_le_bytes([p[i], p[i + 1], p[i + 2], p[i + 3]]);
        let (x, y) = (word(0), word(4));
        if x == 0 && (y as i32) < 0 {
            list = -(y as i32);
            continue;
        }
        let second = if matches!(list, 2 | 3) { f.text(y) } else { f.symbol(y).to_string() };
        out.push(format!("list {list}: {} -> {second}", f.symbol(x)));
    }
    out
}
