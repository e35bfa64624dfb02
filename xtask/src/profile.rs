//! The profile by which release builds are optimized: how often what ran when `tests/kernels` were compiled.
//!
//! The compiler is built with counters in every function, compiles each kernel for its chip at both ends of its effort, and what all runs
//! counted becomes one file, which `profile/rustc.sh` gives to rustc. Small kernels are most of them, so that code that each
//! run needs once counts as code that runs. The linker and the disassembler run, too: what they share with the compiler would else
//! count as code that nobody needs.
//!
//! And the order in which functions lie in a program ([`order`]).

mod order;

use crate::{root, test};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes the profile again, or (`order`) the order of functions.
pub fn run(args: &[String]) -> Result<(), String> {
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => counts(),
        ["order"] => order::run(),
        _ => Err("usage: cargo xtask profile [order]".into()),
    }
}

fn counts() -> Result<(), String> {
    let merger = merger()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let target = target.join("profile");
    let (raw, work) = (target.join("raw"), target.join("work"));
    // Variables replace the flags of `.cargo/config.toml`.
    let flags = format!("-Crelocation-model=static -Cprofile-generate={} --cfg=counting", raw.display());
    let folder = target.display().to_string();
    test::cargo_with(
        &["build", "--release", "--quiet", "-p", "sassafras", "--target-dir", &folder],
        &[("RUSTFLAGS", &flags)],
    )?;
    // What ran while that was built has counted, too.
    for folder in [&raw, &work] {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let program = |name: &str| target.join("release").join(name);
    let kernels = [testkit::corpus(), testkit::files("tests/kernels/features", "ptx")].concat();
    let mut compiled = 0;
    for kernel in &kernels {
        let text = String::from_utf8_lossy(&std::fs::read(kernel).map_err(|e| e.to_string())?).into_owned();
        let arch = arch(&text).ok_or_else(|| format!("{} names no target", kernel.display()))?;
        let cubin = work.join("k.cubin");
        let ptxas = |options: &[&str]| {
            ran(Command::new(program("ptxas")).arg(&arch).args(options).arg(kernel).arg("-o").arg(&cubin))
        };
        // Not all can be compiled for linking, and not all linked alone.
        if ptxas(&["-c"]).is_ok() {
            let linked = work.join("linked.cubin");
            let _ = ran(Command::new(program("nvlink")).arg(&arch).arg(&cubin).arg("-o").arg(linked));
        }
        // Some are for later chips than they name.
        if ptxas(&["-O3"]).is_err() {
            continue;
        }
        ptxas(&["--Ofast-compile", "max"])?;
        ran(Command::new(program("nvdisasm")).arg("-c").arg(&cubin))?;
        compiled += 1;
    }
    if compiled * 10 < kernels.len() * 9 {
        return Err(format!("{compiled} of {} kernels could be compiled", kernels.len()));
    }
    let profile = root().join("profile/release.profdata");
    let new = work.join("release.profdata");
    ran(Command::new(&merger).args(["merge", "--sparse", "-o"]).arg(&new).arg(&raw))?;
    std::fs::copy(&new, &profile).map_err(|e| format!("{}: {e}", profile.display()))?;
    println!("{}: what {compiled} kernels run through", profile.display());
    Ok(())
}

/// The option that names the chip that a text is for.
fn arch(text: &str) -> Option<String> {
    let target = text.split(".target").nth(1)?.trim_start();
    let end = target.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(target.len());
    Some(format!("-arch={}", &target[..end]))
}

/// Runs a command whose output nobody wants.
fn ran(command: &mut Command) -> Result<(), String> {
    let done =
        command.stdout(Stdio::null()).stderr(Stdio::piped()).output().map_err(|e| format!("{command:?}: {e}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} ended with {}\n{}", done.status, String::from_utf8_lossy(&done.stderr)))
}

/// LLVM's tool for profiles: what `LLVM_PROFDATA` names, the one beside rustc, or one on the path.
fn merger() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("LLVM_PROFDATA") {
        return Ok(named.into());
    }
    let sysroot =
        Command::new("rustc").args(["--print", "target-libdir"]).output().map_err(|e| format!("rustc: {e}"))?;
    let beside = Path::new(String::from_utf8_lossy(&sysroot.stdout).trim()).with_file_name("bin").join("llvm-profdata");
    if beside.is_file() {
        return Ok(beside);
    }
    let named = PathBuf::from("llvm-profdata");
    match Command::new(&named).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(named),
        _ => Err("llvm-profdata is missing: `rustup component add llvm-tools`, or name it by LLVM_PROFDATA; \
                  it has to be as new as the LLVM of rustc -vV"
            .into()),
    }
}
