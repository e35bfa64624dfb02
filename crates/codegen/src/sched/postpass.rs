//! List scheduling after register allocation: orders the instructions of each block so that latencies overlap.
//!
//! Works between control-flow instructions, and those that change how many registers there are, on physical registers, forward, cycle by cycle: of the instructions whose
//! sources are ready the one with the longest way to the end goes first. Order is kept between writes and reads of one
//! register, between a store and any access to memory that may be the same, and around barriers and fences; loads may
//! pass loads. Linear but for the two heaps.

use super::memory::{MemoryOrder, address, memory};
use super::{UNITS, balance, reads, writes};
use crate::mir::{Func, Inst, Op, reorder};
use crate::registers;
use rustc_hash::FxHashMap;
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::latency::{self, Class, Latency};
use sass::reg::Reg;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Words that only a thread's own spill code accesses, each by one address: of those only accesses to the same one keep their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// On the stack: bytes from R1, first and end.
    pub stack: (u32, u32),
    /// In shared memory: behind this register.
    pub shared: Option<Reg>,
}

impl Slots {
    /// Of a function whose registers are assigned.
    pub fn of(f: &Func) -> Slots {
        // Where the stack grows, R1 does not stay where it is.
        let stack = if f.frame.grows { (0, 0) } else { (f.frame.slots, f.frame.size) };
        Slots { stack, shared: f.shared_spills.map(|_| Reg::r((f.max_gprs - 1) as u8)) }
    }

    /// Which of them an instruction accesses: its offset, and whether it is in shared memory.
    fn accessed(&self, s: &Sass) -> Option<(i64, bool)> {
        let shared = match s.form {
            F::STL | F::LDL => false,
            F::STS | F::LDS => true,
            _ => return None,
        };
        let base = s.get(S::Ra).and_then(Operand::as_reg)?;
        let at = match s.get(S::Imm).map(|o| o.value) {
            Some(Value::Imm(n)) => n.get(),
            _ => 0,
        };
        let own = match shared {
            true => self.shared == Some(base),
            false => base == Reg::r(1) && (i64::from(self.stack.0)..i64::from(self.stack.1)).contains(&at),
        };
        own.then_some((at, shared))
    }
}

/// The order of accesses to [`Slots`], while walking forward: by slot the last store, and the loads since.
#[derive(Default)]
struct SlotOrder(FxHashMap<(i64, bool), (Option<u32>, Vec<u32>)>);

impl SlotOrder {
    /// As [`MemoryOrder::add`].
    fn add(&mut self, n: u32, slot: (i64, bool), store: bool, mut edge: impl FnMut(u32)) {
        let (last, loads) = self.0.entry(slot).or_default();
        last.iter().for_each(|&w| edge(w));
        if store {
            loads.drain(..).for_each(edge);
            *last = Some(n);
        } else {
            loads.push(n);
        }
    }
}

/// A graph of what must come before what, with distances in cycles.
#[derive(Default)]
pub struct Graph {
    edges: Vec<(u32, u32, u16)>,
    first: Vec<u32>,
    to: Vec<(u32, u16)>,
    /// Predecessors not issued yet.
    pub waiting: Vec<u32>,
}

impl Graph {
    /// `b` comes at least `cycles` after `a`.
    pub fn edge(&mut self, a: u32, b: u32, cycles: u16) {
        if a != b {
            self.edges.push((a, b, cycles));
        }
    }

    /// Sorts the edges by their first end, for `n` nodes.
    pub fn finish(&mut self, n: usize) {
        self.waiting = vec![0; n];
        self.first = vec![0; n + 1];
        for e in &self.edges {
            self.first[e.0 as usize + 1] += 1;
            self.waiting[e.1 as usize] += 1;
        }
        (0..n).for_each(|i| self.first[i + 1] += self.first[i]);
        let mut at = self.first.clone();
        self.to = vec![(0, 0); self.edges.len()];
        for &(a, b, cycles) in &self.edges {
            self.to[at[a as usize] as usize] = (b, cycles);
            at[a as usize] += 1;
        }
    }

    /// What must follow `n`.
    pub fn after(&self, n: usize) -> &[(u32, u16)] {
        &self.to[self.first[n] as usize..self.first[n + 1] as usize]
    }
}

/// Cycles that an answer of the latency tables stands for when planning.
pub fn planned(l: Latency, scoreboard: u16) -> u16 {
    match l {
        Latency::Fixed(n) => n as u16,
        Latency::Scoreboard => scoreboard,
    }
}

/// Scratch memory of the pass.
pub struct Scheduler {
    sm: u16,
    slots: Slots,
    lanes_tell: bool,
    writer: Vec<(u32, u8)>,
    readers: Vec<Vec<(u32, Option<u8>)>>,
    touched: Vec<usize>,
    /// Instructions of the block at hand that go the other pipe for integers.
    moved: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Scheduler {
    /// For chip `sm`, and a function with such spill code; `lanes_tell`: see [`Func`](crate::mir::Func::lanes_tell).
    pub fn new(sm: u16, slots: Slots, lanes_tell: bool) -> Scheduler {
        let (writer, readers) = (vec![(NONE, 0); UNITS], vec![Vec::new(); UNITS]);
        Scheduler { sm, slots, lanes_tell, writer, readers, touched: Vec::new(), moved: Vec::new() }
    }

    /// Schedules the instructions of one block.
    pub fn block(&mut self, insts: &mut Vec<Inst>) {
        let mut order = Vec::with_capacity(insts.len());
        let mut from = 0;
        for (i, inst) in insts.iter().enumerate() {
            let flow = match &inst.op {
                Op::Sass(s) => s.form().effects.flow || super::warpgroup::stays(s) || registers::after(s).is_some(),
                _ => true,
            };
            if flow {
                self.part(insts, from..i + 1, true, &mut order);
                from = i + 1;
            }
        }
        self.part(insts, from..insts.len(), false, &mut order);
        let sm = self.sm;
        for i in self.moved.drain(..) {
            if let Op::Sass(s) = &mut insts[i as usize].op
                && let Some(other) = balance::other(s, sm)
            {
                *s = other;
            }
        }
        *insts = reorder(std::mem::take(insts), &order);
    }

    /// Adds the numbers of these instructions to `out`, in the order in which they shall be.
    fn part(&mut self, insts: &[Inst], range: Range<usize>, flow: bool, out: &mut Vec<u32>) {
        let first = range.start as u32;
        let part = &insts[range];
        let n = part.len();
        if n < 3 {
            out.extend((0..n as u32).map(|i| first + i));
            return;
        }
        let sm = self.sm;
        let mut g = Graph::default();
        let mut mem = MemoryOrder::new(self.lanes_tell);
        let mut spills = SlotOrder::default();
        let sass = |i: u32| match part.get(i as usize).map(|x| &x.op) {
            Some(Op::Sass(s)) => Some(s),
            _ => None,
        };
        for i in 0..n as u32 {
            let Some(s) = sass(i) else { continue };
            // What lies in several registers is asked about once.
            let mut asked = (NONE, 0, None);
            let mut bytes = address(s);
            reads(s, |u, slot| {
                if let Some(bytes) = &mut bytes {
                    bytes.from(slot, (u as u32, self.writer[u].0));
                }
                let (w, def) = self.writer[u];
                if let (true, Some(first)) = (w != NONE && asked != (w, def, slot), sass(w)) {
                    g.edge(w, i, planned(latency::raw(first, def, s, slot, sm), latency::expected(first, sm)));
                    asked = (w, def, slot);
                }
                self.readers[u].push((i, slot));
                self.touched.push(u);
            });
            let mut asked = (NONE, 0, 0);
            let mut told = (NONE, None, 0);
            writes(s, |u, slot| {
                let def = slot.unwrap_or(0);
                let (w, old) = self.writer[u];
                if let (true, Some(first)) = (w != NONE && asked != (w, old, def), sass(w)) {
                    g.edge(w, i, planned(latency::waw(first, old, s, def, sm), latency::expected(first, sm)));
                    asked = (w, old, def);
                }
                for (r, used) in self.readers[u].drain(..) {
                    if let (true, Some(first)) = (r != i && told != (r, used, def), sass(r)) {
                        g.edge(r, i, planned(latency::war(first, used, s, def, sm), 12));
                        told = (r, used, def);
                    }
                }
                self.writer[u] = (i, def);
                self.touched.push(u);
            });
            match self.slots.accessed(s) {
                Some(slot) => spills.add(i, slot, s.form().effects.store, |before| g.edge(before, i, 1)),
                None => mem.add(i, memory(s), bytes, |before| g.edge(before, i, 1)),
            }
        }
        for u in self.touched.drain(..) {
            self.writer[u] = (NONE, 0);
            self.readers[u].clear();
        }
        if flow {
            // What something else waits for is waited for by that.
            let mut last = vec![true; n];
            g.edges.iter().for_each(|e| last[e.0 as usize] = false);
            (0..n as u32 - 1).filter(|&i| last[i as usize]).for_each(|i| g.edge(i, n as u32 - 1, 1));
        }
        g.finish(n);
        let order = list_schedule(&mut g, n, |i| sass(i as u32), sm, |i| self.moved.push(first + i));
        out.extend(order.into_iter().map(|i| first + i));
    }
}

/// Orders `n` nodes: by time, then by the length of the way to the end, then by age. Tells `moved` which instructions go the pipe of multiplications, as
/// that for the rest is busy.
pub fn list_schedule<'a>(
    g: &mut Graph,
    n: usize,
    sass: impl Fn(usize) -> Option<&'a Sass>,
    sm: u16,
    mut moved: impl FnMut(u32),
) -> Vec<u32> {
    let mut height = vec![0u32; n];
    for i in (0..n).rev() {
        height[i] = g.after(i).iter().map(|&(to, cycles)| height[to as usize] + cycles as u32).max().unwrap_or(1);
    }
    let either = |s: &Sass| pipe(s) == FIRST && balance::other(s, sm).is_some();
    let of = |s: &Sass| if either(s) { EITHER } else { pipe(s) };
    let pipes: Vec<u8> = (0..n).map(|i| sass(i).map_or(OTHER, of) as u8).collect();
    let mut ready_at = vec![0u32; n];
    let mut free_at = [0u32; PIPES];
    let mut pending: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
    let mut available: [BinaryHeap<(u32, Reverse<u32>)>; PIPES] = Default::default();
    // A bit for each pipe that something could go.
    let mut some = 0u16;
    let bits = |mut set: u16| {
        std::iter::from_fn(move || {
            let first = set.trailing_zeros() as usize;
            set &= set.wrapping_sub(1);
            (first < PIPES).then_some(first)
        })
    };
    (0..n).filter(|&i| g.waiting[i] == 0).for_each(|i| pending.push(Reverse((0, i as u32))));
    let mut order = Vec::with_capacity(n);
    let mut now = 0u32;
    while order.len() < n {
        while let Some(&Reverse((t, i))) = pending.peek() {
            if t > now {
                break;
            }
            pending.pop();
            available[pipes[i as usize] as usize].push((height[i as usize], Reverse(i)));
            some |= 1 << pipes[i as usize];
        }
        // The best of the pipes that are free.
        let best = bits(some).filter(|&p| free_at[p] <= now).max_by_key(|&p| available[p].peek().copied());
        let Some((_, Reverse(i))) = best.and_then(|p| available[p].pop()) else {
            let pipe_free = bits(some).map(|p| free_at[p]);
            let next = pipe_free.chain(pending.peek().map(|p| p.0.0)).min();
            match next {
                Some(t) => now = t.max(now + 1),
                None => break,
            }
            continue;
        };
        let from = pipes[i as usize] as usize;
        if available[from].is_empty() {
            some &= !(1 << from);
        }
        if let Some(s) = sass(i as usize) {
            let mut at = from;
            if at == EITHER {
                let wanted = !available[FIRST].is_empty() && available[SECOND].is_empty();
                let second = free_at[SECOND] <= now && (free_at[FIRST] > now || wanted);
                at = if second { SECOND } else { FIRST };
                if second {
                    moved(i);
                }
            }
            free_at[at] = now + latency::issue_interval(s, s, sm) as u32;
            free_at[EITHER] = free_at[FIRST].min(free_at[SECOND]);
        }
        order.push(i);
        for k in 0..g.after(i as usize).len() {
            let (to, cycles) = g.after(i as usize)[k];
            let to = to as usize;
            ready_at[to] = ready_at[to].max(now + cycles as u32);
            g.waiting[to] -= 1;
            if g.waiting[to] == 0 {
                pending.push(Reverse((ready_at[to], to as u32)));
            }
        }
        now += 1;
    }
    order
}

const PIPES: usize = 14;
const OTHER: usize = 12;
/// What goes either of the pipes for integers.
const EITHER: usize = 13;
const FIRST: usize = 1;
const SECOND: usize = 3;

fn pipe(s: &Sass) -> usize {
    match s.form().class {
        Class::Global | Class::Local | Class::Shared | Class::Shuffle => 0,
        Class::Alu | Class::Vote => FIRST,
        Class::Fma => 2,
        Class::FmaInt | Class::FmaWide => SECOND,
        Class::Half | Class::HalfMma => 4,
        Class::Double => 5,
        Class::Xu => 6,
        Class::Const => 7,
        Class::Uniform | Class::UniformMove | Class::UniformConst => 8,
        Class::Match => 9,
        Class::R2Ur => 10,
        Class::Cs2r => 11,
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(form: sass::form::FormId, base: u8, at: i64) -> Sass {
        Sass::new(form).with(S::Ra, Reg::r(base)).with(S::Imm, Operand::imm(at)).with(S::Rb, Reg::r(9))
    }

    #[test]
    fn slots_are_what_only_spill_code_accesses() {
        let slots = Slots { stack: (16, 32), shared: Some(Reg::r(30)) };
        assert_eq!(slots.accessed(&store(F::STL, 1, 20)), Some((20, false)));
        assert_eq!(slots.accessed(&store(F::STS, 30, 20)), Some((20, true)));
        // A variable, what the caller has there, another register.
        for other in [store(F::STL, 1, 12), store(F::STL, 1, 32), store(F::STL, 2, 20), store(F::STS, 1, 20)] {
            assert_eq!(slots.accessed(&other), None);
        }
        assert_eq!(Slots::default().accessed(&store(F::STS, 30, 20)), None);
    }

    #[test]
    fn accesses_to_one_slot_keep_their_order() {
        let mut order = SlotOrder::default();
        let mut edges = Vec::new();
        let list = [(4, true), (8, true), (4, false), (4, false), (8, false), (4, true), (4, false)];
        for (n, (at, store)) in list.into_iter().enumerate() {
            order.add(n as u32, (at, false), store, |before| edges.push((before, n as u32)));
        }
        assert_eq!(edges, [(0, 2), (0, 3), (1, 4), (0, 5), (2, 5), (3, 5), (5, 6)]);
    }

    #[test]
    fn nothing_passes_what_gives_registers_up() {
        let from = |to: u8, from: u8| Sass::new(F::MOV_R).with(S::Rd, Reg::r(to)).with(S::Rb, Reg::r(from));
        let given_up = Sass::new(F::USETMAXREG_DEALLOC).with(S::ImmAt32, Operand::imm(40));
        let code = [from(2, 39), from(3, 38), from(4, 2), given_up, from(5, 4), from(6, 3)];
        let mut insts: Vec<Inst> = code.into_iter().map(|s| Inst::new(Op::Sass(s), u32::MAX)).collect();
        Scheduler::new(90, Slots::default(), false).block(&mut insts);
        let at = |form| insts.iter().position(|i| matches!(&i.op, Op::Sass(s) if s.form == form));
        assert_eq!(at(F::USETMAXREG_DEALLOC), Some(3));
    }
}
