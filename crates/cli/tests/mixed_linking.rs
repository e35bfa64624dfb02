//! Mixed linking: functions that two compilers made call each other.
//!
//! Random programs of two modules (`testkit::calls`) are compiled by ptxas and by us with `-c`; the vendor's linker links every
//! pairing, and all leave the memory that the PTX interpreter leaves for the same functions in one module. So does our executable
//! of that one module, at every level of optimization.

use sim::{Arg, Config, Launch};
use std::path::Path;
use std::process::Command;
use testkit::{Random, Scratch, calls};

const THREADS: usize = 48;

fn launch() -> Launch {
    let mut r = Random(7);
    let data = (0..THREADS * calls::IN_WORDS).flat_map(|_| (r.bits() as u32).to_le_bytes()).collect();
    Launch {
        kernel: "k".into(),
        grid: [1, 1, 1],
        block: [THREADS as u32, 1, 1],
        args: vec![
            Arg::Buffer { data, out: None },
            Arg::Buffer { data: vec![0; THREADS * calls::OUT_WORDS * 4], out: None },
        ],
        ..Launch::default()
    }
}

/// Our relocatable file of a module for a chip.
fn ours(text: &str, chip: &str) -> Result<Vec<u8>, String> {
    let (m, mut d) = ptx::parse(text);
    let kind = codegen::pipeline::Kind::Relocatable;
    let target = arch::Target::parse(chip).ok_or_else(|| format!("no chip {chip}"))?;
    let options = codegen::Options { verify: true, kind, threads: 1, target, ..codegen::Options::default() };
    d.extend(ptx::check(&m, Some(&options.target)));
    if !d.is_empty() {
        return Err(format!("{d:?}"));
    }
    codegen::compile(&m, &options).map(|o| o.cubin).map_err(|d| format!("our compiler: {d:?}"))
}

/// Links two files with the vendor's linker.
fn link(nvlink: &Path, chip: &str, dir: &Path, files: [&[u8]; 2]) -> Result<Vec<u8>, String> {
    for (name, bytes) in ["a.o", "b.o"].iter().zip(files) {
        std::fs::write(dir.join(name), bytes).map_err(|e| e.to_string())?;
    }
    let arch = format!("-arch={chip}");
    let args = [&arch, "-suppress-stack-size-warning", "a.o", "b.o", "-o", "x.cubin"];
    let out = Command::new(nvlink).args(args).current_dir(dir).output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("nvlink: {}", String::from_utf8_lossy(&out.stderr)));
    }
    std::fs::read(dir.join("x.cubin")).map_err(|e| e.to_string())
}

/// What is wrong with a program for a chip.
fn failure(tools: &Path, chip: &str, seed: u64, program: &calls::Program, launch: &Launch) -> Option<String> {
    let wrong = |what: String| Some(format!("program {seed} for {chip}: {what}"));
    if let Some(dir) = std::env::var_os("SASSAFRAS_KEEP") {
        for (name, text) in ["a", "b", "whole"].iter().zip([&program.modules[0], &program.modules[1], &program.whole]) {
            std::fs::write(Path::new(&dir).join(format!("{seed}.{name}.ptx")), text).expect("writable");
        }
    }
    let (m, mut d) = ptx::parse(&program.whole);
    d.extend(ptx::check(&m, None));
    if !d.is_empty() {
        return wrong(format!("{d:?}"));
    }
    let want = match sim::run_ptx(&m, launch, &Config::default()) {
        Ok(o) => o.buffers[1].clone(),
        Err(f) => return wrong(format!("interpreter: {f}")),
    };
    let dir = Scratch::new(&format!("linking-{chip}-{seed}-{}", program.whole.contains(".abi_preserve")));
    let mut made: Vec<[Vec<u8>; 2]> = Vec::new();
    for text in &program.modules {
        let text = text.replace(".target sm_90", &format!(".target {chip}"));
        let vendor = testkit::oracle::compile(&tools.join("bin/ptxas"), &text, &[&format!("-arch={chip}"), "-c"]);
        match (vendor, ours(&text, chip)) {
            (Ok(v), Ok(o)) => made.push([v, o]),
            (Err(e), _) => return wrong(format!("vendor: {e}")),
            (_, Err(e)) => return wrong(e),
        }
    }
    let mut found = Vec::new();
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let who = |n: usize| ["vendor", "ours"][n];
        let outcome = link(&tools.join("bin/nvlink"), chip, &dir, [&made[0][a], &made[1][b]])
            .and_then(|cubin| sim::run_sass(&cubin, launch, &Config::default()).map_err(|f| f.to_string()));
        match outcome {
            Ok(o) if o.buffers[1] == want => {}
            Ok(o) => {
                let at = o.buffers[1].iter().zip(&want).position(|(x, y)| x != y).unwrap_or(0);
                found.push(format!("{} calls {}: byte {at} differs", who(a), who(b)));
            }
            Err(e) => found.push(format!("{} calls {}: {e}", who(a), who(b))),
        }
    }
    if found.is_empty() { None } else { wrong(found.join("; ")) }
}

/// Programs of these seeds, or of those that `SASSAFRAS_SEEDS` names (`7` or `201..300`), for a chip, on all cores.
fn agree(chip: &str, seeds: std::ops::RangeInclusive<u64>) {
    let Some(tools) = testkit::oracle::latest() else { return };
    let launch = launch();
    testkit::seeds(seeds, |seed| failure(&tools, chip, seed, &calls::program(seed), &launch));
}

#[test]
fn modules_of_two_compilers_agree() {
    agree("sm_90", 1..=40);
}

/// Functions that say what they keep (`.abi_preserve`, `.abi_preserve_control`).
#[test]
fn functions_that_say_what_they_keep_agree() {
    let Some(tools) = testkit::oracle::latest() else { return };
    let launch = launch();
    for (chip, seeds) in [("sm_90", 1..=24), ("sm_80", 25..=30)] {
        testkit::seeds(seeds, |seed| failure(&tools, chip, seed, &calls::keeping(seed), &launch));
    }
}

/// Older chips have other relocations and no unified functions.
#[test]
fn modules_of_two_compilers_agree_on_older_chips() {
    agree("sm_75", 1..=12);
    agree("sm_80", 1..=12);
    agree("sm_89", 13..=20);
}

#[test]
fn modules_of_two_compilers_agree_on_newer_chips() {
    agree("sm_100", 1..=6);
    agree("sm_120", 7..=12);
}

/// What the interpreter leaves of a program.
fn expected(whole: &str, launch: &Launch) -> Vec<u8> {
    let (m, d) = ptx::parse(whole);
    assert!(d.is_empty(), "{d:?}");
    sim::run_ptx(&m, launch, &Config::default()).expect("it runs").buffers[1].clone()
}

/// Executables of whole modules, with calls and without those that are inlined.
#[test]
fn every_level_computes_the_same() {
    let launch = launch();
    for seed in 1..=6 {
        let whole = calls::program(seed).whole;
        let want = expected(&whole, &launch);
        let (m, _) = ptx::parse(&whole);
        for effort in 0..=codegen::opt::MOST_EFFORT {
            let options = codegen::Options { verify: true, effort, threads: 1, ..codegen::Options::default() };
            let made = codegen::compile(&m, &options).unwrap_or_else(|d| panic!("program {seed}, {effort}: {d:?}"));
            let got = sim::run_sass(&made.cubin, &launch, &Config::default());
            let got = got.unwrap_or_else(|f| panic!("program {seed}, {effort}: {f}"));
            assert!(got.buffers[1] == want, "program {seed} at {effort} computes something else");
        }
    }
}

/// The bytes are the same with any number of threads, of executables and of relocatable files.
#[test]
fn threads_change_nothing() {
    let (m, _) = ptx::parse(&calls::program(5).whole);
    for kind in [codegen::pipeline::Kind::Executable, codegen::pipeline::Kind::Relocatable] {
        let made = |threads| {
            let options = codegen::Options { kind, threads, ..codegen::Options::default() };
            codegen::compile(&m, &options).expect("it compiles").cubin
        };
        let one = made(1);
        for threads in [0, 2, 3, 16] {
            assert!(made(threads) == one, "{threads} threads give other bytes");
        }
    }
}

/// A compilation that nobody wants any more ends with an error.
#[test]
fn a_compilation_can_be_cancelled() {
    let (m, _) = ptx::parse(&calls::program(5).whole);
    for kind in [codegen::pipeline::Kind::Executable, codegen::pipeline::Kind::Relocatable] {
        let cancel = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let options = codegen::Options { kind, cancel: Some(cancel), ..codegen::Options::default() };
        let errors = codegen::compile(&m, &options).expect_err("it was cancelled");
        assert_eq!(errors[0].message, "the compilation was cancelled");
    }
}

/// nvcc with ours in the place of its own ptxas makes relocatable files that its linker links.
#[test]
fn nvcc_links_what_ours_compiles() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("nvcc-rdc");
    let bin = testkit::toolkit(&oracle, &dir, &[("ptxas", env!("CARGO_BIN_EXE_ptxas"))]);
    let program = calls::program(11);
    let mut files: Vec<Vec<u8>> = Vec::new();
    for (name, text) in ["m0", "m1"].iter().zip(&program.modules) {
        let (from, to) = (dir.join(format!("{name}.ptx")), dir.join(format!("{name}.cubin")));
        std::fs::write(&from, text).expect("writable");
        let mut nvcc = Command::new(bin.join("nvcc"));
        let done = nvcc.args(["-arch=sm_90", "-rdc=true", "-cubin"]).arg(&from).arg("-o").arg(&to).output();
        let done = done.expect("nvcc runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let bytes = std::fs::read(&to).expect("a file");
        assert!(bytes.windows(9).any(|w| w == b"Sassafras"), "another ptxas made it");
        files.push(bytes);
    }
    let linked = link(&oracle.join("bin/nvlink"), "sm_90", &dir, [&files[0], &files[1]]).expect("it links");
    let launch = launch();
    let got = sim::run_sass(&linked, &launch, &Config::default()).expect("it runs");
    assert!(got.buffers[1] == expected(&program.whole, &launch));
}
