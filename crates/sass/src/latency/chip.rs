//! The tables of each chip.
//!
//! Where the numbers are from: releases 13.0 and 13.5 of the vendor's assembler compiled the kernels of `tests/kernels`,
//! the instructions of `tests/isa`, random programs and chains of matrix products for every target at `-O1` and `-O3`;
//! a number is the shortest distance seen between the two in one block. `cargo xtask probe-latency` asks again and counts:
//! `crates/sass/latency/seen.txt` keeps, for each number, the shortest distance and how often a pair was seen. Where a pair never
//! occurred the number of the next older chip stands, or the longest of its column where none has it.

use super::class::Class;

/// The part of a producer that a number belongs to: columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Producer {
    Alu,
    /// Additions, moves and selections where they run on a unit of their own.
    AluMove,
    /// Comparisons, minima and maxima where they run on a unit of their own.
    AluPick,
    Fma,
    WideLow,
    WideHigh,
    Half,
    HalfMma,
    Double,
    Cs2r,
    /// Matrix products by the registers of A: one, two, four; or integers and floats.
    Mma1,
    Mma2,
    Mma4,
    Clmad,
}

/// The part of a consumer that a number belongs to: rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consumer {
    Alu,
    AluMove,
    AluPick,
    Fma,
    WideFactor,
    WideLow,
    WideHigh,
    Half,
    HalfMma,
    Double,
    Mma,
    Decoupled,
    Queue,
}

const WRITERS: usize = 14;
const READERS: usize = 13;

/// What a chip, or a family of chips with the same pipes, has.
pub(super) struct Chip {
    /// First and last SM number.
    pub sms: (u16, u16),
    /// Cycles from writer to reader of a general register.
    pub gpr: [[u8; WRITERS]; READERS],
    /// The least and the greatest number of each column, which [`complete`] finds.
    pub range: [(u8, u8); WRITERS],
    /// Classes that elsewhere have a fixed time and set a scoreboard here.
    pub scoreboard: &'static [Class],
    /// ALU and units beside it are told apart.
    pub split_alu: bool,
    /// Matrix products take their time by type, not by shape.
    pub mma_by_type: bool,
    /// So much later than its low word CLMAD reads the high word of what it adds.
    pub clmad_high: u8,
    /// R2UR reads as memory instructions do.
    pub r2ur_queue: bool,
    /// So much sooner than other decoupled readers R2UR may read the low word of IMAD.WIDE (what ptxas 13.0 and 13.5 leave
    /// behind the address of a tensor map).
    pub r2ur_wide_low: u8,
    /// From a predicate to a guard, a branch, or a decoupled reader.
    pub guard: u8,
    /// From a predicate of HSETP2 to a coupled reader.
    pub half_predicate: u8,
    /// Packed 16-bit instructions take predicates as the ALU does.
    pub half_takes_predicates: bool,
    /// From a predicate of ELECT to the ALU.
    pub elect: u8,
    /// From the uniform datapath to a branch (`USHF UR5; BRXU UR4`: 9 by 13.5 on sm_75, 10 on sm_110 and later).
    pub uniform_branch: u8,
    /// From a write of a general register by a coupled unit to a write by a decoupled one.
    pub waw_decoupled: u8,
    /// From a packed 16-bit result to another write of it.
    pub waw_half: u8,
    /// From a result of the ALU to CS2R (`P2R R6; CS2R R6`: 1 by 13.5 on sm_110 and later).
    pub waw_cs2r: u8,
    /// Its own result overwritten by another instruction of fixed latency (`CS2R R2, SRZ; @!P0 IMAD.MOV.U32 R3, RZ, RZ, RZ`, and SEL: 2 by
    /// 13.5 on sm_90).
    pub cs2r_waw: u8,
    /// From R2UR to another write of the uniform register by its datapath (`R2UR UR6; UIADD3.64 UR6`: 11 by 13.5 on sm_120).
    pub waw_r2ur: u8,
    /// From R2UR to UMOV of the same register (`R2UR UR8, R6; UMOV UR8, UR4`: 11 by 13.5 on sm_90).
    pub r2ur_umov: u8,
    /// From UMOV to another write of the register by the uniform datapath (`UMOV UR16, URZ; UMOV UR16, UR5`,
    /// `UMOV UR16, UR6; @UP1 USHF.R.U32.HI UR16, URZ, UR4, UR9`: 1 by 13.5 on sm_90).
    pub umov_waw: u8,
    /// From one comparison or minimum of 64 bits to the next, at most (4 by 13.5 on sm_120; elsewhere there are none).
    pub wide_pick: u8,
    /// A DADD or DMUL counts as decoupled when it overwrites.
    pub waw_double: bool,
    /// A barrier of the block comes after the reads of earlier memory instructions.
    pub barrier_drains: bool,
}

/// The tables with what is computed of them.
const fn complete(mut chip: Chip) -> Chip {
    let mut column = 0;
    while column < WRITERS {
        let (mut least, mut most) = (u8::MAX, 0);
        let mut row = 0;
        while row < READERS {
            let n = chip.gpr[row][column];
            least = if n < least { n } else { least };
            most = if n > most { n } else { most };
            row += 1;
        }
        chip.range[column] = (least, most);
        column += 1;
    }
    chip
}

static CHIPS: [Chip; 6] =
    [complete(SM75), complete(SM80), complete(SM90), complete(SM100), complete(SM110), complete(SM120)];

/// The tables of a chip; of the newest one where it is not known.
pub(super) fn of(sm: u16) -> &'static Chip {
    CHIPS.iter().find(|c| c.sms.0 <= sm && sm <= c.sms.1).unwrap_or(&CHIPS[5])
}

#[rustfmt::skip]
const SM75: Chip = Chip {
    sms: (0, 75),
    range: [(0, 0); WRITERS],
    gpr: [
        // Alu   Move Pick Fma Lo  Hi  Half hMMA F64 CS2R M1  M2  M4  Clmad
        [  4,    4,   4,   5,  5,  5,   8,  8,   9,   6, 14, 14, 22, 12], // Alu
        [  4,    4,   4,   5,  5,  5,   8,  8,   9,   6, 14, 14, 22, 12], // AluMove
        [  4,    4,   4,   5,  5,  5,   8,  8,   9,   6, 14, 14, 22, 12], // AluPick
        [  5,    5,   5,   4,  4,  4,   8,  8,   9,   6, 14, 14, 22, 12], // Fma
        [  5,    5,   5,   4,  6,  6,   8,  8,   9,   6, 14, 14, 22, 12], // IMAD.WIDE factors
        [  5,    5,   5,   4,  4,  4,   8,  8,   9,   6, 14, 14, 22, 12], // IMAD.WIDE sum, low word
        [  5,    5,   5,   4,  4,  4,   8,  8,   9,   6, 14, 14, 22, 12], // IMAD.WIDE sum, high word
        [  6,    6,   6,   6,  6,  6,   6,  6,   9,   6, 14, 14, 22, 12], // Half
        [  6,    6,   6,   6,  6,  6,   6,  6,   9,   6, 14, 14, 22, 12], // HFMA2.MMA
        [  6,    6,   6,   6,  6,  6,   8,  8,   8,   6, 14, 14, 22, 12], // Double
        [  6,    6,   6,   6,  6,  6,   8,  8,   9,   6, 14, 14, 22, 12], // matrices
        [  6,    6,   6,   6,  6,  6,   8,  8,   9,   6, 14, 14, 22, 12], // decoupled units, branches
        [  8,    8,   8,   8,  8,  8,   8,  8,   9,   8, 14, 14, 22, 12], // memory, shuffles, barriers
    ],
    scoreboard: &[Class::Double, Class::Hmma, Class::Imma, Class::R2Ur, Class::Clmad],
    split_alu: false,
    mma_by_type: false,
    clmad_high: 0,
    r2ur_queue: true,
    r2ur_wide_low: 0,
    guard: 12,
    half_predicate: 8,
    half_takes_predicates: false,
    elect: 8,
    uniform_branch: 9,
    waw_decoupled: 6,
    waw_half: 2,
    waw_cs2r: 2,
    cs2r_waw: 3,
    waw_r2ur: 13,
    r2ur_umov: 13,
    umov_waw: 2,
    wide_pick: u8::MAX,
    waw_double: true,
    barrier_drains: true,
};

#[rustfmt::skip]
const SM80: Chip = Chip {
    sms: (76, 89),
    range: [(0, 0); WRITERS],
    gpr: [
        // Alu   Move Pick Fma Lo  Hi  Half hMMA F64 CS2R M1  M2  M4  Clmad
        [  4,    4,   4,   5,  5,  5,   5, 10,  10,   6, 13, 16, 24, 12], // Alu
        [  4,    4,   4,   5,  5,  5,   5, 10,  10,   6, 13, 16, 24, 12], // AluMove
        [  4,    4,   4,   5,  5,  5,   5, 10,  10,   6, 13, 16, 24, 12], // AluPick
        [  5,    5,   5,   4,  4,  4,   5, 10,  10,   6, 13, 16, 24, 12], // Fma
        [  5,    5,   5,   4,  6,  6,   5, 10,  10,   6, 13, 16, 24, 12], // IMAD.WIDE factors
        [  5,    5,   5,   4,  4,  4,   5, 10,  10,   6, 13, 16, 24, 12], // IMAD.WIDE sum, low word
        [  5,    5,   5,   4,  4,  4,   5, 10,  10,   6, 13, 16, 24, 12], // IMAD.WIDE sum, high word
        [  5,    5,   5,   5,  5,  5,   4, 10,  10,   6, 13, 16, 24, 12], // Half
        [  6,    6,   6,   6,  6,  6,   6,  6,  10,   6, 13, 16, 24, 12], // HFMA2.MMA
        [  6,    6,   6,   6,  6,  6,   6,  6,   6,   6, 13, 16, 24, 12], // Double
        [  7,    7,   7,   7,  7,  7,   7, 11,  11,   7, 14, 16, 24, 13], // matrices
        [  4,    4,   4,   4,  4,  4,   4,  6,   6,   4, 11, 14, 22,  8], // decoupled units, branches
        [  5,    5,   5,   5,  5,  5,   5,  7,   7,   5, 12, 15, 23,  9], // memory, shuffles, barriers
    ],
    scoreboard: &[Class::Double, Class::R2Ur, Class::Clmad],
    split_alu: false,
    mma_by_type: false,
    // Seen in CLMAD.LO and CLMAD.HI on sm_80, 86 and 89: a MOV six cycles before.
    clmad_high: 1,
    r2ur_queue: true,
    r2ur_wide_low: 0,
    guard: 13,
    half_predicate: 5,
    half_takes_predicates: false,
    elect: 8,
    uniform_branch: 10,
    waw_decoupled: 5,
    waw_half: 2,
    waw_cs2r: 2,
    cs2r_waw: 3,
    waw_r2ur: 13,
    r2ur_umov: 13,
    umov_waw: 2,
    wide_pick: u8::MAX,
    waw_double: false,
    barrier_drains: false,
};

#[rustfmt::skip]
const SM90: Chip = Chip {
    sms: (90, 90),
    range: [(0, 0); WRITERS],
    gpr: [
        // Alu   Move Pick Fma Lo  Hi  Half hMMA F64 CS2R M1  M2  M4  Clmad
        [  4,    4,   4,   5,  3,  5,   5, 10,  10,   6, 13, 16, 24, 12], // Alu
        [  4,    4,   4,   5,  3,  5,   5, 10,  10,   6, 13, 16, 24, 12], // AluMove
        [  4,    4,   4,   5,  3,  5,   5, 10,  10,   6, 13, 16, 24, 12], // AluPick
        [  5,    5,   5,   4,  4,  4,   5, 10,  10,   6, 13, 16, 24, 12], // Fma
        [  5,    5,   5,   4,  4,  6,   5, 10,  10,   6, 13, 16, 24, 12], // IMAD.WIDE factors
        [  5,    5,   5,   4,  4,  4,   5, 10,  10,   6, 13, 16, 24, 12], // IMAD.WIDE sum, low word
        [  3,    3,   3,   2,  4,  4,   3,  8,   8,   4, 13, 16, 24, 10], // IMAD.WIDE sum, high word
        [  5,    5,   5,   5,  3,  5,   4, 10,  10,   6, 13, 16, 24, 12], // Half
        [  6,    6,   6,   6,  6,  6,   6,  6,  10,   6, 13, 16, 24, 12], // HFMA2.MMA
        // HFMA2.MMA before a double: 8, as ptxas 13.5 leaves in three programs made at random.
        [  6,    6,   6,   6,  6,  6,   6,  8,   8,   6, 13, 16, 24, 12], // Double
        [  7,    7,   7,   7,  7,  7,   7, 11,  11,   7, 14, 16, 24, 13], // matrices
        [  4,    4,   4,   4,  4,  4,   4,  6,   6,   4, 11, 14, 22,  8], // decoupled units, branches
        [  5,    5,   5,   5,  5,  5,   5,  7,   7,   5, 12, 15, 23,  9], // memory, shuffles, barriers
    ],
    scoreboard: &[],
    split_alu: false,
    mma_by_type: false,
    clmad_high: 0,
    r2ur_queue: false,
    r2ur_wide_low: 1,
    guard: 13,
    half_predicate: 5,
    half_takes_predicates: false,
    elect: 4,
    uniform_branch: 10,
    waw_decoupled: 6,
    waw_half: 2,
    waw_cs2r: 2,
    cs2r_waw: 2,
    waw_r2ur: 13,
    r2ur_umov: 11,
    umov_waw: 1,
    wide_pick: u8::MAX,
    waw_double: false,
    barrier_drains: false,
};

#[rustfmt::skip]
const SM100: Chip = Chip {
    sms: (91, 109),
    range: [(0, 0); WRITERS],
    gpr: [
        // Alu   Move Pick Fma Lo  Hi  Half hMMA F64 CS2R M1  M2  M4  Clmad
        [  4,    4,   4,   5,  3,  5,   5, 10,  10,   6, 19, 19, 19, 12], // Alu
        [  4,    4,   4,   5,  3,  5,   5, 10,  10,   6, 19, 19, 19, 12], // AluMove
        [  4,    4,   4,   5,  3,  5,   5, 10,  10,   6, 19, 19, 19, 12], // AluPick
        [  5,    5,   5,   4,  4,  4,   5, 10,  10,   6, 19, 19, 19, 12], // Fma
        [  5,    5,   5,   4,  4,  6,   5, 10,  10,   6, 19, 19, 19, 12], // IMAD.WIDE factors
        [  5,    5,   5,   4,  4,  4,   5, 10,  10,   6, 19, 19, 19, 12], // IMAD.WIDE sum, low word
        [  3,    3,   3,   2,  4,  4,   3,  8,   8,   4, 19, 19, 19, 10], // IMAD.WIDE sum, high word
        [  5,    5,   5,   5,  3,  5,   4, 10,  10,   6, 19, 19, 19, 12], // Half
        [  6,    6,   6,   6,  6,  6,   6,  6,  10,   6, 19, 19, 19, 12], // HFMA2.MMA
        [  6,    6,   6,   6,  6,  6,   6,  8,   8,   6, 19, 19, 19, 12], // Double
        [  7,    7,   7,   7,  7,  7,   7, 11,  11,   7, 20, 20, 20, 13], // matrices
        [  4,    4,   4,   4,  4,  4,   4,  6,   6,   4, 19, 19, 19,  8], // decoupled units, branches
        [  5,    5,   5,   5,  5,  5,   5,  7,   7,   5, 19, 19, 19,  9], // memory, shuffles, barriers
    ],
    scoreboard: &[Class::Double, Class::Imma, Class::Clmad],
    split_alu: false,
    mma_by_type: false,
    clmad_high: 0,
    r2ur_queue: false,
    r2ur_wide_low: 1,
    guard: 13,
    half_predicate: 5,
    half_takes_predicates: true,
    elect: 4,
    uniform_branch: 10,
    waw_decoupled: 6,
    waw_half: 1,
    waw_cs2r: 2,
    cs2r_waw: 3,
    waw_r2ur: 13,
    r2ur_umov: 13,
    umov_waw: 2,
    wide_pick: u8::MAX,
    waw_double: false,
    barrier_drains: false,
};

const SM110: Chip = Chip { sms: (110, 119), scoreboard: &[Class::Double, Class::Clmad], waw_cs2r: 1, ..SM100 };

#[rustfmt::skip]
const SM120: Chip = Chip {
    sms: (120, u16::MAX),
    range: [(0, 0); WRITERS],
    gpr: [
        // Alu   Move Pick Fma Lo  Hi  Half hMMA F64 CS2R M1  M2  M4  Clmad
        [  4,    5,   5,   5,  3,  5,   5, 10,  10,   6, 26, 26, 28, 12], // Alu
        [  5,    4,   5,   5,  3,  5,   5, 10,  10,   6, 26, 26, 28, 12], // AluMove
        [  5,    5,   5,   5,  3,  5,   5, 10,  10,   6, 26, 26, 28, 12], // AluPick
        [  5,    5,   5,   4,  4,  4,   5, 10,  10,   6, 26, 26, 28, 12], // Fma
        [  5,    5,   5,   4,  4,  6,   5, 10,  10,   6, 26, 26, 28, 12], // IMAD.WIDE factors
        [  5,    5,   5,   4,  4,  4,   5, 10,  10,   6, 26, 26, 28, 12], // IMAD.WIDE sum, low word
        [  3,    3,   3,   3,  4,  4,   3,  8,   8,   4, 26, 26, 28, 10], // IMAD.WIDE sum, high word
        [  5,    5,   5,   5,  5,  5,   4, 10,  10,   6, 26, 26, 28, 12], // Half
        [  6,    6,   6,   6,  6,  6,   6,  6,  10,   6, 26, 26, 28, 12], // HFMA2.MMA
        [  6,    6,   6,   6,  6,  6,   6,  8,   8,   6, 26, 26, 28, 12], // Double
        [  7,    7,   7,   7,  7,  7,   7, 11,  11,   7, 27, 27, 29, 13], // matrices
        [  4,    4,   4,   4,  4,  4,   4,  6,   6,   4, 26, 26, 28,  8], // decoupled units, branches
        [  5,    5,   5,   5,  5,  5,   5,  7,   7,   5, 26, 26, 28,  9], // memory, shuffles, barriers
    ],
    scoreboard: &[Class::Double, Class::Clmad],
    split_alu: true,
    mma_by_type: true,
    clmad_high: 0,
    r2ur_queue: false,
    r2ur_wide_low: 0,
    guard: 13,
    half_predicate: 5,
    half_takes_predicates: true,
    elect: 5,
    uniform_branch: 10,
    waw_decoupled: 6,
    waw_half: 1,
    waw_cs2r: 1,
    cs2r_waw: 3,
    waw_r2ur: 11,
    r2ur_umov: 13,
    umov_waw: 2,
    wide_pick: 4,
    waw_double: true,
    barrier_drains: false,
};
