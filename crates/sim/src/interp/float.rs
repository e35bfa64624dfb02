//! Floating-point instructions, written from sections 9.7.3 to 9.7.5 of the PTX ISA.

use super::approx;
use super::lanes::{c2, l1, l2, l3, m1, m2, m3};
use super::program::{AluFn, CmpFn};
use crate::num::fp::{self, Half, compare, ftz32, min_max, sat32};
use crate::num::soft::{self, BF16, F16, F32, F64, Format, Round};
use crate::tensormap::OOB_NAN;
use ptx::access::{CmpOp, Rounding};
use ptx::isa::{Mod, Op};
use ptx::module::Inst;
use ptx::types::ScalarType as T;
use std::cmp::Ordering;

/// The rounding of an arithmetic instruction; to nearest where none is written.
pub fn round(inst: &Inst) -> Round {
    match inst.rounding() {
        Some(Rounding::Rz | Rounding::Rzi) => Round::Rz,
        Some(Rounding::Rm | Rounding::Rmi) => Round::Rm,
        Some(Rounding::Rp | Rounding::Rpi) => Round::Rp,
        Some(Rounding::Rna) => Round::Rna,
        _ => Round::Rn,
    }
}

/// The lane function of a floating-point instruction and how many sources it takes; `None` if it is not one of these.
pub fn alu(inst: &Inst) -> Option<(usize, AluFn)> {
    match inst.ty() {
        T::F32 => single(inst),
        T::F64 => double(inst),
        T::F16 | T::F16x2 | T::BF16 | T::BF16x2 => half(inst),
        T::F32x2 => packed_single(inst),
        _ => None,
    }
}

fn single(inst: &Inst) -> Option<(usize, AluFn)> {
    let (mode, ftz, sat) = (round(inst), inst.ftz(), inst.sat());
    let fin = move |r: u32| (if sat { sat32(r) } else { r }) as u64;
    let exact = inst.rounding().is_some();
    let approx1 = move |f: fn(f32) -> u32| -> (usize, AluFn) {
        let g = move |a: u64| {
            let a = if ftz { ftz32(a as u32) } else { a as u32 };
            let r = f(f32::from_bits(a));
            (if ftz { ftz32(r) } else { r }) as u64
        };
        (1, m1(g))
    };
    if mode == Round::Rn && !ftz && !sat {
        // The plain forms of every kernel, kept free of branches.
        match inst.op {
            Op::Add => return Some((2, l2(|a, b| fp::add32(a as u32, b as u32, Round::Rn, false) as u64))),
            Op::Mul => return Some((2, l2(|a, b| fp::mul32(a as u32, b as u32, Round::Rn, false) as u64))),
            Op::Fma | Op::Mad => {
                return Some((3, m3(|a, b, c| fp::fma32(a as u32, b as u32, c as u32, Round::Rn, false) as u64)));
            }
            _ => {}
        }
    }
    Some(match inst.op {
        Op::Add => (2, l2(move |a, b| fin(fp::add32(a as u32, b as u32, mode, ftz)))),
        Op::Sub => (2, l2(move |a, b| fin(fp::add32(a as u32, b as u32 ^ 0x8000_0000, mode, ftz)))),
        Op::Mul => (2, l2(move |a, b| fin(fp::mul32(a as u32, b as u32, mode, ftz)))),
        Op::Fma | Op::Mad => (3, m3(move |a, b, c| fin(fp::fma32(a as u32, b as u32, c as u32, mode, ftz)))),
        Op::Div if exact => (2, m2(move |a, b| fp::div32(a as u32, b as u32, mode, ftz) as u64)),
        Op::Div => {
            let full = inst.has(Mod::Full);
            (
                2,
                m2(move |a, b| {
                    let (a, b) = (a as u32, b as u32);
                    let (a, b) = if ftz { (ftz32(a), ftz32(b)) } else { (a, b) };
                    let r = approx::div(f32::from_bits(a), f32::from_bits(b), full);
                    (if ftz { ftz32(r) } else { r }) as u64
                }),
            )
        }
        Op::Rcp if exact => (1, m1(move |a| fp::div32(0x3f80_0000, a as u32, mode, ftz) as u64)),
        Op::Sqrt if exact => (1, m1(move |a| fp::sqrt32(a as u32, mode, ftz) as u64)),
        Op::Rcp => approx1(approx::rcp),
        Op::Sqrt => approx1(approx::sqrt),
        Op::Rsqrt => approx1(approx::rsqrt),
        Op::Sin => approx1(approx::sin),
        Op::Cos => approx1(approx::cos),
        Op::Lg2 => approx1(approx::lg2),
        Op::Ex2 => approx1(approx::ex2),
        Op::Tanh => approx1(approx::tanh),
        Op::Abs => (1, l1(move |a| canon(a as u32 & 0x7fff_ffff, ftz))),
        Op::Neg => (1, l1(move |a| canon(a as u32 ^ 0x8000_0000, ftz))),
        Op::Copysign => (2, l2(|a, b| (a & 0x8000_0000) | (b & 0x7fff_ffff))),
        Op::Min | Op::Max => return extremum(inst, &F32, ftz),
        _ => return None,
    })
}

/// `neg` and `abs`: a NaN becomes the canonical one.
fn canon(a: u32, ftz: bool) -> u64 {
    let a = if ftz { ftz32(a) } else { a };
    fp::canon32(f32::from_bits(a)) as u64
}

/// The same for halves.
fn sign_only(f: &Format, a: u16, ftz: bool) -> u16 {
    let a = if ftz { f.flush(a as u64) } else { a as u64 };
    (if f.is_nan(a) { f.nan } else { a }) as u16
}

/// `min`, `max` with two or three operands, `.NaN`, `.xorsign.abs`.
fn extremum(inst: &Inst, f: &'static Format, ftz: bool) -> Option<(usize, AluFn)> {
    let (max, nan, xorsign) = (inst.op == Op::Max, inst.has(Mod::NaN), inst.has(Mod::Xorsign));
    let abs = inst.has(Mod::Abs);
    let input = move |x: u64| if ftz { f.flush(x) } else { x };
    let two = move |a: u64, b: u64| {
        let (a, b) = (input(a), input(b));
        let sign = (a ^ b) & f.sign_bit();
        let (a, b) = if xorsign || abs { (a & !f.sign_bit(), b & !f.sign_bit()) } else { (a, b) };
        let r = min_max(f, max, nan, a, b);
        if xorsign && !f.is_nan(r) { r | sign } else { r }
    };
    if inst.operands.len() == 4 {
        return Some((3, l3(move |a, b, c| two(two(a, b), c))));
    }
    Some((2, l2(two)))
}

fn double(inst: &Inst) -> Option<(usize, AluFn)> {
    let mode = round(inst);
    const SIGN: u64 = 1 << 63;
    Some(match inst.op {
        Op::Add => (2, l2(move |a, b| fp::add64(a, b, mode))),
        Op::Sub => (2, l2(move |a, b| fp::add64(a, b ^ SIGN, mode))),
        Op::Mul => (2, l2(move |a, b| fp::mul64(a, b, mode))),
        Op::Fma | Op::Mad => (3, m3(move |a, b, c| fp::fma64(a, b, c, mode))),
        Op::Div => (2, m2(move |a, b| fp::div64(a, b, mode))),
        Op::Rcp if inst.approx() => (1, m1(|a| approx::rcp64(f64::from_bits(a)))),
        Op::Rcp => (1, m1(move |a| fp::div64(1f64.to_bits(), a, mode))),
        Op::Rsqrt => {
            let ftz = inst.ftz();
            (
                1,
                m1(move |a| {
                    let x = f64::from_bits(a);
                    // Without .ftz the function is a full double approximation.
                    if ftz { approx::rsqrt64(x) } else { canon64(1.0 / x.sqrt()) }
                }),
            )
        }
        Op::Sqrt => (1, m1(move |a| fp::sqrt64(a, mode))),
        Op::Abs => (1, l1(|a| a & !SIGN)),
        Op::Neg => (1, l1(|a| a ^ SIGN)),
        Op::Copysign => (2, l2(|a, b| (a & SIGN) | (b & !SIGN))),
        Op::Min | Op::Max => return extremum(inst, &F64, false),
        _ => return None,
    })
}

fn canon64(x: f64) -> u64 {
    if x.is_nan() { F64.nan } else { x.to_bits() }
}

/// Applies a function of halves to one or both halves of a register.
fn h1(pair: bool, f: impl Fn(u16) -> u16 + Send + Sync + 'static) -> (usize, AluFn) {
    (
        1,
        m1(move |a| {
            let low = f(a as u16) as u64;
            if pair { low | (f((a >> 16) as u16) as u64) << 16 } else { low }
        }),
    )
}

fn h2(pair: bool, f: impl Fn(u16, u16) -> u16 + Send + Sync + 'static) -> (usize, AluFn) {
    (
        2,
        m2(move |a, b| {
            let low = f(a as u16, b as u16) as u64;
            if pair { low | (f((a >> 16) as u16, (b >> 16) as u16) as u64) << 16 } else { low }
        }),
    )
}

fn h3(pair: bool, f: impl Fn(u16, u16, u16) -> u16 + Send + Sync + 'static) -> (usize, AluFn) {
    (
        3,
        m3(move |a, b, c| {
            let low = f(a as u16, b as u16, c as u16) as u64;
            let high = |x: u64| (x >> 16) as u16;
            if pair { low | (f(high(a), high(b), high(c)) as u64) << 16 } else { low }
        }),
    )
}

fn half(inst: &Inst) -> Option<(usize, AluFn)> {
    let t = inst.ty();
    let pair = matches!(t, T::F16x2 | T::BF16x2);
    let bf16 = matches!(t, T::BF16 | T::BF16x2);
    let h = Half { bf16, ftz: inst.ftz(), sat: inst.sat(), relu: inst.has(Mod::Relu) };
    let f: &'static Format = if bf16 { &BF16 } else { &F16 };
    let single = move |g: fn(f32) -> u32| {
        move |a: u16| {
            let a = if h.ftz { f.flush(a as u64) } else { a as u64 };
            let wide = f32::from_bits(soft::convert(f, &F32, a, Round::Rn) as u32);
            let r = soft::convert(&F32, f, g(wide) as u64, Round::Rn);
            (if h.ftz { f.flush(r) } else { r }) as u16
        }
    };
    Some(match inst.op {
        Op::Add => h2(pair, move |a, b| h.add(a, b)),
        Op::Sub => h2(pair, move |a, b| h.add(a, b ^ 0x8000)),
        Op::Mul => h2(pair, move |a, b| h.mul(a, b)),
        Op::Fma if inst.has(Mod::Oob) => {
            h3(pair, move |a, b, c| if a == OOB_NAN || b == OOB_NAN { 0 } else { h.fma(a, b, c) })
        }
        Op::Fma => h3(pair, move |a, b, c| h.fma(a, b, c)),
        Op::Abs => h1(pair, move |a| sign_only(f, a & 0x7fff, h.ftz)),
        Op::Neg => h1(pair, move |a| sign_only(f, a ^ 0x8000, h.ftz)),
        Op::Min | Op::Max => {
            let (max, nan, xorsign) = (inst.op == Op::Max, inst.has(Mod::NaN), inst.has(Mod::Xorsign));
            let two = move |a: u16, b: u16| {
                let sign = (a ^ b) & 0x8000;
                let (a, b) = if xorsign { (a & 0x7fff, b & 0x7fff) } else { (a, b) };
                let r = h.min_max(max, nan, a, b);
                if xorsign && !f.is_nan(r as u64) { r | sign } else { r }
            };
            if inst.operands.len() == 4 { h3(pair, move |a, b, c| two(two(a, b), c)) } else { h2(pair, two) }
        }
        Op::Tanh => h1(pair, single(approx::tanh)),
        Op::Ex2 => h1(pair, single(approx::ex2)),
        _ => return None,
    })
}

fn packed_single(inst: &Inst) -> Option<(usize, AluFn)> {
    let (mode, ftz) = (round(inst), inst.ftz());
    let both = |f: &dyn Fn(u32) -> u32| f(0) as u64 | (f(32) as u64) << 32;
    let at = |x: u64, s: u32| (x >> s) as u32;
    Some(match inst.op {
        Op::Add => (2, l2(move |a, b| both(&|s| fp::add32(at(a, s), at(b, s), mode, ftz)))),
        Op::Sub => (2, l2(move |a, b| both(&|s| fp::add32(at(a, s), at(b, s) ^ 0x8000_0000, mode, ftz)))),
        Op::Mul => (2, l2(move |a, b| both(&|s| fp::mul32(at(a, s), at(b, s), mode, ftz)))),
        Op::Fma => (3, m3(move |a, b, c| both(&|s| fp::fma32(at(a, s), at(b, s), at(c, s), mode, ftz)))),
        _ => return None,
    })
}

/// Which comparison results make a relation true: less, equal, greater, unordered.
fn truth(op: CmpOp) -> (bool, bool, bool, bool) {
    match op {
        CmpOp::Eq => (false, true, false, false),
        CmpOp::Ne => (true, false, true, false),
        CmpOp::Lt | CmpOp::Lo => (true, false, false, false),
        CmpOp::Le | CmpOp::Ls => (true, true, false, false),
        CmpOp::Gt | CmpOp::Hi => (false, false, true, false),
        CmpOp::Ge | CmpOp::Hs => (false, true, true, false),
        CmpOp::Equ => (false, true, false, true),
        CmpOp::Neu => (true, false, true, true),
        CmpOp::Ltu => (true, false, false, true),
        CmpOp::Leu => (true, true, false, true),
        CmpOp::Gtu => (false, false, true, true),
        CmpOp::Geu => (false, true, true, true),
        CmpOp::Num => (true, true, true, false),
        CmpOp::Nan => (false, false, false, true),
    }
}

/// A comparison of two numbers of a format; `shift` is where the number starts in the register.
pub fn relation(f: &'static Format, op: CmpOp, ftz: bool, shift: u32) -> CmpFn {
    let (lt, eq, gt, un) = truth(op);
    let m = f.sign_bit() << 1;
    let input = move |x: u64| {
        let x = (x >> shift) & m.wrapping_sub(1);
        if ftz { f.flush(x) } else { x }
    };
    c2(move |a, b| match compare(f, input(a), input(b)) {
        Some(Ordering::Less) => lt,
        Some(Ordering::Equal) => eq,
        Some(Ordering::Greater) => gt,
        None => un,
    })
}

/// A comparison of integers of `bits` bits.
pub fn int_relation(op: CmpOp, bits: u32, signed: bool) -> CmpFn {
    let (lt, eq, gt, _) = truth(op);
    let signed = signed && !matches!(op, CmpOp::Lo | CmpOp::Ls | CmpOp::Hi | CmpOp::Hs);
    // Moved to the top of the word, with the sign bit flipped for signed numbers, unsigned order is the order.
    let flip = if signed { 1 << 63 } else { 0 };
    let key = move |x: u64| (x << (64 - bits)) ^ flip;
    match (lt, eq, gt) {
        (true, false, false) => c2(move |a, b| key(a) < key(b)),
        (true, true, false) => c2(move |a, b| key(a) <= key(b)),
        (false, false, true) => c2(move |a, b| key(a) > key(b)),
        (false, true, true) => c2(move |a, b| key(a) >= key(b)),
        (true, false, true) => c2(move |a, b| key(a) != key(b)),
        _ => c2(move |a, b| key(a) == key(b)),
    }
}

/// The format of a scalar floating-point type.
pub fn format(t: T) -> Option<&'static Format> {
    Some(match t {
        T::F16 | T::F16x2 => &F16,
        T::BF16 | T::BF16x2 => &BF16,
        T::F32 => &F32,
        T::F64 => &F64,
        _ => return None,
    })
}

/// `testp`
pub fn test(inst: &Inst) -> Option<CmpFn> {
    let f = format(inst.ty())?;
    let kind = *inst.mods.first()?;
    let magnitude = move |a: u64| a & (f.sign_bit() - 1);
    Some(match kind {
        Mod::Finite => c2(move |a, _| magnitude(a) < f.inf()),
        Mod::Infinite => c2(move |a, _| magnitude(a) == f.inf()),
        Mod::Number => c2(move |a, _| !f.is_nan(a)),
        Mod::Notanumber => c2(move |a, _| f.is_nan(a)),
        // Zeros count as normal.
        Mod::Normal => c2(move |a, _| magnitude(a) < f.inf() && !f.is_denormal(a)),
        Mod::Subnormal => c2(move |a, _| f.is_denormal(a)),
        _ => return None,
    })
}
