//! What the tests share: the vendor's tools and their cubins of the corpus.

use std::path::{Path, PathBuf};

/// The PTX files of the corpus, and those beside the tests.
pub fn corpus() -> Vec<PathBuf> {
    let mut files = testkit::corpus();
    files.extend(testkit::files("crates/cubin/tests/ptx", "ptx"));
    files
}

/// A release's cubin of a PTX text; none where it refuses it (it is for another target).
pub fn compile(release: &Path, ptx: &str, arch: &str, options: &[&str]) -> Option<Vec<u8>> {
    let arch = format!("-arch={arch}");
    let options: Vec<&str> = [arch.as_str()].into_iter().chain(options.iter().copied()).collect();
    testkit::oracle::compile(&release.join("bin/ptxas"), ptx, &options).ok()
}
