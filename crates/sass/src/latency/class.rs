//! Classes of instructions by the unit that runs them.

/// What kind of unit an instruction runs on, as far as timing can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Integer, logic, comparison, selection, float minimum and comparison.
    Alu,
    /// Packing of narrow floats and integers: timed as [`Class::Alu`].
    Pack,
    /// 32-bit float add, multiply, multiply-add.
    Fma,
    /// Integer multiply-add, VIADD, dot products: timed as [`Class::Fma`], issued half as often.
    FmaInt,
    /// Integer multiply-add with a 64-bit sum.
    FmaWide,
    /// Carry-less multiply-add.
    Clmad,
    /// Packed 16-bit floats.
    Half,
    /// Packed 16-bit floats on the matrix pipe (`HFMA2.MMA`).
    HalfMma,
    /// Products of float matrices in registers (HMMA, QMMA, OMMA).
    Hmma,
    /// Products of integer and bit matrices in registers (IMMA, BMMA).
    Imma,
    /// Products of 64-bit float matrices.
    Dmma,
    /// Products of matrices in shared memory, by a whole warp group: done when a group scoreboard says so, which is asked
    /// by WARPGROUP.DEPBAR and takes no part in the tables here; `lint` follows the groups.
    Gmma,
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
    /// R2UR, CREDUX.
    R2Ur,
    /// ELECT.
    Elect,
    /// Transcendentals, conversions, bit counting: a decoupled unit.
    Xu,
    /// S2R, S2UR, B2R.
    SpecialReg,
    /// Global and generic memory.
    Global,
    /// Textures and surfaces.
    Texture,
    /// Shared memory.
    Shared,
    /// Local memory.
    Local,
    /// SYNCS, ARRIVES: barriers in shared memory; bulk copies, tensor memory.
    Mbarrier,
    /// LDC, LDCU.
    Const,
    /// SHFL.
    Shuffle,
    /// MATCH, REDUX.
    Match,
    /// MOVM.
    Movm,
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

impl Class {
    /// True where results come at a fixed time on chip `sm` and need no scoreboard.
    pub fn is_fixed(self, sm: u16) -> bool {
        use Class::*;
        match self {
            Alu | Pack | Fma | FmaInt | FmaWide | Half | HalfMma | Cs2r | Vote | Uniform | UniformMove
            | UniformConst | Elect | Control | Gmma => true,
            Double | Clmad | Hmma | Imma | R2Ur => !super::chip::of(sm).scoreboard.contains(&self),
            _ => false,
        }
    }

    /// Computes from registers and constants, or accesses memory in the usual way: instructions of which there is nothing else to know. Most of all
    /// code is of these classes, so that passes ask this before they look at mnemonics.
    pub const fn is_plain(self) -> bool {
        use Class::*;
        matches!(
            self,
            Alu | Pack
                | Fma
                | FmaInt
                | FmaWide
                | Half
                | HalfMma
                | Hmma
                | Imma
                | Double
                | Uniform
                | UniformMove
                | UniformConst
                | R2Ur
                | Xu
                | Global
                | Shared
                | Local
                | Const
        )
    }

    /// Units behind the queue for addresses: memory, shuffles, barriers.
    pub(super) const fn is_queue(self) -> bool {
        use Class::*;
        matches!(self, Global | Shared | Local | Shuffle | Movm | Barrier | Fence)
    }
}
