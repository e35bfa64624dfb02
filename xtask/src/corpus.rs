//! Any folder of PTX beside the vendor's newest ptxas: what is accepted, what compiling takes, what comes out.
//!
//! Cycles and waits are estimates from the code alone, as there are no launches ([`estimate`]).

mod estimate;

use crate::bench::{compile_any, number};
use crate::cost::Cost;
use crate::{oracle, root, test};
use cubin::elf::Elf;
use std::path::{Path, PathBuf};

/// Files that are listed at the end for each figure.
const WORST: usize = 10;

/// What a compiler made of a file.
#[derive(Clone, Copy, Default)]
pub struct Made {
    cost: Cost,
    instructions: f64,
    registers: f64,
    spills: f64,
    cycles: f64,
    waits: f64,
}

/// Runs of each tool on a file, the median of which counts.
const RUNS: usize = 3;

/// A name, and what of a file it is.
pub type Figure = (&'static str, fn(&Made) -> f64);

/// What compiling takes.
const COST: [Figure; 2] = [("CPU s", |m| m.cost.cpu), ("peak KiB", |m| m.cost.kib as f64)];

/// What code is compared by.
pub const CODE: [Figure; 5] = [
    ("instructions", |m| m.instructions),
    ("registers", |m| m.registers),
    ("spill bytes", |m| m.spills),
    ("static cycles", |m| m.cycles),
    ("waits", |m| m.waits),
];

/// Measures the folder `args[0]`.
pub fn run(args: &[String]) -> Result<(), String> {
    let [folder] = args else { return Err("usage: cargo xtask corpus DIR".into()) };
    let mut files = Vec::new();
    collect(Path::new(folder), &mut files).map_err(|e| format!("{folder}: {e}"))?;
    files.sort();
    if files.is_empty() {
        return Err(format!("{folder} holds no .ptx"));
    }
    let vendor = oracle::tool("ptxas")?;
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let ours = target.join("release/ptxas");
    let work = target.join("corpus");
    std::fs::create_dir_all(&work).map_err(|e| e.to_string())?;
    let mut rows: Vec<(String, [Made; 2])> = Vec::new();
    let (mut refused, mut gained) = (Vec::new(), Vec::new());
    let mut neither = 0;
    for file in &files {
        let name = file.strip_prefix(folder).unwrap_or(file).display().to_string();
        let text = String::from_utf8_lossy(&std::fs::read(file).map_err(|e| e.to_string())?).into_owned();
        let arch = testkit::oracle::arch(&text);
        let mut made = [None, None];
        let mut why = String::new();
        for (slot, tool) in made.iter_mut().zip([&vendor, &ours]) {
            // Several runs may share a folder.
            let out = work.join(format!("k{}.cubin", std::process::id()));
            let (mut code, mut cost, mut log) = compile_any(tool, file, arch, &[], &out)?;
            // A tool finds its own pages in memory when it runs again, and in the processor's caches what it left there, not what the other
            // one did: so it is for whoever compiles more than one file. The first run is left out.
            if code == 0 {
                let mut runs = Vec::with_capacity(RUNS);
                for _ in 0..RUNS {
                    runs.push(compile_any(tool, file, arch, &[], &out)?.1);
                }
                runs.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
                cost = runs.swap_remove(RUNS / 2);
            }
            // Checking every pass takes longer than compiling: once more, so that it is in no figure.
            if code == 0 && tool == &ours {
                (code, _, log) = compile_any(tool, file, arch, &["--verify"], &out)?;
            }
            if code == 0 {
                let mut m = measure(&out, &log)?;
                m.cost = cost;
                *slot = Some(m);
            } else {
                why = log.lines().find(|l| l.contains("error") || l.contains("fatal")).unwrap_or(&log).to_string();
            }
        }
        match made {
            [Some(v), Some(o)] => rows.push((name, [v, o])),
            [Some(_), None] => refused.push((name, why)),
            [None, Some(_)] => gained.push(name),
            [None, None] => neither += 1,
        }
    }
    println!(
        "{} files: accepted by both {}, by the vendor's tool alone {}, by ours alone {}, by neither {neither}",
        files.len(),
        rows.len(),
        refused.len(),
        gained.len()
    );
    for (name, why) in &refused {
        println!("refused: {name}: {why}");
    }
    for name in &gained {
        println!("accepted by ours alone: {name}");
    }
    if rows.is_empty() {
        return if refused.is_empty() { Ok(()) } else { Err("nothing that the vendor's tool accepts compiles".into()) };
    }
    table(&rows, &[&COST[..], &CODE].concat());
    if refused.is_empty() { Ok(()) } else { Err(format!("{} files are refused", refused.len())) }
}

/// Prints the figures of files, the vendor's and ours: sums and geometric means, and the worst of each.
pub fn table(rows: &[(String, [Made; 2])], figures: &[Figure]) {
    println!("{:<14} {:>14} {:>14} {:>7} {:>14}", "sum", "vendor", "ours", "ratio", "geometric mean");
    for (what, of) in figures {
        let sum = |i: usize| rows.iter().map(|r| of(&r.1[i])).sum::<f64>();
        let logs: Vec<f64> = rows.iter().map(|r| ratio(of(&r.1[1]), of(&r.1[0])).ln()).collect();
        let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        println!("{what:<14} {:>14.2} {:>14.2} {:>7.3} {mean:>14.3}", sum(0), sum(1), ratio(sum(1), sum(0)));
    }
    for (what, of) in figures {
        let mut list: Vec<(f64, &str, f64, f64)> =
            rows.iter().map(|(n, m)| (ratio(of(&m[1]), of(&m[0])), n.as_str(), of(&m[0]), of(&m[1]))).collect();
        list.sort_by(|a, b| b.0.total_cmp(&a.0));
        println!("worst by {what}:");
        for (r, name, v, o) in list.iter().take(WORST) {
            println!("  {r:>8.3}  vendor {v:>12.2}  ours {o:>12.2}  {name}");
        }
    }
}

/// One more than each, so that nothing is divided by zero, where the vendor's figure is 0.
fn ratio(ours: f64, vendor: f64) -> f64 {
    if vendor > 0.0 && ours > 0.0 { ours / vendor } else { (ours + 1.0) / (vendor + 1.0) }
}

/// The PTX files below a folder.
///
/// # Errors
/// A folder cannot be read.
pub fn collect(dir: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "ptx") {
            out.push(path);
        }
    }
    Ok(())
}

/// Measures a cubin; `log` is what its compiler said of it with `-v`.
///
/// # Errors
/// It cannot be read.
pub fn measure(file: &Path, log: &str) -> Result<Made, String> {
    let elf = Elf::read(&std::fs::read(file).map_err(|e| e.to_string())?).map_err(|d| d.message)?;
    let mut made = Made {
        registers: number(log, "Used ", true) as f64,
        spills: number(log, " bytes spill", false) as f64,
        ..Made::default()
    };
    for s in elf.sections.iter().filter(|s| s.name.starts_with(".text.")) {
        let words = s.data.chunks_exact(16).filter_map(|c| Some(u128::from_le_bytes(c.try_into().ok()?)));
        let code: Vec<_> = words.map(|w| sass::codec::decode(w, elf.sm())).collect();
        let e = estimate::estimate(&code);
        made.instructions += e.instructions;
        made.cycles += e.cycles;
        made.waits += e.waits;
    }
    Ok(made)
}
