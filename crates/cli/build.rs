//! Links the programs at fixed addresses and with the system's library in them, where the system's linker is known to do so.
//!
//! The tables of the instruction sets are full of references: a program that may be loaded anywhere has 50,000 of them
//! relocated and half a thousand pages written each time it starts, which takes longer than to compile a small kernel.
//! Finding three shared libraries and joining the program to them takes as long again.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && is("CARGO_CFG_TARGET_ARCH", "x86_64")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
        if let Some(folder) = std::env::var_os("OUT_DIR").map(PathBuf::from)
            && archives(&folder).is_some()
        {
            println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
            println!("cargo:rustc-link-arg-bins=-static");
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
