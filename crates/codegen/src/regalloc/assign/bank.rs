//! The registers of one file, and free places among them.

use super::FREE;
use super::flight::Flight;
use crate::mir::alignment;
use sass::reg::File;

/// For so many instructions a register that a copy into shared memory reads is left alone, ...
pub(super) const COPY_RESTS: u32 = 48;
/// ... and one that another access to memory reads.
pub(super) const LOAD_RESTS: u32 = 6;

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
    pub(super) occ: [u32; 256],
    pub(super) cursor: usize,
    /// The instruction at hand, and by register until which one it is left alone; numbers from 1.
    pub(super) now: u32,
    pub(super) read: [u32; 256],
    /// Registers that products under way read, where there are any.
    pub(super) busy: Option<Box<Flight>>,
}

impl Bank {
    pub(super) fn free(&self, r: usize) -> bool {
        r < self.limit && self.usable[r] && self.occ[r] == FREE
    }

    pub(super) fn window_free(&self, base: usize, size: usize) -> bool {
        (base..base + size).all(|r| self.free(r))
    }

    /// True if the aligned four registers around one are all free.
    pub(super) fn open(&self, r: usize) -> bool {
        let first = r & !3;
        (first..first + 4).all(|q| self.free(q) || !self.usable[q] || q >= self.limit)
    }

    /// True if no product under way reads the register.
    pub(super) fn idle(&self, r: usize) -> bool {
        self.busy.as_ref().is_none_or(|b| b[r & 255] == 0)
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
