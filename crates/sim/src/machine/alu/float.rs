//! Single and double precision, and conversions.

use super::super::mufu;
use super::*;
use crate::num::fp::{self, float_to_float, float_to_int, ftz32, min_max, sat32};
use crate::num::soft::{self, E4M3, E5M2, TF32, from_int};

/// The operation of a floating-point or conversion instruction.
pub fn op(stem: &str, inst: &Seen<'_>) -> Option<Op> {
    use Fetch::{One, Two};
    let (ma, mb, mc) = (Md::of(inst, S::Ra), Md::of(inst, S::Rb), Md::of(inst, S::Rc));
    let (ra, rb, rc) = (One(S::Ra), One(S::Rb), One(S::Rc));
    let (da, db, dc) = (Two(S::Ra), Two(S::Rb), Two(S::Rc));
    let mode = rnd(inst);
    let fz = inst.modifier(M::Fz);
    let flushes = matches!(stem, "FFMA" | "FMUL") && inst.text(M::M76) == Some(".FTZ");
    let ftz = inst.modifier(M::Ftz) != 0 || fz == 1 || flushes;
    if fz > 1 {
        return None;
    }
    let sat = inst.modifier(M::Sat) != 0;
    let fin = move |r: u32| if sat { sat32(r) } else { r };
    let plain = |fetch: Vec<Fetch>, f: AluFn| Op { fetch, pin: vec![], nd: 1, pout: vec![], f };
    let wide = |fetch: Vec<Fetch>, f: AluFn| Op { fetch, pin: vec![], nd: 2, pout: vec![], f };
    let bop = inst.modifier(M::Bool);
    let cmp = inst.modifier(M::Cmp);
    Some(match stem {
        "FADD" if mode == Round::Rn => {
            plain(vec![ra, rb], two(move |a, b| fin(fp::add32(ma.f32(a), mb.f32(b), Round::Rn, ftz))))
        }
        "FMUL" if inst.modifier(M::Scale) == 4 && mode == Round::Rn => {
            plain(vec![ra, rb], two(move |a, b| fin(fp::mul32(ma.f32(a), mb.f32(b), Round::Rn, ftz))))
        }
        "FFMA" if mode == Round::Rn => plain(
            vec![ra, rb, rc],
            three(move |a, b, c| fin(fp::fma32(ma.f32(a), mb.f32(b), mc.f32(c), Round::Rn, ftz))),
        ),
        "FADD" => plain(vec![ra, rb], two(move |a, b| fin(fp::add32(ma.f32(a), mb.f32(b), mode, ftz)))),
        "FMUL" if inst.modifier(M::Scale) == 4 => {
            plain(vec![ra, rb], two(move |a, b| fin(fp::mul32(ma.f32(a), mb.f32(b), mode, ftz))))
        }
        "FFMA" => plain(
            vec![ra, rb, rc],
            some(move |i, o, l| {
                let (a, b, c) = (ma.f32(i.s[0][l]), mb.f32(i.s[1][l]), mc.f32(i.s[2][l]));
                o.r[0][l] = fin(fp::fma32(a, b, c, mode, ftz));
            }),
        ),
        "FMNMX" => {
            let (nan, xor) = (inst.modifier(M::Nan) != 0, inst.modifier(M::Xorsign) != 0);
            let f = all(move |i, o, l| {
                let fl = |x: u32| (if ftz { ftz32(x) } else { x }) as u64;
                let (a, b) = (fl(ma.f32(i.s[0][l])), fl(mb.f32(i.s[1][l])));
                // The signs as they were before their magnitudes were taken.
                let sign = ((ma.signed(i.s[0][l]) ^ mb.signed(i.s[1][l])) & 0x8000_0000) as u64;
                let (a, b) = if xor { (a & 0x7fff_ffff, b & 0x7fff_ffff) } else { (a, b) };
                let r = min_max(&F32, i.p[0] >> l & 1 == 0, nan, a, b);
                o.r[0][l] = (if xor && !F32.is_nan(r) { r | sign } else { r }) as u32;
            });
            Op { fetch: vec![ra, rb], pin: vec![S::Pp], nd: 1, pout: vec![], f }
        }
        "FSETP" | "FSET" => {
            let set_value = stem == "FSET";
            let want = |bit: u8| (cmp >> bit & 1) as u32;
            let (less, equal, greater, neither) = (want(0), want(1), want(2), want(3));
            let f = boxed(move |i, o| {
                let mut r = 0u32;
                for l in 0..32 {
                    let fl = |x: u32| f32::from_bits(if ftz { ftz32(x) } else { x });
                    let (a, b) = (fl(ma.f32(i.s[0][l])), fl(mb.f32(i.s[1][l])));
                    let v = ((a < b) as u32 & less)
                        | ((a == b) as u32 & equal)
                        | ((a > b) as u32 & greater)
                        | ((a.is_nan() | b.is_nan()) as u32 & neither);
                    r |= v << l;
                }
                o.p = [combine(bop, r, i.p[0]), combine(bop, !r, i.p[0])];
                if set_value {
                    o.r[0] = std::array::from_fn(|l| if o.p[0] >> l & 1 != 0 { 0x3f80_0000 } else { 0 });
                }
            });
            let (nd, pout) = if set_value { (1, vec![]) } else { (0, vec![S::Pu, S::Pv]) };
            Op { fetch: vec![ra, rb], pin: vec![S::Pp], nd, pout, f }
        }
        "FCHK" => {
            let f = all(|i, o, l| set(o, 0, l, mufu::division_check(i.s[0][l], i.s[1][l])));
            Op { fetch: vec![ra, rb], pin: vec![], nd: 0, pout: vec![S::Pu], f }
        }
        // The immediate is the upper word of a double.
        "MUFU_64H" => {
            let f = if inst.modifier(M::Func) == 6 { mufu::rcp64h } else { mufu::rsq64h };
            plain(vec![db], some(move |i, o, l| o.r[0][l] = f(i.s[1][l])))
        }
        "MUFU" => {
            use mufu::Func::*;
            let half = inst.modifier(M::Half);
            let func = match inst.modifier(M::Func) {
                6 => return Some(plain(vec![rb], one(move |b| mufu::rcp64h(mb.f32(b))))),
                7 => return Some(plain(vec![rb], one(move |b| mufu::rsq64h(mb.f32(b))))),
                n => *[Cos, Sin, Ex2, Lg2, Rcp, Rsq, Rcp, Rcp, Sqrt, Tanh].get(n as usize)?,
            };
            // sm_75 has another number for the same name.
            let small: Option<&'static Format> = match inst.modifier_text(M::Fmt) {
                Some(name) if name.ends_with("BF16") => Some(&BF16),
                Some(name) if name.ends_with("F16") => Some(&F16),
                _ => None,
            };
            plain(
                vec![rb],
                some(move |i, o, l| {
                    let b = i.s[0][l];
                    o.r[0][l] = match small {
                        None => mufu::single(func, mb.f32(b)),
                        Some(f) => {
                            let x = mb.f16((b >> (16 * half as u32)) as u16);
                            let wide = soft::convert(f, &F32, x as u64, Round::Rn) as u32;
                            soft::convert(&F32, f, mufu::single(func, wide) as u64, Round::Rn) as u32
                        }
                    };
                }),
            )
        }
        "DADD" => wide(
            vec![da, db],
            some(move |i, o, l| put_pair(o, l, fp::add64(ma.f64(pair(i, 0, l)), mb.f64(pair(i, 2, l)), mode))),
        ),
        "DMUL" => wide(
            vec![da, db],
            some(move |i, o, l| put_pair(o, l, fp::mul64(ma.f64(pair(i, 0, l)), mb.f64(pair(i, 2, l)), mode))),
        ),
        "DFMA" => wide(
            vec![da, db, dc],
            some(move |i, o, l| {
                let (a, b, c) = (ma.f64(pair(i, 0, l)), mb.f64(pair(i, 2, l)), mc.f64(pair(i, 4, l)));
                put_pair(o, l, fp::fma64(a, b, c, mode));
            }),
        ),
        "DSETP" => {
            let f = all(move |i, o, l| {
                let (a, b) = (ma.f64(pair(i, 0, l)), mb.f64(pair(i, 2, l)));
                let pp = i.p[0] >> l & 1;
                let (r, other) = match cmp {
                    // MIN, MAX: whether the first is chosen; the second predicate tells that both are NaN.
                    0 | 15 => {
                        let nans = (F64.is_nan(a), F64.is_nan(b));
                        let first = !nans.0 && (nans.1 || (min_max(&F64, cmp == 15, false, a, b) == a && a != b));
                        (first, nans.0 && nans.1)
                    }
                    _ => {
                        let r = cmp & order(&F64, a, b) != 0;
                        (r, !r)
                    }
                };
                set(o, 0, l, combine(bop, r as u32, pp) & 1 != 0);
                set(o, 1, l, combine(bop, other as u32, pp) & 1 != 0);
            });
            Op { fetch: vec![da, db], pin: vec![S::Pp], nd: 0, pout: vec![S::Pu, S::Pv], f }
        }
        "F2FP_PACK" => {
            let to: &'static Format = match inst.text(M::M76) {
                None if inst.modifier(M::Dst) == 0 => &F16,
                None => &BF16,
                Some(".F16") => &F16,
                Some(".BF16") => &BF16,
                _ => return None,
            };
            let (relu, finite) = (inst.modifier(M::Relu) != 0, inst.modifier(M::Satfinite) != 0);
            let mode = if inst.modifier(M::Rnd) == 3 { Round::Rz } else { Round::Rn };
            let conv = move |x: u32| -> u32 {
                let mut r = soft::convert(&F32, to, x as u64, mode);
                if finite && !F32.is_nan(x as u64) && r & 0x7fff > to.max_finite() {
                    r = (r & 0x8000) | to.max_finite();
                }
                if relu && r & 0x8000 != 0 { 0 } else { r as u32 }
            };
            plain(vec![ra, rb], some(move |i, o, l| o.r[0][l] = conv(i.s[0][l]) << 16 | conv(i.s[1][l])))
        }
        "F2FP_UNPACK" => {
            let (from, relu) = (fp8(inst.modifier(M::Src)), inst.modifier(M::Relu) != 0);
            let up = 16 * inst.modifier(M::Half) as u32;
            let half = move |b: u32| positive(relu, &F16, soft::convert(from, &F16, b as u64 & 0xff, Round::Rn)) as u32;
            plain(vec![rb], some(move |i, o, l| o.r[0][l] = half(i.s[0][l] >> up) | half(i.s[0][l] >> up >> 8) << 16))
        }
        "F2FP_TF32" => {
            let relu = inst.modifier(M::Relu) != 0;
            let to = move |x: u32| positive(relu, &TF32, soft::convert(&F32, &TF32, x as u64, Round::Rn));
            plain(vec![rb], some(move |i, o, l| o.r[0][l] = (to(i.s[0][l]) << 13) as u32))
        }
        "F2FP_FP8" => {
            let (to, relu) = (fp8(inst.modifier(M::Dst)), inst.modifier(M::Relu) != 0);
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let one = |x: u32| to_fp8(&F32, to, x as u64, relu);
                o.r[0][l] = i.s[2][l] << 16 | one(i.s[0][l]) << 8 | one(i.s[1][l]);
            });
            plain(vec![ra, rb, rc], f)
        }
        "F2FP_FP8_F16" => {
            let (to, relu) = (fp8(inst.modifier(M::Dst)), inst.modifier(M::Relu) != 0);
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let one = |x: u32| to_fp8(&F16, to, x as u64 & 0xffff, relu);
                o.r[0][l] = i.s[1][l] << 16 | one(i.s[0][l] >> 16) << 8 | one(i.s[0][l]);
            });
            plain(vec![rb, rc], f)
        }
        "I2FP" | "I2FPU" => {
            let to = format(inst.modifier(M::Dst))?;
            let s = if imm_slot(inst, S::Rb) { stem == "I2FP" } else { inst.modifier(M::Src) == 5 };
            let mode = if inst.modifier(M::Rnd) == 3 { Round::Rz } else { Round::Rn };
            plain(
                vec![rb],
                some(move |i, o, l| {
                    let b = i.s[0][l];
                    o.r[0][l] = from_int(to, if s { b as i32 as i128 } else { b as i128 }, mode) as u32;
                }),
            )
        }
        "I2F" | "I2F_64" | "I2FU" | "I2FU_64" => {
            let to = format(inst.modifier(M::Dst))?;
            // With an immediate the form tells the sign, the field the size; it is the high half of 64 bits.
            let immediate = imm_slot(inst, S::Rb);
            let (bits, s) = match immediate {
                true => (8 << inst.modifier(M::Src), !stem.starts_with("I2FU")),
                false => itype(inst.modifier(M::Src)),
            };
            let shift = bits.min(16) * inst.modifier(M::Part) as u32;
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let x = match bits {
                    64 if immediate => (i.s[0][l] as u64) << 32,
                    64 => pair(i, 0, l),
                    _ => (i.s[0][l] >> shift) as u64,
                };
                let v = if s {
                    (((x << (64 - bits)) as i64) >> (64 - bits)) as i128
                } else {
                    (x << (64 - bits) >> (64 - bits)) as i128
                };
                put_pair(o, l, from_int(to, v, mode));
            });
            let fetch = if bits == 64 { db } else { rb };
            Op { fetch: vec![fetch], pin: vec![], nd: if to == &F64 { 2 } else { 1 }, pout: vec![], f }
        }
        "F2I" | "F2I_64" | "F2I_64S" => {
            let from = format(inst.modifier(M::Src))?;
            let (bits, s) = itype(inst.modifier(M::Dst));
            let (ntz, shift) = (inst.modifier(M::Ntz) != 0, 16 * inst.modifier(M::Half) as u32);
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let x = if from == &F64 { mb.f64(pair(i, 0, l)) } else { narrow_source(from, mb, i.s[0][l], shift) };
                let x = if ftz { from.flush(x) } else { x };
                let r = if from.is_nan(x) {
                    if ntz { 0 } else { 1 << (bits - 1) }
                } else {
                    float_to_int(from, x, mode, bits, s)
                };
                let r = if s && bits < 32 { ((r << (64 - bits)) as i64 >> (64 - bits)) as u64 } else { r };
                put_pair(o, l, r);
            });
            let fetch = if from == &F64 { db } else { rb };
            Op { fetch: vec![fetch], pin: vec![], nd: if bits == 64 { 2 } else { 1 }, pout: vec![], f }
        }
        "F2F" | "F2F_64" | "F2F_64S" => {
            let (to, from) = (format(inst.modifier(M::Dst))?, format(inst.modifier(M::Src))?);
            let shift = 16 * inst.modifier(M::Half) as u32;
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let x = if from == &F64 { mb.f64(pair(i, 0, l)) } else { narrow_source(from, mb, i.s[0][l], shift) };
                let x = if ftz && from == &F32 { from.flush(x) } else { x };
                let r = float_to_float(from, to, x, mode);
                put_pair(o, l, if ftz && to == &F32 { to.flush(r) } else { r });
            });
            let fetch = if from == &F64 { db } else { rb };
            Op { fetch: vec![fetch], pin: vec![], nd: if to == &F64 { 2 } else { 1 }, pout: vec![], f }
        }
        "FRND" | "FRND_64" => {
            // The field holds source and destination, which are the same.
            let f = format(inst.modifier(M::Fmt) & 7).filter(|_| inst.modifier(M::Fmt).is_multiple_of(9))?;
            let shift = 16 * inst.modifier(M::Half) as u32;
            let fun = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let x = if f == &F64 { mb.f64(pair(i, 0, l)) } else { narrow_source(f, mb, i.s[0][l], shift) };
                let x = if ftz { f.flush(x) } else { x };
                let r = if f == &F64 && f.is_nan(x) { x | 1 << 51 } else { soft::round_to_integral(f, x, mode) };
                put_pair(o, l, r);
            });
            let (fetch, nd) = if f == &F64 { (db, 2) } else { (rb, 1) };
            Op { fetch: vec![fetch], pin: vec![], nd, pout: vec![], f: fun }
        }
        "I2IP" | "I2I" => {
            let (bits, s) = ([8, 8, 16, 16][inst.modifier(M::Dst) as usize & 3], inst.modifier(M::Dst) & 1 != 0);
            if stem == "I2IP" && inst.modifier(M::Sat) == 0 {
                return None;
            }
            let (min, max) =
                if s { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
            let clamp = move |x: u32| (x as i32 as i64).clamp(min, max) as u32 & (((1u64 << bits) - 1) as u32);
            if stem == "I2I" {
                return Some(plain(
                    vec![rb],
                    one(move |b| if s { ((clamp(b) << (32 - bits)) as i32 >> (32 - bits)) as u32 } else { clamp(b) }),
                ));
            }
            plain(
                vec![ra, rb, rc],
                three(move |a, b, c| (c as u64 * (1u64 << (2 * bits))) as u32 | clamp(a) << bits | clamp(b)),
            )
        }
        _ => return super::half::op(stem, inst),
    })
}

fn imm_slot(inst: &Seen<'_>, slot: S) -> bool {
    inst.get(slot).is_some_and(|o| matches!(o.value, sass::inst::Value::Imm(_)))
}

fn fp8(n: u8) -> &'static Format {
    if n == 0 { &E5M2 } else { &E4M3 }
}

/// To 8 bits, what is too large to the largest finite number.
/// `.RELU`: what is negative becomes zero.
fn positive(relu: bool, f: &Format, x: u64) -> u64 {
    if relu && !f.is_nan(x) && x >> (f.exp_bits + f.man_bits) & 1 != 0 { 0 } else { x }
}

fn to_fp8(from: &Format, to: &Format, x: u64, relu: bool) -> u32 {
    let r = soft::convert(from, to, x, Round::Rn);
    let over = !from.is_nan(x) && r & 0x7f > to.max_finite();
    positive(relu, to, if over { (r & 0x80) | to.max_finite() } else { r }) as u32
}

fn narrow_source(f: &Format, m: Md, b: u32, shift: u32) -> u64 {
    if f == &F32 { m.f32(b) as u64 } else { m.f16((b >> shift) as u16) as u64 }
}
