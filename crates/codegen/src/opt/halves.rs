//! What is computed of both halves of words, half by half, is computed of the words.
//!
//! Products of matrices of halves without tensor cores load words, take them apart, and add products of their halves to sums that a loop carries; one half is often a factor for
//! both halves of another word. Each such operation takes an instruction, as that on a word would. Here two operations of a kind whose operands are the halves of one word become one,
//! and what reads both of their results in the same way, forward from there: through sums that parameters of blocks carry, too, which are words from then on. (`pairs.rs` goes
//! the other way: from words that are put together back.) Who reads a half as such takes it out of the word: mostly the instruction says which half it reads.
//!
//! Two values are *mates* if they are the lower and the upper half of one word, which is there or could be. All that hangs together by mates ([`weigh`]) becomes
//! words or stays: only where fewer instructions are left, those in loops counting for more. Where operations of a block cannot stand side by side, as one of them needs what comes of the
//! other, or of a load behind it ([`order`]), all that hangs together with them stays. Each value has one mate, and who could be a mate is looked for at so many places and no more: linear.

mod apply;
mod order;
#[cfg(test)]
mod tests;
mod weigh;

use crate::cfg::Cfg;
use crate::ir::{Attr, Block, Def, Fmt, Func, Inst, InstId, Op, Ty, Value};
use smallvec::SmallVec;

const NONE: u32 = u32::MAX;
/// So many readers of a value are looked at for one.
const NEAR: usize = 16;
/// So many operations are taken at once, before any other is known to have a mate.
const MANY: usize = 32;

/// Runs the pass; true if anything changed.
pub fn run(f: &mut Func) -> bool {
    let (mut computes, mut apart) = (false, false);
    for i in &f.insts {
        computes |= on_half(i);
        apart |= i.op == Op::Hi && f.ty(i.results[0]) == Ty::B16;
    }
    if !computes || !apart {
        return false;
    }
    let cfg = f.cfg();
    if cfg.rpo.len() != f.blocks.len() {
        return false;
    }
    let mut halves = Halves::new(f, &cfg);
    halves.words(f, &cfg);
    for &b in &cfg.rpo {
        halves.block(f, b as usize);
    }
    halves.brought(f, &cfg);
    let mut live = weigh::run(f, &cfg, &halves);
    let Some(orders) = order::run(f, &halves, &mut live) else { return false };
    apply::run(f, &cfg, &halves, &live, orders);
    true
}

/// An operation on one half that there is on two.
fn on_half(i: &Inst) -> bool {
    let op = matches!(i.op, Op::FAdd | Op::FMul | Op::FFma | Op::FNeg | Op::FAbs | Op::FMin | Op::FMax | Op::FSat);
    op && matches!(i.attr.fmt, Fmt::F16 | Fmt::BF16)
}

/// How the same is done with two halves.
fn on_both(attr: Attr) -> Attr {
    Attr { fmt: if attr.fmt == Fmt::F16 { Fmt::F16x2 } else { Fmt::BF16x2 }, ..attr }
}

/// What makes a pair of mates.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    /// They are taken out of this word.
    Word(Value),
    /// Two operations of a block.
    Operations(InstId, InstId),
    /// Two parameters of a block.
    Params(Block, u32, u32),
}

struct Pair {
    lo: Value,
    hi: Value,
    made: Made,
}

struct Halves {
    pairs: Vec<Pair>,
    /// By value: its pair.
    mates: Vec<u32>,
    /// By value: how often it is read.
    uses: Vec<u32>,
    /// By value: the block of the operation on halves, or conversion, that makes it.
    home: Vec<u32>,
    /// By value: where in `readers` the operations on halves begin that read it.
    first: Vec<u32>,
    readers: Vec<InstId>,
    /// By value: how many of its readers have mates for sure, from the first on.
    done: Vec<u32>,
}

/// Operations that might be the mate of another, and whether the other would be the upper one.
type Candidates = SmallVec<[(InstId, bool); 8]>;

impl Halves {
    fn new(f: &Func, cfg: &Cfg) -> Halves {
        let n = f.values.len();
        let mut first = vec![0u32; n + 1];
        let mut home = vec![NONE; n];
        for &b in &cfg.rpo {
            for &id in &f.blocks[b as usize].insts {
                let inst = f.inst(id);
                if on_half(inst) {
                    inst.args.iter().for_each(|a| first[a.index() + 1] += 1);
                } else if inst.op != Op::F2F {
                    continue;
                }
                home[inst.results[0].index()] = b;
            }
        }
        for v in 0..n {
            first[v + 1] += first[v];
        }
        let mut readers = vec![InstId(0); first[n] as usize];
        let mut next = first.clone();
        for &b in &cfg.rpo {
            for &id in f.blocks[b as usize].insts.iter().filter(|&&i| on_half(f.inst(i))) {
                for a in &f.inst(id).args {
                    readers[next[a.index()] as usize] = id;
                    next[a.index()] += 1;
                }
            }
        }
        Halves { pairs: Vec::new(), mates: vec![NONE; n], uses: super::uses(f), home, first, readers, done: vec![0; n] }
    }

    fn pair(&self, v: Value) -> Option<&Pair> {
        self.pairs.get(self.mates[v.index()] as usize)
    }

    /// The pair of which two values are the lower and the upper half.
    fn both(&self, lo: Value, hi: Value) -> Option<u32> {
        let pair = self.pair(lo).filter(|p| p.lo == lo && p.hi == hi);
        pair.map(|_| self.mates[lo.index()])
    }

    fn alone(&self, v: Value) -> bool {
        self.mates[v.index()] == NONE
    }

    fn add(&mut self, lo: Value, hi: Value, made: Made) {
        self.mates[lo.index()] = self.pairs.len() as u32;
        self.mates[hi.index()] = self.pairs.len() as u32;
        self.pairs.push(Pair { lo, hi, made });
    }

    /// Takes back what was added behind the first `n` pairs.
    fn undo(&mut self, n: usize) {
        for p in self.pairs.drain(n..) {
            self.mates[p.lo.index()] = NONE;
            self.mates[p.hi.index()] = NONE;
        }
    }

    /// Two parameters of a block, each without a mate, become mates; false if they are not that.
    fn params(&mut self, f: &Func, lo: Value, hi: Value) -> bool {
        let (Def::Param(b, l), Def::Param(c, h)) = (f.def(lo), f.def(hi)) else { return false };
        let halves = f.ty(lo) == Ty::B16 && f.ty(hi) == Ty::B16;
        let fit = b == c && b.0 != 0 && lo != hi && halves && self.alone(lo) && self.alone(hi);
        if fit {
            self.add(lo, hi, Made::Params(b, l, h));
        }
        fit
    }

    /// Halves that are taken out of one word.
    fn words(&mut self, f: &Func, cfg: &Cfg) {
        let mut halves: Vec<[Option<Value>; 2]> = vec![[None; 2]; f.values.len()];
        for &b in &cfg.rpo {
            for &id in &f.blocks[b as usize].insts {
                let inst = f.inst(id);
                if !matches!(inst.op, Op::Trunc | Op::Hi) || f.ty(inst.args[0]) != Ty::B32 {
                    continue;
                }
                let (word, upper) = (inst.args[0], inst.op == Op::Hi);
                let of = &mut halves[word.index()];
                if of[upper as usize].is_none() {
                    of[upper as usize] = Some(inst.results[0]);
                    if let [Some(lo), Some(hi)] = *of {
                        self.add(lo, hi, Made::Word(word));
                    }
                }
            }
        }
    }

    /// The operation on halves that makes a value which is read once, in its block, and has no mate.
    fn lone(&self, f: &Func, v: Value, b: u32) -> Option<InstId> {
        match f.def(v) {
            Def::Inst(id, _) if self.home[v.index()] == b && self.uses[v.index()] == 1 && self.alone(v) => Some(id),
            _ => None,
        }
    }

    /// True if two operations of a block do the same and neither has a mate.
    fn similar(&self, f: &Func, x: InstId, y: InstId) -> bool {
        let (i, j) = (f.inst(x), f.inst(y));
        let (r, s) = (i.results[0], j.results[0]);
        let same = x != y && i.op == j.op && i.attr == j.attr && on_half(i) && f.ty(r) == f.ty(s);
        same && self.home[r.index()] == self.home[s.index()] && self.alone(r) && self.alone(s)
    }

    /// What might be the mate of an operation, by the mates of what it reads, or of what is computed for it alone.
    fn candidates(&mut self, f: &Func, id: InstId, deep: bool) -> Candidates {
        let inst = f.inst(id);
        let home = self.home[inst.results[0].index()];
        let mut found = Candidates::new();
        // What is added first: there are few readers of a sum.
        let order: &[usize] = if inst.op == Op::FFma { &[2, 0, 1] } else { &[0, 1] };
        for &k in order.iter().filter(|&&k| k < inst.args.len()) {
            let a = inst.args[k];
            if let Some(&Pair { lo, hi, .. }) = self.pair(a) {
                let (mate, upper) = if a == hi { (lo, true) } else { (hi, false) };
                let (start, end) = (self.first[mate.index()], self.first[mate.index() + 1]);
                let mut at = start + self.done[mate.index()];
                while at < end && !self.alone(f.inst(self.readers[at as usize]).results[0]) {
                    at += 1;
                }
                self.done[mate.index()] = at - start;
                for &j in self.readers[at as usize..end as usize].iter().take(NEAR) {
                    if f.inst(j).args.get(k) == Some(&mate) && self.similar(f, id, j) {
                        found.push((j, upper));
                    }
                }
            } else if let Some(made) = self.lone(f, a, home).filter(|_| deep) {
                for (c, upper) in self.candidates(f, made, false) {
                    let c = f.inst(c).results[0];
                    let j = self.readers[self.first[c.index()] as usize..self.first[c.index() + 1] as usize].first();
                    if let Some(&j) = j.filter(|_| self.uses[c.index()] == 1)
                        && f.inst(j).args.get(k) == Some(&c)
                        && self.similar(f, id, j)
                    {
                        found.push((j, upper));
                    }
                }
            }
        }
        found
    }

    /// Makes two operations mates, with all that this takes; false, and nothing is changed, where operands are no halves of one word.
    fn fit(&mut self, f: &Func, lo: InstId, hi: InstId) -> bool {
        let before = self.pairs.len();
        let mut work: SmallVec<[(InstId, InstId); 8]> = SmallVec::new();
        work.push((lo, hi));
        self.add(f.inst(lo).results[0], f.inst(hi).results[0], Made::Operations(lo, hi));
        while let Some((x, y)) = work.pop() {
            let home = self.home[f.inst(x).results[0].index()];
            for (&a, &b) in f.inst(x).args.iter().zip(&f.inst(y).args) {
                let constants = f.constant(a).is_some() && f.constant(b).is_some();
                if a == b || constants || self.both(a, b).is_some() || self.params(f, a, b) {
                    continue;
                }
                let lone = self.lone(f, a, home).zip(self.lone(f, b, home));
                if let Some((p, q)) = lone.filter(|&(p, q)| self.similar(f, p, q) && self.pairs.len() - before < MANY) {
                    self.add(a, b, Made::Operations(p, q));
                    work.push((p, q));
                } else if !self.converted(f, a, b, home) {
                    self.undo(before);
                    return false;
                }
            }
        }
        true
    }

    /// True for two singles made halves in a block, for one reader each: an instruction makes both.
    fn converted(&self, f: &Func, lo: Value, hi: Value, b: u32) -> bool {
        let Some((x, y)) = self.lone(f, lo, b).zip(self.lone(f, hi, b)) else { return false };
        let (x, y) = (f.inst(x), f.inst(y));
        x.op == Op::F2F && y.op == Op::F2F && x.attr == y.attr && x.attr.fmt2 == Fmt::F32
    }

    /// Looks for mates among the operations of a block, and hands them on to the blocks behind it.
    fn block(&mut self, f: &Func, b: usize) {
        for &id in &f.blocks[b].insts {
            let inst = f.inst(id);
            if !on_half(inst) || !self.alone(inst.results[0]) {
                continue;
            }
            let found = self.candidates(f, id, true);
            // Whether a0 * b0 goes with a1 * b0 or with a0 * b1 is for the sum to say that it is added to.
            let waits = self.lone(f, inst.results[0], b as u32).is_some() && self.begins(f, inst);
            let mut first: Option<(InstId, InstId)> = None;
            for (other, upper) in found {
                let (lo, hi) = if upper { (other, id) } else { (id, other) };
                if first == Some((lo, hi)) {
                    continue;
                }
                let before = self.pairs.len();
                if self.fit(f, lo, hi) {
                    if !waits {
                        break;
                    }
                    self.undo(before);
                    if first.is_some() {
                        first = None;
                        break;
                    }
                    first = Some((lo, hi));
                }
            }
            if let Some((lo, hi)) = first {
                self.fit(f, lo, hi);
            }
        }
        let mut places: Vec<(Value, u32)> = Vec::new();
        for e in f.blocks[b].term.edges() {
            places.clear();
            places.extend((0..).zip(&e.args).filter(|&(_, &a)| !self.alone(a)).map(|(n, &a)| (a, n)));
            places.sort_unstable();
            for &(a, n) in &places {
                let Some(hi) = self.pair(a).filter(|p| p.lo == a).map(|p| p.hi) else { continue };
                let at = places.partition_point(|&(v, _)| v < hi);
                if let Some(&(_, m)) = places.get(at).filter(|p| p.0 == hi) {
                    let params = &f.blocks[e.block.index()].params;
                    self.params(f, params[n as usize], params[m as usize]);
                }
            }
        }
    }

    /// True for an operation that reads nothing whose mate is known or sought for other reasons than that it is taken out of a word.
    fn begins(&self, f: &Func, inst: &Inst) -> bool {
        inst.args.iter().all(|&a| match self.pair(a) {
            Some(p) => matches!(p.made, Made::Word(_)),
            None => f.def_inst(a).is_some_and(|d| !on_half(d)),
        })
    }

    /// Parameters that bring mates are mates themselves.
    fn brought(&mut self, f: &Func, cfg: &Cfg) {
        let mut n = 0;
        while n < self.pairs.len() {
            for (_, x, y) in ways(f, cfg, self.pairs[n].made) {
                self.params(f, x, y);
            }
            n += 1;
        }
    }
}

/// For two parameters: the blocks that go on to theirs, and what each brings for them.
fn ways(f: &Func, cfg: &Cfg, made: Made) -> SmallVec<[(u32, Value, Value); 4]> {
    let mut found: SmallVec<[(u32, Value, Value); 4]> = SmallVec::new();
    let Made::Params(to, l, h) = made else { return found };
    let preds = &cfg.preds[to.index()];
    for (n, &b) in preds.iter().enumerate() {
        // Both ways of a branch may lead here.
        if preds[..n].last() == Some(&b) {
            continue;
        }
        for e in f.blocks[b as usize].term.edges().iter().filter(|e| e.block == to) {
            found.push((b, e.args[l as usize], e.args[h as usize]));
        }
    }
    found
}
