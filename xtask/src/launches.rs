//! Kernels that nobody wrote launches for: every entry of every PTX file below a folder is launched with arguments made up
//! from its declaration ([`makeup`]) and from what it does with them ([`flow`]), and three witnesses say what it leaves, as in
//! `conformance`. The first launch that the PTX interpreter ends without a fault, and that changes memory, is the one; kernels
//! for which none is found are counted by what stopped them.

mod flow;
mod judge;
mod makeup;
pub mod save;

use crate::corpus::collect;
use crate::{conformance, oracle};
use judge::{Tools, Verdict};
use ptx::module::{FuncId, FuncKind};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What the command line asks for.
struct Options {
    folder: PathBuf,
    seed: u64,
    filter: Option<String>,
    arch: Option<String>,
    level: Option<String>,
    /// Entries of a file at most.
    each: usize,
    jobs: usize,
    save: Option<PathBuf>,
}

const USAGE: &str = "usage: cargo xtask launches DIR [--seed N] [--filter WORD] [--arch sm_XX] [--level LEVEL] [--each N] [--jobs N] [--save FOLDER]";

fn options(args: &[String]) -> Result<Options, String> {
    let [folder, rest @ ..] = args else { return Err(USAGE.into()) };
    if !Path::new(folder).is_dir() {
        return Err(format!("no folder {folder}; {USAGE}"));
    }
    let mut o = Options {
        folder: folder.into(),
        seed: 1,
        filter: None,
        arch: None,
        level: None,
        each: usize::MAX,
        jobs: 2,
        save: None,
    };
    for pair in rest.chunks(2) {
        let [flag, value] = pair else { return Err(USAGE.into()) };
        let number = || value.parse::<usize>().map_err(|_| format!("{value} is no number"));
        match flag.as_str() {
            "--seed" => o.seed = number()? as u64,
            "--filter" => o.filter = Some(value.clone()),
            "--arch" => o.arch = Some(value.clone()),
            "--level" => o.level = Some(format!("--Ofast-compile={value}")),
            "--each" => o.each = number()?,
            "--jobs" => o.jobs = number()?.max(1),
            "--save" => o.save = Some(value.into()),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(o)
}

/// What came of all entries.
#[derive(Default)]
struct Totals {
    entries: usize,
    /// By the word of the verdict.
    verdicts: BTreeMap<&'static str, usize>,
    /// Why entries were skipped.
    reasons: BTreeMap<String, usize>,
}

/// Launches the kernels of the folder `args[0]`.
///
/// # Errors
/// Where a tool or file is missing, and where our code is wrong.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let mut files = Vec::new();
    collect(&options.folder, &mut files).map_err(|e| format!("{}: {e}", options.folder.display()))?;
    files.sort();
    files.retain(|f| options.filter.as_ref().is_none_or(|w| f.to_string_lossy().contains(w.as_str())));
    if files.is_empty() {
        return Err(format!("{} holds no such .ptx", options.folder.display()));
    }
    let tools = Tools {
        vendor: oracle::tool("ptxas")?,
        ours: conformance::built()?.join("ptxas"),
        arch: options.arch.clone(),
        further: options.level.iter().cloned().collect(),
    };
    let work = Mutex::new(files.into_iter());
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for n in 0..options.jobs {
            let (work, totals, tools, options) = (&work, &totals, &tools, &options);
            scope.spawn(move || {
                while let Some(file) = work.lock().ok().and_then(|mut w| w.next()) {
                    launch_all(&file, tools, options, n, totals);
                }
            });
        }
    });
    let totals = totals.into_inner().map_err(|e| e.to_string())?;
    let list: Vec<String> = totals.verdicts.iter().map(|(word, n)| format!("{n} {word}")).collect();
    println!("{} entries: {}", totals.entries, list.join(", "));
    for (why, n) in &totals.reasons {
        println!("{n:>6} skipped: {why}");
    }
    match totals.verdicts.get(Verdict::OURS) {
        None => Ok(()),
        Some(n) => Err(format!("launches: our code is wrong in {n} of {}", totals.entries)),
    }
}

/// Launches the entries of a file, and prints a row for each as soon as it is known.
fn launch_all(file: &Path, tools: &Tools, options: &Options, thread: usize, totals: &Mutex<Totals>) {
    let name = file.strip_prefix(&options.folder).unwrap_or(file).with_extension("").display().to_string();
    let tell = |entry: &str, verdict: &Verdict| {
        // Names of kernels can be longer than any line.
        let short: String = entry.chars().take(60).collect();
        let Ok(mut t) = totals.lock() else { return };
        println!("{name} {short}: {verdict}");
        t.entries += 1;
        *t.verdicts.entry(verdict.word()).or_default() += 1;
        if let Verdict::Skipped { why, .. } = verdict {
            *t.reasons.entry(why.clone()).or_default() += 1;
        }
    };
    let source = match std::fs::read(file) {
        Ok(source) => source,
        Err(e) => return tell("", &Verdict::skipped("unreadable", e.to_string())),
    };
    let (module, list) = ptx::parse_bytes(&source);
    if let Some(d) = list.iter().find(|d| d.is_error()) {
        return tell("", &Verdict::skipped("no checked PTX", d.message.clone()));
    }
    let mut compiled = judge::Compiled::new(file, &module, tools, thread);
    let entries = module.funcs.iter().enumerate().filter(|(_, f)| f.kind == FuncKind::Entry && f.body.is_some());
    for (i, f) in entries.take(options.each) {
        let (verdict, launch) = judge::entry(&module, FuncId(i as u32), &mut compiled, options.seed);
        tell(&f.name, &verdict);
        let wanted = !matches!(verdict, Verdict::Same { .. } | Verdict::Near { .. });
        if let (Some(folder), Some(launch), true) = (&options.save, launch, wanted || options.filter.is_some()) {
            let stem = name.replace('/', "_");
            if let Err(e) = save::save(folder, &format!("{stem}.{i}"), file, &launch) {
                println!("{}: {e}", folder.display());
            }
        }
    }
}
