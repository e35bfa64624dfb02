//! What the tests share: the vendor's tools as black boxes, the corpus of kernels, folders to write to.
//!
//! No crate that is shipped uses this one. Unlike those, it reads the environment and panics: that fails a test, with its reason.
#![deny(missing_docs)]

pub mod calls;
pub mod isa;
pub mod oracle;
mod random;
mod scratch;
mod seeds;
pub mod tool;
mod toolkit;

pub use random::Random;
pub use scratch::Scratch;
pub use seeds::seeds;
pub use toolkit::{copy_program, toolkit};

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The files of `folder` (relative to the root of the repository) with this extension, sorted.
///
/// # Panics
/// If the folder is missing or holds no such file: a test over nothing would pass for nothing.
pub fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let dir = root().join(folder);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let paths = entries.flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> = paths.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    assert!(!found.is_empty(), "{} holds no .{extension}", dir.display());
    found.sort();
    found
}

/// The PTX files of the corpus (`tests/kernels`), sorted within each family.
pub fn corpus() -> Vec<PathBuf> {
    ["tests/kernels/cuda", "tests/kernels/triton"].iter().flat_map(|f| files(f, "ptx")).collect()
}
