//! What floats of single precision are not less than, and comparisons with constants that follow from it.
//!
//! Logarithms scale numbers below 2^-126 first, and ask for zero at the end; of `1 + exp(x)`, which most of what kernels take a logarithm of is, neither can be.

use crate::ir::{Cmp, Fmt, Func, Inst, Op, Rnd, Ty, Value, ops};

/// How many operations are looked through.
const DEPTH: u32 = 4;

/// What a comparison of floats gives, if that is known.
pub fn compared(f: &Func, inst: &Inst) -> Option<bool> {
    if inst.op != Op::FCmp || inst.attr.fmt != Fmt::F32 {
        return None;
    }
    let number = |v: Value| f.constant(v).map(|c| f32::from_bits(c as u32)).filter(|c| !c.is_nan());
    let (v, c, cmp) = match (number(inst.args[0]), number(inst.args[1])) {
        (None, Some(c)) => (inst.args[0], c, inst.attr.cmp),
        (Some(c), None) => (inst.args[1], c, ops::swap_cmp(inst.attr.cmp)),
        _ => return None,
    };
    let hidden = |x: f32| inst.attr.ftz && x.is_subnormal();
    let least = at_least(f, v, DEPTH)?;
    if hidden(c) || hidden(least) {
        return None;
    }
    // No number is less than `least`; it may be none, too.
    match cmp {
        Cmp::Lt if least >= c => Some(false),
        Cmp::Le | Cmp::Eq if least > c => Some(false),
        Cmp::Geu if least >= c => Some(true),
        Cmp::Gtu | Cmp::Neu if least > c => Some(true),
        _ => None,
    }
}

/// A number than which `v`, unless it is none, is not less.
fn at_least(f: &Func, v: Value, depth: u32) -> Option<f32> {
    if f.ty(v) != Ty::B32 {
        return None;
    }
    if let Some(c) = f.constant(v) {
        return Some(f32::from_bits(c as u32)).filter(|c| !c.is_nan());
    }
    let d = f.def_inst(v).filter(|d| depth > 0 && d.results.len() == 1)?;
    let of = |n: usize| at_least(f, d.args[n], depth - 1);
    let constant = |n: usize| f.constant(d.args[n]).is_some();
    let float = d.attr.fmt == Fmt::F32;
    let nearest = d.attr.rnd == Rnd::Rn;
    let least = match d.op {
        Op::FEx2 | Op::FAbs | Op::FSqrt if float => 0.0,
        Op::FSat if float => 0.0,
        Op::I2F if float && !d.attr.signed => 0.0,
        Op::Select => of(0)?.min(of(1)?),
        Op::FMul if float && d.args[0] == d.args[1] => 0.0,
        Op::FMul if float && of(0)? >= 0.0 && of(1)? >= 0.0 => 0.0,
        Op::FAdd if float && nearest => of(0)? + of(1)?,
        Op::FFma if float && nearest => {
            let product = d.args[0] == d.args[1] || of(0)? >= 0.0 && of(1)? >= 0.0;
            of(2).filter(|_| product)?
        }
        // Of a number and none it is the number.
        Op::FMax if float && d.attr.sub == 0 && constant(0) => of(0)?,
        Op::FMax if float && d.attr.sub == 0 && constant(1) => of(1)?,
        Op::FMax | Op::FMin if float && d.attr.sub == 0 => of(0)?.min(of(1)?),
        _ => return None,
    };
    // What is flushed to zero.
    let least = if least.is_subnormal() { least.min(0.0) } else { least };
    Some(if d.attr.sat { least.max(0.0) } else { least }).filter(|l| !l.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text;

    /// What the last instruction is known to give; `v0` is any number, `v1` a power of two, `v2` one, `v3` the smallest normal number.
    fn last(body: &str) -> Option<bool> {
        let k = "v0:b32 = sreg\nv1:b32 = fex2 v0 {fmt=f32 sub=1}\nv2:b32 = const {imm=1065353216}\nv3:b32 = const {imm=8388608}\n";
        let f = text::parse(&format!("func k returns() {{\nblk0():\n{k}{body}\nret\n}}")).unwrap().remove(0);
        compared(&f, f.inst(*f.blocks[0].insts.last().unwrap()))
    }

    #[test]
    fn one_more_than_a_power_is_not_small() {
        let sum = "v4:b32 = fadd v1, v2 {fmt=f32}\n";
        assert_eq!(last(&format!("{sum}v5:p = fcmp v4, v3 {{fmt=f32 cmp=lt}}")), Some(false));
        assert_eq!(last(&format!("{sum}v5:p = fcmp v3, v4 {{fmt=f32 cmp=gt}}")), Some(false));
        assert_eq!(last(&format!("{sum}v5:p = fcmp v4, v3 {{fmt=f32 cmp=geu}}")), Some(true));
        // It may be no number, and one itself.
        assert_eq!(last(&format!("{sum}v5:p = fcmp v4, v3 {{fmt=f32 cmp=ge}}")), None);
        assert_eq!(last(&format!("{sum}v5:p = fcmp v4, v2 {{fmt=f32 cmp=le}}")), None);
        assert_eq!(last(&format!("{sum}v5:p = fcmp v4, v2 {{fmt=f32 cmp=lt}}")), Some(false));
    }

    #[test]
    fn what_may_be_anything_is_not_known() {
        assert_eq!(last("v4:b32 = fadd v0, v2 {fmt=f32}\nv5:p = fcmp v4, v3 {fmt=f32 cmp=lt}"), None);
        assert_eq!(last("v4:b32 = fadd v1, v2 {fmt=f32 rnd=rm}\nv5:p = fcmp v4, v3 {fmt=f32 cmp=lt}"), None);
        assert_eq!(last("v4:b32 = fmax v0, v1 {fmt=f32}\nv5:p = fcmp v4, v3 {fmt=f32 cmp=lt}"), None);
        assert_eq!(last("v4:b32 = fmax v0, v2 {fmt=f32}\nv5:p = fcmp v4, v3 {fmt=f32 cmp=lt}"), Some(false));
        assert_eq!(last("v4:b32 = ffma v0, v0, v2 {fmt=f32}\nv5:p = fcmp v4, v3 {fmt=f32 cmp=lt}"), Some(false));
        assert_eq!(last("v4:b32 = ffma v0, v1, v2 {fmt=f32}\nv5:p = fcmp v4, v3 {fmt=f32 cmp=lt}"), None);
    }
}
