//! `mma` with dense and sparse operands, `movmatrix`, and the pieces that `wmma` ([`super::fragment`]) shares.
//!
//! What the machine has is one operation. It lacks products of four-bit integers (made of bytes, even and odd elements
//! apart: the order of sums does not matter), of 8-bit floats (made of halves, the sum added to C at the end), and the
//! exclusive or of bits (the bits that A has alone and those that B has alone).

use super::{Lower, Res};
use crate::ir::matrix::{Product, Unit};
use crate::ir::{Attr, Fmt, Mem, Op, Rnd, Sreg, Ty, Value};
use ptx::access::Rounding;
use ptx::isa::Mod;
use ptx::module::{Inst, Operand};
use ptx::types::ScalarType as T;

/// The three numbers of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub m: u32,
    pub n: u32,
    pub k: u32,
}

/// The shape among the modifiers: `m16n8k16`.
pub(super) fn shape(x: &Inst) -> Option<Shape> {
    x.mods.iter().find_map(|word| {
        let (m, rest) = word.name().strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(Shape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? })
    })
}

/// What a product instruction computes.
pub(super) struct Plan {
    pub shape: Shape,
    pub a: T,
    pub b: T,
    pub d: T,
    pub sat: bool,
    /// Bits: the exclusive or instead of the conjunction.
    pub xor: bool,
    pub rnd: Rnd,
    pub sparse: Option<u8>,
}

impl Lower<'_, '_> {
    pub(super) fn mma(&mut self, x: &Inst) -> Res {
        let t = x.types();
        let (Some(shape), &[d, a, b, c]) = (shape(x), &t[..]) else { return self.unsupported(x) };
        let sparse = x.mods.iter().any(|m| m.name().starts_with("sp"));
        if x.mods.iter().any(|m| m.name().starts_with("kind::")) {
            return self.unsupported(x);
        }
        if shape.m == 8 && a == T::F16 {
            return self.quads(x, d, c);
        }
        let selector = match (sparse, x.operands.get(5)) {
            (false, _) => None,
            (true, Some(Operand::Int(i))) => Some((*i & 3) as u8),
            _ => return self.unsupported(x),
        };
        let rnd = rounding(x);
        let (sat, xor) = (x.has(Mod::Satfinite), x.has(Mod::Xor));
        let plan = Plan { shape, a, b, d, sat, xor, rnd, sparse: selector };
        let va = self.values(x, 1)?;
        let vb = self.values(x, 2)?;
        let vc = self.values(x, 3)?;
        let meta = if sparse { Some(self.arg(x, 4, Ty::B32)?) } else { None };
        let Some(results) = self.product(&plan, &va, &vb, &vc, meta) else { return self.unsupported(x) };
        self.write_all(x, 0, &results)
    }

    /// The values of vector operand `n`.
    pub(super) fn values(&mut self, x: &Inst, n: usize) -> Res<Vec<Value>> {
        let Some(o) = x.operands.get(n) else { return Ok(Vec::new()) };
        let mut out = Vec::new();
        let types = x.types();
        let constant = if !types.is_empty() && types.iter().all(|t| t.bits() == 64) { Ty::B64 } else { Ty::B32 };
        for o in self.vector_operands(o) {
            let ty = match &o {
                Operand::Reg { reg, .. } => self.reg_ty(*reg),
                _ => constant,
            };
            let ty = if ty == Ty::B16 { Ty::B32 } else { ty };
            out.push(self.src(&o, ty, x.span)?);
        }
        Ok(out)
    }

    /// Writes the values into vector operand `n`.
    pub(super) fn write_all(&mut self, x: &Inst, n: usize, values: &[Value]) -> Res {
        let Some(o) = x.operands.get(n) else { return self.unsupported(x) };
        for (d, &v) in self.vector_operands(o).iter().zip(values) {
            self.write(d, v, false)?;
        }
        Ok(())
    }

    /// One product of 8 columns; None where there is no such thing.
    pub(super) fn product(
        &mut self,
        p: &Plan,
        a: &[Value],
        b: &[Value],
        c: &[Value],
        meta: Option<Value>,
    ) -> Option<Vec<Value>> {
        let zero = self.konst(Ty::B32, 0);
        match (p.a, p.b) {
            (T::S4 | T::U4, _) => {
                let none = vec![zero; c.len()];
                let part = |s: &mut Self, odd: bool, c: &[Value]| {
                    let a: Vec<Value> = a.iter().map(|&v| s.nibbles(v, odd, p.a == T::S4)).collect();
                    let b: Vec<Value> = b.iter().map(|&v| s.nibbles(v, odd, p.b == T::S4)).collect();
                    let shape = Shape { k: p.shape.k / 2, ..p.shape };
                    let (ta, tb) = (byte(p.a), byte(p.b));
                    let half = Plan { shape, a: ta, b: tb, sat: false, ..*p };
                    s.machine(&half, &a, &b, c, meta)
                };
                if !p.sat {
                    let low = part(self, false, c)?;
                    return part(self, true, &low);
                }
                // Only the whole sum may saturate, and it cannot before C is added.
                let low = part(self, false, &none)?;
                let sum = part(self, true, &low)?;
                Some(c.iter().zip(&sum).map(|(&c, &s)| self.saturating_sum(c, s)).collect())
            }
            (T::E4M3 | T::E5M2, _) if p.sparse.is_none() => {
                let none = vec![zero; c.len()];
                let part = |s: &mut Self, high: bool, c: &[Value]| {
                    let unpack = |s: &mut Self, v: &[Value], t: T| -> Vec<Value> {
                        let sub = (t == T::E5M2) as u8 | (high as u8) << 1;
                        v.iter().map(|&v| s.one(Op::Unpack8, Attr { sub, ..Attr::default() }, &[v], Ty::B32)).collect()
                    };
                    let (a, b) = (unpack(s, a, p.a), unpack(s, b, p.b));
                    let shape = Shape { k: p.shape.k / 2, ..p.shape };
                    s.machine(&Plan { shape, a: T::F16, b: T::F16, ..*p }, &a, &b, c, meta)
                };
                let low = part(self, false, &none)?;
                let sum = part(self, true, &low)?;
                let fmt = if p.d == T::F32 { Fmt::F32 } else { Fmt::F16x2 };
                let attr = Attr { fmt, ..Attr::default() };
                Some(c.iter().zip(&sum).map(|(&c, &s)| self.one(Op::FAdd, attr, &[s, c], Ty::B32)).collect())
            }
            (T::E4M3 | T::E5M2, _) => self.sparse_bytes(p, a, b, c, meta?),
            (T::B1, _) if p.xor && !crate::chips::counts_differences(self.cx.layout.sm) => {
                let mut not = |v: &[Value]| -> Vec<Value> { v.iter().map(|&v| self.same(Op::Not, &[v])).collect() };
                let (na, nb) = (not(a), not(b));
                let only_a = self.machine(p, a, &nb, c, None)?;
                self.machine(p, &na, b, &only_a, None)
            }
            _ => self.machine(p, a, b, c, meta),
        }
    }

    /// A product of bytes with a sparse A, by two of halves: chunks of four columns with even numbers, then those with odd ones.
    /// A thread's words of A are a chunk of either kind; a chunk of B is in one thread and goes to two, and so do the metadata.
    fn sparse_bytes(&mut self, p: &Plan, a: &[Value], b: &[Value], c: &[Value], meta: Value) -> Option<Vec<Value>> {
        let word = |s: &mut Self, n: u64| s.konst(Ty::B32, n);
        let sub = Sreg::Laneid as u8;
        let lane = self.one(Op::Sreg, Attr { sub, ..Attr::default() }, &[], Ty::B32);
        let (one, three, four) = (word(self, 1), word(self, 3), word(self, 4));
        let odd = self.same(Op::And, &[lane, one]);
        let even = self.same(Op::Xor, &[lane, odd]);
        // Rows g and g + 8: lanes 0 and 1 have their first 32 bits, lanes 2 and 3 the others.
        let low = self.same(Op::And, &[lane, three]);
        let group = self.same(Op::Xor, &[lane, low]);
        let twice = self.same(Op::Shl, &[odd, one]);
        let first = self.same(Op::IAdd, &[group, twice]);
        let second = self.same(Op::IAdd, &[first, one]);
        let rows = [self.shuffled(meta, first), self.shuffled(meta, second)];
        let shift = self.same(Op::Shl, &[odd, four]);
        let none = vec![word(self, 0); c.len()];
        let mut sum = none;
        for high in [false, true] {
            // Every other four bits of both rows.
            let (mask, bytes) = (word(self, 0x0f0f_0f0f), word(self, 0x6420));
            let [x, y] = rows.map(|v| {
                let v = if high { self.same(Op::Shr, &[v, four]) } else { v };
                let v = self.same(Op::And, &[v, mask]);
                let next = self.same(Op::Shr, &[v, four]);
                self.same(Op::Or, &[v, next])
            });
            let packed = self.op(Op::Prmt, &[x, y, bytes], Ty::B32);
            let unpack = |s: &mut Self, v: Value, t: T, high: bool| {
                let sub = (t == T::E5M2) as u8 | (high as u8) << 1;
                s.one(Op::Unpack8, Attr { sub, ..Attr::default() }, &[v], Ty::B32)
            };
            let left: Vec<Value> = a.iter().map(|&v| unpack(self, v, p.a, high)).collect();
            let from = if high { self.same(Op::IAdd, &[even, one]) } else { even };
            let right: Vec<Value> = b
                .iter()
                .map(|&v| {
                    let v = self.shuffled(v, from);
                    let v = self.same(Op::Shr, &[v, shift]);
                    unpack(self, v, p.b, false)
                })
                .collect();
            let shape = Shape { k: p.shape.k / 2, ..p.shape };
            let half = Plan { shape, a: T::F16, b: T::F16, sparse: Some(0), ..*p };
            sum = self.machine(&half, &left, &right, &sum, Some(packed))?;
        }
        let fmt = if p.d == T::F32 { Fmt::F32 } else { Fmt::F16x2 };
        let attr = Attr { fmt, ..Attr::default() };
        Some(c.iter().zip(&sum).map(|(&c, &s)| self.one(Op::FAdd, attr, &[s, c], Ty::B32)).collect())
    }

    /// Every other four bits of a word, as bytes.
    fn nibbles(&mut self, v: Value, odd: bool, signed: bool) -> Value {
        let v = match odd {
            true => {
                let four = self.konst(Ty::B32, 4);
                self.op(Op::Shr, &[v, four], Ty::B32)
            }
            false => v,
        };
        let mask = self.konst(Ty::B32, 0x0f0f_0f0f);
        let v = self.same(Op::And, &[v, mask]);
        if !signed {
            return v;
        }
        // (n ^ 8) - 8 in each byte; the bias keeps the bytes from borrowing.
        let flip = self.konst(Ty::B32, 0x0808_0808);
        let v = self.same(Op::Xor, &[v, flip]);
        let bias = self.konst(Ty::B32, 0x7878_7878);
        let v = self.same(Op::IAdd, &[v, bias]);
        let top = self.konst(Ty::B32, 0x8080_8080);
        self.same(Op::Xor, &[v, top])
    }

    /// c + s, both signed, clamped to 32 bits.
    fn saturating_sum(&mut self, c: Value, s: Value) -> Value {
        let signed = Attr { signed: true, ..Attr::default() };
        let sum = self.same(Op::IAdd, &[c, s]);
        let (x, y) = (self.same(Op::Xor, &[c, sum]), self.same(Op::Xor, &[s, sum]));
        let both = self.same(Op::And, &[x, y]);
        let zero = self.konst(Ty::B32, 0);
        let over = self.b().icmp(crate::ir::Cmp::Lt, true, both, zero);
        let thirty_one = self.konst(Ty::B32, 31);
        let sign = self.one(Op::Shr, signed, &[c, thirty_one], Ty::B32);
        let most = self.konst(Ty::B32, 0x7fff_ffff);
        let limit = self.same(Op::Xor, &[sign, most]);
        self.op(Op::Select, &[limit, sum, over], Ty::B32)
    }

    /// A product of bytes with 16 rows of 16 columns by two with 8 rows.
    fn upper_and_lower(&mut self, p: &Plan, a: &[Value], b: &[Value], c: &[Value]) -> Option<Vec<Value>> {
        let half = Plan { shape: Shape { m: 8, ..p.shape }, ..*p };
        let (&[above, below], &[c0, c1, c2, c3], 16, None) = (a, c, p.shape.k, p.sparse) else { return None };
        let mut out = self.machine(&half, &[above], b, &[c0, c1], None)?;
        out.extend(self.machine(&half, &[below], b, &[c2, c3], None)?);
        Some(out)
    }

    /// A product that the machine has.
    fn machine(&mut self, p: &Plan, a: &[Value], b: &[Value], c: &[Value], meta: Option<Value>) -> Option<Vec<Value>> {
        let (unit, kind) = match (p.a, p.b) {
            (T::F16, T::F16) => (Unit::Half, 0),
            (T::BF16, T::BF16) => (Unit::Half, 1),
            (T::TF32, T::TF32) => (Unit::Half, 2),
            (T::S8 | T::U8, T::S8 | T::U8) => (Unit::Int, (p.a == T::S8) as u8 | ((p.b == T::S8) as u8) << 1),
            (T::B1, T::B1) => (Unit::Bit, (p.xor && crate::chips::counts_differences(self.cx.layout.sm)) as u8),
            (T::F64, T::F64) => (Unit::Double, p.rnd as u8),
            _ => return None,
        };
        if unit == Unit::Int && p.shape.m == 16 && !arch::units(self.cx.layout.sm).sixteen_rows_of_bytes {
            return self.upper_and_lower(p, a, b, c);
        }
        let words = |list: &[Value]| list.iter().map(|&v| if self.f.ty(v) == Ty::B64 { 2 } else { 1 }).sum::<u8>();
        let product = Product {
            unit,
            m: p.shape.m as u8,
            k: p.shape.k as u16,
            a: words(a),
            b: words(b),
            kind,
            wide: p.d != T::F16,
            sat: p.sat,
            sparse: p.sparse,
        };
        let mut args = [a, b, c].concat();
        args.extend(meta);
        let types: Vec<Ty> = c.iter().map(|&v| self.f.ty(v)).collect();
        let id = self.b().push(Op::Mma, Attr::default(), Mem::default(), product.pack(), &args, &types);
        Some(self.f.inst(id).results.to_vec())
    }

    pub(super) fn movmatrix(&mut self, x: &Inst) -> Res {
        let a = self.arg(x, 1, Ty::B32)?;
        let v = self.op(Op::MovMatrix, &[a], Ty::B32);
        self.dst(x, v, false)
    }
}

pub(super) fn rounding(x: &Inst) -> Rnd {
    match x.rounding() {
        Some(Rounding::Rz) => Rnd::Rz,
        Some(Rounding::Rm) => Rnd::Rm,
        Some(Rounding::Rp) => Rnd::Rp,
        _ => Rnd::Rn,
    }
}

fn byte(t: T) -> T {
    if t == T::S4 { T::S8 } else { T::U8 }
}
