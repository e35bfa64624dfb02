//! Which barrier each region takes, and the blocks where threads may be apart.

use super::{BARRIERS, Convergence, EXCLUSIVE, Graphs, Region, called, divergent_branch, fails, region, walk_all};
use crate::abi::Convention;
use crate::bitset::Gathered;
use crate::cfg::{Cfg, NONE};
use crate::ir::{Block, Func, Op, Term};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Gives barriers numbers and marks the blocks where threads may be apart.
pub(super) fn mark(f: &Func, mut uniform: Vec<bool>, regions: Option<Vec<Region>>, before: Graphs) -> Convergence {
    let n = f.blocks.len();
    let graphs = if regions.is_some() { Graphs::of(f) } else { before };
    let (cfg, regions) = (&graphs.living, regions.unwrap_or_default());
    // Parameters of join blocks are new values: as uniform as what they pass on, which is a divergent join's.
    uniform.resize(f.values.len(), false);
    let mut out = Convergence {
        divergent: vec![false; n],
        uniform,
        open: vec![Vec::new(); n],
        close: vec![None; n],
        leave: vec![None; n],
    };
    if !regions.is_empty() {
        number(f, cfg, &regions, &mut out);
    }
    apart(f, &graphs, &regions, &mut out);
    out
}

/// The regions, outer ones (larger) first: they get the lower numbers, and their `BSSY` comes first in a shared block.
fn outer_first(cfg: &Cfg, regions: &[Region]) -> Vec<u32> {
    let mut order: Vec<(usize, u32)> =
        regions.iter().enumerate().map(|(i, r)| (r.blocks(cfg).list().len(), i as u32)).collect();
    order.sort_by_key(|&(size, i)| (std::cmp::Reverse(size), i));
    let mut order: Vec<u32> = order.into_iter().map(|x| x.1).collect();
    // Of those that begin together the one that another's end lies in is around it, though it may be as small where threads leave it sooner.
    let mut together: FxHashMap<u32, u32> = FxHashMap::default();
    regions.iter().for_each(|r| *together.entry(r.start).or_default() += 1);
    for k in 1..order.len() {
        let outer = &regions[order[k] as usize];
        if together[&outer.start] < 2 {
            continue;
        }
        let set = outer.blocks(cfg);
        let within = |&i: &usize| {
            let inner = &regions[order[i] as usize];
            inner.start == outer.start && set.contains(inner.join)
        };
        if let Some(i) = (0..k).find(within) {
            order[i..=k].rotate_right(1);
        }
    }
    order
}

/// Regions by block.
type ByBlock = FxHashMap<u32, SmallVec<[u32; 2]>>;

/// The regions that have got barriers, where they can be found: no block lies in more of them than there are barriers.
struct Numbered {
    number: Vec<Option<u8>>,
    /// By block, those that it lies in,
    holding: Vec<SmallVec<[u32; 2]>>,
    /// that begin there,
    starts: ByBlock,
    /// and whose threads wait there.
    joins: ByBlock,
}

impl Numbered {
    /// Those that may have to do with a region of these blocks; some more than once.
    fn near<'a>(&'a self, r: &Region, blocks: &'a Gathered) -> impl Iterator<Item = u32> + 'a {
        let at = |map: &'a ByBlock, b: u32| map.get(&b).into_iter().flatten().copied();
        let holding = [r.start, r.join].into_iter().flat_map(|b| self.holding[b as usize].iter().copied());
        let inside = blocks.list().iter().flat_map(move |&b| at(&self.starts, b).chain(at(&self.joins, b)));
        holding.chain(at(&self.starts, r.start)).chain(inside)
    }

    fn holds(&self, i: u32, block: u32) -> bool {
        self.holding[block as usize].contains(&i)
    }
}

/// Gives the regions their barriers, as far as there are enough.
fn number(f: &Func, cfg: &Cfg, regions: &[Region], out: &mut Convergence) {
    let n = f.blocks.len();
    // By block, the first barrier that its callees keep, and whether one of them saves barriers.
    let (mut kept, mut saving) = (vec![0; n], vec![false; n]);
    for (b, block) in f.blocks.iter().enumerate() {
        for &i in &block.insts {
            if let Some(convention) = called(f, i) {
                kept[b] = kept[b].max(Convention::kept_barrier(convention));
                saving[b] |= matches!(f.inst(i).op, Op::Call | Op::CallIndirect);
            }
        }
    }
    let mut known = Numbered {
        number: vec![None; regions.len()],
        holding: vec![SmallVec::new(); n],
        starts: ByBlock::default(),
        joins: ByBlock::default(),
    };
    for i in outer_first(cfg, regions) {
        let r = &regions[i as usize];
        let blocks = r.blocks(cfg);
        let mut used = [false; BARRIERS];
        // Threads that call a function have what it saves of the barrier in a register: giving it up meanwhile would change nothing there.
        let mut crossed = !r.leaves.is_empty() && blocks.list().iter().any(|&b| saving[b as usize]);
        for other in known.near(r, &blocks) {
            let o = &regions[other as usize];
            let (starts, joins) = (known.holds(other, r.start), known.holds(other, r.join));
            let begins = blocks.contains(o.start);
            // One that ends in another and begins before it: each would wait for threads that wait for the other.
            crossed |= blocks.contains(o.join) && !begins || joins && !starts && o.start != r.start;
            // Both barriers are alive somewhere if one region starts within the other, or they start together.
            if let (true, Some(b)) = (starts || o.start == r.start || begins || joins, known.number[other as usize]) {
                used[b as usize] = true;
            }
        }
        // A barrier around a call must be one that the callee keeps.
        let first = blocks.list().iter().map(|&b| kept[b as usize]).fold(kept[r.start as usize], usize::max);
        let usable = |b: &usize| !crossed && !used[*b] && (f.entry || *b != EXCLUSIVE.1 as usize);
        let Some(b) = (first..BARRIERS).find(usable).map(|b| b as u8) else { continue };
        known.number[i as usize] = Some(b);
        blocks.list().iter().for_each(|&x| known.holding[x as usize].push(i));
        known.starts.entry(r.start).or_default().push(i);
        known.joins.entry(r.join).or_default().push(i);
        out.open[r.start as usize].push((b, Block(r.join)));
        out.close[r.join as usize] = Some(b);
        r.leaves.iter().for_each(|&l| out.leave[l as usize] = Some(b));
    }
}

/// Marks the blocks where threads may be apart: between a divergent branch and where it meets, and for good where it never does.
fn apart(f: &Func, graphs: &Graphs, regions: &[Region], out: &mut Convergence) {
    let (cfg, n) = (&graphs.living, f.blocks.len());
    let mut by_join: FxHashMap<u32, &Region> = FxHashMap::default();
    regions.iter().for_each(|r| {
        by_join.entry(r.join).or_insert(r);
    });
    // A thread that exits by a path with work on it may be behind those that go on past it.
    let works: Vec<bool> = f.blocks.iter().map(|b| matches!(b.term, Term::Exit) && !b.insts.is_empty()).collect();
    // Branches behind which threads are apart for good.
    let mut for_good: Vec<u32> = Vec::new();
    let mut working: Vec<u32> = Vec::new();
    for &d in &cfg.rpo {
        if !divergent_branch(f, cfg, &out.uniform, d) {
            continue;
        }
        let join = graphs.post(f).idom[d as usize];
        if join == NONE || join as usize >= n || out.close[join as usize].is_none() {
            for_good.push(d);
            continue;
        }
        let mut ends = false;
        let mut divide = |blocks: Gathered| {
            for &b in blocks.list() {
                out.divergent[b as usize] = true;
                ends |= works[b as usize];
            }
        };
        divide(region(cfg, d, join));
        // Threads wait at the join from the first of them on: the whole region of its barrier is divided.
        if let Some(r) = by_join.get(&join) {
            divide(r.blocks(cfg));
        }
        if ends {
            working.push(d);
        }
    }
    let mark = |from: &[u32], out: &mut Convergence| {
        walk_all(cfg, from, |_| false).list().iter().for_each(|&b| out.divergent[b as usize] = true);
    };
    mark(&for_good, out);
    // Threads whose assertion fails are at it while others go on, until these wait for them where a region around both ends.
    let mut failing: Vec<u32> = Vec::new();
    for &d in &cfg.rpo {
        let mut ends = f.blocks[d as usize].term.successors().into_iter().filter(|s| fails(f, s.0)).peekable();
        if ends.peek().is_none() {
            continue;
        }
        ends.for_each(|s| out.divergent[s.index()] = true);
        let all_agree = match &f.blocks[d as usize].term {
            Term::CondBr { cond, uniform, .. } => *uniform || out.uniform[cond.index()],
            Term::Switch { index, uniform, .. } => *uniform || out.uniform[index.index()],
            _ => true,
        };
        if !all_agree && !out.divergent[d as usize] {
            failing.push(d);
        }
    }
    mark(&failing, out);
    mark(&working, out);
}
