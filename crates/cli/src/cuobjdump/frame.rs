//! `.debug_frame` as the vendor's tool prints it: where each function keeps the registers of its caller.

use super::dwarf::{Printed, block, damaged};
use super::dwarf_names;
use cubin::lines::Bytes;
use std::fmt::Write;

/// What begins an entry with lengths of eight bytes; the vendor's compiler writes no others.
const LONG: u64 = 0xffff_ffff;
/// What a common entry has where others name theirs.
const COMMON: u64 = u64::MAX;
/// The return address of an entry of a kernel: none.
const NO_RETURN: u64 = 0xffff_ffff;

/// Every entry of the section. `function` knows the function whose address is to be written at a place.
pub(super) fn text<'a>(out: &mut String, data: &[u8], function: &dyn Fn(u64) -> Option<&'a str>) -> Printed {
    // The tool shows this word of its memory in several places.
    let word = |at: usize| Bytes::new(data, at).fixed(4).unwrap_or(0);
    let _ = writeln!(out, "decodeDebugFrame, frameBuf {:#x}, total_length {}", word(0), data.len());
    let mut at = 0;
    while at < data.len() {
        let mut r = Bytes::new(data, at);
        if r.fixed(4)? != LONG {
            return damaged("an entry without a length of eight bytes", at);
        }
        let length = r.fixed(8)?;
        let Some(end) = usize::try_from(length).ok().and_then(|l| r.at.checked_add(l)).filter(|&e| e <= data.len())
        else {
            return damaged("an entry that is longer than the section", at);
        };
        let mut r = Bytes::new(&data[..end], r.at);
        let kind = r.fixed(8)?;
        if kind == COMMON {
            common(out, &mut r, length, &word)?;
        } else {
            let place = r.at as u64;
            let (location, range) = (r.fixed(8)?, r.fixed(8)?);
            let function = function(place).unwrap_or("N/A");
            let _ = writeln!(
                out,
                " Debug Frame Description Entry\n  length:                 {length}\n  CIE_pointer:            {kind}\n  \
                 initial_location:       {location:#x}\n  address_range:          {range:#x}\n  \
                 function:               {function}\n  instructions: {} bytes",
                r.left()
            );
        }
        while r.left() > 0 {
            instruction(out, &mut r)?;
        }
        at = end;
    }
    Ok(())
}

/// What a common entry says before its instructions.
fn common(out: &mut String, r: &mut Bytes, length: u64, word: &dyn Fn(usize) -> u64) -> Printed {
    let version = r.fixed(1)?;
    let mut from = r.at;
    let augmentation = r.text()?;
    // Each number is shown with how many bytes it has, before all.
    let mut size = |r: &Bytes| r.at - std::mem::replace(&mut from, r.at);
    let augmentation_size = size(r);
    let widths = if version >= 4 { Some((r.fixed(1)?, r.fixed(1)?)) } else { None };
    size(r);
    let code = r.unsigned()?;
    let code_size = size(r);
    let data = r.signed()?;
    let data_size = size(r);
    let back = if version == 1 { r.fixed(1)? } else { r.unsigned()? };
    let _ = write!(
        out,
        "CIE length {length}, cie_id -1\nversion {version}\naugmentation slen {augmentation_size}\naugmentation {augmentation}\n\
         code_align_factor slen {code_size}\ndata_align_factor slen {data_size}\n Debug Frame Common Information Entry\n  \
         length:                 {length}\n  CIE_id :                -1\n  version:                {version}\n  \
         augmentation:           {augmentation}\n"
    );
    if let Some((address, segment)) = widths {
        let _ = writeln!(out, "  address size:           {address}\n  segment selector size:  {segment}");
    }
    let back = if back == NO_RETURN { format!("{back:#x}") } else { register(back) };
    let _ = writeln!(
        out,
        "  code align factor:      {code}\n  data align factor:      {data}\n  return address register {back}\n  \
         initial instructions: {} bytes, ptr = {:#x}, frameBuf = {:#x}",
        r.left(),
        word(r.at),
        word(0)
    );
    Ok(())
}

fn register(number: u64) -> String {
    dwarf_names::register(number).unwrap_or_else(|| format!(" {}", number & 0xff_ffff))
}

fn instruction(out: &mut String, r: &mut Bytes) -> Printed {
    let start = r.at;
    let code = r.fixed(1)?;
    out.push_str("  DW_CFA_");
    let low = code & 0x3f;
    let _ = match (code >> 6, low) {
        (1, delta) => write!(out, "advance_loc delta {delta}"),
        (2, n) => write!(out, "offset offset {:x}, register R{n}", r.unsigned()?),
        (3, n) => write!(out, "restore register R{n}"),
        (_, 0x00) => write!(out, "nop"),
        (_, 0x01) => write!(out, "set_loc address {}", r.fixed(8)?),
        (_, n @ 0x02..=0x04) => {
            let size = 1 << (n - 2);
            write!(out, "advance_loc{size} delta {}", r.fixed(size)?)
        }
        (_, 0x05) => write!(out, "offset_extended register {}, offset {:x}", register(r.unsigned()?), r.unsigned()?),
        (_, 0x06) => write!(out, "restore_extended register {}", register(r.unsigned()?)),
        (_, 0x07) => write!(out, "undefined  {}", register(r.unsigned()?)),
        (_, 0x08) => write!(out, "same_value {}", register(r.unsigned()?)),
        (_, 0x09) => write!(out, "register register {}, {}", register(r.unsigned()?), register(r.unsigned()?)),
        (_, 0x0a) => write!(out, "remember_state"),
        (_, 0x0b) => write!(out, "restore_state"),
        (_, 0x0c) => write!(out, "def_cfa register {}, offset {}", register(r.unsigned()?), r.unsigned()?),
        (_, 0x0d) => write!(out, "def_cfa_register register {}", register(r.unsigned()?)),
        (_, 0x0e) => write!(out, "def_cfa_offset offset {}", r.unsigned()?),
        (_, 0x0f) => {
            out.push_str("def_cfa_expression ");
            let length = r.unsigned()?;
            block(out, r, length, 20, true)?;
            Ok(())
        }
        (_, n @ (0x10 | 0x16)) => {
            let value = if n == 0x16 { "val_" } else { "" };
            let _ = write!(out, "{value}expression {}, ", register(r.unsigned()?));
            let length = r.unsigned()?;
            block(out, r, length, 20, true)?;
            Ok(())
        }
        (_, 0x11) => write!(out, "offset_extended_sf register {}, offset {:x}", register(r.unsigned()?), r.signed()?),
        _ => {
            out.truncate(out.len() - "  DW_CFA_".len());
            return damaged(&format!("the unknown instruction {code:#x}"), start);
        }
    };
    out.push('\n');
    Ok(())
}
