//! The simulator's definition of `MUFU` and of `FCHK`.
//!
//! The hardware's bits are not public. Here a function is computed in double precision (the `libm` crate) and rounded
//! to nearest single precision; operands and results that are denormal become zero, which the vendor's code counts on:
//! it scales such operands before and after. `TANH`, which the vendor never scales, takes and gives denormals. `SIN` and `COS` take turns (the angle divided by two pi). `RCP64H` and
//! `RSQ64H` take and give the upper word of a double. Division and square root sequences built on these converge to
//! the same bits for any seed of this quality.

use crate::num::fp::{canon32, ftz32};

/// A function of the unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Func {
    Cos,
    Sin,
    Ex2,
    Lg2,
    Rcp,
    Rsq,
    Sqrt,
    Tanh,
}

/// The function of single-precision bits.
pub fn single(f: Func, a: u32) -> u32 {
    if f == Func::Tanh {
        return canon32(libm::tanh(f32::from_bits(a) as f64) as f32);
    }
    let x = f32::from_bits(ftz32(a)) as f64;
    let r = match f {
        Func::Cos => libm::cos(turns(x)),
        Func::Sin => libm::sin(turns(x)),
        Func::Ex2 => libm::exp2(x),
        Func::Lg2 => libm::log2(x),
        Func::Rcp => 1.0 / x,
        Func::Rsq => 1.0 / x.sqrt(),

        Func::Sqrt | Func::Tanh => x.sqrt(),
    };
    ftz32(canon32(r as f32))
}

/// Turns to radians, after taking whole turns away (exactly).
fn turns(x: f64) -> f64 {
    x % 1.0 * std::f64::consts::TAU
}

/// `RCP64H`: upper word of the reciprocal of the double with this upper word.
pub fn rcp64h(high: u32) -> u32 {
    upper(1.0 / flush(high))
}

/// `RSQ64H`
pub fn rsq64h(high: u32) -> u32 {
    upper(1.0 / flush(high).sqrt())
}

fn flush(high: u32) -> f64 {
    let x = f64::from_bits((high as u64) << 32);
    if high & 0x7ff0_0000 == 0 { 0f64.copysign(x) } else { x }
}

fn upper(r: f64) -> u32 {
    if r.is_nan() {
        return 0x7fff_ffff;
    }
    let high = (r.to_bits() >> 32) as u32;
    if high & 0x7ff0_0000 == 0 { high & 0x8000_0000 } else { high }
}

/// `FCHK`: true where a quotient needs the slow path. The exact rule is not public; this one asks for the slow path
/// wherever an operand or a step of the fast path could leave the range of normal numbers. Both paths round correctly,
/// so the rule does not show in results.
pub fn division_check(a: u32, b: u32) -> bool {
    let exponent = |x: u32| (x >> 23 & 0xff) as i32 - 127;
    let (a, b) = (exponent(a), exponent(b));
    a.abs() > 90 || b.abs() > 90 || (a - b).abs() > 90
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let f = |func, x: f32| f32::from_bits(single(func, x.to_bits()));
        assert_eq!(f(Func::Rcp, 4.0), 0.25);
        assert_eq!(f(Func::Rcp, 1e-40), f32::INFINITY);
        assert_eq!(f(Func::Rcp, 2f32.powi(127)), 0.0);
        assert_eq!(f(Func::Sin, 0.25), 1.0);
        assert_eq!(single(Func::Sin, 0x8000_0000), 0x8000_0000);
        assert_eq!(f(Func::Cos, 1024.5), -1.0);
        assert_eq!(f(Func::Rsq, 4.0), 0.5);
        assert_eq!(f(Func::Ex2, -3.0), 0.125);
        assert_eq!(f(Func::Lg2, 8.0), 3.0);
        assert_eq!(rcp64h((2f64.to_bits() >> 32) as u32), (0.5f64.to_bits() >> 32) as u32);
        assert!(division_check(0, 1f32.to_bits()) && !division_check(1f32.to_bits(), 3f32.to_bits()));
    }
}
