//! Side outputs: scripts for the host's linker, the table of times, names as the source has them.

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
    let Some(path) = parsed.get("output-file") else { return Err("Must specify output file with -o option".into()) };
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
            let name =
                cpp_demangle::Symbol::new(&word[start..]).ok().filter(|_| marks.chars().all(|c| "^&".contains(c)));
            match name.and_then(|n| n.demangle().ok()) {
                Some(name) => out.push_str(&format!("{marks}{name}")),
                None => out.push_str(word),
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_shown_as_the_source_has_them() {
        assert_eq!(super::demangle("1: ^_Z1kPi [8] -> 2\n"), "1: ^k(int*) [8] -> 2\n");
        assert_eq!(super::demangle("2: &plain [24] ->\n"), "2: &plain [24] ->\n");
    }
}
