//! What our code takes beside the vendor's, by the timing model: every launch of `tests/kernels`, both run in the simulator.
//!
//! Unlike the figure of `corpus`, which knows the code alone, this one counts how often each instruction is issued and what
//! loads are waited for. See `docs/timing.md` for the model.

use crate::bench::compile_any;
use crate::{conformance, oracle, root};
use sim::timing::Latencies;
use sim::{Config, Launch};
use std::path::Path;

/// Launches that are listed for each folder.
const WORST: usize = 10;

/// Measures the folders of `tests/kernels` named in `args`, or all three; `--worst N` lists so many launches.
///
/// # Errors
/// Where a tool, a file or a launch fails.
pub fn run(args: &[String]) -> Result<(), String> {
    let (worst, args) = match args {
        [option, n, rest @ ..] if option == "--worst" => (n.parse().map_err(|_| format!("{n} is no number"))?, rest),
        _ => (WORST, args),
    };
    let vendor = oracle::tool("ptxas")?;
    let ours = conformance::built()?.join("ptxas");
    let work = std::env::temp_dir().join(format!("sassafras-timing-{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(|e| e.to_string())?;
    let all = ["cuda", "triton", "features"].map(String::from);
    let mut result = Ok(());
    for folder in if args.is_empty() { &all[..] } else { args } {
        result = result.and(measure(folder, [&vendor, &ours], &work, worst));
    }
    let _ = std::fs::remove_dir_all(&work);
    result
}

fn measure(folder: &str, tools: [&Path; 2], work: &Path, worst: usize) -> Result<(), String> {
    let files = testkit::files(&format!("tests/kernels/{folder}"), "toml");
    if files.is_empty() {
        return Err(format!("{} has no launches", root().join("tests/kernels").join(folder).display()));
    }
    let mut rows: Vec<(f64, String, [u64; 2])> = Vec::new();
    for file in files {
        let name = file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let dir = file.parent().ok_or("no folder")?;
        let ptx = dir.join(name.split('.').next().unwrap_or_default()).with_extension("ptx");
        let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let launch = Launch::parse(&text, &mut |f| std::fs::read(dir.join(f)).map_err(|e| e.to_string()))
            .map_err(|d| d.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; "))?;
        let source = std::fs::read_to_string(&ptx).map_err(|e| format!("{}: {e}", ptx.display()))?;
        // Kernels that are for newer chips alone are compiled for the first that they name.
        let named = source.lines().next().and_then(|l| l.strip_prefix("// chips:")).unwrap_or_default();
        let newer = named.split_whitespace().next().filter(|_| !named.contains("sm_90"));
        let arch = newer.unwrap_or_else(|| testkit::oracle::arch(&source));
        let config = Config { check_races: false, ..Config::default() };
        let mut cycles = [0; 2];
        for (tool, cycles) in tools.into_iter().zip(&mut cycles) {
            let out = work.join("k.cubin");
            let (status, _, log) = compile_any(tool, &ptx, arch, &[], &out)?;
            if status != 0 {
                return Err(format!("{} failed on {}:\n{log}", tool.display(), ptx.display()));
            }
            let cubin = std::fs::read(&out).map_err(|e| e.to_string())?;
            let timed = sim::time_sass(&cubin, &launch, &config, &Latencies::default());
            *cycles = timed.map_err(|f| format!("{name}: {f}"))?.1.sm_estimate().cycles.max(1);
        }
        rows.push((cycles[1] as f64 / cycles[0] as f64, name, cycles));
    }
    let mean = (rows.iter().map(|r| r.0.ln()).sum::<f64>() / rows.len() as f64).exp();
    println!("{folder}: {} launches, cycles ours / vendor, geometric mean {mean:.3}; worst:", rows.len());
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (ratio, name, [vendor, ours]) in rows.iter().take(worst) {
        println!("  {ratio:>8.3}  vendor {vendor:>9}  ours {ours:>9}  {name}");
    }
    Ok(())
}
