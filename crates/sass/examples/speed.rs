//! How fast the codec is: decodes and encodes words (hexadecimal, one a line, on standard input) again and again for a
//! second each, and prints millions a second of the fastest round.

use sass::codec::{Decoded, decode, decode_into, encode};
use std::hint::black_box;
use std::io::BufRead;
use std::time::{Duration, Instant};

/// Of the fastest round: others may have been interrupted.
fn rate(count: usize, mut once: impl FnMut()) -> f64 {
    let (start, mut best) = (Instant::now(), Duration::MAX);
    while start.elapsed() < Duration::from_secs(1) {
        let round = Instant::now();
        once();
        best = best.min(round.elapsed());
    }
    count as f64 / best.as_secs_f64() / 1e6
}

fn main() {
    let words: Vec<u128> = std::io::stdin()
        .lock()
        .lines()
        .map_while(Result::ok)
        .filter_map(|l| u128::from_str_radix(&l, 16).ok())
        .collect();
    let decoded: Vec<_> = words.iter().map(|&w| decode(w, 90)).collect();
    let insts: Vec<_> = decoded.iter().filter_map(|d| d.known()).collect();
    let mut place = Decoded::Unknown(0);
    let decoding = rate(words.len(), || {
        for &word in &words {
            decode_into(word, 90, &mut place);
            black_box(&place);
        }
    });
    let returning = rate(words.len(), || words.iter().for_each(|&w| drop(black_box(decode(w, 90)))));
    let encoding = rate(insts.len(), || insts.iter().for_each(|i| drop(black_box(encode(i, 90)))));
    let mut text = String::new();
    let printing = rate(insts.len(), || {
        text.clear();
        insts.iter().for_each(|i| sass::text::print_to(&mut text, i, 0, &sass::text::NoLabels));
    });
    println!(
        "decode {decoding:.1} ({returning:.1} where each is returned), encode {encoding:.1}, print {printing:.1} million instructions a second"
    );
}
