//! Capsules: from sm_100 on an object holds its code a second time, in a form from which a driver makes machine code of a device
//! that the plain code does not fit. It is a file beside the file: sections `.nv.capmerc.text.F` with the code (`code.rs`), and `.nv.merc.*`
//! with symbols, attributes, call graph, prototypes, constants, debug information and relocations. Variables lie in sections of the plain file.
//!
//! This second file is linked as the first one: [`objects`] gives its sections the names and types of the plain ones, so that the
//! phases can work on a second world; [`Capsule::add`] puts what comes out behind the sections of the first. As with the vendor's tool an output has a
//! capsule if all inputs have one. (Observed: nvlink 13.5; it makes the plain code again from the capsule, here the plain code of the
//! inputs stays, which the capsules of the inputs fit.)

mod code;

use crate::callgraph::Graph;
use crate::field::Field;
use crate::object::{Object, Role, role};
use crate::reloc::{self, Patch};
use crate::symbols::{Order, Strings};
use crate::texture::{INDICES, Slots};
use crate::unified::VARIABLES;
use crate::world::{NONE, Part, SectionId, World, class};
use crate::write::Fixed;
use crate::{Addresses, Options, callgraph, fatal, merge, shared};
use cubin::elf::{Reloc, SHT_LOPROC, SHT_RELA, SHT_RESOLVED, SHT_SYMTAB};
use cubin::view::View;
use diag::Diagnostic;
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// `e_flags`: the code is plain machine code, without a capsule; with one.
const PLAIN: u32 = 4;
/// What an output with a capsule has there.
pub(crate) const WITH_CAPSULE: u32 = 2;
/// `sh_flags`: a section of a capsule.
const PART: u64 = 0x1000_0000;
/// What names of sections begin with: of code, and of all others. Behind it stands the plain name.
const CODE: &str = ".nv.capmerc";
const REST: &str = ".nv.merc";

/// `SHT_PROGBITS`.
const PROGBITS: u32 = 1;

/// Types of sections (from `SHT_LOPROC` on) in a capsule and in a plain file. Types of data are the same in both.
const KINDS: [(u32, u32); 9] = [
    (SHT_LOPROC + 0x16, PROGBITS),
    (SHT_LOPROC + 0x82, SHT_RELA),
    (SHT_LOPROC + 0x83, SHT_LOPROC),
    (SHT_LOPROC + 0x8a, SHT_LOPROC + 1),
    (SHT_LOPROC + 0x8b, SHT_LOPROC + 2),
    (SHT_LOPROC + 0x85, SHT_SYMTAB),
    (SHT_LOPROC + 0x88, SHT_RESOLVED),
    // Constants of users and of the compiler.
    (SHT_LOPROC + 0x7c, SHT_LOPROC + 0x67),
    (SHT_LOPROC + 0x84, SHT_LOPROC + 0x66),
];

/// The plain name of a section of a capsule.
fn plain_name(name: &str) -> Option<&str> {
    [CODE, REST].iter().find_map(|p| name.strip_prefix(p)).filter(|rest| rest.starts_with('.'))
}

/// The capsules of objects, as objects; none if one of them has no capsule.
///
/// # Errors
/// Where a capsule is damaged.
pub(crate) fn objects<'a>(plain: &[Object<'a>]) -> Result<Option<Vec<Object<'a>>>, Vec<Diagnostic>> {
    let has = |o: &Object| {
        let table = |s: &cubin::view::SectionView| s.name == ".nv.merc.symtab";
        o.view.flags & PLAIN == 0 && o.view.sections.iter().any(table)
    };
    if plain.is_empty() || !plain.iter().all(has) {
        return Ok(None);
    }
    plain.iter().map(object).collect::<Result<Option<Vec<_>>, _>>()
}

/// One of them; none if it holds a section of an unknown type.
fn object<'a>(plain: &Object<'a>) -> Result<Option<Object<'a>>, Vec<Diagnostic>> {
    let wrong =
        |d: Diagnostic| fatal(format!("Input file '{}' is damaged: {} (in its capsule)", plain.name, d.message));
    let mut view: View<'a> = plain.view.clone();
    let code: FxHashMap<&str, u32> =
        plain.view.sections.iter().zip(0..).filter_map(|(s, i)| Some((s.name.strip_prefix(CODE)?, i))).collect();
    for s in &mut view.sections {
        if let Some(name) = plain_name(s.name) {
            let data = [7, 8, 0xa, 0x11, 0x12, 0x14].map(|k| SHT_LOPROC + k);
            let known = KINDS.iter().find(|k| k.0 == s.kind).map(|k| k.1);
            let Some(kind) = known.or(Some(s.kind).filter(|k| *k == PROGBITS || data.contains(k))) else {
                return Ok(None);
            };
            (s.name, s.kind) = (name, kind);
            continue;
        }
        match role(s.kind, s.name) {
            // Shared variables of an entry belong to its code.
            Role::Shared if s.flags & 0x40 != 0 => {
                let owner = plain.view.sections.get(s.info as usize).and_then(|t| code.get(t.name));
                s.info = owner.copied().unwrap_or(0);
            }
            Role::Global | Role::Shared | Role::DebugShared | Role::Note | Role::Compat => {}
            Role::Table if s.kind != SHT_SYMTAB => {}
            // The capsule has its own.
            _ => (s.kind, s.data, s.size) = (0, &[], 0),
        }
    }
    let symbols = view.symbols().map_err(wrong)?;
    // Places in code are those of the form that the bytes stand for.
    for s in symbols.iter().filter(|s| s.kind == 2) {
        if let Some(section) = view.sections.get_mut(s.shndx as usize).filter(|t| role(t.kind, t.name) == Role::Text) {
            section.size = section.size.max(s.value.saturating_add(s.size));
        }
    }
    let mut object = Object { name: plain.name, system: plain.system, view, symbols, heads: Vec::new() };
    object.check_sections().map_err(wrong)?;
    object.find_heads();
    Ok(Some(object))
}

/// The world of capsules, linked.
pub(crate) struct Capsule<'a> {
    world: World<'a>,
    graph: Graph<'a>,
    addresses: Addresses,
}

/// What is known of it before sections have numbers.
pub(crate) struct Prepared<'a> {
    world: World<'a>,
    graph: Graph<'a>,
    fixed: Fixed,
    order: Order,
    /// Offsets of names.
    names: Vec<u32>,
    /// Relocations that stay, and resolved ones that are kept.
    left: Vec<Vec<Reloc>>,
    done: Vec<Vec<Reloc>>,
    patches: Vec<Patch>,
    /// By section: the one of the output.
    moved: Vec<SectionId>,
}

impl<'a> Capsule<'a> {
    /// Links the capsules of objects.
    pub fn link(objects: Vec<Object<'a>>, options: &'a Options) -> Result<Capsule<'a>, Vec<Diagnostic>> {
        let mut world = World::new(objects, options);
        world.capsule = true;
        merge::merge(&mut world)?;
        let graph = callgraph::resolve(&mut world)?;
        let places = shared::place(&mut world, &graph)?;
        let slots = match options.relocatable {
            true => Slots::default(),
            false => Slots::lay_out(&mut world, &graph, true),
        };
        Ok(Capsule { world, graph, addresses: Addresses { places, slots } })
    }

    /// Resolves relocations. None where a capsule holds what is not understood; the output then has no capsule, which is right too.
    pub fn prepare(self, plain: &World<'a>) -> Option<Prepared<'a>> {
        let Capsule { mut world, graph, addresses } = self;
        // Both worlds must have the same functions: their numbers are compared.
        let same = |f: &crate::world::Function, g: &crate::world::Function| {
            f.alive == g.alive && f.object == g.object && (f.symbol == NONE) == (g.symbol == NONE)
        };
        let all = world.functions.iter().zip(&plain.functions).all(|(f, g)| same(f, g));
        if !all || world.functions.len() != plain.functions.len() {
            return None;
        }
        let fixed = Fixed::of(&mut world);
        world.section(fixed.actions).dead = true;
        crate::write::drop_empty(&mut world);
        world.section(fixed.prototype).dead = !crate::info::has_prototypes(&world, &graph);
        let notes = [fixed.tkinfo, fixed.cuinfo];
        let last = [&[fixed.callgraph, fixed.prototype], &addresses.slots.banks[..]].concat();
        let order = Order::of(&mut world, &notes, &last);
        let resolved = reloc::resolve(&world, &addresses).ok()?;
        let patches = code::places(plain, &world, resolved.patches)?;
        let (left, done) = (resolved.left, resolved.done);
        Some(Prepared { world, graph, fixed, order, names: Vec::new(), left, done, patches, moved: Vec::new() })
    }
}

impl<'a> Prepared<'a> {
    /// Takes the names of symbols from those of the plain file, and adds what it does not have.
    pub fn names(&mut self, strings: &mut Strings, plain: &FxHashMap<String, u32>) {
        let names = self.order.list.iter().map(|l| l.name(&self.world));
        self.names = names.map(|n| plain.get(n).copied().unwrap_or_else(|| strings.once(n))).collect();
    }

    /// Fills its sections and puts them behind those of the plain file.
    pub fn add(&mut self, plain: &mut World<'a>, strings: &mut Strings) -> Vec<Patch> {
        let (world, fixed) = (&mut self.world, &self.fixed);
        let lists = crate::info::lists(world, &self.graph, &mut |text| strings.once(text));
        let left = std::mem::take(&mut self.left);
        crate::write::fill(world, &self.graph, fixed, left, lists);
        crate::write::keep_resolved(world, std::mem::take(&mut self.done));
        let sections = crate::write::number_sections(world, fixed);
        self.moved = vec![NONE; world.sections.len()];
        let mut patches = Vec::new();
        for &s in &sections {
            if !is_part(world, fixed, s) {
                continue;
            }
            let kind = kind(world, fixed, s);
            let from = &mut world.sections[s as usize];
            let text = from.class == class::TEXT;
            let prefix = if text { CODE } else { REST };
            let flags = if text { PART } else { from.flags | PART };
            let id = plain.make_section(Cow::Owned(format!("{prefix}{}", from.name)), class::CAPSULE, kind, flags);
            self.moved[s as usize] = id;
            // Bytes that the plain file has are not written twice.
            let twin = match from.class {
                class::INIT | class::CONSTANT if from.owner == NONE && from.name != VARIABLES => {
                    plain.section_of(&from.name, from.size)
                }
                _ => NONE,
            };
            let to = plain.section(id);
            (to.align, to.entsize, to.shares) = (from.align, from.entsize, twin);
            to.size = from.size;
            if twin == NONE {
                to.parts = std::mem::take(&mut from.parts);
            }
            if text {
                to.size = to.parts.iter().map(|p| p.offset + p.data.len() as u64).max().unwrap_or(0);
            }
        }
        let table = self.moved[fixed.symbols as usize];
        for &s in &sections {
            let (from, id) = (&world.sections[s as usize], self.moved[s as usize]);
            if id == NONE {
                continue;
            }
            let owner = self.moved.get(from.owner as usize).copied().unwrap_or(NONE);
            let to = plain.section(id);
            (to.owner, to.symbol) = (owner, 0);
            (to.link, to.symbol) = match from.class {
                _ if s == fixed.symbols => (NONE, self.order.locals as u32 + 1),
                class::TEXT => (table, world.symbols[world.functions[from.function as usize].symbol as usize].index),
                class::DEBUG | class::CONSTANT | class::INIT => (NONE, 0),
                _ => (table, 0),
            };
        }
        for p in std::mem::take(&mut self.patches) {
            let section = self.moved[p.section as usize];
            if section != NONE && plain.sections[section as usize].shares == NONE {
                patches.push(Patch { section, ..p });
            }
        }
        // The symbols' bytes follow when sections have numbers; their number is known.
        let size = (self.order.list.len() as u64 + 1) * 24;
        let symbols = plain.section(table);
        (symbols.size, symbols.parts) = (size, Vec::new());
        patches
    }

    /// What depends on the numbers of sections: the symbols, and the first word of each function's code, which is the number of its plain section.
    pub fn number(&mut self, plain: &mut World<'a>, fixed: &Fixed, patches: &mut Vec<Patch>) {
        plain.section(self.moved[self.fixed.symbols as usize]).link = fixed.strings;
        // Sections of the plain file by name; those of one name stand in the same order in both worlds.
        let mut by_name: FxHashMap<&str, Vec<u32>> = FxHashMap::default();
        for s in plain.sections.iter().rev().filter(|s| !s.dead && s.class != class::CAPSULE) {
            by_name.entry(&*s.name).or_default().push(s.index);
        }
        for (s, &id) in self.world.sections.iter_mut().zip(&self.moved).filter(|(s, _)| !s.dead) {
            s.index = match id {
                NONE => by_name.get_mut(&*s.name).and_then(Vec::pop).unwrap_or(0),
                id => plain.sections[id as usize].index,
            };
        }
        let bytes = self.order.table(&self.world, &self.names);
        let table = plain.section(self.moved[self.fixed.symbols as usize]);
        table.parts = vec![Part { offset: 0, data: Cow::Owned(bytes) }];
        for (f, g) in self.world.functions.iter().zip(&plain.functions) {
            let section = self.moved[f.text as usize];
            if let (true, Some(field)) = (section != NONE, Field::of(1)) {
                let value = plain.sections[g.text as usize].index as u64;
                patches.push(Patch { section, offset: 0, field, value, bank: 0, add: false });
            }
        }
    }
}

/// True for sections that a capsule has; others are those of the plain file.
fn is_part(world: &World, fixed: &Fixed, s: SectionId) -> bool {
    let has = [
        class::DEBUG,
        class::INFO,
        class::INFOS,
        class::CALLGRAPH,
        class::PROTOTYPE,
        class::RELOC,
        class::CONSTANT,
        class::TEXT,
        class::INIT,
    ];
    s == fixed.symbols || has.contains(&world.sections[s as usize].class)
}

/// The type of a section in a capsule.
fn kind(world: &World, fixed: &Fixed, s: SectionId) -> u32 {
    let section = &world.sections[s as usize];
    let plain = match section.class {
        _ if s == fixed.symbols => SHT_SYMTAB,
        class::TEXT => PROGBITS,
        class::INIT if section.name == VARIABLES => return section.kind,
        class::INIT => return SHT_LOPROC + 8,
        class::DEBUG => return section.kind,
        class::CONSTANT if section.kind == INDICES => return INDICES,
        class::CONSTANT => SHT_LOPROC + if section.owner == NONE { 0x67 } else { 0x66 },
        _ => section.kind,
    };
    KINDS.iter().find(|k| k.1 == plain).map_or(plain, |k| k.0)
}
