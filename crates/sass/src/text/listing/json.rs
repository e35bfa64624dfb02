//! The functions of a file as JSON: what the vendor's tool prints with `-json`.

use super::labels::{function_at, reaches_functions};
use super::{Function, Listing};
use crate::codec::Decoded;
use crate::form::SlotName;
use crate::inst::Inst;
use crate::latency::Class;
use crate::text::print_untrimmed;
use std::fmt::Write as _;

/// Chips for which JSON has `[R9]desc[UR6][R6.64]`, `R9desc,[UR6][R6.64]` and `[R9][R6.64]` (seen for 80, 86 and 89, not from 90 on).
const WITHOUT_COMMA: std::ops::RangeInclusive<u16> = 80..=89;

/// A string with what JSON wants escaped.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => _ = write!(out, "\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl Listing<'_> {
    /// The list of functions: `[{"function-name":"k","start":0,"length":512,"other-attributes":[],"sass-instructions":[...]}]`.
    /// `keep` says which functions of the file are wanted.
    pub fn json(&self, keep: &dyn Fn(usize) -> bool) -> String {
        let mut out = String::from("[");
        // Functions that lie behind another one in its section are not told apart.
        let functions = self.file.functions.iter().enumerate().filter(|f| f.1.offset == 0 && keep(f.0));
        let mut functions: Vec<&Function> = functions.map(|f| f.1).collect();
        functions.sort_by_key(|f| f.section);
        let mut descriptors = false;
        for function in functions {
            if out.len() > 1 {
                out.push(',');
            }
            self.function(&mut out, function, &mut descriptors);
        }
        out.push(']');
        out
    }

    fn function(&self, out: &mut String, function: &Function, descriptors: &mut bool) {
        let _ = write!(
            out,
            "{{\"function-name\":{},\"start\":{},\"length\":{},\"other-attributes\":[]{},\"sass-instructions\":[",
            quoted(&function.name),
            function.offset,
            function.size,
            self.noted(function.section, None)
        );
        let Some(code) = self.code.get(function.section) else { return out.push_str("]}") };
        let first = (function.offset / 16) as usize;
        let last = (first + (function.size / 16) as usize).min(code.len());
        for (at, decoded) in code.iter().enumerate().take(last).skip(first) {
            if at > first {
                out.push(',');
            }
            self.instruction(out, function.section, at, decoded, descriptors);
        }
        out.push_str("]}");
    }

    /// `descriptors`: an instruction before has shown its descriptor; from there on the vendor's tool shows those, too, that
    /// stand in the word and not in the assembly text.
    fn instruction(&self, out: &mut String, section: usize, at: usize, decoded: &Decoded, descriptors: &mut bool) {
        let offset = at as u64 * 16;
        let Decoded::Known(inst) = decoded else {
            let word = self.file.sections[section].words[at];
            let _ = write!(out, "{{\"opcode\":\".word\",\"operands\":\"{word:#034x}\"}}");
            return;
        };
        let mut text = String::with_capacity(64);
        let relocation = self.file.sections[section].relocations.iter().find(|r| r.offset == offset);
        let functions = reaches_functions(inst.form().mnemonic);
        let replaced = relocation.map(|r| (r.field, self.plain(r)));
        print_untrimmed(&mut text, inst, offset, &Plain { listing: self, section, functions, replaced });
        let mut rest = text.as_str();
        out.push('{');
        if let Some((guard, body)) = rest.split_once(' ').filter(|g| g.0.starts_with('@')) {
            let _ = write!(out, "\"predicate\":{},", quoted(guard));
            rest = body;
        }
        let (opcode, operands) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut operands = operands.replace(", ", ",").replace("] [", "][");
        *descriptors |= operands.contains("desc[");
        if let (true, Some(reg)) = (*descriptors, inst.get(SlotName::Desc).and_then(|o| o.as_reg()))
            && let Some(at) = operands.rfind('[')
        {
            operands.insert_str(at, &format!("desc[{reg}]"));
        }
        // The vendor's text for these chips misplaces a comma there; its assembly text does not.
        if WITHOUT_COMMA.contains(&self.file.sm) {
            operands = operands.replace("],desc[", "]desc[").replace(",desc[", "desc,[");
            if inst.form().mnemonic == "LDGSTS" {
                operands = operands.replace("],[", "][");
            }
        }
        // The half of an immediate is an operand of its own there (seen: `F2FP.BF16.E5M2.UNPACK_B R7, R5, 1.5.H0`).
        if operands.contains(".H") {
            operands = operands.split(',').map(apart).collect::<Vec<_>>().join(",");
        }
        if operands.contains(",PR,") {
            // All predicates at once are shown as if they guarded it.
            operands = operands.replace(",PR,", ",");
            out.push_str("\"predicate\":\"PR\",");
        }
        let _ = write!(out, "\"opcode\":{}", quoted(opcode));
        if !operands.is_empty() {
            // Branches have no comma between a register and what is added to it.
            if inst.form().effects.flow && relocation.is_none() {
                operands = operands.replace(' ', ",").replace(['`', '(', ')'], "");
            }
            if inst.form().mnemonic == "BREAK"
                && let Some((predicate, barrier)) = operands.split_once(',')
            {
                operands = format!("{barrier},{predicate}");
            }
            let _ = write!(out, ",\"operands\":{}", quoted(&operands));
        }
        out.push_str(attributes(inst, self.jumps(section, at, inst)));
        out.push_str(&self.noted(section, Some(offset)));
        out.push('}');
    }

    /// What is noted of an instruction, or of the whole section.
    fn noted(&self, section: usize, place: Option<u64>) -> String {
        let all = self.file.sections.get(section).map_or(&[][..], |s| &s.annotations);
        let list: Vec<&str> = all.iter().filter(|a| a.0 == place).map(|a| a.1.as_str()).collect();
        if list.is_empty() { String::new() } else { format!(",\"annotations\":[{}]", list.join(",")) }
    }

    /// What stands for the operand that a relocation fills: symbols by name, places by number.
    fn plain(&self, r: &super::Relocation) -> String {
        let place = match (r.value.filter(|_| r.function.is_none()), r.addend) {
            (Some(value), n) => {
                let sum = value as i64 + n;
                format!("{}{:#x}", if sum < 0 { "-" } else { "" }, sum.unsigned_abs())
            }
            (None, 0) => r.symbol.clone(),
            (None, n) if n < 0 => format!("({} + -{:#x})", r.symbol, n.unsigned_abs()),
            (None, n) => format!("({} + {n:#x})", r.symbol),
        };
        let plain = [
            super::Field::Value,
            super::Field::Call,
            super::Field::Constant,
            super::Field::Distance,
            super::Field::DistanceInShared,
        ];
        if plain.contains(&r.field) {
            return place;
        }
        r.field.text(&place)
    }
}

/// Functions by name, one replaced operand, no labels.
struct Plain<'a> {
    listing: &'a Listing<'a>,
    section: usize,
    functions: bool,
    replaced: Option<(super::Field, String)>,
}

impl crate::text::Labels for Plain<'_> {
    fn label(&self, address: i64) -> Option<&str> {
        let address = u64::try_from(address).ok().filter(|_| self.functions)?;
        function_at(self.listing.file, self.section, address).map(|f| f.name.as_str())
    }

    fn replaced(&self, slot: &crate::form::Slot, op: &crate::inst::Operand) -> Option<&str> {
        self.replaced.as_ref().filter(|r| r.0.fits(slot, op)).map(|r| r.1.as_str())
    }
}

/// What the vendor's tool notes of instructions, by mnemonic (read off what it prints for what its compiler emits): whether
/// they take part in the flow of control, whether they are a barrier between warps. Branches of any name do the former.
const NOTED: &[(&str, bool, bool)] = &[
    ("ACQBULK", true, true),
    ("BAR", false, true),
    ("BMOV", true, false),
    ("BPT", true, false),
    ("BREAK", false, false),
    ("BSSY", true, false),
    ("BSYNC", true, false),
    ("ELECT", true, false),
    ("ENDCOLLECTIVE", true, false),
    ("NANOSLEEP", true, false),
    ("PREEXIT", true, false),
    ("RPCMOV", true, false),
    ("SYNCS", false, true),
    ("UCGABAR_WAIT", false, true),
    ("UTCBAR", true, false),
    ("WARPSYNC", true, false),
    ("YIELD", true, false),
];

/// `1.5.H0` as `1.5,H0`; any other operand as it is.
fn apart(operand: &str) -> String {
    let number = operand.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit());
    match operand.rsplit_once('.') {
        Some((value, half @ ("H0" | "H1"))) if number => format!("{value},{half}"),
        _ => operand.to_string(),
    }
}

/// `jumps`: a call that goes to a place within its function counts as a branch.
fn attributes(inst: &Inst, jumps: bool) -> &'static str {
    let mnemonic = inst.form().mnemonic;
    let noted = NOTED.iter().find(|n| n.0 == mnemonic).map(|n| (n.1, n.2));
    match noted.unwrap_or((inst.form().effects.flow || inst.form().class == Class::Branch, false)) {
        (true, _) if mnemonic.starts_with("CALL") && !jumps => {
            ",\"other-attributes\":{\"control-flow\":\"True\",\"subroutine-call\":\"True\"}"
        }
        (true, true) => ",\"other-attributes\":{\"control-flow\":\"True\",\"inter-warp-barrier\":\"True\"}",
        (true, false) => ",\"other-attributes\":{\"control-flow\":\"True\"}",
        (false, true) => ",\"other-attributes\":{\"inter-warp-barrier\":\"True\"}",
        (false, false) => "",
    }
}
