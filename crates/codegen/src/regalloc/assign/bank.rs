//! The registers of one file, and free places among them.

use super::FREE;
use super::flight::Flight;
use crate::mir::alignment;
use sass::reg::File;

/// For so many instructions a register that a copy into shared memory reads is left alone, ...
pub(super) const COPY_RESTS: u32 = 48;
/// ... and one that another access to memory reads.
pub(super) const LOAD_RESTS: u32 = 6;
/// One that something slow reads, as another slow one would have to wait for that.
pub(super) const SLOW_RESTS: u32 = 4;

/// The registers of one file.
pub(super) struct Bank {
    pub(super) file: File,
    pub(super) usable: [bool; 256],
    /// Exclusive bound of the registers that are tried first; it grows where they do not suffice.
    pub(super) budget: usize,
    pub(super) limit: usize,
    /// Exclusive bound of those that should be taken in this block ([`crate::registers::bounds`]).
    pub(super) block: usize,
    /// As `block`, where threads change the number of their registers.
    pub(super) few: Option<usize>,
    /// The limit wherever threads do not have fewer registers.
    pub(super) most: usize,
    /// What lies in each, to be changed by [`Bank::put`].
    pub(super) occ: [u32; 256],
    /// Those that may be assigned and are [`FREE`], and those that may be assigned; a bit each.
    pub(super) empty: Set,
    pub(super) all: Set,
    pub(super) cursor: usize,
    /// The instruction at hand, and by register until which one it is left alone; numbers from 1.
    pub(super) now: u32,
    pub(super) read: [u32; 256],
    /// Registers that products under way read, where there are any.
    pub(super) busy: Option<Box<Flight>>,
    /// Registers that products under way write, where there are any, in blocks that have been seen.
    pub(super) sums: Option<Box<Flight>>,
    /// Registers that a loop keeps for what its products will read: what is moved goes elsewhere, if it can.
    pub(super) kept: Set,
}

/// A set of registers of a file.
pub(super) type Set = [u64; 4];

/// The registers for which a bit is set, those from `first` on and below `bound`.
pub(super) fn members(set: &Set, first: usize, bound: usize) -> impl Iterator<Item = usize> {
    let set = *set;
    let mut at = first;
    std::iter::from_fn(move || {
        while at < bound.min(256) {
            let rest = set[at / 64] >> (at % 64);
            if rest != 0 {
                let r = at + rest.trailing_zeros() as usize;
                at = r + 1;
                return (r < bound).then_some(r);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    })
}

impl Bank {
    pub(super) fn new(file: File, usable: [bool; 256], budget: usize, limit: usize) -> Bank {
        let mut all = [0; 4];
        usable.iter().enumerate().filter(|u| *u.1).for_each(|(r, _)| all[r / 64] |= 1 << (r % 64));
        Bank {
            file,
            usable,
            budget,
            limit,
            block: budget,
            few: None,
            most: limit,
            occ: [FREE; 256],
            empty: all,
            all,
            cursor: 0,
            now: 0,
            read: [0; 256],
            busy: None,
            sums: None,
            kept: [0; 4],
        }
    }

    /// Empties all registers, for a block that begins.
    pub(super) fn clear(&mut self) {
        self.occ = [FREE; 256];
        self.empty = self.all;
        self.block = self.budget;
        self.now = 0;
        self.read = [0; 256];
        self.kept = [0; 4];
    }

    /// Puts a value, or [`FREE`], or [`super::HELD`], into a register.
    #[inline]
    pub(super) fn put(&mut self, r: usize, what: u32) {
        self.occ[r] = what;
        let bit = 1 << (r % 64);
        let word = &mut self.empty[r / 64];
        *word = if what == FREE { *word | self.all[r / 64] & bit } else { *word & !bit };
    }

    /// As [`Bank::put`], for some in a row.
    pub(super) fn fill(&mut self, range: std::ops::Range<usize>, what: u32) {
        range.for_each(|r| self.put(r, what));
    }

    #[inline]
    pub(super) fn free(&self, r: usize) -> bool {
        r < self.limit && self.empty[r / 64] >> (r % 64) & 1 != 0
    }

    pub(super) fn window_free(&self, base: usize, size: usize) -> bool {
        let (word, from) = (base / 64, base % 64);
        if from + size <= 64 && base + size <= self.limit && size < 64 {
            let wanted = (1u64 << size) - 1;
            return self.empty[word] >> from & wanted == wanted;
        }
        (base..base + size).all(|r| self.free(r))
    }

    /// True if the aligned four registers around one are all free.
    pub(super) fn open(&self, r: usize) -> bool {
        let first = r & !3;
        let taken = (self.all[r / 64] & !self.empty[r / 64]) >> (first % 64) & 15;
        let there = if first + 4 <= self.limit { 15 } else { (1 << self.limit.saturating_sub(first)) - 1 };
        taken & there == 0
    }

    /// True if no product under way reads the register.
    pub(super) fn idle(&self, r: usize) -> bool {
        self.busy.as_ref().is_none_or(|b| b[r & 255] == 0)
    }

    /// True if no product under way writes the register.
    pub(super) fn landed(&self, r: usize) -> bool {
        self.sums.as_ref().is_none_or(|s| s[r & 255] == 0)
    }

    /// True if no product under way reads the register, and none of a loop will.
    pub(super) fn spare(&self, r: usize) -> bool {
        self.idle(r) && self.kept[(r & 255) / 64] >> (r % 64) & 1 == 0
    }

    /// True if nothing has to wait before the register is written.
    pub(super) fn rested(&self, r: usize) -> bool {
        self.read[r] == 0 || self.read[r] < self.now
    }
}

/// A free aligned window without registers that are `taken`; `far`: after the cursor, so that neighbours do not take it at once.
pub(super) fn find_window(bank: &mut Bank, size: usize, far: bool, taken: impl Fn(usize) -> bool) -> Option<usize> {
    let idle = match &bank.busy {
        Some(busy) => {
            let busy = busy.clone();
            window(bank, size, far, |r| taken(r) || busy[r & 255] != 0)
        }
        None => None,
    };
    idle.or_else(|| window(bank, size, far, taken))
}

fn window(bank: &mut Bank, size: usize, far: bool, taken: impl Fn(usize) -> bool) -> Option<usize> {
    let align = alignment(size);
    let few = bank.few.filter(|&n| n < bank.budget);
    let limit = bank.limit;
    for bound in few.into_iter().chain([bank.budget, limit]).map(|b| b.min(limit)) {
        let windows = bound.div_ceil(align);
        let round = bound == bank.budget.min(bank.limit);
        let first = if round { bank.cursor.div_ceil(align) } else { 0 };
        for step in 0..if round { 2 * windows } else { windows } {
            let base = (first + step) % windows * align;
            let place = base..base + size;
            // Once around for those that nothing has to wait for, where there is a choice.
            let waits = || round && step < windows && !place.clone().all(|r| bank.rested(r));
            if place.end <= bound && bank.window_free(base, size) && !place.clone().any(&taken) && !waits() {
                if !far {
                    bank.cursor = (base + size) % bound.max(1);
                }
                return Some(base);
            }
        }
    }
    None
}
