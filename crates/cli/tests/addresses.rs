//! Addresses in initialisers: of constants, of globals, generic and not, in one module and over two that are linked.

use std::path::Path;
use testkit::Scratch;
use testkit::tool::run;

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// What another module may define.
const DEFINED: &str = "
.visible .const .align 8 .u64 far[4] = {40, 41, 42, 43};
.visible .global .align 8 .u64 away[4] = {50, 51, 52, 53};
";

const DECLARED: &str = "
.extern .const .align 8 .u64 far[4];
.extern .global .align 8 .u64 away[4];
";

/// Each pointer is followed in the memory that it is of.
const KERNEL: &str = "
.const .align 8 .u64 first = 1;
.const .align 8 .u64 near[4] = {4, 5, 6, 7};
.global .align 8 .u64 here[4] = {14, 15, 16, 17};
.const .align 8 .u64 in_constants[6] = {far+8, near, 77, generic(near)+16, here+8, away};
.global .align 8 .u64 in_globals[6] = {far+16, near+8, 78, generic(far), here+24, away+8};
.const .align 4 .u32 half_constants[4] = {3, CONSTANTS, 9};
.global .align 4 .u32 half_globals[4] = {11, GLOBALS, 12};
.visible .entry k(.param .u64 out)
{
	.reg .b64 %p, %a;
	.reg .b32 %h;
	ld.param.u64 %p, [out];
BODY	ret;
}
";

/// The kernel with all its loads, and what it writes. `beside`: with addresses of 32 bits beside each other, and some bytes added, of which
/// the vendor's compiler loses what is added and the element behind it (13.5).
fn kernel(beside: bool) -> (String, Vec<u64>) {
    let rows = [
        ("const", "in_constants", 0, "const", 41),
        ("const", "in_constants", 8, "const", 4),
        ("const", "in_constants", 24, "", 6),
        ("const", "in_constants", 32, "global", 15),
        ("const", "in_constants", 40, "global", 50),
        ("global", "in_globals", 0, "const", 42),
        ("global", "in_globals", 8, "const", 5),
        ("global", "in_globals", 24, "", 40),
        ("global", "in_globals", 32, "", 17),
        ("global", "in_globals", 40, "global", 51),
    ];
    let mut body = String::new();
    let mut expected = Vec::new();
    let mut store = |body: &mut String, n: u64| {
        *body += &format!("\tst.global.u64 [%p+{}], %a;\n", 8 * expected.len());
        expected.push(n);
    };
    for (from, name, at, to, n) in rows {
        let to = if to.is_empty() { String::new() } else { format!(".{to}") };
        body += &format!("\tld.{from}.u64 %a, [{name}+{at}];\n\tld{to}.u64 %a, [%a];\n");
        store(&mut body, n);
    }
    let halves = match beside {
        true => [("const", "half_constants", [3, 1007, 1043, 9]), ("global", "half_globals", [11, 1007, 1040, 12])],
        false => [("const", "half_constants", [3, 10, 1004, 9]), ("global", "half_globals", [11, 10, 1040, 12])],
    };
    for (from, name, words) in halves {
        for (i, n) in words.into_iter().enumerate() {
            body += &format!("\tld.{from}.u32 %h, [{name}+{}];\n\tcvt.u64.u32 %a, %h;\n", 4 * i);
            // Beside the addresses lie plain numbers, which stay.
            if n > 1000 {
                body += "\tld.const.u64 %a, [%a];\n\tadd.u64 %a, %a, 1000;\n";
            }
            store(&mut body, n);
        }
    }
    let [constants, globals] = if beside { ["near+24, far+24", "near+24, far"] } else { ["10, near", "10, far"] };
    (KERNEL.replace("BODY", &body).replace("CONSTANTS", constants).replace("GLOBALS", globals), expected)
}

const LAUNCH: &str =
    "kernel = \"k\"\ngrid = [1]\nblock = [1]\n[[arg]]\nbuffer = { bytes = 144, fill = 0 }\nout = \"o\"\n";

fn must(dir: &Path, tool: &Path, args: &[&str]) {
    let done = run(tool, dir, args);
    assert!(done.status.success(), "{tool:?} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn expect(dir: &Path, args: &[&str], expected: &[u64]) {
    let more = ["--launch", "l.toml", "--out", "."];
    must(dir, env!("CARGO_BIN_EXE_sassafras").as_ref(), &[&["run"], args, &more].concat());
    let bytes = std::fs::read(dir.join("o")).expect("a buffer");
    let got: Vec<u64> = bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
    assert_eq!(got, expected, "{args:?}");
}

#[test]
fn addresses_lead_to_their_variables() {
    check("addresses", false, testkit::oracle::latest().as_deref());
    check("addresses-beside", true, None);
}

fn check(name: &str, beside: bool, oracle: Option<&Path>) {
    let dir = Scratch::new(name);
    let (kernel, expected) = kernel(beside);
    for (name, text) in [
        ("whole.ptx", format!("{HEAD}{DEFINED}{kernel}")),
        ("a.ptx", format!("{HEAD}{DECLARED}{kernel}")),
        ("b.ptx", format!("{HEAD}.const .align 8 .u64 other[3] = {{1, 2, 3}};\n{DEFINED}")),
        ("l.toml", LAUNCH.into()),
    ] {
        std::fs::write(dir.join(name), text).expect("written");
    }
    let tools = |folder: &Path| (folder.join("ptxas"), folder.join("nvlink"));
    let ours = (env!("CARGO_BIN_EXE_ptxas").into(), env!("CARGO_BIN_EXE_nvlink").into());
    let all = match oracle {
        Some(oracle) => vec![ours, tools(&oracle.join("bin"))],
        None => vec![ours],
    };
    expect(&dir, &["whole.ptx", "--engine", "ptx"], &expected);
    for chip in ["-arch=sm_90a", "-arch=sm_100a", "-arch=sm_120"] {
        for (i, (ptxas, _)) in all.iter().enumerate() {
            must(&dir, ptxas, &[chip, "whole.ptx", "-o", "whole.cubin"]);
            expect(&dir, &["whole.cubin"], &expected);
            for name in ["a", "b"] {
                must(&dir, ptxas, &[chip, "-c", &format!("{name}.ptx"), "-o", &format!("{name}{i}.cubin")]);
            }
        }
        for (_, nvlink) in &all {
            for (a, b) in (0..all.len()).flat_map(|a| (0..all.len()).map(move |b| (a, b))) {
                must(&dir, nvlink, &[chip, &format!("a{a}.cubin"), &format!("b{b}.cubin"), "-o", "linked.cubin"]);
                expect(&dir, &["linked.cubin"], &expected);
            }
        }
    }
}

/// Only the driver knows where a kernel's descriptor lies: it is told the place, as by the vendor's compiler.
#[test]
fn addresses_of_kernels_are_left_to_the_driver() {
    const DESCRIPTOR: u64 = 0x23;
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p);\n.visible .global .align 8 .u64 s[2] = {{7, k}};\n\
         .visible .entry k(.param .u64 p)\n{{\n.reg .b64 a, b;\nld.param.u64 a, [p];\nld.global.u64 b, [s+8];\nst.global.u64 [a], b;\nret;\n}}\n"
    );
    let dir = Scratch::new("addresses-kernels");
    std::fs::write(dir.join("m.ptx"), text).expect("written");
    let mut tools = vec![Path::new(env!("CARGO_BIN_EXE_ptxas")).to_path_buf()];
    tools.extend(testkit::oracle::latest().map(|o| o.join("bin/ptxas")));
    for tool in tools {
        must(&dir, &tool, &["-arch=sm_90a", "m.ptx", "-o", "m.cubin"]);
        let elf = cubin::elf::Elf::read(&std::fs::read(dir.join("m.cubin")).expect("a cubin")).expect("a cubin");
        let (_, table) = elf.section(".rela.nv.global.init").expect("a relocation");
        let words: Vec<u64> = table.data.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
        let [at, info, 0] = words[..] else { panic!("{}: {words:x?}", tool.display()) };
        let symbols = elf.symbols().expect("symbols");
        assert_eq!((at, info & 0xffff_ffff, symbols[(info >> 32) as usize].name.as_str()), (8, DESCRIPTOR, "k"));
    }
}
