//! A list in place: operands and modifiers of an instruction, without the heap.

use std::ops::{Deref, DerefMut};

/// A list of at most `N` (255 or fewer) elements that lies where it stands; behaves as a slice.
#[derive(Clone, Copy)]
pub struct Short<T, const N: usize> {
    items: [T; N],
    count: u8,
}

impl<T: Copy, const N: usize> Short<T, N> {
    /// An empty list; `item` fills the unused places.
    pub const fn new(item: T) -> Self {
        assert!(N <= 255);
        Short { items: [item; N], count: 0 }
    }

    /// Makes it so long; elements that are new are what stood there before or what filled the place.
    ///
    /// # Panics
    /// If `count` is more than `N`: a bug of the caller, not of an input.
    #[inline(always)]
    pub fn resize(&mut self, count: usize) {
        assert!(count <= N);
        self.count = count as u8;
    }

    /// What `item` gives for each number below `count`, after `empty` has been put everywhere.
    ///
    /// # Panics
    /// If `count` is more than `N`: a bug of the caller, not of an input.
    pub fn from_fn(empty: T, count: usize, mut item: impl FnMut(usize) -> T) -> Self {
        let mut out = Self::new(empty);
        out.resize(count);
        out.iter_mut().enumerate().for_each(|(n, place)| *place = item(n));
        out
    }
}

impl<T, const N: usize> Deref for Short<T, N> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.items[..(self.count as usize).min(N)]
    }
}

impl<T, const N: usize> DerefMut for Short<T, N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[..(self.count as usize).min(N)]
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a Short<T, N> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a mut Short<T, N> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: PartialEq, const N: usize> PartialEq for Short<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: std::fmt::Debug, const N: usize> std::fmt::Debug for Short<T, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Short;

    #[test]
    fn shows_only_what_is_in_use() {
        let mut list: Short<u8, 4> = Short::from_fn(9, 3, |n| n as u8);
        assert_eq!(*list, [0, 1, 2]);
        list.resize(2);
        list[1] = 5;
        assert_eq!(*list, [0, 5]);
        assert_eq!(list, Short::from_fn(7, 2, |n| 5 * n as u8));
        list.resize(4);
        assert_eq!(*list, [0, 5, 2, 9]);
    }

    #[test]
    #[should_panic]
    fn holds_no_more() {
        Short::<u8, 4>::new(0).resize(5);
    }
}
