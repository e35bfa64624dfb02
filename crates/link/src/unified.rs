//! Unified functions and variables (`.attribute(.unified(..))`), which have one address on all GPUs: a function has a stub in a section of its own
//! (`.nv.uft.rel.F`), variables lie in `.nv.udt`, and each has an entry with its number, its place and its identifier. An executable needs an index
//! file that gives them their places; a file that links again keeps everything. (Observed: nvlink 13.5 does so.)

use crate::object::{Role, role};
use crate::world::{NONE, Part, SectionId, World};
use std::borrow::Cow;

/// What names of sections with stubs begin with, and the size of one.
pub(crate) const STUB: (&str, u64) = (".nv.uft.rel.", 0x80);
/// The section of variables.
pub(crate) const VARIABLES: &str = ".nv.udt";
const VARIABLE_ENTRIES: &str = ".nv.udt.entry";

/// Bytes of an entry: number of the symbol, flags, place among the variables, identifier.
pub(crate) const ENTRY: usize = 32;
/// What is added to the flags of an entry that was linked.
const LINKED: u32 = 6;

/// The entries of an object.
pub(crate) struct Entries<'a> {
    pub object: u32,
    /// The section of the output.
    pub section: SectionId,
    pub data: &'a [u8],
}

/// Fills the sections of entries. Symbols have their numbers.
pub(crate) fn fill(world: &mut World) {
    let mut at: Vec<(SectionId, Vec<u8>)> = Vec::new();
    for e in &world.unified {
        let o = &world.objects[e.object as usize];
        // Places of variables count from where the object's lie now.
        let variables = match world.sections[e.section as usize].name == VARIABLE_ENTRIES {
            true => o.view.sections.iter().position(|s| role(s.kind, s.name) == Role::Unified),
            false => None,
        };
        let shift = variables.map_or(0, |v| world.maps[e.object as usize].sections[v].1);
        if at.iter().all(|a| a.0 != e.section) {
            at.push((e.section, Vec::new()));
        }
        let Some((_, out)) = at.iter_mut().find(|a| a.0 == e.section) else { continue };
        for entry in e.data.chunks_exact(ENTRY) {
            let word = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
            let place = (word(8) as u64 | (word(12) as u64) << 32).wrapping_add(shift);
            out.extend(crate::info::renumbered(world, e.object, word(0)).to_le_bytes());
            out.extend((word(4) | LINKED).to_le_bytes());
            out.extend(place.to_le_bytes());
            out.extend(&entry[16..]);
        }
    }
    for (section, data) in at {
        let out = world.section(section);
        (out.size, out.align, out.entsize) = (data.len() as u64, 8, ENTRY as u64);
        out.parts = vec![Part { offset: 0, data: Cow::Owned(data) }];
    }
}

/// The name that an entry of an object speaks of.
pub(crate) fn name<'a>(world: &World<'a>, object: u32, data: &[u8]) -> &'a str {
    let number = data.first_chunk().map_or(NONE, |b: &[u8; 4]| u32::from_le_bytes(*b));
    world.objects[object as usize].symbols.get(number as usize).map_or("", |s| s.name)
}
