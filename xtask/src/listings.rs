//! Our `nvdisasm` beside the vendor's, whole files, on every chip: `cargo xtask conformance --nvdisasm`; and what our assembler and
//! hazard checker make of the same files.
//!
//! The files are the vendor's: `tests/kernels` and `tests/isa` compiled for every target at `-O1` and `-O3`, many kernels to a module, as a
//! run of the vendor's tool takes a quarter of a second of CPU before it looks at a file; with `--apart` each kernel alone; or those
//! of a folder. `--sample N` draws N files a target before anything is compiled, each in all ways; `--seed` draws others. With
//! `--cache FILE` what the vendor prints is asked for only once.

use crate::{oracle, root, test};
use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::{Random, Scratch, isa};

/// The ways of printing that are compared; `asm`: the text of a file gives its bytes again; `lint`: no hazard is found in it.
const WAYS: [&str; 8] = ["-c", "-hex -c", "-raw", "-json", "-plr", "-bbcfg", "asm", "lint"];

struct Options {
    targets: Vec<String>,
    sample: usize,
    /// So many of the order are left out: those that a run before has done.
    skip: usize,
    seed: u64,
    apart: bool,
    from: Option<PathBuf>,
    save: Option<PathBuf>,
    ways: Vec<String>,
    jobs: usize,
    /// When to stop although files are left.
    until: Option<Instant>,
    cache: Option<Cache>,
    /// Ask for nothing that the cache lacks.
    cached: bool,
}

fn options(args: &[String], version: u128) -> Result<Options, String> {
    let mut out = Options {
        targets: isa::TARGETS.iter().map(|t| t.to_string()).collect(),
        sample: 0,
        skip: 0,
        seed: 1,
        apart: false,
        from: None,
        save: None,
        ways: WAYS.iter().map(|w| w.to_string()).collect(),
        jobs: 1,
        until: None,
        cache: None,
        cached: false,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let number = |v: &String| v.parse::<usize>().map_err(|e| format!("{arg}: {e}"));
        match arg.as_str() {
            "--arch" => out.targets = value()?.split(',').map(|t| t.trim_start_matches("sm_").into()).collect(),
            "--sample" => out.sample = number(value()?)?,
            "--skip" => out.skip = number(value()?)?,
            "--seed" => out.seed = number(value()?)? as u64,
            "--apart" => out.apart = true,
            "--from" => out.from = Some(PathBuf::from(value()?)),
            "--save" => out.save = Some(PathBuf::from(value()?)),
            "--ways" => out.ways = value()?.split(',').map(str::to_string).collect(),
            "--jobs" => out.jobs = number(value()?)?.max(1),
            "--minutes" => out.until = Some(Instant::now() + Duration::from_secs(60 * number(value()?)? as u64)),
            "--cache" => out.cache = Some(Cache::open(Path::new(value()?), version)?),
            "--cached" => out.cached = true,
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    if out.cached && out.cache.is_none() {
        return Err("--cached needs --cache".into());
    }
    Ok(out)
}

/// What the vendor's tool printed: for each file, way and release the hash of its output, so that a run that changes nothing
/// asks for nothing. A line of the file is the hash of what was asked and that of what was printed.
struct Cache {
    version: u128,
    known: Mutex<(HashMap<u128, u128>, std::fs::File)>,
}

/// The hash that stands for a crash.
const CRASHED: u128 = 0;

impl Cache {
    fn open(path: &Path, version: u128) -> Result<Cache, String> {
        let fail = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = std::fs::OpenOptions::new().create(true).read(true).append(true).open(path).map_err(fail)?;
        let text = std::io::read_to_string(&file).map_err(fail)?;
        let line = |l: &str| {
            let (asked, printed) = l.split_once(' ')?;
            Some((u128::from_str_radix(asked, 16).ok()?, u128::from_str_radix(printed, 16).ok()?))
        };
        Ok(Cache { version, known: Mutex::new((text.lines().filter_map(line).collect(), file)) })
    }

    fn key(&self, cubin: &[u8], way: &str) -> u128 {
        hash(&[cubin, way.as_bytes(), &self.version.to_le_bytes()])
    }

    fn get(&self, key: u128) -> Option<u128> {
        self.known.lock().ok()?.0.get(&key).copied()
    }

    fn put(&self, key: u128, printed: u128) {
        if let Ok(mut known) = self.known.lock() {
            known.0.insert(key, printed);
            // What is not kept is asked for again.
            let _ = writeln!(known.1, "{key:x} {printed:x}");
        }
    }
}

/// FNV-1a of 128 bits, over the length and the bytes of each part.
fn hash(parts: &[&[u8]]) -> u128 {
    let mut h = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58du128;
    for part in parts {
        for byte in (part.len() as u64).to_le_bytes().iter().chain(*part) {
            h = (h ^ *byte as u128).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
    h
}

/// A file before it is there.
enum Item {
    Source(usize),
    File(PathBuf),
}

/// What was found, of all workers.
#[derive(Default)]
struct Found {
    /// For target and way: files that are equal, files.
    equal: BTreeMap<(usize, usize), (usize, usize)>,
    files: usize,
    wrong_files: usize,
}

/// The tools, and what is asked of them.
struct Run {
    options: Options,
    theirs: PathBuf,
    ours: PathBuf,
    found: Mutex<Found>,
}

/// `[--arch sm_XX,..] [--apart] [--sample N] [--seed N] [--skip N] [--from FOLDER] [--save FOLDER] [--ways "-c,-hex -c"] [--jobs N] [--minutes N]
/// [--cache FILE [--cached]]`; `--from` takes the cubins of `FOLDER/75` and so on, `--save` keeps them so; `--minutes` stops
/// then, and `--skip` begins where such a run ended; `--cached` compares only what the cache has.
///
/// # Errors
/// If more than one file in a hundred is printed otherwise.
pub fn run(args: &[String]) -> Result<(), String> {
    let theirs = oracle::tool("nvdisasm")?;
    let version = Command::new(&theirs).arg("--version").output().map_err(|e| e.to_string())?.stdout;
    let options = options(args, hash(&[&version]))?;
    let oracle = theirs.parent().and_then(Path::parent).ok_or("no folder of the oracle")?.to_path_buf();
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let sources = if options.apart { isa::sources(&[1, 3]) } else { isa::modules(&[1, 3]) };
    let items = items(&options, sources.len())?;
    let run = Run { options, theirs, ours: target.join("release/nvdisasm"), found: Mutex::default() };
    let next = AtomicUsize::new(run.options.skip);
    let done: Vec<AtomicUsize> = run.options.targets.iter().map(|_| AtomicUsize::new(0)).collect();
    let work = || {
        let dir = Scratch::new("listings");
        while run.options.until.is_none_or(|end| Instant::now() < end) {
            let Some((target, item)) = items.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            // Of what a target cannot compile nothing comes: others are drawn in its place.
            if run.options.sample > 0 && done[*target].load(Ordering::Relaxed) >= run.options.sample {
                continue;
            }
            let mut part = 0;
            let mut each = |name: &str, cubin: &[u8]| {
                part += 1;
                let name = if part > 1 { format!("{name}.{part}") } else { name.to_string() };
                if run.file(&dir, *target, &name, cubin) {
                    done[*target].fetch_add(1, Ordering::Relaxed);
                }
            };
            match item {
                Item::Source(n) => sources[*n].compile(&oracle, &run.options.targets[*target], &mut each),
                Item::File(path) => match std::fs::read(path) {
                    Ok(cubin) => each(&path.file_stem().unwrap_or_default().to_string_lossy(), &cubin),
                    Err(e) => eprintln!("{}: {e}", path.display()),
                },
            }
        }
    };
    std::thread::scope(|scope| (0..run.options.jobs).for_each(|_| drop(scope.spawn(work))));
    let left = items.len().saturating_sub(next.load(Ordering::Relaxed));
    if left > 0 {
        println!("stopped with {left} of {} files left", items.len());
    }
    let found = run.found.into_inner().map_err(|e| e.to_string())?;
    for (n, target) in run.options.targets.iter().enumerate() {
        let row = run.options.ways.iter().enumerate().filter_map(|(w, way)| {
            let (equal, of) = found.equal.get(&(n, w))?;
            Some(format!("{way} {equal}/{of}"))
        });
        println!("sm_{target:5} {}", row.collect::<Vec<_>>().join("  "));
    }
    let said = format!("{} of {} files differ", found.wrong_files, found.files);
    println!("{said}");
    match found.wrong_files * 100 > found.files || found.files == 0 {
        true => Err(said),
        false => Ok(()),
    }
}

/// The files of each target in an order by chance, a file of each target after the other.
fn items(options: &Options, sources: usize) -> Result<Vec<(usize, Item)>, String> {
    let mut lists = Vec::new();
    for target in &options.targets {
        let mut list: Vec<Item> = match &options.from {
            Some(folder) => {
                let entries = std::fs::read_dir(folder.join(target)).map_err(|e| format!("sm_{target}: {e}"))?;
                let mut list: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
                list.retain(|f| f.extension().is_some_and(|e| e == "cubin"));
                list.sort();
                list.into_iter().map(Item::File).collect()
            }
            None => (0..sources).map(Item::Source).collect(),
        };
        let mut random = Random(options.seed);
        for n in (1..list.len()).rev() {
            list.swap(n, random.index(n + 1));
        }
        lists.push(list.into_iter());
    }
    let mut out = Vec::new();
    loop {
        let before = out.len();
        out.extend(lists.iter_mut().enumerate().filter_map(|(target, list)| Some((target, list.next()?))));
        if out.len() == before {
            return Ok(out);
        }
    }
}

impl Run {
    /// Compares a file in all ways; false if there was nothing to compare.
    fn file(&self, dir: &Path, target: usize, name: &str, cubin: &[u8]) -> bool {
        let options = &self.options;
        let named = &options.targets[target];
        if let Some(save) = &options.save {
            let folder = save.join(named);
            let kept = std::fs::create_dir_all(&folder)
                .and_then(|()| std::fs::write(folder.join(format!("{}.cubin", name.replace(' ', ""))), cubin));
            if let Err(e) = kept {
                eprintln!("{}: {e}", folder.display());
            }
        }
        let file = dir.join("k.cubin");
        if std::fs::write(&file, cubin).is_err() {
            return false;
        }
        let mut results = Vec::new();
        for (n, way) in options.ways.iter().enumerate() {
            let result = match way.as_str() {
                // ptxas 13.5 makes an instruction of a chip to come for sm_75, which its own disassembler refuses there: what the
                // hazard checker says of such a file is true.
                "asm" | "lint" => match own(way, &self.ours.with_file_name("sassafras"), &file) {
                    Err(why) if way == "lint" && self.refused(dir, named, &why) => None,
                    result => Some(result),
                },
                _ => self.listing(way, &file, cubin),
            };
            let Some(result) = result else { continue };
            if let Err(why) = &result {
                println!("sm_{named} {name} {way}: {why}");
            }
            results.push((n, result.is_ok()));
        }
        if let Ok(mut found) = self.found.lock() {
            found.files += usize::from(!results.is_empty());
            found.wrong_files += usize::from(results.iter().any(|r| !r.1));
            for &(way, ok) in &results {
                let row = found.equal.entry((target, way)).or_default();
                *row = (row.0 + usize::from(ok), row.1 + 1);
            }
        }
        !results.is_empty()
    }

    /// True if the hazard checker found an instruction that nobody knows: the vendor's tool refuses it, too.
    fn refused(&self, dir: &Path, target: &str, why: &str) -> bool {
        let word = why.split_once("no known instruction: 0x").map(|w| u128::from_str_radix(w.1, 16));
        let (Some(Ok(word)), Some(oracle)) = (word, self.theirs.parent().and_then(Path::parent)) else { return false };
        isa::disassemble(oracle, dir, &format!("SM{target}"), &[word]) == [None]
    }

    /// Whether our listing of a file is the vendor's, and else from which line not; None if the vendor's tool crashes, as it does
    /// on some files, or is not to be asked.
    fn listing(&self, way: &str, file: &Path, cubin: &[u8]) -> Option<Result<(), String>> {
        let cache = self.options.cache.as_ref().map(|cache| (cache, cache.key(cubin, way)));
        let known = cache.and_then(|(cache, key)| cache.get(key));
        if known == Some(CRASHED) || self.options.cached && known.is_none() {
            return None;
        }
        let print = |tool: &Path| Command::new(tool).args(way.split(' ')).arg(file).output().ok();
        let ours = print(&self.ours)?.stdout;
        if known == Some(hash(&[&ours])) {
            return Some(Ok(()));
        }
        let theirs = print(&self.theirs)?;
        let crashed = theirs.status.code().is_none();
        if let (None, Some((cache, key))) = (known, cache) {
            cache.put(key, if crashed { CRASHED } else { hash(&[&theirs.stdout]) });
        }
        if crashed {
            return None;
        }
        if theirs.stdout == ours {
            return Some(Ok(()));
        }
        let (a, b) = (String::from_utf8_lossy(&theirs.stdout), String::from_utf8_lossy(&ours));
        let line = a.lines().zip(b.lines()).position(|(x, y)| x != y).map_or(0, |n| n + 1);
        Some(Err(format!("from line {line}")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_knows_files_ways_and_releases_apart() {
        let dir = Scratch::new("cache");
        let path = dir.join("cache");
        let cache = Cache::open(&path, 1).expect("opens");
        let key = cache.key(b"cubin", "-c");
        cache.put(key, hash(&[b"printed"]));
        cache.put(cache.key(b"cubin", "-json"), CRASHED);
        let again = Cache::open(&path, 1).expect("opens");
        assert_eq!(again.get(key), Some(hash(&[b"printed"])));
        assert_eq!(again.get(again.key(b"cubin", "-json")), Some(CRASHED));
        assert_eq!(again.get(again.key(b"cubi", "n-c")), None);
        assert_eq!(again.get(again.key(b"cubin", "-raw")), None);
        let newer = Cache::open(&path, 2).expect("opens");
        assert_eq!(newer.get(newer.key(b"cubin", "-c")), None);
    }

    #[test]
    fn hashes_are_those_of_fnv() {
        // The published value for nothing at all; what is divided otherwise is something else.
        assert_eq!(hash(&[]), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
    }
}
