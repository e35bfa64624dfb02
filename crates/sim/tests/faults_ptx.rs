//! Wrong kernels: each is stopped by the right fault, at the right thread and place.

use sim::{Arg, Config, Fault, FaultKind, Launch, Place};

/// Runs a body with one buffer of 64 bytes (address in `%rd1`), 64 threads.
fn run(decls: &str, body: &str, config: &Config) -> Result<Vec<u8>, Box<(Fault, String)>> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{decls}\n.visible .entry k(.param .u64 p)\n{{\n.reg .pred %p<4>;\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<8>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    );
    let (module, messages) = ptx::parse(&text);
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}\n{text}");
    let launch = Launch {
        kernel: "k".into(),
        grid: [1; 3],
        block: [64, 1, 1],
        args: vec![Arg::Buffer { data: vec![0; 64], out: None }],
        ..Launch::default()
    };
    match sim::run_ptx(&module, &launch, config) {
        Ok(mut o) => Ok(o.buffers.remove(0)),
        Err(f) => {
            let at = match f.place {
                Place::Ptx(s) => text[s.start as usize..s.end as usize].to_string(),
                _ => String::new(),
            };
            Err(Box::new((*f, at)))
        }
    }
}

fn fault(decls: &str, body: &str) -> (Fault, String) {
    run(decls, body, &Config { max_instructions: 100_000, ..Config::default() }).map_err(|e| *e).expect_err(body)
}

fn check(body: &str, kind: FaultKind, thread: u32, at: &str, words: &str) {
    let (f, place) = fault(".shared .align 4 .b8 tile[16];", body);
    assert_eq!((f.kind, f.thread, f.cta), (kind, Some([thread, 0, 0]), Some([0; 3])), "{f}");
    assert_eq!(f.kernel, "k");
    assert!(place.contains(at), "{place}");
    assert!(f.to_string().contains(words), "{f}");
}

#[test]
fn memory() {
    check(
        "mad.wide.u32 %rd2, %r1, 4, %rd1;\nst.global.u32 [%rd2], %r1;",
        FaultKind::OutOfBounds,
        16,
        "st.global.u32 [%rd2], %r1",
        "64 bytes past the start of argument 0",
    );
    check("ld.global.u32 %r2, [%rd1+-4];", FaultKind::OutOfBounds, 0, "ld.global", "4 bytes before argument 0");
    check("ld.global.v2.u32 {%r2, %r3}, [%rd1+4];", FaultKind::Misaligned, 0, "ld.global", "8 bytes");
    check(
        "mov.u32 %r2, tile;\nst.shared.u32 [%r2+16], %r1;",
        FaultKind::OutOfBounds,
        0,
        "st.shared",
        "16 bytes of shared",
    );
    check("ld.u32 %r2, [8];", FaultKind::OutOfBounds, 0, "ld.u32", "0x8");
    check("cvta.param.u64 %rd2, p;\nst.u32 [%rd2], %r1;", FaultKind::ReadOnly, 0, "st.u32", "parameter");
}

#[test]
fn unwritten_registers() {
    check("add.u32 %r3, %r2, 1;", FaultKind::Uninitialized, 0, "add.u32 %r3", "never written");
    check(
        "setp.lt.u32 %p1, %r1, 5;\n@%p1 mov.u32 %r2, 1;\nadd.u32 %r3, %r2, 1;",
        FaultKind::Uninitialized,
        5,
        "add.u32",
        "",
    );
    check("@%p2 mov.u32 %r2, 1;", FaultKind::Uninitialized, 0, "mov.u32 %r2", "");
    // Moves, selections and packing only carry it on.
    check(
        "mov.u32 %r3, %r2;\nmov.b64 %rd2, {%r3, %r1};\nst.global.u64 [%rd1], %rd2;",
        FaultKind::Uninitialized,
        0,
        "st.global",
        "",
    );
    let off = Config { check_uninitialized: false, ..Config::default() };
    assert!(run("", "add.u32 %r3, %r2, 1;", &off).is_ok());
}

#[test]
fn waiting_for_ever() {
    check(
        "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra L;\nbar.sync 1;\nL:\nbar.sync 0;",
        FaultKind::Deadlock,
        0,
        "bar.sync 0",
        "warp 1 lanes 0xffffffff wait at barrier 1",
    );
    check(
        "setp.eq.u32 %p1, %r1, 3;\n@%p1 bra L;\nbar.warp.sync 0xffffffff;\nbar.sync 0;\nret;\nL:\nbar.sync 0;",
        FaultKind::Deadlock,
        0,
        "bar.warp.sync",
        "of a warp-wide instruction",
    );
    check("L:\nbra L;", FaultKind::Watchdog, 0, "bra L", "used up");
}

#[test]
fn misuse() {
    check("bar.sync 0, 33;", FaultKind::BarrierMisuse, 0, "bar.sync", "multiple of the warp size");
    check("bar.sync 16;", FaultKind::BarrierMisuse, 0, "bar.sync", "only 0 to 15");
    check("bar.warp.sync 1;", FaultKind::BarrierMisuse, 1, "bar.warp.sync", "does not name the lane itself");
    check("trap;", FaultKind::Trap, 0, "trap", "");
    check("wgmma.fence.sync.aligned;", FaultKind::BarrierMisuse, 0, "wgmma", "needs a warpgroup of four warps");
    let (f, _) = fault(
        ".func f(.param .b32 n)\n{\n.reg .b32 %r<2>;\nld.param.u32 %r1, [n];\n{\n.param .b32 a;\nst.param.b32 [a], %r1;\ncall f, (a);\n}\nret;\n}",
        "{\n.param .b32 a;\nst.param.b32 [a], %r1;\ncall f, (a);\n}",
    );
    assert_eq!(f.kind, FaultKind::StackOverflow, "{f}");
}

#[test]
fn launches_that_do_not_fit() {
    let (module, _) =
        ptx::parse(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\nret;\n}\n");
    let with = |kernel: &str, args| {
        let launch = Launch { kernel: kernel.into(), grid: [1; 3], block: [1; 3], args, ..Launch::default() };
        sim::run_ptx(&module, &launch, &Config::default())
    };
    assert!(with("k", vec![Arg::Value(vec![0; 4])]).is_ok());
    for (kernel, args) in [("q", vec![]), ("k", vec![]), ("k", vec![Arg::Value(vec![0; 8])])] {
        assert_eq!(with(kernel, args).unwrap_err().kind, FaultKind::Launch);
    }
    let arg = || vec![Arg::Value(vec![0; 4])];
    for (grid, block, cluster, shared) in [
        ([0, 1, 1], [1, 1, 1], None, 0),
        ([1, 1, 1], [1, 0, 1], None, 0),
        ([1, 1, 1], [1024, 2, 1], None, 0),
        ([3, 1, 1], [1, 1, 1], Some([2, 1, 1]), 0),
        ([3, 1, 1], [1, 1, 1], Some([0, 1, 1]), 0),
        ([1, 1, 1], [1, 1, 1], None, 300_000),
    ] {
        let launch = Launch { kernel: "k".into(), grid, block, cluster, shared, args: arg(), ..Launch::default() };
        assert_eq!(
            sim::run_ptx(&module, &launch, &Config::default()).unwrap_err().kind,
            FaultKind::Launch,
            "{launch:?}"
        );
    }
    for body in [
        ".local .b8 big[4000000];",
        ".shared .b8 big[4000000];\n.reg .b32 %r;\nmov.b32 %r, big;",
        ".shared .b8 big[4294967295];",
    ] {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u32 n)\n{{\n{body}\nret;\n}}\n"
        );
        let (module, _) = ptx::parse(&text);
        let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [1; 3], args: arg(), ..Launch::default() };
        assert_eq!(sim::run_ptx(&module, &launch, &Config::default()).unwrap_err().kind, FaultKind::Launch, "{body}");
    }
}

/// A lane may wait for another lane of its warp, and a warp for another warp.
#[test]
fn spinning_ends() {
    let short = Config { max_instructions: 1_000_000, ..Config::default() };
    let body = "setp.ne.u32 %p1, %r1, 40;\nsetp.ne.u32 %p2, %r1, 3;\nS:\n@%p2 bra A;\nld.volatile.global.u32 %r2, [%rd1];\n\
                setp.eq.u32 %p3, %r2, 0;\n@%p3 bra S;\nA:\n@%p1 bra B;\nst.volatile.global.u32 [%rd1], 7;\nB:\nbar.sync 0;";
    assert_eq!(run("", body, &short).unwrap()[0], 7);
    // Within a warp: lane 0 waits for lane 1, whichever side runs first.
    for (spin, set) in [(0, 1), (1, 0)] {
        let body = format!(
            "setp.eq.u32 %p1, %r1, {spin};\nsetp.eq.u32 %p2, %r1, {set};\n@!%p1 bra A;\nS:\nld.volatile.global.u32 %r2, [%rd1];\n\
             setp.eq.u32 %p3, %r2, 0;\n@%p3 bra S;\nbra.uni B;\nA:\n@%p2 st.volatile.global.u32 [%rd1], 9;\nB:\n"
        );
        assert_eq!(run("", &body, &short).unwrap()[0], 9);
    }
}

/// Two warps write one word of global memory: which one does last depends on how long their turns are, and on nothing else.
#[test]
fn turns_are_as_long_as_asked() {
    let body = "setp.ge.u32 %p1, %r1, 32;\nmov.u32 %r2, 20;\nselp.u32 %r2, 1, %r2, %p1;\nL:\nsub.u32 %r2, %r2, 1;\nsetp.ne.u32 %p2, %r2, 0;\n\
                @%p2 bra L;\nshr.u32 %r3, %r1, 5;\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%rd1], %r3;";
    let last = |turn: u32| run("", body, &Config { turn, ..Config::default() }).expect("no fault")[0];
    assert_eq!([last(4096), last(1), last(0)], [2, 1, 1]);
}
