//! Sections of a module: what debuggers read.

use super::{Parsed, Parser, text};
use crate::lex::Kind;
use crate::module::Item;
use diag::Span;

impl Parser<'_> {
    /// The bytes and halves of a section must be such.
    fn section_values(&mut self, open: usize, len: usize) {
        let (src, end) = (self.src, open + len);
        let mut at = open;
        while at < end {
            let start = at;
            at = memchr::memchr(b'\n', &src[at..end]).map_or(end, |n| at + n + 1);
            let line = src[start..at].trim_ascii();
            let (ty, values, limits) = match line {
                [b'.', b'b', b'8', b' ' | b'\t', values @ ..] => (".b8", values, -128..=255i64),
                [b'.', b'b', b'1', b'6', b' ' | b'\t', values @ ..] => (".b16", values, -32768..=65535),
                _ => continue,
            };
            // Most are few digits, and fit.
            if small(values, *limits.end()) {
                continue;
            }
            let values = values.windows(2).position(|w| w == b"//").map_or(values, |n| &values[..n]);
            for value in values.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
                if let Ok(n) = text(value).parse::<i64>()
                    && !limits.contains(&n)
                {
                    // The tool names the line of what stands behind the value.
                    let blank = src[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
                    let place = (at + blank) as u32;
                    self.error(Span::new(place, place), format!("Value out of range for type {ty} {n}"));
                }
            }
        }
    }

    /// Labels of a section, distances between them and numbers below zero came later than sections.
    fn section_labels(&mut self, open: usize, len: usize) {
        let (src, end) = (self.src, open + len);
        let word = |s: &[u8]| {
            let start = |b: &u8| b.is_ascii_alphabetic() || b"_$%".contains(b);
            let rest = |b: &&u8| b.is_ascii_alphanumeric() || b"_$".contains(b);
            s.first().filter(|b| start(b)).map_or(0, |_| 1 + s[1..].iter().take_while(rest).count())
        };
        let mut at = open;
        while at < end {
            let start = at;
            at = memchr::memchr(b'\n', &src[at..end]).map_or(end, |n| at + n + 1);
            let line = &src[start..at];
            let mut line = line.windows(2).position(|w| w == b"//").map_or(line, |n| &line[..n]).trim_ascii();
            let span = Span::new(start as u32, start as u32);
            while let n @ 1.. = word(line)
                && let [b':', rest @ ..] = line[n..].trim_ascii_start()
            {
                if self.module.version < (7, 0) {
                    let message = "Feature 'Defining labels in .section' requires PTX ISA .version 7.0 or later";
                    self.error(span, message);
                }
                line = rest.trim_ascii_start();
            }
            if let [b'.', rest @ ..] = line {
                for value in rest[word(rest)..].split(|&b| b == b',').map(<[u8]>::trim_ascii) {
                    if let [b'-', other @ ..] = value
                        && other.trim_ascii_start().first().is_some_and(u8::is_ascii_digit)
                    {
                        let message =
                            "Feature 'Negative numbers in dwarf section' requires PTX ISA .version 7.5 or later";
                        self.error(span, message);
                    }
                    if let n @ 1.. = word(value)
                        && let [b'-', other @ ..] = value[n..].trim_ascii_start()
                        && word(other.trim_ascii_start()) > 0
                    {
                        let message =
                            "Feature 'labels1 - labels2 expression in .section' requires PTX ISA .version 7.5 or later";
                        self.error(span, message);
                    }
                }
            }
        }
    }

    /// `.section name { raw }`
    pub(super) fn section(&mut self) -> Parsed<()> {
        self.bump();
        let span = self.tok.span;
        if !self.at(Kind::Dot) {
            return Err(self.syntax());
        }
        self.bump();
        let name = self.text(span).into_owned();
        if !self.at_p(b'{') {
            return Err(self.syntax());
        }
        let open = self.tok.span.end as usize;
        let Some(len) = memchr::memchr(b'}', &self.src[open..]) else {
            self.lex.seek(self.src.len());
            self.bump();
            return Err(self.syntax());
        };
        let body = text(&self.src[open..open + len]).trim().to_string();
        self.section_values(open, len);
        if self.module.version < (7, 5) {
            self.section_labels(open, len);
        }
        self.lex.seek(open + len + 1);
        self.bump();
        self.module.items.push(Item::Section { name, body });
        Ok(())
    }
}

/// True for a list of decimal numbers, each of three digits at most and no more than `most`, and perhaps a comment.
fn small(mut list: &[u8], most: i64) -> bool {
    loop {
        list = list.trim_ascii_start();
        // One more than there may be.
        let digits = list.iter().take(4).take_while(|b| b.is_ascii_digit()).count();
        let (number, rest) = list.split_at(digits);
        let value = number.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0'));
        if !(1..=3).contains(&digits) || value > most {
            return false;
        }
        match rest.trim_ascii_start() {
            [b',', more @ ..] => list = more,
            rest => return rest.is_empty() || rest.starts_with(b"//"),
        }
    }
}
