//! Moves what all threads of a warp share to the uniform datapath.
//!
//! Runs on SSA form, first of the passes of the back end. Three steps.
//!
//! 1. What may be uniform: results of instructions that have a uniform form, in blocks where the warp is whole, of sources that are
//!    uniform or constant themselves; parameters of blocks that are whole and entered from whole blocks only, where all
//!    arguments are uniform. Optimistic, so that counters of loops are found.
//! 2. What stays: every reader must take a uniform register, in its uniform form or as the one such operand of a vector
//!    instruction. What does not is taken out, until nothing changes: no instruction is added, and moves to uniform
//!    registers go. But what such moves are computed of (descriptors of products, addresses of tensors) stays, and a reader that
//!    does not take it gets a copy: one move for a few that are gone, which take three times as long. So does what lives
//!    into the blocks where most general registers are taken (`uniform/wanted.rs`), in loops as long as one move in each iteration does.
//! 3. The instructions are put into those forms.
//!
//! A uniform instruction is executed once whatever threads are there, so none is made where threads may be apart, and
//! [`crate::mir::liveness`] keeps uniform values from being overwritten on the other way of a branch that divides a warp.

mod forms;
mod leaves;
mod near;
mod same;
mod wanted;

use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{names_physical, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op, Term, Vreg};
use crate::regalloc::pressures;
use crate::sched::sink::rename;
use forms::{SHARED, Swap, exchange, mixed, uniform_form};
use sass::form::{FormId, SlotKind, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use smallvec::SmallVec;
use wanted::wanted;

/// Most uniform registers alive at once; there are 55. Vectors of them cannot be moved everywhere.
pub const MOST: u32 = 48;
/// As many as there may be in the order at hand. (Where more of them are computed ahead, what they are moved to is: 36 instead of 48 take 0.3 % of the
/// instructions of Triton's products and attention away.)
const AHEAD: u32 = 36;
/// The most where registers could not be assigned with so many, ...
pub const MANY: u32 = 36;
/// ... nor with these, ...
pub const SOME: u32 = 24;
/// ... nor with these.
pub const FEW: u32 = 16;
/// Most uniform predicates alive at once, of seven.
const MOST_PREDICATES: u32 = 5;
/// So often values are taken out again where there are too many.
const TRIES: u32 = 10;

/// Runs the pass for chip `sm`, with at most `most` uniform registers alive at once. True if anything changed.
pub fn run(f: &mut Func, sm: u16, most: u32) -> bool {
    // Who is called does not keep uniform registers, and may come back in parts.
    let calls =
        f.blocks.iter().any(|b| b.insts.iter().any(|i| matches!(&i.op, Op::Call(c) if !c.keeps.light() && !c.ends)));
    if !f.entry || f.linkable || calls {
        return false;
    }
    let cfg = f.cfg();
    // Where all of it fits, it stays in the order that it has.
    if near::wanted(f) {
        if let Some(done) = attempt(f, &cfg, sm, most.min(AHEAD), true) {
            return done | near::constants(f, sm) | leaves::run(f, &cfg, sm, most);
        }
        near::constants(f, sm);
        near::run(f);
    }
    (attempt(f, &cfg, sm, most, false) == Some(true)) | near::constants(f, sm) | leaves::run(f, &cfg, sm, most)
}

/// As [`run`], in the order at hand; `None` where there are too many uniform registers and `gives_up`.
fn attempt(f: &mut Func, cfg: &Cfg, sm: u16, most: u32, gives_up: bool) -> Option<bool> {
    let Some(mut pass) = Pass::new(f, cfg, sm) else { return Some(false) };
    pass.spread();
    (pass.wanted, pass.moves) = wanted(pass.f, cfg, &pass.kept);
    let mut crowded = false;
    for _ in 0..TRIES {
        pass.close();
        if pass.kept == pass.old {
            break;
        }
        match pass.too_many(most) {
            Some((_, File::Gpr)) if gives_up => {
                crowded = true;
                break;
            }
            Some((block, file)) => pass.relieve(block, file),
            None => {
                pass.rewrite();
                fold_addresses(f);
                return Some(true);
            }
        }
    }
    // As it was.
    pass.kept.clone_from(&pass.old);
    pass.drop_copies();
    if crowded { None } else { Some(false) }
}

struct Pass<'a> {
    f: &'a mut Func,
    cfg: &'a Cfg,
    sm: u16,
    /// Values that are, or will be, in uniform registers.
    kept: Vec<bool>,
    /// Values that were in uniform registers before.
    old: Vec<bool>,
    /// Reads of each value, and more for what many things hang on.
    weight: Vec<u32>,
    /// Values that moves to uniform registers are computed of.
    wanted: Vec<bool>,
    /// Copies that were put in: block, copy, value.
    copies: Vec<(usize, Vreg, Vreg)>,
    /// Of several operands of which an instruction takes one it is chosen which.
    chooses: bool,
    /// By value: copies of it in loops, as often as these are taken to run. One is as much as a register is worth.
    copied: Vec<u32>,
    /// By value: moves to uniform registers in loops that are computed of it, as often as these are taken to run.
    moves: Vec<u32>,
    /// Values that are moved to uniform registers from general ones ([`leaves`]).
    leaf: Vec<bool>,
}

impl<'a> Pass<'a> {
    /// The values that may be uniform by their definitions alone.
    fn new(f: &'a mut Func, cfg: &'a Cfg, sm: u16) -> Option<Pass<'a>> {
        let n = f.vregs.len();
        let uniform = |file: File| matches!(file, File::Ugpr | File::Upred);
        let old: Vec<bool> = f.vregs.iter().map(|&file| uniform(file)).collect();
        let mut kept = old.clone();
        let mut weight = vec![0u32; n];
        for &b in &cfg.rpo {
            let block = &f.blocks[b as usize];
            for inst in &block.insts {
                f.uses(&inst.op, |v| weight[v.index()] += 1);
            }
            if !block.divergent && b != 0 && cfg.preds[b as usize].iter().all(|&p| same::whole(f, p)) {
                for p in block.params.iter().filter(|p| f.vregs[p.index()] == File::Gpr) {
                    kept[p.index()] = true;
                    weight[p.index()] += 100;
                }
            }
            if block.divergent {
                continue;
            }
            for inst in &block.insts {
                let may = match &inst.op {
                    Op::Sass(s) => uniform_form(s).is_some_and(|to| to.get().on(sm)),
                    Op::Copy(pairs) => pairs.iter().all(|(d, _)| d.file() == File::Gpr),
                    _ => false,
                };
                if may {
                    f.defs(&inst.op, |v| kept[v.index()] = true);
                }
            }
        }
        // Values that arrive in registers do not.
        f.live_in.iter().for_each(|l| kept[l.0.index()] = false);
        if kept == old {
            return None;
        }
        let (wanted, copies, copied) = (Vec::new(), Vec::new(), vec![0; n]);
        let moves = Vec::new();
        Some(Pass { f, cfg, sm, kept, old, weight, wanted, copies, copied, moves, chooses: true, leaf: Vec::new() })
    }

    /// Takes out what is computed of anything else, until the rest is uniform.
    fn spread(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for &b in &self.cfg.rpo {
                let block = &self.f.blocks[b as usize];
                for e in block.term.edges() {
                    let params = &self.f.blocks[e.block.0 as usize].params;
                    for (&p, &a) in params.iter().zip(&e.args) {
                        if self.kept[p.index()] && !self.kept[a.index()] {
                            self.kept[p.index()] = false;
                            changed = true;
                        }
                    }
                }
                for inst in &block.insts {
                    match &inst.op {
                        Op::Copy(pairs) => {
                            for (d, s) in pairs {
                                let uniform = s.is_virtual() && self.kept[s.index() as usize];
                                let d = d.index() as usize;
                                if self.kept[d] && !self.old[d] && !uniform {
                                    self.kept[d] = false;
                                    changed = true;
                                }
                            }
                        }
                        op @ Op::Sass(s) => {
                            let mut mine = false;
                            self.f.defs(op, |v| mine |= self.kept[v.index()] && !self.old[v.index()]);
                            if !mine {
                                continue;
                            }
                            let mut all = true;
                            self.f.uses(op, |v| all &= self.kept[v.index()]);
                            all &= !names_physical(s, s.registers().reads, true);
                            self.f.defs(op, |v| all &= self.kept[v.index()]);
                            if !all {
                                changed = true;
                                let kept = &mut self.kept;
                                let old = &self.old;
                                self.f.defs(op, |v| kept[v.index()] = old[v.index()]);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// The register as it is named once the values are in their files; `None` for a vector of which only parts are uniform.
    fn named(&self, reg: Reg, width: u8) -> Option<Reg> {
        if !reg.is_virtual() {
            return Some(reg);
        }
        let (mut any, mut all) = (false, true);
        self.f.each_scalar(reg, width, |v| {
            any |= self.kept[v.index()];
            all &= self.kept[v.index()];
        });
        let file = match (reg.file(), all) {
            (File::Gpr, true) => File::Ugpr,
            (File::Pred, true) => File::Upred,
            (file, _) => file,
        };
        (any == all).then_some(Reg::virt(file, reg.index()))
    }

    /// The instruction in form `to`, with its registers named anew; `None` where an operand or a modifier has no place.
    fn reform(&self, s: &Sass, to: FormId) -> Option<Sass> {
        if !to.get().on(self.sm) {
            return None;
        }
        let mut new = Sass::new(to);
        let form = s.form();
        for (i, slot) in form.slots.iter().enumerate() {
            let name = if to == F::UMOV_I && slot.name == S::Rb { S::Mask } else { slot.name };
            let mut o = s.operands[i];
            let Some(k) = (if to == s.form { Some(i) } else { new.slot(name) }) else {
                if o == slot.default() {
                    continue;
                }
                return None;
            };
            let place = &new.form().slots[k];
            match (place.kind, o.value) {
                (SlotKind::Reg(file), Value::Reg(reg)) => {
                    let reg = match (file, reg) {
                        (File::Ugpr, Reg::RZ) => Reg::URZ,
                        (File::Upred, Reg::PT) => Reg::UPT,
                        _ => self.named(reg, s.slot_width(i))?,
                    };
                    if reg.file() != file {
                        return None;
                    }
                    o.value = Value::Reg(reg);
                }
                (SlotKind::Imm { .. }, Value::Imm(bits)) => {
                    let bits = bits.get();
                    if to == F::UMOV_I {
                        o.value = Value::imm(bits as u32 as i64);
                    }
                }
                (SlotKind::Const, Value::Const { .. }) => {}
                _ => return None,
            }
            let lost = o.neg && place.neg.is_none() || o.abs && place.abs.is_none() || o.inv && place.inv.is_none();
            if lost {
                return None;
            }
            new.operands[k] = o;
        }
        for (i, field) in form.mods.iter().enumerate() {
            let same = (to == s.form).then_some(i);
            match same.or_else(|| new.form().mods.iter().position(|m| m.name == field.name)) {
                Some(k) => new.mods[k] = s.mods[i],
                None if s.mods[i] == field.default => {}
                None => return None,
            }
        }
        let guard = s.guard.as_reg()?;
        if guard != Reg::PT {
            let guard = self.named(guard, 1)?;
            if new.form().uniform_guard || guard.file() != File::Pred {
                return None;
            }
            new.guard = s.guard;
        }
        Some(new)
    }

    /// A vector instruction that reads what is kept, in a form that takes it.
    fn mixed(&self, s: &Sass) -> Option<Sass> {
        if let Some(same) = self.reform(s, s.form) {
            return Some(same);
        }
        if let Some(&(_, to, slot)) = SHARED.iter().find(|x| x.0 == s.form)
            && let Some(base) = s.get(S::Ra).and_then(Operand::as_reg).filter(|r| r.is_virtual())
            && self.kept[base.index() as usize]
            && s.get(slot).and_then(Operand::as_reg).is_none_or(Reg::is_const)
        {
            let rest = self.reform(&s.clone().with(S::Ra, Reg::RZ), to)?;
            return Some(rest.with(slot, Reg::virt(File::Ugpr, base.index())));
        }
        mixed(s.form).iter().find_map(|&(_, to, swap)| {
            let mut s = s.clone();
            if swap != Swap::No {
                exchange(&mut s, swap)?;
            }
            self.reform(&s, to)
        })
    }

    /// What becomes of an instruction, if it has a form for the registers as they are.
    fn fitted(&self, s: &Sass) -> Option<Sass> {
        let mut uniform = false;
        sass_defs(s, |p| {
            if p.reg.is_virtual() {
                self.f.each_scalar(p.reg, p.width, |v| uniform |= self.kept[v.index()] && !self.old[v.index()]);
            }
        });
        if uniform {
            let (to, from) = (s.get(S::Rd).and_then(Operand::as_reg), s.get(S::Rb).and_then(Operand::as_reg));
            if let (F::MOV_R, Some(to), Some(from)) = (s.form, to, from)
                && self.leaf.get(to.index() as usize) == Some(&true)
            {
                return Some(Sass::new(F::R2UR).with(S::Rd, self.named(to, 1)?).with(S::Ra, from));
            }
            return self.reform(s, uniform_form(s)?);
        }
        if s.form == F::R2UR && self.moved(s).is_some() {
            return Some(s.clone());
        }
        self.mixed(s)
    }

    /// The uniform value that a move to a uniform register reads, and where it goes.
    fn moved(&self, s: &Sass) -> Option<(Reg, Reg)> {
        let from = s.get(S::Ra)?.as_reg().filter(|r| r.is_virtual() && self.kept[r.index() as usize])?;
        let to = s.get(S::Rd)?.as_reg()?;
        Some((to, Reg::virt(File::Ugpr, from.index())))
    }

    /// Takes out what a reader does not take, and what is then computed of it. Where a reader takes one of several, that waits until it is known which of
    /// them go by themselves.
    fn close(&mut self) {
        let mut changed = true;
        while changed {
            self.chooses = false;
            while self.closed() {}
            self.chooses = true;
            changed = self.closed();
        }
    }

    /// Goes through all blocks once; true if something was taken out.
    fn closed(&mut self) -> bool {
        let mut changed = false;
        for &b in self.cfg.rpo.iter().rev() {
            let block = &self.f.blocks[b as usize];
            let mut bad: SmallVec<[Vreg; 8]> = SmallVec::new();
            self.f.term_uses(&block.term, |v| bad.push(v));
            let loops = block.term.successors().iter().any(|t| self.goes_back(b, t.0));
            if loops && matches!(block.term, Term::CondBr { .. }) && !block.divergent {
                bad.clear();
            }
            for e in block.term.edges() {
                let params = &self.f.blocks[e.block.0 as usize].params;
                for (&p, &a) in params.iter().zip(&e.args) {
                    match (self.kept[p.index()], self.kept[a.index()]) {
                        (true, false) => bad.push(p),
                        (false, true) => bad.push(a),
                        _ => {}
                    }
                }
            }
            changed |= self.drop_all(&bad);
            for i in (0..self.f.blocks[b as usize].insts.len()).rev() {
                changed |= self.check(b as usize, i);
            }
        }
        changed
    }

    /// True if an edge from `b` to `t` goes back, at once or through a block that only passes values on.
    fn goes_back(&self, b: u32, t: u32) -> bool {
        let index = |x: u32| self.cfg.rpo_index[x as usize];
        let next = &self.f.blocks[t as usize];
        match &next.term {
            Term::Br(e) if next.insts.is_empty() => index(e.block.0) <= index(b),
            _ => index(t) <= index(b),
        }
    }

    fn drop_all(&mut self, list: &[Vreg]) -> bool {
        let mut changed = false;
        for v in list {
            let k = &mut self.kept[v.index()];
            changed |= *k && !self.old[v.index()];
            *k = self.old[v.index()];
        }
        changed
    }

    /// Looks at one instruction; true if something was taken out.
    fn check(&mut self, b: usize, i: usize) -> bool {
        let op = &self.f.blocks[b].insts[i].op;
        let mine = |v: Vreg| self.kept[v.index()] && !self.old[v.index()];
        let mut any = false;
        self.f.uses(op, |v| any |= mine(v));
        self.f.defs(op, |v| any |= mine(v));
        if !any {
            return false;
        }
        let mut values: SmallVec<[Vreg; 8]> = SmallVec::new();
        let mut defs: SmallVec<[Vreg; 8]> = SmallVec::new();
        self.f.uses(op, |v| {
            if mine(v) && !values.contains(&v) {
                values.push(v);
            }
        });
        self.f.defs(op, |v| {
            if mine(v) {
                defs.push(v);
            }
        });
        let s = match op {
            Op::Sass(s) => s,
            Op::Copy(pairs) => {
                // A copy between general registers may become one from a uniform register, not one to it.
                let bad: SmallVec<[Vreg; 8]> = pairs
                    .iter()
                    .filter(|(d, s)| mine(Vreg(d.index())) && !(s.is_virtual() && self.kept[s.index() as usize]))
                    .map(|(d, _)| Vreg(d.index()))
                    .collect();
                return self.drop_all(&bad);
            }
            _ => {
                values.extend(defs);
                return self.drop_all(&values);
            }
        };
        if self.fitted(s).is_some() {
            return false;
        }
        let s = s.clone();
        if !defs.is_empty() {
            return self.drop_all(&defs) | self.check(b, i);
        }
        // The operand that the least hangs on, if that is enough.
        values.sort_by_key(|v| (self.weight[v.index()], v.0));
        let mut operands: SmallVec<[SmallVec<[Vreg; 2]>; 4]> = SmallVec::new();
        sass_uses(&s, |p| {
            let mut of: SmallVec<[Vreg; 2]> = SmallVec::new();
            self.f.each_scalar(p.reg, p.width, |v| {
                of.extend(Some(v).filter(|v| p.reg.is_virtual() && values.contains(v)))
            });
            if !of.is_empty() {
                operands.push(of);
            }
        });
        if operands.len() > 1 && !self.chooses {
            return false;
        }
        operands.sort_by_key(|of| of.iter().map(|v| (self.weight[v.index()], v.0)).max());
        for of in operands.iter().filter(|of| of.iter().all(|v| !self.wanted[v.index()])) {
            of.iter().for_each(|v| self.kept[v.index()] = false);
            if self.fitted(&s).is_some() {
                return true;
            }
            of.iter().for_each(|v| self.kept[v.index()] = true);
        }
        let unwanted: SmallVec<[Vreg; 8]> = values.iter().copied().filter(|v| !self.wanted[v.index()]).collect();
        if !unwanted.is_empty() {
            return self.drop_all(&unwanted) | self.check(b, i);
        }
        for &v in &values {
            if self.copy(b, i, v) {
                return false;
            }
        }
        for &v in &values {
            self.kept[v.index()] = false;
            if self.fitted(&s).is_some() {
                return true;
            }
            self.kept[v.index()] = true;
        }
        self.drop_all(&values)
    }

    /// Lets instruction `i` of block `b` read copies of `v`, which is wanted, and of what is uniform in one vector with it; false where that is not enough.
    fn copy(&mut self, b: usize, i: usize, v: Vreg) -> bool {
        let inside = self.f.blocks[b].depth > 0;
        let costs = wanted::runs(self.f.blocks[b].depth);
        let copied = self.copied[v.index()];
        let enough = inside && copied > 0 && copied + costs > self.moves[v.index()];
        if !self.wanted[v.index()] || enough || !F::MOV_U.get().on(self.sm) {
            return false;
        }
        let Op::Sass(s) = &self.f.blocks[b].insts[i].op else { return false };
        let mut places: SmallVec<[(u8, Reg, u8); 2]> = SmallVec::new();
        let mut single = true;
        sass_uses(s, |p| {
            let mut here = false;
            self.f.each_scalar(p.reg, p.width, |x| here |= x == v);
            match p.slot {
                Some(k) if here => places.push((k, p.reg, p.width)),
                _ => single &= !here,
            }
        });
        if !single {
            return false;
        }
        let mut new = s.clone();
        let loc = self.f.blocks[b].insts[i].loc;
        let (vregs, vecs) = (self.f.vregs.len(), self.f.vecs.len());
        let mut made: SmallVec<[(Vreg, Vreg); 4]> = SmallVec::new();
        for (k, reg, width) in places {
            let mut scalars = self.f.scalars(reg, width);
            for x in scalars.iter_mut().filter(|x| self.kept[x.index()] && !self.old[x.index()]) {
                let known = made.iter().find(|m| m.1 == *x).map(|m| m.0);
                let copied = known.unwrap_or_else(|| self.f.new_vreg(File::Gpr));
                if known.is_none() {
                    made.push((copied, *x));
                }
                *x = copied;
            }
            new.operands[k as usize].value = Value::Reg(self.f.vector(&scalars));
        }
        // As if they were there: values that stay in general registers.
        let n = self.f.vregs.len();
        for list in [&mut self.kept, &mut self.old, &mut self.wanted] {
            list.resize(n, false);
        }
        for list in [&mut self.copied, &mut self.moves] {
            list.resize(n, 0);
        }
        if self.fitted(&new).is_none() {
            for list in [&mut self.kept, &mut self.old, &mut self.wanted] {
                list.truncate(vregs);
            }
            for list in [&mut self.copied, &mut self.moves] {
                list.truncate(vregs);
            }
            self.f.vregs.truncate(vregs);
            self.f.vecs.truncate(vecs);
            return false;
        }
        self.weight.resize(n, 1);
        if inside {
            made.iter().for_each(|m| self.copied[m.1.index()] += costs);
        }
        let insts = &mut self.f.blocks[b].insts;
        insts[i].op = Op::Sass(new);
        let moves = made.iter().map(|&(copied, x)| {
            let op =
                Sass::new(F::MOV_R).with(S::Rd, Reg::virt(File::Gpr, copied.0)).with(S::Rb, Reg::virt(File::Gpr, x.0));
            Inst::new(Op::Sass(op), loc)
        });
        insts.splice(i..i, moves);
        self.copies.extend(made.iter().map(|&(copied, x)| (b, copied, x)));
        true
    }

    /// Takes out copies of what did not become uniform.
    fn drop_copies(&mut self) {
        let mut of: Vec<Vreg> = Vec::new();
        let mut blocks: Vec<usize> = Vec::new();
        for (b, copied, v) in std::mem::take(&mut self.copies) {
            if self.kept[v.index()] {
                continue;
            }
            if of.is_empty() {
                of = (0..self.f.vregs.len() as u32).map(Vreg).collect();
            }
            of[copied.index()] = v;
            blocks.push(b);
        }
        blocks.sort_unstable();
        blocks.dedup();
        for b in blocks {
            rename(self.f, b, &mut |_, v| of[v.index()]);
            let gone = |d: &Operand| d.as_reg().is_some_and(|d| of[d.index() as usize] != Vreg(d.index()));
            self.f.blocks[b].insts.retain(|i| match &i.op {
                Op::Sass(s) if s.form == F::MOV_R => {
                    !s.get(S::Rd).is_some_and(|d| d.as_reg().is_some_and(Reg::is_virtual) && gone(d))
                }
                _ => true,
            });
        }
    }

    /// The block where most uniform values are alive above what there may be, and of which file.
    fn too_many(&mut self, most: u32) -> Option<(u32, File)> {
        let files = self.f.vregs.clone();
        self.rename_files();
        let live = Liveness::new(self.f, self.cfg);
        let (need, by_block) = pressures(self.f, self.cfg, &live);
        self.f.vregs = files;
        let bounds = [(File::Gpr, File::Ugpr, most), (File::Pred, File::Upred, MOST_PREDICATES)];
        let (file, uniform, _) = bounds.into_iter().find(|&(_, uniform, most)| need.max[uniform as usize] > most)?;
        let worst = self.cfg.rpo.iter().copied().max_by_key(|&b| by_block[b as usize][uniform as usize]);
        worst.map(|b| (b, file))
    }

    /// Takes out half of the values of a file that live through a block; half of what it makes, where nothing lives through it.
    fn relieve(&mut self, block: u32, file: File) {
        let live = Liveness::new(self.f, self.cfg);
        let (kept, old, files) = (&self.kept, &self.old, &self.f.vregs);
        let may = |v: &Vreg| kept[v.index()] && !old[v.index()] && files[v.index()] == file;
        let b = block as usize;
        let mut list: Vec<Vreg> = live.live_in[b].iter().chain(&live.live_out[b]).copied().filter(may).collect();
        if list.is_empty() {
            for inst in &self.f.blocks[b].insts {
                self.f.defs(&inst.op, |v| list.extend(Some(v).filter(may)));
            }
        }
        list.sort_by_key(|v| (self.weight[v.index()], v.0));
        list.dedup();
        list.truncate(list.len().div_ceil(2));
        if list.is_empty() {
            list = (0..self.kept.len() as u32).map(Vreg).filter(|v| self.kept[v.index()]).collect();
        }
        self.drop_all(&list);
        self.spread();
    }

    fn rename_files(&mut self) {
        for (file, _) in self.f.vregs.iter_mut().zip(&self.kept).filter(|x| *x.1) {
            *file = match *file {
                File::Gpr => File::Ugpr,
                File::Pred => File::Upred,
                other => other,
            };
        }
    }

    fn rewrite(&mut self) {
        self.drop_copies();
        for b in 0..self.f.blocks.len() {
            let mut insts = std::mem::take(&mut self.f.blocks[b].insts);
            let apart = self.f.blocks[b].divergent;
            for inst in &mut insts {
                self.rewrite_inst(inst, apart);
            }
            self.f.blocks[b].insts = insts;
            let mut term = std::mem::replace(&mut self.f.blocks[b].term, Term::Unreachable);
            if let Term::CondBr { cond, .. } = &mut term
                && let Some(reg) = cond.as_reg()
                && let Some(new) = self.named(reg, 1)
            {
                cond.value = Value::Reg(new);
            }
            self.f.blocks[b].term = term;
        }
        self.rename_files();
    }

    /// Puts an instruction into its new form; `apart`: threads of the warp may not all be there.
    fn rewrite_inst(&self, inst: &mut Inst, apart: bool) {
        match &mut inst.op {
            Op::Sass(s) => {
                if s.form == F::R2UR
                    && let Some(pair) = self.moved(s)
                {
                    // Where it may not be moved later it must come to its place at once, whatever it is a copy of.
                    inst.op = match apart {
                        true => Op::Sass(Sass::new(F::UMOV_U).with(S::Rd, pair.0).with(S::Rb, pair.1)),
                        false => Op::Copy(vec![pair]),
                    };
                    return;
                }
                // Without new registers it stays as it is.
                let mut mine = false;
                let mut look = |v: Vreg| mine |= self.kept[v.index()] && !self.old[v.index()];
                self.f.sass_reads(s, &mut look);
                self.f.sass_writes(s, &mut look);
                if mine && let Some(new) = self.fitted(s) {
                    *s = new;
                }
            }
            Op::Copy(pairs) => {
                for r in pairs.iter_mut().flat_map(|(d, s)| [d, s]) {
                    *r = self.named(*r, 1).unwrap_or(*r);
                }
            }
            _ => {}
        }
    }
}

/// Puts the uniform part of addresses in shared memory into the accesses: `R1 + UR2` is computed where it is read.
fn fold_addresses(f: &mut Func) {
    // By sum: its general and its uniform part.
    let mut sums: Vec<Option<(Reg, Reg)>> = Vec::new();
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        let Op::Sass(s) = &inst.op else { continue };
        let plain = |name| s.get(name).filter(|o| !o.neg && !o.inv).and_then(Operand::as_reg);
        if s.form == F::IADD3_RUR
            && s.guard == Operand::reg(Reg::PT)
            && plain(S::Rc) == Some(Reg::RZ)
            && [S::Pu, S::Pv].into_iter().all(|p| s.get(p).and_then(Operand::as_reg).is_none_or(Reg::is_const))
            && let (Some(d), Some(a), Some(b)) = (plain(S::Rd), plain(S::Ra), plain(S::Rb))
            && d.is_virtual()
            && a.is_virtual()
        {
            sums.resize(f.vregs.len(), None);
            sums[d.index() as usize] = Some((a, b));
        }
    }
    if sums.is_empty() {
        return;
    }
    let base = |s: &Sass| {
        let known = SHARED.iter().any(|x| x.0 == s.form);
        s.get(S::Ra).filter(|_| known).and_then(Operand::as_reg).filter(|r| r.is_virtual()).map(|r| r.index() as usize)
    };
    // Only where every reader takes both parts.
    let mut others = vec![false; f.vregs.len()];
    for b in 0..f.blocks.len() {
        for inst in &f.blocks[b].insts {
            let mine = if let Op::Sass(s) = &inst.op { base(s) } else { None };
            let mut seen = 0;
            f.uses(&inst.op, |v| {
                seen += (Some(v.index()) == mine) as u32;
                others[v.index()] |= Some(v.index()) != mine || seen > 1;
            });
        }
        f.term_uses(&f.blocks[b].term, |v| others[v.index()] = true);
        for e in f.blocks[b].term.edges() {
            e.args.iter().for_each(|v| others[v.index()] = true);
        }
    }
    let folded = |v: usize| sums[v].filter(|_| !others[v]);
    let mut gone = false;
    for inst in f.blocks.iter_mut().flat_map(|b| &mut b.insts) {
        let Op::Sass(s) = &mut inst.op else { continue };
        if let Some((a, b)) = base(s).and_then(folded)
            && let Some(&(_, to, slot)) = SHARED.iter().find(|x| x.0 == s.form)
        {
            let mut new = Sass::new(to).guarded(s.guard);
            for (o, place) in s.operands.iter().zip(s.form().slots) {
                new.set(place.name, *o);
            }
            for (&m, field) in s.mods.iter().zip(s.form().mods) {
                new.set_mod(field.name, m);
            }
            *s = new.with(S::Ra, a).with(slot, b);
            gone = true;
        }
    }
    if gone {
        for block in &mut f.blocks {
            block.insts.retain(|i| match &i.op {
                Op::Sass(s) if s.form == F::IADD3_RUR => {
                    let d = s.get(S::Rd).and_then(Operand::as_reg).filter(|r| r.is_virtual());
                    d.is_none_or(|d| folded(d.index() as usize).is_none())
                }
                _ => true,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    fn after(body: &str) -> Func {
        on(90, body)
    }

    fn on(sm: u16, body: &str) -> Func {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        verify::ssa(&f).unwrap();
        run(&mut f, sm, MOST);
        verify::ssa(&f).unwrap();
        f
    }

    fn names(f: &Func, b: usize) -> Vec<&'static str> {
        let name = |i: &Inst| if let Op::Sass(s) = &i.op { s.form().name } else { "copy" };
        f.blocks[b].insts.iter().map(name).collect()
    }

    #[test]
    fn numbers_of_ctas_are_uniform() {
        let f = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    S2R Rd=%r1 Sr=0x21\n    IMAD_RIR Rd=%r2 Ra=%r0 Rb=64\n    IADD3_RRR Rd=%r3 Ra=%r2 Rb=%r1\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    exit\n",
        );
        assert_eq!(names(&f, 0), ["S2UR", "S2R", "UIMAD_UIU", "IADD3_RUR", "STG"]);
    }

    #[test]
    fn what_a_reader_does_not_take_stays() {
        let f = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    IMAD_RIR Rd=%r2 Ra=%r0 Rb=64\n    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    exit\n",
        );
        assert_eq!(names(&f, 0), ["S2R", "IMAD_RIR", "STG"]);
    }

    /// An instruction takes one uniform operand, be it a pair; the other one stays whole.
    #[test]
    fn of_two_operands_one_is_uniform() {
        let f = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    LDC Rd=%r1 Const=c[0][584]\n    LDC.Size=5 Rd={%r2,%r3} Const=c[0][552]\n    \
             IMAD_WIDE_RRR Rd={%r4,%r5} Ra=%r0 Rb=%r1 Rc={%r2,%r3}\n    STG.Size=4 Ra={%r4,%r5} Rb=%r0 URc=UR4\n    exit\n",
        );
        assert_eq!(names(&f, 0), ["S2R", "LDC", "ULDC", "IMAD_WIDE_RRU", "STG"]);
        let f = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    LDC.Size=5 Rd={%r2,%r3} Const=c[0][552]\n    ISETP_RR.Cmp=1.Sign=0 Pu=%p6 Ra=%r2 Rb=%r0\n    \
             ISETPX_RR.Cmp=1 Pu=%p7 Ra=%r3 Rb=RZ Pr=%p6\n    SEL_RI Rd=%r8 Ra=%r0 Rb=5 Pp=%p7\n    STG.Size=4 Ra=RZ Rb=%r8 URc=UR4\n    exit\n",
        );
        assert_eq!(names(&f, 0), ["S2R", "ULDC", "ISETP_RU", "ISETPX_RU", "SEL_RI", "STG"]);
    }

    #[test]
    fn nothing_is_computed_where_threads_are_apart() {
        let f = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    S2R Rd=%r1 Sr=0x21\n    ISETP_RI Pu=%p4 Ra=%r1 Rb=5\n    brif %p4, blk1(), blk2()\nblk1(): depth=0 divergent\n    IMAD_RIR Rd=%r2 Ra=%r0 Rb=64\n    IADD3_RRR Rd=%r3 Ra=%r2 Rb=%r1\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    br blk2()\nblk2(): depth=0\n    exit\n",
        );
        assert_eq!(names(&f, 1), ["IMAD_RIR", "IADD3_RRR", "STG"]);
    }

    #[test]
    fn counters_of_loops_are_uniform_and_end_them() {
        let f = after(
            "blk0(): depth=0\n    MOV_R Rd=%r0\n    S2R Rd=%r1 Sr=0x21\n    br blk1(%r0)\nblk1(%r2): depth=1\n    IADD3_RRR Rd=%r3 Ra=%r1 Rb=%r2\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    IADD3_RIR Rd=%r4 Ra=%r2 Rb=1\n    ISETP_RI.Cmp=1 Pu=%p5 Ra=%r4 Rb=9\n    brif %p5, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r4)\nblk3(): depth=0\n    exit\n",
        );
        assert_eq!(names(&f, 0), ["UMOV_U", "S2R"]);
        assert_eq!(names(&f, 1)[0], "IADD3_RUR");
        assert!(names(&f, 1).contains(&"UIADD3_UIU"), "{:?}", names(&f, 1));
    }

    #[test]
    fn constants_at_uniform_places_are_loaded_there() {
        let f = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    S2R Rd=%r1 Sr=0x21\n    LDC Rd=%r2 Ra=%r0 Const=c[0x3][0x10]\n    IADD3_RRR Rd=%r3 Ra=%r2 Rb=%r1\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    exit\n",
        );
        assert_eq!(names(&f, 0), ["S2UR", "S2R", "ULDC_R", "IADD3_RUR", "STG"]);
    }

    #[test]
    fn what_moves_are_computed_of_is_copied_for_other_readers() {
        // IADD3 takes no uniform register beside an immediate: it gets a copy, and the move to a uniform register goes.
        let body = |move_it: &str| {
            format!(
                "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    IMAD_RIR Rd=%r1 Ra=%r0 Rb=64\n{move_it}    IADD3_RIR Rd=%r2 Ra=%r1 Rb=8\n    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    exit\n"
            )
        };
        let f = after(&body("    R2UR Rd=%ur3 Ra=%r1\n    STS_U Ra=RZ URc=%ur3 Rb=RZ\n"));
        assert_eq!(names(&f, 0), ["S2UR", "UIMAD_UIU", "copy", "STS_U", "MOV_U", "IADD3_RIR", "STG"]);
        // Without the move it is not worth a copy.
        assert_eq!(names(&after(&body("")), 0), ["S2R", "IMAD_RIR", "IADD3_RIR", "STG"]);
    }

    /// A loop with a counter, of which the numbers in `readers` are made by instructions that take no uniform register beside an immediate.
    fn counting(readers: &str) -> Func {
        after(&format!(
            "blk0(): depth=0\n    MOV_R Rd=%r0\n    br blk1(%r0)\nblk1(%r2): depth=1\n{readers}    IADD3_RIR Rd=%r4 Ra=%r2 Rb=1\n    ISETP_RI.Cmp=1 Pu=%p5 Ra=%r4 Rb=9\n    brif %p5, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r4)\nblk3(): depth=0\n    exit\n"
        ))
    }

    /// `n` threads' numbers and a CTA's live into a block that stores them all, and the latter beside an immediate.
    fn crowd(sm: u16, n: usize) -> Func {
        let each = |line: &dyn Fn(usize) -> String| (10..10 + n).map(line).collect::<String>();
        let made = each(&|r| format!("    S2R Rd=%r{r} Sr=0x21\n"));
        let read = each(&|r| format!("    STG.Size=4 Ra=RZ Rb=%r{r} URc=UR4\n"));
        on(
            sm,
            &format!(
                "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n{made}    br blk1()\nblk1(): depth=0\n{read}    IADD3_RIR Rd=%r2 Ra=%r0 Rb=8\n    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    exit\n"
            ),
        )
    }

    #[test]
    fn copies_save_registers_where_many_values_live() {
        assert_eq!(crowd(90, 1).vregs[0], File::Gpr);
        // Where there is no move from a uniform register.
        assert_eq!(crowd(80, 8).vregs[0], File::Gpr);
        let f = crowd(90, 8);
        assert_eq!((f.vregs[0], names(&f, 0)[0]), (File::Ugpr, "S2UR"));
        assert_eq!(names(&f, 1)[8..], ["MOV_U", "IADD3_RIR", "STG"]);
    }

    #[test]
    fn what_lives_into_a_crowded_loop_is_copied_once() {
        let once = "    IADD3_RIR Rd=%r3 Ra=%r2 Rb=8\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n";
        let f = counting(once);
        assert_eq!(names(&f, 1), ["MOV_U", "IADD3_RIR", "STG", "UIADD3_UIU", "UISETP_UI"]);
        // Two moves in each iteration are more than a register is worth.
        let f = counting(&format!("{once}{}", once.replace("%r3", "%r6").replace('8', "24")));
        assert_eq!(names(&f, 1), ["IADD3_RIR", "STG", "IADD3_RIR", "STG", "IADD3_RIR", "ISETP_RI"]);
        assert_eq!(f.vregs[2], File::Gpr);
        // They are worth two that go to uniform registers.
        let moved = "    R2UR Rd=%ur20 Ra=%r2\n    STS_U Ra=RZ URc=%ur20 Rb=RZ\n";
        let f = counting(&format!(
            "{moved}{}{once}{}",
            moved.replace("20", "21"),
            once.replace("%r3", "%r6").replace('8', "24")
        ));
        assert_eq!((f.vregs[2], names(&f, 1).iter().filter(|n| **n == "MOV_U").count()), (File::Ugpr, 2));
    }

    #[test]
    fn a_pair_of_which_both_are_uniform_is_copied_whole() {
        let f = after(
            "blk0(): depth=0\n    MOV_R Rd=%r0\n    br blk1(%r0, %r0)\nblk1(%r2, %r7): depth=1\n    LDG UR=UR4 Rd=%r6 Ra={%r2,%r7}\n    STG.Size=4 Ra=RZ Rb=%r6 URc=UR4\n    IADD3_RIR Rd=%r4 Ra=%r2 Rb=1\n    IADD3_RIR Rd=%r8 Ra=%r7 Rb=2\n    ISETP_RI.Cmp=1 Pu=%p5 Ra=%r4 Rb=9\n    brif %p5, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r4, %r8)\nblk3(): depth=0\n    exit\n",
        );
        assert_eq!(names(&f, 1), ["MOV_U", "MOV_U", "LDG", "STG", "UIADD3_UIU", "UIADD3_UIU", "UISETP_UI"]);
    }

    #[test]
    fn sides_of_a_branch_do_not_share_uniform_registers() {
        // The value for the second side must not lie where the first side writes.
        let f = text::parse(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2UR Rd=%ur0 Sr=0x25\n    S2R Rd=%r1 Sr=0x21\n    ISETP_RI Pu=%p2 Ra=%r1 Rb=5\n    brif %p2, blk1(), blk2()\nblk1(): depth=0 divergent\n    R2UR Rd=%ur3 Ra=%r1\n    IADD3_RUR Rd=%r4 Ra=%r1 Rb=%ur3\n    STG.Size=4 Ra=RZ Rb=%r4 URc=UR4\n    br blk3()\nblk2(): depth=0 divergent\n    IADD3_RUR Rd=%r5 Ra=%r1 Rb=%ur0\n    STG.Size=4 Ra=RZ Rb=%r5 URc=UR4\n    br blk3()\nblk3(): depth=0\n    exit\n}\n",
        )
        .unwrap()
        .remove(0);
        let live = Liveness::new(&f, &f.cfg());
        assert!(live.live_in[1].contains(&Vreg(0)) && live.live_out[1].contains(&Vreg(0)));
    }
}
