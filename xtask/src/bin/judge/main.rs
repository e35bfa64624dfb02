//! The judge: runs every launch of a folder that `cargo xtask gpu` made on this machine's GPU, with the vendor's code
//! and with ours, compares what they leave with what the simulator left, and times both. See docs/gpu.md.
//!
//! The GPU is used by a second process (see [`worker`]), so that a kernel that faults or hangs spoils nothing but itself.

#[path = "../../compare.rs"]
mod compare;
mod cuda;
mod list;
mod objects;
mod possible;
mod report;
mod worker;

use compare::Bounds;
use list::Item;
use report::{Done, Machine};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

const USAGE: &str = "\
usage: judge [options]

  --filter WORD    only launches whose name contains the word
  --device N       which GPU (0)
  --repeat N       further runs of each launch that must leave the same memory (20)
  --timed N        launches of each that are timed (50)
  --timeout N      seconds that a launch may take with all its repetitions (60)
  --report FILE    where the JSON report goes (report.json beside the judge)

Exit status: 0 where our code left what the simulator says in every launch, 1 where not, 2 for a mistake, 3 without a GPU.
";

struct Options {
    filter: Option<String>,
    device: i32,
    times: worker::Times,
    timeout: u64,
    report: Option<PathBuf>,
    /// The worker's: first item and folder of results.
    worker: Option<(usize, PathBuf)>,
}

fn options() -> Result<Options, String> {
    let mut o = Options {
        filter: None,
        device: 0,
        times: worker::Times { repeat: 20, timed: 50 },
        timeout: 60,
        report: None,
        worker: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{a} needs a value"));
        let number = |s: String| s.parse::<usize>().map_err(|_| format!("'{s}' is no number"));
        match a.as_str() {
            "--filter" => o.filter = Some(value()?),
            "--device" => o.device = number(value()?)? as i32,
            "--repeat" => o.times.repeat = number(value()?)?,
            "--timed" => o.times.timed = number(value()?)?,
            "--timeout" => o.timeout = number(value()?)? as u64,
            "--report" => o.report = Some(value()?.into()),
            "--worker" => o.worker = Some((number(value()?)?, value()?.into())),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(o)
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let o = options()?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let root = program.parent().ok_or("no folder")?.to_path_buf();
    let items = list::read(&root, o.filter.as_deref())?;
    if let Some((first, out)) = &o.worker {
        worker::run(&root, &items, *first, o.device, o.times, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let driver = match cuda::Driver::open() {
        Ok(driver) => driver,
        Err(cuda::Missing::Gpu(why)) => {
            eprintln!("{why}");
            return Ok(ExitCode::from(3));
        }
        Err(cuda::Missing::Other(why)) => return Err(why),
    };
    let (gpu, sm) = driver.describe(o.device)?;
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let machine = Machine { gpu, sm, driver: driver.version(), time };
    eprintln!("{} (sm_{}), driver for CUDA {}", machine.gpu, machine.sm, machine.driver);
    let text = std::fs::read_to_string(root.join("bounds.toml")).map_err(|e| format!("bounds.toml: {e}"))?;
    let bounds = compare::bounds(&text)?;
    let out = std::env::temp_dir().join(format!("sassafras-judge-{}", std::process::id()));
    let done = all(&program, &items, &o, &out, &|item, dir| differs(&root, item, dir, &bounds))?;
    let _ = std::fs::remove_dir_all(&out);
    let path = o.report.unwrap_or_else(|| root.join("report.json"));
    std::fs::write(&path, report::json(&machine, &items, &done)).map_err(|e| format!("{}: {e}", path.display()))?;
    let (text, good) = report::table(&items, &done);
    print!("{text}");
    Ok(if good && !items.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How the memory that an item left differs from the simulator's.
fn differs(root: &Path, item: &Item, dir: &Path, bounds: &HashMap<String, Bounds>) -> Option<String> {
    let kernel = item.name.split('.').next().unwrap_or_default();
    let bound = bounds.get(&item.name).or_else(|| bounds.get(kernel)).copied().unwrap_or_default().exact;
    let read = |dir: &Path| -> Vec<Vec<u8>> {
        (0..).map_while(|n| std::fs::read(dir.join(format!("{n}.bin"))).ok()).collect()
    };
    compare::compare(&read(&root.join("expected").join(&item.name)), &read(dir), bound).err()
}

/// A worker with the lines that it prints.
struct Worker {
    child: Child,
    lines: Receiver<String>,
}

fn start(program: &Path, first: usize, o: &Options, out: &Path) -> Result<Worker, String> {
    let mut command = Command::new(program);
    command.args(["--worker", &first.to_string()]).arg(out).args(["--device", &o.device.to_string()]);
    command.args(["--repeat", &o.times.repeat.to_string(), "--timed", &o.times.timed.to_string()]);
    if let Some(f) = &o.filter {
        command.args(["--filter", f]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| e.to_string())?;
    let stdout = child.stdout.take().ok_or("no output")?;
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok(Worker { child, lines })
}

/// Runs all items; a worker that fails, dies or hangs is replaced by one that begins with the next item.
fn all(
    program: &Path,
    items: &[Item],
    o: &Options,
    out: &Path,
    differs: &dyn Fn(&Item, &Path) -> Option<String>,
) -> Result<Vec<Done>, String> {
    let mut done: Vec<Done> = Vec::new();
    while done.len() < items.len() {
        let mut w = start(program, done.len(), o, out)?;
        loop {
            let n = done.len();
            let line = match w.lines.recv_timeout(Duration::from_secs(o.timeout)) {
                Ok(line) => line,
                Err(e) => {
                    let _ = w.child.kill();
                    let status = w.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                    if n < items.len() {
                        let why = match e {
                            RecvTimeoutError::Timeout => format!("no end after {} s", o.timeout),
                            RecvTimeoutError::Disconnected => format!("the process ended: {status}"),
                        };
                        done.push(Done { failed: Some(why), ..Done::default() });
                    }
                    break;
                }
            };
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            if number.parse() != Ok(n) {
                return Err(format!("the worker says '{line}' at item {n}"));
            }
            match word {
                "begin" => continue,
                "failed" => {
                    done.push(Done { failed: Some(rest.into()), ..Done::default() });
                    let _ = w.child.wait();
                    break;
                }
                _ => {
                    let pair = |p: &str| p.split_once('=').and_then(|(k, v)| Some((k.to_string(), v.parse().ok()?)));
                    let figures = rest.split(' ').filter_map(pair).collect();
                    let dir = out.join(n.to_string());
                    done.push(Done { failed: None, differs: differs(&items[n], &dir), figures });
                    let _ = std::fs::remove_dir_all(&dir);
                    if done.len() == items.len() {
                        let _ = w.child.wait();
                        break;
                    }
                }
            }
        }
    }
    Ok(done)
}
