//! Programs of several files (`tests/link`) through nvcc with our nvlink in the place of its own, and the same link by both.
//!
//! A usual run takes sm_90, and our ptxas in its place, too, for one program; `SASSAFRAS_LINK_ARCHS=75,80,90,120` takes all of these,
//! and our ptxas for all programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::tool::said;
use testkit::{Scratch, toolkit};

const NVLINK: &str = env!("CARGO_BIN_EXE_nvlink");
const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");
const SASSAFRAS: &str = env!("CARGO_BIN_EXE_sassafras");

fn must(command: &mut Command) {
    let done = command.output().expect("it runs");
    assert!(done.status.success(), "{command:?}: {}", said(&done));
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

/// Alignments of shared memory that the vendor rounds up (docs/link.md).
fn explained(line: &str) -> bool {
    line.starts_with(".nv.shared.") && line.contains(": alignment 0x")
}

/// Where everything is.
struct Tools<'a> {
    oracle: &'a Path,
    /// With our nvlink, and with our nvlink and ptxas, each in the vendor's toolkit.
    linker: PathBuf,
    both: PathBuf,
    archs: Vec<String>,
    /// All programs are built with our ptxas, too, not only one.
    all: bool,
}

impl Tools<'_> {
    /// Compiles a program's files for these targets in one go; those that are libraries become archives.
    fn build(&self, bin: &Path, sources: &[PathBuf], out: &Path, archs: &[String]) -> Vec<PathBuf> {
        std::fs::create_dir_all(out).expect("a folder");
        let mut nvcc = Command::new(bin.join("nvcc"));
        nvcc.args(["-w", "-dc", "-odir"]).arg(out).args(codes(archs)).args(sources);
        must(&mut nvcc);
        let object = |source: &PathBuf| {
            let stem = source.file_stem().expect("a name").to_string_lossy().into_owned();
            let object = out.join(format!("{stem}.o"));
            if !stem.starts_with("lib") {
                return object;
            }
            let archive = out.join(format!("{stem}.a"));
            must(Command::new("ar").arg("rcs").arg(&archive).arg(&object));
            archive
        };
        sources.iter().map(object).collect()
    }

    /// Cubins that say that they have no capsule: where one has none, the vendor's linker takes the plain code of all, as ours does.
    fn plain(&self, sources: &[PathBuf], out: &Path, arch: &str) -> Vec<PathBuf> {
        const FLAGS: usize = 48;
        const PLAIN: u8 = 4;
        let cubin = |source: &PathBuf| {
            let cubin = out.join(format!("{}.{arch}.cubin", source.file_stem().expect("a name").display()));
            let mut nvcc = Command::new(self.linker.join("nvcc"));
            nvcc.args(["-w", "-rdc=true", "-cubin", &format!("-arch=sm_{arch}")]).arg(source).arg("-o").arg(&cubin);
            must(&mut nvcc);
            let mut bytes = std::fs::read(&cubin).expect("a file");
            bytes[FLAGS] = PLAIN;
            std::fs::write(&cubin, bytes).expect("writable");
            cubin
        };
        sources.iter().map(cubin).collect()
    }

    fn link(&self, tool: &Path, arch: &str, objects: &[PathBuf], cubin: &Path) {
        let lib = format!("-L{}", self.oracle.join("lib").display());
        let mut link = Command::new(tool);
        link.arg(format!("-arch=sm_{arch}")).args(objects).args([&lib, "-lcudadevrt", "-o"]).arg(cubin);
        must(&mut link);
    }

    /// Links with capsules: theirs is ours, but of functions whose plain code the vendor made another of.
    fn compare_capsules(&self, name: &str, arch: &str, objects: &[PathBuf], out: &Path) {
        let [mine, theirs] = ["ours", "vendor"].map(|who| out.join(format!("{who}.{arch}.capsule.cubin")));
        self.link(Path::new(NVLINK), arch, objects, &mine);
        self.link(&self.oracle.join("bin/nvlink"), arch, objects, &theirs);
        let diff = Command::new(SASSAFRAS).arg("link-diff").args([&mine, &theirs]).output().expect("it runs");
        let text = String::from_utf8_lossy(&diff.stdout).into_owned();
        let remade = |line: &str| {
            let function = line.strip_prefix(".nv.capmerc").and_then(|l| l.split(": ").next());
            function.is_some_and(|f| text.lines().any(|l| l.starts_with(&format!("{f}: ")) && l.contains("bytes")))
        };
        let of = |l: &&str| [".nv.merc", ".nv.capmerc", "capsule"].iter().any(|p| l.contains(p));
        let left: Vec<&str> = text.lines().filter(of).filter(|l| !remade(l)).collect();
        assert!(left.is_empty(), "{name} for sm_{arch}: {}", left.join("\n"));
    }

    fn program(&self, program: &Path, out: &Path) {
        let name = program.file_name().expect("a name").to_string_lossy().into_owned();
        let mut sources: Vec<PathBuf> =
            std::fs::read_dir(program).expect("a folder").flatten().map(|e| e.path()).collect();
        sources.retain(|s| s.extension().is_some_and(|e| e == "cu"));
        sources.sort();
        let objects = self.build(&self.linker, &sources, out, &self.archs);
        // The whole program, as nvcc builds it.
        let whole = out.join("program");
        must(Command::new(self.linker.join("nvcc")).args(codes(&self.archs)).args(&objects).arg("-o").arg(&whole));
        for arch in &self.archs {
            let [mine, theirs] = ["ours", "vendor"].map(|who| out.join(format!("{who}.{arch}.cubin")));
            let cubins = if capsules(arch) { self.plain(&sources, out, arch) } else { objects.clone() };
            self.link(Path::new(NVLINK), arch, &cubins, &mine);
            self.link(&self.oracle.join("bin/nvlink"), arch, &cubins, &theirs);
            let diff = Command::new(SASSAFRAS).arg("link-diff").args([&mine, &theirs]).output().expect("it runs");
            let text = String::from_utf8_lossy(&diff.stdout).into_owned();
            let left: Vec<&str> = text.lines().filter(|l| !explained(l)).collect();
            assert!(left.is_empty(), "{name} for sm_{arch}: {}", left.join("\n"));
            if capsules(arch) {
                self.compare_capsules(&name, arch, &objects, out);
            }
            let ours = run(out, &mine);
            assert!(ours == run(out, &theirs), "{name} for sm_{arch} computes something else: {ours:?}");
            assert!(ours.0.iter().any(|&b| b != 0));
            if self.all || name == "calls" {
                // Our compiler's objects, linked by us.
                let objects = self.build(&self.both, &sources, &out.join("both"), std::slice::from_ref(arch));
                let both = out.join("both.cubin");
                self.link(Path::new(NVLINK), arch, &objects, &both);
                assert!(ours == run(out, &both), "{name} by our ptxas and nvlink computes something else");
            }
        }
    }
}

/// True for chips whose files have capsules.
fn capsules(arch: &str) -> bool {
    arch.parse::<u32>().expect("a number") >= 100
}

fn codes(archs: &[String]) -> Vec<String> {
    archs.iter().map(|a| format!("-gencode=arch=compute_{a},code=sm_{a}")).collect()
}

#[test]
fn programs_of_several_files() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("linking");
    let archs = std::env::var("SASSAFRAS_LINK_ARCHS").ok();
    let linker = [("nvlink", NVLINK)];
    let tools = Tools {
        oracle: &oracle,
        linker: toolkit(&oracle, &dir.join("linker"), &linker),
        both: toolkit(&oracle, &dir.join("both"), &[linker[0], ("ptxas", PTXAS)]),
        all: archs.is_some(),
        archs: archs.unwrap_or_else(|| "90".into()).split(',').map(String::from).collect(),
    };
    let mut programs: Vec<PathBuf> =
        std::fs::read_dir(testkit::root().join("tests/link")).expect("a folder").flatten().map(|e| e.path()).collect();
    programs.sort();
    assert!(programs.len() >= 10);
    let work = std::sync::Mutex::new(programs.iter());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(program) = work.lock().ok().and_then(|mut w| w.next()) else { return };
                    tools.program(program, &dir.join(program.file_name().expect("a name")));
                }
            });
        }
    });
}

/// Programs that are built at once.
const THREADS: usize = 2;
