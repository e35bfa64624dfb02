//! Mixed linking: functions that two compilers made call each other.
//!
//! Random programs of two modules (`testkit::calls`) are compiled by ptxas and by us with `-c`; the vendor's linker links every
//! pairing, and all leave the memory that the PTX interpreter leaves for the same functions in one module. So does our executable
//! of that one module, at every level of optimization.

mod launched;

use launched::launch;
use sim::{Config, Launch};
use std::path::Path;
use std::process::Command;
use testkit::{Random, Scratch, calls};

/// Our relocatable file of a module for a chip.
fn ours(text: &str, chip: &str) -> Result<Vec<u8>, String> {
    let (m, mut d) = ptx::parse(text);
    let kind = codegen::pipeline::Kind::Relocatable;
    let target = arch::Target::parse(chip).ok_or_else(|| format!("no chip {chip}"))?;
    let options = codegen::Options { verify: true, kind, threads: 1, target, ..codegen::Options::default() };
    d.extend(ptx::check(&m, Some(&options.target)));
    if !d.is_empty() {
        return Err(format!("{d:?}"));
    }
    codegen::compile(&m, &options).map(|o| o.cubin).map_err(|d| format!("our compiler: {d:?}"))
}

/// Links two files with the vendor's linker.
fn link(nvlink: &Path, chip: &str, dir: &Path, files: [&[u8]; 2]) -> Result<Vec<u8>, String> {
    for (name, bytes) in ["a.o", "b.o"].iter().zip(files) {
        std::fs::write(dir.join(name), bytes).map_err(|e| e.to_string())?;
    }
    let arch = format!("-arch={chip}");
    let args = [&arch, "-suppress-stack-size-warning", "a.o", "b.o", "-o", "x.cubin"];
    let out = Command::new(nvlink).args(args).current_dir(dir).output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("nvlink: {}", String::from_utf8_lossy(&out.stderr)));
    }
    std::fs::read(dir.join("x.cubin")).map_err(|e| e.to_string())
}

/// What is wrong with a program for a chip.
fn failure(tools: &Path, chip: &str, seed: u64, program: &calls::Program, launch: &Launch) -> Option<String> {
    let wrong = |what: String| Some(format!("program {seed} for {chip}: {what}"));
    if let Some(dir) = std::env::var_os("SASSAFRAS_KEEP") {
        for (name, text) in ["a", "b", "whole"].iter().zip([&program.modules[0], &program.modules[1], &program.whole]) {
            std::fs::write(Path::new(&dir).join(format!("{seed}.{name}.ptx")), text).expect("writable");
        }
    }
    let (m, mut d) = ptx::parse(&program.whole);
    d.extend(ptx::check(&m, None));
    if !d.is_empty() {
        return wrong(format!("{d:?}"));
    }
    let want = match sim::run_ptx(&m, launch, &Config::default()) {
        Ok(o) => o.buffers[1].clone(),
        Err(f) => return wrong(format!("interpreter: {f}")),
    };
    let dir = Scratch::new(&format!("linking-{chip}-{seed}-{}", program.whole.contains(".abi_preserve")));
    let mut made: Vec<[Vec<u8>; 2]> = Vec::new();
    for text in &program.modules {
        let text = text.replace(".target sm_90", &format!(".target {chip}"));
        let vendor = testkit::oracle::compile(&tools.join("bin/ptxas"), &text, &[&format!("-arch={chip}"), "-c"]);
        match (vendor, ours(&text, chip)) {
            (Ok(v), Ok(o)) => made.push([v, o]),
            (Err(e), _) => return wrong(format!("vendor: {e}")),
            (_, Err(e)) => return wrong(e),
        }
    }
    let mut found = Vec::new();
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let who = |n: usize| ["vendor", "ours"][n];
        let outcome = link(&tools.join("bin/nvlink"), chip, &dir, [&made[0][a], &made[1][b]])
            .and_then(|cubin| sim::run_sass(&cubin, launch, &Config::default()).map_err(|f| f.to_string()));
        match outcome {
            Ok(o) if o.buffers[1] == want => {}
            Ok(o) => {
                let at = o.buffers[1].iter().zip(&want).position(|(x, y)| x != y).unwrap_or(0);
                found.push(format!("{} calls {}: byte {at} differs", who(a), who(b)));
            }
            Err(e) => found.push(format!("{} calls {}: {e}", who(a), who(b))),
        }
    }
    if found.is_empty() { None } else { wrong(found.join("; ")) }
}

/// Programs of these seeds, or of those that `SASSAFRAS_SEEDS` names (`7` or `201..300`), for a chip, on all cores.
fn agree(chip: &str, seeds: std::ops::RangeInclusive<u64>) {
    let Some(tools) = testkit::oracle::latest() else { return };
    let launch = launch(7);
    testkit::seeds(seeds, |seed| failure(&tools, chip, seed, &calls::program(seed), &launch));
}

#[test]
fn modules_of_two_compilers_agree() {
    agree("sm_90", 1..=40);
}

/// Functions that say what they keep (`.abi_preserve`, `.abi_preserve_control`).
#[test]
fn functions_that_say_what_they_keep_agree() {
    let Some(tools) = testkit::oracle::latest() else { return };
    let launch = launch(7);
    for (chip, seeds) in [("sm_90", 1..=24), ("sm_80", 25..=30)] {
        testkit::seeds(seeds, |seed| failure(&tools, chip, seed, &calls::keeping(seed), &launch));
    }
}

/// Older chips have other relocations and no unified functions.
#[test]
fn modules_of_two_compilers_agree_on_older_chips() {
    agree("sm_75", 1..=12);
    agree("sm_80", 1..=12);
    agree("sm_89", 13..=20);
}

#[test]
fn modules_of_two_compilers_agree_on_newer_chips() {
    agree("sm_100", 1..=6);
    agree("sm_120", 7..=12);
}

/// A function that takes and gives vectors in registers, and one that takes the address of a parameter.
const FORMALS: &str = ".func (.reg .v2 .u32 both) pack(.reg .u32 first, .reg .v4 .u16 four, .reg .u32 between, .reg .v2 .b64 wide, .reg .v4 .b8 bytes, .reg .v2 .f32 last)
{
.reg .b32 %r<9>; .reg .b64 %d;
cvt.u32.u16 %r1, four.x; cvt.u32.u16 %r2, four.y; cvt.u32.u16 %r3, four.z; cvt.u32.u16 %r4, four.w;
mad.lo.u32 %r1, %r1, 3, first; mad.lo.u32 %r1, %r2, 5, %r1; mad.lo.u32 %r1, %r3, 7, %r1; mad.lo.u32 %r1, %r4, 11, %r1;
mov.b64 %d, last;
sub.u64 %d, wide.x, %d;
xor.b64 %d, wide.y, %d;
mov.b64 both, %d;
add.u32 both.x, both.x, %r1;
mov.b32 %r5, bytes;
add.u32 %r5, %r5, between;
xor.b32 both.y, both.y, %r5;
ret;
}
.func (.param .b32 result) pick(.param .align 16 .b8 table[20], .param .b32 index)
{
.reg .b32 %r<4>; .reg .b64 %d<3>;
mov.b64 %d0, table;
ld.param.b32 %r0, [index];
mul.wide.u32 %d1, %r0, 4;
add.u64 %d1, %d0, %d1;
ld.local.b32 %r1, [%d1];
ld.param.b32 %r2, [table+16];
sub.u32 %r1, %r1, %r2;
st.param.b32 [result], %r1;
ret;
}
";

/// The kernel that calls them.
const CALLING: &str = ".visible .entry k(.param .u64 p0, .param .u64 p1)
{
.reg .b64 %in, %out, %d<4>; .reg .b32 %i, %r<8>;
.reg .v4 .u16 %four; .reg .v2 .u32 %two; .reg .v2 .b64 %wide; .reg .v4 .b8 %bytes; .reg .v2 .f32 %floats; .reg .v2 .b32 %words;
ld.param.u64 %in, [p0]; ld.param.u64 %out, [p1];
mov.u32 %i, %tid.x;
mad.wide.u32 %in, %i, 16, %in; mad.wide.u32 %out, %i, 8, %out;
ld.global.v2.u64 {%d0, %d1}, [%in];
mov.b64 %four, %d0; mov.b64 %words, %d1; mov.b32 %r3, %words.y; mov.b32 %bytes, %r3; mov.b64 %floats, %d1;
mov.v2.b64 %wide, {%d1, %d0};
mov.b32 %r2, %words.x;
call (%two), pack, (%i, %four, %r2, %wide, %bytes, %floats);
{ .param .align 16 .b8 table[20]; .param .b32 index; .param .b32 result;
st.param.v2.b64 [table], {%d0, %d1}; st.param.b32 [table+16], %two.y;
and.b32 %r0, %i, 3; st.param.b32 [index], %r0;
call (result), pick, (table, index);
ld.param.b32 %r1, [result]; }
xor.b32 %r1, %r1, %two.x;
st.global.v2.u32 [%out], {%r1, %two.y};
ret;
}
";

/// Vectors in registers lie in words as they would in memory; their place is a multiple of their size.
#[test]
fn vectors_in_registers_agree() {
    let Some(tools) = testkit::oracle::latest() else { return };
    let head = ".version 8.7\n.target sm_90\n.address_size 64\n";
    let declared: String =
        FORMALS.lines().filter(|l| l.starts_with(".func")).map(|l| format!(".extern {l};\n")).collect();
    let program = calls::Program {
        modules: [format!("{head}{declared}{CALLING}"), head.to_string() + &FORMALS.replace(".func", ".visible .func")],
        whole: format!("{head}{FORMALS}{CALLING}"),
    };
    for chip in ["sm_80", "sm_90", "sm_120"] {
        assert_eq!(failure(&tools, chip, 0, &program, &launch(7)), None);
    }
}

/// An entry with references of its module to a texture and a surface, which asks the other module's function about its own and
/// lets it fetch with gradients, which a function of the system does.
const ASKING: [&str; 2] = [
    ".global .texref first;
.global .surfref marks;
.global .texref unused;
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
.reg .b64 %out, %h; .reg .b32 %i, %r<8>; .reg .f32 %q<8>; .reg .pred %p;
ld.param.u64 %out, [p1];
mov.u32 %i, %tid.x;
mad.wide.u32 %out, %i, 32, %out;
cvt.rn.f32.u32 %q4, %i; mul.f32 %q4, %q4, 0f3D000000;
tex.2d.v4.f32.f32 {%q0, %q1, %q2, %q3}, [first, {%q4, %q4}];
st.global.f32 [%out], %q0;
txq.width.b32 %r0, [first]; txq.channel_order.b32 %r1, [first]; shl.b32 %r1, %r1, 8; add.u32 %r0, %r0, %r1;
suq.height.b32 %r2, [marks]; shl.b32 %r2, %r2, 20; add.u32 %r0, %r0, %r2;
st.global.u32 [%out+4], %r0;
suq.channel_data_type.b32 %r3, [marks];
st.global.u32 [%out+8], %r3;
shl.b32 %r4, %i, 2; and.b32 %r4, %r4, 31; mov.u32 %r5, 1;
suld.b.2d.b32.trap %r6, [marks, {%r4, %r5}];
st.global.u32 [%out+12], %r6;
mov.u64 %h, first; istypep.texref %p, %h; selp.b32 %r7, 5, 7, %p;
st.global.u32 [%out+16], %r7;
tex.grad.2d.v4.f32.f32 {%q0, %q1, %q2, %q3}, [first, {%q4, %q4}], {%q4, 0f00000000}, {0f00000000, %q4}, 0f3F000000;
st.global.f32 [%out+20], %q0;
{ .param .b32 a; .param .b64 h; .param .align 4 .b8 r[8];
st.param.f32 [a], %q4; st.param.b64 [h], %h;
call (r), ask, (a, h);
ld.param.b32 %r0, [r]; ld.param.b32 %r1, [r+4]; }
st.global.u32 [%out+24], %r0; st.global.u32 [%out+28], %r1;
ret;
}
",
    ".global .texref volume;
.global .surfref own;
.visible .func (.param .align 4 .b8 r[8]) ask(.param .b32 a, .param .b64 h)
{
.reg .b64 %h; .reg .b32 %r<8>; .reg .f32 %q<9>;
ld.param.f32 %q4, [a]; ld.param.u64 %h, [h];
tex.grad.3d.v4.f32.f32 {%q0, %q1, %q2, %q3}, [volume, {%q4, %q4, %q4, %q4}], {%q4, 0f00000000, 0f00000000, 0f00000000}, {0f00000000, %q4, 0f00000000, 0f00000000}, {1, -1, 2, 2};
txq.depth.b32 %r0, [volume]; txq.normalized_coords.b32 %r1, [volume]; shl.b32 %r1, %r1, 8; add.u32 %r0, %r0, %r1;
suq.width.b32 %r1, [own]; shl.b32 %r1, %r1, 16; add.u32 %r0, %r0, %r1;
txq.height.b32 %r1, [%h]; shl.b32 %r1, %r1, 24; add.u32 %r0, %r0, %r1;
st.param.b32 [r], %r0;
tex.grad.2d.v4.f32.f32 {%q5, %q6, %q7, %q8}, [%h, {%q4, %q4}], {%q4, 0f00000000}, {0f00000000, %q4}, 0f3F000000;
add.f32 %q0, %q0, %q5;
st.param.f32 [r+4], %q0;
ret;
}
",
];

const ASKED: &str = ".extern .func (.param .align 4 .b8 r[8]) ask(.param .b32 a, .param .b64 h);\n";

/// References of modules with `-c`: fetches, questions about what they are to, and fetches by the system, linked by the vendor's
/// linker and by ours, in every pairing of compilers.
#[test]
fn references_of_modules_agree() {
    let Some(tools) = testkit::oracle::latest() else { return };
    let array = |name: &str, size: &str, format: &str, bytes: usize| {
        let mut r = Random(bytes as u64);
        let texels: String = match format {
            "f32" => {
                (0..bytes / 4).map(|_| format!("{:08x}", ((r.index(64) as f32) / 4.0).to_bits().swap_bytes())).collect()
            }
            _ => (0..bytes).map(|_| format!("{:02x}", r.index(256))).collect(),
        };
        format!("[[array]]\nname = \"{name}\"\nsize = {size}\nformat = \"{format}\"\ndata = {{ hex = \"{texels}\" }}\n")
    };
    let bind = |name: &str, what: &str| format!("[[bind]]\nname = \"{name}\"\n{what}\n");
    let sampled = |array: &str| {
        format!("texture = {{ array = \"{array}\", normalized = true, address = \"wrap\", compare = \"greater\" }}")
    };
    let mut text = "kernel = \"k\"\ngrid = [1]\nblock = [32]\n[[arg]]\nbuffer = { bytes = 4, fill = 0 }\n\
                    [[arg]]\nbuffer = { bytes = 1024, fill = 0 }\nout = \"o\"\n"
        .to_string();
    text += &(bind("first", &sampled("flat")) + &bind("unused", &sampled("flat")) + &bind("volume", &sampled("deep")));
    text += &(bind("marks", "surface = { array = \"marks\" }") + &bind("own", "surface = { array = \"marks\" }"));
    text += &(array("flat", "[16, 4]", "f32", 256) + &array("deep", "[4, 8, 2]", "f32", 256));
    text += &array("marks", "[24, 8]", "u32", 768);
    let launch = Launch::parse(&text, &mut |file| Err(format!("no file {file}"))).expect("a launch");
    let head = ".version 8.8\n.target sm_90\n.address_size 64\n";
    let modules = [format!("{head}{ASKED}{}", ASKING[0]), format!("{head}{}", ASKING[1])];
    let program = calls::Program { whole: format!("{head}{}{}", ASKING[1], ASKING[0]), modules: modules.clone() };
    for chip in ["sm_90", "sm_90a"] {
        assert_eq!(failure(&tools, chip, 901, &program, &launch), None);
    }
    let want = expected(&program.whole, &launch);
    assert!(want.chunks(4).filter(|w| **w != [0; 4]).count() > 200, "the program computes next to nothing");
    // Our linker, with files of both.
    let dir = Scratch::new("linking-references");
    let both = modules.each_ref().map(|text| {
        let vendor =
            testkit::oracle::compile(&tools.join("bin/ptxas"), text, &["-arch=sm_90", "-c"]).expect("vendor's");
        [vendor, ours(text, "sm_90").expect("ours")]
    });
    for (a, b) in [(0, 1), (1, 0), (1, 1)] {
        let nvlink = Path::new(env!("CARGO_BIN_EXE_nvlink"));
        let cubin = link(nvlink, "sm_90", &dir, [&both[0][a], &both[1][b]]).expect("it links");
        let got = sim::run_sass(&cubin, &launch, &Config::default()).expect("it runs");
        assert!(got.buffers[1] == want, "linked by ours ({a}, {b})");
    }
}

/// What the interpreter leaves of a program.
fn expected(whole: &str, launch: &Launch) -> Vec<u8> {
    let (m, d) = ptx::parse(whole);
    assert!(d.is_empty(), "{d:?}");
    sim::run_ptx(&m, launch, &Config::default()).expect("it runs").buffers[1].clone()
}

/// Executables of whole modules, with calls and without those that are inlined.
#[test]
fn every_level_computes_the_same() {
    let launch = launch(7);
    for seed in 1..=6 {
        let whole = calls::program(seed).whole;
        let want = expected(&whole, &launch);
        let (m, _) = ptx::parse(&whole);
        for effort in 0..=codegen::opt::MOST_EFFORT {
            let options = codegen::Options { verify: true, effort, threads: 1, ..codegen::Options::default() };
            let made = codegen::compile(&m, &options).unwrap_or_else(|d| panic!("program {seed}, {effort}: {d:?}"));
            let got = sim::run_sass(&made.cubin, &launch, &Config::default());
            let got = got.unwrap_or_else(|f| panic!("program {seed}, {effort}: {f}"));
            assert!(got.buffers[1] == want, "program {seed} at {effort} computes something else");
        }
    }
}

/// The bytes are the same with any number of threads, of executables and of relocatable files.
#[test]
fn threads_change_nothing() {
    let (m, _) = ptx::parse(&calls::program(5).whole);
    for kind in [codegen::pipeline::Kind::Executable, codegen::pipeline::Kind::Relocatable] {
        let made = |threads| {
            let options = codegen::Options { kind, threads, ..codegen::Options::default() };
            codegen::compile(&m, &options).expect("it compiles").cubin
        };
        let one = made(1);
        for threads in [0, 2, 3, 16] {
            assert!(made(threads) == one, "{threads} threads give other bytes");
        }
    }
}

/// A compilation that nobody wants any more ends with an error.
#[test]
fn a_compilation_can_be_cancelled() {
    let (m, _) = ptx::parse(&calls::program(5).whole);
    for kind in [codegen::pipeline::Kind::Executable, codegen::pipeline::Kind::Relocatable] {
        let cancel = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let options = codegen::Options { kind, cancel: Some(cancel), ..codegen::Options::default() };
        let errors = codegen::compile(&m, &options).expect_err("it was cancelled");
        assert_eq!(errors[0].message, "the compilation was cancelled");
    }
}

/// nvcc with ours in the place of its own ptxas makes relocatable files that its linker links.
#[test]
fn nvcc_links_what_ours_compiles() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("nvcc-rdc");
    let bin = testkit::toolkit(&oracle, &dir, &[("ptxas", env!("CARGO_BIN_EXE_ptxas"))]);
    let program = calls::program(11);
    let mut files: Vec<Vec<u8>> = Vec::new();
    for (name, text) in ["m0", "m1"].iter().zip(&program.modules) {
        let (from, to) = (dir.join(format!("{name}.ptx")), dir.join(format!("{name}.cubin")));
        std::fs::write(&from, text).expect("writable");
        let mut nvcc = Command::new(bin.join("nvcc"));
        let done = nvcc.args(["-arch=sm_90", "-rdc=true", "-cubin"]).arg(&from).arg("-o").arg(&to).output();
        let done = done.expect("nvcc runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let bytes = std::fs::read(&to).expect("a file");
        assert!(bytes.windows(9).any(|w| w == b"Sassafras"), "another ptxas made it");
        files.push(bytes);
    }
    let linked = link(&oracle.join("bin/nvlink"), "sm_90", &dir, [&files[0], &files[1]]).expect("it links");
    let launch = launch(7);
    let got = sim::run_sass(&linked, &launch, &Config::default()).expect("it runs");
    assert!(got.buffers[1] == expected(&program.whole, &launch));
}
