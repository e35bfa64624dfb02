//! Bad PTX: every `tests/bad/NAME.ptx` gives the messages of `NAME.expect` (written by `BLESS=1`), the vendor's tool refuses
//! it too and names the same line, and no mutilated file makes the parser panic.

use diag::{Diagnostic, render};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::Random;

fn files(folder: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&dir).expect("the folder is there");
    let mut out: Vec<_> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "ptx")).collect();
    out.sort();
    out
}

/// Parses and checks for sm_90 as the compiler does: checking begins only where parsing found no error. What is left of the
/// module is whole: it can be printed.
fn messages(text: &[u8]) -> Vec<Diagnostic> {
    let (module, mut diags) = ptx::parse_bytes(text);
    let _ = ptx::print(&module);
    if !diags.iter().any(Diagnostic::is_error) {
        diags.extend(ptx::check(&module, arch::Target::parse("sm_90").as_ref()));
    }
    diags
}

fn shown(path: &Path, text: &[u8]) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let source = render::Source::new(name, text);
    messages(text).iter().map(|d| render::vendor("ptxas", d, &source) + "\n").collect()
}

#[test]
fn gives_the_expected_messages() {
    let files = files("tests/bad");
    assert!(files.len() >= 60, "{} bad files", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let text = std::fs::read(&path).expect("readable");
        let got = shown(&path, &text);
        assert!(got.contains("error   :") || got.contains("fatal   :"), "{} is accepted", path.display());
        let expect = path.with_extension("expect");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expect, got).expect("writable");
        } else if std::fs::read_to_string(&expect).ok().as_deref() != Some(&got) {
            wrong.push(format!("{}:\n{got}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "BLESS=1 writes what is given now:\n{}", wrong.join("\n"));
}

/// The number behind the first `line ` of an error in the tool's output.
fn error_line(output: &str) -> Option<u32> {
    let line = output.lines().find(|l| l.contains("error   :") || l.contains("fatal   :"))?;
    line.split_once(", line ")?.1.split(';').next()?.parse().ok()
}

#[test]
fn the_vendor_refuses_them_at_the_same_line() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let null = std::env::temp_dir().join(format!("sassafras-bad-{}.bin", std::process::id()));
    let mut wrong = Vec::new();
    let mut placed = 0;
    for path in files("tests/bad") {
        let text = std::fs::read(&path).expect("readable");
        let out = Command::new(&ptxas).arg("-arch=sm_90").arg(&path).arg("-o").arg(&null).output().expect("ptxas runs");
        let theirs = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        if out.status.success() {
            wrong.push(format!("{}: the vendor takes it", path.display()));
            continue;
        }
        let (a, b) = (error_line(&theirs), error_line(&shown(&path, &text)));
        placed += usize::from(a.is_some());
        // Some messages of the vendor have no place where ours have one.
        if a.is_some() && a != b {
            wrong.push(format!("{}: line {a:?}, ours {b:?}\n{theirs}", path.display()));
        }
    }
    let _ = std::fs::remove_file(null);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(placed > 50, "the vendor names a line for {placed} files");
}

#[test]
fn mutilated_files_never_panic() {
    let mut seeds: Vec<Vec<u8>> = files("tests/bad").iter().map(|p| std::fs::read(p).expect("readable")).collect();
    seeds.extend(files("tests/good").iter().map(|p| std::fs::read(p).expect("readable")));
    seeds.extend(files("../../tests/kernels/cuda").iter().map(|p| std::fs::read(p).expect("readable")));
    let splices: [&[u8]; 14] = [
        b"{",
        b"}",
        b"(",
        b"[",
        b"<",
        b",",
        b";",
        b"\"",
        b"/*",
        b"\xff\xfe",
        b"%r1",
        b".v4",
        b"-9223372036854775808",
        b"<4000000000>",
    ];
    let mut random = Random(0x5a55_a4ba);
    for round in 0..4000 {
        let mut text = seeds[random.index(seeds.len())].clone();
        if round % 4 == 0 {
            text.truncate(random.index(text.len()));
        }
        for _ in 0..1 + random.index(4) {
            let at = random.index(text.len());
            match random.index(5) {
                0 if !text.is_empty() => text[at] = random.index(256) as u8,
                1 if !text.is_empty() => {
                    let end = (at + random.index(20)).min(text.len());
                    text.drain(at..end);
                }
                2 => {
                    let end = (at + random.index(40)).min(text.len());
                    let copy = text[at.min(end)..end].to_vec();
                    let to = random.index(text.len());
                    text.splice(to..to, copy);
                }
                _ => {
                    text.splice(at..at, splices[random.index(splices.len())].iter().copied());
                }
            }
        }
        let (module, _) = ptx::parse_bytes(&text);
        // The validator and the printer must stand whatever the parser gives them.
        let _ = ptx::check(&module, arch::Target::parse("sm_90").as_ref());
        let _ = ptx::print(&module);
    }
}

#[test]
fn hostile_sizes_end_soon() {
    let head = ".version 8.0\n.target sm_90\n.address_size 64\n";
    let deep = |open: &str, n: usize| open.repeat(n);
    let texts = [
        format!("{head}{}", "x".repeat(10_000_000)),
        format!("{head}.entry f() {{ mov.b32 {}, 1; }}", "x".repeat(10_000_000)),
        format!("{head}.global .u32 a = {}1;", deep("(", 1_000_000)),
        format!("{head}.global .u32 a = {}1;", deep("-", 1_000_000)),
        format!("{head}.global .u32 a[2] = {}", deep("{", 1_000_000)),
        format!("{head}.entry f() {{ {}", deep("{", 1_000_000)),
        format!("{head}.entry f() {{ mov.b32 {}", deep("{", 1_000_000)),
        format!("{head}.entry f() {{ {}", deep("@", 1_000_000)),
        format!("{head}.entry f() {{ {}", deep("bra L; ", 300_000)),
        format!("{head}.entry f() {{ .reg .b32 %r<4294967295>; }}"),
        format!("{head}.global .u32 a[99999999][99999999] = {{{{1}},{{2}}}};"),
        format!("{head}.global .u32 a{};", deep("[9999999999]", 1000)),
        format!("{head}.entry f() {{ {} }}", deep("bra.", 1_000_000)),
    ];
    for text in texts {
        let start = std::time::Instant::now();
        let diags = messages(text.as_bytes());
        let shown: String = text.chars().skip(head.len()).take(40).collect();
        assert!(start.elapsed().as_secs() < 5, "{shown}: {:?}", start.elapsed());
        assert!(diags.iter().all(|d| d.message.len() < 2000), "{shown}");
        assert!(shown.contains("[9999999999]") || diags.iter().any(Diagnostic::is_error), "{shown}");
    }
}

#[test]
fn bytes_that_are_no_text() {
    let head = b".version 8.0\n.target sm_90\n.address_size 64\n";
    let with = |tail: &[u8]| [head.as_slice(), tail].concat();
    assert!(messages(&with(b"// \xff\xfe in a comment\n.entry f() { ret; }\n")).is_empty());
    let d = messages(&with(b"\xff\xfe\xfd"));
    assert_eq!((d.len(), d[0].span.map(|s| s.start)), (1, Some(head.len() as u32)));
    assert!(messages(&[0x7f, b'E', b'L', b'F', 0, 0]).iter().any(Diagnostic::is_error));
}
