//! Powers of two whose subnormal values do not show.
//!
//! The unit makes a subnormal result zero, so that `ex2.approx` scales what would give one, and the result. Where a result is only added to
//! constants that are so large that it is rounded away, nothing is to be scaled: the logistic function, which adds one, is in most kernels of neural
//! networks (the vendor's compiler leaves it out there, too).

use crate::bitset::BitSet;
use crate::ir::{Fmt, Func, Inst, Op, Rnd, Ty, Value};

/// Below this a number may not swallow a subnormal one: half of the distance to its neighbours is still twice the largest of these at 2^-100.
const LARGE: f32 = 1.0 / (1u128 << 100) as f32;

/// The results of `ex2` of single precision whose every reader adds a large constant to them. None where there is no such operation.
pub(super) fn find(f: &Func) -> Option<BitSet> {
    let power = |i: &Inst| i.op == Op::FEx2 && i.attr.fmt == Fmt::F32 && !i.attr.ftz;
    let listed = || f.blocks.iter().flat_map(|b| &b.insts).map(|&i| f.inst(i));
    if !listed().any(power) {
        return None;
    }
    let mut out = BitSet::new(f.values.len());
    listed().filter(|i| power(i)).for_each(|i| {
        out.insert(i.results[0].index());
    });
    for inst in listed() {
        for (n, a) in inst.args.iter().enumerate() {
            if out.contains(a.index()) && !(adds(f, inst, 1 - n.min(1))) {
                out.remove(a.index());
            }
        }
    }
    for block in &f.blocks {
        block.term.visit(|v| {
            out.remove(v.index());
        });
    }
    Some(out)
}

/// Is it a sum, rounded to nearest, whose operand `other` is a large constant?
fn adds(f: &Func, inst: &Inst, other: usize) -> bool {
    let large = |v: Value| {
        f.ty(v) == Ty::B32
            && f.constant(v).is_some_and(|c| {
                let c = f32::from_bits(c as u32).abs();
                c.is_finite() && c >= LARGE
            })
    };
    inst.op == Op::FAdd
        && inst.attr.fmt == Fmt::F32
        && inst.attr.rnd == Rnd::Rn
        && inst.args.get(other).is_some_and(|&v| large(v))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text;

    fn found(rest: &str) -> usize {
        let text = format!(
            "func k entry returns() {{\nblk0():\nv0:b32 = sreg\nv1:b32 = fex2 v0 {{fmt=f32 sub=1}}\nv2:b32 = const {{imm=1065353216}}\n{rest}exit\n}}"
        );
        find(&text::parse(&text).unwrap()[0]).map_or(0, |s| s.iter().count())
    }

    #[test]
    fn only_sums_with_large_numbers_absorb() {
        assert_eq!(found("v3:b32 = fadd v1, v2 {fmt=f32}\nv4:b32 = fadd v2, v1 {fmt=f32}\n"), 1);
        assert_eq!(found("v3:b32 = fadd v1, v2 {fmt=f32}\nv4:b32 = fmul v1, v2 {fmt=f32}\n"), 0);
        assert_eq!(found("v3:b32 = fadd v1, v1 {fmt=f32}\n"), 0);
        assert_eq!(found("v3:b32 = fadd v1, v2 {fmt=f32 rnd=rp}\n"), 0);
        assert_eq!(found("v3:b32 = const {imm=1}\nv4:b32 = fadd v1, v3 {fmt=f32}\n"), 0);
    }
}
