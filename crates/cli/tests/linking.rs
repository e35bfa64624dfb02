//! Programs of several files (`tests/link`) through nvcc with our nvlink in the place of its own, and the same link by both.
//!
//! A usual run takes sm_90; `SASSAFRAS_LINK_ARCHS=75,80,90,120` takes all of these.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testkit::Scratch;

const NVLINK: &str = env!("CARGO_BIN_EXE_nvlink");
const SASSAFRAS: &str = env!("CARGO_BIN_EXE_sassafras");

fn said(done: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

fn must(command: &mut Command) {
    let done = command.output().expect("it runs");
    assert!(done.status.success(), "{command:?}: {}", said(&done));
}

/// A toolkit in which everything is the vendor's but nvlink.
fn toolkit(oracle: &Path, dir: &Path) -> PathBuf {
    let bin = dir.join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    for entry in std::fs::read_dir(oracle.join("bin")).expect("readable").flatten() {
        let place = bin.join(entry.file_name());
        match entry.file_name().to_str() {
            Some("nvlink") => symlink(NVLINK, place).expect("a link"),
            // It looks for the other programs beside itself.
            Some("nvcc" | "nvcc.profile") => drop(std::fs::copy(entry.path(), place).expect("a copy")),
            _ => symlink(entry.path(), place).expect("a link"),
        }
    }
    for folder in ["include", "lib", "nvvm"] {
        symlink(oracle.join(folder), dir.join(folder)).expect("a link");
    }
    bin
}

/// The kernel `run` of a linked cubin in the simulator: what it leaves in its buffer, and what it prints.
fn run(dir: &Path, cubin: &Path) -> (Vec<u8>, String) {
    let words: String = (0..64u32).flat_map(|i| (i * 7 % 50).to_le_bytes()).map(|b| format!("{b:02x}")).collect();
    let launch = format!(
        "kernel = \"run\"\ngrid = [1, 1, 1]\nblock = [32, 1, 1]\nshared = 128\n\n[[arg]]\nbuffer = {{ hex = \"{words}\" }}\nout = \"io.bin\"\n"
    );
    std::fs::write(dir.join("launch.toml"), launch).expect("writable");
    let mut run = Command::new(SASSAFRAS);
    run.arg("run").arg(cubin).arg("--launch").arg(dir.join("launch.toml")).arg("--out").arg(dir);
    let done = run.output().expect("it runs");
    assert!(done.status.success(), "{}: {}", cubin.display(), said(&done));
    (std::fs::read(dir.join("io.bin")).expect("a file"), said(&done))
}

/// Alignments of shared memory that the vendor rounds up, and forms of files with a capsule (docs/link.md).
fn explained(line: &str, arch: &str) -> bool {
    let capsule = arch.starts_with("sm_12");
    line.starts_with(".nv.shared.") && line.contains(": alignment 0x")
        || capsule
            && [".debug_frame", "sections", ".rela.text", ".text", ".nv.info", "symbols", ".nv.compat"]
                .iter()
                .any(|p| line.starts_with(p))
}

#[test]
fn programs_of_several_files() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("linking");
    let bin = toolkit(&oracle, &dir);
    let archs = std::env::var("SASSAFRAS_LINK_ARCHS").unwrap_or_else(|_| "90".into());
    let mut programs: Vec<PathBuf> =
        std::fs::read_dir(testkit::root().join("tests/link")).expect("a folder").flatten().map(|e| e.path()).collect();
    programs.sort();
    assert!(programs.len() >= 10);
    for program in &programs {
        let name = program.file_name().expect("a name").to_string_lossy().into_owned();
        let out = dir.join(&name);
        std::fs::create_dir(&out).expect("a folder");
        let mut sources: Vec<PathBuf> =
            std::fs::read_dir(program).expect("a folder").flatten().map(|e| e.path()).collect();
        sources.retain(|s| s.extension().is_some_and(|e| e == "cu"));
        sources.sort();
        for arch in archs.split(',') {
            let target = format!("sm_{arch}");
            let mut objects = Vec::new();
            for source in &sources {
                let stem = source.file_stem().expect("a name").to_string_lossy().into_owned();
                let object = out.join(format!("{stem}.{arch}.o"));
                must(
                    Command::new(bin.join("nvcc"))
                        .args(["-w", "-dc", "-arch", &target])
                        .arg(source)
                        .arg("-o")
                        .arg(&object),
                );
                // Libraries reach the linker as archives.
                if stem.starts_with("lib") {
                    let archive = out.join(format!("{stem}.{arch}.a"));
                    must(Command::new("ar").arg("rcs").arg(&archive).arg(&object));
                    objects.push(archive);
                } else {
                    objects.push(object);
                }
            }
            // The whole program, as nvcc builds it.
            let program = out.join(format!("program.{arch}"));
            must(Command::new(bin.join("nvcc")).args(["-arch", &target]).args(&objects).arg("-o").arg(&program));
            let [mine, theirs] = ["ours", "vendor"].map(|who| out.join(format!("{who}.{arch}.cubin")));
            let lib = format!("-L{}", oracle.join("lib").display());
            for (tool, cubin) in [(Path::new(NVLINK), &mine), (&oracle.join("bin/nvlink"), &theirs)] {
                let mut link = Command::new(tool);
                link.arg(format!("-arch={target}")).args(&objects).args([&lib, "-lcudadevrt", "-o"]).arg(cubin);
                must(&mut link);
            }
            let diff = Command::new(SASSAFRAS).arg("link-diff").args([&mine, &theirs]).output().expect("it runs");
            let text = String::from_utf8_lossy(&diff.stdout).into_owned();
            let left: Vec<&str> = text.lines().filter(|l| !explained(l, &target)).collect();
            assert!(left.is_empty(), "{name} for {target}: {}", left.join("\n"));
            if arch.parse::<u32>().expect("a number") <= 90 {
                let ours = run(&out, &mine);
                assert!(ours == run(&out, &theirs), "{name} for {target} computes something else: {ours:?}");
                assert!(ours.0.iter().any(|&b| b != 0));
            }
        }
    }
}
