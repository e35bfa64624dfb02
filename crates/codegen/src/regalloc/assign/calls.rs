//! Calls: arguments and results in the ABI's registers, and what lives across them.

use super::super::Note;
use super::{Assign, FREE, HELD};
use crate::abi::Keeps;
use crate::bitset::BitSet;
use crate::mir::liveness::Liveness;
use crate::mir::{Func, Vreg};
use crate::mir::{Inst, Op};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// The general registers that live across calls of routines for seldom cases, with what the one keeps that keeps least.
pub(super) fn spared(f: &Func, live: &Liveness) -> Option<(BitSet, Keeps)> {
    let light = |i: &Inst| if let Op::Call(c) = &i.op { Some(c.keeps).filter(|k| k.light()) } else { None };
    let mut out: Option<(BitSet, Keeps)> = None;
    for (b, block) in f.blocks.iter().enumerate() {
        if !block.insts.iter().any(|i| light(i).is_some()) {
            continue;
        }
        let mut alive: Vec<Vreg> = live.live_out[b].to_vec();
        f.term_uses(&block.term, |v| alive.push(v));
        block.term.edges().iter().for_each(|e| alive.extend(&e.args));
        for inst in block.insts.iter().rev() {
            f.defs(&inst.op, |v| alive.retain(|&a| a != v));
            if let Some(keeps) = light(inst) {
                let (set, least) = out.get_or_insert_with(|| (BitSet::new(f.vregs.len()), keeps));
                if keeps.return_pair() > least.return_pair() {
                    *least = keeps;
                }
                alive.iter().filter(|v| f.vregs[v.index()] == File::Gpr).for_each(|v| {
                    set.insert(v.index());
                });
            }
            f.uses(&inst.op, |v| alive.push(v));
        }
    }
    out
}

/// The values that live across calls which keep but the ABI's registers; empty where there is no such call.
pub(super) fn crossing(f: &Func, live: &Liveness) -> BitSet {
    let mut out = BitSet::default();
    for (b, block) in f.blocks.iter().enumerate() {
        if !block.insts.iter().any(heavy) {
            continue;
        }
        if out == BitSet::default() {
            out = BitSet::new(f.vregs.len());
        }
        let mut alive = BitSet::new(f.vregs.len());
        let ends = block.term.edges();
        live.live_out[b].iter().chain(ends.iter().flat_map(|e| &e.args)).for_each(|v| {
            alive.insert(v.index());
        });
        f.term_uses(&block.term, |v| {
            alive.insert(v.index());
        });
        for inst in block.insts.iter().rev() {
            f.defs(&inst.op, |v| {
                alive.remove(v.index());
            });
            if heavy(inst) {
                out.union(&alive);
            }
            f.uses(&inst.op, |v| {
                alive.insert(v.index());
            });
        }
    }
    out
}

/// A call that keeps but the ABI's registers, and comes back.
pub(super) fn heavy(i: &Inst) -> bool {
    matches!(&i.op, Op::Call(c) if !c.keeps.light() && !c.ends)
}

impl Assign<'_> {
    /// What should meet a value that lives across a call in one register is better placed as that one is.
    pub(super) fn spread_crossing(&mut self) {
        if let Some((mut set, keeps)) = self.spared.take() {
            self.spread(&mut set);
            self.spared = Some((set, keeps));
        }
        if self.has_calls {
            let mut set = std::mem::take(&mut self.crossing);
            self.spread(&mut set);
            self.crossing = set;
        }
    }

    /// Adds all values that should meet one of the set.
    fn spread(&mut self, set: &mut BitSet) {
        for v in 0..self.f.vregs.len() {
            if set.contains(v) {
                let rep = self.rep(Vreg(v as u32));
                set.insert(rep);
            }
        }
        for v in 0..self.f.vregs.len() {
            let rep = self.rep(Vreg(v as u32));
            if set.contains(rep) {
                set.insert(v);
            }
        }
    }

    /// The registers that calls of routines for seldom cases change, up to the last of them, where part of this vector lives across such a call, or a
    /// product of a warpgroup may read it meanwhile.
    pub(super) fn exposed(&self, vec: u32) -> SmallVec<[bool; 32]> {
        match &self.spared {
            Some((set, keeps)) => {
                let lasts = |v: &Vreg| set.contains(v.index()) || self.held.get(v.index()) == Some(&true);
                let end =
                    if self.f.vecs[vec as usize].iter().any(lasts) { u32::from(keeps.return_pair()) + 2 } else { 0 };
                (0..end).map(|r| !keeps.keeps(r)).collect()
            }
            _ => SmallVec::new(),
        }
    }

    pub(super) fn call(&mut self, at: u32, mut call: crate::mir::Call, loc: u32, note: Note) {
        let gpr = File::Gpr as usize;
        let mut pairs: Vec<(Reg, Reg)> = Vec::new();
        let mut taken = [false; 256];
        for &(v, r) in &call.args {
            pairs.push((r, Reg::r(self.loc[v.index()])));
            taken[r.index() as usize] = true;
        }
        let target = call.target.values();
        if !target.is_empty() {
            // The even pair for the target: an argument register that is not one, else R2, which is kept, or R32.
            let usable = &self.banks[gpr].usable;
            let pair = (2..=7).rev().map(|p| 2 * p).chain([2, 32]).find(|&r| {
                !taken[r] && !taken[r + 1] && usable[r] && usable[r + 1] && !call.keeps.returns_by(r as u32)
            });
            if pair.is_none() {
                self.fail("no register pair is left for the target of an indirect call");
            }
            for (k, (to, v)) in call.target.values_mut().into_iter().zip(target).enumerate() {
                pairs.extend(pair.map(|r| (Reg::r((r + k) as u8), Reg::r(self.loc[v.index()]))));
                *to = Vreg((pair.unwrap_or(4) + k) as u32);
            }
        }
        // Values that live across move to registers that the callee keeps.
        let occ = self.banks[gpr].occ;
        let held = call.target.values();
        let kept = |r: usize| call.keeps.keeps(r as u32) && !held.iter().any(|t| t.0 as usize == r);
        let mut staying = [false; 256];
        let mut homeless = Vec::new();
        for (r, &v) in occ.iter().enumerate() {
            if v >= HELD || self.end[v as usize] == at {
                continue;
            }
            if kept(r) { staying[r] = true } else { homeless.push((v, r)) }
        }
        let (mut moved, mut homes) = (Vec::new(), Vec::new());
        let mut rest = &homeless[..];
        while !rest.is_empty() {
            let list = &rest[..self.side_by_side(rest)];
            let free = |r: usize| self.banks[gpr].usable[r] && kept(r) && !staying[r];
            // First those that need not be saved.
            let open = |r: usize| free(r) && (self.f.entry || !self.f.preserves(r as u32));
            let limit = self.banks[gpr].limit;
            let row = |ok: &dyn Fn(usize) -> bool, n: usize| {
                let step = n.next_power_of_two();
                (0..limit).step_by(step).find(|&at| at + n <= limit && (at..at + n).all(ok))
            };
            let n = list.len();
            let found = row(&open, n).or_else(|| row(&free, n)).map(|at| (at, n));
            let Some((to, n)) = found.or_else(|| row(&open, 1).or_else(|| row(&free, 1)).map(|at| (at, 1))) else {
                self.fail("too few registers for a call: the register limit is too small");
                rest = &rest[1..];
                continue;
            };
            for (k, &(v, r)) in list[..n].iter().enumerate() {
                staying[to + k] = true;
                pairs.push((Reg::r((to + k) as u8), Reg::r(r as u8)));
                moved.push((v, to + k));
                homes.push((Vreg(v), r));
            }
            rest = &rest[n..];
        }
        pairs.retain(|(d, s)| d != s);
        self.moves(&pairs, loc);
        for (r, &v) in occ.iter().enumerate() {
            if v < HELD && !staying[r] {
                self.banks[gpr].put(r, FREE);
            }
        }
        for (r, &v) in occ.iter().enumerate() {
            // Dying values in registers that were taken by moved ones, and the moved ones themselves.
            if v < HELD && (self.end[v as usize] == at || moved.iter().any(|m| m.0 == v)) {
                self.banks[gpr].put(r, FREE);
            }
        }
        for (v, r) in moved {
            self.occupy(Vreg(v), r);
        }
        let preds = File::Pred as usize;
        for r in 0..7 {
            let v = self.banks[preds].occ[r];
            if v < HELD && self.end[v as usize] != at && !call.keeps.light() {
                self.fail("a predicate lives across a call");
            }
        }
        for &(v, r) in &call.rets {
            self.occupy(v, r.index() as usize);
        }
        let light = call.keeps.light();
        let rets: Vec<(Vreg, Reg)> = call.rets.clone();
        for &(v, _) in &call.rets {
            self.release_if_dead(v, at);
        }
        call.args.iter_mut().for_each(|a| a.0 = Vreg::NONE);
        call.rets.iter_mut().for_each(|a| a.0 = Vreg::NONE);
        self.out.push(Inst::new(Op::Call(Box::new(call)), loc));
        self.notes.push(note);
        if light {
            self.back_home(&homes, &rets, loc);
        }
    }

    /// How many of these values, in the order of their registers, are the words of one vector and lie as such.
    fn side_by_side(&self, list: &[(u32, usize)]) -> usize {
        let Some(&(v, r)) = list.first() else { return 0 };
        let (vec, nth) = self.vec_hint[v as usize];
        if vec == FREE || nth != 0 {
            return 1;
        }
        let words = &self.f.vecs[vec as usize];
        let lies = |(k, w): (usize, &Vreg)| list.get(k).is_some_and(|&(v, at)| v == w.0 && at == r + k);
        if words.iter().enumerate().all(lies) { words.len() } else { 1 }
    }

    /// Puts values that lived across a call of a routine for seldom cases back where they were, results of it elsewhere: what meets its caller
    /// behind it, which is nearly everyone, shall have nothing to move.
    fn back_home(&mut self, homes: &[(Vreg, usize)], rets: &[(Vreg, Reg)], loc: u32) {
        let gpr = File::Gpr as usize;
        let mut pairs = Vec::new();
        let mut places: Vec<(Vreg, usize)> = Vec::new();
        for &(v, home) in homes {
            let bank = &self.banks[gpr];
            let result = rets.iter().map(|r| r.0).find(|r| bank.occ[home] == r.0);
            if let Some(v) = result {
                let wanted = |r: usize| homes.iter().any(|h| h.1 == r) || places.iter().any(|p| p.1 == r);
                let Some(to) = (0..bank.limit).find(|&r| bank.usable[r] && bank.occ[r] == FREE && !wanted(r)) else {
                    continue;
                };
                places.push((v, to));
            } else if bank.occ[home] != FREE {
                continue;
            }
            places.push((v, home));
        }
        for &(v, to) in &places {
            pairs.push((Reg::r(to as u8), Reg::r(self.loc[v.index()])));
            self.release(v);
        }
        places.into_iter().for_each(|(v, to)| self.occupy(v, to));
        self.moves(&pairs, loc);
    }
}

#[cfg(test)]
mod tests {
    use crate::mir::{Op, text};
    use crate::regalloc::{self, Tightness};

    /// What a loop behind a call carries has its registers from the beginning of the loop on; what lives across the call has one that it keeps.
    #[test]
    fn loops_that_call_nothing_move_nothing() {
        let body = "blk0(): depth=0
    LDS Rd=%r0 Ra=RZ
    call f1 () -> ()
    LDS Rd=%r1 Ra=RZ Imm=0x10
    LDS Rd=%r2 Ra=RZ Imm=0x20
    br blk1(%r1, %r2)
blk1(%r3, %r4): depth=1
    ISETP_RR.Cmp=1 Pu=%p5 Pv=PT Ra=%r3 Rb=%r4 Pp=PT
    brif %p5, blk3(), blk2()
blk2(): depth=1
    IADD3_RIR Rd=%r6 Ra=%r3 Rb=0x4
    LDS Rd=%r7 Ra=%r6
    ISETP_RR.Cmp=1 Pu=%p8 Pv=PT Ra=%r6 Rb=RZ Pp=PT
    brif %p8, blk3(), blk4()
blk3(): depth=0
    STS Ra=RZ Rb=%r0
    exit
blk4(): depth=1
    br blk1(%r6, %r7)
";
        let head = "func k entry max=64 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Free).unwrap();
        let moves = f.blocks.iter().flat_map(|b| &b.insts);
        let moves = moves.filter(|i| matches!(&i.op, Op::Sass(s) if s.form == sass::forms::MOV_R)).count();
        assert_eq!(moves, 0, "{}", text::print(&f));
    }
}
