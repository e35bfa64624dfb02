//! Changes of the graph before and after the analysis: one return, blocks on edges, blocks that groups of threads take in turns.

use super::Convergence;
use crate::ir::{Edge, Func, Op, Term};

/// The barrier around operations that groups of threads take in turns: of a kernel, and of a function, which may change it.
pub(super) const EXCLUSIVE: (u8, u8) = (11, 5);

/// Lets all ways to the end of a function meet in one block.
pub(super) fn one_return(f: &mut Func) {
    let returns = |t: &Term| matches!(t, Term::Ret(_));
    if f.blocks.iter().filter(|b| returns(&b.term)).count() < 2 {
        return;
    }
    let mut end = None;
    for b in 0..f.blocks.len() {
        let Term::Ret(values) = f.blocks[b].term.clone() else { continue };
        let end = *end.get_or_insert_with(|| {
            let end = f.new_block();
            let params = values.iter().map(|&v| f.add_param(end, f.ty(v))).collect();
            f.blocks[end.index()].term = Term::Ret(params);
            end
        });
        if end.index() != b {
            f.blocks[b].term = Term::Br(Edge { block: end, args: values });
        }
    }
}

/// Gives every edge with arguments from a branch to a place with other ways in a block of its own: selection makes
/// constants there, where only that way needs them.
pub(super) fn split_edges(f: &mut Func, found: &mut Convergence) {
    let mut preds = vec![0u32; f.blocks.len()];
    for b in &f.blocks {
        b.term.successors().iter().for_each(|s| preds[s.index()] += 1);
    }
    for b in 0..f.blocks.len() {
        let mut term = f.blocks[b].term.clone();
        if let Term::CondBr { cond, uniform, .. } = term {
            let apart = found.divergent[b] || !(uniform || found.uniform.get(cond.index()).is_some_and(|u| *u));
            for e in term.edges_mut() {
                if e.args.is_empty() || preds[e.block.index()] < 2 {
                    continue;
                }
                let new = f.new_block();
                let old = std::mem::replace(e, Edge { block: new, args: vec![] });
                f.blocks[new.index()].term = Term::Br(old);
                found.push(apart, Vec::new(), None);
            }
            f.blocks[b].term = term;
        }
    }
}

/// `redux` writes a register of the whole warp: where its threads may be apart, or are not all of the warp, each group
/// does it alone, in a block of its own between a barrier's start and its wait.
pub(super) fn take_turns(f: &mut Func, found: &mut Convergence) {
    let mut b = 0;
    let exclusive = if f.entry { EXCLUSIVE.0 } else { EXCLUSIVE.1 };
    while b < f.blocks.len() {
        let at = f.blocks[b].insts.iter().position(|&i| {
            let inst = f.inst(i);
            inst.op == Op::Redux && (found.divergent[b] || f.constant(inst.args[1]) != Some(0xffff_ffff))
        });
        let alone = f.blocks[b].insts.len() == 1 && matches!(f.blocks[b].term, Term::Br(_));
        if let (Some(at), false) = (at, alone && found.divergent[b] && found.open[b].is_empty()) {
            let (mid, rest) = (f.new_block(), f.new_block());
            let tail = f.blocks[b].insts.split_off(at + 1);
            let redux = f.blocks[b].insts.split_off(at);
            let term = std::mem::replace(&mut f.blocks[b].term, Term::Br(Edge { block: mid, args: vec![] }));
            f.blocks[mid.index()].insts = redux;
            f.blocks[mid.index()].term = Term::Br(Edge { block: rest, args: vec![] });
            f.blocks[rest.index()].insts = tail;
            f.blocks[rest.index()].term = term;
            let open = std::mem::replace(&mut found.open[b], vec![(exclusive, rest)]);
            let apart = found.divergent[b];
            found.push(true, Vec::new(), None);
            found.push(apart, open, Some(exclusive));
        }
        b += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    #[test]
    fn returns_meet_in_one_block() {
        let body = "blk0():\nv0:b32 = sreg\nv1:b32 = const {imm=3}\nv2:p = icmp v0, v1 {cmp=lt}\nbrif v2, blk1(), blk2()\nblk1():\nret v0\nblk2():\nret v1";
        let mut f = text::parse(&format!("func f returns(b32) {{\n{body}\n}}")).unwrap().remove(0);
        one_return(&mut f);
        verify::verify(&f).unwrap();
        let ends = f.blocks.iter().filter(|b| matches!(b.term, Term::Ret(_))).count();
        assert_eq!((f.blocks.len(), ends), (4, 1));
    }
}
