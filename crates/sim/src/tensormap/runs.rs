//! The bytes that a tensor copy moves.

use super::{Im2col, Interleave, TensorMap};

/// Bytes that a copy moves: at most 16, within one 16-byte piece of shared memory and one element or several that lie
/// beside each other in global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Bytes from the start of the box in shared memory, before the swizzle.
    pub shared: u64,
    /// Address in global memory; `None` for elements outside of the tensor.
    pub global: Option<u64>,
    /// How many.
    pub bytes: u32,
}

impl TensorMap {
    /// Bytes of a slice of channels.
    pub(super) fn slice(&self) -> u32 {
        if self.interleave == Interleave::Slices32 { 32 } else { 16 }
    }

    /// Elements that a box has in a dimension.
    fn count(&self, i: usize) -> u64 {
        // Dimension 0 has no step unless its channels are interleaved.
        let step = if i == 0 && self.interleave == Interleave::None { 1 } else { self.steps[i] };
        self.box_dims[i].div_ceil(step) as u64
    }

    /// Bytes that a copy moves, those outside of the tensor too: what an mbarrier counts.
    pub fn bytes(&self) -> u32 {
        let elements = match &self.im2col {
            Some(x) => (x.channels * x.pixels) as u64,
            None => (0..self.rank).map(|i| self.count(i)).product(),
        };
        (elements * self.ty.bytes() as u64).min(u32::MAX as u64) as u32
    }

    /// Address of an element, if it is inside.
    fn element(&self, at: &[i64; 5]) -> Option<u64> {
        if (0..self.rank).any(|i| at[i] < 0 || at[i] as u64 >= self.dims[i]) {
            return None;
        }
        let size = self.ty.bytes() as u64;
        let mut a = self.address;
        if self.interleave == Interleave::None {
            a = a.wrapping_add(at[0] as u64 * size);
        } else {
            // The slices of the channels lie behind the dimension before the last.
            let each = self.slice() as u64 / size;
            let c = at[0] as u64;
            let slice = self.dims[self.rank - 2].wrapping_mul(self.strides[self.rank - 3]);
            a = a.wrapping_add(c / each * slice).wrapping_add(c % each * size);
        }
        Some((1..self.rank).fold(a, |a, i| a.wrapping_add((at[i] as u64).wrapping_mul(self.strides[i - 1]))))
    }

    /// The runs of bytes of a copy, in the order of shared memory. `at` are the coordinates of the instruction, `offsets` those
    /// of im2col (W, H, D; none for a tiled map and for a store).
    ///
    /// # Errors
    /// The map is not of this kind or rank.
    pub fn runs(&self, at: &[i32], offsets: Option<&[u32]>) -> Result<Vec<Run>, String> {
        if at.len() != self.rank {
            return Err(format!("a tensor map of rank {} is used with {} coordinates", self.rank, at.len()));
        }
        match (&self.im2col, offsets) {
            (None, None) => Ok(self.tile(at)),
            (Some(x), Some(offsets)) => self.column(x, at, offsets),
            (None, _) => Err("a tiled tensor map is used in im2col mode".into()),
            (_, None) => Err("an im2col tensor map is used in tiled mode".into()),
        }
    }

    fn tile(&self, at: &[i32]) -> Vec<Run> {
        let mut out = Runs::new(self);
        let counts: [u64; 5] = std::array::from_fn(|i| if i < self.rank { self.count(i) } else { 1 });
        let size = self.ty.bytes() as u64;
        let each = match self.interleave {
            Interleave::None => counts[0],
            _ => self.slice() as u64 / size,
        };
        // Outermost first: the last dimension, then (interleaved) the slices of channels, then the others.
        let outer: u64 = counts[1..].iter().product();
        let last = if self.interleave == Interleave::None { 1 } else { counts[self.rank - 1] };
        let inner = outer / last;
        let step = |i: usize| if i == 0 && self.interleave == Interleave::None { 1 } else { self.steps[i] as i64 };
        for n in 0..last {
            for slice in 0..counts[0].div_ceil(each) {
                for row in 0..inner {
                    let mut rest = n * inner + row;
                    let mut place = [0i64; 5];
                    for i in 1..self.rank {
                        place[i] = at[i] as i64 + (rest % counts[i]) as i64 * step(i);
                        rest /= counts[i];
                    }
                    for c in slice * each..((slice + 1) * each).min(counts[0]) {
                        place[0] = at[0] as i64 + c as i64 * step(0);
                        out.push(self.element(&place));
                    }
                    out.end_row();
                }
            }
        }
        out.list
    }

    fn column(&self, x: &Im2col, at: &[i32], offsets: &[u32]) -> Result<Vec<Run>, String> {
        let mut out = Runs::new(self);
        let spatial = self.rank - 2;
        if !offsets.is_empty() && offsets.len() != spatial {
            return Err(format!("{} im2col offsets for a tensor map of rank {}", offsets.len(), self.rank));
        }
        let size = self.ty.bytes();
        let each = if self.interleave == Interleave::None { x.channels } else { self.slice() / size };
        for slice in 0..x.channels.div_ceil(each) {
            let mut pixel: [i64; 5] = std::array::from_fn(|i| at.get(i).map_or(0, |&c| c as i64));
            for _ in 0..x.pixels {
                let mut place = pixel;
                for (i, &o) in offsets.iter().enumerate() {
                    place[1 + i] += o as i64;
                }
                for c in slice * each..((slice + 1) * each).min(x.channels) {
                    place[0] = pixel[0] + c as i64;
                    out.push(self.element(&place));
                }
                out.end_row();
                // The next pixel of the box: W first, then H, D and the image.
                let mut i = 0;
                loop {
                    if i == spatial {
                        pixel[1 + i] += 1;
                        break;
                    }
                    pixel[1 + i] += self.steps[1 + i] as i64;
                    if pixel[1 + i] <= self.dims[1 + i] as i64 - 1 + x.upper[i] as i64 {
                        break;
                    }
                    pixel[1 + i] = x.lower[i] as i64;
                    i += 1;
                }
            }
        }
        Ok(out.list)
    }
}

/// Collects runs.
struct Runs {
    list: Vec<Run>,
    /// Bytes of shared memory so far, and where the row began.
    at: u64,
    row: u64,
    size: u32,
    /// Bytes that a row takes in shared memory at least.
    width: u64,
}

impl Runs {
    fn new(map: &TensorMap) -> Runs {
        let width = if map.interleave == Interleave::None { map.swizzle.width() as u64 } else { 0 };
        Runs { list: Vec::new(), at: 0, row: 0, size: map.ty.bytes(), width }
    }

    fn push(&mut self, global: Option<u64>) {
        let joins = |r: &Run| {
            r.shared + r.bytes as u64 == self.at
                && !self.at.is_multiple_of(16)
                && r.global.map(|a| a + r.bytes as u64) == global
        };
        match self.list.last_mut() {
            Some(r) if joins(r) => r.bytes += self.size,
            _ => self.list.push(Run { shared: self.at, global, bytes: self.size }),
        }
        self.at += self.size as u64;
    }

    fn end_row(&mut self) {
        self.at = self.at.max(self.row + self.width);
        self.row = self.at;
    }
}
