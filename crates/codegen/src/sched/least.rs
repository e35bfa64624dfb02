//! An order of a part of a block that keeps few values alive, made from its end.
//!
//! What is read behind the part is alive at its end. Of all instructions whose results are read only by what stands already, the one is put before them
//! that makes the fewest values more alive: those that it reads first, without those that it makes. So an address is computed just before
//! the access that reads it, though many are computed of one base, which is then alive for longer; and a load stands before what is
//! computed of it, where the order of the text has all loads first. n log n.

use super::postpass::Graph;
use super::prepass::{Values, begin, fixed, graph, issue};
use super::traffic::Traffic;
use crate::mir::liveness::Liveness;
use crate::mir::{Func, Inst, reorder};
use std::collections::BinaryHeap;

/// The order: a number for each instruction of the part, and what `graph` has.
/// As long as no more than `bound` values are alive, what stood last comes last.
pub fn order(traffic: &Traffic, graph: &Graph, bound: i32) -> Vec<u32> {
    let n = traffic.len();
    let mut alive: Vec<bool> = traffic.values.iter().map(|v| v.behind).collect();
    let (first, readers) = traffic.readers();
    let before = Before::new(graph, n);
    let mut followers: Vec<u32> = (0..n).map(|i| graph.after(i).len() as u32).collect();
    // How many values more are alive before an instruction than behind it.
    let new = |i: usize| traffic.reads(i).iter().filter(|v| !alive[**v as usize]).count() as i32;
    let mut more: Vec<i32> = (0..n).map(|i| new(i) - traffic.writes(i).len() as i32).collect();
    let mut now = alive.iter().filter(|&&a| a).count() as i32;
    let mut last: BinaryHeap<u32> = (0..n as u32).filter(|&i| followers[i as usize] == 0).collect();
    let mut ready: BinaryHeap<(i32, u32)> = last.iter().map(|&i| (-more[i as usize], i)).collect();
    let mut done = vec![false; n];
    let mut order = Vec::with_capacity(n);
    while order.len() < n {
        while last.peek().is_some_and(|&i| done[i as usize]) {
            last.pop();
        }
        let next = last.peek().copied().filter(|&i| now + more[i as usize] <= bound);
        let Some(i) = next.or_else(|| {
            while let Some((gain, i)) = ready.pop() {
                if !done[i as usize] && gain == -more[i as usize] {
                    return Some(i);
                }
            }
            None
        }) else {
            break;
        };
        done[i as usize] = true;
        now += more[i as usize];
        order.push(i);
        for &v in traffic.reads(i as usize) {
            if std::mem::replace(&mut alive[v as usize], true) {
                continue;
            }
            for &r in &readers[first[v as usize] as usize..first[v as usize + 1] as usize] {
                more[r as usize] -= 1;
                if followers[r as usize] == 0 && !done[r as usize] {
                    ready.push((-more[r as usize], r));
                }
            }
        }
        for &b in before.of(i as usize) {
            followers[b as usize] -= 1;
            if followers[b as usize] == 0 {
                ready.push((-more[b as usize], b));
                last.push(b);
            }
        }
    }
    order.reverse();
    order
}

/// What must come before each instruction.
struct Before {
    first: Vec<u32>,
    list: Vec<u32>,
}

impl Before {
    fn new(graph: &Graph, n: usize) -> Before {
        // Where each list ends; it is filled from there.
        let mut first = vec![0u32; n + 1];
        (0..n).for_each(|i| graph.after(i).iter().for_each(|&(to, _)| first[to as usize] += 1));
        let mut sum = 0;
        for place in &mut first {
            sum += *place;
            *place = sum;
        }
        let mut list = vec![0u32; sum as usize];
        for i in (0..n).rev() {
            for &(to, _) in graph.after(i) {
                first[to as usize] -= 1;
                list[first[to as usize] as usize] = i as u32;
            }
        }
        Before { first, list }
    }

    fn of(&self, n: usize) -> &[u32] {
        &self.list[self.first[n] as usize..self.first[n + 1] as usize]
    }
}

/// Gives the parts of a block that need more than `limit` registers another order, if that needs less. Without a limit nothing changes.
/// Gives how many registers the block then needs.
pub(super) fn lessen(f: &mut Func, b: usize, live: &Liveness, values: &mut Values, sm: u16, limit: Option<u32>) -> u32 {
    let insts = std::mem::take(&mut f.blocks[b].insts);
    begin(f, b, &insts, live, values);
    let mut order = Vec::with_capacity(insts.len());
    let mut from = 0;
    let mut need = values.live[0];
    for to in 0..=insts.len() {
        if to < insts.len() && !fixed(&insts[to].op) {
            continue;
        }
        let part = &insts[from..to];
        match lesser(f, part, values, sm, limit.unwrap_or(need)) {
            (needs, Some(list)) => {
                need = need.max(needs);
                order.extend(list.into_iter().map(|i| from as u32 + i));
            }
            (needs, None) => {
                need = need.max(needs);
                order.extend(from as u32..to as u32);
            }
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
    f.blocks[b].insts = if limit.is_some() { reorder(insts, &order) } else { insts };
    need
}

/// An order of a part that needs fewer registers than the one it has, if that needs more than `limit` and there is one; and how many are needed then.
fn lesser(f: &Func, part: &[Inst], values: &mut Values, sm: u16, limit: u32) -> (u32, Option<Vec<u32>>) {
    let traffic = values.traffic(f, part);
    let old = traffic.peaks(0..part.len() as u32);
    if part.len() < 3 || old[0] <= limit {
        return (old[0], None);
    }
    let graph = graph(f, part, values, sm);
    let mut best = (old[0], None);
    for bound in [limit, 0] {
        let order = order(&traffic, &graph, bound as i32);
        if order.len() == part.len() {
            let new = traffic.peaks(order.iter().copied());
            if new[0] < best.0 && new[1] <= old[1].max(values.limit[2]) {
                best = (new[0], Some(order));
            }
        }
        if best.0 <= limit {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Known;
    use super::*;

    /// Instructions by what they read and write, in an order that only values impose.
    fn after(part: &[(&[u32], &[u32])], behind: &[u32]) -> Vec<u32> {
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
        order(&t, &graph, 0)
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
