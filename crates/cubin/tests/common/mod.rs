//! What the tests share: the vendor's tools and their cubins of the corpus.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders with `bin/ptxas`: those that `SASSAFRAS_ORACLE` names, else those in `target/oracle` (`cargo xtask oracle`),
/// newest first. None where there is none, which under `CI=true` fails.
pub fn oracles() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/oracle");
    let folders = match std::env::var_os("SASSAFRAS_ORACLE") {
        Some(dir) => std::env::split_paths(&dir).collect(),
        None => vec![root.join("latest"), root.join("13.0"), root],
    };
    let found: Vec<PathBuf> = folders.into_iter().filter(|f| f.join("bin/ptxas").is_file()).collect();
    if found.is_empty() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no oracle: run `cargo xtask oracle`");
        eprintln!("no oracle: not compared");
    }
    found
}

/// The PTX files of the corpus, and those beside the tests.
pub fn corpus() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut out = Vec::new();
    for folder in ["../../tests/kernels/cuda", "../../tests/kernels/triton", "tests/ptx"] {
        let entries = std::fs::read_dir(here.join(folder)).expect("the folder is there");
        out.extend(entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "ptx")));
    }
    out.sort();
    out
}

/// A folder for one test, empty.
pub fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("sassafras-cubin-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the temporary folder is writable");
    dir
}

/// The vendor's cubin of a PTX file; none where the tool refuses it (it is for another target).
pub fn compile(oracle: &Path, dir: &Path, ptx: &Path, arch: &str, options: &[&str]) -> Option<Vec<u8>> {
    let out = dir.join("out.cubin");
    let _ = std::fs::remove_file(&out);
    let done = Command::new(oracle.join("bin/ptxas"))
        .arg(format!("-arch={arch}"))
        .args(options)
        .arg(ptx)
        .arg("-o")
        .arg(&out)
        .output()
        .expect("ptxas runs");
    if done.status.success() { std::fs::read(&out).ok() } else { None }
}
