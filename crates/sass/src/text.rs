//! Instructions as text, as the vendor's disassembler prints them.

pub mod listing;
mod parse;

pub use parse::{Addresses, parse, parse_at, parse_control, parse_on};

use crate::control::Control;
use crate::form::{Alias, Form, HideZero, ImmPrint, Piece, Slot, SlotKind, SlotName, Suffix};
use crate::inst::{Inst, Operand, Value};
use crate::latency::Class;
use crate::reg::{File, Reg};
use crate::tables::WIDE_UNIFORM_FROM;
use std::fmt::Write as _;

/// Names for the targets of branches.
pub trait Labels {
    /// The name of the label at this byte address; None prints the address.
    fn label(&self, address: i64) -> Option<&str>;

    /// What stands in place of the operand in `slot`, because a relocation fills it; for a constant, of its offset alone.
    fn replaced(&self, _slot: &Slot, _operand: &Operand) -> Option<&str> {
        None
    }
}

/// No labels: every target is printed as its address.
pub struct NoLabels;

impl Labels for NoLabels {
    fn label(&self, _address: i64) -> Option<&str> {
        None
    }
}

/// The text of `inst`, which lies at byte `pc`, without the `;` that ends a line: `@P0 FADD.FTZ R0, -R1, |R2|`.
pub fn print(inst: &Inst, pc: u64, labels: &dyn Labels) -> String {
    let mut out = String::with_capacity(64);
    print_to(&mut out, inst, pc, labels);
    out
}

/// As [`print`], at the end of `out`.
pub fn print_to(out: &mut String, inst: &Inst, pc: u64, labels: &dyn Labels) {
    print_untrimmed(out, inst, pc, labels);
    out.truncate(out.trim_end().len());
}

/// With the space that ends some operands (`+INF `), which listings keep.
fn print_untrimmed(out: &mut String, inst: &Inst, pc: u64, labels: &dyn Labels) {
    let form = inst.form();
    if inst.guard.inv || !inst.guard.as_reg().is_some_and(Reg::is_const) {
        let _ = match inst.guard.as_reg() {
            Some(reg) => write!(out, "@{}{reg} ", if inst.guard.inv { "!" } else { "" }),
            None => write!(out, "@? "),
        };
    }
    let mut pieces = form.syntax.iter();
    while let Some(piece) = pieces.next() {
        match *piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Mod(n) => out.push_str(modifier(form, inst, n)),
            Piece::Slot(n) => operand(out, inst, n, "", pc, labels),
            Piece::SlotSuffix(n, suffix) => operand(out, inst, n, suffix, pc, labels),
            Piece::SlotMod(n, m) => operand(out, inst, n, modifier(form, inst, m), pc, labels),
            Piece::Alias(alias, slots) => print_alias(out, inst, alias, slots, labels),
            Piece::Address(slots, suffix, hide) => {
                let suffix = match suffix {
                    Suffix::Text(text) => text,
                    Suffix::Mod(n) => modifier(form, inst, n),
                };
                address(out, inst, slots, suffix, hide, labels);
            }
            Piece::If(n) => {
                let (slot, op) = (&form.slots[n as usize], &inst.operands[n as usize]);
                if *op == slot.default() && labels.replaced(slot, op).is_none() {
                    for skipped in pieces.by_ref() {
                        if *skipped == Piece::End {
                            break;
                        }
                    }
                }
            }
            Piece::End => {}
        }
    }
}

/// The listing of a function: one line an instruction, with its offset and labels (`.L_x_0:`) where branches go, numbered
/// in the order in which the code first names them. `words` begin at byte `base`; words that are no known instruction are
/// shown as data. With `control`, a column with the control field stands before each instruction.
pub fn print_function(words: &[u128], sm: u16, base: u64, control: bool) -> String {
    use crate::codec::{Decoded, decode_all};
    let decoded = decode_all(words, sm);
    let mut labels = Listing::default();
    let end = base as i64 + words.len() as i64 * 16;
    for (n, inst) in decoded.iter().enumerate() {
        for op in inst.known().iter().flat_map(|i| &i.operands) {
            let Value::Target(distance) = op.value else { continue };
            let distance = distance.get();
            let target = base as i64 + n as i64 * 16 + 16 + distance;
            if (base as i64..end).contains(&target) && target % 16 == 0 && labels.label(target).is_none() {
                let name = format!(".L_x_{}", labels.0.len());
                labels.0.push((target, name));
            }
        }
    }
    let mut out = String::with_capacity(words.len() * 80);
    for (n, (inst, word)) in decoded.iter().zip(words).enumerate() {
        let pc = base + n as u64 * 16;
        if let Some(label) = labels.label(pc as i64) {
            let _ = writeln!(out, "{label}:");
        }
        let _ = write!(out, "        /*{pc:04x}*/ ");
        let Decoded::Known(inst) = inst else {
            let _ = writeln!(out, "                  .word {word:#034x} ;");
            continue;
        };
        if control {
            let _ = write!(out, "{} ", print_control(&inst.ctrl));
        }
        let text = print(inst, pc, &labels);
        let (guard, body) = match text.split_once(' ') {
            Some((guard, body)) if guard.starts_with('@') => (guard, body),
            _ => ("", text.as_str()),
        };
        let _ = writeln!(out, "{guard:>17} {body} ;");
    }
    out
}

/// Labels of a listing, by address.
#[derive(Default)]
struct Listing(Vec<(i64, String)>);

impl Labels for Listing {
    fn label(&self, address: i64) -> Option<&str> {
        self.0.iter().find(|l| l.0 == address).map(|l| l.1.as_str())
    }
}

fn modifier(form: &Form, inst: &Inst, n: u8) -> &'static str {
    let n = n as usize;
    form.mods[n].values.get(inst.mods[n] as usize).copied().flatten().unwrap_or(".???")
}

fn hex(out: &mut String, value: i64) {
    let _ = if value < 0 { write!(out, "-{:#x}", value.unsigned_abs()) } else { write!(out, "{value:#x}") };
}

fn constant(out: &mut String, bank: u8, offset: i32, spaced: bool) {
    let _ = write!(out, "c[{bank:#x}]{}[", if spaced { " " } else { "" });
    hex(out, offset as i64);
    out.push(']');
}

fn indexed(out: &mut String, inst: &Inst, c: u8, r: u8, labels: &dyn Labels) {
    let Value::Const { bank, offset } = inst.operands[c as usize].value else {
        return out.push_str("c[?]");
    };
    let reg = inst.operands[r as usize].as_reg().unwrap_or(Reg::RZ);
    if let Some(text) = labels.replaced(inst.form().slots[c as usize], &inst.operands[c as usize]) {
        let none = reg == Reg::RZ || reg == Reg::URZ && inst.form().mnemonic == "LDCU";
        let _ = if none { write!(out, "c[{text}]") } else { write!(out, "c[{reg}+{text}]") };
        return;
    }
    // LDCU leaves URZ out, ULDC does not.
    if offset != 0 && (reg == Reg::RZ || (reg == Reg::URZ && inst.form().mnemonic == "LDCU")) {
        return constant(out, bank, offset, false);
    }
    let _ = write!(out, "c[{bank:#x}][{reg}");
    if offset != 0 {
        out.push('+');
        hex(out, offset as i64);
    }
    out.push(']');
}

/// Whose address is shown with its sign where it has no register.
const SIGNED_WITHOUT_REGISTER: &[&str] = &["LDGSTS", "LDSM", "STSM", "LDCU", "LDTM", "STTM", "UTCCP", "UTCSHIFT"];

/// An address in brackets; the slots are a register, perhaps a uniform register, a distance.
fn address(out: &mut String, inst: &Inst, slots: &[u8], suffix: &str, hide: HideZero, labels: &dyn Labels) {
    let register = |n: u8| inst.operands[n as usize].as_reg().unwrap_or(Reg::RZ);
    let (base, last) = (register(slots[0]), slots[slots.len() - 1]);
    let uniform = if slots.len() == 3 { Some(register(slots[1])) } else { None };
    let Value::Imm(distance) = inst.operands[last as usize].value else { return };
    let distance = distance.get();
    let replaced = labels.replaced(inst.form().slots[last as usize], &inst.operands[last as usize]);
    if let (Some(text), None, Reg::RZ) = (replaced, uniform, base) {
        return out.push_str(text);
    }
    let only_before = |sm: u16| inst.form().sms.iter().all(|&(_, last)| last < sm);
    // sm_75 shows the address of LDSM as it is where there is no register.
    let unsigned = inst.form().mnemonic == "LDSM" && only_before(80);
    // Constants whose cache lines are dropped: the address has a sign, too.
    let opcode = inst.form().fixed & 0xfff;
    let signed_constant = matches!(opcode, 0x73f | 0xb3f);
    // Accesses of 256 bits do not show RZ.
    let wide = matches!(opcode, 0x97e | 0x97f);
    // RZ times four is not shown.
    let suffix = if base == Reg::RZ && uniform.is_none() && suffix.starts_with(".X") { "" } else { suffix };
    match uniform {
        None if (base == Reg::RZ || base == Reg::URZ && hide == HideZero::Always)
            && distance != 0
            && suffix.is_empty() =>
        {
            // Without a register it is an address; some forms still show it signed.
            let signed = SIGNED_WITHOUT_REGISTER.contains(&inst.form().mnemonic) && !unsigned || signed_constant;
            let slot = &inst.form().slots[last as usize];
            let shift = if let SlotKind::Imm { shift, .. } = slot.kind { shift } else { 0 };
            let bits = slot.bits.iter().map(|b| b.1).sum::<u8>() + shift;
            return hex(out, if signed { distance } else { distance & ((1i64 << bits) - 1) });
        }
        None => {
            let _ = write!(out, "{base}{suffix}");
        }
        Some(Reg::URZ) if hide == HideZero::Always || hide == HideZero::Wide && suffix == ".64" => {
            let _ = write!(out, "{base}{suffix}");
        }
        // LDGSTS still shows RZ as a pair, and from sm_90 on others show it as a register of 32 bits.
        Some(uniform)
            if base == Reg::RZ
                && (suffix.is_empty()
                    || suffix == ".64" && inst.form().mnemonic != "LDGSTS"
                    || suffix == ".U32" && (wide || only_before(90))) =>
        {
            let _ = write!(out, "{uniform}");
            if unsigned && distance != 0 {
                out.push('+');
                return hex(out, distance & 0xff_ffff);
            }
        }
        Some(uniform) => {
            let _ = write!(out, "{base}{suffix}+{uniform}");
        }
    }
    if let Some(text) = replaced {
        out.push('+');
        out.push_str(text);
    } else if distance != 0 {
        out.push('+');
        hex(out, distance);
    }
}

fn operand(out: &mut String, inst: &Inst, n: u8, suffix: &str, pc: u64, labels: &dyn Labels) {
    let slot: &Slot = inst.form().slots[n as usize];
    let op: &Operand = &inst.operands[n as usize];
    if let Some(text) = labels.replaced(slot, op) {
        let _ = match op.value {
            Value::Const { .. } => write!(out, "c[{text}]"),
            _ => write!(out, "{text}"),
        };
        return;
    }
    if op.neg {
        out.push('-');
    }
    if op.inv {
        let predicate = matches!(slot.kind, SlotKind::Reg(File::Pred | File::Upred));
        out.push(if predicate { '!' } else { '~' });
    }
    if op.abs {
        out.push('|');
    }
    match op.value {
        Value::Reg(reg) => {
            let _ = write!(out, "{reg}");
        }
        Value::Imm(value) if matches!(slot.kind, SlotKind::Imm { print: ImmPrint::Bindless, .. }) => {
            let value = value.get();
            let descriptor = inst.get(SlotName::UR).and_then(|o| o.as_reg()).unwrap_or(Reg::URZ);
            let _ = write!(out, "cx[{descriptor}]{}[", if spaced(inst, n) { " " } else { "" });
            hex(out, value);
            out.push(']');
        }
        Value::Imm(value) => immediate(out, inst, slot, value.get()),
        Value::Const { bank, offset } => constant(out, bank, offset, spaced(inst, n)),
        Value::Target(distance) => {
            let distance = distance.get();
            let address = pc as i64 + 16 + distance;
            match labels.label(address) {
                Some(name) => {
                    let _ = write!(out, "`({name})");
                }
                None => hex(out, address),
            }
        }
    }
    // `|R2|.H0_H0`, but `|UR2.H0_H0|`, and in conversions `|R2.H1|`.
    let inside = matches!(inst.form().class, Class::Xu | Class::Pack) || !matches!(slot.kind, SlotKind::Reg(File::Gpr));
    if op.abs && !inside {
        out.push('|');
    }
    if slot.reuse.is_some_and(|r| inst.ctrl.reuse >> r & 1 != 0) && matches!(op.value, Value::Reg(_)) {
        out.push_str(".reuse");
    }
    out.push_str(suffix);
    if op.abs && inside {
        out.push('|');
    }
}

/// True if bank and offset of the constant in slot `n` stand apart: where the operand has a modifier.
fn spaced(inst: &Inst, n: u8) -> bool {
    let form = inst.form();
    form.syntax.iter().any(|p| matches!(p, Piece::SlotMod(s, _) if *s == n))
        || form.slots[n as usize].spaced
        || narrow_source(inst)
}

fn immediate(out: &mut String, inst: &Inst, slot: &Slot, value: i64) {
    let SlotKind::Imm { print, bits, .. } = slot.kind else { return hex(out, value) };
    match print {
        ImmPrint::Hex if bits == 64 => {
            let _ = write!(out, "{:#x}", value as u64);
        }
        ImmPrint::Hex | ImmPrint::Bindless => hex(out, value),
        ImmPrint::Decimal => {
            let _ = write!(out, "{value}");
        }
        ImmPrint::F32 => float(out, single(value as u32)),
        ImmPrint::F64High => float(out, f64::from_bits((value as u64) << 32)),
        ImmPrint::F16 if says_bf16(inst) => float(out, single((value as u32) << 16)),
        ImmPrint::F16 => float(out, half(value as u16)),
        ImmPrint::Bf16 => float(out, single((value as u32) << 16)),
        ImmPrint::F16x2 => {
            let bf16 = says_bf16(inst);
            let convert = |bits: u16| if bf16 { single((bits as u32) << 16) } else { half(bits) };
            float(out, convert((value >> 16) as u16));
            out.push_str(", ");
            float(out, convert(value as u16));
        }
        ImmPrint::SpecialReg | ImmPrint::SpecialRegOf(_) => {
            let own = if let ImmPrint::SpecialRegOf(names) = print { names } else { &[] };
            let named = |names: &[Option<&'static str>]| names.get(value as usize).copied().flatten();
            match named(own).or_else(|| named(crate::enums::sr::VALUES)) {
                Some(name) => out.push_str(name),
                None => {
                    let _ = write!(out, "SR{value}");
                }
            }
        }
        ImmPrint::Swizzle => {
            for pair in (0..bits / 2).rev() {
                out.push_str(["PP", "PN", "NP", "ZP"][(value >> (2 * pair) & 3) as usize]);
            }
        }
        ImmPrint::Scoreboard => {
            let _ = write!(out, "SB{value}");
        }
        ImmPrint::Set => {
            out.push('{');
            for n in (0..bits).rev().filter(|n| value >> n & 1 != 0) {
                if !out.ends_with('{') {
                    out.push(',');
                }
                let _ = write!(out, "{n}");
            }
            out.push('}');
        }
        ImmPrint::GroupScoreboard => {
            let _ = write!(out, "gsb{value}");
        }
    }
}

/// True if the text of the instruction says that its 16-bit floats have the exponent of 32 bits: by the last format that it
/// names, as that of a source stands behind that of the result.
fn says_bf16(inst: &Inst) -> bool {
    let form = inst.form();
    let mut said = false;
    for piece in form.syntax {
        let text = match piece {
            Piece::Text(text) => text,
            Piece::Mod(m) | Piece::SlotMod(_, m) => {
                let values = form.mods[*m as usize].values;
                values.get(inst.mods[*m as usize] as usize).copied().flatten().unwrap_or_default()
            }
            _ => continue,
        };
        // `.F16` is no part of `.BF16`.
        said = match (text.rfind(".BF16"), text.rfind(".F16")) {
            (None, None) => said,
            (bf16, f16) => bf16 > f16,
        };
    }
    said
}

/// The value of a 32-bit float. (Widening it by machine would make a signalling NaN quiet.)
fn single(bits: u32) -> f64 {
    let value = f32::from_bits(bits);
    let nan = (bits as u64 & 0x8000_0000) << 32 | 0x7ff0 << 48 | (bits as u64 & 0x7f_ffff) << 29;
    if value.is_nan() { f64::from_bits(nan) } else { value as f64 }
}

/// The value of a 16-bit float.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 != 0 { -1.0 } else { 1.0 };
    let fraction = (bits & 0x3ff) as f64;
    match bits >> 10 & 31 {
        0 => sign * fraction * 2f64.powi(-24),
        31 if bits & 0x3ff == 0 => sign * f64::INFINITY,
        31 => f64::from_bits((bits as u64 >> 15) << 63 | 0x7ff0 << 48 | (bits as u64 & 0x3ff) << 42),
        e => sign * (1.0 + fraction / 1024.0) * 2f64.powi(e as i32 - 15),
    }
}

/// As C's `%.20g`; whole numbers from a thousand million on as `%.20e`. What is no ordinary number has a space after it.
fn float(out: &mut String, value: f64) {
    if value.is_nan() {
        let quiet = value.to_bits() >> 51 & 1 != 0;
        out.push(if value.is_sign_negative() { '-' } else { '+' });
        return out.push_str(if quiet { "QNAN " } else { "SNAN " });
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "+INF " } else { "-INF " });
    }
    if value == 0.0 {
        return out.push_str(if value.is_sign_negative() { "-0.0 " } else { "0" });
    }
    if value.abs() >= 1e9 {
        let text = format!("{value:.20e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let _ = write!(out, "{mantissa}e+{exponent:0>2}");
        return;
    }
    let text = format!("{value:.19e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..20).contains(&exponent) {
        let fixed = format!("{value:.*}", (19 - exponent) as usize);
        out.push_str(if fixed.contains('.') { fixed.trim_end_matches('0').trim_end_matches('.') } else { &fixed });
    } else {
        out.push_str(mantissa.trim_end_matches('0').trim_end_matches('.'));
        let _ = write!(out, "e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
}

fn print_alias(out: &mut String, inst: &Inst, alias: Alias, slots: &[u8], labels: &dyn Labels) {
    use crate::form::SlotName as S;
    let get = |name| inst.get(name).copied();
    match alias {
        Alias::PuPv => {
            let (Some(u), Some(v)) = (get(S::Pu), get(S::Pv)) else { return };
            let (Some(u), Some(v)) = (u.as_reg(), v.as_reg()) else { return };
            // VIMNMX has both or none of them.
            let both = inst.form().mnemonic == "VIMNMX" && !u.is_const();
            for reg in [u, v] {
                if both || (!reg.is_const() && inst.form().mnemonic != "VIMNMX") {
                    let _ = write!(out, "{reg}, ");
                }
            }
        }
        Alias::Imad => out.push_str(imad_name(inst)),
        Alias::Indexed => indexed(out, inst, slots[0], slots[1], labels),
        Alias::HalfPart => {
            use crate::form::ModName as M;
            let Some(n) = inst.slot(S::Rb) else { return };
            let half = narrow_source(inst) && inst.modifier(M::Half) == crate::enums::half::H1;
            operand(out, inst, n as u8, if half { ".H1" } else { "" }, 0, &NoLabels);
        }
        Alias::IntPart => {
            use crate::form::ModName as M;
            let Some(n) = inst.slot(S::Rb) else { return };
            // A 16-bit type takes halves: the part counts bytes.
            let suffix = match (inst.modifier(M::Src), inst.modifier(M::Part)) {
                (_, 0) | (4.., _) => "",
                (2 | 3, 1) => ".H1",
                (2 | 3, _) => ".???",
                (_, 1) => ".B1",
                (_, 2) => ".B2",
                _ => ".B3",
            };
            operand(out, inst, n as u8, suffix, 0, &NoLabels);
        }
        Alias::NextPair => {
            if let Some(reg) = inst.operands[slots[0] as usize].as_reg() {
                let _ = write!(out, "{}", reg.offset(2));
            }
        }
        Alias::Next => {
            if let Some(reg) = next(inst, slots[0] as usize) {
                let _ = write!(out, "{reg}");
            }
        }
        Alias::Twin => {
            if let Some(reg) = get(S::Rb).and_then(|o| o.as_reg()) {
                let _ = write!(out, "{reg}");
            }
        }
    }
}

/// The register behind that of a slot. Behind UR62 it is URZ where those are all.
pub(crate) fn next(inst: &Inst, slot: usize) -> Option<Reg> {
    let reg = inst.operands[slot].as_reg()?.offset(1);
    let last = reg == Reg::ur(63) && inst.form().sms.iter().all(|&(_, last)| last < WIDE_UNIFORM_FROM);
    Some(if last { Reg::URZ } else { reg })
}

/// A conversion that reads 8 or 16 bits of its source.
fn narrow_source(inst: &Inst) -> bool {
    use crate::form::ModName as M;
    let form = inst.form();
    match form.mnemonic {
        "F2I" | "F2F" => matches!(inst.modifier(M::Src), 1 | 4),
        "FRND" => matches!(inst.modifier(M::Fmt), 9 | 36),
        "MUFU" => matches!(inst.modifier(M::Fmt), 1 | 2),
        "I2F" => inst.modifier(M::Src) < 4,
        _ => false,
    }
}

/// IMAD does the work of a move, a shift and an addition, too, and is then called so.
fn imad_name(inst: &Inst) -> &'static str {
    use crate::form::SlotName as S;
    let value = |name| inst.get(name).map(|o| o.value);
    let zero = |name| match value(name) {
        Some(Value::Reg(reg)) => matches!(reg.file(), File::Gpr | File::Ugpr) && reg.is_const(),
        Some(Value::Imm(n)) => n.get() == 0,
        _ => false,
    };
    if inst.slot(S::UR).is_some() {
        return "";
    }
    match (value(S::Rb), value(S::Rc)) {
        (Some(Value::Reg(r)), _) | (_, Some(Value::Reg(r))) if r.file() == File::Ugpr => "",
        _ if zero(S::Ra) || zero(S::Rb) => ".MOV",
        (Some(Value::Imm(n)), _) if n.get() == 1 => {
            if zero(S::Rc) {
                ".MOV"
            } else {
                ".IADD"
            }
        }
        (Some(Value::Imm(n)), _)
            if zero(S::Rc) && n.get() > 1 && n.get() != 0x10000 && (n.get() as u32).is_power_of_two() =>
        {
            ".SHL"
        }
        _ => "",
    }
}

/// The control field: `[B--1---:R-:W2:-:S04]`: wait mask, read scoreboard, write scoreboard, `Y` where bit 109 is clear,
/// stall.
pub fn print_control(ctrl: &Control) -> String {
    let mut out = String::from("[B");
    for n in 0..6 {
        out.push(if ctrl.wait >> n & 1 != 0 { (b'0' + n) as char } else { '-' });
    }
    let scoreboard = |sb: Option<u8>| sb.map_or('-', |n| (b'0' + n) as char);
    let _ = write!(
        out,
        ":R{}:W{}:{}:S{:02}]",
        scoreboard(ctrl.read_sb),
        scoreboard(ctrl.write_sb),
        if ctrl.bit109 { '-' } else { 'Y' },
        ctrl.stall
    );
    out
}
