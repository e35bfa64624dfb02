//! An order of a part of a block that keeps few values alive, made from its end.
//!
//! What is read behind the part is alive at its end. Of all instructions whose results are read only by what stands already, the one is put before them
//! that makes the fewest values more alive: those that it reads first, without those that it makes. So an address is computed just before
//! the access that reads it, though many are computed of one base, which is then alive for longer; and a load stands before what is
//! computed of it, where the order of the text has all loads first. n log n.

use super::order::movable;
use super::postpass::Graph;
use super::prepass::{Values, begin, fixed, graph, issue};
use super::traffic::Traffic;
use crate::mir::liveness::Liveness;
use crate::mir::{Func, Inst, Op, reorder};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The order: a number for each instruction of the part, and what `graph` has.
/// As long as no more than `bound` values are alive, what stood last comes last; where several make as few values more alive, too. What stood more than
/// `window` before the last one that has no place yet is not looked at.
pub fn order(traffic: &Traffic, graph: &Graph, bound: i32, window: u32) -> Vec<u32> {
    let n = traffic.len();
    let mut alive: Vec<bool> = traffic.values.iter().map(|v| v.behind).collect();
    let (first, readers) = traffic.readers();
    let before = Before::new(graph, n);
    let mut followers: Vec<u32> = (0..n).map(|i| graph.after(i).len() as u32).collect();
    // How many values more are alive before an instruction than behind it.
    let new = |i: usize| traffic.reads(i).iter().filter(|v| !alive[**v as usize]).count() as i32;
    let mut more: Vec<i32> = (0..n).map(|i| new(i) - traffic.writes(i).len() as i32).collect();
    let mut now = alive.iter().filter(|&&a| a).count() as i32;
    // What may be next: by its place, and by what it makes alive, of that only what is in the window.
    let mut last: BinaryHeap<u32> = (0..n as u32).filter(|&i| followers[i as usize] == 0).collect();
    let mut early = last.clone();
    let mut ready: BinaryHeap<(i32, u32)> = BinaryHeap::new();
    let mut done = vec![false; n];
    let mut order = Vec::with_capacity(n);
    while order.len() < n {
        while last.peek().is_some_and(|&i| done[i as usize]) {
            last.pop();
        }
        let Some(&latest) = last.peek() else { break };
        let from = latest.saturating_sub(window);
        while early.peek().is_some_and(|&i| i >= from) {
            ready.extend(early.pop().map(|i| (-more[i as usize], i)));
        }
        let fits = now + more[latest as usize] <= bound;
        let next = if fits { None } else { pop(&mut ready, &done, &more) };
        let i = next.unwrap_or(latest);
        done[i as usize] = true;
        now += more[i as usize];
        order.push(i);
        for &v in traffic.reads(i as usize) {
            if std::mem::replace(&mut alive[v as usize], true) {
                continue;
            }
            for &r in &readers[first[v as usize] as usize..first[v as usize + 1] as usize] {
                more[r as usize] -= 1;
                if followers[r as usize] == 0 && !done[r as usize] && r >= from {
                    ready.push((-more[r as usize], r));
                }
            }
        }
        for &b in before.of(i as usize) {
            followers[b as usize] -= 1;
            if followers[b as usize] == 0 {
                early.push(b);
                last.push(b);
            }
        }
    }
    order.reverse();
    order
}

/// What makes the fewest values more alive.
fn pop(ready: &mut BinaryHeap<(i32, u32)>, done: &[bool], more: &[i32]) -> Option<u32> {
    while let Some((gain, i)) = ready.pop() {
        if !done[i as usize] && gain == -more[i as usize] {
            return Some(i);
        }
    }
    None
}

/// What must come before each instruction.
struct Before {
    first: Vec<u32>,
    list: Vec<u32>,
}

impl Before {
    fn new(graph: &Graph, n: usize) -> Before {
        let mut first = vec![0u32; n + 1];
        graph.waiting.iter().enumerate().for_each(|(i, &w)| first[i + 1] = w);
        (0..n).for_each(|i| first[i + 1] += first[i]);
        let mut at = first.clone();
        let mut list = vec![0; first[n] as usize];
        for i in 0..n {
            for &(to, _) in graph.after(i) {
                list[at[to as usize] as usize] = i as u32;
                at[to as usize] += 1;
            }
        }
        Before { first, list }
    }

    fn of(&self, i: usize) -> &[u32] {
        &self.list[self.first[i] as usize..self.first[i + 1] as usize]
    }
}

/// An order that finishes one thing after the other: before an instruction stands all that it needs and that does not
/// stand yet, what takes most registers on the way first.
fn depth_first(traffic: &Traffic, graph: &Graph) -> Vec<u32> {
    let n = traffic.len();
    let mut before = Before::new(graph, n);
    // Registers that are taken while it is computed, if nothing of it is there, and those that it leaves.
    let leaves = |i: u32| traffic.effects[i as usize][0].made;
    let mut takes = vec![0u32; n];
    for i in 0..n {
        let list = &mut before.list[before.first[i] as usize..before.first[i + 1] as usize];
        list.sort_unstable_by_key(|&p| (Reverse(takes[p as usize].saturating_sub(leaves(p))), p));
        let (mut held, mut most) = (0, leaves(i as u32));
        for &p in &*list {
            most = most.max(held + takes[p as usize]);
            held += leaves(p);
        }
        takes[i] = most.max(held).min(MANY);
    }
    let mut order = Vec::with_capacity(n);
    let mut seen = vec![false; n];
    let mut stack: Vec<(u32, u32)> = Vec::new();
    for root in (0..n).filter(|&i| graph.after(i).is_empty()) {
        seen[root] = true;
        stack.push((root as u32, 0));
        while let Some((i, k)) = stack.last_mut() {
            match before.of(*i as usize).get(*k as usize) {
                Some(&p) => {
                    *k += 1;
                    if !std::mem::replace(&mut seen[p as usize], true) {
                        stack.push((p, 0));
                    }
                }
                None => {
                    order.push(*i);
                    stack.pop();
                }
            }
        }
    }
    order
}

/// An order in which readers of a predicate stand behind the first of them, with what they need, where that is little: seven predicates are soon taken, and PTX
/// masks one row of a tile after the other, each by the same ones. What does not `move` stays where it is.
fn together(traffic: &Traffic, graph: &Graph, order: &[u32], moves: &impl Fn(u32) -> bool) -> Vec<u32> {
    let n = traffic.len();
    let before = Before::new(graph, n);
    let (first, readers) = traffic.readers();
    let mut out = Vec::with_capacity(n);
    let mut done = vec![false; n];
    let mut needed: Vec<u32> = Vec::new();
    for &i in order {
        if std::mem::replace(&mut done[i as usize], true) {
            continue;
        }
        out.push(i);
        for &v in traffic.reads(i as usize).iter().filter(|v| traffic.values[**v as usize].kind == 1) {
            for &r in &readers[first[v as usize] as usize..first[v as usize + 1] as usize] {
                needed.clear();
                if !done[r as usize] && reach(&before, &done, r, moves, &mut needed) {
                    needed.iter().for_each(|&d| done[d as usize] = true);
                    out.extend_from_slice(&needed);
                }
            }
        }
    }
    out
}

/// So many instructions move with a reader of a predicate, itself among them.
const TOGETHER: usize = 4;

/// True if what must stand before instruction `i` is little; `needed` gets it, and `i` behind it.
fn reach(before: &Before, done: &[bool], i: u32, moves: &impl Fn(u32) -> bool, needed: &mut Vec<u32>) -> bool {
    let mut ok = moves(i);
    for &b in before.of(i as usize).iter().filter(|b| !done[**b as usize]) {
        ok = ok && (needed.contains(&b) || needed.len() < TOGETHER && reach(before, done, b, moves, needed));
    }
    if !ok {
        return false;
    }
    needed.push(i);
    needed.len() <= TOGETHER
}

/// How far ahead of what has no place yet an order made from the end looks for something that needs fewer registers: what is dear and stands in the way of all
/// loads before it, as a copy into shared memory, would else come last of all.
const WINDOW: u32 = 32;
/// More registers than there are.
const MANY: u32 = 1 << 10;

/// Gives the parts of a block that need more than `limit` registers another order, if that needs less; then what stands between two places where
/// threads wait for each other, by itself. Without a limit nothing changes.
/// Gives how many registers the block then needs.
pub(super) fn lessen(f: &mut Func, b: usize, live: &Liveness, values: &mut Values, sm: u16, limit: Option<u32>) -> u32 {
    let mut insts = std::mem::take(&mut f.blocks[b].insts);
    let (mut need, mut order) = pass(f, b, live, &insts, values, sm, limit, fixed);
    if need > limit.unwrap_or(0) && insts.iter().any(|i| waits(&i.op)) {
        insts = reorder(insts, &order);
        let (least, then) = pass(f, b, live, &insts, values, sm, limit, |op| fixed(op) || waits(op));
        need = need.min(least);
        if limit.is_some() {
            insts = reorder(insts, &then);
        } else {
            let mut back = vec![0; order.len()];
            (0..).zip(&order).for_each(|(at, &i)| back[i as usize] = at);
            insts = reorder(insts, &back);
        }
    } else if limit.is_some() {
        insts = reorder(insts, &std::mem::take(&mut order));
    }
    f.blocks[b].insts = insts;
    need
}

/// Threads wait for each other.
fn waits(op: &Op) -> bool {
    matches!(op, Op::Sass(s) if s.form().effects.sync)
}

/// A better order of what stands between instructions that stay, and how many registers the block then needs.
#[allow(clippy::too_many_arguments)]
fn pass(
    f: &Func,
    b: usize,
    live: &Liveness,
    insts: &[Inst],
    values: &mut Values,
    sm: u16,
    limit: Option<u32>,
    stays: impl Fn(&Op) -> bool,
) -> (u32, Vec<u32>) {
    begin(f, b, insts, live, values);
    let mut order = Vec::with_capacity(insts.len());
    let mut from = 0;
    let mut need = values.live[0];
    for to in 0..=insts.len() {
        if to < insts.len() && !stays(&insts[to].op) {
            continue;
        }
        let part = &insts[from..to];
        let (needs, list) = lesser(f, part, values, sm, limit.unwrap_or(need));
        need = need.max(needs);
        match list {
            Some(list) => order.extend(list.into_iter().map(|i| from as u32 + i)),
            None => order.extend(from as u32..to as u32),
        }
        part.iter().for_each(|i| issue(f, &i.op, values));
        need = need.max(values.live[0]);
        if let Some(inst) = insts.get(to) {
            issue(f, &inst.op, values);
            order.push(to as u32);
            need = need.max(values.live[0]);
        }
        from = to + 1;
    }
    (need, order)
}

/// An order of a part that needs fewer registers than the one it has, if that needs more than `limit` and there is one; and how many are needed then.
fn lesser(f: &Func, part: &[Inst], values: &mut Values, sm: u16, limit: u32) -> (u32, Option<Vec<u32>>) {
    let traffic = values.traffic(f, part);
    // Predicates beyond those that there are wait in general registers. With them, and without.
    let predicates = values.limit[2] as i32;
    let peak = |order: &mut dyn ExactSizeIterator<Item = u32>| {
        let mut most = [traffic.alive[0]; 2];
        traffic.needs(order, |n| {
            let both = n[0] + (n[1] - predicates).max(0);
            most = [most[0].max(both.max(0) as u32), most[1].max(n[0].max(0) as u32)];
        });
        most
    };
    let old = peak(&mut (0..part.len() as u32));
    if part.len() < 3 || old[1] <= limit && old[0] <= limit {
        return (old[1], None);
    }
    let graph = graph(f, part, values, sm);
    let mut best = (old, None);
    let mut look = |order: Vec<u32>| {
        if order.len() == part.len() {
            let new = peak(&mut order.iter().copied());
            if new < best.0 {
                best = (new, Some(order));
            }
        }
        best.0[0] <= limit
    };
    let limit = limit as i32;
    let _ = look(order(&traffic, &graph, limit, u32::MAX)) || look(order(&traffic, &graph, 0, u32::MAX)) || {
        let one_by_one = depth_first(&traffic, &graph);
        let crowded = traffic.peaks(one_by_one.iter().copied())[1] as i32 > predicates;
        let moves = |i: u32| matches!(&part[i as usize].op, Op::Sass(s) if movable(s));
        let masked = crowded.then(|| together(&traffic, &graph, &one_by_one, &moves));
        look(one_by_one) || masked.is_some_and(&mut look) || look(order(&traffic, &graph, 0, WINDOW))
    };
    (best.0[1], best.1)
}

#[cfg(test)]
mod tests {
    use super::super::traffic::{Effect, Known};
    use super::*;

    /// Instructions by what they read and write, in an order that only values impose.
    fn after(part: &[(&[u32], &[u32])], behind: &[u32]) -> Vec<u32> {
        let (t, graph) = made(part, behind);
        order(&t, &graph, 0, u32::MAX)
    }

    fn made(part: &[(&[u32], &[u32])], behind: &[u32]) -> (Traffic, Graph) {
        let known = |v| Known { behind: behind.contains(&v), kind: 0 };
        let mut t = Traffic { values: (0..16).map(known).collect(), ..Traffic::default() };
        let mut graph = Graph::default();
        for (i, (reads, writes)) in part.iter().enumerate() {
            t.from.push((t.reads.len() as u32, t.writes.len() as u32));
            t.reads.extend_from_slice(reads);
            t.writes.extend_from_slice(writes);
            t.effects.push(Default::default());
            for (k, before) in part[..i].iter().enumerate() {
                if before.1.iter().any(|v| reads.contains(v)) {
                    graph.edge(k as u32, i as u32, 4);
                }
            }
        }
        t.from.push((t.reads.len() as u32, t.writes.len() as u32));
        graph.finish(part.len());
        (t, graph)
    }

    /// Three predicates, then two rows of choices by them, the second of products that stand right before it.
    #[test]
    fn rows_under_the_same_predicates_are_chosen_together() {
        let part: &[(&[u32], &[u32])] = &[
            (&[], &[0]),
            (&[], &[1]),
            (&[], &[2]),
            (&[0, 3], &[4]),
            (&[1, 3], &[5]),
            (&[2, 3], &[6]),
            (&[3], &[7]),
            (&[0, 7], &[8]),
            (&[3], &[9]),
            (&[1, 9], &[10]),
            (&[2, 8, 10], &[11]),
        ];
        let (mut t, graph) = made(part, &[4, 5, 6, 11]);
        (0..3).for_each(|p| t.values[p].kind = 1);
        let order: Vec<u32> = (0..part.len() as u32).collect();
        assert_eq!(together(&t, &graph, &order, &|_| true), [0, 1, 2, 3, 6, 7, 4, 8, 9, 5, 10]);
        assert_eq!(together(&t, &graph, &order, &|i| i != 6), [0, 1, 2, 3, 4, 8, 9, 5, 6, 7, 10]);
        // What needs more stays where it is.
        let mut long: Vec<(&[u32], &[u32])> = part[..3].to_vec();
        let chain: [(&[u32], &[u32]); 4] = [(&[3], &[4]), (&[4], &[5]), (&[5], &[6]), (&[6], &[7])];
        long.push((&[0, 3], &[8]));
        long.extend(chain);
        long.push((&[0, 7], &[9]));
        let (mut t, graph) = made(&long, &[8, 9]);
        t.values[0].kind = 1;
        let order: Vec<u32> = (0..long.len() as u32).collect();
        assert_eq!(together(&t, &graph, &order, &|_| true), order);
    }

    /// Loads of two values (0 and 1, 2 and 3, ...), behind each a product of them that is added to the one before, and what must stand behind all loads: a copy
    /// with operands of its own.
    fn products(n: u32) -> (Traffic, Graph) {
        let known = |_| Known { behind: false, kind: 0 };
        let mut t = Traffic { values: (0..4 * n + 4).map(known).collect(), ..Traffic::default() };
        let mut graph = Graph::default();
        let mut add = |reads: &[u32], writes: &[u32]| {
            t.from.push((t.reads.len() as u32, t.writes.len() as u32));
            t.reads.extend_from_slice(reads);
            t.writes.extend_from_slice(writes);
            let made = writes.len() as u32;
            t.effects.push([Effect { made, written: made, apart: true }, Effect::default()]);
        };
        // Each product adds to the one before.
        for k in 0..n {
            let before = if k == 0 { 4 * n } else { 2 * n + k - 1 };
            add(&[], &[2 * k, 2 * k + 1]);
            add(&[2 * k, 2 * k + 1, before], &[2 * n + k]);
            graph.edge(2 * k, 2 * k + 1, 20);
            (k > 0).then(|| graph.edge(2 * k - 1, 2 * k + 1, 4));
        }
        add(&[4 * n + 1, 4 * n + 2, 4 * n + 3], &[]);
        (0..n).for_each(|k| graph.edge(2 * k, 2 * n, 1));
        t.from.push((t.reads.len() as u32, t.writes.len() as u32));
        t.alive = [4, 0];
        graph.finish(2 * n as usize + 1);
        (t, graph)
    }

    #[test]
    fn what_is_dear_and_stands_behind_all_loads_is_not_left_to_the_end() {
        let (t, graph) = products(100);
        let peak = |order: Vec<u32>| t.peaks(order.into_iter())[0];
        // With all in view the copy, which makes three values alive, is placed when nothing else is left: before all products.
        assert!(peak(order(&t, &graph, 0, u32::MAX)) > 200);
        assert!(peak(order(&t, &graph, 0, WINDOW)) < 50);
    }

    #[test]
    fn one_thing_is_finished_before_the_next_begins() {
        // Four loads of two values each, the four sums of those, then all stores.
        let mut part: Vec<(&[u32], &[u32])> = vec![(&[], &[0, 1]), (&[], &[2, 3]), (&[], &[4, 5])];
        part.extend([(&[0, 1][..], &[6][..]), (&[2, 3], &[7]), (&[4, 5], &[8]), (&[6], &[]), (&[7], &[]), (&[8], &[])]);
        let (t, graph) = made(&part, &[]);
        assert_eq!(depth_first(&t, &graph), [0, 3, 6, 1, 4, 7, 2, 5, 8]);
    }

    /// Without a limit nothing changes, and what was said to be enough is enough.
    #[test]
    fn blocks_with_barriers_need_what_was_said() {
        let mut body = String::new();
        // Three loads ahead, and each read once; twice, with a barrier between.
        for k in [0, 20] {
            (1..=3).for_each(|n| {
                body += &format!(
                    "    LDS.Size=6 Rd={{%r{},%r{},%r{},%r{}}} Ra=%r0 Imm={n}\n",
                    k + 4 * n,
                    k + 4 * n + 1,
                    k + 4 * n + 2,
                    k + 4 * n + 3
                )
            });
            for n in 1..=3 {
                (0..4).for_each(|e| body += &format!("    STG.Size=4 Ra=RZ Rb=%r{} URc=UR4\n", k + 4 * n + e));
            }
            body += "    BAR_SYNC_I\n";
        }
        let text = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n{body}    exit\n}}\n"
        );
        let mut f = crate::mir::text::parse(&text).unwrap().remove(0);
        let live = Liveness::new(&f, &f.cfg());
        let mut values = Values::of(&f);
        let before = crate::mir::text::print(&f);
        let need = lessen(&mut f, 0, &live, &mut values, 90, None);
        assert_eq!(crate::mir::text::print(&f), before);
        assert_eq!(lessen(&mut f, 0, &live, &mut values, 90, Some(need)), need);
        assert!(need <= 7, "{need}");
    }

    #[test]
    fn what_is_computed_of_one_base_waits_for_its_readers() {
        // Two pairs of registers computed of the base 0, then read one after the other.
        let part: [(&[u32], &[u32]); 4] = [(&[0], &[1, 2]), (&[0], &[3, 4]), (&[1, 2, 9], &[]), (&[3, 4, 9], &[])];
        assert_eq!(after(&part, &[]), [0, 2, 1, 3]);
    }

    #[test]
    fn what_ends_two_values_for_one_stays_early() {
        let part: [(&[u32], &[u32]); 4] = [(&[0, 1], &[2]), (&[3, 4], &[5]), (&[5], &[]), (&[2], &[])];
        assert_eq!(after(&part, &[0]), [1, 2, 0, 3]);
        assert_eq!(after(&part, &[]), [0, 1, 2, 3]);
    }
}
