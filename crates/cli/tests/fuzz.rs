//! Files that are cut, changed or made up: no tool may panic. Some seconds, twenty where `CI` is set; `SASSAFRAS_FUZZ=600` makes it ten
//! minutes.

use std::time::{Duration, Instant};
use testkit::{Random, oracle};

/// Everything that reads a cubin.
fn feed(bytes: &[u8], other: &[u8]) {
    for options in [
        &[][..],
        &["-c", "-hex"],
        &["-json", "-annotate"],
        &["-plr"],
        &["-bbcfg"],
        &["-cfg"],
        &["-c", "-gi"],
        &["-c", "-gp"],
        &["-c", "--control", "--latency"],
    ] {
        let _ = cli::nvdisasm::print_bytes(bytes, options);
    }
    let _ = cli::cuobjdump::print_bytes(bytes);
    let _ = cli::tools::hazards(bytes);
    if let (Ok(a), Ok(b)) = (cubin::elf::Elf::read(bytes), cubin::elf::Elf::read(other)) {
        let _ = cubin::diff::diff(&a, &b);
        assert_eq!(a.write(), bytes);
    }
    let _ = cli::asm::disassemble(bytes);
}

fn damaged(random: &mut Random, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    match random.index(4) {
        0 => bytes.truncate(random.index(whole.len())),
        1 => {
            for _ in 0..1 + random.index(8) {
                let at = random.index(bytes.len());
                bytes[at] ^= 1 << random.index(8);
            }
        }
        2 => {
            // Somewhere in the headers, where it tells most.
            for _ in 0..1 + random.index(4) {
                let tables = bytes.len().saturating_sub(0x800);
                let at =
                    if random.index(2) == 0 { random.index(64) } else { tables + random.index(bytes.len() - tables) };
                bytes[at] = random.bits() as u8;
            }
        }
        _ => {
            let at = random.index(bytes.len());
            let len = random.index(64).min(bytes.len() - at);
            bytes[at..at + len].iter_mut().for_each(|b| *b = random.bits() as u8);
        }
    }
    bytes
}

#[test]
fn damaged_files_do_no_harm() {
    let usual = if std::env::var_os("CI").is_some() { 20 } else { 8 };
    let seconds = std::env::var("SASSAFRAS_FUZZ").ok().and_then(|s| s.parse().ok()).unwrap_or(usual);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut random = Random(1);
    let mut files: Vec<Vec<u8>> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    if let Some(ptxas) = oracle::ptxas() {
        for (n, ptx) in testkit::corpus().iter().step_by(9).enumerate() {
            let text = std::fs::read_to_string(ptx).expect("readable");
            let options = ["-arch", oracle::arch(&text), ["-lineinfo", "-c", "-g"][n % 3]];
            files.push(oracle::compile(&ptxas, &text, &options).expect("compiles"));
        }
    }
    if let Some(release) = oracle::latest() {
        for target in ["75", "89", "100a", "120a"] {
            testkit::isa::kernels(&release, target, &[3], 40, &mut |_, cubin| files.push(cubin.to_vec()));
        }
    }
    let ours = ".kernel k .target sm_90 .params 8\nEXIT\n";
    files.push(cli::asm::assemble(ours).expect("assembles"));
    files.sort_by_key(Vec::len);
    files.truncate(14);
    for f in &files {
        texts.extend(cli::asm::disassemble(f).map(|t| t.0));
    }
    let mut rounds = 0;
    while Instant::now() < end {
        let whole = &files[random.index(files.len())];
        let bytes = damaged(&mut random, whole);
        feed(&bytes, whole);
        let noise: Vec<u8> = (0..random.index(600)).map(|_| random.bits() as u8).collect();
        feed(&noise, whole);
        let _ = cli::nvdisasm::print_bytes(
            &noise[..noise.len() / 16 * 16],
            &["-b", ["SM75", "SM80", "SM90", "SM100", "SM120"][rounds % 5]],
        );
        // Text with words left out, doubled or changed.
        let text = &texts[random.index(texts.len())];
        let text = String::from_utf8_lossy(&damaged(&mut random, text.as_bytes())).into_owned();
        let _ = cli::asm::assemble(&text);
        let mut lines: Vec<&str> = text.lines().collect();
        if !lines.is_empty() {
            let (a, b) = (random.index(lines.len()), random.index(lines.len()));
            lines.swap(a, b);
            let _ = cli::asm::assemble(&lines.join("\n"));
        }
        rounds += 1;
    }
    eprintln!("{rounds} rounds");
    assert!(rounds > 5, "{rounds}");
}
