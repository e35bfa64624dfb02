//! Halves that blocks hand on side by side are handed on as a word.
//!
//! A pipeline that loads some iterations ahead carries what it loaded round and round its loop. Triton takes the words apart as soon as they are there, and puts them
//! together again where they are read: on the way each half has a register of its own. Here two parameters of 16 bits become one of 32, where every way to their block
//! brings both halves of one word, two such parameters of another block, or constants; on a way that no loop takes again they may be put together, too. Only where
//! what reads the halves reads them as a word, or takes halves of words anyway. Optimistic: parameters are taken for pairs, and apart where they prove to be none.
//! Linear, times how far a pair is handed on.

use super::{identity, substitute};
use crate::cfg::Cfg;
use crate::ir::{Block, Builder, Def, Func, Inst, InstId, Op, Ty, Value};

/// A parameter that is half of a pair: the other one, and whether this is the upper one.
type Mate = Option<(Value, bool)>;

/// Runs the pass; true if anything changed.
pub fn run(f: &mut Func) -> bool {
    if !f.blocks.iter().skip(1).any(|b| b.params.iter().filter(|p| f.ty(**p) == Ty::B16).count() > 1) {
        return false;
    }
    let cfg = f.cfg();
    let mut pass = Pass { mates: vec![None; f.values.len()], list: Vec::new() };
    pass.propose(f, &cfg);
    while !pass.list.is_empty() && pass.part(f, &cfg) {}
    let mut pairs = pass.list.clone();
    pairs.retain(|&(lo, hi)| pass.pair(lo, hi));
    if pairs.is_empty() {
        return false;
    }
    pairs.sort_by_key(|p| param(f, p.0));
    apply(f, &cfg, &pass, &pairs);
    true
}

struct Pass {
    mates: Vec<Mate>,
    /// All pairs that were ever proposed: the lower half, the upper one.
    list: Vec<(Value, Value)>,
}

/// Of which block a value is a parameter, and which.
fn param(f: &Func, v: Value) -> Option<(Block, u32)> {
    match f.values[v.index()].def {
        Def::Param(b, n) if b.0 != 0 => Some((b, n)),
        _ => None,
    }
}

/// The word of which two values are the lower and the upper half.
fn word(f: &Func, lo: Value, hi: Value) -> Option<Value> {
    let of = |v: Value, op: Op| f.def_inst(v).filter(|d| d.op == op).map(|d| d.args[0]);
    let (x, y) = (of(lo, Op::Trunc)?, of(hi, Op::Hi)?);
    (x == y && f.ty(x) == Ty::B32).then_some(x)
}

/// True if the edge from `b` to `to` is one that no loop takes again.
fn enters(cfg: &Cfg, b: u32, to: Block) -> bool {
    cfg.rpo_index[b as usize] < cfg.rpo_index[to.index()]
}

impl Pass {
    /// Takes two parameters for a pair; false where one is already half of another.
    fn add(&mut self, f: &Func, lo: Value, hi: Value) -> bool {
        let (Some(x), Some(y)) = (param(f, lo), param(f, hi)) else { return false };
        if lo == hi || x.0 != y.0 || f.ty(lo) != Ty::B16 || f.ty(hi) != Ty::B16 {
            return false;
        }
        match (self.mates[lo.index()], self.mates[hi.index()]) {
            (None, None) => {
                self.mates[lo.index()] = Some((hi, false));
                self.mates[hi.index()] = Some((lo, true));
                self.list.push((lo, hi));
                true
            }
            (Some(m), _) => m == (hi, false),
            _ => false,
        }
    }

    /// Pairs that something puts together or takes apart, and those that they come of.
    fn propose(&mut self, f: &Func, cfg: &Cfg) {
        for &b in &cfg.rpo {
            for &i in &f.blocks[b as usize].insts {
                let inst = f.inst(i);
                if inst.op == Op::Pack {
                    self.add(f, inst.args[0], inst.args[1]);
                }
            }
        }
        let mut next = 0;
        while next < self.list.len() {
            let (lo, hi) = self.list[next];
            next += 1;
            let mut brought = Vec::new();
            ways(f, cfg, lo, hi, |_, x, y| brought.push((x, y)));
            brought.into_iter().for_each(|(x, y)| {
                self.add(f, x, y);
            });
        }
    }

    /// True if the two values are a pair.
    fn pair(&self, lo: Value, hi: Value) -> bool {
        self.mates[lo.index()] == Some((hi, false))
    }

    fn drop(&mut self, v: Value) -> bool {
        let Some((other, _)) = self.mates[v.index()].take() else { return false };
        self.mates[other.index()] = None;
        true
    }

    /// Takes apart what is no pair; true if there was any.
    fn part(&mut self, f: &Func, cfg: &Cfg) -> bool {
        let mut changed = false;
        for n in 0..self.list.len() {
            let (lo, hi) = self.list[n];
            if !self.pair(lo, hi) {
                continue;
            }
            let (to, _) = param(f, lo).unwrap_or((Block(0), 0));
            let mut whole = true;
            ways(f, cfg, lo, hi, |b, x, y| {
                let constant = f.constant(x).is_some() && f.constant(y).is_some();
                whole &= self.pair(x, y) || word(f, x, y).is_some() || constant || enters(cfg, b, to);
            });
            if !whole {
                changed |= self.drop(lo);
            }
        }
        for &b in &cfg.rpo {
            let block = &f.blocks[b as usize];
            for &i in &block.insts {
                let inst = f.inst(i);
                if !self.reads(inst) {
                    inst.args.iter().for_each(|&a| changed |= self.drop(a));
                }
            }
            let mut apart = Vec::new();
            for e in block.term.edges() {
                for (n, &a) in e.args.iter().enumerate() {
                    let Some((other, upper)) = self.mates[a.index()] else { continue };
                    let to = f.blocks[e.block.index()].params[n];
                    let beside = self.mates[to.index()].filter(|m| m.1 == upper).and_then(|m| param(f, m.0));
                    if beside.is_none_or(|(_, k)| e.args[k as usize] != other) {
                        apart.push(a);
                    }
                }
            }
            apart.into_iter().for_each(|a| changed |= self.drop(a));
        }
        changed
    }

    /// True if the instruction reads a pair as a word, or takes halves of words.
    fn reads(&self, inst: &Inst) -> bool {
        match inst.op {
            Op::Pack => self.pair(inst.args[0], inst.args[1]),
            Op::FAdd | Op::FMul | Op::FFma | Op::FNeg | Op::FAbs | Op::FMin | Op::FMax | Op::FCmp | Op::F2F => true,
            _ => false,
        }
    }
}

/// Calls `way` with each block that goes on to that of two parameters, and what it brings for them.
fn ways(f: &Func, cfg: &Cfg, lo: Value, hi: Value, mut way: impl FnMut(u32, Value, Value)) {
    let (Some((to, l)), Some((_, h))) = (param(f, lo), param(f, hi)) else { return };
    let mut seen: Vec<u32> = Vec::new();
    for &b in &cfg.preds[to.index()] {
        if seen.contains(&b) {
            continue;
        }
        seen.push(b);
        for e in f.blocks[b as usize].term.edges() {
            if e.block == to {
                way(b, e.args[l as usize], e.args[h as usize]);
            }
        }
    }
}

/// Makes words of pairs.
fn apply(f: &mut Func, cfg: &Cfg, pass: &Pass, pairs: &[(Value, Value)]) {
    let mut words: Vec<Option<Value>> = vec![None; f.values.len()];
    for &(lo, hi) in pairs {
        let Some((b, _)) = param(f, lo) else { continue };
        let w = f.add_param(b, Ty::B32);
        words[lo.index()] = Some(w);
        words[hi.index()] = Some(w);
    }
    // What each way brings, in the order of the new parameters of its block; from where nobody comes, too.
    for b in 0..f.blocks.len() as u32 {
        let mut term = std::mem::replace(&mut f.blocks[b as usize].term, crate::ir::Term::Unreachable);
        for e in term.edges_mut() {
            for k in 0..e.args.len() {
                let p = f.blocks[e.block.index()].params[k];
                let Some((other, false)) = pass.mates[p.index()] else { continue };
                let Some((_, h)) = param(f, other) else { continue };
                let (x, y) = (e.args[k], e.args[h as usize]);
                let known = words.get(x.index()).copied().flatten().filter(|_| pass.pair(x, y));
                let brought = known.or_else(|| word(f, x, y)).unwrap_or_else(|| {
                    let constants = f.constant(x).zip(f.constant(y));
                    let mut build = Builder::new(f, Block(b));
                    match constants {
                        Some((x, y)) => build.constant(Ty::B32, x & 0xffff | (y & 0xffff) << 16),
                        None => build.op(Op::Pack, &[x, y], Ty::B32),
                    }
                });
                e.args.push(brought);
            }
        }
        f.blocks[b as usize].term = term;
    }
    // Who reads both reads the word; who reads one, a half of it.
    let mut replaced = identity(f);
    for &b in &cfg.rpo {
        let mut halves: Vec<InstId> = Vec::new();
        for p in f.blocks[b as usize].params.clone() {
            let Some((other, false)) = pass.mates.get(p.index()).copied().flatten() else { continue };
            let Some(w) = words[p.index()] else { continue };
            for (half, op) in [(p, Op::Trunc), (other, Op::Hi)] {
                let mut build = Builder::new(f, Block(b));
                let v = build.op(op, &[w], Ty::B16);
                halves.extend(f.blocks[b as usize].insts.pop());
                replaced.extend((replaced.len() as u32..f.values.len() as u32).map(Value));
                replaced[half.index()] = v;
            }
        }
        f.blocks[b as usize].insts.splice(0..0, halves);
    }
    for &b in &cfg.rpo {
        for i in f.blocks[b as usize].insts.clone() {
            let inst = f.inst(i);
            if inst.op == Op::Pack && pass.mates.len() > inst.args[0].index() && pass.pair(inst.args[0], inst.args[1]) {
                let result = inst.results[0];
                if let Some(w) = words[inst.args[0].index()] {
                    replaced[result.index()] = w;
                }
            }
        }
    }
    substitute(f, &mut replaced);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    /// A loop that carries two halves of what it loads, and stores what `read` makes of them.
    fn after(first: &str, read: &str) -> (bool, String) {
        let t = format!(
            "func k entry returns() {{\nblk0():\nv0:b64 = param {{bytes=8}}\nv1:b16 = const {{imm=0}}\nv2:b32 = const {{imm=7}}\nv3:b64 = param {{bytes=8}}\n{first}br blk1(v1, v4, v2)\n\
             blk1(v5:b16, v6:b16, v7:b32):\n{read}store v0, v8 {{space=global bytes=4}}\nv9:b32 = load v0 {{space=global bytes=4}}\nv10:b16 = trunc v9\nv11:b16 = hi v9\n\
             v12:b32 = iadd v7, v2\nv13:p = icmp v12, v9 {{cmp=lt}}\nbrif v13, blk1(v10, v11, v12), blk2()\nblk2():\nexit\n}}"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        let changed = run(&mut f);
        super::super::params::run(&mut f);
        super::super::dce::run(&mut f);
        verify::verify(&f).unwrap();
        (changed, text::print(&f))
    }

    const PACK: &str = "v8:b32 = pack v5, v6\n";

    #[test]
    fn halves_that_are_put_together_again_stay_together() {
        let (changed, t) = after("v4:b16 = const {imm=1}\n", PACK);
        assert!(changed && !t.contains("pack") && !t.contains("trunc") && t.contains("const {imm=65536}"), "{t}");
    }

    /// What only the way into the loop brings is put together there.
    #[test]
    fn what_comes_apart_is_put_together_before_the_loop() {
        let (changed, t) = after("v4:b16 = param {bytes=2}\n", PACK);
        assert!(changed && t.matches("pack").count() == 1 && t.find("pack") < t.find("blk1"), "{t}");
    }

    #[test]
    fn what_reads_a_half_as_a_number_keeps_it_apart() {
        let (changed, _) = after(
            "v4:b16 = const {imm=1}\n",
            &format!("{PACK}v14:b32 = zext v5\nstore v0, v14 {{space=global bytes=4}}\n"),
        );
        assert!(!changed);
    }
}
