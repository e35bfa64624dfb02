//! Relocations: what needs no load address is written into the code; the rest stays for the driver, with its symbol's new
//! number. Resolved are shared and constant variables, tables of the compiler, slots of textures, and places inside of the
//! file; what is left are addresses of functions and of global variables.

use crate::Addresses;
use crate::field::{Field, number};
use crate::info::renumbered;
use crate::object::Object;
use crate::shared::NOWHERE;
use crate::texture::is_reference;
use crate::world::{Map, NONE, PARAMETERS_SIZE, Place, Section, SectionId, World, is_unified_table};
use cubin::elf::{Reloc, SHT_RELA};
use cubin::view::SectionView;
use diag::Diagnostic;

/// A value to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    pub section: SectionId,
    pub offset: u64,
    pub field: Field,
    pub value: u64,
    pub bank: u8,
    /// The old content of the field is added.
    pub add: bool,
}

/// What relocations come to.
pub(crate) struct Resolved {
    pub patches: Vec<Patch>,
    /// By section of relocations of the output: those that stay, in the order of the file.
    pub left: Vec<Vec<Reloc>>,
    /// By the same: those that are resolved, if they are to be kept.
    pub done: Vec<Vec<Reloc>>,
}

/// Resolves all relocations. Symbols have their numbers.
pub(crate) fn resolve(world: &World, addresses: &Addresses) -> Result<Resolved, Vec<Diagnostic>> {
    let mut out = Resolved {
        patches: Vec::new(),
        left: vec![Vec::new(); world.sections.len()],
        done: vec![Vec::new(); world.sections.len()],
    };
    let mut errors = Vec::new();
    // Turned around as a whole: the lists of inputs stand last object first, each in rising order.
    for &(object, section, id) in world.reloc_sections.iter().rev() {
        let target = world.sections[id as usize].owner;
        if world.sections[target as usize].dead {
            continue;
        }
        let done = match world.options.relocatable {
            true => keep(world, object, section, id, &mut out),
            false => section_relocs(world, addresses, object, section, id, &mut out),
        };
        if let Err(message) = done {
            errors.push(Diagnostic::error(message));
        }
    }
    addresses.slots.relocate(world, &mut out.left);
    if errors.is_empty() { Ok(out) } else { Err(errors) }
}

/// A section of relocations of an input, and what it speaks of.
struct List<'a> {
    o: &'a Object<'a>,
    map: &'a Map,
    input: &'a SectionView<'a>,
    /// The section of the output whose fields are filled in, and where in it this input's part begins.
    target: SectionId,
    base: u64,
    owner: &'a Section<'a>,
    /// The section says where code is.
    debug: bool,
    /// Addends stand in the list.
    rela: bool,
}

impl<'a> List<'a> {
    fn of(world: &'a World, object: u32, section: u32) -> List<'a> {
        let o = &world.objects[object as usize];
        let map = &world.maps[object as usize];
        let input = &o.view.sections[section as usize];
        let (target, base) = map.sections[input.info as usize];
        let owner = &world.sections[target as usize];
        let (debug, rela) = (describes_code(&owner.name), input.kind == SHT_RELA);
        List { o, map, input, target, base, owner, debug, rela }
    }
}

fn section_relocs(
    world: &World,
    addresses: &Addresses,
    object: u32,
    section: u32,
    id: SectionId,
    out: &mut Resolved,
) -> Result<(), String> {
    let List { o, map, input, target, base, owner, debug, rela } = List::of(world, object, section);
    for r in input.relocs().rev() {
        let at = base + r.offset;
        let wrong = |why: &str| {
            let (file, name) = (o.name, o.symbols[r.symbol as usize].name);
            format!("relocation 0x{:x} at {}+0x{at:x} against '{name}' in '{file}' {why}", r.kind, owner.name)
        };
        if !number::is_known(r.kind) {
            return Err(wrong("is unknown"));
        }
        let fits = |field: Field| at + field.width() as u64 <= owner.size;
        let patch = |out: &mut Resolved, value: u64, bank: u8| -> Result<(), String> {
            let field = Field::of(r.kind).ok_or_else(|| wrong("cannot be resolved"))?;
            if !fits(field) {
                return Err(wrong("lies outside of its section"));
            }
            let sum = value.wrapping_add(r.addend as u64);
            if !field.holds(r.kind, sum) {
                return Err(wrong(&format!("does not fit: 0x{sum:x}")));
            }
            out.patches.push(Patch { section: target, offset: at, field, value: sum, bank, add: !rela });
            let symbol = map.symbols[r.symbol as usize];
            let size = symbol != NONE && world.symbol(symbol).name == PARAMETERS_SIZE.0;
            let reference = is_reference(o.symbols[r.symbol as usize].kind);
            let dynamic = symbol != NONE
                && !(value == NOWHERE && addresses.places.lists_dynamic)
                && matches!(world.symbol(symbol).place, Place::Shared(v) if world.shared[v as usize].dynamic);
            // Of a capsule only those of shared variables are kept. (Observed: nvlink 13.5.)
            let kept = !world.capsule || symbol != NONE && matches!(world.symbol(symbol).place, Place::Shared(_));
            if world.options.preserve_relocs && kept && !dynamic && !size && !reference {
                let symbol = renumbered(world, object, r.symbol);
                let section = if o.symbols[r.symbol as usize].kind == 3 { value } else { 0 };
                let addend = r.addend.wrapping_add(section as i64);
                out.done[id as usize].push(Reloc { offset: at, kind: r.kind, symbol, addend });
            }
            Ok(())
        };
        let s = &o.symbols[r.symbol as usize];
        // A place in a section of the same file.
        if s.kind == 3 {
            let (to, offset) = map.sections.get(s.shndx as usize).copied().unwrap_or((NONE, 0));
            if to == NONE || world.sections[to as usize].dead {
                continue;
            }
            let name = &world.sections[to as usize].name;
            if name.starts_with(".debug_") || name.starts_with(".nv_debug") {
                patch(out, offset + s.value, 0)?;
            } else if is_bank(name) {
                patch(out, offset + s.value, bank_of(name))?;
            } else {
                let symbol = world.sections[to as usize].symbol;
                let addend = r.addend.wrapping_add((offset + s.value) as i64);
                out.left[id as usize].push(Reloc { offset: at, kind: r.kind, symbol, addend });
            }
            continue;
        }
        let symbol_id = map.symbols[r.symbol as usize];
        if symbol_id == NONE {
            continue;
        }
        let symbol = world.symbol(symbol_id);
        let function = world.called(symbol_id);
        // The code of this file that the symbol meant is not in the output: nothing may describe it.
        let lost = s.shndx != 0 && map.lost.get(s.shndx as usize) == Some(&true);
        let removed = symbol.hidden && function.is_some();
        let gone = removed || lost && debug;
        if matches!(r.kind, number::UNUSED_CLEAR32 | number::UNUSED_CLEAR64 | number::CAPSULE_CLEAR64) {
            if removed && !lost {
                let field = Field::of(r.kind).ok_or_else(|| wrong("cannot be resolved"))?;
                if !fits(field) {
                    return Err(wrong("lies outside of its section"));
                }
                out.patches.push(Patch { section: target, offset: at, field, value: 0, bank: 0, add: false });
            }
            continue;
        }
        if number::YIELD.contains(&r.kind) || gone {
            continue;
        }
        let offset = r.kind == number::UFT_OFFSET || r.kind >= number::CAPSULE && is_unified_table(symbol.name);
        if offset && symbol.place == Place::Undefined {
            continue;
        }
        match symbol.place {
            Place::Shared(v) => {
                let places = &addresses.places;
                // Debug information names it for no function in particular.
                let start = match owner.function {
                    NONE => places.last_dynamic().unwrap_or(0),
                    f => places.dynamic.get(&f).copied().unwrap_or(0),
                };
                patch(out, if world.shared[v as usize].dynamic { start } else { places.addresses[v as usize] }, 0)?;
                continue;
            }
            Place::Section(to)
                if !number::GENERIC.contains(&r.kind)
                    && (owner.function != NONE || is_bank(&owner.name) || owner.name == GLOBAL_INIT) =>
            {
                let to = &world.sections[to as usize];
                if is_bank(&to.name) {
                    if to.dead {
                        return Err(wrong("needs a constant bank of a function that is not there"));
                    }
                    patch(out, symbol.value, bank_of(&to.name))?;
                    continue;
                }
            }
            _ => {}
        }
        if is_reference(symbol.kind) {
            let address = addresses.slots.address(symbol_id).ok_or_else(|| wrong("has no word in a constant bank"))?;
            // Before sm_90 addends count from where a function has its own parameters; the word is at one place for all.
            patch(out, address.wrapping_sub(r.addend as u64), 0)?;
            continue;
        }
        if symbol.place == Place::Undefined && symbol.name == PARAMETERS_SIZE.0 {
            patch(out, PARAMETERS_SIZE.1, 0)?;
            continue;
        }
        if symbol.index == 0 {
            return Err(wrong("names nothing that is in the output"));
        }
        out.left[id as usize].push(Reloc {
            offset: at,
            kind: not_unified(r.kind, symbol.other),
            symbol: symbol.index,
            addend: r.addend,
        });
    }
    Ok(())
}

/// In a file that links again every relocation stays, with its symbol's new number: nothing in it has its last place yet.
fn keep(world: &World, object: u32, section: u32, id: SectionId, out: &mut Resolved) -> Result<(), String> {
    let List { o, map, input, target, base, owner, debug, rela } = List::of(world, object, section);
    for r in input.relocs().rev() {
        let at = base + r.offset;
        let s = &o.symbols[r.symbol as usize];
        let wrong = |why: &str| {
            let (file, name) = (o.name, s.name);
            format!("relocation 0x{:x} at {}+0x{at:x} against '{name}' in '{file}' {why}", r.kind, owner.name)
        };
        let mut addend = r.addend;
        let symbol = if s.kind == 3 {
            let (to, offset) = map.sections.get(s.shndx as usize).copied().unwrap_or((NONE, 0));
            if to == NONE || world.sections[to as usize].dead {
                continue;
            }
            if rela {
                addend = addend.wrapping_add(offset as i64);
            } else if offset != 0 {
                let field = Field::of(r.kind).ok_or_else(|| wrong("cannot be moved"))?;
                if at + field.width() as u64 > owner.size {
                    return Err(wrong("lies outside of its section"));
                }
                out.patches.push(Patch { section: target, offset: at, field, value: offset, bank: 0, add: true });
            }
            world.sections[to as usize].symbol
        } else {
            let symbol = map.symbols[r.symbol as usize];
            // The code of this file that the symbol meant is not in the output: nothing may describe it.
            if symbol == NONE || debug && s.shndx != 0 && map.lost.get(s.shndx as usize) == Some(&true) {
                continue;
            }
            world.symbol(symbol).index
        };
        if !number::is_known(r.kind) {
            return Err(wrong("is unknown"));
        }
        if symbol == 0 {
            return Err(wrong("names nothing that is in the output"));
        }
        out.left[id as usize].push(Reloc { offset: at, kind: r.kind, symbol, addend });
    }
    Ok(())
}

/// Unified functions and variables keep their kinds; others get the plain ones.
fn not_unified(kind: u32, other: u8) -> u32 {
    const UNIFIED: u8 = 4;
    if other & UNIFIED != 0 {
        return kind;
    }
    let (from, to) = number::UNIFIED_8;
    if (from..from + 8).contains(&kind) {
        return kind - from + to;
    }
    number::UNIFIED.iter().chain(&number::CAPSULE_UNIFIED).find(|u| u.0 == kind).map_or(kind, |u| u.1)
}

/// True for sections that say where code is: of code that is left out they may say nothing.
fn describes_code(name: &str) -> bool {
    matches!(name, ".debug_frame" | ".debug_line" | ".nv_debug_line_sass")
}

/// Where global variables with initialisers lie.
const GLOBAL_INIT: &str = ".nv.global.init";

fn is_bank(name: &str) -> bool {
    name.starts_with(".nv.constant")
}

/// The number of the constant bank of a section.
fn bank_of(name: &str) -> u8 {
    let digits = name.strip_prefix(".nv.constant").unwrap_or_default();
    digits.split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}
