//! List scheduling before register allocation: starts long latencies early while registers are left.
//!
//! Needs SSA form, keeps it; works inside blocks, between control-flow instructions. First an order that needs few registers: that of
//! [`super::order`], or of [`super::least`] where that needs fewer. Then forward, cycle by cycle, the
//! instruction with the longest way to the end first, as long as the rest of the order will fit behind it ([`super::profile`]);
//! where nothing fits, the oldest instruction, ready or not. Where much is waited for all the same, also with the oldest that is ready first: of many chains
//! beside each other the one with the longest way would have all begin, until no register is left in which one could go on. Below 32 registers
//! a function may take some more than that order needs; above, no more than threads are given for what it needs. n log n.

mod list;
mod rooms;

pub use self::rooms::Freedom;
pub(super) use self::rooms::given;

use self::list::{Task, schedule};
use self::rooms::{Room, WAITING, choose, wider};
use super::again;
use super::asked;
use super::cluster::Cluster;
use super::memory::{MemoryOrder, address, memory};
use super::order::{Orderer, Steps};
use super::pack;
use super::peaks;
use super::postpass::{Graph, planned};
use super::profile::Profile;
use super::remat;
use super::traffic::{Names, Traffic};
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{names_physical, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op, Vreg, reorder};
use crate::regalloc::{self, Banks};
use crate::registers;
use sass::inst::Inst as Sass;
use sass::latency;
use sass::reg::File;
use std::ops::Range;

/// A loop is taken to run so many times as its surroundings (as a power of two), up to four loops deep.
pub const DEEPER: u32 = 3;
/// A part of so many instructions or more, each of which takes more than half a cycle of waiting (in halves of cycles an instruction), is ordered by age, too.
/// Of 2,026 modules of public code that was 0.994 of the static cycles, with as many registers; with other bounds (32 instructions, a fifth of a cycle, or none) the same
/// within 0.0005.
const LONG: usize = 64;
const WAITS: u64 = 3;
/// A function that needs no more than so many registers keeps its order: as many threads as an SM may hold have them. (With 16, of 683 modules of public code
/// registers are 0.15 % fewer, and compiling takes 1.2 % longer.)
const FEW: u32 = 24;
/// Predicates that may be alive at once.
const PREDICATES: u32 = 7;
/// Cycles that a load takes that is far away.
pub(super) const FAR: u16 = 100;

const NONE: u32 = u32::MAX;
/// How what an address is computed of is told apart: values, and registers, which nothing here writes.
const VALUE: u32 = 0;
const PHYSICAL: u32 = 1;

/// What is known of the values.
pub(super) struct Values {
    /// Reads left in the block, the terminator's and those behind the block counted as one more.
    left: Vec<u32>,
    /// Who defines it in the part at hand, in which slot, as which word of it.
    def: Vec<(u32, u8, u8)>,
    /// General registers and predicates alive.
    pub(super) live: [u32; 4],
    pub(super) limit: [u32; 4],
    /// Of parameters that are stepped in the block at hand: which step; of what steps them, too.
    step_from: Vec<u32>,
    step_to: Vec<u32>,
    /// Reads of each of those parameters in the part at hand.
    step_reads: Vec<Vec<u32>>,
    /// There are such parameters.
    stepping: bool,
    names: Names,
}

impl Values {
    /// Of a function.
    pub(super) fn of(f: &Func) -> Values {
        let n = f.vregs.len();
        Values {
            left: vec![0; n],
            def: vec![(NONE, 0, 0); n],
            live: [0; 4],
            limit: [0, 40, PREDICATES, 6],
            step_from: vec![NONE; n],
            step_to: vec![NONE; n],
            step_reads: Vec::new(),
            stepping: false,
            names: Names::default(),
        }
    }

    /// Makes room for values that the function has more since.
    pub(super) fn grow(&mut self, f: &Func) {
        let n = f.vregs.len();
        self.left.resize(n, 0);
        self.def.resize(n, (NONE, 0, 0));
        self.step_from.resize(n, NONE);
        self.step_to.resize(n, NONE);
    }

    /// What a part reads and writes.
    pub(super) fn traffic(&mut self, f: &Func, part: &[Inst]) -> Traffic {
        let alive = [self.live[0], self.live[File::Pred as usize]];
        Traffic::new(f, part, &self.left, alive, &mut self.names)
    }

    /// Begins or ends with a block whose steps are these.
    pub(super) fn steps(&mut self, list: &Steps, begins: bool) {
        for (k, &(p, d)) in (0..).zip(list) {
            self.step_from[p.index()] = if begins { k } else { NONE };
            self.step_to[d.index()] = if begins { k } else { NONE };
        }
        self.stepping = begins && !list.is_empty();
        self.step_reads.resize_with(self.step_reads.len().max(list.len()), Vec::new);
    }
}

/// Puts the instructions of every block of `f` into an order that keeps few values alive. Gives what is alive between blocks,
/// and the steps of each block.
pub fn order(f: &mut Func, cfg: &Cfg) -> (Liveness, Vec<Steps>) {
    let live = Liveness::new(f, cfg);
    let steps = order_blocks(f, &cfg.rpo, &live, false);
    (live, steps)
}

/// As [`order`], of these blocks alone, with what is alive between all; `late`: too many values are alive in them.
pub(super) fn order_blocks(f: &mut Func, blocks: &[u32], live: &Liveness, late: bool) -> Vec<Steps> {
    let mut cluster = Cluster::new(f.vregs.len());
    let mut crowded = vec![false; f.blocks.len()];
    blocks.iter().for_each(|&b| crowded[b as usize] = cluster.run(f, b as usize));
    let mut orderer = Orderer::new(f.vregs.len());
    let mut steps: Vec<Steps> = vec![Steps::new(); f.blocks.len()];
    for &b in blocks {
        let mut insts = std::mem::take(&mut f.blocks[b as usize].insts);
        steps[b as usize] = orderer.run(f, b as usize, live, &mut insts, crowded[b as usize], late);
        f.blocks[b as usize].insts = insts;
    }
    steps
}

/// Schedules every block of `f`.
pub fn run(f: &mut Func, sm: u16, freedom: Freedom) {
    let cfg = f.cfg();
    let (mut live, mut steps) = order(f, &cfg);
    let mut by_block = regalloc::pressures(f, &cfg, &live).1;
    let banks = Banks { gprs: f.max_gprs, uniform: 61, light: None };
    let limits = [banks.count(File::Gpr), banks.count(File::Pred)];
    let owned = registers::owned(f, &cfg);
    let there = |b: u32| owned.get(b as usize).map_or(u32::MAX, |&n| n as u32).min(limits[0]);
    let full: Vec<u32> = cfg.rpo.iter().copied().filter(|&b| by_block[b as usize][0] > there(b)).collect();
    if !full.is_empty() {
        order_blocks(f, &full, &live, true);
        steps = order_blocks(f, &cfg.rpo, &live, false);
        by_block = regalloc::pressures(f, &cfg, &live).1;
    }
    for pass in [pack::run, remat::run] {
        if pass(f, &cfg, &live, &by_block, limits) {
            (live, steps) = order(f, &cfg);
            by_block = regalloc::pressures(f, &cfg, &live).1;
        }
    }
    if let Some(now) = peaks::run(f, &cfg, &live, &by_block) {
        live = now;
        steps = order_blocks(f, &cfg.rpo, &live, false);
        by_block = regalloc::pressures(f, &cfg, &live).1;
    }
    if asked::run(f, &live, &by_block, limits) {
        (live, steps) = order(f, &cfg);
        by_block = regalloc::pressures(f, &cfg, &live).1;
    }
    let mut values = Values::of(f);
    let task = again::Task { cfg: &cfg, live: &live, steps: &steps, sm };
    let least = again::run(f, &task, &mut values, &mut by_block, FEW);
    let mut rooms = freedom.rooms(least, banks.count(File::Gpr).saturating_sub(6));
    let fewest = rooms.first().map_or(least, |r| r.gprs);
    for &b in &cfg.rpo {
        // Threads that gave registers up have fewer.
        let there = owned.get(b as usize).map_or(fewest, |&n| fewest.min(n.saturating_sub(6) as u32));
        if by_block[b as usize][0] > there {
            task.lessen(f, b, &mut values, Some(there));
        }
    }
    let mut tried = Tried::default();
    let at = |f: &Func, values: &mut Values, rooms: &[Room], tried: &mut Tried| {
        tried.totals.resize(tried.totals.len() + rooms.len(), 0);
        for (k, &b) in cfg.rpo.iter().enumerate() {
            let owns = owned.get(b as usize).map_or(u32::MAX, |&n| n.saturating_sub(6) as u32);
            let own = |r: &Room| Room { gprs: r.gprs.min(owns), loads: r.loads.min(owns), ..*r };
            values.steps(&steps[b as usize], true);
            let list = block(f, b as usize, &live, values, sm, &rooms.iter().map(own).collect::<Vec<_>>());
            values.steps(&steps[b as usize], false);
            let deeper = DEEPER * f.blocks[b as usize].depth.min(4);
            let totals = tried.totals.iter_mut().rev().zip(list.iter().rev());
            totals.for_each(|(total, p)| *total = total.saturating_add(p.cycles << deeper));
            match tried.plans.get_mut(k) {
                Some(plans) => plans.extend(list),
                None => tried.plans.push(list),
            }
        }
    };
    at(f, &mut values, &rooms, &mut tried);
    let Some(mut room) = choose(&tried.totals, &rooms, freedom.power) else { return };
    let work = |b: &u32| (f.blocks[*b as usize].insts.len() as u64) << (DEEPER * f.blocks[*b as usize].depth.min(4));
    let work: u64 = cfg.rpo.iter().map(work).sum();
    if tried.totals[rooms.len() - 1] > work * WAITING {
        let usual = rooms.len();
        let more = freedom.beyond(&rooms, banks.count(File::Gpr).saturating_sub(6));
        if !more.is_empty() {
            at(f, &mut values, &more, &mut tried);
            rooms.extend(more);
            room = wider(&tried.totals, &rooms, usual, room, freedom.power);
        }
    }
    for (&b, mut list) in cfg.rpo.iter().zip(tried.plans) {
        let insts = std::mem::take(&mut f.blocks[b as usize].insts);
        f.blocks[b as usize].insts = reorder(insts, &list.swap_remove(room).order);
    }
}

/// What has been tried: by number of registers the cycles of all blocks, and by block the plans.
#[derive(Default)]
struct Tried {
    totals: Vec<u64>,
    plans: Vec<Vec<Plan>>,
}

/// An order of a block, and what it takes.
#[derive(Clone, Default)]
struct Plan {
    order: Vec<u32>,
    cycles: u64,
}

/// Counts what is alive where a block begins, and who reads what in it.
pub(super) fn begin(f: &Func, b: usize, insts: &[Inst], live: &Liveness, values: &mut Values) {
    let start = |v: Vreg, values: &mut Values| values.left[v.index()] = 0;
    live.live_in[b].iter().for_each(|&v| start(v, values));
    f.blocks[b].params.iter().for_each(|&v| start(v, values));
    f.live_in.iter().filter(|_| b == 0).for_each(|l| start(l.0, values));
    for inst in insts {
        f.defs(&inst.op, |v| values.left[v.index()] = 0);
    }
    for inst in insts {
        f.uses(&inst.op, |v| values.left[v.index()] += 1);
    }
    let term = &f.blocks[b].term;
    let mut after: Vec<Vreg> = live.live_out[b].to_vec();
    f.term_uses(term, |v| after.push(v));
    term.edges().iter().for_each(|e| after.extend(&e.args));
    after.iter().for_each(|v| values.left[v.index()] += 1);
    values.live = [0; 4];
    let mut count = |v: Vreg| values.live[f.vregs[v.index()] as usize & 3] += 1;
    live.live_in[b].iter().for_each(|&v| count(v));
    f.blocks[b].params.iter().for_each(|&v| count(v));
    f.live_in.iter().filter(|_| b == 0).for_each(|l| count(l.0));
}

/// Schedules a block: with each of so many registers.
fn block(f: &Func, b: usize, live: &Liveness, values: &mut Values, sm: u16, rooms: &[Room]) -> Vec<Plan> {
    let insts = &f.blocks[b].insts;
    begin(f, b, insts, live, values);
    let mut plans = vec![Plan::default(); rooms.len()];
    let mut from = 0;
    for (i, inst) in insts.iter().enumerate() {
        if fixed(&inst.op) {
            part_of_block(f, insts, from..i, values, sm, rooms, &mut plans);
            issue(f, &inst.op, values);
            plans.iter_mut().for_each(|p| p.order.push(i as u32));
            from = i + 1;
        }
    }
    part_of_block(f, insts, from..insts.len(), values, sm, rooms, &mut plans);
    plans
}

/// Nothing passes it: control flow, calls, writes of physical registers.
pub(super) fn fixed(op: &Op) -> bool {
    let Op::Sass(s) = op else { return matches!(op, Op::Call(_) | Op::Hold { .. }) };
    s.form().effects.flow || super::warpgroup::stays(s) || names_physical(s, s.registers().writes, false)
}

/// Counts the values that an instruction ends and makes.
pub(super) fn issue(f: &Func, op: &Op, values: &mut Values) {
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

pub(super) fn graph(f: &Func, part: &[Inst], values: &mut Values, sm: u16) -> Graph {
    let mut g = Graph::default();
    let mut order = MemoryOrder::new(f.lanes_tell);
    let sass = |i: u32| match part.get(i as usize).map(|x| &x.op) {
        Some(Op::Sass(s)) => Some(s),
        _ => None,
    };
    for (i, inst) in part.iter().enumerate() {
        let i = i as u32;
        let def = &values.def;
        let (step_from, step_to, step_reads) = (&values.step_from, &values.step_to, &mut values.step_reads);
        if values.stepping {
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
        }
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
                let mut bytes = address(s);
                sass_uses(s, |p| {
                    let mut part = 0;
                    f.each_scalar(p.reg, |v| {
                        read(v, Some((s, p.slot, part)));
                        part += 1;
                        bytes.iter_mut().for_each(|bytes| bytes.from(p.slot, (v.0, VALUE)));
                    });
                    if !p.reg.is_virtual() && !p.reg.is_pooled() {
                        bytes.iter_mut().for_each(|bytes| bytes.from(p.slot, (p.reg.index(), PHYSICAL)));
                    }
                });
                order.add(i, memory(s), bytes, |before| g.edge(before, i, 1));
                let def = &mut values.def;
                sass_defs(s, |p| {
                    let mut word = 0;
                    f.each_scalar(p.reg, |v| {
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

/// Schedules these instructions, with each of so many registers, and adds their numbers to the plans.
fn part_of_block(
    f: &Func,
    insts: &[Inst],
    range: Range<usize>,
    values: &mut Values,
    sm: u16,
    rooms: &[Room],
    plans: &mut [Plan],
) {
    let first = range.start as u32;
    let part = &insts[range];
    let n = part.len();
    if n < 3 {
        part.iter().for_each(|i| issue(f, &i.op, values));
        plans.iter_mut().for_each(|p| p.order.extend((0..n as u32).map(|i| first + i)));
        return;
    }
    let traffic = values.traffic(f, part);
    let mut heights = [Vec::with_capacity(n), Vec::with_capacity(n)];
    traffic.needs(0..n as u32, |need| (0..2).for_each(|k| heights[k].push(need[k])));
    let full = rooms.first().map_or(u32::MAX, |r| r.full).min(i32::MAX as u32) as i32;
    let profiles = [(0, full), (1, i32::MAX)].map(|(k, full)| Profile::new(&traffic, k, &heights[k], full));
    let task = Task::new(f, part, &traffic, values, sm);
    let alive = values.live;
    let mut last: Option<list::Scheduled> = None;
    // With the most registers first: what does not take more than there are fewer of is the same with those.
    for (k, (room, plan)) in rooms.iter().zip(plans).enumerate().rev() {
        let same = last.take().filter(|s| s.peak <= room.gprs);
        let done = same.unwrap_or_else(|| {
            let again = |values: &mut Values| {
                part.iter().for_each(|i| f.uses(&i.op, |v| values.left[v.index()] += 1));
                values.live = alive;
            };
            if k + 1 < rooms.len() {
                again(values);
            }
            let by_height = schedule(f, part, &task, &task.height, *room, values, profiles.clone());
            if n < LONG || by_height.cycles * 2 <= n as u64 * WAITS || room.full != u32::MAX {
                return by_height;
            }
            again(values);
            let age: Vec<u32> = (0..n as u32).rev().collect();
            let by_age = schedule(f, part, &task, &age, *room, values, profiles.clone());
            if by_age.cycles < by_height.cycles { by_age } else { by_height }
        });
        plan.order.extend(done.order.iter().map(|i| first + i));
        plan.cycles += done.cycles;
        last = Some(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};
    use crate::pipeline::REGISTER_LEVEL;

    /// How many loads are under way behind each instruction of a block, where one of `ends` ends each.
    fn under_way<'a>(f: &'a Func, block: usize, ends: &'a str) -> impl Iterator<Item = u32> + 'a {
        let names = f.blocks[block].insts.iter().filter_map(|i| match &i.op {
            Op::Sass(s) => Some(s.form().mnemonic),
            _ => None,
        });
        names.scan(0, move |now, name| {
            *now = *now + u32::from(name == "LDG") - u32::from(name == ends);
            Some(*now)
        })
    }

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

    /// Where far more values live than there are registers, loads are not waited for one after the other.
    #[test]
    fn loads_wait_side_by_side_where_values_live_in_memory() {
        let list = |from: usize| (0..160).map(|i| format!("%r{}", from + i)).collect::<Vec<_>>();
        let mut body = String::from("blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n");
        (1000..1160).for_each(|i| body += &format!("    LDS Rd=%r{i} Ra=RZ Imm={:#x}\n", 4 * (i - 1000)));
        body += &format!("    br blk1({})\nblk1({}): depth=1\n", list(1000).join(", "), list(2000).join(", "));
        for i in 0..160 {
            let (address, loaded) = (4000 + i, 5000 + i);
            body += &format!("    IADD3_RIR Rd=%r{address} Ra=%r0 Rb={:#x}\n", 4 * i);
            body += &format!("    LDG UR=UR4 Rd=%r{loaded} Ra={{%r{address},%r0}}\n");
            body += &format!("    FADD_RR Rd=%r{} Ra=%r{} Rb=%r{loaded}\n", 3000 + i, 2000 + i);
        }
        body += "    ISETP_RR Pu=%p5 Ra=%r5159 Rb=RZ\n";
        body += &format!("    brif %p5, blk1({}), blk2()\nblk2(): depth=0\n", list(3000).join(", "));
        list(3000).iter().for_each(|v| body += &format!("    STS Ra=RZ Rb={v}\n"));
        let head = "func k entry max=120 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}    exit\n}}\n")).unwrap().remove(0);
        run(&mut f, 90, Freedom::of(REGISTER_LEVEL));
        verify::ssa(&f).unwrap();
        // Whose sum has not been added yet.
        assert_eq!(under_way(&f, 1, "FADD").max(), Some(5));
    }

    /// Where more values are alive in uniform registers than may be, what makes no more of them is ordered all the same.
    #[test]
    fn loads_wait_side_by_side_where_uniform_registers_are_full() {
        let mut body = String::from("blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n");
        (0..44).for_each(|i| body += &format!("    S2UR Rd=%ur{} Sr=0x25\n", 100 + i));
        body += "    br blk1()\nblk1(): depth=1\n";
        for i in 0..44 {
            let (address, loaded) = (200 + i, 300 + i);
            body += &format!("    IADD3_RUR Rd=%r{address} Ra=%r0 Rb=%ur{}\n", 100 + i);
            body += &format!("    LDG.Sem=4 UR=UR4 Rd=%r{loaded} Ra={{%r{address},%r0}}\n");
            body += &format!("    STS Ra=RZ Rb=%r{loaded} Imm={:#x}\n", 4 * i);
        }
        body += "    S2UR Rd=%ur99 Sr=0x26\n    IADD3_RUR Rd=%r1 Ra=%r0 Rb=%ur99\n    ISETP_RR Pu=%p5 Ra=%r1 Rb=RZ\n    brif %p5, blk1(), blk2()\nblk2(): depth=0\n    exit\n";
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        run(&mut f, 90, Freedom::of(REGISTER_LEVEL));
        verify::ssa(&f).unwrap();
        let most = under_way(&f, 1, "STS").max();
        assert!(most > Some(8), "{most:?}");
    }

    /// Of many chains that each wait for a load some are under way together, though not all can be.
    #[test]
    fn chains_go_on_though_not_all_can_begin() {
        let mut body = String::from("blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n");
        let mut v = 1;
        for i in 0..64 {
            body += &format!("    IADD3_RIR Rd=%r{v} Ra=%r0 Rb={:#x}\n", 4096 * (i + 1));
            for _ in 0..6 {
                body += &format!("    IMAD_RRR Rd=%r{} Ra=%r{v} Rb=%r{v} Rc=%r{v}\n", v + 1);
                v += 1;
            }
            body += &format!("    LDG.Sem=4 UR=UR4 Rd=%r{} Ra={{%r{v},%r0}}\n", v + 1);
            body += &format!("    FADD_RR Rd=%r{} Ra=%r{} Rb=%r0\n", v + 2, v + 1);
            body += &format!("    STS Ra=RZ Rb=%r{} Imm={:#x}\n", v + 2, 4 * i);
            v += 3;
        }
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}    exit\n}}\n")).unwrap().remove(0);
        run(&mut f, 90, Freedom::of(REGISTER_LEVEL));
        verify::ssa(&f).unwrap();
        let (most, sum) = under_way(&f, 0, "FADD").fold((0, 0), |(most, sum), now| (most.max(now), sum + now));
        // More than the first ones, too.
        assert!(most >= 6 && sum as usize > 4 * f.blocks[0].insts.len(), "{most} {sum}");
    }

    /// What the next iteration reads starts as soon as this one has read its own.
    #[test]
    fn loads_for_the_next_iteration_start_early() {
        let chain: String = (20..34).map(|n| format!("    MUFU_R.Func=2 Rd=%r{} Rb=%r{n}\n", n + 1)).collect();
        let text = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    br blk1(%r0, %r0)\nblk1(%r1, %r20): depth=1\n{chain}    STG.Size=4 Ra=RZ Rb=%r34 URc=UR4\n    IADD3_RIR Rd=%r4 Ra=%r1 Rb=0x1\n    ISETP_RR Pu=%p5 Ra=%r4 Rb=RZ\n    @%p5 LDG.Sem=4 UR=UR4 Rd=%r3 Ra={{%r4,%r0}}\n    brif %p5, blk1(%r4, %r3), blk2()\nblk2(): depth=0\n    exit\n}}\n"
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        run(&mut f, 90, Freedom::of(REGISTER_LEVEL));
        verify::ssa(&f).unwrap();
        let text = text::print(&f);
        let at = |what: &str| text.find(what).unwrap();
        assert!(at("Rd=%r21 ") < at("LDG") && at("LDG") < at("Rd=%r23 "), "{text}");
    }
}
