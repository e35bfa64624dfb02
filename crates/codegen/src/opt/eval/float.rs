//! Operations on constants of floating point.
//!
//! Numbers of every format are exact in double precision, and so are most of the results here before they are rounded: what is not is left
//! to the unit, as are NaNs, and subnormal numbers where a unit may take them for zero.

use crate::ir::{Attr, Cmp, Fmt, Op, Rnd, Ty, mask};

/// The result of a floating-point operation or conversion, if it is known exactly.
pub fn eval(op: Op, attr: Attr, args: &[u64], ty: Ty) -> Option<u64> {
    let a = *args.first()?;
    // Bit 0 of `sub` allows to contract, which is nothing to what is constant.
    let plain = attr.rnd == Rnd::Rn && !attr.sat && attr.sub & !1 == 0;
    match op {
        // What becomes of a NaN of 16 bits is left to the unit, as `.oob` would tell one from another.
        Op::FNeg | Op::FAbs if !attr.ftz && !nan_of_halves(attr.fmt, a) => {
            let sign = match attr.fmt {
                Fmt::F16x2 | Fmt::BF16x2 => 0x8000_8000,
                _ => 1 << (ty.bits() - 1),
            };
            Some(if op == Op::FNeg { a ^ sign } else { a & !sign })
        }
        Op::FAdd | Op::FMul | Op::FFma if plain => match half_of(attr.fmt) {
            Some(fmt) => {
                let half = |n: u32| {
                    let of = |i: usize| args.get(i).map_or(0, |v| v >> (16 * n) & 0xffff);
                    arithmetic(op, Attr { fmt, ..attr }, of(0), of(1), of(2))
                };
                Some(half(0)? | half(1)? << 16)
            }
            None => arithmetic(op, attr, a, *args.get(1)?, args.get(2).copied().unwrap_or(0)),
        },
        Op::FMin | Op::FMax if attr.sub & 2 == 0 => {
            let (x, y) = (number(attr.fmt, a)?, number(attr.fmt, *args.get(1)?)?);
            // Which zero it is is the unit's to say.
            (x != y).then_some(if (x < y) == (op == Op::FMin) { a } else { args[1] })
        }
        Op::FCmp if args.len() == 2 => compare(attr, a, args[1]),
        Op::FRound if !attr.sat => encode(attr.fmt, rounded(number(attr.fmt, a)?, attr.rnd), Rnd::Rn),
        Op::F2F if !attr.sat => encode(attr.fmt, number(attr.fmt2, a)?, attr.rnd),
        Op::F2FPack if attr.sub == 0 && !attr.sat => {
            let half = |v: u64| encode(half_of(attr.fmt)?, number(attr.fmt2, v)?, attr.rnd);
            Some(half(a)? << 16 | half(*args.get(1)?)?)
        }
        Op::FDiv | Op::FRcp | Op::FSqrt if attr.sub & 3 == 0 && plain => {
            quotient_or_root(op, attr, a, args.get(1).copied())
        }
        Op::FRcp | Op::FSqrt | Op::FRsqrt | Op::FEx2 | Op::FLg2 if attr.fmt == Fmt::F32 && !attr.sat => power(op, a),
        Op::F2I => to_integer(attr, number(attr.fmt, a)?, ty),
        Op::I2F if !attr.sat => {
            let v = a & mask_of(attr.sub);
            let x = if attr.signed { ((v << (64 - attr.sub)) as i64 >> (64 - attr.sub)) as i128 } else { v as i128 };
            // What takes more bits than a double has would be rounded twice.
            (x as f64 as i128 == x && x.unsigned_abs() <= 1 << 63).then(|| encode(attr.fmt, x as f64, attr.rnd))?
        }
        _ => None,
    }
}

/// The format of each of two halves.
fn half_of(fmt: Fmt) -> Option<Fmt> {
    match fmt {
        Fmt::F16x2 => Some(Fmt::F16),
        Fmt::BF16x2 => Some(Fmt::BF16),
        _ => None,
    }
}

fn mask_of(bits: u8) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Bits of the fraction and of the exponent.
fn shape(fmt: Fmt) -> Option<(u32, u32)> {
    match fmt {
        Fmt::F16 => Some((10, 5)),
        Fmt::BF16 => Some((7, 8)),
        Fmt::F32 => Some((23, 8)),
        Fmt::F64 => Some((52, 11)),
        _ => None,
    }
}

/// A number that no unit takes for zero, infinities among them.
fn number(fmt: Fmt, a: u64) -> Option<f64> {
    let (fraction, exponent) = shape(fmt)?;
    if fmt == Fmt::F64 {
        return Some(f64::from_bits(a)).filter(|x| !x.is_nan());
    }
    let top = (1u64 << exponent) - 1;
    let (of, at) = (a & mask_of(fraction as u8), a >> fraction & top);
    let size = match (at, of) {
        (0, 0) => 0.0,
        (0, _) => return None,
        (at, 0) if at == top => f64::INFINITY,
        (at, _) if at == top => return None,
        _ => f64::from_bits((at + 1023 - top / 2) << 52 | of << (52 - fraction)),
    };
    Some(if a >> (fraction + exponent) & 1 != 0 { -size } else { size })
}

/// A number in a format; None where what is left of it is subnormal, or too much for another rounding than to the nearest.
fn encode(fmt: Fmt, x: f64, rnd: Rnd) -> Option<u64> {
    let (fraction, exponent) = shape(fmt)?;
    if fmt == Fmt::F64 {
        return (!x.is_nan()).then(|| x.to_bits());
    }
    let top = (1u64 << exponent) - 1;
    let sign = x.to_bits() >> 63 << (fraction + exponent);
    if x.is_nan() {
        return None;
    }
    if x == 0.0 || x.is_infinite() {
        return Some(sign | if x == 0.0 { 0 } else { top << fraction });
    }
    // The last place of the result as one, then back: both are exact.
    let at = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let bias = (top / 2) as i32;
    if at < 1 - bias || at > bias {
        return None;
    }
    let place = f64::from_bits(((at - fraction as i32 + 1023) as u64) << 52);
    let y = rounded(x / place, rnd) * place;
    let (at, of) = ((y.to_bits() >> 52 & 0x7ff) as i32 - 1023, y.to_bits() & mask_of(52));
    if at > bias {
        return (rnd == Rnd::Rn).then_some(sign | top << fraction);
    }
    Some(sign | ((at + bias) as u64) << fraction | of >> (52 - fraction))
}

/// A sum, a product or both.
fn arithmetic(op: Op, attr: Attr, a: u64, b: u64, c: u64) -> Option<u64> {
    if attr.fmt == Fmt::F64 {
        let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
        let r = match op {
            Op::FAdd => x + y,
            Op::FMul => x * y,
            _ => x.mul_add(y, z),
        };
        return (!r.is_nan()).then(|| r.to_bits());
    }
    let (x, y) = (number(attr.fmt, a)?, number(attr.fmt, b)?);
    if attr.fmt == Fmt::F32 {
        let (x, y) = (x as f32, y as f32);
        let r = match op {
            Op::FAdd => x + y,
            Op::FMul => x * y,
            _ => x.mul_add(y, number(attr.fmt, c)? as f32),
        };
        return (r == 0.0 || r.is_normal() || r.is_infinite()).then(|| r.to_bits() as u64);
    }
    // Products of halves are exact. A sum of two terms is where both can be taken away again.
    let sum = |x: f64, y: f64| Some(x + y).filter(|s| s - x == y && s - y == x);
    let r = match op {
        Op::FAdd => sum(x, y)?,
        Op::FMul => x * y,
        _ => sum(x * y, number(attr.fmt, c)?)?,
    };
    encode(attr.fmt, r, Rnd::Rn)
}

/// A correctly rounded quotient, reciprocal or square root.
fn quotient_or_root(op: Op, attr: Attr, a: u64, b: Option<u64>) -> Option<u64> {
    let x = number(attr.fmt, a)?;
    let y = b.map_or(Some(1.0), |b| number(attr.fmt, b))?;
    let r = match (op, attr.fmt) {
        // Rounded twice, from more than twice the digits: the same as once.
        (Op::FDiv, _) => x / y,
        (Op::FRcp, _) => 1.0 / x,
        _ => x.sqrt(),
    };
    match attr.fmt {
        Fmt::F64 => (r == 0.0 || r.is_normal() || r.is_infinite()).then(|| r.to_bits()),
        Fmt::F32 => encode(attr.fmt, r, Rnd::Rn),
        _ => None,
    }
}

/// What the unit for reciprocals, roots, powers and logarithms gives where that is exact: of powers of two (of four for roots), and of integers that
/// are exponents. ptxas computes these, too.
fn power(op: Op, a: u64) -> Option<u64> {
    let x = number(Fmt::F32, a)?;
    let exponent = (x.to_bits() >> 52) as i64 - 1023;
    let of_two = |e: i64| (-126..=127).contains(&e).then(|| ((e + 127) as u64) << 23);
    if op == Op::FEx2 {
        return (x == x.trunc() && (-126.0..=127.0).contains(&x)).then(|| of_two(x as i64))?;
    }
    if !(x > 0.0 && x.is_finite() && x.to_bits() & mask_of(52) == 0) {
        return None;
    }
    match op {
        Op::FLg2 => encode(Fmt::F32, exponent as f64, Rnd::Rn),
        Op::FRcp => of_two(-exponent),
        _ if exponent % 2 != 0 => None,
        Op::FSqrt => of_two(exponent / 2),
        _ => of_two(-exponent / 2),
    }
}

/// How two numbers compare, neither of them a NaN.
fn compare(attr: Attr, a: u64, b: u64) -> Option<u64> {
    let (x, y) = (number(attr.fmt, a)?, number(attr.fmt, b)?);
    let holds = match attr.cmp {
        Cmp::Eq | Cmp::Equ => x == y,
        Cmp::Ne | Cmp::Neu => x != y,
        Cmp::Lt | Cmp::Ltu => x < y,
        Cmp::Le | Cmp::Leu => x <= y,
        Cmp::Gt | Cmp::Gtu => x > y,
        Cmp::Ge | Cmp::Geu => x >= y,
        Cmp::Num => true,
        Cmp::Nan => false,
    };
    Some(holds as u64)
}

/// Without its fraction (CUDA's `pow` asks so whether its exponent is even).
fn rounded(x: f64, rnd: Rnd) -> f64 {
    match rnd {
        Rnd::Rn => x.round_ties_even(),
        Rnd::Rz => x.trunc(),
        Rnd::Rm => x.floor(),
        Rnd::Rp => x.ceil(),
    }
}

/// A number to an integer of `sub` bits, where it fits: what does not is clamped by the unit.
fn to_integer(attr: Attr, x: f64, ty: Ty) -> Option<u64> {
    let x = rounded(x, attr.rnd);
    let bits = attr.sub as i32;
    let (least, above) = if attr.signed { (-2f64.powi(bits - 1), 2f64.powi(bits - 1)) } else { (0.0, 2f64.powi(bits)) };
    (least <= x && x < above).then_some(x as i128 as u64 & mask(ty))
}

/// Is one of the halves a NaN?
fn nan_of_halves(fmt: Fmt, a: u64) -> bool {
    let infinity = match fmt {
        Fmt::F16 | Fmt::F16x2 => 0x7c00,
        Fmt::BF16 | Fmt::BF16x2 => 0x7f80,
        _ => return false,
    };
    [a, a >> 16].into_iter().any(|h| h & 0x7fff > infinity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn e(op: Op, attr: Attr, ty: Ty, args: &[u64]) -> Option<u64> {
        eval(op, attr, args, ty)
    }

    #[test]
    fn numbers_are_rounded_and_compared() {
        let d = Attr { fmt: Fmt::F64, rnd: Rnd::Rz, ..Attr::default() };
        let round = |attr, v: f64| e(Op::FRound, attr, Ty::B64, &[v.to_bits()]);
        assert_eq!(round(d, 2.75), Some(2f64.to_bits()));
        assert_eq!(round(d, -0.5), Some((-0f64).to_bits()));
        assert_eq!(round(Attr { rnd: Rnd::Rn, ..d }, 2.5), Some(2f64.to_bits()));
        assert_eq!(round(d, f64::NAN), None);
        let s = Attr { fmt: Fmt::F32, rnd: Rnd::Rp, ..d };
        assert_eq!(e(Op::FRound, s, Ty::B32, &[1.25f32.to_bits() as u64]), Some(2f32.to_bits() as u64));
        let compare = |cmp, x: f64, y: f64| e(Op::FCmp, Attr { cmp, ..d }, Ty::P, &[x.to_bits(), y.to_bits()]);
        assert_eq!((compare(Cmp::Eq, 0.0, -0.0), compare(Cmp::Gtu, 1.0, 2.0)), (Some(1), Some(0)));
        assert_eq!(compare(Cmp::Neu, f64::NAN, 1.0), None);
        // What is subnormal may count as zero.
        assert_eq!(e(Op::FCmp, Attr { cmp: Cmp::Eq, ..s }, Ty::P, &[1, 0]), None);
    }

    #[test]
    fn floats_become_integers_where_they_fit() {
        let u = Attr { fmt: Fmt::F32, rnd: Rnd::Rz, sub: 32, ..Attr::default() };
        let s = Attr { signed: true, ..u };
        let of = |attr, v: f32| e(Op::F2I, attr, Ty::B32, &[v.to_bits() as u64]);
        assert_eq!(of(u, 15.99), Some(15));
        assert_eq!(of(Attr { rnd: Rnd::Rp, ..u }, 15.01), Some(16));
        assert_eq!(of(Attr { rnd: Rnd::Rn, ..u }, 2.5), Some(2));
        assert_eq!(of(Attr { rnd: Rnd::Rm, ..s }, -1.5), Some(0xffff_fffe));
        assert_eq!(of(s, -2_147_483_648.0), Some(0x8000_0000));
        assert_eq!((of(s, 2_147_483_648.0), of(u, -1.0), of(u, f32::NAN)), (None, None, None));
        assert_eq!(of(u, 4_294_967_296.0), None);
        // Extended to the width of the result.
        let byte = Attr { sub: 8, ..s };
        assert_eq!((of(byte, -128.0), of(byte, 128.0)), (Some(0xffff_ff80), None));
        let long = Attr { fmt: Fmt::F64, sub: 64, ..u };
        assert_eq!(e(Op::F2I, long, Ty::B64, &[2f64.powi(63).to_bits()]), Some(1 << 63));
        assert_eq!(e(Op::F2I, long, Ty::B64, &[2f64.powi(64).to_bits()]), None);
    }

    #[test]
    fn integers_become_floats() {
        let s = Attr { fmt: Fmt::F32, signed: true, sub: 32, ..Attr::default() };
        let of = |attr, v: u64| e(Op::I2F, attr, Ty::B32, &[v]);
        let bits = |v: f32| Some(v.to_bits() as u64);
        assert_eq!((of(s, 0xffff_fffd), of(s, 0)), (bits(-3.0), bits(0.0)));
        // Halfway between two singles, to the even one, up and down.
        assert_eq!(of(s, 0x100_0001), bits(16_777_216.0));
        assert_eq!(of(Attr { rnd: Rnd::Rp, ..s }, 0x100_0001), bits(16_777_218.0));
        let half = Attr { fmt: Fmt::F16, ..s };
        assert_eq!((of(half, 2049), of(half, 65519)), (Some(0x6800), Some(0x7bff)));
        assert_eq!((of(half, 65520), of(Attr { rnd: Rnd::Rz, ..half }, 65520)), (Some(0x7c00), Some(0x7bff)));
        assert_eq!(of(Attr { sub: 64, ..half }, u64::MAX >> 1), None);
        assert_eq!(e(Op::I2F, Attr { fmt: Fmt::F64, sub: 64, ..s }, Ty::B64, &[u64::MAX]), Some((-1f64).to_bits()));
    }

    #[test]
    fn floats_become_floats_of_other_formats() {
        let to = |fmt, fmt2, rnd, v| e(Op::F2F, Attr { fmt, fmt2, rnd, ..Attr::default() }, Ty::B32, &[v]);
        let single = |v: f32| v.to_bits() as u64;
        assert_eq!(to(Fmt::F16, Fmt::F32, Rnd::Rn, single(1.0)), Some(0x3c00));
        assert_eq!(to(Fmt::F16, Fmt::F32, Rnd::Rn, single(65520.0)), Some(0x7c00));
        assert_eq!(to(Fmt::F16, Fmt::F32, Rnd::Rz, single(-65520.0)), Some(0xfbff));
        assert_eq!(to(Fmt::F32, Fmt::F16, Rnd::Rn, 0xc000), Some(single(-2.0)));
        assert_eq!(to(Fmt::F32, Fmt::BF16, Rnd::Rn, 0x7f80), Some(single(f32::INFINITY)));
        assert_eq!(to(Fmt::BF16, Fmt::F32, Rnd::Rn, 0x3f80_8000), Some(0x3f80));
        assert_eq!(to(Fmt::BF16, Fmt::F32, Rnd::Rp, 0x3f80_0001), Some(0x3f81));
        assert_eq!(to(Fmt::F32, Fmt::F64, Rnd::Rn, 0.1f64.to_bits()), Some(single(0.1)));
        assert_eq!(to(Fmt::F64, Fmt::F32, Rnd::Rn, single(-0.0)), Some((-0f64).to_bits()));
        // Subnormal, or a NaN: the unit's.
        assert_eq!(to(Fmt::F16, Fmt::F32, Rnd::Rn, single(1e-6)), None);
        assert_eq!(to(Fmt::F32, Fmt::F16, Rnd::Rn, 1), None);
        assert_eq!(to(Fmt::F32, Fmt::F16, Rnd::Rn, 0x7e00), None);
        let pack = Attr { fmt: Fmt::F16x2, fmt2: Fmt::F32, ..Attr::default() };
        assert_eq!(e(Op::F2FPack, pack, Ty::B32, &[single(2.0), single(1.0)]), Some(0x4000_3c00));
        assert_eq!(e(Op::F2FPack, Attr { sub: 1, ..pack }, Ty::B32, &[single(2.0), single(1.0)]), None);
    }

    #[test]
    fn every_half_is_itself_in_single_precision() {
        for fmt in [Fmt::F16, Fmt::BF16] {
            for v in 0..=0xffff {
                if let Some(x) = number(fmt, v) {
                    assert_eq!(encode(fmt, x, Rnd::Rn), Some(v));
                    assert_eq!(encode(Fmt::F32, x, Rnd::Rz), Some((x as f32).to_bits() as u64));
                }
            }
        }
    }

    #[test]
    fn singles_round_as_the_language_rounds_doubles() {
        let mut v = 0x3ff0_0000_0000_0001u64;
        for _ in 0..10_000 {
            v = v.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let x = f64::from_bits(v & 0x87ff_ffff_ffff_ffff | 0x3800_0000_0000_0000);
            if (x as f32).is_normal() {
                assert_eq!(
                    encode(Fmt::F32, x, Rnd::Rn).unwrap_or((x as f32).to_bits() as u64),
                    (x as f32).to_bits() as u64
                );
            }
        }
    }

    #[test]
    fn units_give_powers_of_two_exactly() {
        let unit = Attr { fmt: Fmt::F32, sub: 1, ..Attr::default() };
        let of = |op, v: f32| e(op, unit, Ty::B32, &[v.to_bits() as u64]).map(|r| f32::from_bits(r as u32));
        assert_eq!(of(Op::FLg2, 16.0), Some(4.0));
        assert_eq!(of(Op::FLg2, 1.0).map(f32::to_bits), Some(0));
        assert_eq!(of(Op::FLg2, 0.125), Some(-3.0));
        assert_eq!(of(Op::FEx2, -126.0), Some(f32::MIN_POSITIVE));
        assert_eq!(of(Op::FEx2, -0.0), Some(1.0));
        assert_eq!(of(Op::FRcp, -8.0), None);
        assert_eq!(of(Op::FRcp, 0.25), Some(4.0));
        assert_eq!(of(Op::FSqrt, 0.25), Some(0.5));
        assert_eq!(of(Op::FRsqrt, 64.0), Some(0.125));
        for (op, v) in [
            (Op::FLg2, 10.0),
            (Op::FLg2, 0.0),
            (Op::FLg2, -2.0),
            (Op::FEx2, 0.5),
            (Op::FEx2, -127.0),
            (Op::FEx2, 128.0),
            (Op::FRcp, 3.0),
            (Op::FRcp, f32::INFINITY),
            (Op::FRcp, 2f32.powi(127)),
            (Op::FSqrt, 2.0),
            (Op::FRsqrt, 9.0),
        ] {
            assert_eq!(of(op, v), None, "{op:?} {v}");
        }
    }

    #[test]
    fn quotients_and_roots_are_rounded_once() {
        let exact = |op, args: &[f32]| {
            let args: Vec<u64> = args.iter().map(|v| v.to_bits() as u64).collect();
            e(op, Attr { fmt: Fmt::F32, ..Attr::default() }, Ty::B32, &args).map(|r| f32::from_bits(r as u32))
        };
        assert_eq!(exact(Op::FRcp, &[3.0]), Some(1.0 / 3.0));
        assert_eq!(exact(Op::FSqrt, &[2.0]), Some(2f32.sqrt()));
        assert_eq!(exact(Op::FSqrt, &[-2.0]), None);
        assert_eq!(exact(Op::FDiv, &[0.0, 0.0]), None);
        assert_eq!(exact(Op::FDiv, &[-1.0, 0.0]), Some(f32::NEG_INFINITY));
        assert_eq!(exact(Op::FDiv, &[f32::MIN_POSITIVE, 2.0]), None);
        let mut v = 1u64;
        for _ in 0..10_000 {
            v = v.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let [x, y] = [v >> 32, v].map(|w| f32::from_bits(w as u32 & 0xbfff_ffff | 0x2000_0000));
            if (x / y).is_normal() && x.is_normal() && y.is_normal() {
                assert_eq!(exact(Op::FDiv, &[x, y]), Some(x / y));
            }
        }
        let double = Attr { fmt: Fmt::F64, ..Attr::default() };
        assert_eq!(e(Op::FDiv, double, Ty::B64, &[1f64.to_bits(), 3f64.to_bits()]), Some((1f64 / 3.0).to_bits()));
        assert_eq!(e(Op::FDiv, Attr { rnd: Rnd::Rz, ..double }, Ty::B64, &[1f64.to_bits(), 3f64.to_bits()]), None);
    }

    #[test]
    fn floats_fold_only_where_flushing_and_payloads_cannot_show() {
        let f = Attr { fmt: Fmt::F32, ..Attr::default() };
        let bits = |v: f32| v.to_bits() as u64;
        assert_eq!(e(Op::FAdd, f, Ty::B32, &[bits(1.5), bits(2.0)]), Some(bits(3.5)));
        assert_eq!(e(Op::FMul, f, Ty::B32, &[bits(1e-30), bits(1e-15)]), None);
        assert_eq!(e(Op::FAdd, f, Ty::B32, &[bits(f32::NAN), bits(2.0)]), None);
        let h = |fmt| Attr { fmt, ..Attr::default() };
        assert_eq!(e(Op::FNeg, h(Fmt::F16x2), Ty::B32, &[0xfff7_3c00]), None);
        assert_eq!(e(Op::FNeg, h(Fmt::F16x2), Ty::B32, &[0x7c00_3c00]), Some(0xfc00_bc00));
        assert_eq!(e(Op::FAbs, h(Fmt::BF16), Ty::B16, &[0xff81]), None);
        assert_eq!(e(Op::FAbs, h(Fmt::BF16), Ty::B16, &[0xff80]), Some(0x7f80));
    }

    #[test]
    fn halves_are_added_and_multiplied_where_that_is_exact_before_it_is_rounded() {
        let h = |fmt| Attr { fmt, ..Attr::default() };
        assert_eq!(e(Op::FAdd, h(Fmt::F16), Ty::B16, &[0x3c00, 0x4000]), Some(0x4200));
        assert_eq!(e(Op::FMul, h(Fmt::F16x2), Ty::B32, &[0x4000_3c00, 0x4200_c000]), Some(0x4600_c000));
        assert_eq!(e(Op::FFma, h(Fmt::BF16), Ty::B16, &[0x3f80, 0x4000, 0x3f80]), Some(0x4040));
        assert_eq!(e(Op::FFma, h(Fmt::BF16), Ty::B16, &[0x7f00, 0x3f80, 0x0080]), None);
        assert_eq!(e(Op::FFma, Attr { sub: 2, ..h(Fmt::F16) }, Ty::B16, &[0, 0, 0]), None);
        assert_eq!(e(Op::FMul, Attr { sub: 1, ..h(Fmt::F32) }, Ty::B32, &[0, 0x4000_0000]), Some(0));
        assert_eq!(e(Op::FMin, h(Fmt::F16), Ty::B16, &[0x3c00, 0xc000]), Some(0xc000));
        assert_eq!(e(Op::FMax, h(Fmt::F32), Ty::B32, &[0, 0x8000_0000]), None);
    }
}
