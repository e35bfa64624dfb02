//! Prints every form: its text, its operand slots with their roles and places, its modifiers with their values.
//! The reference page of the ISA is this output: `cargo run -p sassafras-sass --example forms`.

use sass::form::{Bits, Form, Piece, Role, SlotKind, Width};

fn bits(b: Bits) -> String {
    if b.is_empty() {
        return "none".into();
    }
    b.iter().map(|(from, n)| format!("{from}+{n}")).collect::<Vec<_>>().join(",")
}

fn syntax(form: &Form) -> String {
    let slot = |n: u8| form.slots[n as usize].name.name();
    let field = |n: u8| form.mods[n as usize].name.name();
    let mut out = String::new();
    for piece in form.syntax {
        match *piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Mod(n) => out.push_str(&format!("{{{}}}", field(n))),
            Piece::Slot(n) => out.push_str(slot(n)),
            Piece::SlotSuffix(n, suffix) => out.push_str(&format!("{}{suffix}", slot(n))),
            Piece::SlotMod(n, m) => out.push_str(&format!("{}{{{}}}", slot(n), field(m))),
            Piece::Alias(alias, slots) => {
                let names: Vec<&str> = slots.iter().map(|&n| slot(n)).collect();
                out.push_str(&format!("{{={alias:?} {}}}", names.join(" ")));
            }
            Piece::Address(slots, suffix, _) => {
                let names: Vec<&str> = slots.iter().map(|&n| slot(n)).collect();
                out.push_str(&format!("{{=Address {} {suffix:?}}}", names.join(" ")));
            }
            Piece::If(n) => out.push_str(&format!("<{}? ", slot(n))),
            Piece::End => out.push('>'),
        }
    }
    out
}

fn main() {
    println!("{} forms\n", sass::tables::FORMS.len());
    for form in &sass::tables::FORMS {
        let (first, last) = form.sms[0];
        let last = if last == 999 { String::new() } else { last.to_string() };
        println!("{}  sm_{}..{last}  {:?}  {}", form.name, first, form.class, syntax(form));
        for slot in form.slots {
            let role = match slot.role {
                Role::Use => "use",
                Role::Def => "def",
                Role::UseDef => "use+def",
            };
            let kind = match slot.kind {
                SlotKind::Reg(file) => format!("{file:?}"),
                SlotKind::Imm { bits, signed, print, .. } => {
                    format!("imm{bits}{} {print:?}", if signed { " signed" } else { "" })
                }
                SlotKind::Const => "c[bank][offset]".into(),
                SlotKind::Target => "target".into(),
            };
            let width = match slot.width {
                Width::Fixed(1) => String::new(),
                Width::Fixed(n) => format!(" x{n}"),
                Width::By(name, counts) => format!(" x{counts:?} by {}", name.name()),
                Width::ByTwo(a, b, counts) => format!(" x{counts:?} by {} and {}", a.name(), b.name()),
                Width::Sum(terms) => format!(" sum of {} modifiers", terms.len()),
                Width::Dealt { by, own, .. } => {
                    format!(" sum of {} modifiers, or dealt out by {}", own.len(), by.name())
                }
                Width::Named { mask, others: false, .. } => format!(" x first of {}", mask.name()),
                Width::Named { mask, others: true, .. } => format!(" x rest of {}", mask.name()),
            };
            let marks: String = [(slot.neg, '-'), (slot.abs, '|'), (slot.inv, '~')]
                .iter()
                .filter(|m| m.0.is_some())
                .map(|m| m.1)
                .collect();
            let default = if slot.default_inv { " default inverted" } else { "" };
            println!("    {:8} {role} {kind}{width} {marks} @{}{default}", slot.name.name(), bits(slot.bits));
        }
        for field in form.mods {
            let values: Vec<String> = field
                .values
                .iter()
                .enumerate()
                .filter_map(|(n, v)| v.map(|v| format!("{n}={}", if v.is_empty() { "_" } else { v })))
                .collect();
            println!(
                "    {{{}}} @{} default {}: {}",
                field.name.name(),
                bits(field.bits),
                field.default,
                values.join(" ")
            );
        }
    }
}
