//! Functions that the system provides, in the PTX interpreter. Expected text: what the C library's printf gives; the rest by hand.

use sim::{Arg, Config, FaultKind, Launch, Outcome};

fn run(text: &str, grid: u32, threads: usize) -> Result<Outcome, Box<sim::Fault>> {
    let (module, mut messages) = ptx::parse(text);
    messages.extend(ptx::check(&module, None));
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}\n{text}");
    let args = vec![Arg::Buffer { data: vec![0; 64], out: None }];
    let launch = Launch { kernel: "k".into(), grid: [grid, 1, 1], block: [2, 1, 1], args, ..Launch::default() };
    sim::run_ptx(&module, &launch, &Config { threads, max_instructions: 100_000, ..Config::default() })
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
    for (body, kind, message) in [
        (format!("mov.u64 %w0, 16;\n{MALLOC}ld.u32 %r0, [%p+16];"), FaultKind::OutOfBounds, "malloc"),
        (format!("mov.u64 %w0, 16;\n{MALLOC}{FREE}ld.u32 %r0, [%p];"), FaultKind::OutOfBounds, "freed memory"),
        (format!("mov.u64 %w0, 16;\n{MALLOC}{FREE}{FREE}"), FaultKind::OutOfBounds, "malloc has given nothing"),
        (format!("mov.u64 %p, %q;\n{FREE}"), FaultKind::OutOfBounds, "malloc has given nothing"),
    ] {
        let f = run(&kernel("", &body), 1, 1).expect_err(&body);
        assert!(f.kind == kind && f.message.contains(message), "{body}: {f}");
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
    let line = f.source.expect("the line that .loc tells");
    assert_eq!((line.file.as_str(), line.line), ("b.cu", 42));
}
