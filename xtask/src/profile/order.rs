//! Which functions of the compiler shall lie beside each other: those that compiling runs through, as the linker takes them
//! (`--symbol-ordering-file`).
//!
//! What compiling at `max` runs through stands first, as there the start of the program is most of the time, then what the whole level adds; within both,
//! functions keep the order that the linker gave them by who calls whom. Which ones run is what valgrind's callgrind counts.

use super::{arch, ran};
use crate::{root, test};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

/// Of so many kernels one is compiled: valgrind takes fifty times as long.
const EACH: usize = 8;

/// What is known of a function.
struct Function {
    /// Its first instruction that ran.
    at: u64,
    /// Runs that it took part in, at `max` and at the whole level.
    runs: [u32; 2],
}

/// Makes `profile/order.txt` again.
///
/// # Errors
/// Where valgrind is missing, or what it writes is not understood.
pub fn run() -> Result<(), String> {
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let work = target.join("profile/order");
    std::fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    let mut functions: HashMap<String, Function> = HashMap::new();
    let mut compiled = 0;
    let kernels = [testkit::corpus(), testkit::files("tests/kernels/features", "ptx")].concat();
    for kernel in kernels.iter().step_by(EACH) {
        let text = std::fs::read(kernel).map_err(|e| format!("{}: {e}", kernel.display()))?;
        let arch =
            arch(&String::from_utf8_lossy(&text)).ok_or_else(|| format!("{} names no target", kernel.display()))?;
        for (level, options) in [&["--Ofast-compile", "max"][..], &[]].into_iter().enumerate() {
            let counts = work.join("callgrind.out");
            let mut valgrind = Command::new("valgrind");
            valgrind.args([
                "--tool=callgrind",
                "--demangle=no",
                "--dump-instr=yes",
                "--compress-strings=no",
                "--compress-pos=no",
            ]);
            valgrind.arg(format!("--callgrind-out-file={}", counts.display())).arg(target.join("release/ptxas"));
            // Some are for later chips than they name.
            if ran(valgrind.arg(&arch).args(options).arg(kernel).arg("-o").arg(work.join("k.cubin"))).is_ok() {
                let counts = std::fs::read_to_string(&counts).map_err(|e| format!("{}: {e}", counts.display()))?;
                count(&counts, level, &mut functions);
                compiled += 1;
            }
        }
    }
    if compiled * EACH < kernels.len() {
        return Err(format!("{compiled} of {} runs could be counted: is valgrind there?", 2 * kernels.len() / EACH));
    }
    let list = root().join("profile/order.txt");
    std::fs::write(&list, written(&functions)).map_err(|e| format!("{}: {e}", list.display()))?;
    println!("{}: {} functions that {compiled} runs go through", list.display(), functions.len());
    Ok(())
}

/// Adds what one run went through.
fn count(counts: &str, level: usize, functions: &mut HashMap<String, Function>) {
    let mut seen: HashMap<&str, u64> = HashMap::new();
    let mut name = "";
    let mut called = false;
    for line in counts.lines() {
        if let Some(f) = line.strip_prefix("fn=") {
            // In a cycle of calls a number follows.
            name = f.split('\'').next().unwrap_or(f);
        } else if line.starts_with("calls=") {
            called = true;
        } else if let Some(at) =
            line.strip_prefix("0x").and_then(|l| u64::from_str_radix(l.split(' ').next()?, 16).ok())
        {
            // Behind a call stands what the callee took, at the place of the call.
            if !std::mem::take(&mut called) {
                let first = seen.entry(name).or_insert(at);
                *first = at.min(*first);
            }
        }
    }
    // What has no name of its own stands in parentheses or is a number.
    for (name, at) in seen.into_iter().filter(|(n, _)| n.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())) {
        let f = functions.entry(name.into()).or_insert(Function { at, runs: [0; 2] });
        f.at = f.at.min(at);
        f.runs[level] += 1;
    }
}

/// The list, a name a line.
fn written(functions: &HashMap<String, Function>) -> String {
    let part = |f: &Function| match f.runs[0] {
        2.. => 0,
        1 => 1,
        _ => 2,
    };
    let mut all: Vec<(&String, &Function)> = functions.iter().collect();
    all.sort_by_key(|(name, f)| (part(f), f.at, *name));
    all.into_iter().flat_map(|(name, _)| [name.as_str(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_max_needs_stands_first_in_the_order_of_the_program() {
        let run = "fn=main\n0x30 1 5\ncfn=late\ncalls=1 0\n0x34 1 9\nfn=late\n0x90 1 5\n0x94 1 5\nfn=early'2\n0x40 1 1\nfn=(below main)\n0x20 1 1\n";
        let whole = "fn=search\n0x10 1 5\nfn=late\n0x90 1 1\n";
        let mut functions = HashMap::new();
        for (counts, level) in [(run, 0), (run, 0), (whole, 1), ("fn=seldom\n0x8 1 1\n", 0)] {
            count(counts, level, &mut functions);
        }
        assert_eq!(written(&functions), "main\nearly\nlate\nseldom\nsearch\n");
    }
}
