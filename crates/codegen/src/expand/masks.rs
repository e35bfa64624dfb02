//! Votes and matches of some threads of a warp: the machine's operations work on all that execute them together, so the
//! result is cut to the member mask.

use super::{Cx, Step};
use crate::ir::{Attr, Cmp, Op, Ty, Value};

/// Bit of `sub` of a vote or match that is already cut to its mask by what follows it.
pub const RAW: u8 = 4;

pub(super) fn expand(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let mask = inst.args[1];
    if inst.attr.sub & RAW != 0 || cx.f.constant(mask) == Some(0xffff_ffff) {
        return Step::Keep;
    }
    if inst.op == Op::Match {
        let raw = cx.one(Op::Match, Attr { sub: RAW, ..Attr::default() }, &[inst.args[0], mask], Ty::B32);
        let same = cx.op(Op::And, &[raw, mask], Ty::B32);
        if inst.attr.sub == 0 {
            return Step::Values(vec![same]);
        }
        // All equal: the mask itself, else nothing.
        let all = cx.b().icmp(Cmp::Eq, false, same, mask);
        let zero = cx.k(Ty::B32, 0);
        let v = cx.op(Op::Select, &[mask, zero, all], Ty::B32);
        return Step::Values(vec![v, all]);
    }
    let raw = cx.one(Op::Vote, Attr { sub: 3 | RAW, ..Attr::default() }, &[inst.args[0], mask], Ty::B32);
    let votes = cx.op(Op::And, &[raw, mask], Ty::B32);
    let zero = cx.k(Ty::B32, 0);
    let is = |cx: &mut Cx, cmp: Cmp, v: Value| cx.b().icmp(cmp, false, votes, v);
    let v = match inst.attr.sub & 3 {
        0 => is(cx, Cmp::Eq, mask),
        1 => is(cx, Cmp::Ne, zero),
        2 => {
            let (all, none) = (is(cx, Cmp::Eq, mask), is(cx, Cmp::Eq, zero));
            cx.op(Op::Or, &[all, none], Ty::P)
        }
        _ => votes,
    };
    Step::Values(vec![v])
}
