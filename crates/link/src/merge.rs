//! Puts the symbols and sections of every input into the world, in the vendor's order: of each input first its functions,
//! each with its section of code, then its other symbols, each of which makes the section that it lies in, then what sections
//! are left. The order was read off files that nvlink 13.5 wrote.

use crate::fatal;
use crate::object::{Role, role};
use crate::world::{
    Function, Local, Map, NONE, Part, Place, Section, SectionId, SharedVariable, Symbol, SymbolId, World,
};
use cubin::attr::{self, Value};
use cubin::elf::SHT_NOBITS;
use cubin::view::SymbolView;
use diag::{Diagnostic, Severity};
use std::borrow::Cow;

/// `st_shndx` of common variables.
const COMMON: u16 = 0xfff2;
/// `st_type`.
const FUNC: u8 = 2;
const SECTION: u8 = 3;
/// Bits of `st_other`: an entry, a managed variable, the memory.
const ENTRY: u8 = 0x10;
/// One address on all GPUs.
const UNIFIED: u8 = 4;
const VISIBILITY: u8 = 3;
const INTERNAL: u8 = 1;
const SPACE: u8 = 0xe0;
const SHARED_SPACE: u8 = 0x40;

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
    place_common(world);
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
    let text_info = info_sections(world, object);
    for i in 1..symbols {
        let s = world.objects[object as usize].symbols[i];
        if s.kind != FUNC && s.kind != SECTION {
            merge_variable(world, object, i, &s, errors);
        }
    }
    for i in 1..sections {
        merge_section(world, object, i)?;
    }
    attributes(world, object, &text_info)
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
    if s.other & UNIFIED != 0 && section != 0 {
        let m = format!("Unified symbols found but index file not specified: '{}' in '{}'", s.name, o.name);
        errors.push(Diagnostic::new(Severity::Fatal, m));
        return;
    }
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
    let text = add_section(world, object, section, 15, 1);
    let entry = world.symbol(id).other & ENTRY != 0;
    world.section(text).function = number;
    let mut shared = NONE;
    if entry {
        shared = new_section(world, format!(".nv.shared.{}", world.symbol(id).name), 17, SHT_NOBITS, 0x43);
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
    let id = world.sections.len() as u32;
    world.sections.push(Section {
        name: name.into(),
        class,
        kind,
        flags,
        align: 1,
        entsize: 0,
        size: 0,
        parts: Vec::new(),
        owner: NONE,
        function: NONE,
        dead: false,
        symbol: 0,
        index: 0,
        offset: 0,
    });
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
    match role(s.kind, s.name) {
        Role::Global => {
            let id = joined(world, ".nv.global", 17, SHT_NOBITS, s.flags);
            append(world, object, section, id);
        }
        Role::GlobalInit => {
            let id = joined(world, ".nv.global.init", 16, 1, s.flags);
            append(world, object, section, id);
        }
        // Banks of one function; others are for all.
        Role::Constant(_) if s.flags & 0x40 != 0 => {
            let lost = world.maps[object as usize].lost.get(s.info as usize) == Some(&true);
            let owner = world.maps[object as usize].sections.get(s.info as usize).map_or(NONE, |m| m.0);
            if lost || owner == NONE {
                return (NONE, 0);
            }
            let id = add_section(world, object, section, 13, 1);
            world.section(id).owner = owner;
        }
        Role::Constant(_) => {
            let id = joined(world, s.name, 13, 1, s.flags);
            append(world, object, section, id);
        }
        _ => {}
    }
    world.maps[object as usize].sections[section]
}

fn debug_shared(world: &mut World) -> SectionId {
    if world.debug_shared == NONE {
        world.debug_shared = new_section(world, ".nv_debug.shared", 17, SHT_NOBITS, 3);
        world.locals.pop();
    }
    world.debug_shared
}

fn merge_variable<'a>(world: &mut World<'a>, object: u32, i: usize, s: &SymbolView<'a>, errors: &mut Vec<Diagnostic>) {
    let section = s.shndx as usize;
    let sections = &world.objects[object as usize].view.sections;
    let shared = s.other & SPACE == SHARED_SPACE && s.kind == 13;
    let defined = section != 0 && section < sections.len();
    // Where this definition lies. A losing one keeps its bytes.
    let place = if !defined || shared { (NONE, 0) } else { data_section(world, object, section) };
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
        if shared {
            add_shared(world, object, id, s);
        } else if s.other & VISIBILITY == INTERNAL || definition == Place::Undefined {
            world.symbols[id as usize].hidden = true;
        } else {
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
    let variable = SharedVariable { align: s.value.max(1), size: s.size, entry, dynamic };
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

/// For each section of code of an input, the section of its attributes (0 for none), in the output's order: entries first.
fn info_sections(world: &World, object: u32) -> Vec<(usize, usize)> {
    let o = &world.objects[object as usize];
    let map = &world.maps[object as usize];
    let mut found = Vec::new();
    for (i, s) in o.view.sections.iter().enumerate() {
        let text = s.info as usize;
        if role(s.kind, s.name) == Role::Info && text < o.view.sections.len() && map.sections[text].0 != NONE {
            found.push((text, i));
        }
    }
    let entry = |text: usize| o.symbols.get(o.heads[text] as usize).is_some_and(|s| s.other & ENTRY != 0);
    found.sort_by_key(|&(text, _)| !entry(text));
    found
}

fn merge_section(world: &mut World, object: u32, i: usize) -> Result<(), Vec<Diagnostic>> {
    let o = &world.objects[object as usize];
    let s = o.view.sections[i];
    let file = o.name;
    let wrong = |what: String| fatal(format!("Input file '{file}' is damaged: {what}"));
    match role(s.kind, s.name) {
        Role::Global | Role::GlobalInit | Role::Constant(_) => {
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
            let id = joined(world, ".debug_frame", 2, 1, 0);
            append(world, object, i, id);
        }
        Role::Note if s.name == ".note.nv.tkinfo" => world.notes.push(s.data),
        Role::Note if s.name == ".note.nv.cuinfo" => {
            world.cuinfo.get_or_insert((s.data, s.flags));
        }
        Role::Compat => merge_compat(world, s.data).map_err(|d| wrong(d.message))?,
        Role::Reloc => {
            let target = s.info as usize;
            let (place, _) = data_section_of(world, object, target);
            if place != NONE && !world.maps[object as usize].lost[target] {
                let prefix = if s.kind == 4 { ".rela" } else { ".rel" };
                let id = match world.reloc_by.get(&(place, s.kind)) {
                    Some(&id) => id,
                    None => {
                        let name = format!("{prefix}{}", world.sections[place as usize].name);
                        let id = new_section(world, name, 12, s.kind, 0x40);
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
        Role::Other => {
            let debug = s.name.starts_with(".debug_") || s.name.starts_with(".nv_debug_");
            if !(debug && world.options.strip_debug) {
                let id = joined(world, s.name, if debug { 2 } else { 12 }, s.kind, s.flags);
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
        Role::Global | Role::GlobalInit | Role::Constant(_) => data_section(world, object, section),
        _ => place,
    }
}

/// The needs of all inputs: of each number the larger one. The target of the first stays.
fn merge_compat(world: &mut World, data: &[u8]) -> Result<(), Diagnostic> {
    const CLASS_AND_COPIES: [u8; 2] = [2, 3];
    let Some(old) = &world.compat else {
        attr::read(data)?;
        world.compat = Some(data.to_vec());
        return Ok(());
    };
    if old == data {
        return Ok(());
    }
    let mut list = attr::read(old)?;
    for a in attr::read(data)? {
        match list.iter_mut().find(|o| o.code == a.code) {
            None => list.push(a),
            Some(o) if CLASS_AND_COPIES.contains(&a.code) && a.to_words() > o.to_words() => *o = a,
            Some(_) => {}
        }
    }
    world.compat = Some(attr::write(&list));
    Ok(())
}

/// What the attributes say of functions.
fn attributes(world: &mut World, object: u32, sections: &[(usize, usize)]) -> Result<(), Vec<Diagnostic>> {
    let o = &world.objects[object as usize];
    let wrong = |d: Diagnostic| fatal(format!("Input file '{}' is damaged: {}", o.name, d.message));
    let mut of_function = Vec::new();
    for &(text, info) in sections {
        let section = world.maps[object as usize].sections[text].0;
        let f = world.sections[section as usize].function;
        if f == NONE || world.functions[f as usize].object != object {
            continue;
        }
        let data = o.view.sections[info].data;
        let (mut barriers, mut limit, mut externs) = (0, 0, Vec::new());
        for a in attr::read(data).map_err(wrong)? {
            match (a.code, &a.value) {
                (attr::NUM_BARRIERS, Value::Byte(n, _)) => barriers = *n as u32,
                (attr::MAXREG_COUNT, Value::Half(n)) => limit = *n as u32,
                (attr::EXTERNS, _) => {
                    let map = &world.maps[object as usize].symbols;
                    let known = a.to_words().into_iter().filter_map(|s| map.get(s as usize).copied());
                    externs.extend(known.filter(|&s| s != NONE));
                }
                _ => {}
            }
        }
        of_function.push((f, data, barriers, limit, externs));
    }
    let mut counts = Vec::new();
    if let Some(s) = o.view.sections.iter().find(|s| role(s.kind, s.name) == Role::ModuleInfo) {
        for a in attr::read(s.data).map_err(wrong)? {
            let words = a.to_words();
            if let ([symbol, n, ..], attr::REGCOUNT | attr::FRAME_SIZE) = (words.as_slice(), a.code) {
                if *symbol as usize >= o.symbols.len() {
                    let m = format!("an attribute names symbol {symbol}, which is not there");
                    return Err(wrong(Diagnostic::error(m)));
                }
                counts.push((a.code, *symbol, *n));
            }
        }
        let data = s.data;
        world.module_info.push((object, data));
    }
    for (f, data, barriers, limit, externs) in of_function {
        let function = &mut world.functions[f as usize];
        (function.info, function.has_info, function.barriers, function.max_registers) = (data, true, barriers, limit);
        function.externs = externs;
        world.info_order.push(f);
    }
    for (code, symbol, n) in counts {
        let id = world.maps[object as usize].symbols[symbol as usize];
        if id == NONE || world.symbol(id).object != object {
            continue;
        }
        if let Some(f) = world.called(id) {
            let function = &mut world.functions[f as usize];
            match code {
                attr::REGCOUNT => function.registers = n,
                _ => function.frame = n,
            }
        }
    }
    Ok(())
}

/// Common variables get memory behind all others.
fn place_common(world: &mut World) {
    let common: Vec<u32> = world.globals.iter().copied().filter(|&g| world.symbol(g).place == Place::Common).collect();
    for id in common {
        let section = joined(world, ".nv.global", 17, SHT_NOBITS, 3);
        let (align, size) = (world.symbol(id).value.max(1), world.symbol(id).size);
        let align = if align.is_power_of_two() { align } else { 1 };
        let out = world.section(section);
        let at = out.size.next_multiple_of(align);
        (out.size, out.align) = (at.saturating_add(size), out.align.max(align));
        let symbol = &mut world.symbols[id as usize];
        (symbol.place, symbol.value) = (Place::Section(section), at);
    }
}
