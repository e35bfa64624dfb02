//! What a machine needs to run a file: code, constant banks, variables, and the addresses that are filled in when the places
//! of code and variables are known.
//!
//! Unlike [`crate::image`] this reads any executable cubin, whoever made it, and keeps nothing else of it.

use crate::attr;
use crate::elf::{ET_EXEC, Elf, SHT_NOBITS, SHT_REL, SHT_RELA, Symbol};
use crate::image::Param;
use diag::Diagnostic;

/// An executable file, ready to be placed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// SM number.
    pub sm: u16,
    /// Its entries, in the order of the file.
    pub kernels: Vec<LoadedKernel>,
    /// `.nv.global.init` and `.nv.global`: initialised variables, and those that begin as 0.
    pub globals: [Region; 2],
    /// Constant bank 3.
    pub constant3: Vec<u8>,
    /// Constant bank 4: addresses.
    pub constant4: Vec<u8>,
    /// Named variables.
    pub variables: Vec<Placed>,
    /// Addresses to fill in.
    pub patches: Vec<Patch>,
}

/// Global memory of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Its bytes at the start.
    pub bytes: Vec<u8>,
    /// Alignment.
    pub align: u64,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// Its section.
    pub place: Place,
    /// Offset there.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

/// Part of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Initialised variables: `globals[0]`.
    GlobalInit,
    /// Other variables: `globals[1]`.
    Global,
    /// Constant bank 3.
    Constant3,
    /// Constant bank 4.
    Constant4,
    /// Constant bank 0 of an entry, by index.
    Constant0(u32),
    /// Constant bank 2 of an entry.
    Constant2(u32),
    /// Code of an entry.
    Text(u32),
}

/// An address to be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where the address is written.
    pub place: Place,
    /// Offset there.
    pub offset: u64,
    /// Number of the relocation; [`Patch::width`] and the kinds of code relocations follow from it.
    pub kind: u32,
    /// What the address is of; None for a name that the file does not define (a system call).
    pub target: Option<Place>,
    /// Offset in the target, the addend included.
    pub addend: i64,
}

impl Patch {
    /// Bytes of an address in data; None for relocations that change fields of instructions.
    pub fn width(&self) -> Option<usize> {
        match self.kind {
            1 | 3 | 0x22 | 0x46 => Some(4),
            2 | 4 | 0x23 | 0x66 => Some(8),
            0x4c..0x64 | 0x68..0x70 => Some(1),
            _ => None,
        }
    }

    /// The first byte of the address that is written: the number of the byte where only one is.
    fn first(&self) -> usize {
        match self.kind {
            0x4c..0x64 => (self.kind - 0x4c) as usize % 8,
            0x68..0x70 => (self.kind - 0x68) as usize,
            _ => 0,
        }
    }

    /// True where the address shall be a generic one (a constant's address lies in its window).
    pub fn generic(&self) -> bool {
        matches!(self.kind, 3 | 4 | 0x54..0x5c)
    }
}

/// An entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedKernel {
    /// Its name.
    pub name: String,
    /// Its code, device functions included.
    pub code: Vec<u8>,
    /// Device functions: symbol, offset, size.
    pub functions: Vec<(String, u32, u32)>,
    /// Registers a thread.
    pub regs: u32,
    /// Bytes of stack a thread; None where it is unknown (recursion).
    pub stack: Option<u32>,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Where the parameters begin in bank 0.
    pub param_base: u32,
    /// Bytes of all parameters.
    pub param_bytes: u32,
    /// Bank 0 as the file has it.
    pub constant0: Vec<u8>,
    /// Bank 2.
    pub constant2: Vec<u8>,
    /// Bytes of shared memory that the entry has without dynamic ones, those that the system reserves in front included.
    pub shared: u32,
    /// Named barriers.
    pub barriers: u32,
    /// `.maxntid` or `.reqntid`, and whether it is the latter.
    pub threads: Option<([u32; 3], bool)>,
    /// `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// Targets of every indexed branch.
    pub indirect_branches: Vec<(u32, Vec<u32>)>,
}

impl LoadedKernel {
    /// The code as instruction words; an incomplete last one is left out.
    pub fn words(&self) -> Vec<u128> {
        self.code.chunks_exact(16).filter_map(|c| Some(u128::from_le_bytes(c.try_into().ok()?))).collect()
    }
}

/// Largest global memory of a module that is loaded, in bytes.
const MAX_GLOBAL: u64 = 1 << 32;

impl Loaded {
    /// Reads an executable file.
    ///
    /// # Errors
    /// Where the file is not executable, has no usable symbol table or attributes, or asks for more than 4 GiB of variables.
    pub fn load(elf: &Elf) -> Result<Loaded, Diagnostic> {
        if elf.header.kind != ET_EXEC {
            return Err(Diagnostic::error("a linkable cubin cannot be run before it is linked"));
        }
        let symbols = elf.symbols()?;
        let mut out = Loaded { sm: elf.sm() & 0xfff, ..Loaded::default() };
        let mut places: Vec<Option<Place>> = vec![None; elf.sections.len()];
        let info = elf.section(".nv.info").map(|(_, s)| attr::read(&s.data)).transpose()?.unwrap_or_default();
        for (i, section) in elf.sections.iter().enumerate() {
            let Some(name) = section.name.strip_prefix(".text.") else { continue };
            let entry = symbols.iter().position(|s| s.shndx as usize == i && s.other & 0x10 != 0 && s.kind == 2);
            let Some(entry) = entry else { continue };
            let number = out.kernels.len() as u32;
            places[i] = Some(Place::Text(number));
            let mut k = LoadedKernel { name: name.to_string(), code: section.data.clone(), ..LoadedKernel::default() };
            let of = |code: u8| {
                let mut found = info.iter().filter(|a| a.code == code).map(attr::Attr::to_words);
                found.find(|w| w.first() == Some(&(entry as u32))).and_then(|w| w.get(1).copied())
            };
            k.regs = of(attr::REGCOUNT).ok_or_else(|| {
                Diagnostic::error(format!("not a valid cubin: the number of registers of '{name}' is missing"))
            })?;
            k.stack = of(attr::MIN_STACK_SIZE).filter(|&n| n != u32::MAX);
            for s in symbols.iter().filter(|s| s.shndx as usize == i && s.kind == 2 && s.other & 0x10 == 0) {
                k.functions.push((s.name.clone(), s.value as u32, s.size as u32));
            }
            for (j, s) in elf.sections.iter().enumerate() {
                if s.info as usize != i || !s.name.ends_with(name) {
                    continue;
                }
                match s.name.strip_suffix(name) {
                    Some(".nv.constant0.") => {
                        k.constant0 = s.data.clone();
                        places[j] = Some(Place::Constant0(number));
                    }
                    Some(".nv.constant2.") => {
                        k.constant2 = s.data.clone();
                        places[j] = Some(Place::Constant2(number));
                    }
                    Some(".nv.shared.") => k.shared = s.size.min(u32::MAX as u64) as u32,
                    Some(".nv.info.") => attributes(&mut k, &attr::read(&s.data)?),
                    _ => {}
                }
            }
            k.params.reverse();
            out.kernels.push(k);
        }
        out.banks(elf, &mut places)?;
        out.variables = variables(&symbols, &places);
        for section in elf.sections.iter().filter(|s| matches!(s.kind, SHT_REL | SHT_RELA)) {
            let Some(&Some(place)) = places.get(section.info as usize) else { continue };
            for r in section.relocs() {
                let symbol = symbols.get(r.symbol as usize);
                let target = symbol.and_then(|s| places.get(s.shndx as usize).copied().flatten());
                let addend = symbol.map_or(0, |s| s.value as i64).wrapping_add(r.addend);
                out.patches.push(Patch { place, offset: r.offset, kind: r.kind, target, addend });
            }
        }
        Ok(out)
    }

    fn banks(&mut self, elf: &Elf, places: &mut [Option<Place>]) -> Result<(), Diagnostic> {
        for (i, s) in elf.sections.iter().enumerate() {
            let place = match s.name.as_str() {
                ".nv.global.init" => {
                    self.globals[0] = Region { bytes: s.data.clone(), align: s.align };
                    Place::GlobalInit
                }
                ".nv.global" if s.kind == SHT_NOBITS => {
                    if s.size > MAX_GLOBAL {
                        return Err(Diagnostic::error(format!("the module has {} bytes of variables", s.size)));
                    }
                    self.globals[1] = Region { bytes: vec![0; s.size as usize], align: s.align };
                    Place::Global
                }
                ".nv.constant3" => {
                    self.constant3 = s.data.clone();
                    Place::Constant3
                }
                ".nv.constant4" => {
                    self.constant4 = s.data.clone();
                    Place::Constant4
                }
                _ => continue,
            };
            places[i] = Some(place);
        }
        Ok(())
    }

    /// The bytes of a part of the module.
    pub fn bytes_mut(&mut self, place: Place) -> Option<&mut Vec<u8>> {
        match place {
            Place::GlobalInit => Some(&mut self.globals[0].bytes),
            Place::Global => Some(&mut self.globals[1].bytes),
            Place::Constant3 => Some(&mut self.constant3),
            Place::Constant4 => Some(&mut self.constant4),
            Place::Constant0(i) => self.kernels.get_mut(i as usize).map(|k| &mut k.constant0),
            Place::Constant2(i) => self.kernels.get_mut(i as usize).map(|k| &mut k.constant2),
            Place::Text(i) => self.kernels.get_mut(i as usize).map(|k| &mut k.code),
        }
    }

    /// Fills in every address of data; `base` gives the address where a part of the module begins, generic if asked so.
    ///
    /// # Errors
    /// For a name that the file does not define, an address outside of its part, and relocations of instructions, which an
    /// executable file has only for what is not supported yet.
    pub fn relocate(&mut self, base: &dyn Fn(Place, bool) -> Option<u64>) -> Result<(), Diagnostic> {
        for patch in self.patches.clone() {
            let error = |why: &str| Diagnostic::error(format!("relocation 0x{:x} {why}", patch.kind));
            let Some(width) = patch.width() else { return Err(error("of an instruction is not supported yet")) };
            let target = patch.target.ok_or_else(|| error("names something that the file does not define"))?;
            let start = base(target, patch.generic()).ok_or_else(|| error("has a target without an address"))?;
            let value = start.wrapping_add(patch.addend as u64).to_le_bytes();
            let range = patch.offset as usize..(patch.offset as usize).saturating_add(width);
            let field = self.bytes_mut(patch.place).and_then(|b| b.get_mut(range));
            field
                .ok_or_else(|| error("lies outside of its section"))?
                .copy_from_slice(&value[patch.first()..][..width]);
        }
        Ok(())
    }
}

fn variables(symbols: &[Symbol], places: &[Option<Place>]) -> Vec<Placed> {
    let list = symbols.iter().filter(|s| s.kind == 1).filter_map(|s| {
        let place = places.get(s.shndx as usize).copied().flatten()?;
        Some(Placed { name: s.name.clone(), place, offset: s.value, size: s.size })
    });
    list.collect()
}

fn attributes(k: &mut LoadedKernel, list: &[attr::Attr]) {
    let mut image = crate::image::Kernel::default();
    for a in list {
        image.read_attribute(a);
        if a.code == attr::PARAM_CBANK
            && let Some(&w) = a.to_words().get(1)
        {
            k.param_base = w & 0xffff;
        }
    }
    k.params = image.params;
    k.param_bytes = image.param_bytes;
    k.barriers = image.barriers as u32;
    k.threads = image.req_threads.map(|t| (t, true)).or(image.max_threads.map(|t| (t, false)));
    k.cluster = image.cluster;
    k.indirect_branches = image.indirect_branches;
}
