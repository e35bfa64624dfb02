//! Random programs under the three witnesses: the PTX interpreter, the vendor's code in the simulator, ours in the
//! simulator. All three leave the same memory.

mod random;

use random::{IN_BYTES, OUT_BYTES, Rng};
use sim::{Arg, Config, Launch};

const THREADS: usize = 128;

fn launch() -> Launch {
    let mut rng = Rng(0x1234_5678_9abc_def1);
    let mut input = vec![0u8; THREADS * IN_BYTES];
    let special32 =
        [0u32, 1, 0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 0x7f80_0000, 0x3f80_0000, 0x0000_0003, 0x7fc0_0000];
    for (i, word) in input.chunks_exact_mut(4).enumerate() {
        let v = if rng.below(4) == 0 {
            special32[rng.below(special32.len())]
        } else if i % 16 >= 8 {
            // Floats of a moderate size: exponents that make arithmetic interesting.
            let e = 0x3c + rng.below(8) as u32;
            (e << 24) | (rng.next() as u32 & 0x80ff_ffff)
        } else {
            rng.next() as u32 >> rng.below(32)
        };
        word.copy_from_slice(&v.to_le_bytes());
    }
    let n = THREADS as u32;
    Launch {
        kernel: "k".into(),
        grid: [2, 1, 1],
        block: [THREADS as u32 / 2, 1, 1],
        cluster: None,
        shared: 0,
        args: vec![
            Arg::Buffer { data: input, out: None },
            Arg::Buffer { data: vec![0; THREADS * OUT_BYTES], out: None },
            Arg::Value(n.to_le_bytes().to_vec()),
        ],
        ..Launch::default()
    }
}

/// The first difference of two outputs, as thread and byte.
fn difference(a: &[u8], b: &[u8]) -> Option<String> {
    let at = a.iter().zip(b).position(|(x, y)| x != y)?;
    Some(format!("thread {} offset {}: {:#04x} and {:#04x}", at / OUT_BYTES, at % OUT_BYTES, a[at], b[at]))
}

/// The vendor's code of a program, where the tool is there.
fn vendor(text: &str, chip: &str) -> Option<Vec<u8>> {
    let arch = format!("-arch={chip}");
    let cubin = testkit::oracle::compile(&testkit::oracle::ptxas()?, text, &[&arch, "-fmad=false"]);
    Some(cubin.unwrap_or_else(|e| panic!("{e}\n{text}")))
}

/// Writes a program and its launch to a folder: `sassafras run SEED.ptx --launch SEED.toml` repeats it.
fn keep(dir: &std::path::Path, seed: u64, text: &str, launch: &Launch) -> std::io::Result<()> {
    let Arg::Buffer { data, .. } = &launch.args[0] else { unreachable!("the first argument is the input") };
    std::fs::write(dir.join("in.bin"), data)?;
    std::fs::write(dir.join(format!("{seed}.ptx")), text)?;
    let toml = format!(
        "kernel = \"{}\"\ngrid = {:?}\nblock = {:?}\n\n[[arg]]\nbuffer = {{ file = \"in.bin\" }}\n\n\
         [[arg]]\nbuffer = {{ bytes = {}, fill = 0 }}\nout = \"out.bin\"\n\n[[arg]]\nu32 = {THREADS}\n",
        launch.kernel,
        launch.grid,
        launch.block,
        THREADS * OUT_BYTES
    );
    std::fs::write(dir.join(format!("{seed}.toml")), toml)
}

/// What a program does under one register limit, if it is wrong.
fn failure(seed: u64, launch: &Launch, max_registers: Option<u32>, wide: bool, chip: &str) -> Option<String> {
    let text = random::program(seed, 40 + (seed as usize * 7) % 160, wide);
    let text = text.replacen(".target sm_90", &format!(".target {chip}"), 1);
    if let Some(dir) = std::env::var_os("SASSAFRAS_KEEP") {
        keep(std::path::Path::new(&dir), seed, &text, launch).expect("writable");
    }
    let (m, mut d) = ptx::parse(&text);
    let target = arch::Target::parse(chip).expect("a chip");
    // Every other program says how many threads there are, and spills to shared memory.
    let max_threads = (max_registers.is_some() && seed % 2 == 1).then_some([launch.block[0], 1, 1]);
    let options = codegen::Options {
        fmad: false,
        verify: true,
        max_registers,
        max_threads,
        target,
        ..codegen::Options::default()
    };
    d.extend(ptx::check(&m, Some(&options.target)));
    if !d.is_empty() {
        return Some(format!("seed {seed}: {d:?}"));
    }
    let want = match sim::run_ptx(&m, launch, &Config::default()) {
        Ok(o) => o.buffers[1].clone(),
        Err(f) => return Some(format!("seed {seed}: interpreter: {f}")),
    };
    let ours = |effort: u8| match codegen::compile(&m, &codegen::Options { effort, ..options.clone() }) {
        // What is checked must be what is made: checking once hid what it found behind another attempt.
        Ok(o) => match codegen::compile(&m, &codegen::Options { effort, verify: false, ..options.clone() }) {
            Ok(plain) if plain.cubin == o.cubin => Ok(Some(o.cubin)),
            _ => Err(Some(format!("seed {seed}: compiler at effort {effort}: other code without checks"))),
        },
        Err(d) => Err(Some(format!("seed {seed}: compiler at effort {effort}: {d:?}"))),
    };
    let (whole, least) = match (ours(codegen::opt::MOST_EFFORT), ours(codegen::opt::LEAST_EFFORT)) {
        (Ok(whole), Ok(least)) => (whole, least),
        (Err(e), _) | (_, Err(e)) => return e,
    };
    // The vendor's code does not change with our registers.
    let vendor = max_registers.is_none().then(|| vendor(&text, chip));
    let mut wrong = Vec::new();
    for (who, cubin) in [("ours", whole), ("ours with the least effort", least), ("vendor", vendor.flatten())] {
        let Some(cubin) = cubin else { continue };
        match sim::run_sass(&cubin, launch, &Config::default()) {
            Ok(o) => wrong.extend(difference(&want, &o.buffers[1]).map(|x| format!("seed {seed}: {who}: {x}"))),
            Err(f) => wrong.push(format!("seed {seed}: {who}: {f}")),
        }
    }
    // Ours is judged by the interpreter whatever the vendor's code does.
    wrong.retain(|w| !known_of_the_vendor(seed, wide, chip, w));
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}

/// True for what is known to be wrong about the vendor's code for a program (docs/random-programs.md); of ours nothing is.
fn known_of_the_vendor(seed: u64, wide: bool, chip: &str, what: &str) -> bool {
    let known = |&(s, part): &(u64, &str)| s == seed && what.contains(part);
    what.starts_with(&format!("seed {seed}: vendor: "))
        && match wide {
            true => KNOWN.iter().any(known),
            false => KNOWN_PLAIN.iter().any(|(chips, s, part)| chips.contains(&chip) && known(&(*s, part))),
        }
}

/// As [`KNOWN`], programs that are not wide: chips, seed, part of what is said.
const KNOWN_PLAIN: [(&[&str], u64, &str); 3] = [
    // Two registers that were written only where P4 is true are compared, and P4 is joined to it: what comes of them does not matter.
    (&["sm_80", "sm_89"], 2265, "uninitialized: P3 was never written"),
    (&["sm_90"], 2328, "hazard: R34 is overwritten 2 cycles after it was written"),
    // A saturated conversion of a negated number is turned around as if negating never wrapped (docs/ptxas-faults.md).
    (&["sm_90", "sm_100", "sm_120"], 2514, "thread 89 offset 192: 0x00 and 0xff"),
];

/// Wide programs of which ptxas 13.5 makes code that the simulator blames or that computes something else: seed, part of what is said.
const KNOWN: [(u64, &str); 20] = [
    (364, "hazard: UR5 is overwritten 4 cycles after it was written"),
    // Two halves of a register are merged where a third value still lives.
    (510, "thread 0 offset 2: 0x90 and 0x08"),
    (676, "hazard: P0 is read, but the instruction that writes it sets no scoreboard"),
    (822, "hazard: P3 is read, but the instruction that writes it sets no scoreboard"),
    (967, "hazard: P2 is read, but the instruction that writes it sets no scoreboard"),
    (1414, "uninitialized: P0 was never written"),
    (1754, "hazard: UR4 is overwritten 1 cycles after it was written"),
    (2390, "hazard: R21 is overwritten 1 cycles after it was written"),
    // As 510.
    (2437, "thread 0 offset 196: 0x03 and 0x7e"),
    (2460, "uninitialized: P5 was never written"),
    (2699, "hazard: P0 is read, but the instruction that writes it sets no scoreboard"),
    (3373, "hazard: P1 is read, but the instruction that writes it sets no scoreboard"),
    (3787, "uninitialized: P6 was never written"),
    (3976, "hazard: R2 is overwritten 1 cycles after it was written"),
    // As 510.
    (4019, "thread 0 offset 0: 0x10 and 0x0e"),
    (4031, "hazard: R8 is overwritten 1 cycles after it was written"),
    (4287, "hazard: UR4 is overwritten 4 cycles after it was written"),
    (4352, "uninitialized: P0 was never written"),
    // A form that the simulator does not know.
    (1_000_015, "unsupported: 'HFMA2_XRRRR'"),
    (1_000_037, "unsupported: 'HFMA2_XRRRI'"),
];

/// The programs of `1..=count`, or of what `SASSAFRAS_SEEDS` names (`7` or `201..300`), on all cores; for another chip where
/// `SASSAFRAS_CHIP` names one.
fn run(count: u64, max_registers: Option<u32>, wide: bool, chip: &str) {
    let other = std::env::var("SASSAFRAS_CHIP").ok();
    let chip = other.as_deref().unwrap_or(chip);
    let wide = wide || std::env::var_os("SASSAFRAS_WIDE").is_some();
    let launch = launch();
    testkit::seeds(1..=count, |seed| failure(seed, &launch, max_registers, wide, chip));
}

#[test]
fn programs_agree() {
    run(200, None, false, "sm_90");
}

/// The chips before sm_90 say much by other instructions.
#[test]
fn programs_agree_on_older_chips() {
    run(60, None, false, "sm_75");
    run(20, Some(24), false, "sm_75");
    run(60, None, false, "sm_80");
    run(20, Some(24), false, "sm_80");
    run(40, None, false, "sm_89");
}

/// So do those behind it.
#[test]
fn programs_agree_on_newer_chips() {
    run(40, None, false, "sm_100");
    run(20, Some(24), false, "sm_120");
    // The vendor's code of the 52nd has UIMAD.HI.
    run(60, None, false, "sm_120");
    // And of this one `QSPC` with the sum of a pair of registers and a uniform pair.
    let said = failure(60064, &launch(), None, true, "sm_120");
    assert!(said.is_none(), "{said:?}");
}

/// What a branch by something that differs chooses, with nothing on either way, is read from another thread: it was taken for what all have.
#[test]
fn a_choice_is_read_from_another_thread() {
    let said = failure(64788, &launch(), None, false, "sm_90");
    assert!(said.is_none(), "{said:?}");
}

/// Programs of every class of instruction.
#[test]
fn wide_programs_agree() {
    run(300, None, true, "sm_90");
}

/// Programs that compute the same of both halves of words.
#[test]
fn programs_of_halves_agree() {
    let other = std::env::var("SASSAFRAS_CHIP").ok();
    let chip = other.as_deref().unwrap_or("sm_90");
    let launch = launch();
    let first = random::sides::FIRST;
    testkit::seeds(first..=first + 60, |seed| failure(seed, &launch, None, true, chip));
}

/// Programs whose blocks go to each other as chance has it.
#[test]
fn programs_of_ways_agree() {
    let other = std::env::var("SASSAFRAS_CHIP").ok();
    let chip = other.as_deref().unwrap_or("sm_90");
    let launch = launch();
    let first = random::ways::FIRST;
    let count = std::env::var("SASSAFRAS_WAYS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    testkit::seeds(first..=first + count, |seed| failure(seed, &launch, None, false, chip));
    // With the statements of other programs.
    let first = random::ways::MIXED;
    testkit::seeds(first..=first + count / 3, |seed| failure(seed, &launch, None, false, chip));
    testkit::seeds(first..=first + count / 3, |seed| failure(seed, &launch, None, true, chip));
    testkit::seeds(first..=first + count / 6, |seed| failure(seed, &launch, Some(32), false, chip));
    // Of whole warps, too, where all threads go the same ways.
    let first = random::ways::TOGETHER;
    testkit::seeds(first..=first + count / 6, |seed| failure(seed, &launch, None, false, chip));
    testkit::seeds(first..=first + count / 6, |seed| failure(seed, &launch, None, true, chip));
}

/// A function that gives barriers up is called by a part of a warp, while the others wait at one of the same number.
#[test]
fn what_a_called_function_gives_up_is_its_own() {
    for seed in [2_001_131, 2_001_139] {
        let said = failure(seed, &launch(), None, false, "sm_90");
        assert!(said.is_none(), "{said:?}");
    }
}

/// The same with few registers, so that much is spilled.
#[test]
fn programs_agree_when_spilled() {
    run(100, Some(24), false, "sm_90");
}

/// Some seconds of changed programs; `SASSAFRAS_FUZZ=1200` makes it twenty minutes.
#[test]
fn changed_programs_do_no_harm() {
    let seconds = std::env::var("SASSAFRAS_FUZZ").ok().and_then(|s| s.parse().ok()).unwrap_or(8);
    random::mutated::run(0x5a55_af2a_5000_0001 ^ seconds, seconds);
}
