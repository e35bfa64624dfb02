//! Contraction: a product and a sum become one fused operation where PTX allows it (neither names its rounding).

use crate::ir::{Def, Func, Inst, Op};

/// Set in `attr.sub` of additions and multiplications that PTX lets be fused.
pub const MAY_FUSE: u8 = 1;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let uses = super::uses(f);
    let sums = sums(f, &uses);
    let mut changed = false;
    for b in 0..f.blocks.len() {
        for n in 0..f.blocks[b].insts.len() {
            let id = f.blocks[b].insts[n];
            let inst = f.inst(id);
            if inst.op != Op::FAdd || inst.attr.sub & MAY_FUSE == 0 {
                continue;
            }
            let inst = inst.clone();
            for (x, y) in [(0, 1), (1, 0)] {
                // `c - a * b` is a sum with the negation of a product: it becomes the product with one factor negated.
                let negation = f.def_inst(inst.args[x]).filter(|n| n.op == Op::FNeg && !n.attr.ftz && !n.attr.sat);
                let product = negation.map_or(inst.args[x], |n| n.args[0]);
                let Some(found) = f.def_inst(product) else { continue };
                // One that only sums read is computed with each of them.
                let whole = sums[product.index()] == uses[product.index()];
                if fits(found, &inst) && whole && (negation.is_none() || uses[inst.args[x].index()] == 1) {
                    let (mut a, b) = (found.args[0], found.args[1]);
                    if let (true, Def::Inst(n, _)) = (negation.is_some(), f.def(inst.args[x])) {
                        f.insts[n.0 as usize].args[0] = a;
                        a = inst.args[x];
                    }
                    let fused = &mut f.insts[id.0 as usize];
                    fused.op = Op::FFma;
                    changed = true;
                    fused.attr.sub = 0;
                    fused.args = [a, b, inst.args[y]].into_iter().collect();
                    break;
                }
            }
        }
    }
    if changed {
        super::dce::run(f);
    }
}

/// True if a sum and a product are such that they may be one operation.
fn fits(product: &Inst, sum: &Inst) -> bool {
    product.op == Op::FMul
        && sum.op == Op::FAdd
        && product.attr.sub & sum.attr.sub & MAY_FUSE != 0
        && !product.attr.sat
        && product.attr.ftz == sum.attr.ftz
        && product.attr.fmt == sum.attr.fmt
}

/// By value: how many sums it may be computed with, itself or negated.
fn sums(f: &Func, uses: &[u32]) -> Vec<u32> {
    let mut out = vec![0u32; f.values.len()];
    for &id in f.blocks.iter().flat_map(|b| &b.insts) {
        let sum = f.inst(id);
        if sum.op != Op::FAdd || sum.attr.sub & MAY_FUSE == 0 {
            continue;
        }
        for &a in &sum.args {
            let negation = f.def_inst(a).filter(|n| n.op == Op::FNeg && !n.attr.ftz && !n.attr.sat);
            let product = negation.map_or(a, |n| n.args[0]);
            let once = negation.is_none() || uses[a.index()] == 1;
            if once && f.def_inst(product).is_some_and(|p| fits(p, sum)) {
                out[product.index()] += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text;

    #[test]
    fn only_what_may_be_fused_is() {
        let t = |mul: &str| {
            let mut f = text::parse(&format!(
                "func k returns(b32) {{\nblk0():\nv0:b32 = sreg\nv1:b32 = fmul v0, v0 {{fmt=f32 {mul}}}\nv2:b32 = fadd v1, v0 {{fmt=f32 sub=1}}\nret v2\n}}"
            ))
            .unwrap()
            .remove(0);
            run(&mut f);
            text::print(&f).contains("ffma")
        };
        assert!(t("sub=1"));
        assert!(!t(""));
        assert!(!t("sub=1 ftz"));
    }

    #[test]
    fn a_difference_negates_a_factor() {
        let text = "func k returns(b32) {\nblk0():\nv0:b32 = sreg\nv1:b32 = fmul v0, v0 {fmt=f32 sub=1}\nv2:b32 = fneg v1 {fmt=f32}\n\
               v3:b32 = fadd v0, v2 {fmt=f32 sub=1}\nret v3\n}";
        let mut f = text::parse(text).unwrap().remove(0);
        run(&mut f);
        let after = text::print(&f);
        assert!(after.contains("fneg v0") && after.contains("ffma v2, v0, v0") && !after.contains("fmul"), "{after}");
    }

    #[test]
    fn what_only_sums_read_is_computed_with_each() {
        let fused = |last: &str| {
            let text = format!(
                "func k returns(b32) {{\nblk0():\nv0:b32 = sreg\nv1:b32 = fmul v0, v0 {{fmt=f32 sub=1}}\nv2:b32 = fadd v1, v0 {{fmt=f32 sub=1}}\n\
                 v3:b32 = fadd v2, v1 {{fmt=f32 sub=1}}\nv4:b32 = {last}\nret v4\n}}"
            );
            let mut f = text::parse(&text).unwrap().remove(0);
            run(&mut f);
            let after = text::print(&f);
            (after.matches("ffma").count(), after.contains("fmul"))
        };
        assert_eq!(fused("iadd v3, v0"), (2, false));
        assert_eq!(fused("iadd v3, v1"), (0, true));
    }
}
