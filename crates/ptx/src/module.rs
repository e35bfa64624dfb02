//! The module: what a PTX file says, with every name resolved.
//!
//! Names become dense ids: a register is a [`RegId`] of its function, a label a [`LabelId`] of its function, a variable
//! (module scope, function scope or parameter) a [`VarId`] of the module, a function a [`FuncId`] of the module. Scopes
//! (`{ }`) stay visible in the statement list ([`Stmt::Open`], [`Stmt::Close`]) so that printing gives the same text
//! back; shadowed names are different ids.
//!
//! Instructions keep what was written: an [`Op`](crate::isa::Op) and its modifiers in the order of the text. The
//! accessors of [`Inst`] (`types`, `space`, `rounding`, ...) answer what consumers ask.

mod pack;

use crate::isa::{Mod, Op};
use crate::types::{ScalarType, Space, SpecialReg};
use diag::Span;
use smallvec::SmallVec;
use std::sync::Arc;
use thin_vec::ThinVec;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// The index into the table that the id belongs to.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A register of one function: index into [`Function::regs`].
    RegId
);
id!(
    /// A label of one function: index into [`Function::labels`].
    LabelId
);
id!(
    /// A variable of the module, of a function or a parameter: index into [`Module::vars`].
    VarId
);
id!(
    /// A function or entry: index into [`Module::funcs`].
    FuncId
);
id!(
    /// An instruction of one function: see [`Body::inst`].
    InstId
);
id!(
    /// A `.reg` of one function: see [`Body::regs`].
    RegsId
);
id!(
    /// A `.loc` of one function: see [`Body::loc`].
    LocId
);
id!(
    /// A `.pragma` of one function: see [`Body::pragma`].
    PragmaId
);
id!(
    /// A `.callprototype`, `.calltargets` or `.branchtargets` table of one function: index into [`Function::tables`].
    TableId
);

/// A whole PTX file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// `.version major.minor`.
    pub version: (u16, u16),
    /// `.target` words in order, as written (`sm_90`, `texmode_independent`, ...).
    pub target: Vec<String>,
    /// `.address_size`: 32 or 64 (64 where it is not written; that is what consumers support).
    pub address_size: u8,
    /// Every variable and parameter, of any scope.
    pub vars: Vec<Variable>,
    /// Every function and entry, in the order of first declaration.
    pub funcs: Vec<Function>,
    /// Module-scope statements in order, for printing.
    pub items: Vec<Item>,
    /// `.file` table: index, name, optional time stamp and size.
    pub files: Vec<FileEntry>,
}

/// A module-scope statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A variable definition or declaration.
    Var(VarId),
    /// A function declaration or definition; `define` tells whether the body is printed here.
    Func {
        /// Which function.
        func: FuncId,
        /// True where the body stands.
        define: bool,
    },
    /// `.file`: index into [`Module::files`].
    File(u32),
    /// `.section name { ... }`: the raw text between the braces is kept as lines of tokens.
    Section {
        /// Section name, with its dot.
        name: String,
        /// The body, verbatim.
        body: String,
    },
    /// `.pragma "a", "b";`
    Pragma {
        /// The strings.
        words: Vec<String>,
        /// The place in the text.
        span: Span,
    },
    /// `.alias a, b;`
    Alias {
        /// The new name.
        alias: FuncId,
        /// The function it stands for.
        target: FuncId,
        /// Where the directive stands.
        span: Span,
    },
}

/// `.file index "name" [, time, size]`.
#[derive(Clone, Debug, PartialEq)]
pub struct FileEntry {
    /// File index as used by `.loc`.
    pub index: u32,
    /// File name as written.
    pub name: String,
    /// Time stamp and size where written.
    pub stamp: Option<(u64, u64)>,
}

/// `.extern`, `.visible`, `.weak`, `.common`, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Linkage {
    /// No linking directive: visible in this module only.
    #[default]
    Internal,
    /// `.extern`
    Extern,
    /// `.visible`
    Visible,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

/// A variable: module scope, function scope, or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Name as written, without scope decoration.
    pub name: String,
    /// Where it stands.
    pub span: Span,
    /// `.global`, `.shared`, `.const`, `.local`, `.param`, or `.reg` for register-style parameters.
    pub space: Space,
    /// Linking directive.
    pub linkage: Linkage,
    /// Alignment in bytes; the type's natural one if not written.
    pub align: u32,
    /// True where `.align` was written.
    pub align_written: bool,
    /// Element type.
    pub ty: ScalarType,
    /// Vector length: 1, 2, 4 or 8 (`.v2`, `.v4`, `.v8`).
    pub vector: u8,
    /// Array dimensions in order; empty for a scalar; `None` is an unsized first dimension (`x[]`).
    pub dims: Vec<Option<u64>>,
    /// Flattened initialiser, element by element; shorter than the variable means zeros follow. `None`: not initialised.
    pub init: Option<Vec<InitValue>>,
    /// For entry parameters `.ptr`: what it points to (None = generic memory) and `.align`.
    pub ptr: Option<(Option<Pointee>, u32)>,
    /// `.attribute(.managed)` and the like, as written.
    pub attributes: Vec<String>,
    /// What a texture, surface or sampler says of itself: names and values as written, a list for each element of an array.
    pub fields: Vec<Vec<(String, String)>>,
    /// The function whose scope it belongs to, None for module scope.
    pub scope: Option<FuncId>,
}

impl Variable {
    /// Size in bytes; 0 for an unsized array (`extern .shared x[]`).
    pub fn size(&self) -> u64 {
        let elem = self.ty.bytes() as u64 * self.vector as u64;
        self.dims.iter().fold(elem, |n, d| n.saturating_mul(d.unwrap_or(0)))
    }
}

/// What `.ptr` says that a parameter of a kernel points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointee {
    /// Memory of a state space.
    Memory(Space),
    /// A texture, sampler or surface: the type of a reference to it.
    Object(ScalarType),
}

impl Pointee {
    /// The word without its dot.
    pub fn name(self) -> &'static str {
        match self {
            Pointee::Memory(space) => space.name(),
            Pointee::Object(ty) => ty.name(),
        }
    }
}

/// One scalar of an initialiser.
#[derive(Clone, Debug, PartialEq)]
pub enum InitValue {
    /// The bits of the value, already converted to the element type, in the low bytes.
    Bits(u64),
    /// Address of a variable plus a byte offset; `generic` for `generic(x)`. With `mask`, only that byte of it
    /// (`0xff(x)`: shift 0, `0xff00(x)`: shift 8, ...).
    Var {
        /// The variable.
        var: VarId,
        /// Bytes added.
        offset: i64,
        /// True for `generic(...)`.
        generic: bool,
        /// Mask expression `0xFF00(...)` as written, if any.
        mask: Option<u64>,
    },
    /// Address of a function.
    Func(FuncId),
    /// One byte of the address of a function, with the mask as written.
    FuncByte(FuncId, u64),
}

impl InitValue {
    /// The function whose address, or a byte of it, this is.
    pub fn function(&self) -> Option<FuncId> {
        match self {
            InitValue::Func(f) | InitValue::FuncByte(f, _) => Some(*f),
            _ => None,
        }
    }
}

/// The number of the byte that a mask of an initialiser selects.
pub fn masked_byte(mask: u64) -> u32 {
    mask.trailing_zeros() / 8
}

/// Entry or device function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuncKind {
    /// `.entry`: a kernel.
    Entry,
    /// `.func`: a device function.
    Func,
}

/// A function or entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Name as written.
    pub name: String,
    /// Where the name stands.
    pub span: Span,
    /// Entry or device function.
    pub kind: FuncKind,
    /// Linking directive.
    pub linkage: Linkage,
    /// Return parameters (device functions; at most one in practice).
    pub returns: Vec<VarId>,
    /// Parameters in order.
    pub params: Vec<VarId>,
    /// Attributes as written: `.unified(1, 2)`.
    pub attributes: Vec<String>,
    /// `.maxntid`, `.reqntid`, `.minnctapersm`, `.maxnreg`, `.noreturn`, `.pragma`, cluster directives, in order.
    pub directives: Vec<Directive>,
    /// Registers, of all scopes.
    pub regs: Vec<Register>,
    /// What the names of registers are made of, see [`Function::reg_name`].
    pub(crate) reg_names: Vec<RegName>,
    /// Labels, of all scopes.
    pub labels: Vec<Label>,
    /// Branch, call-target and prototype tables.
    pub tables: Vec<Table>,
    /// Statements in order; `None` for a declaration.
    pub body: Option<Body>,
}

impl Function {
    /// The elements of an operand that is a vector register as a whole; none for any other operand.
    pub fn elements_of(&self, operand: &Operand) -> Option<Vec<Operand>> {
        let Operand::Reg { reg, elem: None } = *operand else { return None };
        let n = self.regs.get(reg.index())?.vector;
        (n > 1).then(|| (0..n).map(|e| Operand::Reg { reg, elem: Some(e) }).collect())
    }

    /// The name of a register as written (`%r1`), with the number of a `%r<10>` range filled in.
    pub fn reg_name(&self, reg: RegId) -> String {
        let at = self.reg_names.partition_point(|n| n.first <= reg.0);
        let Some(n) = at.checked_sub(1).map(|i| &self.reg_names[i]) else { return String::new() };
        if n.range { format!("{}{}", n.base, reg.0 - n.first) } else { n.base.clone() }
    }
}

/// A directive between a function's header and its body.
#[derive(Clone, Debug, PartialEq)]
pub enum Directive {
    /// `.maxntid x, y, z` (missing dimensions are 1).
    MaxNtid([u32; 3]),
    /// `.reqntid x, y, z`.
    ReqNtid([u32; 3]),
    /// `.minnctapersm n`.
    MinNctaPerSm(u32),
    /// `.maxnctapersm n` (deprecated).
    MaxNctaPerSm(u32),
    /// `.maxnreg n`.
    MaxNreg(u32),
    /// `.noreturn`.
    NoReturn,
    /// `.reqnctapercluster x, y, z`.
    ReqNctaPerCluster([u32; 3]),
    /// `.maxclusterrank n`.
    MaxClusterRank(u32),
    /// `.explicitcluster`.
    ExplicitCluster,
    /// `.blocksareclusters`.
    BlocksAreClusters,
    /// `.pragma "..."`.
    Pragma(Vec<String>),
    /// Any other directive word with its arguments (`.abi_preserve 4`, ...).
    Other(String, Vec<u64>),
}

/// A register; its name is [`Function::reg_name`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Register {
    /// Type.
    pub ty: ScalarType,
    /// Vector length: 1, 2 or 4.
    pub vector: u8,
}

/// The name of a register, or what the names of the registers up to the next entry are made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RegName {
    /// The (first) register.
    pub first: u32,
    /// The name, or what stands before the number.
    pub base: String,
    /// True for `%r<10>`: the registers are numbered from 0 on.
    pub range: bool,
}

/// A label.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Name as written.
    pub name: String,
    /// Where it is defined.
    pub span: Span,
}

/// A labelled table in a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Table {
    /// `name: .branchtargets L1, L2;`
    Branch {
        /// Name.
        name: String,
        /// Targets in order.
        targets: Vec<LabelId>,
    },
    /// `name: .calltargets f, g;`
    Call {
        /// Name.
        name: String,
        /// Functions in order.
        targets: Vec<FuncId>,
    },
    /// `name: .callprototype (ret) _ (params);`
    Prototype {
        /// Name.
        name: String,
        /// Return parameters.
        returns: Vec<VarId>,
        /// Parameters.
        params: Vec<VarId>,
        /// `.noreturn` written.
        noreturn: bool,
        /// What it says of the registers that are kept.
        directives: Vec<Directive>,
    },
}

/// The statements of a function and its instructions.
///
/// Texts have millions of instructions, but few different ones: what stands before the operands (the *head*) is kept once
/// for a module, the operands of all instructions are one list. Those of a large text can be packed ([`crate::parse_packed`]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    insts: Vec<Packed>,
    /// The statements that are no instruction, each with the number of instructions before it.
    others: Vec<(u32, Stmt)>,
    /// Those of the whole module.
    pub(crate) heads: Arc<[Head]>,
    operands: Vec<Operand>,
    regs: Vec<Regs>,
    locs: Vec<Loc>,
    pragmas: Vec<(Vec<String>, Span)>,
    /// Everything but the heads is in here: [`Body::unpacked`] gives it.
    packed: Option<Box<pack::Pack>>,
}

/// An opcode with its modifiers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) op: Op,
    pub(crate) mods: SmallVec<[Mod; 6]>,
}

/// An instruction without its lists.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Packed {
    /// Where it begins and ends in the text.
    start: u32,
    end: u32,
    /// 0 for none, otherwise the register plus one, and the highest bit for `@!p`.
    guard: u32,
    /// Index into the heads.
    head: u32,
    /// Where its operands end; they begin where those of the instruction before end.
    operands: u32,
}

const NEGATED: u32 = 1 << 31;

impl Packed {
    fn guard(&self) -> Option<Guard> {
        let reg = (self.guard & !NEGATED).checked_sub(1)?;
        Some(Guard { reg: RegId(reg), negated: self.guard & NEGATED != 0 })
    }
}

impl Body {
    /// An instruction.
    ///
    /// # Panics
    /// If the id is of another function.
    pub fn inst(&self, id: InstId) -> Inst<'_> {
        let p = &self.insts[id.index()];
        let head = &self.heads[p.head as usize];
        Inst {
            guard: p.guard(),
            op: head.op,
            mods: &head.mods,
            operands: &self.operands[self.operands_start(id)..p.operands as usize],
            span: Span::new(p.start, p.end),
            head: p.head,
        }
    }

    /// All instructions, in the order of the text.
    ///
    /// # Panics
    /// If the body is packed.
    pub fn insts(&self) -> impl Iterator<Item = Inst<'_>> {
        self.is_there();
        (0..self.insts.len()).map(|i| self.inst(InstId(i as u32)))
    }

    /// The operands of all instructions, in the order of the text.
    ///
    /// # Panics
    /// If the body is packed.
    pub fn operands(&self) -> &[Operand] {
        self.is_there();
        &self.operands
    }

    /// The number of the head and the operands of all instructions, in the order of the text.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = (u32, &[Operand])> {
        self.is_there();
        let mut from = 0;
        self.insts.iter().map(move |p| {
            let operands = &self.operands[from..p.operands as usize];
            from = p.operands as usize;
            (p.head, operands)
        })
    }

    /// A body that is packed must not pass for an empty one.
    fn is_there(&self) {
        assert!(self.packed.is_none(), "a packed body");
    }

    /// True if an instruction of the module, of any function, has an opcode of which `test` holds.
    pub fn module_has(&self, test: impl Fn(Op) -> bool) -> bool {
        self.heads.iter().any(|h| test(h.op))
    }

    /// True if an instruction of the module, of any function, has an opcode and modifiers of which `test` holds.
    pub fn module_has_form(&self, test: impl Fn(Op, &[Mod]) -> bool) -> bool {
        self.heads.iter().any(|h| test(h.op, &h.mods))
    }

    /// The opcode of a head.
    pub(crate) fn op(&self, head: u32) -> Op {
        self.heads[head as usize].op
    }

    /// The same body as if it stood nowhere: two texts that differ in blanks only give the same.
    pub fn without_places(mut self) -> Body {
        self.insts.iter_mut().for_each(|p| (p.start, p.end) = (0, 0));
        self.pragmas.iter_mut().for_each(|p| p.1 = Span::default());
        self
    }

    fn operands_start(&self, id: InstId) -> usize {
        id.index().checked_sub(1).map_or(0, |i| self.insts[i].operands as usize)
    }

    /// Adds an operand of the instruction that [`Body::push_inst`] is going to add.
    #[inline(always)]
    pub(crate) fn push_operand(&mut self, operand: Operand) {
        self.operands.push(operand);
    }

    /// The operands that belong to no instruction yet.
    pub(crate) fn new_operands(&mut self) -> &mut [Operand] {
        let from = self.insts.last().map_or(0, |p| p.operands as usize);
        &mut self.operands[from..]
    }

    /// Forgets the operands that belong to no instruction.
    pub(crate) fn drop_operands(&mut self) {
        self.operands.truncate(self.insts.last().map_or(0, |p| p.operands as usize));
    }

    /// How many instructions there are: they are numbered in the order of the text.
    pub fn count(&self) -> usize {
        self.packed_count()
    }

    /// All statements, in the order of the text.
    ///
    /// # Panics
    /// If the body is packed.
    pub fn stmts(&self) -> Stmts<'_> {
        self.is_there();
        Stmts { next: 0, count: self.insts.len() as u32, others: self.others.iter() }
    }

    /// Adds a statement that is no instruction.
    pub(crate) fn push_stmt(&mut self, stmt: Stmt) {
        self.others.push((self.insts.len() as u32, stmt));
    }

    /// Adds an instruction as the last statement, with the operands added since the one before.
    pub(crate) fn push_inst(&mut self, guard: Option<Guard>, head: u32, span: Span) {
        let guard = guard.map_or(0, |g| (g.reg.0 + 1) | if g.negated { NEGATED } else { 0 });
        let operands = self.operands.len() as u32;
        self.insts.push(Packed { start: span.start, end: span.end, guard, head, operands });
    }

    /// The operands of an instruction.
    pub(crate) fn operands_mut(&mut self, id: InstId) -> &mut [Operand] {
        let from = self.operands_start(id);
        &mut self.operands[from..self.insts[id.index()].operands as usize]
    }

    /// Makes room for what stands in so many bytes of text, if it is nothing out of the common.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        /// Bytes of a statement and of an operand, of what compilers write.
        const STATEMENT: usize = 36;
        const OPERAND: usize = 14;
        /// Bytes of a long function; a text may have many.
        const LONG: usize = 256 << 10;
        let bytes = bytes.min(LONG);
        self.insts.reserve(bytes / STATEMENT);
        self.operands.reserve(bytes / OPERAND);
    }

    /// Moves everything out, into lists without room to grow, and keeps the room for the next body.
    pub(crate) fn take(&mut self) -> Body {
        Body {
            insts: exact(&mut self.insts),
            others: exact(&mut self.others),
            heads: Arc::default(),
            operands: exact(&mut self.operands),
            regs: exact(&mut self.regs),
            locs: exact(&mut self.locs),
            pragmas: exact(&mut self.pragmas),
            packed: None,
        }
    }

    /// Forgets everything but the room.
    pub(crate) fn clear(&mut self) {
        let Body { insts, others, heads: _, operands, regs, locs, pragmas, packed: _ } = self;
        insts.clear();
        others.clear();
        operands.clear();
        regs.clear();
        locs.clear();
        pragmas.clear();
    }

    /// What a [`Stmt::Regs`] declares.
    ///
    /// # Panics
    /// If the id is of another function; so do the next two.
    pub fn regs(&self, id: RegsId) -> &Regs {
        &self.regs[id.index()]
    }

    /// What a [`Stmt::Loc`] says.
    pub fn loc(&self, id: LocId) -> &Loc {
        &self.locs[id.index()]
    }

    /// The strings of a [`Stmt::Pragma`].
    pub fn pragma(&self, id: PragmaId) -> &[String] {
        &self.pragmas[id.index()].0
    }

    /// All strings of all `.pragma`s, each with the place of its `.pragma`, also of a packed body.
    pub fn pragmas(&self) -> impl Iterator<Item = (&str, Span)> {
        let list = self.packed_pragmas().unwrap_or(&self.pragmas);
        list.iter().flat_map(|(words, span)| words.iter().map(|w| (w.as_str(), *span)))
    }

    pub(crate) fn push_regs(&mut self, regs: Regs) {
        self.push_stmt(Stmt::Regs(RegsId(self.regs.len() as u32)));
        self.regs.push(regs);
    }

    pub(crate) fn push_loc(&mut self, loc: Loc) {
        self.push_stmt(Stmt::Loc(LocId(self.locs.len() as u32)));
        self.locs.push(loc);
    }

    pub(crate) fn push_pragma(&mut self, words: Vec<String>, span: Span) {
        self.push_stmt(Stmt::Pragma(PragmaId(self.pragmas.len() as u32)));
        self.pragmas.push((words, span));
    }
}

/// Moves all elements into a list without room to grow.
pub(crate) fn exact<T>(list: &mut Vec<T>) -> Vec<T> {
    let mut out = Vec::with_capacity(list.len());
    out.append(list);
    out
}

/// The statements of a [`Body`], in the order of the text.
#[derive(Clone, Debug)]
pub struct Stmts<'a> {
    next: u32,
    count: u32,
    others: std::slice::Iter<'a, (u32, Stmt)>,
}

impl Iterator for Stmts<'_> {
    type Item = Stmt;

    fn next(&mut self) -> Option<Stmt> {
        match self.others.as_slice().first() {
            Some(&(before, stmt)) if before <= self.next => {
                self.others.next();
                Some(stmt)
            }
            _ if self.next < self.count => {
                self.next += 1;
                Some(Stmt::Inst(InstId(self.next - 1)))
            }
            _ => None,
        }
    }
}

impl<'a> IntoIterator for &'a Body {
    type Item = Stmt;
    type IntoIter = Stmts<'a>;

    fn into_iter(self) -> Stmts<'a> {
        self.stmts()
    }
}

/// A statement of a function body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stmt {
    /// An instruction: [`Body::inst`] gives it.
    Inst(InstId),
    /// `label:`
    Label(LabelId),
    /// `{`
    Open,
    /// `}`
    Close,
    /// `.reg`: [`Body::regs`] gives it.
    Regs(RegsId),
    /// A variable of function scope.
    Var(VarId),
    /// `.loc file line column [, function_name label [+ offset], inlined_at file line column]`.
    /// [`Body::loc`] gives it.
    Loc(LocId),
    /// `.pragma`: [`Body::pragma`] gives it.
    Pragma(PragmaId),
    /// A table.
    Table(TableId),
}

/// `.reg`: declares the registers `first..first+count` (printed as written: `%r<count>` or a list).
#[derive(Clone, Debug, PartialEq)]
pub struct Regs {
    /// First register declared by this statement.
    pub first: RegId,
    /// How many.
    pub count: u32,
    /// `%r<n>` form: the common prefix.
    pub range: Option<String>,
}

/// `.loc`.
#[derive(Clone, Debug, PartialEq)]
pub struct Loc {
    /// File index.
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 where unknown.
    pub column: u32,
    /// Where the code was inlined from and to.
    pub inlined: Option<Box<Inlined>>,
}

/// `function_name label [+ offset], inlined_at file line column` of a `.loc`.
#[derive(Clone, Debug, PartialEq)]
pub struct Inlined {
    /// The label of the function's name in a debugging section, as written.
    pub function: String,
    /// Bytes added to it.
    pub offset: i64,
    /// File index, line and column of the call.
    pub at: (u32, u32, u32),
}

/// An instruction as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inst<'a> {
    /// `@p` or `@!p`.
    pub guard: Option<Guard>,
    /// Opcode word (`add`, `ld`, `cvt`, `bar`...).
    pub op: Op,
    /// Modifiers in the order written (`.global`, `.v4`, `.f32`...).
    pub mods: &'a [Mod],
    /// Operands in order; `call` has its own shape, see [`Operand::List`].
    pub operands: &'a [Operand],
    /// The whole statement, without the semicolon.
    pub span: Span,
    /// Instructions of a module with the same opcode and modifiers have the same number, from 0 on.
    pub(crate) head: u32,
}

/// A guard predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate register.
    pub reg: RegId,
    /// True for `@!p`.
    pub negated: bool,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register; `elem` is `.x .y .z .w` of a vector register.
    Reg {
        /// The register.
        reg: RegId,
        /// Component of a vector register.
        elem: Option<u8>,
    },
    /// `!p` (predicate operand, negated).
    NotReg(RegId),
    /// `-r` (negated register, where the instruction takes one).
    NegReg(RegId),
    /// `r.b0`, `r.h1`, `-r.b3`, `r.h10`, `r.b3210`: bytes or halves of a register, of a video instruction.
    Part {
        /// The register.
        reg: RegId,
        /// True for `-r.b0`.
        negated: bool,
        /// Which parts.
        select: Select,
    },
    /// `p|q`: a destination pair (`setp`, `shfl`, `elect`, ...). Either may be [`Operand::Sink`].
    Pair(Box<(Operand, Operand)>),
    /// A special register (`%tid.x`, `%laneid`, `WARP_SZ` is an immediate).
    Special(SpecialReg),
    /// An integer literal or constant expression: its 64-bit value.
    Int(i64),
    /// A 32-bit float literal (`0f3F800000`): its bits.
    F32(u32),
    /// A 64-bit float literal (`0d...` or decimal): its bits.
    F64(u64),
    /// The address of a variable, plus a byte offset (`mov.u64 %rd, x+4`).
    Var {
        /// The variable.
        var: VarId,
        /// Bytes added.
        offset: i64,
    },
    /// `[base + offset]`.
    Mem(Address),
    /// `[a, {b, c}]` and the like: texture and tensor addresses.
    TexMem(ThinVec<Operand>),
    /// A branch target.
    Label(LabelId),
    /// A function (call target, or its address).
    Func(FuncId),
    /// A table name (`brx.idx`, `call` with a prototype).
    Table(TableId),
    /// `{a, b, c, d}`. A one-element list of `ld` and `st` is given as its element.
    Vector(ThinVec<Operand>),
    /// `( ... )` of a call: return values or arguments. A call is `[List(returns)?, Func|Reg, List(args)?, Table?]`;
    /// a list that is not written is an empty list, so a call always has at least three operands.
    List(ThinVec<Operand>),
    /// `_`
    Sink,
}

/// Bytes (`.b3210`) or halves (`.h10`) of a register, or of a pair of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Select {
    /// Halves instead of bytes.
    pub halves: bool,
    /// How many are written: 1 to 4.
    pub count: u8,
    /// Their numbers in the order written, the most significant first; those not written are 0.
    pub lanes: [u8; 4],
}

impl Select {
    /// `b3210` -> the bytes 3, 2, 1, 0; none for what is no selector.
    pub fn from_name(name: &str) -> Option<Select> {
        let (&kind, digits) = name.as_bytes().split_first()?;
        let halves = match kind {
            b'b' => false,
            b'h' => true,
            _ => return None,
        };
        if digits.is_empty() || digits.len() > if halves { 2 } else { 4 } {
            return None;
        }
        let mut lanes = [0; 4];
        for (lane, d) in lanes.iter_mut().zip(digits) {
            *lane = d.checked_sub(b'0').filter(|&n| n < if halves { 4 } else { 8 })?;
        }
        Some(Select { halves, count: digits.len() as u8, lanes })
    }

    /// As written: `b3210`.
    pub fn name(self) -> String {
        let digits: String = self.lanes.iter().take(self.count as usize).map(|n| char::from(b'0' + n)).collect();
        format!("{}{digits}", if self.halves { 'h' } else { 'b' })
    }
}

/// What stands between `[` and `]`: a base and bytes added to it. Texts have millions of them: it is kept in 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The id of the base; the two highest bits tell what it is.
    base: u32,
    /// The low and the high half.
    offset: [u32; 2],
}

const BASE_VAR: u32 = 1 << 30;
const BASE_NONE: u32 = 2 << 30;

impl Address {
    /// An address of a base and the bytes added to it; none where the id is 2^30 or more, which no text has.
    pub fn new(base: AddressBase, offset: i64) -> Option<Address> {
        let base = match base {
            AddressBase::Reg(RegId(n)) if n < BASE_VAR => n,
            AddressBase::Var(VarId(n)) if n < BASE_VAR => n | BASE_VAR,
            AddressBase::None => BASE_NONE,
            _ => return None,
        };
        Some(Address { base, offset: [offset as u32, (offset >> 32) as u32] })
    }

    /// Register, variable, or nothing (an absolute address).
    #[inline]
    pub fn base(self) -> AddressBase {
        match self.base & (BASE_VAR | BASE_NONE) {
            0 => AddressBase::Reg(RegId(self.base)),
            BASE_VAR => AddressBase::Var(VarId(self.base ^ BASE_VAR)),
            _ => AddressBase::None,
        }
    }

    /// Bytes added.
    #[inline]
    pub fn offset(self) -> i64 {
        (i64::from(self.offset[1] as i32) << 32) | i64::from(self.offset[0])
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("base", &self.base()).field("offset", &self.offset()).finish()
    }
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressBase {
    /// A register.
    Reg(RegId),
    /// A variable (including parameters).
    Var(VarId),
    /// Absolute.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_is_made_of_is_small() {
        assert!(size_of::<Operand>() <= 16, "{}", size_of::<Operand>());
        assert!(size_of::<Stmt>() <= 8, "{}", size_of::<Stmt>());
        assert!(size_of::<Packed>() <= 20, "{}", size_of::<Packed>());
        assert!(size_of::<Register>() <= 2, "{}", size_of::<Register>());
    }
}
