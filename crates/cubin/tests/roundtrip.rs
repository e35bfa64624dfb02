//! Reading and writing back gives the same bytes, for every file of the corpus, from every release; mutilated files give a
//! message and no panic.

mod common;

use cubin::diff::diff;
use cubin::elf::Elf;
use cubin::image::Image;
use cubin::load::Loaded;
use cubin::{attr, elf};
use testkit::Random;

#[test]
fn read_and_write_is_the_identity() {
    let mut files = 0;
    for oracle in testkit::oracle::releases() {
        for ptx in common::corpus() {
            for (arch, options) in [
                ("sm_90a", &[][..]),
                ("sm_90a", &["-c"]),
                ("sm_75", &["-c", "-lineinfo"]),
                ("sm_80", &[]),
                ("sm_89", &["-c"]),
                ("sm_100a", &[]),
                ("sm_120", &["-c"]),
            ] {
                // Other targets than the corpus's own are asked for by rewriting its `.target`.
                let text = std::fs::read_to_string(&ptx).expect("readable");
                let retargeted = if arch == "sm_90a" { text } else { retarget(&text, arch) };
                let Some(bytes) = common::compile(&oracle, &retargeted, arch, options) else { continue };
                let elf = Elf::read(&bytes).unwrap_or_else(|e| panic!("{}: {}", ptx.display(), e.message));
                assert!(elf.write() == bytes, "{} {arch} {options:?} of {}", ptx.display(), oracle.display());
                elf.symbols().expect("symbols");
                for s in elf.sections.iter().filter(|s| s.name.starts_with(".nv.info") || s.name == ".nv.compat") {
                    assert_eq!(attr::write(&attr::read(&s.data).expect("attributes")), s.data);
                }
                files += 1;
            }
        }
    }
    if !testkit::oracle::releases().is_empty() {
        assert!(files > 300, "only {files} files");
    }
}

fn retarget(text: &str, arch: &str) -> String {
    let lines = text.lines().map(|l| {
        if l.trim_start().starts_with(".target") {
            format!(".target {arch}")
        } else if l.trim_start().starts_with(".version") {
            ".version 8.8".to_string()
        } else {
            l.to_string()
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn mutilated_files_give_messages() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for ptx in common::corpus().iter().filter(|p| {
        ["constants.ptx", "function_table.ptx", "modules.ptx", "switch_brx.ptx"].iter().any(|n| p.ends_with(n))
    }) {
        let text = std::fs::read_to_string(ptx).expect("readable");
        let bytes = common::compile(&oracle, &text, "sm_90", &[]).expect("compiles");
        for n in 0..3000 {
            let mut broken = bytes.clone();
            if n % 4 == 0 {
                broken.truncate(random.index(bytes.len()));
            } else {
                for _ in 0..1 + random.index(6) {
                    let tables = bytes.len() - 2048.min(bytes.len());
                    let at = if n % 2 == 0 { random.index(64) } else { tables + random.index(2048) };
                    let at = if n % 4 == 3 { random.index(bytes.len()) } else { at.min(bytes.len() - 1) };
                    broken[at] = [0, 0xff, 0x7f, 1, random.index(256) as u8][random.index(5)];
                }
            }
            refused += try_all(&broken) as usize;
        }
    }
    assert!(refused > 2000, "{refused}");
    let _ = elf::string_at(b"", 3);
}

/// Everything that reads a file; true where it is refused.
fn try_all(bytes: &[u8]) -> bool {
    let Ok(elf) = Elf::read(bytes) else { return true };
    let _ = elf.write();
    let _ = Image::read(&elf).and_then(|image| image.emit());
    let _ = Loaded::load(&elf).and_then(|mut l| l.relocate(&|_, _| Some(0x1000)));
    let _ = diff(&elf, &elf);
    let bad = elf.symbols().is_err();
    for s in &elf.sections {
        let _ = (attr::read(&s.data), s.relocs());
    }
    bad
}
