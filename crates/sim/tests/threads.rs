//! What threads do together, where they are, and approximate functions, in the PTX interpreter. Expected values stand in
//! the tests: derived by hand from the text of the PTX ISA, or, for approximate functions, from the host's with the bound
//! that the document gives.

mod common;

use sim::{Arg, Config, Launch};

/// Runs a body with `%p`, a buffer of 64 words; `%me` is the thread's number, `%mine` the address of its word, `%q0` true
/// for thread 0, `%all` the thread's number in the grid.
fn run(shared: &str, body: &str, (grid, cluster, block): (u32, u32, u32), from: &[u32]) -> Vec<u32> {
    let text = format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.const .align 4 .b32 table[2] = {{1, 2}};\n\
         .visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %p, %mine, %d<16>;\n\
         .reg .b32 %me, %all, %r<16>;\n.reg .pred %q<8>;\n{shared}\nld.param.u64 %p, [p0];\nmov.u32 %me, %tid.x;\n\
         mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmad.lo.u32 %all, %r1, %r2, %me;\n\
         mad.wide.u32 %mine, %all, 4, %p;\nsetp.eq.u32 %q0, %me, 0;\n{body}\nret;\n}}\n"
    );
    let (module, mut messages) = ptx::parse(&text);
    messages.extend(ptx::check(&module, None));
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}\n{text}");
    let data = from.iter().flat_map(|x| x.to_le_bytes()).collect();
    let launch = Launch {
        kernel: "k".into(),
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: (cluster > 0).then_some([cluster, 1, 1]),
        args: vec![Arg::Buffer { data, out: None }],
        ..Launch::default()
    };
    let config = Config { max_instructions: 1_000_000, ..Config::default() };
    let done = sim::run_ptx(&module, &launch, &config).unwrap_or_else(|f| panic!("{f} {:?}\n{text}", f.place));
    common::witness(&text, &launch, &done.buffers);
    done.buffers[0].chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// One warp writes, the other reads, by every way to write the barrier between them.
#[test]
fn barriers_of_a_cta() {
    for (arrive, sync) in [
        ("bar.arrive 1, 64;", "bar.sync 1, 64;"),
        ("bar.cta.arrive 1, 64;", "bar.cta.sync 1, 64;"),
        ("barrier.arrive 1, 64;", "barrier.sync 1, 64;"),
        ("barrier.cta.arrive 1, 64;", "barrier.cta.sync 1, 64;"),
    ] {
        let body = format!(
            "mov.u32 %r3, tile;\nand.b32 %r4, %me, 31;\nmad.lo.u32 %r4, %r4, 4, %r3;\nsetp.lt.u32 %q1, %me, 32;\n@!%q1 bra A;\n\
             add.u32 %r5, %me, 500;\nst.shared.u32 [%r4], %r5;\n{arrive}\nbra B;\nA:\n{sync}\nld.shared.u32 %r6, [%r4];\n\
             st.global.u32 [%mine], %r6;\nB:\n"
        );
        let got = run(".shared .align 4 .b8 tile[128];", &body, (1, 0, 64), &[0; 64]);
        assert_eq!(got[32..], (500..532).collect::<Vec<u32>>(), "{sync}");
    }
}

/// 40 of 64 threads bring a true predicate: the count, and whether all or any did.
#[test]
fn barriers_that_reduce() {
    for name in ["bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red"] {
        let body = format!(
            "setp.lt.u32 %q1, %me, 40;\n{name}.popc.u32 %r3, 0, %q1;\n{name}.and.pred %q2, 0, %q1;\n{name}.or.pred %q3, 0, %q1;\n\
             selp.u32 %r4, 1000, 0, %q2;\nselp.u32 %r5, 2000, 0, %q3;\nadd.u32 %r3, %r3, %r4;\nadd.u32 %r3, %r3, %r5;\nst.global.u32 [%mine], %r3;"
        );
        assert_eq!(run("", &body, (1, 0, 64), &[0; 64]), [2040; 64], "{name}");
    }
}

/// Two CTAs of a cluster write to each other's shared memory.
#[test]
fn clusters() {
    let body = "mov.u32 %r3, tile;\nmad.lo.u32 %r4, %me, 4, %r3;\nmov.u32 %r5, %cluster_ctarank;\nxor.b32 %r6, %r5, 1;\n\
                mapa.shared::cluster.u32 %r7, %r4, %r6;\nbarrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n\
                add.u32 %r8, %all, 7;\nst.shared::cluster.u32 [%r7], %r8;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n\
                ld.shared.u32 %r9, [%r4];\ngetctarank.shared::cluster.u32 %r10, %r7;\nmad.lo.u32 %r9, %r10, 100, %r9;\nst.global.u32 [%mine], %r9;";
    let got = run(".shared .align 4 .b8 tile[128];", body, (2, 2, 32), &[0; 64]);
    // CTA 0 reads what CTA 1 wrote (39 to 70), and names rank 1; CTA 1 reads 7 to 38, and names rank 0.
    let want: Vec<u32> = (0..32).map(|i| 139 + i).chain((0..32).map(|i| 7 + i)).collect();
    assert_eq!(got, want);
}

/// Stores and reductions to another CTA that complete on its barrier.
#[test]
fn asynchronous_stores() {
    let body = "mov.u32 %r3, tile;\nmad.lo.u32 %r4, %me, 8, %r3;\nmov.u32 %r11, bar;\nmov.u32 %r12, sum;\n\
                mov.u32 %r5, %cluster_ctarank;\nxor.b32 %r6, %r5, 1;\n\
                @%q0 mbarrier.init.shared.b64 [%r11], 1;\n@%q0 st.shared.u32 [%r12], 1000;\n@%q0 mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 384;\n\
                barrier.cluster.arrive;\nbarrier.cluster.wait;\n\
                mapa.shared::cluster.u32 %r7, %r4, %r6;\nmapa.shared::cluster.u32 %r8, %r11, %r6;\nmapa.shared::cluster.u32 %r9, %r12, %r6;\n\
                add.u32 %r10, %all, 1;\nst.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r7], {%all, %r10}, [%r8];\n\
                red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r9], %me, [%r8];\n\
                W:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q1, [%r11], 0;\n@!%q1 bra W;\n\
                ld.shared.v2.u32 {%r13, %r14}, [%r4];\nadd.u32 %r13, %r13, %r14;\nld.volatile.shared.u32 %r15, [%r12];\n\
                add.u32 %r13, %r13, %r15;\nst.global.u32 [%mine], %r13;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;";
    let shared = ".shared .align 8 .b64 bar;\n.shared .align 8 .b8 tile[256];\n.shared .align 4 .b32 sum;";
    let got = run(shared, body, (2, 2, 32), &[0; 64]);
    // n + (n + 1) of the other CTA's thread, and 1000 plus the sum of 0 to 31.
    let one = |n: u32| 2 * n + 1 + 1000 + 496;
    assert_eq!(got, (32..64).chain(0..32).map(one).collect::<Vec<u32>>());
}

/// The reducing copy adds 16 words of shared memory to those of the buffer.
#[test]
fn reducing_copies() {
    let body = "mov.u32 %r3, tile;\nmad.lo.u32 %r4, %me, 4, %r3;\nadd.u32 %r5, %me, 1;\nst.shared.u32 [%r4], %r5;\n\
                fence.proxy.async.shared::cta;\nbar.sync 0;\n@!%q0 bra E;\n\
                cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%p], [%r3], 64;\n\
                cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%p+64], [%r3+64], 64;\n\
                cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nE:\n";
    let got = run(".shared .align 16 .b8 tile[128];", body, (1, 0, 32), &[20; 64]);
    let want: Vec<u32> = (0..64)
        .map(|i| {
            if i < 16 {
                21 + i
            } else if i < 32 {
                (i + 1).max(20)
            } else {
                20
            }
        })
        .collect();
    assert_eq!(got, want);
}

#[test]
fn one_lane_is_elected() {
    // Of the lanes 5, 6 and 7 one is true, and all are told the same lane of the mask.
    let body = "setp.lt.u32 %q1, %me, 5;\nsetp.gt.u32 %q2, %me, 7;\nor.pred %q1, %q1, %q2;\n@%q1 bra E;\n\
                elect.sync %r3|%q3, 0x000000e0;\nselp.u32 %r4, 100, 0, %q3;\nadd.u32 %r3, %r3, %r4;\nst.global.u32 [%mine], %r3;\nE:\n";
    let got = run("", body, (1, 0, 32), &[0; 64]);
    let leader = got[5] % 100;
    assert!((5..8).contains(&leader));
    let want: Vec<u32> = (5..8).map(|i| leader + if i == leader { 100 } else { 0 }).collect();
    assert_eq!(got[5..8], want);
}

/// A message passed by a flag: the fence makes the data visible with it.
#[test]
fn fences() {
    for fence in ["fence.acq_rel.cta;", "fence.sc.cta;", "membar.cta;", "membar.gl;", "fence.acq_rel.gpu;"] {
        let body = format!(
            "mov.u32 %r3, tile;\nsetp.eq.u32 %q1, %me, 32;\n@%q0 st.relaxed.cta.shared.u32 [%r3+4], 0;\nbar.sync 0;\n@!%q0 bra A;\n\
             st.shared.u32 [%r3], 77;\n{fence}\nst.relaxed.cta.shared.u32 [%r3+4], 1;\nA:\n@!%q1 bra E;\nS:\n\
             ld.relaxed.cta.shared.u32 %r5, [%r3+4];\nsetp.eq.u32 %q2, %r5, 0;\n@%q2 bra S;\n{fence}\nld.shared.u32 %r6, [%r3];\nst.global.u32 [%p], %r6;\nE:\n"
        );
        assert_eq!(run(".shared .align 4 .b8 tile[8];", &body, (1, 0, 64), &[0; 64])[0], 77, "{fence}");
    }
}

#[test]
fn state_spaces_of_addresses() {
    // Bits: global, shared, local, const of an address in each of the four.
    let spaces = ["global", "shared", "local", "const"];
    let mut body = String::from(
        "mov.u64 %d1, %p;\nmov.u64 %d2, tile;\ncvta.shared.u64 %d2, %d2;\nmov.u64 %d3, mine;\ncvta.local.u64 %d3, %d3;\nmov.u64 %d4, table;\ncvta.const.u64 %d4, %d4;\n",
    );
    for address in 1..5 {
        body += "mov.u32 %r3, 0;\n";
        for (bit, space) in spaces.iter().enumerate().take(3) {
            body += &format!("isspacep.{space} %q1, %d{address};\n@%q1 or.b32 %r3, %r3, {};\n", 1 << bit);
        }
        body += &format!(
            "isspacep.const %q1, %d{address};\n@%q1 or.b32 %r3, %r3, 8;\nst.global.u32 [%p+{}], %r3;\n",
            4 * address - 4
        );
    }
    let got = run(".shared .align 4 .b8 tile[8];\n.local .align 4 .b8 mine[8];", &body, (1, 0, 1), &[0; 64]);
    // Constant memory is a window within global memory.
    assert_eq!((got[0], got[1], got[2], got[3] & 0xe), (1, 2, 4, 8));
}

#[test]
fn single_words() {
    let one = |body: &str, from: u32| {
        run("", &format!("ld.global.u32 %r3, [%mine];\n{body}\nst.global.u32 [%mine], %r4;"), (1, 0, 1), &[from; 64])[0]
    };
    // fns: the position of the n-th set bit from a base, upwards or downwards; all ones where there is none.
    for (from, base, n, want) in [
        (0b1011_0100, 0, 1, 2),
        (0b1011_0100, 2, 1, 2),
        (0b1011_0100, 3, 1, 4),
        (0b1011_0100, 0, 4, 7),
        (0b1011_0100, 0, 5, u32::MAX),
        (0b1011_0100, 6, -1, 5),
        (0b1011_0100, 5, -2, 4),
        (0b1011_0100, 4, 0, 4),
        (0b1011_0100, 3, 0, u32::MAX),
    ] {
        assert_eq!(one(&format!("fns.b32 %r4, %r3, {base}, {n};"), from), want, "{from:#b} {base} {n}");
    }
    // dp2a.lo: halves 3 and -2 by bytes 5 and 7 of the low half, plus 100.
    assert_eq!(one("mov.u32 %r5, 0xffff0705;\ndp2a.lo.s32.s32 %r4, %r3, %r5, 100;", 0xfffe_0003), 100 + 15 - 14);
    // mad24.hi: bits 47 to 16 of the product of 24 bits, plus 1.
    assert_eq!(one("mov.u32 %r5, 0x00ff0000;\nmad24.hi.u32 %r4, %r3, %r5, 1;", 0x0080_0000), 0x7f80_0001);
    // mad.lo.cc of 2^31 by 2 leaves a carry with 2^31 + 2^31; madc.lo adds it to 3 * 5 + 6.
    let body = "mad.lo.cc.u32 %r5, %r3, 1, %r3;\nmov.u32 %r6, 3;\nmadc.lo.u32 %r4, %r6, 5, 6;";
    assert_eq!(one(body, 0x8000_0000), 22);
    // mad of floats is a fused multiply-add: (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 exactly.
    let body = "mov.b32 %r5, 0fBF801000;\nmad.rn.f32 %r4, %r3, %r3, %r5;";
    assert_eq!(f32::from_bits(one(body, (1.0 + 2f32.powi(-12)).to_bits())), 2f32.powi(-24));
    assert_eq!(one("ldu.global.u32 %r4, [%p];", 99), 99);
}

/// Formals in registers: two results are not possible, so one, of 64 bits, from a narrower and a wider argument; one return
/// under a guard, one at the end; and a call of a call.
#[test]
fn formals_in_registers() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .func (.reg .b32 %out) one(.reg .b32 %in) { .reg .pred %q; setp.gt.u32 %q, %in, 40; mov.u32 %out, 7; @%q ret; add.u32 %out, %in, 1; ret; }\n\
        .func (.reg .b64 %sum) two(.reg .b32 %a, .reg .b64 %b) { .reg .b32 %r; call (%r), one, (%a); cvt.u64.u32 %sum, %r; add.u64 %sum, %sum, %b; }\n\
        .visible .entry k(.param .u64 p0) { .reg .b64 %p, %d<3>; .reg .b32 %r<3>; ld.param.u64 %p, [p0]; mov.u32 %r1, %tid.x; mov.u64 %d1, 1000; \
        call (%d2), two, (%r1, %d1); cvt.u32.u64 %r2, %d2; mad.wide.u32 %p, %r1, 4, %p; st.global.u32 [%p], %r2; ret; }\n";
    let (module, messages) = ptx::parse(text);
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}");
    let args = vec![Arg::Buffer { data: vec![0; 256], out: None }];
    let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [64, 1, 1], args, ..Launch::default() };
    let done = sim::run_ptx(&module, &launch, &Config::default()).unwrap_or_else(|f| panic!("{f}"));
    let got: Vec<u32> = done.buffers[0].chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    assert_eq!(got, (0..64).map(|i| 1000 + if i > 40 { 7 } else { i + 1 }).collect::<Vec<u32>>());
}

/// Bounds of the tables in section 9.7.3 of the PTX ISA: relative or absolute errors over ranges.
#[test]
fn approximate_functions() {
    type Function = (&'static str, fn(f64) -> f64, f64, f64, fn(f64) -> f64);
    let list: [Function; 8] = [
        // Name, the exact function, range, the largest error permitted at a result.
        ("ex2.approx.f32", f64::exp2, -120.0, 120.0, |y| y * 2f64.powi(-22)),
        ("lg2.approx.f32", f64::log2, 0.01, 0.5, |y| y.abs() * 2f64.powi(-22)),
        ("lg2.approx.f32", f64::log2, 0.5, 2.0, |_| 2f64.powi(-22)),
        ("lg2.approx.f32", f64::log2, 2.0, 1e30, |y| y.abs() * 2f64.powi(-22)),
        ("sin.approx.f32", f64::sin, -3.1, 3.1, |_| 2f64.powf(-20.5)),
        ("cos.approx.f32", f64::cos, -3.1, 3.1, |_| 2f64.powf(-20.5)),
        ("rsqrt.approx.f32", |x| 1.0 / x.sqrt(), 1e-30, 1e30, |y| y * 2f64.powf(-22.9)),
        ("tanh.approx.f32", f64::tanh, -20.0, 20.0, |y| y.abs() * 2f64.powi(-11)),
    ];
    for (name, exact, low, high, error) in list {
        let points: Vec<f32> = (0..64).map(|i| (low + (high - low) * (i as f64 + 0.37) / 64.0) as f32).collect();
        let bits: Vec<u32> = points.iter().map(|x| x.to_bits()).collect();
        let body = format!("ld.global.b32 %r3, [%mine];\n{name} %r4, %r3;\nst.global.b32 [%mine], %r4;");
        for (x, got) in points.iter().zip(run("", &body, (1, 0, 64), &bits)) {
            let (got, want) = (f32::from_bits(got) as f64, exact(*x as f64));
            assert!((got - want).abs() <= error(want), "{name} of {x}: {got} for {want}");
        }
    }
}
