//! `nvlink` takes PTX text, and compiles it as the vendor's tool does.

use std::path::Path;
use testkit::Scratch;
use testkit::tool::run;

const CALLER: &str = ".version 8.0\n.target sm_90\n.address_size 64\n
.extern .func (.param .b32 r) twice(.param .b32 x);
.extern .global .align 4 .b32 more;
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<6>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	{
	.param .b32 x;
	.param .b32 r;
	st.param.b32 [x], %r1;
	call.uni (r), twice, (x);
	ld.param.b32 %r2, [r];
	}
	ld.global.u32 %r3, [more];
	add.u32 %r2, %r2, %r3;
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r2;
	ret;
}
";

const CALLED: &str = ".version 8.0\n.target sm_90\n.address_size 64\n
.visible .global .align 4 .b32 more = 1000;
.visible .func (.param .b32 r) twice(.param .b32 x)
{
	.reg .b32 %r<3>;
	ld.param.b32 %r1, [x];
	shl.b32 %r2, %r1, 1;
	st.param.b32 [r], %r2;
	ret;
}
";

const LAUNCH: &str =
    "kernel = \"k\"\ngrid = [1]\nblock = [32]\n[[arg]]\nbuffer = { bytes = 128, fill = 0 }\nout = \"o\"\n";

fn expect(dir: &Path, cubin: &str) {
    let done = run(env!("CARGO_BIN_EXE_sassafras"), dir, &["run", cubin, "--launch", "l.toml", "--out", "."]);
    assert!(done.status.success(), "{cubin}: {}", String::from_utf8_lossy(&done.stderr));
    let bytes = std::fs::read(dir.join("o")).expect("a buffer");
    let expected: Vec<u8> = (0..32u32).flat_map(|n| (2 * n + 1000).to_le_bytes()).collect();
    assert_eq!(bytes, expected, "{cubin}");
}

#[test]
fn texts_are_compiled_and_linked() {
    let dir = Scratch::new("link-ptx");
    for (name, text) in [("a.ptx", CALLER), ("b.ptx", CALLED), ("l.toml", LAUNCH)] {
        std::fs::write(dir.join(name), text).expect("written");
    }
    let ours = env!("CARGO_BIN_EXE_nvlink");
    let done = run(ours, &dir, &["-arch=sm_90", "a.ptx", "b.ptx", "-o", "ours.cubin"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    expect(&dir, "ours.cubin");
    let Some(oracle) = testkit::oracle::latest() else { return };
    let done = run(oracle.join("bin/nvlink"), &dir, &["-arch=sm_90", "a.ptx", "b.ptx", "-o", "theirs.cubin"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    expect(&dir, "theirs.cubin");
    // The vendor's code beside a text of ours.
    let object = ["-arch=sm_90", "-c", "b.ptx", "-o", "b.cubin"];
    assert!(run(oracle.join("bin/ptxas"), &dir, &object).status.success());
    let done = run(ours, &dir, &["-arch=sm_90", "a.ptx", "b.cubin", "-o", "mixed.cubin"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    expect(&dir, "mixed.cubin");
}

#[test]
fn faults_of_a_text_are_told_with_their_line() {
    let dir = Scratch::new("link-ptx-faults");
    std::fs::write(dir.join("a.ptx"), CALLER.replace("mul.wide.u32 %rd2", "mul.wide.u32 %rd9")).expect("written");
    std::fs::write(dir.join("b.ptx"), CALLED).expect("written");
    let done = run(env!("CARGO_BIN_EXE_nvlink"), &dir, &["-arch=sm_90", "a.ptx", "b.ptx", "-o", "o.cubin"]);
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("a.ptx', line 22: "), "{said}");
    assert!(!dir.join("o.cubin").exists());
    // A chip that code is not made for yet.
    let done = run(env!("CARGO_BIN_EXE_nvlink"), &dir, &["-arch=sm_110", "b.ptx", "-o", "o.cubin"]);
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("sm_110"), "{said}");
}
