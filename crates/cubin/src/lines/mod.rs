//! Line tables: `.debug_line` (source lines) and `.nv_debug_line_sass` (lines of the PTX text), as DWARF 2 to 4 has them,
//! with the vendor's two extended opcodes: 0x90 makes the following rows inlined at an earlier row, 0x91 names a function.
//! (What ptxas writes and nvdisasm shows of it, release 13.5.)

pub mod write;

use crate::elf::Reloc;
use diag::Diagnostic;

/// A row: from this address on, the code comes from this line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The symbol of the function, and the byte offset from it.
    pub symbol: u32,
    /// Byte offset from the symbol.
    pub address: u64,
    /// Number of the file, from 1; 0 for none.
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// Number, from 1, of the row of the table that this one is inlined at; 0 for none. (The file counts from the start of
    /// the sequence.)
    pub inlined_at: u32,
    /// Ends a sequence: nothing comes from here.
    pub end: bool,
}

/// One table: its files and its rows in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// File names with their folders; the first is number 1.
    pub files: Vec<String>,
    /// Rows, the first is number 1.
    pub rows: Vec<Row>,
}

impl Lines {
    /// The name of a file by its number.
    pub fn file(&self, number: u32) -> Option<&str> {
        self.files.get((number as usize).checked_sub(1)?).map(String::as_str)
    }
}

/// Numbers and texts of DWARF, read from the front of a part of a section.
pub struct Bytes<'a> {
    data: &'a [u8],
    /// Byte offset of what is read next.
    pub at: usize,
    end: usize,
}

impl<'a> Bytes<'a> {
    /// Reads `data` from offset `at` on.
    pub fn new(data: &'a [u8], at: usize) -> Bytes<'a> {
        Bytes { data, at, end: data.len() }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    fn fail<T>(&self, what: &str) -> Result<T, Diagnostic> {
        Err(Diagnostic::error(format!("not a valid cubin: line table: {what} at offset {:#x}", self.at)))
    }

    /// A number of so many bytes, the lowest first.
    ///
    /// # Errors
    /// Where the data ends before.
    pub fn fixed(&mut self, size: usize) -> Result<u64, Diagnostic> {
        match self.data.get(self.at..self.at.saturating_add(size).min(self.end)).filter(|b| b.len() == size) {
            Some(bytes) => {
                self.at += size;
                Ok(bytes.iter().rev().fold(0, |v, b| v << 8 | *b as u64))
            }
            None => self.fail("the data ends too soon"),
        }
    }

    /// A number of seven bits a byte.
    ///
    /// # Errors
    /// Where the data ends before.
    pub fn unsigned(&mut self) -> Result<u64, Diagnostic> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.fixed(1)?;
            if shift < 64 {
                value |= (byte & 0x7f) << shift;
            }
            shift += 7;
            if byte < 0x80 {
                return Ok(value);
            }
        }
    }

    /// As [`Bytes::unsigned`], with a sign.
    ///
    /// # Errors
    /// Where the data ends before.
    pub fn signed(&mut self) -> Result<i64, Diagnostic> {
        let from = self.at;
        let value = self.unsigned()? as i64;
        let bits = 7 * (self.at - from) as u32;
        Ok(if bits < 64 { value << (64 - bits) >> (64 - bits) } else { value })
    }

    /// A text up to a zero.
    ///
    /// # Errors
    /// Where there is none.
    pub fn text(&mut self) -> Result<String, Diagnostic> {
        let rest = self.data.get(self.at..self.end).unwrap_or_default();
        match rest.iter().position(|b| *b == 0) {
            Some(n) => {
                self.at += n + 1;
                Ok(String::from_utf8_lossy(&rest[..n]).into_owned())
            }
            None => self.fail("a name without end"),
        }
    }
}

/// Reads the tables of a section, one for each compilation unit; `relocs` are the relocations of the section, which say
/// what function an address belongs to.
///
/// # Errors
/// The place of what is cut off or has an unknown version.
pub fn read(data: &[u8], relocs: &[Reloc]) -> Result<Vec<Lines>, Diagnostic> {
    let mut tables = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let mut b = Bytes::new(data, at);
        let length = b.fixed(4)? as usize;
        let end = b.at.saturating_add(length);
        if end > data.len() || length == 0 {
            return b.fail("a table that is longer than the section");
        }
        b.end = end;
        tables.push(table(&mut b, relocs)?);
        at = end;
    }
    Ok(tables)
}

fn table(b: &mut Bytes, relocs: &[Reloc]) -> Result<Lines, Diagnostic> {
    let version = b.fixed(2)?;
    if !(2..=4).contains(&version) {
        return b.fail(&format!("version {version}"));
    }
    let header = b.fixed(4)? as usize;
    let program = b.at.saturating_add(header);
    let unit = b.fixed(1)?;
    if version == 4 {
        b.fixed(1)?;
    }
    let _ = b.fixed(1)?;
    let base = b.fixed(1)? as u8 as i8 as i64;
    let range = b.fixed(1)?;
    let first_special = b.fixed(1)?;
    if range == 0 || first_special == 0 {
        return b.fail("a head without lines");
    }
    let mut operands = Vec::new();
    for _ in 1..first_special {
        operands.push(b.fixed(1)?);
    }
    let mut folders = Vec::new();
    loop {
        match b.text()? {
            name if name.is_empty() => break,
            name => folders.push(name),
        }
    }
    let mut out = Lines::default();
    let file = |b: &mut Bytes, name: String, out: &mut Lines| -> Result<(), Diagnostic> {
        let folder = b.unsigned()?;
        let (_, _) = (b.unsigned()?, b.unsigned()?);
        let folder = usize::try_from(folder).ok().and_then(|n| folders.get(n.checked_sub(1)?));
        out.files.push(folder.map_or(name.clone(), |f| format!("{f}/{name}")));
        Ok(())
    };
    loop {
        match b.text()? {
            name if name.is_empty() => break,
            name => file(b, name, &mut out)?,
        }
    }
    if program < b.at || program > b.end {
        return b.fail("a head of the wrong length");
    }
    b.at = program;
    let start = Row { symbol: 0, address: 0, file: 1, line: 1, inlined_at: 0, end: false };
    let mut row = start;
    // Rows are counted from the start of their sequence.
    let mut first = 0;
    while b.at < b.end {
        let op = b.fixed(1)?;
        if op >= first_special {
            let n = op - first_special;
            row.address = row.address.wrapping_add(n / range * unit);
            row.line = (row.line as i64).wrapping_add(base + (n % range) as i64) as u32;
            out.rows.push(row);
            continue;
        }
        match op {
            0 => {
                let size = b.unsigned()? as usize;
                let next = b.at.saturating_add(size);
                if size == 0 || next > b.end {
                    return b.fail("an opcode of the wrong length");
                }
                match b.fixed(1)? {
                    1 => {
                        out.rows.push(Row { end: true, ..row });
                        row = start;
                        first = out.rows.len() as u32;
                    }
                    2 => {
                        let place = b.at as u64;
                        row.address = b.fixed((size - 1).min(8))?;
                        if let Some(r) = relocs.iter().find(|r| r.offset == place) {
                            row.symbol = r.symbol;
                            row.address = row.address.wrapping_add_signed(r.addend);
                        }
                    }
                    3 => {
                        let name = b.text()?;
                        file(b, name, &mut out)?;
                    }
                    0x90 => {
                        let n = b.unsigned()? as u32;
                        row.inlined_at = if n == 0 { 0 } else { first.wrapping_add(n) };
                    }
                    _ => {}
                }
                b.at = next;
            }
            1 => out.rows.push(row),
            2 => row.address = row.address.wrapping_add(b.unsigned()?.wrapping_mul(unit)),
            3 => row.line = (row.line as i64).wrapping_add(b.signed()?) as u32,
            4 => row.file = b.unsigned()? as u32,
            8 => row.address = row.address.wrapping_add((255 - first_special) / range * unit),
            9 => row.address = row.address.wrapping_add(b.fixed(2)?),
            _ => {
                for _ in 0..operands[op as usize - 1] {
                    b.unsigned()?;
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of one file, made by hand: line 3 at 0, line 5 inlined at row 1 from 16 on, the end at 32.
    fn bytes() -> Vec<u8> {
        let mut program = vec![0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 0, 3, 2, 1];
        program.extend([0, 3, 0x90, 1, 0, 3, 2, 2, 16, 1, 2, 16, 0, 1, 1]);
        let mut head = vec![1, 1, 0xfb, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1];
        head.extend(b"dir\0\0k.cu\0\x01\0\0\0");
        let mut all = vec![2, 0];
        all.extend((head.len() as u32).to_le_bytes());
        all.extend(head);
        all.extend(program);
        let mut out = (all.len() as u32).to_le_bytes().to_vec();
        out.extend(all);
        out
    }

    #[test]
    fn rows_and_files() {
        let relocs = [Reloc { offset: 0x2a, kind: 2, symbol: 7, addend: 0x100 }];
        let place = bytes().windows(3).position(|w| w == [0, 9, 2]).expect("an address") as u64 + 3;
        let tables = read(&bytes(), &[Reloc { offset: place, ..relocs[0] }]).expect("a table");
        assert_eq!(tables[0].files, ["dir/k.cu"]);
        let rows: Vec<_> =
            tables[0].rows.iter().map(|r| (r.symbol, r.address, r.file, r.line, r.inlined_at, r.end)).collect();
        assert_eq!(rows, [(7, 0x100, 1, 3, 0, false), (7, 0x110, 1, 5, 1, false), (7, 0x120, 1, 5, 1, true)]);
    }

    #[test]
    fn what_is_cut_off_is_said() {
        let all = bytes();
        for n in 1..all.len() {
            assert!(read(&all[..n], &[]).is_err(), "{n}");
        }
    }
}
