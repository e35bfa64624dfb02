//! Spilling, before registers are assigned: makes the pressure of one file fit everywhere.
//!
//! Braun and Hack's extension of Belady's rule to control flow: each block is walked once with the set of values that are
//! in registers; when there are too many, the one whose next use is farthest goes. A value that has to come back is
//! stored once, where it is defined (its definition dominates every reload), or computed again if it is a constant.
//! Predicates go to general registers instead of the stack. Reloads give a value new names; block parameters join them,
//! and those that turn out to join one name only are taken out again.
//!
//! A block parameter that is not in a register at the start of its block lives on the stack there: the edges store it.

use super::{Banks, Note, Stats, prepare};
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op, Term, Vreg};
use diag::Diagnostic;
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

/// Which value of the input each register holds: reloads and carriers of predicates are new names of old values.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    of: Vec<u32>,
}

impl Symbols {
    /// Marks a predicate in a general register.
    pub const ENCODED: u32 = 1 << 31;

    /// Each value is itself; copies are what they copy.
    pub fn new(f: &Func) -> Symbols {
        let mut s = Symbols { of: (0..f.vregs.len() as u32).collect() };
        for &b in &f.cfg().rpo {
            for inst in &f.blocks[b as usize].insts {
                if let Op::Copy(pairs) = &inst.op {
                    for &(d, src) in pairs {
                        s.of[d.index() as usize] = s.source(src);
                    }
                }
            }
        }
        s
    }

    /// The value in a virtual register; constants and physical registers have numbers of their own.
    pub fn source(&self, r: Reg) -> u32 {
        match r.is_virtual() {
            true => self.of[r.index() as usize],
            false => 0x7000_0000 | (r.file() as u32) << 8 | (r.index() & 255),
        }
    }

    /// The value that a name stands for.
    pub fn get(&self, v: Vreg) -> u32 {
        self.of[v.index()]
    }

    fn push(&mut self, symbol: u32) {
        self.of.push(symbol);
    }
}

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
    next: Vec<u32>,
    name: Vec<Vreg>,
    w: Vec<Vreg>,
    in_w: Vec<u32>,
    exit: Vec<Vec<(Vreg, Vreg)>>,
    entry: Vec<Vec<(Vreg, Option<Vreg>)>>,
    /// By block and parameter: on the stack.
    in_memory: Vec<Vec<bool>>,
    /// Slot, or carrier, of each value that has one.
    home: Vec<u32>,
    spilled: Vec<Vreg>,
    again: Vec<Option<Box<Sass>>>,
    slots: u32,
    out: Vec<Inst>,
    notes: Vec<Note>,
    loads: u32,
    loc: u32,
    /// Values reloaded on the edge at hand, with their names.
    edge_names: Vec<(Vreg, Vreg)>,
}

/// Makes `file` fit.
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
    symbols: &mut Symbols,
    notes: &mut [Vec<Note>],
    stats: &mut Stats,
) -> Result<(), Diagnostic> {
    let n = f.vregs.len();
    let blocks = f.blocks.len();
    let gpr = file == File::Gpr;
    let k = (banks.count(file) as usize).saturating_sub(if gpr { super::SPARE } else { 0 });
    let owned = if gpr { crate::registers::owned(f, cfg) } else { Vec::new() };
    let mut s = Spiller {
        cfg,
        live,
        file,
        k,
        banks: *banks,
        symbols,
        dist_in: live.live_in.iter().map(|l| vec![FAR; l.len()]).collect(),
        dist_params: f.blocks.iter().map(|b| vec![FAR; b.params.len()]).collect(),
        next: vec![FAR; n],
        name: (0..n as u32).map(Vreg).collect(),
        w: Vec::new(),
        in_w: vec![0; n],
        exit: vec![Vec::new(); blocks],
        entry: vec![Vec::new(); blocks],
        in_memory: vec![Vec::new(); blocks],
        home: vec![NONE; n],
        spilled: Vec::new(),
        again: vec![None; n],
        slots: 0,
        out: Vec::new(),
        notes: Vec::new(),
        loads: 0,
        loc: u32::MAX,
        edge_names: Vec::new(),
        f,
    };
    s.find_constants();
    s.distances();
    let loop_pressure = s.loop_pressure();
    for i in 0..cfg.rpo.len() {
        // R1 is one of those that threads have.
        let own = owned.get(cfg.rpo[i] as usize).copied();
        s.k = own.map_or(k, |n| k.min(n.saturating_sub(super::SPARE + 1)));
        s.banks.gprs = own.map_or(banks.gprs, |n| banks.gprs.min(n as u32));
        s.block(cfg.rpo[i], &loop_pressure, notes)?;
    }
    s.edges(notes);
    s.stores(notes, stats);
    s.drop_single_joins();
    if gpr {
        s.f.frame.fixed = s.f.frame.fixed.next_multiple_of(4) + 4 * s.slots;
        stats.spilled += s.spilled.len() as u32;
        stats.spill_loads += 4 * s.loads;
    }
    Ok(())
}

impl Spiller<'_> {
    fn mine(&self, v: Vreg) -> bool {
        self.f.vregs[v.index()] == self.file
    }

    fn new_name(&mut self, file: File, symbol: u32) -> Vreg {
        self.symbols.push(symbol);
        self.f.new_vreg(file)
    }

    /// Values that are cheaper to compute again than to keep: constants, parameters, identifiers of the thread.
    fn find_constants(&mut self) {
        if self.file != File::Gpr {
            return;
        }
        for &b in &self.cfg.rpo {
            for inst in &self.f.blocks[b as usize].insts {
                let Op::Sass(s) = &inst.op else { continue };
                if s.guard != Operand::reg(Reg::PT) {
                    continue;
                }
                let zero = |name| s.get(name).and_then(Operand::as_reg).is_none_or(|r| r == Reg::RZ);
                let constant = match s.form {
                    F::MOV_I => true,
                    F::MOV_R => zero(S::Rb),
                    F::LDC => zero(S::Ra) && s.modifier(M::Mode) == 0,
                    F::S2R => s.form().class == Class::SpecialReg && stable_register(s),
                    _ => false,
                };
                let Some(rd) = s.get(S::Rd).and_then(Operand::as_reg).filter(|r| constant && r.is_virtual()) else {
                    continue;
                };
                let width = s.slot(S::Rd).map_or(1, |i| s.slot_width(i));
                if width == 1 {
                    self.again[rd.index() as usize] = Some(Box::new(s.clone()));
                } else if s.form == F::LDC && width == 2 {
                    for (n, v) in self.f.vecs[rd.index() as usize].clone().into_iter().enumerate() {
                        let mut word = s.clone().with_mod(M::Size, enums::constsize::B32);
                        if let Some(i) = word.slot(S::Const)
                            && let Value::Const { bank, offset } = word.operands[i].value
                        {
                            word.operands[i].value = Value::Const { bank, offset: offset + 4 * n as i32 };
                        }
                        self.again[v.index()] = Some(Box::new(word));
                    }
                }
            }
        }
    }

    // ---- distances --------------------------------------------------------------------------------------------------

    /// Sets `next` of everything in the block to the distance from its end.
    fn reset(&mut self, b: usize) {
        let f = &*self.f;
        let next = &mut self.next;
        let end = f.blocks[b].insts.len() as u32 + 1;
        for inst in &f.blocks[b].insts {
            f.defs(&inst.op, |v| next[v.index()] = FAR);
        }
        f.blocks[b].params.iter().for_each(|v| next[v.index()] = FAR);
        if b == 0 {
            f.live_in.iter().for_each(|v| next[v.0.index()] = FAR);
        }
        self.live.live_in[b].iter().chain(&self.live.live_out[b]).for_each(|v| next[v.index()] = FAR);
        let edges = f.blocks[b].term.edges();
        for (n, s) in f.blocks[b].term.successors().into_iter().enumerate() {
            let s = s.0 as usize;
            let leave = f.blocks[b].depth.saturating_sub(f.blocks[s].depth) * LEAVE;
            let add = |d: u32| d.saturating_add(end).saturating_add(leave);
            for (v, &d) in self.live.live_in[s].iter().zip(&self.dist_in[s]) {
                next[v.index()] = next[v.index()].min(add(d));
            }
            if let Some(e) = edges.get(n) {
                for (v, &d) in e.args.iter().zip(&self.dist_params[s]) {
                    next[v.index()] = next[v.index()].min(add(d));
                }
            }
        }
        let next = &mut self.next;
        self.f.term_uses(&self.f.blocks[b].term, |v| next[v.index()] = end - 1);
    }

    fn distances(&mut self) {
        for _ in 0..8 {
            let mut changed = false;
            for i in (0..self.cfg.rpo.len()).rev() {
                let b = self.cfg.rpo[i] as usize;
                self.reset(b);
                let (f, next) = (&*self.f, &mut self.next);
                for (i, inst) in f.blocks[b].insts.iter().enumerate().rev() {
                    f.uses(&inst.op, |v| next[v.index()] = i as u32);
                }
                for (v, d) in self.live.live_in[b].iter().zip(&mut self.dist_in[b]) {
                    changed |= *d != next[v.index()];
                    *d = next[v.index()];
                }
                for (v, d) in f.blocks[b].params.iter().zip(&mut self.dist_params[b]) {
                    changed |= *d != next[v.index()];
                    *d = next[v.index()];
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Largest pressure in each loop, by header block; `None` elsewhere.
    fn loop_pressure(&self) -> Vec<Option<usize>> {
        let n = self.f.blocks.len();
        let mut by_block = vec![0usize; n];
        let mut alive = vec![NONE; self.f.vregs.len()];
        for &b in &self.cfg.rpo {
            let mut now = 0usize;
            let mut max = 0usize;
            let f = &*self.f;
            let enter = |v: Vreg, now: &mut usize, alive: &mut Vec<u32>| {
                if f.vregs[v.index()] == self.file && alive[v.index()] != b {
                    alive[v.index()] = b;
                    *now += 1;
                }
            };
            let block = &f.blocks[b as usize];
            self.live.live_out[b as usize].iter().for_each(|&v| enter(v, &mut now, &mut alive));
            f.term_uses(&block.term, |v| enter(v, &mut now, &mut alive));
            for e in block.term.edges() {
                e.args.iter().for_each(|&v| enter(v, &mut now, &mut alive));
            }
            max = max.max(now);
            for inst in block.insts.iter().rev() {
                f.defs(&inst.op, |v| {
                    if f.vregs[v.index()] == self.file && alive[v.index()] == b {
                        alive[v.index()] = NONE;
                        now -= 1;
                    }
                });
                f.uses(&inst.op, |v| enter(v, &mut now, &mut alive));
                max = max.max(now);
            }
            by_block[b as usize] = max;
        }
        let mut out = vec![None; n];
        for (header, members) in self.cfg.loops(&self.cfg.dominators()).members {
            out[header as usize] = members.iter().map(|&m| by_block[m as usize]).max();
        }
        out
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

    /// Evicts values until `limit` are left.
    fn limit(&mut self, limit: usize, keep: &[Vreg]) -> Result<(), Diagnostic> {
        while self.w.len() > limit {
            let far = self.w.iter().copied().filter(|v| !keep.contains(v)).max_by_key(|v| (self.next[v.index()], v.0));
            let Some(v) = far else {
                return Err(Diagnostic::error(format!(
                    "function '{}': an instruction needs more registers than the limit of {} leaves",
                    self.f.name, self.f.max_gprs
                )));
            };
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
                self.slots += 1;
                self.slots - 1
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
        let symbol = self.symbols.get(v);
        let n = self.new_name(self.file, symbol);
        let r = self.f.reg(n);
        if let Some(s) = self.again[v.index()].clone() {
            self.emit(s.with(S::Rd, r), Note::Again(v));
            return n;
        }
        let home = self.home(v);
        self.loads += 1;
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

    fn block(&mut self, b: u32, loops: &[Option<usize>], notes: &mut [Vec<Note>]) -> Result<(), Diagnostic> {
        let bi = b as usize;
        self.reset(bi);
        let insts = std::mem::take(&mut self.f.blocks[bi].insts);
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
        self.enter(b, loops);
        if b == 0 {
            for (v, _) in self.f.live_in.clone() {
                if self.mine(v) && self.next[v.index()] != FAR {
                    self.insert(v);
                }
            }
            self.limit(self.k, &[])?;
        }
        for ((i, inst), note) in insts.into_iter().enumerate().zip(old) {
            self.loc = inst.loc;
            self.inst(i, inst, note, &mut later)?;
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
        let wanted = |v: &Vreg, a: &Self| {
            a.live.live_out[bi].binary_search(v).is_ok() || term.edges().iter().any(|e| e.args.contains(v))
        };
        let mut exit: Vec<(Vreg, Vreg)> =
            self.w.iter().filter(|v| wanted(v, self)).map(|&v| (v, self.name[v.index()])).collect();
        exit.sort_unstable();
        self.exit[bi] = exit;
        self.f.blocks[bi].term = term;
        self.f.blocks[bi].insts = std::mem::take(&mut self.out);
        notes[bi] = std::mem::take(&mut self.notes);
        Ok(())
    }

    /// Chooses what is in registers at the start of the block, and gives it names.
    fn enter(&mut self, b: u32, loops: &[Option<usize>]) {
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
        // (class, next use, value, parameter)
        let mut list: Vec<(u8, u32, Vreg, bool)> = Vec::new();
        for &v in self.live.live_in[bi].iter().filter(|v| self.mine(**v)) {
            let count = done.iter().filter(|&&p| has(p, v, self)).count();
            let class = if back { 0 } else { 2 - (count > 0) as u8 - (count == done.len()) as u8 };
            list.push((class, self.next[v.index()], v, false));
        }
        for (n, &p) in params.iter().enumerate().filter(|(_, p)| self.mine(**p)) {
            let mut count = 0;
            for &d in &done {
                let term = &self.f.blocks[d].term;
                let arg = term.edges().iter().find(|e| e.block.0 == b).map(|e| e.args[n]);
                count += arg.is_some_and(|a| has(d, a, self)) as usize;
            }
            let class = if back { 0 } else { 2 - (count > 0) as u8 - (count == done.len()) as u8 };
            list.push((class, self.next[p.index()], p, true));
        }
        list.sort_unstable();
        list.retain(|x| x.0 < 2);
        let mut room = self.k;
        if back {
            // First what the loop uses; of what only lives through it, as much as leaves the loop enough.
            let through = list.iter().filter(|x| x.1 >= LEAVE).count();
            let used = list.len() - through;
            let pressure = loops[bi].unwrap_or(self.k + through);
            let inside = pressure.saturating_sub(through);
            room = room.min(used + self.k.saturating_sub(inside.max(used)));
        }
        list.truncate(room);
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
            let find = |p: usize, a: &Self| a.exit[p].binary_search_by_key(&v, |x| x.0).ok().map(|i| a.exit[p][i].1);
            let first = done.first().and_then(|&p| find(p, self));
            let same = first.filter(|&n| !back && done.iter().all(|&p| find(p, self) == Some(n)));
            let join = match same {
                Some(n) => {
                    self.name[v.index()] = n;
                    None
                }
                None => {
                    let symbol = self.symbols.get(v);
                    let n = self.new_name(self.file, symbol);
                    self.name[v.index()] = n;
                    Some(n)
                }
            };
            entry.push((v, join));
            self.insert(v);
        }
        self.entry[bi] = entry;
    }

    /// Brings values into registers.
    fn bring(&mut self, used: &[Vreg]) -> Result<(), Diagnostic> {
        for &v in used {
            if self.in_w[v.index()] == 0 {
                self.insert(v);
                self.limit(self.k, used)?;
                self.name[v.index()] = self.reload(v);
            }
        }
        Ok(())
    }

    fn inst(&mut self, i: usize, mut inst: Inst, note: Note, later: &mut Vec<(Vreg, u32)>) -> Result<(), Diagnostic> {
        let mut used: SmallVec<[Vreg; 16]> = SmallVec::new();
        let mut defs: SmallVec<[Vreg; 8]> = SmallVec::new();
        let mut count = 0;
        self.f.uses(&inst.op, |v| {
            count += 1;
            if !used.contains(&v) {
                used.push(v);
            }
        });
        self.f.defs(&inst.op, |v| {
            count += 1;
            defs.push(v);
        });
        used.retain(|v| self.f.vregs[v.index()] == self.file);
        defs.retain(|v| self.f.vregs[v.index()] == self.file);
        self.bring(&used)?;
        for _ in 0..count {
            if let Some((v, n)) = later.pop() {
                self.next[v.index()] = n;
            }
        }
        let vectors = matches!(&inst.op, Op::Sass(s) if prepare::has_vectors(s));
        if vectors && self.file == File::Gpr {
            let new = defs.len().saturating_sub(self.in_place(&inst));
            self.limit(self.k.saturating_sub(new), &used)?;
        }
        self.rename_inst(&mut inst);
        for &v in &used {
            if self.next[v.index()] == FAR {
                self.remove(v);
            }
        }
        if let Op::Call(c) = &inst.op {
            let extra = if self.file == File::Gpr { c.args.len() + 4 } else { 0 };
            let most = if self.file == File::Gpr { self.banks.across(c) as usize } else { 0 };
            self.limit(most.min(self.k.saturating_sub(extra)), &[])?;
        }
        self.limit(self.k.saturating_sub(defs.len()), &[])?;
        for &v in &defs {
            self.name[v.index()] = v;
            if self.next[v.index()] != FAR {
                self.insert(v);
            }
        }
        let _ = i;
        self.out.push(inst);
        self.notes.push(note);
        Ok(())
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

    fn rename(&mut self, o: &mut Operand, width: u8) {
        let Value::Reg(reg) = o.value else { return };
        if !reg.is_virtual() || reg.file() != self.file {
            return;
        }
        if width == 1 {
            o.value = Value::Reg(self.f.reg(self.name[reg.index() as usize]));
            return;
        }
        let list = &self.f.vecs[reg.index() as usize];
        if list.iter().any(|v| self.name[v.index()] != *v) {
            let new: SmallVec<[Vreg; 4]> = list.iter().map(|v| self.name[v.index()]).collect();
            o.value = Value::Reg(self.f.vector(&new));
        }
    }

    fn rename_inst(&mut self, inst: &mut Inst) {
        match &mut inst.op {
            Op::Sass(s) => {
                let mut places: SmallVec<[Place; 8]> = SmallVec::new();
                sass_uses(s, |p| places.push(p));
                for p in places {
                    match p.slot {
                        Some(n) => self.rename(&mut s.operands[n as usize], p.width),
                        None => self.rename(&mut s.guard, 1),
                    }
                }
            }
            Op::Copy(pairs) => {
                for (_, s) in pairs {
                    if s.is_virtual() && s.file() == self.file {
                        *s = self.f.reg(self.name[s.index() as usize]);
                    }
                }
            }
            Op::Call(c) => {
                for a in &mut c.args {
                    if self.f.vregs[a.0.index()] == self.file {
                        a.0 = self.name[a.0.index()];
                    }
                }
                for v in c.target.values_mut() {
                    if self.f.vregs[v.index()] == self.file {
                        *v = self.name[v.index()];
                    }
                }
            }
            Op::LoadIncoming { .. } => {}
        }
    }

    // ---- edges ------------------------------------------------------------------------------------------------------

    fn edges(&mut self, notes: &mut [Vec<Note>]) {
        let blocks = self.f.blocks.len();
        for bi in (0..blocks).filter(|&b| self.cfg.reachable(b as u32)) {
            let mut term = std::mem::replace(&mut self.f.blocks[bi].term, Term::Unreachable);
            let single = term.successors().len() == 1;
            for e in term.edges_mut() {
                let si = e.block.0 as usize;
                let mut args = Vec::new();
                let old = std::mem::take(&mut e.args);
                let mut stack: Vec<(u32, Vreg)> = Vec::new();
                for (n, &a) in old.iter().enumerate() {
                    if self.in_memory[si][n] {
                        let p = self.f.blocks[si].params[n];
                        stack.push((self.home[p.index()], a));
                    }
                }
                let joins: Vec<Vreg> = self.entry[si].iter().filter(|x| x.1.is_some()).map(|x| x.0).collect();
                let mut carried = Vec::new();
                let mut waiting = Vec::new();
                if self.file == File::Gpr {
                    // Stores first, while nothing has been reloaded for the next block; but what a reload still reads
                    // is written after it, by way of a slot of its own.
                    let mut read: Vec<u32> = joins.iter().map(|v| self.home[v.index()]).collect();
                    let in_register = |n: &usize| !self.in_memory[si][*n];
                    read.extend((0..old.len()).filter(in_register).map(|n| self.home[old[n].index()]));
                    for (slot, a) in &mut stack {
                        if read.contains(slot) && self.home[a.index()] != *slot {
                            self.slots += 1;
                            waiting.push((*slot, self.slots - 1));
                            *slot = self.slots - 1;
                        }
                    }
                    self.stack_copies(bi, stack);
                } else {
                    carried.extend(stack.into_iter().map(|(_, a)| Vreg(self.home(a))));
                }
                for (n, &a) in old.iter().enumerate() {
                    let p = self.f.blocks[si].params[n];
                    if !self.mine(p) {
                        args.push(a);
                    } else if !self.in_memory[si][n] {
                        let v = self.on_edge(bi, a);
                        args.push(v);
                    }
                }
                for v in joins {
                    let v = self.on_edge(bi, v);
                    args.push(v);
                }
                self.edge_names.clear();
                for (slot, from) in waiting {
                    let n = self.load_slot(from);
                    let (store, note) = self.store(n, slot);
                    self.emit(store, note);
                }
                args.extend(carried);
                e.args = args;
                let (code, new) = (std::mem::take(&mut self.out), std::mem::take(&mut self.notes));
                let (home, at) = if single { (bi, self.f.blocks[bi].insts.len()) } else { (si, 0) };
                self.f.blocks[home].insts.splice(at..at, code);
                notes[home].splice(at..at, new);
            }
            self.f.blocks[bi].term = term;
        }
        // The parameters, in the order of the arguments above.
        for bi in 0..blocks {
            if !self.cfg.reachable(bi as u32) {
                continue;
            }
            let mut params = Vec::new();
            let mut carriers = Vec::new();
            for (n, &p) in self.f.blocks[bi].params.iter().enumerate() {
                match self.in_memory[bi].get(n) {
                    Some(true) if self.file == File::Gpr => {}
                    Some(true) => carriers.push(Vreg(self.home[p.index()])),
                    _ => params.push(p),
                }
            }
            params.extend(self.entry[bi].iter().filter_map(|x| x.1));
            params.extend(carriers);
            self.f.blocks[bi].params = params;
        }
    }

    /// The name of a value at the end of a block, reloaded there if need be.
    fn on_edge(&mut self, b: usize, v: Vreg) -> Vreg {
        match self.exit[b].binary_search_by_key(&v, |x| x.0) {
            Ok(i) => self.exit[b][i].1,
            Err(_) => match self.edge_names.iter().find(|x| x.0 == v) {
                Some(x) => x.1,
                None => {
                    let n = self.reload(v);
                    self.edge_names.push((v, n));
                    n
                }
            },
        }
    }

    /// Emits a load of a stack slot.
    fn load_slot(&mut self, slot: u32) -> Vreg {
        let n = self.new_name(File::Gpr, 0);
        let at = Operand::imm(self.slot_offset(slot));
        let load = Sass::new(F::LDL).with(S::Rd, self.f.reg(n)).with(S::Ra, Reg::r(1)).with(S::Imm, at);
        self.emit(load, Note::Load(slot));
        self.loads += 1;
        n
    }

    /// Stores the arguments of parameters that live on the stack, all at once.
    fn stack_copies(&mut self, b: usize, list: Vec<(u32, Vreg)>) {
        #[derive(Clone, Copy, PartialEq)]
        enum From {
            Name(Vreg),
            Again(Vreg),
            Slot(u32),
        }
        let mut todo: Vec<(u32, From)> = Vec::new();
        for (slot, a) in list {
            let from = match self.exit[b].binary_search_by_key(&a, |x| x.0) {
                Ok(i) => From::Name(self.exit[b][i].1),
                Err(_) if self.again[a.index()].is_some() => From::Again(a),
                Err(_) => From::Slot(self.home(a)),
            };
            if from != From::Slot(slot) {
                todo.push((slot, from));
            }
        }
        while !todo.is_empty() {
            let ready = (0..todo.len()).find(|&i| todo.iter().all(|t| t.1 != From::Slot(todo[i].0)));
            let Some(i) = ready else {
                // A cycle: one value waits in a register.
                let slot = todo[0].0;
                let n = self.load_slot(slot);
                todo.iter_mut().filter(|t| t.1 == From::Slot(slot)).for_each(|t| t.1 = From::Name(n));
                continue;
            };
            let (slot, from) = todo.remove(i);
            let name = match from {
                From::Name(n) => n,
                From::Again(a) => self.reload(a),
                From::Slot(from) => self.load_slot(from),
            };
            let (store, note) = self.store(name, slot);
            self.emit(store, note);
        }
    }

    /// Stores every value that is reloaded somewhere, where it is defined.
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
            let mut todo = first;
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
            put(self, &mut todo);
            for (inst, note) in insts.into_iter().zip(old) {
                self.loc = inst.loc;
                self.f.defs(&inst.op, |v| {
                    if is(v) {
                        todo.push(v);
                    }
                });
                self.out.push(inst);
                self.notes.push(note);
                put(self, &mut todo);
            }
            self.f.blocks[bi].insts = std::mem::take(&mut self.out);
            *notes = std::mem::take(&mut self.notes);
        }
    }

    /// Takes out the parameters made here whose arguments are all one value.
    fn drop_single_joins(&mut self) {
        let n = self.f.vregs.len();
        let mut is: Vec<Vreg> = (0..n as u32).map(Vreg).collect();
        fn find(is: &mut [Vreg], v: Vreg) -> Vreg {
            let mut x = v;
            while is[x.index()] != x {
                is[x.index()] = is[is[x.index()].index()];
                x = is[x.index()];
            }
            x
        }
        let mut made = vec![false; n];
        for list in &self.entry {
            list.iter().filter_map(|x| x.1).for_each(|p| made[p.index()] = true);
        }
        let mut dropped = false;
        loop {
            let mut changed = false;
            // One value, seen over all edges into a block, for each parameter.
            let mut seen: Vec<Vec<Option<Vreg>>> = self.f.blocks.iter().map(|b| vec![None; b.params.len()]).collect();
            let mut mixed: Vec<Vec<bool>> = self.f.blocks.iter().map(|b| vec![false; b.params.len()]).collect();
            for b in 0..self.f.blocks.len() {
                if !self.cfg.reachable(b as u32) {
                    continue;
                }
                for e in self.f.blocks[b].term.edges() {
                    let s = e.block.0 as usize;
                    for (k, &a) in e.args.iter().enumerate() {
                        let p = self.f.blocks[s].params[k];
                        if !made[p.index()] {
                            continue;
                        }
                        let a = find(&mut is, a);
                        if a == p {
                            continue;
                        }
                        match seen[s][k] {
                            None => seen[s][k] = Some(a),
                            Some(x) if x == a => {}
                            _ => mixed[s][k] = true,
                        }
                    }
                }
            }
            let mut drop_at: Vec<Vec<usize>> = vec![Vec::new(); self.f.blocks.len()];
            for s in 0..self.f.blocks.len() {
                for k in (0..seen[s].len()).rev() {
                    let p = self.f.blocks[s].params[k];
                    if let Some(a) = seen[s][k]
                        && made[p.index()]
                        && !mixed[s][k]
                    {
                        let a = find(&mut is, a);
                        if a == p {
                            continue;
                        }
                        is[p.index()] = a;
                        drop_at[s].push(k);
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
            dropped = true;
            for (block, drop) in self.f.blocks.iter_mut().zip(&drop_at) {
                for &k in drop {
                    block.params.remove(k);
                }
            }
            for b in 0..self.f.blocks.len() {
                if self.cfg.reachable(b as u32) {
                    for e in self.f.blocks[b].term.edges_mut() {
                        for &k in &drop_at[e.block.0 as usize] {
                            e.args.remove(k);
                        }
                    }
                }
            }
        }
        if !dropped {
            return;
        }
        for list in &mut self.f.vecs {
            list.iter_mut().for_each(|v| *v = find(&mut is, *v));
        }
        for b in &mut self.f.blocks {
            for inst in &mut b.insts {
                substitute(&mut inst.op, &mut |v| find(&mut is, v));
            }
            match &mut b.term {
                Term::CondBr { cond: Operand { value: Value::Reg(r), .. }, .. } if r.is_virtual() => {
                    *r = Reg::virt(r.file(), find(&mut is, Vreg(r.index())).0);
                }
                Term::Ret(values) => values.iter_mut().for_each(|v| v.0 = find(&mut is, v.0)),
                _ => {}
            }
            for e in b.term.edges_mut() {
                e.args.iter_mut().for_each(|v| *v = find(&mut is, *v));
            }
        }
    }
}

/// Renames the scalars that stand in operands directly (not in the pool of vectors).
fn substitute(op: &mut Op, to: &mut impl FnMut(Vreg) -> Vreg) {
    match op {
        Op::Sass(s) => {
            let mut places: SmallVec<[Place; 8]> = SmallVec::new();
            sass_uses(s, |p| places.push(p));
            sass_defs(s, |p| places.push(p));
            for p in places.into_iter().filter(|p| p.width == 1 && p.reg.is_virtual()) {
                let r = Value::Reg(Reg::virt(p.reg.file(), to(Vreg(p.reg.index())).0));
                match p.slot {
                    Some(n) => s.operands[n as usize].value = r,
                    None => s.guard.value = r,
                }
            }
        }
        Op::Copy(pairs) => {
            for (_, s) in pairs.iter_mut().filter(|p| p.1.is_virtual()) {
                *s = Reg::virt(s.file(), to(Vreg(s.index())).0);
            }
        }
        Op::Call(c) => {
            c.args.iter_mut().for_each(|a| a.0 = to(a.0));
            c.target.values_mut().into_iter().for_each(|v| *v = to(*v));
        }
        Op::LoadIncoming { .. } => {}
    }
}

/// Special registers that never change while a thread runs.
fn stable_register(s: &Sass) -> bool {
    use enums::sr;
    let Some(Value::Imm(n)) = s.get(S::Sr).map(|o| o.value) else { return false };
    [sr::LANEID, sr::TID_X, sr::TID_Y, sr::TID_Z, sr::CTAID_X, sr::CTAID_Y, sr::CTAID_Z].contains(&(n as u8))
        || (sr::EQMASK as i64..=sr::GEMASK as i64).contains(&n)
}
