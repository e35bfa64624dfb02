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
        compile_all(&Options { verify: true, fmad: false, max_registers, ..Options::default() });
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
