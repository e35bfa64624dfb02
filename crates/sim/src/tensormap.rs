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
//! elements outside are NaN with all bits of the mantissa set; in an interleaved tensor the slices of the channels lie
//! beside each other, behind the dimension before the last.

use crate::memory::{get, put};

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
            Type::F16 | Type::BF16 => 0x7fff,
            Type::F32 | Type::F32Ftz | Type::TF32 | Type::TF32Ftz => 0x7fff_ffff,
            Type::F64 => 0x7fff_ffff_ffff_ffff,
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

/// A field that `tensormap.replace` changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// `.global_address`
    Address,
    /// `.rank`: the new value is one less than the rank.
    Rank,
    /// `.box_dim` of a dimension.
    Box(usize),
    /// `.global_dim`
    Dim(usize),
    /// `.global_stride`, in bytes, of the dimension one above
    Stride(usize),
    /// `.element_stride`
    Step(usize),
    /// `.elemtype`, by number
    Type,
    /// `.interleave_layout`, by number
    Interleave,
    /// `.swizzle_mode`, by number
    Swizzle,
    /// `.fill_mode`, by number
    Fill,
}

/// Writes one field of an object.
///
/// # Errors
/// The value does not fit the field.
pub fn replace(object: &mut [u8; SIZE], field: Field, value: u64) -> Result<(), String> {
    let low = value & 0xffff_ffff;
    let mut bits = |at: usize, shift: u32, count: u32, value: u64| {
        let mask = (1u64 << count) - 1;
        let word = get(object, at, 4) & !(mask << shift) | (value & mask) << shift;
        put(object, at, 4, word);
    };
    let range = |n: u64, max: u64, what: &str| match n {
        1.. if n <= max => Ok(n - 1),
        _ => Err(format!("{what} of {n} in a tensor map; 1 to {max} are possible")),
    };
    match field {
        Field::Address if !value.is_multiple_of(16) => {
            return Err(format!("a tensor at {value:#x}, which is no multiple of 16"));
        }
        Field::Address => {
            put(object, 0, 8, value);
        }
        Field::Rank if low > 4 => return Err(format!("a tensor of {} dimensions; 1 to 5 are possible", low + 1)),
        Field::Rank => bits(8, 4, 3, low),
        Field::Box(0) => bits(0x34, 24, 8, range(low, 256, "a box")?),
        Field::Box(i) => bits(0x38, 8 * (i as u32 - 1), 8, range(low, 256, "a box")?),
        Field::Dim(i) => put(object, 0x20 + 4 * i, 4, low.wrapping_sub(1)),
        Field::Stride(_) if !value.is_multiple_of(16) || value >> 40 != 0 => {
            return Err(format!("a stride of {value} bytes in a tensor map; it is a multiple of 16 below 2^40"));
        }
        Field::Stride(i) => {
            bits(0x0c + 4 * i, 0, 32, value >> 4);
            bits(0x1c, 4 * i as u32, 4, value >> 36);
        }
        Field::Step(i) => bits(0x34, 3 * i as u32, 3, range(low, 8, "a step")?),
        Field::Type if low > 12 => return Err(format!("there is no type {low} of elements in a tensor map")),
        Field::Type => {
            // tf32 is f32 with a mark.
            let tf32 = low > 10;
            bits(8, 7, 4, if tf32 { low - 4 } else { low });
            bits(8, 16, 1, tf32 as u64);
        }
        Field::Interleave if low > 2 => return Err(format!("there is no interleaving {low} in a tensor map")),
        Field::Interleave => bits(8, 11, 2, low),
        Field::Swizzle if low > 3 => return Err(format!("there is no swizzle {low} in a tensor map")),
        Field::Swizzle => bits(8, 13, 2, low),
        Field::Fill => bits(8, 15, 1, low),
    }
    Ok(())
}

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
    /// The map that an object holds.
    ///
    /// # Errors
    /// Its fields contradict each other: what is wrong.
    pub fn read(object: &[u8; SIZE]) -> Result<TensorMap, String> {
        let word = |at: usize| get(object, at, 4);
        let head = word(8);
        let code = (head >> 7 & 15) + if head >> 16 & 1 != 0 { 4 } else { 0 };
        let ty = Type::ALL.get(code as usize).map(|t| t.0).filter(|_| code > 10 || head >> 16 & 1 == 0);
        let half = |at: usize| get(object, at, 2);
        let map = TensorMap {
            address: get(object, 0, 8),
            ty: ty.ok_or_else(|| format!("a tensor map with elements of the unknown type {code}"))?,
            rank: (head >> 4 & 7) as usize + 1,
            dims: std::array::from_fn(|i| word(0x20 + 4 * i) + 1),
            strides: std::array::from_fn(|i| word(0x0c + 4 * i) << 4 | (word(0x1c) >> (4 * i) & 15) << 36),
            box_dims: std::array::from_fn(|i| object[0x37 + i] as u32 + 1),
            steps: std::array::from_fn(|i| (word(0x34) >> (3 * i) & 7) as u32 + 1),
            interleave: match head >> 11 & 3 {
                0 => Interleave::None,
                1 => Interleave::Slices16,
                2 => Interleave::Slices32,
                n => return Err(format!("a tensor map with the unknown interleaving {n}")),
            },
            swizzle: [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128][(head >> 13 & 3) as usize],
            nan: head >> 15 & 1 != 0,
            im2col: (object[0x40] == 1).then(|| Im2col {
                lower: std::array::from_fn(|i| half(0x44 + 2 * i) as i16 as i32),
                upper: std::array::from_fn(|i| half(0x4a + 2 * i) as i16 as i32),
                channels: half(0x50) as u32 + 1,
                pixels: half(0x52) as u32 + 1,
            }),
        };
        map.check()?;
        Ok(map)
    }

    /// The object of a map.
    pub fn object(&self) -> [u8; SIZE] {
        let mut o = [0; SIZE];
        let number = |n: u32| n as u64;
        let mut fields = vec![
            (Field::Address, self.address),
            (Field::Rank, (self.rank as u64).wrapping_sub(1)),
            (Field::Type, Type::ALL.iter().position(|t| t.0 == self.ty).unwrap_or(0) as u64),
            (Field::Interleave, self.interleave as u64),
            (Field::Swizzle, self.swizzle as u64),
            (Field::Fill, self.nan as u64),
        ];
        for i in 0..5 {
            fields.push((Field::Dim(i), self.dims[i]));
            fields.push((Field::Box(i), number(self.box_dims[i])));
            fields.push((Field::Step(i), number(self.steps[i])));
        }
        fields.extend((0..4).map(|i| (Field::Stride(i), self.strides[i])));
        for (field, value) in fields {
            // A field that does not fit stays zero; `check` tells of it.
            let _ = replace(&mut o, field, value);
        }
        if let Some(x) = &self.im2col {
            o[0x40] = 1;
            for i in 0..3 {
                put(&mut o, 0x44 + 2 * i, 2, x.lower[i] as u64);
                put(&mut o, 0x4a + 2 * i, 2, x.upper[i] as u64);
            }
            put(&mut o, 0x50, 2, (x.channels as u64).wrapping_sub(1));
            put(&mut o, 0x52, 2, (x.pixels as u64).wrapping_sub(1));
        }
        o
    }

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

    /// Bytes of a slice of channels.
    fn slice(&self) -> u32 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TensorMap {
        TensorMap {
            address: 0x7f00_0000_1000,
            ty: Type::F16,
            rank: 3,
            dims: [16, 5, 3, 1, 1],
            strides: [32, 160, 0, 0],
            box_dims: [8, 2, 2, 1, 1],
            ..TensorMap::default()
        }
    }

    #[test]
    fn objects_hold_maps() {
        let tiled = TensorMap { swizzle: Swizzle::B64, nan: true, ty: Type::TF32Ftz, ..map() };
        assert_eq!(TensorMap::read(&tiled.object()), Ok(tiled));
        let x = Im2col { lower: [-1, -2, 0], upper: [-3, 1, 0], channels: 8, pixels: 20 };
        let column = TensorMap { im2col: Some(x), steps: [1, 2, 1, 1, 1], strides: [32, 1 << 38, 0, 0], ..map() };
        assert_eq!(TensorMap::read(&column.object()), Ok(column));
        // The places that ptxas's code for tensormap.replace writes to.
        let o = tiled.object();
        assert_eq!(get(&o, 0x0c, 4), 2);
        assert_eq!(get(&o, 0x20, 4), 15);
        assert_eq!((o[0x37], o[0x38]), (7, 1));
        assert_eq!(get(&o, 8, 4), 2 << 4 | 8 << 7 | 1 << 16 | 2 << 13 | 1 << 15);
        assert!(TensorMap::read(&[0xff; SIZE]).is_err());
    }

    #[test]
    fn fields_are_held_to_their_ranges() {
        let mut o = map().object();
        for (field, value) in [
            (Field::Address, 8),
            (Field::Rank, 5),
            (Field::Box(1), 0),
            (Field::Box(1), 257),
            (Field::Stride(0), 24),
            (Field::Step(0), 9),
            (Field::Type, 13),
            (Field::Swizzle, 4),
        ] {
            assert!(replace(&mut o, field, value).is_err(), "{field:?}");
        }
        assert_eq!(o, map().object());
    }

    /// By hand: a box of 8 x 2 x 2 halves from (12, 4, -1) on; only 4 x 1 elements of its second plane are inside.
    #[test]
    fn tiles_end_at_the_tensor() {
        let m = map();
        let runs = m.runs(&[12, 4, -1], None).unwrap();
        assert_eq!(m.bytes(), 64);
        let inside: Vec<Run> = runs.iter().copied().filter(|r| r.global.is_some()).collect();
        assert_eq!(inside, [Run { shared: 32, global: Some(m.address + 4 * 32 + 24), bytes: 8 }]);
        assert_eq!(runs.iter().map(|r| r.bytes).sum::<u32>(), 64);
        assert!(m.runs(&[0, 0], None).is_err() && m.runs(&[0, 0, 0], Some(&[0])).is_err());
    }

    /// By hand: a 4 x 3 image, box from (-1, -1) to (2, 1), every pixel one row of 16 bytes.
    #[test]
    fn columns_walk_the_box() {
        let m = TensorMap {
            dims: [8, 4, 3, 2, 1],
            strides: [16, 64, 192, 0],
            rank: 4,
            im2col: Some(Im2col { lower: [-1, -1, 0], upper: [-1, -1, 0], channels: 8, pixels: 6 }),
            ..map()
        };
        let runs = m.runs(&[0, 2, 1, 0], Some(&[1, 0])).unwrap();
        // (2,1) is the last of the box; then (-1,-1) .. (2,-1) and (-1,0) of the next image, each shifted by W+1.
        let want = [Some(64 + 48), None, None, None, None, Some(192)];
        let got: Vec<_> = runs.iter().map(|r| r.global.map(|a| a - m.address)).collect();
        assert_eq!(got, want);
    }

    /// The permutation as the tables of the document give it: line n of 128 bytes has its pieces at n xor piece.
    #[test]
    fn swizzles() {
        assert_eq!(Swizzle::B128.place(0x400 + 3 * 128 + 16), 0x400 + 3 * 128 + 2 * 16);
        assert_eq!(Swizzle::B64.place(0x400 + 3 * 128 + 5 * 16), 0x400 + 3 * 128 + 6 * 16);
        assert_eq!(Swizzle::B32.place(0x400 + 3 * 128 + 5 * 16), 0x400 + 3 * 128 + 4 * 16);
        assert_eq!(Swizzle::None.place(0x590), 0x590);
    }

    /// Rows of a swizzled box are as wide as the swizzle.
    #[test]
    fn rows_take_the_width_of_the_swizzle() {
        let m = TensorMap { swizzle: Swizzle::B32, ..map() };
        let runs = m.runs(&[0, 0, 0], None).unwrap();
        assert_eq!(runs.iter().map(|r| r.shared).collect::<Vec<_>>(), [0, 32, 64, 96]);
        assert_eq!(m.bytes(), 64);
    }

    /// Slices of 8 channels, each with all pixels: channel 9 of pixel (1, 0) is in the second slice.
    #[test]
    fn interleaved_channels() {
        let m = TensorMap {
            interleave: Interleave::Slices16,
            dims: [16, 4, 3, 1, 1],
            strides: [16, 256, 0, 0],
            box_dims: [16, 2, 1, 1, 1],
            ..map()
        };
        let runs = m.runs(&[0, 1, 0], None).unwrap();
        let got: Vec<_> = runs.iter().map(|r| (r.shared, r.global.map(|a| a - m.address))).collect();
        assert_eq!(got, [(0, Some(16)), (16, Some(32)), (32, Some(64 + 16)), (48, Some(64 + 32))]);
    }
}
