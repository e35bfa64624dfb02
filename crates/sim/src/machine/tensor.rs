//! Matrix instructions: `HMMA`, `IMMA`, `BMMA`, `DMMA`, `MOVM`.
//!
//! **Accumulation.** Integers are exact and wrap at 32 bits, or saturate at the end with `.SAT`. Doubles are a chain of
//! fused multiply-adds in ascending order of k. Floats are summed as measurements of the hardware describe it (Fasi,
//! Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021): products are exact; a block of products
//! and the accumulator are brought to the largest exponent among them, each loses what lies more than [`EXTRA`] bits below
//! the last bit of a single-precision number of that exponent (towards zero), and their sum is exact. A single-precision
//! result is the sum cut off towards zero, a half-precision one is rounded to nearest even. Blocks follow one another in
//! ascending order of k; how many products one has is told by [`block`]. Where the hardware differs in the last bits is not
//! known here; what the PTX interpreter computes is another model, so that nothing depends on either by accident.
//!
//! **Layout.** With lane = 4 g + t and e elements in a register: A has in register r the row g + 8 (r & 1) and from the
//! column t e + 4 e (r >> 1) on (with 8 rows: row g, from t e + 4 e r on); B has in register r the column g, from the row
//! t e + 4 e r on; C has in register r the row g + 8 (r >> 1) and column 2 t + (r & 1), halves two columns in a register.
//! The PTX ISA gives these layouts for the shapes that a single instruction computes.

use super::chip::Chip;
use super::program::{Lanes, Matrix, MatrixType};
use crate::num::fp;
use crate::num::soft::{BF16, E4M3, E5M2, F16, F32, Format, Round, TF32, convert};

/// Bits kept below the last one of a single-precision number when terms are aligned.
const EXTRA: i32 = 2;

/// Products that are summed at once.
pub(super) fn block(sm: u16, tf32: bool) -> usize {
    let n = Chip::of(sm).map_or(16, |c| c.sums);
    if tf32 { (n / 2).max(4) } else { n }
}

/// The words of a name: `HMMA.SP.16832.F32` is HMMA, sparse, 16832 and F32.
pub(super) struct Name<'a> {
    pub stem: &'a str,
    pub sparse: bool,
    pub shape: &'a str,
    pub rest: Vec<&'a str>,
}

impl<'a> Name<'a> {
    /// None where there is no shape.
    pub fn split(name: &'a str) -> Option<Self> {
        let mut words = name.split('.').peekable();
        let stem = words.next()?;
        let sparse = words.next_if_eq(&"SP").is_some();
        Some(Name { stem, sparse, shape: words.next()?, rest: words.collect() })
    }
}

/// An instruction as its name says: `HMMA.16816.F32.BF16`, `IMMA.16832.S8.U8.SAT`; `None` where it is another.
pub fn parse(name: &str, sm: u16) -> Option<Matrix> {
    let Name { stem, sparse, shape, rest } = Name::split(name)?;
    let dims = match shape.split('x').collect::<Vec<_>>()[..] {
        [m, n, k] => (m.parse().ok()?, n.parse().ok()?, k.parse().ok()?),
        // 884 is another layout, except for doubles.
        ["884"] if stem == "DMMA" => (8, 8, 4),
        [s] if s.starts_with("88") && s.len() > 3 => (8, 8, s[2..].parse().ok()?),
        [s] if s.starts_with("168") => (16, 8, s[3..].parse().ok()?),
        _ => return None,
    };
    let int = |s: &str| {
        Some(match s {
            "U8" => MatrixType::Int(8, false),
            "S8" => MatrixType::Int(8, true),
            "U4" => MatrixType::Int(4, false),
            "S4" => MatrixType::Int(4, true),
            _ => return None,
        })
    };
    let mut m = Matrix {
        dims,
        a: MatrixType::Double,
        b: MatrixType::Double,
        half: false,
        sat: false,
        block: 1,
        mode: Round::Rn,
        sparse,
        negated: false,
        negated_c: false,
    };
    match (stem, rest.as_slice()) {
        ("HMMA", [sum @ ("F16" | "F32"), from @ ..]) => {
            let f: &'static Format = match from {
                [] => &F16,
                ["BF16"] => &BF16,
                ["TF32"] => &TF32,
                _ => return None,
            };
            let bits = if from == ["TF32"] { 32 } else { 16 };
            (m.a, m.b) = (MatrixType::Float(f, bits), MatrixType::Float(f, bits));
            m.half = *sum == "F16";
            m.block = block(sm, bits == 32);
        }
        ("QMMA", [sum @ ("F16" | "F32"), a, b]) => {
            let small = |s: &str| match s {
                "E4M3" => Some(MatrixType::Float(&E4M3, 8)),
                "E5M2" => Some(MatrixType::Float(&E5M2, 8)),
                _ => None,
            };
            (m.a, m.b) = (small(a)?, small(b)?);
            m.half = *sum == "F16";
            m.block = block(sm, false) * 2;
        }
        // Rows and columns are named behind the operands.
        ("IMMA", [a, b, sat @ ..]) => {
            (m.a, m.b) = (int(a)?, int(b)?);
            m.sat = match sat {
                [] => false,
                ["SAT"] => true,
                _ => return None,
            };
        }
        ("BMMA", [op @ ("XOR" | "AND"), "POPC"]) => {
            (m.a, m.b) = (MatrixType::Bit(*op == "AND"), MatrixType::Bit(*op == "AND"));
        }
        // Rounding to nearest has no name.
        ("DMMA", []) => {}
        ("DMMA", ["RM"]) => m.mode = Round::Rm,
        ("DMMA", ["RP"]) => m.mode = Round::Rp,
        ("DMMA", ["RZ"]) => m.mode = Round::Rz,
        _ => return None,
    }
    Some(m)
}

/// Elements in a register (or pair of registers, for doubles).
fn packed(t: MatrixType) -> usize {
    match t {
        MatrixType::Float(_, bits) | MatrixType::Int(bits, _) => 32 / bits as usize,
        MatrixType::Double => 1,
        MatrixType::Bit(_) => 32,
    }
}

/// The j-th element of a word.
fn part(word: u64, t: MatrixType, j: usize) -> u64 {
    match t {
        MatrixType::Double => word,
        MatrixType::Float(_, bits) | MatrixType::Int(bits, _) => word >> (bits as usize * j) & ((1 << bits) - 1),
        MatrixType::Bit(_) => word >> j & 1,
    }
}

impl Matrix {
    fn words(&self) -> usize {
        if self.a == MatrixType::Double { 2 } else { 1 }
    }

    /// Registers of A, of B, and of C and D.
    pub fn registers(&self) -> [usize; 3] {
        let (m, n, k) = self.dims;
        let count = |elements: usize, packed: usize| elements / 32 / packed * self.words();
        [
            count(m * k / (1 + self.sparse as usize), packed(self.a)),
            count(k * n, packed(self.b)),
            count(m * n, 1 + self.half as usize),
        ]
    }

    /// A word of one element, or of a pair of registers.
    fn word(&self, x: &[Lanes], r: usize, lane: usize) -> u64 {
        match self.words() {
            2 => x[2 * r][lane] as u64 | (x[2 * r + 1][lane] as u64) << 32,
            _ => x[r][lane] as u64,
        }
    }

    /// A by rows, `stored` elements each, from the registers that hold it.
    pub fn rows_of_a(&self, a: &[Lanes], stored: usize) -> Vec<u64> {
        let m = self.dims.0;
        let ea = packed(self.a);
        let mut out = vec![0; m * stored];
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            for r in 0..m * stored / 32 / ea {
                let (row, from) = if m == 16 { (g + 8 * (r & 1), 4 * ea * (r >> 1)) } else { (g, 4 * ea * r) };
                let word = self.word(a, r, lane);
                (0..ea).for_each(|j| out[row * stored + t * ea + from + j] = part(word, self.a, j));
            }
        }
        out
    }

    /// `D = A B + C`, all lanes. `meta`: for a sparse A the metadata and the selector of the lanes that hold it.
    pub fn compute(&self, a: &[Lanes], b: &[Lanes], c: &[Lanes], meta: Option<(&Lanes, u8)>) -> Vec<Lanes> {
        let (_, n, k) = self.dims;
        let stored = if self.sparse { k / 2 } else { k };
        let eb = packed(self.b);
        let sign = match self.b {
            MatrixType::Float(_, bits) if self.negated => 1 << (bits - 1),
            MatrixType::Double if self.negated => 1 << 63,
            _ => 0,
        };
        let mut mb = vec![0u64; n * k];
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            for r in 0..n * k / 32 / eb {
                let word = self.word(b, r, lane);
                (0..eb).for_each(|j| mb[g * k + t * eb + 4 * eb * r + j] = part(word, self.b, j) ^ sign);
            }
        }
        self.multiply((&self.rows_of_a(a, stored), stored), &mb, c, meta)
    }

    /// `D = A B + C` of matrices by rows (A, with so many elements each) and by columns (B); C and D in registers.
    pub fn multiply(
        &self,
        (ma, stored): (&[u64], usize),
        mb: &[u64],
        c: &[Lanes],
        meta: Option<(&Lanes, u8)>,
    ) -> Vec<Lanes> {
        let (m, n, k) = self.dims;
        let words = self.words();
        let halves = 1 + self.half as usize;
        // Eight columns at a time.
        let each = m * 8 / 32 / halves;
        let place = |lane: usize, r: usize, j: usize| {
            let (g, t) = (lane / 4, lane % 4);
            let (tile, r) = (r / each, r % each);
            let (row, column) = if self.half { (r, j) } else { (r >> 1, r & 1) };
            (g + 8 * row) * n + 8 * tile + 2 * t + column
        };
        let sign = match (self.negated_c, words, self.half) {
            (false, ..) => 0,
            (_, 2, _) => 1 << 63,
            (_, _, true) => 1 << 15,
            _ => 1 << 31,
        };
        let mut mc = vec![0u64; m * n];
        for lane in 0..32 {
            for r in 0..m * n / 32 / halves {
                for j in 0..halves {
                    let v = self.word(c, r, lane);
                    mc[place(lane, r, j)] = if self.half { v >> (16 * j) & 0xffff } else { v } ^ sign;
                }
            }
        }
        let rows: Vec<Vec<u64>> = (0..m)
            .map(|row| {
                let stored = &ma[row * stored..][..stored];
                match meta.filter(|_| self.sparse) {
                    Some(meta) => super::sparse::spread(self, stored, row, meta),
                    None => stored.to_vec(),
                }
            })
            .collect();
        for (at, c) in mc.iter_mut().enumerate() {
            let (row, column) = (at / n, at % n);
            *c = self.sum(&rows[row], &mb[column * k..][..k], *c);
        }
        let mut out = vec![[0u32; 32]; self.registers()[2]];
        for lane in 0..32 {
            for r in 0..m * n / 32 / halves {
                let v = (0..halves).fold(0, |v, j| v | mc[place(lane, r, j)] << (16 * j));
                for w in 0..words {
                    out[words * r + w][lane] = (v >> (32 * w)) as u32;
                }
            }
        }
        out
    }

    /// An element of the result: a row of A, a column of B, an element of C.
    pub(super) fn sum(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        match (self.a, self.b) {
            (MatrixType::Float(fa, _), MatrixType::Float(fb, _)) => {
                a.chunks(self.block).zip(b.chunks(self.block)).fold(c, |c, (a, b)| self.add_block(fa, fb, a, b, c))
            }
            (MatrixType::Int(x, sx), MatrixType::Int(y, sy)) => {
                let value = |v: u64, bits: u32, signed: bool| {
                    let up = 64 - bits;
                    if signed { (v << up) as i64 >> up } else { v as i64 }
                };
                let products = a.iter().zip(b).map(|(&p, &q)| value(p, x, sx) * value(q, y, sy));
                let sum = products.sum::<i64>() + c as u32 as i32 as i64;
                let sum = if self.sat { sum.clamp(i32::MIN as i64, i32::MAX as i64) } else { sum };
                sum as u32 as u64
            }
            (MatrixType::Bit(and), _) => {
                let count = a.iter().zip(b).filter(|&(&p, &q)| if and { p & q } else { p ^ q } != 0).count();
                (c as u32).wrapping_add(count as u32) as u64
            }
            _ => a.iter().zip(b).fold(c, |c, (&p, &q)| fp::fma64(p, q, c, self.mode)),
        }
    }

    fn add_block(&self, fa: &Format, fb: &Format, a: &[u64], b: &[u64], c: u64) -> u64 {
        let fc = if self.half { &F16 } else { &F32 };
        let tf32 = self.block_type_is_tf32();
        let bits = |x: u64| if tf32 { x >> 13 } else { x };
        let (mut terms, mut nan, mut infinite) = (Vec::with_capacity(a.len() + 1), false, [false; 2]);
        let products = a.iter().zip(b).map(|(&p, &q)| (split(fa, bits(p)), split(fb, bits(q))));
        for (p, q) in products.chain([(split(fc, c), Part::ONE)]) {
            match (p, q) {
                (Part::Nan, _) | (_, Part::Nan) => nan = true,
                (Part::Infinite(x), Part::Infinite(y)) => infinite[(x != y) as usize] = true,
                (Part::Infinite(x), Part::Number(n)) | (Part::Number(n), Part::Infinite(x)) => {
                    nan |= n.mantissa == 0;
                    infinite[(x != n.negative) as usize] = true;
                }
                (Part::Number(x), Part::Number(y)) => terms.push(Number {
                    negative: x.negative != y.negative,
                    mantissa: x.mantissa * y.mantissa,
                    // Of a number whose leading bit is the one above the fraction.
                    exponent: x.exponent + y.exponent,
                    fraction: x.fraction + y.fraction,
                }),
            }
        }
        if nan || infinite == [true; 2] {
            return if self.half { 0x7fff } else { 0x7fff_ffff };
        }
        if infinite != [false; 2] {
            let sign = infinite[1] as u64;
            return if self.half { sign << 15 | 0x7c00 } else { sign << 31 | 0x7f80_0000 };
        }
        let Some(most) = terms.iter().filter(|t| t.mantissa != 0).map(|t| t.exponent).max() else {
            // A sum of zeros is negative if all are.
            let negative = terms.iter().all(|t| t.negative);
            return (negative as u64) << if self.half { 15 } else { 31 };
        };
        // In units of 2^unit.
        let unit = most - 23 - EXTRA;
        let sum: i128 = terms
            .iter()
            .map(|t| {
                let shift = t.exponent - t.fraction - unit;
                let v = match shift {
                    0.. => (t.mantissa as i128) << shift,
                    _ => (t.mantissa as i128).checked_shr(-shift as u32).unwrap_or(0),
                };
                if t.negative { -v } else { v }
            })
            .sum();
        finish(sum, unit, self.half)
    }

    fn block_type_is_tf32(&self) -> bool {
        matches!(self.a, MatrixType::Float(_, 32))
    }
}

/// A number: (-1)^negative * mantissa * 2^(exponent - fraction).
#[derive(Clone, Copy)]
struct Number {
    negative: bool,
    mantissa: u64,
    exponent: i32,
    fraction: i32,
}

#[derive(Clone, Copy)]
enum Part {
    Nan,
    Infinite(bool),
    Number(Number),
}

impl Part {
    const ONE: Part = Part::Number(Number { negative: false, mantissa: 1, exponent: 0, fraction: 0 });
}

fn split(f: &Format, x: u64) -> Part {
    let width = f.width();
    let negative = x >> width & 1 != 0;
    let mantissa = x & ((1 << f.man_bits) - 1);
    let biased = (x >> f.man_bits) as i32 & ((1 << f.exp_bits) - 1);
    if f.is_nan(x) {
        return Part::Nan;
    }
    if f.has_inf && x & (f.sign_bit() - 1) == f.inf() {
        return Part::Infinite(negative);
    }
    let bias = (1 << (f.exp_bits - 1)) - 1;
    let (mantissa, exponent) =
        if biased == 0 { (mantissa, 1 - bias) } else { (mantissa | 1 << f.man_bits, biased - bias) };
    Part::Number(Number { negative, mantissa, exponent, fraction: f.man_bits as i32 })
}

/// `sum * 2^unit` as a result: single precision cut off towards zero, half precision rounded to nearest even.
fn finish(sum: i128, unit: i32, half: bool) -> u64 {
    if sum == 0 {
        return 0;
    }
    let magnitude = sum.unsigned_abs();
    // A double holds the magnitude after what lies too low is joined into one bit.
    let excess = (128 - magnitude.leading_zeros() as i32 - 50).max(0);
    let sticky = (magnitude & ((1 << excess) - 1) != 0) as u128;
    let m = (magnitude >> excess) << 1 | sticky;
    let value = m as f64 * 2f64.powi(unit + excess - 1);
    let bits = (if sum < 0 { -value } else { value }).to_bits();
    if half {
        convert(&crate::num::soft::F64, &F16, bits, Round::Rn)
    } else {
        let r = convert(&crate::num::soft::F64, &F32, bits, Round::Rz);
        // What is too large is infinite, not the largest number.
        if value >= 2f64.powi(128) { (r & 0x8000_0000) | 0x7f80_0000 } else { r }
    }
}

/// `MOVM.16.MT88`: the 8x8 matrix of 16-bit elements that a register of the warp holds, transposed.
pub fn transpose(a: &Lanes) -> Lanes {
    let element = |row: usize, column: usize| a[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
    std::array::from_fn(|lane| {
        let (g, t) = (lane / 4, lane % 4);
        element(2 * t, g) | element(2 * t + 1, g) << 16
    })
}

/// `MOVM.U4TO8.M832`: the 8x32 matrix of 4-bit numbers that a register of the warp holds, with 8 bits each, as two registers of the operand
/// of a product hold them. (Code that ptxas makes for single bits takes both operands through it, so no result tells in which order
/// the columns come: it is that of the operands of `IMMA.16832`.)
pub fn widen(a: &Lanes) -> [Lanes; 2] {
    let element = |row: usize, column: usize| a[4 * row + column / 8] >> (4 * (column % 8)) & 15;
    std::array::from_fn(|half| {
        std::array::from_fn(|lane| {
            (0..4).fold(0, |r, j| r | element(lane / 4, 16 * half + 4 * (lane % 4) + j) << (8 * j))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_four_bits_widen() {
        // Number c of row r is (r + c) % 16.
        let nibble = |r: usize, c: usize| ((r + c) % 16) as u32;
        let a: Lanes = std::array::from_fn(|l| (0..8).fold(0, |x, k| x | nibble(l / 4, 8 * (l % 4) + k) << (4 * k)));
        let out = widen(&a);
        // The first lane of row 0 has columns 0 to 3 and 16 to 19; the last of row 7 has 12 to 15 and 28 to 31.
        assert_eq!((out[0][0], out[1][0]), (0x03020100, 0x03020100));
        assert_eq!((out[0][31], out[1][31]), (0x06050403, 0x06050403));
        assert_eq!(out[0][5], 0x08070605);
    }

    #[test]
    fn names() {
        for (name, registers) in [
            ("HMMA.16816.F32", [4, 2, 4]),
            ("HMMA.16816.F16", [4, 2, 2]),
            ("HMMA.1688.F32.TF32", [4, 2, 4]),
            ("HMMA.1684.F32.TF32", [2, 1, 4]),
            ("IMMA.16832.S8.U8.SAT", [4, 2, 4]),
            ("IMMA.8816.S8.S8", [1, 1, 2]),
            ("IMMA.16864.U4.S4", [4, 2, 4]),
            ("BMMA.168256.XOR.POPC", [4, 2, 4]),
            ("BMMA.88128.AND.POPC", [1, 1, 2]),
            ("DMMA.16x8x16", [16, 8, 8]),
            ("DMMA.884", [2, 2, 4]),
            ("DMMA.884.RZ", [2, 2, 4]),
            ("HMMA.SP.16816.F32", [2, 2, 4]),
            ("HMMA.SP.1688.F32.TF32", [2, 2, 4]),
            ("IMMA.SP.16864.S8.U8.SAT", [4, 4, 4]),
            ("IMMA.SP.168128.S4.U4", [4, 4, 4]),
            ("QMMA.SP.16864.F32.E4M3.E5M2", [4, 4, 4]),
        ] {
            assert_eq!(parse(name, 90).map(|m| m.registers()), Some(registers), "{name}");
        }
        for other in ["HMMA.884.F32.F32.STEP0", "DMMA.884.RX", "IMMA", "IMMA.16832.S8.F8"] {
            assert!(parse(other, 90).is_none(), "{other}");
        }
    }

    fn sum(sm: u16, name: &str, a: &[f32], b: &[f32], c: f32) -> f32 {
        let m = parse(name, sm).unwrap();
        let half = |x: &f32| convert(&F32, &F16, x.to_bits() as u64, Round::Rn);
        let row = |x: &[f32]| (0..m.dims.2).map(|i| x.get(i).map_or(0, half)).collect::<Vec<_>>();
        f32::from_bits(m.sum(&row(a), &row(b), c.to_bits() as u64) as u32)
    }

    #[test]
    fn what_is_lost_in_a_sum() {
        let name = "HMMA.16816.F32";
        // 2^24 + 1 needs 25 bits: two more are kept while summing, and the result is cut off.
        let big = 4096.0;
        assert_eq!(sum(90, name, &[big, 1.0], &[big, 1.0], 0.0), 16777216.0);
        assert_eq!(sum(90, name, &[big, 1.0, 1.0], &[big, 1.0, 1.0], 0.0), 16777218.0);
        assert_eq!(sum(90, name, &[-big, -1.0, -1.0, -1.0], &[big, 1.0, 1.0, 1.0], 0.0), -16777218.0);
        // 2^24 + 2^-3 - 2^24: what lies below the two bits is gone before the large terms cancel.
        assert_eq!(sum(90, name, &[big, 0.5, -big], &[big, 0.25, big], 0.0), 0.0);
        assert_eq!(sum(90, name, &[big, 0.5, -big], &[big, 1.0, big], 0.0), 0.5);
        // In blocks of four it is added after they have cancelled.
        let (a, b) = ([big, 0.0, 0.0, -big, 0.5], [big, 0.0, 0.0, big, 0.25]);
        assert_eq!((sum(75, name, &a, &b, 0.0), sum(90, name, &a, &b, 0.0)), (0.125, 0.0));
    }

    #[test]
    fn special_values() {
        let name = "HMMA.16816.F32";
        let inf = f32::INFINITY;
        assert_eq!(sum(90, name, &[inf], &[-2.0], 1.0), -inf);
        assert!(sum(90, name, &[inf], &[0.0], 1.0).is_nan());
        assert!(sum(90, name, &[inf], &[1.0], -inf).is_nan());
        assert_eq!(sum(90, name, &[60000.0], &[60000.0], f32::MAX), f32::MAX);
        assert_eq!(sum(90, name, &[60000.0; 16], &[60000.0; 16], 0.0), 57.6e9);
        // Subnormal halves are numbers: 2^-24 * 2^-24.
        assert_eq!(sum(90, name, &[2f32.powi(-24)], &[2f32.powi(-24)], 0.0), 2f32.powi(-48));
    }
}
