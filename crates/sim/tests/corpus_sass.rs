//! Two witnesses: the PTX interpreter and the vendor's machine code in the simulator leave the same memory, bit for bit,
//! on every launch of the corpus, with the hazard check on. `SIM_LEVEL=-O0` asks the vendor for another level.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use testkit::oracle;

/// Kernels with approximate functions, whose results PTX bounds but does not define: single-precision outputs may differ
/// by this relative error, and by this absolute one.
const APPROXIMATE: [(&str, f32, f32); 4] = [
    ("approx", 5e-7, 0.0),
    ("triton_attention", 1e-6, 2e-7),
    ("triton_dropout", 5e-7, 0.0),
    ("triton_softmax", 1e-6, 0.0),
];

/// In double precision PTX leaves the payload of a NaN open.
fn same_doubles(got: &[u8], want: &[u8]) -> bool {
    got.len() == want.len()
        && got.chunks(8).zip(want.chunks(8)).all(|(g, w)| {
            let nan = |b: &[u8]| b.try_into().map(f64::from_le_bytes).is_ok_and(f64::is_nan);
            g == w || nan(g) && nan(w)
        })
}

fn close(name: &str, got: &[u8], want: &[u8]) -> bool {
    if name.starts_with("doubles.") {
        return same_doubles(got, want);
    }
    let Some(&(_, relative, absolute)) = APPROXIMATE.iter().find(|a| name.starts_with(a.0)) else { return false };
    got.len() == want.len()
        && got.chunks(4).zip(want.chunks(4)).all(|(g, w)| {
            let value = |b: &[u8]| b.try_into().map(f32::from_le_bytes).ok();
            let (Some(x), Some(y)) = (value(g), value(w)) else { return g == w };
            let good = g == w || (x.is_nan() && y.is_nan()) || (x - y).abs() <= absolute.max(relative * y.abs());
            if !good && std::env::var_os("SIM_VERBOSE").is_some() {
                eprintln!("{name}: {x:e} {y:e}");
            }
            good
        })
}

/// Holds the launches against the vendor's code for a chip; what differs, and how many agree.
fn compare(ptxas: &Path, chip: Option<&str>, cases: &[common::Case]) -> (Vec<String>, usize) {
    let mut cubins: BTreeMap<PathBuf, Option<Vec<u8>>> = BTreeMap::new();
    let (mut bad, mut good) = (Vec::new(), 0);
    let verbose = std::env::var_os("SIM_VERBOSE").is_some();
    for c in cases {
        let mut text = std::fs::read_to_string(&c.ptx).unwrap();
        if let Some(chip) = chip {
            let target = oracle::arch(&text);
            text = text.replacen(&format!(".target {target}"), &format!(".target {chip}"), 1);
        }
        let cubin = cubins.entry(c.ptx.clone()).or_insert_with(|| {
            let arch = format!("-arch={}", chip.unwrap_or(oracle::arch(&text)));
            let level = std::env::var("SIM_LEVEL").unwrap_or("-O3".into());
            match oracle::compile(ptxas, &text, &[&arch, &level, "-fmad=false"]) {
                Ok(cubin) => Some(cubin),
                // Older chips have fewer instructions.
                Err(_) if chip.is_some() => None,
                Err(e) => panic!("{e}"),
            }
        });
        let Some(cubin) = cubin else { continue };
        let name = format!("{} {}", c.name, chip.unwrap_or_default());
        let (module, _) = ptx::parse(&text);
        let want = sim::run_ptx(&module, &c.launch, &sim::Config::default()).unwrap_or_else(|f| panic!("{name}: {f}"));
        let config =
            sim::Config { check_hazards: std::env::var_os("SIM_NO_HAZARDS").is_none(), ..sim::Config::default() };
        match sim::run_sass(cubin, &c.launch, &config) {
            Err(f) => bad.push(format!("{name}: {f}")),
            Ok(got) => {
                let before = bad.len();
                for (i, (g, w)) in got.buffers.iter().zip(&want.buffers).enumerate() {
                    if let Some(d) = common::difference(g, w)
                        && !close(&c.name, g, w)
                    {
                        bad.push(format!("{name}: buffer {i} {d}"));
                    }
                }
                good += (bad.len() == before) as usize;
                if verbose {
                    eprintln!("{name} {:?} {:?}", want.stats, got.stats);
                }
            }
        }
    }
    (bad, good)
}

#[test]
fn ptx_and_vendor_code_agree() {
    let Some(ptxas) = oracle::ptxas() else { return };
    let (bad, good) = compare(&ptxas, None, &common::cases());
    assert!(bad.is_empty(), "{good} agree, {} do not:\n{}", bad.len(), bad.join("\n"));
}

/// The same for older chips: each of the launches for one of them; for all of `SIM_CHIPS`, if it is set.
#[test]
fn code_for_older_chips_agrees() {
    let Some(ptxas) = oracle::ptxas() else { return };
    let named = std::env::var("SIM_CHIPS").ok();
    let chips: Vec<&str> = named.as_deref().unwrap_or("sm_75,sm_80,sm_89").split(',').collect();
    let (mut bad, mut good) = (Vec::new(), 0);
    for (n, chip) in chips.iter().enumerate() {
        let cases = common::cases().into_iter().enumerate();
        let mine: Vec<_> = cases.filter(|c| named.is_some() || c.0 % chips.len() == n).map(|c| c.1).collect();
        let (b, g) = compare(&ptxas, Some(chip), &mine);
        bad.extend(b);
        good += g;
    }
    assert!(bad.is_empty(), "{good} agree, {} do not:\n{}", bad.len(), bad.join("\n"));
    assert!(good > 100 || std::env::var_os("SIM_ONLY").is_some(), "only {good} launches were compared");
}
