//! Cubin to text that [`file`](super::file) turns into the same cubin.

use super::file;
use crate::nvdisasm::file::Input;
use cubin::attr::{self, Value};
use cubin::elf::{Elf, SHT_LOPROC, SHT_STRTAB, SHT_SYMTAB, Section, Symbol};
use sass::codec::{Decoded, decode, encode};
use sass::text::listing::Listing;
use sass::text::{Addresses, Labels, parse_on, print, print_control};
use std::collections::HashMap;
use std::fmt::Write as _;

/// What the text says of a file.
pub(super) struct Dump {
    pub text: String,
    /// Words that stand there as numbers because no instruction of the description gives them back.
    pub numbers: usize,
}

/// A string in quotes; bytes that are no printable ASCII as `\xNN`.
pub(super) fn quoted(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for &b in text {
        match b {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(b as char);
            }
            0x20..=0x7e => out.push(b as char),
            _ => _ = write!(out, "\\x{b:02x}"),
        }
    }
    out.push('"');
    out
}

/// The text of a file.
pub(super) fn dump(elf: &Elf) -> Result<Dump, String> {
    let input = Input::new(elf).map_err(|d| d.message)?;
    let listing = Listing::new(&input.code);
    let h = &elf.header;
    let mut out = String::from("// A cubin as text; `sassafras asm THIS -o FILE` makes it again.\n");
    let ident: String = h.ident.iter().map(|b| format!("{b:02x}")).collect();
    let _ = writeln!(
        out,
        ".elf ident={ident} type={} version={:#x} entry={:#x} flags={:#x} sizes={},{},{} names={}",
        h.kind, h.version, h.entry, h.flags, h.sizes[0], h.sizes[1], h.sizes[2], h.shstrndx
    );
    let mut same = elf.clone();
    file::lay_out(&mut same);
    let placed = same == *elf;
    if !placed {
        let _ = writeln!(out, ".layout sections={:#x} segments={:#x} length={:#x}", h.shoff, h.phoff, elf.len);
        for (at, bytes) in &elf.gaps {
            let _ = writeln!(out, ".gap {at:#x}");
            rows(&mut out, bytes);
        }
    }
    segments(&mut out, elf);
    let mut dump = Dump { text: out, numbers: 0 };
    for n in 1..elf.sections.len() {
        section(&mut dump, &input, &listing, n, placed);
    }
    if let Some(null) = elf.sections.first()
        && *null != Section::default()
    {
        return Err("the first section header is not empty".into());
    }
    Ok(dump)
}

/// Program headers: by the sections that they span where that gives them back.
fn segments(out: &mut String, elf: &Elf) {
    for s in &elf.segments {
        let _ = write!(out, ".segment type={} flags={} align={:#x}", s.kind, s.flags, s.align);
        match file::span(elf, s) {
            Some((from, to)) => {
                let _ = write!(out, " from={from} to={to} more={:#x}", s.memsz.wrapping_sub(s.filesz));
            }
            None => _ = write!(out, " offset={:#x} file={:#x} memory={:#x}", s.offset, s.filesz, s.memsz),
        }
        let _ = writeln!(out, " address={:#x},{:#x}", s.addr[0], s.addr[1]);
    }
}

fn rows(out: &mut String, bytes: &[u8]) {
    for row in bytes.chunks(32) {
        out.push_str("    .bytes");
        row.iter().for_each(|b| _ = write!(out, " {b:02x}"));
        out.push('\n');
    }
}

fn section(dump: &mut Dump, input: &Input, listing: &Listing, n: usize, placed: bool) {
    let elf = input.elf;
    let s = &elf.sections[n];
    let out = &mut dump.text;
    let _ = write!(
        out,
        "\n.section {} number={n} type={:#x} flags={:#x} address={:#x} link={} info={:#x} align={} entries={}",
        quoted(s.name.as_bytes()),
        s.kind,
        s.flags,
        s.addr,
        s.link,
        s.info,
        s.align,
        s.entsize
    );
    if !placed {
        let _ = write!(out, " offset={:#x}", s.offset);
    }
    if !s.has_bytes() {
        let _ = write!(out, " size={:#x}", s.size);
    }
    if file::name_offset(elf, &s.name) != Some(s.name_offset) {
        let _ = write!(out, " name_offset={:#x}", s.name_offset);
    }
    out.push('\n');
    let from = out.len();
    if !body(dump, input, listing, n) {
        dump.text.truncate(from);
        rows(&mut dump.text, &elf.sections[n].data);
    }
}

/// What is in a section, by its kind; false where the bytes say it better.
fn body(dump: &mut Dump, input: &Input, listing: &Listing, n: usize) -> bool {
    let s = &input.elf.sections[n];
    let out = &mut dump.text;
    if let Some(t) = input.texts.iter().position(|&t| t == n) {
        return s.data.len().is_multiple_of(16) && code(dump, input, listing, t);
    }
    match s.kind {
        SHT_STRTAB => strings(out, &s.data),
        SHT_SYMTAB => symbols(out, input, s),
        SHT_LOPROC => attributes(out, &s.data),
        _ if !s.relocs().is_empty() => {
            let size: usize = if s.kind == 4 { 24 } else { 16 };
            for r in s.relocs() {
                let name = input.symbols.get(r.symbol as usize).map_or("", |s| s.name.as_str());
                let _ = write!(out, "    .reloc {:#x} type={:#x} symbol={}", r.offset, r.kind, r.symbol);
                if size == 24 {
                    let _ = write!(out, " addend={}", r.addend);
                }
                let _ = writeln!(out, "    // {name}");
            }
            s.data.len() == s.relocs().len() * size
        }
        _ => false,
    }
}

fn strings(out: &mut String, data: &[u8]) -> bool {
    let Some(list) = data.strip_suffix(b"\0") else { return false };
    for text in list.split(|&b| b == 0) {
        let _ = writeln!(out, "    .string {}", quoted(text));
    }
    true
}

fn symbols(out: &mut String, input: &Input, s: &Section) -> bool {
    let Ok(list) = input.elf.symbols_of(s) else { return false };
    let strings = input.elf.sections.get(s.link as usize).map(|s| s.data.as_slice()).unwrap_or_default();
    let mut whole = Vec::with_capacity(s.data.len());
    for t in &list {
        let _ = write!(
            out,
            "    .symbol {} bind={} type={} other={:#x} section={} value={:#x}",
            quoted(t.name.as_bytes()),
            t.bind,
            t.kind,
            t.other,
            t.shndx,
            t.value
        );
        match to_the_end(input.elf, t) {
            true => out.push_str(" size=rest"),
            false => _ = write!(out, " size={:#x}", t.size),
        }
        if file::find_string(strings, &t.name) != Some(t.name_offset) {
            let _ = write!(out, " name_offset={:#x}", t.name_offset);
        }
        out.push('\n');
        whole.extend(t.bytes());
    }
    whole == s.data
}

/// Whether a function goes on to the end of its section, so that the size follows the code.
fn to_the_end(elf: &Elf, t: &Symbol) -> bool {
    let section = elf.sections.get(t.shndx as usize);
    t.kind == 2 && t.size > 0 && section.is_some_and(|s| t.value.checked_add(t.size) == Some(s.size))
}

fn attributes(out: &mut String, data: &[u8]) -> bool {
    let Ok(list) = attr::read(data) else { return false };
    if attr::write(&list) != data {
        return false;
    }
    for a in &list {
        let name = attr::name(a.code).map_or(format!("{:#04x}", a.code), str::to_string);
        let _ = write!(out, "    .attribute {name}");
        match &a.value {
            Value::None(pad) => _ = write!(out, " none {pad:#x}"),
            Value::Byte(b, pad) => _ = write!(out, " byte {b:#x} {pad:#x}"),
            Value::Half(h) => _ = write!(out, " half {h:#x}"),
            Value::Bytes(b) if b.len() % 4 == 0 => {
                out.push_str(" words");
                a.to_words().iter().for_each(|w| _ = write!(out, " {w:#x}"));
            }
            Value::Bytes(b) => {
                out.push_str(" bytes");
                b.iter().for_each(|b| _ = write!(out, " {b:02x}"));
            }
        }
        out.push('\n');
    }
    true
}

/// Names of places in one section, both ways.
struct Places<'a> {
    listing: &'a Listing<'a>,
    section: usize,
    known: HashMap<&'a str, i64>,
}

impl Labels for Places<'_> {
    fn label(&self, address: i64) -> Option<&str> {
        self.listing.place(self.section, u64::try_from(address).ok()?)
    }
}

impl Addresses for Places<'_> {
    fn address(&self, label: &str) -> Option<i64> {
        self.known.get(label).copied()
    }
}

fn code(dump: &mut Dump, input: &Input, listing: &Listing, t: usize) -> bool {
    let section = &input.code.sections[t];
    let sm = input.code.sm;
    let count = section.words.len();
    let mut known = HashMap::new();
    for i in 0..=count {
        if let Some(name) = listing.place(t, i as u64 * 16)
            && known.insert(name, i as i64 * 16).is_some()
        {
            return false;
        }
    }
    let places = Places { listing, section: t, known };
    let out = &mut dump.text;
    for (i, &word) in section.words.iter().enumerate() {
        let pc = i as u64 * 16;
        if let Some(name) = listing.place(t, pc) {
            let _ = writeln!(out, "{name}:");
        }
        let text = match decode(word, sm) {
            Decoded::Known(inst) => Some(format!("{} {}", print_control(&inst.ctrl), print(&inst, pc, &places))),
            Decoded::Unknown(_) => None,
        };
        let again = |text: &String| {
            let inst = parse_on(text, pc, &places, Some(sm)).ok()?;
            encode(&inst, sm).ok().filter(|w| *w == word)
        };
        match text {
            Some(text) if again(&text).is_some() => _ = writeln!(out, "    {text};"),
            text => {
                dump.numbers += 1;
                let note = text.map_or(String::new(), |t| format!("    // {t}"));
                let _ = writeln!(out, "    .word {word:#034x}{note}");
            }
        }
    }
    if let Some(name) = listing.place(t, count as u64 * 16) {
        let _ = writeln!(out, "{name}:");
    }
    true
}
