//! What differs between groups of SMs, as the vendor's 13.5 ptxas writes it.

use arch::{Target, Variant};

/// The notes of a group.
pub(super) struct Group {
    /// Low byte of the header's flags: plain machine code.
    pub flags: u32,
    /// The `.nv.compat` section; empty where files have none.
    pub compat: Vec<u8>,
    /// Where parameters begin in constant bank 0.
    pub param_base: u32,
    /// Shared memory in front of an entry's own that the system reserves.
    pub reserved_shared: u32,
    /// Address of the reserved part.
    pub reserved_address: u64,
    /// Value of the attribute SW_WAR; none where there is none.
    pub sw_war: Option<u32>,
    /// The ABI before sm_90: registers stand in the header of the code, nothing of shared memory is reserved, and some
    /// attributes are not there.
    pub old: bool,
    /// The attribute VRC_CTA_INIT_COUNT is there.
    pub vrc: bool,
}

/// The group of a target; none for one whose files cannot be written yet.
///
/// What is known of targets other than sm_90 is from files of one small kernel each (release 13.5). Those of sm_100 and
/// later carry a second form of the code beside the machine code (`.nv.capmerc`, flags 2); ours have the machine code
/// alone and say so as files for sm_90 do.
pub(super) fn group(target: Target) -> Option<Group> {
    let accelerated = (target.variant == Variant::A) as u8;
    let param_base = arch::bank0(target.sm)?.params as u32;
    if target.sm < 90 {
        return Some(Group {
            flags: 4,
            compat: Vec::new(),
            param_base,
            reserved_shared: 0,
            reserved_address: 0,
            sw_war: None,
            old: true,
            vrc: false,
        });
    }
    // Two notes that only some have: by target.
    let (more, word) = match (target.sm, accelerated) {
        (100, _) => (&[3, 7, 1, 1][..], 0x9),
        (120, 0) => (&[3, 7, 1, 1][..], 0x50),
        (120, _) => (&[3, 7, 1, 1][..], 0x10),
        (90..=121, _) => (&[][..], 0),
        _ => return None,
    };
    let compat = [
        &[2, 9, accelerated, 0, 2, 0xc, 0, 0, 2, 2, 1, 0, 3, 0xd, 1, 1][..],
        more,
        &[2, 3, 0, 0, 4, 0xb, 8, 0, 0, word, 0, 0, 0, 0, 0, 0, 3, 0xe, 0x40, 4],
    ]
    .concat();
    Some(Group {
        flags: 4,
        compat,
        param_base,
        reserved_shared: 0x400,
        reserved_address: if target.sm >= 100 { 0x40 } else { 0 },
        sw_war: Some(if target.sm >= 120 { 0 } else { 8 }),
        old: false,
        vrc: target.sm >= 100,
    })
}
