//! Our tools beside the vendor's: options, messages, exit codes, listings.

use testkit::Scratch;
use testkit::tool::run;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_option_of_the_vendor_is_known() {
    for oracle in testkit::oracle::releases() {
        let dir = Scratch::new("options");
        let theirs = text(&run(oracle.join("bin/ptxas"), &dir, &["--help"]).stdout);
        let ours = text(&run(env!("CARGO_BIN_EXE_ptxas"), &dir, &["--help"]).stdout);
        // The first two and the last words of the lines of options: name, what follows, short name.
        let heads = |help: &str| -> Vec<(String, String)> {
            let lines = help.lines().filter(|l| l.starts_with("--"));
            let heads = lines.map(|l| {
                let name = l.split_whitespace().next().unwrap_or_default().to_string();
                let short = l.rsplit("  ").map(str::trim).find(|w| w.starts_with("(-")).unwrap_or_default().to_string();
                (name, short)
            });
            heads.collect()
        };
        let ours = heads(&ours);
        let theirs = heads(&theirs);
        assert!(theirs.len() > 40, "{}", theirs.len());
        for head in theirs {
            assert!(ours.contains(&head), "{head:?} of {}", oracle.display());
        }
    }
}

/// Command lines that both tools refuse: the same words, the same exit code.
#[test]
fn mistakes_are_told_as_the_vendor_tells_them() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("mistakes");
    std::fs::write(dir.join("a.ptx"), ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n")
        .expect("writable");
    std::fs::write(
        dir.join("bad.ptx"),
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { foo; }\n",
    )
    .expect("writable");
    std::fs::write(dir.join("empty.ptx"), "").expect("writable");
    std::fs::write(dir.join("a.opt"), "-arch sm_91").expect("writable");
    for args in [
        &["--bogus", "a.ptx"][..],
        &["-bogus", "a.ptx"],
        &["-verbose", "a.ptx"],
        &["--arch", "sm_90", "a.ptx"],
        &["-arch"],
        &["a.ptx", "-o"],
        &["-arch", "sm_91", "a.ptx"],
        &["-arch=", "a.ptx"],
        &["-arch=sm_90,sm_80", "a.ptx"],
        &["-arch=sm_50", "a.ptx"],
        &["-arch=sm_90", "none.ptx"],
        &["-arch=sm_90", "empty.ptx"],
        &["-arch=sm_90", "bad.ptx"],
        &["-arch=sm_80", "a.ptx"],
        &["-arch=sm_90", "-Ox", "a.ptx"],
        &["-arch=sm_90", "--opt-level", "a.ptx"],
        &["-arch=sm_90", "-O", "2", "a.ptx"],
        &["-arch=sm_90", "-maxrregcount=abc", "a.ptx"],
        &["-arch=sm_90", "-v=true", "a.ptx"],
        &["-arch=sm_90", "--fmad", "maybe", "a.ptx"],
        &["-arch=sm_90", "-fmad", "-v", "a.ptx"],
        &["-arch=sm_90", "-optf", "none", "a.ptx"],
        &["-optf", "a.opt", "a.ptx"],
        &["-arch=sm_90", "-m", "32", "a.ptx"],
        &["-arch=sm_90", "-sanitize=foo", "a.ptx"],
        &["-arch=sm_90", "-no-bb-merge=1", "a.ptx"],
        &["-arch=sm_90", "-ias", "foo"],
        &["-arch=sm_90", "-arch=sm_80", "a.ptx"],
    ] {
        let theirs = run(oracle.join("bin/ptxas"), &dir, args);
        let ours = run(env!("CARGO_BIN_EXE_ptxas"), &dir, args);
        assert_eq!(text(&ours.stderr), text(&theirs.stderr), "{args:?}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{args:?}");
    }
    for args in [&["-arch=compute_90", "a.ptx"][..], &["-arch=lto_90", "a.ptx"], &["--list-arch"], &["-version-ls"]] {
        let theirs = run(oracle.join("bin/ptxas"), &dir, args);
        let ours = run(env!("CARGO_BIN_EXE_ptxas"), &dir, args);
        assert_eq!(ours.status.code(), theirs.status.code(), "{args:?}");
        let sorted = |out: &[u8]| {
            let mut lines: Vec<String> = text(out).lines().map(str::to_string).collect();
            lines.sort();
            lines
        };
        if args.len() == 1 {
            // The vendor's list of PTX versions leaves out 5.2, which its compiler takes.
            let ours = sorted(&ours.stdout);
            assert!(sorted(&theirs.stdout).iter().all(|line| ours.contains(line)), "{args:?}: {ours:?}");
        }
    }
}

/// Files that are printed otherwise, with why. Everything else must be the same byte for byte.
const OTHERWISE: &[(&str, &str, &str)] = &[
    // An indexed branch without its relocation: what the vendor's tool shows for the distance is not understood.
    ("switch_brx", "-json", "-c"),
    // Which of two names a function without kernel has as a node.
    ("function_table", "-bbcfg", "-O3"),
    ("triton_quantize", "-cfg", "-g"),
];

/// The ways of printing that must be those of the vendor.
const WAYS: [&[&str]; 11] = [
    &["-c"],
    &["-c", "-hex"],
    &[],
    &["-raw"],
    &["-json"],
    &["-plr"],
    &["-bbcfg"],
    &["-sf", "-sort"],
    &["-cfg", "-poff"],
    &["-c", "-gi"],
    &["-c", "-gp"],
];

/// Files of the other chips: some kernels, the ways that differ most from chip to chip. SASSAFRAS_LISTINGS=all asks for all
/// kernels.
#[test]
fn listings_of_other_chips_are_those_of_the_vendor() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let all = std::env::var("SASSAFRAS_LISTINGS").is_ok_and(|v| v == "all");
    let dir = Scratch::new("chips");
    let (mut wrong, mut compared, mut unknown, mut next) = (Vec::new(), 0, 0, 0);
    for target in ["75", "80", "86", "87", "88", "89", "100a", "103a", "110a", "120a", "121a"] {
        testkit::isa::kernels(&oracle, target, &[3], if all { 1 } else { 26 }, &mut |name, cubin| {
            std::fs::write(dir.join("k.cubin"), cubin).expect("writable");
            // Instructions that the description lacks are the matter of other tests.
            if cli::nvdisasm::print_bytes(cubin, &["-c"]).is_ok_and(|t| t.contains(".word 0x")) {
                unknown += 1;
                return;
            }
            next += 1;
            let ways: [&[&str]; 4] = [&["-hex"], &["-json"], &["-plr"], &["-bbcfg"]];
            for (w, way) in ways.into_iter().enumerate() {
                // Every run of the vendor's tool costs most of a second.
                if !all && (w + next) % 2 != 0 || OTHERWISE.iter().any(|o| name.starts_with(o.0) && way.contains(&o.1))
                {
                    continue;
                }
                let args: Vec<&str> = way.iter().copied().chain(["k.cubin"]).collect();
                let theirs = run(oracle.join("bin/nvdisasm"), &dir, &args);
                let ours = cli::nvdisasm::print_bytes(cubin, way).unwrap_or_else(|m| m);
                compared += 1;
                if text(&theirs.stdout) != ours {
                    let theirs = text(&theirs.stdout);
                    let first = theirs.lines().zip(ours.lines()).find(|(x, y)| x != y);
                    wrong.push(format!("sm_{target} {name} {way:?}: {first:?}"));
                }
            }
        });
    }
    eprintln!("{compared} listings compared, {unknown} files with instructions that are not known");
    assert!(compared >= 20, "{compared}");
    assert!(wrong.is_empty(), "{} listings differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Files to be linked for chips whose relocations of instructions differ from those of sm_90; and the hazard checker on them.
#[test]
fn linkable_files_of_other_chips() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("linkable");
    for (target, name, second) in [
        ("75", "features/atom_xor_b32", "-plr"),
        ("75", "cuda/radix_pass", "-bbcfg"),
        ("75", "features/txq_handles", "-plr"),
        ("86", "features/call_meets", "-bbcfg"),
        ("86", "features/call_meets", "-plr"),
        ("80", "features/cp_async_ca8", "-plr"),
        ("86", "features/wmma_tf32_cr", "-plr"),
    ] {
        let path = testkit::root().join(format!("tests/kernels/{name}.ptx"));
        let ptx = std::fs::read_to_string(&path).expect("readable");
        std::fs::write(dir.join("k.ptx"), testkit::isa::retargeted(&ptx, target)).expect("writable");
        let arch = format!("-arch=sm_{target}");
        let made = run(oracle.join("bin/ptxas"), &dir, &[&arch, "-c", "k.ptx", "-o", "k.cubin"]);
        assert!(made.status.success(), "{name}: {}", text(&made.stderr));
        for way in ["-c", second] {
            let theirs = text(&run(oracle.join("bin/nvdisasm"), &dir, &[way, "k.cubin"]).stdout);
            let ours = text(&run(env!("CARGO_BIN_EXE_nvdisasm"), &dir, &[way, "k.cubin"]).stdout);
            let first = theirs.lines().zip(ours.lines()).find(|(x, y)| x != y);
            assert!(theirs == ours && theirs.len() > 1000, "sm_{target} {name} {way}: {first:?}");
        }
        let bytes = std::fs::read(dir.join("k.cubin")).expect("readable");
        assert_eq!(cli::tools::hazards(&bytes).expect("a cubin"), Vec::<String>::new(), "sm_{target} {name}");
        // No instruction waits for a scoreboard.
        let mut elf = cubin::elf::Elf::read(&bytes).expect("a cubin");
        for section in elf.sections.iter_mut().filter(|s| s.name.starts_with(".text.")) {
            section.data.chunks_exact_mut(16).for_each(|word| {
                word[14] &= 0x0f;
                word[15] &= 0xfc;
            });
        }
        assert!(!cli::tools::hazards(&elf.write()).expect("a cubin").is_empty(), "sm_{target} {name}");
    }
}

#[test]
fn listings_are_those_of_the_vendor() {
    let oracles = testkit::oracle::releases();
    let Some(oracle) = oracles.first() else { return };
    let corpus = testkit::corpus();
    // Every run of the vendor's tool costs most of a second: a way for each file, another for the next one. SASSAFRAS_LISTINGS=all asks for everything.
    let all = std::env::var("SASSAFRAS_LISTINGS").is_ok_and(|v| v == "all");
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let dir = Scratch::new("listings");
        let (mut wrong, mut compared) = (Vec::new(), 0);
        loop {
            let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(ptx) = corpus.get(n) else { return (wrong, compared) };
            let name = ptx.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let ptx = ptx.to_string_lossy().into_owned();
            let arch = if name.starts_with("triton") { "-arch=sm_90a" } else { "-arch=sm_90" };
            let kinds = ["-O3", "-c", "-lineinfo", "-O3", "-g"];
            for (k, kind) in kinds.iter().enumerate().filter(|(k, _)| all && *k != 3 || n % kinds.len() == *k) {
                let release = &oracles[(n / 5 + k) % oracles.len()];
                let made = run(release.join("bin/ptxas"), &dir, &[arch, kind, &ptx, "-o", "k.cubin"]);
                assert!(made.status.success(), "{name}: {}", text(&made.stderr));
                for (w, way) in WAYS.iter().enumerate() {
                    if !all && w != n % WAYS.len() && (!n.is_multiple_of(4) || w != (n / 4 * 2 + 5) % WAYS.len()) {
                        continue;
                    }
                    let args: Vec<&str> = way.iter().copied().chain(["k.cubin"]).collect();
                    let theirs = run(oracle.join("bin/nvdisasm"), &dir, &args);
                    if theirs.status.code().is_none() {
                        // The vendor's tool crashes on some linkable files when asked for JSON.
                        continue;
                    }
                    let ours = run(env!("CARGO_BIN_EXE_nvdisasm"), &dir, &args);
                    compared += 1;
                    let known = |o: &&(&str, &str, &str)| o.0 == name && way.contains(&o.1) && o.2 == *kind;
                    if theirs.stdout != ours.stdout && !OTHERWISE.iter().any(|o| known(&o)) {
                        let (a, b) = (text(&theirs.stdout), text(&ours.stdout));
                        let first = a.lines().zip(b.lines()).find(|(x, y)| x != y);
                        let short = |s: &str| s.chars().take(300).collect::<String>();
                        wrong.push(format!("{name} {kind} {way:?}: {:?}", first.map(|(a, b)| (short(a), short(b)))));
                    }
                }
            }
            if n % 8 == 1 {
                let elf =
                    cubin::elf::Elf::read(&std::fs::read(dir.join("k.cubin")).expect("readable")).expect("a cubin");
                let code = elf.sections.iter().find(|s| s.name.starts_with(".text.")).expect("code");
                std::fs::write(dir.join("raw.bin"), &code.data).expect("writable");
                let args = ["-b", "SM90", "-base", "0x100", "raw.bin"];
                let theirs = run(oracle.join("bin/nvdisasm"), &dir, &args);
                let ours = run(env!("CARGO_BIN_EXE_nvdisasm"), &dir, &args);
                if theirs.stdout != ours.stdout {
                    wrong.push(format!("{name} raw"));
                }
            }
        }
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|r| r.join().expect("no panic")).collect()
    });
    let compared: usize = results.iter().map(|r| r.1).sum();
    let wrong: Vec<String> = results.into_iter().flat_map(|r| r.0).collect();
    eprintln!("{compared} listings compared");
    assert!(compared > 80, "{compared}");
    assert!(wrong.is_empty(), "{} listings differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn mistakes_of_the_disassembler_are_told_as_the_vendor_tells_them() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("nvdisasm");
    std::fs::write(dir.join("text"), "no cubin").expect("writable");
    for args in [
        &["-x"][..],
        &["none.cubin"],
        &["-b", "SM77", "text"],
        &["text"],
        &["-b"],
        &["-lrm", "foo", "text"],
        &["-cfg", "-bbcfg", "text"],
        &["-annotate", "text"],
        &["-plr", "-bbcfg", "text"],
    ] {
        let theirs = run(oracle.join("bin/nvdisasm"), &dir, args);
        let ours = run(env!("CARGO_BIN_EXE_nvdisasm"), &dir, args);
        assert_eq!(text(&ours.stderr), text(&theirs.stderr), "{args:?}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{args:?}");
    }
    let theirs = text(&run(oracle.join("bin/nvdisasm"), &dir, &["--help"]).stdout);
    let ours = text(&run(env!("CARGO_BIN_EXE_nvdisasm"), &dir, &["--help"]).stdout);
    for line in theirs.lines().filter(|l| l.starts_with("--")) {
        let mut words = line.split_whitespace();
        let (long, short) = (words.next().unwrap_or_default(), words.next_back().unwrap_or_default());
        assert!(ours.lines().any(|l| l.starts_with(long) && l.trim_end().ends_with(short)), "{line}");
    }
}

/// The vendor's tools take our files as they take their own: no complaint, and something printed or linked.
#[test]
fn our_files_are_read_by_the_vendors_tools() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("our-files");
    let mut wrong = Vec::new();
    for ptx in testkit::corpus() {
        let source = std::fs::read_to_string(&ptx).expect("readable");
        let arch = format!("-arch={}", testkit::oracle::arch(&source));
        let name = ptx.to_string_lossy().into_owned();
        let made = run(env!("CARGO_BIN_EXE_ptxas"), &dir, &[&arch, &name, "-o", "k.cubin"]);
        assert!(made.status.success(), "{name}: {}", text(&made.stderr));
        for (tool, args) in
            [("cuobjdump", &["-elf", "k.cubin"][..]), ("nvlink", &[&arch, "k.cubin", "-o", "linked.cubin"])]
        {
            let done = run(oracle.join("bin").join(tool), &dir, args);
            let silent = done.stderr.is_empty() && (tool != "nvlink" || done.stdout.is_empty());
            if !done.status.success() || !silent {
                wrong.push(format!("{tool} of {name}: {}{}", text(&done.stdout), text(&done.stderr)));
            }
        }
        assert!(std::fs::remove_file(dir.join("linked.cubin")).is_ok(), "{name} was not linked");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
