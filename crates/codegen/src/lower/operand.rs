//! Source operands: registers, immediates, special registers, addresses of variables.

use super::{Lower, Res, unsupported};
use crate::ir::{Attr, Mem, MemSpace, Op, Ty, Value};
use crate::layout::NONE;
use diag::{Diagnostic, Span};
use ptx::module::{FuncKind, Inst, Operand, VarId};
use ptx::types::Space;

impl Lower<'_, '_> {
    /// An operand read as a value of type `ty`. A register that is wider is cut, one that is narrower is zero-extended
    /// (PTX allows neither except where an instruction says so, and then this is what it says).
    pub(super) fn src(&mut self, op: &Operand, ty: Ty, span: Span) -> Res<Value> {
        let v = match op {
            Operand::Reg { reg, elem } => self.read_reg(*reg, *elem),
            Operand::NotReg(reg) => {
                let v = self.read_reg(*reg, None);
                self.same(Op::Not, &[v])
            }
            Operand::NegReg(reg) => {
                let v = self.read_reg(*reg, None);
                self.same(Op::INeg, &[v])
            }
            Operand::Int(i) => {
                let bits = if ty == Ty::P { (*i != 0) as u64 } else { *i as u64 };
                return Ok(self.konst(ty, bits));
            }
            Operand::F32(bits) if ty == Ty::B64 => {
                return Ok(self.konst(ty, f64::to_bits(f32::from_bits(*bits) as f64)));
            }
            Operand::F32(bits) => return Ok(self.konst(ty, *bits as u64)),
            Operand::F64(bits) if ty == Ty::B32 => {
                return Ok(self.konst(ty, f32::to_bits(f64::from_bits(*bits) as f32) as u64));
            }
            Operand::F64(bits) => return Ok(self.konst(ty, *bits)),
            Operand::Special(s) => self.special(*s, span)?,
            Operand::Var { var, offset } => self.var_address(*var, *offset, span)?,
            Operand::Func(f) => self.function_pointer(*f, span)?,
            _ => return unsupported("this operand", span),
        };
        Ok(if ty == Ty::P || self.f.ty(v) == Ty::P { v } else { self.b().resize(v, ty, false) })
    }

    /// Operand `n` of an instruction as type `ty`.
    pub(super) fn arg(&mut self, inst: &Inst, n: usize, ty: Ty) -> Res<Value> {
        match inst.operands.get(n) {
            Some(op) => self.src(op, ty, inst.span),
            None => Err(Diagnostic::error(format!("'{}' lacks operand {n}", inst.op.name())).at(inst.span)),
        }
    }

    /// The address of a global variable, and what is to be added to it.
    pub(super) fn global_address(&mut self, var: VarId) -> (Value, i64) {
        let (from, away) = self.cx.layout.from(var);
        (self.with_imm(Op::GlobalAddr, from.0 as i64, Ty::B64), away)
    }

    /// The address of a variable in its own state space, as `mov` gives it.
    pub(super) fn var_address(&mut self, var: VarId, offset: i64, span: Span) -> Res<Value> {
        let space = self.m.vars[var.index()].space;
        if let Some(v) = self.reference_address(var) {
            return Ok(v);
        }
        let base = match space {
            Space::Global => {
                let (v, away) = self.global_address(var);
                return Ok(self.add_offset(v, away + offset));
            }
            Space::Shared => self.shared_address(var, offset, span)?,
            // A parameter of a function whose address is taken lies in the frame.
            Space::Local | Space::Param if space == Space::Local || self.locals.contains_key(&var) => {
                let at = self.local_offset(var, span)?;
                self.with_imm(Op::LocalAddr, at + offset, Ty::B32)
            }
            Space::Const => self.const_address(var, offset, span)?,
            Space::Param if self.pf.kind == FuncKind::Entry && self.pf.params.contains(&var) => {
                let at = self.kernel_param(var) + offset;
                self.konst(Ty::B64, at as u64)
            }
            _ => return unsupported(format!("the address of '{}'", self.m.vars[var.index()].name), span),
        };
        Ok(self.b().resize(base, Ty::B64, false))
    }

    pub(super) fn add_offset(&mut self, base: Value, offset: i64) -> Value {
        if offset == 0 {
            return base;
        }
        let ty = self.f.ty(base);
        let c = self.konst(ty, offset as u64);
        self.op(Op::IAdd, &[base, c], ty)
    }

    pub(super) fn shared_address(&mut self, var: VarId, offset: i64, span: Span) -> Res<Value> {
        if self.cx.layout.relocatable {
            let base = self.with_imm(Op::SharedAddr, var.0 as i64, Ty::B32);
            return Ok(self.add_offset(base, offset));
        }
        match self.cx.shared.at(var) {
            None => unsupported(format!("shared variable '{}' here", self.m.vars[var.index()].name), span),
            Some(at) => Ok(self.with_imm(Op::SharedAddr, at as i64 + offset, Ty::B32)),
        }
    }

    pub(super) fn local_offset(&self, var: VarId, span: Span) -> Res<i64> {
        match self.locals.get(&var) {
            Some(&at) => Ok(at as i64),
            None => unsupported(format!("local variable '{}' at module scope", self.m.vars[var.index()].name), span),
        }
    }

    /// The offset of a constant, and bytes behind it, in its bank.
    pub(super) fn const_address(&mut self, var: VarId, offset: i64, span: Span) -> Res<Value> {
        if self.cx.layout.relocatable {
            let base = self.with_imm(Op::ConstAddr, var.0 as i64, Ty::B32);
            return Ok(self.add_offset(base, offset));
        }
        let at = self.const_offset(var, span)?;
        Ok(self.with_imm(Op::ConstAddr, at + offset, Ty::B32))
    }

    fn const_offset(&self, var: VarId, span: Span) -> Res<i64> {
        match self.cx.layout.constant[var.index()] {
            NONE => unsupported(format!("constant variable '{}' here", self.m.vars[var.index()].name), span),
            at => Ok(at as i64),
        }
    }

    /// Byte offset of a kernel parameter.
    pub(super) fn kernel_param(&self, var: VarId) -> i64 {
        let n = self.pf.params.iter().position(|&p| p == var);
        n.map_or(0, |n| self.cx.params[n] as i64)
    }

    fn function_pointer(&mut self, f: ptx::module::FuncId, span: Span) -> Res<Value> {
        if self.cx.layout.relocatable {
            return Ok(self.with_imm(Op::FuncAddr, f.0 as i64, Ty::B64));
        }
        match self.cx.layout.pointer(super::call::target(self.m, f)) {
            Some(p) => Ok(self.konst(Ty::B64, p)),
            None => unsupported(format!("the address of function '{}'", self.m.funcs[f.index()].name), span),
        }
    }

    /// The generic base address of a window.
    pub(super) fn window_base(&mut self, space: MemSpace) -> Value {
        let mem = Mem { space, ..Mem::default() };
        let id = self.b().push(Op::WindowBase, Attr::default(), mem, 0, &[], &[Ty::B64]);
        self.f.inst(id).results[0]
    }
}
