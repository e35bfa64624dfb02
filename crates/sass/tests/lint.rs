//! The hazard checker on small programs written by hand: what it must find, and what it must not.

use sass::codec::encode;
use sass::lint::{CfgHints, Kind, check};
use sass::text::{parse_at, parse_on};

/// Assembles lines with control columns, each at its place.
fn words(program: &str) -> Vec<u128> {
    program
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .enumerate()
        .map(|(n, line)| {
            let inst = parse_at(line, n as u64 * 16, &sass::text::NoLabels).unwrap_or_else(|e| panic!("{line}: {e:?}"));
            encode(&inst, 90).unwrap_or_else(|e| panic!("{line}: {e}"))
        })
        .collect()
}

fn kinds_with(program: &str, hints: &CfgHints) -> Vec<(u64, Kind)> {
    check(&words(program), 90, hints).into_iter().map(|h| (h.offset, h.kind)).collect()
}

fn kinds(program: &str) -> Vec<(u64, Kind)> {
    kinds_with(program, &CfgHints::default())
}

#[test]
fn fixed_latency() {
    let program = |stall: u8| {
        format!(
            "[B------:R-:W-:Y:S{stall:02}] FADD R0, R1, R2
             [B------:R-:W-:-:S01] FMUL R3, R0, R4
             [B------:R-:W-:-:S05] EXIT"
        )
    };
    assert_eq!(kinds(&program(4)), []);
    assert_eq!(kinds(&program(3)), [(0x10, Kind::ReadTooSoon)]);
    let message = check(&words(&program(3)), 90, &CfgHints::default())[0].to_string();
    assert_eq!(
        message,
        "0x0010: `FMUL R3, R0, R4` reads a result 3 cycles after, not 4, of `FADD R0, R1, R2` at 0x0000 (R0)"
    );
}

#[test]
fn a_stall_of_none_waits_for_all() {
    let program = "[B------:R-:W-:Y:S00] LDG.E R0, desc[UR4][R2.64]
                   [B------:R-:W-:-:S04] IADD3 R4, R0, R1, RZ
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), []);
}

#[test]
fn stalls_add_up() {
    assert_eq!(
        kinds(
            "[B------:R-:W-:-:S01] ISETP.GE.AND P0, PT, R0, R1, PT
             [B------:R-:W-:-:S06] IADD3 R2, R3, R4, RZ
             [B------:R-:W-:-:S06] IADD3 R5, R6, R4, RZ
             [B------:R-:W-:-:S05] @P0 EXIT
             [B------:R-:W-:-:S05] EXIT"
        ),
        []
    );
}

#[test]
fn the_shortest_path_counts() {
    // The branch jumps over the instructions that would have given P1 its time.
    let program = "[B------:R-:W-:-:S13] ISETP.GE.AND P0, PT, R0, R1, PT
                   [B------:R-:W-:-:S01] ISETP.GE.AND P1, PT, R2, R1, PT
                   [B------:R-:W-:-:S05] @P0 BRA 0x40
                   [B------:R-:W-:-:S10] IADD3 R2, R3, R4, RZ
                   [B------:R-:W-:-:S05] @P1 EXIT
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), [(0x40, Kind::ReadTooSoon)]);
    assert_eq!(kinds(&program.replace("S05] @P0", "S12] @P0")), []);
}

#[test]
fn around_a_loop() {
    let program = |stall: u8| {
        format!(
            "[B------:R-:W-:-:S04] IADD3 R2, R0, R1, RZ
             [B------:R-:W-:-:S{stall:02}] IADD3 R0, R0, 0x1, RZ
             [B------:R-:W-:-:S01] @P0 BRA 0x0
             [B------:R-:W-:-:S05] EXIT"
        )
    };
    assert_eq!(kinds(&program(3)), []);
    assert_eq!(kinds(&program(2)), [(0x0, Kind::ReadTooSoon)]);
}

#[test]
fn scoreboards() {
    let program = "[B------:R-:W2:-:S02] LDG.E R0, desc[UR4][R2.64]
                   [B--2---:R-:W-:-:S04] IADD3 R4, R0, R1, RZ
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), []);
    assert_eq!(kinds(&program.replace("B--2---", "B---3--")), [(0x10, Kind::ReadWithoutWait)]);
    assert_eq!(kinds(&program.replace("W2:-:S02", "W-:-:S02")), [(0x10, Kind::ReadWithoutWait)]);
    assert_eq!(kinds(&program.replace("W2:-:S02", "W2:-:S01")), [(0x10, Kind::WaitTooSoon)]);
}

#[test]
fn a_source_that_is_still_read() {
    let program = "[B------:R1:W-:-:S02] STG.E desc[UR4][R2.64], R0
                   [B-1----:R-:W-:-:S04] IADD3 R0, R4, R1, RZ
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), []);
    assert_eq!(kinds(&program.replace("B-1----", "B------")), [(0x10, Kind::OverwriteOfRead)]);
    // A later store of the same queue tells of it as well.
    let later = "[B------:R-:W-:-:S04] STG.E desc[UR4][R2.64], R0
                 [B------:R1:W-:-:S02] STG.E desc[UR4][R2.64+0x4], R5
                 [B-1----:R-:W-:-:S04] IADD3 R0, R4, R1, RZ
                 [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(later), []);
}

#[test]
fn a_write_overtaken() {
    let program = "[B------:R-:W2:-:S02] LDG.E R0, desc[UR4][R2.64]
                   [B------:R-:W-:-:S04] IADD3 R0, R4, R1, RZ
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), [(0x10, Kind::OverwriteOfWrite)]);
    let fixed = "[B------:R-:W-:-:S02] IADD3 R0, R4, R1, RZ
                 [B------:R-:W2:-:S02] LDG.E R0, desc[UR4][R2.64]
                 [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(fixed), [(0x10, Kind::OverwriteOfWrite)]);
    assert_eq!(kinds(&fixed.replace("S02] IADD3", "S06] IADD3")), []);
}

#[test]
fn shared_memory_answers_in_order() {
    let program = "[B------:R-:W-:-:S04] LDS R0, [R2]
                   [B------:R-:W0:-:S02] LDS R1, [R2+0x4]
                   [B0-----:R-:W-:-:S04] IADD3 R3, R0, R1, RZ
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), []);
    // Global memory does not.
    let global = program.replace("LDS R0, [R2]", "LDG.E R0, desc[UR4][R2.64]");
    assert_eq!(kinds(&global), [(0x20, Kind::ReadWithoutWait)]);
}

#[test]
fn opposite_guards_are_other_lanes() {
    let program = "[B------:R-:W-:-:S01] @P0 FADD R0, R1, R2
                   [B------:R-:W-:-:S01] @!P0 FADD R3, R0, R2
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), []);
    assert_eq!(kinds(&program.replace("@!P0", "@P0")), [(0x10, Kind::ReadTooSoon)]);
    // Not once the predicate has been written.
    let written = "[B------:R-:W-:-:S01] @P0 FADD R0, R1, R2
                   [B------:R-:W-:-:S01] ISETP.GE.AND P0, PT, R4, R5, PT
                   [B------:R-:W-:-:S01] @!P0 FADD R3, R0, R2
                   [B------:R-:W-:-:S05] EXIT";
    assert!(kinds(written).contains(&(0x20, Kind::ReadTooSoon)));
}

#[test]
fn calls_are_followed_by_call_site() {
    // The first call leaves a load under way; the second caller never had it.
    let program = "[B------:R-:W2:-:S02] LDG.E R0, desc[UR4][R2.64]
                   [B------:R-:W-:-:S05] CALL.REL.NOINC 0x70
                   [B--2---:R-:W-:-:S04] IADD3 R4, R0, R1, RZ
                   [B------:R-:W-:-:S05] CALL.REL.NOINC 0x70
                   [B------:R-:W-:-:S04] IADD3 R4, R0, R8, RZ
                   [B------:R-:W-:-:S05] EXIT
                   [B------:R-:W-:Y:S00] BRA 0x60
                   [B------:R-:W-:Y:S04] FADD R8, R9, R10
                   [B------:R-:W-:-:S05] RET.REL.NODEC R20 0x0";
    assert_eq!(kinds(program), []);
    // What the callee leaves unfinished meets the caller.
    let unfinished = program.replace("FADD R8, R9, R10", "MUFU.RCP R8, R9").replace("R-:W-:Y:S04", "R-:W1:Y:S04");
    assert_eq!(kinds(&unfinished), [(0x40, Kind::ReadWithoutWait)]);
}

#[test]
fn indirect_branches_go_where_the_hints_say() {
    let program = "[B------:R-:W-:-:S01] FADD R0, R1, R2
                   [B------:R-:W-:-:S05] BRX R4 -0x20
                   [B------:R-:W-:-:S05] EXIT
                   [B------:R-:W-:-:S01] FMUL R3, R0, R2
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), []);
    let hints = CfgHints { indirect: vec![(0x10, vec![0x20, 0x30])], ..CfgHints::default() };
    assert_eq!(kinds_with(program, &hints), []);
    let sooner = program.replace("S05] BRX", "S01] BRX");
    assert_eq!(kinds_with(&sooner, &hints), [(0x30, Kind::ReadTooSoon)]);
    assert_eq!(kinds_with(&sooner, &CfgHints { entries: vec![0x30], ..CfgHints::default() }), []);
}

#[test]
fn unknown_words_are_said() {
    let found = check(&[0xffff_ffff], 90, &CfgHints::default());
    assert_eq!(found[0].kind, Kind::Unknown);
    assert_eq!(check(&[], 90, &CfgHints::default()), []);
}

#[test]
fn groups_of_products() {
    let product = |text: &str| format!("[B------:R-:W-:-:S04] {text}\n");
    let program = |lines: &[&str]| lines.iter().map(|l| product(l)).collect::<String>() + "[B------:R-:W-:-:S05] EXIT";
    let first = "HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0";
    let second = "HGMMA.64x8x16.F32 R32, R40, gdesc[UR8], RZ, !UPT, gsb0";
    let open = "HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT";
    let end = "HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ, !UPT, gsb0";
    let (all, but_one) = ("WARPGROUP.DEPBAR.LE gsb0, 0x0", "WARPGROUP.DEPBAR.LE gsb0, 0x1");
    let (reads, reads_second) = ("FADD R0, R27, R2", "FADD R0, R1, R32");
    // A sum is read once its group is waited for.
    assert_eq!(kinds(&program(&[first, all, reads])), []);
    assert_eq!(kinds(&program(&[first, reads])), [(0x10, Kind::ReadWithoutWait)]);
    assert_eq!(kinds(&program(&[first, but_one, reads])), [(0x20, Kind::ReadWithoutWait)]);
    // Of two groups the first is done when one is left.
    assert_eq!(kinds(&program(&[first, second, but_one, reads])), []);
    assert_eq!(kinds(&program(&[first, second, but_one, reads_second])), [(0x30, Kind::ReadWithoutWait)]);
    // Sums and operands in registers are not overwritten before.
    assert_eq!(kinds(&program(&[first, "FADD R26, R1, R2"])), [(0x10, Kind::OverwriteOfWrite)]);
    assert_eq!(kinds(&program(&[second, "FADD R41, R1, R2"])), [(0x10, Kind::OverwriteOfRead)]);
    assert_eq!(kinds(&program(&[second, all, "FADD R41, R1, R2"])), []);
    // Products add to the sum of one before; as an operand it is a register like any other.
    assert_eq!(kinds(&program(&[first, "HGMMA.64x8x16.F32 R24, gdesc[UR8], R24, gsb0", all])), []);
    let chained = "HGMMA.64x8x16.F32 R48, R24, gdesc[UR8], RZ, !UPT, gsb0";
    assert_eq!(kinds(&program(&[first, chained, all])), [(0x10, Kind::ReadWithoutWait)]);
    // A group that goes on ends with the next product that counts.
    assert_eq!(kinds(&program(&[open, all, reads])), [(0x20, Kind::ReadWithoutWait)]);
    assert_eq!(kinds(&program(&[open, end, all, reads])), []);
    let message = &check(&words(&program(&[first, reads])), 90, &CfgHints::default())[0].message;
    assert_eq!(
        message,
        "`FADD R0, R27, R2` reads a sum, without waiting for gsb0, of `HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0` at 0x0000 (R27)"
    );
}

#[test]
fn products_take_registers_that_are_handed_over() {
    let program = |lines: &[&str]| {
        let line = |l: &&str| format!("[B------:R-:W-:-:S15] {l}\n");
        lines.iter().map(line).collect::<String>() + "[B------:R-:W-:-:S05] EXIT"
    };
    let (sum, arrive) = ("HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0", "WARPGROUP.ARRIVE");
    let (held, write) = ("HGMMA.64x8x16.F32 R32, R40, gdesc[UR8], RZ, !UPT, gsb0", "FADD R26, R1, R2");
    assert_eq!(kinds(&program(&[write, arrive, sum])), []);
    assert_eq!(kinds(&program(&[arrive, write, sum])), [(0x20, Kind::NotHandedOver)]);
    assert_eq!(kinds(&program(&[arrive, "FADD R43, R1, R2", held])), [(0x20, Kind::NotHandedOver)]);
    assert_eq!(kinds(&program(&[arrive, "FADD R44, R1, R2", held])), []);
    // Sums go from product to product.
    assert_eq!(kinds(&program(&[arrive, sum, sum])), []);
    // On one of two paths it is missing.
    assert_eq!(kinds(&program(&[write, "@P0 BRA 0x30", arrive, sum])), [(0x30, Kind::NotHandedOver)]);
    let message = &check(&words(&program(&[arrive, write, sum])), 90, &CfgHints::default())[0].message;
    assert_eq!(
        message,
        "`HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0` takes a register without a WARPGROUP.ARRIVE since it was written by `FADD R26, R1, R2` at 0x0010 (R26)"
    );
}

#[test]
fn a_loop_of_products_waits_on_every_path() {
    // The wait stands behind the branch back: the next round reads a sum that is under way.
    let program = |waits: &str| {
        format!(
            "[B------:R-:W-:-:S04] FADD R0, R24, R2
             [B------:R-:W-:-:S04] WARPGROUP.ARRIVE
             [B------:R-:W-:-:S04] HGMMA.64x8x16.F32 R24, gdesc[UR4], RZ, !UPT, gsb0
             [B------:R-:W-:-:S04] {waits}
             [B------:R-:W-:-:S05] @P0 BRA 0x0
             [B------:R-:W-:-:S04] WARPGROUP.DEPBAR.LE gsb0, 0x0
             [B------:R-:W-:-:S05] EXIT"
        )
    };
    assert_eq!(kinds(&program("WARPGROUP.DEPBAR.LE gsb0, 0x0")), []);
    assert_eq!(kinds(&program("NOP")), [(0x0, Kind::ReadWithoutWait)]);
}

#[test]
fn a_count_of_what_is_left_tells_of_surfaces() {
    let program = "[B------:R-:W5:-:S01] SULD.D.BA.2D.U16.STRONG.SM.TRAP R0, [R6], UR4, 0x0
                   [B------:R-:W5:-:S02] SULD.D.BA.2D.U16.STRONG.SM.TRAP R9, [R6], UR4, 0x0
                   [B------:R-:W-:-:S04] DEPBAR.LE SB5, 0x1
                   [B------:R-:W-:-:S04] LOP3.LUT R8, R0, 0xffff, RZ, 0xc0, !PT
                   [B-----5:R-:W-:-:S04] LOP3.LUT R10, R9, 0xffff, RZ, 0xc0, !PT
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), []);
    assert_eq!(kinds(&program.replace("SB5, 0x1", "SB5, 0x2")), [(0x30, Kind::ReadWithoutWait)]);
    assert_eq!(kinds(&program.replace("R8, R0", "R8, R9")), [(0x30, Kind::ReadWithoutWait)]);
    // The second sets another scoreboard: the count says nothing of the first.
    assert_eq!(
        kinds(&program.replace("W5:-:S02", "W4:-:S02").replace("B-----5", "B----4-")),
        [(0x30, Kind::ReadWithoutWait)]
    );
    // Loads from memory come back in any order.
    let loads =
        program.replace("SULD.D.BA.2D.U16.STRONG.SM.TRAP", "LDG.E").replace("[R6], UR4, 0x0", "desc[UR4][R6.64]");
    assert_eq!(kinds(&loads), [(0x30, Kind::ReadWithoutWait)]);
}

#[test]
fn what_is_asked_of_textures_comes_back_in_order() {
    let program = "[B------:R-:W-:-:S01] TXQ RZ, R4, R4, TEX_HEADER_DIMENSION, UR4, 0x0, 0x1
                   [B------:R-:W5:-:S02] TXQ RZ, R5, R5, TEX_HEADER_DIMENSION, UR4, 0x0, 0x2
                   [B-----5:R-:W-:-:S04] IADD3 R6, R4, R5, RZ
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), []);
    assert_eq!(kinds(&program.replace("B-----5", "B----4-"))[0], (0x20, Kind::ReadWithoutWait));
}

#[test]
fn what_chips_leave_between_writes_differs() {
    let found = |program: &str, sm: u16| {
        let mut words = Vec::new();
        for (n, line) in program.lines().enumerate() {
            let inst = parse_on(line.trim(), n as u64 * 16, &sass::text::NoLabels, Some(sm)).expect("an instruction");
            words.push(encode(&inst, sm).expect("encodes"));
        }
        check(&words, sm, &CfgHints::default()).into_iter().map(|h| h.kind).collect::<Vec<_>>()
    };
    let moved = "[B------:R-:W-:-:S01] P2R R6, PR, RZ, 0x40
                 [B------:R-:W-:-:S05] CS2R R6, SRZ
                 [B------:R-:W-:-:S05] EXIT";
    assert_eq!(found(moved, 90), [Kind::OverwriteOfWrite]);
    assert_eq!(found(moved, 120), []);
    let zeros = "[B------:R-:W-:-:S02] CS2R R2, SRZ
                 [B------:R-:W-:-:S05] @!P0 IMAD.MOV.U32 R3, RZ, RZ, RZ
                 [B------:R-:W-:-:S05] EXIT";
    assert_eq!(found(zeros, 90), []);
    assert_eq!(found(zeros, 100), [Kind::OverwriteOfWrite]);
    assert_eq!(found(&zeros.replace("S02", "S01"), 90), [Kind::OverwriteOfWrite]);
    let constants = "[B------:R-:W-:-:S01] ULDC.64 UR4, c[0x0][0x228]
                     [B------:R-:W-:-:S05] ULDC UR4, c[0x0][0x230]
                     [B------:R-:W-:-:S05] EXIT";
    assert_eq!(found(constants, 90), []);
    assert_eq!(found(&constants.replace("ULDC UR4, c[0x0][0x230]", "UMOV UR4, UR6"), 90), []);
    let moves = "[B------:R-:W-:-:S01] UMOV UR16, URZ
                 [B------:R-:W-:-:S05] UMOV UR16, UR5
                 [B------:R-:W-:-:S05] EXIT";
    assert_eq!(found(moves, 90), []);
    assert_eq!(found(moves, 120), [Kind::OverwriteOfWrite]);
    assert_eq!(found(&moves.replace("UMOV UR16, UR5", "@UP1 USHF.R.U32.HI UR16, URZ, UR4, UR9"), 90), []);
    let ready = "[B------:R-:W-:-:S11] R2UR UR8, R6
                 [B------:R-:W-:-:S05] UMOV UR8, UR4
                 [B------:R-:W-:-:S05] EXIT";
    assert_eq!(found(ready, 90), []);
    assert_eq!(found(&ready.replace("S11", "S10"), 90), [Kind::OverwriteOfWrite]);
    let branch = "[B------:R-:W-:-:S09] USHF.R.S32.HI UR5, URZ, 0x1f, UR4
                  [B------:R-:W-:-:S05] BRXU UR4 -0x20
                  [B------:R-:W-:-:S05] EXIT";
    assert_eq!(found(branch, 75), []);
    assert_eq!(found(branch, 90), [Kind::ReadTooSoon]);
}

#[test]
fn a_call_that_a_linker_fills_in_goes_elsewhere() {
    let program = "[B------:R-:W-:-:S05] FMUL R3, R0, R4
                   [B------:R-:W-:-:S01] FADD R0, R1, R2
                   [B------:R-:W-:-:S02] CALL.REL.NOINC 0x0
                   [B------:R-:W-:-:S05] EXIT";
    assert_eq!(kinds(program), [(0x0, Kind::ReadTooSoon)]);
    assert_eq!(kinds_with(program, &CfgHints { elsewhere: vec![0x20], ..CfgHints::default() }), []);
}
