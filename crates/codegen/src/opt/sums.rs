//! Products of warpgroups that add to nothing: what they are written to add to is zero.
//!
//! PTX names one list of registers as the sums that a product adds to and as its result. Where the product is said not to add,
//! their old values are read by nothing; without this pass they would be carried around loops.

use crate::ir::{Attr, Func, Inst, Mem, Op, Ty, Value};
use crate::lower::warpgroup::Group;
use smallvec::SmallVec;

/// Runs the pass.
pub fn run(f: &mut Func) {
    for b in 0..f.blocks.len() {
        let mut n = 0;
        while n < f.blocks[b].insts.len() {
            let id = f.blocks[b].insts[n];
            n += 1;
            if f.inst(id).op != Op::Wgmma {
                continue;
            }
            let g = Group::unpack(f.inst(id).imm);
            let add = if g.held { 5 } else { 2 };
            let first = add + 1 + g.sparse.is_some() as usize;
            if f.inst(id).args.get(add).and_then(|&v| f.constant(v)).is_none_or(|c| c & 1 != 0) {
                continue;
            }
            let mut zeros: SmallVec<[(Ty, Value); 2]> = SmallVec::new();
            for k in first..f.inst(id).args.len() {
                let old = f.inst(id).args[k];
                let ty = f.ty(old);
                if f.constant(old) == Some(0) {
                    continue;
                }
                let zero = zeros.iter().find(|z| z.0 == ty).map(|z| z.1).unwrap_or_else(|| {
                    let inst = Inst {
                        op: Op::Const,
                        attr: Attr::default(),
                        mem: Mem::default(),
                        imm: 0,
                        args: SmallVec::new(),
                        results: SmallVec::new(),
                        loc: f.inst(id).loc,
                    };
                    let zero = f.new_inst(inst, &[ty]);
                    f.blocks[b].insts.insert(n - 1, zero);
                    n += 1;
                    let value = f.inst(zero).results[0];
                    zeros.push((ty, value));
                    value
                });
                f.insts[id.0 as usize].args[k] = zero;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    #[test]
    fn old_sums_are_read_only_where_something_is_added() {
        let g = Group { n: 8, ..Group::unpack(0) };
        let product = |add: u32| {
            let body = format!(
                "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = sreg\nv2:p = const {{imm={add}}}\nv3:b32, v4:b32 = wgmma v0, v0, v2, v1, v1 {{imm={}}}\nexit",
                g.pack()
            );
            let mut f = text::parse(&format!("func k entry returns() {{\n{body}\n}}")).unwrap().remove(0);
            run(&mut f);
            verify::verify(&f).unwrap();
            text::print(&f)
        };
        assert!(product(1).contains("v2, v1, v1"), "{}", product(1));
        assert!(!product(0).contains("v2, v1"), "{}", product(0));
    }
}
