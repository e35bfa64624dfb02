//! The text of a whole cubin, read back: directives `.elf`, `.layout`, `.gap`, `.segment`, `.section` and what is inside
//! of sections.

use super::text::{Lines, Words, fail};
use cubin::attr::{self, Attr, Value};
use cubin::elf::{EM_CUDA, Elf, Header, Reloc, Section, Segment, Symbol};
use diag::Diagnostic;
use sass::codec::encode;
use sass::text::{Addresses, parse_on};
use std::collections::HashMap;

const HEADER: u64 = 0x40;

/// Where the parts lie if nothing says so: sections one behind the other, section headers, program headers. Sections
/// without bytes keep their sizes.
pub(super) fn lay_out(elf: &mut Elf) {
    let mut at = HEADER;
    for s in elf.sections.iter_mut().skip(1) {
        at = at.checked_next_multiple_of(s.align.max(1)).unwrap_or(at);
        s.offset = at;
        if s.has_bytes() {
            s.size = s.data.len() as u64;
            at += s.size;
        }
    }
    elf.header.shoff = at;
    at += elf.sections.len() as u64 * 0x40;
    elf.header.phoff = if elf.segments.is_empty() { 0 } else { at };
    elf.len = at + elf.segments.len() as u64 * 0x38;
    elf.gaps.clear();
}

/// The first place of a string in a table of them.
pub(super) fn find_string(table: &[u8], name: &str) -> Option<u32> {
    let mut at = 0;
    for text in table.split(|&b| b == 0) {
        if text == name.as_bytes() {
            return Some(at);
        }
        at += text.len() as u32 + 1;
    }
    None
}

/// The place of a section's name.
pub(super) fn name_offset(elf: &Elf, name: &str) -> Option<u32> {
    find_string(&elf.sections.get(elf.header.shstrndx as usize)?.data, name)
}

/// The first and last section of a segment, if they give its offset and size. 0 and 0: the program headers.
pub(super) fn span(elf: &Elf, s: &Segment) -> Option<(usize, usize)> {
    if s.offset == elf.header.phoff && s.filesz == elf.segments.len() as u64 * 0x38 {
        return Some((0, 0));
    }
    let from = elf.sections.iter().skip(1).position(|t| t.offset == s.offset)? + 1;
    let to = (from..elf.sections.len()).find(|&n| end(elf, n) == s.offset.checked_add(s.filesz))?;
    Some((from, to))
}

fn end(elf: &Elf, n: usize) -> Option<u64> {
    let s = elf.sections.get(n)?;
    s.offset.checked_add(if s.has_bytes() { s.size } else { 0 })
}

fn placed(elf: &Elf, from: usize, to: usize) -> Option<(u64, u64)> {
    if (from, to) == (0, 0) {
        return Some((elf.header.phoff, elf.segments.len() as u64 * 0x38));
    }
    let offset = elf.sections.get(from)?.offset;
    Some((offset, end(elf, to)?.checked_sub(offset)?))
}

/// Largest file that a text may ask for.
const LIMIT: u64 = 1 << 31;

/// Reads the text of a cubin.
pub(super) fn read(text: &str) -> Result<Elf, Diagnostic> {
    let mut lines = Lines::new(text);
    let mut elf = Elf {
        header: Header {
            ident: [0; 16],
            kind: 0,
            machine: EM_CUDA,
            version: 0,
            entry: 0,
            phoff: 0,
            shoff: 0,
            flags: 0,
            sizes: [0; 3],
            shstrndx: 0,
        },
        sections: vec![Section::default()],
        segments: Vec::new(),
        gaps: Vec::new(),
        len: 0,
    };
    let mut spans = Vec::new();
    let mut names: Vec<Option<u32>> = vec![Some(0)];
    let mut pending = Vec::new();
    let mut layout = None;
    let mut head = false;
    while let Some(mut w) = lines.next_words() {
        let what = w.word()?;
        match what {
            ".elf" => {
                head = true;
                let ident = w.key("ident")?;
                let bytes = hex_bytes(ident).filter(|b| b.len() == 16);
                let Some(bytes) = bytes else { return fail(w.last(), "ident takes 32 hexadecimal digits") };
                elf.header.ident.copy_from_slice(&bytes);
                elf.header.kind = w.number("type")?;
                elf.header.version = w.number("version")?;
                elf.header.entry = w.number("entry")?;
                elf.header.flags = w.number("flags")?;
                let sizes = w.list("sizes", 3)?;
                elf.header.sizes = [sizes[0] as u16, sizes[1] as u16, sizes[2] as u16];
                elf.header.shstrndx = w.number("names")?;
            }
            ".layout" => {
                layout = Some((w.number::<u64>("sections")?, w.number::<u64>("segments")?, w.number::<u64>("length")?));
            }
            ".gap" => {
                let at = w.plain_number()?;
                let bytes = lines.bytes()?;
                elf.gaps.push((at, bytes));
            }
            ".segment" => {
                let (kind, flags, align) = (w.number("type")?, w.number("flags")?, w.number("align")?);
                let mut s = Segment { kind, flags, align, ..Segment::default() };
                let mut span = None;
                if w.has("from") {
                    span = Some((w.number::<usize>("from")?, w.number::<usize>("to")?, w.number::<u64>("more")?));
                } else {
                    s.offset = w.number("offset")?;
                    s.filesz = w.number("file")?;
                    s.memsz = w.number("memory")?;
                }
                let address = w.list("address", 2)?;
                s.addr = [address[0], address[1]];
                spans.push((span, w.last()));
                elf.segments.push(s);
            }
            ".section" => {
                let name = w.string()?;
                let number: usize = w.number("number")?;
                if number != elf.sections.len() {
                    return fail(w.last(), format!("this is section {}", elf.sections.len()));
                }
                let mut s = Section {
                    name,
                    kind: w.number("type")?,
                    flags: w.number("flags")?,
                    addr: w.number("address")?,
                    link: w.number("link")?,
                    info: w.number("info")?,
                    align: w.number("align")?,
                    entsize: w.number("entries")?,
                    ..Section::default()
                };
                if w.has("offset") {
                    s.offset = w.number("offset")?;
                }
                if w.has("size") {
                    s.size = w.number("size")?;
                }
                names.push(if w.has("name_offset") { Some(w.number("name_offset")?) } else { None });
                w.end()?;
                let symbols = contents(&mut lines, &mut s, (elf.header.flags >> 8) as u16 & 0xfff)?;
                if !symbols.is_empty() {
                    pending.push((elf.sections.len(), symbols));
                }
                if s.has_bytes() {
                    s.size = s.data.len() as u64;
                }
                elf.sections.push(s);
                continue;
            }
            other => return fail(w.last(), format!("unknown directive `{other}`")),
        }
        w.end()?;
    }
    if !head {
        return fail(lines.place(), "the directive `.elf` is missing");
    }
    for (n, given) in names.iter().enumerate() {
        let name = elf.sections[n].name.clone();
        let found = given.or_else(|| name_offset(&elf, &name));
        match found {
            Some(at) => elf.sections[n].name_offset = at,
            None => {
                let m = format!("the name of section {n}, '{name}', is missing in the table of names");
                return fail(lines.place(), m);
            }
        }
    }
    for (n, list) in pending {
        let table = elf.sections[n].link as usize;
        let mut data = Vec::new();
        for (mut s, known, rest, place) in list {
            let strings = elf.sections.get(table).map(|s| s.data.as_slice()).unwrap_or_default();
            match known.or_else(|| find_string(strings, &s.name)) {
                Some(at) => s.name_offset = at,
                None => return fail(place, format!("'{}' is missing in the table of strings", s.name)),
            }
            if rest {
                let size = elf.sections.get(s.shndx as usize).map_or(0, |t| t.size);
                s.size = size.saturating_sub(s.value);
            }
            data.extend(s.bytes());
        }
        elf.sections[n].size = data.len() as u64;
        elf.sections[n].data = data;
    }
    match layout {
        None => {
            let gaps = std::mem::take(&mut elf.gaps);
            lay_out(&mut elf);
            elf.gaps = gaps;
        }
        Some((sections, segments, length)) => {
            elf.header.shoff = sections;
            elf.header.phoff = segments;
            elf.len = length;
        }
    }
    if elf.len > LIMIT {
        return fail(lines.place(), format!("a file of {} bytes is too long", elf.len));
    }
    for (n, (span, place)) in spans.into_iter().enumerate() {
        let Some((from, to, more)) = span else { continue };
        let Some((offset, size)) = placed(&elf, from, to) else {
            return fail(place, format!("sections {from} to {to} are no part of the file"));
        };
        let s = &mut elf.segments[n];
        (s.offset, s.filesz, s.memsz) = (offset, size, size.wrapping_add(more));
    }
    Ok(elf)
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok()).collect()
}

/// A symbol, its name's place, whether it goes on to the end of its section, its place in the text.
type Pending = (Symbol, Option<u32>, bool, diag::Span);

/// Reads what is in a section; symbols are left for when all sections are there.
fn contents(lines: &mut Lines, s: &mut Section, sm: u16) -> Result<Vec<Pending>, Diagnostic> {
    let mut symbols = Vec::new();
    let mut attributes: Vec<Attr> = Vec::new();
    let mut code: Vec<(u64, String, u32)> = Vec::new();
    let mut labels = Label(HashMap::new());
    while let Some(line) = lines.peek() {
        let first = line.text.split_whitespace().next().unwrap_or("");
        if matches!(first, ".section" | ".segment" | ".gap" | ".layout" | ".elf") {
            break;
        }
        lines.skip();
        if let Some(name) = line.text.strip_suffix(':').filter(|n| !n.contains(char::is_whitespace)) {
            if labels.0.insert(name.to_string(), s.data.len() as i64).is_some() {
                return fail(line.span(), format!("the label `{name}` stands twice"));
            }
            continue;
        }
        if !first.starts_with('.') {
            code.push((s.data.len() as u64, line.text.to_string(), line.at));
            s.data.extend([0; 16]);
            continue;
        }
        let mut w = Words::new(line);
        match w.word()? {
            ".word" => {
                let digits = w.word()?;
                let word = digits.strip_prefix("0x").and_then(|d| u128::from_str_radix(d, 16).ok());
                match word {
                    Some(word) => s.data.extend(word.to_le_bytes()),
                    None => return fail(w.last(), format!("'{digits}' is no word of 128 bits")),
                }
            }
            ".bytes" => s.data.extend(w.bytes()?),
            ".zero" => {
                let count: u64 = w.plain_number()?;
                if count > LIMIT {
                    return fail(w.last(), "too many bytes");
                }
                s.data.extend(std::iter::repeat_n(0, count as usize));
            }
            ".string" => {
                s.data.extend(w.byte_string()?);
                s.data.push(0);
            }
            ".reloc" => {
                let r = Reloc {
                    offset: w.plain_number()?,
                    kind: w.number("type")?,
                    symbol: w.number("symbol")?,
                    addend: if w.has("addend") { w.signed("addend")? } else { 0 },
                };
                let bytes = r.bytes();
                s.data.extend(&bytes[..if s.kind == 4 { 24 } else { 16 }]);
            }
            ".symbol" => symbols.push(symbol(&mut w)?),
            ".attribute" => attributes.push(attribute(&mut w)?),
            other => return fail(w.last(), format!("unknown directive `{other}`")),
        }
        w.end()?;
    }
    if !attributes.is_empty() {
        s.data.extend(attr::write(&attributes));
    }
    for (pc, text, at) in code {
        let word = assemble(&text, at, pc, &labels, sm)?;
        s.data[pc as usize..pc as usize + 16].copy_from_slice(&word.to_le_bytes());
    }
    Ok(symbols)
}

/// One instruction; its place in the text is added to what is said about it.
fn assemble(text: &str, at: u32, pc: u64, labels: &Label, sm: u16) -> Result<u128, Diagnostic> {
    let inst = parse_on(text, pc, labels, Some(sm)).map_err(|d| super::text::shifted(d, at))?;
    encode(&inst, sm).map_err(|e| Diagnostic::error(e.message).at(diag::Span::new(at, at + text.len() as u32)))
}

struct Label(HashMap<String, i64>);

impl Addresses for Label {
    fn address(&self, label: &str) -> Option<i64> {
        self.0.get(label).copied()
    }
}

fn symbol(w: &mut Words) -> Result<Pending, Diagnostic> {
    let mut s = Symbol {
        name: w.string()?,
        bind: w.number("bind")?,
        kind: w.number("type")?,
        other: w.number("other")?,
        shndx: w.number("section")?,
        value: w.number("value")?,
        ..Symbol::default()
    };
    let rest = w.key_is("size", "rest");
    if !rest {
        s.size = w.number("size")?;
    }
    let known = if w.has("name_offset") { Some(w.number("name_offset")?) } else { None };
    Ok((s, known, rest, w.last()))
}

fn attribute(w: &mut Words) -> Result<Attr, Diagnostic> {
    let name = w.word()?;
    let code = match name.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => (0..=u8::MAX).find(|&c| attr::name(c) == Some(name)),
    };
    let Some(code) = code else { return fail(w.last(), format!("unknown attribute `{name}`")) };
    let value = match w.word()? {
        "none" => Value::None(w.plain_number()?),
        "byte" => Value::Byte(w.plain_number()?, w.plain_number()?),
        "half" => Value::Half(w.plain_number()?),
        "words" => {
            let mut bytes = Vec::new();
            while !w.is_empty() {
                bytes.extend(w.plain_number::<u32>()?.to_le_bytes());
            }
            Value::Bytes(bytes)
        }
        "bytes" => Value::Bytes(w.bytes()?),
        other => return fail(w.last(), format!("unknown kind of value `{other}`")),
    };
    if matches!(&value, Value::Bytes(b) if b.len() > u16::MAX as usize) {
        return fail(w.last(), "an attribute holds 65535 bytes at most");
    }
    Ok(Attr { code, value })
}
