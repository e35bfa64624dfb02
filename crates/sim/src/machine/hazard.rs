//! The hazard check: an instruction that issues before what it reads or overwrites is ready stops the run.
//!
//! The warp's clock counts the stall cycles of the path that it issued, as if nothing else ever delayed it. Results of
//! fixed latency are compared with that clock by the tables of [`sass::latency`]. Results and reads of variable latency
//! are pending until an instruction waits for their scoreboard.
//!
//! A queue (memory, shuffles, barriers; or the unit of `MUFU` and conversions) reads operands in order, so a wait for a
//! later instruction of the queue covers the reads of earlier ones, whether it was predicated off or not, and an
//! instruction of the queue may overwrite what an earlier one reads. The vendor's code counts on both. Results of shared
//! memory and shuffles come in order, too, and may do without an own scoreboard.

use super::program::{Access, Ins};
use sass::latency::{self, Class, Latency, SCOREBOARD_SET};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// Registers that are tracked.
pub const COUNT: usize = 336;
/// No fixed latency is longer.
const LONGEST: u64 = 40;

/// The number of a register among all registers of a warp; `None` for those that hold no value or are not tracked.
pub fn number(reg: Reg) -> Option<u16> {
    if reg.is_const() {
        return None;
    }
    let i = reg.index() as u16;
    match reg.file() {
        File::Gpr => Some(i.min(255)),
        File::Ugpr => Some(256 + i.min(63)),
        File::Pred => Some(320 + (i & 7)),
        File::Upred => Some(328 + (i & 7)),
        File::Bar => None,
    }
}

/// A register's name.
pub fn name(n: u16) -> String {
    match n {
        0..=255 => format!("R{n}"),
        256..=319 => format!("UR{}", n - 256),
        320..=327 => format!("P{}", n - 320),
        _ => format!("UP{}", n - 328),
    }
}

/// When a result is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Until {
    /// Nothing was written yet.
    Done,
    /// So many cycles after `clock`, by the tables.
    Fixed,
    /// When this scoreboard has been waited for since.
    Scoreboard(u8, u32),
    /// When a later instruction of the queue is known to be done.
    Queue,
}

#[derive(Clone, Copy)]
struct Write {
    until: Until,
    pc: u32,
    slot: u8,
    queue: u8,
    mask: u32,
    clock: u64,
    seq: u64,
}

#[derive(Clone, Copy)]
struct Read {
    queue: u8,
    pc: u32,
    mask: u32,
    seq: u64,
}

/// Queues: of memory, of the decoupled unit, and one for each other class.
const QUEUES: usize = 40;

/// What is under way in a warp.
pub struct Hazards {
    written: Vec<Write>,
    reads: Vec<SmallVec<[Read; 2]>>,
    epoch: [u32; 6],
    set: [u64; 6],
    /// By scoreboard: instructions that set it since it was last waited for; true where they release it with results.
    holders: [Vec<(u8, u8, u64, bool)>; 6],
    /// By queue: up to which instruction operands are read, and results there.
    read_done: [u64; QUEUES],
    result_done: [u64; QUEUES],
    seq: u64,
    clock: u64,
}

/// What the tables say about pairs of instructions of one program, once looked up: a small direct-mapped cache.
pub struct Distances {
    sm: u16,
    known: Vec<(u64, u8)>,
}

impl Distances {
    const SIZE: usize = 4096;

    /// For a chip.
    pub fn new(sm: u16) -> Distances {
        Distances { sm, known: vec![(u64::MAX, 0); Self::SIZE] }
    }

    /// Cycles that the tables want between two instructions, for a read or an overwrite.
    fn between(&mut self, code: &[Ins], first: (u32, u8), second: (u32, Option<u8>), again: bool) -> u64 {
        let used = second.1.map_or(15, |s| s & 15) as u64;
        let key =
            (first.0 as u64) << 36 | (second.0 as u64) << 10 | ((first.1 & 15) as u64) << 5 | used << 1 | again as u64;
        let place = (key ^ key >> 17 ^ key >> 33) as usize % Self::SIZE;
        if self.known[place].0 == key {
            return self.known[place].1 as u64;
        }
        let n = match (&code[first.0 as usize].inst, &code[second.0 as usize].inst) {
            (Some(a), Some(b)) => {
                let l = match (again, second.1) {
                    (true, Some(slot)) => latency::waw(a, first.1, b, slot, self.sm),
                    (_, used) => latency::raw(a, first.1, b, used, self.sm),
                };
                match l {
                    Latency::Fixed(n) => n,
                    Latency::Scoreboard => 0,
                }
            }
            _ => 0,
        };
        self.known[place] = (key, n);
        n as u64
    }
}

/// The queue that an instruction's operands and results pass, in this order.
pub fn queues(class: Class) -> (u8, u8) {
    use Class::*;
    match class {
        Shared | Shuffle | Barrier | Fence => (0, 0),
        // Results of global and local memory come when they come.
        Global => (0, 1),
        Local => (0, 2),
        Xu => (3, 3),
        c => (4 + c as u8, 4 + c as u8),
    }
}

/// Two instructions that are too close: what is wrong, and the earlier one.
pub struct Hazard {
    /// What is wrong with the later one.
    pub message: String,
    /// The earlier instruction.
    pub earlier: u32,
}

impl Hazards {
    /// Nothing is under way.
    #[allow(clippy::new_without_default)] // there is one place that makes them
    pub fn new() -> Hazards {
        let idle = Write { until: Until::Done, pc: 0, slot: 0, queue: 0, mask: 0, clock: 0, seq: 0 };
        Hazards {
            written: vec![idle; COUNT],
            reads: vec![SmallVec::new(); COUNT],
            epoch: [0; 6],
            set: [0; 6],
            holders: Default::default(),
            read_done: [0; QUEUES],
            result_done: [0; QUEUES],
            seq: 0,
            clock: 1000,
        }
    }

    fn pending(&self, w: &Write) -> bool {
        match w.until {
            Until::Done | Until::Fixed => false,
            Until::Queue => w.seq > self.result_done[w.queue as usize],
            Until::Scoreboard(sb, e) => self.epoch[sb as usize] == e,
        }
    }

    fn wait(&mut self, sb: usize) {
        self.epoch[sb] += 1;
        let mut holders = std::mem::take(&mut self.holders[sb]);
        for (read, result, seq, with_results) in holders.drain(..) {
            let done = &mut self.read_done[read as usize];
            *done = (*done).max(seq);
            if with_results {
                // A result of any kind comes after what the in-order queue had before it.
                for q in [read, result] {
                    let done = &mut self.result_done[q as usize];
                    *done = (*done).max(seq);
                }
            }
        }
        self.holders[sb] = holders;
    }

    /// An instruction issues for the lanes `group`, of which `active` execute it.
    ///
    /// # Errors
    /// A register that is not ready, or is still being read.
    pub fn issue(
        &mut self,
        table: &mut Distances,
        code: &[Ins],
        pc: u32,
        group: u32,
        active: u32,
    ) -> Result<(), Hazard> {
        let ins = &code[pc as usize];
        for sb in 0..6 {
            if ins.wait >> sb & 1 != 0 {
                if self.clock - self.set[sb] < SCOREBOARD_SET as u64 {
                    let message = format!("it waits for scoreboard {sb} too soon after it was set");
                    return Err(Hazard { message, earlier: pc.saturating_sub(1) });
                }
                self.wait(sb);
            }
        }
        self.seq += 1;
        for u in &ins.uses {
            let m = if u.slot.is_none() { group } else { active };
            self.check(table, code, pc, *u, m, false)?;
        }
        if active != 0 {
            for d in &ins.defs {
                self.check(table, code, pc, *d, active, true)?;
                let reads = &self.reads[d.reg as usize];
                let busy = |r: &&Read| {
                    r.mask & active != 0 && r.queue != ins.queues.0 && r.seq > self.read_done[r.queue as usize]
                };
                if let Some(r) = reads.iter().find(busy) {
                    let message = format!("{} is overwritten while it may still be read", name(d.reg));
                    return Err(Hazard { message, earlier: r.pc });
                }
                self.reads[d.reg as usize].retain(|r| r.mask & !active != 0 || r.queue == ins.queues.0);
            }
        }
        self.record(ins, pc, active);
        if ins.stall == 0 {
            // Drain: the next instruction waits for all that is under way (the vendor's -O0 has nothing else).
            (0..6).for_each(|sb| self.wait(sb));
            self.read_done = [self.seq; QUEUES];
            self.result_done = [self.seq; QUEUES];
            self.clock += LONGEST;
        } else {
            self.clock += ins.stall as u64;
        }
        Ok(())
    }

    fn check(
        &self,
        table: &mut Distances,
        code: &[Ins],
        pc: u32,
        a: Access,
        m: u32,
        again: bool,
    ) -> Result<(), Hazard> {
        let w = self.written[a.reg as usize];
        // Uniform registers belong to all lanes.
        if w.until == Until::Done || (a.reg < 256 || (320..328).contains(&a.reg)) && w.mask & m == 0 || m == 0 {
            return Ok(());
        }
        let verb = if again { "overwritten" } else { "read" };
        if w.until == Until::Fixed {
            let passed = self.clock - w.clock;
            if passed >= LONGEST {
                return Ok(());
            }
            let wanted = table.between(code, (w.pc, w.slot), (pc, a.slot), again);
            if passed < wanted {
                let message =
                    format!("{} is {verb} {passed} cycles after it was written, {wanted} are needed", name(a.reg));
                return Err(Hazard { message, earlier: w.pc });
            }
        } else if self.pending(&w) && !(again && code[pc as usize].queues.1 == w.queue) {
            let message = match w.until {
                Until::Scoreboard(sb, _) => format!("{} is {verb} without waiting for scoreboard {sb}", name(a.reg)),
                _ => format!("{} is {verb}, but the instruction that writes it sets no scoreboard", name(a.reg)),
            };
            return Err(Hazard { message, earlier: w.pc });
        }
        Ok(())
    }

    fn record(&mut self, ins: &Ins, pc: u32, active: u32) {
        let (queue, results) = ins.queues;
        for (sb, with_results) in [(ins.write_sb, true), (ins.read_sb, false)] {
            if sb < 6 {
                self.set[sb as usize] = self.clock;
                self.holders[sb as usize].push((queue, results, self.seq, with_results));
            }
        }
        if active == 0 {
            return;
        }
        for u in ins.uses.iter().filter(|u| u.late) {
            let done = self.read_done;
            let list = &mut self.reads[u.reg as usize];
            list.retain(|r| r.seq > done[r.queue as usize]);
            list.push(Read { queue, pc, mask: active, seq: self.seq });
        }
        for d in &ins.defs {
            let until = match (ins.variable, ins.write_sb) {
                (false, _) => Until::Fixed,
                (true, sb @ 0..6) => Until::Scoreboard(sb, self.epoch[sb as usize]),
                _ => Until::Queue,
            };
            let slot = d.slot.unwrap_or(0);
            let w = Write { until, pc, slot, queue: results, mask: active, clock: self.clock, seq: self.seq };
            self.written[d.reg as usize] = w;
        }
    }
}
