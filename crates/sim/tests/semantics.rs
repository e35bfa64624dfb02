//! What single PTX instructions compute, against truth from the host's arithmetic: integers in 64 and 128 bits, floats by
//! the host's correctly rounded operations. Where the oracle is there, the vendor's machine code of the same kernels must
//! agree in the simulator.

// The truths are written as short as they can be.
#![allow(clippy::precedence, clippy::neg_cmp_op_on_partial_ord)]

use sim::{Arg, Config, Launch};

/// Operands: every pair of these (as 64-bit patterns), with a third taken from the list in turn.
const VALUES: [u64; 26] = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1234_5678_9abc_def0,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
    0x3f80_0000_bf80_0001,
    0x4049_0fdb_c2f6_e979,
    0x0080_0001_0000_0001,
    0xfedc_ba98_7654_3210,
];

/// Result register: `%h0` (16 bits), `%w0` (32), `%d0` (64), `%p0`.
#[derive(Clone, Copy, PartialEq)]
enum To {
    H,
    W,
    D,
    P,
}

struct Case {
    body: &'static str,
    to: To,
    truth: fn(u64, u64, u64) -> u64,
}

fn kernel(body: &str, to: To) -> String {
    let result = match to {
        To::H => "cvt.u64.u16 %o, %h0;",
        To::W => "cvt.u64.u32 %o, %w0;",
        To::D => "mov.u64 %o, %d0;",
        To::P => "selp.u64 %o, 1, 0, %p0;",
    };
    format!(
        ".version 8.1\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)\n{{\n\
         .reg .b64 %a, %b, %c, %o, %d<4>, %in, %out;\n.reg .b32 %wa, %wb, %wc, %w<8>, %i, %n;\n.reg .b16 %ha, %hb, %hc, %h<4>;\n\
         .reg .pred %p<4>, %past;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u32 %n, [n];\nmov.u32 %w1, %ctaid.x;\nmov.u32 %w2, %ntid.x;\n\
         mov.u32 %w3, %tid.x;\nmad.lo.u32 %i, %w1, %w2, %w3;\nsetp.ge.u32 %past, %i, %n;\n@%past bra END;\n\
         mad.wide.u32 %in, %i, 24, %in;\nmad.wide.u32 %out, %i, 8, %out;\n\
         ld.global.u64 %a, [%in];\nld.global.u64 %b, [%in+8];\nld.global.u64 %c, [%in+16];\n\
         cvt.u32.u64 %wa, %a;\ncvt.u32.u64 %wb, %b;\ncvt.u32.u64 %wc, %c;\ncvt.u16.u64 %ha, %a;\ncvt.u16.u64 %hb, %b;\ncvt.u16.u64 %hc, %c;\n\
         {body}\n{result}\nst.global.u64 [%out], %o;\nEND:\nret;\n}}\n"
    )
}

fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

fn canon(x: f32) -> u64 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() as u64 }
}

fn d(x: f64) -> u64 {
    x.to_bits()
}

/// A double made of a pattern that is never NaN, so that payloads do not matter.
fn g(x: u64) -> f64 {
    let v = f64::from_bits(x);
    if v.is_nan() { 1.5 } else { v }
}

fn s(x: u64) -> i64 {
    x as u32 as i32 as i64
}

fn w(x: u64) -> u64 {
    x as u32 as u64
}

/// The value of an 8-bit float; NaN for codes that are no number.
fn e4m3(code: u8) -> f32 {
    let (e, m) = (code >> 3 & 15, (code & 7) as f32);
    match (e, code & 7) {
        (15, 7) => f32::NAN,
        (0, _) => m * 2f32.powi(-9),
        _ => (8.0 + m) * 2f32.powi(e as i32 - 10),
    }
}

fn e5m2(code: u8) -> f32 {
    let (e, m) = (code >> 2 & 31, (code & 3) as f32);
    match e {
        31 => f32::NAN,
        0 => m * 2f32.powi(-16),
        _ => (4.0 + m) * 2f32.powi(e as i32 - 17),
    }
}

/// The nearest of all codes (the even one of two), found by looking at each of them.
fn eight(x: f32, max: f32, value: fn(u8) -> f32) -> u64 {
    if x.is_nan() {
        return 0x7f;
    }
    let y = x.abs().min(max) as f64;
    let distance = |c: u8| (value(c) as f64 - y).abs();
    let best = (0..128u8)
        .filter(|&c| !value(c).is_nan())
        .min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
    best.unwrap() as u64 | if x.is_sign_negative() { 0x80 } else { 0 }
}

macro_rules! cases {
    ($($to:ident $body:literal $truth:expr;)*) => { vec![$(Case { body: $body, to: To::$to, truth: $truth }),*] };
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    cases! {
        // Integers, 16, 32 and 64 bits.
        W "add.s32 %w0, %wa, %wb;" |a, b, _| w(a.wrapping_add(b));
        W "add.sat.s32 %w0, %wa, %wb;" |a, b, _| w((s(a) + s(b)).clamp(i32::MIN as i64, i32::MAX as i64) as u64);
        W "sub.sat.s32 %w0, %wa, %wb;" |a, b, _| w((s(a) - s(b)).clamp(i32::MIN as i64, i32::MAX as i64) as u64);
        H "sub.s16 %h0, %ha, %hb;" |a, b, _| a.wrapping_sub(b) & 0xffff;
        D "sub.s64 %d0, %a, %b;" |a, b, _| a.wrapping_sub(b);
        H "mul.lo.s16 %h0, %ha, %hb;" |a, b, _| a.wrapping_mul(b) & 0xffff;
        H "mul.hi.s16 %h0, %ha, %hb;" |a, b, _| ((a as i16 as i32 * b as i16 as i32) >> 16) as u64 & 0xffff;
        W "mul.wide.u16 %w0, %ha, %hb;" |a, b, _| (a & 0xffff) * (b & 0xffff);
        W "mul.hi.s32 %w0, %wa, %wb;" |a, b, _| w(((s(a) * s(b)) >> 32) as u64);
        W "mul.hi.u32 %w0, %wa, %wb;" |a, b, _| w(a) * w(b) >> 32;
        D "mul.wide.s32 %d0, %wa, %wb;" |a, b, _| (s(a) * s(b)) as u64;
        D "mul.wide.u32 %d0, %wa, %wb;" |a, b, _| w(a) * w(b);
        D "mul.hi.s64 %d0, %a, %b;" |a, b, _| ((a as i64 as i128 * b as i64 as i128) >> 64) as u64;
        D "mul.hi.u64 %d0, %a, %b;" |a, b, _| ((a as u128 * b as u128) >> 64) as u64;
        D "mul.lo.u64 %d0, %a, %b;" |a, b, _| a.wrapping_mul(b);
        W "mad.lo.s32 %w0, %wa, %wb, %wc;" |a, b, c| w(a.wrapping_mul(b).wrapping_add(c));
        W "mad.hi.u32 %w0, %wa, %wb, %wc;" |a, b, c| w((w(a) * w(b) >> 32).wrapping_add(c));
        W "mad.hi.sat.s32 %w0, %wa, %wb, %wc;" |a, b, c| w((((s(a) * s(b)) >> 32) + s(c)).clamp(i32::MIN as i64, i32::MAX as i64) as u64);
        D "mad.wide.s32 %d0, %wa, %wb, %c;" |a, b, c| ((s(a) * s(b)) as u64).wrapping_add(c);
        D "mad.lo.s64 %d0, %a, %b, %c;" |a, b, c| a.wrapping_mul(b).wrapping_add(c);
        W "mul24.lo.s32 %w0, %wa, %wb;" |a, b, _| w(((s(a) << 40 >> 40) * (s(b) << 40 >> 40)) as u64);
        W "mul24.hi.u32 %w0, %wa, %wb;" |a, b, _| w(((a & 0xff_ffff) * (b & 0xff_ffff)) >> 16);
        W "mad24.lo.u32 %w0, %wa, %wb, %wc;" |a, b, c| w(((a & 0xff_ffff) * (b & 0xff_ffff)).wrapping_add(c));
        D "add.cc.u32 %w1, %wa, %wb; addc.u32 %w2, %wc, 0; mov.b64 %d0, {%w1, %w2};" |a, b, c| (w(a) + w(b)).wrapping_add(c << 32);
        D "sub.cc.u32 %w1, %wa, %wb; subc.u32 %w2, %wc, %wc; mov.b64 %d0, {%w1, %w2};" |a, b, _| w(a).wrapping_sub(w(b));
        D "mad.lo.cc.u32 %w1, %wa, %wb, %wc; madc.hi.u32 %w2, %wa, %wb, 5; mov.b64 %d0, {%w1, %w2};" |a, b, c| (w(a) * w(b)).wrapping_add(w(c)).wrapping_add(5 << 32);
        // By zero both are all ones, as in the vendor's code.
        W "div.s32 %w0, %wa, %wb;" |a, b, _| if w(b) == 0 { 0xffff_ffff } else { w((s(a) / s(b)) as u64) };
        W "div.u32 %w0, %wa, %wb;" |a, b, _| w(a).checked_div(w(b)).unwrap_or(0xffff_ffff);
        D "div.s64 %d0, %a, %b;" |a, b, _| if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 };
        D "div.u64 %d0, %a, %b;" |a, b, _| a.checked_div(b).unwrap_or(u64::MAX);
        H "div.s16 %h0, %ha, %hb;" |a, b, _| if b as i16 == 0 { 0xffff } else { (a as i16).wrapping_div(b as i16) as u16 as u64 };
        H "div.u16 %h0, %ha, %hb;" |a, b, _| (a as u16).checked_div(b as u16).unwrap_or(u16::MAX) as u64;
        W "rem.s32 %w0, %wa, %wb;" |a, b, _| if w(b) == 0 { 0xffff_ffff } else { w((s(a) % s(b)) as u64) };
        W "rem.u32 %w0, %wa, %wb;" |a, b, _| w(a).checked_rem(w(b)).unwrap_or(0xffff_ffff);
        D "rem.s64 %d0, %a, %b;" |a, b, _| if b == 0 { u64::MAX } else { (a as i64).wrapping_rem(b as i64) as u64 };
        D "rem.u64 %d0, %a, %b;" |a, b, _| a.checked_rem(b).unwrap_or(u64::MAX);
        H "rem.s16 %h0, %ha, %hb;" |a, b, _| if b as i16 == 0 { 0xffff } else { (a as i16).wrapping_rem(b as i16) as u16 as u64 };
        H "rem.u16 %h0, %ha, %hb;" |a, b, _| (a as u16).checked_rem(b as u16).unwrap_or(u16::MAX) as u64;
        W "abs.s32 %w0, %wa;" |a, _, _| w((a as i32).wrapping_abs() as u64);
        D "neg.s64 %d0, %a;" |a, _, _| a.wrapping_neg();
        W "min.s32 %w0, %wa, %wb;" |a, b, _| w(s(a).min(s(b)) as u64);
        D "max.u64 %d0, %a, %b;" |a, b, _| a.max(b);
        H "max.s16 %h0, %ha, %hb;" |a, b, _| (a as i16).max(b as i16) as u16 as u64;
        W "max.s16x2 %w0, %wa, %wb;" |a, b, _| (a as i16).max(b as i16) as u16 as u64 | (((a >> 16) as i16).max((b >> 16) as i16) as u16 as u64) << 16;
        W "sad.s32 %w0, %wa, %wb, %wc;" |a, b, c| w((s(a) - s(b)).unsigned_abs().wrapping_add(c));
        W "sad.u32 %w0, %wa, %wb, %wc;" |a, b, c| w(w(a).abs_diff(w(b)).wrapping_add(c));
        // Bits.
        W "popc.b64 %w0, %a;" |a, _, _| a.count_ones() as u64;
        W "clz.b32 %w0, %wa;" |a, _, _| (a as u32).leading_zeros() as u64;
        W "clz.b64 %w0, %a;" |a, _, _| a.leading_zeros() as u64;
        W "bfind.u32 %w0, %wa;" |a, _, _| (a as u32).checked_ilog2().unwrap_or(u32::MAX) as u64;
        W "bfind.s64 %w0, %a;" |a, _, _| (if (a as i64) < 0 { !a } else { a }).checked_ilog2().unwrap_or(u32::MAX) as u64;
        W "bfind.shiftamt.s32 %w0, %wa;" |a, _, _| (if (a as i32) < 0 { !(a as u32) } else { a as u32 }).checked_ilog2().map_or(0xffff_ffff, |p| 31 - p as u64);
        D "brev.b64 %d0, %a;" |a, _, _| a.reverse_bits();
        W "not.b32 %w0, %wa;" |a, _, _| w(!a);
        W "cnot.b32 %w0, %wa;" |a, _, _| (w(a) == 0) as u64;
        W "lop3.b32 %w0, %wa, %wb, %wc, 0xca;" |a, b, c| w((a & b) | (!a & c));
        W "lop3.b32 %w0, %wa, %wb, %wc, 0x96;" |a, b, c| w(a ^ b ^ c);
        W "shl.b32 %w0, %wa, %wb;" |a, b, _| if w(b) > 31 { 0 } else { w(a << w(b)) };
        D "shr.s64 %d0, %a, %wb;" |a, b, _| ((a as i64) >> w(b).min(63)) as u64;
        D "shr.u64 %d0, %a, %wb;" |a, b, _| if w(b) > 63 { 0 } else { a >> w(b) };
        H "shr.s16 %h0, %ha, %wb;" |a, b, _| ((a as i16) >> w(b).min(15)) as u16 as u64;
        W "shf.l.wrap.b32 %w0, %wa, %wb, %wc;" |a, b, c| w(((w(b) << 32 | w(a)) << (c & 31)) >> 32);
        W "shf.l.clamp.b32 %w0, %wa, %wb, %wc;" |a, b, c| w(((w(b) << 32 | w(a)) << w(c).min(32)) >> 32);
        W "shf.r.wrap.b32 %w0, %wa, %wb, %wc;" |a, b, c| w((w(b) << 32 | w(a)) >> (c & 31));
        W "shf.r.clamp.b32 %w0, %wa, %wb, %wc;" |a, b, c| w((w(b) << 32 | w(a)) >> w(c).min(32));
        W "prmt.b32 %w0, %wa, %wb, 0x7351;" |a, b, _| (a >> 8 & 0xff) | (b >> 8 & 0xff) << 8 | (a >> 24 & 0xff) << 8 >> 8 << 16 & 0xff_0000 | (b >> 24 & 0xff) << 24;
        W "prmt.b32.rc16 %w0, %wa, %wb, 1;" |a, _, _| (a >> 16 & 0xffff) * 0x1_0001;
        W "prmt.b32.f4e %w0, %wa, %wb, 3;" |a, b, _| w((w(b) << 32 | w(a)) >> 24);
        W "prmt.b32.b4e %w0, %wa, %wb, 3;" |a, _, _| (a as u32).swap_bytes() as u64;
        W "bfe.u32 %w0, %wa, 4, 9;" |a, _, _| a >> 4 & 0x1ff;
        W "bfe.s32 %w0, %wa, 20, 15;" |a, _, _| w((s(a) >> 20) as u64);
        D "bfe.s64 %d0, %a, 8, 40;" |a, _, _| ((a << 16) as i64 >> 24) as u64;
        D "bfi.b64 %d0, %a, %b, 5, 30;" |a, b, _| (b & !(0x3fff_ffff << 5)) | (a & 0x3fff_ffff) << 5;
        W "bmsk.clamp.b32 %w0, %wa, %wb;" |a, b, _| w(((1u128 << w(b).min(32)) - 1 << w(a).min(32)) as u64);
        W "szext.clamp.s32 %w0, %wa, %wb;" |a, b, _| match w(b).min(32) { 0 => 0, n => w((s(a) << (64 - n) >> (64 - n)) as u64) };
        W "dp4a.s32.u32 %w0, %wa, %wb, %wc;" |a, b, c| w((0..4).fold(c as u32 as i32, |t, i| t.wrapping_add((a >> (8 * i)) as i8 as i32 * (b >> (8 * i)) as u8 as i32)) as u64);
        W "dp2a.hi.s32.s32 %w0, %wa, %wb, %wc;" |a, b, c| w((0..2).fold(c as u32 as i32, |t, i| t.wrapping_add((a >> (16 * i)) as i16 as i32 * (b >> (16 + 8 * i)) as i8 as i32)) as u64);
        // Video instructions.
        W "vadd.s32.u32.s32 %w0, %wa, %wb;" |a, b, _| w((w(a) as i64 + s(b)) as u64);
        W "vadd.s32.s32.s32.sat %w0, %wa, %wb;" |a, b, _| w((s(a) + s(b)).clamp(i32::MIN as i64, i32::MAX as i64) as u64);
        W "vadd.u32.s32.s32.sat %w0, %wa.b1, %wb.h1;" |a, b, _| ((a >> 8) as i8 as i64 + (b >> 16) as i16 as i64).max(0) as u64;
        W "vsub.s32.u32.u32 %w0, %wa.h1, %wb.b3;" |a, b, _| w(((a >> 16 & 0xffff) as i64 - (b >> 24 & 0xff) as i64) as u64);
        W "vsub.u32.u32.u32.add %w0, %wa, %wb, %wc;" |a, b, c| w(a.wrapping_sub(b).wrapping_add(c));
        W "vabsdiff.u32.s32.s32.add %w0, %wa.b0, %wb.b2, %wc;" |a, b, c| w((((a as i8 as i64) - ((b >> 16) as i8 as i64)).unsigned_abs()).wrapping_add(c));
        W "vmin.s32.s32.s32 %w0, %wa.h0, %wb.h1;" |a, b, _| w((a as i16).min((b >> 16) as i16) as i64 as u64);
        W "vmax.u32.u32.u32.min %w0, %wa.b0, %wb.b1, %wc;" |a, b, c| (a & 0xff).max(b >> 8 & 0xff).min(w(c));
        W "vadd.u32.u32.u32 %w0.b2, %wa.b0, %wb.b1, %wc;" |a, b, c| (w(c) & 0xff00_ffff) | ((a & 0xff) + (b >> 8 & 0xff) & 0xff) << 16;
        W "vsub.s32.s32.s32.sat %w0.h1, %wa, %wb, %wc;" |a, b, c| (c & 0xffff) | ((s(a) - s(b)).clamp(-32768, 32767) as u64 & 0xffff) << 16;
        W "vshl.u32.u32.u32.clamp %w0, %wa, %wb;" |a, b, _| if w(b) > 31 { 0 } else { w(a << w(b)) };
        W "vshl.u32.u32.u32.wrap %w0, %wa, %wb.b0;" |a, b, _| w(a << (b & 31));
        W "vshr.s32.s32.u32.clamp %w0, %wa, %wb;" |a, b, _| w((s(a) >> w(b).min(32)) as u64);
        W "vshr.u32.u32.u32.wrap.add %w0, %wa.h1, %wb, %wc;" |a, b, c| w((a >> 16 & 0xffff).wrapping_shr(b as u32 & 31).wrapping_add(c));
        W "vmad.s32.s32.s32 %w0, %wa.h0, %wb.h1, %wc;" |a, b, c| w((a as i16 as i64 * (b >> 16) as i16 as i64 + s(c)) as u64);
        W "vmad.u32.u32.u32.shr15 %w0, %wa.b0, %wb.h0, %wc;" |a, b, c| w((a & 0xff) * (b & 0xffff) + w(c) >> 15);
        W "vmad.s32.s32.s32.sat %w0, %wa.h0, %wb.h0, %wc;" |a, b, c| w((a as i16 as i64 * b as i16 as i64 + s(c)).clamp(i32::MIN as i64, i32::MAX as i64) as u64);
        W "vset.s32.s32.lt %w0, %wa.b0, %wb.b1;" |a, b, _| ((a as i8) < (b >> 8) as i8) as u64;
        W "vset.u32.u32.ge.add %w0, %wa, %wb, %wc;" |a, b, c| w((w(a) >= w(b)) as u64 + w(c));
        W "vadd2.s32.s32.s32.sat %w0, %wa, %wb, %wc;" |a, b, _| (a as i16).saturating_add(b as i16) as u16 as u64 | (((a >> 16) as i16).saturating_add((b >> 16) as i16) as u16 as u64) << 16;
        W "vsub2.u32.u32.u32 %w0, %wa, %wb, %wc;" |a, b, _| (a.wrapping_sub(b) & 0xffff) | ((a >> 16).wrapping_sub(b >> 16) & 0xffff) << 16;
        W "vabsdiff2.u32.u32.u32.add %w0, %wa, %wb, %wc;" |a, b, c| w((a as u16).abs_diff(b as u16) as u64 + ((a >> 16) as u16).abs_diff((b >> 16) as u16) as u64 + w(c));
        W "vavrg2.u32.u32.u32 %w0, %wa, %wb, %wc;" |a, b, _| ((a & 0xffff) + (b & 0xffff) + 1 >> 1) | ((a >> 16 & 0xffff) + (b >> 16 & 0xffff) + 1 >> 1) << 16;
        W "vmax2.s32.s32.s32 %w0, %wa, %wb, %wc;" |a, b, _| (a as i16).max(b as i16) as u16 as u64 | (((a >> 16) as i16).max((b >> 16) as i16) as u16 as u64) << 16;
        W "vmin2.u32.u32.u32 %w0.h1, %wa.h01, %wb, %wc;" |a, b, c| (c & 0xffff) | (a & 0xffff).min(b >> 16 & 0xffff) << 16;
        W "vset2.s32.s32.gt %w0, %wa, %wb, %wc;" |a, b, _| ((a as i16) > (b as i16)) as u64 | ((((a >> 16) as i16) > ((b >> 16) as i16)) as u64) << 16;
        W "vadd4.u32.u32.u32 %w0, %wa, %wb, %wc;" |a, b, _| (0..4).fold(0, |r, i| r | (((a >> 8 * i) as u8).wrapping_add((b >> 8 * i) as u8) as u64) << 8 * i);
        W "vsub4.s32.s32.s32.sat %w0, %wa, %wb, %wc;" |a, b, _| (0..4).fold(0, |r, i| r | (((a >> 8 * i) as i8).saturating_sub((b >> 8 * i) as i8) as u8 as u64) << 8 * i);
        W "vabsdiff4.u32.u32.u32.add %w0, %wa, %wb, %wc;" |a, b, c| w((0..4).fold(w(c), |r, i| r + ((a >> 8 * i) as u8).abs_diff((b >> 8 * i) as u8) as u64));
        W "vavrg4.u32.u32.u32 %w0, %wa, %wb, %wc;" |a, b, _| (0..4).fold(0, |r, i| r | ((a >> 8 * i & 0xff) + (b >> 8 * i & 0xff) + 1 >> 1) << 8 * i);
        W "vmin4.s32.s32.s32 %w0.b20, %wa, %wb, %wc;" |a, b, c| (0..4).fold(0, |r, i| { let x = if i % 2 == 0 { ((a >> 8 * i) as i8).min((b >> 8 * i) as i8) as u8 as u64 } else { c >> 8 * i & 0xff }; r | x << 8 * i });
        W "vmax4.u32.u32.u32 %w0, %wa, %wb, %wc;" |a, b, _| (0..4).fold(0, |r, i| r | (a >> 8 * i & 0xff).max(b >> 8 * i & 0xff) << 8 * i);
        W "vset4.u32.u32.ne.add %w0, %wa, %wb, %wc;" |a, b, c| w((0..4).fold(w(c), |r, i| r + ((a ^ b) >> 8 * i & 0xff != 0) as u64));
        // Comparison and selection.
        P "setp.lt.s32 %p0, %wa, %wb;" |a, b, _| (s(a) < s(b)) as u64;
        P "setp.hs.u64 %p0, %a, %b;" |a, b, _| (a >= b) as u64;
        P "setp.ne.b16 %p0, %ha, %hb;" |a, b, _| ((a ^ b) & 0xffff != 0) as u64;
        P "setp.leu.f32 %p0, %wa, %wb;" |a, b, _| !(f(a) > f(b)) as u64;
        P "setp.eq.f32 %p0, %wa, %wb;" |a, b, _| (f(a) == f(b)) as u64;
        P "setp.nan.f64 %p0, %a, %b;" |a, b, _| (f64::from_bits(a).is_nan() || f64::from_bits(b).is_nan()) as u64;
        P "setp.gt.u32 %p1, %wa, 100; setp.lt.xor.s32 %p0|%p2, %wa, %wb, %p1;" |a, b, _| ((s(a) < s(b)) != (w(a) > 100)) as u64;
        P "setp.gt.u32 %p1, %wa, 100; setp.lt.and.s32 %p2|%p0, %wa, %wb, !%p1;" |a, b, _| (s(a) >= s(b) && w(a) <= 100) as u64;
        W "set.gt.u32.f32 %w0, %wa, %wb;" |a, b, _| if f(a) > f(b) { 0xffff_ffff } else { 0 };
        W "set.le.f32.s32 %w0, %wa, %wb;" |a, b, _| if s(a) <= s(b) { 0x3f80_0000 } else { 0 };
        W "slct.b32.s32 %w0, %wa, %wb, %wc;" |a, b, c| if s(c) >= 0 { w(a) } else { w(b) };
        P "testp.subnormal.f32 %p0, %wa;" |a, _, _| f(a).is_subnormal() as u64;
        P "testp.normal.f64 %p0, %a;" |a, _, _| (f64::from_bits(a).is_normal() || f64::from_bits(a) == 0.0) as u64;
        // Floats.
        W "add.rn.f32 %w0, %wa, %wb;" |a, b, _| canon(f(a) + f(b));
        W "sub.rn.f32 %w0, %wa, %wb;" |a, b, _| canon(f(a) - f(b));
        W "mul.rn.f32 %w0, %wa, %wb;" |a, b, _| canon(f(a) * f(b));
        W "fma.rn.f32 %w0, %wa, %wb, %wc;" |a, b, c| canon(f(a).mul_add(f(b), f(c)));
        W "div.rn.f32 %w0, %wa, %wb;" |a, b, _| canon(f(a) / f(b));
        W "sqrt.rn.f32 %w0, %wa;" |a, _, _| canon(f(a).sqrt());
        W "rcp.rn.f32 %w0, %wa;" |a, _, _| canon(1.0 / f(a));
        W "add.sat.f32 %w0, %wa, %wb;" |a, b, _| { let r = f(a) + f(b); if r > 0.0 { canon(r.min(1.0)) } else { 0 } };
        W "mul.rz.f32 %w0, %wa, %wb;" |a, b, _| { let (e, n) = (f(a) as f64 * f(b) as f64, f(a) * f(b)); canon(if n.is_finite() && (n as f64).abs() > e.abs() { if n > 0.0 { n.next_down() } else { n.next_up() } } else if n.is_infinite() && e.is_finite() { f32::MAX.copysign(n) } else { n }) };
        W "min.f32 %w0, %wa, %wb;" |a, b, _| if f(a) == f(b) { w(a | b) } else { canon(f(a).min(f(b))) };
        W "max.NaN.f32 %w0, %wa, %wb;" |a, b, _| if f(a).is_nan() || f(b).is_nan() { 0x7fff_ffff } else if f(a) == f(b) { w(a & b) } else { canon(f(a).max(f(b))) };
        W "neg.f32 %w0, %wa;" |a, _, _| canon(-f(a));
        W "copysign.f32 %w0, %wa, %wb;" |a, b, _| w((a & 0x8000_0000) | (b & 0x7fff_ffff));
        W "add.ftz.f32 %w0, %wa, %wb;" |a, b, _| { let z = |x: f32| if x.is_subnormal() { 0f32.copysign(x) } else { x }; canon(z(z(f(a)) + z(f(b)))) };
        D "testp.number.f64 %p1, %a; selp.f64 %d1, %a, 0d3FF8000000000000, %p1; testp.number.f64 %p1, %b; selp.f64 %d2, %b, 0d3FF8000000000000, %p1; add.rn.f64 %d3, %d1, %d2; testp.number.f64 %p1, %d3; selp.f64 %d0, %d3, 0d0000000000000000, %p1;" |a, b, _| { let r = g(a) + g(b); if r.is_nan() { 0 } else { d(r) } };
        D "testp.number.f64 %p1, %a; selp.f64 %d1, %a, 0d3FF8000000000000, %p1; testp.number.f64 %p1, %b; selp.f64 %d2, %b, 0d3FF8000000000000, %p1; div.rn.f64 %d3, %d1, %d2; testp.number.f64 %p1, %d3; selp.f64 %d0, %d3, 0d0000000000000000, %p1;" |a, b, _| { let r = g(a) / g(b); if r.is_nan() { 0 } else { d(r) } };
        D "testp.number.f64 %p1, %a; selp.f64 %d1, %a, 0d3FF8000000000000, %p1; testp.number.f64 %p1, %b; selp.f64 %d2, %b, 0d3FF8000000000000, %p1; fma.rn.f64 %d3, %d1, %d2, 0d4008000000000000; testp.number.f64 %p1, %d3; selp.f64 %d0, %d3, 0d0000000000000000, %p1;" |a, b, _| { let r = g(a).mul_add(g(b), 3.0); if r.is_nan() { 0 } else { d(r) } };
        // Conversions.
        W "cvt.s32.s8 %w0, %wa;" |a, _, _| w(a as i8 as i32 as u64);
        W "cvt.sat.u8.s32 %w0, %wa;" |a, _, _| s(a).clamp(0, 255) as u64;
        W "cvt.sat.s16.s32 %w0, %wa;" |a, _, _| w(s(a).clamp(-32768, 32767) as u64);
        D "cvt.s64.s32 %d0, %wa;" |a, _, _| s(a) as u64;
        // The vendor's code of these has the high half as an immediate of I2F.
        D "mov.b64 %d1, 0x4ff8000000000000;\ncvt.rp.f64.s64 %d0, %d1;" |_, _, _| (0x4ff8_0000_0000_0000i64 as f64).to_bits();
        D "mov.b64 %d1, 0xcff8000100000000;\ncvt.rn.f64.s64 %d0, %d1;" |_, _, _| (0xcff8_0001_0000_0000u64 as i64 as f64).to_bits();
        D "mov.b64 %d1, 0xcff8000100000000;\ncvt.rn.f64.u64 %d0, %d1;" |_, _, _| (0xcff8_0001_0000_0000u64 as f64).to_bits();
        W "mov.b64 %d1, 0x0000000500000000;\ncvt.rn.f32.s64 %w0, %d1;" |_, _, _| (0x5_0000_0000u64 as f32).to_bits() as u64;
        W "cvt.rzi.s32.f32 %w0, %wa;" |a, _, _| w(f(a) as i32 as u64);
        W "cvt.rni.u32.f32 %w0, %wa;" |a, _, _| f(a).round_ties_even() as u32 as u64;
        D "cvt.rmi.s64.f32 %d0, %wa;" |a, _, _| if f(a).is_nan() { 1 << 63 } else { f(a).floor() as i64 as u64 };
        W "cvt.rpi.s32.f64 %w0, %a;" |a, _, _| if f64::from_bits(a).is_nan() { 1 << 31 } else { w(f64::from_bits(a).ceil() as i32 as u64) };
        W "cvt.rn.f32.u64 %w0, %a;" |a, _, _| canon(a as f32);
        W "cvt.rn.f32.s32 %w0, %wa;" |a, _, _| canon(a as i32 as f32);
        D "cvt.rn.f64.s64 %d0, %a;" |a, _, _| d(a as i64 as f64);
        W "cvt.rn.f32.f64 %w0, %a;" |a, _, _| canon(f64::from_bits(a) as f32);
        W "cvt.rni.f32.f32 %w0, %wa;" |a, _, _| canon(f(a).round_ties_even());
        W "cvt.rmi.f32.f32 %w0, %wa;" |a, _, _| canon(f(a).floor());
        W "cvt.f32.f16 %w0, %ha;" |a, _, _| { let h = a as u16; let (e, m) = (h >> 10 & 31, (h & 1023) as f32); let v = match e { 0 => m * 2f32.powi(-24), 31 if m == 0.0 => f32::INFINITY, 31 => f32::NAN, _ => (1024.0 + m) * 2f32.powi(e as i32 - 25) }; canon(if h >> 15 != 0 { -v } else { v }) };
 H "cvt.rn.satfinite.e4m3x2.f32 %h0, %wa, %wb;" |a, b, _| eight(f(a), 448.0, e4m3) << 8 | eight(f(b), 448.0, e4m3);
        H "cvt.rn.satfinite.e5m2x2.f32 %h0, %wa, %wb;" |a, b, _| eight(f(a), 57344.0, e5m2) << 8 | eight(f(b), 57344.0, e5m2);
        W "cvt.rn.tf32.f32 %w0, %wa;" |a, _, _| if f(a).is_nan() { 0x7fff_e000 } else { (w(a) + 0xfff + (a >> 13 & 1)) & 0xffff_e000 };
        W "cvt.rn.bf16x2.f32 %w0, %wa, %wb;" |a, b, _| { let r = |x: u64| if f(x).is_nan() { 0x7fff } else { (w(x) + 0x7fff + (x >> 16 & 1)) >> 16 }; r(a) << 16 | r(b) };
        W "cvt.pack.sat.s8.s32.b32 %w0, %wa, %wb, %wc;" |a, b, c| { let r = |x: u64| s(x).clamp(-128, 127) as u8 as u64; w(c << 16) | r(a) << 8 | r(b) };
        W "cvt.f32.bf16 %w0, %ha;" |a, _, _| (a & 0xffff) << 16;
    }
}

fn operands() -> Vec<[u64; 3]> {
    let mut list = Vec::new();
    for (i, &a) in VALUES.iter().enumerate() {
        for (j, &b) in VALUES.iter().enumerate() {
            list.push([a, b, VALUES[(7 * i + 11 * j + 3) % VALUES.len()]]);
        }
    }
    list
}

fn launch(list: &[[u64; 3]]) -> Launch {
    let bytes = list.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    let n = list.len() as u32;
    Launch {
        kernel: "k".into(),
        grid: [n.div_ceil(64), 1, 1],
        block: [64, 1, 1],
        args: vec![
            Arg::Buffer { data: bytes, out: None },
            Arg::Buffer { data: vec![0; 8 * n as usize], out: None },
            Arg::Value(n.to_le_bytes().to_vec()),
        ],
        ..Launch::default()
    }
}

#[test]
fn instructions_compute_what_they_should() {
    let list = operands();
    let launch = launch(&list);
    let mut bad = Vec::new();
    for case in cases() {
        let text = kernel(case.body, case.to);
        let (module, messages) = ptx::parse(&text);
        assert!(!messages.iter().any(|m| m.is_error()), "{}: {messages:?}", case.body);
        let outcome =
            sim::run_ptx(&module, &launch, &Config::default()).unwrap_or_else(|e| panic!("{}: {e}", case.body));
        for (x, got) in list.iter().zip(outcome.buffers[1].chunks_exact(8)) {
            let got = u64::from_le_bytes(got.try_into().unwrap());
            let want = (case.truth)(x[0], x[1], x[2]);
            if got != want {
                bad.push(format!("{} of {x:x?}: {got:#x} instead of {want:#x}", case.body));
                break;
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Where the vendor's code (ptxas 13.0 to 13.5, which has sequences for these) is not what the document says: it saturates a
/// half as if the difference were unsigned, and shifts an unsigned sum as if it were signed.
const OTHERWISE: [&str; 2] =
    ["vsub.s32.s32.s32.sat %w0.h1, %wa, %wb, %wc;", "vmad.u32.u32.u32.shr15 %w0, %wa.b0, %wb.h0, %wc;"];

#[test]
fn the_vendors_code_computes_the_same() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let list = operands();
    let launch = launch(&list);
    let mut bad = Vec::new();
    for case in cases() {
        let cubin = testkit::oracle::compile(&ptxas, &kernel(case.body, case.to), &["-arch=sm_90", "-fmad=false"]);
        let cubin = cubin.unwrap_or_else(|e| panic!("{}: {e}", case.body));
        match sim::run_sass(&cubin, &launch, &Config::default()) {
            Err(e) => bad.push(format!("{}: {e}", case.body)),
            Ok(_) if OTHERWISE.contains(&case.body) => {}
            Ok(outcome) => {
                for (x, got) in list.iter().zip(outcome.buffers[1].chunks_exact(8)) {
                    let got = u64::from_le_bytes(got.try_into().unwrap());
                    let want = (case.truth)(x[0], x[1], x[2]);
                    if got != want {
                        bad.push(format!("{} of {x:x?}: {got:#x} instead of {want:#x}", case.body));
                        break;
                    }
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
