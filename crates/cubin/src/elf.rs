//! The raw layer: an ELF file as values that are written back byte for byte.
//!
//! A read file remembers where everything lay, so that [`Elf::write`] gives the same bytes; [`Elf::lay_out`] gives places to
//! the parts of a new one, as the vendor's 13.5 tools do (sections in order, section headers directly behind the last byte,
//! program headers behind those).

use diag::Diagnostic;
use std::io::{self, Write};

/// `sh_type` of symbols.
pub const SHT_SYMTAB: u32 = 2;
/// `sh_type` of strings.
pub const SHT_STRTAB: u32 = 3;
/// `sh_type` of relocations with addend.
pub const SHT_RELA: u32 = 4;
/// `sh_type` of notes.
pub const SHT_NOTE: u32 = 7;
/// `sh_type` of data without bytes in the file.
pub const SHT_NOBITS: u32 = 8;
/// `sh_type` of relocations without addend.
pub const SHT_REL: u32 = 9;
/// `sh_type` of `.nv.info`; the vendor's other types count up from here.
pub const SHT_LOPROC: u32 = 0x7000_0000;
/// `sh_type` of the sections of symbols whose `st_shndx` has no room for them.
pub const SHT_SYMTAB_SHNDX: u32 = 18;
/// Sections from this number on have none that fits into a field of 16 bits: the header says 0 for how many there are, and the
/// size of section 0 tells it; a symbol says [`XINDEX`], and a table of its own has the number.
pub const RESERVED: usize = 0xff00;
/// `st_shndx` of a symbol in such a section.
pub const XINDEX: u16 = 0xffff;
/// `sh_type`: relocations of a capsule.
pub const SHT_CAPSULE_RELA: u32 = SHT_LOPROC + 0x82;
/// `sh_type`: resolved relocations of a capsule that are kept.
pub const SHT_CAPSULE_RESOLVED: u32 = SHT_LOPROC + 0x88;
/// `sh_type`: symbols of a capsule.
pub const SHT_CAPSULE_SYMTAB: u32 = SHT_LOPROC + 0x85;
/// Relocations that the linker has resolved, in the form of [`SHT_RELA`] (`.nv.resolvedrela.*`).
pub const SHT_RESOLVED: u32 = SHT_LOPROC + 3;
/// `e_machine` of CUDA.
pub const EM_CUDA: u16 = 0xbe;
/// `e_type` of a linkable file.
pub const ET_REL: u16 = 1;
/// `e_type` of a whole program that a library extends (`-ewp`), as ptxas 13.5 writes it.
pub const ET_EXTENSIBLE: u16 = 0xff00;
/// `e_type` of an executable file.
pub const ET_EXEC: u16 = 2;

const HEADER: usize = 0x40;
const SECTION: usize = 0x40;
const SEGMENT: usize = 0x38;
const SYMBOL: usize = 0x18;

/// The file header; field names are those of ELF without `e_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Magic, class, byte order, version, OSABI, ABI version.
    pub ident: [u8; 16],
    /// [`ET_REL`] or [`ET_EXEC`].
    pub kind: u16,
    /// [`EM_CUDA`].
    pub machine: u16,
    /// Format version.
    pub version: u32,
    /// Entry address, 0.
    pub entry: u64,
    /// Offset of the program headers.
    pub phoff: u64,
    /// Offset of the section headers.
    pub shoff: u64,
    /// `index of .note.nv.cuinfo << 24 | SM << 8 | kind of code`.
    pub flags: u32,
    /// Size of the header, of a program header, of a section header.
    pub sizes: [u16; 3],
    /// Index of the section with the section names.
    pub shstrndx: u16,
}

/// A section: its header, its name and its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Section {
    /// The name that `name_offset` leads to.
    pub name: String,
    /// Offset of the name in the table of section names.
    pub name_offset: u32,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`.
    pub addr: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Size in bytes; that of `data` unless the section has no bytes in the file.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// Alignment.
    pub align: u64,
    /// Size of an element, 0 where there are none.
    pub entsize: u64,
    /// Bytes; empty for [`SHT_NOBITS`].
    pub data: Vec<u8>,
}

/// A program header; field names are those of ELF without `p_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Segment {
    /// 6 PHDR, 1 LOAD.
    pub kind: u32,
    /// 4 read, 2 write, 1 execute.
    pub flags: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Virtual and physical address, 0.
    pub addr: [u64; 2],
    /// Bytes in the file.
    pub filesz: u64,
    /// Bytes in memory.
    pub memsz: u64,
    /// Alignment.
    pub align: u64,
}

/// A symbol.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Offset of the name in the string table.
    pub name_offset: u32,
    /// Binding: 0 local, 1 global, 2 weak.
    pub bind: u8,
    /// Type: 0 none, 1 object, 2 function, 3 section, 13 CUDA object.
    pub kind: u8,
    /// `st_other`: 0x10 entry; 0xe0 the memory space.
    pub other: u8,
    /// Section index.
    pub shndx: u16,
    /// Value.
    pub value: u64,
    /// Size.
    pub size: u64,
}

/// A relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloc {
    /// Offset in the section that it changes.
    pub offset: u64,
    /// Its number.
    pub kind: u32,
    /// Index of the symbol.
    pub symbol: u32,
    /// Addend; 0 in a table without addends, where the old content of the field is one.
    pub addend: i64,
}

/// An ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// The file header.
    pub header: Header,
    /// Sections, the null section included.
    pub sections: Vec<Section>,
    /// Program headers.
    pub segments: Vec<Segment>,
    /// Bytes that belong to no part, by offset.
    pub gaps: Vec<(u64, Vec<u8>)>,
    /// Size of the file.
    pub len: u64,
}

fn bad(what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(format!("not a valid cubin: {what}"))
}

/// Little-endian fields of a byte string; reading past the end gives 0, so sizes are checked before.
pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    b.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u16_at(b, at) as u32 | (u16_at(b, at + 2) as u32) << 16
}

pub(crate) fn u64_at(b: &[u8], at: usize) -> u64 {
    u32_at(b, at) as u64 | (u32_at(b, at + 4) as u64) << 32
}

/// The string at `offset` of a string table; empty where the offset lies outside.
pub fn string_at(table: &[u8], offset: u32) -> String {
    let rest = table.get(offset as usize..).unwrap_or_default();
    String::from_utf8_lossy(&rest[..rest.iter().position(|&b| b == 0).unwrap_or(rest.len())]).into_owned()
}

/// How many sections a file has, by the place of its section headers and what the header says.
pub(crate) fn section_count(bytes: &[u8], shoff: u64, said: usize) -> usize {
    let first =
        if said == 0 && shoff > 0 { slice(bytes, shoff, SECTION as u64, "a section header").ok() } else { None };
    let count = first.map_or(0, |h| u64_at(h, 32) as usize);
    if count >= RESERVED { count } else { said }
}

/// A symbol lies in a section whose number its 16 bits do not hold.
pub(crate) fn too_many() -> Diagnostic {
    bad(format!("symbols in sections from number {RESERVED} on are not supported"))
}

fn slice<'a>(bytes: &'a [u8], offset: u64, size: u64, what: &str) -> Result<&'a [u8], Diagnostic> {
    let end = offset.checked_add(size).filter(|&e| e <= bytes.len() as u64);
    let end = end.ok_or_else(|| bad(format!("{what} at 0x{offset:x} of 0x{size:x} bytes ends past the file's end")))?;
    Ok(&bytes[offset as usize..end as usize])
}

impl Elf {
    /// Reads a file.
    ///
    /// # Errors
    /// Where the file is no 64-bit little-endian ELF for CUDA, or a part of it lies outside of the file.
    pub fn read(bytes: &[u8]) -> Result<Elf, Diagnostic> {
        if bytes.len() < HEADER || bytes[..4] != *b"\x7fELF" {
            return Err(bad("it does not begin with an ELF header"));
        }
        if bytes[4..7] != [2, 1, 1] {
            return Err(bad("it is no 64-bit little-endian ELF file"));
        }
        let mut ident = [0; 16];
        ident.copy_from_slice(&bytes[..16]);
        let header = Header {
            ident,
            kind: u16_at(bytes, 16),
            machine: u16_at(bytes, 18),
            version: u32_at(bytes, 20),
            entry: u64_at(bytes, 24),
            phoff: u64_at(bytes, 32),
            shoff: u64_at(bytes, 40),
            flags: u32_at(bytes, 48),
            sizes: [u16_at(bytes, 52), u16_at(bytes, 54), u16_at(bytes, 58)],
            shstrndx: u16_at(bytes, 62),
        };
        if header.machine != EM_CUDA {
            return Err(bad(format!("it is made for machine 0x{:x}, not for CUDA (0xbe)", header.machine)));
        }
        let (phnum, shnum) = (u16_at(bytes, 56) as usize, u16_at(bytes, 60) as usize);
        let [head, segment, section] = header.sizes.map(usize::from);
        // A linkable file says 0 for the size of the program headers that it does not have.
        if head != HEADER || section != SECTION || (segment != SEGMENT && phnum != 0) {
            return Err(bad("its headers have unknown sizes"));
        }
        let shnum = section_count(bytes, header.shoff, shnum);
        let table =
            slice(bytes, header.shoff, (shnum as u64).saturating_mul(SECTION as u64), "the section header table")?;
        let mut sections = Vec::with_capacity(shnum);
        let mut total = 0u64;
        for (i, h) in table.chunks_exact(SECTION).enumerate() {
            let mut s = Section {
                name: String::new(),
                name_offset: u32_at(h, 0),
                kind: u32_at(h, 4),
                flags: u64_at(h, 8),
                addr: u64_at(h, 16),
                offset: u64_at(h, 24),
                size: u64_at(h, 32),
                link: u32_at(h, 40),
                info: u32_at(h, 44),
                align: u64_at(h, 48),
                entsize: u64_at(h, 56),
                data: Vec::new(),
            };
            if s.has_bytes() {
                // Sections may share bytes (the vendor's sm_100 files do), but not so many that reading takes all memory.
                total += s.size.min(bytes.len() as u64);
                if total > 4 * bytes.len() as u64 + 0x1_0000 {
                    return Err(bad("its sections lie over one another"));
                }
                s.data = slice(bytes, s.offset, s.size, &format!("section {i}"))?.to_vec();
            }
            sections.push(s);
        }
        if shnum > 0 {
            let names = sections.get(header.shstrndx as usize).map(|s| s.data.clone());
            let names = names.ok_or_else(|| bad("the table of section names is missing"))?;
            for s in &mut sections {
                s.name = string_at(&names, s.name_offset);
            }
        }
        let table = slice(bytes, header.phoff, (phnum * SEGMENT) as u64, "the program header table")?;
        let segments = table
            .chunks_exact(SEGMENT)
            .map(|h| Segment {
                kind: u32_at(h, 0),
                flags: u32_at(h, 4),
                offset: u64_at(h, 8),
                addr: [u64_at(h, 16), u64_at(h, 24)],
                filesz: u64_at(h, 32),
                memsz: u64_at(h, 40),
                align: u64_at(h, 48),
            })
            .collect();
        let mut elf = Elf { header, sections, segments, gaps: Vec::new(), len: bytes.len() as u64 };
        elf.find_gaps(bytes);
        Ok(elf)
    }

    fn find_gaps(&mut self, bytes: &[u8]) {
        let mut parts: Vec<(u64, u64)> = vec![
            (0, HEADER as u64),
            (self.header.shoff, (self.sections.len() * SECTION) as u64),
            (self.header.phoff, (self.segments.len() * SEGMENT) as u64),
        ];
        parts.extend(self.sections.iter().filter(|s| s.has_bytes()).map(|s| (s.offset, s.size)));
        parts.sort_unstable();
        let mut at = 0;
        for (offset, size) in parts {
            if size == 0 {
                continue;
            }
            if offset > at {
                self.gaps.push((at, bytes[at as usize..offset as usize].to_vec()));
            }
            at = at.max(offset + size);
        }
        if at < self.len {
            self.gaps.push((at, bytes[at as usize..].to_vec()));
        }
        // Gaps of zeros need no memory.
        self.gaps.retain(|(_, b)| b.iter().any(|&b| b != 0));
    }

    /// The bytes of the file: of a read one the same bytes, of a new one what [`Elf::lay_out`] has placed.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![0u8; self.len as usize];
        let (sections, segments, head) = self.tables();
        for (offset, bytes) in self.pieces(&sections, &segments, &head) {
            put(&mut out, offset, bytes);
        }
        out
    }

    /// Writes the same bytes, without making one block of them.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        let (sections, segments, head) = self.tables();
        let mut pieces = self.pieces(&sections, &segments, &head);
        pieces.sort_by_key(|p| p.0);
        let mut end = 0;
        for (offset, bytes) in &pieces {
            if *offset < end {
                // Parts of a file that was read may share bytes.
                return out.write_all(&self.write());
            }
            end = offset + bytes.len() as u64;
        }
        if end > self.len {
            return out.write_all(&self.write());
        }
        let mut at = 0;
        for (offset, bytes) in pieces {
            zeros(out, offset - at)?;
            out.write_all(bytes)?;
            at = offset + bytes.len() as u64;
        }
        zeros(out, self.len - at)
    }

    /// What lies in the file, in the order in which it is put there, by offset; the tables are those of [`Elf::tables`].
    fn pieces<'a>(&'a self, sections: &'a [u8], segments: &'a [u8], head: &'a [u8]) -> Vec<(u64, &'a [u8])> {
        let gaps = self.gaps.iter().map(|(offset, bytes)| (*offset, bytes.as_slice()));
        let data = self.sections.iter().filter(|s| s.has_bytes()).map(|s| (s.offset, s.data.as_slice()));
        let tables = [(self.header.shoff, sections), (self.header.phoff, segments), (0, head)];
        gaps.chain(data).chain(tables).filter(|p| !p.1.is_empty()).collect()
    }

    /// The section headers, the program headers, and the header.
    fn tables(&self) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let mut sections = Vec::with_capacity(self.sections.len() * SECTION);
        for s in &self.sections {
            sections.extend(s.name_offset.to_le_bytes());
            sections.extend(s.kind.to_le_bytes());
            for n in [s.flags, s.addr, s.offset, s.size] {
                sections.extend(n.to_le_bytes());
            }
            sections.extend(s.link.to_le_bytes());
            sections.extend(s.info.to_le_bytes());
            sections.extend(s.align.to_le_bytes());
            sections.extend(s.entsize.to_le_bytes());
        }
        let mut segments = Vec::with_capacity(self.segments.len() * SEGMENT);
        for s in &self.segments {
            segments.extend(s.kind.to_le_bytes());
            segments.extend(s.flags.to_le_bytes());
            for n in [s.offset, s.addr[0], s.addr[1], s.filesz, s.memsz, s.align] {
                segments.extend(n.to_le_bytes());
            }
        }
        let h = &self.header;
        let mut head = h.ident.to_vec();
        head.extend(h.kind.to_le_bytes());
        head.extend(h.machine.to_le_bytes());
        head.extend(h.version.to_le_bytes());
        for n in [h.entry, h.phoff, h.shoff] {
            head.extend(n.to_le_bytes());
        }
        head.extend(h.flags.to_le_bytes());
        let count = if self.sections.len() < RESERVED { self.sections.len() as u16 } else { 0 };
        for n in [h.sizes[0], h.sizes[1], self.segments.len() as u16, h.sizes[2], count, h.shstrndx] {
            head.extend(n.to_le_bytes());
        }
        (sections, segments, head)
    }

    /// Gives every section, the two header tables and the file's end their places: each section at the next multiple of its
    /// alignment, then the section headers, then as many program headers as `segments` says (0 for a linkable file).
    pub fn lay_out(&mut self, segments: usize) {
        let mut at = HEADER as u64;
        let count = self.sections.len();
        if let Some(first) = self.sections.first_mut() {
            first.size = if count < RESERVED { 0 } else { count as u64 };
        }
        for s in self.sections.iter_mut().skip(1) {
            at = at.next_multiple_of(s.align.max(1));
            s.offset = at;
            if s.has_bytes() {
                s.size = s.data.len() as u64;
                at += s.size;
            }
        }
        self.header.shoff = at;
        at += (self.sections.len() * SECTION) as u64;
        self.header.phoff = if segments > 0 { at } else { 0 };
        self.len = at + (segments * SEGMENT) as u64;
        self.gaps.clear();
    }

    /// The first section of that name, with its index.
    pub fn section(&self, name: &str) -> Option<(usize, &Section)> {
        self.sections.iter().enumerate().find(|(_, s)| s.name == name)
    }

    /// The SM number in the header's flags.
    pub fn sm(&self) -> u16 {
        (self.header.flags >> 8) as u16
    }

    /// The symbols of the first symbol table; none where there is no such table.
    ///
    /// # Errors
    /// Where the table's size is no multiple of that of a symbol, or its string table is missing; for a file with more sections than
    /// a symbol can name.
    pub fn symbols(&self) -> Result<Vec<Symbol>, Diagnostic> {
        let Some(table) = self.sections.iter().find(|s| s.kind == SHT_SYMTAB) else { return Ok(Vec::new()) };
        self.symbols_of(table)
    }

    /// The symbols of a symbol table.
    ///
    /// # Errors
    /// As [`Elf::symbols`].
    pub fn symbols_of(&self, table: &Section) -> Result<Vec<Symbol>, Diagnostic> {
        if !table.data.len().is_multiple_of(SYMBOL) {
            return Err(bad(format!("the size of {} is no multiple of 24", table.name)));
        }
        let strings = self.sections.get(table.link as usize).map(|s| s.data.as_slice());
        let strings = strings.ok_or_else(|| bad(format!("{} has no string table", table.name)))?;
        if table.data.chunks_exact(SYMBOL).any(|s| u16_at(s, 6) == XINDEX) {
            return Err(too_many());
        }
        Ok(table
            .data
            .chunks_exact(SYMBOL)
            .map(|s| Symbol {
                name: string_at(strings, u32_at(s, 0)),
                name_offset: u32_at(s, 0),
                bind: s[4] >> 4,
                kind: s[4] & 15,
                other: s[5],
                shndx: u16_at(s, 6),
                value: u64_at(s, 8),
                size: u64_at(s, 16),
            })
            .collect())
    }
}

fn put(out: &mut [u8], offset: u64, bytes: &[u8]) {
    let end = (offset as usize).saturating_add(bytes.len());
    if let Some(place) = out.get_mut(offset as usize..end) {
        place.copy_from_slice(bytes);
    }
}

/// Writes zeros.
fn zeros(out: &mut dyn Write, mut count: u64) -> io::Result<()> {
    while count > 0 {
        let n = count.min(256);
        out.write_all(&[0; 256][..n as usize])?;
        count -= n;
    }
    Ok(())
}

impl Section {
    /// True where the section's bytes lie in the file.
    pub fn has_bytes(&self) -> bool {
        self.kind != SHT_NOBITS && self.kind != 0 && !self.is_vendor_nobits()
    }

    /// The vendor's types of linkable files without bytes: global (+7), shared (+a), unified stubs (+12), reserved shared (+15).
    fn is_vendor_nobits(&self) -> bool {
        self.kind >= SHT_LOPROC && matches!(self.kind - SHT_LOPROC, 0x7 | 0xa | 0x15)
    }

    /// The relocations in it; none for other kinds of sections. An incomplete last one is left out.
    pub fn relocs(&self) -> Vec<Reloc> {
        let size = match self.kind {
            // Those that were resolved and are kept all the same.
            SHT_RELA | SHT_RESOLVED | SHT_CAPSULE_RELA | SHT_CAPSULE_RESOLVED => 24,
            SHT_REL => 16,
            _ => return Vec::new(),
        };
        self.data
            .chunks_exact(size)
            .map(|r| Reloc {
                offset: u64_at(r, 0),
                kind: u32_at(r, 8),
                symbol: u32_at(r, 12),
                addend: if size == 24 { u64_at(r, 16) as i64 } else { 0 },
            })
            .collect()
    }
}

impl Symbol {
    /// The bytes of the symbol in a table.
    pub fn bytes(&self) -> [u8; SYMBOL] {
        let mut out = [0; SYMBOL];
        out[..4].copy_from_slice(&self.name_offset.to_le_bytes());
        out[4] = self.bind << 4 | self.kind & 15;
        out[5] = self.other;
        out[6..8].copy_from_slice(&self.shndx.to_le_bytes());
        out[8..16].copy_from_slice(&self.value.to_le_bytes());
        out[16..].copy_from_slice(&self.size.to_le_bytes());
        out
    }
}

impl Reloc {
    /// The bytes of the relocation in a table with addends.
    pub fn bytes(&self) -> [u8; 24] {
        let mut out = [0; 24];
        out[..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..12].copy_from_slice(&self.kind.to_le_bytes());
        out[12..16].copy_from_slice(&self.symbol.to_le_bytes());
        out[16..].copy_from_slice(&self.addend.to_le_bytes());
        out
    }
}
