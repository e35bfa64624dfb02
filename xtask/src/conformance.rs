//! Three witnesses of every launch in `tests/kernels`: the PTX interpreter, the vendor's machine code and ours in the
//! simulator, with the hazard check on. Without contraction all must leave the same bytes; kernels with functions that PTX
//! does not define to the bit may differ by what `tests/kernels/bounds.toml` allows. A second run has contraction on,
//! which PTX permits and the interpreter does not do: it may differ by a second bound of that table. Then the vendor's
//! nvdisasm of our files must be our own listing of them.
//!
//! The kernels of `tests/kernels/features` are run as the interpreter has them, with the vendor's code for each chip
//! that they are for; their rows say so.

use crate::compare::{Bound, Bounds, bounds, compare};
use crate::{oracle, root, test};
use sim::{Config, Launch};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const THREADS: usize = 2;

struct Row {
    name: String,
    results: Result<String, String>,
}

/// All examples of the PTX instruction table, or those of some opcodes (`mma,wgmma`; `full/8`: one of eight of all),
/// beside the vendor's ptxas: `crates/ptx/tests/conformance` says how, and prints the agreement.
fn ptx(what: &str) -> Result<(), String> {
    oracle::tool("ptxas")?;
    let args = ["test", "--quiet", "-p", "sassafras-ptx", "--test", "conformance", "--", "--nocapture"];
    test::cargo_with(&args, &[("SASSAFRAS_CONFORMANCE", what)])
}

/// What our compiler refuses of all legal examples of the PTX instruction table, or of those of an opcode:
/// `crates/codegen/tests/audit.rs` says how, and `refused.txt` beside it what may be.
fn audit(what: &str) -> Result<(), String> {
    let args = ["test", "--quiet", "--release", "-p", "sassafras-codegen", "--test", "audit", "--", "--nocapture"];
    test::cargo_with(&args, &[("SASSAFRAS_AUDIT", what)])
}

/// Runs all launches, or those whose name contains the word behind `--filter`; with `--level` our code is made with that level of
/// `--Ofast-compile`, with `--registers` with at most so many of them.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut further = Vec::new();
    let filter = match args {
        [] => None,
        [flag, word] if flag == "--level" => {
            further.push(format!("--Ofast-compile={word}"));
            None
        }
        [flag, n] if flag == "--registers" => {
            // Also of kernels that say how many threads they have.
            further.extend([format!("--maxrregcount={n}"), "--override-directive-values".into()]);
            None
        }
        [flag] if flag == "--ptx-semantics" => return crate::semantics::run(),
        [flag, word] if flag == "--filter" => Some(word.as_str()),
        [flag] if flag == "--audit" => return audit("full"),
        [flag, opcode] if flag == "--audit" => return audit(opcode),
        [flag] if flag == "--ptx" => return ptx("full"),
        [flag, opcodes] if flag == "--ptx" => return ptx(opcodes),
        _ => return Err(
            "usage: cargo xtask conformance [--filter NAME | --level LEVEL | --registers N | --audit [OPCODE] | --ptx [OPCODE,...] | --ptx-semantics]"
                .into(),
        ),
    };
    let (vendor, disassembler) = (oracle::tool("ptxas")?, oracle::tool("nvdisasm")?);
    let ours = built()?;
    let text =
        std::fs::read_to_string(root().join("tests/kernels/bounds.toml")).map_err(|e| format!("bounds.toml: {e}"))?;
    let bounds = bounds(&text)?;
    let mut files: Vec<PathBuf> =
        ["cuda", "triton"].iter().flat_map(|f| testkit::files(&format!("tests/kernels/{f}"), "toml")).collect();
    files.extend(testkit::files("tests/kernels/features", "toml"));
    files.retain(|f| filter.is_none_or(|w| stem(f).contains(w)));
    files.sort();
    let work = Mutex::new(files.into_iter());
    let rows = Mutex::new(Vec::new());
    let tools = Tools { vendor, disassembler, ours, further };
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            let (work, rows, tools, bounds) = (&work, &rows, &tools, &bounds);
            scope.spawn(move || {
                loop {
                    let Some(file) = work.lock().ok().and_then(|mut w| w.next()) else { return };
                    let name = stem(&file);
                    let of = |key: &str| bounds.get(key).copied();
                    let bound = of(&name).or_else(|| of(name.split('.').next()?)).unwrap_or_default();
                    let two = file.parent().is_some_and(|p| p.ends_with("features"));
                    let results = if two { feature(&file, tools, n) } else { launch(&file, tools, bound, n) };
                    let row = Row { results, name };
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
    println!("{} of them have two witnesses only", count(MISSING));
    if rows.is_empty() || bad > 0 {
        Err(format!("conformance: {bad} of {} launches disagree", rows.len()))
    } else {
        Ok(())
    }
}

/// The folder of our programs, which are built first.
///
/// # Errors
/// They do not build.
pub fn built() -> Result<PathBuf, String> {
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release"))
}

struct Tools {
    vendor: PathBuf,
    disassembler: PathBuf,
    ours: PathBuf,
    /// Further options for our ptxas.
    further: Vec<String>,
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The chips that our compiler makes code for.
const OUR_CHIPS: [&str; 2] = ["sm_90", "sm_90a"];
/// What a launch without our code begins with in the table.
const MISSING: &str = "two witnesses, ours missing";

/// The interpreter, the vendor's code for each chip that the first line of a kernel names, and ours for those that the
/// compiler knows.
fn feature(file: &Path, tools: &Tools, thread: usize) -> Result<String, String> {
    let name = stem(file);
    let ptx = file.with_file_name(name.split('.').next().unwrap_or_default()).with_extension("ptx");
    let read = |file: &Path| std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()));
    let (text, launch) = (read(&ptx)?, read(file)?);
    let launch = Launch::parse(&launch, &mut |_| Err("a file is not wanted here".into()))
        .map_err(|d| d.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; "))?;
    let first = text.lines().next().unwrap_or_default();
    // Those since sm_100 are asked by `--chips`, here only where there are no others.
    let named: Vec<&str> = first.trim_start_matches("// chips:").split_whitespace().collect();
    let mut chips: Vec<&str> = named.iter().copied().filter(|c| !crate::chips::newer(c)).collect();
    let only_newer = chips.is_empty();
    if only_newer {
        chips = named;
    }
    let (module, list) = ptx::parse(&text);
    if let Some(d) = list.iter().find(|d| d.is_error()) {
        return Err(format!("PTX: {}", d.message));
    }
    let config = Config::default();
    let want = sim::run_ptx(&module, &launch, &config).map_err(|f| format!("PTX interpreter: {f}"))?;
    let out = std::env::temp_dir().join(format!("sassafras-features-{}-{thread}", std::process::id()));
    let (source, cubin) = (out.with_extension("ptx"), out.with_extension("cubin"));
    let (mut agree, mut unknown) = (Vec::new(), Vec::new());
    let mut ours = Err("the compiler does not know its chips".to_string());
    for chip in &chips {
        let of_chip = text.replacen(&format!(".target {}", chips[0]), &format!(".target {chip}"), 1);
        std::fs::write(&source, of_chip).map_err(|e| e.to_string())?;
        let mut command = Command::new(&tools.vendor);
        command.arg(format!("-arch={chip}")).arg("-fmad=false").arg(&source).arg("-o").arg(&cubin);
        let done = command.output().map_err(|e| e.to_string())?;
        if !done.status.success() {
            return Err(format!(
                "{chip}: {}",
                String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or("failed")
            ));
        }
        let bytes = std::fs::read(&cubin).map_err(|e| e.to_string())?;
        match sim::run_sass(&bytes, &launch, &config) {
            Err(f) if f.kind == sim::FaultKind::Unsupported => unknown.push(*chip),
            Err(f) => return Err(format!("{chip}: {f}")),
            Ok(got) if got.buffers != want.buffers => return Err(format!("{chip}: another result")),
            Ok(_) => agree.push(*chip),
        }
        if OUR_CHIPS.contains(chip) || only_newer {
            let mut command = Command::new(tools.ours.join("ptxas"));
            command
                .arg(format!("-arch={chip}"))
                .args(["-fmad=false", "--verify"])
                .args(&tools.further)
                .arg(&source)
                .arg("-o")
                .arg(&cubin);
            let done = command.output().map_err(|e| e.to_string())?;
            if !done.status.success() {
                let said = String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or("failed").to_string();
                // What is not there yet says so; anything else is wrong.
                if !said.contains("not supported yet") && !said.contains("no machine code for") {
                    return Err(format!("our ptxas {chip}: {said}"));
                }
                ours = Err(said);
                continue;
            }
            let bytes = std::fs::read(&cubin).map_err(|e| e.to_string())?;
            let got = sim::run_sass(&bytes, &launch, &config).map_err(|f| format!("our code {chip}: {f}"))?;
            if got.buffers != want.buffers {
                return Err(format!("our code {chip}: another result"));
            }
            ours = Ok(());
        }
    }
    let left = match unknown.as_slice() {
        [] => String::new(),
        list => format!("; code for {} has an instruction that is not modelled", list.join(", ")),
    };
    let vendor = format!("PTX and the vendor's code for {}{left}", agree.join(", "));
    Ok(match ours {
        Ok(()) => format!("agrees: {vendor}, and ours"),
        Err(why) => format!("{MISSING}: {vendor}; {}", why.trim()),
    })
}

/// The cubin that a compiler makes of a file, through the file `out`.
///
/// # Errors
/// The first line of what it says where it refuses.
pub fn compile(tool: &Path, ptx: &Path, arch: &str, options: &[&str], out: &Path) -> Result<Vec<u8>, String> {
    let mut command = Command::new(tool);
    command.arg(format!("-arch={arch}")).args(options).arg(ptx).arg("-o").arg(out);
    let done = command.output().map_err(|e| e.to_string())?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or("failed").to_string());
    }
    std::fs::read(out).map_err(|e| e.to_string())
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
    let compile = |tool: &Path, ptx: &Path, options: &[&str]| compile(tool, ptx, arch, options, &out);
    let check = |who: &str, cubin: &[u8], bound| -> Result<(), String> {
        let got = sim::run_sass(cubin, &launch, &config).map_err(|f| format!("{who}: {f}"))?;
        compare(&reference.buffers, &got.buffers, bound).map_err(|m| format!("{who}: {m}"))
    };
    let second = open.is_some().then_some((&contract, "-fmad=true", bounds.contracted.or(bounds.exact)));
    for (ptx, option, bound) in [(&ptx, "-fmad=false", bounds.exact)].into_iter().chain(second) {
        let theirs = compile(&tools.vendor, ptx, &[option]).map_err(|m| format!("vendor's ptxas {option}: {m}"))?;
        check(&format!("vendor's code {option}"), &theirs, bound)?;
        let options: Vec<&str> =
            [option, "--verify"].into_iter().chain(tools.further.iter().map(String::as_str)).collect();
        let ours = compile(&tools.ours.join("ptxas"), ptx, &options);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_contracted() {
        let text = "\tmul.rn.f32 \t%f1, %f2, %f3;\n@%p1 add.rn.ftz.f32 %f1, %f1, %f4;\n\tadd.s32 %r1, %r1, 1;\n";
        let open = "\tmul.f32 \t%f1, %f2, %f3;\n@%p1 add.ftz.f32 %f1, %f1, %f4;\n\tadd.s32 %r1, %r1, 1;\n";
        assert_eq!(contractible(text).as_deref(), Some(open));
        assert_eq!(contractible("fma.rn.f32 %f1, %f2, %f3, %f4;\n"), None);
    }
}
