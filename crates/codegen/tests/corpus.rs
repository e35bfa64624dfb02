//! Every kernel of the corpus goes through the compiler with every verifier on.

use codegen::Options;
use std::path::Path;

fn kernels() -> Vec<std::path::PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels");
    let mut out = Vec::new();
    for dir in ["cuda", "triton"] {
        for e in std::fs::read_dir(root.join(dir)).expect("the corpus") {
            let p = e.expect("an entry").path();
            if p.extension().is_some_and(|e| e == "ptx") {
                out.push(p);
            }
        }
    }
    out.sort();
    assert!(out.len() >= 50);
    out
}

/// With the registers there are, and with so few that values must go to the stack.
#[test]
fn every_kernel_compiles() {
    for max_registers in [None, Some(40), Some(24)] {
        let options = Options { verify: true, fmad: false, max_registers, ..Options::default() };
        compile_all(&Options { override_directives: true, ..options });
    }
}

fn compile_all(options: &Options) {
    let mut failed = Vec::new();
    for path in kernels() {
        let text = std::fs::read_to_string(&path).expect("readable");
        // The sums of a warpgroup's product alone need more.
        if options.max_registers.is_some() && text.contains("wgmma.mma_async") {
            continue;
        }
        let (m, d) = ptx::parse(&text);
        assert!(!d.iter().any(|d| d.is_error()), "{}: {d:?}", path.display());
        let name = path.file_stem().expect("a name").to_string_lossy().to_string();
        match codegen::compile(&m, options) {
            Ok(out) => assert!(!out.cubin.is_empty()),
            Err(e) => failed.push(format!("{name}: {}", e[0].message)),
        }
    }
    assert!(failed.is_empty(), "{:?} registers\n{}", options.max_registers, failed.join("\n"));
}

/// Bodies that are packed give the same code and the same lines, linked and to be linked.
#[test]
fn packed_bodies_compile_to_the_same() {
    use codegen::pipeline::Kind;
    let features = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels/features");
    let wanted = |text: &str| text.contains("call") || text.contains("tex.") || text.contains("setmaxnreg");
    let more = std::fs::read_dir(features).expect("the corpus").map(|e| e.expect("an entry").path());
    let mut files: Vec<_> =
        kernels().into_iter().chain(more).filter(|p| p.extension().is_some_and(|e| e == "ptx")).collect();
    files.sort();
    let mut compared = 0;
    for path in files {
        let text = std::fs::read(&path).expect("readable");
        if !wanted(&String::from_utf8_lossy(&text)) {
            continue;
        }
        let plain = ptx::parse_bytes(&text);
        let packed = ptx::parse_packed(&text);
        let checked = ptx::check(&plain.0, None);
        assert!(checked == ptx::check(&packed.0, None) && plain.1 == packed.1, "{}", path.display());
        assert_eq!(ptx::print(&plain.0), ptx::print(&packed.0));
        let target = arch::Target::parse("sm_90a").unwrap();
        for kind in [Kind::Executable, Kind::Relocatable] {
            let line_info = Some(text.as_slice().into());
            let options = Options { kind, target, line_info, ..Options::default() };
            let made = |m| codegen::compile(m, &options).map(|o| o.cubin);
            let (one, other) = (made(&plain.0), made(&packed.0));
            assert_eq!(one.is_ok(), other.is_ok());
            assert!(one.ok() == other.ok(), "{}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}
