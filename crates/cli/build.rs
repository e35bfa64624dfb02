//! Links the programs at fixed addresses where the system's linker is known to do so.
//!
//! The tables of the instruction sets are full of references: a program that may be loaded anywhere has 50,000 of them
//! relocated and half a thousand pages written each time it starts, which takes longer than to compile a small kernel.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && is("CARGO_CFG_TARGET_ARCH", "x86_64")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
