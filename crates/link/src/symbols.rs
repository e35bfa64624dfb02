//! The output's symbol table and strings.

use crate::world::{Local, NONE, Place, Section, SectionId, World, class, is_system, is_unified_table};
use cubin::elf::{SHT_LOPROC, Symbol};
use rustc_hash::FxHashMap;

/// A table of strings.
pub(crate) struct Strings {
    pub bytes: Vec<u8>,
    known: FxHashMap<String, u32>,
}

impl Strings {
    pub fn new() -> Strings {
        Strings { bytes: vec![0], known: FxHashMap::default() }
    }

    /// Adds a string; gives its offset.
    pub fn push(&mut self, text: &str) -> u32 {
        let at = self.bytes.len() as u32;
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        at
    }

    /// As [`Strings::push`], but a string that was added this way before is not added again.
    pub fn once(&mut self, text: &str) -> u32 {
        if let Some(&at) = self.known.get(text) {
            return at;
        }
        let at = self.push(text);
        self.known.insert(text.to_string(), at);
        at
    }
}

/// Symbols in the order of the output: local ones, then those that others see.
pub(crate) struct Order {
    pub list: Vec<Local>,
    /// How many of them are local.
    pub locals: usize,
}

/// Bits of `st_other` that only relocatable files have: the memory of a variable.
const SPACE: u8 = 0xe0;
const SHARED_SPACE: u8 = 0x40;
/// `st_other`: nobody outside of the file sees it.
const INTERNAL: u8 = 1;
/// Types of symbols: variable, function, variable of a relocatable file.
const OBJECT: u8 = 1;
const FUNC: u8 = 2;
const CUDA_OBJECT: u8 = 13;
/// `st_shndx` of common variables.
const COMMON: u16 = 0xfff2;

/// True for bank 0 of an entry.
fn is_parameters(section: &Section) -> bool {
    section.class == class::CONSTANT && section.name.starts_with(".nv.constant0.")
}

impl Order {
    /// Gives every symbol of the output its number. `first` and `last` are sections whose symbols stand before and behind those
    /// of others. Beside a capsule what it does not have stands behind all, so that both tables have the same numbers: nvlink 13.5
    /// does so, and takes one for the other where it reads them.
    pub fn of(world: &mut World, first: &[SectionId], last: &[SectionId]) -> Order {
        let mut list: Vec<Local> = first.iter().map(|&s| Local::Section(s)).collect();
        for &local in &world.locals {
            let keep = match local {
                Local::Section(s) => {
                    let section = &world.sections[s as usize];
                    let listed = world.options.relocatable || section.kind < SHT_LOPROC;
                    listed
                        && !(world.has_capsule && is_parameters(section))
                        && !section.dead
                        && section.class != class::RELOC
                }
                Local::Symbol(s) => !world.symbol(s).hidden,
            };
            if keep {
                list.push(local);
            }
        }
        // Shared variables of one entry are nobody else's in the output.
        let local = |world: &World, g: u32| world.symbol(g).bind == 0;
        list.extend(
            world.globals.iter().filter(|&&g| local(world, g) && in_output(world, g)).map(|&g| Local::Symbol(g)),
        );
        list.extend(last.iter().filter(|&&s| !world.sections[s as usize].dead).map(|&s| Local::Section(s)));
        let locals = list.len();
        for &g in &world.globals {
            if in_output(world, g) && !local(world, g) {
                list.push(Local::Symbol(g));
            }
        }
        if world.has_capsule {
            let apart = |s: &SectionId| is_parameters(&world.sections[*s as usize]) && !last.contains(s);
            let apart = (0..world.sections.len() as SectionId).filter(apart);
            list.extend(apart.filter(|&s| !world.sections[s as usize].dead).map(Local::Section));
        }
        for (i, &l) in list.iter().enumerate() {
            let index = i as u32 + 1;
            match l {
                Local::Section(s) => world.section(s).symbol = index,
                Local::Symbol(s) => world.symbols[s as usize].index = index,
            }
        }
        Order { list, locals }
    }

    /// Adds the names to a table of strings; gives their offsets.
    pub fn names(&self, world: &World, strings: &mut Strings) -> Vec<u32> {
        self.list.iter().map(|l| strings.push(l.name(world))).collect()
    }

    /// The bytes of the table. Sections have their indices.
    pub fn table(&self, world: &World, names: &[u32]) -> Vec<u8> {
        let mut out = vec![0u8; 24];
        out.reserve(self.list.len() * 24);
        for (l, &name_offset) in self.list.iter().zip(names) {
            let symbol = match *l {
                Local::Section(s) => {
                    let shndx = world.sections[s as usize].index as u16;
                    Symbol { name_offset, kind: 3, shndx, ..Symbol::default() }
                }
                Local::Symbol(id) => output_symbol(world, id, name_offset),
            };
            out.extend(symbol.bytes());
        }
        out
    }
}

impl Local {
    /// The name of a symbol of a section is that of the section.
    pub fn name<'w>(&self, world: &'w World) -> &'w str {
        match *self {
            Local::Section(s) => &world.sections[s as usize].name,
            Local::Symbol(s) => world.symbol(s).name,
        }
    }
}

/// True for a symbol that others see and that is in the output.
pub(crate) fn in_output(world: &World, id: u32) -> bool {
    let s = world.symbol(id);
    let alive = match s.place {
        Place::Alias(f) => world.function(f).alive,
        // A function that nothing reaches may be missing.
        Place::Undefined => match s.kind {
            FUNC => world.options.relocatable || s.wanted && (is_system(s.name) || s.bind == 2),
            _ => world.options.relocatable || !is_unified_table(s.name),
        },
        _ => true,
    };
    let shared = matches!(s.place, Place::Shared(_)) || s.other & SPACE == SHARED_SPACE && s.kind == CUDA_OBJECT;
    let listed = world.options.relocatable
        || world.options.lists_shared() && matches!(s.place, Place::Shared(v) if world.shared[v as usize].home != NONE);
    alive && !s.hidden && (!shared || listed)
}

fn output_symbol(world: &World, id: u32, name_offset: u32) -> Symbol {
    let s = world.symbol(id);
    let section = match s.place {
        Place::Section(to) => to,
        Place::Alias(f) => world.function(f).text,
        _ => NONE,
    };
    let relocatable = world.options.relocatable;
    let (section, value) = match s.place {
        Place::Shared(v) => {
            let v = &world.shared[v as usize];
            (v.home, v.value)
        }
        _ => (section, s.value),
    };
    let shndx = match section {
        NONE if s.place == Place::Common => COMMON,
        NONE => 0,
        _ => world.sections[section as usize].index as u16,
    };
    // Names of the system's shared memory and of tables are the driver's from here on.
    let system = s.name.starts_with(".nv.reservedSmem.")
        || s.name.ends_with("refDescSize")
        || relocatable && is_unified_table(s.name);
    let keeps = relocatable || world.capsule;
    let variable = matches!(s.kind, OBJECT | CUDA_OBJECT) && !keeps;
    let mut other = if variable { s.other & !SPACE } else { s.other };
    if matches!(s.place, Place::Shared(_)) && !relocatable && !world.options.debug {
        other |= INTERNAL;
    }
    Symbol {
        name: String::new(),
        name_offset,
        bind: if system || world.capsule && s.name.starts_with(".nv.") { 1 } else { s.bind },
        kind: match s.kind {
            CUDA_OBJECT if !keeps => OBJECT,
            OBJECT if system && world.capsule => CUDA_OBJECT,
            kind => kind,
        },
        other,
        shndx,
        value,
        size: s.size,
    }
}
