//! Lays the output out and writes it: numbers symbols and sections, places sections, copies the bytes of inputs, patches them.

use crate::callgraph::Graph;
use crate::capsule::{Capsule, WITH_CAPSULE};
use crate::info;
use crate::reloc;
use crate::symbols::{Order, Strings};
use crate::world::{NONE, Part, Section, SectionId, World, class};
use crate::{Addresses, Clock, Linked, Usage};
use cubin::elf::{
    EM_CUDA, ET_EXEC, ET_REL, RESERVED, Reloc, SHT_LOPROC, SHT_NOBITS, SHT_NOTE, SHT_RELA, SHT_STRTAB, SHT_SYMTAB,
};
use diag::Diagnostic;
use std::borrow::Cow;

const HEADER: u64 = 0x40;
const SECTION: u64 = 0x40;
const SEGMENT: u64 = 0x38;
const SYMBOL: u64 = 0x18;

/// Relocation 0x73 as a list of actions: 17 bits at bit 37 and 5 bits at bit 54. Every linked file has these bytes.
const ACTIONS: [u8; 16] = [0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 5, 0x36];

/// Writes the output.
pub(crate) fn write<'a>(
    world: &mut World<'a>,
    graph: &Graph,
    addresses: &Addresses,
    capsule: Option<Capsule<'a>>,
    clock: &mut Clock,
) -> Result<Linked, Vec<Diagnostic>> {
    let sm = world.options.target.sm;
    let fixed = Fixed::of(world);
    drop_empty(world);
    check_banks(world)?;
    world.section(fixed.prototype).dead = !info::has_prototypes(world, graph);
    let mut capsule = capsule.and_then(|c| c.prepare(world));
    // Files with a capsule have no such list. (Observed: nvlink 13.5 writes none.)
    world.has_capsule = capsule.is_some();
    world.section(fixed.actions).dead |= world.has_capsule;
    let notes = [fixed.tkinfo, fixed.cuinfo];
    let mut last = vec![fixed.callgraph, fixed.prototype, fixed.actions];
    if world.has_capsule {
        last.extend(&addresses.slots.banks);
    }
    let order = Order::of(world, &notes, &last);
    let resolved = reloc::resolve(world, addresses)?;
    clock.end("relocate");
    let mut strings = Strings::new();
    let name_offsets = order.names(world, &mut strings);
    if let Some(capsule) = &mut capsule {
        let known = order.list.iter().map(|l| l.name(world).to_string()).zip(name_offsets.iter().copied());
        capsule.names(&mut strings, &known.collect());
    }
    let lists = info::lists(world, graph, &mut |text| strings.once(text));
    fill(world, graph, &fixed, resolved.left, lists);
    keep_resolved(world, resolved.done);
    let mut patches = resolved.patches;
    if let Some(capsule) = &mut capsule {
        patches.extend(capsule.add(world, &mut strings));
    }
    set(world, fixed.strings, strings.bytes);
    let sections = number_sections(world, &fixed);
    if let Some(capsule) = &mut capsule {
        capsule.number(world, &fixed, &mut patches);
    }
    check_count(sections.len() + 1)?;
    let (names, offsets) = section_names(world, &sections);
    set(world, fixed.names, names);
    let table = order.table(world, &name_offsets);
    set(world, fixed.symbols, table);
    let mut at = HEADER;
    for &s in &sections {
        let section = &world.sections[s as usize];
        if section.shares != NONE {
            world.section(s).offset = world.sections[section.shares as usize].offset;
            continue;
        }
        let section = world.section(s);
        at = at.next_multiple_of(section.align.max(1));
        section.offset = at;
        if cubin::view::in_file(section.kind) {
            at += section.size;
        }
    }
    let shoff = at.next_multiple_of(8);
    let phoff = shoff + (sections.len() as u64 + 1) * SECTION;
    let segments = if world.options.relocatable { Vec::new() } else { segments(world, &sections, phoff) };
    let mut out = vec![0u8; (phoff + segments.len() as u64 * SEGMENT) as usize];
    for &s in &sections {
        let section = &world.sections[s as usize];
        if world.in_file(s) {
            for part in &section.parts {
                let start = (section.offset + part.offset) as usize;
                out[start..start + part.data.len()].copy_from_slice(&part.data);
            }
        }
    }
    for p in &patches {
        let start = (world.sections[p.section as usize].offset + p.offset) as usize;
        let place = &mut out[start..start + p.field.width()];
        let value = if p.add { p.value.wrapping_add(p.field.get(place)) } else { p.value };
        p.field.set(place, value, p.bank);
    }
    let cuinfo = world.sections[fixed.cuinfo as usize].index;
    let form = if capsule.is_some() { WITH_CAPSULE } else { PLAIN_CODE };
    let flags = cuinfo << 24 | (sm as u32) << 8 | form;
    let (kind, table) = if world.options.relocatable { (ET_REL, 0) } else { (ET_EXEC, phoff) };
    header(&mut out, kind, flags, (table, segments.len()), (shoff, sections.len() + 1));
    section_headers(world, &fixed, (&sections, &offsets), order.locals, &mut out[shoff as usize..phoff as usize]);
    out[phoff as usize..].copy_from_slice(&segments.concat());
    clock.end("finalize");
    Ok(Linked {
        bytes: out,
        warnings: Vec::new(),
        usage: usage(world, graph),
        global_bytes: size_of(world, ".nv.global") + size_of(world, ".nv.global.init"),
        constant_bytes: size_of(world, ".nv.constant3"),
        callgraph: String::new(),
        propagated: Vec::new(),
        times: Vec::new(),
    })
}

/// `e_flags`: the code is plain machine code, without a capsule.
const PLAIN_CODE: u32 = 4;

/// Sections that every output has.
pub(crate) struct Fixed {
    names: SectionId,
    pub strings: SectionId,
    pub symbols: SectionId,
    pub tkinfo: SectionId,
    pub cuinfo: SectionId,
    info: SectionId,
    compat: SectionId,
    /// Function and the section of its attributes.
    infos: Vec<(u32, SectionId)>,
    pub callgraph: SectionId,
    pub prototype: SectionId,
    pub actions: SectionId,
}

fn section(world: &mut World, name: impl Into<String>, class: u8, kind: u32, flags: u64, align: u64) -> SectionId {
    let id = world.make_section(name.into(), class, kind, flags);
    world.section(id).align = align;
    id
}

fn set(world: &mut World, id: SectionId, data: Vec<u8>) {
    let s = world.section(id);
    s.size = data.len() as u64;
    s.parts = vec![Part { offset: 0, data: Cow::Owned(data) }];
}

impl Fixed {
    /// Makes them.
    pub fn of(world: &mut World) -> Fixed {
        const INFO_LINK: u64 = 0x40;
        let names = section(world, ".shstrtab", class::TABLE, SHT_STRTAB, 0, 1);
        let strings = section(world, ".strtab", class::TABLE, SHT_STRTAB, 0, 1);
        let symbols = section(world, ".symtab", class::TABLE, SHT_SYMTAB, 0, 8);
        world.section(symbols).entsize = SYMBOL;
        let tkinfo = section(world, ".note.nv.tkinfo", class::TKINFO, SHT_NOTE, 0x200_0000, 4);
        let cuinfo = section(world, ".note.nv.cuinfo", class::CUINFO, SHT_NOTE, 0x100_0000, 4);
        let (sm, toolkit) = (world.options.target.sm, world.options.tool.toolkit);
        match world.cuinfo {
            Some((data, flags)) => {
                let s = world.section(cuinfo);
                (s.size, s.flags) = (data.len() as u64, flags);
                s.parts = vec![Part { offset: 0, data: Cow::Borrowed(data) }];
            }
            // Nothing was linked; the note says for what.
            None => {
                let mut data = [12u32, 8, 1000].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
                data.extend(b"NVIDIA Corp\0");
                data.extend([2, sm, toolkit, 0].iter().flat_map(|w| w.to_le_bytes()));
                set(world, cuinfo, data);
            }
        }
        let mut note = world.options.tool.note();
        if !world.options.relocatable {
            world.notes.iter().for_each(|n| note.extend(*n));
        }
        set(world, tkinfo, note);
        let info = section(world, ".nv.info", class::INFO, SHT_LOPROC, 0, 4);
        let compat = section(world, ".nv.compat", class::COMPAT, SHT_LOPROC + 0x86, 0, 4);
        match world.compat.take() {
            Some(data) => set(world, compat, data),
            None => {
                world.section(compat).dead = true;
                world.compat_missing = true;
            }
        }
        let mut infos = Vec::new();
        for f in world.info_order.clone() {
            let function = world.function(f);
            if function.alive && function.has_info {
                let (name, text) = (format!(".nv.info.{}", world.name_of(f)), function.text);
                let id = section(world, name, class::INFOS, SHT_LOPROC, INFO_LINK, 4);
                world.section(id).owner = text;
                infos.push((f, id));
            }
        }
        let callgraph = section(world, ".nv.callgraph", class::CALLGRAPH, SHT_LOPROC + 1, 0, 4);
        let prototype = section(world, ".nv.prototype", class::PROTOTYPE, SHT_LOPROC + 2, 0, 4);
        let actions = section(world, ".nv.rel.action", class::ACTIONS, SHT_LOPROC + 0xb, 0, 8);
        for s in [callgraph, prototype, actions] {
            world.section(s).entsize = 8;
        }
        set(world, actions, ACTIONS.to_vec());
        world.section(actions).dead = world.options.relocatable;
        Fixed { names, strings, symbols, tkinfo, cuinfo, info, compat, infos, callgraph, prototype, actions }
    }
}

/// What belongs to sections that are left out is left out too.
pub(crate) fn drop_empty(world: &mut World) {
    for i in 0..world.sections.len() {
        let owner = world.sections[i].owner;
        if owner != NONE && world.sections[owner as usize].dead {
            world.sections[i].dead = true;
        }
    }
}

/// Numbers of sections have 16 bits in symbols and in the header; those from 0xff00 on mean other things.
fn check_count(count: usize) -> Result<(), Vec<Diagnostic>> {
    if count < RESERVED {
        return Ok(());
    }
    let most = RESERVED - 1;
    let text = format!("the linked file would have {count} sections; no more than {most} are supported");
    Err(vec![Diagnostic::error(text).help("link fewer kernels into one file: each has two to four sections")])
}

/// Constant banks have a limit.
fn check_banks(world: &World) -> Result<(), Vec<Diagnostic>> {
    let limit = arch::limits(world.options.target.sm).map_or(0x1_0000, |l| l.const_bytes) as u64;
    let too_large =
        |s: &&Section| !s.dead && s.name.starts_with(".nv.constant") && s.class == class::CONSTANT && s.size > limit;
    let errors = world.sections.iter().filter(too_large).map(|s| {
        let m = format!("section '{}' has 0x{:x} bytes, a constant bank 0x{limit:x} max", s.name, s.size);
        Diagnostic::error(m)
    });
    let errors: Vec<Diagnostic> = errors.collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The table of section names, and where each section's name is.
fn section_names(world: &World, sections: &[SectionId]) -> (Vec<u8>, Vec<u32>) {
    let mut names = Strings::new();
    // Relocations' names end with those of what they change, but the vendor's tools do not share strings either.
    let offsets = sections.iter().map(|&s| names.push(&world.sections[s as usize].name)).collect();
    (names.bytes, offsets)
}

/// Fills in what depends on numbers of symbols: the call graph, attributes, and the relocations that are left, by their sections.
pub(crate) fn fill(world: &mut World, graph: &Graph, fixed: &Fixed, left: Vec<Vec<Reloc>>, lists: info::Lists) {
    set(world, fixed.callgraph, lists.callgraph);
    set(world, fixed.prototype, lists.prototypes);
    let module = info::module(world, graph);
    world.section(fixed.info).dead = module.is_empty();
    set(world, fixed.info, module);
    crate::unified::fill(world);
    for &(f, id) in &fixed.infos {
        let data = info::of_function(world, graph, f);
        set(world, id, data);
    }
    for (id, list) in left.into_iter().enumerate() {
        if world.sections[id].class != class::RELOC || world.sections[id].owner == NONE {
            continue;
        }
        world.sections[id].dead |= list.is_empty();
        let rela = world.sections[id].kind == SHT_RELA;
        let mut data = Vec::with_capacity(list.len() * if rela { 24 } else { 16 });
        for r in list {
            data.extend(&r.bytes()[..if rela { 24 } else { 16 }]);
        }
        set(world, id as u32, data);
    }
}

/// Writes down what was resolved. That of one section stands together, whatever form it had.
pub(crate) fn keep_resolved(world: &mut World, resolved: Vec<Vec<Reloc>>) {
    let mut done: Vec<(SectionId, Vec<Reloc>)> = Vec::new();
    for (id, list) in resolved.into_iter().enumerate().filter(|(_, l)| !l.is_empty()) {
        let owner = world.sections[id].owner;
        match done.iter_mut().find(|d| d.0 == owner) {
            Some(d) => d.1.extend(list),
            None => done.push((owner, list)),
        }
    }
    for (owner, list) in done {
        let name = format!(".nv.resolvedrela{}", world.sections[owner as usize].name);
        let new = section(world, name, class::RELOC, SHT_LOPROC + 3, 0x40, 8);
        set(world, new, list.iter().flat_map(|r| r.bytes()).collect());
        (world.section(new).owner, world.section(new).entsize) = (owner, 24);
    }
}

pub(crate) fn number_sections(world: &mut World, fixed: &Fixed) -> Vec<SectionId> {
    let mut list: Vec<SectionId> = (0..world.sections.len() as u32).collect();
    list.retain(|&s| !world.sections[s as usize].dead);
    list.sort_by_key(|&s| world.sections[s as usize].class);
    debug_assert!(list.starts_with(&[fixed.names, fixed.strings, fixed.symbols]));
    for (i, &s) in list.iter().enumerate() {
        world.section(s).index = i as u32 + 1;
    }
    list
}

/// A program header.
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    file: u64,
    memory: u64,
}

/// Program headers: their own table, constants and code, variables, the table again.
fn segments(world: &World, sections: &[SectionId], phoff: u64) -> Vec<[u8; SEGMENT as usize]> {
    let of = |classes: std::ops::RangeInclusive<u8>| {
        let all = sections.iter().map(|&s| &world.sections[s as usize]);
        all.filter(move |s| classes.contains(&s.class)).collect::<Vec<_>>()
    };
    let mut list = Vec::new();
    let code = of(class::CONSTANT..=class::TEXT);
    if let (Some(first), Some(last)) = (code.first(), code.last()) {
        let size = last.offset + last.size - first.offset;
        list.push(Segment { kind: 1, flags: 5, offset: first.offset, file: size, memory: size });
    }
    let data = of(class::INIT..=class::ZERO);
    if let Some(first) = data.first() {
        let (stored, zero): (Vec<&Section>, Vec<&Section>) = data.iter().partition(|s| s.kind != SHT_NOBITS);
        let end = stored.last().map_or(first.offset, |s| s.offset + s.size);
        let end = zero.iter().map(|s| s.offset).max().unwrap_or(end).max(end);
        let file = end - first.offset;
        let memory = file + zero.iter().map(|s| s.size).sum::<u64>();
        list.push(Segment { kind: 1, flags: 6, offset: first.offset, file, memory });
    }
    let size = (list.len() as u64 + 2) * SEGMENT;
    let table = |kind| Segment { kind, flags: 5, offset: phoff, file: size, memory: size };
    list.insert(0, table(6));
    list.push(table(1));
    let bytes = |s: &Segment| {
        let mut out = [0; SEGMENT as usize];
        out[..4].copy_from_slice(&s.kind.to_le_bytes());
        out[4..8].copy_from_slice(&s.flags.to_le_bytes());
        out[8..16].copy_from_slice(&s.offset.to_le_bytes());
        out[32..40].copy_from_slice(&s.file.to_le_bytes());
        out[40..48].copy_from_slice(&s.memory.to_le_bytes());
        out[48] = 8;
        out
    };
    list.iter().map(bytes).collect()
}

fn header(out: &mut [u8], kind: u16, flags: u32, (phoff, segments): (u64, usize), (shoff, sections): (u64, usize)) {
    out[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x41\x08");
    out[16..18].copy_from_slice(&kind.to_le_bytes());
    out[18..20].copy_from_slice(&EM_CUDA.to_le_bytes());
    out[20] = 1;
    out[32..40].copy_from_slice(&phoff.to_le_bytes());
    out[40..48].copy_from_slice(&shoff.to_le_bytes());
    out[48..52].copy_from_slice(&flags.to_le_bytes());
    for (at, n) in [HEADER, SEGMENT, segments as u64, SECTION, sections as u64, 1].into_iter().enumerate() {
        out[52 + at * 2..54 + at * 2].copy_from_slice(&(n as u16).to_le_bytes());
    }
}

/// `sh_flags`: `sh_info` is the index of a section.
const INFO_LINK: u64 = 0x40;

fn section_headers(
    world: &World,
    fixed: &Fixed,
    (sections, names): (&[SectionId], &[u32]),
    locals: usize,
    out: &mut [u8],
) {
    let old = world.compat_missing;
    for ((&id, &name), h) in sections.iter().zip(names).zip(out[SECTION as usize..].chunks_exact_mut(64)) {
        let s = &world.sections[id as usize];
        let owner = if s.owner == NONE { 0 } else { world.sections[s.owner as usize].index };
        let symbols = world.sections[fixed.symbols as usize].index;
        let (mut link, mut info) = (0, owner);
        match s.class {
            class::TABLE if id == fixed.symbols => {
                (link, info) = (world.sections[fixed.strings as usize].index, locals as u32 + 1)
            }
            class::CUINFO => {
                link = world.sections[fixed.tkinfo as usize].index;
                info = if old || s.flags & INFO_LINK == 0 { 0 } else { world.sections[fixed.compat as usize].index };
            }
            class::INFO | class::INFOS | class::CALLGRAPH | class::PROTOTYPE | class::RELOC => link = symbols,
            class::CAPSULE => {
                link = world.sections.get(s.link as usize).map_or(0, |l| l.index);
                info = if s.symbol != 0 { s.symbol } else { owner };
            }
            class::TEXT => {
                link = symbols;
                let symbol = world.symbol(world.function(s.function).symbol).index;
                // Before sm_90 the number of the function's own registers stands here too.
                info = symbol | if old { world.function(s.function).registers << 24 } else { 0 };
            }
            _ => {}
        }
        h[..4].copy_from_slice(&name.to_le_bytes());
        h[4..8].copy_from_slice(&s.kind.to_le_bytes());
        h[8..16].copy_from_slice(&s.flags.to_le_bytes());
        h[24..32].copy_from_slice(&s.offset.to_le_bytes());
        h[32..40].copy_from_slice(&s.size.to_le_bytes());
        h[40..44].copy_from_slice(&link.to_le_bytes());
        h[44..48].copy_from_slice(&info.to_le_bytes());
        h[48..56].copy_from_slice(&s.align.to_le_bytes());
        h[56..64].copy_from_slice(&s.entsize.to_le_bytes());
    }
}

fn size_of(world: &World, name: &str) -> u64 {
    world.section_by_name.get(name).map_or(0, |&s| world.sections[s as usize].size)
}

fn usage(world: &World, graph: &Graph) -> Vec<Usage> {
    let mut out = Vec::new();
    let mut banks = vec![Vec::new(); world.functions.len()];
    for s in world.sections.iter().filter(|s| !s.dead && s.class == class::CONSTANT && s.owner != NONE) {
        let function = world.sections[s.owner as usize].function;
        let number = s.name.strip_prefix(".nv.constant").and_then(|n| n.split('.').next()).and_then(|n| n.parse().ok());
        if let (Some(number), Some(list)) = (number, banks.get_mut(function as usize)) {
            list.push((number, s.size));
        }
    }
    for (f, function) in world.functions.iter().enumerate().rev() {
        if !function.entry || !function.alive {
            continue;
        }
        let needs = &graph.needs[f];
        banks[f].sort_unstable();
        let shared = world.sections.get(function.shared as usize).filter(|s| !s.dead);
        out.push(Usage {
            name: world.name_of(f as u32).to_string(),
            registers: needs.registers,
            barriers: needs.barriers,
            stack: needs.stack.unwrap_or(function.frame),
            shared: shared.map_or(0, |s| s.size),
            constants: std::mem::take(&mut banks[f]),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_sections_are_an_error() {
        assert!(check_count(RESERVED - 1).is_ok());
        let said = check_count(RESERVED).unwrap_err();
        assert!(said[0].message.contains("65280 sections; no more than 65279"), "{}", said[0].message);
    }
}
