//! Files that are cut, changed or made up: no tool may panic. Some seconds, twenty where `CI` is set; `SASSAFRAS_FUZZ=600` makes it ten
//! minutes.

use cubin::fatbin::Kind;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::tool::must;
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

/// When to end.
fn end(usual: u64) -> Instant {
    let seconds = std::env::var("SASSAFRAS_FUZZ").ok().and_then(|s| s.parse().ok()).unwrap_or(usual);
    Instant::now() + Duration::from_secs(seconds)
}

/// Files that hold others, for `cuobjdump` and `fatbinary`: fatbins with each compression, a host object with both, an archive;
/// and cubins for debuggers, damaged in the sections that these read.
#[test]
fn damaged_containers_do_no_harm() {
    let Some(release) = oracle::latest() else { return };
    let bin = release.join("bin");
    let dir = testkit::Scratch::new("fuzz-containers");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/debug/shapes.cu").display().to_string();
    let nvcc = |args: &[&str]| must(bin.join("nvcc"), &dir, &[&["-w", "-std=c++17", &source], args].concat());
    let cubins = ["75", "120"].map(|sm| {
        nvcc(&["-cubin", "-G", &format!("-arch=sm_{sm}"), "-o", "k.cubin"]);
        std::fs::read(dir.join("k.cubin")).expect("a cubin")
    });
    nvcc(&["-c", "-rdc=true", "-gencode=arch=compute_80,code=[sm_80,compute_80]", "-o", "rel.o"]);
    nvcc(&["-c", "-arch=sm_90", "-o", "exec.o"]);
    must("ar", &dir, &["rcs", "lib.a", "rel.o", "exec.o"]);
    let mut files: Vec<Vec<u8>> =
        ["rel.o", "exec.o", "lib.a"].map(|f| std::fs::read(dir.join(f)).expect("a file")).to_vec();
    let pack = |args: &[&str], cubin: &[u8]| {
        let args: Vec<String> = args.iter().map(|a| a.to_string()).collect();
        cli::fatbinary::pack(&args, Kind::Elf, "75", cubin.to_vec())
    };
    let ways = [&["--compress=false"][..], &[], &["--compress-mode=size"], &["--compress-mode=speed"]];
    files.extend(ways.iter().map(|w| pack(w, &cubins[0]).expect("a fatbin")));
    let end = end(4);
    let (mut random, mut rounds) = (Random(2), [0u64; 3]);
    while Instant::now() < end {
        let whole = &files[random.index(files.len())];
        let bytes = damaged(&mut random, whole);
        let _ = cli::cuobjdump::print_file(&bytes);
        rounds[0] += 1;
        // Where debugging information lies.
        let mut cubin = cubins[random.index(2)].clone();
        let elf = cubin::elf::Elf::read(&cubin).expect("whole");
        let sections: Vec<_> = elf.sections.iter().filter(|s| s.name.contains("debug_")).collect();
        for _ in 0..1 + random.index(6) {
            let s = &sections[random.index(sections.len())];
            if !s.data.is_empty() {
                // Heads more often than what follows.
                let most = if random.index(2) == 0 { s.data.len() } else { s.data.len().min(64) };
                cubin[s.offset as usize + random.index(most)] = random.bits() as u8;
            }
        }
        let _ = cli::cuobjdump::print_bytes(&cubin);
        rounds[1] += 1;
        let cubin = damaged(&mut random, &cubins[0]);
        let _ = pack(ways[random.index(ways.len())], &cubin);
        rounds[2] += 1;
    }
    let [containers, debug, packed] = rounds;
    eprintln!("{containers} containers, {debug} files for debuggers, {packed} fatbins of damaged cubins");
    assert!(containers > 3, "{containers}");
}

/// PTX among the inputs of `nvlink`, and PTX for `fatbinary`: every text of the corpus of no more than 20 KB, damaged.
#[test]
fn damaged_ptx_for_the_linker_does_no_harm() {
    let texts: Vec<Vec<u8>> = testkit::corpus().iter().map(|p| std::fs::read(p).expect("readable")).collect();
    let texts: Vec<&Vec<u8>> = texts.iter().filter(|t| t.len() < 20_000).collect();
    let end = end(4);
    let (mut random, mut rounds, mut linked) = (Random(3), 0u64, 0u64);
    while Instant::now() < end {
        let whole = texts[random.index(texts.len())];
        let target = oracle::arch(std::str::from_utf8(whole).expect("text")).to_string();
        let bytes = match random.index(3) {
            // A line less or a line twice: much of that is still PTX.
            0 => {
                let mut lines: Vec<&[u8]> = whole.split(|b| *b == b'\n').collect();
                let at = random.index(lines.len());
                let line = lines.remove(at);
                if random.index(2) == 0 {
                    lines.insert(random.index(lines.len()), line);
                }
                lines.join(&b'\n')
            }
            _ => damaged(&mut random, whole),
        };
        let _ = cli::fatbinary::pack(&[], Kind::Ptx, "80", bytes.clone());
        let mut args = vec![format!("-arch={target}")];
        args.extend((random.index(4) == 0).then(|| "-r".to_string()));
        linked += cli::nvlink::link_bytes(&args, bytes).is_ok() as u64;
        rounds += 1;
    }
    eprintln!("{rounds} texts, {linked} of them linked");
    assert!(linked > 0 && linked < rounds, "{linked} of {rounds}");
}

#[test]
fn damaged_files_do_no_harm() {
    let end = end(if std::env::var_os("CI").is_some() { 20 } else { 8 });
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
