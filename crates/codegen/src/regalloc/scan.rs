//! Register assignment at the least effort: one walk that finds from where to where each value has its register ([`spans`]), one that gives it one.
//!
//! A value has one register for all of its span, so nothing has to be remembered of the ends of blocks, and what moves on edges is arguments only. Where a
//! vector is read whose components lie elsewhere, they are copied to a free place before it, or moved there if they live in this block alone.
//! Sums of products of warpgroups have their places beforehand ([`chains`]); what such a product still reads is free again at the next wait.
//! Functions with calls (other than of routines for seldom cases), changing numbers of registers, or more values at once than registers are not for it:
//! [`super::run`] has [`super::assign`] for them.

mod bank;
pub(super) mod carry;
mod chains;
pub(super) mod spans;

use super::parcopy::{self, Step, sequence};
use super::{Banks, Note};
use crate::cfg::{Cfg, NONE};
use crate::mir::operands::copy_inst;
use crate::mir::{Block, Call, Func, Inst, Op, Term, Vreg, alignment};
use bank::Bank;
use chains::{Chains, slow};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::latency::Class;
use sass::reg::{File, Reg};
use smallvec::SmallVec;
use spans::{FOREVER, Known, NOWHERE, Spans, is_uniform};

/// What came of it.
pub(super) enum Outcome {
    /// All registers are assigned.
    Done,
    /// Not for this allocator; nothing has changed.
    Unfit,
    /// No place was found for some vector, or a uniform register would have to be moved where a warp may be divided. The function is spoilt.
    Stuck,
}

/// A value that has its register for more positions than this stays for long.
const LASTING: u32 = 32;
/// A place is kept for a vector whose last component is made so many positions on, at most.
const FAR: u32 = 256;
/// General registers that there are beyond those that values need at once, for places of vectors.
const SPARE: u32 = 8;

/// The assignment under way.
struct Scan<'a> {
    files: &'a [File],
    vecs: &'a [SmallVec<[Vreg; 4]>],
    values: Vec<Known>,
    banks: [Bank; 4],
    /// By position (halved): the first value whose register is free at this end of a block.
    ends: Vec<u32>,
    /// By vector: the place that is kept for it.
    kept: Vec<u8>,
    /// Vectors that a place is kept for.
    keeping: Vec<u32>,
    chains: Chains,
    /// Chains that have begun, and those of them that have not ended.
    begun: usize,
    active: SmallVec<[usize; 4]>,
    /// Where the next chain begins or ends, and where the next one begins.
    event: u32,
    next: u32,
    /// General registers that nobody reads any more but products that are not waited for yet.
    flying: Vec<usize>,
    at: u32,
    /// Start and end of the block at hand.
    start: u32,
    end: u32,
    divergent: bool,
    /// What goes between the instructions of the block: before which one.
    added: Vec<(u32, Sass, Note)>,
    /// Instructions that go.
    gone: Vec<u32>,
    stuck: bool,
}

/// Assigns the registers of a prepared function in SSA form, whose spans these are; `notes`, where there are some, have one for each instruction and
/// get those of the new ones.
pub(super) fn run(f: &mut Func, cfg: &Cfg, spans: Spans, notes: &mut [Vec<Note>]) -> Outcome {
    let Spans { fit, values, bound, most, mut chains, changed } = spans;
    if !fit {
        return Outcome::Unfit;
    }
    let all = Banks::of(f);
    let general = Bank::new(0..all.gprs.min(253) as usize).without(|r| r == 1);
    let general = match all.light {
        Some(_) => {
            let usable = all.usable(File::Gpr);
            general.without(|r| !usable[r])
        }
        None => changed.iter().fold(general, |bank, k| bank.without(|r| !k.preserves(r as u32))),
    };
    let banks = [general, Bank::new(6..all.uniform as usize), Bank::new(0..7), Bank::new(0..7)];
    let spare = if all.light.is_some() { 0 } else { SPARE };
    if (0..4).any(|k| most[k] + if k == 0 { spare } else { 0 } > banks[k].count()) {
        return Outcome::Unfit;
    }
    if !chains.list.is_empty() {
        let need = spans::most_with(f, &values, &chains, bound)[0];
        if need + SPARE > banks[0].count() || !chains.place(|r| banks[0].is_free(r)) {
            return Outcome::Unfit;
        }
    }
    let mut kept = vec![NOWHERE; f.vecs.len()];
    chains.bases(&mut kept);
    let event = if chains.list.is_empty() { u32::MAX } else { 0 };
    let mut blocks = std::mem::take(&mut f.blocks);
    let mut scan = Scan {
        files: &f.vregs,
        vecs: &f.vecs,
        values,
        banks,
        ends: vec![NONE; bound as usize / 2 + 1],
        kept,
        keeping: Vec::new(),
        chains,
        begun: 0,
        active: SmallVec::new(),
        event,
        next: event,
        flying: Vec::new(),
        at: 0,
        start: 0,
        end: 0,
        divergent: false,
        added: Vec::new(),
        gone: Vec::new(),
        stuck: false,
    };
    // At the first position, where they arrive.
    scan.at = 2;
    for &(v, r) in &f.live_in {
        scan.put(v, r.index() as usize);
    }
    let unread = |v: &Vreg| scan.values[v.index()].end == 2;
    f.live_in.iter().map(|l| l.0).filter(unread).collect::<Vec<_>>().into_iter().for_each(|v| scan.release(v));
    scan.at = 0;
    for &b in &cfg.rpo {
        let old = notes.get_mut(b as usize).map(std::mem::take);
        let new = scan.block(&mut blocks[b as usize], old);
        if let Some(list) = notes.get_mut(b as usize) {
            *list = new;
        }
    }
    if scan.stuck {
        return Outcome::Stuck;
    }
    for &b in &cfg.rpo {
        scan.edges(&mut blocks, b as usize, notes);
    }
    let stuck = scan.stuck;
    for (b, block) in blocks.iter_mut().enumerate() {
        block.params.clear();
        block.term.edges_mut().into_iter().for_each(|e| e.args.clear());
        if !cfg.reachable(b as u32) {
            block.insts.clear();
            block.term = Term::Unreachable;
        }
    }
    f.blocks = blocks;
    f.live_in.clear();
    if stuck { Outcome::Stuck } else { Outcome::Done }
}

impl Scan<'_> {
    fn file(&self, v: Vreg) -> usize {
        self.files[v.index()] as usize & 3
    }

    // ---- places of values -------------------------------------------------------------------------------------------

    /// Puts a value, from here on, into a register that is free, or held for it.
    fn put(&mut self, v: Vreg, r: usize) {
        let file = self.file(v);
        self.banks[file].take(r);
        let known = &mut self.values[v.index()];
        (known.loc, known.first) = (r as u8, r as u8);
        let (end, meet) = (known.end, known.meet);
        if end & 1 != 0 && end != FOREVER {
            known.next = std::mem::replace(&mut self.ends[end as usize / 2], v.0);
        }
        if meet != NONE {
            let wish = &mut self.values[meet as usize].wish;
            if *wish == NOWHERE {
                *wish = r as u8;
            }
        }
    }

    #[inline]
    fn release(&mut self, v: Vreg) {
        let file = self.file(v);
        self.banks[file].release(self.values[v.index()].loc as usize);
    }

    /// The register that a value should have: that of the parameter that it is given to, or of what the parameter is given elsewhere, or, of a
    /// parameter, of what it is given.
    fn wish(&self, v: Vreg) -> Option<usize> {
        let known = &self.values[v.index()];
        let found = match self.values.get(known.meet as usize) {
            Some(p) if p.loc != NOWHERE => p.loc,
            Some(p) if p.wish != NOWHERE => p.wish,
            _ => known.wish,
        };
        (found != NOWHERE).then_some(found as usize)
    }

    /// A place for a value that is made here.
    fn place(&mut self, v: Vreg) {
        let file = self.file(v);
        let known = self.values[v.index()];
        if self.chains.home(&known).is_some()
            && let Some((vec, nth)) = known.vector()
        {
            let r = self.kept[vec] as usize + nth;
            if self.banks[file].is_held(r) {
                return self.put(v, r);
            }
        }
        let all = known.end < self.next;
        let wishes = known.meet != NONE || known.wish != NOWHERE;
        if wishes && let Some(r) = self.wish(v).filter(|&r| self.may_be(file, r, all)) {
            return self.put(v, r);
        }
        if let Some((vec, nth)) = known.vector()
            && let Some(base) = self.keep(vec)
            && (self.banks[file].is_held(base + nth) || self.banks[file].is_free(base + nth))
        {
            return self.put(v, base + nth);
        }
        let lasts = known.end - self.at > LASTING;
        let found = self.banks[file].pick(lasts, all).or_else(|| {
            self.let_go();
            self.banks[file].pick(lasts, all).or_else(|| self.banks[file].pick(lasts, true))
        });
        match found {
            Some(r) => {
                if !lasts {
                    self.banks[file].pass(r + 1);
                }
                self.put(v, r);
            }
            None => {
                self.stuck = true;
                self.values[v.index()].loc = 0;
            }
        }
    }

    /// True for a register that is free, and not to be free for a chain that begins before a value ends (if not `all`).
    #[inline]
    fn may_be(&self, file: usize, r: usize, all: bool) -> bool {
        self.banks[file].is_free(r) && (all || !self.banks[file].is_awaited(r))
    }

    /// True if no chain begins before these values end.
    fn end_before(&self, list: &[Vreg]) -> bool {
        self.next == u32::MAX || list.iter().all(|v| self.values[v.index()].end < self.next)
    }

    /// Begins and ends chains.
    fn settle(&mut self) {
        let (general, at) = (&mut self.banks[File::Gpr as usize], self.at);
        let list = &self.chains.list;
        self.active.retain(|&mut n| {
            let on = list[n].end >= at;
            if !on {
                general.settle(list[n].registers(), false);
            }
            on
        });
        while let Some(c) = list.get(self.begun).filter(|c| c.start <= at) {
            general.settle(c.registers(), true);
            self.active.push(self.begun);
            self.begun += 1;
        }
        general.awaits(list[self.begun..].iter().map(|c| c.registers()));
        self.next = list.get(self.begun).map_or(u32::MAX, |c| c.start);
        self.event = self.active.iter().map(|&n| list[n].end + 1).fold(self.next, u32::min);
    }

    /// True if each component of a vector is at its place from `base` on, or may be put there.
    fn fits(&self, vec: usize, base: usize) -> bool {
        let list = &self.vecs[vec];
        let bank = &self.banks[self.file(list[0])];
        let own = self.kept[vec] as usize == base;
        base.is_multiple_of(alignment(list.len()))
            && base + list.len() <= 256
            && list.iter().enumerate().all(|(n, v)| {
                let r = base + n;
                self.values[v.index()].loc as usize == r || bank.is_free(r) || own && bank.is_held(r)
            })
    }

    /// A place for a vector, some components of which may lie where they belong.
    fn find(&mut self, vec: usize) -> Option<usize> {
        let list = &self.vecs[vec];
        let file = self.file(list[0]);
        for (n, v) in list.iter().enumerate() {
            let loc = match self.values[v.index()].loc {
                NOWHERE => self.wish(*v),
                r => Some(r as usize),
            };
            if let Some(base) = loc.and_then(|r| r.checked_sub(n)).filter(|&base| self.fits(vec, base)) {
                return Some(base);
            }
        }
        let all = self.end_before(list);
        self.banks[file].window(list.len(), all)
    }

    /// The place that is kept for a vector; from now on, if there is none, and its components are all made before long.
    fn keep(&mut self, vec: usize) -> Option<usize> {
        if self.kept[vec] != NOWHERE {
            return Some(self.kept[vec] as usize);
        }
        let vecs = self.vecs;
        let list = &vecs[vec];
        if list.iter().any(|v| self.values[v.index()].start > self.at + FAR) {
            return None;
        }
        let base = self.find(vec)?;
        let bank = &mut self.banks[self.files[list[0].index()] as usize & 3];
        for r in base..base + list.len() {
            if bank.is_free(r) {
                bank.hold(r);
            }
        }
        self.kept[vec] = base as u8;
        self.keeping.push(vec as u32);
        Some(base)
    }

    /// Nothing is kept for a vector any more.
    fn forget(&mut self, vec: usize) {
        if self.chains.of(vec).is_some() {
            return;
        }
        let base = self.kept[vec] as usize;
        let list = &self.vecs[vec];
        let bank = &mut self.banks[self.files[list[0].index()] as usize & 3];
        (base..base + list.len())
            .filter(|&r| bank.is_held(r))
            .collect::<SmallVec<[usize; 8]>>()
            .into_iter()
            .for_each(|r| bank.release(r));
        self.kept[vec] = NOWHERE;
        self.keeping.retain(|&k| k as usize != vec);
    }

    /// What products still read is free, for what comes behind a wait.
    fn land(&mut self) {
        while let Some(r) = self.flying.pop() {
            self.banks[File::Gpr as usize].release(r);
        }
    }

    /// Gives up all places that are kept for vectors, and registers that products still read.
    fn let_go(&mut self) {
        self.land();
        while let Some(&vec) = self.keeping.last() {
            self.forget(vec as usize);
        }
    }

    // ---- blocks -----------------------------------------------------------------------------------------------------

    /// Assigns a block; gives its notes, if it had some.
    fn block(&mut self, block: &mut Block, notes: Option<Vec<Note>>) -> Vec<Note> {
        self.divergent = block.divergent;
        self.at += 2;
        self.start = self.at;
        self.end = self.at + 2 * block.insts.len() as u32 + 1;
        if self.at >= self.event {
            self.settle();
        }
        block.params.iter().for_each(|&p| self.place(p));
        for &p in &block.params {
            if self.values[p.index()].end == self.at {
                self.release(p);
            }
        }
        for (n, inst) in block.insts.iter_mut().enumerate() {
            self.at += 2;
            if self.at >= self.event {
                self.settle();
            }
            match &mut inst.op {
                Op::Sass(s) => {
                    if s.form == F::WARPGROUP_I {
                        self.land();
                    }
                    if s.registers().all_single() {
                        self.singles(s);
                    } else {
                        self.vectors(n as u32, s);
                    }
                }
                Op::Copy(pairs) => {
                    let pairs = std::mem::take(pairs);
                    self.copy(n as u32, &pairs);
                }
                Op::Call(c) => self.call(n as u32, c),
                Op::LoadIncoming { .. } | Op::Hold { .. } => self.stuck = true,
            }
        }
        self.at += 1;
        self.land();
        match &mut block.term {
            Term::CondBr { cond, .. } => drop(self.rename(cond)),
            Term::Ret(values) => {
                let pairs = values.iter().map(|&(v, r)| (r, Reg::phys(r.file(), self.values[v.index()].loc)));
                let pairs: SmallVec<[(Reg, Reg); 8]> = pairs.filter(|(d, s)| d != s).collect();
                let n = block.insts.len() as u32;
                sequence(&pairs, |_| None, |s, step| self.added.push((n, s, note(step))));
                values.clear();
            }
            _ => {}
        }
        let mut v = self.ends[self.at as usize / 2];
        while v != NONE {
            self.release(Vreg(v));
            v = self.values[v as usize].next;
        }
        self.at += 1;
        self.change(block, notes)
    }

    /// Puts what was added to a block between its instructions, and takes out what goes.
    fn change(&mut self, block: &mut Block, notes: Option<Vec<Note>>) -> Vec<Note> {
        if self.added.is_empty() && self.gone.is_empty() {
            return notes.unwrap_or_default();
        }
        let new = notes.map(|known| self.change_notes(known));
        let insts = &mut block.insts;
        let loc = |a: &(u32, Sass, Note)| insts.get(a.0 as usize).map_or(u32::MAX, |i| i.loc);
        let mut locs: Vec<u32> = self.added.iter().map(loc).collect();
        // What goes first: what is added has its place by the others'.
        let mut gone = self.gone.drain(..).peekable();
        if gone.peek().is_some() {
            let (mut n, mut less) = (0, 0);
            let mut added = self.added.iter_mut().peekable();
            insts.retain(|_| {
                while let Some(a) = added.next_if(|a| a.0 == n) {
                    a.0 -= less;
                }
                let goes = gone.next_if_eq(&n).is_some();
                (n, less) = (n + 1, less + u32::from(goes));
                !goes
            });
            added.for_each(|a| a.0 -= less);
        }
        // From the last one to the first: each is moved once, and those before all that is added stay.
        let mut from = insts.len();
        insts.resize_with(from + self.added.len(), || Inst::new(Op::Copy(Vec::new()), u32::MAX));
        let mut to = insts.len();
        while let Some((at, s, _)) = self.added.pop() {
            while from > at as usize {
                (from, to) = (from - 1, to - 1);
                insts.swap(from, to);
            }
            to -= 1;
            insts[to] = Inst::new(Op::Sass(s), locs.pop().unwrap_or(u32::MAX));
        }
        new.unwrap_or_default()
    }

    /// The notes of a block whose instructions have those that are known, with what was added and without what goes.
    fn change_notes(&self, known: Vec<Note>) -> Vec<Note> {
        let mut notes = Vec::with_capacity(known.len() + self.added.len());
        let mut added = self.added.iter().peekable();
        let mut gone = self.gone.iter().peekable();
        for (n, note) in (0..).zip(known) {
            notes.extend(std::iter::from_fn(|| added.next_if(|a| a.0 == n)).map(|a| a.2));
            if gone.next_if_eq(&&n).is_none() {
                notes.push(note);
            }
        }
        notes.extend(added.map(|a| a.2));
        notes
    }

    /// Replaces a virtual register, one wide, by its place.
    #[inline]
    fn rename(&self, o: &mut Operand) -> Option<Vreg> {
        let Value::Reg(reg) = o.value else { return None };
        if !reg.is_virtual() {
            return None;
        }
        let v = Vreg(reg.index());
        o.value = Value::Reg(Reg::phys(reg.file(), self.values[v.index()].loc));
        Some(v)
    }

    /// As `rename`, of something that is read; what is not read any more gives its register back.
    #[inline]
    fn read(&mut self, o: &mut Operand) {
        if let Some(v) = self.rename(o)
            && self.values[v.index()].end == self.at
        {
            self.release(v);
        }
    }

    /// An instruction all of whose operands are one register wide.
    fn singles(&mut self, s: &mut Sass) {
        let registers = s.registers();
        self.read(&mut s.guard);
        let mut slots = registers.reads;
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            self.read(&mut s.operands[i]);
        }
        let mut unread: SmallVec<[Vreg; 4]> = SmallVec::new();
        let mut slots = registers.writes;
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let Value::Reg(reg) = s.operands[i].value else { continue };
            if reg.is_virtual() {
                let v = Vreg(reg.index());
                self.place(v);
                self.rename(&mut s.operands[i]);
                if self.values[v.index()].end == self.at {
                    unread.push(v);
                }
            }
        }
        unread.into_iter().for_each(|v| self.release(v));
    }

    /// An instruction with vectors, number `n` of its block.
    fn vectors(&mut self, n: u32, s: &mut Sass) {
        let registers = s.registers();
        let vecs = self.vecs;
        let mut dying: SmallVec<[Vreg; 16]> = SmallVec::new();
        // Registers that are taken for this instruction alone.
        let mut lent: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        let mut wide: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        // The same of what a product still reads when it has given its sums a place.
        let mut late: SmallVec<[Vreg; 4]> = SmallVec::new();
        let mut flown: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        let mut last = None;
        let mut sums = 0..0;
        let product = !self.chains.list.is_empty() && s.form().class == Class::Gmma;
        let mut slots = registers.reads;
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let Value::Reg(reg) = s.operands[i].value else { continue };
            if !reg.is_virtual() {
                continue;
            }
            if s.slot_width(i) == 1 {
                let v = Vreg(reg.index());
                if self.values[v.index()].end == self.at {
                    if product && slow(s, i) && reg.file() == File::Gpr { late.push(v) } else { dying.push(v) }
                }
                continue;
            }
            let vec = reg.index() as usize;
            let base = self.together(n, vec, if product && slow(s, i) { &mut flown } else { &mut lent });
            wide.push((i, base));
            let ends = vecs[vec].iter().copied().filter(|v| self.values[v.index()].end == self.at);
            if product && slow(s, i) {
                late.extend(ends);
                continue;
            }
            let before = dying.len();
            dying.extend(ends);
            if dying.len() - before == vecs[vec].len() {
                last = Some((base, vecs[vec].len(), reg.file()));
            } else if product && reg.file() == File::Gpr {
                // The new sums lie elsewhere.
                late.extend(dying.drain(before..));
            }
            if product && reg.file() == File::Gpr {
                sums = base..base + vecs[vec].len();
            }
        }
        self.read(&mut s.guard);
        let mut slots = registers.reads;
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            match wide.iter().find(|w| w.0 == i) {
                Some(&(_, base)) => {
                    if let Value::Reg(reg) = s.operands[i].value {
                        s.operands[i].value = Value::Reg(Reg::phys(reg.file(), base as u8));
                    }
                }
                None => drop(self.rename(&mut s.operands[i])),
            }
        }
        // What is one of the sums as well is written over.
        late.retain(|v| !dying.contains(v));
        dying.into_iter().for_each(|v| self.release(v));
        lent.into_iter().for_each(|(file, r)| self.banks[file].release(r));
        let mut unread: SmallVec<[Vreg; 8]> = SmallVec::new();
        let mut slots = registers.writes;
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let Value::Reg(reg) = s.operands[i].value else { continue };
            if !reg.is_virtual() {
                continue;
            }
            if s.slot_width(i) == 1 {
                let v = Vreg(reg.index());
                self.place(v);
                self.rename(&mut s.operands[i]);
                unread.push(v);
                continue;
            }
            let over = last.filter(|l| l.1 == vecs[reg.index() as usize].len() && l.2 == reg.file()).map(|l| l.0);
            let base = self.make(reg.index() as usize, over);
            // In place, or apart.
            let end = base + vecs[reg.index() as usize].len();
            self.stuck |= base != sums.start && base < sums.end && sums.start < end;
            unread.extend_from_slice(&vecs[reg.index() as usize]);
            s.operands[i].value = Value::Reg(Reg::phys(reg.file(), base as u8));
        }
        unread.retain(|v| self.values[v.index()].end == self.at);
        unread.into_iter().for_each(|v| self.release(v));
        if product {
            self.flying.extend(late.into_iter().map(|v| self.values[v.index()].loc as usize));
            self.flying.extend(flown.into_iter().map(|f| f.1));
        }
    }

    /// Brings the components of a vector together before instruction `n`; gives the place.
    fn together(&mut self, n: u32, vec: usize, lent: &mut SmallVec<[(usize, usize); 8]>) -> usize {
        let vecs = self.vecs;
        let list = &vecs[vec];
        let first = self.values[list[0].index()].loc as usize;
        let there = |a: &Self, base: usize| {
            (list.iter().enumerate()).all(|(k, v)| a.values[v.index()].loc as usize == base + k)
        };
        if first.is_multiple_of(alignment(list.len())) && there(self, first) {
            if self.kept[vec] != NOWHERE {
                self.forget(vec);
            }
            return first;
        }
        let known = self.kept[vec];
        let known = (known != NOWHERE && self.fits(vec, known as usize)).then_some(known as usize);
        let found = known.or_else(|| self.find(vec)).or_else(|| {
            self.let_go();
            self.find(vec)
        });
        let Some(base) = found else {
            self.stuck = true;
            return 0;
        };
        let (kind, file) = (self.files[list[0].index()], self.file(list[0]));
        if self.divergent && matches!(kind, File::Ugpr | File::Upred) {
            self.stuck = true;
        }
        for (k, &v) in list.iter().enumerate() {
            let (to, known) = (base + k, self.values[v.index()]);
            if known.loc as usize == to {
                continue;
            }
            self.banks[file].take(to);
            let (d, s) = (Reg::phys(kind, to as u8), Reg::phys(kind, known.loc));
            self.added.push((n, copy_inst(d, s), Note::Move(d, s)));
            // What a place is kept for stays there.
            let awaited =
                known.vector().is_some_and(|(w, k)| w != vec && self.kept[w] as usize + k == known.loc as usize);
            // What lives to the end of the block may have come around a loop, and has to be where it was.
            let here = known.end < self.end || known.end == self.end && known.start >= self.start;
            // Nor may what an edge of another block gives away move: that is asked when all blocks are done.
            let given = known.meet != NONE && known.start < self.start;
            if here && !awaited && !given {
                self.banks[file].release(known.loc as usize);
                self.values[v.index()].loc = to as u8;
            } else {
                lent.push((file, to));
            }
        }
        if self.kept[vec] != NOWHERE {
            self.forget(vec);
        }
        base
    }

    /// A place for a vector that is made here; `over`: where one of this size lay that is read last here.
    fn make(&mut self, vec: usize, over: Option<usize>) -> usize {
        let vecs = self.vecs;
        let list = &vecs[vec];
        let (first, file) = (list[0], self.file(list[0]));
        let may = |a: &Self, base: usize, own: bool| {
            let bank = &a.banks[file];
            base.is_multiple_of(alignment(list.len()))
                && base + list.len() <= 256
                && (base..base + list.len()).all(|r| bank.is_free(r) || own && bank.is_held(r))
        };
        let chain = self.chains.of(vec).map(|_| self.kept[vec] as usize).filter(|&r| may(self, r, true));
        let all = self.end_before(list);
        let open = |a: &Self, r: usize| all || (r..r + list.len()).all(|r| !a.banks[file].is_awaited(r));
        let mut base = chain.or_else(|| self.wish(first).filter(|&r| may(self, r, false) && open(self, r)));
        if base.is_none()
            && let Some((wanted, nth)) = self.values[first.index()].vector()
            && vecs[wanted].len() > list.len()
        {
            base = self.keep(wanted).map(|b| b + nth).filter(|&r| {
                let whole =
                    list.iter().enumerate().all(|(k, v)| self.values[v.index()].vector() == Some((wanted, nth + k)));
                may(self, r, whole)
            });
        }
        let base = base
            .or_else(|| over.filter(|&r| may(self, r, false) && open(self, r)))
            .or_else(|| self.banks[file].window(list.len(), all))
            .or_else(|| {
                self.let_go();
                self.banks[file].window(list.len(), all).or_else(|| self.banks[file].window(list.len(), true))
            });
        let Some(base) = base else {
            self.stuck = true;
            return 0;
        };
        self.banks[file].pass(base + list.len());
        list.iter().enumerate().for_each(|(k, &v)| self.put(v, base + k));
        base
    }

    /// A parallel copy, instruction `n` of its block.
    fn copy(&mut self, n: u32, pairs: &[(Reg, Reg)]) {
        let mut moves: SmallVec<[(Reg, Reg); 8]> = SmallVec::new();
        for &(d, s) in pairs {
            let v = Vreg(s.index());
            let from = if s.is_virtual() { Reg::phys(s.file(), self.values[v.index()].loc) } else { s };
            moves.push((d, from));
        }
        for &(_, s) in pairs {
            if s.is_virtual() && self.values[s.index() as usize].end == self.at {
                self.release(Vreg(s.index()));
            }
        }
        // What is read last here may stay where it is under its new name.
        let stays = |a: &Self, m: &(Reg, Reg)| {
            m.1.file() == m.0.file()
                && !m.1.is_const()
                && a.may_be(m.0.file() as usize & 3, m.1.index() as usize, a.values[m.0.index() as usize].end < a.next)
        };
        let mut late: SmallVec<[Vreg; 8]> = SmallVec::new();
        for m in &moves {
            let d = Vreg(m.0.index());
            if stays(self, m) { self.put(d, m.1.index() as usize) } else { late.push(d) }
        }
        late.into_iter().for_each(|d| self.place(d));
        moves.iter_mut().for_each(|m| m.0 = Reg::phys(m.0.file(), self.values[m.0.index() as usize].loc));
        for &(d, _) in pairs {
            if self.values[d.index() as usize].end == self.at {
                self.release(Vreg(d.index()));
            }
        }
        moves.retain(|m| m.0 != m.1);
        self.gone.push(n);
        let (moved, divergent) = (moves.iter().any(|m| is_uniform(m.0.file())), self.divergent);
        self.stuck |= moved && divergent;
        sequence(&moves, |_| None, |s, step| self.added.push((n, s, note(step))));
    }

    /// A call of a routine for a seldom case, instruction `n` of its block. What it changes are no registers of values.
    fn call(&mut self, n: u32, call: &mut Call) {
        let moved = |a: &mut Self, n: u32, d: Reg, s: Reg| a.added.push((n, copy_inst(d, s), Note::Move(d, s)));
        for (v, r) in &mut call.args {
            let known = self.values[v.index()];
            moved(self, n, *r, Reg::phys(r.file(), known.loc));
            if known.end == self.at {
                self.release(*v);
            }
            *v = Vreg::NONE;
        }
        for (v, r) in &mut call.rets {
            if self.values[v.index()].end > self.at {
                self.place(*v);
                moved(self, n + 1, Reg::phys(r.file(), self.values[v.index()].loc), *r);
            }
            *v = Vreg::NONE;
        }
    }

    // ---- edges ------------------------------------------------------------------------------------------------------

    /// Moves the arguments of the edges of a block to where the parameters are.
    fn edges(&mut self, blocks: &mut [Block], b: usize, notes: &mut [Vec<Note>]) {
        let targets = match &blocks[b].term {
            Term::Br(_) => 1,
            Term::CondBr { .. } => 2,
            _ => return,
        };
        for nth in 0..targets {
            let edge = blocks[b].term.edges()[nth];
            if edge.args.is_empty() {
                continue;
            }
            let to = edge.block.0 as usize;
            let place = |v: &Vreg, loc: u8| Reg::phys(self.files[v.index()], loc);
            let pairs = blocks[to].params.iter().zip(&edge.args);
            let pairs =
                pairs.map(|(p, a)| (place(p, self.values[p.index()].first), place(a, self.values[a.index()].loc)));
            let pairs: SmallVec<[(Reg, Reg); 8]> = pairs.filter(|(d, s)| d != s).collect();
            if pairs.is_empty() {
                continue;
            }
            let home = if targets == 1 { b } else { to };
            let apart = blocks[home].divergent || blocks[b].divergent;
            self.stuck |= apart && pairs.iter().any(|m| is_uniform(m.0.file()));
            let (mut moves, mut new) = (Vec::new(), Vec::new());
            sequence(
                &pairs,
                |_| None,
                |s, step| {
                    moves.push(Inst::new(Op::Sass(s), u32::MAX));
                    new.push(note(step));
                },
            );
            let at = if home == b { blocks[b].insts.len() } else { 0 };
            blocks[home].insts.splice(at..at, moves);
            if let Some(list) = notes.get_mut(home) {
                list.splice(at..at, new);
            }
        }
    }
}

/// The note of an instruction that [`sequence`] makes.
fn note(step: Option<Step>) -> Note {
    parcopy::note(step, 0)
}
