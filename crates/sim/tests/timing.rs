//! The estimate of time, and the trace: kernels of which it can be said what they cost.

use sim::timing::{Latencies, Lost};
use sim::{Arg, Config, Launch};
use std::sync::{Arc, Mutex};
use testkit::oracle;

const THREADS: u32 = 128;

/// Each thread writes a word of shared memory `step` words after the one before, and reads it again; it loads a word of global memory `apart` bytes
/// after that of the thread before.
fn kernel(step: u32, apart: u32) -> String {
    format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n.reg .b64 %in, %out, %d;\n\
         .reg .b32 %t, %a, %x, %y;\n.shared .align 16 .b8 buf[16384];\nld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n\
         mul.wide.u32 %d, %t, {apart};\nadd.u64 %in, %in, %d;\nmul.wide.u32 %d, %t, 4;\nadd.u64 %out, %out, %d;\n\
         ld.volatile.global.b32 %x, [%in];\nand.b32 %a, %t, 31;\nmul.lo.u32 %a, %a, {};\nshr.u32 %y, %t, 5;\nmul.lo.u32 %y, %y, 4096;\n\
         add.u32 %a, %a, %y;\nmov.u32 %y, buf;\nadd.u32 %a, %a, %y;\nst.volatile.shared.b32 [%a], %x;\nbar.sync 0;\nld.volatile.shared.b32 %y, [%a];\n\
         st.global.b32 [%out], %y;\nret;\n}}\n",
        4 * step
    )
}

fn launch() -> Launch {
    let data = vec![7; 64 * 1024];
    let args = vec![Arg::Buffer { data, out: None }, Arg::Buffer { data: vec![0; 4 * THREADS as usize], out: None }];
    Launch { kernel: "k".into(), grid: [3, 1, 1], block: [THREADS, 1, 1], args, ..Launch::default() }
}

fn compile(text: &str) -> Option<Vec<u8>> {
    Some(oracle::compile(&oracle::ptxas()?, text, &["-arch=sm_90"]).unwrap_or_else(|e| panic!("{e}\n{text}")))
}

#[test]
fn conflicts_sectors_and_latencies() {
    let config = Config { check_races: false, ..Config::default() };
    let time = |step, apart, l: &Latencies| {
        let cubin = compile(&kernel(step, apart))?;
        Some(sim::time_sass(&cubin, &launch(), &config, l).unwrap_or_else(|f| panic!("{f}")))
    };
    let l = Latencies::default();
    let Some((outcome, good)) = time(1, 4, &l) else { return };
    let plain = sim::run_sass(&compile(&kernel(1, 4)).unwrap(), &launch(), &config).unwrap();
    assert_eq!(outcome.buffers, plain.buffers);
    assert_eq!(good.issued(), outcome.stats.warp_instructions);
    assert_eq!((good.ctas, good.warps), (3, 12));
    // Two requests to shared memory a warp, each one pass; two to global memory, four sectors each.
    assert_eq!((good.memory(true), good.memory(false)), ([24, 24, 24], [24, 96, 96]));
    assert_eq!((good.lost(Lost::BankConflict), good.lost(Lost::Uncoalesced)), (0, 0));
    // A warp waits for its load, and what it takes is what it issues and what it loses.
    assert!(good.lost(Lost::Memory) >= 12 * 450, "{}", good.report());
    let lost: u64 = sim::timing::REASONS.iter().map(|r| good.lost(r.0)).sum();
    assert_eq!(good.sum, good.issued() + lost, "{}", good.report());

    // All words in one bank: 32 passes. A sector for each thread.
    let (_, bad) = time(32, 128, &l).unwrap();
    assert_eq!((bad.memory(true), bad.memory(false)), ([24, 24 * 32, 24], [24, 12 * 32 + 48, 96]));
    assert!(bad.lost(Lost::BankConflict) >= 12 * 31, "{}", bad.report());
    assert!(bad.lost(Lost::Uncoalesced) > 0 && bad.sum > good.sum, "{}", bad.report());

    // Memory that is faster by 300 cycles makes each warp so much faster.
    let (_, fast) = time(1, 4, &Latencies { global: 200, ..l }).unwrap();
    assert_eq!(good.longest - fast.longest, 300);
    assert!(fast.sm_estimate().cycles < good.sm_estimate().cycles);

    // 128 threads with 16 KiB and what the system takes: 13 fit into 228 KiB.
    let o = &good.occupancy;
    assert_eq!((o.ctas(), o.limit()), (13, "shared memory"), "{o:?}");
    let report = good.report();
    for part in ["limited by shared memory", "4.00 sectors each", "1.00 passes each", "LDS", "bound by latency"] {
        assert!(report.contains(part), "{part}\n{report}");
    }
}

/// A fetch takes the latency of textures, which is a parameter.
#[test]
fn textures_take_their_time() {
    let Some(ptxas) = oracle::ptxas() else { return };
    let folder = testkit::root().join("tests/kernels/features");
    let text = std::fs::read_to_string(folder.join("tex_2d_linear.ptx")).unwrap();
    let launch = std::fs::read_to_string(folder.join("tex_2d_linear.basic.toml")).unwrap();
    let launch = Launch::parse(&launch, &mut |_| Err("no file".into())).unwrap();
    let cubin = oracle::compile(&ptxas, &text, &["-arch=sm_75"]).unwrap();
    let l = Latencies::default();
    let at = |texture: u32| {
        let (_, t) = sim::time_sass(&cubin, &launch, &Config::default(), &Latencies { texture, ..l }).unwrap();
        (t.longest, t.lines.iter().find(|l| l.0.starts_with("TEX")).map(|l| l.1.issued))
    };
    let (slow, issued) = at(l.texture);
    assert_eq!((slow - at(l.texture - 250).0, issued), (250, Some(4)));
}

#[test]
fn steps_in_order() {
    let Some(cubin) = compile(&kernel(1, 4)) else { return };
    let steps = Arc::new(Mutex::new(Vec::new()));
    let list = steps.clone();
    let each = Box::new(move |s: &sim::Step| list.lock().unwrap().push(s.clone()));
    let done = sim::trace_sass(&cubin, &launch(), &Config::default(), each).unwrap();
    let steps = steps.lock().unwrap();
    assert_eq!(steps.len() as u64, done.stats.warp_instructions);
    assert_eq!(steps.iter().map(|s| s.active.count_ones() as u64).sum::<u64>(), done.stats.thread_instructions);
    assert_eq!((steps[0].cta, steps[0].warp, steps[0].offset), ([0; 3], 0, 0));
    let last = steps.last().unwrap();
    assert!(last.cta == [2, 0, 0] && last.text == "EXIT", "{last:?}");
    // One after the other, a warp goes on where it was.
    let first: Vec<u32> = steps.iter().filter(|s| s.cta == [0; 3] && s.warp == 1).map(|s| s.offset).collect();
    assert!(first.windows(2).all(|w| w[1] == w[0] + 16), "{first:?}");
}
