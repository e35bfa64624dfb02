//! Operands of texture, surface and video instructions.

use super::Checker;
use super::forms;
use super::inst::{Bad, Checked, because, constant, exact};
use crate::isa::{Count, Mod, Op, OperandForm, OperandKind, OperandType};
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
    pub(super) fn texture(
        &self,
        f: &Function,
        inst: &Inst,
        o: &Operand,
        ty: Option<ScalarType>,
        offsets: bool,
    ) -> Checked {
        let Operand::TexMem(parts) = o else {
            return match o {
                // With offsets, what could be a texture is told by its missing coordinates.
                Operand::Int(_) | Operand::Reg { .. } | Operand::Mem(_) if inst.op == Op::Tex && offsets => {
                    let reg = match o {
                        Operand::Mem(a) => match a.base() {
                            AddressBase::Reg(reg) => Some(reg),
                            _ => None,
                        },
                        Operand::Reg { reg, elem: None } => Some(*reg),
                        _ => None,
                    };
                    if let Some(reg) = reg {
                        self.opaque(f, &Operand::Reg { reg, elem: None }, &[])?;
                    }
                    because(format!("Illegal Addressing Mode in instruction '{}'", forms::name(inst)))
                }
                _ => Err(Bad::Mismatch),
            };
        };
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
        if !matches!(inst.op, Op::Tex | Op::Tld4)
            || !inst.mods.iter().any(|m| matches!(m, Mod::A1d | Mod::A2d | Mod::Acube | Mod::A2dms))
        {
            return match coordinates {
                Operand::Vector(parts) if self.longer(f, parts, n)? => {
                    parts[..n].iter().try_for_each(|p| self.lanes(f, p, 1, ty, true, false))
                }
                _ => self.lanes(f, coordinates, n, ty, n == 1, false),
            };
        }
        // The first coordinate of an array is its index.
        let Operand::Vector(parts) = coordinates else { return self.lanes(f, coordinates, n, ty, false, false) };
        if parts.len() != n && !self.longer(f, parts, n)? {
            return Err(Bad::Mismatch);
        }
        if let Operand::Reg { reg, elem } = &parts[0]
            && !exact(self.reg(f, *reg, *elem)?, ScalarType::U32)
        {
            return because(format!(
                "Array index in the '{}' instruction has unexpected type. Expecting type .u32",
                forms::name(inst)
            ));
        }
        for p in &parts[1..n] {
            self.lanes(f, p, 1, ty, true, false)?;
        }
        Ok(())
    }

    /// Are these more coordinates than the geometry has? The vendor's tool (13.5) takes vectors of two and four words for shorter ones,
    /// in every version, and reads nothing of the rest.
    fn longer(&self, f: &Function, parts: &[Operand], n: usize) -> Result<bool, Bad> {
        if parts.len() <= n || !matches!(parts.len(), 2 | 4) {
            return Ok(false);
        }
        for p in &parts[n..] {
            match p {
                Operand::Reg { reg, elem } if self.reg(f, *reg, *elem)?.bits() == 32 => {}
                Operand::Int(_) | Operand::F32(_) => {}
                Operand::Reg { .. } => return Err(Bad::Because("Incompatible elements of vector expression".into())),
                _ => return Err(Bad::Mismatch),
            }
        }
        Ok(true)
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
        i: usize,
        o: &Operand,
        form: &OperandForm,
        ty: Option<ScalarType>,
    ) -> Checked {
        match form.kind {
            OperandKind::TexelDest(n) => {
                let Some(ty) = ty else { return Err(Bad::Mismatch) };
                let n = forms::count(inst, n);
                if let Operand::Special(s) = o {
                    return self.no_special(inst, *s, Some(ty), false);
                }
                if *o == Operand::Sink {
                    return because(format!(
                        "Result discard mode is not allowed for instruction '{}'",
                        forms::name(inst)
                    ));
                }
                if matches!(o, Operand::Int(_) | Operand::F32(_) | Operand::F64(_)) && constant(o, Some(ty)).is_ok() {
                    return because(format!("Result register required for instruction '{}'", forms::name(inst)));
                }
                // Narrower texels come in wider registers.
                let wide = match ty {
                    _ if matches!(inst.op, Op::Suld) && ty.bits() < 16 => None,
                    // It looks only at the size.
                    ScalarType::F32 => Some(ScalarType::B32),
                    ty => Some(ty),
                };
                let value = match o {
                    Operand::Pair(p) if inst.op != Op::Suld => {
                        self.opaque_pred(f, &p.1)?;
                        &p.0
                    }
                    _ => o,
                };
                if n > 1 && matches!(value, Operand::Var { .. }) {
                    return because("Result vector expected");
                }
                if let (Operand::Vector(parts), Some(ty), Op::Tex | Op::Tld4) = (value, wide, inst.op)
                    && parts.len() != n
                    && matches!(parts.len(), 1 | 2 | 4)
                {
                    self.lanes(f, value, parts.len(), ty, false, true)?;
                    return because(format!("Argument vector size mismatch for instruction '{}'", forms::name(inst)));
                }
                if n > 1
                    && let Operand::Reg { reg, elem } = value
                    && self.vector_length(f, *reg) == 1
                    && wide.is_some_and(|ty| self.reg(f, *reg, *elem).is_ok_and(|t| exact(t, ty)))
                {
                    return because("Result vector expected");
                }
                match wide {
                    Some(ty) => self.lanes(f, value, n, ty, n == 1, true),
                    None => self.narrow(f, value, n),
                }
            }
            // Texel offsets: as many as the geometry has, in a vector of 2 or 4, or one register.
            OperandKind::Offset => {
                match o {
                    Operand::Sink => return because("Parsing error near '_': syntax error"),
                    Operand::Special(s) => return self.no_special(inst, *s, Some(ScalarType::B32), false),
                    _ => {}
                }
                // The offset may be left out before a value to compare the depth with.
                if !matches!(o, Operand::Vector(_))
                    && i + 1 == inst.operands.len()
                    && inst.types().get(1) == Some(&ScalarType::F32)
                {
                    match o {
                        Operand::Reg { reg, elem } if exact(self.reg(f, *reg, *elem)?, ScalarType::F32) => {
                            if inst.has(Mod::N3d) {
                                return because(format!(
                                    "Illegal modifier '.3d' for instruction '{}'",
                                    forms::name(inst)
                                ));
                            }
                            return Ok(());
                        }
                        Operand::F32(_) | Operand::F64(_) if inst.has(Mod::N3d) => {
                            let name = forms::name(inst);
                            return because(format!("Illegal modifier '.3d' for instruction '{name}'"));
                        }
                        Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => return Ok(()),
                        _ => {}
                    }
                }
                match o {
                    Operand::F32(_) | Operand::F64(_) if inst.op == Op::Tex && inst.has(Mod::N3d) => {
                        return because(format!("Illegal modifier '.3d' for instruction '{}'", forms::name(inst)));
                    }
                    Operand::F32(_) | Operand::F64(_) => return Err(Bad::Mismatch),
                    Operand::Reg { reg, elem } => {
                        let t = self.reg(f, *reg, *elem)?;
                        let ok = exact(t, ScalarType::S32);
                        if ok && t.is_int() {
                            return Ok(());
                        }
                        return match (ok, inst.op, inst.has(Mod::N3d)) {
                            (true, Op::Tex, true) => {
                                because(format!("Illegal modifier '.3d' for instruction '{}'", forms::name(inst)))
                            }
                            (true, ..) => Ok(()),
                            _ => Err(Bad::Mismatch),
                        };
                    }
                    Operand::Int(_) => return Ok(()),
                    _ => {}
                }
                let n = match inst
                    .mods
                    .iter()
                    .find(|m| matches!(m, Mod::N1d | Mod::A1d | Mod::N2d | Mod::A2d | Mod::N3d))
                {
                    Some(Mod::N1d | Mod::A1d) => 1,
                    Some(Mod::N2d | Mod::A2d) => 2,
                    Some(_) => 4,
                    None if matches!(o, Operand::Int(_)) && (inst.has(Mod::N2dms) || inst.has(Mod::A2dms)) => {
                        return Ok(());
                    }
                    None if inst.has(Mod::N2dms) || inst.has(Mod::A2dms) => match o {
                        Operand::Vector(parts) if parts.len() == 2 => 2,
                        _ => 4,
                    },
                    None => {
                        let cube = if inst.has(Mod::Cube) { "cube" } else { "acube" };
                        let vector = matches!(o, Operand::Vector(_));
                        return if vector {
                            because(format!("Illegal modifier '.{cube}' for instruction '{}'", forms::name(inst)))
                        } else {
                            Err(Bad::Mismatch)
                        };
                    }
                };
                // In one dimension it takes any number of them.
                let n = match o {
                    Operand::Vector(parts) if n == 1 && inst.op == Op::Tex && inst.has(Mod::N1d) => parts.len(),
                    _ => n,
                };
                if matches!(o, Operand::Vector(parts) if parts.len() != n) {
                    return because(format!(
                        "Operand vector size doesn't match geometry for instruction '{}'",
                        forms::name(inst)
                    ));
                }
                self.lanes(f, o, n, ScalarType::B32, n == 1 || inst.op == Op::Tld4, false)
            }
            OperandKind::Gradient => {
                let n = match inst.mods.iter().find(|m| matches!(m, Mod::N1d | Mod::A1d | Mod::N2d | Mod::A2d)) {
                    Some(Mod::N1d | Mod::A1d) => 1,
                    Some(_) => 2,
                    None => 4,
                };
                if !matches!(o, Operand::Vector(_)) {
                    self.lanes(f, o, 1, ScalarType::F32, true, false)?;
                    return because(format!("Vector expected for argument {}", i + 1));
                }
                self.lanes(f, o, n, ScalarType::F32, false, false)
            }
            OperandKind::Handle => {
                let Operand::Mem(a) = o else { return Err(Bad::Mismatch) };
                let operand = match a.base() {
                    AddressBase::Reg(reg) => Operand::Reg { reg, elem: None },
                    AddressBase::Var(var) => Operand::Var { var, offset: a.offset() },
                    AddressBase::None => return Err(Bad::Mismatch),
                };
                let surface = inst.op == Op::Suq;
                let sampler = inst.has(Mod::ForceUnnormalizedCoords);
                let texture =
                    matches!(operand, Operand::Var { var, .. } if self.m.vars[var.index()].ty == ScalarType::TexRef);
                if sampler && texture {
                    return because(format!("Argument 1 of instruction '{}': .samplerref expected", forms::name(inst)));
                }
                let kinds: &[ScalarType] =
                    if surface { &[ScalarType::SurfRef] } else { &[ScalarType::TexRef, ScalarType::SamplerRef] };
                self.opaque(f, &operand, kinds)
            }
            _ => self.part(f, inst, i, o, ty, matches!(form.ty, OperandType::Slot(_))),
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
                if t != ScalarType::Pred && t.bits() >= 8 { Ok(()) } else { Err(Bad::Mismatch) }
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
    fn part(&self, f: &Function, inst: &Inst, i: usize, o: &Operand, ty: Option<ScalarType>, own: bool) -> Checked {
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        let simd = match inst.op.name().as_bytes().last() {
            Some(b'2') => 2,
            Some(b'4') => 4,
            _ => 1,
        };
        let wrong = || because(format!("Incorrect video selector for operand {i}"));
        let secondary = inst.operands.len() > 3;
        let operation = inst.mods.iter().any(|m| matches!(m, Mod::Add | Mod::Min | Mod::Max));
        match o {
            Operand::Int(_) | Operand::F32(_) | Operand::F64(_) if i == 0 => {
                constant(o, Some(ty))?;
                if simd > 1 { wrong() } else { because("Result register required for instruction 'mov'") }
            }
            Operand::Sink if i == 0 => {
                because(format!("Result discard mode is not allowed for instruction '{}'", forms::name(inst)))
            }
            Operand::Special(s) => self.no_special(inst, *s, Some(ty), false),
            Operand::Vector(parts) => {
                if !own || parts.is_empty() {
                    return Err(Bad::Mismatch);
                }
                parts.iter().try_for_each(|p| self.lanes(f, p, 1, ty, true, false))?;
                because(format!("Vector operand is not allowed for instruction '{}'", forms::name(inst)))
            }
            Operand::Var { .. } if own => {
                because(format!("Argument {i} of instruction '{}': must be register", forms::name(inst)))
            }
            Operand::Part { .. } if i == 3 => because("Video selector is not allowed on 'source C' operand"),
            Operand::Part { reg, select, negated } => {
                if !exact(self.reg(f, *reg, None)?, ty) || *negated && inst.op != Op::Vmad {
                    return Err(Bad::Mismatch);
                }
                let limit = if select.halves { 2 } else { 4 };
                if simd == 1 {
                    return match i {
                        _ if select.count != 1 || select.lanes[0] >= limit => wrong(),
                        0 if operation => {
                            because("Video instruction cannot have destination selector and secondary operation")
                        }
                        0 if !secondary => because(format!(
                            "Video selector is not allowed on destination for instruction '{}'",
                            forms::name(inst)
                        )),
                        _ => Ok(()),
                    };
                }
                let lanes = &select.lanes[..select.count as usize];
                let falling = lanes.windows(2).all(|w| w[0] > w[1]);
                match i {
                    _ if select.halves != (simd == 2) => wrong(),
                    0 if falling && lanes.iter().all(|&l| l < simd) => Ok(()),
                    1 | 2 if select.count == simd => Ok(()),
                    _ => wrong(),
                }
            }
            _ if simd > 1 && !matches!(o, Operand::Reg { .. }) => {
                constant(o, Some(ty))?;
                wrong()
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
