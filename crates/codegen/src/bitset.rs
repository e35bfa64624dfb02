//! A dense set of small integers.

/// A set of `0..n`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BitSet {
    words: Vec<u64>,
}

impl BitSet {
    /// The empty set over `0..n`.
    pub fn new(n: usize) -> BitSet {
        BitSet { words: vec![0; n.div_ceil(64)] }
    }

    /// True if `i` is in the set.
    pub fn contains(&self, i: usize) -> bool {
        self.words.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 != 0)
    }

    /// Puts `i` in; true if it was not there. `i` must be below the set's bound.
    pub fn insert(&mut self, i: usize) -> bool {
        let w = &mut self.words[i / 64];
        let new = *w >> (i % 64) & 1 == 0;
        *w |= 1 << (i % 64);
        new
    }

    /// Takes `i` out; true if it was there.
    pub fn remove(&mut self, i: usize) -> bool {
        let w = &mut self.words[i / 64];
        let was = *w >> (i % 64) & 1 != 0;
        *w &= !(1 << (i % 64));
        was
    }

    /// Adds everything of `other` (of the same bound); true if anything was new.
    pub fn union(&mut self, other: &BitSet) -> bool {
        let mut changed = false;
        for (a, &b) in self.words.iter_mut().zip(&other.words) {
            changed |= b & !*a != 0;
            *a |= b;
        }
        changed
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &w)| {
            let mut w = w;
            std::iter::from_fn(move || {
                if w == 0 {
                    return None;
                }
                let bit = w.trailing_zeros() as usize;
                w &= w - 1;
                Some(i * 64 + bit)
            })
        })
    }

    /// How many members.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_in_order() {
        let mut s = BitSet::new(200);
        for i in [150, 3, 64, 63] {
            assert!(s.insert(i));
            assert!(!s.insert(i));
        }
        assert_eq!(s.iter().collect::<Vec<_>>(), vec![3, 63, 64, 150]);
        assert!(s.remove(64) && !s.contains(64) && s.count() == 3);
    }
}
