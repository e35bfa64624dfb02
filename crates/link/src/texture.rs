//! References to textures, samplers and surfaces: each has a word in constant bank 0 of every entry that reaches one of them,
//! where the driver writes the handle. A function may serve several entries, so the words lie at the same places in all of them,
//! behind the longest list of parameters of any entry. (Observed: nvlink 13.5 makes them like this.)

use crate::callgraph::Graph;
use crate::field::number;
use crate::shared::halved;
use crate::world::{FunctionId, Local, NONE, Part, Place, SectionId, SymbolId, World, class};
use cubin::elf::{Reloc, SHT_LOPROC, SHT_REL, SHT_RELA};
use std::borrow::Cow;

/// `st_type` of a reference (texture, sampler, surface), and the relocation of its word: in a plain file, beside a capsule, in a
/// capsule.
const KINDS: [(u8, [u32; 3]); 3] = [
    (10, [6, 6, number::CAPSULE + 0xb]),
    (11, [7, 0x65, number::CAPSULE + 0xc]),
    (12, [0x34, 0x34, number::CAPSULE + 0xd]),
];
const WORD: u64 = 4;
/// The words' alignment in a file with a capsule.
const EVEN: u64 = 16;
/// `sh_type` of the words of a capsule.
pub(crate) const INDICES: u32 = SHT_LOPROC + 0x79;
/// `sh_flags`: `sh_info` is the index of a section.
const INFO_LINK: u64 = 0x40;

/// The words of references.
#[derive(Clone, Default)]
pub(crate) struct Slots {
    /// References in the order of their words.
    references: Vec<SymbolId>,
    /// By symbol: the number of its word; NONE for others. Empty where there are no references.
    numbers: Vec<u32>,
    /// Where the words begin.
    base: u64,
    /// The sections with the words.
    pub banks: Vec<SectionId>,
    /// Sections of relocations of the words.
    relocs: Vec<SectionId>,
    /// The output has a capsule.
    has_capsule: bool,
}

/// True for the type of a reference.
pub(crate) fn is_reference(kind: u8) -> bool {
    KINDS.iter().any(|k| k.0 == kind)
}

/// By function: its code names a reference. Empty where there are no references.
pub(crate) fn users(world: &World) -> Vec<bool> {
    if !world.symbols.iter().any(|s| is_reference(s.kind)) {
        return Vec::new();
    }
    let mut out = vec![false; world.functions.len()];
    for &(object, section, id) in &world.reloc_sections {
        let function = world.sections[world.sections[id as usize].owner as usize].function;
        let o = &world.objects[object as usize];
        if let Some(uses) = out.get_mut(function as usize) {
            let mut relocs = o.view.sections[section as usize].relocs();
            *uses |= relocs.any(|r| o.symbols.get(r.symbol as usize).is_some_and(|s| is_reference(s.kind)));
        }
    }
    out
}

/// The section of a capsule with the words of an entry.
fn indices(world: &mut World, entry: FunctionId) -> SectionId {
    const ALLOCATED: u64 = 2;
    let name = format!(".nv.constant.entry_image_header_indices.{}", world.name_of(entry));
    let id = world.make_section(name, class::CONSTANT, INDICES, ALLOCATED | INFO_LINK);
    let owner = world.function(entry).text;
    let section = world.section(id);
    (section.align, section.owner) = (WORD, owner);
    id
}

/// References in the order of their words: surfaces, samplers and textures, of each kind as they were named, through the
/// vendor's sort, which takes all for equal. (Observed: links of up to 28 references of all kinds, on sm_75 to sm_90.)
fn in_order<T: Clone>(mut list: Vec<T>, kind: impl Fn(&T) -> u8) -> Vec<T> {
    list.sort_by_key(|r| std::cmp::Reverse(kind(r)));
    list.reverse();
    let mut sorted = halved(list, &|_| ());
    sorted.reverse();
    sorted
}

impl Slots {
    /// Gives every reference its word and makes bank 0 of every entry that reaches one longer by all words. In a capsule they have a section of their
    /// own for each entry; the plain code beside one has them at an even place. (Observed: nvlink 13.5 makes them like this.)
    pub fn lay_out(world: &mut World, graph: &Graph, has_capsule: bool) -> Slots {
        let wanted = |&&s: &&SymbolId| {
            let s = world.symbol(s);
            s.place == Place::Undefined && is_reference(s.kind)
        };
        // Those that are parameters of entries are their own symbols, and defined.
        let own = world.locals.iter().filter_map(|l| if let Local::Symbol(s) = l { Some(*s) } else { None });
        let own = own.filter(|&s| is_reference(world.symbol(s).kind) && world.symbol(s).place != Place::Undefined);
        let found: Vec<SymbolId> = own.chain(world.globals.iter().filter(wanted).copied()).collect();
        if found.is_empty() {
            return Slots::default();
        }
        let references = in_order(found, |&s| world.symbol(s).kind);
        let mut numbers = vec![NONE; world.symbols.len()];
        references.iter().zip(0..).for_each(|(&s, n)| numbers[s as usize] = n);
        let live = |&f: &FunctionId| world.function(f).entry && world.function(f).alive;
        let entries: Vec<FunctionId> = (0..world.functions.len() as u32).filter(live).collect();
        let sizes = entries.iter().filter_map(|&f| world.sections.get(world.function(f).constant0 as usize));
        let longest = sizes.map(|s| s.size).max().unwrap_or(0);
        let users = entries.into_iter().filter(|&f| graph.needs[f as usize].references);
        let banks: Vec<SectionId> = match world.capsule {
            true => users.collect::<Vec<_>>().into_iter().map(|f| indices(world, f)).collect(),
            false => users.map(|f| world.function(f).constant0).filter(|&b| b != NONE).collect(),
        };
        let base = longest.next_multiple_of(if has_capsule { EVEN } else { WORD });
        let mut relocs = Vec::new();
        let (prefix, kind, entsize) = if has_capsule { (".rela", SHT_RELA, 24) } else { (".rel", SHT_REL, 16) };
        for &bank in &banks {
            let capsule = world.capsule;
            let section = world.section(bank);
            section.size = base + references.len() as u64 * WORD;
            if capsule {
                section.parts = vec![Part { offset: 0, data: Cow::Owned(vec![0; section.size as usize]) }];
            }
            let name = format!("{prefix}{}", section.name);
            let id = world.make_section(name, class::RELOC, kind, if has_capsule { INFO_LINK } else { 0 });
            let out = world.section(id);
            (out.owner, out.align, out.entsize) = (bank, 8, entsize);
            relocs.push(id);
        }
        Slots { references, numbers, base, banks, relocs, has_capsule }
    }

    /// The place of a reference's word in bank 0.
    pub fn address(&self, symbol: SymbolId) -> Option<u64> {
        let number = *self.numbers.get(symbol as usize).filter(|&&n| n != NONE)?;
        Some(self.base + number as u64 * WORD)
    }

    /// Adds the relocations of all words, by section of the output; symbols have their numbers.
    pub fn relocate(&self, world: &World, left: &mut [Vec<Reloc>]) {
        let form = if world.capsule { 2 } else { self.has_capsule as usize };
        for &section in &self.relocs {
            let bank = world.sections[section as usize].owner;
            let text = world.sections[bank as usize].owner;
            for &s in self.references.iter().rev() {
                let symbol = world.symbol(s);
                if matches!(symbol.place, Place::Section(of) if of != text) {
                    continue;
                }
                let kind = KINDS.iter().find(|k| k.0 == symbol.kind).map_or(0, |k| k.1[form]);
                let offset = self.address(s).unwrap_or(0);
                left[section as usize].push(Reloc { offset, kind, symbol: symbol.index, addend: 0 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::in_order;

    /// Orders that nvlink 13.5 gave to words.
    #[test]
    fn words_stand_as_the_vendor_has_them() {
        let textures = |n: usize| in_order((0..n).collect(), |_| 10);
        assert_eq!(textures(2), [1, 0]);
        assert_eq!(textures(12), [1, 9, 5, 3, 11, 7, 0, 8, 4, 2, 10, 6]);
        let mixed = in_order(vec![("x0", 10), ("c1", 10), ("z10", 12), ("a20", 12), ("a21", 11)], |r| r.1);
        assert_eq!(mixed.iter().map(|r| r.0).collect::<Vec<_>>(), ["c1", "z10", "a21", "a20", "x0"]);
    }
}
