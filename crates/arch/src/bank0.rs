//! The words of constant bank 0 that the driver fills at a launch.
//!
//! Source: the constant operands that `ptxas` emits for reads of the special registers, per SM. All offsets are bytes.

/// Offsets into constant bank 0; `None` where the SM reads the value elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank0 {
    /// First byte of the kernel parameters.
    pub params: u16,
    /// `%ntid.x`; y and z follow.
    pub ntid: u16,
    /// `%nctaid.x`; y and z follow.
    pub nctaid: u16,
    /// Generic base address of the shared window (64 bits).
    pub shared_window: Option<u16>,
    /// Generic base address of the local window (64 bits).
    pub local_window: u16,
    /// Initial stack pointer R1.
    pub stack: u16,
    /// `%dynamic_smem_size`
    pub dynamic_smem_size: Option<u16>,
    /// `%gridid` (64 bits).
    pub gridid: u16,
    /// Generic address of bank 0 itself (64 bits); the parameters lie at `params` from there.
    pub self_address: Option<u16>,
    /// Generic address of the parameters (64 bits).
    pub param_address: Option<u16>,
    /// Generic address of the end of the parameters (64 bits).
    pub param_end: Option<u16>,
    /// Generic base address of `.const`, bank 3 (64 bits).
    pub const_window: u16,
    /// Descriptor table of textures and surfaces (64 bits).
    pub texture_table: u16,
    /// `%envreg0`; those up to 15 follow.
    pub envreg: u16,
    /// `%envreg16`; the next ones follow.
    pub envreg16: u16,
    /// `%nsmid`
    pub nsmid: u16,
    /// Bytes to take off the size of shared memory for `%total_smem_size`.
    pub smem_taken: Option<u16>,
    /// Default memory descriptor of `desc[UR]` accesses (64 bits).
    pub descriptor: Option<u16>,
    /// `%reserved_smem_offset_end`; `_1` follows.
    pub reserved_smem_end: Option<u16>,
    /// Flag that `fence.proxy.alias` tests.
    pub proxy_alias: Option<u16>,
    /// `%current_graph_exec` (64 bits).
    pub current_graph_exec: u16,
    /// `%aggr_smem_size`
    pub aggr_smem_size: Option<u16>,
    /// 1 for `%is_explicit_cluster`.
    pub is_explicit_cluster: Option<u16>,
    /// `%cluster_nctaid.x`; y and z follow.
    pub cluster_nctaid: Option<u16>,
    /// f32 reciprocals of `%cluster_nctaid`, x, y, z.
    pub cluster_reciprocal: Option<u16>,
    /// `%nclusterid.x`; y and z follow.
    pub nclusterid: Option<u16>,
    /// `%cluster_nctarank`
    pub cluster_nctarank: Option<u16>,
    /// The sizes and counts of clusters (but for `is_explicit_cluster`), the sizes and the reserved end of shared memory and the first sixteen `%envreg` lie
    /// [`CGA_STEP`] times the special register `SR_CgaSize` below what is said here.
    pub scaled: bool,
}

/// See [`Bank0::scaled`].
pub const CGA_STEP: i32 = 0xa0;

const SM_75: Bank0 = Bank0 {
    params: 0x160,
    ntid: 0x0,
    nctaid: 0xc,
    shared_window: Some(0x18),
    local_window: 0x20,
    stack: 0x28,
    dynamic_smem_size: Some(0x2c),
    gridid: 0x30,
    self_address: Some(0x40),
    param_address: None,
    param_end: None,
    const_window: 0x50,
    texture_table: 0x70,
    envreg: 0x88,
    envreg16: 0xc8,
    nsmid: 0x10c,
    smem_taken: None,
    descriptor: None,
    reserved_smem_end: None,
    proxy_alias: None,
    current_graph_exec: 0x120,
    aggr_smem_size: None,
    is_explicit_cluster: None,
    cluster_nctaid: None,
    cluster_reciprocal: None,
    nclusterid: None,
    cluster_nctarank: None,
    scaled: false,
};

const SM_80: Bank0 = Bank0 {
    smem_taken: Some(0x114),
    descriptor: Some(0x118),
    reserved_smem_end: Some(0x120),
    proxy_alias: Some(0x128),
    current_graph_exec: 0x130,
    ..SM_75
};

const SM_90: Bank0 = Bank0 {
    params: 0x210,
    shared_window: None,
    self_address: None,
    param_address: Some(0x198),
    param_end: Some(0x1a0),
    const_window: 0xd0,
    texture_table: 0xf0,
    envreg: 0x40,
    envreg16: 0x80,
    descriptor: Some(0x208),
    reserved_smem_end: Some(0x68),
    proxy_alias: Some(0x18c),
    current_graph_exec: 0x190,
    aggr_smem_size: Some(0x13c),
    is_explicit_cluster: Some(0x140),
    cluster_nctaid: Some(0x144),
    cluster_reciprocal: Some(0x150),
    nclusterid: Some(0x15c),
    cluster_nctarank: Some(0x188),
    ..SM_80
};

const SM_100: Bank0 = Bank0 {
    params: 0x380,
    ntid: 0x360,
    nctaid: 0x370,
    shared_window: None,
    local_window: 0x2f8,
    stack: 0x37c,
    dynamic_smem_size: Some(0x2ac),
    gridid: 0x140,
    self_address: None,
    param_address: Some(0x348),
    param_end: Some(0x350),
    const_window: 0x120,
    texture_table: 0x150,
    envreg: 0x250,
    envreg16: 0xd0,
    nsmid: 0x2d0,
    smem_taken: Some(0x16c),
    descriptor: Some(0x358),
    reserved_smem_end: Some(0x278),
    proxy_alias: Some(0x2d8),
    current_graph_exec: 0x2e8,
    aggr_smem_size: Some(0x2bc),
    is_explicit_cluster: Some(0x36c),
    cluster_nctaid: Some(0x2a0),
    cluster_reciprocal: Some(0x2b0),
    nclusterid: Some(0x2c0),
    cluster_nctarank: Some(0x2cc),
    scaled: true,
};

/// The layout of an SM (`90` for `sm_90`); none for one that code cannot be made for.
pub fn bank0(sm: u16) -> Option<&'static Bank0> {
    match sm {
        75 => Some(&SM_75),
        80 | 86 | 87 | 88 | 89 => Some(&SM_80),
        90 => Some(&SM_90),
        100 | 103 | 107 | 110 | 120 | 121 => Some(&SM_100),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_layout_and_parameters_come_last() {
        for t in crate::TARGETS {
            let b = bank0(t.sm).expect("a layout for every target");
            let words = [b.descriptor, b.param_address, b.is_explicit_cluster, b.cluster_nctarank, b.self_address];
            assert!(words.iter().flatten().all(|&w| w < b.params), "{t}");
        }
        assert_eq!(bank0(50), None);
    }
}
