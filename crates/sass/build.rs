//! Makes the static tables of the ISA from `isa/*.isa` (the language of those files is described in `isa/README.md`).
//!
//! Everything that can be wrong with a description is found here: overlapping fields, bits outside of the word, unknown
//! names, duplicate names, two forms that one word could be.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::{env, fs, path::Path};

const CONTROL: u128 = 0x1f_ffff << 105;
const GUARD: u128 = 0xf << 12;
const OPCODE: u128 = 0xfff;

type Bits = Vec<(u8, u8)>;

#[derive(Clone, Default)]
struct SlotDef {
    name: String,
    role: String,
    kind: String,
    bits: Bits,
    width: String,
    neg: Option<u8>,
    abs: Option<u8>,
    inv: Option<u8>,
    reuse: Option<u8>,
    default_inv: bool,
    default_reg: Option<u8>,
    shift: u8,
}

#[derive(Clone)]
struct ModDef {
    name: String,
    bits: Bits,
    values: String,
    default: u8,
}

#[derive(Clone, Default)]
struct FormDef {
    at: String,
    name: String,
    sm: (u16, u16),
    fixed: u128,
    fixed_mask: u128,
    uniform: bool,
    class: String,
    effects: Vec<String>,
    slots: Vec<SlotDef>,
    mods: Vec<ModDef>,
    text: String,
    mnemonic: String,
}

struct EnumDef {
    idents: Vec<(String, usize)>,
    values: Vec<Option<String>>,
}

#[derive(Default)]
struct Isa {
    enums: BTreeMap<String, EnumDef>,
    widths: HashMap<String, String>,
    slots: HashMap<String, SlotDef>,
    mods: HashMap<String, String>,
    forms: Vec<FormDef>,
}

fn bad(at: &str, what: impl std::fmt::Display) -> ! {
    eprintln!("error: {at}: {what}");
    std::process::exit(1)
}

fn number<T: TryFrom<u128>>(at: &str, text: &str) -> T {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16),
        None => text.parse(),
    };
    match parsed.ok().and_then(|n| T::try_from(n).ok()) {
        Some(n) => n,
        None => bad(at, format!("not a number: {text}")),
    }
}

/// `16+8,80+1` (low part first); `16` is one bit.
fn bits(at: &str, text: &str) -> Bits {
    text.split(',')
        .map(|part| {
            let (from, count) = part.split_once('+').unwrap_or((part, "1"));
            (number(at, from), number(at, count))
        })
        .collect()
}

fn mask(at: &str, bits: &[(u8, u8)]) -> u128 {
    let mut m = 0u128;
    for &(from, count) in bits {
        if count == 0 || from as u32 + count as u32 > 128 {
            bad(at, format!("bad bits {from}+{count}"));
        }
        let part = (!0u128 >> (128 - count as u32)) << from;
        if m & part != 0 {
            bad(at, "a field overlaps itself");
        }
        m |= part;
    }
    m
}

/// Attributes of a slot: `def use usedef r u p up b imm.. const target`, bits, `-63 |62 ~90 xN x:NAME reuse=1 inv shift=2`.
fn slot_attributes(at: &str, slot: &mut SlotDef, words: &[&str]) {
    for word in words {
        let (head, rest) = word.split_at(1);
        match *word {
            "def" | "use" | "usedef" => slot.role = word.to_string(),
            "r" | "u" | "p" | "up" | "b" | "const" | "target" | "hex" | "shex" | "f32" | "f64" | "f16" | "dec"
            | "sr" | "swz" | "sb" => {
                slot.kind = word.to_string();
            }
            "inv" => slot.default_inv = true,
            "noreuse" => slot.reuse = None,
            "plain" => (slot.neg, slot.abs, slot.inv) = (None, None, None),
            _ if word.starts_with("reuse=") => slot.reuse = Some(number(at, &word[6..])),
            _ if word.starts_with("shift=") => slot.shift = number(at, &word[6..]),
            _ if word.starts_with("imm=") => slot.default_reg = Some(number(at, &word[4..])),
            _ if word.starts_with("reg=") => slot.default_reg = Some(number(at, &word[4..])),
            _ if *word == "nobits" => slot.bits = Vec::new(),
            _ if head == "-" => slot.neg = Some(number(at, rest)),
            _ if head == "|" => slot.abs = Some(number(at, rest)),
            _ if head == "~" => slot.inv = Some(number(at, rest)),
            _ if head == "x" => slot.width = rest.to_string(),
            _ if head.as_bytes()[0].is_ascii_digit() => slot.bits = bits(at, word),
            _ => bad(at, format!("unknown attribute {word}")),
        }
    }
}

/// The operand shapes: suffix, opcode bits 11:9, bit 91, what B is (slot, field), what C is.
type Shape = (&'static str, u128, bool, Vec<(&'static str, char, char)>);

fn shapes(at: &str, kind: &str) -> Vec<Shape> {
    // (slot, kind letter, field letter): fields B (63:32) and C (71:64).
    match kind {
        "alu3" => vec![
            ("RRR", 1, false, vec![("Rb", 'R', 'B'), ("Rc", 'R', 'C')]),
            ("RRI", 2, false, vec![("Rb", 'R', 'C'), ("Rc", 'I', 'B')]),
            ("RRC", 3, false, vec![("Rb", 'R', 'C'), ("Rc", 'K', 'B')]),
            ("RIR", 4, false, vec![("Rb", 'I', 'B'), ("Rc", 'R', 'C')]),
            ("RCR", 5, false, vec![("Rb", 'K', 'B'), ("Rc", 'R', 'C')]),
            ("RUR", 6, true, vec![("Rb", 'U', 'B'), ("Rc", 'R', 'C')]),
            ("RRU", 7, true, vec![("Rb", 'R', 'C'), ("Rc", 'U', 'B')]),
        ],
        "alu2" => vec![
            ("RR", 1, false, vec![("Rb", 'R', 'B')]),
            ("RI", 4, false, vec![("Rb", 'I', 'B')]),
            ("RC", 5, false, vec![("Rb", 'K', 'B')]),
            ("RU", 6, true, vec![("Rb", 'U', 'B')]),
        ],
        "alu1" => vec![
            ("R", 1, false, vec![("Rb", 'R', 'B')]),
            ("I", 4, false, vec![("Rb", 'I', 'B')]),
            ("C", 5, false, vec![("Rb", 'K', 'B')]),
            ("U", 6, true, vec![("Rb", 'U', 'B')]),
        ],
        // The second source takes the port of C.
        "alu2c" => vec![
            ("RR", 1, false, vec![("Rb", 'R', 'B')]),
            ("RI", 2, false, vec![("Rb", 'I', 'B')]),
            ("RC", 3, false, vec![("Rb", 'K', 'B')]),
            ("RU", 7, true, vec![("Rb", 'U', 'B')]),
        ],
        "alu2cc" => vec![
            ("RR", 1, false, vec![("Rb", 'R', 'C')]),
            ("RI", 2, false, vec![("Rb", 'I', 'B')]),
            ("RC", 3, false, vec![("Rb", 'K', 'B')]),
            ("RU", 7, true, vec![("Rb", 'U', 'B')]),
        ],
        "ualu3" => vec![
            ("UUU", 1, true, vec![("Rb", 'U', 'B'), ("Rc", 'U', 'C')]),
            ("UUI", 2, true, vec![("Rb", 'U', 'C'), ("Rc", 'I', 'B')]),
            ("UIU", 4, true, vec![("Rb", 'I', 'B'), ("Rc", 'U', 'C')]),
        ],
        "ualu2" => vec![("UU", 1, true, vec![("Rb", 'U', 'B')]), ("UI", 4, true, vec![("Rb", 'I', 'B')])],
        "ualu1" => vec![("U", 1, true, vec![("Rb", 'U', 'B')]), ("I", 4, true, vec![("Rb", 'I', 'B')])],
        _ => bad(at, format!("unknown shapes {kind}")),
    }
}

/// One form statement with everything that follows it, before the shapes are multiplied out.
struct Raw {
    at: String,
    head: Vec<String>,
    lines: Vec<(String, String)>,
}

impl Isa {
    /// Reads one file: with `definitions` its enumerations, slots and widths, else its forms.
    fn parse(&mut self, file: &str, text: &str, definitions: bool) {
        let mut current: Option<Raw> = None;
        let mut class = String::new();
        for (n, line) in text.lines().enumerate() {
            let at = format!("{file}:{}", n + 1);
            let line = line.split(" #").next().unwrap_or("").trim_end();
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if line.starts_with(' ') {
                match &mut current {
                    Some(raw) => raw.lines.push((at, line.trim().to_string())),
                    None if definitions => {}
                    None => bad(&at, "an indented line without a form"),
                }
                continue;
            }
            if let Some(raw) = current.take() {
                self.form(raw, &class);
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            if definitions != matches!(words[0], "enum" | "width" | "slot" | "mod") {
                continue;
            }
            match words[0] {
                "enum" => self.enumeration(&at, &words[1..]),
                "width" => {
                    let counts: Vec<u8> = words[2..].iter().map(|w| number(&at, w)).collect();
                    self.widths.insert(words[1].into(), format!("&{counts:?}"));
                }
                "slot" => {
                    let mut slot =
                        SlotDef { name: words[1].into(), role: "use".into(), width: "1".into(), ..Default::default() };
                    slot_attributes(&at, &mut slot, &words[2..]);
                    if self.slots.insert(words[1].into(), slot).is_some() {
                        bad(&at, "slot defined twice");
                    }
                }
                "mod" => {
                    self.mods.insert(words[1].into(), words[2].into());
                }
                "class" => class = words[1].into(),
                "form" => {
                    current =
                        Some(Raw { at, head: words[1..].iter().map(|w| w.to_string()).collect(), lines: Vec::new() });
                }
                other => bad(&at, format!("unknown statement {other}")),
            }
        }
        if let Some(raw) = current.take() {
            self.form(raw, &class);
        }
    }

    fn enumeration(&mut self, at: &str, words: &[&str]) {
        let mut def = EnumDef { idents: Vec::new(), values: Vec::new() };
        for word in &words[1..] {
            let (word, index) = match word.rsplit_once('=') {
                Some((w, n)) => (w, number(at, n)),
                None => (*word, def.values.len()),
            };
            while def.values.len() < index {
                def.values.push(None);
            }
            if word == "!" {
                def.values.push(None);
                continue;
            }
            let (ident, text) = match word.split_once(':') {
                Some((i, t)) => (i.to_string(), t.to_string()),
                None => (word.replace('.', "_"), format!(".{word}")),
            };
            if def.idents.iter().any(|(i, _)| *i == ident) {
                bad(at, format!("{ident} twice"));
            }
            def.idents.push((ident, def.values.len()));
            def.values.push(Some(text));
        }
        if self.enums.insert(words[0].into(), def).is_some() {
            bad(at, format!("enum {} defined twice", words[0]));
        }
    }

    fn form(&mut self, raw: Raw, class: &str) {
        let at = &raw.at;
        let mut base = FormDef {
            at: at.clone(),
            name: raw.head[0].clone(),
            sm: (75, 999),
            class: class.into(),
            ..Default::default()
        };
        let mut shape_kind = None;
        let mut only: Option<Vec<String>> = None;
        let mut opcode = None;
        let mut imm = "hex".to_string();
        let (mut mod_b, mut mod_c): (Vec<String>, Vec<String>) = Default::default();
        let mut overrides: Vec<(String, Vec<String>)> = Vec::new();
        let mut hidden: Vec<String> = Vec::new();
        for word in &raw.head[1..] {
            if let Some((key, value)) = word.split_once('=') {
                match key {
                    "op" => {
                        let (code, x) = value.split_once('.').unwrap_or((value, "0"));
                        let code: u128 = number(at, &format!("0x{code}"));
                        opcode = Some(code | u128::from(x == "1") << 91);
                    }
                    "imm" => imm = value.into(),
                    "class" => base.class = value.into(),
                    "sm" => {
                        let (a, b) = value.split_once("..").unwrap_or((value, value));
                        base.sm = (number(at, a), if b.is_empty() { 999 } else { number(at, b) });
                    }
                    "only" => only = Some(value.split(',').map(String::from).collect()),
                    _ => bad(at, format!("unknown {key}")),
                }
            } else if word == "uniform" {
                base.uniform = true;
            } else if ["load", "store", "sync", "flow", "cross_lane"].contains(&word.as_str()) {
                base.effects.push(word.clone());
            } else {
                shape_kind = Some(word.clone());
            }
        }
        let mut mods: Vec<String> = Vec::new();
        let mut cover = 0u128;
        for (at, line) in &raw.lines {
            if let Some(text) = line.strip_prefix('"') {
                base.text = text.trim_end_matches('"').to_string();
                continue;
            }
            for part in line.split(';') {
                let words: Vec<&str> = part.split_whitespace().collect();
                let Some(first) = words.first() else { continue };
                let rest: Vec<String> = words[1..].iter().map(|w| w.to_string()).collect();
                match *first {
                    "B" => mod_b = rest,
                    "C" => mod_c = rest,
                    "mod" => mods.extend(rest),
                    "hidden" => hidden.extend(rest),
                    "fix" => {
                        for fix in rest {
                            let Some((place, value)) = fix.split_once('=') else { bad(at, "fix BITS=VALUE") };
                            let place = bits(at, place);
                            let m = mask(at, &place);
                            let value: u128 = number(at, value);
                            if place.len() != 1 || value >> place[0].1 != 0 || cover & m != 0 {
                                bad(at, format!("bad fix {fix}"));
                            }
                            cover |= m;
                            base.fixed |= value << place[0].0;
                        }
                    }
                    name if self.slots.contains_key(name) => overrides.push((name.into(), rest)),
                    _ => bad(at, format!("unknown slot {first}")),
                }
            }
        }
        for spec in &mods {
            base.mods.push(self.modifier(at, spec));
        }
        // Which slots: those named in the text, in its order, then the hidden ones.
        let mut order: Vec<String> = Vec::new();
        for name in identifiers(&base.text).chain(hidden.iter().cloned()) {
            if self.slots.contains_key(&name) && !order.contains(&name) {
                order.push(name);
            }
        }
        base.mnemonic =
            base.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("").to_string();
        let variants = match (&shape_kind, opcode) {
            (Some(kind), Some(op)) => shapes(at, kind)
                .into_iter()
                .filter(|(suffix, ..)| only.as_ref().is_none_or(|o| o.iter().any(|s| s == suffix)))
                .map(|(suffix, form, x, fields)| {
                    (format!("{}_{suffix}", base.name), op | form << 9 | u128::from(x) << 91, fields)
                })
                .collect(),
            (None, Some(op)) => vec![(base.name.clone(), op, vec![])],
            _ => bad(at, "a form needs op="),
        };
        let c_port = shape_kind.as_deref().is_some_and(|k| k.starts_with("alu2c"));
        for (name, op, fields) in variants {
            let mut form = FormDef { name, ..base.clone() };
            form.fixed |= op;
            for slot_name in &order {
                let mut slot = self.slots[slot_name].clone();
                if let Some(&(_, kind, field)) = fields.iter().find(|f| f.0 == slot_name) {
                    let marks = if field == 'B' { &mod_b } else { &mod_c };
                    let marks: Vec<&str> = marks.iter().map(String::as_str).collect();
                    match kind {
                        'R' | 'U' => {
                            let ugpr = kind == 'U';
                            slot.kind = if ugpr { "u" } else { "r" }.into();
                            let from = if field == 'B' { 32 } else { 64 };
                            slot.bits = vec![(from, if ugpr { 6 } else { 8 })];
                            if ugpr {
                                slot.reuse = None;
                            } else if c_port {
                                slot.reuse = Some(2);
                            }
                            slot_attributes(at, &mut slot, &marks);
                            if ugpr {
                                slot.reuse = None;
                            }
                        }
                        'I' => {
                            slot.kind = imm.clone();
                            slot.bits = vec![(32, 32)];
                            slot.reuse = None;
                        }
                        _ => {
                            slot.kind = "const".into();
                            slot.bits = vec![(40, 14), (54, 5)];
                            slot_attributes(at, &mut slot, &marks);
                            slot.reuse = None;
                            slot.shift = 2;
                        }
                    }
                }
                for (name, words) in &overrides {
                    if name == slot_name {
                        let words: Vec<&str> = words.iter().map(String::as_str).collect();
                        let shaped = fields.iter().any(|f| f.0 == slot_name);
                        // For a shaped slot an override adds what does not depend on the shape (width, role).
                        let keep = slot.reuse;
                        slot_attributes(at, &mut slot, &words);
                        if shaped && slot.kind != "r" {
                            slot.reuse = keep.and(None);
                            if !matches!(slot.kind.as_str(), "u") {
                                slot.width = "1".into();
                            }
                        }
                    }
                }
                if form.uniform {
                    uniform_slot(&mut slot);
                }
                if fields.iter().any(|f| f.0 == slot_name && f.1 == 'I') {
                    // A modifier of the operand (a half, a byte) does not exist for an immediate.
                    let mark = format!("{slot_name}{{.");
                    if form.text.contains("{=IntPart ") {
                        form.mods.retain(|m| m.name != "Part");
                    }
                    if let Some(i) = form.text.find(&mark) {
                        let from = i + slot_name.len();
                        let end = from + form.text[from..].find('}').unwrap_or_else(|| bad(at, "{ without }"));
                        let name = form.text[from + 2..end].to_string();
                        form.text.replace_range(from..=end, "");
                        form.mods.retain(|m| m.name != name);
                    }
                }
                form.slots.push(slot);
            }
            self.finish(form);
        }
    }

    /// `Name@bits=enum:default` or `Name@bits` (a flag, printed as `.NAME`).
    fn modifier(&self, at: &str, spec: &str) -> ModDef {
        let spec = match self.mods.get(spec.split(':').next().unwrap_or("")) {
            Some(known) if !spec.contains('@') => match spec.split_once(':') {
                Some((_, default)) => format!("{known}:{default}"),
                None => known.clone(),
            },
            _ => spec.to_string(),
        };
        let Some((name, rest)) = spec.split_once('@') else { bad(at, format!("unknown modifier {spec}")) };
        let (place, values) = rest.split_once('=').unwrap_or((rest, ""));
        let (place, flag_default) = place.split_once(':').unwrap_or((place, "0"));
        let place = bits(at, place);
        let count: u32 = place.iter().map(|b| b.1 as u32).sum();
        if values.is_empty() {
            return ModDef {
                name: name.into(),
                bits: place,
                values: format!("&[Some(\"\"), Some(\".{}\")]", name.to_uppercase()),
                default: number(at, flag_default),
            };
        }
        let (values, default) = values.split_once(':').unwrap_or((values, "0"));
        let Some(def) = self.enums.get(values) else { bad(at, format!("unknown enum {values}")) };
        if def.values.len() > 1 << count {
            bad(at, format!("enum {values} does not fit {count} bits"));
        }
        let default = match def.idents.iter().find(|(i, _)| i == default) {
            Some(&(_, n)) => n as u8,
            None => number(at, default),
        };
        let default = if def.values.get(default as usize).is_some_and(|v| v.is_some()) {
            default
        } else {
            def.values.iter().position(|v| v.is_some()).unwrap_or(0) as u8
        };
        ModDef { name: name.into(), bits: place, values: format!("{}::VALUES", values), default }
    }

    fn finish(&mut self, mut form: FormDef) {
        let at = format!("{} ({})", form.at, form.name);
        let mut used = CONTROL | GUARD | OPCODE | 1 << 91;
        let fields = (form.slots.iter().map(|s| s.bits.clone()))
            .chain(form.slots.iter().flat_map(|s| [s.neg, s.abs, s.inv]).flatten().map(|b| vec![(b, 1)]))
            .chain(form.mods.iter().map(|m| m.bits.clone()));
        let mut variable = 0u128;
        for field in fields.filter(|f| !f.is_empty()) {
            let m = mask(&at, &field);
            if used & m != 0 {
                bad(&at, format!("bits {field:?} overlap another field"));
            }
            used |= m;
            variable |= m;
        }
        if form.fixed & variable != 0 {
            bad(&at, "fixed bits overlap a field");
        }
        form.fixed_mask = !(variable | CONTROL | GUARD);
        self.forms.push(form);
    }
}

/// The same slot in the uniform file.
fn uniform_slot(slot: &mut SlotDef) {
    match slot.kind.as_str() {
        "r" => {
            slot.kind = "u".into();
            for b in &mut slot.bits {
                b.1 = b.1.min(6);
            }
        }
        "p" => slot.kind = "up".into(),
        _ => {}
    }
    slot.reuse = None;
}

fn identifiers(text: &str) -> impl Iterator<Item = String> + '_ {
    // Inside {..} stand modifiers; inside {=Alias Rx Ry} slots after the first word.
    let mut skip = false;
    let cleaned: String = text
        .chars()
        .map(|c| {
            match c {
                '{' => skip = true,
                '}' | ' ' => skip = false,
                _ => {}
            }
            if skip { ' ' } else { c }
        })
        .collect();
    cleaned
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|w| !w.is_empty())
        .map(String::from)
        .collect::<Vec<_>>()
        .into_iter()
}

/// `"FADD{Ftz} Rd, <Pu:Pu, >Ra"` as the pieces of `form::Piece`.
fn pieces(form: &FormDef) -> String {
    let at = format!("{} ({})", form.at, form.name);
    let slot = |name: &str| form.slots.iter().position(|s| s.name == name);
    let chars: Vec<char> = form.text.chars().collect();
    let mut out = String::from("&[");
    let mut plain = String::new();
    let flush = |plain: &mut String, out: &mut String| {
        if !plain.is_empty() {
            let _ = write!(out, "Piece::Text({plain:?}), ");
            plain.clear();
        }
    };
    let mut i = 0;
    while i < chars.len() {
        let word_at = |from: usize| -> String {
            chars[from..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').collect()
        };
        match chars[i] {
            '{' => {
                let end = (i..chars.len()).find(|&j| chars[j] == '}').unwrap_or_else(|| bad(&at, "{ without }"));
                let name: String = chars[i + 1..end].iter().collect();
                flush(&mut plain, &mut out);
                if let Some(alias) = name.strip_prefix('=') {
                    let mut words = alias.split(' ');
                    let alias = words.next().unwrap_or("");
                    let slots: Vec<u8> =
                        words.map(|w| slot(w).unwrap_or_else(|| bad(&at, format!("no slot {w}"))) as u8).collect();
                    let _ = write!(out, "Piece::Alias(Alias::{alias}, &{slots:?}), ");
                } else {
                    match form.mods.iter().position(|m| m.name == name) {
                        Some(n) => {
                            let _ = write!(out, "Piece::Mod({n}), ");
                        }
                        None => bad(&at, format!("no modifier {name}")),
                    }
                }
                i = end + 1;
            }
            '<' => {
                flush(&mut plain, &mut out);
                let mut name = word_at(i + 1);
                if let Some(n) = slot(&name) {
                    let _ = write!(out, "Piece::If({n}), ");
                    i += name.len() + 2;
                } else {
                    bad(&at, format!("no slot {name}"));
                }
                name.clear();
            }
            '>' => {
                flush(&mut plain, &mut out);
                out.push_str("Piece::End, ");
                i += 1;
            }
            c if c.is_ascii_alphabetic() => {
                let word = word_at(i);
                match slot(&word) {
                    Some(n) => {
                        flush(&mut plain, &mut out);
                        i += word.len();
                        // A modifier that belongs to the operand: printed inside of its bars.
                        if chars.get(i) == Some(&'{') && chars.get(i + 1) == Some(&'.') {
                            let end =
                                (i..chars.len()).find(|&j| chars[j] == '}').unwrap_or_else(|| bad(&at, "{ without }"));
                            let name: String = chars[i + 2..end].iter().collect();
                            match form.mods.iter().position(|m| m.name == name) {
                                Some(m) => {
                                    let _ = write!(out, "Piece::SlotMod({n}, {m}), ");
                                }
                                None => bad(&at, format!("no modifier {name}")),
                            }
                            i = end + 1;
                            continue;
                        }
                        let suffix: String = if chars.get(i) == Some(&'.') {
                            chars[i..].iter().take_while(|c| **c == '.' || c.is_ascii_alphanumeric()).collect()
                        } else {
                            String::new()
                        };
                        if suffix.is_empty() {
                            let _ = write!(out, "Piece::Slot({n}), ");
                        } else {
                            let _ = write!(out, "Piece::SlotSuffix({n}, {suffix:?}), ");
                            i += suffix.len();
                        }
                    }
                    None => {
                        plain.push_str(&word);
                        i += word.len();
                    }
                }
            }
            c => {
                plain.push(c);
                i += 1;
            }
        }
    }
    flush(&mut plain, &mut out);
    out.push(']');
    out
}

fn option(o: Option<u8>) -> String {
    match o {
        Some(n) => format!("Some({n})"),
        None => "None".into(),
    }
}

fn slot_source(isa: &Isa, at: &str, slot: &SlotDef) -> String {
    let total: u8 = slot.bits.iter().map(|b| b.1).sum();
    let imm = |signed: bool, print: &str| {
        format!(
            "SlotKind::Imm {{ bits: {}, signed: {signed}, shift: {}, print: ImmPrint::{print} }}",
            total + slot.shift,
            slot.shift
        )
    };
    let kind = match slot.kind.as_str() {
        "r" => "SlotKind::Reg(File::Gpr)".into(),
        "u" => "SlotKind::Reg(File::Ugpr)".into(),
        "p" => "SlotKind::Reg(File::Pred)".into(),
        "up" => "SlotKind::Reg(File::Upred)".into(),
        "b" => "SlotKind::Reg(File::Bar)".into(),
        "const" => "SlotKind::Const".into(),
        "target" => "SlotKind::Target".into(),
        "hex" => imm(false, "Hex"),
        "shex" => imm(true, "Hex"),
        "dec" => imm(false, "Decimal"),
        "f32" => imm(false, "F32"),
        "f64" => imm(false, "F64High"),
        "f16" => imm(false, "F16x2"),
        "sr" => imm(false, "SpecialReg"),
        "swz" => imm(false, "Swizzle"),
        "sb" => imm(false, "Scoreboard"),
        other => bad(at, format!("slot {} has no kind ({other})", slot.name)),
    };
    let role = match slot.role.as_str() {
        "def" => "Def",
        "usedef" => "UseDef",
        _ => "Use",
    };
    let width = match slot.width.split_once(':') {
        Some((name, table)) => match isa.widths.get(table) {
            Some(counts) => format!("Width::By(ModName::{name}, {counts})"),
            None => bad(at, format!("unknown width table {table}")),
        },
        None => format!("Width::Fixed({})", slot.width),
    };
    format!(
        "Slot {{ name: SlotName::{}, kind: {kind}, role: Role::{role}, bits: &{:?}, width: {width}, neg: {}, abs: {}, inv: {}, reuse: {}, default_inv: {}, default_reg: {}, shift: {} }}",
        slot.name,
        slot.bits,
        option(slot.neg),
        option(slot.abs),
        option(slot.inv),
        option(slot.reuse),
        slot.default_inv,
        option(slot.default_reg),
        slot.shift
    )
}

fn main() {
    println!("cargo:rerun-if-changed=isa");
    println!("cargo:rerun-if-changed=build.rs");
    let mut isa = Isa::default();
    let mut files: Vec<_> = fs::read_dir("isa").expect("isa/").map(|f| f.expect("isa/").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "isa"));
    // common.isa first: it defines what the others use.
    files.sort_by_key(|f| (f.file_stem().is_none_or(|s| s != "common"), f.clone()));
    for definitions in [true, false] {
        for file in &files {
            let name = file.display().to_string();
            let text = fs::read_to_string(file).unwrap_or_else(|e| bad(&name, e));
            isa.parse(&name, &text, definitions);
        }
    }
    let mut seen = BTreeSet::new();
    for form in &isa.forms {
        if !seen.insert(&form.name) {
            bad(&form.at, format!("{} defined twice", form.name));
        }
    }
    let slot_names: BTreeSet<&str> = isa.forms.iter().flat_map(|f| &f.slots).map(|s| s.name.as_str()).collect();
    let mod_names: BTreeSet<&str> = isa.forms.iter().flat_map(|f| &f.mods).map(|m| m.name.as_str()).collect();

    let mut out = String::new();
    let names = |out: &mut String, doc: &str, name: &str, list: &BTreeSet<&str>| {
        let _ = writeln!(
            out,
            "/// {doc}\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\n#[repr(u8)]\n#[allow(missing_docs)]\npub enum {name} {{"
        );
        for n in list {
            let _ = writeln!(out, "    {n},");
        }
        out.push_str("}\n");
        let _ = writeln!(
            out,
            "impl {name} {{\n    /// The name as text.\n    pub const fn name(self) -> &'static str {{\n        match self {{"
        );
        for n in list {
            let _ = writeln!(out, "            {name}::{n} => {n:?},");
        }
        out.push_str("        }\n    }\n}\n");
    };
    names(&mut out, "Name of an operand slot.", "SlotName", &slot_names);
    names(&mut out, "Name of a modifier field.", "ModName", &mod_names);
    out.push_str("use crate::enums::*;\n");
    out.push_str("/// Every form.\npub static FORMS: &[Form] = &[\n");
    for form in &isa.forms {
        let slots: Vec<String> = form.slots.iter().map(|s| slot_source(&isa, &form.at, s)).collect();
        let mods: Vec<String> = form
            .mods
            .iter()
            .map(|m| {
                format!(
                    "ModField {{ name: ModName::{}, bits: &{:?}, values: {}, default: {} }}",
                    m.name, m.bits, m.values, m.default
                )
            })
            .collect();
        let effects: Vec<String> = form.effects.iter().map(|e| format!("{e}: true")).collect();
        let rest = if effects.len() == 5 { "" } else { "..NO_EFFECTS" };
        let _ = writeln!(
            out,
            "    Form {{ name: {:?}, mnemonic: {:?}, sm: {:?}, fixed: {:#x}, mask: {:#x}, uniform_guard: {}, slots: &[{}], mods: &[{}], syntax: {}, class: Class::{}, effects: Effects {{ {}{}{rest} }} }},",
            form.name,
            form.mnemonic,
            form.sm,
            form.fixed,
            form.fixed_mask,
            form.uniform,
            slots.join(", "),
            mods.join(", "),
            pieces(form),
            form.class,
            effects.join(", "),
            if effects.is_empty() || rest.is_empty() { "" } else { ", " }
        );
    }
    out.push_str("];\n");

    // Decode index: opcode bits 11:0 and bit 91 -> a run of forms, those with more fixed bits first.
    let mut by_opcode: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (n, form) in isa.forms.iter().enumerate() {
        let key = (form.fixed & 0xfff) as usize | ((form.fixed >> 91 & 1) as usize) << 12;
        by_opcode.entry(key).or_default().push(n);
    }
    let mut index = vec![(0u16, 0u8); 8192];
    let mut list: Vec<usize> = Vec::new();
    for (key, mut forms) in by_opcode {
        forms.sort_by_key(|&n| (std::cmp::Reverse(isa.forms[n].fixed_mask.count_ones()), n));
        for (i, &a) in forms.iter().enumerate() {
            for &b in &forms[i + 1..] {
                let (fa, fb) = (&isa.forms[a], &isa.forms[b]);
                let both = fa.fixed_mask & fb.fixed_mask;
                let sm_apart = fa.sm.1 < fb.sm.0 || fb.sm.1 < fa.sm.0;
                // Apart too if the one fixes a modifier of the other to a value that this other does not have.
                let excluded = |one: &FormDef, other: &FormDef| {
                    other.mods.iter().any(|m| {
                        let place = mask(&other.at, &m.bits);
                        let values = isa.enums.get(m.values.trim_end_matches("::VALUES"));
                        let value = m.bits.iter().rev().fold(0, |v, b| v << b.1 | one.fixed >> b.0 & ((1 << b.1) - 1));
                        one.fixed_mask & place == place
                            && values.is_some_and(|e| e.values.get(value as usize).is_none_or(|v| v.is_none()))
                    })
                };
                if fa.fixed & both == fb.fixed & both && !sm_apart && !excluded(fa, fb) && !excluded(fb, fa) {
                    bad(&fa.at, format!("{} and {} can be the same word", fa.name, fb.name));
                }
            }
        }
        index[key] = (list.len() as u16, forms.len() as u8);
        list.extend(forms);
    }
    let _ = writeln!(
        out,
        "/// For each opcode (bits 11:0, bit 91 above them): where its forms begin in [`DECODE_LIST`], and how many.\npub static DECODE_INDEX: &[(u16, u8); 8192] = &{index:?};"
    );
    let _ = writeln!(out, "/// Form numbers, grouped by opcode.\npub static DECODE_LIST: &[u16] = &{list:?};");
    let mut by_mnemonic: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (n, form) in isa.forms.iter().enumerate() {
        by_mnemonic.entry(&form.mnemonic).or_default().push(n);
    }
    let list: Vec<String> = by_mnemonic.iter().map(|(name, forms)| format!("({name:?}, &{forms:?})")).collect();
    let _ = writeln!(
        out,
        "/// Form numbers by mnemonic, sorted.\npub static BY_MNEMONIC: &[(&str, &[u16])] = &[{}];",
        list.join(", ")
    );
    let dir = env::var("OUT_DIR").expect("OUT_DIR");
    fs::write(Path::new(&dir).join("tables.rs"), out).expect("writing tables");

    let mut out = String::new();
    for (n, form) in isa.forms.iter().enumerate() {
        let doc = form.text.replace('[', "\\[").replace('<', "\\<");
        let _ = writeln!(out, "/// `{}`\npub const {}: FormId = FormId({n});", doc.replace('\\', ""), form.name);
    }
    fs::write(Path::new(&dir).join("forms.rs"), out).expect("writing forms");

    let mut out = String::new();
    for (name, def) in &isa.enums {
        let _ = writeln!(out, "/// Values of the enumeration `{name}`.\n#[allow(missing_docs)]\npub mod {name} {{");
        for (ident, n) in &def.idents {
            let ident = ident.to_uppercase();
            let ident = if ident.starts_with(|c: char| c.is_ascii_digit()) { format!("_{ident}") } else { ident };
            let _ = writeln!(out, "    pub const {ident}: u8 = {n};");
        }
        let _ = writeln!(
            out,
            "    /// The text of each value.\n    pub static VALUES: &[Option<&str>] = &{:?};\n}}",
            def.values
        );
    }
    fs::write(Path::new(&dir).join("enums.rs"), out).expect("writing enums");
}
