//! List scheduling before register allocation: starts long latencies early while registers are left.
//!
//! Needs SSA form, keeps it; works inside blocks, between control-flow instructions. Forward, cycle by cycle, the
//! instruction with the longest way to the end first; once as many values are alive as the function may have, the oldest
//! instruction instead, ready or not, which leads back to the order of [`super::order`] and its pressure; where predicates alone are
//! short, only what makes them keeps to that order. Below 32 registers
//! a function may take some more than that order needs; above, no more than threads are given for what it needs. n log n.

use super::cluster::Cluster;
use super::order::{Orderer, Steps};
use super::postpass::{Graph, MemoryOrder, memory, planned};
use super::remat;
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op, Vreg, reorder};
use crate::pipeline::REGISTER_LEVEL;
use crate::regalloc::{self, Banks};
use crate::registers;
use sass::inst::Inst as Sass;
use sass::latency;
use sass::reg::File;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Values above which a function takes no more registers than threads are given anyway: with 32 registers a thread, two of them not to be given
/// away, an SM holds as many threads as it may.
const FREELY: u32 = 30;
/// Registers are given to threads in multiples of this many (`arch::limits`: 256 for a warp), ...
const UNIT: u32 = 8;
/// ... of which so many are not for values.
const RESERVED: u32 = 3;
/// How many more values may be alive than in the order of selection: with 12 launches of `tests/kernels` take 0.4 % less and threads 1.7 %
/// more registers, of which they have no more than the vendor's with 8 (`docs/quality.md`).
const MORE: u32 = 8;
/// How many values may be alive where one more is a load from far memory or leads to one: threads with no more than 32 registers have these
/// for nothing, and a load that begins late is waited for once more.
const LOADS: u32 = 26;
/// Cycles that a load takes that is far away.
const FAR: u16 = 100;

/// How many more values may be alive than must be.
#[derive(Clone, Copy, Debug)]
pub struct Freedom {
    more: u32,
    freely: u32,
}

impl Freedom {
    /// That of a level of 0 to 10: at 5 what is usual, at 0 none, at 10 so many that an SM holds half as many threads.
    pub fn of(level: u8) -> Freedom {
        let usual = u32::from(REGISTER_LEVEL);
        let (below, above) = (u32::from(level).min(usual), u32::from(level).saturating_sub(usual));
        Freedom { more: MORE * below / usual + 8 * above, freely: FREELY + (FREELY + 2) * above / usual }
    }
}
const NONE: u32 = u32::MAX;

/// What is known of the values.
struct Values {
    /// Reads left in the block, the terminator's and those behind the block counted as one more.
    left: Vec<u32>,
    /// Who defines it in the part at hand, in which slot, as which word of it.
    def: Vec<(u32, u8, u8)>,
    /// General registers and predicates alive.
    live: [u32; 4],
    limit: [u32; 4],
    /// General registers that may be alive where that starts another load from far memory.
    loads: u32,
    /// Of parameters that are stepped in the block at hand: which step; of what steps them, too.
    step_from: Vec<u32>,
    step_to: Vec<u32>,
    /// Reads of each of those parameters in the part at hand.
    step_reads: Vec<Vec<u32>>,
}

/// Puts the instructions of every block of `f` into an order that keeps few values alive. Gives what is alive between blocks,
/// and the steps of each block.
pub fn order(f: &mut Func, cfg: &Cfg) -> (Liveness, Vec<Steps>) {
    let mut cluster = Cluster::new(f.vregs.len());
    let mut crowded = vec![false; f.blocks.len()];
    cfg.rpo.iter().for_each(|&b| crowded[b as usize] = cluster.run(f, b as usize));
    let live = Liveness::new(f, cfg);
    let mut orderer = Orderer::new(f.vregs.len());
    let mut steps: Vec<Steps> = vec![Steps::new(); f.blocks.len()];
    for &b in &cfg.rpo {
        let mut insts = std::mem::take(&mut f.blocks[b as usize].insts);
        steps[b as usize] = orderer.run(f, b as usize, &live, &mut insts, crowded[b as usize]);
        f.blocks[b as usize].insts = insts;
    }
    (live, steps)
}

/// Schedules every block of `f`.
pub fn run(f: &mut Func, sm: u16, freedom: Freedom) {
    let cfg = f.cfg();
    let (mut live, mut steps) = order(f, &cfg);
    let (mut need, by_block) = regalloc::pressures(f, &cfg, &live);
    let banks = Banks { gprs: f.max_gprs, uniform: 61 };
    if remat::run(f, &cfg, &live, by_block, [banks.count(File::Gpr), banks.count(File::Pred)]) {
        (live, steps) = order(f, &cfg);
        need = regalloc::pressure(f, &cfg, &live);
    }
    let least = need.max[0];
    let given = (least + RESERVED).next_multiple_of(UNIT) - RESERVED;
    let most = (least + freedom.more).min(freedom.freely.max(given));
    let gprs = most.min(banks.count(File::Gpr).saturating_sub(6));
    let mut values = Values {
        left: vec![0; f.vregs.len()],
        def: vec![(NONE, 0, 0); f.vregs.len()],
        live: [0; 4],
        limit: [gprs, 40, 6, 6],
        loads: 0,
        step_from: vec![NONE; f.vregs.len()],
        step_to: vec![NONE; f.vregs.len()],
        step_reads: Vec::new(),
    };
    let owned = registers::owned(f, &cfg);
    let loads = gprs.max(if freedom.more == 0 { 0 } else { LOADS.min(banks.count(File::Gpr).saturating_sub(6)) });
    for &b in &cfg.rpo {
        let owns = owned.get(b as usize).map_or(u32::MAX, |&n| n.saturating_sub(6) as u32);
        (values.limit[0], values.loads) = (gprs.min(owns), loads.min(owns));
        let list = &steps[b as usize];
        for (k, &(p, d)) in list.iter().enumerate() {
            values.step_from[p.index()] = k as u32;
            values.step_to[d.index()] = k as u32;
        }
        values.step_reads.resize_with(values.step_reads.len().max(list.len()), Vec::new);
        block(f, b as usize, &live, &mut values, sm);
        for &(p, d) in list {
            values.step_from[p.index()] = NONE;
            values.step_to[d.index()] = NONE;
        }
    }
}

fn block(f: &mut Func, b: usize, live: &Liveness, values: &mut Values, sm: u16) {
    let insts = std::mem::take(&mut f.blocks[b].insts);
    let start = |v: Vreg, values: &mut Values| values.left[v.index()] = 0;
    live.live_in[b].iter().for_each(|&v| start(v, values));
    f.blocks[b].params.iter().for_each(|&v| start(v, values));
    f.live_in.iter().filter(|_| b == 0).for_each(|l| start(l.0, values));
    for inst in &insts {
        f.defs(&inst.op, |v| values.left[v.index()] = 0);
    }
    for inst in &insts {
        f.uses(&inst.op, |v| values.left[v.index()] += 1);
    }
    let term = &f.blocks[b].term;
    let mut after: Vec<Vreg> = live.live_out[b].clone();
    f.term_uses(term, |v| after.push(v));
    term.edges().iter().for_each(|e| after.extend(&e.args));
    after.iter().for_each(|v| values.left[v.index()] += 1);
    values.live = [0; 4];
    let mut count = |v: Vreg| values.live[f.vregs[v.index()] as usize & 3] += 1;
    live.live_in[b].iter().for_each(|&v| count(v));
    f.blocks[b].params.iter().for_each(|&v| count(v));
    f.live_in.iter().filter(|_| b == 0).for_each(|l| count(l.0));
    let mut order = Vec::with_capacity(insts.len());
    let mut from = 0;
    for (i, inst) in insts.iter().enumerate() {
        if fixed(&inst.op) {
            part_of_block(f, &insts, from..i, values, sm, &mut order);
            issue(f, &inst.op, values);
            order.push(i as u32);
            from = i + 1;
        }
    }
    part_of_block(f, &insts, from..insts.len(), values, sm, &mut order);
    f.blocks[b].insts = reorder(insts, &order);
}

/// Nothing passes it: control flow, calls, writes of physical registers.
fn fixed(op: &Op) -> bool {
    let Op::Sass(s) = op else { return matches!(op, Op::Call(_)) };
    let mut physical = false;
    sass_defs(s, |p| physical |= !p.reg.is_virtual() && !p.reg.is_const());
    physical || s.form().effects.flow || super::warpgroup::stays(s)
}

/// Counts the values that an instruction ends and makes.
fn issue(f: &Func, op: &Op, values: &mut Values) {
    let Values { left, live, .. } = values;
    f.uses(op, |v| {
        left[v.index()] = left[v.index()].saturating_sub(1);
        if left[v.index()] == 0 {
            let n = &mut live[f.vregs[v.index()] as usize & 3];
            *n = n.saturating_sub(1);
        }
    });
    f.defs(op, |v| live[f.vregs[v.index()] as usize & 3] += (left[v.index()] > 0) as u32);
}

fn graph(f: &Func, part: &[Inst], values: &mut Values, sm: u16) -> Graph {
    let mut g = Graph::default();
    let mut order = MemoryOrder::default();
    let sass = |i: u32| match part.get(i as usize).map(|x| &x.op) {
        Some(Op::Sass(s)) => Some(s),
        _ => None,
    };
    for (i, inst) in part.iter().enumerate() {
        let i = i as u32;
        let def = &values.def;
        let (step_from, step_to, step_reads) = (&values.step_from, &values.step_to, &mut values.step_reads);
        f.uses(&inst.op, |v| {
            if step_from[v.index()] != NONE {
                step_reads[step_from[v.index()] as usize].push(i);
            }
        });
        f.defs(&inst.op, |v| {
            if step_to[v.index()] != NONE {
                step_reads[step_to[v.index()] as usize].drain(..).for_each(|before| g.edge(before, i, 1));
            }
        });
        let mut read = |v: Vreg, s: Option<(&Sass, Option<u8>, u32)>| {
            let (w, slot, word) = def[v.index()];
            if w == NONE {
                return;
            }
            let cycles = match (sass(w), s) {
                (Some(first), Some((s, used, part))) => {
                    let raw = latency::raw_word(first, slot, u32::from(word), s, used, part, sm);
                    planned(raw, latency::expected(first, sm)).max(4)
                }
                (Some(first), None) if latency::needs_write_sb(first, sm) => latency::expected(first, sm),
                (Some(_), None) => 5,
                (None, _) => 1,
            };
            g.edge(w, i, cycles);
        };
        match &inst.op {
            Op::Sass(s) => {
                let mut places: smallvec::SmallVec<[Place; 8]> = Default::default();
                sass_uses(s, |p| places.push(p));
                for p in places {
                    let mut part = 0;
                    f.each_scalar(p.reg, p.width, |v| {
                        read(v, Some((s, p.slot, part)));
                        part += 1;
                    });
                }
                order.add(i, memory(s), |before| g.edge(before, i, 1));
                let def = &mut values.def;
                sass_defs(s, |p| {
                    let mut word = 0;
                    f.each_scalar(p.reg, p.width, |v| {
                        def[v.index()] = (i, p.slot.unwrap_or(0), word);
                        word += 1;
                    });
                });
            }
            op => {
                f.uses(op, |v| read(v, None));
                let def = &mut values.def;
                f.defs(op, |v| def[v.index()] = (i, 0, 0));
            }
        }
    }
    values.step_reads.iter_mut().for_each(Vec::clear);
    for inst in part {
        f.defs(&inst.op, |v| values.def[v.index()] = (NONE, 0, 0));
    }
    g.finish(part.len());
    g
}

/// Adds the numbers of these instructions to `out`, in the order in which they shall be.
fn part_of_block(f: &Func, insts: &[Inst], range: Range<usize>, values: &mut Values, sm: u16, out: &mut Vec<u32>) {
    let first = range.start as u32;
    let part = &insts[range];
    let n = part.len();
    if n < 3 {
        part.iter().for_each(|i| issue(f, &i.op, values));
        out.extend((0..n as u32).map(|i| first + i));
        return;
    }
    let mut g = graph(f, part, values, sm);
    let mut height = vec![0u32; n];
    for i in (0..n).rev() {
        height[i] = g.after(i).iter().map(|&(to, cycles)| height[to as usize] + cycles as u32).max().unwrap_or(1);
    }
    // Loads from far away, and what their addresses are computed of.
    let mut leads = vec![false; n];
    for i in (0..n).rev() {
        leads[i] = match &part[i].op {
            Op::Sass(s) if latency::needs_write_sb(s, sm) && latency::expected(s, sm) >= FAR => true,
            _ => g.after(i).iter().any(|&(to, cycles)| cycles < FAR && leads[to as usize]),
        };
    }
    let mut ready_at = vec![0u32; n];
    let mut issued = vec![false; n];
    let mut later: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new(); // by time
    // By height: those that make no predicate, and those that do; then the same of those that lead to loads.
    let mut ready: [BinaryHeap<(u32, Reverse<u32>)>; 4] = Default::default();
    let makes = |inst: &Inst| {
        let mut any = false;
        f.defs(&inst.op, |v| any |= matches!(f.vregs[v.index()], File::Pred | File::Upred));
        any as usize
    };
    let kind: Vec<usize> = part.iter().zip(&leads).map(|(inst, &leads)| makes(inst) + 2 * leads as usize).collect();
    let mut oldest: BinaryHeap<Reverse<u32>> = BinaryHeap::new(); // all whose predecessors are issued
    for i in (0..n as u32).filter(|&i| g.waiting[i as usize] == 0) {
        later.push(Reverse((0, i)));
        oldest.push(Reverse(i));
    }
    let mut now = 0u32;
    let mut done = 0;
    while done < n {
        let tight = |file: File| values.live[file as usize & 3] >= values.limit[file as usize & 3];
        let full = tight(File::Gpr) || tight(File::Ugpr);
        let predicates = tight(File::Pred) || tight(File::Upred);
        let may_load = !tight(File::Ugpr) && values.live[0] < values.loads;
        let mut next = None;
        if !full || may_load {
            while let Some(&Reverse((_, i))) = later.peek().filter(|x| x.0.0 <= now) {
                later.pop();
                ready[kind[i as usize]].push((height[i as usize], Reverse(i)));
            }
            // Where predicates are short, only what makes one keeps to its place; where registers are, only loads go ahead.
            let kinds: &[usize] = match (full, predicates) {
                (true, true) => &[2],
                (true, false) => &[3, 2],
                (false, true) => &[0, 2],
                (false, false) => &[3, 1, 0, 2],
            };
            let best = kinds.iter().copied().max_by(|&a, &b| ready[a].peek().cmp(&ready[b].peek()));
            next = best.and_then(|k| ready[k].pop()).map(|(_, Reverse(i))| i);
        }
        let i = match next {
            Some(i) => i,
            // A load's address may be there before the oldest can run.
            None if full
                && may_load
                && later.peek().zip(oldest.peek()).is_some_and(|(l, o)| l.0.0 < ready_at[o.0 as usize]) =>
            {
                now = later.peek().map_or(now, |l| l.0.0);
                continue;
            }
            None if full || predicates => {
                let Some(Reverse(i)) = oldest.pop() else { break };
                i
            }
            None => match later.peek() {
                Some(&Reverse((t, _))) => {
                    now = t;
                    continue;
                }
                None => break,
            },
        };
        if std::mem::replace(&mut issued[i as usize], true) {
            continue;
        }
        done += 1;
        now = now.max(ready_at[i as usize]);
        for k in 0..g.after(i as usize).len() {
            let (to, cycles) = g.after(i as usize)[k];
            ready_at[to as usize] = ready_at[to as usize].max(now + cycles as u32);
            g.waiting[to as usize] -= 1;
            if g.waiting[to as usize] == 0 {
                later.push(Reverse((ready_at[to as usize], to)));
                oldest.push(Reverse(to));
            }
        }
        issue(f, &part[i as usize].op, values);
        out.push(first + i);
        now += 1;
    }
    // Nothing is ever left; an instruction must not be lost whatever happens.
    out.extend((0..n as u32).filter(|&i| !issued[i as usize]).map(|i| first + i));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    /// Chains of exchanges between lanes begin together though more predicates are alive than there may be.
    #[test]
    fn predicates_that_are_short_leave_the_rest_its_order() {
        let head =
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n";
        let conditions: String =
            (1..=7).map(|n| format!("    ISETP_RI.Cmp=4 Pu=%p{n} Ra=%r0 Rb={:#x}\n", n * 3)).collect();
        let mut body = String::new();
        // Two chains, one behind the other, with a choice by each predicate.
        let mut v = 8;
        for _ in 0..2 {
            let mut last = 0;
            for n in 1..=7 {
                body += &format!("    SHFL_II Rd=%r{v} Ra=%r{last} Rb={n:#x} Rc=0x1f\n");
                body += &format!("    SEL_RR Rd=%r{} Ra=%r{v} Rb=RZ Pp=%p{n}\n", v + 1);
                last = v + 1;
                v += 2;
            }
            body += &format!("    STG.Size=4 Ra=RZ Rb=%r{last} URc=UR4\n");
        }
        let mut f = text::parse(&format!("{head}{conditions}{body}    exit\n}}\n")).unwrap().remove(0);
        run(&mut f, 90, Freedom::of(REGISTER_LEVEL));
        verify::ssa(&f).unwrap();
        let text = text::print(&f);
        let at = |n: u32| text.find(&format!("Rd=%r{n} ")).unwrap();
        // The second chain's second exchange (%r24) stands before the first chain's last choice (%r21).
        assert!(at(24) < at(21), "{text}");
    }
}
