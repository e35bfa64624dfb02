//! Loops that wait for another thread, or are an atomic operation together.

use super::*;

/// Machine code does not tell volatile loads of shared memory from others. A load that is repeated from an unchanged
/// address in a short loop that stores nothing can only wait for another thread.
pub(super) fn mark_polls(code: &mut [Ins]) {
    for at in 0..code.len() {
        let Exec::Bra { target, .. } = code[at].exec else { continue };
        let start = target as usize;
        if start > at || at - start > 8 {
            continue;
        }
        let quiet =
            |i: &Ins| !matches!(i.exec, Exec::Store(_) | Exec::Atom(_) | Exec::Bar { .. } | Exec::Matrix { .. });
        if !code[start..at].iter().all(quiet) {
            continue;
        }
        for k in start..at {
            let Exec::Load(l) = &code[k].exec else { continue };
            let base: Vec<u16> = code[k].uses.iter().filter(|u| u.slot.is_some()).map(|u| u.reg).collect();
            let moves = code[start..at].iter().any(|i| i.defs.iter().any(|d| base.contains(&d.reg)));
            if l.space == Space::Shared
                && !moves
                && let Exec::Load(l) = &mut code[k].exec
            {
                l.poll = true;
            }
        }
    }
}

/// Instructions between the load of a loop that ends in a compare-and-swap, and that swap.
const LOOP: usize = 24;
/// The same where the first load stands before the loop, as long before as it pays; it is of the same place and into the same register.
const BEFORE: usize = 512;

/// An atomic operation that the machine lacks is a loop: a load, the operation, a compare-and-swap with
/// what was loaded.
/// Its load is part of the atomic operation.
pub(super) fn mark_loops(p: &mut Program) {
    let (code, insts) = (&mut p.code, &p.insts);
    for at in 0..code.len() {
        let Exec::Atom(list) = &code[at].exec else { continue };
        let x = &list[0];
        // Only these have a third source.
        let swaps = insts[at].as_ref().is_some_and(|i| i.slot(S::Rc).is_some());
        let (addr, old) = (x.addr, x.b[0]);
        let first = at.saturating_sub(BEFORE);
        for (k, ins) in code[first..at].iter_mut().enumerate().filter(|_| swaps) {
            if let Exec::Load(l) = &mut ins.exec {
                let (place, value) = (l.addr == addr, Src::R(l.d) == old);
                l.strong |= place && value || (place || value) && first + k + LOOP >= at;
            }
        }
    }
}
