//! Random programs under the three witnesses: the PTX interpreter, the vendor's code in the simulator, ours in the
//! simulator. All three leave the same memory.

mod random;

use random::{IN_BYTES, OUT_BYTES, Rng};
use sim::{Arg, Config, Launch};

/// How many programs; each has its number as seed.
const PROGRAMS: u64 = 200;
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
    }
}

/// The first difference of two outputs, as thread and byte.
fn difference(a: &[u8], b: &[u8]) -> Option<String> {
    let at = a.iter().zip(b).position(|(x, y)| x != y)?;
    Some(format!("thread {} offset {}: {:#04x} and {:#04x}", at / OUT_BYTES, at % OUT_BYTES, a[at], b[at]))
}

#[test]
fn programs_agree() {
    let launch = launch();
    let only: Option<u64> = option_env!("SASSAFRAS_SEED").and_then(|s| s.parse().ok());
    let mut failed = Vec::new();
    for seed in 1..=PROGRAMS {
        if only.is_some_and(|o| o != seed) {
            continue;
        }
        let text = random::program(seed, 40 + (seed as usize * 7) % 160);
        let (m, d) = ptx::parse(&text);
        assert!(!d.iter().any(|d| d.is_error()), "seed {seed}: {d:?}\n{text}");
        let want = match sim::run_ptx(&m, &launch, &Config::default()) {
            Ok(o) => o.buffers[1].clone(),
            Err(f) => {
                failed.push(format!("seed {seed}: interpreter: {f:?}"));
                continue;
            }
        };
        let vendor = common::oracle::ptxas(&text, &["-arch=sm_90", "-fmad=false"]);
        for (who, cubin) in [("vendor", vendor)] {
            match sim::run_sass(&cubin, &launch, &Config::default()) {
                Ok(o) => {
                    if let Some(x) = difference(&want, &o.buffers[1]) {
                        failed.push(format!("seed {seed}: {who}: {x}"));
                    }
                }
                Err(f) => failed.push(format!("seed {seed}: {who}: {f:?}")),
            }
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

mod common {
    //! Compilers.

    pub mod oracle {
        //! The vendor's assembler as a black box.
        use std::path::PathBuf;
        use std::process::Command;

        /// Where the tool is: `SASSAFRAS_ORACLE`, or what `cargo xtask oracle` installed.
        fn tool() -> PathBuf {
            let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
            let home = std::env::var_os("SASSAFRAS_ORACLE").map(PathBuf::from);
            let candidates = [home, Some(root.join("target/oracle/latest")), Some(root.join("target/oracle"))];
            candidates
                .into_iter()
                .flatten()
                .map(|d| d.join("bin/ptxas"))
                .find(|p| p.exists())
                .expect("the oracle is not installed: run `cargo xtask oracle`")
        }

        /// Compiles PTX text; gives the cubin.
        pub fn ptxas(text: &str, options: &[&str]) -> Vec<u8> {
            let dir = std::env::temp_dir().join(format!("sassafras-random-{}", std::process::id()));
            std::fs::create_dir_all(&dir).expect("a temporary directory");
            let (input, output) = (dir.join("p.ptx"), dir.join("p.cubin"));
            std::fs::write(&input, text).expect("writable");
            let run = Command::new(tool()).args(options).arg(&input).arg("-o").arg(&output).output().expect("it runs");
            assert!(run.status.success(), "{}\n{text}", String::from_utf8_lossy(&run.stderr));
            std::fs::read(&output).expect("its output")
        }
    }
}
