//! Links of made-up programs beside the vendor's: the same symbols, attributes, figures and words.
//!
//! A few dozen links in a usual run; `SASSAFRAS_LINKS=300` makes as many, `SASSAFRAS_LINK_OBJECTS=2000` adds one of that many
//! objects.

mod program;

use program::Shape;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Random, Scratch};

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn ours(files: &[PathBuf], arch: &str) -> Result<link::Linked, Vec<diag::Diagnostic>> {
    let bytes: Vec<Vec<u8>> = files.iter().map(|f| std::fs::read(f).expect("a file")).collect();
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    let cubins: Vec<link::Cubin> =
        bytes.iter().zip(&names).map(|(bytes, name)| link::Cubin { name, bytes, system: false }).collect();
    link::link(&cubins, &program::options(arch))
}

/// Compiles the modules and links them with both; what is said where they differ.
fn compare(bin: &Path, modules: &[String], arch: &str) -> Vec<String> {
    let dir = Scratch::new("link");
    let files = program::compile(bin, &dir, modules, arch);
    let theirs = dir.join("vendor.cubin");
    let mut vendor = Command::new(bin.join("nvlink"));
    vendor.arg(format!("-arch={arch}")).args(&files).arg("-o").arg(&theirs);
    let done = vendor.output().expect("nvlink runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    match ours(&files, arch) {
        Err(errors) => {
            let fatal = errors.iter().any(|d| d.severity == diag::Severity::Fatal);
            let code = if fatal { 1 } else { 255 };
            let mut mine: Vec<&str> = errors.iter().map(|d| d.message.as_str()).collect();
            mine.sort_unstable();
            let mut all: Vec<&str> = said.lines().filter(|l| !l.contains("warning")).collect();
            all.sort_by_key(|l| l.split(": ").nth(1).unwrap_or(l).to_string());
            let same = done.status.code() == Some(code)
                && mine.iter().all(|m| all.iter().any(|l| l.ends_with(m)))
                && mine.len() == all.len();
            if same { Vec::new() } else { vec![format!("we say {mine:?}, they {:?}: {said}", done.status.code())] }
        }
        Ok(linked) => {
            if !done.status.success() {
                return vec![format!("they refuse what we link: {said}")];
            }
            for w in &linked.warnings {
                assert!(said.contains(&w.message), "they do not say: {}", w.message);
            }
            let vendor = std::fs::read(&theirs).expect("a cubin");
            let list = link::diff(&linked.bytes, &vendor).expect("cubins");
            list.iter().filter(|d| !program::explained(d)).map(|d| d.to_string()).collect()
        }
    }
}

#[test]
fn made_up_programs_link_as_the_vendor_links_them() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    let mut random = Random(8);
    let mut failed = Vec::new();
    for n in 0..number("SASSAFRAS_LINKS", 24) {
        let arch = ["sm_80", "sm_90", "sm_75", "sm_89", "sm_90a"][n % 5];
        let shape = Shape::random(&mut random);
        let modules = program::modules(&mut random, &shape, arch);
        let found = compare(&bin, &modules, arch);
        if !found.is_empty() {
            failed.push(format!("link {n} for {arch}, {shape:?}:\n  {}", found[..found.len().min(8)].join("\n  ")));
        }
    }
    assert!(failed.is_empty(), "{} links differ\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn a_link_of_many_objects() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let objects = number("SASSAFRAS_LINK_OBJECTS", 40);
    let mut random = Random(9);
    let shape = Shape { modules: objects, functions: 4, entries: 1, ..Shape::random(&mut random) };
    let modules = program::modules(&mut random, &shape, "sm_90");
    let found = compare(&oracle.join("bin"), &modules, "sm_90");
    assert!(found.is_empty(), "{shape:?}: {}", found[..found.len().min(20)].join("\n"));
}
