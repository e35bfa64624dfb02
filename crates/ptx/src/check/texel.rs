//! Operands of texture, surface and video instructions.

use super::Checker;
use super::forms;
use super::inst::{Bad, Checked, because, constant, exact};
use crate::isa::{Count, Mod, Op, OperandForm, OperandKind};
use crate::module::*;
use crate::types::ScalarType;

impl Checker<'_> {
    /// A texture, surface or sampler: its variable, or a 64-bit register with its address.
    fn opaque(&self, f: &Function, o: &Operand, kinds: &[ScalarType]) -> Checked {
        match o {
            Operand::Var { var, offset: 0 } if kinds.contains(&self.m.vars[var.index()].ty) => Ok(()),
            Operand::Reg { reg, elem } => {
                let t = self.reg(f, *reg, *elem)?;
                if t.bits() == 64 && !t.is_float() { Ok(()) } else { Err(Bad::Mismatch) }
            }
            _ => Err(Bad::Mismatch),
        }
    }

    /// `[a, c]` or `[a, b, c]`: a texture or surface, maybe a sampler, coordinates.
    pub(super) fn texture(&self, f: &Function, inst: &Inst, o: &Operand, ty: Option<ScalarType>) -> Checked {
        let Operand::TexMem(parts) = o else { return Err(Bad::Mismatch) };
        let surface = matches!(inst.op, Op::Suld | Op::Sust | Op::Sured);
        let (image, sampler, coordinates) = match parts.as_slice() {
            [a, c] => (a, None, c),
            [a, b, c] if !surface => (a, Some(b), c),
            _ => return Err(Bad::Mismatch),
        };
        let kind = if surface { ScalarType::SurfRef } else { ScalarType::TexRef };
        self.opaque(f, image, &[kind])?;
        if let Some(s) = sampler {
            self.opaque(f, s, &[ScalarType::SamplerRef])?;
        }
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        let n = forms::count(inst, Count::Coordinates);
        self.lanes(f, coordinates, n, ty, n == 1, false)
    }

    /// `{a, b, ...}`, a vector register, or where `single` a plain register, of `n` elements of a type.
    fn lanes(&self, f: &Function, o: &Operand, n: usize, ty: ScalarType, single: bool, dest: bool) -> Checked {
        let one = |o: &Operand| match o {
            Operand::Reg { reg, elem } if exact(self.reg(f, *reg, *elem)?, ty) => Ok(()),
            Operand::Sink if dest => Ok(()),
            Operand::Reg { .. } | Operand::Sink => Err(Bad::Mismatch),
            _ if !dest => constant(o, Some(ty)),
            _ => Err(Bad::Mismatch),
        };
        match o {
            Operand::Vector(parts) if parts.len() == n => parts.iter().try_for_each(one),
            Operand::Vector(parts) if !matches!(parts.len(), 1 | 2 | 4) => {
                because(format!("Illegal vector size: {}", parts.len()))
            }
            Operand::Reg { reg, elem: None } if self.vector_length(f, *reg) == n && n > 1 => {
                if f.regs.get(reg.index()).is_some_and(|r| exact(r.ty, ty)) { Ok(()) } else { Err(Bad::Mismatch) }
            }
            _ if single => one(o),
            _ => Err(Bad::Mismatch),
        }
    }

    fn vector_length(&self, f: &Function, reg: RegId) -> usize {
        f.regs.get(reg.index()).map_or(0, |r| usize::from(r.vector))
    }

    /// The other operands of these instructions.
    pub(super) fn texel(
        &self,
        f: &Function,
        inst: &Inst,
        o: &Operand,
        form: &OperandForm,
        ty: Option<ScalarType>,
    ) -> Checked {
        match form.kind {
            OperandKind::TexelDest(n) => {
                let Some(ty) = ty else { return Err(Bad::Mismatch) };
                let n = forms::count(inst, n);
                // Narrower texels come in wider registers.
                let wide = if matches!(inst.op, Op::Suld) && ty.bits() < 16 { None } else { Some(ty) };
                let value = match o {
                    Operand::Pair(p) if inst.op != Op::Suld => {
                        self.opaque_pred(f, &p.1)?;
                        &p.0
                    }
                    _ => o,
                };
                match wide {
                    Some(ty) => self.lanes(f, value, n, ty, n == 1, true),
                    None => self.narrow(f, value, n),
                }
            }
            // Texel offsets: as many as the geometry has, in a vector of 2 or 4, or one register.
            OperandKind::Offset => {
                let n = match inst
                    .mods
                    .iter()
                    .find(|m| matches!(m, Mod::N1d | Mod::A1d | Mod::N2d | Mod::A2d | Mod::N3d))
                {
                    Some(Mod::N1d | Mod::A1d) => 1,
                    Some(Mod::N2d | Mod::A2d) => 2,
                    Some(_) => 4,
                    None => return Err(Bad::Mismatch),
                };
                self.lanes(f, o, n, ScalarType::B32, n == 1, false)
            }
            OperandKind::Gradient => {
                let n = match inst.mods.iter().find(|m| matches!(m, Mod::N1d | Mod::A1d | Mod::N2d | Mod::A2d)) {
                    Some(Mod::N1d | Mod::A1d) => 1,
                    Some(_) => 2,
                    None => 4,
                };
                self.lanes(f, o, n, ScalarType::F32, n == 1, false)
            }
            OperandKind::Handle => {
                let Operand::Mem(a) = o else { return Err(Bad::Mismatch) };
                let operand = match a.base {
                    AddressBase::Reg(reg) => Operand::Reg { reg, elem: None },
                    AddressBase::Var(var) => Operand::Var { var, offset: a.offset },
                    AddressBase::None => return Err(Bad::Mismatch),
                };
                let surface = inst.op == Op::Suq;
                let kinds: &[ScalarType] =
                    if surface { &[ScalarType::SurfRef] } else { &[ScalarType::TexRef, ScalarType::SamplerRef] };
                self.opaque(f, &operand, kinds)
            }
            _ => self.part(f, inst, o, ty),
        }
    }

    fn opaque_pred(&self, f: &Function, o: &Operand) -> Checked {
        match o {
            Operand::Reg { reg, elem: None } if self.reg(f, *reg, None)? == ScalarType::Pred => Ok(()),
            Operand::Sink => Ok(()),
            _ => Err(Bad::Mismatch),
        }
    }

    fn narrow(&self, f: &Function, o: &Operand, n: usize) -> Checked {
        let one = |o: &Operand| match o {
            Operand::Reg { reg, elem } => {
                let t = self.reg(f, *reg, *elem)?;
                if t != ScalarType::Pred && t.bits() >= 8 && !t.is_float() { Ok(()) } else { Err(Bad::Mismatch) }
            }
            Operand::Sink => Ok(()),
            _ => Err(Bad::Mismatch),
        };
        match o {
            Operand::Vector(parts) if parts.len() == n => parts.iter().try_for_each(one),
            _ if n == 1 => one(o),
            _ => Err(Bad::Mismatch),
        }
    }

    /// A register of a video instruction, maybe with the bytes or halves that are meant.
    fn part(&self, f: &Function, inst: &Inst, o: &Operand, ty: Option<ScalarType>) -> Checked {
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        let simd = match inst.op.name().as_bytes().last() {
            Some(b'2') => 2,
            Some(b'4') => 4,
            _ => 1,
        };
        match o {
            Operand::Part { reg, select, negated } => {
                if !exact(self.reg(f, *reg, None)?, ty) || *negated && inst.op != Op::Vmad {
                    return Err(Bad::Mismatch);
                }
                let limit = if select.halves { 2 } else { 4 };
                let ok = match simd {
                    1 => select.count == 1 && select.lanes[0] < limit,
                    2 => select.halves,
                    _ => !select.halves,
                };
                if ok { Ok(()) } else { Err(Bad::Mismatch) }
            }
            Operand::NegReg(reg) if inst.op == Op::Vmad => {
                if exact(self.reg(f, *reg, None)?, ty) {
                    Ok(())
                } else {
                    Err(Bad::Mismatch)
                }
            }
            Operand::Reg { reg, elem } => {
                if exact(self.reg(f, *reg, *elem)?, ty) {
                    Ok(())
                } else {
                    Err(Bad::Mismatch)
                }
            }
            _ => constant(o, Some(ty)),
        }
    }
}
