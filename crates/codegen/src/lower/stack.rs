//! `alloca`, `stacksave`, `stackrestore`.
//!
//! The stack grows down, below the frame of the function; where it ends is a value like any other, and the register that holds
//! the stack pointer stays as it is. So nothing else may lie below the frame: a function that calls others has none.

use super::{Lower, Res, unsupported};
use crate::ir::{Op, Ty, Value};
use ptx::isa::Op as P;
use ptx::module::{Inst, Operand};

/// Alignment of what `alloca` gives where it names none.
const ALIGNMENT: u64 = 8;

/// True for the opcodes that are lowered here.
pub(super) fn is_ours(x: &Inst) -> bool {
    matches!(x.op, P::Alloca | P::Stacksave | P::Stackrestore)
}

impl Lower<'_, '_> {
    /// Where the function begins, the stack ends where its frame does.
    pub(super) fn begin_stack(&mut self) {
        let end = self.with_imm(Op::LocalAddr, 0, Ty::B32);
        let var = self.stack_var();
        self.write_var(var, end);
    }

    pub(super) fn stack(&mut self, x: &Inst) -> Res {
        let calls =
            self.pf.body.iter().flat_map(|b| b.insts()).any(|y| {
                y.op == P::Call || super::texture::system_function(&y, self.pf, self.cx.independent).is_some()
            });
        if calls {
            return unsupported(format!("'{}' in a function that calls others", x.op.name()), x.span);
        }
        self.f.grows = true;
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
