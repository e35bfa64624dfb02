//! Copies that stand for vectors whose components lie apart, for one instruction.
//!
//! Where a block's way goes on in a block that takes its places from another one (the side of a branch that is not looked at first, the end of
//! a loop), what is moved to put a vector together is moved back at its end. There the components stay, and copies of those that lie wrong are
//! read: the approximate sine of a large angle stores seven words that wait through a whole kernel, at each call of it.

use super::{Assign, HELD};
use crate::mir::{Vreg, alignment};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// A vector, where its copy begins, and which registers were taken for it.
pub(super) type StandIn = (u32, usize, SmallVec<[usize; 4]>);

impl Assign<'_> {
    /// Does every block behind this one take the places of values from another?
    pub(super) fn given_up(&self, b: u32) -> bool {
        let succs = &self.cfg.succs[b as usize];
        !succs.is_empty() && succs.iter().all(|&s| self.source(s) != Some(b))
    }

    /// Copies what lies wrong of these vectors, if all that are not in place live on behind the block and there is room: the vectors with their
    /// copies, until [`Self::stand_down`].
    pub(super) fn stand_in(&mut self, vecs: &[u32], loc: u32) -> Option<SmallVec<[StandIn; 2]>> {
        let mut out: SmallVec<[StandIn; 2]> = SmallVec::new();
        let mut pairs: SmallVec<[(Reg, Reg); 8]> = SmallVec::new();
        for (n, &vec) in vecs.iter().enumerate() {
            if self.in_place(vec) || vecs[..n].contains(&vec) {
                continue;
            }
            let Some(base) = self.room_beside(vec) else {
                out.iter().for_each(|s| self.free_again(&s.2));
                return None;
            };
            let list = self.f.vecs[vec as usize].clone();
            let mut taken = SmallVec::new();
            for (k, v) in list.iter().enumerate() {
                let (from, to) = (self.loc[v.index()] as usize, base + k);
                if from != to {
                    self.banks[File::Gpr as usize].put(to, HELD);
                    pairs.push((Reg::r(to as u8), Reg::r(from as u8)));
                    taken.push(to);
                }
            }
            out.push((vec, base, taken));
        }
        self.moves(&pairs, loc);
        Some(out)
    }

    /// Frees the copies' registers.
    pub(super) fn stand_down(&mut self, list: &[StandIn]) {
        list.iter().for_each(|s| self.free_again(&s.2));
    }

    fn free_again(&mut self, taken: &[usize]) {
        taken.iter().for_each(|&r| self.banks[File::Gpr as usize].put(r, super::FREE));
    }

    /// A window for the vector with as many components in place as possible, and registers that are free for the others; nothing for one of which
    /// something ends in this block.
    fn room_beside(&self, vec: u32) -> Option<usize> {
        let list = &self.f.vecs[vec as usize];
        let lives = |v: &Vreg| self.f.vregs[v.index()] == File::Gpr && self.end[v.index()] == u32::MAX;
        if !list.iter().all(lives) {
            return None;
        }
        let bank = &self.banks[File::Gpr as usize];
        let cost = |base: usize| {
            let mut moves = 0;
            for (k, v) in list.iter().enumerate() {
                let r = base + k;
                if self.loc[v.index()] as usize == r {
                    continue;
                }
                let other = self.kept(File::Gpr as usize, r, vec as usize);
                if !bank.free(r)
                    || !bank.rested(r)
                    || !bank.idle(r)
                    || other
                    || self.wide.iter().any(|w| (w.base..w.end).contains(&r))
                {
                    return None;
                }
                moves += 1;
            }
            Some(moves)
        };
        let end = bank.block.max(bank.budget).min(bank.limit);
        let windows = (0..end).step_by(alignment(list.len())).filter(|base| base + list.len() <= end);
        windows.filter_map(|base| Some((cost(base)?, base))).min().map(|x| x.1)
    }
}

#[cfg(test)]
mod tests {
    use crate::mir::{Op, text};
    use crate::regalloc::{self, Tightness};

    /// Two words that wait apart are read as a pair on one side of a branch: one is copied there, and nothing is moved back.
    #[test]
    fn what_lies_apart_is_copied_on_a_side() {
        let body = "blk0(): depth=0
    LDS.Size=5 Rd={%r0,%r1} Ra=RZ
    LDS.Size=5 Rd={%r2,%r3} Ra=RZ
    LDS Rd=%r4 Ra=RZ Imm=0x20
    ISETP_RR.Cmp=1 Pu=%p5 Pv=PT Ra=%r4 Rb=RZ Pp=PT
    brif %p5, blk2(), blk1()
blk1(): depth=0
    STS.Size=5 Ra=RZ Rb={%r1,%r2} Imm=0x40
    br blk3()
blk2(): depth=0
    STS Ra=RZ Rb=%r4 Imm=0x50
    br blk3()
blk3(): depth=0
    STS.Size=5 Ra=RZ Rb={%r0,%r1} Imm=0x60
    STS.Size=5 Ra=RZ Rb={%r2,%r3} Imm=0x68
    exit
";
        let head = "func k entry max=24 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Free).unwrap();
        let moves: Vec<usize> = f.blocks.iter().map(|b| b.insts.iter().filter(|i| is_move(&i.op)).count()).collect();
        assert_eq!(moves, [0, 2, 0, 0]);
    }

    fn is_move(op: &Op) -> bool {
        matches!(op, Op::Sass(s) if s.form == sass::forms::MOV_R)
    }
}
