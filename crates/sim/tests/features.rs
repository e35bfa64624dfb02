//! Two witnesses of the kernels in `tests/kernels/features`: the PTX interpreter and the vendor's machine code in the
//! simulator leave the same memory. Each kernel is compiled for one of the chips that its first line names, in turn; with
//! `SIM_CHIPS=all` for every one.
mod common;

use sim::{Config, Launch};
use testkit::oracle;

#[test]
fn ptx_and_vendor_code_agree() {
    let Some(ptxas) = oracle::ptxas() else { return };
    let all = std::env::var("SIM_CHIPS").is_ok_and(|v| v == "all");
    let only = std::env::var("SIM_ONLY").unwrap_or_default();
    let files = testkit::files("tests/kernels/features", "ptx");
    assert!(files.len() >= 90, "{} kernels", files.len());
    let mut bad = Vec::new();
    for (n, file) in files.iter().enumerate() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.starts_with(&only) {
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        let named = text.lines().next().unwrap().trim_start_matches("// chips:").split_whitespace();
        // Of those since sm_100, which want newer versions of PTX, `cargo xtask conformance --chips` asks.
        let chips: Vec<&str> = named.filter(|c| !c.starts_with("sm_1")).collect();
        let launch = std::fs::read_to_string(file.with_extension("basic.toml")).unwrap();
        let launch = Launch::parse(&launch, &mut |_| Err("no file".into())).unwrap();
        let (module, mut list) = ptx::parse(&text);
        list.extend(ptx::check(&module, None));
        if let Some(d) = list.iter().find(|d| d.is_error()) {
            bad.push(format!("{name}: {}", d.message));
            continue;
        }
        let config = Config { max_instructions: 1_000_000, ..Config::default() };
        let want = match sim::run_ptx(&module, &launch, &config) {
            Ok(done) => done.buffers,
            Err(f) => {
                bad.push(format!("{name}: PTX: {f}"));
                continue;
            }
        };
        let same =
            launch.arrays.iter().zip(want.iter().rev().take(launch.arrays.len()).rev()).all(|(a, w)| a.data == *w);
        // The output is the second buffer, or the only one.
        let left = want.get(1).unwrap_or(&want[0]);
        if left.iter().all(|&b| b == 0) && same {
            bad.push(format!("{name}: the kernel leaves nothing"));
        }
        for (k, chip) in chips.iter().enumerate() {
            if !all && k != n % chips.len() {
                continue;
            }
            let for_chip = text.replacen(&format!(".target {}", chips[0]), &format!(".target {chip}"), 1);
            let option = format!("-arch={chip}");
            let cubin = match oracle::compile(&ptxas, &for_chip, &[&option, "-fmad=false"]) {
                Ok(cubin) => cubin,
                Err(e) => {
                    bad.push(format!("{name} {chip}: {e}"));
                    continue;
                }
            };
            match sim::run_sass(&cubin, &launch, &config) {
                Err(f) => bad.push(format!("{name} {chip}: {f}")),
                Ok(got) => {
                    let different = got.buffers.iter().zip(&want).filter_map(|(g, w)| common::difference(g, w));
                    bad.extend(different.map(|d| format!("{name} {chip}: {d}")));
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
