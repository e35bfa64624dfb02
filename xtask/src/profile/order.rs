//! Which functions of the compiler shall lie beside each other: those that compiling runs through, as the linker takes them
//! (`--symbol-ordering-file`).
//!
//! What compiling at `max` runs through stands first, as there the start of the program is most of the time, then what the whole level adds. What
//! every run at `max` needs stands before what half of them need, so that one run finds little between that is not its own; within such a part
//! functions keep the order that the linker gave them by who calls whom. Which ones run is what valgrind's callgrind counts; what they are called is
//! asked of `nm`, as callgrind calls what stands apart from a function as it calls the function.

use super::{arch, ran};
use crate::{root, test};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of so many kernels one is compiled: valgrind takes fifty times as long.
const EACH: usize = 8;

/// Levels are counted apart: `max` and the whole one.
const LEVELS: [&[&str]; 2] = [&["--Ofast-compile", "max"], &[]];

/// What is known of a place that has names.
#[derive(Default)]
struct Function {
    /// Its names: equal functions are one.
    names: Vec<String>,
    /// Runs that it took part in, of each of the [`LEVELS`].
    runs: [usize; LEVELS.len()],
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
    let mut functions = named(&target.join("release/ptxas"))?;
    let mut compiled = [0; LEVELS.len()];
    let kernels = [testkit::corpus(), testkit::files("tests/kernels/features", "ptx")].concat();
    for kernel in kernels.iter().step_by(EACH) {
        let text = std::fs::read(kernel).map_err(|e| format!("{}: {e}", kernel.display()))?;
        let arch =
            arch(&String::from_utf8_lossy(&text)).ok_or_else(|| format!("{} names no target", kernel.display()))?;
        for (level, options) in LEVELS.into_iter().enumerate() {
            let counts = work.join("callgrind.out");
            let mut valgrind = Command::new("valgrind");
            valgrind.args(["--tool=callgrind", "--dump-instr=yes", "--compress-pos=no"]);
            valgrind.arg(format!("--callgrind-out-file={}", counts.display())).arg(target.join("release/ptxas"));
            // Some are for later chips than they name.
            if ran(valgrind.arg(&arch).args(options).arg(kernel).arg("-o").arg(work.join("k.cubin"))).is_ok() {
                let counts = std::fs::read_to_string(&counts).map_err(|e| format!("{}: {e}", counts.display()))?;
                count(&counts, level, &mut functions);
                compiled[level] += 1;
            }
        }
    }
    let wanted = kernels.len() / EACH;
    if compiled.iter().any(|runs| runs * 2 < wanted) {
        return Err(format!("{compiled:?} of {wanted} runs could be counted: is valgrind there?"));
    }
    let list = root().join("profile/order.txt");
    let text = written(&functions, compiled[0]);
    std::fs::write(&list, &text).map_err(|e| format!("{}: {e}", list.display()))?;
    println!("{}: {} functions that {compiled:?} runs go through", list.display(), text.lines().count());
    Ok(())
}

/// The names of what is in a program, by address.
fn named(program: &Path) -> Result<BTreeMap<u64, Function>, String> {
    let nm = Command::new("nm").arg("--defined-only").arg(program).output().map_err(|e| format!("nm: {e}"))?;
    let list = String::from_utf8_lossy(&nm.stdout).into_owned();
    let functions = by_address(&list);
    if functions.is_empty() {
        return Err(format!("nm finds no names in {}", program.display()));
    }
    Ok(functions)
}

/// What `nm` has listed: an address, a letter for what it is, a name.
fn by_address(list: &str) -> BTreeMap<u64, Function> {
    let mut functions: BTreeMap<u64, Function> = BTreeMap::new();
    for line in list.lines() {
        if let [at, kind, name] = line.split_ascii_whitespace().collect::<Vec<_>>()[..]
            && matches!(kind, "t" | "T" | "w" | "W" | "i")
            && let Ok(at) = u64::from_str_radix(at, 16)
        {
            functions.entry(at).or_default().names.push(name.into());
        }
    }
    functions
}

/// Adds what one run went through.
fn count(counts: &str, level: usize, functions: &mut BTreeMap<u64, Function>) {
    let mut seen = BTreeSet::new();
    let mut called = false;
    for line in counts.lines() {
        if line.starts_with("calls=") {
            called = true;
        } else if let Some(at) =
            line.strip_prefix("0x").and_then(|l| u64::from_str_radix(l.split(' ').next()?, 16).ok())
        {
            // Behind a call stands what the callee took, at the place of the call.
            if !std::mem::take(&mut called)
                && let Some((&begin, _)) = functions.range(..=at).next_back()
            {
                seen.insert(begin);
            }
        }
    }
    for begin in seen {
        functions.entry(begin).or_default().runs[level] += 1;
    }
}

/// The list, a name a line; so many runs were at `max`.
fn written(functions: &BTreeMap<u64, Function>, runs: usize) -> String {
    // Eighths of the runs at `max` that do without, all but none, and what only the whole level needs.
    let part = |f: &Function| match f.runs {
        [0, 0] => None,
        [0, _] => Some(9),
        [1, _] => Some(8),
        [n, _] => Some((runs - n.min(runs)) * 8 / runs.max(1)),
    };
    let mut all: Vec<(usize, &Function)> = functions.values().filter_map(|f| Some((part(f)?, f))).collect();
    all.sort_by_key(|&(part, _)| part);
    let mut listed = HashSet::new();
    let names = all.into_iter().flat_map(|(_, f)| &f.names).filter(|name| listed.insert(name.as_str()));
    names.flat_map(|name| [name.as_str(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_run_at_max_needs_stands_first_in_the_order_of_the_program() {
        let names = "10 T search\n8 t seldom\n20 T _start\n30 T main\n30 W alias\n40 t early.cold\n90 i late\n\
                     a0 R table\n 50 T nobody\nU missing\n";
        let mut functions = by_address(names);
        let run = "fn=main\n0x30 1 5\ncfn=late\ncalls=1 0\n0x34 1 9\nfn=late\n0x90 1 5\n0x94 1 5\nfn=(below main)\n0x20 1 1\n";
        let rest = "fn=early\n0x40 1 1\n";
        let whole = "fn=search\n0x10 1 5\nfn=late\n0x90 1 1\n";
        let with = |more: &[&str]| more.concat();
        for counts in [with(&[run, rest]), with(&[run, rest]), run.into(), with(&[run, "0x8 1 1\n"])] {
            count(&counts, 0, &mut functions);
        }
        count(whole, 1, &mut functions);
        assert_eq!(written(&functions, 4), "_start\nmain\nalias\nlate\nearly.cold\nseldom\nsearch\n");
    }
}
