//! Options of ptxas that change what is compiled: messages, exit codes and effects beside the vendor's.

use cubin::elf::Elf;
use cubin::image::Image;
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
    ] {
        let [ours, theirs] = both.compile(args).map(|(done, file)| {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            (done.status.code(), said.lines().map(str::to_string).collect::<Vec<_>>(), file.is_some())
        });
        assert_eq!(ours, theirs, "{args:?}");
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
