//! Sparse matrices of `mma.sp` and `wgmma.mma_async.sp`: where the stored elements of A belong, written from sections
//! 9.7.14.6 and 9.7.15.6 of the PTX ISA.
//!
//! A row is cut into chunks, each with four bits of metadata; half of a chunk's elements are stored, in ascending order of the
//! bits. Which lane of a group of four gives the bits of which row and columns the document shows in figures only; what is
//! here is the order that follows from them.

use super::program::Lanes;

/// How many elements of which are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// Two of four: each has two bits.
    TwoOfFour,
    /// One of two: 0b0100 is the first, 0b1110 the second.
    OneOfTwo,
    /// Two pairs of four pairs.
    Pairs,
}

/// The sparse side of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sparse {
    /// Chunks of A.
    pub chunk: Chunk,
    /// A whole row of metadata is in one lane (elements of 4 and 8 bits), not rows `g` and `g + 8` by halves.
    pub rows: bool,
    /// Columns of the matrix.
    pub k: u32,
    /// Which lanes of a group of four give the metadata.
    pub selector: u32,
    /// The numbers of a chunk must ascend.
    pub ordered: bool,
}

impl Sparse {
    /// For elements of so many bits.
    ///
    /// # Errors
    /// The selector names lanes that there are not.
    pub fn new(bits: u32, k: u32, selector: u32, ordered: bool) -> Result<Sparse, String> {
        let chunk = match bits {
            32 => Chunk::OneOfTwo,
            4 => Chunk::Pairs,
            _ => Chunk::TwoOfFour,
        };
        let s = Sparse { chunk, rows: bits <= 8, k, selector, ordered };
        let choices = 64 / s.row_bits();
        if selector >= choices { Err(format!("the sparsity selector {selector}")) } else { Ok(s) }
    }

    fn columns_of_chunk(&self) -> u32 {
        match self.chunk {
            Chunk::TwoOfFour => 4,
            Chunk::OneOfTwo => 2,
            Chunk::Pairs => 8,
        }
    }

    /// Bits of metadata of a row: 16, 32 or 64.
    fn row_bits(&self) -> u32 {
        self.k / self.columns_of_chunk() * 4
    }

    /// Lane that has bits `16 h` to `16 h + 15` of a row's metadata, and their place in its word.
    fn place(&self, row: u32, h: u32) -> (usize, u32) {
        let (group, half) = (row % 8, row / 8);
        let lane = match (self.rows, self.row_bits()) {
            (_, 16) => self.selector,
            (false, _) => 2 * self.selector + h,
            (true, 32) => 2 * self.selector + half,
            (true, _) => h / 2 * 2 + half,
        };
        let shift = if self.rows && self.row_bits() > 16 { 16 * (h % 2) } else { 16 * half };
        ((4 * group + lane) as usize, shift)
    }

    /// The columns of a row's stored elements.
    ///
    /// # Errors
    /// Metadata that means nothing: the lane that gave it, and why.
    pub fn columns(&self, meta: &Lanes, row: u32) -> Result<Vec<u32>, (usize, String)> {
        let size = self.columns_of_chunk();
        let mut out = Vec::with_capacity(self.k as usize / 2);
        for n in 0..self.k / size {
            let (lane, shift) = self.place(row, n / 4);
            let bits = (meta[lane] >> (shift + n % 4 * 4)) as u32 & 15;
            let (x, y) = (bits & 3, bits >> 2);
            let bad = |why: &str| {
                (lane, format!("the sparsity metadata {bits:#06b} of row {row}, columns {} on, {why}", n * size))
            };
            match self.chunk {
                Chunk::OneOfTwo => out.push(match bits {
                    0b0100 => 2 * n,
                    0b1110 => 2 * n + 1,
                    _ => return Err(bad("is neither 0b0100 nor 0b1110")),
                }),
                _ if x == y => return Err(bad("names one element twice")),
                _ if self.ordered && x > y => return Err(bad("is not in ascending order")),
                Chunk::TwoOfFour => out.extend([4 * n + x, 4 * n + y]),
                Chunk::Pairs => out.extend([x, y].into_iter().flat_map(|p| [8 * n + 2 * p, 8 * n + 2 * p + 1])),
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata() {
        let mut meta = [0u64; 32];
        // f16, k = 16: lane 1 of group 2 gives row 2 in its low half, row 10 in its high half.
        meta[9] = 0x4e4e_e4d9;
        let s = Sparse::new(16, 16, 1, false).unwrap();
        assert_eq!(s.columns(&meta, 2), Ok(vec![1, 2, 5, 7, 8, 9, 14, 15]));
        assert_eq!(s.columns(&meta, 10), Ok(vec![2, 3, 4, 5, 10, 11, 12, 13]));
        assert!(s.columns(&meta, 3).is_err());
        // 8 bits, k = 32, second pair: lane 2 has row 0, lane 3 row 8.
        meta[2] = 0x4444_4444;
        meta[3] = 0xeeee_eeee;
        let s = Sparse::new(8, 32, 1, true).unwrap();
        assert_eq!(s.columns(&meta, 0).unwrap()[..4], [0, 1, 4, 5]);
        assert_eq!(s.columns(&meta, 8).unwrap()[14..], [30, 31]);
        // Not ascending.
        meta[2] = 0x1111_1111;
        assert!(s.columns(&meta, 0).is_err());
        // 4 bits: pairs.
        let s = Sparse::new(4, 64, 1, false).unwrap();
        assert_eq!(s.columns(&meta, 0).unwrap()[..4], [2, 3, 0, 1]);
        // tf32
        meta[0] = 0x44e4;
        assert_eq!(Sparse::new(32, 8, 0, false).unwrap().columns(&meta, 0), Ok(vec![0, 3, 4, 6]));
        assert!(Sparse::new(8, 64, 1, false).is_err() && Sparse::new(16, 32, 2, false).is_err());
    }
}
