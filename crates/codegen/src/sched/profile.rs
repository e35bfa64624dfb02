//! How many values of a file are alive at each place of an order, while instructions of it are taken out and put in front.
//!
//! The rest of an order needs so many registers at each of its places. What goes ahead adds its results to all places that it passes, and
//! takes away what it reads last. So it can be known before whether everything still fits: an instruction that fits now may be in the way of one that
//! comes much later. Each step takes log n.

use super::traffic::{Effect, Traffic};
use std::rc::Rc;

/// Numbers over places, to ranges of which something is added, with the largest of a range. Kept are the steps from each number to the next one, whose sums
/// they are: what is added to a range changes two steps, and ranges that end together have one of them in common.
#[derive(Clone, Default)]
struct Heights {
    leaves: usize,
    /// A tree, its root at 1, the steps in its leaves: the sum of the steps below, and the largest sum of the first ones of them.
    nodes: Vec<(i32, i32)>,
}

/// As far below all numbers that nothing added to it is above one.
const LEAST: i32 = i32::MIN / 2;

/// A part of the steps, and that behind it.
#[inline]
fn joined(a: (i32, i32), b: (i32, i32)) -> (i32, i32) {
    (a.0 + b.0, a.1.max(a.0 + b.1))
}

impl Heights {
    fn reset(&mut self, list: &[i32]) {
        self.leaves = list.len().next_power_of_two();
        self.nodes.clear();
        self.nodes.resize(2 * self.leaves, (0, LEAST));
        let mut last = 0;
        for (node, &n) in self.nodes[self.leaves..].iter_mut().zip(list) {
            let step = n - std::mem::replace(&mut last, n);
            *node = (step, step);
        }
        for p in (1..self.leaves).rev() {
            self.nodes[p] = joined(self.nodes[2 * p], self.nodes[2 * p + 1]);
        }
    }

    /// Adds to all numbers from a place on.
    fn step(&mut self, from: usize, n: i32) {
        let mut p = from + self.leaves;
        // Behind the last place there is nothing.
        if n == 0 || p >= self.nodes.len() {
            return;
        }
        let step = self.nodes[p].0 + n;
        let place = self.nodes[p].1 > LEAST;
        self.nodes[p] = (step, if place { step } else { LEAST });
        while p > 1 {
            p /= 2;
            self.nodes[p] = joined(self.nodes[2 * p], self.nodes[2 * p + 1]);
        }
    }

    /// The largest of a range; a range of nothing has none.
    fn largest(&self, from: usize, to: usize) -> i32 {
        if from >= to {
            return LEAST;
        }
        let (mut l, mut r) = (from + self.leaves, to - 1 + self.leaves);
        // The sum before the range, the range's beginning, and its end.
        let mut before = 0;
        let (mut a, mut b) = (self.nodes[l], self.nodes[r]);
        let one = l == r;
        while l / 2 != r / 2 {
            match l & 1 {
                0 => a = joined(a, self.nodes[l ^ 1]),
                _ => before += self.nodes[l ^ 1].0,
            }
            if r & 1 == 1 {
                b = joined(self.nodes[r ^ 1], b);
            }
            l /= 2;
            r /= 2;
        }
        if !one {
            a = joined(a, b);
        }
        while l > 1 {
            if l & 1 == 1 {
                before += self.nodes[l ^ 1].0;
            }
            l /= 2;
        }
        before + a.1
    }
}

/// A value that instructions of the order read.
#[derive(Clone, Copy, Debug)]
struct Read {
    first: u32,
    /// Behind the last place that reads it and has not been taken out.
    end: u32,
    /// Nobody reads it behind the order.
    ends: bool,
}

/// What changes if an instruction goes to the front of an order.
pub struct Change {
    /// Values that end with it.
    now: i32,
    /// By how many there are more at the front.
    ahead: i32,
    /// From which places on there is one less, each down to where the instruction stood.
    places: smallvec::SmallVec<[usize; 8]>,
}

/// The order, without what has been taken out of it.
#[derive(Clone, Default)]
pub struct Profile {
    heights: Heights,
    reads: Vec<Read>,
    taken: Vec<bool>,
    alive: i32,
    fixed: Rc<Fixed>,
}

/// What does not change while an order is made: all that are tried of a part share it.
#[derive(Default)]
struct Fixed {
    effects: Vec<Effect>,
    /// Places that read each value.
    places: Vec<u32>,
    /// By place: which values are read.
    of: Vec<u32>,
    from: Vec<u32>,
    /// By place: so many of the values alive do not count. Empty where all do.
    over: Vec<i32>,
}

impl Profile {
    /// The order of a part: `kind` says whether of its general registers or of its predicates, and `heights` how many each instruction needs. No more than
    /// `full` count, as if the others were not there: what is alive in memory.
    pub fn new(traffic: &Traffic, kind: usize, heights: &[i32], full: i32) -> Profile {
        let n = traffic.len();
        let (first, places) = traffic.readers();
        let reads = traffic.values.iter().zip(first.windows(2));
        let reads = reads.map(|(v, w)| Read { first: w[0], end: w[1], ends: !v.behind }).collect();
        let mut p = Fixed {
            effects: traffic.effects.iter().map(|e| e[kind]).collect(),
            places,
            of: Vec::with_capacity(traffic.reads.len()),
            from: Vec::with_capacity(n + 1),
            over: Vec::new(),
        };
        let mut tree = Heights::default();
        for at in 0..n {
            p.from.push(p.of.len() as u32);
            let of = traffic.reads(at).iter().copied();
            p.of.extend(of.filter(|&v| traffic.values[v as usize].kind as usize == kind));
        }
        p.from.push(p.of.len() as u32);
        if heights.iter().any(|&h| h > full) {
            p.over = heights.iter().map(|&h| (h - full).max(0)).collect();
            let counted: Vec<i32> = heights.iter().map(|&h| h.min(full)).collect();
            tree.reset(&counted);
        } else {
            tree.reset(heights);
        }
        Profile { heights: tree, reads, taken: vec![false; n], alive: traffic.alive[kind] as i32, fixed: Rc::new(p) }
    }

    /// Values that an instruction reads last, and for each the place behind the last other one that reads it, if there is one.
    fn dying(&self, at: usize, mut f: impl FnMut(Option<usize>)) {
        for &k in &self.fixed.of[self.fixed.from[at] as usize..self.fixed.from[at + 1] as usize] {
            let r = self.reads[k as usize];
            let places = &self.fixed.places[r.first as usize..r.end as usize];
            if !r.ends || places.last() != Some(&(at as u32)) {
                continue;
            }
            let others = &places[..places.len() - 1];
            f(others.iter().rev().find(|&&p| !self.taken[p as usize]).map(|&p| p as usize + 1));
        }
    }

    /// What changes for the rest if the instruction at a place goes to the front.
    fn change(&self, front: usize, at: usize) -> Change {
        let mut change =
            Change { now: 0, ahead: self.fixed.effects[at].made as i32, places: smallvec::SmallVec::new() };
        self.dying(at, |last| match last {
            Some(p) if p <= front => change.ahead -= 1,
            Some(p) if p < at => change.places.push(p),
            Some(_) => {}
            None => change.now += 1,
        });
        change.ahead -= change.now;
        change
    }

    /// True if no place has more than `limit` values with a change.
    fn within(&self, front: usize, at: usize, change: &mut Change, limit: i32) -> bool {
        change.places.sort_unstable();
        let ends = change.places.iter().copied().chain([at]);
        let mut from = front;
        let mut more = change.ahead;
        for to in ends {
            if self.heights.largest(from, to) + more > limit {
                return false;
            }
            from = to;
            more -= 1;
        }
        true
    }

    /// What changes, if the instruction may go ahead of all from `front` on: if there will never be more than `limit` values then; where there are anyway, if
    /// there will be no more of them.
    pub fn may_lead(&self, front: usize, at: usize, limit: u32) -> Option<Change> {
        let limit = limit as i32;
        let e = self.fixed.effects[at];
        let mut change = self.change(front, at);
        let written = e.written as i32;
        let over = self.fixed.over.get(front).copied().unwrap_or(0);
        let here = self.alive - over + if e.apart { written } else { (written - change.now).max(0) };
        // Most that may not go are found out here; the last question is the dearest.
        let may = e.written == 0 && e.made == 0
            || e.made as i32 <= change.now && !e.apart
            || here <= limit && self.within(front, at, &mut change, limit);
        may.then_some(change)
    }

    /// How many are alive before what is left.
    pub fn alive(&self) -> u32 {
        self.alive.max(0) as u32
    }

    /// Lets an instruction go ahead of all from `front` on, by what [`Profile::may_lead`] has said: the rest is taken to be without it.
    pub fn lead(&mut self, front: usize, at: usize, change: &Change) {
        if at > front {
            self.heights.step(front, change.ahead);
            change.places.iter().for_each(|&p| self.heights.step(p, -1));
            self.heights.step(at, change.places.len() as i32 - change.ahead);
        }
    }

    /// Takes back the last [`Profile::lead`].
    pub fn stay(&mut self, front: usize, at: usize, change: &Change) {
        if at > front {
            self.heights.step(front, -change.ahead);
            change.places.iter().for_each(|&p| self.heights.step(p, 1));
            self.heights.step(at, change.ahead - change.places.len() as i32);
        }
    }

    /// As [`Profile::lead`], whatever is alive then.
    pub fn goes(&mut self, front: usize, at: usize) -> Change {
        let change = self.change(front, at);
        self.lead(front, at, &change);
        change
    }

    /// True if the instruction makes values.
    pub fn makes(&self, at: usize) -> bool {
        self.fixed.effects[at].made > 0
    }

    /// Takes an instruction out: it is done.
    pub fn take(&mut self, at: usize) {
        let mut dying = 0;
        self.taken[at] = true;
        for n in self.fixed.from[at] as usize..self.fixed.from[at + 1] as usize {
            let r = &mut self.reads[self.fixed.of[n] as usize];
            let before = r.end;
            while r.end > r.first && self.taken[self.fixed.places[r.end as usize - 1] as usize] {
                r.end -= 1;
            }
            dying += (r.ends && r.end == r.first && before > r.end) as i32;
        }
        self.alive += self.fixed.effects[at].made as i32 - dying;
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Known;
    use super::*;

    #[test]
    fn sums_and_the_largest_of_ranges() {
        let mut numbers: Vec<i32> = (0..13).map(|n| n * 7 % 5).collect();
        let mut heights = Heights::default();
        heights.reset(&numbers);
        for k in 0..200usize {
            let (a, b) = (k * 5 % 13, k * 11 % 14);
            let (from, to) = (a.min(b), a.max(b));
            if from < to {
                heights.step(from, k as i32 % 7 - 3);
                heights.step(to, 3 - k as i32 % 7);
            }
            numbers[from..to].iter_mut().for_each(|n| *n += k as i32 % 7 - 3);
            let (from, to) = (k * 3 % 13, 13 - k % 4);
            let most = numbers[from.min(to)..to].iter().copied().max().unwrap_or(i32::MIN / 2);
            assert_eq!(heights.largest(from.min(to), to), most);
        }
    }

    /// Of instructions that do so, and read these values.
    fn profile(effects: &[Effect], alive: u32, reads: &[&[u32]]) -> Profile {
        full(effects, alive, reads, i32::MAX)
    }

    fn full(effects: &[Effect], alive: u32, reads: &[&[u32]], full: i32) -> Profile {
        let mut t = Traffic { alive: [alive, 0], ..Traffic::default() };
        for (e, r) in effects.iter().zip(reads) {
            t.from.push((t.reads.len() as u32, 0));
            t.reads.extend_from_slice(r);
            t.effects.push([*e, Effect::default()]);
        }
        t.from.push((t.reads.len() as u32, 0));
        t.values = vec![Known { behind: false, kind: 0 }; 10];
        let mut heights = Vec::new();
        t.needs(0..t.len() as u32, |n| heights.push(n[0]));
        Profile::new(&t, 0, &heights, full)
    }

    const LOAD: Effect = Effect { made: 1, written: 1, apart: false };

    /// Loads at places 0 and 2, whose values are read at 1 and 3.
    fn loads() -> Profile {
        profile(&[LOAD, Effect::default(), LOAD, Effect::default()], 1, &[&[], &[7], &[], &[8]])
    }

    /// True if the instruction may go ahead; then it goes.
    fn leads(p: &mut Profile, front: usize, at: usize, limit: u32) -> bool {
        p.may_lead(front, at, limit).inspect(|change| p.lead(front, at, change)).is_some()
    }

    #[test]
    fn results_of_what_goes_ahead_are_there_longer() {
        let mut p = loads();
        assert_eq!(p.heights.largest(0, 4), 2);
        assert!(leads(&mut p, 0, 0, 2));
        p.take(0);
        assert!(p.may_lead(1, 2, 2).is_none());
        assert!(p.may_lead(1, 2, 3).is_some());
        assert_eq!(p.heights.largest(0, 4), 2);
        assert!(leads(&mut p, 1, 1, 2));
        p.take(1);
        assert!(leads(&mut p, 2, 2, 2));
    }

    #[test]
    fn what_lives_in_memory_does_not_count() {
        // Ten values live through all, of which four have registers.
        let none = Effect::default();
        let mut p = full(&[LOAD, none, LOAD, none, LOAD, none], 10, &[&[], &[1], &[], &[2], &[], &[3]], 4);
        assert!(leads(&mut p, 0, 0, 4));
        p.take(0);
        // One load more may be under way, not two.
        assert!(p.may_lead(1, 2, 4).is_none());
        assert!(leads(&mut p, 1, 2, 5));
        p.take(2);
        assert!(p.may_lead(1, 4, 5).is_none());
        assert!(p.may_lead(1, 4, 6).is_some());
    }

    #[test]
    fn what_ends_more_values_than_it_makes_may_always_lead() {
        // The value 5 is read at 1 and 2; what reads it last may go ahead if the other one then is the last.
        let effects = [Effect { made: 2, written: 2, apart: true }, Effect::default(), Effect::default()];
        let mut p = profile(&effects, 3, &[&[9], &[5], &[5, 6]]);
        assert!(leads(&mut p, 0, 2, 0));
        p.take(2);
        assert_eq!(p.alive, 2);
        assert!(leads(&mut p, 0, 1, 0));
        p.take(1);
        assert_eq!(p.alive, 1);
    }
}
