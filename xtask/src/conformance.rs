//! Three witnesses of every launch in `tests/kernels`: the PTX interpreter, the vendor's machine code and ours in the
//! simulator, with the hazard check on. Without contraction all must leave the same bytes; kernels with functions that PTX
//! does not define to the bit may differ by what `tests/kernels/bounds.toml` allows. A second run has contraction on,
//! which PTX permits and the interpreter does not do: it may differ by a second bound of that table. Then the vendor's
//! nvdisasm of our files must be our own listing of them.

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
    let mut files: Vec<PathBuf> =
        ["cuda", "triton"].iter().flat_map(|f| testkit::files(&format!("tests/kernels/{f}"), "toml")).collect();
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
                    let of = |key: &str| bounds.get(key).copied();
                    let bound = of(&name).or_else(|| of(name.split('.').next()?)).unwrap_or_default();
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
    let count = |word| rows.iter().filter(|r| r.results.as_ref().is_ok_and(|t| t.contains(word))).count();
    let (left, contracted) = (count("not compared"), count("contracted"));
    println!("{} launches, {bad} disagree; {} also contracted, {left} not compared so", rows.len(), contracted - left);
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

/// How far apart results may be: near by either measure.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    /// Bytes of a number: 4 or 8.
    bytes: usize,
    /// Representable numbers between two results.
    ulp: u64,
    /// Their difference.
    absolute: f64,
}

/// What is allowed to a kernel. Without a bound the bytes are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bounds {
    exact: Option<Bound>,
    contracted: Option<Bound>,
    /// Contraction makes other numbers altogether, as it may: it is not compared.
    skip: bool,
}

/// The table `tests/kernels/bounds.toml`, by kernel or launch.
fn bounds() -> Result<HashMap<String, Bounds>, String> {
    let text =
        std::fs::read_to_string(root().join("tests/kernels/bounds.toml")).map_err(|e| format!("bounds.toml: {e}"))?;
    let table: toml::Table = toml::from_str(&text).map_err(|e| format!("bounds.toml: {e}"))?;
    let mut out: HashMap<String, Bounds> = HashMap::new();
    if let Some(part) = table.keys().find(|k| !["exact", "contracted"].contains(&k.as_str())) {
        return Err(format!("bounds.toml: '{part}' is neither exact nor contracted"));
    }
    for (name, value) in table.get("exact").and_then(toml::Value::as_table).into_iter().flatten() {
        out.entry(name.clone()).or_default().exact = Some(bound(name, value)?);
    }
    for (name, value) in table.get("contracted").and_then(toml::Value::as_table).into_iter().flatten() {
        let bounds = out.entry(name.clone()).or_default();
        match value.get("skip") {
            Some(_) => bounds.skip = true,
            None => bounds.contracted = Some(bound(name, value)?),
        }
    }
    Ok(out)
}

fn bound(name: &str, value: &toml::Value) -> Result<Bound, String> {
    let bytes = match value.get("type").and_then(toml::Value::as_str) {
        Some("f32") => 4,
        Some("f64") => 8,
        _ => return Err(format!("bounds.toml: '{name}' has no type f32 or f64")),
    };
    let ulp = value.get("ulp").and_then(toml::Value::as_integer).and_then(|n| u64::try_from(n).ok());
    let ulp = ulp.ok_or_else(|| format!("bounds.toml: '{name}' has no ulp"))?;
    let absolute = value.get("absolute").and_then(toml::Value::as_float).unwrap_or(0.0);
    Ok(Bound { bytes, ulp, absolute })
}

fn launch(file: &Path, tools: &Tools, bounds: Bounds, thread: usize) -> Result<String, String> {
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
    let open = contractible(&String::from_utf8_lossy(&source)).filter(|_| !bounds.skip);
    let contract = out.with_extension("ptx");
    if let Some(text) = &open {
        std::fs::write(&contract, text).map_err(|e| e.to_string())?;
    }
    let compile = |tool: &Path, ptx: &Path, options: &[&str]| -> Result<Vec<u8>, String> {
        let mut command = Command::new(tool);
        command.arg(format!("-arch={arch}")).args(options).arg(ptx).arg("-o").arg(&out);
        let done = command.output().map_err(|e| e.to_string())?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or("failed").to_string());
        }
        std::fs::read(&out).map_err(|e| e.to_string())
    };
    let check = |who: &str, cubin: &[u8], bound| -> Result<(), String> {
        let got = sim::run_sass(cubin, &launch, &config).map_err(|f| format!("{who}: {f}"))?;
        compare(&reference, &got, bound).map_err(|m| format!("{who}: {m}"))
    };
    let second = open.is_some().then_some((&contract, "-fmad=true", bounds.contracted.or(bounds.exact)));
    for (ptx, option, bound) in [(&ptx, "-fmad=false", bounds.exact)].into_iter().chain(second) {
        let theirs = compile(&tools.vendor, ptx, &[option]).map_err(|m| format!("vendor's ptxas {option}: {m}"))?;
        check(&format!("vendor's code {option}"), &theirs, bound)?;
        let ours = compile(&tools.ours.join("ptxas"), ptx, &[option, "--verify"]);
        check(&format!("our code {option}"), &ours.map_err(|m| format!("our ptxas {option}: {m}"))?, bound)?;
        same_listings(tools, &out)?;
    }
    for file in [out, contract] {
        let _ = std::fs::remove_file(file);
    }
    let within = |b: Option<Bound>| match b {
        None => String::new(),
        Some(b) if b.absolute == 0.0 => format!(" within {} ulp", b.ulp),
        Some(b) => format!(" within {} ulp or {:e}", b.ulp, b.absolute),
    };
    let contracted = bounds.contracted.or(bounds.exact);
    Ok(match open {
        None if bounds.skip => format!("agree{}, contracted not compared", within(bounds.exact)),
        None => format!("agree{}", within(bounds.exact)),
        Some(_) => format!("agree{}, contracted{}", within(bounds.exact), within(contracted)),
    })
}

/// The text with its additions and multiplications open to contraction, if there are any: nvcc writes `mul.rn.f32` where
/// contraction is off, `mul.f32` says the same but permits to fuse it into an addition.
fn contractible(ptx: &str) -> Option<String> {
    let open = |line: &str| {
        let (blank, rest) = line.split_at(line.len() - line.trim_start().len());
        // Behind a guard, if there is one.
        let at = if rest.starts_with('@') { rest.find(char::is_whitespace)? + 1 } else { 0 };
        let (guard, inst) = rest.split_at(at);
        let name = ["add.rn.", "sub.rn.", "mul.rn."].iter().find(|n| inst.starts_with(**n))?;
        Some(format!("{blank}{guard}{}.{}", &name[..3], &inst[name.len()..]))
    };
    let mut found = false;
    let mut out = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        match open(line) {
            Some(line) => {
                out += &line;
                found = true;
            }
            None => out += line,
        }
    }
    found.then_some(out)
}

/// The vendor's nvdisasm and ours print the same of a file.
fn same_listings(tools: &Tools, cubin: &Path) -> Result<(), String> {
    let listing = |tool: &Path| Command::new(tool).arg("-c").arg(cubin).output().map_err(|e| e.to_string());
    let (a, b) = (listing(&tools.disassembler)?, listing(&tools.ours.join("nvdisasm"))?);
    if a.stdout == b.stdout && !a.stdout.is_empty() {
        return Ok(());
    }
    let (a, b) = (String::from_utf8_lossy(&a.stdout), String::from_utf8_lossy(&b.stdout));
    Err(format!("listings: {:?}", a.lines().zip(b.lines()).find(|(x, y)| x != y)))
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
    let value = |x: u64| if width == 4 { f32::from_bits(x as u32) as f64 } else { f64::from_bits(x) };
    // Zeros of two signs are not near, unless a distance is allowed.
    let apart = |x, y| if x == y { 0.0 } else { (value(x) - value(y)).abs().max(f64::MIN_POSITIVE) };
    // Of one sign, numbers lie in the order of their bits.
    let near = |x: u64, y: u64| match (nan(x), nan(y)) {
        (true, true) => true,
        (false, false) => (x ^ y) & sign == 0 && x.abs_diff(y) <= bound.ulp || apart(x, y) <= bound.absolute,
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
        let bound = Bound { bytes: 4, ulp: 1, absolute: 0.0 };
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        let after = f32::from_bits(1.0f32.to_bits() + 2);
        assert_eq!(far(&f32s(&[2.0, 1.0, -1.0]), &f32s(&[2.0, next, -next]), bound), None);
        assert!(far(&f32s(&[2.0, 1.0]), &f32s(&[2.0, after]), bound).is_some_and(|f| f.0 == 1));
        assert_eq!(far(&f32s(&[f32::NAN]), &f32s(&[-f32::NAN]), bound), None);
        assert!(far(&f32s(&[f32::NAN]), &f32s(&[1.0]), bound).is_some());
        assert!(far(&f32s(&[0.0]), &f32s(&[-0.0]), bound).is_some(), "the sign of zero is defined");
        let wide = Bound { absolute: 1e-6, ..bound };
        assert_eq!(far(&f32s(&[0.0, 1e-7]), &f32s(&[-0.0, -1e-7]), wide), None);
        assert!(far(&f32s(&[0.0]), &f32s(&[2e-6]), wide).is_some());
        assert!(far(&f32s(&[f32::INFINITY]), &f32s(&[f32::MAX]), wide).is_some());
    }

    #[test]
    fn what_may_be_contracted() {
        let text = "\tmul.rn.f32 \t%f1, %f2, %f3;\n@%p1 add.rn.ftz.f32 %f1, %f1, %f4;\n\tadd.s32 %r1, %r1, 1;\n";
        let open = "\tmul.f32 \t%f1, %f2, %f3;\n@%p1 add.ftz.f32 %f1, %f1, %f4;\n\tadd.s32 %r1, %r1, 1;\n";
        assert_eq!(contractible(text).as_deref(), Some(open));
        assert_eq!(contractible("fma.rn.f32 %f1, %f2, %f3, %f4;\n"), None);
    }

    #[test]
    fn the_table_is_readable() {
        let table = bounds().expect("bounds.toml");
        let doubles = Bound { bytes: 8, ulp: 0, absolute: 0.0 };
        assert_eq!(table.get("doubles").and_then(|b| b.exact), Some(doubles));
    }
}
