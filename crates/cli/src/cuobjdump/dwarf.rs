//! Debugging information as the vendor's tool prints it: the forms of entries (`.debug_abbrev`), the entries
//! (`.debug_info`), where variables are (`.debug_loc`). What is damaged ends the text with a line that says so.

use super::dwarf_names::{self, attribute, form, operation, tag};
use cubin::lines::Bytes;
use diag::Diagnostic;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// The text so far, and why it ends if it does.
pub(super) type Printed = Result<(), Diagnostic>;

/// What a form of entries says: its tag, whether entries have children, its attributes with the forms of their values.
struct Shape {
    tag: u64,
    children: bool,
    attributes: Vec<(u64, u64)>,
}

/// Reads a form of entries with its number; none at the end of a table.
fn shape(r: &mut Bytes) -> Result<Option<(u64, Shape)>, Diagnostic> {
    let number = r.unsigned()?;
    if number == 0 {
        return Ok(None);
    }
    let mut shape = Shape { tag: r.unsigned()?, children: r.fixed(1)? != 0, attributes: Vec::new() };
    loop {
        match (r.unsigned()?, r.unsigned()?) {
            (0, 0) => return Ok(Some((number, shape))),
            pair => shape.attributes.push(pair),
        }
    }
}

/// `.debug_abbrev`: all tables, one behind the other.
pub(super) fn abbreviations(out: &mut String, data: &[u8]) -> Printed {
    out.push_str("\nContents of the .debug_abbrev section:\n\n  Number  TAG\n");
    let mut r = Bytes::new(data, 0);
    while r.left() > 0 {
        let Some((number, shape)) = shape(&mut r)? else { continue };
        let children = if shape.children { "has children" } else { "has no children" };
        let _ = writeln!(out, "   {number}      {:#04x} {}      [{children}]", shape.tag, tag(shape.tag));
        for (a, f) in shape.attributes {
            let _ = writeln!(out, "   {}({a:#x})          {}({f:#x})", attribute(a), form(f));
        }
        out.push('\n');
    }
    Ok(())
}

/// `.debug_info`: every unit with its tree of entries.
pub(super) fn entries(out: &mut String, data: &[u8], abbreviations: &[u8], strings: &[u8]) -> Printed {
    let mut at = 0;
    while at < data.len() {
        let mut r = Bytes::new(data, at);
        let length = r.fixed(4)?;
        let (version, table, pointer) = (r.fixed(2)?, r.fixed(4)?, r.fixed(1)?);
        let _ = writeln!(out, " Compilation Unit @ offset {at:#x}:\n  Length:           {length}");
        let _ =
            writeln!(out, "  Version:          {version}\n  Abbrev Offset:    {table}\n  Pointer Size:     {pointer}");
        let end = (at as u64 + 4).checked_add(length).and_then(|e| usize::try_from(e).ok());
        let Some(end) = end.filter(|&e| e <= data.len()) else {
            return damaged("a unit is longer than the section", at);
        };
        if !(2..=4).contains(&version) || !matches!(pointer, 4 | 8) {
            return damaged(&format!("a unit of version {version} with addresses of {pointer} bytes"), at);
        }
        let Ok(table @ 0..) = usize::try_from(table) else { return damaged("no such table of forms", at) };
        if table >= abbreviations.len() {
            return damaged("its forms lie behind the end of .debug_abbrev", at);
        }
        let mut shapes = HashMap::new();
        let mut forms = Bytes::new(abbreviations, table);
        while forms.left() > 0 {
            let Some((number, shape)) = shape(&mut forms)? else { break };
            shapes.entry(number).or_insert(shape);
        }
        let mut unit = Unit { r: Bytes::new(&data[..end], r.at), start: at, pointer: pointer as usize, strings };
        unit.tree(out, &shapes)?;
        at = end;
    }
    Ok(())
}

/// What is wrong, and where.
pub(super) fn damaged(what: &str, at: usize) -> Printed {
    Err(Diagnostic::error(format!("{what} at offset {at:#x}")))
}

/// A unit that is being read.
struct Unit<'a> {
    r: Bytes<'a>,
    /// Where it begins in the section.
    start: usize,
    /// Bytes of an address.
    pointer: usize,
    strings: &'a [u8],
}

impl Unit<'_> {
    fn tree(&mut self, out: &mut String, shapes: &HashMap<u64, Shape>) -> Printed {
        let mut level = 0u32;
        while self.r.left() > 0 {
            let at = self.r.at;
            let number = self.r.unsigned()?;
            if number == 0 {
                level = level.saturating_sub(1);
                continue;
            }
            let Some(shape) = shapes.get(&number) else { return damaged(&format!("no form {number} of an entry"), at) };
            // Places of entries count from their unit.
            let place = at - self.start;
            let (t, name) = (shape.tag, tag(shape.tag));
            let _ = writeln!(out, " <{level}><{place:x}>:  Abbrev Number: {number}   ({t:#04x} {name})");
            for &(a, f) in &shape.attributes {
                let _ = write!(out, "      {}   \t", attribute(a));
                self.value(out, a, f)?;
                out.push('\n');
            }
            level += shape.children as u32;
        }
        Ok(())
    }

    fn value(&mut self, out: &mut String, attribute: u64, form: u64) -> Printed {
        let _ = match form {
            0x01 => write!(out, "{:x}", self.r.fixed(self.pointer)?),
            0x10 => write!(out, "{:x}", self.r.fixed(self.pointer)?),
            0x05 => write!(out, "{:#x}", self.r.fixed(2)?),
            0x06 => write!(out, "{:#x}", self.r.fixed(4)?),
            0x07 => write!(out, "{:#x}", self.r.fixed(8)?),
            0x0b => write!(out, "{:#x}", self.r.fixed(1)?),
            0x0c => write!(out, "{}", self.r.fixed(1)?),
            0x0d => write!(out, "{}", self.r.signed()?),
            0x0f | 0x15 => write!(out, "{}", self.r.unsigned()?),
            0x11 => write!(out, "<{:x}>", self.r.fixed(1)?),
            0x12 => write!(out, "<{:x}>", self.r.fixed(2)?),
            0x13 => write!(out, "<{:x}>", self.r.fixed(4)?),
            0x14 => write!(out, "<{:x}>", self.r.fixed(8)?),
            0x08 => write!(out, "{}", self.r.text()?),
            0x0e => write!(out, "{}", cubin::elf::string_at(self.strings, self.r.fixed(4)? as u32)),
            // Of blocks with a length of one byte only those that say where something is are put into words.
            0x0a => {
                let length = self.r.fixed(1)?;
                let meant = matches!(attribute, 0x02 | 0x2e | 0x38 | 0x51);
                return block(out, &mut self.r, length, 3, meant);
            }
            0x03 | 0x04 | 0x09 => {
                let (length, width) = match form {
                    0x03 => (self.r.fixed(2)?, 5),
                    0x04 => (self.r.fixed(4)?, 10),
                    _ => (self.r.unsigned()?, 20),
                };
                return block(out, &mut self.r, length, width, true);
            }
            _ => return damaged(&format!("a value of the unknown form {form:#x}"), self.r.at),
        };
        Ok(())
    }
}

/// Bytes with their number, which is so wide, and what they mean as an expression.
pub(super) fn block(out: &mut String, r: &mut Bytes, length: u64, width: usize, meant: bool) -> Printed {
    if length > r.left() as u64 {
        return damaged(&format!("a block of {length} bytes, more than there are,"), r.at);
    }
    let _ = write!(out, "{length:>width$} byte block: ");
    let start = r.at;
    for _ in 0..length {
        let _ = write!(out, "{:>2x} ", r.fixed(1)?);
    }
    if meant && length > 0 {
        let end = r.at;
        r.at = start;
        out.push('(');
        expression(out, r, end)?;
        out.push(')');
    }
    Ok(())
}

/// The operations up to a place.
fn expression(out: &mut String, r: &mut Bytes, end: usize) -> Printed {
    let mut first = true;
    while r.at < end {
        if !first {
            out.push_str("; ");
        }
        first = false;
        let code = r.fixed(1)? as u8;
        out.push_str(&operation(code));
        let _ = match code {
            0x03 => write!(out, ": {:#x}", r.fixed(8)?),
            0x0c => write!(out, ": {}", r.fixed(4)? as i32),
            0x94 => write!(out, ": {}", r.fixed(1)? as i8),
            0x10 | 0x23 | 0x93 => write!(out, ": {}", r.unsigned()?),
            0x70..=0x8f => write!(out, " {}", r.signed()?),
            0x91 => write!(out, ": {}", r.signed()?),
            0x90 => write!(out, ": {}", register(r.unsigned()?)),
            0x92 => write!(out, ": {} {:#x}", register(r.unsigned()?), r.signed()? as u32),
            _ => Ok(()),
        };
    }
    match r.at == end {
        true => Ok(()),
        false => damaged("an operation that is longer than its block", end),
    }
}

/// A register of the machine, or one of PTX: its number is its name.
fn register(number: u64) -> String {
    if let Some(machine) = dwarf_names::register(number) {
        return machine;
    }
    let bytes = number.to_be_bytes();
    let start = bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[start..]).into_owned()
}

/// `.debug_loc`: lists of where a variable is, from where to where. `relocated` are the places that have relocations: a pair
/// of zeros ends a list unless these have still to be filled in.
pub(super) fn locations(out: &mut String, data: &[u8], relocated: &BTreeSet<u64>) -> Printed {
    out.push_str("\n\tStart Address\tEnd Address\tRegister-name\n");
    let mut r = Bytes::new(data, 0);
    let mut list = None;
    while r.left() > 0 {
        let at = r.at;
        if list.is_none() {
            let gap = if at == 0 { "" } else { "\n" };
            let _ = writeln!(out, "{gap}.debug_loc + {at}:");
            list = Some(at);
        }
        let (start, end) = (r.fixed(8)?, r.fixed(8)?);
        if start == 0 && end == 0 && !relocated.contains(&(at as u64)) {
            list = None;
            continue;
        }
        let _ = write!(out, "\t{start:#x}\t\t{end:#x}\t\t");
        let length = r.fixed(2)? as usize;
        if length > r.left() {
            return damaged("an expression behind the end of the section", r.at);
        }
        let end = r.at + length;
        expression(out, &mut r, end)?;
        out.push('\n');
    }
    Ok(())
}

/// `.nv_debug_info_reg_sass`: of each function which register of the machine holds which of PTX, from where to where.
pub(super) fn registers(out: &mut String, data: &[u8]) -> Printed {
    let mut r = Bytes::new(data, 0);
    while r.left() > 0 {
        for _ in 0..function(out, &mut r)? {
            r.fixed(4)?;
            let name = r.text()?;
            let (register, start, end) = (r.fixed(4)?, r.fixed(4)?, r.fixed(4)?);
            let _ = writeln!(out, "    (reg: {name}) {register:#x}, {start:#x}, {end:#x}");
        }
    }
    Ok(())
}

/// `.nv_debug_info_reg_type`: the types of the same registers.
pub(super) fn types(out: &mut String, data: &[u8]) -> Printed {
    const TYPES: [&str; 19] = [
        "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "f16x2", "f32", "f64",
        "pred", "b128", "s128",
    ];
    let mut r = Bytes::new(data, 0);
    while r.left() > 0 {
        for _ in 0..function(out, &mut r)? {
            let at = r.at;
            let code = r.fixed(1)? as usize;
            let Some((name, vector)) = TYPES.get(code % 64).zip(["", ".v2 ", ".v4 "].get(code / 64)) else {
                return damaged(&format!("the unknown type {code:#x}"), at);
            };
            let _ = writeln!(out, "{vector}.{name}");
        }
    }
    Ok(())
}

/// The head of a function's list; gives how many entries follow.
fn function(out: &mut String, r: &mut Bytes) -> Result<u64, Diagnostic> {
    let name = r.text()?;
    let count = r.fixed(4)?;
    let _ = writeln!(out, "  Function Name: {name}\n  Total entry: {count:x}");
    Ok(count)
}
