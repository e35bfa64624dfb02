//! Source operands: registers, immediates, special registers, addresses of variables.

use super::{Lower, Res, unsupported};
use crate::ir::{Attr, Mem, MemSpace, Op, Sreg, Ty, Value};
use crate::layout::NONE;
use diag::{Diagnostic, Span};
use ptx::module::{FuncKind, Inst, Operand, VarId};
use ptx::types::{Dim, Space, SpecialReg};

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

    /// A special register.
    pub(super) fn special(&mut self, s: SpecialReg, span: Span) -> Res<Value> {
        use SpecialReg as S;
        let by_dim = |d: Dim, x: Sreg, y: Sreg, z: Sreg| match d {
            Dim::X => Some(x),
            Dim::Y => Some(y),
            Dim::Z => Some(z),
            Dim::W => None,
        };
        let (reg, ty, volatile) = match s {
            S::Tid(d) => (by_dim(d, Sreg::TidX, Sreg::TidY, Sreg::TidZ), Ty::B32, false),
            S::Ntid(d) => (by_dim(d, Sreg::NtidX, Sreg::NtidY, Sreg::NtidZ), Ty::B32, false),
            S::Ctaid(d) => (by_dim(d, Sreg::CtaidX, Sreg::CtaidY, Sreg::CtaidZ), Ty::B32, false),
            S::Nctaid(d) => (by_dim(d, Sreg::NctaidX, Sreg::NctaidY, Sreg::NctaidZ), Ty::B32, false),
            S::Laneid => (Some(Sreg::Laneid), Ty::B32, false),
            S::Warpid => (Some(Sreg::Warpid), Ty::B32, true),
            S::Nwarpid => (Some(Sreg::Nwarpid), Ty::B32, false),
            S::Smid => (Some(Sreg::Smid), Ty::B32, true),
            S::Nsmid => (Some(Sreg::Nsmid), Ty::B32, false),
            S::Gridid => (Some(Sreg::Gridid), Ty::B64, false),
            S::LanemaskEq => (Some(Sreg::LanemaskEq), Ty::B32, false),
            S::LanemaskLt => (Some(Sreg::LanemaskLt), Ty::B32, false),
            S::LanemaskLe => (Some(Sreg::LanemaskLe), Ty::B32, false),
            S::LanemaskGt => (Some(Sreg::LanemaskGt), Ty::B32, false),
            S::LanemaskGe => (Some(Sreg::LanemaskGe), Ty::B32, false),
            S::Clock => (Some(Sreg::Clock), Ty::B32, true),
            S::ClockHi => (Some(Sreg::ClockHi), Ty::B32, true),
            S::Clock64 => (Some(Sreg::Clock64), Ty::B64, true),
            S::Globaltimer => (Some(Sreg::Globaltimer), Ty::B64, true),
            S::GlobaltimerLo => (Some(Sreg::GlobaltimerLo), Ty::B32, true),
            S::GlobaltimerHi => (Some(Sreg::GlobaltimerHi), Ty::B32, true),
            S::DynamicSmemSize => (Some(Sreg::DynamicSmem), Ty::B32, false),
            S::TotalSmemSize => (Some(Sreg::TotalSmem), Ty::B32, false),
            S::ClusterCtarank => (Some(Sreg::ClusterCtarank), Ty::B32, false),
            _ => return unsupported(format!("special register '{}'", s.name()), span),
        };
        let Some(reg) = reg else {
            return Ok(self.konst(Ty::B32, 0)); // the w component of a three-component register
        };
        let op = if volatile { Op::SregVolatile } else { Op::Sreg };
        Ok(self.one(op, Attr { sub: reg as u8, ..Attr::default() }, &[], ty))
    }

    /// The address of a variable in its own state space, as `mov` gives it.
    pub(super) fn var_address(&mut self, var: VarId, offset: i64, span: Span) -> Res<Value> {
        let space = self.m.vars[var.index()].space;
        let base = match space {
            Space::Global => {
                let v = self.with_imm(Op::GlobalAddr, var.0 as i64, Ty::B64);
                return Ok(self.add_offset(v, offset));
            }
            Space::Shared => self.shared_address(var, offset, span)?,
            Space::Local => {
                let at = self.local_offset(var, span)?;
                self.with_imm(Op::LocalAddr, at + offset, Ty::B32)
            }
            Space::Const => {
                let at = self.const_offset(var, span)?;
                self.with_imm(Op::ConstAddr, at + offset, Ty::B32)
            }
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
        match self.cx.shared.offset[var.index()] {
            NONE => unsupported(format!("shared variable '{}' here", self.m.vars[var.index()].name), span),
            at => Ok(self.with_imm(Op::SharedAddr, at as i64 + offset, Ty::B32)),
        }
    }

    pub(super) fn local_offset(&self, var: VarId, span: Span) -> Res<i64> {
        match self.locals.get(&var) {
            Some(&at) => Ok(at as i64),
            None => unsupported(format!("local variable '{}' at module scope", self.m.vars[var.index()].name), span),
        }
    }

    pub(super) fn const_offset(&self, var: VarId, span: Span) -> Res<i64> {
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
        match self.cx.reach.pointer(f) {
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
