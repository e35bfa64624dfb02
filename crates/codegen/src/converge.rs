//! Divergence: which values and branches differ between the threads of a warp, and where threads meet again.
//!
//! Needs a verified entry or device function; changes the graph by *join blocks*: a join block collects the edges that
//! leave the region of a divergent branch, waits there (`BSYNC`), and goes on to the old target. The matching `BSSY`
//! stands at the end of a block that dominates the region. A device function may be entered by part of a warp: all its
//! blocks are marked divergent, and its threads meet for speed alone; the ways to its end meet in one block.
//!
//! Correctness never rests on meeting again where a block is marked divergent: operations of a whole warp synchronise
//! there by themselves. What stands in the other blocks rests on it, the uniform registers among it: they are
//! written in blocks that are not marked, and nowhere else. Selection lets the warp meet there behind calls.
//!
//! Of the barrier registers a function may change those below [`KEPT`], or what it says of itself ([`Convention`]); it saves the others where it uses them
//! (observed of the vendor's functions, which save B6 with `BMOV.32.CLEAR`), so that a barrier around a call is one of these.

pub mod check;
mod graphs;
mod iterations;
mod mark;
mod promise;
mod shape;

use crate::abi::Convention;
use crate::bitset::{BitSet, Gathered};
use crate::cfg::{Blocks, Cfg, DomTree, Loops, NONE};
use crate::ir::{Block, BlockData, Builder, Def, Edge, Effect, Func, InstId, MemSpace, Op, Sem, Sreg, Term, Value};
use crate::lower::asynchronous::barrier;
use graphs::{Graphs, living_graph};
use mark::mark;
pub use promise::by_whole_warps;
use rustc_hash::FxHashMap;
use shape::{EXCLUSIVE, one_return, split_edges, take_turns};
use std::cell::OnceCell;

/// Convergence barriers that regions may use: B0 to B10 (the vendor's compiler uses up to B11).
const BARRIERS: usize = 11;

/// Barriers that functions keep, of those that regions may use.
pub const KEPT: std::ops::Range<usize> = 6..BARRIERS;

/// What the callee keeps, where an instruction is a call.
pub fn called(f: &Func, id: InstId) -> Option<Convention> {
    let inst = f.inst(id);
    is_call(inst.op).then(|| f.calls.get(inst.imm as usize).map(|s| s.convention).unwrap_or_default())
}

/// True for a call, of whatever function.
fn is_call(op: Op) -> bool {
    matches!(op, Op::Call | Op::Routine | Op::CallIndirect)
}

/// What the analysis found.
#[derive(Clone, Debug, Default)]
pub struct Convergence {
    /// By block: threads of a warp may not all be here together.
    pub divergent: Vec<bool>,
    /// By value: all threads that execute its definition together get the same bits.
    pub uniform: Vec<bool>,
    /// By block: barriers set at its end, outermost first, with the join block where they are waited for.
    pub open: Vec<Vec<(u8, Block)>>,
    /// By block: the barrier waited for at its start.
    pub close: Vec<Option<u8>>,
    /// By block: the barrier that threads give up at its start, as they go past its join.
    pub leave: Vec<Option<u8>>,
}

impl Convergence {
    /// Appends what holds for a block that was added: whether threads may be apart there, barriers set at its end, one waited for.
    fn push(&mut self, divergent: bool, open: Vec<(u8, Block)>, close: Option<u8>) {
        self.divergent.push(divergent);
        self.open.push(open);
        self.close.push(close);
        self.leave.push(None);
    }
}

/// Analyses a function and puts join blocks in.
pub fn run(f: &mut Func) -> Convergence {
    choose(f);
    crate::opt::blocks::preheaders(f);
    let mut found = if f.entry {
        let graphs = Graphs::of(f);
        promise::run(f, &graphs);
        let uniform = uniform_values(f, &graphs);
        let regions = place_joins(f, &uniform, &graphs);
        mark(f, uniform, regions, graphs)
    } else {
        one_return(f);
        let graphs = Graphs::of(f);
        let regions = place_joins(f, &uniform(f), &graphs);
        let found = mark(f, Vec::new(), regions, graphs);
        Convergence { divergent: vec![true; f.blocks.len()], uniform: vec![false; f.values.len()], ..found }
    };
    take_turns(f, &mut found);
    split_edges(f, &mut found);
    found
}

/// A branch both sides of which go to one block with different values chooses among values: nobody need come apart there. As a branch it would
/// have no place between its sides where they meet.
fn choose(f: &mut Func) {
    for b in 0..f.blocks.len() {
        let Term::CondBr { cond, then, els, .. } = &f.blocks[b].term else { continue };
        if then.block != els.block {
            continue;
        }
        let (cond, to) = (*cond, then.block);
        let sides: Vec<(Value, Value)> = then.args.iter().copied().zip(els.args.iter().copied()).collect();
        let loc = f.blocks[b].loc;
        let mut args = Vec::with_capacity(sides.len());
        for (yes, no) in sides {
            let mut build = Builder::new(f, Block(b as u32));
            build.loc = loc;
            let ty = build.func.ty(yes);
            args.push(if yes == no { yes } else { build.op(Op::Select, &[yes, no, cond], ty) });
        }
        f.blocks[b].term = Term::Br(Edge { block: to, args });
    }
}

/// By value: all threads that execute its definition together get the same bits. Of a device function, which part of a warp may
/// enter, nothing is said but of constants and of what is the kernel's.
pub fn uniform(f: &Func) -> Vec<bool> {
    if f.entry {
        return uniform_values(f, &Graphs::of(f));
    }
    let mut out = vec![false; f.values.len()];
    for &i in f.blocks.iter().flat_map(|b| &b.insts) {
        let inst = f.inst(i);
        let same = inst.op.effect() == Effect::Pure && !source(inst) && inst.args.iter().all(|a| out[a.index()]);
        inst.results.iter().for_each(|r| out[r.index()] = same);
    }
    out
}

/// True if the block does nothing but end the thread.
fn only_exits(f: &Func, b: u32) -> bool {
    let block = &f.blocks[b as usize];
    block.term == Term::Exit && (block.insts.is_empty() || fails(f, b))
}

/// True if the block ends the thread by a function that does so.
fn fails(f: &Func, b: u32) -> bool {
    let block = &f.blocks[b as usize];
    let ends = |&i: &InstId| {
        let inst = f.inst(i);
        inst.op == Op::Call && f.calls.get(inst.imm as usize).is_some_and(|site| site.ends)
    };
    block.term == Term::Exit && block.insts.iter().rev().any(ends)
}

/// A branch whose outcome differs between threads, in the living graph.
fn divergent_branch(f: &Func, cfg: &Cfg, uniform: &[bool], b: u32) -> bool {
    let distinct = |list: &[u32]| list.windows(2).any(|w| w[0] != w[1]);
    distinct(&cfg.succs[b as usize]) && threads_differ(f, uniform, b)
}

/// True if a block ends in a branch by something that differs between threads.
fn threads_differ(f: &Func, uniform: &[bool], b: u32) -> bool {
    match &f.blocks[b as usize].term {
        Term::CondBr { cond, uniform: promised, .. } => !promised && !uniform[cond.index()],
        Term::Switch { index, uniform: promised, .. } => !promised && !uniform[index.index()],
        _ => false,
    }
}

/// Blocks between `from` (exclusive) and `join` (exclusive).
fn region(cfg: &Cfg, from: u32, join: u32) -> Gathered {
    walk(cfg, from, |b| b == join)
}

/// Blocks behind `from` (exclusive), up to where `ends` says so (exclusive).
fn walk(cfg: &Cfg, from: u32, ends: impl Fn(u32) -> bool) -> Gathered {
    walk_all(cfg, &[from], ends)
}

/// Blocks behind any of `from`, up to where `ends` says so (exclusive).
fn walk_all(cfg: &Cfg, from: &[u32], ends: impl Fn(u32) -> bool) -> Gathered {
    let mut out = Gathered::new(cfg.len());
    let mut work: Vec<u32> = from.iter().flat_map(|&b| cfg.succs[b as usize].iter().copied()).collect();
    while let Some(b) = work.pop() {
        if !ends(b) && out.insert(b) {
            work.extend(&cfg.succs[b as usize]);
        }
    }
    out
}

/// Which values are the same in all threads that compute them together.
fn uniform_values(f: &Func, graphs: &Graphs) -> Vec<bool> {
    let (cfg, full) = (&graphs.living, graphs.full(f));
    // Where no branch tells threads apart nobody asks for them.
    let nest = OnceCell::new();
    // Blocks behind branches that never meet, and loops that threads leave in different iterations, that have been looked at.
    let (mut behind, mut left) = (BitSet::new(f.blocks.len()), BitSet::new(f.blocks.len()));
    let mut uniform = vec![true; f.values.len()];
    // Blocks to look at again, by value.
    let users = OnceCell::new();
    let users = || users.get_or_init(|| readers(f));
    let mut done_branch = vec![false; f.blocks.len()];
    let mut divergent_join = vec![false; f.blocks.len()];
    // Who calls a function may do so in parts of a warp.
    let mut apart = vec![!f.entry; f.blocks.len()];
    let mut queued = vec![true; f.blocks.len()];
    let mut seen = vec![false; f.blocks.len()];
    let mut work: Vec<u32> = full.rpo.iter().rev().copied().collect();
    while let Some(b) = work.pop() {
        queued[b as usize] = false;
        let mut changed: Vec<Value> = Vec::new();
        let block = &f.blocks[b as usize];
        let set = |v: Value, read: bool, uniform: &mut Vec<bool>, changed: &mut Vec<Value>| {
            if std::mem::replace(&mut uniform[v.index()], false) && read {
                changed.push(v);
            }
        };
        // What reads a value comes behind it in its block, or in blocks that are come to later: nobody was told of it yet when
        // the block is come to for the first time.
        let again_here = std::mem::replace(&mut seen[b as usize], true);
        if divergent_join[b as usize] {
            for &p in &block.params {
                set(p, again_here, &mut uniform, &mut changed);
            }
        }
        for &i in &block.insts {
            let inst = f.inst(i);
            // Whichever lane a word that all have is read from, it is the same.
            let alike = whole(f, inst) && uniform[inst.args[0].index()];
            let differs = match told(f, inst) {
                Some(lane) => !alike && !uniform[lane.index()],
                None => {
                    source(inst) && (apart[b as usize] || !read_together(inst))
                        || (spreads(inst) && inst.args.iter().any(|a| !uniform[a.index()]))
                }
            };
            if differs && alike {
                // Whether there is such a lane is another question.
                set(inst.results[1], again_here, &mut uniform, &mut changed);
            } else if differs {
                for &r in &inst.results {
                    set(r, again_here, &mut uniform, &mut changed);
                }
            }
        }
        for e in block.term.edges() {
            for (&p, &a) in f.blocks[e.block.index()].params.iter().zip(&e.args) {
                if !uniform[a.index()] {
                    set(p, seen[e.block.index()], &mut uniform, &mut changed);
                }
            }
        }
        // A branch to one block with one value or another is a choice.
        if threads_differ(f, &uniform, b) {
            let mut first: FxHashMap<Block, &[Value]> = FxHashMap::default();
            for e in block.term.edges() {
                let before = *first.entry(e.block).or_insert(&e.args);
                let params = &f.blocks[e.block.index()].params;
                for (&p, _) in params.iter().zip(before.iter().zip(&e.args)).filter(|(_, (a, b))| a != b) {
                    set(p, seen[e.block.index()], &mut uniform, &mut changed);
                }
            }
        }
        let mut again: Vec<u32> = Vec::new();
        if !done_branch[b as usize] && divergent_branch(f, cfg, &uniform, b) {
            done_branch[b as usize] = true;
            let join = graphs.post(f).idom[b as usize];
            let meets = join != NONE && (join as usize) < f.blocks.len();
            let inside = match meets {
                true => region(cfg, b, join),
                false => walk(cfg, b, |x| behind.contains(x as usize)),
            };
            for &m in inside.list() {
                if !meets {
                    behind.insert(m as usize);
                }
                if !std::mem::replace(&mut apart[m as usize], true) {
                    again.push(m);
                }
            }
            for m in inside.list().iter().copied().chain(meets.then_some(join)) {
                if full.preds[m as usize].len() > 1 && !divergent_join[m as usize] {
                    divergent_join[m as usize] = true;
                    again.push(m);
                }
            }
            // Threads leave the loops around this branch in different iterations: what they carry out differs.
            let (nest, loops) = nest.get_or_init(|| {
                let loops = full.loops(&full.dominators());
                let members: FxHashMap<u32, usize> = loops.members.iter().enumerate().map(|(n, l)| (l.0, n)).collect();
                (Nest::new(&loops), (loops, members))
            });
            let mut around = nest.header[b as usize];
            while around != NONE {
                let h = around;
                around = nest.parent[h as usize];
                // Behind a branch that never meets the way back to the header is there, too.
                let stays = |s: &u32| nest.holds(h, *s);
                let leaves = (!meets || h == b || inside.contains(h)) && !cfg.succs[b as usize].iter().all(stays);
                if !leaves || !left.insert(h as usize) {
                    continue;
                }
                for &m in &loops.0.members[loops.1[&h]].1 {
                    let block = &f.blocks[m as usize];
                    let results = block.insts.iter().flat_map(|&i| f.inst(i).results.iter());
                    for &v in block.params.iter().chain(results) {
                        if users()[v.index()].iter().any(|&u| !nest.holds(h, u)) {
                            set(v, true, &mut uniform, &mut changed);
                        }
                    }
                }
            }
        }
        for v in changed {
            again.extend(&users()[v.index()]);
            // A parameter may be passed on by the edges of its own block.
            if let Def::Param(p, _) = f.values[v.index()].def {
                again.push(p.0);
            }
        }
        for b in again {
            if full.reachable(b) && !std::mem::replace(&mut queued[b as usize], true) {
                work.push(b);
            }
        }
    }
    uniform
}

/// By value, the blocks that read it.
pub fn readers(f: &Func) -> Vec<Blocks> {
    let mut out: Vec<Blocks> = f.values.iter().map(|_| Blocks::new()).collect();
    for (b, block) in f.blocks.iter().enumerate() {
        let mut note = |v: Value| {
            if out[v.index()].last() != Some(&(b as u32)) {
                out[v.index()].push(b as u32);
            }
        };
        for &i in &block.insts {
            f.inst(i).args.iter().copied().for_each(&mut note);
        }
        block.term.visit(note);
    }
    out
}

/// Results that differ between threads by themselves.
fn source(inst: &crate::ir::Inst) -> bool {
    match inst.op {
        Op::Sreg => Sreg::from_sub(inst.attr.sub).is_none_or(Sreg::differs),
        Op::Undef => false,
        Op::Load => !matches!(inst.mem.space, MemSpace::Const | MemSpace::Param),
        Op::LocalAddr => false,
        Op::MBarrier => !asked_together(inst),
        op => op.effect() != Effect::Pure,
    }
}

/// True for a load that gives all threads that do it together, from one place, the same: one access reads it for all of them, and what another thread
/// writes meanwhile is a race, after which nothing is known. The vendor's compiler relies on it, too, where tensor copies take their coordinates from shared memory.
fn read_together(inst: &crate::ir::Inst) -> bool {
    inst.op == Op::Load && inst.mem.sem == Sem::Weak && matches!(inst.mem.space, MemSpace::Shared | MemSpace::Global)
}

/// True for a shuffle in which all threads of the warp take part.
pub fn whole(f: &Func, inst: &crate::ir::Inst) -> bool {
    inst.op == Op::Shfl && f.constant(inst.args[3]).is_some_and(|m| m as u32 == u32::MAX)
}

/// The lane whose word this shuffle tells all lanes of the warp, if it is one that does so: all threads get one word where they name one lane.
pub fn told(f: &Func, inst: &crate::ir::Inst) -> Option<Value> {
    const BY_NUMBER: u8 = 3;
    let any = |n: usize| f.constant(inst.args[n]).is_some_and(|c| c as u32 == 0x1f);
    (whole(f, inst) && inst.attr.sub & 3 == BY_NUMBER && any(2)).then(|| inst.args[1])
}

/// Results that differ only if an argument does.
fn spreads(inst: &crate::ir::Inst) -> bool {
    inst.op.effect() == Effect::Pure || inst.op == Op::Load || asked_together(inst)
}

/// True for a question to a barrier in shared memory. Threads that ask together for one phase of one barrier get one answer:
/// selection gives the machine one address for all of them. The vendor's compiler relies on it, too.
pub fn asked_together(inst: &crate::ir::Inst) -> bool {
    inst.op == Op::MBarrier && matches!(inst.attr.sub, barrier::TEST | barrier::TRY)
}

/// A region with its join block and the blocks of the barrier.
struct Region {
    start: u32,
    join: u32,
    /// Blocks on the ways out that do not go through the join: there threads give the barrier up.
    leaves: Vec<u32>,
}

impl Region {
    /// The blocks between the start and the join.
    fn blocks(&self, cfg: &Cfg) -> Gathered {
        walk(cfg, self.start, |b| b == self.join || self.leaves.contains(&b))
    }
}

/// Finds where divergent branches meet again and puts join blocks there: one for each place, whatever the number of
/// branches that meet there.
fn place_joins(f: &mut Func, uniform: &[bool], graphs: &Graphs) -> Option<Vec<Region>> {
    let cfg = &graphs.living;
    let n = f.blocks.len();
    if !cfg.rpo.iter().any(|&b| divergent_branch(f, cfg, uniform, b)) {
        return None;
    }
    let (dom, post) = (graphs.dom(), graphs.post(f));
    let nest = Nest::new(&cfg.loops(dom));
    // The nearest block that dominates every branch that meets at a block.
    let mut start = vec![NONE; n];
    let (mut behind, mut within) = (Vec::new(), Vec::new());
    for &d in &cfg.rpo {
        if !divergent_branch(f, cfg, uniform, d) {
            continue;
        }
        let join = post.idom[d as usize];
        let meets = join != NONE && (join as usize) < n;
        if meets {
            let s = &mut start[join as usize];
            *s = if *s == NONE { d } else { dom.common(*s, d) };
        }
        let around = nest.header[d as usize];
        if around != NONE {
            let list = if meets && nest.holds(around, join) { &mut within } else { &mut behind };
            list.push((d, if meets { join } else { NONE }));
        }
    }
    let mut regions = Vec::new();
    for &join in &cfg.rpo {
        if start[join as usize] != NONE
            && let Some((start, inside)) = enclose(f, cfg, dom, post, &nest, start[join as usize], join)
            && !(nest.header[start as usize] == NONE && waits_for_all(f, cfg, post, uniform, join, inside.list()))
        {
            regions.push(split(f, cfg, start, join, inside.list()));
        } else {
            behind.iter_mut().filter(|b| b.1 == join).for_each(|b| b.1 = NONE);
            behind.extend(within.iter().filter(|b| b.1 == join).map(|b| (b.0, NONE)));
        }
    }
    regions.extend(iterations::place(f, uniform, behind));
    Some(regions)
}

/// True if one side of a branch waits for all threads of the warp, once. Threads on the other side may be about to exit, which is as good as coming there:
/// a barrier where the sides meet would let each wait for the other. The vendor's compiler sets none there either, and sets one around several such waits,
/// around parts of a warp and around loops (observed with 13.5).
fn waits_for_all(f: &Func, cfg: &Cfg, post: &DomTree, uniform: &[bool], join: u32, inside: &[u32]) -> bool {
    let waits = |inst: &crate::ir::Inst| match inst.op {
        Op::Bar => inst.imm == 0,
        Op::Shfl | Op::Vote | Op::Match | Op::Redux | Op::WarpSync | Op::Elect => true,
        _ => false,
    };
    let for_all = |inst: &crate::ir::Inst| {
        let mask = match inst.op {
            Op::Bar => return true,
            Op::Shfl => 3,
            Op::WarpSync | Op::Elect => 0,
            _ => 1,
        };
        f.constant(inst.args[mask]).is_some_and(|m| m as u32 == u32::MAX)
    };
    let all = inside.iter().flat_map(|&b| f.blocks[b as usize].insts.iter().map(move |&i| (b, f.inst(i))));
    let mut found = all.filter(|(_, inst)| waits(inst));
    let (Some((at, inst)), None) = (found.next(), found.next()) else { return false };
    // Not where a branch nearer to it tells threads apart.
    let nearer = |&d: &u32| {
        let meets = post.idom[d as usize];
        divergent_branch(f, cfg, uniform, d) && meets != join && region(cfg, d, meets).contains(at)
    };
    for_all(inst) && !inside.iter().any(nearer)
}

/// Which loops a block lies in.
struct Nest {
    /// Header of the innermost loop of each block.
    header: Vec<u32>,
    /// Header of the loop around each header's loop.
    parent: Vec<u32>,
}

impl Nest {
    fn new(loops: &Loops) -> Nest {
        Nest { header: loops.header.clone(), parent: loops.parent.clone() }
    }

    /// True if the loop with header `h` holds `b`.
    fn holds(&self, h: u32, b: u32) -> bool {
        let mut x = self.header[b as usize];
        while x != NONE {
            if x == h {
                return true;
            }
            x = self.parent[x as usize];
        }
        false
    }
}

/// Moves `start` up until every way into the region between it and `join` goes through it, and it lies in no loop that
/// the join is outside of. Gives the region, or nothing where there is no such place.
fn enclose(
    f: &Func,
    cfg: &Cfg,
    dom: &DomTree,
    post: &DomTree,
    nest: &Nest,
    start: u32,
    join: u32,
) -> Option<(u32, Gathered)> {
    let first = start;
    let mut start = start;
    loop {
        let mut h = nest.header[start as usize];
        while h != NONE && nest.holds(h, join) && h != join {
            h = nest.parent[h as usize];
        }
        if h != NONE && !nest.holds(h, join) {
            start = dom.idom[h as usize];
            if start == NONE {
                return None;
            }
            continue;
        }
        let inside = region(cfg, start, join);
        let common = inside.list().iter().fold(start, |c, &b| if c == NONE { c } else { dom.common(c, b) });
        if common == NONE {
            return None;
        }
        if common != start {
            start = common;
            continue;
        }
        // Whoever sets the barrier must come to the join, or exit: threads that went elsewhere would be waited for. Where they meet again before the branch
        // itself, that is asked of each way from it.
        let comes = |&s: &u32| post.dominates(join, s);
        if !(comes(&start) && (join != start || cfg.succs[start as usize].iter().all(comes))) {
            return None;
        }
        // A way from the start back to itself, or to an end that is neither the join nor an exit, has no meeting.
        let lost = |b: u32| {
            cfg.succs[b as usize].is_empty() && !matches!(f.blocks[b as usize].term, Term::Exit | Term::Unreachable)
        };
        // Nor is there anybody to wait for where the start moved to before the loop that the branch goes round.
        let holds = start == first || inside.contains(first);
        let bad = !holds || !one_way_in(cfg, start, &inside) || inside.list().iter().any(|&b| lost(b));
        return (!bad).then_some((start, inside));
    }
}

/// True if whoever comes to a block `inside` comes by `start`, where the barrier is set, each time: dominating them is not enough, as threads that have met may come
/// back into a loop with several ways in, and would wait for those that have left it.
fn one_way_in(cfg: &Cfg, start: u32, inside: &Gathered) -> bool {
    let known = |&p: &u32| p == start || inside.contains(p) || !cfg.reachable(p);
    !inside.contains(start) && inside.list().iter().all(|&b| cfg.preds[b as usize].iter().all(known))
}

/// Routes the edges from `start` and the region into `join` through a new block, but for those that `cfg` leaves out: who only exits there waits for nobody, and
/// nobody for him.
fn split(f: &mut Func, cfg: &Cfg, start: u32, join: u32, inside: &[u32]) -> Region {
    let new = f.new_block();
    let params: Vec<Value> = f.blocks[join as usize].params.clone();
    let args: Vec<Value> = params.iter().map(|&p| f.add_param(new, f.ty(p))).collect();
    f.blocks[new.index()].term = Term::Br(Edge { block: Block(join), args });
    let living = |b: &&u32| cfg.succs[**b as usize].contains(&join);
    for &b in inside.iter().chain(std::iter::once(&start)).filter(living) {
        let BlockData { term, .. } = &mut f.blocks[b as usize];
        if let Term::Switch { targets, .. } = term {
            for t in targets {
                if t.0 == join {
                    *t = new;
                }
            }
        }
        for e in term.edges_mut() {
            if e.block.0 == join {
                e.block = new;
            }
        }
    }
    Region { start, join: new.0, leaves: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn analyse(body: &str) -> (Func, Convergence) {
        let mut f = text::parse(&format!("func k entry returns() {{\n{body}\n}}")).unwrap().remove(0);
        verify::verify(&f).unwrap();
        let c = run(&mut f);
        verify::verify(&f).unwrap();
        (f, c)
    }

    const TID: &str = "blk0():\nv0:b32 = sreg\nv1:b32 = const {imm=3}\nv2:p = icmp v0, v1 {cmp=lt}\n";

    /// What a branch by something that differs chooses differs, though both ways lead to one block at once.
    #[test]
    fn what_a_branch_to_one_block_chooses_differs() {
        let of = |cond: &str| {
            let source = format!(
                "func k entry returns() {{\nblk0():\nv0:b32 = {cond}\nv1:b32 = const {{imm=3}}\nv2:b32 = const {{imm=5}}\nv3:p = icmp v0, v1 {{cmp=lt}}\n\
                 brif v3, blk1(v1, v1), blk1(v2, v1)\nblk1(v4:b32, v5:b32):\nv6:b32 = iadd v4, v5\nexit\n}}"
            );
            let f = text::parse(&source).unwrap().remove(0);
            let found = uniform(&f);
            [4, 5, 6].map(|v| found[v])
        };
        assert_eq!(of("sreg"), [false, true, false]);
        assert_eq!(of("param {bytes=4}"), [true; 3]);
    }

    /// What a warp loads together from one place is one value, not where threads may be apart, and not where others are waited for.
    #[test]
    fn what_is_loaded_together_from_one_place_is_the_same() {
        let of = |load: &str, address: &str| {
            let source = format!(
                "func k entry returns() {{\n{TID}v3:b64 = param {{bytes=8}}\nv4:b64 = zext v0\nv5:b32 = load {address} {{{load} bytes=4}}\n\
                 brif v2, blk1(), blk2()\nblk1():\nv6:b32 = load {address} {{{load} bytes=4}}\nbr blk2()\nblk2():\n\
                 v7:b32 = load {address} {{{load} bytes=4}}\nexit\n}}"
            );
            let f = text::parse(&source).unwrap().remove(0);
            let found = uniform(&f);
            [5, 6, 7].map(|v| found[v])
        };
        assert_eq!(of("space=global", "v3"), [true, false, true]);
        assert_eq!(of("space=global", "v4"), [false; 3]);
        assert_eq!(of("space=global sem=volatile", "v3"), [false; 3]);
        assert_eq!(of("space=global sem=relaxed", "v3"), [false; 3]);
        assert_eq!(of("", "v3"), [false; 3]);
    }

    #[test]
    fn a_branch_to_one_block_chooses_its_values() {
        let (f, found) = analyse(
            "blk0():\nv0:b32 = sreg\nv1:b32 = const {imm=3}\nv2:p = icmp v0, v1 {cmp=lt}\nbrif v2, blk1(v0, v1), blk1(v1, v1)\n\
             blk1(v3:b32, v4:b32):\nexit",
        );
        let t = text::print(&f);
        assert!(t.contains("select v0, v1, v2") && t.matches("select").count() == 1 && !t.contains("brif"), "{t}");
        assert!(!found.divergent.contains(&true));
    }

    #[test]
    fn who_asks_a_barrier_together_goes_on_together() {
        let wait = |phase: &str| {
            let sub = barrier::TRY;
            let body = format!(
                "{TID}br blk1()\nblk1():\nv3:p = mbarrier v1, {phase} {{sub={sub}}}\nbrif v3, blk2(), blk1()\nblk2():\nv4:b32 = not v1\nexit"
            );
            let (_, c) = analyse(&body);
            (c.divergent[1], c.open.iter().flatten().count())
        };
        assert_eq!(wait("v1"), (false, 0));
        // Each thread asks for a phase of its own.
        assert_eq!(wait("v0"), (true, 1));
    }

    #[test]
    fn a_diamond_meets() {
        let (f, c) = analyse(&format!(
            "{TID}brif v2, blk1(), blk2()\nblk1():\nbr blk3(v0)\nblk2():\nbr blk3(v1)\nblk3(v3:b32):\nexit"
        ));
        assert_eq!(f.blocks.len(), 5);
        assert_eq!(c.open[0], vec![(0, Block(4))]);
        assert_eq!(c.close[4], Some(0));
        assert_eq!(c.divergent, vec![false, true, true, false, false]);
        assert!(!c.uniform[0] && c.uniform[1] && !c.uniform[2] && !c.uniform[3]);
    }

    /// Threads of which some fail, in a region that others do not come to.
    fn failing(ends: bool, body: &str) -> Convergence {
        let mut f = text::parse(&format!("func k entry returns() {{\n{TID}{body}\n}}")).unwrap().remove(0);
        f.calls = vec![crate::ir::CallSite { ends, args: vec![4], ..Default::default() }];
        run(&mut f)
    }

    #[test]
    fn who_fails_is_not_waited_for_longer_than_the_region_is() {
        let inside = "brif v2, blk1(), blk4()\nblk1():\nv3:p = icmp v0, v1 {cmp=eq}\nbrif v3, blk2(), blk3()\nblk2():\ncall v0\nexit\n\
                      blk3():\nv4:b32 = not v0\nbr blk4()\nblk4():\nv5:b32 = not v1\nexit";
        let found = failing(true, inside);
        assert_eq!(found.divergent[..5], [false, true, true, true, false]);
        assert!(failing(false, inside).divergent[4]);
    }

    #[test]
    fn who_fails_alone_may_be_at_it_while_others_go_on() {
        let found = |head: &str, last: &str| {
            failing(true, &format!("{head}\nblk1():\ncall v0\nexit\nblk2():\n{last}:b32 = not v1\nexit")).divergent
        };
        assert_eq!(found("brif v2, blk1(), blk2()", "v3")[..3], [false, true, true]);
        let all = "v3:b32 = param {bytes=4}\nv4:p = icmp v3, v1 {cmp=lt}\nbrif v4, blk1(), blk2()";
        assert_eq!(found(all, "v5")[..3], [false, true, false]);
    }

    #[test]
    fn a_uniform_branch_needs_no_barrier() {
        let (f, c) = analyse(
            "blk0():\nv0:b32 = param {bytes=4}\nv1:p = icmp v0, v0 {cmp=lt}\nbrif v1, blk1(), blk2()\nblk1():\nbr blk2()\nblk2():\nexit",
        );
        assert_eq!((f.blocks.len(), c.divergent), (3, vec![false; 3]));
    }

    #[test]
    fn an_early_exit_is_not_waited_for() {
        let (f, c) = analyse(&format!("{TID}brif v2, blk1(), blk2()\nblk1():\nexit\nblk2():\nv3:b32 = not v1\nexit"));
        assert_eq!((f.blocks.len(), c.divergent), (3, vec![false; 3]));
    }

    #[test]
    fn a_divergent_loop_sets_its_barrier_outside() {
        let (f, c) = analyse(&format!(
            "{TID}br blk1(v1)\nblk1(v3:b32):\nv4:b32 = iadd v3, v1\nv5:p = icmp v4, v0 {{cmp=lt}}\nbrif v5, blk1(v4), blk2()\nblk2():\nv6:b32 = not v4\nexit"
        ));
        assert_eq!(f.blocks.len(), 5); // a join, and a block on the edge back
        assert_eq!(c.open[0], vec![(0, Block(3))]);
        assert_eq!(c.close[3], Some(0));
        assert_eq!(c.divergent, vec![false, true, false, false, true]);
        assert!(!c.uniform[4], "what leaves a divergent loop differs");
    }

    /// The other side may exit at once, and nobody waits for it where the sides meet.
    #[test]
    fn a_side_that_waits_for_the_whole_warp_is_not_waited_for() {
        let open = |side: &str, last: usize| {
            let source = format!(
                "{TID}v3:b32 = const {{imm=4294967295}}\nv4:b64 = param {{bytes=8}}\nbrif v2, blk1(), blk{last}()\n\
                 blk1():\n{side}br blk{last}()\nblk{last}():\nstore v4, v0 {{space=global bytes=4}}\nexit"
            );
            let (_, found) = analyse(&source);
            (found.open.iter().flatten().count(), found.divergent[last])
        };
        assert_eq!(open("warpsync v3\n", 2), (0, true));
        assert_eq!(open("warpsync v1\n", 2), (1, false));
        assert_eq!(open("warpsync v3\nv5:b32 = not v0\nwarpsync v3\n", 2), (1, false));
        let nested = "v5:p = icmp v0, v1 {cmp=eq}\nbrif v5, blk2(), blk3()\nblk2():\nwarpsync v3\nbr blk3()\nblk3():\nstore v4, v1 {space=global bytes=4}\n";
        assert_eq!(open(nested, 4), (1, true));
    }

    #[test]
    fn nested_regions_get_their_own_barriers() {
        let (_, c) = analyse(&format!(
            "{TID}brif v2, blk1(), blk4()\nblk1():\nv3:p = icmp v0, v1 {{cmp=eq}}\nbrif v3, blk2(), blk3()\nblk2():\nbr blk3()\nblk3():\nbr blk4()\nblk4():\nv4:b32 = not v1\nexit"
        ));
        assert_eq!(c.open[0].len(), 1);
        assert_eq!(c.open[1].len(), 1);
        assert_ne!(c.open[0][0].0, c.open[1][0].0);
    }

    #[test]
    fn branches_meet_inside_a_loop_that_threads_leave_by_exiting() {
        let (f, c) = analyse(&format!(
            "{TID}br blk1(v1)\nblk1(v3:b32):\nv4:p = icmp v3, v0 {{cmp=eq}}\nbrif v4, blk2(), blk3(v1)\nblk2():\nv5:b32 = not v3\nbr blk3(v5)\n\
             blk3(v6:b32):\nv7:b32 = iadd v3, v6\nv8:p = icmp v7, v0 {{cmp=lt}}\nbrif v8, blk1(v7), blk4()\nblk4():\nexit"
        ));
        let closed: Vec<usize> = (0..f.blocks.len()).filter(|&b| c.close[b].is_some()).collect();
        let [join] = closed[..] else { panic!("{closed:?}\n{}", text::print(&f)) };
        assert_eq!(f.blocks[join].term.successors()[..], [Block(3)]);
        assert_eq!(c.open[1], vec![(0, Block(join as u32))]);
        assert_eq!((c.divergent[1], c.divergent[2], c.divergent[3]), (false, true, false));
    }

    /// Some ways from a loop's first block go round the loop, and one leaves it: whoever goes that one is not waited for inside.
    #[test]
    fn a_loop_is_left_around_the_meeting_before_it() {
        let (f, c) = analyse(&format!(
            "{TID}br blk1(v1)\nblk1(v3:b32):\nv4:p = icmp v3, v0 {{cmp=lt}}\nbrif v4, blk2(), blk5()\n\
             blk2():\nv5:p = icmp v3, v0 {{cmp=eq}}\nbrif v5, blk3(), blk4()\nblk3():\nv6:b32 = not v3\nbr blk1(v6)\nblk4():\nv7:b32 = iadd v3, v0\nbr blk1(v7)\n\
             blk5():\nv8:p = icmp v3, v1 {{cmp=eq}}\nbrif v8, blk6(), blk9()\nblk6():\nv9:p = icmp v3, v0 {{cmp=gt}}\nbrif v9, blk7(), blk8()\n\
             blk7():\nv10:b32 = iadd v3, v1\nbr blk1(v10)\nblk8():\nv11:b32 = xor v3, v1\nbr blk1(v11)\nblk9():\nbr blk10(v3)\nblk10(v12:b32):\nv13:b32 = iadd v12, v1\nv14:p = icmp v13, v0 {{cmp=lt}}\nbrif v14, blk10(v13), blk11()\nblk11():\nexit"
        ));
        check::run(&f, &c).unwrap();
    }

    fn of_function(body: &str) -> (Func, Convergence) {
        let mut f = text::parse(&format!("func f returns(b32) {{\n{body}\n}}")).unwrap().remove(0);
        verify::verify(&f).unwrap();
        let c = run(&mut f);
        verify::verify(&f).unwrap();
        (f, c)
    }

    #[test]
    fn a_function_meets_before_it_returns() {
        let (f, c) = of_function(&format!("{TID}brif v2, blk1(), blk2()\nblk1():\nret v0\nblk2():\nret v1"));
        let (barrier, join) = c.open[0][0];
        assert_eq!((barrier, c.close[join.index()]), (0, Some(0)));
        let end = f.blocks[join.index()].term.successors()[0];
        assert!(matches!(f.blocks[end.index()].term, Term::Ret(_)));
        assert!(c.divergent.iter().all(|&d| d), "part of a warp may have entered it");
    }

    #[test]
    fn a_barrier_around_a_call_is_one_that_is_kept() {
        let (_, c) = of_function(&format!(
            "{TID}brif v2, blk1(), blk2(v0)\nblk1():\nv3:b32 = call v0\nbr blk2(v3)\nblk2(v4:b32):\nret v4"
        ));
        assert_eq!(c.open[0][0].0 as usize, KEPT.start);
    }
}
