//! The operations: one line each.
//!
//! The columns of [`ops!`]: variant, text, number of arguments (`*` any), what kind of effect it has.

/// What moving or deleting an operation would disturb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None: equal inputs give equal outputs, wherever it stands.
    Pure,
    /// Reads memory.
    Read,
    /// Writes memory, or another visible effect.
    Write,
    /// Depends on which threads execute it together (votes, shuffles, barriers): stays where it is.
    Warp,
}

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident $text:literal $arity:literal $effect:ident;)*) => {
        /// An operation. Operand order is that of PTX unless the line says otherwise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Op { $($(#[$doc])* $name,)* }

        impl Op {
            /// Every operation.
            pub const ALL: &'static [Op] = &[$(Op::$name),*];

            /// The word of the text form.
            pub fn name(self) -> &'static str {
                match self { $(Op::$name => $text,)* }
            }

            /// Number of arguments; -1 where it varies.
            pub fn arity(self) -> i32 {
                match self { $(Op::$name => $arity,)* }
            }

            /// Effect class.
            pub fn effect(self) -> Effect {
                match self { $(Op::$name => Effect::$effect,)* }
            }

            /// The operation with this text.
            pub fn from_name(name: &str) -> Option<Op> {
                const NAMES: &[&str] = &[$($text),*];
                NAMES.iter().position(|&n| n == name).map(|n| Op::ALL[n])
            }
        }
    };
}

ops! {
    // ---- values without arguments -------------------------------------------------------------------------------
    /// `imm` are its bits.
    Const "const" 0 Pure;
    /// Any bits: a register that was never written.
    Undef "undef" 0 Pure;
    /// Special register `sub` (see `lower::sreg`) that does not change while a thread runs.
    Sreg "sreg" 0 Pure;
    /// Special register that does change (clocks, lane masks of the moment).
    SregVolatile "sreg.volatile" 0 Write;
    /// Kernel parameter at byte `imm`; `mem.bytes` and `attr.signed` say how narrow ones are extended.
    Param "param" 0 Pure;
    /// Address of global symbol `imm` (B64).
    GlobalAddr "addr.global" 0 Pure;
    /// Address in the shared window of byte `imm` of the CTA's shared memory (B32).
    SharedAddr "addr.shared" 0 Pure;
    /// Address in the local window of byte `imm` of the function's locals (B32).
    LocalAddr "addr.local" 0 Pure;
    /// Offset in constant bank 3 of byte `imm` (B32).
    ConstAddr "addr.const" 0 Pure;
    /// Code address of function `imm`, as the kernel's indirect calls want it (B64).
    FuncAddr "addr.func" 0 Pure;
    /// Generic base of the window `mem.space`, shared, local or constant (B64).
    WindowBase "window" 0 Pure;
    // ---- integer ------------------------------------------------------------------------------------------------
    IAdd "iadd" 2 Pure;
    ISub "isub" 2 Pure;
    /// a + b + carry in (P); results: sum, carry out (P).
    AddC "addc" 3 Pure;
    /// a + ~b + carry in (P); results: difference, carry out (P): no borrow is carry 1.
    SubC "subc" 3 Pure;
    /// Low half of the product.
    IMul "imul" 2 Pure;
    /// High half of the product.
    IMulHi "imulhi" 2 Pure;
    /// Product of twice the width.
    IMulWide "imulwide" 2 Pure;
    /// a * b + c, low half.
    IMad "imad" 3 Pure;
    /// a * b + c, of twice the width of a and b.
    IMadWide "imadwide" 3 Pure;
    /// a * b + c + carry in (P) of unsigned words, c of twice their width; results: sum, carry out (P).
    IMadWideC "imadwidec" 4 Pure;
    /// Quotient; by zero all ones, but undefined where `sub` is [`NONZERO`]. So is the remainder.
    IDiv "idiv" 2 Pure;
    IRem "irem" 2 Pure;
    INeg "ineg" 1 Pure;
    IAbs "iabs" 1 Pure;
    IMin "imin" 2 Pure;
    IMax "imax" 2 Pure;
    And "and" 2 Pure;
    Or "or" 2 Pure;
    Xor "xor" 2 Pure;
    Not "not" 1 Pure;
    /// Any function of three words; `sub` is the truth table.
    Lop3 "lop3" 3 Pure;
    /// Shift left; an amount of the width or more gives 0. The amount is B32.
    Shl "shl" 2 Pure;
    /// Shift right, `signed` for arithmetic; an amount of the width or more gives 0 or the sign.
    Shr "shr" 2 Pure;
    /// Funnel shift of {b, a} (a low) by c; `sub`: 0 left wrap, 1 left clamp, 2 right wrap, 3 right clamp.
    Shf "shf" 3 Pure;
    /// Compares integers.
    ICmp "icmp" 2 Pure;
    /// a if c (P, third argument), else b.
    Select "select" 3 Pure;
    Popc "popc" 1 Pure;
    Clz "clz" 1 Pure;
    /// Number of the highest significant bit, -1 if none; `sub` 1: counted from the top (`.shiftamt`).
    Bfind "bfind" 1 Pure;
    Brev "brev" 1 Pure;
    /// Number of the c-th set bit of a from bit b on (c negative: downwards, 0: bit b itself); all ones if there is none.
    Fns "fns" 3 Pure;
    /// Bits b..b+c of a, zero- or sign-extended.
    Bfe "bfe" 3 Pure;
    /// a inserted into b at c, d bits.
    Bfi "bfi" 4 Pure;
    /// Byte permutation; `sub` is the mode (0 default, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16).
    Prmt "prmt" 3 Pure;
    /// Four products of bytes, added to c; `sub` bit 0: a signed, bit 1: b signed.
    Dp4a "dp4a" 3 Pure;
    /// Two products of a half and a byte, added to c; `sub` bits 0, 1 as above, bit 2: high bytes.
    Dp2a "dp2a" 3 Pure;
    /// Two sums of halves of a word.
    IAdd2 "iadd2" 2 Pure;
    /// The smaller of each of two halves; `sub` bit 0: not below zero.
    IMin2 "imin2" 2 Pure;
    IMax2 "imax2" 2 Pure;
    /// a and b (signed), clamped, side by side, and c above them; `sub`: 0 u8, 1 s8, 2 u16, 3 s16. a is the upper one.
    IPack "ipack" 3 Pure;
    // ---- moves between widths -----------------------------------------------------------------------------------
    Zext "zext" 1 Pure;
    Sext "sext" 1 Pure;
    /// The low bits.
    Trunc "trunc" 1 Pure;
    /// The upper half of a B64 or B32.
    Hi "hi" 1 Pure;
    /// {a low, b high}: twice the width.
    Pack "pack" 2 Pure;
    // ---- floating point: `attr.fmt` -----------------------------------------------------------------------------
    FAdd "fadd" 2 Pure;
    FMul "fmul" 2 Pure;
    /// `sub`, halves only: bit 1: negative results become zero; bit 2: the product with the NaN of elements out of bounds
    /// gives zero (`.oob`).
    FFma "ffma" 3 Pure;
    FNeg "fneg" 1 Pure;
    FAbs "fabs" 1 Pure;
    /// `sub` bit 0: NaN wins (`.NaN`), bit 1: `.xorsign.abs`.
    FMin "fmin" 2 Pure;
    FMax "fmax" 2 Pure;
    FCmp "fcmp" 2 Pure;
    /// Are the quick steps of the quotient a / b of single precision not good enough? (P)
    FCheck "fcheck" 2 Pure;
    /// Compares two pairs of halves and combines each outcome with the predicate c; `sub`: 0 and, 1 or, 2 xor. Results: of
    /// the lower halves, of the upper ones.
    FCmp2 "fcmp2" 3 Pure;
    /// The same as halves of a word: all ones, or 1.0 where bit 2 of `sub` is set; else zero.
    FSet2 "fset2" 3 Pure;
    /// Quotient: `rnd`, or `sub` 1 approx, 2 full.
    FDiv "fdiv" 2 Pure;
    /// `sub` 1: approx.
    FRcp "frcp" 1 Pure;
    /// `sub` 1: approx.
    FSqrt "fsqrt" 1 Pure;
    /// Approximate functions.
    FRsqrt "frsqrt" 1 Pure;
    FEx2 "fex2" 1 Pure;
    FLg2 "flg2" 1 Pure;
    FSin "fsin" 1 Pure;
    FCos "fcos" 1 Pure;
    FTanh "ftanh" 1 Pure;
    /// Rounds to an integral value of the same format.
    FRound "fround" 1 Pure;
    /// Clamps to [0, 1], NaN to 0.
    FSat "fsat" 1 Pure;
    // ---- conversions --------------------------------------------------------------------------------------------
    /// Float (`fmt`) to an integer of `sub` bits (8, 16, 32, 64), saturating, extended to the result's width.
    F2I "f2i" 1 Pure;
    /// Integer of `sub` bits to float (`fmt`).
    I2F "i2f" 1 Pure;
    /// Float `fmt2` to float `fmt`.
    F2F "f2f" 1 Pure;
    /// Two floats (`fmt2`) to a packed pair (`fmt`): a in the upper half. `sub` bit 0: negative results become zero, bit 1:
    /// infinities become the largest finite numbers.
    F2FPack "f2fpack" 2 Pure;
    /// A single rounded to tf32 (`rnd`: to nearest or toward zero); `sub` bit 0: negative results become zero.
    F2Tf32 "f2tf32" 1 Pure;
    /// Two singles to 8-bit floats, a in the upper byte, saturated; `sub` bit 0: negative results become zero, bit 1: e4m3.
    Fp8Pack "fp8pack" 2 Pure;
    /// The same of a pair of halves.
    Fp8FromHalf "fp8.half" 1 Pure;
    /// Two 8-bit floats to a pair of halves; `sub` as above.
    HalfFromFp8 "half.fp8" 1 Pure;
    // ---- memory: address first; `imm` is added to it; last a cache policy if `mem.policy` ------------------------------------------------------------
    Load "load" -1 Read;
    Store "store" -1 Write;
    /// Atomic with results; `sub` is the operation (see `AtomOp`), compare values before swap values. Vectors are words in
    /// a row, 16 bytes two values of 64 bits.
    Atom "atom" -1 Write;
    /// Atomic without result.
    Red "red" -1 Write;
    /// `multimem.ld_reduce`: `sub` is the operation (see `AtomOp`), `sat`: halves are added as singles. Vectors are words in a row.
    LoadReduce "load.reduce" 1 Write;
    /// Memory fence of `mem.scope`; `sub` 1: sequentially consistent.
    Fence "fence" 0 Write;
    /// `ldmatrix` of as many 8x8 matrices as there are results; `sub` 1: transposed.
    LdMatrix "ldmatrix" 1 Warp;
    /// `stmatrix`: address, then one register a matrix; `sub` 1: transposed.
    StMatrix "stmatrix" -1 Warp;
    /// True if a generic address lies in `mem.space`; `sub` 1: shared memory of any CTA of the cluster.
    IsSpace "isspacep" 1 Pure;
    /// What is said of a cache line; `sub` is a `LineHint`.
    Prefetch "prefetch" 1 Write;
    // ---- warp and CTA -------------------------------------------------------------------------------------------
    /// Barrier; `sub` is a `BarKind`, `imm` 1 where the threads of a warp come together (`.aligned`). Arguments: barrier number, then thread count
    /// if given, then predicate of a reduction.
    Bar "bar" -1 Warp;
    /// `bar.warp.sync`.
    WarpSync "warpsync" 1 Warp;
    /// a, lane, clamp/mask, member mask; results: value, predicate. `sub`: 0 up 1 down 2 bfly 3 idx.
    Shfl "shfl" 4 Warp;
    /// P, member mask; `sub`: 0 all 1 any 2 uni 3 ballot.
    Vote "vote" 2 Warp;
    /// a, member mask; `sub` 0 any: mask; 1 all: mask, predicate.
    Match "match" 2 Warp;
    /// a, member mask; `sub`: 0 add 1 min 2 max 3 and 4 or 5 xor.
    Redux "redux" 2 Warp;
    /// Mask of the threads that are here.
    ActiveMask "activemask" 0 Warp;
    Nanosleep "nanosleep" 1 Write;
    /// True for one of the threads named by the mask.
    Elect "elect" 1 Warp;
    /// Gives up registers or takes more, so that a thread has `imm`; `sub` as [`kind`](crate::registers::kind) says. Taking has a
    /// result after [`expand`](crate::registers::expand): whether there were enough.
    SetMaxReg "setmaxreg" 0 Warp;
    /// `sub` 0 trap, 1 breakpoint.
    Trap "trap" 0 Write;
    /// The stack ends at this address from here on: traps where that is below its memory, if such checks are wanted.
    CheckStack "checkstack" 1 Write;
    /// Waits for the grids that this one depends on (`sub` 0), or lets those that depend on it start (1).
    GridDep "griddep" 0 Write;
    /// Triggers the events of the performance monitor whose bits `imm` has.
    PmEvent "pmevent" 0 Write;
    // ---- asynchronous copies, barriers in memory ---------------------------------------------------------------
    /// True in one of the threads that are here.
    Leader "leader" 0 Warp;
    /// `mbarrier`: address first; `sub` as [`barrier`](crate::lower::asynchronous::barrier) says.
    MBarrier "mbarrier" -1 Write;
    /// `cp.async` of `mem.bytes`: shared address, address, and maybe a predicate of what is to be copied; `sub` 1: `.cg`; `sat`: the
    /// address is moved on by the bytes that are not read.
    CopyAsync "cp.async" -1 Write;
    /// Groups, fences and cluster barriers; `sub` as [`order`](crate::lower::asynchronous::order) says.
    AsyncOrder "async.order" 0 Warp;
    /// The bulk engine; `imm` is a packed [`Bulk`](crate::lower::asynchronous::Bulk). By one thread at a time.
    Bulk "bulk" -1 Write;
    /// `st.async` (`sub` 255) or `red.async` (`sub` is the operation): {address, barrier}, values.
    RemoteStore "store.remote" -1 Write;
    // ---- matrices -----------------------------------------------------------------------------------------------
    /// A product of matrices; `imm` is a packed [`Product`](super::matrix::Product), which also says what the arguments are.
    Mma "mma" -1 Warp;
    /// A product by a warpgroup; `imm` is a packed [`Group`](crate::lower::warpgroup::Group), which also says what the arguments are.
    Wgmma "wgmma" -1 Warp;
    /// `wgmma.fence`, `commit_group`, `wait_group`; `sub` as [`order`](crate::lower::warpgroup::order) says.
    WgmmaOrder "wgmma.order" 0 Warp;
    /// `movmatrix`: transposes an 8x8 matrix of halves.
    MovMatrix "movmatrix" 1 Warp;
    /// Two 8-bit floats in the lower half of a word, as halves; `sub` bit 0: e5m2 rather than e4m3, bit 1: the upper half.
    Unpack8 "unpack8" 1 Pure;
    // ---- textures and surfaces --------------------------------------------------------------------------------
    /// A read of a texture; `imm` is a packed [`Texel`](super::texel::Texel), which also says what the arguments are.
    Texture "texture" -1 Read;
    /// An access to a surface; `imm` is a packed [`Image`](super::texel::Image), which also says what the arguments are.
    Surface "surface" -1 Write;
    /// The handle of the reference that is variable `imm` of a relocatable module: a word of constant bank 0 whose place the linker says.
    Handle "handle" 0 Pure;
    /// Bytes of an entry of the [`Table`](super::texel::Table) `imm`.
    EntrySize "entry.size" 0 Pure;
    /// True where the argument is that of one of the threads that are here.
    SameAsOne "same" 1 Warp;
    /// Address of the table of what is known of textures (`imm` 0), samplers (1) or surfaces (2).
    TableAddr "addr.table" 0 Pure;
    // ---- calls --------------------------------------------------------------------------------------------------
    /// A call of a routine that arithmetic needs in seldom cases; arguments and `imm` as of [`Op::Call`]. As it is no pure operation, it stays in
    /// the block of those cases.
    Routine "routine" -1 Read;
    /// `imm` is the number of the [`CallSite`](super::CallSite); arguments are the words that go in registers.
    Call "call" -1 Write;
    /// The same; the first argument is the function pointer (B64).
    CallIndirect "call.indirect" -1 Write;
}

/// Float formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Fmt {
    /// Not a float operation.
    #[default]
    None,
    /// Half.
    F16,
    /// Two halves.
    F16x2,
    /// bfloat16.
    BF16,
    /// Two bfloat16.
    BF16x2,
    /// Single.
    F32,
    /// Double.
    F64,
}

/// Rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Rnd {
    /// To nearest even.
    #[default]
    Rn,
    /// Toward zero.
    Rz,
    /// Down.
    Rm,
    /// Up.
    Rp,
}

/// Comparison; for floats, the `U` ones are true on NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Cmp {
    #[default]
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Neither is NaN.
    Num,
    /// Either is NaN.
    Nan,
}

/// What holds when a comparison of integers does not.
pub fn inverse_cmp(c: Cmp) -> Option<Cmp> {
    Some(match c {
        Cmp::Eq => Cmp::Ne,
        Cmp::Ne => Cmp::Eq,
        Cmp::Lt => Cmp::Ge,
        Cmp::Le => Cmp::Gt,
        Cmp::Gt => Cmp::Le,
        Cmp::Ge => Cmp::Lt,
        _ => return None,
    })
}

/// The comparison with its operands exchanged.
pub fn swap_cmp(c: Cmp) -> Cmp {
    match c {
        Cmp::Lt => Cmp::Gt,
        Cmp::Le => Cmp::Ge,
        Cmp::Gt => Cmp::Lt,
        Cmp::Ge => Cmp::Le,
        Cmp::Ltu => Cmp::Gtu,
        Cmp::Leu => Cmp::Geu,
        Cmp::Gtu => Cmp::Ltu,
        Cmp::Geu => Cmp::Leu,
        other => other,
    }
}

macro_rules! sregs {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// Special registers, in [`Attr::sub`] of [`Op::Sreg`] and [`Op::SregVolatile`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs)] // the names are PTX's
        pub enum Sreg { $($(#[$doc])* $name,)* }

        impl Sreg {
            const ALL: &'static [Sreg] = &[$(Sreg::$name),*];

            /// The register with this number.
            pub fn from_sub(sub: u8) -> Option<Sreg> {
                Sreg::ALL.get(sub as usize).copied()
            }
        }
    };
}

sregs! {
    TidX TidY TidZ
    NtidX NtidY NtidZ
    CtaidX CtaidY CtaidZ
    NctaidX NctaidY NctaidZ
    Laneid Warpid Nwarpid Smid Nsmid Gridid
    LanemaskEq LanemaskLt LanemaskLe LanemaskGt LanemaskGe
    Clock ClockHi Clock64
    GlobaltimerLo GlobaltimerHi Globaltimer
    DynamicSmem
    /// Bytes of shared memory of the CTA with what the system takes.
    SmemSize
    /// What the system takes of it.
    SmemTaken
    AggrSmem ReservedSmemEnd ReservedSmem1
    CurrentGraphExec
    /// 1 where the grid was launched with clusters.
    ExplicitCluster
    ClusterCtarank ClusterNctarank
    ClusterNctaidX ClusterNctaidY ClusterNctaidZ
    NclusteridX NclusteridY NclusteridZ
    Pm0 Pm1 Pm2 Pm3 Pm4 Pm5 Pm6 Pm7
    Envreg0 Envreg1 Envreg2 Envreg3 Envreg4 Envreg5 Envreg6 Envreg7
    Envreg8 Envreg9 Envreg10 Envreg11 Envreg12 Envreg13 Envreg14 Envreg15
    Envreg16 Envreg17 Envreg18 Envreg19 Envreg20 Envreg21 Envreg22 Envreg23
    Envreg24 Envreg25 Envreg26 Envreg27 Envreg28 Envreg29 Envreg30 Envreg31
    /// Upper word of the shared window's generic base.
    SharedWindowHi
    /// Generic address of the kernel parameters (64 bits), and of their end.
    ParamAddress ParamEnd
}

/// In [`Attr::sub`] of [`Op::IDiv`] and [`Op::IRem`]: what comes of a divisor that is zero is not used.
pub const NONZERO: u8 = 1;

impl Sreg {
    /// True for sizes of blocks, clusters and grids, which are never 0.
    pub fn is_size(self) -> bool {
        use Sreg::*;
        matches!(self, NtidX | NtidY | NtidZ | NctaidX | NctaidY | NctaidZ)
            || matches!(self, ClusterNctaidX | ClusterNctaidY | ClusterNctaidZ)
            || matches!(self, NclusteridX | NclusteridY | NclusteridZ)
    }

    /// True if the threads of a warp read different values.
    pub fn differs(self) -> bool {
        use Sreg::*;
        matches!(self, TidX | TidY | TidZ | Laneid | LanemaskEq | LanemaskLt | LanemaskLe | LanemaskGt | LanemaskGe)
    }
}

/// Barrier kinds, in [`Attr::sub`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum BarKind {
    Sync = 0,
    Arrive = 1,
    RedPopc = 2,
    RedAnd = 3,
    RedOr = 4,
}

/// How an operation reads its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Attr {
    /// Float format.
    pub fmt: Fmt,
    /// Source float format of a conversion.
    pub fmt2: Fmt,
    /// Rounding.
    pub rnd: Rnd,
    /// Comparison.
    pub cmp: Cmp,
    /// Flush denormals.
    pub ftz: bool,
    /// Saturate.
    pub sat: bool,
    /// Signed integers.
    pub signed: bool,
    /// What the operation's line says.
    pub sub: u8,
}

/// State spaces of memory operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum MemSpace {
    /// Generic, 64-bit address.
    #[default]
    Generic,
    /// Global, 64-bit address.
    Global,
    /// Shared window, 32-bit address.
    Shared,
    /// Local window, 32-bit address.
    Local,
    /// Constant bank 3, 32-bit offset.
    Const,
    /// Kernel parameters, 32-bit offset from their start.
    Param,
    /// Stack arguments of the function that is called next (store) or that called us (load): offset in `imm`.
    Stack,
}

/// Memory scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Scope {
    #[default]
    None,
    Cta,
    Cluster,
    Gpu,
    Sys,
}

/// Memory ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Sem {
    #[default]
    Weak,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    Volatile,
    Mmio,
}

/// Attributes of a memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Mem {
    /// State space.
    pub space: MemSpace,
    /// Bytes of one element: 1, 2, 4, 8.
    pub bytes: u8,
    /// Ordering.
    pub sem: Sem,
    /// Scope.
    pub scope: Scope,
    /// `.nc`: read through the non-coherent path.
    pub nc: bool,
    /// Eviction priority: 0 normal, 1 first, 2 last, 3 no allocate, 4 unchanged, 5 last use.
    pub evict: u8,
    /// L2 prefetch size: 0 none, 1 64B, 2 128B, 3 256B.
    pub prefetch: u8,
    /// The last argument is a policy of the second-level cache (B64).
    pub policy: bool,
}

/// What [`Op::Prefetch`] says of a cache line, in [`Attr::sub`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LineHint {
    /// To come into the first level.
    L1 = 1,
    /// To come into the second level.
    L2 = 2,
    /// The same, to stay there longest.
    L2Last = 3,
    /// To be evicted like others again.
    Demote = 4,
    /// To be dropped without being written.
    Discard = 5,
}

/// Atomic operations, in [`Attr::sub`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum AtomOp {
    Add = 0,
    Min = 1,
    Max = 2,
    Inc = 3,
    Dec = 4,
    And = 5,
    Or = 6,
    Xor = 7,
    Exch = 8,
    Cas = 9,
}
