//! Wrong machine code is stopped: memory faults, deadlocks, the watchdog, and hazards planted into the vendor's code.

use sass::codec::{decode, encode};
use sass::inst::Inst;
use sim::{Arg, Config, Fault, FaultKind, Launch, Place};

fn compile(ptx: &str) -> Option<Vec<u8>> {
    let ptxas = testkit::oracle::ptxas()?;
    Some(testkit::oracle::compile(&ptxas, ptx, &["-arch=sm_90"]).unwrap_or_else(|e| panic!("{e}\n{ptx}")))
}

fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 4 .b8 tile[16];\n.visible .entry k(.param .u64 p)\n{{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<8>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    )
}

fn launch() -> Launch {
    Launch {
        kernel: "k".into(),
        grid: [1; 3],
        block: [64, 1, 1],
        args: vec![Arg::Buffer { data: vec![1; 64], out: None }],
        ..Launch::default()
    }
}

fn run(cubin: &[u8]) -> Result<Vec<u8>, Box<Fault>> {
    let config = Config { max_instructions: 100_000, ..Config::default() };
    sim::run_sass(cubin, &launch(), &config).map(|mut o| o.buffers.remove(0))
}

#[test]
fn memory_and_waiting() {
    for (name, body, kind, thread, words) in [
        (
            "oob",
            "mad.wide.u32 %rd2, %r1, 4, %rd1;\nst.global.u32 [%rd2], %r1;",
            FaultKind::OutOfBounds,
            16,
            "argument 0",
        ),
        (
            "mis",
            "ld.global.v2.u32 {%r2, %r3}, [%rd1+4];\nst.global.v2.u32 [%rd1], {%r3, %r2};",
            FaultKind::Misaligned,
            0,
            "8 bytes",
        ),
        (
            "smem",
            "mov.u32 %r2, tile;\nst.volatile.shared.u32 [%r2+16], %r1;",
            FaultKind::OutOfBounds,
            0,
            "16 bytes of shared",
        ),
        ("loop", "L:\nst.volatile.global.u32 [%rd1], 1;\nbra L;", FaultKind::Watchdog, 0, "used up"),
        (
            "dead",
            "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra L;\nbarrier.sync 1;\nL:\nbarrier.sync 0;",
            FaultKind::Deadlock,
            0,
            "warp 1 lanes 0xffffffff wait at barrier 1",
        ),
        ("trap", "trap;", FaultKind::Trap, 0, "trap"),
    ] {
        let Some(cubin) = compile(&kernel(body)) else { return };
        let f = run(&cubin).expect_err(name);
        assert_eq!((f.kind, f.thread), (kind, Some([thread, 0, 0])), "{name}: {f}");
        assert!(f.to_string().contains(words), "{f}");
        assert!(matches!(&f.place, Place::Sass { text, .. } if !text.is_empty()), "{f}");
    }
}

/// A program whose every result comes from a chain of loads and arithmetic of all classes.
const CHAIN: &str = "and.b32 %r7, %r1, 15;\nmad.wide.u32 %rd2, %r7, 4, %rd1;\nld.global.u32 %r2, [%rd2];\nmul.lo.u32 %r3, %r2, 7;\n\
    add.u32 %r4, %r3, %r1;\npopc.b32 %r5, %r4;\nsetp.gt.u32 %p1, %r5, 3;\n@%p1 xor.b32 %r4, %r4, 85;\nmov.u32 %r6, tile;\n\
    shl.b32 %r7, %r7, 30;\nshr.u32 %r7, %r7, 28;\nadd.u32 %r6, %r6, %r7;\natom.shared.add.u32 %r2, [%r6], %r4;\nbar.sync 0;\n\
    ld.shared.u32 %r3, [%r6];\nshfl.sync.bfly.b32 %r5, %r3, 1, 31, -1;\nadd.u32 %r5, %r5, %r3;\ncvt.rn.f32.u32 %f1, %r5;\n\
    ex2.approx.f32 %f2, %f1;\nfma.rn.f32 %f3, %f2, %f1, %f1;\nbar.sync 0;\nst.global.f32 [%rd2], %f3;";

/// Changes the instruction at a byte offset of the file.
fn patch(cubin: &[u8], at: usize, change: impl Fn(&mut Inst)) -> Vec<u8> {
    let mut out = cubin.to_vec();
    let word = u128::from_le_bytes(cubin[at..at + 16].try_into().unwrap());
    let mut inst = decode(word, 90).known().unwrap().clone();
    change(&mut inst);
    out[at..at + 16].copy_from_slice(&encode(&inst, 90).unwrap().to_le_bytes());
    out
}

/// Offsets of the instructions up to the first EXIT: a run of known words after the entry's first load of R1.
fn instructions(cubin: &[u8]) -> Vec<(usize, Inst)> {
    let at = |i: usize| decode(u128::from_le_bytes(cubin[i..i + 16].try_into().unwrap()), 90).known().cloned();
    let text = |inst: &Inst| sass::text::print(inst, 0, &sass::text::NoLabels);
    let start = (0..cubin.len() - 16)
        .step_by(16)
        .find(|&i| at(i).is_some_and(|x| text(&x).starts_with("LDC R1, c[0x0][0x28]")));
    let mut list = Vec::new();
    for i in (start.expect("a kernel")..cubin.len() - 16).step_by(16) {
        let inst = at(i).expect("a known word");
        let end = text(&inst).starts_with("EXIT");
        list.push((i, inst));
        if end {
            break;
        }
    }
    list
}

#[test]
fn planted_hazards() {
    let Some(cubin) = compile(&kernel(CHAIN)) else { return };
    run(&cubin).unwrap_or_else(|f| panic!("the code itself is right: {f}"));
    let hazard = |bytes: &[u8]| match run(bytes) {
        Err(f) if f.kind == FaultKind::Hazard => {
            assert!(f.message.contains("the earlier instruction is 0x"), "{f}");
            true
        }
        _ => false,
    };
    let list = instructions(&cubin);
    let (mut stalls, mut waits, mut boards) = ((0, 0), (0, 0), (0, 0));
    for (at, inst) in &list {
        let count = |n: &mut (u32, u32), change: &dyn Fn(&mut Inst)| {
            n.0 += 1;
            n.1 += hazard(&patch(&cubin, *at, change)) as u32;
        };
        // The stall of an instruction with a fixed latency, far above what independent instructions get.
        if inst.ctrl.write_sb.is_none() && (4..15).contains(&inst.ctrl.stall) && !inst.form().effects.flow {
            count(&mut stalls, &|i| i.ctrl.stall = 1);
        }
        for sb in 0..6 {
            if inst.ctrl.wait >> sb & 1 != 0 {
                count(&mut waits, &|i| i.ctrl.wait &= !(1 << sb));
            }
        }
        if inst.ctrl.write_sb.is_some() {
            count(&mut boards, &|i| i.ctrl.write_sb = None);
        }
    }
    // Not every stall bears a load (barriers and stores have long ones anyway), and a wait may be for a result that
    // nothing reads; but most do.
    assert!(stalls.1 * 2 >= stalls.0 && stalls.1 > 0, "stalls: {} of {}", stalls.1, stalls.0);
    assert!(waits.1 * 10 >= waits.0 * 8 && waits.1 > 0, "waits: {} of {}", waits.1, waits.0);
    assert!(boards.1 * 10 >= boards.0 * 8 && boards.1 > 0, "scoreboards: {} of {}", boards.1, boards.0);
}

#[test]
fn damaged_files_are_refused() {
    let l = launch();
    let refused = |bytes: &[u8]| {
        let f = sim::run_sass(bytes, &l, &Config::default()).unwrap_err();
        assert_eq!(f.kind, FaultKind::Launch, "{f}");
    };
    refused(b"");
    refused(b"not an ELF file, but long enough to be one; at least as long as the header is, 64 bytes");
    let Some(cubin) = compile(&kernel("")) else { return };
    for len in (0..cubin.len()).step_by(61) {
        // Cut short: refused, or (where only the tail is missing that no launch needs) run as before; never a panic.
        let _ = sim::run_sass(&cubin[..len], &l, &Config::default());
    }
    refused(&cubin[..cubin.len() / 2]);
    let other = Launch { kernel: "other".into(), ..launch() };
    assert!(sim::run_sass(&cubin, &other, &Config::default()).unwrap_err().message.contains("no kernel 'other'"));
}
