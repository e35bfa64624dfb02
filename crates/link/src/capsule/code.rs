//! The second form of the code. Its bytes are what has to be added to the plain machine code to get it back: a header (number of
//! the plain section, 0xc0000001, how many records), a bit for each record (in words of 32), and the bytes of those whose bit
//! is clear. A record stands for one or several plain instructions:
//!
//! | first byte | bytes | plain instructions |
//! |---|---|---|
//! | (bit set) | none: it follows from the plain instruction | 1 |
//! | `00nnnnnn` | 16 n: it is there as it is | 1 |
//! | `x1-0----` | 4: short forms | 1 |
//! | `x1-1nnnn` | 2, then n whole ones | the second byte and x behind it |
//!
//! Relocations speak of places in the second form, in which every record has 16 bytes or a multiple. How many those without bytes have is
//! not known; but the relocations of the second form are those of the plain one (and more), of each symbol in the same order, and the plain
//! ones say which instruction is meant. (Observed: this holds of 622 functions that ptxas 13.5 made, to the last byte; and the words
//! that nvlink 13.5 writes are those that are written here.)

use crate::object::{Object, Role, role};
use crate::reloc::Patch;
use crate::world::{NONE, World};
use cubin::elf::Reloc;
use rustc_hash::FxHashMap;

/// Where the record of a plain instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// Nowhere: it follows from the plain instruction.
    Implied,
    /// Its bytes, as they are in the second form: first and behind the last.
    Whole(usize, usize),
    /// Shortened, or one of several.
    Other,
}

/// Size of a plain instruction, and of the unit of the second form.
const WORD: usize = 16;

/// The record of each plain instruction; none where the bytes do not mean that many.
fn records(bytes: &[u8], instructions: usize) -> Option<Vec<Record>> {
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    const FORM: u32 = 0xc000_0001;
    if word(4)? != FORM {
        return None;
    }
    let count = word(8)? as usize;
    let bits = bytes.get(12..12 + count.div_ceil(32) * 4)?;
    let mut at = 12 + bits.len();
    let mut out = Vec::with_capacity(instructions);
    for i in 0..count {
        if bits[i / 8] >> (i % 8) & 1 != 0 {
            out.push(Record::Implied);
            continue;
        }
        let first = *bytes.get(at)?;
        let (length, record, covers) = match first {
            0 => return None,
            1..=0x3f => {
                let end = at + first as usize * WORD;
                (end - at, Record::Whole(at, end), 1)
            }
            _ if first & 0x50 == 0x50 => {
                let mut length = 2;
                for _ in 0..first & 15 {
                    let whole = *bytes.get(at + length).filter(|&&b| b != 0 && b < 0x40)?;
                    length += whole as usize * WORD;
                }
                (length, Record::Other, (*bytes.get(at + 1)? as usize) << 1 | (first >> 7) as usize)
            }
            _ => (4, Record::Other, 1),
        };
        at += length;
        if out.len() + covers > instructions || at > bytes.len() {
            return None;
        }
        out.extend(std::iter::repeat_n(record, covers));
    }
    (at == bytes.len() && out.len() == instructions).then_some(out)
}

/// The relocations of each section of an object, by offset.
fn relocs_of(o: &Object) -> FxHashMap<u32, Vec<Reloc>> {
    let mut out: FxHashMap<u32, Vec<Reloc>> = FxHashMap::default();
    for s in o.view.sections.iter().filter(|s| role(s.kind, s.name) == Role::Reloc) {
        out.entry(s.info).or_default().extend(s.relocs());
    }
    out.values_mut().for_each(|list| list.sort_by_key(|r| r.offset));
    out
}

/// The relocations of one section of an object.
type Code<'o, 'a> = (&'o Object<'a>, &'o [Reloc]);

/// The plain instruction of each relocation of a function: pairs of the offset in the second form and the number of the
/// instruction, for those at `offsets` (sorted). Relocations that have no counterpart are left out; none where those of a symbol are
/// not as many in both forms.
fn instructions(plain: Code, second: Code, offsets: &[u64]) -> Option<FxHashMap<u64, usize>> {
    type Places<'s> = FxHashMap<(&'s str, i64), Vec<u64>>;
    fn by_symbol<'s>((o, relocs): Code<'_, 's>) -> Places<'s> {
        let mut out = Places::default();
        for r in relocs {
            let name = o.symbols.get(r.symbol as usize).map_or("", |s| s.name);
            out.entry((name, r.addend)).or_default().push(r.offset);
        }
        out
    }
    let (plain, second) = (by_symbol(plain), by_symbol(second));
    let mut out = FxHashMap::default();
    for (key, places) in second {
        if !places.iter().any(|p| offsets.binary_search(p).is_ok()) {
            continue;
        }
        let counterparts = plain.get(&key).filter(|c| c.len() == places.len())?;
        out.extend(places.into_iter().zip(counterparts.iter().map(|&c| c as usize / WORD)));
    }
    Some(out)
}

/// Patches of the second form, at the bytes that hold them: those of implied instructions are left out, for the plain instruction has
/// them already. None where a place is not known.
pub(super) fn places(plain: &World, second: &World, patches: Vec<Patch>) -> Option<Vec<Patch>> {
    let mut out = Vec::with_capacity(patches.len());
    let mut of_code: FxHashMap<u32, Vec<Patch>> = FxHashMap::default();
    for p in patches {
        match second.sections[p.section as usize].function {
            f if f != NONE && second.functions[f as usize].text == p.section => of_code.entry(f).or_default().push(p),
            _ => out.push(p),
        }
    }
    // By object: the relocations of both forms.
    let mut relocs: FxHashMap<u32, [FxHashMap<u32, Vec<Reloc>>; 2]> = FxHashMap::default();
    for (f, list) in of_code {
        let (function, twin) = (&second.functions[f as usize], &plain.functions[f as usize]);
        let (o, p) = (&second.objects[function.object as usize], &plain.objects[twin.object as usize]);
        let (code, text) = (o.view.sections[function.input as usize], p.view.sections[twin.input as usize]);
        let records = records(code.data, text.data.len() / WORD)?;
        let mut offsets: Vec<u64> = list.iter().map(|p| p.offset).collect();
        offsets.sort_unstable();
        let [first, then] = relocs.entry(function.object).or_insert_with(|| [relocs_of(p), relocs_of(o)]);
        let first = first.get(&twin.input).map_or(&[][..], Vec::as_slice);
        let then = then.get(&function.input).map_or(&[][..], Vec::as_slice);
        let instructions = instructions((p, first), (o, then), &offsets)?;
        for patch in list {
            // The field is the last word of a whole record. (Observed: of all that are resolved.)
            const LAST: u64 = WORD as u64 - 4;
            match *records.get(*instructions.get(&patch.offset)?)? {
                Record::Implied => {}
                Record::Whole(_, end) if patch.offset % WORD as u64 == LAST => {
                    out.push(Patch { offset: end as u64 - 4, ..patch });
                }
                _ => return None,
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The capsule that ptxas 13.5 made of a function: three records with bytes, six without, a branch to itself and 14 paddings.
    #[test]
    fn records_of_a_function() {
        let mut bytes = vec![0x11, 0, 0, 0, 1, 0, 0, 0xc0, 10, 0, 0, 0, 0xfc, 0, 0, 0];
        bytes.extend([1, 0x0b, 6, 0x0a, 0xfa, 0, 4, 0, 0, 0, 0x81, 1, 0x2c, 2, 0, 0]);
        bytes.extend([2, 0x22, 8, 6, 0xfa, 0, 0x42, 0, 0, 0, 0xc1, 1, 0x42, 0, 2, 0]);
        bytes.extend([0; 16]);
        bytes.extend([0x42, 0x33, 0, 0x0e, 0xd0, 7]);
        let list = records(&bytes, 24).unwrap();
        assert_eq!(list[..3], [Record::Whole(16, 32), Record::Whole(32, 64), Record::Implied]);
        assert_eq!(list[2..8], [Record::Implied; 6]);
        assert_eq!(list[8..], [Record::Other; 16]);
        assert_eq!(records(&bytes, 23), None);
        assert_eq!(records(&bytes[..bytes.len() - 1], 24), None);
        for end in 0..bytes.len() {
            assert_eq!(records(&bytes[..end], 24), None);
        }
    }
}
