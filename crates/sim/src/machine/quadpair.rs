//! `HMMA.884`: products of 8 by 8 by 4 halves, one for each two quads of lanes (0 to 3 with 16 to 19, and so on), in steps.
//!
//! A step gives the two registers of the result that follow one another: with single precision step n has the elements 2 n
//! and 2 n + 1 of each lane, with half precision 4 n to 4 n + 3. The fragments are those of the PTX ISA for
//! `mma.m8n8k4`. Products are exact and summed as [`super::tensor`] does.

use super::program::{Lanes, Matrix};
use super::tensor;

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// How products are summed; its `half` tells of the result.
    op: Matrix,
    /// The sum is in half precision, whatever the result is.
    half_c: bool,
    /// A is stored by rows, B by columns.
    rows: bool,
    columns: bool,
    step: usize,
}

/// The step that an instruction `HMMA.884.F32.F16.STEP1` does; A by rows, B by columns, or the other way.
pub fn parse(name: &str, (a, b): (&str, &str), sm: u16) -> Option<Step> {
    let rest = name.strip_prefix("HMMA.884.")?;
    let words: Vec<&str> = rest.split('.').collect();
    let [d @ ("F16" | "F32"), c @ ("F16" | "F32"), step] = words[..] else { return None };
    let step: usize = step.strip_prefix("STEP")?.parse().ok()?;
    let (half, half_c) = (d == "F16", c == "F16");
    if step > if half { 1 } else { 3 } || half && !half_c {
        return None;
    }
    let mut op = tensor::parse("HMMA.16816.F32", sm)?;
    op.half = half;
    let side = |s: &str| match s.trim_start_matches('.') {
        "ROW" => Some(true),
        "COL" => Some(false),
        _ => None,
    };
    Some(Step { op, half_c, rows: side(a)?, columns: !side(b)?, step })
}

fn half(x: &[Lanes; 2], lane: usize, i: usize) -> u64 {
    (x[i / 2][lane] >> (16 * (i % 2))) as u64 & 0xffff
}

impl Step {
    /// The two registers of the result, of A, B and C in two registers each.
    pub fn compute(&self, a: &[Lanes; 2], b: &[Lanes; 2], c: &[Lanes; 2]) -> [Lanes; 2] {
        let mut out = [[0u32; 32]; 2];
        for quad in 0..4 {
            let lane = |n: usize| 4 * quad + n % 4 + if n < 4 { 0 } else { 16 };
            // Lane n of the eight holds row n of A or column n of B; or a column of A and a row of B for half the rows.
            let mut ma = [[0u64; 4]; 8];
            let mut mb = [[0u64; 4]; 8];
            for n in 0..8 {
                for i in 0..4 {
                    let (x, y) = (half(a, lane(n), i), half(b, lane(n), i));
                    let (low, up) = (n % 4, n / 4 * 4);
                    if self.rows {
                        ma[n][i] = x
                    } else {
                        ma[up + i][low] = x
                    }
                    if self.columns { mb[n][i] = y } else { mb[up + i][low] = y }
                }
            }
            let half_place = |n: usize, i: usize| (n, 4 * (if self.op.half { self.step } else { self.step / 2 }) + i);
            let full_place = |n: usize, i: usize| {
                let i = 2 * self.step + i;
                ((n & 1) + (i & 2) + (n & 4), (i & 4) + (n & 2) + (i & 1))
            };
            let mut mc = [[0u64; 8]; 8];
            for n in 0..8 {
                for i in 0..4 {
                    if self.half_c {
                        let (row, column) = half_place(n, i);
                        mc[row][column] = half(c, lane(n), i);
                    } else if i < 2 {
                        let (row, column) = full_place(n, i);
                        mc[row][column] = c[i][lane(n)] as u64;
                    }
                }
            }
            let sum = |(row, column): (usize, usize)| {
                let mut c = mc[row][column];
                if self.half_c && !self.op.half {
                    use crate::num::soft::{F16, F32, Round, convert};
                    c = convert(&F16, &F32, c, Round::Rn);
                }
                self.op.sum(&ma[row], &mb[column], c) as u32
            };
            for n in 0..8 {
                for i in 0..if self.op.half { 4 } else { 2 } {
                    if self.op.half {
                        out[i / 2][lane(n)] |= sum(half_place(n, i)) << (16 * (i % 2));
                    } else {
                        out[i][lane(n)] = sum(full_place(n, i));
                    }
                }
            }
        }
        out
    }
}
