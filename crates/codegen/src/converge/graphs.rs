//! The graphs that questions about divergence are asked of, each made once for a function whose blocks stay as they are.

use super::only_exits;
use crate::bitset::BitSet;
use crate::cfg::{Blocks, Cfg, DomTree};
use crate::ir::Func;
use std::cell::OnceCell;

/// Those of one function. What is asked for later is asked with the function that they are of.
pub(super) struct Graphs {
    /// See [`living_graph`].
    pub living: Cfg,
    full: OnceCell<Cfg>,
    dom: OnceCell<DomTree>,
    post: OnceCell<DomTree>,
}

impl Graphs {
    pub fn of(f: &Func) -> Graphs {
        Graphs { living: living_graph(f), full: OnceCell::new(), dom: OnceCell::new(), post: OnceCell::new() }
    }

    /// The graph with all edges.
    pub fn full(&self, f: &Func) -> &Cfg {
        self.full.get_or_init(|| f.cfg())
    }

    /// Dominators of the living graph.
    pub fn dom(&self) -> &DomTree {
        self.dom.get_or_init(|| self.living.dominators())
    }

    /// See [`meetings`].
    pub fn post(&self, f: &Func) -> &DomTree {
        self.post.get_or_init(|| meetings(f, &self.living))
    }
}

/// The graph without edges to blocks that only exit: threads that leave there need not be waited for.
pub(super) fn living_graph(f: &Func) -> Cfg {
    let succs = f.blocks.iter().map(|b| {
        let all: Blocks = b.term.successors().into_iter().map(|s| s.0).collect();
        let living: Blocks = all.iter().copied().filter(|&s| !only_exits(f, s)).collect();
        if living.is_empty() { all } else { living }
    });
    Cfg::new(succs.collect())
}

/// Post-dominators of the living graph. A loop that threads leave by exiting alone has no end there: of the ways out of it the
/// last one counts, so that branches inside it meet again before it.
fn meetings(f: &Func, cfg: &Cfg) -> DomTree {
    let mut ends = BitSet::new(f.blocks.len());
    let reach = |ends: &mut BitSet, from: u32| {
        let mut work = vec![from];
        while let Some(b) = work.pop() {
            if ends.insert(b as usize) {
                work.extend(&cfg.preds[b as usize]);
            }
        }
    };
    cfg.rpo.iter().filter(|&&b| cfg.succs[b as usize].is_empty()).for_each(|&b| reach(&mut ends, b));
    let mut succs: Option<Vec<Blocks>> = None;
    for &b in cfg.rpo.iter().rev() {
        let all = || f.blocks[b as usize].term.successors().into_iter().map(|s| s.0).collect::<Blocks>();
        if !ends.contains(b as usize) && all().len() > cfg.succs[b as usize].len() {
            succs.get_or_insert_with(|| cfg.succs.clone())[b as usize] = all();
            reach(&mut ends, b);
        }
    }
    match succs {
        Some(succs) => Cfg::new(succs).postdominators(),
        None => cfg.postdominators(),
    }
}
