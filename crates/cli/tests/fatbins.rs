//! `fatbinary` and `cuobjdump` beside the vendor's: what is in a fatbin, and what is said of every kind of file that holds one.

use std::path::{Path, PathBuf};
use testkit::Scratch;
use testkit::tool::{must, run, said};

const CUOBJDUMP: &str = env!("CARGO_BIN_EXE_cuobjdump");
const FATBINARY: &str = env!("CARGO_BIN_EXE_fatbinary");

const PTX: &str = ".version 8.8\n.target sm_80\n.address_size 64\n// a comment\n.visible .global .align 4 .b32 g = 3;\n\
    .visible .func f() {\n\tst.global.b32 \t[g], 4;\n\tret;\n}\n.visible .entry k(.param .b64 p) { call f; ret; }\n";

/// Shared variables, barriers, a limit of threads, constants, calls of the system.
const SHARED: &str = ".version 8.8\n.target sm_80\n.address_size 64\n.const .align 4 .b8 c[13] = {1, 2, 3, 4, 5};\n\
    .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n.global .align 1 .b8 text[6] = {104, 105, 37, 100, 10, 0};\n\
    .visible .entry k(.param .b64 p, .param .align 4 .b8 q[20]) .maxntid 64, 1, 1 {\n\
    .reg .b32 %r<9>; .reg .b64 %d<9>; .shared .align 8 .b8 s[40]; mov.u32 %r1, %tid.x; st.shared.b32 [s + 4], %r1; bar.sync 3;\n\
    ld.const.b32 %r2, [c + 4]; ld.shared.b32 %r3, [s]; add.u32 %r2, %r2, %r3; ld.param.b64 %d1, [p]; st.global.b32 [%d1], %r2;\n\
    { .param .b64 f; .param .b64 a; .param .b32 r; mov.u64 %d2, text; cvta.global.u64 %d3, %d2; st.param.b64 [f], %d3;\n\
    st.param.b64 [a], 0; call (r), vprintf, (f, a); } ret; }\n";

/// Files of every kind: two cubins, PTX, a fatbin, objects with finished code and with code for the linker, an archive.
fn files(bin: &Path) -> Scratch {
    let dir = Scratch::new("fatbins");
    std::fs::write(dir.join("k.ptx"), PTX).expect("writable");
    for sm in ["80", "90", "100"] {
        let text = PTX.replace("sm_80", &format!("sm_{sm}"));
        std::fs::write(dir.join("t.ptx"), text).expect("writable");
        must(bin.join("ptxas"), &dir, &[&format!("-arch=sm_{sm}"), "t.ptx", "-o", &format!("k{sm}.cubin")]);
        must(bin.join("ptxas"), &dir, &["-c", &format!("-arch=sm_{sm}"), "t.ptx", "-o", &format!("r{sm}.cubin")]);
    }
    dir
}

const IMAGES: [&str; 3] = [
    "--image3=kind=elf,sm=80,file=k80.cubin",
    "--image3=kind=ptx,sm=80,file=k.ptx",
    "--image3=kind=elf,sm=90,file=k90.cubin",
];

const MORE: &str = "--image3=kind=ptx,sm=90,file=k.ptx";
const CAPSULES: [&str; 2] = ["--image3=kind=elf,sm=100,file=k100.cubin", "--image3=kind=elf,sm=100,file=r100.cubin"];

/// The headers of a fatbin without the sizes of compressed bodies.
fn headers(bytes: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let (mut at, mut out) = (16, Vec::new());
    while at < bytes.len() {
        let mut head = bytes[at..at + word(at + 4)].to_vec();
        head[8..20].fill(0);
        out.push(head);
        at += word(at + 4) + word(at + 8);
    }
    out
}

/// Ways to make a fatbin, and whether its bytes are the vendor's: those of another zstd encoder are not.
const WAYS: [(&[&str], bool); 15] = [
    (&["--compress=false", CAPSULES[0], "-ident=k.cu"], true),
    (&["--compress=false"], true),
    (&["--compress-mode=none"], true),
    (&["--compress=false", "-ident", "k.cu", "-cmdline", "-v  "], true),
    (&["--compress=false", "-g"], true),
    (&["--compress=false", "--no-asm"], true),
    (&["--compress=false", "--no-asm", "-g", "-tileir-cmdline", "x"], true),
    (&[], false),
    (&["--compress-mode=speed"], false),
    (&["--compress-all"], false),
    (&["--compress-mode=size", "-ident=k.cu"], false),
    (&["--concat"], false),
    (&["--concat", "-ident=name.cu", "-cmdline", "-v", "-g", MORE], false),
    (&["--concat", "--compress-mode=speed", MORE], false),
    (&["--concat", "-c", CAPSULES[0], CAPSULES[1]], false),
];

#[test]
fn fatbins_hold_what_the_vendors_hold() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    let dir = files(&bin);
    for (options, same) in WAYS {
        for (tool, name) in [(Path::new(FATBINARY), "ours"), (&bin.join("fatbinary"), "theirs")] {
            let (create, embed) = (format!("--create={name}.fatbin"), format!("--embedded-fatbin={name}.c"));
            let args = [&["-64", &create, &embed], &IMAGES[..], options].concat();
            must(tool, &dir, &args);
        }
        let read = |name: &str| std::fs::read(dir.join(name)).expect("a file");
        if same {
            assert!(read("ours.fatbin") == read("theirs.fatbin"), "{options:?}");
            assert!(read("ours.c") == read("theirs.c"), "{options:?}");
        }
        let (ours, theirs) = (read("ours.fatbin"), read("theirs.fatbin"));
        let list = |bytes: &[u8]| -> Vec<_> {
            let entries = cubin::fatbin::read(bytes).expect("a fatbin");
            let parts = |e: &cubin::fatbin::Entry| {
                let options = e.options.as_ref().map(|o| o.to_vec());
                (
                    e.target(),
                    e.flags,
                    e.version,
                    e.identifier.to_vec(),
                    options,
                    e.unpack().expect("a body").into_owned(),
                )
            };
            entries.iter().map(parts).collect()
        };
        assert!(list(&ours) == list(&theirs), "{options:?}");
        if options.contains(&"--concat") {
            assert!(headers(&ours) == headers(&theirs), "{options:?}");
        }
        for what in ["-lelf", "-lptx", "-sass", "-ptx"] {
            let dump = |tool: &Path| said(&run(tool, &dir, &[what, "theirs.fatbin"]));
            assert_eq!(dump(Path::new(CUOBJDUMP)), dump(&bin.join("cuobjdump")), "{what} {options:?}");
        }
        // The vendor's tool reads ours.
        must(bin.join("cuobjdump"), &dir, &["-sass", "ours.fatbin"]);
    }
    let ways = [(&["-c"][..], "c"), (&["-link"], "link"), (&["-c", "--no-asm"], "c"), (&["-link", "--no-asm"], "link")];
    for (options, source) in ways {
        for (tool, name) in [(Path::new(FATBINARY), "ours"), (&bin.join("fatbinary"), "theirs")] {
            let embed = format!("--embedded-fatbin={name}.c");
            must(tool, &dir, &[&["-64", &embed, IMAGES[0], "--compress=false"], options].concat());
        }
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).expect("a file");
        assert_eq!(read("ours.c"), read("theirs.c"), "{source}");
    }
    // PTX for addresses of 32 bits; cubins have 64.
    let create = ["-32", "--compress=false", "--image3=kind=ptx,sm=80,file=k.ptx"];
    must(Path::new(FATBINARY), &dir, &[&create[..], &["--create=ours.fatbin"]].concat());
    must(bin.join("fatbinary"), &dir, &[&create[..], &["--create=theirs.fatbin"]].concat());
    assert!(
        std::fs::read(dir.join("ours.fatbin")).expect("a file")
            == std::fs::read(dir.join("theirs.fatbin")).expect("a file")
    );
    for tool in [Path::new(FATBINARY), &bin.join("fatbinary")] {
        let done = run(tool, &dir, &["-32", "--create=none.fatbin", IMAGES[0]]);
        assert!(said(&done).contains("elf size doesn't match user-specified size"), "{}", said(&done));
        assert_eq!(done.status.code(), Some(1));
    }
}

#[test]
fn what_cannot_be_a_fatbin() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = files(&oracle.join("bin"));
    for (image, message) in [
        ("kind=foo,sm=80,file=k80.cubin", "Missing or unknown kind in image3"),
        ("sm=80,file=k80.cubin", "Missing or unknown kind in image3"),
        ("kind=elf,file=k80.cubin", "Missing sm in image3"),
        ("kind=elf,sm=90,file=k80.cubin", "elf arch does not match user-specified arch"),
        ("kind=elf,sm=80,file=nowhere", "Could not open input file 'nowhere'"),
        ("kind=ptx,sm=80,file=k80.cubin", "could not find ptx version"),
        ("kind=elf,sm=80,file=k.ptx", "'k.ptx'"),
    ] {
        for tool in [Path::new(FATBINARY), &oracle.join("bin/fatbinary")] {
            let done = run(tool, &dir, &["-64", "--create=wrong.fatbin", &format!("--image3={image}")]);
            assert_eq!(done.status.code(), Some(1), "{image}");
            let mine = tool == Path::new(FATBINARY);
            assert!(!mine || said(&done).contains(message), "{image}: {}", said(&done));
            assert!(!dir.join("wrong.fatbin").exists(), "{image}");
        }
    }
}

/// Questions to files.
const QUESTIONS: [&[&str]; 23] = [
    &[],
    &["-lelf"],
    &["-lptx"],
    &["-lelf", "-lptx"],
    &["-all", "-lelf"],
    &["-symbols"],
    &["-ptx"],
    &["-sass"],
    &["-sass", "-fun", "k"],
    &["-arch", "sm_90", "-lelf"],
    &["-arch", "sm_80"],
    &["-arch", "sm_77", "-lelf"],
    &["-res-usage"],
    &["-res-usage", "-sass", "-symbols", "-elf"],
    &["-res-usage", "-sass", "-symbols"],
    &["-res-usage", "-fun", "k"],
    &["-res-usage", "-sort"],
    &["-sass", "-sort"],
    &["-sass", "-fun", "k,f", "-sort"],
    &["-sass", "-findex", "1"],
    &["-res-usage", "-findex", "0x6"],
    &["-ltext"],
    &["-arch", "sm_90", "-ltext"],
];

#[test]
fn files_are_shown_as_the_vendor_shows_them() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    let dir = files(&bin);
    must(bin.join("fatbinary"), &dir, &[&["-64", "--create=f.fatbin", "-ident=k.cu"], &IMAGES[..]].concat());
    // Objects as nvcc makes them, without its headers.
    for (object, section) in [("exec.o", ".nv_fatbin"), ("rel.o", "__nv_relfatbin")] {
        std::fs::write(dir.join("o.s"), format!(".section {section}, \"a\"\n.align 8\n.incbin \"f.fatbin\"\n"))
            .expect("writable");
        must(Path::new("as"), &dir, &["o.s", "-o", object]);
    }
    must(Path::new("ar"), &dir, &["rcs", "lib.a", "exec.o", "rel.o"]);
    must(Path::new("ar"), &dir, &["rcsT", "thin.a", "exec.o", "rel.o"]);
    must(Path::new("ld"), &dir, &["-r", "exec.o", "rel.o", "-o", "both.o"]);
    for file in [
        "k80.cubin",
        "k90.cubin",
        "r80.cubin",
        "r90.cubin",
        "f.fatbin",
        "exec.o",
        "rel.o",
        "both.o",
        "lib.a",
        "thin.a",
        "k.ptx",
        "nowhere",
    ] {
        // Those about functions are asked of four.
        let most = if ["k80.cubin", "r90.cubin", "both.o", "lib.a"].contains(&file) { QUESTIONS.len() } else { 12 };
        for question in &QUESTIONS[..most] {
            let args = [*question, &[file]].concat();
            let [mine, theirs] = [Path::new(CUOBJDUMP), &bin.join("cuobjdump")].map(|tool| run(tool, &dir, &args));
            assert_eq!(said(&mine), said(&theirs), "{args:?}");
            assert_eq!(mine.status.code(), theirs.status.code(), "{args:?}");
        }
    }
    // Whole cubins with their tables of lines.
    for (cubin, sm, text) in [("g90", "90", PTX), ("g120", "120", PTX), ("s75", "75", SHARED), ("s90a", "90a", SHARED)]
    {
        std::fs::write(dir.join("t.ptx"), text.replace("sm_80", &format!("sm_{sm}"))).expect("writable");
        let output = format!("{cubin}.cubin");
        must(bin.join("ptxas"), &dir, &["-lineinfo", &format!("-arch=sm_{sm}"), "t.ptx", "-o", &output]);
    }
    for file in ["k80", "k90", "r80", "r90", "g90", "g120", "s75", "s90a"] {
        let [mine, theirs] = [Path::new(CUOBJDUMP), &bin.join("cuobjdump")]
            .map(|tool| said(&run(tool, &dir, &["-elf", &format!("{file}.cubin")])));
        assert!(mine == theirs, "{file}:\n{mine}\n{theirs}");
        assert!(mine.contains("EIATTR_REGCOUNT") && mine.contains("CUDA Virtual SM"), "{mine}");
    }
    // Files that are written.
    for (option, wanted) in [
        ("-xelf", "all"),
        ("-xptx", "all"),
        ("-xtext", "all"),
        ("-xtext", "-k.sm_80"),
        ("-xelf", "sm_90"),
        ("-xelf", "nothing"),
    ] {
        for file in ["lib.a", "f.fatbin", "k80.cubin", "both.o"] {
            let made = [("ours", Path::new(CUOBJDUMP)), ("theirs", &bin.join("cuobjdump"))].map(|(name, tool)| {
                let place: PathBuf = dir.join(name);
                std::fs::create_dir_all(&place).expect("a folder");
                let path = dir.join(file).display().to_string();
                let done = run(tool, &place, &[option, wanted, &path]);
                let mut files: Vec<_> = std::fs::read_dir(&place)
                    .expect("a folder")
                    .flatten()
                    .map(|e| (e.file_name(), std::fs::read(e.path()).expect("a file")))
                    .collect();
                files.sort();
                std::fs::remove_dir_all(&place).expect("a folder");
                (said(&done), done.status.code(), files)
            });
            let [ours, theirs] = made;
            assert!(ours == theirs, "{option} {wanted} {file}: {} | {}", ours.0, theirs.0);
            // The single cubin holds no PTX and nothing for another chip.
            let none = wanted == "nothing" || file == "k80.cubin" && (option == "-xptx" || wanted == "sm_90");
            assert_eq!(ours.2.is_empty(), none, "{option} {wanted} {file}");
        }
    }
}
