//! Masked loads: what replaces a value where it was not loaded comes along the way around the load.
//!
//! `@p ld x; @!p mov x, 0` is a branch around the load and, where its ways meet, a choice under the same condition between what
//! they bring and zero. What the way around the load brings, the register's value of before, is then read by nobody, but lives up to there: in a
//! loop from one iteration to the next. It brings zero instead, and nothing is chosen.

use super::{identity, substitute, uses};
use crate::cfg::{Cfg, DomTree};
use crate::ir::{Block, Builder, Def, Func, Inst, Op, Term, Value};

/// Runs the pass.
pub fn run(f: &mut Func) {
    let chooses = |f: &Func, b: usize| f.blocks[b].insts.iter().any(|&i| f.inst(i).op == Op::Select);
    let list: Vec<u32> = (0..f.blocks.len())
        .filter(|&b| b != 0 && !f.blocks[b].params.is_empty() && chooses(f, b))
        .map(|b| b as u32)
        .collect();
    if list.is_empty() {
        return;
    }
    let (cfg, uses) = (f.cfg(), uses(f));
    let dom = cfg.dominators();
    let mut replaced = identity(f);
    let mut any = false;
    for b in list.into_iter().filter(|&b| cfg.reachable(b)) {
        for id in f.blocks[b as usize].insts.clone() {
            let inst = f.inst(id).clone();
            if inst.op == Op::Select
                && let Some(way) = unread(f, &cfg, &uses, b, &inst)
                && let Some(v) = known(f, &dom, way.other, way.from)
            {
                for e in f.blocks[way.from as usize].term.edges_mut() {
                    if e.block.0 == b {
                        e.args[way.nth] = v;
                    }
                }
                replaced[inst.results[0].index()] = way.param;
                any = true;
            }
        }
    }
    if any {
        replaced.extend((replaced.len() as u32..f.values.len() as u32).map(Value));
        substitute(f, &mut replaced);
    }
}

/// A way to a block whose value nobody reads.
struct Way {
    /// The block that it comes from.
    from: u32,
    /// Which parameter it brings, and its value.
    nth: usize,
    param: Value,
    /// What is chosen instead.
    other: Value,
}

/// The way on which what it brings to block `b` is not what `choice` takes, if the choice is all that reads it.
fn unread(f: &Func, cfg: &Cfg, uses: &[u32], b: u32, choice: &Inst) -> Option<Way> {
    let own = |v: Value| match f.def(v) {
        Def::Param(block, nth) if block.0 == b && uses[v.index()] == 1 => Some(nth as usize),
        _ => None,
    };
    let (yes, no, cond) = (choice.args[0], choice.args[1], choice.args[2]);
    // Whether the parameter is taken where the condition holds.
    let (nth, param, other, taken) = match (own(yes), own(no)) {
        (Some(nth), _) => (nth, yes, no, true),
        (None, Some(nth)) => (nth, no, yes, false),
        _ => return None,
    };
    let &[p, q] = cfg.preds[b as usize].as_slice() else { return None };
    // One of them asks; the other one is on one side of it and has nothing else before it.
    let side = |head: u32, side: u32| {
        let Term::CondBr { cond: asked, then, els, .. } = &f.blocks[head as usize].term else { return None };
        let goes = matches!(f.blocks[side as usize].term, Term::Br(_)) && cfg.preds[side as usize].as_slice() == [head];
        if *asked != cond || !goes || then.block == els.block {
            return None;
        }
        // Who comes straight from the head where the condition holds, and does not.
        match (then.block.0 == b && els.block.0 == side, els.block.0 == b && then.block.0 == side) {
            (true, _) => Some(if taken { side } else { head }),
            (_, true) => Some(if taken { head } else { side }),
            _ => None,
        }
    };
    let from = side(p, q).or_else(|| side(q, p))?;
    Some(Way { from, nth, param, other })
}

/// `v` where block `b` ends: itself if it is there, a constant anew.
fn known(f: &mut Func, dom: &DomTree, v: Value, b: u32) -> Option<Value> {
    let home = match f.def(v) {
        Def::Param(block, _) => Some(block.0),
        Def::Inst(..) => None,
    };
    if home.is_some_and(|home| dom.dominates(home, b)) {
        return Some(v);
    }
    let bits = f.constant(v)?;
    let ty = f.ty(v);
    Some(Builder::new(f, Block(b)).constant(ty, bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::{dce, params};

    /// A loop with a load that a condition guards, and what is chosen behind it.
    fn after(choice: &str, branch: &str) -> String {
        let body = format!(
            "func k returns(b32) {{\nblk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = const {{imm=0}}\nv2:b32 = const {{imm=9}}\nbr blk1(v1, v1)\n\
             blk1(v3:b32, v4:b32):\nv5:p = icmp v3, v2 {{cmp=lt}}\nbrif v5, {branch}\nblk2():\nv6:b32 = load v0 {{space=global bytes=4}}\nbr blk3(v6)\n\
             blk3(v7:b32):\nv8:b32 = {choice}\nv9:b32 = iadd v3, v8\nv10:p = icmp v9, v2 {{cmp=ne}}\nbrif v10, blk1(v9, v8), blk4()\nblk4():\nret v8\n}}"
        );
        let mut f = text::parse(&body).unwrap().remove(0);
        run(&mut f);
        params::run(&mut f);
        dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn what_a_guard_leaves_out_is_not_kept() {
        let t = after("select v7, v1, v5", "blk2(), blk3(v4)");
        assert!(!t.contains("select") && !t.contains("v4:b32"), "{t}");
        // The other way around.
        let t = after("select v1, v7, v5", "blk3(v4), blk2()");
        assert!(!t.contains("select") && !t.contains("v4:b32"), "{t}");
    }

    #[test]
    fn what_is_read_is_kept() {
        // What was there before is what is taken.
        let t = after("select v1, v7, v5", "blk2(), blk3(v4)");
        assert!(t.contains("blk3(v4)") && !t.contains("select"), "{t}");
        let t = after("select v7, v1, v5", "blk3(v4), blk2()");
        assert!(t.contains("blk3(v4)"), "{t}");
        // Something else reads it, too.
        let t = after("imad v7, v7, v1", "blk2(), blk3(v4)");
        assert!(t.contains("blk3(v4)"), "{t}");
    }
}
