//! Puts the symbols and sections of every input into the world, in the vendor's order: of each input first its functions,
//! each with its section of code, then its other symbols, each of which makes the section that it lies in, then what sections
//! are left. The order was read off files that nvlink 13.5 wrote.

mod attributes;
mod variables;

use crate::fatal;
use crate::object::{Role, role};
use crate::unified::{ENTRY, Entries, STUB};
use crate::world::{Function, Local, Map, NONE, Part, Place, SectionId, Symbol, SymbolId, World, class};
use cubin::elf::SHT_NOBITS;
use cubin::view::SymbolView;
use diag::{Diagnostic, Severity};
use std::borrow::Cow;

/// `st_type`.
const FUNC: u8 = 2;
const SECTION: u8 = 3;
/// Bits of `st_other`: an entry.
const KERNEL: u8 = 0x10;

/// Merges all inputs.
pub(crate) fn merge(world: &mut World) -> Result<(), Vec<Diagnostic>> {
    for object in 0..world.objects.len() as u32 {
        let mut errors = Vec::new();
        merge_object(world, object, &mut errors)?;
        if !errors.is_empty() {
            if !errors.iter().any(|e| e.severity == Severity::Fatal) {
                errors.push(Diagnostic::new(Severity::Fatal, "merge_elf failed"));
            }
            return Err(errors);
        }
    }
    // In a file that links again a common variable stays common: another file may have a larger one.
    if !world.options.relocatable {
        variables::place_common(world);
    }
    Ok(())
}

fn merge_object(world: &mut World, object: u32, errors: &mut Vec<Diagnostic>) -> Result<(), Vec<Diagnostic>> {
    let o = &world.objects[object as usize];
    let (symbols, sections) = (o.symbols.len(), o.view.sections.len());
    world.maps.push(Map {
        symbols: vec![NONE; symbols],
        sections: vec![(NONE, 0); sections],
        lost: vec![false; sections],
    });
    for i in 0..symbols {
        if world.objects[object as usize].symbols[i].kind == FUNC {
            merge_function(world, object, i, errors);
        }
    }
    // Names of functions that stand for others, now that all have their sections.
    for i in 0..symbols {
        let s = world.objects[object as usize].symbols[i];
        if s.kind == FUNC && s.shndx != 0 && (s.shndx as usize) < sections {
            alias(world, object, i);
        }
    }
    let text_info = attributes::info_sections(world, object);
    for i in 1..symbols {
        let s = world.objects[object as usize].symbols[i];
        if s.kind != FUNC && s.kind != SECTION {
            variables::merge_variable(world, object, i, &s, errors);
        }
    }
    for i in 1..sections {
        merge_section(world, object, i)?;
    }
    attributes::read(world, object, &text_info)
}

/// The symbol of a name that others see, made where it is new.
fn global<'a>(world: &mut World<'a>, object: u32, s: &SymbolView<'a>) -> (SymbolId, bool) {
    if let Some(&id) = world.by_name.get(s.name) {
        return (id, false);
    }
    let id = add_symbol(world, object, s);
    world.by_name.insert(s.name, id);
    world.globals.push(id);
    (id, true)
}

fn add_symbol<'a>(world: &mut World<'a>, object: u32, s: &SymbolView<'a>) -> SymbolId {
    world.symbols.push(Symbol {
        name: s.name,
        bind: s.bind,
        kind: s.kind,
        other: s.other,
        place: Place::Undefined,
        value: s.value,
        size: s.size,
        object,
        function: NONE,
        wanted: false,
        hidden: false,
        index: 0,
    });
    world.symbols.len() as u32 - 1
}

fn merge_function(world: &mut World, object: u32, i: usize, errors: &mut Vec<Diagnostic>) {
    let o = &world.objects[object as usize];
    let s = o.symbols[i];
    let section = s.shndx as usize;
    let head = section != 0 && section < o.view.sections.len() && o.heads[section] == i as u32;
    if s.bind == 0 {
        let id = add_symbol(world, object, &s);
        world.maps[object as usize].symbols[i] = id;
        world.locals.push(Local::Symbol(id));
        if head {
            add_function(world, object, id, section);
        }
        return;
    }
    let (id, new) = global(world, object, &s);
    world.maps[object as usize].symbols[i] = id;
    if section == 0 {
        return;
    }
    let old = &mut world.symbols[id as usize];
    if !new && old.place != Place::Undefined {
        if old.bind == 1 && s.bind == 1 {
            let first = old.object;
            errors.push(duplicate(world, s.name, object, first));
            return;
        }
        if old.kind != FUNC {
            let first = old.object;
            let text = format!(
                "'{}' is a function in '{}' and a variable in '{}'",
                s.name,
                world.file(object),
                world.file(first)
            );
            errors.push(Diagnostic::error(text));
            return;
        }
        if s.bind != 1 || old.bind == 1 {
            // The first definition stays; this one's code is left out.
            world.maps[object as usize].lost[section] |= head;
            return;
        }
        let lost = old.function;
        if lost != NONE {
            let (text, by, input) = {
                let f = &world.functions[lost as usize];
                (f.text, f.object, f.input)
            };
            world.section(text).dead = true;
            world.functions[lost as usize].symbol = NONE;
            world.maps[by as usize].lost[input as usize] = true;
        }
    }
    let old = &mut world.symbols[id as usize];
    (old.bind, old.other, old.kind, old.object) = (s.bind, s.other, s.kind, object);
    (old.value, old.size) = (s.value, s.size);
    if head {
        add_function(world, object, id, section);
    }
}

fn duplicate(world: &World, name: &str, object: u32, first: u32) -> Diagnostic {
    let (file, first) = (world.file(object), world.file(first));
    Diagnostic::error(format!("Multiple definition of '{name}' in '{file}', first defined in '{first}'"))
}

fn alias(world: &mut World, object: u32, i: usize) {
    let o = &world.objects[object as usize];
    let section = o.symbols[i].shndx as usize;
    let head = o.heads[section];
    let map = &world.maps[object as usize];
    let (id, target) = (map.symbols[i], map.symbols[head as usize]);
    if head == i as u32 || id == NONE || target == NONE || world.symbol(id).object != object {
        return;
    }
    if let Some(f) = world.called(target) {
        world.symbols[id as usize].place = Place::Alias(f);
    }
}

fn add_function(world: &mut World, object: u32, id: SymbolId, section: usize) {
    let s = world.objects[object as usize].view.sections[section];
    let number = world.functions.len() as u32;
    let kind = if s.name.starts_with(STUB.0) { s.kind } else { 1 };
    let text = add_section(world, object, section, class::TEXT, kind);
    world.section(text).entsize = if kind == 1 { 0 } else { STUB.1 };
    let entry = world.symbol(id).other & KERNEL != 0;
    world.section(text).function = number;
    let mut shared = NONE;
    if entry && !world.options.relocatable {
        shared = new_section(world, format!(".nv.shared.{}", world.symbol(id).name), class::ZERO, SHT_NOBITS, 0x43);
        world.section(shared).owner = text;
        world.section(shared).function = number;
    }
    let symbol = &mut world.symbols[id as usize];
    (symbol.place, symbol.function) = (Place::Section(text), number);
    let registers = s.info >> 24;
    world.functions.push(Function {
        symbol: id,
        text,
        object,
        input: section as u32,
        entry,
        alive: true,
        registers,
        frame: 0,
        barriers: 0,
        max_registers: 0,
        info: &[],
        externs: Vec::new(),
        has_info: false,
        constant0: NONE,
        shared,
    });
}

fn new_section<'a>(
    world: &mut World<'a>,
    name: impl Into<Cow<'a, str>>,
    class: u8,
    kind: u32,
    flags: u64,
) -> SectionId {
    let id = world.make_section(name, class, kind, flags);
    world.locals.push(Local::Section(id));
    id
}

/// A section of the output of its own for a section of an input.
fn add_section(world: &mut World, object: u32, section: usize, class: u8, kind: u32) -> SectionId {
    let s = world.objects[object as usize].view.sections[section];
    let id = new_section(world, s.name, class, kind, s.flags);
    append(world, object, section, id);
    id
}

/// Puts a section of an input behind what a section of the output has.
fn append(world: &mut World, object: u32, section: usize, id: SectionId) {
    let s = world.objects[object as usize].view.sections[section];
    let out = world.section(id);
    let at = out.size.next_multiple_of(s.align.max(1));
    out.align = out.align.max(s.align);
    out.size = at.saturating_add(s.size);
    if !s.data.is_empty() {
        out.parts.push(Part { offset: at, data: Cow::Borrowed(s.data) });
    }
    world.maps[object as usize].sections[section] = (id, at);
}

/// The section of the output that joins all of a name.
fn joined<'a>(world: &mut World<'a>, name: &'a str, class: u8, kind: u32, flags: u64) -> SectionId {
    if let Some(&id) = world.section_by_name.get(name) {
        return id;
    }
    let id = new_section(world, name, class, kind, flags);
    world.section_by_name.insert(name, id);
    id
}

/// Makes sure that the section of an input that a variable lies in has its place.
fn data_section(world: &mut World, object: u32, section: usize) -> (SectionId, u64) {
    let place = world.maps[object as usize].sections[section];
    if place.0 != NONE {
        return place;
    }
    let o = &world.objects[object as usize];
    let s = o.view.sections[section];
    // A file that links again keeps the types of its inputs.
    let relocatable = world.options.relocatable;
    let (stored, zero) = if relocatable { (s.kind, s.kind) } else { (1, SHT_NOBITS) };
    match role(s.kind, s.name) {
        Role::Global => {
            let id = joined(world, ".nv.global", class::ZERO, zero, s.flags);
            append(world, object, section, id);
        }
        Role::GlobalInit => {
            let id = joined(world, ".nv.global.init", class::INIT, stored, s.flags);
            append(world, object, section, id);
        }
        // In an executable shared variables are laid out for each entry.
        Role::DebugShared if relocatable => {
            let id = joined(world, s.name, class::ZERO, s.kind, s.flags);
            append(world, object, section, id);
        }
        // Banks and shared variables of one function; others are for all.
        Role::Constant(_) | Role::Shared if s.flags & 0x40 != 0 => {
            let class = if role(s.kind, s.name) == Role::Shared { class::ZERO } else { class::CONSTANT };
            if class == class::ZERO && !relocatable {
                return (NONE, 0);
            }
            let lost = world.maps[object as usize].lost.get(s.info as usize) == Some(&true);
            let owner = world.maps[object as usize].sections.get(s.info as usize).map_or(NONE, |m| m.0);
            if lost || owner == NONE {
                return (NONE, 0);
            }
            let id = add_section(world, object, section, class, stored);
            world.section(id).owner = owner;
        }
        Role::Constant(_) => {
            let id = joined(world, s.name, class::CONSTANT, stored, s.flags);
            append(world, object, section, id);
        }
        Role::Unified => {
            let id = joined(world, s.name, class::INIT, s.kind, s.flags);
            append(world, object, section, id);
        }
        _ => {}
    }
    world.maps[object as usize].sections[section]
}

fn debug_shared(world: &mut World) -> SectionId {
    if world.debug_shared == NONE {
        world.debug_shared = new_section(world, ".nv_debug.shared", class::ZERO, SHT_NOBITS, 3);
        world.locals.pop();
    }
    world.debug_shared
}

fn merge_section(world: &mut World, object: u32, i: usize) -> Result<(), Vec<Diagnostic>> {
    let o = &world.objects[object as usize];
    let s = o.view.sections[i];
    let file = o.name;
    let wrong = |what: String| fatal(format!("Input file '{file}' is damaged: {what}"));
    match role(s.kind, s.name) {
        Role::Global | Role::GlobalInit | Role::Unified | Role::Constant(_) | Role::Shared | Role::DebugShared => {
            data_section(world, object, i);
            let place = world.maps[object as usize].sections[i].0;
            if s.name.starts_with(".nv.constant0.") && place != NONE {
                let owner = world.sections[place as usize].owner;
                let function = world.sections.get(owner as usize).map_or(NONE, |s| s.function);
                if function != NONE {
                    world.functions[function as usize].constant0 = place;
                }
            }
        }
        Role::Frame => {
            let id = joined(world, ".debug_frame", class::DEBUG, 1, 0);
            append(world, object, i, id);
        }
        Role::Note if s.name == ".note.nv.tkinfo" => world.notes.push(s.data),
        Role::Note if s.name == ".note.nv.cuinfo" => {
            world.cuinfo.get_or_insert((s.data, s.flags));
        }
        Role::Compat => attributes::merge_compat(world, s.data).map_err(|d| wrong(d.message))?,
        Role::Reloc => {
            let target = s.info as usize;
            let (place, _) = data_section_of(world, object, target);
            if place != NONE && !world.maps[object as usize].lost[target] {
                let prefix = if s.kind == 4 { ".rela" } else { ".rel" };
                let id = match world.reloc_by.get(&(place, s.kind)) {
                    Some(&id) => id,
                    None => {
                        let name = format!("{prefix}{}", world.sections[place as usize].name);
                        let id = new_section(world, name, class::RELOC, s.kind, 0x40);
                        world.locals.pop();
                        let out = world.section(id);
                        (out.owner, out.align, out.entsize) = (place, 8, if s.kind == 4 { 24 } else { 16 });
                        world.reloc_by.insert((place, s.kind), id);
                        id
                    }
                };
                world.reloc_sections.push((object, i as u32, id));
            }
        }
        Role::UnifiedEntries if !world.options.relocatable => {
            let name = crate::unified::name(world, object, s.data);
            let m = format!("Unified symbols found but index file not specified: '{name}' in '{file}'");
            return Err(fatal(m));
        }
        Role::UnifiedEntries => {
            if !s.data.len().is_multiple_of(ENTRY) {
                return Err(wrong(format!("the size of {} is no multiple of {ENTRY}", s.name)));
            }
            let id = joined(world, s.name, class::INFOS, s.kind, s.flags);
            world.unified.push(Entries { object, section: id, data: s.data });
        }
        Role::Other => {
            let debug = s.name.starts_with(".debug_") || s.name.starts_with(".nv_debug_");
            if !(debug && world.options.strip_debug) {
                let id = joined(world, s.name, if debug { class::DEBUG } else { class::RELOC }, s.kind, s.flags);
                append(world, object, i, id);
            }
        }
        _ => {}
    }
    Ok(())
}

/// As [`data_section`], for the target of relocations: sections that come later in the file get their place now.
fn data_section_of(world: &mut World, object: u32, section: usize) -> (SectionId, u64) {
    let place = world.maps[object as usize].sections[section];
    if place.0 != NONE {
        return place;
    }
    let s = world.objects[object as usize].view.sections[section];
    match role(s.kind, s.name) {
        Role::Global | Role::GlobalInit | Role::Unified | Role::Constant(_) => data_section(world, object, section),
        _ => place,
    }
}
