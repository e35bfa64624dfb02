//! Three witnesses of every launch in `tests/kernels`: the PTX interpreter, the vendor's machine code and ours in the
//! simulator, with the hazard check on and without contraction. All must leave the same bytes; kernels with functions
//! that PTX does not define to the bit may differ by what `tests/kernels/bounds.toml` allows. Then the vendor's nvdisasm
//! of our file must be our own listing of it.

use crate::{oracle, root, test};
use sim::{Config, Launch, Outcome};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const THREADS: usize = 2;

struct Row {
    name: String,
    results: Result<String, String>,
}

/// Runs all launches, or those whose name contains the word behind `--filter`.
pub fn run(args: &[String]) -> Result<(), String> {
    let filter = match args {
        [] => None,
        [flag, word] if flag == "--filter" => Some(word.as_str()),
        _ => return Err("usage: cargo xtask conformance [--filter NAME]".into()),
    };
    let (vendor, disassembler) = (oracle::tool("ptxas")?, oracle::tool("nvdisasm")?);
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let ours = target.join("release");
    let bounds = bounds()?;
    let mut files = Vec::new();
    for folder in ["cuda", "triton"] {
        let entries = std::fs::read_dir(root().join("tests/kernels").join(folder)).map_err(|e| e.to_string())?;
        files.extend(entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "toml")));
    }
    files.retain(|f| filter.is_none_or(|w| stem(f).contains(w)));
    files.sort();
    let work = Mutex::new(files.into_iter());
    let rows = Mutex::new(Vec::new());
    let tools = Tools { vendor, disassembler, ours };
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            let (work, rows, tools, bounds) = (&work, &rows, &tools, &bounds);
            scope.spawn(move || {
                loop {
                    let Some(file) = work.lock().ok().and_then(|mut w| w.next()) else { return };
                    let name = stem(&file);
                    let bound = bounds.get(name.split('.').next().unwrap_or_default()).copied();
                    let row = Row { results: launch(&file, tools, bound, n), name };
                    if let Ok(mut rows) = rows.lock() {
                        rows.push(row);
                    }
                }
            });
        }
    });
    let mut rows = rows.into_inner().map_err(|e| e.to_string())?;
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    let mut bad = 0;
    for row in &rows {
        match &row.results {
            Ok(text) => println!("{:<32} {text}", row.name),
            Err(text) => {
                bad += 1;
                println!("{:<32} DISAGREE {text}", row.name);
            }
        }
    }
    println!("{} launches, {bad} disagree", rows.len());
    if rows.is_empty() || bad > 0 {
        Err(format!("conformance: {bad} of {} launches disagree", rows.len()))
    } else {
        Ok(())
    }
}

struct Tools {
    vendor: PathBuf,
    disassembler: PathBuf,
    ours: PathBuf,
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// How far apart results may be.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    /// Bytes of a number: 4 or 8.
    bytes: usize,
    /// Representable numbers between two results.
    ulp: u64,
}

/// The table `tests/kernels/bounds.toml`, by kernel.
fn bounds() -> Result<HashMap<String, Bound>, String> {
    let text =
        std::fs::read_to_string(root().join("tests/kernels/bounds.toml")).map_err(|e| format!("bounds.toml: {e}"))?;
    let table: toml::Table = toml::from_str(&text).map_err(|e| format!("bounds.toml: {e}"))?;
    let entry = |(name, value): (String, toml::Value)| {
        let bytes = match value.get("type").and_then(toml::Value::as_str) {
            Some("f32") => 4,
            Some("f64") => 8,
            _ => return Err(format!("bounds.toml: '{name}' has no type f32 or f64")),
        };
        let ulp = value.get("ulp").and_then(toml::Value::as_integer).and_then(|n| u64::try_from(n).ok());
        let ulp = ulp.ok_or_else(|| format!("bounds.toml: '{name}' has no ulp"))?;
        Ok((name, Bound { bytes, ulp }))
    };
    table.into_iter().map(entry).collect()
}

fn launch(file: &Path, tools: &Tools, bound: Option<Bound>, thread: usize) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let folder = file.parent().ok_or("no folder")?;
    let launch = Launch::parse(&text, &mut |f| std::fs::read(folder.join(f)).map_err(|e| e.to_string()))
        .map_err(|d| d.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; "))?;
    let name = stem(file);
    let ptx = folder.join(name.split('.').next().unwrap_or_default()).with_extension("ptx");
    let source = std::fs::read(&ptx).map_err(|e| format!("{}: {e}", ptx.display()))?;
    let (module, list) = ptx::parse_bytes(&source);
    if let Some(d) = list.iter().find(|d| d.is_error()) {
        return Err(format!("PTX: {}", d.message));
    }
    let arch = if module.target.iter().any(|t| t.ends_with('a')) { "sm_90a" } else { "sm_90" };
    let config = Config::default();
    let reference = sim::run_ptx(&module, &launch, &config).map_err(|f| format!("PTX interpreter: {f}"))?;
    let out = std::env::temp_dir().join(format!("sassafras-conformance-{}-{thread}.cubin", std::process::id()));
    let compile = |tool: &Path, options: &[&str]| -> Result<Vec<u8>, String> {
        let mut command = Command::new(tool);
        command.args([&format!("-arch={arch}"), "-fmad=false"]).args(options).arg(&ptx).arg("-o").arg(&out);
        let done = command.output().map_err(|e| e.to_string())?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or("failed").to_string());
        }
        std::fs::read(&out).map_err(|e| e.to_string())
    };
    let check = |who: &str, cubin: &[u8]| -> Result<(), String> {
        let got = sim::run_sass(cubin, &launch, &config).map_err(|f| format!("{who}: {f}"))?;
        compare(&reference, &got, bound).map_err(|m| format!("{who}: {m}"))
    };
    let theirs = compile(&tools.vendor, &[]).map_err(|m| format!("vendor's ptxas: {m}"))?;
    check("vendor's code", &theirs)?;
    let ours = compile(&tools.ours.join("ptxas"), &["--verify"]).map_err(|m| format!("our ptxas: {m}"))?;
    check("our code", &ours)?;
    let listing = |tool: &Path| Command::new(tool).arg("-c").arg(&out).output().map_err(|e| e.to_string());
    let (a, b) = (listing(&tools.disassembler)?, listing(&tools.ours.join("nvdisasm"))?);
    let _ = std::fs::remove_file(&out);
    if a.stdout != b.stdout || a.stdout.is_empty() {
        let (a, b) = (String::from_utf8_lossy(&a.stdout).into_owned(), String::from_utf8_lossy(&b.stdout).into_owned());
        let line = a.lines().zip(b.lines()).find(|(x, y)| x != y);
        return Err(format!("listings: {line:?}"));
    }
    Ok(match bound {
        Some(b) => format!("agree within {} ulp", b.ulp),
        None => "agree".into(),
    })
}

fn compare(want: &Outcome, got: &Outcome, bound: Option<Bound>) -> Result<(), String> {
    for (n, (w, g)) in want.buffers.iter().zip(&got.buffers).enumerate() {
        if w == g {
            continue;
        }
        let at = w.iter().zip(g).position(|(x, y)| x != y).unwrap_or(0);
        let Some(bound) = bound else { return Err(format!("buffer {n} differs at byte {at}")) };
        if w.len() != g.len() || !w.len().is_multiple_of(bound.bytes) {
            return Err(format!("buffer {n}: {} and {} bytes hold no whole numbers", w.len(), g.len()));
        }
        if let Some((i, x, y)) = far(w, g, bound) {
            return Err(format!("buffer {n}, number {i}: {x:#x} and {y:#x}"));
        }
    }
    Ok(())
}

/// The first pair of numbers that are further apart than the bound, with its place.
fn far(want: &[u8], got: &[u8], bound: Bound) -> Option<(usize, u64, u64)> {
    let width = bound.bytes;
    let word = |b: &[u8]| b.iter().rev().fold(0u64, |n, &b| n << 8 | b as u64);
    let sign = 1u64 << (8 * width - 1);
    let infinity = if width == 4 { 0x7f80_0000 } else { 0x7ff0_0000_0000_0000 };
    let nan = |x: u64| x & !sign > infinity;
    // Of one sign, numbers lie in the order of their bits.
    let near = |x: u64, y: u64| match (nan(x), nan(y)) {
        (true, true) => true,
        (false, false) => (x ^ y) & sign == 0 && x.abs_diff(y) <= bound.ulp,
        _ => false,
    };
    let pairs = want.chunks(width).zip(got.chunks(width)).map(|(w, g)| (word(w), word(g)));
    pairs.enumerate().find(|(_, (x, y))| !near(*x, *y)).map(|(i, (x, y))| (i, x, y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_numbers() {
        let f32s = |list: &[f32]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let bound = Bound { bytes: 4, ulp: 1 };
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        let after = f32::from_bits(1.0f32.to_bits() + 2);
        assert_eq!(far(&f32s(&[2.0, 1.0, -1.0]), &f32s(&[2.0, next, -next]), bound), None);
        assert!(far(&f32s(&[2.0, 1.0]), &f32s(&[2.0, after]), bound).is_some_and(|f| f.0 == 1));
        assert_eq!(far(&f32s(&[f32::NAN]), &f32s(&[-f32::NAN]), bound), None);
        assert!(far(&f32s(&[f32::NAN]), &f32s(&[1.0]), bound).is_some());
        assert!(far(&f32s(&[0.0]), &f32s(&[-0.0]), bound).is_some(), "the sign of zero is defined");
    }

    #[test]
    fn the_table_is_readable() {
        let table = bounds().expect("bounds.toml");
        assert_eq!(table.get("doubles"), Some(&Bound { bytes: 8, ulp: 0 }));
    }
}
