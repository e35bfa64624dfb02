//! Matrix products of a warpgroup in the PTX interpreter. Expected values: matrices of small integers, multiplied in integers.
//! Matrices are put into shared memory element by element, by the strides and permutations that section 9.7.15.5.1 of the PTX ISA
//! gives for its canonical layouts; fragments are laid out by its formulas for registers.

mod common;

use common::float;
use sim::{Arg, Config, FaultKind, Launch};
use testkit::Random;

/// An element type: name in PTX, bits, range, and its bits.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    bits: usize,
    low: i64,
    high: i64,
    encode: fn(i64) -> u64,
}

const F16: Kind = Kind { name: "f16", bits: 16, low: -4, high: 4, encode: |n| float(n, 5, 10) };
const BF16: Kind = Kind { name: "bf16", bits: 16, low: -8, high: 8, encode: |n| float(n, 8, 7) };
const TF32: Kind = Kind { name: "tf32", bits: 32, low: -8, high: 8, encode: |n| float(n, 8, 23) };
const E4M3: Kind = Kind { name: "e4m3", bits: 8, low: -4, high: 4, encode: |n| float(n, 4, 3) };
const E5M2: Kind = Kind { name: "e5m2", bits: 8, low: -4, high: 4, encode: |n| float(n, 5, 2) };
const S8: Kind = Kind { name: "s8", bits: 8, low: -128, high: 127, encode: |n| n as u8 as u64 };
const U8: Kind = Kind { name: "u8", bits: 8, low: 0, high: 255, encode: |n| n as u64 };
const B1: Kind = Kind { name: "b1", bits: 1, low: 0, high: 1, encode: |n| n as u64 };

/// How a matrix lies: width of the swizzle (0 without), and whether along its rows (columns of B) instead of along k.
#[derive(Clone, Copy)]
struct Layout {
    swizzle: usize,
    by_rows: bool,
}

const PLAIN: Layout = Layout { swizzle: 0, by_rows: false };

struct Case {
    n: usize,
    a: Kind,
    b: Kind,
    d: &'static str,
    layouts: [Layout; 2],
    /// A comes from registers.
    held: bool,
    /// D is added; A, B are negated.
    add: bool,
    negate: [bool; 2],
    sparse: Option<u32>,
    more: &'static str,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            n: 16,
            a: F16,
            b: F16,
            d: "f32",
            layouts: [PLAIN; 2],
            held: false,
            add: true,
            negate: [false; 2],
            sparse: None,
            more: "",
        }
    }
}

/// Puts a matrix of `rows` x `k` bit patterns into shared memory at `base`, and gives its descriptor.
///
/// Offsets are chosen with gaps, so that none may be confused with another.
fn place(
    memory: &mut [u8],
    base: usize,
    l: Layout,
    bits: usize,
    rows: usize,
    k: usize,
    get: &dyn Fn(usize, usize) -> u64,
) -> u64 {
    // Elements of 16 bytes along the leading side.
    let each = 128 / bits;
    let w = l.swizzle / 16;
    let lines = if l.by_rows { k } else { rows };
    let along = if l.by_rows { rows } else { k } / each;
    // Leading and stride offset in bytes.
    let (leading, stride) = match (w, l.by_rows) {
        // 8 lines of 16 bytes are a core matrix; L is along k, S along the rows.
        (0, false) => (128 * lines.div_ceil(8) + 128, 128),
        (0, true) => (128, 128 * lines.div_ceil(8) + 128),
        (w, _) => (128 * w * lines.div_ceil(8) / 8 * 8 + 1024, 128 * w),
    };
    for line in 0..lines {
        for x in 0..along {
            let linear = match (w, l.by_rows) {
                (0, false) => line % 8 * 16 + line / 8 * stride + x * leading,
                (0, true) => line % 8 * 16 + line / 8 * leading + x * stride,
                (w, _) => line % 8 * (16 * w) + line / 8 * stride + x % w * 16 + x / w * leading,
            };
            // Piece p of 16 bytes in line n of 128 bytes goes to p xor n, in as many bits as the swizzle has pieces.
            let at = base + linear;
            let (n, p) = (at / 128, at / 16 % 8);
            let p = if w > 1 { p ^ (n % w) } else { p };
            let at = n * 128 + p * 16;
            for j in 0..each {
                let (row, col) = if l.by_rows { (x * each + j, line) } else { (line, x * each + j) };
                let bit = j * bits;
                let value = get(row, col);
                for (i, byte) in memory[at + bit / 8..].iter_mut().take(bits.div_ceil(8)).enumerate() {
                    *byte |= ((value >> (8 * i)) << (bit % 8)) as u8;
                }
            }
        }
    }
    let mode = [0u64, 0, 3, 0, 2, 0, 0, 0, 1][w];
    let field = |x: usize| (x >> 4) as u64;
    // The window of the CTA begins 1024 bytes behind address 0.
    field(base + 1024) | field(leading) << 16 | field(stride) << 32 | mode << 62
}

const SHARED: usize = 96 * 1024;
const MATRIX_B: usize = 48 * 1024;

fn run(text: &str, args: Vec<Arg>) -> Result<Vec<Vec<u8>>, Box<sim::Fault>> {
    let (module, mut messages) = ptx::parse(text);
    messages.extend(ptx::check(&module, None));
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}\n{text}");
    let shared = SHARED as u32;
    let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [128, 1, 1], shared, args, ..Launch::default() };
    let config = Config { max_instructions: 1_000_000, ..Config::default() };
    let done = sim::run_ptx(&module, &launch, &config)?.buffers;
    common::witness(text, &launch, &done);
    Ok(done)
}

fn list(reg: &str, n: usize) -> String {
    (0..n).map(|i| format!("{reg}{i}")).collect::<Vec<_>>().join(", ")
}

/// A kernel that fills shared memory, executes `body` and stores `nd` registers of each thread.
fn kernel(nd: usize, body: &str) -> String {
    let each = |op: &dyn Fn(usize) -> String| (0..nd).map(op).collect::<String>();
    let loads = each(&|i| format!("ld.global.b32 %d{i}, [%pd+{}];\n", 4 * i));
    let stores = each(&|i| format!("st.global.b32 [%pd+{}], %d{i};\n", 4 * i));
    format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 s[];\n\
         .visible .entry k(.param .u64 pm, .param .u64 pa, .param .u64 pd, .param .u64 px, .param .u64 da, .param .u64 db)\n{{\n\
         .reg .b64 %pm, %pa, %pd, %px, %da, %db, %t;\n.reg .b32 %i, %me, %v, %at, %a<4>, %d<130>, %meta;\n.reg .pred %p, %q;\n\
         ld.param.u64 %pm, [pm];\nld.param.u64 %pa, [pa];\nld.param.u64 %pd, [pd];\nld.param.u64 %px, [px];\nld.param.u64 %da, [da];\nld.param.u64 %db, [db];\n\
         mov.u32 %me, %tid.x;\nmul.lo.u32 %i, %me, 4;\nmov.u32 %at, s;\nadd.u32 %at, %at, %i;\ncvt.u64.u32 %t, %i;\nadd.u64 %pm, %pm, %t;\n\
         LOOP:\nld.global.b32 %v, [%pm];\nst.shared.b32 [%at], %v;\nadd.u64 %pm, %pm, 512;\nadd.u32 %at, %at, 512;\nadd.u32 %i, %i, 512;\n\
         setp.lt.u32 %p, %i, {SHARED};\n@%p bra LOOP;\n\
         mad.wide.u32 %pa, %me, 16, %pa;\nld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%pa];\nmad.wide.u32 %px, %me, 4, %px;\nld.global.b32 %meta, [%px];\n\
         mad.wide.u32 %pd, %me, {}, %pd;\n{loads}\
         setp.eq.u32 %p, 0, 0;\nsetp.ne.u32 %q, 0, 0;\n\
         fence.proxy.async;\nbar.sync 0;\n{body}\n{stores}ret;\n}}\n",
        4 * nd
    )
}

fn check(c: &Case, random: &mut Random) {
    let whole = 256 / c.a.bits * if c.sparse.is_some() { 2 } else { 1 };
    let (m, n, k) = (64, c.n, whole);
    let number = |r: &mut Random, kind: Kind| kind.low + r.index((kind.high - kind.low + 1) as usize) as i64;
    let mut a: Vec<i64> = (0..m * k).map(|_| number(random, c.a)).collect();
    let b: Vec<i64> = (0..n * k).map(|_| number(random, c.b)).collect();
    let start: Vec<i64> = (0..m * n).map(|_| random.index(41) as i64 - 20).collect();
    // A sparse A: which elements stay, by chunk, and four bits of metadata for it.
    let mut stored = a.clone();
    let mut meta = vec![0u32; 128];
    if let Some(selector) = c.sparse {
        stored.clear();
        for row in 0..m {
            let chunk = if c.a.bits == 32 { 2 } else { 4 };
            for x in 0..k / chunk {
                let (keep, bits): (Vec<usize>, u32) = if chunk == 2 {
                    let one = random.index(2);
                    (vec![one], [0b0100, 0b1110][one])
                } else {
                    let one = random.index(3);
                    let two = one + 1 + random.index(3 - one);
                    (vec![one, two], (two << 2 | one) as u32)
                };
                for j in 0..chunk {
                    let at = row * k + x * chunk + j;
                    if keep.contains(&j) { stored.push(a[at]) } else { a[at] = 0 }
                }
                // Of 32 bits a row two lanes have rows g and g + 8: by halves of the columns for 16 and 32 bits, of 64 bits
                // four lanes, the first two for the first half of the columns, rows g and g + 8 in turn.
                let (warp, g, high) = (row / 16, row % 8, row % 16 / 8);
                let (lane, shift) = if c.a.bits == 8 {
                    (x / 8 * 2 + high, x % 8 * 4)
                } else {
                    (2 * selector as usize + x / 4, x % 4 * 4 + 16 * high)
                };
                meta[32 * warp + 4 * g + lane] |= bits << shift;
            }
        }
    }
    let held_k = stored.len() / m;
    let mut memory = vec![0u8; SHARED];
    let da =
        place(&mut memory, 0, c.layouts[0], c.a.bits, m, held_k, &|row, col| (c.a.encode)(stored[row * held_k + col]));
    let db = place(&mut memory, MATRIX_B, c.layouts[1], c.b.bits, n, k, &|row, col| (c.b.encode)(b[row * k + col]));
    // Fragments of A: register r of a lane has row g or g + 8 by its lowest bit, the first or second 16 bytes of a row by the
    // next; a lane has 4 bytes of them.
    let mut fa = vec![0u8; 128 * 16];
    for thread in 0..128 {
        for r in 0..4 {
            let row = thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8;
            for j in 0..32 / c.a.bits {
                let col = (r / 2 * 128 + thread % 4 * 32) / c.a.bits + j;
                let value = (c.a.encode)(stored[row * held_k + col]) << (j * c.a.bits);
                for i in 0..4 {
                    fa[thread * 16 + r * 4 + i] |= (value >> (8 * i)) as u8;
                }
            }
        }
    }
    // D: row = warp * 16 + lane / 4 + 8 * ((i / 2) % 2), column = i / 4 * 8 + lane % 4 * 2 + i % 2.
    let place_d = |thread: usize, i: usize| {
        (thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8) * n + i / 4 * 8 + thread % 4 * 2 + i % 2
    };
    let sign = |x: bool| if x { -1 } else { 1 };
    let product = |at: usize| -> i64 {
        let (row, col) = (at / n, at % n);
        let sum: i64 = (0..k).map(|x| a[row * k + x] * b[col * k + x]).sum();
        sum * sign(c.negate[0]) * sign(c.negate[1]) + if c.add { start[at] } else { 0 }
    };
    let pack = |value: &dyn Fn(usize) -> i64| -> Vec<u8> {
        let mut out = Vec::new();
        for thread in 0..128 {
            for i in 0..n / 2 {
                let v = value(place_d(thread, i));
                match c.d {
                    "f16" => out.extend_from_slice(&(float(v, 5, 10) as u16).to_le_bytes()),
                    "f32" => out.extend_from_slice(&(float(v, 8, 23) as u32).to_le_bytes()),
                    _ => out.extend_from_slice(&(v as i32).to_le_bytes()),
                }
            }
        }
        out
    };
    let nd = n / if c.d == "f16" { 4 } else { 2 };
    let from = if c.held { "{%a0, %a1, %a2, %a3}" } else { "%da" };
    let scale = if c.add { "%p" } else { "%q" };
    let mut tail = String::new();
    if c.d != "s32" {
        tail += &format!(", {}, {}", sign(c.negate[0]), sign(c.negate[1]));
        if c.a.bits == 16 {
            if !c.held {
                tail += &format!(", {}", c.layouts[0].by_rows as u8);
            }
            tail += &format!(", {}", c.layouts[1].by_rows as u8);
        }
    }
    let (sp, metadata) = match c.sparse {
        Some(s) => (".sp", format!("%meta, {s}, ")),
        None => ("", String::new()),
    };
    let body = format!(
        "wgmma.fence.sync.aligned;\nwgmma.mma_async{sp}.sync.aligned.m64n{n}k{k}.{}.{}.{}{} {{{}}}, {from}, %db, {metadata}{scale}{tail};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
        c.d,
        c.a.name,
        c.b.name,
        c.more,
        list("%d", nd)
    );
    let text = kernel(nd, &body);
    let buffer = |data: Vec<u8>| Arg::Buffer { data, out: None };
    let words = |v: &[u32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let value = |x: u64| Arg::Value(x.to_le_bytes().to_vec());
    let args =
        vec![buffer(memory), buffer(fa), buffer(pack(&|at| start[at])), buffer(words(&meta)), value(da), value(db)];
    let got = run(&text, args).unwrap_or_else(|f| panic!("{f}\n{text}"));
    let want = pack(&product);
    let at = got[2].iter().zip(&want).position(|(x, y)| x != y);
    assert!(at.is_none(), "{body}: byte {at:?}");
}

fn layouts(by_rows: bool) -> [Layout; 4] {
    [0, 32, 64, 128].map(|swizzle| Layout { swizzle, by_rows })
}

#[test]
fn every_type() {
    let random = &mut Random(3);
    for held in [false, true] {
        for (a, b, d) in [
            (F16, F16, "f32"),
            (F16, F16, "f16"),
            (BF16, BF16, "f32"),
            (TF32, TF32, "f32"),
            (E4M3, E5M2, "f32"),
            (E5M2, E4M3, "f16"),
            (E4M3, E4M3, "f16"),
            (S8, U8, "s32"),
            (U8, S8, "s32"),
            (S8, S8, "s32"),
            (U8, U8, "s32"),
        ] {
            check(&Case { a, b, d, held, ..Case::default() }, random);
        }
        check(&Case { a: B1, b: B1, d: "s32", more: ".and.popc", held, ..Case::default() }, random);
        check(&Case { a: S8, b: S8, d: "s32", more: ".satfinite", held, n: 32, ..Case::default() }, random);
    }
}

#[test]
fn every_width() {
    let random = &mut Random(4);
    for n in (8..=256).step_by(8) {
        let add = n % 16 != 0;
        check(&Case { n, add, negate: [n % 32 == 0, n % 24 == 0], held: n % 40 == 0, ..Case::default() }, random);
    }
}

#[test]
fn every_layout() {
    let random = &mut Random(5);
    for l in layouts(false) {
        for a in [F16, TF32, S8] {
            let d = if a.bits == 8 { "s32" } else { "f32" };
            check(&Case { a, b: a, d, n: 48, layouts: [l; 2], ..Case::default() }, random);
        }
    }
    for l in layouts(true) {
        check(&Case { n: 64, layouts: [l, PLAIN], ..Case::default() }, random);
        check(&Case { n: 128, layouts: [PLAIN, l], a: BF16, b: BF16, ..Case::default() }, random);
        check(&Case { n: 192, layouts: [l; 2], d: "f16", ..Case::default() }, random);
    }
}

#[test]
fn sparse_matrices() {
    let random = &mut Random(6);
    for held in [false, true] {
        for (a, d, selectors) in
            [(F16, "f32", 2), (BF16, "f32", 2), (F16, "f16", 2), (TF32, "f32", 2), (S8, "s32", 1), (E4M3, "f32", 1)]
        {
            for selector in 0..selectors {
                for swizzle in [0, 64, 128] {
                    let l = Layout { swizzle, by_rows: false };
                    let sparse = Some(selector);
                    check(&Case { a, b: a, d, layouts: [PLAIN, l], held, sparse, n: 32, ..Case::default() }, random);
                }
            }
        }
    }
}

fn misuse(body: &str) -> Box<sim::Fault> {
    let text = kernel(4, body);
    let value = |x: u64| Arg::Value(x.to_le_bytes().to_vec());
    let buffer = |n: usize| Arg::Buffer { data: vec![0; n], out: None };
    // A core matrix every 128 bytes, both ways.
    let d = 0x40 | 0x80 << 16 | 0x8 << 32;
    let args = vec![buffer(SHARED), buffer(2048), buffer(2048), buffer(512), value(d), value(d)];
    run(&text, args).err().unwrap_or_else(|| panic!("no fault: {body}"))
}

#[test]
fn misuse_is_caught() {
    const MMA: &str =
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %da, %db, %p, 1, 1, 0, 0;\n";
    const HELD: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, %db, %p, 1, 1, 0;\n";
    const FENCE: &str = "wgmma.fence.sync.aligned;\n";
    const COMMIT: &str = "wgmma.commit_group.sync.aligned;\n";
    const WAIT: &str = "wgmma.wait_group.sync.aligned 0;\n";
    for (body, message) in [
        // No wait at all: the store reads.
        (format!("{FENCE}{MMA}{COMMIT}"), "is read before wgmma.wait_group"),
        (format!("{FENCE}{MMA}{COMMIT}mov.b32 %v, %d2;\n{WAIT}"), "is read before wgmma.wait_group"),
        (format!("{FENCE}{MMA}{COMMIT}wgmma.wait_group.sync.aligned 1;\n"), "is read before wgmma.wait_group"),
        // A group that was not committed is not waited for.
        (format!("{FENCE}{MMA}{WAIT}"), "is read before wgmma.wait_group"),
        (format!("{FENCE}{MMA}{COMMIT}mov.b32 %d1, 0;\n{WAIT}"), "is written before wgmma.wait_group"),
        (format!("{FENCE}{HELD}{COMMIT}add.u32 %a3, %v, 1;\n{WAIT}"), "is written before wgmma.wait_group"),
        (MMA.to_string(), "before the first wgmma.fence"),
        (format!("{FENCE}mov.b32 %d0, 0;\n{MMA}{COMMIT}{WAIT}"), "was written after the last wgmma.fence"),
        (format!("{FENCE}mov.b32 %a0, 0;\n{HELD}{COMMIT}{WAIT}"), "was written after the last wgmma.fence"),
        // Shared memory that the product still reads.
        (format!("{FENCE}{MMA}{COMMIT}bar.sync 0;\nst.shared.b32 [s], %me;\n{WAIT}"), "shared memory"),
        // Written without a fence for the asynchronous proxy.
        (format!("st.shared.b32 [s], 0;\n{FENCE}bar.sync 0;\n{MMA}{COMMIT}{WAIT}"), "without fence.proxy.async"),
        (format!("{FENCE}mov.b64 %da, -1;\n{MMA}{COMMIT}{WAIT}"), "bits that belong to no field"),
        (format!("setp.lt.u32 %p, %me, 3;\n{FENCE}{MMA}{COMMIT}{WAIT}"), "do not agree"),
    ] {
        let fault = misuse(&body);
        assert!(fault.message.contains(message), "{body}: {fault}");
        assert!(matches!(fault.kind, FaultKind::BarrierMisuse | FaultKind::Race), "{body}: {fault}");
    }
}

/// Two products on the same registers need no fence between them, and one wait.
#[test]
fn products_accumulate() {
    let mma = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %da, %db, %p, 1, 1, 0, 0;\n";
    let body = format!(
        "wgmma.fence.sync.aligned;\n{mma}wgmma.commit_group.sync.aligned;\n{mma}wgmma.commit_group.sync.aligned;\n\
         wgmma.wait_group.sync.aligned 1;\nwgmma.wait_group.sync.aligned 0;"
    );
    let value = |x: u64| Arg::Value(x.to_le_bytes().to_vec());
    let buffer = |n: usize| Arg::Buffer { data: vec![0; n], out: None };
    let ones: Vec<u8> = (0..SHARED / 2).flat_map(|_| 0x3c00u16.to_le_bytes()).collect();
    let d = 0x40 | 0x80 << 16 | 0x8 << 32;
    let memory = Arg::Buffer { data: ones, out: None };
    let args = vec![memory, buffer(2048), buffer(2048), buffer(512), value(d), value(d)];
    let got = run(&kernel(4, &body), args).unwrap_or_else(|f| panic!("{f}"));
    assert!(got[2].chunks(4).all(|w| w == 32f32.to_le_bytes()), "{:?}", &got[2][..16]);
}
