//! What cubins say of barriers in shared memory, beside what the vendor's tool says of the same programs.

use cubin::attr::{self, Attr, Value};
use cubin::elf::Elf;
use cubin::load::Loaded;
use std::fmt::Write;

/// Instructions on the barrier at `[A]`, with the kinds that the attribute calls them by; none where it does not list them.
const INSTRUCTIONS: [(&str, &[u32]); 21] = [
    ("mbarrier.init.shared.b64 [A], 4;", &[0]),
    ("mbarrier.init.shared.b64 [A], %r9;", &[0]),
    ("mbarrier.inval.shared.b64 [A];", &[8]),
    ("mbarrier.arrive.shared.b64 %rd4, [A];", &[1]),
    ("mbarrier.arrive.shared::cta.b64 _, [A];", &[1]),
    ("mbarrier.arrive.shared.b64 %rd4, [A], %r9;", &[1]),
    ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [A];", &[1]),
    ("mbarrier.arrive_drop.shared.b64 %rd4, [A];", &[3]),
    ("mbarrier.arrive_drop.shared.b64 %rd4, [A], %r9;", &[3]),
    ("mbarrier.test_wait.shared.b64 %p1, [A], %rd5;", &[5]),
    ("mbarrier.test_wait.parity.shared.b64 %p1, [A], %r9;", &[6]),
    ("cp.async.mbarrier.arrive.shared.b64 [A];", &[7]),
    ("cp.async.mbarrier.arrive.noinc.shared.b64 [A];", &[7]),
    ("mbarrier.try_wait.shared.b64 %p1, [A], %rd5;", &[9]),
    ("mbarrier.try_wait.parity.shared.b64 %p1, [A], %r9;", &[10]),
    ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [A], 64;", &[11]),
    ("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [A], 64;", &[12]),
    ("mbarrier.arrive.expect_tx.shared.b64 %rd4, [A], 64;", &[]),
    ("mbarrier.arrive_drop.expect_tx.shared.b64 %rd4, [A], 64;", &[]),
    ("mbarrier.pending_count.b64 %r9, %rd5;", &[]),
    ("mbarrier.init.shared.b64 [A], 4; mbarrier.init.shared.b64 [A], 5; mbarrier.inval.shared.b64 [A];", &[0, 0, 8]),
];

/// A kernel for each of them, with the barrier at a constant place, one that a warp shares, and one of each thread.
fn module() -> String {
    let mut out = String::from(".version 8.3\n.target sm_90\n.address_size 64\n");
    for (n, (text, _)) in INSTRUCTIONS.iter().enumerate() {
        for (m, at) in ["bar+8", "%r6+24", "%r5+40"].into_iter().enumerate() {
            let _ = write!(
                out,
                ".visible .entry k{n}_{m}(.param .u64 a, .param .u32 b, .param .u32 c) {{
.reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<3>;
.shared .align 8 .b8 bar[2048];
mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [a]; ld.param.u32 %r2, [b]; ld.param.u32 %r9, [c];
mul.wide.u32 %rd2, %r1, 8; add.u64 %rd2, %rd2, %rd1; mov.u32 %r3, bar;
shl.b32 %r4, %r1, 3; add.u32 %r5, %r3, %r4; add.u32 %r6, %r3, %r2; ld.global.u64 %rd5, [%rd2];
mov.b64 %rd4, 7; setp.eq.u32 %p1, %r9, 17;
{} @%p1 st.global.u64 [%rd2], %rd4; st.global.u32 [%rd2+4], %r9; ret; }}\n",
                text.replace("[A]", &format!("[{at}]"))
            );
        }
    }
    out
}

/// By kernel: its name, how many barriers its attributes say there are, and the entries.
fn said(cubin: &[u8]) -> Vec<(String, Option<u32>, Vec<[u32; 4]>)> {
    let elf = Elf::read(cubin).expect("a cubin");
    let mut out: Vec<_> = elf
        .sections
        .iter()
        .filter_map(|s| Some((s.name.strip_prefix(".nv.info.")?, attr::read(&s.data).expect("attributes"))))
        .map(|(name, list)| {
            let of = |code: u8| list.iter().find(|a| a.code == code).map(Attr::to_words);
            if let Some(a) = list.iter().find(|a| a.code == attr::NUM_MBARRIERS) {
                assert!(matches!(a.value, Value::Half(_)));
            }
            let entries = of(attr::MBARRIER_INSTR_OFFSETS).unwrap_or_default();
            (name.to_string(), of(attr::NUM_MBARRIERS).map(|w| w[0]), entries.as_chunks().0.to_vec())
        })
        .collect();
    out.sort();
    out
}

fn compile(text: &str, chip: &str) -> Vec<u8> {
    let (m, d) = ptx::parse(text);
    assert!(d.is_empty(), "{d:?}");
    let target = arch::Target::parse(chip).expect("a chip");
    let options = codegen::Options { verify: true, target, ..codegen::Options::default() };
    codegen::compile(&m, &options).unwrap_or_else(|e| panic!("{e:?}")).cubin
}

/// The name of an instruction as far as it says what is done to a barrier.
fn meant(kind: u32) -> &'static str {
    let names =
        ["SYNCS.EXCH", "SYNCS.ARRIVE", "", "SYNCS.ARRIVE.TRANS64.OPTOUT", "", "SYNCS.PHASECHK", "SYNCS.PHASECHK"];
    let more = [
        "ARRIVES",
        "SYNCS.CCTL.IV",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT",
        "A0TR",
        "A0TX",
    ];
    names.iter().chain(&more).nth(kind as usize).copied().unwrap_or("")
}

/// Every instruction is listed by its kind, at its place, with the registers and the distance that its text has.
#[test]
fn instructions_are_listed_with_their_barriers() {
    for chip in ["sm_90", "sm_100", "sm_120"] {
        let cubin = compile(&module(), chip);
        let sm = arch::Target::parse(chip).expect("a chip").sm;
        let loaded = Loaded::load(&Elf::read(&cubin).expect("a cubin")).expect("loadable");
        for (name, number, entries) in said(&cubin) {
            let n: usize = name[1..].split('_').next().and_then(|n| n.parse().ok()).expect("a number");
            let wanted = INSTRUCTIONS[n].1;
            let kinds: Vec<u32> = entries.iter().map(|e| e[3] & 15).collect();
            assert_eq!(kinds, wanted, "{chip} {name}");
            let inits = wanted.iter().filter(|&&k| k == 0).count() as u32;
            assert_eq!(number, (!wanted.is_empty()).then_some(inits), "{chip} {name}");
            let code = &loaded.kernels.iter().find(|k| k.name == name).expect("a kernel").code;
            for [at, register, add, last] in entries {
                let word = code[at as usize..at as usize + 16].try_into().map(u128::from_le_bytes).expect("a word");
                let decoded = sass::codec::decode(word, sm);
                let text = sass::text::print(decoded.known().expect("known"), 0, &sass::text::NoLabels);
                assert!(text.contains(meant(last & 15)), "{chip} {name}: {text}");
                let inside = text.split(['[', ']']).nth(1).expect("an address");
                let mut parts: Vec<String> = Vec::new();
                let (uniform, none) = (last >> 16, if sm < 100 { 63 } else { 255 });
                parts.extend((register != 255).then(|| format!("R{register}")));
                let shown = uniform != none || register != 255;
                parts.extend(shown.then(|| if uniform == none { "URZ".into() } else { format!("UR{uniform}") }));
                parts.extend((add != 0).then(|| format!("{add:#x}")));
                assert_eq!((inside, last >> 8 & 255), (parts.join("+").as_str(), 1), "{chip} {name}: {text}");
            }
        }
    }
}

/// The same kinds and numbers as in the vendor's cubins, linked and to be linked, of these and of the corpus.
#[test]
fn the_vendor_lists_the_same() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let (mut same, mut other) = (0, 0);
    let mut compare = |text: &str, chip: &str, what: &str| {
        let ours = said(&compile(text, chip));
        let Ok(theirs) = testkit::oracle::compile(&ptxas, text, &[&format!("-arch={chip}")]) else { return };
        for (x, y) in ours.iter().zip(&said(&theirs)) {
            let kinds = |list: &[[u32; 4]]| {
                let mut kinds: Vec<u32> = list.iter().map(|e| e[3] & 15).collect();
                kinds.sort_unstable();
                kinds
            };
            assert_eq!((&x.0, x.1.is_some()), (&y.0, y.1.is_some()), "{chip} {what}");
            // The vendor asks once before a loop that waits, and loops may be copied.
            let (mut mine, mut vendors) = (kinds(&x.2), kinds(&y.2));
            let exact = mine.len() == vendors.len();
            if !exact {
                mine.dedup();
                vendors.dedup();
            }
            assert_eq!((x.1, mine), (y.1, vendors), "{chip} {what} {}", x.0);
            if exact { same += 1 } else { other += 1 }
        }
    };
    for chip in ["sm_90", "sm_100", "sm_120"] {
        compare(&module().replace("sm_90", chip).replace("8.3", "8.8"), chip, "one instruction each");
    }
    for path in testkit::files("tests/kernels/features", "ptx") {
        let text = std::fs::read_to_string(&path).expect("readable");
        if text.contains("mbarrier.") {
            compare(&text, testkit::oracle::arch(&text), &path.display().to_string());
        }
    }
    assert!(same > 180 && other < 30, "{same} the same, {other} with other numbers of instructions");
}
