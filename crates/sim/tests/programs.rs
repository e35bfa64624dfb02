//! Small programs for what single instructions and the corpus do not reach: barriers with reductions and counts, indirect
//! calls, clusters, asynchronous copies, packed atomics, warp-wide instructions from divergent places. Expected values are
//! derived by hand in the comments; the vendor's code must give the same where the oracle is there.

use sim::{Arg, Config, Launch};

struct Program {
    name: &'static str,
    /// Before the kernel.
    decls: &'static str,
    body: &'static str,
    launch: fn(&mut Launch),
    /// The buffer of 64 words (filled with 0) after the launch, from its start.
    expect: fn() -> Vec<u32>,
}

fn text(p: &Program) -> String {
    format!(
        ".version 8.1\n.target sm_90\n.address_size 64\n{}\n.visible .entry k(.param .u64 p)\n{{\n.reg .pred %p<8>;\n.reg .b16 %h<5>;\n\
         .reg .b32 %r<16>;\n.reg .f32 %f<4>;\n.reg .b64 %rd<8>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmad.wide.u32 %rd2, %r1, 4, %rd1;\n{}\nret;\n}}\n",
        p.decls, p.body
    )
}

fn launch(p: &Program) -> Launch {
    let mut l = Launch {
        kernel: "k".into(),
        grid: [1; 3],
        block: [64, 1, 1],
        args: vec![Arg::Buffer { data: vec![0; 256], out: None }],
        ..Launch::default()
    };
    (p.launch)(&mut l);
    l
}

fn programs() -> Vec<Program> {
    vec![
        Program {
            name: "names of variables in generic accesses",
            decls: ".shared .align 4 .b32 pad[4];\n.shared .align 4 .b32 sum[4];",
            // The name says which memory: 64 threads add 1 and 3 to shared words; each has its own local word.
            body: ".local .align 4 .b32 own[4];\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 st.shared.u32 [pad], %r1;\nmov.u32 %r2, 0;\n@%p2 st.u32 [sum+4], %r2;\nbar.sync 0;\nred.add.u32 [sum+4], 1;\n\
                   atom.add.u32 %r3, [sum+4], 3;\nbar.sync 0;\nadd.u32 %r4, %r1, 7;\nst.local.u32 [own+8], %r4;\nld.u32 %r5, [own+8];\nld.u32 %r6, [sum+4];\n\
                   mad.lo.u32 %r5, %r6, 1000, %r5;\nst.global.u32 [%rd2], %r5;",
            launch: |_| {},
            expect: || (0..64).map(|i| 256_007 + i).collect(),
        },
        Program {
            name: "vector registers as operands",
            decls: ".shared .align 16 .b32 box[4];",
            // Thread 0: words of two and of four through vector registers, and half words.
            body: ".reg .v2 .b32 %x;\n.reg .v4 .b32 %y;\n.reg .v2 .b16 %z;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\nmov.u32 %r2, 5;\nst.global.u32 [%rd1], %r2;\n\
                   mov.u32 %r3, 0x70006;\nst.global.u32 [%rd1+4], %r3;\nld.global.v2.b32 %x, [%rd1];\nadd.u32 %x.x, %x.x, %x.y;\nst.shared.v2.b32 [box+8], %x;\n\
                   st.shared.v2.b32 [box], {%r2, %r2};\nld.shared.v4.b32 %y, [box];\nadd.u32 %y.y, %y.z, 1;\nst.global.v4.b32 [%rd1+16], %y;\nld.global.v2.b16 %z, [%rd1+4];\n\
                   mov.b32 %r4, {%z.y, %z.x};\nst.global.u32 [%rd1+8], %r4;\nst.global.v2.b16 [%rd1+12], %z;\nEND:",
            launch: |_| {},
            expect: || vec![5, 0x70006, 0x60007, 0x70006, 5, 0x7000c, 0x7000b, 0x70006],
        },
        Program {
            name: "predicates as arguments and results",
            decls: ".func (.reg .u32 %x, .reg .pred %y) f (.reg .u32 %i, .reg .pred %q)\n{\nsetp.gt.u32 %y, %i, 40;\nselp.u32 %x, 100, 200, %q;\n@%q ret;\n\
                    setp.lt.u32 %y, %i, 9;\nret;\n}\n\
                    .func (.reg .pred %y) not (.reg .pred %q)\n{\nnot.pred %y, %q;\nret;\n}",
            // Odd threads bring true and learn whether they are above 40, the others whether below 9; half of the odd ones in a call of
            // their own.
            body: "and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 1;\nand.b32 %r2, %r1, 3;\nsetp.eq.u32 %p3, %r2, 3;\n@%p3 bra APART;\ncall (%r3, %p2), f, (%r1, %p1);\nbra JOIN;\n\
                   APART:\ncall (%p1), not, (%p1);\ncall (%p1), not, (%p1);\ncall (%r3, %p2), f, (%r1, %p1);\nJOIN:\nselp.u32 %r4, 1, 2, %p2;\nadd.u32 %r3, %r3, %r4;\n\
                   st.global.u32 [%rd2], %r3;",
            launch: |_| {},
            expect: || {
                let one = |i: u32| match i % 2 {
                    1 => 100 + if i > 40 { 1 } else { 2 },
                    _ => 200 + if i < 9 { 1 } else { 2 },
                };
                (0..64).map(one).collect()
            },
        },
        Program {
            name: "barrier reductions",
            decls: "",
            // 7 of 64 threads bring true: popc 7, and 0, or 1.
            body: "setp.lt.u32 %p1, %r1, 7;\nbar.red.popc.u32 %r2, 5, %p1;\nbar.red.and.pred %p2, 6, %p1;\nbar.red.or.pred %p3, 5, 64, %p1;\n\
                   selp.u32 %r3, 100, 0, %p2;\nselp.u32 %r4, 1000, 0, %p3;\nadd.u32 %r2, %r2, %r3;\nadd.u32 %r2, %r2, %r4;\nst.global.u32 [%rd2], %r2;",
            launch: |_| {},
            expect: || vec![1007; 64],
        },
        Program {
            name: "producer and consumer",
            decls: ".shared .align 4 .b8 box[128];",
            // Warp 0 fills the box and arrives; warp 1 waits for 64 arrivals at barrier 1 and empties it: lane i gets 3 i.
            body: "mov.u32 %r2, box;\nand.b32 %r3, %r1, 31;\nmad.lo.u32 %r2, %r3, 4, %r2;\nmov.u32 %r5, 64;\nmov.u32 %r6, 1;\nsetp.ge.u32 %p1, %r1, 32;\n\
                   @%p1 bra GET;\nmul.lo.u32 %r4, %r1, 3;\nst.shared.u32 [%r2], %r4;\nbar.arrive 1, 64;\nbra.uni END;\nGET:\nbar.sync %r6, %r5;\n\
                   ld.shared.u32 %r4, [%r2];\nst.global.u32 [%rd2+-128], %r4;\nEND:",
            launch: |_| {},
            expect: || (0..32).map(|i| 3 * i).collect(),
        },
        Program {
            name: "indirect calls",
            decls: ".func (.param .b32 r) twice(.param .b32 n)\n{\n.reg .b32 %a<3>;\nld.param.u32 %a1, [n];\nshl.b32 %a2, %a1, 1;\nst.param.b32 [r], %a2;\nret;\n}\n\
                    .func (.param .b32 r) square(.param .b32 n)\n{\n.reg .b32 %a<3>;\nld.param.u32 %a1, [n];\nmul.lo.u32 %a2, %a1, %a1;\nst.param.b32 [r], %a2;\nret;\n}\n\
                    .global .align 8 .u64 table[2] = {twice, square};",
            // Odd threads square, even ones double.
            body: "and.b32 %r2, %r1, 1;\nmov.u64 %rd3, table;\nmad.wide.u32 %rd3, %r2, 8, %rd3;\nld.global.u64 %rd4, [%rd3];\n{\n.param .b32 a;\n.param .b32 b;\n\
                   st.param.b32 [a], %r1;\nproto: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (b), %rd4, (a), proto;\nld.param.b32 %r3, [b];\n}\n\
                   st.global.u32 [%rd2], %r3;",
            launch: |_| {},
            expect: || (0..64).map(|i| if i % 2 == 1 { i * i } else { 2 * i }).collect(),
        },
        Program {
            name: "clusters",
            decls: ".shared .align 4 .b8 box[128];",
            // Two CTAs of 32 threads; each writes 100 rank + i into its own box and reads the other's.
            body: "mov.u32 %r2, %cluster_ctarank;\nmov.u32 %r3, box;\nmad.lo.u32 %r4, %r1, 4, %r3;\nmad.lo.u32 %r5, %r2, 100, %r1;\nst.shared.u32 [%r4], %r5;\n\
                   barrier.cluster.arrive;\nbarrier.cluster.wait;\nxor.b32 %r6, %r2, 1;\nmapa.shared::cluster.u32 %r7, %r4, %r6;\nld.shared::cluster.u32 %r8, [%r7];\n\
                   mov.u32 %r9, %ctaid.x;\nmad.lo.u32 %r9, %r9, 32, %r1;\nmad.wide.u32 %rd2, %r9, 4, %rd1;\nst.global.u32 [%rd2], %r8;\n\
                   barrier.cluster.arrive;\nbarrier.cluster.wait;",
            launch: |l| {
                l.grid = [2, 1, 1];
                l.block = [32, 1, 1];
                l.cluster = Some([2, 1, 1]);
            },
            expect: || (100..132).chain(0..32).collect(),
        },
        Program {
            name: "asynchronous copies",
            decls: ".shared .align 16 .b8 box[256];",
            // Thread i writes i, all copy word i to the box (the upper half with a source size of 0: zeros), and read word 63 - i.
            body: "st.global.u32 [%rd2], %r1;\nbar.sync 0;\nmov.u32 %r2, box;\nmad.lo.u32 %r3, %r1, 4, %r2;\nsetp.lt.u32 %p1, %r1, 32;\nselp.u32 %r4, 4, 0, %p1;\n\
                   cp.async.ca.shared.global [%r3], [%rd2], 4, %r4;\ncp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\nsub.u32 %r5, 63, %r1;\n\
                   mad.lo.u32 %r5, %r5, 4, %r2;\nld.shared.u32 %r6, [%r5];\nst.global.u32 [%rd2], %r6;",
            launch: |_| {},
            expect: || (0..64).map(|i| if i < 32 { 0 } else { 63 - i }).collect(),
        },
        Program {
            name: "partial asynchronous copies",
            decls: ".shared .align 16 .b8 box[1024];",
            // Thread i reads 16 bytes of which 4 (i & 3) count, the rest is zero; thread 4 ignores its source. Words: the first 16 of
            // the buffer hold 1 to 16 and four threads copy four each; thread i of 5 adds its four words up into word 16 + i.
            body: "setp.lt.u32 %p1, %r1, 16;\nadd.u32 %r2, %r1, 1;\n@%p1 st.global.u32 [%rd2], %r2;\nbar.sync 0;\nsetp.gt.u32 %p2, %r1, 4;\n@%p2 bra END;\n\
                   and.b32 %r3, %r1, 3;\nmad.wide.u32 %rd3, %r3, 16, %rd1;\nshl.b32 %r4, %r3, 2;\nmov.u32 %r5, box;\nmad.lo.u32 %r5, %r1, 16, %r5;\n\
                   setp.eq.u32 %p3, %r1, 4;\n@!%p3 cp.async.ca.shared.global [%r5], [%rd3], 16, %r4;\n@%p3 cp.async.ca.shared.global [%r5], [%rd3], 16, %p3;\n\
                   cp.async.wait_all;\nld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r5];\nadd.u32 %r6, %r6, %r7;\nadd.u32 %r6, %r6, %r8;\nadd.u32 %r6, %r6, %r9;\n\
                   st.global.u32 [%rd2+64], %r6;\nEND:",
            launch: |_| {},
            expect: || (1..17).chain([0, 5, 9 + 10, 13 + 14 + 15, 0]).collect(),
        },
        Program {
            name: "packed atomics",
            decls: "",
            // 64 times 1.0 (0x3c00) into the low and 0.5 into the high half: 64.0 = 0x5400, 32.0 = 0x5000. And in f32: 64.0. Exchange,
            // compare and swap by one thread: word 2 becomes 5, then 9.
            body: "mov.b32 %r2, 0x38003c00;\nred.global.add.noftz.f16x2 [%rd1], %r2;\nmov.f32 %f1, 0f3F800000;\natom.global.add.f32 %f2, [%rd1+4], %f1;\n\
                   setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\natom.global.exch.b32 %r3, [%rd1+8], 5;\natom.global.cas.b32 %r4, [%rd1+8], 5, 9;\n\
                   atom.global.cas.b32 %r5, [%rd1+8], 5, 11;\nadd.u32 %r6, %r3, %r4;\nadd.u32 %r6, %r6, %r5;\nst.global.u32 [%rd1+12], %r6;\nEND:",
            launch: |_| {},
            expect: || vec![0x5000_5400, 0x4280_0000, 9, 14],
        },
        Program {
            name: "warp-wide from two places",
            decls: "",
            // The two halves of each warp vote in their own branch, and all lanes meet in the shuffle after it.
            body: "and.b32 %r2, %r1, 31;\nsetp.lt.u32 %p1, %r2, 16;\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p2, %r3, 1;\n@%p1 bra LOW;\n\
                   vote.sync.ballot.b32 %r4, %p2, 0xffff0000;\nbra.uni MEET;\nLOW:\nvote.sync.ballot.b32 %r4, %p2, 0x0000ffff;\nMEET:\n\
                   shfl.sync.bfly.b32 %r5, %r4, 16, 31, 0xffffffff;\nmatch.any.sync.b32 %r6, %r5, 0xffffffff;\nredux.sync.add.u32 %r7, %r3, 0xffffffff;\n\
                   add.u32 %r6, %r6, %r7;\nst.global.u32 [%rd2], %r6;",
            launch: |_| {},
            expect: || (0..64).map(|i| if i % 32 < 16 { 0xffff + 16 } else { 0xffff_0000 + 16 }).collect(),
        },
        Program {
            name: "partial last warp",
            decls: "",
            // 40 threads: a barrier counts the second warp when its 8 threads have come; lane masks end with the warp.
            body: "mov.u32 %r2, 64;\nbar.sync 3, %r2;\nactivemask.b32 %r3;\nsetp.lt.u32 %p1, %r1, 39;\n@!%p1 exit;\nbar.sync 0;\nst.global.u32 [%rd2], %r3;",
            launch: |l| l.block = [40, 1, 1],
            expect: || {
                (0..40)
                    .map(|i| {
                        if i < 32 {
                            u32::MAX
                        } else if i < 39 {
                            0xff
                        } else {
                            0
                        }
                    })
                    .collect()
            },
        },
        Program {
            name: "half arithmetic",
            decls: "",
            // (1.5, 2) * (2, 0.5) + (1, 1) = (4, 2) as low and high; relu of the negation is (0, 0); bf16 3 + 0.5.
            body: "mov.b32 %r2, 0x40003e00;\nmov.b32 %r3, 0x38004000;\nmov.b32 %r4, 0x3c003c00;\nfma.rn.f16x2 %r5, %r2, %r3, %r4;\nneg.f16x2 %r6, %r2;\n\
                   fma.rn.relu.f16x2 %r6, %r6, %r3, %r4;\nmov.b16 %h1, 0x4040;\nmov.b16 %h2, 0x3f00;\nmov.b16 %h3, 0x3f80;\nfma.rn.bf16 %h1, %h1, %h3, %h2;\n\
                   cvt.u32.u16 %r7, %h1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\nst.global.v2.u32 [%rd1], {%r5, %r6};\nst.global.u32 [%rd1+8], %r7;\nEND:",
            launch: |_| {},
            expect: || vec![0x4000_4400, 0, 0x4060],
        },
        Program {
            name: "halves out of bounds",
            decls: "",
            // The NaN 0x7ff7 in a or b makes its half zero: (x, 1.5) * 2 + 1 = (0, 4); relu of (1, -2) * (2, x) + 1 = (3, 0);
            // in c it is a NaN like any other, as are 0x7fff and 0xfff7 in a; clamped (x, 1) * 2 + 1 = (0, 1); bf16
            // (x, 3) * 2 + 1 = (0, 7); relu of bf16 -1 * 2 + 1; bf16 3 * x + 1; 1.5 * 2 + 0.5 = 3.5.
            body: "mov.b32 %r2, 0x3e007ff7;\nmov.b32 %r3, 0x40004000;\nmov.b32 %r4, 0x3c003c00;\nfma.rn.oob.f16x2 %r5, %r2, %r3, %r4;\n\
                   mov.b32 %r2, 0xc0003c00;\nmov.b32 %r6, 0x7ff74000;\nfma.rn.oob.relu.f16x2 %r6, %r2, %r6, %r4;\n\
                   mov.b32 %r2, 0x7ff73c00;\nfma.rn.oob.f16x2 %r7, %r4, %r3, %r2;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\n\
                   st.global.v2.u32 [%rd1], {%r5, %r6};\nst.global.u32 [%rd1+8], %r7;\nmov.b32 %r2, 0xfff77fff;\nfma.rn.oob.f16x2 %r5, %r2, %r3, %r4;\n\
                   mov.b32 %r2, 0x3c007ff7;\nfma.rn.oob.sat.f16x2 %r6, %r2, %r3, %r4;\nmov.b32 %r2, 0x40407ff7;\nmov.b32 %r4, 0x3f803f80;\n\
                   fma.rn.oob.bf16x2 %r7, %r2, %r3, %r4;\nst.global.u32 [%rd1+12], %r5;\nst.global.u32 [%rd1+16], %r6;\nst.global.u32 [%rd1+20], %r7;\n\
                   mov.b16 %h1, 0xbf80;\nmov.b16 %h2, 0x4000;\nmov.b16 %h3, 0x3f80;\nfma.rn.oob.relu.bf16 %h4, %h1, %h2, %h3;\n\
                   st.global.u16 [%rd1+24], %h4;\nmov.b16 %h1, 0x4040;\nmov.b16 %h2, 0x7ff7;\nfma.rn.oob.bf16 %h4, %h1, %h2, %h3;\n\
                   st.global.u16 [%rd1+26], %h4;\nmov.b16 %h1, 0x3e00;\nmov.b16 %h2, 0x4000;\nmov.b16 %h3, 0x3800;\n\
                   fma.rn.oob.f16 %h4, %h1, %h2, %h3;\nst.global.u16 [%rd1+28], %h4;\nfma.rn.oob.relu.f16 %h4, %h1, %h2, %h3;\n\
                   st.global.u16 [%rd1+30], %h4;\nEND:",
            launch: |_| {},
            expect: || vec![0x4400_0000, 0x4200, 0x7fff_4200, 0x7fff_7fff, 0x3c00_0000, 0x40e0_0000, 0, 0x4300_4300],
        },
    ]
}

/// What the vendor's compiler does not take: predicates as parameters, where functions keep to the ABI.
const REFUSED: [&str; 1] = ["predicates as arguments and results"];

fn check(p: &Program, who: &str, got: &[u8], bad: &mut Vec<String>) {
    let got: Vec<u32> = got.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
    let want = (p.expect)();
    if got[..want.len()] != want {
        bad.push(format!("{} ({who}):\n  {:x?}\n  {want:x?}", p.name, &got[..want.len()]));
    }
}

#[test]
fn programs_do_what_they_say() {
    let mut bad = Vec::new();
    for p in programs() {
        let (module, messages) = ptx::parse(&text(&p));
        assert!(!messages.iter().any(|m| m.is_error()), "{}: {messages:?}", p.name);
        match sim::run_ptx(&module, &launch(&p), &Config::default()) {
            Ok(o) => check(&p, "ptx", &o.buffers[0], &mut bad),
            Err(e) => bad.push(format!("{}: {e}", p.name)),
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn the_vendors_code_does_the_same() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let mut bad = Vec::new();
    for p in programs().into_iter().filter(|p| !REFUSED.contains(&p.name)) {
        for level in ["-O0", "-O1", "-O3"] {
            let cubin = testkit::oracle::compile(&ptxas, &text(&p), &["-arch=sm_90", level]);
            let cubin = cubin.unwrap_or_else(|e| panic!("{}: {e}", p.name));
            match sim::run_sass(&cubin, &launch(&p), &Config::default()) {
                Ok(o) => check(&p, level, &o.buffers[0], &mut bad),
                Err(e) => bad.push(format!("{} ({level}): {e}", p.name)),
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Numbers of 8 and 16 bits beside each other, which sm_120 has, of a = 7f 80 ff 01 and b = 01 ff 01 02; values by hand.
#[test]
fn bytes_beside_each_other() {
    let list: [(&str, u32); 14] = [
        ("add.u8x4", 0x807f_0003),
        ("add.s8x4", 0x807f_0003),
        ("add.sat.u8x4", 0x80ff_ff03),
        ("add.sat.s8x4", 0x7f80_0003),
        ("sub.s8x4", 0x7e81_feff),
        ("sub.sat.u8x4", 0x7e00_fe00),
        ("sub.sat.s8x4", 0x7e81_feff),
        ("min.s8x4", 0x0180_ff01),
        ("max.u8x4", 0x7fff_ff02),
        ("max.relu.s8x4", 0x7f00_0102),
        ("neg.s8x4", 0x8180_01ff),
        ("add.sat.u16x2", 0x817f_ffff),
        ("add.sat.s16x2", 0x7fff_0003),
        ("add.sat.u32", 0x8180_0003),
    ];
    let mut body = "mov.b32 %r2, 0x7f80ff01;\nmov.b32 %r3, 0x01ff0102;\nmov.b32 %r5, 0xff000000;\n\
                    setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\n"
        .to_string();
    for (i, (op, _)) in list.iter().enumerate() {
        let second = if op.starts_with("neg") { "" } else { ", %r3" };
        body += &format!("{op} %r4, %r2{second};\nst.global.u32 [%rd1+{}], %r4;\n", 4 * i);
    }
    body += &format!("add.sat.u32 %r4, %r2, %r5;\nst.global.u32 [%rd1+{}], %r4;\nEND:", 4 * list.len());
    let want: Vec<u32> = list.iter().map(|l| l.1).chain([u32::MAX]).collect();
    let p = Program { name: "bytes", decls: "", body: "", launch: |_| {}, expect: Vec::new };
    let text = text(&p)
        .replace(".version 8.1\n.target sm_90", ".version 9.2\n.target sm_120a")
        .replace("\nret;", &format!("\n{body}\nret;"));
    let (module, mut messages) = ptx::parse(&text);
    messages.extend(ptx::check(&module, None));
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}");
    let read = |buffer: &[u8]| -> Vec<u32> {
        buffer.chunks_exact(4).take(want.len()).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
    };
    let done = sim::run_ptx(&module, &launch(&p), &Config::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(read(&done.buffers[0]), want, "interpreter");
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let cubin = testkit::oracle::compile(&ptxas, &text, &["-arch=sm_120a"]).unwrap_or_else(|e| panic!("{e}"));
    let done = sim::run_sass(&cubin, &launch(&p), &Config::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(read(&done.buffers[0]), want, "the vendor's code");
}
