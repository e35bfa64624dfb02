//! References to textures, samplers and surfaces: each has a word in constant bank 0 of every entry, where the driver writes the
//! handle. A function may serve several entries, so the words lie at the same places in all of them, behind the longest list of
//! parameters. (Observed: nvlink 13.5 makes them like this, whether or not an entry uses them.)

use crate::world::{NONE, Place, SectionId, SymbolId, World, class};
use cubin::elf::{Reloc, SHT_REL};

/// `st_type` of a reference, and the relocation of its word.
const KINDS: [(u8, u32); 3] = [(10, 6), (11, 7), (12, 0x34)];
const WORD: u64 = 4;

/// The words of references.
#[derive(Clone, Default)]
pub(crate) struct Slots {
    /// References in the order of their words.
    references: Vec<SymbolId>,
    /// By symbol: the number of its word; NONE for others. Empty where there are no references.
    numbers: Vec<u32>,
    /// Where the words begin.
    base: u64,
    /// Sections of relocations of the words.
    relocs: Vec<SectionId>,
}

/// True for the type of a reference.
pub(crate) fn is_reference(kind: u8) -> bool {
    KINDS.iter().any(|k| k.0 == kind)
}

impl Slots {
    /// Gives every reference its word and makes bank 0 of every entry longer by all words.
    pub fn lay_out(world: &mut World) -> Slots {
        let wanted = |&&s: &&SymbolId| {
            let s = world.symbol(s);
            s.place == Place::Undefined && is_reference(s.kind)
        };
        let references: Vec<SymbolId> = world.globals.iter().filter(wanted).copied().collect();
        if references.is_empty() {
            return Slots::default();
        }
        let mut numbers = vec![NONE; world.symbols.len()];
        references.iter().zip(0..).for_each(|(&s, n)| numbers[s as usize] = n);
        let live = world.functions.iter().filter(|f| f.entry && f.alive && f.constant0 != NONE);
        let banks: Vec<(SectionId, SectionId)> = live.map(|f| (f.constant0, f.text)).collect();
        let longest = banks.iter().map(|b| world.sections[b.0 as usize].size).max().unwrap_or(0);
        let base = longest.next_multiple_of(WORD);
        let mut relocs = Vec::new();
        for (bank, _) in banks {
            let section = world.section(bank);
            section.size = base + references.len() as u64 * WORD;
            let name = format!(".rel{}", section.name);
            let id = world.make_section(name, class::RELOC, SHT_REL, 0);
            let out = world.section(id);
            (out.owner, out.align, out.entsize) = (bank, 8, 16);
            relocs.push(id);
        }
        Slots { references, numbers, base, relocs }
    }

    /// True if there are references.
    pub fn any(&self) -> bool {
        !self.references.is_empty()
    }

    /// The place of a reference's word in bank 0.
    pub fn address(&self, symbol: SymbolId) -> Option<u64> {
        let number = *self.numbers.get(symbol as usize).filter(|&&n| n != NONE)?;
        Some(self.base + number as u64 * WORD)
    }

    /// Adds the relocations of all words, by section of the output; symbols have their numbers.
    pub fn relocate(&self, world: &World, left: &mut [Vec<Reloc>]) {
        for &section in &self.relocs {
            for &s in self.references.iter().rev() {
                let symbol = world.symbol(s);
                let kind = KINDS.iter().find(|k| k.0 == symbol.kind).map_or(0, |k| k.1);
                let offset = self.address(s).unwrap_or(0);
                left[section as usize].push(Reloc { offset, kind, symbol: symbol.index, addend: 0 });
            }
        }
    }
}
