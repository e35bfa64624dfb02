//! How the chips differ in what the simulator does: one table.

use crate::memory::SHARED_RESERVED;
use crate::texture::Handles;

/// Where the words of bank 0 lie that the driver fills (read off what the vendor's code for each chip loads; `None`: no code
/// of that chip reads it), and what else differs.
pub struct Chip {
    /// Generic bases of shared memory and of bank 0.
    pub shared_base: Option<usize>,
    /// See `shared_base`.
    pub bank_base: Option<usize>,
    /// End of the parameters, relative to the base of bank 0.
    pub param_end_offset: Option<usize>,
    /// Generic base of constants.
    pub const_base: usize,
    /// Size of the shared memory of a CTA together with that of others.
    pub aggr_shared: Option<usize>,
    /// Words of clusters.
    pub clusters: bool,
    /// Addresses of the first and past the last byte of the parameters.
    pub param_address: Option<usize>,
    /// The descriptor of global memory.
    pub descriptor: Option<usize>,
    /// Addresses of the tables of textures, of samplers, and of surfaces.
    pub tables: [usize; 3],
    /// How handles of textures are laid out.
    pub handles: Handles,
    /// Where the parameters begin.
    pub params: usize,
    /// Bytes at the start of shared memory that belong to the system.
    pub reserved: u32,
    /// Products that a matrix instruction sums at once; half as many of tf32, but not fewer than 4.
    pub sums: usize,
    /// Barriers in shared memory are words that plain loads and stores use, too.
    pub plain_barriers: bool,
}

const TURING: Chip = Chip {
    shared_base: Some(0x18),
    bank_base: Some(0x40),
    param_end_offset: Some(0x114),
    const_base: 0x50,
    aggr_shared: None,
    clusters: false,
    param_address: None,
    descriptor: None,
    tables: [0x70, 0x78, 0x80],
    handles: Handles::Packed,
    params: 0x160,
    reserved: 0,
    sums: 4,
    plain_barriers: true,
};
const AMPERE: Chip = Chip { param_end_offset: Some(0x12c), descriptor: Some(0x118), sums: 8, ..TURING };
const HOPPER: Chip = Chip {
    shared_base: None,
    bank_base: None,
    param_end_offset: None,
    const_base: 0xd0,
    aggr_shared: Some(0x13c),
    clusters: true,
    param_address: Some(0x198),
    descriptor: Some(0x208),
    tables: [0xf0, 0xf8, 0x100],
    handles: Handles::Apart,
    params: 0x210,
    reserved: SHARED_RESERVED,
    sums: 16,
    plain_barriers: false,
};

impl Chip {
    /// The chip of a number: 75 for sm_75.
    pub fn of(sm: u16) -> Option<&'static Chip> {
        Some(match sm {
            75 => &TURING,
            80..=89 => &AMPERE,
            90 => &HOPPER,
            _ => return None,
        })
    }
}
