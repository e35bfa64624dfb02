//! Removes instructions whose results nobody reads and that have no effect.

use crate::ir::{Effect, Func, Op};

/// Runs the pass.
pub fn run(f: &mut Func) {
    let mut uses = super::uses(f);
    let cfg = f.cfg();
    // Backwards, so that what a dead instruction read is seen to be dead after it.
    let mut order = cfg.rpo.clone();
    order.reverse();
    let mut again = true;
    while again {
        again = false;
        for &b in &order {
            let mut insts = std::mem::take(&mut f.blocks[b as usize].insts);
            let before = insts.len();
            let mut dead = Vec::new();
            for (n, &i) in insts.iter().enumerate().rev() {
                let inst = f.inst(i);
                // Of most somebody reads a result.
                if !inst.results.iter().all(|r| uses[r.index()] == 0) {
                    continue;
                }
                // Who votes, shuffles or is elected waits for the others, but orders nothing.
                let heard = matches!(inst.op, Op::Vote | Op::Elect | Op::Shfl);
                let removable = (heard || matches!(inst.op.effect(), Effect::Pure | Effect::Read))
                    && !matches!(inst.mem.sem, crate::ir::Sem::Volatile | crate::ir::Sem::Mmio);
                if removable {
                    for a in &inst.args {
                        uses[a.index()] -= 1;
                    }
                    dead.push(n);
                }
            }
            if !dead.is_empty() {
                let mut n = 0;
                insts.retain(|_| {
                    n += 1;
                    dead.binary_search_by(|d| (n - 1).cmp(d)).is_err()
                });
                again |= insts.len() != before && order.len() > 1;
            }
            f.blocks[b as usize].insts = insts;
        }
    }
}
