//! Packed and narrow arithmetic: two halves at once, 8-bit floats, saturated packing, the special unit on halves.

use super::asm::{Fold, fcmp, fold};
use super::isle::mufu_function;
use super::operand::{TRUE, ZERO};
use super::{Regs, Sel};
use crate::ir::{Fmt, InstId, Op, Rnd, Value};
use crate::lower::narrow::{E4M3, RELU};
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::File;

impl Sel<'_> {
    pub(super) fn packed(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (op, attr) = (inst.op, inst.attr);
        let args = inst.args.clone();
        let relu = attr.sub & RELU;
        let e4m3 = (attr.sub & E4M3 != 0) as u8;
        let m = match op {
            Op::FCmp2 => return self.compare_halves(id),
            Op::FSet2 => {
                let (a, b) = self.half_sources(args[0], args[1], attr.fmt);
                let p = self.pred(args[2]);
                Sass::new(F::HSET2_RR)
                    .with(S::Ra, a)
                    .with(S::Rb, b)
                    .with(S::Pp, p)
                    .with_mod(M::Fmt, (attr.fmt == Fmt::BF16x2) as u8)
                    .with_mod(M::Cmp, fcmp(attr.cmp))
                    .with_mod(M::Ftz, attr.ftz as u8)
                    .with_mod(M::Bool, attr.sub & 3)
                    .with_mod(M::Bf, attr.sub >> 2 & 1)
            }
            Op::IAdd2 => {
                let (a, b) = (self.word(args[0]), self.word(args[1]));
                Sass::new(F::VIADD_RR).with(S::Ra, a).with(S::Rb, b).with_mod(M::X2, 1)
            }
            Op::IMin2 | Op::IMax2 => {
                let (a, b) = (self.word(args[0]), self.word(args[1]));
                let p = if op == Op::IMax2 { TRUE.inverted() } else { TRUE };
                let ty = if attr.signed { enums::vtype::S16X2 } else { enums::vtype::U16X2 };
                Sass::new(F::VIMNMX_RR)
                    .with(S::Ra, a)
                    .with(S::Rb, b)
                    .with(S::Pp, p)
                    .with_mod(M::Type, ty)
                    .with_mod(M::Relu, relu)
            }
            Op::IPack => {
                let (a, b, c) = (self.word(args[0]), self.word(args[1]), self.word(args[2]));
                Sass::new(F::I2IP_RRR)
                    .with(S::Ra, a)
                    .with(S::Rb, b)
                    .with(S::Rc, c)
                    .with_mod(M::Dst, attr.sub)
                    .with_mod(M::Sat, 1)
            }
            Op::Fp8Pack => {
                let (a, b) = (self.word(args[0]), self.word(args[1]));
                Sass::new(F::F2FP_FP8)
                    .with(S::Ra, a)
                    .with(S::Rb, b)
                    .with(S::Rc, ZERO)
                    .with_mod(M::Dst, e4m3)
                    .with_mod(M::Relu, relu)
            }
            Op::Fp8FromHalf => {
                let a = self.word(args[0]);
                Sass::new(F::F2FP_FP8_F16)
                    .with(S::Rb, a)
                    .with(S::Rc, ZERO)
                    .with_mod(M::Dst, e4m3)
                    .with_mod(M::Relu, relu)
            }
            Op::HalfFromFp8 => {
                let a = self.word(args[0]);
                Sass::new(F::F2FP_UNPACK).with(S::Rb, a).with_mod(M::Src, e4m3).with_mod(M::Relu, relu)
            }
            Op::F2Tf32 => {
                let a = self.word(args[0]);
                let m = match attr.rnd {
                    Rnd::Rz => Sass::new(F::F2FP_RR).with_mod(M::Rnd, enums::rnrz::RZ),
                    _ => Sass::new(F::F2FP_TF32),
                };
                m.with(S::Rb, a).with_mod(M::Relu, relu)
            }
            Op::FEx2 | Op::FTanh => {
                let a = self.word(args[0]);
                let fmt = if attr.fmt == Fmt::F16 { enums::mufufmt::F16 } else { enums::mufufmt::BF16 };
                Sass::new(F::MUFU_R).with(S::Rb, a).with_mod(M::Func, mufu_function(op)).with_mod(M::Fmt, fmt)
            }
            _ => return None,
        };
        let r = self.new_word();
        let d = self.m.reg(r.lo);
        self.push(m.with(S::Rd, d));
        self.define(id, 0, r);
        Some(())
    }

    /// A value in a register.
    fn word(&mut self, v: Value) -> Operand {
        let o = self.lo(v);
        self.gpr(o)
    }

    fn half_sources(&mut self, a: Value, b: Value, fmt: Fmt) -> (Operand, Operand) {
        let (a, b) = (self.fsrc(a, fmt, false), self.fsrc(b, fmt, false));
        (self.gpr(fold(a, Fold::Half)), self.gpr(fold(b, Fold::Half)))
    }

    /// Two predicates: of the lower and of the upper halves.
    fn compare_halves(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (attr, args) = (inst.attr, inst.args.clone());
        let (a, b) = self.half_sources(args[0], args[1], attr.fmt);
        let p = self.pred(args[2]);
        let mut m = Sass::new(F::HSETP2_RR)
            .with(S::Ra, a)
            .with(S::Rb, b)
            .with(S::Pp, p)
            .with_mod(M::Fmt, (attr.fmt == Fmt::BF16x2) as u8)
            .with_mod(M::Cmp, fcmp(attr.cmp))
            .with_mod(M::Ftz, attr.ftz as u8)
            .with_mod(M::Bool, attr.sub & 3);
        let mut made = Vec::new();
        for (n, slot) in [S::Pu, S::Pv].into_iter().enumerate() {
            let v = self.f.inst(id).results[n];
            if self.regs[v.index()].is_some() {
                let q = self.m.new_vreg(File::Pred);
                m = m.with(slot, self.m.reg(q));
                made.push((n, q));
            }
        }
        self.push(m);
        for (n, q) in made {
            self.define(id, n, Regs { lo: q, hi: None });
        }
        Some(())
    }
}
