//! What is added up over a loop stays in one register from step to step.
//!
//! A parameter of a loop and what it gets at the end of the loop should meet in one register ([`super::hints`]). Where steps lie between the two, each of
//! which reads the one before and nobody else does (a sum of products, a shifted word), each of them should be there, too: the register is free wherever
//! one step has read it, unless somebody else takes it meanwhile.

use super::{Assign, FREE};
use crate::mir::operands::{sass_defs, sass_uses};
use crate::mir::{Inst, Op, Vreg};
use rustc_hash::FxHashMap;
use sass::form::SlotName as S;
use sass::latency::Class;
use sass::reg::File;
use smallvec::SmallVec;

/// Steps at most that are followed back from the end of a loop.
const LONGEST: usize = 256;

/// Where a value is made: block and instruction.
type Place = (u32, u32);

/// Nowhere.
const NONE: Place = (u32::MAX, 0);

impl Assign<'_> {
    /// Lets the steps between values that meet already meet them. `met`: parameters of blocks and what edges give them.
    pub(super) fn sums(&mut self, met: &[(Vreg, Vreg)]) {
        let gpr = |v: Vreg| self.f.vregs[v.index()] == File::Gpr;
        let met: Vec<(Vreg, Vreg)> = met.iter().copied().filter(|&(p, _)| gpr(p)).collect();
        if met.is_empty() {
            return;
        }
        let (made, reads) = self.places();
        let mut steps: Vec<Vreg> = Vec::new();
        let mut webs = vec![false; self.f.vregs.len()];
        for (p, v) in met {
            let goal = self.rep(p);
            webs[goal] = true;
            steps.clear();
            let mut last = v;
            while steps.len() < LONGEST {
                let operands = self.operands(made[last.index()]);
                if operands.iter().any(|&(u, _)| self.rep(u) == goal) {
                    for &step in &steps {
                        let own = self.rep(step);
                        self.web[own] = goal as u32;
                    }
                    break;
                }
                // A sum goes on with what it is added to, if it can.
                let lone = |u: &Vreg| reads[u.index()] == 1 && self.vec_hint[u.index()].0 == FREE;
                let mut lone = operands.iter().filter(|(u, _)| lone(u));
                let Some(&(next, _)) = lone.clone().find(|o| o.1).or_else(|| lone.next()) else { break };
                steps.push(next);
                last = next;
            }
        }
        self.likes(&made, &webs);
    }

    /// Says of values that are read in their block alone which web is made where they are read last: that may have their register.
    /// Not beside products of warpgroups: what they read while they are under way keeps registers for longer than values say.
    fn likes(&mut self, made: &[Place], webs: &[bool]) {
        let product = |i: &Inst| matches!(&i.op, Op::Sass(s) if s.form().class == Class::Gmma);
        if self.f.blocks.iter().any(|b| b.insts.iter().any(product)) {
            return;
        }
        let mut last = vec![NONE; self.f.vregs.len()];
        let mut elsewhere = vec![false; self.f.vregs.len()];
        let f = &*self.f;
        for (b, block) in (0..).zip(&f.blocks) {
            for (i, inst) in (0..).zip(&block.insts) {
                let plain = matches!(inst.op, Op::Sass(_));
                f.uses(&inst.op, |v| {
                    elsewhere[v.index()] |= !plain || made[v.index()].0 != b;
                    last[v.index()] = (b, i);
                });
            }
            f.term_uses(&block.term, |v| elsewhere[v.index()] = true);
            block.term.edges().iter().flat_map(|e| &e.args).for_each(|v| elsewhere[v.index()] = true);
        }
        // By instruction that makes something, by what it makes: one of its operands.
        let mut at: FxHashMap<Place, Vreg> = FxHashMap::default();
        for (v, &place) in made.iter().enumerate() {
            if place != NONE {
                at.insert(place, Vreg(v as u32));
            }
        }
        let mut like = vec![FREE; made.len()];
        let mut taken = vec![false; made.len()];
        for v in 0..made.len() {
            if made[v] == NONE || last[v] == NONE || elsewhere[v] {
                continue;
            }
            let Some(&to) = at.get(&last[v]) else { continue };
            let (web, own) = (self.rep(to), self.rep(Vreg(v as u32)));
            if webs[web] && !webs[own] && !std::mem::replace(&mut taken[to.index()], true) {
                like[v] = web as u32;
            }
        }
        self.like = like;
    }

    /// Where each general register is made as one of its own, and how often each value is read.
    fn places(&self) -> (Vec<Place>, Vec<u32>) {
        let f = &*self.f;
        let (mut made, mut reads) = (vec![NONE; f.vregs.len()], vec![0u32; f.vregs.len()]);
        for (b, block) in (0..).zip(&f.blocks) {
            for (i, inst) in (0..).zip(&block.insts) {
                if let Op::Sass(s) = &inst.op {
                    sass_defs(s, |p| {
                        if p.reg.is_virtual() && !p.reg.is_pooled() && p.reg.file() == File::Gpr {
                            made[p.reg.index() as usize] = (b, i);
                        }
                    });
                }
                f.uses(&inst.op, |v| reads[v.index()] += 1);
            }
            f.term_uses(&block.term, |v| reads[v.index()] += 1);
            block.term.edges().iter().flat_map(|e| &e.args).for_each(|v| reads[v.index()] += 1);
        }
        (made, reads)
    }

    /// The general registers that an instruction reads as registers of their own, and whether it adds to them.
    fn operands(&self, (b, i): Place) -> SmallVec<[(Vreg, bool); 3]> {
        let mut out = SmallVec::new();
        let Some(block) = self.f.blocks.get(b as usize) else { return out };
        if let Op::Sass(s) = &block.insts[i as usize].op {
            let sum = s.slot(S::Rc).map(|n| n as u8);
            sass_uses(s, |p| {
                if p.reg.is_virtual() && !p.reg.is_pooled() && p.reg.file() == File::Gpr {
                    out.push((Vreg(p.reg.index()), p.slot == sum));
                }
            });
        }
        out
    }
}
