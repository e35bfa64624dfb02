//! Decodes words: hexadecimal, one a line, on standard input. Prints the words that no form matches.

use sass::codec::{Decoded, decode};
use std::io::BufRead;

fn main() {
    let sm = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(90);
    let (mut known, mut wrong) = (0, 0);
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(word) = u128::from_str_radix(line.trim(), 16) else {
            eprintln!("not a word: {line}");
            continue;
        };
        match decode(word, sm) {
            Decoded::Known(inst) => match sass::codec::encode(&inst, sm) {
                Ok(back) if back == word => known += 1,
                other => {
                    wrong += 1;
                    println!("{word:032x} {} comes back as {other:x?}", inst.form().name);
                }
            },
            Decoded::Unknown(_) => println!("{word:032x} unknown"),
        }
    }
    println!("{known} known, {wrong} wrong");
}
