//! The form in which the interpreter runs a kernel: operands resolved to slots, every operation a function over 32 lanes.

use diag::Span;
use smallvec::SmallVec;

/// One 64-bit value a lane. Narrower values are zero-extended.
pub type Lanes = [u64; 32];

/// All lanes of up to four operands to all lanes of a result; the mask tells which lanes count.
pub type AluFn = Box<dyn Fn([&Lanes; 4], &mut Lanes, u32) + Send + Sync>;
/// The same with a carry mask in and out.
pub type CarryFn = Box<dyn Fn([&Lanes; 4], u32, &mut Lanes) -> u32 + Send + Sync>;
/// Two operands to a mask of lanes for which the relation holds.
pub type CmpFn = Box<dyn Fn([&Lanes; 2]) -> u32 + Send + Sync>;
/// Old value and operands of an atomic to its new value.
pub type AtomFn = Box<dyn Fn(u64, u64, u64) -> u64 + Send + Sync>;

/// Where an operand lies: a register of the frame, a constant, a special value of the warp, or nowhere (`_`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(pub u32);

impl Slot {
    /// `_`
    pub const NONE: Slot = Slot(u32::MAX);
    /// First constant.
    pub const CONST: u32 = 1 << 30;
    /// First special value.
    pub const SPECIAL: u32 = 2 << 30;
}

/// A predicate operand; slot 0 is always true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PRef {
    /// Slot in the frame's predicates.
    pub slot: u32,
    /// Negated.
    pub neg: bool,
}

impl PRef {
    /// Always true.
    pub const TRUE: PRef = PRef { slot: 0, neg: false };
}

/// State space of an access, as far as it matters at run time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Told by the address.
    Generic,
    /// Global.
    Global,
    /// Shared, of the own CTA or by rank of the cluster.
    Shared,
    /// The thread's own stack (also function parameters).
    Local,
    /// Constants of the module.
    Const,
    /// Kernel parameters.
    Param,
}

/// An address operand.
#[derive(Clone, Copy, Debug)]
pub struct Addr {
    /// Base value; a constant zero where there is none.
    pub base: Slot,
    /// Added bytes.
    pub offset: i64,
    /// The base of the frame in local memory is added.
    pub frame: bool,
    /// Bits of the sum that count.
    pub mask: u64,
}

/// Combination of a comparison with a predicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    /// and
    And,
    /// or
    Or,
    /// xor
    Xor,
}

impl Combine {
    /// The combination of two masks.
    pub fn of(self, a: u32, b: u32) -> u32 {
        match self {
            Combine::And => a & b,
            Combine::Or => a | b,
            Combine::Xor => a ^ b,
        }
    }
}

/// Mode of a shuffle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Shuffle {
    Up,
    Down,
    Bfly,
    Idx,
}

/// Kind of a vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

/// Operation of `redux` on 32-bit values.
pub type ReduxFn = fn(u32, u32) -> u32;

/// A warp-wide operation: waits for every lane that its mask names.
pub enum Collective {
    /// `bar.warp.sync`
    Sync,
    /// `shfl.sync`
    Shfl { d: Slot, p: Option<u32>, mode: Shuffle, a: Slot, b: Slot, c: Slot },
    /// `vote.sync`; `d` for a ballot, `p` otherwise.
    Vote { kind: Vote, d: Slot, p: Option<u32>, a: PRef },
    /// `match.sync`
    Match { all: bool, d: Slot, p: Option<u32>, a: Slot },
    /// `redux.sync`
    Redux { d: Slot, a: Slot, f: ReduxFn },
    /// `elect.sync`
    Elect { d: Slot, p: Option<u32> },
    /// `mma`
    Mma(Box<MmaOp>),
    /// `wmma.load`, `wmma.store`
    Fragment(Box<FragmentOp>),
    /// `movmatrix`
    MovMatrix { d: Slot, a: Slot },
    /// `wgmma`
    Wgmma(Box<WgmmaOp>),
    /// `tensormap.cp_fenceproxy`
    MapCopy { to: Addr, from: Addr },
    /// `ldmatrix` (`load`) and `stmatrix` of 8x8 matrices of 16-bit elements, one register a matrix.
    Matrix { load: bool, trans: bool, space: Space, addr: Addr, r: SmallVec<[Slot; 4]> },
}

/// An argument or result of a call: where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Passed {
    /// Bytes of the frame in local memory.
    Frame(u32),
    /// A register, constant or special value.
    Slot(Slot),
    /// A predicate: a byte that is 0 or 1.
    Pred(PRef),
    /// As many slots, one behind the other: a vector register, each element of which has so many bytes.
    Slots {
        /// Of the first element.
        first: Slot,
        /// Number of elements.
        n: u8,
        /// Bytes of an element.
        bytes: u8,
    },
}

/// What is called.
pub enum Callee {
    /// A function, by its number in [`Program::funcs`].
    Direct(u32),
    /// A function address.
    Indirect(Slot),
    /// A function that the system provides.
    System(System),
}

/// Functions that the system provides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// `vprintf(format, arguments)`
    Vprintf,
    /// `malloc(size)`
    Malloc,
    /// `free(address)`
    Free,
    /// `__assertfail(message, file, line, function, char size)`
    AssertFail,
}

/// How an access is ordered with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Order {
    /// Not weak: volatile, relaxed, acquire, release.
    pub strong: bool,
    /// What others released is seen after it. Volatile loads count, as code for old compilers relies on it.
    pub acquire: bool,
    /// What the thread did before is seen by whoever acquires it.
    pub release: bool,
}

/// `atom`, `red`
pub struct Atomic {
    /// Space.
    pub space: Space,
    /// Where.
    pub addr: Addr,
    /// Bytes.
    pub size: u8,
    /// Bytes that the address is a multiple of.
    pub align: u8,
    /// Old value, may be [`Slot::NONE`].
    pub d: Slot,
    /// First operand.
    pub b: Slot,
    /// Second operand, of `cas`.
    pub c: Slot,
    /// The operation.
    pub f: AtomFn,
    /// Replaces `f` for addresses of shared memory, where it differs.
    pub shared: Option<AtomFn>,
    /// Ordering.
    pub order: Order,
}

/// `atom.b128`: exchange, or compare and swap if `c` is given. Low halves first.
pub struct WideAtomic {
    /// Space.
    pub space: Space,
    /// Where.
    pub addr: Addr,
    /// Old value.
    pub d: [Slot; 2],
    /// New value, or what is compared.
    pub b: [Slot; 2],
    /// New value of a compare and swap.
    pub c: Option<[Slot; 2]>,
    /// Ordering.
    pub order: Order,
}

/// `cp.async`
pub struct AsyncCopy {
    /// Where to in shared memory.
    pub to: Addr,
    /// Where from in global memory.
    pub from: Addr,
    /// Bytes written.
    pub size: u8,
    /// Bytes read, the rest is zero.
    pub read: Slot,
    /// Nothing is read where this is true.
    pub ignore: PRef,
}

/// What is done to the stack of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// So many bytes of this alignment.
    Alloca(Slot, u32),
    /// Its end.
    Save,
    /// Back to this end.
    Restore(Slot),
}

/// What is done to a barrier in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // named as in the instructions
pub enum MbarrierOp {
    Init,
    Inval,
    Arrive {
        drop: bool,
        expect: bool,
        no_complete: bool,
    },
    Transactions {
        complete: bool,
    },
    Wait {
        parity: bool,
    },
    /// `cp.async.mbarrier.arrive`
    CopyArrive {
        noinc: bool,
    },
}

/// `mbarrier`
pub struct Mbarrier {
    /// What is done.
    pub what: MbarrierOp,
    /// The object.
    pub addr: Addr,
    /// State before an arrival.
    pub d: Slot,
    /// Result of a test.
    pub p: Option<u32>,
    /// Count, bytes, state or parity.
    pub a: Slot,
    /// Ordering.
    pub order: Order,
}

/// `cp.async.bulk`
pub struct Bulk {
    /// Where to.
    pub to: (Space, Addr),
    /// Where from.
    pub from: (Space, Addr),
    /// Bytes.
    pub size: Slot,
    /// Combines with what is there: the operation, and bytes of an element.
    pub reduce: Option<(AtomFn, u8)>,
    /// The mbarrier that counts the bytes.
    pub done: Option<Addr>,
    /// The CTAs of the cluster, a bit each, that all get the bytes, at the same offset; and their mbarriers the count.
    pub multicast: Option<Slot>,
}

/// What a texture or surface instruction says of its coordinates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Coordinates: 1 to 3.
    pub dims: usize,
    /// The number of a layer stands in front.
    pub layers: bool,
    /// The coordinates are a direction.
    pub cube: bool,
    /// The number of a sample stands first.
    pub samples: bool,
}

/// `[object, sampler, coordinates]`
pub struct TexelAddress {
    /// See there.
    pub geometry: Geometry,
    /// Handle of the texture or surface.
    pub object: Slot,
    /// Handle of the sampler, in independent mode.
    pub sampler: Option<Slot>,
    /// Sample, layer, coordinates.
    pub coordinates: SmallVec<[Slot; 4]>,
}

/// Where the level of detail comes from.
pub enum LodFrom {
    /// The first.
    Base,
    /// A value; true for a float.
    Level(Slot, bool),
    /// Two gradients.
    Grad(SmallVec<[Slot; 4]>, SmallVec<[Slot; 4]>),
}

/// `tex`, `tld4`
pub struct TextureOp {
    /// Where.
    pub at: TexelAddress,
    /// Components.
    pub d: SmallVec<[Slot; 4]>,
    /// Whether the texels are there.
    pub p: Option<u32>,
    /// Their type.
    pub ty: ptx::types::ScalarType,
    /// Coordinates are integers.
    pub whole: bool,
    /// Level.
    pub lod: LodFrom,
    /// Texels added.
    pub offset: SmallVec<[Slot; 4]>,
    /// A depth that texels are compared with.
    pub compare: Option<Slot>,
    /// `tld4`: the component.
    pub gather: Option<usize>,
}

/// What is done to a surface.
pub enum SurfaceMove {
    /// Load.
    Load(SmallVec<[Slot; 4]>),
    /// Store.
    Store(SmallVec<[Slot; 4]>),
    /// Reduction, for unsigned and signed texels.
    Reduce(SmallVec<[Slot; 4]>, [AtomFn; 2]),
}

/// `suld`, `sust`, `sured`
pub struct SurfaceOp {
    /// Where.
    pub at: TexelAddress,
    /// Bytes of an element.
    pub size: u8,
    /// Beyond the edges.
    pub beyond: crate::texture::Beyond,
    /// `.p`: in the format of the surface.
    pub formatted: bool,
    /// What is done.
    pub what: SurfaceMove,
}

/// `cp.async.bulk.tensor` and what belongs to it.
pub struct TensorCopy {
    /// Generic address of the tensor map.
    pub map: Slot,
    /// Coordinates, innermost first.
    pub coordinates: SmallVec<[Slot; 5]>,
    /// Offsets of im2col; none given for a store. `None` for tiles.
    pub offsets: Option<SmallVec<[Slot; 3]>>,
    /// What is done.
    pub what: TensorMove,
}

/// Direction of a tensor copy.
pub enum TensorMove {
    /// Into shared memory, counted by an mbarrier; into those of the CTAs of a mask.
    Load { to: Addr, done: Addr, multicast: Option<Slot> },
    /// From shared memory; combined with what is there by a function for each type of elements.
    Store { from: Addr, reduce: Option<Vec<Option<AtomFn>>> },
    /// Nothing is moved.
    Prefetch,
}

/// `tensormap.replace`
pub struct MapReplace {
    /// Space of the object.
    pub space: Space,
    /// The object.
    pub addr: Addr,
    /// Which field.
    pub field: crate::tensormap::Field,
    /// Its new value.
    pub value: Slot,
}

/// `st.async`, `red.async`
pub struct AsyncStore {
    /// Where to.
    pub addr: Addr,
    /// Bytes of an element.
    pub size: u8,
    /// The elements.
    pub s: SmallVec<[Slot; 4]>,
    /// Combines with what is there.
    pub f: Option<AtomFn>,
    /// The mbarrier that counts the bytes.
    pub done: Addr,
}

/// `wmma.load`, `wmma.store`: a matrix in memory and its fragment.
pub struct FragmentOp {
    /// A load.
    pub load: bool,
    /// How it lies.
    pub fragment: super::matrix::Fragment,
    /// Space of the matrix.
    pub space: Space,
    /// Its first element.
    pub addr: Addr,
    /// Elements from one row (column, if column-major) to the next; [`Slot::NONE`] where they lie without gaps.
    pub stride: Slot,
    /// Registers.
    pub r: SmallVec<[Slot; 8]>,
}

/// `mma` with its fragments.
pub struct MmaOp {
    /// The product.
    pub mma: super::matrix::Mma,
    /// Registers of D.
    pub d: SmallVec<[Slot; 8]>,
    /// Of A.
    pub a: SmallVec<[Slot; 8]>,
    /// Of B.
    pub b: SmallVec<[Slot; 8]>,
    /// Of C.
    pub c: SmallVec<[Slot; 8]>,
    /// Metadata of a sparse A, or [`Slot::NONE`].
    pub meta: Slot,
}

/// Where A of a `wgmma` is.
pub enum MatrixA {
    /// In registers.
    Held(SmallVec<[Slot; 4]>),
    /// In shared memory: its descriptor.
    Shared(Slot),
}

/// `wgmma.mma_async` with its operands.
pub struct WgmmaProduct {
    /// The product.
    pub x: super::wgmma::Wgmma,
    /// Registers of D.
    pub d: Vec<Slot>,
    /// A.
    pub a: MatrixA,
    /// Descriptor of B.
    pub b: Slot,
    /// True if D is added.
    pub scale: PRef,
    /// Metadata of a sparse A, or [`Slot::NONE`].
    pub meta: Slot,
}

/// `wgmma`
pub enum WgmmaOp {
    /// `.fence`
    Fence,
    /// `.commit_group`
    Commit,
    /// `.wait_group`
    Wait(u32),
    /// `.mma_async`
    Product(WgmmaProduct),
    /// `setmaxnreg`: to more registers, and how many.
    Registers(bool, u32),
}

/// Groups of asynchronous copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyGroup {
    /// Copies since the last commit are a group.
    Commit,
    /// All but so many groups are done.
    Wait(u32),
    /// All are done.
    WaitAll,
}

/// What an instruction does.
pub enum Exec {
    /// Nothing (fences, prefetches).
    Nop,
    /// A computation of each lane by itself.
    Alu { d: Slot, s: [Slot; 4], n: u8, f: AluFn },
    /// The same with the condition code.
    Carry { d: Slot, s: [Slot; 4], n: u8, f: CarryFn, reads: bool, writes: bool },
    /// A move: an unwritten source makes the destination unwritten.
    Mov { d: Slot, s: Slot },
    /// Several moves at once.
    MovList { d: SmallVec<[Slot; 4]>, s: SmallVec<[Slot; 4]> },
    /// Selection by predicate.
    Select { d: Slot, a: Slot, b: Slot, p: PRef },
    /// Several registers into one, low part first.
    Pack { d: Slot, s: SmallVec<[Slot; 4]>, bits: u32 },
    /// One register into several.
    Unpack { d: SmallVec<[Slot; 4]>, s: Slot, bits: u32 },
    /// Four words into the halves of a register of 128 bits.
    PackWide { d: [Slot; 2], s: [Slot; 4] },
    /// A register of 128 bits into four words.
    UnpackWide { d: [Slot; 4], s: [Slot; 2] },
    /// Comparison into predicates `p` and (negated) `q`.
    Compare { p: Option<u32>, q: Option<u32>, s: [Slot; 2], f: CmpFn, with: Option<(PRef, Combine)> },
    /// Comparison into a register: `yes` or 0.
    CompareTo { d: Slot, s: [Slot; 2], f: CmpFn, with: Option<(PRef, Combine)>, yes: u64 },
    /// The same of two halves of a register, one after the other.
    ComparePair { d: Slot, s: [Slot; 2], f: [CmpFn; 2], with: Option<(PRef, Combine)>, yes: u64 },
    /// Predicates combined.
    Pred { d: u32, a: PRef, b: PRef, op: Combine },
    /// `lop3.BoolOp`: `d = f(s)`, `p = (d != 0) op c`.
    LopPred { d: Slot, p: Option<u32>, s: [Slot; 4], f: AluFn, c: PRef, op: Combine },
    /// Address of something in the frame.
    FrameAddr { d: Slot, offset: i64, base: u64 },
    /// Load of `d.len()` elements of `size` bytes; `signed` elements are extended to `bits`.
    Load { order: Order, space: Space, addr: Addr, size: u8, d: SmallVec<[Slot; 4]>, sign: Option<u32> },
    /// Store.
    Store { order: Order, space: Space, addr: Addr, size: u8, s: SmallVec<[Slot; 4]> },
    /// Atomic: one for each element.
    Atom(Box<[Atomic]>),
    /// Atomic of 128 bits.
    AtomWide(Box<WideAtomic>),
    /// `cp.async`
    Copy(Box<AsyncCopy>),
    /// `cp.async.commit_group` and waits.
    CopyGroup(CopyGroup),
    /// `cp.async.bulk.commit_group` and waits.
    BulkGroup(CopyGroup),
    /// `fence`, `membar`
    Fence,
    /// `alloca`, `stacksave`, `stackrestore`
    Stack { d: Slot, how: Stack },
    /// `fence.proxy.async`
    ProxyFence,
    /// `fence.proxy.tensormap`: a release; or an acquire, of the map at an address.
    MapFence(Option<Addr>),
    /// `mbarrier`
    Mbarrier(Box<Mbarrier>),
    /// `cp.async.bulk`
    Bulk(Box<Bulk>),
    /// `cp.async.bulk.tensor`
    TensorCopy(Box<TensorCopy>),
    /// `tensormap.replace`
    MapReplace(Box<MapReplace>),
    /// `tex`, `tld4`
    Texture(Box<TextureOp>),
    /// `suld`, `sust`, `sured`
    Surface(Box<SurfaceOp>),
    /// `txq`, `suq`
    TextureQuery { d: Slot, object: Slot, level: Slot, query: crate::texture::Query },
    /// `st.async`, `red.async`
    AsyncStore(Box<AsyncStore>),
    /// Branch.
    Bra { target: u32 },
    /// Branch by index.
    Brx { s: Slot, targets: Vec<u32> },
    /// Call.
    Call { callee: Callee, args: Vec<(Passed, u32)>, rets: Vec<(Passed, u32)> },
    /// Return.
    Ret,
    /// End of the thread.
    Exit,
    /// `trap`
    Trap,
    /// `bar`, `barrier`: `wait` is false for an arrival only; with a reduction of a predicate.
    /// `aligned`: all threads of the warp must come to the same instruction.
    Barrier { id: Slot, count: Slot, wait: bool, aligned: bool, red: Option<BarRed> },
    /// `barrier.cluster.arrive`, `.wait`
    /// With `release` it tells what the thread has done.
    ClusterArrive { release: bool },
    /// See [`Exec::ClusterArrive`].
    ClusterWait,
    /// A warp-wide operation with its member mask; without one it is that of the lanes that are together.
    Collective { mask: Slot, key: u32, op: Collective },
    /// `activemask`
    ActiveMask { d: Slot },
    /// Clocks: the number of instructions that the warp has issued.
    Clock { d: Slot, high: bool },
    /// Gives way to other warps.
    Sleep,
    /// Something that the interpreter does not model: a fault if it is reached.
    Unsupported(String),
}

/// Reduction of a barrier.
pub struct BarRed {
    /// The predicate that every thread brings.
    pub a: PRef,
    /// Where the result goes.
    pub d: BarDest,
}

/// Result of a barrier reduction.
pub enum BarDest {
    /// Number of true predicates.
    Popc(Slot),
    /// All true.
    And(u32),
    /// Any true.
    Or(u32),
}

/// A decoded instruction.
pub struct Ins {
    /// Its guard.
    pub guard: PRef,
    /// What it does.
    pub exec: Exec,
    /// Its place.
    pub span: Span,
    /// Source file (index into [`Program::files`]) and line; line 0 where unknown.
    pub line: (u32, u32),
}

/// A decoded function.
#[derive(Clone, Debug, Default)]
pub struct Func {
    /// Name.
    pub name: String,
    /// First instruction.
    pub entry: u32,
    /// Frame offsets and sizes of the formal parameters.
    pub params: Vec<(u32, u32)>,
    /// Frame offsets and sizes of the results.
    pub returns: Vec<(u32, u32)>,
    /// Bytes of its frame in local memory.
    pub frame: u32,
    /// Has a body.
    pub defined: bool,
}

/// Special values that a warp keeps ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    /// Address of something at this offset of the CTA's own shared memory; the rank in the cluster is added.
    Shared(u32),
    /// A special register.
    Reg(ptx::types::SpecialReg),
}

/// A kernel ready to run.
#[derive(Default)]
pub struct Program {
    /// All instructions of all functions.
    pub code: Vec<Ins>,
    /// All functions of the module, by function number.
    pub funcs: Vec<Func>,
    /// Source files.
    pub files: Vec<String>,
    /// Constants.
    pub consts: Vec<Lanes>,
    /// Special values.
    pub specials: Vec<Special>,
    /// Registers of the largest frame.
    pub slots: usize,
    /// Predicates of the largest frame.
    pub preds: usize,
    /// Bytes of static shared memory, and where dynamic shared memory starts.
    pub shared: u32,
    /// Constant memory of the module.
    pub constant: Vec<u8>,
    /// The kernel's function number.
    pub entry: u32,
    /// It has `wgmma`.
    pub warpgroups: bool,
    /// `.maxnreg` of the kernel: what `setmaxnreg` starts from.
    pub registers: Option<u32>,
}
