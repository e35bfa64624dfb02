//! Two witnesses: the PTX interpreter and the vendor's machine code in the simulator leave the same memory, bit for bit,
//! on every launch of the corpus, with the hazard check on. `SIM_LEVEL=-O0` asks the vendor for another level.

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use testkit::oracle;

/// Kernels with approximate functions, whose results PTX bounds but does not define: single-precision outputs may differ
/// by this relative error, and by this absolute one.
const APPROXIMATE: [(&str, f32, f32); 3] =
    [("approx", 5e-7, 0.0), ("triton_dropout", 5e-7, 0.0), ("triton_softmax", 1e-6, 0.0)];

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

#[test]
fn ptx_and_vendor_code_agree() {
    let Some(ptxas) = oracle::ptxas() else { return };
    let mut cubins: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    let (mut bad, mut good) = (Vec::new(), 0);
    let verbose = std::env::var_os("SIM_VERBOSE").is_some();
    for c in common::cases() {
        let text = std::fs::read_to_string(&c.ptx).unwrap();
        let cubin = cubins.entry(c.ptx.clone()).or_insert_with(|| {
            let arch = format!("-arch={}", oracle::arch(&text));
            let level = std::env::var("SIM_LEVEL").unwrap_or("-O3".into());
            oracle::compile(&ptxas, &text, &[&arch, &level, "-fmad=false"]).unwrap_or_else(|e| panic!("{e}"))
        });
        let (module, _) = ptx::parse(&text);
        let want =
            sim::run_ptx(&module, &c.launch, &sim::Config::default()).unwrap_or_else(|f| panic!("{}: {f}", c.name));
        let config =
            sim::Config { check_hazards: std::env::var_os("SIM_NO_HAZARDS").is_none(), ..sim::Config::default() };
        match sim::run_sass(cubin, &c.launch, &config) {
            Err(f) => bad.push(format!("{}: {f}", c.name)),
            Ok(got) => {
                let before = bad.len();
                for (i, (g, w)) in got.buffers.iter().zip(&want.buffers).enumerate() {
                    if let Some(d) = common::difference(g, w)
                        && !close(&c.name, g, w)
                    {
                        bad.push(format!("{}: buffer {i} {d}", c.name));
                    }
                }
                good += (bad.len() == before) as usize;
                if verbose {
                    eprintln!("{} {:?} {:?}", c.name, want.stats, got.stats);
                }
            }
        }
    }
    assert!(bad.is_empty(), "{good} agree, {} do not:\n{}", bad.len(), bad.join("\n"));
}
