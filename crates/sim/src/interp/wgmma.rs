//! `wgmma`: how matrices lie in shared memory, and what a warp of the four computes, written from section 9.7.15 of the PTX ISA.
//!
//! A descriptor names a matrix by its start, two offsets and a swizzle. In pieces of 16 bytes ("rows" are rows of A or columns
//! of B; a K-major matrix has pieces along k, the other along the rows):
//!
//! | layout | piece `x` of row `r` (K-major) | piece `x` of the rows at `k` (MN-major) |
//! |---|---|---|
//! | no swizzle | `16 (r % 8) + S (r / 8) + L x` | `16 (k % 8) + L (k / 8) + S x` |
//! | swizzle of `w` bytes | `w (r % 8) + S (r / 8) + 16 x` | `w (k % 8) + S (k / 8) + 16 (x % (w / 16)) + L (x / (w / 16))` |
//!
//! with the leading offset `L` and the stride offset `S`; a swizzle then permutes the address. A K-major row that is wider than
//! its swizzle goes on `L` further.

use super::matrix::{Element, place_a, unpack};
use super::program::Lanes;
use super::sparse::Sparse;
use crate::num::soft::{F16, Round, from_f64, to_f64};
use crate::tensormap::Swizzle;
use ptx::types::ScalarType as T;

/// A matrix descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    start: u64,
    leading: u64,
    stride: u64,
    base: u64,
    swizzle: Swizzle,
}

impl Descriptor {
    /// The parts of a word.
    ///
    /// # Errors
    /// Bits that mean nothing are set.
    pub fn read(word: u64) -> Result<Descriptor, String> {
        let field = |at: u32| (word >> at & 0x3fff) << 4;
        if word & 0x3ff1_c000_c000_c000 != 0 {
            return Err(format!("the matrix descriptor {word:#x} has bits that belong to no field"));
        }
        let swizzle = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32][(word >> 62) as usize];
        Ok(Descriptor { start: field(0), leading: field(16), stride: field(32), base: word >> 49 & 7, swizzle })
    }

    /// Address of a piece of 16 bytes: of row `r` its piece `x` along k, or (`by_rows`) at `k` the piece `x` along the rows.
    pub fn piece(&self, by_rows: bool, line: u64, x: u64) -> u64 {
        let width = self.swizzle.width() as u64;
        let offset = match (width, by_rows) {
            (0, false) => 16 * (line % 8) + self.stride * (line / 8) + self.leading * x,
            (0, true) => 16 * (line % 8) + self.leading * (line / 8) + self.stride * x,
            (w, _) => w * (line % 8) + self.stride * (line / 8) + 16 * (x % (w / 16)) + self.leading * (x / (w / 16)),
        };
        // The pattern may begin at another line than a multiple of eight.
        let shift = self.base << 7;
        let a = self.start + offset;
        self.swizzle.place(a.wrapping_sub(shift)).wrapping_add(shift)
    }
}

/// A product of a warpgroup: `D = A B` or `D = A B + D` with 64 rows of A.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // named as in the instruction
pub struct Wgmma {
    pub n: u32,
    pub k: u32,
    pub a: Element,
    pub b: Element,
    pub d: T,
    pub satfinite: bool,
    pub negate_a: bool,
    pub negate_b: bool,
    /// A lies along the rows, not along k.
    pub trans_a: bool,
    pub trans_b: bool,
    pub sparse: Option<Sparse>,
}

/// Values of a matrix: integers of at most 32 bits and floats are exact in double precision.
pub type Values = Vec<f64>;

impl Wgmma {
    /// Columns of A as it is stored.
    pub fn stored(&self) -> u32 {
        self.k / if self.sparse.is_some() { 2 } else { 1 }
    }

    /// Registers of D.
    pub fn registers(&self) -> usize {
        (self.n / if self.d == T::F16 { 4 } else { 2 }) as usize
    }

    fn value(e: Element, bits: u64) -> f64 {
        match e {
            Element::Float(f, _) => to_f64(f, bits),
            Element::F64 => f64::from_bits(bits),
            Element::Int(n, true) => (((bits << (64 - n)) as i64) >> (64 - n)) as f64,
            Element::Int(..) | Element::Bit => bits as f64,
        }
    }

    /// Where the pieces of a matrix of `rows` (of the whole) x `k` elements lie: row by row of pieces. `first` is the first row.
    pub fn pieces(d: &Descriptor, trans: bool, e: Element, (first, rows): (u32, u32), k: u32) -> Vec<u64> {
        let each = 4 * e.packed();
        let (lines, along) = if trans { (k, rows / each) } else { (rows, k / each) };
        let list = (0..lines).flat_map(|line| (0..along).map(move |x| (line, x)));
        list.map(|(line, x)| match trans {
            true => d.piece(true, line as u64, (x + first / each) as u64),
            false => d.piece(false, (line + first) as u64, x as u64),
        })
        .collect()
    }

    /// The values of a matrix from the content of its pieces, as `rows` rows of `k`.
    pub fn values(trans: bool, e: Element, rows: u32, k: u32, content: &[[u8; 16]]) -> Values {
        let each = 4 * e.packed();
        let along = if trans { rows / each } else { k / each };
        let mut out = vec![0.0; (rows * k) as usize];
        for (n, piece) in content.iter().enumerate() {
            let (line, x) = (n as u32 / along, n as u32 % along);
            for j in 0..each {
                let at = (j / e.packed() * 4) as usize;
                let word = u32::from_le_bytes([piece[at], piece[at + 1], piece[at + 2], piece[at + 3]]);
                let v = Self::value(e, unpack(e, word as u64, j % e.packed()));
                let (row, col) = if trans { (x * each + j, line) } else { (line, x * each + j) };
                out[(row * k + col) as usize] = v;
            }
        }
        out
    }

    /// The values of the 16 rows of A that a warp holds in registers.
    pub fn held(&self, regs: &[Lanes]) -> Values {
        let k = self.stored();
        let mut out = vec![0.0; 16 * k as usize];
        for lane in 0..32u32 {
            for (r, reg) in regs.iter().enumerate() {
                for j in 0..self.a.packed() {
                    let (row, col) = place_a(16, self.a.packed(), lane, r as u32, j);
                    out[(row * k + col) as usize] = Self::value(self.a, unpack(self.a, reg[lane as usize], j));
                }
            }
        }
        out
    }

    /// D of a warp from its 16 rows of A, all of B (a row for each column, `k` values each), and C where it is added. `meta` is
    /// the metadata of a sparse A.
    ///
    /// # Errors
    /// Metadata that means nothing: the lane, and why.
    pub fn compute(
        &self,
        a: &[f64],
        b: &[f64],
        c: Option<&[Lanes]>,
        meta: Option<&Lanes>,
    ) -> Result<Vec<Lanes>, (usize, String)> {
        let k = self.k as usize;
        let mut left = vec![0.0; 16 * k];
        let sign = |negate: bool| if negate { -1.0 } else { 1.0 };
        for row in 0..16usize {
            let stored = &a[row * self.stored() as usize..][..self.stored() as usize];
            let columns = match (self.sparse, meta) {
                (Some(s), Some(meta)) => Some(s.columns(meta, row as u32)?),
                _ => None,
            };
            for (j, v) in stored.iter().enumerate() {
                left[row * k + columns.as_ref().map_or(j, |c| c[j] as usize)] = v * sign(self.negate_a);
            }
        }
        let mut out = vec![[0u64; 32]; self.registers()];
        for lane in 0..32usize {
            for i in 0..(self.n / 2) as usize {
                let row = lane / 4 + 8 * (i / 2 % 2);
                let col = i / 4 * 8 + lane % 4 * 2 + i % 2;
                let pairs =
                    left[row * k..][..k].iter().zip(&b[col * k..][..k]).map(|(x, y)| (*x, y * sign(self.negate_b)));
                let (r, shift) = if self.d == T::F16 { (i / 2, 16 * (i % 2)) } else { (i, 0) };
                let start = c.map_or(0, |c| c[r][lane] >> shift);
                out[r][lane] |= self.sum(pairs, start) << shift;
            }
        }
        Ok(out)
    }

    fn sum(&self, pairs: impl Iterator<Item = (f64, f64)>, c: u64) -> u64 {
        match (self.a, self.d) {
            (Element::Bit, _) => {
                let ones = pairs.filter(|&(x, y)| x != 0.0 && y != 0.0).count();
                (c as u32).wrapping_add(ones as u32) as u64
            }
            (Element::Int(..), _) => {
                let sum = pairs.fold(c as u32 as i32 as i64, |s, (x, y)| s + (x * y) as i64);
                let sum = if self.satfinite { sum.clamp(i32::MIN as i64, i32::MAX as i64) } else { sum };
                sum as u32 as u64
            }
            (_, T::F16) => {
                let sum = pairs.fold(to_f64(&F16, c & 0xffff), |s, (x, y)| s + x * y);
                from_f64(&F16, sum, Round::Rn)
            }
            _ => {
                let sum = pairs.fold(f32::from_bits(c as u32) as f64, |s, (x, y)| s + x * y);
                crate::num::fp::canon32(sum as f32) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors() {
        // Start 0x400, leading offset 0x80, stride 0x100, swizzle of 128 bytes.
        let d = Descriptor::read(0x40 | 0x8 << 16 | 0x10 << 32 | 1 << 62).unwrap();
        assert_eq!(d.piece(false, 3, 1), 0x400 + 3 * 128 + (1 ^ 3) * 16);
        assert_eq!(d.piece(false, 11, 1), {
            let a = 0x400 + 3 * 128 + 0x100 + 16;
            a ^ ((a >> 7) & 7) << 4
        });
        let plain = Descriptor::read(0x40 | 0x8 << 16 | 0x10 << 32).unwrap();
        assert_eq!(plain.piece(false, 9, 1), 0x400 + 16 + 0x100 + 0x80);
        assert_eq!(plain.piece(true, 9, 1), 0x400 + 16 + 0x80 + 0x100);
        assert!(Descriptor::read(1 << 14).is_err());
    }
}
