//! A toolkit in which some programs are ours, and copies of programs that a test runs.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a toolkit in `dir` (made if it is missing) in which everything is the release's in `oracle` but `ours`: names in `bin`,
/// and the programs that stand there. Returns its `bin`.
///
/// # Panics
/// If a folder cannot be read or written.
pub fn toolkit(oracle: &Path, dir: &Path, ours: &[(&str, &str)]) -> PathBuf {
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    for entry in std::fs::read_dir(oracle.join("bin")).expect("readable").flatten() {
        let place = bin.join(entry.file_name());
        let name = entry.file_name().to_string_lossy().into_owned();
        match ours.iter().find(|o| o.0 == name) {
            Some((_, path)) => symlink(path, place).expect("a link"),
            // It looks for the other programs beside itself.
            None if name.starts_with("nvcc") => copy_program(&entry.path(), &place),
            None => symlink(entry.path(), place).expect("a link"),
        }
    }
    for folder in ["include", "lib", "nvvm"] {
        symlink(oracle.join(folder), dir.join(folder)).expect("a link");
    }
    bin
}

/// Copies a program that is to be run. Another process writes the copy: what this one has open for writing goes to every program
/// that another thread starts in that moment, and a program that is open for writing cannot be run ("text file busy").
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    let done = Command::new("cp").arg(from).arg(to).status().expect("cp runs");
    assert!(done.success(), "{} is not copied to {}", from.display(), to.display());
}
