//! One program: what the processor says of it, what the PTX interpreter and our code at each level say, and where they differ.

use super::make::{Program, make};
use super::simulate::Left;
use super::sources::KERNEL;
use super::tools::{Clang, Ended, Host, run};
use super::{Kind, Options, quality};
use crate::launches::save::save;
use cubin::elf::Elf;
use cubin::load::Loaded;
use sim::{Arg, Launch};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Warp instructions that the PTX interpreter may take.
const STEPS: u64 = 20_000_000;

/// How many times as many machine code may take, and how many more: it has quotients as loops of dozens of instructions.
const LONGER: u64 = 64;
const MORE: u64 = 1_000_000;

/// Seconds: of a program on this machine, where one in ten of csmith's never ends and what the interpreter can run takes
/// milliseconds; of the same with sanitizers; of a compiler; of a run in the simulator.
const HOST: u64 = 1;
const CHECKED: u64 = 10;
const COMPILER: u64 = 120;
const SIMULATOR: u64 = 240;

/// Bytes of stack that the simulator has for a thread's machine code.
const STACK: u32 = 64 * 1024;

/// What our compiler is asked for.
pub struct Level {
    pub name: String,
    options: Vec<String>,
}

impl Level {
    /// `O0` to `O3`; `mid` and `max` of `--Ofast-compile`; `r32`: with at most so many registers.
    pub fn parse(word: &str) -> Option<Level> {
        let options = match word {
            "O0" | "O1" | "O2" | "O3" => vec![format!("-{word}")],
            "min" | "mid" | "max" => vec![format!("--Ofast-compile={word}")],
            _ => vec![format!("--maxrregcount={}", word.strip_prefix('r')?.parse::<u32>().ok()?)],
        };
        Some(Level { name: word.into(), options })
    }
}

/// What came of a program.
pub enum Verdict {
    Right,
    /// Why it was not judged.
    Skipped(&'static str),
    /// What differs, is refused or found, each with chip and level.
    Wrong(Vec<String>),
}

/// A verdict, what was not run, and figures beside the vendor's.
pub struct Report {
    pub verdict: Verdict,
    pub unrun: Vec<String>,
    /// How many different words the threads leave.
    pub ways: usize,
    /// Warp instructions that the interpreter takes for it.
    pub steps: u64,
    /// What clang said where it refuses the program.
    pub note: Option<String>,
    pub figures: Vec<quality::Row>,
}

/// What programs are judged with.
pub struct Judge<'a> {
    pub clang: Clang,
    pub ours: PathBuf,
    pub vendor: Option<PathBuf>,
    pub options: &'a Options,
}

/// What the simulator made of a module.
enum Run {
    Left(Vec<u32>, u64),
    Fault {
        kind: String,
        said: String,
    },
    /// It did not end in time, or not as it should.
    Ended(String),
}

impl Judge<'_> {
    /// Makes the program of a seed in a folder, which is emptied first, and judges it.
    ///
    /// # Errors
    /// A file cannot be written, or a tool cannot be run.
    pub fn program(&self, seed: u64, folder: &Path) -> Result<Report, String> {
        let mut report =
            Report { verdict: Verdict::Right, unrun: Vec::new(), ways: 0, steps: 0, note: None, figures: Vec::new() };
        let mut rows = Vec::new();
        let judged = self.judge(seed, folder, &mut report, &mut rows)?;
        // What was found before the rest was given up stays found.
        report.verdict = match judged {
            _ if !rows.is_empty() => Verdict::Wrong(rows),
            Err(why) => Verdict::Skipped(why),
            Ok(()) => Verdict::Right,
        };
        if let (Some(to), Some(_)) = (&self.options.save, &report.note) {
            keep(folder, &to.join(format!("{}-{seed}-refused", self.options.kind.word())))?;
        }
        Ok(report)
    }

    /// Puts what is wrong into `rows`; `Ok(Err(why))` where there is nothing (more) to judge.
    fn judge(
        &self,
        seed: u64,
        folder: &Path,
        report: &mut Report,
        rows: &mut Vec<String>,
    ) -> Result<Result<(), &'static str>, String> {
        // What is not there need not be removed.
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let kind = self.options.kind;
        let program = match make(kind, seed, folder)? {
            Ok(program) => program,
            Err(why) => return Ok(Err(why)),
        };
        let want = match self.truth(&program, folder, report)? {
            Ok(want) => want,
            Err(why) => return Ok(Err(why)),
        };
        report.ways = want.iter().collect::<BTreeSet<_>>().len();
        let launch = Launch {
            kernel: KERNEL.into(),
            grid: [1; 3],
            block: [program.block, 1, 1],
            args: vec![Arg::Buffer { data: vec![0; 4 * program.words], out: Some("out".into()) }],
            ..Launch::default()
        };
        let mut ran = false;
        // The target that PTX was made for, and what the interpreter takes for it.
        let mut made: Option<(&str, u64)> = None;
        for chip in &self.options.chips {
            let target = target(chip);
            let ptx = folder.join(format!("{target}.ptx"));
            let name = format!("{}-{seed}-{target}", kind.word());
            let steps = match made {
                Some((t, steps)) if t == target => steps,
                _ => {
                    match self.clang.device(&folder.join("device.c"), target, program.level, &ptx, folder)? {
                        Ended::Well(_) => {}
                        Ended::Badly(said) => {
                            report.note = Some(line(&said));
                            return Ok(Err("clang makes no PTX of it"));
                        }
                        Ended::Late => return Ok(Err("clang takes too long for PTX")),
                    }
                    save(folder, &name, &ptx, &launch)?;
                    let steps = match self.simulate(&ptx, folder, &name, STEPS)? {
                        Run::Fault { kind, .. } if kind == "watchdog" => {
                            return Ok(Err("too long for the interpreter"));
                        }
                        Run::Fault { kind, .. } if kind == "stack overflow" => {
                            return Ok(Err("its stack is too large"));
                        }
                        Run::Left(got, steps) => {
                            rows.extend(differs(&want, &got).map(|d| format!("{chip} interpreter: {d}")));
                            report.steps = steps;
                            steps
                        }
                        Run::Fault { said, .. } | Run::Ended(said) => {
                            rows.push(format!("{chip} interpreter: {}", line(&said)));
                            STEPS
                        }
                    };
                    made = Some((target, steps));
                    steps
                }
            };
            for level in &self.options.levels {
                let row = |what: String| format!("{chip} {} (clang {}): {what}", level.name, program.level);
                match self.level(&ptx, chip, level, folder)? {
                    Ok(cubin) if stack(&cubin)?.is_some_and(|n| n > STACK) => {
                        report.unrun.push(format!("{}: more than {STACK} bytes of stack", level.name));
                    }
                    Ok(cubin) => {
                        ran = true;
                        match self.simulate(&cubin, folder, &name, STEPS.min(steps) * LONGER + MORE)? {
                            Run::Left(got, _) => rows.extend(differs(&want, &got).map(row)),
                            Run::Fault { said, .. } | Run::Ended(said) => rows.push(row(line(&said))),
                        }
                    }
                    Err(said) => rows.push(row(said)),
                }
            }
            if let (Some(vendor), true) = (&self.vendor, rows.is_empty()) {
                let name = format!("{} {seed} {chip} {}", kind.word(), program.level);
                match quality::compare(vendor, &self.ours, &ptx, chip, folder)? {
                    Some(made) => report.figures.push((name, made)),
                    None => report.unrun.push("the vendor's ptxas refuses it".into()),
                }
            }
            if let (Some(to), false) = (&self.options.save, rows.is_empty()) {
                save(to, &name, &ptx, &launch)?;
                keep(folder, &to.join(&name))?;
            }
        }
        Ok(if ran { Ok(()) } else { Err("its stack is too large") })
    }

    /// What the processor leaves; `Ok(Err(why))` if the program is undefined, or runs too long.
    fn truth(
        &self,
        program: &Program,
        folder: &Path,
        report: &mut Report,
    ) -> Result<Result<Vec<u32>, &'static str>, String> {
        let file = folder.join("host.c");
        let mut hosts = vec![Host::Plain(program.level), Host::Sanitized];
        // Loops that do not go as far as csmith wrote them may fill less than is read.
        if self.options.kind == Kind::Divided {
            hosts.push(Host::SanitizedMemory);
        }
        let mut want: Option<Vec<u32>> = None;
        for host in hosts {
            let out = folder.join("host");
            match self.clang.host(&file, host, &out, folder)? {
                Ended::Well(_) => {}
                Ended::Badly(said) => {
                    report.note = Some(line(&said));
                    return Ok(Err("clang makes no program for this machine"));
                }
                Ended::Late => return Ok(Err("clang takes too long for this machine")),
            }
            let mut command = Command::new(&out);
            command.env("ASAN_OPTIONS", "detect_leaks=0").current_dir(folder);
            let seconds = if matches!(host, Host::Plain(_)) { HOST } else { CHECKED };
            let words = match (run(&mut command, seconds, folder)?, host) {
                (Ended::Well(text), _) => text.lines().map(|l| u32::from_str_radix(l, 16)).collect::<Result<_, _>>(),
                (Ended::Badly(_), Host::Plain(_)) => return Ok(Err("it fails on this machine")),
                (Ended::Badly(_), Host::Sanitized) => return Ok(Err("undefined")),
                (Ended::Badly(_), Host::SanitizedMemory) => return Ok(Err("reads what was not written")),
                (Ended::Late, _) => return Ok(Err("too long for this machine")),
            };
            let words: Vec<u32> = words.map_err(|e| format!("what the program prints: {e}"))?;
            match &want {
                Some(want) if *want != words => return Ok(Err("clang's programs for this machine differ")),
                _ => want = Some(words),
            }
        }
        Ok(want.filter(|w| w.len() == program.words).ok_or("it prints something else"))
    }

    /// Compiles with all checks, and asks the hazard checker; gives the cubin, or what was said.
    fn level(&self, ptx: &Path, chip: &str, level: &Level, folder: &Path) -> Result<Result<PathBuf, String>, String> {
        let out = folder.join("k.cubin");
        let mut command = Command::new(&self.ours);
        command.arg(format!("-arch={chip}")).args(["-fmad=false", "--verify"]).args(&level.options);
        command.arg(ptx).arg("-o").arg(&out);
        match run(&mut command, COMPILER, folder)? {
            Ended::Well(_) => {}
            Ended::Badly(said) => return Ok(Err(line(&said))),
            Ended::Late => return Ok(Err(format!("compiling takes more than {COMPILER} s"))),
        }
        let mut command = Command::new(self.ours.with_file_name("sassafras"));
        Ok(match run(command.arg("lint").arg(&out), COMPILER, folder)? {
            Ended::Well(_) => Ok(out),
            Ended::Badly(said) => Err(format!("lint: {}", line(&said))),
            Ended::Late => Err("lint does not end".into()),
        })
    }

    fn simulate(&self, module: &Path, folder: &Path, name: &str, steps: u64) -> Result<Run, String> {
        let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
        command.arg("simulate").arg(module).arg(folder.join(format!("{name}.toml"))).arg(steps.to_string());
        Ok(match run(&mut command, SIMULATOR, folder)? {
            Ended::Late => Run::Ended(format!("the simulator takes more than {SIMULATOR} s")),
            Ended::Badly(said) => Run::Ended(format!("the simulator: {}", line(&said))),
            Ended::Well(text) => match Left::read(&text) {
                Some(Left::Words(words, steps)) => Run::Left(words, steps),
                Some(Left::Fault(kind, said)) => Run::Fault { said: format!("{kind}: {said}"), kind },
                None => Run::Ended(format!("the simulator: {}", line(&text))),
            },
        })
    }
}

/// The target that clang is asked for: nothing newer than sm_90, which all of its releases know.
fn target(chip: &str) -> &str {
    let number = |t: &str| t.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic).parse::<u32>();
    if number(chip).is_ok_and(|n| n <= 90) { chip } else { "sm_90" }
}

/// How far the words are from what they should be.
fn differs(want: &[u32], got: &[u32]) -> Option<String> {
    if want.len() != got.len() {
        return Some(format!("{} words, not {}", got.len(), want.len()));
    }
    let bad: Vec<usize> = (0..want.len()).filter(|&i| want[i] != got[i]).collect();
    let first = *bad.first()?;
    Some(format!(
        "{} of {} words differ, first {first}: {:08x} not {:08x}",
        bad.len(),
        want.len(),
        got[first],
        want[first]
    ))
}

/// The bytes of stack that a cubin's kernel asks for, where it says so.
fn stack(cubin: &Path) -> Result<Option<u32>, String> {
    let bytes = std::fs::read(cubin).map_err(|e| format!("{}: {e}", cubin.display()))?;
    let loaded = Elf::read(&bytes).and_then(|elf| Loaded::load(&elf)).map_err(|d| d.message)?;
    Ok(loaded.kernels.iter().find(|k| k.name == KERNEL).and_then(|k| k.stack))
}

/// The line that says most: the first with an error, or else the first; not more than fits a line.
fn line(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|l| !l.is_empty());
    let word = |l: &&str| ["error", "fatal", "panicked"].iter().any(|w| l.contains(w));
    lines().find(word).or_else(|| lines().next()).unwrap_or("nothing was said").chars().take(300).collect()
}

/// Keeps the C of a program.
fn keep(folder: &Path, to: &Path) -> Result<(), String> {
    let include = to.join("include");
    std::fs::create_dir_all(&include).map_err(|e| format!("{}: {e}", include.display()))?;
    for (from, to) in [(folder.to_path_buf(), to), (folder.join("include"), include.as_path())] {
        for entry in std::fs::read_dir(&from).map_err(|e| e.to_string())?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "c" || e == "h") {
                std::fs::copy(&path, to.join(entry.file_name())).map_err(|e| format!("{}: {e}", path.display()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_are_named() {
        assert_eq!(differs(&[1, 2, 3], &[1, 2, 3]), None);
        assert_eq!(differs(&[1, 2, 3], &[1, 0, 0]).unwrap(), "2 of 3 words differ, first 1: 00000000 not 00000002");
        assert_eq!(differs(&[1], &[]).unwrap(), "0 words, not 1");
    }

    #[test]
    fn levels_and_targets() {
        assert_eq!(Level::parse("r32").unwrap().options, ["--maxrregcount=32"]);
        assert_eq!(Level::parse("max").unwrap().options, ["--Ofast-compile=max"]);
        assert!(Level::parse("O7").is_none() && Level::parse("r").is_none());
        assert_eq!(["sm_75", "sm_90a", "sm_120a"].map(target), ["sm_75", "sm_90a", "sm_90"]);
        assert_eq!(line("\n warning\nptxas error : x\n"), "ptxas error : x");
    }
}
