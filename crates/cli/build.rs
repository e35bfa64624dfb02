//! Links the programs at fixed addresses and with the system's library in them, where the system's linker is known to do so.
//!
//! The tables of the instruction sets are full of references: a program that may be loaded anywhere has 50,000 of them
//! relocated and half a thousand pages written each time it starts, which takes longer than to compile a small kernel.
//! Finding three shared libraries and joining the program to them takes as long again.
//!
//! LLVM's linker, which Rust brings along here, maps the file that it makes and fills it page by page, and in single pages the
//! file stays in the system's memory. Written at once it lies there in large pieces, of which a program takes more with
//! each page fault and finds them faster: the smallest kernel takes 1.0 ms instead of 1.7 (`docs/speed.md`). A program that is
//! copied after it was linked, as an installed one is, has this anyway. Where the pieces are large pages (2 MiB, Linux 6.18 with ext4), and
//! code and tables begin at multiples of their size in the file and in memory, one page fault maps a whole one: the smallest kernel has 53
//! page faults instead of 120. What a run needs stands together (`places.ld`): 38 page faults. Up to 2 MiB of padding before each part of
//! the file are the price. What is written at start lies together, and stays writable
//! (`norelro`): a part of its own for what is only written then is two calls of the system and a page more. The compiler takes
//! tables with references in them for constants where it is told that programs lie at fixed addresses (`.cargo/config.toml`).
//!
//! Where files lie in small pages (as the system has read them again from the disk), each piece of 64 KiB that a run touches is a page fault: functions that
//! runs go through stand beside each other (`profile/order.txt`, [`ordered`]). A Triton kernel at `max` then has 100 page faults instead of 128 and takes 0.95 of its time.
//!
//! What starts the process is our own where the C library is one that it was made for (`build/start.rs`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

// Compiled by themselves; named here for the formatter.
#[cfg(any())]
#[path = "build/probe.rs"]
mod probe;
#[cfg(any())]
#[path = "build/start.rs"]
mod start;

/// The programs that start without asking the processor what it is, and the one that does not: it runs kernels, with the C
/// library's functions of numbers, of which some processors have faster ones.
const QUICK: [&str; 5] = ["ptxas", "nvdisasm", "nvlink", "cuobjdump", "fatbinary"];
const PLAIN: [&str; 1] = ["sassafras"];

/// Versions of the GNU C library that `build/start.rs` was held beside.
const LOOKED_AT: [&str; 1] = ["2.36"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    let mut start = Err("the programs are not linked with the GNU C library in them");
    let mut pages = false;
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if is("PROFILE", "release") && std::env::var_os("RUSTC_WORKSPACE_WRAPPER").is_none() {
        println!(
            "cargo:warning=built without the profile of profile/release.profdata, as cargo was not started inside the repository: programs take half as long again"
        );
    }
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && is("CARGO_CFG_TARGET_ARCH", "x86_64")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
        let Some(folder) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
        if let Some(plain) = archives(&folder.join("plain"), &[]) {
            println!("cargo:rustc-link-arg-bins=-static");
            start = started(&folder, &plain);
            let quick = start.as_ref().unwrap_or(&plain);
            for (programs, archives) in [(&QUICK[..], quick), (&PLAIN, &plain)] {
                programs.iter().for_each(|p| println!("cargo:rustc-link-arg-bin={p}=-L{}", archives.display()));
            }
        }
        let mut options: Vec<String> = llvm(&folder).into_iter().map(String::from).collect();
        pages = options.iter().any(|option| option == PAGES[0]);
        options.extend(placed(&folder));
        options.extend(ordered(&folder).into_iter().flatten());
        options.iter().for_each(|option| println!("cargo:rustc-link-arg-bins={option}"));
    }
    // For the tests that say which it is.
    println!("cargo:rustc-env=SASSAFRAS_START={}", start.err().unwrap_or_default());
    println!("cargo:rustc-env=SASSAFRAS_PAGES={pages}");
}

/// Names in a folder the archives that a program without shared libraries takes, under the names that the standard library
/// asks for, and others that come before the C library; none where the C compiler, which links, does not have them.
fn archives(folder: &Path, first: &[&Path]) -> Option<PathBuf> {
    std::fs::create_dir_all(folder).ok()?;
    for (wanted, archives) in
        [("libc.a", &["libc.a"][..]), ("libm.a", &["libm.a"]), ("libgcc_s.a", &["libgcc_eh.a", "libgcc.a"])]
    {
        let mut group = String::from("GROUP (");
        for archive in first.iter().filter(|_| wanted == "libc.a") {
            group += &format!(" {}", archive.display());
        }
        for name in archives {
            let answer = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
            let path = String::from_utf8(answer.stdout).ok()?;
            // It answers with the bare name where it finds nothing.
            Path::new(path.trim()).is_absolute().then_some(())?;
            group += &format!(" {}", path.trim());
        }
        std::fs::write(folder.join(wanted), group + " )\n").ok()?;
    }
    Some(folder.to_path_buf())
}

/// Options that let code and tables begin where large pages do, in the file and in memory, and keep data in one part, and equal functions once.
const PAGES: [&str; 4] =
    ["-Wl,-z,max-page-size=2097152", "-Wl,-z,separate-loadable-segments", "-Wl,-z,norelro", "-Wl,--icf=all"];

/// Says what stands where; linked as a file.
const PLACES: &str = "build/places.ld";

/// The functions that runs go through, in the order in which they shall lie (`cargo xtask profile order`).
const ORDER: &str = "../../profile/order.txt";

/// The options that put them there, none where the linker does not know them. Names that a program does not have do not matter.
fn ordered(folder: &Path) -> Option<[String; 2]> {
    println!("cargo:rerun-if-changed={ORDER}");
    let list = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?).join(ORDER).canonicalize().ok()?;
    let options =
        [format!("-Wl,--symbol-ordering-file={}", list.to_str()?), String::from("-Wl,--no-warn-symbol-ordering")];
    linked(folder, &options.each_ref().map(|o| format!("link-arg={o}"))).map(|_| options)
}

/// The options for LLVM's linker; none where another linker is used. The first makes it write its output instead of mapping it. From
/// version 21 on the option and its opposite mean each other (llvm-project#207459); where that is mended, what is said here
/// is what happens without it. The others are [`PAGES`].
fn llvm(folder: &Path) -> Vec<&'static str> {
    let version = || {
        let program = std::fs::read(linked(folder, &[])?).ok()?;
        // What a linker leaves in `.comment`.
        let name = b"Linker: LLD ";
        let at = program.windows(name.len()).position(|bytes| bytes == name)? + name.len();
        let digits = program[at..].iter().take_while(|byte| byte.is_ascii_digit());
        Some(digits.fold(0u32, |version, digit| version.saturating_mul(10).saturating_add(u32::from(digit - b'0'))))
    };
    let Some(version) = version() else { return Vec::new() };
    let written = if version >= 21 { "-Wl,--mmap-output-file" } else { "-Wl,--no-mmap-output-file" };
    let taken = |options: &&[&str]| {
        let options: Vec<String> = options.iter().map(|option| format!("link-arg={option}")).collect();
        linked(folder, &options).is_some()
    };
    [&[written][..], &PAGES].into_iter().filter(taken).flatten().copied().collect()
}

/// The script that says what stands where, as an argument of the linker; none where it does not take it for a program as ours are.
fn placed(folder: &Path) -> Option<String> {
    let script = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?).join(PLACES).to_str()?.to_owned();
    let library = format!("-L{}", folder.join("plain").display());
    let options: Vec<String> = [&["-no-pie", "-static", &library, &script][..], &PAGES]
        .concat()
        .iter()
        .map(|o| format!("link-arg={o}"))
        .collect();
    linked(folder, &options).map(|_| script)
}

/// The archives with our own start of programs before the C library's, where a program with it does all that one with the
/// library's start (its archives are in `plain`) does; or why not.
fn started(folder: &Path, plain: &Path) -> Result<PathBuf, &'static str> {
    if std::env::var_os("HOST") != std::env::var_os("TARGET") {
        return Err("the programs are made for another machine, where nothing can be tried");
    }
    let ours = folder.join("libstart.rlib");
    let mut rustc = Command::new(std::env::var_os("RUSTC").ok_or("there is no compiler")?);
    // Without flags from outside: what they may add to functions (counters, checks of the stack) needs a process that has
    // started. An archive, as members of those are taken in their order: an object would be linked after the library.
    rustc.args(["--edition=2024", "--crate-type=rlib", "-Copt-level=2", "-Cpanic=abort", "-Crelocation-model=static"]);
    rustc.args(["-Coverflow-checks=off", "-Cdebug-assertions=off", "-Ccodegen-units=1", "-Clto=off", "--target"]);
    rustc.arg(std::env::var_os("TARGET").unwrap_or_default()).arg("-o").arg(&ours).arg("build/start.rs");
    if !rustc.output().is_ok_and(|output| output.status.success()) {
        return Err("our start could not be compiled");
    }
    let quick = archives(&folder.join("quick"), &[&ours]).ok_or("archives are gone")?;
    let theirs = probed(folder, "theirs", plain).ok_or("a program with the library's start does not run")?;
    let version = theirs.strip_prefix("library ").and_then(|said| said.lines().next()).unwrap_or_default();
    if !LOOKED_AT.contains(&version) {
        return Err("our start was not held beside this version of the C library");
    }
    match probed(folder, "ours", &quick) {
        None => Err("a program with our start does not run"),
        Some(ours) if ours != theirs => Err("a program with our start does something else"),
        Some(_) => Ok(quick),
    }
}

/// What the probe says, linked as `name` with the C library of this folder; none where it does not come to its end.
fn probed(folder: &Path, name: &str, library: &Path) -> Option<String> {
    /// As the probe ends.
    const CODE: i32 = 23;
    let source = std::fs::read_to_string("build/probe.rs").ok()?;
    let how = ["opt-level=2", "link-arg=-no-pie", "link-arg=-static"].map(String::from);
    let program =
        compiled(folder, name, &source, &[&how[..], &[format!("link-arg=-L{}", library.display())]].concat())?;
    let mut probe = Command::new(program);
    probe.args(["a word", "", "--last"]).arg(folder).env("PROBE", "of the start").env_remove("PROBE_NOT");
    let said = ended(probe.stdin(Stdio::null()), Duration::from_secs(60))?;
    let text = String::from_utf8(said.stdout).ok()?;
    (said.status.code() == Some(CODE) && text.ends_with("not flushedlast words\n")).then_some(text)
}

/// What a command has written when it ended by itself, within this time.
fn ended(command: &mut Command, time: Duration) -> Option<Output> {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    while child.try_wait().ok()?.is_none() {
        if began.elapsed() > time {
            child.kill().ok()?;
            child.wait().ok()?;
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().ok()
}

/// A program that does nothing, linked in `folder` as Rust links here, with these options of code generation; none where
/// that fails.
fn linked(folder: &Path, options: &[String]) -> Option<PathBuf> {
    compiled(folder, "empty", "fn main() {}", options)
}

/// A program of this text in `folder`, linked as Rust links here, with these options of code generation; none where that fails.
fn compiled(folder: &Path, name: &str, text: &str, options: &[String]) -> Option<PathBuf> {
    let (source, program) = (folder.join(name).with_extension("rs"), folder.join(name));
    std::fs::write(&source, text).ok()?;
    let mut rustc = Command::new(std::env::var_os("RUSTC")?);
    rustc.arg("--edition=2024").arg("--target").arg(std::env::var_os("TARGET")?);
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.display()));
    }
    rustc.args(options.iter().flat_map(|option| ["-C", option.as_str()])).arg("-o").arg(&program).arg(&source);
    rustc.output().ok()?.status.success().then_some(program)
}
