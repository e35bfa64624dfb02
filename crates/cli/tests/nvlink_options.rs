//! Options of nvlink beside the vendor's: what is printed, the exit code, and the file that is written.

use std::path::Path;
use testkit::Scratch;
use testkit::tool::{must, run, said};

const NVLINK: &str = env!("CARGO_BIN_EXE_nvlink");
const SASSAFRAS: &str = env!("CARGO_BIN_EXE_sassafras");

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";
const MODULES: [(&str, &str); 4] = [
    (
        "a",
        ".extern .func (.param .b32 r) _Z1fi(.param .b32 a);\n.visible .const .align 4 .b8 c[24] = {1};\n.visible .entry _Z1kPi(.param .b64 p) {\n.reg .b32 %r<4>; .reg .b64 %d<2>; .shared .align 4 .b8 s[20];\nld.param.b64 %d1, [p]; mov.u32 %r1, %tid.x; st.shared.b32 [s], %r1; bar.sync 3;\n{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), _Z1fi, (x); ld.param.b32 %r1, [y]; }\nst.global.b32 [%d1], %r1; ret; }\n.visible .entry other() { ret; }\n",
    ),
    (
        "b",
        ".visible .global .align 4 .b8 g[100];\n.visible .func (.param .b32 r) _Z1fi(.param .b32 a) {\n.reg .b32 %r<4>; .reg .b64 %d<4>; .local .align 4 .b8 l[40];\nld.param.b32 %r1, [a]; and.b32 %r2, %r1, 7; mov.b64 %d1, l; mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2; st.local.b32 [l], %r1; st.local.b32 [%d1], %r1; ld.local.b32 %r1, [%d1 + 4]; st.param.b32 [r], %r1; ret; }\n",
    ),
    (
        "recursive",
        ".visible .func (.param .b32 r) again(.param .b32 a);\n.visible .func (.param .b32 r) again(.param .b32 a) {\n.reg .b32 %r<4>; .reg .pred %p; ld.param.b32 %r1, [a]; setp.eq.u32 %p, %r1, 0; @%p bra OUT; sub.u32 %r1, %r1, 1;\n{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), again, (x); ld.param.b32 %r1, [y]; }\nadd.u32 %r1, %r1, 2;\nOUT: st.param.b32 [r], %r1; ret; }\n.visible .entry deep(.param .b64 p) { .reg .b32 %r<2>; .reg .b64 %d; ld.param.b64 %d, [p]; mov.u32 %r1, %tid.x;\n{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), again, (x); ld.param.b32 %r1, [y]; }\nst.global.b32 [%d], %r1; ret; }\n",
    ),
    ("missing", ".extern .func gone();\n.visible .entry lost() { call gone; ret; }\n"),
];

/// Assembly text of a host object with a fatbin, and the record that names it.
fn object(name: &str) -> String {
    format!(
        ".section __nv_relfatbin, \"a\"\n.align 8\ndata:\n.incbin \"{name}.fatbin\"\n.section .nvFatBinSegment, \"aw\"\n.align 8\n.long 0x466243b1, 1\n.quad data, 0\n"
    )
}

/// Objects, a fatbin and archives of objects: plain, thin, and one that holds another.
fn inputs(bin: &Path) -> Scratch {
    let dir = Scratch::new("nvlink-options");
    for (name, text) in MODULES {
        std::fs::write(dir.join("t.ptx"), format!("{HEAD}{text}")).expect("writable");
        let cubin = format!("{name}.cubin");
        must(bin.join("ptxas"), &dir, &["-c", "-arch=sm_80", "t.ptx", "-o", &cubin]);
        let (image, fatbin) = (format!("--image3=kind=elf,sm=80,file={cubin}"), format!("--create={name}.fatbin"));
        must(bin.join("fatbinary"), &dir, &["-64", "-c", &fatbin, &image]);
        std::fs::write(dir.join("o.s"), object(name)).expect("writable");
        must(Path::new("as"), &dir, &["o.s", "-o", &format!("{name}.o")]);
    }
    std::fs::write(dir.join("t.ptx"), format!("{HEAD}{}", MODULES[1].1)).expect("writable");
    must(bin.join("ptxas"), &dir, &["-c", "-astoolspatch", "-arch=sm_80", "t.ptx", "-o", "patch.cubin"]);
    std::fs::create_dir(dir.join("libs")).expect("a folder");
    must(Path::new("ar"), &dir, &["rcs", "libs/libb.a", "b.o"]);
    must(Path::new("ar"), &dir, &["rcsT", "thin.a", "b.o"]);
    must(Path::new("ar"), &dir, &["rcs", "nested.a", "libs/libb.a"]);
    std::fs::write(dir.join("files.txt"), "a.cubin\nb.cubin -arch=sm_80\n").expect("writable");
    dir
}

/// Command lines without the output; both must say the same and write the same.
const SAME: [&[&str]; 31] = [
    &["-arch=sm_80", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "a.o", "b.o"],
    &["-arch=sm_80", "a.fatbin", "b.fatbin"],
    &["-arch=sm_80", "-dump-callgraph", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-dump-callgraph-no-demangle", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-m64", "-cpu-arch=X86_64", "--host-ccbin", "gcc", "a.o", "b.o"],
    &["-arch=sm_80", "a.o", "-Llibs", "-lb"],
    &["-arch=sm_80", "a.o", "--library-path=libs", "--library=b"],
    &["-arch=sm_80", "a.o", "b.o", "-lnowhere"],
    &["-arch=sm_80", "a.o", "libs/libb.a"],
    &["-arch=sm_80", "a.o", "libs/libb.a", "libs/libb.a"],
    &["--options-file", "files.txt"],
    &["-arch=sm_80", "-kernels-used=other", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-kernels-used=1k,other", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-variables-used=g", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-kernels-used=other", "-use-host-info", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-use-host-info", "a.o", "b.o"],
    &["-arch=sm_80", "-ignore-host-info", "a.o", "b.o"],
    &["-arch=sm_80", "-keep-system-libraries", "a.o", "b.o"],
    &["-arch=sm_80", "recursive.cubin"],
    &["-arch=sm_80", "-suppress-stack-size-warning", "recursive.cubin"],
    &["-arch=sm_80", "-v", "recursive.cubin"],
    &["-arch=sm_80", "-v", "-kernels-used=1k", "a.cubin", "b.cubin"],
    &["-arch=sm_86", "a.cubin", "b.cubin"],
    // Options of link-time optimization, which change nothing without it.
    &["-arch=sm_80", "-Xptxas", "--nonsense", "-Xnvvm", "--other", "-nvvmpath=/nowhere", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-maxrregcount", "16", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "--split-compile", "4", "--split-compile-extended=2", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "--device-stack-protector", "true", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "--verbose2", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-v", "-v2", "recursive.cubin"],
    &["-arch=sm_80", "-astoolspatch", "patch.cubin"],
];

/// Command lines that fail, or where only what is printed is compared.
const SAID: [&[&str]; 21] = [
    &["-arch=sm_80", "-suppress-debug-info", "a.o"],
    &["-arch=sm_80", "missing.cubin"],
    &["-arch=sm_80", "-report-arch", "missing.cubin"],
    &["-arch=sm_80", "a.cubin", "a.cubin"],
    &["-arch=sm_80", "-Werror", "recursive.cubin"],
    &["-arch=sm_90", "a.cubin"],
    &["-arch=sm_90", "-suppress-arch-warning", "a.o"],
    &["-arch=sm_91", "a.cubin"],
    &["-arch=sm_80", "nowhere.o"],
    &["-arch=sm_80", "-bogus", "a.cubin"],
    &["-arch=sm_80", "-m32", "a.cubin"],
    &["a.cubin"],
    &["-arch=lto_80", "a.cubin"],
    &["-arch=sm_80", "-maxrregcount=some", "a.cubin"],
    &["-arch=sm_80", "--split-compile", "some", "a.cubin"],
    &["-arch=sm_80", "--device-stack-protector", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-Ofc", "max", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "--nvvm-latest", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-astoolspatch", "a.cubin", "b.cubin"],
    &["-arch=sm_80", "-astoolspatch", "-r", "b.cubin"],
    &["-arch=sm_80", "-r", "-astoolspatch", "patch.cubin"],
];

#[test]
fn options_do_what_the_vendors_do() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    let dir = inputs(&bin);
    let vendor = bin.join("nvlink");
    let both = |args: &[&str]| {
        let link = |tool: &Path, out: &str| {
            let done = run(tool, &dir, &[args, &["-o", out]].concat());
            (said(&done), done.status.code())
        };
        (link(Path::new(NVLINK), "ours.cubin"), link(&vendor, "theirs.cubin"))
    };
    for args in SAME {
        let (ours, theirs) = both(args);
        assert_eq!(ours, theirs, "{args:?}");
        let diff = run(Path::new(SASSAFRAS), &dir, &["link-diff", "ours.cubin", "theirs.cubin"]);
        let lines = said(&diff);
        let left: Vec<&str> = lines.lines().filter(|l| !l.contains(": alignment 0x")).collect();
        assert!(left.is_empty(), "{args:?}: {lines}");
        for file in ["ours.cubin", "theirs.cubin"] {
            std::fs::remove_file(dir.join(file)).expect("a file");
        }
    }
    for args in SAID {
        let (ours, theirs) = both(args);
        assert_eq!(ours, theirs, "{args:?}");
        let failed = ours.1 != Some(0);
        assert!(!failed || !dir.join("ours.cubin").exists(), "{args:?} leaves a file");
        let _ = std::fs::remove_file(dir.join("ours.cubin"));
    }
}

#[test]
fn archives_of_archives_and_thin_ones() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = inputs(&oracle.join("bin"));
    must(Path::new(NVLINK), &dir, &["-arch=sm_80", "a.o", "b.o", "-o", "plain.cubin"]);
    for archive in ["thin.a", "nested.a"] {
        must(Path::new(NVLINK), &dir, &["-arch=sm_80", "a.o", archive, "-o", "other.cubin"]);
        must(Path::new(SASSAFRAS), &dir, &["link-diff", "plain.cubin", "other.cubin"]);
    }
}

#[test]
fn side_outputs() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    let dir = inputs(&bin);
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    for kind in ["lcs-aug", "lcs-abs"] {
        must(Path::new(NVLINK), &dir, &["-ghls", kind, "-o", "ours.ld"]);
        must(bin.join("nvlink"), &dir, &["-ghls", kind, "-o", "theirs.ld"]);
        assert!(!read("ours.ld").is_empty());
        assert_eq!(read("ours.ld"), read("theirs.ld"), "{kind}");
        let printed = [Path::new(NVLINK), &bin.join("nvlink")].map(|t| run(t, &dir, &["-ghls", kind]).stdout);
        assert_eq!(String::from_utf8_lossy(&printed[0]), String::from_utf8_lossy(&printed[1]), "{kind}");
    }
    let text = format!(".section __nv_module_id, \"a\"\n.asciz \"_12345678_4_a_cu_k\"\n{}", object("a"));
    std::fs::write(dir.join("m.s"), text).expect("writable");
    must(Path::new("as"), &dir, &["m.s", "-o", "m.o"]);
    for (tool, name) in [(Path::new(NVLINK), "ours"), (&bin.join("nvlink"), "theirs")] {
        let list = format!("--register-link-binaries={name}.reg");
        must(tool, &dir, &["-arch=sm_80", "m.o", "b.o", &list, "-o", &format!("{name}.cubin")]);
    }
    assert_eq!(read("ours.reg"), read("theirs.reg"));
    must(Path::new(NVLINK), &dir, &["-arch=sm_80", "a.o", "b.o", "-time", "times.csv", "-o", "o.cubin"]);
    let times = read("times.csv");
    let phases: Vec<&str> = times.lines().skip(1).filter_map(|l| l.split(" , ").nth(1)).collect();
    assert_eq!(phases, ["init", "read", "merge", "layout", "relocate", "finalize", "write"], "{times}");
    assert!(times.starts_with("source file name , phase name ,"));
    // Names in the call graph are those of the source.
    let graph = said(&run(Path::new(NVLINK), &dir, &["-arch=sm_80", "a.o", "b.o", "-dump-callgraph", "-o", "o.cubin"]));
    assert!(graph.contains("^k(int *) [") && graph.contains(": f(int) ["), "{graph}");
    // All that a report needs, and the same link from it.
    must(Path::new(NVLINK), &dir, &["-arch=sm_80", "a.o", "b.o", "--save-repro", "repro", "-o", "o.cubin"]);
    assert!(read("repro/command.txt").starts_with("nvlink '-arch=sm_80' 'a.o'"));
    let saved: Vec<String> =
        read("repro/inputs.txt").lines().filter_map(|l| l.split(' ').next().map(String::from)).collect();
    let paths: Vec<String> = saved.iter().map(|n| format!("repro/{n}")).collect();
    let mut args = vec!["-arch=sm_80"];
    args.extend(paths.iter().map(String::as_str));
    args.extend(["-o", "again.cubin"]);
    must(Path::new(NVLINK), &dir, &args);
    must(Path::new(SASSAFRAS), &dir, &["link-diff", "o.cubin", "again.cubin"]);
}

#[test]
fn optimization_while_linking_is_one_clear_error() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = inputs(&oracle.join("bin"));
    std::fs::write(dir.join("x.ltoir"), b"\xed\x43\x4e\x7fsome code").expect("writable");
    for (args, message) in [
        (&["-arch=sm_80", "x.ltoir"][..], "LTO objects found, use -dlto: 'x.ltoir'"),
        (&["-arch=sm_80", "-dlto", "a.o"], "Link-time optimization (--dlto) is not supported yet"),
        (&["-arch=sm_80", "-lto", "a.o"], "Link-time optimization (--link-time-opt) is not supported yet"),
    ] {
        let done = run(Path::new(NVLINK), &dir, &[args, &["-o", "lto.cubin"]].concat());
        assert_eq!((done.status.code(), said(&done)), (Some(1), format!("nvlink fatal   : {message}\n")), "{args:?}");
        assert!(!dir.join("lto.cubin").exists());
    }
}

/// Code that copies and fills memory by the system's library, which asks for the size of an entry's parameters and, where nothing is
/// removed, calls what only the driver has.
#[test]
fn the_systems_library() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let (bin, library) = (oracle.join("bin"), oracle.join("lib/libcudadevrt.a"));
    let library = library.to_str().expect("a name");
    let dir = Scratch::new("nvlink-library");
    let text = ".extern .func (.param .b32 r) __cudaCDP2MemcpyAsync(.param .b64 a, .param .b64 b, .param .b64 c, .param .b32 d, .param .b64 e);
.visible .entry copy(.param .u64 p) {
.reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [p];
{ .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 d; .param .b64 e; .param .b32 r;
st.param.b64 [a], %d; st.param.b64 [b], %d; st.param.b64 [c], 64; st.param.b32 [d], 3; st.param.b64 [e], 0;
call (r), __cudaCDP2MemcpyAsync, (a, b, c, d, e); ld.param.b32 %r, [r]; }
st.global.b32 [%d], %r; ret; }
";
    for arch in ["sm_75", "sm_80", "sm_90"] {
        let text = format!(".version 8.0\n.target {arch}\n.address_size 64\n{text}");
        std::fs::write(dir.join("t.ptx"), text).expect("writable");
        let arch = format!("-arch={arch}");
        must(bin.join("ptxas"), &dir, &["-c", &arch, "t.ptx", "-o", "t.cubin"]);
        let ours = Path::new(NVLINK);
        for more in [None, Some("-g")] {
            let mut options: Vec<&str> = vec![&arch, "t.cubin", library, "-o"];
            options.extend(more.iter().copied());
            options.sort_by_key(|o| *o == "-o");
            must(ours, &dir, &[&options[..], &["ours.cubin"]].concat());
            must(bin.join("nvlink"), &dir, &[&options[..], &["vendor.cubin"]].concat());
            must(Path::new(SASSAFRAS), &dir, &["link-diff", "ours.cubin", "vendor.cubin"]);
        }
        must(ours, &dir, &[&arch, "-r", "t.cubin", library, "-o", "again.cubin"]);
        must(bin.join("nvlink"), &dir, &[&arch, "again.cubin", "-o", "of_ours.cubin"]);
        must(ours, &dir, &[&arch, "again.cubin", "-o", "ours.cubin"]);
        must(Path::new(SASSAFRAS), &dir, &["link-diff", "ours.cubin", "of_ours.cubin"]);
    }
}
