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

use super::program::{Access, Ins, Program};
use sass::latency::{self, Class, Latency, SCOREBOARD_SET};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// Uniform registers that are tracked; the last one stands for all that are constant.
pub const UNIFORM: u16 = 128;
/// The numbers of the first predicate and of the first uniform one.
const PREDICATES: u16 = 256 + UNIFORM;
/// See [`PREDICATES`].
pub const UNIFORM_PREDICATES: u16 = PREDICATES + 8;
/// Registers that are tracked.
pub const COUNT: usize = UNIFORM_PREDICATES as usize + 8;

/// Does the register, by its number, belong to all lanes of a warp?
#[inline]
pub fn uniform(n: u16) -> bool {
    (256..PREDICATES).contains(&n) || n >= UNIFORM_PREDICATES
}

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
        File::Ugpr => Some(256 + i.min(UNIFORM - 1)),
        File::Pred => Some(PREDICATES + (i & 7)),
        File::Upred => Some(UNIFORM_PREDICATES + (i & 7)),
        File::Bar => None,
    }
}

/// A register's name.
pub fn name(n: u16) -> String {
    match n {
        0..=255 => format!("R{n}"),
        256..PREDICATES => format!("UR{}", n - 256),
        PREDICATES..UNIFORM_PREDICATES => format!("P{}", n - PREDICATES),
        _ => format!("UP{}", n - UNIFORM_PREDICATES),
    }
}

/// When a result is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Until {
    /// So many cycles after `clock`, by the tables.
    Fixed,
    /// When this scoreboard has been waited for since.
    Scoreboard(u8, u32),
    /// When one of two scoreboards has been: its operands' or its results'.
    Either([(u8, u32); 2]),
    /// When a later instruction of the queue is known to be done.
    Queue,
}

#[derive(Clone, Copy)]
struct Write {
    clock: u64,
    seq: u64,
    until: Until,
    pc: u32,
    mask: u32,
    slot: u8,
    queue: u8,
}

#[derive(Clone, Copy)]
struct Read {
    queue: u8,
    pc: u32,
    mask: u32,
    seq: u64,
}

/// Queues: of memory, of the decoupled unit, and one for each other class.
const QUEUES: usize = 48;
/// The queue that operands of memory instructions pass.
const MEMORY: usize = 0;

/// What is under way in a warp.
pub struct Hazards {
    written: Box<[Write; COUNT]>,
    reads: Vec<SmallVec<[Read; 2]>>,
    /// A bit for each register of `reads` that has any.
    reading: [u64; COUNT.div_ceil(64)],
    epoch: [u32; 6],
    /// By scoreboard: who of those that set it has ended, before all have.
    done: [u64; 6],
    set: [u64; 6],
    /// By scoreboard: instructions that set it since it was last waited for; true where they release it with results.
    holders: [Vec<(u8, u8, u64, bool)>; 6],
    /// By queue: up to which instruction operands are read, and results there.
    read_done: [u64; QUEUES],
    result_done: [u64; QUEUES],
    seq: u64,
    clock: u64,
}

/// What the tables say about pairs of instructions of one program, once looked up. Each access remembers the last writer
/// that it met, as in most code it meets the same one again.
pub struct Distances {
    sm: u16,
    /// By access: the writer (instruction and slot) and the cycles.
    known: Vec<(u32, u32)>,
}

impl Distances {
    /// For a chip and a program with so many accesses.
    pub fn new(sm: u16, sites: u32) -> Distances {
        Distances { sm, known: vec![(u32::MAX, 0); sites as usize] }
    }

    /// Cycles that the tables want between a writer and an access of a later instruction, for a read or an overwrite.
    fn between(&mut self, p: &Program, first: &Write, second: (u32, Access), again: bool) -> u64 {
        let known = &mut self.known[second.1.site as usize];
        if known.0 != first.key() {
            *known = (first.key(), look_up(p, (first.pc, first.slot), second, again, self.sm));
        }
        known.1 as u64
    }
}

impl Write {
    #[inline]
    fn key(&self) -> u32 {
        self.pc << 4 | (self.slot & 15) as u32
    }
}

#[cold]
fn look_up(p: &Program, first: (u32, u8), second: (u32, Access), again: bool, sm: u16) -> u32 {
    let (Some(a), Some(b)) = (&p.insts[first.0 as usize], &p.insts[second.0 as usize]) else { return 0 };
    let l = match (again, second.1.slot) {
        (true, Some(slot)) => latency::waw(a, first.1, b, slot, sm),
        (_, used) => latency::raw(a, first.1, b, used, sm),
    };
    match l {
        Latency::Fixed(n) => n as u32,
        Latency::Scoreboard => 0,
    }
}

/// The queue that an instruction's operands and results pass, in this order.
pub fn queues(class: Class) -> (u8, u8) {
    use Class::*;
    match class {
        Shared | Shuffle | Movm | Barrier | Fence => (0, 0),
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
        let idle = Write { until: Until::Fixed, pc: 0, slot: 0, queue: 0, mask: 0, clock: 0, seq: 0 };
        Hazards {
            written: Box::new([idle; COUNT]),
            reading: [0; COUNT.div_ceil(64)],
            reads: vec![SmallVec::new(); COUNT],
            epoch: [0; 6],
            done: [0; 6],
            set: [0; 6],
            holders: Default::default(),
            read_done: [0; QUEUES],
            result_done: [0; QUEUES],
            seq: 0,
            clock: 1000,
        }
    }

    fn awaited(&self, w: &Write, sb: u8, epoch: u32) -> bool {
        self.epoch[sb as usize] == epoch && w.seq > self.done[sb as usize]
    }

    fn pending(&self, w: &Write) -> bool {
        match w.until {
            Until::Fixed => false,
            Until::Queue => w.seq > self.result_done[w.queue as usize],
            Until::Scoreboard(sb, e) => self.awaited(w, sb, e),
            Until::Either(two) => two.iter().all(|&(sb, e)| self.awaited(w, sb, e)),
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

    /// Waits until only `n` of those who set a scoreboard are under way: they end in the order in which they began.
    pub fn wait_but(&mut self, sb: usize, n: usize) {
        let ended = self.holders[sb].len().saturating_sub(n);
        for (read, result, seq, with_results) in self.holders[sb].drain(..ended) {
            self.done[sb] = self.done[sb].max(seq);
            let queues = if with_results { [read, result] } else { [read, read] };
            let done = &mut self.read_done[read as usize];
            *done = (*done).max(seq);
            for q in queues.into_iter().filter(|_| with_results) {
                let done = &mut self.result_done[q as usize];
                *done = (*done).max(seq);
            }
        }
    }

    /// An instruction issues for the lanes `group`, of which `active` execute it.
    ///
    /// # Errors
    /// A register that is not ready, or is still being read.
    pub fn issue(
        &mut self,
        table: &mut Distances,
        p: &Program,
        pc: u32,
        group: u32,
        active: u32,
    ) -> Result<(), Hazard> {
        let ins = &p.code[pc as usize];
        if ins.wait != 0 {
            self.wait_for(ins.wait, pc)?;
        }
        if ins.named != 0 {
            (0..6).filter(|sb| ins.named >> sb & 1 != 0).for_each(|sb| self.wait(sb));
        }
        if ins.drains {
            self.read_done[MEMORY] = self.seq;
        }
        self.seq += 1;
        for u in ins.uses.iter() {
            let m = if u.slot.is_none() { group } else { active };
            self.check(table, p, pc, u, m, false)?;
        }
        if active != 0 {
            for d in ins.defs.iter() {
                self.check(table, p, pc, d, active, true)?;
                if self.reading[d.reg as usize / 64] >> (d.reg % 64) & 1 != 0 {
                    self.overwrite(ins, d.reg as usize, active)?;
                }
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

    fn wait_for(&mut self, scoreboards: u8, pc: u32) -> Result<(), Hazard> {
        for sb in (0..6).filter(|sb| scoreboards >> sb & 1 != 0) {
            if self.clock - self.set[sb] < SCOREBOARD_SET as u64 {
                let message = format!("it waits for scoreboard {sb} too soon after it was set");
                return Err(Hazard { message, earlier: pc.saturating_sub(1) });
            }
            self.wait(sb);
        }
        Ok(())
    }

    /// A register that was read late is overwritten.
    fn overwrite(&mut self, ins: &Ins, reg: usize, active: u32) -> Result<(), Hazard> {
        let busy =
            |r: &&Read| r.mask & active != 0 && r.queue != ins.queues.0 && r.seq > self.read_done[r.queue as usize];
        if let Some(r) = self.reads[reg].iter().find(busy) {
            let message = format!("{} is overwritten while it may still be read", name(reg as u16));
            return Err(Hazard { message, earlier: r.pc });
        }
        self.reads[reg].retain(|r| r.mask & !active != 0 || r.queue == ins.queues.0);
        if self.reads[reg].is_empty() {
            self.reading[reg / 64] &= !(1 << (reg % 64));
        }
        Ok(())
    }

    #[inline(always)]
    fn check(
        &self,
        table: &mut Distances,
        p: &Program,
        pc: u32,
        a: &Access,
        m: u32,
        again: bool,
    ) -> Result<(), Hazard> {
        let w = &self.written[a.reg as usize];
        let passed = self.clock - w.clock;
        let known = table.known[a.site as usize];
        if w.until == Until::Fixed && (passed >= LONGEST || known.0 == w.key() && passed >= known.1 as u64) {
            return Ok(());
        }
        // Uniform registers belong to all lanes.
        if m == 0 || !uniform(a.reg) && w.mask & m == 0 {
            return Ok(());
        }
        self.check_closely(table, p, pc, *a, again)
    }

    #[inline(never)]
    fn check_closely(&self, table: &mut Distances, p: &Program, pc: u32, a: Access, again: bool) -> Result<(), Hazard> {
        let w = &self.written[a.reg as usize];
        if w.until == Until::Fixed {
            let (passed, wanted) = (self.clock - w.clock, table.between(p, w, (pc, a), again));
            if passed < wanted {
                let verb = if again { "overwritten" } else { "read" };
                let message =
                    format!("{} is {verb} {passed} cycles after it was written, {wanted} are needed", name(a.reg));
                return Err(Hazard { message, earlier: w.pc });
            }
        } else if self.pending(w) && !(again && p.code[pc as usize].queues.1 == w.queue) {
            return Err(too_early(w, a.reg, again));
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
        let late = if ins.late { &ins.uses[..] } else { &[] };
        for u in late.iter().filter(|u| u.late) {
            let done = &self.read_done;
            let list = &mut self.reads[u.reg as usize];
            list.retain(|r| r.seq > done[r.queue as usize]);
            list.push(Read { queue, pc, mask: active, seq: self.seq });
            self.reading[u.reg as usize / 64] |= 1 << (u.reg % 64);
        }
        for d in ins.defs.iter() {
            let now = |sb: u8| (sb, self.epoch[sb as usize]);
            // ATOM on a generic address tells by its predicate whether it has done its work, as soon as it has its operands.
            let early = ins.tells_early && ins.read_sb < 6 && (PREDICATES..UNIFORM_PREDICATES).contains(&d.reg);
            let until = match (ins.variable, ins.write_sb) {
                (_, sb @ 0..6) if early => Until::Either([now(ins.read_sb), now(sb)]),
                // Where it is of a fixed latency by the tables, a scoreboard that it sets is waited for all the same.
                (_, sb @ 0..6) => Until::Scoreboard(sb, self.epoch[sb as usize]),
                _ if early => Until::Scoreboard(ins.read_sb, self.epoch[ins.read_sb as usize]),
                (false, _) => Until::Fixed,
                _ => Until::Queue,
            };
            let slot = d.slot.unwrap_or(0);
            let w = Write { until, pc, slot, queue: results, mask: active, clock: self.clock, seq: self.seq };
            self.written[d.reg as usize] = w;
        }
    }
}

#[cold]
fn too_early(w: &Write, reg: u16, again: bool) -> Hazard {
    let verb = if again { "overwritten" } else { "read" };
    let message = match w.until {
        Until::Scoreboard(sb, _) | Until::Either([_, (sb, _)]) => {
            format!("{} is {verb} without waiting for scoreboard {sb}", name(reg))
        }
        _ => format!("{} is {verb}, but the instruction that writes it sets no scoreboard", name(reg)),
    };
    Hazard { message, earlier: w.pc }
}
