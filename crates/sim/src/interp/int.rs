//! Integer, logic, shift and bit instructions, written from section 9.7.1 and 9.7.8 of the PTX ISA.

use super::lanes::{l1, l2, l3, l4, m2, mask, sx};
use super::program::AluFn;
use ptx::access::MulMode;
use ptx::isa::{Mod, Op};
use ptx::module::Inst;
use ptx::types::ScalarType as T;

/// The lane function of an integer instruction and how many sources it takes; `None` if it is not one of these.
pub fn alu(inst: &Inst) -> Option<(usize, AluFn)> {
    let t = inst.ty();
    let bits = t.bits();
    let m = mask(bits);
    let signed = t.is_signed();
    match t {
        T::U16x2 | T::S16x2 => return packed(inst, signed, 16),
        T::U8x4 | T::S8x4 => return packed(inst, signed, 8),
        _ => {}
    }
    if t.is_float() || t == T::Pred {
        return None;
    }
    let sat = inst.sat();
    Some(match inst.op {
        Op::Add if sat && !signed => (2, l2(|a, b| (a as u32).saturating_add(b as u32) as u64)),
        Op::Add if sat => (2, l2(|a, b| (a as u32 as i32).saturating_add(b as u32 as i32) as u32 as u64)),
        Op::Sub if sat => (2, l2(|a, b| (a as u32 as i32).saturating_sub(b as u32 as i32) as u32 as u64)),
        Op::Add => (2, l2(move |a, b| a.wrapping_add(b) & m)),
        Op::Sub => (2, l2(move |a, b| a.wrapping_sub(b) & m)),
        Op::And => (2, l2(move |a, b| a & b & m)),
        Op::Or => (2, l2(move |a, b| (a | b) & m)),
        Op::Xor => (2, l2(move |a, b| (a ^ b) & m)),
        Op::Not => (1, l1(move |a| !a & m)),
        Op::Cnot => (1, l1(move |a| (a & m == 0) as u64)),
        Op::Mul | Op::Mad => return mul(inst, bits, signed),
        Op::Mul24 | Op::Mad24 => return mul24(inst, signed),
        Op::Sad if signed => (
            3,
            l3(move |a, b, c| c.wrapping_add((sx(a, bits) as i128 - sx(b, bits) as i128).unsigned_abs() as u64) & m),
        ),
        Op::Sad => (3, l3(move |a, b, c| c.wrapping_add((a & m).abs_diff(b & m)) & m)),
        // Division by zero has no defined result; here it is all ones, and so is the remainder, as in the vendor's code.
        Op::Div if signed => (
            2,
            m2(move |a, b| {
                let (a, b) = (sx(a, bits), sx(b, bits));
                if b == 0 { m } else { a.wrapping_div(b) as u64 & m }
            }),
        ),
        Op::Div => (2, m2(move |a, b| (a & m).checked_div(b & m).unwrap_or(m))),
        Op::Rem if signed => (
            2,
            m2(move |a, b| {
                let (a, b) = (sx(a, bits), sx(b, bits));
                if b == 0 { m } else { a.wrapping_rem(b) as u64 & m }
            }),
        ),
        Op::Rem => (2, m2(move |a, b| (a & m).checked_rem(b & m).unwrap_or(m))),
        Op::Abs => (1, l1(move |a| sx(a, bits).wrapping_abs() as u64 & m)),
        Op::Neg => (1, l1(move |a| a.wrapping_neg() & m)),
        Op::Min | Op::Max if inst.has(Mod::Relu) => {
            let max = inst.op == Op::Max;
            (2, l2(move |a, b| min_max(sx(a, bits), sx(b, bits), max).max(0) as u64 & m))
        }
        Op::Min if signed => (2, l2(move |a, b| sx(a, bits).min(sx(b, bits)) as u64 & m)),
        Op::Max if signed => (2, l2(move |a, b| sx(a, bits).max(sx(b, bits)) as u64 & m)),
        Op::Min => (2, l2(move |a, b| (a & m).min(b & m))),
        Op::Max => (2, l2(move |a, b| (a & m).max(b & m))),
        Op::Popc => (1, l1(move |a| (a & m).count_ones() as u64)),
        Op::Clz => (1, l1(move |a| (a & m).leading_zeros() as u64 - (64 - bits as u64))),
        Op::Brev => (1, l1(move |a| a.reverse_bits() >> (64 - bits))),
        Op::Bfind => {
            let shiftamt = inst.has(Mod::Shiftamt);
            (1, l1(move |a| bfind(a & m, bits, signed, shiftamt)))
        }
        Op::Fns => (3, l3(fns)),
        Op::Bfe => (3, l3(move |a, b, c| bfe(a & m, b as u32 & 0xff, c as u32 & 0xff, bits, signed))),
        Op::Bfi => (4, l4(move |a, b, c, d| bfi(a & m, b & m, c as u32 & 0xff, d as u32 & 0xff, bits))),
        Op::Szext => {
            let wrap = inst.wrap();
            (
                2,
                l2(move |a, b| {
                    let n = if wrap { b as u32 & 31 } else { (b as u32).min(32) };
                    match n {
                        0 => 0,
                        n if signed => sx(a, n) as u32 as u64,
                        n => a & mask(n),
                    }
                }),
            )
        }
        Op::Bmsk => {
            let wrap = inst.wrap();
            (
                2,
                l2(move |a, b| {
                    let (a, b) = (a as u32, b as u32);
                    let (a, b) = if wrap { (a & 31, b & 31) } else { (a.min(32), b.min(32)) };
                    (((1u64 << b) - 1) << a) & 0xffff_ffff
                }),
            )
        }
        Op::Dp4a => {
            let types = inst.types();
            let (sa, sb) = (types[0].is_signed(), types.get(1)?.is_signed());
            (
                3,
                l3(move |a, b, c| {
                    let part =
                        |x: u64, i: u32, s: bool| if s { sx(x >> (8 * i), 8) } else { (x >> (8 * i) & 0xff) as i64 };
                    let sum: i64 = (0..4).map(|i| part(a, i, sa) * part(b, i, sb)).sum();
                    (c as u32).wrapping_add(sum as u32) as u64
                }),
            )
        }
        Op::Dp2a => {
            let types = inst.types();
            let (sa, sb) = (types[0].is_signed(), types.get(1)?.is_signed());
            let base = if inst.mul_mode() == Some(MulMode::Hi) { 2 } else { 0 };
            (
                3,
                l3(move |a, b, c| {
                    let half = |i: u32| if sa { sx(a >> (16 * i), 16) } else { (a >> (16 * i) & 0xffff) as i64 };
                    let byte = |i: u32| if sb { sx(b >> (8 * i), 8) } else { (b >> (8 * i) & 0xff) as i64 };
                    let sum: i64 = (0..2).map(|i| half(i) * byte(base + i)).sum();
                    (c as u32).wrapping_add(sum as u32) as u64
                }),
            )
        }
        Op::Shl => (2, l2(move |a, b| if b as u32 >= bits { 0 } else { a << (b as u32) & m })),
        Op::Shr if signed => (2, l2(move |a, b| (sx(a, bits) >> (b as u32).min(bits - 1)) as u64 & m)),
        Op::Shr => (2, l2(move |a, b| if b as u32 >= bits { 0 } else { (a & m) >> (b as u32) })),
        Op::Shf => {
            let (left, wrap) = (inst.has(Mod::L), inst.wrap());
            (
                3,
                l3(move |a, b, c| {
                    let n = if wrap { c as u32 & 31 } else { (c as u32).min(32) };
                    let both = (b & 0xffff_ffff) << 32 | (a & 0xffff_ffff);
                    if left { both << n >> 32 } else { both >> n & 0xffff_ffff }
                }),
            )
        }
        Op::Prmt => {
            let mode = inst
                .mods
                .iter()
                .copied()
                .find(|m| matches!(m, Mod::F4e | Mod::B4e | Mod::Rc8 | Mod::Ecl | Mod::Ecr | Mod::Rc16));
            (3, l3(move |a, b, c| prmt(a as u32, b as u32, c as u32, mode) as u64))
        }
        _ => return None,
    })
}

fn min_max(a: i64, b: i64, max: bool) -> i64 {
    if max { a.max(b) } else { a.min(b) }
}

/// Numbers of `bits` bits beside each other in a word.
fn packed(inst: &Inst, signed: bool, bits: u32) -> Option<(usize, AluFn)> {
    let (relu, sat) = (inst.has(Mod::Relu), inst.sat());
    let m = mask(bits);
    let (min, max) = if signed { (-1i64 << (bits - 1), (m >> 1) as i64) } else { (0, m as i64) };
    let part = move |x: u64, at: u32| if signed { sx(x >> at, bits) } else { (x >> at & m) as i64 };
    let places = move || (0..32).step_by(bits as usize);
    let f: fn(i64, i64) -> i64 = match inst.op {
        Op::Add => |a, b| a + b,
        Op::Sub => |a, b| a - b,
        Op::Min => |a, b| a.min(b),
        Op::Max => |a, b| a.max(b),
        Op::Neg => {
            return Some((1, l1(move |a| places().fold(0, |r, at| r | ((a >> at).wrapping_neg() & m) << at))));
        }
        _ => return None,
    };
    Some((
        2,
        l2(move |a, b| {
            places().fold(0, |all, at| {
                let r = f(part(a, at), part(b, at));
                let r = if relu { r.max(0) } else { r };
                let r = if sat { r.clamp(min, max) } else { r };
                all | (r as u64 & m) << at
            })
        }),
    ))
}

fn mul(inst: &Inst, bits: u32, signed: bool) -> Option<(usize, AluFn)> {
    let m = mask(bits);
    let mad = inst.op == Op::Mad;
    // A product of two unsigned 64-bit numbers needs 128 bits without a sign.
    let high = move |a: u64, b: u64| match (bits, signed) {
        (64, false) => ((a as u128 * b as u128) >> 64) as u64,
        (64, true) => ((a as i64 as i128 * b as i64 as i128) >> 64) as u64,
        (_, true) => (sx(a, bits).wrapping_mul(sx(b, bits)) >> bits) as u64 & m,
        _ => ((a & m) * (b & m)) >> bits,
    };
    Some(match (inst.mul_mode()?, mad) {
        (MulMode::Lo, false) => (2, l2(move |a, b| a.wrapping_mul(b) & m)),
        (MulMode::Lo, true) => (3, l3(move |a, b, c| a.wrapping_mul(b).wrapping_add(c) & m)),
        (MulMode::Hi, false) => (2, l2(high)),
        (MulMode::Hi, true) if inst.sat() => {
            (3, l3(move |a, b, c| (high(a, b) as u32 as i32).saturating_add(c as u32 as i32) as u32 as u64))
        }
        (MulMode::Hi, true) => (3, l3(move |a, b, c| high(a, b).wrapping_add(c) & m)),
        (MulMode::Wide, false) if signed => {
            let m = mask(2 * bits);
            (2, l2(move |a, b| sx(a, bits).wrapping_mul(sx(b, bits)) as u64 & m))
        }
        (MulMode::Wide, true) if signed => {
            let mw = mask(2 * bits);
            (3, l3(move |a, b, c| (sx(a, bits).wrapping_mul(sx(b, bits)) as u64).wrapping_add(c) & mw))
        }
        (MulMode::Wide, false) => (2, l2(move |a, b| (a & m).wrapping_mul(b & m))),
        (MulMode::Wide, true) => {
            let mw = mask(2 * bits);
            (3, l3(move |a, b, c| (a & m).wrapping_mul(b & m).wrapping_add(c) & mw))
        }
    })
}

fn mul24(inst: &Inst, signed: bool) -> Option<(usize, AluFn)> {
    let hi = inst.mul_mode()? == MulMode::Hi;
    let product = move |a: u64, b: u64| {
        let p = if signed { sx(a, 24) * sx(b, 24) } else { ((a & 0xff_ffff) * (b & 0xff_ffff)) as i64 };
        (if hi { p >> 16 } else { p }) as u32
    };
    Some(match (inst.op, inst.sat()) {
        (Op::Mul24, _) => (2, l2(move |a, b| product(a, b) as u64)),
        (_, true) => (3, l3(move |a, b, c| (product(a, b) as i32).saturating_add(c as u32 as i32) as u32 as u64)),
        _ => (3, l3(move |a, b, c| product(a, b).wrapping_add(c as u32) as u64)),
    })
}

fn bfind(a: u64, bits: u32, signed: bool, shiftamt: bool) -> u64 {
    let x = if signed && a >> (bits - 1) != 0 { !a & mask(bits) } else { a };
    match x.checked_ilog2() {
        None => 0xffff_ffff,
        Some(p) if shiftamt => (bits - 1 - p) as u64,
        Some(p) => p as u64,
    }
}

fn fns(a: u64, base: u64, offset: u64) -> u64 {
    let (a, base, offset) = (a as u32, base as u32 as i64, offset as u32 as i32 as i64);
    let bit = |p: i64| (0..32).contains(&p) && a >> p & 1 != 0;
    if offset == 0 {
        return if bit(base) { base as u64 } else { 0xffff_ffff };
    }
    let step = offset.signum();
    let (mut pos, mut left) = (base, offset.abs());
    while (0..32).contains(&pos) {
        if bit(pos) {
            left -= 1;
            if left == 0 {
                return pos as u64;
            }
        }
        pos += step;
    }
    0xffff_ffff
}

fn bfe(a: u64, pos: u32, len: u32, bits: u32, signed: bool) -> u64 {
    if len == 0 {
        return 0;
    }
    let msb = bits - 1;
    let sign = signed && a >> (pos + len - 1).min(msb) & 1 != 0;
    let field = if pos >= bits { 0 } else { a >> pos };
    let valid = len.min(bits.saturating_sub(pos));
    let kept = field & mask(valid);
    if sign { (kept | !mask(valid)) & mask(bits) } else { kept }
}

fn bfi(a: u64, b: u64, pos: u32, len: u32, bits: u32) -> u64 {
    if pos >= bits || len == 0 {
        return b;
    }
    let field = mask(len.min(bits - pos)) << pos;
    (b & !field) | (a << pos & field)
}

fn prmt(a: u32, b: u32, c: u32, mode: Option<Mod>) -> u32 {
    let bytes = (b as u64) << 32 | a as u64;
    let byte = |i: u32| (bytes >> (8 * (i & 7)) & 0xff) as u32;
    let sel = c & 3;
    (0..4).fold(0, |r, k| {
        let v = match mode {
            None => {
                let s = c >> (4 * k) & 0xf;
                let v = byte(s & 7);
                if s & 8 != 0 { if v & 0x80 != 0 { 0xff } else { 0 } } else { v }
            }
            Some(Mod::F4e) => byte(sel + k),
            Some(Mod::B4e) => byte(sel.wrapping_sub(k)),
            Some(Mod::Rc8) => byte(sel),
            Some(Mod::Ecl) => byte(k.max(sel)),
            Some(Mod::Ecr) => byte(k.min(sel)),
            _ => byte((sel & 1) * 2 + (k & 1)),
        };
        r | v << (8 * k)
    })
}
