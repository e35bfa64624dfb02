//! Short sides of branches become straight code before anything is ordered, so that loads under different conditions are under way together, and what stands
//! before a question waits neither for it nor in registers until it has been answered.
//!
//! Runs on SSA form. A block that branches to one or two short blocks which meet again at once takes them in: what has no effect is
//! computed in any case, accesses stand under their side of the condition, and the meeting place becomes part of the block where
//! nothing else leads to it. What the other side gives where it does not load is most often a constant: such a load is told so
//! ([`Inst::other`]), and [`clear`] puts that into its registers once they are known. Other choices become selections, a few at
//! most; where the value of a selection is read by nothing else, [`crate::sched::select`] has it computed under the condition after all. What
//! [`crate::ifconvert`] does after register assignment stays to it: sides with what is dear, or writes predicates that are read behind them.

use crate::ifconvert::{barrier_at, opened, predecessors};
use crate::mir::operands::{Place, names_physical, sass_defs, sass_uses};
use crate::mir::{BlockId, Edge, Func, Inst, Op, Term, Vreg};
use crate::regalloc::undefined::{self, made};
use crate::sched::order::movable;
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::latency::Class;
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// Most instructions on one side, as in [`crate::ifconvert`].
const MOST: usize = 10;
/// The same, where loads from far memory stand behind the meeting place: what they ask for is under way meanwhile.
const LONG: usize = 24;
/// Instructions of a block that are moved into another one at once; more wait until all is done, else a chain of blocks would be moved at each of its joints.
const MOVED: usize = 64;
/// Most selections that one meeting place may need.
const SELECTIONS: usize = 8;

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f.blocks.iter().any(|b| matches!(b.term, Term::CondBr { .. })) {
        return;
    }
    let mut pass = Pass {
        preds: predecessors(f),
        undefined: undefined(f),
        constant: constants(f),
        to: (0..f.vregs.len() as u32).map(Vreg).collect(),
        tails: vec![Vec::new(); f.blocks.len()],
    };
    let mut changed = Vec::new();
    // Inner branches stand later.
    for a in (0..f.blocks.len()).rev() {
        while let Some(found) = pass.candidate(f, a) {
            pass.apply(f, a, found);
            changed.push(a as u32);
        }
    }
    if !changed.is_empty() {
        // What was taken in since is empty.
        changed.dedup();
        (0..f.blocks.len()).for_each(|b| pass.gather(f, b));
        crate::sched::once::find(f, &changed, &mut pass.to);
        pass.rename(f);
        // Zeros that only the sides without a load gave.
        crate::sched::dead::run(f);
    }
}

/// By value: the program has not made it.
fn undefined(f: &Func) -> Vec<bool> {
    let mut out = vec![false; f.vregs.len()];
    f.blocks.iter().flat_map(|b| &b.insts).filter_map(made).for_each(|v| out[v.index()] = true);
    out
}

/// By value: the constant that it is.
fn constants(f: &Func) -> Vec<Option<u32>> {
    let mut out = vec![None; f.vregs.len()];
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        let Op::Sass(s) = &inst.op else { continue };
        let k = match s.get(S::Rb).map(|o| o.value) {
            Some(Value::Reg(Reg::RZ)) if s.form == F::MOV_R => Some(0),
            // What a linker knows is a number beyond words.
            Some(Value::Imm(k)) if s.form == F::MOV_I => word(k.get()),
            _ => None,
        };
        if k.is_some() && s.guard == Operand::reg(Reg::PT) {
            f.defs(&inst.op, |v| out[v.index()] = k);
        }
    }
    out
}

/// The word that a number is, with a sign or without.
fn word(k: i64) -> Option<u32> {
    (i64::from(k as u32) == k || i64::from(k as i32) == k).then_some(k as u32)
}

/// How the sides give one parameter of the meeting place.
enum Given {
    /// This value, whatever the condition.
    Same(Vreg),
    /// What a guarded load gives, and a constant where it does not happen: side, value, constant.
    Loaded(usize, Vreg, u32),
    /// The first where the condition is true.
    Selected(Vreg, Vreg),
}

struct Found {
    /// When the condition is true, and when it is false: the block, unless that is the meeting place.
    sides: [Option<BlockId>; 2],
    join: BlockId,
    cond: Operand,
    given: Vec<Given>,
}

struct Pass {
    preds: Vec<u32>,
    /// By value: the program has not made it.
    undefined: Vec<bool>,
    /// By value: the constant that it is.
    constant: Vec<Option<u32>>,
    /// What each value became.
    to: Vec<Vreg>,
    /// By block: instructions that come behind its own, in parts, the last part first. Blocks with tails have instructions of their own, and more than [`MOVED`].
    tails: Vec<Vec<Vec<Inst>>>,
}

/// An access that may stand under a guard.
pub fn access(s: &Sass) -> bool {
    let form = s.form();
    let e = form.effects;
    let known = matches!(form.mnemonic, "LDG" | "LDS" | "LDL" | "LD" | "STG" | "STS" | "STL" | "ST" | "LDGSTS");
    let mut plain = true;
    sass_defs(s, |p| plain &= p.reg.is_const() || p.reg.is_virtual() && p.reg.file() == File::Gpr);
    known && plain && !e.flow && !e.sync && !e.cross_lane && !form.uniform_guard
}

/// What asks the bulk engine or a barrier in shared memory for something, and tells the program nothing: it may stand under a guard, too. What the engine is
/// asked for by a warp as a whole stands under a predicate of the warp: that some thread here takes the side.
pub fn asks(s: &Sass) -> bool {
    let known = matches!(
        s.form().mnemonic,
        "SYNCS" | "UTMALDG" | "UTMASTG" | "UTMAREDG" | "UTMAPF" | "UBLKCP" | "UBLKRED" | "UBLKPF"
    );
    let mut silent = true;
    sass_defs(s, |p| silent &= p.reg.is_const());
    known && silent
}

/// True if the instruction may stand in the block before the branch, guarded if it is an access, asks, or reads the register of a thread for the warp.
fn fits(i: &Inst) -> bool {
    if let Op::Copy(pairs) = &i.op {
        let plain = |r: Reg| r.is_virtual() && r.file() == File::Gpr;
        return pairs.iter().all(|&(d, s)| plain(d) && plain(s));
    }
    let Op::Sass(s) = &i.op else { return false };
    // A constant that is looked up may lie outside of its bank.
    let looked_up = matches!(s.form().mnemonic, "LDC" | "ULDC")
        && s.get(S::Ra).and_then(Operand::as_reg).is_some_and(|r| !r.is_const());
    let free = s.guard == Operand::reg(Reg::PT) || s.guard == Operand::reg(Reg::UPT);
    free && (access(s)
        || undefined::is(s)
        || (movable(s) || shared(s)) && !looked_up
        || slow(s)
        || asks(s)
        || s.form == F::R2UR)
}

/// Arithmetic that takes longer than other: it is no dearer for the threads that do not want it.
fn slow(s: &Sass) -> bool {
    let form = s.form();
    let e = form.effects;
    let registers = s.registers();
    matches!(form.class, Class::Xu | Class::Pack)
        && !(e.flow || e.sync || e.cross_lane || e.load || e.store)
        && !names_physical(s, registers.reads | registers.writes, true)
}

/// Arithmetic of a warp in uniform registers.
pub fn shared(s: &Sass) -> bool {
    let form = s.form();
    let e = form.effects;
    let registers = s.registers();
    matches!(form.class, Class::Uniform | Class::UniformMove | Class::UniformConst)
        && !(e.flow || e.sync || e.cross_lane || e.store)
        && !names_physical(s, registers.reads | registers.writes, true)
}

/// What a value is a copy of, by the copies of a side.
fn origin(insts: &[Inst], v: Vreg) -> Vreg {
    let mut v = v;
    for inst in insts.iter().rev() {
        if let Op::Copy(pairs) = &inst.op
            && let Some((_, s)) = pairs.iter().find(|(d, _)| d.index() == v.0)
        {
            v = Vreg(s.index());
        }
    }
    v
}

/// True where sides that meet in a block meet before loads from far memory: in the block, or in the only one that it goes on to, as where it waits for an outer branch.
fn loads_behind(f: &Func, join: BlockId) -> bool {
    let far = |i: &Inst| matches!(&i.op, Op::Sass(s) if matches!(s.form().mnemonic, "LDG" | "LD"));
    let block = &f.blocks[join.0 as usize];
    let behind = match &block.term {
        Term::Br(e) => &f.blocks[e.block.0 as usize].insts[..],
        _ => &[],
    };
    block.insts.iter().chain(behind).any(far)
}

impl Pass {
    /// The edge that a side goes on by, if the side is short, entered from here only, and may be taken in.
    fn side<'a>(&self, f: &'a Func, b: BlockId) -> Option<&'a Edge> {
        let block = &f.blocks[b.0 as usize];
        let Term::Br(e) = &block.term else { return None };
        let most = if block.insts.len() > MOST && loads_behind(f, e.block) { LONG } else { MOST };
        let few = block.insts.len() <= most && self.tails[b.0 as usize].is_empty();
        let short = self.preds[b.0 as usize] == 1 && block.params.is_empty() && few;
        (short && block.insts.iter().all(fits)).then_some(e)
    }

    /// Branches that block `a` may take in; then it has no tails.
    fn candidate(&mut self, f: &mut Func, a: usize) -> Option<Found> {
        if !self.tails[a].is_empty() {
            let Term::CondBr { then, els, .. } = &f.blocks[a].term else { return None };
            if self.side(f, then.block).is_none() && self.side(f, els.block).is_none() {
                return None;
            }
            self.gather(f, a);
        }
        self.found(f, a)
    }

    fn found(&self, f: &Func, a: usize) -> Option<Found> {
        let Term::CondBr { cond, then, els } = &f.blocks[a].term else { return None };
        cond.as_reg().filter(|r| r.file() == File::Pred && r.is_virtual())?;
        if then.block == els.block {
            return None;
        }
        let (t, e) = (self.side(f, then.block), self.side(f, els.block));
        let (sides, edges) = match (t, e) {
            (Some(x), Some(y)) if x.block == y.block => ([Some(then.block), Some(els.block)], [x, y]),
            (Some(x), _) if x.block == els.block => ([Some(then.block), None], [x, els]),
            (_, Some(y)) if y.block == then.block => ([None, Some(els.block)], [then, y]),
            _ => return None,
        };
        let join = edges[0].block;
        let insts = |n: usize| sides[n].map_or(&[][..], |b: BlockId| &f.blocks[b.0 as usize].insts);
        let accesses = |n: usize| insts(n).iter().filter(|i| matches!(&i.op, Op::Sass(s) if access(s)));
        if join.0 as usize == a || join.0 == 0 {
            return None;
        }
        // Where a warp may be apart is said of whole blocks.
        let alike = f.blocks[join.0 as usize].divergent == f.blocks[a].divergent;
        // A meeting place that waits must wait for these threads alone, or stays as it is: for those of an outer branch, too.
        let ok = match (barrier_at(f, join), opened(f, a)) {
            (Some(b), Some((o, _))) => alike && b == o && self.preds[join.0 as usize] == 2,
            (Some(_), None) => true,
            (None, None) => alike,
            (None, Some(_)) => false,
        };
        if !ok {
            return None;
        }
        // The load on a side that makes a value, if all that it makes is the same constant where it does not happen.
        let mut others: SmallVec<[(usize, usize, u32); 4]> = SmallVec::new();
        let mut loads = |n: usize, v: Vreg, other: Vreg| {
            let k = self.constant[self.last(other).index()]?;
            let at = accesses(n).position(|i| {
                let mut found = false;
                f.defs(&i.op, |d| found |= d == v);
                found
            })?;
            if let Some(o) = others.iter().find(|o| (o.0, o.1) == (n, at)) {
                return (o.2 == k).then_some(Given::Loaded(n, v, k));
            }
            others.push((n, at, k));
            Some(Given::Loaded(n, v, k))
        };
        let mut selections = 0;
        let mut given = Vec::new();
        for (&x, &y) in edges[0].args.iter().zip(&edges[1].args) {
            let (x, y) = (origin(insts(0), x), origin(insts(1), y));
            let nothing = |v: Vreg| self.undefined[self.last(v).index()];
            given.push(match (x, y) {
                _ if x == y || nothing(y) => Given::Same(x),
                _ if nothing(x) => Given::Same(y),
                _ => match loads(0, x, y).or_else(|| loads(1, y, x)) {
                    Some(loaded) => loaded,
                    None if f.vregs[x.index()] == File::Gpr && f.vregs[y.index()] == File::Gpr => {
                        selections += 1;
                        Given::Selected(x, y)
                    }
                    None => return None,
                },
            });
        }
        (selections <= SELECTIONS).then_some(Found { sides, join, cond: *cond, given })
    }

    /// What a value is by now.
    fn last(&self, v: Vreg) -> Vreg {
        let mut v = v;
        while self.to[v.index()] != v {
            v = self.to[v.index()];
        }
        v
    }

    fn apply(&mut self, f: &mut Func, a: usize, found: Found) {
        let join = found.join.0 as usize;
        if barrier_at(f, found.join).is_some()
            && let Some((_, at)) = opened(f, a)
        {
            f.blocks[a].insts.remove(at);
            f.blocks[join].insts.remove(0);
            if f.blocks[join].insts.is_empty() {
                f.blocks[join].insts = self.tails[join].pop().unwrap_or_default();
            }
        }
        let loc = f.blocks[a].loc;
        for (n, side) in found.sides.into_iter().enumerate() {
            let Some(side) = side else { continue };
            let insts = std::mem::take(&mut f.blocks[side.0 as usize].insts);
            f.blocks[side.0 as usize].term = Term::Unreachable;
            self.preds[side.0 as usize] = 0;
            let mut warp = None;
            for mut i in insts {
                if let Op::Copy(pairs) = &i.op {
                    pairs.iter().for_each(|(d, s)| self.to[d.index() as usize] = Vreg(s.index()));
                    continue;
                }
                let wanted = |v: Vreg| {
                    found.given.iter().find_map(|g| match *g {
                        Given::Loaded(side, x, k) if side == n && x == v => Some(k),
                        _ => None,
                    })
                };
                let mut other = None;
                f.defs(&i.op, |v| other = other.or(wanted(v)));
                let guard = if n == 0 { found.cond } else { found.cond.inverted() };
                if let Op::Sass(s) = &mut i.op {
                    if access(s) {
                        s.guard = guard;
                        i.other = other;
                    } else if asks(s) && s.form().uniform_guard {
                        s.guard = *warp.get_or_insert_with(|| self.any(f, a, guard, i.loc));
                    } else if asks(s) || s.form == F::R2UR {
                        s.guard = guard;
                    }
                }
                f.blocks[a].insts.push(i);
            }
        }
        let mut args = Vec::with_capacity(found.given.len());
        for g in found.given {
            args.push(match g {
                Given::Same(v) | Given::Loaded(_, v, _) => v,
                Given::Selected(x, y) => {
                    let v = self.value(f, File::Gpr);
                    let constant = |v: Vreg| self.constant[self.last(v).index()];
                    let fixed = |k| match k {
                        0 => (F::SEL_RR, Operand::reg(Reg::RZ)),
                        _ => (F::SEL_RI, Operand::imm(i64::from(k))),
                    };
                    let ((form, other), taken, cond) = match (constant(x), constant(y)) {
                        (_, Some(k)) => (fixed(k), x, found.cond),
                        (Some(k), None) => (fixed(k), y, found.cond.inverted()),
                        (None, None) => ((F::SEL_RR, Operand::from(f.reg(y))), x, found.cond),
                    };
                    let select = Sass::new(form).with(S::Rd, f.reg(v)).with(S::Ra, f.reg(taken));
                    let select = select.with(S::Rb, other).with(S::Pp, cond);
                    f.blocks[a].insts.push(Inst::new(Op::Sass(select), loc));
                    v
                }
            });
        }
        // Two ways to the meeting place became one.
        self.preds[join] -= 1;
        f.blocks[a].term = Term::Br(Edge { block: found.join, args });
        while self.absorb(f, a) {}
    }

    fn value(&mut self, f: &mut Func, file: File) -> Vreg {
        let v = f.new_vreg(file);
        self.to.push(v);
        self.undefined.push(false);
        self.constant.push(None);
        v
    }

    /// A predicate of the warp, computed at the end of block `a`: `guard` holds for some thread that is here.
    fn any(&mut self, f: &mut Func, a: usize, guard: Operand, loc: u32) -> Operand {
        let v = self.value(f, File::Upred);
        let up = f.reg(v);
        let vote = Sass::new(F::VOTEU).with(S::Pu, up).with(S::Pp, guard).with_mod(M::Mode, enums::vote::ANY);
        f.blocks[a].insts.push(Inst::new(Op::Sass(vote), loc));
        Operand::reg(up)
    }

    /// Takes in the block that `a` alone goes on to, if no other does.
    fn absorb(&mut self, f: &mut Func, a: usize) -> bool {
        let Term::Br(e) = &f.blocks[a].term else { return false };
        let next = e.block.0 as usize;
        let apart = f.blocks[next].divergent != f.blocks[a].divergent || barrier_at(f, e.block).is_some();
        if next == a || self.preds[next] != 1 || apart {
            return false;
        }
        let args = e.args.clone();
        for (p, v) in std::mem::take(&mut f.blocks[next].params).into_iter().zip(args) {
            self.to[p.index()] = v;
        }
        let insts = std::mem::take(&mut f.blocks[next].insts);
        let few = insts.len() <= MOVED && self.tails[next].is_empty();
        if f.blocks[a].insts.is_empty() {
            f.blocks[a].insts = insts;
            self.tails[a] = std::mem::take(&mut self.tails[next]);
        } else if few && self.tails[a].is_empty() {
            f.blocks[a].insts.extend(insts);
        } else {
            let mut tails = std::mem::take(&mut self.tails[next]);
            tails.push(insts);
            tails.append(&mut self.tails[a]);
            self.tails[a] = tails;
        }
        f.blocks[a].loc = f.blocks[next].loc;
        f.blocks[a].term = std::mem::replace(&mut f.blocks[next].term, Term::Unreachable);
        self.preds[next] = 0;
        true
    }

    /// Puts the tails of a block behind its instructions.
    fn gather(&mut self, f: &mut Func, b: usize) {
        let tails = std::mem::take(&mut self.tails[b]);
        let insts = &mut f.blocks[b].insts;
        insts.reserve(tails.iter().map(Vec::len).sum());
        tails.into_iter().rev().for_each(|t| insts.extend(t));
    }

    /// Puts what values became into their readers.
    fn rename(&self, f: &mut Func) {
        let regs: Vec<File> = f.vregs.clone();
        let scalar = |o: &mut Value| {
            if let Value::Reg(r) = o
                && r.is_virtual()
            {
                let v = self.last(Vreg(r.index()));
                *o = Value::Reg(Reg::virt(regs[v.index()], v.0));
            }
        };
        for b in 0..f.blocks.len() {
            let mut insts = std::mem::take(&mut f.blocks[b].insts);
            // Copies, and before which instruction each goes.
            let mut copies: Vec<(usize, Inst)> = Vec::new();
            for (n, inst) in insts.iter_mut().enumerate() {
                match &mut inst.op {
                    Op::Sass(s) => {
                        let mut places: SmallVec<[Place; 8]> = SmallVec::new();
                        sass_uses(s, |p| places.push(p));
                        for p in places {
                            let value = p.slot.map_or(&mut s.guard.value, |n| &mut s.operands[n as usize].value);
                            if p.width == 1 {
                                scalar(value);
                            } else if let Some(r) = self.vector(f, p, |c| copies.push((n, Inst::new(c, inst.loc)))) {
                                *value = Value::Reg(r);
                            }
                        }
                    }
                    Op::Copy(pairs) => {
                        for (_, s) in pairs.iter_mut().filter(|p| p.1.is_virtual()) {
                            let v = self.last(Vreg(s.index()));
                            *s = Reg::virt(regs[v.index()], v.0);
                        }
                    }
                    Op::Call(c) => {
                        c.args.iter_mut().for_each(|a| a.0 = self.last(a.0));
                        c.target.values_mut().into_iter().for_each(|v| *v = self.last(*v));
                    }
                    Op::LoadIncoming { .. } | Op::Hold { .. } => {}
                }
            }
            if !copies.is_empty() {
                let mut copies = copies.into_iter().peekable();
                let old = std::mem::take(&mut insts);
                insts.reserve(old.len() + copies.len());
                for (n, inst) in old.into_iter().enumerate() {
                    while let Some((_, copy)) = copies.next_if(|c| c.0 == n) {
                        insts.push(copy);
                    }
                    insts.push(inst);
                }
            }
            let block = &mut f.blocks[b];
            block.insts = insts;
            match &mut block.term {
                Term::CondBr { cond, .. } => scalar(&mut cond.value),
                Term::Switch { index, .. } if *index != Vreg::NONE => *index = self.last(*index),
                Term::Ret(values) => values.iter_mut().for_each(|v| v.0 = self.last(v.0)),
                _ => {}
            }
            for e in block.term.edges_mut() {
                e.args.iter_mut().for_each(|v| *v = self.last(*v));
            }
        }
    }
}

impl Pass {
    /// The vector of what the values of one became, if any became something else. None stands in it twice: of those that would, copies
    /// are to be made before it.
    fn vector(&self, f: &mut Func, p: Place, copy: impl FnOnce(Op)) -> Option<Reg> {
        let old = if p.reg.is_virtual() { f.scalars(p.reg) } else { return None };
        let mut new: SmallVec<[Vreg; 4]> = old.iter().map(|&v| self.last(v)).collect();
        if new == old {
            return None;
        }
        let mut copies = Vec::new();
        for n in 1..new.len() {
            if new[..n].contains(&new[n]) {
                let copy = f.new_vreg(f.vregs[new[n].index()]);
                copies.push((f.reg(copy), f.reg(new[n])));
                new[n] = copy;
            }
        }
        if !copies.is_empty() {
            copy(Op::Copy(copies));
        }
        Some(f.vector(&new))
    }
}

/// Puts what loads give where they do not happen into their registers, before them. Runs after register assignment. Where a load reads what it
/// writes, only threads that do not load are given that.
pub fn clear(f: &mut Func) {
    for block in f.blocks.iter_mut().filter(|b| b.insts.iter().any(|i| i.other.is_some())) {
        let mut old = std::mem::take(&mut block.insts);
        block.insts.reserve(old.len() + 8);
        for inst in &mut old {
            if let Some(k) = inst.other.take()
                && let Op::Sass(s) = &inst.op
            {
                preset(s, k, |m| block.insts.push(Inst::new(Op::Sass(m), inst.loc)));
            }
            inst.move_to(&mut block.insts);
        }
    }
}

/// The moves of a constant to what a load writes.
fn preset(s: &Sass, k: u32, add: impl FnMut(Sass)) {
    let (mut written, mut read) = ([false; 256], [false; 256]);
    let mark = |list: &mut [bool; 256], p: Place| {
        if p.reg.file() == File::Gpr && !p.reg.is_const() {
            let from = p.reg.index() as usize;
            list[from..from + p.width as usize].fill(true);
        }
    };
    sass_defs(s, |p| mark(&mut written, p));
    sass_uses(s, |p| mark(&mut read, p));
    let apart = (0..256).any(|r| written[r] && read[r]);
    let guard = if apart { s.guard.inverted() } else { Operand::reg(Reg::PT) };
    (0..256)
        .filter(|&r| written[r])
        .map(|r| {
            let to = Reg::r(r as u8);
            let set = match k {
                0 => Sass::new(F::MOV_R).with(S::Rd, to).with(S::Rb, Reg::RZ),
                _ => Sass::new(F::MOV_I).with(S::Rd, to).with(S::Rb, Operand::imm(i64::from(k))),
            };
            set.guarded(guard)
        })
        .for_each(add);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    const HEAD: &str = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";

    fn after(body: &str) -> Func {
        let mut f = text::parse(&format!("{HEAD}{body}}}\n")).unwrap().remove(0);
        verify::ssa(&f).unwrap();
        run(&mut f);
        verify::ssa(&f).unwrap();
        f
    }

    /// A load under a condition into what `els` gives otherwise.
    fn loads(els: &str) -> String {
        let one = |at: usize, p: u32, v: u32| {
            format!(
                "    brif %p{p}, blk{}(), blk{}()\nblk{}(): depth=0 divergent\n    LDG Rd=%r{v} UR=UR4 Ra={{%r0,%r1}}\n    br blk{}(%r{v})\nblk{}(): depth=0 divergent\n    {els}%r{}\n    br blk{}(%r{})\nblk{}(%r{}): depth=0\n    BSYNC\n",
                at + 1,
                at + 2,
                at + 1,
                at + 3,
                at + 2,
                v + 1,
                at + 3,
                v + 1,
                at + 3,
                v + 2
            )
        };
        format!(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    S2R Rd=%r1 Sr=0x25\n    ISETP_RR Pu=%p2 Ra=%r0 Rb=%r1\n    ISETP_RR Pu=%p3 Ra=%r1 Rb=RZ\n    BSSY TargetFar=blk3\n{}    BSSY TargetFar=blk6\n{}    IADD3_RRR Rd=%r10 Ra=%r6 Rb=%r9 Rc=RZ\n    STG URc=UR4 Ra={{%r0,%r1}} Rb=%r10\n    exit\n",
            one(0, 2, 4),
            one(3, 3, 7)
        )
    }

    #[test]
    fn loads_under_two_conditions_come_into_one_block() {
        let f = after(&loads("MOV_R Rd="));
        let t = text::print(&f);
        assert!(matches!(f.blocks[0].term, Term::Exit), "{t}");
        assert!(t.contains("@%p2 LDG Rd=%r4 UR=UR4 Ra={%r0,%r1} else 0x0") && t.contains("@%p3 LDG"), "{t}");
        assert!(!t.contains("BSSY") && !t.contains("BSYNC") && t.contains("Ra=%r4 Rb=%r7"), "{t}");
        // The text comes back.
        assert_eq!(text::print(&text::parse(&t).unwrap()[0]), t);
    }

    /// Sides that only compute become straight code, too, one within the other.
    #[test]
    fn what_is_computed_under_a_condition_is_computed_and_chosen() {
        let f = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    ISETP_RI.Cmp=1 Pu=%p2 Ra=%r0 Rb=5\n    BSSY TargetFar=blk4\n    brif %p2, blk1(), blk4(%r0)\n\
             blk1(): depth=0 divergent\n    ISETP_RI.Cmp=1 Pu=%p3 Ra=%r0 Rb=7\n    brif %p3, blk2(), blk3(%r0)\n\
             blk2(): depth=0 divergent\n    MUFU_R.Func=2 Rd=%r4 Rb=%r0\n    br blk3(%r4)\n\
             blk3(%r5): depth=0 divergent\n    FADD_RR Rd=%r6 Ra=%r5 Rb=%r0\n    br blk4(%r6)\n\
             blk4(%r7): depth=0\n    BSYNC\n    STG.Size=4 Ra=RZ Rb=%r7 URc=UR4\n    exit\n",
        );
        let t = text::print(&f);
        assert!(matches!(f.blocks[0].term, Term::Exit) && !t.contains("BSSY") && !t.contains("@%p"), "{t}");
        assert!(t.matches("SEL_RR").count() == 2 && t.contains("MUFU_R"), "{t}");
    }

    /// A long side that only computes stays a branch, but where a load from far memory stands behind the meeting place.
    #[test]
    fn long_sides_before_loads_are_computed_in_any_case() {
        let branches = |sums: usize, behind: &str, apart: bool| {
            let row: String =
                (0..sums).map(|k| format!("    FADD_RR Rd=%r{} Ra=%r{} Rb=%r0\n", 21 + k, 20 + k)).collect();
            let apart = if apart { "    br blk3()\nblk3(): depth=0\n" } else { "" };
            let t = text::print(&after(&format!(
                "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    S2R Rd=%r20 Sr=0x25\n    ISETP_RI.Cmp=1 Pu=%p2 Ra=%r0 Rb=5\n    BSSY TargetFar=blk2\n    brif %p2, blk1(), blk2(%r0)\n\
                 blk1(): depth=0 divergent\n{row}    br blk2(%r{})\n\
                 blk2(%r7): depth=0\n    BSYNC\n{apart}    {behind}\n    STG.Size=4 Ra={{%r0,%r20}} Rb=%r7 URc=UR4\n    exit\n",
                20 + sums
            )));
            t.matches("brif").count()
        };
        let (load, other) = ("LDG Rd=%r8 UR=UR4 Ra={%r0,%r20}", "FADD_RR Rd=%r8 Ra=%r0 Rb=%r0");
        assert_eq!((branches(20, load, false), branches(20, load, true)), (0, 0));
        assert_eq!((branches(20, other, false), branches(25, load, false)), (1, 1));
    }

    /// What is behind the last meeting place is not moved at each one, and still comes last, in its order.
    #[test]
    fn long_blocks_behind_come_last() {
        let long = |n: usize| format!("    IADD3_RRR Rd=%r{} Ra=%r{} Rb=%r9 Rc=RZ\n", n + 1, n);
        let long: String = std::iter::once("    IADD3_RRR Rd=%r100 Ra=%r10 Rb=%r9 Rc=RZ\n".to_string())
            .chain((100..199).map(long))
            .collect();
        let body = loads("MOV_R Rd=").replace("    STG", &format!("{long}    STG")).replace("Rb=%r10\n", "Rb=%r199\n");
        let t = text::print(&after(&body));
        assert!(!t.contains("BSSY") && !t.contains("BSYNC") && !t.contains("br"), "{t}");
        let at = |n: usize| t.find(&format!("Rd=%r{n} ")).unwrap();
        assert!([4, 7, 10].map(at).is_sorted() && (100..199).all(|n| at(n) < at(n + 1)) && at(10) < at(100), "{t}");
        assert!(at(199) < t.find("STG").unwrap() && t.matches("IADD3").count() == 101, "{t}");
    }

    #[test]
    fn another_value_than_a_constant_is_selected() {
        let t = text::print(&after(&loads("MOV_I Rb=7 Rd=")));
        assert!(t.contains("@%p2 LDG Rd=%r4 UR=UR4 Ra={%r0,%r1} else 0x7") && !t.contains("SEL"), "{t}");
        assert!(!t.contains("MOV_I"), "{t}");
        let t = text::print(&after(&loads("IADD3_RRR Ra=%r0 Rb=%r1 Rc=RZ Rd=")));
        assert!(!t.contains("else") && t.contains("SEL_RR Rd=%r12 Ra=%r4 Rb=%r5 Pp=%p2"), "{t}");
        // An address that a linker will know.
        let t = text::print(&after(&loads("MOV_I Rb=0x20000000001 Rd=")));
        assert!(!t.contains("else") && t.contains("SEL_RR Rd=%r12 Ra=%r4 Rb=%r5 Pp=%p2"), "{t}");
    }

    #[test]
    fn copies_are_looked_through() {
        let body = loads("MOV_R Rd=").replace("    br blk3(%r4)\n", "    copy %r11=%r4\n    br blk3(%r11)\n");
        let t = text::print(&after(&body));
        assert!(t.matches(" else 0x0").count() == 2 && !t.contains("copy") && !t.contains("SEL"), "{t}");
    }

    #[test]
    fn no_value_stands_twice_in_a_vector() {
        let body = loads("MOV_R Rd=").replace(
            "    IADD3_RRR Rd=%r10",
            "    brif %p2, blk7(), blk8()\nblk7(): depth=0\n    STG URc=UR4 Ra={%r0,%r1} Rb=%r6\n    copy %r12=%r6\n    br blk9(%r12)\nblk8(): depth=0\n    copy %r13=%r6\n    br blk9(%r13)\nblk9(%r11): depth=0\n    STG.Size=5 URc=UR4 Ra={%r0,%r1} Rb={%r6,%r11}\n    IADD3_RRR Rd=%r10",
        );
        let t = text::print(&after(&body));
        assert!(t.contains("copy %r14=%r4\n    STG.Size=5 URc=UR4 Ra={%r0,%r1} Rb={%r4,%r14}"), "{t}");
    }

    #[test]
    fn what_makes_others_wait_keeps_its_branch() {
        let body = |inst: &str| {
            format!(
                "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    S2R Rd=%r1 Sr=0x25\n    ISETP_RR Pu=%p2 Ra=%r0 Rb=%r1\n    brif %p2, blk1(), blk2()\nblk1(): depth=0\n    STG URc=UR4 Ra={{%r0,%r1}} Rb=%r0\n    {inst}\n    br blk2()\nblk2(): depth=0\n    exit\n"
            )
        };
        let kept = |inst: &str| matches!(after(&body(inst)).blocks[0].term, Term::CondBr { .. });
        assert!(
            kept("BAR_SYNC_I")
                && kept("SHFL_II Rd=%r3 Ra=%r0 Rb=0x1 Rc=0x1f")
                && !kept("IADD3_RRR Rd=%r3 Ra=%r0 Rb=%r0 Rc=RZ")
        );
    }

    /// What a barrier is told by one thread of a warp, and what the engine is asked for by it.
    #[test]
    fn the_engine_is_asked_under_a_predicate_of_the_warp() {
        let t = text::print(&after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    ELECT Pu=%p1 Rd=URZ Pp=PT\n    BSSY TargetFar=blk2\n    brif %p1, blk2(), blk1()\n\
             blk1(): depth=0 divergent\n    UMOV_I Rd=%ur2 Mask=0x10\n    UMOV_I Rd=%ur3 Mask=0x20\n    R2UR Rd=%ur4 Ra=%r0\n    \
             SYNCS_EXCH Ra=%ur4 Rb={%ur2,%ur3}\n    SYNCS_ARRIVE Rd=RZ Ra=RZ URc=%ur4 Rb=%r0\n    br blk2()\n\
             blk2(): depth=0\n    BSYNC\n    exit\n",
        ));
        assert!(t.contains("VOTEU.Mode=1 Pu=%up5 Pp=!%p1"), "{t}");
        assert!(t.contains("@%up5 SYNCS_EXCH") && t.contains("@!%p1 R2UR") && t.contains("@!%p1 SYNCS_ARRIVE"), "{t}");
        assert!(!t.contains("BSSY") && !t.contains("brif") && t.contains("    UMOV_I"), "{t}");
    }

    #[test]
    fn a_load_over_its_address_gives_zero_to_the_others_alone() {
        let clear = |load: &str| {
            let mut f = text::parse(&format!("{HEAD}blk0(): depth=0\n    {load}\n    exit\n}}\n")).unwrap().remove(0);
            super::clear(&mut f);
            text::print(&f)
        };
        let t = clear("@P0 LDG Rd=R4 UR=UR4 Ra=R2 else 0x0");
        assert!(t.contains("    MOV_R Rd=R4\n    @P0 LDG") && !t.contains("else"), "{t}");
        let t = clear("@!P0 LDG.Size=5 Rd=R2 UR=UR4 Ra=R2 else 0x0");
        assert!(t.contains("    @P0 MOV_R Rd=R2\n    @P0 MOV_R Rd=R3\n    @!P0 LDG"), "{t}");
        let t = clear("@P0 LDG Rd=R4 UR=UR4 Ra=R2 else 0xff800000");
        assert!(t.contains("    MOV_I Rd=R4 Rb=0xff800000\n    @P0 LDG"), "{t}");
    }
}
