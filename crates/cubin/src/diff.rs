//! What tells two cubins apart: header, sections in order, symbols in order, attributes, relocations, segments, bytes.

use crate::attr::{self, Attr, Value};
use crate::elf::{Elf, SHT_LOPROC, SHT_NOBITS, SHT_REL, SHT_RELA, SHT_STRTAB, SHT_SYMTAB, Section, Symbol};
use std::fmt::{self, Display};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which part: `header`, `segments`, `symbols`, or a section's name.
    pub part: String,
    /// What differs there.
    pub what: String,
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.what)
    }
}

/// Compares two files. Numbers that follow from others (offsets in the file, indices of sections and symbols) are compared by
/// what they mean, so that one section more does not make everything differ.
pub fn diff(a: &Elf, b: &Elf) -> Vec<Difference> {
    let mut out = Vec::new();
    let mut say = |part: &str, what: String| out.push(Difference { part: part.to_string(), what });
    let (h, g) = (&a.header, &b.header);
    if h.ident != g.ident || h.kind != g.kind || h.version != g.version {
        say("header", "identification, type or version differ".into());
    }
    if h.flags & 0xff_ffff != g.flags & 0xff_ffff {
        say("header", format!("flags 0x{:x} and 0x{:x}", h.flags, g.flags));
    }
    order("sections", names(a), names(b), &mut say);
    let (sa, sb) = (a.symbols().unwrap_or_default(), b.symbols().unwrap_or_default());
    order("symbols", symbol_keys(a, &sa), symbol_keys(b, &sb), &mut say);
    for section in &a.sections {
        let Some((_, other)) = b.section(&section.name) else { continue };
        if section.kind != 0 {
            sections(a, section, &sa, b, other, &sb, &mut say);
        }
    }
    let segments = |e: &Elf| e.segments.iter().map(|s| format!("type {} flags {}", s.kind, s.flags)).collect();
    order("segments", segments(a), segments(b), &mut say);
    out
}

fn names(e: &Elf) -> Vec<String> {
    e.sections.iter().skip(1).map(|s| s.name.clone()).collect()
}

/// Says which elements only one list has, or that the order differs.
fn order(part: &str, a: Vec<String>, b: Vec<String>, say: &mut dyn FnMut(&str, String)) {
    let mut rest = b.clone();
    let mut same = Vec::new();
    for x in &a {
        match rest.iter().position(|y| y == x) {
            Some(i) => same.push(rest.remove(i)),
            None => say(part, format!("only the first has {x}")),
        }
    }
    for x in &rest {
        say(part, format!("only the second has {x}"));
    }
    let mut gone = rest;
    let kept = |x: &&String| match gone.iter().position(|y| y == *x) {
        Some(i) => {
            gone.remove(i);
            false
        }
        None => true,
    };
    let second: Vec<&String> = b.iter().filter(kept).collect();
    if let Some((x, y)) = same.iter().zip(second).find(|(x, y)| x != y) {
        say(part, format!("order differs: {x} where the second has {y}"));
    }
}

fn symbol_keys(e: &Elf, symbols: &[Symbol]) -> Vec<String> {
    let keys = symbols.iter().skip(1).map(|s| {
        let section = e.sections.get(s.shndx as usize).map_or("?", |s| s.name.as_str());
        let section = if s.shndx == 0 { "undefined" } else { section };
        let bind = ["local", "global", "weak"].get(s.bind as usize).unwrap_or(&"?");
        let name = if s.name.is_empty() { "(no name)" } else { &s.name };
        format!(
            "{name} ({bind}, type {}, other 0x{:x}, {section}+0x{:x}, 0x{:x} bytes)",
            s.kind, s.other, s.value, s.size
        )
    });
    keys.collect()
}

fn sections(
    a: &Elf,
    s: &Section,
    sa: &[Symbol],
    b: &Elf,
    t: &Section,
    sb: &[Symbol],
    say: &mut dyn FnMut(&str, String),
) {
    let mut field = |name: &str, x: u64, y: u64| {
        if x != y {
            say(&s.name, format!("{name} 0x{x:x} and 0x{y:x}"));
        }
    };
    field("type", s.kind as u64, t.kind as u64);
    field("flags", s.flags, t.flags);
    field("alignment", s.align, t.align);
    field("element size", s.entsize, t.entsize);
    if s.kind == SHT_NOBITS || t.kind == SHT_NOBITS {
        field("size", s.size, t.size);
        return;
    }
    let link = |e: &Elf, s: &Section| e.sections.get(s.link as usize).map(|s| s.name.clone());
    if link(a, s) != link(b, t) {
        say(&s.name, format!("linked to {:?} and {:?}", link(a, s), link(b, t)));
    }
    if s.kind != t.kind || s.data == t.data {
        return;
    }
    match s.kind {
        SHT_SYMTAB | SHT_STRTAB => {}
        SHT_REL | SHT_RELA => {
            let list = |s: &Section, symbols: &[Symbol]| {
                let texts = s.relocs().into_iter().map(|r| {
                    let name = symbols.get(r.symbol as usize).map_or("?", |s| s.name.as_str());
                    format!("0x{:x}: type 0x{:x} {name}+0x{:x}", r.offset, r.kind, r.addend)
                });
                texts.collect::<Vec<_>>()
            };
            order(&s.name, list(s, sa), list(t, sb), say);
        }
        _ if s.kind == SHT_LOPROC || s.name == ".nv.compat" => match (attr::read(&s.data), attr::read(&t.data)) {
            (Ok(x), Ok(y)) => order(&s.name, attributes(&x, sa), attributes(&y, sb), say),
            _ => say(&s.name, "unreadable attributes".into()),
        },
        _ => {
            let at = s.data.iter().zip(&t.data).position(|(x, y)| x != y).unwrap_or(s.data.len().min(t.data.len()));
            let sizes = (s.data.len(), t.data.len());
            say(&s.name, format!("0x{:x} and 0x{:x} bytes, the first difference at 0x{at:x}", sizes.0, sizes.1));
        }
    }
}

fn attributes(list: &[Attr], symbols: &[Symbol]) -> Vec<String> {
    list.iter().map(|a| describe(a, symbols)).collect()
}

/// An attribute as text: its name, and its value with the names of symbols.
pub fn describe(a: &Attr, symbols: &[Symbol]) -> String {
    let name = attr::name(a.code).map_or_else(|| format!("attribute 0x{:x}", a.code), str::to_string);
    let words = a.to_words();
    let with_symbol = matches!(
        a.code,
        attr::REGCOUNT
            | attr::FRAME_SIZE
            | attr::MIN_STACK_SIZE
            | attr::MAX_STACK_SIZE
            | attr::PARAM_CBANK
            | attr::SAMPLER_INIT
            | attr::SAMPLER_FORCE_UNNORMALIZED
    );
    if let (true, Value::Bytes(_), [symbol, rest @ ..]) = (with_symbol, &a.value, words.as_slice()) {
        let symbol = symbols.get(*symbol as usize).map_or("?", |s| s.name.as_str());
        return format!("{name} {symbol} {rest:x?}");
    }
    match &a.value {
        Value::None(_) => name,
        _ => format!("{name} {words:x?}"),
    }
}
