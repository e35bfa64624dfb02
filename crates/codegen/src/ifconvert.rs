//! If-conversion: short sides of a branch become guarded instructions.
//!
//! Runs on a function after register allocation, before the last scheduling. A block that branches to one or two short
//! blocks which meet again at once takes them in, each under its side of the condition; the convergence barrier around
//! them goes. What makes another thread wait, jumps, or works across lanes is never guarded.

use crate::mir::{BlockId, Edge, Func, Inst, Op, Term};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::{File, Reg};

/// Most instructions on one side; the vendor's compiler stops between 7 and 12, depending on what they are.
const MOST: usize = 10;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let mut preds = count_predecessors(f);
    // Inner branches stand later: going backwards converts them first, and what they become may be guarded again only
    // if it has no guards, so nests stop at one level.
    for a in (0..f.blocks.len()).rev() {
        while let Some(found) = candidate(f, a, &preds) {
            apply(f, a, &found);
            preds = recount(f, preds, &found);
        }
    }
}

/// Sides to take in.
struct Found {
    /// Block when the condition is true, unless that is the meeting place.
    then: Option<BlockId>,
    /// Block when it is false.
    els: Option<BlockId>,
    join: BlockId,
    cond: Operand,
}

fn count_predecessors(f: &Func) -> Vec<u32> {
    let mut preds = vec![0; f.blocks.len()];
    preds[0] = 1;
    for b in &f.blocks {
        for s in b.term.successors() {
            preds[s.0 as usize] += 1;
        }
    }
    preds
}

fn recount(f: &Func, mut preds: Vec<u32>, found: &Found) -> Vec<u32> {
    for side in [found.then, found.els].into_iter().flatten() {
        preds[side.0 as usize] = 0;
    }
    // Two ways to the meeting place became one.
    preds[found.join.0 as usize] -= 1;
    debug_assert!(preds.len() == f.blocks.len());
    preds
}

/// The block that a side goes on to, if the side is short, entered from here only, and may be guarded.
fn side(f: &Func, b: BlockId, preds: &[u32], cond: &Operand) -> Option<BlockId> {
    let block = &f.blocks[b.0 as usize];
    let Term::Br(e) = &block.term else { return None };
    let fits = preds[b.0 as usize] == 1 && e.args.is_empty() && block.insts.len() <= MOST;
    (fits && block.insts.iter().all(|i| guardable(i, cond))).then_some(e.block)
}

/// True if the instruction may stand under a guard, and leaves the condition as it is.
fn guardable(i: &Inst, cond: &Operand) -> bool {
    let Op::Sass(s) = &i.op else { return false };
    let form = s.form();
    let e = form.effects;
    let free = s.guard == Operand::reg(Reg::PT) && !form.uniform_guard;
    let plain = !e.flow && !e.sync && !e.cross_lane;
    // A register file of the whole warp must not depend on one thread's condition.
    let keeps = s.regs().iter().all(|r| {
        !r.def || (matches!(r.reg.file(), File::Gpr | File::Pred) && (r.reg.is_const() || Some(r.reg) != cond.as_reg()))
    });
    free && plain && keeps && !spills_predicates(s)
}

/// Moves of the whole predicate file name their registers by a mask.
fn spills_predicates(s: &Sass) -> bool {
    s.form == F::R2P || s.form == F::P2R
}

fn candidate(f: &Func, a: usize, preds: &[u32]) -> Option<Found> {
    let Term::CondBr { cond, then, els } = &f.blocks[a].term else { return None };
    let plain = cond.as_reg().is_some_and(|r| r.file() == File::Pred && !r.is_const());
    if !plain || !then.args.is_empty() || !els.args.is_empty() || then.block == els.block {
        return None;
    }
    let (t, e) = (side(f, then.block, preds, cond), side(f, els.block, preds, cond));
    let found = match (t, e) {
        (Some(x), Some(y)) if x == y => Found { then: Some(then.block), els: Some(els.block), join: x, cond: *cond },
        (Some(x), _) if x == els.block => Found { then: Some(then.block), els: None, join: x, cond: *cond },
        (_, Some(y)) if y == then.block => Found { then: None, els: Some(els.block), join: y, cond: *cond },
        _ => return None,
    };
    // A meeting place that waits must wait for these threads alone.
    let waits = barrier_at(f, found.join);
    let opened = opened(f, a);
    let ok = match (waits, opened) {
        (Some(b), Some((o, _))) => b == o && preds[found.join.0 as usize] == 2,
        (None, None) => true,
        _ => false,
    };
    (ok && found.join.0 as usize != a).then_some(found)
}

/// The barrier that a block waits for first.
fn barrier_at(f: &Func, b: BlockId) -> Option<Reg> {
    match f.blocks[b.0 as usize].insts.first().map(|i| &i.op) {
        Some(Op::Sass(s)) if s.form == F::BSYNC => s.get(S::Bb)?.as_reg(),
        _ => None,
    }
}

/// The barrier that a block opens last, and which instruction does: only if it is for this branch, that is, nothing but
/// the branch and moves come after.
fn opened(f: &Func, a: usize) -> Option<(Reg, usize)> {
    let at = f.blocks[a].insts.iter().rposition(|i| matches!(&i.op, Op::Sass(s) if s.form == F::BSSY))?;
    let Op::Sass(s) = &f.blocks[a].insts[at].op else { return None };
    Some((s.get(S::Bd)?.as_reg()?, at))
}

fn apply(f: &mut Func, a: usize, found: &Found) {
    if barrier_at(f, found.join).is_some()
        && let Some((_, at)) = opened(f, a)
    {
        f.blocks[a].insts.remove(at);
        f.blocks[found.join.0 as usize].insts.remove(0);
    }
    for (side, guard) in [(found.then, found.cond), (found.els, found.cond.inverted())] {
        let Some(side) = side else { continue };
        let insts = std::mem::take(&mut f.blocks[side.0 as usize].insts);
        f.blocks[side.0 as usize].term = Term::Unreachable;
        for mut i in insts {
            if let Op::Sass(s) = &mut i.op {
                s.guard = guard;
            }
            f.blocks[a].insts.push(i);
        }
    }
    f.blocks[a].term = Term::Br(Edge { block: found.join, args: Vec::new() });
}
