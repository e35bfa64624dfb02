//! Lane-wise instructions: integer, logic, float, conversion.
//!
//! What an instruction computes was worked out from the vendor's disassembly of code with known meaning, and is checked
//! by running that code against the PTX interpreter.

mod float;
mod half;
mod int;

use super::program::{AluFn, In, Out};
use super::seen::Seen;
use crate::num::fp::compare;
use crate::num::soft::{BF16, F16, F32, F64, Format, Round};
use AluOp as Op;
pub use int::op;
use sass::form::{ModName as M, SlotName as S};
use std::cmp::Ordering;

/// How the sources of an operation are fetched: a slot as one word, or as a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetch {
    /// One register.
    One(S),
    /// A register and its successor.
    Two(S),
}

/// A lane-wise operation and what it needs.
pub struct AluOp {
    /// Sources in order.
    pub fetch: Vec<Fetch>,
    /// Predicate sources in order.
    pub pin: Vec<S>,
    /// Registers written (0 to 2).
    pub nd: u8,
    /// Predicates written.
    pub pout: Vec<S>,
    /// What is computed.
    pub f: AluFn,
}

/// Source modifiers of a slot, also as what to do with a word, so that a loop over lanes has no branch.
#[derive(Clone, Copy)]
struct Md {
    neg: bool,
    abs: bool,
    inv: bool,
    /// As a float: bits kept, bits flipped.
    keep: u32,
    sign: u32,
    /// As an integer: bits flipped, then added.
    flip: u32,
    add: u32,
}

impl Md {
    fn of(inst: &Seen<'_>, slot: S) -> Md {
        let (neg, abs, inv) = inst.with_flags(slot).map_or((false, false, false), |o| (o.neg, o.abs, o.inv));
        Md {
            neg,
            abs,
            inv,
            keep: if abs { 0x7fff_ffff } else { u32::MAX },
            sign: if neg { 0x8000_0000 } else { 0 },
            flip: if neg != inv { u32::MAX } else { 0 },
            add: neg as u32,
        }
    }

    #[inline]
    fn f32(self, x: u32) -> u32 {
        (x & self.keep) ^ self.sign
    }

    /// A single with its own sign, whatever is done to its magnitude.
    #[inline]
    fn signed(self, x: u32) -> u32 {
        x ^ self.sign
    }

    #[inline]
    fn f64(self, x: u64) -> u64 {
        let x = if self.abs { x & !(1 << 63) } else { x };
        if self.neg { x ^ 1 << 63 } else { x }
    }

    #[inline]
    fn f16(self, x: u16) -> u16 {
        let x = if self.abs { x & 0x7fff } else { x };
        if self.neg { x ^ 0x8000 } else { x }
    }

    #[inline]
    fn int(self, x: u32) -> u32 {
        (x ^ self.flip).wrapping_add(self.add)
    }

    /// As a term of a sum with carry: the word that is added, and what is added to it.
    #[inline]
    fn term(self, x: u32) -> u64 {
        (x ^ self.flip) as u64 + self.add as u64
    }
}

/// Makes an operation of a loop over lanes: with the widest vectors of this machine, where it has them.
fn boxed(f: impl Fn(&In<'_>, &mut Out) + Send + Sync + 'static) -> AluFn {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the machine has both features.
        return Box::new(move |i, o| unsafe { vectors(&f, i, o) });
    }
    Box::new(f)
}

/// A loop compiled for the machines that have AVX2 and FMA: `f` becomes part of this function.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn vectors(f: &impl Fn(&In<'_>, &mut Out), i: &In<'_>, o: &mut Out) {
    f(i, o)
}

fn one(f: impl Fn(u32) -> u32 + Send + Sync + 'static) -> AluFn {
    boxed(move |i, o| {
        for l in 0..32 {
            o.r[0][l] = f(i.s[0][l]);
        }
    })
}

fn two(f: impl Fn(u32, u32) -> u32 + Send + Sync + 'static) -> AluFn {
    boxed(move |i, o| {
        for l in 0..32 {
            o.r[0][l] = f(i.s[0][l], i.s[1][l]);
        }
    })
}

fn three(f: impl Fn(u32, u32, u32) -> u32 + Send + Sync + 'static) -> AluFn {
    boxed(move |i, o| {
        for l in 0..32 {
            o.r[0][l] = f(i.s[0][l], i.s[1][l], i.s[2][l]);
        }
    })
}

/// For every lane that counts.
fn some(f: impl Fn(&In<'_>, &mut Out, usize) + Send + Sync + 'static) -> AluFn {
    boxed(move |i, o| {
        let mut m = i.mask;
        while m != 0 {
            f(i, o, m.trailing_zeros() as usize);
            m &= m - 1;
        }
    })
}

/// For every lane.
fn all(f: impl Fn(&In<'_>, &mut Out, usize) + Send + Sync + 'static) -> AluFn {
    boxed(move |i, o| {
        for l in 0..32 {
            f(i, o, l);
        }
    })
}

#[inline]
fn pair(i: &In<'_>, n: usize, l: usize) -> u64 {
    i.s[n][l] as u64 | (i.s[n + 1][l] as u64) << 32
}

#[inline]
fn put_pair(o: &mut Out, l: usize, x: u64) {
    o.r[0][l] = x as u32;
    o.r[1][l] = (x >> 32) as u32;
}

#[inline]
fn set(o: &mut Out, p: usize, l: usize, value: bool) {
    o.p[p] = (o.p[p] & !(1 << l)) | (value as u32) << l;
}

fn rnd(inst: &Seen<'_>) -> Round {
    [Round::Rn, Round::Rm, Round::Rp, Round::Rz][inst.modifier(M::Rnd) as usize & 3]
}

fn combine(op: u8, a: u32, b: u32) -> u32 {
    match op {
        0 => a & b,
        1 => a | b,
        _ => a ^ b,
    }
}

fn format(n: u8) -> Option<&'static Format> {
    Some(match n {
        1 => &F16,
        2 => &F32,
        3 => &F64,
        4 => &BF16,
        _ => return None,
    })
}

/// Size in bits and sign of an integer type field.
fn itype(n: u8) -> (u32, bool) {
    (8 << (n >> 1), n & 1 != 0)
}

/// A logic function of three inputs as a tree of selections: what `c` picks from each pair of rows, then `b`, then `a`.
#[derive(Clone, Copy)]
struct Lut {
    low: [u32; 4],
    differ: [u32; 4],
}

impl Lut {
    fn new(table: u8) -> Lut {
        let row = |n: usize| if table >> n & 1 != 0 { u32::MAX } else { 0 };
        Lut { low: std::array::from_fn(|n| row(2 * n)), differ: std::array::from_fn(|n| row(2 * n) ^ row(2 * n + 1)) }
    }

    #[inline]
    fn of(self, a: u32, b: u32, c: u32) -> u32 {
        let pick = |n: usize| self.low[n] ^ (self.differ[n] & c);
        let choose = |s: u32, zero: u32, one: u32| zero ^ ((zero ^ one) & s);
        choose(a, choose(b, pick(0), pick(1)), choose(b, pick(2), pick(3)))
    }
}

/// True if nobody takes the predicate result of this slot.
fn unused(inst: &Seen<'_>, slot: S) -> bool {
    inst.get(slot).and_then(|o| o.as_reg()).is_none_or(|r| r.is_const())
}

fn imm(inst: &Seen<'_>, slot: S) -> u32 {
    match inst.get(slot).map(|o| o.value) {
        Some(sass::inst::Value::Imm(n)) => n.get() as u32,
        _ => 0,
    }
}

/// Sum of up to three terms and carries; result and number of carries out.
#[inline]
fn sum(terms: [u64; 3], carry: u64) -> (u32, u64) {
    let s = terms[0] + terms[1] + terms[2] + carry;
    (s as u32, s >> 32)
}

/// Comparison results as bits of a comparison field: less 1, equal 2, greater 4, unordered 8.
fn order(f: &Format, a: u64, b: u64) -> u8 {
    match compare(f, a, b) {
        Some(Ordering::Less) => 1,
        Some(Ordering::Equal) => 2,
        Some(Ordering::Greater) => 4,
        None => 8,
    }
}
