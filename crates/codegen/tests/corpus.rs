//! Every kernel of the corpus goes through the compiler with every verifier on.

use codegen::backend::{self, BackendInput, BackendOptions};
use codegen::layout::Layout;
use codegen::pipeline::{Options, Watch, select};
use ptx::module::{FuncId, FuncKind};
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

#[test]
fn every_kernel_is_selected() {
    let options = Options { verify: true, ..Options::default() };
    let mut failed = Vec::new();
    for path in kernels() {
        let text = std::fs::read_to_string(&path).expect("readable");
        let (m, d) = ptx::parse(&text);
        assert!(!d.iter().any(|d| d.is_error()), "{}: {d:?}", path.display());
        let layout = Layout::new(&m);
        for (i, f) in m.funcs.iter().enumerate() {
            if f.kind != FuncKind::Entry || f.body.is_none() {
                continue;
            }
            let mut watch = Watch::new(&options);
            let done = select(&m, FuncId(i as u32), &layout, &options, 253, &mut watch);
            let name = path.file_stem().expect("a name").to_string_lossy().to_string();
            match (done, watch.broken) {
                (Ok(_), None) => {}
                (Err(e), _) => failed.push(format!("{name}: {}", e[0].message)),
                (_, Some(b)) => failed.push(format!("{name}: {b}")),
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Through the back end, too: the symbolic checker and the hazard checker have nothing to say, with all the registers
/// there are, with 24, and with 40.
#[test]
fn every_kernel_becomes_code() {
    let only = std::env::var("KERNEL").unwrap_or_default();
    let options = Options { verify: true, ..Options::default() };
    let sm_90 = arch::Target::parse("sm_90").expect("a target");
    let mut failed = Vec::new();
    for path in kernels() {
        let name = path.file_stem().expect("a name").to_string_lossy().to_string();
        if !name.contains(&only) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let (m, _) = ptx::parse(&text);
        let layout = Layout::new(&m);
        for (i, f) in m.funcs.iter().enumerate() {
            if f.kind != FuncKind::Entry || f.body.is_none() {
                continue;
            }
            for limit in [253, 40, 24] {
                let mut watch = Watch::new(&options);
                let Ok(done) = select(&m, FuncId(i as u32), &layout, &options, limit, &mut watch) else { continue };
                let input = BackendInput { functions: done.funcs, table: done.program.table };
                let how = BackendOptions { verify: true, print_after: None };
                match backend::compile(input, sm_90, &how) {
                    Ok(code) => assert!(code.gprs_used <= limit && !code.words.is_empty()),
                    Err(e) => failed.push(format!("{name} ({limit} registers): {}", e[0].message)),
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} fail\n{}", failed.len(), failed.join("\n"));
}
