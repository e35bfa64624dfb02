//! Kernels of `docs/ptxas-faults.md`: the vendor's code is wrong, ours gives what the PTX interpreter gives.

use testkit::Scratch;
use testkit::tool::must;

/// Sums of products by a warpgroup that are converted in every round of a loop that may be unrolled.
#[test]
fn sums_that_change_in_a_loop() {
    let kernel = format!("{}/../../tests/kernels/features/wrong_state_backward", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(format!("{kernel}.ptx")).expect("the kernel");
    let pragma = ".pragma \"nounroll\";\n";
    assert!(text.contains(pragma));
    let dir = Scratch::new("ptxas-faults");
    std::fs::write(dir.join("k.ptx"), text.replace(pragma, "")).expect("written");
    must(env!("CARGO_BIN_EXE_ptxas"), &dir, &["-arch=sm_90a", "k.ptx", "-o", "k.cubin", "--verify"]);
    let launch = format!("{kernel}.basic.toml");
    for file in ["k.ptx", "k.cubin"] {
        let out = format!("{file}.out");
        let args = ["run", file, "--launch", &launch, "--arch", "sm_90a", "--out", &out];
        must(env!("CARGO_BIN_EXE_sassafras"), &dir, &args);
    }
    let [expected, ours] = ["k.ptx.out/out", "k.cubin.out/out"].map(|f| std::fs::read(dir.join(f)).expect("an output"));
    assert_eq!(expected.len(), 4096);
    assert_eq!(ours, expected);
}
