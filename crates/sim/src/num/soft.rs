//! IEEE 754 arithmetic in software: any format up to 64 bits, any rounding, one exact result rounded once.
//!
//! Every operation makes the exact result as an integer times a power of two (128 bits and a sticky flag for what lies
//! below) and rounds that. NaN results are the format's canonical NaN ([`Format::nan`]); who wants payloads handles NaN
//! operands before calling.

/// Rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Round {
    /// To nearest, ties to even.
    Rn,
    /// Towards zero.
    Rz,
    /// Towards minus infinity.
    Rm,
    /// Towards plus infinity.
    Rp,
    /// To nearest, ties away from zero.
    Rna,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Exponent bits.
    pub exp_bits: u32,
    /// Stored mantissa bits.
    pub man_bits: u32,
    /// False for formats whose top exponent holds numbers (e4m3: all ones is NaN, there is no infinity).
    pub has_inf: bool,
    /// The NaN that operations generate.
    pub nan: u64,
}

/// `.f16`
pub const F16: Format = Format { exp_bits: 5, man_bits: 10, has_inf: true, nan: 0x7fff };
/// `.bf16`
pub const BF16: Format = Format { exp_bits: 8, man_bits: 7, has_inf: true, nan: 0x7fff };
/// `.f32`; PTX says that single-precision operations generate 0x7fffffff.
pub const F32: Format = Format { exp_bits: 8, man_bits: 23, has_inf: true, nan: 0x7fff_ffff };
/// `.f64`; the generated NaN is the negative quiet one with an empty payload.
pub const F64: Format = Format { exp_bits: 11, man_bits: 52, has_inf: true, nan: 0xfff8_0000_0000_0000 };
/// `.e5m2`
pub const E5M2: Format = Format { exp_bits: 5, man_bits: 2, has_inf: true, nan: 0x7f };
/// `.e4m3`
pub const E4M3: Format = Format { exp_bits: 4, man_bits: 3, has_inf: false, nan: 0x7f };
/// `.tf32`, as the 19 bits that count.
pub const TF32: Format = Format { exp_bits: 8, man_bits: 10, has_inf: true, nan: 0x3ffff };

impl Format {
    /// All bits but the sign.
    pub const fn width(&self) -> u32 {
        self.exp_bits + self.man_bits
    }

    const fn bias(&self) -> i32 {
        (1 << (self.exp_bits - 1)) - 1
    }

    /// The sign bit.
    pub const fn sign_bit(&self) -> u64 {
        1 << self.width()
    }

    /// Positive infinity (for formats without it, the NaN).
    pub const fn inf(&self) -> u64 {
        if self.has_inf { ((1 << self.exp_bits) - 1) << self.man_bits } else { self.nan }
    }

    /// The largest finite number.
    pub const fn max_finite(&self) -> u64 {
        if self.has_inf { self.inf() - 1 } else { self.nan - 1 }
    }

    /// True for NaN.
    pub const fn is_nan(&self, bits: u64) -> bool {
        let magnitude = bits & (self.sign_bit() - 1);
        if self.has_inf { magnitude > self.inf() } else { magnitude == self.nan }
    }

    /// True for a denormal number (not zero).
    pub const fn is_denormal(&self, bits: u64) -> bool {
        let magnitude = bits & (self.sign_bit() - 1);
        magnitude != 0 && magnitude >> self.man_bits == 0
    }

    /// Sign-preserving flush of a denormal to zero.
    pub const fn flush(&self, bits: u64) -> u64 {
        if self.is_denormal(bits) { bits & self.sign_bit() } else { bits }
    }
}

/// A number taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Num {
    Nan,
    Inf,
    /// `sig * 2^exp`; `sig` may be 0.
    Fin {
        sig: u128,
        exp: i32,
    },
}

fn unpack(f: &Format, bits: u64) -> (bool, Num) {
    let sign = bits & f.sign_bit() != 0;
    if f.is_nan(bits) {
        return (sign, Num::Nan);
    }
    let magnitude = bits & (f.sign_bit() - 1);
    if f.has_inf && magnitude == f.inf() {
        return (sign, Num::Inf);
    }
    let e = (magnitude >> f.man_bits) as i32;
    let m = magnitude & ((1 << f.man_bits) - 1);
    let hidden = if e > 0 { 1u64 << f.man_bits } else { 0 };
    (sign, Num::Fin { sig: (m | hidden) as u128, exp: e.max(1) - f.bias() - f.man_bits as i32 })
}

/// Rounds a magnitude `q + (rest > 0)` to an integer: `rest` against one half as `Ordering`, exact if `rest_zero`.
fn round_up(mode: Round, sign: bool, odd: bool, rest_zero: bool, half: std::cmp::Ordering) -> bool {
    use std::cmp::Ordering::*;
    match mode {
        Round::Rn => half == Greater || (half == Equal && odd),
        Round::Rna => half != Less,
        Round::Rz => false,
        Round::Rm => sign && !rest_zero,
        Round::Rp => !sign && !rest_zero,
    }
}

/// `sig >> shift` with the rest compared with one half.
fn shift_right(sig: u128, shift: u32, sticky: bool) -> (u128, bool, std::cmp::Ordering) {
    use std::cmp::Ordering::*;
    if shift == 0 {
        return (sig, !sticky, Less);
    }
    if shift > 128 {
        return (0, sig == 0 && !sticky, Less);
    }
    let (q, rest) = if shift == 128 { (0, sig) } else { (sig >> shift, sig & ((1 << shift) - 1)) };
    let half = 1u128 << (shift - 1);
    let order = match rest.cmp(&half) {
        Equal if sticky => Greater,
        o => o,
    };
    (q, rest == 0 && !sticky, order)
}

/// Rounds `(-1)^sign * (sig + sticky) * 2^exp`, where `sticky` stands for something between 0 and 1, into `f`.
fn pack(f: &Format, sign: bool, mut sig: u128, mut exp: i32, sticky: bool, mode: Round) -> u64 {
    let s = if sign { f.sign_bit() } else { 0 };
    if sig == 0 && !sticky {
        return s;
    }
    // Room below for a sticky part: a short significand is moved up first.
    let lz = sig.leading_zeros().min(127);
    if lz > 2 {
        sig <<= lz - 2;
        exp -= lz as i32 - 2;
    }
    let msb = 127 - sig.leading_zeros() as i32;
    let emin = 1 - f.bias();
    let lsb = (exp + msb).max(emin) - f.man_bits as i32;
    let shift = lsb - exp;
    debug_assert!(shift > 0);
    let (q, exact, half) = shift_right(sig, shift as u32, sticky);
    let q = q as u64 + round_up(mode, sign, q & 1 != 0, exact, half) as u64;
    let bits = if q >> f.man_bits == 0 {
        q
    } else {
        let biased = (lsb + f.man_bits as i32 + f.bias()) as u64;
        ((biased - 1) << f.man_bits) + q
    };
    let max = f.max_finite();
    if bits > max {
        let to_inf = match mode {
            Round::Rn | Round::Rna => true,
            Round::Rz => false,
            Round::Rm => sign,
            Round::Rp => !sign,
        };
        return s | if to_inf { f.inf() } else { max };
    }
    s | bits
}

/// Sum of two exact finite numbers.
fn add_exact(f: &Format, a: (bool, u128, i32), b: (bool, u128, i32), mode: Round) -> u64 {
    let zero = |sign: bool| if sign { f.sign_bit() } else { 0 };
    match (a.1 == 0, b.1 == 0) {
        (true, true) => return zero(if a.0 == b.0 { a.0 } else { mode == Round::Rm }),
        (true, false) => return pack(f, b.0, b.1, b.2, false, mode),
        (false, true) => return pack(f, a.0, a.1, a.2, false, mode),
        _ => {}
    }
    let norm = |(s, sig, e): (bool, u128, i32)| {
        let up = sig.leading_zeros() as i32 - 2;
        (s, if up >= 0 { sig << up } else { sig >> -up }, e - up)
    };
    let (mut x, mut y) = (norm(a), norm(b));
    if (y.2, y.1) > (x.2, x.1) {
        std::mem::swap(&mut x, &mut y);
    }
    let d = (x.2 - y.2) as u32;
    let (low, lost) = if d >= 127 { (0, true) } else { (y.1 >> d, y.1 & ((1u128 << d) - 1) != 0) };
    if x.0 == y.0 {
        return pack(f, x.0, x.1 + low, x.2, lost, mode);
    }
    let diff = x.1 - low - lost as u128;
    if diff == 0 && !lost {
        return zero(mode == Round::Rm);
    }
    pack(f, x.0, diff, x.2, lost, mode)
}

/// `a + b`.
pub fn add(f: &Format, a: u64, b: u64, mode: Round) -> u64 {
    let ((sa, na), (sb, nb)) = (unpack(f, a), unpack(f, b));
    match (na, nb) {
        (Num::Nan, _) | (_, Num::Nan) => f.nan,
        (Num::Inf, Num::Inf) if sa != sb => f.nan,
        (Num::Inf, _) => a,
        (_, Num::Inf) => b,
        (Num::Fin { sig: x, exp: ex }, Num::Fin { sig: y, exp: ey }) => add_exact(f, (sa, x, ex), (sb, y, ey), mode),
    }
}

/// `a * b`.
pub fn mul(f: &Format, a: u64, b: u64, mode: Round) -> u64 {
    let ((sa, na), (sb, nb)) = (unpack(f, a), unpack(f, b));
    let sign = sa != sb;
    let s = if sign { f.sign_bit() } else { 0 };
    match (na, nb) {
        (Num::Nan, _) | (_, Num::Nan) => f.nan,
        (Num::Inf, Num::Fin { sig: 0, .. }) | (Num::Fin { sig: 0, .. }, Num::Inf) => f.nan,
        (Num::Inf, _) | (_, Num::Inf) => s | f.inf(),
        (Num::Fin { sig: x, exp: ex }, Num::Fin { sig: y, exp: ey }) => pack(f, sign, x * y, ex + ey, false, mode),
    }
}

/// `a * b + c`, rounded once.
pub fn fma(f: &Format, a: u64, b: u64, c: u64, mode: Round) -> u64 {
    let ((sa, na), (sb, nb), (sc, nc)) = (unpack(f, a), unpack(f, b), unpack(f, c));
    let sign = sa != sb;
    let s = if sign { f.sign_bit() } else { 0 };
    match (na, nb, nc) {
        (Num::Nan, ..) | (_, Num::Nan, _) | (.., Num::Nan) => f.nan,
        (Num::Inf, Num::Fin { sig: 0, .. }, _) | (Num::Fin { sig: 0, .. }, Num::Inf, _) => f.nan,
        (Num::Inf, ..) | (_, Num::Inf, _) => {
            if nc == Num::Inf && sc != sign {
                f.nan
            } else {
                s | f.inf()
            }
        }
        (_, _, Num::Inf) => c,
        (Num::Fin { sig: x, exp: ex }, Num::Fin { sig: y, exp: ey }, Num::Fin { sig: z, exp: ez }) => {
            add_exact(f, (sign, x * y, ex + ey), (sc, z, ez), mode)
        }
    }
}

/// `a / b`.
pub fn div(f: &Format, a: u64, b: u64, mode: Round) -> u64 {
    let ((sa, na), (sb, nb)) = (unpack(f, a), unpack(f, b));
    let sign = sa != sb;
    let s = if sign { f.sign_bit() } else { 0 };
    match (na, nb) {
        (Num::Nan, _) | (_, Num::Nan) | (Num::Inf, Num::Inf) => f.nan,
        (Num::Fin { sig: 0, .. }, Num::Fin { sig: 0, .. }) => f.nan,
        (Num::Inf, _) | (_, Num::Fin { sig: 0, .. }) => s | f.inf(),
        (_, Num::Inf) | (Num::Fin { sig: 0, .. }, _) => s,
        (Num::Fin { sig: x, exp: ex }, Num::Fin { sig: y, exp: ey }) => {
            let up = x.leading_zeros() - 1;
            let (n, d) = (x << up, y);
            // At least 126 - 53 bits of quotient for formats of up to 53 bits.
            pack(f, sign, n / d, ex - up as i32 - ey, n % d != 0, mode)
        }
    }
}

/// Square root.
pub fn sqrt(f: &Format, a: u64, mode: Round) -> u64 {
    match unpack(f, a) {
        (_, Num::Nan) => f.nan,
        (_, Num::Fin { sig: 0, .. }) => a,
        (true, _) => f.nan,
        (false, Num::Inf) => a,
        (false, Num::Fin { sig, exp }) => {
            let mut up = sig.leading_zeros() as i32 - 2;
            if (exp - up) & 1 != 0 {
                up -= 1;
            }
            let x = sig << up;
            let root = x.isqrt();
            pack(f, false, root, (exp - up) / 2, root * root != x, mode)
        }
    }
}

/// From one format to another. NaN becomes the target's canonical NaN.
pub fn convert(from: &Format, to: &Format, a: u64, mode: Round) -> u64 {
    let (sign, n) = unpack(from, a);
    let s = if sign { to.sign_bit() } else { 0 };
    match n {
        Num::Nan => to.nan,
        Num::Inf => s | to.inf(),
        Num::Fin { sig, exp } => pack(to, sign, sig, exp, false, mode),
    }
}

/// A double into a format (used where a value was computed in double precision).
pub fn from_f64(to: &Format, a: f64, mode: Round) -> u64 {
    convert(&F64, to, a.to_bits(), mode)
}

/// The exact value of a number of a format of at most 53 significant bits and double's exponent range.
pub fn to_f64(from: &Format, a: u64) -> f64 {
    f64::from_bits(convert(from, &F64, a, Round::Rn))
}

/// An integer into a format.
pub fn from_int(to: &Format, a: i128, mode: Round) -> u64 {
    pack(to, a < 0, a.unsigned_abs(), 0, false, mode)
}

/// To an integer, saturated to `min..=max`; `None` for NaN.
pub fn to_int(from: &Format, a: u64, mode: Round, min: i128, max: i128) -> Option<i128> {
    let (sign, n) = unpack(from, a);
    let magnitude = match n {
        Num::Nan => return None,
        Num::Inf => return Some(if sign { min } else { max }),
        Num::Fin { sig: 0, .. } => 0,
        Num::Fin { sig, exp } if exp >= 0 => {
            if exp > 64 {
                return Some(if sign { min } else { max });
            }
            (sig << exp) as i128
        }
        Num::Fin { sig, exp } => {
            let (q, exact, half) = shift_right(sig, exp.unsigned_abs(), false);
            (q + round_up(mode, sign, q & 1 != 0, exact, half) as u128) as i128
        }
    };
    Some((if sign { -magnitude } else { magnitude }).clamp(min, max))
}

/// To an integer in the same format (`cvt.rni.f32.f32`); zero keeps the sign.
pub fn round_to_integral(f: &Format, a: u64, mode: Round) -> u64 {
    let (sign, n) = unpack(f, a);
    match n {
        Num::Nan => f.nan,
        Num::Fin { sig, exp } if exp < 0 => {
            let (q, exact, half) = shift_right(sig, exp.unsigned_abs(), false);
            let q = q + round_up(mode, sign, q & 1 != 0, exact, half) as u128;
            pack(f, sign, q, 0, false, Round::Rn)
        }
        _ => a,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same32(got: u64, want: f32) {
        if want.is_nan() {
            assert_eq!(got, F32.nan);
        } else {
            assert_eq!(got, want.to_bits() as u64, "{want}");
        }
    }

    fn same64(got: u64, want: f64) {
        if want.is_nan() {
            assert_eq!(got, F64.nan);
        } else {
            assert_eq!(got, want.to_bits(), "{want}");
        }
    }

    /// Any bits, and often two numbers of nearby exponents or special values.
    fn bits32() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            (0x3f00_0000u32..0x4100_0000, any::<bool>()).prop_map(|(b, s)| b | (s as u32) << 31),
            prop::sample::select(vec![
                0,
                1,
                0x007f_ffff,
                0x0080_0000,
                0x7f7f_ffff,
                0x7f80_0000,
                0x8000_0000,
                0xff80_0000,
                0x7fc0_0000
            ]),
        ]
    }

    fn bits64() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (0x3fe0_0000_0000_0000u64..0x4020_0000_0000_0000, any::<bool>()).prop_map(|(b, s)| b | (s as u64) << 63),
            prop::sample::select(vec![
                0,
                1,
                0x000f_ffff_ffff_ffff,
                1 << 52,
                0x7fef_ffff_ffff_ffff,
                0x7ff0_0000_0000_0000,
                1 << 63
            ]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, max_global_rejects: 100_000, ..ProptestConfig::default() })]

        // The host's arithmetic is the independent truth for rounding to nearest.
        #[test]
        fn nearest_is_the_hosts(a in bits32(), b in bits32(), c in bits32()) {
            let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            let (a, b, c) = (a as u64, b as u64, c as u64);
            same32(add(&F32, a, b, Round::Rn), x + y);
            same32(mul(&F32, a, b, Round::Rn), x * y);
            same32(div(&F32, a, b, Round::Rn), x / y);
            same32(sqrt(&F32, a, Round::Rn), x.sqrt());
            same32(fma(&F32, a, b, c, Round::Rn), x.mul_add(y, z));
            same64(convert(&F32, &F64, a, Round::Rn), x as f64);
        }

        #[test]
        fn nearest_is_the_hosts_double(a in bits64(), b in bits64(), c in bits64()) {
            let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
            same64(add(&F64, a, b, Round::Rn), x + y);
            same64(mul(&F64, a, b, Round::Rn), x * y);
            same64(div(&F64, a, b, Round::Rn), x / y);
            same64(sqrt(&F64, a, Round::Rn), x.sqrt());
            same64(fma(&F64, a, b, c, Round::Rn), x.mul_add(y, z));
            same32(convert(&F64, &F32, a, Round::Rn), x as f32);
        }

        // Directed roundings bracket the exact result: with e = the exact error of the nearest result (an error-free
        // transformation in double), rz/rm/rp are the nearest result or its neighbour.
        #[test]
        fn directed_roundings_bracket(a in bits32(), b in bits32()) {
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let exact = x as f64 * y as f64; // 48 bits, exact
            prop_assume!(exact.is_finite());
            let down = f32::from_bits(mul(&F32, a as u64, b as u64, Round::Rm) as u32);
            let up = f32::from_bits(mul(&F32, a as u64, b as u64, Round::Rp) as u32);
            let zero = f32::from_bits(mul(&F32, a as u64, b as u64, Round::Rz) as u32);
            prop_assert!(down as f64 <= exact && exact <= up as f64);
            prop_assert_eq!(up, if (exact as f32) as f64 == exact { down } else { down.next_up() });
            prop_assert_eq!(zero, if exact < 0.0 { up } else { down });
        }

        #[test]
        fn integers(a in any::<i64>(), b in any::<u64>(), x in bits64()) {
            same32(from_int(&F32, a as i128, Round::Rn), a as f32);
            same64(from_int(&F64, a as i128, Round::Rn), a as f64);
            same64(from_int(&F64, b as i128, Round::Rn), b as f64);
            let f = f64::from_bits(x);
            let (min, max) = (i64::MIN as i128, i64::MAX as i128);
            prop_assert_eq!(to_int(&F64, x, Round::Rz, min, max).map(|n| n as i64), (!f.is_nan()).then_some(f as i64));
            prop_assert_eq!(to_int(&F64, x, Round::Rm, min, max).map(|n| n as i64), (!f.is_nan()).then_some(f.floor() as i64));
            prop_assert_eq!(to_int(&F64, x, Round::Rp, 0, u64::MAX as i128).map(|n| n as u64), (!f.is_nan()).then_some(f.ceil() as u64));
            prop_assert_eq!(to_int(&F64, x, Round::Rn, min, max).map(|n| n as i64), (!f.is_nan()).then_some(f.round_ties_even() as i64));
            same64(round_to_integral(&F64, x, Round::Rn), f.round_ties_even());
            same64(round_to_integral(&F64, x, Round::Rm), f.floor());
            same64(round_to_integral(&F64, x, Round::Rp), f.ceil());
            same64(round_to_integral(&F64, x, Round::Rz), f.trunc());
            same64(round_to_integral(&F64, x, Round::Rna), f.round());
        }
    }

    #[test]
    fn small_formats() {
        // Every f16 survives the way through f32 and double.
        for h in 0..=0xffffu64 {
            if !F16.is_nan(h) {
                assert_eq!(convert(&F32, &F16, convert(&F16, &F32, h, Round::Rn), Round::Rn), h);
                assert_eq!(from_f64(&F16, to_f64(&F16, h), Round::Rz), h);
            }
        }
        assert_eq!(from_f64(&F16, 65520.0, Round::Rn), 0x7c00);
        assert_eq!(from_f64(&F16, 65519.0, Round::Rn), 0x7bff);
        assert_eq!(from_f64(&F16, 1e30, Round::Rz), 0x7bff);
        assert_eq!(from_f64(&BF16, 1.0 + 1.0 / 256.0, Round::Rn), 0x3f80);
        assert_eq!(from_f64(&BF16, 1.0 + 1.0 / 256.0, Round::Rna), 0x3f81);
        assert_eq!(from_f64(&E4M3, 448.0, Round::Rn), 0x7e);
        assert_eq!(from_f64(&E4M3, 500.0, Round::Rn), 0x7f);
        assert_eq!(to_f64(&E4M3, 0x7e), 448.0);
        assert_eq!(from_f64(&E5M2, 57344.0, Round::Rn), 0x7b);
        assert_eq!(to_f64(&E5M2, 1), 2f64.powi(-16));
        // 1 + 2^-60 is above 1 in every directed rounding that can say so.
        let tiny = (2f64.powi(-60)).to_bits();
        assert_eq!(add(&F64, 1f64.to_bits(), tiny, Round::Rp), 1f64.next_up().to_bits());
        assert_eq!(add(&F64, 1f64.to_bits(), tiny | 1 << 63, Round::Rz), 1f64.next_down().to_bits());
        assert_eq!(add(&F64, 1f64.to_bits(), 1f64.to_bits() | 1 << 63, Round::Rm), 1 << 63);
    }
}
