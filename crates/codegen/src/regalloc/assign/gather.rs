//! Vectors whose components lie apart where a loop begins.
//!
//! Each iteration would put them together, move what was in the way, and move everything back at its end. Where values lie when a loop begins may be
//! chosen: what is read as a vector inside is put together by the moves on the ways into the loop.

use super::wide::WIDE;
use super::{Assign, FREE, HELD};
use crate::mir::{Vreg, alignment};
use sass::reg::File;
use smallvec::SmallVec;

/// Vectors of so many registers are the sums of products.
const SUMS: usize = 8;

impl Assign<'_> {
    /// Chooses places for the vectors of general registers that lie apart where block `b` begins, if a loop does there: in windows that are free, or of values
    /// that stand alone, which take the places that become free.
    pub(super) fn gather(&mut self, b: usize) {
        let gpr = File::Gpr as usize;
        let index = |p: u32| self.cfg.rpo_index[p as usize];
        let header = self.cfg.preds[b].iter().any(|&p| index(p) >= index(b as u32));
        // Where registers differ by what they are kept for, others choose.
        let choosy = self.has_calls || self.spared.is_some() || !self.bounds.is_empty();
        // What wide vectors are made of is in place where ways meet, too: behind a loop that may not run at all a product would be waited for.
        let meets = !self.wide.is_empty() && self.cfg.preds[b].len() > 1;
        if !(header || meets) || choosy || self.banks[gpr].busy.is_some() {
            return;
        }
        let settled = !self.wide.is_empty() && self.settle(b);
        let apart = if header { self.apart(b) } else { Vec::new() };
        if apart.is_empty() {
            if settled {
                self.note(b);
            }
            return;
        }
        let mut whole = self.whole(gpr);
        let mut moved = settled;
        for vec in apart {
            let list = self.f.vecs[vec as usize].clone();
            let Some(base) = self.cheapest(&list, &whole) else { continue };
            moved = true;
            // What is in the way goes where the components were.
            let old: SmallVec<[usize; 4]> = list.iter().map(|v| self.loc[v.index()] as usize).collect();
            let range = base..base + list.len();
            let others: SmallVec<[u32; 4]> = range
                .clone()
                .map(|r| self.banks[gpr].occ[r])
                .filter(|&o| o != FREE && !list.contains(&Vreg(o)))
                .collect();
            old.iter().for_each(|&r| self.banks[gpr].put(r, FREE));
            let free: SmallVec<[usize; 4]> = old.into_iter().filter(|r| !range.contains(r)).collect();
            let placed = list.iter().copied().zip(range.clone());
            let placed = placed.chain(others.into_iter().map(Vreg).zip(free));
            for (v, r) in placed.collect::<SmallVec<[(Vreg, usize); 8]>>() {
                self.lay(v, r);
            }
            whole[range].fill(true);
        }
        if moved {
            self.note(b);
        }
    }

    /// Puts a value into a register, where those that should meet it go, too.
    fn lay(&mut self, v: Vreg, r: usize) {
        self.occupy(v, r);
        let rep = self.rep(v);
        self.web_reg[rep] = r as u8;
    }

    /// Says anew where everything is when block `b` begins.
    fn note(&mut self, b: usize) {
        self.entry_loc[b] = self.live.live_in[b].iter().map(|v| self.loc[v.index()]).collect();
        self.param_loc[b] = self.f.blocks[b].params.iter().map(|p| self.loc[p.index()]).collect();
    }

    /// Puts what belongs to wide vectors where it belongs when block `b` begins; what came there while nothing else wanted the place, and stands alone, takes
    /// the place of what comes. True if anything has moved.
    fn settle(&mut self, b: usize) -> bool {
        let gpr = File::Gpr as usize;
        let whole = self.whole(gpr);
        let mut wanted: SmallVec<[(Vreg, usize); 32]> = SmallVec::new();
        for &v in self.live.live_in[b].iter().chain(&self.f.blocks[b].params) {
            let (vec, nth) = self.vec_hint[v.index()];
            if let Some(w) = self.wide.iter().find(|w| w.vec == vec) {
                wanted.push((v, w.base + nth as usize));
            }
        }
        let mut moved = false;
        for n in 0..wanted.len() {
            let (v, home) = wanted[n];
            let bank = &self.banks[gpr];
            let from = self.loc[v.index()] as usize;
            let there = bank.occ[home];
            if from == home || bank.occ.get(from) != Some(&v.0) || !bank.usable[home] || there == HELD {
                continue;
            }
            let mut swaps = if whole[home] { self.instead(home, &wanted) } else { SmallVec::from_slice(&[(v, home)]) };
            if swaps.is_empty() && !wanted.iter().any(|w| w.0.0 == there) {
                self.make_way(home);
                swaps.push((v, home));
            }
            for (v, home) in swaps {
                moved = true;
                let from = self.loc[v.index()] as usize;
                let there = self.banks[gpr].occ[home];
                self.banks[gpr].put(from, FREE);
                let other = (there != FREE).then_some((Vreg(there), from));
                for (v, r) in [(v, home)].into_iter().chain(other) {
                    self.lay(v, r);
                }
            }
        }
        moved
    }

    /// The vector that register `home` is part of goes elsewhere as a whole, if there is room.
    fn make_way(&mut self, home: usize) {
        let gpr = File::Gpr as usize;
        let bank = &self.banks[gpr];
        let Some(&(vec, nth)) = self.vec_hint.get(bank.occ[home] as usize).filter(|h| h.0 != FREE) else { return };
        let list = self.f.vecs[vec as usize].clone();
        let (size, base) = (list.len(), home - nth as usize);
        let apart = |to: usize| self.wide.iter().all(|w| !w.begins || w.end <= to || to + size <= w.base);
        let end = bank.budget.min(bank.limit);
        let mut windows = (0..end).step_by(alignment(size)).filter(|to| to + size <= end);
        let Some(to) = windows.find(|&to| bank.window_free(to, size) && apart(to)) else { return };
        self.banks[gpr].fill(base..base + size, FREE);
        for (v, r) in list.iter().copied().zip(to..) {
            self.lay(v, r);
        }
    }

    /// What comes in place of the vector that register `home` is part of, if its places are all wanted by what lies where it may go as a whole.
    fn instead(&self, home: usize, wanted: &[(Vreg, usize)]) -> SmallVec<[(Vreg, usize); 4]> {
        let none = SmallVec::new();
        let bank = &self.banks[File::Gpr as usize];
        let Some(&(vec, nth)) = self.vec_hint.get(bank.occ[home] as usize).filter(|h| h.0 != FREE) else { return none };
        let size = self.f.vecs[vec as usize].len();
        let Some(base) = home.checked_sub(nth as usize).filter(|_| size < WIDE) else { return none };
        let comes = |r: usize| wanted.iter().find(|w| w.1 == r).map(|w| w.0);
        let list: SmallVec<[(Vreg, usize); 4]> = (base..base + size).filter_map(|r| Some((comes(r)?, r))).collect();
        let from = |n: usize| self.loc[list[n].0.index()] as usize;
        let fits = list.len() == size
            && from(0) % alignment(size) == 0
            && (0..size).all(|n| from(n) == from(0) + n && bank.occ[from(n)] == list[n].0.0);
        if fits { list } else { none }
    }

    /// Vectors all of whose components are there where block `b` begins, but not in place.
    fn apart(&self, b: usize) -> Vec<u32> {
        let bank = &self.banks[File::Gpr as usize];
        let there = |v: &Vreg| {
            let r = self.loc[v.index()] as usize;
            self.f.vregs[v.index()] == File::Gpr && bank.occ.get(r) == Some(&v.0)
        };
        let mut out = Vec::new();
        for v in self.live.live_in[b].iter().chain(&self.f.blocks[b].params).filter(|v| there(v)) {
            let (vec, nth) = self.vec_hint[v.index()];
            if vec == FREE || nth != 0 {
                continue;
            }
            let list = &self.f.vecs[vec as usize];
            let once = || list.iter().enumerate().all(|(k, v)| !list[..k].contains(v));
            if list[0] == *v && list.len() < WIDE && list.iter().all(there) && once() && !self.in_place(vec) {
                out.push(vec);
            }
        }
        out
    }

    /// The window where the fewest values would have to move, among the registers that are taken anyway.
    fn cheapest(&self, list: &[Vreg], whole: &[bool; 256]) -> Option<usize> {
        let bank = &self.banks[File::Gpr as usize];
        let cost = |base: usize| {
            let mut sum = 0;
            for (k, v) in list.iter().enumerate() {
                let (r, o) = (base + k, bank.occ[base + k]);
                if !bank.usable[r] || o != v.0 && (whole[r] || o == HELD || self.in_way(*v, r)) {
                    return None;
                }
                sum += if o == v.0 { 0 } else { 1 + usize::from(o != FREE && !list.contains(&Vreg(o))) };
            }
            Some(sum)
        };
        let best = |end: usize| {
            let windows = (0..end).step_by(alignment(list.len())).filter(|base| base + list.len() <= end);
            windows.filter_map(|base| Some((cost(base)?, base))).min().map(|x| x.1)
        };
        let within = best(bank.budget.min(bank.limit));
        // Sums that move in each iteration are worth more registers.
        within.or_else(|| best(bank.limit).filter(|_| list.len() >= SUMS))
    }
}

#[cfg(test)]
mod tests {
    use crate::mir::{Op, text};
    use crate::regalloc::{self, Tightness};

    /// Pairs are loaded in one order and read in another one in a loop: they are put together before it.
    #[test]
    fn pairs_are_put_together_before_a_loop() {
        let body = "blk0(): depth=0
    LDS.Size=5 Rd={%r0,%r1} Ra=RZ
    LDS.Size=5 Rd={%r2,%r3} Ra=RZ Imm=0x8
    MOV_R Rd=%r4
    br blk1(%r4)
blk1(%r5): depth=1
    LDG UR=UR4 Rd=%r6 Ra={%r0,%r2}
    LDG UR=UR4 Rd=%r7 Ra={%r1,%r3}
    STS Ra=RZ Rb=%r6
    STS Ra=RZ Rb=%r7
    IADD3_RIR Rd=%r8 Ra=%r5 Rb=1
    ISETP_RI.Cmp=1 Pu=%p9 Ra=%r8 Rb=9
    brif %p9, blk2(), blk3()
blk2(): depth=1
    br blk1(%r8)
blk3(): depth=0
    exit
";
        let text = format!("func k entry max=32 outgoing=0 fixed=0 size=0 align=8 {{\n{body}}}\n");
        let mut f = text::parse(&text).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        let names = |b: usize| -> Vec<&str> {
            let name = |i: &crate::mir::Inst| if let Op::Sass(s) = &i.op { s.form().mnemonic } else { "copy" };
            f.blocks[b].insts.iter().map(name).collect()
        };
        let inside: Vec<&str> = [names(1), names(2)].concat();
        assert_eq!(inside, ["LDG", "LDG", "STS", "STS", "IADD3", "ISETP"]);
        assert!(names(0).iter().filter(|n| **n == "MOV").count() >= 2, "{:?}", names(0));
    }

    /// Few sums, loaded in another order than that in which they lie side by side, are put together before a loop in which there are many others, too.
    #[test]
    fn few_sums_are_put_together_beside_many() {
        let list = |from: usize, n: usize| (from..from + n).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(",");
        let each = |n: std::ops::Range<usize>, what: &dyn Fn(usize) -> String| n.map(what).collect::<String>();
        let stored =
            |from: usize, n: usize| each(from..from + n, &|k| format!("    STS Ra=%r1 Rb=%r{k} Imm={:#x}\n", 4 * k));
        let text = format!(
            "func k entry max=96 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    LDC Rd=%r1 Const=c[0][528]\n{}{}{}    br blk1(%r1,{},{})\n\
             blk1(%r5,{},{}): depth=1\n    WARPGROUP.M79=1\n\
             \x20   HGMMA_RUR_OPEN.M53=7.M75=1 Rd={{{}}} URa={{%ur10,%ur11,%ur12,%ur13}} Rc={{{}}}\n\
             \x20   HGMMA_RUR_OPEN.M53=1.M75=1 Rd={{{}}} URa={{%ur10,%ur11,%ur12,%ur13}} Rc={{{}}}\n    HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n\
             \x20   IADD3_RIR Rd=%r8 Ra=%r5 Rb=1\n    ISETP_RI.Cmp=1 Pu=%p9 Ra=%r8 Rb=9\n    brif %p9, blk2(), blk3()\n\
             blk2(): depth=1\n    br blk1(%r8,{},{})\nblk3(): depth=0\n{}{}    exit\n}}\n",
            each(10..14, &|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n")),
            each(100..132, &|k| format!("    LDS Rd=%r{k} Ra=RZ Imm={:#x}\n", 4 * k)),
            each(0..4, &|k| format!("    LDS.Size=5 Rd={{%r{},%r{}}} Ra=%r1 Imm={:#x}\n", 40 + k, 44 + k, 8 * k)),
            list(100, 32),
            list(40, 8),
            list(200, 32),
            list(50, 8),
            list(300, 32),
            list(200, 32),
            list(60, 8),
            list(50, 8),
            list(300, 32),
            list(60, 8),
            stored(300, 32),
            stored(60, 8),
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Free).unwrap();
        let moves = |b: &crate::mir::Block| {
            b.insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == sass::forms::MOV_R)).count()
        };
        let moved: Vec<usize> = f.blocks.iter().map(moves).collect();
        assert!(moved[0] >= 6 && moved[1..] == [0, 0, 0], "{}", text::print(&f));
    }

    /// Sums of a loop's products are scaled on one of two ways, where the old ones are still read: on that way alone they move, to where the product
    /// adds to them.
    #[test]
    fn sums_are_in_place_where_ways_meet() {
        let each = |n: std::ops::Range<usize>, what: &dyn Fn(usize) -> String| n.map(what).collect::<String>();
        let list = |from: usize| (from..from + 32).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(",");
        let text = format!(
            "func k entry max=96 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    LDC Rd=%r1 Const=c[0][528]\n    LDC Rd=%r2 Const=c[0][532]\n\
             {}    ISETP_RI.Cmp=1 Pu=%p9 Ra=%r1 Rb=3\n    ISETP_RI.Cmp=1 Pu=%p8 Ra=%r2 Rb=3\n{}    br blk1({})\n\
             blk1({}): depth=1\n    LDS.Size=6 Rd={{%r20,%r21,%r22,%r23}} Ra=%r2\n    WARPGROUP.M79=1\n\
             \x20   HGMMA_RRUR_OPEN.M53=7.M75=1 Rd={{{}}} Ra={{%r20,%r21,%r22,%r23}} UR={{%ur10,%ur11,%ur12,%ur13}} Rc={{{}}}\n\
             \x20   HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n    brif %p9, blk2(), blk3()\n\
             blk2(): depth=1\n{}    br blk4({})\nblk3(): depth=1\n    br blk4({})\n\
             blk4({}): depth=1\n    brif %p8, blk5(), blk6()\nblk5(): depth=1\n    br blk1({})\nblk6(): depth=0\n{}    exit\n}}\n",
            each(10..14, &|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n")),
            each(100..132, &|k| format!("    LDS Rd=%r{k} Ra=RZ Imm={:#x}\n", 4 * k)),
            list(100),
            list(200),
            list(300),
            list(200),
            each(0..32, &|k| format!("    FMUL_RR Rd=%r{} Ra=%r{} Rb=%r1\n", 400 + k, 300 + k))
                + &each(300..332, &|k| format!("    STS Ra=%r2 Rb=%r{k} Imm={:#x}\n", 4 * k)),
            list(400),
            list(300),
            list(500),
            list(500),
            each(500..532, &|k| format!("    STS Ra=%r2 Rb=%r{k} Imm={:#x}\n", 4 * (k - 500))),
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        let moves = |b: &crate::mir::Block| {
            b.insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == sass::forms::MOV_R)).count()
        };
        let moved: Vec<usize> = f.blocks.iter().map(moves).collect();
        assert_eq!(moved[1..6], [0, 32, 0, 0, 0], "{}", text::print(&f));
    }

    /// Sums that begin with one zero, behind a loop that may not run at all: each meets its own, and nothing moves before the wait behind the loop.
    #[test]
    fn sums_that_begin_with_one_zero_are_in_place_behind_a_loop() {
        let each = |n: std::ops::Range<usize>, what: &dyn Fn(usize) -> String| n.map(what).collect::<String>();
        let list = |from: usize| (from..from + 32).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(",");
        let zeros = vec!["%r7"; 32].join(",");
        let text = format!(
            "func k entry max=96 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    LDC Rd=%r1 Const=c[0][528]\n    MOV_R Rd=%r7\n\
             {}    ISETP_RI.Cmp=1 Pu=%p9 Ra=%r1 Rb=3\n    brif %p9, blk1(), blk2()\nblk1(): depth=0\n    br blk6({zeros})\n\
             blk2(): depth=0\n    br blk3({zeros})\n\
             blk3({}): depth=1\n    WARPGROUP_I\n    WARPGROUP\n\
             \x20   HGMMA_RUR_OPEN.M53=7.M75=1 Rd={{{}}} URa={{%ur10,%ur11,%ur12,%ur13}} Rc={{{}}}\n\
             \x20   HGMMA_RUR Pp=!UPT\n    LDS Rd=%r3 Ra=RZ\n    ISETP_RI.Cmp=1 Pu=%p8 Ra=%r3 Rb=9\n    brif %p8, blk4(), blk5()\n\
             blk4(): depth=1\n    br blk3({})\nblk5(): depth=0\n    br blk6({})\n\
             blk6({}): depth=0\n    WARPGROUP_I\n{}    exit\n}}\n",
            each(10..14, &|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n")),
            list(200),
            list(300),
            list(200),
            list(300),
            list(300),
            list(500),
            each(500..532, &|k| format!("    STS Ra=%r1 Rb=%r{k} Imm={:#x}\n", 4 * (k - 500))),
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        let product = |i: &crate::mir::Inst| matches!(&i.op, Op::Sass(s) if s.form().mnemonic == "HGMMA");
        let from = f.blocks.iter().position(|b| b.insts.iter().any(product)).unwrap();
        let moves = |b: &crate::mir::Block| {
            b.insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == sass::forms::MOV_R)).count()
        };
        let behind: Vec<usize> = [from, from + 1, from + 2].map(|b| moves(&f.blocks[b])).to_vec();
        assert_eq!(behind, [0, 0, 0], "{}", text::print(&f));
        assert!(crate::sched::warpgroup::run(&mut f).is_empty());
    }
}
