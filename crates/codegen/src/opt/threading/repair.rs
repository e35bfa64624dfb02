//! Values of a block that now stands several times: each reader gets that of the copy which control came by.

use crate::cfg::Cfg;
use crate::ir::{Block, BlockData, Edge, Func, Term, Value};
use rustc_hash::FxHashMap;

/// A block and its copies: where each stands, and what its values are called there.
pub struct Copies {
    /// The block that was copied.
    pub block: u32,
    /// The copies, each with a value for every one of the block's.
    pub copies: Vec<(u32, FxHashMap<Value, Value>)>,
}

/// Gives every block that reads a value of a copied block the one that reaches it, through new parameters where ways meet.
pub fn run(f: &mut Func, list: &[Copies]) {
    split_switches(f);
    let cfg = f.cfg();
    // What nobody comes to any more hands over nothing.
    for b in (0..f.blocks.len()).filter(|&b| !cfg.reachable(b as u32)) {
        f.blocks[b] = BlockData::empty();
    }
    let mut uses: FxHashMap<Value, Vec<u32>> = FxHashMap::default();
    let mut owner = vec![u32::MAX; f.values.len()];
    for (n, c) in list.iter().enumerate() {
        let values = c.copies.iter().flat_map(|(_, map)| map.keys());
        values.for_each(|v| owner[v.index()] = n as u32);
    }
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        let mut note = |v: Value| {
            let n = owner[v.index()];
            if n != u32::MAX && list[n as usize].block != b {
                let blocks = uses.entry(v).or_default();
                if blocks.last() != Some(&b) {
                    blocks.push(b);
                }
            }
        };
        block.insts.iter().for_each(|&i| f.inst(i).args.iter().copied().for_each(&mut note));
        block.term.visit(note);
    }
    // In an order that does not hang on hashes.
    let mut uses: Vec<(Value, Vec<u32>)> = uses.into_iter().collect();
    uses.sort_unstable();
    let mut new: FxHashMap<(u32, Value), Value> = FxHashMap::default();
    for (v, blocks) in uses {
        one(f, &cfg, &list[owner[v.index()] as usize], v, &blocks, &mut new);
    }
    for &b in &cfg.rpo {
        let mut block = std::mem::replace(&mut f.blocks[b as usize], BlockData::empty());
        let name = |v: Value| match owner.get(v.index()) {
            Some(&n) if n != u32::MAX => new.get(&(b, v)).copied().unwrap_or(v),
            _ => v,
        };
        for &i in &block.insts {
            f.insts[i.0 as usize].args.iter_mut().for_each(|a| *a = name(*a));
        }
        block.term.map(name);
        f.blocks[b as usize] = block;
    }
}

/// The same for one value and the blocks that read it. What it is called at the start of these goes into `new`.
fn one(f: &mut Func, cfg: &Cfg, c: &Copies, v: Value, blocks: &[u32], new: &mut FxHashMap<(u32, Value), Value>) {
    let made = |b: u32| match c.copies.iter().find(|(at, _)| *at == b) {
        Some((_, map)) => map.get(&v).copied(),
        None => (b == c.block).then_some(v),
    };
    // Where it must be known at the start.
    let mut start: FxHashMap<u32, Option<Value>> = FxHashMap::default();
    let mut work = blocks.to_vec();
    while let Some(b) = work.pop() {
        if start.insert(b, None).is_none() {
            let before = cfg.preds[b as usize].iter().copied();
            work.extend(before.filter(|&p| made(p).is_none() && !start.contains_key(&p)));
        }
    }
    let mut order: Vec<u32> = start.keys().copied().collect();
    order.sort_unstable_by_key(|&b| cfg.rpo_index[b as usize]);
    let mut params: FxHashMap<u32, Value> = FxHashMap::default();
    loop {
        let mut changed = false;
        for &b in &order {
            if params.contains_key(&b) {
                continue;
            }
            let end = |p: u32| made(p).or_else(|| start.get(&p).copied().flatten());
            let mut ways = cfg.preds[b as usize].iter().filter_map(|&p| end(p));
            let first = ways.next();
            let known = if ways.any(|w| Some(w) != first) {
                let p = f.add_param(Block(b), f.ty(v));
                params.insert(b, p);
                Some(p)
            } else {
                first
            };
            if start.insert(b, known) != Some(known) {
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    for &b in order.iter().filter(|b| params.contains_key(b)) {
        let mut before: Vec<u32> = cfg.preds[b as usize].to_vec();
        before.dedup();
        before.sort_unstable();
        before.dedup();
        for p in before {
            // What reaches the start of every such block was made somewhere before it.
            let Some(value) = made(p).or_else(|| start.get(&p).copied().flatten()) else { continue };
            for e in f.blocks[p as usize].term.edges_mut() {
                if e.block.0 == b {
                    e.args.push(value);
                }
            }
        }
    }
    for &b in blocks {
        if let Some(Some(value)) = start.get(&b) {
            new.insert((b, v), *value);
        }
    }
}

/// Puts a block on each of the ways of an indexed branch that lead where others lead, too: these carry no values.
fn split_switches(f: &mut Func) {
    if !f.blocks.iter().any(|b| matches!(b.term, Term::Switch { .. })) {
        return;
    }
    let cfg = f.cfg();
    for b in 0..cfg.len() {
        let Term::Switch { targets, .. } = &f.blocks[b].term else { continue };
        let mut between: FxHashMap<Block, Block> = FxHashMap::default();
        let shared = |t: &Block| cfg.preds[t.index()].iter().any(|&p| p != b as u32);
        for t in targets.clone().into_iter().filter(shared) {
            between.entry(t).or_insert_with(|| {
                let n = f.new_block();
                f.blocks[n.index()].term = Term::Br(Edge { block: t, args: vec![] });
                n
            });
        }
        f.blocks[b].term.retarget(|t| between.get(&t).copied().unwrap_or(t));
    }
}
