//! Scalar floating-point operations with their PTX rules, on raw bits.
//!
//! NaN rules. Single, half and bfloat16 operations give the canonical NaN (0x7fffffff, 0x7fff), as PTX says. For double
//! PTX leaves the payload open; here an operation gives its first NaN operand quieted, and 0xfff8000000000000 where it
//! makes a NaN from numbers.

use super::soft::{self, BF16, F16, F32, F64, Format, Round};

/// Sign-preserving flush of a single-precision denormal.
#[inline]
pub fn ftz32(a: u32) -> u32 {
    if a & 0x7f80_0000 == 0 { a & 0x8000_0000 } else { a }
}

#[inline]
fn ftz_if(a: u32, ftz: bool) -> u32 {
    if ftz { ftz32(a) } else { a }
}

/// Canonical NaN instead of any NaN.
#[inline]
pub fn canon32(a: f32) -> u32 {
    if a.is_nan() { 0x7fff_ffff } else { a.to_bits() }
}

/// `.sat`: into [+0, 1], NaN to +0.
#[inline]
pub fn sat32(a: u32) -> u32 {
    let f = f32::from_bits(a);
    if f > 0.0 { if f >= 1.0 { 0x3f80_0000 } else { a } } else { 0 }
}

/// `a + b` in single precision.
#[inline]
pub fn add32(a: u32, b: u32, mode: Round, ftz: bool) -> u32 {
    let (a, b) = (ftz_if(a, ftz), ftz_if(b, ftz));
    let r = if mode == Round::Rn {
        canon32(f32::from_bits(a) + f32::from_bits(b))
    } else {
        soft::add(&F32, a as u64, b as u64, mode) as u32
    };
    ftz_if(r, ftz)
}

/// `a * b` in single precision.
#[inline]
pub fn mul32(a: u32, b: u32, mode: Round, ftz: bool) -> u32 {
    let (a, b) = (ftz_if(a, ftz), ftz_if(b, ftz));
    let r = if mode == Round::Rn {
        canon32(f32::from_bits(a) * f32::from_bits(b))
    } else {
        soft::mul(&F32, a as u64, b as u64, mode) as u32
    };
    ftz_if(r, ftz)
}

/// `a * b + c` in single precision, rounded once.
#[inline]
pub fn fma32(a: u32, b: u32, c: u32, mode: Round, ftz: bool) -> u32 {
    let (a, b, c) = (ftz_if(a, ftz), ftz_if(b, ftz), ftz_if(c, ftz));
    let r = if mode == Round::Rn {
        canon32(f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)))
    } else {
        soft::fma(&F32, a as u64, b as u64, c as u64, mode) as u32
    };
    ftz_if(r, ftz)
}

/// `a / b` in single precision.
pub fn div32(a: u32, b: u32, mode: Round, ftz: bool) -> u32 {
    let (a, b) = (ftz_if(a, ftz), ftz_if(b, ftz));
    ftz_if(soft::div(&F32, a as u64, b as u64, mode) as u32, ftz)
}

/// Square root in single precision.
pub fn sqrt32(a: u32, mode: Round, ftz: bool) -> u32 {
    ftz_if(soft::sqrt(&F32, ftz_if(a, ftz) as u64, mode) as u32, ftz)
}

/// The NaN that a double operation gives for these operands, if one of them is NaN.
#[inline]
fn nan64(operands: &[u64]) -> Option<u64> {
    operands.iter().copied().find(|&x| F64.is_nan(x)).map(|x| x | 0x0008_0000_0000_0000)
}

#[inline]
fn finish64(r: f64, operands: &[u64]) -> u64 {
    if r.is_nan() { nan64(operands).unwrap_or(F64.nan) } else { r.to_bits() }
}

/// `a + b` in double precision.
#[inline]
pub fn add64(a: u64, b: u64, mode: Round) -> u64 {
    if mode == Round::Rn {
        return finish64(f64::from_bits(a) + f64::from_bits(b), &[a, b]);
    }
    nan64(&[a, b]).unwrap_or_else(|| soft::add(&F64, a, b, mode))
}

/// `a * b` in double precision.
#[inline]
pub fn mul64(a: u64, b: u64, mode: Round) -> u64 {
    if mode == Round::Rn {
        return finish64(f64::from_bits(a) * f64::from_bits(b), &[a, b]);
    }
    nan64(&[a, b]).unwrap_or_else(|| soft::mul(&F64, a, b, mode))
}

/// `a * b + c` in double precision, rounded once.
#[inline]
pub fn fma64(a: u64, b: u64, c: u64, mode: Round) -> u64 {
    if mode == Round::Rn {
        return finish64(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)), &[a, b, c]);
    }
    nan64(&[a, b, c]).unwrap_or_else(|| soft::fma(&F64, a, b, c, mode))
}

/// `a / b` in double precision.
pub fn div64(a: u64, b: u64, mode: Round) -> u64 {
    nan64(&[a, b]).unwrap_or_else(|| soft::div(&F64, a, b, mode))
}

/// Square root in double precision.
pub fn sqrt64(a: u64, mode: Round) -> u64 {
    nan64(&[a]).unwrap_or_else(|| soft::sqrt(&F64, a, mode))
}

/// Modifiers of the half-precision operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Half {
    /// bfloat16 instead of f16.
    pub bf16: bool,
    /// Flush denormals (f16 only).
    pub ftz: bool,
    /// Into [+0, 1].
    pub sat: bool,
    /// Negative results and -0 to +0, NaN to the canonical NaN.
    pub relu: bool,
}

impl Half {
    /// The format.
    pub fn format(self) -> &'static Format {
        if self.bf16 { &BF16 } else { &F16 }
    }

    fn input(self, a: u16) -> u64 {
        if self.ftz { self.format().flush(a as u64) } else { a as u64 }
    }

    fn output(self, r: u64) -> u16 {
        let f = self.format();
        let mut r = if self.ftz { f.flush(r) } else { r };
        if self.sat {
            let one = soft::from_f64(f, 1.0, Round::Rn);
            r = if f.is_nan(r) || r & 0x8000 != 0 { 0 } else { r.min(one) };
        }
        if self.relu && r & 0x8000 != 0 && !f.is_nan(r) {
            r = 0;
        }
        r as u16
    }

    /// `a + b`.
    pub fn add(self, a: u16, b: u16) -> u16 {
        self.output(soft::add(self.format(), self.input(a), self.input(b), Round::Rn))
    }

    /// `a * b`.
    pub fn mul(self, a: u16, b: u16) -> u16 {
        self.output(soft::mul(self.format(), self.input(a), self.input(b), Round::Rn))
    }

    /// `a * b + c`, rounded once.
    pub fn fma(self, a: u16, b: u16, c: u16) -> u16 {
        self.output(soft::fma(self.format(), self.input(a), self.input(b), self.input(c), Round::Rn))
    }

    /// Minimum or maximum.
    pub fn min_max(self, max: bool, nan: bool, a: u16, b: u16) -> u16 {
        self.output(min_max(self.format(), max, nan, self.input(a), self.input(b)))
    }
}

/// Minimum or maximum of two numbers of a format: -0 is below +0; a single NaN loses unless `nan` is set, two give the
/// canonical NaN.
#[inline]
pub fn min_max(f: &Format, max: bool, nan: bool, a: u64, b: u64) -> u64 {
    match (f.is_nan(a), f.is_nan(b)) {
        // Double: the second operand quieted, as everywhere where PTX leaves the payload open.
        (true, true) if f.width() == 63 => return b | 0x0008_0000_0000_0000,
        (true, true) => return f.nan,
        (true, false) => return if nan { f.nan } else { b },
        (false, true) => return if nan { f.nan } else { a },
        _ => {}
    }
    // Sign-magnitude to a number that orders as the float does.
    let key = |x: u64| if x & f.sign_bit() != 0 { -((x & !f.sign_bit()) as i64) - 1 } else { x as i64 };
    if (key(a) < key(b)) != max { a } else { b }
}

/// Float comparison of two numbers of a format: less, equal, greater, or `None` for NaN.
#[inline]
pub fn compare(f: &Format, a: u64, b: u64) -> Option<std::cmp::Ordering> {
    if f.is_nan(a) || f.is_nan(b) {
        return None;
    }
    let key = |x: u64| {
        let m = (x & (f.sign_bit() - 1)) as i64;
        if x & f.sign_bit() != 0 { -m } else { m }
    };
    Some(key(a).cmp(&key(b)))
}

/// Float to integer of `bits` bits as `cvt` does: rounded, clamped to the range; NaN gives 0, or where source or
/// destination has 64 bits the value with only the top bit set.
#[inline]
pub fn float_to_int(f: &Format, a: u64, mode: Round, bits: u32, signed: bool) -> u64 {
    let (min, max) =
        if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    match soft::to_int(f, a, mode, min, max) {
        Some(n) => n as u64 & mask,
        None if f.width() == 63 || bits == 64 => 1 << (bits - 1),
        None => 0,
    }
}

/// Float to float as `cvt` does. NaN becomes the target's canonical one; to and from double the sign and the top of
/// the payload are kept (as nothing says otherwise), and bfloat16 widens by appending zeros.
#[inline]
pub fn float_to_float(from: &Format, to: &Format, a: u64, mode: Round) -> u64 {
    if from.is_nan(a) {
        if from == &BF16 && to == &F32 {
            return a << 16;
        }
        if (from == &F64) != (to == &F64) && from.has_inf && to.has_inf && from.man_bits >= 10 && to.man_bits >= 23 {
            let payload = (a & ((1 << from.man_bits) - 1)) << (52 - from.man_bits) >> (52 - to.man_bits);
            let sign = if a & from.sign_bit() != 0 { to.sign_bit() } else { 0 };
            if to == &F64 {
                return sign | to.inf() | payload | 1 << (to.man_bits - 1);
            }
        }
        return to.nan;
    }
    soft::convert(from, to, a, mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_rules() {
        let one = 1f32.to_bits();
        assert_eq!(add32(0x7fc0_0001, one, Round::Rn, false), 0x7fff_ffff);
        assert_eq!(add32(0x7f80_0000, 0xff80_0000, Round::Rn, false), 0x7fff_ffff);
        assert_eq!(add32(1, 0, Round::Rn, true), 0);
        assert_eq!(add32(0x8000_0001, 0x8000_0001, Round::Rn, true), 0x8000_0000);
        assert_eq!(mul32(0x0080_0000, 0x3f00_0000, Round::Rn, true), 0);
        assert_eq!(mul32(0x0080_0000, 0x3f00_0000, Round::Rn, false), 0x0040_0000);
        assert_eq!(sat32(0x7fff_ffff), 0);
        assert_eq!(sat32((-1f32).to_bits()), 0);
        assert_eq!(sat32(2f32.to_bits()), one);
        assert_eq!(sat32(0x8000_0000), 0);
        assert_eq!(add32(one, 1, Round::Rp, false), 0x3f80_0001);
        assert_eq!(fma32(one, one, 0x8000_0001, Round::Rz, false), 0x3f7f_ffff);
    }

    #[test]
    fn double_nans() {
        assert_eq!(add64(0x7ff0_0000_0000_0001, 0, Round::Rn), 0x7ff8_0000_0000_0001);
        assert_eq!(add64(0, 0xfff8_0000_0000_0005, Round::Rz), 0xfff8_0000_0000_0005);
        assert_eq!(mul64(0, 0x7ff0_0000_0000_0000, Round::Rn), 0xfff8_0000_0000_0000);
        assert_eq!(sqrt64((-1f64).to_bits(), Round::Rn), 0xfff8_0000_0000_0000);
    }

    #[test]
    fn minimum_and_maximum() {
        let f = |x: f32| x.to_bits() as u64;
        for (a, b, min, max) in [
            (-0.0, 0.0, -0.0, 0.0),
            (0.0, -0.0, -0.0, 0.0),
            (-1.0, -2.0, -2.0, -1.0),
            (1.0, f32::INFINITY, 1.0, f32::INFINITY),
            (-3.0, 2.0, -3.0, 2.0),
            (f32::NAN, 2.0, 2.0, 2.0),
        ] {
            assert_eq!(min_max(&F32, false, false, f(a), f(b)), f(min), "min {a} {b}");
            assert_eq!(min_max(&F32, true, false, f(a), f(b)), f(max), "max {a} {b}");
        }
        assert_eq!(min_max(&F32, true, true, f(f32::NAN), f(2.0)), 0x7fff_ffff);
        assert_eq!(min_max(&F64, true, false, (-1f64).to_bits(), (-2f64).to_bits()), (-1f64).to_bits());
        assert_eq!(min_max(&F64, true, false, (-1f64).to_bits(), 0), 0);
        assert_eq!(min_max(&F64, false, false, 1 << 63, 0), 1 << 63);
        assert_eq!(compare(&F64, 1 << 63, 0), Some(std::cmp::Ordering::Equal));
    }

    #[test]
    fn half_rules() {
        let h = Half::default();
        assert_eq!(h.add(0x3c00, 0x3c00), 0x4000);
        assert_eq!(h.fma(0x3c01, 0x3c01, 0xbc02), 0x0010); // (1+2^-10)^2 - (1+2^-9) = 2^-20, exact
        assert_eq!(Half { sat: true, ..h }.add(0x4000, 0), 0x3c00);
        assert_eq!(Half { relu: true, ..h }.mul(0xbc00, 0x3c00), 0);
        assert_eq!(Half { ftz: true, ..h }.add(1, 0), 0);
        assert_eq!(h.add(0x7e00, 0), 0x7fff);
        assert_eq!(Half { bf16: true, ..h }.add(0x3f80, 0x3f80), 0x4000);
    }

    #[test]
    fn conversions() {
        assert_eq!(float_to_int(&F32, 0x7fc0_0000, Round::Rz, 32, true), 0);
        assert_eq!(float_to_int(&F32, 0x7fc0_0000, Round::Rz, 64, true), 1 << 63);
        assert_eq!(float_to_int(&F64, 0x7ff8_0000_0000_0000, Round::Rz, 32, true), 0x8000_0000);
        assert_eq!(float_to_int(&F32, (300f32).to_bits() as u64, Round::Rz, 8, false), 255);
        assert_eq!(float_to_int(&F32, (-1.5f32).to_bits() as u64, Round::Rm, 32, true), 0xffff_fffe);
        assert_eq!(float_to_float(&F64, &F32, 0x7ff8_0000_0000_0000, Round::Rn), 0x7fff_ffff);
        assert_eq!(float_to_float(&F32, &F64, 0xffc0_0001, Round::Rn), 0xfff8_0000_2000_0000);
        assert_eq!(float_to_float(&BF16, &F32, 0xff81, Round::Rn), 0xff81_0000);
    }
}
