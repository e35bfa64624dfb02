//! Tensor maps: what the 128 bytes of the object say, and which bytes a tensor copy moves. Data of the world, read by both
//! engines.
//!
//! The format of the object is opaque. The places of the fields of a tiled map are those that the code for
//! `tensormap.replace` writes to (observed in what ptxas 13 emits for sm_90a); those of an im2col map, which that
//! instruction does not change, are this project's own:
//!
//! | byte | bits | field |
//! |---|---|---|
//! | 0x00 | 64 | address of the tensor |
//! | 0x08 | 4..6, 7..10, 16 | rank less 1; type of the elements; tf32 instead of f32 |
//! | 0x08 | 11..12, 13..14, 15 | interleaving; swizzle; NaN instead of zero outside |
//! | 0x0c, 0x10, 0x14, 0x18 | 32 | bits 4..35 of the strides of dimensions 1 to 4, in bytes |
//! | 0x1c | 4 each | bits 36..39 of the strides |
//! | 0x20 .. 0x30 | 32 each | sizes less 1 |
//! | 0x34 | 3 each | steps of the traversal less 1 |
//! | 0x37 .. 0x3b | 8 each | sizes of the box less 1 |
//! | 0x40 | 8 | 1 for im2col (own) |
//! | 0x44, 0x4a | 3 x 16 | lower and upper corner of the pixels' box, from the dimension after the channels on (own) |
//! | 0x50, 0x52 | 16 each | channels of a pixel, pixels of a column, each less 1 (own) |
//!
//! What PTX leaves open is decided here: a row of a swizzled box takes the whole width of its swizzle in shared memory;
//! in an interleaved tensor the slices of the channels lie beside each other, behind the dimension before the last. The
//! elements outside are [`OOB_NAN`], which is not in the document but has been seen on GPUs.

mod changes;
mod object;
mod runs;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use changes::Changes;
pub use object::{Field, replace};
pub use runs::Run;

/// The half that marks what lies outside of a tensor ("OOB NaN"): tensor copies write it, so many times as an element has
/// 16 bits, and `fma.oob` knows it, for f16 and bf16 alike. PTX does not give its bits; these are what people
/// report to have read back from tensor copies on sm_120 and sm_121, and what `fma.oob` knew on sm_100. (CUTLASS fills with
/// 0x7eff where it does without such copies, before sm_90: its own convention.)
pub const OOB_NAN: u16 = 0x7ff7;

/// Bytes of an object.
pub const SIZE: usize = 128;
/// Bytes that the address of an object is a multiple of.
pub const ALIGN: u32 = 64;

/// Type of the elements; the number is that of `tensormap.replace.elemtype`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // named as in PTX
pub enum Type {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F32Ftz,
    F64,
    BF16,
    TF32,
    TF32Ftz,
}

impl Type {
    /// All, by number, with their names in a launch file.
    pub const ALL: [(Type, &'static str); 13] = [
        (Type::U8, "u8"),
        (Type::U16, "u16"),
        (Type::U32, "u32"),
        (Type::S32, "s32"),
        (Type::U64, "u64"),
        (Type::S64, "s64"),
        (Type::F16, "f16"),
        (Type::F32, "f32"),
        (Type::F32Ftz, "f32.ftz"),
        (Type::F64, "f64"),
        (Type::BF16, "bf16"),
        (Type::TF32, "tf32"),
        (Type::TF32Ftz, "tf32.ftz"),
    ];

    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Type::U8 => 1,
            Type::U16 | Type::F16 | Type::BF16 => 2,
            Type::U64 | Type::S64 | Type::F64 => 8,
            _ => 4,
        }
    }

    /// What stands for an element outside of the tensor where NaN is asked for; zero for integers.
    pub fn nan(self) -> u64 {
        match self {
            Type::F16 | Type::BF16 | Type::F32 | Type::F32Ftz | Type::TF32 | Type::TF32Ftz | Type::F64 => {
                0x0001_0001_0001_0001 * OOB_NAN as u64
            }
            _ => 0,
        }
    }

    /// How an element changes on its way into shared memory: denormals may become zero, tf32 keeps 10 bits (to nearest,
    /// ties to even).
    pub fn loaded(self, bits: u64) -> u64 {
        let flush = |x: u64| if x & 0x7f80_0000 == 0 { x & 0x8000_0000 } else { x };
        let round = |x: u64| match x & 0x7f80_0000 {
            0x7f80_0000 => x,
            _ => (x + 0xfff + (x >> 13 & 1)) & 0xffff_e000,
        };
        match self {
            Type::F32Ftz => flush(bits),
            Type::TF32 => round(bits),
            Type::TF32Ftz => round(flush(bits)),
            _ => bits,
        }
    }
}

/// How channels are interleaved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interleave {
    /// Not.
    #[default]
    None,
    /// In slices of 16 bytes.
    Slices16,
    /// In slices of 32 bytes.
    Slices32,
}

/// How lines of 128 bytes of shared memory are permuted, in pieces of 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Swizzle {
    /// Not.
    #[default]
    None,
    /// Rows of 32 bytes.
    B32,
    /// Rows of 64 bytes.
    B64,
    /// Rows of 128 bytes.
    B128,
}

impl Swizzle {
    /// Bytes of a row; 0 where nothing is permuted.
    pub fn width(self) -> u32 {
        match self {
            Swizzle::None => 0,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }

    /// The address in shared memory where a byte is that would be at `a` without the permutation: the number of its
    /// 16-byte piece in its row, exclusive or the number of the 128-byte line.
    pub fn place(self, a: u64) -> u64 {
        let pieces = (self.width() / 16) as u64;
        if pieces == 0 { a } else { a ^ (a >> 7 & (pieces - 1)) << 4 }
    }
}

/// What an im2col map has instead of a box.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Im2col {
    /// First pixel that a column starts from, by dimension (W, H, D), against the first of the tensor.
    pub lower: [i32; 3],
    /// Last pixel, against the last of the tensor.
    pub upper: [i32; 3],
    /// Channels of each pixel.
    pub channels: u32,
    /// Pixels that are copied at once.
    pub pixels: u32,
}

/// A tensor map. Dimension 0 is the innermost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorMap {
    /// Address of the tensor in global memory.
    pub address: u64,
    /// Type of the elements.
    pub ty: Type,
    /// Dimensions, 1 to 5.
    pub rank: usize,
    /// Elements of each dimension.
    pub dims: [u64; 5],
    /// Bytes from one to the next in dimensions 1 to 4.
    pub strides: [u64; 4],
    /// Elements of the box that a copy moves.
    pub box_dims: [u32; 5],
    /// Every how many elements of the box are moved.
    pub steps: [u32; 5],
    /// Interleaving of the channels.
    pub interleave: Interleave,
    /// Permutation of shared memory.
    pub swizzle: Swizzle,
    /// NaN instead of zero for elements outside of the tensor.
    pub nan: bool,
    /// An im2col map.
    pub im2col: Option<Im2col>,
}

impl Default for TensorMap {
    fn default() -> TensorMap {
        TensorMap {
            address: 0,
            ty: Type::U8,
            rank: 1,
            dims: [1; 5],
            strides: [0; 4],
            box_dims: [1; 5],
            steps: [1; 5],
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            nan: false,
            im2col: None,
        }
    }
}

impl TensorMap {
    /// Checks what the document demands of a map.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let bad = |what: String| Err(format!("a tensor map {what}"));
        let size = self.ty.bytes();
        if !(1..=5).contains(&self.rank) {
            return bad(format!("of {} dimensions; 1 to 5 are possible", self.rank));
        }
        let unit = if self.interleave == Interleave::Slices32 { 32 } else { 16 };
        if !self.address.is_multiple_of(unit) {
            return bad(format!("of a tensor at {:#x}, which is no multiple of {unit}", self.address));
        }
        for i in 0..self.rank {
            if self.dims[i] == 0 || self.dims[i] > 1 << 32 {
                return bad(format!("with a dimension of {} elements", self.dims[i]));
            }
            if self.steps[i] == 0 || self.steps[i] > 8 {
                return bad(format!("with a step of {}; 1 to 8 are possible", self.steps[i]));
            }
            if self.im2col.is_none() && !(1..=256).contains(&self.box_dims[i]) {
                return bad(format!("with a box of {} elements; 1 to 256 are possible", self.box_dims[i]));
            }
            if i > 0 && (!self.strides[i - 1].is_multiple_of(unit) || self.strides[i - 1] >> 40 != 0) {
                return bad(format!("with a stride of {} bytes, which is no multiple of {unit}", self.strides[i - 1]));
            }
        }
        if self.interleave != Interleave::None && self.rank < 3 {
            return bad("with interleaved channels of less than 3 dimensions".into());
        }
        if self.interleave == Interleave::Slices32 && self.swizzle != Swizzle::B32 {
            return bad("interleaved by 32 bytes without a swizzle of 32 bytes".into());
        }
        if let Some(x) = &self.im2col {
            if self.rank < 3 {
                return bad("for im2col of less than 3 dimensions".into());
            }
            if !(1..=256).contains(&x.channels) || !(1..=1024).contains(&x.pixels) {
                return bad(format!(
                    "with {} channels and {} pixels; 1 to 256 and 1 to 1024 are possible",
                    x.channels, x.pixels
                ));
            }
        }
        let row = size * self.im2col.map_or(self.box_dims[0], |x| x.channels);
        if self.interleave == Interleave::None {
            if !row.is_multiple_of(16) {
                return bad(format!("whose box has rows of {row} bytes, no multiple of 16"));
            }
            if self.swizzle != Swizzle::None && row > self.swizzle.width() {
                let width = self.swizzle.width();
                return bad(format!("whose box has rows of {row} bytes; the swizzle takes {width} at most"));
            }
        } else if !row.is_multiple_of(self.slice()) {
            return bad(format!("whose box has {row} bytes of channels, no multiple of its slices"));
        }
        Ok(())
    }
}
