//! Threading: who comes to a question whose answer is known on the way goes on to where the answer leads.
//!
//! ```text
//! a: brif c, b, d                  a: brif c, b, d
//! b: ...; br m                     b: ...; (m's); br e
//! d: ...; br m                     d: ...; (m's); br g
//! m: ...; brif c, e, g
//! ```
//!
//! What stands before the question is copied for each answer; what others read of it comes to them as parameters
//! ([`repair`]). A condition is known where a branch on the way has asked it, or one that it follows from, or where it is made of what comes
//! to the block by that way ([`facts`]).
//!
//! Threads that come apart are not to stay apart longer than before, and nothing that they do together is copied: where they may differ,
//! either the ways that meet in the block are two and their answers too, or the answer leads to where its sides meet. Blocks that begin loops
//! stay, so that a loop keeps its one way in.

mod facts;
mod repair;

use crate::cfg::{Cfg, DomTree, NONE};
use crate::converge;
use crate::ir::{Block, BlockData, Edge, Effect, Func, InstId, Op, Term, Value};
use facts::{Facts, Way};
use repair::Copies;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Instructions, constants not counted, that stand before a question and are copied.
const SIZE: usize = 12;

/// Instructions of a block that is looked at.
const LONG: usize = 64;

/// Those that are copied where that saves no branch: its sides stand under guards in the end.
const FEW: usize = 2;

/// Its values that are handed on where the ways meet.
const CARRIED: usize = 4;

/// Blocks that are looked at between where ways part and where they meet.
const BETWEEN: usize = 32;

/// Instructions of a side that is no branch in the end, but stands under a guard ([`crate::guards`]).
const GUARDED: usize = 10;

/// An edge into a block, and what the block's question is answered with there.
#[derive(Clone, Copy)]
struct Answer {
    from: u32,
    /// Its number among the ways out of `from`.
    nth: usize,
    holds: Option<bool>,
}

/// The edges into a block.
type Answers = SmallVec<[Answer; 4]>;

/// Runs the pass; true if anything changed.
pub fn run(f: &mut Func) -> bool {
    let asks = |b: &BlockData| matches!(b.term, Term::CondBr { .. });
    if f.blocks.iter().filter(|b| asks(b)).count() < 2 {
        return false;
    }
    let mut cfg = f.cfg();
    let (mut answers, known) = self::answers(f, &cfg);
    for &(b, holds) in &known {
        settle(f, b, holds);
    }
    if !known.is_empty() {
        // Ways that are gone lead nowhere on, and those that stay have other numbers.
        cfg = f.cfg();
        for b in (0..f.blocks.len()).filter(|&b| !cfg.reachable(b as u32)) {
            f.blocks[b] = BlockData::empty();
        }
        cfg = f.cfg();
        answers = self::answers(f, &cfg).0;
    }
    let picked = pick(f, &cfg, answers);
    if !picked.is_empty() {
        thread(f, &picked);
    }
    !known.is_empty() || !picked.is_empty()
}

/// A branch goes one way.
fn settle(f: &mut Func, b: u32, holds: bool) {
    if let Term::CondBr { then, els, .. } = &f.blocks[b as usize].term {
        f.blocks[b as usize].term = Term::Br(if holds { then.clone() } else { els.clone() });
    }
}

/// By block what is known on the edges into it, where they may be led on; and the branches that always go one way.
fn answers(f: &Func, cfg: &Cfg) -> (FxHashMap<u32, Answers>, Vec<(u32, bool)>) {
    let dom = cfg.dominators();
    let mut facts = Facts::new(f);
    let mut out: FxHashMap<u32, Answers> = FxHashMap::default();
    let mut known = Vec::new();
    let fit: Vec<bool> = (0..cfg.len() as u32).map(|b| may_be_copied(f, cfg, b)).collect();
    let mut stack: Vec<(u32, usize, (usize, usize))> = Vec::new();
    let mut enter = Some(0);
    loop {
        if let Some(b) = enter.take() {
            stack.push((b, 0, facts.count()));
            if let &[p] = cfg.preds[b as usize].as_slice() {
                learn(f, &mut facts, p, b);
            }
            if let Some(holds) = question(f, b).and_then(|c| facts.value(c, Way { block: NONE, args: &[] })) {
                known.push((b, holds & 1 != 0));
            }
            for (nth, &s) in cfg.succs[b as usize].iter().enumerate().filter(|(_, s)| fit[**s as usize]) {
                let before = facts.count();
                learn_way(f, &mut facts, b, nth);
                let edges = f.blocks[b as usize].term.edges();
                let args = edges.get(nth).map_or(&[][..], |e| e.args.as_slice());
                let cond = question(f, s);
                let holds = cond.and_then(|c| facts.value(c, Way { block: s, args })).map(|bits| bits & 1 != 0);
                facts.forget(before);
                out.entry(s).or_default().push(Answer { from: b, nth, holds });
            }
        }
        let Some((b, next, before)) = stack.last_mut() else { break };
        enter = dom.children[*b as usize].get(*next).copied();
        *next += 1;
        if enter.is_none() {
            facts.forget(*before);
            stack.pop();
        }
    }
    let settled: Vec<u32> = known.iter().map(|k| k.0).collect();
    out.retain(|b, ways| !settled.contains(b) && ways.iter().any(|a| a.holds.is_some()));
    (out, known)
}

/// What a block asks.
fn question(f: &Func, b: u32) -> Option<Value> {
    match &f.blocks[b as usize].term {
        Term::CondBr { cond, then, els, .. } if then.block != els.block => Some(*cond),
        _ => None,
    }
}

/// Learns what is known where `p` has gone on to `b`, which nothing else leads to.
fn learn(f: &Func, facts: &mut Facts, p: u32, b: u32) {
    let nth = f.blocks[p as usize].term.successors().iter().position(|s| s.0 == b);
    nth.into_iter().for_each(|nth| learn_way(f, facts, p, nth));
}

/// Learns what is known on a way out of a block.
fn learn_way(f: &Func, facts: &mut Facts, b: u32, nth: usize) {
    if let (Some(cond), Term::CondBr { .. }) = (question(f, b), &f.blocks[b as usize].term) {
        facts.learn(cond, nth == 0);
    }
}

/// A block whose question may be left out: it begins no loop, and is short.
fn may_be_copied(f: &Func, cfg: &Cfg, b: u32) -> bool {
    let at = cfg.rpo_index[b as usize];
    let preds = &cfg.preds[b as usize];
    let plain = |i: InstId| {
        let inst = f.inst(i);
        match inst.op.effect() {
            Effect::Pure => inst.op != Op::Routine,
            _ => matches!(inst.op, Op::Load | Op::Store),
        }
    };
    let insts = &f.blocks[b as usize].insts;
    question(f, b).is_some()
        && preds.len() > 1
        && preds.iter().all(|&p| cfg.rpo_index[p as usize] < at)
        && insts.len() <= LONG
        && insts.iter().all(|&i| plain(i))
}

/// A block that is left out on some ways: these, with their answers.
struct Picked {
    block: u32,
    ways: Vec<(u32, usize, bool)>,
    /// What moves up to the block that all ways come from, and that block.
    early: Vec<InstId>,
    above: u32,
    /// Everybody who is there comes to this block.
    all: bool,
}

/// What is known of a block that may be left out on some ways.
struct Case<'a> {
    block: u32,
    ways: &'a [Answer],
    /// All threads of a warp come by the same way, and answer alike.
    together: bool,
    /// Where the block's sides meet.
    meets: u32,
    /// How many instructions are copied, constants not counted.
    size: usize,
    /// How many of its values others read.
    carried: usize,
}

/// Those for which it is worth it.
fn pick(f: &Func, cfg: &Cfg, answers: FxHashMap<u32, Answers>) -> Vec<Picked> {
    if answers.is_empty() {
        return Vec::new();
    }
    let mut list: Vec<(u32, Answers)> = answers.into_iter().collect();
    list.sort_unstable_by_key(|(b, _)| cfg.rpo_index[*b as usize]);
    let (uniform, post, dom) = (converge::uniform(f), cfg.postdominators(), cfg.dominators());
    let all = |b: u32| post.dominates(b, dom.idom[b as usize]);
    let early: Vec<Vec<InstId>> = list.iter().map(|&(b, _)| early(f, b, all(b))).collect();
    let carried = carried(f, cfg, &dom, &list, &early);
    let mut out = Vec::new();
    for (((b, ways), carried), early) in list.iter().zip(carried).zip(early) {
        let Term::CondBr { cond, uniform: promised, .. } = &f.blocks[*b as usize].term else { continue };
        let together = (*promised || uniform[cond.index()]) && alike(f, cfg, &uniform, *b, dom.idom[*b as usize]);
        let left = f.blocks[*b as usize].insts.iter().filter(|i| f.inst(**i).op != Op::Const && !early.contains(i));
        let (size, meets) = (left.count(), post.idom[*b as usize]);
        let ways = chosen(f, cfg, &Case { block: *b, ways, together, meets, size, carried });
        if !ways.is_empty() {
            out.push(Picked { block: *b, ways, early, above: dom.idom[*b as usize], all: all(*b) });
        }
    }
    out
}

/// The ways on which a block is left out.
fn chosen(f: &Func, cfg: &Cfg, c: &Case) -> Vec<(u32, usize, bool)> {
    let Term::CondBr { then, els, .. } = &f.blocks[c.block as usize].term else { return Vec::new() };
    let count = |h: Option<bool>| c.ways.iter().filter(|a| a.holds == h).count();
    // A loop goes back by one way.
    let back = |t: Block| cfg.rpo_index[t.index()] <= cfg.rpo_index[c.block as usize];
    let two = (count(Some(true)), count(Some(false)), count(None)) == (1, 1, 0);
    let complete = two && !back(then.block) && !back(els.block);
    let flat = |b: u32| short(f, cfg, b) || b == c.meets;
    let no_sides = flat(then.block.0) && flat(els.block.0);
    let no_ways = c.ways.iter().all(|a| short(f, cfg, a.from) || cfg.succs[a.from as usize].len() > 1);
    if c.size > SIZE || c.carried > CARRIED || no_sides && (!complete || no_ways || c.size > FEW) {
        return Vec::new();
    }
    let good = |a: &Answer| {
        let h = a.holds?;
        let to = if h { then.block } else { els.block };
        let alike = c.together || complete || c.size == 0 && to.0 == c.meets;
        (alike && !back(to)).then_some((a.from, a.nth, h))
    };
    c.ways.iter().filter_map(good).collect()
}

/// By block of the list, how many of its values get parameters where its copies' ways meet.
fn carried(f: &Func, cfg: &Cfg, dom: &DomTree, list: &[(u32, Answers)], early: &[Vec<InstId>]) -> Vec<usize> {
    let mut owner = vec![NONE; f.values.len()];
    for (n, (b, _)) in list.iter().enumerate() {
        let block = &f.blocks[*b as usize];
        let results = block.insts.iter().flat_map(|&i| &f.inst(i).results);
        block.params.iter().chain(results).for_each(|v| owner[v.index()] = n as u32);
        early[n].iter().flat_map(|&i| &f.inst(i).results).for_each(|v| owner[v.index()] = NONE);
    }
    // Behind one side alone, where every way's answer is known, there is one copy to read from.
    let one_side = |n: usize, b: u32| {
        let (block, ways) = &list[n];
        let side = |s: u32| cfg.preds[s as usize].len() == 1 && dom.dominates(s, b);
        ways.iter().all(|a| a.holds.is_some()) && cfg.succs[*block as usize].iter().any(|&s| side(s))
    };
    let mut out = vec![0; list.len()];
    let mut note = |b: u32, v: Value| {
        let n = owner[v.index()] as usize;
        if n != NONE as usize && list[n].0 != b && !one_side(n, b) {
            owner[v.index()] = NONE;
            out[n] += 1;
        }
    };
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        block.insts.iter().for_each(|&i| f.inst(i).args.iter().for_each(|&a| note(b, a)));
        block.term.visit(|v| note(b, v));
    }
    out
}

/// True if all branches on the ways from `above`, which is part of all of them, to `b` are taken alike by the threads of a warp. Else threads meet
/// in `b`, and were to meet only behind it if some of them passed it by.
fn alike(f: &Func, cfg: &Cfg, uniform: &[bool], b: u32, above: u32) -> bool {
    let mut seen: SmallVec<[u32; BETWEEN]> = SmallVec::new();
    let mut work: SmallVec<[u32; BETWEEN]> = cfg.preds[b as usize].iter().copied().collect();
    while let Some(p) = work.pop() {
        if seen.contains(&p) {
            continue;
        }
        let taken = match &f.blocks[p as usize].term {
            Term::CondBr { cond, uniform: promised, .. } => *promised || uniform[cond.index()],
            Term::Switch { index, uniform: promised, .. } => *promised || uniform[index.index()],
            _ => true,
        };
        if !taken || seen.len() == BETWEEN {
            return false;
        }
        seen.push(p);
        if p != above {
            work.extend(cfg.preds[p as usize].iter().copied());
        }
    }
    true
}

/// What of a block may as well stand before its ways part, as it is computed of nothing that they bring: where `all` of them come to the
/// block, anything, and else what is there for the asking.
fn early(f: &Func, b: u32, all: bool) -> Vec<InstId> {
    let block = &f.blocks[b as usize];
    let mut out: Vec<InstId> = Vec::new();
    let mut here: FxHashSet<Value> = block.params.iter().copied().collect();
    for &i in &block.insts {
        let inst = f.inst(i);
        let free = inst.args.is_empty() || all && !inst.args.iter().any(|a| here.contains(a));
        if inst.op.effect() == Effect::Pure && inst.op != Op::Routine && free {
            out.push(i);
        } else {
            here.extend(&inst.results);
        }
    }
    out
}

/// True for a side of a branch that becomes straight code.
fn short(f: &Func, cfg: &Cfg, b: u32) -> bool {
    let insts = &f.blocks[b as usize].insts;
    let plain = |i: InstId| {
        let inst = f.inst(i);
        !matches!(inst.op, Op::Routine | Op::Call | Op::CallIndirect) && inst.op.effect() != Effect::Warp
    };
    cfg.preds[b as usize].len() == 1
        && cfg.succs[b as usize].len() == 1
        && insts.iter().all(|&i| plain(i))
        && insts.iter().filter(|&&i| f.inst(i).op != Op::Const).count() <= GUARDED
}

/// Moves up what can stand before the ways part, past other such blocks, too.
fn move_up(f: &mut Func, list: &[Picked]) {
    let mut here: FxHashMap<u32, (FxHashSet<Value>, &Picked)> = FxHashMap::default();
    for p in list {
        let block = &mut f.blocks[p.block as usize];
        block.insts.retain(|i| !p.early.contains(i));
        let mut stay: FxHashSet<Value> = block.params.iter().copied().collect();
        stay.extend(f.blocks[p.block as usize].insts.iter().flat_map(|&i| &f.inst(i).results));
        here.insert(p.block, (stay, p));
        for &i in &p.early {
            let (mut to, inst) = (p.above, f.inst(i));
            while let Some((stay, q)) = here.get(&to)
                && (inst.args.is_empty() || q.all && !inst.args.iter().any(|a| stay.contains(a)))
            {
                to = q.above;
            }
            here.entry(to).and_modify(|(stay, _)| stay.extend(&inst.results));
            f.blocks[to as usize].insts.push(i);
        }
    }
}

/// Leads the ways on.
fn thread(f: &mut Func, list: &[Picked]) {
    move_up(f, list);
    // The copies, and who goes there.
    let mut copies: Vec<(u32, Block, bool)> = Vec::new();
    let mut led: Vec<(u32, usize, Block)> = Vec::new();
    for p in list {
        for holds in [true, false] {
            let mut ways = p.ways.iter().filter(|w| w.2 == holds).peekable();
            if ways.peek().is_some() {
                let copy = f.new_block();
                copies.push((p.block, copy, holds));
                led.extend(ways.map(|&(from, nth, _)| (from, nth, copy)));
            }
        }
    }
    for (from, nth, copy) in led {
        lead(&mut f.blocks[from as usize].term, nth, copy);
    }
    let mut made: Vec<Copies> = Vec::new();
    for (block, copy, holds) in copies {
        let map = fill(f, block, copy, holds);
        match made.last_mut() {
            Some(last) if last.block == block => last.copies.push((copy.0, map)),
            _ => made.push(Copies { block, copies: vec![(copy.0, map)] }),
        }
    }
    repair::run(f, &made);
}

/// Another target for one of the ways out.
fn lead(term: &mut Term, nth: usize, to: Block) {
    match term {
        Term::Switch { targets, .. } => targets[nth] = to,
        _ => {
            if let Some(e) = term.edges_mut().get_mut(nth) {
                e.block = to;
            }
        }
    }
}

/// Copies a block without its question. Gives what its values are called in the copy.
fn fill(f: &mut Func, block: u32, copy: Block, holds: bool) -> FxHashMap<Value, Value> {
    let old = f.blocks[block as usize].clone();
    let mut map: FxHashMap<Value, Value> = FxHashMap::default();
    for p in old.params {
        map.insert(p, f.add_param(copy, f.ty(p)));
    }
    for id in old.insts {
        f.copy_inst(id, copy, &mut map);
    }
    let way = match old.term {
        Term::CondBr { then, els, .. } => {
            if holds {
                then
            } else {
                els
            }
        }
        _ => return map,
    };
    let args = way.args.iter().map(|a| map.get(a).copied().unwrap_or(*a)).collect();
    f.blocks[copy.index()].term = Term::Br(Edge { block: way.block, args });
    f.blocks[copy.index()].loc = old.loc;
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn threaded(body: &str) -> (bool, Func) {
        let mut f = text::parse(&format!("func k entry returns() {{\n{HEAD}{body}}}")).unwrap().remove(0);
        verify::verify(&f).unwrap();
        let done = run(&mut f);
        crate::opt::params::run(&mut f);
        crate::opt::blocks::run(&mut f);
        crate::opt::params::run(&mut f);
        verify::verify(&f).unwrap();
        (done, f)
    }

    /// How many branches are left of these.
    fn branches(body: &str) -> usize {
        let (_, f) = threaded(body);
        f.blocks.iter().filter(|b| matches!(b.term, Term::CondBr { .. } | Term::Switch { .. })).count()
    }

    /// Something that differs between threads, something that does not, and a place to write to.
    const HEAD: &str = "blk0():
 v0:b32 = sreg
 v1:b32 = const {imm=7}
 v2:b32 = const {imm=1}
 v3:b64 = param {space=param bytes=8}
 v4:b32 = param {space=param bytes=4 imm=8}
 v5:p = icmp v0, v1 {cmp=lt}
 v6:p = icmp v4, v1 {cmp=lt}
 v7:b32 = const {imm=31}
 v8:b32 = const {imm=-1}
 v9:b32 = const {imm=9}
";

    /// Two questions one after the other, with long sides between them; `mid` stands before the second.
    fn twice(first: &str, second: &str, mid: &str) -> String {
        let long = |n: usize| format!(" store v3, v0 {{space=global bytes=4 imm={n}}}\n").repeat(12);
        format!(
            " brif {first}, blk1(), blk2()\nblk1():\n{} br blk3(v0)\nblk2():\n{} br blk3(v1)\nblk3(v10:b32):\n{mid} brif {second}, blk4(), blk5()\n\
             blk4():\n{} br blk6(v10)\nblk5():\n{} br blk6(v2)\nblk6(v11:b32):\n store v3, v11 {{space=global bytes=4}}\n store v3, v10 {{space=global bytes=4}}\n exit\n",
            long(0),
            long(4),
            long(8),
            long(12)
        )
    }

    #[test]
    fn the_same_question_is_asked_once() {
        let (done, f) = threaded(&twice("v5", "v5", ""));
        assert!(done);
        assert_eq!(f.blocks.len(), 4, "{}", text::print(&f));
        // Each way hands over what it has.
        let handed: Vec<String> =
            text::print(&f).lines().filter(|l| l.trim().starts_with("br ")).map(String::from).collect();
        assert_eq!(handed, ["    br blk3(v0, v0)", "    br blk3(v2, v1)"]);
    }

    #[test]
    fn what_follows_from_an_answer_is_not_asked() {
        let less = " v12:p = icmp v0, v9 {cmp=lt}\n";
        // Who is below 7 is below 9, of others nothing is known: their way is the only one left that asks.
        assert_eq!(branches(&twice("v5", "v12", less)), 2);
        let at = " v12:p = icmp v0, v1 {cmp=ge}\n";
        assert_eq!(branches(&twice("v5", "v12", at)), 1);
        assert_eq!(branches(&twice("v5", "v6", "")), 2);
    }

    #[test]
    fn what_is_known_of_a_parameter_answers() {
        let compare = " v12:p = icmp v10, v1 {cmp=eq}\n";
        let body = twice("v5", "v12", compare).replace("br blk3(v0)", "br blk3(v2)");
        assert_eq!(branches(&body), 1);
        assert_eq!(branches(&body.replace("br blk3(v2)", "br blk3(v4)")), 2);
    }

    #[test]
    fn what_threads_do_together_is_not_copied() {
        assert_eq!(branches(&twice("v5", "v5", " bar v1\n")), 2);
        let shuffle = " v12:b32, v13:p = shfl v0, v2, v7, v8 {sub=3}\n";
        assert_eq!(branches(&twice("v5", "v5", shuffle)), 2);
        assert_eq!(branches(&twice("v5", "v5", " v12:b32 = iadd v10, v0\n")), 1);
    }

    #[test]
    fn short_sides_stay_for_guards() {
        let body = " brif v5, blk1(), blk2()\nblk1():\n store v3, v0 {space=global bytes=4}\n br blk2()\nblk2():\n brif v5, blk3(), blk4()\n\
                    blk3():\n store v3, v1 {space=global bytes=4 imm=4}\n br blk4()\nblk4():\n exit\n";
        assert_eq!(branches(body), 2);
    }

    #[test]
    fn the_beginning_of_a_loop_stays() {
        // The first time the answer is known: the loop has its one way in all the same.
        let body = " br blk1(v2)\nblk1(v10:b32):\n v11:p = icmp v10, v1 {cmp=lt}\n brif v11, blk2(), blk3()\nblk2():\n v12:b32 = iadd v10, v0\n\
                    store v3, v12 {space=global bytes=4}\n br blk1(v12)\nblk3():\n exit\n";
        let (_, f) = threaded(body);
        assert_eq!(f.blocks.len(), 4, "{}", text::print(&f));
    }

    #[test]
    fn a_branch_under_its_own_condition_goes_one_way() {
        let body = " brif v5, blk1(), blk4()\nblk1():\n v10:p = not v5\n brif v10, blk2(), blk3()\nblk2():\n store v3, v0 {space=global bytes=4}\n br blk4()\n\
                    blk3():\n store v3, v1 {space=global bytes=4}\n br blk4()\nblk4():\n exit\n";
        assert_eq!(branches(body), 1);
    }

    /// Where a branch always goes one way, its other one does not lead on what comes by it, and the one that is left keeps its way.
    #[test]
    fn ways_that_are_gone_lead_nowhere() {
        let long = |n: usize| format!(" store v3, v0 {{space=global bytes=4 imm={n}}}\n").repeat(12);
        let body = format!(
            " v10:p = const {{imm=1}}\n v11:p = const\n brif v5, blk5(v0), blk1()\nblk1():\n{} brif v5, blk3(v10, v1), blk2()\nblk2():\n{} br blk3(v6, v2)\n\
             blk3(v12:p, v13:b32):\n brif v12, blk5(v13), blk4()\nblk4():\n{} br blk5(v4)\nblk5(v14:b32):\n store v3, v14 {{space=global bytes=4}}\n exit\n",
            long(0),
            long(4),
            long(8)
        );
        let (done, f) = threaded(&body);
        let t = text::print(&f);
        assert!(done && branches(&body) == 2, "{t}");
        // All three rows of stores are there.
        assert_eq!(t.matches("store").count(), 37, "{t}");
    }
}
