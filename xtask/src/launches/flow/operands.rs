//! What stands in instructions.

use super::Kind;
use ptx::module::{AddressBase, Inst, Operand, RegId, VarId};
use ptx::types::{ScalarType, SpecialReg};
use std::collections::BTreeSet;

/// Whether a tensor copy goes to shared memory: its destination stands first.
pub fn loads(inst: &Inst<'_>) -> bool {
    !matches!(inst.operands.first(), Some(Operand::TexMem(_)))
}

/// The registers of an operand.
pub fn registers(o: &Operand, out: &mut Vec<RegId>) {
    match o {
        Operand::Reg { reg, .. } | Operand::NotReg(reg) | Operand::NegReg(reg) | Operand::Part { reg, .. } => {
            out.push(*reg);
        }
        Operand::Pair(p) => [&p.0, &p.1].into_iter().for_each(|o| registers(o, out)),
        Operand::Vector(list) | Operand::List(list) | Operand::TexMem(list) => {
            list.iter().for_each(|o| registers(o, out));
        }
        _ => {}
    }
}

/// The variables of an operand.
pub fn variables(o: &Operand, out: &mut BTreeSet<VarId>) {
    match o {
        Operand::Var { var, .. } => {
            out.insert(*var);
        }
        Operand::Mem(a) => {
            if let AddressBase::Var(v) = a.base() {
                out.insert(v);
            }
        }
        Operand::Pair(p) => [&p.0, &p.1].into_iter().for_each(|o| variables(o, out)),
        Operand::Vector(list) | Operand::List(list) | Operand::TexMem(list) => {
            list.iter().for_each(|o| variables(o, out));
        }
        _ => {}
    }
}

pub fn listed(o: &Operand) -> Vec<RegId> {
    let mut out = Vec::new();
    registers(o, &mut out);
    out
}

/// What two runs of a program need not read alike.
pub fn timed(s: SpecialReg) -> bool {
    let name = format!("{s:?}");
    ["Clock", "Globaltimer", "Gridid", "Pm"].iter().any(|w| name.starts_with(w))
}

/// The kind of numbers that a type of an instruction means.
pub fn kind_of(ty: ScalarType) -> Kind {
    match ty {
        ScalarType::F16 | ScalarType::F16x2 => Kind::F16,
        ScalarType::BF16 | ScalarType::BF16x2 => Kind::BF16,
        ScalarType::F32 | ScalarType::F32x2 | ScalarType::TF32 => Kind::F32,
        ScalarType::F64 => Kind::F64,
        t if t.is_int() => Kind::Int,
        _ => Kind::Unknown,
    }
}
