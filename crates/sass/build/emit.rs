//! Writes the tables as Rust source.

use super::pool::{Pool, by_frequency, by_place, counts, pairs, write_lists};
use super::{FormDef, Isa, ModDef, OPCODE, SlotDef, bad, mask};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::{env, fs, path::Path};

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
                if let Some(address) = name.strip_prefix("=Address ") {
                    // `Ra.64 UR Imm`, `Ra.(Scale) Imm`: the register may have a suffix, or a modifier as one.
                    let mut suffix = "Suffix::Text(\"\")".to_string();
                    let hidden = match address.matches('?').count() {
                        0 => "HideZero::Never",
                        1 => "HideZero::Always",
                        _ => "HideZero::Wide",
                    };
                    let slots: Vec<u8> = address
                        .split(' ')
                        .map(|word| {
                            let word = word.trim_end_matches('?');
                            let (word, after) = word.split_at(word.find('.').unwrap_or(word.len()));
                            if let Some(name) = after.strip_prefix(".(").and_then(|a| a.strip_suffix(')')) {
                                let n = form.mods.iter().position(|m| m.name == name);
                                let n = n.unwrap_or_else(|| bad(&at, format!("no modifier {name}")));
                                suffix = format!("Suffix::Mod({n})");
                            } else if !after.is_empty() {
                                suffix = format!("Suffix::Text({after:?})");
                            }
                            slot(word).unwrap_or_else(|| bad(&at, format!("no slot {word}"))) as u8
                        })
                        .collect();
                    let _ = write!(out, "Piece::Address(&{slots:?}, {suffix}, {hidden}), ");
                } else if let Some(alias) = name.strip_prefix('=') {
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
        "cx" => imm(false, "Bindless"),
        "shex" => imm(true, "Hex"),
        "dec" => imm(false, "Decimal"),
        "f32" => imm(false, "F32"),
        "f64" => imm(false, "F64High"),
        "f16" => imm(false, "F16x2"),
        "h16" => imm(false, "F16"),
        "bh16" => imm(false, "Bf16"),
        "sr" => imm(false, "SpecialReg"),
        names if names.starts_with("sr") => imm(false, &format!("SpecialRegOf(crate::enums::{names}::VALUES)")),
        "swz" => imm(false, "Swizzle"),
        "sb" => imm(false, "Scoreboard"),
        "set" => imm(false, "Set"),
        "gsb" => imm(false, "GroupScoreboard"),
        other => bad(at, format!("slot {} has no kind ({other})", slot.name)),
    };
    let role = match slot.role.as_str() {
        "def" => "Def",
        "usedef" => "UseDef",
        _ => "Use",
    };
    let sum = slot.width.strip_prefix('+').map(|terms| {
        let term = |t: &str| match t.split_once(':') {
            Some((names, table)) => match (counts(isa, table), names.split_once(',')) {
                (Some(counts), None) => format!("Term::One(ModName::{names}, {counts})"),
                (Some(counts), Some((a, b))) => format!("Term::Two(ModName::{a}, ModName::{b}, {counts})"),
                (None, _) => bad(at, format!("unknown width table {table}")),
            },
            None if t.bytes().all(|b| b.is_ascii_digit()) => format!("Term::Always({t})"),
            None => format!("Term::One(ModName::{t}, &[0, 1])"),
        };
        let list = |terms: &str| format!("&[{}]", terms.split('+').map(term).collect::<Vec<_>>().join(", "));
        // Ra has the first of two operands, Rb the second.
        match terms.split_once('|').map(|(own, rest)| (own, rest.split_once('/'))) {
            None => format!("Width::Sum({})", list(terms)),
            Some((own, Some((by, other)))) => {
                let (own, other, second) = (list(own), list(other), slot.name == "Rb");
                format!("Width::Dealt {{ by: ModName::{by}, own: {own}, other: {other}, second: {second} }}")
            }
            Some((_, None)) => bad(at, format!("no other operand in {}", slot.width)),
        }
    });
    let width = match slot.width.split_once(':') {
        _ if let Some(sum) = sum => sum,
        Some((name, table)) => match counts(isa, table) {
            Some(counts) => match name.split_once(',') {
                Some((first, second)) => format!("Width::ByTwo(ModName::{first}, ModName::{second}, {counts})"),
                None => format!("Width::By(ModName::{name}, {counts})"),
            },
            None => bad(at, format!("unknown width table {table}")),
        },
        None => match slot.width.split_at_checked(1) {
            Some((which @ ("<" | ">"), mask)) => {
                let (mask, halves) = match mask.split_once(',') {
                    Some((mask, halves)) => (mask, format!("Some(ModName::{halves})")),
                    None => (mask, "None".into()),
                };
                format!("Width::Named {{ mask: SlotName::{mask}, halves: {halves}, others: {} }}", which == ">")
            }
            _ => format!("Width::Fixed({})", slot.width),
        },
    };
    format!(
        "Slot {{ name: SlotName::{}, kind: {kind}, role: Role::{role}, bits: {}, width: {width}, neg: {}, abs: {}, inv: {}, reuse: {}, default_inv: {}, default_reg: {}, blank: blank({kind}, {}, {}), shift: {}, xor: {}, spaced: {} }}",
        slot.name,
        pairs("BITS", &slot.bits),
        option(slot.neg),
        option(slot.abs),
        option(slot.inv),
        option(slot.reuse),
        slot.default_inv,
        option(slot.default_reg),
        option(slot.default_reg),
        slot.default_inv,
        slot.shift,
        slot.xor,
        slot.spaced
    )
}

/// The mnemonics of a form and its variants.
fn all_of(form: &FormDef) -> impl Iterator<Item = &str> {
    std::iter::once(form).chain(&form.variants).map(|f| f.mnemonic.as_str())
}

/// True if bits of a modifier's field are those of another field too, or fixed, so that the two may contradict each other.
fn shared(form: &FormDef) -> bool {
    const GUARD_AND_CONTROL: u128 = 0xf << 12 | !0 << 105;
    let mut taken = form.fixed_mask | form.wide | GUARD_AND_CONTROL;
    for slot in &form.slots {
        taken |= mask(&form.at, &slot.bits);
        taken |= [slot.neg, slot.abs, slot.inv].iter().flatten().fold(0, |bits, b| bits | 1 << b);
    }
    form.mods.iter().any(|m| {
        let field = mask(&form.at, &m.bits);
        let again = taken & field != 0;
        taken |= field;
        again
    })
}

/// Which of the slots are registers that are read, and written, and which are one register wide.
fn registers(form: &FormDef) -> String {
    let registers = |roles: &[&str]| -> u16 {
        let slot = |s: &SlotDef| {
            let role = if matches!(s.role.as_str(), "def" | "usedef") { s.role.as_str() } else { "use" };
            matches!(s.kind.as_str(), "r" | "u" | "p" | "up" | "b") && roles.contains(&role)
        };
        form.slots.iter().enumerate().filter(|(_, s)| slot(s)).fold(0, |mask, (n, _)| mask | 1 << n)
    };
    let (reads, writes) = (registers(&["use", "usedef"]), registers(&["def", "usedef"]));
    let single = form.slots.iter().enumerate().filter(|(_, s)| s.width == "1");
    let single = single.fold(0u16, |mask, (n, _)| mask | 1 << n);
    let implied = form.slots.iter().enumerate().filter(|(_, s)| s.bits.is_empty());
    let implied = implied.fold(0u16, |mask, (n, _)| mask | 1 << n);
    format!("Registers {{ reads: {reads:#x}, writes: {writes:#x}, single: {single:#x}, implied: {implied:#x} }}")
}

fn mod_source(m: &ModDef) -> String {
    format!(
        "ModField {{ name: ModName::{}, bits: {}, values: {}, default: {} }}",
        m.name,
        pairs("BITS", &m.bits),
        m.values,
        m.default
    )
}

/// The slots, the modifier fields and the mnemonics of all forms.
struct Pools {
    mnemonics: HashMap<String, usize>,
    slots: Pool,
    mods: Pool,
}

fn form_source(isa: &Isa, pools: &Pools, form: &FormDef) -> String {
    let slots = pools.slots.refer(form.slots.iter().map(|s| slot_source(isa, &form.at, s)));
    let mods = pools.mods.refer(form.mods.iter().map(mod_source));
    let registers = registers(form);
    let shared = shared(form);
    let effects: Vec<String> = form.effects.iter().map(|e| format!("{e}: true")).collect();
    let rest = if effects.len() == 5 { "" } else { "..NO_EFFECTS" };
    let need = OPCODE | 1 << 91 | form.explicit;
    let variants: Vec<String> = form.variants.iter().map(|v| form_source(isa, pools, v)).collect();
    format!(
        "Form {{ name: {:?}, mnemonic: text(&MNEMONIC_{}), sms: {}, fixed: {:#x}, need: {need:#x}, free: {:#x}, wide: {:#x}, uniform_guard: {}, registers: {registers}, shared: {shared}, slots: {slots}, mods: {mods}, syntax: {}, class: Class::{}, effects: Effects {{ {}{}{rest} }}, variants: &[{}] }}",
        form.name,
        pools.mnemonics[&form.mnemonic],
        pairs("CHIPS", &form.sms),
        form.fixed,
        form.fixed_mask & !need,
        form.wide,
        form.uniform || form.upguard,
        pieces(form),
        form.class,
        effects.join(", "),
        if effects.is_empty() || rest.is_empty() { "" } else { ", " },
        variants.join(", ")
    )
}

/// True if the two cannot be the same word although their fixed bits allow it.
fn apart(isa: &Isa, fa: &FormDef, fb: &FormDef) -> bool {
    let values = |m: &ModDef| isa.enums.get(m.values.trim_end_matches("::VALUES"));
    // The one fixes a modifier of the other to a value that this other does not have.
    let excluded = |one: &FormDef, other: &FormDef| {
        other.mods.iter().any(|m| {
            let place = mask(&other.at, &m.bits);
            let value = m.bits.iter().rev().fold(0, |v, b| v << b.1 | one.fixed >> b.0 & ((1 << b.1) - 1));
            one.fixed_mask & place == place
                && values(m).is_some_and(|e| e.values.get(value as usize).is_none_or(|v| v.is_none()))
        })
    };
    // They have a modifier in the same place without a common value.
    let disjoint = fa.mods.iter().any(|m| {
        fb.mods.iter().filter(|n| n.bits == m.bits).any(|n| {
            let (Some(x), Some(y)) = (values(m), values(n)) else { return false };
            x.values.iter().zip(&y.values).all(|(x, y)| x.is_none() || y.is_none())
        })
    });
    disjoint || excluded(fa, fb) || excluded(fb, fa)
}

/// A run of bits that lies in one half of the word: first bit, number of bits; no bits where it does not.
fn run(bits: &[(u8, u8)]) -> (u8, u8) {
    match *bits {
        [(from, count)] if count < 64 && (from >= 64 || from + count <= 64) => (from, count),
        _ => (0, 0),
    }
}

/// The mask of a modifier of so many bits; 0, which leaves it to the description, where they are more than a byte.
fn mod_mask(count: u8) -> u8 {
    if count > 8 { 0 } else { ((1u32 << count) - 1) as u8 }
}

/// What decoding needs of a form on chips whose fields of uniform registers are wide or not: a `form::Candidate`.
fn candidate(isa: &Isa, n: usize, v: usize, form: &FormDef, wide: bool) -> String {
    let need = OPCODE | 1 << 91 | form.explicit;
    let free = form.fixed_mask & !need;
    let (need, free) = if wide { (need & !form.wide, free & !form.wide) } else { (need, free) };
    let none = |o: Option<u8>| o.unwrap_or(128);
    let (mut plain, mut marked, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    let (mut constants, mut others) = (Vec::new(), Vec::new());
    for (to, slot) in form.slots.iter().enumerate() {
        let (from, mut count) = run(&slot.bits);
        let marks = [slot.neg, slot.abs, slot.inv];
        let file = ["r", "u", "p", "up", "b"].iter().position(|k| *k == slot.kind);
        match (file, slot.kind.as_str()) {
            (Some(file), kind) if count != 0 => {
                if kind == "u" && wide && count == 6 {
                    count = 8;
                }
                let mask = ((1u32 << count) - 1) as u8;
                // Of uniform registers the highest number is URZ. Of others this changes nothing.
                let top = if kind == "u" { mask } else { 255 };
                let read = format!(
                    "RegRead {{ file: {file} << 28, to: {to}, from: {from}, mask: {mask}, xor: {}, top: {top} }}",
                    slot.xor
                );
                match marks {
                    [None, None, None] => plain.push(read),
                    marks => marked.push(format!("({read}, {:?})", marks.map(none))),
                }
            }
            (None, "const") => match slot.bits[..] {
                [(from, count), (then, bank)] if from + count == then && run(&[(from, count + bank)]).1 != 0 => {
                    constants.push(format!(
                        "ConstRead {{ to: {to}, from: {from}, count: {count}, bank: {bank}, shift: {}, marks: {:?} }}",
                        slot.shift,
                        marks.map(none)
                    ));
                }
                _ => others.push(to),
            },
            (None, kind) if kind != "target" && count != 0 && marks == [None; 3] => numbers.push(format!(
                "NumberRead {{ to: {to}, from: {from}, count: {count}, signed: {}, shift: {} }}",
                kind == "shex",
                slot.shift
            )),
            _ => others.push(to),
        }
    }
    let mods: Vec<(u8, u8)> = form.mods.iter().map(|m| run(&m.bits)).map(|(from, n)| (from, mod_mask(n))).collect();
    let split: Vec<usize> = (0..mods.len()).filter(|n| mods[*n].1 == 0).collect();
    // Modifiers that lack values: `u64::MAX` in place of a set of values asks the description.
    let checks = form.mods.iter().enumerate().filter_map(|(i, m)| {
        let count: u32 = m.bits.iter().map(|b| b.1 as u32).sum();
        let def = isa.enums.get(m.values.trim_end_matches("::VALUES"))?;
        let full = def.values.len() == 1 << count && def.values.iter().all(|v| v.is_some());
        if full {
            return None;
        }
        let set = def.values.iter().take(64).enumerate().fold(0u64, |s, (n, v)| s | (u64::from(v.is_some()) << n));
        Some((i as u8, if count <= 6 && run(&m.bits).1 != 0 { set } else { u64::MAX }))
    });
    let checks: Vec<(u8, u64)> = checks.collect();
    let halves = |bits: u128| [bits as u64, (bits >> 64) as u64];
    format!(
        "Candidate {{ need: {:?}, fixed: {:?}, free: {:?}, rest: {:?}, form: {n}, variant: {v}, guard: {}, operands: {}, plain: &[{}], marked: &[{}], numbers: &[{}], constants: &[{}], others: &{others:?}, mods: &{mods:?}, split: &{split:?}, checks: &{checks:?} }}",
        halves(need),
        halves(form.fixed & need),
        halves(free),
        halves(form.fixed & free),
        if form.uniform || form.upguard { 3 } else { 2 },
        form.slots.len(),
        plain.join(", "),
        marked.join(", "),
        numbers.join(", "),
        constants.join(", ")
    )
}

/// The decode index: for each chip, opcode bits 11:0 and bit 91 -> a run of forms, those that need more bits first.
fn index(isa: &Isa, out: &mut String) {
    let chips = [75u16, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];
    let mut tables: Vec<Vec<(u16, u16)>> = Vec::new();
    let mut list: Vec<String> = Vec::new();
    let mut by_chip = Vec::new();
    let mut known: BTreeMap<(bool, Vec<(usize, usize)>), u16> = BTreeMap::new();
    for chip in chips {
        let wide = chip >= isa.wide_from;
        let mut by_opcode: BTreeMap<usize, Vec<(usize, usize, &FormDef)>> = BTreeMap::new();
        for (n, base) in isa.forms.iter().enumerate() {
            for (v, form) in std::iter::once(base).chain(&base.variants).enumerate() {
                if form.sms.iter().any(|s| s.0 <= chip && chip <= s.1) {
                    let key = (form.fixed & 0xfff) as usize | ((form.fixed >> 91 & 1) as usize) << 12;
                    by_opcode.entry(key).or_default().push((n, v, form));
                }
            }
        }
        let mut table = vec![(0u16, 0u16); 8192];
        for (key, mut forms) in by_opcode {
            forms.sort_by_key(|f| (f.2.rank, Reverse(f.2.explicit.count_ones()), f.0, f.1));
            for (i, a) in forms.iter().enumerate() {
                for b in &forms[i + 1..] {
                    let both = a.2.fixed_mask & b.2.fixed_mask;
                    if a.2.rank == b.2.rank
                        && a.2.fixed & both == b.2.fixed & both
                        && a.2.explicit == b.2.explicit
                        && !apart(isa, a.2, b.2)
                    {
                        bad(&a.2.at, format!("{} and {} can be the same word on sm_{chip}", a.2.name, b.2.name));
                    }
                }
            }
            let names: Vec<(usize, usize)> = forms.iter().map(|f| (f.0, f.1)).collect();
            let start = *known.entry((wide, names)).or_insert_with(|| {
                list.extend(forms.iter().map(|f| candidate(isa, f.0, f.1, f.2, wide)));
                (list.len() - forms.len()) as u16
            });
            table[key] = (start, forms.len() as u16);
        }
        let n = tables.iter().position(|t| *t == table).unwrap_or_else(|| {
            tables.push(table);
            tables.len() - 1
        });
        by_chip.push((chip, n as u8));
    }
    // By number, each chip as the last known before it.
    let of = |sm: u16| by_chip.iter().rev().find(|c| c.0 <= sm).map_or(0, |c| c.1);
    let by_number: Vec<u8> = (0..=255).map(of).collect();
    let _ = writeln!(
        out,
        "/// Which table of [`DECODE_INDEX`] is that of a chip, by its number.\npub static DECODE_CHIP: [u8; 256] = {by_number:?};"
    );
    let _ = writeln!(
        out,
        "/// For each opcode (bits 11:0, bit 91 above them): where its forms begin in [`DECODE_LIST`], and how many.\npub static DECODE_INDEX: &[&[(u16, u16); 8192]] = &["
    );
    for table in tables {
        let _ = writeln!(out, "    &{table:?},");
    }
    let _ = writeln!(
        out,
        "];\n/// Forms and their variants, grouped by opcode.\npub static DECODE_LIST: &[Candidate] = &[\n    {},\n];",
        list.join(",\n    ")
    );
}

/// All tables, into files of the folder for build outputs.
pub(crate) fn write(isa: &Isa) {
    let all = || isa.forms.iter().flat_map(|f| std::iter::once(f).chain(&f.variants));
    let slot_names: BTreeSet<&str> = all().flat_map(|f| &f.slots).map(|s| s.name.as_str()).collect();
    let mod_names: BTreeSet<&str> = all().flat_map(|f| &f.mods).map(|m| m.name.as_str()).collect();

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
    let most = |count: &dyn Fn(&FormDef) -> usize| all().map(count).max().unwrap_or(0);
    let _ = writeln!(
        out,
        "/// The first chip on which fields of uniform registers have 8 bits where 6 are written.\npub const WIDE_UNIFORM_FROM: u16 = {};\n/// No form has more operands.\npub const MAX_OPERANDS: usize = {};\n/// No form has more modifiers.\npub const MAX_MODS: usize = {};",
        isa.wide_from,
        most(&|f| f.slots.len()),
        most(&|f| f.mods.len())
    );
    out.push_str("use crate::enums::*;\n");
    let slots = |f: &FormDef| f.slots.iter().map(|s| slot_source(isa, &f.at, s)).collect();
    let mods = |f: &FormDef| f.mods.iter().map(mod_source).collect();
    let pools = Pools {
        mnemonics: by_frequency(all().map(|f| f.mnemonic.clone())),
        slots: Pool::new("SLOTS", "Slot", all().map(slots)),
        mods: Pool::new("MODS", "ModField", all().map(mods)),
    };
    write_lists(isa, &mut out);
    for (n, mnemonic) in by_place(&pools.mnemonics).into_iter().enumerate() {
        let _ = writeln!(out, "static MNEMONIC_{n}: [u8; {}] = *b{mnemonic:?};", mnemonic.len());
    }
    pools.slots.write("Every operand slot that some form has", &mut out);
    pools.mods.write("Every modifier field that some form has", &mut out);
    let count = isa.forms.len();
    let _ = writeln!(out, "/// Every form.\npub static FORMS: [Form; {count}] = [");
    for form in &isa.forms {
        let _ = writeln!(out, "    {},", form_source(isa, &pools, form));
    }
    out.push_str("];\n");
    // Passes ask for these more often than for anything else of a form.
    let _ = writeln!(out, "/// [`Form::registers`] of every form.\npub static REGISTERS: [Registers; {count}] = [");
    for form in &isa.forms {
        let _ = writeln!(out, "    {},", registers(form));
    }
    out.push_str("];\n");
    index(isa, &mut out);
    let mut by_mnemonic: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (n, form) in isa.forms.iter().enumerate() {
        for mnemonic in all_of(form) {
            let list = by_mnemonic.entry(mnemonic).or_default();
            if list.last() != Some(&n) {
                list.push(n);
            }
        }
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
            "    static TEXTS: [Option<&str>; {}] = {:?};\n    /// The text of each value.\n    pub static VALUES: &[Option<&str>] = &TEXTS;\n}}",
            def.values.len(),
            def.values
        );
    }
    fs::write(Path::new(&dir).join("enums.rs"), out).expect("writing enums");
}
