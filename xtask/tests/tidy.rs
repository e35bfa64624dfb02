//! The rules of the house, held: floors, who may print, file lengths, what must not be committed.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Each crate with its floor: a crate may use only crates on lower floors.
const FLOORS: [(&str, u32); 9] = [
    ("arch", 1),
    ("diag", 1),
    ("ptx", 2),
    ("sass", 2),
    ("cubin", 2),
    ("codegen", 3),
    ("sim", 3),
    ("link", 3),
    ("cli", 5),
];

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for e in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let p = e.path();
        if p.is_dir() {
            sources(&p, out);
        } else if p.extension().is_some_and(|x| x == "rs") {
            out.push(p);
        }
    }
}

#[test]
fn crates_use_lower_floors_only() {
    for (name, floor) in FLOORS {
        let manifest = std::fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).expect(name);
        let uses = manifest.split("\n[dependencies]").nth(1).unwrap_or_default();
        let uses = uses.split("\n[").next().unwrap_or_default();
        assert!(!uses.contains("testkit"), "{name} ships what is for tests");
        for (other, its) in FLOORS {
            if uses.lines().any(|l| l.starts_with(&format!("{other}.")) || l.starts_with(&format!("{other} "))) {
                assert!(its < floor, "{name} (floor {floor}) uses {other} (floor {its})");
            }
        }
    }
    let all: Vec<String> = std::fs::read_dir(root().join("crates"))
        .expect("crates")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().to_string())
        .collect();
    for name in all {
        assert!(name == "testkit" || FLOORS.iter().any(|f| f.0 == name), "crate {name} has no floor");
    }
}

#[test]
fn only_the_command_line_prints_exits_or_reads_the_environment() {
    let mut bad = Vec::new();
    for (name, floor) in FLOORS {
        if floor >= 5 {
            continue;
        }
        let mut files = Vec::new();
        sources(&root().join("crates").join(name).join("src"), &mut files);
        for f in files {
            let text = std::fs::read_to_string(&f).expect("readable");
            // Tests stand at the end of a file and may print.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (n, line) in code.lines().enumerate() {
                let line = line.split("//").next().unwrap_or_default();
                for word in ["println!", "eprintln!", "print!(", "process::exit", "env::var", "env::args"] {
                    if line.contains(word) {
                        bad.push(format!("{}:{}: {word}", f.display(), n + 1));
                    }
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn language_crates_document_everything() {
    for name in ["arch", "diag", "ptx", "sass", "cubin"] {
        let lib = std::fs::read_to_string(root().join("crates").join(name).join("src/lib.rs")).expect(name);
        assert!(lib.contains("#![deny(missing_docs)]"), "{name}");
    }
}

/// Files that may be long: tables, and what is on the list to be divided.
const LONG: usize = 1200;

#[test]
fn files_have_one_topic() {
    let mut bad = Vec::new();
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("xtask"), &mut files);
    for f in files {
        let lines = std::fs::read_to_string(&f).expect("readable").lines().count();
        if lines > LONG {
            bad.push(format!("{}: {lines} lines", f.display()));
        }
    }
    assert!(bad.is_empty(), "longer than {LONG} lines:\n{}", bad.join("\n"));
}

#[test]
fn nothing_names_a_machine() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("xtask"), &mut files);
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        files.push(root().join(name));
    }
    // Put together so that this file does not hold them itself.
    let homes = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];
    for f in files {
        let text = std::fs::read_to_string(&f).unwrap_or_default();
        for h in homes {
            assert!(!text.contains(h), "{} names {h}", f.display());
        }
    }
}
