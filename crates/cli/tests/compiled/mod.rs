//! Texts with a kernel `k` that the tests make: our code of them, and what it computes.

use testkit::Scratch;
use testkit::tool::must;

/// Our code of a text.
pub fn cubin(dir: &Scratch, text: &str) -> Vec<u8> {
    std::fs::write(dir.join("k.ptx"), text).expect("written");
    must(env!("CARGO_BIN_EXE_ptxas"), dir, &["-arch=sm_90", "k.ptx", "-o", "k.cubin"]);
    std::fs::read(dir.join("k.cubin")).expect("a cubin")
}

/// What the interpreter makes of a kernel `k` with one output of so many words, and what our code does.
pub fn words(dir: &Scratch, text: &str, threads: usize, words: usize) -> [Vec<u32>; 2] {
    cubin(dir, text);
    let launch = format!(
        "kernel = \"k\"\ngrid = [1, 1, 1]\nblock = [{threads}, 1, 1]\n[[arg]]\nbuffer = {{ bytes = {}, fill = 0 }}\nout = \"out\"\n",
        4 * words
    );
    std::fs::write(dir.join("k.toml"), launch).expect("written");
    ["k.ptx", "k.cubin"].map(|file| {
        let out = format!("{file}.out");
        must(
            env!("CARGO_BIN_EXE_sassafras"),
            dir,
            &["run", file, "--launch", "k.toml", "--arch", "sm_90", "--out", &out],
        );
        let bytes = std::fs::read(dir.join(format!("{out}/out"))).expect("an output");
        bytes.chunks(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
    })
}
