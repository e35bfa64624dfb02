//! Addresses that take the same step in each iteration share it: one of them steps, and the others lie at offsets of it that stay.
//!
//! A loop over tiles that cannot be read in wide pieces has a pointer for each row or column, each of them stepped: two registers and one or two instructions each. Where
//! they begin at products of words behind one address, `a + 2 * i`, `a + 2 * j`, ..., only `a` has to step, and a load computes its address by the product and sum
//! that made it before the loop: one register and one instruction each. What every one of them has added to it before it is used is added to `a` beforehand.
//! The same is done where the pointers stay and each has added to it what moves.
//!
//! Only in loops around no other, of which the pointers' are come to and go back in one way each; behind unrolling, for which steps are constants.

use super::{dce, identity, params, substitute, uses};
use crate::bitset::BitSet;
use crate::ir::{Block, Builder, Def, Func, Inst, InstId, Op, Ty, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// So many pointers at least: two of them take as many registers and instructions either way.
const LEAST: usize = 3;
/// So many instructions lie between an address and what it is computed of, at most.
const DEEP: u32 = 4;

/// A pointer that a loop steps.
struct Pointer {
    /// Which parameter of the loop's first block it is.
    nth: usize,
    /// What begins it.
    init: Value,
    /// What steps it.
    next: InstId,
    /// What is read of it in the loop: the pointer, or its only sum with something from outside.
    read: Value,
}

/// What pointers that may share a step have in common: how they step, the address that they begin behind, and what is added before they are used.
#[derive(PartialEq, Eq, Hash)]
struct Way {
    op: Op,
    signed: bool,
    step: SmallVec<[Part; 2]>,
    base: Value,
    more: Option<Value>,
}

/// Part of a step: constants are told apart by what they are, not by who made them.
#[derive(PartialEq, Eq, Hash)]
enum Part {
    Known(u64),
    Made(Value),
}

/// What comes into blocks, and what goes, in one walk.
#[derive(Default)]
struct Changes {
    /// At the beginning of a block.
    first: FxHashMap<u32, Vec<InstId>>,
    before: FxHashMap<InstId, Vec<InstId>>,
    behind: FxHashMap<InstId, Vec<InstId>>,
    gone: FxHashSet<InstId>,
}

impl Changes {
    fn apply(mut self, f: &mut Func, blocks: &[u32]) {
        for &b in blocks {
            let old = std::mem::take(&mut f.blocks[b as usize].insts);
            let mut new = self.first.remove(&b).unwrap_or_default();
            new.reserve(old.len());
            for i in old {
                new.extend(self.before.remove(&i).unwrap_or_default());
                if !self.gone.contains(&i) {
                    new.push(i);
                }
                new.extend(self.behind.remove(&i).unwrap_or_default());
            }
            f.blocks[b as usize].insts = new;
        }
    }
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    let sum = |i: &&Inst| i.op == Op::IAdd && f.ty(i.results[0]) == Ty::B64;
    if f.insts.iter().filter(sum).nth(LEAST - 1).is_none() {
        return;
    }
    let cfg = f.cfg();
    let loops = cfg.loops(&cfg.dominators());
    let mut changed = false;
    for (header, members) in &loops.members {
        if members.iter().any(|&m| loops.header[m as usize] != *header) {
            continue;
        }
        changed |= sums(f, members);
        if f.blocks[*header as usize].params.iter().filter(|p| f.ty(**p) == Ty::B64).nth(LEAST - 1).is_none() {
            continue;
        }
        let from = |inside: bool| {
            let mut preds = cfg.preds[*header as usize].iter().filter(|&&p| members.contains(&p) == inside);
            preds.next().copied().filter(|_| preds.next().is_none())
        };
        if let (Some(before), Some(latch)) = (from(false), from(true)) {
            changed |= one_loop(f, Block(*header), members, before, latch);
        }
    }
    if changed {
        dce::run(f);
    }
}

/// The arguments of the only edge from one block to another.
fn arguments(f: &Func, from: u32, to: Block) -> Option<&Vec<Value>> {
    let edges = f.blocks[from as usize].term.edges();
    let mut found = edges.into_iter().filter(|e| e.block == to);
    found.next().filter(|_| found.next().is_none()).map(|e| &e.args)
}

/// A number of 64 bits that is made of a word.
fn wide(f: &Func, v: Value, deep: u32) -> bool {
    f.def_inst(v).is_some_and(|d| match d.op {
        Op::Sext | Op::Zext => f.ty(d.args[0]) == Ty::B32,
        Op::IMulWide => f.ty(d.args[0]) == Ty::B32 && scaled(f, d),
        Op::Shl => deep > 0 && f.constant(d.args[1]).is_some() && wide(f, d.args[0], deep - 1),
        _ => false,
    })
}

/// A product with a constant.
fn scaled(f: &Func, d: &Inst) -> bool {
    d.args[..2].iter().filter(|&&a| f.constant(a).is_some()).count() == 1
}

/// The address that a value is a multiple of a word, and a constant, away from.
fn base(f: &Func, v: Value, deep: u32) -> Option<Value> {
    let d = f.def_inst(v).filter(|_| deep > 0)?;
    match d.op {
        Op::IMadWide if f.ty(d.args[0]) == Ty::B32 && scaled(f, d) => Some(d.args[2]),
        Op::IAdd if f.constant(d.args[1]).is_some() => base(f, d.args[0], deep - 1),
        Op::IAdd if wide(f, d.args[1], deep) => Some(d.args[0]),
        Op::IAdd if wide(f, d.args[0], deep) => Some(d.args[1]),
        _ => None,
    }
}

/// Computes `v` again behind another address than its [`base`], at the end of `list`.
fn again(f: &mut Func, v: Value, base: Value, new: Value, list: &mut Vec<InstId>) -> Value {
    let Def::Inst(id, _) = f.def(v) else { return v };
    let mut inst = f.inst(id).clone();
    let through = match inst.op {
        Op::IMadWide => with(inst, 2, new),
        Op::IAdd if f.constant(inst.args[1]).is_some() => {
            let inner = again(f, inst.args[0], base, new, list);
            with(inst, 0, inner)
        }
        Op::IAdd => {
            let at = usize::from(inst.args[0] != base);
            let other = again(f, inst.args[1 - at], base, new, list);
            inst.args[1 - at] = other;
            with(inst, at, new)
        }
        Op::Shl => {
            let inner = again(f, inst.args[0], base, new, list);
            with(inst, 0, inner)
        }
        _ => inst,
    };
    let ty = f.ty(v);
    let id = f.new_inst(through, &[ty]);
    list.push(id);
    f.inst(id).results[0]
}

/// The instruction with another argument.
fn with(mut inst: Inst, at: usize, v: Value) -> Inst {
    inst.args[at] = v;
    inst
}

/// What is made in these blocks.
fn made(f: &Func, members: &[u32]) -> BitSet {
    let mut made = BitSet::new(f.values.len());
    for block in members.iter().map(|&m| &f.blocks[m as usize]) {
        let results = block.insts.iter().flat_map(|&i| &f.inst(i).results);
        for v in block.params.iter().chain(results) {
            made.insert(v.index());
        }
    }
    made
}

/// What pointers in sums may share: the address that they lie behind, what else is added to each, and what moves.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Shared {
    base: Value,
    more: Option<Value>,
    moves: Value,
}

/// Of pointers that stay behind one address, and to each of which the same is added that moves: the address moves, once. True if there were some.
fn sums(f: &mut Func, members: &[u32]) -> bool {
    let made = made(f, members);
    let outside = |v: Value| !made.contains(v.index());
    // Each sum, the pointer in it, and what of that may be shared.
    type Ways = SmallVec<[(Shared, Value); 2]>;
    let mut found: Vec<(InstId, Value, Ways)> = Vec::new();
    let mut sizes: FxHashMap<Shared, u32> = FxHashMap::default();
    for block in members.iter().map(|&m| &f.blocks[m as usize]) {
        for &i in &block.insts {
            let inst = f.inst(i);
            if inst.op != Op::IAdd || f.ty(inst.results[0]) != Ty::B64 || outside(inst.args[0]) == outside(inst.args[1])
            {
                continue;
            }
            let at = usize::from(outside(inst.args[1]));
            let (stays, moves) = (inst.args[at], inst.args[1 - at]);
            let mut list = Ways::new();
            list.extend(base(f, stays, DEEP).map(|base| (Shared { base, more: None, moves }, stays)));
            // What is added last may be the same for all.
            if let Some(d) = f.def_inst(stays).filter(|d| d.op == Op::IAdd) {
                for (inner, more) in [(d.args[0], d.args[1]), (d.args[1], d.args[0])] {
                    let base = base(f, inner, DEEP).filter(|_| f.constant(more).is_none());
                    list.extend(base.map(|base| (Shared { base, more: Some(more), moves }, inner)));
                }
            }
            list.iter().for_each(|x| *sizes.entry(x.0).or_insert(0) += 1);
            if !list.is_empty() {
                found.push((i, stays, list));
            }
        }
    }
    if found.len() < LEAST {
        return false;
    }
    // Where something else reads a pointer it stays alive.
    let uses = uses(f);
    let chosen = found.into_iter().filter(|x| uses[x.1.index()] == 1).filter_map(|(i, _, list)| {
        list.into_iter().rev().max_by_key(|x| sizes[&x.0]).map(|(shared, from)| (shared, (i, from)))
    });
    let groups = grouped(chosen);
    if groups.is_empty() {
        return false;
    }
    let mut changes = Changes::default();
    for (Shared { base, more, moves }, list) in &groups {
        let steps = match f.def(*moves) {
            Def::Param(b, _) => changes.first.entry(b.0).or_default(),
            Def::Inst(id, _) => changes.behind.entry(id).or_default(),
        };
        let mut shared = *base;
        for &v in [*moves].iter().chain(more) {
            let sum = Inst { args: [shared, v].into_iter().collect(), ..f.inst(list[0].0).clone() };
            let id = f.new_inst(sum, &[Ty::B64]);
            steps.push(id);
            shared = f.inst(id).results[0];
        }
        for &(i, from) in list {
            let mut new = Vec::new();
            again(f, from, *base, shared, &mut new);
            // The last one of these gives what the sum gave.
            let Some(last) = new.pop() else { continue };
            let results = f.inst(i).results.clone();
            f.insts[i.0 as usize] = Inst { results, ..f.inst(last).clone() };
            changes.before.insert(i, new);
        }
    }
    changes.apply(f, members);
    true
}

/// What has the same key, in the order of the first of each, where there is enough of it.
fn grouped<K: Eq + std::hash::Hash, T>(list: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut places: FxHashMap<K, usize> = FxHashMap::default();
    let mut groups: Vec<Vec<T>> = Vec::new();
    for (key, x) in list {
        let at = *places.entry(key).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(x);
    }
    let mut keys: Vec<(usize, K)> = places.into_iter().map(|(k, at)| (at, k)).collect();
    keys.sort_unstable_by_key(|k| k.0);
    keys.into_iter().zip(groups).map(|((_, k), list)| (k, list)).filter(|g| g.1.len() >= LEAST).collect()
}

/// Of pointers that a loop steps alike, one steps, and the others lie at offsets of it. True if there were some. The loop is come to from `before` and goes back from
/// `latch`.
fn one_loop(f: &mut Func, header: Block, members: &[u32], before: u32, latch: u32) -> bool {
    let (Some(inits), Some(nexts)) = (arguments(f, before, header), arguments(f, latch, header)) else { return false };
    let uses = uses(f);
    // By whom what the loop hands on is read.
    let made = made(f, members);
    let mut readers: FxHashMap<Value, SmallVec<[InstId; 4]>> = FxHashMap::default();
    readers.extend(f.blocks[header.index()].params.iter().map(|&p| (p, SmallVec::new())));
    for &i in members.iter().flat_map(|&m| &f.blocks[m as usize].insts) {
        for a in &f.inst(i).args {
            if let Some(list) = readers.get_mut(a) {
                list.push(i);
            }
        }
    }
    let outside = |v: Value| !made.contains(v.index());
    let mut found: Vec<(Way, Pointer)> = Vec::new();
    for (nth, &p) in f.blocks[header.index()].params.iter().enumerate() {
        let (init, Def::Inst(next, _)) = (inits[nth], f.def(nexts[nth])) else { continue };
        let step = f.inst(next);
        let steps = match step.op {
            Op::IAdd => step.args.iter().filter(|&&a| a == p).count() == 1,
            Op::IMadWide => step.args[2] == p && step.args[0] != p && step.args[1] != p,
            _ => false,
        };
        let others: SmallVec<[Value; 2]> = step.args.iter().copied().filter(|&a| a != p).collect();
        let list = &readers[&p];
        if f.ty(p) != Ty::B64
            || !steps
            || !others.iter().all(|&a| outside(a))
            || uses[nexts[nth].index()] != 1
            || uses[p.index()] as usize != list.len()
            || list.len() < 2
        {
            continue;
        }
        let Some(base) = base(f, init, DEEP).filter(|&b| outside(b)) else { continue };
        let mut reads = list.iter().filter(|&&i| i != next);
        let only = reads.next().filter(|_| reads.next().is_none()).map(|&i| f.inst(i));
        let sum = only.filter(|i| i.op == Op::IAdd).and_then(|i| {
            let more = if i.args[0] == p { i.args[1] } else { i.args[0] };
            (more != p && outside(more) && f.constant(more).is_none()).then_some((i.results[0], more))
        });
        let (read, more) = sum.map_or((p, None), |(r, more)| (r, Some(more)));
        let part = |v: &Value| f.constant(*v).map_or(Part::Made(*v), Part::Known);
        let step_by = others.iter().map(part).collect();
        let way = Way { op: step.op, signed: step.attr.signed, step: step_by, base, more };
        found.push((way, Pointer { nth, init, next, read }));
    }
    let ways = grouped(found.into_iter());
    if ways.is_empty() {
        return false;
    }
    let mut replaced: Vec<(Value, Value)> = Vec::new();
    let mut keep: Vec<Vec<bool>> = f.blocks.iter().map(|b| vec![true; b.params.len()]).collect();
    let mut list = Vec::new();
    let mut changes = Changes::default();
    for (way, pointers) in ways {
        let loc = f.inst(pointers[0].next).loc;
        let mut at = Builder::new(f, Block(before));
        at.loc = loc;
        let start = match way.more {
            Some(more) => at.op(Op::IAdd, &[way.base, more], Ty::B64),
            None => way.base,
        };
        let shared = f.add_param(header, Ty::B64);
        keep[header.index()].push(true);
        let mut step = f.inst(pointers[0].next).clone();
        let p = f.blocks[header.index()].params[pointers[0].nth];
        step.args.iter_mut().filter(|a| **a == p).for_each(|a| *a = shared);
        let next = f.new_inst(step, &[Ty::B64]);
        let stepped = f.inst(next).results[0];
        changes.behind.insert(pointers[0].next, vec![next]);
        for (from, v) in [(before, start), (latch, stepped)] {
            let edges = f.blocks[from as usize].term.edges_mut();
            edges.into_iter().filter(|e| e.block == header).for_each(|e| e.args.push(v));
        }
        for x in &pointers {
            let v = again(f, x.init, way.base, shared, &mut list);
            replaced.push((x.read, v));
            keep[header.index()][x.nth] = false;
            // What stepped a pointer reads it: it goes, as its sum does, which nobody reads now.
            changes.gone.insert(x.next);
            if let Def::Inst(sum, _) = f.def(x.read) {
                changes.gone.insert(sum);
            }
        }
    }
    changes.first.insert(header.0, list);
    changes.apply(f, members);
    let mut table = identity(f);
    replaced.into_iter().for_each(|(old, new)| table[old.index()] = new);
    substitute(f, &mut table);
    params::remove(f, &keep);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    /// A loop that loads behind `n` pointers, the first of them with `first` as its step and the others with v6; `beyond` comes behind it.
    fn after(n: usize, first: &str, read: &str, beyond: &str) -> String {
        let list = |from: usize, ty: &str| (0..n).map(|i| format!("v{}{ty}", from + i)).collect::<Vec<_>>().join(", ");
        let mut body = String::from(
            "func k entry returns() {\nblk0():\nv0:b64 = param {space=param bytes=8}\nv1:b64 = param {space=param bytes=8 imm=8}\nv2:b32 = param {space=param bytes=4 imm=16}\nv3:b32 = const {imm=2}\n\
             v4:b32 = param {space=param bytes=4 imm=20}\nv5:p = icmp v2, v4 {cmp=lt}\nv6:b64 = const {imm=64}\nv7:b64 = const {imm=8}\nv8:b64 = const {imm=64}\nv9:b64 = const {imm=9}\n",
        );
        for i in 0..n {
            body +=
                &format!("v{}:b32 = imul v2, v4\nv{}:b64 = imadwide v{}, v3, v0 {{signed}}\n", 10 + i, 20 + i, 10 + i);
        }
        body += &format!("br blk1({})\nblk1({}):\n", list(20, ""), list(30, ":b64"));
        for i in 0..n {
            let (p, s) = (30 + i, 40 + i);
            let from = if read.is_empty() { p } else { s };
            if !read.is_empty() {
                body += &format!("v{s}:b64 = iadd v{p}, {read}\n");
            }
            body += &format!(
                "v{}:b32 = load v{from} {{space=global bytes=4}}\nstore v{from}, v{} {{space=global bytes=4 imm=4}}\n",
                50 + i,
                50 + i
            );
        }
        for i in 0..n {
            // Two constants may be the same.
            let step = if i == 0 { first } else { ["v6", "v8"][i % 2] };
            body += &format!("v{}:b64 = iadd v{}, {step}\n", 60 + i, 30 + i);
        }
        body += &format!("brif v5, blk1({}), blk2()\nblk2():\n{beyond}exit\n}}\n", list(60, ""));
        passed(&body)
    }

    /// The text behind the pass.
    fn passed(body: &str) -> String {
        // Values are numbered without gaps.
        let mut numbers: Vec<String> = Vec::new();
        let mut words: Vec<String> =
            body.split_inclusive(|c: char| !c.is_ascii_alphanumeric()).map(String::from).collect();
        for w in &mut words {
            let name = w.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_string();
            if name.len() > 1 && name.starts_with('v') && name[1..].bytes().all(|b| b.is_ascii_digit()) {
                let n = numbers.iter().position(|n| *n == name).unwrap_or(numbers.len());
                if n == numbers.len() {
                    numbers.push(name.clone());
                }
                *w = format!("v{n}{}", &w[name.len()..]);
            }
        }
        let mut f = text::parse(&words.concat()).unwrap().remove(0);
        verify::verify(&f).unwrap();
        run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    fn inside(text: &str) -> &str {
        &text[text.find("\nblk1(").unwrap()..text.find("\nblk2(").unwrap()]
    }

    #[test]
    fn pointers_share_their_step() {
        let text = after(4, "v6", "", "");
        let body = inside(&text);
        assert_eq!((body.matches("iadd").count(), body.matches("imadwide").count()), (1, 4), "{text}");
        assert_eq!(body.matches(":b64, ").count(), 0, "{text}");
        // What all have added to them is added once, before the loop.
        let text = after(4, "v6", "v1", "");
        let body = inside(&text);
        assert_eq!((body.matches("iadd").count(), body.matches("imadwide").count()), (1, 4), "{text}");
        assert!(text.contains("iadd v0, v1"), "{text}");
    }

    /// A loop in which a counter is added to each of `n` pointers, of which the first is read `times` more.
    fn counted(n: usize, times: usize) -> String {
        counted_with(n, times, "")
    }

    /// The same, with something added to each pointer before the loop.
    fn counted_with(n: usize, times: usize, more: &str) -> String {
        let mut body = String::from(
            "func k entry returns() {\nblk0():\nv0:b64 = param {space=param bytes=8}\nv1:b64 = const {imm=64}\nv2:b32 = param {space=param bytes=4 imm=16}\nv3:b32 = const {imm=2}\n\
             v4:b32 = param {space=param bytes=4 imm=20}\nv5:p = icmp v2, v4 {cmp=lt}\nv8:b64 = param {space=param bytes=8 imm=24}\n",
        );
        for i in 0..n {
            body += &format!(
                "v{}:b32 = imul v2, v4\nv{}:b64 = imadwide v{}, v3, v0 {{signed}}\n",
                100 + i,
                if more.is_empty() { 200 } else { 500 } + i,
                100 + i
            );
            if !more.is_empty() {
                body += &format!("v{}:b64 = iadd v{}, {more}\n", 200 + i, 500 + i);
            }
        }
        body += "br blk1(v1)\nblk1(v6:b64):\n";
        for i in 0..n {
            body += &format!(
                "v{}:b64 = iadd v{}, v6\nv{}:b32 = load v{} {{space=global bytes=4}}\n",
                300 + i,
                200 + i,
                400 + i,
                300 + i
            );
            body += &format!("store v0, v{} {{space=global bytes=4}}\n", 400 + i);
        }
        body += &"store v200, v2 {space=global bytes=4}\n".repeat(times);
        body += "v7:b64 = iadd v6, v1\nbrif v5, blk1(v7), blk2()\nblk2():\nexit\n}\n";
        passed(&body)
    }

    #[test]
    fn pointers_that_stay_share_what_moves() {
        let text = counted(4, 0);
        let body = inside(&text);
        assert_eq!((body.matches("iadd").count(), body.matches("imadwide").count()), (2, 4), "{text}");
        let text = counted(4, 1);
        let body = inside(&text);
        assert_eq!((body.matches("iadd").count(), body.matches("imadwide").count()), (3, 3), "{text}");
        assert!(!inside(&counted(3, 1)).contains("imadwide"));
        // What was added to all of them is added to what they share.
        let text = counted_with(4, 0, "v8");
        let body = inside(&text);
        assert_eq!((body.matches("iadd").count(), body.matches("imadwide").count()), (3, 4), "{text}");
    }

    #[test]
    fn others_keep_theirs() {
        // Two pointers, another step, and one that is read behind the loop.
        assert!(!inside(&after(2, "v6", "", "")).contains("imadwide"));
        let text = after(4, "v7", "", "");
        assert_eq!(
            (inside(&text).matches("iadd").count(), inside(&text).matches("imadwide").count()),
            (2, 3),
            "{text}"
        );
        let text = after(4, "v6", "", "store v30, v2 {space=global bytes=4}\n");
        assert_eq!(
            (inside(&text).matches("iadd").count(), inside(&text).matches("imadwide").count()),
            (2, 3),
            "{text}"
        );
    }
}
