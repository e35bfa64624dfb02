//! Block layout: terminators become branches, blocks lie so that few are needed.
//!
//! Needs an allocated function. Blocks that do nothing but go on are skipped over, branches to a lone `EXIT` become
//! guarded `EXIT`s, branches to the next block go. Targets stay block numbers until emission.

use crate::mir::operands::sass_uses;
use crate::mir::{BlockId, Func, Inst, Op, Term};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};

/// A block in its final place.
#[derive(Clone, Debug)]
pub struct LinearBlock {
    /// Its number in the function; that of the second of two branches, which is a block of its own, is a new one.
    pub id: u32,
    /// All instructions, branches included.
    pub insts: Vec<Inst>,
    /// Positions of the blocks where control may go.
    pub succs: Vec<u32>,
    /// Targets of the indexed branch that ends the block, by block number.
    pub table: Vec<u32>,
}

/// Lays out the blocks of `f`.
pub fn run(mut f: Func) -> Vec<LinearBlock> {
    let n = f.blocks.len();
    // Blocks that instructions name (BSSY) stay.
    let mut named = vec![false; n];
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        if let Op::Sass(s) = &inst.op {
            for o in &s.operands {
                if let Value::Target(t) = o.value
                    && let Some(flag) = named.get_mut(t.get() as usize)
                {
                    *flag = true;
                }
            }
        }
    }
    // Where control really goes when it enters a block.
    let mut to: Vec<u32> = (0..n as u32).collect();
    for (b, to) in to.iter_mut().enumerate() {
        let mut at = b;
        let mut steps = 0;
        while let Term::Br(e) = &f.blocks[at].term {
            if !f.blocks[at].insts.is_empty() || named[at] || steps > n {
                break;
            }
            at = e.block.0 as usize;
            steps += 1;
        }
        *to = at as u32;
    }
    for b in &mut f.blocks {
        b.term.retarget(|t| BlockId(to[t.0 as usize]));
    }
    let cfg = f.cfg();
    let order = order(&f, &cfg);
    drop_needless_barriers(&mut f, &order);
    let exits: Vec<bool> = f.blocks.iter().map(|b| b.insts.is_empty() && matches!(b.term, Term::Exit)).collect();
    let mut out = Vec::with_capacity(order.len());
    let mut extra = 0;
    for (i, &b) in order.iter().enumerate() {
        let block = &mut f.blocks[b as usize];
        let next = order.get(i + 1).copied();
        let mut insts = std::mem::take(&mut block.insts);
        let loc = if block.loc != u32::MAX { block.loc } else { insts.last().map_or(u32::MAX, |x| x.loc) };
        let mut succs = Vec::new();
        let mut table = Vec::new();
        // Where a second branch goes, or that it is an exit: the block ends with the first, so that every block has one end.
        let mut second = None;
        let mut push = |s: Sass| insts.push(Inst::new(Op::Sass(s), loc));
        let exit = || Sass::new(F::EXIT);
        let bra = |t: u32| Sass::new(F::BRA).with(S::Target, target(t));
        match &block.term {
            Term::Br(e) if exits[e.block.0 as usize] => push(exit()),
            Term::Br(e) => {
                succs.push(e.block.0);
                if next != Some(e.block.0) {
                    push(bra(e.block.0));
                }
            }
            Term::CondBr { cond, then, els } => {
                let (t, e) = (then.block.0, els.block.0);
                // Exits have no place for a uniform predicate.
                let guards = cond.as_reg().is_none_or(|r| r.file() != File::Upred);
                let (te, ee) = (guards && exits[t as usize], guards && exits[e as usize]);
                let not = cond.inverted();
                if t == e {
                    if exits[t as usize] {
                        push(exit());
                    } else {
                        succs.push(t);
                        if next != Some(t) {
                            push(bra(t));
                        }
                    }
                } else if te || ee {
                    let (leaves, stays, other) = if te { (*cond, not, e) } else { (not, *cond, t) };
                    if te && ee {
                        push(exit());
                    } else if next == Some(other) {
                        push(conditional(exit(), leaves));
                        succs.push(other);
                    } else {
                        // Who goes on, back to a loop's beginning most often, meets one instruction.
                        push(conditional(bra(other), stays));
                        second = Some((exit(), vec![]));
                        succs.extend([other, n as u32 + extra]);
                    }
                } else {
                    if next == Some(t) {
                        push(conditional(bra(e), not));
                        succs.extend([t, e]);
                    } else {
                        push(conditional(bra(t), *cond));
                        second = (next != Some(e)).then(|| (bra(e), vec![e]));
                        let after = if second.is_some() { n as u32 + extra } else { e };
                        succs.extend([t, after]);
                    }
                }
            }
            Term::Switch { targets, .. } => {
                table = targets.iter().map(|t| t.0).collect();
                succs.extend(table.iter().copied());
                succs.sort_unstable();
                succs.dedup();
            }
            Term::Exit => push(exit()),
            Term::Ret(_) if f.linkable => {
                push(Sass::new(F::RET_ABS).with(S::Ra, Reg::r(f.keeps.return_pair())).with(S::Offset, Operand::imm(0)))
            }
            Term::Ret(_) => push(Sass::new(F::RET_REL).with(S::Ra, Reg::r(f.keeps.return_pair()))),
            // The code before does not come back; if it did, the thread would stay here.
            Term::Unreachable => push(bra(b)),
        }
        out.push(LinearBlock { id: b, insts, succs, table });
        if let Some((end, succs)) = second {
            let insts = vec![Inst::new(Op::Sass(end), loc)];
            out.push(LinearBlock { id: n as u32 + extra, insts, succs, table: vec![] });
            extra += 1;
        }
    }
    let mut position = vec![u32::MAX; n + extra as usize];
    out.iter().enumerate().for_each(|(i, b)| position[b.id as usize] = i as u32);
    for b in &mut out {
        b.succs.iter_mut().for_each(|s| *s = position[*s as usize]);
    }
    out
}

/// Takes out the setting of barriers that nobody comes to: where passes behind `converge` have found that no way leads to a join.
fn drop_needless_barriers(f: &mut Func, order: &[u32]) {
    let mut placed = vec![false; f.blocks.len()];
    order.iter().for_each(|&b| placed[b as usize] = true);
    let needless = |i: &Inst| match &i.op {
        Op::Sass(s) if s.form == F::BSSY => {
            matches!(s.get(S::TargetFar).map(|o| o.value), Some(Value::Target(t)) if !placed.get(t.get() as usize).is_some_and(|&p| p))
        }
        _ => false,
    };
    f.blocks.iter_mut().for_each(|b| b.insts.retain(|i| !needless(i)));
}

/// A target that is a block number.
pub fn target(block: u32) -> Operand {
    Operand { value: Value::target(block as i64), neg: false, abs: false, inv: false }
}

/// Guards a branch or an exit: by the guard, or by the uniform predicate operand that branches have.
fn conditional(s: Sass, cond: Operand) -> Sass {
    match cond.as_reg().map(Reg::file) {
        Some(File::Upred) if s.form == F::BRA => {
            let to = s.get(S::Target).copied().unwrap_or(target(0));
            Sass::new(F::BRA_U).with(S::Pq, cond).with(S::Target, to)
        }
        _ => s.guarded(cond),
    }
}

/// Layout order: reverse postorder with every loop in one piece, and blocks that end the thread or that nothing was
/// known to prefer behind.
fn order(f: &Func, cfg: &crate::cfg::Cfg) -> Vec<u32> {
    let exits = |b: u32| f.blocks[b as usize].insts.is_empty() && matches!(f.blocks[b as usize].term, Term::Exit);
    let loops = cfg.loops(&cfg.dominators());
    // Reverse postorder, then stable by loops: a block of a loop comes before blocks outside that were met in between.
    let mut placed = vec![false; cfg.len()];
    let mut inside: Vec<Vec<u32>> = vec![Vec::new(); cfg.len()];
    for (header, members) in loops.members {
        inside[header as usize] = members;
    }
    let mut out = Vec::with_capacity(cfg.rpo.len());
    fn put(b: u32, inside: &[Vec<u32>], placed: &mut [bool], out: &mut Vec<u32>) {
        if placed[b as usize] {
            return;
        }
        placed[b as usize] = true;
        out.push(b);
        // The members are in reverse postorder; inner loops place their own when their header comes.
        for &m in &inside[b as usize] {
            put(m, inside, placed, out);
        }
    }
    for &b in &cfg.rpo {
        put(b, &inside, &mut placed, &mut out);
    }
    if !out.iter().any(|&b| b != 0 && exits(b)) {
        return out;
    }
    // Exits that became guards need no block; one is kept if control falls into it.
    let mut needed = vec![false; cfg.len()];
    needed[0] = true;
    for (p, x) in f.blocks.iter().enumerate() {
        if cfg.reachable(p as u32) && branches_there(&x.term) {
            x.term.successors().iter().for_each(|t| needed[t.0 as usize] = true);
        }
        for inst in &x.insts {
            let Op::Sass(s) = &inst.op else { continue };
            for o in &s.operands {
                if let Value::Target(t) = o.value
                    && let Some(named) = needed.get_mut(t.get() as usize)
                {
                    *named = true;
                }
            }
        }
    }
    out.retain(|&b| !exits(b) || needed[b as usize]);
    out
}

/// True for an end that goes to lone exits as to any other block.
fn branches_there(term: &Term) -> bool {
    match term {
        Term::Switch { .. } => true,
        Term::CondBr { cond, .. } => cond.as_reg().is_some_and(|r| r.file() == File::Upred),
        _ => false,
    }
}

/// True if the instruction reads the memory descriptor in UR4:UR5.
pub fn uses_descriptor(s: &Sass) -> bool {
    let mut any = false;
    sass_uses(s, |p| any |= p.reg == Reg::ur(4) || p.reg == Reg::ur(5));
    any
}
