//! Printing: diagnostics in the form that was asked for, text that outlives a closed pipe.

use diag::render::{self, Source};
use diag::{Diagnostic, Severity};
use std::io::Write;

/// How diagnostics are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Style {
    /// One line, as the vendor's tools do.
    #[default]
    Vendor,
    /// With the source.
    Pretty,
    /// One JSON object a line.
    Json,
}

impl Style {
    /// `vendor`, `pretty` or `json`.
    pub fn parse(name: &str) -> Option<Style> {
        Some(match name {
            "vendor" => Style::Vendor,
            "pretty" => Style::Pretty,
            "json" => Style::Json,
            _ => return None,
        })
    }
}

/// Writes to standard output; a reader that went away is no error.
pub fn out(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Writes to standard error.
pub fn err(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Says what is wrong; gives the exit code 1.
pub fn fail(message: &str) -> u8 {
    err(&format!("sassafras: {message}\n"));
    1
}

/// Shows one diagnostic.
pub fn show(tool: &str, d: &Diagnostic, source: &Source, style: Style) {
    err(&match style {
        Style::Vendor => render::vendor(tool, d, source) + "\n",
        Style::Pretty => render::pretty(d, source),
        Style::Json => render::json(d, source) + "\n",
    });
}

/// Says in the name of a tool what makes it stop; gives the vendor's exit code for that.
pub fn fatal(tool: &str, message: &str) -> u8 {
    plain(tool, Severity::Fatal, message);
    1
}

/// Shows a message that belongs to no source.
pub fn plain(tool: &str, severity: Severity, message: &str) {
    show(tool, &Diagnostic::new(severity, message), &Source::new("", b""), Style::Vendor);
}
