//! Loop-invariant code motion: pure instructions whose arguments come from outside a loop move before it.
//!
//! Only what cannot trap and is worth a register: everything pure but cheap constants stays cheap to move, since the
//! register allocator makes constants again where registers are short.

use crate::ir::{Def, Effect, Func, Op};

/// Runs the pass.
pub fn run(f: &mut Func) {
    let cfg = f.cfg();
    let dom = cfg.dominators();
    let loops = cfg.loops(&dom);
    let mut block_of = vec![u32::MAX; f.values.len()];
    for &b in &cfg.rpo {
        for &p in &f.blocks[b as usize].params {
            block_of[p.index()] = b;
        }
        for &i in &f.blocks[b as usize].insts {
            for &r in &f.inst(i).results {
                block_of[r.index()] = b;
            }
        }
    }
    // Inner loops first: what leaves them may leave the outer ones too.
    for (header, members) in loops.members.iter().rev() {
        let Some(before) = preheader(f, &cfg, *header, members) else { continue };
        let mut inside = crate::bitset::BitSet::new(f.blocks.len());
        for &m in members {
            inside.insert(m as usize);
        }
        for &m in members {
            let insts = std::mem::take(&mut f.blocks[m as usize].insts);
            let mut kept = Vec::with_capacity(insts.len());
            for id in insts {
                let inst = f.inst(id);
                let moves = inst.op.effect() == Effect::Pure
                    && !matches!(inst.op, Op::IDiv | Op::IRem)
                    && inst.args.iter().all(|a| {
                        let b = block_of[a.index()];
                        b == u32::MAX || !inside.contains(b as usize)
                    });
                if moves {
                    for r in inst.results.clone() {
                        block_of[r.index()] = before;
                        debug_assert!(matches!(f.def(r), Def::Inst(..)));
                    }
                    f.blocks[before as usize].insts.push(id);
                } else {
                    kept.push(id);
                }
            }
            f.blocks[m as usize].insts = kept;
        }
    }
}

/// The block outside the loop that alone leads to its header and nowhere else.
fn preheader(f: &Func, cfg: &crate::cfg::Cfg, header: u32, members: &[u32]) -> Option<u32> {
    let mut outside = cfg.preds[header as usize].iter().filter(|p| !members.contains(p));
    let p = *outside.next()?;
    let alone = outside.next().is_none() && f.blocks[p as usize].term.successors().len() == 1;
    alone.then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    #[test]
    fn invariants_leave_the_loop() {
        let mut f = text::parse(
            "func k returns() {\nblk0():\nv0:b32 = sreg\nbr blk1(v0)\nblk1(v1:b32):\nv2:b32 = imul v0, v0\nv3:b32 = iadd v1, v2\nv4:p = icmp v3, v0 {cmp=lt}\nbrif v4, blk1(v3), blk2()\nblk2():\nret\n}",
        )
        .unwrap()
        .remove(0);
        run(&mut f);
        verify::verify(&f).unwrap();
        assert_eq!(f.blocks[0].insts.len(), 2);
        assert_eq!(f.blocks[1].insts.len(), 2);
    }
}
