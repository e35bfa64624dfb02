//! Which vector instruction has which uniform form, and which takes a uniform register among others.

use sass::enums;
use sass::form::{FormId, ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::Reg;

/// The uniform form of each vector form.
const UNIFORM: &[(FormId, FormId)] = &[
    (F::IADD3_RRR, F::UIADD3_UUU),
    (F::IADD3_RUR, F::UIADD3_UUU),
    (F::IADD3_RIR, F::UIADD3_UIU),
    (F::IADD3X_RRR, F::UIADD3X_UUU),
    (F::IADD3X_RUR, F::UIADD3X_UUU),
    (F::IADD3X_RIR, F::UIADD3X_UIU),
    (F::IMAD_RRR, F::UIMAD_UUU),
    (F::IMAD_RUR, F::UIMAD_UUU),
    (F::IMAD_RRU, F::UIMAD_UUU),
    (F::IMAD_RIR, F::UIMAD_UIU),
    (F::IMAD_RRI, F::UIMAD_UUI),
    (F::IMAD_WIDE_RRR, F::UIMAD_WIDE_UUU),
    (F::IMAD_WIDE_RUR, F::UIMAD_WIDE_UUU),
    (F::IMAD_WIDE_RIR, F::UIMAD_WIDE_UIU),
    (F::LEA_RR, F::ULEA_UU),
    (F::LEA_RU, F::ULEA_UU),
    (F::LEA_RI, F::ULEA_UI),
    (F::LEA_HI_RRR, F::ULEA_HI_UUU),
    (F::LEA_HI_RUR, F::ULEA_HI_UUU),
    (F::LEA_HI_RIR, F::ULEA_HI_UIU),
    (F::LEA_HIX_RRR, F::ULEA_HIX_UUU),
    (F::LEA_HIX_RUR, F::ULEA_HIX_UUU),
    (F::LEA_HIX_RIR, F::ULEA_HIX_UIU),
    (F::LEA_HIX_SX32_RR, F::ULEA_HIX_SX32_UU),
    (F::LEA_HIX_SX32_RU, F::ULEA_HIX_SX32_UU),
    (F::LEA_HIX_SX32_RI, F::ULEA_HIX_SX32_UI),
    (F::LOP3_RRR, F::ULOP3_UUU),
    (F::LOP3_RUR, F::ULOP3_UUU),
    (F::LOP3_RIR, F::ULOP3_UIU),
    (F::PRMT_RRR, F::UPRMT_UUU),
    (F::PRMT_RUR, F::UPRMT_UUU),
    (F::PRMT_RIR, F::UPRMT_UIU),
    (F::SHF_RRR, F::USHF_UUU),
    (F::SHF_RUR, F::USHF_UUU),
    (F::SHF_RRU, F::USHF_UUU),
    (F::SHF_RRI, F::USHF_UUI),
    (F::SHF_RIR, F::USHF_UIU),
    (F::SGXT_RR, F::USGXT_UU),
    (F::SGXT_RU, F::USGXT_UU),
    (F::SGXT_RI, F::USGXT_UI),
    (F::SEL_RR, F::USEL_UU),
    (F::SEL_RU, F::USEL_UU),
    (F::SEL_RI, F::USEL_UI),
    (F::ISETP_RR, F::UISETP_UU),
    (F::ISETP_RU, F::UISETP_UU),
    (F::ISETP_RI, F::UISETP_UI),
    (F::MOV_R, F::UMOV_U),
    (F::MOV_U, F::UMOV_U),
    (F::MOV_I, F::UMOV_I),
    (F::LDC, F::ULDC),
    (F::S2R, F::S2UR),
];

/// How sources may change places.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Swap {
    /// As they stand.
    No,
    /// A and B.
    Ab,
    /// A and B; the comparison turns around.
    Compare,
    /// B and C.
    Bc,
    /// A and B of a truth table.
    LutAb,
    /// B and C of a truth table.
    LutBc,
    /// A and B, with their types.
    Types,
}

/// Vector forms with a uniform operand: from which form, which sources change places first.
const MIXED: &[(FormId, FormId, Swap)] = &[
    (F::IADD3_RRR, F::IADD3_RUR, Swap::No),
    (F::IADD3_RRR, F::IADD3_RUR, Swap::Ab),
    (F::IADD3_RRR, F::IADD3_RUR, Swap::Bc),
    (F::IADD3X_RRR, F::IADD3X_RUR, Swap::No),
    (F::IADD3X_RRR, F::IADD3X_RUR, Swap::Ab),
    (F::IADD3X_RRR, F::IADD3X_RUR, Swap::Bc),
    (F::IMAD_RRR, F::IMAD_RUR, Swap::No),
    (F::IMAD_RRR, F::IMAD_RUR, Swap::Ab),
    (F::IMAD_RRR, F::IMAD_RRU, Swap::No),
    (F::IMAD_WIDE_RRR, F::IMAD_WIDE_RUR, Swap::No),
    (F::IMAD_WIDE_RRR, F::IMAD_WIDE_RUR, Swap::Ab),
    (F::IMAD_WIDE_RRR, F::IMAD_WIDE_RRU, Swap::No),
    (F::IMAD_HI_RRR, F::IMAD_HI_RUR, Swap::No),
    (F::IMAD_HI_RRR, F::IMAD_HI_RUR, Swap::Ab),
    (F::IMAD_HI_RRR, F::IMAD_HI_RRU, Swap::No),
    (F::IDP_4A_RRR, F::IDP_4A_RUR, Swap::No),
    (F::IDP_4A_RRR, F::IDP_4A_RUR, Swap::Types),
    (F::IDP_2A_RRR, F::IDP_2A_RUR, Swap::No),
    (F::LEA_RR, F::LEA_RU, Swap::No),
    (F::LEA_HI_RRR, F::LEA_HI_RUR, Swap::No),
    (F::LEA_HIX_RRR, F::LEA_HIX_RUR, Swap::No),
    (F::LEA_HIX_SX32_RR, F::LEA_HIX_SX32_RU, Swap::No),
    (F::LOP3_RRR, F::LOP3_RUR, Swap::No),
    (F::LOP3_RRR, F::LOP3_RUR, Swap::LutAb),
    (F::LOP3_RRR, F::LOP3_RUR, Swap::LutBc),
    (F::PRMT_RRR, F::PRMT_RUR, Swap::No),
    (F::PRMT_RRR, F::PRMT_RRU, Swap::No),
    (F::SHF_RRR, F::SHF_RUR, Swap::No),
    (F::SHF_RRR, F::SHF_RRU, Swap::No),
    (F::SEL_RR, F::SEL_RU, Swap::No),
    (F::ISETP_RR, F::ISETP_RU, Swap::No),
    (F::ISETP_RR, F::ISETP_RU, Swap::Compare),
    (F::ISETPX_RR, F::ISETPX_RU, Swap::No),
    (F::ISETPX_RR, F::ISETPX_RU, Swap::Compare),
    (F::VIMNMX_RR, F::VIMNMX_RU, Swap::No),
    (F::VIMNMX_RR, F::VIMNMX_RU, Swap::Ab),
    (F::FADD_RR, F::FADD_RU, Swap::No),
    (F::FADD_RR, F::FADD_RU, Swap::Ab),
    (F::FMUL_RR, F::FMUL_RU, Swap::No),
    (F::FMUL_RR, F::FMUL_RU, Swap::Ab),
    (F::FFMA_RRR, F::FFMA_RUR, Swap::No),
    (F::FFMA_RRR, F::FFMA_RUR, Swap::Ab),
    (F::FFMA_RRR, F::FFMA_RRU, Swap::No),
    (F::FMNMX_RR, F::FMNMX_RU, Swap::No),
    (F::FMNMX_RR, F::FMNMX_RU, Swap::Ab),
    (F::FSETP_RR, F::FSETP_RU, Swap::No),
    (F::FSEL_RR, F::FSEL_RU, Swap::No),
    (F::DADD_RR, F::DADD_RU, Swap::No),
    (F::DADD_RR, F::DADD_RU, Swap::Ab),
    (F::DMUL_RR, F::DMUL_RU, Swap::No),
    (F::DMUL_RR, F::DMUL_RU, Swap::Ab),
    (F::DFMA_RRR, F::DFMA_RUR, Swap::No),
    (F::DFMA_RRR, F::DFMA_RUR, Swap::Ab),
    (F::DFMA_RRR, F::DFMA_RRU, Swap::No),
    (F::HMUL2_RR, F::HMUL2_RU, Swap::No),
    (F::HADD2_RR, F::HADD2_RU, Swap::No),
    (F::HFMA2_RRR, F::HFMA2_RUR, Swap::No),
    (F::HFMA2_RRR, F::HFMA2_RRU, Swap::No),
    (F::MOV_R, F::MOV_U, Swap::No),
];

/// Accesses of shared memory, their forms with a uniform register in the address, and its slot.
pub(super) const SHARED: &[(FormId, FormId, S)] = &[
    (F::LDS, F::LDS_U, S::UR),
    (F::STS, F::STS_U, S::URc),
    (F::ATOMS, F::ATOMS_U, S::URc),
    (F::ATOMS_POPC_INC, F::ATOMS_POPC_INC, S::URc),
    (F::LDSM, F::LDSM_U, S::UR),
    (F::STSM, F::STSM_U, S::URc),
    (F::SYNCS_PHASECHK, F::SYNCS_PHASECHK, S::URc),
    (F::SYNCS_ARRIVE, F::SYNCS_ARRIVE, S::URc),
];

/// One more than the highest form in the tables.
const FORMS: usize = {
    let (mut most, mut i) = (0, 0);
    while i < UNIFORM.len() + MIXED.len() {
        let form = if i < UNIFORM.len() { UNIFORM[i].0 } else { MIXED[i - UNIFORM.len()].0 };
        most = if form.0 > most { form.0 } else { most };
        i += 1;
    }
    most as usize + 1
};

/// By form: one more than its place in `UNIFORM`, where it begins in `MIXED`, and where it ends there.
static PLACES: [(u8, u8, u8); FORMS] = {
    let mut places = [(0, 0, 0); FORMS];
    let mut i = 0;
    while i < UNIFORM.len() {
        places[UNIFORM[i].0.0 as usize].0 = i as u8 + 1;
        i += 1;
    }
    i = 0;
    while i < MIXED.len() {
        let place = &mut places[MIXED[i].0.0 as usize];
        // Those of one form stand together.
        assert!(place.2 == 0 || place.2 as usize == i);
        place.1 = if place.2 == 0 { i as u8 } else { place.1 };
        place.2 = i as u8 + 1;
        i += 1;
    }
    places
};

/// What there is in [`MIXED`] for a form.
pub(super) fn mixed(form: FormId) -> &'static [(FormId, FormId, Swap)] {
    PLACES.get(form.0 as usize).map_or(&[], |p| &MIXED[p.1 as usize..p.2 as usize])
}

/// The uniform form of an instruction.
pub(super) fn uniform_form(s: &Sass) -> Option<FormId> {
    let to = UNIFORM[PLACES.get(s.form.0 as usize)?.0.checked_sub(1)? as usize].1;
    // What a linker fills in stays where it is.
    let known = |o: &Operand| match o.value {
        Value::Imm(bits) => bits.get() == bits.get() as i32 as i64 || bits.get() == bits.get() as u32 as i64,
        Value::Const { offset, .. } => (0..1 << 16).contains(&offset),
        _ => true,
    };
    if !s.operands.iter().all(known) {
        return None;
    }
    let zero = |name| s.get(name).and_then(Operand::as_reg).is_none_or(|r| r.is_const());
    let fits = match s.form {
        F::S2R => {
            use enums::sr;
            let which = s.get(S::Sr).map(|o| o.value);
            [sr::CTAID_X, sr::CTAID_Y, sr::CTAID_Z, sr::CGACTAID].iter().any(|&r| which == Some(Value::imm(r as i64)))
        }
        F::LDC => {
            let bank = matches!(s.get(S::Const).map(|o| o.value), Some(Value::Const { bank: 0 | 3 | 4, .. }));
            let size = s.modifier(M::Size);
            if !bank || s.modifier(M::Mode) != 0 || ![enums::constsize::B32, enums::constsize::B64].contains(&size) {
                return None;
            }
            if !zero(S::Ra) {
                return (s.guard == Operand::reg(Reg::PT)).then_some(F::ULDC_R);
            }
            true
        }
        F::MOV_R => s.get(S::Rb).is_some_and(|o| !o.neg && !o.inv),
        F::IMAD_WIDE_RRR | F::IMAD_WIDE_RUR | F::IMAD_WIDE_RIR => zero(S::Pu),
        F::LOP3_RRR | F::LOP3_RUR | F::LOP3_RIR => zero(S::Pu),
        _ => true,
    };
    (fits && s.guard == Operand::reg(Reg::PT)).then_some(to)
}

/// Exchanges two sources of an instruction, so that it does the same; `None` where that cannot be.
pub(super) fn exchange(s: &mut Sass, swap: Swap) -> Option<()> {
    let (x, y) = if matches!(swap, Swap::Bc | Swap::LutBc) { (S::Rb, S::Rc) } else { (S::Ra, S::Rb) };
    let (x, y) = (s.slot(x)?, s.slot(y)?);
    s.operands.swap(x, y);
    let lut = |table: u8, row: fn(u8) -> u8| (0..8).fold(0u8, |t, n| t | (table >> row(n) & 1) << n);
    match swap {
        Swap::Compare => {
            // False, less, equal, less or equal, greater, not equal, greater or equal, true.
            let turned = [0, 4, 2, 6, 1, 5, 3, 7];
            let at = s.form().mods.iter().position(|m| m.name == M::Cmp)?;
            s.mods[at] = *turned.get(s.mods[at] as usize)?;
        }
        Swap::Types => {
            let (a, b) = (s.modifier(M::TypeA), s.modifier(M::TypeB));
            *s = s.clone().with_mod(M::TypeA, b).with_mod(M::TypeB, a);
        }
        Swap::LutAb | Swap::LutBc => {
            let at = s.slot(S::Lut)?;
            let Value::Imm(table) = s.operands[at].value else { return None };
            let table = table.get();
            // Rows are numbered by the inputs, A the upper bit.
            let row: fn(u8) -> u8 = if swap == Swap::LutAb {
                |n| (n & 1) | (n & 2) << 1 | (n & 4) >> 1
            } else {
                |n| (n & 4) | (n & 1) << 1 | (n & 2) >> 1
            };
            s.operands[at].value = Value::imm(lut(table as u8, row) as i64);
        }
        _ => {}
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sass::reg::File;

    /// Bytes with a sign stay bytes with a sign when the words that hold them change places.
    #[test]
    fn types_change_places_with_their_sources() {
        let r = |n: u32| Reg::virt(File::Gpr, n);
        let mut s = Sass::new(F::IDP_4A_RRR).with(S::Rd, r(9)).with(S::Ra, r(1)).with(S::Rb, r(2)).with(S::Rc, r(3));
        s = s.with_mod(M::TypeA, 1).with_mod(M::TypeB, 0);
        exchange(&mut s, Swap::Types).unwrap();
        assert_eq!([S::Ra, S::Rb, S::Rc].map(|x| s.get(x).and_then(Operand::as_reg)), [r(2), r(1), r(3)].map(Some));
        assert_eq!((s.modifier(M::TypeA), s.modifier(M::TypeB)), (0, 1));
    }
}
