//! `cvt` and `cvt.pack`, written from section 9.7.9.21 of the PTX ISA.

use super::float::{format, round};
use super::lanes::{l1, l2, l3, m1, m2, mask, sx};
use super::program::AluFn;
use crate::num::fp::{float_to_float, float_to_int};
use crate::num::soft::{self, E4M3, E5M2, F16, F32, Format, Round, TF32, from_int};
use ptx::access::Rounding;
use ptx::isa::Mod;
use ptx::module::Inst;
use ptx::types::ScalarType as T;

/// The lane function of a `cvt`; `None` for a conversion that is not modelled. `width` is the width of the destination
/// register: a signed result is extended to it.
pub fn alu(inst: &Inst, width: u32) -> Option<(usize, AluFn)> {
    let types = inst.types();
    if inst.has(Mod::Pack) {
        return pack(inst, &types);
    }
    let (dst, src) = (*types.first()?, *types.get(1)?);
    if dst.bits() > 64 || src.bits() > 64 {
        return None;
    }
    let small = |t| match t {
        T::E4M3x2 => Some(&E4M3),
        T::E5M2x2 => Some(&E5M2),
        _ => None,
    };
    let relu = inst.has(Mod::Relu);
    let mode = round(inst);
    let satfinite = inst.has(Mod::Satfinite);
    match (dst, src) {
        (T::F16x2 | T::BF16x2, T::F32) => {
            let f: &'static Format = format(dst)?;
            let one = move |a: u64| narrow(f, &F32, a, mode, satfinite, relu);
            return Some((2, m2(move |a, b| one(a) << 16 | one(b))));
        }
        (T::E4M3x2 | T::E5M2x2, T::F32) => {
            let f = small(dst)?;
            let one = move |a: u64| narrow(f, &F32, a, mode, true, relu);
            return Some((2, m2(move |a, b| one(a) << 8 | one(b))));
        }
        (T::E4M3x2 | T::E5M2x2, T::F16x2) => {
            let f = small(dst)?;
            let one = move |a: u64| narrow(f, &F16, a & 0xffff, mode, true, relu);
            return Some((1, m1(move |a| one(a >> 16) << 8 | one(a))));
        }
        (T::F16x2, T::E4M3x2 | T::E5M2x2) => {
            let f = small(src)?;
            let one = move |a: u64| narrow(&F16, f, a & 0xff, Round::Rn, false, relu);
            return Some((1, m1(move |a| one(a >> 8) << 16 | one(a))));
        }
        (T::TF32, T::F32) => {
            return Some((1, m1(move |a| narrow(&TF32, &F32, a, mode, satfinite, relu) << 13)));
        }
        _ => {}
    }
    // Formats that nothing below knows.
    if [dst, src].iter().any(|&t| t.is_float() && format(t).is_none()) {
        return None;
    }
    let (sat, ftz) = (inst.sat(), inst.ftz());
    let (db, sb) = (dst.bits(), src.bits());
    let extend = {
        let (signed, keep) = (dst.is_signed(), mask(width));
        move |x: u64| if signed && db < width { sx(x, db) as u64 & keep } else { x }
    };
    match (format(dst), format(src)) {
        (None, None) => {
            let (sign, m) = (src.is_signed(), mask(db));
            if sat {
                let (min, max) = range(db, dst.is_signed());
                return Some((
                    1,
                    l1(move |a| {
                        let v = if sign { sx(a, sb) as i128 } else { (a & mask(sb)) as i128 };
                        extend(v.clamp(min, max) as u64 & m)
                    }),
                ));
            }
            Some((1, l1(move |a| extend((if sign { sx(a, sb) as u64 } else { a & mask(sb) }) & m))))
        }
        (Some(f), None) => {
            let sign = src.is_signed();
            let plain = dst == T::F32 && mode == Round::Rn && !sat;
            Some((
                1,
                m1(move |a| {
                    let v = if sign { sx(a, sb) as i128 } else { (a & mask(sb)) as i128 };
                    if plain {
                        let wide = v > i64::MAX as i128;
                        return (if wide { v as u64 as f32 } else { v as i64 as f32 }).to_bits() as u64;
                    }
                    let r = from_int(f, v, mode);
                    if sat { saturate(f, r) } else { r }
                }),
            ))
        }
        (None, Some(f)) => {
            let signed = dst.is_signed();
            let m = mask(sb);
            Some((
                1,
                m1(move |a| {
                    let a = if ftz { f.flush(a & m) } else { a & m };
                    extend(float_to_int(f, a, mode, db, signed))
                }),
            ))
        }
        (Some(to), Some(from)) => {
            let integral =
                matches!(inst.rounding(), Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi));
            let m = mask(sb);
            Some((
                1,
                m1(move |a| {
                    // .ftz concerns single precision only, on either side.
                    let mut r = if ftz && from == &F32 { from.flush(a & m) } else { a & m };
                    if integral {
                        // A double keeps the payload of its NaN.
                        let double = from.width() == 63 && from.is_nan(r);
                        r = if double { r | 1 << 51 } else { soft::round_to_integral(from, r, mode) };
                    }
                    if to != from {
                        let mode = if integral { Round::Rn } else { mode };
                        r = float_to_float(from, to, r, mode);
                    } else if from.is_nan(r) {
                        r = if from == &F32 { from.nan } else { r };
                    }
                    if ftz && to == &F32 {
                        r = to.flush(r);
                    }
                    if satfinite {
                        r = finite(to, r);
                    }
                    if relu && r & to.sign_bit() != 0 {
                        r = if to.is_nan(r) { to.nan } else { 0 };
                    }
                    if sat { saturate(to, r) } else { r }
                }),
            ))
        }
    }
}

fn range(bits: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) }
}

/// Into [+0, 1]; NaN to +0.
fn saturate(f: &Format, r: u64) -> u64 {
    if f.is_nan(r) || r & f.sign_bit() != 0 {
        return 0;
    }
    r.min(soft::from_f64(f, 1.0, Round::Rn))
}

/// Infinity to the largest finite number.
fn finite(f: &Format, r: u64) -> u64 {
    let magnitude = r & (f.sign_bit() - 1);
    if f.is_nan(r) || magnitude <= f.max_finite() { r } else { (r & f.sign_bit()) | f.max_finite() }
}

/// Conversion to a narrow format with its modifiers.
fn narrow(to: &Format, from: &Format, a: u64, mode: Round, satfinite: bool, relu: bool) -> u64 {
    if from.is_nan(a) {
        return to.nan;
    }
    let mut r = soft::convert(from, to, a, mode);
    if satfinite {
        // A format without infinity overflows to its NaN.
        let magnitude = r & (to.sign_bit() - 1);
        if magnitude > to.max_finite() {
            r = (r & to.sign_bit()) | to.max_finite();
        }
    }
    if relu && r & to.sign_bit() != 0 { 0 } else { r }
}

/// `cvt.pack.sat.dst.s32{.b32} d, a, b{, c}`: a is the upper, b the lower element; c moves up to make room.
fn pack(inst: &Inst, types: &[T]) -> Option<(usize, AluFn)> {
    let dst = *types.first()?;
    let bits = dst.bits();
    let (min, max) = range(bits, dst.is_signed());
    let one = move |a: u64| (sx(a, 32) as i128).clamp(min, max) as u64 & mask(bits);
    Some(if inst.operands.len() == 4 {
        (3, l3(move |a, b, c| (c << (2 * bits) | one(a) << bits | one(b)) & 0xffff_ffff))
    } else {
        (2, l2(move |a, b| one(a) << bits | one(b)))
    })
}
