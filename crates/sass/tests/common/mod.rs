//! What the tests share: the vendor's tools, code of the corpus, random instructions.
#![allow(dead_code)]

use sass::codec::{decode, encode};
use sass::form::FormId;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::Random;

/// A `.text` section of a compiled kernel.
pub struct Text {
    /// Kernel file, release, optimization level, section.
    pub name: String,
    pub words: Vec<u128>,
    /// Branch targets of the tables in constant bank 2, for every BRX.
    pub table: Vec<u64>,
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
                texts.extend(sections(&std::fs::read(&out).expect("readable"), &name));
            }
        }
    }
    assert!(texts.len() >= 60, "only {} functions", texts.len());
    texts
}

fn sections(elf: &[u8], file: &str) -> Vec<Text> {
    let u16_at = |at: usize| u16::from_le_bytes(elf[at..at + 2].try_into().expect("two bytes")) as usize;
    let u32_at = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().expect("four bytes")) as usize;
    let u64_at = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().expect("eight bytes")) as usize;
    let (table, count, names) = (u64_at(0x28), u16_at(0x3c), u16_at(0x3e));
    let header = |n: usize| table + 64 * n;
    let data = |n: usize| &elf[u64_at(header(n) + 24)..][..u64_at(header(n) + 32)];
    let name = |n: usize| {
        let from = u64_at(header(names) + 24) + u32_at(header(n));
        elf[from..].split(|b| *b == 0).next().map(|s| String::from_utf8_lossy(s).to_string()).unwrap_or_default()
    };
    let mut texts = Vec::new();
    for n in 0..count {
        let Some(function) = name(n).strip_prefix(".text.").map(String::from) else { continue };
        let words = data(n).chunks_exact(16).map(|c| u128::from_le_bytes(c.try_into().expect("a word"))).collect();
        let table = (0..count)
            .filter(|&m| name(m) == format!(".nv.constant2.{function}"))
            .flat_map(|m| data(m).chunks_exact(4))
            .map(|c| u32::from_le_bytes(c.try_into().expect("four bytes")) as u64)
            .collect();
        texts.push(Text { name: format!("{file} {function}"), words, table });
    }
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
        for _ in 0..count * 1000 {
            let control = 0x1f_ffffu128 << 105;
            let mut word = random.word() & !(form.need | form.free) & !control | form.fixed | 0x7f2u128 << 105;
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
