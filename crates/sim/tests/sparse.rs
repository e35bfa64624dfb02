//! Sparse matrix products of a warp, and those of quads (`m8n8k4`), in the PTX interpreter. Expected values: matrices of small
//! integers, multiplied in integers, whose elements are laid out by the formulas of sections 9.7.14.5.1 and 9.7.14.6.2 of the
//! PTX ISA.

#![allow(clippy::needless_range_loop)] // lanes index several arrays

mod common;

use common::float;
use sim::{Arg, Config, FaultKind, Launch};
use testkit::Random;

fn encode(kind: &str, n: i64) -> u64 {
    match kind {
        "f16" => float(n, 5, 10),
        "bf16" => float(n, 8, 7),
        "tf32" | "f32" => float(n, 8, 23),
        "e4m3" => float(n, 4, 3),
        "e5m2" => float(n, 5, 2),
        "s4" | "u4" => n as u64 & 15,
        "s8" | "u8" => n as u64 & 255,
        _ => n as u32 as u64,
    }
}

fn bits(kind: &str) -> usize {
    match kind {
        "f16" | "bf16" => 16,
        "e4m3" | "e5m2" | "s8" | "u8" => 8,
        "s4" | "u4" => 4,
        _ => 32,
    }
}

fn range(kind: &str) -> (i64, i64) {
    match kind {
        "s4" => (-8, 7),
        "u4" => (0, 15),
        "s8" => (-128, 127),
        "u8" => (0, 255),
        _ => (-4, 4),
    }
}

/// Runs `body` with 32 registers of each thread in and `out` registers out.
fn run(body: &str, input: &[[u32; 32]], out: usize) -> Result<Vec<[u32; 32]>, Box<sim::Fault>> {
    let loads: String = (0..input.len()).map(|i| format!("ld.global.b32 %r{i}, [%p+{}];\n", 128 * i)).collect();
    let stores: String = (0..out).map(|i| format!("st.global.b32 [%q+{}], %d{i};\n", 128 * i)).collect();
    let text = format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n\
         .reg .b64 %p, %q;\n.reg .b32 %lane, %r<64>, %d<8>;\nld.param.u64 %p, [in];\nld.param.u64 %q, [out];\nmov.u32 %lane, %laneid;\n\
         mad.wide.u32 %p, %lane, 4, %p;\nmad.wide.u32 %q, %lane, 4, %q;\n{loads}{body}\n{stores}ret;\n}}\n"
    );
    let (module, mut messages) = ptx::parse(&text);
    messages.extend(ptx::check(&module, None));
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}\n{text}");
    let data = input.iter().flatten().flat_map(|w| w.to_le_bytes()).collect();
    let args = vec![Arg::Buffer { data, out: None }, Arg::Buffer { data: vec![0; 128 * out], out: None }];
    let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [32, 1, 1], args, ..Launch::default() };
    let done = sim::run_ptx(&module, &launch, &Config::default())?;
    common::witness(&text, &launch, &done.buffers);
    let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    let words: Vec<u32> = done.buffers[1].chunks_exact(4).map(word).collect();
    Ok(words.chunks_exact(32).map(|c| c.try_into().unwrap()).collect())
}

fn list(reg: &str, first: usize, n: usize) -> String {
    (first..first + n).map(|i| format!("{reg}{i}")).collect::<Vec<_>>().join(", ")
}

struct Case {
    k: usize,
    a: &'static str,
    b: &'static str,
    sum: &'static str,
    selector: usize,
    ordered: bool,
    more: &'static str,
}

fn check(c: &Case, random: &mut Random) {
    let (k, width) = (c.k, bits(c.a));
    let each = 32 / width;
    let mut number = |kind: &str| {
        let (low, high) = range(kind);
        low + random.index((high - low + 1) as usize) as i64
    };
    let mut a: Vec<i64> = (0..16 * k).map(|_| number(c.a)).collect();
    let b: Vec<i64> = (0..8 * k).map(|_| number(c.b)).collect();
    let start: Vec<i64> = (0..128).map(|_| number("f16")).collect();
    // Chunks of 4 elements, of 2 words, of 8 nibbles in pairs; four bits each.
    let (chunk, unit) = match width {
        32 => (2, 1),
        4 => (8, 2),
        _ => (4, 1),
    };
    let mut regs = vec![[0u32; 32]; 20];
    const META: usize = 16;
    let mut stored = Vec::new();
    for row in 0..16 {
        for x in 0..k / chunk {
            let (keep, bits): (Vec<usize>, u32) = if chunk == 2 {
                let one = random.index(2);
                (vec![one], [0b0100, 0b1110][one])
            } else {
                let one = random.index(4);
                let two = (one + 1 + random.index(3)) % 4;
                let (one, two) = if c.ordered { (one.min(two), one.max(two)) } else { (one, two) };
                (vec![one, two], (two << 2 | one) as u32)
            };
            let base = row * k + x * chunk;
            for &p in &keep {
                (0..unit).for_each(|i| stored.push(a[base + p * unit + i]));
            }
            (0..chunk).filter(|j| !keep.contains(&(j / unit))).for_each(|j| a[base + j] = 0);
            let (g, high) = (row % 8, row / 8);
            let row_bits = k / chunk * 4;
            let (lane, shift) = match (width > 8, row_bits) {
                (_, 16) => (c.selector, x * 4 + 16 * high),
                (true, _) => (2 * c.selector + x / 4, x % 4 * 4 + 16 * high),
                (false, 32) => (2 * c.selector + high, x * 4),
                (false, _) => (x / 8 * 2 + high, x % 8 * 4),
            };
            regs[META][4 * g + lane] |= bits << shift;
        }
    }
    let (na, nb) = (16 * k / 2 / 32 / each, 8 * k / 32 / each);
    // A: row = groupID or groupID + 8 by the register's lowest bit; a thread's chunks begin at threadID_in_group, further by four
    // threads for the next two registers.
    for lane in 0..32 {
        for r in 0..na {
            for j in 0..each {
                let row = lane / 4 + r % 2 * 8;
                let col = r / 2 * 4 * each + lane % 4 * each + j;
                regs[r][lane] |= (encode(c.a, stored[row * k / 2 + col]) << (j * width)) as u32;
            }
        }
        for r in 0..nb {
            for j in 0..each {
                let row = r * 4 * each + lane % 4 * each + j;
                regs[4 + r][lane] |= (encode(c.b, b[lane / 4 * k + row]) << (j * width)) as u32;
            }
        }
    }
    let half = c.sum == "f16";
    let nc = if half { 2 } else { 4 };
    let sums = |value: &dyn Fn(usize, usize) -> i64| -> Vec<[u32; 32]> {
        let mut out = vec![[0u32; 32]; nc];
        for lane in 0..32 {
            for i in 0..4 {
                let v = encode(c.sum, value(lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2)) as u32;
                if half { out[i / 2][lane] |= v << (16 * (i % 2)) } else { out[i][lane] = v }
            }
        }
        out
    };
    regs.splice(8..8 + nc, sums(&|row, col| start[row * 8 + col]));
    let sp = if c.ordered { "sp::ordered_metadata" } else { "sp" };
    let body = format!(
        "mma.{sp}.sync.aligned.m16n8k{k}.row.col{}.{}.{}.{}.{} {{{}}}, {{{}}}, {{{}}}, {{{}}}, %r{META}, {};",
        c.more,
        c.sum,
        c.a,
        c.b,
        c.sum,
        list("%d", 0, nc),
        list("%r", 0, na),
        list("%r", 4, nb),
        list("%r", 8, nc),
        c.selector
    );
    let got = run(&body, &regs, nc).unwrap_or_else(|f| panic!("{f}\n{body}"));
    let want = sums(&|row, col| start[row * 8 + col] + (0..k).map(|x| a[row * k + x] * b[col * k + x]).sum::<i64>());
    assert_eq!(got, want, "{body}");
}

#[test]
fn sparse_products() {
    let random = &mut Random(7);
    for ordered in [false, true] {
        for (k, a, b, sum, selectors, more) in [
            (16, "f16", "f16", "f16", 4, ""),
            (16, "f16", "f16", "f32", 4, ""),
            (16, "bf16", "bf16", "f32", 4, ""),
            (32, "f16", "f16", "f16", 2, ""),
            (32, "f16", "f16", "f32", 2, ""),
            (32, "bf16", "bf16", "f32", 2, ""),
            (8, "tf32", "tf32", "f32", 4, ""),
            (16, "tf32", "tf32", "f32", 2, ""),
            (64, "e4m3", "e5m2", "f32", 1, ""),
            (32, "s8", "u8", "s32", 2, ""),
            (64, "u8", "s8", "s32", 1, ""),
            (64, "s8", "s8", "s32", 1, ".satfinite"),
            (64, "s4", "u4", "s32", 2, ""),
            (128, "u4", "s4", "s32", 1, ""),
        ] {
            for selector in 0..selectors {
                check(&Case { k, a, b, sum, selector, ordered, more }, random);
            }
        }
    }
}

#[test]
fn metadata_that_means_nothing() {
    let mut regs = vec![[0u32; 32]; 20];
    let body = |sp: &str| {
        format!(
            "mma.{sp}.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {{%d0, %d1}}, {{%r0, %r1}}, {{%r4, %r5}}, {{%r8, %r9}}, %r16, 0;"
        )
    };
    let fault = run(&body("sp"), &regs, 2).unwrap_err();
    assert!(fault.kind == FaultKind::BarrierMisuse && fault.message.contains("names one element twice"), "{fault}");
    regs[16] = [0x1111_1111; 32];
    assert!(run(&body("sp"), &regs, 2).is_ok());
    let fault = run(&body("sp::ordered_metadata"), &regs, 2).unwrap_err();
    assert!(fault.message.contains("not in ascending order"), "{fault}");
}

/// `m8n8k4`: a product in each pair of quads, with every order of A and B and every type of sums.
#[test]
fn products_of_quads() {
    let random = &mut Random(8);
    for (la, lb) in [("row", "col"), ("row", "row"), ("col", "row"), ("col", "col")] {
        for (td, tc) in [("f16", "f16"), ("f32", "f16"), ("f32", "f32")] {
            let mut numbers = |n: usize| (0..n).map(|_| random.index(9) as i64 - 4).collect::<Vec<i64>>();
            // By pair of quads: 8 x 4, 4 x 8, 8 x 8.
            let (a, b, c) = (numbers(128), numbers(128), numbers(256));
            let mut regs = vec![[0u32; 32]; 24];
            let nc = if tc == "f16" { 4 } else { 8 };
            let sums = |kind: &str, value: &dyn Fn(usize, usize, usize) -> i64| -> Vec<[u32; 32]> {
                let mut out = vec![[0u32; 32]; if kind == "f16" { 4 } else { 8 }];
                for lane in 0..32 {
                    let (q, high) = (lane % 16 / 4, lane / 16 * 4);
                    for i in 0..8 {
                        // f16: row = laneid % 4 (+ 4), col = i; f32: row = (laneid & 1) + (i & 2) (+ 4),
                        // col = (i & 4) + (laneid & 2) + (i & 1).
                        if kind == "f16" {
                            let v = encode(kind, value(q, lane % 4 + high, i)) as u32;
                            out[i / 2][lane] |= v << (16 * (i % 2));
                        } else {
                            let (row, col) = ((lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1));
                            out[i][lane] = encode(kind, value(q, row, col)) as u32;
                        }
                    }
                }
                out
            };
            for lane in 0..32 {
                let (q, high) = (lane % 16 / 4, lane / 16 * 4);
                for i in 0..4 {
                    let (row, col) = if la == "row" { (lane % 4 + high, i) } else { (i + high, lane % 4) };
                    regs[i / 2][lane] |= (encode("f16", a[q * 32 + row * 4 + col]) << (16 * (i % 2))) as u32;
                    let (row, col) = if lb == "row" { (lane % 4, i + high) } else { (i, lane % 4 + high) };
                    regs[4 + i / 2][lane] |= (encode("f16", b[q * 32 + row * 8 + col]) << (16 * (i % 2))) as u32;
                }
            }
            regs.splice(8..8 + nc, sums(tc, &|q, row, col| c[q * 64 + row * 8 + col]));
            let nd = if td == "f16" { 4 } else { 8 };
            let body = format!(
                "mma.sync.aligned.m8n8k4.{la}.{lb}.{td}.f16.f16.{tc} {{{}}}, {{%r0, %r1}}, {{%r4, %r5}}, {{{}}};",
                list("%d", 0, nd),
                list("%r", 8, nc)
            );
            let got = run(&body, &regs, nd).unwrap_or_else(|f| panic!("{f}\n{body}"));
            let product = |q: usize, row: usize, col: usize| -> i64 {
                (0..4).map(|x| a[q * 32 + row * 4 + x] * b[q * 32 + x * 8 + col]).sum()
            };
            let want = sums(td, &|q, row, col| c[q * 64 + row * 8 + col] + product(q, row, col));
            assert_eq!(got, want, "{body}");
        }
    }
}
