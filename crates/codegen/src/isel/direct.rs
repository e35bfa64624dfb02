//! Accesses of global memory where there are no descriptors (sm_75): the address alone is shown, and what makes an access
//! visible, and to whom, has a field each.

use super::memory::DESCRIPTOR;
use sass::codec::{self, EncodeError};
use sass::enums::{ldg_m77 as who, ldg_m79 as how, loadsem};
use sass::form::{FormId, ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::Reg;

/// A form of sm_90, the one without a descriptor, the slot of the descriptor.
const DIRECT: [(FormId, FormId, Option<S>); 11] = [
    (F::LDG, F::LDG_R, Some(S::UR)),
    (F::LD, F::LD_R, Some(S::UR)),
    (F::STG, F::STG_R, Some(S::URc)),
    (F::ST, F::ST_R, Some(S::URc)),
    (F::ATOMG, F::ATOMG_RAR, Some(S::URc)),
    (F::ATOMG_F, F::ATOMG_RAR, Some(S::URc)),
    (F::ATOM, F::ATOM_RAR, Some(S::URc)),
    (F::REDG, F::RED_AR, Some(S::URc)),
    (F::REDG_F, F::RED_AR, Some(S::URc)),
    (F::ATOMG_CAS, F::ATOMG_CAS, None),
    (F::ATOM_CAS, F::ATOM_CAS, None),
];

/// How an access is said to be visible (`Sem` of sm_90, whose numbers are those of loads): weak, constant, strong; and to whom. As
/// ptxas writes them for sm_75.
const VISIBLE: [(u8, u8, u8); 7] = [
    (loadsem::WEAK, how::NONE, who::SYS),
    (loadsem::CONSTANT, how::CONSTANT, who::SYS),
    (loadsem::STRONG_SM, how::STRONG, who::CTA),
    (loadsem::STRONG_GPU, how::STRONG, who::GPU),
    (loadsem::STRONG_SYS, how::STRONG, who::SYS),
    (loadsem::MMIO_GPU, how::MMIO, who::GPU),
    (loadsem::MMIO_SYS, how::MMIO, who::SYS),
];

/// An access of global memory as chip `sm` has it; none for other instructions, and where the chip has descriptors.
///
/// # Errors
/// For a size, type, operation or cache policy that the chip lacks.
pub fn access(s: &Sass, sm: u16) -> Option<Result<Sass, EncodeError>> {
    if arch::bank0(sm).is_none_or(|b| b.descriptor.is_some()) {
        return None;
    }
    let &(_, to, slot) = DIRECT.iter().find(|d| d.0 == s.form)?;
    if slot.is_some_and(|slot| s.get(slot).and_then(Operand::as_reg) != Some(DESCRIPTOR)) {
        return Some(Err(EncodeError { message: "a cache policy".into() }));
    }
    let sem = s.modifier(M::Sem);
    let Some(&(_, how, who)) = VISIBLE.iter().find(|v| v.0 == sem) else {
        return Some(Err(EncodeError { message: "this visibility".into() }));
    };
    let mut plain = s.clone().with_mod(M::Sem, loadsem::WEAK);
    if let Some(slot) = slot {
        plain = plain.with(slot, Reg::URZ);
    }
    let done = codec::as_form(&plain, to, sm);
    Some(done.map(|m| m.with_mod(M::E, 1).with_mod(M::Sem, how).with_mod(M::Scope, who)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sass::text;

    fn on_75(text: &str) -> Option<String> {
        let inst = text::parse(text).expect("an instruction");
        let done = access(&inst, 75)?;
        Some(done.map_or_else(|e| e.message, |s| text::print(&s, 0, &text::NoLabels)))
    }

    #[test]
    fn visibility_has_fields_of_its_own() {
        let pairs = [
            ("LDG.E R2, desc[UR4][R2.64+0x10]", "LDG.E.SYS R2, [R2+0x10]"),
            ("LDG.E.64.CONSTANT R2, desc[UR4][R2.64]", "LDG.E.64.CONSTANT.SYS R2, [R2]"),
            ("ST.E.STRONG.GPU desc[UR4][R2.64], R5", "ST.E.STRONG.GPU [R2], R5"),
            ("STG.E.STRONG.SM desc[UR4][R2.64], R5", "STG.E.STRONG.CTA [R2], R5"),
            ("REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5", "RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R2], R5"),
            ("ATOMG.E.MAX.S32.STRONG.SYS PT, R4, desc[UR4][R2.64], R5", "ATOMG.E.MAX.S32.STRONG.SYS PT, R4, [R2], R5"),
            ("ATOM.E.CAS.64.STRONG.GPU PT, R4, [R2], R6, R8", "ATOM.E.CAS.64.STRONG.GPU PT, R4, [R2], R6, R8"),
        ];
        for (given, wanted) in pairs {
            assert_eq!(on_75(given).as_deref(), Some(wanted));
        }
        assert_eq!(on_75("LDG.E R2, desc[UR6][R2.64]").as_deref(), Some("a cache policy"));
        assert_eq!(on_75("LDS R2, [R2]"), None);
        let load = text::parse("LDG.E R2, desc[UR4][R2.64]").expect("an instruction");
        assert!(access(&load, 80).is_none());
    }
}
