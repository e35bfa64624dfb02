//! The witnesses for each chip: what the PTX interpreter leaves of every launch in `tests/kernels`, and what the vendor's code
//! for the chip, or ours (`--ours`), leaves in the simulator of machine code. The kernels of `features` name their chips; the others are compiled
//! for every chip that is asked for, and those that the vendor's ptxas refuses for a chip because the chip lacks what they use
//! are listed as such.

use crate::compare::{Bound, bounds, compare};
use crate::{oracle, root};
use sim::{Config, Launch};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// What came of a launch on a chip.
#[derive(Clone, PartialEq, Debug)]
enum Cell {
    Agree,
    /// The chip cannot have it: why.
    Lacks(String),
    /// Our compiler does not make it yet: why.
    Missing(String),
    Differs(String),
}

impl Cell {
    fn text(&self) -> &'static str {
        match self {
            Cell::Agree => "agree",
            Cell::Lacks(_) => "lacks",
            Cell::Missing(_) => "missing",
            Cell::Differs(_) => "DISAGREE",
        }
    }
}

struct Row {
    name: String,
    cells: Vec<Cell>,
}

/// Whose code is asked.
enum Compiler {
    Vendor(PathBuf),
    /// At a level of `--Ofast-compile`, where one is named.
    Ours(PathBuf, Option<String>),
}

/// `CHIP,.. [--filter NAME] [--every N] [--ours [--level LEVEL]]`: the table for these chips, of launches whose name contains NAME, one in N.
pub fn run(args: &[String]) -> Result<(), String> {
    let usage = "usage: cargo xtask conformance --chips sm_75,.. [--filter NAME] [--every N] [--ours [--level LEVEL]]";
    let chips: Vec<String> = args.first().ok_or(usage)?.split(',').map(str::to_string).collect();
    let (mut filter, mut every) = (None, 1);
    let mut vendor = Compiler::Vendor(oracle::tool("ptxas")?);
    let mut rest = args[1..].iter();
    while let Some(flag) = rest.next() {
        match (flag.as_str(), rest.as_slice().first()) {
            ("--ours", _) => vendor = Compiler::Ours(crate::conformance::built()?.join("ptxas"), None),
            ("--level", Some(word)) => match &mut vendor {
                Compiler::Ours(_, level) => *level = Some(format!("--Ofast-compile={word}")),
                Compiler::Vendor(_) => return Err(usage.into()),
            },
            ("--filter", Some(word)) => filter = Some(word.as_str()),
            ("--every", Some(n)) => every = n.parse().map_err(|_| usage)?,
            _ => return Err(usage.into()),
        }
        if flag != "--ours" {
            rest.next();
        }
    }
    let text =
        std::fs::read_to_string(root().join("tests/kernels/bounds.toml")).map_err(|e| format!("bounds.toml: {e}"))?;
    let bounds = bounds(&text)?;
    let mut files: Vec<PathBuf> = ["cuda", "triton", "features"]
        .iter()
        .flat_map(|f| testkit::files(&format!("tests/kernels/{f}"), "toml"))
        .filter(|f| filter.is_none_or(|w| stem(f).contains(w)))
        .collect();
    files.sort();
    let files: Vec<PathBuf> = files.into_iter().step_by(every.max(1)).collect();
    let count = files.len();
    let work = Mutex::new(files.into_iter());
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let Some(file) = work.lock().ok().and_then(|mut w| w.next()) else { return };
                    let name = stem(&file);
                    let of = |key: &str| bounds.get(key).map(|b| b.exact);
                    let bound = of(&name).or_else(|| of(name.split('.').next()?)).flatten();
                    let cells = cells(&file, &vendor, &chips, bound);
                    let cells = cells.unwrap_or_else(|e| vec![Cell::Differs(e); chips.len()]);
                    if let Ok(mut rows) = rows.lock() {
                        rows.push(Row { name, cells });
                    }
                }
            });
        }
    });
    let mut rows = rows.into_inner().map_err(|e| e.to_string())?;
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    println!("{:<36} {}", "", chips.iter().map(|c| format!("{c:<9}")).collect::<String>().trim_end());
    for row in &rows {
        let cells: String = row.cells.iter().map(|c| format!("{:<9}", c.text())).collect();
        println!("{:<36} {}", row.name, cells.trim_end());
        let mut told = Vec::new();
        for (chip, cell) in chips.iter().zip(&row.cells) {
            if let Cell::Lacks(why) | Cell::Missing(why) | Cell::Differs(why) = cell
                && !told.contains(why)
            {
                println!("{:<36} {chip}: {why}", "");
                told.push(why.clone());
            }
        }
    }
    let all = |k: usize, what: &str| rows.iter().filter(|r| r.cells[k].text() == what).count();
    let mut bad = 0;
    for (k, chip) in chips.iter().enumerate() {
        bad += all(k, "DISAGREE");
        let (agree, lack, missing) = (all(k, "agree"), all(k, "lacks"), all(k, "missing"));
        println!("{chip}: {agree} agree, {lack} lack it, {missing} missing, {} disagree", all(k, "DISAGREE"));
    }
    if bad > 0 || rows.len() != count || rows.is_empty() {
        return Err(format!("conformance: {bad} of {} results disagree", rows.len() * chips.len()));
    }
    Ok(())
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The version of PTX from which all chips since sm_100 are known.
const NEWER: f32 = 9.0;

/// Is the chip one that only newer versions of PTX know?
pub fn newer(chip: &str) -> bool {
    let digits: String = chip.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u16>().is_ok_and(|n| n >= 100)
}

/// The text for a chip, in a version of PTX that knows it.
pub fn retargeted(text: &str, chip: &str) -> String {
    let old = |v: &str| newer(chip) && v.trim().parse::<f32>().is_ok_and(|v| v < NEWER);
    let change = |line: &str| match line.strip_prefix(".target ") {
        None if line.strip_prefix(".version ").is_some_and(old) => format!(".version {NEWER:.1}\n"),
        Some(rest) => {
            let rest = rest.find([',', ' ', '\n']).map_or("", |at| &rest[at..]);
            format!(".target {chip}{rest}")
        }
        None => line.to_string(),
    };
    text.split_inclusive('\n').map(change).collect()
}

/// Does the message say that a chip lacks what the text uses?
fn lacks(message: &str) -> bool {
    message.contains("requires .target") || message.contains("not supported on .target")
}

fn cells(file: &Path, compiler: &Compiler, chips: &[String], bound: Option<Bound>) -> Result<Vec<Cell>, String> {
    let folder = file.parent().ok_or("no folder")?;
    let read = |f: &Path| std::fs::read_to_string(f).map_err(|e| format!("{}: {e}", f.display()));
    let launch = Launch::parse(&read(file)?, &mut |f| std::fs::read(folder.join(f)).map_err(|e| e.to_string()))
        .map_err(|d| d.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; "))?;
    let source = read(&folder.join(stem(file).split('.').next().unwrap_or_default()).with_extension("ptx"))?;
    let (module, list) = ptx::parse(&source);
    if let Some(d) = list.iter().find(|d| d.is_error()) {
        return Err(format!("PTX: {}", d.message));
    }
    let named = source.lines().next().and_then(|l| l.strip_prefix("// chips:"));
    let config = Config { threads: 1, ..Config::default() };
    let want = sim::run_ptx(&module, &launch, &config).map_err(|f| format!("PTX interpreter: {f}"))?;
    let scratch = testkit::Scratch::new("chips");
    let one = |chip: &String| -> Result<Cell, String> {
        if named.is_some_and(|n| !n.split_whitespace().any(|c| c == chip)) {
            return Ok(Cell::Lacks("it is not for this chip".into()));
        }
        let (ptx, cubin) = (scratch.join("a.ptx"), scratch.join("a.cubin"));
        std::fs::write(&ptx, retargeted(&source, chip)).map_err(|e| e.to_string())?;
        let mut command = match compiler {
            Compiler::Vendor(tool) => Command::new(tool),
            Compiler::Ours(tool, level) => {
                let mut command = Command::new(tool);
                command.arg("--verify").args(level);
                command
            }
        };
        command.arg(format!("-arch={chip}")).arg("-fmad=false").arg(&ptx).arg("-o").arg(&cubin);
        let done = command.output().map_err(|e| e.to_string())?;
        if !done.status.success() {
            let text = String::from_utf8_lossy(&done.stderr);
            let first = text.lines().find(|l| lacks(l)).map(|l| l.split("error   : ").last().unwrap_or(l).to_string());
            let missing = text.lines().find(|l| l.contains("not supported yet") || l.contains("no machine code for"));
            return Ok(match (first, missing) {
                (Some(why), _) => Cell::Lacks(why),
                (None, Some(why)) => Cell::Missing(why.trim().to_string()),
                (None, None) => Cell::Differs(format!("ptxas: {}", text.lines().next().unwrap_or("failed"))),
            });
        }
        let bytes = std::fs::read(&cubin).map_err(|e| e.to_string())?;
        Ok(match sim::run_sass(&bytes, &launch, &config) {
            Err(f) => Cell::Differs(f.to_string()),
            Ok(got) => match compare(&want.buffers, &got.buffers, bound) {
                Ok(()) => Cell::Agree,
                Err(why) => Cell::Differs(why),
            },
        })
    };
    chips.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_target_changes() {
        let text = ".version 9.0\n.target sm_90a, texmode_independent\n.address_size 64\n";
        assert_eq!(retargeted(text, "sm_75"), ".version 9.0\n.target sm_75, texmode_independent\n.address_size 64\n");
        assert_eq!(retargeted(".version 8.0\n.target sm_90\n", "sm_103a"), ".version 9.0\n.target sm_103a\n");
        assert_eq!(retargeted(".version 9.1\n.target sm_90\n", "sm_103a"), ".version 9.1\n.target sm_103a\n");
        assert!(lacks("ptxas a.ptx, line 3; error   : Feature 'redux' requires .target sm_80 or higher"));
        assert!(!lacks("ptxas fatal   : Unresolved extern function 'f'"));
    }
}
