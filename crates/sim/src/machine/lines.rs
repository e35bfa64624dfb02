//! The source lines of instructions, from the line table of the cubin (`-lineinfo`), for those who report a fault.

use crate::fault::SourceLine;
use cubin::elf::Elf;
use cubin::lines;

/// The line that the instruction at `offset` comes from: bytes from the start of the code, where each section of code lies
/// as `texts` says (by the number of the section). None where the file does not tell, or its table is damaged.
pub(super) fn source(cubin: &[u8], texts: &[Option<u64>], offset: u64) -> Option<SourceLine> {
    let elf = Elf::read(cubin).ok()?;
    let symbols = elf.symbols().ok()?;
    let number = elf.sections.iter().position(|s| s.name == ".debug_line")?;
    let relocs: Vec<_> = elf.sections.iter().filter(|t| t.info as usize == number).flat_map(|t| t.relocs()).collect();
    let mut found: Option<(u64, SourceLine)> = None;
    for table in lines::read(&elf.sections[number].data, &relocs).ok()? {
        for pair in table.rows.windows(2) {
            let start = |row: &lines::Row| {
                let symbol = symbols.get(row.symbol as usize)?;
                Some(texts.get(symbol.shndx as usize).copied()??.wrapping_add(symbol.value).wrapping_add(row.address))
            };
            let (Some(from), Some(to)) = (start(&pair[0]), start(&pair[1])) else { continue };
            // Of several rows of one place the last one counts; so does the nearest one.
            if pair[0].end || !(from..to).contains(&offset) || found.as_ref().is_some_and(|f| f.0 > from) {
                continue;
            }
            let file = table.file(pair[0].file).unwrap_or("?").to_string();
            found = Some((from, SourceLine { file, line: pair[0].line }));
        }
    }
    found.map(|f| f.1)
}
