//! Arithmetic, logic, comparison and data movement between registers.

use super::{Lower, Res, ir_ty, unsupported};
use crate::ir::{Attr, Cmp, Fmt, Op, Rnd, Ty, Value};
use diag::Diagnostic;
use ptx::access::{BoolOp, CmpOp, MulMode, Rounding, ShiftMode};
use ptx::isa::{Mod, Op as P};
use ptx::module::{Inst, Operand};
use ptx::types::ScalarType as T;
use smallvec::SmallVec;

/// Arguments of an operation.
type Args = SmallVec<[Value; 3]>;

/// The float format of a PTX type; `None` for integers.
pub(super) fn fmt(t: T) -> Fmt {
    match t {
        T::F16 => Fmt::F16,
        T::F16x2 => Fmt::F16x2,
        T::BF16 => Fmt::BF16,
        T::BF16x2 => Fmt::BF16x2,
        T::F32 => Fmt::F32,
        T::F64 => Fmt::F64,
        _ => Fmt::None,
    }
}

/// The rounding of a result.
pub(super) fn rnd(x: &Inst) -> Rnd {
    match x.rounding() {
        Some(Rounding::Rz | Rounding::Rzi) => Rnd::Rz,
        Some(Rounding::Rm | Rounding::Rmi) => Rnd::Rm,
        Some(Rounding::Rp | Rounding::Rpi) => Rnd::Rp,
        _ => Rnd::Rn,
    }
}

/// How a comparison's outcome is combined with a predicate.
fn bool_op(b: BoolOp) -> Op {
    match b {
        BoolOp::And => Op::And,
        BoolOp::Or => Op::Or,
        BoolOp::Xor => Op::Xor,
    }
}

/// A comparison and whether it is forced unsigned (`lo`, `ls`, `hi`, `hs`).
fn cmp(c: CmpOp) -> (Cmp, bool) {
    match c {
        CmpOp::Eq => (Cmp::Eq, false),
        CmpOp::Ne => (Cmp::Ne, false),
        CmpOp::Lt => (Cmp::Lt, false),
        CmpOp::Le => (Cmp::Le, false),
        CmpOp::Gt => (Cmp::Gt, false),
        CmpOp::Ge => (Cmp::Ge, false),
        CmpOp::Lo => (Cmp::Lt, true),
        CmpOp::Ls => (Cmp::Le, true),
        CmpOp::Hi => (Cmp::Gt, true),
        CmpOp::Hs => (Cmp::Ge, true),
        CmpOp::Equ => (Cmp::Equ, false),
        CmpOp::Neu => (Cmp::Neu, false),
        CmpOp::Ltu => (Cmp::Ltu, false),
        CmpOp::Leu => (Cmp::Leu, false),
        CmpOp::Gtu => (Cmp::Gtu, false),
        CmpOp::Geu => (Cmp::Geu, false),
        CmpOp::Num => (Cmp::Num, false),
        CmpOp::Nan => (Cmp::Nan, false),
    }
}

impl Lower<'_, '_> {
    /// The IR type of an instruction's type modifier.
    pub(super) fn ty(&self, t: T, x: &Inst) -> Res<Ty> {
        ir_ty(t).map_or_else(|| unsupported(format!("'{}' of type .{}", x.op.name(), t.name()), x.span), Ok)
    }

    pub(super) fn unsupported(&self, x: &Inst) -> Res {
        let mods: String = x.mods.iter().map(|m| format!(".{}", m.name())).collect();
        unsupported(format!("instruction '{}{mods}'", x.op.name()), x.span)
    }

    fn attr(&self, x: &Inst, t: T) -> Attr {
        Attr { fmt: fmt(t), rnd: rnd(x), ftz: x.ftz(), sat: x.sat(), signed: t.is_signed(), ..Attr::default() }
    }

    /// Writes the first operand.
    pub(super) fn dst(&mut self, x: &Inst, v: Value, signed: bool) -> Res {
        match x.operands.first() {
            Some(d) => self.write(d, v, signed),
            None => Err(Diagnostic::error(format!("'{}' lacks a destination", x.op.name())).at(x.span)),
        }
    }

    /// Lowers one instruction that does not end a block.
    pub(super) fn inst(&mut self, x: &Inst) -> Res {
        let t = x.ty();
        match x.op {
            _ if super::asynchronous::is_ours(x) => self.asynchronous(x),
            _ if super::texture::is_ours(x) => self.texture(x),
            P::Add | P::Sub | P::Mul | P::Mad | P::Fma | P::Div | P::Min | P::Max if t.is_float() => self.float(x, t),
            P::Neg | P::Abs | P::Rcp | P::Sqrt | P::Rsqrt | P::Sin | P::Cos | P::Ex2 | P::Lg2 | P::Tanh
                if t.is_float() =>
            {
                self.float(x, t)
            }
            P::Copysign => self.copysign(x, t),
            P::Testp => self.testp(x, t),
            P::Add | P::Sub | P::Min | P::Max | P::Div | P::Rem | P::Abs | P::Neg => self.integer(x, t),
            P::Addc | P::Subc => self.carry(x, t),
            P::Mul | P::Mad | P::Madc | P::Mul24 | P::Mad24 => self.multiply(x, t),
            P::Sad => self.sad(x, t),
            P::And | P::Or | P::Xor | P::Not | P::Cnot | P::Lop3 => self.logic(x, t),
            P::Shl | P::Shr | P::Shf => self.shift(x, t),
            P::Popc | P::Clz | P::Bfind | P::Brev | P::Bfe | P::Bfi | P::Prmt | P::Bmsk | P::Szext | P::Fns => {
                self.bits(x, t)
            }
            P::Dp4a | P::Dp2a => self.dot(x),
            P::Setp | P::Set => self.compare(x),
            P::Selp | P::Slct => self.select(x, t),
            P::Mov => self.mov(x, t),
            P::Cvt | P::Cvta | P::Isspacep => self.conversion(x),
            P::Ld | P::Ldu | P::St | P::Atom | P::Red | P::Membar | P::Fence => self.memory(x),
            P::Prefetch | P::Prefetchu | P::Applypriority | P::Discard => self.memory(x),
            _ if super::stack::is_ours(x.op) => self.stack(x),
            P::Istypep => self.is_reference(x),
            P::Multimem => self.multimem(x),
            P::Tensormap => self.tensormap(x),
            P::Createpolicy => self.create_policy(x),
            P::Call => self.call(x),
            P::Vadd | P::Vsub | P::Vabsdiff | P::Vmin | P::Vmax | P::Vshl | P::Vshr | P::Vmad | P::Vset => {
                self.video(x)
            }
            P::Vadd2 | P::Vsub2 | P::Vabsdiff2 | P::Vmin2 | P::Vmax2 | P::Vavrg2 | P::Vset2 => self.video(x),
            P::Vadd4 | P::Vsub4 | P::Vabsdiff4 | P::Vmin4 | P::Vmax4 | P::Vavrg4 | P::Vset4 => self.video(x),
            P::Mma => self.mma(x),
            P::Movmatrix => self.movmatrix(x),
            P::Wmma => self.wmma(x),
            P::Wgmma => self.wgmma(x),
            P::Setmaxnreg => self.set_max_registers(x),
            _ => self.warp(x),
        }
    }

    fn float(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        let mut attr = self.attr(x, t);
        if x.mods.iter().filter(|&&m| T::from_mod(m).is_some()).count() > 1 {
            return self.unsupported(x);
        }
        let (mut approx, mut sub, mut magnitudes, mut xorsign) = (0, 0, false, false);
        for &m in x.mods {
            match m {
                Mod::Full => approx = 2,
                Mod::Approx => approx = approx.max(1),
                Mod::NaN => sub |= 1,
                Mod::Relu => sub |= 2,
                Mod::Xorsign => (sub, xorsign) = (sub | 2, true),
                Mod::Oob => sub |= 4,
                Mod::Abs => magnitudes = true,
                _ => {}
            }
        }
        attr.sub = approx | sub;
        // PTX lets the compiler fuse what does not name its rounding.
        if matches!(x.op, P::Add | P::Sub | P::Mul) && x.rounding().is_none() {
            attr.sub |= crate::opt::contract::MAY_FUSE;
        }
        match x.op {
            P::Ex2 if fmt(t) != Fmt::F32 => return self.half_function(x, Op::FEx2, t),
            P::Tanh if fmt(t) != Fmt::F32 => return self.half_function(x, Op::FTanh, t),
            _ => {}
        }
        let n = x.operands.len() - 1;
        let mut args: Args = SmallVec::new();
        for i in 1..=n {
            let v = self.arg(x, i, ty)?;
            let plain = Attr { fmt: attr.fmt, ..Attr::default() };
            args.push(if n > 1 && magnitudes && !xorsign { self.one(Op::FAbs, plain, &[v], ty) } else { v });
        }
        let v = if t == T::F32x2 {
            // Two singles, each on its own.
            let single = Attr { fmt: Fmt::F32, ..attr };
            let mut parts = [None; 2];
            for (part, word) in parts.iter_mut().zip([Op::Trunc, Op::Hi]) {
                let args = args.iter().map(|&v| self.op(word, &[v], Ty::B32)).collect();
                *part = Some(self.float_value(x, single, args, Ty::B32)?);
            }
            let [Some(lo), Some(hi)] = parts else { return self.unsupported(x) };
            self.op(Op::Pack, &[lo, hi], ty)
        } else {
            self.float_value(x, attr, args, ty)?
        };
        self.dst(x, v, false)
    }

    /// What a floating-point instruction computes of one value each.
    fn float_value(&mut self, x: &Inst, attr: Attr, mut args: Args, ty: Ty) -> Res<Value> {
        let op = match x.op {
            P::Add => Op::FAdd,
            P::Sub => {
                let neg = Attr { fmt: attr.fmt, ..Attr::default() };
                args[1] = self.one(Op::FNeg, neg, &[args[1]], ty);
                Op::FAdd
            }
            P::Mul => Op::FMul,
            P::Fma | P::Mad => Op::FFma,
            P::Div => Op::FDiv,
            P::Min => Op::FMin,
            P::Max => Op::FMax,
            P::Neg => Op::FNeg,
            P::Abs => Op::FAbs,
            P::Rcp => Op::FRcp,
            P::Sqrt => Op::FSqrt,
            P::Rsqrt => Op::FRsqrt,
            P::Sin => Op::FSin,
            P::Cos => Op::FCos,
            P::Ex2 => Op::FEx2,
            P::Lg2 => Op::FLg2,
            P::Tanh => Op::FTanh,
            _ => return unsupported(format!("instruction '{}' of floats", x.op.name()), x.span),
        };
        // The least of three is that of the first two and the third.
        if matches!(op, Op::FMin | Op::FMax)
            && let &[a, b, c] = args.as_slice()
        {
            let two = self.one(op, attr, &[a, b], ty);
            return Ok(self.one(op, attr, &[two, c], ty));
        }
        Ok(self.one(op, attr, &args, ty))
    }

    fn copysign(&mut self, x: &Inst, t: T) -> Res {
        // copysign d, a, b: the sign of a, the magnitude of b.
        let ty = self.ty(t, x)?;
        let (a, b) = (self.arg(x, 1, ty)?, self.arg(x, 2, ty)?);
        let sign = 1u64 << (ty.bits() - 1);
        let (s, m) = (self.konst(ty, sign), self.konst(ty, !sign));
        let a = self.same(Op::And, &[a, s]);
        let b = self.same(Op::And, &[b, m]);
        let v = self.same(Op::Or, &[a, b]);
        self.dst(x, v, false)
    }

    fn testp(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        let a = self.arg(x, 1, ty)?;
        let (inf, min) = match t {
            T::F32 => (0x7f80_0000u64, 0x0080_0000u64),
            T::F64 => (0x7ff0_0000_0000_0000, 0x0010_0000_0000_0000),
            _ => return self.unsupported(x),
        };
        let m = self.konst(ty, !(1u64 << (ty.bits() - 1)));
        let mag = self.same(Op::And, &[a, m]);
        let (inf, min, zero) = (self.konst(ty, inf), self.konst(ty, min), self.konst(ty, 0));
        let less = |l: &mut Self, c: Cmp, b: Value| l.b().icmp(c, false, mag, b);
        let v = if x.has(Mod::Finite) {
            less(self, Cmp::Lt, inf)
        } else if x.has(Mod::Infinite) {
            less(self, Cmp::Eq, inf)
        } else if x.has(Mod::Number) {
            less(self, Cmp::Le, inf)
        } else if x.has(Mod::Notanumber) {
            less(self, Cmp::Gt, inf)
        } else if x.has(Mod::Normal) {
            let a = less(self, Cmp::Lt, inf);
            let b = less(self, Cmp::Ge, min);
            let both = self.same(Op::And, &[a, b]);
            let zero = less(self, Cmp::Eq, zero);
            self.same(Op::Or, &[both, zero])
        } else if x.has(Mod::Subnormal) {
            // Zero counts as normal in PTX's test.
            let a = less(self, Cmp::Lt, min);
            let b = less(self, Cmp::Ne, zero);
            self.same(Op::And, &[a, b])
        } else {
            return self.unsupported(x);
        };
        self.dst(x, v, false)
    }

    fn integer(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        if ty == Ty::P || t.bits() == 8 {
            return self.unsupported(x);
        }
        if matches!(t, T::U8x4 | T::S8x4) || x.sat() && matches!(t, T::U16x2 | T::S16x2) {
            return self.packed_numbers(x, t);
        }
        let attr = Attr { signed: t.is_signed(), ..Attr::default() };
        let a = self.arg(x, 1, ty)?;
        if matches!(t, T::U16x2 | T::S16x2) {
            let b = self.arg(x, 2, ty)?;
            let op = match x.op {
                P::Add => Op::IAdd2,
                P::Min => Op::IMin2,
                P::Max => Op::IMax2,
                _ => return self.unsupported(x),
            };
            let v = self.one(op, Attr { sub: x.has(Mod::Relu) as u8, ..attr }, &[a, b], ty);
            return self.dst(x, v, false);
        }
        if matches!(x.op, P::Abs | P::Neg) {
            let v = self.same(if x.op == P::Abs { Op::IAbs } else { Op::INeg }, &[a]);
            return self.dst(x, v, t.is_signed());
        }
        let b = self.arg(x, 2, ty)?;
        if x.has(Mod::Cc) {
            let v = self.with_carry(x.op == P::Sub, a, b, None, true);
            return self.dst(x, v, false);
        }
        if x.sat() && !t.is_signed() {
            // A sum that is less than what was added to wrapped.
            let sum = self.same(Op::IAdd, &[a, b]);
            let wrapped = self.b().icmp(Cmp::Lt, false, sum, a);
            let most = self.konst(ty, u32::MAX as u64);
            let v = self.op(Op::Select, &[most, sum, wrapped], ty);
            return self.dst(x, v, false);
        }
        if x.sat() {
            let v = self.saturating(x.op == P::Sub, a, b);
            return self.dst(x, v, true);
        }
        let op = match x.op {
            P::Add => Op::IAdd,
            P::Sub => Op::ISub,
            P::Min => Op::IMin,
            P::Max => Op::IMax,
            P::Div => Op::IDiv,
            P::Rem => Op::IRem,
            _ => return self.unsupported(x),
        };
        // Sums of numbers with and without signs are the same.
        let plain = matches!(op, Op::IAdd | Op::ISub);
        let mut v = self.one(op, if plain { Attr::default() } else { attr }, &[a, b], ty);
        if x.has(Mod::Relu) {
            let zero = self.konst(ty, 0);
            v = self.one(Op::IMax, attr, &[v, zero], ty);
        }
        self.dst(x, v, t.is_signed())
    }

    /// `add.sat.s32`, `sub.sat.s32`: what leaves the range has another sign than a, which then says to which end it goes.
    fn saturating(&mut self, sub: bool, a: Value, b: Value) -> Value {
        let v = self.same(if sub { Op::ISub } else { Op::IAdd }, &[a, b]);
        // A sum may leave it only where the other one has the sign of a, a difference only where it has not.
        let (turned, other) = (self.same(Op::Xor, &[v, a]), self.same(Op::Xor, &[if sub { a } else { v }, b]));
        let left = self.same(Op::And, &[turned, other]);
        let (zero, most) = (self.konst(Ty::B32, 0), self.konst(Ty::B32, i32::MAX as u64));
        let left = self.b().icmp(Cmp::Lt, true, left, zero);
        let places = self.konst(Ty::B32, 31);
        let sign = self.one(Op::Shr, Attr { signed: true, ..Attr::default() }, &[a, places], Ty::B32);
        let end = self.same(Op::Xor, &[sign, most]);
        self.op(Op::Select, &[end, v, left], Ty::B32)
    }

    /// a + b or a - b with carry in (PTX's flag, where given) and, if asked, the flag written. The flag is the adder's carry, as the vendor's compiler and its
    /// hardware have it: a difference leaves 1 where nothing was borrowed, though the document speaks of the borrow (docs/ptx-notes.md). It matters where
    /// `subc` follows a sum or `addc` a difference.
    fn with_carry(&mut self, sub: bool, a: Value, b: Value, flag: Option<Value>, set: bool) -> Value {
        // The flag as a number: what is asked about it later can be asked of the flag.
        if let (Some(f), false, Some(0), Some(0), Ty::B32) =
            (flag, set, self.f.constant(a), self.f.constant(b), self.f.ty(a))
        {
            let other = self.konst(Ty::B32, if sub { u64::from(u32::MAX) } else { 1 });
            return self.same(Op::Select, &if sub { [a, other, f] } else { [other, a, f] });
        }
        let carry = flag.unwrap_or_else(|| self.konst(Ty::P, sub as u64));
        let ty = self.f.ty(a);
        let op = if sub { Op::SubC } else { Op::AddC };
        let id = self.b().push(op, Attr::default(), Default::default(), 0, &[a, b, carry], &[ty, Ty::P]);
        let (v, out) = (self.f.inst(id).results[0], self.f.inst(id).results[1]);
        if set {
            let var = self.carry_var();
            self.write_var_guarded(var, out);
        }
        v
    }

    fn carry(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        let (a, b) = (self.arg(x, 1, ty)?, self.arg(x, 2, ty)?);
        let flag = self.read_var(self.carry_var());
        let v = self.with_carry(x.op == P::Subc, a, b, Some(flag), x.has(Mod::Cc));
        self.dst(x, v, false)
    }

    fn multiply(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        if matches!(x.op, P::Mul24 | P::Mad24) {
            return self.multiply24(x, t);
        }
        let mode = x.mul_mode().unwrap_or(MulMode::Lo);
        let attr = Attr { signed: t.is_signed(), ..Attr::default() };
        let (a, b) = (self.arg(x, 1, ty)?, self.arg(x, 2, ty)?);
        let wide = match ty {
            Ty::B16 => Ty::B32,
            _ => Ty::B64,
        };
        if mode == MulMode::Wide {
            let v = if x.op == P::Mad {
                let c = self.arg(x, 3, wide)?;
                self.one(Op::IMadWide, attr, &[a, b, c], wide)
            } else {
                self.one(Op::IMulWide, attr, &[a, b], wide)
            };
            return self.dst(x, v, t.is_signed());
        }
        let carries = x.op == P::Madc || x.has(Mod::Cc);
        if x.op == P::Mul {
            let v = if mode == MulMode::Lo {
                self.op(Op::IMul, &[a, b], ty)
            } else {
                self.one(Op::IMulHi, attr, &[a, b], ty)
            };
            return self.dst(x, v, t.is_signed());
        }
        let c = self.arg(x, 3, ty)?;
        if mode == MulMode::Lo && !carries {
            // Addresses are sums: what is added to one is found there. Selection puts the product into it.
            let v = if ty == Ty::B64 {
                let product = self.op(Op::IMul, &[a, b], ty);
                self.op(Op::IAdd, &[product, c], ty)
            } else {
                self.op(Op::IMad, &[a, b, c], ty)
            };
            return self.dst(x, v, t.is_signed());
        }
        let p =
            if mode == MulMode::Lo { self.op(Op::IMul, &[a, b], ty) } else { self.one(Op::IMulHi, attr, &[a, b], ty) };
        let v = if x.sat() {
            self.saturating(false, p, c)
        } else if carries {
            let flag = if x.op == P::Madc { Some(self.read_var(self.carry_var())) } else { None };
            self.with_carry(false, p, c, flag, x.has(Mod::Cc))
        } else {
            self.same(Op::IAdd, &[p, c])
        };
        self.dst(x, v, t.is_signed())
    }

    /// `mul24`, `mad24` and the saturating `mad.hi`.
    fn multiply24(&mut self, x: &Inst, t: T) -> Res {
        let signed = t.is_signed();
        let attr = Attr { signed, ..Attr::default() };
        let (zero, width) = (self.konst(Ty::B32, 0), self.konst(Ty::B32, 24));
        let mut ops = Vec::new();
        for i in 1..=2 {
            let v = self.arg(x, i, Ty::B32)?;
            ops.push(self.one(Op::Bfe, attr, &[v, zero, width], Ty::B32));
        }
        // 48-bit product: .lo takes bits 31:0, .hi bits 47:16.
        let mut v = if x.mul_mode() == Some(MulMode::Hi) {
            let p = self.one(Op::IMulWide, attr, &ops, Ty::B64);
            let n = self.konst(Ty::B32, 16);
            let p = self.op(Op::Shr, &[p, n], Ty::B64);
            self.op(Op::Trunc, &[p], Ty::B32)
        } else {
            self.op(Op::IMul, &ops, Ty::B32)
        };
        if x.op == P::Mad24 {
            let c = self.arg(x, 3, Ty::B32)?;
            v = if x.sat() { self.saturating(false, v, c) } else { self.same(Op::IAdd, &[v, c]) };
        }
        self.dst(x, v, signed)
    }

    fn sad(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        let signed = Attr { signed: t.is_signed(), ..Attr::default() };
        let (a, b, c) = (self.arg(x, 1, ty)?, self.arg(x, 2, ty)?, self.arg(x, 3, ty)?);
        let hi = self.one(Op::IMax, signed, &[a, b], ty);
        let lo = self.one(Op::IMin, signed, &[a, b], ty);
        let d = self.same(Op::ISub, &[hi, lo]);
        let v = self.same(Op::IAdd, &[d, c]);
        self.dst(x, v, t.is_signed())
    }

    fn logic(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        let a = self.arg(x, 1, ty)?;
        let v = match x.op {
            P::Not => self.same(Op::Not, &[a]),
            P::Cnot => {
                let (zero, one) = (self.konst(ty, 0), self.konst(ty, 1));
                let p = self.b().icmp(Cmp::Eq, false, a, zero);
                self.op(Op::Select, &[one, zero, p], ty)
            }
            P::Lop3 => {
                let (b, c) = (self.arg(x, 2, ty)?, self.arg(x, 3, ty)?);
                let Some(Operand::Int(lut)) = x.operands.get(4) else { return self.unsupported(x) };
                let v = self.one(Op::Lop3, Attr { sub: *lut as u8, ..Attr::default() }, &[a, b, c], ty);
                let Some(op) = x.bool_op() else { return self.dst(x, v, false) };
                let zero = self.konst(ty, 0);
                let some = self.b().icmp(Cmp::Ne, false, v, zero);
                let q = self.arg(x, 5, Ty::P)?;
                let p = self.same(bool_op(op), &[some, q]);
                let Some(Operand::Pair(pair)) = x.operands.first().cloned() else { return self.unsupported(x) };
                self.write(&pair.0, v, false)?;
                return self.write(&pair.1, p, false);
            }
            _ => {
                let b = self.arg(x, 2, ty)?;
                let op = match x.op {
                    P::And => Op::And,
                    P::Or => Op::Or,
                    _ => Op::Xor,
                };
                self.same(op, &[a, b])
            }
        };
        self.dst(x, v, false)
    }

    fn shift(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        let (a, n) = (self.arg(x, 1, ty)?, self.arg(x, 2, Ty::B32)?);
        let v = match x.op {
            P::Shl => self.op(Op::Shl, &[a, n], ty),
            P::Shr => self.one(Op::Shr, Attr { signed: t.is_signed(), ..Attr::default() }, &[a, n], ty),
            _ => {
                let c = self.arg(x, 3, Ty::B32)?;
                let sub = match (x.shift_mode(), x.wrap()) {
                    (Some(ShiftMode::Left), true) => 0,
                    (Some(ShiftMode::Left), false) => 1,
                    (_, true) => 2,
                    (_, false) => 3,
                };
                self.one(Op::Shf, Attr { sub, ..Attr::default() }, &[a, n, c], Ty::B32)
            }
        };
        self.dst(x, v, t.is_signed())
    }

    fn bits(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        let signed = Attr { signed: t.is_signed(), ..Attr::default() };
        let a = self.arg(x, 1, ty)?;
        let v = match x.op {
            P::Popc => self.op(Op::Popc, &[a], Ty::B32),
            P::Clz => self.op(Op::Clz, &[a], Ty::B32),
            P::Bfind => {
                let sub = x.has(Mod::Shiftamt) as u8;
                self.one(Op::Bfind, Attr { sub, ..signed }, &[a], Ty::B32)
            }
            P::Brev => self.same(Op::Brev, &[a]),
            P::Bfe => {
                let (b, c) = (self.arg(x, 2, Ty::B32)?, self.arg(x, 3, Ty::B32)?);
                self.one(Op::Bfe, signed, &[a, b, c], ty)
            }
            P::Bfi => {
                let b = self.arg(x, 2, ty)?;
                let (c, d) = (self.arg(x, 3, Ty::B32)?, self.arg(x, 4, Ty::B32)?);
                self.op(Op::Bfi, &[a, b, c, d], ty)
            }
            P::Prmt => {
                let (b, c) = (self.arg(x, 2, ty)?, self.arg(x, 3, ty)?);
                let modes = [Mod::F4e, Mod::B4e, Mod::Rc8, Mod::Ecl, Mod::Ecr, Mod::Rc16];
                let sub = modes.iter().position(|&m| x.has(m)).map_or(0, |i| i as u8 + 1);
                self.one(Op::Prmt, Attr { sub, ..Attr::default() }, &[a, b, c], ty)
            }
            P::Fns => {
                let (b, c) = (self.arg(x, 2, ty)?, self.arg(x, 3, ty)?);
                self.op(Op::Fns, &[a, b, c], ty)
            }
            P::Bmsk => {
                // b bits from a; `.wrap` takes both modulo 32, `.clamp` gives what fits.
                let b = self.arg(x, 2, ty)?;
                let (ones, zero) = (self.konst(ty, u64::MAX), self.konst(ty, 0));
                let (a, b) = if x.wrap() {
                    let m = self.konst(ty, 31);
                    (self.same(Op::And, &[a, m]), self.same(Op::And, &[b, m]))
                } else {
                    (a, b)
                };
                let field = self.op(Op::Shl, &[ones, b], ty);
                let field = self.same(Op::Not, &[field]);
                let none = self.b().icmp(Cmp::Eq, false, b, zero);
                let field = self.op(Op::Select, &[zero, field, none], ty);
                self.op(Op::Shl, &[field, a], ty)
            }
            P::Szext => {
                let n = self.arg(x, 2, ty)?;
                let n = if x.wrap() {
                    let m = self.konst(ty, 31);
                    self.same(Op::And, &[n, m])
                } else {
                    let whole = self.konst(ty, 32);
                    self.same(Op::IMin, &[n, whole])
                };
                let zero = self.konst(ty, 0);
                self.one(Op::Bfe, signed, &[a, zero, n], ty)
            }
            _ => return self.unsupported(x),
        };
        self.dst(x, v, x.op == P::Bfe && t.is_signed())
    }

    fn dot(&mut self, x: &Inst) -> Res {
        let t = x.types();
        let (Some(ta), Some(tb)) = (t.first(), t.get(1)) else { return self.unsupported(x) };
        let (a, b, c) = (self.arg(x, 1, Ty::B32)?, self.arg(x, 2, Ty::B32)?, self.arg(x, 3, Ty::B32)?);
        let hi = x.mul_mode() == Some(MulMode::Hi);
        let sub = ta.is_signed() as u8 | (tb.is_signed() as u8) << 1 | (hi as u8) << 2;
        let op = if x.op == P::Dp4a { Op::Dp4a } else { Op::Dp2a };
        let v = self.one(op, Attr { sub, ..Attr::default() }, &[a, b, c], Ty::B32);
        self.dst(x, v, true)
    }

    /// The predicate of a comparison of operands `n` and `n + 1`, of type `t`.
    fn comparison(&mut self, x: &Inst, t: T, n: usize) -> Res<Value> {
        let ty = self.ty(t, x)?;
        let (a, b) = (self.arg(x, n, ty)?, self.arg(x, n + 1, ty)?);
        let Some(c) = x.cmp() else {
            return unsupported(format!("'{}' without a comparison", x.op.name()), x.span);
        };
        let (c, unsigned) = cmp(c);
        Ok(if t.is_float() {
            let attr = Attr { fmt: fmt(t), cmp: c, ftz: x.ftz(), ..Attr::default() };
            self.one(Op::FCmp, attr, &[a, b], Ty::P)
        } else {
            self.b().icmp(c, t.is_signed() && !unsigned, a, b)
        })
    }

    fn compare(&mut self, x: &Inst) -> Res {
        let types = x.types();
        let t = if x.op == P::Set { types.get(1).copied() } else { types.first().copied() };
        let Some(t) = t else { return self.unsupported(x) };
        if matches!(t, T::F16x2 | T::BF16x2) {
            return self.compare_halves(x, t);
        }
        let c = self.comparison(x, t, 1)?;
        let combine = match x.bool_op() {
            Some(b) => {
                let p = self.arg(x, 3, Ty::P)?;
                Some((bool_op(b), p))
            }
            None => None,
        };
        let apply = |l: &mut Self, v: Value| match combine {
            Some((op, p)) => l.same(op, &[v, p]),
            None => v,
        };
        if x.op == P::Set {
            let p = apply(self, c);
            let d = types[0];
            let ty = self.ty(d, x)?;
            let ones = match d {
                T::F32 => 0x3f80_0000,
                T::F16 => 0x3c00,
                T::BF16 => 0x3f80,
                T::U32 | T::S32 | T::U16 | T::S16 => u64::MAX,
                _ => return self.unsupported(x),
            };
            let (ones, zero) = (self.konst(ty, ones), self.konst(ty, 0));
            let v = self.op(Op::Select, &[ones, zero, p], ty);
            return self.dst(x, v, false);
        }
        match x.operands.first().cloned() {
            Some(Operand::Pair(pair)) => {
                let p = apply(self, c);
                let not = self.same(Op::Not, &[c]);
                let q = apply(self, not);
                self.write(&pair.0, p, false)?;
                self.write(&pair.1, q, false)
            }
            _ => {
                let p = apply(self, c);
                self.dst(x, p, false)
            }
        }
    }

    /// `set` and `setp` of two halves each: an outcome for the lower and one for the upper ones.
    fn compare_halves(&mut self, x: &Inst, t: T) -> Res {
        let (a, b) = (self.arg(x, 1, Ty::B32)?, self.arg(x, 2, Ty::B32)?);
        let Some(c) = x.cmp() else { return self.unsupported(x) };
        let (sub, p) = match x.bool_op() {
            None => (0, self.konst(Ty::P, 1)),
            Some(BoolOp::And) => (0, self.arg(x, 3, Ty::P)?),
            Some(BoolOp::Or) => (1, self.arg(x, 3, Ty::P)?),
            Some(BoolOp::Xor) => (2, self.arg(x, 3, Ty::P)?),
        };
        let attr = Attr { fmt: fmt(t), cmp: cmp(c).0, ftz: x.ftz(), sub, ..Attr::default() };
        if x.op == P::Set {
            let ones = (x.types()[0].is_float() as u8) << 2;
            let v = self.one(Op::FSet2, Attr { sub: sub | ones, ..attr }, &[a, b, p], Ty::B32);
            return self.dst(x, v, false);
        }
        let id = self.b().push(Op::FCmp2, attr, Default::default(), 0, &[a, b, p], &[Ty::P, Ty::P]);
        let (low, high) = (self.f.inst(id).results[0], self.f.inst(id).results[1]);
        let Some(Operand::Pair(pair)) = x.operands.first().cloned() else { return self.unsupported(x) };
        self.write(&pair.0, low, false)?;
        self.write(&pair.1, high, false)
    }

    fn select(&mut self, x: &Inst, t: T) -> Res {
        let ty = self.ty(t, x)?;
        let (a, b) = (self.arg(x, 1, ty)?, self.arg(x, 2, ty)?);
        let p = if x.op == P::Slct {
            let tc = x.types().get(1).copied().unwrap_or(T::S32);
            let c = self.arg(x, 3, Ty::B32)?;
            let zero = self.konst(Ty::B32, 0);
            if tc == T::F32 {
                let attr = Attr { fmt: Fmt::F32, cmp: Cmp::Ge, ftz: x.ftz(), ..Attr::default() };
                self.one(Op::FCmp, attr, &[c, zero], Ty::P)
            } else {
                self.b().icmp(Cmp::Ge, true, c, zero)
            }
        } else {
            self.arg(x, 3, Ty::P)?
        };
        let v = self.op(Op::Select, &[a, b, p], ty);
        self.dst(x, v, false)
    }

    /// `mov`: a copy, an address, or packing and unpacking of vectors.
    fn mov(&mut self, x: &Inst, t: T) -> Res {
        // A vector register is what its elements are.
        let operand = |n: usize| {
            let o = x.operands.get(n)?;
            let elements = self.pf.elements_of(o).filter(|_| x.vector() == 1);
            Some(elements.map_or_else(|| o.clone(), |e| Operand::Vector(e.into_iter().collect())))
        };
        match (operand(0), operand(1)) {
            (Some(dst), Some(src)) if t.bits() == 128 => self.move_quad(x, &dst, &src),
            (Some(dst), Some(src)) if x.vector() > 1 => self.move_vector(x, &dst, &src, t),
            (Some(Operand::Vector(dst)), Some(src)) => {
                let whole = self.ty(t, x)?;
                let v = self.src(&src, whole, x.span)?;
                let parts = self.split_bits(v, dst.len(), x)?;
                for (d, p) in dst.iter().zip(parts) {
                    self.write(d, p, false)?;
                }
                Ok(())
            }
            (Some(dst), Some(Operand::Vector(src))) => {
                let whole = self.ty(t, x)?;
                let part = part_ty(whole, src.len());
                let Some(part) = part else { return self.pack_bytes(x, &dst, &src) };
                let mut vals = Vec::new();
                for s in &src {
                    vals.push(self.src(s, part, x.span)?);
                }
                let v = self.join_bits(&vals);
                self.write(&dst, v, false)
            }
            (Some(dst), Some(src)) => {
                let ty = self.ty(t, x)?;
                let v = self.src(&src, ty, x.span)?;
                self.write(&dst, v, false)
            }
            _ => self.unsupported(x),
        }
    }

    /// `mov.b128`, as two words of 64 bits; a vector has two parts, or four of half the size.
    fn move_quad(&mut self, x: &Inst, dst: &Operand, src: &Operand) -> Res {
        let halves = match src {
            Operand::Vector(list) if list.len() == 4 => {
                let part = |l: &mut Self, s: &Operand| l.src(s, Ty::B32, x.span);
                let values = list.iter().map(|s| part(self, s)).collect::<Res<Vec<Value>>>()?;
                [self.pack(values[0], values[1]), self.pack(values[2], values[3])].to_vec()
            }
            Operand::Vector(list) => list.iter().map(|s| self.src(s, Ty::B64, x.span)).collect::<Res<_>>()?,
            whole => {
                let parts = self.halves_of(std::slice::from_ref(whole), x)?;
                parts.iter().map(|s| self.src(s, Ty::B64, x.span)).collect::<Res<_>>()?
            }
        };
        let (parts, values) = match dst {
            Operand::Vector(list) if list.len() == 4 => {
                let words = halves.iter().map(|h| <[Value; 2]>::from(self.b().halves(*h)));
                (list.to_vec(), words.collect::<Vec<_>>().concat())
            }
            Operand::Vector(list) => (list.to_vec(), halves),
            whole => (self.halves_of(std::slice::from_ref(whole), x)?, halves),
        };
        for (d, v) in parts.iter().zip(values) {
            self.write(d, v, false)?;
        }
        Ok(())
    }

    /// `mov.v2` and `mov.v4`: element by element, all read before the first is written.
    fn move_vector(&mut self, x: &Inst, dst: &Operand, src: &Operand, t: T) -> Res {
        let ty = self.ty(t, x)?;
        let dst = self.vector_operands(dst);
        let values = match src {
            Operand::Special(ptx::types::SpecialReg::Whole(v)) => self.special_vector(*v, dst.len(), x.span)?,
            src => {
                let list = self.vector_operands(src);
                list.iter().map(|s| self.src(s, ty, x.span)).collect::<Res<Vec<Value>>>()?
            }
        };
        if values.len() != dst.len() {
            return self.unsupported(x);
        }
        for (d, v) in dst.iter().zip(values) {
            self.write(d, v, false)?;
        }
        Ok(())
    }

    /// Splits a value into `n` equal parts, low first.
    fn split_bits(&mut self, v: Value, n: usize, x: &Inst) -> Res<Vec<Value>> {
        let ty = self.f.ty(v);
        Ok(match (ty, n) {
            (Ty::B64, 2) | (Ty::B32, 2) => {
                let (lo, hi) = self.b().halves(v);
                vec![lo, hi]
            }
            (Ty::B64, 4) => {
                let (lo, hi) = self.b().halves(v);
                let (a, b) = self.b().halves(lo);
                let (c, d) = self.b().halves(hi);
                vec![a, b, c, d]
            }
            (Ty::B32, 4) | (Ty::B16, 2) => {
                let v = self.b().resize(v, Ty::B32, false);
                let width = self.konst(Ty::B32, 8);
                let mut out = Vec::new();
                for i in 0..n as u64 {
                    let at = self.konst(Ty::B32, i * 8);
                    let b = self.op(Op::Bfe, &[v, at, width], Ty::B32);
                    out.push(self.op(Op::Trunc, &[b], Ty::B16));
                }
                out
            }
            _ => return unsupported(format!("unpacking into {n} parts"), x.span),
        })
    }

    fn join_bits(&mut self, parts: &[Value]) -> Value {
        let mut parts = parts.to_vec();
        while parts.len() > 1 {
            parts = parts.chunks(2).map(|c| if let [a, b] = c { self.pack(*a, *b) } else { c[0] }).collect();
        }
        parts[0]
    }

    pub(super) fn pack(&mut self, lo: Value, hi: Value) -> Value {
        let ty = if self.f.ty(lo) == Ty::B16 { Ty::B32 } else { Ty::B64 };
        self.op(Op::Pack, &[lo, hi], ty)
    }

    /// `mov.b32 d, {a, b, c, e}` and `mov.b16 d, {a, b}` of bytes.
    fn pack_bytes(&mut self, x: &Inst, dst: &Operand, src: &[Operand]) -> Res {
        let bits = x.ty().bits();
        if !matches!((src.len(), bits), (4, 32) | (2, 16)) {
            return unsupported(format!("packing {} parts", src.len()), x.span);
        }
        let mut v = self.konst(Ty::B32, 0);
        let width = self.konst(Ty::B32, 8);
        for (i, s) in src.iter().enumerate() {
            let b = self.src(s, Ty::B16, x.span)?;
            let b = self.op(Op::Zext, &[b], Ty::B32);
            let at = self.konst(Ty::B32, i as u64 * 8);
            v = self.op(Op::Bfi, &[b, v, at, width], Ty::B32);
        }
        let v = if bits == 16 { self.op(Op::Trunc, &[v], Ty::B16) } else { v };
        self.write(dst, v, false)
    }
}

/// The type of one of `n` equal parts of `whole`, if a register can hold it.
fn part_ty(whole: Ty, n: usize) -> Option<Ty> {
    match (whole, n) {
        (Ty::B64, 2) => Some(Ty::B32),
        (Ty::B32, 2) | (Ty::B64, 4) => Some(Ty::B16),
        _ => None,
    }
}
