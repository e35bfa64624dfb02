//! Instruction <-> 128-bit word, by the tables.

use crate::control::Control;
use crate::form::{Bits, Candidate, Form, FormId, ModField, Piece, RegRead, Slot, SlotKind};
use crate::inst::{Inst, Operand, Value};
use crate::reg::{File, Reg};
use crate::tables::{DECODE_CHIP, DECODE_INDEX, DECODE_LIST, FORMS, WIDE_UNIFORM_FROM};

/// Why an instruction has no word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// What is wrong, naming form and field.
    pub message: String,
}

impl std::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EncodeError {}

/// What a word says. (Boxing the instruction would allocate once a word.)
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// An instruction of a known form.
    Known(Inst),
    /// A word that no form matches: kept as it is.
    Unknown(u128),
}

impl Decoded {
    /// The instruction, if the word is known.
    pub fn known(&self) -> Option<&Inst> {
        match self {
            Decoded::Known(inst) => Some(inst),
            Decoded::Unknown(_) => None,
        }
    }

    /// The word again.
    ///
    /// # Errors
    /// As [`encode`]; never for what [`decode`] gave.
    pub fn encode(&self, sm: u16) -> Result<u128, EncodeError> {
        match self {
            Decoded::Known(inst) => encode(inst, sm),
            Decoded::Unknown(word) => Ok(*word),
        }
    }
}

#[inline]
fn ones(count: u8) -> u64 {
    if count >= 64 { u64::MAX } else { (1u64 << count) - 1 }
}

#[inline]
fn extract(word: u128, bits: Bits) -> u64 {
    let (from, count) = bits[0];
    let mut value = (word >> (from & 127)) as u64 & ones(count);
    if bits.len() > 1 {
        let mut at = count;
        for &(from, count) in &bits[1..] {
            value |= ((word >> (from & 127)) as u64 & ones(count)) << at;
            at += count;
        }
    }
    value
}

#[inline]
fn insert(bits: Bits, value: u64) -> u128 {
    let (mut word, mut at) = (0, 0);
    for &(from, count) in bits {
        word |= ((value >> at & ones(count)) as u128) << (from & 127);
        at += count;
    }
    word
}

/// The field of a uniform register has two bits more on this chip.
fn wide(sm: u16) -> bool {
    sm >= WIDE_UNIFORM_FROM
}

#[inline]
fn total(bits: Bits) -> u8 {
    bits.iter().map(|b| b.1).sum()
}

#[inline]
fn sign_extend(value: u64, bits: u8) -> i64 {
    let unused = 64 - bits as u32;
    ((value << unused) as i64) >> unused
}

/// True if a field of a uniform register has two bits more on this chip. The highest value is RZ, URZ, PT or UPT.
#[inline]
fn grows(slot: &Slot, file: File, wide: bool) -> bool {
    wide && file == File::Ugpr && slot.bits.len() == 1 && slot.bits[0].1 == 6
}

fn decode_register(word: u128, slot: &Slot, file: File, wide: bool) -> Reg {
    let (value, count) = if grows(slot, file, wide) {
        ((word >> (slot.bits[0].0 & 127)) as u64 & 0xff, 8)
    } else {
        (extract(word, slot.bits), total(slot.bits))
    };
    match file {
        File::Ugpr if value == ones(count) => Reg::URZ,
        _ => Reg::phys(file, value as u8 ^ slot.xor),
    }
}

#[inline]
fn bit(word: u128, at: Option<u8>) -> bool {
    at.is_some_and(|b| word >> b & 1 != 0)
}

#[inline(never)]
fn decode_operand(word: u128, slot: &Slot, wide: bool) -> Operand {
    if slot.bits.is_empty() {
        return slot.default();
    }
    let value = match slot.kind {
        SlotKind::Reg(file) => Value::Reg(decode_register(word, slot, file, wide)),
        SlotKind::Imm { bits, signed, shift, .. } => {
            let raw = extract(word, slot.bits) << shift;
            Value::imm(if signed { sign_extend(raw, bits) } else { raw as i64 })
        }
        SlotKind::Const => {
            let (_, offset_bits) = slot.bits[0];
            let raw = extract(word, slot.bits);
            let offset = (raw & ones(offset_bits)) << slot.shift;
            let offset = sign_extend(offset, offset_bits + slot.shift) as i32;
            Value::Const { bank: (raw >> offset_bits) as u8, offset }
        }
        SlotKind::Target => {
            let raw = extract(word, slot.bits) << slot.shift;
            Value::target(sign_extend(raw, total(slot.bits) + slot.shift))
        }
    };
    Operand { value, neg: bit(word, slot.neg), abs: bit(word, slot.abs), inv: bit(word, slot.inv) }
}

/// The control field of any word.
pub fn decode_control(word: u128) -> Control {
    let field = (word >> 105) as u32;
    let scoreboard = |n: u32| if n & 7 == 7 { None } else { Some((n & 7) as u8) };
    Control {
        stall: (field & 15) as u8,
        bit109: field >> 4 & 1 != 0,
        write_sb: scoreboard(field >> 5),
        read_sb: scoreboard(field >> 8),
        wait: (field >> 11 & 63) as u8,
        reuse: (field >> 17 & 15) as u8,
    }
}

/// The bits of a control field, in their place.
///
/// # Errors
/// If a field is too big.
pub fn encode_control(ctrl: &Control) -> Result<u128, EncodeError> {
    let fail = |what: &str| Err(EncodeError { message: format!("control field: {what} is out of range") });
    if ctrl.stall > 15 {
        return fail("stall");
    }
    if ctrl.write_sb.is_some_and(|n| n > 6) || ctrl.read_sb.is_some_and(|n| n > 6) {
        return fail("scoreboard");
    }
    if ctrl.wait > 63 {
        return fail("wait mask");
    }
    if ctrl.reuse > 15 {
        return fail("reuse");
    }
    let field = ctrl.stall as u128
        | (ctrl.bit109 as u128) << 4
        | (ctrl.write_sb.unwrap_or(7) as u128) << 5
        | (ctrl.read_sb.unwrap_or(7) as u128) << 8
        | (ctrl.wait as u128) << 11
        | (ctrl.reuse as u128) << 17;
    Ok(field << 105)
}

/// True if a modifier has this value.
fn legal(field: &ModField, value: u8) -> bool {
    matches!(field.values.get(value as usize), Some(Some(_)))
}

/// A word in halves; the third is 0: it holds the bit 128, one that is not there, and a shift by an 8-bit number needs
/// no check of bounds.
type Halves = [u64; 4];

#[inline]
fn halves(word: u128) -> Halves {
    [word as u64, (word >> 64) as u64, 0, 0]
}

/// The half of the word in which bit `at` lies, shifted so that this bit is the lowest.
#[inline(always)]
fn from_bit(halves: &Halves, at: u8) -> u64 {
    halves[(at >> 6) as usize] >> (at & 63)
}

/// The forms that a word may be on chip `sm`, by its opcode, those that need most bits first.
#[inline]
fn candidates(halves: &Halves, sm: u16) -> &'static [Candidate] {
    let chip = DECODE_CHIP[sm.min(255) as usize];
    let key = (halves[0] & 0xfff) as usize | ((halves[1] >> (91 - 64) & 1) as usize) << 12;
    let (start, count) = DECODE_INDEX[chip as usize][key];
    &DECODE_LIST[start as usize..start as usize + count as usize]
}

/// True if the modifiers that lack some values have values that there are.
#[inline(always)]
fn checked(word: u128, halves: &Halves, c: &Candidate) -> bool {
    for &(n, set) in c.checks {
        let value = if set == u64::MAX {
            let field = &FORMS[c.form as usize].variant(c.variant).mods[n as usize];
            if !legal(field, extract(word, field.bits) as u8) {
                return false;
            }
            continue;
        } else {
            let (from, mask) = c.mods[n as usize];
            from_bit(halves, from) & mask as u64
        };
        if set >> (value & 63) & 1 == 0 {
            return false;
        }
    }
    true
}

/// The candidate that a word is: forms of the same bits differ in the values that their modifiers have.
#[inline(always)]
fn find(word: u128, halves: &Halves, sm: u16) -> Option<&'static Candidate> {
    candidates(halves, sm).iter().find(|c| {
        (halves[0] & c.need[0] ^ c.fixed[0]) | (halves[1] & c.need[1] ^ c.fixed[1]) == 0 && checked(word, halves, c)
    })
}

/// The form of a word on chip `sm`, and which variant of it, found by its opcode bits.
pub fn find_form(word: u128, sm: u16) -> Option<(FormId, u8)> {
    find(word, &halves(word), sm).map(|c| (FormId(c.form), c.variant))
}

#[inline(always)]
fn read_register(halves: &Halves, read: &RegRead) -> Value {
    let raw = from_bit(halves, read.from) as u8 & read.mask;
    // No branch: which register it is cannot be guessed.
    let all = u8::from(raw == read.top).wrapping_neg();
    Value::Reg(Reg::of_bits(read.file, (raw ^ read.xor) | all))
}

#[inline(always)]
fn marked(halves: &Halves, value: Value, marks: &[u8; 3]) -> Operand {
    let [neg, abs, inv] = marks.map(|at| from_bit(halves, at) & 1 != 0);
    Operand { value, neg, abs, inv }
}

/// Reads all operands into their places. (A list a kind: the processor guesses loops better than a choice in each round.)
#[inline(always)]
fn read_operands(word: u128, halves: &Halves, c: &Candidate, operands: &mut [Operand], sm: u16) {
    let plain = |value| Operand { value, neg: false, abs: false, inv: false };
    for read in c.plain {
        operands[read.to as usize] = plain(read_register(halves, read));
    }
    for (read, marks) in c.marked {
        operands[read.to as usize] = marked(halves, read_register(halves, read), marks);
    }
    for read in c.numbers {
        let unused = 64 - read.count as u32;
        let raw = from_bit(halves, read.from) << unused;
        let value = if read.signed { raw as i64 >> unused } else { (raw >> unused) as i64 };
        operands[read.to as usize] = plain(Value::imm(value << read.shift));
    }
    for read in c.constants {
        let raw = from_bit(halves, read.from);
        let offset = sign_extend(raw << read.shift, read.count + read.shift) as i32;
        let bank = (raw >> read.count) & ones(read.bank);
        operands[read.to as usize] = marked(halves, Value::Const { bank: bank as u8, offset }, &read.marks);
    }
    for &n in c.others {
        let slots = FORMS[c.form as usize].variant(c.variant).slots;
        operands[n as usize] = decode_operand(word, slots[n as usize], wide(sm));
    }
}

/// What `word` says on chip `sm` (`90` for sm_90).
pub fn decode(word: u128, sm: u16) -> Decoded {
    let mut decoded = Decoded::Known(Inst::blank());
    decode_into(word, sm, &mut decoded);
    decoded
}

/// [`decode`] into a place that is there already, which is faster: an instruction is big. Whatever was there is
/// overwritten.
#[inline(never)]
pub fn decode_into(word: u128, sm: u16, decoded: &mut Decoded) {
    let halves = halves(word);
    let Some(c) = find(word, &halves, sm) else {
        *decoded = Decoded::Unknown(word);
        return;
    };
    if let Decoded::Unknown(_) = decoded {
        *decoded = Decoded::Known(Inst::blank());
    }
    if let Decoded::Known(inst) = decoded {
        fill(inst, word, &halves, c, sm);
    }
}

/// [`decode`] of many words.
pub fn decode_all(words: &[u128], sm: u16) -> Vec<Decoded> {
    let mut all = Vec::new();
    all.resize_with(words.len(), || Decoded::Known(Inst::blank()));
    for (&word, decoded) in words.iter().zip(&mut all) {
        decode_into(word, sm, decoded);
    }
    all
}

/// Puts into `inst` what a word of the form `c` says.
#[inline(always)]
fn fill(inst: &mut Inst, word: u128, halves: &Halves, c: &Candidate, sm: u16) {
    inst.form = FormId(c.form);
    inst.variant = c.variant;
    inst.guard = Operand {
        value: Value::Reg(Reg::numbered(c.guard, (halves[0] >> 12 & 7) as u8)),
        neg: false,
        abs: false,
        inv: halves[0] >> 15 & 1 != 0,
    };
    inst.ctrl = decode_control(word);
    inst.operands.resize(c.operands as usize);
    inst.mods.resize(c.mods.len());
    read_operands(word, halves, c, &mut inst.operands, sm);
    for (value, &(from, mask)) in inst.mods.iter_mut().zip(c.mods) {
        *value = from_bit(halves, from) as u8 & mask;
    }
    for &n in c.split {
        let field = &FORMS[c.form as usize].variant(c.variant).mods[n as usize];
        inst.mods[n as usize] = extract(word, field.bits) as u8;
    }
    let extra = [0, 1].map(|n| (halves[n] ^ c.rest[n]) & c.free[n]);
    if extra != [0, 0] {
        inst.extra = Some(Box::new(extra[0] as u128 | (extra[1] as u128) << 64));
    } else if inst.extra.is_some() {
        inst.extra = None;
    }
}

#[cold]
fn bad(form: &Form, what: &str, why: impl std::fmt::Display) -> EncodeError {
    EncodeError { message: format!("{}: {what} {why}", form.name) }
}

fn encode_register(form: &Form, what: &str, bits: u8, file: File, reg: Reg) -> Result<u64, EncodeError> {
    if reg.is_virtual() {
        return Err(bad(form, what, format_args!("is the virtual register {reg}")));
    }
    if reg.file() != file {
        return Err(bad(form, what, format_args!("{reg} is of the wrong register file")));
    }
    let limit = ones(bits);
    match reg.index() as u64 {
        255 if file == File::Ugpr => Ok(limit),
        n if n > limit || (file == File::Ugpr && n == limit) => {
            Err(bad(form, what, format_args!("{reg} is out of range")))
        }
        n => Ok(n),
    }
}

/// The bits of what most operands are: a register in one field that does not grow, as it stands or complemented. None for all others, and for what is an error.
#[inline(always)]
fn plain_operand(slot: &Slot, operand: &Operand, wide: bool) -> Option<u128> {
    let (SlotKind::Reg(file), Value::Reg(reg), &[(from, count)]) = (slot.kind, operand.value, slot.bits) else {
        return None;
    };
    let uniform = file == File::Ugpr;
    let (n, limit) = (reg.index_in(file)?, ones(count) as u32);
    let n = if uniform && n == 255 { limit } else { n };
    if operand.neg | operand.abs | (uniform & wide) || n > limit || uniform && n == limit && !reg.is_const() {
        return None;
    }
    let inv = if operand.inv { 1u128 << (slot.inv? & 127) } else { 0 };
    Some((((n ^ slot.xor as u32) & limit) as u128) << (from & 127) | inv)
}

#[inline(never)]
fn encode_operand(form: &Form, slot: &Slot, operand: &Operand, wide: bool) -> Result<u128, EncodeError> {
    let what = slot.name.name();
    let mut word = 0u128;
    for (set, at, sign) in [(operand.neg, slot.neg, '-'), (operand.abs, slot.abs, '|'), (operand.inv, slot.inv, '~')] {
        match (set, at) {
            (true, Some(b)) => word |= 1 << b,
            (true, None) => return Err(bad(form, what, format_args!("cannot have the source modifier {sign}"))),
            _ => {}
        }
    }
    if slot.bits.is_empty() {
        return if *operand == slot.default() { Ok(0) } else { Err(bad(form, what, "cannot be chosen")) };
    }
    let raw = match (slot.kind, operand.value) {
        (SlotKind::Reg(file), Value::Reg(reg)) if grows(slot, file, wide) => {
            return Ok(word | (encode_register(form, what, 8, file, reg)? as u128) << (slot.bits[0].0 & 127));
        }
        (SlotKind::Reg(file), Value::Reg(reg)) => {
            encode_register(form, what, total(slot.bits), file, reg)? ^ slot.xor as u64
        }
        (SlotKind::Imm { bits, signed, shift, .. }, Value::Imm(value)) => {
            let value = value.get();
            let fits = if bits >= 64 {
                true
            } else if signed {
                bits == 64 || sign_extend(value as u64, bits) == value || (bits == 32 && value as u64 >> 32 == 0)
            } else {
                value as u64 >> bits == 0 || (bits == 32 && value as i32 as i64 == value)
            };
            if !fits || value & ((1 << shift) - 1) != 0 {
                return Err(bad(form, what, format_args!("{value:#x} does not fit")));
            }
            (value as u64 >> shift) & ones(bits - shift)
        }
        (SlotKind::Const, Value::Const { bank, offset }) => {
            let (_, offset_bits) = slot.bits[0];
            let bank_bits: u8 = slot.bits[1..].iter().map(|b| b.1).sum();
            let span = offset_bits + slot.shift;
            let range = -(1i64 << (span - 1))..1i64 << span;
            if bank >> bank_bits != 0 || !range.contains(&(offset as i64)) || offset & ((1 << slot.shift) - 1) != 0 {
                return Err(bad(form, what, format_args!("c[{bank:#x}][{offset:#x}] does not fit")));
            }
            ((offset as u64 & ones(span)) >> slot.shift) | (bank as u64) << offset_bits
        }
        (SlotKind::Target, Value::Target(value)) => {
            let value = value.get();
            let count = total(slot.bits);
            if sign_extend(value as u64, count + slot.shift) != value || value & ((1 << slot.shift) - 1) != 0 {
                return Err(bad(form, what, format_args!("the distance {value:#x} does not fit")));
            }
            (value as u64 >> slot.shift) & ones(count)
        }
        _ => return Err(bad(form, what, "has an operand of the wrong kind")),
    };
    Ok(word | insert(slot.bits, raw))
}

/// The same instruction as chip `sm` has it: operands and modifiers go by their names, values of modifiers by their texts.
///
/// # Errors
/// The chip lacks the form, or an operand, a modifier or a value that the instruction has.
pub fn on_chip(inst: &Inst, sm: u16) -> Result<Inst, EncodeError> {
    as_form(inst, inst.form, sm)
}

/// As [`on_chip`], in another form: for chips that say the same by other instructions.
///
/// # Errors
/// As of [`on_chip`].
pub fn as_form(inst: &Inst, to: FormId, sm: u16) -> Result<Inst, EncodeError> {
    let form = inst.form();
    let lacks = |what: &str| bad(form, what, format_args!("does not exist on sm_{sm}"));
    let mut other = Inst::new_on(to, sm).ok_or_else(|| lacks("the form"))?;
    let target = other.form();
    (other.guard, other.ctrl) = (inst.guard, inst.ctrl);
    for (slot, operand) in form.slots.iter().zip(&inst.operands) {
        match target.slots.iter().position(|s| s.name == slot.name) {
            Some(n) => other.operands[n] = *operand,
            None if *operand == slot.default() => {}
            None => return Err(lacks(slot.name.name())),
        }
    }
    for (field, &value) in form.mods.iter().zip(&inst.mods) {
        let named = target.mods.iter().position(|m| m.name == field.name);
        // A field that became wider may have another name.
        let grown = |m: &&ModField| m.bits.first().map(|b| b.0) == field.bits.first().map(|b| b.0);
        let lies = || target.mods.iter().position(|m| grown(m) && !form.mods.iter().any(|f| f.name == m.name));
        match named.or_else(lies) {
            Some(n) => {
                other.mods[n] = same_value(field, value, target.mods[n]).ok_or_else(|| lacks(field.name.name()))?
            }
            None if value == field.default => {}
            None => return Err(lacks(field.name.name())),
        }
    }
    // What one form says in its text another may say in a field.
    for (field, value) in target.mods.iter().zip(&mut other.mods) {
        if !form.mods.iter().any(|f| f.name == field.name)
            && let Some(n) = field.values.iter().position(|t| t.is_some_and(|t| says(form, t) && !says(target, t)))
        {
            *value = n as u8;
        }
    }
    Ok(other)
}

/// True if the text of a form has the word `text` (`.RELU`) before its operands.
fn says(form: &Form, text: &str) -> bool {
    let text = text.as_bytes();
    let before = form.syntax.iter().take_while(|p| matches!(p, Piece::Text(_) | Piece::Mod(_)));
    text.first() == Some(&b'.')
        && before.filter_map(|p| if let Piece::Text(t) = p { Some(t.as_bytes()) } else { None }).any(|t| {
            let word = t.split(|&b| b == b' ').next().unwrap_or(t);
            let ends = |rest: &[u8]| matches!(rest.first(), None | Some(b'.'));
            (0..word.len()).any(|at| word[at] == b'.' && word[at..].strip_prefix(text).is_some_and(ends))
        })
}

/// The value of a modifier that prints what `value` of another prints: the same number where that is one.
fn same_value(from: &ModField, value: u8, to: &ModField) -> Option<u8> {
    let text = from.values.get(value as usize).copied().flatten()?;
    if to.values.get(value as usize) == Some(&Some(text)) {
        return Some(value);
    }
    to.values.iter().position(|t| *t == Some(text)).map(|n| n as u8)
}

/// The word of an instruction on chip `sm`.
///
/// # Errors
/// A virtual register, an operand of the wrong kind or file, a value that does not fit its field (nothing is ever
/// truncated), a source modifier that the slot does not have, or a form that the chip lacks.
pub fn encode(inst: &Inst, sm: u16) -> Result<u128, EncodeError> {
    if !inst.form().on(sm) {
        return encode(&on_chip(inst, sm)?, sm);
    }
    let form = inst.form();
    let wide = wide(sm);
    if inst.operands.len() != form.slots.len() || inst.mods.len() != form.mods.len() {
        return Err(bad(form, "the instruction", "has the wrong number of operands or modifiers"));
    }
    let free = if wide { form.free & !form.wide } else { form.free };
    let extra = inst.extra.as_deref().copied().unwrap_or(0);
    if extra & !free != 0 {
        return Err(bad(form, "the instruction", "has extra bits where the form has fields"));
    }
    let mut word = form.fixed | encode_control(&inst.ctrl)?;
    if wide {
        word &= !form.wide;
    }
    word ^= extra;
    let file = if form.uniform_guard { File::Upred } else { File::Pred };
    let Value::Reg(guard) = inst.guard.value else { return Err(bad(form, "the guard", "is no register")) };
    word |= (encode_register(form, "the guard", 3, file, guard)? as u128) << 12 | (inst.guard.inv as u128) << 15;
    if inst.guard.neg || inst.guard.abs {
        return Err(bad(form, "the guard", "cannot be negated arithmetically"));
    }
    for (slot, operand) in form.slots.iter().zip(&inst.operands) {
        word |= match plain_operand(slot, operand, wide) {
            Some(bits) => bits,
            None => encode_operand(form, slot, operand, wide)?,
        };
    }
    for (field, &value) in form.mods.iter().zip(&inst.mods) {
        if !matches!(field.values.get(value as usize), Some(Some(_))) {
            return Err(bad(form, field.name.name(), format_args!("has no value {value}")));
        }
        word |= match *field.bits {
            _ if value == 0 => 0,
            [(from, count)] => ((value as u64 & ones(count)) as u128) << (from & 127),
            _ => insert(field.bits, value as u64),
        };
    }
    if form.shared {
        for (field, &value) in form.mods.iter().zip(&inst.mods) {
            if extract(word, field.bits) != value as u64 {
                return Err(bad(form, field.name.name(), "is shown in two places with two values"));
            }
        }
    }
    Ok(word)
}
