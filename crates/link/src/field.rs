//! Relocations: which bits of a value go to which bits of a word.
//!
//! The places were measured: nvlink of 13.5 was given each number against a known address, on sm_80 and sm_90.

/// A run of bits: lowest bit of the value, lowest bit of the place, number of bits.
type Run = (u8, u8, u8);

/// What a relocation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    runs: &'static [Run],
    /// Where the number of the constant bank goes.
    bank: Option<u8>,
}

/// Numbers of relocations that are treated apart.
pub mod number {
    /// 32-bit address.
    pub const ABS32: u32 = 1;
    /// 64-bit address.
    pub const ABS64: u32 = 2;
    /// Generic addresses: 32 bits, 64 bits, and single bytes of them, the lowest first. Of a constant they are known when the file is
    /// loaded, not before.
    pub const GENERIC: [u32; 10] = [3, 4, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5b];
    /// Low half of an address in bits 63:32.
    pub const ABS32_LO_32: u32 = 0x38;
    /// High half of an address in bits 63:32.
    pub const ABS32_HI_32: u32 = 0x39;
    /// Hints to yield that would be removed; the vendor leaves them in place.
    pub const YIELD: [u32; 2] = [0x44, 0x45];
    /// 32 bits that become 0 if the function is removed.
    pub const UNUSED_CLEAR32: u32 = 0x48;
    /// 64 bits that become 0 if the function is removed.
    pub const UNUSED_CLEAR64: u32 = 0x49;
    /// Addresses of functions that may be unified: 64 bits, 32 bits, low and high half in bits 63:32.
    pub const UNIFIED: [(u32, u32); 4] = [(0x66, ABS64), (0x67, ABS32), (0x70, ABS32_LO_32), (0x71, ABS32_HI_32)];
    /// Bytes of addresses of functions that may be unified, and of functions that are not.
    pub const UNIFIED_8: (u32, u32) = (0x68, 0x4c);
    /// Offset of the table of unified functions in an indirect call.
    pub const UFT_OFFSET: u32 = 0x72;
    /// The last number that is known.
    pub const LAST: u32 = 0x73;
    /// Numbers of capsules begin here. (Observed: ptxas 13.5 writes these.)
    pub const CAPSULE: u32 = 0x1_0000;
    /// 64 bits in a capsule that become 0 if the function is removed.
    pub const CAPSULE_CLEAR64: u32 = CAPSULE + 0xe;
    /// Addresses of functions that may be unified, in a capsule.
    pub const CAPSULE_UNIFIED: [(u32, u32); 3] =
        [(CAPSULE + 0x32, CAPSULE + 2), (CAPSULE + 0x3e, CAPSULE + 5), (CAPSULE + 0x3f, CAPSULE + 6)];
    /// The numbers of capsules that are known.
    pub const CAPSULES: [u32; 15] = [1, 2, 3, 4, 5, 6, 8, 0xe, 0xf, 0x28, 0x29, 0x32, 0x3d, 0x3e, 0x3f];

    /// True for numbers that files may have.
    pub fn is_known(kind: u32) -> bool {
        kind <= LAST || kind.checked_sub(CAPSULE).is_some_and(|k| CAPSULES.contains(&k))
    }
}

const fn plain(runs: &'static [Run]) -> Option<Field> {
    Some(Field { runs, bank: None })
}

const BYTES: [&[Run]; 8] = [
    &[(0, 0, 8)],
    &[(8, 0, 8)],
    &[(16, 0, 8)],
    &[(24, 0, 8)],
    &[(32, 0, 8)],
    &[(40, 0, 8)],
    &[(48, 0, 8)],
    &[(56, 0, 8)],
];

impl Field {
    /// The field of a relocation; none for numbers that write nothing or are unknown.
    pub fn of(kind: u32) -> Option<Field> {
        match kind {
            1 | 3 | 6 | 0x22 | 0x34 | 0x46 | 0x48 | 0x65 | 0x67 => plain(&[(0, 0, 32)]),
            2 | 4 | 0x23 | 0x49 | 0x66 => plain(&[(0, 0, 64)]),
            0x37 | 0x38 | 0x70 => plain(&[(0, 32, 32)]),
            0x39 | 0x71 => plain(&[(32, 32, 32)]),
            0x3a => plain(&[(2, 34, 47)]),
            0x3b => plain(&[(0, 32, 16)]),
            0x3c => plain(&[(0, 32, 24)]),
            0x40 => Some(Field { runs: &[(2, 40, 14)], bank: Some(54) }),
            0x41 => plain(&[(2, 40, 14)]),
            0x42 => Some(Field { runs: &[(0, 38, 16)], bank: Some(54) }),
            0x47 => plain(&[(32, 0, 32)]),
            0x4a => plain(&[(0, 40, 24)]),
            0x4b => plain(&[(2, 16, 8), (10, 34, 47)]),
            0x72 => plain(&[(2, 16, 8), (10, 34, 48)]),
            0x73 => Some(Field { runs: &[(0, 37, 17)], bank: Some(54) }),
            0x4c..=0x53 => plain(BYTES[kind as usize - 0x4c]),
            0x54..=0x5b => plain(BYTES[kind as usize - 0x54]),
            0x5c..=0x63 => plain(BYTES[kind as usize - 0x5c]),
            0x68..=0x6f => plain(BYTES[kind as usize - 0x68]),
            0x64 => plain(&[(0, 44, 20)]),
            // In capsules what is resolved is constants, shared variables and places in debug information.
            0x1_0002 | number::CAPSULE_CLEAR64 => plain(&[(0, 0, 64)]),
            0x1_0003 => plain(&[(0, 0, 32)]),
            0x1_0004 => plain(&[(0, 0, 16)]),
            _ => None,
        }
    }

    /// True if a field of this number takes the whole of a value: it may not be larger than the field, nor have low bits where the
    /// field has none. (Numbers of halves and bytes of addresses take a part.)
    pub fn holds(self, kind: u32, value: u64) -> bool {
        const WHOLE: [u32; 10] = [1, 0x37, 0x3b, 0x3c, 0x40, 0x41, 0x42, 0x4a, 0x64, 0x73];
        let end = self.runs.iter().map(|r| r.0 + r.2).max().unwrap_or(64);
        let start = self.runs.iter().map(|r| r.0).min().unwrap_or(0);
        let high = if end >= 64 { 0 } else { (value as i64) >> end };
        !WHOLE.contains(&kind) || matches!(high, 0 | -1) && value.is_multiple_of(1 << start)
    }

    /// Bytes that the field reaches over.
    pub fn width(self) -> usize {
        let end = self.runs.iter().map(|r| r.1 as usize + r.2 as usize).max().unwrap_or(0);
        let end = end.max(self.bank.map_or(0, |b| b as usize + 5));
        match end.div_ceil(8) {
            n @ (0 | 1 | 4) => n,
            n if n <= 8 => 8,
            _ => 16,
        }
    }

    /// The bits of a value that the field takes.
    #[cfg(test)]
    pub fn mask(self) -> u64 {
        let mut mask = 0u64;
        for &(from, _, n) in self.runs {
            let ones = if n >= 64 { u64::MAX } else { (1 << n) - 1 };
            mask |= ones << from;
        }
        mask
    }

    /// The value in the field.
    pub fn get(self, place: &[u8]) -> u64 {
        let word = word(place);
        let mut value = 0;
        for &(from, to, n) in self.runs {
            let ones = if n >= 64 { u64::MAX as u128 } else { (1u128 << n) - 1 };
            value |= ((word >> to & ones) as u64) << from;
        }
        value
    }

    /// Writes a value, and the number of a constant bank where the field has one.
    pub fn set(self, place: &mut [u8], value: u64, bank: u8) {
        let mut word = word(place);
        for &(from, to, n) in self.runs {
            let ones = if n >= 64 { u64::MAX as u128 } else { (1u128 << n) - 1 };
            word = word & !(ones << to) | ((value >> from) as u128 & ones) << to;
        }
        if let Some(to) = self.bank {
            word = word & !(31 << to) | (bank as u128 & 31) << to;
        }
        let n = place.len();
        place.copy_from_slice(&word.to_le_bytes()[..n]);
    }
}

fn word(place: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes[..place.len().min(16)].copy_from_slice(&place[..place.len().min(16)]);
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words before and after that nvlink made.
    #[test]
    fn words_that_the_vendor_made() {
        for (kind, before, value, bank, after) in [
            (0x4a, 0x0000000dff007388u64, 4, 0, 0x0000040dff007388u64),
            (0x40, 0x00000000ff0d7624, 4, 3, 0x00c00100ff0d7624),
            (0x42, 0x00c00000ff067b82, 4, 3, 0x00c00100ff067b82),
            (0x37, 0x0000000000047882, 0x24, 0, 0x0000002400047882),
            (0x41, 0x3000000506057b60, 0x168, 0, 0x30005a0506057b60),
            (0x42, 0x0080000000007b82, 0x8000, 2, 0x00a0000000007b82),
        ] {
            let field = Field::of(kind).unwrap();
            let mut bytes = before.to_le_bytes();
            assert_eq!(field.width(), 8);
            field.set(&mut bytes, value, bank);
            assert_eq!(u64::from_le_bytes(bytes), after, "{kind:#x}");
            assert_eq!(field.get(&bytes), value);
        }
    }

    #[test]
    fn values_that_do_not_fit() {
        for (kind, value, fits) in [
            (0x42, 0xffff, true),
            (0x42, 0x1_0000, false),
            (0x40, 0x10, true),
            (0x40, 0x12, false),
            (0x3b, u64::MAX, true),
            (0x3b, 0x8_0000, false),
            (0x4a, 0x100_0000, false),
            (0x38, 0x1_0000_0000, true),
            (2, u64::MAX, true),
        ] {
            assert_eq!(Field::of(kind).unwrap().holds(kind, value), fits, "{kind:#x} {value:#x}");
        }
    }

    #[test]
    fn every_field_gives_back_what_it_holds() {
        let mut random = testkit::Random(3);
        for kind in 0..=number::LAST {
            let Some(field) = Field::of(kind) else { continue };
            for _ in 0..50 {
                let mut place = random.word().to_le_bytes()[..field.width()].to_vec();
                let value = random.bits() & field.mask();
                field.set(&mut place, value, 3);
                assert_eq!(field.get(&place), value, "{kind:#x}");
            }
        }
    }
}
