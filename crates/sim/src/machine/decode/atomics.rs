//! What atomic operations and reductions compute.

use super::*;

pub(in crate::machine) fn integer_atom(op: u8, bits: u8, signed: bool) -> Result<AtomFn> {
    let m = if bits == 64 { u64::MAX } else { u32::MAX as u64 };
    let sx = move |x: u64| if bits == 64 { x as i64 } else { x as u32 as i32 as i64 };
    Ok(match op {
        0 => Box::new(move |o, b, _| o.wrapping_add(b) & m),
        1 if signed => Box::new(move |o, b, _| if sx(b) < sx(o) { b } else { o }),
        2 if signed => Box::new(move |o, b, _| if sx(b) > sx(o) { b } else { o }),
        1 => Box::new(|o, b, _| o.min(b)),
        2 => Box::new(|o, b, _| o.max(b)),
        3 => Box::new(|o, b, _| if o >= b { 0 } else { o + 1 }),
        4 => Box::new(|o, b, _| if o == 0 || o > b { b } else { o - 1 }),
        5 => Box::new(|o, b, _| o & b),
        6 => Box::new(|o, b, _| o | b),
        7 => Box::new(|o, b, _| o ^ b),
        8 => Box::new(|_, b, _| b),
        _ => return gap("this operation"),
    })
}

/// Addition (0), minimum (1) and maximum (2; those of halves only).
pub(in crate::machine) fn float_atom(op: u8, t: u8) -> Result<(u8, AtomFn)> {
    use sass::enums::atomftype as ft;
    let halves = [ft::F16X2_RN, ft::F16X4_RN, ft::F16X8_RN, ft::BF16X2_RN, ft::BF16X4_RN, ft::BF16X8_RN];
    if op > 2 || op > 0 && !halves.contains(&t) {
        return gap("this operation");
    }
    let half = |bf16: bool| -> AtomFn {
        let h = Half { bf16, ..Half::default() };
        Box::new(move |o, b, _| {
            let one = |o: u16, b: u16| match op {
                0 => h.add(o, b) as u64,
                _ => fp::min_max(h.format(), op == 2, false, o as u64, b as u64),
            };
            (0..4).fold(0, |r, k| r | one((o >> (16 * k)) as u16, (b >> (16 * k)) as u16) << (16 * k))
        })
    };
    let single = |ftz: bool| -> AtomFn {
        Box::new(move |o, b, _| {
            let one = |k: u32| fp::add32((o >> k) as u32, (b >> k) as u32, Round::Rn, ftz) as u64;
            one(0) | one(32) << 32
        })
    };
    // Of the last types, which have 16 bytes, this is one half.
    Ok(match t {
        ft::F16X2_RN => (4, half(false)),
        ft::BF16X2_RN => (4, half(true)),
        ft::F16X4_RN | ft::F16X8_RN => (8, half(false)),
        ft::BF16X4_RN | ft::BF16X8_RN => (8, half(true)),
        ft::F32_FTZ_RN => (4, Box::new(|o, b, _| fp::add32(o as u32, b as u32, Round::Rn, true) as u64)),
        ft::F32_RN => (4, Box::new(|o, b, _| fp::add32(o as u32, b as u32, Round::Rn, false) as u64)),
        ft::F32X2_RN | ft::F32X4_RN => (8, single(false)),
        ft::F32X2_FTZ_RN | ft::F32X4_FTZ_RN => (8, single(true)),
        ft::F64_RN => (8, Box::new(|o, b, _| fp::add64(o, b, Round::Rn))),
        _ => return gap("this type"),
    })
}
