//! `mma.m8n8k4` of halves: four products at once, each of eight threads (lanes `4 q` to `4 q + 3` and 16 more).
//!
//! No machine after sm_70 has it, so threads fetch rows of A and columns of B from those that hold them and compute their own
//! sums in single precision, which are rounded at the end where D is of halves. How the matrices lie is in section 9.7.15.5.1 of
//! the PTX ISA.

use super::{Lower, Res};
use crate::ir::{Attr, Fmt, Mem, Op, Rnd, Sreg, Ty, Value};
use ptx::isa::Mod;
use ptx::module::Inst;
use ptx::types::ScalarType as T;

/// Where a thread stands.
struct Seat {
    /// The first lane of its eight.
    base: Value,
    /// 16 in the upper half of the warp.
    high: Value,
    /// The bits of its number of four.
    bit0: Value,
    bit1: Value,
}

/// Rows of A (or columns of B) that a thread needs: four elements each.
type Line = [Value; 4];

impl Lower<'_, '_> {
    pub(super) fn quads(&mut self, x: &Inst, d: T, c: T) -> Res {
        let columns = |after: bool| {
            let layouts: Vec<Mod> = x.mods.iter().copied().filter(|m| matches!(m, Mod::Row | Mod::Col)).collect();
            layouts.get(after as usize).is_some_and(|m| *m == Mod::Col)
        };
        let (a_columns, b_columns) = (columns(false), columns(true));
        let (a, b, c_in) = (self.values(x, 1)?, self.values(x, 2)?, self.values(x, 3)?);
        let sub = Sreg::Laneid as u8;
        let lane = self.one(Op::Sreg, Attr { sub, ..Attr::default() }, &[], Ty::B32);
        let seat = Seat {
            base: self.and_word(lane, 12),
            high: self.and_word(lane, 16),
            bit0: self.bit(lane, 1),
            bit1: self.bit(lane, 2),
        };
        let single = d == T::F32;
        // Results of f16: one row, eight columns. Of f32: rows 0 and 2 from the thread's first, columns 0, 1, 4 and 5.
        let rows = self.rows(&seat, &a, a_columns, single);
        let cols = self.columns(&seat, &b, !b_columns, single);
        let starts = self.starts(&seat, &c_in, c, single);
        let f32s = Attr { fmt: Fmt::F32, rnd: Rnd::Rn, ..Attr::default() };
        let (mut sums, zero) = (Vec::new(), self.konst(Ty::B32, 0));
        for i in 0..8usize {
            let (row, col) =
                if single { (&rows[i >> 1 & 1], &cols[(i >> 2) * 2 + (i & 1)]) } else { (&rows[0], &cols[i]) };
            // PTX leaves the order of sums open; this is ptxas's, so that a program computes what it did: with f32 the products
            // and then C, with halves C and the first two products and then the other two. Only the latter keep -0.
            let mut products = |range: std::ops::Range<usize>, start: Option<Value>| {
                range.fold(start, |sum, k| match sum {
                    Some(sum) => Some(self.one(Op::FFma, f32s, &[row[k], col[k], sum], Ty::B32)),
                    None => Some(self.one(Op::FMul, f32s, &[row[k], col[k]], Ty::B32)),
                })
            };
            let parts = if single {
                vec![products(0..4, Some(zero))]
            } else {
                vec![products(0..2, None), products(2..4, None)]
            };
            let sum = parts
                .into_iter()
                .flatten()
                .fold(starts[i], |sum, part| self.one(Op::FAdd, f32s, &[sum, part], Ty::B32));
            sums.push(sum);
        }
        if !single {
            let attr = Attr { fmt: Fmt::F16x2, fmt2: Fmt::F32, ..Attr::default() };
            sums = sums.chunks_exact(2).map(|w| self.one(Op::F2FPack, attr, &[w[1], w[0]], Ty::B32)).collect();
        }
        self.write_all(x, 0, &sums)
    }

    fn and_word(&mut self, v: Value, mask: u64) -> Value {
        let mask = self.konst(Ty::B32, mask);
        self.same(Op::And, &[v, mask])
    }

    fn bit(&mut self, v: Value, bit: u64) -> Value {
        let v = self.and_word(v, bit);
        let zero = self.konst(Ty::B32, 0);
        self.b().icmp(crate::ir::Cmp::Ne, false, v, zero)
    }

    /// What lane `lane` has in `v`.
    pub(super) fn shuffled(&mut self, v: Value, lane: Value) -> Value {
        let (clamp, mask) = (self.konst(Ty::B32, 31), self.konst(Ty::B32, 0xffff_ffff));
        let attr = Attr { sub: 3, ..Attr::default() };
        let id = self.b().push(Op::Shfl, attr, Mem::default(), 0, &[v, lane, clamp, mask], &[Ty::B32, Ty::P]);
        self.f.inst(id).results[0]
    }

    fn sum(&mut self, a: Value, plus: u64) -> Value {
        let plus = self.konst(Ty::B32, plus);
        self.same(Op::IAdd, &[a, plus])
    }

    /// Both halves of a pair as singles.
    fn singles(&mut self, pair: Value) -> [Value; 2] {
        let attr = Attr { fmt: Fmt::F32, fmt2: Fmt::F16, ..Attr::default() };
        let (lo, hi) = self.b().halves(pair);
        [lo, hi].map(|h| self.one(Op::F2F, attr, &[h], Ty::B32))
    }

    fn choose(&mut self, p: Value, yes: Value, no: Value) -> Value {
        self.op(Op::Select, &[yes, no, p], Ty::B32)
    }

    /// The rows of A that the thread's results need; with `by_columns` a lane holds a column of four elements.
    fn rows(&mut self, seat: &Seat, a: &[Value], by_columns: bool, single: bool) -> Vec<Line> {
        let own = self.same(Op::IAdd, &[seat.base, seat.high]);
        let one = self.konst(Ty::B32, 1);
        let zero = self.konst(Ty::B32, 0);
        if !by_columns {
            if !single {
                let ([p, q], [r, s]) = (self.singles(a[0]), self.singles(a[1]));
                return vec![[p, q, r, s]];
            }
            let low = self.choose(seat.bit0, one, zero);
            let first = self.same(Op::IAdd, &[own, low]);
            return [0, 2]
                .map(|i| {
                    let lane = self.sum(first, i);
                    let (x, y) = (self.shuffled(a[0], lane), self.shuffled(a[1], lane));
                    let ([p, q], [r, s]) = (self.singles(x), self.singles(y));
                    [p, q, r, s]
                })
                .to_vec();
        }
        let mut out = vec![[zero; 4]; if single { 2 } else { 1 }];
        for k in 0..4 {
            let lane = self.sum(own, k as u64);
            let pairs = [self.shuffled(a[0], lane), self.shuffled(a[1], lane)];
            if single {
                for (line, pair) in out.iter_mut().zip(pairs) {
                    let [even, odd] = self.singles(pair);
                    line[k] = self.choose(seat.bit0, odd, even);
                }
            } else {
                let pair = self.choose(seat.bit1, pairs[1], pairs[0]);
                let [even, odd] = self.singles(pair);
                out[0][k] = self.choose(seat.bit0, odd, even);
            }
        }
        out
    }

    /// The columns of B that the thread's results need; with `by_rows` a lane holds four elements of a row.
    fn columns(&mut self, seat: &Seat, b: &[Value], by_rows: bool, single: bool) -> Vec<Line> {
        let zero = self.konst(Ty::B32, 0);
        let mut out = Vec::new();
        if !by_rows {
            let two = self.konst(Ty::B32, 2);
            let list: &[u64] = if single { &[0, 1, 16, 17] } else { &[0, 1, 2, 3, 16, 17, 18, 19] };
            let first = match single {
                true => {
                    let more = self.choose(seat.bit1, two, zero);
                    self.same(Op::IAdd, &[seat.base, more])
                }
                false => seat.base,
            };
            for &i in list {
                let lane = self.sum(first, i);
                let (x, y) = (self.shuffled(b[0], lane), self.shuffled(b[1], lane));
                let ([p, q], [r, s]) = (self.singles(x), self.singles(y));
                out.push([p, q, r, s]);
            }
            return out;
        }
        for high in [0, 16] {
            let mut part = vec![[zero; 4]; if single { 2 } else { 4 }];
            for k in 0..4 {
                let lane = self.sum(seat.base, high + k as u64);
                let pairs = [self.shuffled(b[0], lane), self.shuffled(b[1], lane)];
                let pairs = if single { vec![self.choose(seat.bit1, pairs[1], pairs[0])] } else { pairs.to_vec() };
                for (rows, pair) in part.chunks_exact_mut(2).zip(pairs) {
                    [rows[0][k], rows[1][k]] = self.singles(pair);
                }
            }
            out.extend(part);
        }
        out
    }

    /// C, one value a result.
    fn starts(&mut self, seat: &Seat, c: &[Value], ty: T, single: bool) -> Vec<Value> {
        if ty == T::F32 {
            return c.to_vec();
        }
        if !single {
            return c.iter().flat_map(|&v| self.singles(v)).collect();
        }
        // C lies as results of f16 do: a row a thread.
        let own = self.same(Op::IAdd, &[seat.base, seat.high]);
        let (one, zero) = (self.konst(Ty::B32, 1), self.konst(Ty::B32, 0));
        let low = self.choose(seat.bit0, one, zero);
        let first = self.same(Op::IAdd, &[own, low]);
        let mut out = vec![zero; 8];
        for row in [0usize, 2] {
            let lane = self.sum(first, row as u64);
            for column in [0usize, 4] {
                let pairs = [self.shuffled(c[column / 2], lane), self.shuffled(c[column / 2 + 1], lane)];
                let pair = self.choose(seat.bit1, pairs[1], pairs[0]);
                [out[row + column], out[row + column + 1]] = self.singles(pair);
            }
        }
        out
    }
}
