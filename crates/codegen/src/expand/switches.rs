//! Indexed branches as comparisons, for code that shall have no table of targets in a constant bank
//! (`--disable-optimizer-constants`): a tree that halves the range of the index.

use crate::ir::{Block, Builder, Cmp, Edge, Func, Term, Ty, Value};

/// Replaces every indexed branch.
pub fn run(f: &mut Func) {
    for b in 0..f.blocks.len() {
        if let Term::Switch { index, uniform, targets } = &f.blocks[b].term {
            let (index, uniform, targets) = (*index, *uniform, targets.clone());
            tree(f, Block(b as u32), (index, uniform), 0, &targets);
        }
    }
}

/// Ends `block` with a branch to `targets[index - first]`.
fn tree(f: &mut Func, block: Block, by: (Value, bool), first: usize, targets: &[Block]) {
    let loc = f.blocks[block.index()].loc;
    let edge = |block: Block| Edge { block, args: vec![] };
    if targets.iter().all(|t| *t == targets[0]) {
        f.blocks[block.index()].term = Term::Br(edge(targets[0]));
        return;
    }
    let (low, high) = targets.split_at(targets.len() / 2);
    let middle = first + low.len();
    let mut b = Builder::new(f, block);
    b.loc = loc;
    let limit = b.constant(Ty::B32, middle as u64);
    let cond = b.icmp(Cmp::Lt, false, by.0, limit);
    let halves = [(first, low), (middle, high)].map(|(first, part)| {
        let next = f.new_block();
        f.blocks[next.index()].loc = loc;
        (next, first, part)
    });
    let (then, els) = (edge(halves[0].0), edge(halves[1].0));
    f.blocks[block.index()].term = Term::CondBr { cond, uniform: by.1, then, els };
    for (next, first, part) in halves {
        tree(f, next, by, first, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every index goes where the table sends it, by no more comparisons than halving needs.
    #[test]
    fn each_index_finds_its_target() {
        for size in 1..20usize {
            let mut f = Func::default();
            let block = f.new_block();
            let targets: Vec<Block> = (0..size).map(|_| f.new_block()).collect();
            let table: Vec<Block> = (0..size).map(|i| targets[i * i % size]).collect();
            let index = Builder::new(&mut f, block).constant(Ty::B32, 0);
            f.blocks[block.index()].term = Term::Switch { index, uniform: false, targets: table.clone() };
            run(&mut f);
            for (i, target) in table.iter().enumerate() {
                let (mut at, mut steps) = (block, 0);
                while !targets.contains(&at) {
                    at = match f.blocks[at.index()].term.clone() {
                        Term::Br(e) => e.block,
                        Term::CondBr { cond, then, els, .. } => {
                            steps += 1;
                            let compare = f.def_inst(cond).expect("a comparison");
                            assert!((compare.attr.cmp, compare.attr.signed) == (Cmp::Lt, false));
                            let limit = f.constant(compare.args[1]).expect("a constant");
                            if (i as u64) < limit { then.block } else { els.block }
                        }
                        other => panic!("{other:?}"),
                    };
                }
                assert_eq!(at, *target, "index {i} of {size}");
                assert!(steps <= size.next_power_of_two().ilog2(), "{steps} steps for {size}");
            }
        }
    }
}
