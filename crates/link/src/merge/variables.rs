//! Variables of an input: which definition of a name holds, and where in the world each lies.

use super::{FUNC, add_symbol, data_section, debug_shared, duplicate, global, joined};
use crate::object::{Role, role};
use crate::world::{Local, NONE, Place, SharedVariable, SymbolId, World, class};
use cubin::elf::SHT_NOBITS;
use cubin::view::SymbolView;
use diag::Diagnostic;

/// `st_shndx` of common variables.
const COMMON: u16 = 0xfff2;
/// Bits of `st_other`: who sees a symbol, the memory of a variable.
const VISIBILITY: u8 = 3;
const INTERNAL: u8 = 1;
const SPACE: u8 = 0xe0;
const SHARED_SPACE: u8 = 0x40;

/// A symbol that is no function.
pub(super) fn merge_variable<'a>(
    world: &mut World<'a>,
    object: u32,
    i: usize,
    s: &SymbolView<'a>,
    errors: &mut Vec<Diagnostic>,
) {
    let section = s.shndx as usize;
    let sections = &world.objects[object as usize].view.sections;
    let shared = s.other & SPACE == SHARED_SPACE && s.kind == 13;
    let defined = section != 0 && section < sections.len();
    // Where this definition lies. A losing one keeps its bytes.
    let place = if !defined { (NONE, 0) } else { data_section(world, object, section) };
    let mut definition = Place::Undefined;
    if s.shndx == COMMON {
        definition = Place::Common;
    } else if defined && !shared && place.0 != NONE {
        definition = Place::Section(place.0);
    }
    if s.bind == 0 {
        let id = add_symbol(world, object, s);
        world.maps[object as usize].symbols[i] = id;
        world.symbols[id as usize].place = definition;
        world.symbols[id as usize].value = place.1.wrapping_add(s.value);
        let relocatable = world.options.relocatable;
        let listed = relocatable || world.options.lists_shared();
        if shared {
            add_shared(world, object, id, s);
        }
        if definition == Place::Undefined && !shared && !relocatable
            || s.other & VISIBILITY == INTERNAL && !relocatable && !world.options.preserve_relocs
        {
            world.symbols[id as usize].hidden = true;
        } else if !shared || listed {
            world.locals.push(Local::Symbol(id));
        }
        return;
    }
    let (id, new) = global(world, object, s);
    world.maps[object as usize].symbols[i] = id;
    let old = world.symbol(id).clone();
    let is_definition = defined || s.shndx == COMMON;
    if shared {
        let empty = matches!(old.place, Place::Undefined);
        let dynamic = matches!(old.place, Place::Shared(v) if world.shared[v as usize].dynamic);
        if new || empty || dynamic && is_definition {
            if !new {
                let x = &mut world.symbols[id as usize];
                (x.size, x.bind, x.object) = (s.size.max(old.size), s.bind, object);
            }
            add_shared(world, object, id, s);
        } else if is_definition && old.bind == 1 && s.bind == 1 && world.shared_defined(id) {
            errors.push(duplicate(world, s.name, object, old.object));
        } else if is_definition && !world.shared_defined(id) {
            add_shared(world, object, id, s);
        } else if s.size != 0 && old.size != 0 && s.size != old.size {
            errors.push(size_differs(world, s.name, object, old.object));
        } else if s.size == 0
            && s.shndx == 0
            && let Place::Shared(v) = old.place
        {
            // Extern arrays ask for the largest alignment that one of them needs.
            let v = &mut world.shared[v as usize];
            v.align = v.align.max(s.value.max(1));
        }
        return;
    }
    if !is_definition {
        if !new && old.place != Place::Undefined && s.size != 0 && old.size != s.size && old.kind != FUNC {
            errors.push(size_differs(world, s.name, object, old.object));
        }
        return;
    }
    let x = |world: &mut World<'a>| {
        let x = &mut world.symbols[id as usize];
        (x.place, x.bind, x.kind, x.other, x.object) = (definition, s.bind, s.kind, s.other, object);
        (x.value, x.size) = (place.1.wrapping_add(s.value), s.size);
        if definition == Place::Common {
            x.value = s.value;
        }
    };
    match old.place {
        Place::Undefined => {
            if !new && old.size != 0 && old.size != s.size && old.kind != FUNC {
                errors.push(size_differs(world, s.name, object, old.object));
            }
            x(world);
        }
        Place::Common if definition == Place::Common => {
            if s.size > old.size {
                let keep = old.value;
                x(world);
                // The alignment of the first one stays, as the vendor has it, unless this one needs more.
                world.symbols[id as usize].value = keep.max(s.value);
            }
        }
        Place::Common => {
            if s.size < old.size {
                errors.push(common_is_larger(world, s.name, old.object));
            }
            x(world);
        }
        _ if definition == Place::Common => {
            if s.size > old.size {
                errors.push(common_is_larger(world, s.name, object));
            }
        }
        _ if old.bind == 1 && s.bind == 1 => errors.push(duplicate(world, s.name, object, old.object)),
        _ if old.bind != 1 && s.bind == 1 => x(world),
        _ => {
            if s.size != old.size && old.kind != FUNC {
                errors.push(size_differs(world, s.name, object, old.object));
            }
        }
    }
}

fn size_differs(world: &World, name: &str, object: u32, first: u32) -> Diagnostic {
    let (file, first) = (world.file(object), world.file(first));
    Diagnostic::error(format!("Size doesn't match for '{name}' in '{file}', first specified in '{first}'"))
}

fn common_is_larger(world: &World, name: &str, object: u32) -> Diagnostic {
    let file = world.file(object);
    Diagnostic::error(format!("Common symbol '{name}' in file '{file}' has larger size than initialization"))
}

fn add_shared(world: &mut World, object: u32, id: SymbolId, s: &SymbolView) {
    let section = s.shndx as usize;
    let sections = &world.objects[object as usize].view.sections;
    let mut entry = NONE;
    if section != 0 && section < sections.len() {
        let (section, align) = (sections[section], sections[section].align);
        if role(section.kind, section.name) == Role::Shared {
            let text = section.info as usize;
            let map = &world.maps[object as usize];
            let lost = map.lost.get(text) == Some(&true);
            let out = map.sections.get(text).map_or(NONE, |m| m.0);
            if !lost && out != NONE {
                entry = world.sections[out as usize].function;
                let own = world.functions[entry as usize].shared;
                if own != NONE {
                    let own = world.section(own);
                    own.align = own.align.max(align);
                }
            }
        } else {
            let id = debug_shared(world);
            world.section(id).align = world.sections[id as usize].align.max(align);
        }
    } else {
        let id = debug_shared(world);
        world.section(id).align = world.sections[id as usize].align.max(s.value);
    }
    let dynamic = section == 0 && s.size == 0;
    let home = match section {
        0 => NONE,
        _ => world.maps[object as usize].sections.get(section).map_or(NONE, |m| m.0),
    };
    let variable = SharedVariable { align: s.value.max(1), size: s.size, entry, dynamic, home, value: s.value.max(1) };
    match world.symbol(id).place {
        Place::Shared(v) => world.shared[v as usize] = variable,
        _ => {
            let v = world.shared.len() as u32;
            // An extern array of known size is defined elsewhere.
            if section == 0 && !dynamic {
                return;
            }
            world.shared.push(variable);
            world.symbols[id as usize].place = Place::Shared(v);
        }
    }
    world.symbols[id as usize].size = s.size;
}

impl World<'_> {
    fn shared_defined(&self, id: SymbolId) -> bool {
        matches!(self.symbol(id).place, Place::Shared(v) if !self.shared[v as usize].dynamic)
    }
}

/// Common variables get memory behind all others.
pub(super) fn place_common(world: &mut World) {
    let common: Vec<u32> = world.globals.iter().copied().filter(|&g| world.symbol(g).place == Place::Common).collect();
    for id in common {
        let section = joined(world, ".nv.global", class::ZERO, SHT_NOBITS, 3);
        let (align, size) = (world.symbol(id).value.max(1), world.symbol(id).size);
        let align = if align.is_power_of_two() { align } else { 1 };
        let out = world.section(section);
        let at = out.size.next_multiple_of(align);
        (out.size, out.align) = (at.saturating_add(size), out.align.max(align));
        let symbol = &mut world.symbols[id as usize];
        (symbol.place, symbol.value) = (Place::Section(section), at);
    }
}
