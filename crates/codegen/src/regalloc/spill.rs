//! Spilling, before registers are assigned: makes the pressure of one file fit everywhere.
//!
//! Braun and Hack's extension of Belady's rule to control flow: each block is walked once with the set of values that are
//! in registers; when there are too many, the one whose next use is farthest goes, constants and the like before others. A value that has to come back is
//! stored once, where it is defined (its definition dominates every reload), or computed again if it is a constant or what it is
//! computed from is at hand.
//! Predicates go to general registers instead of the stack. Reloads give a value new names; block parameters join them,
//! and those that turn out to join one name only are taken out again.
//!
//! A block parameter that is not in a register at the start of its block lives on the stack there: the edges store it.

mod distances;
mod edges;
mod flying;
mod names;
mod remat;
mod symbols;
mod unread;
mod webs;

pub use distances::constant;
pub use symbols::Symbols;

use super::{Banks, Note, Stats, prepare};
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_uses};
use crate::mir::{Func, Inst, Op, Term, Vreg};
use crate::sched::holds::{Flight, flies};
use diag::Diagnostic;
use rustc_hash::FxHashSet;
use sass::form::{ModName as M, SlotName as S};
use sass::inst::{Inst as Sass, Operand, Value};
use sass::latency::Class;
use sass::reg::{File, Reg};
use sass::{enums, forms as F};
use smallvec::SmallVec;

const FAR: u32 = u32::MAX;
const NONE: u32 = u32::MAX;
/// Added to distances over the exit of a loop.
const LEAVE: u32 = 100_000;
/// Walks over all blocks, at most, that find how far the next uses are.
const ROUNDS: u32 = 8;
/// What is computed again from nothing takes no store and no load: it goes before values whose next use is up to so many times as far.
const CHEAP: u32 = 10;
/// As many instructions make what is computed again from constants alone, beside the constant itself.
const CHAIN: u8 = 3;
/// What only some of the ways into a block have in a register stays in memory there, if it is needed so many instructions later and a way comes from a
/// routine for seldom cases: that one would have to bring it back, as those from the next routines would. Elsewhere each reader would load it again.
const APART: u32 = 80;

struct Spiller<'a> {
    f: &'a mut Func,
    cfg: &'a Cfg,
    live: &'a Liveness,
    file: File,
    /// Registers that may be full.
    k: usize,
    banks: Banks,
    symbols: &'a mut Symbols,
    dist_in: Vec<Vec<u32>>,
    dist_params: Vec<Vec<u32>>,
    /// By block in which loops begin, of each value that lives in and each parameter: how soon it is needed; `FAR`: it is not in a register there.
    held_in: Vec<Vec<u32>>,
    held_params: Vec<Vec<u32>>,
    /// So many registers of those may be taken there.
    held_most: Vec<usize>,
    next: Vec<u32>,
    /// By block: what is behind it has changed since its distances were found.
    stale: Vec<bool>,
    /// The last block that was looked at in which each value lives or is defined: only there does `next` say anything.
    lives_in: Vec<u32>,
    name: Vec<Vreg>,
    w: Vec<Vreg>,
    in_w: Vec<u32>,
    exit: Vec<Vec<(Vreg, Vreg)>>,
    entry: Vec<Vec<(Vreg, Option<Vreg>)>>,
    /// By block and parameter: on the stack.
    in_memory: Vec<Vec<bool>>,
    /// Slot, or carrier, of each value that has one.
    home: Vec<u32>,
    /// Whose slot each value shares, and the slots of those.
    shares: Vec<Vreg>,
    shared: Vec<u32>,
    spilled: Vec<Vreg>,
    again: Vec<Option<Box<Sass>>>,
    /// How many instructions make those of them that are no constants.
    price: Vec<u8>,
    /// Where each value is computed that may be computed again elsewhere: block and place in what was put out.
    made_at: Vec<(u32, u32)>,
    /// Which value each name stands for.
    value_of: Vec<Vreg>,
    /// By value: it is whatever its register holds. Empty where there is none.
    undefined: Vec<bool>,
    /// The block at hand.
    at: u32,
    /// The instruction of it at hand.
    here: u32,
    slots: u32,
    out: Vec<Inst>,
    notes: Vec<Note>,
    loads: u32,
    /// Stores on edges.
    copied: u32,
    loc: u32,
    /// Values reloaded on the edge at hand, with their names.
    edge_names: Vec<(Vreg, Vreg)>,
    /// By value.
    tally: Vec<Tally>,
    /// By block: sums under way where it begins. Empty where no product is.
    under_way: Vec<Flight>,
    /// Sums under way behind the instruction at hand.
    flying: Flight,
    /// Sums that had to go while they were under way.
    hurried: FxHashSet<Vreg>,
}

/// At how many ends of the blocks before `block` a value is in a register, and whether under one name.
#[derive(Clone, Copy)]
struct Tally {
    block: u32,
    count: u32,
    name: Vreg,
    same: bool,
}

/// Makes `file` fit, with so many registers of each block left free, none of those that `spare` says nothing of.
///
/// # Errors
/// If the limit is too small for some instruction.
#[allow(clippy::too_many_arguments)]
pub fn run(
    f: &mut Func,
    cfg: &Cfg,
    live: &Liveness,
    file: File,
    banks: &Banks,
    spare: &[usize],
    symbols: &mut Symbols,
    notes: &mut [Vec<Note>],
    stats: &mut Stats,
) -> Result<(), Diagnostic> {
    let n = f.vregs.len();
    let blocks = f.blocks.len();
    let gpr = file == File::Gpr;
    let k = banks.count(file) as usize;
    let owned = if gpr { crate::registers::owned(f, cfg) } else { Vec::new() };
    let mut s = Spiller {
        undefined: super::undefined::values(f),
        cfg,
        live,
        file,
        k,
        banks: *banks,
        symbols,
        dist_in: live.live_in.iter().map(|l| vec![FAR; l.len()]).collect(),
        dist_params: f.blocks.iter().map(|b| vec![FAR; b.params.len()]).collect(),
        held_in: vec![Vec::new(); blocks],
        held_params: vec![Vec::new(); blocks],
        held_most: vec![0; blocks],
        next: vec![FAR; n],
        stale: vec![true; blocks],
        lives_in: vec![NONE; n],
        name: (0..n as u32).map(Vreg).collect(),
        w: Vec::new(),
        in_w: vec![0; n],
        exit: vec![Vec::new(); blocks],
        entry: vec![Vec::new(); blocks],
        in_memory: vec![Vec::new(); blocks],
        home: vec![NONE; n],
        shares: Vec::new(),
        shared: vec![NONE; if gpr { n } else { 0 }],
        spilled: Vec::new(),
        again: vec![None; n],
        price: vec![0; n],
        made_at: vec![(NONE, 0); n],
        value_of: (0..n as u32).map(Vreg).collect(),
        at: 0,
        here: 0,
        slots: 0,
        out: Vec::new(),
        notes: Vec::new(),
        loads: 0,
        copied: 0,
        loc: u32::MAX,
        edge_names: Vec::new(),
        tally: vec![Tally { block: NONE, count: 0, name: Vreg(NONE), same: false }; n],
        under_way: if gpr { flying::entries(f, cfg) } else { Vec::new() },
        flying: Flight::new(),
        hurried: FxHashSet::default(),
        f,
    };
    s.find_constants();
    if gpr {
        s.shares = webs::find(s.f, cfg, live, &|v| s.again[v.index()].is_none());
    }
    s.distances(ROUNDS);
    // R1 is one of those that threads have.
    let own = |b: u32| owned.get(b as usize).copied();
    let full = |b: u32| {
        let spare = spare.get(b as usize).copied().unwrap_or(0);
        own(b).map_or(k, |n| k.min(n.saturating_sub(1))).saturating_sub(spare)
    };
    if s.hold(&full) {
        // Only the ways back have become longer or shorter: one walk does.
        s.distances(1);
    }
    for &b in &cfg.rpo {
        s.k = full(b);
        s.banks.gprs = own(b).map_or(banks.gprs, |n| banks.gprs.min(n as u32));
        s.block(b, notes)?;
    }
    s.edges(notes);
    s.drop_unread(notes);
    s.stores(notes, stats);
    s.drop_single_joins();
    if gpr {
        s.f.frame.fixed = s.f.frame.fixed.next_multiple_of(4) + 4 * s.slots;
        stats.spilled += s.spilled.len() as u32;
        stats.spill_loads += 4 * s.loads;
        stats.spill_stores += 4 * s.copied;
    }
    Ok(())
}

impl Spiller<'_> {
    fn mine(&self, v: Vreg) -> bool {
        self.f.vregs[v.index()] == self.file
    }

    fn new_name(&mut self, file: File, symbol: u32) -> Vreg {
        self.symbols.push(symbol);
        let name = self.f.new_vreg(file);
        self.value_of.push(name);
        name
    }

    /// A new name of a value.
    fn name_of(&mut self, v: Vreg) -> Vreg {
        let symbol = self.symbols.get(v);
        let name = self.new_name(self.file, symbol);
        self.value_of[name.index()] = v;
        name
    }

    // ---- the set of values in registers -----------------------------------------------------------------------------

    fn insert(&mut self, v: Vreg) {
        if self.in_w[v.index()] == 0 {
            self.w.push(v);
            self.in_w[v.index()] = self.w.len() as u32;
        }
    }

    fn remove(&mut self, v: Vreg) {
        let at = std::mem::take(&mut self.in_w[v.index()]);
        if at > 0 {
            self.w.swap_remove(at as usize - 1);
            if let Some(moved) = self.w.get(at as usize - 1) {
                self.in_w[moved.index()] = at;
            }
        }
    }

    /// How far the next use of a value is, many times as far where it costs next to nothing to have it again.
    fn farness(&self, v: Vreg) -> u32 {
        let next = self.next[v.index()];
        if next == FAR || self.again[v.index()].is_none() {
            return next;
        }
        let cheap = CHEAP / (1 + u32::from(self.price[v.index()]));
        (next - self.here.min(next)).saturating_mul(cheap).saturating_add(self.here).min(FAR - 1)
    }

    /// Evicts values until `limit` are left.
    fn limit(&mut self, limit: usize, keep: &[Vreg]) -> Result<(), Diagnostic> {
        while self.w.len() > limit {
            let farthest = |of: &dyn Fn(Vreg) -> bool| {
                self.w.iter().copied().filter(|v| !keep.contains(v) && of(*v)).max_by_key(|&v| (self.farness(v), v.0))
            };
            // Sums under way free nothing before they have landed.
            let far = match self.flying.is_empty() {
                true => farthest(&|_| true),
                false => farthest(&|v| !flies(&self.flying, v)).or_else(|| farthest(&|_| true)),
            };
            let Some(v) = far else {
                return Err(Diagnostic::error(format!(
                    "function '{}': an instruction needs more registers than the limit of {} leaves",
                    self.f.name, self.f.max_gprs
                )));
            };
            if flies(&self.flying, v) {
                self.hurried.insert(v);
            }
            self.remove(v);
        }
        Ok(())
    }

    fn emit(&mut self, s: Sass, note: Note) {
        self.out.push(Inst::new(Op::Sass(s), self.loc));
        self.notes.push(note);
    }

    /// The stack slot or the carrier of a value.
    fn home(&mut self, v: Vreg) -> u32 {
        if self.home[v.index()] == NONE {
            self.home[v.index()] = if self.file == File::Gpr {
                let shared = &mut self.shared[self.shares[v.index()].index()];
                if *shared == NONE {
                    *shared = self.slots;
                    self.slots += 1;
                }
                *shared
            } else {
                let symbol = self.symbols.get(v) | Symbols::ENCODED;
                self.new_name(File::Gpr, symbol).0
            };
            self.spilled.push(v);
        }
        self.home[v.index()]
    }

    fn slot_offset(&self, slot: u32) -> i64 {
        self.f.frame.fixed.next_multiple_of(4) as i64 + 4 * slot as i64
    }

    /// Emits what brings a value back under a new name.
    fn reload(&mut self, v: Vreg) -> Vreg {
        let n = self.name_of(v);
        let r = self.f.reg(n);
        if let Some(s) = self.again[v.index()].clone() {
            let mut s = s.with(S::Rd, r);
            if self.price[v.index()] == 0 {
                self.emit(s, Note::Again(v));
                return n;
            }
            let mut reads: SmallVec<[Place; 8]> = SmallVec::new();
            sass_uses(&s, |p| reads.push(p));
            let mut from = None;
            for p in reads.iter().filter(|p| p.reg.is_virtual()) {
                let name = *from.get_or_insert_with(|| self.reload(Vreg(p.reg.index())));
                if let Some(slot) = p.slot {
                    s.operands[slot as usize].value = Value::Reg(self.f.reg(name));
                }
            }
            self.emit(s, Note::Anew(v));
            return n;
        }
        let home = self.home(v);
        if self.file == File::Gpr {
            let at = Operand::imm(self.slot_offset(home));
            self.emit(Sass::new(F::LDL).with(S::Rd, r).with(S::Ra, Reg::r(1)).with(S::Imm, at), Note::Load(home));
        } else {
            let carrier = self.f.reg(Vreg(home));
            let s = Sass::new(F::ISETP_RR).with(S::Pu, r).with(S::Ra, carrier).with(S::Rb, Reg::RZ);
            let s = s.with_mod(M::Cmp, enums::icmp::NE).with_mod(M::Sign, enums::sign::U32);
            self.emit(s, Note::Decode);
        }
        n
    }

    fn store(&self, name: Vreg, home: u32) -> (Sass, Note) {
        if self.file == File::Gpr {
            let at = Operand::imm(self.slot_offset(home));
            let s = Sass::new(F::STL).with(S::Ra, Reg::r(1)).with(S::Imm, at).with(S::Rb, self.f.reg(name));
            return (s, Note::Store(home));
        }
        let s = Sass::new(F::SEL_RI)
            .with(S::Rd, self.f.reg(Vreg(home)))
            .with(S::Ra, Reg::RZ)
            .with(S::Rb, Operand::imm(1))
            .with(S::Pp, Operand::reg(self.f.reg(name)).inverted());
        (s, Note::Encode)
    }

    // ---- blocks -----------------------------------------------------------------------------------------------------

    fn block(&mut self, b: u32, notes: &mut [Vec<Note>]) -> Result<(), Diagnostic> {
        let bi = b as usize;
        self.at = b;
        self.reset(bi);
        let mut insts = std::mem::take(&mut self.f.blocks[bi].insts);
        self.out.reserve(insts.len() + insts.len() / 8);
        let old = std::mem::take(&mut notes[bi]);
        // Next uses, to be taken from the end while walking forward.
        let mut later: Vec<(Vreg, u32)> = Vec::new();
        let mut list: SmallVec<[Vreg; 16]> = SmallVec::new();
        for (i, inst) in insts.iter().enumerate().rev() {
            self.f.defs(&inst.op, |v| list.push(v));
            self.f.uses(&inst.op, |v| list.push(v));
            let defs = {
                let mut n = 0;
                self.f.defs(&inst.op, |_| n += 1);
                n
            };
            for v in list[..defs].iter().rev() {
                later.push((*v, self.next[v.index()]));
            }
            for v in list[defs..].iter().rev() {
                later.push((*v, self.next[v.index()]));
                self.next[v.index()] = i as u32;
            }
            list.clear();
        }
        self.here = 0;
        self.flying = self.under_way.get(bi).cloned().unwrap_or_default();
        self.enter(b);
        if b == 0 {
            for (v, _) in self.f.live_in.clone() {
                if self.mine(v) && self.next[v.index()] != FAR {
                    self.insert(v);
                }
            }
            self.limit(self.k, &[])?;
        }
        for (inst, note) in insts.iter_mut().zip(old) {
            self.loc = inst.loc;
            self.inst(inst, note, &mut later)?;
            self.here += 1;
        }
        // The terminator.
        let mut term = std::mem::replace(&mut self.f.blocks[bi].term, Term::Unreachable);
        let mut used: SmallVec<[Vreg; 16]> = SmallVec::new();
        self.f.term_uses(&term, |v| used.push(v));
        used.retain(|v| self.f.vregs[v.index()] == self.file);
        self.bring(&used)?;
        match &mut term {
            Term::CondBr { cond, .. } => self.rename(cond, 1),
            Term::Ret(values) => {
                for v in values {
                    if self.mine(v.0) {
                        v.0 = self.name[v.0.index()];
                    }
                }
            }
            _ => {}
        }
        let held = |v: &Vreg| self.in_w[v.index()] != 0;
        let named = |v: Vreg| (v, self.name[v.index()]);
        let mut exit: Vec<(Vreg, Vreg)> = self.live.live_out[bi].iter().copied().filter(held).map(named).collect();
        let lasting = exit.len();
        exit.extend(term.edges().iter().flat_map(|e| &e.args).copied().filter(held).map(named));
        if exit.len() > lasting {
            // All but the last few are in order: this sort makes use of it.
            exit.sort();
            exit.dedup();
        }
        self.exit[bi] = exit;
        self.f.blocks[bi].term = term;
        self.f.blocks[bi].insts = std::mem::take(&mut self.out);
        notes[bi] = std::mem::take(&mut self.notes);
        Ok(())
    }

    /// Chooses what is in registers at the start of the block, and gives it names.
    fn enter(&mut self, b: u32) {
        let bi = b as usize;
        for v in std::mem::take(&mut self.w) {
            self.in_w[v.index()] = 0;
        }
        let params = self.f.blocks[bi].params.clone();
        let preds = &self.cfg.preds[bi];
        let back = prepare::has_back_edge(self.cfg, b);
        let index = |p: u32| self.cfg.rpo_index[p as usize];
        let done: Vec<usize> = preds.iter().filter(|&&p| index(p) < index(b)).map(|&p| p as usize).collect();
        let has = |p: usize, v: Vreg, a: &Self| a.exit[p].binary_search_by_key(&v, |x| x.0).is_ok();
        for &p in &done {
            for &(v, name) in &self.exit[p] {
                let tally = &mut self.tally[v.index()];
                *tally = match tally.block == b {
                    true => Tally { count: tally.count + 1, same: tally.same && tally.name == name, ..*tally },
                    false => Tally { block: b, count: 1, name, same: true },
                };
            }
        }
        // (class, next use, value, parameter)
        let mut list: Vec<(u8, u32, Vreg, bool)> = Vec::new();
        for (i, &v) in self.live.live_in[bi].iter().enumerate().filter(|v| self.mine(*v.1)) {
            let count = self.tally_in(b, v).map_or(0, |t| t.count as usize);
            let mut class = 2 - (count > 0) as u8 - (count == done.len()) as u8;
            // One load here instead of one on each of the ways that lack it, where these are most.
            if class == 1 && done.len() > 2 * count && self.again[v.index()].is_none() {
                class = 2;
            }
            let mut next = self.next[v.index()];
            if back {
                // What only lives through the loop is in a register if it is there anyway.
                next = self.held_in[bi][i];
                class = if next < LEAVE || next != FAR && count > 0 { 0 } else { 2 };
            }
            if flies(&self.flying, v) && count > 0 {
                (class, next) = (0, 0);
            }
            list.push((class, next, v, false));
        }
        for (n, &p) in params.iter().enumerate().filter(|(_, p)| self.mine(**p)) {
            let mut count = 0;
            for &d in &done {
                let term = &self.f.blocks[d].term;
                let arg = term.edges().iter().find(|e| e.block.0 == b).map(|e| e.args[n]);
                count += arg.is_some_and(|a| has(d, a, self)) as usize;
            }
            let mut class = 2 - (count > 0) as u8 - (count == done.len()) as u8;
            let mut next = self.next[p.index()];
            if back {
                next = self.held_params[bi][n];
                class = if next != FAR { 0 } else { 2 };
            }
            if flies(&self.flying, p) {
                (class, next) = (0, 0);
            }
            list.push((class, next, p, true));
        }
        let apart = |x: &(u8, u32, Vreg, bool)| x.0 == 1 && x.1 >= APART;
        let called = |b: usize| self.f.blocks[b].insts.iter().any(|i| matches!(&i.op, Op::Call(c) if c.keeps.light()));
        let apart_stay = list.iter().any(apart) && done.iter().any(|&p| called(p));
        // What is on the stack on some ways stays there where others will be needed sooner, more than there are registers.
        if !back && list.len() > self.k {
            let mut nexts: Vec<u32> = list.iter().map(|x| x.1).collect();
            let bound = *nexts.select_nth_unstable(self.k).1;
            list.retain(|x| x.0 != 1 || x.1 < bound || x.3 || self.again[x.2.index()].is_some());
        }
        list.retain(|x| x.0 < 2 && !(apart_stay && apart(x)));
        let room = if back { self.held_most[bi] } else { self.k };
        if list.len() > room {
            list.select_nth_unstable(room);
            list.truncate(room);
        }
        let mut chosen: Vec<Vreg> = list.iter().filter(|x| !x.3).map(|x| x.2).collect();
        chosen.sort_unstable();
        for (_, _, p, _) in list.iter().filter(|x| x.3) {
            self.name[p.index()] = *p;
            self.insert(*p);
        }
        self.in_memory[bi] = params.iter().map(|p| self.mine(*p) && self.in_w[p.index()] == 0).collect();
        for (n, &p) in params.iter().enumerate() {
            if self.in_memory[bi][n] {
                self.home(p);
            }
        }
        let mut entry = Vec::with_capacity(chosen.len());
        for v in chosen {
            let everywhere = |t: &Tally| !back && t.same && t.count as usize == done.len();
            let same = self.tally_in(b, v).filter(everywhere).map(|t| t.name);
            let join = match same {
                Some(n) => {
                    self.name[v.index()] = n;
                    None
                }
                None => {
                    let n = self.name_of(v);
                    self.name[v.index()] = n;
                    Some(n)
                }
            };
            entry.push((v, join));
            self.insert(v);
        }
        self.entry[bi] = entry;
    }

    /// What the ends of the blocks before `b` say of a value, if it is in a register at one of them.
    fn tally_in(&self, b: u32, v: Vreg) -> Option<Tally> {
        Some(self.tally[v.index()]).filter(|t| t.block == b)
    }

    /// Brings values into registers.
    fn bring(&mut self, used: &[Vreg]) -> Result<(), Diagnostic> {
        for &v in used {
            if self.in_w[v.index()] == 0 {
                self.insert(v);
                self.limit(self.k, used)?;
                self.name[v.index()] = match self.remat(v) {
                    Some(name) => name,
                    None => self.reload(v),
                };
            }
        }
        Ok(())
    }

    fn inst(&mut self, inst: &mut Inst, note: Note, later: &mut Vec<(Vreg, u32)>) -> Result<(), Diagnostic> {
        let mut used: SmallVec<[Vreg; 16]> = SmallVec::new();
        let mut defs: SmallVec<[Vreg; 8]> = SmallVec::new();
        let mut count = 0;
        self.f.uses(&inst.op, |v| {
            count += 1;
            if self.mine(v) && !used.contains(&v) {
                used.push(v);
            }
        });
        self.f.defs(&inst.op, |v| {
            count += 1;
            if self.mine(v) {
                defs.push(v);
            }
        });
        if let Op::Hold { ends, .. } = &mut inst.op {
            // What is not in a register any more is not held in one.
            ends.retain(|v| self.f.vregs[v.index()] != self.file || self.in_w[v.index()] != 0);
            used.retain(|v| self.in_w[v.index()] != 0);
        }
        if self.begins_at_edge(&inst.op) {
            defs.clear();
        }
        self.bring(&used)?;
        for _ in 0..count {
            if let Some((v, n)) = later.pop() {
                self.next[v.index()] = n;
            }
        }
        let vectors = matches!(&inst.op, Op::Sass(s) if prepare::has_vectors(s));
        if vectors && self.file == File::Gpr {
            let new = defs.len().saturating_sub(self.in_place(inst));
            self.limit(self.k.saturating_sub(new), &used)?;
        }
        if !used.is_empty() {
            self.rename_inst(inst);
        }
        for &v in &used {
            if self.next[v.index()] == FAR {
                self.remove(v);
            }
        }
        if let Op::Call(c) = &inst.op {
            let extra = if self.file == File::Gpr { c.args.len() + 4 } else { 0 };
            let most = if self.file == File::Gpr { Banks::across(self.banks.kept(c.keeps), c) as usize } else { 0 };
            self.limit(most.min(self.k.saturating_sub(extra)), &[])?;
        }
        self.limit(self.k.saturating_sub(defs.len()), &[])?;
        for &v in &defs {
            self.name[v.index()] = v;
            if self.next[v.index()] != FAR {
                self.insert(v);
            }
        }
        if let [v] = defs[..]
            && note == Note::Orig
            && remat::simple(inst)
        {
            self.made_at[v.index()] = (self.at, self.out.len() as u32);
        }
        if !self.under_way.is_empty() {
            flying::step(self.f, inst, &mut self.flying);
        }
        inst.move_to(&mut self.out);
        self.notes.push(note);
        Ok(())
    }

    /// True for what gives values that the program has not made, and the only edge behind this block alone reads: which of them have a register is known
    /// when it is known what the next block has in registers, and nothing is put away for them here.
    fn begins_at_edge(&self, op: &Op) -> bool {
        let single = || self.f.blocks[self.at as usize].term.successors().len() == 1;
        self.file == File::Gpr
            && matches!(op, Op::Hold { ends, begins } if ends.is_empty() && !begins.is_empty())
            && single()
    }

    /// How many of the registers that an instruction writes are those of sums that it adds to and nobody reads later: a product of
    /// a warpgroup works in place.
    fn in_place(&self, inst: &Inst) -> usize {
        let Op::Sass(s) = &inst.op else { return 0 };
        let sums = s.get(S::Rc).and_then(Operand::as_reg).filter(|r| r.is_virtual());
        let Some(reg) = sums.filter(|_| s.form().class == Class::Gmma) else { return 0 };
        let list = &self.f.vecs[reg.index() as usize];
        if list.iter().all(|v| self.next[v.index()] == FAR) { list.len() } else { 0 }
    }

    /// Stores every value that is reloaded somewhere, where it is defined; sums of a product where it has landed.
    fn stores(&mut self, notes: &mut [Vec<Note>], stats: &mut Stats) {
        let mut wanted = vec![false; self.home.len()];
        for v in &self.spilled {
            wanted[v.index()] = true;
        }
        let old = wanted.len();
        let is = |v: Vreg| v.index() < old && wanted[v.index()];
        for (bi, notes) in notes.iter_mut().enumerate() {
            if !self.cfg.reachable(bi as u32) {
                continue;
            }
            let block = &self.f.blocks[bi];
            let mut first: Vec<Vreg> = block.params.iter().copied().filter(|&p| is(p)).collect();
            if bi == 0 {
                first.extend(self.f.live_in.iter().map(|l| l.0).filter(|&v| is(v)));
            }
            let mut any = !first.is_empty();
            for inst in &block.insts {
                self.f.defs(&inst.op, |v| any |= is(v));
            }
            if !any {
                continue;
            }
            let insts = std::mem::take(&mut self.f.blocks[bi].insts);
            let old = std::mem::take(notes);
            let mut now = self.under_way.get(bi).cloned().unwrap_or_default();
            let mut landing = match self.under_way.is_empty() {
                true => FxHashSet::default(),
                false => flying::landing(self.f, &insts, &now),
            };
            landing.retain(|v| !self.hurried.contains(v));
            let (mut todo, mut later) = (first, Vec::new());
            let mut put = |s: &mut Self, todo: &mut Vec<Vreg>| {
                for v in todo.drain(..) {
                    let (inst, note) = s.store(v, s.home[v.index()]);
                    s.emit(inst, note);
                    if s.file == File::Gpr {
                        stats.spill_stores += 4;
                    }
                }
            };
            self.loc = u32::MAX;
            later.extend(todo.extract_if(.., |v| flies(&now, *v) && landing.contains(v)));
            put(self, &mut todo);
            for (inst, note) in insts.into_iter().zip(old) {
                self.loc = inst.loc;
                self.f.defs(&inst.op, |v| {
                    if is(v) {
                        todo.push(v);
                    }
                });
                if !landing.is_empty() {
                    flying::step(self.f, &inst, &mut now);
                    later.extend(todo.extract_if(.., |v| flies(&now, *v) && landing.contains(v)));
                    todo.extend(later.extract_if(.., |v| !flies(&now, *v)));
                }
                self.out.push(inst);
                self.notes.push(note);
                put(self, &mut todo);
            }
            self.f.blocks[bi].insts = std::mem::take(&mut self.out);
            *notes = std::mem::take(&mut self.notes);
        }
    }
}
