//! `cargo xtask conformance --ptx-semantics`: every instruction of the PTX table up to sm_90a, with the tests of its meaning.
//!
//! An instruction is an opcode with the words that belong to its name (`mbarrier.test_wait`). Tests are counted by their
//! text: statements of it in the semantic tests of `crates/sim/tests`, and kernels of `tests/kernels` that use it and have
//! an expected output from an independent reference.

use crate::root;
use arch::Target;
use ptx::isa::{Mod, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files with expected values derived by hand or by an independent method.
const TESTS: [&str; 8] = [
    "semantics.rs",
    "tensor.rs",
    "threads.rs",
    "programs.rs",
    "wgmma.rs",
    "sparse.rs",
    "tensor_copies.rs",
    "textures.rs",
];

/// Instructions without a result that a test could look at: hints, and what ends or delays a thread.
const NO_RESULT: [&str; 20] = [
    "applypriority",
    "brkpt",
    "createpolicy.cvt",
    "createpolicy.fractional",
    "createpolicy.range",
    "cp.async.bulk.prefetch",
    "cp.async.bulk.prefetch.tensor",
    "discard",
    "exit",
    "griddepcontrol",
    "istypep",
    "membar.proxy",
    "nanosleep",
    "pmevent",
    "prefetch",
    "prefetchu",
    "ret",
    "setmaxnreg.dec",
    "setmaxnreg.inc",
    "trap",
];

#[derive(Default)]
struct Row {
    tests: usize,
    kernels: BTreeSet<String>,
}

/// Prints the table.
///
/// # Errors
/// Rows without a test, by number.
pub fn run() -> Result<(), String> {
    let target = Target::parse("sm_90a").ok_or("no sm_90a")?;
    let mut names: BTreeMap<String, (Op, &'static [Mod])> = BTreeMap::new();
    for op in Op::ALL {
        for form in op.forms().iter().filter(|f| f.since.has(target)) {
            let words: String = form.name.iter().map(|m| format!(".{}", m.name())).collect();
            names.insert(format!("{}{words}", op.name()), (op, form.name));
        }
    }
    let mut rows: BTreeMap<&str, Row> = names.keys().map(|n| (n.as_str(), Row::default())).collect();
    for file in TESTS {
        let text = read(&root().join("crates/sim/tests").join(file))?;
        for name in statements(&text, &names) {
            rows.entry(name).or_default().tests += 1;
        }
    }
    for folder in ["cuda", "triton"] {
        for file in files(&root().join("tests/kernels").join(folder))? {
            let kernel = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if !expected(&kernel)? {
                continue;
            }
            for name in statements(&read(&file)?, &names) {
                rows.entry(name).or_default().kernels.insert(kernel.clone());
            }
        }
    }
    let mut counts = [0; 4];
    println!("{:<44} {:>5} {:>7}  state", "instruction", "tests", "kernels");
    for (name, row) in &rows {
        let (state, n) = match row {
            r if r.tests > 0 => ("tested", 0),
            r if !r.kernels.is_empty() => ("kernels with expected output", 1),
            _ if NO_RESULT.contains(name) => ("nothing to see", 2),
            _ => ("NO TEST", 3),
        };
        counts[n] += 1;
        println!("{name:<44} {:>5} {:>7}  {state}", row.tests, row.kernels.len());
    }
    let [tested, kernels, nothing, none] = counts;
    println!(
        "{} instructions: {tested} tested, {kernels} by kernels only, {nothing} with nothing to see, {none} without a test",
        rows.len()
    );
    if none > 0 { Err(format!("{none} instructions have no test of their meaning")) } else { Ok(()) }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "ptx")).collect())
}

/// True if a launch of the kernel has an expected output.
fn expected(kernel: &str) -> Result<bool, String> {
    let folder = root().join("tests/kernels/expected");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(entries.flatten().any(|e| e.file_name().to_string_lossy().split('.').next() == Some(kernel)))
}

/// The longest name of each statement in a text: words that begin like one.
fn statements<'n>(text: &str, names: &'n BTreeMap<String, (Op, &'static [Mod])>) -> Vec<&'n str> {
    let part = |c: char| c.is_ascii_alphanumeric() || "_.:{}".contains(c);
    let mut found = Vec::new();
    for word in text.split(|c: char| !part(c)) {
        // Behind an escaped line end in a string.
        let word =
            word.strip_prefix('n').filter(|w| names.keys().any(|n| w.starts_with(&format!("{n}.")))).unwrap_or(word);
        let name = names
            .keys()
            .filter(|n| {
                word.strip_prefix(n.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '{']))
            })
            .max_by_key(|n| n.len());
        // A plain word may be anything: an instruction has qualifiers, but for a few.
        let plain = ["ret", "exit", "trap", "brkpt", "bra", "call"];
        if let Some(n) = name
            && (word.contains('.') || plain.contains(&word))
        {
            found.push(n.as_str());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_the_longest_name() {
        let forms = |op: Op| op.forms().first().map_or(&[][..], |f| f.name);
        let names: BTreeMap<String, (Op, &'static [Mod])> = [
            ("cp.async".to_string(), (Op::Cp, forms(Op::Cp))),
            ("cp.async.bulk".to_string(), (Op::Cp, forms(Op::Cp))),
            ("add".to_string(), (Op::Add, forms(Op::Add))),
        ]
        .into();
        let text =
            "@%p1 cp.async.bulk.shared::cluster.global [%r1];\\nadd.s32 %r1; address.add; cp.async.ca.shared; add it";
        assert_eq!(statements(text, &names), ["cp.async.bulk", "add", "cp.async"]);
    }
}
