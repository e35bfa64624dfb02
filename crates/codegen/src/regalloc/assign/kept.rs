//! Places of what products of warpgroups read across edges.
//!
//! A parameter that only [`Op::Hold`] reads ([`crate::sched::holds`]) stands for what a product reads that was issued before its block. What it is does not
//! matter, only that nothing else is put where that lies: so it lies there itself where that is known, and where a loop is entered it chooses the place, in
//! which the loop then puts what its product reads.

use super::wide::WIDE;
use super::{Assign, FREE, HELD, NOWHERE};
use crate::bitset::BitSet;
use crate::groups::Groups;
use crate::mir::{Func, Op, Vreg, alignment};
use sass::reg::File;
use std::rc::Rc;

/// By value: nothing but [`Op::Hold`] reads it, in its own block or beyond edges. What it is does not matter, only where it is.
pub(super) fn idle(f: &Func) -> Vec<bool> {
    if !f.blocks.iter().flat_map(|b| &b.insts).any(|i| matches!(&i.op, Op::Hold { ends, .. } if !ends.is_empty())) {
        return Vec::new();
    }
    let mut read = vec![false; f.vregs.len()];
    let mut todo = Vec::new();
    let mut note = |v: Vreg, todo: &mut Vec<Vreg>| {
        if !std::mem::replace(&mut read[v.index()], true) {
            todo.push(v);
        }
    };
    let mut args: Vec<(u32, u32)> = Vec::new();
    for block in &f.blocks {
        for inst in block.insts.iter().filter(|i| !matches!(i.op, Op::Hold { .. })) {
            f.uses(&inst.op, |v| note(v, &mut todo));
        }
        f.term_uses(&block.term, |v| note(v, &mut todo));
        for e in block.term.edges() {
            args.extend(f.blocks[e.block.0 as usize].params.iter().zip(&e.args).map(|(p, a)| (p.0, a.0)));
        }
    }
    let args = Groups::new(f.vregs.len(), &args);
    while let Some(p) = todo.pop() {
        args.of(p.0).iter().for_each(|&a| note(Vreg(a), &mut todo));
    }
    read.iter_mut().for_each(|r| *r = !*r);
    read
}

/// By value: a product reads it, nothing beyond the block that makes it does, and only what is [`idle`] stands for it there; or it is idle itself. Empty where
/// nothing is.
pub(super) fn flown(f: &Func, held: &[bool], idle: &[bool]) -> Vec<bool> {
    if idle.is_empty() {
        return Vec::new();
    }
    let mut made = vec![u32::MAX; f.vregs.len()];
    for (b, block) in (0..).zip(&f.blocks) {
        block.insts.iter().for_each(|i| f.defs(&i.op, |v| made[v.index()] = b));
    }
    let mut out: Vec<bool> = (0..f.vregs.len()).map(|v| held.get(v) == Some(&true)).collect();
    for (b, block) in (0..).zip(&f.blocks) {
        for inst in block.insts.iter().filter(|i| !matches!(i.op, Op::Hold { .. })) {
            f.uses(&inst.op, |v| out[v.index()] &= made[v.index()] == b);
        }
        f.term_uses(&block.term, |v| out[v.index()] = false);
        for e in block.term.edges() {
            let params = &f.blocks[e.block.0 as usize].params;
            params.iter().zip(&e.args).for_each(|(p, a)| out[a.index()] &= idle[p.index()]);
        }
    }
    out.iter_mut().zip(idle).for_each(|(o, i)| *o |= i);
    out
}

/// A place that a loop keeps.
pub(super) struct Kept {
    /// Its blocks.
    inside: Rc<BitSet>,
    vec: u32,
    base: usize,
}

impl Assign<'_> {
    /// What a product reads until the next iteration lies where that one leaves it alone: in the places of the parameters that stand for it. Others may be
    /// there meanwhile, but not for longer.
    pub(super) fn keep_places(&mut self, b: u32) {
        let gpr = File::Gpr as usize;
        if self.idle.is_empty() {
            return;
        }
        let mut members: Option<Rc<BitSet>> = None;
        for n in 0..self.f.blocks[b as usize].params.len() {
            let p = self.f.blocks[b as usize].params[n];
            let (vec, nth) = self.vec_hint[p.index()];
            if !self.idle[p.index()] || vec == FREE || nth != 0 {
                continue;
            }
            let (size, base) = (self.f.vecs[vec as usize].len(), self.loc[p.index()] as usize);
            let fits = size < WIDE && base.is_multiple_of(alignment(size)) && base + size <= self.banks[gpr].limit;
            if !fits {
                continue;
            }
            let inside = members.get_or_insert_with(|| Rc::new(self.loop_at(b))).clone();
            self.vec_base[vec as usize] = base as u8;
            // Where the loop was entered they may have lain elsewhere; what it makes goes here.
            for (k, v) in self.f.vecs[vec as usize].clone().into_iter().enumerate() {
                let rep = self.rep(v);
                self.web_reg[rep] = (base + k) as u8;
            }
            self.kept.push(Kept { inside, vec, base });
        }
        for place in &self.kept {
            let size = self.f.vecs[place.vec as usize].len();
            let first = self.f.vecs[place.vec as usize][0];
            if place.inside.contains(b as usize) && self.loc[first.index()] == NOWHERE {
                self.promised.push((gpr, place.vec, place.base, size));
                let kept = &mut self.banks[gpr].kept;
                (place.base..place.base + size).for_each(|r| kept[r / 64] |= 1 << (r % 64));
            }
        }
    }

    /// Chooses where parameter `n` of block `b` lies, of which only that matters: where what it stands for lies on a way on which that is under way, or
    /// where that will lie.
    pub(super) fn place_flown(&mut self, b: u32, n: usize, p: Vreg) {
        let gpr = File::Gpr as usize;
        if let Some(r) = self.flown(b, n).filter(|&r| self.banks[gpr].free(r as usize)) {
            return self.occupy(p, r as usize);
        }
        let (vec, nth) = self.vec_hint[p.index()];
        if vec != FREE && self.f.vecs[vec as usize].len() < WIDE {
            let size = self.f.vecs[vec as usize].len();
            let base = self.vec_base[vec as usize];
            let mine = |r: usize, k: usize| {
                let o = self.banks[gpr].occ[r & 255];
                self.banks[gpr].free(r) || o < HELD && self.vec_hint[o as usize] == (vec, k as u8)
            };
            // A place from a way that goes by where sums are made is none where they are.
            let summed = || {
                let (from, to) = (base as usize, base as usize + size);
                self.wide.iter().any(|w| w.base < to && from < w.end && self.meets(w, u32::MAX))
            };
            if base != NOWHERE && (!(0..size).all(|k| mine(base as usize + k, k)) || nth == 0 && summed()) {
                self.vec_base[vec as usize] = NOWHERE;
                self.promised.retain(|x| x.1 != vec);
            }
            let home = self.window(gpr, vec as usize, size).map(|base| base + nth as usize);
            if let Some(r) = home.filter(|&r| self.banks[gpr].free(r)) {
                return self.occupy(p, r);
            }
        }
        self.place_new(p);
    }

    /// True if something is under way, by what the parameters of block `b` stand for, on the way from block `p`.
    pub(super) fn brings(&self, p: u32, b: u32) -> bool {
        let idle = |v: &Vreg| self.idle.get(v.index()) == Some(&true);
        let params = &self.f.blocks[b as usize].params;
        !self.idle.is_empty()
            && self.f.blocks[p as usize]
                .term
                .edges()
                .iter()
                .filter(|e| e.block.0 == b)
                .any(|e| params.iter().zip(&e.args).any(|(p, a)| idle(p) && !idle(a)))
    }

    /// Where what parameter `n` of a block stands for lies on a way on which it is under way.
    fn flown(&self, b: u32, n: usize) -> Option<u8> {
        let idle = |v: &Vreg| self.idle.get(v.index()) == Some(&true);
        let done = self.cfg.preds[b as usize].iter().map(|&p| p as usize).filter(|&p| !self.arg_loc[p].is_empty());
        done.filter_map(|p| {
            let nth = self.f.blocks[p].term.edges().iter().position(|e| e.block.0 == b)?;
            let arg = self.f.blocks[p].term.edges()[nth].args.get(n).copied()?;
            self.arg_loc[p].get(nth)?.get(n).copied().filter(|_| !idle(&arg))
        })
        .next()
    }

    /// The place that a loop keeps for a vector that lies elsewhere, if nothing under way is there.
    pub(super) fn away(&self, vec: u32) -> Option<usize> {
        let first = *self.f.vecs[vec as usize].first()?;
        let (hint, nth) = self.vec_hint[first.index()];
        let place = self.kept.iter().find(|k| k.vec == hint && nth == 0)?;
        let size = self.f.vecs[vec as usize].len();
        let bank = &self.banks[File::Gpr as usize];
        let there = (place.base..place.base + size).all(|r| bank.idle(r) && bank.occ[r & 255] != HELD);
        let home =
            self.f.vecs[vec as usize].iter().enumerate().all(|(k, v)| self.loc[v.index()] as usize == place.base + k);
        (!home && there).then_some(place.base)
    }

    /// The register that a loop keeps for a value, if it is free.
    pub(super) fn kept_for(&self, v: Vreg) -> Option<usize> {
        let (vec, nth) = *self.vec_hint.get(v.index())?;
        let place = self.kept.iter().find(|k| k.vec == vec)?;
        let home = place.base + nth as usize;
        let bank = &self.banks[File::Gpr as usize];
        (bank.free(home) && bank.idle(home)).then_some(home)
    }

    /// The blocks of the loop that begins with block `b`, or that block alone.
    fn loop_at(&self, b: u32) -> BitSet {
        let loops = self.cfg.loops(&self.cfg.dominators());
        let members = loops.members.into_iter().find(|l| l.0 == b).map(|l| l.1);
        let mut out = BitSet::new(self.f.blocks.len());
        members.unwrap_or_else(|| vec![b]).into_iter().for_each(|b| {
            out.insert(b as usize);
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use crate::mir::{Op, text};
    use crate::regalloc::{self, Tightness};
    use crate::sched::{holds, warpgroup};

    /// A loop makes A, and `others` values more, before it waits for the product of the iteration before; so many registers there are.
    fn waits(others: usize, max: u32, held: bool) -> (usize, usize) {
        let uniform: String = (110..114).map(|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n")).collect();
        let a: String = (100..104).map(|k| format!("    IADD3_RIR Rd=%r{k} Ra=%r2 Rb={k}\n")).collect();
        let more: String = (200..200 + others).map(|k| format!("    IADD3_RIR Rd=%r{k} Ra=%r2 Rb={k}\n")).collect();
        let stored: String = (200..200 + others).map(|k| format!("    STG.Size=4 Ra=RZ Rb=%r{k} URc=UR4\n")).collect();
        let zeros: String = (140..144).map(|k| format!("    MOV_I Rd=%r{k} Rb=0\n")).collect();
        let sums: String = (120..124).map(|k| format!("    STG.Size=4 Ra=RZ Rb=%r{k} URc=UR4\n")).collect();
        let t = format!(
            "func k entry max={max} outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{uniform}{zeros}    MOV_R Rd=%r1\n    br blk1(%r1, %r140, %r141, %r142, %r143)\n\
             blk1(%r2, %r130, %r131, %r132, %r133): depth=1\n{a}{more}{stored}    WARPGROUP_I\n    WARPGROUP\n    HGMMA_RRUR_OPEN.M75=1 Rd={{%r120,%r121,%r122,%r123}} \
             Ra={{%r100,%r101,%r102,%r103}} UR={{%ur110,%ur111,%ur112,%ur113}} Rc={{%r130,%r131,%r132,%r133}}\n    HGMMA_RUR Pp=!UPT\n    IADD3_RIR Rd=%r3 Ra=%r2 Rb=1\n\
             \x20   ISETP_RI.Cmp=1 Pu=%p4 Ra=%r3 Rb=9\n    brif %p4, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r3, %r120, %r121, %r122, %r123)\n\
             blk3(): depth=0\n    WARPGROUP_I\n{sums}    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        if held {
            holds::run(&mut f);
        }
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        let kept = f.blocks.iter().flat_map(|b| &b.insts).any(|i| matches!(i.op, Op::Hold { .. }));
        assert!(!kept);
        let stack = |i: &&crate::mir::Inst| matches!(&i.op, Op::Sass(s) if matches!(s.form().mnemonic, "LDL" | "STL"));
        let spilled = f.blocks.iter().flat_map(|b| &b.insts).filter(stack).count();
        (warpgroup::run(&mut f).len(), spilled)
    }

    /// What a product reads that its block alone reads is under way behind that, and so is what stands for it; not what is read elsewhere, too.
    #[test]
    fn what_one_block_reads_is_under_way_behind_it() {
        let list = |from: u32| (from..from + 4).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(",");
        let a = |from: u32| (from..from + 4).map(|k| format!("    LDS Rd=%r{k} Ra=RZ Imm={k}\n")).collect::<String>();
        let product = |to: u32, a: u32, from: u32| {
            let (to, a, from) = (list(to), list(a), list(from));
            format!("    HGMMA_RRUR_OPEN.M75=1 Rd={{{to}}} Ra={{{a}}} UR={{%ur10,%ur11,%ur12,%ur13}} Rc={{{from}}}\n")
        };
        let uniform: String = (10..14).map(|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n")).collect();
        let t = format!(
            "func k entry max=96 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{uniform}{}    ISETP_RI.Cmp=1 Pu=%p4 Ra=%r90 Rb=9\n    br blk1({}, {})\n\
             blk1({}, {}): depth=1\n    hold {} ->\n{}{}    WARPGROUP\n{}{}{}    STS Ra=RZ Rb=%r44\n    brif %p4, blk2(), blk3()\n\
             blk2(): depth=1\n    br blk1({}, {})\nblk3(): depth=0\n    STS Ra=RZ Rb=%r45\n    exit\n}}\n",
            a(90),
            list(90),
            list(90),
            list(20),
            list(30),
            list(30),
            a(40),
            a(44),
            product(50, 40, 20),
            product(54, 44, 50),
            product(58, 90, 54),
            list(58),
            list(40),
        );
        let f = text::parse(&t).unwrap().remove(0);
        let idle = super::idle(&f);
        let flown = super::flown(&f, &super::super::flight::held(&f), &idle);
        let those = [20, 30, 33, 40, 43, 44, 45, 54, 90, 93].map(|v| flown[v]);
        assert_eq!(those, [false, true, true, true, true, true, false, false, false, false]);
    }

    #[test]
    fn what_is_made_anew_waits_for_no_product() {
        assert!(waits(8, 253, false).0 > 0);
        assert_eq!(waits(8, 253, true), (0, 0));
    }

    /// Others spill, not what is held: it need not come back.
    #[test]
    fn what_is_held_is_never_brought_back() {
        assert_eq!(waits(12, 32, true), (0, 0));
        waits(24, 24, true);
    }
}
