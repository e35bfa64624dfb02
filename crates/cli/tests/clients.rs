//! Who calls ptxas calls ours: nvcc with ours in the place of its own, and Triton.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use testkit::Scratch;

const OURS: &str = env!("CARGO_BIN_EXE_ptxas");
const SASSAFRAS: &str = env!("CARGO_BIN_EXE_sassafras");

fn said(done: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

/// Is the file ours, and does the hazard checker find nothing in it?
fn is_ours(cubin: &Path) {
    let elf = cubin::elf::Elf::read(&std::fs::read(cubin).expect("a file")).expect("a cubin");
    let (_, note) = elf.section(".note.nv.tkinfo").expect("a note");
    assert!(note.data.windows(9).any(|w| w == b"Sassafras"), "{}", cubin.display());
    let lint = Command::new(SASSAFRAS).arg("lint").arg(cubin).output().expect("it runs");
    assert!(lint.status.success(), "{}", said(&lint));
}

/// A toolkit in which everything is the vendor's but ptxas.
#[test]
fn nvcc_with_ours() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("nvcc");
    let bin = dir.join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    for entry in std::fs::read_dir(oracle.join("bin")).expect("readable").flatten() {
        let place = bin.join(entry.file_name());
        match entry.file_name().to_str() {
            Some("ptxas") => symlink(OURS, place).expect("a link"),
            // It looks for the other programs beside itself.
            Some("nvcc" | "nvcc.profile") => drop(std::fs::copy(entry.path(), place).expect("a copy")),
            _ => symlink(entry.path(), place).expect("a link"),
        }
    }
    for folder in ["include", "lib", "nvvm"] {
        symlink(oracle.join(folder), dir.join(folder)).expect("a link");
    }
    let ptx = testkit::root().join("tests/kernels/cuda/saxpy.ptx");
    for options in [&["-arch=sm_90"][..], &["-arch=sm_90", "-lineinfo", "-maxrregcount=40", "-Xptxas=-v"]] {
        let cubin = dir.join("saxpy.cubin");
        let _ = std::fs::remove_file(&cubin);
        let done = Command::new(bin.join("nvcc")).args(options).arg("-cubin").arg(&ptx).arg("-o").arg(&cubin).output();
        let done = done.expect("nvcc runs");
        assert!(done.status.success(), "{options:?}: {}", said(&done));
        is_ours(&cubin);
        let launch = testkit::root().join("tests/kernels/cuda/saxpy.basic.toml");
        let run = Command::new(SASSAFRAS).arg("run").arg(&cubin).arg("--launch").arg(launch).output().expect("it runs");
        assert!(run.status.success(), "{}", said(&run));
    }
}

/// Kernels that Triton compiles through ours give in the simulator what numpy computes.
#[test]
fn triton_with_ours() {
    let Some(triton) = testkit::oracle::triton() else { return };
    let dir = Scratch::new("triton");
    let script = testkit::root().join("crates/cli/tests/clients/triton_client.py");
    let done = Command::new(triton.join("bin/python"))
        .arg(script)
        .arg(&*dir)
        .env("TRITON_PTXAS_PATH", OURS)
        .env("TRITON_PTXAS_BLACKWELL_PATH", OURS)
        .env("TRITON_CACHE_DIR", dir.join("cache"))
        .env("TRITON_DEFAULT_FP_FUSION", "1")
        .output()
        .expect("python runs");
    assert!(done.status.success(), "{}", said(&done));
    for name in ["scaled_add", "row_max", "product"] {
        let cubin = dir.join(format!("{name}.cubin"));
        is_ours(&cubin);
        let launch = dir.join(format!("{name}.toml"));
        let mut run = Command::new(SASSAFRAS);
        run.arg("run").arg(&cubin).arg("--launch").arg(launch).arg("--out").arg(&*dir);
        let run = run.output().expect("it runs");
        assert!(run.status.success(), "{name}: {}", said(&run));
        let [got, expected] =
            ["out", "expected"].map(|e| std::fs::read(dir.join(format!("{name}.{e}"))).expect("a file"));
        assert!(got == expected, "{name} computes something else than numpy");
    }
}
