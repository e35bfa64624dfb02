//! Products of matrices on registers of a warp.

use super::operand::ZERO;
use super::{Regs, Sel};
use crate::ir::matrix::{Product, Unit};
use crate::ir::{InstId, Op};
use crate::mir::Vreg;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::File;

impl Sel<'_> {
    /// `mma`, `movmatrix` and the conversion of 8-bit floats that goes with them.
    pub(super) fn matrices(&mut self, id: InstId) -> Option<()> {
        match self.f.inst(id).op {
            Op::Mma => self.product(id),
            Op::MovMatrix => {
                self.all_together();
                let a = self.lo(self.f.inst(id).args[0]);
                let a = self.gpr(a);
                self.word_result(id, Sass::new(F::MOVM).with(S::Ra, a))
            }
            _ => {
                let (sub, a) = (self.f.inst(id).attr.sub, self.f.inst(id).args[0]);
                let a = self.lo(a);
                let a = self.gpr(a);
                // Of the machine's two formats e5m2 is the first.
                let m =
                    Sass::new(F::F2FP_UNPACK).with(S::Rb, a).with_mod(M::Src, !sub & 1).with_mod(M::Half, sub >> 1 & 1);
                self.word_result(id, m)
            }
        }
    }

    /// All threads of the warp execute what follows together.
    pub(super) fn all_together(&mut self) {
        if self.conv.divergent[self.block] {
            self.push(Sass::new(F::WARPSYNC_ALL));
        }
    }

    fn word_result(&mut self, id: InstId, m: Sass) -> Option<()> {
        let r = Regs { lo: self.m.new_vreg(File::Gpr), hi: None };
        let d = self.m.reg(r.lo);
        self.push(m.with(S::Rd, d));
        self.define(id, 0, r);
        Some(())
    }

    fn product(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let p = Product::unpack(inst.imm);
        let args = inst.args.to_vec();
        let words: Vec<Operand> = args.iter().flat_map(|&v| self.words(v)).collect();
        let (a, rest) = words.split_at_checked(p.a as usize)?;
        let (b, rest) = rest.split_at_checked(p.b as usize)?;
        let (c, meta) = rest.split_at_checked(rest.len() - p.sparse.is_some() as usize)?;
        self.all_together();
        let form = match (p.unit, p.sparse) {
            (Unit::Half, None) => F::HMMA_RRRR_5,
            (Unit::Half, Some(_)) => F::HMMA_RRRRRI_2,
            (Unit::Int, None) if self.has(F::IMMA_RRRR_4) => F::IMMA_RRRR_4,
            (Unit::Int, Some(_)) if self.has(F::IMMA_RRRRRI_3) => F::IMMA_RRRRRI_3,
            (Unit::Int, None) if self.has(F::IMMA_RRRR) => F::IMMA_RRRR,
            (Unit::Int, None) => F::IMMA_RRRR_3,
            (Unit::Int, Some(_)) => F::IMMA_RRRRRI_2,
            (Unit::Bit, _) if p.kind == 1 => self.first(&[F::BMMA_RRRR, F::BMMA_RRRR_2, F::BMMA_RRRR_3]),
            (Unit::Bit, _) => F::BMMA_RRRR_4,
            (Unit::Double, _) => F::DMMA_RRRR_3,
        };
        // Numbers of the shapes as the instruction encodes them.
        let shape = match (p.unit, p.m, p.k) {
            (Unit::Half, 16, 8) => 0,
            (Unit::Half, 16, 16) => 1,
            (Unit::Half, 16, 4) => 2,
            (Unit::Half, 16, 32) => 3,
            (Unit::Int, 8, 16) => 0,
            (Unit::Int, 16, 16) if form == F::IMMA_RRRR_3 => 4,
            (Unit::Int, 16, 32) if form == F::IMMA_RRRR_3 => 5,
            (Unit::Int, 16, 16) => 2,
            (Unit::Int, 16, 32) if p.sparse.is_none() => 3,
            (Unit::Int, 16, 32) => 5,
            (Unit::Int, 16, 64) => 6,
            (Unit::Bit, 8, 128) => 0,
            (Unit::Bit, 16, 128) => 1,
            (Unit::Bit, 16, 256) => 2,
            (Unit::Double, 8, 4) => 0,
            (Unit::Double, 16, 4) => 1,
            (Unit::Double, 16, 8) => 2,
            (Unit::Double, 16, 16) => 3,
            _ => return None,
        };
        let m = Sass::new(form);
        let mut m = match p.unit {
            Unit::Half => m.with_mod(M::M75, shape).with_mod(M::M76, p.wide as u8).with_mod(M::M82, p.kind),
            // One of all shapes and types.
            Unit::Int if form == F::IMMA_RRRR => m.with_mod(M::M76, p.kind & 3).with_mod(M::Sat, p.sat as u8),
            Unit::Int => m
                .with_mod(M::M75, shape)
                .with_mod(M::M76, p.kind & 1)
                .with_mod(M::M78, p.kind >> 1 & 1)
                .with_mod(M::Sat, p.sat as u8),
            // It has one shape.
            Unit::Bit if form == F::BMMA_RRRR => m,
            Unit::Bit => m.with_mod(M::M75, shape),
            Unit::Double => m.with_mod(M::M76, shape).with_mod(M::M78, rounding(p.kind)?),
        };
        if let (Some(sel), Some(&meta)) = (p.sparse, meta.first()) {
            let meta = self.gpr(meta);
            m = m.with(S::RegAt40, meta).with(S::ImmAt48, Operand::imm(sel as i64));
        }
        let mut operand = |words: &[Operand]| {
            if words.iter().all(|&w| w == ZERO) { ZERO } else { self.vector_of(words) }
        };
        m = m.with(S::Ra, operand(a)).with(S::Rb, operand(b)).with(S::Rc, operand(c));
        let results: Vec<Vreg> = (0..self.f.inst(id).results.len()).flat_map(|n| self.result_words(id, n)).collect();
        let d = self.m.vector(&results);
        self.push(m.with(S::Rd, d));
        Some(())
    }
}

fn rounding(kind: u8) -> Option<u8> {
    use crate::ir::Rnd;
    let rnd = [Rnd::Rn, Rnd::Rz, Rnd::Rm, Rnd::Rp].into_iter().find(|&r| r as u8 == kind)?;
    Some(super::isle::rnd_code(rnd))
}
