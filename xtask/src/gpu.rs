//! `cargo xtask gpu`: a folder with everything that a machine with a GPU needs to judge our code, and nothing else: the
//! judge, launch files and their data, the vendor's cubins and ours, and what the simulator left. See docs/gpu.md.

use crate::{oracle, root, test};
use sim::{Config, Launch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "bin/judge/possible.rs"]
mod possible;

/// Makes the folder `target/gpu`, or the one behind `--out`.
pub fn run(args: &[String]) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let out = match args {
        [] => target.join("gpu"),
        [flag, path] if flag == "--out" => PathBuf::from(path),
        _ => return Err("usage: cargo xtask gpu [--out FOLDER]".into()),
    };
    let vendor = oracle::tool("ptxas")?;
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras", "-p", "xtask", "--bins"])?;
    let ours = target.join("release/ptxas");
    for dir in ["cubin/vendor", "cubin/ours", "expected", "kernels/data"] {
        std::fs::create_dir_all(out.join(dir)).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    copy(&target.join("release/judge"), &out.join("judge"))?;
    let kernels = root().join("tests/kernels");
    copy(&kernels.join("bounds.toml"), &out.join("bounds.toml"))?;
    for file in list(&kernels.join("data"), "bin")? {
        copy(&file, &out.join("kernels/data").join(file.file_name().unwrap_or_default()))?;
    }
    let (mut lines, mut count, mut theirs, mut reasons) = (String::new(), 0, 0, BTreeMap::new());
    for folder in ["cuda", "triton", "features"] {
        std::fs::create_dir_all(out.join("kernels").join(folder)).map_err(|e| e.to_string())?;
        for ptx in list(&kernels.join(folder), "ptx")? {
            let text = std::fs::read_to_string(&ptx).map_err(|e| e.to_string())?;
            let name = stem(&ptx);
            let (module, messages) = ptx::parse(&text);
            if let Some(d) = messages.iter().find(|d| d.is_error()) {
                return Err(format!("{name}: {}", d.message));
            }
            let features = folder == "features";
            let arch = if features || module.target.iter().any(|t| t.ends_with('a')) { "sm_90a" } else { "sm_90" };
            let mut source = ptx.clone();
            if features {
                // Their texts are for the oldest of their chips.
                source = out.join("kernels").join(folder).join(format!("{name}.ptx"));
                std::fs::write(&source, crate::chips::retargeted(&text, arch)).map_err(|e| e.to_string())?;
            }
            if features && let Some(why) = left_out(&ptx, &text)? {
                *reasons.entry(why).or_insert(0) += 1;
                continue;
            }
            for (who, tool) in [("vendor", &vendor), ("ours", &ours)] {
                let cubin = out.join("cubin").join(who).join(&name).with_extension("cubin");
                let _ = std::fs::remove_file(&cubin);
                let mut command = Command::new(tool);
                command.args([&format!("-arch={arch}"), "-fmad=false"]).arg(&source).arg("-o").arg(&cubin);
                let done = command.output().map_err(|e| e.to_string())?;
                if features && who == "ours" && !done.status.success() {
                    theirs += 1;
                } else if !done.status.success() {
                    return Err(format!("{who} {name}: {}", String::from_utf8_lossy(&done.stderr)));
                }
            }
            for file in list(&kernels.join(folder), "toml")?.iter().filter(|f| kernel(f) == name) {
                let launch_name = stem(file);
                let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
                let at = file.parent().unwrap_or(Path::new("."));
                let launch = Launch::parse(&text, &mut |f| std::fs::read(at.join(f)).map_err(|e| e.to_string()))
                    .map_err(|d| format!("{launch_name}: {}", d.first().map_or("", |d| &d.message)))?;
                let left =
                    sim::run_ptx(&module, &launch, &Config::default()).map_err(|f| format!("{launch_name}: {f}"))?;
                let to = out.join("expected").join(&launch_name);
                std::fs::create_dir_all(&to).map_err(|e| e.to_string())?;
                for (n, bytes) in left.buffers.iter().enumerate() {
                    std::fs::write(to.join(format!("{n}.bin")), bytes).map_err(|e| e.to_string())?;
                }
                let place = format!("kernels/{folder}/{}", file.file_name().unwrap_or_default().to_string_lossy());
                copy(file, &out.join(&place))?;
                lines += &format!("{launch_name}\t{place}\t{name}.cubin\n");
                count += 1;
            }
        }
    }
    std::fs::write(out.join("launches.txt"), lines).map_err(|e| e.to_string())?;
    println!("of the kernels of features {theirs} have the vendor's code only");
    for (why, n) in reasons {
        println!("{n} are left out: {why}");
    }
    println!("{count} launches in {}; run ./judge there on a machine with an sm_90 GPU", out.display());
    Ok(())
}

/// Why the judge cannot launch a kernel of `features`, if so.
fn left_out(ptx: &Path, text: &str) -> Result<Option<&'static str>, String> {
    if !text.lines().next().unwrap_or_default().contains("sm_90a") {
        return Ok(Some("not for sm_90a"));
    }
    let file = ptx.with_extension("basic.toml");
    let launch = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let launch = Launch::parse(&launch, &mut |_| Err("a file is not wanted here".into()))
        .map_err(|d| format!("{}: {}", file.display(), d.first().map_or("", |d| &d.message)))?;
    Ok(possible::possible(&launch).err())
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// `saxpy` for `saxpy.basic.toml`.
fn kernel(path: &Path) -> String {
    stem(path).split('.').next().unwrap_or_default().to_string()
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(|_| ()).map_err(|e| format!("{}: {e}", from.display()))
}

fn list(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    Ok(files)
}
