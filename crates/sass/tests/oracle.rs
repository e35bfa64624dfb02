//! Codec, text and lint against the vendor's tools: over the code that ptxas makes of the corpus, and over random
//! instructions of every form.

mod common;

use common::{Text, corpus, disassemble, random_words};
use sass::codec::{Decoded, decode, decode_control, encode, encode_control};
use sass::control::Control;
use sass::lint::{CfgHints, Kind, check};
use sass::text::{NoLabels, parse_at, print};
use std::collections::BTreeMap;
use testkit::oracle::releases;
use testkit::{Random, Scratch};

fn hints(text: &Text) -> CfgHints {
    let indirect = |n: usize, word: &u128| match decode(*word, 90) {
        Decoded::Known(inst) if inst.form == sass::forms::BRX => {
            let inside = text.table.iter().copied().filter(|t| t % 16 == 0 && *t < text.words.len() as u64 * 16);
            Some((n as u64 * 16, inside.collect()))
        }
        _ => None,
    };
    CfgHints {
        entries: Vec::new(),
        indirect: text.words.iter().enumerate().filter_map(|(n, w)| indirect(n, w)).collect(),
    }
}

#[test]
fn corpus_decodes_prints_and_parses() {
    let oracles = releases();
    let Some(oracle) = oracles.first() else { return };
    let dir = Scratch::new("corpus");
    let mut words: Vec<u128> = corpus(&oracles, &dir, &[0, 1, 2, 3]).into_iter().flat_map(|t| t.words).collect();
    words.sort_unstable();
    words.dedup();
    let texts = disassemble(oracle, &dir, &words);
    let mut wrong = Vec::new();
    let mut not_back = BTreeMap::new();
    for (n, (&word, theirs)) in words.iter().zip(&texts).enumerate() {
        let theirs = theirs.as_deref().unwrap_or("refused");
        let Decoded::Known(inst) = decode(word, 90) else {
            wrong.push(format!("{word:032x} unknown: {theirs}"));
            continue;
        };
        let pc = n as u64 * 16;
        let ours = print(&inst, pc, &NoLabels);
        if ours != theirs || encode(&inst, 90) != Ok(word) {
            wrong.push(format!("{word:032x} {ours}, not {theirs}"));
        }
        let back = parse_at(&ours, pc, &NoLabels).ok().and_then(|mut back| {
            back.ctrl = inst.ctrl;
            encode(&back, 90).ok()
        });
        if back != Some(word) {
            not_back.entry(inst.form().name).or_insert(ours);
        }
    }
    eprintln!("{} distinct words", words.len());
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
    assert!(not_back.is_empty(), "text does not lead back: {not_back:#?}");
}

#[test]
fn random_instructions_print_as_the_vendor_prints() {
    let oracles = releases();
    let Some(oracle) = oracles.first() else { return };
    let dir = Scratch::new("random");
    let list = random_words(40, 1);
    let words: Vec<u128> = list.iter().map(|w| w.1).collect();
    let texts = disassemble(oracle, &dir, &words);
    let (mut compared, mut wrong) = (0, Vec::new());
    for (n, ((id, word), theirs)) in list.iter().zip(&texts).enumerate() {
        // Combinations of fields that the vendor does not take as legal.
        let Some(theirs) = theirs.as_ref().filter(|t| !t.contains("???") && !t.contains("INVALID")) else { continue };
        let Decoded::Known(inst) = decode(*word, 90) else { panic!("known before") };
        let ours = print(&inst, n as u64 * 16, &NoLabels);
        compared += 1;
        if ours != *theirs {
            wrong.push(format!("{} {word:032x}: {ours}, not {theirs}", id.get().name));
        }
    }
    eprintln!("{compared} of {} words compared", words.len());
    assert!(compared * 10 > words.len() * 9, "only {compared} of {} words are legal", words.len());
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

#[test]
fn lint_is_silent_on_the_corpus() {
    let oracles = releases();
    if oracles.is_empty() {
        return;
    }
    let dir = Scratch::new("silent");
    let mut found = Vec::new();
    let texts = corpus(&oracles, &dir, &[0, 1, 2, 3]);
    for text in &texts {
        for hazard in check(&text.words, 90, &hints(text)) {
            found.push(format!("{}: {:?} {hazard}", text.name, hazard.kind));
        }
    }
    eprintln!("{} functions", texts.len());
    assert!(found.is_empty(), "{} hazards: {:#?}", found.len(), &found[..found.len().min(20)]);
}

/// A way to break the control field of an instruction; None where there is nothing to break.
type Fault = fn(Control) -> Option<Control>;

/// Not every one of these is a fault: the vendor stalls longer than needed here and there, sets scoreboards that nobody
/// waits for, and sets two where one would do. Each class has the least share that must be found.
const FAULTS: [(&str, Fault, f64); 5] = [
    // A clear bit 109 on a stall of 4 and more: the next instruction waits for this one's result.
    ("stall shortened by one", |c| (!c.bit109 && c.stall >= 4).then(|| Control { stall: c.stall - 1, ..c }), 0.7),
    ("stall of one", |c| (!c.bit109 && c.stall >= 4).then_some(Control { stall: 1, bit109: true, ..c }), 0.8),
    ("wait dropped", |c| (c.wait != 0).then_some(Control { wait: 0, ..c }), 0.88),
    ("write scoreboard dropped", |c| c.write_sb.map(|_| Control { write_sb: None, ..c }), 0.85),
    ("read scoreboard dropped", |c| c.read_sb.map(|_| Control { read_sb: None, ..c }), 0.6),
];

#[test]
fn lint_cries_at_planted_faults() {
    let oracles = releases();
    if oracles.is_empty() {
        return;
    }
    let dir = Scratch::new("planted");
    let texts = corpus(&oracles[..1], &dir, &[3]);
    let mut random = Random(1);
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    for (name, fault, least) in FAULTS {
        let (mut caught, mut planted) = (0, 0);
        for text in &texts {
            let places: Vec<(usize, u128)> = text
                .words
                .iter()
                .enumerate()
                .filter_map(|(n, word)| {
                    let broken = fault(decode_control(*word))?;
                    Some((n, word & !(0x1f_ffff << 105) | encode_control(&broken).ok()?))
                })
                // The padding behind the end is not reached.
                .filter(|(n, _)| decode(text.words[*n], 90).known().is_some_and(|i| i.form().mnemonic != "NOP"))
                .collect();
            if places.is_empty() {
                continue;
            }
            let hints = hints(text);
            for _ in 0..6 {
                let (n, word) = places[random.index(places.len())];
                let mut words = text.words.clone();
                words[n] = word;
                let hazards = check(&words, 90, &hints);
                planted += 1;
                caught += usize::from(!hazards.is_empty());
                for hazard in hazards {
                    *kinds.entry(hazard.kind).or_default() += 1;
                }
            }
        }
        eprintln!("{name}: {caught} of {planted} found");
        assert!(caught as f64 >= planted as f64 * least, "{name}: only {caught} of {planted} found");
    }
    eprintln!("{kinds:?}");
    for kind in [Kind::ReadTooSoon, Kind::ReadWithoutWait, Kind::OverwriteOfRead, Kind::OverwriteOfWrite] {
        assert!(kinds.contains_key(&kind), "no {kind:?} among the planted faults");
    }
}
