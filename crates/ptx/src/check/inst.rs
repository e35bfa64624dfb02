//! Operands of instructions: kinds, counts, types, state spaces, calls.

use super::Checker;
use super::forms::{self, Fit};
use crate::isa::{Count, Mod, Op, OperandForm, OperandKind, OperandType, Since, Values};
use crate::module::*;
use crate::types::{ScalarType, Space, SpecialReg};
use smallvec::SmallVec;

/// May a register of type `reg` stand where exactly `ty` is meant? Equal size, and equal kind or one of them untyped.
pub(super) fn exact(reg: ScalarType, ty: ScalarType) -> bool {
    if reg == ScalarType::Pred || ty == ScalarType::Pred {
        return reg == ty;
    }
    if reg.bits() != ty.bits() {
        return false;
    }
    if matches!(ty, ScalarType::U16x2 | ScalarType::S16x2 | ScalarType::U8x4 | ScalarType::S8x4) {
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
    /// Checks an instruction whose modifiers fit these forms; none: that has been reported.
    pub(super) fn inst(&mut self, func: FuncId, f: &Function, inst: &Inst, fits: &[Fit]) {
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
            if self.is_unsynchronized(inst) && given == fits.iter().map(|f| f.operands.len()).max().unwrap_or(0) + 1 {
                self.error(inst.span, format!(".sync modifier required for instruction '{}'", name()));
                return self.unsynchronized(inst);
            }
            let extra = match (inst.op, given) {
                (Op::Setp | Op::Set, 4) | (Op::Lop3, 6) => inst.operands.last(),
                _ => None,
            };
            let condition = match extra {
                Some(Operand::Int(_)) => true,
                Some(Operand::Reg { reg, elem: None } | Operand::NotReg(reg)) => {
                    matches!(self.reg(f, *reg, None), Ok(ScalarType::Pred))
                }
                _ => false,
            };
            if inst.op == Op::Tcgen05 && inst.has(Mod::St) && given == 3 {
                return self.error(inst.span, format!("Argument 1 of instruction '{}': must be constant", name()));
            }
            if condition {
                return self.error(inst.span, format!("Boolean operation is required for instruction '{}'", name()));
            }
            return self.error(inst.span, format!("Arguments mismatch for instruction '{}'", name()));
        }
        let mut first: Option<(usize, Bad)> = None;
        for fit in counted {
            match self.operands(f, inst, fit) {
                Ok(()) => {
                    // Another form of the same modifiers may be older than the one that the operands call for.
                    if !self.gated && self.late(fit.form.since) {
                        return self.form_gate(inst, fit.form);
                    }
                    self.specials(inst);
                    return self.meaning(func, f, inst);
                }
                // That of the form whose operands fit farthest.
                Err((at, bad @ Bad::Because(_))) => {
                    if !matches!(first, Some((before, Bad::Because(_))) if before >= at) {
                        first = Some((at, bad));
                    }
                }
                Err(bad) => first = first.or(Some(bad)),
            }
        }
        let message = match first {
            Some((_, Bad::Because(text))) => text,
            _ => format!("Arguments mismatch for instruction '{}'", name()),
        };
        self.error(inst.span, message);
    }

    /// Is there an operand that can never stand where it does?
    pub(super) fn misfits(&self, inst: &Inst, fit: &Fit) -> bool {
        let Some(f) = self.func.and_then(|i| self.m.funcs.get(i.index())) else { return false };
        matches!(self.operands(f, inst, fit), Err((_, Bad::Mismatch)))
    }

    /// What is wrong with the operands, and with which one.
    fn operands(&self, f: &Function, inst: &Inst, fit: &Fit) -> Result<(), (usize, Bad)> {
        // An operand of a wrong kind or type is told before what else is wrong with others.
        let mut told = Ok(());
        // An operand that may be left out is, where one behind it may not be.
        let mut absent = fit.operands.len() - inst.operands.len().min(fit.operands.len());
        let last = fit.operands.iter().rposition(|o| !o.optional).unwrap_or(0);
        let given = fit.operands.iter().enumerate().filter(|(n, o)| {
            let left_out = o.optional && absent > 0 && *n < last;
            absent -= usize::from(left_out);
            !left_out
        });
        for (i, (o, (_, form))) in inst.operands.iter().zip(given).enumerate() {
            match self.operand(f, inst, fit, i, o, form) {
                Err(Bad::Mismatch) => return Err((i, Bad::Mismatch)),
                Err(bad) if told.is_ok() => told = Err((i, bad)),
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
        // What an operand of the instruction's own type may not be is told more precisely than others.
        let own = matches!(form.ty, OperandType::Slot(_) | OperandType::Twice);
        if is_dest {
            match o {
                Operand::Special(s) => {
                    let read =
                        form.kind == K::MoveDest || form.kind == K::ConvDest && inst.types().iter().all(|t| t.is_int());
                    if read && ty.is_some_and(|t| t != ScalarType::Pred && t.bits() <= s.ty().bits()) {
                        return because("Read-only special register cannot be destination argument");
                    }
                    if form.kind == K::DestPred {
                        return Err(Bad::Mismatch);
                    }
                    return self.no_special(inst, *s, ty, form.kind == K::ConvDest);
                }
                Operand::F32(_) | Operand::F64(_) if form.kind == K::DestPred => return Err(Bad::Mismatch),
                Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => {
                    if form.kind != K::DestPred {
                        if form.kind == K::ConvDest && inst.has(Mod::Tf32) {
                            return Err(Bad::Mismatch);
                        }
                        constant(o, ty)?;
                    }
                    return because(format!("Result register required for instruction '{}'", name()));
                }
                Operand::NotReg(reg)
                    if (ty == Some(ScalarType::Pred) || form.kind == K::DestPred)
                        && self.reg(f, *reg, None)? == ScalarType::Pred =>
                {
                    return because(format!("Result register required for instruction '{}'", name()));
                }
                _ => {}
            }
        }
        if matches!(form.kind, K::Dest | K::DestPred | K::Source | K::DestAndPred | K::ConvDest | K::ConvSource)
            && let Operand::Vector(parts) = o
        {
            let plain = |t: &ScalarType| own && !t.is_bits() && !(inst.op == Op::Redux && t.is_int());
            let Some(ty) = ty.filter(plain) else { return Err(Bad::Mismatch) };
            let loose = matches!(form.kind, K::ConvDest | K::ConvSource) && !inst.has(Mod::Bf16);
            let test = if loose { relaxed } else { exact };
            for p in parts {
                match p {
                    Operand::Reg { reg, elem } if test(self.reg(f, *reg, *elem)?, ty) => {}
                    _ => return Err(Bad::Mismatch),
                }
            }
            return because(if matches!(inst.op, Op::Red | Op::Atom) {
                format!("Vector is not expected for argument {i} of instruction '{}'", name())
            } else {
                format!("Vector operand is not allowed for instruction '{}'", name())
            });
        }
        // The address of something is a 64-bit number to it; the name of a variable fits everywhere.
        if own
            && matches!(
                form.kind,
                K::Dest
                    | K::DestAndPred
                    | K::ConvDest
                    | K::LoadDest
                    | K::Source
                    | K::ConvSource
                    | K::StoreSource
                    | K::Register
            )
            && !matches!(inst.op, Op::Redux | Op::Elect | Op::Wgmma | Op::Tcgen05)
            && !(inst.op == Op::Match && is_dest)
        {
            // A surface or texture and its coordinates count for two.
            let i = i + usize::from(matches!(inst.op, Op::Sust | Op::Sured));
            let number = match form.kind {
                K::ConvDest | K::ConvSource => ty.is_some_and(|t| relaxed(ScalarType::B64, t)) && !inst.has(Mod::Bf16),
                _ => ty.is_some_and(|t| t.bits() == 64),
            };
            match o {
                Operand::Var { .. } => {
                    return because(format!("Argument {i} of instruction '{}': must be register", name()));
                }
                Operand::Mem(a) if number && matches!(a.base(), AddressBase::Reg(_)) => {
                    return because(format!("Argument {i} of instruction '{}': must be register", name()));
                }
                _ => {}
            }
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
            if i == 0 {
                return because(format!("Result discard mode is not allowed for instruction '{}'", name()));
            }
            return because("Parsing error near '_': syntax error");
        }
        if let (Operand::Special(s), K::Source | K::StoreSource | K::Multiple(_) | K::Word) = (o, form.kind) {
            return self.no_special(inst, *s, ty, false);
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
                Operand::Pair(p) if p.0 == Operand::Sink && p.1 == Operand::Sink => {
                    because("Parsing error near '_': syntax error")
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
                    if form.kind == K::DestBoth && p.1 == Operand::Sink {
                        return because(format!("Predicate output expected for instruction '{}'", name()));
                    }
                    if p.0 == Operand::Sink && inst.op == Op::Shfl {
                        return because(format!("Result discard mode is not allowed for instruction '{}'", name()));
                    }
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
                    Operand::Special(s) => self.special(inst, *s, ty, form.kind == K::ConvSource),
                    // Hints and addresses are no floats.
                    Operand::F32(_) | Operand::F64(_)
                        if form.ty == OperandType::Fixed(ScalarType::B64) || inst.op == Op::Tcgen05 =>
                    {
                        Err(Bad::Mismatch)
                    }
                    _ => constant(o, ty),
                }
            }
            K::Pred => match o {
                Operand::Int(n) if inst.op == Op::Wgmma => in_range(*n, Values::OneOf(&[0, 1]), i, inst),
                Operand::Sink => because("Parsing error near '_': syntax error"),
                // Comparisons of this type take no constant.
                Operand::Int(_) if inst.types().iter().any(|t| matches!(t, ScalarType::BF16 | ScalarType::BF16x2)) => {
                    Err(Bad::Mismatch)
                }
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
                let Operand::Mem(a) = o else {
                    let descriptor = match o {
                        Operand::Reg { reg, elem } => self.reg(f, *reg, *elem)?.bits() == 64,
                        o => matches!(o, Operand::Int(_)),
                    };
                    if descriptor && i == 1 && inst.op == Op::Tcgen05 && inst.has(Mod::Ashift) {
                        return because(format!("Illegal modifier '.ashift' for instruction '{}'", name()));
                    }
                    return Err(Bad::Mismatch);
                };
                let space = match form.ty {
                    OperandType::Space(s) => s,
                    _ => inst.space(),
                };
                match a.base() {
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
                        if inst.op == Op::Prefetchu && have != Space::Global {
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
            K::Texture => {
                let given = fit.operands.iter().take(inst.operands.len());
                let offsets = given.into_iter().any(|o| o.kind == K::Offset);
                self.texture(f, inst, o, ty, offsets)
            }
            K::TexelDest(_) | K::Offset | K::Gradient | K::Handle | K::Part => self.texel(f, inst, i, o, form, ty),
            K::Constant(values) => match o {
                Operand::Int(n) => in_range(*n, values, i, inst),
                Operand::Var { .. } | Operand::Special(_) | Operand::Reg { .. }
                    if inst.op == Op::Tensormap && inst.has(Mod::Replace) && inst.operands.len() == 2 =>
                {
                    because("Integer constant expression expected")
                }
                Operand::Reg { .. } if inst.op == Op::Tcgen05 && !inst.has(Mod::Mma) => {
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
                        Operand::Sink if dest && inst.op == Op::Multimem => {
                            because(format!("Result discard mode is not allowed for instruction '{}'", name()))
                        }
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

    /// A special register where none may be: told so where its size is right.
    pub(super) fn no_special(&self, inst: &Inst, s: SpecialReg, ty: Option<ScalarType>, wider: bool) -> Checked {
        let own = s.ty().bits();
        let fits = match ty {
            None => true,
            Some(ScalarType::Pred) => false,
            Some(t) => t.bits() == own || own == 32 && t.bits() == 16 || wider && t.bits() < own,
        };
        if fits {
            because(format!("Special register argument not allowed for instruction '{}'", forms::name(inst)))
        } else {
            Err(Bad::Mismatch)
        }
    }

    pub(super) fn special(&self, inst: &Inst, s: SpecialReg, ty: Option<ScalarType>, conversion: bool) -> Checked {
        let Some(ty) = ty else { return Err(Bad::Mismatch) };
        if conversion && (inst.has(Mod::Pack) || !inst.types().iter().all(|t| t.is_int())) {
            // Small floats of 16 bits are not what a special register of 32 bits is read as.
            let small = !ty.is_float() || ty.bits() == 16 && !matches!(ty, ScalarType::F16 | ScalarType::BF16);
            return if small && !ty.is_int() { Err(Bad::Mismatch) } else { self.no_special(inst, s, Some(ty), true) };
        }
        let own = s.ty();
        // The 32-bit index registers were 16 bits wide once: both widths may be read.
        let narrow = match s {
            SpecialReg::Tid(_) | SpecialReg::Ntid(_) | SpecialReg::Ctaid(_) | SpecialReg::Nctaid(_) => ty.bits() == 16,
            SpecialReg::Gridid => matches!(ty.bits(), 16 | 32),
            _ => false,
        };
        let narrow = narrow && !ty.is_float();
        let ok = !s.is_vector() && (exact(own, ty) || narrow || (conversion && relaxed(own, ty)));
        if ok { Ok(()) } else { Err(Bad::Mismatch) }
    }

    fn is_unsynchronized(&self, inst: &Inst) -> bool {
        matches!(inst.op, Op::Vote | Op::Shfl) && !inst.has(Mod::Sync)
    }

    /// A vote or shuffle of whatever threads are together: what older versions have.
    fn unsynchronized(&mut self, inst: &Inst) {
        let how = format!("Instruction '{}' without '.sync'", if inst.op == Op::Vote { "vote" } else { "shfl" });
        if self.version >= (6, 4) && self.target.sm >= 70 {
            let message = format!("{how} is not supported on .target sm_70 and higher from PTX ISA version 6.4");
            return self.error(inst.span, message);
        }
        self.warning(inst.span, format!("{how} may produce unpredictable results on sm_70 and later architectures"));
        if self.version >= (6, 0) {
            let message = format!(
                "{how} is deprecated since PTX ISA version 6.0 and will be discontinued in a future PTX ISA version"
            );
            self.warning(inst.span, message);
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
            Op::Mad
                if self.target.sm >= 20
                    && self.version >= (3, 1)
                    && inst.types()[..] == [ScalarType::F32]
                    && inst.rounding().is_none() =>
            {
                if self.version >= (3, 2) {
                    return self.error(inst.span, "Rounding modifier required for instruction 'mad'");
                }
                self.warning(inst.span, "Rounding modifier required for mad.f32 if .target is sm_20 or later.");
            }
            Op::Vote | Op::Shfl if self.is_unsynchronized(inst) => self.unsynchronized(inst),
            Op::Cvta if inst.has(Mod::To) && inst.mods.first() != Some(&Mod::To) => {
                self.error(inst.span, "Unknown modifier '.to'");
            }
            Op::Mma
                if inst.has(Mod::Popc)
                    && inst.mods.iter().position(|m| *m == Mod::Popc)
                        < inst.mods.iter().position(|m| matches!(m, Mod::And | Mod::Xor)) =>
            {
                self.error(inst.span, "Illegal reduction operation for instruction 'mma.s32.s32'");
            }
            Op::Tcgen05
                if inst.has(Mod::Cp)
                    && inst.mods.iter().position(|m| matches!(m, Mod::B6x16P32 | Mod::B4x16P64))
                        < inst.mods.iter().position(|m| *m == Mod::B8x16) =>
            {
                let words = inst.mods.iter().filter(|m| m.name().contains("x16")).map(|m| format!(".{}", m.name()));
                let words: String = words.collect();
                self.error(inst.span, format!("Illegal modifier '{words}' for instruction '{}'", name()));
            }
            Op::Cvta if inst.ty().bits() == 32 && self.m.address_size == 64 => self.narrow_address(inst.span),
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
                    && n % 32 != 0
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
            Op::Mov
                if inst.ty().bits() == 32
                    && matches!(inst.operands.get(1), Some(Operand::Var { var, .. })
                        if self.m.vars[var.index()].space == Space::Global)
                    && self.m.address_size == 64 =>
            {
                self.narrow_address(inst.span);
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
                } else if !matches!(inst.operands.first(), Some(Operand::Reg { .. })) {
                    self.error(inst.span, "Arguments mismatch for instruction 'brx.idx'");
                }
            }
            _ => {}
        }
    }
}

/// May the result be `_`? As the vendor's tool answers.
fn discards(inst: &Inst) -> bool {
    match inst.op {
        Op::Atom | Op::Lop3 => true,
        Op::Mbarrier => inst.has(Mod::Arrive) || inst.has(Mod::ArriveDrop),
        Op::Vote => inst.has(Mod::Sync) && !inst.has(Mod::Ballot),
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
        Values::Natural if n >= 0 => return Ok(()),
        Values::Natural => {
            return because(format!(
                "Argument {i} of instruction '{}': unexpected value '{n}', expected to be non-negative integer",
                forms::name(inst)
            ));
        }
        Values::Columns => {
            let name = forms::name(inst);
            return if n % 32 != 0 {
                because(format!(
                    "Argument {i} of instruction '{name}': unexpected value '{n}', expected to be multiple of 32"
                ))
            } else if n.count_ones() != 1 || n < 0 {
                because(format!("Argument {i} of '{name}' instruction: value must be power of 2"))
            } else if n > 512 {
                because(format!(
                    "Argument {i} of instruction '{name}': value '{n}' out of range, expected to be in range [32..512]"
                ))
            } else {
                Ok(())
            };
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
    use ScalarType::{BF16x2, F16x2, F32x2, S8x4, S16x2, U8x4, U16x2};
    if matches!(ty, U16x2 | S16x2 | BF16x2 | F16x2 | F32x2 | U8x4 | S8x4) {
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
