//! The commands of `sassafras` on the corpus, and on bad input.

use std::path::Path;
use std::process::{Command, Output};
use testkit::Scratch;

fn sassafras(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sassafras"))
        .args(args)
        .current_dir(testkit::root())
        .output()
        .expect("the tool runs")
}

const SAXPY: &str = "tests/kernels/cuda/saxpy.ptx";
const LAUNCH: &str = "tests/kernels/cuda/saxpy.basic.toml";

#[test]
fn run_writes_what_is_expected() {
    let dir = Scratch::new("run");
    let out = sassafras(&["run", SAXPY, "--launch", LAUNCH, "--out", &dir.to_string_lossy(), "--timing"]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.starts_with("y.bin: ") && text.contains("thread instructions"), "{text}");
    let root = testkit::root().join("tests/kernels");
    let expected = std::fs::read(root.join("expected/saxpy.basic.y.bin")).expect("expected output");
    assert!(std::fs::read(dir.join("y.bin")).expect("an output") == expected);
}

#[test]
fn mistakes_have_one_message_and_exit_code_1() {
    let dir = Scratch::new("mistakes");
    let bad = dir.join("bad.toml");
    std::fs::write(&bad, "kernel = \"none\"\ngrid = [1]\nblock = [1]\n").expect("writable");
    let bad = bad.to_string_lossy().into_owned();
    let cut = dir.join("cut.cubin");
    std::fs::write(&cut, b"\x7fELF\x02\x01\x01").expect("writable");
    let cut = cut.to_string_lossy().into_owned();
    for (args, message) in [
        (&["frobnicate"][..], "unknown command 'frobnicate'"),
        (&["run", SAXPY], "--launch FILE.toml is missing"),
        (&["run", "--launch", LAUNCH], "the module to run is missing"),
        (&["run", "none.ptx", "--launch", LAUNCH], "cannot read 'none.ptx'"),
        (&["run", SAXPY, "--launch", &bad], "launch: "),
        (&["run", SAXPY, "--launch", LAUNCH, "--engine", "gpu"], "--engine takes ptx or sass"),
        (&["run", SAXPY, "--launch", LAUNCH, "--arch", "sm_999"], "unknown target 'sm_999'"),
        (&["run", &cut, "--launch", LAUNCH], "launch: "),
        (&["check", "crates"], "cannot read 'crates'"),
        (&["check", SAXPY, "--diagnostics", "xml"], "--diagnostics takes vendor, pretty or json"),
        (&["lint", SAXPY], "not a valid cubin"),
        (&["lint", &cut], "not a valid cubin"),
        (&["cubin-diff", &cut], "takes two cubins"),
        (&["asm", "x"], "cannot read 'x'"),
    ] {
        let out = sassafras(args);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {text}");
        assert!(text.contains(message), "{args:?}: {text}");
    }
}

#[test]
fn outputs_are_whole_or_not_there() {
    let dir = Scratch::new("output");
    let here = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let ptxas = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_ptxas")).args(args).output().expect("the tool runs");
    let ptx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(SAXPY).to_string_lossy().into_owned();
    std::fs::create_dir(here("folder")).expect("writable");
    for place in [here("folder"), here("none/x.cubin")] {
        let out = ptxas(&["-arch=sm_90", &ptx, "-o", &place]);
        assert_eq!(out.status.code(), Some(255));
        assert!(std::fs::read_dir(&*dir).expect("readable").flatten().count() == 1);
    }
}

/// Files that are no module, no cubin or not there: one message, the vendor's exit code, and no output.
#[test]
fn files_of_every_wrong_kind() {
    let dir = Scratch::new("wrong-kinds");
    let here = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let head = b".version 8.0\n.target sm_90\n.address_size 64\n";
    let write = |name: &str, parts: &[&[u8]]| std::fs::write(dir.join(name), parts.concat()).expect("writable");
    write("good.ptx", &[head, b".visible .entry k() { ret; }\n"]);
    write("empty.ptx", &[]);
    write("line.ptx", &[head, &vec![b'a'; 100_000_000]]);
    write("statements.ptx", &[head, b".visible .entry k() {", &b"foo; ".repeat(20_000_000), b"}"]);
    write("utf8.ptx", &[head, b".visible .entry k\xff\xfe() { ret; }\n"]);
    write("nul.ptx", &[head, b"\0"]);
    std::fs::create_dir(dir.join("folder")).expect("writable");
    let ptxas = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_ptxas")).args(args).output().expect("the tool runs");
    let out = here("out.cubin");
    for (input, message) in [
        ("none.ptx", "could not be opened"),
        ("folder", "could not be opened"),
        ("empty.ptx", "line 1; fatal   : Missing .version directive"),
        ("line.ptx", "line 4; fatal   : Parsing error near 'aaaaaaaaaaaa"),
        ("statements.ptx", "line 4; error   : Not a name of any known instruction: 'foo'"),
        ("utf8.ptx", "line 4; fatal   : Parsing error"),
        ("nul.ptx", "line 4; fatal   : Parsing error"),
    ] {
        let done = ptxas(&["-arch=sm_90", &here(input), "-o", &out]);
        let text = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(255), "{input}: {text}");
        assert!(text.contains(message) && text.len() < 20_000, "{input}: {}", &text[..text.len().min(1000)]);
        assert!(!Path::new(&out).exists(), "{input}");
    }
    // Nobody may write there, whoever runs the test.
    let done = ptxas(&["-arch=sm_90", &here("good.ptx"), "-o", "/proc/out.cubin"]);
    assert_eq!(done.status.code(), Some(255));
    assert!(String::from_utf8_lossy(&done.stderr).contains("'/proc/out.cubin' could not be opened"));
    assert!(ptxas(&["-arch=sm_90", &here("good.ptx"), "-o", &out]).status.success());
    let whole = std::fs::read(&out).expect("written");
    let cut = here("cut.cubin");
    for len in (0..whole.len()).step_by(37) {
        std::fs::write(&cut, &whole[..len]).expect("writable");
        for args in [&["lint", &cut][..], &["cubin-diff", &cut, &out], &["nvdisasm", "-c", &cut]] {
            let done = sassafras(args);
            let text = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.code().is_some_and(|c| c != 0 && c != 101), "{args:?} of {len} bytes: {text}");
            assert!(!text.is_empty() && !text.contains("panicked"), "{args:?} of {len} bytes: {text}");
        }
    }
}
