//! Numbers of labels: in which order the vendor's tool gives them.
//!
//! Labels are numbered over the whole file, in six rounds:
//! 1. relocations of code that name a place inside a function (return addresses), by section and offset;
//! 2. targets of branches that are no function called or returned to, by section and offset;
//! 3. places in functions that relocations of other sections name ([`File::named`]), by section and offset;
//! 4. offsets that attributes list ([`Section::marks`]); each takes a number, used or not;
//! 5. targets in jump tables of relocatable files; each takes a number, used or not;
//! 6. ends of functions, in the order of symbols; each takes a number, used or not.

use super::{File, Function, Relocation};
use crate::codec::Decoded;
use crate::inst::Value;
use std::collections::BTreeMap;

/// Labels of a section by offset.
pub(super) type Places = BTreeMap<u64, String>;

/// Gives numbers to labels: of each section, what stands at which offset.
pub(super) fn number(file: &File, code: &[Vec<Decoded>]) -> Vec<Places> {
    let mut places = vec![Places::new(); file.sections.len()];
    let mut next = 0u32;
    // Whether the place had no name yet.
    let mut name = |next: u32, section: usize, offset: u64| -> bool {
        let Some(places) = places.get_mut(section) else { return false };
        let new = !places.contains_key(&offset);
        if new {
            places.insert(offset, format!(".L_x_{next}"));
        }
        new
    };
    for section in &file.sections {
        let mut relocations: Vec<&Relocation> = section.relocations.iter().filter(|r| r.addend != 0).collect();
        relocations.sort_by_key(|r| r.offset);
        for relocation in relocations {
            let Some(function) = relocation.function.and_then(|f| file.functions.get(f)) else { continue };
            let target = function.offset.wrapping_add_signed(relocation.addend);
            next += name(next, function.section, target) as u32;
        }
    }
    for (n, words) in code.iter().enumerate() {
        let mut based = false;
        for (at, inst) in words.iter().enumerate() {
            let Some(inst) = inst.known() else { continue };
            // An indirect branch there goes to the section's begin, which has a name, but takes a number.
            if file.relocatable && !based && file.sections[n].branches.iter().any(|b| b.0 == at as u64 * 16) {
                (based, next) = (true, next + 1);
            }
            for op in &inst.operands {
                let Value::Target(distance) = op.value else { continue };
                let distance = distance.get();
                let target = at as i64 * 16 + 16 + distance;
                let inside = (0..=words.len() as i64 * 16).contains(&target) && target % 16 == 0;
                let called = reaches_functions(inst.form().mnemonic) && function_at(file, n, target as u64).is_some();
                if inside && !called {
                    next += name(next, n, target as u64) as u32;
                }
            }
        }
    }
    for &(section, offset) in &file.named {
        next += name(next, section, offset) as u32;
    }
    for (n, section) in file.sections.iter().enumerate() {
        for &mark in &section.marks {
            name(next, n, mark);
            next += 1;
        }
    }
    for (n, section) in file.sections.iter().enumerate() {
        for &target in &section.tables {
            name(next, n, target);
            next += 1;
        }
    }
    for function in &file.functions {
        let end = function.offset.saturating_add(function.size);
        if function_at(file, function.section, end).is_none() {
            name(next, function.section, end);
        }
        next += 1;
    }
    places
}

/// Calls and returns show functions by name; branches do not.
pub(super) fn reaches_functions(mnemonic: &str) -> bool {
    mnemonic.starts_with("CALL") || mnemonic.starts_with("RET")
}

/// The function that begins there.
pub(super) fn function_at(file: &File, section: usize, offset: u64) -> Option<&Function> {
    file.functions.iter().find(|f| f.section == section && f.offset == offset)
}
