//! The first factor of a sparse matrix product: where its elements lie.
//!
//! Of four neighbours in a row two are stored, and two bits of metadata tell the column of each (of 32-bit elements one of
//! two, by four bits that name its halves; of 4-bit ones two pairs of four). The metadata of a row is 16, 32, or 64
//! bits. With 16- and 32-bit elements a lane holds 16 of them for row g below 16 for row g + 8 (lane = 4 g + ..), the next lane
//! the next 16; with smaller ones a lane holds 32 for row g, the next 32 for row g + 8, the two after them the next 32 of both. Where
//! fewer than four lanes of a quad are needed, the selector tells which. The PTX ISA gives these layouts for `mma.sp`, and
//! the instructions have the operands of the PTX instructions.

use super::program::{Lanes, Matrix, MatrixType};

/// The metadata of a row, from bit 0.
fn metadata(bits: usize, wide: bool, row: usize, (lanes, selector): (&Lanes, u8)) -> u64 {
    let (g, upper) = (row % 8, row / 8);
    let selector = selector as usize;
    if wide {
        let chunks = bits / 16;
        let first = 4 * g + selector * chunks;
        return (0..chunks).fold(0, |r, c| {
            let word = lanes[(first + c) & 31];
            r | ((word >> (16 * upper)) as u64 & 0xffff) << (16 * c)
        });
    }
    let chunks = bits / 32;
    let first = 4 * g + if chunks == 1 { 2 * selector } else { 0 };
    (0..chunks).fold(0, |r, c| r | (lanes[(first + 2 * c + upper) & 31] as u64) << (32 * c))
}

/// A row of the matrix with its zeros, from the elements that are stored.
pub fn spread(m: &Matrix, stored: &[u64], row: usize, meta: (&Lanes, u8)) -> Vec<u64> {
    let mut out = vec![0; m.dims.2];
    let bits = match m.a {
        MatrixType::Float(_, bits) | MatrixType::Int(bits, _) => bits,
        _ => 64,
    };
    if bits == 32 {
        let meta = metadata(2 * m.dims.2, true, row, meta);
        for (n, &x) in stored.iter().enumerate() {
            out[2 * n + (meta >> (4 * n + 1) & 1) as usize] = x;
        }
        return out;
    }
    // Elements that are stored together.
    let unit = if bits == 4 { 2 } else { 1 };
    let meta = metadata(m.dims.2 / unit, bits == 16, row, meta);
    for (n, part) in stored.chunks(unit).enumerate() {
        let column = 4 * (n / 2) + (meta >> (2 * n) & 3) as usize;
        out[unit * column..][..unit].copy_from_slice(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tensor::parse;

    fn lanes(f: impl Fn(usize) -> u32) -> Lanes {
        std::array::from_fn(f)
    }

    #[test]
    fn columns_of_a_row() {
        let m = parse("HMMA.SP.16816.F32", 90).unwrap();
        // Row 9 is the upper half of lane 4 + 2 with selector 2: columns 0 and 3, 1 and 2, 2 and 3, 0 and 1.
        let meta = lanes(|l| if l == 6 { 0b0100_1110_1001_1100 << 16 } else { 0 });
        let row: Vec<u64> = (1..9).collect();
        assert_eq!(spread(&m, &row, 9, (&meta, 2)), [1, 0, 0, 2, 0, 3, 4, 0, 0, 0, 5, 6, 7, 8, 0, 0]);
        let m = parse("HMMA.SP.1688.F32.TF32", 90).unwrap();
        let meta = lanes(|l| if l == 4 { 0b1110_0100_0100_1110 } else { 0 });
        assert_eq!(spread(&m, &[1, 2, 3, 4], 1, (&meta, 0)), [0, 1, 2, 0, 3, 0, 0, 4]);
        // Eight bits, selector 1: row 0 in lane 2, row 8 in lane 3.
        let m = parse("IMMA.SP.16832.S8.S8", 90).unwrap();
        let meta = lanes(|l| if l == 3 { 0xeeee_eee4 } else { 0 });
        let row: Vec<u64> = (1..17).collect();
        assert_eq!(spread(&m, &row, 8, (&meta, 1))[..8], [1, 2, 0, 0, 0, 0, 3, 4]);
        // Four bits: pairs. The second half of row 8 is in lane 3.
        let m = parse("IMMA.SP.168128.U4.S4", 80).unwrap();
        let meta = lanes(|l| if l == 3 { 0b1001 } else { 0b0100 });
        let row: Vec<u64> = (0..64).collect();
        let wide = spread(&m, &row, 8, (&meta, 0));
        assert_eq!(wide[64..72], [0, 0, 32, 33, 34, 35, 0, 0]);
    }
}
