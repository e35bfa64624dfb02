//! Unrolling: a loop that runs a known number of times becomes its iterations in a row; another one that counts goes four
//! or two iterations at once as long as there are so many, and the loop as it was does the rest, or what it has in it does where one
//! iteration is left at most.
//!
//! What it needs: innermost loops that are left by the branch back alone, whose condition compares a counter with a value from
//! outside ([`count`]). Values that change by the same amount in every iteration are computed from those of the first one
//! ([`strides`]), so that addresses become offsets. Loops that the PTX wants rolled (`.pragma "nounroll"`) stay.

mod copy;
mod count;
mod strides;

use super::{blocks, dce, gvn, params, rotate, sums};
use crate::cfg::{Cfg, DomTree, NONE};
use crate::converge::by_whole_warps;
use crate::ir::{Block, Builder, Def, Edge, Effect, Func, Inst, InstId, MemSpace, Op, Term, Ty, Value};
use copy::Copier;
use count::Counter;
pub use count::{same_for_all, step};
use rustc_hash::FxHashMap;
use strides::Strides;

/// Instructions that a loop may come to when all its iterations stand in a row.
pub const WHOLE: usize = 768;

/// The same, where it has as few iterations as [`MANY`].
const FEW_WHOLE: usize = 1280;

/// Instructions that all loops of a function may come to that way: code that is longer than the processor's caches of it is fetched from far.
const ALL: usize = 6144;

/// Iterations that stand in a row where their number is not known.
const MANY: u64 = 4;

/// The same, where there is much to do in each.
const FEW: u64 = 2;

/// Instructions of an iteration that is repeated so.
const SMALL: usize = 12;

/// The same, where it reads memory that it does not write: the loads of the iterations are under way together.
const SMALL_WITH_LOADS: usize = 40;

/// Loads of an iteration from which on [`FEW`] of them are enough, and writes where there are no loads from which on one is.
const LOADS: usize = 4;

/// Loads of an iteration from which on one is enough where their number is not known: so many are under way together.
const ENOUGH: usize = 8;

/// Iterations that are counted to see whether something is left over.
const COUNTED: u64 = 1024;

/// Times that the pass looks again: what was inside another loop is gone then.
const ROUNDS: usize = 3;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let mut left = ALL;
    for _ in 0..ROUNDS {
        if !round(f, &mut left) {
            return;
        }
        params::run(f);
        gvn::run(f);
        blocks::run(f);
        params::run(f);
        sums::run(f);
        dce::run(f);
        // What was around a loop that is gone may ask first.
        if rotate::run(f) {
            params::run(f);
            gvn::run(f);
            blocks::run(f);
            params::run(f);
        }
        blocks::preheaders(f);
    }
}

/// A loop to be unrolled.
struct Loop {
    /// Its blocks in reverse postorder, the header first.
    members: Vec<u32>,
    latch: u32,
    /// Values that blocks behind the loop read.
    outside: Vec<Value>,
    counter: Counter,
    /// The comparison that its branch back asks for, if nothing else does.
    test: Option<InstId>,
    /// What its values change by in every iteration.
    strides: Strides,
    /// Instructions of an iteration.
    size: usize,
    /// Iterations, where they are known.
    trips: Option<u64>,
    /// Where they are not, or too many, how many of them shall stand in a row.
    by: u64,
    /// There are so many that nothing is left over.
    even: bool,
    /// And whether there shall be half as many behind them.
    halved: bool,
    /// Behind these there is one at most: nothing wraps.
    ends: bool,
    /// All threads agree on how many there are.
    alike: bool,
}

impl Loop {
    fn header(&self) -> u32 {
        self.members[0]
    }

    /// The edges of the branch back: to the header, and out of the loop.
    fn edges(&self, f: &Func) -> (Edge, Edge) {
        match &f.blocks[self.latch as usize].term {
            Term::CondBr { then, els, .. } if then.block.0 == self.header() => (then.clone(), els.clone()),
            Term::CondBr { then, els, .. } => (els.clone(), then.clone()),
            _ => unreachable!("a loop that counts ends in a branch"),
        }
    }
}

/// Unrolls what it can; true if there was anything. `left`: instructions that loops may still come to as iterations in a row.
fn round(f: &mut Func, left: &mut usize) -> bool {
    let cfg = f.cfg();
    if !cfg.goes_back() {
        return false;
    }
    let (mut loops, once) = candidates(f, &cfg, &cfg.dominators());
    if !once.is_empty() {
        for (header, latch) in once {
            let Term::CondBr { then, els, .. } = &f.blocks[latch as usize].term else { continue };
            let out = if then.block.0 == header { els.clone() } else { then.clone() };
            f.blocks[latch as usize].term = Term::Br(out);
        }
        return true;
    }
    within(&mut loops, left);
    if loops.is_empty() {
        return false;
    }
    // The loop of each block, and of each value that is read behind its loop.
    let mut home = vec![NONE; f.blocks.len()];
    let mut owner = vec![NONE; f.values.len()];
    for (n, l) in loops.iter().enumerate() {
        l.members.iter().for_each(|&b| home[b as usize] = n as u32);
        l.outside.iter().for_each(|v| owner[v.index()] = n as u32);
    }
    // Exits that have got a block of their own, by the block that they leave: there the next loop is entered.
    let mut exits: FxHashMap<u32, Block> = FxHashMap::default();
    let mut replaced = super::identity(f);
    for (n, l) in loops.iter().enumerate() {
        let entry = cfg.preds[l.header() as usize].iter().find(|p| !l.members.contains(p)).copied().unwrap_or(0);
        let entry = exits.get(&entry).map_or(Block(entry), |&b| b);
        exits.insert(l.latch, close(f, l, &mut replaced));
        home.push(NONE);
        match l.trips {
            Some(trips) => whole(f, l, trips),
            None if l.even => even(f, l),
            None => some(f, l, entry),
        }
        home.resize(f.blocks.len(), n as u32);
    }
    // Behind the loops their values are the parameters of the exits.
    for (b, &home) in home.iter().enumerate() {
        let new = |v: Value| match owner.get(v.index()) {
            Some(&l) if l != NONE && l != home => replaced[v.index()],
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

/// Leaves out the longest of the loops that become their iterations in a row, where together they have more instructions than are left of
/// `all`, and takes those of the others off.
fn within(loops: &mut Vec<Loop>, all: &mut usize) {
    let length = |l: &Loop| l.trips.map(|n| n as usize * l.size);
    let mut lengths: Vec<usize> = loops.iter().filter_map(length).collect();
    lengths.sort_unstable();
    lengths.retain(|&n| {
        let fits = n <= *all;
        *all -= if fits { n } else { 0 };
        fits
    });
    let longest = lengths.last().copied().unwrap_or(0);
    let mut as_long = lengths.iter().filter(|&&n| n == longest).count();
    loops.retain(|l| {
        length(l).is_none_or(|n| {
            let fits = n < longest || n == longest && as_long > 0;
            as_long -= usize::from(fits && n == longest);
            fits
        })
    });
}

/// The loops to be unrolled, in no order that matters: none lies in another. And those around others that run once: their headers, and the blocks that never
/// go back.
fn candidates(f: &Func, cfg: &Cfg, dom: &DomTree) -> (Vec<Loop>, Vec<(u32, u32)>) {
    let loops = cfg.loops(dom);
    let mut place = vec![NONE; f.values.len()];
    for &b in &cfg.rpo {
        f.blocks[b as usize].params.iter().for_each(|p| place[p.index()] = b);
        for &i in &f.blocks[b as usize].insts {
            f.inst(i).results.iter().for_each(|r| place[r.index()] = b);
        }
    }
    let (mut out, mut once) = (Vec::new(), Vec::new());
    // The loop in `out` of each block.
    let mut of = vec![NONE; f.blocks.len()];
    for (header, members) in &loops.members {
        let innermost = members.iter().all(|&m| loops.header[m as usize] == *header);
        if innermost
            && !f.blocks[*header as usize].rolled
            && let Some(l) = candidate(f, cfg, dom, members, &place)
        {
            members.iter().for_each(|&m| of[m as usize] = out.len() as u32);
            out.push(l);
        }
        if !innermost {
            once.extend(runs_once(f, cfg, members, &place).map(|latch| (*header, latch)));
        }
    }
    // What is read behind a loop must be known wherever its exit leads.
    let mut bad = vec![false; out.len()];
    let mut listed = vec![false; f.values.len()];
    if out.is_empty() {
        return (out, once);
    }
    for &b in &cfg.rpo {
        let mut read = |v: Value| {
            let l = of.get(place[v.index()] as usize).copied().unwrap_or(NONE);
            if l == NONE || l == of[b as usize] {
                return;
            }
            let after = out[l as usize].edges(f).1.block.0;
            if cfg.preds[after as usize].len() > 1 || !dom.dominates(after, b) {
                bad[l as usize] = true;
            }
            if !std::mem::replace(&mut listed[v.index()], true) {
                out[l as usize].outside.push(v);
            }
        };
        for &i in &f.blocks[b as usize].insts {
            f.inst(i).args.iter().copied().for_each(&mut read);
        }
        f.blocks[b as usize].term.visit(read);
    }
    let mut bad = bad.into_iter();
    out.retain(|_| !bad.next().unwrap_or(false));
    // Where the iterations in a row are a loop again, the last one asks.
    out.iter_mut().filter(|l| !l.even).for_each(|l| l.test = lone_test(f, l));
    (out, once)
}

/// The block that could go back in a loop that runs once, whatever is in it: the diagonal of causal attention is one where its tiles are squares.
fn runs_once(f: &Func, cfg: &Cfg, members: &[u32], place: &[u32]) -> Option<u32> {
    let header = members[0];
    let inside = |b: u32| members.contains(&b);
    let (back, outer): (Vec<u32>, Vec<u32>) = cfg.preds[header as usize].iter().partition(|&&p| inside(p));
    let (&[latch], &[entry]) = (back.as_slice(), outer.as_slice()) else { return None };
    let counter = count::find(f, header, latch, &|v| !inside(place[v.index()]))?;
    let start = f.blocks[entry as usize].term.edges().iter().find(|e| e.block.0 == header)?.args[counter.param];
    (counter.trips(f, start, 1, &count::facts(f, cfg, entry)) == Some(1)).then_some(latch)
}

/// A loop that can be unrolled, as far as its own blocks say, and is worth it. `place` is the block of each value.
fn candidate(f: &Func, cfg: &Cfg, dom: &DomTree, members: &[u32], place: &[u32]) -> Option<Loop> {
    let header = members[0];
    // What follows looks through the members again and again.
    if members.len() > WHOLE {
        return None;
    }
    let inside = |b: u32| members.contains(&b);
    let (back, outer): (Vec<u32>, Vec<u32>) = cfg.preds[header as usize].iter().partition(|&&p| inside(p));
    let (&[latch], &[entry]) = (back.as_slice(), outer.as_slice()) else { return None };
    let leaves = |b: u32| cfg.succs[b as usize].iter().filter(|&&s| !inside(s)).count();
    let (mut size, mut loads, mut writes, mut atomics, mut together, mut in_step) = (0, 0, 0, 0, false, true);
    for &m in members {
        if leaves(m) != (m == latch) as usize {
            return None;
        }
        for &i in &f.blocks[m as usize].insts {
            let inst = f.inst(i);
            if matches!(inst.op, Op::Call | Op::CallIndirect | Op::SetMaxReg | Op::Leader) {
                return None;
            }
            size += (inst.op != Op::Const) as usize;
            loads += (inst.op.effect() == Effect::Read && !near(inst)) as usize;
            writes += (inst.op.effect() == Effect::Write) as usize;
            atomics += matches!(inst.op, Op::Atom | Op::Red) as usize;
            if inst.op.effect() == Effect::Warp {
                together = true;
                in_step &= whole_warps(f, inst) && dom.dominates(m, latch);
            }
        }
    }
    // What threads do together they do in one place: those of another iteration must not be able to join them. Where whole warps do it once in each
    // iteration, none is in another one.
    let branching = together && members.len() > 1;
    if size > WHOLE || branching && !in_step || cfg.rpo_index[entry as usize] > cfg.rpo_index[header as usize] {
        return None;
    }
    let known = |v: Value| !inside(place[v.index()]);
    let counter = count::find(f, header, latch, &known)?;
    let start = f.blocks[entry as usize].term.edges().iter().find(|e| e.block.0 == header)?.args[counter.param];
    let by = if loads < LOADS { MANY } else { FEW };
    // Atomics wait for nothing here, and take their time elsewhere: the code only gets long.
    let queued = loads == 0 && atomics >= LOADS;
    let most =
        if queued { MANY } else { ((WHOLE / size.max(1)) as u64).max(MANY.min((FEW_WHOLE / size.max(1)) as u64)) };
    let facts = count::facts(f, cfg, entry);
    let trips = counter.trips(f, start, most, &facts);
    let (mut halved, mut ends, mut alike) = (false, false, true);
    let ahead = loads > 0 && ahead(f, members);
    let small = if ahead { SMALL_WITH_LOADS } else { SMALL };
    let counted = if trips.is_none() && size <= small { counter.trips(f, start, COUNTED, &facts) } else { None };
    let divisor = counted.and_then(|n| (2..=by).rev().find(|k| n % k == 0));
    let by = divisor.unwrap_or(by);
    if trips.is_none() && (branching || members.iter().any(|&m| !dom.dominates(m, latch) && seldom(f, m))) {
        return None;
    }
    if trips.is_none() && divisor.is_none() {
        // Threads that part after numbers of iterations of their own go through few, and wait for each other in more places.
        alike = count::same_for_all(f, start) && count::same_for_all(f, counter.bound);
        let apart = (together || by == FEW) && !alike;
        halved = by > FEW && (alike || loads > 0);
        ends = (halved || by == FEW) && counter.ends(f, start);
        // Stores wait for nothing: where there are several, counting is little beside them.
        let idle = loads == 0 && writes >= LOADS;
        // A branch on a side of another one stays a branch: one iteration does not begin before the one before it is done.
        let nested =
            |&m: &u32| m != latch && !matches!(f.blocks[m as usize].term, Term::Br(_)) && !dom.dominates(m, latch);
        // Nor does it where all loads wait for the stores of the iteration before: beside that, and the branch, counting is little.
        let held = loads > 0 && !ahead && members.len() > 1;
        if idle
            || held
            || loads >= ENOUGH
            || size > small
            || apart
            || !counter.can_run_ahead(f, by)
            || members.iter().any(nested)
        {
            return None;
        }
    }
    let strides = strides::find(f, members, latch, dom, &known);
    Some(Loop {
        members: members.to_vec(),
        latch,
        outside: Vec::new(),
        counter,
        test: None,
        strides,
        size,
        trips,
        by,
        even: divisor.is_some(),
        halved,
        ends,
        alike,
    })
}

/// True for what threads do together if all of a warp do, wherever they do it.
fn whole_warps(f: &Func, inst: &Inst) -> bool {
    match inst.op {
        // Groups of copies are each thread's own, barriers of clusters count threads.
        Op::AsyncOrder => true,
        Op::Shfl | Op::Vote | Op::Match | Op::Redux => {
            inst.args.last().and_then(|&mask| f.constant(mask)).is_some_and(|mask| mask as u32 == u32::MAX)
        }
        _ => by_whole_warps(inst),
    }
}

/// True for a block with what is seldom done, behind a branch that stays one: one iteration does not begin before the one before it is done.
fn seldom(f: &Func, block: u32) -> bool {
    f.blocks[block as usize].insts.iter().any(|&i| f.inst(i).op == Op::Routine)
}

/// True for what reads nothing that takes long: routines, and constants, which come from a bank of the processor's own.
fn near(inst: &Inst) -> bool {
    inst.op == Op::Routine || inst.op == Op::Load && matches!(inst.mem.space, MemSpace::Const | MemSpace::Param)
}

/// True if an iteration has a load that may begin before the one before it is done: that no write of a loop with these blocks has to come before.
fn ahead(f: &Func, members: &[u32]) -> bool {
    let all = || members.iter().flat_map(|&m| &f.blocks[m as usize].insts).map(|&i| f.inst(i));
    let written: Vec<MemSpace> = all().filter(|i| i.op.effect() == Effect::Write).map(|i| i.mem.space).collect();
    let generic = MemSpace::Generic;
    let waits = |i: &Inst| written.iter().any(|&w| w == i.mem.space || w == generic || i.mem.space == generic);
    all().any(|i| i.op.effect() == Effect::Read && !near(i) && (i.mem.nc || !waits(i)))
}

/// The comparison at the end of a loop, if only the branch reads it.
fn lone_test(f: &Func, l: &Loop) -> Option<InstId> {
    let Term::CondBr { cond, .. } = &f.blocks[l.latch as usize].term else { return None };
    let Def::Inst(id, _) = f.def(*cond) else { return None };
    let mut reads = l.outside.contains(cond) as usize;
    let mut read = |v: Value| reads += (v == *cond) as usize;
    for &m in &l.members {
        f.blocks[m as usize].insts.iter().flat_map(|&i| &f.inst(i).args).for_each(|&v| read(v));
        f.blocks[m as usize].term.visit(&mut read);
    }
    (reads == 1).then_some(id)
}

/// Puts a block on the way out, whose parameters are what is read behind the loop.
fn close(f: &mut Func, l: &Loop, replaced: &mut [Value]) -> Block {
    let (_, mut out) = l.edges(f);
    let exit = f.new_block();
    let after = out.block;
    let args = out.args.clone().iter().map(|&a| f.add_param(exit, f.ty(a))).collect();
    f.blocks[exit.index()].term = Term::Br(Edge { block: after, args });
    for &v in &l.outside {
        replaced[v.index()] = f.add_param(exit, f.ty(v));
        out.args.push(v);
    }
    out.block = exit;
    let header = l.header();
    for e in f.blocks[l.latch as usize].term.edges_mut() {
        if e.block.0 != header {
            *e = out.clone();
        }
    }
    exit
}

/// All iterations in a row.
fn whole(f: &mut Func, l: &Loop, trips: u64) {
    let (back, out) = l.edges(f);
    let mut copier = Copier::after();
    let mut latch = Block(l.latch);
    let mut args = back.args.clone();
    for k in 1..trips {
        let blocks = copier.copy(f, l, k);
        f.blocks[latch.index()].term = Term::Br(Edge { block: blocks[0], args });
        latch = blocks[l.members.iter().position(|&m| m == l.latch).unwrap_or(0)];
        args = copier.all(&back.args);
    }
    f.blocks[latch.index()].term = Term::Br(Edge { block: out.block, args: copier.all(&out.args) });
}

/// Several iterations at once, which is all of them in the end: the loop itself gets longer.
fn even(f: &mut Func, l: &Loop) {
    let (back, _) = l.edges(f);
    let mut question = f.blocks[l.latch as usize].term.clone();
    let mut copier = Copier::after();
    let mut latch = Block(l.latch);
    let mut args = back.args.clone();
    for k in 1..l.by {
        let blocks = copier.copy(f, l, k);
        f.blocks[latch.index()].term = Term::Br(Edge { block: blocks[0], args });
        latch = blocks[l.members.iter().position(|&m| m == l.latch).unwrap_or(0)];
        args = copier.all(&back.args);
    }
    question.map(|v| copier.value(v));
    f.blocks[latch.index()].term = question;
    f.blocks[l.header() as usize].rolled = true;
}

/// Several iterations at once before the loop, as long as there are so many; half as many once, if there are; the loop does
/// the rest, and everything where the counter wraps. Where it cannot, and one is left at most, that is no loop any more.
fn some(f: &mut Func, l: &Loop, entry: Block) {
    let (back, out) = l.edges(f);
    let header = Block(l.header());
    let Term::CondBr { uniform, .. } = f.blocks[l.latch as usize].term else { return };
    let guard = f.new_block();
    let mut start = Vec::new();
    for e in f.blocks[entry.index()].term.edges_mut() {
        if e.block == header {
            start = std::mem::take(&mut e.args);
            e.block = guard;
        }
    }
    // Where the loop itself begins.
    let last = if l.alike { Stage::plain(header) } else { Stage::joining(f, l, &back, &out) };
    let rest = match (l.halved, l.alike) {
        (false, _) => last.clone(),
        (true, false) => Stage::joining(f, l, &back, &out),
        (true, true) => Stage::new(f, l),
    };
    // On the way in: are there enough?
    let limit = l.counter.limit(&mut Builder::new(f, guard), l.by);
    let enough = limit.first(&mut Builder::new(f, guard), start[l.counter.param], l.ends);
    let mut row = Row::new(f, l, guard, l.by);
    let els = rest.enter(f, guard, &start);
    let then = Edge { block: row.first, args: start };
    f.blocks[guard.index()].term = Term::CondBr { cond: enough, uniform, then, els };
    // Once is enough, for both.
    f.blocks[header.index()].rolled = true;
    f.blocks[row.first.index()].rolled = true;
    // Behind them: are there as many again, or some, or none?
    let again = limit.again(&mut Builder::new(f, row.latch), row.counted);
    let behind = f.new_block();
    let then = Edge { block: row.first, args: row.copier.all(&back.args) };
    let els = Edge { block: behind, args: Vec::new() };
    f.blocks[row.latch.index()].term = Term::CondBr { cond: again, uniform, then, els };
    row.leave(f, l, behind, &rest, &back, &out, uniform);
    if l.halved {
        let limit = l.counter.limit(&mut Builder::new(f, rest.block), FEW);
        let mut cond = limit.first(&mut Builder::new(f, rest.block), rest.params[l.counter.param], false);
        if let Some(left) = rest.left {
            cond = Builder::new(f, rest.block).op(Op::And, &[cond, left], Ty::P);
        }
        let mut row = Row::new(f, l, rest.block, FEW);
        let then = Edge { block: row.first, args: rest.params.clone() };
        let els = rest.pass(&last);
        f.blocks[rest.block.index()].term = Term::CondBr { cond, uniform, then, els };
        let latch = row.latch;
        row.leave(f, l, latch, &last, &back, &out, uniform);
    }
    if let Some(cond) = last.left {
        let then = Edge { block: header, args: last.params.clone() };
        let els = Edge { block: out.block, args: last.results.clone() };
        f.blocks[last.block.index()].term = Term::CondBr { cond, uniform, then, els };
    }
    if l.ends {
        f.blocks[l.latch as usize].term = Term::Br(out);
        f.blocks[header.index()].rolled = false;
    }
}

/// Where a stage of a loop begins that does fewer iterations at once than the one before: with what the header is given.
#[derive(Clone)]
struct Stage {
    block: Block,
    params: Vec<Value>,
    /// Where threads have numbers of iterations of their own all of them come here and meet, whether any is left for them or not: this says it,
    left: Option<Value>,
    /// and these are what is read behind the loop, where there is none left.
    results: Vec<Value>,
    /// Which of the results are parameters of their own.
    own: Vec<bool>,
}

impl Stage {
    /// An existing block, that threads enter that have iterations left.
    fn plain(block: Block) -> Stage {
        Stage { block, params: Vec::new(), left: None, results: Vec::new(), own: Vec::new() }
    }

    /// A new one.
    fn new(f: &mut Func, l: &Loop) -> Stage {
        let block = f.new_block();
        let types: Vec<Ty> = f.blocks[l.header() as usize].params.iter().map(|&p| f.ty(p)).collect();
        let params = types.into_iter().map(|ty| f.add_param(block, ty)).collect();
        Stage { params, ..Stage::plain(block) }
    }

    /// A new one where all threads meet.
    fn joining(f: &mut Func, l: &Loop, back: &Edge, out: &Edge) -> Stage {
        let mut stage = Stage::new(f, l);
        stage.left = Some(f.add_param(stage.block, Ty::P));
        for &a in &out.args {
            let same = back.args.iter().position(|&b| b == a);
            stage.own.push(same.is_none());
            stage.results.push(match same {
                Some(n) => stage.params[n],
                None => f.add_param(stage.block, f.ty(a)),
            });
        }
        stage
    }

    /// The results that are parameters of their own.
    fn own<'a>(&'a self, results: &'a [Value]) -> impl Iterator<Item = Value> + 'a {
        results.iter().zip(&self.own).filter(|r| *r.1).map(|r| *r.0)
    }

    /// The way in from `block`, where nothing has been done yet: one iteration is left in any case.
    fn enter(&self, f: &mut Func, block: Block, start: &[Value]) -> Edge {
        let mut args = start.to_vec();
        if self.left.is_some() {
            args.push(Builder::new(f, block).constant(Ty::P, 1));
            let types: Vec<Ty> = self.own(&self.results).map(|v| f.ty(v)).collect();
            args.extend(types.into_iter().map(|ty| Builder::new(f, block).op(Op::Undef, &[], ty)));
        }
        Edge { block: self.block, args }
    }

    /// The way from this stage to the next one.
    fn pass(&self, next: &Stage) -> Edge {
        let mut args = self.params.clone();
        args.extend(self.left);
        args.extend(self.own(&self.results));
        Edge { block: next.block, args }
    }
}

/// Several copies of a loop, one behind the other.
struct Row {
    first: Block,
    latch: Block,
    copier: Copier,
    /// What the last copy compares with the bound.
    counted: Value,
}

impl Row {
    /// `count` of them, to be entered from `before`.
    fn new(f: &mut Func, l: &Loop, before: Block, count: u64) -> Row {
        let (back, _) = l.edges(f);
        let mut copier = Copier::beside();
        let (mut first, mut latch) = (before, before);
        for k in 0..count {
            let args = copier.all(&back.args);
            let blocks = copier.copy(f, l, k);
            if k == 0 {
                first = blocks[0];
            } else {
                f.blocks[latch.index()].term = Term::Br(Edge { block: blocks[0], args });
            }
            latch = blocks[l.members.iter().position(|&m| m == l.latch).unwrap_or(0)];
        }
        let param = l.counter.param;
        let counted = if l.counter.before {
            copier.value(f.blocks[l.header() as usize].params[param])
        } else {
            copier.value(back.args[param])
        };
        Row { first, latch, copier, counted }
    }

    /// Ends `block` behind the row: `next` goes on.
    #[allow(clippy::too_many_arguments)]
    fn leave(&mut self, f: &mut Func, l: &Loop, block: Block, next: &Stage, back: &Edge, out: &Edge, uniform: bool) {
        let cond = l.counter.goes_on(&mut Builder::new(f, block), self.counted);
        let mut args = self.copier.all(&back.args);
        let results = self.copier.all(&out.args);
        f.blocks[block.index()].term = if next.left.is_some() {
            args.push(cond);
            args.extend(next.own(&results));
            Term::Br(Edge { block: next.block, args })
        } else {
            let then = Edge { block: next.block, args };
            Term::CondBr { cond, uniform, then, els: Edge { block: out.block, args: results } }
        };
    }
}

#[cfg(test)]
mod tests;
