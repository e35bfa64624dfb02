//! Both halves of a product are one product: `mul.lo` and `mul.hi` of the same factors become one that is twice as wide.
//!
//! Generators of random numbers (Philox) take both of every product. Not where a sum takes one of them along.

use crate::ir::{Attr, Block, Builder, Func, InstId, Op, Ty, Value};
use crate::opt;
use rustc_hash::FxHashMap;

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f.insts.iter().any(|i| i.op == Op::IMulHi) {
        return;
    }
    let uses = opt::uses(f);
    let mut summed = vec![false; f.values.len()];
    for &id in f.blocks.iter().flat_map(|b| &b.insts) {
        let inst = f.inst(id);
        if matches!(inst.op, Op::IAdd | Op::ISub) {
            inst.args.iter().for_each(|a| summed[a.index()] = true);
        }
    }
    let alone = |f: &Func, id: InstId| {
        let v = f.inst(id).results[0];
        f.ty(v) == Ty::B32 && !(uses[v.index()] == 1 && summed[v.index()])
    };
    for b in 0..f.blocks.len() {
        // By factors: the lower half, and the upper one.
        let mut halves: FxHashMap<(Value, Value), [Option<InstId>; 2]> = FxHashMap::default();
        for &id in &f.blocks[b].insts {
            let inst = f.inst(id);
            let which = match inst.op {
                Op::IMul => 0,
                Op::IMulHi => 1,
                _ => continue,
            };
            if alone(f, id) {
                let (x, y) = (inst.args[0], inst.args[1]);
                halves.entry((x.min(y), x.max(y))).or_default()[which].get_or_insert(id);
            }
        }
        halves.retain(|_, h| h.iter().all(Option::is_some));
        if halves.is_empty() {
            continue;
        }
        let mut wide: FxHashMap<(Value, Value), Value> = FxHashMap::default();
        for id in std::mem::take(&mut f.blocks[b].insts) {
            let inst = f.inst(id);
            let key = inst.args.get(1).map(|&y| (inst.args[0].min(y), inst.args[0].max(y)));
            if let Some((key, &[Some(low), Some(high)])) = key.and_then(|k| Some((k, halves.get(&k)?)))
                && (id == low || id == high)
            {
                let signed = f.inst(high).attr.signed;
                let (args, loc) = (inst.args.clone(), inst.loc);
                let product = *wide.entry(key).or_insert_with(|| {
                    let mut at = Builder::new(f, Block(b as u32));
                    at.loc = loc;
                    at.one(Op::IMulWide, Attr { signed, ..Attr::default() }, &args, Ty::B64)
                });
                let half = &mut f.insts[id.0 as usize];
                (half.op, half.attr) = (if id == low { Op::Trunc } else { Op::Hi }, Attr::default());
                half.args = [product].into_iter().collect();
            }
            f.blocks[b].insts.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn after(body: &str) -> String {
        let head = "func k returns(b32) {\nblk0():\nv0:b32 = sreg\nv1:b32 = const {imm=3449720151}\n";
        let mut f = text::parse(&format!("{head}{body}}}")).unwrap().remove(0);
        verify::verify(&f).unwrap();
        run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn both_halves_are_of_one_product() {
        let t = after("v2:b32 = imul v0, v1\nv3:b32 = imulhi v1, v0\nv4:b32 = xor v2, v3\nret v4\n");
        assert!(t.contains("imulwide v0, v1") && t.contains("trunc") && t.contains("hi v"), "{t}");
        assert!(!t.contains("imul v") && !t.contains("imulhi"), "{t}");
    }

    #[test]
    fn one_half_or_one_that_a_sum_takes_along_stays() {
        for body in [
            "v2:b32 = imulhi v1, v0\nret v2\n",
            "v2:b32 = imul v0, v0\nv3:b32 = imulhi v1, v0\nv4:b32 = xor v2, v3\nret v4\n",
            "v2:b32 = imul v0, v1\nv3:b32 = imulhi v1, v0\nv4:b32 = iadd v2, v0\nv5:b32 = xor v4, v3\nret v5\n",
        ] {
            let t = after(body);
            assert!(t.contains("imulhi"), "{t}");
        }
    }
}
