//! Text to instruction: what [`print`](super::print) prints, and the control column.
//!
//! The same table of pieces that prints a form reads it back: the pieces are matched from left to right, with
//! backtracking where something may be left out, and the result counts only if it prints as the text says.

use super::{Labels, NoLabels, print, says_bf16};
use crate::control::Control;
use crate::form::{Alias, FormId, ImmPrint, ModName, Piece, Slot, SlotKind, SlotName, Suffix};
use crate::inst::{Inst, Operand, Value};
use crate::reg::{File, Reg};
use crate::tables::BY_MNEMONIC;
use diag::{Diagnostic, Span};

/// Addresses of labels, for branch targets written as `` `(.L_x_0) ``.
pub trait Addresses {
    /// The byte address of the label.
    fn address(&self, label: &str) -> Option<i64>;
}

impl Addresses for NoLabels {
    fn address(&self, _label: &str) -> Option<i64> {
        None
    }
}

/// Reads one instruction as if it lay at address 0: an optional control column, an optional guard, the instruction, an
/// optional `;`.
///
/// # Errors
/// With the place in `line` up to which it could be read.
pub fn parse(line: &str) -> Result<Inst, Diagnostic> {
    parse_at(line, 0, &NoLabels)
}

/// As [`parse`], for an instruction at byte `pc`, with labels.
///
/// # Errors
/// With the place in `line` up to which it could be read.
pub fn parse_at(line: &str, pc: u64, labels: &dyn Addresses) -> Result<Inst, Diagnostic> {
    parse_on(line, pc, labels, None)
}

/// As [`parse_at`], for chip `sm` alone if one is given: of forms that print alike, the one that this chip has.
///
/// # Errors
/// With the place in `line` up to which it could be read.
pub fn parse_on(line: &str, pc: u64, labels: &dyn Addresses, sm: Option<u16>) -> Result<Inst, Diagnostic> {
    let fail = |from: usize, to: usize, message: String| {
        Err(Diagnostic::error(message).at(Span::new(from.min(line.len()) as u32, to.min(line.len()) as u32)))
    };
    let mut text = line.trim_start();
    let at = |rest: &str| line.len() - rest.len();
    let mut ctrl = None;
    if text.starts_with("[B") {
        let end = text.find(']').map_or(text.len(), |i| i + 1);
        let column = text.get(..end).unwrap_or(text);
        match parse_control(column) {
            Some(c) => ctrl = Some(c),
            None => return fail(at(text), at(text) + end, format!("not a control field: `{column}`")),
        }
        text = text[end..].trim_start();
    }
    let start = at(text);
    let body = text.trim_end().trim_end_matches(';').trim_end();
    let mut rest = body;
    let mut guard = None;
    if let Some(after) = rest.strip_prefix('@') {
        let word = after.split(' ').next().unwrap_or("");
        let (inv, name) = match word.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, word),
        };
        match register(name) {
            Some((reg, "")) if matches!(reg.file(), File::Pred | File::Upred) => {
                guard = Some(Operand { inv, ..Operand::reg(reg) });
            }
            _ => return fail(start, start + 1 + word.len(), format!("not a guard: `@{word}`")),
        }
        rest = after[word.len()..].trim_start();
    }
    let mnemonic: &str = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
    let here = start + (body.len() - rest.len());
    let Ok(index) = BY_MNEMONIC.binary_search_by_key(&mnemonic, |entry| entry.0) else {
        return fail(here, here + mnemonic.len().max(1), format!("unknown instruction `{mnemonic}`"));
    };
    let mut furthest = 0;
    for &n in BY_MNEMONIC[index].1 {
        let id = FormId(n);
        let variant = match sm {
            Some(sm) => match id.get().variant_on(sm) {
                Some(variant) => variant,
                None => continue,
            },
            None => 0,
        };
        let form = id.get().variant(variant);
        let mut inst = Inst::new(id);
        inst.variant = variant;
        inst.fields(form);
        inst.ctrl = ctrl.unwrap_or_default();
        inst.ctrl.reuse = 0;
        if let Some(guard) = guard {
            let file = if form.uniform_guard { File::Upred } else { File::Pred };
            if guard.as_reg().map(Reg::file) != Some(file) {
                continue;
            }
            inst.guard = guard;
        }
        let mut matcher = Matcher { inst, total: rest.len(), furthest: 0, pc, labels, whole: body };
        if matcher.run(form.syntax, rest) {
            let mut inst = matcher.inst;
            agree(&mut inst);
            return Ok(inst);
        }
        furthest = furthest.max(matcher.furthest);
    }
    fail(here + furthest, start + body.len(), format!("cannot read this as an operand of `{mnemonic}`"))
}

/// A field that is shown in two places was read as two modifiers: gives both the value that prints both texts.
fn agree(inst: &mut Inst) {
    let mods = inst.form().mods;
    for (a, first) in mods.iter().enumerate() {
        for (b, second) in mods.iter().enumerate().skip(a + 1).filter(|(_, m)| m.bits == first.bits) {
            let shown = (first.values[inst.mods[a] as usize], second.values[inst.mods[b] as usize]);
            let both = first.values.iter().zip(second.values).position(|(x, y)| (*x, *y) == shown);
            if let Some(value) = both {
                (inst.mods[a], inst.mods[b]) = (value as u8, value as u8);
            }
        }
    }
}

/// `[B--1---:R-:W2:-:S04]`.
pub fn parse_control(text: &str) -> Option<Control> {
    let text = text.strip_prefix("[B")?.strip_suffix(']')?;
    let parts: Vec<&str> = text.split(':').collect();
    let [wait, read, write, yields, stall] = parts[..] else { return None };
    let mut ctrl = Control { wait: 0, ..Control::default() };
    if wait.len() != 6 {
        return None;
    }
    for (n, c) in wait.bytes().enumerate() {
        match c {
            b'-' => {}
            c if c == b'0' + n as u8 => ctrl.wait |= 1 << n,
            _ => return None,
        }
    }
    let scoreboard = |text: &str| match text {
        "-" => Some(None),
        _ => text.parse::<u8>().ok().filter(|n| *n < 7).map(Some),
    };
    ctrl.read_sb = scoreboard(read.strip_prefix('R')?)?;
    ctrl.write_sb = scoreboard(write.strip_prefix('W')?)?;
    ctrl.bit109 = match yields {
        "-" => true,
        "Y" => false,
        _ => return None,
    };
    ctrl.stall = stall.strip_prefix('S')?.parse::<u8>().ok().filter(|n| *n < 16)?;
    Some(ctrl)
}

/// A register at the beginning of `text`, and what comes after it.
fn register(text: &str) -> Option<(Reg, &str)> {
    let letters: usize = text.bytes().take_while(|b| b.is_ascii_uppercase()).count();
    let (name, rest) = text.split_at(letters);
    let fixed = match name {
        "RZ" => Some(Reg::RZ),
        "URZ" => Some(Reg::URZ),
        "PT" => Some(Reg::PT),
        "UPT" => Some(Reg::UPT),
        _ => None,
    };
    if let Some(reg) = fixed {
        return Some((reg, rest));
    }
    let (file, count) = match name {
        "R" => (File::Gpr, 255),
        "UR" => (File::Ugpr, 255),
        "P" => (File::Pred, 7),
        "UP" => (File::Upred, 7),
        "B" => (File::Bar, 16),
        _ => return None,
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let index: u32 = rest.get(..digits)?.parse().ok()?;
    (index < count).then(|| (Reg::phys(file, index as u8), &rest[digits..]))
}

/// `0x1f`, `-0x1f` at the beginning of `text`.
fn hex(text: &str) -> Option<(i64, &str)> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let rest = rest.strip_prefix("0x")?;
    let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    let value = u64::from_str_radix(rest.get(..digits)?, 16).ok()?;
    let value = value as i64;
    Some((if negative { value.wrapping_neg() } else { value }, &rest[digits..]))
}

/// A float at the beginning of `text`.
fn float(text: &str) -> Option<(f64, &str)> {
    for (name, value) in [
        ("+INF", f64::INFINITY),
        ("-INF", f64::NEG_INFINITY),
        ("+QNAN", f64::from_bits(0x7ff8 << 48)),
        ("-QNAN", f64::from_bits(0xfff8 << 48)),
        ("+SNAN", f64::from_bits(0x7ff4 << 48)),
        ("-SNAN", f64::from_bits(0xfff4 << 48)),
    ] {
        if let Some(rest) = text.strip_prefix(name) {
            return Some((value, rest.strip_prefix(' ').unwrap_or(rest)));
        }
    }
    let mut end = 0;
    let bytes = text.as_bytes();
    while let Some(&b) = bytes.get(end) {
        let sign = (b == b'-' || b == b'+') && (end == 0 || bytes[end - 1] == b'e');
        // `4.5e-41.H0`: a point needs a digit.
        let point = b == b'.' && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        if !(b.is_ascii_digit() || point || sign || (b == b'e' && end > 0)) {
            break;
        }
        end += 1;
    }
    let value: f64 = text.get(..end)?.parse().ok()?;
    let rest = &text[end..];
    Some((value, if value == 0.0 && value.is_sign_negative() { rest.strip_prefix(' ').unwrap_or(rest) } else { rest }))
}

/// The bits of a 16-bit float of this value, if it has one.
fn half_bits(value: f64, bf16: bool) -> Option<u16> {
    if bf16 {
        let bits = float_bits(value)?;
        return (bits & 0xffff == 0).then_some((bits >> 16) as u16);
    }
    let sign = (value.to_bits() >> 63 << 15) as u16;
    if value.is_nan() {
        let quiet = value.to_bits() >> 51 & 1 != 0;
        return Some(sign | 0x7c00 | if quiet { 0x200 } else { 0x100 });
    }
    let size = value.abs();
    if size.is_infinite() {
        return Some(sign | 0x7c00);
    }
    // Whole multiples of the smallest number, or of the place of the last bit.
    let exponent = (((size.to_bits() >> 52) as i32) - 1023).max(-14);
    let mantissa = size * 2f64.powi(10 - exponent);
    if mantissa.fract() != 0.0 || exponent > 15 || mantissa >= 2048.0 {
        return None;
    }
    let mantissa = mantissa as u16;
    Some(if mantissa < 1024 { sign | mantissa } else { sign | ((exponent + 15) as u16) << 10 | (mantissa - 1024) })
}

/// The bits of a 32-bit float of this value; NaNs keep what their name tells.
fn float_bits(value: f64) -> Option<u32> {
    if value.is_nan() {
        return Some(
            (value.to_bits() >> 32 & 0x8000_0000) as u32 | 0x7f80_0000 | (value.to_bits() >> 29 & 0x7f_ffff) as u32,
        );
    }
    Some((value as f32).to_bits())
}

struct Matcher<'a> {
    inst: Inst,
    /// Length of the text that is matched, and how much of it was understood at best.
    total: usize,
    furthest: usize,
    pc: u64,
    labels: &'a dyn Addresses,
    /// Guard and instruction as written.
    whole: &'a str,
}

/// One label, for printing again what was read.
struct Named<'a>(i64, &'a str);

impl Labels for Named<'_> {
    fn label(&self, address: i64) -> Option<&str> {
        (!self.1.is_empty() && address == self.0).then_some(self.1)
    }
}

impl<'a> Matcher<'a> {
    /// Matches `pieces` against `text`; the instruction is filled in on success.
    fn run(&mut self, pieces: &[Piece], text: &'a str) -> bool {
        self.furthest = self.furthest.max(self.total - text.len().min(self.total));
        let Some((piece, rest)) = pieces.split_first() else {
            return text.is_empty() && self.prints_the_same();
        };
        match *piece {
            Piece::Text(literal) => match text.strip_prefix(literal) {
                Some(after) => self.run(rest, after),
                // A number that is no number prints a space behind it, which the end of a line drops.
                None => literal.trim_end().len() < literal.len() && text == literal.trim_end() && self.run(rest, ""),
            },
            Piece::End => self.run(rest, text),
            Piece::Mod(n) => self.modifier(n as usize, text, |this, after| this.run(rest, after)),
            Piece::Slot(n) => self.slot(n as usize, "", text, rest),
            Piece::SlotSuffix(n, suffix) => self.slot(n as usize, suffix, text, rest),
            Piece::SlotMod(n, m) => {
                let values = self.inst.form().mods[m as usize].values;
                for (value, name) in values.iter().enumerate().rev() {
                    let Some(name) = name else { continue };
                    self.inst.mods[m as usize] = value as u8;
                    if self.slot(n as usize, name, text, rest) {
                        return true;
                    }
                }
                false
            }
            Piece::If(n) => {
                if self.run(rest, text) {
                    return true;
                }
                let end = rest.iter().position(|p| *p == Piece::End).map_or(rest.len(), |i| i + 1);
                self.inst.operands[n as usize] = self.inst.form().slots[n as usize].default();
                self.run(&rest[end..], text)
            }
            Piece::Alias(alias, slots) => self.alias(alias, slots, text, rest),
            Piece::Address(slots, Suffix::Text(suffix), _) => {
                self.address(slots, suffix, text).is_some_and(|after| self.run(rest, after))
            }
            Piece::Address(slots, Suffix::Mod(m), _) => {
                let values = self.inst.form().mods[m as usize].values;
                // A bare distance shows no suffix.
                let bare = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
                values.iter().enumerate().rev().filter(|(_, name)| !bare || **name == Some("")).any(|(value, name)| {
                    self.inst.mods[m as usize] = value as u8;
                    name.is_some_and(|name| self.address(slots, name, text).is_some_and(|after| self.run(rest, after)))
                })
            }
        }
    }

    fn prints_the_same(&self) -> bool {
        let label = self.whole.split_once("`(").and_then(|(_, l)| l.split_once(')')).map_or("", |l| l.0);
        let address = self.labels.address(label).unwrap_or(i64::MIN);
        print(&self.inst, self.pc, &Named(address, label)) == self.whole
    }

    fn modifier(&mut self, n: usize, text: &'a str, mut then: impl FnMut(&mut Self, &'a str) -> bool) -> bool {
        let values = self.inst.form().mods[n].values;
        // The longest text first: `.U32` before nothing.
        for pass in [false, true] {
            for (value, name) in values.iter().enumerate() {
                let Some(name) = name else { continue };
                if name.is_empty() != pass {
                    continue;
                }
                let Some(after) = text.strip_prefix(*name) else { continue };
                self.inst.mods[n] = value as u8;
                if then(self, after) {
                    return true;
                }
            }
        }
        false
    }

    fn slot(&mut self, n: usize, suffix: &str, text: &'a str, rest: &[Piece]) -> bool {
        match self.operand(n, suffix, text) {
            Some(after) => self.run(rest, after),
            None => false,
        }
    }

    /// One operand with its source modifiers into slot `n`; `suffix` must follow the value.
    fn operand(&mut self, n: usize, suffix: &str, text: &'a str) -> Option<&'a str> {
        let slot: &'static Slot = self.inst.form().slots[n];
        let mut operand = slot.default();
        operand.inv = false;
        let mut rest = text;
        let bindless = matches!(slot.kind, SlotKind::Imm { print: ImmPrint::Bindless, .. });
        let is_reg = bindless || matches!(slot.kind, SlotKind::Reg(_) | SlotKind::Const);
        if let Some(after) = rest.strip_prefix('-').filter(|_| is_reg && slot.neg.is_some()) {
            (operand.neg, rest) = (true, after);
        }
        if let Some(after) = rest.strip_prefix(['~', '!']).filter(|_| slot.inv.is_some()) {
            (operand.inv, rest) = (true, after);
        }
        if let Some(after) = rest.strip_prefix('|').filter(|_| slot.abs.is_some()) {
            (operand.abs, rest) = (true, after);
        }
        if bindless {
            let (descriptor, after) = register(rest.strip_prefix("cx[")?)?;
            let n = self.inst.slot(SlotName::UR).filter(|_| descriptor.file() == File::Ugpr)?;
            self.inst.operands[n] = Operand::reg(descriptor);
            let after = after.strip_prefix(']')?;
            rest = after.strip_prefix(' ').unwrap_or(after).strip_prefix('[')?;
        }
        let (value, mut rest) = self.value(slot, rest)?;
        if bindless {
            rest = rest.strip_prefix(']')?;
        }
        operand.value = value;
        // The bar may close before or after the suffix.
        let mut open = operand.abs;
        let mut bar = |rest: &'a str| match rest.strip_prefix('|') {
            Some(after) if open => {
                open = false;
                after
            }
            _ => rest,
        };
        rest = bar(rest);
        if let (Some(index), Some(after)) = (slot.reuse, rest.strip_prefix(".reuse")) {
            self.inst.ctrl.reuse |= 1 << index;
            rest = after;
        } else if let Some(index) = slot.reuse {
            self.inst.ctrl.reuse &= !(1 << index);
        }
        rest = rest.strip_prefix(suffix)?;
        rest = bar(rest);
        self.inst.operands[n] = operand;
        Some(rest)
    }

    fn value(&self, slot: &Slot, text: &'a str) -> Option<(Value, &'a str)> {
        match slot.kind {
            SlotKind::Reg(file) => {
                let (reg, rest) = register(text)?;
                (reg.file() == file).then_some((Value::Reg(reg), rest))
            }
            SlotKind::Const => {
                let rest = text.strip_prefix("c[")?;
                let (bank, rest) = hex(rest)?;
                let rest = rest.strip_prefix(']')?;
                let rest = rest.strip_prefix(' ').unwrap_or(rest).strip_prefix('[')?;
                let (offset, rest) = hex(rest)?;
                let rest = rest.strip_prefix(']')?;
                Some((Value::Const { bank: bank.try_into().ok()?, offset: offset.try_into().ok()? }, rest))
            }
            SlotKind::Target => {
                let (address, rest) = match text.strip_prefix("`(") {
                    Some(inside) => {
                        let (name, rest) = inside.split_once(')')?;
                        (self.labels.address(name)?, rest)
                    }
                    None => hex(text)?,
                };
                Some((Value::target(address.checked_sub(self.pc as i64 + 16)?), rest))
            }
            SlotKind::Imm { print, .. } => self.immediate(print, text),
        }
    }

    fn immediate(&self, print: ImmPrint, text: &'a str) -> Option<(Value, &'a str)> {
        let (value, rest) = match print {
            ImmPrint::Hex | ImmPrint::Bindless => hex(text)?,
            ImmPrint::Decimal => {
                let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                (text.get(..digits)?.parse().ok()?, &text[digits..])
            }
            ImmPrint::F32 => {
                let (value, rest) = float(text)?;
                (float_bits(value)? as i64, rest)
            }
            ImmPrint::F64High => {
                let (value, rest) = float(text)?;
                ((value.to_bits() >> 32) as i64, rest)
            }
            ImmPrint::F16 | ImmPrint::Bf16 => {
                let (value, rest) = float(text)?;
                (half_bits(value, print == ImmPrint::Bf16 || says_bf16(&self.inst))? as i64, rest)
            }
            ImmPrint::F16x2 => {
                let bf16 = says_bf16(&self.inst);
                let (high, rest) = float(text)?;
                let (low, rest) = float(rest.strip_prefix(", ")?)?;
                ((half_bits(high, bf16)? as i64) << 16 | half_bits(low, bf16)? as i64, rest)
            }
            ImmPrint::SpecialReg | ImmPrint::SpecialRegOf(_) => {
                let own = if let ImmPrint::SpecialRegOf(names) = print { names } else { &[] };
                let end = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'.').count();
                let (name, rest) = text.split_at(end);
                let place = |names: &[Option<&'static str>]| names.iter().position(|v| *v == Some(name));
                let value = place(own)
                    .or_else(|| place(crate::enums::sr::VALUES))
                    .or_else(|| name.strip_prefix("SR")?.parse().ok())?;
                (value as i64, rest)
            }
            ImmPrint::Swizzle => {
                let mut value = 0;
                let letters = text.get(..8)?;
                for pair in letters.as_bytes().chunks(2) {
                    let bits = [b"PP", b"PN", b"NP", b"ZP"].iter().position(|p| p.as_slice() == pair)?;
                    value = value << 2 | bits as i64;
                }
                (value, &text[8..])
            }
            ImmPrint::Set => {
                let (inside, rest) = text.strip_prefix('{')?.split_once('}')?;
                let mut value = 0i64;
                for number in inside.split(',').filter(|n| !n.is_empty()) {
                    value |= 1 << number.parse::<u8>().ok().filter(|n| *n < 64)?;
                }
                (value, rest)
            }
            ImmPrint::Scoreboard | ImmPrint::GroupScoreboard => {
                let rest = text.strip_prefix(if print == ImmPrint::Scoreboard { "SB" } else { "gsb" })?;
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                (rest.get(..digits)?.parse().ok()?, &rest[digits..])
            }
        };
        Some((Value::imm(value), rest))
    }

    fn set(&mut self, slot: u8, operand: Operand) {
        self.inst.operands[slot as usize] = operand;
    }

    fn reset(&mut self, slot: u8) {
        self.inst.operands[slot as usize] = self.inst.form().slots[slot as usize].default();
    }

    fn alias(&mut self, alias: Alias, slots: &[u8], text: &'a str, rest: &[Piece]) -> bool {
        match alias {
            Alias::PuPv => {
                // None, one or two predicates; one alone may be either.
                let one = |text: &'a str| -> Option<(Operand, &'a str)> {
                    let (reg, after) = register(text)?;
                    let fits = matches!(reg.file(), File::Pred | File::Upred);
                    Some((Operand::reg(reg), after.strip_prefix(", ").filter(|_| fits)?))
                };
                if let Some((u, after)) = one(text) {
                    self.set(slots[0], u);
                    if let Some((v, end)) = one(after) {
                        self.set(slots[1], v);
                        if self.run(rest, end) {
                            return true;
                        }
                    }
                    self.reset(slots[1]);
                    if self.run(rest, after) {
                        return true;
                    }
                }
                self.reset(slots[0]);
                self.reset(slots[1]);
                self.run(rest, text)
            }
            Alias::Imad => [".MOV", ".IADD", ".SHL", ""]
                .iter()
                .any(|name| text.strip_prefix(name).is_some_and(|after| self.run(rest, after))),
            Alias::Indexed => self.indexed(slots, text).is_some_and(|after| self.run(rest, after)),
            Alias::Next => match register(text) {
                Some((reg, after)) if super::next(&self.inst, slots[0] as usize) == Some(reg) => self.run(rest, after),
                _ => false,
            },
            Alias::NextPair => {
                let pair = self.inst.operands[slots[0] as usize].as_reg().map(|r| r.offset(2));
                register(text).is_some_and(|(reg, after)| Some(reg) == pair && self.run(rest, after))
            }
            Alias::Twin => match register(text) {
                Some((reg, after)) if self.inst.get(SlotName::Rb).and_then(|o| o.as_reg()) == Some(reg) => {
                    self.run(rest, after)
                }
                _ => false,
            },
            Alias::HalfPart | Alias::IntPart => {
                let (name, parts): (ModName, &[(&str, u8)]) = match alias {
                    Alias::HalfPart => (ModName::Half, &[(".H1", 1), ("", 0)]),
                    _ => (ModName::Part, &[(".B1", 1), (".B2", 2), (".B3", 3), (".H1", 1), ("", 0)]),
                };
                let field = self.inst.form().mods.iter().position(|m| m.name == name);
                for &(suffix, value) in parts {
                    match field {
                        Some(field) => self.inst.mods[field] = value,
                        None if value != 0 => continue,
                        None => {}
                    }
                    if self.slot(slots[0] as usize, suffix, text, rest) {
                        return true;
                    }
                }
                false
            }
        }
    }

    /// `R1+UR4+0x10` and its shorter forms.
    fn address(&mut self, slots: &[u8], suffix: &str, text: &'a str) -> Option<&'a str> {
        slots.iter().for_each(|&n| self.reset(n));
        let last = *slots.last()?;
        let mut rest = text;
        let mut more = true;
        let file = match self.inst.form().slots[slots[0] as usize].kind {
            SlotKind::Reg(file) => file,
            _ => return None,
        };
        if let Some((reg, after)) = register(rest).filter(|r| r.0.file() == file) {
            self.set(slots[0], Operand::reg(reg));
            let after = after.strip_prefix(suffix)?;
            more = after.starts_with('+');
            rest = after.strip_prefix('+').unwrap_or(after);
        }
        if let (3, Some((reg, after))) = (slots.len(), register(rest).filter(|r| r.0.file() == File::Ugpr)) {
            self.set(slots[1], Operand::reg(reg));
            more = after.starts_with('+');
            rest = after.strip_prefix('+').unwrap_or(after);
        }
        if more {
            let (mut value, after) = hex(rest)?;
            if let SlotKind::Imm { bits, signed: true, .. } = self.inst.form().slots[last as usize].kind {
                // An address without a register is printed as its bits.
                let unused = 64 - bits as u32;
                if value >= 0 && value >> bits == 0 {
                    value = (value << unused) >> unused;
                }
            }
            self.set(last, Operand::imm(value));
            rest = after;
        }
        Some(rest)
    }

    /// `c[0x0][R1+0x10]` and its shorter forms.
    fn indexed(&mut self, slots: &[u8], text: &'a str) -> Option<&'a str> {
        slots.iter().for_each(|&n| self.reset(n));
        let (bank, rest) = hex(text.strip_prefix("c[")?)?;
        let mut rest = rest.strip_prefix("][")?;
        let mut offset = 0;
        let mut more = true;
        let SlotKind::Reg(file) = self.inst.form().slots[slots[1] as usize].kind else { return None };
        if let Some((reg, after)) = register(rest).filter(|r| r.0.file() == file) {
            self.set(slots[1], Operand::reg(reg));
            more = after.starts_with('+');
            rest = after.strip_prefix('+').unwrap_or(after);
        }
        if more {
            (offset, rest) = hex(rest)?;
        }
        self.set(slots[0], Operand::cbank(bank.try_into().ok()?, offset.try_into().ok()?));
        rest.strip_prefix(']')
    }
}
