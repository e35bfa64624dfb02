//! Values as machine operands: constants as immediates, negation and complement as source modifiers.

use super::{Regs, Sel};
use crate::ir::{Fmt, Op as I, Ty, Value};
use crate::mir::Vreg;
use crate::opt::simplify::extended;
use sass::form::SlotName;
use sass::inst::{Operand, Value as V};
use sass::reg::{File, Reg};

/// How many operations are looked through for constant words.
const KNOWN_DEPTH: u32 = 4;

/// How many operations are looked through for the upper half of a value of 16 bits.
const HALF_DEPTH: u32 = 6;

/// Where a word of a value comes from.
enum Part {
    /// It is the low word of this value.
    Low(Value),
    /// It is the high word of this value.
    High(Value),
    /// These bits.
    Known(u32),
    /// A register of its own.
    Own,
}

/// RZ as an operand.
pub const ZERO: Operand = Operand::reg(Reg::RZ);
/// PT as an operand.
pub const TRUE: Operand = Operand::reg(Reg::PT);

impl Sel<'_> {
    /// The constant bits of a value (0 for a value that was never written).
    pub(super) fn constant(&self, v: Value) -> Option<u64> {
        let inst = self.f.def_inst(v)?;
        match inst.op {
            I::Undef => Some(0),
            _ => self.f.constant(v),
        }
    }

    /// Low word: an immediate (RZ for zero) or a register.
    pub(super) fn lo(&mut self, v: Value) -> Operand {
        match self.constant(v) {
            Some(bits) => immediate(bits as u32),
            None => match self.part(v, false) {
                Part::Low(x) => self.lo(x),
                Part::High(x) => self.hi(x),
                Part::Known(bits) => immediate(bits),
                Part::Own => {
                    let r = self.regs_of(v);
                    Operand::reg(self.m.reg(r.lo))
                }
            },
        }
    }

    /// High word of a 64-bit value.
    pub(super) fn hi(&mut self, v: Value) -> Operand {
        match self.constant(v) {
            Some(bits) => immediate((bits >> 32) as u32),
            None => match self.part(v, true) {
                Part::Low(x) => self.lo(x),
                Part::High(x) => self.hi(x),
                Part::Known(bits) => immediate(bits),
                Part::Own => match self.regs_of(v).hi {
                    Some(h) => Operand::reg(self.m.reg(h)),
                    None => ZERO,
                },
            },
        }
    }

    /// A word of a value that is only put together from words of others, or taken from them.
    fn part(&self, v: Value, high: bool) -> Part {
        let Some(inst) = self.f.def_inst(v).filter(|_| self.regs[v.index()].is_none()) else { return Part::Own };
        let (from, to) = (inst.args.first().map(|&a| self.f.ty(a)), self.f.ty(v));
        match (inst.op, from, to) {
            (I::Trunc, Some(Ty::B64), Ty::B32) => Part::Low(inst.args[0]),
            (I::Hi, Some(Ty::B64), Ty::B32) => Part::High(inst.args[0]),
            (I::Pack, Some(Ty::B32), Ty::B64) => Part::Low(inst.args[high as usize]),
            (I::Zext, Some(Ty::B32), Ty::B64) if !high => Part::Low(inst.args[0]),
            (I::Zext, Some(Ty::B32 | Ty::B16), Ty::B64) if high => Part::Known(0),
            (I::Sext, Some(Ty::B32), Ty::B64) if !high => Part::Low(inst.args[0]),
            (I::And | I::Or | I::Xor, Some(Ty::B64), Ty::B64) => {
                let (a, b) = (inst.args[0], inst.args[1]);
                let neutral = if inst.op == I::And { u32::MAX } else { 0 };
                let same = |x: Value| if high { Part::High(x) } else { Part::Low(x) };
                match (self.known_word(v, high, KNOWN_DEPTH), self.known_word(a, high, 2), self.known_word(b, high, 2))
                {
                    (Some(bits), _, _) => Part::Known(bits),
                    (_, Some(k), _) if k == neutral => same(b),
                    (_, _, Some(k)) if k == neutral => same(a),
                    _ => Part::Own,
                }
            }
            _ => Part::Own,
        }
    }

    /// The bits of a word of a 64-bit value, where they follow from constants no deeper than `depth` operations.
    fn known_word(&self, v: Value, high: bool, depth: u32) -> Option<u32> {
        if let Some(bits) = self.constant(v) {
            return Some(if high { (bits >> 32) as u32 } else { bits as u32 });
        }
        let inst = self.f.def_inst(v).filter(|_| depth > 0)?;
        let word = |n: usize| self.known_word(inst.args[n], high, depth - 1);
        let amount = || self.constant(inst.args[1]);
        match inst.op {
            I::Zext if high && self.f.ty(inst.args[0]) < Ty::B64 => Some(0),
            I::And => match (word(0), word(1)) {
                (Some(0), _) | (_, Some(0)) => Some(0),
                (a, b) => Some(a? & b?),
            },
            I::Or => Some(word(0)? | word(1)?),
            I::Xor => Some(word(0)? ^ word(1)?),
            I::Shr if high && !inst.attr.signed && amount()? >= 32 => Some(0),
            I::Shl if !high && amount()? >= 32 => Some(0),
            _ => None,
        }
    }

    /// A predicate: `!` and constants folded in.
    pub(super) fn pred(&mut self, v: Value) -> Operand {
        if let Some(bits) = self.constant(v) {
            return if bits & 1 != 0 { TRUE } else { TRUE.inverted() };
        }
        if let Some(inst) = self.f.def_inst(v)
            && inst.op == I::Not
        {
            return self.pred(inst.args[0]).inverted();
        }
        let r = self.regs_of(v);
        Operand::reg(self.m.reg(r.lo))
    }

    /// The operand in a GPR: an immediate is moved into a new register.
    pub(super) fn gpr(&mut self, o: Operand) -> Operand {
        match o.value {
            V::Reg(r) if r.file() == File::Ugpr => {
                let d = self.m.new_vreg(File::Gpr);
                let d = self.m.reg(d);
                self.push(sass::inst::Inst::new(sass::forms::MOV_U).with(SlotName::Rd, d).with(SlotName::Rb, r));
                Operand { value: V::Reg(d), ..o }
            }
            V::Reg(_) => o,
            V::Imm(bits) => {
                let bits = bits.get();
                let d = self.m.new_vreg(File::Gpr);
                self.mov_imm(d, bits as u32);
                Operand { value: V::Reg(self.m.reg(d)), ..o }
            }
            _ => o,
        }
    }

    /// Float source: negations and absolute values of the same format fold into the operand.
    ///
    /// A flushing `neg`/`abs` folds only into a user that flushes its inputs itself (`ftz`).
    pub(super) fn float_source(&mut self, v: Value, fmt: Fmt, ftz: bool) -> (Value, bool, bool) {
        let (mut v, mut neg, mut abs) = (v, false, false);
        while let Some(inst) = self.f.def_inst(v) {
            if inst.attr.fmt != fmt || (inst.attr.ftz && !ftz) {
                break;
            }
            match inst.op {
                I::FNeg if !abs => neg = !neg,
                I::FNeg => {}
                I::FAbs => abs = true,
                _ => break,
            }
            v = inst.args[0];
        }
        (v, neg, abs)
    }

    /// A 32-bit float (or half) operand with its source modifiers; constants have them applied.
    pub(super) fn fsrc(&mut self, v: Value, fmt: Fmt, ftz: bool) -> Operand {
        let (v, neg, abs) = self.float_source(v, fmt, ftz);
        if let Some(bits) = self.constant(v) {
            let sign: u32 = match fmt {
                Fmt::F16 | Fmt::BF16 => 0x8000,
                Fmt::F16x2 | Fmt::BF16x2 => 0x8000_8000,
                _ => 0x8000_0000,
            };
            let mut bits = bits as u32;
            if abs {
                bits &= !sign;
            }
            if neg {
                bits ^= sign;
            }
            return if bits == 0 { ZERO } else { Operand::imm(bits as i64) };
        }
        let mut o = self.lo(v);
        o.neg = neg;
        o.abs = abs;
        o
    }

    /// A 64-bit float operand: a register pair, or an immediate if the low word of the constant is zero.
    pub(super) fn dsrc(&mut self, v: Value) -> Operand {
        let (v, neg, abs) = self.float_source(v, Fmt::F64, false);
        if let Some(bits) = self.constant(v) {
            let mut bits = bits;
            if abs {
                bits &= !(1 << 63);
            }
            if neg {
                bits ^= 1 << 63;
            }
            if bits == 0 {
                return ZERO;
            }
            if bits as u32 == 0 {
                return Operand::imm((bits >> 32) as u32 as i64);
            }
            return self.wide_constant(bits);
        }
        let mut o = self.pair(v);
        o.neg = neg;
        o.abs = abs;
        o
    }

    /// A constant in a register pair.
    fn wide_constant(&mut self, bits: u64) -> Operand {
        let (lo, hi) = (self.m.new_vreg(File::Gpr), self.m.new_vreg(File::Gpr));
        self.mov_imm(lo, bits as u32);
        self.mov_imm(hi, (bits >> 32) as u32);
        Operand::reg(self.m.vector(&[lo, hi]))
    }

    /// A 64-bit value as an aligned register pair (RZ for zero).
    pub(super) fn pair(&mut self, v: Value) -> Operand {
        match self.constant(v) {
            Some(0) => ZERO,
            Some(bits) => self.wide_constant(bits),
            None => {
                let Regs { lo, hi } = self.regs_of(v);
                Operand::reg(self.m.vector(&[lo, hi.unwrap_or(lo)]))
            }
        }
    }

    /// Several values as one vector operand of consecutive registers.
    pub(super) fn vector_of(&mut self, words: &[Operand]) -> Operand {
        if let [one] = words {
            return self.gpr(*one);
        }
        let mut list: Vec<Vreg> = Vec::with_capacity(words.len());
        for &w in words {
            let reg = match self.gpr(w).value {
                V::Reg(r) if r.is_virtual() => Vreg(r.index()),
                V::Reg(_) => {
                    // RZ as a component: a register that holds zero.
                    let d = self.m.new_vreg(File::Gpr);
                    self.mov_imm(d, 0);
                    d
                }
                _ => continue,
            };
            // A scalar that stands twice needs a copy: one register cannot be at two places.
            if list.contains(&reg) {
                let d = self.m.new_vreg(File::Gpr);
                let pair = (self.m.reg(d), self.m.reg(reg));
                self.push_op(crate::mir::Op::Copy(vec![pair]));
                list.push(d);
            } else {
                list.push(reg);
            }
        }
        Operand::reg(self.m.vector(&list))
    }

    /// True where the register of a value of 16 bits has nothing in its upper half: what was loaded as a number without sign, masked or
    /// shifted down, and what logic and choices make of such.
    pub(super) fn upper_half_is_zero(&self, v: Value) -> bool {
        self.nothing_above(v, HALF_DEPTH)
    }

    fn nothing_above(&self, v: Value, depth: u32) -> bool {
        let Some(d) = self.f.def_inst(v) else { return false };
        let zero = |n: usize| depth > 0 && self.nothing_above(d.args[n], depth - 1);
        match d.op {
            I::Const => true,
            I::Load => d.mem.bytes <= 2 && !d.attr.signed && d.results.len() == 1,
            I::Trunc if self.f.ty(d.args[0]) == Ty::B32 => {
                extended(self.f, d.args[0]).is_some_and(|(bits, signed)| bits <= 16 && !signed)
            }
            I::And => zero(0) || zero(1),
            I::Or | I::Xor | I::Select => zero(0) && zero(1),
            I::Lop3 => d.attr.sub & 1 == 0 && zero(0) && zero(1) && zero(2),
            I::Shr | I::IMin | I::IMax => !d.attr.signed,
            _ => false,
        }
    }

    /// True if the register of a 16-bit value holds it extended with its sign.
    pub(super) fn extends_half(&self, v: Value) -> bool {
        self.f.def_inst(v).is_some_and(|d| {
            d.op == I::Trunc
                && self.f.ty(d.args[0]) == Ty::B32
                && extended(self.f, d.args[0]).is_some_and(|(bits, signed)| bits <= if signed { 16 } else { 15 })
        })
    }

    /// The words of a value, low first.
    pub(super) fn words(&mut self, v: Value) -> Vec<Operand> {
        if self.f.ty(v) == Ty::B64 { vec![self.lo(v), self.hi(v)] } else { vec![self.lo(v)] }
    }
}

/// RZ for zero, else an immediate.
pub fn immediate(bits: u32) -> Operand {
    if bits == 0 { ZERO } else { Operand::imm(bits as i64) }
}
