//! Two 16-bit floats at once.

use super::*;
use crate::num::fp::{self, Half, sat32};
use crate::num::soft;

/// One half of a register as the swizzle chooses it.
fn swizzle(x: u32, mode: u8, half: u32) -> u16 {
    let h = match mode {
        2 => 0,
        3 => 1,
        _ => half,
    };
    (x >> (16 * h)) as u16
}

/// One half of a result: sources, lane, which half.
type HalfFn = Box<dyn Fn(&In<'_>, usize, u32) -> u16 + Send + Sync>;

/// The operation of an instruction on pairs of halves.
pub fn op(stem: &str, inst: &Seen<'_>) -> Option<Op> {
    use Fetch::One;
    let (ma, mb, mc) = (Md::of(inst, S::Ra), Md::of(inst, S::Rb), Md::of(inst, S::Rc));
    let (ra, rb, rc) = (One(S::Ra), One(S::Rb), One(S::Rc));
    let (ha, hb, hc) = (inst.modifier(M::HalfA), inst.modifier(M::HalfB), inst.modifier(M::HalfC));
    if ha == 1 || hb == 1 || hc == 1 || stem != "HADD2" && inst.modifier(M::F32) != 0 || inst.modifier(M::Fz) > 1 {
        return None;
    }
    let h = Half {
        bf16: inst.modifier(M::Fmt) != 0,
        ftz: inst.modifier(M::Ftz) != 0 || inst.modifier(M::Fz) == 1,
        sat: inst.modifier(M::Sat) != 0,
        relu: stem.contains("RELU"),
    };
    let plain = |fetch: Vec<Fetch>, f: AluFn| Op { fetch, pin: vec![], nd: 1, pout: vec![], f };
    let a = move |i: &In<'_>, l: usize, k: u32| ma.f16(swizzle(i.s[0][l], ha, k));
    let b = move |i: &In<'_>, l: usize, k: u32| mb.f16(swizzle(i.s[1][l], hb, k));
    let c = move |i: &In<'_>, l: usize, k: u32| mc.f16(swizzle(i.s[2][l], hc, k));
    let both = |f: HalfFn| -> AluFn { some(move |i, o, l| o.r[0][l] = f(i, l, 0) as u32 | (f(i, l, 1) as u32) << 16) };
    let cmp = inst.modifier(M::Cmp);
    let bop = inst.modifier(M::Bool);
    let f = h.format();
    let fl = move |x: u16| if h.ftz { f.flush(x as u64) } else { x as u64 };
    let single = stem == "HADD2" && inst.modifier(M::F32) != 0;
    Some(match stem {
        "HADD2" | "HADD2_F32" if single || stem == "HADD2_F32" => {
            // Half to single: exact; the sum is that of two singles.
            plain(
                vec![ra, rb],
                some(move |i, o, l| {
                    let x = |v: u16| soft::convert(&F16, &F32, fl(v), Round::Rn) as u32;
                    let r = fp::add32(x(a(i, l, 0)), x(b(i, l, 0)), Round::Rn, false);
                    o.r[0][l] = if h.sat { sat32(r) } else { r };
                }),
            )
        }
        "HADD2" => plain(vec![ra, rb], both(Box::new(move |i, l, k| h.add(a(i, l, k), b(i, l, k))))),
        "HMUL2" => plain(vec![ra, rb], both(Box::new(move |i, l, k| h.mul(a(i, l, k), b(i, l, k))))),
        "HFMA2" | "HFMA2_MMA" | "HFMA2_RELU" | "HFMA2_MMA_RELU" => {
            plain(vec![ra, rb, rc], both(Box::new(move |i, l, k| h.fma(a(i, l, k), b(i, l, k), c(i, l, k)))))
        }
        "HMNMX2" => {
            let (nan, xor) = (inst.modifier(M::Nan) != 0, inst.modifier(M::Xorsign) != 0);
            let f = both(Box::new(move |i, l, k| {
                let (x, y) = (a(i, l, k), b(i, l, k));
                // The signs as they were before their magnitudes were taken.
                let (sx, sy) = (swizzle(i.s[0][l], ha, k), swizzle(i.s[1][l], hb, k));
                let sign = (sx ^ sy ^ if ma.neg != mb.neg { 0x8000 } else { 0 }) & 0x8000;
                let (x, y) = if xor { (x & 0x7fff, y & 0x7fff) } else { (x, y) };
                let r = h.min_max(i.p[0] >> l & 1 == 0, nan, x, y);
                if xor && !h.format().is_nan(r as u64) { r | sign } else { r }
            }));
            Op { fetch: vec![ra, rb], pin: vec![S::Pp], nd: 1, pout: vec![], f }
        }
        "HSETP2" => {
            let and = inst.modifier(M::Hand) != 0;
            let f = all(move |i, o, l| {
                let test = |k| cmp & order(f, fl(a(i, l, k)), fl(b(i, l, k))) != 0;
                let (x, y) = (test(0), test(1));
                let pp = i.p[0] >> l & 1;
                // H_AND: both halves into the first, its opposite into the second predicate.
                let (x, y) = if and { (x && y, !(x && y)) } else { (x, y) };
                set(o, 0, l, combine(bop, x as u32, pp) & 1 != 0);
                set(o, 1, l, combine(bop, y as u32, pp) & 1 != 0);
            });
            Op { fetch: vec![ra, rb], pin: vec![S::Pp], nd: 0, pout: vec![S::Pu, S::Pv], f }
        }
        "HSET2" => {
            let one = if inst.modifier(M::Bf) == 0 { 0xffff } else { soft::from_f64(f, 1.0, Round::Rn) as u32 };
            let fun = all(move |i, o, l| {
                let pp = i.p[0] >> l & 1;
                let test = |k| combine(bop, (cmp & order(f, fl(a(i, l, k)), fl(b(i, l, k))) != 0) as u32, pp) & 1;
                o.r[0][l] = (test(0) * one) | ((test(1) * one) << 16);
            });
            Op { fetch: vec![ra, rb], pin: vec![S::Pp], nd: 1, pout: vec![], f: fun }
        }
        _ => return None,
    })
}
