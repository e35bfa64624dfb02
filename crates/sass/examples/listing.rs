//! The listing of a function: words in hexadecimal, one a line, on standard input; `listing control` with control fields.

use std::io::BufRead;

fn main() {
    let control = std::env::args().any(|a| a == "control");
    let words: Vec<u128> = std::io::stdin()
        .lock()
        .lines()
        .map_while(Result::ok)
        .filter_map(|l| u128::from_str_radix(&l, 16).ok())
        .collect();
    print!("{}", sass::text::print_function(&words, 90, 0, control));
}
