//! Random C programs, through clang: csmith makes programs without undefined behaviour (or YARPGen does), clang makes PTX and a program for this
//! machine of each, and what the processor prints is what our code must give in the simulator, at every level that is asked for.
//!
//! A program is run by one thread of a block ([`Kind::Single`]), or by a warp whose threads it is made to divide ([`Kind::Divided`]:
//! [`divide`]). The same seed makes the same program, with the same generator and clang. What the sanitizers
//! find undefined, and what is too long for the simulator, is counted and not judged.

mod divide;
mod judge;
mod make;
mod quality;
mod simulate;
mod sources;
mod tools;

use crate::{conformance, oracle};
use judge::{Level, Verdict};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::Scratch;

pub use simulate::simulate;

/// What kind of programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// csmith's, by one thread.
    Single,
    /// csmith's without global variables, by 32 threads that go different ways.
    Divided,
    /// YARPGen's loops over arrays, by one thread.
    Yarpgen,
}

impl Kind {
    /// The word for it, in rows and names of files.
    fn word(self) -> &'static str {
        match self {
            Kind::Single => "single",
            Kind::Divided => "divided",
            Kind::Yarpgen => "yarpgen",
        }
    }
}

/// What the command line asks for.
struct Options {
    seeds: RangeInclusive<u64>,
    kind: Kind,
    chips: Vec<String>,
    levels: Vec<Level>,
    clang: Option<String>,
    headers: Option<PathBuf>,
    /// A compiler that is there, instead of the one that is built.
    ptxas: Option<PathBuf>,
    jobs: usize,
    /// After so long no more programs are begun.
    minutes: Option<u64>,
    save: Option<PathBuf>,
    quality: bool,
}

/// Programs until the next word of how far it is.
const PROGRESS: usize = 50;

const USAGE: &str = "\
usage: cargo xtask c-programs [A..B] [--divided] [--generator csmith|yarpgen] [--chip sm_90,..] [--levels O3,max,O1,r32]
                              [--quality] [--save DIR] [--jobs N] [--minutes N] [--clang NAME] [--csmith-headers DIR] [--ptxas FILE]";

fn options(args: &[String]) -> Result<Options, String> {
    let mut o = Options {
        seeds: 1..=40,
        kind: Kind::Single,
        chips: vec!["sm_90".into()],
        levels: ["O3", "max", "O1", "r32"].into_iter().filter_map(Level::parse).collect(),
        clang: None,
        headers: None,
        ptxas: None,
        jobs: 2,
        minutes: None,
        save: None,
        quality: false,
    };
    let mut divided = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or_else(|| format!("{arg} wants a value; {USAGE}"));
        match arg.as_str() {
            "--divided" => divided = true,
            "--quality" => o.quality = true,
            "--generator" => match value()?.as_str() {
                "csmith" => {}
                "yarpgen" => o.kind = Kind::Yarpgen,
                other => return Err(format!("--generator takes csmith or yarpgen, not '{other}'")),
            },
            "--chip" => {
                o.chips = value()?.split(',').map(String::from).collect();
                if let Some(bad) = o.chips.iter().find(|c| arch::Target::parse(c).is_none()) {
                    return Err(format!("unknown target '{bad}'"));
                }
            }
            "--levels" => {
                let level =
                    |w: &str| Level::parse(w).ok_or_else(|| format!("unknown level '{w}': O0 to O3, mid, max, rN"));
                o.levels = value()?.split(',').map(level).collect::<Result<_, _>>()?;
            }
            "--clang" => o.clang = Some(value()?),
            "--csmith-headers" => o.headers = Some(value()?.into()),
            "--ptxas" => o.ptxas = Some(value()?.into()),
            "--save" => o.save = Some(value()?.into()),
            "--jobs" | "--minutes" => {
                let n = value()?;
                let n = n.parse::<u32>().map_err(|_| format!("{n} is no number"))?;
                match arg.as_str() {
                    "--jobs" => o.jobs = n.max(1) as usize,
                    _ => o.minutes = Some(n.into()),
                }
            }
            range => {
                let (from, to) = range.split_once("..").unwrap_or((range, range));
                let number = |s: &str| s.parse::<u64>().map_err(|_| USAGE.to_string());
                o.seeds = number(from)?..=number(to)?;
            }
        }
    }
    if divided && o.kind == Kind::Yarpgen {
        return Err("--divided is for csmith's programs".into());
    }
    if divided {
        o.kind = Kind::Divided;
    }
    if o.seeds.is_empty() {
        return Err("no seeds".into());
    }
    Ok(o)
}

/// What came of all programs.
#[derive(Default)]
struct Totals {
    made: usize,
    right: usize,
    wrong: usize,
    /// Different words of the threads of those that are right, and how many have more than one.
    ways: usize,
    apart: usize,
    /// Warp instructions of each of them.
    steps: Vec<u64>,
    /// Why programs were not judged.
    skipped: BTreeMap<&'static str, usize>,
    /// Why code was not run, by level.
    unrun: BTreeMap<String, usize>,
    figures: Vec<quality::Row>,
}

/// Makes, compiles and runs the programs.
///
/// # Errors
/// Where a tool is missing, and where anything is wrong with a program.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let work = Scratch::new("c-programs");
    tools::generator(options.kind, &work)?;
    let headers = tools::headers(options.kind, options.headers.as_deref())?;
    let clang = tools::Clang::find(options.clang.as_deref(), headers, &work)?;
    let vendor = if options.quality { Some(oracle::tool("ptxas")?) } else { None };
    let ours = match &options.ptxas {
        Some(named) => named.clone(),
        None => conformance::built()?.join("ptxas"),
    };
    let judge = judge::Judge { clang, ours, vendor, options: &options };
    let next = AtomicU64::new(*options.seeds.start());
    let end = options.minutes.map(|n| Instant::now() + Duration::from_secs(60 * n));
    let totals = Mutex::new(Totals::default());
    let broken = Mutex::new(None);
    std::thread::scope(|scope| {
        for n in 0..options.jobs {
            let (next, totals, judge, broken, work) = (&next, &totals, &judge, &broken, &work);
            scope.spawn(move || {
                let folder = work.join(n.to_string());
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > *judge.options.seeds.end() || end.is_some_and(|end| Instant::now() > end) {
                        return;
                    }
                    match judge.program(seed, &folder) {
                        Ok(report) => {
                            if let Ok(mut t) = totals.lock() {
                                t.count(seed, judge.options.kind, report);
                            }
                        }
                        // The disk is full, a tool went away: no more of it.
                        Err(e) => {
                            next.store(u64::MAX / 2, Ordering::Relaxed);
                            if let Ok(mut b) = broken.lock() {
                                *b = Some(format!("seed {seed}: {e}"));
                            }
                            return;
                        }
                    }
                }
            });
        }
    });
    if let Some(e) = broken.into_inner().map_err(|e| e.to_string())? {
        return Err(e);
    }
    totals.into_inner().map_err(|e| e.to_string())?.tell(options.kind)
}

impl Totals {
    /// Counts a program, and prints a row for each thing that is wrong with it.
    fn count(&mut self, seed: u64, kind: Kind, report: judge::Report) {
        self.made += 1;
        if let Some(said) = report.note {
            println!("{} {seed}: clang: {said}", kind.word());
        }
        match report.verdict {
            Verdict::Right => {
                self.right += 1;
                self.ways += report.ways;
                self.steps.push(report.steps);
                self.apart += usize::from(report.ways > 1);
            }
            Verdict::Skipped(why) => *self.skipped.entry(why).or_default() += 1,
            Verdict::Wrong(rows) => {
                self.wrong += 1;
                rows.iter().for_each(|row| println!("{} {seed}: {row}", kind.word()));
            }
        }
        for what in report.unrun {
            *self.unrun.entry(what).or_default() += 1;
        }
        self.figures.extend(report.figures);
        if self.made.is_multiple_of(PROGRESS) {
            eprintln!("{} programs, seeds to {seed} or so: {} right, {} wrong", self.made, self.right, self.wrong);
        }
    }

    fn tell(mut self, kind: Kind) -> Result<(), String> {
        let skipped: usize = self.skipped.values().sum();
        println!(
            "{} programs ({}): {} right, {} wrong, {skipped} skipped",
            self.made,
            kind.word(),
            self.right,
            self.wrong
        );
        self.steps.sort_unstable();
        let at = |tenths: usize| self.steps.get(self.steps.len() * tenths / 10).copied().unwrap_or(0);
        if self.right > 0 {
            println!(
                "PTX instructions of a warp: at least {} in nine of ten, {} in half, {} in one of ten",
                at(1),
                at(5),
                at(9)
            );
        }
        if kind == Kind::Divided && self.right > 0 {
            let mean = self.ways as f64 / self.right as f64;
            println!(
                "{} of those that are right divide their warp; threads leave {mean:.1} different words on average",
                self.apart
            );
        }
        for (why, n) in &self.skipped {
            println!("{n:>6} skipped: {why}");
        }
        for (what, n) in &self.unrun {
            println!("{n:>6} not run: {what}");
        }
        if !self.figures.is_empty() {
            quality::tell(&self.figures);
        }
        if self.wrong > 0 {
            return Err(format!("c-programs: {} of {} programs show something wrong", self.wrong, self.made));
        }
        if self.right == 0 {
            return Err("c-programs: nothing was judged".into());
        }
        Ok(())
    }
}
