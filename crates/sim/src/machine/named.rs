//! Lane-wise instructions by what their text says, where the forms of a chip have fields of their own: packed halves,
//! packed conversions, and others that few programs have. Every word of a name and every suffix of an operand must be known.

use super::alu::{AluOp, Fetch};
use super::byname::{known, take};
use super::decode::{Result, gap};
use super::program::{AluFn, In, Out};
use super::seen::Seen;
use crate::num::fp::{self, Half, sat32};
use crate::num::soft::{self, BF16, E4M3, E5M2, F16, F32, Format, Round, TF32};
use sass::form::SlotName as S;

/// What one half of an operand is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Both,
    Low,
    High,
    /// The whole register is a single.
    Single,
}

/// A packed operand: how its halves are chosen, and its signs.
#[derive(Clone, Copy)]
struct Packed {
    part: Part,
    neg: bool,
    abs: bool,
}

impl Packed {
    fn of(inst: &Seen<'_>, slot: S) -> Result<Packed> {
        let part = match inst.suffix(slot).trim_start_matches('.') {
            "" | "H1_H0" => Part::Both,
            "H0_H0" | "H0" => Part::Low,
            "H1_H1" | "H1" => Part::High,
            "F32" => Part::Single,
            other => return gap(format!("an operand .{other}")),
        };
        let o = inst.with_flags(slot);
        if o.is_some_and(|o| o.inv) {
            return gap("a complement");
        }
        Ok(Packed { part, neg: o.is_some_and(|o| o.neg), abs: o.is_some_and(|o| o.abs) })
    }

    #[inline]
    fn half(self, x: u32, k: u32) -> u16 {
        let k = match self.part {
            Part::Both => k,
            Part::Low | Part::Single => 0,
            Part::High => 1,
        };
        let h = (x >> (16 * k)) as u16;
        let h = if self.abs { h & 0x7fff } else { h };
        if self.neg { h ^ 0x8000 } else { h }
    }
}

fn some(f: impl Fn(&In<'_>, &mut Out, usize) + Send + Sync + 'static) -> AluFn {
    Box::new(move |i, o| {
        let mut m = i.mask;
        while m != 0 {
            f(i, o, m.trailing_zeros() as usize);
            m &= m - 1;
        }
    })
}

/// One half of a result: sources, lane, which half.
type HalfFn = Box<dyn Fn(&In<'_>, usize, u32) -> u16 + Send + Sync>;

fn plain(fetch: &[S], f: AluFn) -> AluOp {
    AluOp { fetch: fetch.iter().map(|&s| Fetch::One(s)).collect(), pin: vec![], nd: 1, pout: vec![], f }
}

/// The operation of an instruction with these words behind its mnemonic.
pub fn op(inst: &Seen<'_>, words: &mut Vec<String>) -> Result<AluOp> {
    let op = match inst.form().mnemonic {
        "HADD2" | "HMUL2" | "HFMA2" | "HMNMX2" => halves(inst, words)?,
        "F2FP" => pack(inst, words)?,
        "I2IP" => integers(inst, words)?,
        "F2IP" => rounded(inst, words)?,
        "MOV" => quads(inst)?,
        "FSWZADD" => swizzled(inst, words)?,
        "CLMAD" => carryless(words)?,
        "VIADD" | "VIADDMNMX" => pairs(inst, words)?,
        "PLOP3" => signs(inst, words)?,
        _ => return gap(""),
    };
    known(words)?;
    inst.modifiers();
    Ok(op)
}

fn halves(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let mnemonic = inst.form().mnemonic;
    let (a, b, c) = (Packed::of(inst, S::Ra)?, Packed::of(inst, S::Rb)?, Packed::of(inst, S::Rc)?);
    // A unit, not a meaning.
    take(w, "MMA");
    let h = Half {
        bf16: take(w, "BF16_V2") || take(w, "BF16"),
        ftz: take(w, "FTZ"),
        sat: take(w, "SAT"),
        relu: take(w, "RELU"),
    };
    let oob = take(w, "OOB");
    let single = |p: Packed| p.part == Part::Single;
    let both = |f: HalfFn| some(move |i, o, l| o.r[0][l] = f(i, l, 0) as u32 | (f(i, l, 1) as u32) << 16);
    if mnemonic == "HADD2" && take(w, "F32") {
        if single(a) || single(b) {
            return gap("a single among halves");
        }
        let f = h.format();
        return Ok(plain(
            &[S::Ra, S::Rb],
            some(move |i, o, l| {
                let x = |v: u16| {
                    let v = if h.ftz { f.flush(v as u64) } else { v as u64 };
                    soft::convert(f, &F32, v, Round::Rn) as u32
                };
                let r = fp::add32(x(a.half(i.s[0][l], 0)), x(b.half(i.s[1][l], 0)), Round::Rn, false);
                o.r[0][l] = if h.sat { sat32(r) } else { r };
            }),
        ));
    }
    if mnemonic == "HADD2" && single(a) {
        // A conversion: a single to which zero is added.
        if !inst.get(S::Rb).and_then(|o| o.as_reg()).is_some_and(|r| r.is_const()) || !b.neg || h != Half::default() {
            return gap("a single among halves");
        }
        let sign = (a.neg as u32) << 31;
        let keep = if a.abs { 0x7fff_ffff } else { u32::MAX };
        return Ok(plain(
            &[S::Ra],
            some(move |i, o, l| {
                let r = soft::convert(&F32, &F16, ((i.s[0][l] & keep) ^ sign) as u64, Round::Rn) as u32;
                o.r[0][l] = r | r << 16;
            }),
        ));
    }
    if single(a) || single(b) || single(c) {
        return gap("a single among halves");
    }
    Ok(match mnemonic {
        "HADD2" => {
            plain(&[S::Ra, S::Rb], both(Box::new(move |i, l, k| h.add(a.half(i.s[0][l], k), b.half(i.s[1][l], k)))))
        }
        "HMUL2" => {
            plain(&[S::Ra, S::Rb], both(Box::new(move |i, l, k| h.mul(a.half(i.s[0][l], k), b.half(i.s[1][l], k)))))
        }
        "HFMA2" => {
            let f = both(Box::new(move |i, l, k| {
                let (x, y, z) = (a.half(i.s[0][l], k), b.half(i.s[1][l], k), c.half(i.s[2][l], k));
                // The NaN that marks what lies out of bounds makes the result zero.
                if oob && (x == 0xffff || y == 0xffff) {
                    return 0;
                }
                h.fma(x, y, z)
            }));
            plain(&[S::Ra, S::Rb, S::Rc], f)
        }
        _ => {
            let (nan, xor) = (take(w, "NAN"), take(w, "XORSIGN"));
            let f = both(Box::new(move |i, l, k| {
                let (x, y) = (a.half(i.s[0][l], k), b.half(i.s[1][l], k));
                // The signs as they were before their magnitudes were taken.
                let full = |p: Packed, x: u32| Packed { abs: false, ..p }.half(x, k);
                let sign = (full(a, i.s[0][l]) ^ full(b, i.s[1][l])) & 0x8000;
                let (x, y) = if xor { (x & 0x7fff, y & 0x7fff) } else { (x, y) };
                let r = h.min_max(i.p[0] >> l & 1 == 0, nan, x, y);
                if xor && !h.format().is_nan(r as u64) { r | sign } else { r }
            }));
            AluOp { pin: vec![S::Pp], ..plain(&[S::Ra, S::Rb], f) }
        }
    })
}

fn format(word: &str) -> Option<&'static Format> {
    Some(match word {
        "F16" => &F16,
        "BF16" => &BF16,
        "F32" => &F32,
        "TF32" => &TF32,
        "E4M3" => &E4M3,
        "E5M2" => &E5M2,
        _ => return None,
    })
}

/// Conversions of one or two numbers: `F2FP.RELU.BF16.F32.PACK_AB.RZ`.
fn pack(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let (finite, relu, zero) = (take(w, "SATFINITE"), take(w, "RELU"), take(w, "RZ"));
    let kinds = ["PACK_AB_MERGE_C", "UNPACK_B_MERGE_C", "PACK_AB", "PACK_B", "UNPACK_B", "MERGE_C"];
    let Some(kind) = kinds.into_iter().find(|k| take(w, k)) else { return gap("this kind") };
    let mut types = Vec::new();
    for word in w.drain(..) {
        match format(&word) {
            Some(f) => types.push(f),
            None => return gap(word),
        }
    }
    // On the first chips that have it, halves of singles are not named.
    let (to, from) = match types[..] {
        [] => (&F16, &F32),
        [to] => (to, &F32),
        [to, from] => (to, from),
        _ => return gap("these types"),
    };
    let mode = if zero { Round::Rz } else { Round::Rn };
    let small = to.width() < 15;
    let convert = move |x: u64| -> u32 {
        let mut r = soft::convert(from, to, x, mode);
        let sign = to.sign_bit();
        if (finite || small) && !from.is_nan(x) && r & !sign > to.max_finite() {
            r = (r & sign) | to.max_finite();
        }
        if relu && !to.is_nan(r) && r & sign != 0 {
            r = 0;
        }
        (r & (2 * sign - 1)) as u32
    };
    let zero_c = || inst.get(S::Rc).and_then(|o| o.as_reg()).is_some_and(|r| r.is_const());
    let high = |slot: S| -> Result<u32> {
        match inst.suffix(slot).trim_start_matches('.') {
            "" | "H0" => Ok(0),
            "H1" => Ok(16),
            other => gap(format!("an operand .{other}")),
        }
    };
    Ok(match kind {
        "PACK_AB" if !small && from == &F32 => plain(
            &[S::Ra, S::Rb],
            some(move |i, o, l| o.r[0][l] = convert(i.s[0][l] as u64) << 16 | convert(i.s[1][l] as u64)),
        ),
        "PACK_B" if to == &TF32 => plain(&[S::Rb], some(move |i, o, l| o.r[0][l] = convert(i.s[0][l] as u64) << 13)),
        "MERGE_C" if !small && from == &F32 && zero_c() => {
            high(S::Rc)?;
            plain(&[S::Rb], some(move |i, o, l| o.r[0][l] = convert(i.s[0][l] as u64)))
        }
        "UNPACK_B" if from.width() < 15 => {
            let up = high(S::Rb)?;
            let two = move |x: u32| convert((x & 0xff) as u64) | convert((x >> 8 & 0xff) as u64) << 16;
            plain(&[S::Rb], some(move |i, o, l| o.r[0][l] = two(i.s[0][l] >> up)))
        }
        "PACK_AB_MERGE_C" if small && from == &F32 => {
            let up = high(S::Rc)?;
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let ab = convert(i.s[0][l] as u64) << 8 | convert(i.s[1][l] as u64);
                o.r[0][l] = i.s[2][l] >> up << 16 | ab;
            });
            plain(&[S::Ra, S::Rb, S::Rc], f)
        }
        "UNPACK_B_MERGE_C" if small => {
            let up = high(S::Rc)?;
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let (low, high) = (i.s[0][l] as u64 & 0xffff, (i.s[0][l] >> 16) as u64);
                o.r[0][l] = i.s[1][l] >> up << 16 | convert(high) << 8 | convert(low);
            });
            plain(&[S::Rb, S::Rc], f)
        }
        _ => return gap(kind),
    })
}

/// `F2IP.U8.F32.NTZ`: a float to a small integer, saturated; no code has been seen that packs two.
fn rounded(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    for slot in [S::Ra, S::Rc] {
        if !inst.get(slot).and_then(|o| o.as_reg()).is_some_and(|r| r.is_const()) {
            return gap("two numbers");
        }
    }
    let Some((_, bits, signed)) = [("U8", 8, false), ("S8", 8, true)].into_iter().find(|t| take(w, t.0)) else {
        return gap("this type");
    };
    let flag = inst.with_flags(S::Rb);
    let (neg, abs) = (flag.is_some_and(|o| o.neg), flag.is_some_and(|o| o.abs));
    let modes = [("TRUNC", Round::Rz), ("FLOOR", Round::Rm), ("CEIL", Round::Rp)];
    let mode = modes.into_iter().find(|m| take(w, m.0)).map_or(Round::Rn, |m| m.1);
    let ftz = take(w, "FTZ");
    if !take(w, "F32") || !take(w, "NTZ") {
        return gap("another source");
    }
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let x = if abs { i.s[0][l] & 0x7fff_ffff } else { i.s[0][l] };
        let x = if neg { x ^ 0x8000_0000 } else { x };
        let x = if ftz { fp::ftz32(x) } else { x } as u64;
        // The upper half is that of the first source, which is zero.
        o.r[0][l] = if F32.is_nan(x) { 0 } else { fp::float_to_int(&F32, x, mode, bits, signed) as u32 & 0xff };
    });
    Ok(plain(&[S::Rb], f))
}

/// `MOV R0, R1, 0x5`: in those lanes of each quad that the mask names.
fn quads(inst: &Seen<'_>) -> Result<AluOp> {
    let Some(sass::inst::Value::Imm(mask)) = inst.get(S::ImmAt72).map(|o| o.value) else { return gap("no mask") };
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        o.r[0][l] = if mask >> (l & 3) & 1 != 0 { i.s[0][l] } else { i.s[1][l] };
    });
    Ok(plain(&[S::Rb, S::Rd], f))
}

/// `FSWZADD R0, R1, R2, PNZPPPPP`: by lane of the quad a pair of letters, for the first and the second term: as it is,
/// negated, zero.
fn swizzled(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    // Only for quads of which all lanes run.
    take(w, "NDV");
    let ftz = take(w, "FTZ");
    let modes = [("RM", Round::Rm), ("RP", Round::Rp), ("RZ", Round::Rz)];
    let mode = modes.into_iter().find(|m| take(w, m.0)).map_or(Round::Rn, |m| m.1);
    let text = sass::text::print(inst.inst(), 0, &sass::text::NoLabels);
    let letters: Vec<u8> = text.rsplit(", ").next().unwrap_or_default().bytes().collect();
    if letters.len() != 8 || letters.iter().any(|l| !b"PNZ".contains(l)) {
        return gap("this pattern");
    }
    inst.all();
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let term = |x: u32, letter: u8| match letter {
            b'P' => x,
            b'N' => x ^ 0x8000_0000,
            _ => 0,
        };
        let (a, c) = (term(i.s[0][l], letters[2 * (l & 3)]), term(i.s[1][l], letters[2 * (l & 3) + 1]));
        // Without a first term the second is as it was.
        o.r[0][l] = if letters[2 * (l & 3)] == b'Z' && !ftz { c } else { fp::add32(a, c, mode, ftz) };
    });
    Ok(plain(&[S::Ra, S::Rc], f))
}

/// `CLMAD.LO`, `CLMAD.HI`: one half of a product without carries, and a sum without carries.
fn carryless(w: &mut Vec<String>) -> Result<AluOp> {
    let high = take(w, "HI");
    if !high && !take(w, "LO") {
        return gap("this part");
    }
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let two = |n: usize| i.s[n][l] as u64 | (i.s[n + 1][l] as u64) << 32;
        let (a, b, c) = (two(0) as u128, two(2), two(4));
        let product = (0..64).filter(|k| b >> k & 1 != 0).fold(0u128, |r, k| r ^ a << k);
        let r = (if high { (product >> 64) as u64 } else { product as u64 }) ^ c;
        (o.r[0][l], o.r[1][l]) = (r as u32, (r >> 32) as u32);
    });
    let fetch = vec![Fetch::Two(S::Ra), Fetch::Two(S::Rb), Fetch::Two(S::Rc)];
    Ok(AluOp { fetch, pin: vec![], nd: 2, pout: vec![], f })
}

/// `VIADD.16x2`, `VIADDMNMX.S16x2`: sums of halves, that wrap, and the smaller or larger of them.
fn pairs(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let sign = |slot| inst.with_flags(slot).is_some_and(|o| o.neg);
    let (a, b, c) = (sign(S::Ra), sign(S::Rb), sign(S::Rc));
    let part = |x: u32, k: u32, neg: bool| {
        let h = (x >> (16 * k)) as u16;
        if neg { h.wrapping_neg() } else { h }
    };
    let both = |f: HalfFn| some(move |i, o, l| o.r[0][l] = f(i, l, 0) as u32 | (f(i, l, 1) as u32) << 16);
    let sum = move |i: &In<'_>, l: usize, k: u32| part(i.s[0][l], k, a).wrapping_add(part(i.s[1][l], k, b));
    if inst.form().mnemonic == "VIADD" {
        if !take(w, "16x2") {
            return gap("this type");
        }
        return Ok(plain(&[S::Ra, S::Rb], both(Box::new(sum))));
    }
    let signed = take(w, "S16x2");
    if !signed && !take(w, "U16x2") {
        return gap("this type");
    }
    let relu = take(w, "RELU");
    let f = both(Box::new(move |i, l, k| {
        let wide = |h: u16| if signed { h as i16 as i32 } else { h as i32 };
        let (x, y) = (wide(sum(i, l, k)), wide(part(i.s[2][l], k, c)));
        let r = if i.p[0] >> l & 1 != 0 { x.min(y) } else { x.max(y) };
        (if relu { r.max(0) } else { r }) as u16
    }));
    Ok(AluOp { pin: vec![S::Pp], ..plain(&[S::Ra, S::Rb, S::Rc], f) })
}

/// `PLOP3.LUT P0, P1, R0.SIGN, R1.SIGN, R2.SIGN, 0x80, 0x8`: of the signs of registers.
fn signs(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    take(w, "LUT");
    let table = |slot| match inst.get(slot).map(|o| o.value) {
        Some(sass::inst::Value::Imm(n)) => Some(n as u8),
        _ => None,
    };
    let (Some(first), Some(second)) = (table(S::ImmAt72), table(S::ImmAt16)) else { return gap("no table") };
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let sign = |n: usize| i.s[n][l] >> 31;
        let row = sign(0) << 2 | sign(1) << 1 | sign(2);
        for (p, t) in [(0, first), (1, second)] {
            o.p[p] = (o.p[p] & !(1 << l)) | ((t >> row & 1) as u32) << l;
        }
    });
    let fetch = [S::Ra, S::Rb, S::Rc].map(Fetch::One).to_vec();
    Ok(AluOp { fetch, pin: vec![], nd: 0, pout: vec![S::Pu, S::Pv], f })
}

/// `I2IP.U4.S32.SAT`: two saturated integers below what the third operand holds.
fn integers(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    if !take(w, "SAT") || !take(w, "S32") {
        return gap("without saturation");
    }
    let types = [("U2", 2, false), ("S2", 2, true), ("U4", 4, false), ("S4", 4, true), ("U8", 8, false)];
    let more = [("S8", 8, true), ("U16", 16, false), ("S16", 16, true)];
    let Some((_, bits, signed)) = types.into_iter().chain(more).find(|t| take(w, t.0)) else { return gap("this type") };
    // `R5.24` says how many bits of it are kept.
    let kept = match inst.suffix(S::Rc).trim_start_matches('.') {
        "" => 32 - 2 * bits,
        n => n.parse().unwrap_or(0),
    };
    if kept != 32 - 2 * bits {
        return gap("this part of C");
    }
    let (min, max) = if signed { (-(1i64 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    let clamp = move |x: u32| (x as i32 as i64).clamp(min, max) as u32 & ((1u64 << bits) - 1) as u32;
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let c = ((i.s[2][l] as u64) << (2 * bits)) as u32;
        o.r[0][l] = c | clamp(i.s[0][l]) << bits | clamp(i.s[1][l]);
    });
    Ok(plain(&[S::Ra, S::Rb, S::Rc], f))
}
