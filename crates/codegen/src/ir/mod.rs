//! The intermediate representation: SSA with block parameters.
//!
//! Values are bits: a [`Ty`] is a width, and the operation says how the bits are read ([`Attr`] carries float format,
//! signedness, rounding and so on). One operation is one line of the table in [`ops`]; the verifier, the text form and
//! the optimizer read that table.
//!
//! Shapes that every pass keeps: block 0 is the entry and has no predecessors; every block ends in one [`Term`]; a value
//! is defined once, in a block that dominates its uses; edge arguments match block parameters in number and type.

pub mod build;
pub mod matrix;
pub mod ops;
pub mod texel;
pub mod text;
pub mod verify;

pub use build::Builder;
pub use ops::{AtomOp, Attr, BarKind, Cmp, Effect, Fmt, LineHint, Mem, MemSpace, NONZERO, Op, Rnd, Scope, Sem, Sreg};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A value: index into [`Func::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// An instruction: index into [`Func::insts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstId(pub u32);

/// A block: index into [`Func::blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block(pub u32);

impl Value {
    /// Index into the value table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Block {
    /// Index into the block table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The width of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ty {
    /// One bit.
    P,
    /// 16 bits, in a 32-bit register whose upper half is not defined.
    B16,
    /// 32 bits.
    B32,
    /// 64 bits.
    B64,
}

impl Ty {
    /// Width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Ty::P => 1,
            Ty::B16 => 16,
            Ty::B32 => 32,
            Ty::B64 => 64,
        }
    }
}

/// What defines a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Def {
    /// Result `n` of an instruction.
    Inst(InstId, u8),
    /// Parameter `n` of a block.
    Param(Block, u32),
}

/// A value's type and definition.
#[derive(Clone, Copy, Debug)]
pub struct ValueData {
    /// Width.
    pub ty: Ty,
    /// Definition.
    pub def: Def,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// How.
    pub attr: Attr,
    /// Memory attributes; the default for what does not touch memory.
    pub mem: Mem,
    /// Constant bits, byte offset, or symbol number, as the operation says.
    pub imm: i64,
    /// Arguments.
    pub args: SmallVec<[Value; 3]>,
    /// Results.
    pub results: SmallVec<[Value; 1]>,
    /// Byte offset of the PTX statement; `u32::MAX` where there is none.
    pub loc: u32,
}

/// An edge with the values for the target's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// Target.
    pub block: Block,
    /// One value for each of its parameters.
    pub args: Vec<Value>,
}

impl Inst {
    /// The arguments without the cache policy that may stand last.
    pub fn operands(&self) -> &[Value] {
        &self.args[..self.args.len() - (self.mem.policy && !self.args.is_empty()) as usize]
    }

    /// The cache policy, where there is one.
    pub fn policy(&self) -> Option<Value> {
        self.args.last().copied().filter(|_| self.mem.policy)
    }
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// Goes on at a block.
    Br(Edge),
    /// `then` if the condition (a [`Ty::P`]) is true. `uniform`: the PTX says so (`bra.uni`).
    CondBr {
        /// The condition.
        cond: Value,
        /// The PTX promises that all threads of the warp agree.
        uniform: bool,
        /// Taken when true.
        then: Edge,
        /// Taken when false.
        els: Edge,
    },
    /// Indexed branch; an index out of range is undefined. Edges carry no arguments for repeated targets' sake: targets
    /// have no parameters.
    Switch {
        /// 0-based index, [`Ty::B32`].
        index: Value,
        /// The PTX promises that all threads of the warp agree.
        uniform: bool,
        /// Targets.
        targets: Vec<Block>,
    },
    /// The thread ends.
    Exit,
    /// Return from a device function.
    Ret(Vec<Value>),
    /// Never reached.
    Unreachable,
}

/// A block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockData {
    /// Parameters.
    pub params: Vec<Value>,
    /// Instructions in order.
    pub insts: Vec<InstId>,
    /// How it ends.
    pub term: Term,
    /// Byte offset of the PTX statement that it ends with; `u32::MAX` where there is none.
    pub loc: u32,
    /// The loop that begins here stays a loop (`.pragma "nounroll"`).
    pub rolled: bool,
}

impl BlockData {
    /// A block of nothing, never left.
    pub fn empty() -> BlockData {
        BlockData { params: Vec::new(), insts: Vec::new(), term: Term::Unreachable, loc: u32::MAX, rolled: false }
    }
}

/// Which registers a call passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSite {
    /// Number of the callee in the kernel's list of functions; `None` for an indirect call.
    pub callee: Option<u32>,
    /// Slot in constant bank 4 of the address of a function of the system, where that is the callee.
    pub far: Option<u32>,
    /// What the callee keeps.
    pub convention: crate::abi::Convention,
    /// Where the caller's stack grows: the callee's begins where R3 says, and there the caller's R1 stands so many bytes on.
    pub top: Option<u32>,
    /// GPR of each argument word.
    pub args: Vec<u8>,
    /// GPR of each result word.
    pub rets: Vec<u8>,
    /// Bytes of stack arguments.
    pub stack: u32,
    /// It ends the thread: the failure of an assertion.
    pub ends: bool,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub struct Func {
    /// Name.
    pub name: String,
    /// True for a kernel entry.
    pub entry: bool,
    /// Blocks; block 0 is the entry, whose parameters are the function's arguments (device functions).
    pub blocks: Vec<BlockData>,
    /// Instructions; those that no block lists are dead.
    pub insts: Vec<Inst>,
    /// Values.
    pub values: Vec<ValueData>,
    /// Types of what it returns.
    pub returns: Vec<Ty>,
    /// GPR of each argument word (parameters of block 0) and of each returned word, for device functions.
    pub signature: CallSite,
    /// Calls; [`Op::Call`] names them by number.
    pub calls: Vec<CallSite>,
    /// It stands in a section of its own and is linked by name: calls name functions of the module, and keep what the ABI
    /// says and no more.
    pub linkable: bool,
    /// Local variables: total bytes and largest alignment.
    pub local_size: u32,
    /// Largest alignment of a local variable.
    pub local_align: u32,
    /// Its stack grows while it runs (`alloca`).
    pub grows: bool,
    /// It asks how much shared memory its kernel has.
    pub asks_shared: bool,
    /// Threads of a CTA in each dimension, where the PTX fixes them (`.reqntid`). Not part of the text form.
    pub shape: Option<[u32; 3]>,
}

impl Func {
    /// A value's type.
    pub fn ty(&self, v: Value) -> Ty {
        self.values[v.index()].ty
    }

    /// A value's definition.
    pub fn def(&self, v: Value) -> Def {
        self.values[v.index()].def
    }

    /// The instruction that defines `v`, if an instruction does.
    pub fn def_inst(&self, v: Value) -> Option<&Inst> {
        match self.def(v) {
            Def::Inst(i, _) => Some(&self.insts[i.0 as usize]),
            Def::Param(..) => None,
        }
    }

    /// The bits of `v` if it is a constant, in the low bits of its width, zero-extended.
    pub fn constant(&self, v: Value) -> Option<u64> {
        let inst = self.def_inst(v)?;
        (inst.op == Op::Const).then(|| inst.imm as u64 & mask(self.ty(v)))
    }

    /// An instruction by id.
    pub fn inst(&self, id: InstId) -> &Inst {
        &self.insts[id.0 as usize]
    }

    /// Adds an empty block that ends in [`Term::Unreachable`].
    pub fn new_block(&mut self) -> Block {
        self.blocks.push(BlockData::empty());
        Block(self.blocks.len() as u32 - 1)
    }

    /// Adds a parameter to a block.
    pub fn add_param(&mut self, block: Block, ty: Ty) -> Value {
        let n = self.blocks[block.index()].params.len() as u32;
        let v = self.new_value(ty, Def::Param(block, n));
        self.blocks[block.index()].params.push(v);
        v
    }

    /// Adds a value.
    pub fn new_value(&mut self, ty: Ty, def: Def) -> Value {
        self.values.push(ValueData { ty, def });
        Value(self.values.len() as u32 - 1)
    }

    /// Adds an instruction (to no block yet), with one new result for each of `results`.
    pub fn new_inst(&mut self, mut inst: Inst, results: &[Ty]) -> InstId {
        let id = InstId(self.insts.len() as u32);
        inst.results.clear();
        for (n, &ty) in results.iter().enumerate() {
            let v = self.new_value(ty, Def::Inst(id, n as u8));
            inst.results.push(v);
        }
        self.insts.push(inst);
        id
    }

    /// Puts a copy of an instruction at the end of a block: it reads what `map` has for the values of the original, and its results are added there.
    pub fn copy_inst(&mut self, id: InstId, block: Block, map: &mut FxHashMap<Value, Value>) {
        let old = self.inst(id).clone();
        let types: SmallVec<[Ty; 2]> = old.results.iter().map(|&r| self.ty(r)).collect();
        let args = old.args.iter().map(|a| map.get(a).copied().unwrap_or(*a)).collect();
        let results = old.results.clone();
        let new = self.new_inst(Inst { args, ..old }, &types);
        map.extend(results.into_iter().zip(self.inst(new).results.iter().copied()));
        self.blocks[block.index()].insts.push(new);
    }

    /// The graph of its blocks.
    pub fn cfg(&self) -> crate::cfg::Cfg {
        crate::cfg::Cfg::new(self.blocks.iter().map(|b| b.term.numbers()).collect())
    }
}

/// All bits of a type.
pub fn mask(ty: Ty) -> u64 {
    u64::MAX >> (64 - ty.bits())
}

impl Term {
    /// The edges with arguments.
    pub fn edges(&self) -> SmallVec<[&Edge; 2]> {
        match self {
            Term::Br(e) => SmallVec::from_buf_and_len([e, e], 1),
            Term::CondBr { then, els, .. } => SmallVec::from_buf([then, els]),
            _ => SmallVec::new(),
        }
    }

    /// The edges with arguments, to be changed.
    pub fn edges_mut(&mut self) -> SmallVec<[&mut Edge; 2]> {
        let mut out = SmallVec::new();
        match self {
            Term::Br(e) => out.push(e),
            Term::CondBr { then, els, .. } => {
                out.push(then);
                out.push(els);
            }
            _ => {}
        }
        out
    }

    /// Every successor, in order, with repetitions.
    pub fn successors(&self) -> SmallVec<[Block; 4]> {
        self.neighbours(|b| b)
    }

    /// As [`Term::successors`], by their numbers.
    fn numbers(&self) -> crate::cfg::Blocks {
        self.neighbours(|b| b.0)
    }

    /// Every successor in order, as `to` names it. Graphs are built often, of blocks that nearly all have one or two: their lists are written as they lie.
    fn neighbours<T: Copy>(&self, to: impl Fn(Block) -> T) -> SmallVec<[T; 4]> {
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

    /// Gives every successor another name.
    pub fn retarget(&mut self, mut f: impl FnMut(Block) -> Block) {
        if let Term::Switch { targets, .. } = self {
            targets.iter_mut().for_each(|t| *t = f(*t));
        }
        for e in self.edges_mut() {
            e.block = f(e.block);
        }
    }

    /// Calls `f` on every value that the terminator reads.
    pub fn visit(&self, mut f: impl FnMut(Value)) {
        self.visit_own(&mut f);
        for e in self.edges() {
            e.args.iter().copied().for_each(&mut f);
        }
    }

    /// Calls `f` on every value that the terminator reads itself: no arguments of edges.
    pub fn visit_own(&self, mut f: impl FnMut(Value)) {
        match self {
            Term::CondBr { cond, .. } => f(*cond),
            Term::Switch { index, .. } => f(*index),
            Term::Ret(values) => values.iter().copied().for_each(f),
            _ => {}
        }
    }

    /// Replaces every value that the terminator reads.
    pub fn map(&mut self, mut f: impl FnMut(Value) -> Value) {
        match self {
            Term::CondBr { cond, .. } => *cond = f(*cond),
            Term::Switch { index, .. } => *index = f(*index),
            Term::Ret(values) => values.iter_mut().for_each(|v| *v = f(*v)),
            _ => {}
        }
        for e in self.edges_mut() {
            e.args.iter_mut().for_each(|v| *v = f(*v));
        }
    }
}
