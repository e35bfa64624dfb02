//! Singles and other things that the uniform datapath computes from sm_120 on: by what their text says. The sources are taken in
//! their order, as the forms call them by where they lie.

use super::alu::AluOp;
use super::byname::take;
use super::conversions::mode;
use super::decode::{Result, gap};
use super::named::{plain, some, sources};
use super::program::{In, Out};
use super::seen::Seen;
use crate::num::fp::{self, ftz32, min_max, sat32};
use crate::num::soft::{F16, F32, from_int};
use sass::form::SlotName as S;

/// What is done to a source before it is used.
#[derive(Clone, Copy)]
struct Sign {
    neg: bool,
    abs: bool,
}

impl Sign {
    fn of(inst: &Seen<'_>, slot: S) -> Result<Sign> {
        let suffix = inst.suffix(slot);
        if !suffix.is_empty() {
            return gap(format!("an operand {suffix}"));
        }
        match inst.with_flags(slot) {
            Some(o) if o.inv => gap("a complement"),
            Some(o) => Ok(Sign { neg: o.neg, abs: o.abs }),
            None => Ok(Sign { neg: false, abs: false }),
        }
    }

    #[inline]
    fn single(self, x: u32) -> u32 {
        let x = if self.abs { x & 0x7fff_ffff } else { x };
        if self.neg { x ^ 0x8000_0000 } else { x }
    }

    #[inline]
    fn int(self, x: u32) -> u32 {
        if self.neg { x.wrapping_neg() } else { x }
    }
}

/// Takes the words of a comparison of floats: less 1, equal 2, greater 4, unordered 8.
fn comparison(w: &mut Vec<String>) -> Result<u8> {
    let names = ["F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T"];
    match names.iter().position(|n| take(w, n)) {
        Some(n) => Ok(n as u8),
        None => gap("no comparison"),
    }
}

/// The integer type of less than 32 bits among these words: its bits, and whether it is signed.
fn small(w: &mut Vec<String>) -> Option<(u32, bool)> {
    let types = [("U8", 8, false), ("S8", 8, true), ("U16", 16, false), ("S16", 16, true)];
    types.into_iter().find(|t| take(w, t.0)).map(|t| (t.1, t.2))
}

/// The operation of an instruction with these words behind its mnemonic, which it takes out.
///
/// # Errors
/// What of it is not modelled.
pub fn op(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let mnemonic = inst.form().mnemonic;
    let count = match mnemonic {
        "UFFMA" => 3,
        "UI2F" | "UI2FP" | "UI2I" | "UIABS" => 1,
        _ => 2,
    };
    let slots = sources(inst, count)?;
    let signs: Vec<Sign> = slots.iter().map(|&s| Sign::of(inst, s)).collect::<Result<_>>()?;
    let sign = move |n: usize| signs[n];
    let (ftz, sat) = (take(w, "FTZ"), take(w, "SAT"));
    let fin = move |r: u32| if sat { sat32(r) } else { r };
    Ok(match mnemonic {
        "UFADD" | "UFMUL" | "UFFMA" => {
            let mode = mode(w);
            let add = mnemonic == "UFADD";
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let x = |n: usize| sign(n).single(i.s[n][l]);
                o.r[0][l] = fin(match count {
                    3 => fp::fma32(x(0), x(1), x(2), mode, ftz),
                    _ if add => fp::add32(x(0), x(1), mode, ftz),
                    _ => fp::mul32(x(0), x(1), mode, ftz),
                });
            });
            plain(&slots, f)
        }
        "UFMNMX" => {
            // `.IS_A` says which source it was in another predicate, which nobody asks for.
            let nan = take(w, "NAN");
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let x = |n: usize| {
                    let x = sign(n).single(i.s[n][l]);
                    (if ftz { ftz32(x) } else { x }) as u64
                };
                o.r[0][l] = min_max(&F32, i.p[0] >> l & 1 == 0, nan, x(0), x(1)) as u32;
            });
            AluOp { pin: vec![S::Pp], ..plain(&slots, f) }
        }
        "UFSEL" => {
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let n = if i.p[0] >> l & 1 != 0 { 0 } else { 1 };
                let x = sign(n).single(i.s[n][l]);
                o.r[0][l] = if ftz { ftz32(x) } else { x };
            });
            AluOp { pin: vec![S::Pp], ..plain(&slots, f) }
        }
        "UFSETP" | "UFSET" => {
            let value = mnemonic == "UFSET";
            if value && !take(w, "BF") {
                return gap("this result");
            }
            let bop = ["AND", "OR", "XOR"].iter().position(|b| take(w, b)).unwrap_or(0);
            let cmp = comparison(w)?;
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let x = |n: usize| {
                    let x = sign(n).single(i.s[n][l]);
                    f32::from_bits(if ftz { ftz32(x) } else { x })
                };
                let bit = match x(0).partial_cmp(&x(1)) {
                    Some(std::cmp::Ordering::Less) => 1,
                    Some(std::cmp::Ordering::Equal) => 2,
                    Some(std::cmp::Ordering::Greater) => 4,
                    None => 8,
                };
                let p = i.p[0] >> l & 1 != 0;
                let with = |r: bool| match bop {
                    0 => r & p,
                    1 => r | p,
                    _ => r ^ p,
                };
                let r = cmp & bit != 0;
                for (k, r) in [(0, r), (1, !r)] {
                    o.p[k] = o.p[k] & !(1 << l) | (with(r) as u32) << l;
                }
                o.r[0][l] = if with(r) { 0x3f80_0000 } else { 0 };
            });
            let pout = if value { vec![] } else { vec![S::Pu, S::Pv] };
            AluOp { pin: vec![S::Pp], pout, nd: value as u8, ..plain(&slots, f) }
        }
        "UI2F" | "UI2FP" => {
            let to = if take(w, "F16") { &F16 } else { &F32 };
            take(w, "F32");
            let (bits, signed) = small(w).unwrap_or(if take(w, "U32") { (32, false) } else { (32, true) });
            take(w, "S32");
            let mode = mode(w);
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let x = sign(0).int(i.s[0][l]) as u64;
                let x = if signed {
                    ((x << (64 - bits)) as i64 >> (64 - bits)) as i128
                } else {
                    (x & (u64::MAX >> (64 - bits))) as i128
                };
                o.r[0][l] = from_int(to, x, mode) as u32;
            });
            plain(&slots, f)
        }
        "UI2I" => {
            let (true, Some((bits, signed)), true) = (sat, small(w), take(w, "S32")) else { return gap("these types") };
            let (least, most) =
                if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                o.r[0][l] = (sign(0).int(i.s[0][l]) as i32 as i64).clamp(least, most) as u32;
            });
            plain(&slots, f)
        }
        "UIABS" => plain(&slots, some(move |i, o, l| o.r[0][l] = (i.s[0][l] as i32).wrapping_abs() as u32)),
        "UVIADD" => {
            if !["32", "S32", "U32"].into_iter().any(|t| take(w, t)) && !w.is_empty() {
                return gap("this type");
            }
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                o.r[0][l] = sign(0).int(i.s[0][l]).wrapping_add(sign(1).int(i.s[1][l]));
            });
            plain(&slots, f)
        }
        "UVIMNMX" => {
            let signed = take(w, "S32");
            if !signed && !take(w, "U32") {
                return gap("this type");
            }
            let relu = take(w, "RELU");
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let wide = |x: u32| if signed { x as i32 as i64 } else { x as i64 };
                let (a, b) = (wide(i.s[0][l]), wide(i.s[1][l]));
                let r = if i.p[0] >> l & 1 != 0 { a.min(b) } else { a.max(b) };
                o.r[0][l] = (if relu { r.max(0) } else { r }) as u32;
            });
            AluOp { pin: vec![S::Pp], ..plain(&slots, f) }
        }
        _ => return gap(""),
    })
}
