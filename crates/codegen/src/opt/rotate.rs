//! Rotation: a loop that asks at its beginning whether to go on asks at its end.
//!
//! In
//!
//! ```text
//! head(i): p = i < n; brif p, body, after        head'(i'): p' = i' < n; brif p', body, after
//! body: ...; br head(i + 1)                      body: ...; br head(i + 1)
//! after:                                         head(i): p = i < n; brif p, body, after
//! ```
//!
//! the way in gets a copy of the question, and the old one becomes the end of the loop: an iteration has one branch instead of
//! two, and other passes, unrolling above all, know loops of this form alone. tinygrad writes its loops so. What the head
//! computes and others read comes to them as parameters of two new blocks, one on the way into the body and one on the way out.

use super::eval::eval;
use super::identity;
use super::unroll::{WHOLE, step};
use crate::cfg::{Cfg, NONE};
use crate::ir::{BlockData, Edge, Effect, Func, InstId, Op, Term, Ty, Value, mask};
use rustc_hash::FxHashMap;

/// Instructions, constants not counted, that are copied at most.
const HEAD: usize = 12;

/// A loop that asks first.
struct Loop {
    head: u32,
    /// Where the head goes inside the loop, and outside.
    body: Edge,
    after: Edge,
    /// Values of the head that others read, once each.
    read: Vec<Value>,
}

/// Runs the pass on innermost loops; true if there was anything.
pub fn run(f: &mut Func) -> bool {
    let cfg = f.cfg();
    if !cfg.goes_back() {
        return false;
    }
    // The loop of each block, and of each value of a head.
    let mut home = vec![NONE; f.blocks.len()];
    let mut owner = vec![NONE; f.values.len()];
    let mut loops = candidates(f, &cfg, &mut home);
    if loops.is_empty() {
        return false;
    }
    for (n, l) in loops.iter().enumerate() {
        let head = &f.blocks[l.head as usize];
        let results = head.insts.iter().flat_map(|&i| &f.inst(i).results);
        head.params.iter().chain(results).for_each(|v| owner[v.index()] = n as u32);
    }
    let mut seen = vec![false; f.values.len()];
    let mut note = |loops: &mut [Loop], b: u32, v: Value| {
        let l = owner[v.index()];
        if l != NONE && loops[l as usize].head != b && !std::mem::replace(&mut seen[v.index()], true) {
            loops[l as usize].read.push(v);
        }
    };
    for &b in &cfg.rpo {
        for &i in &f.blocks[b as usize].insts {
            f.inst(i).args.iter().for_each(|&v| note(&mut loops, b, v));
        }
        f.blocks[b as usize].term.visit(|v| note(&mut loops, b, v));
    }
    // What the head hands on is handed on by the new blocks.
    for n in 0..loops.len() {
        let edges = [loops[n].body.args.clone(), loops[n].after.args.clone()];
        edges.iter().flatten().for_each(|&v| note(&mut loops, NONE, v));
    }
    // What stands for a value of a head in its loop, and behind it.
    let (mut inside, mut behind) = (identity(f), identity(f));
    for (n, l) in loops.iter().enumerate() {
        rotate(f, &cfg, l, &mut inside, &mut behind);
        // The copy of the head, the way in and the way out.
        home.extend([NONE, n as u32, NONE]);
    }
    for (b, &home) in home.iter().enumerate() {
        let new = |v: Value| match owner.get(v.index()) {
            Some(&l) if l != NONE && loops[l as usize].head != b as u32 => {
                if home == l {
                    inside[v.index()]
                } else {
                    behind[v.index()]
                }
            }
            _ => v,
        };
        for i in 0..f.blocks[b].insts.len() {
            let id = f.blocks[b].insts[i];
            f.insts[id.0 as usize].args.iter_mut().for_each(|a| *a = new(*a));
        }
        f.blocks[b].term.map(new);
    }
    true
}

/// The loops to be rotated; `home` gets their numbers for their blocks.
fn candidates(f: &Func, cfg: &Cfg, home: &mut [u32]) -> Vec<Loop> {
    let loops = cfg.loops(&cfg.dominators());
    let mut out: Vec<Loop> = Vec::new();
    for (head, members) in &loops.members {
        if !members.iter().all(|&m| loops.header[m as usize] == *head) {
            continue;
        }
        let n = out.len() as u32;
        members.iter().for_each(|&m| home[m as usize] = n);
        match candidate(f, cfg, *head, members, &|b| home[b as usize] == n) {
            Some(l) => out.push(l),
            None => members.iter().for_each(|&m| home[m as usize] = NONE),
        }
    }
    out
}

/// A loop of which only the head leaves, and does nothing else that is seen outside, or is left after few iterations.
fn candidate(f: &Func, cfg: &Cfg, head: u32, members: &[u32], inside: &dyn Fn(u32) -> bool) -> Option<Loop> {
    let Term::CondBr { then, els, .. } = &f.blocks[head as usize].term else { return None };
    let (body, after) = match (inside(then.block.0), inside(els.block.0)) {
        (true, false) => (then.clone(), els.clone()),
        (false, true) => (els.clone(), then.clone()),
        _ => return None,
    };
    // A long head that is seen outside is worth it where all iterations are going to stand in a row.
    let long = |size: usize| size <= WHOLE && !f.blocks[head as usize].rolled && row(f, cfg, head, members, inside);
    let pure = |i: InstId| f.inst(i).op.effect() == Effect::Pure;
    let size = f.blocks[head as usize].insts.iter().filter(|&&i| f.inst(i).op != Op::Const).count();
    let leaves = |m: u32| cfg.succs[m as usize].iter().any(|&s| !inside(s));
    let fit = head != 0
        && body.block.0 != head
        && !members.iter().any(|&m| m != head && leaves(m))
        && (size <= HEAD && f.blocks[head as usize].insts.iter().all(|&i| pure(i)) || long(size));
    fit.then(|| Loop { head, body, after, read: Vec::new() })
}

/// True for a loop that counts from one constant to another in so few iterations that they can all be written out. nvcc leaves such loops in
/// the middle where it has written out some of an odd number of iterations.
fn row(f: &Func, cfg: &Cfg, head: u32, members: &[u32], inside: &dyn Fn(u32) -> bool) -> bool {
    let Term::CondBr { cond, then, .. } = &f.blocks[head as usize].term else { return false };
    let mut stays = inside(then.block.0);
    let Some(mut test) = f.def_inst(*cond) else { return false };
    while test.op == Op::Not {
        let Some(of) = f.def_inst(test.args[0]) else { return false };
        (test, stays) = (of, !stays);
    }
    let preds = &cfg.preds[head as usize];
    let (&[latch], &[entry]) = (
        preds.iter().copied().filter(|&p| inside(p)).collect::<Vec<_>>().as_slice(),
        preds.iter().copied().filter(|&p| !inside(p)).collect::<Vec<_>>().as_slice(),
    ) else {
        return false;
    };
    let place = f.blocks[head as usize].params.iter().position(|p| test.op == Op::ICmp && *p == test.args[0]);
    let given =
        |p: u32, n: usize| f.blocks[p as usize].term.edges().iter().find(|e| e.block.0 == head).map(|e| e.args[n]);
    let known = place.and_then(|n| {
        let next = given(latch, n)?;
        Some((f.constant(given(entry, n)?)?, step(f, test.args[0], next)?, f.constant(test.args[1])?))
    });
    let Some((mut at, by, bound)) = known else { return false };
    let insts = || members.iter().flat_map(|&m| &f.blocks[m as usize].insts).map(|&i| f.inst(i).op);
    let shared =
        |op: Op| matches!(op, Op::Call | Op::CallIndirect | Op::SetMaxReg | Op::Leader) || op.effect() == Effect::Warp;
    if insts().any(shared) {
        return false;
    }
    let size = insts().filter(|&op| op != Op::Const).count().max(1);
    let ty = f.ty(test.args[0]);
    for _ in 0..WHOLE / size {
        if eval(Op::ICmp, test.attr, &[ty; 2], &[at, bound], Ty::P) != Some(stays as u64) {
            return true;
        }
        at = at.wrapping_add(by) & mask(ty);
    }
    false
}

/// Copies the head for the way in, and puts a block on either way from it and its copy.
fn rotate(f: &mut Func, cfg: &Cfg, l: &Loop, inside: &mut [Value], behind: &mut [Value]) {
    let (copy, enter, leave) = (f.new_block(), f.new_block(), f.new_block());
    let BlockData { ref params, ref insts, ref term, loc, rolled } = f.blocks[l.head as usize];
    let (params, insts, mut question) = (params.clone(), insts.clone(), term.clone());
    f.blocks[copy.index()].loc = loc;
    f.blocks[enter.index()].rolled = rolled;
    let mut map: FxHashMap<Value, Value> = FxHashMap::default();
    for p in params {
        map.insert(p, f.add_param(copy, f.ty(p)));
    }
    for id in insts {
        f.copy_inst(id, copy, &mut map);
    }
    for &v in &l.read {
        inside[v.index()] = f.add_param(enter, f.ty(v));
        behind[v.index()] = f.add_param(leave, f.ty(v));
    }
    f.blocks[enter.index()].term = Term::Br(l.body.clone());
    f.blocks[leave.index()].term = Term::Br(l.after.clone());
    for e in question.edges_mut() {
        let block = if e.block == l.body.block { enter } else { leave };
        *e = Edge { block, args: l.read.clone() };
    }
    f.blocks[l.head as usize].term = question.clone();
    question.map(|v| map.get(&v).copied().unwrap_or(v));
    f.blocks[copy.index()].term = question;
    // Who comes from outside asks the copy.
    let latches = |p: u32| cfg.rpo_index[p as usize] >= cfg.rpo_index[l.head as usize];
    for &p in cfg.preds[l.head as usize].iter().filter(|&&p| !latches(p)) {
        f.blocks[p as usize].term.retarget(|t| if t.0 == l.head { copy } else { t });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn rotated(body: &str) -> (bool, Func) {
        let mut f = text::parse(&format!("func k returns(b32) {{\n{body}}}")).unwrap().remove(0);
        let done = run(&mut f);
        verify::verify(&f).unwrap();
        super::super::params::run(&mut f);
        super::super::gvn::run(&mut f);
        super::super::blocks::run(&mut f);
        verify::verify(&f).unwrap();
        (done, f)
    }

    const LOOP: &str = "blk0():
 v0:b32 = const {imm=0}
 v1:b32 = const {imm=16}
 v2:b32 = const {imm=1}
 v9:b32 = sreg {imm=33}
 br blk1(v0, v9)
blk1(v3:b32, v4:b32):
 v5:p = icmp v3, v1 {cmp=lt}
 brif v5, blk2(), blk3()
blk2():
 v6:b32 = imul v4, v9
 v7:b32 = iadd v3, v2
 br blk1(v7, v6)
blk3():
 v8:b32 = iadd v3, v4
 ret v8
";

    #[test]
    fn the_question_moves_to_the_end() {
        let (done, f) = rotated(LOOP);
        assert!(done);
        // The way in, the loop, and what follows: nothing asks on the way in, as 0 < 16.
        assert_eq!(f.blocks.len(), 3, "{}", text::print(&f));
        assert!(matches!(&f.blocks[1].term, Term::CondBr { then, .. } if then.block.0 == 1), "{}", text::print(&f));
    }

    #[test]
    fn a_loop_that_asks_at_its_end_stays() {
        let (_, mut f) = rotated(LOOP);
        assert!(!run(&mut f));
    }

    #[test]
    fn a_head_that_stores_stays() {
        let with = LOOP.replace(" v5:p", " v10:b64 = zext v9\n store v10, v3 {bytes=4}\n v5:p");
        // Unless all 17 times that it is asked can stand in a row.
        assert!(rotated(&with).0);
        assert!(!rotated(&with.replace("imm=16", "imm=16000")).0);
        assert!(!rotated(&with.replace("v1:b32 = const {imm=16}", "v1:b32 = sreg")).0);
        assert!(!rotated(&with.replace(" v7:b32 = iadd v3, v2", " v7:b32 = iadd v3, v6")).0);
    }

    #[test]
    fn what_is_left_in_the_middle_is_written_out() {
        let with = LOOP.replace(" v5:p", " v10:b64 = zext v9\n store v10, v3 {bytes=4}\n v5:p");
        let mut f = rotated(&with).1;
        super::super::unroll::run(&mut f);
        verify::verify(&f).unwrap();
        let t = text::print(&f);
        assert_eq!((t.matches("store").count(), t.matches("blk").count()), (17, 1), "{t}");
    }
}
