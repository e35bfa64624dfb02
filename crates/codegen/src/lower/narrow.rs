//! Conversions to and from packed and narrow formats, and those with `.relu` or `.satfinite`. Section 9.7.9.22 of the PTX
//! ISA.

use super::arith::{fmt, rnd};
use super::{Lower, Res};
use crate::ir::{Attr, Cmp, Fmt, Op, Rnd, Ty, Value};
use ptx::access::Rounding;
use ptx::isa::Mod;
use ptx::module::Inst;
use ptx::types::ScalarType as T;

/// Bit of `sub` of the narrow conversions: negative results become zero.
pub(crate) const RELU: u8 = 1;
/// Bit of `sub` of [`Op::F2FPack`]: infinities become the largest finite numbers.
pub(crate) const SATFINITE: u8 = 2;
/// Bit of `sub` of the conversions of 8-bit floats: e4m3, not e5m2.
pub(crate) const E4M3: u8 = 2;

impl Lower<'_, '_> {
    /// A conversion of this file, if it is one.
    pub(super) fn narrow(&mut self, x: &Inst, d: T, s: T) -> Option<Res> {
        if x.has(Mod::Pack) {
            return Some(self.pack_integers(x, d));
        }
        let relu = if x.has(Mod::Relu) { RELU } else { 0 };
        let satfinite = x.has(Mod::Satfinite);
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let float = relu | bit(satfinite, SATFINITE);
        Some(match (d, s) {
            (T::F16x2 | T::BF16x2, T::F32) => self.pack_floats(x, d, float),
            (T::F16 | T::BF16, T::F32) if float != 0 => self.pack_floats(x, d, float),
            (T::TF32, T::F32) if !satfinite || x.rounding() == Some(Rounding::Rna) => self.tf32(x, relu),
            (T::E4M3x2 | T::E5M2x2, T::F32 | T::F16x2) => self.fp8(x, d, s, relu),
            (T::F16x2, T::E4M3x2 | T::E5M2x2) => {
                let a = match self.arg(x, 1, Ty::B16) {
                    Ok(a) => a,
                    Err(e) => return Some(Err(e)),
                };
                let sub = relu | bit(s == T::E4M3x2, E4M3);
                let v = self.one(Op::HalfFromFp8, Attr { sub, ..Attr::default() }, &[a], Ty::B32);
                self.dst(x, v, false)
            }
            _ => return None,
        })
    }

    /// One or two singles to halves.
    fn pack_floats(&mut self, x: &Inst, d: T, sub: u8) -> Res {
        let pair = matches!(d, T::F16x2 | T::BF16x2);
        let a = if pair { self.arg(x, 1, Ty::B32)? } else { self.konst(Ty::B32, 0) };
        let b = self.arg(x, 1 + pair as usize, Ty::B32)?;
        let packed = if matches!(d, T::F16 | T::F16x2) { Fmt::F16x2 } else { Fmt::BF16x2 };
        let attr = Attr { fmt: packed, fmt2: Fmt::F32, rnd: rnd(x), sub, ..Attr::default() };
        let v = self.one(Op::F2FPack, attr, &[a, b], Ty::B32);
        let v = if pair { v } else { self.op(Op::Trunc, &[v], Ty::B16) };
        self.dst(x, v, false)
    }

    fn tf32(&mut self, x: &Inst, relu: u8) -> Res {
        let a = self.arg(x, 1, Ty::B32)?;
        if x.rounding() != Some(Rounding::Rna) {
            let attr = Attr { rnd: rnd(x), sub: relu, ..Attr::default() };
            let v = self.one(Op::F2Tf32, attr, &[a], Ty::B32);
            return self.dst(x, v, false);
        }
        // To nearest, ties away from zero: half a unit of the last place is added to the magnitude of what is finite.
        let f = Attr { fmt: Fmt::F32, ..Attr::default() };
        let magnitude = self.one(Op::FAbs, f, &[a], Ty::B32);
        let inf = self.konst(Ty::B32, 0x7f80_0000);
        let finite = self.one(Op::FCmp, Attr { cmp: Cmp::Lt, ..f }, &[magnitude, inf], Ty::P);
        let half = self.konst(Ty::B32, 0x1000);
        let up = self.same(Op::IAdd, &[a, half]);
        let v = self.op(Op::Select, &[up, a, finite], Ty::B32);
        let kept = self.konst(Ty::B32, 0xffff_e000);
        let mut v = self.same(Op::And, &[v, kept]);
        if x.has(Mod::Satfinite) {
            // What is infinite becomes the largest number; a NaN stays one.
            let nan = self.konst(Ty::B32, 0x7fff_e000);
            let sign = self.konst(Ty::B32, 0x7fff_ffff);
            let size = self.same(Op::And, &[v, sign]);
            let beyond = self.b().icmp(Cmp::Eq, false, size, inf);
            let less = self.same(Op::IAdd, &[v, kept]);
            v = self.op(Op::Select, &[less, v, beyond], Ty::B32);
            let number = self.one(Op::FCmp, Attr { cmp: Cmp::Num, ..f }, &[a, a], Ty::P);
            v = self.op(Op::Select, &[v, nan, number], Ty::B32);
        }
        let nan = self.one(Op::FCmp, Attr { cmp: Cmp::Nan, ..f }, &[a, a], Ty::P);
        let canonical = self.konst(Ty::B32, 0x7fff_e000);
        let v = self.op(Op::Select, &[canonical, v, nan], Ty::B32);
        self.dst(x, v, false)
    }

    fn fp8(&mut self, x: &Inst, d: T, s: T, relu: u8) -> Res {
        let attr = Attr { sub: if d == T::E4M3x2 { relu | E4M3 } else { relu }, ..Attr::default() };
        let a = self.arg(x, 1, Ty::B32)?;
        let v = if s == T::F32 {
            let b = self.arg(x, 2, Ty::B32)?;
            self.one(Op::Fp8Pack, attr, &[a, b], Ty::B16)
        } else {
            self.one(Op::Fp8FromHalf, attr, &[a], Ty::B16)
        };
        self.dst(x, v, false)
    }

    /// `cvt.pack.sat.d.s32{.b32} d, a, b{, c}`: a is the upper, b the lower element; c moves up to make room.
    fn pack_integers(&mut self, x: &Inst, d: T) -> Res {
        let bits = d.bits();
        let (a, b) = (self.arg(x, 1, Ty::B32)?, self.arg(x, 2, Ty::B32)?);
        let c = if x.operands.len() > 3 { self.arg(x, 3, Ty::B32)? } else { self.konst(Ty::B32, 0) };
        if bits >= 8 {
            // The machine's types: unsigned before signed, bytes before halves.
            let sub = d.is_signed() as u8 + if bits == 16 { 2 } else { 0 };
            // With 16 bits nothing is left of c.
            let v = self.one(Op::IPack, Attr { sub, ..Attr::default() }, &[a, b, c], Ty::B32);
            return self.dst(x, v, false);
        }
        let mask = self.konst(Ty::B32, (1 << bits) - 1);
        let mut element = |v: Value| {
            let v = self.clamp_to(v, bits, d.is_signed(), true);
            self.same(Op::And, &[v, mask])
        };
        let (a, b) = (element(a), element(b));
        let (one, two) = (self.konst(Ty::B32, bits as u64), self.konst(Ty::B32, 2 * bits as u64));
        let a = self.op(Op::Shl, &[a, one], Ty::B32);
        let c = self.op(Op::Shl, &[c, two], Ty::B32);
        let v = self.same(Op::Or, &[a, b]);
        let v = self.same(Op::Or, &[v, c]);
        self.dst(x, v, false)
    }

    /// An approximate function of halves: the special unit takes one at a time.
    pub(super) fn half_function(&mut self, x: &Inst, op: Op, t: T) -> Res {
        let single = match t {
            T::F16 | T::F16x2 => Fmt::F16,
            _ => Fmt::BF16,
        };
        let attr = Attr { fmt: single, ftz: x.ftz(), rnd: Rnd::Rn, ..Attr::default() };
        if fmt(t) == single {
            let a = self.arg(x, 1, Ty::B16)?;
            let v = self.one(op, attr, &[a], Ty::B16);
            return self.dst(x, v, false);
        }
        let a = self.arg(x, 1, Ty::B32)?;
        let (lo, hi) = self.b().halves(a);
        let (lo, hi) = (self.one(op, attr, &[lo], Ty::B16), self.one(op, attr, &[hi], Ty::B16));
        let v = self.pack(lo, hi);
        self.dst(x, v, false)
    }
}
