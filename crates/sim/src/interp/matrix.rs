//! `mma`: how the elements of a matrix lie in the registers of a warp, and what is computed, written from section 9.7.14
//! of the PTX ISA.
//!
//! PTX leaves the order and the precision of the sums open. Here products are exact; floating-point sums are made in
//! double precision, beginning with C, in ascending order of k, and rounded once to the type of D, to nearest even. In
//! double precision each step is a fused multiply-add, in the rounding that the instruction names.

use super::program::Lanes;
use super::sparse::Sparse;
use crate::num::fp;
use crate::num::soft::{BF16, E4M3, E5M2, F16, Format, Round, TF32, from_f64, to_f64};
use ptx::types::ScalarType as T;

/// Type of the elements of A or B.
#[derive(Clone, Copy, Debug)]
pub enum Element {
    /// A float of at most 32 bits; tf32 has its bits at the top of a word.
    Float(&'static Format, u32),
    /// Double precision.
    F64,
    /// An integer of so many bits, signed or not.
    Int(u32, bool),
    /// Single bits.
    Bit,
}

impl Element {
    /// The element of a type, if matrices have it.
    pub fn of(t: T) -> Option<Element> {
        Some(match t {
            T::F16 => Element::Float(&F16, 16),
            T::BF16 => Element::Float(&BF16, 16),
            T::TF32 => Element::Float(&TF32, 32),
            T::E4M3 => Element::Float(&E4M3, 8),
            T::E5M2 => Element::Float(&E5M2, 8),
            T::F64 => Element::F64,
            T::S8 => Element::Int(8, true),
            T::U8 => Element::Int(8, false),
            T::S4 => Element::Int(4, true),
            T::U4 => Element::Int(4, false),
            T::B1 => Element::Bit,
            _ => return None,
        })
    }

    /// Elements in a register.
    pub fn packed(self) -> u32 {
        match self {
            Element::Float(_, bits) | Element::Int(bits, _) => 32 / bits,
            Element::F64 => 1,
            Element::Bit => 32,
        }
    }
}

/// A product: `D = A B + C` of m x k and k x n matrices; with `wmma` its fragments lie as [`Fragment`] says.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // named as in the instruction
pub struct Mma {
    pub wmma: bool,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub a: Element,
    pub b: Element,
    pub c: T,
    pub d: T,
    pub satfinite: bool,
    /// `.and.popc` instead of `.xor.popc`
    pub and: bool,
    pub round: Round,
    /// A is sparse, and stored in half as many registers.
    pub sparse: Option<Sparse>,
    /// `m8n8k4` of f16, a product in each of four pairs of quads: A and B are column-major.
    pub quads: Option<(bool, bool)>,
}

/// Row (of A: of m; of B: of k) and column of element `j` of register `r` of a lane.
pub fn place_a(m: u32, packed: u32, lane: u32, r: u32, j: u32) -> (u32, u32) {
    let (group, thread) = (lane / 4, lane % 4);
    let (half, step) = if m == 16 { (r % 2, r / 2) } else { (0, r) };
    (group + 8 * half, step * 4 * packed + thread * packed + j)
}

fn place_b(packed: u32, lane: u32, r: u32, j: u32) -> (u32, u32) {
    (r * 4 * packed + lane % 4 * packed + j, lane / 4)
}

/// Row and column of element `i` of a lane's part of C or D.
fn place_c(lane: u32, i: u32) -> (u32, u32) {
    (lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2)
}

/// Row and column of element `i` of a lane in `m8n8k4` of f16: of A (rows of 8, columns of 4), and of C or D in f16 and f32.
/// B lies as A does, with rows and columns exchanged.
fn quad_a(by_columns: bool, lane: u32, i: u32) -> (u32, u32) {
    let high = lane / 16 * 4;
    if by_columns { (i + high, lane % 4) } else { (lane % 4 + high, i) }
}

fn quad_c(single: bool, lane: u32, i: u32) -> (u32, u32) {
    let high = lane / 16 * 4;
    match single {
        true => ((lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)),
        false => (lane % 4 + high, i),
    }
}

/// The bits of element `j` of a register.
pub fn unpack(e: Element, word: u64, j: u32) -> u64 {
    match e {
        Element::Float(_, 32) => word >> 13 & 0x7ffff,
        Element::Float(_, bits) | Element::Int(bits, _) => word >> (bits * j) & ((1 << bits) - 1),
        Element::F64 => word,
        Element::Bit => word >> j & 1,
    }
}

/// How the elements of a `wmma` matrix lie in memory and in registers. PTX keeps the latter to itself; here element
/// `row * columns + column` is in lane `n / each`, where a lane holds `each` elements.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// Bits of an element in memory.
    pub bits: u32,
    /// Bits of an element in a register.
    pub held: u32,
    /// Column-major in memory.
    pub by_columns: bool,
}

impl Fragment {
    /// Elements that a lane holds.
    pub fn each(&self) -> u32 {
        self.rows * self.columns / 32
    }

    /// Register and shift of element `i` of a lane.
    pub fn place(&self, i: u32) -> (usize, u32) {
        let packed = (32 / self.held).max(1);
        ((i / packed) as usize, i % packed * self.held)
    }

    /// Bit in memory of element `i` of a lane, where rows (columns) are `stride` elements apart.
    pub fn offset(&self, lane: u32, i: u32, stride: u64) -> u64 {
        let n = lane * self.each() + i;
        let (row, column) = ((n / self.columns) as u64, (n % self.columns) as u64);
        (if self.by_columns { column * stride + row } else { row * stride + column }) * self.bits as u64
    }
}

impl Mma {
    /// Registers of a lane for D, A, B, C.
    pub fn registers(&self) -> [usize; 4] {
        if self.quads.is_some() {
            let sums = |t: T| if t == T::F16 { 4 } else { 8 };
            return [sums(self.d), 2, 2, sums(self.c)];
        }
        let sums = |t: T| self.m * self.n / 32 / if t == T::F16 { 2 } else { 1 };
        let a = self.m * self.k / 32 / self.a.packed() / if self.sparse.is_some() { 2 } else { 1 };
        let b = self.n * self.k / 32 / self.b.packed();
        [sums(self.d), a, b, sums(self.c)].map(|n| n as usize)
    }

    /// Computes D from the lanes' registers; `meta` is the metadata of a sparse A.
    ///
    /// # Errors
    /// Metadata that means nothing: the lane, and why.
    pub fn compute(
        &self,
        a: &[Lanes],
        b: &[Lanes],
        c: &[Lanes],
        meta: Option<&Lanes>,
    ) -> Result<Vec<Lanes>, (usize, String)> {
        if let Some(columns) = self.quads {
            return Ok(self.quads(columns, a, b, c));
        }
        let (k, n) = (self.k as usize, self.n as usize);
        let mut left = vec![0u64; self.m as usize * k];
        let mut right = vec![0u64; k * n];
        let columns = match (self.sparse, meta) {
            (Some(s), Some(meta)) => (0..self.m).map(|row| s.columns(meta, row)).collect::<Result<Vec<_>, _>>()?,
            _ => Vec::new(),
        };
        let whole = |columns: u32, each: u32, packed: u32, lane: u32, r: u32, j: u32| {
            // Registers beyond the matrix repeat it.
            let i = (r * packed + j) % each.max(1);
            let at = lane * each + i;
            (at / columns, at % columns)
        };
        for lane in 0..32 {
            for (r, regs) in a.iter().enumerate() {
                for j in 0..self.a.packed() {
                    let (row, col) = match self.wmma {
                        true => whole(self.k, self.m * self.k / 32, self.a.packed(), lane, r as u32, j),
                        false => place_a(self.m, self.a.packed(), lane, r as u32, j),
                    };
                    let col = columns.get(row as usize).map_or(col, |c| c[col as usize]);
                    left[row as usize * k + col as usize] = unpack(self.a, regs[lane as usize], j);
                }
            }
            for (r, regs) in b.iter().enumerate() {
                for j in 0..self.b.packed() {
                    let (row, col) = match self.wmma {
                        true => whole(self.n, self.n * self.k / 32, self.b.packed(), lane, r as u32, j),
                        false => place_b(self.b.packed(), lane, r as u32, j),
                    };
                    right[row as usize * n + col as usize] = unpack(self.b, regs[lane as usize], j);
                }
            }
        }
        let mut out = vec![[0u64; 32]; self.registers()[0]];
        for lane in 0..32u32 {
            for i in 0..self.m * self.n / 32 {
                let (row, col) = match self.wmma {
                    true => whole(self.n, self.m * self.n / 32, 1, lane, i, 0),
                    false => place_c(lane, i),
                };
                let start = match self.c {
                    T::F16 => c[i as usize / 2][lane as usize] >> (16 * (i % 2)) & 0xffff,
                    _ => c[i as usize][lane as usize],
                };
                let pairs = (0..k).map(|x| (left[row as usize * k + x], right[x * n + col as usize]));
                let sum = self.sum(pairs, start);
                match self.d {
                    T::F16 => out[i as usize / 2][lane as usize] |= sum << (16 * (i % 2)),
                    _ => out[i as usize][lane as usize] = sum,
                }
            }
        }
        Ok(out)
    }

    /// Four products, each of lanes `4 q` to `4 q + 3` and `4 q + 16` to `4 q + 19`.
    fn quads(&self, (a_columns, b_columns): (bool, bool), a: &[Lanes], b: &[Lanes], c: &[Lanes]) -> Vec<Lanes> {
        let mut out = vec![[0u64; 32]; self.registers()[0]];
        let half = |regs: &[Lanes], lane: u32, i: u32| unpack(self.a, regs[i as usize / 2][lane as usize], i % 2);
        for q in 0..4u32 {
            let lanes = || (0..4).flat_map(|t| [4 * q + t, 4 * q + t + 16]);
            let (mut left, mut right) = ([[0u64; 4]; 8], [[0u64; 4]; 8]);
            for lane in lanes() {
                for i in 0..4 {
                    let (row, k) = quad_a(a_columns, lane, i);
                    left[row as usize][k as usize] = half(a, lane, i);
                    let (col, k) = quad_a(!b_columns, lane, i);
                    right[col as usize][k as usize] = half(b, lane, i);
                }
            }
            for lane in lanes() {
                for i in 0..8u32 {
                    let (l, n) = (lane as usize, i as usize);
                    // C of f16 beside D of f32 lies in its own way.
                    let (row, col) = quad_c(self.d != T::F16, lane, i);
                    let start = match (self.c, self.d) {
                        (T::F16, T::F16) => c[n / 2][l] >> (16 * (i % 2)) & 0xffff,
                        (T::F16, _) => {
                            let from = lanes()
                                .flat_map(|lane| (0..8).map(move |i| (lane, i)))
                                .find(|&(lane, i)| quad_c(false, lane, i) == (row, col));
                            from.map_or(0, |(lane, i)| c[i as usize / 2][lane as usize] >> (16 * (i % 2)) & 0xffff)
                        }
                        _ => c[n][l],
                    };
                    let pairs = (0..4).map(|k| (left[row as usize][k], right[col as usize][k]));
                    let sum = self.sum(pairs, start);
                    match self.d {
                        T::F16 => out[n / 2][l] |= sum << (16 * (i % 2)),
                        _ => out[n][l] = sum,
                    }
                }
            }
        }
        out
    }

    /// C and the products of pairs.
    pub fn sum(&self, pairs: impl Iterator<Item = (u64, u64)>, c: u64) -> u64 {
        match (self.a, self.b) {
            (Element::Float(fa, _), Element::Float(fb, _)) => {
                let start = if self.c == T::F16 { to_f64(&F16, c) } else { f32::from_bits(c as u32) as f64 };
                let sum = pairs.fold(start, |s, (x, y)| s + to_f64(fa, x) * to_f64(fb, y));
                match self.d {
                    T::F16 => from_f64(&F16, sum, Round::Rn),
                    _ => fp::canon32(sum as f32) as u64,
                }
            }
            (Element::F64, Element::F64) => pairs.fold(c, |s, (x, y)| fp::fma64(x, y, s, self.round)),
            (Element::Bit, Element::Bit) => {
                let ones = pairs.filter(|&(x, y)| if self.and { x & y != 0 } else { x ^ y != 0 }).count();
                (c as u32).wrapping_add(ones as u32) as u64
            }
            (a, b) => {
                let value = |e: Element, x: u64| match e {
                    Element::Int(bits, true) => (x << (64 - bits)) as i64 >> (64 - bits),
                    _ => x as i64,
                };
                let sum = pairs.fold(c as u32 as i32 as i64, |s, (x, y)| s + value(a, x) * value(b, y));
                let sum = if self.satfinite { sum.clamp(i32::MIN as i64, i32::MAX as i64) } else { sum };
                sum as u32 as u64
            }
        }
    }
}
