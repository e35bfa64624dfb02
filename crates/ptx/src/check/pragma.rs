//! `.pragma`: which are known, where, and with what behind them. As the vendor's tool (13.5) answers.
//!
//! Its checks of texts refuse those in the wrong place, or of a later version, and numbers of `frequency`; the rest it says of each
//! function when it compiles it ([`pragmas`]).

use super::Checker;
use crate::isa::Since;
use crate::module::*;
use diag::{Diagnostic, Severity, Span};
use rustc_hash::FxHashSet;

/// Pragmas that speak of a place in a body, with the first version that has them. What follows the word is read by itself.
const INNER: [(&str, (u16, u16)); 3] = [("used_bytes_mask", (8, 3)), (SHARED_SPILLS, (8, 7)), ("frequency", (9, 0))];
/// The pragma of kernels whose registers are spilled to shared memory.
pub const SHARED_SPILLS: &str = "enable_smem_spilling";
/// Those that may stand anywhere.
const ANYWHERE: [&str; 1] = ["nounroll"];

/// What [`INNER`] has of a word.
fn inner(word: &str) -> Option<(&'static str, (u16, u16))> {
    INNER.into_iter().find(|(name, _)| word.starts_with(name))
}

/// The number behind the word, as C reads it.
fn argument(word: &str) -> &str {
    word.split_once(' ').map_or("", |(_, a)| a)
}

/// What C's `strtol` makes of a text, with the base that the prefix says: whether the number is above 0, and whether it goes to the
/// end of the text.
fn number(text: &str) -> (bool, bool) {
    let text = text.trim_start();
    let (negative, text) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let hex =
        text.strip_prefix("0x").or(text.strip_prefix("0X")).filter(|d| d.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (text, base) = match hex {
        Some(digits) => (digits, 16),
        None => (text, if text.starts_with('0') { 8 } else { 10 }),
    };
    let rest = text.trim_start_matches(|c: char| c.is_digit(base));
    let digits = &text[..text.len() - rest.len()];
    (!negative && digits.bytes().any(|b| b != b'0'), !digits.is_empty() && rest.is_empty())
}

/// What is wrong with the number of `frequency`: it does not end, or it is not above 0, or both.
fn frequency(word: &str) -> Vec<Diagnostic> {
    let text = argument(word);
    let invalid = Diagnostic::error(format!("Invalid value '{text}' specified for .pragma '{word}'"));
    if text.is_empty() {
        return vec![Diagnostic::error(format!("Argument(s) to pragma '{word}' cannot be empty")), invalid];
    }
    let (above, whole) = number(text);
    vec![invalid; usize::from(!above) + usize::from(!whole)]
}

impl Checker<'_> {
    /// Those at the place of a module's items, or before a body: there is nothing that they could speak of.
    pub(super) fn outer_pragma(&mut self, words: &[String], span: Span) {
        for word in words.iter().filter(|w| inner(w).is_some()) {
            self.error(span, format!("Pragma '{word}' is allowed only within function scope"));
        }
    }

    /// Those of a body.
    pub(super) fn inner_pragmas(&mut self, f: &Function) {
        for (word, span) in f.body.iter().flat_map(Body::pragmas) {
            let Some((name, version)) = inner(word) else { continue };
            let since = Since::new(version, 0);
            if self.late(since) {
                self.since(span, name, since);
            }
            if name == SHARED_SPILLS && f.kind == FuncKind::Func {
                self.error(span, format!("Pragma '{word}' cannot be specified for device functions"));
            }
            if name == "frequency" {
                for d in frequency(word) {
                    // The vendor's tool gives no place; the others show one.
                    self.push(d.label(span, ""));
                }
            }
        }
    }
}

/// How a module is compiled, as far as pragmas care.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compilation {
    /// Functions are for a linker (`-c`).
    pub relocatable: bool,
    /// For a debugger (`-g`).
    pub debug: bool,
}

/// What is said of the `.pragma`s of a checked module when its functions are compiled: unknown ones are errors at the place of a module's
/// items and warnings in functions, and not all go with a compilation of one function at a time. In the order of the
/// compilation; nothing follows a fatal one. Of `entries`, where there are any, alone.
pub fn pragmas(m: &Module, how: Compilation, entries: &[String]) -> Vec<Diagnostic> {
    let known = |w: &str| ANYWHERE.contains(&w) || w.starts_with("used_bytes_mask") && mask(w).is_none();
    let unknown = |words: &[String]| words.iter().any(|w| !known(w));
    let global: Vec<(&String, Span)> = m
        .items
        .iter()
        .filter_map(|i| if let Item::Pragma { words, span } = i { Some((words, *span)) } else { None })
        .flat_map(|(words, span)| words.iter().map(move |w| (w, span)))
        .filter(|(w, _)| !known(w))
        .collect();
    let odd = |f: &Function| {
        f.directives.iter().any(|d| matches!(d, Directive::Pragma(words) if unknown(words)))
            || f.body.iter().flat_map(Body::pragmas).any(|(w, _)| !known(w))
    };
    if global.is_empty() && !m.funcs.iter().any(odd) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for id in order(m, how, entries) {
        let f = &m.funcs[id.index()];
        if f.kind == FuncKind::Entry || how.relocatable || how.debug {
            out.extend(
                global.iter().map(|(w, s)| Diagnostic::error(format!("Pragma '{w}' not supported")).label(*s, "")),
            );
        }
        let outer =
            f.directives.iter().filter_map(|d| if let Directive::Pragma(words) = d { Some(words) } else { None });
        let outer = outer.flatten().map(|w| (w.as_str(), f.span));
        for (word, span) in outer.chain(f.body.iter().flat_map(Body::pragmas)) {
            match inner(word) {
                Some((SHARED_SPILLS, _)) if how.relocatable || how.debug => {
                    let rest = "is not allowed for per-function compilation modes";
                    out.push(Diagnostic::new(Severity::Fatal, format!("Pragma '{word}' {rest}")).label(span, ""));
                    return out;
                }
                Some(("used_bytes_mask", _)) => out.extend(mask(word).into_iter().map(|d| d.label(span, ""))),
                None if !known(word) => {
                    let message = format!("Pragma '{word}' unsupported");
                    out.push(Diagnostic::new(Severity::Warning, message).label(span, ""));
                }
                _ => {}
            }
        }
    }
    out
}

/// What is wrong with the number of `used_bytes_mask`.
fn mask(word: &str) -> Option<Diagnostic> {
    let text = argument(word);
    if text.is_empty() {
        return Some(Diagnostic::error(format!("Argument(s) to pragma '{word}' cannot be empty")));
    }
    let invalid = || Diagnostic::error(format!("Invalid value '{text}' specified for .pragma '{word}'"));
    (!number(text).1).then(invalid)
}

/// Functions in the order in which the vendor's tool compiles them: in a whole program entries from the last to the first, each
/// followed by what it calls; for a debugger in the order of the text, those of the module alone last.
fn order(m: &Module, how: Compilation, entries: &[String]) -> Vec<FuncId> {
    let ids = || (0..m.funcs.len() as u32).map(FuncId).filter(|f| m.funcs[f.index()].body.is_some());
    let entry = |f: &FuncId| m.funcs[f.index()].kind == FuncKind::Entry;
    let wanted = |f: &FuncId| !entry(f) || entries.is_empty() || entries.contains(&m.funcs[f.index()].name);
    if how.debug {
        let own = |f: &FuncId| !entry(f) && m.funcs[f.index()].linkage == Linkage::Internal;
        return ids().filter(|f| !own(f) && wanted(f)).chain(ids().filter(own)).collect();
    }
    let mut out = Vec::new();
    if how.relocatable {
        out.extend(ids().filter(|f| !entry(f)));
        out.extend(ids().filter(|f| entry(f) && wanted(f)));
        out.reverse();
        return out;
    }
    for e in ids().filter(|f| entry(f) && wanted(f)).collect::<Vec<_>>().into_iter().rev() {
        let mut seen = FxHashSet::from_iter([e]);
        let mut waiting = vec![e];
        while let Some(f) = waiting.pop() {
            out.push(f);
            let new: Vec<FuncId> = super::linkage::named(&m.funcs[f.index()]).filter(|g| seen.insert(*g)).collect();
            waiting.extend(new.into_iter().rev().filter(|g| m.funcs[g.index()].body.is_some()));
        }
    }
    out
}
