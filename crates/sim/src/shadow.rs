//! What is known about the bytes of shared memory beside their content: which were written, who touched them last, and
//! which an asynchronous copy is still to write. From it come the faults for uninitialised reads and for data races.
//!
//! A race is two accesses to one byte by different threads of a cluster, at least one of them a write, not both strong
//! (atomic, volatile, relaxed, acquire, release), with nothing that orders them. Order is kept as vector clocks: one a
//! warp, and within a warp one a lane. What orders: barriers of the CTA and the cluster, warp-wide instructions among
//! their lanes, and fences: what a thread did before a fence is known to whoever executes a fence or an acquire later.
//! The last is more than the memory model promises, so that a protocol is never blamed by mistake; a race behind an
//! unrelated fence may be missed. Of each word the last two writers and the last two readers are kept. A write of the
//! value that is already there is no race with another write.

use crate::copies::{Piece, land};
use crate::fault::{FaultKind, MemFault};
use rustc_hash::FxHashMap;

/// How an access touches memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// It reads.
    pub read: bool,
    /// It writes.
    pub write: bool,
    /// It is atomic, volatile, or otherwise strong.
    pub strong: bool,
}

impl Access {
    /// A plain read.
    pub const READ: Access = Access { read: true, write: false, strong: false };
    /// A plain write.
    pub const WRITE: Access = Access { read: false, write: true, strong: false };
    /// An atomic operation.
    pub const ATOMIC: Access = Access { read: true, write: true, strong: true };

    /// The same as a strong access, if so.
    pub fn strong(self, strong: bool) -> Access {
        Access { strong, ..self }
    }
}

/// Who accesses: the warp by its number in the cluster, the lane, and the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// Rank of the CTA times the warps of a CTA, plus the warp in its CTA.
    pub warp: u32,
    /// Lane.
    pub lane: u32,
    /// Instruction.
    pub pc: u32,
}

/// What is checked.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    /// Reads of bytes that were never written. (Machine code reads padding together with what it wants: there, what is
    /// read so only counts where it is used.)
    pub init: bool,
    /// Data races.
    pub races: bool,
    /// Races among the lanes of a warp, too: not for machine code, whose lanes run in step unless they diverge.
    pub lanes: bool,
}

/// A moment by which others know what a warp did: by warp, the last time known.
pub type Clock = Vec<u32>;

/// Bits of a record: mask of bytes (4), strong (1), thread (14), instruction (19), time (26).
#[derive(Clone, Copy, Default, PartialEq)]
struct Record(u64);

const PC_BITS: u32 = 19;
const LATEST: u32 = (1 << 26) - 2;

impl Record {
    fn new(mask: u8, strong: bool, who: Who, time: u32) -> Record {
        let thread = (who.warp << 5 | who.lane) as u64 & 0x3fff;
        let pc = (who.pc as u64).min((1 << PC_BITS) - 1);
        Record(mask as u64 | (strong as u64) << 4 | thread << 5 | pc << 19 | (time as u64) << 38)
    }
    fn mask(self) -> u8 {
        self.0 as u8 & 15
    }
    fn strong(self) -> bool {
        self.0 >> 4 & 1 != 0
    }
    fn who(self) -> Who {
        Who {
            warp: (self.0 >> 10) as u32 & 0x1ff,
            lane: (self.0 >> 5) as u32 & 31,
            pc: (self.0 >> 19) as u32 & ((1 << PC_BITS) - 1),
        }
    }
    fn time(self) -> u32 {
        (self.0 >> 38) as u32
    }
    /// Same thread, time and strength: one record can stand for both.
    fn alike(self, o: Record) -> bool {
        const INSTRUCTION: u64 = ((1 << PC_BITS) - 1) << 19;
        (self.0 ^ o.0) & !INSTRUCTION & !15 == 0
    }
}

/// Last writers and readers of a word; strong accesses apart, as they are no race with one another.
#[derive(Clone, Copy, Default)]
struct Word {
    /// Plain reads, plain writes, strong reads, strong writes; the last first.
    last: [[Record; 2]; 4],
}

const READS: usize = 0;
const WRITES: usize = 1;
const STRONG: usize = 2;

#[derive(Default)]
struct Bytes {
    words: Vec<Word>,
    /// By word: bytes that hold a value (low half) and bytes that a copy is to write (high half).
    state: Vec<u8>,
    /// By word: bytes that an asynchronous copy in bulk wrote last.
    by_proxy: Vec<u8>,
}

struct WarpTime {
    /// All lanes know of each other up to here.
    base: u32,
    /// By lane: up to when it knows of each other lane, where not all have met.
    lanes: Option<Box<[[u32; 32]; 32]>>,
}

/// What arrives at, and completes on, a barrier in shared memory.
#[derive(Default)]
struct Meeting {
    /// What those who arrived in this phase had done, and those of the phases before.
    arrived: Clock,
    ended: Clock,
    /// Copies that complete in this phase.
    pieces: Vec<Piece>,
    /// Copies of phases that have ended, which nobody has waited for.
    ended_pieces: Vec<Piece>,
}

/// The shadow of the shared memory of a cluster.
pub struct Shadow {
    checks: Checks,
    memory: Vec<Bytes>,
    warps: Vec<WarpTime>,
    /// By warp, by warp: up to when the first knows of the second.
    seen: Vec<Clock>,
    fenced: Clock,
    /// By warp: the time of its last fence between plain and asynchronous accesses.
    proxied: Clock,
    /// By place: the barriers in shared memory.
    meetings: FxHashMap<(usize, usize), Meeting>,
    /// Tensor maps that the kernel has changed.
    maps: crate::tensormap::Changes,
    now: u32,
    used: bool,
    /// By rank: the CTAs of which all threads have exited.
    ended: u32,
}

impl Shadow {
    /// For `ctas` CTAs of `warps` warps with `bytes` of shared memory each.
    pub fn new(ctas: usize, warps: usize, bytes: usize, checks: Checks) -> Shadow {
        let words = bytes.div_ceil(4);
        let n = ctas * warps;
        let one = || Bytes {
            words: if checks.races { vec![Word::default(); words] } else { Vec::new() },
            state: vec![0; words],
            by_proxy: vec![0; words],
        };
        Shadow {
            // More threads than a record can hold: no cluster has them.
            checks: Checks { races: checks.races && n <= 512, ..checks },
            memory: (0..ctas).map(|_| one()).collect(),
            warps: (0..n).map(|_| WarpTime { base: 0, lanes: None }).collect(),
            seen: vec![vec![0; n]; n],
            fenced: vec![0; n],
            proxied: vec![0; n],
            meetings: FxHashMap::default(),
            maps: Default::default(),
            now: 1,
            used: false,
            ended: 0,
        }
    }

    /// An access to `size` bytes at `at` of the memory of CTA `rank`, which lie inside. `same`: a write that changes nothing.
    ///
    /// # Errors
    /// The first thing wrong with it; for a race with who came before.
    #[inline]
    pub fn access(
        &mut self,
        (rank, at): (usize, usize),
        size: u32,
        how: Access,
        same: bool,
        who: Who,
    ) -> Result<(), MemFault> {
        if self.ended >> rank & 1 != 0 {
            let message = format!("the shared memory of the CTA of rank {rank}, which has ended");
            return Err(MemFault::new(FaultKind::OutOfBounds, message));
        }
        let (mut word, mut shift, mut left) = (at / 4, at % 4, size as usize);
        while left > 0 {
            let n = left.min(4 - shift);
            let mask = ((1u32 << n) - 1) << shift;
            self.word((rank, word), mask as u8, how, same, who)?;
            (word, shift, left) = (word + 1, 0, left - n);
        }
        Ok(())
    }

    #[inline]
    fn word(
        &mut self,
        (rank, word): (usize, usize),
        mask: u8,
        how: Access,
        same: bool,
        who: Who,
    ) -> Result<(), MemFault> {
        let m = &mut self.memory[rank];
        let state = &mut m.state[word];
        if *state >> 4 & mask != 0 {
            let message = format!(
                "shared memory at {:#x} is accessed before the asynchronous copy to it was waited for",
                4 * word
            );
            let earlier = m.words.get(word).map(|w| w.last[WRITES][0].who());
            return Err(MemFault { kind: FaultKind::Race, message, earlier });
        }
        let missing = mask & !*state;
        if missing != 0 {
            if how.read && self.checks.init {
                let at = 4 * word + missing.trailing_zeros() as usize;
                let message = format!("shared memory is read at byte {at} of the CTA's, which was never written");
                return Err(MemFault::new(FaultKind::Uninitialized, message));
            }
            if how.write {
                *state |= mask;
            }
        }
        if how.write {
            m.by_proxy[word] &= !mask;
        }
        if !self.checks.races {
            return Ok(());
        }
        let record = Record::new(mask, how.strong, who, self.now);
        let w = m.words[word];
        let kind = how.write as usize + STRONG * how.strong as usize;
        if w.last[kind][0] == record {
            return Ok(());
        }
        let find = |kind: usize| w.last[kind].iter().find(|&&r| self.conflict(r, record));
        if !(how.write && same)
            && let Some(r) = find(WRITES).or_else(|| find(STRONG + WRITES))
        {
            return Err(race(*r, how, "wrote", 4 * word));
        }
        if how.write
            && let Some(r) = find(READS).or_else(|| find(STRONG + READS))
        {
            return Err(race(*r, how, "read", 4 * word));
        }
        self.used = true;
        let list = &mut self.memory[rank].words[word].last[kind];
        if list[0].alike(record) {
            list[0] = Record(record.0 | list[0].0 & 15);
        } else {
            // Another thread's record stays beside it; an older one of the same bytes and thread goes.
            if list[0].mask() & !mask != 0 || list[0].who().warp != who.warp || list[0].who().lane != who.lane {
                list[1] = list[0];
            }
            list[0] = record;
        }
        Ok(())
    }

    /// Who wrote a byte last, where that is known.
    pub fn writer(&self, (rank, at): (usize, usize)) -> Option<Who> {
        let w = self.memory[rank].words.get(at / 4)?;
        let hits = |r: &&Record| r.mask() >> (at % 4) & 1 != 0;
        w.last[WRITES].iter().chain(&w.last[STRONG + WRITES]).filter(hits).max_by_key(|r| r.time()).map(|r| r.who())
    }

    /// True if all these bytes hold a value.
    #[inline]
    pub fn written(&self, (rank, at): (usize, usize), size: u32) -> bool {
        let state = &self.memory[rank].state;
        (at..at + size as usize).all(|byte| state[byte / 4] >> (byte % 4) & 1 != 0)
    }

    #[inline]
    fn conflict(&self, r: Record, now: Record) -> bool {
        if r.mask() & now.mask() == 0 || r.strong() && now.strong() {
            return false;
        }
        let (a, b) = (r.who(), now.who());
        if a.warp == b.warp {
            if a.lane == b.lane || !self.checks.lanes {
                return false;
            }
            let w = &self.warps[a.warp as usize];
            return r.time() > w.base
                && w.lanes.as_ref().is_none_or(|l| r.time() > l[b.lane as usize][a.lane as usize]);
        }
        r.time() > self.seen[b.warp as usize][a.warp as usize]
    }

    /// A warp changes the tensor map at an address; `released` where the instruction releases it, too.
    pub fn map_changed(&mut self, at: u64, by: Who, released: bool) {
        self.maps.changed(at, by, released);
    }

    /// A warp releases the tensor maps that it has changed.
    pub fn map_release(&mut self, warp: u32) {
        self.maps.release(warp);
    }

    /// A warp acquires the tensor map at an address.
    pub fn map_acquire(&mut self, at: u64, warp: u32) {
        self.used = true;
        self.maps.acquire(at, warp, self.now);
    }

    /// A copy of a warp uses the tensor map at an address.
    ///
    /// # Errors
    /// It was changed, and a fence is missing.
    pub fn map_used(&self, at: u64, warp: u32) -> Result<(), MemFault> {
        self.maps.used(at, warp, |other, time| self.seen[warp as usize][other as usize] >= time)
    }

    /// The moment up to which everything has happened so far; what follows is later.
    fn moment(&mut self) -> u32 {
        if std::mem::take(&mut self.used) {
            self.now += 1;
            self.checks.races &= self.now < LATEST;
        }
        self.now - 1
    }

    /// Lanes of a warp met in a warp-wide instruction.
    pub fn meet(&mut self, warp: u32, lanes: u32, alive: u32) {
        let now = self.moment();
        let w = &mut self.warps[warp as usize];
        if lanes == alive {
            (w.base, w.lanes) = (now, None);
        } else {
            let table = w.lanes.get_or_insert_with(|| Box::new([[0; 32]; 32]));
            let members = || (0..32).filter(|i| lanes >> i & 1 != 0);
            let mut all = [0; 32];
            for i in members() {
                for (to, &from) in all.iter_mut().zip(&table[i]) {
                    *to = from.max(*to);
                }
            }
            members().for_each(|i| all[i] = now);
            members().for_each(|i| table[i] = all);
        }
    }

    /// A load that waits in a loop for its word to change: the word is a flag from now on, which is no race, and what was
    /// fenced by others is known.
    pub fn poll(&mut self, (rank, at): (usize, usize), warp: u32) {
        if let Some(w) = self.memory[rank].words.get_mut(at / 4) {
            *w = Word::default();
        }
        self.take(warp);
    }

    /// What a warp did so far goes into a clock, which another may [`acquire`](Shadow::acquire).
    pub fn release(&mut self, warp: u32, into: &mut Clock) {
        let now = self.moment();
        let seen = &self.seen[warp as usize];
        into.resize(seen.len(), 0);
        into.iter_mut().zip(seen).for_each(|(to, &from)| *to = from.max(*to));
        into[warp as usize] = now;
    }

    /// A warp knows from now on what a clock holds.
    pub fn acquire(&mut self, warp: u32, from: &Clock) {
        self.seen[warp as usize].iter_mut().zip(from).for_each(|(to, &from)| *to = from.max(*to));
        let w = &mut self.warps[warp as usize];
        (w.base, w.lanes) = (from.get(warp as usize).map_or(w.base, |&t| t.max(w.base)), None);
    }

    /// A fence, or a release and acquire: orders with all others.
    pub fn fence(&mut self, warp: u32) {
        let mut fenced = std::mem::take(&mut self.fenced);
        self.release(warp, &mut fenced);
        self.acquire(warp, &fenced);
        self.fenced = fenced;
    }

    /// A load with acquire semantics: what was fenced by others is known.
    pub fn take(&mut self, warp: u32) {
        let fenced = std::mem::take(&mut self.fenced);
        self.acquire(warp, &fenced);
        self.fenced = fenced;
    }

    /// A warp arrives at the barrier in shared memory at a place.
    pub fn arrive(&mut self, place: (usize, usize), warp: u32) {
        let mut clock = std::mem::take(&mut self.meetings.entry(place).or_default().arrived);
        self.release(warp, &mut clock);
        self.meetings.entry(place).or_default().arrived = clock;
    }

    /// A copy completes in the phase of a barrier that runs.
    pub fn complete_on(&mut self, place: (usize, usize), piece: Piece) {
        self.meetings.entry(place).or_default().pieces.push(piece);
    }

    /// The phase of a barrier ends: its copies are done for whoever waits for it.
    pub fn phase_ends(&mut self, place: (usize, usize)) {
        let m = self.meetings.entry(place).or_default();
        m.ended_pieces.append(&mut m.pieces);
        m.ended = std::mem::take(&mut m.arrived);
    }

    /// A warp has found a phase ended: the copies have landed, and it knows of them.
    ///
    /// # Errors
    /// A race of what landed with an access in between.
    pub fn pass(&mut self, place: (usize, usize), warp: u32) -> Result<(), MemFault> {
        let Some(m) = self.meetings.get_mut(&place) else { return Ok(()) };
        let (mut clock, pieces) = (std::mem::take(&mut m.ended), std::mem::take(&mut m.ended_pieces));
        for &piece in &pieces {
            land(self, piece)?;
        }
        if !pieces.is_empty() {
            let now = self.moment();
            clock.resize(self.seen.len(), 0);
            pieces.iter().for_each(|p| clock[p.who.warp as usize] = now);
        }
        self.acquire(warp, &clock);
        self.meetings.entry(place).or_default().ended = clock;
        Ok(())
    }

    /// All threads of a CTA have exited: its shared memory is no more.
    pub fn end(&mut self, rank: usize) {
        self.ended |= 1 << rank;
    }

    /// `fence.proxy.async`: what was written so far may be read by asynchronous copies.
    pub fn proxy_fence(&mut self, warp: u32) {
        self.proxied[warp as usize] = self.moment();
    }

    /// An asynchronous copy that `warp` asks for reads bytes.
    ///
    /// # Errors
    /// They were written by a thread, and no fence between the proxies came after.
    pub fn proxy_reads(&self, (rank, at): (usize, usize), size: u32, warp: u32) -> Result<(), MemFault> {
        let words = self.memory[rank].words.get(at / 4..(at + size as usize).div_ceil(4)).unwrap_or_default();
        for (n, w) in words.iter().enumerate() {
            let late = |r: &&Record| {
                let fence = self.proxied[r.who().warp as usize].max(self.proxied[warp as usize]);
                r.mask() & !self.memory[rank].by_proxy[at / 4 + n] != 0 && r.time() > fence
            };
            if let Some(r) = w.last[WRITES].iter().chain(&w.last[STRONG + WRITES]).find(late) {
                let message = format!(
                    "an asynchronous copy reads shared memory (word at {:#x} of the CTA's) that a thread wrote, without fence.proxy.async in between",
                    4 * (at / 4 + n)
                );
                return Err(MemFault { kind: FaultKind::Race, message, earlier: Some(r.who()) });
            }
        }
        Ok(())
    }

    /// An asynchronous copy of a thread is under way to these bytes: it counts as a write now, and nobody may touch them
    /// until it is [`landed`](Shadow::landed).
    ///
    /// # Errors
    /// A race with an earlier access.
    pub fn start(&mut self, (rank, at): (usize, usize), size: u32, who: Who) -> Result<(), MemFault> {
        self.access((rank, at), size, Access::WRITE, false, who)?;
        self.mark((rank, at), size, |state, mask| *state |= mask << 4);
        Ok(())
    }

    /// The copy that started to these bytes is one in bulk: others of the kind may read them without a fence in between.
    pub fn started_by_proxy(&mut self, (rank, at): (usize, usize), size: u32) {
        for byte in at..at + size as usize {
            self.memory[rank].by_proxy[byte / 4] |= 1 << (byte % 4);
        }
    }

    /// The copy to these bytes is done: they count as written now.
    ///
    /// # Errors
    /// A race with an access in between.
    pub fn landed(&mut self, (rank, at): (usize, usize), size: u32, who: Who) -> Result<(), MemFault> {
        self.mark((rank, at), size, |state, mask| *state &= !(mask << 4));
        let words = at / 4..(at + size as usize).div_ceil(4);
        let kind = self.memory[rank].by_proxy[words.clone()].to_vec();
        self.access((rank, at), size, Access::WRITE, true, who)?;
        self.memory[rank].by_proxy[words].copy_from_slice(&kind);
        Ok(())
    }

    fn mark(&mut self, (rank, at): (usize, usize), size: u32, f: impl Fn(&mut u8, u8)) {
        for byte in at..at + size as usize {
            f(&mut self.memory[rank].state[byte / 4], 1 << (byte % 4));
        }
    }
}

#[cold]
fn race(earlier: Record, how: Access, did: &str, at: usize) -> MemFault {
    let does = if how.write { "writes" } else { "reads" };
    let message = format!(
        "the thread {does} shared memory (word at {at:#x} of the CTA's) that another {did} before, and nothing orders the two"
    );
    MemFault { kind: FaultKind::Race, message, earlier: Some(earlier.who()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Checks = Checks { init: true, races: true, lanes: true };

    fn who(warp: u32, lane: u32) -> Who {
        Who { warp, lane, pc: 7 }
    }

    #[test]
    fn records_hold_what_they_are_given() {
        let w = Who { warp: 511, lane: 31, pc: 5 };
        let r = Record::new(0b1010, true, w, LATEST);
        assert_eq!((r.mask(), r.strong(), r.who(), r.time()), (0b1010, true, w, LATEST));
        assert_eq!(Record::new(1, false, Who { pc: u32::MAX, ..w }, 0).who().pc, (1 << PC_BITS) - 1);
    }

    #[test]
    fn unwritten_bytes() {
        let mut s = Shadow::new(1, 1, 10, ALL);
        s.access((0, 3), 3, Access::WRITE, false, who(0, 0)).unwrap();
        assert!(s.access((0, 3), 3, Access::READ, false, who(0, 0)).is_ok());
        for at in [2, 4] {
            assert_eq!(
                s.access((0, at), 3, Access::READ, false, who(0, 0)).unwrap_err().kind,
                FaultKind::Uninitialized
            );
        }
        assert!(s.access((0, 8), 2, Access::ATOMIC, false, who(0, 0)).is_err());
    }

    #[test]
    fn warps_are_ordered_by_barriers() {
        let mut s = Shadow::new(1, 2, 64, ALL);
        s.access((0, 0), 4, Access::WRITE, false, who(0, 0)).unwrap();
        let f = s.access((0, 2), 1, Access::READ, false, who(1, 0)).unwrap_err();
        assert_eq!((f.kind, f.earlier), (FaultKind::Race, Some(who(0, 0))));
        let mut clock = Clock::new();
        s.release(0, &mut clock);
        s.release(0, &mut clock);
        // After its arrival a warp may go on, and what it does then is not covered.
        s.access((0, 8), 4, Access::WRITE, false, who(0, 3)).unwrap();
        s.release(1, &mut clock);
        s.acquire(1, &clock);
        assert!(s.access((0, 0), 4, Access::READ, false, who(1, 0)).is_ok());
        assert!(s.access((0, 8), 4, Access::READ, false, who(1, 0)).is_err());
        // Reading does not order: the first warp must not write again.
        assert!(s.access((0, 0), 4, Access::WRITE, false, who(0, 0)).is_err());
    }

    #[test]
    fn lanes_are_ordered_by_meetings_of_theirs_and_through_others() {
        let mut s = Shadow::new(1, 1, 64, ALL);
        s.access((0, 0), 4, Access::WRITE, false, who(0, 0)).unwrap();
        assert!(s.access((0, 0), 4, Access::READ, false, who(0, 1)).is_err());
        s.meet(0, 0b0101, u32::MAX);
        assert!(s.access((0, 0), 4, Access::READ, false, who(0, 2)).is_ok());
        assert!(s.access((0, 0), 4, Access::READ, false, who(0, 1)).is_err());
        s.meet(0, 0b0110, u32::MAX);
        assert!(s.access((0, 0), 4, Access::READ, false, who(0, 1)).is_ok());
        assert!(s.access((0, 0), 4, Access::READ, false, who(0, 3)).is_err());
        s.meet(0, u32::MAX, u32::MAX);
        assert!(s.access((0, 0), 4, Access::WRITE, false, who(0, 3)).is_ok());
        let mut machine = Shadow::new(1, 1, 64, Checks { lanes: false, ..ALL });
        machine.access((0, 0), 4, Access::WRITE, false, who(0, 0)).unwrap();
        assert!(machine.access((0, 0), 4, Access::READ, false, who(0, 1)).is_ok());
    }

    #[test]
    fn strong_and_equal_writes_are_no_races() {
        let mut s = Shadow::new(1, 2, 64, Checks { init: false, ..ALL });
        s.access((0, 0), 4, Access::ATOMIC, false, who(0, 0)).unwrap();
        assert!(s.access((0, 0), 4, Access::ATOMIC, false, who(1, 0)).is_ok());
        assert!(s.access((0, 0), 4, Access::READ, false, who(1, 0)).is_err());
        s.access((0, 4), 4, Access::WRITE, false, who(0, 0)).unwrap();
        assert!(s.access((0, 4), 4, Access::WRITE, true, who(1, 0)).is_ok());
        assert!(s.access((0, 4), 4, Access::WRITE, false, who(0, 0)).is_err());
        // Strong writes do not hide the plain one before them.
        s.access((0, 16), 4, Access::WRITE, false, who(0, 0)).unwrap();
        for _ in 0..4 {
            s.access((0, 16), 4, Access::ATOMIC, false, who(0, 0)).unwrap();
        }
        assert!(s.access((0, 16), 4, Access::ATOMIC, false, who(1, 0)).is_err());
        // A flag behind a fence.
        s.access((0, 8), 4, Access::WRITE, false, who(0, 0)).unwrap();
        s.fence(0);
        assert!(s.access((0, 8), 4, Access::READ, false, who(1, 0)).is_err());
        s.take(1);
        assert!(s.access((0, 8), 4, Access::READ, false, who(1, 0)).is_ok());
    }

    #[test]
    fn both_readers_of_a_word_are_remembered() {
        let mut s = Shadow::new(1, 3, 64, Checks { init: false, ..ALL });
        s.access((0, 0), 4, Access::READ, false, who(0, 0)).unwrap();
        s.access((0, 0), 4, Access::READ, false, who(1, 0)).unwrap();
        assert_eq!(s.access((0, 0), 4, Access::WRITE, false, who(1, 0)).unwrap_err().earlier, Some(who(0, 0)));
    }

    #[test]
    fn copies_under_way() {
        let mut s = Shadow::new(1, 1, 64, ALL);
        s.start((0, 16), 16, who(0, 0)).unwrap();
        assert!(s.access((0, 20), 4, Access::READ, false, who(0, 0)).is_err());
        s.landed((0, 16), 16, who(0, 0)).unwrap();
        assert!(s.access((0, 20), 4, Access::READ, false, who(0, 0)).is_ok());
    }
}
