//! What the bulk engine is asked for by an elected thread is asked by the warp.
//!
//! Copies of the bulk engine and what else it is told are executed once for a warp, whichever of its threads are there. Programs elect one
//! (`elect.sync`) and branch: the branch is needless where the whole warp comes to it and all threads would ask for the same, and behind it nothing
//! has to move from the elected thread's registers to those of the warp. What else the elected thread does on its side stays under the condition:
//! it arrives at barriers. The vendor's compiler does the same with each of these instructions; it keeps branches with groups of copies that are
//! ended or waited for, which belong to a thread.
//!
//! Runs behind all other passes of the IR: nothing must move these instructions to where threads are apart.

use crate::cfg::Cfg;
use crate::converge::{self, Convergence};
use crate::ir::{Block, Edge, Effect, Func, InstId, Op, Term, Value};
use crate::lower::asynchronous::Bulk;

/// A branch to what an elected thread does.
struct Site {
    /// The block that ends in it.
    block: u32,
    /// What the thread does.
    side: Block,
    /// The condition, and what it is for the elected thread.
    cond: (Value, bool),
    /// What all threads ask besides whether they are elected, and what for.
    rest: Option<(Value, bool)>,
}

/// Runs the pass; true if it did anything.
pub fn run(f: &mut Func) -> bool {
    let has = |f: &Func, op: Op| f.insts.iter().any(|i| i.op == op);
    if !f.entry || !has(f, Op::Elect) || !has(f, Op::Bulk) {
        return false;
    }
    let (cfg, read) = (f.cfg(), read(f));
    let sites: Vec<Site> = cfg.rpo.iter().filter_map(|&b| site(f, &cfg, &read, b)).collect();
    if sites.is_empty() {
        return false;
    }
    // Where the warp is whole is known when blocks have been put where threads meet: in another function.
    let found = converge::run(&mut f.clone());
    let sites: Vec<Site> = sites.into_iter().filter(|s| whole(f, s, &found)).collect();
    sites.iter().for_each(|s| apply(f, &read, s));
    if !sites.is_empty() {
        super::dce::run(f);
        forget(f, &found);
    }
    !sites.is_empty()
}

/// Takes out elections that nobody asks for any more, where the warp need not meet for them.
fn forget(f: &mut Func, found: &Convergence) {
    let read = read(f);
    for b in 0..f.blocks.len() {
        if found.divergent.get(b) != Some(&false) {
            continue;
        }
        let mut insts = std::mem::take(&mut f.blocks[b].insts);
        insts.retain(|&i| f.inst(i).op != Op::Elect || f.inst(i).results.iter().any(|r| read[r.index()]));
        f.blocks[b].insts = insts;
    }
}

/// The branch at the end of block `b`, if what is on its side may be asked by the warp.
fn site(f: &Func, cfg: &Cfg, read: &[bool], b: u32) -> Option<Site> {
    let Term::CondBr { cond, then, els, .. } = &f.blocks[b as usize].term else { return None };
    let (sense, side) = if meets(f, cfg, b, then, els) {
        (true, then.block)
    } else if meets(f, cfg, b, els, then) {
        (false, els.block)
    } else {
        return None;
    };
    let rest = elected(f, *cond, sense)?;
    let asks = f.blocks[side.index()].insts.iter().any(|&i| bulk(f, i));
    let fits = f.blocks[side.index()].insts.iter().all(|&i| pure(f, i) || bulk(f, i) || own(f, read, i));
    (asks && fits).then_some(Site { block: b, side, cond: (*cond, sense), rest })
}

/// True if `side` is a block for this branch alone that goes on where `past` goes, with the same values.
fn meets(f: &Func, cfg: &Cfg, b: u32, side: &Edge, past: &Edge) -> bool {
    let block = &f.blocks[side.block.index()];
    cfg.preds[side.block.index()].as_slice() == [b]
        && block.params.is_empty()
        && matches!(&block.term, Term::Br(e) if e == past)
        && side.block != past.block
}

/// What is asked besides of a condition that is `sense` for an elected thread at most: `None` where it is not such a condition.
fn elected(f: &Func, cond: Value, sense: bool) -> Option<Option<(Value, bool)>> {
    let inst = f.def_inst(cond)?;
    match inst.op {
        Op::Elect => (sense && f.constant(inst.args[0]) == Some(0xffff_ffff)).then_some(None),
        Op::Not => elected(f, inst.args[0], !sense),
        Op::And | Op::Or if (inst.op == Op::And) == sense => {
            let (a, b) = (inst.args[0], inst.args[1]);
            let alone = |v: Value| elected(f, v, sense) == Some(None);
            match (alone(a), alone(b)) {
                (true, _) => Some(Some((b, sense))),
                (_, true) => Some(Some((a, sense))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// True of what the engine is asked for once for a warp, whatever is under way.
fn bulk(f: &Func, id: InstId) -> bool {
    let inst = f.inst(id);
    inst.op == Op::Bulk && Bulk::unpack(inst.imm).kind != Bulk::MAP_FORGET
}

fn pure(f: &Func, id: InstId) -> bool {
    f.inst(id).op.effect() == Effect::Pure && f.inst(id).op != Op::Undef
}

/// True of what the elected thread goes on doing alone: at barriers in shared memory, without anything that is read behind it.
fn own(f: &Func, read: &[bool], id: InstId) -> bool {
    let inst = f.inst(id);
    inst.op == Op::MBarrier && !inst.results.iter().any(|r| read[r.index()])
}

/// By value: something reads it.
fn read(f: &Func) -> Vec<bool> {
    let mut read = vec![false; f.values.len()];
    for block in &f.blocks {
        block.insts.iter().flat_map(|&i| &f.inst(i).args).for_each(|a| read[a.index()] = true);
        block.term.visit(|a| read[a.index()] = true);
    }
    read
}

/// True if the whole warp comes to the branch, and asks for the same.
fn whole(f: &Func, s: &Site, found: &Convergence) -> bool {
    let alike = |v: Value| found.uniform[v.index()];
    !found.divergent[s.block as usize]
        && s.rest.is_none_or(|r| alike(r.0))
        && f.blocks[s.side.index()]
            .insts
            .iter()
            .filter(|&&i| bulk(f, i))
            .all(|&i| f.inst(i).args.iter().all(|&a| alike(a)))
}

/// Lets the warp go to the side, and only the elected thread do there what is its own.
fn apply(f: &mut Func, read: &[bool], s: &Site) {
    let Term::CondBr { then, els, uniform, .. } = f.blocks[s.block as usize].term.clone() else { return };
    let past = if s.cond.1 { els } else { then };
    let to = |block: Block| Edge { block, args: Vec::new() };
    f.blocks[s.block as usize].term = match s.rest {
        None => Term::Br(to(s.side)),
        Some((cond, true)) => Term::CondBr { cond, uniform, then: to(s.side), els: past },
        Some((cond, false)) => Term::CondBr { cond, uniform, then: past, els: to(s.side) },
    };
    // Each row of what is the thread's own gets a block, and what follows it another.
    let mut at = s.side;
    while let Some(from) = f.blocks[at.index()].insts.iter().position(|&i| own(f, read, i)) {
        let (alone, rest) = (f.new_block(), f.new_block());
        let mut tail = f.blocks[at.index()].insts.split_off(from);
        let n = tail.iter().position(|&i| !own(f, read, i)).unwrap_or(tail.len());
        let behind = tail.split_off(n);
        let loc = f.blocks[at.index()].loc;
        let term = std::mem::replace(&mut f.blocks[at.index()].term, Term::Unreachable);
        let (cond, sense) = s.cond;
        let (then, els) = if sense { (alone, rest) } else { (rest, alone) };
        f.blocks[at.index()].term = Term::CondBr { cond, uniform: false, then: to(then), els: to(els) };
        let both = [(alone, tail, Term::Br(to(rest))), (rest, behind, term)];
        for (block, insts, term) in both {
            let b = &mut f.blocks[block.index()];
            (b.insts, b.term, b.loc) = (insts, term, loc);
        }
        at = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::lower::asynchronous::barrier;

    /// A kernel whose warps come to a branch by `cond`, with `side` for whom v9 is true: v0 is a parameter, v1 differs between threads, v3 does not, v2 is
    /// the elected thread's. Gives its text afterwards, if anything was done.
    fn after(cond: &str, side: &str) -> Option<String> {
        let source = format!(
            "func k entry returns() {{\nblk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = sreg\nv4:b32 = const {{imm=4294967295}}\nv2:p = elect v4\n\
             v5:b32 = param {{imm=8 bytes=4}}\nv3:p = icmp v5, v4\n{cond}\nbrif v9, blk1(), blk2()\nblk1():\n{side}br blk2()\nblk2():\nexit\n}}"
        );
        // Values are numbered without gaps.
        let source = source.replace("v9", if cond.contains("v6:") { "v7" } else { "v6" });
        let mut f = text::parse(&source).unwrap().remove(0);
        let done = run(&mut f);
        verify::verify(&f).unwrap();
        done.then(|| text::print(&f))
    }

    fn copy(of: &str) -> String {
        let bulk = Bulk { kind: Bulk::PREFETCH, first: 2, second: 1, ..Bulk::default() };
        format!("bulk {of} {{imm={}}}\n", bulk.pack())
    }

    fn branches(text: &str) -> usize {
        text.matches("brif").count()
    }

    #[test]
    fn the_warp_asks_for_the_elected_thread() {
        let asked = |cond: &str| after(cond, &copy("v0, v5")).as_deref().map(branches);
        assert_eq!(asked("v6:p = not v2\nv9:p = not v6"), Some(0));
        let found = after("v6:p = not v2\nv9:p = not v6", &copy("v0, v5")).unwrap();
        assert!(!found.contains("elect"), "{found}");
        // Who is not elected are many.
        assert_eq!(asked("v9:p = not v2"), None);
        assert_eq!(asked("v6:p = icmp v1, v5\nv9:p = or v2, v6"), None);
    }

    #[test]
    fn what_is_a_threads_own_stays_under_the_condition() {
        let arrive = format!("mbarrier v5 {{sub={}}}\n", barrier::ARRIVE);
        let found = after("v6:p = not v2\nv9:p = not v6", &format!("{arrive}{}", copy("v0, v5"))).unwrap();
        assert!(branches(&found) == 1 && found.contains("brif v7, blk3(), blk4()"), "{found}");
        // A store is not taken apart from it.
        assert_eq!(
            after("v6:p = not v2\nv9:p = not v6", &format!("store v0, v5 {{bytes=4}}\n{}", copy("v0, v5"))),
            None
        );
    }

    /// What all ask besides is still asked, and what differs between threads is not.
    #[test]
    fn the_rest_of_a_condition_stays() {
        let found = after("v9:p = and v3, v2", &copy("v0, v5")).unwrap();
        assert!(found.contains("brif v3, blk1(), blk2()"), "{found}");
        assert_eq!(after("v6:p = icmp v1, v5\nv9:p = and v6, v2", &copy("v0, v5")), None);
    }

    #[test]
    fn what_differs_between_threads_is_the_elected_ones() {
        assert_eq!(after("v6:p = not v2\nv9:p = not v6", &copy("v0, v1")), None);
    }
}
