//! Decodes words: hexadecimal, one a line, on standard input, each at address 0. Prints the text of each, or that no form
//! matches it.

use sass::codec::{Decoded, decode, encode};
use sass::text::{NoLabels, print};
use std::io::{BufRead, BufWriter, Write, stdin, stdout};

fn main() -> std::io::Result<()> {
    let sm = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(90);
    let mut out = BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        let line = line?;
        let Ok(word) = u128::from_str_radix(line.trim(), 16) else {
            eprintln!("not a word: {line}");
            continue;
        };
        match decode(word, sm) {
            Decoded::Known(inst) if encode(&inst, sm).as_ref() == Ok(&word) => {
                let text = print(&inst, 0, &NoLabels);
                // The text must lead back to the word; what it does not show is the control field.
                let back = sass::text::parse(&text).map_err(|d| d.message).and_then(|mut back| {
                    back.ctrl = inst.ctrl;
                    encode(&back, sm).map_err(|e| e.message)
                });
                if back.as_ref() != Ok(&word) {
                    eprintln!("{word:032x} {text} -> {back:x?}");
                }
                writeln!(out, "{}\t{text}", inst.form().name)?;
            }
            Decoded::Known(inst) => writeln!(out, "{}\tdoes not encode to the same word", inst.form().name)?,
            Decoded::Unknown(_) => writeln!(out, "\tunknown")?,
        }
    }
    Ok(())
}
