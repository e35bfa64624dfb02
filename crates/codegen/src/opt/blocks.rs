//! Tidies the graph: branches on constants, blocks that only go on, chains of blocks, what cannot be reached.

use super::{identity, substitute};
use crate::ir::{Block, BlockData, Func, Term};

/// Runs the pass.
pub fn run(f: &mut Func) {
    constant_branches(f);
    skip_empty(f);
    constant_branches(f);
    merge(f);
    sweep(f);
}

/// A branch whose condition is known, or whose edges are the same, becomes plain.
fn constant_branches(f: &mut Func) {
    for b in 0..f.blocks.len() {
        let new = match &f.blocks[b].term {
            Term::CondBr { cond, then, els, .. } => match f.constant(*cond) {
                Some(c) => Some(Term::Br(if c & 1 != 0 { then.clone() } else { els.clone() })),
                None if then == els => Some(Term::Br(then.clone())),
                None => None,
            },
            Term::Switch { index, targets, .. } => f
                .constant(*index)
                .and_then(|c| targets.get(c as usize))
                .map(|&t| Term::Br(crate::ir::Edge { block: t, args: vec![] })),
            _ => None,
        };
        if let Some(t) = new {
            f.blocks[b].term = t;
        }
    }
}

/// Edges to a block that only goes on (without parameters of its own) go on themselves.
fn skip_empty(f: &mut Func) {
    for b in 0..f.blocks.len() {
        let mut term = f.blocks[b].term.clone();
        for e in term.edges_mut() {
            // A chain of empty blocks may be a circle: bounded by its length.
            for _ in 0..8 {
                let t = &f.blocks[e.block.index()];
                match &t.term {
                    Term::Br(next) if t.insts.is_empty() && t.params.is_empty() && next.block != e.block => {
                        *e = next.clone();
                    }
                    _ => break,
                }
            }
        }
        // Indexed branches hand nothing over.
        let goes_on = |t: Block| match &f.blocks[t.index()] {
            BlockData { term: Term::Br(next), insts, params, .. }
                if insts.is_empty() && params.is_empty() && next.args.is_empty() =>
            {
                next.block
            }
            _ => t,
        };
        if let Term::Switch { targets, .. } = &mut term {
            targets.iter_mut().for_each(|t| *t = goes_on(*t));
        }
        f.blocks[b].term = term;
    }
}

/// A block whose only successor has only it as predecessor takes that one in.
fn merge(f: &mut Func) {
    let cfg = f.cfg();
    let mut preds: Vec<usize> = cfg.preds.iter().map(|p| p.len()).collect();
    let mut replaced = identity(f);
    for &b in &cfg.rpo {
        let b = b as usize;
        if !cfg.reachable(b as u32) || f.blocks[b].term == Term::Unreachable {
            continue;
        }
        while let Term::Br(e) = &f.blocks[b].term {
            let t = e.block.index();
            if preds[t] != 1 || t == b || t == 0 {
                break;
            }
            let args = e.args.clone();
            let taken = std::mem::replace(&mut f.blocks[t], BlockData::empty());
            preds[t] = 0;
            for (&p, &a) in taken.params.iter().zip(&args) {
                replaced[p.index()] = a;
            }
            f.blocks[b].insts.extend(taken.insts);
            (f.blocks[b].term, f.blocks[b].loc) = (taken.term, taken.loc);
        }
    }
    substitute(f, &mut replaced);
}

/// Gives every loop a block of its own before it: the only way in, leading nowhere else.
pub fn preheaders(f: &mut Func) {
    let cfg = f.cfg();
    let loops = cfg.loops(&cfg.dominators());
    let before = f.blocks.len();
    for (header, members) in &loops.members {
        let outside: Vec<u32> = cfg.preds[*header as usize].iter().copied().filter(|p| !members.contains(p)).collect();
        let alone = matches!(outside.as_slice(), [p] if f.blocks[*p as usize].term.successors().len() == 1);
        if alone || outside.is_empty() {
            continue;
        }
        let new = f.new_block();
        let params = f.blocks[*header as usize].params.clone();
        let args = params.iter().map(|&p| f.add_param(new, f.ty(p))).collect();
        f.blocks[new.index()].term = Term::Br(crate::ir::Edge { block: Block(*header), args });
        for p in outside {
            f.blocks[p as usize].term.retarget(|t| if t.0 == *header { new } else { t });
        }
    }
    // Most of their parameters carry one value.
    if f.blocks.len() > before {
        super::params::run(f);
    }
}

/// Removes blocks that cannot be reached and numbers the others in reverse postorder.
fn sweep(f: &mut Func) {
    let cfg = f.cfg();
    let mut number = vec![u32::MAX; f.blocks.len()];
    for (n, &b) in cfg.rpo.iter().enumerate() {
        number[b as usize] = n as u32;
    }
    let mut blocks = Vec::with_capacity(cfg.rpo.len());
    for &b in &cfg.rpo {
        blocks.push(f.blocks[b as usize].clone());
    }
    f.blocks = blocks;
    for b in 0..f.blocks.len() {
        f.blocks[b].term.retarget(|t| Block(number[t.index()]));
        for (n, p) in f.blocks[b].params.clone().into_iter().enumerate() {
            f.values[p.index()].def = crate::ir::Def::Param(Block(b as u32), n as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    #[test]
    fn chains_and_known_branches_collapse() {
        let mut f = text::parse(
            "func k returns(b32) {\nblk0():\n v0:p = const {imm=1}\n v1:b32 = const {imm=4}\n brif v0, blk1(v1), blk2()\nblk1(v2:b32):\n br blk3(v2)\nblk2():\n br blk3(v1)\nblk3(v3:b32):\n v4:b32 = not v3\n ret v4\n}",
        )
        .unwrap()
        .remove(0);
        run(&mut f);
        verify::verify(&f).unwrap();
        assert_eq!(f.blocks.len(), 1, "{}", text::print(&f));
        assert!(text::print(&f).contains("not v1"));
    }
}
