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

/// Up to so many members a [`Gathered`] looks through one by one.
const FEW: usize = 16;

/// A set of `0..n` with its members in the order in which they came: while they are few it takes nothing that grows with `n`.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    list: Vec<u32>,
    /// All of them, once they are many.
    all: BitSet,
    n: usize,
}

impl Gathered {
    /// The empty set over `0..n`.
    pub fn new(n: usize) -> Gathered {
        Gathered { list: Vec::new(), all: BitSet::default(), n }
    }

    /// True if `i` is in the set.
    pub fn contains(&self, i: u32) -> bool {
        if self.list.len() <= FEW { self.list.contains(&i) } else { self.all.contains(i as usize) }
    }

    /// Puts `i` in, which must be below the set's bound; true if it was not there.
    pub fn insert(&mut self, i: u32) -> bool {
        if self.contains(i) {
            return false;
        }
        self.list.push(i);
        match self.list.len() {
            0..=FEW => {}
            n if n == FEW + 1 => {
                self.all = BitSet::new(self.n);
                for &i in &self.list {
                    self.all.insert(i as usize);
                }
            }
            _ => {
                self.all.insert(i as usize);
            }
        }
        true
    }

    /// The members.
    pub fn list(&self) -> &[u32] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gathered_comes_back_as_it_came() {
        let mut s = Gathered::new(100);
        let mut came = Vec::new();
        for i in (0..60).map(|i| i * 37 % 100) {
            assert_eq!((s.contains(i), s.insert(i), s.insert(i)), (false, true, false));
            came.push(i);
            assert!(came.iter().all(|&c| s.contains(c)));
        }
        assert_eq!(s.list(), came);
    }

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
