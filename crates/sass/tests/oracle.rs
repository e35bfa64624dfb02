//! Codec, text and lint against the vendor's tools: over the code that ptxas makes of the corpus, and over random
//! instructions of every form.

mod common;

use common::{corpus, hints, random_words};
use sass::codec::{Decoded, decode, encode};
use sass::lint::check;
use sass::text::{NoLabels, parse_at, print};
use std::collections::BTreeMap;
use testkit::Scratch;
use testkit::oracle::releases;

#[test]
fn corpus_decodes_prints_and_parses() {
    let oracles = releases();
    let Some(oracle) = oracles.first() else { return };
    let dir = Scratch::new("corpus");
    let mut words: Vec<u128> = corpus(&oracles, &dir, &[0, 1, 2, 3]).into_iter().flat_map(|t| t.words).collect();
    words.sort_unstable();
    words.dedup();
    let texts = testkit::isa::disassemble(oracle, &dir, "SM90", &words);
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
    let texts = testkit::isa::disassemble(oracle, &dir, "SM90", &words);
    let known = testkit::isa::Known::read();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (n, ((id, word), theirs)) in list.iter().zip(&texts).enumerate() {
        // Combinations of fields that the vendor does not take as legal.
        let Some(theirs) = theirs.as_ref().filter(|t| !t.contains("???") && !t.contains("INVALID")) else { continue };
        let Decoded::Known(inst) = decode(*word, 90) else { panic!("known before") };
        let ours = print(&inst, n as u64 * 16, &NoLabels);
        compared += 1;
        if ours != *theirs && !known.has(*word, testkit::isa::mnemonic(theirs), 90) {
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
        for hazard in check(&text.words, 90, &hints(text, 90)) {
            found.push(format!("{}: {:?} {hazard}", text.name, hazard.kind));
        }
    }
    eprintln!("{} functions", texts.len());
    assert!(found.is_empty(), "{} hazards: {:#?}", found.len(), &found[..found.len().min(20)]);
}
