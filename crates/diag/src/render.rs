//! Diagnostics -> text: as the vendor's tools print them, with the source shown, or as JSON lines.

use crate::{Diagnostic, Severity, Span};
use std::cell::OnceCell;
use std::fmt::Write;

/// A source text with a name and a table of its lines.
pub struct Source<'a> {
    name: String,
    text: &'a [u8],
    starts: OnceCell<Vec<u32>>,
}

impl<'a> Source<'a> {
    /// A source; the table of its lines is built at the first question, as most files have nothing to be said of.
    pub fn new(name: impl Into<String>, text: &'a [u8]) -> Self {
        Source { name: name.into(), text, starts: OnceCell::new() }
    }

    /// The byte where each line begins.
    fn starts(&self) -> &[u32] {
        self.starts.get_or_init(|| {
            let ends = self.text.iter().enumerate().filter(|(_, b)| **b == b'\n');
            std::iter::once(0).chain(ends.map(|(i, _)| i as u32 + 1)).collect()
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Line and column of a byte, both from 1; the column counts bytes. A place past the end is that of the end.
    pub fn position(&self, byte: u32) -> (u32, u32) {
        let byte = byte.min(self.text.len() as u32);
        let starts = self.starts();
        let line = starts.partition_point(|&s| s <= byte);
        (line as u32, byte - starts[line - 1] + 1)
    }

    /// The bytes of a line, from 1, without its end; empty for a line that is not there.
    pub fn line(&self, number: u32) -> &'a [u8] {
        let Some(index) = (number as usize).checked_sub(1).filter(|&i| i < self.starts().len()) else { return &[] };
        let start = self.starts()[index] as usize;
        let end = self.starts().get(index + 1).map_or(self.text.len(), |&e| e as usize - 1);
        let line = &self.text[start..end.max(start)];
        line.strip_suffix(b"\r").unwrap_or(line)
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
        Severity::Fatal => "fatal",
    }
}

/// The message with the name of the source in the place of `{file}`, and in that of `{line}` the line of its first label.
fn message(d: &Diagnostic, source: &Source) -> String {
    let text = d.message.replace("{file}", source.name());
    match d.labels.first() {
        Some((span, _)) => text.replace("{line}", &source.position(span.start).0.to_string()),
        None => text,
    }
}

/// One line as the vendor's tools print it: `ptxas a.ptx, line 7; error   : Unknown symbol 'x'`, or
/// `ptxas fatal   : ...` for a message without a place. `tool` is the name in front. No line end.
pub fn vendor(tool: &str, d: &Diagnostic, source: &Source) -> String {
    let text = message(d, source);
    let word = word(d.severity);
    match d.span {
        Some(span) => format!("{tool} {}, line {}; {word:<7} : {text}", source.name(), source.position(span.start).0),
        None => format!("{tool} {word:<7} : {text}"),
    }
}

/// The last line of the vendor's tool after errors.
pub const ABORTED: &str = "Ptx assembly aborted due to errors";

/// Several lines with the source shown and the place underlined, as rustc does; ends with a line end.
pub fn pretty(d: &Diagnostic, source: &Source) -> String {
    let mut out = format!("{}: {}\n", word(d.severity), message(d, source));
    let mut places: Vec<(Span, &str, char)> = d.span.map(|s| (s, "", '^')).into_iter().collect();
    places.extend(d.labels.iter().map(|(s, t)| (*s, t.as_str(), '-')));
    let width = places.iter().map(|p| source.position(p.0.start).0.to_string().len()).max().unwrap_or(1);
    for (i, (span, text, mark)) in places.iter().enumerate() {
        let (line, column) = source.position(span.start);
        let (arrow, pad) = (if i == 0 { "-->" } else { ":::" }, " ".repeat(width));
        let _ = writeln!(out, "{pad}{arrow} {}:{line}:{column}", source.name());
        let bytes = source.line(line);
        // A window of a long line: a 100 MB line must not be printed whole.
        let at = (column as usize - 1).min(bytes.len());
        let (from, to) = (if at > 80 { at - 60 } else { 0 }, (at + 100).min(bytes.len()));
        let shown = |b: &[u8]| -> String {
            String::from_utf8_lossy(b).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
        };
        let before = shown(&bytes[from..at]).chars().count();
        let end = (at + (span.end.saturating_sub(span.start)) as usize).min(to).max(at);
        let marks = shown(&bytes[at..end]).chars().count().max(1);
        let dots = |cut: bool| if cut { "..." } else { "" };
        let (head, tail) = (dots(from > 0), dots(to < bytes.len()));
        let _ = writeln!(out, "{pad} |\n{line:>width$} | {head}{}{tail}", shown(&bytes[from..to]));
        let under = mark.to_string().repeat(marks);
        let _ = writeln!(out, "{pad} | {}{under} {text}", " ".repeat(head.len() + before));
        while out.ends_with(" \n") {
            out.truncate(out.len() - 2);
            out.push('\n');
        }
    }
    let pad = " ".repeat(width);
    for note in &d.notes {
        let _ = writeln!(out, "{pad} = note: {note}");
    }
    if let Some(help) = &d.help {
        let _ = writeln!(out, "{pad} = help: {help}");
    }
    out
}

/// One JSON object on one line: `severity`, `message`, `file`, `line`, `column`, `start`, `end` (bytes), `labels`, `notes`,
/// `help`; what is not there is `null` or empty. No line end.
pub fn json(d: &Diagnostic, source: &Source) -> String {
    let place = |span: Option<Span>| match span {
        Some(s) => {
            let (line, column) = source.position(s.start);
            format!("\"line\":{line},\"column\":{column},\"start\":{},\"end\":{}", s.start, s.end)
        }
        None => "\"line\":null,\"column\":null,\"start\":null,\"end\":null".to_string(),
    };
    let labels: Vec<String> =
        d.labels.iter().map(|(s, t)| format!("{{\"message\":{},{}}}", quote(t), place(Some(*s)))).collect();
    let notes: Vec<String> = d.notes.iter().map(|n| quote(n)).collect();
    format!(
        "{{\"severity\":\"{}\",\"message\":{},\"file\":{},{},\"labels\":[{}],\"notes\":[{}],\"help\":{}}}",
        word(d.severity),
        quote(&message(d, source)),
        quote(source.name()),
        place(d.span),
        labels.join(","),
        notes.join(","),
        d.help.as_ref().map_or("null".to_string(), |h| quote(h)),
    )
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"first\n\tadd.u32 %r1, x;\nlast";

    fn unknown() -> Diagnostic {
        Diagnostic::error("Unknown symbol 'x'")
            .at(Span::new(21, 22))
            .label(Span::new(0, 5), "the file begins here")
            .note("a note")
            .help("declare it")
    }

    #[test]
    fn positions() {
        let s = Source::new("a.ptx", TEXT);
        assert_eq!(
            [s.position(0), s.position(5), s.position(6), s.position(22), s.position(99)],
            [(1, 1), (1, 6), (2, 1), (2, 17), (3, 5)]
        );
        assert_eq!((s.line(2), s.line(3), s.line(9)), (&b"\tadd.u32 %r1, x;"[..], &b"last"[..], &b""[..]));
        assert_eq!(Source::new("e", b"").position(0), (1, 1));
    }

    #[test]
    fn as_the_vendor() {
        let s = Source::new("a.ptx", TEXT);
        assert_eq!(vendor("ptxas", &unknown(), &s), "ptxas a.ptx, line 2; error   : Unknown symbol 'x'");
        let d = Diagnostic::new(Severity::Fatal, ABORTED);
        assert_eq!(vendor("ptxas", &d, &s), "ptxas fatal   : Ptx assembly aborted due to errors");
        let d = Diagnostic::new(Severity::Warning, "Missing in '{file}'");
        assert_eq!(vendor("ptxas", &d, &s), "ptxas warning : Missing in 'a.ptx'");
    }

    #[test]
    fn with_the_source() {
        let s = Source::new("a.ptx", TEXT);
        let expect = "error: Unknown symbol 'x'\n --> a.ptx:2:16\n  |\n2 |  add.u32 %r1, x;\n  |                ^\n ::: a.ptx:1:1\n  |\n\
                      1 | first\n  | ----- the file begins here\n  = note: a note\n  = help: declare it\n";
        assert_eq!(pretty(&unknown(), &s), expect);
        let long = vec![b'x'; 1_000_000];
        let s = Source::new("l", &long);
        assert!(pretty(&Diagnostic::error("e").at(Span::new(500_000, 900_000)), &s).len() < 1000);
    }

    #[test]
    fn as_json() {
        let s = Source::new("a\"b", TEXT);
        let text = json(&unknown(), &s);
        assert!(
            text.starts_with(
                r#"{"severity":"error","message":"Unknown symbol 'x'","file":"a\"b","line":2,"column":16,"#
            )
        );
        assert!(!text.contains('\n') && text.ends_with(r#""notes":["a note"],"help":"declare it"}"#));
    }
}
