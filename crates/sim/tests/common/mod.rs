//! The kernel corpus: its launches, with what their outputs must be.

use sim::{Arg, Launch};
use std::path::{Path, PathBuf};

/// One launch file.
#[allow(dead_code)] // not every test needs every field
pub struct Case {
    /// `saxpy.basic`
    pub name: String,
    /// The PTX file.
    pub ptx: PathBuf,
    pub launch: Launch,
    /// By buffer argument: the expected content, where the corpus knows it.
    pub expected: Vec<Option<Vec<u8>>>,
}

#[allow(dead_code)]
fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels")
}

/// All launches, in the order of their names. `SIM_ONLY=name` leaves those whose name starts so.
#[allow(dead_code)]
pub fn cases() -> Vec<Case> {
    let only = std::env::var("SIM_ONLY").unwrap_or_default();
    let mut list = Vec::new();
    for family in ["cuda", "triton"] {
        let Ok(dir) = std::fs::read_dir(corpus().join(family)) else { continue };
        for path in dir.map(|e| e.unwrap().path()) {
            let file = path.file_name().unwrap().to_str().unwrap();
            let Some(name) = file.strip_suffix(".toml") else { continue };
            if name.starts_with(&only) {
                list.push(case(&path, name));
            }
        }
    }
    list.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

#[allow(dead_code)]
fn case(path: &Path, name: &str) -> Case {
    let dir = path.parent().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let launch = Launch::parse(&text, &mut |p| std::fs::read(dir.join(p)).map_err(|e| e.to_string()))
        .unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let kernel = name.split('.').next().unwrap();
    let expected = launch
        .args
        .iter()
        .filter_map(|a| match a {
            Arg::Buffer { out, .. } => Some(
                out.as_ref()
                    .and_then(|out| std::fs::read(corpus().join("expected").join(format!("{name}.{out}"))).ok()),
            ),
            _ => None,
        })
        .collect();
    Case { name: name.to_string(), ptx: dir.join(format!("{kernel}.ptx")), launch, expected }
}

/// The first difference of two buffers, in words.
#[allow(dead_code)]
pub fn difference(got: &[u8], want: &[u8]) -> Option<String> {
    if got.len() != want.len() {
        return Some(format!("{} bytes instead of {}", got.len(), want.len()));
    }
    let at = got.iter().zip(want).position(|(a, b)| a != b)? & !3;
    let word = |x: &[u8]| x[at..(at + 4).min(x.len())].iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
    Some(format!("at byte {at:#x}: {} instead of {}", word(got), word(want)))
}

/// Holds what the PTX interpreter left against what the vendor's machine code of the same text leaves in the simulator, for
/// the chips of `SIM_CHIPS` (sm_90a, if it is not set). Nothing is held against it without the vendor's tools.
#[allow(dead_code)]
pub fn witness(text: &str, launch: &Launch, want: &[Vec<u8>]) {
    // Where what is computed depends on how a thread's memory or constants lie, there is nothing to compare.
    if text.contains("alloca") || text.contains("isspacep") {
        return;
    }
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let config = sim::Config { max_instructions: 1_000_000, ..sim::Config::default() };
    for chip in std::env::var("SIM_CHIPS").unwrap_or("sm_90a".into()).split(',') {
        let option = format!("-arch={chip}");
        let for_chip = text.replacen(".target sm_90a", &format!(".target {chip}"), 1);
        let cubin = match testkit::oracle::compile(&ptxas, &for_chip, &[&option, "-fmad=false"]) {
            Ok(cubin) => cubin,
            // Older chips have fewer instructions.
            Err(_) if chip != "sm_90a" => continue,
            Err(e) => panic!("{chip}: {e}\n{text}"),
        };
        let got = sim::run_sass(&cubin, launch, &config).unwrap_or_else(|f| panic!("{chip}: {f}\n{text}"));
        for (n, (got, want)) in got.buffers.iter().zip(want).enumerate() {
            if let Some(d) = difference(got, want) {
                panic!("{chip}: buffer {n} {d}\n{text}");
            }
        }
    }
}

/// A float of a small integer, by counting: sign, exponent of the leading bit, the bits after it.
#[allow(dead_code)]
pub fn float(n: i64, exponent: u32, mantissa: u32) -> u64 {
    if n == 0 {
        return 0;
    }
    let m = n.unsigned_abs();
    let lead = m.ilog2();
    let bias = (1u64 << (exponent - 1)) - 1;
    let fraction = (m << mantissa >> lead) & ((1 << mantissa) - 1);
    ((n < 0) as u64) << (exponent + mantissa) | (lead as u64 + bias) << mantissa | fraction
}
