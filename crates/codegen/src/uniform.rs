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

mod addresses;
mod copies;
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
                addresses::fold(f);
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
    /// Those of them that are still to be put in the block at hand, and before which of its instructions: the last first.
    ahead: Vec<(usize, Inst)>,
    /// Of several operands of which an instruction takes one it is chosen which.
    chooses: bool,
    /// By value: copies of it in loops, as often as these are taken to run. One is as much as a register is worth.
    copied: Vec<u32>,
    /// By value: moves to uniform registers in loops that are computed of it, as often as these are taken to run.
    moves: Vec<u32>,
    /// Values that are moved to uniform registers from general ones ([`leaves`]).
    leaf: Vec<bool>,
    /// By block: how many instructions it had, and which of them read or make what is kept. That only becomes less.
    concerned: Vec<(usize, Vec<Concerned>)>,
}

/// An instruction that reads or makes what is kept.
#[derive(Clone, Copy)]
struct Concerned {
    /// Its place in the block.
    at: u32,
    /// Which of its values were kept when it was found to have a form for that, a bit each; 0: none is known.
    fits: u64,
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
        let (wanted, copies, ahead, copied) = (Vec::new(), Vec::new(), Vec::new(), vec![0; n]);
        let moves = Vec::new();
        let concerned = vec![(0, Vec::new()); f.blocks.len()];
        let leaf = Vec::new();
        Some(Pass {
            f,
            cfg,
            sm,
            kept,
            old,
            weight,
            wanted,
            copies,
            ahead,
            copied,
            moves,
            chooses: true,
            leaf,
            concerned,
        })
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
    fn named(&self, reg: Reg) -> Option<Reg> {
        if !reg.is_virtual() {
            return Some(reg);
        }
        let (mut any, mut all) = (false, true);
        self.f.each_scalar(reg, |v| {
            any |= self.kept[v.index()];
            all &= self.kept[v.index()];
        });
        let file = match (reg.file(), all) {
            (File::Gpr, true) => File::Ugpr,
            (File::Pred, true) => File::Upred,
            (file, _) => file,
        };
        (any == all).then_some(reg.in_file(file))
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
                        _ => self.named(reg)?,
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
            let guard = self.named(guard)?;
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
                self.f.each_scalar(p.reg, |v| uniform |= self.kept[v.index()] && !self.old[v.index()]);
            }
        });
        if uniform {
            let (to, from) = (s.get(S::Rd).and_then(Operand::as_reg), s.get(S::Rb).and_then(Operand::as_reg));
            if let (F::MOV_R, Some(to), Some(from)) = (s.form, to, from)
                && self.leaf.get(to.index() as usize) == Some(&true)
            {
                return Some(Sass::new(F::R2UR).with(S::Rd, self.named(to)?).with(S::Ra, from));
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
            let n = self.f.blocks[b as usize].insts.len();
            let (known, mut list) = std::mem::take(&mut self.concerned[b as usize]);
            if known != n {
                list = (0..n as u32).rev().map(|at| Concerned { at, fits: 0 }).collect();
            }
            list.retain_mut(|c| {
                let (any, kept) = self.kept_of(b as usize, c.at as usize);
                if any && (c.fits == 0 || c.fits != kept) {
                    c.fits = 0;
                    match self.looked(b as usize, c.at as usize) {
                        Some(dropped) => changed |= dropped,
                        None => c.fits = kept,
                    }
                }
                any
            });
            // Behind copies all stand elsewhere.
            self.put_copies(b as usize);
            self.concerned[b as usize] = (n, list);
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

    /// Whether an instruction reads or makes what is kept and was not uniform before, and which of its values are kept: a bit each in the order of `uses` and
    /// `defs`; 0 where they are too many for that.
    fn kept_of(&self, b: usize, i: usize) -> (bool, u64) {
        let op = &self.f.blocks[b].insts[i].op;
        let (mut any, mut kept, mut n) = (false, 0u64, 0);
        let mut look = |v: Vreg| {
            let k = self.kept[v.index()];
            any |= k && !self.old[v.index()];
            kept = kept << 1 | u64::from(k);
            n += 1;
        };
        self.f.uses(op, &mut look);
        self.f.defs(op, &mut look);
        (any, if n <= u64::BITS { kept } else { 0 })
    }

    /// Looks at one instruction; true if something was taken out.
    fn check(&mut self, b: usize, i: usize) -> bool {
        self.kept_of(b, i).0 && self.looked(b, i) == Some(true)
    }

    /// Looks at an instruction that reads or makes what is kept; true if something was taken out, `None` if it has a form for what is kept.
    fn looked(&mut self, b: usize, i: usize) -> Option<bool> {
        let op = &self.f.blocks[b].insts[i].op;
        let mine = |v: Vreg| self.kept[v.index()] && !self.old[v.index()];
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
                return Some(self.drop_all(&bad));
            }
            _ => {
                values.extend(defs);
                return Some(self.drop_all(&values));
            }
        };
        if self.fitted(s).is_some() {
            return None;
        }
        let s = s.clone();
        if !defs.is_empty() {
            return Some(self.drop_all(&defs) | self.check(b, i));
        }
        // The operand that the least hangs on, if that is enough.
        values.sort_by_key(|v| (self.weight[v.index()], v.0));
        let mut operands: SmallVec<[SmallVec<[Vreg; 2]>; 4]> = SmallVec::new();
        sass_uses(&s, |p| {
            let mut of: SmallVec<[Vreg; 2]> = SmallVec::new();
            self.f.each_scalar(p.reg, |v| of.extend(Some(v).filter(|v| p.reg.is_virtual() && values.contains(v))));
            if !of.is_empty() {
                operands.push(of);
            }
        });
        if operands.len() > 1 && !self.chooses {
            return Some(false);
        }
        operands.sort_by_key(|of| of.iter().map(|v| (self.weight[v.index()], v.0)).max());
        for of in operands.iter().filter(|of| of.iter().all(|v| !self.wanted[v.index()])) {
            of.iter().for_each(|v| self.kept[v.index()] = false);
            if self.fitted(&s).is_some() {
                return Some(true);
            }
            of.iter().for_each(|v| self.kept[v.index()] = true);
        }
        let unwanted: SmallVec<[Vreg; 8]> = values.iter().copied().filter(|v| !self.wanted[v.index()]).collect();
        if !unwanted.is_empty() {
            return Some(self.drop_all(&unwanted) | self.check(b, i));
        }
        for &v in &values {
            if self.copy(b, i, v) {
                return Some(false);
            }
        }
        for &v in &values {
            self.kept[v.index()] = false;
            if self.fitted(&s).is_some() {
                return Some(true);
            }
            self.kept[v.index()] = true;
        }
        Some(self.drop_all(&values))
    }

    /// The block where most uniform values are alive above what there may be, and of which file.
    fn too_many(&mut self, most: u32) -> Option<(u32, File)> {
        // As many as there may be at once, all together: nothing is to be counted.
        let count = |general: File, uniform: File| {
            let kept = self.f.vregs.iter().zip(&self.kept);
            kept.filter(|&(&file, &kept)| file == uniform || kept && file == general).count() as u32
        };
        if count(File::Gpr, File::Ugpr) <= most && count(File::Pred, File::Upred) <= MOST_PREDICATES {
            return None;
        }
        let files = self.f.vregs.clone();
        self.rename_files();
        let shared = |v: Vreg| matches!(self.f.vregs[v.index()], File::Ugpr | File::Upred);
        let live = Liveness::of(self.f, self.cfg, shared);
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
                && let Some(new) = self.named(reg)
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
                    *r = self.named(*r).unwrap_or(*r);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
