//! Orders instructions forward, cycle by cycle, within so many registers.
//!
//! Of what is ready the most urgent goes first, as long as the rest of the old order will fit behind it ([`super::super::profile`]); where nothing
//! fits, the oldest instruction, ready or not. n log n.

use super::{FAR, NONE, Room, Values, graph, issue};
use crate::mir::{Func, Inst, Op};
use crate::sched::postpass::Graph;
use crate::sched::profile::{Change, Profile};
use crate::sched::traffic::Traffic;
use sass::latency;
use sass::reg::File;
use smallvec::{SmallVec, smallvec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many instructions that do not fit are looked at before the oldest goes on.
const TRIES: usize = 8;

/// True if an instruction may go ahead of all from `front` on, with so many general registers and predicates; then it is taken to go there.
fn fits([general, predicates]: &mut [Profile; 2], front: usize, at: usize, limits: [u32; 2]) -> bool {
    let Some(p) = predicates.may_lead(front, at, limits[1]) else { return false };
    let Some(g) = general.may_lead(front, at, limits[0]) else { return false };
    predicates.lead(front, at, &p);
    general.lead(front, at, &g);
    true
}

/// Who reads the predicate that an instruction makes, and of that one the same, if all of them may follow at once. `ready` says of an instruction whether it waits for
/// one other alone.
fn chain(heeded: &[u32], at: usize, ready: impl Fn(usize) -> bool) -> Option<SmallVec<[u32; FOLLOW]>> {
    let mut chain: SmallVec<[u32; FOLLOW]> = SmallVec::new();
    let mut last = at;
    while heeded[last] != NONE {
        last = heeded[last] as usize;
        if chain.len() == FOLLOW || !ready(last) {
            return None;
        }
        chain.push(last as u32);
    }
    (!chain.is_empty()).then_some(chain)
}

/// Lets an instruction go ahead of all from `front` on if those that follow at once may, too; predicates that are read by these are not in the way of the rest then.
fn leads_with(
    [general, predicates]: &mut [Profile; 2],
    front: usize,
    at: usize,
    chain: &[u32],
    limit: impl Fn(usize) -> [u32; 2],
) -> bool {
    let Some(&last) = chain.last() else { return false };
    if predicates.makes(at) && predicates.alive() >= limit(at)[1] {
        return false;
    }
    let mut done: SmallVec<[(usize, usize, Change); 2 * FOLLOW + 2]> = SmallVec::new();
    let mut fits = true;
    for i in std::iter::once(at).chain(chain.iter().map(|&i| i as usize)) {
        let limits = limit(i);
        // What is in the way of the rest must go away again with the last.
        let asked = i == last as usize && predicates.makes(i);
        let p = if asked { predicates.may_lead(front, i, limits[1]) } else { Some(predicates.goes(front, i)) };
        let g = general.may_lead(front, i, limits[0]);
        for (k, profile, change) in [(0, &mut *general, g), (1, &mut *predicates, p)] {
            let Some(change) = change else {
                fits = false;
                continue;
            };
            if k == 0 || asked {
                profile.lead(front, i, &change);
            }
            done.push((k, i, change));
        }
        if !fits {
            break;
        }
    }
    if !fits {
        for (k, i, change) in done.into_iter().rev() {
            let profile = if k == 0 { &mut *general } else { &mut *predicates };
            profile.stay(front, i, &change);
        }
    }
    fits
}

/// So many instructions may follow one at once, each reading the predicate of the one before.
const FOLLOW: usize = 3;

/// Instructions that are to be scheduled.
pub struct Task {
    graph: Graph,
    /// By instruction, as [`Traffic::only`].
    heeded: Vec<u32>,
    /// Loads from far away that alone read all that an instruction makes.
    fed: Vec<u32>,
    /// Cycles from each instruction to the end.
    pub height: Vec<u32>,
    /// Loads from far away, and what their addresses are computed of.
    leads: Vec<bool>,
    /// Loads for the next iteration: how long it takes before that can go on.
    carried: Vec<(u32, u32)>,
    /// What makes values that a warp shares.
    shared: Vec<bool>,
}

impl Task {
    /// Of a part of a block.
    pub fn new(f: &Func, part: &[Inst], traffic: &Traffic, values: &mut Values, sm: u16) -> Task {
        let n = part.len();
        let (heeded, mut fed) = traffic.only();
        let graph = graph(f, part, values, sm);
        let carried = carried(f, part, values, sm);
        let mut height = vec![1u32; n];
        carried.iter().for_each(|&(i, cycles)| height[i as usize] = cycles);
        for i in (0..n).rev() {
            let behind = graph.after(i).iter().map(|&(to, cycles)| height[to as usize] + cycles as u32);
            height[i] = behind.fold(height[i], u32::max);
        }
        let mut leads = vec![false; n];
        for i in (0..n).rev() {
            leads[i] = match &part[i].op {
                Op::Sass(s) if latency::needs_write_sb(s, sm) && latency::expected(s, sm) >= FAR => true,
                _ => graph.after(i).iter().any(|&(to, cycles)| cycles < FAR && leads[to as usize]),
            };
        }
        let far =
            |i: u32| leads[i as usize] && matches!(&part[i as usize].op, Op::Sass(s) if latency::needs_write_sb(s, sm));
        fed.iter_mut().filter(|i| **i != NONE && !far(**i)).for_each(|i| *i = NONE);
        let mut shared = vec![false; n];
        for (inst, shared) in part.iter().zip(&mut shared) {
            f.defs(&inst.op, |v| *shared |= matches!(f.vregs[v.index()], File::Ugpr | File::Upred));
        }
        Task { graph, heeded, fed, height, leads, carried, shared }
    }
}

/// Loads whose results the next iteration reads, and how long each takes.
fn carried(f: &Func, part: &[Inst], values: &Values, sm: u16) -> Vec<(u32, u32)> {
    let mut list = Vec::new();
    if values.stepping {
        for (i, inst) in (0..).zip(part) {
            let Op::Sass(s) = &inst.op else { continue };
            let mut steps = s.form().effects.load && latency::needs_write_sb(s, sm);
            if steps {
                f.defs(&inst.op, |v| steps &= values.step_to[v.index()] != NONE);
            }
            if steps {
                list.push((i, latency::expected(s, sm).into()));
            }
        }
    }
    list
}

/// An order of a part, what it takes, and how many general registers it needs.
pub struct Scheduled {
    pub order: Vec<u32>,
    pub cycles: u64,
    pub peak: u32,
}

/// Schedules a part with so many registers: of what is ready and fits, the most urgent first.
pub fn schedule(
    f: &Func,
    part: &[Inst],
    Task { graph, heeded, fed, leads, carried, shared, .. }: &Task,
    urgency: &[u32],
    room: Room,
    values: &mut Values,
    mut profiles: [Profile; 2],
) -> Scheduled {
    let n = part.len();
    let mut before = graph.waiting.clone();
    let mut order = Vec::with_capacity(n);
    let mut peak = values.live[0];
    let mut ready_at = vec![0u32; n];
    let mut issued = vec![false; n];
    // What has been let go ahead with what it reads a predicate of.
    let mut follows = vec![false; n];
    let mut end = 0;
    let mut later: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new(); // by time
    let mut ready: BinaryHeap<(u32, Reverse<u32>)> = BinaryHeap::new(); // by urgency
    // What did not fit when it was tried.
    let mut waiting: BinaryHeap<(u32, Reverse<u32>)> = BinaryHeap::new();
    // What makes shared values while there are as many as may be: it goes when it is the oldest.
    let mut held: BinaryHeap<(u32, Reverse<u32>)> = BinaryHeap::new();
    (0..n as u32).filter(|&i| before[i as usize] == 0).for_each(|i| later.push(Reverse((0, i))));
    let mut now = 0u32;
    // The oldest one that is left. All that come before it are done, so it can be next.
    let mut oldest = 0;
    while oldest < n {
        let tight = |file: File| values.live[file as usize & 3] >= values.limit[file as usize & 3];
        let full = tight(File::Ugpr) || tight(File::Upred);
        // Few at once: with one of them there may be as many again, and all would be put aside once more.
        if !full {
            (0..TRIES).for_each(|_| ready.extend(held.pop()));
        }
        let mut next = None;
        while let Some(&Reverse((_, i))) = later.peek().filter(|x| x.0.0 <= now) {
            later.pop();
            ready.push((urgency[i as usize], Reverse(i)));
        }
        let mut tries = TRIES;
        while tries > 0
            && next.is_none()
            && let Some((h, Reverse(i))) = ready.pop()
        {
            if issued[i as usize] {
                continue;
            }
            let limits = |i: usize| [if leads[i] { room.loads } else { room.gprs }, values.limit[2]];
            let ready = |i: usize| before[i] == 1 && !issued[i];
            let at = i as usize;
            if full && shared[at] && !follows[at] {
                held.push((h, Reverse(i)));
                continue;
            }
            let load = fed[at];
            let alone = load == NONE || !ready(load as usize);
            if follows[at] || alone && fits(&mut profiles, oldest, at, limits(at)) {
                next = Some(i);
            } else if let Some(list) = if alone { chain(heeded, at, ready) } else { Some(smallvec![load]) }
                && leads_with(&mut profiles, oldest, at, &list, limits)
            {
                list.iter().for_each(|&k| follows[k as usize] = true);
                next = Some(i);
            } else {
                waiting.push((h, Reverse(i)));
                tries -= 1;
            }
        }
        // The oldest would be waited for: what is ready before it is tried first.
        if next.is_none() {
            let idle = ready.is_empty() && waiting.is_empty() && held.is_empty();
            match later.peek() {
                Some(&Reverse((t, _))) if idle || t < ready_at[oldest] => {
                    now = t;
                    continue;
                }
                None if idle => break,
                _ => {}
            }
        }
        let i = next.unwrap_or(oldest as u32);
        issued[i as usize] = true;
        now = now.max(ready_at[i as usize]);
        for k in 0..graph.after(i as usize).len() {
            let (to, cycles) = graph.after(i as usize)[k];
            ready_at[to as usize] = ready_at[to as usize].max(now + cycles as u32);
            before[to as usize] -= 1;
            if before[to as usize] == 0 {
                later.push(Reverse((ready_at[to as usize], to)));
            }
        }
        issue(f, &part[i as usize].op, values);
        profiles.iter_mut().for_each(|p| p.take(i as usize));
        order.push(i);
        if let Ok(k) = carried.binary_search_by_key(&i, |c| c.0) {
            end = end.max(now + carried[k].1);
        }
        peak = peak.max(values.live[0]);
        now += 1;
        if i as usize == oldest || follows[i as usize] {
            while oldest < n && issued[oldest] {
                oldest += 1;
            }
            // There may be more room now.
            for _ in 0..TRIES {
                ready.extend(waiting.pop());
            }
        }
    }
    // Nothing is ever left; an instruction must not be lost whatever happens.
    order.extend((0..n as u32).filter(|&i| !issued[i as usize]));
    Scheduled { order, cycles: now.max(end).into(), peak }
}
