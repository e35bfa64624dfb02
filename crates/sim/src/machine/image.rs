//! A kernel of a cubin in memory: code, constant banks, globals, parameters.

use super::chip::Chip;
use crate::launch::Launch;
use crate::memory::{CONST, Global, LOCAL, MAX_SHARED, PARAM, SHARED, Window, get, put};
use crate::texture::{Sampler, Table};
use crate::world::World;
use cubin::elf::{Elf, Section, Symbol};
use rustc_hash::FxHashMap;

/// Value of R1 when a kernel starts: the end of the local memory of a thread, which grows down.
pub const STACK_TOP: u32 = 0x10000;

/// Where the functions lie that the system provides, 16 bytes apart: no code can lie there.
pub const SYSTEM: u64 = 0x7a00_0000_0000;

/// The byte of a constant bank, of 64 KiB, that a sum of an offset and an index says. Offsets have 16 bits and a sign: the vendor's `ULDC UR4, c[0x3][-0x63c0]`
/// reads byte 40,000. What lies further outside stays there.
pub fn in_bank(at: i64) -> u64 {
    if (-0x8000..0).contains(&at) { (at + 0x1_0000) as u64 } else { at as u64 }
}

/// A kernel ready to be decoded.
pub struct Image {
    /// Its section of code: the kernel first, device functions after it.
    pub code: Vec<u128>,
    /// Constant banks 0 to 7.
    pub banks: Vec<Window>,
    /// Kernel parameters as generic memory.
    pub param: Window,
    /// Constants of the module as generic memory.
    pub constant: Window,
    /// Static shared memory with the reserved bytes.
    pub shared: u32,
    /// Bytes at the start of shared memory that belong to the system.
    pub reserved: u32,
    /// Buffers, arrays and objects of the launch.
    pub world: World,
    /// Functions that the file does not have, by their number behind [`SYSTEM`].
    pub system: Vec<String>,
    /// Where each section of code lies in `code`, in bytes, by the number of the section.
    pub texts: Vec<Option<u64>>,
    /// Where calls lead whose target a relocation tells, by the number of the instruction.
    pub calls: FxHashMap<u32, u64>,
    /// The SM number of the file.
    pub sm: u16,
    /// Registers of a thread.
    pub registers: u32,
}

/// Types of relocations, by what the vendor's tool writes for a construct.
mod reloc {
    /// A 64-bit address in a variable: generic, or the handle of a texture.
    pub const HANDLE: u32 = 4;
    /// A handle of a texture, in bank 0.
    pub const TEXTURE: u32 = 6;
    /// The sampler of the handle at this place.
    pub const SAMPLER: u32 = 7;
    /// A handle of a surface.
    pub const SURFACE: u32 = 0x34;
    /// The lower and the upper half of an address, in an immediate of 32 bits.
    pub const LOW: u32 = 0x38;
    /// See [`LOW`].
    pub const HIGH: u32 = 0x39;
    /// The target of a call, before sm_90 and since.
    pub const CALL: u32 = 0x3a;
    /// See [`CALL`].
    pub const CALL_64: u32 = 0x4b;
    /// Those that hold an address in code.
    pub const ADDRESSES: [u32; 4] = [LOW, HIGH, CALL, CALL_64];
    /// Bytes of an entry in a table of textures, samplers or surfaces.
    pub const ENTRY_SIZE: u32 = 0x37;
    /// A handle of a sampler in a word of its own.
    pub const SAMPLER_APART: u32 = 0x65;
    /// Those for references of the module.
    pub const REFERENCES: [u32; 5] = [HANDLE, TEXTURE, SAMPLER, SURFACE, SAMPLER_APART];
    /// Types of the symbols of such references.
    pub const REFERENCE_SYMBOLS: [u8; 3] = [10, 11, 12];

    /// Which part of an address goes into data.
    pub struct Part {
        /// The generic address, not the one in the variable's own memory.
        pub generic: bool,
        /// Its lowest bit that is taken.
        pub shift: u32,
        /// The number of bytes.
        pub bytes: u32,
    }

    /// What a relocation of data takes of an address.
    pub fn data(kind: u32) -> Option<Part> {
        let part = |generic, shift, bytes| Some(Part { generic, shift, bytes });
        match kind {
            1 => part(false, 0, 4),
            2 => part(false, 0, 8),
            3 => part(true, 0, 4),
            HANDLE => part(true, 0, 8),
            // Single bytes: ptxas 13.5 for `0xff00(x)`.
            0x4c..=0x53 => part(false, 8 * (kind - 0x4c), 1),
            0x54..=0x5b => part(true, 8 * (kind - 0x54), 1),
            _ => None,
        }
    }
}

/// Largest section of globals, in bytes.
const MAX_GLOBAL: u64 = 1 << 32;
/// What the symbol of a kernel has beside its binding.
const ENTRY: u8 = 0x10;
/// Type of the symbol of a function.
const FUNCTION: u8 = 2;
/// Section type of relocations without addends.
const REL: u32 = 9;

fn section<'a>(elf: &'a Elf, name: &str) -> Option<&'a Section> {
    elf.section(name).map(|s| s.1)
}

fn set_immediate(word: &mut u128, value: u32) {
    *word = *word & !(0xffff_ffff << 32) | (value as u128) << 32;
}

fn put32(data: &mut [u8], at: usize, value: u32) {
    if let Some(to) = data.get_mut(at..at + 4) {
        to.copy_from_slice(&value.to_le_bytes());
    }
}

fn put64(data: &mut [u8], at: usize, value: u64) {
    if let Some(to) = at.checked_add(8).and_then(|end| data.get_mut(at..end)) {
        to.copy_from_slice(&value.to_le_bytes());
    }
}

impl Image {
    /// Code alone, with banks of zeros, as no launch has it.
    pub fn of_code(code: Vec<u128>, sm: u16) -> Image {
        let bank = || Window { start: 0, data: vec![0; 1 << 16] };
        Image {
            code,
            banks: (0..8).map(|_| bank()).collect(),
            param: bank(),
            constant: bank(),
            shared: 0,
            reserved: 0,
            world: World::default(),
            system: Vec::new(),
            texts: Vec::new(),
            calls: FxHashMap::default(),
            sm,
            registers: 0,
        }
    }

    /// Loads the kernel that a launch names, with its arguments and globals in `global`.
    ///
    /// # Errors
    /// What does not fit: no such kernel, wrong arguments, a file that is no cubin.
    pub fn load(bytes: &[u8], launch: &Launch, global: &mut Global) -> Result<Image, String> {
        launch.check()?;
        let elf = Elf::read(bytes).map_err(|d| d.message)?;
        let sm = elf.sm();
        let layout = Chip::of(sm).ok_or_else(|| format!("the simulator runs code for sm_75 to sm_121, not sm_{sm}"))?;
        let name = &launch.kernel;
        let text = section(&elf, &format!(".text.{name}"))
            .ok_or_else(|| format!("there is no kernel '{name}' in the cubin"))?;
        let mut code: Vec<u128> =
            text.data.chunks_exact(16).map(|w| u128::from_le_bytes(w.try_into().unwrap())).collect();
        let params = parameters(&elf, name).ok_or("the parameter description of the kernel is damaged")?;
        if params.len() != launch.args.len() {
            return Err(format!(
                "the kernel has {} parameters, the launch {} arguments",
                params.len(),
                launch.args.len()
            ));
        }
        let mut bank0 = section(&elf, &format!(".nv.constant0.{name}")).map(|s| s.data.clone()).unwrap_or_default();
        bank0.resize(bank0.len().max(layout.params), 0);
        let sizes: Vec<usize> = params.iter().map(|p| p.1).collect();
        let mut world = World::place(launch, &sizes, layout.handles, global)?;
        for (i, value) in world.values.iter().enumerate() {
            let (offset, size) = params[i];
            if size != value.len() {
                return Err(format!("parameter {i} has {size} bytes, the argument {}", value.len()));
            }
            let at = layout.params + offset;
            match bank0.get_mut(at..at + size) {
                Some(to) => to.copy_from_slice(value),
                None => return Err(format!("parameter {i} lies outside of its constant bank")),
            }
        }
        let param = Window { start: layout.params as u32, data: bank0[layout.params..].to_vec() };
        system_words(&mut bank0, layout, launch, param.data.len() as u64);

        // Sections of globals, then the words that hold addresses.
        let mut sections: Vec<Option<u64>> = vec![None; elf.sections.len()];
        for (i, s) in elf.sections.iter().enumerate() {
            if s.name == ".nv.global" || s.name == ".nv.global.init" {
                if s.size > MAX_GLOBAL {
                    return Err(format!("{} has {} bytes", s.name, s.size));
                }
                let data = if s.has_bytes() { s.data.clone() } else { vec![0; s.size as usize] };
                sections[i] = Some(global.alloc(data, s.align, format!("section {}", s.name)));
            }
        }
        let symbols = elf.symbols().map_err(|d| d.message)?;
        let mut system: Vec<String> = Vec::new();
        let mut calls = FxHashMap::default();
        // Functions in sections of their own lie behind the kernel.
        let mut texts: Vec<Option<u64>> = vec![None; elf.sections.len()];
        for (i, s) in elf.sections.iter().enumerate() {
            let entry = symbols.iter().any(|y| y.shndx as usize == i && y.kind == FUNCTION && y.other & ENTRY != 0);
            if s.name == text.name {
                texts[i] = Some(0);
            } else if s.name.starts_with(".text.") && !entry {
                texts[i] = Some(16 * code.len() as u64);
                code.extend(s.data.chunks_exact(16).map(|w| u128::from_le_bytes(w.try_into().unwrap())));
            }
        }
        let mut data: Vec<Option<Vec<u8>>> =
            elf.sections.iter().map(|s| s.name.starts_with(".nv.constant").then(|| s.data.clone())).collect();
        for (symbol, sampler) in samplers(&elf) {
            if let Some(s) = symbols.get(symbol as usize) {
                world.describe(&s.name, sampler)?;
            }
        }
        let independent = attributes(&elf).iter().any(|a| a.code == cubin::attr::TEXMODE_INDEPENDENT);
        if !launch.arrays.is_empty() {
            let kinds = [if independent { Table::Textures } else { Table::Unified }, Table::Samplers, Table::Surfaces];
            for (kind, at) in kinds.into_iter().zip(layout.tables) {
                let table = global.alloc(world.textures.table(kind), 256, format!("table of {kind:?}"));
                put64(&mut bank0, at, table);
            }
        }
        // Handles of references, in the bank of the kernel and in variables; those of samplers complete those of textures.
        let mut references: Vec<_> =
            elf.sections.iter().flat_map(|t| t.relocs().into_iter().map(move |r| (t, r))).collect();
        references.retain(|(_, r)| reloc::REFERENCES.contains(&r.kind));
        references.sort_by_key(|(_, r)| r.kind == reloc::SAMPLER);
        let bank0_number = elf.sections.iter().position(|s| s.name == format!(".nv.constant0.{name}"));
        for (t, r) in references {
            let Some(symbol) = symbols.get(r.symbol as usize) else { continue };
            let bound = world.binds.iter().find(|b| b.0 == symbol.name).map(|b| b.1);
            let target = t.info as usize;
            if r.kind == reloc::HANDLE {
                if let (Some(handle), Some(Some(at))) = (bound, sections.get(target)) {
                    global.store(at.wrapping_add(r.offset), 8, handle).map_err(|e| e.message)?;
                }
                continue;
            }
            if Some(target) != bank0_number {
                continue;
            }
            let handle = bound.ok_or_else(|| format!("the launch binds nothing to '{}'", symbol.name))? as u32;
            let at = r.offset as usize;
            let old = bank0.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().unwrap()));
            let word = if r.kind == reloc::SAMPLER { old & 0xfffff | handle << 20 } else { handle };
            put32(&mut bank0, at, word);
        }
        for (table, r) in elf.sections.iter().flat_map(|t| t.relocs().into_iter().map(move |r| (t, r))) {
            let Some(symbol) = symbols.get(r.symbol as usize) else { continue };
            let place = texts.get(table.info as usize).copied().flatten().map(|base| (base + r.offset) / 16);
            let word = place.and_then(|n| code.get_mut(n as usize));
            if r.kind == reloc::ENTRY_SIZE
                && let Some(word) = word
            {
                set_immediate(word, Table::ENTRY);
                continue;
            }
            let part = reloc::data(r.kind);
            if part.is_none() && !reloc::ADDRESSES.contains(&r.kind) || reloc::REFERENCE_SYMBOLS.contains(&symbol.kind)
            {
                continue;
            }
            let in_bank = elf.sections.get(symbol.shndx as usize).is_some_and(|s| s.name == ".nv.constant3");
            let base = match sections.get(symbol.shndx as usize) {
                Some(Some(base)) => *base,
                _ if in_bank && part.is_some() => part.as_ref().filter(|p| p.generic).map_or(0, |_| CONST),
                _ if texts.get(symbol.shndx as usize).is_some_and(|t| t.is_some()) => {
                    texts[symbol.shndx as usize].unwrap_or(0)
                }
                // Of the system, or missing: an error where it is called.
                _ if symbol.shndx == 0 && symbol.kind == FUNCTION => {
                    let known = system.iter().position(|f| *f == symbol.name);
                    SYSTEM
                        + 16 * known.unwrap_or_else(|| {
                            system.push(symbol.name.clone());
                            system.len() - 1
                        }) as u64
                }
                _ => continue,
            };
            let value = base.wrapping_add(symbol.value).wrapping_add(r.addend as u64);
            if let (Some(word), Some(n)) = (word, place) {
                let old = if table.kind == REL { (*word >> 32) as u32 as u64 } else { 0 };
                match r.kind {
                    reloc::LOW => set_immediate(word, value.wrapping_add(old) as u32),
                    reloc::HIGH => set_immediate(word, (value.wrapping_add(old) >> 32) as u32),
                    reloc::CALL | reloc::CALL_64 => {
                        calls.insert(n as u32, value);
                    }
                    _ => {}
                }
                continue;
            }
            let Some(part) = part else { continue };
            // A table without addends finds them in place.
            let field = |old: u64| {
                let sum = if table.kind == REL { value.wrapping_add(old) } else { value };
                sum >> part.shift
            };
            let target = table.info as usize;
            if let Some(Some(at)) = sections.get(target) {
                let at = at.wrapping_add(r.offset);
                let old = global.load(at, part.bytes).map_err(|e| e.message)?;
                global.store(at, part.bytes, field(old)).map_err(|e| e.message)?;
            } else if let Some(Some(d)) = data.get_mut(target) {
                let end = r.offset.saturating_add(u64::from(part.bytes));
                if end > d.len() as u64 {
                    return Err(format!("an address lies outside of {}", elf.sections[target].name));
                }
                let at = r.offset as usize;
                let old = get(d, at, part.bytes);
                put(d, at, part.bytes, field(old));
            }
        }
        let mut bank = |name: &str| -> Vec<u8> {
            let i = elf.sections.iter().position(|s| s.name == name);
            i.and_then(|i| data[i].take()).unwrap_or_default()
        };
        let registers = registers(&elf, &symbols, name).unwrap_or(text.info >> 24);
        let mut banks = vec![Window::default(); 8];
        banks[0].data = bank0;
        banks[2].data = bank(&format!(".nv.constant2.{name}"));
        banks[3].data = bank(".nv.constant3");
        banks[4].data = bank(".nv.constant4");
        let shared = section(&elf, &format!(".nv.shared.{name}"))
            .map_or(layout.reserved, |s| s.size.min(u32::MAX as u64) as u32);
        let total = (shared.saturating_sub(layout.reserved)).saturating_add(launch.shared);
        if total > MAX_SHARED {
            return Err(format!("{total} bytes of shared memory; a CTA has at most {MAX_SHARED}"));
        }
        let constant = banks[3].clone();
        let reserved = layout.reserved;
        Ok(Image {
            code,
            banks,
            param,
            constant,
            shared: shared.max(reserved),
            reserved,
            world,
            system,
            texts,
            calls,
            sm,
            registers,
        })
    }
}

/// Offset and size of every parameter, by ordinal, from `.nv.info.<kernel>` (attribute 0x17; 0x45 for large ones).
fn parameters(elf: &Elf, kernel: &str) -> Option<Vec<(usize, usize)>> {
    let info = match section(elf, &format!(".nv.info.{kernel}")) {
        Some(s) => &s.data,
        None => return Some(Vec::new()),
    };
    let mut params: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    while at + 4 <= info.len() {
        let (format, code) = (info[at], info[at + 1]);
        let size = u16::from_le_bytes([info[at + 2], info[at + 3]]) as usize;
        at += 4;
        if format != 4 {
            continue;
        }
        let body = info.get(at..at + size)?;
        at += size;
        if matches!(code, 0x17 | 0x45) {
            let half = |i: usize| Some(u16::from_le_bytes([*body.get(i)?, *body.get(i + 1)?]) as usize);
            let word = u32::from_le_bytes(body.get(8..12)?.try_into().ok()?);
            let (ordinal, offset) = (half(4)?, half(6)?);
            let size = if code == 0x17 { word >> 18 } else { word & 0xffff } as usize;
            if params.len() <= ordinal {
                params.resize(ordinal + 1, (0, 0));
            }
            params[ordinal] = (offset, size);
        }
    }
    Some(params)
}

/// The attributes of the module.
fn attributes(elf: &Elf) -> Vec<cubin::attr::Attr> {
    section(elf, ".nv.info").and_then(|s| cubin::attr::read(&s.data).ok()).unwrap_or_default()
}

/// Registers of a thread of a kernel, as the module states them.
fn registers(elf: &Elf, symbols: &[Symbol], kernel: &str) -> Option<u32> {
    let entry = symbols.iter().position(|s| s.name == kernel && s.kind == FUNCTION && s.other & ENTRY != 0)? as u32;
    let stated = attributes(elf).into_iter().filter(|a| a.code == cubin::attr::REGCOUNT).map(|a| a.to_words());
    stated.filter(|w| w.first() == Some(&entry)).find_map(|w| w.get(1).copied())
}

/// The samplers that the module describes, by the number of their symbol: each edge and the filter a byte, 0xff where it says
/// nothing.
fn samplers(elf: &Elf) -> Vec<(u32, Sampler)> {
    let attrs = attributes(elf);
    let words = |code: u8| {
        let all = attrs.iter().filter(move |a| a.code == code);
        all.filter_map(|a| match &a.value {
            cubin::attr::Value::Bytes(b) if b.len() >= 8 => Some((get(b, 0, 4) as u32, get(b, 4, 4) as u32)),
            _ => None,
        })
    };
    let forced = |symbol: u32| words(cubin::attr::SAMPLER_FORCE_UNNORMALIZED).any(|w| w.0 == symbol && w.1 != 0);
    let described = |(symbol, word): (u32, u32)| {
        let byte = |n: u32| Some((word >> (8 * n)) as u8).filter(|&b| b != 0xff);
        (symbol, Sampler::described([byte(0), byte(1), byte(2)], byte(3).map(|b| b == 1), forced(symbol)))
    };
    words(cubin::attr::SAMPLER_INIT).map(described).collect()
}

/// The words of bank 0 that the driver fills.
fn system_words(bank: &mut [u8], layout: &Chip, launch: &Launch, param_bytes: u64) {
    let cluster = launch.cluster.unwrap_or([1; 3]);
    let words = &layout.words;
    for i in 0..3 {
        put32(bank, words.block + 4 * i, launch.block[i]);
        put32(bank, words.grid + 4 * i, launch.grid[i]);
        if let Some(c) = &words.clusters {
            put32(bank, c.size + 4 * i, cluster[i]);
            put32(bank, c.reciprocal + 4 * i, (1.0 / cluster[i] as f32).to_bits());
            put32(bank, c.count + 4 * i, launch.grid[i] / cluster[i]);
        }
    }
    put64(bank, words.local_base, LOCAL);
    put32(bank, words.stack, STACK_TOP);
    put32(bank, words.dynamic_shared, launch.shared);
    put64(bank, layout.const_base, CONST);
    if let Some(c) = &words.clusters {
        put32(bank, c.explicit, launch.cluster.is_some() as u32);
        put32(bank, c.ranks, cluster.iter().product());
    }
    let mut wide = |at: Option<usize>, value: u64| at.into_iter().for_each(|at| put64(bank, at, value));
    wide(layout.shared_base, SHARED);
    // The bank begins at the base of the window of parameters: they are aligned as in the bank.
    let first = PARAM + layout.params as u64;
    wide(layout.bank_base, PARAM);
    wide(layout.param_address, first);
    wide(layout.param_address.map(|at| at + 8), first + param_bytes);
    wide(layout.descriptor, 0);
    let mut word = |at: Option<usize>, value: u32| at.into_iter().for_each(|at| put32(bank, at, value));
    word(layout.param_end_offset, layout.params as u32 + param_bytes as u32);
    word(layout.aggr_shared, 0);
}
