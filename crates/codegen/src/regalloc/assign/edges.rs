//! Where values are when a block begins and ends, and the moves between places.

use super::super::Note;
use super::super::parcopy::{Step, note, through};
use super::{APART, Assign, FREE};
use crate::mir::{Inst, Op, Term, Vreg};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

impl Assign<'_> {
    /// The block that `b` takes the places of values from: the busiest of those before it, of these one with products under way, where moves would wait,
    /// and the first of them.
    pub(super) fn source(&self, b: u32) -> Option<u32> {
        let index = |p: u32| self.cfg.rpo_index[p as usize];
        let before = self.cfg.preds[b as usize].iter().copied().filter(|&p| index(p) < index(b));
        before.max_by_key(|&p| (self.f.blocks[p as usize].depth, self.brings(p, b), std::cmp::Reverse(index(p))))
    }

    pub(super) fn enter(&mut self, b: u32) {
        let bi = b as usize;
        let Some(p) = self.source(b) else { return };
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
            self.gather(bi);
            return;
        }
        let nth = self.f.blocks[pi].term.edges().iter().position(|e| e.block.0 == b);
        let args = nth.map(|n| self.arg_loc[pi][n].clone()).unwrap_or_default();
        let mut left = Vec::new();
        let idle: SmallVec<[bool; 16]> = params.iter().map(|p| self.idle.get(p.index()) == Some(&true)).collect();
        for (n, &p) in params.iter().enumerate().filter(|x| !idle[x.0]) {
            let file = self.file(p);
            match args.get(n) {
                Some(&r)
                    if self.banks[file].free(r as usize)
                        && !(file == File::Gpr as usize
                            && (self.changed(p, r as usize) || self.in_way(p, r as usize))) =>
                {
                    self.occupy(p, r as usize)
                }
                _ => left.push(p),
            }
        }
        for p in left {
            self.place_new(p);
        }
        for (n, &p) in params.iter().enumerate().filter(|x| idle[x.0]) {
            self.place_flown(b, n, p);
        }
        self.param_loc[bi] = params.iter().map(|p| self.loc[p.index()]).collect();
        self.gather(bi);
        for p in params {
            self.release_if_dead(p, 0);
        }
    }

    pub(super) fn leave(&mut self, b: usize) {
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

    pub(super) fn edges(&mut self, notes: &mut [Vec<Note>]) {
        for bi in 0..self.f.blocks.len() {
            if !self.cfg.reachable(bi as u32) {
                continue;
            }
            let targets: Vec<u32> = self.f.blocks[bi].term.successors().iter().map(|s| s.0).collect();
            for (n, &s) in targets.iter().enumerate() {
                let si = s as usize;
                self.set_limit(s);
                let mut pairs = Vec::new();
                let mut at = 0;
                for (k, &v) in self.live.live_in[si].iter().enumerate() {
                    while self.live.live_out[bi][at] != v {
                        at += 1;
                    }
                    let file = self.f.vregs[v.index()];
                    let (d, r) = (self.entry_loc[si][k], self.exit_loc[bi][at]);
                    pairs.push((Reg::phys(file, d), Reg::phys(file, r)));
                }
                for (k, p) in self.f.blocks[si].params.iter().enumerate() {
                    let file = self.f.vregs[p.index()];
                    let d = self.param_loc[si][k];
                    // What it is does not matter, only that nothing is put there.
                    let idle = self.idle.get(p.index()) == Some(&true);
                    let edges = self.f.blocks[bi].term.edges();
                    let arg = edges.get(n).and_then(|e| e.args.get(k));
                    let any = arg.is_some_and(|v| self.undefined.get(v.index()) == Some(&true));
                    let r = if idle || any { d } else { self.arg_loc[bi][n][k] };
                    pairs.push((Reg::phys(file, d), Reg::phys(file, r)));
                }
                if pairs.iter().all(|(d, s)| d == s) {
                    continue;
                }
                let mut busy = [[false; 256]; 4];
                pairs.iter().for_each(|(d, _)| busy[d.file() as usize][d.index() as usize] = true);
                pairs.retain(|(d, s)| d != s);
                let at_end = targets.len() == 1;
                let home = if at_end { bi } else { si };
                let apart = self.f.blocks[home].divergent || self.f.blocks[bi].divergent;
                if apart && pairs.iter().any(|(d, _)| matches!(d.file(), File::Ugpr | File::Upred)) {
                    self.fail_uniform(APART);
                }
                self.sequence(&pairs, u32::MAX, &busy);
                let (moves, new) = (std::mem::take(&mut self.out), std::mem::take(&mut self.notes));
                let place = if at_end { self.f.blocks[home].insts.len() } else { 0 };
                self.f.blocks[home].insts.splice(place..place, moves);
                notes[home].splice(place..place, new);
            }
        }
    }

    /// Emits a parallel copy; registers that are free may be used in between.
    pub(super) fn moves(&mut self, pairs: &[(Reg, Reg)], loc: u32) {
        if pairs.is_empty() {
            return;
        }
        let mut busy = [[false; 256]; 4];
        for (f, bank) in self.banks.iter().enumerate() {
            busy[f].iter_mut().zip(&bank.occ).for_each(|(b, o)| *b = *o != FREE);
        }
        pairs.iter().for_each(|(d, _)| busy[d.file() as usize & 3][d.index() as usize & 255] = true);
        self.sequence(pairs, loc, &busy);
    }

    /// Emits a parallel copy. `busy`: registers whose values are needed behind it. Others are free when there are only cycles left.
    pub(super) fn sequence(&mut self, pairs: &[(Reg, Reg)], loc: u32, busy: &[[bool; 256]; 4]) {
        let Assign { banks, out, notes, slot, done, .. } = self;
        let scratch = |file: File| {
            let bank = &banks[file as usize];
            (0..bank.limit).find(|&r| bank.usable[r] && !busy[file as usize][r]).map(|r| Reg::phys(file, r as u8))
        };
        let (number, at) = (slot.map_or(0, |s| s.number), slot.map(|s| s.at));
        through(pairs, scratch, at, |s, step| {
            out.push(Inst::new(Op::Sass(s), loc));
            done.through_slot += u32::from(matches!(step, Some(Step::Store(_))));
            notes.push(note(step, number));
        });
    }

    pub(super) fn copy(&mut self, at: u32, pairs: &[(Reg, Reg)], loc: u32) {
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
            // What is copied so that it lies elsewhere goes there.
            if let Some(home) = self.kept_for(Vreg(d.index())) {
                self.occupy(Vreg(d.index()), home);
                continue;
            }
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
}
