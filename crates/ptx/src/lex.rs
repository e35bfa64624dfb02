//! Text -> tokens. Works on bytes, never fails: what is no token is [`Kind::Bad`].

use diag::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `add`, `%r1`, `$L_1`, `_`
    Ident,
    /// `.global`, `.shared::cta`, `.2d`
    Dot,
    /// Integer literal, with its `U` where written.
    Int,
    /// `0f` and 8 hexadecimal digits.
    F32,
    /// `0d` and 16 hexadecimal digits.
    F64,
    /// Decimal float.
    Decimal,
    /// `"..."`
    Str,
    /// One or two punctuation bytes: the first in the low byte.
    Punct(u16),
    /// A byte that starts no token, an open string, comment or `.DEFINE`, or an `.IF`.
    Bad,
    /// End of the text.
    Eof,
}

/// Punctuation of one byte.
pub(crate) const fn p1(a: u8) -> Kind {
    Kind::Punct(a as u16)
}

/// Punctuation of two bytes.
pub(crate) const fn p2(a: u8, b: u8) -> Kind {
    Kind::Punct(a as u16 | (b as u16) << 8)
}

/// A token: what and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub kind: Kind,
    pub span: Span,
}

/// A byte within a name.
pub(crate) const WORD: u8 = 1;
/// The first byte of a name.
pub(crate) const START: u8 = 2;
const SPACE: u8 = 4;
const HEX: u8 = 8;
/// A byte within an opcode and its modifiers.
pub(crate) const HEAD: u8 = 16;

/// What a byte may be part of.
static CLASS: [u8; 256] = {
    let mut t = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        if b.is_ascii_alphabetic() || b == b'_' || b == b'$' || b == b'%' {
            t[i] |= START;
        }
        if b.is_ascii_alphanumeric() || b == b'_' || b == b'$' {
            t[i] |= WORD;
        }
        if b == b' ' || b == b'\t' || b == b'\n' || b == b'\r' || b == 0x0c || b == 0x0b {
            t[i] |= SPACE;
        }
        if t[i] & WORD != 0 || b == b'.' || b == b':' {
            t[i] |= HEAD;
        }
        if b.is_ascii_hexdigit() {
            t[i] |= HEX;
        }
        i += 1;
    }
    t
};

pub(crate) fn is(b: u8, class: u8) -> bool {
    CLASS[b as usize] & class != 0
}

/// The tokens of a text, one at a time.
#[derive(Clone, Copy)]
pub(crate) struct Lexer<'a> {
    src: &'a [u8],
    pos: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(src: &'a [u8]) -> Self {
        Lexer { src, pos: 0 }
    }

    /// Starts again at a byte.
    pub fn seek(&mut self, pos: usize) {
        self.pos = pos.min(self.src.len());
    }

    fn at(&self, i: usize) -> u8 {
        self.src.get(i).copied().unwrap_or(0)
    }

    fn while_class(&self, mut i: usize, class: u8) -> usize {
        while i < self.src.len() && is(self.src[i], class) {
            i += 1;
        }
        i
    }

    /// Where the blanks, comments and line continuations end that begin at a byte; none for a comment that does not end.
    #[inline]
    pub fn behind_blanks(&mut self, at: usize) -> Option<usize> {
        self.pos = at;
        self.skip().then_some(self.pos)
    }

    /// Skips blanks, comments and line continuations. False for a comment that does not end.
    fn skip(&mut self) -> bool {
        loop {
            self.pos = self.while_class(self.pos, SPACE);
            match (self.at(self.pos), self.at(self.pos + 1)) {
                (b'/', b'/') => {
                    let rest = &self.src[self.pos..];
                    self.pos += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                (b'/', b'*') => {
                    let rest = &self.src[self.pos + 2..];
                    match rest.windows(2).position(|w| w == b"*/") {
                        Some(n) => self.pos += n + 4,
                        None => return false,
                    }
                }
                (b'\\', b'\n') => self.pos += 2,
                (b'\\', b'\r') if self.at(self.pos + 2) == b'\n' => self.pos += 3,
                _ => return true,
            }
        }
    }

    /// Where the modifiers end that stand right behind a word (`.global.u32` behind `ld`), without a blank.
    pub fn end_of_head(&self, from: u32) -> u32 {
        let mut end = from as usize;
        while self.at(end) == b'.' && is(self.at(end + 1), WORD) {
            end = self.end_of_dot(end);
        }
        end as u32
    }

    /// The end of the token that begins with this dot.
    fn end_of_dot(&self, start: usize) -> usize {
        let mut end = self.while_class(start + 1, WORD);
        while self.at(end) == b':' && self.at(end + 1) == b':' && is(self.at(end + 2), WORD) {
            end = self.while_class(end + 2, WORD);
        }
        end
    }

    /// The next token.
    pub fn next(&mut self) -> Token {
        loop {
            let closed = self.skip();
            let start = self.pos;
            let (mut kind, mut end) = if !closed {
                (Kind::Bad, self.src.len())
            } else if start >= self.src.len() {
                (Kind::Eof, start)
            } else {
                self.token(start)
            };
            self.pos = end;
            if kind == Kind::Dot {
                match &self.src[start..end] {
                    b".DEFINE" if self.definition(end) => match self.src[end..].iter().position(|&b| b == b'\n') {
                        Some(n) => {
                            self.pos = end + n + 1;
                            continue;
                        }
                        None => (kind, end) = (Kind::Bad, self.src.len()),
                    },
                    b".IF" => kind = Kind::Bad,
                    _ => {}
                }
                self.pos = end;
            }
            return Token { kind, span: Span::new(start as u32, end as u32) };
        }
    }

    /// Does a name stand behind `.DEFINE`? Then the line is a blank (docs/ptx-notes.md).
    fn definition(&self, at: usize) -> bool {
        let name = self.src[at..].iter().position(|&b| b != b' ' && b != b'\t').unwrap_or(0);
        name > 0 && is(self.at(at + name), START)
    }

    fn token(&self, start: usize) -> (Kind, usize) {
        let b = self.src[start];
        // `%` and `$` alone are no names.
        if is(b, START) && (b.is_ascii_alphabetic() || b == b'_' || is(self.at(start + 1), WORD)) {
            return (Kind::Ident, self.while_class(start + 1, WORD));
        }
        if b == b'.' && is(self.at(start + 1), WORD) {
            return (Kind::Dot, self.end_of_dot(start));
        }
        if b.is_ascii_digit() {
            return self.number(start);
        }
        let two = self.at(start + 1);
        match b {
            b'"' => {
                let mut i = start + 1;
                while i < self.src.len() && self.src[i] != b'"' && self.src[i] != b'\n' {
                    i += 1;
                }
                if self.at(i) == b'"' { (Kind::Str, i + 1) } else { (Kind::Bad, i.min(self.src.len())) }
            }
            b'<' | b'>' if two == b => (p2(b, b), start + 2),
            b'<' | b'>' | b'=' | b'!' if two == b'=' => (p2(b, b'='), start + 2),
            b'&' | b'|' if two == b => (p2(b, b), start + 2),
            b';' | b',' | b':' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'@' | b'!' | b'~' | b'+' | b'-' | b'*'
            | b'/' | b'%' | b'<' | b'>' | b'=' | b'&' | b'|' | b'^' | b'?' => (p1(b), start + 1),
            _ => {
                // A run of bytes that start nothing is one token, so that binary files give one message.
                let mut i = start + 1;
                while i < self.src.len() && self.src[i] >= 0x80 {
                    i += 1;
                }
                (Kind::Bad, i)
            }
        }
    }

    fn number(&self, start: usize) -> (Kind, usize) {
        let suffix = |end: usize| if self.at(end) == b'U' { end + 1 } else { end };
        if self.src[start] == b'0' {
            match self.at(start + 1) {
                b'x' | b'X' if is(self.at(start + 2), HEX) => {
                    return (Kind::Int, suffix(self.while_class(start + 2, HEX)));
                }
                b'b' | b'B' if matches!(self.at(start + 2), b'0' | b'1') => {
                    let mut end = start + 2;
                    while matches!(self.at(end), b'0' | b'1') {
                        end += 1;
                    }
                    return (Kind::Int, suffix(end));
                }
                b'f' | b'F' if self.hex_digits(start + 2, 8) => return (Kind::F32, start + 10),
                b'd' | b'D' if self.hex_digits(start + 2, 16) => return (Kind::F64, start + 18),
                _ => {}
            }
        }
        let mut end = start;
        while self.at(end).is_ascii_digit() {
            end += 1;
        }
        let mut float = false;
        if self.at(end) == b'.' && !is(self.at(end + 1), START) {
            float = true;
            end += 1;
            while self.at(end).is_ascii_digit() {
                end += 1;
            }
        }
        if matches!(self.at(end), b'e' | b'E') {
            let sign = usize::from(matches!(self.at(end + 1), b'+' | b'-'));
            if self.at(end + 1 + sign).is_ascii_digit() {
                float = true;
                end += 1 + sign;
                while self.at(end).is_ascii_digit() {
                    end += 1;
                }
            }
        }
        if float {
            return (Kind::Decimal, end);
        }
        if self.src[start] == b'0' {
            // Octal: `08` is `0` and then `8`, as the vendor's tool reads it.
            end = start + 1;
            while matches!(self.at(end), b'0'..=b'7') {
                end += 1;
            }
        }
        (Kind::Int, suffix(end))
    }

    fn hex_digits(&self, start: usize, count: usize) -> bool {
        self.src.get(start..start + count).is_some_and(|s| s.iter().all(|&b| is(b, HEX)))
            && !is(self.at(start + count), HEX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        let mut lexer = Lexer::new(text.as_bytes());
        let mut out = Vec::new();
        loop {
            let t = lexer.next();
            if t.kind == Kind::Eof {
                return out;
            }
            out.push((t.kind, &text[t.span.start as usize..t.span.end as usize]));
        }
    }

    #[test]
    fn words_and_numbers() {
        use Kind::*;
        let got = kinds(
            "ld.shared::cta.v4.f32 {%f1}, [$x+-4]; // c\n0x1FU 017 08 1.5e-3 0f3F800000 0d3FF0000000000000 .2d 0b11 _",
        );
        let expect = [
            (Ident, "ld"),
            (Dot, ".shared::cta"),
            (Dot, ".v4"),
            (Dot, ".f32"),
            (p1(b'{'), "{"),
            (Ident, "%f1"),
            (p1(b'}'), "}"),
            (p1(b','), ","),
            (p1(b'['), "["),
            (Ident, "$x"),
            (p1(b'+'), "+"),
            (p1(b'-'), "-"),
            (Int, "4"),
            (p1(b']'), "]"),
            (p1(b';'), ";"),
            (Int, "0x1FU"),
            (Int, "017"),
            (Int, "0"),
            (Int, "8"),
            (Decimal, "1.5e-3"),
            (F32, "0f3F800000"),
            (F64, "0d3FF0000000000000"),
            (Dot, ".2d"),
            (Int, "0b11"),
            (Ident, "_"),
        ];
        assert_eq!(got, expect);
    }

    #[test]
    fn open_ends() {
        assert_eq!(kinds("a /* b"), [(Kind::Ident, "a"), (Kind::Bad, "/* b")]);
        assert_eq!(kinds("\"abc\n;"), [(Kind::Bad, "\"abc"), (p1(b';'), ";")]);
        assert_eq!(kinds("a\\\nb"), [(Kind::Ident, "a"), (Kind::Ident, "b")]);
        assert_eq!(kinds("0f123"), [(Kind::Int, "0"), (Kind::Ident, "f123")]);
    }

    #[test]
    fn preprocessor() {
        assert_eq!(
            kinds("a .DEFINE X 1 } \" /*\n.b .DEFINE\tY\nc"),
            [(Kind::Ident, "a"), (Kind::Dot, ".b"), (Kind::Ident, "c")]
        );
        assert_eq!(kinds(".DEFINE 5\n"), [(Kind::Dot, ".DEFINE"), (Kind::Int, "5")]);
        assert_eq!(kinds(".DEFINE X"), [(Kind::Bad, ".DEFINE X")]);
        assert_eq!(kinds(".IF x"), [(Kind::Bad, ".IF"), (Kind::Ident, "x")]);
        assert_eq!(kinds(".IFDEF"), [(Kind::Dot, ".IFDEF")]);
    }
}
