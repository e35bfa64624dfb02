//! The interpreter's definition of the approximate functions: computed in double precision (the `libm` crate, the same
//! on every host) and rounded to nearest single precision. PTX allows an error of 1 to 2 units in the last place, or
//! 2^-20.9 to 2^-22 absolute for `sin`, `cos`, `lg2`; rounding the double result is far inside all of these.
//!
//! `sin` and `cos` are exact functions of an angle that is reduced as the hardware does it, see `angle`.
//!
//! With `.ftz` the caller flushes operand and result. Without it, PTX says that these functions take denormals as they
//! are.

use crate::num::fp::{canon32, ftz32, mul32};
use crate::num::soft::Round;

fn f32_of(x: f64) -> u32 {
    canon32(x as f32)
}

/// `1 / a`
pub fn rcp(a: f32) -> u32 {
    f32_of(1.0 / a as f64)
}

/// Square root.
pub fn sqrt(a: f32) -> u32 {
    f32_of((a as f64).sqrt())
}

/// `1 / sqrt(a)`; -0 gives -inf.
pub fn rsqrt(a: f32) -> u32 {
    f32_of(1.0 / (a as f64).sqrt())
}

/// The angle as the hardware reduces it: in turns, a single-precision number rounded towards zero, denormals zero; then
/// whole turns are taken away and the rest is an angle again. For small angles the error stays within what PTX allows;
/// for large ones PTX allows any, and code for the GPU sees just this loss.
fn angle(a: f32) -> f64 {
    let per_turn = 0.159_154_94_f32.to_bits();
    let t = mul32(a.to_bits(), per_turn, Round::Rz, false);
    (f32::from_bits(ftz32(t)) as f64 % 1.0) * std::f64::consts::TAU
}

/// Sine.
pub fn sin(a: f32) -> u32 {
    f32_of(libm::sin(angle(a)))
}

/// Cosine.
pub fn cos(a: f32) -> u32 {
    f32_of(libm::cos(angle(a)))
}

/// Binary logarithm.
pub fn lg2(a: f32) -> u32 {
    f32_of(libm::log2(a as f64))
}

/// `2^a`
pub fn ex2(a: f32) -> u32 {
    f32_of(libm::exp2(a as f64))
}

/// Hyperbolic tangent.
pub fn tanh(a: f32) -> u32 {
    f32_of(libm::tanh(a as f64))
}

/// `a / b` of `div.approx` and `div.full`. For `div.approx` PTX says that 2^126 < |b| < 2^128 gives 0 (NaN for infinite
/// `a`).
pub fn div(a: f32, b: f32, full: bool) -> u32 {
    if !full && b.abs() > 2f32.powi(126) && b.is_finite() {
        return if a.is_infinite() || a.is_nan() { 0x7fff_ffff } else { (a.to_bits() ^ b.to_bits()) & 0x8000_0000 };
    }
    f32_of(a as f64 / b as f64)
}

/// `rcp.approx.ftz.f64`: the upper 20 bits of the mantissa of the reciprocal, the rest zero. Denormals count as zero.
pub fn rcp64(a: f64) -> u64 {
    truncated(1.0 / flush(a))
}

/// `rsqrt.approx.ftz.f64`, with a result of the same shape.
pub fn rsqrt64(a: f64) -> u64 {
    truncated(1.0 / flush(a).sqrt())
}

fn flush(a: f64) -> f64 {
    if a.is_subnormal() { 0f64.copysign(a) } else { a }
}

fn truncated(r: f64) -> u64 {
    if r.is_nan() { 0x7fff_ffff_0000_0000 } else { flush(r).to_bits() & 0xffff_ffff_0000_0000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_values() {
        let f = f32::from_bits;
        assert_eq!(f(rcp(0.0)), f32::INFINITY);
        assert_eq!(f(rcp(-0.0)), f32::NEG_INFINITY);
        assert_eq!(f(rcp(f32::INFINITY)), 0.0);
        assert_eq!(f(rsqrt(-0.0)), f32::NEG_INFINITY);
        assert_eq!(rsqrt(-1.0), 0x7fff_ffff);
        assert_eq!(f(lg2(0.0)), f32::NEG_INFINITY);
        assert_eq!(lg2(-1.0), 0x7fff_ffff);
        assert_eq!(f(ex2(f32::NEG_INFINITY)), 0.0);
        assert_eq!(f(ex2(10.0)), 1024.0);
        assert_eq!(f(ex2(-149.0)), f32::from_bits(1));
        assert_eq!(sin(f32::INFINITY), 0x7fff_ffff);
        assert_eq!(f(tanh(f32::INFINITY)), 1.0);
        assert_eq!(f(div(1.0, 2f32.powi(127), false)), 0.0);
        assert_eq!(f(div(1.0, 2f32.powi(127), true)), 2f32.powi(-127));
        assert_eq!(div(f32::INFINITY, 2f32.powi(127), false), 0x7fff_ffff);
        assert_eq!(f64::from_bits(rcp64(2.0)), 0.5);
    }
}
