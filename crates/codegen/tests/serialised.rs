//! Products of warpgroups that wait for one another though the program does not say so: what the user is told. The messages and
//! their lines are those of ptxas 13.5 for the same programs.

use codegen::Options;

/// What is said of a kernel whose body holds these lines from line 12 on.
fn said(lines: &str) -> Vec<String> {
    let text = format!(
        ".version 8.0
.target sm_90a
.address_size 64
.func f(.param .u32 a) {{ .reg .u32 %x; .reg .u64 %z; ld.param.u32 %x,[a]; cvt.u64.u32 %z, %x; st.global.u32 [%z], %x; ret; }}
.visible .entry k(.param .u64 p0, .param .u32 n)
{{
.reg .b64 %p, %d, %e; .reg .f32 %c<4>; .reg .b32 %t, %n, %i; .reg .pred %go, %q;
ld.param.u64 %p, [p0]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x;
ld.global.v2.u64 {{%d, %e}}, [%p];
ld.global.v4.f32 {{%c0, %c1, %c2, %c3}}, [%p+16];
setp.eq.u32 %go, %n, 3; mov.u32 %i, 0;
{lines}
st.global.v4.f32 [%p+64], {{%c0, %c1, %c2, %c3}};
ret;
}}
"
    )
    .replace("FENCE", "wgmma.fence.sync.aligned;")
    .replace(
        "PRODUCT",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%c0, %c1, %c2, %c3}, %d, %e, %go, 1, 1, 0, 0;",
    )
    .replace("COMMIT", "wgmma.commit_group.sync.aligned;")
    .replace("WAIT", "wgmma.wait_group.sync.aligned");
    let (m, d) = ptx::parse(&text);
    assert!(d.is_empty(), "{d:?}");
    let target = arch::Target::parse("sm_90a").unwrap();
    assert_eq!(ptx::check(&m, Some(&target)), []);
    let out = codegen::compile(&m, &Options { target, verify: true, ..Options::default() }).unwrap();
    let source = diag::render::Source::new("k.ptx", text.as_bytes());
    out.notes.iter().map(|d| diag::render::vendor("ptxas", d, &source)).collect()
}

fn serialised(number: u32, why: &str, line: u32) -> Vec<String> {
    vec![format!(
        "ptxas info    : (C{number}) Potential Performance Loss: wgmma.mma_async instructions are serialized due to {why} in the \
         function 'k' in line {line}"
    )]
}

fn injected(line: u32) -> Vec<String> {
    vec![format!(
        "ptxas info    : (C7517) wgmma.wait_group is injected in around line {line} by compiler to allow use of registers \
         defined by GMMA in function 'k'"
    )]
}

#[test]
fn programs_that_wait_are_not_blamed() {
    assert_eq!(said("FENCE\nPRODUCT\nPRODUCT\nCOMMIT\nWAIT 0;"), [""; 0]);
    assert_eq!(
        said(
            "LOOP:\nFENCE\nPRODUCT\nCOMMIT\nWAIT 1;\nadd.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra LOOP;\nWAIT 0;"
        ),
        [""; 0]
    );
}

#[test]
fn programs_that_never_wait() {
    assert_eq!(said("FENCE\nPRODUCT\nCOMMIT"), injected(15));
    assert_eq!(said("FENCE\nPRODUCT"), injected(14));
}

#[test]
fn sums_that_are_read_too_early() {
    const READ: &str =
        "non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage";
    assert_eq!(
        said("FENCE\nPRODUCT\nst.global.f32 [%p+128], %c0;\nPRODUCT\nCOMMIT\nWAIT 0;"),
        serialised(7514, READ, 0)
    );
    assert_eq!(
        said(
            "LOOP:\nFENCE\nPRODUCT\nCOMMIT\nWAIT 1;\nst.global.f32 [%p+128], %c0;\n\
             add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra LOOP;\nWAIT 0;"
        ),
        serialised(7514, READ, 0)
    );
}

#[test]
fn calls_among_products() {
    assert_eq!(
        said(
            "FENCE\nPRODUCT\nCOMMIT\npr: .callprototype _ (.param .u32 a); .reg .u64 %f; mov.u64 %f, f;\n\
             call.uni %f, (%t), pr;\nWAIT 0;"
        ),
        serialised(7510, "wgmma pipeline crossing function boundary at a function call", 16)
    );
}

#[test]
fn a_thread_does_not_end_before_its_products() {
    let said = said("FENCE\nPRODUCT\nCOMMIT\n@%go exit;\nWAIT 0;");
    assert!(said.len() == 1 && said[0].contains("(C7517) wgmma.wait_group is injected"), "{said:?}");
}

#[test]
fn a_product_keeps_its_registers_until_it_is_waited_for() {
    // What the second product of an iteration reads lies neither where the next iteration's first product puts its sums, nor where
    // addresses are computed meanwhile: nothing waits that the program does not wait for.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kernels/triton/triton_attention.ptx");
    let (m, d) = ptx::parse(&std::fs::read_to_string(path).unwrap());
    assert!(d.is_empty(), "{d:?}");
    let target = arch::Target::parse("sm_90a").unwrap();
    let out = codegen::compile(&m, &Options { target, verify: true, ..Options::default() }).unwrap();
    let said: Vec<_> = out.notes.iter().map(|n| &n.message).filter(|m| m.contains("wgmma")).collect();
    assert!(said.is_empty(), "{said:?}");
}
