//! The value of an operation on constants: one function, shared by the optimizer and the tests.

mod float;

use crate::ir::{Attr, Cmp, NONZERO, Op, Ty, mask};

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
                // What code without constants gives (`expand::bits`).
                return (attr.sub != NONZERO).then(|| cut(u64::MAX));
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
        _ => return float::eval(op, attr, args, ty),
    })
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
        assert_eq!(e(Op::IDiv, s, Ty::B32, &[7, 0]), Some(0xffff_ffff));
        assert_eq!(e(Op::IRem, s, Ty::B16, &[7, 0]), Some(0xffff));
        assert_eq!(e(Op::IRem, Attr { sub: NONZERO, ..s }, Ty::B32, &[7, 0]), None);
        assert_eq!(e(Op::Shf, Attr { sub: 0, ..u }, Ty::B32, &[0x8000_0000, 1, 33]), Some(3));
        assert_eq!(bfe(0xf0, 32, 4, 4, true), 0xffff_ffff);
        assert_eq!(bfe(0x8000_0000, 32, 28, 8, true), 0xffff_fff8);
    }
}
