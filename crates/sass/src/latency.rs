//! Latency classes, and (per chip) how long results take.

/// What kind of unit an instruction runs on, as far as timing can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Integer, logic, comparison, selection, float minimum and comparison.
    Alu,
    /// 32-bit float add, multiply, multiply-add; integer multiply-add.
    Fma,
    /// Integer multiply-add with a 64-bit sum.
    FmaWide,
    /// Packed 16-bit floats.
    Half,
    /// Packed 16-bit floats on the matrix pipe (`HFMA2.MMA`).
    HalfMma,
    /// 64-bit float.
    Double,
    /// CS2R.
    Cs2r,
    /// VOTE.
    Vote,
    /// The uniform datapath.
    Uniform,
    /// UMOV, VOTEU.
    UniformMove,
    /// ULDC.
    UniformConst,
    /// R2UR.
    R2Ur,
    /// ELECT.
    Elect,
    /// Transcendentals, conversions, bit counting: a decoupled unit.
    Xu,
    /// S2R, S2UR, B2R.
    SpecialReg,
    /// Global and generic memory.
    Global,
    /// Shared memory.
    Shared,
    /// Local memory.
    Local,
    /// LDC.
    Const,
    /// SHFL.
    Shuffle,
    /// MATCH, REDUX.
    Match,
    /// Branch, call, return, exit.
    Branch,
    /// BSSY, BSYNC, BREAK, WARPSYNC, YIELD.
    Convergence,
    /// BMOV.
    Bmov,
    /// BAR.
    Barrier,
    /// MEMBAR, ERRBAR, CCTL, FENCE, DEPBAR.
    Fence,
    /// NOP, NANOSLEEP, LEPC and the like.
    Control,
}
