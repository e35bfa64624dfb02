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
    /// Those of chains of sums that have begun: they are held when nothing lies in them.
    homes: Set,
    /// Those of chains that begin later: not for what lives until then.
    later: Set,
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
        let mut bank = Bank { free: [0; 4], held: [0; 4], homes: [0; 4], later: [0; 4], high: 0, cursor: 0 };
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
        let home = self.homes[r / 64 % 4] & bit;
        self.free[r / 64 % 4] |= bit & !home;
        self.held[r / 64 % 4] = self.held[r / 64 % 4] & !bit | home;
    }

    /// These registers are a chain's from now on, or no longer.
    pub(super) fn settle(&mut self, range: std::ops::Range<usize>, begins: bool) {
        for r in range {
            let (word, bit) = (r / 64 % 4, 1 << (r % 64));
            if begins {
                self.homes[word] |= bit;
                if self.free[word] & bit != 0 {
                    self.hold(r);
                }
            } else {
                self.homes[word] &= !bit;
                if self.held[word] & bit != 0 {
                    self.release(r);
                }
            }
        }
    }

    /// These registers are those of chains that begin later.
    pub(super) fn awaits(&mut self, ranges: impl Iterator<Item = std::ops::Range<usize>>) {
        self.later = [0; 4];
        ranges.flatten().for_each(|r| self.later[r / 64 % 4] |= 1 << (r % 64));
    }

    /// True for a register of a chain that begins later.
    pub(super) fn is_awaited(&self, r: usize) -> bool {
        self.later[r / 64 % 4] >> (r % 64) & 1 != 0
    }

    /// The free registers, those of later chains only where `all`.
    fn choice(&self, all: bool) -> Set {
        let mut set = self.free;
        if !all {
            set.iter_mut().zip(&self.later).for_each(|(s, l)| *s &= !l);
        }
        set
    }

    /// A free register. What lasts lies low, so that there is a place for vectors; the others go around, so that what was just read is not
    /// written at once. Those of later chains are for what ends before them (`all`).
    pub(super) fn pick(&self, lasts: bool, all: bool) -> Option<usize> {
        let free = self.choice(all);
        if !lasts && let Some(r) = first(&free, self.cursor, self.high) {
            return Some(r);
        }
        first(&free, 0, 256)
    }

    /// Goes on behind this one.
    pub(super) fn pass(&mut self, r: usize) {
        self.cursor = r;
    }

    /// An aligned free place of so many; where registers of later chains are not to be in it, `all` is false.
    pub(super) fn window(&self, size: usize, all: bool) -> Option<usize> {
        let free = self.choice(all);
        let align = alignment(size);
        if size > 16 {
            let last = 256usize.saturating_sub(size);
            let is = |r: usize| free[r / 64] >> (r % 64) & 1 != 0;
            return (0..=last).step_by(align).find(|&base| (base..base + size).all(is));
        }
        let starts = match align {
            1 => u64::MAX,
            2 => 0x5555_5555_5555_5555,
            4 => 0x1111_1111_1111_1111,
            8 => 0x0101_0101_0101_0101,
            _ => 0x0001_0001_0001_0001,
        };
        let mut bases = free;
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
        assert_eq!(
            (b.window(1, true), b.window(2, true), b.window(3, true), b.window(4, true)),
            (Some(0), Some(2), Some(4), Some(4))
        );
        b.take(9);
        assert_eq!((b.window(8, true), b.window(16, true)), (Some(16), None));
        b.hold(4);
        assert!(b.is_held(4) && !b.is_free(4));
        assert_eq!(b.window(4, true), Some(12));
        b.release(4);
        assert!(!b.is_held(4) && b.window(4, true) == Some(4));
    }

    #[test]
    fn what_lasts_lies_low() {
        let mut b = Bank::new(0..8).without(|r| r == 1);
        for r in [0, 2, 3] {
            assert_eq!(b.pick(true, true), Some(r));
            b.take(r);
        }
        b.release(0);
        b.release(3);
        b.pass(1);
        assert_eq!((b.pick(false, true), b.pick(true, true)), (Some(3), Some(0)));
    }
}
