//! Damaged programs end in an outcome or a fault, never in a panic: the corpus's PTX with words exchanged, and the
//! vendor's code of it with bits flipped. Seeded, so a failure can be repeated.

mod common;

use sim::Config;
use std::panic::{AssertUnwindSafe, catch_unwind};
use testkit::{Random, oracle};

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
            for _ in 0..1 + random.index(3) {
                let (i, j) = (random.index(words.len()), random.index(words.len()));
                match random.index(3) {
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
    let Some(ptxas) = oracle::ptxas() else { return };
    let mut random = Random(2);
    let mut bad = Vec::new();
    for c in kernels() {
        let text = std::fs::read_to_string(&c.ptx).unwrap();
        let arch = format!("-arch={}", oracle::arch(&text));
        let cubin = oracle::compile(&ptxas, &text, &[&arch]).unwrap_or_else(|e| panic!("{e}"));
        for n in 0..times() {
            let mut bytes = cubin.clone();
            for _ in 0..1 + random.index(8) {
                let at = random.index(bytes.len());
                bytes[at] ^= 1 << random.index(8);
            }
            let config = Config { check_hazards: n % 2 == 0, ..config() };
            let run = || drop(sim::run_sass(&bytes, &c.launch, &config));
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                bad.push(format!("{} mutation {n}", c.name));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
