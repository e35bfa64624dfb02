//! The start of the programs: ours where the build found that it does what the C library's does (`build.rs`).

/// Functions that the library's start consists of, by the names that a program with its symbols in it has.
const THEIRS: &[u8] = b"\0__libc_start_call_main\0";
/// A function of ours.
const OURS: &[u8] = b"\0sassafras_finish\0";

fn has(program: &str, name: &[u8]) -> bool {
    let bytes = std::fs::read(program).expect(program);
    bytes.windows(name.len()).any(|window| window == name)
}

#[test]
fn programs_start_by_themselves_or_the_build_says_why_not() {
    let why_not = env!("SASSAFRAS_START");
    let ours = why_not.is_empty();
    if !ours {
        println!("the C library starts the programs: {why_not}");
    }
    let programs = [
        env!("CARGO_BIN_EXE_ptxas"),
        env!("CARGO_BIN_EXE_nvdisasm"),
        env!("CARGO_BIN_EXE_nvlink"),
        env!("CARGO_BIN_EXE_cuobjdump"),
        env!("CARGO_BIN_EXE_fatbinary"),
    ];
    for program in programs {
        assert_eq!(has(program, OURS), ours, "{program}: {why_not}");
        assert!(!(ours && has(program, THEIRS)), "{program} has both");
    }
    assert!(!has(env!("CARGO_BIN_EXE_sassafras"), OURS), "what simulates wants the processor's features");
}
