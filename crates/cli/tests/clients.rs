//! Who calls ptxas calls ours: nvcc with ours in the place of its own, and Triton.

use std::path::Path;
use std::process::Command;
use testkit::tool::said;
use testkit::{Scratch, toolkit};

const OURS: &str = env!("CARGO_BIN_EXE_ptxas");
const SASSAFRAS: &str = env!("CARGO_BIN_EXE_sassafras");

/// Is the file ours, and does the hazard checker find nothing in it?
fn is_ours(cubin: &Path) {
    let elf = cubin::elf::Elf::read(&std::fs::read(cubin).expect("a file")).expect("a cubin");
    let (_, note) = elf.section(".note.nv.tkinfo").expect("a note");
    assert!(note.data.windows(9).any(|w| w == b"Sassafras"), "{}", cubin.display());
    let lint = Command::new(SASSAFRAS).arg("lint").arg(cubin).output().expect("it runs");
    assert!(lint.status.success(), "{}", said(&lint));
}

/// Runs saxpy in the simulator.
fn runs(cubin: &Path) {
    let launch = testkit::root().join("tests/kernels/cuda/saxpy.basic.toml");
    let run = Command::new(SASSAFRAS).arg("run").arg(cubin).arg("--launch").arg(launch).output().expect("it runs");
    assert!(run.status.success(), "{}", said(&run));
}

/// nvcc, and everything else but ptxas, of the vendor.
#[test]
fn nvcc_with_ours() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("nvcc");
    let bin = toolkit(&oracle, &dir, &[("ptxas", OURS)]);
    let ptx = testkit::root().join("tests/kernels/cuda/saxpy.ptx");
    for options in [&["-arch=sm_90"][..], &["-arch=sm_90", "-lineinfo", "-maxrregcount=40", "-Xptxas=-v"]] {
        let cubin = dir.join("saxpy.cubin");
        let _ = std::fs::remove_file(&cubin);
        let done = Command::new(bin.join("nvcc")).args(options).arg("-cubin").arg(&ptx).arg("-o").arg(&cubin).output();
        let done = done.expect("nvcc runs");
        assert!(done.status.success(), "{options:?}: {}", said(&done));
        is_ours(&cubin);
        runs(&cubin);
    }
}

/// saxpy without a toolkit's headers, as clang takes it.
const SAXPY: &str = r#"
extern "C" __attribute__((global)) void saxpy(float a, const float *x, float *y, int n) {
  int i = __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
  if (i < n) y[i] = a * x[i] + y[i];
}
"#;

/// clang runs the ptxas that `--ptxas-path` names.
#[test]
fn clang_with_ours() {
    let Some(clang) = testkit::oracle::clang() else {
        eprintln!("no clang for sm_90: not tested");
        return;
    };
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("clang");
    std::fs::write(dir.join("saxpy.cu"), SAXPY).expect("written");
    let cubin = dir.join("saxpy.cubin");
    let mut run = Command::new(clang);
    run.args(["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90", "-nocudainc", "-nocudalib", "-O2", "-c"]);
    run.arg(format!("--cuda-path={}", oracle.display())).arg(format!("--ptxas-path={OURS}"));
    let done = run.arg(dir.join("saxpy.cu")).arg("-o").arg(&cubin).output().expect("clang runs");
    assert!(done.status.success(), "{}", said(&done));
    is_ours(&cubin);
    runs(&cubin);
}

/// sccache takes nvcc apart and keeps what each step gives, ptxas among them: the second time nothing is compiled, and the object is
/// the same. It does not find the step of ptxas in what nvcc 13.5 says it will do, whosever ptxas that is; so the release before.
#[test]
fn sccache_with_ours() {
    let releases = testkit::oracle::releases();
    let (Some(sccache), Some(oracle)) = (testkit::oracle::sccache(), releases.get(1)) else { return };
    let dir = Scratch::new("sccache");
    let nvcc = toolkit(oracle, &dir, &[("ptxas", OURS)]).join("nvcc");
    let text = "extern \"C\" __global__ void saxpy(const float *x, float *y, float a, unsigned n) {\n\
                unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }\n";
    std::fs::write(dir.join("saxpy.cu"), text).expect("written");
    let run = |args: &[&str]| {
        let mut c = Command::new(&sccache);
        c.args(args).current_dir(&*dir).env("SCCACHE_DIR", dir.join("cache"));
        c.env("SCCACHE_SERVER_UDS", dir.join("socket")).env("SCCACHE_IDLE_TIMEOUT", "60");
        let done = c.output().expect("sccache runs");
        (done.status.success(), said(&done))
    };
    let nvcc = nvcc.to_str().expect("a path in Unicode");
    let mut objects = Vec::new();
    for _ in 0..2 {
        let _ = std::fs::remove_file(dir.join("saxpy.o"));
        let (ok, text) = run(&[nvcc, "-arch=sm_90", "-c", "saxpy.cu", "-o", "saxpy.o"]);
        assert!(ok, "{text}");
        objects.push(std::fs::read(dir.join("saxpy.o")).expect("an object"));
    }
    let (_, stats) = run(&["--show-stats"]);
    let _ = run(&["--stop-server"]);
    assert!(objects[0] == objects[1], "the object differs");
    assert!(objects[0].windows(9).any(|w| w == b"Sassafras"), "another ptxas");
    let hit = stats.lines().any(|l| l.starts_with("Cache hits (CUBIN)") && l.trim_end().ends_with('1'));
    assert!(hit, "{stats}");
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
