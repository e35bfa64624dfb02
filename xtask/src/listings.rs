//! Our `nvdisasm` beside the vendor's, whole files, on every chip: `cargo xtask conformance --nvdisasm`; and what our assembler and
//! hazard checker make of the same files.
//!
//! The files are the vendor's: `tests/kernels` and `tests/isa` compiled for every target at `-O1` and `-O3`, or those of a
//! folder. A run of the vendor's tool takes most of a second of CPU, so that all files in all ways take hours: a sample is
//! drawn before anything is compiled, `--sample N` files a target (0 for all), each in all ways; `--seed` draws others.

use crate::{oracle, root, test};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Random, Scratch, isa};

/// The ways of printing that are compared; `asm`: the text of a file gives its bytes again; `lint`: no hazard is found in it.
const WAYS: [&str; 8] = ["-c", "-hex -c", "-raw", "-json", "-plr", "-bbcfg", "asm", "lint"];

struct Options {
    targets: Vec<String>,
    sample: usize,
    seed: u64,
    from: Option<PathBuf>,
    ways: Vec<String>,
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut out = Options {
        targets: isa::TARGETS.iter().map(|t| t.to_string()).collect(),
        sample: 20,
        seed: 1,
        from: None,
        ways: WAYS.iter().map(|w| w.to_string()).collect(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--arch" => out.targets = value()?.split(',').map(|t| t.trim_start_matches("sm_").into()).collect(),
            "--sample" => out.sample = value()?.parse().map_err(|e| format!("--sample: {e}"))?,
            "--seed" => out.seed = value()?.parse().map_err(|e| format!("--seed: {e}"))?,
            "--from" => out.from = Some(PathBuf::from(value()?)),
            "--ways" => out.ways = value()?.split(',').map(str::to_string).collect(),
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    Ok(out)
}

/// `[--arch sm_XX,..] [--sample N] [--seed N] [--from FOLDER] [--ways "-c,-hex -c"]`; `--from` takes the cubins of `FOLDER/75` and so on.
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
    let (mut files, mut wrong_files, mut wrong) = (0, 0, Vec::new());
    for target in &options.targets {
        let mut random = Random(options.seed);
        let mut equal: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut done = 0;
        let mut each = |name: &str, cubin: &[u8]| {
            let file = dir.join("k.cubin");
            if std::fs::write(&file, cubin).is_err() {
                return 0;
            }
            let before = wrong.len();
            for way in &options.ways {
                if let "asm" | "lint" = way.as_str() {
                    let row = equal.entry(way).or_default();
                    row.1 += 1;
                    match own(way, &ours.with_file_name("sassafras"), &file) {
                        Ok(()) => row.0 += 1,
                        Err(why) => wrong.push(format!("sm_{target} {name} {way}: {why}")),
                    }
                    continue;
                }
                let print = |tool: &Path| Command::new(tool).args(way.split(' ')).arg(&file).output();
                let (Ok(a), Ok(b)) = (print(&theirs), print(&ours)) else { continue };
                // The vendor's tool crashes on some files.
                if a.status.code().is_none() {
                    continue;
                }
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
            wrong_files += usize::from(wrong.len() > before);
            1
        };
        match &options.from {
            Some(folder) => {
                let entries = std::fs::read_dir(folder.join(target)).map_err(|e| format!("sm_{target}: {e}"))?;
                let mut list: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
                list.retain(|f| f.extension().is_some_and(|e| e == "cubin"));
                list.sort();
                for file in drawn(list, options.sample, &mut random) {
                    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    done += each(&name, &std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?);
                }
            }
            None => {
                // Of what a target cannot compile nothing comes: others are drawn in its place.
                for source in drawn(isa::sources(&[1, 3]), 0, &mut random) {
                    if options.sample > 0 && done >= options.sample {
                        break;
                    }
                    source.compile(&oracle, target, &mut |name, cubin| done += each(name, cubin));
                }
            }
        }
        files += done;
        let row: Vec<String> = equal.iter().map(|(way, (a, n))| format!("{way} {a}/{n}")).collect();
        println!("sm_{target:5} {}", row.join("  "));
    }
    println!("{wrong_files} of {files} files differ");
    wrong.iter().for_each(|line| println!("    {line}"));
    match wrong_files * 100 > files || files == 0 {
        true => Err(format!("{wrong_files} of {files} files differ")),
        false => Ok(()),
    }
}

/// What our own tools find in a file: its text assembles to the same bytes, or no hazard.
fn own(way: &str, sassafras: &Path, file: &Path) -> Result<(), String> {
    let run = |args: &[&str], path: &Path| {
        let done = Command::new(sassafras).args(args).arg(path).output().map_err(|e| e.to_string())?;
        let said = [&done.stderr[..], &done.stdout].concat();
        let line = String::from_utf8_lossy(&said).lines().next().unwrap_or("no message").to_string();
        if done.status.success() { Ok(()) } else { Err(line) }
    };
    if way == "lint" {
        return run(&["lint"], file);
    }
    let (text, back) = (file.with_extension("sass"), file.with_extension("back"));
    run(&["asm", "-o", &text.to_string_lossy(), "--disassemble"], file)?;
    run(&["asm", "-o", &back.to_string_lossy()], &text)?;
    let read = |path: &Path| std::fs::read(path).map_err(|e| e.to_string());
    if read(file)? == read(&back)? { Ok(()) } else { Err("other bytes".into()) }
}

/// So many of a list, by chance; all in any order for 0.
fn drawn<T>(mut list: Vec<T>, count: usize, random: &mut Random) -> Vec<T> {
    for n in (1..list.len()).rev() {
        list.swap(n, random.index(n + 1));
    }
    if count > 0 {
        list.truncate(count);
    }
    list
}
