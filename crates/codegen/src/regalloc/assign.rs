//! Register assignment: a walk over the blocks in reverse postorder, one scan each.
//!
//! Needs a prepared function whose register pressure fits ([`super::spill`]). Every value gets a register where it is
//! defined; hints make values that should meet (block parameters and their arguments, components of a vector, arguments
//! of calls) meet in one register. Where an instruction wants registers that are not in place (aligned vectors, calls,
//! returns), the values in the way are moved by a parallel copy before it; that always succeeds while there are enough
//! registers. Values that sit in different registers at the two ends of an edge are moved on the edge.
//!
//! In blocks where part of a warp may be away uniform values that come from elsewhere are never moved: the other part finds them where
//! they were. Where they would have to be is an error of this pass, and is reported as one.

mod bank;
mod calls;
mod constants;
mod edges;
mod flight;
mod gather;
mod hints;
mod kept;
mod plan;
mod stand;
mod sums;
mod vectors;
mod wide;

use super::{Banks, INCOMING, Note, Tightness, Unfit, undefined};
use crate::abi::Keeps;
use crate::bitset::BitSet;
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op, Term, Vreg};
use crate::registers::{RESERVED, UNIT};
use bank::{Bank, COPY_RESTS, LOAD_RESTS, SLOW_RESTS, members};
use diag::Diagnostic;
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::latency::Class;
use sass::reg::{File, Reg};
use smallvec::SmallVec;
use wide::{WIDE, Wide};

const FREE: u32 = u32::MAX;
/// A value that is alive for more instructions of its block than this stays for long. (With none, registers of Triton's kernels would be a
/// hundredth less, but values that are made side by side would take each other's registers.)
const LASTING: u32 = 16;
/// So many there may always be: moves for fewer cost more than registers that every thread has anyway. (Of 544 kernels of FlagGems, with 16 of them, 24 and 30:
/// instructions 1.037, 1.000 and 0.994 of the vendor's, static cycles 1.029, 0.971 and 0.960, registers 0.906, 0.973 and 0.997.)
const ENOUGH: usize = 24;
/// Held for a vector that is about to be defined.
const HELD: u32 = u32::MAX - 1;
const NOWHERE: u8 = 255;
/// What is said where uniform values would have to move that other threads may look for where they are.
const APART: &str = "uniform registers would have to be moved in divergent code";

/// A window that waits for its other components: file, vector, base, size.
type Promise = (usize, u32, usize, usize);

/// Would a value in register `r`, read last by instruction `until`, be in the way of the vector that has been promised a window? Not
/// if it is gone when the component is made that belongs there.
fn in_the_way(
    p: &Promise,
    r: usize,
    until: u32,
    vecs: &[SmallVec<[Vreg; 4]>],
    made: &[(u32, u32)],
    loc: &[u8],
    current: u32,
) -> bool {
    let Some(component) = r.checked_sub(p.2).and_then(|n| vecs[p.1 as usize][..p.3].get(n)) else { return false };
    let (block, at) = made[component.index()];
    // What is still to be made, in another block, comes after everything that ends in this one.
    let free = if block == current { until <= at } else { loc[component.index()] == NOWHERE };
    until == u32::MAX || !free
}

/// The assignment under way.
pub struct Assign<'a> {
    f: &'a mut Func,
    cfg: &'a Cfg,
    live: &'a Liveness,
    banks: [Bank; 4],
    loc: Vec<u8>,
    end: Vec<u32>,
    vec_hint: Vec<(u32, u8)>,
    vec_base: Vec<u8>,
    /// Windows that wait for their other components: file, vector, base, size. Nothing else may take the places of uniform
    /// registers, which cannot always be moved; those of others stay free while there is something else.
    promised: Vec<Promise>,
    /// Places of wide vectors, as the sums of a warpgroup's products: nothing that lasts may take them in any block.
    wide: Vec<Wide>,
    /// By block: what products under way at its end read, and what they write.
    flights: Vec<[Option<Box<flight::Flight>>; 2]>,
    held: Vec<bool>,
    /// By value: which instruction of the block at hand waits for the products that read it, `u32::MAX` where none does; of what is `held`.
    until: Vec<u32>,
    /// What products read stays out of the way of sums, though it must be put together before them.
    apart: bool,
    /// By value: only [`Op::Hold`] reads it; empty where there is none.
    idle: Vec<bool>,
    /// By value: behind its block only products under way read it ([`kept::flown`]).
    flown: Vec<bool>,
    /// By value: it is whatever its register holds. Empty where there is none.
    undefined: Vec<bool>,
    /// Places that loops keep for what their products read until the next iteration.
    kept: Vec<kept::Kept>,
    web: Vec<u32>,
    web_reg: Vec<u8>,
    /// By value: the web of what is made where it is read last, or [`FREE`].
    like: Vec<u32>,
    fixed_hint: Vec<u8>,
    has_calls: bool,
    /// What lives across calls that keep but the ABI's registers, or should meet what does.
    crossing: BitSet,
    next_call: u32,
    /// Values that live across calls of routines for seldom cases, and what those keep.
    spared: Option<(BitSet, Keeps)>,
    /// What its calls keep, and what it keeps for its own callers.
    keeps: (Keeps, Keeps),
    /// Where there are constants in uniform registers: what those hold.
    constants: Option<constants::Constants>,
    divergent: bool,
    /// Where values lie at the end of the block at hand no other block takes over.
    given_up: bool,
    out: Vec<Inst>,
    notes: Vec<Note>,
    exit_loc: Vec<Vec<u8>>,
    arg_loc: Vec<Vec<Vec<u8>>>,
    entry_loc: Vec<Vec<u8>>,
    param_loc: Vec<Vec<u8>>,
    error: Option<Unfit>,
    bounds: Vec<usize>,
    /// What threads have where blocks begin ([`crate::registers::starts`]).
    starts: Vec<usize>,
    /// Registers written where the loop at hand begins, before it waits for a product: the one that its last iteration left may still read then.
    early: [bool; 256],
    /// Nothing has been waited for since the loop began.
    unawaited: bool,
    /// Where loops with products begin that read registers for longer than these live.
    loops: Vec<u32>,
    /// The block at hand.
    current: u32,
    /// Values that the instruction at hand reads last.
    near: SmallVec<[Vreg; 8]>,
    /// Where each value is defined: block and instruction, from 1.
    made: Vec<(u32, u32)>,
    /// When each value got its first register.
    age: Vec<u32>,
    clock: u32,
    /// A source of a selection that is read last there.
    stays: Option<Vreg>,
    /// A slot that cycles of moves may go through.
    slot: Option<Slot>,
    done: Made,
}

/// A slot on the stack: its number, and its distance from R1.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// As in [`Note::Store`].
    pub number: u32,
    /// In bytes.
    pub at: i64,
}

/// What an assignment may use.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// The registers.
    pub banks: Banks,
    /// How many registers of each file are needed at once, ...
    pub pressure: [u32; 4],
    /// ... and how many more of them there may be.
    pub tight: Tightness,
    /// A slot on the stack for moves, where there is a stack anyway.
    pub slot: Option<Slot>,
}

/// True if there are products of warpgroups: what they read and write has to be where it is until they are done, for which there may be too few registers.
pub fn has_products(f: &Func) -> bool {
    products(f).next().is_some()
}

/// True for what asks for a product of a warpgroup.
pub fn product(i: &Inst) -> bool {
    matches!(&i.op, Op::Sass(s) if s.form().class == Class::Gmma)
}

/// The blocks with products of warpgroups.
pub fn products(f: &Func) -> impl Iterator<Item = usize> {
    f.blocks.iter().enumerate().filter(|(_, b)| b.insts.iter().any(product)).map(|(n, _)| n)
}

/// What an assignment did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    /// How often something went through the slot.
    pub through_slot: u32,
    /// Values of general registers that were moved to put vectors together though there are more registers, as often as loops around that are taken to run.
    pub moved: u64,
}

/// Assigns registers; `notes` has one note for each instruction, and gets those of the moves.
///
/// # Errors
/// Where the register limit is too small for an instruction, or uniform registers would have to be moved in divergent
/// code.
pub fn run(
    f: &mut Func,
    cfg: &Cfg,
    live: &Liveness,
    Means { banks, pressure, tight, slot }: Means,
    notes: &mut [Vec<Note>],
) -> Result<Made, Unfit> {
    let n = f.vregs.len();
    let has_calls = f.blocks.iter().any(|b| b.insts.iter().any(calls::heavy));
    let choosy = has_calls || !f.entry;
    // What all calls keep, or what is usual. A function keeps the registers of its own callers, too.
    let mut calls = f
        .blocks
        .iter()
        .flat_map(|b| &b.insts)
        .filter_map(|i| if let Op::Call(c) = &i.op { Some(c).filter(|c| !c.ends).map(|c| c.keeps) } else { None });
    let across = calls.next().unwrap_or(f.keeps);
    let across = if calls.any(|k| k != across) { Keeps::Usual } else { across };
    let keeps = match (f.entry, across) {
        (true, _) => (across, across),
        (false, Keeps::System) => (f.keeps, f.keeps),
        (false, _) => (across, f.keeps),
    };
    let held = flight::held(f);
    let idle = kept::idle(f);
    let make = |file: File| {
        let usable = banks.usable(file);
        let limit = usable.iter().rposition(|&u| u).map_or(0, |r| r + 1);
        // R1 is one more. Where there are calls, the registers that they keep are worth more than few registers.
        let want = pressure[file as usize] as usize + 1;
        let limit = match file {
            // Products read registers for longer than values are alive.
            File::Gpr if tight != Tightness::Free && !choosy && f.at_entry == 0 => {
                let more = tight.slack(want as u32) as usize;
                // First hardly more than are alive or read at once; then as if what is read were so wherever most are alive.
                let need = match tight {
                    Tightness::Tight => want.max(flight::need(f, cfg, live) as usize + 1),
                    _ => want + flight::longest(f),
                };
                // What would make threads take registers for more of them is not worth it.
                let full = match tight {
                    Tightness::Tight => (need + RESERVED as usize).next_multiple_of(UNIT as usize) - RESERVED as usize,
                    _ => usize::MAX,
                };
                limit.min((need + more).min(full).max(ENOUGH))
            }
            _ => limit,
        };
        let budget = match file {
            File::Gpr if choosy => want.max(30).min(limit),
            File::Gpr => want.min(limit),
            _ => limit,
        };
        Bank::new(file, usable, budget, limit)
    };
    let blocks = f.blocks.len();
    let bounds = crate::registers::bounds(f, cfg);
    let starts = crate::registers::starts(f, cfg);
    let mut a = Assign {
        bounds,
        starts,
        early: [false; 256],
        unawaited: false,
        loops: flight::loops(f, cfg, &held),
        current: 0,
        near: SmallVec::new(),
        made: vec![(u32::MAX, 0); n],
        age: vec![0; n],
        clock: 0,
        stays: None,
        slot,
        done: Made::default(),
        cfg,
        live,
        banks: [make(File::Gpr), make(File::Ugpr), make(File::Pred), make(File::Upred)],
        loc: vec![NOWHERE; n],
        end: vec![0; n],
        vec_hint: vec![(FREE, 0); n],
        vec_base: vec![NOWHERE; f.vecs.len()],
        promised: Vec::new(),
        wide: Vec::new(),
        flights: vec![[None, None]; blocks],
        until: vec![u32::MAX; held.len()],
        flown: kept::flown(f, &held, &idle),
        apart: tight != Tightness::Free || f.at_entry > 0,
        held,
        idle,
        undefined: undefined::values(f),
        kept: Vec::new(),
        web: (0..n as u32).collect(),
        web_reg: vec![NOWHERE; n],
        like: Vec::new(),
        fixed_hint: vec![NOWHERE; n],
        has_calls,
        crossing: calls::crossing(f, live),
        spared: calls::spared(f, live),
        next_call: u32::MAX,
        keeps,
        constants: constants::Constants::new(f),
        divergent: false,
        given_up: false,
        out: Vec::new(),
        notes: Vec::new(),
        exit_loc: vec![Vec::new(); blocks],
        arg_loc: vec![Vec::new(); blocks],
        entry_loc: vec![Vec::new(); blocks],
        param_loc: vec![Vec::new(); blocks],
        error: None,
        f,
    };
    a.hints();
    a.join_wide();
    a.spread_crossing();
    a.place_wide();
    for i in 0..cfg.rpo.len() {
        a.block(cfg.rpo[i], notes);
        if let Some(unfit) = a.error.take() {
            return Err(unfit);
        }
    }
    a.edges(notes);
    for (b, block) in a.f.blocks.iter_mut().enumerate() {
        block.params.clear();
        block.term.edges_mut().into_iter().for_each(|e| e.args.clear());
        if !cfg.reachable(b as u32) {
            block.insts.clear();
            notes[b].clear();
            block.term = Term::Unreachable;
        }
    }
    a.f.live_in.clear();
    match a.error {
        Some(e) => Err(e),
        None => Ok(a.done),
    }
}

impl Assign<'_> {
    fn file(&self, v: Vreg) -> usize {
        self.f.vregs[v.index()] as usize
    }

    fn rep(&mut self, v: Vreg) -> usize {
        let mut x = v.0;
        while self.web[x as usize] != x {
            let up = self.web[self.web[x as usize] as usize];
            self.web[x as usize] = up;
            x = up;
        }
        x as usize
    }

    /// Notes the first reason why there is no assignment.
    fn fail(&mut self, message: impl Into<String>) {
        self.unfit(message, false);
    }

    /// As `fail`, of uniform registers.
    fn fail_uniform(&mut self, message: impl Into<String>) {
        self.unfit(message, true);
    }

    fn unfit(&mut self, message: impl Into<String>, uniform: bool) {
        if self.error.is_none() {
            let why = Diagnostic::error(message).note(format!("in function '{}'", self.f.name));
            self.error = Some(Unfit { why, uniform });
        }
    }

    // ---- choosing ---------------------------------------------------------------------------------------------------

    fn occupy(&mut self, v: Vreg, r: usize) {
        let file = self.file(v);
        self.banks[file].put(r, v.0);
        if file == File::Ugpr as usize
            && let Some(constants) = &mut self.constants
        {
            constants.put(v, r);
        }
        self.banks[file].budget = self.banks[file].budget.max(r + 1);
        self.loc[v.index()] = r as u8;
        self.early[r] |= self.unawaited && file == File::Gpr as usize;
        self.clock += 1;
        if self.age[v.index()] == 0 {
            self.age[v.index()] = self.clock;
        }
        let rep = self.rep(v);
        if self.web_reg[rep] == NOWHERE {
            self.web_reg[rep] = r as u8;
        }
    }

    fn release(&mut self, v: Vreg) {
        let r = self.loc[v.index()];
        let file = self.file(v);
        let bank = &mut self.banks[file];
        if bank.occ[r as usize] == v.0 {
            bank.put(r as usize, FREE);
        }
    }

    /// True for a general register that calls of this function keep.
    fn saved(&self, r: usize) -> bool {
        self.keeps.0.keeps(r as u32)
    }

    /// True for a general register that routines for seldom cases, or functions called as these are, change while the value lives.
    pub(super) fn changed(&self, v: Vreg, r: usize) -> bool {
        self.spared.as_ref().is_some_and(|(set, keeps)| set.contains(v.index()) && !keeps.keeps(r as u32))
    }

    /// A free register for a new value.
    fn pick(&mut self, v: Vreg) -> Option<usize> {
        let file = self.file(v);
        let fixed = self.fixed_hint[v.index()] as usize;
        let crosses = self.end[v.index()] > self.next_call && self.next_call != u32::MAX
            || self.end[v.index()] == u32::MAX && self.crossing.contains(v.index());
        let gpr = file == File::Gpr as usize;
        if !crosses && self.banks[file].free(fixed) && !(gpr && self.changed(v, fixed)) {
            return Some(fixed);
        }
        let rep = self.rep(v);
        let web = self.web_reg[rep] as usize;
        let lost = |a: &Self, r: usize| gpr && (crosses && !a.saved(r) || a.changed(v, r) || a.in_way(v, r));
        if self.banks[file].free(web) && self.banks[file].idle(web) && !lost(self, web) {
            return Some(web);
        }
        if gpr && web != NOWHERE as usize && self.in_way(v, web) {
            // All of them go where this one does.
            self.web_reg[rep] = NOWHERE;
        }
        // The register of a value that dies here, if it should meet this one.
        for n in 0..self.near.len() {
            let u = self.near[n];
            let r = self.loc[u.index()] as usize;
            let same =
                self.file(u) == file && self.banks[file].free(r) && self.banks[file].idle(r) && self.rep(u) == rep;
            if same && !lost(self, r) {
                return Some(r);
            }
        }
        let (vec, nth) = self.vec_hint[v.index()];
        if vec != FREE {
            let size = self.f.vecs[vec as usize].len();
            let base = self.vec_base[vec as usize] as usize;
            if base != NOWHERE as usize && !self.banks[file].free(base + nth as usize) {
                // The place is taken: another one, unless a sibling is already there.
                let list = &self.f.vecs[vec as usize];
                let occ = &self.banks[file].occ;
                if size < WIDE && !list.iter().enumerate().any(|(k, v)| occ.get(base + k) == Some(&v.0)) {
                    self.vec_base[vec as usize] = NOWHERE;
                }
            }
            if gpr && size < WIDE && self.vec_base[vec as usize] == NOWHERE {
                self.window_over(vec, nth as usize);
            }
            if let Some(base) = self.window(file, vec as usize, size)
                && self.banks[file].free(base + nth as usize)
                && self.banks[file].idle(base + nth as usize)
            {
                return Some(base + nth as usize);
            }
        }
        // A selection stays where one of its sources is: what computes the other may then be guarded instead.
        if let Some(u) = self.stays
            && self.file(u) == file
        {
            let r = self.loc[u.index()] as usize;
            if self.banks[file].free(r) && self.banks[file].idle(r) && !lost(self, r) {
                return Some(r);
            }
        }
        if file == File::Ugpr as usize
            && let Some(r) = self.uniform_place(v)
        {
            return Some(r);
        }
        // Where what is made of it shall be.
        if gpr
            && vec == FREE
            && let Some(&like) = self.like.get(v.index()).filter(|&&like| like != FREE)
        {
            let r = self.web_reg[like as usize] as usize;
            if r < self.banks[file].limit && self.banks[file].free(r) && self.banks[file].idle(r) && !lost(self, r) {
                return Some(r);
            }
        }
        // Callee-saved registers for values that live across calls, the others for the rest.
        let (across, own) = self.keeps;
        let spared = self.spared.as_ref().filter(|_| gpr).map(|(set, keeps)| (set.contains(v.index()), *keeps));
        // Those that no caller needs need not be saved.
        let open = |r: usize| across.keeps(r as u32) && !self.f.preserves(r as u32);
        let bank = &self.banks[file];
        let vacant = gpr && crosses && !self.f.entry && members(&bank.empty, 0, bank.block.min(bank.limit)).any(open);
        let (f, own) = (&*self.f, own);
        let prefer = |r: usize| {
            let light = spared.is_none_or(|(across, keeps)| across == keeps.keeps(r as u32));
            let kept = |r: usize| across.keeps(r as u32) && !(vacant && f.preserves(r as u32));
            light && (!gpr || if crosses { kept(r) } else { !own.preserves(r as u32) || spared.is_some() })
        };
        let choosy = gpr && (self.has_calls || !self.f.entry || spared.is_some());
        let wide: SmallVec<[std::ops::Range<usize>; 2]> = match gpr {
            true => {
                let end = self.end[v.index()];
                let kept = self.wide.iter().filter(|w| w.vec != vec && self.meets(w, end));
                kept.map(|w| w.base..w.end).collect()
            }
            false => SmallVec::new(),
        };
        let until = self.end[v.index()];
        // What stays for long goes into the gaps between others first: scattered, it leaves no place for vectors. Where there are calls, others
        // come first.
        let lasts = gpr && !choosy && until.saturating_sub(self.banks[file].now) > LASTING;
        let (promises, vecs, made, loc, current) = (&self.promised, &self.f.vecs, &self.made, &self.loc, self.current);
        let bank = &mut self.banks[file];
        // Up to which one; whether only of the better kind; whether not in the way of vectors; whether only rested ones. What products under
        // way read comes last of all.
        let passes = [
            (bank.block, true, true, true),
            (bank.block, true, true, false),
            (bank.block, false, true, false),
            (bank.budget.min(bank.limit), false, true, false),
            (bank.limit, false, true, false),
        ];
        // Where threads have few registers, those come before the place of something wide.
        let few = bank.few.filter(|&n| gpr && n < bank.limit).map(|_| (bank.block, false, false, false));
        // Where threads are given more registers anyway, what lives across calls takes some of these rather than what routines change.
        let more = (spared.is_some() && !self.bounds.is_empty()).then_some((bank.limit, true, true, false));
        let passes =
            passes[..2].iter().copied().chain(more).chain([passes[2]]).chain(few).chain(passes[3..].iter().copied());
        let last = gpr.then_some((bank.limit, false, false, false));
        let passes = passes.chain(last).map(|p| (p, true)).chain(last.map(|p| (p, false)));
        for ((bound, strict, keep, rested), idle) in passes {
            if bound == 0 {
                continue;
            }
            // Where the budget does not do it grows by no more than it must. What stays lies low, so that there is a place for wide vectors.
            let first = if bound == bank.block && !lasts { bank.cursor % bound } else { 0 };
            let fits = |r: usize| {
                let promised = |p: &Promise| p.0 == file && in_the_way(p, r, until, vecs, made, loc, current);
                let kept = || keep && (promises.iter().any(promised) || wide.iter().any(|w| w.contains(&r)));
                let waits = rested && !bank.rested(r) || idle && !bank.idle(r);
                let worse = strict && choosy && !prefer(r);
                !worse && !waits && !kept()
            };
            // Once around, for what lasts twice.
            let free = |from, to| members(&bank.empty, from, to).filter(|&r| r < bank.limit);
            let round = || free(first, bound).chain(free(0, first));
            let gap = || round().find(|&r| !bank.open(r) && fits(r));
            let found = if lasts { gap().or_else(|| round().find(|&r| fits(r))) } else { round().find(|&r| fits(r)) };
            if let Some(r) = found {
                bank.cursor = (r + 1) % bound;
                return Some(r);
            }
        }
        None
    }

    fn place_new(&mut self, v: Vreg) {
        match self.pick(v) {
            Some(r) => self.occupy(v, r),
            None => {
                let file = self.banks[self.file(v)].file;
                match file {
                    File::Gpr => self.fail("too few registers for this function: the register limit is too small"),
                    File::Pred => self.fail("out of registers of file Pred"),
                    _ => self.fail_uniform(format!("out of registers of file {file:?}")),
                }
                self.loc[v.index()] = 0;
            }
        }
    }

    // ---- blocks -----------------------------------------------------------------------------------------------------

    fn block(&mut self, b: u32, notes: &mut [Vec<Note>]) {
        let bi = b as usize;
        self.current = b;
        self.divergent = self.f.blocks[bi].divergent;
        self.given_up = self.given_up(b);
        let mut insts = std::mem::take(&mut self.f.blocks[bi].insts);
        // With place for moves, and for branches at the end.
        self.out.reserve(insts.len() + insts.len() / 8 + 2);
        self.lifetimes(bi, &insts);
        flight::waits(self.f, &insts, &self.held, &mut self.until);
        self.promised.clear();
        if !self.wide.is_empty() {
            self.look_for_wide(bi, &insts);
        }
        for bank in &mut self.banks {
            bank.clear();
        }
        if let Some(&bound) = self.bounds.get(bi) {
            let bank = &mut self.banks[File::Gpr as usize];
            bank.block = bank.block.min(bound);
            bank.few = Some(bound);
        }
        self.set_limit(b);
        self.begin_flight(b);
        self.enter_loop(b);
        self.keep_places(b);
        let calls: Vec<u32> =
            (0..insts.len() as u32).filter(|&i| matches!(insts[i as usize].op, Op::Call(_))).collect();
        let mut call = 0;
        let old_notes = std::mem::take(&mut notes[bi]);
        self.next_call = calls.first().copied().unwrap_or(u32::MAX);
        if b == 0 {
            for n in 0..self.f.live_in.len() {
                let (v, r) = self.f.live_in[n];
                self.occupy(v, r.index() as usize);
                if self.end[v.index()] == 0 {
                    self.release(v);
                }
            }
        }
        for (i, (inst, note)) in insts.iter_mut().zip(old_notes).enumerate() {
            while call < calls.len() && calls[call] <= i as u32 {
                call += 1;
            }
            self.next_call = calls.get(call).copied().unwrap_or(u32::MAX);
            let at = i as u32 + 1;
            let loc = inst.loc;
            self.banks.iter_mut().for_each(|b| b.now = at);
            if let Op::Sass(s) = &inst.op {
                if !self.promised.is_empty() && !single(s) {
                    let promised = &mut self.promised;
                    sass_uses(s, |p| {
                        if p.reg.is_virtual() && p.width > 1 {
                            promised.retain(|x| x.1 != p.reg.index());
                        }
                    });
                }
                if let Some(n) = crate::registers::after(s)
                    && n < self.banks[File::Gpr as usize].limit
                {
                    self.shrink(n, loc);
                }
                self.sass(at, inst, note);
                continue;
            }
            match inst.take().op {
                Op::Sass(_) => {}
                Op::Copy(pairs) => self.copy(at, &pairs, loc),
                Op::Hold { ends, begins } => {
                    ends.into_iter().for_each(|v| self.release_if_dead(v, at));
                    begins.iter().for_each(|&v| self.place_new(v));
                    begins.into_iter().for_each(|v| self.release_if_dead(v, at));
                }
                Op::Call(c) => self.call(at, *c, loc, note),
                Op::LoadIncoming { dst, offset } => {
                    for (n, &v) in dst.iter().enumerate() {
                        self.place_new(v);
                        let d = Reg::r(self.loc[v.index()]);
                        let s = Sass::new(F::LDL)
                            .with(S::Rd, d)
                            .with(S::Ra, Reg::r(1))
                            .with(S::Imm, Operand::imm(INCOMING + (offset as i64) + 4 * n as i64));
                        self.out.push(Inst::new(Op::Sass(s), loc));
                        let last = n + 1 == dst.len();
                        self.notes.push(if last { note } else { Note::Part });
                    }
                    for &v in &dst {
                        self.release_if_dead(v, at);
                    }
                }
            }
        }
        self.leave(bi);
        self.end_flight(bi);
        self.f.blocks[bi].insts = std::mem::take(&mut self.out);
        notes[bi] = std::mem::take(&mut self.notes);
    }

    /// No register may be taken that threads do not have where a block begins.
    fn set_limit(&mut self, b: u32) {
        let bank = &mut self.banks[File::Gpr as usize];
        bank.limit = self.starts.get(b as usize).map_or(bank.most, |&n| n.min(bank.most));
    }

    /// What lies in registers that threads are about to give up moves.
    fn shrink(&mut self, bound: usize, loc: u32) {
        let gpr = File::Gpr as usize;
        let bound = bound.min(self.banks[gpr].limit);
        let high: Vec<(u32, usize)> =
            (bound..self.banks[gpr].limit).map(|r| (self.banks[gpr].occ[r], r)).filter(|x| x.0 < HELD).collect();
        let room: Vec<usize> = (0..bound).filter(|&r| self.banks[gpr].free(r)).take(high.len()).collect();
        if room.len() < high.len() {
            self.fail("too few registers where threads give up some");
            return;
        }
        let pairs: Vec<(Reg, Reg)> =
            high.iter().zip(&room).map(|(&(_, r), &to)| (Reg::r(to as u8), Reg::r(r as u8))).collect();
        self.moves(&pairs, loc);
        self.banks[gpr].limit = bound;
        for ((v, r), to) in high.into_iter().zip(room) {
            self.banks[gpr].put(r, FREE);
            self.occupy(Vreg(v), to);
        }
    }

    /// Where each value of the block is read last: instruction numbers from 1; the terminator comes after all;
    /// `u32::MAX` for what lives on.
    fn lifetimes(&mut self, b: usize, insts: &[Inst]) {
        let (f, end, made) = (&*self.f, &mut self.end, &mut self.made);
        for &v in &self.live.live_in[b] {
            end[v.index()] = 0;
        }
        f.blocks[b].params.iter().for_each(|p| end[p.index()] = 0);
        if b == 0 {
            f.live_in.iter().for_each(|l| end[l.0.index()] = 0);
        }
        for (i, inst) in insts.iter().enumerate() {
            f.uses(&inst.op, |v| end[v.index()] = i as u32 + 1);
            f.defs(&inst.op, |v| {
                end[v.index()] = i as u32 + 1;
                made[v.index()] = (b as u32, i as u32 + 1);
            });
        }
        let last = insts.len() as u32 + 1;
        let term = &f.blocks[b].term;
        f.term_uses(term, |v| end[v.index()] = last);
        for e in term.edges() {
            e.args.iter().for_each(|v| end[v.index()] = last);
        }
        for &v in &self.live.live_out[b] {
            end[v.index()] = u32::MAX;
        }
    }

    fn release_if_dead(&mut self, v: Vreg, at: u32) {
        if self.end[v.index()] == at {
            self.release(v);
        }
    }

    // ---- instructions -----------------------------------------------------------------------------------------------

    /// Replaces a virtual operand by its register.
    fn rename(&self, o: &mut Operand, width: u8) {
        if let Value::Reg(reg) = o.value
            && reg.is_virtual()
        {
            let first = if width == 1 { reg.index() } else { self.f.vecs[reg.index() as usize][0].0 };
            o.value = Value::Reg(Reg::phys(reg.file(), self.loc[first as usize]));
        }
    }

    fn sass(&mut self, at: u32, inst: &mut Inst, note: Note) {
        let loc = inst.loc;
        let Op::Sass(s) = &mut inst.op else { return };
        match single(s) {
            true => self.singles(at, s),
            false => self.vectors(at, s, loc),
        }
        self.fly(s);
        inst.move_to(&mut self.out);
        self.notes.push(note);
    }

    /// Notes values that are read for the last time, and which of them a selection stays with.
    fn dies(&mut self, s: &Sass, dying: &[Vreg]) {
        self.near.clear();
        dying.iter().for_each(|&v| self.near.push(v));
        self.stays = None;
        if s.form == F::SEL_RR {
            // Of two the older one: the other has been computed for this.
            let source =
                |name| s.get(name).and_then(Operand::as_reg).filter(|r| r.is_virtual()).map(|r| Vreg(r.index()));
            let sources = [source(S::Ra), source(S::Rb)];
            self.stays =
                sources.into_iter().flatten().filter(|v| dying.contains(v)).min_by_key(|v| self.age[v.index()]);
        }
    }

    /// An instruction all of whose operands are one register wide.
    fn singles(&mut self, at: u32, s: &mut Sass) {
        let mut dying: SmallVec<[Vreg; 8]> = SmallVec::new();
        let end = &self.end;
        sass_uses(s, |p| {
            let v = Vreg(p.reg.index());
            if p.reg.is_virtual() && end[v.index()] == at && !dying.contains(&v) {
                dying.push(v);
            }
        });
        self.dies(s, &dying);
        dying.iter().for_each(|&v| self.release(v));
        let late = rest(s);
        let registers = s.registers();
        let mut slots = registers.reads;
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            self.reads(&mut s.operands[i], at, late);
        }
        self.reads(&mut s.guard, at, late);
        let mut slots = registers.writes;
        let mut made: SmallVec<[(usize, Vreg); 4]> = SmallVec::new();
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            if let Some(r) = s.operands[i].as_reg().filter(|r| r.is_virtual()) {
                self.place_new(Vreg(r.index()));
                made.push((i, Vreg(r.index())));
            }
        }
        self.near.clear();
        self.stays = None;
        // Rows of values stand where sums were. What comes late may lie where its own source was, but soon not where that of the one before is still to be
        // read, as each in the row would then wait for it.
        if s.form().class == Class::Xu && !self.wide.is_empty() {
            let source = s.get(S::Rb).and_then(Operand::as_reg).filter(|r| r.file() == File::Gpr && !r.is_const());
            let over = |r: usize| made.iter().any(|m| self.loc[m.1.index()] as usize == r);
            if let Some(r) = source.map(|r| r.index() as usize).filter(|&r| !over(r)) {
                let bank = &mut self.banks[File::Gpr as usize];
                bank.read[r] = bank.read[r].max(at + SLOW_RESTS);
            }
        }
        for &(i, _) in &made {
            self.rename(&mut s.operands[i], 1);
        }
        for (_, v) in made {
            self.release_if_dead(v, at);
        }
    }

    /// An operand that is read.
    fn reads(&mut self, o: &mut Operand, at: u32, late: u32) {
        if let Value::Reg(reg) = o.value
            && reg.is_virtual()
        {
            let r = self.loc[reg.index() as usize];
            if late > 0 && reg.file() == File::Gpr {
                self.banks[File::Gpr as usize].read[r as usize] = at + late;
            }
            o.value = Value::Reg(Reg::phys(reg.file(), r));
        }
    }

    fn vectors(&mut self, at: u32, s: &mut Sass, loc: u32) {
        let mut uses: SmallVec<[Place; 8]> = SmallVec::new();
        let mut defs: SmallVec<[Place; 4]> = SmallVec::new();
        let (mut use_vecs, mut def_vecs): (SmallVec<[u32; 4]>, SmallVec<[u32; 4]>) = Default::default();
        sass_uses(s, |p| {
            if p.reg.is_virtual() {
                if p.width > 1 {
                    use_vecs.push(p.reg.index());
                }
                uses.push(p);
            }
        });
        sass_defs(s, |p| {
            if p.reg.is_virtual() {
                if p.width > 1 {
                    def_vecs.push(p.reg.index());
                }
                defs.push(p);
            }
        });
        let mut dying: SmallVec<[Vreg; 8]> = SmallVec::new();
        for p in &uses {
            self.f.each_scalar(p.reg, |v| {
                if self.end[v.index()] == at && !dying.contains(&v) {
                    dying.push(v);
                }
            });
        }
        // What a product reads as A is not to lie where it, or another one before the next wait, writes.
        let mut slow: SmallVec<[Vreg; 8]> = SmallVec::new();
        if s.form().class == Class::Gmma && !def_vecs.is_empty() {
            let sums = s.get(S::Rc).and_then(Operand::as_reg).filter(|r| r.is_virtual());
            let sums = sums.map(|r| &self.f.vecs[r.index() as usize]);
            let held = |v: &Vreg| self.held.get(v.index()) == Some(&true) && sums.is_none_or(|l| !l.contains(v));
            slow.extend(dying.iter().copied().filter(held));
            dying.retain(|v| !slow.contains(v));
        }
        self.dies(s, &dying);
        let mut bases: SmallVec<[usize; 4]> = SmallVec::new();
        let gmma = s.form().class == Class::Gmma;
        let mut ok = use_vecs.iter().all(|&v| self.in_place(v) && !(gmma && self.away(v).is_some()));
        let stand_ins = if ok || !self.given_up { None } else { self.stand_in(&use_vecs, loc) };
        ok |= stand_ins.is_some();
        let stand_ins = stand_ins.unwrap_or_default();
        if ok && !def_vecs.is_empty() {
            dying.iter().for_each(|&v| self.release(v));
            let anew = gmma && s.get(S::Rc).and_then(Operand::as_reg).is_none_or(|r| !r.is_virtual());
            for &vec in &def_vecs {
                if anew && self.obstructed(vec, &use_vecs).is_some() {
                    ok = false;
                    break;
                }
                let Some(base) = self.sums_window(s, vec).or_else(|| self.def_window(vec)) else {
                    ok = false;
                    break;
                };
                let size = self.f.vecs[vec as usize].len();
                let bank = self.bank_of(vec);
                bank.fill(base..base + size, HELD);
                bases.push(base);
            }
            if !ok {
                for (&base, &vec) in bases.iter().zip(&def_vecs) {
                    let size = self.f.vecs[vec as usize].len();
                    self.bank_of(vec).fill(base..base + size, FREE);
                }
                for &v in &dying {
                    let (file, r) = (self.file(v), self.loc[v.index()] as usize);
                    self.banks[file].put(r, v.0);
                }
                bases.clear();
            }
        }
        let stand_ins = if ok {
            stand_ins
        } else {
            self.stand_down(&stand_ins);
            Default::default()
        };
        if !ok {
            let sums = if s.form().class == Class::Gmma {
                s.get(S::Rc).and_then(Operand::as_reg).filter(|r| r.is_virtual())
            } else {
                None
            };
            let over =
                sums.map(|r| self.f.vecs[r.index() as usize].clone()).filter(|l| l.iter().all(|v| dying.contains(v)));
            bases = self.shuffle(&use_vecs, &def_vecs, [&dying, &slow], over, gmma, loc);
            dying.iter().for_each(|&v| self.release(v));
            for (&base, &vec) in bases.iter().zip(&def_vecs) {
                let size = self.f.vecs[vec as usize].len();
                self.bank_of(vec).fill(base..base + size, HELD);
            }
        } else if def_vecs.is_empty() {
            dying.iter().for_each(|&v| self.release(v));
        }
        let late = rest(s);
        for p in &uses {
            if late > 0 && p.reg.file() == File::Gpr {
                let bank = &mut self.banks[File::Gpr as usize];
                self.f.each_scalar(p.reg, |v| bank.read[self.loc[v.index()] as usize] = at + late);
            }
            let mut o = p.slot.map_or(s.guard, |i| s.operands[i as usize]);
            match stand_ins.iter().find(|x| p.width > 1 && x.0 == p.reg.index()) {
                Some(&(_, base, _)) => o.value = Value::Reg(Reg::phys(p.reg.file(), base as u8)),
                None => self.rename(&mut o, p.width),
            }
            match p.slot {
                Some(i) => s.operands[i as usize] = o,
                None => s.guard = o,
            }
        }
        self.stand_down(&stand_ins);
        for (n, &vec) in def_vecs.iter().enumerate() {
            for k in 0..self.f.vecs[vec as usize].len() {
                let v = self.f.vecs[vec as usize][k];
                let r = bases.get(n).map_or(0, |b| b + k);
                self.occupy(v, r);
            }
        }
        for p in &defs {
            if p.width == 1 {
                self.place_new(Vreg(p.reg.index()));
            }
        }
        self.near.clear();
        self.stays = None;
        for p in &defs {
            if let Some(i) = p.slot {
                let mut o = s.operands[i as usize];
                self.rename(&mut o, p.width);
                s.operands[i as usize] = o;
            }
        }
        slow.into_iter().for_each(|v| self.release(v));
        if s.form().class == Class::Gmma {
            self.spare_unread(at, &defs);
        }
        for p in &defs {
            let mut dead: SmallVec<[Vreg; 4]> = SmallVec::new();
            self.f.each_scalar(p.reg, |v| dead.push(v));
            dead.into_iter().for_each(|v| self.release_if_dead(v, at));
        }
    }
}

/// True if every operand is one register wide, whatever the modifiers say.
fn single(s: &Sass) -> bool {
    s.registers().all_single()
}

/// For how many instructions what this one reads should not be written: until a copy into shared memory is done, and until loads have
/// read their addresses. To spare the latter for long would bring chains that run side by side into few registers, one after the other.
fn rest(s: &Sass) -> u32 {
    match s.form().class {
        Class::Global if s.form().mnemonic == "LDGSTS" => COPY_RESTS,
        Class::Global | Class::Shared | Class::Local | Class::Texture => LOAD_RESTS,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::mir::{Op, text};
    use crate::regalloc::{self, Tightness};
    use sass::form::SlotName as S;
    use sass::latency::Class;

    /// Something slow in a row, of sums that are read last there, with a free register below theirs: none is written where the one before reads.
    #[test]
    fn slow_results_keep_clear_of_each_others_sources() {
        let each = |line: &str| (10..26).map(|k| line.replace('$', &k.to_string())).collect::<String>();
        let uniform: String = (30..34).map(|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n")).collect();
        let sums: Vec<String> = (10..26).map(|k| format!("%r{k}")).collect();
        let t = format!(
            "func k entry max=64 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{uniform}    LDS Rd=%r1 Ra=RZ\n    WARPGROUP\n    \
             HGMMA_RUR_OPEN.M53=3 Rd={{{}}} URa={{%ur30,%ur31,%ur32,%ur33}} Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n    STS Ra=RZ Rb=%r1\n{}{}    \
             exit\n}}\n",
            sums.join(","),
            each("    MUFU_R.Func=2 Rd=%r1$ Rb=%r$\n"),
            each("    STS Ra=RZ Rb=%r1$ Imm=$\n"),
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Free).unwrap();
        let mut before = None;
        for inst in &f.blocks[0].insts {
            if let Op::Sass(s) = &inst.op
                && s.form().class == Class::Xu
            {
                let [to, from] = [S::Rd, S::Rb].map(|slot| s.get(slot).and_then(|o| o.as_reg()));
                assert!(to.is_some() && to != before, "{}", text::print(&f));
                before = from.filter(|_| from != to);
            }
        }
    }
}
