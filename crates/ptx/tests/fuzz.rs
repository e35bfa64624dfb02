//! Random bytes, random words and mutated modules: no panic, no hang, and what is accepted prints to text that is accepted and
//! means the same.
//!
//! The other tests run it for a second; `SASSAFRAS_FUZZ_SECONDS=600 SASSAFRAS_FUZZ_SEED=7` for ten minutes from another start.

mod common;

use common::bare;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::Random;

/// The longest that one input may take: an input has some hundred kilobytes at most.
const PATIENCE: Duration = Duration::from_secs(3);

/// Every module of the repository that is not too large, good and bad.
fn seeds() -> Vec<Vec<u8>> {
    let mut paths = testkit::corpus();
    for folder in ["crates/ptx/tests/good", "crates/ptx/tests/bad", "crates/ptx/tests/samples/triton"] {
        paths.extend(testkit::files(folder, "ptx"));
    }
    paths.sort();
    let texts: Vec<Vec<u8>> = paths.iter().filter_map(|p| std::fs::read(Path::new(p)).ok()).collect();
    assert!(texts.len() > 50, "{} seeds", texts.len());
    texts.into_iter().filter(|t| t.len() < 60_000).collect()
}

/// What a module is made of: words with their dots, numbers, strings, punctuation, blanks.
fn tokens(text: &[u8]) -> Vec<&[u8]> {
    let class = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' | b'%' | b'.' => 1,
        b' ' | b'\t' | b'\n' => 2,
        _ => 3,
    };
    text.chunk_by(|&a, &b| class(a) == class(b) && class(a) != 3).collect()
}

struct Maker {
    random: Random,
    seeds: Vec<Vec<u8>>,
    words: Vec<String>,
}

impl Maker {
    fn word(&mut self) -> Vec<u8> {
        const MARKS: [&str; 30] = [
            ";",
            ",",
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            ":",
            "@",
            "!",
            "-",
            "+",
            "|",
            "<4>",
            "=",
            "_",
            "\n",
            " ",
            "0",
            "-1",
            "4294967296",
            "0f3F800000",
            "1.5",
            "\"a\"",
            "%r1",
            "%rd1",
            "L",
            "generic(",
            ".reg .b32 %r<9>;",
        ];
        match self.random.index(3) {
            0 => MARKS[self.random.index(MARKS.len())].as_bytes().to_vec(),
            1 => {
                let seed = self.random.index(self.seeds.len());
                let list = tokens(&self.seeds[seed]);
                let at = self.random.index(list.len());
                list.get(at).map(|t| t.to_vec()).unwrap_or_default()
            }
            _ => self.words[self.random.index(self.words.len())].clone().into_bytes(),
        }
    }

    /// One input.
    fn input(&mut self) -> Vec<u8> {
        let head = b".version 9.5\n.target sm_90a\n.address_size 64\n";
        match self.random.index(8) {
            0 => (0..self.random.index(2000)).map(|_| self.random.bits() as u8).collect(),
            1 => {
                let mut out = head.to_vec();
                if self.random.index(2) == 0 {
                    out.extend(b".entry k() {\n.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;\n");
                }
                for _ in 0..self.random.index(400) {
                    out.extend(self.word());
                    out.push(b' ');
                }
                out
            }
            kind => {
                let seed = self.random.index(self.seeds.len());
                let mut list: Vec<Vec<u8>> = tokens(&self.seeds[seed]).into_iter().map(<[u8]>::to_vec).collect();
                for _ in 0..1 + self.random.index(if kind < 6 { 2 } else { 40 }) {
                    let at = self.random.index(list.len());
                    let to = self.random.index(list.len());
                    match self.random.index(if kind < 6 { 12 } else { 7 }) {
                        0 if !list.is_empty() => drop(list.remove(at)),
                        1 if !list.is_empty() => list.swap(at, to),
                        2 if !list.is_empty() => {
                            let end = (at + self.random.index(60)).min(list.len());
                            let copy = list[at..end].to_vec();
                            list.splice(to..to, copy);
                        }
                        3 if !list.is_empty() => {
                            let word = &mut list[at];
                            let byte = self.random.index(word.len());
                            if let Some(b) = word.get_mut(byte) {
                                *b ^= 1 << self.random.index(8);
                            }
                        }
                        4 if !list.is_empty() => list[at] = self.word(),
                        5 => {
                            let word = self.word();
                            list.insert(at, word);
                        }
                        // Another one of its kind: a register, a number, an instruction.
                        _ => {
                            let Some(word) = list.get(at).cloned() else { continue };
                            let like = |w: &&Vec<u8>| w.first() == word.first() && **w != word;
                            let others: Vec<&Vec<u8>> = list.iter().filter(like).collect();
                            if let Some(other) = others.get(self.random.index(others.len())) {
                                list[at] = other.to_vec();
                            }
                        }
                    }
                }
                list.concat()
            }
        }
    }
}

/// What goes wrong with an input, if anything does.
fn wrong(text: &[u8]) -> Option<String> {
    let start = Instant::now();
    let (module, mut diags) = ptx::parse_bytes(text);
    let parsed = !diags.iter().any(|d| d.is_error());
    diags.extend(ptx::check(&module, arch::Target::parse("sm_90a").as_ref()));
    let _ = ptx::unresolved(&module);
    let printed = ptx::print(&module);
    if start.elapsed() > PATIENCE {
        return Some(format!("takes {:?}", start.elapsed()));
    }
    if diags.iter().any(|d| d.span.is_some_and(|s| s.end as usize > text.len() || s.start > s.end)) {
        return Some("a place outside of the text".to_string());
    }
    // What parses prints to the same, whatever the validator says of it.
    if parsed {
        let (again, diags) = ptx::parse(&printed);
        if let Some(d) = diags.iter().find(|d| d.is_error()) {
            return Some(format!("prints to what is refused: {}\n{printed}", d.message));
        }
        if bare(module) != bare(again) {
            return Some(format!("prints to another module\n{printed}"));
        }
    }
    None
}

#[test]
fn random_modules_are_survived() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (seconds, seed) = (number("SASSAFRAS_FUZZ_SECONDS", 1), number("SASSAFRAS_FUZZ_SEED", 0x5a55_f022));
    let ops = ptx::isa::Op::ALL.iter().map(|o| o.name().to_string());
    let mods = ptx::isa::Mod::ALL.iter().map(|m| format!(".{}", m.name()));
    let mut maker = Maker { random: Random(seed), seeds: seeds(), words: ops.chain(mods).collect() };
    let start = Instant::now();
    let (mut inputs, mut accepted) = (0usize, 0usize);
    while start.elapsed() < Duration::from_secs(seconds) || inputs < 200 {
        let text = maker.input();
        let shown = std::env::temp_dir().join(format!("sassafras-fuzz-{}.ptx", std::process::id()));
        inputs += 1;
        let done = std::panic::catch_unwind(|| wrong(&text)).unwrap_or_else(|_| Some("panic".to_string()));
        if let Some(what) = done {
            std::fs::write(&shown, &text).expect("writable");
            panic!("input {inputs} of seed {seed}, left in {}: {what}", shown.display());
        }
        accepted += usize::from(!ptx::parse_bytes(&text).1.iter().any(|d| d.is_error()));
    }
    println!("{inputs} inputs, {accepted} of them parse");
    assert!(accepted > 0, "nothing parses");
}

#[test]
fn a_hundred_messages_are_enough() {
    let head = ".version 9.5\n.target sm_90\n.address_size 64\n";
    let bad = [
        ("nonsense %r1, 5;\n", "what is no instruction"),
        ("add.u32 %r1, nothing, 5;\n", "what is not declared"),
        ("add.u32 %rd1, %r2, 5;\n", "what the validator refuses"),
        ("add.foo %r1, %r2, 5;\n", "unknown modifiers"),
    ];
    for (line, what) in bad {
        let body = line.repeat(10_000);
        let regs = ".reg .b32 %r<9>; .reg .b64 %rd<9>;\n";
        let text = format!("{head}.entry k() {{\n{regs}{body}ret;\n}}\n");
        let start = Instant::now();
        let (module, mut diags) = ptx::parse(&text);
        if diags.is_empty() {
            diags = ptx::check(&module, arch::Target::parse("sm_90").as_ref());
        }
        assert_eq!(diags.len(), 100, "{what}");
        let first: Vec<u32> = diags.iter().take(2).filter_map(|d| d.span).map(|s| s.start).collect();
        assert!(first.windows(2).all(|w| w[0] < w[1]) && first.len() == 2, "{what}: in the order of the text");
        assert!(start.elapsed() < PATIENCE, "{what}: {:?}", start.elapsed());
    }
    let text = format!("{head}{}", ".global .u32 x = nothing;\n".repeat(10_000));
    assert_eq!(ptx::parse(&text).1.len(), 100);
    let variables: String = (0..10_000).map(|i| format!(".shared .texref t{i};\n")).collect();
    let (module, diags) = ptx::parse(&format!("{head}{variables}"));
    assert!(diags.is_empty(), "declarations that only the validator refuses");
    assert_eq!(ptx::check(&module, None).len(), 100);
    // Warnings do not hide errors.
    let warned: String = (0..300).map(|i| format!(".entry k{i}() .minnctapersm 2 {{ ret; }}\n")).collect();
    let (module, _) = ptx::parse(&format!("{head}{warned}.entry k() .maxnreg 0 {{ ret; }}\n"));
    let diags = ptx::check(&module, None);
    assert_eq!((diags.len(), diags.iter().filter(|d| d.is_error()).count()), (101, 1));
}
