//! Which values should meet in one register: block parameters and their arguments, components of vectors.

use super::{Assign, FREE};
use crate::mir::operands::{sass_defs, sass_uses};
use crate::mir::{Func, Op, Term, Vreg};
use rustc_hash::FxHashMap;
use sass::form::SlotName as S;
use sass::inst::Operand;
use sass::latency::Class;
use sass::reg::{File, Reg};

impl Assign<'_> {
    pub(super) fn hints(&mut self) {
        for &b in self.cfg.rpo.iter().rev() {
            let block = &self.f.blocks[b as usize];
            if let Term::Ret(values) = &block.term {
                values.iter().for_each(|&(v, r)| self.fixed_hint[v.index()] = r.index() as u8);
            }
            for inst in block.insts.iter().rev() {
                match &inst.op {
                    Op::Sass(s) => {
                        let (vecs, hint) = (&self.f.vecs, &mut self.vec_hint);
                        sass_uses(s, |p| {
                            if p.reg.is_virtual() && p.width > 1 {
                                for (n, v) in vecs[p.reg.index() as usize].iter().enumerate() {
                                    hint[v.index()] = (p.reg.index(), n as u8);
                                }
                            }
                        });
                    }
                    Op::Call(c) => c.args.iter().for_each(|&(v, r)| self.fixed_hint[v.index()] = r.index() as u8),
                    _ => {}
                }
            }
        }
        self.share_sums();
        // By value: the last edge that gives it to a parameter. What one edge gives to several, as the zero that sums begin with, meets the first of them.
        let mut given = vec![0; self.f.vregs.len()];
        let mut edge = 0;
        let mut met: Vec<(Vreg, Vreg)> = Vec::new();
        for b in 0..self.f.blocks.len() {
            let mut pairs: Vec<(Vreg, Vreg)> = Vec::new();
            for e in self.f.blocks[b].term.edges() {
                edge += 1;
                let all = self.f.blocks[e.block.0 as usize].params.iter().copied().zip(e.args.iter().copied());
                pairs.extend(all.filter(|&(_, v)| std::mem::replace(&mut given[v.index()], edge) != edge));
            }
            // Copies of uniform registers stand for moves that were between two files.
            let copies = self.f.blocks[b].insts.iter().filter_map(|i| match &i.op {
                Op::Copy(list) => Some(list.iter()),
                _ => None,
            });
            let uniform = |r: &Reg| r.is_virtual() && r.file() == File::Ugpr;
            let copies = copies.flatten().filter(|(d, s)| uniform(d) && uniform(s));
            pairs.extend(copies.map(|(d, s)| (Vreg(d.index()), Vreg(s.index()))));
            for (p, v) in pairs {
                met.push((p, v));
                let (p, v) = (self.rep(p), self.rep(v));
                self.web[v] = p as u32;
            }
        }
        self.sums(&met);
        self.share_vectors();
    }

    /// The sums of a warpgroup's products are added to in place: what one product gives and the next adds to have the place of
    /// what the first of them adds to.
    fn share_sums(&mut self) {
        let mut first: Vec<u32> = Vec::new();
        // By a vector's first scalar: the vector that the products before it begin with.
        let mut of: FxHashMap<Vreg, u32> = FxHashMap::default();
        for &b in &self.cfg.rpo {
            for inst in &self.f.blocks[b as usize].insts {
                let Op::Sass(s) = &inst.op else { continue };
                if s.form().class != Class::Gmma {
                    continue;
                }
                let vector = |name| s.get(name).and_then(Operand::as_reg).filter(|r| r.is_virtual()).map(|r| r.index());
                let Some(to) = vector(S::Rd) else { continue };
                let list = &self.f.vecs[to as usize];
                let from = match vector(S::Rc) {
                    Some(c) if self.f.vecs[c as usize].len() == list.len() => {
                        of.get(&self.f.vecs[c as usize][0]).copied().unwrap_or(c)
                    }
                    _ => to,
                };
                of.insert(list[0], from);
                first.push(to);
            }
        }
        for to in first {
            let from = of[&self.f.vecs[to as usize][0]];
            for n in 0..self.f.vecs[to as usize].len() {
                let v = self.f.vecs[to as usize][n];
                let hint = &mut self.vec_hint[v.index()];
                if hint.0 == FREE || self.f.vecs[hint.0 as usize].len() <= self.f.vecs[to as usize].len() {
                    *hint = (from, n as u8);
                }
            }
        }
    }

    /// Values that should meet in one register also share the place of the widest vector that one of them is part of: the
    /// first of them to get a register is often a constant before a loop, and the vector inside.
    pub(super) fn share_vectors(&mut self) {
        let mut best: Vec<(u32, u8)> = self.vec_hint.clone();
        for b in 0..self.f.blocks.len() {
            for i in 0..self.f.blocks[b].insts.len() {
                let Op::Sass(s) = &self.f.blocks[b].insts[i].op else { continue };
                let (f, hint) = (&*self.f, &mut best);
                sass_defs(s, |p| {
                    if p.reg.is_virtual() && p.width > 1 {
                        for (n, v) in f.vecs[p.reg.index() as usize].iter().enumerate() {
                            if hint[v.index()].0 == FREE {
                                hint[v.index()] = (p.reg.index(), n as u8);
                            }
                        }
                    }
                });
            }
        }
        // The widest; of equal ones the first, so that all components agree.
        let mut of_web: Vec<(u32, u8)> = vec![(FREE, 0); best.len()];
        let rank = |f: &Func, h: (u32, u8)| (f.vecs[h.0 as usize].len(), std::cmp::Reverse(h.0));
        for (v, &h) in best.iter().enumerate() {
            let rep = self.rep(Vreg(v as u32));
            if h.0 != FREE && (of_web[rep].0 == FREE || rank(self.f, h) > rank(self.f, of_web[rep])) {
                of_web[rep] = h;
            }
        }
        for (v, &mine) in best.iter().enumerate() {
            let rep = self.rep(Vreg(v as u32));
            let alone = rep == v && self.vec_hint[v].0 == FREE && mine == of_web[rep];
            let own = self.vec_hint[v];
            if of_web[rep].0 != FREE && !alone && (own.0 == FREE || rank(self.f, of_web[rep]).0 > rank(self.f, own).0) {
                self.vec_hint[v] = of_web[rep];
            }
        }
    }
}
