//! How far the next use of each value is, which values are constants, and what loops leave room for.

use super::super::prepare;
use super::{CHAIN, FAR, LEAVE, NONE, Spiller, remat};
use crate::mir::operands::sass_uses;
use crate::mir::{Inst, Op, Vreg};
use sass::form::{ModName as M, SlotName as S};
use sass::inst::{Inst as Sass, Operand, Value};
use sass::latency::Class;
use sass::reg::{File, Reg};
use sass::{enums, forms as F};

impl Spiller<'_> {
    /// Values that are cheaper to compute again than to keep: constants, parameters, identifiers of the thread, and what a few instructions make
    /// of these alone.
    pub(super) fn find_constants(&mut self) {
        if self.file != File::Gpr {
            return;
        }
        for &b in &self.cfg.rpo {
            for inst in &self.f.blocks[b as usize].insts {
                let Op::Sass(s) = &inst.op else { continue };
                if let Some((v, price)) = self.derived(inst) {
                    self.again[v.index()] = Some(Box::new(s.clone()));
                    self.price[v.index()] = price;
                    continue;
                }
                let Some(rd) = s.get(S::Rd).and_then(Operand::as_reg).filter(|r| constant(s) && r.is_virtual()) else {
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

    /// The value that an instruction makes of one such value and nothing else that is no constant, and how many instructions make it.
    fn derived(&self, inst: &Inst) -> Option<(Vreg, u8)> {
        let Op::Sass(s) = &inst.op else { return None };
        let made = s.get(S::Rd).and_then(Operand::as_reg).filter(|r| r.is_virtual() && r.file() == File::Gpr)?;
        if !remat::simple(inst) {
            return None;
        }
        let mut from: Option<Reg> = None;
        let mut alone = true;
        sass_uses(s, |p| {
            if p.reg.is_virtual() {
                alone &= from.is_none_or(|r| r == p.reg) && p.slot.is_some() && p.reg.file() == File::Gpr;
                from = Some(p.reg);
            }
        });
        let from = from.filter(|_| alone)?.index() as usize;
        let price = self.price[from] + 1;
        (self.again[from].is_some() && price <= CHAIN).then_some((Vreg(made.index()), price))
    }

    /// Sets `next` of everything in the block to the distance from its end.
    pub(super) fn reset(&mut self, b: usize) {
        let f = &*self.f;
        let (next, lives_in) = (&mut self.next, &mut self.lives_in);
        let end = f.blocks[b].insts.len() as u32 + 1;
        let mut clear = |v: Vreg| {
            next[v.index()] = FAR;
            lives_in[v.index()] = b as u32;
        };
        for inst in &f.blocks[b].insts {
            f.defs(&inst.op, &mut clear);
        }
        f.blocks[b].params.iter().copied().for_each(&mut clear);
        if b == 0 {
            f.live_in.iter().for_each(|v| clear(v.0));
        }
        self.live.live_in[b].iter().chain(&self.live.live_out[b]).copied().for_each(clear);
        let edges = f.blocks[b].term.edges();
        for (n, s) in f.blocks[b].term.successors().into_iter().enumerate() {
            let s = s.0 as usize;
            let leave = f.blocks[b].depth.saturating_sub(f.blocks[s].depth) * LEAVE;
            let add = |d: u32| d.saturating_add(end).saturating_add(leave);
            // Back to the beginning of a loop.
            let back =
                self.cfg.rpo_index[s] <= self.cfg.rpo_index[b] && self.held_in[s].len() == self.live.live_in[s].len();
            if back {
                let round =
                    |d: u32, held: u32| if held != FAR { end } else { add(d).saturating_add(LEAVE).min(FAR - 1) };
                for ((v, &d), &held) in self.live.live_in[s].iter().zip(&self.dist_in[s]).zip(&self.held_in[s]) {
                    next[v.index()] = next[v.index()].min(round(d, held));
                }
                if let Some(e) = edges.get(n) {
                    for ((v, &d), &held) in e.args.iter().zip(&self.dist_params[s]).zip(&self.held_params[s]) {
                        next[v.index()] = next[v.index()].min(round(d, held));
                    }
                }
                continue;
            }
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

    /// Finds how far the next uses are, by so many walks over the blocks at most.
    pub(super) fn distances(&mut self, rounds: u32) {
        for _ in 0..rounds {
            let mut any = false;
            for i in (0..self.cfg.rpo.len()).rev() {
                let b = self.cfg.rpo[i] as usize;
                if !std::mem::take(&mut self.stale[b]) {
                    continue;
                }
                let mut changed = false;
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
                if changed {
                    any = true;
                    self.cfg.preds[b].iter().for_each(|&p| self.stale[p as usize] = true);
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Chooses what is in registers where loops begin, of which each block has so many; false where there are no loops.
    pub(super) fn hold(&mut self, full: &dyn Fn(u32) -> usize) -> bool {
        let loops = self.loop_pressure();
        let mut any = false;
        for &b in &self.cfg.rpo {
            let bi = b as usize;
            if !prepare::has_back_edge(self.cfg, b) {
                continue;
            }
            any = true;
            let (values, params) = (&self.live.live_in[bi], &self.f.blocks[bi].params);
            let all = values.iter().zip(&self.dist_in[bi]).map(|x| (x, false));
            let all = all.chain(params.iter().zip(&self.dist_params[bi]).map(|x| (x, true)));
            // How soon it is needed: what the loop changes is needed at once. Value, place among the values that live in, or behind them among the parameters.
            let rank = |d: u32, param: bool| if param && d < LEAVE { 0 } else { d };
            let list = all.enumerate().filter(|x| self.mine(*x.1.0.0));
            let mut list: Vec<(u32, Vreg, usize)> = list.map(|(i, ((&v, &d), param))| (rank(d, param), v, i)).collect();
            // First what the loop uses; of what only lives through it, as much as leaves the loop enough.
            let k = full(b);
            let through = list.iter().filter(|x| x.0 >= LEAVE).count();
            let used = list.len() - through;
            let pressure = loops[bi].unwrap_or(k + through);
            let inside = pressure.saturating_sub(through);
            self.held_most[bi] = k.min(used + k.saturating_sub(inside.max(used)));
            if used > k {
                list.select_nth_unstable(k);
                list.truncate(k);
            }
            let mut held = vec![FAR; values.len() + params.len()];
            list.iter().for_each(|x| held[x.2] = x.0);
            self.held_params[bi] = held.split_off(values.len());
            self.held_in[bi] = held;
            self.cfg.preds[bi].iter().for_each(|&p| self.stale[p as usize] = true);
        }
        any
    }

    /// Largest pressure in each loop, by header block; `None` elsewhere.
    pub(super) fn loop_pressure(&self) -> Vec<Option<usize>> {
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
}

/// Is it a constant, a parameter or an identifier of the thread that the instruction gives?
pub fn constant(s: &Sass) -> bool {
    let zero = |name| s.get(name).and_then(Operand::as_reg).is_none_or(|r| r == Reg::RZ);
    s.guard == Operand::reg(Reg::PT)
        && match s.form {
            F::MOV_I => true,
            F::MOV_R => zero(S::Rb),
            F::LDC => zero(S::Ra) && s.modifier(M::Mode) == 0,
            F::S2R => s.form().class == Class::SpecialReg && stable_register(s),
            _ => false,
        }
}

/// Special registers that never change while a thread runs.
fn stable_register(s: &Sass) -> bool {
    use enums::sr;
    let Some(Value::Imm(n)) = s.get(S::Sr).map(|o| o.value) else { return false };
    let n = n.get();
    [sr::LANEID, sr::TID_X, sr::TID_Y, sr::TID_Z, sr::CTAID_X, sr::CTAID_Y, sr::CTAID_Z].contains(&(n as u8))
        || (sr::EQMASK as i64..=sr::GEMASK as i64).contains(&n)
}
