//! Integer, logic, shift, comparison and selection, of lanes and of the uniform datapath.

use super::*;
use crate::num::fp::ftz32;

/// The operation of an instruction with this stem (`FFMA`, `IADD3X`, ...), if it is a lane-wise one that is modelled.
pub fn op(stem: &str, inst: &Seen<'_>) -> Option<Op> {
    use Fetch::{One, Two};
    // Uniform instructions compute the same; what is particular to them is where operands lie.
    let stem = match stem {
        "UIADD3" => "IADD3",
        "UIADD3X" => "IADD3X",
        "UIMAD" => "IMAD",
        "UIMAD_WIDE" => "IMAD_WIDE",
        "ULEA" => "LEA",
        "ULEAX" => "LEAX",
        "ULEA_HI" => "LEA_HI",
        "ULEA_HIX" => "LEA_HIX",
        "ULEA_HI_SX32" => "LEA_HI_SX32",
        "ULEA_HIX_SX32" => "LEA_HIX_SX32",
        "ULOP3" => "LOP3",
        "UPRMT" => "PRMT",
        "USHF" => "SHF",
        "USGXT" => "SGXT",
        "UBMSK" => "BMSK",
        "USEL" => "SEL",
        "UISETP" => "ISETP",
        "UISETPX" => "ISETPX",
        "UFLO" => "FLO",
        "UPOPC" => "POPC",
        "UBREV" => "BREV",
        "UPLOP3" | "PLOP3_U" => "PLOP3",
        "UMOV" if inst.slot(S::Rb).is_some() => "MOV",
        s => s,
    };
    let (ma, mb, mc) = (Md::of(inst, S::Ra), Md::of(inst, S::Rb), Md::of(inst, S::Rc));
    let (ra, rb, rc) = (One(S::Ra), One(S::Rb), One(S::Rc));
    let plain = |fetch: Vec<Fetch>, f: AluFn| Op { fetch, pin: vec![], nd: 1, pout: vec![], f };
    let signed = inst.modifier(M::Sign) == 1;
    let wide_out = |fetch: Vec<Fetch>, f: AluFn| Op { fetch, pin: vec![], nd: 2, pout: vec![], f };
    Some(match stem {
        "MOV" => plain(vec![rb], one(|b| b)),
        "UMOV" => plain(vec![One(S::Mask)], one(|b| b)),
        "IADD3" if unused(inst, S::Pu) && unused(inst, S::Pv) => {
            plain(vec![ra, rb, rc], three(move |a, b, c| ma.int(a).wrapping_add(mb.int(b)).wrapping_add(mc.int(c))))
        }
        "IADD3" | "IADD3X" => {
            let x = stem == "IADD3X";
            let f = boxed(move |i, o| {
                let (pp, pq) = if x { (i.p[0], i.p[1]) } else { (0, 0) };
                let mut out = [0u32; 2];
                for l in 0..32 {
                    let carry = (pp >> l & 1) as u64 + (pq >> l & 1) as u64;
                    let (r, c) = sum([ma.term(i.s[0][l]), mb.term(i.s[1][l]), mc.term(i.s[2][l])], carry);
                    o.r[0][l] = r;
                    out[0] |= ((c > 0) as u32) << l;
                    out[1] |= ((c > 1) as u32) << l;
                }
                o.p = out;
            });
            let pin = if x { vec![S::Pp, S::Pq] } else { vec![] };
            Op { fetch: vec![ra, rb, rc], pin, nd: 1, pout: vec![S::Pu, S::Pv], f }
        }
        "UIADD3_64" => wide_out(
            vec![Two(S::Ra), Two(S::Rb), Two(S::Rc)],
            all(move |i, o, l| {
                let t = |n: usize, m: Md| {
                    let x = pair(i, n, l);
                    if m.neg { x.wrapping_neg() } else { x }
                };
                put_pair(o, l, t(0, ma).wrapping_add(t(2, mb)).wrapping_add(t(4, mc)));
            }),
        ),
        "VIADD" if inst.modifier(M::X2) == 0 => plain(vec![ra, rb], two(move |a, b| a.wrapping_add(mb.int(b)))),
        "VIMNMX" | "IMNMX" | "VIMNMX3" | "VIADDMNMX" => {
            let t = match stem {
                // Of both lengths: told by their text.
                "IMNMX" if inst.has(M::M73) => return None,
                "IMNMX" => inst.modifier(M::Sign),
                _ if inst.has(M::M72) => inst.modifier(M::M72),
                _ => inst.modifier(M::Type),
            };
            if t > if stem == "VIMNMX" && inst.has(M::M72) { 5 } else { 3 } {
                return None;
            }
            // 16-bit pairs (2, 3) are compared half by half, bytes (4, 5) each alone.
            let (s, relu, halves, bytes) = (t & 1 == 1, inst.modifier(M::Relu) != 0, t > 1, t > 3);
            let word = move |a: i64, b: i64, min: bool| {
                let r = if (a < b) == min { a } else { b };
                if relu { r.max(0) } else { r }
            };
            let pick = move |a: u32, b: u32, min: bool| -> u32 {
                let half = |x: u32, k: u32| if s { (x >> k) as i16 as i64 } else { (x >> k) as u16 as i64 };
                let whole = |x: u32| if s { x as i32 as i64 } else { x as i64 };
                if bytes {
                    let byte = |x: u32, k: u32| if s { (x >> k) as i8 as i64 } else { (x >> k) as u8 as i64 };
                    let one = |k| (word(byte(a, k), byte(b, k), min) as u8 as u32) << k;
                    return one(0) | one(8) | one(16) | one(24);
                }
                if halves {
                    let one = |k| word(half(a, k), half(b, k), min) as u16 as u32;
                    return one(0) | one(16) << 16;
                }
                word(whole(a), whole(b), min) as u32
            };
            if halves && stem == "VIADDMNMX" {
                return None;
            }
            let (fetch, f): (Vec<Fetch>, AluFn) = match stem {
                "VIMNMX3" => (
                    vec![ra, rb, rc],
                    all(move |i, o, l| {
                        let min = i.p[0] >> l & 1 != 0;
                        o.r[0][l] = pick(pick(i.s[0][l], i.s[1][l], min), i.s[2][l], min);
                    }),
                ),
                "VIADDMNMX" => (
                    vec![ra, rb, rc],
                    all(move |i, o, l| {
                        let a = i.s[0][l].wrapping_add(mb.int(i.s[1][l]));
                        o.r[0][l] = pick(a, mc.int(i.s[2][l]), i.p[0] >> l & 1 != 0);
                    }),
                ),
                _ => (vec![ra, rb], all(move |i, o, l| o.r[0][l] = pick(i.s[0][l], i.s[1][l], i.p[0] >> l & 1 != 0))),
            };
            Op { fetch, pin: vec![S::Pp], nd: 1, pout: vec![], f }
        }
        "IABS" => plain(vec![rb], one(|b| (b as i32).wrapping_abs() as u32)),
        "VABSDIFF" => plain(
            vec![ra, rb, rc],
            three(move |a, b, c| {
                let d = if signed { (a as i32).abs_diff(b as i32) } else { a.abs_diff(b) };
                c.wrapping_add(d)
            }),
        ),
        "VABSDIFF4" => {
            let (s, acc) = (inst.modifier(M::Type) == 1, inst.modifier(M::Acc) != 0);
            plain(
                vec![ra, rb, rc],
                three(move |a, b, c| {
                    let part =
                        |x: u32, k: u32| if s { (x >> (8 * k)) as i8 as i32 } else { (x >> (8 * k)) as u8 as i32 };
                    let d = |k| part(a, k).abs_diff(part(b, k));
                    if acc {
                        (0..4).map(d).sum::<u32>().wrapping_add(c)
                    } else {
                        (0..4).fold(0, |r, k| r | d(k) << (8 * k))
                    }
                }),
            )
        }
        "LEA" | "LEAX" | "LEA_HI" | "LEA_HIX" | "LEA_HI_SX32" | "LEA_HIX_SX32" | "LEA_XRPRRII" | "LEA_XRPRRIIP"
        | "LEA_XRPRIIP" => {
            // The high half as an immediate is a form of its own.
            let given = stem.starts_with("LEA_X");
            let shift = imm(inst, if given { S::ImmAt75 } else { S::Shift }) & 31;
            let stem = match stem {
                "LEA_XRPRRII" => "LEA_HI",
                "LEA_XRPRRIIP" => "LEA_HIX",
                "LEA_XRPRIIP" => "LEA_HIX_SX32",
                s => s,
            };
            let (rb, rc) = match given {
                true if stem == "LEA_HIX_SX32" => (One(S::ImmAt32), rc),
                true => (rc, One(S::ImmAt32)),
                false => (rb, rc),
            };
            let mb = if given { mc } else { mb };
            let hi = stem.contains("HI");
            let sx = stem.ends_with("SX32");
            let x = matches!(stem, "LEAX" | "LEA_HIX" | "LEA_HIX_SX32");
            let three = hi && !sx;
            let f = boxed(move |i, o| {
                let mut out = 0u32;
                for l in 0..32 {
                    let a = i.s[0][l];
                    let high = match (sx, three) {
                        (true, _) => ((a as i32) >> 31) as u32,
                        (_, true) => i.s[2][l],
                        _ => 0,
                    };
                    let v = (((high as u64) << 32) | a as u64) << shift;
                    let v = if hi { (v >> 32) as u32 } else { v as u32 };
                    let carry = if x { (i.p[0] >> l & 1) as u64 } else { 0 };
                    let (r, c) = sum([ma.term(v), mb.term(i.s[1][l]), 0], carry);
                    o.r[0][l] = r;
                    out |= ((c > 0) as u32) << l;
                }
                o.p[0] = out;
            });
            let fetch = if three { vec![ra, rb, rc] } else { vec![ra, rb] };
            Op { fetch, pin: if x { vec![S::Pp] } else { vec![] }, nd: 1, pout: vec![S::Pu], f }
        }
        "LOP3" => {
            let lut = Lut::new(imm(inst, S::Lut) as u8);
            let and = inst.modifier(M::Pand) != 0;
            if unused(inst, S::Pu) {
                inst.slot(S::Pp);
                return Some(plain(vec![ra, rb, rc], three(move |a, b, c| lut.of(a, b, c))));
            }
            let f = boxed(move |i, o| {
                let mut any = 0;
                for l in 0..32 {
                    let r = lut.of(i.s[0][l], i.s[1][l], i.s[2][l]);
                    o.r[0][l] = r;
                    any |= ((r != 0) as u32) << l;
                }
                o.p[0] = if and { any & i.p[0] } else { any | i.p[0] };
            });
            Op { fetch: vec![ra, rb, rc], pin: vec![S::Pp], nd: 1, pout: vec![S::Pu], f }
        }
        "PLOP3" => {
            let (lut, lut2) = (Lut::new(imm(inst, S::Lut) as u8), Lut::new(imm(inst, S::LutB) as u8));
            let f = Box::new(move |i: &In<'_>, o: &mut Out| {
                o.p = [lut.of(i.p[0], i.p[1], i.p[2]), lut2.of(i.p[0], i.p[1], i.p[2])];
            });
            Op { fetch: vec![], pin: vec![S::Pp, S::Pq, S::Pr], nd: 0, pout: vec![S::Pu, S::Pv], f }
        }
        "PLOP3_SIGN" => {
            let (lut, lut2) = (Lut::new(imm(inst, S::Lut) as u8), Lut::new(imm(inst, S::LutB) as u8));
            let f = all(move |i, o, l| {
                let sign = |n: usize| ((i.s[n][l] as i32) >> 31) as u32;
                let (a, b, c) = (sign(0), sign(1), sign(2));
                set(o, 0, l, lut.of(a, b, c) & 1 != 0);
                set(o, 1, l, lut2.of(a, b, c) & 1 != 0);
            });
            Op { fetch: vec![ra, rb, rc], pin: vec![], nd: 0, pout: vec![S::Pu, S::Pv], f }
        }
        "PRMT" => {
            let mode = inst.modifier(M::Mode);
            plain(vec![ra, rb, rc], three(move |a, b, c| permute(a, c, b, mode)))
        }
        "SHF" => {
            let (right, wrap) = (inst.modifier(M::Dir) == 1, inst.modifier(M::W) != 0);
            let (t, hi) = (inst.modifier(M::Type), inst.modifier(M::Hi) != 0);
            let (s, long) = (matches!(t, 0 | 2), t < 2);
            let (keep, most) = match (wrap, long) {
                (true, true) => (63, 63),
                (true, false) => (31, 31),
                (false, true) => (u32::MAX, 64),
                (false, false) => (u32::MAX, 32),
            };
            let up = if hi { 32 } else { 0 };
            let whole = |a: u32, c: u32| (c as u64) << 32 | a as u64;
            let f = match (right, s) {
                (false, _) => three(move |a, b, c| {
                    let n = (b & keep).min(most);
                    let v = if n > 63 { 0 } else { whole(a, c) << (n & 63) };
                    (v >> up) as u32
                }),
                (true, true) => {
                    three(move |a, b, c| (((whole(a, c) as i64) >> (b & keep).min(most).min(63)) as u64 >> up) as u32)
                }
                (true, false) => three(move |a, b, c| {
                    let n = (b & keep).min(most);
                    let v = if n > 63 { 0 } else { whole(a, c) >> (n & 63) };
                    (v >> up) as u32
                }),
            };
            plain(vec![ra, rb, rc], f)
        }
        "SGXT" => {
            let wrap = inst.modifier(M::W) != 0;
            plain(
                vec![ra, rb],
                two(move |a, b| match if wrap { b & 31 } else { b.min(32) } {
                    0 => 0,
                    32 => a,
                    n if signed => ((a << (32 - n)) as i32 >> (32 - n)) as u32,
                    n => a & ((1 << n) - 1),
                }),
            )
        }
        "BMSK" => {
            let wrap = inst.modifier(M::W) != 0;
            plain(
                vec![ra, rb],
                two(move |a, b| {
                    let (a, b) = if wrap { (a & 31, b & 31) } else { (a.min(32), b.min(32)) };
                    (((1u64 << b) - 1) << a) as u32
                }),
            )
        }
        "SEL" | "FSEL" => {
            let float = stem == "FSEL";
            let ftz = float && inst.modifier(M::Ftz) != 0;
            let f = if float {
                all(move |i, o, l| {
                    let (a, b) = (ma.f32(i.s[0][l]), mb.f32(i.s[1][l]));
                    let x = if i.p[0] >> l & 1 != 0 { a } else { b };
                    o.r[0][l] = if ftz { ftz32(x) } else { x };
                })
            } else {
                all(move |i, o, l| {
                    let (a, b) = (ma.int(i.s[0][l]), mb.int(i.s[1][l]));
                    o.r[0][l] = if i.p[0] >> l & 1 != 0 { a } else { b };
                })
            };
            Op { fetch: vec![ra, rb], pin: vec![S::Pp], nd: 1, pout: vec![], f }
        }
        "ISETP" | "ISETPX" => {
            let (cmp, bop) = (inst.modifier(M::Cmp), inst.modifier(M::Bool));
            // On some chips one form has both.
            let ex = if inst.has(M::Ex) { inst.modifier(M::Ex) != 0 } else { stem == "ISETPX" };
            // From sm_120 on of both lengths: those of 64 bits are told by their text.
            let signed = match inst.text(M::M73) {
                None => signed,
                Some("") => true,
                Some(".U32") => false,
                Some(_) => return None,
            };
            let flip = if signed { 0x8000_0000 } else { 0 };
            // With .EX, equal upper words leave the answer to the lower ones; those of "never" and "always" are fixed.
            let (less, greater) = ((cmp & 1) as u32, (cmp >> 2 & 1) as u32);
            let (equal, lower) = match (ex, cmp) {
                (true, 1..=6) => (0, u32::MAX),
                _ => ((cmp >> 1 & 1) as u32, 0),
            };
            let f = boxed(move |i, o| {
                let below = i.p[1] & lower;
                let mut r = 0u32;
                for l in 0..32 {
                    let (a, b) = (i.s[0][l] ^ flip, i.s[1][l] ^ flip);
                    let same = equal | (below >> l & 1);
                    let v = ((a < b) as u32 & less) | ((a == b) as u32 & same) | ((a > b) as u32 & greater);
                    r |= v << l;
                }
                o.p = [combine(bop, r, i.p[0]), combine(bop, !r, i.p[0])];
            });
            let pin = if ex { vec![S::Pp, S::Pr] } else { vec![S::Pp] };
            Op { fetch: vec![ra, rb], pin, nd: 0, pout: vec![S::Pu, S::Pv], f }
        }
        "IMAD" | "IMADX" => {
            let x = stem == "IMADX";
            let f = all(move |i, o, l| {
                let p = mb.int(i.s[1][l]).wrapping_mul(i.s[0][l]);
                let carry = if x { i.p[0] >> l & 1 } else { 0 };
                o.r[0][l] = p.wrapping_add(mc.int(i.s[2][l])).wrapping_add(carry);
            });
            Op { fetch: vec![ra, rb, rc], pin: if x { vec![S::Pp] } else { vec![] }, nd: 1, pout: vec![], f }
        }
        "IMAD_WIDE" | "IMAD_WIDEX" | "IMAD_HI" | "IMAD_HIX" => {
            let x = stem.ends_with('X');
            let hi = stem.starts_with("IMAD_HI");
            if mb.inv {
                return None;
            }
            if !x && !hi && unused(inst, S::Pu) {
                let f = all(move |i, o, l| {
                    let (a, b) = (i.s[0][l], i.s[1][l]);
                    let p = if signed { (a as i32 as i64 * b as i32 as i64) as u64 } else { a as u64 * b as u64 };
                    let p = if mb.neg { p.wrapping_neg() } else { p };
                    let c = pair(i, 2, l);
                    let c = if mc.inv { !c } else { c };
                    put_pair(o, l, p.wrapping_add(if mc.neg { c.wrapping_neg() } else { c }));
                });
                return Some(Op { fetch: vec![ra, rb, Two(S::Rc)], pin: vec![], nd: 2, pout: vec![], f });
            }
            let f = all(move |i, o, l| {
                let (a, b) = (i.s[0][l], i.s[1][l]);
                let p = if signed { (a as i32 as i64 * b as i32 as i64) as u64 } else { a as u64 * b as u64 };
                let p = if mb.neg { p.wrapping_neg() } else { p };
                let c = pair(i, 2, l);
                let c = if mc.inv { !c } else { c };
                let carry = if x { (i.p[0] >> l & 1) as u128 } else { 0 };
                let c = if mc.neg { !c as u128 + 1 } else { c as u128 };
                let s = p as u128 + c + carry;
                if hi {
                    o.r[0][l] = (s >> 32) as u32;
                } else {
                    put_pair(o, l, s as u64);
                }
                set(o, 0, l, s >> 64 != 0);
            });
            let pin = if x { vec![S::Pp] } else { vec![] };
            Op { fetch: vec![ra, rb, Two(S::Rc)], pin, nd: if hi { 1 } else { 2 }, pout: vec![S::Pu], f }
        }
        "IDP_4A" => {
            let (sa, sb) = (inst.modifier(M::TypeA) == 1, inst.modifier(M::TypeB) == 1);
            plain(
                vec![ra, rb, rc],
                three(move |a, b, c| {
                    let part = |x: u32, k: u32, s: bool| {
                        if s { (x >> (8 * k)) as i8 as i32 } else { (x >> (8 * k)) as u8 as i32 }
                    };
                    (0..4).fold(mc.int(c), |s, k| s.wrapping_add((part(a, k, sa) * part(b, k, sb)) as u32))
                }),
            )
        }
        "IDP_2A" => {
            let (sa, sb) = (inst.modifier(M::TypeA) == 1, inst.modifier(M::TypeB) == 1);
            let base = 2 * inst.modifier(M::Half) as u32;
            plain(
                vec![ra, rb, rc],
                three(move |a, b, c| {
                    let half = |k: u32| if sa { (a >> (16 * k)) as i16 as i32 } else { (a >> (16 * k)) as u16 as i32 };
                    let byte = |k: u32| if sb { (b >> (8 * k)) as i8 as i32 } else { (b >> (8 * k)) as u8 as i32 };
                    (0..2).fold(mc.int(c), |s, k| s.wrapping_add(half(k).wrapping_mul(byte(base + k)) as u32))
                }),
            )
        }
        "FLO" => {
            let sh = inst.modifier(M::Sh) != 0;
            plain(
                vec![rb],
                one(move |b| {
                    let b = mb.int(b);
                    let x = if signed && (b as i32) < 0 { !b } else { b };
                    match x.checked_ilog2() {
                        None => u32::MAX,
                        Some(p) => {
                            if sh {
                                31 - p
                            } else {
                                p
                            }
                        }
                    }
                }),
            )
        }
        "POPC" => plain(vec![rb], one(move |b| mb.int(b).count_ones())),
        "BREV" => plain(vec![rb], one(|b| b.reverse_bits())),
        _ => return super::float::op(stem, inst),
    })
}

fn permute(a: u32, b: u32, c: u32, mode: u8) -> u32 {
    let bytes = (b as u64) << 32 | a as u64;
    let byte = |i: u32| (bytes >> (8 * (i & 7))) as u8 as u32;
    let n = c & 3;
    let mut r = 0;
    for k in 0..4 {
        let v = match mode {
            0 => {
                let s = c >> (4 * k) & 15;
                let v = byte(s);
                if s > 7 { 255 * (v >> 7) } else { v }
            }
            1 => byte(n + k),
            2 => byte(8 + n - k),
            3 => byte(n),
            4 => byte(k.max(n)),
            5 => byte(k.min(n)),
            _ => byte(2 * (n & 1) + (k & 1)),
        };
        r |= v << (8 * k);
    }
    r
}
