//! Compiles the selection rules: `src/isel/rules/*.isle` to a decision tree in Rust.
//!
//! The ISLE type of operations is made from the table in `src/ir/ops.rs`, so that the two cannot differ.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=src/ir/ops.rs");
    println!("cargo::rerun-if-changed=src/isel/rules");
    let ops = std::fs::read_to_string("src/ir/ops.rs").expect("src/ir/ops.rs");
    let types = out.join("types.isle");
    std::fs::write(&types, op_type(&ops)).expect("write types.isle");
    let mut files: Vec<PathBuf> = std::fs::read_dir("src/isel/rules")
        .expect("src/isel/rules")
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "isle"))
        .collect();
    files.sort();
    files.insert(0, types);
    let options = cranelift_isle::codegen::CodegenOptions { exclude_global_allow_pragmas: true, ..Default::default() };
    match cranelift_isle::compile::from_files(&files, &options) {
        Ok(code) => std::fs::write(Path::new(&out).join("isle.rs"), code).expect("write isle.rs"),
        Err(errors) => {
            let mut text = format!("{errors:?}");
            text.truncate(text.floor_char_boundary(2000));
            panic!("the selection rules do not compile: {text}")
        }
    }
}

/// `(type Op extern (enum IAdd ...))` from the lines `Name "text" arity Effect;`.
fn op_type(ops: &str) -> String {
    let mut out = String::from("(type Op extern (enum\n");
    for line in ops.lines().map(str::trim) {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(text)) = (words.next(), words.next())
            && text.starts_with('"')
            && line.ends_with(';')
            && name.chars().all(char::is_alphanumeric)
        {
            writeln!(out, "  {name}").expect("write to a string");
        }
    }
    out + "))\n"
}
