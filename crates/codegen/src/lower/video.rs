//! Video instructions: scalar ones of bytes and halves, and those of two and four lanes. Section 9.7.18 of the PTX ISA.
//!
//! Everything is done on numbers that are wide enough to be exact: 32 bits where both operands are bytes or halves, else
//! 64. What the document leaves to 32 bits (the second operation, the saturated result) is cut before it.

use super::{Lower, Res};
use crate::ir::{Attr, Cmp, Op, Ty, Value};
use ptx::access::CmpOp;
use ptx::isa::{Mod, Op as P};
use ptx::module::{Inst, Operand, Select};
use ptx::types::ScalarType as T;

/// An operand: its word, negation and selection.
struct Picked {
    word: Value,
    negated: bool,
    select: Option<Select>,
}

/// What is computed of two numbers.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Add,
    Sub,
    AbsDiff,
    Min,
    Max,
    Average,
    Shl,
    Shr,
    Set(Cmp),
}

/// A number: its value reads as signed or not.
#[derive(Clone, Copy)]
struct Number {
    v: Value,
    signed: bool,
}

/// Bits of a selected part.
fn width(s: Option<Select>) -> u32 {
    s.map_or(32, |s| if s.halves { 16 } else { 8 })
}

fn kind(x: &Inst) -> Option<(Kind, u32)> {
    use P::*;
    let lanes = match x.op {
        Vadd2 | Vsub2 | Vabsdiff2 | Vmin2 | Vmax2 | Vavrg2 | Vset2 => 2,
        Vadd4 | Vsub4 | Vabsdiff4 | Vmin4 | Vmax4 | Vavrg4 | Vset4 => 4,
        _ => 1,
    };
    let kind = match x.op {
        Vadd | Vadd2 | Vadd4 => Kind::Add,
        Vsub | Vsub2 | Vsub4 => Kind::Sub,
        Vabsdiff | Vabsdiff2 | Vabsdiff4 => Kind::AbsDiff,
        Vmin | Vmin2 | Vmin4 => Kind::Min,
        Vmax | Vmax2 | Vmax4 => Kind::Max,
        Vavrg2 | Vavrg4 => Kind::Average,
        Vshl => Kind::Shl,
        Vshr => Kind::Shr,
        Vset | Vset2 | Vset4 => Kind::Set(match x.cmp()? {
            CmpOp::Eq => Cmp::Eq,
            CmpOp::Ne => Cmp::Ne,
            CmpOp::Lt => Cmp::Lt,
            CmpOp::Le => Cmp::Le,
            CmpOp::Gt => Cmp::Gt,
            CmpOp::Ge => Cmp::Ge,
            _ => return None,
        }),
        _ => return None,
    };
    Some((kind, lanes))
}

fn sign(signed: bool) -> Attr {
    Attr { signed, ..Attr::default() }
}

impl Lower<'_, '_> {
    pub(super) fn video(&mut self, x: &Inst) -> Res {
        if x.operands.len() < 3 {
            return self.unsupported(x);
        }
        let (dst, into) = match &x.operands[0] {
            Operand::Part { reg, select, .. } => (Operand::Reg { reg: *reg, elem: None }, Some(*select)),
            other => (other.clone(), None),
        };
        let (a, b) = (self.picked(x, 1)?, self.picked(x, 2)?);
        let c = if x.operands.len() > 3 { Some(self.picked(x, 3)?) } else { None };
        let set = matches!(x.op, P::Vset | P::Vset2 | P::Vset4);
        let (d, at, bt) = match x.types().as_slice() {
            [a, b] if set => (T::U32, *a, *b),
            [d, a, b] => (*d, *a, *b),
            _ => return self.unsupported(x),
        };
        let types = [d.is_signed(), at.is_signed(), bt.is_signed()];
        let v = if x.op == P::Vmad {
            let Some(c) = c else { return self.unsupported(x) };
            self.vmad(x, [&a, &b, &c], [types[1], types[2]])
        } else {
            let Some((kind, lanes)) = kind(x) else { return self.unsupported(x) };
            if lanes == 1 {
                self.scalar_video(x, kind, [&a, &b], c.as_ref(), into, types)
            } else {
                self.simd_video(x, (kind, lanes), [&a, &b], c.as_ref(), into, types)
            }
        };
        self.write(&dst, v, false)
    }

    /// Numbers of 8 or 16 bits beside each other (`add.sat.s8x4`): each on its own, as by a SIMD video instruction.
    pub(super) fn packed_numbers(&mut self, x: &Inst, t: T) -> Res {
        let signed = t.is_signed();
        let lanes = if matches!(t, T::U8x4 | T::S8x4) { 4 } else { 2 };
        let plain = |word: Value| Picked { word, negated: false, select: None };
        let zero = self.konst(Ty::B32, 0);
        let a = self.arg(x, 1, Ty::B32)?;
        let kind = match x.op {
            P::Add => Kind::Add,
            P::Sub | P::Neg => Kind::Sub,
            P::Min => Kind::Min,
            P::Max => Kind::Max,
            _ => return self.unsupported(x),
        };
        let (a, b) = if x.op == P::Neg { (zero, a) } else { (a, self.arg(x, 2, Ty::B32)?) };
        let mut v = self.simd_video(x, (kind, lanes), [&plain(a), &plain(b)], None, None, [signed; 3]);
        if x.has(Mod::Relu) {
            v = self.simd_video(x, (Kind::Max, lanes), [&plain(v), &plain(zero)], None, None, [signed; 3]);
        }
        self.dst(x, v, false)
    }

    fn picked(&mut self, x: &Inst, n: usize) -> Res<Picked> {
        let (plain, negated, select) = match &x.operands[n] {
            Operand::Part { reg, negated, select } => (Operand::Reg { reg: *reg, elem: None }, *negated, Some(*select)),
            Operand::NegReg(reg) => (Operand::Reg { reg: *reg, elem: None }, true, None),
            other => (other.clone(), false, None),
        };
        Ok(Picked { word: self.src(&plain, Ty::B32, x.span)?, negated, select })
    }

    /// `bits` bits from bit `at` on, as a number of 32 bits.
    fn field(&mut self, word: Value, at: u32, bits: u32, signed: bool) -> Value {
        if bits == 32 {
            return word;
        }
        let (at, bits) = (self.konst(Ty::B32, at as u64), self.konst(Ty::B32, bits as u64));
        self.one(Op::Bfe, sign(signed), &[word, at, bits], Ty::B32)
    }

    /// The part that a scalar instruction selects.
    fn part(&mut self, p: &Picked, signed: bool) -> Value {
        let at = p.select.map_or(0, |s| width(p.select) * s.lanes[0] as u32);
        self.field(p.word, at, width(p.select), signed)
    }

    /// The operation on two numbers of one width; its result fits that width.
    fn combine(&mut self, kind: Kind, a: Value, b: Value, signed: bool) -> Value {
        let ty = self.f.ty(a);
        let attr = sign(signed);
        match kind {
            Kind::Add => self.same(Op::IAdd, &[a, b]),
            Kind::Sub => self.same(Op::ISub, &[a, b]),
            Kind::Min => self.one(Op::IMin, attr, &[a, b], ty),
            Kind::Max => self.one(Op::IMax, attr, &[a, b], ty),
            Kind::AbsDiff => {
                let hi = self.one(Op::IMax, attr, &[a, b], ty);
                let lo = self.one(Op::IMin, attr, &[a, b], ty);
                self.same(Op::ISub, &[hi, lo])
            }
            Kind::Average => {
                // (a + b + (a + b >= 0)) >> 1
                let sum = self.same(Op::IAdd, &[a, b]);
                let n = self.konst(Ty::B32, ty.bits() as u64 - 1);
                let negative = self.one(Op::Shr, sign(false), &[sum, n], ty);
                let one = self.konst(ty, 1);
                let up = self.same(Op::ISub, &[one, negative]);
                let sum = self.same(Op::IAdd, &[sum, up]);
                let one = self.konst(Ty::B32, 1);
                self.one(Op::Shr, sign(true), &[sum, one], ty)
            }
            Kind::Set(c) => {
                let p = self.b().icmp(c, signed, a, b);
                let (one, zero) = (self.konst(Ty::B32, 1), self.konst(Ty::B32, 0));
                self.op(Op::Select, &[one, zero, p], Ty::B32)
            }
            Kind::Shl => {
                let n = self.b().resize(b, Ty::B32, false);
                self.op(Op::Shl, &[a, n], ty)
            }
            Kind::Shr => {
                let n = self.b().resize(b, Ty::B32, false);
                self.one(Op::Shr, attr, &[a, n], ty)
            }
        }
    }

    fn scalar_video(
        &mut self,
        x: &Inst,
        kind: Kind,
        [a, b]: [&Picked; 2],
        c: Option<&Picked>,
        into: Option<Select>,
        [sd, sa, sb]: [bool; 3],
    ) -> Value {
        let (pa, pb) = (self.part(a, sa), self.part(b, sb));
        let sat = x.sat();
        let narrow = width(a.select) < 32 && width(b.select) < 32;
        let shift = matches!(kind, Kind::Shl | Kind::Shr);
        let t = if shift {
            let n = self.shift_amount(x, pb);
            // What a left shift moves out matters to saturation only.
            let a = if kind == Kind::Shl && sat { self.b().resize(pa, Ty::B64, sa) } else { pa };
            let signed = sa || self.f.ty(a) == Ty::B64;
            Number { v: self.combine(kind, a, n, sa), signed }
        } else if narrow || (!sat && matches!(kind, Kind::Add | Kind::Sub)) {
            Number { v: self.combine(kind, pa, pb, true), signed: true }
        } else if sa == sb && !matches!(kind, Kind::Add | Kind::Sub) {
            // The difference of two 32-bit numbers of one kind is a 32-bit one without a sign.
            Number { v: self.combine(kind, pa, pb, sa), signed: sa && kind != Kind::AbsDiff }
        } else {
            let (wa, wb) = (self.b().resize(pa, Ty::B64, sa), self.b().resize(pb, Ty::B64, sb));
            Number { v: self.combine(kind, wa, wb, true), signed: true }
        };
        let t = if sat { self.clamp_to(t.v, width(into), sd, t.signed) } else { t.v };
        let t = self.b().resize(t, Ty::B32, false);
        match (self.second(x, sd, t, c), into, c) {
            (Some(v), _, _) => v,
            (None, Some(s), Some(c)) => {
                let bits = width(into);
                let (at, len) = (bits * s.lanes[0] as u32, self.konst(Ty::B32, bits as u64));
                let at = self.konst(Ty::B32, at as u64);
                self.op(Op::Bfi, &[t, c.word, at, len], Ty::B32)
            }
            _ => t,
        }
    }

    /// `.wrap` takes the amount modulo 32, `.clamp` at most 32.
    fn shift_amount(&mut self, x: &Inst, b: Value) -> Value {
        if x.has(Mod::Wrap) {
            let m = self.konst(Ty::B32, 31);
            self.same(Op::And, &[b, m])
        } else {
            let most = self.konst(Ty::B32, 32);
            self.same(Op::IMin, &[b, most])
        }
    }

    /// `op2`: a second operation with c, on 32 bits.
    fn second(&mut self, x: &Inst, signed: bool, t: Value, c: Option<&Picked>) -> Option<Value> {
        let c = c?.word;
        let op = if x.has(Mod::Add) {
            Op::IAdd
        } else if x.has(Mod::Min) {
            Op::IMin
        } else if x.has(Mod::Max) {
            Op::IMax
        } else {
            return None;
        };
        Some(self.one(op, sign(signed), &[t, c], Ty::B32))
    }

    fn simd_video(
        &mut self,
        x: &Inst,
        (kind, lanes): (Kind, u32),
        [a, b]: [&Picked; 2],
        c: Option<&Picked>,
        into: Option<Select>,
        [sd, sa, sb]: [bool; 3],
    ) -> Value {
        let bits = 32 / lanes;
        // Lane i of an operand comes from this lane of the pair (a, b).
        let order = |s: Option<Select>, first: u32| -> [u32; 4] {
            std::array::from_fn(|i| match s {
                Some(s) if (i as u32) < lanes => s.lanes[lanes as usize - 1 - i] as u32,
                _ => first + i as u32,
            })
        };
        let (pa, pb) = (order(a.select, 0), order(b.select, lanes));
        let written = match into {
            Some(s) => s.lanes[..s.count as usize].iter().fold(0u32, |m, &l| m | 1 << l),
            None => (1 << lanes) - 1,
        };
        let add = x.has(Mod::Add);
        let mut out = match c {
            Some(c) => c.word,
            None => self.konst(Ty::B32, 0),
        };
        for i in (0..lanes).filter(|i| written >> i & 1 != 0) {
            let mut lane = |n: u32, signed: bool| {
                let word = if n < lanes { a.word } else { b.word };
                self.field(word, bits * (n % lanes), bits, signed)
            };
            let (p, q) = (lane(pa[i as usize], sa), lane(pb[i as usize], sb));
            let mut t = self.combine(kind, p, q, true);
            if x.sat() {
                t = self.clamp_to(t, bits, sd, true);
            }
            out = if add {
                self.same(Op::IAdd, &[out, t])
            } else {
                let (at, len) = (self.konst(Ty::B32, (bits * i) as u64), self.konst(Ty::B32, bits as u64));
                self.op(Op::Bfi, &[t, out, at, len], Ty::B32)
            };
        }
        out
    }

    /// (a * b + c + 1 if asked) >> shift; a negated product or addend is its complement plus one.
    fn vmad(&mut self, x: &Inst, [a, b, c]: [&Picked; 3], [sa, sb]: [bool; 2]) -> Value {
        let minus = a.negated != b.negated;
        let signed = sa || sb || minus || c.negated;
        let (pa, pb) = (self.part(a, sa), self.part(b, sb));
        let (wa, wb) = (self.b().resize(pa, Ty::B64, sa), self.b().resize(pb, Ty::B64, sb));
        let mut t = self.same(Op::IMul, &[wa, wb]);
        let mut addend = self.b().resize(c.word, Ty::B64, signed);
        let po = x.has(Mod::Po);
        if minus && !po {
            t = self.same(Op::Not, &[t]);
        } else if c.negated && !po {
            addend = self.same(Op::Not, &[addend]);
        }
        let one = self.konst(Ty::P, (po || minus || c.negated) as u64);
        let wide = |l: &mut Self, a: Value, b: Value, carry: Value| {
            let id = l.b().push(Op::AddC, Attr::default(), Default::default(), 0, &[a, b, carry], &[Ty::B64, Ty::P]);
            (l.f.inst(id).results[0], l.f.inst(id).results[1])
        };
        let (low, carry) = wide(self, t, addend, one);
        let shift = if x.has(Mod::Shr7) { 7 } else { 15 * x.has(Mod::Shr15) as u32 };
        let n = self.konst(Ty::B32, shift as u64);
        // Two whole words without a sign fill 64 bits: with a negation the sum has a sign beyond them.
        if !(signed && !sa && !sb && width(a.select) == 32 && width(b.select) == 32) {
            let v = self.one(Op::Shr, sign(signed), &[low, n], Ty::B64);
            let v = if x.sat() { self.clamp_to(v, 32, signed, signed) } else { v };
            return self.op(Op::Trunc, &[v], Ty::B32);
        }
        let top = self.konst(Ty::B32, 63);
        let above = self.konst(Ty::B64, if minus && !po { u64::MAX } else { 0 });
        let addend_above = self.one(Op::Shr, sign(true), &[addend, top], Ty::B64);
        let (high, _) = wide(self, above, addend_above, carry);
        let mut v = self.op(Op::Shr, &[low, n], Ty::B64);
        if shift > 0 {
            let m = self.konst(Ty::B32, 64 - shift as u64);
            let moved = self.op(Op::Shl, &[high, m], Ty::B64);
            v = self.same(Op::Or, &[v, moved]);
        }
        if x.sat() {
            // Beyond 64 bits it is beyond 32, on the side of its sign.
            let high = self.one(Op::Shr, sign(true), &[high, n], Ty::B64);
            let same_sign = self.one(Op::Shr, sign(true), &[v, top], Ty::B64);
            let fits = self.b().icmp(Cmp::Eq, false, high, same_sign);
            let ones = self.konst(Ty::B64, i64::MAX as u64);
            let far = self.same(Op::Xor, &[high, ones]);
            let v2 = self.op(Op::Select, &[v, far, fits], Ty::B64);
            v = self.clamp_to(v2, 32, true, true);
        }
        self.op(Op::Trunc, &[v], Ty::B32)
    }
}
