//! Contraction: a product and a sum become one fused operation where PTX allows it (neither names its rounding).

use crate::ir::{Func, Op};

/// Set in `attr.sub` of additions and multiplications that PTX lets be fused.
pub const MAY_FUSE: u8 = 1;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let mut uses = vec![0u32; f.values.len()];
    for b in &f.blocks {
        for &i in &b.insts {
            for a in &f.inst(i).args {
                uses[a.index()] += 1;
            }
        }
        b.term.visit(|v| uses[v.index()] += 1);
    }
    for b in 0..f.blocks.len() {
        for n in 0..f.blocks[b].insts.len() {
            let id = f.blocks[b].insts[n];
            let inst = f.inst(id).clone();
            if inst.op != Op::FAdd || inst.attr.sub & MAY_FUSE == 0 {
                continue;
            }
            for (x, y) in [(0, 1), (1, 0)] {
                let Some(product) = f.def_inst(inst.args[x]) else { continue };
                // A negated product is the product with one factor negated.
                let fits = product.op == Op::FMul
                    && product.attr.sub & MAY_FUSE != 0
                    && !product.attr.sat
                    && product.attr.ftz == inst.attr.ftz
                    && product.attr.fmt == inst.attr.fmt
                    && uses[inst.args[x].index()] == 1;
                if fits {
                    let args = [product.args[0], product.args[1], inst.args[y]];
                    let fused = &mut f.insts[id.0 as usize];
                    fused.op = Op::FFma;
                    fused.attr.sub = 0;
                    fused.args = args.into_iter().collect();
                    break;
                }
            }
        }
    }
    super::dce::run(f);
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
}
