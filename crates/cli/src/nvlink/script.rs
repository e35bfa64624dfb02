//! Side outputs: scripts for the host's linker, the table of times, names as the source has them.

use super::demangle;
use crate::options::Parsed;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Sections with device code, as a host linker's script keeps them apart.
const SECTIONS: &str = "SECTIONS\n{\n\t.nvFatBinSegment : { *(.nvFatBinSegment) }\n\t__nv_relfatbin : { *(__nv_relfatbin) } \n\t.nv_fatbin : { *(.nv_fatbin) }\n}\n";

/// Writes a script for the host's linker: `lcs-aug` adds to another, `lcs-abs` is whole.
pub fn write(parsed: &Parsed, kind: &str) -> Result<u8, String> {
    if !parsed.inputs.is_empty() {
        return Err("Input files are not allowed with -ghls option; use --help for more information".into());
    }
    let mut text = String::new();
    if kind == "lcs-abs" {
        let said = Command::new("ld").args(["-pie", "--verbose"]).output();
        let said = said.map_err(|e| format!("Could not ask the host's linker for its script: {e}"))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let lines = said.lines().skip_while(|l| !l.starts_with("====")).skip(1).take_while(|l| !l.starts_with("===="));
        lines.for_each(|l| text.push_str(&format!("{l}\n")));
        if text.is_empty() {
            return Err("The host's linker did not tell its script".into());
        }
    }
    text.push_str(SECTIONS);
    let Some(path) = parsed.get("output-file") else {
        crate::report::out(&text);
        return Ok(0);
    };
    let written = crate::files::write(Path::new(path), text.as_bytes());
    written.map_err(|_| format!("Could not open output file '{path}'"))?;
    Ok(0)
}

/// The first line of the table of times.
const HEADINGS: &str =
    "source file name , phase name , phase input files , phase output file , arch , tool, metric , unit\n";

/// Appends the times of phases to a table. `marks` are beginnings of phases, `inner` those of linking itself.
pub fn times(
    path: &str,
    arch: &str,
    marks: &[(&str, Instant)],
    inner: &[(&'static str, Duration)],
) -> Result<(), String> {
    let mut text = String::new();
    let mut row = |phase: &str, time: Duration| {
        let ms = time.as_secs_f64() * 1000.0;
        text.push_str(&format!(" , {phase} ,  ,  , {arch} , nvlink , {ms:.4} , ms\n"));
    };
    let now = Instant::now();
    for (i, (phase, start)) in marks.iter().enumerate() {
        if *phase == "link" {
            inner.iter().for_each(|(phase, time)| row(phase, *time));
        } else {
            row(phase, marks.get(i + 1).map_or(now, |m| m.1) - *start);
        }
    }
    if path == "-" {
        crate::report::out(&format!("{HEADINGS}{text}"));
        return Ok(());
    }
    let old = std::fs::read_to_string(path).unwrap_or_default();
    let head = if old.is_empty() { HEADINGS } else { "" };
    let written = crate::files::write(Path::new(path), format!("{old}{head}{text}").as_bytes());
    written.map_err(|_| format!("Could not open output file '{path}'"))
}

/// The same text with names of C++ as the source has them.
pub fn demangle(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        for (i, word) in line.split(' ').enumerate() {
            if i > 0 {
                out.push(' ');
            }
            let start = word.find("_Z").unwrap_or(word.len());
            let marks = &word[..start];
            let symbol = Some(&word[start..]).filter(|_| marks.chars().all(|c| "^&".contains(c)));
            // Types that are made of expressions, and names inside of functions, are spelled as they mostly are.
            let other = |s: &str| {
                let mut name = Bounded(String::new());
                let symbol = cpp_demangle::Symbol::new(s).ok().filter(|_| s.len() <= demangle::LONGEST)?;
                symbol.structured_demangle(&mut name, &Default::default()).ok()?;
                Some(spelled(&name.0))
            };
            match symbol.and_then(|s| demangle::demangle(s).or_else(|| other(s))) {
                Some(name) => out.push_str(&format!("{marks}{name}")),
                None => out.push_str(word),
            }
        }
        out.push('\n');
    }
    out
}

/// A name that may not grow without end.
struct Bounded(String);

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        if self.0.len() + s.len() > demangle::LONGEST {
            return Err(std::fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

/// A name as the vendor's tool spells it: `const int *const *`, `S<S<int>>`, without the namespace of a file's own names.
fn spelled(name: &str) -> String {
    let mut name = name.replace("> >", ">>");
    while let Some(start) = name.find("_INTERNAL_")
        && let Some(end) = name[start..].find("::")
    {
        name.replace_range(start..start + end + 2, "");
    }
    // The const of what is pointed to stands in front of it.
    let mut from = 0;
    while let Some(at) = name[from..].find(" const").map(|i| from + i) {
        from = at + 1;
        let start = name[..at].rfind(['(', ',', '<', '*', '&']).map_or(0, |i| i + 1);
        let start = start + name[start..at].len() - name[start..at].trim_start().len();
        let pointer = start > 0 && name[..start].trim_end().ends_with(['*', '&']);
        if start < at && !pointer {
            name.replace_range(at..at + " const".len(), "");
            name.insert_str(start, "const ");
        }
    }
    let mut out = String::with_capacity(name.len() + 8);
    for c in name.replace("* const", "*const").chars() {
        if matches!(c, '*' | '&') && out.ends_with(|p: char| p.is_alphanumeric() || matches!(p, '_' | '>' | ']')) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    /// As nvlink 13.5 spells them.
    #[test]
    fn names_are_spelled_as_the_vendor_spells_them() {
        for (ours, theirs) in [
            ("k(int*)", "k(int *)"),
            ("st(int)", "st(int)"),
            ("_INTERNAL_426d7aa2_5_dm_cu_2075fedf::st(int)", "st(int)"),
            (
                "k(float*, int const* const*, void (*)(int*), S<S<int> >, unsigned char, long, bool, Q*)",
                "k(float *, const int *const *, void (*)(int *), S<S<int>>, unsigned char, long, bool, Q *)",
            ),
        ] {
            assert_eq!(super::spelled(ours), theirs);
        }
    }

    #[test]
    fn names_are_shown_as_the_source_has_them() {
        assert_eq!(super::demangle("1: ^_Z1kPi [8] -> 2\n"), "1: ^k(int *) [8] -> 2\n");
        assert_eq!(super::demangle("2: &plain [24] ->\n"), "2: &plain [24] ->\n");
    }
}
