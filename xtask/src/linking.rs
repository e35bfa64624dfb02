//! Mixed linking, as long as wanted: the test of `crates/cli/tests/mixed_linking.rs` over many programs.

use crate::test;

/// Programs if no range is given.
const ALL: &str = "1..400";

/// Links and runs the programs of the range `args[0]` (`7`, `201..300`).
pub fn run(args: &[String]) -> Result<(), String> {
    let range = match args {
        [] => ALL,
        [range] => range,
        _ => return Err("usage: cargo xtask conformance --linking [FROM..TO]".into()),
    };
    let command = ["test", "--release", "-p", "sassafras", "--test", "mixed_linking", "modules_of_two_compilers_agree"];
    test::cargo_with(&command, &[("SASSAFRAS_SEEDS", range)])
}
