//! Operands of instructions: kinds, counts, types, state spaces, calls.

use super::Checker;
use super::forms::{self, Fit};
use crate::isa::{Count, Mod, Op, OperandForm, OperandKind, OperandType, Since, Values};
use crate::module::*;
use crate::types::{ScalarType, Space};
use smallvec::SmallVec;

/// May a register of type `reg` stand where exactly `ty` is meant? Equal size, and equal kind or one of them untyped.
pub(super) fn exact(reg: ScalarType, ty: ScalarType) -> bool {
    if reg == ScalarType::Pred || ty == ScalarType::Pred {
        return reg == ty;
    }
    if reg.bits() != ty.bits() {
        return false;
    }
    if matches!(ty, ScalarType::U16x2 | ScalarType::S16x2) {
        return reg == ty || reg.is_bits();
    }
    reg == ty || reg.is_bits() || ty.is_bits() || (reg.is_int() && ty.is_int())
}

/// The rule of loads, stores and conversions: the register may also be wider, but a float register not.
pub(super) fn relaxed(reg: ScalarType, ty: ScalarType) -> bool {
    if reg == ScalarType::Pred || ty == ScalarType::Pred {
        return false;
    }
    if exact(reg, ty) {
        return true;
    }
    reg.bits() >= ty.bits()
        && if ty.is_bits() {
            true
        } else if ty.is_float() {
            reg.is_bits()
        } else {
            reg.is_bits() || reg.is_int()
        }
}

pub(super) enum Bad {
    /// The general message: "Arguments mismatch for instruction".
    Mismatch,
    /// A message of its own.
    Because(String),
}

pub(super) type Checked = Result<(), Bad>;

pub(super) fn because(text: impl Into<String>) -> Checked {
    Err(Bad::Because(text.into()))
}

impl Checker<'_> {
    pub(super) fn inst(&mut self, func: FuncId, f: &Function, inst: &Inst) {
        self.func = Some(func);
        let fits = self.fits(inst);
        if fits.is_empty() {
            return;
        }
        if inst.op == Op::Call {
            return self.call(f, inst);
        }
        // `_` stands for a result, which is the first operand.
        if inst.operands.iter().skip(1).any(|o| *o == Operand::Sink) {
            return self.error(inst.span, "Parsing error near '_': syntax error");
        }
        let given = inst.operands.len();
        let counted: SmallVec<[&Fit; 2]> = fits
            .iter()
            .filter(|fit| {
                let least = fit.operands.iter().filter(|o| !o.optional).count();
                (least..=fit.operands.len()).contains(&given)
            })
            .collect();
        let name = || forms::name(inst);
        if counted.is_empty() {
            if inst.op == Op::Setp && given == 4 {
                return self.error(inst.span, "Boolean operation is required for instruction 'setp'");
            }
            return self.error(inst.span, format!("Arguments mismatch for instruction '{}'", name()));
        }
        let mut first: Option<Bad> = None;
        for fit in counted {
            match self.operands(f, inst, fit) {
                Ok(()) => {
                    // Another form of the same modifiers may be older than the one that the operands call for.
                    let since = fit.form.since;
                    if !self.gated && (since.ptx > self.version || !since.has(self.target)) {
                        self.since(inst.span, &name(), since);
                        return;
                    }
                    self.specials(inst);
                    return self.meaning(func, f, inst);
                }
                Err(bad @ Bad::Because(_)) if !matches!(first, Some(Bad::Because(_))) => first = Some(bad),
                Err(bad) => first = first.or(Some(bad)),
            }
        }
        let message = match first {
            Some(Bad::Because(text)) => text,
            _ => format!("Arguments mismatch for instruction '{}'", name()),
        };
        self.error(inst.span, message);
    }

    /// Is there an operand that can never stand where it does?
    pub(super) fn misfits(&self, inst: &Inst, fit: &Fit) -> bool {
        let Some(f) = self.func.and_then(|i| self.m.funcs.get(i.index())) else { return false };
        matches!(self.operands(f, inst, fit), Err(Bad::Mismatch))
    }

    fn operands(&self, f: &Function, inst: &Inst, fit: &Fit) -> Checked {
        // An operand of a wrong kind or type is told before what else is wrong with others.
        let mut told = Ok(());
        for (i, (o, form)) in inst.operands.iter().zip(&fit.operands).enumerate() {
            match self.operand(f, inst, fit, i, o, form) {
                Err(Bad::Mismatch) => return Err(Bad::Mismatch),
                Err(bad) if told.is_ok() => told = Err(bad),
                _ => {}
            }
        }
        told
    }

    pub(super) fn reg(&self, f: &Function, reg: RegId, elem: Option<u8>) -> Result<ScalarType, Bad> {
        let r = f.regs.get(reg.index()).ok_or(Bad::Mismatch)?;
        if r.vector > 1 && elem.is_none() { Err(Bad::Mismatch) } else { Ok(r.ty) }
    }

    fn operand(&self, f: &Function, inst: &Inst, fit: &Fit, i: usize, o: &Operand, form: &OperandForm) -> Checked {
        use OperandKind as K;
        let name = || forms::name(inst);
        let ty = fit.operand_type(form.ty);
        let is_dest = matches!(
            form.kind,
            K::Dest | K::DestPred | K::DestAndPred | K::DestBoth | K::ConvDest | K::MoveDest | K::LoadDest
        );
        if is_dest {
            match o {
                Operand::Special(s) => {
                    if ty.is_some_and(|t| t != ScalarType::Pred && t.bits() > s.ty().bits()) {
                        return Err(Bad::Mismatch);
                    }
                    return because("Read-only special register cannot be destination argument");
                }
                Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => {
                    if form.kind != K::DestPred {
                        constant(o, ty)?;
                    }
                    return because(format!("Result register required for instruction '{}'", name()));
                }
                _ => {}
            }
        }
        if matches!(form.kind, K::Dest | K::DestPred | K::Source | K::DestAndPred)
            && matches!(o, Operand::Vector(_))
            && !matches!(
                inst.op,
                Op::Lop3
                    | Op::Match
                    | Op::Tcgen05
                    | Op::Wgmma
                    | Op::Mbarrier
                    | Op::Cp
                    | Op::Shfl
                    | Op::Vote
                    | Op::Redux
                    | Op::Elect
            )
        {
            if let (Operand::Vector(parts), Some(ty)) = (o, ty) {
                for p in parts {
                    match p {
                        Operand::Reg { reg, elem } if exact(self.reg(f, *reg, *elem)?, ty) => {}
                        _ => return Err(Bad::Mismatch),
                    }
                }
            }
            return because(if inst.op == Op::Red {
                format!("Vector is not expected for argument {i} of instruction '{}'", name())
            } else {
                format!("Vector operand is not allowed for instruction '{}'", name())
            });
        }
        if is_dest && matches!(o, Operand::Var { .. }) || form.kind == K::ConvDest && matches!(o, Operand::Mem(_)) {
            return because(format!("Argument {i} of instruction '{}': must be register", name()));
        }
        let source = matches!(
            form.kind,
            K::Source
                | K::Pred
                | K::ConvSource
                | K::StoreSource
                | K::SourceVec(_)
                | K::Multiple(_)
                | K::Word
                | K::Memory
                | K::Constant(_)
                | K::Register
                | K::MoveSource
                | K::ConstantVec(_)
        );
        if source && matches!(o, Operand::Sink) && !(i == 0 && inst.op == Op::Tcgen05) {
            return because("Parsing error near '_': syntax error");
        }
        if let (Operand::Special(s), K::Source | K::StoreSource | K::Multiple(_) | K::Word) = (o, form.kind)
            && ty.is_none_or(|t| exact(s.ty(), t) || t.bits() == 16 && s.ty().bits() == 32)
        {
            return because(format!("Special register argument not allowed for instruction '{}'", name()));
        }
        let fits = |reg: &Operand, test: fn(ScalarType, ScalarType) -> bool| -> Checked {
            let (Operand::Reg { reg, elem }, Some(ty)) = (reg, ty) else { return Err(Bad::Mismatch) };
            if test(self.reg(f, *reg, *elem)?, ty) { Ok(()) } else { Err(Bad::Mismatch) }
        };
        let pred = |o: &Operand| -> Checked {
            match o {
                Operand::Reg { reg, elem: None } | Operand::NotReg(reg) => {
                    if self.reg(f, *reg, None)? == ScalarType::Pred { Ok(()) } else { Err(Bad::Mismatch) }
                }
                Operand::Sink => Ok(()),
                _ => Err(Bad::Mismatch),
            }
        };
        match form.kind {
            K::Any => Ok(()),
            K::Dest => match o {
                Operand::Sink if discards(inst) => Ok(()),
                Operand::Sink => because(format!("Result discard mode is not allowed for instruction '{}'", name())),
                _ => fits(o, exact),
            },
            K::DestPred => match o {
                Operand::Pair(_) if matches!(ty, Some(ScalarType::F16 | ScalarType::BF16)) => {
                    because(format!("Predicate output not allowed for instruction '{}'", name()))
                }
                Operand::Pair(p) => pred(&p.0).and_then(|()| pred(&p.1)),
                Operand::NotReg(_) => Err(Bad::Mismatch),
                _ => pred(o),
            },
            K::DestBoth if !matches!(o, Operand::Pair(_)) => {
                fits(o, exact)?;
                because(format!("Predicate output expected for instruction '{}'", name()))
            }
            K::DestAndPred | K::DestBoth => match o {
                Operand::Pair(p) => {
                    pred(&p.1)?;
                    if p.0 == Operand::Sink { Ok(()) } else { fits(&p.0, exact) }
                }
                _ => fits(o, exact),
            },
            K::Source | K::ConvSource => {
                if form.ty == OperandType::Address {
                    return match o {
                        Operand::Reg { reg, elem } => {
                            let t = self.reg(f, *reg, *elem)?;
                            let ok = !t.is_float() && matches!(t.bits(), 32 | 64);
                            if ok { Ok(()) } else { Err(Bad::Mismatch) }
                        }
                        Operand::Int(_) => Ok(()),
                        _ => Err(Bad::Mismatch),
                    };
                }
                match o {
                    Operand::Reg { .. } => {
                        fits(o, if form.kind == K::Source || inst.has(Mod::Bf16) { exact } else { relaxed })
                    }
                    Operand::Var { .. } if !matches!(inst.op, Op::Tcgen05 | Op::Wgmma) => {
                        because(format!("Argument {i} of instruction '{}': must be register", name()))
                    }
                    Operand::Special(s) => self.special(*s, ty, form.kind == K::ConvSource),
                    _ => constant(o, ty),
                }
            }
            K::Pred => match o {
                Operand::Int(n) if inst.op == Op::Wgmma => in_range(*n, Values::OneOf(&[0, 1]), i, inst),
                Operand::Sink => because("Parsing error near '_': syntax error"),
                Operand::Int(_) => Ok(()),
                _ => pred(o),
            },
            K::ConvDest if *o == Operand::Sink => {
                because(format!("Result discard mode is not allowed for instruction '{}'", name()))
            }
            K::ConvDest if inst.has(Mod::Bf16) || inst.has(Mod::Tf32) => fits(o, exact),
            K::ConvDest => fits(o, relaxed),
            K::MoveDest => self.move_dest(f, inst, o, ty),
            K::MoveSource => self.move_source(f, inst, o, ty),
            K::LoadDest | K::StoreSource => self.memory_data(f, inst, o, ty, form.kind == K::StoreSource),
            K::Memory => {
                let Operand::Mem(a) = o else { return Err(Bad::Mismatch) };
                let space = match form.ty {
                    OperandType::Space(s) => s,
                    _ => inst.space(),
                };
                match a.base {
                    AddressBase::Reg(reg) => {
                        let t = self.reg(f, reg, None)?;
                        let sizes: &[u32] = if form.ty == OperandType::TensorMemory { &[32] } else { &[32, 64] };
                        let ok = !t.is_float() && sizes.contains(&t.bits());
                        if ok { Ok(()) } else { Err(Bad::Mismatch) }
                    }
                    // Loads and stores have more to say, see `memory`.
                    AddressBase::Var(_)
                        if matches!(inst.op, Op::Ld | Op::St | Op::Ldu | Op::Atom | Op::Red)
                            && fit.form.name.is_empty() =>
                    {
                        Ok(())
                    }
                    AddressBase::Var(v) => {
                        let have = self.m.vars[v.index()].space;
                        let var = &self.m.vars[v.index()].name;
                        if inst.op == Op::Mbarrier && space == Space::Generic && have != Space::Shared {
                            return because(format!(
                                "Illegal state space for address operand '{var}' with instruction '{}'",
                                name()
                            ));
                        }
                        if inst.op == Op::Prefetchu {
                            return because(
                                "Non-generic address is not supported as operand for prefetchu instruction",
                            );
                        }
                        let ok = match space {
                            Space::Generic => true,
                            Space::SharedCluster => have == Space::Shared,
                            Space::ParamEntry | Space::ParamFunc => have == Space::Param,
                            s => have == s,
                        };
                        if ok {
                            return Ok(());
                        }
                        because(format!(
                            "State space mismatch between instruction and address in instruction '{}'",
                            name()
                        ))
                    }
                    AddressBase::None => Ok(()),
                }
            }
            K::Multiple(values) => match o {
                Operand::Int(n) => in_range(*n, values, i, inst),
                Operand::Reg { .. } => fits(o, exact),
                _ => constant(o, ty),
            },
            K::Sink => match o {
                Operand::Sink => Ok(()),
                Operand::Reg { reg, elem } if self.reg(f, *reg, *elem)?.bits() != 64 => Err(Bad::Mismatch),
                Operand::Reg { .. } | Operand::Int(_) => because(format!(
                    "Sink '_' is expected as a destination operand for instruction '{}' with '.shared::cluster'",
                    name()
                )),
                _ => Err(Bad::Mismatch),
            },
            // The vendor's tool looks at the size of these only, and takes predicates, too.
            K::Word => match o {
                Operand::Reg { reg, elem } => {
                    let t = self.reg(f, *reg, *elem)?;
                    if t == ScalarType::Pred || t.bits() == 32 { Ok(()) } else { Err(Bad::Mismatch) }
                }
                Operand::NotReg(_) | Operand::F32(_) => Ok(()),
                _ => Err(Bad::Mismatch),
            },
            K::Register => match o {
                Operand::NotReg(_) if ty == Some(ScalarType::Pred) => pred(o),
                Operand::Reg { .. } => fits(o, exact),
                _ => Err(Bad::Mismatch),
            },
            K::Texture => self.texture(f, inst, o, ty),
            K::TexelDest(_) | K::Offset | K::Gradient | K::Handle | K::Part => self.texel(f, inst, i, o, form, ty),
            K::Constant(values) => match o {
                Operand::Int(n) => in_range(*n, values, i, inst),
                Operand::Var { .. } => because("Integer constant expression expected"),
                Operand::Reg { .. } if inst.op == Op::Tcgen05 => {
                    because(format!("Argument {i} of instruction '{}': must be constant", name()))
                }
                _ => Err(Bad::Mismatch),
            },
            K::DestVec(n) | K::SourceVec(n) => {
                let alone = n == Count::Vector && inst.vector() == 1;
                let single = matches!(n, Count::Repeat(_));
                let n = forms::count(inst, n);
                let dest = matches!(form.kind, K::DestVec(_));
                if alone && !matches!(o, Operand::Vector(_)) {
                    return match o {
                        Operand::Reg { .. } => fits(o, exact),
                        Operand::Sink if dest => Ok(()),
                        _ if !dest => constant(o, ty),
                        _ => Err(Bad::Mismatch),
                    };
                }
                if dest && *o == Operand::Sink && inst.op == Op::Atom {
                    return Ok(());
                }
                if single && inst.op != Op::Tcgen05 && matches!(o, Operand::Reg { .. }) {
                    fits(o, |a, b| a.bits() == b.bits())?;
                    return because(format!(
                        "Vector of size {n} is expected for argument {i} of instruction '{}'",
                        name()
                    ));
                }
                let Some(ty) = ty else { return Err(Bad::Mismatch) };
                if form.kind == K::SourceVec(Count::Lanes) && !matches!(o, Operand::Vector(_)) {
                    return Err(Bad::Mismatch);
                }
                self.fragment(f, inst, i, o, n, ty, matches!(form.kind, K::DestVec(_)))
            }
            K::ConstantVec(n) => match o {
                Operand::Vector(parts) if parts.len() == forms::count(inst, n) => {
                    if parts.iter().all(|p| matches!(p, Operand::Int(_))) { Ok(()) } else { Err(Bad::Mismatch) }
                }
                _ => Err(Bad::Mismatch),
            },
            K::Tensor(n) => {
                let Operand::TexMem(parts) = o else { return Err(Bad::Mismatch) };
                let [base, coordinates] = parts.as_slice() else { return Err(Bad::Mismatch) };
                let wide = match base {
                    Operand::Reg { reg, elem } => {
                        let t = self.reg(f, *reg, *elem)?;
                        !t.is_float() && matches!(t.bits(), 32 | 64)
                    }
                    Operand::Var { .. } | Operand::Int(_) => true,
                    _ => false,
                };
                let Some(ty) = ty else { return Err(Bad::Mismatch) };
                if !wide {
                    return Err(Bad::Mismatch);
                }
                self.fragment(f, inst, i, coordinates, forms::count(inst, n), ty, false)
            }
            K::Label => match o {
                Operand::Label(_) => Ok(()),
                _ => because(format!("Label expected for argument {i} of instruction '{}'", name())),
            },
        }
    }

    fn special(&self, s: crate::types::SpecialReg, ty: Option<ScalarType>, conversion: bool) -> Checked {
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        if conversion && ty.is_float() {
            return because("Special register argument not allowed for instruction 'cvt'");
        }
        let own = s.ty();
        // The 32-bit index registers were 16 bits wide once: both widths may be read.
        let narrow = own.bits() == 32 && ty.bits() == 16;
        let ok = !s.is_vector() && (exact(own, ty) || narrow || (conversion && relaxed(own, ty)));
        if ok { Ok(()) } else { Err(Bad::Mismatch) }
    }

    /// The registers of `{a, b}` as one value of type `ty`.
    fn packed(&self, f: &Function, parts: &[Operand], ty: ScalarType, dest: bool) -> Checked {
        if !matches!(parts.len(), 2 | 4) {
            return because(format!("Illegal vector size: {}", parts.len()));
        }
        if !ty.is_bits() {
            return Err(Bad::Mismatch);
        }
        let bits = ty.bits() / parts.len() as u32;
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

    fn vector_reg(&self, f: &Function, o: &Operand) -> Option<Register> {
        match o {
            Operand::Reg { reg, elem: None } => f.regs.get(reg.index()).filter(|r| r.vector > 1).cloned(),
            _ => None,
        }
    }

    fn move_dest(&self, f: &Function, inst: &Inst, o: &Operand, ty: Option<ScalarType>) -> Checked {
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        let n = inst.vector();
        if n > 1 {
            return self.elements(f, o, n, ty, exact, true);
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

    fn move_source(&self, f: &Function, inst: &Inst, o: &Operand, ty: Option<ScalarType>) -> Checked {
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        let n = inst.vector();
        if n > 1 {
            return match o {
                Operand::Special(s) if s.is_vector() && exact(s.ty(), ty) => Ok(()),
                _ => self.elements(f, o, n, ty, exact, false),
            };
        }
        match o {
            Operand::Vector(parts) => self.packed(f, parts, ty, false),
            Operand::Reg { reg, elem } if exact(self.reg(f, *reg, *elem)?, ty) => Ok(()),
            Operand::NotReg(reg) if ty == ScalarType::Pred && self.reg(f, *reg, None)? == ty => Ok(()),
            Operand::Special(s) => self.special(*s, Some(ty), false),
            Operand::Var { var, .. } => {
                let v = &self.m.vars[var.index()];
                let callee_side = v.scope.is_some_and(|s| {
                    let f = &self.m.funcs[s.index()];
                    f.params.contains(var) || f.returns.contains(var)
                });
                if v.space == Space::Param && !callee_side {
                    return because(format!("Illegal to take address of parameter '{}'", v.name));
                }
                if ty.is_float() || ty == ScalarType::Pred || ty.bits() < 16 { Err(Bad::Mismatch) } else { Ok(()) }
            }
            Operand::Func(_) | Operand::Label(_) if !ty.is_float() && ty.bits() == 64 => Ok(()),
            _ => constant(o, Some(ty)),
        }
    }

    /// `{a, b}` or a vector register as `n` elements.
    fn elements(
        &self,
        f: &Function,
        o: &Operand,
        n: u8,
        ty: ScalarType,
        test: fn(ScalarType, ScalarType) -> bool,
        dest: bool,
    ) -> Checked {
        if let Some(r) = self.vector_reg(f, o) {
            return if r.vector == n && test(r.ty, ty) { Ok(()) } else { Err(Bad::Mismatch) };
        }
        let Operand::Vector(parts) = o else { return because("Result vector expected") };
        if !matches!(parts.len(), 2 | 4 | 8) {
            return because(format!("Illegal vector size: {}", parts.len()));
        }
        if parts.len() != n as usize {
            return Err(Bad::Because(String::new()));
        }
        for p in parts {
            match p {
                Operand::Reg { reg, elem } => {
                    if !test(self.reg(f, *reg, *elem)?, ty) {
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

    /// `{a, b, ...}` or a vector register as exactly `n` elements of a matrix fragment, a coordinate list and the like.
    #[allow(clippy::too_many_arguments)]
    fn fragment(
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
            let fits = match o {
                Operand::Reg { reg, elem } => {
                    let t = self.reg(f, *reg, *elem)?;
                    let loose = matches!(ty, ScalarType::BF16x2 | ScalarType::TF32) && t.bits() == ty.bits();
                    t == ScalarType::Pred && !dest && ty == ScalarType::B32 || exact(t, ty) || loose
                }
                Operand::NotReg(_) => !dest && ty == ScalarType::B32,
                Operand::Special(s) => s.ty().bits() == ty.bits(),
                _ => constant(o, Some(ty)).is_ok(),
            };
            return if fits { because(format!("Vector expected for argument {i}")) } else { Err(Bad::Mismatch) };
        };
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

    fn memory_data(&self, f: &Function, inst: &Inst, o: &Operand, ty: Option<ScalarType>, store: bool) -> Checked {
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
            Operand::Sink if inst.op == Op::Ldu => {
                because(format!("Result discard mode is not allowed for instruction '{}'", forms::name(inst)))
            }
            Operand::Sink if !store => Ok(()),
            _ if store => constant(o, Some(ty)),
            _ => Err(Bad::Mismatch),
        }
    }

    /// First version and SM of the special registers read.
    fn specials(&mut self, inst: &Inst) {
        for o in inst.operands {
            if let Operand::Special(s) = o {
                let (ptx, sm) = s.since();
                if ptx > self.version || sm > self.target.sm {
                    self.since(inst.span, &s.name(), Since::new(ptx, sm));
                }
            }
        }
    }

    /// What the table cannot say.
    fn meaning(&mut self, func: FuncId, f: &Function, inst: &Inst) {
        let name = || forms::name(inst);
        match inst.op {
            Op::Ld | Op::St | Op::Atom | Op::Red | Op::Ldu if !inst.has(Mod::Async) && !inst.has(Mod::Bulk) => {
                self.memory(func, f, inst)
            }
            Op::Cvta if inst.ty().bits() != u32::from(self.m.address_size) => {
                let message = format!(
                    "{}-bit address is conflicting with .address_size {}",
                    inst.ty().bits(),
                    self.m.address_size
                );
                self.error(inst.span, message);
            }
            Op::Bar | Op::Barrier if !inst.has(Mod::Warp) && !inst.has(Mod::Cluster) => {
                let first = usize::from(inst.has(Mod::Red));
                if let Some(&Operand::Int(n)) = inst.operands.get(first)
                    && !(0..16).contains(&n)
                {
                    let message = format!("Barrier number '{n}' out of range, expected to be in range [0..15]");
                    self.error(inst.span, message);
                }
                if (first == 0 || inst.operands.len() == 4)
                    && let Some(&Operand::Int(n)) = inst.operands.get(first + 1)
                    && (n < 0 || n % 32 != 0)
                {
                    self.error(
                        inst.span,
                        "Number of threads participating in barrier must be in multiple of warp size",
                    );
                }
            }
            Op::Cvt if inst.sat() => {
                // Saturation that cannot happen is refused: the result holds every value of the source.
                if let [to, from] = inst.types()[..]
                    && to.is_int()
                    && from.is_int()
                    && (to.bits() > from.bits() && (to.is_signed() || !from.is_signed())
                        || to.bits() == from.bits() && to.is_signed() == from.is_signed())
                {
                    self.error(inst.span, "Illegal modifier '.sat' for instruction 'cvt'");
                }
            }
            Op::Mbarrier => match (inst.sem(), inst.scope()) {
                (Some(_), None) => {
                    let sem = inst.mods.iter().find(|&&m| crate::access::Sem::from_mod(m).is_some());
                    let sem = sem.map_or("", |m| m.name());
                    self.error(inst.span, format!("Modifier '.{sem}' requires scope with '{}' instruction", name()));
                }
                (None, Some(_)) => {
                    let scope = inst.mods.iter().find(|&&m| crate::access::Scope::from_mod(m).is_some());
                    let scope = scope.map_or("", |m| m.name());
                    self.error(inst.span, format!("Modifier '.{scope}' requires order with '{}' instruction", name()));
                }
                _ => {}
            },
            Op::Multimem if inst.mods.first().is_some_and(|m| *m != Mod::Cp) => {
                let sem = [Mod::Weak, Mod::Relaxed, Mod::Acquire, Mod::Release].into_iter().find(|&m| inst.has(m));
                let scope = inst.mods.iter().find(|&&m| crate::access::Scope::from_mod(m).is_some());
                match (sem, scope) {
                    (None, Some(scope)) => {
                        let message =
                            format!("Modifier '.{}' requires order with '{}' instruction", scope.name(), name());
                        self.error(inst.span, message);
                    }
                    (Some(Mod::Weak), Some(scope)) => {
                        let message = format!("Modifier '.weak' cannot be combined with modifier '.{}'", scope.name());
                        self.error(inst.span, message);
                    }
                    (Some(sem), None) if sem != Mod::Weak => {
                        let message =
                            format!("Modifier '.{}' requires scope with '{}' instruction", sem.name(), name());
                        self.error(inst.span, message);
                    }
                    _ => {}
                }
            }
            Op::Brx => {
                let table = inst.operands.get(1);
                let ok = matches!(table, Some(Operand::Table(t))
                    if matches!(f.tables.get(t.index()), Some(Table::Branch { .. })));
                if !ok {
                    self.error(
                        inst.span,
                        "Label with '.branchtargets' directive expected for argument 1 of instruction 'brx.idx'",
                    );
                }
            }
            _ => {}
        }
    }

    fn memory(&mut self, func: FuncId, f: &Function, inst: &Inst) {
        let name = forms::name(inst);
        let space = inst.space();
        if inst.mods.iter().filter(|&&m| Space::from_mod(m).is_some()).count() > 1 {
            return self
                .error(inst.span, format!("Unexpected number of state spaces specified in instruction '{name}'"));
        }
        let sem = [Mod::Relaxed, Mod::Acquire, Mod::Release].into_iter().find(|&m| inst.has(m));
        if let (Op::Ld | Op::St, Some(sem), None) = (inst.op, sem, inst.scope()) {
            self.error(inst.span, format!("Modifier '.{}' requires scope with '{name}' instruction", sem.name()));
        }
        if matches!(inst.op, Op::Ld | Op::St) {
            if sem.is_none()
                && let Some(scope) = inst.mods.iter().find(|&&m| crate::access::Scope::from_mod(m).is_some())
            {
                let message = format!("Modifier '.{}' requires memory order with '{name}' instruction", scope.name());
                self.error(inst.span, message);
            }
            if inst.has(Mod::Mmio) && !inst.has(Mod::Relaxed) {
                self.error(
                    inst.span,
                    format!("Modifier '.mmio' requires modifier '.relaxed' for instruction '{name}'"),
                );
            }
            if inst.has(Mod::Nc) && space != Space::Global {
                self.error(inst.span, "Modifier '.nc' requires .global space");
            }
        }
        if inst.has(Mod::L2CacheHint) && inst.has(Mod::Mmio) {
            self.error(inst.span, "Modifier '.L2::cache_hint' cannot be combined with modifier '.mmio'");
        }
        if inst.has(Mod::L2CacheHint) && !matches!(space, Space::Global | Space::Generic) {
            let space = inst.mods.iter().find(|&&m| Space::from_mod(m).is_some()).map_or("", |m| m.name());
            let message =
                format!("Modifier '.L2::cache_hint' cannot be applied to '.{space}' space for instruction '{name}'");
            self.error(inst.span, message);
        }
        let bits = inst.ty().bits() * u32::from(inst.vector());
        let cache = inst.mods.iter().find(|&&m| crate::access::CacheOp::from_mod(m).is_some());
        if let (Some(sem), Some(cache), Op::Ld | Op::St) = (sem, cache, inst.op) {
            let message = format!("Modifier '.{}' cannot be combined with modifier '.{}'", sem.name(), cache.name());
            self.error(inst.span, message);
        }
        if inst.op == Op::Ldu && bits > 128 {
            self.error(inst.span, "Vector type too large, exceeds 128 bit limit");
        }
        let evict = inst.mods.iter().find(|m| matches!(m, Mod::L2EvictFirst | Mod::L2EvictLast | Mod::L2EvictNormal));
        if let (Op::Ld | Op::St, Some(evict), true) = (inst.op, evict, bits != 256) {
            let message =
                format!("Instruction '{name}' requires '.v8.b32/.v4.b64' type with '.{}' modifier.", evict.name());
            self.error(inst.span, message);
        }
        if bits > 128 {
            if self.target.sm < 100 || self.version < (8, 8) || bits > 256 {
                let since = Since::new((8, 8), 100);
                if bits > 256 {
                    self.error(inst.span, "Vector operand is too large");
                } else {
                    self.since(inst.span, "256 bit wide load/store", since);
                }
            }
        } else if inst.vector() == 8
            && inst.ty().bits() < 32
            && self.target.sm < 100
            && matches!(inst.op, Op::Ld | Op::St)
        {
            self.error(inst.span, "Illegal vector size: 8");
        }
        let Some(address) = inst.operands.iter().find_map(|o| match o {
            Operand::Mem(a) => Some(*a),
            _ => None,
        }) else {
            return;
        };
        match address.base {
            AddressBase::None => {
                if space != Space::Local && space != Space::Shared {
                    self.error(inst.span, "Immediate addresses allowed only for .local state space");
                }
            }
            AddressBase::Reg(reg) => {
                if space == Space::ParamFunc {
                    let message = format!("Illegal state space for address operand '::func' with instruction '{name}'");
                    self.error(inst.span, message);
                }
                let narrow = f.regs.get(reg.index()).is_some_and(|r| r.ty.bits() == 32);
                if narrow && self.m.address_size == 64 && matches!(space, Space::Global | Space::Generic) {
                    self.error(inst.span, "32-bit address is conflicting with .address_size 64");
                }
            }
            AddressBase::Var(v) => {
                let var = &self.m.vars[v.index()];
                let ok = match (space, var.space) {
                    (Space::Generic, s) => s != Space::Param && s != Space::Const || s == Space::Const,
                    (Space::Param | Space::ParamEntry | Space::ParamFunc, s) => s == Space::Param,
                    (Space::SharedCluster, s) => s == Space::Shared,
                    (a, b) => a == b,
                };
                if !ok {
                    let message =
                        format!("State space mismatch between instruction and address in instruction '{name}'");
                    return self.error(inst.span, message);
                }
                if inst.op == Op::St && var.space == Space::Param && f.params.contains(&v) && var.scope == Some(func) {
                    let message = format!("Illegal to write to function input parameter '{}'", var.name);
                    self.error(inst.span, message);
                }
            }
        }
    }

    fn call(&mut self, f: &Function, inst: &Inst) {
        let [Operand::List(returns), target, Operand::List(arguments), rest @ ..] = inst.operands else {
            return self.error(inst.span, "Arguments mismatch for instruction 'call'");
        };
        let m = self.m;
        let (formal_returns, formal_params) = match target {
            Operand::Func(id) => {
                let callee = &m.funcs[id.index()];
                if callee.kind == FuncKind::Entry {
                    return self.error(inst.span, "Illegal call target, device function expected");
                }
                (&callee.returns, &callee.params)
            }
            Operand::Reg { reg, elem: None } => {
                let ty = f.regs.get(reg.index()).map_or(ScalarType::Pred, |r| r.ty);
                if ty.bits() != u32::from(m.address_size) || ty.is_float() {
                    return self.error(inst.span, "Arguments mismatch for instruction 'call'");
                }
                let table = match rest {
                    [Operand::Table(t)] => f.tables.get(t.index()),
                    _ => None,
                };
                match table {
                    Some(Table::Prototype { returns, params, .. }) => (returns, params),
                    Some(Table::Call { targets, .. }) if !targets.is_empty() => {
                        let callee = &m.funcs[targets[0].index()];
                        (&callee.returns, &callee.params)
                    }
                    _ => return self.error(inst.span, "Indirect call requires a call prototype or call targets"),
                }
            }
            _ => return self.error(inst.span, "Arguments mismatch for instruction 'call'"),
        };
        for (given, formal, is_return) in [(returns, formal_returns, true), (arguments, formal_params, false)] {
            if given.len() != formal.len() {
                self.error(inst.span, "Call has wrong number of parameters");
                continue;
            }
            for (g, id) in given.iter().zip(formal) {
                let want = &m.vars[id.index()];
                let ok = match g {
                    Operand::Var { var, offset: 0 } => {
                        let have = &m.vars[var.index()];
                        have.space == Space::Param
                            && have.size() == want.size()
                            && have.dims.is_empty() == want.dims.is_empty()
                            && exact(have.ty, want.ty)
                    }
                    Operand::Reg { reg, elem } => match self.reg(f, *reg, *elem) {
                        Ok(t) => want.dims.is_empty() && exact(t, want.ty),
                        Err(_) => false,
                    },
                    Operand::Sink => is_return,
                    Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => {
                        !is_return && want.dims.is_empty() && constant(g, Some(want.ty)).is_ok()
                    }
                    _ => false,
                };
                if !ok {
                    let message = format!("Type of argument does not match formal parameter '{}'", want.name);
                    self.error(inst.span, message);
                }
            }
        }
    }
}

/// May the result be `_`? As the vendor's tool answers.
fn discards(inst: &Inst) -> bool {
    match inst.op {
        Op::Atom | Op::Lop3 => true,
        Op::Mbarrier => !inst.has(Mod::PendingCount),
        Op::Vote => !inst.has(Mod::Ballot),
        _ => false,
    }
}

/// Is a constant operand one of the legal values?
fn in_range(n: i64, values: Values, i: usize, inst: &Inst) -> Checked {
    let (ok, what, expected) = match values {
        Values::Any => return Ok(()),
        Values::Range(a, b) => ((a..=b).contains(&n), "value", format!("in range [{a}..{b}]")),
        Values::Positive if n > 0 => return Ok(()),
        Values::Positive => {
            return because(format!(
                "Argument {i} of instruction '{}' : value '{n}' expected to be a non-zero positive",
                forms::name(inst)
            ));
        }
        Values::PowerOfTwo if n > 0 && n & (n - 1) == 0 => return Ok(()),
        Values::PowerOfTwo => return because("Alignment must be a power of two"),
        Values::MultipleOf(m) => (n % m == 0, "unexpected value", format!("multiple of {m}")),
        Values::OneOf(list) => {
            let words: Vec<String> = list.iter().map(i64::to_string).collect();
            (list.contains(&n), "unexpected value", words.join(" or "))
        }
    };
    if ok {
        return Ok(());
    }
    let out = if what == "value" { " out of range" } else { "" };
    because(format!(
        "Argument {i} of instruction '{}': {what} '{n}'{out}, expected to be {expected}",
        forms::name(inst)
    ))
}

/// May a literal stand where type `ty` is meant? Integers for integers and bits, floats for floats and hexadecimal ones for bits.
pub(super) fn constant(o: &Operand, ty: Option<ScalarType>) -> Checked {
    let Some(ty) = ty else { return Err(Bad::Mismatch) };
    // Packed values have no literals.
    if matches!(ty, ScalarType::U16x2 | ScalarType::S16x2 | ScalarType::BF16x2 | ScalarType::F16x2 | ScalarType::F32x2)
    {
        return Err(Bad::Mismatch);
    }
    let ok = match o {
        Operand::Int(_) => !ty.is_float(),
        Operand::F32(_) => (ty.is_float() && ty.bits() >= 32) || (ty.is_bits() && ty.bits() == 32),
        Operand::F64(_) => (ty.is_float() && ty.bits() >= 32) || (ty.is_bits() && ty.bits() == 64),
        _ => false,
    };
    if ok { Ok(()) } else { Err(Bad::Mismatch) }
}
