//! What differs between groups of SMs, as the vendor's 13.5 ptxas writes it.

use arch::{Target, Variant};

/// The notes of a group.
pub(super) struct Group {
    /// Low byte of the header's flags: plain machine code.
    pub flags: u32,
    /// The `.nv.compat` section.
    pub compat: Vec<u8>,
    /// Where parameters begin in constant bank 0.
    pub param_base: u32,
    /// Shared memory in front of an entry's own that the system reserves.
    pub reserved_shared: u32,
    /// Address of the reserved part.
    pub reserved_address: u64,
    /// Value of the attribute SW_WAR; none where there is none.
    pub sw_war: Option<u32>,
}

/// The group of a target; none for one whose files cannot be written yet.
pub(super) fn group(target: Target) -> Option<Group> {
    let accelerated = (target.variant == Variant::A) as u8;
    match target.sm {
        90 => Some(Group {
            flags: 4,
            compat: [
                &[2, 9, accelerated, 0, 2, 0xc, 0, 0, 2, 2, 1, 0, 3, 0xd, 1, 1, 2, 3, 0, 0][..],
                &[4, 0xb, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0xe, 0x40, 4],
            ]
            .concat(),
            param_base: arch::bank0(90)?.params as u32,
            reserved_shared: 0x400,
            reserved_address: 0,
            sw_war: Some(8),
        }),
        _ => None,
    }
}
