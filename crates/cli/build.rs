//! Links the programs at fixed addresses and with the system's library in them, where the system's linker is known to do so.
//!
//! The tables of the instruction sets are full of references: a program that may be loaded anywhere has 50,000 of them
//! relocated and half a thousand pages written each time it starts, which takes longer than to compile a small kernel.
//! Finding three shared libraries and joining the program to them takes as long again.
//!
//! LLVM's linker, which Rust brings along here, maps the file that it makes and fills it page by page, and in single pages the
//! file stays in the system's memory. Written at once it lies there in large pieces, of which a program takes more with
//! each page fault and finds them faster: the smallest kernel takes 1.0 ms instead of 1.7 (`docs/speed.md`). A program that is
//! copied after it was linked, as an installed one is, has this anyway.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && is("CARGO_CFG_TARGET_ARCH", "x86_64")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
        let Some(folder) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
        if archives(&folder).is_some() {
            println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
            println!("cargo:rustc-link-arg-bins=-static");
        }
        if let Some(option) = writing(&folder) {
            println!("cargo:rustc-link-arg-bins={option}");
        }
    }
}

/// Names in `folder` the archives that a program without shared libraries takes, under the names that the standard library
/// asks for; none where the C compiler, which links, does not have them.
fn archives(folder: &Path) -> Option<()> {
    for (wanted, archives) in
        [("libc.a", &["libc.a"][..]), ("libm.a", &["libm.a"]), ("libgcc_s.a", &["libgcc_eh.a", "libgcc.a"])]
    {
        let mut group = String::from("GROUP (");
        for name in archives {
            let answer = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
            let path = String::from_utf8(answer.stdout).ok()?;
            // It answers with the bare name where it finds nothing.
            Path::new(path.trim()).is_absolute().then_some(())?;
            group += &format!(" {}", path.trim());
        }
        std::fs::write(folder.join(wanted), group + " )\n").ok()?;
    }
    Some(())
}

/// The option that makes LLVM's linker write its output instead of mapping it; none where another linker is used. From
/// version 21 on the option and its opposite mean each other (llvm-project#207459); where that is mended, what is said here
/// is what happens without it.
fn writing(folder: &Path) -> Option<&'static str> {
    let program = std::fs::read(linked(folder, &[])?).ok()?;
    // What a linker leaves in `.comment`.
    let name = b"Linker: LLD ";
    let at = program.windows(name.len()).position(|bytes| bytes == name)? + name.len();
    let digits = program[at..].iter().take_while(|byte| byte.is_ascii_digit());
    let version =
        digits.fold(0u32, |version, digit| version.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
    let option = if version >= 21 { "-Wl,--mmap-output-file" } else { "-Wl,--no-mmap-output-file" };
    linked(folder, &[format!("link-arg={option}")]).map(|_| option)
}

/// A program that does nothing, linked in `folder` as Rust links here, with these options of code generation; none where
/// that fails.
fn linked(folder: &Path, options: &[String]) -> Option<PathBuf> {
    let (source, program) = (folder.join("empty.rs"), folder.join("empty"));
    std::fs::write(&source, "fn main() {}").ok()?;
    let mut rustc = Command::new(std::env::var_os("RUSTC")?);
    rustc.arg("--target").arg(std::env::var_os("TARGET")?);
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", linker.display()));
    }
    rustc.args(options.iter().flat_map(|option| ["-C", option.as_str()])).arg("-o").arg(&program).arg(&source);
    rustc.output().ok()?.status.success().then_some(program)
}
