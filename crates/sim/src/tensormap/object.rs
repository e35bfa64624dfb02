//! The bytes of a tensor map: fields that are changed, read and written.

use super::{Im2col, Interleave, SIZE, Swizzle, TensorMap, Type};
use crate::memory::{get, put};

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
}
