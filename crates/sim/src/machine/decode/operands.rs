//! Operands: registers, constants, predicates, targets, addresses.

use super::*;
use crate::machine::image::in_bank;

impl Decoder<'_> {
    pub(in crate::machine) fn k(&mut self, value: u32) -> Src {
        let consts = &mut self.p.consts;
        Src::K(*self.consts.entry(value).or_insert_with(|| {
            consts.push([value; 32]);
            consts.len() as u32 - 1
        }))
    }

    /// The word `n` of a register operand.
    fn reg(&mut self, r: Reg, n: u32) -> Result<Src> {
        if r.is_const() {
            return Ok(self.k(0));
        }
        match r.file() {
            File::Gpr => Ok(Src::R((r.index() + n).min(255) as u8)),
            File::Ugpr => Ok(Src::U((r.index() + n).min(255) as u8)),
            _ => gap("a predicate where a register is wanted"),
        }
    }

    /// Word `n` of the operand in a slot.
    pub(in crate::machine) fn word(&mut self, inst: &Seen<'_>, slot: S, n: u32) -> Result<Src> {
        let Some(i) = inst.slot(slot) else { return Ok(self.k(0)) };
        match inst.inst().operands[i].value {
            Value::Reg(r) => self.reg(r, n),
            Value::Imm(v) => {
                let v = v.get();
                let kind = inst.form().slots[i].kind;
                if matches!(kind, SlotKind::Imm { print: ImmPrint::Bindless, .. }) {
                    return gap("a constant through a descriptor");
                }
                let high = matches!(kind, SlotKind::Imm { print: ImmPrint::F64High, .. });
                Ok(match (high, n) {
                    (true, 0) => self.k(0),
                    (true, _) => self.k(v as u32),
                    (false, 0) => self.k(v as u32),
                    // With its sign: an immediate of 32 bits as the addend of a 64-bit sum.
                    (false, _) => self.k((v >> 32) as u32),
                })
            }
            Value::Const { bank, offset } => {
                let at = in_bank(offset as i64) + 4 * n as u64;
                let w = self.image.banks.get(bank as usize).and_then(|b| b.load(at, 4, "constant").ok());
                match w {
                    Some(w) => Ok(self.k(w as u32)),
                    None => gap(format!("c[{bank:#x}][{at:#x}] lies outside of the bank")),
                }
            }
            Value::Target(_) => gap("a target where a value is wanted"),
        }
    }

    pub(in crate::machine) fn src(&mut self, inst: &Seen<'_>, slot: S) -> Result<Src> {
        self.word(inst, slot, 0)
    }

    pub(in crate::machine) fn dst(inst: &Seen<'_>, slot: S) -> Dst {
        match inst.get(slot).and_then(|o| o.as_reg()) {
            Some(r) if r.is_const() => Dst::None,
            Some(r) if r.file() == File::Ugpr => Dst::U(r.index() as u8),
            Some(r) => Dst::R(r.index() as u8),
            None => Dst::None,
        }
    }

    /// The register that is written, however its slot is called.
    pub(super) fn first_dst(&self, inst: &Seen<'_>) -> Dst {
        let form = inst.form();
        let slot =
            form.slots.iter().find(|s| s.role == Role::Def && matches!(s.kind, SlotKind::Reg(File::Gpr | File::Ugpr)));
        slot.map_or(Dst::None, |s| Self::dst(inst, s.name))
    }

    /// A GPR destination or source by number; 255 is RZ.
    pub(in crate::machine) fn gpr(inst: &Seen<'_>, slot: S) -> u8 {
        match inst.get(slot).and_then(|o| o.as_reg()) {
            Some(r) => r.index().min(255) as u8,
            None => 255,
        }
    }

    pub(in crate::machine) fn p(inst: &Seen<'_>, slot: S) -> Pred {
        inst.get(slot).map_or(Pred::TRUE, pred)
    }

    pub(in crate::machine) fn imm(inst: &Seen<'_>, slot: S) -> Option<i64> {
        match inst.get(slot)?.value {
            Value::Imm(v) => Some(v.get()),
            _ => None,
        }
    }

    /// The instruction index that a target names.
    pub(in crate::machine) fn target(&self, inst: &Seen<'_>, slot: S) -> Result<u32> {
        match inst.get(slot).map(|o| o.value) {
            Some(Value::Target(t)) => {
                let t = t.get();
                let byte = (self.pc as i64 + 1) * 16 + t;
                if byte < 0 || byte % 16 != 0 || byte / 16 > self.image.code.len() as i64 {
                    return gap("a branch target outside of the code");
                }
                Ok((byte / 16) as u32)
            }
            _ => gap("no target"),
        }
    }

    pub(in crate::machine) fn addr(&mut self, inst: &Seen<'_>, base: S, offset: S, wide: bool) -> Result<Addr> {
        let low = self.word(inst, base, 0)?;
        let high = if wide { Some(self.word(inst, base, 1)?) } else { None };
        Ok(Addr { low, high, uniform: None, wide: None, scale: 1, offset: Self::imm(inst, offset).unwrap_or(0) })
    }
}
