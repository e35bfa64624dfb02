//! The description of every target against the vendor's nvdisasm: a sample of what ptxas makes of the PTX corpus, and mutations
//! of those words. `cargo xtask conformance --sass` does the whole.

use sass::codec::{Decoded, decode, encode};
use sass::text::{NoLabels, parse_on, print};
use testkit::{Random, Scratch, isa, oracle};

/// Of mutated words that nvdisasm takes, the share that must print as it prints, in thousandths. Those that do not are listed
/// in `tests/isa/known.list`, by form.
const MUTATED: usize = 995;

#[test]
fn every_target_prints_as_the_vendor_prints() {
    let Some(oracle) = oracle::latest() else { return };
    let mut failed = Vec::new();
    for (n, target) in ["75", "80", "89", "90a", "100a", "120a"].into_iter().enumerate() {
        let sm = isa::number(target);
        let scratch = Scratch::new("isa");
        let words = isa::words(&oracle, target, &[3], 150 + n, &[]);
        let texts = isa::disassemble(&oracle, &scratch, &format!("SM{target}"), &words);
        let (mut total, mut wrong, mut lost) = (0, 0, 0);
        for (n, (&word, theirs)) in words.iter().zip(&texts).enumerate() {
            let Some(theirs) = theirs.as_deref().filter(|t| isa::meant(t)) else { continue };
            total += 1;
            let decoded = decode(word, sm);
            assert_eq!(decoded.encode(sm), Ok(word), "sm_{target}: {theirs}");
            let Decoded::Known(inst) = decoded else {
                wrong += 1;
                failed.push(format!("sm_{target} {word:032x} unknown: {theirs}"));
                continue;
            };
            let pc = n as u64 * 16;
            let ours = print(&inst, pc, &NoLabels);
            if ours != theirs {
                wrong += 1;
                failed.push(format!("sm_{target} {word:032x} {ours}, not {theirs}"));
                continue;
            }
            let back = parse_on(&ours, pc, &NoLabels, Some(sm)).ok().and_then(|mut back| {
                back.take_unprinted(&inst);
                encode(&back, sm).ok()
            });
            lost += usize::from(back != Some(word));
        }
        let mutated = isa::mutate(&words, 1000, &mut Random(1));
        let texts = isa::disassemble(&oracle, &scratch, &format!("SM{target}"), &mutated);
        let (mut legal, mut same) = (0, 0);
        let known = isa::Known::read();
        for (n, (&word, theirs)) in mutated.iter().zip(&texts).enumerate() {
            let Some(theirs) = theirs.as_deref().filter(|t| isa::meant(t)) else { continue };
            legal += 1;
            let decoded = decode(word, sm);
            assert_eq!(decoded.encode(sm), Ok(word), "sm_{target}: {theirs}");
            let ours = decoded.known().map(|i| print(i, n as u64 * 16, &NoLabels));
            same += usize::from(ours.as_deref() == Some(theirs));
            if ours.as_deref() != Some(theirs) && !known.has(word, isa::mnemonic(theirs), sm) {
                failed.push(format!("sm_{target} {word:032x} {ours:?}, not {theirs}, and not listed"));
            }
        }
        eprintln!("sm_{target}: {wrong} of {total} differ, {lost} not back from text; {same} of {legal} mutated");
        assert!(total > 150, "sm_{target}: only {total} words");
        assert!(lost == 0, "sm_{target}: the text of {lost} of {total} words does not lead back");
        assert!(same * 1000 >= legal * MUTATED, "sm_{target}: {same} of {legal} mutated words print the same");
    }
    assert!(failed.is_empty(), "{} words differ: {:#?}", failed.len(), &failed[..failed.len().min(20)]);
}
