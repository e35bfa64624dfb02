//! Checks functions for hazards: words in hexadecimal, one a line, on standard input; an empty line ends a function; a
//! line `brx OFFSET TARGET...` (hexadecimal) before it names where an indirect branch goes.

use sass::lint::{CfgHints, check};
use std::io::BufRead;

fn main() {
    let sm = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(90);
    let (mut words, mut hints, mut functions, mut count) = (Vec::new(), CfgHints::default(), 0, 0);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if let Some(rest) = line.strip_prefix("brx ") {
            let mut numbers = rest.split(' ').filter_map(|n| u64::from_str_radix(n, 16).ok());
            if let Some(at) = numbers.next() {
                hints.indirect.push((at, numbers.collect()));
            }
        } else if let Ok(word) = u128::from_str_radix(&line, 16) {
            words.push(word);
        } else {
            for hazard in check(&words, sm, &hints) {
                println!("function {functions}: {:?} {hazard}", hazard.kind);
                count += 1;
            }
            functions += 1;
            words.clear();
            hints = CfgHints::default();
        }
    }
    println!("{functions} functions, {count} hazards");
}
