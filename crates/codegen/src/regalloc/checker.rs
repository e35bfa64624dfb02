//! The symbolic checker: proves that the allocated function computes what the one before allocation does.
//!
//! Each register and stack slot is followed along all paths as the set of values (of the input, in SSA form) that it is
//! known to hold; where paths meet only what all agree on is kept. Every operand of every original instruction must
//! then be in a place that holds the value the input names. Knows nothing of how the allocator decides.

use super::spill::Symbols;
use super::{Banks, Note};
use crate::cfg::Cfg;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Op, Term, Vreg};
use diag::{Diagnostic, Severity};
use sass::form::SlotName as S;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

type Set = SmallVec<[u32; 2]>;
const SLOTS: usize = 1024;

struct Checker<'a> {
    before: &'a Func,
    after: &'a Func,
    symbols: &'a Symbols,
    cfg: &'a Cfg,
    notes: &'a [Vec<Note>],
    now: Vec<Set>,
    checking: bool,
    error: Option<String>,
    /// Block and place of the instruction that makes each value of the input.
    made_at: Vec<(u32, u32)>,
    /// By value of the input: it is whatever its register holds.
    undefined: Vec<bool>,
    /// The general registers that values may be assigned.
    usable: [bool; 256],
}

fn place(r: Reg) -> usize {
    (r.file() as usize & 3) << 8 | (r.index() as usize & 255)
}

/// Checks `after`, the allocated form of `before`.
///
/// # Errors
/// The first operand that does not hold its value.
pub fn run(before: &Func, after: &Func, cfg: &Cfg, symbols: &Symbols, notes: &[Vec<Note>]) -> Result<(), Diagnostic> {
    let made_at = made_at(before);
    let slots = notes.iter().flatten().filter_map(|n| match n {
        Note::Store(slot) | Note::Load(slot) => Some(*slot as usize + 1),
        _ => None,
    });
    let places = SLOTS + slots.max().unwrap_or(0);
    let undefined = super::undefined::values(before);
    let now = vec![Set::new(); places];
    let usable = Banks::of(before).usable(File::Gpr);
    let mut c =
        Checker { before, after, symbols, cfg, notes, now, checking: false, error: None, made_at, undefined, usable };
    let n = before.blocks.len();
    let mut entry: Vec<Option<Vec<(u32, u32)>>> = vec![None; n];
    let mut start: Vec<(u32, u32)> = before.live_in.iter().map(|&(v, r)| (place(r) as u32, symbols.get(v))).collect();
    start.sort_unstable();
    entry[0] = Some(start);
    loop {
        let mut changed = false;
        for &b in &cfg.rpo {
            let Some(state) = &entry[b as usize] else { continue };
            c.load(state);
            c.block(b as usize);
            for (i, s) in before.blocks[b as usize].term.successors().into_iter().enumerate() {
                let out = c.over_edge(b as usize, i, s.0 as usize);
                let old = &mut entry[s.0 as usize];
                let new = match old {
                    None => out,
                    Some(old) => old.iter().copied().filter(|x| out.binary_search(x).is_ok()).collect(),
                };
                if old.as_ref().is_none_or(|o| o.len() != new.len()) {
                    *old = Some(new);
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    c.checking = true;
    for &b in &cfg.rpo {
        if let Some(state) = &entry[b as usize] {
            c.load(state);
            c.block(b as usize);
        }
    }
    match c.error {
        // No other attempt is to hide it.
        Some(e) => {
            let message = format!("internal error: register allocation of '{}' is wrong: {e}", before.name);
            Err(Diagnostic::new(Severity::Fatal, message))
        }
        None => Ok(()),
    }
}

/// Where each value is made; (`u32::MAX`, _) for those that no instruction makes.
fn made_at(f: &Func) -> Vec<(u32, u32)> {
    let mut out = vec![(u32::MAX, 0); f.vregs.len()];
    for (b, block) in f.blocks.iter().enumerate() {
        for (i, inst) in block.insts.iter().enumerate() {
            f.defs(&inst.op, |v| out[v.index()] = (b as u32, i as u32));
        }
    }
    out
}

impl Checker<'_> {
    fn load(&mut self, state: &[(u32, u32)]) {
        self.now.iter_mut().for_each(|s| s.clear());
        for &(at, v) in state {
            self.at(at as usize).push(v);
        }
    }

    fn at(&mut self, at: usize) -> &mut Set {
        if self.now.len() <= at {
            self.now.resize(at + 1, Set::new());
        }
        &mut self.now[at]
    }

    fn fail(&mut self, message: String) {
        if self.checking && self.error.is_none() {
            self.error = Some(message);
        }
    }

    fn need(&mut self, r: Reg, symbol: u32, what: impl FnOnce() -> String) {
        if self.checking && !self.at(place(r)).contains(&symbol) {
            let has = self.at(place(r)).clone();
            self.fail(format!("{r} holds {has:?} where value {symbol} is read by {}", what()));
        }
    }

    /// What the source operand of a move holds.
    fn source(&mut self, r: Reg) -> Set {
        let constant = r.is_const() || !matches!(r.file(), File::Gpr) && self.at(place(r)).is_empty();
        let mut set = self.at(place(r)).clone();
        if constant {
            set.push(self.symbols.source(r));
        }
        set
    }

    /// A value is made anew: places that held it from before hold it no longer.
    fn define(&mut self, r: Reg, symbol: u32) {
        for set in &mut self.now {
            set.retain(|s| *s != symbol);
        }
        *self.at(place(r)) = SmallVec::from_slice(&[symbol]);
    }

    fn over_edge(&self, b: usize, nth: usize, s: usize) -> Vec<(u32, u32)> {
        let params = &self.before.blocks[s].params;
        let edges = self.before.blocks[b].term.edges();
        let args: &[Vreg] = edges.get(nth).map_or(&[], |e| &e.args);
        let mut out = Vec::new();
        // What stands for any bits is everywhere.
        let any = |a: &Vreg| self.undefined.get(a.index()) == Some(&true);
        for (p, _) in params.iter().zip(args).filter(|(_, a)| any(a)) {
            let general = (0..256).map(|r| (File::Gpr as usize & 3) << 8 | r);
            out.extend(general.chain(SLOTS..self.now.len()).map(|at| (at as u32, self.symbols.get(*p))));
        }
        for (at, set) in self.now.iter().enumerate() {
            for &v in set {
                // Names of parameters of the target, predicates in general registers included, are made anew.
                let plain = v & !Symbols::ENCODED;
                if !params.iter().any(|p| self.symbols.get(*p) == plain) {
                    out.push((at as u32, v));
                }
                for (p, a) in params.iter().zip(args) {
                    if self.symbols.get(*a) == plain {
                        out.push((at as u32, self.symbols.get(*p) | v & Symbols::ENCODED));
                    }
                }
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    fn block(&mut self, b: usize) {
        let (before, after) = (self.before, self.after);
        // What the only edge into the block gives its parameters: code of the edge may stand in the block.
        let mut given: SmallVec<[(u32, u32); 8]> = SmallVec::new();
        if let [p] = self.cfg.preds[b][..] {
            for e in before.blocks[p as usize].term.edges().iter().filter(|e| e.block.0 as usize == b) {
                let params = before.blocks[b].params.iter().map(|p| self.symbols.get(*p));
                given.extend(params.zip(e.args.iter().map(|a| self.symbols.get(*a))));
            }
        }
        let mut originals = before.blocks[b].insts.iter().filter(|i| !matches!(i.op, Op::Copy(_) | Op::Hold { .. }));
        for (i, (inst, note)) in after.blocks[b].insts.iter().zip(&self.notes[b]).enumerate() {
            match *note {
                Note::Part => {}
                Note::Move(d, s) => *self.at(place(d)) = self.source(s),
                Note::Swap(x, y) => {
                    self.at(place(x).max(place(y)));
                    self.now.swap(place(x), place(y));
                }
                Note::Orig => match originals.next() {
                    Some(o) => self.original(&o.op, &inst.op, b, i),
                    None => self.fail(format!("block {b} has more instructions than before")),
                },
                Note::Store(slot) => {
                    let set = self.operand(&inst.op, S::Rb);
                    *self.at(SLOTS + slot as usize) = set;
                }
                Note::Load(slot) => {
                    let set = self.at(SLOTS + slot as usize).clone();
                    self.put(&inst.op, S::Rd, set);
                }
                Note::Encode => {
                    let set = self.operand(&inst.op, S::Pp).iter().map(|s| s | Symbols::ENCODED).collect();
                    self.put(&inst.op, S::Rd, set);
                }
                Note::Decode => {
                    let set = self.operand(&inst.op, S::Ra);
                    let set = set.iter().filter(|s| *s & Symbols::ENCODED != 0).map(|s| s & !Symbols::ENCODED);
                    self.put(&inst.op, S::Pu, set.collect());
                }
                Note::Again(v) | Note::Anew(v) => {
                    let mut set: Set = SmallVec::from_slice(&[self.symbols.get(v)]);
                    set.extend(given.iter().filter(|g| g.1 == set[0]).map(|g| g.0).collect::<Set>());
                    match note {
                        Note::Again(_) => self.put(&inst.op, S::Rd, set),
                        _ => self.anew(v, set, &inst.op, b, i),
                    }
                }
            }
        }
        if originals.next().is_some() {
            self.fail(format!("block {b} has lost an instruction"));
        }
        match (&before.blocks[b].term, &after.blocks[b].term) {
            (Term::CondBr { cond: x, .. }, Term::CondBr { cond: y, .. }) => {
                self.same(x, y, 1, &|| format!("the branch of block {b}"));
            }
            (Term::Ret(values), _) => {
                for &(v, r) in values {
                    self.need(r, self.symbols.get(v), || format!("the return of block {b}"));
                }
            }
            _ => {}
        }
    }

    fn operand(&mut self, op: &Op, name: S) -> Set {
        match op {
            Op::Sass(s) => s.get(name).and_then(Operand::as_reg).map_or(Set::new(), |r| self.at(place(r)).clone()),
            _ => Set::new(),
        }
    }

    fn put(&mut self, op: &Op, name: S, set: Set) {
        if let Op::Sass(s) = op
            && let Some(r) = s.get(name).and_then(Operand::as_reg)
        {
            *self.at(place(r)) = set;
        }
    }

    /// Operand `y` of the result must hold what operand `x` of the input names.
    fn same(&mut self, x: &Operand, y: &Operand, width: u8, what: &dyn Fn() -> String) {
        if (x.neg, x.abs, x.inv) != (y.neg, y.abs, y.inv) {
            self.fail(format!("modifiers of an operand of {} changed", what()));
        }
        match (x.value, y.value) {
            (Value::Reg(x), Value::Reg(y)) if x.is_virtual() => {
                let mut list: SmallVec<[Vreg; 4]> = SmallVec::new();
                self.before.each_scalar(x, |v| list.push(v));
                for (n, v) in list.into_iter().enumerate() {
                    self.need(y.offset(n as u32), self.symbols.get(v), what);
                }
                if width > 1 && !y.index().is_multiple_of(crate::mir::alignment(width as usize) as u32) {
                    self.fail(format!("{y} is not aligned to {width} registers in {}", what()));
                }
            }
            (x, y) if x != y => self.fail(format!("an operand of {} changed", what())),
            _ => {}
        }
    }

    fn original(&mut self, before: &Op, after: &Op, b: usize, i: usize) {
        match (before, after) {
            (Op::Sass(x), Op::Sass(y)) => self.sass(x, y, b, i),
            (Op::Call(x), Op::Call(y)) => {
                let what = || format!("the call in block {b}");
                for &(v, r) in &x.args {
                    self.need(r, self.symbols.get(v), what);
                }
                for (v, r) in x.target.values().into_iter().zip(y.target.values()) {
                    self.need(Reg::r(r.0 as u8), self.symbols.get(v), what);
                }
                for r in 0..256u32 {
                    if !x.keeps.keeps(r) || y.target.values().iter().any(|t| t.0 == r) {
                        self.at(place(Reg::r(r as u8))).clear();
                    }
                }
                for p in 0..if x.keeps.light() { 0 } else { 7 } {
                    self.at(place(Reg::p(p))).clear();
                }
                for &(v, r) in &x.rets {
                    self.define(r, self.symbols.get(v));
                }
            }
            (Op::LoadIncoming { dst, .. }, _) => {
                let list = &self.after.blocks[b].insts[i + 1 - dst.len()..=i];
                for (v, inst) in dst.iter().zip(list) {
                    let (symbol, op) = (self.symbols.get(*v), &inst.op);
                    if let Op::Sass(s) = op
                        && let Some(r) = s.get(S::Rd).and_then(Operand::as_reg)
                    {
                        self.define(r, symbol);
                    }
                }
            }
            _ => self.fail(format!("an instruction of block {b} became something else")),
        }
    }

    /// A value is computed again: as in the input, from the same values. That what it reads is still what it was then follows
    /// from SSA form, where each definition dominates its reads. `names`: what it is called here.
    fn anew(&mut self, v: Vreg, names: Set, after: &Op, b: usize, i: usize) {
        let (block, place_in) = self.made_at[v.index()];
        let made = self.before.blocks.get(block as usize).map(|x| &x.insts[place_in as usize].op);
        let (Some(Op::Sass(x)), Op::Sass(y)) = (made, after) else {
            return self.fail(format!("a value computed again in block {b} is not computed in the input"));
        };
        self.reads(x, y, b, i);
        let mut to = None;
        sass_defs(x, |p| to = p.slot.filter(|_| p.reg.is_virtual()).or(to));
        match to.and_then(|n| y.operands[n as usize].as_reg()) {
            Some(r) => *self.at(place(r)) = names,
            None => self.fail(format!("a value computed again in block {b} goes nowhere")),
        }
    }

    /// `y` is `x`, and reads what holds the values that `x` names.
    fn reads(&mut self, x: &Sass, y: &Sass, b: usize, i: usize) {
        let what = || format!("`{}` ({} of block {b})", sass::text::print(y, 0, &sass::text::NoLabels), i);
        if x.form != y.form || x.mods != y.mods {
            return self.fail(format!("{} changed", what()));
        }
        let mut places: SmallVec<[Place; 8]> = SmallVec::new();
        sass_uses(x, |p| places.push(p));
        for p in places {
            let (a, c) = match p.slot {
                Some(n) => (&x.operands[n as usize], &y.operands[n as usize]),
                None => (&x.guard, &y.guard),
            };
            self.same(a, c, p.width, &what);
        }
        // Constants and immediates, and what else is no register that is read.
        for (n, (a, c)) in x.operands.iter().zip(&y.operands).enumerate() {
            if !matches!((a.value, c.value), (Value::Reg(_), Value::Reg(_))) {
                self.same(a, c, 1, &|| format!("operand {n} of {}", what()));
            }
        }
    }

    fn sass(&mut self, x: &Sass, y: &Sass, b: usize, i: usize) {
        let what = || format!("`{}` ({} of block {b})", sass::text::print(y, 0, &sass::text::NoLabels), i);
        self.reads(x, y, b, i);
        let mut defs: SmallVec<[Place; 4]> = SmallVec::new();
        sass_defs(x, |p| defs.push(p));
        let mut written: SmallVec<[(Reg, u32); 8]> = SmallVec::new();
        for p in defs {
            let Some(n) = p.slot else { continue };
            let Some(r) = y.operands[n as usize].as_reg() else { continue };
            let mut nth = 0;
            self.before.each_scalar(p.reg, |v| {
                written.push((r.offset(nth), self.symbols.get(v)));
                nth += 1;
            });
        }
        for (k, (r, symbol)) in written.iter().enumerate() {
            if written[..k].iter().any(|w| w.0 == *r) {
                self.fail(format!("{r} is written twice by {}", what()));
            }
            if r.file() == File::Gpr && !r.is_const() && !self.usable[r.index() as usize & 255] {
                self.fail(format!("{r}, which is not for values, is written by {}", what()));
            }
            self.define(*r, *symbol);
        }
    }
}
