//! Machine code: listings of functions, and functions' bytes as files.

use super::TOOL;
use super::items::Item;
use crate::options::Parsed;
use crate::report;
use cubin::elf::{Elf, Section};
use cubin::fatbin::Kind;
use diag::Severity;
use std::path::Path;

/// Names of sections with code begin so.
const TEXT: &str = ".text.";

/// Which functions are shown, and in which order; all as they stand by default.
#[derive(Default)]
pub struct Choice {
    names: Option<Vec<String>>,
    sorted: bool,
}

impl Choice {
    /// What the options choose in a cubin. Warns of functions that it does not have.
    ///
    /// # Errors
    /// Where an index is no number or no symbol's.
    pub fn of(parsed: &Parsed, elf: &Elf) -> Result<Choice, String> {
        let sorted = parsed.has("sort-functions");
        if let Some(word) = parsed.get("function-index") {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            let radix = if digits.len() < word.len() { 16 } else { 10 };
            let index = usize::from_str_radix(digits, radix).map_err(|_| format!("'{word}': expected a number"))?;
            let symbols = elf.symbols().map_err(|d| d.message)?;
            let symbol = symbols.get(index).ok_or_else(|| format!("The cubin has no symbol {index}"))?;
            return Ok(Choice { names: Some(vec![symbol.name.clone()]), sorted });
        }
        let names = parsed.values.get("function").cloned();
        for f in names.iter().flatten().filter(|f| !functions(elf).any(|x| x.0 == **f)) {
            report::plain(TOOL, Severity::Warning, &format!("Function listed in --function '{f}' not found"));
        }
        Ok(Choice { names, sorted })
    }

    /// The functions of a cubin that are shown, in their order, with their sections.
    pub fn functions<'a>(&self, elf: &'a Elf) -> Vec<(&'a str, &'a Section)> {
        let chosen = |f: &(&str, &Section)| self.names.as_ref().is_none_or(|list| list.iter().any(|n| n == f.0));
        let mut list: Vec<_> = functions(elf).filter(chosen).collect();
        if self.sorted {
            list.sort_by_key(|f| f.0);
        }
        list
    }
}

/// The functions of a cubin in the order of their sections.
fn functions(elf: &Elf) -> impl Iterator<Item = (&str, &Section)> {
    elf.sections.iter().filter_map(|s| Some((s.name.strip_prefix(TEXT)?, s)))
}

/// Lists the functions' code as files, or writes it to files: those with one of the wanted words in their names. `from` is what the
/// cubin comes from, `number` counts the functions of all cubins.
pub fn files(parsed: &Parsed, item: &Item, from: &str, number: &mut usize) -> Result<(), String> {
    if item.kind != Kind::Elf {
        return Ok(());
    }
    let elf = Elf::read(&item.body).map_err(|d| d.message)?;
    for (f, section) in functions(&elf) {
        *number += 1;
        let name = format!("{from}-{f}.{}.elf.bin", item.target);
        let Some(wanted) = parsed.values.get("extract-text") else {
            report::out(&format!("SASS text section {number} : {name}\n"));
            continue;
        };
        if wanted.iter().any(|w| w == "all" || name.contains(w.as_str())) {
            let written = crate::files::write(Path::new(&name), &section.data);
            written.map_err(|e| format!("Could not open output file '{name}': {e}"))?;
            report::out(&format!("Extracting SASS text section {number} : {name}\n"));
        }
    }
    Ok(())
}

/// Prints the machine code of a cubin for a target, function by function.
///
/// # Errors
/// Where code cannot be read.
pub fn list(elf: &Elf, target: &str, choice: &Choice) -> Result<(), String> {
    let sm = elf.sm();
    let accelerated = if target.ends_with('a') { "EF_CUDA_ACCELERATORS " } else { "" };
    let flags = format!("EF_CUDA_SM{sm} EF_CUDA_VIRTUAL_SM(EF_CUDA_SM{})", virtual_sm(elf).unwrap_or(sm));
    let all = choice.names.is_none();
    let mut out = format!("\n\tcode for {target}\n");
    if all {
        out.push_str(&format!("\t.target\t{target}\n\n"));
    }
    // Addresses are numbers here, as in a listing of bare words.
    let list = |words: &[u8]| crate::nvdisasm::print_bytes(words, &["-b", &format!("SM{sm}"), "-hex"]);
    let mut parts = Vec::new();
    for (f, section) in choice.functions(elf) {
        parts.push((f, list(&section.data)?));
    }
    // Encodings stand in one column for all functions of the file.
    const ENCODING: &str = "/* 0x";
    let column = |listing: &str| listing.lines().filter_map(|l| l.rfind(ENCODING)).max().unwrap_or(0);
    let widest = parts.iter().map(|p| column(&p.1)).max().unwrap_or(0);
    for (f, listing) in parts {
        out.push_str(&format!("\t\tFunction : {f}\n"));
        // With a choice of functions the vendor's tool says it twice, and that addresses have 64 bits.
        if all {
            out.push_str(&format!("\t.headerflags\t@\"{accelerated}{flags}\"\n"));
        } else {
            let line = format!("\t.headerflags\t@\"EF_CUDA_64BIT_ADDRESS {accelerated}{flags}\"\n");
            out.push_str(&line.repeat(2));
        }
        let more = if all { widest - column(&listing) } else { 0 };
        for l in listing.lines().filter(|l| l.trim_start().starts_with("/*")) {
            let (text, encoding) = l.split_at(l.rfind(ENCODING).unwrap_or(l.len()));
            out.push_str(&format!("{text}{}{encoding}\n", " ".repeat(more)));
        }
        out.push_str("\t\t..........\n\n\n");
    }
    report::out(&out);
    Ok(())
}

/// The SM of the PTX target, from `.note.nv.cuinfo`.
pub fn virtual_sm(elf: &Elf) -> Option<u16> {
    about(elf, 2)
}

/// The toolkit of a cubin, times ten, from `.note.nv.cuinfo`.
pub fn toolkit(elf: &Elf) -> Option<u16> {
    about(elf, 4)
}

fn about(elf: &Elf, offset: usize) -> Option<u16> {
    const BEHIND_NAME: usize = 24;
    let (_, note) = elf.section(".note.nv.cuinfo")?;
    let at = BEHIND_NAME + offset;
    note.data.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]))
}

/// The string that bytes begin with.
pub fn string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
