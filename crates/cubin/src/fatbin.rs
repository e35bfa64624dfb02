//! Fatbins: containers of cubins and PTX for several targets, as the vendor's fatbinary writes them.
//!
//! A container is a header of 16 bytes and entries, each with a header of its own. The layout was read off files that
//! fatbinary and nvcc of 13.0 and 13.5 wrote.

use crate::elf::{u16_at, u32_at, u64_at};
use diag::Diagnostic;
use std::borrow::Cow;

/// The first four bytes of a container.
pub const MAGIC: u32 = 0xba55_ed50;
/// The first four bytes of the record in `.nvFatBinSegment` that points at a container.
pub const WRAPPER_MAGIC: u32 = 0x4662_43b1;

/// Flags of an entry.
pub mod flags {
    /// Made for 64-bit addresses.
    pub const BITS64: u64 = 1;
    /// Has debug information.
    pub const DEBUG: u64 = 2;
    /// The host is Linux.
    pub const LINUX: u64 = 0x10;
    /// The body is an LZ4 block.
    pub const LZ4: u64 = 0x2000;
    /// The body is a zstd frame.
    pub const ZSTD: u64 = 0x8000;
    /// The target has an `a`.
    pub const ACCELERATED: u64 = 0x10_0000;
    /// The target has an `f`.
    pub const FAMILY: u64 = 0x20_0000;
    /// The cubin has a capsule.
    pub const CAPSULE: u64 = 0x100_0000;
}

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PTX text.
    Ptx,
    /// A cubin.
    Elf,
    /// Code for link-time optimization.
    Lto,
    /// Something else, by its number.
    Other(u16),
}

impl Kind {
    fn number(self) -> u16 {
        match self {
            Kind::Ptx => 1,
            Kind::Elf => 2,
            Kind::Lto => 8,
            Kind::Other(n) => n,
        }
    }
}

/// An entry of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it holds.
    pub kind: Kind,
    /// Major and minor version: that of PTX, or 1 and 8 for a cubin.
    pub version: (u16, u16),
    /// SM number.
    pub sm: u32,
    /// [`flags`].
    pub flags: u64,
    /// The name that `-ident` gave it.
    pub identifier: Cow<'a, [u8]>,
    /// Options of the compilation; of a capsule cubin, its `.nv.compat`; of entries that were compressed together, their headers.
    pub options: Option<Cow<'a, [u8]>>,
    /// The body as it lies in the file.
    pub body: Cow<'a, [u8]>,
    /// Size of the body before compression; 0 if it is not compressed.
    pub uncompressed: u64,
}

fn bad(what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(format!("not a valid fatbin: {what}"))
}

/// The largest body that is unpacked; more is taken for damage.
const MAX_BODY: u64 = 1 << 32;

/// Kind of an entry that holds several, which were compressed together.
const JOINED: u16 = 256;
/// Offset of the headers of joined entries.
const TABLE: usize = 64;

/// True for bytes that begin as a container does.
pub fn is_fatbin(bytes: &[u8]) -> bool {
    bytes.len() >= 16 && u32_at(bytes, 0) == MAGIC
}

/// The size of the container that `bytes` begin with, its header included.
///
/// # Errors
/// Where there is none, or it does not end inside of the bytes.
pub fn size(bytes: &[u8]) -> Result<usize, Diagnostic> {
    if !is_fatbin(bytes) {
        return Err(bad("it does not begin with a header"));
    }
    let (version, header) = (u16_at(bytes, 4), u16_at(bytes, 6) as u64);
    if version != 1 || header < 16 {
        return Err(bad(format!("version {version} with a header of {header} bytes is unknown")));
    }
    let end = u64_at(bytes, 8).checked_add(header).filter(|&e| e <= bytes.len() as u64);
    end.map(|e| e as usize).ok_or_else(|| bad("it is cut off"))
}

/// The entries of the container that `bytes` begin with. Those that were compressed together are taken apart.
///
/// # Errors
/// Where the container or an entry does not end inside of the bytes.
pub fn read(bytes: &[u8]) -> Result<Vec<Entry<'_>>, Diagnostic> {
    Ok(groups(bytes)?.into_iter().flat_map(|g| g.entries).collect())
}

/// Entries that were compressed together, or one alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The entry that holds them; none of one alone.
    pub whole: Option<Entry<'a>>,
    /// The entries.
    pub entries: Vec<Entry<'a>>,
}

/// As [`read`], by groups.
///
/// # Errors
/// As [`read`].
pub fn groups(bytes: &[u8]) -> Result<Vec<Group<'_>>, Diagnostic> {
    let end = size(bytes)?;
    let mut at = u16_at(bytes, 6) as usize;
    let mut out = Vec::new();
    while at < end {
        let n = out.len() + 1;
        let cut = || bad(format!("entry {n} is cut off"));
        let rest = &bytes[at..end];
        let (header, body) = (u32_at(rest, 4) as usize, u64_at(rest, 8));
        if rest.len() < 64 || header < 64 {
            return Err(cut());
        }
        let body_end = body.checked_add(header as u64).filter(|&e| e <= rest.len() as u64).ok_or_else(cut)? as usize;
        let part = |offset: usize, len: usize| {
            let end = offset.checked_add(len).filter(|&e| e <= header);
            end.and_then(|e| rest.get(offset..e)).ok_or_else(|| bad(format!("the header of entry {n} is damaged")))
        };
        let compressed = u32_at(rest, 0x10) as usize;
        let kind = u16_at(rest, 0);
        let options = match u32_at(rest, 0x14) as usize {
            0 => None,
            o if kind == JOINED => Some(part(o, header.saturating_sub(o))?),
            o => {
                let block = part(o, 8)?;
                let (from, len) = (u32_at(block, 0) as usize, u32_at(block, 4) as usize);
                Some(part(from + empty_text(u64_at(rest, 0x28), rest.get(from)), len)?)
            }
        };
        let body = &rest[header..body_end];
        let body = if compressed > 0 { body.get(..compressed).ok_or_else(cut)? } else { body };
        let entry = Entry {
            kind: kind_of(kind),
            version: (u16_at(rest, 0x1a), u16_at(rest, 0x18)),
            sm: u32_at(rest, 0x1c),
            flags: u64_at(rest, 0x28),
            identifier: Cow::Borrowed(part(u32_at(rest, 0x20) as usize, u32_at(rest, 0x24) as usize)?),
            options: options.map(Cow::Borrowed),
            body: Cow::Borrowed(body),
            uncompressed: u64_at(rest, 0x38),
        };
        match kind {
            JOINED => out.push(Group { entries: apart(&entry)?, whole: Some(entry) }),
            _ => out.push(Group { whole: None, entries: vec![entry] }),
        }
        at += body_end;
    }
    Ok(out)
}

/// A capsule's needs stand behind options, which are empty and end with a zero byte; the length is that of the needs alone, which never begin
/// with zero. (Observed: fatbinary 13.5.)
fn empty_text(flags: u64, first: Option<&u8>) -> usize {
    (flags & flags::CAPSULE != 0 && first == Some(&0)) as usize
}

fn kind_of(number: u16) -> Kind {
    match number {
        1 => Kind::Ptx,
        2 => Kind::Elf,
        8 => Kind::Lto,
        n => Kind::Other(n),
    }
}

/// Entries that were compressed together, each with its body. Their headers stand behind that of the whole, with the place of the body
/// in what is unpacked where other headers have their own size.
fn apart<'a>(joined: &Entry<'a>) -> Result<Vec<Entry<'a>>, Diagnostic> {
    let damaged = || bad("the headers of entries that were compressed together are damaged");
    let table = joined.options.as_deref().filter(|t| t.len() >= 8).ok_or_else(damaged)?;
    let (count, end) = (u32_at(table, 0) as usize, u32_at(table, 4) as usize);
    let table = table.get(..end).ok_or_else(damaged)?;
    let bodies = joined.unpack()?;
    let (mut at, mut out) = (8, Vec::new());
    for _ in 0..count {
        let rest = table.get(at..).filter(|r| r.len() >= TABLE).ok_or_else(damaged)?;
        let part = |offset: u32, len: u32| {
            rest.get(offset as usize..(offset as usize).saturating_add(len as usize)).ok_or_else(damaged)
        };
        let name = (u32_at(rest, 0x20), u32_at(rest, 0x24));
        let identifier = part(name.0, name.1)?;
        let mut size = TABLE.max(name.0 as usize + name.1 as usize);
        let options = match u32_at(rest, 0x14) {
            0 => None,
            o => {
                let block = part(o, 8)?;
                let (from, len) = (u32_at(block, 0), u32_at(block, 4));
                let from = from.saturating_add(empty_text(u64_at(rest, 0x28), rest.get(from as usize)) as u32);
                let text = part(from, len)?;
                size = size.max(from as usize + (len as usize).max(8));
                Some(Cow::Owned(text.to_vec()))
            }
        };
        let (from, len) = (u32_at(rest, 4) as usize, u64_at(rest, 8) as usize);
        let mut body = bodies.get(from..from.saturating_add(len)).ok_or_else(damaged)?;
        let kind = kind_of(u16_at(rest, 0));
        // Bodies are filled up to 8 bytes; a text ends with one zero byte.
        while kind == Kind::Ptx && body.ends_with(&[0, 0]) {
            body = &body[..body.len() - 1];
        }
        out.push(Entry {
            kind,
            version: (u16_at(rest, 0x1a), u16_at(rest, 0x18)),
            sm: u32_at(rest, 0x1c),
            flags: u64_at(rest, 0x28),
            identifier: Cow::Owned(identifier.to_vec()),
            options,
            body: Cow::Owned(body.to_vec()),
            uncompressed: 0,
        });
        at += size.next_multiple_of(8);
    }
    Ok(out)
}

/// One entry of several, to be compressed together.
pub fn join(entries: &[Entry]) -> Entry<'static> {
    let (mut table, mut body) = (vec![0; 8], Vec::new());
    for e in entries {
        let mut head = header(e);
        let from = body.len() as u32;
        body.extend(e.body.iter());
        pad8(&mut body);
        head[4..8].copy_from_slice(&from.to_le_bytes());
        table.extend(head);
    }
    let size = table.len() as u32;
    table[..4].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    table[4..8].copy_from_slice(&size.to_le_bytes());
    let shared = flags::BITS64 | flags::DEBUG | flags::LINUX;
    Entry {
        kind: Kind::Other(JOINED),
        version: (0, 1),
        sm: 0,
        flags: entries.first().map_or(0, |e| e.flags & shared),
        identifier: Cow::Borrowed(&[]),
        options: Some(Cow::Owned(table)),
        body: Cow::Owned(body),
        uncompressed: 0,
    }
}

impl<'a> Entry<'a> {
    /// The body before compression. PTX has a zero byte at its end.
    ///
    /// # Errors
    /// Where it does not unpack to the size that the entry states.
    pub fn unpack(&self) -> Result<Cow<'a, [u8]>, Diagnostic> {
        let wrong = |how: &str| bad(format!("the {how} body of the entry for sm_{} does not unpack", self.sm));
        if self.uncompressed == 0 || self.flags & (flags::ZSTD | flags::LZ4) == 0 {
            return Ok(self.body.clone());
        }
        if self.uncompressed > MAX_BODY {
            return Err(bad(format!("an entry says that it has 0x{:x} bytes", self.uncompressed)));
        }
        let size = self.uncompressed as usize;
        let out = if self.flags & flags::ZSTD != 0 {
            use std::io::Read;
            let mut out = Vec::with_capacity(size.min(1 << 24));
            let decoder = ruzstd::decoding::StreamingDecoder::new(self.body.as_ref()).map_err(|_| wrong("zstd"))?;
            decoder.take(size as u64 + 1).read_to_end(&mut out).map_err(|_| wrong("zstd"))?;
            out
        } else {
            // A block of LZ4 cannot grow more than this; a larger size is damage, not a reason to take memory.
            if size > self.body.len().saturating_mul(256) + 64 {
                return Err(wrong("LZ4"));
            }
            lz4_flex::block::decompress(&self.body, size).map_err(|_| wrong("LZ4"))?
        };
        if out.len() != size {
            return Err(wrong(if self.flags & flags::ZSTD != 0 { "zstd" } else { "LZ4" }));
        }
        Ok(Cow::Owned(out))
    }

    /// The same entry with its body compressed by LZ4.
    pub fn compress_lz4(mut self) -> Entry<'a> {
        self.uncompressed = self.body.len() as u64;
        self.body = Cow::Owned(lz4_flex::block::compress(&self.body));
        self.flags |= flags::LZ4;
        self
    }

    /// The same entry with its body compressed by zstd.
    pub fn compress_zstd(mut self) -> Entry<'a> {
        self.uncompressed = self.body.len() as u64;
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        self.body = Cow::Owned(ruzstd::encoding::compress_to_vec(self.body.as_ref(), level));
        self.flags |= flags::ZSTD;
        self
    }

    /// The name of the entry's target: `sm_90a`.
    pub fn target(&self) -> String {
        let letter = match self.flags {
            f if f & flags::ACCELERATED != 0 => "a",
            f if f & flags::FAMILY != 0 => "f",
            _ => "",
        };
        format!("sm_{}{letter}", self.sm)
    }
}

fn pad8(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

/// The header of an entry, with its name and options.
fn header(e: &Entry) -> Vec<u8> {
    let mut out = vec![0; TABLE];
    let name_at = if e.identifier.is_empty() { 0 } else { TABLE };
    out.extend(e.identifier.iter());
    pad8(&mut out);
    let mut options_at = 0;
    if let Some(text) = &e.options {
        options_at = out.len();
        if e.kind != Kind::Other(JOINED) {
            out.extend((options_at as u32 + 8).to_le_bytes());
            out.extend((text.len() as u32).to_le_bytes());
        }
        if e.flags & flags::CAPSULE != 0 {
            out.push(0);
        }
        out.extend(text.iter());
        if text.is_empty() {
            out.extend([0; 8]);
        }
        pad8(&mut out);
    }
    let compressed = if e.uncompressed > 0 { e.body.len() as u32 } else { 0 };
    let mut head = Vec::with_capacity(TABLE);
    head.extend(e.kind.number().to_le_bytes());
    head.extend(0x101u16.to_le_bytes());
    head.extend((out.len() as u32).to_le_bytes());
    head.extend((e.body.len() as u64).next_multiple_of(8).to_le_bytes());
    head.extend(compressed.to_le_bytes());
    head.extend((options_at as u32).to_le_bytes());
    head.extend(e.version.1.to_le_bytes());
    head.extend(e.version.0.to_le_bytes());
    head.extend(e.sm.to_le_bytes());
    head.extend((name_at as u32).to_le_bytes());
    head.extend((e.identifier.len() as u32).to_le_bytes());
    head.extend(e.flags.to_le_bytes());
    head.extend(0u64.to_le_bytes());
    head.extend(e.uncompressed.to_le_bytes());
    out[..TABLE].copy_from_slice(&head);
    out
}

/// The bytes of a container with these entries.
pub fn write(entries: &[Entry]) -> Vec<u8> {
    let mut out = vec![0; 16];
    for e in entries {
        out.extend(header(e));
        out.extend(e.body.iter());
        pad8(&mut out);
    }
    let len = out.len() as u64 - 16;
    out[..4].copy_from_slice(&MAGIC.to_le_bytes());
    out[4..8].copy_from_slice(&[1, 0, 16, 0]);
    out[8..16].copy_from_slice(&len.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(body: &[u8]) -> Entry<'_> {
        Entry {
            kind: Kind::Ptx,
            version: (8, 7),
            sm: 90,
            flags: flags::BITS64 | flags::ACCELERATED,
            identifier: Cow::Borrowed(b"x.cu"),
            options: Some(Cow::Borrowed(b"--compile-only  ")),
            body: Cow::Borrowed(body),
            uncompressed: 0,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let body = b"one two one two one two one two one two one two one two..".repeat(9);
        let list = [entry(b"12345678"), entry(&body).compress_lz4(), entry(&body).compress_zstd()];
        let bytes = write(&list);
        let back = read(&bytes).unwrap();
        assert_eq!(back, list);
        assert_eq!(back[0].target(), "sm_90a");
        assert_eq!(*back[0].unpack().unwrap(), *b"12345678");
        for e in &back[1..] {
            assert!(e.body.len() < 200);
            assert_eq!(*e.unpack().unwrap(), *body);
        }
    }

    #[test]
    fn joined_entries_are_taken_apart() {
        let body = b"one two one two one two one two one two one two one two..".repeat(9);
        let ends = [&body[..], &[0]].concat();
        let mut list =
            [entry(b"1234567\0"), entry(&ends), Entry { kind: Kind::Elf, options: None, ..entry(&body[..16]) }];
        list[1].options = Some(Cow::Borrowed(b""));
        for joined in [join(&list), join(&list).compress_lz4(), join(&list).compress_zstd()] {
            let bytes = write(&[joined, entry(b"1234567\0")]);
            let back = read(&bytes).unwrap();
            assert_eq!(back[..3], list);
            assert_eq!(back[3], list[0]);
            for n in 0..bytes.len() {
                assert!(read(&bytes[..n]).is_err(), "{n}");
            }
        }
    }

    #[test]
    fn damage_is_told() {
        let bytes = write(&[entry(b"12345678")]);
        for n in 0..bytes.len() {
            assert!(read(&bytes[..n]).is_err(), "{n}");
        }
        let list = [entry(&[7; 100]).compress_lz4(), entry(&[7; 100]).compress_zstd()];
        for e in list {
            let mut short = e.clone();
            short.uncompressed = 99;
            assert!(short.unpack().is_err());
            let mut cut = e.clone();
            cut.body = Cow::Owned(e.body[..e.body.len() - 1].to_vec());
            assert!(cut.unpack().is_err());
        }
    }
}
