//! `cvt`, `cvta`, `isspacep`.

use super::arith::{fmt, rnd};
use super::{Lower, Res};
use crate::ir::{Attr, Cmp, Mem, MemSpace, Op, Sreg, Ty, Value};
use ptx::access::Rounding;
use ptx::isa::{Mod, Op as P};
use ptx::module::{Inst, Operand};
use ptx::types::{ScalarType as T, Space};

impl Lower<'_, '_> {
    pub(super) fn conversion(&mut self, x: &Inst) -> Res {
        match x.op {
            P::Cvta => self.cvta(x),
            P::Isspacep => {
                let a = self.arg(x, 1, Ty::B64)?;
                let v = match x.space() {
                    Space::Global => {
                        // The window of the constants is global memory to the machine.
                        let global = self.is_space(a, MemSpace::Global, 0);
                        let constant = self.is_constant(a);
                        let other = self.same(Op::Not, &[constant]);
                        self.same(Op::And, &[global, other])
                    }
                    Space::Shared => self.is_space(a, MemSpace::Shared, 0),
                    Space::SharedCluster => self.is_space(a, MemSpace::Shared, 1),
                    Space::Local => self.is_space(a, MemSpace::Local, 0),
                    Space::Const => self.is_constant(a),
                    Space::Param | Space::ParamEntry => {
                        let (first, end) = (self.sreg(Sreg::ParamAddress, Ty::B64), self.sreg(Sreg::ParamEnd, Ty::B64));
                        let above = self.b().icmp(Cmp::Ge, false, a, first);
                        let below = self.b().icmp(Cmp::Le, false, a, end);
                        self.same(Op::And, &[above, below])
                    }
                    _ => return self.unsupported(x),
                };
                self.dst(x, v, false)
            }
            _ => self.cvt(x),
        }
    }

    /// Whether a generic address lies in a space that the machine can tell; `sub` 1: in any CTA of the cluster.
    fn is_space(&mut self, a: Value, space: MemSpace, sub: u8) -> Value {
        let mem = Mem { space, ..Mem::default() };
        let id = self.b().push(Op::IsSpace, Attr { sub, ..Attr::default() }, mem, 0, &[a], &[Ty::P]);
        self.f.inst(id).results[0]
    }

    /// Whether a generic address lies among the constants of the module.
    fn is_constant(&mut self, a: Value) -> Value {
        let size = self.cx.layout.constant_size;
        if size == 0 {
            return self.konst(Ty::P, 0);
        }
        let base = self.window_base(MemSpace::Const);
        let at = self.same(Op::ISub, &[a, base]);
        let size = self.konst(Ty::B64, size as u64);
        self.b().icmp(Cmp::Lt, false, at, size)
    }

    fn cvt(&mut self, x: &Inst) -> Res {
        let types = x.types();
        let (Some(&d), Some(&s)) = (types.first(), types.get(1)) else { return self.unsupported(x) };
        if let Some(done) = self.narrow(x, d, s) {
            return done;
        }
        if x.has(Mod::Relu) || x.has(Mod::Satfinite) || types.len() > 2 {
            return self.unsupported(x);
        }
        let known = |t: T| t.is_int() || matches!(t, T::F16 | T::BF16 | T::F32 | T::F64);
        if !known(d) || !known(s) || x.operands.len() != 2 {
            return self.unsupported(x);
        }
        let v = match (d.is_float(), s.is_float()) {
            (false, false) => self.int_to_int(x, d, s)?,
            (false, true) => self.float_to_int(x, d, s)?,
            (true, false) => self.int_to_float(x, d, s)?,
            (true, true) => self.float_to_float(x, d, s)?,
        };
        self.dst(x, v, d.is_signed())
    }

    /// The source of an integer conversion, extended to 32 or 64 bits by its type.
    fn int_source(&mut self, x: &Inst, s: T) -> Res<Value> {
        let reg = match x.operands.get(1) {
            Some(Operand::Reg { reg, .. }) => self.reg_ty(*reg),
            _ => self.ty(s, x)?,
        };
        let v = self.arg(x, 1, reg)?;
        Ok(match s.bits() {
            64 => self.b().resize(v, Ty::B64, s.is_signed()),
            32 => self.b().resize(v, Ty::B32, s.is_signed()),
            bits => {
                let v = self.b().resize(v, Ty::B32, false);
                self.extend_bits(v, bits, s.is_signed())
            }
        })
    }

    /// The low `bits` (8 or 16) of a 32-bit value, extended.
    fn extend_bits(&mut self, v: Value, bits: u32, signed: bool) -> Value {
        if bits == 16 {
            let half = self.op(Op::Trunc, &[v], Ty::B16);
            return self.op(if signed { Op::Sext } else { Op::Zext }, &[half], Ty::B32);
        }
        let (zero, width) = (self.konst(Ty::B32, 0), self.konst(Ty::B32, bits as u64));
        self.one(Op::Bfe, Attr { signed, ..Attr::default() }, &[v, zero, width], Ty::B32)
    }

    /// Cuts a 32- or 64-bit integer to the destination type: what the register then holds is extended by that type.
    fn int_result(&mut self, v: Value, d: T) -> Value {
        match d.bits() {
            64 => v,
            32 => self.b().resize(v, Ty::B32, false),
            bits => {
                let v = self.b().resize(v, Ty::B32, false);
                self.extend_bits(v, bits, d.is_signed())
            }
        }
    }

    fn int_to_int(&mut self, x: &Inst, d: T, s: T) -> Res<Value> {
        let mut v = self.int_source(x, s)?;
        if x.sat() {
            v = self.clamp(v, d, s.is_signed());
        }
        if d.bits() == 64 {
            return Ok(self.b().resize(v, Ty::B64, s.is_signed()));
        }
        Ok(self.int_result(v, d))
    }

    /// Clamps an integer to the range of `d`.
    fn clamp(&mut self, v: Value, d: T, signed: bool) -> Value {
        self.clamp_to(v, d.bits(), d.is_signed(), signed)
    }

    /// Clamps an integer, `signed` or not, to the range of `bits` bits.
    pub(super) fn clamp_to(&mut self, v: Value, bits: u32, to_signed: bool, signed: bool) -> Value {
        let ty = self.f.ty(v);
        if bits > ty.bits() {
            return if signed && !to_signed { self.at_least_zero(v) } else { v };
        }
        let attr = Attr { signed, ..Attr::default() };
        let (lo, hi): (i128, i128) =
            if to_signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
        let range = if signed {
            (-(1i128 << (ty.bits() - 1)), (1i128 << (ty.bits() - 1)) - 1)
        } else {
            (0, (1i128 << ty.bits()) - 1)
        };
        let mut v = v;
        if hi < range.1 {
            let c = self.konst(ty, hi as u64);
            v = self.one(Op::IMin, attr, &[v, c], ty);
        }
        if lo > range.0 {
            let c = self.konst(ty, lo as u64);
            v = self.one(Op::IMax, attr, &[v, c], ty);
        }
        v
    }

    fn at_least_zero(&mut self, v: Value) -> Value {
        let ty = self.f.ty(v);
        let zero = self.konst(ty, 0);
        self.one(Op::IMax, Attr { signed: true, ..Attr::default() }, &[v, zero], ty)
    }

    fn float_to_int(&mut self, x: &Inst, d: T, s: T) -> Res<Value> {
        let sty = self.ty(s, x)?;
        let a = self.arg(x, 1, sty)?;
        // Narrow results clamp in the unit, which leaves them in 32 bits.
        let wide = d.bits() == 64;
        let attr = Attr {
            fmt: fmt(s),
            rnd: rnd(x),
            ftz: x.ftz(),
            signed: d.is_signed(),
            sub: d.bits() as u8,
            ..Attr::default()
        };
        let v = self.one(Op::F2I, attr, &[a], if wide { Ty::B64 } else { Ty::B32 });
        Ok(self.int_result(v, d))
    }

    fn int_to_float(&mut self, x: &Inst, d: T, s: T) -> Res<Value> {
        let v = self.int_source(x, s)?;
        let ty = self.ty(d, x)?;
        let sub = self.f.ty(v).bits() as u8;
        let attr = Attr { fmt: fmt(d), rnd: rnd(x), signed: s.is_signed(), sub, ..Attr::default() };
        let v = self.one(Op::I2F, attr, &[v], ty);
        Ok(if x.sat() { self.one(Op::FSat, Attr { fmt: fmt(d), ..Attr::default() }, &[v], ty) } else { v })
    }

    fn float_to_float(&mut self, x: &Inst, d: T, s: T) -> Res<Value> {
        let (dty, sty) = (self.ty(d, x)?, self.ty(s, x)?);
        let a = self.arg(x, 1, sty)?;
        let integral = matches!(x.rounding(), Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi));
        let attr = Attr { fmt: fmt(d), fmt2: fmt(s), rnd: rnd(x), ftz: x.ftz(), ..Attr::default() };
        let mut v = if d == s {
            if integral { self.one(Op::FRound, attr, &[a], dty) } else { a }
        } else if integral {
            let r = self.one(Op::FRound, Attr { fmt: fmt(s), ..attr }, &[a], sty);
            self.one(Op::F2F, attr, &[r], dty)
        } else {
            self.one(Op::F2F, attr, &[a], dty)
        };
        if x.sat() {
            // Flushing concerns single precision only.
            let ftz = x.ftz() && d == T::F32;
            v = self.one(Op::FSat, Attr { fmt: fmt(d), ftz, ..Attr::default() }, &[v], dty);
        } else if x.ftz() && d == T::F32 && (d == s || s == T::BF16) && !integral {
            // Adding -0 flushes a subnormal and keeps everything else. Those of other types are none in f32.
            let minus_zero = self.konst(dty, 1 << (dty.bits() - 1));
            v = self.one(Op::FAdd, Attr { fmt: fmt(d), ftz: true, ..Attr::default() }, &[v, minus_zero], dty);
        }
        Ok(v)
    }

    fn cvta(&mut self, x: &Inst) -> Res {
        let ty = self.ty(x.ty(), x)?;
        if ty != Ty::B64 {
            return self.unsupported(x);
        }
        let to = x.has(Mod::To);
        let a = match x.operands.get(1) {
            Some(Operand::Var { var, offset }) => self.var_address(*var, *offset, x.span)?,
            _ => self.arg(x, 1, ty)?,
        };
        let v = match x.space() {
            Space::Global => a,
            Space::Shared | Space::SharedCluster if to => self.low_word(a),
            Space::Shared | Space::SharedCluster => self.shared_to_generic(a),
            Space::Param | Space::ParamEntry => {
                let base = self.sreg(Sreg::ParamAddress, Ty::B64);
                if to { self.same(Op::ISub, &[a, base]) } else { self.same(Op::IAdd, &[a, base]) }
            }
            space @ (Space::Local | Space::Const) => {
                let base = self.window_base(if space == Space::Local { MemSpace::Local } else { MemSpace::Const });
                if to { self.same(Op::ISub, &[a, base]) } else { self.same(Op::IAdd, &[a, base]) }
            }
            _ => return self.unsupported(x),
        };
        self.dst(x, v, false)
    }

    fn low_word(&mut self, a: Value) -> Value {
        let lo = self.op(Op::Trunc, &[a], Ty::B32);
        self.op(Op::Zext, &[lo], Ty::B64)
    }

    fn shared_to_generic(&mut self, a: Value) -> Value {
        let lo = self.op(Op::Trunc, &[a], Ty::B32);
        let hi = self.one(Op::Sreg, Attr { sub: Sreg::SharedWindowHi as u8, ..Attr::default() }, &[], Ty::B32);
        self.pack(lo, hi)
    }
}
