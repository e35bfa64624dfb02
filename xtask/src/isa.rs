//! The description of SASS against the vendor's nvdisasm, on words that ptxas emits and on mutations of them.
//!
//! The words are those of `tests/isa` and `tests/kernels`, and of the examples that the generator of the PTX table makes of
//! each of its forms. `conformance --sass` prints one line a target, `mine-isa` what the description lacks or says otherwise, by mnemonic, most
//! frequent first, with a word of each: the list of what to describe next. `--draft N` reads off the N most frequent forms
//! that are missing, bit by bit.

#[path = "../../crates/ptx/tests/conformance/generate.rs"]
#[allow(dead_code)]
mod generate;

use crate::{draft, space};
use sass::codec::{Decoded, decode, encode};
use sass::text::{NoLabels, parse_on, print};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use testkit::{Random, Scratch, isa};

/// What is asked for on the command line.
struct Options {
    targets: Vec<String>,
    /// Mutated words a target: so many that nvdisasm accepts.
    words: usize,
    /// Take at most so many words of the compiler a target; 0 for all.
    sample: usize,
    levels: Vec<u8>,
    /// One kernel of the corpus in so many.
    every: usize,
    /// Opcodes of PTX: only their examples, and no corpus.
    only: Vec<String>,
    /// A folder with `sm_XX.words` (words of 16 bytes) or folders `XX` of cubins, as `--nvdisasm --save` keeps them, instead of
    /// compiling the corpus.
    from: Option<PathBuf>,
    /// A folder to write such words to.
    save: Option<PathBuf>,
    mine: bool,
    /// So many words of every opcode there could be, instead of words of ptxas; 0 for those.
    space: usize,
    /// So many forms that are missing are read off, bit by bit.
    drafts: usize,
    known: isa::Known,
}

/// What the table of PTX instructions takes: every form with its modifiers.
fn statements() -> Vec<String> {
    let examples = ptx::isa::FORMS.iter().enumerate().flat_map(|(n, form)| {
        let mut random = Random(0x5a55_0000 + n as u64);
        generate::examples(form, &mut random)
    });
    let mut found: Vec<String> = examples.filter(|e| matches!(e.what, "legal" | "target")).map(|e| e.text).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Counts for one set of words.
#[derive(Default)]
struct Tally {
    legal: usize,
    /// Words that decode to a known form.
    known: usize,
    encoded: usize,
    printed: usize,
    parsed: usize,
    /// Words that differ, of a form that `tests/isa/known.list` does not name.
    unlisted: usize,
}

/// Something that differs: how often, and one example.
#[derive(Default)]
struct Gap {
    count: usize,
    word: u128,
    example: String,
    /// No form has the word.
    unknown: bool,
}

/// Runs `conformance --sass` or, with `mine`, `mine-isa`.
pub fn run(args: &[String], mine: bool) -> Result<(), String> {
    let mut options = Options {
        targets: isa::TARGETS.iter().map(|t| t.to_string()).collect(),
        words: 5000,
        sample: 0,
        levels: vec![0, 1, 3],
        every: 1,
        only: Vec::new(),
        from: None,
        save: None,
        mine,
        space: 0,
        drafts: 0,
        known: isa::Known::read(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let number = |v: &String| v.parse::<usize>().map_err(|e| format!("{arg}: {e}"));
        match arg.as_str() {
            "--arch" => options.targets = value()?.split(',').map(|t| t.trim_start_matches("sm_").into()).collect(),
            "--words" => options.words = number(value()?)?,
            "--sample" => options.sample = number(value()?)?,
            "--from" => options.from = Some(PathBuf::from(value()?)),
            "--save" => options.save = Some(PathBuf::from(value()?)),
            "--only" => options.only = value()?.split(',').map(String::from).collect(),
            "--space" => options.space = number(value()?)?,
            "--draft" => options.drafts = number(value()?)?,
            "--every" => options.every = number(value()?)?.max(1),
            "--quick" => (options.levels, options.every, options.words) = (vec![3], 20, 2000),
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    let oracle = crate::oracle::tool("ptxas")?;
    let oracle = oracle.parent().and_then(Path::parent).ok_or("no folder of the oracle")?.to_path_buf();
    println!(
        "{:8} {:>8} {:>8} {:>8} {:>8} {:>8}   {:>8} {:>8} {:>8} {:>9}",
        "target", "words", "known", "encoded", "printed", "parsed", "mutated", "known", "printed", "share"
    );
    let mut bad = 0;
    for target in &options.targets {
        bad += one(target, &options, &oracle)?;
    }
    match bad {
        0 => Ok(()),
        n => Err(format!("{n} differences")),
    }
}

fn one(target: &str, options: &Options, oracle: &Path) -> Result<usize, String> {
    let scratch = Scratch::new("isa");
    let mut words: Vec<u128> = match &options.from {
        _ if options.space > 0 => {
            let all = space::words(isa::number(target), options.space, &mut Random(1));
            let legal = |part: &[u128]| {
                let texts = isa::disassemble(oracle, &scratch, &format!("SM{target}"), part);
                let meant = |t: &Option<String>| t.as_deref().is_some_and(isa::meant);
                part.iter().zip(texts).filter(|(_, t)| meant(t)).map(|(w, _)| *w).collect::<Vec<_>>()
            };
            all.chunks(20_000).flat_map(legal).collect()
        }
        Some(folder) => kept(folder, target)?,
        None if options.only.is_empty() => isa::words(oracle, target, &options.levels, options.every, &statements()),
        None => {
            let opcode = |s: &String| s.split(['.', ' ']).next().is_some_and(|o| options.only.iter().any(|w| w == o));
            let some: Vec<String> = statements().into_iter().filter(opcode).collect();
            isa::statements(oracle, target, &options.levels, options.every, &some).into_iter().collect()
        }
    };
    words.sort_unstable();
    words.dedup();
    if let Some(folder) = &options.save {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        std::fs::write(folder.join(format!("sm_{target}.words")), bytes).map_err(|e| e.to_string())?;
    }
    let mut random = Random(1);
    if options.sample > 0 {
        while words.len() > options.sample {
            let n = random.index(words.len());
            words.swap_remove(n);
        }
    }
    let mut gaps = BTreeMap::new();
    let compiled: &[u128] = if options.space > 0 { &[] } else { &words };
    let emitted = compare(target, compiled, options, oracle, &scratch, &mut gaps, true);
    // Of the changed words nvdisasm accepts four in five.
    let mut mutated = isa::mutate(&words, options.words * 4 / 3, &mut random);
    if options.space > 0 {
        mutated.append(&mut words);
    }
    shuffle(&mut mutated, &mut random);
    let second = compare(target, &mutated, options, oracle, &scratch, &mut gaps, false);
    println!(
        "sm_{target:5} {:8} {:8} {:8} {:8} {:8}   {:8} {:8} {:8} {:8.3}%",
        emitted.legal,
        emitted.known,
        emitted.encoded,
        emitted.printed,
        emitted.parsed,
        second.legal,
        second.known,
        second.printed,
        second.printed as f64 * 100.0 / second.legal.max(1) as f64
    );
    let mut list: Vec<_> = gaps.into_iter().collect();
    list.sort_by_key(|(_, gap)| std::cmp::Reverse(gap.count));
    let shown = if options.mine { 400 } else { 12 };
    for (key, gap) in list.iter().take(shown) {
        println!("    {:6} {key}: {}", gap.count, gap.example);
    }
    let mut ask = |words: &[u128]| isa::disassemble(oracle, &scratch, &format!("SM{target}"), words);
    let mut roles = |word: u128| {
        let found = isa::registers(oracle, &scratch, target, &[word]).pop().unwrap_or_default();
        let letter = |file: &str| match file {
            "GPR" => "R",
            "PRED" => "P",
            "UGPR" => "UR",
            _ => "UP",
        };
        let all = |list: BTreeSet<(String, u32)>, written| {
            list.into_iter().map(move |(file, n)| (letter(&file).to_string(), n, written)).collect::<Vec<_>>()
        };
        all(found.reads, false).into_iter().chain(all(found.writes, true)).collect()
    };
    for (key, gap) in list.iter().filter(|(_, gap)| gap.unknown).take(options.drafts) {
        match draft::draft(gap.word, target, &mut ask, &mut roles) {
            Some(text) => println!("# {key}: {}\n{text}", nearest(gap.word, isa::number(target))),
            None => println!("# {key}: not read off"),
        }
    }
    let bad = emitted.legal - emitted.printed.min(emitted.encoded).min(emitted.parsed);
    if second.unlisted > 0 {
        println!("    {} mutated words differ that tests/isa/known.list does not name", second.unlisted);
    }
    Ok(bad + second.unlisted)
}

/// The words of a target that a folder keeps: `sm_90a.words`, and the cubins of its folder `90a`.
fn kept(folder: &Path, target: &str) -> Result<Vec<u128>, String> {
    let mut found = BTreeSet::new();
    let words = folder.join(format!("sm_{target}.words"));
    if let Ok(bytes) = std::fs::read(&words) {
        found.extend(bytes.chunks_exact(16).map(|c| c.try_into().map(u128::from_le_bytes).unwrap_or(0)));
    }
    for entry in std::fs::read_dir(folder.join(target)).into_iter().flatten().flatten() {
        found.extend(isa::code(&std::fs::read(entry.path()).map_err(|e| e.to_string())?));
    }
    match found.is_empty() {
        true => Err(format!("neither {} nor cubins beside it", words.display())),
        false => Ok(found.into_iter().collect()),
    }
}

/// Of the forms with the opcode of a word that no form has, the one that wants the fewest bits otherwise, and which.
fn nearest(word: u128, sm: u16) -> String {
    let forms = sass::tables::FORMS.iter().filter_map(|f| f.variant_on(sm).map(|v| f.variant(v)));
    let opcode = 0xfff | 1 << 91;
    let same = forms.filter(|f| (f.fixed ^ word) & f.need & opcode == 0);
    match same.min_by_key(|f| ((f.fixed ^ word) & f.need).count_ones()) {
        None => "no form has this opcode".into(),
        Some(f) => {
            let bits = (f.fixed ^ word) & f.need;
            let bits: Vec<String> = (0..128).filter(|b| bits >> b & 1 != 0).map(|b| b.to_string()).collect();
            match bits.as_slice() {
                [] => format!("{} but for the value of a modifier", f.name),
                bits => format!("{} but for bits {}", f.name, bits.join(", ")),
            }
        }
    }
}

/// Any order: `mutate` gives words by their value.
fn shuffle(words: &mut [u128], random: &mut Random) {
    for n in (1..words.len()).rev() {
        words.swap(n, random.index(n + 1));
    }
}

/// Compares decode, encode, print and parse with nvdisasm, of mutated words as many as were asked for; what differs goes to `gaps`.
fn compare(
    target: &str,
    words: &[u128],
    options: &Options,
    oracle: &Path,
    scratch: &Scratch,
    gaps: &mut BTreeMap<String, Gap>,
    emitted: bool,
) -> Tally {
    let sm = isa::number(target);
    let mut tally = Tally::default();
    for chunk in words.chunks(20_000) {
        let texts = isa::disassemble(oracle, scratch, &format!("SM{target}"), chunk);
        for (n, (&word, theirs)) in chunk.iter().zip(&texts).enumerate() {
            let Some(theirs) = theirs.as_deref().filter(|t| isa::meant(t)) else { continue };
            if !emitted && tally.legal == options.words {
                return tally;
            }
            tally.legal += 1;
            let mnemonic = isa::mnemonic(theirs);
            let listed = !emitted && options.known.has(word, mnemonic, sm);
            let mut gap = |what: &str, example: String| {
                let op = word & 0xfff | (word >> 91 & 1) << 12;
                let kind = if emitted { "emitted" } else { "mutated" };
                let gap = gaps.entry(format!("{kind} {op:04x} {mnemonic} {what}")).or_default();
                gap.count += 1;
                if gap.example.is_empty() {
                    (gap.word, gap.unknown) = (word, what == "unknown");
                    gap.example = format!("{word:032x} {example}");
                }
            };
            let Decoded::Known(inst) = decode(word, sm) else {
                tally.encoded += 1;
                tally.unlisted += usize::from(!listed);
                gap("unknown", format!("{theirs} ({})", nearest(word, sm)));
                continue;
            };
            tally.known += 1;
            if encode(&inst, sm) == Ok(word) {
                tally.encoded += 1;
            } else {
                gap("not encoded", format!("{theirs} ({:?})", encode(&inst, sm)));
            }
            let pc = n as u64 * 16;
            let ours = print(&inst, pc, &NoLabels);
            if ours != theirs {
                tally.unlisted += usize::from(!listed);
                gap(inst.form().name, format!("{theirs}, we say {ours}"));
                continue;
            }
            tally.printed += 1;
            if !emitted {
                continue;
            }
            let back = parse_on(&ours, pc, &NoLabels, Some(sm)).ok().and_then(|mut back| {
                back.take_unprinted(&inst);
                encode(&back, sm).ok()
            });
            if back == Some(word) {
                tally.parsed += 1;
            } else {
                gap("text does not lead back", format!("{ours} ({})", inst.form().name));
            }
        }
    }
    tally
}
