//! Functions that the system provides, in the PTX interpreter and in the vendor's code in the simulator of machine code. Expected
//! text: what the C library's printf gives; the rest by hand.

use sim::{Arg, Config, FaultKind, Launch, Outcome};
use testkit::oracle;

fn launch(grid: u32) -> Launch {
    let args = vec![Arg::Buffer { data: vec![0; 64], out: None }];
    Launch { kernel: "k".into(), grid: [grid, 1, 1], block: [2, 1, 1], args, ..Launch::default() }
}

fn run(text: &str, grid: u32, threads: usize) -> Result<Outcome, Box<sim::Fault>> {
    let (module, mut messages) = ptx::parse(text);
    messages.extend(ptx::check(&module, None));
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}\n{text}");
    sim::run_ptx(&module, &launch(grid), &Config { threads, max_instructions: 100_000, ..Config::default() })
}

/// The vendor's code for three chips does the same: linked, and as it is before it is linked, which calls by relocations.
fn same(text: &str, grid: u32, want: &Result<Outcome, Box<sim::Fault>>) {
    let Some(ptxas) = oracle::ptxas() else { return };
    for chip in ["sm_75", "sm_89", "sm_90a"] {
        for options in [&[][..], &["-c"][..]] {
            let text = text.replacen(".target sm_90\n", &format!(".target {chip}\n"), 1);
            let arch = format!("-arch={chip}");
            let options: Vec<&str> = options.iter().copied().chain([arch.as_str()]).collect();
            let cubin = oracle::compile(&ptxas, &text, &options).unwrap_or_else(|e| panic!("{chip}: {e}"));
            let config = Config { max_instructions: 100_000, ..Config::default() };
            match (sim::run_sass(&cubin, &launch(grid), &config), want) {
                (Ok(got), Ok(want)) => {
                    assert_eq!(String::from_utf8_lossy(&got.printed), String::from_utf8_lossy(&want.printed), "{chip}");
                    assert_eq!(got.buffers, want.buffers, "{chip} {options:?}\n{text}");
                }
                (Err(got), Err(want)) => {
                    assert_eq!((got.kind, got.thread), (want.kind, want.thread), "{chip}: {got}\n{text}");
                    let last = want.message.split(": ").last().unwrap_or_default();
                    assert!(want.kind != FaultKind::Trap || got.message.contains(last), "{chip}: {got}, not {want}");
                }
                (got, want) => panic!("{chip}: {:?} instead of {:?}\n{text}", got.err(), want.as_ref().err()),
            }
        }
    }
}

/// A kernel with the declarations of the system's functions; `%q` is the address of the buffer.
fn kernel(globals: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n\
         .extern .func (.param .b64 r) malloc (.param .b64 n);\n.extern .func free (.param .b64 p);\n\
         .extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 fn, .param .b64 c);\n{globals}\n\
         .visible .entry k(.param .u64 out)\n{{\n.local .align 8 .b8 pack[40];\n.reg .b64 %q, %a, %p, %w<4>;\n.reg .b32 %me, %cta, %r<4>;\n.reg .f64 %f;\n.reg .pred %one;\n\
         ld.param.u64 %q, [out];\nmov.u32 %me, %tid.x;\nmov.u32 %cta, %ctaid.x;\n{body}\nret;\n}}\n"
    )
}

/// Bytes of a global string.
fn string(name: &str, text: &str) -> String {
    let bytes: Vec<String> = text.bytes().chain([0]).map(|b| b.to_string()).collect();
    format!(".global .align 1 .b8 {name}[{}] = {{{}}};\n", bytes.len(), bytes.join(", "))
}

const PRINT: &str = "mov.u64 %a, format;\ncvta.global.u64 %a, %a;\nmov.u64 %p, pack;\ncvta.local.u64 %p, %p;\n\
    {\n.param .b64 p0;\n.param .b64 p1;\n.param .b32 r;\nst.param.b64 [p0], %a;\nst.param.b64 [p1], %p;\n\
    call (r), vprintf, (p0, p1);\nld.param.b32 %r3, [r];\n}\n";

#[test]
fn printf() {
    let globals = string("format", "cta %d thread %u: %5.2f %s %llx %c\n") + &string("word", "word");
    let body = format!(
        "st.local.u32 [pack], %cta;\nst.local.u32 [pack+4], %me;\ncvt.rn.f64.u32 %f, %me;\nadd.f64 %f, %f, 0d3FF4000000000000;\nst.local.f64 [pack+8], %f;\n\
         mov.u64 %w0, word;\ncvta.global.u64 %w0, %w0;\nst.local.u64 [pack+16], %w0;\nst.local.u64 [pack+24], 0x123456789a;\nst.local.u32 [pack+32], 65;\n\
         {PRINT}st.global.u32 [%q], %r3;"
    );
    // The same with clusters on several processors.
    for threads in [1, 2] {
        let done = run(&kernel(&globals, &body), 3, threads).unwrap_or_else(|f| panic!("{f}"));
        let want: String = (0..3)
            .flat_map(|c| [(c, 0, " 1.25"), (c, 1, " 2.25")])
            .map(|(c, t, f)| format!("cta {c} thread {t}: {f} word 123456789a A\n"))
            .collect();
        assert_eq!(String::from_utf8(done.printed).unwrap(), want);
        assert_eq!(done.buffers[0][..4], 6u32.to_le_bytes());
    }
    same(&kernel(&globals, &body), 3, &run(&kernel(&globals, &body), 3, 1));
    let f = run(&kernel(&string("format", "%d %q\n"), PRINT), 1, 1).unwrap_err();
    assert!(f.kind == FaultKind::Uninitialized || f.message.contains("'%q'"), "{f}");
}

const MALLOC: &str =
    "{\n.param .b64 n;\n.param .b64 r;\nst.param.b64 [n], %w0;\ncall (r), malloc, (n);\nld.param.b64 %p, [r];\n}\n";
const FREE: &str = "{\n.param .b64 x;\nst.param.b64 [x], %p;\ncall free, (x);\n}\n";

#[test]
fn heap() {
    // Each thread has memory of its own; too much is not given.
    let body = format!(
        "mov.u64 %w0, 16;\n{MALLOC}add.u32 %r0, %me, 7;\nst.u32 [%p+12], %r0;\nld.u32 %r1, [%p+12];\nmul.wide.u32 %w1, %me, 4;\nadd.u64 %w1, %w1, %q;\nst.global.u32 [%w1], %r1;\n{FREE}\
         mov.u64 %w0, 0x4000000000;\n{MALLOC}st.global.u64 [%q+16], %p;\n{FREE}"
    );
    for grid in [1, 4] {
        let done = run(&kernel("", &body), grid, 2).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(done.buffers[0][..24], [7, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    same(&kernel("", &body), 4, &run(&kernel("", &body), 4, 1));
    for (body, kind, message) in [
        (format!("mov.u64 %w0, 16;\n{MALLOC}ld.u32 %r0, [%p+16];"), FaultKind::OutOfBounds, "malloc"),
        (format!("mov.u64 %w0, 16;\n{MALLOC}{FREE}ld.u32 %r0, [%p];"), FaultKind::OutOfBounds, "freed memory"),
        (format!("mov.u64 %w0, 16;\n{MALLOC}{FREE}{FREE}"), FaultKind::OutOfBounds, "malloc has given nothing"),
        (format!("mov.u64 %p, %q;\n{FREE}"), FaultKind::OutOfBounds, "malloc has given nothing"),
    ] {
        let f = run(&kernel("", &body), 1, 1).expect_err(&body);
        assert!(f.kind == kind && f.message.contains(message), "{body}: {f}");
        // A load whose result is not used is left out.
        if !body.contains("ld.u32") {
            same(&kernel("", &body), 1, &Err(f));
        }
    }
}

#[test]
fn assertions_name_what_failed_and_where() {
    let globals = string("what", "x > 0") + &string("file", "a.cu") + &string("name", "f");
    let address = |r: &str, v: &str| format!("mov.u64 {r}, {v};\ncvta.global.u64 {r}, {r};\n");
    let body = format!(
        ".loc 1 42 0\nsetp.ne.u32 %one, %me, 1;\n@%one bra OUT;\n{}{}{}{{\n.param .b64 m;\n.param .b64 f;\n.param .b32 l;\n.param .b64 fn;\n.param .b64 c;\n\
         st.param.b64 [m], %w0;\nst.param.b64 [f], %w1;\nst.param.b32 [l], 12;\nst.param.b64 [fn], %w2;\nst.param.b64 [c], 1;\n\
         call __assertfail, (m, f, l, fn, c);\n}}\nOUT:",
        address("%w0", "what"),
        address("%w1", "file"),
        address("%w2", "name")
    );
    let text = kernel(&globals, &body) + ".file 1 \"b.cu\"\n";
    let f = run(&text, 1, 1).unwrap_err();
    assert_eq!((f.kind, f.thread), (FaultKind::Trap, Some([1, 0, 0])), "{f}");
    assert!(f.message.contains("a.cu:12: f: assertion failed: x > 0"), "{f}");
    same(&text, 1, &Err(f.clone()));
    let line = f.source.expect("the line that .loc tells");
    assert_eq!((line.file.as_str(), line.line), ("b.cu", 42));
}

/// A function in a section of its own, as the vendor's linker leaves it: the call and the way back are by addresses.
#[test]
fn functions_of_other_files() {
    let Some(dir) = oracle::latest() else { return };
    let (ptxas, nvlink) = (dir.join("bin/ptxas"), dir.join("bin/nvlink"));
    let head = |chip: &str| format!(".version 8.0\n.target {chip}\n.address_size 64\n");
    let kernel = ".extern .func (.param .b32 r) other (.param .b32 a);\n.visible .entry k(.param .u64 out)\n{\n.reg .b64 %q;\n.reg .b32 %me, %r;\n\
        ld.param.u64 %q, [out];\nmov.u32 %me, %tid.x;\nmad.wide.u32 %q, %me, 4, %q;\n\
        {\n.param .b32 a;\n.param .b32 r;\nst.param.b32 [a], %me;\ncall (r), other, (a);\nld.param.b32 %r, [r];\n}\nst.global.u32 [%q], %r;\nret;\n}\n";
    let function = ".visible .func (.param .b32 r) other (.param .b32 a)\n{\n.reg .b32 %r;\nld.param.b32 %r, [a];\nmad.lo.s32 %r, %r, 5, 7;\nst.param.b32 [r], %r;\nret;\n}\n";
    let scratch = testkit::Scratch::new("system");
    for chip in ["sm_75", "sm_80", "sm_90a"] {
        let arch = format!("-arch={chip}");
        let parts: Vec<_> = [("a", kernel), ("b", function)]
            .iter()
            .map(|(name, text)| {
                let cubin = oracle::compile(&ptxas, &(head(chip) + text), &["-c", &arch]).unwrap();
                let path = scratch.join(format!("{name}.cubin"));
                std::fs::write(&path, cubin).unwrap();
                path
            })
            .collect();
        let out = scratch.join("out.cubin");
        let done = std::process::Command::new(&nvlink).arg(&arch).args(&parts).arg("-o").arg(&out).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let got = sim::run_sass(&std::fs::read(&out).unwrap(), &launch(1), &Config::default())
            .unwrap_or_else(|f| panic!("{chip}: {f}"));
        assert_eq!(got.buffers[0][..8], [7, 0, 0, 0, 12, 0, 0, 0]);
        // Without the other file it is an error that names it.
        let alone = std::fs::read(&parts[0]).unwrap();
        let f = sim::run_sass(&alone, &launch(1), &Config::default()).unwrap_err();
        assert!(f.kind == FaultKind::Unsupported && f.message.contains("other"), "{chip}: {f}");
    }
}
