//! The registers of one file: sets of bits.

use crate::mir::alignment;

/// A set of registers of a file.
type Set = [u64; 4];

/// The registers of a file.
pub(super) struct Bank {
    /// Those that nothing lies in.
    free: Set,
    /// Those that are kept for a vector and hold nothing yet. They are not free.
    held: Set,
    /// Behind the last one that was ever taken.
    high: usize,
    /// Where the next short-lived value is looked for.
    cursor: usize,
}

/// The first bit from `from` on and before `to`.
fn first(set: &Set, from: usize, to: usize) -> Option<usize> {
    let mut at = from;
    while at < to {
        let rest = set[at / 64] >> (at % 64);
        if rest != 0 {
            let r = at + rest.trailing_zeros() as usize;
            return (r < to).then_some(r);
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

impl Bank {
    /// The registers in `range`.
    pub(super) fn new(range: std::ops::Range<usize>) -> Bank {
        let mut bank = Bank { free: [0; 4], held: [0; 4], high: 0, cursor: 0 };
        range.for_each(|r| bank.release(r));
        bank
    }

    /// Without these registers.
    pub(super) fn without(mut self, these: impl Fn(usize) -> bool) -> Bank {
        (0..256).filter(|&r| these(r)).for_each(|r| self.free[r / 64] &= !(1 << (r % 64)));
        self
    }

    /// How many there are, when none is taken.
    pub(super) fn count(&self) -> u32 {
        self.free.iter().map(|w| w.count_ones()).sum()
    }

    #[inline]
    pub(super) fn is_free(&self, r: usize) -> bool {
        self.free[r / 64 % 4] >> (r % 64) & 1 != 0
    }

    /// True for one that is kept for a vector and empty.
    #[inline]
    pub(super) fn is_held(&self, r: usize) -> bool {
        self.held[r / 64 % 4] >> (r % 64) & 1 != 0
    }

    /// Takes a register, free or held.
    #[inline]
    pub(super) fn take(&mut self, r: usize) {
        let bit = 1 << (r % 64);
        self.free[r / 64 % 4] &= !bit;
        self.held[r / 64 % 4] &= !bit;
        self.high = self.high.max(r + 1);
    }

    /// Keeps a free register for a vector.
    pub(super) fn hold(&mut self, r: usize) {
        self.take(r);
        self.held[r / 64 % 4] |= 1 << (r % 64);
    }

    /// Gives a register back. Once or more often.
    #[inline]
    pub(super) fn release(&mut self, r: usize) {
        let bit = 1 << (r % 64);
        self.free[r / 64 % 4] |= bit;
        self.held[r / 64 % 4] &= !bit;
    }

    /// A free register. What lasts lies low, so that there is a place for vectors; the others go around, so that what was just read is not
    /// written at once.
    pub(super) fn pick(&self, lasts: bool) -> Option<usize> {
        if !lasts && let Some(r) = first(&self.free, self.cursor, self.high) {
            return Some(r);
        }
        first(&self.free, 0, 256)
    }

    /// Goes on behind this one.
    pub(super) fn pass(&mut self, r: usize) {
        self.cursor = r;
    }

    /// An aligned free place of so many, 16 at most.
    pub(super) fn window(&self, size: usize) -> Option<usize> {
        let align = alignment(size);
        let starts = match align {
            1 => u64::MAX,
            2 => 0x5555_5555_5555_5555,
            4 => 0x1111_1111_1111_1111,
            8 => 0x0101_0101_0101_0101,
            _ => 0x0001_0001_0001_0001,
        };
        let mut bases = self.free;
        for w in &mut bases {
            let free = *w;
            *w &= starts;
            (1..size).for_each(|n| *w &= free >> n);
        }
        let end = self.high.saturating_sub(size - 1);
        first(&bases, self.cursor, end).or_else(|| first(&bases, 0, 256))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_aligned_and_free() {
        let mut b = Bank::new(0..24).without(|r| r == 1);
        assert_eq!(b.count(), 23);
        assert_eq!((b.window(1), b.window(2), b.window(3), b.window(4)), (Some(0), Some(2), Some(4), Some(4)));
        b.take(9);
        assert_eq!((b.window(8), b.window(16)), (Some(16), None));
        b.hold(4);
        assert!(b.is_held(4) && !b.is_free(4));
        assert_eq!(b.window(4), Some(12));
        b.release(4);
        assert!(!b.is_held(4) && b.window(4) == Some(4));
    }

    #[test]
    fn what_lasts_lies_low() {
        let mut b = Bank::new(0..8).without(|r| r == 1);
        for r in [0, 2, 3] {
            assert_eq!(b.pick(true), Some(r));
            b.take(r);
        }
        b.release(0);
        b.release(3);
        b.pass(1);
        assert_eq!((b.pick(false), b.pick(true)), (Some(3), Some(0)));
    }
}
