//! What the SASS machine does not model of what ptxas emits: a list that is checked against the vendor's code of `tests/isa` for
//! each chip that the simulator runs. `SIM_EVERY=1` takes all of it.

use std::collections::BTreeMap;
use testkit::{isa, oracle};

/// Textures and surfaces; a call of code in another section.
const MISSING: [&str; 9] = ["CALL", "SULD", "SURED", "SUST", "TEX", "TLD", "TLD4", "TXD", "TXQ"];

/// What sm_100 and later add, by how the names begin: tensor memory, pairs of singles, 32 bytes at once, smaller floats.
const LATER: [&str; 12] =
    ["F2FP", "FADD2", "FFMA2", "FMUL2", "LDG", "LDSM", "LDTM", "R2UR", "STG", "STTM", "UBLKCP", "UTC"];

#[test]
fn what_ptxas_emits_is_modelled() {
    let Some(oracle) = oracle::latest() else { return };
    let every = std::env::var("SIM_EVERY").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let mut gaps: BTreeMap<String, String> = BTreeMap::new();
    let mut words = 0;
    for target in ["75", "80", "86", "89", "90", "90a", "100a", "103a", "120a"] {
        let sm = isa::number(target);
        // The last ones differ little from each other.
        let every = if sm >= 100 { 2 * every } else { every };
        isa::snippets(&oracle, target, &[3], every, &mut |name, cubin| {
            let code = isa::code(cubin);
            words += code.len();
            for (_, text, why) in sim::unmodelled(&code, sm) {
                let mnemonic = isa::mnemonic(&text).to_string();
                // Several sections in a row: what one refers to lies elsewhere.
                if why.contains("outside of the bank") || why.contains("target outside") {
                    continue;
                }
                let missing = MISSING.contains(&mnemonic.as_str());
                let later = sm >= 100 && LATER.iter().any(|m| mnemonic.starts_with(m));
                if !missing && !later {
                    gaps.entry(format!("sm_{target} {mnemonic}")).or_insert(format!("{text}: {why} ({name})"));
                }
            }
        });
    }
    let list: Vec<String> = gaps.iter().map(|(k, v)| format!("{k}: {v}")).collect();
    assert!(list.is_empty(), "{}", list.join("\n"));
    assert!(words > 5_000, "only {words} words");
}
