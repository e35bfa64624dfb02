//! Two witnesses of what the chips do in ways of their own: the PTX interpreter and the vendor's machine code for several
//! chips leave the same memory.

use sim::{Arg, Config, FaultKind, Launch};
use testkit::oracle;

const THREADS: u32 = 64;

/// A kernel `k(in, out)`; `%in` and `%out` are the addresses of 16 bytes of each thread.
fn kernel(target: &str, globals: &str, body: &str) -> String {
    format!(
        ".version 9.0\n.target {target}\n.address_size 64\n{globals}\n.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n\
         .reg .b64 %in, %out, %d<20>;\n.reg .b32 %t, %r<20>;\n.reg .pred %p<4>;\n.reg .b16 %h<9>;\n.reg .f32 %f<9>;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %in, %t, 16, %in;\n\
         mad.wide.u32 %out, %t, 16, %out;\n{body}\nret;\n}}\n"
    )
}

fn launch() -> Launch {
    let data = (0..16 * THREADS).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let out = vec![0; 16 * THREADS as usize];
    let args = vec![Arg::Buffer { data, out: None }, Arg::Buffer { data: out, out: None }];
    Launch { kernel: "k".into(), grid: [1; 3], block: [THREADS, 1, 1], args, ..Launch::default() }
}

fn config() -> Config {
    Config { max_instructions: 1_000_000, ..Config::default() }
}

/// Runs a kernel by both witnesses for each chip.
fn agree(chips: &[&str], globals: &str, body: &str) {
    let Some(ptxas) = oracle::ptxas() else { return };
    for chip in chips {
        let text = kernel(chip, globals, body);
        let (module, list) = ptx::parse(&text);
        assert!(!list.iter().any(|d| d.is_error()), "{list:?}\n{text}");
        let want = sim::run_ptx(&module, &launch(), &config()).unwrap_or_else(|f| panic!("{f}\n{text}"));
        assert!(want.buffers[1].iter().any(|&b| b != 0), "the kernel leaves nothing\n{text}");
        let cubin = oracle::compile(&ptxas, &text, &[&format!("-arch={chip}"), "-fmad=false"]);
        let cubin = cubin.unwrap_or_else(|e| panic!("{chip}: {e}\n{text}"));
        let got = sim::run_sass(&cubin, &launch(), &config()).unwrap_or_else(|f| panic!("{chip}: {f}\n{text}"));
        assert_eq!(got.buffers, want.buffers, "{chip}\n{text}");
    }
}

const ALL: [&str; 9] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_110a", "sm_120a"];

#[test]
fn functions_by_their_addresses() {
    let functions = "\
        .visible .func (.param .b32 o) f0(.param .b32 i) { .reg .b32 %t; ld.param.b32 %t, [i]; add.s32 %t, %t, 3; st.param.b32 [o], %t; ret; }\n\
        .visible .func (.param .b32 o) f1(.param .b32 i) { .reg .b32 %t; ld.param.b32 %t, [i]; mul.lo.s32 %t, %t, 5; st.param.b32 [o], %t; ret; }\n\
        .global .u64 table[2] = {f0, f1};";
    let body = "\
        and.b32 %r2, %t, 1;\nmul.wide.u32 %d2, %r2, 8;\nmov.u64 %d3, table;\nadd.u64 %d3, %d3, %d2;\nld.global.u64 %d4, [%d3];\n\
        { .param .b32 a; .param .b32 b; st.param.b32 [a], %t;\n\
        proto: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (b), %d4, (a), proto; ld.param.b32 %r3, [b]; }\n\
        st.global.u32 [%out], %r3;";
    agree(&ALL, functions, body);
}

#[test]
fn memory_of_the_system() {
    let declared = ".extern .func (.param .b64 r) malloc (.param .b64 a);\n.extern .func free (.param .b64 a);";
    let body = "\
        { .param .b64 a; .param .b64 c; st.param.b64 [a], 16; call.uni (c), malloc, (a); ld.param.b64 %d5, [c]; }\n\
        st.b32 [%d5+4], %t;\nld.b32 %r4, [%d5+4];\nadd.u32 %r4, %r4, 1;\n\
        { .param .b64 a; st.param.b64 [a], %d5; call.uni free, (a); }\nst.global.b32 [%out], %r4;";
    agree(&["sm_75", "sm_80", "sm_90a"], declared, body);
}

#[test]
fn assertions_stop_the_kernel() {
    let Some(ptxas) = oracle::ptxas() else { return };
    let declared = "\
        .extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 fn, .param .b64 cs) .noreturn;\n\
        .global .align 1 .b8 what[6] = {120, 32, 62, 32, 48, 0};\n.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};";
    let body = "\
        setp.ne.u32 %p1, %t, 33;\n@%p1 bra FINE;\nmov.u64 %d1, what;\nmov.u64 %d2, file;\ncvta.global.u64 %d1, %d1;\ncvta.global.u64 %d2, %d2;\n\
        { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 fn; .param .b64 cs; st.param.b64 [m], %d1; st.param.b64 [f], %d2;\n\
        st.param.b32 [l], 7; st.param.b64 [fn], %d1; st.param.b64 [cs], 1; call.uni __assertfail, (m, f, l, fn, cs); }\n\
        FINE:\nst.global.b32 [%out], %t;";
    for chip in ["sm_75", "sm_90a"] {
        let text = kernel(chip, declared, body);
        let cubin = oracle::compile(&ptxas, &text, &[&format!("-arch={chip}")]).unwrap();
        let f = sim::run_sass(&cubin, &launch(), &config()).unwrap_err();
        assert_eq!((f.kind, f.thread), (FaultKind::Trap, Some([33, 0, 0])), "{f}");
        assert!(f.message.contains("a.cu:7: x > 0: assertion failed: x > 0"), "{f}");
    }
}

#[test]
fn barriers_in_memory_before_sm_90() {
    let globals = "";
    let body = "\
        .shared .align 8 .b64 bar;\n.shared .align 16 .b8 buf[1024];\nmov.u32 %r2, bar;\nsetp.eq.u32 %p1, %t, 0;\n\
        @%p1 mbarrier.init.shared.b64 [%r2], 128;\nbar.sync 0;\nmov.u32 %r4, buf;\nmad.lo.u32 %r5, %t, 16, %r4;\n\
        cp.async.ca.shared.global [%r5], [%in], 16;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r2];\n\
        mbarrier.arrive.shared.b64 %d4, [%r2];\nWAIT: mbarrier.test_wait.shared.b64 %p2, [%r2], %d4;\n@!%p2 bra WAIT;\n\
        xor.b32 %r6, %t, 63;\nmad.lo.u32 %r6, %r6, 16, %r4;\nld.shared.b32 %r7, [%r6];\nst.global.b32 [%out], %r7;\n\
        mbarrier.arrive_drop.shared.b64 %d5, [%r2];\nmbarrier.pending_count.b64 %r8, %d4;\nst.global.b32 [%out+4], 1;";
    agree(&["sm_80", "sm_86", "sm_89", "sm_90"], globals, body);
}

/// The interpreter has no values of 128 bits: what is expected is what the PTX ISA says.
#[test]
fn exchanges_of_sixteen_bytes() {
    let body = "\
        .reg .b128 %q<4>;\nld.global.v2.b64 {%d1, %d2}, [%in];\nmov.b128 %q1, {%d1, %d2};\nmov.b64 %d3, 5;\nmov.b64 %d4, 6;\nmov.b128 %q2, {%d3, %d4};\n\
        mov.b64 %d5, 0;\nmov.b128 %q0, {%d5, %d5};\natom.global.cas.b128 %q3, [%out], %q0, %q1;\natom.global.exch.b128 %q3, [%out], %q2;\n\
        mov.b128 {%d6, %d7}, %q3;\nadd.u64 %d6, %d6, %d7;\nst.global.b64 [%in], %d6;";
    let Some(ptxas) = oracle::ptxas() else { return };
    let text = kernel("sm_90", "", body);
    let cubin = oracle::compile(&ptxas, &text, &["-arch=sm_90"]).unwrap();
    let done = sim::run_sass(&cubin, &launch(), &config()).unwrap_or_else(|f| panic!("{f}")).buffers;
    let Arg::Buffer { data, .. } = &launch().args[0] else { panic!() };
    for i in (0..data.len()).step_by(16) {
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap());
        // What was swapped in is swapped out again.
        let sum = word(&data[i..i + 8]).wrapping_add(word(&data[i + 8..i + 16]));
        assert_eq!(word(&done[0][i..i + 8]), sum);
        assert_eq!([word(&done[1][i..i + 8]), word(&done[1][i + 8..i + 16])], [5, 6]);
    }
}

#[test]
fn small_integers_and_logic() {
    let body = "\
        ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%in];\n\
        cvt.pack.sat.u4.s32.b32 %r5, %r1, %r2, %r3;\ncvt.pack.sat.s8.s32.b32 %r6, %r2, %r3, %r4;\ncvt.pack.sat.u2.s32.b32 %r7, %r3, %r1, %r2;\n\
        xor.b32 %r5, %r5, %r6;\nadd.u32 %r5, %r5, %r7;\nst.global.b32 [%out], %r5;\n\
        mov.b32 %f1, %r1;\nand.b32 %r8, %r2, 511;\ncvt.rn.f32.s32 %f2, %r8;\nmul.f32 %f2, %f2, 0f3F000000;\n\
        cvt.rni.sat.u8.f32 %h1, %f2;\ncvt.rzi.u8.f32 %h2, %f2;\ncvt.u32.u16 %r9, %h1;\ncvt.u32.u16 %r10, %h2;\n\
        shl.b32 %r10, %r10, 8;\nor.b32 %r9, %r9, %r10;\nst.global.b32 [%out+4], %r9;\n\
        setp.gt.s32 %p1, %r1, %r2;\nlop3.and.b32 %r11|%p2, %r1, %r2, %r3, 0x6a, %p1;\nselp.b32 %r12, 1, 2, %p2;\nadd.u32 %r11, %r11, %r12;\n\
        st.global.b32 [%out+8], %r11;";
    agree(&ALL, "", body);
}

#[test]
fn halves() {
    let body = "\
        ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%in];\nand.b32 %r1, %r1, 0xbfffbfff;\nand.b32 %r2, %r2, 0xbfffbfff;\nand.b32 %r3, %r3, 0xbfffbfff;\n\
        fma.rn.ftz.f16x2 %r5, %r1, %r2, %r3;\nmul.rn.ftz.f16x2 %r6, %r1, %r2;\nadd.rn.f16x2 %r7, %r6, %r3;\n\
        mov.b32 {%h1, %h2}, %r7;\ncvt.f32.f16 %f1, %h1;\ncvt.f32.f16 %f2, %h2;\nadd.f32 %f1, %f1, %f2;\ncvt.rn.f16.f32 %h3, %f1;\nmov.b32 %r8, {%h3, %h1};\n\
        st.global.v4.b32 [%out], {%r5, %r6, %r7, %r8};";
    agree(&ALL, "", body);
}

/// What sm_120 computes of pairs of registers, with immediates and values of a warp at their edges.
#[test]
fn integers_of_64_bits() {
    let body = "\
        .reg .b64 %e<20>;\nld.global.v2.b64 {%d1, %d2}, [%in];\nadd.u64 %d3, %d1, %d2;\nsub.u64 %d4, %d1, %d2;\nadd.u64 %d3, %d3, -5;\n\
        min.s64 %d5, %d3, %d4;\nmax.u64 %d6, %d1, %d2;\nmin.u64 %d7, %d1, 0x7fffffff;\nmax.s64 %d8, %d2, -3;\n\
        setp.lt.u64 %p1, %d1, %d2;\nsetp.ge.s64 %p2, %d3, -0x12345678;\nselp.b64 %d9, %d5, %d6, %p1;\nselp.b64 %d10, %d9, -1, %p2;\n\
        setp.gt.u64 %p3, %d4, -2;\nselp.b64 %d11, 0x1234567, %d10, %p3;\nadd.cc.u64 %d12, %d1, %d2;\naddc.u64 %d13, %d12, 0;\n\
        xor.b64 %d10, %d10, %d7;\nxor.b64 %d11, %d11, %d8;\nadd.u64 %d10, %d10, %d13;\nadd.u64 %d11, %d11, %d10;\n\
        mov.b64 {%r1, %r2}, %d11;\nadd.sat.s32 %r3, %r1, %r2;\nxor.b32 %r1, %r1, %r3;\nmov.b64 %d11, {%r1, %r2};\n\
        st.global.v2.b64 [%out], {%d10, %d11};";
    agree(&ALL, "", body);
}

/// Values that are the same in a warp: sm_120 has singles and conversions among its uniform instructions.
#[test]
fn singles_of_a_warp() {
    let body = "\
        ld.param.u64 %d1, [in];\ncvt.u32.u64 %r1, %d1;\nmov.u32 %r2, %ctaid.x;\nadd.u32 %r1, %r1, %r2;\ncvt.rn.f32.u32 %f1, %r1;\ncvt.rn.f32.s32 %f2, %r2;\n\
        add.f32 %f3, %f1, 0f3FC00000;\nmul.f32 %f4, %f3, 0fBF000000;\nfma.rn.f32 %f5, %f4, %f3, %f2;\nfma.rn.f32 %f5, %f5, 0f3DCCCCCD, %f1;\n\
        setp.gt.f32 %p1, %f5, %f3;\nselp.f32 %f6, %f5, 0f40490FDB, %p1;\nmin.f32 %f7, %f6, %f4;\nabs.f32 %f7, %f7;\n\
        cvt.rzi.s32.f32 %r3, %f7;\ncvt.rni.u32.f32 %r4, %f6;\nmax.s32 %r5, %r3, -7;\nabs.s32 %r6, %r3;\nadd.u32 %r5, %r5, %r6;\n\
        mov.b32 %r7, %f6;\nst.global.v4.b32 [%out], {%r3, %r4, %r5, %r7};";
    agree(&ALL, "", body);
}

/// Words that lie elsewhere from sm_100 on: the size of a CTA, of the grid and of shared memory, and where parameters are.
#[test]
fn words_of_the_driver() {
    let body = "\
        .reg .b64 %e<4>;\n.reg .pred %q;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %nctaid.y;\nmov.u32 %r3, %dynamic_smem_size;\nmad.lo.u32 %r1, %r1, 1000, %r2;\n\
        add.u32 %r1, %r1, %r3;\nmov.u32 %r4, %cluster_nctarank;\nmad.lo.u32 %r1, %r1, 10, %r4;\n\
        mov.u32 %r5, %cluster_ctaid.x;\nmov.u32 %r6, %nclusterid.x;\nmad.lo.u32 %r5, %r6, 10, %r5;\n\
        .local .b32 words[4];\nmov.u64 %e1, words;\ncvta.local.u64 %e1, %e1;\nst.b32 [%e1+4], %t;\nld.b32 %r7, [%e1+4];\nadd.u32 %r7, %r7, 3;\n\
        st.global.v4.b32 [%out], {%r1, %r5, %r7, %r4};";
    agree(&["sm_90", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"], "", body);
}
