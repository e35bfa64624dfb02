//! What the tests share: the vendor's tools, code of the corpus, random instructions.
#![allow(dead_code)]

use sass::codec::{decode, encode};
use sass::form::FormId;
use sass::lint::CfgHints;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::Random;

pub use testkit::isa::Text;

/// Where the words alone do not say that control goes: jump tables, and functions that are called through pointers (what
/// stands behind a return).
pub fn hints(text: &Text, sm: u16) -> CfgHints {
    let inside = |t: &&u64| (**t).is_multiple_of(16) && **t < text.words.len() as u64 * 16;
    let mnemonic = |n: usize| decode(text.words[n], sm).known().map_or("", |i| i.form().mnemonic);
    let branches = (0..text.words.len()).filter(|&n| matches!(mnemonic(n), "BRX" | "BRXU"));
    CfgHints {
        entries: (1..text.words.len())
            .filter(|&n| matches!(mnemonic(n - 1), "RET" | "EXIT"))
            .map(|n| n as u64 * 16)
            .collect(),
        indirect: branches.map(|n| (n as u64 * 16, text.table.iter().filter(inside).copied().collect())).collect(),
        elsewhere: Vec::new(),
    }
}

/// Compiles `source` for its target; false if the release cannot (it may be too old for the PTX version).
pub fn compile(oracle: &Path, source: &Path, options: &[&str], out: &Path) -> bool {
    let ptx = std::fs::read_to_string(source).expect("readable");
    let gpu = if ptx.contains(".target sm_90a") { "sm_90a" } else { "sm_90" };
    let mut command = Command::new(oracle.join("bin/ptxas"));
    command.args(options).arg(format!("-arch={gpu}")).arg(source).arg("-o").arg(out);
    command.output().expect("ptxas runs").status.success()
}

/// Compiles the corpus with every release and level, and gives all code.
pub fn corpus(oracles: &[PathBuf], dir: &Path, levels: &[u8]) -> Vec<Text> {
    let mut texts = Vec::new();
    for source in &testkit::corpus() {
        for (n, oracle) in oracles.iter().enumerate() {
            for level in levels {
                let out = dir.join("a.cubin");
                if !compile(oracle, source, &[&format!("-O{level}")], &out) {
                    continue;
                }
                let name =
                    format!("{} release {n} -O{level}", source.file_name().unwrap_or_default().to_string_lossy());
                texts.extend(testkit::isa::texts(&std::fs::read(&out).expect("readable"), &name));
            }
        }
    }
    assert!(texts.len() >= 60, "only {} functions", texts.len());
    texts
}

/// `count` random words of each form of sm_90, with quiet control fields.
pub fn random_words(count: usize, seed: u64) -> Vec<(FormId, u128)> {
    let mut random = Random(seed);
    let mut words = Vec::new();
    for (n, form) in sass::tables::FORMS.iter().enumerate() {
        let id = FormId(n as u16);
        if !form.on(90) {
            continue;
        }
        let mut done = 0;
        for tries in 0..count * 1000 {
            let control = 0x1f_ffffu128 << 105;
            // Bits that mean nothing in this form can be what tells it from one that is asked before it: then they are needed.
            let plain = if tries < count * 500 || done > 0 { form.free } else { 0 };
            let mut word = random.word() & !(form.need | plain) & !control | form.fixed & (form.need | plain);
            word |= 0x7f2u128 << 105;
            if random.bits() & 1 == 0 {
                word = word & !(0xf << 12) | 7 << 12;
            }
            // Zero registers and zero immediates more often than chance brings them.
            for slot in form.slots {
                let bits = slot.bits.iter().fold(0u128, |m, &(from, n)| m | ((1u128 << n) - 1) << from);
                match random.bits() & 7 {
                    0 => word |= bits,
                    1 => word &= !bits,
                    _ => {}
                }
            }
            let decoded = decode(word, 90);
            let Some(inst) = decoded.known().filter(|i| i.form == id) else { continue };
            assert_eq!(encode(inst, 90), Ok(word), "{}", form.name);
            words.push((id, word));
            done += 1;
            if done == count {
                break;
            }
        }
        assert!(done > 0, "no legal word of {} was found", form.name);
    }
    words
}
