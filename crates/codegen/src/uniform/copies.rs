//! Copies of uniform values for readers that take no uniform register.

use super::Pass;
use super::wanted::runs;
use crate::mir::operands::sass_uses;
use crate::mir::{Inst, Op, Vreg};
use crate::sched::sink::rename;
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

impl Pass<'_> {
    /// Lets instruction `i` of block `b` read copies of `v`, which is wanted, and of what is uniform in one vector with it; false where that is not enough.
    pub(super) fn copy(&mut self, b: usize, i: usize, v: Vreg) -> bool {
        let inside = self.f.blocks[b].depth > 0;
        let costs = runs(self.f.blocks[b].depth);
        let copied = self.copied[v.index()];
        let enough = inside && copied > 0 && copied + costs > self.moves[v.index()];
        if !self.wanted[v.index()] || enough || !F::MOV_U.get().on(self.sm) {
            return false;
        }
        let Op::Sass(s) = &self.f.blocks[b].insts[i].op else { return false };
        let mut places: SmallVec<[(u8, Reg); 2]> = SmallVec::new();
        let mut single = true;
        sass_uses(s, |p| {
            let mut here = false;
            self.f.each_scalar(p.reg, |x| here |= x == v);
            match p.slot {
                Some(k) if here => places.push((k, p.reg)),
                _ => single &= !here,
            }
        });
        if !single {
            return false;
        }
        let mut new = s.clone();
        let loc = self.f.blocks[b].insts[i].loc;
        let (vregs, vecs) = (self.f.vregs.len(), self.f.vecs.len());
        let mut made: SmallVec<[(Vreg, Vreg); 4]> = SmallVec::new();
        for (k, reg) in places {
            let mut scalars = self.f.scalars(reg);
            for x in scalars.iter_mut().filter(|x| self.kept[x.index()] && !self.old[x.index()]) {
                let known = made.iter().find(|m| m.1 == *x).map(|m| m.0);
                let copied = known.unwrap_or_else(|| self.f.new_vreg(File::Gpr));
                if known.is_none() {
                    made.push((copied, *x));
                }
                *x = copied;
            }
            new.operands[k as usize].value = Value::Reg(self.f.vector(&scalars));
        }
        // As if they were there: values that stay in general registers.
        let n = self.f.vregs.len();
        for list in [&mut self.kept, &mut self.old, &mut self.wanted] {
            list.resize(n, false);
        }
        for list in [&mut self.copied, &mut self.moves] {
            list.resize(n, 0);
        }
        if self.fitted(&new).is_none() {
            for list in [&mut self.kept, &mut self.old, &mut self.wanted] {
                list.truncate(vregs);
            }
            for list in [&mut self.copied, &mut self.moves] {
                list.truncate(vregs);
            }
            self.f.vregs.truncate(vregs);
            self.f.vecs.truncate(vecs);
            return false;
        }
        self.weight.resize(n, 1);
        if inside {
            made.iter().for_each(|m| self.copied[m.1.index()] += costs);
        }
        self.f.blocks[b].insts[i].op = Op::Sass(new);
        let moves = made.iter().rev().map(|&(copied, x)| {
            let op =
                Sass::new(F::MOV_R).with(S::Rd, Reg::virt(File::Gpr, copied.0)).with(S::Rb, Reg::virt(File::Gpr, x.0));
            (i, Inst::new(Op::Sass(op), loc))
        });
        self.ahead.extend(moves);
        self.copies.extend(made.iter().map(|&(copied, x)| (b, copied, x)));
        true
    }

    /// Puts the copies that were made for instructions of block `b`, from its last to its first one, before these: all at once, as there can be thousands.
    pub(super) fn put_copies(&mut self, b: usize) {
        if self.ahead.is_empty() {
            return;
        }
        let insts = std::mem::take(&mut self.f.blocks[b].insts);
        let mut all = Vec::with_capacity(insts.len() + self.ahead.len());
        for (i, inst) in insts.into_iter().enumerate() {
            while let Some((_, copy)) = self.ahead.pop_if(|c| c.0 == i) {
                all.push(copy);
            }
            all.push(inst);
        }
        self.f.blocks[b].insts = all;
    }

    /// Takes out copies of what did not become uniform.
    pub(super) fn drop_copies(&mut self) {
        let mut of: Vec<Vreg> = Vec::new();
        let mut blocks: Vec<usize> = Vec::new();
        for (b, copied, v) in std::mem::take(&mut self.copies) {
            if self.kept[v.index()] {
                continue;
            }
            if of.is_empty() {
                of = (0..self.f.vregs.len() as u32).map(Vreg).collect();
            }
            of[copied.index()] = v;
            blocks.push(b);
        }
        blocks.sort_unstable();
        blocks.dedup();
        for b in blocks {
            rename(self.f, b, &mut |_, v| of[v.index()]);
            let gone = |d: &Operand| d.as_reg().is_some_and(|d| of[d.index() as usize] != Vreg(d.index()));
            self.f.blocks[b].insts.retain(|i| match &i.op {
                Op::Sass(s) if s.form == F::MOV_R => {
                    !s.get(S::Rd).is_some_and(|d| d.as_reg().is_some_and(Reg::is_virtual) && gone(d))
                }
                _ => true,
            });
        }
    }
}
