//! Lane-wise instructions: integer, logic, float, conversion.
//!
//! What an instruction computes was worked out from the vendor's disassembly of code with known meaning, and is checked
//! by running that code against the PTX interpreter.

use super::mufu;
use super::program::{AluFn, In, Out};
use crate::num::fp::{self, Half, compare, float_to_float, float_to_int, ftz32, min_max, sat32};
use crate::num::soft::{self, BF16, E4M3, E5M2, F16, F32, F64, Format, Round, TF32, from_int};
use sass::form::{ModName as M, SlotName as S};
use sass::inst::Inst;
use std::cmp::Ordering;

/// How the sources of an operation are fetched: a slot as one word, or as a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetch {
    /// One register.
    One(S),
    /// A register and its successor.
    Two(S),
}

/// A lane-wise operation and what it needs.
pub struct Op {
    /// Sources in order.
    pub fetch: Vec<Fetch>,
    /// Predicate sources in order.
    pub pin: Vec<S>,
    /// Registers written (0 to 2).
    pub nd: u8,
    /// Predicates written.
    pub pout: Vec<S>,
    /// What is computed.
    pub f: AluFn,
}

/// Source modifiers of a slot.
#[derive(Clone, Copy, Default)]
struct Md {
    neg: bool,
    abs: bool,
    inv: bool,
}

impl Md {
    fn of(inst: &Inst, slot: S) -> Md {
        inst.get(slot).map_or(Md::default(), |o| Md { neg: o.neg, abs: o.abs, inv: o.inv })
    }

    #[inline]
    fn f32(self, x: u32) -> u32 {
        let x = if self.abs { x & 0x7fff_ffff } else { x };
        if self.neg { x ^ 0x8000_0000 } else { x }
    }

    #[inline]
    fn f64(self, x: u64) -> u64 {
        let x = if self.abs { x & !(1 << 63) } else { x };
        if self.neg { x ^ 1 << 63 } else { x }
    }

    #[inline]
    fn f16(self, x: u16) -> u16 {
        let x = if self.abs { x & 0x7fff } else { x };
        if self.neg { x ^ 0x8000 } else { x }
    }

    #[inline]
    fn int(self, x: u32) -> u32 {
        let x = if self.inv { !x } else { x };
        if self.neg { x.wrapping_neg() } else { x }
    }

    /// As a term of a sum with carry: the word that is added, and what is added to it.
    #[inline]
    fn term(self, x: u32) -> u64 {
        if self.neg {
            !x as u64 + 1
        } else if self.inv {
            !x as u64
        } else {
            x as u64
        }
    }
}

fn one(f: impl Fn(u32) -> u32 + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        for l in 0..32 {
            o.r[0][l] = f(i.s[0][l]);
        }
    })
}

fn two(f: impl Fn(u32, u32) -> u32 + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        for l in 0..32 {
            o.r[0][l] = f(i.s[0][l], i.s[1][l]);
        }
    })
}

fn three(f: impl Fn(u32, u32, u32) -> u32 + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        for l in 0..32 {
            o.r[0][l] = f(i.s[0][l], i.s[1][l], i.s[2][l]);
        }
    })
}

/// For every lane that counts.
fn some(f: impl Fn(&In<'_>, &mut Out, usize) + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        let mut m = i.mask;
        while m != 0 {
            f(i, o, m.trailing_zeros() as usize);
            m &= m - 1;
        }
    })
}

/// For every lane.
fn all(f: impl Fn(&In<'_>, &mut Out, usize) + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        for l in 0..32 {
            f(i, o, l);
        }
    })
}

#[inline]
fn pair(i: &In<'_>, n: usize, l: usize) -> u64 {
    i.s[n][l] as u64 | (i.s[n + 1][l] as u64) << 32
}

#[inline]
fn put_pair(o: &mut Out, l: usize, x: u64) {
    o.r[0][l] = x as u32;
    o.r[1][l] = (x >> 32) as u32;
}

#[inline]
fn set(o: &mut Out, p: usize, l: usize, value: bool) {
    o.p[p] = (o.p[p] & !(1 << l)) | (value as u32) << l;
}

fn rnd(inst: &Inst) -> Round {
    [Round::Rn, Round::Rm, Round::Rp, Round::Rz][inst.modifier(M::Rnd) as usize & 3]
}

fn combine(op: u8, a: u32, b: u32) -> u32 {
    match op {
        0 => a & b,
        1 => a | b,
        _ => a ^ b,
    }
}

fn format(n: u8) -> Option<&'static Format> {
    Some(match n {
        1 => &F16,
        2 => &F32,
        3 => &F64,
        4 => &BF16,
        _ => return None,
    })
}

/// Size in bits and sign of an integer type field.
fn itype(n: u8) -> (u32, bool) {
    (8 << (n >> 1), n & 1 != 0)
}

fn lut3(lut: u8, a: u32, b: u32, c: u32) -> u32 {
    (0..8).filter(|i| lut >> i & 1 != 0).fold(0, |r, i| {
        let pick = |bit: u32, x: u32| if i & bit != 0 { x } else { !x };
        r | (pick(4, a) & pick(2, b) & pick(1, c))
    })
}

fn imm(inst: &Inst, slot: S) -> u32 {
    match inst.get(slot).map(|o| o.value) {
        Some(sass::inst::Value::Imm(n)) => n as u32,
        _ => 0,
    }
}

/// Sum of up to three terms and carries; result and number of carries out.
#[inline]
fn sum(terms: [u64; 3], carry: u64) -> (u32, u64) {
    let s = terms[0] + terms[1] + terms[2] + carry;
    (s as u32, s >> 32)
}

/// The operation of an instruction with this stem (`FFMA`, `IADD3X`, ...), if it is a lane-wise one that is modelled.
pub fn op(stem: &str, inst: &Inst) -> Option<Op> {
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
        "IADD3" | "IADD3X" => {
            let x = stem == "IADD3X";
            let f = all(move |i, o, l| {
                let carry = if x { (i.p[0] >> l & 1) as u64 + (i.p[1] >> l & 1) as u64 } else { 0 };
                let (r, c) = sum([ma.term(i.s[0][l]), mb.term(i.s[1][l]), mc.term(i.s[2][l])], carry);
                o.r[0][l] = r;
                set(o, 0, l, c > 0);
                set(o, 1, l, c > 1);
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
            let t = if stem == "IMNMX" { inst.modifier(M::Sign) } else { inst.modifier(M::Type) };
            // 16-bit pairs (2, 3) are compared half by half.
            let (s, relu, halves) = (t & 1 == 1, inst.modifier(M::Relu) != 0, t > 1);
            let word = move |a: i64, b: i64, min: bool| {
                let r = if (a < b) == min { a } else { b };
                if relu { r.max(0) } else { r }
            };
            let pick = move |a: u32, b: u32, min: bool| -> u32 {
                let half = |x: u32, k: u32| if s { (x >> k) as i16 as i64 } else { (x >> k) as u16 as i64 };
                let whole = |x: u32| if s { x as i32 as i64 } else { x as i64 };
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
        "LEA" | "LEAX" | "LEA_HI" | "LEA_HIX" | "LEA_HI_SX32" | "LEA_HIX_SX32" => {
            let shift = imm(inst, S::Shift) & 31;
            let hi = stem.contains("HI");
            let sx = stem.ends_with("SX32");
            let x = matches!(stem, "LEAX" | "LEA_HIX" | "LEA_HIX_SX32");
            let three = hi && !sx;
            let f = all(move |i, o, l| {
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
                set(o, 0, l, c > 0);
            });
            let fetch = if three { vec![ra, rb, rc] } else { vec![ra, rb] };
            Op { fetch, pin: if x { vec![S::Pp] } else { vec![] }, nd: 1, pout: vec![S::Pu], f }
        }
        "LOP3" => {
            let lut = imm(inst, S::Lut) as u8;
            let and = inst.modifier(M::Pand) != 0;
            let f = Box::new(move |i: &In<'_>, o: &mut Out| {
                let mut any = 0;
                for l in 0..32 {
                    let r = lut3(lut, i.s[0][l], i.s[1][l], i.s[2][l]);
                    o.r[0][l] = r;
                    any |= ((r != 0) as u32) << l;
                }
                o.p[0] = if and { any & i.p[0] } else { any | i.p[0] };
            });
            Op { fetch: vec![ra, rb, rc], pin: vec![S::Pp], nd: 1, pout: vec![S::Pu], f }
        }
        "PLOP3" => {
            let (lut, lut2) = (imm(inst, S::Lut) as u8, imm(inst, S::LutB) as u8);
            let f = Box::new(move |i: &In<'_>, o: &mut Out| {
                o.p = [lut3(lut, i.p[0], i.p[1], i.p[2]), lut3(lut2, i.p[0], i.p[1], i.p[2])];
            });
            Op { fetch: vec![], pin: vec![S::Pp, S::Pq, S::Pr], nd: 0, pout: vec![S::Pu, S::Pv], f }
        }
        "PLOP3_SIGN" => {
            let (lut, lut2) = (imm(inst, S::Lut) as u8, imm(inst, S::LutB) as u8);
            let f = all(move |i, o, l| {
                let sign = |n: usize| ((i.s[n][l] as i32) >> 31) as u32;
                let (a, b, c) = (sign(0), sign(1), sign(2));
                set(o, 0, l, lut3(lut, a, b, c) & 1 != 0);
                set(o, 1, l, lut3(lut2, a, b, c) & 1 != 0);
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
            plain(
                vec![ra, rb, rc],
                three(move |a, b, c| {
                    let n = match (wrap, long) {
                        (true, true) => b & 63,
                        (true, false) => b & 31,
                        (false, true) => b.min(64),
                        (false, false) => b.min(32),
                    };
                    let v = (c as u64) << 32 | a as u64;
                    let r = match (right, s) {
                        (false, _) => v.checked_shl(n).unwrap_or(0),
                        (true, true) => ((v as i64) >> n.min(63)) as u64,
                        (true, false) => v.checked_shr(n).unwrap_or(0),
                    };
                    if hi { (r >> 32) as u32 } else { r as u32 }
                }),
            )
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
            let f = all(move |i, o, l| {
                let (x, m) = if i.p[0] >> l & 1 != 0 { (i.s[0][l], ma) } else { (i.s[1][l], mb) };
                let x = if float { m.f32(x) } else { m.int(x) };
                o.r[0][l] = if ftz { ftz32(x) } else { x };
            });
            Op { fetch: vec![ra, rb], pin: vec![S::Pp], nd: 1, pout: vec![], f }
        }
        "ISETP" | "ISETPX" => {
            let (cmp, bop, ex) = (inst.modifier(M::Cmp), inst.modifier(M::Bool), stem == "ISETPX");
            let flip = if signed { 0x8000_0000 } else { 0 };
            let f = Box::new(move |i: &In<'_>, o: &mut Out| {
                let mut r = 0u32;
                for l in 0..32 {
                    let (a, b) = (i.s[0][l] ^ flip, i.s[1][l] ^ flip);
                    let bits = match a.cmp(&b) {
                        Ordering::Less => 1,
                        Ordering::Equal => 2,
                        Ordering::Greater => 4,
                    };
                    // With .EX, equal upper words leave the answer to the lower ones.
                    let lower = i.p[1] >> l & 1 != 0;
                    let v = if ex && a == b {
                        match cmp {
                            0 => false,
                            7 => true,
                            _ => lower,
                        }
                    } else {
                        cmp & bits != 0
                    };
                    r |= (v as u32) << l;
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
        _ => return float_op(stem, inst),
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

/// Comparison results as bits of a comparison field: less 1, equal 2, greater 4, unordered 8.
fn order(f: &Format, a: u64, b: u64) -> u8 {
    match compare(f, a, b) {
        Some(Ordering::Less) => 1,
        Some(Ordering::Equal) => 2,
        Some(Ordering::Greater) => 4,
        None => 8,
    }
}

fn float_op(stem: &str, inst: &Inst) -> Option<Op> {
    use Fetch::{One, Two};
    let (ma, mb, mc) = (Md::of(inst, S::Ra), Md::of(inst, S::Rb), Md::of(inst, S::Rc));
    let (ra, rb, rc) = (One(S::Ra), One(S::Rb), One(S::Rc));
    let (da, db, dc) = (Two(S::Ra), Two(S::Rb), Two(S::Rc));
    let mode = rnd(inst);
    let fz = inst.modifier(M::Fz);
    let ftz = inst.modifier(M::Ftz) != 0 || fz == 1;
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
                let sign = (a ^ b) & 0x8000_0000;
                let (a, b) = if xor { (a & 0x7fff_ffff, b & 0x7fff_ffff) } else { (a, b) };
                let r = min_max(&F32, i.p[0] >> l & 1 == 0, nan, a, b);
                o.r[0][l] = (if xor && !F32.is_nan(r) { r | sign } else { r }) as u32;
            });
            Op { fetch: vec![ra, rb], pin: vec![S::Pp], nd: 1, pout: vec![], f }
        }
        "FSETP" | "FSET" => {
            let set_value = stem == "FSET";
            let f = Box::new(move |i: &In<'_>, o: &mut Out| {
                let mut r = 0u32;
                for l in 0..32 {
                    let fl = |x: u32| (if ftz { ftz32(x) } else { x }) as u64;
                    let bits = order(&F32, fl(ma.f32(i.s[0][l])), fl(mb.f32(i.s[1][l])));
                    r |= ((cmp & bits != 0) as u32) << l;
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
        "MUFU" => {
            use mufu::Func::*;
            let half = inst.modifier(M::Half);
            let func = match inst.modifier(M::Func) {
                6 => return Some(plain(vec![rb], one(move |b| mufu::rcp64h(mb.f32(b))))),
                7 => return Some(plain(vec![rb], one(move |b| mufu::rsq64h(mb.f32(b))))),
                n => *[Cos, Sin, Ex2, Lg2, Rcp, Rsq, Rcp, Rcp, Sqrt, Tanh].get(n as usize)?,
            };
            let small: Option<&'static Format> = match inst.modifier(M::Fmt) {
                0 => None,
                1 => Some(&F16),
                _ => Some(&BF16),
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
            let to: &'static Format = if inst.modifier(M::Dst) == 0 { &F16 } else { &BF16 };
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
            let from = fp8(inst.modifier(M::Src));
            let half = move |b: u32| soft::convert(from, &F16, b as u64 & 0xff, Round::Rn) as u32;
            plain(vec![rb], some(move |i, o, l| o.r[0][l] = half(i.s[0][l]) | half(i.s[0][l] >> 8) << 16))
        }
        "F2FP_TF32" => plain(
            vec![rb],
            some(|i, o, l| o.r[0][l] = (soft::convert(&F32, &TF32, i.s[0][l] as u64, Round::Rn) << 13) as u32),
        ),
        "F2FP_FP8" => {
            let to = fp8(inst.modifier(M::Dst));
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let one = |x: u32| to_fp8(&F32, to, x as u64);
                o.r[0][l] = i.s[2][l] << 16 | one(i.s[0][l]) << 8 | one(i.s[1][l]);
            });
            plain(vec![ra, rb, rc], f)
        }
        "F2FP_FP8_F16" => {
            let to = fp8(inst.modifier(M::Dst));
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let one = |x: u32| to_fp8(&F16, to, x as u64 & 0xffff);
                o.r[0][l] = i.s[1][l] << 16 | one(i.s[0][l] >> 16) << 8 | one(i.s[0][l]);
            });
            plain(vec![rb, rc], f)
        }
        "I2FP" => {
            let to = format(inst.modifier(M::Dst))?;
            let s = inst.modifier(M::Src) == 5;
            let mode = if inst.modifier(M::Rnd) == 3 { Round::Rz } else { Round::Rn };
            plain(
                vec![rb],
                some(move |i, o, l| {
                    let b = i.s[0][l];
                    o.r[0][l] = from_int(to, if s { b as i32 as i128 } else { b as i128 }, mode) as u32;
                }),
            )
        }
        "I2F" | "I2F_64" => {
            let to = format(inst.modifier(M::Dst))?;
            let (bits, s) = itype(inst.modifier(M::Src));
            let shift = bits.min(16) * inst.modifier(M::Part) as u32;
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let x = if bits == 64 { pair(i, 0, l) } else { (i.s[0][l] >> shift) as u64 };
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
        "F2I" | "F2I_64" => {
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
        "F2F" | "F2F_64" => {
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
        _ => return half_op(stem, inst),
    })
}

fn fp8(n: u8) -> &'static Format {
    if n == 0 { &E5M2 } else { &E4M3 }
}

/// To 8 bits, what is too large to the largest finite number.
fn to_fp8(from: &Format, to: &Format, x: u64) -> u32 {
    let r = soft::convert(from, to, x, Round::Rn);
    let over = !from.is_nan(x) && r & 0x7f > to.max_finite();
    (if over { (r & 0x80) | to.max_finite() } else { r }) as u32
}

fn narrow_source(f: &Format, m: Md, b: u32, shift: u32) -> u64 {
    if f == &F32 { m.f32(b) as u64 } else { m.f16((b >> shift) as u16) as u64 }
}

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

fn half_op(stem: &str, inst: &Inst) -> Option<Op> {
    use Fetch::One;
    let (ma, mb, mc) = (Md::of(inst, S::Ra), Md::of(inst, S::Rb), Md::of(inst, S::Rc));
    let (ra, rb, rc) = (One(S::Ra), One(S::Rb), One(S::Rc));
    let (ha, hb, hc) = (inst.modifier(M::HalfA), inst.modifier(M::HalfB), inst.modifier(M::HalfC));
    if ha == 1 || hb == 1 || hc == 1 || inst.modifier(M::F32) != 0 || inst.modifier(M::Fz) > 1 {
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
    Some(match stem {
        "HADD2_F32" => {
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
                let sign = (x ^ y) & 0x8000;
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
