//! Matrix products of a warpgroup: `HGMMA`, `IGMMA`, `QGMMA`, `BGMMA`.
//!
//! Each of the four warps computes 16 of the 64 rows. A is in registers, as for `mma`, or in shared memory; B is in shared
//! memory. The descriptor of a matrix in shared memory is that of the PTX ISA ("matrix descriptor"); where its elements lie
//! is told by [`Descriptor::place`]. Products are summed as [`super::tensor`] says.

use super::program::{Matrix, MatrixType, Pred, Src};
use super::tensor::{self, Name};
use crate::num::soft::{BF16, E4M3, E5M2, F16, Format, Round, TF32};

/// One product, as the instruction says it.
pub struct Gmma {
    /// Rows of a warp (16), columns, and depth; types.
    pub op: Matrix,
    /// The first register of D, and of C where it is not zero.
    pub d: u8,
    /// See `d`.
    pub c: Option<u8>,
    /// C counts.
    pub scale: Pred,
    /// A in registers.
    pub a: Option<u8>,
    /// Four uniform registers: the descriptors of A and B.
    pub descriptors: [Src; 4],
    /// Metadata of a sparse A, and the selector.
    pub meta: Option<(Src, u8)>,
    /// Signs of A and B are changed.
    pub negated: (bool, bool),
    /// A and B lie with their rows (columns of B) along memory.
    pub transposed: (bool, bool),
    /// It ends a group that may be waited for.
    pub commits: bool,
}

/// The matrix that a name such as `QGMMA.SP.64x8x64.F32.E4M3.E5M2` tells of; `None` for another.
pub fn parse(name: &str, sm: u16) -> Option<Matrix> {
    let Name { stem, sparse, shape, rest } = Name::split(name)?;
    let sizes: Vec<usize> = shape.split('x').map(|s| s.parse().ok()).collect::<Option<_>>()?;
    let [64, n @ 8..=256, k @ 8..=256] = sizes[..] else { return None };
    let float = |f: &'static Format, bits| MatrixType::Float(f, bits);
    let int = |s: &str| match s {
        "U8" => Some(MatrixType::Int(8, false)),
        "S8" => Some(MatrixType::Int(8, true)),
        _ => None,
    };
    let small = |s: &str| match s {
        "E4M3" => Some(MatrixType::Float(&E4M3, 8)),
        "E5M2" => Some(MatrixType::Float(&E5M2, 8)),
        _ => None,
    };
    let (mut half, mut sat) = (false, false);
    let (a, b) = match (stem, &rest[..]) {
        ("HGMMA", ["F16"]) => {
            half = true;
            (float(&F16, 16), float(&F16, 16))
        }
        ("HGMMA", ["F32"]) => (float(&F16, 16), float(&F16, 16)),
        ("HGMMA", ["F32", "BF16"]) => (float(&BF16, 16), float(&BF16, 16)),
        ("HGMMA", ["F32", "TF32"]) => (float(&TF32, 32), float(&TF32, 32)),
        ("QGMMA", [d @ ("F16" | "F32"), a, b]) => {
            half = *d == "F16";
            (small(a)?, small(b)?)
        }
        ("IGMMA", [a, b, rest @ ..]) => {
            sat = match rest {
                [] => false,
                ["SAT"] => true,
                _ => return None,
            };
            (int(a)?, int(b)?)
        }
        ("BGMMA", ["AND", "POPC"]) => (MatrixType::Bit(true), MatrixType::Bit(true)),
        _ => return None,
    };
    let bits = match a {
        MatrixType::Float(_, bits) => bits,
        _ => 8,
    };
    let block = tensor::block(sm, bits == 32) * if bits == 8 { 2 } else { 1 };
    Some(Matrix { dims: (16, n, k), a, b, half, sat, block, mode: Round::Rn, sparse, negated: false, negated_c: false })
}

/// Where a matrix lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    start: u32,
    leading: u32,
    stride: u32,
    base: u32,
    /// Bytes of a row that is permuted; 16 for none.
    width: u32,
}

impl Descriptor {
    /// From its 64 bits.
    pub fn read(x: u64) -> Descriptor {
        let field = |at: u32| ((x >> at) as u32 & 0x3fff) << 4;
        Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: (x >> 49) as u32 & 7,
            width: [16, 128, 64, 32][(x >> 62) as usize],
        }
    }

    /// The address of the 16 bytes, or less, that hold an element: `row` of A or column of B, and the byte of its depth. With
    /// `transposed` elements (of 16 bits) of one depth lie beside each other, and `depth` is a number of elements.
    pub fn place(self, row: u32, depth: u32, transposed: bool) -> u32 {
        let w = self.width;
        let plain = w == 16;
        let offset = if transposed {
            let pieces = w / 16;
            let (piece, beyond) = (row / 8 % pieces, row / 8 / pieces);
            let (apart, deeper) = if plain { (self.stride, self.leading) } else { (self.leading, self.stride) };
            row % 8 * 2 + piece * 16 + beyond * apart + depth % 8 * w + depth / 8 * deeper
        } else {
            let along = if plain { depth / 16 * self.leading + depth % 16 } else { depth };
            row / 8 * self.stride + row % 8 * w + along
        };
        let a = self.start.wrapping_add(offset);
        let line = (a >> 7).wrapping_sub(self.base);
        a ^ (line & (w / 16 - 1)) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let m = parse("HGMMA.64x128x16.F32.BF16", 90).unwrap();
        assert_eq!((m.dims, m.half, m.sparse), ((16, 128, 16), false, false));
        assert!(parse("QGMMA.SP.64x8x64.F16.E4M3.E5M2", 90).is_some_and(|m| m.half && m.sparse));
        assert!(parse("IGMMA.64x8x32.U8.S8.SAT", 90).is_some_and(|m| m.sat));
        assert!(parse("BGMMA.64x8x256.AND.POPC", 90).is_some());
        for other in ["HGMMA.64x8x16.F64", "HGMMA.64x8.F32", "HMMA.16816.F32", "IGMMA.SP.REGOFFSET.64x8x64.U8.U8"] {
            assert!(parse(other, 90).is_none(), "{other}");
        }
    }

    /// A descriptor: start, leading and stride offset in bytes, swizzle.
    fn descriptor(start: u64, leading: u64, stride: u64, mode: u64) -> Descriptor {
        Descriptor::read(start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62)
    }

    #[test]
    fn places() {
        // Pieces of 8 rows of 16 bytes: 128 bytes on in depth, 256 in rows.
        let d = descriptor(0x400, 128, 256, 0);
        assert_eq!(d.place(9, 18, false), 0x400 + 256 + 16 + 128 + 2);
        assert_eq!(d.place(9, 3, true), 0x400 + 256 + 2 + 3 * 16);
        assert_eq!(d.place(0, 8, true), 0x400 + 128);
        // Rows of 128 bytes: the number of the row is in the number of the piece.
        let d = descriptor(0x400, 16, 1024, 1);
        assert_eq!(d.place(1, 0, false), 0x400 + 128 + 16);
        assert_eq!(d.place(7, 16, false), 0x400 + 7 * 128 + (7 ^ 1) * 16);
        assert_eq!(d.place(8, 2, false), 0x800 + 2);
        // Two lines of 64 bytes share a permutation.
        let d = descriptor(0x400, 16, 512, 2);
        assert_eq!([d.place(1, 0, false), d.place(2, 0, false)], [0x400 + 64, 0x400 + 128 + 16]);
        // Along the rows: 64 of them in a line, the next ones the leading offset away.
        let d = descriptor(0x400, 2048, 1024, 1);
        assert_eq!(d.place(8, 1, true), 0x400 + 128);
        assert_eq!(d.place(64, 8, true), 0x400 + 2048 + 1024);
    }
}
