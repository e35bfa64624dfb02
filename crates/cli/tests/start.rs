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

/// What the system loads of a program: flags, place in the file, place in memory.
fn loaded(program: &str) -> Vec<(u32, u64, u64)> {
    let bytes = std::fs::read(program).expect(program);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (first, size, count) = (word(32) as usize, (word(48) >> 48) as usize, (word(56) & 0xffff) as usize);
    let segments = (0..count).map(|n| first + n * size);
    let of_file = segments.filter(|&at| word(at) as u32 == 1);
    of_file.map(|at| ((word(at) >> 32) as u32, word(at + 8), word(at + 16))).collect()
}

#[test]
fn code_and_tables_lie_as_large_pages_do() {
    if env!("SASSAFRAS_PAGES") != "true" {
        println!("the linker that makes the programs is not LLVM's, or nothing is known of it");
        return;
    }
    const LARGE: u64 = 2 << 20;
    const RUN: u32 = 1;
    for program in [env!("CARGO_BIN_EXE_ptxas"), env!("CARGO_BIN_EXE_sassafras")] {
        let segments = loaded(program);
        assert!(segments.iter().any(|s| s.0 & RUN != 0), "{program}: {segments:x?}");
        for (_, offset, address) in &segments {
            assert!(offset % LARGE == 0 && address % LARGE == 0, "{program}: {segments:x?}");
        }
    }
}
