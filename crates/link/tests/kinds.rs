//! Links of made-up programs whose modules come in files of every kind: fatbins (each compression), host objects, those that the
//! host's linker joined, executables, archives (usual, thin, without an index, in archives), PTX. Whatever holds the modules, the result
//! is what the vendor's linker makes of the plain cubins; and of the same files, where it takes them.
//!
//! A few links in a usual run; `SASSAFRAS_LINKS=300` makes as many.

#[allow(dead_code)]
mod program;

use link::input::{Collector, Host};
use program::Shape;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Random, Scratch};

/// What holds a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cubin,
    Fatbin(&'static str),
    /// Text in a fatbin, and as a file.
    PtxFatbin,
    Ptx,
    Object,
    /// Joined by the host's linker (`ld -r`).
    Joined,
    Archive,
    Thin,
    /// An archive without an index.
    NoIndex,
    /// An archive that holds an executable.
    ProgramInArchive,
    Program,
    CubinInArchive,
    FatbinInArchive,
    Nested,
}

const KINDS: [Kind; 17] = [
    Kind::Object,
    Kind::Fatbin("none"),
    Kind::Archive,
    Kind::PtxFatbin,
    Kind::Program,
    Kind::Fatbin("speed"),
    Kind::Thin,
    Kind::CubinInArchive,
    Kind::Joined,
    Kind::Fatbin("size"),
    Kind::Fatbin("concat"),
    Kind::Nested,
    Kind::Cubin,
    Kind::NoIndex,
    Kind::FatbinInArchive,
    Kind::Ptx,
    Kind::ProgramInArchive,
];

impl Kind {
    /// The vendor's linker passes over the others without a word. Text it compiles in another way than ptxas does.
    fn vendor_takes(self) -> bool {
        use Kind::*;
        !matches!(self, Ptx | PtxFatbin | Program | CubinInArchive | FatbinInArchive | Nested)
    }
}

fn must(command: &mut Command) {
    let done = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {said}");
}

/// Where everything is.
struct Tools<'a> {
    bin: &'a Path,
    dir: &'a Path,
    arch: &'a str,
}

impl Tools<'_> {
    fn fatbin(&self, name: &str, kind: &str, file: &Path, mode: &str) -> PathBuf {
        let out = self.dir.join(format!("{name}.fatbin"));
        let sm = self.arch.trim_start_matches("sm_");
        let image = format!("--image3=kind={kind},sm={sm},file={}", file.display());
        let mut tool = Command::new(self.bin.join("fatbinary"));
        tool.arg(format!("--create={}", out.display())).args([&image, "-link"]);
        // Entries that are compressed together are two at least.
        must(match mode {
            "concat" => tool.args([&image, "--concat"]),
            _ => tool.arg(format!("--compress-mode={mode}")),
        });
        out
    }

    fn compile(&self, name: &str, options: &[&str], inputs: &[&Path]) -> PathBuf {
        let out = self.dir.join(name);
        must(Command::new("cc").args(options).args(inputs).arg("-o").arg(&out));
        out
    }

    /// An object of the host with a fatbin for the linker, as nvcc makes it.
    fn object(&self, name: &str, fatbin: &Path) -> PathBuf {
        let text = self.dir.join(format!("{name}.S"));
        let body = format!(
            ".section __nv_relfatbin,\"a\"\n.balign 8\ncode:\n.incbin \"{}\"\n.section .nvFatBinSegment,\"aw\"\n.balign 8\n\
             .long 0x466243b1, 1\n.quad code, 0\n.section .note.GNU-stack,\"\",@progbits\n",
            fatbin.display()
        );
        std::fs::write(&text, body).expect("writable");
        self.compile(&format!("{name}.o"), &["-c"], &[&text])
    }

    fn archive(&self, name: &str, how: &str, member: &Path) -> PathBuf {
        let out = self.dir.join(format!("{name}.a"));
        must(Command::new("ar").current_dir(self.dir).arg(how).arg(&out).arg(member.file_name().expect("a name")));
        out
    }

    /// Puts the cubin `<name>.cubin`, which was made of `<name>.ptx`, into a file of a kind.
    fn pack(&self, name: &str, kind: Kind) -> PathBuf {
        let [cubin, text] = ["cubin", "ptx"].map(|end| self.dir.join(format!("{name}.{end}")));
        let fatbin = |mode| self.fatbin(name, "elf", &cubin, mode);
        let object = || self.object(name, &fatbin("default"));
        let program = || {
            let main = self.dir.join("main.c");
            std::fs::write(&main, "int main(void) { return 0; }\n").expect("writable");
            self.compile(&format!("{name}.exe"), &[], &[&main, &object()])
        };
        match kind {
            Kind::Cubin => cubin,
            Kind::Fatbin(mode) => fatbin(mode),
            Kind::PtxFatbin => self.fatbin(name, "ptx", &text, "size"),
            Kind::Ptx => text,
            Kind::Object => object(),
            Kind::Joined => self.compile(&format!("{name}.joined.o"), &["-r", "-nostdlib"], &[&object()]),
            Kind::Archive => self.archive(name, "rcs", &object()),
            Kind::Thin => self.archive(name, "rcsT", &object()),
            Kind::NoIndex => self.archive(name, "rcS", &object()),
            Kind::ProgramInArchive => self.archive(name, "rcS", &program()),
            Kind::Program => program(),
            Kind::CubinInArchive => self.archive(name, "rcS", &cubin),
            Kind::FatbinInArchive => self.archive(name, "rcS", &fatbin("default")),
            Kind::Nested => self.archive(&format!("{name}.outer"), "rcS", &self.archive(name, "rcs", &object())),
        }
    }

    fn vendor(&self, files: &[PathBuf]) -> Result<Vec<u8>, String> {
        let out = self.dir.join("vendor.cubin");
        let mut link = Command::new(self.bin.join("nvlink"));
        // It looks for the members of thin archives from where it runs.
        link.current_dir(self.dir).arg(format!("-arch={}", self.arch)).args(files).arg("-o").arg(&out);
        let done = link.output().expect("it runs");
        match done.status.success() {
            true => Ok(std::fs::read(out).expect("a file")),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        }
    }

    fn ours(&self, files: &[PathBuf]) -> Result<Vec<u8>, Vec<diag::Diagnostic>> {
        let list: Vec<(String, Vec<u8>)> =
            files.iter().map(|f| (f.display().to_string(), std::fs::read(f).expect("a file"))).collect();
        let options = program::options(self.arch);
        let mut collector = Collector::new(options.target, self);
        for (name, bytes) in &list {
            collector.add(name, bytes, false)?;
        }
        let inputs = collector.finish();
        assert!(inputs.warnings.is_empty(), "{:?}", inputs.warnings);
        let cubins: Vec<link::Cubin> = inputs.cubins.iter().map(|c| c.as_cubin()).collect();
        link::link(&cubins, &options).map(|l| l.bytes)
    }
}

impl Host for Tools<'_> {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        std::fs::read(path).ok()
    }

    /// The vendor's compiler: what comes of a text is what the module's cubin holds.
    fn compile(&self, _: &str, text: &[u8], target: arch::Target) -> Result<Vec<u8>, Vec<diag::Diagnostic>> {
        let text = std::str::from_utf8(text).expect("text");
        let made = testkit::oracle::compile(&self.bin.join("ptxas"), text, &["-c", &format!("-arch={target}")]);
        Ok(made.expect("it compiles"))
    }
}

#[test]
fn files_of_every_kind_link_alike() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    let links = std::env::var("SASSAFRAS_LINKS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let (mut random, mut failed, mut alike) = (Random(10), Vec::new(), 0);
    for n in 0..links {
        let arch = ["sm_80", "sm_90", "sm_75", "sm_89"][n % 4];
        let dir = Scratch::new("kinds");
        let tools = Tools { bin: &bin, dir: &dir, arch };
        let shape = Shape::random(&mut random);
        let modules = program::modules(&mut random, &shape, arch);
        let plain = program::compile(&bin, &dir, &modules, arch);
        let kinds: Vec<Kind> = (0..modules.len()).map(|_| KINDS[random.index(KINDS.len())]).collect();
        let packed: Vec<PathBuf> = kinds.iter().enumerate().map(|(i, &k)| tools.pack(&format!("m{i}"), k)).collect();
        let taken: Vec<PathBuf> =
            kinds.iter().enumerate().map(|(i, k)| if k.vendor_takes() { &packed } else { &plain }[i].clone()).collect();
        let mut wrong = |what: String| failed.push(format!("link {n} for {arch}, {kinds:?}, {shape:?}: {what}"));
        for files in [&plain, &taken] {
            match (tools.ours(&packed), tools.vendor(files)) {
                (Ok(ours), Ok(vendor)) => {
                    let list = link::diff(&ours, &vendor).expect("cubins");
                    let left: Vec<String> =
                        list.iter().filter(|d| !program::explained(d)).map(|d| d.to_string()).collect();
                    if !left.is_empty() {
                        wrong(left.join("\n  "));
                    }
                    alike += 1;
                }
                (Err(_), Err(_)) => {}
                (Ok(_), Err(e)) => wrong(format!("they refuse it: {e}")),
                (Err(e), Ok(_)) => wrong(format!("we refuse it: {e:?}")),
            }
        }
    }
    assert!(failed.is_empty(), "{} of {links} links differ\n{}", failed.len(), failed.join("\n"));
    assert!(alike > links, "most are refused: {alike} of {links}");
}
