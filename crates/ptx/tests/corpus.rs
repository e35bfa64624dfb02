//! Every PTX file of the repository: parses without a message, prints, and parses to the same module again.

mod common;

use common::bare;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn ptx_files(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(dir).map(|d| d.flatten().map(|e| e.path()).collect()).unwrap_or_default();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            ptx_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "ptx") {
            out.push(path);
        }
    }
}

/// The files of the repository, and those of the folder that `SASSAFRAS_PTX_CORPUS` names, if it names one: what other
/// compilers write.
fn corpus() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    if let Some(more) = std::env::var_os("SASSAFRAS_PTX_CORPUS") {
        ptx_files(Path::new(&more), &mut files);
        assert!(!files.is_empty(), "no PTX in SASSAFRAS_PTX_CORPUS");
    }
    ptx_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples"), &mut files);
    ptx_files(&root().join("tests/kernels"), &mut files);
    ptx_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good"), &mut files);
    assert!(files.len() > 20, "the corpus is there");
    let read = |p: PathBuf| (p.clone(), std::fs::read_to_string(&p).expect("corpus files are readable"));
    files.into_iter().map(read).collect()
}

#[test]
fn parses_without_a_message() {
    for (path, text) in corpus() {
        let (_, diags) = ptx::parse(&text);
        assert!(diags.is_empty(), "{}: {:#?}", path.display(), diags[0]);
    }
}

#[test]
fn prints_and_parses_to_the_same_module() {
    for (path, text) in corpus() {
        let (m, _) = ptx::parse(&text);
        let printed = ptx::print(&m);
        let (again, diags) = ptx::parse(&printed);
        assert!(diags.is_empty(), "{}: {:#?}\n{printed}", path.display(), diags[0]);
        assert!(bare(m) == bare(again), "{}\n{printed}", path.display());
    }
}

#[test]
fn checks_without_a_message() {
    let mut wrong = Vec::new();
    for (path, text) in corpus() {
        let (m, _) = ptx::parse(&text);
        let target = arch::Target::parse(&m.target[0]).expect("the corpus names its target");
        let diags = ptx::check(&m, Some(&target));
        let place = |s: diag::Span| text[s.start as usize..s.end as usize].to_string();
        let shown = diags.iter().map(|d| format!("{}: {}", d.message, d.span.map_or(String::new(), place)));
        wrong.extend(shown.map(|d| format!("{}: {d}", path.display())));
    }
    assert!(wrong.is_empty(), "{} messages:\n{}", wrong.len(), wrong.join("\n"));
}

/// The sections of a cubin by name, without those that describe the lines of the PTX text.
fn sections(cubin: &[u8]) -> Vec<(String, Vec<u8>)> {
    let elf = cubin::elf::Elf::read(cubin).expect("a cubin");
    let lines = [".nv_debug_line_sass", ".nv_debug_ptx_txt", ".rela.nv_debug_line_sass"];
    let kept = elf.sections.into_iter().filter(|s| !lines.contains(&s.name.as_str()));
    kept.map(|s| (s.name, s.data)).collect()
}

/// The vendor's tool makes the same cubin of a text and of what is printed of its module.
#[test]
fn printed_text_compiles_to_the_same_cubin() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let work =
        std::sync::Mutex::new(corpus().into_iter().filter(|(p, _)| !p.components().any(|c| c.as_os_str() == "good")));
    let wrong = std::sync::Mutex::new(Vec::new());
    let one = || {
        while let Some((path, text)) = { work.lock().expect("no panic").next() } {
            let arch = format!("-arch={}", testkit::oracle::arch(&text));
            let compile = |text: &str| testkit::oracle::compile(&ptxas, text, &[&arch]).map(|c| sections(&c));
            let printed = ptx::print(&ptx::parse(&text).0);
            if compile(&text) != compile(&printed) {
                wrong.lock().expect("no panic").push(path.display().to_string());
            }
        }
    };
    std::thread::scope(|s| (0..2).for_each(|_| drop(s.spawn(one))));
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
