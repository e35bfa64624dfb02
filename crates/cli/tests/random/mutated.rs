//! Programs that are changed line by line: what the checker still takes the compiler compiles, with every verifier on, or refuses
//! with a message; it never panics, never says that it is broken itself, and takes no longer than the size of the text allows.

use super::Rng;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Words that take each other's place.
const GROUPS: [&[&str]; 12] = [
    &[".u32", ".s32", ".b32", ".f32"],
    &[".u64", ".s64", ".b64", ".f64"],
    &[".u16", ".s16", ".b16", ".f16", ".bf16"],
    &[".u8", ".s8", ".b8", ".u16"],
    &["add", "sub", "mul.lo", "min", "max", "and", "or", "xor"],
    &[".rn", ".rz", ".rm", ".rp"],
    &[".lt", ".le", ".gt", ".ge", ".eq", ".ne"],
    &[".global", ".shared", ".local", ".const"],
    &["bra", "bra.uni", "call"],
    &[".v2", ".v4"],
    &[".sync", ".aligned", ".row", ".col"],
    &["0", "1", "-1", "4", "31", "32", "65535", "2147483647", "0x80000000", "0f7F800000"],
];

fn files() -> Vec<PathBuf> {
    let mut out = Vec::new();
    for folder in ["cuda", "features", "triton"] {
        let all = std::fs::read_dir(testkit::root().join("tests/kernels").join(folder));
        let all = all.into_iter().flatten().flatten().map(|e| e.path());
        out.extend(all.filter(|p| p.extension().is_some_and(|e| e == "ptx")));
    }
    out.sort();
    out
}

fn change(rng: &mut Rng, lines: &mut Vec<String>) {
    let at = rng.below(lines.len());
    let other = rng.below(lines.len());
    match rng.below(8) {
        0 => drop(lines.remove(at)),
        1 => {
            let line = lines[other].clone();
            lines.insert(at, line);
        }
        2 => lines.swap(at, other),
        3 => {
            // One register for another, or one digit.
            let digits: Vec<usize> = lines[at].char_indices().filter(|c| c.1.is_ascii_digit()).map(|c| c.0).collect();
            if !digits.is_empty() {
                let i = digits[rng.below(digits.len())];
                let digit = rng.below(10).to_string();
                lines[at].replace_range(i..i + 1, &digit);
            }
        }
        _ => {
            // The words of a group that stand in this line or a later one.
            let group = GROUPS[rng.below(GROUPS.len())];
            let (from, to) = (group[rng.below(group.len())], group[rng.below(group.len())]);
            let found = (at..lines.len()).chain(0..at).find(|&i| lines[i].contains(from));
            if let Some(i) = found {
                lines[i] = lines[i].replacen(from, to, 1);
            }
        }
    }
}

/// Changes programs until `seconds` have passed.
pub fn run(seed: u64, seconds: u64) {
    let files = files();
    let mut rng = Rng(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut tried, mut compiled) = (0u32, 0u32);
    while Instant::now() < end {
        let text = match rng.below(3) {
            0 => super::program(rng.next(), 60, false),
            _ => std::fs::read_to_string(&files[rng.below(files.len())]).expect("a file"),
        };
        if text.len() > 60_000 {
            continue;
        }
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        for _ in 0..1 + rng.below(3) {
            if lines.len() > 4 {
                change(&mut rng, &mut lines);
            }
        }
        let text = lines.join("\n");
        tried += 1;
        let options = codegen::Options {
            target: arch::Target::parse("sm_90a").expect("a target"),
            verify: true,
            max_registers: (rng.below(6) == 0).then_some(32),
            ..codegen::Options::default()
        };
        let (m, mut d) = ptx::parse(&text);
        if !d.iter().any(diag::Diagnostic::is_error) {
            d.extend(ptx::check(&m, Some(&options.target)));
        }
        if d.iter().any(diag::Diagnostic::is_error) {
            continue;
        }
        let start = Instant::now();
        let done = std::panic::catch_unwind(|| codegen::compile(&m, &options));
        let keep = || {
            let path = std::env::temp_dir().join("sassafras-mutated.ptx");
            let _ = std::fs::write(&path, &text);
            format!("kept as {}", path.display())
        };
        match done {
            Err(_) => panic!("the compiler panics: {}", keep()),
            Ok(Err(list)) if list.iter().any(|d| d.message.contains("internal error")) => {
                panic!("{}: {}", list[0].message, keep())
            }
            Ok(done) => compiled += done.is_ok() as u32,
        }
        // A second for each thousand bytes, on a machine that does ten other things at once.
        let most = Duration::from_secs(20 + text.len() as u64 / 1000);
        assert!(start.elapsed() < most, "{:?} for {} bytes: {}", start.elapsed(), text.len(), keep());
    }
    eprintln!("{tried} programs, {compiled} compiled");
    assert!(compiled > 0, "nothing compiled");
}
