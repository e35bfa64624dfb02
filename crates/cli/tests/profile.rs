//! What cargo starts instead of rustc (`profile/rustc.sh`) adds the profile to release builds alone.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

const PROFILE: &str = "-Cprofile-use=";

/// What rustc is given in its stead.
fn given(arguments: &[&str]) -> Vec<String> {
    let script = testkit::root().join("profile/rustc.sh");
    let said = Command::new(script).args(["printf", "%s\n"]).args(arguments).output().expect("there is a shell");
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).expect("it is text").lines().map(String::from).collect()
}

#[test]
fn release_builds_go_by_the_profile() {
    let asked = ["--crate-name", "codegen", "a word", "-C", "opt-level=3"];
    let given = given(&asked);
    assert_eq!(given[..asked.len()], asked);
    let profile = given.iter().find_map(|argument| argument.strip_prefix(PROFILE)).expect("one is named");
    let profile = std::fs::read(Path::new(profile)).expect("it is there");
    // As LLVM marks profiles that are indexed, the last byte first.
    assert!(profile.starts_with(b"\xfflprofi\x81"), "it is none: cargo xtask profile");
}

/// What cargo calls a crate depends on where this lies, and the profile goes by names with that in them.
#[test]
fn names_do_not_depend_on_the_folder() {
    for other in [&[][..], &["-Cprofile-generate=counts"]] {
        let asked = |hash| {
            [&["--crate-name", "codegen", "-C", "opt-level=3", "-C", hash, "-C", "extra-filename=-1"], other].concat()
        };
        let one = given(&asked("metadata=0123"));
        assert_eq!(one, given(&asked("metadata=4567")));
        assert_eq!(one[..6], asked("metadata=codegen")[..6]);
    }
    let debug = ["--crate-name", "codegen", "-C", "metadata=0123"];
    assert_eq!(given(&debug), debug);
}

#[test]
fn other_builds_do_not() {
    for other in [
        &["--crate-name", "codegen", "-C", "opt-level=1"][..],
        &["--crate-name", "build_script_build"],
        &["--crate-name", "sim", "-C", "opt-level=3"],
        &["--crate-name", "codegen", "-C", "opt-level=3", "-Cprofile-generate=counts"],
        &["--crate-name", "codegen", "-C", "opt-level=3", "-Cpasses=sancov-module"],
        &["-vV"],
    ] {
        assert_eq!(given(other), other);
    }
}
