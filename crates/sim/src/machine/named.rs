//! Lane-wise instructions by what their text says, where the forms of a chip have fields of their own: packed halves, and
//! others that few programs have. Every word of a name and every suffix of an operand must be known.

use super::alu::{AluOp, Fetch};
use super::byname::{known, take};
use super::decode::{Result, gap};
use super::program::{AluFn, In, Out};
use super::seen::Seen;
use crate::num::fp::{self, Half, sat32};
use crate::num::soft::{self, F16, F32, Round};
use crate::tensormap::OOB_NAN;
use sass::form::{Role, SlotKind, SlotName as S};
use sass::reg::File;

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

pub(super) fn some(f: impl Fn(&In<'_>, &mut Out, usize) + Send + Sync + 'static) -> AluFn {
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

pub(super) fn plain(fetch: &[S], f: AluFn) -> AluOp {
    AluOp { fetch: fetch.iter().map(|&s| Fetch::One(s)).collect(), pin: vec![], nd: 1, pout: vec![], f }
}

/// The slot of the source in bits 63:32, however the form calls it.
pub(super) fn second(inst: &Seen<'_>) -> S {
    let names = [S::Rb, S::ImmAt32, S::ImmAt38, S::UR, S::ConstAt40];
    names.into_iter().find(|&n| inst.slot(n).is_some()).unwrap_or(S::Rb)
}

/// The slots of the first `count` sources that are no predicates, in the order of the text.
///
/// # Errors
/// There are fewer, or more.
pub(super) fn sources(inst: &Seen<'_>, count: usize) -> Result<Vec<S>> {
    let value = |k: SlotKind| !matches!(k, SlotKind::Reg(File::Pred | File::Upred | File::Bar));
    let slots: Vec<S> =
        inst.form().slots.iter().filter(|s| s.role == Role::Use && value(s.kind)).map(|s| s.name).collect();
    if slots.len() == count { Ok(slots) } else { gap("these operands") }
}

/// The operation of an instruction with these words behind its mnemonic.
pub fn op(inst: &Seen<'_>, words: &mut Vec<String>) -> Result<AluOp> {
    let op = match inst.form().mnemonic {
        "HADD2" | "HMUL2" | "HFMA2" | "HMNMX2" => halves(inst, words)?,
        "VHMNMX" => least_of_three(inst, words)?,
        "UIMAD" => wide_product(inst, words)?,
        "F2FP" | "I2IP" | "F2IP" | "FRND" | "F2I" | "F2F" | "MUFU" | "UF2I" | "UFRND" => {
            super::conversions::op(inst, words)?
        }
        "IADD" | "ISETP" | "UISETP" | "IMNMX" | "UIMNMX" | "SEL" | "USEL" => super::wide::op(inst, words)?,
        "MOV" | "UMOV" if words.iter().any(|w| w == "64") => super::wide::op(inst, words)?,
        "UFADD" | "UFMUL" | "UFFMA" | "UFMNMX" | "UFSEL" | "UFSETP" | "UFSET" | "UI2F" | "UI2FP" | "UI2I" | "UIABS"
        | "UVIADD" | "UVIMNMX" => super::uniform::op(inst, words)?,
        "FMNMX3" => least_of_three_singles(inst, words)?,
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
    if mnemonic == "HADD2" && single(a) != single(b) {
        // A conversion: a single to which zero is added, on either side. It is cut: ptxas emits this for rounding to zero only.
        let (slot, x, other, zero) = if single(a) { (S::Ra, a, S::Rb, b) } else { (S::Rb, b, S::Ra, a) };
        let nothing = inst.get(other).and_then(|o| o.as_reg()).is_some_and(|r| r.is_const());
        if !nothing || !zero.neg || (Half { sat: false, ftz: false, ..h }) != Half::default() {
            return gap("a single among halves");
        }
        let sign = (x.neg as u32) << 31;
        let keep = if x.abs { 0x7fff_ffff } else { u32::MAX };
        return Ok(plain(
            &[slot],
            some(move |i, o, l| {
                let r = soft::convert(&F32, &F16, ((i.s[0][l] & keep) ^ sign) as u64, Round::Rz) as u32;
                let r = if h == Half::default() { r } else { h.add(r as u16, 0x8000) as u32 };
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
                // With the signs that the instruction gives its operands: PTX leaves open what becomes of a negated NaN.
                if oob && (x == OOB_NAN || y == OOB_NAN) {
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

/// `VHMNMX R0, R1, R2, R3, PT`: the smallest of three halves, twice; with a false predicate the largest.
fn least_of_three(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let second = second(inst);
    // The halves of an immediate are in its order.
    let b =
        if second == S::Rb { Packed::of(inst, S::Rb)? } else { Packed { part: Part::Both, neg: false, abs: false } };
    let (a, c) = (Packed::of(inst, S::Ra)?, Packed::of(inst, S::Rc)?);
    let bf16 = take(w, "BF16_V2");
    let h = Half { bf16, ftz: take(w, "FTZ"), ..Half::default() };
    let nan = take(w, "NAN");
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let max = i.p[0] >> l & 1 == 0;
        let one = |k| {
            let (x, y, z) = (a.half(i.s[0][l], k), b.half(i.s[1][l], k), c.half(i.s[2][l], k));
            h.min_max(max, nan, h.min_max(max, nan, x, y), z) as u32
        };
        o.r[0][l] = one(0) | one(1) << 16;
    });
    Ok(AluOp { pin: vec![S::Pp], ..plain(&[S::Ra, second, S::Rc], f) })
}

/// `FMNMX3 R0, |R1|, R2, R3, PT`: the smallest of three singles; with a false predicate the largest.
fn least_of_three_singles(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let slots = sources(inst, 3)?;
    let flags = [0, 1, 2].map(|n| inst.with_flags(slots[n]).map_or((false, false), |o| (o.neg, o.abs)));
    let (ftz, nan) = (take(w, "FTZ"), take(w, "NAN"));
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let x = |n: usize| {
            let (neg, abs) = flags[n];
            let x = if abs { i.s[n][l] & 0x7fff_ffff } else { i.s[n][l] };
            let x = if neg { x ^ 0x8000_0000 } else { x };
            (if ftz { fp::ftz32(x) } else { x }) as u64
        };
        let max = i.p[0] >> l & 1 == 0;
        o.r[0][l] = fp::min_max(&F32, max, nan, fp::min_max(&F32, max, nan, x(0), x(1)), x(2)) as u32;
    });
    Ok(AluOp { pin: vec![S::Pp], ..plain(&slots, f) })
}

/// `UIMAD.HI.U32 UR4, UP1, UR8, UR10, UR12`: the upper word of a product and a sum of 64 bits, and the carry out; with `.X` a carry
/// in, too.
fn upper_product(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let (x, signed) = (take(w, "X"), !take(w, "U32"));
    let slots = sources(inst, 3)?;
    let flag = inst.with_flags(slots[2]);
    let (neg, inverted) = flag.map_or((false, false), |o| (o.neg, o.inv));
    if flag.is_some_and(|o| o.abs) || neg && inverted {
        return gap("this sign");
    }
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let (a, b) = (i.s[0][l], i.s[1][l]);
        let p = if signed { (a as i32 as i64 * b as i32 as i64) as u64 } else { a as u64 * b as u64 };
        let c = i.s[2][l] as u64 | (i.s[3][l] as u64) << 32;
        // A negated term is its complement and one more, which may carry, too.
        let c = if neg { !c as u128 + 1 } else { (if inverted { !c } else { c }) as u128 };
        let carry = if x { (i.p[0] >> l & 1) as u128 } else { 0 };
        let sum = p as u128 + c + carry;
        o.r[0][l] = (sum >> 32) as u32;
        o.p[0] = (o.p[0] & !(1 << l)) | ((sum >> 64 & 1) as u32) << l;
    });
    let fetch = vec![Fetch::One(slots[0]), Fetch::One(slots[1]), Fetch::Two(slots[2])];
    Ok(AluOp { fetch, pin: if x { vec![S::Pp] } else { vec![] }, nd: 1, pout: vec![S::Pu], f })
}

/// `UIMAD.WIDE.U32.X UR4, UP1, UR8, 0x3, UR12, UP2`: a product of 64 bits, a sum and a carry in and out.
fn wide_product(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    if take(w, "HI") {
        return upper_product(inst, w);
    }
    if !take(w, "WIDE") || !take(w, "X") {
        return gap("");
    }
    let signed = !take(w, "U32");
    let flag = inst.with_flags(S::Rc);
    if flag.is_some_and(|o| o.neg || o.abs) {
        return gap("this sign");
    }
    let inverted = flag.is_some_and(|o| o.inv);
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let (a, b) = (i.s[0][l], i.s[1][l]);
        let p = if signed { (a as i32 as i64 * b as i32 as i64) as u64 } else { a as u64 * b as u64 };
        let c = i.s[2][l] as u64 | (i.s[3][l] as u64) << 32;
        let sum = p as u128 + (if inverted { !c } else { c }) as u128 + (i.p[0] >> l & 1) as u128;
        (o.r[0][l], o.r[1][l]) = (sum as u32, (sum >> 32) as u32);
        o.p[0] = (o.p[0] & !(1 << l)) | ((sum >> 64 & 1) as u32) << l;
    });
    let fetch = vec![Fetch::One(S::Ra), Fetch::One(S::Rb), Fetch::Two(S::Rc)];
    Ok(AluOp { fetch, pin: vec![S::Pp], nd: 2, pout: vec![S::Pu], f })
}

/// `MOV R0, R1, 0x5`: in those lanes of each quad that the mask names.
fn quads(inst: &Seen<'_>) -> Result<AluOp> {
    let Some(sass::inst::Value::Imm(mask)) = inst.get(S::ImmAt72).map(|o| o.value) else { return gap("no mask") };
    let mask = mask.get();
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

/// `VIADD.16x2`, `VIADD.U8x4`, `VIADDMNMX.S16x2`: sums of halves and bytes, that wrap, and the smaller or larger of them.
fn pairs(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let sign = |slot| inst.with_flags(slot).is_some_and(|o| o.neg);
    let (a, b, c) = (sign(S::Ra), sign(S::Rb), sign(S::Rc));
    let part = |x: u32, k: u32, neg: bool| {
        let h = (x >> (16 * k)) as u16;
        if neg { h.wrapping_neg() } else { h }
    };
    let both = |f: HalfFn| some(move |i, o, l| o.r[0][l] = f(i, l, 0) as u32 | (f(i, l, 1) as u32) << 16);
    let sum = move |i: &In<'_>, l: usize, k: u32| part(i.s[0][l], k, a).wrapping_add(part(i.s[1][l], k, b));
    if inst.form().mnemonic == "VIADD" && take(w, "ISAT") {
        // The sum as it would be without end, cut to the type.
        let (bits, min, max) = match () {
            () if take(w, "S32") => (32, i32::MIN as i64, i32::MAX as i64),
            () if take(w, "S16x2") => (16, i16::MIN as i64, i16::MAX as i64),
            () if take(w, "16x2") => (16, 0, u16::MAX as i64),
            () if take(w, "S8x4") => (8, i8::MIN as i64, i8::MAX as i64),
            () if take(w, "U8x4") => (8, 0, u8::MAX as i64),
            () if take(w, "32") => (32, 0, u32::MAX as i64),
            () => return gap("this type"),
        };
        let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
            let part = |x: u32, k: u32, neg: bool| {
                let shifted = ((x >> k) as i64) << (64 - bits);
                let x = if min < 0 { shifted >> (64 - bits) } else { (shifted as u64 >> (64 - bits)) as i64 };
                if neg { -x } else { x }
            };
            let one = |k| (part(i.s[0][l], k, a) + part(i.s[1][l], k, b)).clamp(min, max) as u64;
            let mask = u64::MAX >> (64 - bits);
            o.r[0][l] = (0..32).step_by(bits as usize).fold(0, |r, k| r | (one(k) & mask) << k) as u32;
        });
        return Ok(plain(&[S::Ra, S::Rb], f));
    }
    if inst.form().mnemonic == "VIADD" {
        if take(w, "U8x4") || take(w, "S8x4") {
            let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
                let byte = |x: u32, k: u32, neg: bool| {
                    let b = (x >> k) as u8;
                    if neg { b.wrapping_neg() } else { b }
                };
                let one = |k| byte(i.s[0][l], k, a).wrapping_add(byte(i.s[1][l], k, b)) as u32;
                o.r[0][l] = [0, 8, 16, 24].into_iter().fold(0, |r, k| r | one(k) << k);
            });
            return Ok(plain(&[S::Ra, S::Rb], f));
        }
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
        Some(sass::inst::Value::Imm(n)) => Some(n.get() as u8),
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

#[cfg(test)]
mod tests {
    use super::*;
    use sass::inst::{Inst, Operand};
    use sass::reg::Reg;

    /// What an upper word and its carry are in lane 0, of words and a pair; `Some`: of the form with a carry in.
    fn upper(
        words: &[&str],
        third: fn(Operand) -> Operand,
        [a, b]: [u32; 2],
        c: u64,
        carry: Option<bool>,
    ) -> (u32, bool) {
        let form = if carry.is_some() { sass::forms::UIMAD_XUPUUUP } else { sass::forms::UIMAD_XUPUUU };
        let inst = Inst::new(form).with(S::URc, third(Operand::reg(Reg::ur(8))));
        let mut words: Vec<String> = words.iter().map(|w| w.to_string()).collect();
        let seen = Seen::new(&inst);
        let op = wide_product(&seen, &mut words).unwrap_or_else(|_| panic!("modelled"));
        assert!(words.is_empty() && op.fetch.len() == 3 && op.pin.len() == carry.is_some() as usize);
        let lanes = |x: u32| [x; 32];
        let (a, b, lo, hi, none) = (lanes(a), lanes(b), lanes(c as u32), lanes((c >> 32) as u32), lanes(0));
        let mut out = Out { r: [none; 2], p: [0; 2] };
        let p = [if carry == Some(true) { u32::MAX } else { 0 }, 0, 0];
        (op.f)(&In { s: [&a, &b, &lo, &hi, &none, &none], p, mask: 1 }, &mut out);
        (out.r[0][0], out.p[0] & 1 != 0)
    }

    /// Values by hand.
    #[test]
    fn upper_words_of_products_and_sums() {
        let same = |o: Operand| o;
        let max = u32::MAX;
        // (2^32 - 1)^2 = 0xfffffffe_00000001.
        assert_eq!(upper(&["HI", "U32"], same, [max, max], 0, None), (0xffff_fffe, false));
        assert_eq!(upper(&["HI", "U32"], same, [max, max], 0x1_ffff_ffff, None), (0, true));
        // -1 * -1 and -1 * 5.
        assert_eq!(upper(&["HI"], same, [max, max], 0, None), (0, false));
        assert_eq!(upper(&["HI"], same, [max, 5], 0, None), (max, false));
        // A negated term is a complement and one more, so that of nothing carries.
        assert_eq!(upper(&["HI", "U32"], |o| o.negated(), [0, 0], 0, None), (0, true));
        assert_eq!(upper(&["HI", "U32"], |o| o.negated(), [0x10000, 0x10000], 1, None), (0, true));
        assert_eq!(upper(&["HI", "U32"], |o| o.negated(), [1, 1], 2, None), (max, false));
        // A carry in, which ripples; with it a complement.
        assert_eq!(upper(&["HI", "U32", "X"], same, [1, 0xffff_ffff], 0, Some(true)), (1, false));
        assert_eq!(upper(&["HI", "U32", "X"], same, [1, 0xffff_ffff], 0, Some(false)), (0, false));
        assert_eq!(upper(&["HI", "X"], |o| o.inverted(), [0, 0], 0, Some(true)), (0, true));
    }
}
