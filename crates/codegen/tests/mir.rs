//! File tests of the back end's passes: `tests/mir/*.mir` holds `; pass: NAME`, functions, `---`, what the pass makes of
//! them. `BLESS=1` writes the latter anew.

use codegen::backend::{BackendInput, BackendOptions, compile};
use codegen::mir::{Func, text, verify};
use codegen::{regalloc, sched};
use std::fmt::Write;
use std::path::Path;

/// Words of code as text, with their control fields.
fn listing(functions: Vec<Func>) -> String {
    let sm_90 = arch::Target::parse("sm_90").expect("a target");
    let how = BackendOptions { verify: true, ..BackendOptions::default() };
    let code = match compile(&BackendInput { functions, table: vec![1], registers: None }, sm_90, &how) {
        Ok(code) => code,
        Err(e) => return format!("error: {}\n", e[0].message),
    };
    let mut out = String::new();
    for f in &code.functions {
        let _ = writeln!(out, "{} at {:#x}, {:#x} bytes, frame {}", f.name, f.offset, f.size, f.frame);
    }
    for (n, &word) in code.words.iter().take(code.code_size as usize / 16).enumerate() {
        let decoded = sass::codec::decode(word, 90);
        let inst = decoded.known().expect("a known word");
        let control = sass::text::print_control(&inst.ctrl);
        let body = sass::text::print(inst, 16 * n as u64, &sass::text::NoLabels);
        let _ = writeln!(out, "{:04x} {control} {body}", 16 * n);
    }
    let _ = writeln!(
        out,
        "{} words, {} registers, stack {:?}, exits {:x?}, barriers {}, bank 2 {:x?}",
        code.words.len(),
        code.gprs_used,
        code.stack,
        code.exit_offsets,
        code.num_barriers,
        code.const2
    );
    out
}

fn run(pass: &str, functions: Vec<Func>) -> String {
    if pass == "code" {
        return listing(functions);
    }
    let mut out = String::new();
    for mut f in functions {
        let done = match pass {
            "verify" => verify::ssa(&f),
            "prepass" => {
                sched::prepass::run(&mut f, 90, sched::prepass::Freedom::of(codegen::pipeline::REGISTER_LEVEL));
                verify::ssa(&f)
            }
            "share" => {
                sched::share::run(&mut f);
                verify::ssa(&f)
            }
            "scan" => match regalloc::run_quickly(&mut f, true, |_| ()) {
                Ok(_) => verify::physical(&f),
                Err(unfit) => Err(unfit.why.message),
            },
            "regalloc" => match regalloc::run(&mut f, true, regalloc::Tightness::Free) {
                Ok(_) => verify::physical(&f),
                Err(unfit) => Err(unfit.why.message),
            },
            other => Err(format!("there is no pass '{other}'")),
        };
        match done {
            Ok(()) => out.push_str(&text::print(&f)),
            Err(m) => out.push_str(&format!("error: {m}\n")),
        }
    }
    out
}

#[test]
fn files() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mir");
    let bless = std::env::var_os("BLESS").is_some();
    let mut names: Vec<_> = std::fs::read_dir(&dir).expect("tests/mir").map(|e| e.expect("an entry").path()).collect();
    names.sort();
    assert!(names.len() >= 6);
    let mut bad = String::new();
    for path in names {
        let all = std::fs::read_to_string(&path).expect("readable");
        let (input, want) = all.split_once("---\n").unwrap_or((&all, ""));
        let pass = input.lines().find_map(|l| l.strip_prefix("; pass: ")).expect("a pass").trim();
        let got = match text::parse(input) {
            Ok(functions) => run(pass, functions),
            Err(m) => format!("error: {m}\n"),
        };
        if bless {
            std::fs::write(&path, format!("{input}---\n{got}")).expect("writable");
        } else if got != want {
            let _ = writeln!(bad, "{}:\n{got}", path.display());
        }
    }
    assert!(bad.is_empty(), "BLESS=1 accepts this:\n{bad}");
}
