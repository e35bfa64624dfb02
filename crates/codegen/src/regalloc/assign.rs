//! Register assignment: a walk over the blocks in reverse postorder, one scan each.
//!
//! Needs a prepared function whose register pressure fits ([`super::spill`]). Every value gets a register where it is
//! defined; hints make values that should meet (block parameters and their arguments, components of a vector, arguments
//! of calls) meet in one register. Where an instruction wants registers that are not in place (aligned vectors, calls,
//! returns), the values in the way are moved by a parallel copy before it; that always succeeds while there are enough
//! registers. Values that sit in different registers at the two ends of an edge are moved on the edge.
//!
//! Uniform registers are never moved in blocks where part of a warp may be away: that would be an error of this pass, and
//! is reported as one.

mod hints;
mod plan;

use super::parcopy::{Step, sequence};
use super::{Banks, INCOMING, Note};
use crate::bitset::BitSet;
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op, Term, Vreg, alignment, callee_saved, system_keeps};
use diag::Diagnostic;
use plan::{Group, plan_fresh, plan_near};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::latency::Class;
use sass::reg::{File, Reg};
use smallvec::SmallVec;

const FREE: u32 = u32::MAX;
/// Held for a vector that is about to be defined.
const HELD: u32 = u32::MAX - 1;
const NOWHERE: u8 = 255;
/// For so many instructions a register that a copy into shared memory reads is left alone.
const REST: u32 = 48;

/// The registers of one file.
struct Bank {
    file: File,
    usable: [bool; 256],
    /// Exclusive bound of the registers that are tried first; it grows where they do not suffice.
    budget: usize,
    limit: usize,
    /// Exclusive bound of those that should be taken in this block ([`crate::registers::bounds`]).
    block: usize,
    /// As `block`, where threads change the number of their registers.
    few: Option<usize>,
    /// The limit wherever threads do not have fewer registers.
    most: usize,
    occ: [u32; 256],
    cursor: usize,
    /// The instruction at hand, and by register the last copy into shared memory of the block that reads it; numbers from 1.
    now: u32,
    read: [u32; 256],
}

impl Bank {
    fn free(&self, r: usize) -> bool {
        r < self.limit && self.usable[r] && self.occ[r] == FREE
    }

    fn window_free(&self, base: usize, size: usize) -> bool {
        (base..base + size).all(|r| self.free(r))
    }

    /// True if nothing has to wait before the register is written.
    fn rested(&self, r: usize) -> bool {
        self.read[r] == 0 || self.read[r] + REST < self.now
    }
}

/// Vectors of so many registers keep their place through the whole function.
const WIDE: usize = 16;

/// The place of a wide vector.
struct Wide {
    vec: u32,
    base: usize,
    end: usize,
    /// Values that belong there live where the block at hand begins.
    begins: bool,
    /// The instructions of the block at hand that make such values; numbers from 1.
    makers: Vec<u32>,
    /// Blocks from which control comes to one where such values live.
    ahead: BitSet,
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
    promised: Vec<(usize, u32, usize, usize)>,
    /// Places of wide vectors, as the sums of a warpgroup's products: nothing that lasts may take them in any block.
    wide: Vec<Wide>,
    web: Vec<u32>,
    web_reg: Vec<u8>,
    fixed_hint: Vec<u8>,
    has_calls: bool,
    next_call: u32,
    /// All calls keep what the system's functions do.
    careful: bool,
    divergent: bool,
    out: Vec<Inst>,
    notes: Vec<Note>,
    exit_loc: Vec<Vec<u8>>,
    arg_loc: Vec<Vec<Vec<u8>>>,
    entry_loc: Vec<Vec<u8>>,
    param_loc: Vec<Vec<u8>>,
    error: Option<Diagnostic>,
    bounds: Vec<usize>,
    /// What threads have where blocks begin ([`crate::registers::starts`]).
    starts: Vec<usize>,
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
}

/// Assigns registers: `notes` has one note for each instruction, and gets those of the moves.
///
/// # Errors
/// Where the register limit is too small for an instruction, or uniform registers would have to be moved in divergent
/// code.
pub fn run(
    f: &mut Func,
    cfg: &Cfg,
    live: &Liveness,
    banks: &Banks,
    pressure: [u32; 4],
    notes: &mut [Vec<Note>],
) -> Result<(), Diagnostic> {
    let n = f.vregs.len();
    let has_calls = f.blocks.iter().any(|b| b.insts.iter().any(|i| matches!(i.op, Op::Call(_))));
    let choosy = has_calls || !f.entry;
    // A function keeps the registers of its own callers, too.
    let careful =
        f.entry && f.blocks.iter().flat_map(|b| &b.insts).all(|i| !matches!(&i.op, Op::Call(c) if !c.careful));
    let make = |file: File| {
        let usable = banks.usable(file);
        let limit = usable.iter().rposition(|&u| u).map_or(0, |r| r + 1);
        // R1 is one more. Where there are calls, the registers that they keep are worth more than few registers.
        let want = pressure[file as usize] as usize + 1;
        let budget = match file {
            File::Gpr if choosy => want.max(30).min(limit),
            File::Gpr => want.min(limit),
            _ => limit,
        };
        Bank {
            file,
            usable,
            budget,
            limit,
            block: budget,
            few: None,
            most: limit,
            occ: [FREE; 256],
            cursor: 0,
            now: 0,
            read: [0; 256],
        }
    };
    let blocks = f.blocks.len();
    let bounds = crate::registers::bounds(f, cfg);
    let starts = crate::registers::starts(f, cfg);
    let mut a = Assign {
        bounds,
        starts,
        current: 0,
        near: SmallVec::new(),
        made: vec![(u32::MAX, 0); n],
        age: vec![0; n],
        clock: 0,
        stays: None,
        cfg,
        live,
        banks: [make(File::Gpr), make(File::Ugpr), make(File::Pred), make(File::Upred)],
        loc: vec![NOWHERE; n],
        end: vec![0; n],
        vec_hint: vec![(FREE, 0); n],
        vec_base: vec![NOWHERE; f.vecs.len()],
        promised: Vec::new(),
        wide: Vec::new(),
        web: (0..n as u32).collect(),
        web_reg: vec![NOWHERE; n],
        fixed_hint: vec![NOWHERE; n],
        has_calls,
        next_call: u32::MAX,
        careful,
        divergent: false,
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
    for i in 0..cfg.rpo.len() {
        a.block(cfg.rpo[i], notes);
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
        None => Ok(()),
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

    fn fail(&mut self, message: impl Into<String>) {
        if self.error.is_none() {
            let name = self.f.name.clone();
            self.error = Some(Diagnostic::error(message).note(format!("in function '{name}'")));
        }
    }

    // ---- choosing ---------------------------------------------------------------------------------------------------

    fn occupy(&mut self, v: Vreg, r: usize) {
        let file = self.file(v);
        self.banks[file].occ[r] = v.0;
        self.banks[file].budget = self.banks[file].budget.max(r + 1);
        self.loc[v.index()] = r as u8;
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
        let occ = &mut self.banks[file].occ[r as usize];
        if *occ == v.0 {
            *occ = FREE;
        }
    }

    /// An aligned free window for the vector `vec`, kept for its other components.
    fn window(&mut self, file: usize, vec: usize, size: usize) -> Option<usize> {
        let known = self.vec_base[vec];
        if known != NOWHERE {
            return Some(known as usize);
        }
        let base = if file == File::Ugpr as usize {
            let align = alignment(size);
            let bank = &self.banks[file];
            let free =
                |base: usize| bank.window_free(base, size) && (base..base + size).all(|r| !self.kept(file, r, vec));
            let base = (0..bank.limit).step_by(align).find(|&base| free(base))?;
            self.promised.push((file, vec as u32, base, size));
            base
        } else {
            let promised = &self.promised;
            let taken = |r: usize| promised.iter().any(|p| p.0 == file && (p.2..p.2 + p.3).contains(&r));
            let end = if size >= WIDE { u32::MAX } else { self.vector_end(vec as u32) };
            let met = self.wide.iter().filter(|w| size >= WIDE || self.meets(w, end));
            let wide: SmallVec<[(usize, usize); 2]> = met.map(|w| (w.base, w.end)).collect();
            let wider = |r: usize| wide.iter().any(|w| (w.0..w.1).contains(&r));
            let bank = &mut self.banks[file];
            if size >= WIDE {
                // The lowest place, before or behind the budget, that is free on the other ways to come, too.
                let end = bank.limit;
                // Behind the registers that threads have everywhere, where they change their number: those are for the rest.
                let low = self.bounds.iter().min().map_or(0, |&b| b.next_multiple_of(alignment(size)));
                let find = |from: usize, elsewhere: &[bool; 256]| {
                    (from..end).step_by(alignment(size)).find(|&b| {
                        let free = b + size <= end && bank.window_free(b, size);
                        free && !(b..b + size).any(|r| elsewhere[r] || taken(r) || wider(r))
                    })
                };
                let elsewhere = waiting(self.f, self.cfg, self.live, &self.exit_loc, self.current, file);
                let base = find(low, &elsewhere).or_else(|| find(0, &elsewhere)).or_else(|| find(0, &[false; 256]))?;
                let ahead = self.ahead(vec as u32);
                self.wide.push(Wide {
                    vec: vec as u32,
                    base,
                    end: base + size,
                    begins: true,
                    makers: Vec::new(),
                    ahead,
                });
                base
            } else {
                let base = find_window(bank, size, true, |r| taken(r) || wider(r))
                    .or_else(|| find_window(bank, size, true, taken))?;
                self.promised.push((file, vec as u32, base, size));
                base
            }
        };
        self.vec_base[vec] = base as u8;
        Some(base)
    }

    /// Gives a vector the place of values that are read last where its components are made, one after the other: what is computed
    /// of a vector element by element lies where that lay.
    fn window_over(&mut self, vec: u32, nth: usize) {
        let list = &self.f.vecs[vec as usize];
        let bank = &self.banks[File::Gpr as usize];
        for &u in &self.near {
            let Some(base) = (self.loc[u.index()] as usize).checked_sub(nth) else { continue };
            let fits = |(k, v): (usize, &Vreg)| {
                let r = base + k;
                if r >= bank.limit || !bank.usable[r] || self.kept(File::Gpr as usize, r, vec as usize) {
                    return false;
                }
                let (block, at) = self.made[v.index()];
                let held = bank.occ[r];
                held == FREE || held < HELD && block == self.current && self.end[held as usize] <= at
            };
            let same = self.f.vregs[u.index()] == File::Gpr && base.is_multiple_of(alignment(list.len()));
            if same
                && !self.wide.iter().any(|w| w.base < base + list.len() && base < w.end)
                && list.iter().enumerate().all(fits)
            {
                let size = list.len();
                self.vec_base[vec as usize] = base as u8;
                self.promised.push((File::Gpr as usize, vec, base, size));
                return;
            }
        }
    }

    /// True for a general register that calls of this function keep.
    fn saved(&self, r: usize) -> bool {
        if self.careful { system_keeps(r as u32) && !matches!(r, 20 | 21) } else { callee_saved(r as u32) }
    }

    /// True for a register that is promised to another vector than `vec`.
    fn kept(&self, file: usize, r: usize, vec: usize) -> bool {
        self.promised.iter().any(|p| p.0 == file && p.1 as usize != vec && (p.2..p.2 + p.3).contains(&r))
    }

    /// A free register for a new value.
    fn pick(&mut self, v: Vreg) -> Option<usize> {
        let file = self.file(v);
        let fixed = self.fixed_hint[v.index()] as usize;
        let crosses = self.end[v.index()] > self.next_call && self.next_call != u32::MAX
            || self.end[v.index()] == u32::MAX && self.has_calls;
        let gpr = file == File::Gpr as usize;
        if !crosses && self.banks[file].free(fixed) {
            return Some(fixed);
        }
        let rep = self.rep(v);
        let web = self.web_reg[rep] as usize;
        if self.banks[file].free(web) && !(gpr && crosses && !self.saved(web)) {
            return Some(web);
        }
        // The register of a value that dies here, if it should meet this one.
        for n in 0..self.near.len() {
            let u = self.near[n];
            let r = self.loc[u.index()] as usize;
            let same = self.file(u) == file && self.banks[file].free(r) && self.rep(u) == rep;
            if same && !(gpr && crosses && !self.saved(r)) {
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
            {
                return Some(base + nth as usize);
            }
        }
        // A selection stays where one of its sources is: what computes the other may then be guarded instead.
        if let Some(u) = self.stays
            && self.file(u) == file
        {
            let r = self.loc[u.index()] as usize;
            if self.banks[file].free(r) && !(gpr && crosses && !self.saved(r)) {
                return Some(r);
            }
        }
        // Callee-saved registers for values that live across calls, the others for the rest.
        let careful = self.careful;
        let prefer =
            |r: usize| !gpr || ((if careful { system_keeps(r as u32) } else { callee_saved(r as u32) }) == crosses);
        let choosy = gpr && (self.has_calls || !self.f.entry);
        let wide: SmallVec<[std::ops::Range<usize>; 2]> = match gpr {
            true => {
                let end = self.end[v.index()];
                let kept = self.wide.iter().filter(|w| w.vec != vec && self.meets(w, end));
                kept.map(|w| w.base..w.end).collect()
            }
            false => SmallVec::new(),
        };
        let bank = &mut self.banks[file];
        // Up to which one; whether only of the better kind; whether not in the way of vectors; whether only rested ones.
        let passes = [
            (bank.block, true, true, true),
            (bank.block, true, true, false),
            (bank.block, false, true, false),
            (bank.budget.min(bank.limit), false, true, false),
            (bank.limit, false, true, false),
        ];
        // Where threads have few registers, those come before the place of something wide.
        let few = bank.few.filter(|&n| gpr && n < bank.limit).map(|_| (bank.block, false, false, false));
        let passes = passes[..3].iter().copied().chain(few).chain(passes[3..].iter().copied());
        for (bound, strict, keep, rested) in passes.chain(gpr.then_some((bank.limit, false, false, false))) {
            if bound == 0 {
                continue;
            }
            // Where the budget does not do it grows by no more than it must.
            let first = if bound == bank.block { bank.cursor % bound } else { 0 };
            for step in 0..bound {
                let r = (first + step) % bound;
                let promised = |p: &(usize, u32, usize, usize)| p.0 == file && (p.2..p.2 + p.3).contains(&r);
                let kept = keep && (self.promised.iter().any(promised) || wide.iter().any(|w| w.contains(&r)));
                if bank.free(r) && !(strict && choosy && !prefer(r)) && !kept && (!rested || bank.rested(r)) {
                    bank.cursor = (r + 1) % bound;
                    return Some(r);
                }
            }
        }
        None
    }

    fn place_new(&mut self, v: Vreg) {
        match self.pick(v) {
            Some(r) => self.occupy(v, r),
            None => {
                let file = self.banks[self.file(v)].file;
                self.fail(match file {
                    File::Gpr => "too few registers for this function: the register limit is too small".to_string(),
                    _ => format!("out of registers of file {file:?}"),
                });
                self.loc[v.index()] = 0;
            }
        }
    }

    // ---- blocks -----------------------------------------------------------------------------------------------------

    fn block(&mut self, b: u32, notes: &mut [Vec<Note>]) {
        let bi = b as usize;
        self.current = b;
        self.divergent = self.f.blocks[bi].divergent;
        let insts = std::mem::take(&mut self.f.blocks[bi].insts);
        self.lifetimes(bi, &insts);
        self.promised.clear();
        if !self.wide.is_empty() {
            self.look_for_wide(bi, &insts);
        }
        for bank in &mut self.banks {
            bank.occ = [FREE; 256];
            bank.block = bank.budget;
            bank.now = 0;
            bank.read = [0; 256];
        }
        if let Some(&bound) = self.bounds.get(bi) {
            let bank = &mut self.banks[File::Gpr as usize];
            bank.block = bank.block.min(bound);
            bank.few = Some(bound);
        }
        self.set_limit(b);
        self.enter(b);
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
        for (i, (inst, note)) in insts.into_iter().zip(old_notes).enumerate() {
            while call < calls.len() && calls[call] <= i as u32 {
                call += 1;
            }
            self.next_call = calls.get(call).copied().unwrap_or(u32::MAX);
            let at = i as u32 + 1;
            let loc = inst.loc;
            if let Op::Sass(s) = &inst.op
                && !self.promised.is_empty()
            {
                let promised = &mut self.promised;
                sass_uses(s, |p| {
                    if p.reg.is_virtual() && p.width > 1 {
                        promised.retain(|x| x.1 != p.reg.index());
                    }
                });
            }
            self.banks.iter_mut().for_each(|b| b.now = at);
            match inst.op {
                Op::Sass(s) => {
                    if let Some(n) = crate::registers::after(&s)
                        && n < self.banks[File::Gpr as usize].limit
                    {
                        self.shrink(n, loc);
                    }
                    self.sass(at, s, (loc, inst.zero), note);
                }
                Op::Copy(pairs) => self.copy(at, &pairs, loc),
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
            self.banks[gpr].occ[r] = FREE;
            self.occupy(Vreg(v), to);
        }
    }

    /// The blocks from which control comes to one where values live that belong into `vec`, those themselves too.
    fn ahead(&self, vec: u32) -> BitSet {
        let (f, live, hint) = (&*self.f, self.live, &self.vec_hint);
        let mine = |v: &Vreg| hint[v.index()].0 == vec;
        let mut found = BitSet::new(f.blocks.len());
        let mut work = Vec::new();
        for &b in &self.cfg.rpo {
            let block = &f.blocks[b as usize];
            let mut here = b == self.current;
            here |= live.live_in[b as usize].iter().chain(&live.live_out[b as usize]).chain(&block.params).any(mine);
            here |= block.insts.iter().any(|i| makes(f, i, mine));
            if here && found.insert(b as usize) {
                work.push(b);
            }
        }
        while let Some(b) = work.pop() {
            work.extend(self.cfg.preds[b as usize].iter().copied().filter(|&p| found.insert(p as usize)));
        }
        found
    }

    /// Finds out from where on wide vectors have values in the block.
    fn look_for_wide(&mut self, b: usize, insts: &[Inst]) {
        let (f, live, hint) = (&*self.f, self.live, &self.vec_hint);
        let block = &f.blocks[b];
        for w in &mut self.wide {
            let mine = |v: &Vreg| hint[v.index()].0 == w.vec;
            w.begins = live.live_in[b].iter().chain(&block.params).any(mine);
            let makers = insts.iter().enumerate().filter(|(_, i)| makes(f, i, mine));
            w.makers = makers.map(|(i, _)| i as u32 + 1).collect();
        }
    }

    /// True if a value from the instruction at hand to `end` may not lie in a wide vector's place: values that belong there are alive,
    /// or made meanwhile.
    fn near(&self, w: &Wide, end: u32) -> bool {
        let bank = &self.banks[File::Gpr as usize];
        let next = w.makers.get(w.makers.partition_point(|&m| m < bank.now));
        let mine = |r: usize| bank.occ[r] < HELD && self.vec_hint[bank.occ[r] as usize].0 == w.vec;
        next.is_some_and(|&m| m <= end) || w.begins && bank.now == 0 || (w.base..w.end).any(mine)
    }

    /// As `near`; also where it would be in the way in a block that comes later.
    fn meets(&self, w: &Wide, end: u32) -> bool {
        let ahead = || self.cfg.succs[self.current as usize].iter().any(|&s| w.ahead.contains(s as usize));
        self.near(w, end) || end == u32::MAX && ahead()
    }

    /// Where in the block at hand the last component of a vector is read last; `u32::MAX` where it lives on, or is made elsewhere.
    fn vector_end(&self, vec: u32) -> u32 {
        let here = |v: &Vreg| self.made[v.index()].0 == self.current;
        let ends = self.f.vecs[vec as usize].iter().map(|v| if here(v) { self.end[v.index()] } else { u32::MAX });
        ends.max().unwrap_or(u32::MAX)
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

    fn enter(&mut self, b: u32) {
        let bi = b as usize;
        let index = |p: u32| self.cfg.rpo_index[p as usize];
        let from = self.cfg.preds[bi].iter().copied().filter(|&p| index(p) < index(b)).max_by_key(|&p| {
            // The busiest predecessor, the first of them.
            (self.f.blocks[p as usize].depth, std::cmp::Reverse(index(p)))
        });
        let Some(p) = from else { return };
        let pi = p as usize;
        let mut at = 0;
        let mut entry = Vec::with_capacity(self.live.live_in[bi].len());
        let mut high = Vec::new();
        for k in 0..self.live.live_in[bi].len() {
            let v = self.live.live_in[bi][k];
            while self.live.live_out[pi][at] != v {
                at += 1;
            }
            let r = self.exit_loc[pi][at];
            let file = self.file(v);
            // Threads that come another way may have fewer registers.
            let there = file != File::Gpr as usize || (r as usize) < self.banks[file].limit;
            if there {
                self.occupy(v, r as usize);
            } else {
                high.push((k, v));
            }
            entry.push(r);
        }
        for (k, v) in high {
            self.place_new(v);
            entry[k] = self.loc[v.index()];
        }
        self.entry_loc[bi] = entry;
        let params = self.f.blocks[bi].params.clone();
        if params.is_empty() {
            return;
        }
        let nth = self.f.blocks[pi].term.edges().iter().position(|e| e.block.0 == b);
        let args = nth.map(|n| self.arg_loc[pi][n].clone()).unwrap_or_default();
        let mut left = Vec::new();
        for (n, &p) in params.iter().enumerate() {
            let file = self.file(p);
            match args.get(n) {
                Some(&r) if self.banks[file].free(r as usize) => self.occupy(p, r as usize),
                _ => left.push(p),
            }
        }
        for p in left {
            self.place_new(p);
        }
        self.param_loc[bi] = params.iter().map(|p| self.loc[p.index()]).collect();
        for p in params {
            self.release_if_dead(p, 0);
        }
    }

    fn leave(&mut self, b: usize) {
        let mut term = std::mem::replace(&mut self.f.blocks[b].term, Term::Unreachable);
        match &mut term {
            Term::CondBr { cond, .. } => self.rename(cond, 1),
            Term::Ret(values) => {
                let mut pairs: Vec<(Reg, Reg)> =
                    values.iter().map(|&(v, r)| (r, Reg::phys(r.file(), self.loc[v.index()]))).collect();
                pairs.retain(|(d, s)| d != s);
                self.moves(&pairs, u32::MAX);
                values.clear();
            }
            _ => {}
        }
        self.exit_loc[b] = self.live.live_out[b].iter().map(|v| self.loc[v.index()]).collect();
        self.arg_loc[b] = term.edges().iter().map(|e| e.args.iter().map(|v| self.loc[v.index()]).collect()).collect();
        self.f.blocks[b].term = term;
    }

    fn edges(&mut self, notes: &mut [Vec<Note>]) {
        for bi in 0..self.f.blocks.len() {
            if !self.cfg.reachable(bi as u32) {
                continue;
            }
            let targets: Vec<u32> = self.f.blocks[bi].term.successors().iter().map(|s| s.0).collect();
            for (n, &s) in targets.iter().enumerate() {
                let si = s as usize;
                self.set_limit(s);
                let mut pairs = Vec::new();
                let mut busy = [[false; 256]; 4];
                let mut at = 0;
                for (k, &v) in self.live.live_in[si].iter().enumerate() {
                    while self.live.live_out[bi][at] != v {
                        at += 1;
                    }
                    let file = self.f.vregs[v.index()];
                    let (d, r) = (self.entry_loc[si][k], self.exit_loc[bi][at]);
                    busy[file as usize][d as usize] = true;
                    busy[file as usize][r as usize] = true;
                    pairs.push((Reg::phys(file, d), Reg::phys(file, r)));
                }
                for (k, p) in self.f.blocks[si].params.iter().enumerate() {
                    let file = self.f.vregs[p.index()];
                    let (d, r) = (self.param_loc[si][k], self.arg_loc[bi][n][k]);
                    busy[file as usize][d as usize] = true;
                    busy[file as usize][r as usize] = true;
                    pairs.push((Reg::phys(file, d), Reg::phys(file, r)));
                }
                pairs.retain(|(d, s)| d != s);
                if pairs.is_empty() {
                    continue;
                }
                let at_end = targets.len() == 1;
                let home = if at_end { bi } else { si };
                self.divergent = self.f.blocks[home].divergent || self.f.blocks[bi].divergent;
                self.sequence(&pairs, u32::MAX, &busy);
                let (moves, new) = (std::mem::take(&mut self.out), std::mem::take(&mut self.notes));
                let place = if at_end { self.f.blocks[home].insts.len() } else { 0 };
                self.f.blocks[home].insts.splice(place..place, moves);
                notes[home].splice(place..place, new);
            }
        }
    }

    // ---- moves ------------------------------------------------------------------------------------------------------

    /// Emits a parallel copy; registers that are free may be used in between.
    fn moves(&mut self, pairs: &[(Reg, Reg)], loc: u32) {
        if pairs.is_empty() {
            return;
        }
        let mut busy = [[false; 256]; 4];
        for (f, bank) in self.banks.iter().enumerate() {
            busy[f].iter_mut().zip(&bank.occ).for_each(|(b, o)| *b = *o != FREE);
        }
        for r in pairs.iter().flat_map(|&(d, s)| [d, s]) {
            busy[r.file() as usize & 3][r.index() as usize & 255] = true;
        }
        self.sequence(pairs, loc, &busy);
    }

    fn sequence(&mut self, pairs: &[(Reg, Reg)], loc: u32, busy: &[[bool; 256]; 4]) {
        let uniform = |r: Reg| matches!(r.file(), File::Ugpr | File::Upred);
        if self.divergent && pairs.iter().any(|(d, _)| uniform(*d)) {
            self.fail("uniform registers would have to be moved in divergent code");
        }
        let Assign { banks, out, notes, .. } = self;
        let scratch = |file: File| {
            let bank = &banks[file as usize];
            (0..bank.limit).find(|&r| bank.usable[r] && !busy[file as usize][r]).map(|r| Reg::phys(file, r as u8))
        };
        sequence(pairs, scratch, |s, step| {
            out.push(Inst::new(Op::Sass(s), loc));
            notes.push(match step {
                Some(Step::Move(d, s)) => Note::Move(d, s),
                Some(Step::Swap(a, b)) => Note::Swap(a, b),
                None => Note::Part,
            });
        });
    }

    fn release_if_dead(&mut self, v: Vreg, at: u32) {
        if self.end[v.index()] == at {
            self.release(v);
        }
    }

    fn copy(&mut self, at: u32, pairs: &[(Reg, Reg)], loc: u32) {
        let mut moves: Vec<(Reg, Reg)> = pairs.to_vec();
        for (_, s) in &mut moves {
            if s.is_virtual() {
                *s = Reg::phys(s.file(), self.loc[s.index() as usize]);
            }
        }
        // Registers whose values are read for the last time may be taken by destinations, first by their own.
        let mut dying: SmallVec<[Vreg; 8]> = SmallVec::new();
        for &(_, s) in pairs {
            let v = Vreg(s.index());
            if s.is_virtual() && self.end[v.index()] == at && !dying.contains(&v) {
                dying.push(v);
            }
        }
        dying.iter().for_each(|&v| self.release(v));
        let mut late = Vec::new();
        for (n, &(d, s)) in pairs.iter().enumerate() {
            let r = moves[n].1.index() as usize;
            if s.is_virtual() && s.file() == d.file() && self.banks[d.file() as usize].free(r) {
                self.occupy(Vreg(d.index()), r);
            } else {
                late.push(Vreg(d.index()));
            }
        }
        late.iter().for_each(|&v| self.place_new(v));
        for (d, _) in &mut moves {
            *d = Reg::phys(d.file(), self.loc[d.index() as usize]);
        }
        for &(d, _) in pairs {
            self.release_if_dead(Vreg(d.index()), at);
        }
        moves.retain(|(d, s)| d != s);
        self.moves(&moves, loc);
    }

    fn call(&mut self, at: u32, mut call: crate::mir::Call, loc: u32, note: Note) {
        let gpr = File::Gpr as usize;
        let mut pairs: Vec<(Reg, Reg)> = Vec::new();
        let mut taken = [false; 256];
        for &(v, r) in &call.args {
            pairs.push((r, Reg::r(self.loc[v.index()])));
            taken[r.index() as usize] = true;
        }
        let target = call.target.values();
        if !target.is_empty() {
            // The even pair for the target: an argument register that is not one, else R2, which is kept, or R32.
            let usable = &self.banks[gpr].usable;
            let pair = (2..=7)
                .rev()
                .map(|p| 2 * p)
                .chain([2, 32])
                .find(|&r| !taken[r] && !taken[r + 1] && usable[r] && usable[r + 1]);
            if pair.is_none() {
                self.fail("no register pair is left for the target of an indirect call");
            }
            for (k, (to, v)) in call.target.values_mut().into_iter().zip(target).enumerate() {
                pairs.extend(pair.map(|r| (Reg::r((r + k) as u8), Reg::r(self.loc[v.index()]))));
                *to = Vreg((pair.unwrap_or(4) + k) as u32);
            }
        }
        // Values that live across move to registers that the callee keeps.
        let occ = self.banks[gpr].occ;
        let held = call.target.values();
        let kept = |r: usize| call.keeps(r as u32) && !held.iter().any(|t| t.0 as usize == r);
        let mut staying = [false; 256];
        let mut homeless = Vec::new();
        for (r, &v) in occ.iter().enumerate() {
            if v >= HELD || self.end[v as usize] == at {
                continue;
            }
            if kept(r) { staying[r] = true } else { homeless.push((v, r)) }
        }
        let mut moved = Vec::new();
        for (v, r) in homeless {
            let to = (0..self.banks[gpr].limit).find(|&r| self.banks[gpr].usable[r] && kept(r) && !staying[r]);
            let Some(to) = to else {
                self.fail("too few registers for a call: the register limit is too small");
                continue;
            };
            staying[to] = true;
            pairs.push((Reg::r(to as u8), Reg::r(r as u8)));
            moved.push((v, to));
        }
        pairs.retain(|(d, s)| d != s);
        self.moves(&pairs, loc);
        for (r, &v) in occ.iter().enumerate() {
            if v < HELD && !staying[r] {
                self.banks[gpr].occ[r] = FREE;
            }
        }
        for (r, &v) in occ.iter().enumerate() {
            // Dying values in registers that were taken by moved ones, and the moved ones themselves.
            if v < HELD && (self.end[v as usize] == at || moved.iter().any(|m| m.0 == v)) {
                self.banks[gpr].occ[r] = FREE;
            }
        }
        for (v, r) in moved {
            self.occupy(Vreg(v), r);
        }
        let preds = File::Pred as usize;
        for r in 0..7 {
            let v = self.banks[preds].occ[r];
            if v < HELD && self.end[v as usize] != at {
                self.fail("a predicate lives across a call");
            }
        }
        for &(v, r) in &call.rets {
            self.occupy(v, r.index() as usize);
        }
        for &(v, _) in &call.rets {
            self.release_if_dead(v, at);
        }
        call.args.iter_mut().for_each(|a| a.0 = Vreg::NONE);
        call.rets.iter_mut().for_each(|a| a.0 = Vreg::NONE);
        self.out.push(Inst::new(Op::Call(Box::new(call)), loc));
        self.notes.push(note);
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

    fn in_place(&self, vec: u32) -> bool {
        let list = &self.f.vecs[vec as usize];
        let base = self.loc[list[0].index()] as usize;
        let bank = &self.banks[self.f.vregs[list[0].index()] as usize];
        base.is_multiple_of(alignment(list.len()))
            && list
                .iter()
                .enumerate()
                .all(|(n, v)| self.loc[v.index()] as usize == base + n && bank.occ[base + n] == v.0)
    }

    fn sass(&mut self, at: u32, mut s: Sass, (loc, zero): (u32, bool), note: Note) {
        let mut uses: SmallVec<[Place; 8]> = SmallVec::new();
        let mut defs: SmallVec<[Place; 4]> = SmallVec::new();
        let (mut use_vecs, mut def_vecs): (SmallVec<[u32; 4]>, SmallVec<[u32; 4]>) = Default::default();
        sass_uses(&s, |p| {
            if p.reg.is_virtual() {
                if p.width > 1 {
                    use_vecs.push(p.reg.index());
                }
                uses.push(p);
            }
        });
        sass_defs(&s, |p| {
            if p.reg.is_virtual() {
                if p.width > 1 {
                    def_vecs.push(p.reg.index());
                }
                defs.push(p);
            }
        });
        let mut dying: SmallVec<[Vreg; 8]> = SmallVec::new();
        for p in &uses {
            self.f.each_scalar(p.reg, p.width, |v| {
                if self.end[v.index()] == at && !dying.contains(&v) {
                    dying.push(v);
                }
            });
        }
        self.near = dying.clone();
        self.stays = None;
        if s.form == F::SEL_RR {
            // Of two the older one: the other has been computed for this.
            let source =
                |name| s.get(name).and_then(Operand::as_reg).filter(|r| r.is_virtual()).map(|r| Vreg(r.index()));
            let sources = [source(S::Ra), source(S::Rb)];
            self.stays =
                sources.into_iter().flatten().filter(|v| dying.contains(v)).min_by_key(|v| self.age[v.index()]);
        }
        let mut bases: SmallVec<[usize; 4]> = SmallVec::new();
        let mut ok = use_vecs.iter().all(|&v| self.in_place(v));
        if ok && !def_vecs.is_empty() {
            dying.iter().for_each(|&v| self.release(v));
            for &vec in &def_vecs {
                let Some(base) = self.sums_window(&s, vec).or_else(|| self.def_window(vec)) else {
                    ok = false;
                    break;
                };
                let size = self.f.vecs[vec as usize].len();
                let bank = self.bank_of(vec);
                bank.occ[base..base + size].fill(HELD);
                bases.push(base);
            }
            if !ok {
                for (&base, &vec) in bases.iter().zip(&def_vecs) {
                    let size = self.f.vecs[vec as usize].len();
                    self.bank_of(vec).occ[base..base + size].fill(FREE);
                }
                for &v in &dying {
                    let (file, r) = (self.file(v), self.loc[v.index()] as usize);
                    self.banks[file].occ[r] = v.0;
                }
                bases.clear();
            }
        }
        if !ok {
            let sums = if s.form().class == Class::Gmma {
                s.get(S::Rc).and_then(Operand::as_reg).filter(|r| r.is_virtual())
            } else {
                None
            };
            let over =
                sums.map(|r| self.f.vecs[r.index() as usize].clone()).filter(|l| l.iter().all(|v| dying.contains(v)));
            bases = self.shuffle(&use_vecs, &def_vecs, &dying, over, loc);
            dying.iter().for_each(|&v| self.release(v));
            for (&base, &vec) in bases.iter().zip(&def_vecs) {
                let size = self.f.vecs[vec as usize].len();
                self.bank_of(vec).occ[base..base + size].fill(HELD);
            }
        } else if def_vecs.is_empty() {
            dying.iter().for_each(|&v| self.release(v));
        }
        let late = copies_to_shared(&s);
        for p in &uses {
            if late && p.reg.file() == File::Gpr {
                let bank = &mut self.banks[File::Gpr as usize];
                self.f.each_scalar(p.reg, p.width, |v| bank.read[self.loc[v.index()] as usize] = at);
            }
            let mut o = p.slot.map_or(s.guard, |i| s.operands[i as usize]);
            self.rename(&mut o, p.width);
            match p.slot {
                Some(i) => s.operands[i as usize] = o,
                None => s.guard = o,
            }
        }
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
        for p in &defs {
            let mut dead: SmallVec<[Vreg; 4]> = SmallVec::new();
            self.f.each_scalar(p.reg, p.width, |v| dead.push(v));
            dead.into_iter().for_each(|v| self.release_if_dead(v, at));
        }
        self.out.push(Inst { op: Op::Sass(s), loc, zero });
        self.notes.push(note);
    }

    fn bank_of(&mut self, vec: u32) -> &mut Bank {
        let file = self.file(self.f.vecs[vec as usize][0]);
        &mut self.banks[file]
    }

    /// The window of the sums that a warpgroup's product adds to, if they are free now: it works in place.
    fn sums_window(&mut self, s: &Sass, vec: u32) -> Option<usize> {
        if s.form().class != Class::Gmma {
            return None;
        }
        let reg = s.get(S::Rc)?.as_reg().filter(|r| r.is_virtual())?;
        let first = self.f.vecs[reg.index() as usize][0];
        let size = self.f.vecs[vec as usize].len();
        let base = self.loc[first.index()] as usize;
        self.bank_of(vec).window_free(base, size).then_some(base)
    }

    /// A free window for a vector that an instruction defines: where its components will be wanted, if possible.
    fn def_window(&mut self, vec: u32) -> Option<usize> {
        let first = self.f.vecs[vec as usize][0];
        let size = self.f.vecs[vec as usize].len();
        let align = alignment(size);
        let file = self.file(first);
        let rep = self.rep(first);
        let (wanted, nth) = self.vec_hint[first.index()];
        let mut tries: SmallVec<[usize; 3]> = SmallVec::new();
        if wanted != FREE {
            let wide = self.f.vecs[wanted as usize].len();
            if let Some(base) = self.window(file, wanted as usize, wide) {
                tries.push(base + nth as usize);
            }
        }
        if self.web_reg[rep] != NOWHERE {
            tries.push(self.web_reg[rep] as usize);
        }
        for base in tries {
            if base.is_multiple_of(align) && base + size <= 256 && self.banks[file].window_free(base, size) {
                return Some(base);
            }
        }
        let end = self.f.vecs[vec as usize].iter().map(|v| self.end[v.index()]).max().unwrap_or(u32::MAX);
        let near = self.wide.iter().filter(|w| self.near(w, end));
        let wide: SmallVec<[(usize, usize); 2]> = near.map(|w| (w.base, w.end)).collect();
        let promised = &self.promised;
        let taken = |r: usize| {
            promised.iter().any(|p| p.0 == file && (p.2..p.2 + p.3).contains(&r))
                || file == File::Gpr as usize && wide.iter().any(|w| (w.0..w.1).contains(&r))
        };
        find_window(&mut self.banks[file], size, false, taken)
            .or_else(|| find_window(&mut self.banks[file], size, false, |_| false))
    }

    /// Moves values so that all vectors of an instruction are in place and there is room for the vectors it defines.
    /// Returns where those begin.
    fn shuffle(
        &mut self,
        uses: &[u32],
        defs: &[u32],
        dying: &[Vreg],
        over: Option<SmallVec<[Vreg; 4]>>,
        loc: u32,
    ) -> SmallVec<[usize; 4]> {
        let mut bases: SmallVec<[usize; 4]> = SmallVec::from_elem(0, defs.len());
        let mut files: SmallVec<[usize; 2]> = SmallVec::new();
        for &vec in uses.iter().chain(defs) {
            let file = self.file(self.f.vecs[vec as usize][0]);
            if !files.contains(&file) {
                files.push(file);
            }
        }
        let mut pairs = Vec::new();
        for file in files {
            let of = |vec: &u32, a: &Self| a.file(a.f.vecs[*vec as usize][0]) == file;
            let mut groups: Vec<Group> = Vec::new();
            for vec in uses.iter().filter(|v| of(v, self)) {
                let list = self.f.vecs[*vec as usize].clone();
                if groups.iter().all(|g| g.list != list) {
                    let live = list.iter().any(|v| !dying.contains(v));
                    let base = self.in_place(*vec).then(|| self.loc[list[0].index()] as usize);
                    groups.push(Group { list, base, def: None, live, over: None });
                }
            }
            for (n, vec) in defs.iter().enumerate().filter(|(_, v)| of(v, self)) {
                let list = self.f.vecs[*vec as usize].clone();
                groups.push(Group { list, base: None, def: Some(n), live: false, over: over.clone() });
            }
            groups.sort_by_key(|g| std::cmp::Reverse(alignment(g.list.len())));
            let plan = plan_near(&self.banks[file], &mut groups.clone(), dying)
                .or_else(|| plan_fresh(&self.banks[file], &mut groups, dying));
            let Some(plan) = plan else {
                self.fail("too few registers for the vectors of an instruction: the register limit is too small");
                continue;
            };
            let kind = self.banks[file].file;
            let bank = &mut self.banks[file];
            for &(v, to) in &plan.moves {
                let from = self.loc[v.index()];
                pairs.push((Reg::phys(kind, to as u8), Reg::phys(kind, from)));
                bank.occ[from as usize] = FREE;
            }
            for (n, base) in plan.bases {
                bases[n] = base;
            }
            for &(v, to) in &plan.moves {
                self.occupy(v, to);
            }
        }
        self.moves(&pairs, loc);
        bases
    }
}

/// Registers that hold what blocks read which come after `current` in the walk, where they are entered from blocks done.
fn waiting(f: &Func, cfg: &Cfg, live: &Liveness, exits: &[Vec<u8>], current: u32, file: usize) -> [bool; 256] {
    let mut out = [false; 256];
    let done = cfg.rpo_index[current as usize];
    for &b in &cfg.rpo[..done as usize] {
        let later = |s: u32| cfg.rpo_index[s as usize] > done;
        if !cfg.succs[b as usize].iter().any(|&s| later(s)) {
            continue;
        }
        for (&v, &r) in live.live_out[b as usize].iter().zip(&exits[b as usize]) {
            out[r as usize] |= f.vregs[v.index()] as usize == file;
        }
    }
    out
}

/// True if the instruction writes one of these values.
fn makes(f: &Func, inst: &Inst, mine: impl Fn(&Vreg) -> bool) -> bool {
    let mut found = false;
    f.defs(&inst.op, |v| found |= mine(&v));
    found
}

/// True for copies into shared memory: until one is done its registers may not be written. Other memory instructions have soon
/// read theirs; to spare those as well would bring chains that run side by side into few registers, one after the other.
fn copies_to_shared(s: &Sass) -> bool {
    s.form().class == Class::Global && s.form().mnemonic == "LDGSTS"
}

/// A free aligned window without registers that are `taken`; `far`: after the cursor, so that neighbours do not take it at once.
fn find_window(bank: &mut Bank, size: usize, far: bool, taken: impl Fn(usize) -> bool) -> Option<usize> {
    let align = alignment(size);
    let few = bank.few.filter(|&n| n < bank.budget);
    let limit = bank.limit;
    for bound in few.into_iter().chain([bank.budget, limit]).map(|b| b.min(limit)) {
        let windows = bound.div_ceil(align);
        let round = bound == bank.budget.min(bank.limit);
        let first = if round { bank.cursor.div_ceil(align) } else { 0 };
        for step in 0..if round { 2 * windows } else { windows } {
            let base = (first + step) % windows * align;
            let place = base..base + size;
            // Once around for those that nothing has to wait for, where there is a choice.
            let waits = || round && step < windows && !place.clone().all(|r| bank.rested(r));
            if place.end <= bound && bank.window_free(base, size) && !place.clone().any(&taken) && !waits() {
                if !far {
                    bank.cursor = (base + size) % bound.max(1);
                }
                return Some(base);
            }
        }
    }
    None
}
