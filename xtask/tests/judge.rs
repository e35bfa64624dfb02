//! The judge where there is no GPU, and where its folder is not whole. What it does with a GPU is in docs/gpu.md.

use std::path::Path;
use std::process::{Command, Output};

/// Runs a copy of the judge in a folder that holds these files.
fn judge(files: &[(&str, &str)], args: &[&str]) -> Output {
    let dir = testkit::Scratch::new("judge");
    let program = dir.join("judge");
    testkit::copy_program(Path::new(env!("CARGO_BIN_EXE_judge")), &program);
    for (name, text) in files {
        std::fs::write(dir.join(name), text).expect("written");
    }
    Command::new(&program).args(args).output().expect("runs")
}

#[test]
fn without_a_gpu_it_says_so() {
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("this machine has a GPU: not tested");
        return;
    }
    let done = judge(&[("launches.txt", ""), ("bounds.toml", "")], &[]);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("no NVIDIA driver") || said.contains("no GPU"), "{said}");
}

#[test]
fn mistakes_are_told() {
    for (files, args, word) in [
        (&[][..], &["--fast"][..], "usage: judge"),
        (&[], &["--timed", "x"], "'x' is no number"),
        (&[], &[], "launches.txt"),
        (&[("launches.txt", "one\n")], &[], "launches.txt: one"),
    ] {
        let done = judge(files, args);
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        assert!(String::from_utf8_lossy(&done.stderr).contains(word), "{done:?}");
    }
}
