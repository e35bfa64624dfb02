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

/// What the system loads of a program: flags, place in the file, and place in memory.
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
    const WRITE: u32 = 2;
    for program in [env!("CARGO_BIN_EXE_ptxas"), env!("CARGO_BIN_EXE_sassafras")] {
        let segments = loaded(program);
        assert!(segments.iter().any(|s| s.0 & RUN != 0), "{program}: {segments:x?}");
        for (_, offset, address) in &segments {
            assert!(offset % LARGE == 0 && address % LARGE == 0, "{program}: {segments:x?}");
        }
        // One part is written.
        assert_eq!(segments.iter().filter(|s| s.0 & WRITE != 0).count(), 1, "{program}: {segments:x?}");
    }
}

/// The variable that says to this program to be one that panics.
const PANICS: &str = "SASSAFRAS_TEST_PANICS";

#[cfg(all(target_os = "linux", target_env = "gnu"))]
/// What the environment may ask of the C library needs more memory for the first thread than lies in the program.
#[test]
fn programs_start_with_more_memory_for_threads() {
    for room in ["0", "100000"] {
        let mut ptxas = std::process::Command::new(env!("CARGO_BIN_EXE_ptxas"));
        let tuned = ptxas.arg("--version").env("GLIBC_TUNABLES", format!("glibc.rtld.optional_static_tls={room}"));
        let done = tuned.output().expect("it starts");
        assert!(done.status.success() && done.stdout.starts_with(b"ptxas: "), "{room}: {done:?}");
    }
}

#[test]
fn programs_that_panic_say_so_and_end_as_rust_says_it() {
    if let Some(how) = std::env::var_os(PANICS) {
        cli::start(if how == "thread" {
            |_| std::thread::spawn(|| panic!("a thread's words")).join().map_or(3, |()| 4)
        } else {
            |_| panic!("last words")
        });
    }
    for (how, words) in [("main", "last words"), ("thread", "a thread's words")] {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture", "programs_that_panic_say_so_and_end_as_rust_says_it"]).env(PANICS, how);
        let ended = again.output().unwrap();
        assert_eq!(ended.status.code(), Some(101), "{how}: {ended:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains(words), "{how}: {ended:?}");
    }
}
