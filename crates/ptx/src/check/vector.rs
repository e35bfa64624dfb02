//! Operands of several registers: packed values, vectors, fragments of matrices, and the data of moves, loads and stores.

use super::Checker;
use super::forms;
use super::inst::{Bad, Checked, because, constant, exact, relaxed};
use crate::isa::{Mod, Op};
use crate::module::*;
use crate::types::{ScalarType, Space};

impl Checker<'_> {
    /// The registers of `{a, b}` as one value of type `ty`.
    pub(super) fn packed(&self, f: &Function, parts: &[Operand], ty: ScalarType, dest: bool) -> Checked {
        if !matches!(parts.len(), 2 | 4) {
            return because(format!("Illegal vector size: {}", parts.len()));
        }
        if !ty.is_bits() {
            return Err(Bad::Mismatch);
        }
        let bits = ty.bits() / parts.len() as u32;
        if dest && parts.iter().all(|p| *p == Operand::Sink) {
            return because("Unable to infer type of vector elements (assuming .b8)");
        }
        for p in parts {
            match p {
                Operand::Reg { reg, elem } => {
                    let t = self.reg(f, *reg, *elem)?;
                    if t == ScalarType::Pred || t.bits() != bits {
                        return Err(Bad::Mismatch);
                    }
                }
                Operand::Sink if dest => {}
                Operand::Int(_) if !dest => {}
                _ => return Err(Bad::Mismatch),
            }
        }
        Ok(())
    }

    pub(super) fn vector_reg(&self, f: &Function, o: &Operand) -> Option<Register> {
        match o {
            Operand::Reg { reg, elem: None } => f.regs.get(reg.index()).filter(|r| r.vector > 1).cloned(),
            _ => None,
        }
    }

    pub(super) fn move_dest(&self, f: &Function, inst: &Inst, o: &Operand, ty: Option<ScalarType>) -> Checked {
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        let n = inst.vector();
        if n > 1 {
            return self.elements(f, o, n, ty, exact, true);
        }
        if let Some(parts) = f.elements_of(o) {
            return self.packed(f, &parts, ty, true);
        }
        match o {
            Operand::Vector(parts) => self.packed(f, parts, ty, true),
            Operand::Reg { reg, elem } if exact(self.reg(f, *reg, *elem)?, ty) => Ok(()),
            Operand::Sink => {
                because(format!("Result discard mode is not allowed for instruction '{}'", forms::name(inst)))
            }
            _ => Err(Bad::Mismatch),
        }
    }

    pub(super) fn move_source(&self, f: &Function, inst: &Inst, o: &Operand, ty: Option<ScalarType>) -> Checked {
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        let n = inst.vector();
        if n > 1 {
            return match o {
                Operand::Special(s) if s.is_vector() && exact(s.ty(), ty) => Ok(()),
                _ => self.elements(f, o, n, ty, exact, false),
            };
        }
        let vector = |o: &Operand| matches!(o, Operand::Vector(_)) || f.elements_of(o).is_some();
        if vector(o) && inst.operands.first().is_some_and(vector) {
            return because("Illegal vector-vector operands for vector-scalar or scalar-vector mov instruction");
        }
        if let Some(parts) = f.elements_of(o) {
            return self.packed(f, &parts, ty, false);
        }
        match o {
            Operand::Vector(parts) => self.packed(f, parts, ty, false),
            Operand::Reg { reg, elem } if exact(self.reg(f, *reg, *elem)?, ty) => Ok(()),
            Operand::NotReg(reg) if ty == ScalarType::Pred && self.reg(f, *reg, None)? == ty => Ok(()),
            Operand::Special(s) if matches!(inst.op, Op::Getctarank | Op::Mapa | Op::Cvta) => {
                self.no_special(inst, *s, Some(ty), false)
            }
            Operand::Special(s) => self.special(inst, *s, Some(ty), false),
            Operand::Var { var, .. } => {
                let v = &self.m.vars[var.index()];
                let callee_side = v.scope.is_some_and(|s| {
                    let f = &self.m.funcs[s.index()];
                    f.params.contains(var) || f.returns.contains(var)
                });
                if v.space == Space::Param && !callee_side {
                    return because(format!("Illegal to take address of parameter '{}'", v.name));
                }
                if v.ty.is_opaque() && ty.bits() != 64 {
                    return because("Indirect access to texture requires .u64 type");
                }
                if ty.is_float() || ty == ScalarType::Pred || ty.bits() < 16 { Err(Bad::Mismatch) } else { Ok(()) }
            }
            Operand::Func(_) if !ty.is_float() && matches!(ty.bits(), 32 | 64) => Ok(()),
            _ => constant(o, Some(ty)),
        }
    }

    /// `{a, b}` or a vector register as `n` elements.
    pub(super) fn elements(
        &self,
        f: &Function,
        o: &Operand,
        n: u8,
        ty: ScalarType,
        test: fn(ScalarType, ScalarType) -> bool,
        dest: bool,
    ) -> Checked {
        if let Some(r) = self.vector_reg(f, o) {
            return match test(r.ty, ty) {
                true if r.vector == n => Ok(()),
                true => Err(Bad::Because(String::new())),
                false => Err(Bad::Mismatch),
            };
        }
        if *o == Operand::Sink && dest {
            return because("Result discard mode is not allowed for instruction 'ld'");
        }
        let Operand::Vector(parts) = o else {
            return if dest { because("Result vector expected") } else { Err(Bad::Because(String::new())) };
        };
        if parts.is_empty() {
            return because("Parsing error near '}': syntax error");
        }
        if !matches!(parts.len(), 2 | 4 | 8) {
            return because(format!("Illegal vector size: {}", parts.len()));
        }
        if parts.len() != n as usize {
            return Err(Bad::Because(String::new()));
        }
        if parts.iter().all(|p| *p == Operand::Sink) {
            return because("Unable to infer type of vector elements (assuming .b8)");
        }
        // The elements have one type: that of the typed ones.
        let mut found: Option<ScalarType> = None;
        for p in parts {
            let Operand::Reg { reg, elem } = p else { continue };
            let t = self.reg(f, *reg, *elem)?;
            found = match found {
                None => Some(t),
                Some(before)
                    if before.bits() != t.bits() || (before == ScalarType::Pred) != (t == ScalarType::Pred) =>
                {
                    return because("Incompatible elements of vector expression");
                }
                Some(before) if before.is_bits() || t.is_bits() || before == t || before.is_int() && t.is_int() => {
                    Some(if before.is_bits() { before } else { t })
                }
                Some(_) => {
                    return because("Vector with elements of different types are not allowed in ld instruction");
                }
            };
        }
        if let Some(t) = found
            && !test(t, ty)
        {
            return Err(Bad::Mismatch);
        }
        for p in parts {
            match p {
                Operand::Reg { .. } => {}
                // Stores of 256 bits leave out what is not named.
                Operand::Sink if dest || u32::from(n) * ty.bits() == 256 => {}
                Operand::Sink => return because("Sink '_' not allowed as a source operand"),
                Operand::Int(_) if dest => return because("Result register required for instruction 'mov'"),
                _ if !dest => constant(p, Some(ty))?,
                _ => return Err(Bad::Mismatch),
            }
        }
        Ok(())
    }

    /// `{a, b, ...}` or a vector register as exactly `n` elements of a matrix fragment, a coordinate list and the like.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn fragment(
        &self,
        f: &Function,
        inst: &Inst,
        i: usize,
        o: &Operand,
        n: usize,
        ty: ScalarType,
        dest: bool,
    ) -> Checked {
        let size = || {
            let name = forms::name(inst);
            because(if inst.op == Op::Cp {
                format!("Argument {} of instruction '{name}': Argument vector size mismatch", i + 1)
            } else {
                format!("Argument vector size mismatch for instruction '{name}'")
            })
        };
        if let Some(r) = self.vector_reg(f, o) {
            return match () {
                _ if r.vector as usize != n => size(),
                _ if exact(r.ty, ty) => Ok(()),
                _ => Err(Bad::Mismatch),
            };
        }
        let Operand::Vector(parts) = o else {
            if !self.alone(f, inst, o, ty, dest)? {
                return Err(Bad::Mismatch);
            }
            let sizes = matches!(inst.op, Op::Wmma) && inst.types().len() == 2 && inst.has(Mod::Mma)
                || inst.op == Op::Mma
                    && i < 4
                    && (inst.has(Mod::Sp) || inst.has(Mod::SpOrderedMetadata))
                    && inst.types().get(1).is_some_and(|t| t.bits() <= 8 && !t.is_int() && !t.is_bits());
            if sizes {
                return size();
            }
            if inst.op == Op::Multimem {
                let name = forms::name(inst);
                return because(format!("Vector of size {n} is expected for argument {i} of instruction '{name}'"));
            }
            // The coordinates of a texture count as one more.
            let i = i + usize::from(inst.op == Op::Tex);
            return because(format!("Vector expected for argument {i}"));
        };
        if parts.len() != n && inst.op == Op::Mma {
            if !matches!(parts.len(), 1 | 2 | 4 | 8) {
                return because(format!("Illegal vector size: {}", parts.len()));
            }
            if ty == ScalarType::F64 || i == 2 && inst.types().contains(&ScalarType::B1) {
                return Err(Bad::Mismatch);
            }
        }
        if parts.len() != n {
            return size();
        }
        for p in parts {
            match p {
                Operand::Reg { reg, elem } => {
                    if !exact(self.reg(f, *reg, *elem)?, ty) {
                        return Err(Bad::Mismatch);
                    }
                }
                Operand::Sink if dest => {}
                _ if !dest => constant(p, Some(ty))?,
                _ => return Err(Bad::Mismatch),
            }
        }
        Ok(())
    }

    /// Would an operand do if the vector that is meant had one element? The vendor's tool looks at the size of some only.
    fn alone(&self, f: &Function, inst: &Inst, o: &Operand, ty: ScalarType, dest: bool) -> Result<bool, Bad> {
        use ScalarType::*;
        let types = inst.types();
        let factor = types.get(1).copied();
        let matrix = matches!(inst.op, Op::Mma | Op::Wmma);
        let sparse = inst.has(Mod::Sp) || inst.has(Mod::SpOrderedMetadata);
        // Sums of these products may be anything of 32 bits, and so may the factors.
        let loose = match ty {
            F32 => matrix && (matches!(factor, Some(BF16 | TF32)) || sparse && factor == Some(F16)),
            BF16x2 | TF32 => true,
            B32 if inst.op == Op::Wmma => {
                let t = types.iter().find(|t| !matches!(t, S32 | F32)).copied();
                matches!(t, Some(BF16 | TF32 | B1))
            }
            B32 => matches!(inst.op, Op::Mma | Op::Wgmma),
            _ => false,
        };
        let whole = inst.op == Op::Wmma && ty == B32 && types.iter().any(|t| t.is_int() && t.bits() <= 8);
        Ok(match o {
            Operand::Reg { reg, elem } => {
                let t = self.reg(f, *reg, *elem)?;
                if loose {
                    t == Pred || t.bits() == 32
                } else if t == Pred {
                    inst.op == Op::Tcgen05 && ty == B32
                } else if whole {
                    exact(t, S32)
                } else {
                    exact(t, ty)
                }
            }
            Operand::Mem(_) | Operand::Var { .. } => matrix && ty.bits() == 64,
            Operand::NotReg(reg) => (loose || inst.op == Op::Tcgen05) && self.reg(f, *reg, None)? == Pred,
            Operand::Special(s) => s.ty().bits() == ty.bits(),
            Operand::Int(_) => match ty {
                S32 => true,
                B32 if inst.op == Op::Tcgen05 => false,
                B32 => whole || inst.op == Op::Wmma && (types.contains(&B1) || inst.has(Mod::Load)) || !matrix,
                _ => constant(o, Some(ty)).is_ok(),
            },
            Operand::F32(_) if loose => true,
            Operand::F64(_) if loose => false,
            Operand::F32(_) | Operand::F64(_) if whole => false,
            _ => !(dest && ty == B32 && !matrix) && constant(o, Some(ty)).is_ok(),
        })
    }

    pub(super) fn memory_data(
        &self,
        f: &Function,
        inst: &Inst,
        o: &Operand,
        ty: Option<ScalarType>,
        store: bool,
    ) -> Checked {
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        let size = || Bad::Because(format!("Argument vector size mismatch for instruction '{}'", forms::name(inst)));
        let n = inst.vector();
        if n > 1 {
            return self.elements(f, o, n, ty, relaxed, !store).map_err(|b| match b {
                Bad::Because(text) if text.is_empty() => size(),
                other => other,
            });
        }
        match o {
            Operand::Vector(_) => Err(size()),
            Operand::Reg { reg, elem } if relaxed(self.reg(f, *reg, *elem)?, ty) => Ok(()),
            Operand::Special(s) if store => self.no_special(inst, *s, Some(ty), true),
            Operand::Sink if !store => {
                because(format!("Result discard mode is not allowed for instruction '{}'", forms::name(inst)))
            }
            _ if store => constant(o, Some(ty)),
            _ => Err(Bad::Mismatch),
        }
    }
}
