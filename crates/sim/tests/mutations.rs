//! Damaged programs end in an outcome or a fault, never in a panic: the corpus's PTX with words exchanged, and the
//! vendor's code of it with bits flipped. Seeded, so a failure can be repeated.

mod common;

use sim::Config;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % below.max(1) as u64) as usize
    }
}

fn times() -> usize {
    std::env::var("SIM_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

fn config() -> Config {
    Config { max_instructions: 20_000, ..Config::default() }
}

/// Every launch of another kernel once.
fn kernels() -> Vec<common::Case> {
    let mut cases = common::cases();
    cases.dedup_by(|a, b| a.ptx == b.ptx);
    cases
}

#[test]
fn damaged_ptx() {
    let mut random = Random(1);
    let mut bad = Vec::new();
    for c in kernels() {
        let text = std::fs::read_to_string(&c.ptx).unwrap();
        let words: Vec<&str> = text.split_inclusive([' ', ',', ';', '.', '\t', '\n']).collect();
        for n in 0..times() {
            let mut words = words.clone();
            for _ in 0..1 + random.next(3) {
                let (i, j) = (random.next(words.len()), random.next(words.len()));
                match random.next(3) {
                    0 => words.swap(i, j),
                    1 => words[i] = words[j],
                    _ => words[i] = "",
                }
            }
            let text = words.concat();
            let run = || {
                let (module, messages) = ptx::parse(&text);
                if !messages.iter().any(|m| m.is_error()) {
                    let _ = sim::run_ptx(&module, &c.launch, &config());
                }
            };
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                bad.push(format!("{} mutation {n}", c.name));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn damaged_code() {
    let dir = std::env::var_os("SASSAFRAS_ORACLE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/oracle"), PathBuf::from);
    let ptxas = dir.join("bin/ptxas");
    if !ptxas.exists() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "the oracle is missing: {}", ptxas.display());
        return;
    }
    let out = std::env::temp_dir().join(format!("sassafras-mutations-{}.cubin", std::process::id()));
    let mut random = Random(2);
    let mut bad = Vec::new();
    for c in kernels() {
        let text = std::fs::read_to_string(&c.ptx).unwrap();
        let arch = if text.contains(".target sm_90a") { "-arch=sm_90a" } else { "-arch=sm_90" };
        let run = std::process::Command::new(&ptxas).args([arch, "-o"]).arg(&out).arg(&c.ptx).output().unwrap();
        assert!(run.status.success());
        let cubin = std::fs::read(&out).unwrap();
        for n in 0..times() {
            let mut bytes = cubin.clone();
            for _ in 0..1 + random.next(8) {
                let at = random.next(bytes.len());
                bytes[at] ^= 1 << random.next(8);
            }
            let config = Config { check_hazards: n % 2 == 0, ..config() };
            let run = || drop(sim::run_sass(&bytes, &c.launch, &config));
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                bad.push(format!("{} mutation {n}", c.name));
            }
        }
    }
    let _ = std::fs::remove_file(out);
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
