//! How many registers fetches from textures and accesses of surfaces read, on chips where that hangs on many modifiers.

use sass::form::SlotName;
use sass::text::{NoLabels, parse_on};

/// Chip, text, registers of Ra and of Rb: as the life ranges (`-plr`) of nvdisasm 13.5 show them; for sm_100 those of Rb are what
/// ptxas 13.5 fills before.
const ROWS: [(u16, &str, u8, u8); 27] = [
    (75, "TEX R208, R200, R32, R64, 0x1, 0x5, 1D", 1, 1),
    (75, "TEX.LC R208, R200, R32, R64, 0x1, 0x5, 1D", 2, 1),
    (75, "TEX.LB.LC.AOFFI.DC R208, R200, R32, R64, 0x1, 0x5, 3D", 4, 3),
    (75, "TEX.LB.LC.AOFFI.DC R208, R200, R32, R64, 0x1, 0x5, ARRAY_2D", 3, 3),
    (75, "TEX.LL.AOFFI R208, R200, R32, R64, 0x1, 0x5, ARRAY_CUBE", 4, 2),
    (75, "TEX.B R208, R200, R32, R64, 2D", 2, 1),
    (75, "TEX.B.LL.AOFFI.DC R208, R200, R32, R64, 2D", 2, 4),
    (75, "TEX.B.LL R208, R200, R32, R64, CUBE", 3, 2),
    (75, "TEX.SCR R208, R200, R32, R64, 0x1, 0x5, 1D", 1, 1),
    (75, "TEX.SCR R208, R200, R32, R64, 0x1, 0x5, 2D", 1, 1),
    (75, "TEX.SCR.LL R208, R200, R32, R64, 0x1, 0x5, 2D", 2, 1),
    (75, "TEX.SCR.LL.DC R208, R200, R32, R64, 0x1, 0x5, 2D", 2, 2),
    (75, "TEX.SCR.B.LZ R10, R8, R6, R8, 2D", 2, 1),
    (86, "TEX.SCR.B.LL R10, R8, R6, R8, 2D", 2, 2),
    (86, "TLD.LL.AOFFI R208, R200, R32, R64, 0x1, 0x5, ARRAY_1D", 2, 2),
    (86, "TLD.SCR.LZ.AOFFI R208, R200, R32, R64, 0x1, 0x5, 2D", 2, 1),
    (86, "TLD4.R.PTP.DC R208, R200, R32, R64, 0x1, 0x5, 2D", 2, 3),
    (86, "TLD4.SCR.R.AOFFI R208, R200, R32, R64, 0x1, 0x5, CUBE", 2, 2),
    (86, "TXD R208, R200, R32, R64, 0x1, 0x5, 2D", 2, 4),
    (86, "TXD.B.AOFFI R208, R200, R32, R64, 0x1, 0x5, 1D", 3, 2),
    (86, "TXD.B R208, R200, R32, R64, ARRAY_2D", 4, 4),
    (90, "TEX.LC.DC R208, R200, R32, R64, UR4, 0x0, 2D", 3, 1),
    (100, "TEX.LL.AOFFI R4, R6, R6, R10, UR4, 2D", 2, 2),
    (75, "SUST.D.3D.64.STRONG.CTA.IGN [R32], R64, 0x1, 0x5", 3, 2),
    (75, "SUST.P.2D.STRONG.CTA.RG.IGN [R32], R64, 0x1, 0x5", 2, 2),
    (75, "SURED.D.2D_ARRAY.ADD.SD64.STRONG.CTA.IGN [R32], R64, 0x1, 0x5", 3, 2),
    (120, "SURED.D.1D_ARRAY.ADD.S32.STRONG.SM.IGN [R32], R64, UR4, UR0", 2, 1),
];

#[test]
fn registers_by_modifiers() {
    for (sm, text, ra, rb) in ROWS {
        let inst = parse_on(text, 0, &NoLabels, Some(sm)).unwrap_or_else(|e| panic!("sm_{sm} {text}: {e:?}"));
        let width = |name: SlotName| {
            let slot = inst.form().slots.iter().position(|s| s.name == name).expect("a slot");
            inst.regs().iter().find(|r| r.slot == Some(slot as u8)).map_or(0, |r| r.width)
        };
        assert_eq!((width(SlotName::Ra), width(SlotName::Rb)), (ra, rb), "sm_{sm} {text}");
    }
}
