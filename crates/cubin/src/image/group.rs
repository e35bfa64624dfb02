//! What differs between groups of SMs, as the vendor's 13.5 ptxas writes it.

use crate::attr;
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
    /// Attributes without a value that every entry has.
    pub marks: &'static [u8],
}

/// What files of a range of SMs have in common.
#[derive(Clone, Copy)]
struct Line {
    /// The first SM of the range; the next line begins the next one.
    from: u16,
    old: bool,
    reserved_shared: u32,
    reserved_address: u64,
    sw_war: Option<u32>,
    vrc: bool,
    /// Bytes behind the code, which fills whole 128 bytes.
    text_tail: u32,
}

/// Read off files of one small kernel for each target (release 13.5), those of sm_90 off the whole corpus.
const LINES: [Line; 7] = {
    let first = Line {
        from: 75,
        old: true,
        reserved_shared: 0,
        reserved_address: 0,
        sw_war: Some(1),
        vrc: false,
        text_tail: 0,
    };
    let sm_80 = Line { from: 80, sw_war: None, text_tail: 128, ..first };
    let sm_90 = Line { from: 90, old: false, reserved_shared: 0x400, sw_war: Some(8), text_tail: 128, ..first };
    let sm_100 = Line { from: 100, reserved_address: 0x40, vrc: true, ..sm_90 };
    let (sm_87, sm_88) = (Line { from: 87, sw_war: Some(2), ..sm_80 }, Line { from: 88, ..sm_80 });
    [first, sm_80, sm_87, sm_88, sm_90, sm_100, Line { from: 120, sw_war: Some(0), ..sm_100 }]
};

/// Two notes that only some targets have: SM, which variants (accelerated or not), a word of flags.
const NOTES: [(u16, [bool; 2], u8); 3] =
    [(100, [true, true], 0x9), (120, [false, true], 0x50), (120, [true, false], 0x10)];

/// Attributes without a value that every entry of files for an SM has, read off files of the vendor's 13.5.
const MARKS: [(u16, &[u8]); 4] = [
    (80, &[attr::SW2861232_WAR]),
    (86, &[attr::SW2861232_WAR]),
    (87, &[attr::SW2861232_WAR]),
    (88, &[attr::SW2861232_WAR]),
];

/// The last SM that files are known of.
const LAST: u16 = 121;

fn line(sm: u16) -> &'static Line {
    LINES.iter().rev().find(|l| l.from <= sm).unwrap_or(&LINES[0])
}

/// Bytes of NOPs behind the code of an SM, which fills whole 128 bytes.
pub(super) fn text_tail(sm: u16) -> u32 {
    line(sm).text_tail
}

/// The group of a target; none for one whose files cannot be written yet.
///
/// Files of the vendor for sm_100 and later carry a second form of the code beside the machine code (`.nv.capmerc`, flags 2); ours have
/// the machine code alone and say so as files for sm_90 do.
pub(super) fn group(target: Target) -> Option<Group> {
    let accelerated = target.variant == Variant::A;
    let line = line(target.sm);
    let compat = if line.old {
        Vec::new()
    } else if target.sm > LAST {
        return None;
    } else {
        let note = NOTES.iter().find(|n| n.0 == target.sm && n.1[usize::from(!accelerated)]);
        let more: &[u8] = if note.is_some() { &[3, 7, 1, 1] } else { &[] };
        let word = note.map_or(0, |n| n.2);
        // How tensor memory's products are encoded.
        let products: &[u8] = if accelerated && target.sm == 100 { &[2, 5, 5, 0] } else { &[] };
        [
            &[2, 9, u8::from(accelerated), 0, 2, 0xc, 0, 0, 2, 2, 1, 0][..],
            products,
            &[3, 0xd, 1, 1],
            more,
            &[2, 3, 0, 0, 4, 0xb, 8, 0, word, 0, 0, 0, 0, 0, 0, 0, 3, 0xe, 0x40, 4],
        ]
        .concat()
    };
    Some(Group {
        flags: 4,
        compat,
        param_base: arch::bank0(target.sm)?.params as u32,
        reserved_shared: line.reserved_shared,
        reserved_address: line.reserved_address,
        sw_war: line.sw_war,
        old: line.old,
        vrc: line.vrc,
        marks: MARKS.iter().find(|m| m.0 == target.sm).map_or(&[], |m| m.1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_targets() {
        let of = |sm, variant| group(Target { sm, variant }).expect("a group");
        let (old, new) = (of(75, Variant::Plain), of(120, Variant::A));
        assert!(old.old && old.compat.is_empty() && old.sw_war == Some(1) && old.reserved_shared == 0);
        assert!(!new.old && new.vrc && new.sw_war == Some(0) && new.reserved_address == 0x40);
        // The word of flags: 120 and 120a differ, 90 and 90a have no such note.
        let word = |g: &Group| g.compat[g.compat.len() - 12];
        let words =
            [of(120, Variant::Plain), new, of(100, Variant::A), of(90, Variant::A)].map(|g| (word(&g), g.compat.len()));
        assert_eq!(words, [(0x50, 40), (0x10, 40), (0x9, 44), (0, 36)]);
        assert_eq!([75, 80, 90, 121].map(text_tail), [0, 128, 128, 128]);
    }
}
