//! The value of an operation on constants: one function, shared by the optimizer and the tests.

use crate::ir::{Attr, Cmp, Fmt, Op, Rnd, Ty, mask};

/// The first result of `op` on constant arguments (bits in the low bits of their types), if it is known exactly.
///
/// `tys` are the argument types, `ty` the result's. Floating point is folded only where the result does not depend on
/// NaN payloads or flushing.
pub fn eval(op: Op, attr: Attr, tys: &[Ty], args: &[u64], ty: Ty) -> Option<u64> {
    let cut = |v: u64| v & mask(ty);
    let sx = |i: usize| sign_extend(args[i], tys[i].bits());
    let bits = tys.first().map_or(0, |t| t.bits());
    let (a, b) = (args.first().copied().unwrap_or(0), args.get(1).copied().unwrap_or(0));
    let c = args.get(2).copied().unwrap_or(0);
    Some(match op {
        Op::IAdd => cut(a.wrapping_add(b)),
        Op::ISub => cut(a.wrapping_sub(b)),
        Op::IMul => cut(a.wrapping_mul(b)),
        Op::IMad => cut(a.wrapping_mul(b).wrapping_add(c)),
        Op::IMulWide | Op::IMadWide | Op::IMulHi => {
            let product =
                if attr.signed { (sx(0) as i128).wrapping_mul(sx(1) as i128) as u128 } else { a as u128 * b as u128 };
            match op {
                Op::IMulHi => cut((product >> bits) as u64),
                Op::IMulWide => cut(product as u64),
                _ => cut((product as u64).wrapping_add(c)),
            }
        }
        Op::INeg => cut(a.wrapping_neg()),
        Op::IAbs => cut(sx(0).unsigned_abs()),
        Op::IMin | Op::IMax => {
            let less = if attr.signed { sx(0) < sx(1) } else { a < b };
            if less == (op == Op::IMin) { a } else { b }
        }
        Op::IDiv | Op::IRem => {
            if b == 0 {
                return None;
            }
            let (q, r) = if attr.signed {
                (sx(0).wrapping_div(sx(1)) as u64, sx(0).wrapping_rem(sx(1)) as u64)
            } else {
                (a / b, a % b)
            };
            cut(if op == Op::IDiv { q } else { r })
        }
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Not => cut(!a),
        Op::Lop3 => {
            let mut out = 0u64;
            for bit in 0..bits {
                let index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
                out |= (attr.sub as u64 >> index & 1) << bit;
            }
            out
        }
        Op::Shl => {
            if b >= bits as u64 {
                0
            } else {
                cut(a << b)
            }
        }
        Op::Shr if attr.signed => cut((sx(0) >> b.min(63).min(bits as u64 - 1)) as u64),
        Op::Shr => {
            if b >= bits as u64 {
                0
            } else {
                a >> b
            }
        }
        Op::Shf => {
            let n = if attr.sub & 1 == 0 { c & 31 } else { c.min(32) };
            let both = b << 32 | a;
            if attr.sub < 2 {
                if n == 32 { a } else { both << n >> 32 }
            } else if n == 32 {
                b
            } else {
                cut(both >> n)
            }
        }
        Op::ICmp => {
            let order = if attr.signed { sx(0).cmp(&sx(1)) } else { a.cmp(&b) };
            let holds = match attr.cmp {
                Cmp::Eq => order.is_eq(),
                Cmp::Ne => order.is_ne(),
                Cmp::Lt => order.is_lt(),
                Cmp::Le => order.is_le(),
                Cmp::Gt => order.is_gt(),
                Cmp::Ge => order.is_ge(),
                _ => return None,
            };
            holds as u64
        }
        Op::Select => {
            if c & 1 != 0 {
                a
            } else {
                b
            }
        }
        Op::Popc => a.count_ones() as u64,
        Op::Clz => (a.leading_zeros() - (64 - bits)) as u64,
        Op::Brev => a.reverse_bits() >> (64 - bits),
        Op::Bfe => {
            let (pos, len) = (b & 0xff, c & 0xff);
            bfe(a, bits, pos as u32, len as u32, attr.signed)
        }
        Op::Zext => a,
        Op::Sext => cut(sx(0) as u64),
        Op::Trunc => cut(a),
        Op::Hi => cut(a >> (bits / 2)),
        Op::Pack => a | b << bits,
        // What becomes of a NaN of 16 bits is left to the unit, as `.oob` would tell one from another.
        Op::FNeg | Op::FAbs if !attr.ftz && !nan_of_halves(attr.fmt, a) => {
            let sign = match attr.fmt {
                Fmt::F16x2 | Fmt::BF16x2 => 0x8000_8000,
                _ => 1 << (bits - 1),
            };
            if op == Op::FNeg { a ^ sign } else { a & !sign }
        }
        Op::FAdd | Op::FMul | Op::FFma if attr.rnd == Rnd::Rn && !attr.sat => return float(op, attr, a, b, c),
        Op::FCmp if args.len() == 2 => return compare(attr, a, b),
        Op::FRound if !attr.sat => return round(attr, a),
        Op::F2I if ty == Ty::B32 && attr.sub == 32 => return to_word(attr, a),
        _ => return None,
    })
}

/// A number of single or double precision that no unit takes for zero.
fn number(fmt: Fmt, a: u64) -> Option<f64> {
    match fmt {
        Fmt::F32 => {
            Some(f32::from_bits(a as u32)).filter(|&x| x.is_normal() || x == 0.0 || x.is_infinite()).map(f64::from)
        }
        Fmt::F64 => Some(f64::from_bits(a)).filter(|x| !x.is_nan()),
        _ => None,
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

/// A number without its fraction, in its own format, where `cvt.rzi` and the like of a constant say so (CUDA's `pow` asks so whether its
/// exponent is even).
fn round(attr: Attr, a: u64) -> Option<u64> {
    let x = rounded(number(attr.fmt, a)?, attr.rnd);
    Some(if attr.fmt == Fmt::F32 { (x as f32).to_bits() as u64 } else { x.to_bits() })
}

fn rounded(x: f64, rnd: Rnd) -> f64 {
    match rnd {
        Rnd::Rn => x.round_ties_even(),
        Rnd::Rz => x.trunc(),
        Rnd::Rm => x.floor(),
        Rnd::Rp => x.ceil(),
    }
}

/// A number of single precision to an integer of 32 bits, where it fits: what does not is clamped by the unit.
fn to_word(attr: Attr, a: u64) -> Option<u64> {
    let x = f32::from_bits(a as u32);
    if attr.fmt != Fmt::F32 || !(x == 0.0 || x.is_normal()) {
        return None;
    }
    let x = rounded(f64::from(x), attr.rnd);
    let (least, most) =
        if attr.signed { (f64::from(i32::MIN), f64::from(i32::MAX)) } else { (0.0, f64::from(u32::MAX)) };
    (least <= x && x <= most).then_some(x as i64 as u64 & mask(Ty::B32))
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

fn sign_extend(v: u64, bits: u32) -> i64 {
    (v << (64 - bits)) as i64 >> (64 - bits)
}

/// PTX's bit field extract: the sign is that of the field's top bit, or of the value where the field leaves it.
pub fn bfe(a: u64, bits: u32, pos: u32, len: u32, signed: bool) -> u64 {
    if len == 0 {
        return 0;
    }
    let msb = bits - 1;
    let top = (pos + len - 1).min(msb);
    let sign = signed && a >> top & 1 != 0;
    let mut out = 0u64;
    for i in 0..bits {
        let bit = if i < len && pos + i <= msb { a >> (pos + i) & 1 != 0 } else { sign };
        out |= (bit as u64) << i;
    }
    out
}

fn float(op: Op, attr: Attr, a: u64, b: u64, c: u64) -> Option<u64> {
    match attr.fmt {
        Fmt::F32 => {
            let (x, y, z) = (f32::from_bits(a as u32), f32::from_bits(b as u32), f32::from_bits(c as u32));
            let r = match op {
                Op::FAdd => x + y,
                Op::FMul => x * y,
                _ => x.mul_add(y, z),
            };
            let plain = |v: f32| v == 0.0 || v.is_normal();
            let zs = if op == Op::FFma { z } else { 1.0 };
            (plain(x) && plain(y) && plain(zs) && (plain(r) || r.is_infinite())).then(|| r.to_bits() as u64)
        }
        Fmt::F64 => {
            let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
            let r = match op {
                Op::FAdd => x + y,
                Op::FMul => x * y,
                _ => x.mul_add(y, z),
            };
            (!r.is_nan()).then(|| r.to_bits())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn e(op: Op, attr: Attr, ty: Ty, args: &[u64]) -> Option<u64> {
        eval(op, attr, &vec![ty; args.len()], args, ty)
    }

    #[test]
    fn integers() {
        let s = Attr { signed: true, ..Attr::default() };
        let u = Attr::default();
        assert_eq!(e(Op::Shr, s, Ty::B32, &[0x8000_0000, 40]), Some(0xffff_ffff));
        assert_eq!(e(Op::Shr, u, Ty::B32, &[0x8000_0000, 40]), Some(0));
        assert_eq!(e(Op::IMulHi, s, Ty::B32, &[0xffff_ffff, 3]), Some(0xffff_ffff));
        assert_eq!(e(Op::IMulHi, u, Ty::B64, &[u64::MAX, u64::MAX]), Some(u64::MAX - 1));
        assert_eq!(e(Op::IDiv, s, Ty::B32, &[0x8000_0000, 0xffff_ffff]), Some(0x8000_0000));
        assert_eq!(e(Op::IDiv, s, Ty::B32, &[7, 0]), None);
        assert_eq!(e(Op::Shf, Attr { sub: 0, ..u }, Ty::B32, &[0x8000_0000, 1, 33]), Some(3));
        assert_eq!(bfe(0xf0, 32, 4, 4, true), 0xffff_ffff);
        assert_eq!(bfe(0x8000_0000, 32, 28, 8, true), 0xffff_fff8);
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
        let compare = |cmp, x: f64, y: f64| e(Op::FCmp, Attr { cmp, ..d }, Ty::B64, &[x.to_bits(), y.to_bits()]);
        assert_eq!((compare(Cmp::Eq, 0.0, -0.0), compare(Cmp::Gtu, 1.0, 2.0)), (Some(1), Some(0)));
        assert_eq!(compare(Cmp::Neu, f64::NAN, 1.0), None);
        // What is subnormal may count as zero.
        assert_eq!(e(Op::FCmp, Attr { cmp: Cmp::Eq, ..s }, Ty::B32, &[1, 0]), None);
    }

    #[test]
    fn floats_become_words_where_they_fit() {
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
        assert_eq!(e(Op::F2I, Attr { sub: 16, ..u }, Ty::B32, &[0]), None);
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
}
