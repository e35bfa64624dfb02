//! Makes the instruction tables from `isa/*.ptxi`: the enums `Op` and `Mod` and their name tables.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Expands `{a,b}` and `{from..to/step}` in a word.
fn expand(word: &str) -> Vec<String> {
    let Some(open) = word.find('{') else { return vec![word.to_string()] };
    let close = open + word[open..].find('}').unwrap_or_else(|| panic!("no closing brace in {word}"));
    let inner = &word[open + 1..close];
    let alternatives: Vec<String> = match inner.split_once("..") {
        Some((from, rest)) => {
            let (to, step) = rest.split_once('/').unwrap_or((rest, "1"));
            let number = |s: &str| s.parse::<usize>().unwrap_or_else(|_| panic!("bad range in {word}"));
            (number(from)..=number(to)).step_by(number(step)).map(|n| n.to_string()).collect()
        }
        None => inner.split(',').map(str::to_string).collect(),
    };
    let tails = expand(&word[close + 1..]);
    let mut out = Vec::new();
    for a in &alternatives {
        for t in &tails {
            out.push(format!("{}{a}{t}", &word[..open]));
        }
    }
    out
}

/// `acq_rel` -> `AcqRel`, `L1::evict_first` -> `L1EvictFirst`, `2d` -> `N2d`.
fn camel(word: &str) -> String {
    let mut out = String::new();
    for part in word.split(['_', ':']).filter(|p| !p.is_empty()) {
        let mut chars = part.chars();
        let first = chars.next().expect("a part is not empty");
        if first.is_ascii_digit() && out.is_empty() {
            out.push('N');
        }
        out.push(first.to_ascii_uppercase());
        out.push_str(chars.as_str());
    }
    out
}

/// The hash of the name tables; `src/isa.rs` has the same function.
fn hash(name: &[u8]) -> u32 {
    let mut h: u32 = 0x811c_9dc5;
    for &b in name {
        h = (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
    }
    h ^ (h >> 15)
}

/// An open-addressing table from name to index; 0 is empty, else index + 1.
fn table(words: &[String]) -> Vec<u16> {
    let size = (words.len() * 3).next_power_of_two();
    let mut slots = vec![0u16; size];
    for (i, w) in words.iter().enumerate() {
        let mut at = hash(w.as_bytes()) as usize & (size - 1);
        while slots[at] != 0 {
            at = (at + 1) & (size - 1);
        }
        slots[at] = i as u16 + 1;
    }
    slots
}

fn write_enum(out: &mut String, name: &str, doc: &str, dot: &str, words: &[String]) {
    let mut seen = HashSet::new();
    writeln!(
        out,
        "#[doc = \"{doc}\"]\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\n#[repr(u16)]"
    )
    .unwrap();
    writeln!(out, "pub enum {name} {{").unwrap();
    for w in words {
        let variant = camel(w);
        assert!(seen.insert(variant.clone()), "{name}::{variant} twice ({w})");
        writeln!(out, "    #[doc = \"`{dot}{w}`\"]\n    {variant},").unwrap();
    }
    writeln!(
        out,
        "}}\nimpl {name} {{\n    /// Every word, in the order of the table.\n    pub const ALL: [{name}; {}] = [",
        words.len()
    )
    .unwrap();
    for w in words {
        writeln!(out, "        {name}::{},", camel(w)).unwrap();
    }
    writeln!(out, "    ];\n}}").unwrap();
    let upper = name.to_uppercase();
    writeln!(out, "static {upper}_NAMES: [&str; {}] = {words:?};", words.len()).unwrap();
    let slots = table(words);
    writeln!(out, "static {upper}_SLOTS: [u16; {}] = {slots:?};", slots.len()).unwrap();
}

fn main() {
    println!("cargo::rerun-if-changed=isa");
    println!("cargo::rerun-if-changed=build.rs");
    let mut ops = Vec::new();
    let mut mods = Vec::new();
    let text = std::fs::read_to_string("isa/words.ptxi").expect("isa/words.ptxi");
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        let mut words = line.split_whitespace();
        let list = match words.next() {
            Some("ops") => &mut ops,
            Some("mods") => &mut mods,
            None => continue,
            Some(other) => panic!("words.ptxi:{}: unknown line '{other}'", number + 1),
        };
        for word in words.flat_map(expand) {
            // A word may have several meanings (`.b1` is a type and a byte selector) and still is one word.
            if !list.contains(&word) {
                list.push(word);
            }
        }
    }
    let mut out = String::new();
    write_enum(&mut out, "Op", "An opcode word: what stands before the first dot.", "", &ops);
    write_enum(&mut out, "Mod", "A modifier word, with everything that its `::` joins.", ".", &mods);
    let path = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("isa.rs");
    std::fs::write(path, out).expect("OUT_DIR is writable");
}
