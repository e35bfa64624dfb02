//! A cursor that appends instructions to a block: what lowering and expansion write with.

use super::{Attr, Block, Cmp, Fmt, Func, Inst, InstId, Mem, Op, Ty, Value};
use smallvec::SmallVec;

/// Appends to the end of one block of a function.
pub struct Builder<'a> {
    /// The function.
    pub func: &'a mut Func,
    /// The block that instructions go to.
    pub block: Block,
    /// Place given to new instructions.
    pub loc: u32,
}

impl<'a> Builder<'a> {
    /// A cursor at the end of `block`.
    pub fn new(func: &'a mut Func, block: Block) -> Builder<'a> {
        Builder { func, block, loc: u32::MAX }
    }

    /// Appends any instruction; gives its id.
    pub fn push(&mut self, op: Op, attr: Attr, mem: Mem, imm: i64, args: &[Value], results: &[Ty]) -> InstId {
        // Word by word where they are few: copying as many as there are is a call.
        let args = match *args {
            [] => SmallVec::new(),
            [a] => SmallVec::from_buf_and_len([a; 3], 1),
            [a, b] => SmallVec::from_buf_and_len([a, b, b], 2),
            [a, b, c] => SmallVec::from_buf_and_len([a, b, c], 3),
            _ => SmallVec::from_slice(args),
        };
        let inst = Inst { op, attr, mem, imm, args, results: SmallVec::new(), loc: self.loc };
        let id = self.func.new_inst(inst, results);
        self.func.blocks[self.block.index()].insts.push(id);
        id
    }

    /// Appends an instruction with one result.
    pub fn one(&mut self, op: Op, attr: Attr, args: &[Value], ty: Ty) -> Value {
        let id = self.push(op, attr, Mem::default(), 0, args, &[ty]);
        self.func.inst(id).results[0]
    }

    /// Appends an instruction without attributes, with one result.
    pub fn op(&mut self, op: Op, args: &[Value], ty: Ty) -> Value {
        self.one(op, Attr::default(), args, ty)
    }

    /// Appends an instruction whose result has the type of its first argument.
    pub fn same(&mut self, op: Op, args: &[Value]) -> Value {
        let ty = self.func.ty(args[0]);
        self.op(op, args, ty)
    }

    /// A constant; `bits` are cut to the width.
    pub fn constant(&mut self, ty: Ty, bits: u64) -> Value {
        let id = self.push(Op::Const, Attr::default(), Mem::default(), (bits & super::mask(ty)) as i64, &[], &[ty]);
        self.func.inst(id).results[0]
    }

    /// A float operation.
    pub fn float(&mut self, op: Op, fmt: Fmt, args: &[Value]) -> Value {
        let ty = self.func.ty(args[0]);
        self.one(op, Attr { fmt, ..Attr::default() }, args, ty)
    }

    /// Integer comparison.
    pub fn icmp(&mut self, cmp: Cmp, signed: bool, a: Value, b: Value) -> Value {
        self.one(Op::ICmp, Attr { cmp, signed, ..Attr::default() }, &[a, b], Ty::P)
    }

    /// The low and high halves.
    pub fn halves(&mut self, v: Value) -> (Value, Value) {
        let half = if self.func.ty(v) == Ty::B64 { Ty::B32 } else { Ty::B16 };
        (self.op(Op::Trunc, &[v], half), self.op(Op::Hi, &[v], half))
    }

    /// `v` in another integer type: zero- or sign-extended, or cut.
    pub fn resize(&mut self, v: Value, ty: Ty, signed: bool) -> Value {
        let from = self.func.ty(v);
        if from == ty {
            v
        } else if from < ty {
            self.op(if signed { Op::Sext } else { Op::Zext }, &[v], ty)
        } else {
            self.op(Op::Trunc, &[v], ty)
        }
    }
}
