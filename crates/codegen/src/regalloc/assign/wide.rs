//! Wide vectors, as the sums of a warpgroup's products: they keep their places, and what is in the way of them.

use super::{Assign, FREE, HELD};
use crate::bitset::BitSet;
use crate::mir::{Func, Inst, Vreg, alignment};
use sass::reg::File;

/// Vectors of so many registers keep their place through the whole function.
pub(super) const WIDE: usize = 16;

/// The lowest place that is given before others are: what all blocks need lies below.
const LOWEST: usize = 8;

/// The place of a wide vector.
pub(super) struct Wide {
    pub(super) vec: u32,
    pub(super) base: usize,
    pub(super) end: usize,
    /// Values that belong there live where the block at hand begins.
    pub(super) begins: bool,
    /// The instructions of the block at hand that make such values; numbers from 1.
    pub(super) makers: Vec<u32>,
    /// Blocks from which control comes to one where such values live.
    pub(super) ahead: BitSet,
}

impl Assign<'_> {
    /// The blocks where values live, or are made, that belong into `vec`, and block `also`.
    pub(super) fn home(&self, vec: u32, also: Option<u32>) -> BitSet {
        let (f, live, hint) = (&*self.f, self.live, &self.vec_hint);
        let mine = |v: &Vreg| hint[v.index()].0 == vec;
        let mut found = BitSet::new(f.blocks.len());
        for &b in &self.cfg.rpo {
            let block = &f.blocks[b as usize];
            let mut here = Some(b) == also;
            here |= live.live_in[b as usize].iter().chain(&live.live_out[b as usize]).chain(&block.params).any(mine);
            here |= block.insts.iter().any(|i| makes(f, i, mine));
            if here {
                found.insert(b as usize);
            }
        }
        found
    }

    /// As [`Assign::home`], of all these vectors.
    fn homes(&self, vecs: &[u32]) -> Vec<BitSet> {
        let (f, live) = (&*self.f, self.live);
        // By vector: its place in the list.
        let mut of = vec![FREE; f.vecs.len()];
        (0..).zip(vecs).for_each(|(n, &vec)| of[vec as usize] = n);
        let mut found = vec![BitSet::new(f.blocks.len()); vecs.len()];
        for &b in &self.cfg.rpo {
            let block = &f.blocks[b as usize];
            let mut here = |v: Vreg| {
                let vec = self.vec_hint[v.index()].0;
                if vec != FREE && of[vec as usize] != FREE {
                    found[of[vec as usize] as usize].insert(b as usize);
                }
            };
            live.live_in[b as usize].iter().chain(&live.live_out[b as usize]).for_each(|&v| here(v));
            block.params.iter().for_each(|&v| here(v));
            block.insts.iter().for_each(|i| f.defs(&i.op, &mut here));
        }
        found
    }

    /// The blocks from which control comes to one of these, those themselves too.
    pub(super) fn ahead(&self, home: BitSet) -> BitSet {
        let mut found = home;
        let mut work: Vec<u32> = self.cfg.rpo.iter().copied().filter(|&b| found.contains(b as usize)).collect();
        while let Some(b) = work.pop() {
            work.extend(self.cfg.preds[b as usize].iter().copied().filter(|&p| found.insert(p as usize)));
        }
        found
    }

    /// Registers that hold what comes into one of these blocks on a way that does not lead through the block at hand: what blocks done have
    /// left in them for later ones.
    pub(super) fn waiting(&self, home: &BitSet, file: usize) -> [bool; 256] {
        let mut read = vec![false; self.f.vregs.len()];
        for &b in self.cfg.rpo.iter().filter(|&&b| home.contains(b as usize)) {
            self.live.live_in[b as usize].iter().for_each(|v| read[v.index()] = true);
        }
        let mut out = [false; 256];
        let done = self.cfg.rpo_index[self.current as usize];
        for &b in &self.cfg.rpo[..done as usize] {
            let later = |s: u32| self.cfg.rpo_index[s as usize] > done;
            if !self.cfg.succs[b as usize].iter().any(|&s| later(s)) {
                continue;
            }
            for (&v, &r) in self.live.live_out[b as usize].iter().zip(&self.exit_loc[b as usize]) {
                out[r as usize] |= read[v.index()] && self.file(v) == file;
            }
        }
        out
    }

    /// Gives wide vectors their places before anything else has one, at the upper end of as many registers as values are alive at once:
    /// below, everything else finds its place. Where the function has calls or threads change the number of their registers, places are
    /// looked for when the first value wants one ([`Assign::window`]).
    pub(super) fn place_wide(&mut self) {
        if !self.bounds.is_empty() || self.has_calls || !self.f.entry {
            return;
        }
        let mut vecs: Vec<u32> = Vec::new();
        for (&(vec, _), &file) in self.vec_hint.iter().zip(&self.f.vregs) {
            if vec != FREE && file == File::Gpr && self.f.vecs[vec as usize].len() >= WIDE && !vecs.contains(&vec) {
                vecs.push(vec);
            }
        }
        if vecs.is_empty() {
            return;
        }
        let bank = &self.banks[File::Gpr as usize];
        let top = bank.budget.min(bank.limit);
        let mut homes: Vec<(BitSet, std::ops::Range<usize>)> = Vec::new();
        let found = self.homes(&vecs);
        for (vec, home) in vecs.into_iter().zip(found) {
            let size = self.f.vecs[vec as usize].len();
            let meets = |other: &BitSet| (0..self.f.blocks.len()).any(|b| other.contains(b) && home.contains(b));
            let met: Vec<_> = homes.iter().filter(|h| meets(&h.0)).map(|h| h.1.clone()).collect();
            let apart = |base: usize| met.iter().all(|m| m.end <= base || base + size <= m.start);
            let align = alignment(size);
            let bases = (LOWEST / align..).map(|n| n * align).take_while(|base| base + size <= top);
            let Some(base) = bases.filter(|&base| apart(base)).last() else { continue };
            self.vec_base[vec as usize] = base as u8;
            homes.push((home.clone(), base..base + size));
            let ahead = self.ahead(home);
            self.wide.push(Wide { vec, base, end: base + size, begins: false, makers: Vec::new(), ahead });
        }
    }

    /// Finds out from where on wide vectors have values in the block.
    pub(super) fn look_for_wide(&mut self, b: usize, insts: &[Inst]) {
        let (f, live, hint) = (&*self.f, self.live, &self.vec_hint);
        let block = &f.blocks[b];
        for w in &mut self.wide {
            let mine = |v: &Vreg| hint[v.index()].0 == w.vec;
            w.begins = live.live_in[b].iter().chain(&block.params).any(mine);
            w.makers.clear();
        }
        for (at, inst) in (1..).zip(insts) {
            f.defs(&inst.op, |v| {
                let vec = hint[v.index()].0;
                if vec == FREE {
                    return;
                }
                for w in self.wide.iter_mut().filter(|w| w.vec == vec && w.makers.last() != Some(&at)) {
                    w.makers.push(at);
                }
            });
        }
    }

    /// True if a value from the instruction at hand to `end` may not lie in a wide vector's place: values that belong there are made
    /// meanwhile, or some are alive where it lives on. (A free place of a vector that is alive in part is of no use to it: it is whole
    /// only after others have been made.)
    pub(super) fn near(&self, w: &Wide, end: u32) -> bool {
        let bank = &self.banks[File::Gpr as usize];
        let next = w.makers.get(w.makers.partition_point(|&m| m < bank.now));
        let mine = |r: usize| bank.occ[r] < HELD && self.vec_hint[bank.occ[r] as usize].0 == w.vec;
        next.is_some_and(|&m| m <= end) || w.begins && bank.now == 0 || end == u32::MAX && (w.base..w.end).any(mine)
    }

    /// As `near`; also where it would be in the way in a block that comes later.
    pub(super) fn meets(&self, w: &Wide, end: u32) -> bool {
        let ahead = || self.cfg.succs[self.current as usize].iter().any(|&s| w.ahead.contains(s as usize));
        self.near(w, end) || end == u32::MAX && ahead()
    }

    /// Where in the block at hand the last component of a vector is read last; `u32::MAX` where it lives on, or is made elsewhere, or
    /// is read by a product for longer than that.
    pub(super) fn vector_end(&self, vec: u32) -> u32 {
        if self.f.vecs[vec as usize].iter().any(|v| self.held.get(v.index()) == Some(&true)) {
            return u32::MAX;
        }
        let here = |v: &Vreg| self.made[v.index()].0 == self.current;
        let ends = self.f.vecs[vec as usize].iter().map(|v| if here(v) { self.end[v.index()] } else { u32::MAX });
        ends.max().unwrap_or(u32::MAX)
    }
}

/// True if the instruction writes one of these values.
fn makes(f: &Func, inst: &Inst, mine: impl Fn(&Vreg) -> bool) -> bool {
    let mut found = false;
    f.defs(&inst.op, |v| found |= mine(&v));
    found
}
