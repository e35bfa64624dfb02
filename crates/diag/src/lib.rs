//! Diagnostics with places: what went wrong, where in the source, why, and the way out.
//!
//! Nothing here prints. A [`Diagnostic`] is a value; `render` turns it into text as the vendor's tools print it, as
//! rustc prints it, or as JSON, and only the command line decides which.
#![deny(missing_docs)]

pub mod render;

/// A range of bytes in one source text: `start..end`, in bytes from the beginning of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The range `start..end`.
    pub fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// The smallest range that covers both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// How bad it is; the names are those of the vendor's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information only (`ptxas info`).
    Info,
    /// Something suspicious; the output is still made.
    Warning,
    /// The input is wrong; checking goes on, no output is made.
    Error,
    /// Nothing more can be done; stops at once.
    Fatal,
}

/// One message about one place of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, one sentence without a full stop, worded as the vendor's tool words it where it has such a message.
    /// `{file}` in it stands for the name of the source, `{line}` for the line of the first label.
    pub message: String,
    /// Where, if the message has a place.
    pub span: Option<Span>,
    /// Further places that explain the first one, each with its own text.
    pub labels: Vec<(Span, String)>,
    /// Why, and what would be legal.
    pub notes: Vec<String>,
    /// The way out ("did you mean `.f32`?").
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place yet.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    /// A message of the given severity without a place yet.
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        Diagnostic { severity, message: message.into(), span: None, labels: Vec::new(), notes: Vec::new(), help: None }
    }

    /// The same message at a place.
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// The same message with a note more.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The same message with the way out.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same message with a further place.
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push((span, text.into()));
        self
    }

    /// True for [`Severity::Error`] and [`Severity::Fatal`].
    pub fn is_error(&self) -> bool {
        self.severity >= Severity::Error
    }
}
