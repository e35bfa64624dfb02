//! Makes words of mates.

use super::order::Order;
use super::weigh::Live;
use super::{Halves, Made, NONE, on_both};
use crate::cfg::Cfg;
use crate::ir::{Attr, Block, Builder, Func, Op, Term, Ty, Value};
use smallvec::SmallVec;

/// Makes words of all mates that are to become some. The old parameters stay, read by nobody.
pub(super) fn run(f: &mut Func, cfg: &Cfg, halves: &Halves, live: &Live, orders: Vec<Order>) {
    let mut orders = orders;
    let mut work = Work {
        halves,
        live,
        words: vec![None; halves.pairs.len()],
        taken: vec![(NONE, Value(NONE)); f.values.len()],
        block: 0,
        loc: NONE,
    };
    let mut params: Vec<SmallVec<[u32; 2]>> = vec![SmallVec::new(); f.blocks.len()];
    for (n, pair) in (0..).zip(&halves.pairs) {
        match pair.made {
            Made::Word(w) => work.words[n as usize] = Some(w),
            Made::Params(b, ..) if live.becomes(n) => {
                work.words[n as usize] = Some(f.add_param(b, Ty::B32));
                params[b.index()].push(n);
            }
            _ => {}
        }
    }
    for &b in &cfg.rpo {
        work.block = b;
        let old = std::mem::take(&mut f.blocks[b as usize].insts);
        let insts = orders.get_mut(b as usize).and_then(Option::take).unwrap_or(old);
        for id in insts {
            work.loc = f.inst(id).loc;
            let of = f.inst(id).results.first().map_or(NONE, |r| halves.mates[r.index()]);
            match halves.pairs.get(of as usize).map(|p| p.made) {
                Some(Made::Operations(x, y)) if live.becomes(of) => {
                    let (lower, upper) = (f.inst(x).clone(), f.inst(y).args.clone());
                    let args: SmallVec<[Value; 3]> =
                        lower.args.iter().zip(upper).map(|(&a, b)| work.word(f, a, b)).collect();
                    work.words[of as usize] = Some(work.make(f, lower.op, on_both(lower.attr), &args));
                }
                _ => {
                    for n in 0..f.inst(id).args.len() {
                        let a = f.inst(id).args[n];
                        let half = work.half(f, a);
                        f.insts[id.0 as usize].args[n] = half;
                    }
                    f.blocks[b as usize].insts.push(id);
                }
            }
        }
        work.loc = f.blocks[b as usize].loc;
        let mut term = std::mem::replace(&mut f.blocks[b as usize].term, Term::Unreachable);
        for e in term.edges_mut() {
            for &n in &params[e.block.index()] {
                let Made::Params(_, l, h) = halves.pairs[n as usize].made else { continue };
                let word = work.word(f, e.args[l as usize], e.args[h as usize]);
                e.args.push(word);
            }
        }
        term.map(|v| work.half(f, v));
        f.blocks[b as usize].term = term;
    }
}

struct Work<'a> {
    halves: &'a Halves,
    live: &'a Live,
    /// By pair: its word.
    words: Vec<Option<Value>>,
    /// By value: for which block it was last taken out of its word, and what that gave.
    taken: Vec<(u32, Value)>,
    block: u32,
    loc: u32,
}

impl Work<'_> {
    fn make(&self, f: &mut Func, op: Op, attr: Attr, args: &[Value]) -> Value {
        let mut to = Builder::new(f, Block(self.block));
        to.loc = self.loc;
        let ty = if matches!(op, Op::Trunc | Op::Hi) { Ty::B16 } else { Ty::B32 };
        to.one(op, attr, args, ty)
    }

    /// A value as it is now: half of a word, if it became that.
    fn half(&mut self, f: &mut Func, v: Value) -> Value {
        let Some(&n) = self.halves.mates.get(v.index()) else { return v };
        let Some(word) = self.words.get(n as usize).copied().flatten().filter(|_| self.live.becomes(n)) else {
            return v;
        };
        let (block, half) = self.taken[v.index()];
        if block == self.block {
            return half;
        }
        let op = if self.halves.pairs[n as usize].hi == v { Op::Hi } else { Op::Trunc };
        let half = self.make(f, op, Attr::default(), &[word]);
        self.taken[v.index()] = (self.block, half);
        half
    }

    /// The word of two halves.
    fn word(&mut self, f: &mut Func, lo: Value, hi: Value) -> Value {
        let known = self.halves.both(lo, hi).and_then(|n| self.words[n as usize]);
        if let Some(word) = known {
            return word;
        }
        if let (Some(x), Some(y)) = (f.constant(lo), f.constant(hi)) {
            return Builder::new(f, Block(self.block)).constant(Ty::B32, x & 0xffff | (y & 0xffff) << 16);
        }
        let (lo, hi) = (self.half(f, lo), self.half(f, hi));
        self.make(f, Op::Pack, Attr::default(), &[lo, hi])
    }
}
