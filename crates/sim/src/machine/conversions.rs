//! Conversions, roundings and approximations by what their text says, where the forms of a chip have fields of their own and
//! where a source is an immediate.

use super::alu::{AluOp, Fetch};
use super::byname::take;
use super::decode::{Result, gap};
use super::mufu::{self, Func};
use super::named::{plain, second, some};
use super::program::{In, Out};
use super::seen::Seen;
use crate::num::fp;
use crate::num::soft::{self, BF16, E4M3, E5M2, F16, F32, F64, Format, Round, TF32};
use sass::form::SlotName as S;
use sass::inst::Value;

/// The operation of an instruction with these words behind its mnemonic, which it takes out.
///
/// # Errors
/// What of it is not modelled.
pub fn op(inst: &Seen<'_>, words: &mut Vec<String>) -> Result<AluOp> {
    match inst.form().mnemonic.trim_start_matches('U') {
        "F2FP" => pack(inst, words),
        "I2IP" => integers(inst, words),
        "F2IP" => rounded(inst, words),
        "FRND" => integral(inst, words),
        "F2I" => to_integer(inst, words),
        "F2F" => to_float(inst, words),
        _ => approximation(inst, words),
    }
}

fn format(word: &str) -> Option<&'static Format> {
    Some(match word {
        "F16" => &F16,
        "BF16" => &BF16,
        "F32" => &F32,
        "F64" => &F64,
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
    let b = second(inst);
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
    let high = |slot: S| -> Result<u32> {
        match inst.suffix(slot).trim_start_matches('.') {
            "" | "H0" => Ok(0),
            "H1" => Ok(16),
            other => gap(format!("an operand .{other}")),
        }
    };
    Ok(match kind {
        "PACK_AB" if !small && from == &F32 => plain(
            &[S::Ra, b],
            some(move |i, o, l| o.r[0][l] = convert(i.s[0][l] as u64) << 16 | convert(i.s[1][l] as u64)),
        ),
        "PACK_B" if to == &TF32 => plain(&[b], some(move |i, o, l| o.r[0][l] = convert(i.s[0][l] as u64) << 13)),
        "MERGE_C" if !small && from == &F32 => {
            let up = high(S::Rc)?;
            plain(&[b, S::Rc], some(move |i, o, l| o.r[0][l] = i.s[1][l] >> up << 16 | convert(i.s[0][l] as u64)))
        }
        "UNPACK_B" if from.width() < 15 => {
            let up = high(b)?;
            let two = move |x: u32| convert((x & 0xff) as u64) | convert((x >> 8 & 0xff) as u64) << 16;
            plain(&[b], some(move |i, o, l| o.r[0][l] = two(i.s[0][l] >> up)))
        }
        "PACK_AB_MERGE_C" if small && from == &F32 => {
            let up = high(S::Rc)?;
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let ab = convert(i.s[0][l] as u64) << 8 | convert(i.s[1][l] as u64);
                o.r[0][l] = i.s[2][l] >> up << 16 | ab;
            });
            plain(&[S::Ra, b, S::Rc], f)
        }
        "UNPACK_B_MERGE_C" if small => {
            let up = high(S::Rc)?;
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let (low, high) = (i.s[0][l] as u64 & 0xffff, (i.s[0][l] >> 16) as u64);
                o.r[0][l] = i.s[1][l] >> up << 16 | convert(high) << 8 | convert(low);
            });
            plain(&[b, S::Rc], f)
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
    let b = second(inst);
    let flag = inst.with_flags(b);
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
    Ok(plain(&[b], f))
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
    Ok(plain(&[S::Ra, second(inst), S::Rc], f))
}

/// The source of an instruction with one: its slot, and how its value comes out of the word: a half of it, without its sign,
/// or with the other.
struct Source {
    slot: S,
    shift: u32,
    neg: bool,
    abs: bool,
    immediate: bool,
}

impl Source {
    fn of(inst: &Seen<'_>) -> Result<Source> {
        let slot = second(inst);
        let shift = match inst.suffix(slot).trim_start_matches('.') {
            "" | "H0" | "H0_H0" => 0,
            "H1" | "H1_H1" => 16,
            other => return gap(format!("an operand .{other}")),
        };
        let o = inst.with_flags(slot);
        let immediate = inst.get(slot).is_some_and(|o| matches!(o.value, Value::Imm(_)));
        Ok(Source { slot, shift, neg: o.is_some_and(|o| o.neg), abs: o.is_some_and(|o| o.abs), immediate })
    }

    /// What is fetched: a pair of registers for doubles. An immediate double is the upper word of one.
    fn fetch(&self, from: &'static Format) -> Vec<Fetch> {
        let pair = from.width() == 63 && !self.immediate;
        vec![if pair { Fetch::Two(self.slot) } else { Fetch::One(self.slot) }]
    }

    fn value(&self, from: &'static Format, i: &In<'_>, l: usize) -> u64 {
        let x = match from.width() {
            63 if self.immediate => (i.s[0][l] as u64) << 32,
            63 => i.s[0][l] as u64 | (i.s[1][l] as u64) << 32,
            31 => i.s[0][l] as u64,
            _ => (i.s[0][l] >> self.shift) as u64 & 0xffff,
        };
        let sign = from.sign_bit();
        let x = if self.abs { x & !sign } else { x };
        if self.neg { x ^ sign } else { x }
    }
}

fn put(o: &mut Out, l: usize, x: u64) {
    (o.r[0][l], o.r[1][l]) = (x as u32, (x >> 32) as u32);
}

/// Takes the words of a rounding; to the nearest where there is none.
pub(super) fn mode(w: &mut Vec<String>) -> Round {
    let words = [("TRUNC", Round::Rz), ("FLOOR", Round::Rm), ("CEIL", Round::Rp), ("RZ", Round::Rz), ("RM", Round::Rm)];
    words.into_iter().chain([("RP", Round::Rp)]).find(|m| take(w, m.0)).map_or(Round::Rn, |m| m.1)
}

/// Takes the words of formats, in their order.
fn formats(w: &mut Vec<String>) -> Vec<&'static Format> {
    let found = w.iter().filter_map(|x| format(x)).collect();
    w.retain(|x| format(x).is_none());
    found
}

/// `FRND.F16.FLOOR R0, 1.5`: to a whole number of the same format.
fn integral(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let (source, mode, ftz) = (Source::of(inst)?, mode(w), take(w, "FTZ"));
    let f = *formats(w).first().unwrap_or(&&F32);
    let (fetch, nd) = (source.fetch(f), 1 + (f.width() == 63) as u8);
    let fun = some(move |i, o, l| {
        let x = source.value(f, i, l);
        put(o, l, soft::round_to_integral(f, if ftz { f.flush(x) } else { x }, mode));
    });
    Ok(AluOp { fetch, pin: vec![], nd, pout: vec![], f: fun })
}

/// `F2I.U64.F16.CEIL.NTZ R0, 1.5`.
fn to_integer(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let (source, mode, ftz, zero) = (Source::of(inst)?, mode(w), take(w, "FTZ"), take(w, "NTZ"));
    let from = *formats(w).first().unwrap_or(&&F32);
    let types = [("U8", 8, false), ("S8", 8, true), ("U16", 16, false), ("S16", 16, true), ("U32", 32, false)];
    let more = [("U64", 64, false), ("S64", 64, true), ("S32", 32, true)];
    let (_, bits, signed) = types.into_iter().chain(more).find(|t| take(w, t.0)).unwrap_or(("", 32, true));
    let fetch = source.fetch(from);
    let f = some(move |i, o, l| {
        let x = source.value(from, i, l);
        let x = if ftz { from.flush(x) } else { x };
        let r = match from.is_nan(x) {
            true if zero => 0,
            true => 1 << (bits - 1),
            false => fp::float_to_int(from, x, mode, bits, signed),
        };
        put(o, l, if signed && bits < 32 { ((r << (64 - bits)) as i64 >> (64 - bits)) as u64 } else { r });
    });
    Ok(AluOp { fetch, pin: vec![], nd: 1 + (bits == 64) as u8, pout: vec![], f })
}

/// `F2F.F64.BF16.RM R0, 1.5`.
fn to_float(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let (source, mode, ftz) = (Source::of(inst)?, mode(w), take(w, "FTZ"));
    let [to, from] = formats(w)[..] else { return gap("these types") };
    let (fetch, nd) = (source.fetch(from), 1 + (to.width() == 63) as u8);
    let f = some(move |i, o, l| {
        let x = source.value(from, i, l);
        let x = if ftz && from == &F32 { from.flush(x) } else { x };
        let r = fp::float_to_float(from, to, x, mode);
        put(o, l, if ftz && to == &F32 { to.flush(r) } else { r });
    });
    Ok(AluOp { fetch, pin: vec![], nd, pout: vec![], f })
}

/// `MUFU.TANH.BF16 R0, 1.5`.
fn approximation(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let source = Source::of(inst)?;
    let f = *formats(w).first().unwrap_or(&&F32);
    let names = [("COS", Func::Cos), ("SIN", Func::Sin), ("EX2", Func::Ex2), ("LG2", Func::Lg2), ("RCP", Func::Rcp)];
    let more = [("RSQ", Func::Rsq), ("SQRT", Func::Sqrt), ("TANH", Func::Tanh)];
    let Some((_, func)) = names.into_iter().chain(more).find(|n| take(w, n.0)) else { return gap("this function") };
    if f.width() == 63 {
        return gap("a double");
    }
    let fetch = source.fetch(f);
    let fun = some(move |i, o, l| {
        let wide = soft::convert(f, &F32, source.value(f, i, l), Round::Rn) as u32;
        let wide = if f == &F32 { source.value(f, i, l) as u32 } else { wide };
        let r = mufu::single(func, wide);
        o.r[0][l] = if f == &F32 { r } else { soft::convert(&F32, f, r as u64, Round::Rn) as u32 };
    });
    Ok(AluOp { fetch, pin: vec![], nd: 1, pout: vec![], f: fun })
}
