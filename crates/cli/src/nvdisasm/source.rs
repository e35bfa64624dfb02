//! Source lines before instructions: `-g`, `-gi`, `-gp`.

use super::file::{Input, relocations};
use crate::options::Parsed;
use cubin::lines::{self, Lines, Row};
use diag::Diagnostic;

/// Puts the lines that are asked for before the instructions.
pub(super) fn comments(input: &mut Input, parsed: &Parsed) -> Result<(), Diagnostic> {
    let inlined = parsed.has("print-line-info-inline");
    if inlined || parsed.has("print-line-info") {
        section(input, ".debug_line", &|table, row| chain(table, row, inlined))?;
    }
    if parsed.has("print-line-info-ptx") {
        // The text of the PTX is a section; its lines have no file.
        section(input, ".nv_debug_line_sass", &|_, row| {
            vec![format!("//## File \".nv_debug_ptx_txt\", line {}", row.line)]
        })?;
    }
    input.code.sections.iter_mut().for_each(|s| s.comments.sort_by_key(|c| c.0));
    Ok(())
}

type Texts<'a> = &'a dyn Fn(&Lines, &Row) -> Vec<String>;

fn section(input: &mut Input, name: &str, texts: Texts) -> Result<(), Diagnostic> {
    let Some((n, table)) = input.elf.section(name) else { return Ok(()) };
    let relocs = relocations(input.elf, n);
    for table in lines::read(&table.data, &relocs)? {
        let mut last: Option<Row> = None;
        for (i, row) in table.rows.iter().enumerate() {
            let next = table.rows.get(i + 1);
            // Of several rows of one place the last one counts.
            if row.end || next.is_some_and(|n| !n.end && (n.symbol, n.address) == (row.symbol, row.address)) {
                last = last.filter(|_| !row.end);
                continue;
            }
            let same = |l: &Row| (l.symbol, l.file, l.line) == (row.symbol, row.file, row.line);
            if last.as_ref().is_some_and(same) {
                continue;
            }
            last = Some(*row);
            let Some(symbol) = input.symbols.get(row.symbol as usize) else { continue };
            let Some(text) = input.texts.iter().position(|&t| t == symbol.shndx as usize) else { continue };
            let at = symbol.value.wrapping_add(row.address);
            let lines = texts(&table, row).into_iter().map(|line| (at, line));
            input.code.sections[text].comments.extend(lines);
        }
    }
    Ok(())
}

/// The line of a row, and of those that it is inlined at.
fn chain(table: &Lines, row: &Row, inlined: bool) -> Vec<String> {
    let place = |row: &Row| format!("\"{}\", line {}", table.file(row.file).unwrap_or("?"), row.line);
    let outer = |row: &Row| table.rows.get((row.inlined_at as usize).checked_sub(1)?);
    let mut out = Vec::new();
    let mut row = row;
    // A chain that goes round in a circle ends.
    while out.len() <= table.rows.len() {
        match outer(row).filter(|_| inlined) {
            Some(at) => {
                out.push(format!("//## File {} inlined at {}", place(row), place(at)));
                row = at;
            }
            None => {
                out.push(format!("//## File {}", place(row)));
                break;
            }
        }
    }
    out
}
