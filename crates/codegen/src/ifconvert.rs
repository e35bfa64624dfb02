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

/// Most instructions of a side that saves little: one that leaves the barrier as it is.
const FEW: usize = 4;

/// Most instructions on the way back to the start of a loop, where the other way out of the block passes them: as many as rotate seven values.
const BACK: usize = 8;

/// Most moves of a side that goes elsewhere than the other one.
const MOVES: usize = 2;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let mut preds = predecessors(f);
    // Inner branches stand later: going backwards converts them first, and what they become may be guarded again only
    // if it has no guards, so nests stop at one level.
    for a in (0..f.blocks.len()).rev() {
        while let Some(found) = candidate(f, a, &preds) {
            apply(f, a, &found);
            preds = recount(f, preds, &found);
        }
    }
    ways(f, &preds);
}

/// What a way back to the start of a loop does on its own becomes guarded, so that the branch itself goes back; and so do one or two moves before
/// a branch to elsewhere: a chain of questions, of which each has its own constant as the answer, then has two branches a question less.
fn ways(f: &mut Func, preds: &[u32]) {
    let cfg = f.cfg();
    for a in 0..f.blocks.len() {
        let Term::CondBr { cond, then, els } = &f.blocks[a].term else { continue };
        if cond.as_reg().is_none_or(|r| !matches!(r.file(), File::Pred | File::Upred) || r.is_const()) {
            continue;
        }
        for (k, (way, guard)) in [(then.block, *cond), (els.block, cond.inverted())].into_iter().enumerate() {
            let Some(start) = side(f, way, preds, &guard) else { continue };
            let goes_back = cfg.rpo_index[start.0 as usize] <= cfg.rpo_index[a];
            let insts = &f.blocks[way.0 as usize].insts;
            let moves = || insts.len() <= MOVES && insts.iter().all(is_move);
            if goes_back && insts.len() > BACK || !goes_back && !moves() {
                continue;
            }
            let mut insts = std::mem::take(&mut f.blocks[way.0 as usize].insts);
            for i in &mut insts {
                if let Op::Sass(s) = &mut i.op {
                    s.guard = guard;
                }
            }
            f.blocks[way.0 as usize].term = Term::Unreachable;
            f.blocks[a].insts.extend(insts);
            if let Term::CondBr { then, els, .. } = &mut f.blocks[a].term {
                *[then, els][k] = Edge { block: start, args: Vec::new() };
            }
            break;
        }
    }
}

fn is_move(i: &Inst) -> bool {
    matches!(&i.op, Op::Sass(s) if s.form == F::MOV_R || s.form == F::MOV_I)
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

/// By block: ways into it, the entry's own counted.
pub fn predecessors(f: &Func) -> Vec<u32> {
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
    // A condition of the warp guards what is of the warp, and nothing else.
    let warp = cond.as_reg().is_some_and(|r| r.file() == File::Upred);
    let (none, files) = match warp {
        true => (Reg::UPT, [File::Ugpr, File::Upred]),
        false => (Reg::PT, [File::Gpr, File::Pred]),
    };
    let free = s.guard == Operand::reg(none) && form.uniform_guard == warp;
    let plain = !e.flow && !e.sync && !e.cross_lane;
    // A register file of the whole warp must not depend on one thread's condition.
    let keeps = s
        .regs()
        .iter()
        .all(|r| !r.def || (files.contains(&r.reg.file()) && (r.reg.is_const() || Some(r.reg) != cond.as_reg())));
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
    // A meeting place that waits must wait for these threads alone, or stays as it is: for those of an outer branch, too.
    let ok = match (barrier_at(f, found.join), opened(f, a)) {
        (Some(b), Some((o, _))) => b == o && preds[found.join.0 as usize] == 2,
        (Some(_), None) => [found.then, found.els].iter().flatten().all(|b| f.blocks[b.0 as usize].insts.len() <= FEW),
        (None, None) => true,
        (None, Some(_)) => false,
    };
    (ok && found.join.0 as usize != a).then_some(found)
}

/// The barrier that a block waits for first.
pub fn barrier_at(f: &Func, b: BlockId) -> Option<Reg> {
    match f.blocks[b.0 as usize].insts.first().map(|i| &i.op) {
        Some(Op::Sass(s)) if s.form == F::BSYNC => s.get(S::Bb)?.as_reg(),
        _ => None,
    }
}

/// The barrier that a block opens last, and which instruction does: only if it is for this branch, that is, nothing but
/// the branch and moves come after.
pub fn opened(f: &Func, a: usize) -> Option<(Reg, usize)> {
    let at = f.blocks[a].insts.iter().rposition(|i| matches!(&i.op, Op::Sass(s) if s.form == F::BSSY))?;
    let Op::Sass(s) = &f.blocks[a].insts[at].op else { return None };
    Some((s.get(S::Bd)?.as_reg()?, at))
}

/// True if the instructions of `first` are moves of constants to general registers which `then` writes in any case, and does not read.
fn replaced(first: &[Inst], then: &[Inst], cond: &Operand) -> bool {
    let mut written = [false; 256];
    let mut wanted = [false; 256];
    for i in first {
        let Op::Sass(s) = &i.op else { return false };
        let constant =
            s.form == F::MOV_I || s.form == F::MOV_R && s.get(S::Rb).and_then(Operand::as_reg) == Some(Reg::RZ);
        let Some(d) = s.get(S::Rd).and_then(Operand::as_reg).filter(|d| constant && !d.is_const()) else {
            return false;
        };
        wanted[d.index() as usize] = true;
    }
    for i in then {
        let Op::Sass(s) = &i.op else { return false };
        for r in s.regs().iter().filter(|r| r.reg.file() == File::Gpr && !r.reg.is_const()) {
            let range = r.reg.index() as usize..r.reg.index() as usize + r.width as usize;
            if r.def {
                written[range].fill(true);
            } else if range.into_iter().any(|n| wanted[n]) {
                return false;
            }
        }
    }
    let all = (0..256).all(|r| !wanted[r] || written[r]);
    all && !first.is_empty() && cond.as_reg().is_some_and(|r| r.file() == File::Pred)
}

fn apply(f: &mut Func, a: usize, found: &Found) {
    if barrier_at(f, found.join).is_some()
        && let Some((_, at)) = opened(f, a)
    {
        f.blocks[a].insts.remove(at);
        f.blocks[found.join.0 as usize].insts.remove(0);
    }
    let mut sides = [(found.then, found.cond), (found.els, found.cond.inverted())];
    // Moves whose results the other side replaces come first, without a guard: nothing then waits for a load to write what one of
    // its registers is already known to hold.
    let insts = |side: Option<BlockId>| side.map_or(&[][..], |b| &f.blocks[b.0 as usize].insts);
    let plain = (0..2).find(|&k| replaced(insts(sides[k].0), insts(sides[1 - k].0), &found.cond));
    if plain == Some(1) {
        sides.swap(0, 1);
    }
    for (n, (side, guard)) in sides.into_iter().enumerate() {
        let Some(side) = side else { continue };
        let insts = std::mem::take(&mut f.blocks[side.0 as usize].insts);
        f.blocks[side.0 as usize].term = Term::Unreachable;
        for mut i in insts {
            if let Op::Sass(s) = &mut i.op
                && !(n == 0 && plain.is_some())
            {
                s.guard = guard;
            }
            f.blocks[a].insts.push(i);
        }
    }
    f.blocks[a].term = Term::Br(Edge { block: found.join, args: Vec::new() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    /// A constant is the answer of a question: it is moved under its condition, which then goes where the answer is wanted.
    #[test]
    fn answers_are_moved_under_their_conditions() {
        let text = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    brif P0, blk1(), blk2()\nblk1(): depth=0\n    \
            MOV_I Rd=R4 Rb=7\n    br blk4()\nblk2(): depth=0\n    LDS Rd=R5 Ra=RZ\n    brif P1, blk3(), blk5()\nblk3(): depth=0\n    \
            MOV_I Rd=R4 Rb=6\n    br blk4()\nblk4(): depth=0\n    STS Ra=RZ Rb=R4\n    exit\nblk5(): depth=0\n    exit\n}\n";
        let mut f = text::parse(text).unwrap().remove(0);
        run(&mut f);
        let ends: Vec<Vec<u32>> =
            [0, 2].iter().map(|&b: &usize| f.blocks[b].term.successors().iter().map(|s| s.0).collect()).collect();
        assert_eq!(ends, [[4, 2], [4, 5]]);
        let guard = |b: usize| match &f.blocks[b].insts.last().unwrap().op {
            Op::Sass(s) => s.guard.as_reg(),
            _ => None,
        };
        assert_eq!((guard(0), guard(2)), (Some(Reg::p(0)), Some(Reg::p(1))));
    }

    /// What a loop hands on to itself, on its way back: under the condition of a warp only what is of the warp.
    #[test]
    fn ways_back_are_guarded() {
        let back = |cond: &str, moves: &str| {
            let t = format!(
                "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    br blk1()\nblk1(): depth=1\n    \
                 STS Ra=RZ Rb=R4\n    brif {cond}, blk2(), blk3()\nblk2(): depth=1\n{moves}    br blk1()\nblk3(): depth=0\n    exit\n}}\n"
            );
            let mut f = text::parse(&t).unwrap().remove(0);
            run(&mut f);
            f.blocks[1].term.successors().iter().any(|s| s.0 == 1)
        };
        let moves = |n: usize| (0..n).map(|k| format!("    MOV_R Rd=R{k} Rb=R{}\n", k + 1)).collect::<String>();
        assert!(back("P0", &moves(8)) && !back("P0", &moves(9)));
        assert!(
            back("UP0", "    UMOV_U Rd=UR4 Rb=UR5\n")
                && !back("UP0", &moves(1))
                && !back("P0", "    UMOV_U Rd=UR4 Rb=UR5\n")
        );
    }

    #[test]
    fn registers_are_cleared_before_a_load_that_may_not_be() {
        let body = |clear: &str| {
            format!(
                "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    brif P0, blk1(), blk2()\nblk1(): depth=0\n    LDG.Size=5 Rd=R4 Ra=R2 UR=UR4\n    br blk3()\nblk2(): depth=0\n{clear}    br blk3()\nblk3(): depth=0\n    exit\n}}\n"
            )
        };
        let guards = |clear: &str| -> Vec<String> {
            let mut f = text::parse(&body(clear)).unwrap().remove(0);
            run(&mut f);
            let shown = |i: &Inst| {
                if let Op::Sass(s) = &i.op {
                    format!("{} {}", s.guard.as_reg().unwrap(), s.form().name)
                } else {
                    String::new()
                }
            };
            f.blocks[0].insts.iter().map(shown).collect()
        };
        assert_eq!(guards("    MOV_R Rd=R4 Rb=RZ\n    MOV_R Rd=R5 Rb=RZ\n"), ["PT MOV_R", "PT MOV_R", "P0 LDG"]);
        // The load reads R2, and leaves R6 alone.
        assert_eq!(guards("    MOV_R Rd=R2 Rb=RZ\n"), ["P0 LDG", "P0 MOV_R"]);
        assert_eq!(guards("    MOV_R Rd=R6 Rb=RZ\n"), ["P0 LDG", "P0 MOV_R"]);
    }
}
