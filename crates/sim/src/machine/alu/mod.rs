//! Lane-wise instructions: integer, logic, float, conversion.
//!
//! What an instruction computes was worked out from the vendor's disassembly of code with known meaning, and is checked
//! by running that code against the PTX interpreter.

mod float;
mod half;
mod int;

use super::program::{AluFn, In, Out};
use crate::num::fp::compare;
use crate::num::soft::{BF16, F16, F32, F64, Format, Round};
pub use int::op;
use sass::form::{ModName as M, SlotName as S};
use sass::inst::Inst;
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
pub struct Op {
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

/// Source modifiers of a slot.
#[derive(Clone, Copy, Default)]
struct Md {
    neg: bool,
    abs: bool,
    inv: bool,
}

impl Md {
    fn of(inst: &Inst, slot: S) -> Md {
        inst.get(slot).map_or(Md::default(), |o| Md { neg: o.neg, abs: o.abs, inv: o.inv })
    }

    #[inline]
    fn f32(self, x: u32) -> u32 {
        let x = if self.abs { x & 0x7fff_ffff } else { x };
        if self.neg { x ^ 0x8000_0000 } else { x }
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
        let x = if self.inv { !x } else { x };
        if self.neg { x.wrapping_neg() } else { x }
    }

    /// As a term of a sum with carry: the word that is added, and what is added to it.
    #[inline]
    fn term(self, x: u32) -> u64 {
        if self.neg {
            !x as u64 + 1
        } else if self.inv {
            !x as u64
        } else {
            x as u64
        }
    }
}

fn one(f: impl Fn(u32) -> u32 + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        for l in 0..32 {
            o.r[0][l] = f(i.s[0][l]);
        }
    })
}

fn two(f: impl Fn(u32, u32) -> u32 + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        for l in 0..32 {
            o.r[0][l] = f(i.s[0][l], i.s[1][l]);
        }
    })
}

fn three(f: impl Fn(u32, u32, u32) -> u32 + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        for l in 0..32 {
            o.r[0][l] = f(i.s[0][l], i.s[1][l], i.s[2][l]);
        }
    })
}

/// For every lane that counts.
fn some(f: impl Fn(&In<'_>, &mut Out, usize) + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        let mut m = i.mask;
        while m != 0 {
            f(i, o, m.trailing_zeros() as usize);
            m &= m - 1;
        }
    })
}

/// For every lane.
fn all(f: impl Fn(&In<'_>, &mut Out, usize) + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
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

fn rnd(inst: &Inst) -> Round {
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

fn lut3(lut: u8, a: u32, b: u32, c: u32) -> u32 {
    (0..8).filter(|i| lut >> i & 1 != 0).fold(0, |r, i| {
        let pick = |bit: u32, x: u32| if i & bit != 0 { x } else { !x };
        r | (pick(4, a) & pick(2, b) & pick(1, c))
    })
}

fn imm(inst: &Inst, slot: S) -> u32 {
    match inst.get(slot).map(|o| o.value) {
        Some(sass::inst::Value::Imm(n)) => n as u32,
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
