//! Places of code -> a line table: DWARF 3 as the vendor's tool writes it for sm_90 (release 13.5), one sequence a function.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A place in a source text, with the calls that it was inlined through.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Number of the file in the table, from 1; 0 where there is one text that has no name.
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// The call that brought the code here.
    pub inlined: Option<Arc<Inlined>>,
}

/// A call in whose place the code of a function stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inlined {
    /// Offset in `.debug_str` of the name of the function.
    pub function: u32,
    /// Where the call stands.
    pub at: Place,
}

/// A file of a table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct File {
    /// Its path.
    pub path: String,
    /// When it was changed, in seconds since 1970; 0 if unknown.
    pub time: u64,
    /// Its size in bytes; 0 if unknown.
    pub size: u64,
}

/// The lines of a function's code.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Sequence {
    /// Size of the code in bytes.
    pub size: u64,
    /// From this offset on the code comes from there; by rising offsets.
    pub places: Vec<(u64, Place)>,
}

const COPY: u8 = 1;
const ADVANCE_PC: u8 = 2;
const ADVANCE_LINE: u8 = 3;
const SET_FILE: u8 = 4;
const SET_PROLOGUE_END: u8 = 10;
/// Extended: the rows behind it are inlined at an earlier row of the sequence, counted from 1; 0 for none. The second
/// operand is the offset of the function's name.
const INLINED: u8 = 0x90;

const LINE_BASE: i64 = -5;
const LINE_RANGE: u64 = 14;
/// Operands of the standard opcodes 1 to 12.
const OPERANDS: [u8; 12] = [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
const FIRST_SPECIAL: u64 = 13;

fn unsigned(mut n: u64, out: &mut Vec<u8>) {
    loop {
        let byte = n as u8 & 0x7f;
        n >>= 7;
        out.push(byte | u8::from(n != 0) << 7);
        if n == 0 {
            return;
        }
    }
}

fn signed(mut n: i64, out: &mut Vec<u8>) {
    loop {
        let byte = n as u8 & 0x7f;
        n >>= 7;
        let done = n == if byte & 0x40 != 0 { -1 } else { 0 };
        out.push(byte | u8::from(!done) << 7);
        if done {
            return;
        }
    }
}

/// The section, and the offset in it of the address of each sequence: a relocation has to put the function's there.
pub fn write(files: &[File], sequences: &[Sequence]) -> (Vec<u8>, Vec<u64>) {
    let mut head = vec![1, 1, LINE_BASE as u8, LINE_RANGE as u8, FIRST_SPECIAL as u8];
    head.extend(OPERANDS);
    names(files, &mut head);
    // Where the names of inlined functions begin in `.debug_str`; only tables that have such places have it (observed).
    if sequences.iter().flat_map(|s| &s.places).any(|p| p.1.inlined.is_some()) {
        head.extend([0; 4]);
    }
    // Length of the whole, version, length of the head.
    let mut out = vec![0, 0, 0, 0, 3, 0];
    out.extend((head.len() as u32).to_le_bytes());
    out.extend(head);
    let mut addresses = Vec::new();
    for s in sequences.iter().filter(|s| !s.places.is_empty()) {
        out.extend([0, 9, 2]);
        addresses.push(out.len() as u64);
        out.extend([0; 8]);
        sequence(s, &mut out);
    }
    if addresses.is_empty() {
        out.extend([0, 1, 1]);
    }
    let length = out.len() as u32 - 4;
    out[..4].copy_from_slice(&length.to_le_bytes());
    (out, addresses)
}

/// Folders, each once, then the names of the files in them.
fn names(files: &[File], out: &mut Vec<u8>) {
    let mut folders: Vec<&str> = Vec::new();
    let mut table = Vec::new();
    for f in files {
        let (folder, name) = f.path.rsplit_once('/').map_or((None, f.path.as_str()), |(a, b)| (Some(a), b));
        let number = folder.map_or(0, |folder| {
            let known = folders.iter().position(|f| *f == folder);
            1 + known.unwrap_or_else(|| {
                folders.push(folder);
                folders.len() - 1
            })
        });
        table.extend(name.bytes().filter(|&b| b != 0));
        table.push(0);
        [number as u64, f.time, f.size].into_iter().for_each(|n| unsigned(n, &mut table));
    }
    for folder in folders {
        // The folder of `/a.cu` is no empty name, which would end the list.
        out.extend(if folder.is_empty() { "/" } else { folder }.bytes().filter(|&b| b != 0));
        out.push(0);
    }
    out.push(0);
    out.extend(table);
    out.push(0);
}

/// What the rows of a sequence have come to.
struct State<'a> {
    address: u64,
    file: u32,
    line: u32,
    /// Row and name of the call at hand; zeros for none.
    inlined: (u32, u32),
    /// Rows so far, and the first of each place.
    rows: u32,
    known: FxHashMap<&'a Place, u32>,
}

fn sequence(s: &Sequence, out: &mut Vec<u8>) {
    let mut state = State { address: 0, file: 1, line: 1, inlined: (0, 0), rows: 0, known: FxHashMap::default() };
    for (address, place) in &s.places {
        row(&mut state, *address, place, out);
    }
    out.push(ADVANCE_PC);
    unsigned(s.size.saturating_sub(state.address), out);
    out.extend([0, 1, 1]);
}

/// Adds a row, behind those of the calls that it came through.
fn row<'a>(state: &mut State<'a>, address: u64, place: &'a Place, out: &mut Vec<u8>) {
    let mut calls: Vec<&Place> = vec![place];
    while let Some(call) = calls.last().and_then(|p| p.inlined.as_deref()) {
        if state.known.contains_key(&call.at) {
            break;
        }
        calls.push(&call.at);
    }
    for place in calls.into_iter().rev() {
        let inlined =
            place.inlined.as_deref().map_or((0, 0), |c| (state.known.get(&c.at).copied().unwrap_or(0), c.function));
        if place.file != state.file || state.rows == 0 {
            out.push(SET_FILE);
            unsigned(place.file.into(), out);
            state.file = place.file;
        }
        if inlined != state.inlined {
            let mut operands = Vec::new();
            unsigned(inlined.0.into(), &mut operands);
            unsigned(inlined.1.into(), &mut operands);
            out.extend([0, operands.len() as u8 + 1, INLINED]);
            out.extend(operands);
            state.inlined = inlined;
        }
        advance(address - state.address, i64::from(place.line) - i64::from(state.line), out);
        (state.address, state.line) = (address, place.line);
        state.rows += 1;
        if state.rows == 1 {
            out.push(SET_PROLOGUE_END);
        }
        state.known.entry(place).or_insert(state.rows);
    }
}

/// Moves on and adds a row: in one byte where that holds it.
fn advance(address: u64, lines: i64, out: &mut Vec<u8>) {
    let special = (lines - LINE_BASE).try_into().ok().filter(|&n: &u64| n < LINE_RANGE).and_then(|n| {
        let code = address.checked_mul(LINE_RANGE)?.checked_add(FIRST_SPECIAL + n)?;
        u8::try_from(code).ok()
    });
    if let Some(code) = special {
        out.push(code);
        return;
    }
    if lines != 0 {
        out.push(ADVANCE_LINE);
        signed(lines, out);
    }
    if address != 0 {
        out.push(ADVANCE_PC);
        unsigned(address, out);
    }
    out.push(COPY);
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use crate::elf::Reloc;

    fn place(file: u32, line: u32) -> Place {
        Place { file, line, inlined: None }
    }

    fn inlined(file: u32, line: u32, function: u32, at: Place) -> Place {
        Place { file, line, inlined: Some(Arc::new(Inlined { function, at })) }
    }

    /// What is written is read again: rows, files, and calls through calls, counted from the start of each sequence.
    #[test]
    fn what_is_written_is_read() {
        let file = |path: &str| File { path: path.into(), time: 3, size: 300 };
        let files = [file("/src/a.cu"), file("/inc/b.h"), file("/inc/c.h"), file("d.h"), file("/e.h")];
        let call = inlined(2, 300, 0, place(1, 12));
        let first = Sequence {
            size: 0x200,
            places: vec![
                (0, place(1, 10)),
                (0x10, place(1, 12)),
                (0x20, call.clone()),
                (0x30, inlined(3, 7, 5, call.clone())),
                (0x40, call),
                (0x100, place(4, 1)),
            ],
        };
        let second = Sequence { size: 0x80, places: vec![(0x10, inlined(2, 100_000, 9, place(1, 30)))] };
        let (data, addresses) = write(&files, &[first, Sequence::default(), second]);
        let relocs: Vec<Reloc> = addresses
            .iter()
            .enumerate()
            .map(|(i, &offset)| Reloc { offset, kind: 2, symbol: i as u32 + 5, addend: 0 })
            .collect();
        let tables = read(&data, &relocs).expect("a table");
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].files, ["/src/a.cu", "/inc/b.h", "/inc/c.h", "d.h", "//e.h"]);
        let rows: Vec<_> =
            tables[0].rows.iter().map(|r| (r.symbol, r.address, r.file, r.line, r.inlined_at, r.end)).collect();
        let expected = [
            (5, 0, 1, 10, 0, false),
            (5, 0x10, 1, 12, 0, false),
            (5, 0x20, 2, 300, 2, false),
            (5, 0x30, 3, 7, 3, false),
            (5, 0x40, 2, 300, 2, false),
            (5, 0x100, 4, 1, 0, false),
            (5, 0x200, 4, 1, 0, true),
            (6, 0x10, 1, 30, 0, false),
            (6, 0x10, 2, 100_000, 8, false),
            (6, 0x80, 2, 100_000, 8, true),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn numbers_of_every_size() {
        for n in [0, 1, -1, 63, 64, -64, -65, 127, 128, 8191, -8192, 1 << 20, i64::from(u32::MAX), -(1 << 40)] {
            let (mut s, mut expected) = (Vec::new(), 0i64);
            signed(n, &mut s);
            for (i, b) in s.iter().enumerate() {
                expected |= i64::from(b & 0x7f) << (7 * i);
            }
            let bits = 7 * s.len();
            assert_eq!(expected << (64 - bits) >> (64 - bits), n);
        }
    }
}
