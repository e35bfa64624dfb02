//! Products of matrices held by a warp: what [`Op::Mma`](super::Op::Mma) computes, packed into the bits of its `imm`.
//!
//! The arguments of the operation are the registers of A, B and C in this order (words: a double counts two), then the
//! metadata where A is sparse.

/// The unit that makes the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unit {
    /// Halves, bfloat16, tf32.
    Half = 0,
    /// Bytes.
    Int = 1,
    /// Bits: the bits that both have, or those that differ.
    Bit = 2,
    /// Doubles.
    Double = 3,
}

/// One product instruction of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Which unit.
    pub unit: Unit,
    /// Rows of A: 8 or 16.
    pub m: u8,
    /// Columns of A, before compression of a sparse one.
    pub k: u16,
    /// Words of A.
    pub a: u8,
    /// Words of B.
    pub b: u8,
    /// Halves: 0 f16, 1 bf16, 2 tf32. Bits: 1 for those that differ. Bytes: bit 0: A is signed, bit 1: B is signed. Doubles: rounding as
    /// [`Rnd`](super::Rnd) numbers it.
    pub kind: u8,
    /// Sums of 32 bits rather than 16.
    pub wide: bool,
    /// Integer sums saturate.
    pub sat: bool,
    /// The selector of the threads that hold the metadata, where A is sparse.
    pub sparse: Option<u8>,
}

impl Product {
    /// As the `imm` of an operation.
    pub fn pack(self) -> i64 {
        let sparse = self.sparse.map_or(0, |s| 4 | s as i64);
        self.unit as i64
            | (self.kind as i64) << 2
            | (self.wide as i64) << 5
            | (self.sat as i64) << 6
            | sparse << 7
            | (self.m as i64) << 10
            | (self.a as i64) << 16
            | (self.b as i64) << 24
            | (self.k as i64) << 32
    }

    /// From the `imm` of an operation.
    pub fn unpack(imm: i64) -> Product {
        let unit = [Unit::Half, Unit::Int, Unit::Bit, Unit::Double][imm as usize & 3];
        let sparse = (imm >> 7 & 7) as u8;
        Product {
            unit,
            kind: (imm >> 2 & 7) as u8,
            wide: imm >> 5 & 1 != 0,
            sat: imm >> 6 & 1 != 0,
            sparse: (sparse & 4 != 0).then_some(sparse & 3),
            m: (imm >> 10 & 0x3f) as u8,
            a: (imm >> 16) as u8,
            b: (imm >> 24) as u8,
            k: (imm >> 32) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        let units = [Unit::Half, Unit::Int, Unit::Bit, Unit::Double];
        for (n, unit) in units.into_iter().enumerate() {
            for (k, sparse) in [(8, None), (256, Some(0)), (64, Some(3))] {
                let p = Product { unit, m: 16, k, a: 16, b: 8, kind: n as u8, wide: n == 1, sat: n == 2, sparse };
                assert_eq!(Product::unpack(p.pack()), p);
            }
        }
    }
}
