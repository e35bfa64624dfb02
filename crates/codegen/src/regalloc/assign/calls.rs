//! Calls: arguments and results in the ABI's registers, and what lives across them.

use super::super::Note;
use super::{Assign, FREE, HELD};
use crate::mir::{Inst, Op, Vreg};
use sass::reg::{File, Reg};

impl Assign<'_> {
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
        let mut moved = Vec::new();
        for (v, r) in homeless {
            let to = (0..self.banks[gpr].limit).find(|&r| self.banks[gpr].usable[r] && kept(r) && !staying[r]);
            let Some(to) = to else {
                self.fail("too few registers for a call: the register limit is too small");
                continue;
            };
            staying[to] = true;
            pairs.push((Reg::r(to as u8), Reg::r(r as u8)));
            moved.push((v, to));
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
            if v < HELD && self.end[v as usize] != at {
                self.fail("a predicate lives across a call");
            }
        }
        for &(v, r) in &call.rets {
            self.occupy(v, r.index() as usize);
        }
        for &(v, _) in &call.rets {
            self.release_if_dead(v, at);
        }
        call.args.iter_mut().for_each(|a| a.0 = Vreg::NONE);
        call.rets.iter_mut().for_each(|a| a.0 = Vreg::NONE);
        self.out.push(Inst::new(Op::Call(Box::new(call)), loc));
        self.notes.push(note);
    }
}
