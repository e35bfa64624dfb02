//! Tables of lines as the vendor's tool prints them: the head, the opcodes, folders, files, and the program statement by statement.

use cubin::lines::Bytes;
use std::fmt::Write;

/// All tables of a section; none where one is damaged.
pub(super) fn text(data: &[u8]) -> Option<String> {
    let mut out = String::new();
    let mut at = 0;
    while at < data.len() {
        let length = Bytes::new(data, at).fixed(4).ok()? as usize;
        let end = (at + 4).checked_add(length).filter(|&end| end <= data.len())?;
        table(&mut out, &data[..end], at)?;
        at = end;
    }
    Some(out)
}

/// What statements change.
struct State {
    address: u64,
    line: i64,
}

/// A file before the first line.
const START: State = State { address: 0, line: 1 };

fn table(out: &mut String, data: &[u8], start: usize) -> Option<()> {
    let mut r = Bytes::new(data, start);
    let length = r.fixed(4).ok()?;
    let version = r.fixed(2).ok()?;
    let head = r.fixed(4).ok()?;
    let program = r.at.checked_add(head as usize).filter(|&p| p <= data.len())?;
    let unit = r.fixed(1).ok()?;
    if version == 4 {
        r.fixed(1).ok()?;
    }
    let statement = r.fixed(1).ok()?;
    let base = r.fixed(1).ok()? as u8 as i8 as i64;
    let range = r.fixed(1).ok()?;
    let first_special = r.fixed(1).ok()?;
    if !(2..=4).contains(&version) || range == 0 || first_special == 0 {
        return None;
    }
    let mut say = |label: &str, value: &dyn std::fmt::Display| writeln!(out, "  {label}{value}").ok();
    say("Offset:                         ", &start)?;
    say("Length:                         ", &length)?;
    say("DWARF Version:                   ", &version)?;
    say("Prologue Length:                ", &head)?;
    say("Minimum instruction length:      ", &unit)?;
    say("Initial value of is_stmt:        ", &statement)?;
    say("Line base:                       ", &base)?;
    say("Line range:                      ", &range)?;
    say("Opcode base:                     ", &first_special)?;
    out.push_str("\nOpcodes:\n");
    for opcode in 1..first_special {
        writeln!(out, "  Opcode {opcode} has {} args", r.fixed(1).ok()?).ok()?;
    }
    out.push_str("\nThe Directory Table:\n");
    loop {
        let folder = r.text().ok()?;
        if folder.is_empty() {
            break;
        }
        writeln!(out, " {folder}").ok()?;
    }
    out.push_str("\nThe File Name Table:\n Entry   Dir         Time    Size     Name\n");
    for entry in 1.. {
        let name = r.text().ok()?;
        if name.is_empty() {
            break;
        }
        let (folder, time, size) = (r.unsigned().ok()?, r.unsigned().ok()?, r.unsigned().ok()?);
        writeln!(out, " {entry:>5} {folder:>5} {time:>12} {size:>7}     {name}").ok()?;
    }
    // Where the names of functions that were inlined are.
    if program >= r.at + 4 {
        writeln!(out, "\nOffset in .debug_str: {:>12}", r.fixed(4).ok()?).ok()?;
    }
    out.push_str("\nLine Number Statements:\n");
    r.at = program;
    let mut state = START;
    while r.at < data.len() {
        statements(out, &mut r, &mut state, (unit, base, range, first_special))?;
    }
    out.push('\n');
    Some(())
}

/// One statement.
fn statements(
    out: &mut String,
    r: &mut Bytes,
    state: &mut State,
    (unit, base, range, first_special): (u64, i64, u64, u64),
) -> Option<()> {
    let opcode = r.fixed(1).ok()?;
    if opcode >= first_special {
        let n = opcode - first_special;
        let (bytes, lines) = (n / range * unit, base + (n % range) as i64);
        state.address = state.address.wrapping_add(bytes);
        state.line = state.line.wrapping_add(lines);
        let (address, line) = (state.address, state.line);
        let moved = format!("advance Address by {bytes} to {address:#x} and Line by {lines} to {line}");
        return writeln!(out, "  Special opcode {n}: {moved}").ok();
    }
    let advance = |out: &mut String, state: &mut State, bytes: u64| {
        state.address = state.address.wrapping_add(bytes);
        writeln!(out, "  Advance PC by {bytes} to {:#x}", state.address).ok()
    };
    match opcode {
        0 => {
            let size = r.unsigned().ok()? as usize;
            let next = r.at.checked_add(size).filter(|_| size > 0 && size <= r.left())?;
            match r.fixed(1).ok()? {
                1 => {
                    *state = START;
                    out.push_str("  Extended opcode 1: End of Sequence\n\n");
                }
                2 => {
                    state.address = r.fixed((size - 1).min(8)).ok()?;
                    writeln!(out, "  Extended opcode 2: set Address to {:#x}", state.address).ok()?;
                }
                0x90 => {
                    let (context, function) = (r.unsigned().ok()?, r.unsigned().ok()?);
                    let set = format!("Set context to {context} and function offset to {function:#x}");
                    writeln!(out, "  Extended opcode 144: {set}").ok()?;
                }
                // The vendor's compiler writes no others.
                _ => return None,
            }
            r.at = next;
        }
        1 => out.push_str("  Copy\n"),
        2 => {
            let bytes = r.unsigned().ok()?.wrapping_mul(unit);
            advance(out, state, bytes)?;
        }
        3 => {
            let lines = r.signed().ok()?;
            state.line = state.line.wrapping_add(lines);
            writeln!(out, "  Advance Line by {lines} to {}", state.line).ok()?;
        }
        4 => writeln!(out, "  Set File Name to entry {} in the File Name Table", r.unsigned().ok()?).ok()?,
        10 => out.push_str("  Set prologue end\n"),
        _ => return None,
    }
    Some(())
}
