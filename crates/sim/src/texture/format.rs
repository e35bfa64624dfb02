//! Formats of texels: bits to values and back.

use crate::num::soft::{F16, Round, from_f64, to_f64};

/// Format of a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // bits and kind
pub enum Format {
    Unorm8,
    Unorm16,
    Snorm8,
    Snorm16,
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    #[default]
    F32,
}

impl Format {
    /// All, with their names in a launch file and their numbers of `channel_data_type` (those of OpenCL, as section 5.3 of the
    /// PTX ISA lists them).
    pub const ALL: [(Format, &'static str, u32); 12] = [
        (Format::Unorm8, "unorm8", 0x10d2),
        (Format::Unorm16, "unorm16", 0x10d3),
        (Format::Snorm8, "snorm8", 0x10d0),
        (Format::Snorm16, "snorm16", 0x10d1),
        (Format::U8, "u8", 0x10da),
        (Format::U16, "u16", 0x10db),
        (Format::U32, "u32", 0x10dc),
        (Format::S8, "s8", 0x10d7),
        (Format::S16, "s16", 0x10d8),
        (Format::S32, "s32", 0x10d9),
        (Format::F16, "f16", 0x10dd),
        (Format::F32, "f32", 0x10de),
    ];

    /// Bytes of a component.
    pub fn bytes(self) -> u32 {
        match self {
            Format::Unorm8 | Format::Snorm8 | Format::U8 | Format::S8 => 1,
            Format::U32 | Format::S32 | Format::F32 => 4,
            _ => 2,
        }
    }

    /// Reads as integers.
    pub fn is_integer(self) -> bool {
        matches!(self, Format::U8 | Format::U16 | Format::U32 | Format::S8 | Format::S16 | Format::S32)
    }

    /// The value of a component's bits; integers as they are.
    pub fn value(self, bits: u64) -> f64 {
        let signed = |n: u32| ((bits << (64 - n)) as i64 >> (64 - n)) as f64;
        match self {
            Format::Unorm8 => bits as f64 / 255.0,
            Format::Unorm16 => bits as f64 / 65535.0,
            Format::Snorm8 => (signed(8) / 127.0).max(-1.0),
            Format::Snorm16 => (signed(16) / 32767.0).max(-1.0),
            Format::U8 | Format::U16 | Format::U32 => bits as f64,
            Format::S8 => signed(8),
            Format::S16 => signed(16),
            Format::S32 => signed(32),
            Format::F16 => to_f64(&F16, bits),
            Format::F32 => f32::from_bits(bits as u32) as f64,
        }
    }

    /// The bits of a component that a formatted store of a 32-bit word leaves: floats are converted and saturated, integers
    /// are saturated.
    pub fn stored(self, word: u32) -> u64 {
        let f = f32::from_bits(word) as f64;
        let norm = |low: f64, max: f64| if f.is_nan() { 0 } else { (f.clamp(low, 1.0) * max).round_ties_even() as i64 };
        match self {
            Format::Unorm8 => norm(0.0, 255.0) as u64,
            Format::Unorm16 => norm(0.0, 65535.0) as u64,
            Format::Snorm8 => norm(-1.0, 127.0) as u64 & 0xff,
            Format::Snorm16 => norm(-1.0, 32767.0) as u64 & 0xffff,
            Format::U8 => word.min(0xff) as u64,
            Format::U16 => word.min(0xffff) as u64,
            Format::S8 => (word as i32).clamp(-128, 127) as u64 & 0xff,
            Format::S16 => (word as i32).clamp(-32768, 32767) as u64 & 0xffff,
            Format::F16 => from_f64(&F16, f, Round::Rn),
            Format::U32 | Format::S32 | Format::F32 => word as u64,
        }
    }
}
