//! What checking sees of operands: of registers their types, of constants of most instructions nothing. An instruction
//! whose head and shape have passed before passes again, and nearly all are such.

use super::Checker;
use crate::isa::{Op, OperandKind};
use crate::module::*;
use crate::types::{ScalarType, Space, SpecialReg};

/// The operands of an instruction, a byte each behind a one; a vector has one for its length and one for each element.
pub(super) type Shape = u128;

/// Shapes of one head that are kept.
const KEPT: usize = 24;

// Registers are their types, from 1 on: all types are fewer than 64.
const INT: u8 = 0x40;
const F32: u8 = 0x41;
const F64: u8 = 0x42;
const LABEL: u8 = 0x43;
const NOT: u8 = 0x44;
/// `[variable]`, by the space of that.
const VARIABLE: u8 = 0x50;
/// A special register that texts are full of, by its number.
const SPECIAL: u8 = 0x60;
/// `p|q`.
const PAIR: u8 = 0x70;
/// `[register]`, by the type of that.
const ADDRESS: u8 = 0x80;
/// `{...}`, by the length.
const VECTOR: u8 = 0xc0;

const _: () = assert!((ScalarType::Pred as u8) < INT - 1 && (Space::Generic as u8) < SPECIAL - VARIABLE);

/// What has passed of the instructions with one head.
#[derive(Default)]
pub(super) struct Passed {
    /// The one that was asked for last, which is what most are; 0 for none.
    last: Shape,
    more: Vec<Shape>,
}

impl Passed {
    #[inline]
    fn has(&mut self, shape: Shape) -> bool {
        if self.last == shape {
            return true;
        }
        match self.more.iter_mut().find(|s| **s == shape) {
            Some(found) => {
                std::mem::swap(found, &mut self.last);
                true
            }
            None => false,
        }
    }
}

/// The number of a special register that texts are full of: below 16.
fn special(s: SpecialReg) -> Option<u8> {
    let (n, dim) = match s {
        SpecialReg::Tid(d) => (0, d),
        SpecialReg::Ntid(d) => (1, d),
        SpecialReg::Ctaid(d) => (2, d),
        SpecialReg::Nctaid(d) => (3, d),
        _ => return None,
    };
    Some(n * 4 + dim as u8)
}

impl Checker<'_> {
    /// The shape of the operands of an instruction; none where there is more to them than a shape tells.
    #[inline]
    pub(super) fn shape(&self, f: &Function, op: impl Fn() -> Op + Copy, operands: &[Operand]) -> Option<Shape> {
        // Nearly all have so few, and no list among them.
        let mut short = 1u64;
        for o in operands {
            match self.single(f, op, o) {
                Some(byte) if short >> 56 == 0 => short = short << 8 | u64::from(byte),
                _ => return self.long_shape(f, op, operands),
            }
        }
        Some(short.into())
    }

    #[inline(never)]
    fn long_shape(&self, f: &Function, op: impl Fn() -> Op + Copy, operands: &[Operand]) -> Option<Shape> {
        let mut shape: Shape = 1;
        let mut add = |byte: u8| {
            let room = shape >> 120 == 0;
            shape = shape << 8 | Shape::from(byte);
            room.then_some(())
        };
        for o in operands {
            match o {
                Operand::Vector(parts) if parts.len() < 16 => {
                    add(VECTOR + parts.len() as u8)?;
                    for p in parts {
                        add(self.scalar(f, p)?)?;
                    }
                }
                Operand::Pair(pair) => {
                    add(PAIR)?;
                    add(self.scalar(f, &pair.0)?)?;
                    add(self.scalar(f, &pair.1)?)?;
                }
                _ => add(self.single(f, op, o)?)?,
            }
        }
        Some(shape)
    }

    /// The byte of an operand that is no list.
    #[inline(always)]
    fn single(&self, f: &Function, op: impl Fn() -> Op, o: &Operand) -> Option<u8> {
        match o {
            Operand::Mem(a) if let AddressBase::Var(v) = a.base() => {
                let v = &self.m.vars[v.index()];
                // Parameters of the function at hand may not be written.
                (!v.ty.is_opaque() && (v.space != Space::Param || op() == Op::Ld)).then_some(VARIABLE + v.space as u8)
            }
            _ => self.scalar(f, o),
        }
    }

    #[inline(always)]
    fn scalar(&self, f: &Function, o: &Operand) -> Option<u8> {
        let ty = |reg: RegId| f.regs.get(reg.index()).filter(|r| r.vector == 1).map(|r| r.ty as u8 + 1);
        match o {
            Operand::Reg { reg, elem: None } => ty(*reg),
            Operand::Mem(a) => match a.base() {
                AddressBase::Reg(reg) => ty(reg).map(|t| ADDRESS + t),
                _ => None,
            },
            Operand::Int(_) => Some(INT),
            Operand::F32(_) => Some(F32),
            Operand::F64(_) => Some(F64),
            Operand::Label(_) => Some(LABEL),
            Operand::Special(s) => special(*s).map(|n| SPECIAL + n),
            Operand::NotReg(reg) => ty(*reg).filter(|&t| t == ScalarType::Pred as u8 + 1).map(|_| NOT),
            _ => None,
        }
    }

    /// Has an instruction with this head and shape passed before?
    #[inline]
    pub(super) fn has_passed(&mut self, head: u32, shape: Shape) -> bool {
        self.cache.0.get_mut(head as usize).and_then(|k| k.as_mut()).is_some_and(|k| k.1.has(shape))
    }

    /// The instruction has passed without a message.
    pub(super) fn pass(&mut self, inst: &Inst, shape: Shape) {
        let Some(Some((fits, passed))) = self.cache.0.get_mut(inst.head as usize) else { return };
        // Constants of these must be looked at each.
        let by_value = matches!(inst.op, Op::Bar | Op::Barrier | Op::Wgmma)
            || fits.iter().flat_map(|f| &f.operands).any(|o| {
                matches!(o.kind, OperandKind::Constant(_) | OperandKind::Multiple(_) | OperandKind::ConstantVec(_))
            });
        let constant = |o: &Operand| match o {
            Operand::Int(_) => true,
            Operand::Vector(parts) => parts.iter().any(|p| matches!(p, Operand::Int(_))),
            _ => false,
        };
        if by_value && inst.operands.iter().any(constant) || passed.has(shape) {
            return;
        }
        if passed.last == 0 {
            passed.last = shape;
        } else if passed.more.len() < KEPT {
            passed.more.push(shape);
        }
    }
}
