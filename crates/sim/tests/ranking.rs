//! The estimate of time puts programs in order: pairs of kernels of which everybody who programs GPUs knows, or first principles tell,
//! which one is faster. The vendor's ptxas compiles them; what counts is what [`sim::timing::Timing::sm_estimate`] says of its code.
//!
//! Both kernels of a pair do the same work, and where that can be they leave the same results, which is checked.

use sim::timing::Latencies;
use sim::{Arg, Config, Launch};
use testkit::oracle;

/// The faster one must take at most this share of the slower one's time.
const MOST: f64 = 0.97;

/// Times that a step of arithmetic stands in its loop, so that it is more than the loop.
const STEPS: usize = 6;

/// Two ways to do the same.
struct Pair {
    /// Why the first is faster.
    why: &'static str,
    fast: Kernel,
    slow: Kernel,
    /// They leave the same results.
    same: bool,
}

/// A kernel: what stands between reading its parameters and storing `%r0`, and its launch.
#[derive(Clone)]
struct Kernel {
    /// Variables of the body.
    variables: String,
    /// Directives of the kernel.
    directive: String,
    body: String,
    block: u32,
    grid: u32,
}

fn kernel(body: impl Into<String>) -> Kernel {
    Kernel { variables: String::new(), directive: String::new(), body: body.into(), block: 128, grid: 4 }
}

impl Kernel {
    fn with(self, variables: &str) -> Kernel {
        Kernel { variables: variables.into(), ..self }
    }

    fn launch(self, grid: u32, block: u32) -> Kernel {
        Kernel { grid, block, ..self }
    }

    /// `%i` is the thread's number in the grid, `%a` the address of its word of the input, `%x0` to `%x3` are words of it
    /// that no compiler knows, `%f0` and `%g0` the first of them as floats, `%n` is 16.
    fn text(&self) -> String {
        format!(
            ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {}\n{{\n\
             .reg .b64 %in, %out, %a, %o, %d<16>;\n.reg .b32 %t, %i, %n, %c, %r<40>, %x<8>;\n.reg .f32 %f<72>;\n\
             .reg .f64 %g<16>;\n.reg .pred %p<4>;\n{}\n\
             ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u32 %n, [n];\nmov.u32 %t, %tid.x;\nmov.u32 %i, %ctaid.x;\n\
             mov.u32 %r1, %ntid.x;\nmad.lo.u32 %i, %i, %r1, %t;\nmul.wide.u32 %a, %i, 4;\nadd.u64 %o, %out, %a;\nadd.u64 %a, %in, %a;\n\
             ld.global.v4.u32 {{%x0, %x1, %x2, %x3}}, [%in];\nadd.u32 %x0, %x0, %t;\ncvt.rn.f32.u32 %f0, %x0;\ncvt.f64.f32 %g0, %f0;\n\
             mov.u32 %r0, 0;\n{}\nst.global.u32 [%o], %r0;\nret;\n}}\n",
            self.directive, self.variables, self.body
        )
    }

    /// Cycles on an SM, and the results; or what went wrong.
    fn run(&self) -> Result<(u64, Vec<Vec<u8>>), String> {
        let text = self.text();
        let ptxas = oracle::ptxas().expect("it was there before");
        let cubin = oracle::compile(&ptxas, &text, &["-arch=sm_90a"]).map_err(|e| format!("{e}\n{text}"))?;
        let data: Vec<u8> =
            (0..64 * 1024u32).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 20).to_le_bytes()).collect();
        let out = vec![0; 64 * 1024];
        let args = vec![
            Arg::Buffer { data, out: None },
            Arg::Buffer { data: out, out: None },
            Arg::Value(16u32.to_le_bytes().to_vec()),
        ];
        let launch = Launch {
            kernel: "k".into(),
            grid: [self.grid, 1, 1],
            block: [self.block, 1, 1],
            args,
            ..Launch::default()
        };
        let config = Config { check_races: false, ..Config::default() };
        let done = sim::time_sass(&cubin, &launch, &config, &Latencies::default());
        let (outcome, timing) = done.map_err(|f| format!("{f}\n{text}"))?;
        Ok((timing.sm_estimate().cycles, outcome.buffers))
    }
}

/// `f(0)` to `f(n - 1)`, one after the other.
fn list(n: usize, f: impl Fn(usize) -> String) -> String {
    (0..n).map(f).collect()
}

/// `body` as often as `%n` says, not unrolled.
fn repeat(body: &str) -> String {
    format!(
        "mov.u32 %c, 0;\nL:\n.pragma \"nounroll\";\n{body}\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %p0, %c, %n;\n@%p0 bra L;\n"
    )
}

/// Adds up words of the input, each thread `step` bytes behind the one before, from sixteen places.
fn gather(step: usize) -> Kernel {
    let load = |k: usize| format!("ld.volatile.global.u32 %x1, [%d0+{}];\nadd.u32 %r0, %r0, %x1;\n", 4096 * k);
    kernel(format!("mul.wide.u32 %d0, %t, {step};\nadd.u64 %d0, %d0, %in;\n{}", list(8, load))).launch(64, 128)
}

/// Writes words of shared memory and reads them, each thread `step` words behind the one before.
fn banks(step: usize) -> Kernel {
    let round = "st.volatile.shared.u32 [%r2], %x0;\nld.volatile.shared.u32 %x1, [%r2];\nadd.u32 %r0, %r0, %x1;\n";
    let at = format!(
        "and.b32 %r2, %t, 31;\nmul.lo.u32 %r2, %r2, {};\nmov.u32 %r3, buf;\nadd.u32 %r2, %r2, %r3;\nshr.u32 %r3, %t, 5;\nmad.lo.u32 %r2, %r3, 8192, %r2;\n",
        4 * step
    );
    kernel(at + &list(8, |_| round.into())).with(".shared .align 16 .b8 buf[32768];").launch(64, 128)
}

/// Transposes tiles of 32 by 32 words by way of shared memory with rows of `pitch` words.
fn transpose(pitch: usize) -> Kernel {
    let put =
        |k: usize| format!("ld.global.u32 %x1, [%d0+{}];\nst.shared.u32 [%r4+{}], %x1;\n", 512 * k, 16 * pitch * k);
    let get = |k: usize| format!("ld.shared.u32 %x1, [%r5+{}];\nst.global.u32 [%d1+{}], %x1;\n", 16 * k, 512 * k);
    let body = format!(
        "and.b32 %r2, %t, 31;\nshr.u32 %r3, %t, 5;\nmov.u32 %r6, buf;\nmad.lo.u32 %r4, %r3, {p}, %r2;\nmad.lo.u32 %r4, %r4, 4, %r6;\n\
         mad.lo.u32 %r5, %r2, {p}, %r3;\nmad.lo.u32 %r5, %r5, 4, %r6;\nmul.wide.u32 %d0, %t, 4;\nadd.u64 %d1, %d0, %out;\nadd.u64 %d1, %d1, 8192;\nadd.u64 %d0, %d0, %in;\n\
         {}bar.sync 0;\n{}",
        list(8, put),
        list(8, get),
        p = pitch
    );
    kernel(body).with(&format!(".shared .align 16 .b8 buf[{}];", 128 * pitch)).launch(1, 128)
}

/// The same without shared memory: rows are read, columns are written.
fn transpose_directly() -> Kernel {
    let move_one = |k: usize| format!("ld.global.u32 %x1, [%d0+{}];\nst.global.u32 [%d1+{}], %x1;\n", 512 * k, 16 * k);
    let body = "and.b32 %r2, %t, 31;\nshr.u32 %r3, %t, 5;\nmad.lo.u32 %r4, %r2, 32, %r3;\nmul.wide.u32 %d1, %r4, 4;\nadd.u64 %d1, %d1, %out;\nadd.u64 %d1, %d1, 8192;\nmul.wide.u32 %d0, %t, 4;\nadd.u64 %d0, %d0, %in;\n";
    kernel(body.to_string() + &list(8, move_one)).launch(1, 128)
}

/// The sum over a warp by shuffles.
fn shuffled() -> String {
    list(5, |k| format!("shfl.sync.bfly.b32 %x1, %x0, {}, 31, 0xffffffff;\nadd.u32 %x0, %x0, %x1;\n", 16 >> k))
        + "mov.u32 %r0, %x0;\n"
}

/// The same by way of shared memory.
fn in_shared() -> Kernel {
    let step = |k: usize| {
        format!(
            "st.volatile.shared.u32 [%r2], %x0;\nbar.sync 0;\nxor.b32 %r3, %r2, {};\nld.volatile.shared.u32 %x1, [%r3];\nbar.sync 0;\nadd.u32 %x0, %x0, %x1;\n",
            64 >> k
        )
    };
    kernel(format!(
        "shl.b32 %r2, %t, 2;\nmov.u32 %r3, buf;\nadd.u32 %r2, %r2, %r3;\n{}mov.u32 %r0, %x0;\n",
        list(5, step)
    ))
    .with(".shared .align 1024 .b8 buf[512];")
}

/// Sums of `each` floats in each of `chains`.
fn sums(chains: usize, each: usize) -> Kernel {
    let first = list(chains, |k| format!("add.f32 %f{}, %f0, 0f{:08x};\n", k + 1, (k as f32).to_bits()));
    let step = |n: usize| format!("fma.rn.f32 %f{c}, %f{c}, %f0, %f0;\n", c = n % chains + 1);
    let join = list(chains - 1, |k| format!("add.f32 %f1, %f1, %f{};\n", k + 2));
    kernel(first + &list(chains * each, step) + &join + "mov.b32 %r0, %f1;\n")
}

/// `%r0` is made of floats by `step`, over and over.
fn floats(step: &str) -> Kernel {
    kernel(format!(
        "mov.f32 %f1, %f0;\nmov.f32 %f2, 0f40800000;\nadd.f32 %f2, %f2, %f0;\nsub.f32 %f2, %f2, %f0;\n{}mov.b32 %r0, %f1;\n",
        repeat(&step.repeat(STEPS))
    ))
}

/// The same of doubles.
fn doubles(step: &str) -> Kernel {
    kernel(format!("mov.f64 %g1, %g0;\n{}cvt.rn.f32.f64 %f1, %g1;\nmov.b32 %r0, %f1;\n", repeat(&step.repeat(STEPS))))
}

/// The same of integers of 64 bits, `%d0`, with `%d1` to `%d3`.
fn longs(step: &str) -> Kernel {
    let first = "mov.b64 %d0, {%x0, %x3};\nmov.b64 %d3, {%x1, %x2};\ncvt.u64.u32 %d1, %x1;\nshl.b64 %d1, %d1, 40;\ncvt.u64.u32 %d2, %n;\n";
    kernel(format!("{first}{}mov.b64 {{%r0, %r2}}, %d0;\nxor.b32 %r0, %r0, %r2;\n", repeat(&step.repeat(STEPS))))
}

/// `%r0` is made of integers by `step`, over and over.
fn integers(step: &str) -> Kernel {
    kernel(format!("mov.u32 %r0, %x0;\n{}", repeat(&step.repeat(STEPS))))
}

/// Tiles of the input are added up, a few steps a word, by way of shared memory; copies to it run ahead, or not.
fn tiles(ahead: bool) -> Kernel {
    let work = list(40, |_| "mad.lo.u32 %x1, %x1, %x2, %x3;\n".into());
    let at = "shl.b32 %r2, %t, 4;\nmov.u32 %r3, buf;\nadd.u32 %r2, %r2, %r3;\nmul.wide.u32 %d0, %t, 16;\nadd.u64 %d0, %d0, %in;\n";
    let tile = |k: usize| {
        let copy = |k: usize| {
            format!(
                "cp.async.cg.shared.global [%r2+{}], [%d0+{}], 16;\ncp.async.commit_group;\n",
                2048 * (k % 2),
                2048 * k
            )
        };
        let (first, next, wait) = match (ahead, k) {
            (true, 0) => (copy(0), copy(1), 1),
            (true, 7) => (String::new(), String::new(), 0),
            (true, _) => (String::new(), copy(k + 1), 1),
            (false, _) => (copy(k), String::new(), 0),
        };
        format!(
            "{first}{next}cp.async.wait_group {wait};\nbar.sync 0;\nld.volatile.shared.u32 %x1, [%r2+{}];\n{work}add.u32 %r0, %r0, %x1;\nbar.sync 0;\n",
            2048 * (k % 2)
        )
    };
    kernel(at.to_string() + &list(8, tile)).with(".shared .align 16 .b8 buf[4096];")
}

/// Two sides of a branch, in turns by `which`; both loop.
fn sides(which: &str) -> Kernel {
    let side = |name: &str, step: &str| {
        format!(
            "mov.u32 %c, 0;\n{name}:\n.pragma \"nounroll\";\n{step}\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %p0, %c, %n;\n@%p0 bra {name};\n"
        )
    };
    kernel(format!(
        "{which}\nsetp.eq.u32 %p1, %r2, 0;\nmov.u32 %r0, %x0;\n@%p1 bra OTHER;\n{}bra MEET;\nOTHER:\n{}MEET:\n",
        side("A", "mad.lo.u32 %r0, %r0, %x1, %x2;"),
        side("B", "mad.lo.u32 %r0, %r0, %x2, %x3;\nxor.b32 %r0, %r0, %x1;")
    ))
}

/// Each thread keeps 40 words through a loop.
fn kept(directive: &str) -> Kernel {
    let load = list(38, |k| format!("ld.volatile.global.u32 %r{}, [%a+{}];\n", k + 2, 4 * k));
    let step =
        list(38, |k| format!("mad.lo.u32 %r{k}, %r{k}, %x1, %r{};\n", if k == 37 { 2 } else { k + 3 }, k = k + 2));
    let end = list(38, |k| format!("xor.b32 %r0, %r0, %r{};\n", k + 2));
    Kernel { directive: directive.into(), ..kernel(load + &repeat(&step) + &end) }
}

fn pair(why: &'static str, fast: Kernel, slow: Kernel) -> Pair {
    Pair { why, fast, slow, same: true }
}

/// As [`pair`], but the same work leaves other results: other data, other rounding.
fn work(why: &'static str, fast: Kernel, slow: Kernel) -> Pair {
    Pair { why, fast, slow, same: false }
}

fn memory() -> Vec<Pair> {
    let volatile =
        |n: usize, bytes: usize| list(n, |k| format!("ld.volatile.global.u32 %x{}, [%d0+{}];\n", k % 4, bytes * k));
    let at16 = "mul.wide.u32 %d0, %i, 16;\nadd.u64 %d0, %d0, %in;\n";
    let all = "add.u32 %r0, %x0, %x1;\nadd.u32 %r0, %r0, %x2;\nadd.u32 %r0, %r0, %x3;\n";
    let stores = |step: usize| {
        let store = |k: usize| format!("st.volatile.global.u32 [%d0+{}], %x0;\n", 4096 + 4096 * k);
        kernel(format!("mul.wide.u32 %d0, %t, {step};\nadd.u64 %d0, %d0, %out;\n{}", list(8, store)))
    };
    let chase = |apart: bool| {
        let load = |k: usize| {
            let next =
                if apart { "" } else { "and.b32 %x1, %x1, 1023;\nmul.wide.u32 %d1, %x1, 4;\nadd.u64 %d0, %a, %d1;\n" };
            format!("ld.volatile.global.u32 %x1, [%d0+{}];\nadd.u32 %r0, %r0, %x1;\n{next}", 4 * k)
        };
        kernel("mov.u64 %d0, %a;\n".to_string() + &list(6, load))
    };
    let bytes = list(4, |k| {
        format!("ld.volatile.global.u8 %x{k}, [%a+{k}];\nshl.b32 %x{k}, %x{k}, {};\nor.b32 %r0, %r0, %x{k};\n", 8 * k)
    });
    let again = |volatile: &str| {
        kernel(list(8, |_| format!("ld{volatile}.global.u32 %x1, [%a];\nmad.lo.u32 %r0, %r0, %x1, %x1;\n")))
    };
    vec![
        work("a warp reads one row, not 32 rows", gather(4), gather(128)),
        work("a field of structures drags the others along", gather(4), gather(16)),
        work("half of what is moved is used", gather(4), gather(8)),
        work("a warp writes one row, not 32 rows", stores(4), stores(128)),
        pair(
            "one wide load is one request",
            kernel(format!("{at16}ld.volatile.global.v4.u32 {{%x0, %x1, %x2, %x3}}, [%d0];\n{all}")).launch(64, 128),
            kernel(format!("{at16}{}{all}", volatile(4, 4))).launch(64, 128),
        ),
        pair(
            "a word, not its four bytes",
            kernel("ld.volatile.global.u32 %r0, [%a];\n").launch(64, 128),
            kernel(bytes).launch(64, 128),
        ),
        work("loads that wait for nothing run at once", chase(true), chase(false)),
        pair("what was read stays in a register", again("").launch(64, 128), again(".volatile").launch(64, 128)),
        pair("registers hold what would be spilled", kept(""), kept(".maxnreg 24")),
    ]
}

fn shared() -> Vec<Pair> {
    let vector = |wide: bool| {
        let load = match wide {
            true => "ld.volatile.shared.v4.u32 {%x0, %x1, %x2, %x3}, [%r2];\n".to_string(),
            false => list(4, |k| format!("ld.volatile.shared.u32 %x{k}, [%r2+{}];\n", 4 * k)),
        };
        let add = list(4, |k| format!("add.u32 %r0, %r0, %x{k};\n"));
        let put =
            "mov.u32 %r3, buf;\nmad.lo.u32 %r2, %t, 16, %r3;\nst.volatile.shared.v4.u32 [%r2], {%x0, %x1, %x2, %x3};\n";
        kernel(put.to_string() + &repeat(&(load + &add))).with(".shared .align 16 .b8 buf[2048];")
    };
    let matrix = |one: bool| {
        let load = match one {
            true => "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%x0, %x1, %x2, %x3}, [%r2];\n".to_string(),
            false => list(4, |k| format!("ld.volatile.shared.u32 %x{k}, [%r4+{}];\n", 128 * k)),
        };
        let add = list(4, |k| format!("add.u32 %r0, %r0, %x{k};\n"));
        let put = "mov.u32 %r3, buf;\nand.b32 %r5, %t, 31;\nmad.lo.u32 %r2, %r5, 16, %r3;\nmad.lo.u32 %r4, %r5, 4, %r3;\nst.volatile.shared.v4.u32 [%r2], {%x0, %x1, %x2, %x3};\nbar.sync 0;\n";
        kernel(put.to_string() + &repeat(&(load + &add))).with(".shared .align 16 .b8 buf[512];").launch(4, 32)
    };
    let barriers = |each: bool| {
        let step = "mad.lo.u32 %r0, %r0, %x1, %x2;\n".to_string();
        kernel(list(16, |k| step.clone() + if each || k == 15 { "bar.sync 0;\n" } else { "" }))
    };
    let occupied = |bytes: u32| {
        let body = gather(4).body + "st.shared.u32 [buf], %r0;\n";
        kernel(body).with(&format!(".shared .align 16 .b8 buf[{bytes}];")).launch(64, 128)
    };
    vec![
        work("two words of a bank take two passes", banks(1), banks(2)),
        work("a column of a matrix of 32 lies in one bank; of 33 in all", banks(33), banks(32)),
        work("so does one of 8 in four of them", banks(9), banks(8)),
        work("a word for all is one pass", banks(0), banks(32)),
        pair("padding takes the conflicts out of a transposition", transpose(33), transpose(32)),
        pair("a transposition by way of shared memory keeps rows whole", transpose(33), transpose_directly()),
        pair("one wide load, not four with conflicts", vector(true), vector(false)),
        pair("one instruction loads four matrices", matrix(true), matrix(false)),
        pair("each barrier costs", barriers(false), barriers(true)),
        work("shared memory bounds how many CTAs hide latencies", occupied(1024), occupied(44 * 1024)),
        pair("copies that run ahead are there in time", tiles(true), tiles(false)),
    ]
}

fn warps() -> Vec<Pair> {
    let redux = "redux.sync.add.u32 %r0, %x0, 0xffffffff;\n";
    let ballot = "and.b32 %r2, %x0, 1;\nsetp.ne.u32 %p1, %r2, 0;\nvote.sync.ballot.b32 %r3, %p1, 0xffffffff;\npopc.b32 %r0, %r3;\n";
    let counted = "and.b32 %x0, %x0, 1;\n".to_string() + &shuffled();
    let lengths = |uneven: bool| {
        let bound = match uneven {
            true => "and.b32 %r2, %t, 31;\nsetp.eq.u32 %p1, %r2, 0;\nselp.u32 %r3, 512, 0, %p1;\n",
            false => "mov.u32 %r3, %n;\n",
        };
        kernel(format!(
            "{bound}mov.u32 %r0, %x0;\nmov.u32 %c, 0;\nL:\n.pragma \"nounroll\";\nsetp.ge.u32 %p0, %c, %r3;\n@%p0 bra E;\nmad.lo.u32 %r0, %r0, %x1, %x2;\nadd.u32 %c, %c, 1;\nbra L;\nE:\n"
        ))
    };
    let streams = |each: usize| {
        let load = |k: usize| {
            format!(
                "ld.volatile.global.u32 %x1, [%a+{}];\nadd.u32 %r0, %r0, %x1;\nand.b32 %r0, %r0, 65535;\n",
                2048 * k
            )
        };
        kernel(list(each, load))
    };
    vec![
        pair("a sum over a warp by shuffles needs no barriers", kernel(shuffled()), in_shared()),
        pair("one instruction sums a warp", kernel(redux), kernel(shuffled())),
        pair("votes count bits at once", kernel(ballot), kernel(counted)),
        work(
            "warps that agree on a branch take one side",
            sides("shr.u32 %r2, %t, 5;\nand.b32 %r2, %r2, 1;"),
            sides("and.b32 %r2, %t, 1;"),
        ),
        work("a warp takes as long as its longest thread", lengths(false), lengths(true)),
        work("more warps hide latencies", streams(2).launch(4, 128), streams(8).launch(4, 32)),
    ]
}

fn arithmetic() -> Vec<Pair> {
    let product = |tensor: bool| {
        let zero = list(4, |k| format!("mov.f32 %f{}, 0f00000000;\n", k + 1));
        let mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%x0, %x1, %x2, %x3}, {%x1, %x2}, {%f1, %f2, %f3, %f4};\n";
        // 16 times 8 times 16 products are 64 for each thread.
        let fma = list(64, |k| format!("fma.rn.f32 %f{c}, %f{c}, %f0, %f0;\n", c = k % 4 + 1));
        let join = list(3, |k| format!("add.f32 %f1, %f1, %f{};\n", k + 2)) + "mov.b32 %r0, %f1;\n";
        kernel(zero + &repeat(if tensor { mma } else { &fma }) + &join)
    };
    let reversed = "shr.u32 %r2, %r0, 1;\nand.b32 %r2, %r2, 0x55555555;\nand.b32 %r0, %r0, 0x55555555;\nshl.b32 %r0, %r0, 1;\nor.b32 %r0, %r0, %r2;\n\
        shr.u32 %r2, %r0, 2;\nand.b32 %r2, %r2, 0x33333333;\nand.b32 %r0, %r0, 0x33333333;\nshl.b32 %r0, %r0, 2;\nor.b32 %r0, %r0, %r2;\n\
        shr.u32 %r2, %r0, 4;\nand.b32 %r2, %r2, 0x0f0f0f0f;\nand.b32 %r0, %r0, 0x0f0f0f0f;\nshl.b32 %r0, %r0, 4;\nor.b32 %r0, %r0, %r2;\nprmt.b32 %r0, %r0, 0, 0x0123;\nadd.u32 %r0, %r0, %x1;\n";
    let counted = "shr.u32 %r2, %r0, 1;\nand.b32 %r2, %r2, 0x55555555;\nsub.u32 %r0, %r0, %r2;\nshr.u32 %r2, %r0, 2;\nand.b32 %r2, %r2, 0x33333333;\nand.b32 %r0, %r0, 0x33333333;\nadd.u32 %r0, %r0, %r2;\n\
        shr.u32 %r2, %r0, 4;\nadd.u32 %r0, %r0, %r2;\nand.b32 %r0, %r0, 0x0f0f0f0f;\nmul.lo.u32 %r0, %r0, 0x01010101;\nshr.u32 %r0, %r0, 24;\nadd.u32 %r0, %r0, %x1;\n";
    let byte = |k: usize| {
        format!("bfe.u32 %r2, %r5, {b}, 8;\nbfe.u32 %r3, %x2, {b}, 8;\nmad.lo.u32 %r0, %r2, %r3, %r0;\n", b = 8 * k)
    };
    let bytes = "xor.b32 %r5, %x1, %r0;\n".to_string() + &list(4, byte);
    let dp4a = "xor.b32 %r2, %x1, %r0;\ndp4a.u32.u32 %r0, %r2, %x2, %r0;\n";
    let unrolled = |by: usize| {
        let step = list(by, |_| "mad.lo.u32 %r0, %r0, %x1, %x2;\n".into());
        let each = format!(
            "mov.u32 %r0, %x0;\nmov.u32 %c, 0;\nL:\n.pragma \"nounroll\";\n{step}add.u32 %c, %c, {by};\nsetp.lt.u32 %p0, %c, 64;\n@%p0 bra L;\n"
        );
        kernel(each)
    };
    vec![
        work("tensor cores multiply matrices", product(true), product(false)),
        work("four sums run side by side", sums(4, 16), sums(1, 64)),
        work("two do, too", sums(2, 32), sums(1, 64)),
        work(
            "fused, not rounded twice",
            floats("fma.rn.f32 %f1, %f1, %f2, %f0;"),
            floats("mul.rn.f32 %f1, %f1, %f2;\nadd.rn.f32 %f1, %f1, %f0;"),
        ),
        pair(
            "a divisor known to the compiler",
            integers("div.u32 %r0, %r0, 10;\nadd.u32 %r0, %r0, %x1;"),
            integers("sub.u32 %r2, %n, 6;\ndiv.u32 %r0, %r0, %r2;\nadd.u32 %r0, %r0, %x1;"),
        ),
        work(
            "32 bits are divided faster than 64",
            integers("div.u32 %r0, %r0, %n;\nadd.u32 %r0, %r0, %x1;"),
            longs("div.u64 %d0, %d0, %d2;\nadd.u64 %d0, %d0, %d1;"),
        ),
        pair(
            "times the reciprocal, not divided",
            floats("mul.rn.f32 %f1, %f1, 0f3e800000;\nadd.f32 %f1, %f1, %f0;"),
            floats("div.rn.f32 %f1, %f1, %f2;\nadd.f32 %f1, %f1, %f0;"),
        ),
        work(
            "divided approximately",
            floats("div.approx.f32 %f1, %f1, %f2;\nadd.f32 %f1, %f1, %f0;"),
            floats("div.rn.f32 %f1, %f1, %f2;\nadd.f32 %f1, %f1, %f0;"),
        ),
        work(
            "an approximate root",
            floats("sqrt.approx.f32 %f1, %f1;\nadd.f32 %f1, %f1, %f0;"),
            floats("sqrt.rn.f32 %f1, %f1;\nadd.f32 %f1, %f1, %f0;"),
        ),
        work(
            "the reciprocal of a root is one instruction",
            floats("rsqrt.approx.f32 %f1, %f1;\nadd.f32 %f1, %f1, %f0;"),
            floats("sqrt.rn.f32 %f1, %f1;\nrcp.rn.f32 %f1, %f1;\nadd.f32 %f1, %f1, %f0;"),
        ),
        work(
            "floats, not doubles",
            floats("fma.rn.f32 %f1, %f1, %f0, %f0;"),
            doubles("fma.rn.f64 %g1, %g1, %g0, %g0;"),
        ),
        work(
            "floats are divided faster than doubles",
            floats("div.rn.f32 %f1, %f1, %f2;\nadd.f32 %f1, %f1, %f0;"),
            doubles("div.rn.f64 %g1, %g1, %g0;\nadd.f64 %g1, %g1, %g0;"),
        ),
        pair("four products of bytes at a time", integers(dp4a), integers(&bytes)),
        pair(
            "bits are turned around by one instruction",
            integers("brev.b32 %r0, %r0;\nadd.u32 %r0, %r0, %x1;"),
            integers(reversed),
        ),
        pair(
            "bits are counted by one instruction",
            integers("popc.b32 %r0, %r0;\nadd.u32 %r0, %r0, %x1;"),
            integers(counted),
        ),
        pair("a loop that is unrolled counts less", unrolled(16), unrolled(1)),
        work(
            "32 bits are multiplied faster than 64",
            integers("mad.lo.u32 %r0, %r0, %x1, %x2;"),
            longs("mad.lo.u64 %d0, %d0, %d3, %d2;"),
        ),
    ]
}

#[test]
fn pairs_are_put_in_order() {
    if oracle::ptxas().is_none() {
        return;
    }
    let pairs: Vec<Pair> = [memory(), shared(), warps(), arithmetic()].into_iter().flatten().collect();
    assert!(pairs.len() >= 30, "{} pairs", pairs.len());
    let mut wrong = Vec::new();
    for p in &pairs {
        let ((fast, a), (slow, b)) = match (p.fast.run(), p.slow.run()) {
            (Ok(fast), Ok(slow)) => (fast, slow),
            (Err(e), _) | (_, Err(e)) => {
                wrong.push(format!("{}: {e}", p.why));
                continue;
            }
        };
        println!("{fast:>8} {slow:>8} {:>6.2}  {}", slow as f64 / fast as f64, p.why);
        if fast as f64 > MOST * slow as f64 {
            wrong.push(format!("{}: {fast} cycles against {slow}", p.why));
        }
        if p.same && a != b {
            wrong.push(format!("{}: other results", p.why));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
