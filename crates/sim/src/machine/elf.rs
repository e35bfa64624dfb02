//! As much of ELF as a launch needs: sections, symbols, relocations of a cubin.

/// A section.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Name.
    pub name: String,
    /// Section type; 8 holds no bytes in the file.
    pub kind: u32,
    /// Content; zeros for a section without bytes in the file.
    pub data: Vec<u8>,
    /// `sh_info`.
    pub info: u32,
    /// Alignment.
    pub align: u64,
    /// Bytes of an entry.
    entsize: u64,
}

/// A symbol.
#[derive(Clone, Debug, Default)]
pub struct Symbol {
    /// Value.
    pub value: u64,
    /// Section index; 0 is undefined.
    pub section: u16,
}

/// A relocation.
#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    /// Where, in the section that it belongs to.
    pub offset: u64,
    /// Type.
    pub kind: u32,
    /// Symbol index.
    pub symbol: u32,
    /// Added value; for a relocation without one, what stands at the place.
    pub addend: Option<i64>,
}

/// A cubin taken apart.
#[derive(Clone, Debug, Default)]
pub struct Elf {
    /// `e_flags`.
    pub flags: u32,
    /// Sections by index.
    pub sections: Vec<Section>,
    /// Symbols by index.
    pub symbols: Vec<Symbol>,
    /// Relocations with the index of the section that they change.
    pub relocations: Vec<(usize, Relocation)>,
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn int(&self, at: u64, size: u64) -> Option<u64> {
        let slice = self.slice(at, size)?;
        Some(slice.iter().rev().fold(0, |n, &b| n << 8 | b as u64))
    }

    fn slice(&self, at: u64, size: u64) -> Option<&[u8]> {
        let end = at.checked_add(size)?;
        self.0.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?)
    }

    fn text(&self, at: u64) -> Option<String> {
        let rest = self.0.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|&b| b == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }
}

impl Elf {
    /// Takes a 64-bit little-endian CUDA ELF apart.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn read(bytes: &[u8]) -> Result<Elf, String> {
        if bytes.len() < 64 || bytes[..6] != [0x7f, b'E', b'L', b'F', 2, 1] {
            return Err("this is no 64-bit little-endian ELF file".into());
        }
        Self::parse(&Bytes(bytes)).ok_or_else(|| "the ELF file is truncated or damaged".into())
    }

    fn parse(b: &Bytes<'_>) -> Option<Elf> {
        let (start, size, count, names) = (b.int(0x28, 8)?, b.int(0x3a, 2)?, b.int(0x3c, 2)?, b.int(0x3e, 2)?);
        let mut elf = Elf { flags: b.int(0x30, 4)? as u32, ..Elf::default() };
        let header = |i: u64| start.checked_add(i.checked_mul(size)?);
        let names = b.int(header(names)? + 0x18, 8)?;
        for i in 0..count {
            let h = header(i)?;
            let kind = b.int(h + 4, 4)? as u32;
            let (at, size) = (b.int(h + 0x18, 8)?, b.int(h + 0x20, 8)?);
            let data = match kind {
                // Without bytes in the file; the limit is far above what a GPU has of shared memory, and below harm.
                8 if size <= 1 << 32 => vec![0; size as usize],
                8 => return None,
                _ => b.slice(at, size)?.to_vec(),
            };
            elf.sections.push(Section {
                name: b.text(names.checked_add(b.int(h, 4)?)?)?,
                kind,
                data,
                info: b.int(h + 0x2c, 4)? as u32,
                align: b.int(h + 0x30, 8)?,
                entsize: b.int(h + 0x38, 8)?,
            });
        }
        let Elf { sections, symbols, relocations, .. } = &mut elf;
        for s in sections.iter() {
            let table = Bytes(&s.data);
            let rows = (s.data.len() as u64).checked_div(s.entsize).unwrap_or(0);
            match s.kind {
                2 => {
                    for i in 0..rows {
                        let at = i * s.entsize;
                        symbols.push(Symbol { section: table.int(at + 6, 2)? as u16, value: table.int(at + 8, 8)? });
                    }
                }
                4 | 9 => {
                    for i in 0..rows {
                        let at = i * s.entsize;
                        let info = table.int(at + 8, 8)?;
                        let addend = if s.kind == 4 { Some(table.int(at + 16, 8)? as i64) } else { None };
                        let r = Relocation {
                            offset: table.int(at, 8)?,
                            kind: info as u32,
                            symbol: (info >> 32) as u32,
                            addend,
                        };
                        relocations.push((s.info as usize, r));
                    }
                }
                _ => {}
            }
        }
        Some(elf)
    }

    /// The section of a name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|s| s.name == name)
    }
}
