//! Everything that has to pass.

use crate::{chips, conformance, instructions, oracle, root};
use std::process::Command;

/// Runs formatting, lints, tests and conformance; the first failure stops.
pub fn run() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    oracle::install()?;
    // All that fails is told at once.
    cargo(&["test", "--workspace", "--quiet", "--no-fail-fast"])?;
    conformance::run(&[])?;
    // A sample; without --every it is the whole table.
    chips::run(&["sm_75,sm_80,sm_89,sm_90a,sm_100a,sm_120a", "--every", "10"].map(String::from))?;
    chips::run(&["sm_75,sm_80,sm_86,sm_89,sm_100a,sm_120a", "--ours"].map(String::from))?;
    instructions::run(&[])?;
    for chip in ["sm_75", "sm_120a"] {
        instructions::run(&["--chip", chip].map(String::from))?;
    }
    // Constants and values that are the same in all threads take other ways through the compilers.
    instructions::run(&["--given", "mixed"].map(String::from))
}

/// Runs cargo at the root.
pub fn cargo(args: &[&str]) -> Result<(), String> {
    cargo_with(args, &[])
}

/// As [`cargo`], with variables of the environment.
pub fn cargo_with(args: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    eprintln!("cargo {}", args.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // A tool that is not there is a failure, not a test left out.
    let status =
        Command::new(cargo).args(args).current_dir(root()).env("CI", "true").envs(variables.iter().copied()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo {} ended with {status}", args.join(" "))),
        Err(e) => Err(format!("cannot run cargo: {e}")),
    }
}
