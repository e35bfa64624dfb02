//! How the chips differ in what the simulator does: one table.

use crate::memory::SHARED_RESERVED;
use crate::texture::Handles;

/// Words of bank 0 that the driver fills on every chip, and those of clusters.
#[derive(Clone, Copy)]
pub struct Words {
    /// Threads of a CTA: x, y, z.
    pub block: usize,
    /// CTAs: x, y, z.
    pub grid: usize,
    /// Generic base of local memory.
    pub local_base: usize,
    /// What R1 holds at the start.
    pub stack: usize,
    /// Bytes of shared memory that the launch adds.
    pub dynamic_shared: usize,
    /// Those of clusters.
    pub clusters: Option<ClusterWords>,
}

/// See [`Words`].
#[derive(Clone, Copy)]
pub struct ClusterWords {
    /// 1 if the launch names the size of a cluster.
    pub explicit: usize,
    /// CTAs of a cluster: x, y, z.
    pub size: usize,
    /// The reciprocals of these, as singles.
    pub reciprocal: usize,
    /// Clusters: x, y, z.
    pub count: usize,
    /// CTAs of a cluster in all.
    pub ranks: usize,
}

/// What `SR_CgaSize` holds from sm_100 on. Code takes so many times [`CGA_WORDS`] off the addresses of words that depend on the cluster:
/// any number would do, but 0 would hide code that forgets it.
pub const CGA_SIZE: u32 = 1;
/// See [`CGA_SIZE`].
const CGA_WORDS: usize = 0xa0 * CGA_SIZE as usize;

const FIRST: Words =
    Words { block: 0x0, grid: 0xc, local_base: 0x20, stack: 0x28, dynamic_shared: 0x2c, clusters: None };

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
    /// Words of clusters, and more.
    pub words: Words,
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
    words: FIRST,
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
    words: Words {
        clusters: Some(ClusterWords { explicit: 0x140, size: 0x144, reciprocal: 0x150, count: 0x15c, ranks: 0x188 }),
        ..FIRST
    },
    param_address: Some(0x198),
    descriptor: Some(0x208),
    tables: [0xf0, 0xf8, 0x100],
    handles: Handles::Apart,
    params: 0x210,
    reserved: SHARED_RESERVED,
    sums: 16,
    plain_barriers: false,
};

const BLACKWELL: Chip = Chip {
    words: Words {
        block: 0x360,
        grid: 0x370,
        local_base: 0x2f8,
        stack: 0x37c,
        dynamic_shared: 0x2ac - CGA_WORDS,
        clusters: Some(ClusterWords {
            explicit: 0x36c,
            size: 0x2a0 - CGA_WORDS,
            reciprocal: 0x2b0 - CGA_WORDS,
            count: 0x2c0 - CGA_WORDS,
            ranks: 0x2cc - CGA_WORDS,
        }),
    },
    const_base: 0x120,
    aggr_shared: Some(0x2bc - CGA_WORDS),
    param_address: Some(0x348),
    descriptor: Some(0x358),
    tables: [0x150, 0x158, 0x160],
    params: 0x380,
    ..HOPPER
};

impl Chip {
    /// The chip of a number: 75 for sm_75.
    pub fn of(sm: u16) -> Option<&'static Chip> {
        Some(match sm {
            75 => &TURING,
            80..=89 => &AMPERE,
            90 => &HOPPER,
            100..=121 => &BLACKWELL,
            _ => return None,
        })
    }
}
