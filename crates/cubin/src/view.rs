//! A 64-bit little-endian ELF file of any machine, seen without copying: what a linker reads, of cubins as of host objects.

use crate::elf::{SHT_NOBITS, SHT_REL, SHT_RELA, SHT_SYMTAB, XINDEX, section_count, too_many, u16_at, u32_at, u64_at};
use diag::Diagnostic;

const HEADER: usize = 0x40;
const SECTION: usize = 0x40;
const SYMBOL: usize = 0x18;

/// A file whose parts have been checked to lie inside of it.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// OSABI and ABI version: bytes 7 and 8 of the file.
    pub abi: [u8; 2],
    /// `e_type`.
    pub kind: u16,
    /// `e_machine`.
    pub machine: u16,
    /// `e_flags`.
    pub flags: u32,
    /// Sections, the null section included.
    pub sections: Vec<SectionView<'a>>,
}

/// A section of a file; fields as in [`crate::elf::Section`].
#[derive(Clone, Copy, Debug)]
pub struct SectionView<'a> {
    /// Its name.
    pub name: &'a str,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// Size in bytes, also of sections without bytes in the file.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// Alignment.
    pub align: u64,
    /// Bytes; empty for sections that have none in the file.
    pub data: &'a [u8],
}

/// A symbol of a file; fields as in [`crate::elf::Symbol`].
#[derive(Clone, Copy, Debug)]
pub struct SymbolView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Binding: 0 local, 1 global, 2 weak.
    pub bind: u8,
    /// Type.
    pub kind: u8,
    /// `st_other`.
    pub other: u8,
    /// Section index.
    pub shndx: u16,
    /// Value.
    pub value: u64,
    /// Size.
    pub size: u64,
}

fn bad(what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(format!("not a valid ELF file: {what}"))
}

fn slice<'a>(bytes: &'a [u8], offset: u64, size: u64, what: &str) -> Result<&'a [u8], Diagnostic> {
    let end = offset.checked_add(size).filter(|&e| e <= bytes.len() as u64);
    let end = end.ok_or_else(|| bad(format!("{what} at 0x{offset:x} of 0x{size:x} bytes ends past the file's end")))?;
    Ok(&bytes[offset as usize..end as usize])
}

/// True for types of sections whose bytes are in the file: variables without a value and shared memory have none.
pub fn in_file(kind: u32) -> bool {
    !matches!(kind, 0 | SHT_NOBITS | 0x7000_0007 | 0x7000_000a | 0x7000_0015)
}

/// The string at `offset` of a table of strings.
///
/// # Errors
/// Where it lies outside, has no end or is no UTF-8.
pub fn str_at(table: &[u8], offset: u32) -> Result<&str, Diagnostic> {
    let rest = table.get(offset as usize..).ok_or_else(|| bad(format!("there is no name at 0x{offset:x}")))?;
    let end = rest.iter().position(|&b| b == 0).ok_or_else(|| bad(format!("the name at 0x{offset:x} has no end")))?;
    std::str::from_utf8(&rest[..end]).map_err(|_| bad(format!("the name at 0x{offset:x} is no UTF-8")))
}

impl<'a> View<'a> {
    /// Reads the headers of a file.
    ///
    /// # Errors
    /// Where the file is no 64-bit little-endian ELF file, or a part of it lies outside of it.
    pub fn read(bytes: &'a [u8]) -> Result<View<'a>, Diagnostic> {
        if bytes.len() < HEADER || bytes[..4] != *b"\x7fELF" {
            return Err(bad("it does not begin with an ELF header"));
        }
        if bytes[4..7] != [2, 1, 1] {
            return Err(bad("it is not 64-bit and little-endian"));
        }
        let (shoff, size, count) = (u64_at(bytes, 40), u16_at(bytes, 58), u16_at(bytes, 60) as usize);
        if count > 0 && size as usize != SECTION {
            return Err(bad("its section headers have an unknown size"));
        }
        let count = section_count(bytes, shoff, count);
        let table = slice(bytes, shoff, (count as u64).saturating_mul(SECTION as u64), "the section header table")?;
        let data = |h: &[u8], i: usize| {
            let kind = u32_at(h, 4);
            let (offset, size) = (u64_at(h, 24), u64_at(h, 32));
            if in_file(kind) { slice(bytes, offset, size, &format!("section {i}")) } else { Ok(&[][..]) }
        };
        let names = match table.chunks_exact(SECTION).nth(u16_at(bytes, 62) as usize) {
            Some(h) => data(h, u16_at(bytes, 62) as usize)?,
            None if count == 0 => &[],
            None => return Err(bad("the table of section names is missing")),
        };
        let mut sections = Vec::with_capacity(count);
        for (i, h) in table.chunks_exact(SECTION).enumerate() {
            sections.push(SectionView {
                name: if i == 0 { "" } else { str_at(names, u32_at(h, 0))? },
                kind: u32_at(h, 4),
                flags: u64_at(h, 8),
                size: u64_at(h, 32),
                link: u32_at(h, 40),
                info: u32_at(h, 44),
                align: u64_at(h, 48),
                data: data(h, i)?,
            });
        }
        let (kind, machine) = (u16_at(bytes, 16), u16_at(bytes, 18));
        Ok(View { abi: [bytes[7], bytes[8]], kind, machine, flags: u32_at(bytes, 48), sections })
    }

    /// The first section of that name.
    pub fn section(&self, name: &str) -> Option<&SectionView<'a>> {
        self.sections.iter().find(|s| s.name == name)
    }

    /// The symbols of the first symbol table; none where there is no such table.
    ///
    /// # Errors
    /// Where the table's size is no multiple of that of a symbol, its strings are missing, a name or a section index lies
    /// outside of its table.
    pub fn symbols(&self) -> Result<Vec<SymbolView<'a>>, Diagnostic> {
        let Some(table) = self.sections.iter().find(|s| s.kind == SHT_SYMTAB) else { return Ok(Vec::new()) };
        if !table.data.len().is_multiple_of(SYMBOL) {
            return Err(bad(format!("the size of {} is no multiple of 24", table.name)));
        }
        let strings = self.sections.get(table.link as usize).map(|s| s.data);
        let strings = strings.ok_or_else(|| bad(format!("{} has no string table", table.name)))?;
        let read = |s: &[u8]| {
            let shndx = u16_at(s, 6);
            if shndx == XINDEX {
                return Err(too_many());
            }
            if shndx < 0xff00 && shndx as usize >= self.sections.len() {
                return Err(bad(format!("a symbol lies in section {shndx} of {}", self.sections.len())));
            }
            Ok(SymbolView {
                name: str_at(strings, u32_at(s, 0))?,
                bind: s[4] >> 4,
                kind: s[4] & 15,
                other: s[5],
                shndx,
                value: u64_at(s, 8),
                size: u64_at(s, 16),
            })
        };
        table.data.chunks_exact(SYMBOL).map(read).collect()
    }
}

impl<'a> SectionView<'a> {
    /// The relocations in it, in order; none for other kinds of sections. An incomplete last one is left out.
    pub fn relocs(&self) -> impl DoubleEndedIterator<Item = crate::elf::Reloc> + use<'a> {
        let size = match self.kind {
            SHT_RELA => 24,
            SHT_REL => 16,
            _ => usize::MAX,
        };
        self.data.chunks_exact(size).map(move |r| crate::elf::Reloc {
            offset: u64_at(r, 0),
            kind: u32_at(r, 8),
            symbol: u32_at(r, 12),
            addend: if size == 24 { u64_at(r, 16) as i64 } else { 0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_elf_file_is_refused() {
        let text = |b: &[u8]| View::read(b).unwrap_err().message;
        assert_eq!(text(b"abc"), "not a valid ELF file: it does not begin with an ELF header");
        let mut head = vec![0u8; 64];
        head[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
        assert_eq!(text(&head), "not a valid ELF file: it is not 64-bit and little-endian");
        head[4] = 2;
        assert!(View::read(&head).unwrap().sections.is_empty());
        head[58] = 64;
        head[60] = 1;
        head[40] = 32;
        let m = "not a valid ELF file: the section header table at 0x20 of 0x40 bytes ends past the file's end";
        assert_eq!(text(&head), m);
    }
}
