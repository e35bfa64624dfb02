//! Our `nvdisasm` beside the vendor's, whole files, on every chip: `cargo xtask conformance --nvdisasm`.
//!
//! The files are the vendor's: `tests/kernels` and `tests/isa` compiled for every target at `-O1` and `-O3`, or those of a
//! folder. A run of the vendor's tool takes most of a second of CPU, so that all files in all ways take hours: `--every N`
//! takes one file in N, each in all ways.

use crate::{oracle, root, test};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Scratch, isa};

/// The ways of printing that are compared.
const WAYS: [&str; 6] = ["-c", "-hex -c", "-raw", "-json", "-plr", "-bbcfg"];

struct Options {
    targets: Vec<String>,
    every: usize,
    from: Option<PathBuf>,
    ways: Vec<String>,
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut out = Options {
        targets: isa::TARGETS.iter().map(|t| t.to_string()).collect(),
        every: 1,
        from: None,
        ways: WAYS.iter().map(|w| w.to_string()).collect(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--arch" => out.targets = value()?.split(',').map(|t| t.trim_start_matches("sm_").into()).collect(),
            "--every" => out.every = value()?.parse::<usize>().map_err(|e| format!("--every: {e}"))?.max(1),
            "--from" => out.from = Some(PathBuf::from(value()?)),
            "--ways" => out.ways = value()?.split(',').map(str::to_string).collect(),
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    Ok(out)
}

/// `[--arch sm_XX,..] [--every N] [--from FOLDER] [--ways "-c,-hex -c"]`; `--from` takes the cubins of `FOLDER/75` and so on.
///
/// # Errors
/// If more than one file in a hundred is printed otherwise.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let theirs = oracle::tool("nvdisasm")?;
    let oracle = theirs.parent().and_then(Path::parent).ok_or("no folder of the oracle")?.to_path_buf();
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let ours = target.join("release/nvdisasm");
    let dir = Scratch::new("listings");
    let (mut total, mut wrong) = (0, Vec::new());
    for target in &options.targets {
        let mut equal: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut count = 0;
        let mut each = |name: &str, cubin: &[u8]| {
            count += 1;
            if count % options.every != 0 {
                return;
            }
            let file = dir.join("k.cubin");
            if std::fs::write(&file, cubin).is_err() {
                return;
            }
            for way in &options.ways {
                let print = |tool: &Path| Command::new(tool).args(way.split(' ')).arg(&file).output();
                let (Ok(a), Ok(b)) = (print(&theirs), print(&ours)) else { continue };
                // The vendor's tool crashes on some files.
                if a.status.code().is_none() {
                    continue;
                }
                total += 1;
                let row = equal.entry(way).or_default();
                row.1 += 1;
                if a.stdout == b.stdout {
                    row.0 += 1;
                } else {
                    let (a, b) = (String::from_utf8_lossy(&a.stdout), String::from_utf8_lossy(&b.stdout));
                    let line = a.lines().zip(b.lines()).position(|(x, y)| x != y).map_or(0, |n| n + 1);
                    wrong.push(format!("sm_{target} {name} {way}: from line {line}"));
                }
            }
        };
        match &options.from {
            Some(folder) => {
                let entries = std::fs::read_dir(folder.join(target)).map_err(|e| format!("sm_{target}: {e}"))?;
                let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
                files.retain(|f| f.extension().is_some_and(|e| e == "cubin"));
                files.sort();
                for file in files {
                    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    each(&name, &std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?);
                }
            }
            None => {
                isa::kernels(&oracle, target, &[1, 3], 1, &mut each);
                isa::snippets(&oracle, target, &[1, 3], 1, &mut each);
            }
        }
        let row: Vec<String> = equal.iter().map(|(way, (a, n))| format!("{way} {a}/{n}")).collect();
        println!("sm_{target:5} {}", row.join("  "));
    }
    wrong.iter().for_each(|line| println!("    {line}"));
    match wrong.len() * 100 > total || total == 0 {
        true => Err(format!("{} of {total} listings differ", wrong.len())),
        false => Ok(()),
    }
}
