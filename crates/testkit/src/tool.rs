//! Programs that a test runs.

use std::path::Path;
use std::process::{Command, Output};

/// Runs a program in a folder.
///
/// # Panics
/// If it cannot be started.
pub fn run(tool: impl AsRef<Path>, dir: &Path, args: &[&str]) -> Output {
    let tool = tool.as_ref();
    Command::new(tool).args(args).current_dir(dir).output().unwrap_or_else(|e| panic!("{}: {e}", tool.display()))
}

/// What a program said, on standard output and then on standard error.
pub fn said(done: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

/// Runs a program in a folder, which must succeed.
///
/// # Panics
/// If it does not, with what it said.
pub fn must(tool: impl AsRef<Path>, dir: &Path, args: &[&str]) {
    let done = run(&tool, dir, args);
    assert!(done.status.success(), "{} {args:?}: {}", tool.as_ref().display(), said(&done));
}
