//! `alloca`, `stacksave`, `stackrestore`.
//!
//! The stack grows down, below the frame of the function; where it ends is a value like any other, and the register that holds
//! the stack pointer stays as it is, so that the frame is found. For a call it moves below all that: the callee gets R1 from R3,
//! and behind the arguments on the stack stands what R1 was, from where it comes back.

use super::{Lower, Res};
use crate::ir::{Attr, Mem, MemSpace, Op, Ty, Value};
use ptx::isa::Op as P;
use ptx::module::{Inst, Operand};

/// Alignment of what `alloca` gives where it names none.
const ALIGNMENT: u64 = 8;

/// True for the opcodes that are lowered here.
pub(super) fn is_ours(op: P) -> bool {
    matches!(op, P::Alloca | P::Stacksave | P::Stackrestore)
}

impl Lower<'_, '_> {
    /// Where the function begins, the stack ends where its frame does.
    pub(super) fn begin_stack(&mut self) {
        let end = self.with_imm(Op::LocalAddr, 0, Ty::B32);
        let var = self.stack_var();
        self.write_var(var, end);
        self.f.grows = true;
    }

    /// Where the stack of a callee begins that takes `bytes` of arguments on it, with R1 behind them.
    pub(super) fn callee_stack(&mut self, bytes: u32) -> Value {
        let end = self.stack_end();
        let room = self.konst(Ty::B32, u64::from(bytes.next_multiple_of(4)) + 4);
        let end = self.same(Op::ISub, &[end, room]);
        let mask = self.konst(Ty::B32, !15u32 as u64);
        let top = self.same(Op::And, &[end, mask]);
        let own = self.with_imm(Op::LocalAddr, 0, Ty::B32);
        self.store_stack(top, bytes.next_multiple_of(4), own);
        top
    }

    /// Writes a word of what a callee gets on the stack, which begins at `top` where the caller's grows.
    pub(super) fn stack_argument(&mut self, top: Option<Value>, at: u32, value: Value) {
        if let Some(top) = top {
            return self.store_stack(top, at, value);
        }
        let zero = self.konst(Ty::B32, 0);
        let mem = Mem { space: MemSpace::Stack, bytes: 4, ..Mem::default() };
        self.b().push(Op::Store, Attr::default(), mem, at.into(), &[zero, value], &[]);
    }

    /// Writes a word of a callee's stack.
    fn store_stack(&mut self, top: Value, at: u32, value: Value) {
        let mem = Mem { space: MemSpace::Local, bytes: 4, ..Mem::default() };
        self.b().push(Op::Store, Attr::default(), mem, at.into(), &[top, value], &[]);
    }

    pub(super) fn stack(&mut self, x: &Inst) -> Res {
        let var = self.stack_var();
        match x.op {
            P::Stacksave => {
                let end = self.stack_end();
                self.dst(x, end, false)
            }
            P::Stackrestore => {
                let end = self.arg(x, 0, Ty::B32)?;
                self.write_var_guarded(var, end);
                Ok(())
            }
            _ => {
                let size = self.arg(x, 1, Ty::B32)?;
                let align = match x.operands.get(2) {
                    Some(Operand::Int(n)) => (*n as u64).max(1),
                    _ => ALIGNMENT,
                };
                let end = self.stack_end();
                let end = self.same(Op::ISub, &[end, size]);
                let mask = self.konst(Ty::B32, !(align.next_power_of_two() - 1));
                let end = self.same(Op::And, &[end, mask]);
                self.effect(Op::CheckStack, 0, &[end]);
                self.write_var_guarded(var, end);
                self.dst(x, end, false)
            }
        }
    }

    fn stack_end(&mut self) -> Value {
        let var = self.stack_var();
        self.read_var(var)
    }

    /// The variable of the construction of SSA that holds the end of the stack.
    pub(super) fn stack_var(&self) -> u32 {
        self.carry_var() + 1
    }
}
