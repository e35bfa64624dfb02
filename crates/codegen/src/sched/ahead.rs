//! Loads of the next iteration: a loop that waits for what it loads starts each load one iteration ahead.
//!
//! ```text
//! before: br loop(i, ..)                 before: x' = load a(i); br loop(i, .., x')
//! loop(i, ..):                           loop(i, .., x):
//!   x = load a(i)                          use x
//!   use x                                  j = i + 1; p = j < n
//!   j = i + 1; p = j < n                   @p y = load a(j)
//!   long way                               long way
//!   brif p, loop(j, ..), after             brif p, loop(j, .., y), after
//! ```
//!
//! The load of the first iteration stands before the loop. Each other one stands in the iteration before its own, behind the last reader of what that
//! one has loaded, so that both take the same registers, and under the condition to go on: no thread loads what the program would not have
//! loaded. Where that is false the registers keep anything, and nobody reads them.
//!
//! For loops of one block that ask at their end, whose question and addresses come of counters alone ([`Slices`]). A load passes what stands in
//! the rest of its new iteration and at the start of its old one, so nothing there may order it or write what it reads: memory that the PTX says nobody
//! writes passes everything, other loads no store to their space, atomic, fence, or barrier, but for barriers in a kernel that writes
//! no global memory before its last barrier ([`quiet`]). Done only where the loop is estimated to wait less by more than what registers it takes ([`Plan`]).
//! Runs on SSA form behind [`crate::guards`], whose loads under a guard it takes, too.

mod quiet;

use super::memory::{Memory, memory};
use super::order::movable;
use super::prepass::{Values, given, graph, order, order_blocks};
use super::sink::rename;
use crate::cfg::Cfg;
use crate::guards::access;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{sass_defs, sass_uses};
use crate::mir::{BlockId, Edge, Func, Inst, Op, Term, Vreg};
use crate::regalloc;
use quiet::quiet;
use rustc_hash::FxHashMap;
use sass::form::{ModName as M, SlotName as S};
use sass::inst::{Inst as Sass, Operand, Value};
use sass::latency::{self, Class};
use sass::reg::{File, Reg};
use sass::{enums, forms as F};
use smallvec::SmallVec;

/// Instructions of a loop that is looked at.
const LONGEST: usize = 4096;
/// Instructions that are computed for the next iteration at most.
const CLONED: usize = 16;
/// A loop must get faster by one cycle in so many where that takes no more registers, and where it does.
const GAIN: u64 = 8;
const GAIN_WITH_MORE: u64 = 4;
/// General registers up to which a multiprocessor holds as many threads as it may, less what is not for values.
const FREELY: u32 = 28;
/// So many loops of a function are changed on trial, each of which takes as long as the function does.
const TRIALS: u32 = 4;
/// Registers that are left to assignment where there are as many as may be.
const SPARE: u32 = 12;

/// Runs the pass for chip `sm`; true if anything changed.
pub fn run(f: &mut Func, sm: u16) -> bool {
    let list: Vec<usize> = (0..f.blocks.len()).filter(|&b| back(f, b).is_some()).collect();
    if list.is_empty() {
        return false;
    }
    let cfg = f.cfg();
    let mut scratch =
        Scratch { at: vec![Place::Outside; f.vregs.len()], quiet: None, leaves: None, needs: None, trials: 0 };
    let mut changed = false;
    for b in list {
        let loads = |i: &Inst| matches!(&i.op, Op::Sass(s) if plain_load(s).is_some());
        if !f.blocks[b].insts.iter().any(loads) {
            continue;
        }
        let Some(l) = Loop::find(f, &cfg, b) else { continue };
        scratch.note(f, b, true);
        let plan = Plan::new(f, &cfg, &l, &mut scratch, sm);
        scratch.note(f, b, false);
        if let Some(new) = plan {
            *f = new;
            scratch.at.resize(f.vregs.len(), Place::Outside);
            changed = true;
        }
    }
    if changed {
        super::dead::run(f);
    }
    changed
}

/// Where a value of a loop comes from.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Outside,
    Param(u32),
    Inst(u32),
}

struct Scratch {
    /// By value.
    at: Vec<Place>,
    /// Whether global loads may pass barriers, if that was asked.
    quiet: Option<bool>,
    /// [`leaving`], if that was asked. What a change adds stays in its block.
    leaves: Option<Vec<bool>>,
    /// General registers that each block needs, if that was asked.
    needs: Option<Vec<u32>>,
    trials: u32,
}

impl Scratch {
    /// Begins or ends with a block.
    fn note(&mut self, f: &Func, b: usize, begins: bool) {
        let mut set = |v: Vreg, p: Place| self.at[v.index()] = if begins { p } else { Place::Outside };
        (0..).zip(&f.blocks[b].params).for_each(|(n, &p)| set(p, Place::Param(n)));
        for (n, inst) in (0..).zip(&f.blocks[b].insts) {
            f.defs(&inst.op, |v| set(v, Place::Inst(n)));
        }
    }
}

/// Of a block that may go on with itself: where the edge starts that leads back to it, which is in another block where critical edges are split, and whether
/// that is the way taken when the condition is true.
pub(super) fn back(f: &Func, b: usize) -> Option<(usize, bool)> {
    let Term::CondBr { then, els, .. } = &f.blocks[b].term else { return None };
    let leads = |e: &Edge| {
        let to = e.block.0 as usize;
        let passed = &f.blocks[to];
        match &passed.term {
            _ if to == b => Some(b),
            Term::Br(on) if on.block.0 as usize == b && passed.insts.is_empty() && passed.params.is_empty() => Some(to),
            _ => None,
        }
    };
    match (leads(then), leads(els)) {
        (Some(from), None) => Some((from, true)),
        (None, Some(from)) => Some((from, false)),
        _ => None,
    }
}

/// A loop of one block.
struct Loop {
    block: usize,
    /// The block that leads to it, and nowhere else.
    before: usize,
    /// Where the edge back to it starts.
    latch: usize,
    /// What it is given by these.
    start: Vec<Vreg>,
    next: Vec<Vreg>,
    /// True where it goes on.
    again: Operand,
}

impl Loop {
    fn find(f: &Func, cfg: &Cfg, block: usize) -> Option<Loop> {
        let Term::CondBr { cond, .. } = &f.blocks[block].term else { return None };
        let (latch, sense) = back(f, block)?;
        cond.as_reg().filter(|r| r.file() == File::Pred && r.is_virtual())?;
        let mut others = cfg.preds[block].iter().filter(|&&p| p as usize != latch);
        let (Some(&before), None) = (others.next(), others.next()) else { return None };
        let alone = latch == block || cfg.preds[latch].len() == 1;
        let Term::Br(way) = &f.blocks[before as usize].term else { return None };
        let next = f.blocks[latch].term.edges().into_iter().find(|e| e.block.0 as usize == block)?.args.clone();
        let stays = |s: &Sass| s.form().effects.flow && !matches!(s.form().mnemonic, "WARPSYNC" | "BSSY" | "BSYNC");
        let odd = |i: &Inst| match &i.op {
            Op::Sass(s) => stays(s),
            Op::Copy(_) => false,
            _ => true,
        };
        let insts = &f.blocks[block].insts;
        let fit = block != 0 && alone && insts.len() <= LONGEST && !insts.iter().any(odd);
        let again = if sense { *cond } else { cond.inverted() };
        fit.then(|| Loop { block, before: before as usize, latch, start: way.args.clone(), next, again })
    }
}

/// What can be computed as soon as an iteration begins, and what of it for the next one.
struct Slices {
    /// By instruction: it reads nothing but what is there at the start, or what is computed so; has no effect, and always happens.
    early: Vec<bool>,
    /// By instruction, where it can be computed for the next iteration, too, though that may not happen: how long the way to it is, at most [`CLONED`].
    ahead: Vec<Option<u8>>,
}

impl Slices {
    fn new(f: &Func, l: &Loop, at: &[Place]) -> Slices {
        let insts = &f.blocks[l.block].insts;
        let mut s = Slices { early: vec![false; insts.len()], ahead: vec![None; insts.len()] };
        let plain = |i: &Inst| match &i.op {
            Op::Sass(s) => s.guard == Operand::reg(Reg::PT) && movable(s),
            _ => false,
        };
        for (n, inst) in insts.iter().enumerate().filter(|i| plain(i.1)) {
            let mut early = true;
            f.uses(&inst.op, |v| early &= s.is_early(at, v));
            s.early[n] = early;
        }
        for (n, inst) in insts.iter().enumerate() {
            // A constant that is looked up may lie outside of its bank.
            if !s.early[n] || matches!(&inst.op, Op::Sass(s) if looked_up(s)) {
                continue;
            }
            let mut longest = Some(0);
            f.uses(&inst.op, |v| longest = longest.zip(s.is_ahead(l, at, v)).map(|(a, b): (u8, u8)| a.max(b)));
            s.ahead[n] = longest.map(|way| way + 1).filter(|&way| way as usize <= CLONED);
        }
        s
    }

    fn is_early(&self, at: &[Place], v: Vreg) -> bool {
        match at[v.index()] {
            Place::Inst(n) => self.early[n as usize],
            _ => true,
        }
    }

    /// If the next iteration's value can be computed in this one, how long the way to it is.
    fn is_ahead(&self, l: &Loop, at: &[Place], v: Vreg) -> Option<u8> {
        match at[v.index()] {
            Place::Outside => Some(0),
            Place::Param(n) => self.is_early(at, l.next[n as usize]).then_some(0),
            Place::Inst(n) => self.ahead[n as usize],
        }
    }
}

fn looked_up(s: &Sass) -> bool {
    s.form().class == Class::Const && s.get(S::Ra).and_then(Operand::as_reg).is_some_and(|r| !r.is_const())
}

/// A load that may stand in the iteration before its own.
#[derive(Clone)]
struct Load {
    /// The instruction, and the last one that reads what it gives.
    inst: usize,
    last: usize,
    /// Those that read it.
    readers: SmallVec<[u32; 4]>,
    values: SmallVec<[Vreg; 4]>,
    cycles: u64,
}

/// An ordinary load of global memory, or one that may be, and what memory it reads. What shared memory is read by does not say whether that is volatile.
fn plain_load(s: &Sass) -> Option<Memory> {
    let form = s.form();
    let (memory, sem) = (memory(s), s.modifier(M::Sem));
    let load = form.class == Class::Global && form.effects.load && !form.effects.store;
    let weak = sem == enums::loadsem::WEAK || sem == enums::loadsem::CONSTANT;
    let mut known = true;
    sass_uses(s, |p| known &= p.reg.is_const() || p.reg.is_virtual() || p.reg.file() == File::Ugpr);
    (access(s) && load && weak && !memory.ordered && known).then_some(memory)
}

/// By value: another block than its own reads it, or a block's end hands it on or asks for it.
fn leaving(f: &Func) -> Vec<bool> {
    let mut home = vec![u32::MAX; f.vregs.len()];
    let mut out = vec![false; f.vregs.len()];
    for (b, block) in (0..).zip(&f.blocks) {
        block.insts.iter().for_each(|i| f.defs(&i.op, |v| home[v.index()] = b));
    }
    for (b, block) in (0..).zip(&f.blocks) {
        block.insts.iter().for_each(|i| f.uses(&i.op, |v| out[v.index()] |= home[v.index()] != b));
        f.term_uses(&block.term, |v| out[v.index()] = true);
        block.term.edges().iter().flat_map(|e| &e.args).for_each(|v| out[v.index()] = true);
    }
    out
}

/// The loads of a loop that may be ahead.
fn loads(f: &Func, cfg: &Cfg, l: &Loop, slices: &Slices, scratch: &mut Scratch, sm: u16) -> Vec<Load> {
    let insts = &f.blocks[l.block].insts;
    let found = |i: &Inst| match &i.op {
        Op::Sass(s) => plain_load(s),
        _ => None,
    };
    // What orders memory: instruction, spaces, whether it is a barrier.
    let mut order: Vec<(usize, u8, bool)> = Vec::new();
    for (n, inst) in insts.iter().enumerate() {
        if let Op::Sass(s) = &inst.op {
            let m = memory(s);
            if m.ordered {
                // A copy into shared memory reads the other.
                let spaces = if s.form == F::LDGSTS { m.spaces & !quiet::GLOBAL } else { m.spaces };
                order.push((n, spaces, quiet::barrier(s)));
            }
        }
    }
    // By instruction: who reads it here last.
    let mut readers: Vec<SmallVec<[u32; 4]>> = vec![SmallVec::new(); insts.len()];
    for (n, inst) in (0..).zip(insts) {
        f.uses(&inst.op, |v| {
            if let Place::Inst(k) = scratch.at[v.index()] {
                readers[k as usize].push(n);
            }
        });
    }
    let leaves = scratch.leaves.get_or_insert_with(|| leaving(f));
    let mut list = Vec::new();
    for (n, inst) in insts.iter().enumerate() {
        let (Op::Sass(s), Some(m)) = (&inst.op, found(inst)) else { continue };
        let mut beyond = false;
        f.defs(&inst.op, |v| beyond |= leaves[v.index()]);
        let Some(&last) = readers[n].last().filter(|_| !beyond) else { continue };
        let mut ahead = true;
        f.uses(&inst.op, |v| ahead &= slices.is_ahead(l, &scratch.at, v).is_some());
        let mut passes = |&(k, spaces, barrier): &(usize, u8, bool)| {
            let between = k > n && k <= last as usize;
            let global = s.form().mnemonic == "LDG";
            between
                || spaces & m.spaces == 0
                || barrier && global && *scratch.quiet.get_or_insert_with(|| quiet(f, cfg))
        };
        if !ahead || !order.iter().all(&mut passes) {
            continue;
        }
        let mut values = SmallVec::new();
        f.defs(&inst.op, |v| values.push(v));
        let cycles = u64::from(latency::expected(s, sm));
        list.push(Load { inst: n, last: last as usize, readers: readers[n].clone(), values, cycles });
    }
    list
}

/// What an iteration takes, in cycles, estimated.
struct Estimate {
    edges: super::postpass::Graph,
    count: usize,
}

impl Estimate {
    fn new(f: &Func, b: usize, sm: u16) -> Estimate {
        let insts = &f.blocks[b].insts;
        Estimate { edges: graph(f, insts, &mut Values::of(f), sm), count: insts.len() }
    }

    /// Where these loads are ahead.
    fn cycles(&self, loads: &[Load]) -> u64 {
        let mut time = vec![0u64; self.count];
        let mut ahead = loads.iter().map(|l| l.inst).peekable();
        let mut end = self.count as u64;
        for i in 0..self.count {
            let there = ahead.next_if_eq(&i).is_some();
            end = end.max(time[i] + 1);
            for &(to, cycles) in self.edges.after(i) {
                let at = if there { 0 } else { time[i] + u64::from(cycles) };
                time[to as usize] = time[to as usize].max(at);
            }
        }
        // What is read early is there early in the next iteration.
        let waits = |l: &Load| {
            let reads = || l.readers.iter().map(|&r| time[r as usize]);
            l.cycles + 2 + reads().max().unwrap_or(0) - reads().min().unwrap_or(0)
        };
        loads.iter().map(waits).fold(end, u64::max)
    }
}

/// The changed function, if that is worth it.
struct Plan;

impl Plan {
    #[allow(clippy::new_ret_no_self)]
    fn new(f: &Func, cfg: &Cfg, l: &Loop, scratch: &mut Scratch, sm: u16) -> Option<Func> {
        let slices = Slices::new(f, l, &scratch.at);
        let asked = l.again.as_reg().map(|r| Vreg(r.index()))?;
        if !slices.is_early(&scratch.at, asked) {
            return None;
        }
        let list = loads(f, cfg, l, &slices, scratch, sm);
        if list.is_empty() {
            return None;
        }
        let estimate = Estimate::new(f, l.block, sm);
        let now = estimate.cycles(&[]);
        let then = estimate.cycles(&list);
        if now.saturating_sub(then) * GAIN < now {
            return None;
        }
        if scratch.trials == TRIALS {
            return None;
        }
        scratch.trials += 1;
        let mut new = f.clone();
        Change::new(l, &scratch.at).run(&mut new, &list)?;
        let old = scratch.needs.get_or_insert_with(|| needs(f, cfg));
        let elsewhere = old.iter().copied().max().unwrap_or(0);
        let dear = (now - then) * GAIN_WITH_MORE < now;
        let room = if dear { elsewhere } else { given(elsewhere).max(FREELY) };
        let need = needs_in(&mut new, cfg, l.block);
        let done = need <= room.min(f.max_gprs.saturating_sub(SPARE));
        done.then(|| {
            old[l.block] = need;
            new
        })
    }
}

/// General registers that each block needs.
fn needs(f: &Func, cfg: &Cfg) -> Vec<u32> {
    let mut f = f.clone();
    let (live, _) = order(&mut f, cfg);
    regalloc::pressures(&f, cfg, &live).1.iter().map(|p| p[File::Gpr as usize]).collect()
}

/// General registers that one block needs.
fn needs_in(f: &mut Func, cfg: &Cfg, b: usize) -> u32 {
    let kept = f.blocks[b].insts.clone();
    let live = Liveness::new(f, cfg);
    order_blocks(f, &[b as u32], &live, false);
    let need = regalloc::pressures_in(f, cfg, &live, &[b as u32]).1[b][File::Gpr as usize];
    f.blocks[b].insts = kept;
    need
}

/// The change of a function.
struct Change<'a> {
    l: &'a Loop,
    at: &'a [Place],
    /// The loop's instructions as they were.
    old: Vec<Inst>,
    /// By instruction: it stands where it shall.
    done: Vec<bool>,
    /// The loop's instructions as they shall be, and what the block before it gets.
    out: Vec<Inst>,
    first: Vec<Inst>,
    /// Values of the loop: the same in the next iteration, and in the first one.
    next: FxHashMap<Vreg, Vreg>,
    start: FxHashMap<Vreg, Vreg>,
    cloned: usize,
}

/// Which iteration something is computed for, and where: the next one, in the loop, or the first one, before it.
#[derive(Clone, Copy, PartialEq)]
enum For {
    Next,
    First,
}

impl<'a> Change<'a> {
    fn new(l: &'a Loop, at: &'a [Place]) -> Change<'a> {
        Change {
            l,
            at,
            old: Vec::new(),
            done: Vec::new(),
            out: Vec::new(),
            first: Vec::new(),
            next: FxHashMap::default(),
            start: FxHashMap::default(),
            cloned: 0,
        }
    }

    /// Makes it; nothing where too much would have to be computed for it.
    fn run(mut self, f: &mut Func, loads: &[Load]) -> Option<()> {
        let b = self.l.block;
        self.old = std::mem::take(&mut f.blocks[b].insts);
        self.done = vec![false; self.old.len()];
        let mut by_place: Vec<&Load> = loads.iter().collect();
        by_place.sort_by_key(|l| (l.last, l.inst));
        loads.iter().for_each(|l| self.done[l.inst] = true);
        let mut places = by_place.into_iter().peekable();
        // Each value of a load: its parameter, and what the first and the next iteration give.
        let mut given: Vec<(Vreg, [Vreg; 2])> = Vec::new();
        for n in 0..self.old.len() {
            self.emit(f, n);
            while let Some(load) = places.next_if(|l| l.last == n) {
                let [next, start] = [For::Next, For::First].map(|w| self.load(f, load.inst, w));
                given.extend(load.values.iter().zip(start.into_iter().zip(next)).map(|(&v, (s, n))| (v, [s, n])));
            }
        }
        if self.cloned > CLONED {
            return None;
        }
        let mut names: FxHashMap<Vreg, Vreg> = FxHashMap::default();
        f.blocks[b].insts = self.out;
        let back = |e: &Edge| e.block == BlockId(b as u32);
        for (v, [start, next]) in given {
            let p = f.new_vreg(f.vregs[v.index()]);
            f.blocks[b].params.push(p);
            names.insert(v, p);
            f.blocks[self.l.latch].term.edges_mut().into_iter().filter(|e| back(e)).for_each(|e| e.args.push(next));
            f.blocks[self.l.before].term.edges_mut().into_iter().for_each(|e| e.args.push(start));
        }
        rename(f, b, &mut |_, v| names.get(&v).copied().unwrap_or(v));
        f.blocks[self.l.before].insts.append(&mut self.first);
        Some(())
    }

    /// Puts an instruction of the loop behind those that stand already, and before it what it reads.
    fn emit(&mut self, f: &Func, n: usize) {
        let mut stack = vec![n];
        while let Some(&n) = stack.last() {
            if self.done[n] {
                stack.pop();
                continue;
            }
            let before = stack.len();
            f.uses(&self.old[n].op, |v| {
                if let Place::Inst(k) = self.at[v.index()]
                    && !self.done[k as usize]
                {
                    stack.push(k as usize);
                }
            });
            if stack.len() == before {
                self.done[n] = true;
                self.out.push(self.old[n].clone());
                stack.pop();
            }
        }
    }

    /// What a value of the loop is in the iteration that is asked for; what makes it so is put in its place.
    fn value(&mut self, f: &mut Func, v: Vreg, what: For) -> Vreg {
        let known = match what {
            For::Next => self.next.get(&v),
            For::First => self.start.get(&v),
        };
        if let Some(&known) = known {
            return known;
        }
        match (self.at[v.index()], what) {
            (Place::Outside, _) => v,
            (Place::Param(n), For::First) => self.l.start[n as usize],
            (Place::Param(n), For::Next) => {
                let v = self.l.next[n as usize];
                if let Place::Inst(k) = self.at[v.index()] {
                    self.emit(f, k as usize);
                }
                v
            }
            (Place::Inst(n), _) => {
                let made = self.copy(f, n as usize, what);
                let mut old: SmallVec<[Vreg; 4]> = SmallVec::new();
                f.defs(&self.old[n as usize].op, |v| old.push(v));
                let names = if what == For::Next { &mut self.next } else { &mut self.start };
                names.extend(old.into_iter().zip(made));
                names.get(&v).copied().unwrap_or(v)
            }
        }
    }

    /// Puts a copy of an instruction where it belongs, for another iteration; gives its results.
    fn copy(&mut self, f: &mut Func, n: usize, what: For) -> SmallVec<[Vreg; 4]> {
        let Inst { op: Op::Sass(s), loc, .. } = &self.old[n] else { return SmallVec::new() };
        let (s, loc) = (s.clone(), *loc);
        let (s, made) = self.instead(f, s, what);
        self.cloned += (what == For::Next) as usize;
        self.put(Inst::new(Op::Sass(s), loc), what);
        made
    }

    fn put(&mut self, inst: Inst, what: For) {
        if what == For::Next { &mut self.out } else { &mut self.first }.push(inst);
    }

    /// An instruction of another iteration, and its results, which are new.
    fn instead(&mut self, f: &mut Func, mut s: Sass, what: For) -> (Sass, SmallVec<[Vreg; 4]>) {
        let (mut reads, mut writes) = (SmallVec::<[_; 8]>::new(), SmallVec::<[_; 4]>::new());
        sass_uses(&s, |p| reads.push(p));
        sass_defs(&s, |p| writes.push(p));
        for p in reads.into_iter().filter(|p| p.reg.is_virtual()) {
            let list = f.scalars(p.reg);
            let new: SmallVec<[Vreg; 4]> = list.iter().map(|&v| self.value(f, v, what)).collect();
            let r = Value::Reg(f.vector(&new));
            match p.slot {
                Some(n) => s.operands[n as usize].value = r,
                None => s.guard.value = r,
            }
        }
        let mut made = SmallVec::new();
        for p in writes.into_iter().filter(|p| p.reg.is_virtual()) {
            let new: SmallVec<[Vreg; 4]> = f.scalars(p.reg).iter().map(|&v| f.new_vreg(f.vregs[v.index()])).collect();
            if let Some(n) = p.slot {
                s.operands[n as usize].value = Value::Reg(f.vector(&new));
            }
            made.extend(new);
        }
        (s, made)
    }

    /// Puts a load of another iteration where it belongs; gives what it loads.
    fn load(&mut self, f: &mut Func, n: usize, what: For) -> SmallVec<[Vreg; 4]> {
        let Inst { op: Op::Sass(s), loc, other } = &self.old[n] else { return SmallVec::new() };
        let (s, loc, other) = (s.clone(), *loc, *other);
        let (mut s, made) = self.instead(f, s, what);
        if what == For::Next {
            let again = self.l.again;
            if let Some(Place::Inst(k)) = again.as_reg().map(|r| self.at[r.index() as usize]) {
                self.emit(f, k as usize);
            }
            s.guard = match s.guard {
                g if g == Operand::reg(Reg::PT) => again,
                own => {
                    let both = f.new_vreg(File::Pred);
                    let and = Sass::new(F::PLOP3).with(S::Pu, f.reg(both)).with(S::Pp, again).with(S::Pq, own);
                    let and = and.with(S::Pr, Reg::PT).with(S::Lut, Operand::imm(0x80));
                    self.put(Inst::new(Op::Sass(and), loc), what);
                    Operand::reg(f.reg(both))
                }
            };
        }
        self.put(Inst { op: Op::Sass(s), loc, other }, what);
        made
    }
}

#[cfg(test)]
mod tests;
