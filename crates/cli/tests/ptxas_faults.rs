//! Kernels of `docs/ptxas-faults.md`: the vendor's code is wrong, ours gives what the PTX interpreter gives.

use testkit::Scratch;
use testkit::tool::must;

/// Runs `launch` of `text` with the PTX interpreter and with our code for `arch`: what both leave in the output `out`.
fn both(text: &str, arch: &str, launch: &str) -> [Vec<u8>; 2] {
    let dir = Scratch::new("ptxas-faults");
    std::fs::write(dir.join("k.ptx"), text).expect("written");
    let target = format!("-arch={arch}");
    must(env!("CARGO_BIN_EXE_ptxas"), &dir, &[&target, "k.ptx", "-o", "k.cubin", "--verify"]);
    ["k.ptx", "k.cubin"].map(|file| {
        let out = format!("{file}.out");
        must(env!("CARGO_BIN_EXE_sassafras"), &dir, &["run", file, "--launch", launch, "--arch", arch, "--out", &out]);
        std::fs::read(dir.join(format!("{out}/out"))).expect("an output")
    })
}

/// A kernel of `tests/kernels/features`, without its ending.
fn feature(name: &str) -> String {
    format!("{}/../../tests/kernels/features/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Sums of products by a warpgroup that are converted in every round of a loop that may be unrolled.
#[test]
fn sums_that_change_in_a_loop() {
    let kernel = feature("wrong_state_backward");
    let text = std::fs::read_to_string(format!("{kernel}.ptx")).expect("the kernel");
    let pragma = ".pragma \"nounroll\";\n";
    assert!(text.contains(pragma));
    let [expected, ours] = both(&text.replace(pragma, ""), "sm_90a", &format!("{kernel}.basic.toml"));
    assert_eq!(expected.len(), 4096);
    assert_eq!(ours, expected);
}

/// Counters of loops that wrap, and bounds that did: each start with the numbers of steps with which all loops end soon.
#[test]
fn counters_that_wrap() {
    const STARTS: [(u32, [u32; 5]); 12] = [
        (0x0, [1, 2, 3, 4, 5]),
        (0x1, [2, 3, 4, 5, 6]),
        (0x2, [1, 3, 4, 5, 6]),
        (0x7fffffff, [1, 2, 3, 4, 5]),
        (0x7ffffffe, [1, 2, 3, 4, 5]),
        (0x7ffffffd, [2, 3, 4, 5, 6]),
        (0x80000000, [1, 2, 3, 4, 5]),
        (0x80000001, [1, 2, 3, 4, 5]),
        (0x80000003, [1, 2, 3, 4, 5]),
        (0xffffffff, [1, 2, 3, 4, 5]),
        (0xfffffffe, [1, 2, 3, 4, 5]),
        (0xfffffffb, [1, 2, 3, 4, 5]),
    ];
    let input: String = STARTS
        .into_iter()
        .flat_map(|(start, steps)| steps.map(|n| [start, n]))
        .flatten()
        .flat_map(u32::to_le_bytes)
        .map(|b| format!("{b:02x}"))
        .collect();
    let text = std::fs::read_to_string(feature("loops_counted.ptx")).expect("the kernel");
    let dir = Scratch::new("ptxas-faults-wrap");
    let launch = dir.join("k.toml");
    let threads = STARTS.len() * 5;
    let words = format!(
        "kernel = \"loops_counted\"\ngrid = [1]\nblock = [{threads}]\n[[arg]]\nbuffer = {{ hex = \"{input}\" }}\n\
         [[arg]]\nbuffer = {{ bytes = {}, fill = 0 }}\nout = \"out\"\n",
        threads * 48
    );
    std::fs::write(&launch, words).expect("written");
    for arch in ["sm_80", "sm_90"] {
        let [expected, ours] = both(&text, arch, &launch.to_string_lossy());
        assert_eq!(expected.len(), threads * 48);
        assert_eq!(ours, expected, "{arch}");
    }
}

/// A parameter and a result of 128 bits in registers.
#[test]
fn registers_of_128_bits_as_parameters() {
    let text = ".version 8.3\n.target sm_90\n.address_size 64\n\
        .func (.reg .b128 swapped) swap(.reg .b128 value, .reg .b32 more)\n{\n.reg .b64 %d<2>;\n.reg .b64 %m;\n\
        mov.b128 {%d0, %d1}, value;\ncvt.u64.u32 %m, more;\nadd.u64 %d0, %d0, %m;\n\
        mov.b128 swapped, {%d1, %d0};\nret;\n}\n\
        .visible .entry k(.param .u64 out)\n{\n.reg .b128 %q<2>;\n.reg .b64 %d<5>;\n.reg .b32 %r<2>;\n\
        ld.param.u64 %d0, [out];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %d1, %r0, 16;\nadd.u64 %d0, %d0, %d1;\n\
        ld.global.v2.u64 {%d1, %d2}, [%d0];\nmov.b128 %q0, {%d1, %d2};\ncall (%q1), swap, (%q0, %r0);\n\
        mov.b128 {%d3, %d4}, %q1;\nst.global.v2.u64 [%d0], {%d3, %d4};\nret;\n}\n";
    let dir = Scratch::new("ptxas-faults-128");
    let launch = dir.join("k.toml");
    let given: Vec<u64> = (1..=16).map(|n| n * 0x0123_4567_89ab_cdef).collect();
    let hex: String = given.iter().flat_map(|n| n.to_le_bytes()).map(|b| format!("{b:02x}")).collect();
    let words =
        format!("kernel = \"k\"\ngrid = [1]\nblock = [8]\n[[arg]]\nbuffer = {{ hex = \"{hex}\" }}\nout = \"out\"\n");
    std::fs::write(&launch, words).expect("written");
    let pairs = given.chunks(2).enumerate();
    let want: Vec<u8> = pairs.flat_map(|(n, p)| [p[1], p[0] + n as u64]).flat_map(u64::to_le_bytes).collect();
    assert_eq!(both(text, "sm_90", &launch.to_string_lossy()), [want.clone(), want]);
}
