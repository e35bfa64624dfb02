//! Dense numbers of the registers that a function uses: what is kept of each is kept for a few dozen, not for all that there are.

use crate::mir::operands::{Place, sass_defs, sass_uses};
use sass::inst::Inst;
use sass::reg::{File, Reg};

/// Numbers of physical registers: those of each file together, general ones first, uniform ones behind them.
pub struct Units {
    /// The number of the first register of each file, and how many numbers there are.
    base: [usize; FILES + 1],
}

const FILES: usize = File::Bar as usize + 1;

impl Units {
    /// For all registers that these instructions name.
    pub fn new<'a>(code: impl Iterator<Item = &'a Inst>) -> Units {
        let mut counts = [0; FILES];
        let mut count = |p: Place| {
            if !p.reg.is_const() {
                let n = &mut counts[p.reg.file() as usize];
                *n = (*n).max(p.reg.index() as usize + p.width as usize);
            }
        };
        for s in code {
            sass_uses(s, &mut count);
            sass_defs(s, &mut count);
        }
        let mut base = [0; FILES + 1];
        (0..FILES).for_each(|f| base[f + 1] = base[f] + counts[f]);
        Units { base }
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

    fn each(&self, p: Place, f: &mut impl FnMut(usize, Option<u8>)) {
        if !p.reg.is_const() {
            let first = self.of(p.reg);
            (first..first + p.width as usize).for_each(|u| f(u, p.slot));
        }
    }

    /// Calls `f` with each register that is read, and the slot that reads it.
    pub fn reads(&self, inst: &Inst, mut f: impl FnMut(usize, Option<u8>)) {
        sass_uses(inst, |p| self.each(p, &mut f));
    }

    /// Calls `f` with each register that is written, and the slot that writes it.
    pub fn writes(&self, inst: &Inst, mut f: impl FnMut(usize, Option<u8>)) {
        sass_defs(inst, |p| self.each(p, &mut f));
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
        let (mut read, mut written) = (Vec::new(), Vec::new());
        units.reads(&code[0], |u, _| read.push(u));
        units.writes(&code[0], |u, _| written.push(u));
        read.sort_unstable();
        assert_eq!((read, written), (vec![2, 3, 8 + 4, 8 + 5], vec![6, 7]));
        assert_eq!(units.of(Reg::p(1)), 19);
    }
}
