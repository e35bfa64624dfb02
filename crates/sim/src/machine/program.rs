//! The form in which the simulator runs machine code: operands resolved, every operation a function over 32 lanes.

use crate::num::soft::{Format, Round};
use sass::inst::Inst;
use smallvec::SmallVec;

/// One 32-bit register of a warp.
pub type Lanes = [u32; 32];

/// A source: a register, a uniform register, or a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Src {
    /// `R<n>`
    R(u8),
    /// `UR<n>`
    U(u8),
    /// Index into the constants.
    K(u32),
}

/// A predicate source or destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pred {
    /// Of the uniform file.
    pub uniform: bool,
    /// 0 to 6, 7 is always true.
    pub index: u8,
    /// Negated.
    pub neg: bool,
}

impl Pred {
    /// PT.
    pub const TRUE: Pred = Pred { uniform: false, index: 7, neg: false };
}

/// Where results go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dst {
    /// `R<n>`
    R(u8),
    /// `UR<n>`
    U(u8),
    /// RZ, URZ.
    None,
}

impl Dst {
    /// The n-th register after this one.
    pub fn next(self, n: u8) -> Dst {
        match self {
            Dst::R(r) => Dst::R(r.wrapping_add(n)),
            Dst::U(r) => Dst::U(r.wrapping_add(n)),
            Dst::None => Dst::None,
        }
    }
}

/// Results of a lane-wise operation: up to two registers and two predicates.
pub struct Out {
    /// Registers.
    pub r: [Lanes; 2],
    /// Predicates.
    pub p: [u32; 2],
}

/// What a lane-wise operation sees: sources and predicate masks.
pub struct In<'a> {
    /// Sources, as many as the operation has.
    pub s: [&'a Lanes; 6],
    /// Predicates with their negation applied.
    pub p: [u32; 3],
    /// Lanes that count.
    pub mask: u32,
}

/// A lane-wise operation.
pub type AluFn = Box<dyn Fn(&In<'_>, &mut Out) + Send + Sync>;
/// Two values of a reduction to one.
pub type ReduceFn = Box<dyn Fn(u32, u32) -> u32 + Send + Sync>;
/// Old value and operands of an atomic to its new value.
pub type AtomFn = Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;

/// State space of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
}

/// An address: 64-bit `R:R+1` or 32-bit `R`, plus a uniform register, plus an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addr {
    /// Low word.
    pub low: Src,
    /// High word, for 64-bit addresses.
    pub high: Option<Src>,
    /// A uniform register that is added.
    pub uniform: Option<Src>,
    /// A 64-bit base to which the register is added.
    pub wide: Option<[Src; 2]>,
    /// What the register is multiplied by.
    pub scale: u32,
    /// Added bytes.
    pub offset: i64,
}

/// Mode of a shuffle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Shuffle {
    Idx,
    Up,
    Down,
    Bfly,
}

/// What is synchronised by `WARPSYNC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    /// All lanes that have not exited.
    All,
    /// Those of a mask.
    Mask(Src),
}

/// What an atomic gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomResult {
    /// The old value.
    Old,
    /// 1 if the value was replaced, else 0 (`CAST.SPIN`).
    Success,
}

/// A load of `size` bytes to `d` and the registers after it; less than 4 bytes are extended, by their sign with `sign`.
#[allow(missing_docs)]
pub struct Load {
    pub space: Space,
    pub addr: Addr,
    pub size: u8,
    pub sign: bool,
    pub d: u8,
    /// It begins a loop of `CAS`, see [`super::decode`].
    pub strong: bool,
    /// It waits for another thread, see [`super::decode`].
    pub poll: bool,
}

/// A store of `size` bytes.
#[allow(missing_docs)]
pub struct Store {
    pub space: Space,
    pub addr: Addr,
    pub size: u8,
    pub s: SmallVec<[Src; 4]>,
}

/// An atomic operation with operands `b` and `c`, low word first.
#[allow(missing_docs)]
pub struct Atom {
    pub space: Space,
    pub addr: Addr,
    pub size: u8,
    pub d: u8,
    pub p: Pred,
    pub b: [Src; 2],
    pub c: [Src; 2],
    pub f: AtomFn,
    pub result: AtomResult,
}

/// Copies to shared memory; zeros where `p` is false. With `partial` the source address is moved up by the bytes at
/// the end that are zero instead.
#[allow(missing_docs)]
pub struct AsyncCopy {
    pub to: Addr,
    pub from: Addr,
    pub size: u8,
    pub partial: bool,
    pub p: Pred,
}

/// What is added to a count of a barrier in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// Nothing.
    None,
    /// One.
    One,
    /// What the register holds.
    Register,
    /// That, taken away.
    Negative,
}

/// What is done to a barrier in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncsOp {
    /// `ARRIVE.64` of the chips without `SYNCS`: an arrival at an object that plain stores made, see [`super::warp`].
    Plain,
    /// Copies of the warp arrive at such an object.
    PlainCopies,
    /// It is made, from two words.
    Exchange,
    /// It is no more.
    Invalidate,
    /// Arrivals, and bytes that are awaited; with `drop` later phases await fewer arrivals.
    #[allow(missing_docs)]
    Arrive { count: Count, bytes: Count, drop: bool },
    /// Whether the phase with the parity in the top bit of the register has ended.
    Check,
    /// Copies of the warp complete on it: with an arrival, or with one of the awaited bytes.
    #[allow(missing_docs)]
    Copies { arrives: bool },
}

/// `SYNCS`, `ARRIVES`
#[allow(missing_docs)]
pub struct Syncs {
    pub what: SyncsOp,
    pub addr: Addr,
    pub d: Dst,
    pub p: Pred,
    pub b: [Src; 2],
    /// The result is the mask of lanes that arrived together, and the state before.
    pub mask: bool,
    /// The warp does it once, not each lane.
    pub once: bool,
}

/// `UBLKCP`, `UBLKRED`
#[allow(missing_docs)]
pub struct BulkCopy {
    /// An address of global memory; or one of shared memory and the barrier.
    pub to: [Src; 2],
    pub from: [Src; 2],
    /// Bytes / 16 (16 bits), and the CTAs of a multicast.
    pub size: Src,
    pub to_shared: bool,
    pub from_shared: bool,
    pub multicast: bool,
    pub reduce: Option<(AtomFn, u8)>,
}

/// `UTMALDG`, `UTMASTG`, `UTMAREDG`
#[allow(missing_docs)]
pub struct Tensor {
    pub load: bool,
    /// Dimensions, which is the number of coordinates.
    pub dims: u8,
    pub im2col: bool,
    pub multicast: bool,
    /// The operation of a reduction, by its number in the instruction.
    pub reduce: Option<u8>,
    /// The place in shared memory, the barrier of a load, and the coordinates.
    pub words: Vec<Src>,
    /// Address of the tensor map.
    pub map: [Src; 2],
    /// Offsets of im2col (16 bits), and the CTAs of a multicast.
    pub more: Option<Src>,
}

/// `STAS`, `REDAS`
#[allow(missing_docs)]
pub struct AsyncStore {
    /// Address in shared memory, and the barrier.
    pub to: [Src; 2],
    pub offset: i64,
    pub size: u8,
    pub s: SmallVec<[Src; 4]>,
    pub reduce: Option<AtomFn>,
}

/// Where a texture instruction has its handle from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HandleFrom {
    /// Constants, or uniform registers: the handle, and for the chips that have one the word of the sampler.
    Words([Src; 2]),
    /// A register.
    Register(u8),
}

/// What a texture instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextureWhat {
    /// `TEX`, with coordinates.
    Sample,
    /// `TLD`, with numbers of texels.
    Load,
    /// `TLD4` of a component.
    Gather(usize),
    /// `TXD`, with gradients.
    Gradients,
    /// `TXQ`: sizes.
    Sizes,
}

/// Where `TEX` and `TLD` have the level from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelFrom {
    /// How coordinates differ in the four lanes of a quad.
    Quad,
    /// The first level.
    Zero,
    /// A register.
    Register(u8),
}

/// `TEX`, `TLD`, `TLD4`, `TXD`, `TXQ`: which registers hold what; 255 is zero.
#[allow(missing_docs)]
pub struct TextureOp {
    pub what: TextureWhat,
    pub dims: usize,
    pub cube: bool,
    pub handle: HandleFrom,
    pub layer: Option<u8>,
    pub coordinates: [u8; 3],
    pub level: LevelFrom,
    pub offset: Option<u8>,
    pub sample: Option<u8>,
    /// A depth that texels are compared with.
    pub compare: Option<u8>,
    /// How the coordinates change to the right and downward.
    pub slopes: [[u8; 3]; 2],
    /// Results are halves, rounded this way.
    pub half: Option<Round>,
    /// Components that are wanted: the first two go to the first pair.
    pub mask: u8,
    pub d: [u8; 2],
    pub p: Pred,
}

/// What is done to a surface.
#[allow(missing_docs)]
pub enum SurfaceWhat {
    Load {
        d: u8,
        sign: bool,
    },
    Store {
        s: SmallVec<[Src; 4]>,
    },
    /// By the sign of the surface's components.
    Reduce {
        s: [Src; 2],
        f: [AtomFn; 2],
    },
}

/// `SULD`, `SUST`, `SURED`
#[allow(missing_docs)]
pub struct SurfaceOp {
    pub what: SurfaceWhat,
    pub handle: Src,
    pub dims: usize,
    pub layered: bool,
    /// First register of coordinates: the layer comes last.
    pub a: u8,
    /// The first coordinate counts bytes, not texels.
    pub by_bytes: bool,
    /// Texels are converted from 32-bit words.
    pub formatted: bool,
    pub size: u8,
    pub beyond: crate::texture::Beyond,
}

/// Type of the elements of A or B of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MatrixType {
    /// A float of so many bits in a register; tf32 has its bits at the top.
    Float(&'static Format, u32),
    /// Double precision.
    Double,
    /// An integer of so many bits, signed or not.
    Int(u32, bool),
    /// Single bits, combined by *and* (else by *xor*) and counted.
    Bit(bool),
}

/// A product `D = A B + C` of matrices, see [`super::tensor`].
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// Rows of A, columns of B, columns of A.
    pub dims: (usize, usize, usize),
    /// Elements of A.
    pub a: MatrixType,
    /// Elements of B.
    pub b: MatrixType,
    /// C and D are half precision.
    pub half: bool,
    /// Integers saturate.
    pub sat: bool,
    /// Products that are summed at once.
    pub block: usize,
    /// Rounding of doubles.
    pub mode: Round,
    /// A holds what is not zero of a sparse matrix; which is told by a register of metadata.
    pub sparse: bool,
    /// The product is subtracted: one of A and B is negated.
    pub negated: bool,
    /// C is subtracted.
    pub negated_c: bool,
}

/// What an instruction does.
#[allow(missing_docs)] // named after the instructions
pub enum Exec {
    Nop,
    Alu {
        s: [Src; 6],
        n: u8,
        pin: [Pred; 3],
        d: Dst,
        nd: u8,
        pout: [Pred; 2],
        f: AluFn,
    },
    Load(Load),
    Store(Store),
    LoadConst {
        bank: u8,
        index: Src,
        offset: i64,
        size: u8,
        sign: bool,
        d: Dst,
    },
    /// One, or two halves of 16 bytes.
    Atom(Vec<Atom>),
    /// An exchange of 16 bytes; of what is `b` only, where it swaps if equal.
    Exchange128 {
        space: Space,
        addr: Addr,
        d: u8,
        b: [Src; 4],
        c: Option<[Src; 4]>,
    },
    Copy(AsyncCopy),
    /// `LDGDEPBAR`
    CopyGroup,
    /// `DEPBAR`: waits for scoreboards, and for all groups of copies but so many.
    WaitFor {
        scoreboards: u8,
        groups: Option<u32>,
        /// A scoreboard, and how many of those who set it may still be under way.
        all_but: Option<(u8, u32)>,
    },
    Fence,
    /// Between plain and asynchronous accesses.
    ProxyFence,
    Matrix {
        load: bool,
        trans: bool,
        addr: Addr,
        r: u8,
        count: u8,
    },
    Syncs(Box<Syncs>),
    Bulk(Box<BulkCopy>),
    AsyncStore(Box<AsyncStore>),
    /// A move from or to the words that a warp keeps beside its registers.
    Rpc {
        d: Dst,
        s: Option<Src>,
        high: bool,
    },
    /// A matrix product: the first registers of D, A, B, C; with the metadata and its selector.
    Mma {
        op: Box<Matrix>,
        r: [u8; 4],
        meta: Option<(Src, u8)>,
    },
    /// A product of a warpgroup.
    Gmma(Box<super::gmma::Gmma>),
    /// `WARPGROUP.ARRIVE`
    GroupArrive,
    /// `WARPGROUP.DEPBAR.LE`
    GroupWait(u32),
    /// A copy of a part of a tensor.
    Tensor(Box<Tensor>),
    /// A part of a product of 8 by 8 by 4 halves.
    Mma884 {
        op: Box<super::quadpair::Step>,
        r: [u8; 4],
    },
    Texture(Box<TextureOp>),
    Surface(Box<SurfaceOp>),
    Movm {
        d: u8,
        a: Src,
        /// Numbers of four bits become such of eight, else a matrix is transposed.
        widens: bool,
    },
    Qspc {
        addr: Addr,
        space: u8,
        p: Pred,
        d: Dst,
    },
    Shfl {
        mode: Shuffle,
        d: u8,
        p: Pred,
        a: Src,
        b: Src,
        c: Src,
    },
    Vote {
        mode: u8,
        d: Dst,
        p: Pred,
        a: Pred,
    },
    Match {
        all: bool,
        d: u8,
        p: Pred,
        a: [Src; 2],
    },
    Redux {
        d: Dst,
        a: Src,
        /// What becomes of each value before.
        each: Option<fn(u32) -> u32>,
        f: ReduceFn,
    },
    Elect {
        d: Dst,
        p: Pred,
        a: Pred,
    },
    /// With `or` the predicate keeps what it was.
    ToUniform {
        d: Dst,
        p: Pred,
        a: Src,
        or: bool,
    },
    /// All predicates into a byte of a register.
    PredsOut {
        d: Dst,
        a: Src,
        shift: u32,
        mask: u32,
        uniform: bool,
    },
    PredsIn {
        a: Src,
        shift: u32,
        mask: u32,
        uniform: bool,
    },
    Special {
        d: Dst,
        index: usize,
        wide: bool,
    },
    Clock {
        d: Dst,
        high: bool,
        wide: bool,
    },
    Bra {
        p: Pred,
        target: u32,
    },
    /// Taken by all lanes of the group if the guard is true for one.
    BraAny {
        target: u32,
    },
    /// Taken by the group where the lanes with a true guard are not those of the mask; with `converged`, where they are.
    BraDiv {
        converged: bool,
        mask: Src,
        inv: bool,
        target: u32,
    },
    /// Jump to a register (pair) plus an offset: BRX, RET, CALL through a register. With `high` the target may be a
    /// function of the system.
    Jump {
        p: Pred,
        low: Src,
        high: Option<Src>,
        base: i64,
    },
    Exit {
        p: Pred,
    },
    Bssy {
        b: u8,
        p: Pred,
    },
    Bsync {
        b: u8,
        p: Pred,
    },
    Break {
        b: u8,
        p: Pred,
    },
    BarrierOut {
        d: u8,
        b: u8,
        clear: bool,
    },
    BarrierIn {
        b: u8,
        s: Src,
    },
    /// The lanes that run, into a convergence barrier; and from one, with `quad` all lanes of their quads.
    ActiveOut {
        b: u8,
    },
    ActiveIn {
        b: u8,
        quad: bool,
    },
    WarpSync {
        p: Pred,
        who: Meeting,
    },
    Yield,
    /// With `packed`, `id` holds the number in bits 3:0 and the count in bits 31:16.
    Bar {
        id: Src,
        packed: bool,
        count: Option<Src>,
        wait: bool,
        red: Option<(u8, Pred)>,
    },
    BarResult {
        d: Dst,
        p: Pred,
    },
    ClusterArrive,
    ClusterWait,
    Trap,
    Unsupported(String),
}

/// A register that an instruction reads or writes, for the hazard check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Number among all registers of a warp, see [`super::hazard::number`].
    pub reg: u16,
    /// Slot of the instruction; `None` is its guard.
    pub slot: Option<u8>,
    /// Read some time after issue, so that overwriting needs a scoreboard.
    pub late: bool,
    /// What was never written may not be used here.
    pub must: bool,
    /// Number among all accesses of the program, see [`super::hazard::Distances`].
    pub site: u32,
}

/// A decoded instruction.
pub struct Ins {
    /// Its guard.
    pub guard: Pred,
    /// What it does.
    pub exec: Exec,
    /// It does so even where the guard is false for all lanes.
    pub always: bool,
    /// Registers read.
    pub uses: Box<[Access]>,
    /// Some of them are read late.
    pub late: bool,
    /// The result may be defined where a source is not: a selection, or what combines bits.
    pub selects: bool,
    /// Registers written.
    pub defs: Box<[Access]>,
    /// Cycles until the next instruction may issue.
    pub stall: u8,
    /// Scoreboards waited for.
    pub wait: u8,
    /// Those that an operand names.
    pub named: u8,
    /// Set when results are written, or 7.
    pub write_sb: u8,
    /// Set when sources are read, or 7.
    pub read_sb: u8,
    /// Results come at a time that only a scoreboard tells.
    pub variable: bool,
    /// Its predicate is there when its sources have been read: a generic atomic tells whether it was done in global memory.
    pub tells_early: bool,
    /// Expected latency of such results.
    pub expected: u16,
    /// It issues only when memory instructions before it have read their operands.
    pub drains: bool,
    /// The queues that its operands and its results pass, see [`super::hazard::queues`].
    pub queues: (u8, u8),
}

/// A kernel ready to run.
pub struct Program {
    /// Instructions in the order of the section.
    pub code: Vec<Ins>,
    /// The same as the tables know them, where they do.
    pub insts: Vec<Option<Inst>>,
    /// Accesses to registers, over all instructions.
    pub sites: u32,
    /// There are products of a warpgroup.
    pub products: bool,
    /// Barriers in shared memory are read by plain loads.
    pub plain_barriers: bool,
    /// Constants.
    pub consts: Vec<Lanes>,
    /// Special registers that the code reads.
    pub specials: Vec<u8>,
}

impl Program {
    /// One without instructions; its only constant is zero.
    pub fn empty() -> Program {
        Program {
            code: Vec::new(),
            insts: Vec::new(),
            sites: 0,
            products: false,
            plain_barriers: false,
            consts: vec![[0; 32]],
            specials: Vec::new(),
        }
    }
}
