//! Contraction: a product and a sum become one fused operation where PTX allows it (neither names its rounding).

use crate::ir::{Def, Func, Op};

/// Set in `attr.sub` of additions and multiplications that PTX lets be fused.
pub const MAY_FUSE: u8 = 1;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let uses = super::uses(f);
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
                let fits = found.op == Op::FMul
                    && found.attr.sub & MAY_FUSE != 0
                    && !found.attr.sat
                    && found.attr.ftz == inst.attr.ftz
                    && found.attr.fmt == inst.attr.fmt
                    && uses[product.index()] == 1
                    && uses[inst.args[x].index()] == 1;
                if fits {
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
}
