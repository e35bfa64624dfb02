//! Dense numbers of the registers that a function uses: what is kept of each is kept for a few dozen, not for all that there are. And which of them each
//! instruction reads and writes, found once for all who ask.

use crate::mir::operands::{Place, sass_defs, sass_uses};
use sass::inst::Inst;
use sass::reg::{File, Reg};

/// Numbers of physical registers: those of each file together, general ones first, uniform ones behind them.
pub struct Units {
    /// The number of the first register of each file, and how many numbers there are.
    base: [usize; FILES + 1],
    /// What the instructions read and write, one behind the other: number and slot.
    list: Vec<(u16, Option<u8>)>,
    /// By instruction: where what it reads begins, and what it writes; and where the last one ends.
    from: Vec<u32>,
}

const FILES: usize = File::Bar as usize + 1;
/// More than the registers of any file, with what a wide operand at its end may take in.
const SPAN: usize = 1024;

impl Units {
    /// For all registers that these instructions name.
    pub fn new<'a>(code: impl Iterator<Item = &'a Inst>) -> Units {
        let mut counts = [0; FILES];
        let mut list: Vec<(u16, Option<u8>)> = Vec::new();
        // With the file above the index until it is known how many there are of each.
        let mut note = |p: Place, list: &mut Vec<(u16, Option<u8>)>| {
            if !p.reg.is_const() {
                let (file, first) = (p.reg.file() as usize, p.reg.index() as usize);
                let end = first + p.width as usize;
                counts[file] = counts[file].max(end);
                list.extend((first..end).map(|r| ((file * SPAN + r) as u16, p.slot)));
            }
        };
        let mut from = vec![0];
        for s in code {
            sass_uses(s, |p| note(p, &mut list));
            from.push(list.len() as u32);
            sass_defs(s, |p| note(p, &mut list));
            from.push(list.len() as u32);
        }
        let mut base = [0; FILES + 1];
        (0..FILES).for_each(|f| base[f + 1] = base[f] + counts[f]);
        for (r, _) in &mut list {
            let (file, index) = (*r as usize / SPAN, *r as usize % SPAN);
            *r = (base[file] + index) as u16;
        }
        Units { base, list, from }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.base[FILES]
    }

    /// How many of general registers there are, which come first; with uniform ones where `uniform`.
    pub fn general(&self, uniform: bool) -> usize {
        self.base[if uniform { File::Ugpr as usize + 1 } else { File::Ugpr as usize }]
    }

    /// That of a register.
    pub fn of(&self, r: Reg) -> usize {
        self.base[r.file() as usize] + r.index() as usize
    }

    fn of_range(&self, at: usize) -> impl Iterator<Item = (usize, Option<u8>)> + '_ {
        let range = self.from[at] as usize..self.from[at + 1] as usize;
        self.list[range].iter().map(|&(u, slot)| (u.into(), slot))
    }

    /// The registers that the instruction of this number reads, each with the slot that reads it.
    pub fn reads(&self, inst: usize) -> impl Iterator<Item = (usize, Option<u8>)> + '_ {
        self.of_range(2 * inst)
    }

    /// The registers that the instruction of this number writes, each with the slot that writes it.
    pub fn writes(&self, inst: usize) -> impl Iterator<Item = (usize, Option<u8>)> + '_ {
        self.of_range(2 * inst + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sass::text::{NoLabels, parse_on};

    #[test]
    fn files_lie_behind_each_other() {
        let lines = ["LDG.E.64 R6, desc[UR4][R2.64]", "@!P1 IADD3 R3, R2, UR9, RZ"];
        let code = lines.map(|l| parse_on(l, 0, &NoLabels, Some(90)).unwrap());
        let units = Units::new(code.iter());
        // R0 to R7, UR0 to UR9, P0 and P1.
        assert_eq!((units.general(false), units.general(true), units.count()), (8, 18, 20));
        let mut read: Vec<usize> = units.reads(0).map(|r| r.0).collect();
        let written: Vec<usize> = units.writes(0).map(|w| w.0).collect();
        read.sort_unstable();
        assert_eq!((read, written), (vec![2, 3, 8 + 4, 8 + 5], vec![6, 7]));
        assert_eq!(units.of(Reg::p(1)), 19);
    }
}
