//! Options of ptxas that change what is compiled: messages, exit codes and effects beside the vendor's.

use cubin::elf::Elf;
use cubin::image::Image;
use std::path::Path;
use std::process::Output;
use testkit::Scratch;
use testkit::tool::run;

/// Two entries, doubles, exits under a guard, a load and a store of each kind of cache operator.
const TEXT: &str = r#".version 8.4
.target sm_90
.address_size 64
.visible .entry k1(.param .u64 p)
{
	.reg .b64 %rd<9>; .reg .f64 %d<5>; .reg .b32 %r<5>; .reg .pred %p<3>; .reg .f32 %f<2>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	setp.gt.u32 %p1, %r1, 5;
	@%p1 exit;
	ld.global.f64 %d1, [%rd1];
	cvt.rn.f32.f64 %f1, %d1;
	add.f64 %d2, %d1, %d1; add.f64 %d3, %d1, %d2;
	mov.f64 %d4, %d3;
	setp.lt.f64 %p2, %d1, %d2;
	@%p2 st.global.f64 [%rd1+8], %d4;
	st.global.f32 [%rd1+16], %f1;
	ret;
}
.visible .entry k2(.param .u64 p) .maxntid 128,2,1
{
	.reg .b64 %rd<9>; .reg .b32 %r<5>;
	ld.param.u64 %rd1, [p];
	ld.global.b32 %r1, [%rd1];
	ld.global.cg.b32 %r2, [%rd1+8];
	ld.volatile.global.b32 %r3, [%rd1+16];
	add.u32 %r1, %r1, %r2;
	add.u32 %r1, %r1, %r3;
	st.global.b32 [%rd1+4], %r1;
	st.global.cs.b32 [%rd1+12], %r1;
	ret;
}
"#;

struct Both {
    dir: Scratch,
    oracle: std::path::PathBuf,
}

impl Both {
    fn new(name: &str) -> Option<Both> {
        let both = Both { dir: Scratch::new(name), oracle: testkit::oracle::latest()? };
        std::fs::write(both.dir.join("k.ptx"), TEXT).expect("written");
        Some(both)
    }

    /// The outcome of our tool and of the vendor's, with their files if there are such.
    fn compile(&self, args: &[&str]) -> [(Output, Option<Vec<u8>>); 2] {
        [env!("CARGO_BIN_EXE_ptxas").into(), self.oracle.join("bin/ptxas")].map(|tool| {
            let out = self.dir.join("k.cubin");
            let _ = std::fs::remove_file(&out);
            let done = run(tool, &self.dir, &[&["-arch=sm_90", "k.ptx", "-o", "k.cubin"], args].concat());
            (done, std::fs::read(out).ok())
        })
    }
}

/// Much that has something to say, in one command.
const EVERYTHING: [&str; 18] = [
    "-legacy-bar-warp-wide-behavior",
    "-pic",
    "true",
    "-preserve-relocs",
    "-func-maxrregcount",
    "32",
    "-g-tmem-access-check",
    "-gno-fabric-access-check",
    "-maxntid",
    "64",
    "-minnctapersm",
    "3",
    "-maxrregcount",
    "10",
    "-suppress-debug-info",
    "-warn-double-usage",
    "-dlcm=cg",
    "-flcm=cg",
];

#[test]
fn messages_and_exit_codes_are_those_of_the_vendor() {
    let Some(both) = Both::new("options-messages") else { return };
    for args in [
        &["-warn-double-usage"][..],
        &["-warn-double-usage", "-w"],
        &["-warn-double-usage", "-Werror"],
        &["-e", "k1"],
        &["-e", "k1,nope"],
        &["-maxntid", "64,2"],
        &["-dlcm=xx"],
        &["-flcm=wb"],
        &["-dscm=lu"],
        &["-dlcm=cg", "-flcm=cs", "-dscm=wt", "-fscm=cs"],
        &["-split-compile", "x"],
        &["-split-compile", "3"],
        &["-pic", "true"],
        &["-pic", "false", "-suppress-position-independent-code-warning"],
        &["-pic", "true", "-Werror"],
        &["-maxrregcount", "256"],
        &["-maxrregcount", "-3"],
        &["-maxrregcount", "0", "-minnctapersm", "2"],
        &["-maxrregcount", "10", "-Werror"],
        &["-maxrregcount", "xx"],
        &["-func-maxrregcount", "xx"],
        &["-func-maxrregcount", "xx", "-c"],
        &["-func-maxrregcount", "300", "-c"],
        &["-func-maxrregcount", "10", "-maxrregcount", "10", "-c"],
        &["-func-maxrregcount", "32", "-Werror"],
        &["-maxntid", "64", "-maxrregcount", "32"],
        &["-enable-func-clone-sc", "true", "-Werror", "-w"],
        &["-O0", "-c", "-enable-func-clone-sc", "true"],
        &[
            "-g",
            "-lineinfo",
            "-c",
            "-ewp",
            "-enable-func-clone-sc",
            "true",
            "--register-usage-level",
            "4",
            "-Ofc",
            "max",
        ],
        &["-g", "-O3", "-lineinfo"],
        &["-g", "-Werror"],
        &["-g", "-w"],
        &["-O0", "-Ofc", "min"],
        &["-O1", "-Ofc", "max"],
        &["-O1", "-Ofc", "mid"],
        &["-O0", "--register-usage-level", "4"],
        &["--register-usage-level", "11"],
        &["--register-usage-level", "x"],
        &["-suppress-debug-info"],
        &["-suppress-debug-info", "-lineinfo"],
        &["-legacy-bar-warp-wide-behavior", "-c"],
        &["-legacy-bar-warp-wide-behavior", "-Werror"],
        &["-preserve-relocs", "-g-tmem-access-check", "-gno-fabric-access-check", "-w"],
        &EVERYTHING,
        &[&EVERYTHING[..], &["-Werror"]].concat(),
    ] {
        let [ours, theirs] = both.compile(args).map(|(done, file)| {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            (done.status.code(), said.lines().map(str::to_string).collect::<Vec<_>>(), file.is_some())
        });
        assert_eq!(ours, theirs, "{args:?}");
    }
}

#[test]
fn advice_on_what_later_chips_do_slowly() {
    let Some(both) = Both::new("options-advice") else { return };
    let text = |target: &str| {
        format!(
            ".version 8.5\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
             .reg .b64 %p; .reg .b32 %s, %a<4>, %c<2>; .reg .b16 %m;\n\
             .shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar;\n\
             ld.param.u64 %p, [p]; mov.u32 %s, tile; mov.u16 %m, 3;\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%s], [%p], 64, [bar], %m;\n\
             ld.global.v4.u32 {{%a0, %a1, %a2, %a3}}, [%p];\nld.global.v2.u32 {{%c0, %c1}}, [%p+32];\n\
             mma.sp.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 {{%c0, %c1}}, {{%a0, %a1, %a2, %a3}}, {{%a0, %a1, %a2, %a3}}, \
             {{%c0, %c1}}, %a0, 0x0;\n\
             mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 {{%c0, %c1}}, {{%a0, %a1, %a2, %a3}}, \
             {{%a0, %a1, %a2, %a3}}, {{%c0, %c1}}, %a0, 0x0;\nst.global.v2.u32 [%p], {{%c0, %c1}};\nret;\n}}\n"
        )
    };
    for target in ["sm_90", "sm_90a"] {
        std::fs::write(both.dir.join("k.ptx"), text(target)).expect("written");
        let arch = format!("-arch={target}");
        for args in [
            &[][..],
            &["-w"],
            &["-Werror"],
            &["-suppress-async-bulk-multicast-advisory-warning"],
            &["-suppress-sparse-mma-advisory-info"],
        ] {
            let args = [&[arch.as_str()], args].concat();
            let [ours, theirs] = both.compile(&args).map(|(done, file)| {
                (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned(), file.is_some())
            });
            assert_eq!(ours, theirs, "{args:?}");
            let advised = target == "sm_90" && !args.iter().any(|a| *a == "-w" || a.contains("multicast"));
            assert_eq!(ours.1.contains("multicast"), advised, "{args:?}");
        }
    }
}

#[test]
fn entries_and_bounds() {
    let Some(both) = Both::new("options-bounds") else { return };
    for args in [
        &[][..],
        &["-e", "k2"],
        &["-maxntid", "64,2,1"],
        &["-maxntid", "96"],
        &["-maxntid", "0"],
        &["-maxntid", "64", "-minnctapersm", "4", "-override-directive-values"],
        &["-minnctapersm", "20"],
        &["-maxntid", "1024", "-minnctapersm", "2"],
        &["-maxrregcount", "40"],
        &["-maxrregcount", "40", "-override-directive-values"],
    ] {
        let [ours, theirs] = both.compile(args).map(|(_, file)| {
            let image = Image::read(&Elf::read(&file.expect("a file")).expect("ELF")).expect("a cubin");
            image.kernels.into_iter().map(|k| (k.name, k.max_threads, k.maxreg)).collect::<Vec<_>>()
        });
        assert_eq!(ours, theirs, "{args:?}");
    }
}

/// Bounds that no machine has are no reason to panic.
#[test]
fn bounds_of_any_size() {
    let dir = Scratch::new("options-large");
    let large = TEXT.replace("128,2,1", "65536,65536,4294967295");
    for (text, args) in [
        (&*large, &[][..]),
        (TEXT, &["-maxntid", "4294967295,4294967295,4294967295"]),
        (TEXT, &["-maxntid", "1024", "-minnctapersm", "4294967295"]),
    ] {
        std::fs::write(dir.join("k.ptx"), text).expect("written");
        let done = run(env!("CARGO_BIN_EXE_ptxas"), &dir, &[&["-arch=sm_90", "k.ptx", "-o", "k.cubin"], args].concat());
        let code = done.status.code();
        assert!(code == Some(0), "{args:?}: {code:?} {}", String::from_utf8_lossy(&done.stderr));
    }
}

/// What would be of no use without what an option asks for is not made.
#[test]
fn what_is_not_supported_is_refused() {
    let dir = Scratch::new("options-refused");
    std::fs::write(dir.join("k.ptx"), TEXT).expect("written");
    for args in [&["-astoolspatch"][..], &["-apply-controls", "k.ptx"]] {
        let done = run(env!("CARGO_BIN_EXE_ptxas"), &dir, &[&["-arch=sm_90", "k.ptx", "-o", "k.cubin"], args].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(255) && said.ends_with("is not supported\n"), "{args:?}: {said}");
        assert!(!dir.join("k.cubin").exists());
    }
}

/// The bytes do not depend on how many threads made them.
#[test]
fn any_number_of_threads_gives_the_same() {
    let dir = Scratch::new("options-threads");
    std::fs::write(dir.join("k.ptx"), TEXT).expect("written");
    let files: Vec<Vec<(String, Vec<u8>)>> = ["0", "1", "2", "7"]
        .iter()
        .map(|n| {
            let args = ["-arch=sm_90", "k.ptx", "-o", "k.cubin", "-split-compile", n];
            assert!(run(env!("CARGO_BIN_EXE_ptxas"), &dir, &args).status.success());
            let elf = Elf::read(&std::fs::read(dir.join("k.cubin")).expect("a file")).expect("ELF");
            // That note has the options.
            let other = elf.sections.into_iter().filter(|s| s.name != ".note.nv.tkinfo");
            other.map(|s| (s.name, s.data)).collect()
        })
        .collect();
    assert!(files[0].iter().any(|s| s.0 == ".text.k2"));
    assert!(files.iter().all(|f| *f == files[0]));
}

/// The mnemonics of memory accesses and of what stands before exits, in order.
fn accesses(both: &Both, file: &[u8]) -> Vec<String> {
    std::fs::write(both.dir.join("x.cubin"), file).expect("written");
    let done = run(both.oracle.join("bin/nvdisasm"), &both.dir, &["-c", "x.cubin"]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let words = text.split_whitespace().map(|w| w.trim_end_matches(';').to_string());
    let mut list: Vec<String> =
        words.filter(|w| ["LDG", "STG", "ERRBAR", "CGAERRBAR", "EXIT"].iter().any(|p| w.starts_with(p))).collect();
    list.sort();
    list
}

#[test]
fn cache_operators_and_errors_at_exit() {
    let Some(both) = Both::new("options-caches") else { return };
    for args in [
        &["-dlcm=cg"][..],
        &["-dlcm=cs"],
        &["-dlcm=cv"],
        &["-flcm=cs"],
        &["-dscm=cg"],
        &["-dscm=wt"],
        &["-fscm=cg", "-flcm=cv"],
        &["-make-errors-visible-at-exit"],
    ] {
        let [ours, theirs] = both.compile(args).map(|(_, file)| accesses(&both, &file.expect("a file")));
        assert_eq!(ours, theirs, "{args:?}");
    }
}

/// A kernel of the corpus.
fn kernel(name: &str) -> String {
    ["cuda", "features"]
        .map(|dir| format!("{}/../../tests/kernels/{dir}/{name}.ptx", env!("CARGO_MANIFEST_DIR")))
        .into_iter()
        .find(|path| Path::new(path).exists())
        .expect("a kernel of this name")
}

/// What the simulator prints of a launch of the kernel's code as the options make it, and the lines of its listing.
fn listing_and_outcome(dir: &Scratch, name: &str, args: &[&str]) -> (Vec<String>, String) {
    let ptx = kernel(name);
    let args = [&["-arch=sm_90a", &ptx, "-o", "k.cubin", "--verify", "-suppress-stack-size-warning"], args].concat();
    let done = run(env!("CARGO_BIN_EXE_ptxas"), dir, &args);
    assert!(done.status.success() && done.stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    let launch = ptx.replace(".ptx", ".basic.toml");
    let ran = run(env!("CARGO_BIN_EXE_sassafras"), dir, &["run", "k.cubin", "--launch", &launch]);
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    let listing = run(env!("CARGO_BIN_EXE_nvdisasm"), dir, &["-c", "k.cubin"]);
    let lines = String::from_utf8_lossy(&listing.stdout).lines().map(str::to_string).collect();
    (lines, String::from_utf8_lossy(&ran.stdout).into_owned())
}

fn count(lines: &[String], word: &str) -> usize {
    lines.iter().filter(|l| l.contains(word)).count()
}

/// `--sp-bounds-check`, which `-O0` and `-g` imply: whoever takes some of the stack looks whether there is as much, where
/// the vendor's code does.
#[test]
fn the_stack_pointer_is_checked() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("options-stack");
    for name in ["struct_params", "alloca", "alloca_calls", "saxpy"] {
        let (plain, expected) = listing_and_outcome(&dir, name, &[]);
        assert_eq!(count(&plain, "SR_LMEMHIOFF"), 0, "{name}");
        let ptx = kernel(name);
        let done = run(oracle.join("bin/ptxas"), &dir, &["-arch=sm_90a", &ptx, "-o", "v.cubin", "-sp-bounds-check"]);
        assert!(done.status.success());
        let theirs = run(env!("CARGO_BIN_EXE_nvdisasm"), &dir, &["-c", "v.cubin"]);
        let theirs: Vec<String> = String::from_utf8_lossy(&theirs.stdout).lines().map(str::to_string).collect();
        let (ours, outcome) = listing_and_outcome(&dir, name, &["-sp-bounds-check"]);
        // A function that the vendor's compiler gives no frame may have one in ours.
        let looks = count(&ours, "SR_LMEMHIOFF");
        assert!(looks >= count(&theirs, "SR_LMEMHIOFF") && (looks == 0) == (name == "saxpy"), "{name}: {looks}");
        assert_eq!(looks, count(&ours, "BPT.TRAP"), "{name}");
        assert_eq!(outcome, expected, "{name}");
        for level in ["-O0", "-g"] {
            let args = if level == "-g" { vec!["-g", "-w"] } else { vec![level] };
            let (ours, outcome) = listing_and_outcome(&dir, name, &args);
            assert_eq!(count(&ours, "SR_LMEMHIOFF") > 0, name != "saxpy", "{name} {level}");
            assert_eq!(outcome, expected, "{name} {level}");
        }
    }
}

/// Functions with arrays of so many bytes, of which each thread writes the one that `n` says, and an entry that calls all.
fn arrays(sizes: &[u32]) -> String {
    let mut text = ".version 8.8\n.target sm_90a\n.address_size 64\n".to_string();
    let mut calls = String::new();
    for n in sizes {
        text += &format!(
            ".func (.param .b32 r) f{n}(.param .b32 i)\n{{\n.reg .b32 %i, %a, %b, %c;\n.local .align 8 .b8 own[{n}];\n\
             ld.param.b32 %i, [i]; mov.u32 %a, own; add.u32 %b, %a, %i;\nst.local.u32 [%a], %i; mov.u32 %c, -7; st.local.u8 [%b], %c;\n\
             ld.local.u32 %c, [%a];\nst.param.b32 [r], %c;\nret;\n}}\n"
        );
        calls += &format!(
            "{{ .param .b32 a; .param .b32 q; st.param.b32 [a], %n; call (q), f{n}, (a); ld.param.b32 %x, [q]; }}\n\
             add.u32 %s, %s, %x;\n"
        );
    }
    text + ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n.reg .b64 %p;\n.reg .b32 %n, %x, %s;\n.local .align 8 .b8 big[64];\n\
            ld.param.u64 %p, [p]; ld.param.u32 %n, [n]; mov.u32 %s, big; st.local.u32 [%s], %n; ld.local.u32 %s, [%s];\n"
        + &calls
        + "st.global.u32 [%p], %s;\nret;\n}\n"
}

/// `--device-stack-protector`: the functions that the vendor's compiler guards are guarded, and what writes beyond an array traps.
#[test]
fn stacks_are_protected() {
    let dir = Scratch::new("options-protector");
    let sizes = [4, 8, 12, 16, 20, 64];
    std::fs::write(dir.join("a.ptx"), arrays(&sizes)).expect("written");
    let compile = |tool: &Path, more: &[&str]| {
        let args = [&["-arch=sm_90a", "a.ptx", "-o", "a.cubin"], more].concat();
        let done = run(tool, &dir, &args);
        assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
        let listing = run(env!("CARGO_BIN_EXE_nvdisasm"), &dir, &["-c", "a.cubin"]);
        let lines: Vec<String> = String::from_utf8_lossy(&listing.stdout).lines().map(str::to_string).collect();
        (count(&lines, "BPT.TRAP"), count(&lines, "c[0x0][0xc0]"))
    };
    let ours = Path::new(env!("CARGO_BIN_EXE_ptxas"));
    let launch = |n: u32| {
        let text = format!(
            "kernel = \"k\"\ngrid = [1]\nblock = [32]\n[[arg]]\nbuffer = {{ bytes = 4, fill = 0 }}\nout = \"o\"\n[[arg]]\nu32 = {n}\n"
        );
        std::fs::write(dir.join("l.toml"), text).expect("written");
        run(env!("CARGO_BIN_EXE_sassafras"), &dir, &["run", "a.cubin", "--launch", "l.toml"])
    };
    let guarded = sizes.iter().filter(|&&n| n >= 16).count();
    for more in [&["--verify"][..], &["--verify", "-O1"], &["--verify", "-c"]] {
        assert_eq!(compile(ours, more), (0, 0));
        let (traps, reads) = compile(ours, &[more, &["-device-stack-protector", "true"]].concat());
        assert_eq!((traps, reads), (guarded, 2 * guarded), "{more:?}");
        if let Some(oracle) = testkit::oracle::latest() {
            let more = &[&more[1..], &["-device-stack-protector", "true"]].concat();
            assert_eq!(compile(&oracle.join("bin/ptxas"), more), (traps, reads), "{more:?}");
        }
    }
    compile(ours, &[]);
    let (within, beyond) = (launch(3), launch(16));
    assert!(within.status.success() && beyond.status.success());
    compile(ours, &["-device-stack-protector", "true"]);
    assert_eq!(launch(3).stdout, within.stdout);
    let trapped = launch(16);
    let said = String::from_utf8_lossy(&trapped.stderr);
    assert!(!trapped.status.success() && said.contains("BPT.TRAP"), "{said}");
}

/// `--jobserver`: threads beside the first are asked for in the pipe of make and given back, also where there are errors.
#[test]
#[cfg(unix)]
fn make_says_how_many_threads_there_are() {
    use std::io::{Read, Write};
    let dir = Scratch::new("options-jobserver");
    let kernel = |n: u32, text: &str| format!(".visible .entry k{n}(.param .u64 p) {{\n{text}\nret;\n}}\n");
    let head = ".version 8.8\n.target sm_90a\n.address_size 64\n";
    let right: String = (0..4).map(|n| kernel(n, "")).collect();
    // It is found out while the functions are compiled.
    let large = ".shared .align 4 .b8 big[300000]; .reg .b32 %r; ld.shared.u32 %r, [big]; st.shared.u32 [big+4], %r;";
    let wrong: String = (0..4).map(|n| kernel(n, large)).collect();
    std::fs::write(dir.join("right.ptx"), format!("{head}{right}")).expect("written");
    std::fs::write(dir.join("wrong.ptx"), format!("{head}{wrong}")).expect("written");
    assert!(std::process::Command::new("mkfifo").arg(dir.join("pipe")).status().expect("mkfifo").success());
    let mut pipe = std::fs::File::options().read(true).write(true).open(dir.join("pipe")).expect("a pipe");
    let auth = format!(" -j4 --jobserver-auth=fifo:{}", dir.join("pipe").display());
    let compile = |file: &str, flags: Option<&str>, more: &[&str]| {
        let mut tool = std::process::Command::new(env!("CARGO_BIN_EXE_ptxas"));
        tool.args(["-arch=sm_90a", file, "-o", "k.cubin"]).args(more).current_dir(&*dir).env_remove("MAKEFLAGS");
        flags.map(|f| tool.env("MAKEFLAGS", f));
        let done = tool.output().expect("it runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    // Two are taken and stand behind the third one then.
    for (file, code) in [("right.ptx", 0), ("wrong.ptx", 255)] {
        for (more, first) in [(&["--split-compile", "3", "--jobserver"][..], b'c'), (&["--split-compile", "3"], b'a')] {
            pipe.write_all(b"abc").expect("written");
            assert_eq!(compile(file, Some(&auth), more).0, Some(code));
            let mut back = [0; 3];
            pipe.read_exact(&mut back).expect("as many as there were");
            assert_eq!(back[0], first, "{file} {more:?}");
            back.sort_unstable();
            assert_eq!(&back, b"abc");
        }
    }
    // Without a byte in it there is one thread, which does all.
    assert_eq!(compile("right.ptx", Some(&auth), &["--split-compile", "3", "--jobserver"]), (Some(0), String::new()));
    let nobody =
        "ptxas warning : GNU Jobserver support requested, but no compatible jobserver found. Ignoring '--jobserver'\n";
    let split = ["--split-compile", "4", "--jobserver"];
    assert_eq!(compile("right.ptx", None, &split), (Some(0), nobody.into()));
    assert_eq!(compile("right.ptx", Some(" -j4"), &split), (Some(0), nobody.into()));
    assert_eq!(compile("right.ptx", None, &["--jobserver"]), (Some(0), String::new()));
    let error = "ptxas fatal   : Jobserver requested, but an error occurred\n";
    for auth in ["fifo:/nowhere/at/all", "977,978", "junk"] {
        assert_eq!(compile("right.ptx", Some(&format!(" --jobserver-auth={auth}")), &split), (Some(255), error.into()));
    }
}

/// `--optimize-float-atomics`: one thread adds for all that add the same number to one place, and nothing else changes. Integers are added so in any case.
#[test]
fn one_thread_adds_for_all() {
    let dir = Scratch::new("options-atomics");
    let text = ".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p, .param .f32 v)\n{\n\
        .reg .b64 %p, %q; .reg .f32 %v, %f, %o; .reg .pred %c; .reg .b32 %t;\n\
        ld.param.u64 %p, [p]; ld.param.f32 %v, [v]; mov.u32 %t, %tid.x; setp.gt.u32 %c, %t, 20; @%c bra D;\n\
        red.global.add.f32 [%p], %v;\nD: red.add.f32 [%p+4], 0f3F000000;\n\
        cvt.rn.f32.u32 %f, %t; red.global.add.f32 [%p+8], %f;\n\
        mul.wide.u32 %q, %t, 4; and.b64 %q, %q, 4; add.u64 %q, %q, %p; red.global.add.f32 [%q+12], %v;\n\
        atom.global.add.f32 %o, [%p+20], %v; max.f32 %o, %o, 0f00000000; red.global.add.u32 [%p+24], 3;\nret;\n}\n";
    std::fs::write(dir.join("a.ptx"), text).expect("written");
    let launch = "kernel = \"k\"\ngrid = [3]\nblock = [90]\n[[arg]]\nbuffer = { bytes = 32, fill = 0 }\nout = \"o\"\n[[arg]]\nf32 = 0.25\n";
    std::fs::write(dir.join("l.toml"), launch).expect("written");
    let outcome = |tool: &Path, args: &[&str]| {
        let done = run(tool, &dir, &[&["-arch=sm_90a", "a.ptx", "-o", "a.cubin"], args].concat());
        assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
        let ran = run(env!("CARGO_BIN_EXE_sassafras"), &dir, &["run", "a.cubin", "--launch", "l.toml", "--out", "."]);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let listing = run(env!("CARGO_BIN_EXE_nvdisasm"), &dir, &["-c", "a.cubin"]);
        let lines: Vec<String> = String::from_utf8_lossy(&listing.stdout).lines().map(str::to_string).collect();
        (count(&lines, "POPC"), std::fs::read(dir.join("o")).expect("a buffer"))
    };
    let ours = Path::new(env!("CARGO_BIN_EXE_ptxas"));
    let (none, expected) = outcome(ours, &["--verify"]);
    let sums: Vec<f32> = expected[..12].chunks(4).map(|w| f32::from_le_bytes(w.try_into().expect("four"))).collect();
    assert_eq!((none, sums), (1, vec![3.0 * 21.0 / 4.0, 135.0, 3.0 * 89.0 * 45.0]));
    assert_eq!(outcome(ours, &["--verify", "-opt-fp-atomics"]), (3, expected.clone()));
    assert_eq!(outcome(ours, &["--verify", "-opt-fp-atomics", "-O0"]), (0, expected.clone()));
    if let Some(oracle) = testkit::oracle::latest() {
        assert_eq!(outcome(&oracle.join("bin/ptxas"), &["-opt-fp-atomics"]).1, expected);
    }
}

/// `--enable-func-clone-sc`: entries have copies of small functions that nobody else sees, and the program does the same.
#[test]
fn entries_have_copies_of_functions() {
    let dir = Scratch::new("options-clone");
    let call = |f: &str, from: u32, to: u32| {
        format!(
            "{{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r{from}; call (y), {f}, (x); ld.param.b32 %r{to}, [y]; }}\n"
        )
    };
    let head = ".version 8.8\n.target sm_90\n.address_size 64\n";
    let function = |kind: &str, name: &str, body: &str| {
        format!(
            "{kind} .func (.param .b32 r) {name}(.param .b32 a)\n{{\n.reg .b32 %r<3>; ld.param.b32 %r0, [a];\n{body}\nst.param.b32 [r], %r1;\nret;\n}}\n"
        )
    };
    let mut text =
        format!("{head}.extern .func (.param .b32 r) other(.param .b32 a);\n.visible .global .b32 g = 100;\n");
    text += &function("", "leaf", "ld.global.u32 %r1, [g]; add.u32 %r1, %r0, %r1;");
    text += &function(
        "",
        "middle",
        &("mul.lo.u32 %r0, %r0, 3;\n".to_string() + &call("leaf", 0, 1) + "xor.b32 %r1, %r1, %r0;"),
    );
    text += &function(".visible", "seen", "xor.b32 %r1, %r0, 85;");
    text += &function("", "calls", &call("other", 0, 1));
    text += ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<9>; .reg .b64 %d; ld.param.u64 %d, [p]; mov.u32 %r0, %tid.x; mad.wide.u32 %d, %r0, 16, %d;\n";
    text += &(call("middle", 0, 1) + &call("leaf", 1, 2) + &call("seen", 2, 3) + &call("calls", 3, 4));
    text += "st.global.v4.u32 [%d], {%r1, %r2, %r3, %r4};\nret;\n}\n";
    std::fs::write(dir.join("a.ptx"), text).expect("written");
    std::fs::write(dir.join("b.ptx"), head.to_string() + &function(".visible", "other", "sub.u32 %r1, %r0, 7;"))
        .expect("written");
    let launch = "kernel = \"k\"\ngrid = [1]\nblock = [32]\n[[arg]]\nbuffer = { bytes = 512, fill = 0 }\nout = \"o\"\n";
    std::fs::write(dir.join("l.toml"), launch).expect("written");
    let run = |tool: &str, args: &[&str]| {
        let done = run(tool, &dir, args);
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let ptxas = env!("CARGO_BIN_EXE_ptxas");
    run(ptxas, &["-arch=sm_90", "-c", "b.ptx", "-o", "b.o"]);
    let mut outcomes = Vec::new();
    for (more, calls) in [(&["--verify"][..], 4), (&["--verify", "-enable-func-clone-sc", "true"], 2)] {
        run(ptxas, &[&["-arch=sm_90", "-c", "a.ptx", "-o", "a.o"], more].concat());
        let listing = run(env!("CARGO_BIN_EXE_nvdisasm"), &["-c", "a.o"]);
        let entry = listing.split_once("\nk:").expect("the entry").1;
        assert_eq!(entry.split("//---").next().expect("code").matches("CALL.ABS").count(), calls, "{more:?}");
        run(env!("CARGO_BIN_EXE_nvlink"), &["-arch=sm_90", "a.o", "b.o", "-o", "x.cubin"]);
        run(env!("CARGO_BIN_EXE_sassafras"), &["run", "x.cubin", "--launch", "l.toml", "--out", "."]);
        outcomes.push(std::fs::read(dir.join("o")).expect("a buffer"));
    }
    let word = |n: usize| u32::from_le_bytes(outcomes[0][4 * n..4 * n + 4].try_into().expect("four"));
    assert_eq!(
        [word(4), word(5), word(6), word(7)],
        [103 ^ 3, (103 ^ 3) + 100, ((103 ^ 3) + 100) ^ 85, (((103 ^ 3) + 100) ^ 85) - 7]
    );
    assert_eq!(outcomes[0], outcomes[1]);
}

/// Variables that another module was to define are the module's own where nothing is linked, as the vendor's tool says.
#[test]
fn variables_of_other_modules_without_a_linker() {
    let dir = Scratch::new("options-extern");
    let text = ".version 8.8\n.target sm_90\n.address_size 64\n.extern .global .align 4 .b32 g;\n.extern .const .align 4 .b32 c[4];\n\
        .visible .entry k(.param .u64 p)\n{\n.reg .b32 %r, %s; .reg .b64 %d; ld.param.u64 %d, [p]; mov.u32 %r, 5; st.global.u32 [g], %r;\n\
        ld.global.u32 %r, [g]; ld.const.u32 %s, [c+4]; add.u32 %r, %r, %s; st.global.u32 [%d], %r;\nret;\n}\n";
    std::fs::write(dir.join("a.ptx"), text).expect("written");
    let launch = "kernel = \"k\"\ngrid = [1]\nblock = [1]\n[[arg]]\nbuffer = { bytes = 4, fill = 7 }\nout = \"o\"\n";
    std::fs::write(dir.join("l.toml"), launch).expect("written");
    let mut tools = vec![Path::new(env!("CARGO_BIN_EXE_ptxas")).to_path_buf()];
    tools.extend(testkit::oracle::latest().map(|o| o.join("bin/ptxas")));
    let warning = |name: &str| {
        format!(
            "ptxas warning : Unresolved extern variable '{name}' in whole program compilation, ignoring extern qualifier\n"
        )
    };
    for tool in tools {
        let done = run(&tool, &dir, &["-arch=sm_90", "a.ptx", "-o", "a.cubin"]);
        assert_eq!(
            (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned()),
            (Some(0), warning("g") + &warning("c"))
        );
        let ran = run(env!("CARGO_BIN_EXE_sassafras"), &dir, &["run", "a.cubin", "--launch", "l.toml", "--out", "."]);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(std::fs::read(dir.join("o")).expect("a buffer"), 5u32.to_le_bytes());
    }
}

/// `--disable-optimizer-constants`: no table in bank 2, and branches that find the same targets.
#[test]
fn indexed_branches_without_a_table() {
    let dir = Scratch::new("options-tables");
    let (usual, expected) = listing_and_outcome(&dir, "switch_brx", &[]);
    assert_eq!((count(&usual, "BRX"), count(&usual, "c[0x2]") > 0), (1, true));
    let (without, outcome) = listing_and_outcome(&dir, "switch_brx", &["-disable-optimizer-consts"]);
    assert_eq!((count(&without, "BRX"), count(&without, "c[0x2]")), (0, 0));
    assert_eq!(outcome, expected);
}

/// `--register-usage-level`: more registers where it is higher, fewer where it is lower; the same results.
#[test]
fn levels_of_register_usage() {
    let dir = Scratch::new("options-levels");
    let registers = |level: &str| {
        let (_, outcome) = listing_and_outcome(&dir, "nbody", &["--register-usage-level", level]);
        let image = Image::read(&Elf::read(&std::fs::read(dir.join("k.cubin")).expect("a file")).expect("ELF"));
        (image.expect("a cubin").kernels[0].regs, outcome)
    };
    let levels = ["0", "5", "8", "10"].map(registers);
    let (least, usual, more, most) = (levels[0].0, levels[1].0, levels[2].0, levels[3].0);
    assert!(least < usual && usual < more && more < most, "{least} {usual} {more} {most}");
    let (_, outcome) = listing_and_outcome(&dir, "nbody", &[]);
    assert!(levels.iter().all(|l| l.1 == outcome));
}

/// `--compiler-annotations`: the attribute stands where the vendor's stands, with the figures of our code.
#[test]
fn notes_of_the_compiler() {
    let Some(both) = Both::new("options-notes") else { return };
    for args in [&["-annotate"][..], &["-annotate", "-c"]] {
        let [ours, theirs] = both.compile(args).map(|(_, file)| {
            let elf = Elf::read(&file.expect("a file")).expect("ELF");
            let of = |s: &cubin::elf::Section| cubin::attr::read(&s.data).expect("attributes");
            let infos = elf.sections.iter().filter(|s| s.name.starts_with(".nv.info.k"));
            infos.map(|s| (s.name.clone(), of(s))).collect::<Vec<_>>()
        });
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let codes = |list: &[cubin::attr::Attr]| list.iter().map(|a| a.code).collect::<Vec<_>>();
            assert_eq!((&ours.0, codes(&ours.1)), (&theirs.0, codes(&theirs.1)), "{args:?}");
            // The same but for the figures, and the length of the text with them.
            let words = |list: &[cubin::attr::Attr]| {
                let note = list.iter().find(|a| a.code == cubin::attr::ANNOTATIONS).expect("a note");
                let cubin::attr::Value::Bytes(bytes) = &note.value else { panic!("{note:?}") };
                let text = String::from_utf8_lossy(&bytes[8..]).into_owned();
                let end = text.find('\0').expect("an end");
                assert_eq!((bytes[4] as usize, bytes.len() % 4), (end + 1, 0));
                let letters: String = text[..end].chars().filter(|c| !c.is_ascii_digit()).collect();
                (bytes[..4].to_vec(), letters)
            };
            assert_eq!(words(&ours.1), words(&theirs.1));
        }
        assert_eq!(ours.len(), theirs.len());
    }
}
