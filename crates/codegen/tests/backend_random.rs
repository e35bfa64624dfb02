//! Random functions through the back end: the symbolic checker proves the allocation, the hazard checker the control
//! fields.

mod common;

use codegen::backend::{BackendInput, BackendOptions, compile};
use codegen::mir::{Func, text, verify};
use codegen::opt::LEAST_EFFORT;
use common::{Shape, function};

fn try_one(functions: Vec<Func>, table: Vec<u32>) -> Result<codegen::emit::Code, String> {
    let sm_90 = arch::Target::parse("sm_90").expect("a target");
    for f in &functions {
        verify::ssa(f).map_err(|m| format!("the generator is wrong: {m}"))?;
        let printed = text::print(f);
        let again = text::parse(&printed).map_err(|m| format!("the text form does not parse: {m}"))?;
        if text::print(&again[0]) != printed {
            return Err("the text form does not come back".into());
        }
    }
    let input = BackendInput { functions, table, registers: None };
    let how = BackendOptions { verify: true, ..BackendOptions::default() };
    let least = BackendOptions { effort: LEAST_EFFORT, ..how.clone() };
    compile(&input, sm_90, &least).map_err(|e| format!("with the least effort: {}", e[0].message))?;
    compile(&input, sm_90, &how).map_err(|e| e[0].message.clone())
}

/// One function per line of work for `cargo test --release -- --ignored --nocapture growth`: prints sizes and seconds.
#[test]
#[ignore]
fn growth() {
    let sm_90 = arch::Target::parse("sm_90").expect("a target");
    for live in [40, 300] {
        for instructions in [1000, 4000, 16000, 64000] {
            for branches in [false, true] {
                let shape = Shape { entry: true, instructions, live, branches, calls: 0, limit: 253 };
                let f = function(7, shape);
                let n: usize = f.blocks.iter().map(|b| b.insts.len()).sum();
                let start = std::time::Instant::now();
                let input = BackendInput { functions: vec![f], table: Vec::new(), registers: None };
                let code = compile(&input, sm_90, &BackendOptions::default()).expect("code");
                let t = start.elapsed().as_secs_f64();
                let (w, r, s) = (code.words.len(), code.gprs_used, code.spill_bytes);
                println!(
                    "{n:6} instructions, {live:3} live, branches {branches:5}: {t:.3} s, {w} words, {r} registers, spills {s:?}"
                );
            }
        }
    }
}

fn many(seeds: std::ops::Range<u64>, shape: impl Fn(u64) -> Shape) {
    let only = std::env::var("SEED").ok().and_then(|s| s.parse::<u64>().ok());
    let mut failed = Vec::new();
    let mut spilled = 0;
    for seed in seeds {
        if only.is_some_and(|o| o != seed) {
            continue;
        }
        let shape = shape(seed);
        let mut functions = vec![function(seed, shape)];
        for n in 0..shape.calls {
            let calls = if n + 1 < shape.calls { 0 } else { shape.calls };
            let callee = Shape { entry: false, instructions: 30, live: 6, calls, ..shape };
            functions.push(function(seed ^ (n as u64 + 1) << 32, callee));
        }
        let table = (1..=shape.calls).collect();
        match try_one(functions, table) {
            Ok(code) => {
                assert!(code.gprs_used <= shape.limit, "seed {seed} uses {} registers", code.gprs_used);
                spilled += (code.spill_bytes.0 > 0) as u32;
            }
            Err(e) => failed.push(format!("seed {seed}: {e}")),
        }
    }
    failed.sort_by_key(|f| f.len());
    assert!(failed.is_empty(), "{} fail\n{}", failed.len(), failed[..failed.len().min(12)].join("\n"));
    println!("{spilled} spilled");
}

#[test]
fn straight_lines() {
    many(1..150, |s| Shape {
        entry: true,
        instructions: 20 + s as usize * 3,
        live: 4 + s as usize % 60,
        branches: false,
        calls: 0,
        limit: [24, 32, 253][s as usize % 3],
    });
}

#[test]
fn branches_and_loops() {
    many(1..400, |s| Shape {
        entry: true,
        instructions: 20 + s as usize,
        live: 3 + s as usize % 40,
        branches: true,
        calls: 0,
        limit: [24, 32, 253, 18][s as usize % 4],
    });
}

#[test]
fn calls() {
    many(1..200, |s| Shape {
        entry: true,
        instructions: 20 + s as usize,
        live: 3 + s as usize % 30,
        branches: s % 2 == 0,
        calls: 3,
        limit: [24, 40, 253][s as usize % 3],
    });
}
