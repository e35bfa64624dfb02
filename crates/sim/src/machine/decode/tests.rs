//! Which forms of sm_90 are modelled.

use super::*;
use sass::form::FormId;
use sass::tables::FORMS;

/// Forms that the simulator does not model yet. A form that is added to the tables fails this test until it is
/// modelled or named here.
const GAPS: [&str; 12] = [
    // Code of another section.
    "CALL_ABS",
    // Without .SAT (the forms' default), and packed conversions of two numbers.
    "I2IP_RRR",
    "I2IP_RIR",
    "I2IP_RRRR_4",
    "F2IP_RRR",
    "F2IP_RUR",
    // Barriers in shared memory.
    "ARRIVES_LDGSTSBAR",
    // Addresses, sources and modifiers that the compiler for sm_90 has not needed yet.
    "B2R_RI_2",
    "BMOV_BB",
    "FMNMX_RRR",
    "UIADD3_UUUU",
    "UIMAD_UUUU",
];

/// Mnemonics of which some forms, or all, are not modelled yet.
const FAMILIES: [&str; 5] = ["CLMAD", "LDL", "REDAS", "STAS", "STL"];

#[test]
fn every_form_is_modelled_or_known_not_to_be() {
    let image = Image::of_code(vec![0; 64], 90);
    let mut gaps = Vec::new();
    let mut families = std::collections::BTreeSet::new();
    for (i, form) in FORMS.iter().enumerate() {
        if !form.on(90) {
            continue;
        }
        let p = Program::empty();
        let mut d = Decoder { image: &image, p, consts: FxHashMap::default(), pc: 4 };
        if let Exec::Unsupported(_) = d.instruction(&Inst::new(FormId(i as u16))).exec {
            if FAMILIES.contains(&form.mnemonic) {
                families.insert(form.mnemonic);
            } else if !form.name.contains("_X") && !form.name.ends_with("_CX") {
                // `_X`: forms of `*.more.isa`, beyond what ptxas was seen to emit; `_CX`: constants through descriptors.
                gaps.push(form.name);
            }
        }
    }
    gaps.sort();
    let mut known = GAPS.to_vec();
    known.sort();
    assert_eq!(gaps, known);
    assert_eq!(families.into_iter().collect::<Vec<_>>(), FAMILIES, "a family that is modelled whole");
}
