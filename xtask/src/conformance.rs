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

/// `tests/kernels/bounds.toml`: lines `kernel = number`, the largest relative difference of a 32-bit float; 0 leaves only
/// the payload of a 64-bit NaN open.
fn bounds() -> Result<HashMap<String, f32>, String> {
    let Ok(text) = std::fs::read_to_string(root().join("tests/kernels/bounds.toml")) else { return Ok(HashMap::new()) };
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or_default().trim()).filter(|l| !l.is_empty());
    lines
        .map(|l| {
            let (name, value) = l.split_once('=').ok_or_else(|| format!("bounds.toml: {l}"))?;
            Ok((name.trim().to_string(), value.trim().parse().map_err(|_| format!("bounds.toml: {l}"))?))
        })
        .collect()
}

fn launch(file: &Path, tools: &Tools, bound: Option<f32>, thread: usize) -> Result<String, String> {
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
    Ok(if bound.is_some() { "agree within its bound".into() } else { "agree".into() })
}

fn compare(want: &Outcome, got: &Outcome, bound: Option<f32>) -> Result<(), String> {
    for (n, (w, g)) in want.buffers.iter().zip(&got.buffers).enumerate() {
        if w == g {
            continue;
        }
        let at = w.iter().zip(g).position(|(x, y)| x != y).unwrap_or(0);
        let Some(bound) = bound else { return Err(format!("buffer {n} differs at byte {at}")) };
        if bound == 0.0 {
            let doubles = |b: &[u8]| {
                let bits =
                    b.chunks_exact(8).map(|c| u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]));
                bits.collect::<Vec<_>>()
            };
            let nan = |x: u64| f64::from_bits(x).is_nan();
            for (i, (x, y)) in doubles(w).into_iter().zip(doubles(g)).enumerate() {
                if x != y && !(nan(x) && nan(y)) {
                    return Err(format!("buffer {n}, double {i}: {x:#018x} and {y:#018x}"));
                }
            }
            if w.len() % 8 != 0 || w.len() != g.len() {
                return Err(format!("buffer {n}: {} and {} bytes are not doubles", w.len(), g.len()));
            }
            continue;
        }
        let floats =
            |b: &[u8]| b.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect::<Vec<_>>();
        for (i, (x, y)) in floats(w).into_iter().zip(floats(g)).enumerate() {
            let near = (x - y).abs() <= bound * x.abs().max(y.abs()).max(f32::MIN_POSITIVE);
            if !(near || x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()) {
                return Err(format!("buffer {n}, word {i}: {x} and {y}"));
            }
        }
    }
    Ok(())
}
