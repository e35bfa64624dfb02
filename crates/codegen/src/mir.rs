//! The machine representation: `sass::Inst` with virtual registers in its operand slots, in blocks.
//!
//! Before register assignment the function is in SSA form over *scalars*: a [`Vreg`] is one 32-bit value (GPR, UGPR) or
//! one bit (predicates). An operand slot that is one register wide holds `Reg::virt(file, vreg)`; a wider slot holds
//! `Reg::pooled(file, vec)`, where `vec` is an entry of [`Func::vecs`], the list of scalars that must lie in consecutive
//! registers, aligned to the width rounded up to a power of two. Physical registers may stand anywhere: RZ, PT, ... and
//! the reserved ones (R1 = stack pointer, UR4:UR5 = memory descriptor), which are never allocated.
//!
//! Values cross edges by block parameters. Critical edges are split before register allocation: an edge with arguments
//! either leaves a block with one successor or enters a block with one predecessor.
//!
//! After register assignment every operand is physical, block parameters and edge arguments are empty, and
//! [`Op::Copy`] is gone.

pub mod liveness;
pub mod operands;
pub mod text;
pub mod verify;

use crate::abi::Keeps;
use crate::regalloc::shared;
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// One scalar virtual register: index into [`Func::vregs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vreg(pub u32);

impl Vreg {
    /// No value.
    pub const NONE: Vreg = Vreg(u32::MAX);

    /// The number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A block: index into [`Func::blocks`]; block 0 is the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A function under compilation.
#[derive(Clone, Debug, Default)]
pub struct Func {
    /// Name (of the entry or device function).
    pub name: String,
    /// True for a kernel entry.
    pub entry: bool,
    /// Blocks, in layout order except that layout may be changed by the last passes.
    pub blocks: Vec<Block>,
    /// File of each virtual register.
    pub vregs: Vec<File>,
    /// Vector pool: the scalars of each vector operand. Entries may be shared by several operands.
    pub vecs: Vec<SmallVec<[Vreg; 4]>>,
    /// Values that arrive in fixed registers (device functions: arguments, the return address).
    pub live_in: Vec<(Vreg, Reg)>,
    /// Stack frame.
    pub frame: Frame,
    /// It stands in a section of its own and is linked by name: callers and callees keep to the ABI.
    pub linkable: bool,
    /// What it keeps for its callers.
    pub keeps: Keeps,
    /// Registers in which nobody who calls it has anything, one bit each from R0 on: it need not keep these, whatever its convention says.
    pub vacant: [u64; 4],
    /// So many registers below those that a routine for seldom cases may change it takes, too, and saves.
    pub borrows: u8,
    /// What its operands refer to ([`crate::link`]).
    pub refs: Vec<crate::link::Ref>,
    /// Largest number of GPRs that may be used (R0..R(n-1)); 253 at most, from `.maxnreg`, launch bounds, options.
    pub max_gprs: u32,
    /// How many registers threads begin with, as the driver counts them, where they change the number and that is known; else 0.
    pub at_entry: u32,
    /// Shared memory that its spills may take, where it is a kernel that leaves some.
    pub room: Option<shared::Room>,
    /// What register allocation took of it.
    pub shared_spills: Option<shared::Taken>,
    /// Threads of a warp may tell each other something through memory where no instruction says so: by volatile accesses of shared memory, which are
    /// as any other, or by `bar.warp.sync`, of which nothing is left where the warp is together. Their accesses keep the order that they are given in.
    pub lanes_tell: bool,
}

/// The stack frame, in bytes from R1 after the prologue: outgoing arguments, then locals, then what the register
/// allocator adds (spill slots, saved registers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Bytes of outgoing stack arguments.
    pub outgoing: u32,
    /// Bytes of outgoing arguments plus local variables: where spill slots begin.
    pub fixed: u32,
    /// Where what register allocation adds begins, which only instructions with R1 and an offset access.
    pub slots: u32,
    /// Total size, a multiple of 8; set by register allocation (at least `fixed`).
    pub size: u32,
    /// Largest alignment of a local; above 8, the prologue masks R1.
    pub align: u32,
    /// More is taken below it while the function runs, nobody knows how much.
    pub grows: bool,
    /// The function traps at its start where there is no memory for it.
    pub checked: bool,
    /// A value above the locals, which nothing may change until the function ends.
    pub guarded: bool,
}

/// A basic block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Values that come in over the edges.
    pub params: Vec<Vreg>,
    /// Instructions, without the terminator.
    pub insts: Vec<Inst>,
    /// How it ends.
    pub term: Term,
    /// As [`Inst::loc`], of its end.
    pub loc: u32,
    /// Loop nesting depth: 0 outside loops.
    pub depth: u32,
    /// True where the threads of a warp may not all be here together.
    pub divergent: bool,
}

/// An instruction with the place in the PTX text that it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// Byte offset of the PTX statement in the source text; `u32::MAX` where there is none.
    pub loc: u32,
    /// Before register assignment, of an instruction under a guard: what each register that it writes holds where the guard is false.
    pub other: Option<u32>,
}

impl Inst {
    /// An instruction that comes from `loc`.
    pub fn new(op: Op, loc: u32) -> Inst {
        Inst { op, loc, other: None }
    }

    /// Takes it from its place, where an operation without effect stays.
    #[inline(always)]
    pub fn take(&mut self) -> Inst {
        std::mem::replace(self, Inst::new(Op::Copy(Vec::new()), u32::MAX))
    }

    /// Moves it behind the last of `list`; an operation without effect stays. In half the time of taking it from its place and putting it there.
    #[inline]
    pub fn move_to(&mut self, list: &mut Vec<Inst>) {
        list.push(Inst::new(Op::Copy(Vec::new()), u32::MAX));
        if let Some(place) = list.last_mut() {
            std::mem::swap(self, place);
        }
    }
}

/// A machine operation.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // nearly all are the large one
pub enum Op {
    /// A SASS instruction.
    Sass(sass::inst::Inst),
    /// A parallel copy: all sources are read, then all destinations written. Source and destination are of one file,
    /// or GPR <- UGPR, GPR <- constant (RZ), predicate <- PT.
    Copy(Vec<(Reg, Reg)>),
    /// A call of a device function of this kernel.
    Call(Box<Call>),
    /// Reads the incoming stack argument at byte `offset` above the caller's R1; `width` 4-byte words.
    LoadIncoming {
        /// Where it goes, scalars in order.
        dst: SmallVec<[Vreg; 4]>,
        /// Bytes above R1 as it was at entry.
        offset: u32,
    },
    /// Does nothing, and leaves no instruction ([`crate::sched::holds`]).
    Hold {
        /// Values that stay in their registers up to here where they are in registers: asynchronous products read these for longer.
        ends: Vec<Vreg>,
        /// Values that are whatever their registers hold.
        begins: Vec<Vreg>,
    },
}

/// A call: arguments and results sit in fixed registers; the return address is set by emission.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The callee, by index in the kernel's list of functions ([`crate::pipeline`]), or a register pair.
    pub target: CallTarget,
    /// The value of an indirect target is the offset in constant bank 4 of the address of a function of the system.
    pub far: bool,
    /// What the callee keeps.
    pub keeps: Keeps,
    /// The callee's stack begins where R3 says; so many bytes on stands the caller's R1.
    pub top: Option<u32>,
    /// It does not come back: nothing lives across it.
    pub ends: bool,
    /// Values that go into fixed registers.
    pub args: Vec<(Vreg, Reg)>,
    /// Values that come back in fixed registers.
    pub rets: Vec<(Vreg, Reg)>,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallTarget {
    /// Function number in the kernel's list.
    Func(u32),
    /// Indirect: byte offset of the function from the start of the kernel's text, in this 32-bit value. After register
    /// assignment the number is that of the first of a free even register pair, whose second word emission clears.
    Indirect(Vreg),
    /// A function of another section: the number of the reference to it.
    Symbol(u32),
    /// The address of a function in any section, low and high half. After register assignment both numbers are those of
    /// registers, the first one even and the second one next to it.
    Address(Vreg, Vreg),
}

impl CallTarget {
    /// The values that it is read from.
    pub fn values(self) -> SmallVec<[Vreg; 2]> {
        match self {
            CallTarget::Func(_) | CallTarget::Symbol(_) => SmallVec::new(),
            CallTarget::Indirect(v) => SmallVec::from_slice(&[v]),
            CallTarget::Address(lo, hi) => SmallVec::from_slice(&[lo, hi]),
        }
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> SmallVec<[&mut Vreg; 2]> {
        match self {
            CallTarget::Func(_) | CallTarget::Symbol(_) => SmallVec::new(),
            CallTarget::Indirect(v) => smallvec::smallvec![v],
            CallTarget::Address(lo, hi) => smallvec::smallvec![lo, hi],
        }
    }
}

/// An edge to a block with the values for its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// Where it goes.
    pub block: BlockId,
    /// One value for each parameter of the block.
    pub args: Vec<Vreg>,
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// Goes on at a block.
    Br(Edge),
    /// `then` if the predicate (P or UP, maybe inverted) is true.
    CondBr {
        /// The condition.
        cond: sass::inst::Operand,
        /// Taken when true.
        then: Edge,
        /// Taken when false.
        els: Edge,
    },
    /// Indexed branch: `index` (a GPR scalar, in range) selects the target; edges carry no arguments. Register
    /// allocation replaces it by code that ends with BRX; the index is then [`Vreg::NONE`].
    Switch {
        /// 0-based index.
        index: Vreg,
        /// Targets in order.
        targets: Vec<BlockId>,
    },
    /// The thread ends.
    Exit,
    /// Return from a device function; values in fixed registers (results, and the return address).
    Ret(Vec<(Vreg, Reg)>),
    /// Control never comes here (after a trap or a call that does not return).
    Unreachable,
}

/// What the first register of a vector of `width` registers is a multiple of. Up to 16 it is the width, rounded up to a
/// power of two; the sums of products by a warpgroup, of which there are up to 128, begin at multiples of 8 in the vendor's code.
pub fn alignment(width: usize) -> usize {
    if width > 16 { 8 } else { width.next_power_of_two() }
}

/// The instructions in this order, which names each of them once.
pub fn reorder(mut insts: Vec<Inst>, order: &[u32]) -> Vec<Inst> {
    debug_assert_eq!(insts.len(), order.len());
    if order.is_sorted() {
        return insts;
    }
    // Round each cycle, where they lie: two instructions change places in a third of the time that it takes to move one out and in.
    let mut from = order.to_vec();
    for first in 0..from.len() {
        let mut at = first;
        while from[at] as usize != first {
            let next = std::mem::replace(&mut from[at], at as u32) as usize;
            insts.swap(at, next);
            at = next;
        }
        from[at] = at as u32;
    }
    insts
}

impl Func {
    /// Must it leave the register as it was, for its callers?
    pub fn preserves(&self, gpr: u32) -> bool {
        self.keeps.preserves(gpr) && self.vacant[gpr as usize / 64 % 4] >> (gpr % 64) & 1 == 0
    }

    /// A new scalar virtual register.
    pub fn new_vreg(&mut self, file: File) -> Vreg {
        self.vregs.push(file);
        Vreg(self.vregs.len() as u32 - 1)
    }

    /// Adds a reference; gives its number.
    pub fn refer(&mut self, symbol: crate::link::Symbol, kind: u32, addend: i64) -> usize {
        self.refs.push(crate::link::Ref { symbol, kind, addend });
        self.refs.len() - 1
    }

    /// The operand register of a scalar.
    pub fn reg(&self, v: Vreg) -> Reg {
        Reg::virt(self.vregs[v.0 as usize], v.0)
    }

    /// The operand register of a vector of scalars (all of one file): puts it into the pool. One scalar is itself.
    pub fn vector(&mut self, scalars: &[Vreg]) -> Reg {
        if let [one] = scalars {
            return self.reg(*one);
        }
        let file = self.vregs[scalars[0].0 as usize];
        self.vecs.push(scalars.into());
        Reg::pooled(file, self.vecs.len() as u32 - 1)
    }

    /// The scalars of a virtual register operand.
    pub fn scalars(&self, reg: Reg) -> SmallVec<[Vreg; 4]> {
        debug_assert!(reg.is_virtual());
        if reg.is_pooled() {
            self.vecs[reg.index() as usize].clone()
        } else {
            SmallVec::from_slice(&[Vreg(reg.index())])
        }
    }
}

impl Func {
    /// The control-flow graph.
    pub fn cfg(&self) -> crate::cfg::Cfg {
        crate::cfg::Cfg::new(self.blocks.iter().map(|b| b.term.numbers()).collect())
    }
}

impl Term {
    /// The edges, to be changed.
    pub fn edges_mut(&mut self) -> SmallVec<[&mut Edge; 2]> {
        match self {
            Term::Br(e) => smallvec::smallvec![e],
            Term::CondBr { then, els, .. } => smallvec::smallvec![then, els],
            _ => SmallVec::new(),
        }
    }

    /// Changes every target.
    pub fn retarget(&mut self, mut to: impl FnMut(BlockId) -> BlockId) {
        match self {
            Term::Switch { targets, .. } => targets.iter_mut().for_each(|t| *t = to(*t)),
            _ => self.edges_mut().into_iter().for_each(|e| e.block = to(e.block)),
        }
    }

    /// The edges in order, arguments included.
    pub fn edges(&self) -> SmallVec<[&Edge; 2]> {
        match self {
            Term::Br(e) => SmallVec::from_buf_and_len([e, e], 1),
            Term::CondBr { then, els, .. } => SmallVec::from_buf([then, els]),
            _ => SmallVec::new(),
        }
    }

    /// Every successor block, in order, with repetitions.
    pub fn successors(&self) -> SmallVec<[BlockId; 4]> {
        self.neighbours(|b| b)
    }

    /// As [`Term::successors`], by their numbers.
    fn numbers(&self) -> crate::cfg::Blocks {
        self.neighbours(|b| b.0)
    }

    /// Every successor in order, as `to` names it. Graphs are built often, of blocks that nearly all have one or two: their lists are written as they lie.
    fn neighbours<T: Copy>(&self, to: impl Fn(BlockId) -> T) -> SmallVec<[T; 4]> {
        match self {
            Term::Switch { targets, .. } => targets.iter().map(|&t| to(t)).collect(),
            Term::Br(e) => SmallVec::from_buf_and_len([to(e.block); 4], 1),
            Term::CondBr { then, els, .. } => {
                let [then, els] = [to(then.block), to(els.block)];
                SmallVec::from_buf_and_len([then, els, els, els], 2)
            }
            _ => SmallVec::new(),
        }
    }
}
