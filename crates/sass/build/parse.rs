//! Reads the `.isa` files.

use super::shapes::shapes;
use std::collections::BTreeMap;

use super::{CONTROL, EnumDef, FormDef, GUARD, Isa, ModDef, OPCODE, SlotDef, bad, bits, mask, number};

/// Attributes of a slot: `def use usedef r u p up b imm.. const target`, bits, `-63 |62 ~90 xN x:NAME reuse=1 inv shift=2`.
fn slot_attributes(at: &str, slot: &mut SlotDef, words: &[&str]) {
    for word in words {
        let (head, rest) = word.split_at(1);
        match *word {
            "def" | "use" | "usedef" => slot.role = word.to_string(),
            "r" | "u" | "p" | "up" | "b" | "const" | "target" | "hex" | "shex" | "f32" | "f64" | "f16" | "h16"
            | "bh16" | "dec" | "sr" | "swz" | "sb" | "gsb" | "set" | "sr75" | "sr80" | "sr100" | "sr110" | "sr120" => {
                slot.kind = word.to_string();
            }
            "inv" => slot.default_inv = true,
            "spaced" => slot.spaced = true,
            _ if word.starts_with("xor=") => slot.xor = number(at, &word[4..]),
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

/// `80..`, `80..90,103`.
fn chips(at: &str, text: &str) -> Vec<(u16, u16)> {
    let range = |part: &str| {
        let (a, b) = part.split_once("..").unwrap_or((part, part));
        (number(at, a), if b.is_empty() { 999 } else { number(at, b) })
    };
    text.split(',').map(range).collect()
}

/// One form statement with everything that follows it, before the shapes are multiplied out.
struct Raw {
    at: String,
    head: Vec<String>,
    lines: Vec<(String, String)>,
}

impl Isa {
    /// Reads one file: with `definitions` its enumerations, slots and widths, else its forms.
    pub(crate) fn parse(&mut self, file: &str, text: &str, definitions: bool) {
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
            if definitions != matches!(words[0], "enum" | "width" | "slot" | "mod" | "wideuniform") {
                continue;
            }
            match words[0] {
                "wideuniform" => self.wide_from = number(&at, words[1]),
                "enum" => self.enumeration(&at, &words[1..]),
                "width" => {
                    let counts: Vec<u8> = words[2..].iter().map(|w| number(&at, w)).collect();
                    self.widths.insert(words[1].into(), counts);
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
                "without" => {
                    let sms = words.last().and_then(|w| w.strip_prefix("sm=")).map(|w| chips(&at, w));
                    let sms = sms.unwrap_or_else(|| bad(&at, "without NAME.. sm=.."));
                    for name in &words[1..words.len() - 1] {
                        self.without.push((at.clone(), name.to_string(), sms.clone()));
                    }
                }
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
            sms: vec![(75, 999)],
            class: class.into(),
            rank: if at.contains(".more.isa") { 2 } else { 1 },
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
                        base.sms = chips(at, value);
                    }
                    "only" => only = Some(value.split(',').map(String::from).collect()),
                    _ => bad(at, format!("unknown {key}")),
                }
            } else if word == "upguard" {
                base.upguard = true;
            } else if word == "first" {
                base.rank = 0;
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
                    "fix" | "rest" => {
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
                            if *first == "fix" {
                                base.explicit |= m;
                            }
                        }
                    }
                    // Bits that must be 0 where the shape has no field.
                    "zero" => rest.iter().for_each(|place| base.zero |= mask(at, &bits(at, place))),
                    name if self.slots.contains_key(name) => overrides.push((name.into(), rest)),
                    _ => bad(at, format!("unknown slot {first}")),
                }
            }
        }
        // `Name@85=enum%90..`: other chips lack the modifier.
        let mut mod_chips: Vec<(String, Vec<(u16, u16)>)> = Vec::new();
        for spec in &mods {
            let (spec, only) = spec.split_once('%').unwrap_or((spec, ""));
            let field = self.modifier(at, spec);
            if !only.is_empty() {
                mod_chips.push((field.name.clone(), chips(at, only)));
            }
            base.mods.push(field);
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
            for variant in lacking(&form, &mod_chips) {
                self.finish(variant);
            }
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
        let mut seen: Vec<Vec<(u8, u8)>> = Vec::new();
        for field in fields.filter(|f| !f.is_empty()) {
            let m = mask(&at, &field);
            // One field may be shown in two places.
            if used & m != 0 && !seen.contains(&field) {
                bad(&at, format!("bits {field:?} overlap another field"));
            }
            seen.push(field);
            used |= m;
            variable |= m;
        }
        if form.fixed & variable != 0 {
            bad(&at, "fixed bits overlap a field");
        }
        form.fixed_mask = !(variable | CONTROL | GUARD);
        form.explicit |= form.zero & !used & !form.fixed;
        if form.sms.iter().any(|s| s.1 >= self.wide_from) {
            for slot in form.slots.iter().filter(|s| s.kind == "u" && s.bits.len() == 1 && s.bits[0].1 == 6) {
                form.wide |= 3 << (slot.bits[0].0 + 6);
            }
            if form.wide & variable != 0 {
                bad(&at, "a uniform register that grows on later chips overlaps another field");
            }
        }
        self.forms.push(form);
    }
}

/// The form, and a variant for each set of chips that lack some of its modifiers.
fn lacking(form: &FormDef, mod_chips: &[(String, Vec<(u16, u16)>)]) -> Vec<FormDef> {
    let has = |sms: &[(u16, u16)], chip: u16| sms.iter().any(|&(a, b)| a <= chip && chip <= b);
    let mut sets: BTreeMap<Vec<&str>, Vec<(u16, u16)>> = BTreeMap::new();
    for chip in (75..=LAST_CHIP).filter(|&c| has(&form.sms, c)) {
        let lacks = mod_chips.iter().filter(|m| !has(&m.1, chip)).map(|m| m.0.as_str()).collect();
        let sms = sets.entry(lacks).or_default();
        let end = if chip == LAST_CHIP { 999 } else { chip };
        match sms.last_mut() {
            Some(last) if last.1 + 1 == chip => last.1 = end,
            _ => sms.push((chip, end)),
        }
    }
    let mut out = vec![form.clone()];
    for (lacks, sms) in sets.into_iter().filter(|(lacks, _)| !lacks.is_empty()) {
        let mut variant = FormDef { sms, ..form.clone() };
        variant.mods.retain(|m| !lacks.contains(&m.name.as_str()));
        for name in lacks {
            variant.text = variant.text.replace(&format!("{{{name}}}"), "").replace(&format!("{{.{name}}}"), "");
        }
        out.push(variant);
    }
    out
}

/// Chips of later numbers are as this one.
const LAST_CHIP: u16 = 130;

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
