//! Pairs of numbers, brought together by their first: a sort whose work is as much as there are numbers and pairs.

/// The second numbers of pairs, by the first.
pub struct Groups {
    /// Where those of each first number begin, and where the last end.
    from: Vec<u32>,
    list: Vec<u32>,
}

impl Groups {
    /// Of pairs whose first numbers are below `n`. What has the same first number keeps its order.
    pub fn new(n: usize, pairs: &[(u32, u32)]) -> Groups {
        let mut from = vec![0; n + 1];
        pairs.iter().for_each(|p| from[p.0 as usize] += 1);
        let mut sum = 0;
        for at in &mut from {
            sum += std::mem::replace(at, sum);
        }
        let mut list = vec![0; pairs.len()];
        for &(first, second) in pairs {
            let at = &mut from[first as usize];
            list[*at as usize] = second;
            *at += 1;
        }
        // Each has become the beginning of the next one.
        from.copy_within(0..n, 1);
        from[0] = 0;
        Groups { from, list }
    }

    /// The numbers that stand with this one.
    pub fn of(&self, first: u32) -> &[u32] {
        let first = first as usize;
        &self.list[self.from[first] as usize..self.from[first + 1] as usize]
    }

    /// All pairs, in the order of their first numbers.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let firsts = 0..self.from.len() as u32 - 1;
        firsts.flat_map(|first| self.of(first).iter().map(move |&second| (first, second)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_together_in_their_order() {
        let pairs = [(3, 7), (0, 9), (3, 1), (1, 4), (3, 7)];
        let groups = Groups::new(5, &pairs);
        assert_eq!(
            [groups.of(0), groups.of(1), groups.of(2), groups.of(3), groups.of(4)],
            [&[9][..], &[4], &[], &[7, 1, 7], &[]]
        );
        assert_eq!(groups.pairs().collect::<Vec<_>>(), [(0, 9), (1, 4), (3, 7), (3, 1), (3, 7)]);
        assert_eq!(Groups::new(0, &[]).pairs().count(), 0);
    }
}
