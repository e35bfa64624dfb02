//! Lines and words of assembly text, with their places.

use diag::{Diagnostic, Span};

/// An error with its place.
pub(super) fn fail<T>(place: Span, message: impl Into<String>) -> Result<T, Diagnostic> {
    Err(Diagnostic::error(message.into()).at(place))
}

/// A diagnostic about a line, moved to where the line lies in the text.
pub(super) fn shifted(mut d: Diagnostic, at: u32) -> Diagnostic {
    d.span = d.span.map(|s| Span::new(s.start + at, s.end + at));
    d
}

/// A line without its comment and the blanks around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub text: &'a str,
    /// Where it begins in the whole text.
    pub at: u32,
}

impl Line<'_> {
    pub fn span(&self) -> Span {
        Span::new(self.at, self.at + self.text.len() as u32)
    }
}

/// The lines of a text that are not empty.
pub(super) struct Lines<'a> {
    list: Vec<Line<'a>>,
    next: usize,
    end: u32,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Lines<'a> {
        let mut list = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let body = &line[..comment(line)];
            let trimmed = body.trim();
            if !trimmed.is_empty() {
                let from = at + body.len() - body.trim_start().len();
                list.push(Line { text: trimmed, at: from as u32 });
            }
            at += line.len();
        }
        Lines { list, next: 0, end: text.len() as u32 }
    }

    pub fn peek(&self) -> Option<Line<'a>> {
        self.list.get(self.next).copied()
    }

    pub fn skip(&mut self) {
        self.next += 1;
    }

    pub fn next_words(&mut self) -> Option<Words<'a>> {
        let line = self.peek()?;
        self.skip();
        Some(Words::new(line))
    }

    /// Where reading is.
    pub fn place(&self) -> Span {
        self.peek().map_or(Span::new(self.end, self.end), |l| l.span())
    }

    /// The `.bytes` lines that follow.
    pub fn bytes(&mut self) -> Result<Vec<u8>, Diagnostic> {
        let mut out = Vec::new();
        while let Some(line) = self.peek().filter(|l| l.text.starts_with(".bytes")) {
            self.skip();
            let mut w = Words::new(line);
            w.word()?;
            out.extend(w.bytes()?);
        }
        Ok(out)
    }
}

/// Where the comment of a line begins: at `//` outside of quotes.
fn comment(line: &str) -> usize {
    let bytes = line.as_bytes();
    let (mut quoted, mut i) = (false, 0);
    while i < bytes.len() {
        match bytes[i] {
            b'\\' if quoted => i += 1,
            b'"' => quoted = !quoted,
            b'/' if !quoted && bytes.get(i + 1) == Some(&b'/') => return i,
            _ => {}
        }
        i += 1;
    }
    line.len()
}

/// The words of a line, taken one by one.
pub(super) struct Words<'a> {
    line: Line<'a>,
    at: usize,
    last: Span,
}

/// `12` or `0x1f`.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl<'a> Words<'a> {
    pub fn new(line: Line<'a>) -> Words<'a> {
        Words { line, at: 0, last: line.span() }
    }

    /// The place of the last word.
    pub fn last(&self) -> Span {
        self.last
    }

    fn rest(&mut self) -> &'a str {
        let rest = &self.line.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    pub fn is_empty(&mut self) -> bool {
        self.rest().is_empty()
    }

    /// True if the next word is a directive.
    pub fn at_directive(&mut self) -> bool {
        self.rest().starts_with('.')
    }

    fn take(&mut self, len: usize) -> &'a str {
        let text = &self.line.text[self.at..self.at + len];
        let from = self.line.at + self.at as u32;
        self.last = Span::new(from, from + len.max(1) as u32);
        self.at += len;
        text
    }

    /// The next word; an error at the end of the line.
    pub fn word(&mut self) -> Result<&'a str, Diagnostic> {
        let rest = self.rest();
        let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let word = self.take(len);
        if word.is_empty() { fail(self.last, "something is missing here") } else { Ok(word) }
    }

    /// An error if anything is left.
    pub fn end(&mut self) -> Result<(), Diagnostic> {
        if self.is_empty() {
            return Ok(());
        }
        let word = self.word()?;
        fail(self.last, format!("`{word}` is too much here"))
    }

    /// True if `key=` comes next.
    pub fn has(&mut self, key: &str) -> bool {
        self.rest().strip_prefix(key).is_some_and(|r| r.starts_with('='))
    }

    /// The value of `key=value`.
    pub fn key(&mut self, key: &str) -> Result<&'a str, Diagnostic> {
        let word = self
            .word()
            .map_err(|d| Diagnostic::error(format!("`{key}=` is missing")).at(d.span.unwrap_or_default()))?;
        match word.strip_prefix(key).and_then(|r| r.strip_prefix('=')) {
            Some(value) => Ok(value),
            None => fail(self.last, format!("`{key}=` is missing before `{word}`")),
        }
    }

    /// Takes `key=value` if it comes next.
    pub fn key_is(&mut self, key: &str, value: &str) -> bool {
        let whole = format!("{key}={value}");
        let rest = self.rest();
        let found = rest == whole || rest.strip_prefix(&whole).is_some_and(|r| r.starts_with(char::is_whitespace));
        if found {
            self.take(whole.len());
        }
        found
    }

    /// The number of `key=number`, in range.
    pub fn number<T: TryFrom<u64>>(&mut self, key: &str) -> Result<T, Diagnostic> {
        let value = self.key(key)?;
        self.in_range(value)
    }

    fn in_range<T: TryFrom<u64>>(&self, text: &str) -> Result<T, Diagnostic> {
        let Some(n) = number(text) else { return fail(self.last, format!("'{text}' is no number")) };
        T::try_from(n).or_else(|_| fail(self.last, format!("{text} is too large here")))
    }

    /// A number, in range.
    pub fn plain_number<T: TryFrom<u64>>(&mut self) -> Result<T, Diagnostic> {
        let word = self.word()?;
        self.in_range(word)
    }

    /// The number of `key=-12`.
    pub fn signed(&mut self, key: &str) -> Result<i64, Diagnostic> {
        let value = self.key(key)?;
        value.parse().or_else(|_| fail(self.last, format!("'{value}' is no number")))
    }

    /// So many numbers, separated by commas.
    pub fn list(&mut self, key: &str, count: usize) -> Result<Vec<u64>, Diagnostic> {
        let value = self.key(key)?;
        let list: Option<Vec<u64>> = value.split(',').map(number).collect();
        match list.filter(|l| l.len() == count) {
            Some(list) => Ok(list),
            None => fail(self.last, format!("`{key}=` takes {count} numbers")),
        }
    }

    /// Bytes of two digits each, to the end of the line.
    pub fn bytes(&mut self) -> Result<Vec<u8>, Diagnostic> {
        let mut out = Vec::new();
        while !self.is_empty() {
            let word = self.word()?;
            match u8::from_str_radix(word, 16) {
                Ok(b) if word.len() == 2 => out.push(b),
                _ => return fail(self.last, format!("'{word}' is no byte of two digits")),
            }
        }
        Ok(out)
    }

    /// A string in quotes.
    pub fn byte_string(&mut self) -> Result<Vec<u8>, Diagnostic> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        if bytes.first() != Some(&b'"') {
            return fail(self.line.span(), "a string in quotes is missing");
        }
        let (mut out, mut i) = (Vec::new(), 1);
        loop {
            match bytes.get(i) {
                None => return fail(self.line.span(), "the string has no end"),
                Some(b'"') => break,
                Some(b'\\') => match bytes.get(i + 1) {
                    Some(b'x') => {
                        let byte = rest.get(i + 2..i + 4).and_then(|d| u8::from_str_radix(d, 16).ok());
                        let Some(byte) = byte else { return fail(self.line.span(), "\\x takes two digits") };
                        out.push(byte);
                        i += 4;
                    }
                    Some(&c) => {
                        out.push(c);
                        i += 2;
                    }
                    None => return fail(self.line.span(), "the string has no end"),
                },
                Some(&c) => {
                    out.push(c);
                    i += 1;
                }
            }
        }
        self.take(i + 1);
        Ok(out)
    }

    /// A string in quotes that is text.
    pub fn string(&mut self) -> Result<String, Diagnostic> {
        let bytes = self.byte_string()?;
        String::from_utf8(bytes).or_else(|_| fail(self.last, "the name is no text"))
    }
}
