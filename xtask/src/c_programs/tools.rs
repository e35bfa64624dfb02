//! The programs that this needs and that are not ours: a generator, and clang with its sanitizers and its code for NVIDIA's GPUs.

use super::Kind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What came of a program that had so much time.
#[derive(Debug)]
pub enum Ended {
    /// It ended well; what it printed.
    Well(String),
    /// It failed; what it said on standard error, and before it on standard output.
    Badly(String),
    /// It was ended, because it took too long.
    Late,
}

/// Runs a program for so many seconds at most. What it prints goes through files in `work`.
///
/// # Errors
/// It cannot be run.
pub fn run(command: &mut Command, seconds: u64, work: &Path) -> Result<Ended, String> {
    let (out, err) = (work.join("said.out"), work.join("said.err"));
    let open = |p: &Path| std::fs::File::create(p).map_err(|e| format!("{}: {e}", p.display()));
    command.stdin(Stdio::null()).stdout(open(&out)?).stderr(open(&err)?);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|e| format!("cannot run {name}: {e}"))?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut pause = Duration::from_millis(1);
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if Instant::now() > end => {
                // It may have ended by itself since.
                let _ = child.kill();
                child.wait().map_err(|e| e.to_string())?;
                return Ok(Ended::Late);
            }
            None => std::thread::sleep(pause),
        }
        pause = (2 * pause).min(Duration::from_millis(20));
    };
    let read = |p: &Path| std::fs::read(p).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    Ok(match status.success() {
        true => Ended::Well(read(&out)),
        false => {
            let said = format!("{}{}", read(&out), read(&err));
            Ended::Badly(if said.trim().is_empty() { status.to_string() } else { said })
        }
    })
}

/// clang, found to do what is wanted of it.
pub struct Clang {
    name: PathBuf,
    /// Folders with the generator's headers.
    headers: Vec<PathBuf>,
}

/// What is undefined ends the program, also where the standard leaves it to machines which number a float becomes that fits none.
const SANITIZED: [&str; 4] =
    ["-O1", "-fsanitize=undefined,float-cast-overflow,address", "-fno-sanitize-recover=all", "-g1"];

/// The same for memory that nobody wrote, which wants a program of its own.
const SANITIZED_MEMORY: [&str; 3] = ["-O1", "-fsanitize=memory", "-g1"];

/// Both machines: nothing of the system's C library but what a program is linked with.
const PLAIN: [&str; 4] = ["-w", "-ffreestanding", "-nostdlibinc", "-ffp-contract=off"];

/// How a program for the processor is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Host<'a> {
    /// With this optimization (`-O2`).
    Plain(&'a str),
    Sanitized,
    SanitizedMemory,
}

impl Clang {
    /// Finds clang and what it needs.
    ///
    /// # Errors
    /// What is missing, and which packages have it.
    pub fn find(name: Option<&str>, headers: Vec<PathBuf>, work: &Path) -> Result<Clang, String> {
        const WANTED: &str =
            "LLVM's clang 17 or later with the target nvptx64 (Debian: clang-19), or name one by --clang";
        let name = name.map(PathBuf::from).or_else(testkit::oracle::clang);
        let name = name.ok_or_else(|| format!("no clang in PATH: install {WANTED}"))?;
        let clang = Clang { name, headers };
        let probe = work.join("probe.c");
        let text = "#ifdef __NVPTX__\n__attribute__((nvptx_kernel)) void k(int *p) { *p = 1; }\n#else\nint main(void) { return 0; }\n#endif\n";
        std::fs::write(&probe, text).map_err(|e| e.to_string())?;
        let (ptx, program) = (work.join("probe.ptx"), work.join("probe"));
        let named = clang.name.display().to_string();
        let good = |ended, what: &str| match ended {
            Ok(Ended::Well(_)) => Ok(()),
            Ok(Ended::Badly(said)) => Err(format!("{named}: {what}\n{said}")),
            Ok(Ended::Late) => Err(format!("{named} does not end")),
            Err(e) => Err(format!("{e}: install {WANTED}")),
        };
        good(clang.device(&probe, "sm_75", "-O2", &ptx, work), &format!("no code for GPUs; install {WANTED}"))?;
        let kernel = std::fs::read_to_string(&ptx).is_ok_and(|t| t.contains(".entry k"));
        if !kernel {
            return Err(format!(
                "{named} makes no kernel of a function with the attribute nvptx_kernel: install {WANTED}"
            ));
        }
        for host in [Host::Sanitized, Host::SanitizedMemory] {
            let what = "no programs with sanitizers; install LLVM's runtime libraries (Debian: libclang-rt-19-dev) and a C library to link with (libc6-dev)";
            good(clang.host(&probe, host, &program, work), what)?;
        }
        Ok(clang)
    }

    fn command(&self, file: &Path, out: &Path) -> Command {
        let mut command = Command::new(&self.name);
        command.args(PLAIN).arg(file).arg("-o").arg(out);
        if let Some(folder) = file.parent() {
            command.arg("-I").arg(folder.join("include"));
        }
        for folder in &self.headers {
            command.arg("-I").arg(folder);
        }
        command
    }

    /// Makes PTX.
    ///
    /// # Errors
    /// clang cannot be run.
    pub fn device(&self, file: &Path, chip: &str, level: &str, out: &Path, work: &Path) -> Result<Ended, String> {
        let mut command = self.command(file, out);
        command.args(["--target=nvptx64-nvidia-cuda", "-S", level]).arg(format!("-march={chip}"));
        run(&mut command, 120, work)
    }

    /// Makes a program for this machine.
    ///
    /// # Errors
    /// clang cannot be run.
    pub fn host(&self, file: &Path, host: Host<'_>, out: &Path, work: &Path) -> Result<Ended, String> {
        let mut command = self.command(file, out);
        match host {
            Host::Plain(level) => command.arg(level),
            Host::Sanitized => command.args(SANITIZED),
            Host::SanitizedMemory => command.args(SANITIZED_MEMORY),
        };
        run(&mut command, 180, work)
    }
}

/// Finds the generator's headers.
///
/// # Errors
/// There are none where csmith needs some.
pub fn headers(kind: Kind, named: Option<&Path>) -> Result<Vec<PathBuf>, String> {
    if kind == Kind::Yarpgen {
        return Ok(Vec::new());
    }
    let good = |p: &PathBuf| p.join("csmith.h").is_file();
    if let Some(named) = named {
        let named = named.to_path_buf();
        return if good(&named) { Ok(vec![named]) } else { Err(format!("{} holds no csmith.h", named.display())) };
    }
    let mut list: Vec<PathBuf> = Vec::new();
    for base in ["/usr/include", "/usr/local/include"] {
        let entries = std::fs::read_dir(base).into_iter().flatten().flatten().map(|e| e.path());
        list.extend(entries.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("csmith"))));
    }
    list.sort();
    list.into_iter().rfind(good).map(|p| vec![p]).ok_or_else(|| {
        "no csmith.h: install csmith's headers (Debian: libcsmith-dev), or name their folder by --csmith-headers".into()
    })
}

/// Sees to it that the generator is there.
///
/// # Errors
/// It is not.
pub fn generator(kind: Kind, work: &Path) -> Result<(), String> {
    let (name, how) = match kind {
        Kind::Yarpgen => ("yarpgen", "build YARPGen 2 (intel/yarpgen) with cmake and put it in PATH"),
        _ => ("csmith", "install csmith 2.3 (Debian: csmith and libcsmith-dev)"),
    };
    match run(Command::new(name).arg("--version").current_dir(work), 10, work) {
        Ok(Ended::Well(_)) => Ok(()),
        _ => Err(format!("no {name} in PATH: {how}")),
    }
}
