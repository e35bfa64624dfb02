//! Addresses of shared memory from one base.
//!
//! From sm_90 on an address in shared memory has the rank of the CTA in its cluster in its upper bits, which takes reading a special
//! register. A function that names several places computes the lowest one alone; the others are so many bytes behind it, which
//! accesses of memory add by themselves.

use crate::ir::{Attr, Func, Inst, InstId, Mem, Op, Ty};
use smallvec::{SmallVec, smallvec};

/// Runs the pass, on a function whose places in shared memory are known (not linked later).
pub fn run(f: &mut Func) {
    let all = f.blocks.iter().flat_map(|b| &b.insts).map(|&id| f.inst(id));
    let places = || all.clone().filter(|i| i.op == Op::SharedAddr);
    let offsets = || places().map(|i| i.imm);
    let (Some(first), Some(least), Some(most)) = (places().next(), offsets().min(), offsets().max()) else { return };
    if least == most {
        return;
    }
    let loc = first.loc;
    let plain = |op: Op, imm: i64| Inst {
        op,
        attr: Attr::default(),
        mem: Mem::default(),
        imm,
        args: SmallVec::new(),
        results: SmallVec::new(),
        loc,
    };
    let base = f.new_inst(plain(Op::SharedAddr, least), &[Ty::B32]);
    let start = f.inst(base).results[0];
    for b in 0..f.blocks.len() {
        let old = std::mem::take(&mut f.blocks[b].insts);
        let mut new: Vec<InstId> = Vec::with_capacity(old.len() + 1);
        if b == 0 {
            new.push(base);
        }
        for id in old {
            if f.inst(id).op == Op::SharedAddr {
                let behind = f.new_inst(plain(Op::Const, f.inst(id).imm - least), &[Ty::B32]);
                let value = f.inst(behind).results[0];
                let inst = &mut f.insts[id.0 as usize];
                (inst.op, inst.imm, inst.args) = (Op::IAdd, 0, smallvec![start, value]);
                new.push(behind);
            }
            new.push(id);
        }
        f.blocks[b].insts = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn after(body: &str) -> Func {
        let mut f = text::parse(&format!("func k entry returns() {{\n{body}\n}}")).unwrap().remove(0);
        run(&mut f);
        verify::verify(&f).unwrap();
        f
    }

    fn bases(f: &Func) -> Vec<i64> {
        let all = f.blocks.iter().flat_map(|b| &b.insts).map(|&i| f.inst(i));
        all.filter(|i| i.op == Op::SharedAddr).map(|i| i.imm).collect()
    }

    #[test]
    fn places_are_counted_from_the_lowest() {
        let f = after(
            "blk0():\nv0:b32 = addr.shared {imm=48}\nv1:b32 = addr.shared {imm=16}\nv2:b32 = iadd v0, v1\nbr blk1()\nblk1():\nv3:b32 = addr.shared {imm=20}\nv4:b32 = iadd v2, v3\nexit",
        );
        assert_eq!(bases(&f), [16]);
        let far = |v: u32| {
            let i = f.def_inst(crate::ir::Value(v)).unwrap();
            (i.op, f.constant(i.args[1]))
        };
        assert_eq!([far(0), far(1), far(3)], [(Op::IAdd, Some(32)), (Op::IAdd, Some(0)), (Op::IAdd, Some(4))]);
    }

    #[test]
    fn one_place_stays() {
        let f =
            after("blk0():\nv0:b32 = addr.shared {imm=48}\nv1:b32 = addr.shared {imm=48}\nv2:b32 = iadd v0, v1\nexit");
        assert_eq!(bases(&f), [48, 48]);
    }
}
