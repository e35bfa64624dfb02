//! `-lineinfo`: the vendor's disassembler finds in our files the lines that it finds in the vendor's.

use std::collections::BTreeSet;
use std::path::Path;
use testkit::Scratch;
use testkit::tool::run;

/// What the vendor's disassembler says of where code comes from, each place once. It must have nothing to complain of.
fn places(nvdisasm: &Path, dir: &Path, file: &str) -> BTreeSet<String> {
    let done = run(nvdisasm, dir, &["-gi", "-c", file]);
    assert!(done.status.success() && done.stderr.is_empty(), "{file}: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    text.lines().filter_map(|l| l.trim().strip_prefix("//## ")).map(str::to_string).collect()
}

/// Calls through calls, names in the middle of `.debug_str`, two entries, two files.
const INLINED: &str = r#".version 8.4
.target sm_90
.address_size 64
.file 1 "/src/a.cu"
.file 2 "/inc/b.h", 1700000000, 1234
.visible .entry k(.param .u64 p, .param .u32 n)
{
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.loc 1 10 5
	ld.param.u64 %rd1, [p];
	.loc 1 12 7
	mov.u32 %r2, %tid.x;
	.loc 2 300 9, function_name $name, inlined_at 1 12 7
	mul.wide.s32 %rd3, %r2, 4;
	add.s64 %rd4, %rd1, %rd3;
	.loc 1 15 1
	.loc 2 301 9, function_name $name+1, inlined_at 1 15 1
	.loc 2 400 9, function_name $other, inlined_at 2 301 9
	ld.global.u32 %r3, [%rd4];
	xor.b32 %r4, %r3, 77;
	.loc 1 15 1
	st.global.u32 [%rd4], %r4;
	.loc 1 20 1
	ret;
}
.visible .entry j(.param .u64 p)
{
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.loc 1 110 5
	ld.param.u64 %rd1, [p];
	.loc 1 112 7
	mov.u32 %r2, %tid.x;
	.loc 2 300 9, function_name $name, inlined_at 1 112 7
	st.global.u32 [%rd1], %r2;
	ret;
}
.section .debug_str
{
.b8 0
$name:
.b8 95,90
.b8 0
$other: .b8 65,0
}
"#;

#[test]
fn lines_are_those_of_the_vendor() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let nvdisasm = oracle.join("bin/nvdisasm");
    let dir = Scratch::new("lines");
    let mut texts = vec![("inlined".to_string(), INLINED.to_string())];
    for file in testkit::corpus() {
        let text = std::fs::read_to_string(&file).expect("readable");
        if text.lines().any(|l| l.trim_start().starts_with(".loc")) {
            texts.push((file.file_stem().expect("a name").to_string_lossy().into_owned(), text));
        }
    }
    assert!(texts.len() > 5, "{}", texts.len());
    for (name, text) in texts {
        std::fs::write(dir.join("k.ptx"), &text).expect("written");
        let arch = format!("-arch={}", testkit::oracle::arch(&text));
        for (tool, out) in
            [(env!("CARGO_BIN_EXE_ptxas").into(), "ours.cubin"), (oracle.join("bin/ptxas"), "theirs.cubin")]
        {
            let done = run(&tool, &dir, &[&arch, "-lineinfo", "-w", "k.ptx", "-o", out]);
            assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        }
        let (ours, theirs) = (places(&nvdisasm, &dir, "ours.cubin"), places(&nvdisasm, &dir, "theirs.cubin"));
        // Every place of ours is one that the text names, and nearly all of theirs are there: what code is left of a line
        // is for each compiler to say.
        let own = |place: &String| {
            let line = place.split(", line ").nth(1).and_then(|l| l.split(' ').next()).expect("a line");
            text.lines().any(|l| l.trim_start().starts_with(".loc") && l.split_whitespace().nth(2) == Some(line))
        };
        assert!(ours.iter().all(own), "{name}: {ours:?}");
        let missing: Vec<_> = theirs.difference(&ours).collect();
        let allowed = if name == "inlined" { 0 } else { theirs.len() / 5 };
        assert!(missing.len() <= allowed, "{name}: of {} are missing {missing:?}", theirs.len());
        // The whole listing of our file is the same by either disassembler.
        let args = ["-gi", "-gp", "ours.cubin"];
        let listings = [run(&nvdisasm, &dir, &args), run(env!("CARGO_BIN_EXE_nvdisasm"), &dir, &args)];
        assert!(listings[0].stdout == listings[1].stdout, "{name}");
    }
}

/// Without being asked the lines are there where the text has debugging sections, and not where they are suppressed.
#[test]
fn when_there_are_lines() {
    let dir = Scratch::new("lines-when");
    let bare: String = INLINED.split(".section").next().expect("text").replace("$name+1", "$name");
    for (text, args, expected) in [
        (INLINED, &[][..], true),
        (INLINED, &["-lineinfo"], true),
        (INLINED, &["-lineinfo", "-suppress-debug-info"], false),
        (&bare, &[], false),
        (&bare, &["-lineinfo"], true),
    ] {
        std::fs::write(dir.join("k.ptx"), text).expect("written");
        let mut all = vec!["-arch=sm_90", "k.ptx", "-o", "k.cubin"];
        all.extend(args);
        let done = run(env!("CARGO_BIN_EXE_ptxas"), &dir, &all);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let elf = cubin::elf::Elf::read(&std::fs::read(dir.join("k.cubin")).expect("a file")).expect("a cubin");
        for section in [".debug_line", ".nv_debug_line_sass", ".nv_debug_ptx_txt"] {
            assert_eq!(elf.section(section).is_some(), expected, "{section} with {args:?}");
        }
    }
}

/// A kernel whose function stores behind the end of a buffer, and races with itself in shared memory.
const FAULTS: &str = r#".version 8.4
.target sm_90
.address_size 64
.file 1 "/src/a.cu"
.file 2 "/inc/b.h"
.func beyond(.reg .b64 at)
{
	.reg .b32 %r<2>;
	.loc 2 77 3
	mov.u32 %r1, 5;
	.loc 2 78 3
	st.global.u32 [at+4096], %r1;
	.loc 2 79 3
	ret;
}
.visible .entry k(.param .u64 p)
{
	.reg .b64 %rd<3>;
	.loc 1 10 5
	ld.param.u64 %rd1, [p];
	.loc 1 11 5
	cvta.to.global.u64 %rd2, %rd1;
	.loc 1 12 5
	call.uni beyond, (%rd2);
	.loc 1 13 5
	ret;
}
.visible .entry race(.param .u64 p)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	.shared .b32 cell;
	.loc 1 20 5
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	.loc 1 21 5
	st.shared.u32 [cell], %r1;
	.loc 1 22 5
	bar.sync 0;
	.loc 1 23 5
	ld.shared.u32 %r2, [cell];
	st.global.u32 [%rd1], %r2;
	.loc 1 24 5
	ret;
}
"#;

/// A fault names the line of the source, in machine code of either compiler as in the PTX.
#[test]
fn faults_name_the_line() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("lines-faults");
    std::fs::write(dir.join("k.ptx"), FAULTS).expect("written");
    let launch = |kernel: &str| {
        format!(
            "kernel = \"{kernel}\"\ngrid = [1,1,1]\nblock = [64,1,1]\n[[arg]]\nbuffer = {{ bytes = 16, fill = 0 }}\n"
        )
    };
    for (tool, out) in [(env!("CARGO_BIN_EXE_ptxas").into(), "ours.cubin"), (oracle.join("bin/ptxas"), "theirs.cubin")]
    {
        let done = run(&tool, &dir, &["-arch=sm_90", "-lineinfo", "-w", "k.ptx", "-o", out]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    for (kernel, places) in
        [("k", &["(/inc/b.h:78)"][..]), ("race", &["(/src/a.cu:21)", "the other is", "(/src/a.cu:21)"])]
    {
        std::fs::write(dir.join("l.toml"), launch(kernel)).expect("written");
        for module in ["k.ptx", "ours.cubin", "theirs.cubin"] {
            let done = run(env!("CARGO_BIN_EXE_sassafras"), &dir, &["run", module, "--launch", "l.toml"]);
            let said = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(1), "{module}: {said}");
            let mut rest = &*said;
            for place in places {
                let at = rest.find(place).unwrap_or_else(|| panic!("{module}: no {place} in {said}"));
                rest = &rest[at + place.len()..];
            }
        }
    }
}

/// A kernel with debugging sections of every kind of word: labels of code, sections, a parameter, variables.
const DEBUGGED: &str = r#".version 8.4
.target sm_90, debug
.address_size 64
.file 1 "/src/a.cu"
.visible .global .align 4 .b32 counter;
.visible .entry k(.param .u64 p, .param .u32 n)
{
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.shared .align 4 .b8 room[128];
	.loc 1 10 5
$L__func_begin0:
	ld.param.u64 %rd1, [p];
	.loc 1 12 7
$L__tmp0:
	mov.u32 %r2, %tid.x;
	mul.wide.s32 %rd3, %r2, 4;
	add.s64 %rd4, %rd1, %rd3;
	.loc 1 13 7
$L__tmp1:
	ld.global.u32 %r3, [%rd4];
	xor.b32 %r4, %r3, 77;
	st.shared.u32 [room+4], %r4;
	.loc 1 15 1
$L__tmp2:
	st.global.u32 [%rd4], %r4;
	atom.global.add.u32 %r5, [counter], 1;
	.loc 1 20 1
	ret;
$L__func_end0:
}
.section .debug_abbrev
{
.b8 1,17,1,37,8,19,5,3,8,16,6,17,1,18,1,0,0
.b8 2,46,1,3,8,17,1,18,1,0,0
.b8 3,52,0,3,8,2,10,0,0
.b8 4,52,0,3,8,2,6,0,0
.b8 0
}
.section .debug_info
{
.b32 104
.b16 2
.b32 .debug_abbrev
.b8 8
.b8 1
.b8 116,0
.b16 4
.b8 97,46,99,117,0
.b32 .debug_line
.b64 $L__func_begin0
.b64 $L__func_end0
.b8 2
.b8 107,0
.b64 $L__tmp0
.b64 $L__tmp2
.b8 3,112,0,9,3
.b64 p
.b8 3,114,0,9,3
.b64 room
.b8 3,99,0,9,3
.b64 counter
.b8 4,108,0
.b32 .debug_loc
.b8 0
.b8 0
}
.section .debug_loc
{
.b64 $L__tmp0
.b64 $L__tmp1
.b16 2
.b8 144,1
.b64 $L__tmp1
.b64 $L__tmp2
.b16 2
.b8 144,2
.b64 0
.b64 0
}
"#;

/// `-g` carries the debugging sections over: the bytes are the vendor's but for places in code, and so are the relocations.
#[test]
fn debugging_sections_are_those_of_the_vendor() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("lines-debug");
    std::fs::write(dir.join("k.ptx"), DEBUGGED).expect("written");
    for mode in [&[][..], &["-c"]] {
        let mut all = Vec::new();
        for (tool, out) in
            [(env!("CARGO_BIN_EXE_ptxas").into(), "ours.cubin"), (oracle.join("bin/ptxas"), "theirs.cubin")]
        {
            let done = run(&tool, &dir, &[&["-arch=sm_90", "-g", "k.ptx", "-o", out], mode].concat());
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            let elf = cubin::elf::Elf::read(&std::fs::read(dir.join(out)).expect("a file")).expect("a cubin");
            all.push((elf, places(&oracle.join("bin/nvdisasm"), &dir, out)));
        }
        let [(ours, our_places), (theirs, their_places)] = &all[..] else { unreachable!("two files") };
        assert_eq!(our_places, their_places);
        for name in [".debug_abbrev", ".debug_info", ".debug_loc"] {
            let section = |elf: &cubin::elf::Elf| elf.section(name).expect("the section").1.data.clone();
            assert_eq!(section(ours).len(), section(theirs).len(), "{name}");
            // Where each refers to what, with the number that is added unless it is a place in code.
            let refs = |elf: &cubin::elf::Elf| -> Vec<(u64, u32, String, i64)> {
                let Some((_, rela)) = elf.section(&format!(".rela{name}")) else { return Vec::new() };
                let symbols = elf.symbols().expect("symbols");
                let list = rela.relocs().into_iter().map(|r| {
                    // Variables of an entry have names of our own in a relocatable file.
                    let name = &symbols[r.symbol as usize].name;
                    let symbol = if name.contains("__room__") { "room" } else { name }.to_string();
                    let addend = if symbol == "k" { 0 } else { r.addend };
                    (r.offset, r.kind, symbol, addend)
                });
                list.collect()
            };
            let (a, b) = (refs(ours), refs(theirs));
            assert_eq!(a, b, "{name} {mode:?}");
            // Under a relocation the vendor's files hold the place itself, too, or nothing; a linker writes it anew.
            let under = |at: usize| a.iter().any(|r| (r.0..r.0 + 8).contains(&(at as u64)));
            let (mine, other) = (section(ours), section(theirs));
            let different = (0..mine.len()).filter(|&at| mine[at] != other[at] && !under(at));
            assert_eq!(different.collect::<Vec<_>>(), [0usize; 0], "{name} {mode:?}");
        }
        // Labels lie in their order, within the code.
        let (_, rela) = ours.section(".rela.debug_loc").expect("relocations");
        let mut at: Vec<(u64, i64)> = rela.relocs().iter().map(|r| (r.offset, r.addend)).collect();
        at.sort_unstable();
        assert!(at.windows(2).all(|w| w[0].1 <= w[1].1) && at[0].1 < at[3].1, "{at:x?}");
    }
}
