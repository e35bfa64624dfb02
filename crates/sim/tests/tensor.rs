//! Matrix products, barriers in shared memory and bulk copies in the PTX interpreter. Expected values: matrices of small
//! integers, multiplied in integers, whose elements are laid out by the formulas that the PTX ISA gives for each shape
//! (section 9.7.14.5), written down here one by one; and what the text of section 9.7.13.15 says about mbarriers.

mod common;

use common::float;
use sim::{Arg, Config, Launch};
use testkit::Random;

fn run(text: &str, block: u32, buffers: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (module, mut messages) = ptx::parse(text);
    messages.extend(ptx::check(&module, None));
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}\n{text}");
    let args = buffers.iter().map(|b| Arg::Buffer { data: b.clone(), out: None }).collect();
    let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [block, 1, 1], args, ..Launch::default() };
    let config = Config { max_instructions: 1_000_000, ..Config::default() };
    let done = sim::run_ptx(&module, &launch, &config).unwrap_or_else(|f| panic!("{f} {:?}\n{text}", f.place)).buffers;
    common::witness(text, &launch, &done);
    done
}

/// Row and column of element `i` of lane's fragment, as the document says for a shape.
type Place = fn(u32, u32) -> (u32, u32);

/// An element type: name in PTX, bits, and a small integer as its bits.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    bits: u32,
    low: i64,
    high: i64,
    encode: fn(i64) -> u64,
}

const F16: Kind = Kind { name: "f16", bits: 16, low: -8, high: 8, encode: |n| float(n, 5, 10) };
const BF16: Kind = Kind { name: "bf16", bits: 16, low: -8, high: 8, encode: |n| float(n, 8, 7) };
const TF32: Kind = Kind { name: "tf32", bits: 32, low: -8, high: 8, encode: |n| float(n, 8, 23) };
const F64: Kind = Kind { name: "f64", bits: 64, low: -8, high: 8, encode: |n| float(n, 11, 52) };
const E4M3: Kind = Kind { name: "e4m3", bits: 8, low: -8, high: 8, encode: |n| float(n, 4, 3) };
const E5M2: Kind = Kind { name: "e5m2", bits: 8, low: -4, high: 4, encode: |n| float(n, 5, 2) };
const S8: Kind = Kind { name: "s8", bits: 8, low: -128, high: 127, encode: |n| n as u8 as u64 };
const U8: Kind = Kind { name: "u8", bits: 8, low: 0, high: 255, encode: |n| n as u64 };
const S4: Kind = Kind { name: "s4", bits: 4, low: -8, high: 7, encode: |n| n as u64 & 15 };
const U4: Kind = Kind { name: "u4", bits: 4, low: 0, high: 15, encode: |n| n as u64 };
const B1: Kind = Kind { name: "b1", bits: 1, low: 0, high: 1, encode: |n| n as u64 };

struct Product {
    shape: &'static str,
    a: Kind,
    b: Kind,
    /// Type of C and D.
    sum: &'static str,
    more: &'static str,
    place_a: Place,
    place_b: Place,
}

/// `groupID = %laneid >> 2`, `threadID_in_group = %laneid % 4`
fn g(lane: u32) -> u32 {
    lane >> 2
}
fn t(lane: u32) -> u32 {
    lane % 4
}

fn dims(shape: &str) -> (u32, u32) {
    let (m, rest) = shape[1..].split_once('n').unwrap();
    (m.parse().unwrap(), rest.split_once('k').unwrap().1.parse().unwrap())
}

fn check(p: &Product, random: &mut Random) {
    let (m, k) = dims(p.shape);
    let number = |r: &mut Random, kind: Kind| kind.low + r.index((kind.high - kind.low + 1) as usize) as i64;
    let a: Vec<i64> = (0..m * k).map(|_| number(random, p.a)).collect();
    let b: Vec<i64> = (0..k * 8).map(|_| number(random, p.b)).collect();
    let c: Vec<i64> = (0..m * 8).map(|_| random.index(41) as i64 - 20).collect();
    // Fragments: each lane's elements in order, packed from the low end of its registers.
    let pack = |count: u32, bits: u32, value: &dyn Fn(u32, u32) -> u64| -> Vec<u8> {
        let mut out = Vec::new();
        for lane in 0..32 {
            let mut word = 0u64;
            let width = bits.max(32);
            for i in 0..count {
                word |= value(lane, i) << (i * bits % width);
                if ((i + 1) * bits).is_multiple_of(width) {
                    out.extend_from_slice(&word.to_le_bytes()[..width as usize / 8]);
                    word = 0;
                }
            }
        }
        out
    };
    let fa = pack(m * k / 32, p.a.bits, &|lane, i| {
        let (row, col) = (p.place_a)(lane, i);
        (p.a.encode)(a[(row * k + col) as usize])
    });
    let fb = pack(k / 4, p.b.bits, &|lane, i| {
        let (row, col) = (p.place_b)(lane, i);
        (p.b.encode)(b[(row * 8 + col) as usize])
    });
    // C and D: row = groupID for the first two elements, groupID + 8 for the others; col = threadID_in_group * 2 + (i & 1).
    let place = |lane: u32, i: u32| ((if i < 2 { g(lane) } else { g(lane) + 8 }) * 8 + t(lane) * 2 + (i & 1)) as usize;
    let (bits, encode): (u32, fn(i64) -> u64) = match p.sum {
        "f16" => (16, |n| float(n, 5, 10)),
        "f32" => (32, |n| float(n, 8, 23)),
        "f64" => (64, |n| float(n, 11, 52)),
        _ => (32, |n| n as u32 as u64),
    };
    let fc = pack(m / 4, bits, &|lane, i| encode(c[place(lane, i)]));
    let product = |row: usize, col: usize| -> i64 {
        (0..k as usize)
            .map(|x| {
                let (x, y) = (a[row * k as usize + x], b[x * 8 + col]);
                if p.a.bits != 1 {
                    x * y
                } else if p.more.contains("and") {
                    x & y
                } else {
                    x ^ y
                }
            })
            .sum()
    };
    let want = pack(m / 4, bits, &|lane, i| {
        let at = place(lane, i);
        encode(c[at] + product(at / 8, at % 8))
    });
    let regs = |f: &[u8], bits: u32| f.len() / 32 / (bits.max(32) as usize / 8);
    let (na, nb, nc) = (regs(&fa, p.a.bits), regs(&fb, p.b.bits), regs(&fc, bits));
    let r = |bits: u32| if bits == 64 { ("b64", "%d") } else { ("b32", "%r") };
    let ((ta, ra), (tc, rc)) = (r(p.a.bits), r(bits));
    let list = |reg: &str, first: usize, n: usize| {
        (first..first + n).map(|i| format!("{reg}{i}")).collect::<Vec<_>>().join(", ")
    };
    let mut body = String::new();
    for (arg, (t, reg, first, n)) in [(ta, ra, 0, na), (ta, ra, 8, nb), (tc, rc, 16, nc)].into_iter().enumerate() {
        let size = if t == "b64" { 8 } else { 4 };
        body += &format!("ld.param.u64 %p, [p{arg}];\nmad.wide.u32 %p, %lane, {}, %p;\n", size * n);
        for i in 0..n {
            body += &format!("ld.global.{t} {reg}{}, [%p+{}];\n", first + i, size * i);
        }
    }
    let (shape, x, y, s, more) = (p.shape, p.a.name, p.b.name, p.sum, p.more);
    body += &format!(
        "mma.sync.aligned.{shape}.row.col{more}.{s}.{x}.{y}.{s} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n",
        list(rc, 24, nc),
        list(ra, 0, na),
        list(ra, 8, nb),
        list(rc, 16, nc)
    )
    .replace(".row.col.xor.popc", ".row.col")
    .replace(".row.col.and.popc", ".row.col");
    if p.a.bits == 1 {
        body = body.replace(&format!(".{s}.{x}.{y}.{s} "), &format!(".{s}.{x}.{y}.{s}{more} "));
    }
    for i in 0..nc {
        body += &format!("st.global.{tc} [%p+{}], {rc}{};\n", if bits == 64 { 8 } else { 4 } * i, 24 + i);
    }
    let text = format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n\
         .reg .b64 %p, %d<32>;\n.reg .b32 %lane, %r<32>;\nmov.u32 %lane, %laneid;\n{body}ret;\n}}\n"
    );
    let got = run(&text, 32, &[fa, fb, fc]);
    assert_eq!(got[2], want, "{text}");
}

#[test]
fn products_of_every_shape() {
    // 16 bits.
    let a16: Place = |l, i| {
        (if i < 2 || (4..6).contains(&i) { g(l) } else { g(l) + 8 }, t(l) * 2 + (i & 1) + if i < 4 { 0 } else { 8 })
    };
    let b16: Place = |l, i| (t(l) * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, g(l));
    // tf32, k = 4 and 8.
    let a_tf: Place = |l, i| (if i == 0 || i == 2 { g(l) } else { g(l) + 8 }, if i < 2 { t(l) } else { t(l) + 4 });
    let b_tf: Place = |l, i| (if i == 0 { t(l) } else { t(l) + 4 }, g(l));
    // f64.
    let a_one: Place = |l, _| (g(l), t(l));
    let a_f64: Place =
        |l, i| (if i % 2 == 0 { g(l) } else { g(l) + 8 }, if i % 2 == 0 { i * 2 + t(l) } else { i * 2 - 2 + t(l) });
    let b_f64: Place = |l, i| (t(l) + i * 4, g(l));
    // 8 bits.
    let a8_m8: Place = |l, i| (g(l), t(l) * 4 + i);
    let a8_k16: Place = |l, i| (if i < 4 { g(l) } else { g(l) + 8 }, t(l) * 4 + (i & 3));
    let b8_k16: Place = |l, i| (t(l) * 4 + i, g(l));
    let a8_k32: Place = |l, i| {
        (if i < 4 || (8..12).contains(&i) { g(l) } else { g(l) + 8 }, t(l) * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
    };
    let b8_k32: Place = |l, i| (t(l) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, g(l));
    // 4 bits.
    let a4_m8: Place = |l, i| (g(l), t(l) * 8 + (i & 7));
    let b4_k32: Place = |l, i| (t(l) * 8 + (i & 7), g(l));
    let a4_k32: Place = |l, i| (if i < 8 { g(l) } else { g(l) + 8 }, t(l) * 8 + (i & 7));
    let a4_k64: Place = |l, i| {
        (if i < 8 || (16..24).contains(&i) { g(l) } else { g(l) + 8 }, t(l) * 8 + (i & 7) + if i < 16 { 0 } else { 32 })
    };
    let b4_k64: Place = |l, i| (t(l) * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, g(l));
    // 1 bit.
    let a1_m8: Place = |l, i| (g(l), t(l) * 32 + i);
    let a1_k128: Place = |l, i| (if i < 32 { g(l) } else { g(l) + 8 }, t(l) * 32 + (i & 31));
    let b1_k128: Place = |l, i| (t(l) * 32 + i, g(l));
    let a1_k256: Place = |l, i| {
        (
            if i < 32 || (64..96).contains(&i) { g(l) } else { g(l) + 8 },
            t(l) * 32 + (i & 31) + if i < 64 { 0 } else { 128 },
        )
    };
    let b1_k256: Place = |l, i| (t(l) * 32 + (i & 31) + if i < 32 { 0 } else { 128 }, g(l));
    let mut list: Vec<(&str, Kind, Kind, &str, &str, Place, Place)> = vec![
        ("m16n8k8", F16, F16, "f32", "", a16, b16),
        ("m16n8k8", F16, F16, "f16", "", a16, b16),
        ("m16n8k16", F16, F16, "f32", "", a16, b16),
        ("m16n8k16", F16, F16, "f16", "", a16, b16),
        ("m16n8k8", BF16, BF16, "f32", "", a16, b16),
        ("m16n8k16", BF16, BF16, "f32", "", a16, b16),
        ("m16n8k4", TF32, TF32, "f32", "", a_tf, b_tf),
        ("m16n8k8", TF32, TF32, "f32", "", a_tf, b_tf),
        ("m8n8k4", F64, F64, "f64", "", a_one, b_f64),
        ("m16n8k4", F64, F64, "f64", "", a_f64, b_f64),
        ("m16n8k8", F64, F64, "f64", "", a_f64, b_f64),
        ("m16n8k16", F64, F64, "f64", "", a_f64, b_f64),
        ("m8n8k128", B1, B1, "s32", ".xor.popc", a1_m8, b1_k128),
        ("m16n8k128", B1, B1, "s32", ".and.popc", a1_k128, b1_k128),
        ("m16n8k256", B1, B1, "s32", ".xor.popc", a1_k256, b1_k256),
        ("m16n8k256", B1, B1, "s32", ".and.popc", a1_k256, b1_k256),
    ];
    for a in [S8, U8] {
        for b in [S8, U8] {
            list.push(("m8n8k16", a, b, "s32", "", a8_m8, b8_k16));
            list.push(("m16n8k16", a, b, "s32", "", a8_k16, b8_k16));
            list.push(("m16n8k32", a, b, "s32", "", a8_k32, b8_k32));
        }
    }
    for a in [S4, U4] {
        for b in [S4, U4] {
            list.push(("m8n8k32", a, b, "s32", "", a4_m8, b4_k32));
            list.push(("m16n8k32", a, b, "s32", "", a4_k32, b4_k32));
            list.push(("m16n8k64", a, b, "s32", "", a4_k64, b4_k64));
        }
    }
    for a in [E4M3, E5M2] {
        for b in [E4M3, E5M2] {
            for sum in ["f32", "f16"] {
                list.push(("m16n8k16", a, b, sum, "", a8_k16, b8_k16));
                list.push(("m16n8k32", a, b, sum, "", a8_k32, b8_k32));
            }
        }
    }
    let mut random = Random(5);
    for (shape, a, b, sum, more, place_a, place_b) in list {
        check(&Product { shape, a, b, sum, more, place_a, place_b }, &mut random);
    }
}

/// A kernel of 64 threads with a buffer `%p` of 64 words, its own at `%mine`.
fn kernel(shared: &str, body: &str) -> String {
    format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %p, %mine, %d<16>;\n\
         .reg .b32 %me, %r<16>;\n.reg .pred %q<8>;\n{shared}\nld.param.u64 %p, [p0];\nmov.u32 %me, %tid.x;\n\
         mad.wide.u32 %mine, %me, 4, %p;\nsetp.eq.u32 %q0, %me, 0;\n{body}\nret;\n}}\n"
    )
}

fn words(list: impl IntoIterator<Item = u32>) -> Vec<u8> {
    list.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn transposing_in_registers() {
    // Lane l holds row l / 4, columns 2 (l % 4) and the next: element (row, column) is 16 row + column.
    let text = kernel(
        "",
        "ld.global.u32 %r1, [%mine];\nmovmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;\nst.global.u32 [%mine], %r2;",
    );
    let element = |row: u32, column: u32| 16 * row + column;
    let from = words((0..32).map(|l| element(l / 4, 2 * (l % 4)) | element(l / 4, 2 * (l % 4) + 1) << 16));
    let want = words((0..32).map(|l| element(2 * (l % 4), l / 4) | element(2 * (l % 4) + 1, l / 4) << 16));
    assert_eq!(run(&text, 32, &[from])[0], want);
}

#[test]
fn barriers_count_arrivals() {
    // All 64 arrive; then everybody sees what everybody wrote, twice, by state and by parity.
    let text = kernel(
        ".shared .align 8 .b64 bar;\n.shared .align 4 .b8 tile[256];",
        "mov.u32 %r1, tile;\nmov.u32 %r9, bar;\nmad.lo.u32 %r2, %me, 4, %r1;\n@%q0 mbarrier.init.shared.b64 [%r9], 64;\nbar.sync 0;\n\
         st.shared.u32 [%r2], %me;\nmbarrier.arrive.shared.b64 %d1, [%r9];\n\
         W:\nmbarrier.test_wait.shared.b64 %q1, [%r9], %d1;\n@!%q1 bra W;\n\
         xor.b32 %r3, %me, 63;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];\n\
         mbarrier.arrive.shared.b64 %d2, [%r9];\nV:\nmbarrier.try_wait.parity.shared.b64 %q1, [%r9], 1;\n@!%q1 bra V;\n\
         add.u32 %r4, %r4, 100;\nst.shared.u32 [%r2], %r4;\nmbarrier.arrive.shared.b64 _, [%r9];\n\
         U:\nmbarrier.try_wait.parity.shared.b64 %q1, [%r9], 0;\n@!%q1 bra U;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%mine], %r4;",
    );
    assert_eq!(run(&text, 64, &[words([0; 64])])[0], words((0..64).map(|i| 100 + i)));
}

#[test]
fn barriers_know_what_is_pending() {
    // One thread: counts before each arrival; a drop lowers the count of the next phase.
    let text = kernel(
        ".shared .align 8 .b64 bar;",
        "@!%q0 bra E;\nmov.u32 %r9, bar;\nmbarrier.init.shared.b64 [%r9], 5;\n\
         mbarrier.arrive.shared.b64 %d1, [%r9], 2;\nmbarrier.pending_count.b64 %r1, %d1;\nst.global.u32 [%p], %r1;\n\
         mbarrier.arrive.noComplete.shared.b64 %d2, [%r9], 1;\nmbarrier.pending_count.b64 %r1, %d2;\nst.global.u32 [%p+4], %r1;\n\
         mbarrier.arrive_drop.shared.b64 %d3, [%r9];\nmbarrier.pending_count.b64 %r1, %d3;\nst.global.u32 [%p+8], %r1;\n\
         mbarrier.test_wait.parity.shared.b64 %q1, [%r9], 0;\nselp.b32 %r1, 1, 0, %q1;\nst.global.u32 [%p+12], %r1;\n\
         mbarrier.arrive.shared.b64 %d4, [%r9];\n\
         mbarrier.test_wait.parity.shared.b64 %q1, [%r9], 0;\nselp.b32 %r1, 1, 0, %q1;\nst.global.u32 [%p+16], %r1;\n\
         mbarrier.test_wait.shared.b64 %q1, [%r9], %d4;\nselp.b32 %r1, 1, 0, %q1;\nst.global.u32 [%p+20], %r1;\n\
         mbarrier.arrive.shared.b64 %d5, [%r9];\nmbarrier.pending_count.b64 %r1, %d5;\nst.global.u32 [%p+24], %r1;\n\
         mbarrier.expect_tx.relaxed.cta.shared.b64 [%r9], 12;\nmbarrier.arrive.shared.b64 %d6, [%r9], 3;\n\
         mbarrier.test_wait.shared.b64 %q1, [%r9], %d6;\nselp.b32 %r1, 1, 0, %q1;\nst.global.u32 [%p+28], %r1;\n\
         mbarrier.complete_tx.relaxed.cta.shared.b64 [%r9], 12;\n\
         mbarrier.test_wait.shared.b64 %q1, [%r9], %d6;\nselp.b32 %r1, 1, 0, %q1;\nst.global.u32 [%p+32], %r1;\nmbarrier.inval.shared.b64 [%r9];\nE:\n",
    );
    // Pending 5, 3, 2; not ended before the last arrival, ended after; then 4 arrivals; bytes hold a phase open.
    let want = [5, 3, 2, 0, 1, 1, 4, 0, 1];
    let got = run(&text, 32, &[words([9; 16])]);
    assert_eq!(got[0][..36], words(want)[..]);
}

#[test]
fn copies_that_arrive() {
    for (noinc, count) in [("", 64), (".noinc", 128)] {
        let text = kernel(
            ".shared .align 8 .b64 bar;\n.shared .align 16 .b8 tile[256];",
            &format!(
                "mov.u32 %r1, tile;\nmov.u32 %r9, bar;\nmad.lo.u32 %r2, %me, 4, %r1;\n@%q0 mbarrier.init.shared.b64 [%r9], {count};\nbar.sync 0;\n\
                 cp.async.ca.shared.global [%r2], [%mine], 4;\ncp.async.mbarrier.arrive{noinc}.shared.b64 [%r9];\n\
                 mbarrier.arrive.shared.b64 %d1, [%r9];\nW:\nmbarrier.try_wait.shared.b64 %q1, [%r9], %d1;\n@!%q1 bra W;\n\
                 xor.b32 %r3, %me, 33;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%mine], %r4;"
            ),
        );
        assert_eq!(run(&text, 64, &[words(0..64)])[0], words((0..64).map(|i| i ^ 33)));
    }
}

#[test]
fn bulk_copies() {
    // In, doubled, out again; the second half of the buffer stays as it was but for what is copied to it.
    let text = kernel(
        ".shared .align 8 .b64 bar;\n.shared .align 16 .b8 tile[128];",
        "mov.u32 %r1, tile;\nmov.u32 %r9, bar;\nmad.lo.u32 %r2, %me, 4, %r1;\n@%q0 mbarrier.init.shared.b64 [%r9], 1;\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\n@!%q0 bra A;\n\
         mbarrier.arrive.expect_tx.shared.b64 %d1, [%r9], 128;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%p], 64, [%r9];\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+64], [%p+64], 64, [%r9];\nA:\n\
         W:\nmbarrier.try_wait.parity.shared.b64 %q1, [%r9], 0;\n@!%q1 bra W;\n\
         ld.shared.u32 %r3, [%r2];\nadd.u32 %r3, %r3, %r3;\nst.shared.u32 [%r2], %r3;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n\
         @%q0 cp.async.bulk.global.shared::cta.bulk_group [%p+128], [%r1], 128;\n\
         @%q0 cp.async.bulk.commit_group;\n@%q0 cp.async.bulk.wait_group 0;",
    );
    let want = words((0..32).chain((0..32).map(|i| 2 * i)));
    assert_eq!(run(&text, 32, &[words(0..64)])[0], want);
}

/// `wmma`: the fragments are opaque, so only memory is looked at. Matrices of small integers in every layout.
#[test]
fn products_through_memory() {
    let int = |n: i64| n as u32 as u64;
    let mut random = Random(9);
    type Row<'a> = (&'a str, Kind, &'a str, &'a str, [usize; 4], bool);
    // Shape, elements, sums, suffix of the product, registers of A, B, C, D; whether both layouts exist.
    let list: [Row<'_>; 14] = [
        ("m16n16k16", F16, "f32", ".f32.f32", [8, 8, 8, 8], true),
        ("m16n16k16", F16, "f16", ".f16.f16", [8, 8, 4, 4], true),
        ("m8n32k16", F16, "f32", ".f32.f32", [8, 8, 8, 8], true),
        ("m32n8k16", F16, "f32", ".f32.f32", [8, 8, 8, 8], true),
        ("m16n16k16", BF16, "f32", ".f32.bf16.bf16.f32", [4, 4, 8, 8], true),
        ("m8n32k16", BF16, "f32", ".f32.bf16.bf16.f32", [2, 8, 8, 8], true),
        ("m16n16k8", TF32, "f32", ".f32.tf32.tf32.f32", [4, 4, 8, 8], true),
        ("m8n8k4", F64, "f64", ".f64.f64.f64.f64", [1, 1, 2, 2], true),
        ("m16n16k16", S8, "s32", ".s32.s8.s8.s32", [2, 2, 8, 8], true),
        ("m32n8k16", U8, "s32", ".s32.u8.u8.s32", [4, 1, 8, 8], true),
        ("m8n32k16", S8, "s32", ".s32.s8.s8.s32", [1, 4, 8, 8], true),
        ("m8n8k32", S4, "s32", ".s32.s4.s4.s32", [1, 1, 2, 2], false),
        ("m8n8k32", U4, "s32", ".s32.u4.u4.s32", [1, 1, 2, 2], false),
        ("m8n8k128", B1, "s32", ".s32.b1.b1.s32", [1, 1, 2, 2], false),
    ];
    for (shape, kind, sum, suffix, regs, both) in list {
        let (m, rest) = shape[1..].split_once('n').unwrap();
        let (n, k) = rest.split_once('k').unwrap();
        let [m, n, k] = [m, n, k].map(|x| x.parse::<usize>().unwrap());
        let (bits, encode): (u32, &dyn Fn(i64) -> u64) = match sum {
            "f16" => (16, &|n| float(n, 5, 10)),
            "f32" => (32, &|n| float(n, 8, 23)),
            "f64" => (64, &|n| float(n, 11, 52)),
            _ => (32, &int),
        };
        for layouts in 0..if both { 4 } else { 1 } {
            let (a_col, b_col) = if both { (layouts & 1 != 0, layouts & 2 != 0) } else { (false, true) };
            let number = |r: &mut Random| kind.low + r.index((kind.high - kind.low + 1) as usize) as i64;
            let a: Vec<i64> = (0..m * k).map(|_| number(&mut random)).collect();
            let b: Vec<i64> = (0..k * n).map(|_| number(&mut random)).collect();
            let c: Vec<i64> = (0..m * n).map(|_| random.index(41) as i64 - 20).collect();
            let pack = |rows: usize, columns: usize, by_columns: bool, bits: u32, value: &dyn Fn(usize) -> u64| {
                let mut bytes = vec![0u8; (rows * columns * bits as usize).div_ceil(8)];
                for i in 0..rows * columns {
                    let (row, column) = if by_columns { (i % rows, i / rows) } else { (i / columns, i % columns) };
                    for bit in 0..bits as usize {
                        let at = i * bits as usize + bit;
                        bytes[at / 8] |= ((value(row * columns + column) >> bit & 1) as u8) << (at % 8);
                    }
                }
                bytes
            };
            let fa = pack(m, k, a_col, kind.bits, &|i| (kind.encode)(a[i]));
            let fb = pack(k, n, b_col, kind.bits, &|i| (kind.encode)(b[i]));
            let fc = pack(m, n, false, bits, &|i| encode(c[i]));
            let want = pack(m, n, true, bits, &|i| {
                let one = |x: usize| {
                    let (x, y) = (a[i / n * k + x], b[x * n + i % n]);
                    if kind.bits == 1 { x ^ y } else { x * y }
                };
                encode(c[i] + (0..k).map(one).sum::<i64>())
            });
            let layout = |by_columns: bool| if by_columns { "col" } else { "row" };
            let (la, lb) = (layout(a_col), layout(b_col));
            let wide = if kind.bits == 64 { "%d" } else { "%r" };
            let list = |first: usize, n: usize| {
                (first..first + n).map(|i| format!("{wide}{i}")).collect::<Vec<_>>().join(", ")
            };
            let (ra, rb) = (list(0, regs[0]), list(8, regs[1]));
            let (rc, rd) = (list(16, regs[2]), list(24, regs[3]));
            let t = kind.name;
            let op = if kind.bits == 1 { ".xor.popc" } else { "" };
            let text = format!(
                ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n\
                 .reg .b64 %p, %d<32>;\n.reg .b32 %r<32>;\nld.param.u64 %p, [p0];\n\
                 wmma.load.a.sync.aligned.{la}.{shape}.global.{t} {{{ra}}}, [%p];\nld.param.u64 %p, [p1];\n\
                 wmma.load.b.sync.aligned.{lb}.{shape}.global.{t} {{{rb}}}, [%p], {};\nld.param.u64 %p, [p2];\n\
                 wmma.load.c.sync.aligned.row.{shape}.global.{sum} {{{rc}}}, [%p], {n};\n\
                 wmma.mma{op}.sync.aligned.{la}.{lb}.{shape}{suffix} {{{rd}}}, {{{ra}}}, {{{rb}}}, {{{rc}}};\n\
                 wmma.store.d.sync.aligned.col.{shape}.global.{sum} [%p], {{{rd}}}, {m};\nret;\n}}\n",
                if b_col { k } else { n }
            );
            assert_eq!(run(&text, 32, &[fa, fb, fc])[2], want, "{text}");
        }
    }
}

#[test]
fn vectors_of_atomics() {
    // Each of two threads adds (1, 2, 3, 4); one takes the old value.
    let text = kernel(
        "",
        "mov.b32 %r1, 0f3F800000;\nmov.b32 %r2, 0f40000000;\nmov.b32 %r3, 0f40400000;\nmov.b32 %r4, 0f40800000;\n\
         red.global.add.v4.f32 [%p], {%r1, %r2, %r3, %r4};\n@!%q0 bra E;\n\
         atom.global.add.v2.f32 {%r5, %r6}, [%p], {%r1, %r1};\nst.global.v2.u32 [%p+16], {%r5, %r6};\n\
         mov.b32 %r7, 0x3c004400;\natom.global.max.noftz.v2.f16x2 {%r8, %r9}, [%p+24], {%r7, %r7};\nE:\n",
    );
    let f = |x: f32| x.to_bits();
    // f16 pairs: 1 and 4 against 2 and 2.
    let from = words([f(10.0), 0, 0, 0, 0, 0, 0x4000_4000, 0]);
    let want = words([f(13.0), f(5.0), f(6.0), f(8.0), f(12.0), f(4.0), 0x4000_4400, 0x3c00_4400]);
    assert_eq!(run(&text, 2, &[from])[0], want);
}

#[test]
fn stack_memory() {
    // Memory that is allocated twice in the same place, behind what is kept.
    let text = kernel(
        "",
        "alloca.u64 %d1, 16;\nst.local.u32 [%d1+12], %me;\nstacksave.u64 %d2;\nalloca.u64 %d3, 100, 64;\nst.local.u32 [%d3+96], 7;\n\
         and.b64 %d5, %d3, 63;\nstackrestore.u64 %d2;\nalloca.u64 %d4, 128, 64;\nsub.u64 %d6, %d4, %d3;\nadd.u64 %d6, %d6, %d5;\n\
         cvt.u32.u64 %r1, %d6;\nld.local.u32 %r2, [%d1+12];\nld.local.u32 %r3, [%d4+96];\nadd.u32 %r1, %r1, %r2;\nadd.u32 %r1, %r1, %r3;\n\
         st.global.u32 [%mine], %r1;",
    );
    assert_eq!(run(&text, 32, &[words([0; 32])])[0], words((0..32).map(|i| i + 7)));
}

#[test]
fn a_dropping_arrival_may_expect_bytes() {
    // Two arrivals, one of which drops out and expects 8 bytes: the phase ends with the bytes; the next waits for one.
    let text = kernel(
        ".shared .align 8 .b64 bar;",
        "@!%q0 bra E;\nmov.u32 %r9, bar;\nmbarrier.init.shared.b64 [%r9], 2;\n\
         mbarrier.arrive_drop.expect_tx.shared.b64 %d1, [%r9], 8;\nmbarrier.arrive.shared.b64 %d2, [%r9];\n\
         mbarrier.test_wait.shared.b64 %q1, [%r9], %d2;\nselp.b32 %r1, 1, 0, %q1;\nst.global.u32 [%p], %r1;\n\
         mbarrier.complete_tx.relaxed.cta.shared.b64 [%r9], 8;\n\
         mbarrier.test_wait.shared.b64 %q1, [%r9], %d2;\nselp.b32 %r1, 1, 0, %q1;\nst.global.u32 [%p+4], %r1;\n\
         mbarrier.arrive.shared.b64 %d3, [%r9];\nmbarrier.pending_count.b64 %r1, %d3;\nst.global.u32 [%p+8], %r1;\n\
         mbarrier.test_wait.shared.b64 %q1, [%r9], %d3;\nselp.b32 %r1, 1, 0, %q1;\nst.global.u32 [%p+12], %r1;\nE:\n",
    );
    assert_eq!(run(&text, 32, &[words([9; 16])])[0][..16], words([0, 1, 1, 1])[..]);
}
