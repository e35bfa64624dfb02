//! Has a generator make a program, by seed.

use super::divide::{Share, divide};
use super::tools::{Ended, run};
use super::{Kind, sources};
use std::path::Path;
use std::process::Command;
use testkit::Random;

/// Elements of all arrays of one of YARPGen's programs: each is filled and summed up by one thread. Most programs have more, up to
/// many gigabytes.
const ELEMENTS: u64 = 60_000;

/// How long a generator may take.
const SECONDS: u64 = 20;

/// A program that lies in a folder.
pub struct Program {
    /// clang's optimization.
    pub level: &'static str,
    /// Threads of the block.
    pub block: u32,
    /// Words that the kernel leaves.
    pub words: usize,
}

/// Makes the program of a seed: the generator's files, `device.c`, `host.c` and the headers. `Ok(Err(why))` where there is none to judge.
///
/// # Errors
/// A file cannot be written, or the generator cannot be run.
pub fn make(kind: Kind, seed: u64, folder: &Path) -> Result<Result<Program, &'static str>, String> {
    // Other kinds have other choices of the same seed.
    let mut random = Random(seed << 2 | kind as u64);
    let level = ["-O0", "-O1", "-O2", "-O3", "-Os"][random.index(5)];
    let (block, who) = match (kind, random.index(4)) {
        (Kind::Divided, _) => (32, 0),
        (_, 0 | 1) => (1, 0),
        (_, n) => {
            let block = if n == 2 { 32 } else { 64 };
            (block, random.index(block as usize) as u32)
        }
    };
    let mut command = match kind {
        Kind::Yarpgen => {
            let mut c = Command::new("yarpgen");
            c.args(["--std=c", "-o"]).arg(folder).arg(format!("--seed={seed}"));
            c
        }
        _ => {
            let mut c = Command::new("csmith");
            // clang reads members of packed structures as if they were aligned.
            c.args(["--no-packed-struct", "--no-argc", "--seed", &seed.to_string()]);
            c.args(csmith(kind, &mut random)).arg("--output").arg(folder.join("program.c"));
            c
        }
    };
    // csmith writes what it takes the machine for into the folder in which it runs.
    match run(command.current_dir(folder), SECONDS, folder)? {
        Ended::Well(_) => {}
        Ended::Badly(_) => return Ok(Err("the generator fails")),
        Ended::Late => return Ok(Err("the generator does not end")),
    }
    match kind {
        Kind::Divided => {
            let file = folder.join("program.c");
            let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let share = Share {
                constants: 1 + random.index(7),
                conditions: random.index(5),
                returns: random.index(11),
                seen: [1, 1, 2, 6][random.index(4)],
            };
            std::fs::write(&file, divide(&text, share, &mut random)).map_err(|e| e.to_string())?;
        }
        Kind::Yarpgen => {
            let file = folder.join("driver.c");
            let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            if elements(&text) > ELEMENTS {
                return Ok(Err("its arrays are too large"));
            }
        }
        Kind::Single => {}
    }
    sources::write(folder, kind, who)?;
    let words = match kind {
        Kind::Single => 1,
        Kind::Divided => 32,
        Kind::Yarpgen => 2,
    };
    Ok(Ok(Program { level, block, words }))
}

/// What csmith is asked for besides.
fn csmith(kind: Kind, random: &mut Random) -> Vec<&'static str> {
    let mut list = Vec::new();
    if kind == Kind::Divided {
        list.push("--no-global-variables");
    }
    let mut sometimes = |one_in: usize, what: &[&'static str]| {
        if random.index(one_in) == 0 {
            list.extend(what);
        }
    };
    sometimes(6, &["--float"]);
    sometimes(4, &["--no-volatiles"]);
    sometimes(4, &["--inline-function"]);
    sometimes(4, &["--max-funcs", "4"]);
    sometimes(4, &["--max-block-depth", "3"]);
    // Bits that are counted, found and put in another order.
    sometimes(3, &["--builtins"]);
    list
}

/// Elements of the arrays that a driver declares at the beginning of lines: `short arr_1 [18] [18] ;`.
fn elements(driver: &str) -> u64 {
    let array = |line: &str| -> Option<u64> {
        let (head, dims) = line.split_once('[')?;
        // What is indented is code.
        if head.starts_with(char::is_whitespace) || !head.contains(" arr_") || head.contains('(') {
            return None;
        }
        let dims = dims.split(['[', ']']).map(str::trim).take_while(|d| !d.starts_with(['=', ';']));
        Some(dims.filter_map(|d| d.parse::<u64>().ok()).fold(1, u64::saturating_mul))
    };
    driver.lines().filter_map(array).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_arrays_are_counted() {
        let driver = "int var_1 = 3;\nshort arr_1 [18] [2] ;\n_Bool arr_2 [5] __attribute__((aligned(32)));\n\
            void test(short arr_1 [18] [2] );\n    for (;;)\n    arr_1 [3] = 9;\n";
        assert_eq!(elements(driver), 41);
        assert_eq!(elements(&"int arr_1 [9999999] [9999999] [9999999] ;\n".repeat(2)), u64::MAX);
    }
}
