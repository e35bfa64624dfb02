//! What an assembler leaves between dependent instructions: reads functions (words in hexadecimal, one a line, an empty
//! line between functions) and prints for each pair of classes the shortest distance in cycles within a block, for
//! producers that set no scoreboard; with `table` what the latency tables say beside it; with `fine` by mnemonic. A table of
//! latencies must never be below what is left.

use sass::codec::decode;
use sass::form::Role;
use sass::inst::Inst;
use sass::latency::{self, Latency};
use sass::reg::{File, Reg};
use std::collections::BTreeMap;
use std::io::BufRead;

fn main() {
    let fine = std::env::args().any(|a| a == "fine");
    // Beside each distance what the table says.
    let slack = std::env::args().any(|a| a == "table");
    let mut seen: BTreeMap<String, (u32, u32, String)> = BTreeMap::new();
    let mut block: Vec<(Inst, u32)> = Vec::new();
    let mut time = 0u32;
    let mut targets = Vec::new();
    let lines: Vec<String> = std::io::stdin().lock().lines().map_while(Result::ok).collect();
    // Branch targets, so that no pair spans one.
    for (n, line) in lines.iter().enumerate() {
        let decoded = u128::from_str_radix(line, 16).ok().map(|word| decode(word, 90));
        for op in decoded.iter().filter_map(|d| d.known()).flat_map(|inst| &inst.operands) {
            if let sass::inst::Value::Target(distance) = op.value {
                targets.push(n as i64 + 1 + distance.get() / 16);
            }
        }
    }
    targets.sort();
    for (n, line) in lines.iter().enumerate() {
        let inst = u128::from_str_radix(line, 16).ok().and_then(|w| decode(w, 90).known().cloned());
        let Some(inst) = inst else {
            block.clear();
            continue;
        };
        if targets.binary_search(&(n as i64)).is_ok() {
            block.clear();
        }
        let name = |i: &Inst| if fine { i.form().mnemonic.to_string() } else { format!("{:?}", i.form().class) };
        let mut note = |kind: &str, key: String, distance: u32, text: String| {
            let entry = seen.entry(format!("{kind} {key}")).or_insert((u32::MAX, 0, String::new()));
            entry.1 += 1;
            if distance < entry.0 {
                entry.0 = distance;
                entry.2 = text;
            }
        };
        let overlap = |a: Reg, aw: u8, b: Reg, bw: u8| {
            a.file() == b.file()
                && !a.is_const()
                && !b.is_const()
                && a.index() < b.index() + bw as u32
                && b.index() < a.index() + aw as u32
        };
        for r in inst.regs() {
            if r.reg.is_const() {
                continue;
            }
            'back: for (p, at) in block.iter().rev() {
                for d in p.regs() {
                    if !overlap(d.reg, d.width, r.reg, r.width) {
                        continue;
                    }
                    let slot = |i: &Inst, s: Option<u8>| {
                        s.map_or("guard".to_string(), |s| i.form().slots[s as usize].name.name().to_string())
                    };
                    let text = format!(
                        "{} -> {}",
                        sass::text::print(p, 0, &sass::text::NoLabels),
                        sass::text::print(&inst, 0, &sass::text::NoLabels)
                    );
                    match (d.def, r.def) {
                        (true, false) => {
                            if let (Some(d_slot), true) = (d.slot, slack) {
                                if let Latency::Fixed(n) = latency::raw(p, d_slot, &inst, r.slot, 90) {
                                    let file = format!("{:?}", r.reg.file());
                                    let (a, b) = (p.form().class, inst.form().class);
                                    let how = if r.slot.is_none() { "guard" } else { "" };
                                    note("RAW", format!("{file} {a:?} -> {b:?} {how} table {n}"), time - at, text);
                                }
                            } else if p.ctrl.write_sb.is_none() {
                                let use_slot = if r.slot.is_none() { "guard" } else { "" };
                                let wide = if name(&inst) == "FmaWide" { slot(&inst, r.slot) } else { String::new() };
                                let hi = if name(p) == "FmaWide" && r.reg.index() != d.reg.index() { "hi" } else { "" };
                                note(
                                    "RAW",
                                    format!("{:?} {}{hi} -> {}{wide} {use_slot}", r.reg.file(), name(p), name(&inst)),
                                    time - at,
                                    text,
                                );
                            }
                            break 'back;
                        }
                        (true, true) if slack => {
                            if let (Some(first), Some(second)) = (d.slot, r.slot) {
                                let file = format!("{:?}", r.reg.file());
                                let (a, b) = (p.form().class, inst.form().class);
                                let table = latency::waw(p, first, &inst, second, 90);
                                note("WAW", format!("{file} {a:?} -> {b:?} {table:?}"), time - at, text);
                            }
                            break 'back;
                        }
                        (true, true) if d.slot.is_some_and(|s| p.form().slots[s as usize].role != Role::Use) => {
                            if p.ctrl.write_sb.is_none() {
                                note(
                                    "WAW",
                                    format!("{:?} {} -> {}", r.reg.file(), name(p), name(&inst)),
                                    time - at,
                                    text,
                                );
                            }
                            break 'back;
                        }
                        (false, true) if slack && r.reg.file() != File::Gpr => {
                            if let Some(second) = r.slot {
                                let file = format!("{:?}", r.reg.file());
                                let (a, b) = (p.form().class, inst.form().class);
                                let table = latency::war(p, d.slot, &inst, second, 90);
                                let how = if d.slot.is_none() { "guard" } else { "" };
                                note("WAR", format!("{file} {a:?} {how} -> {b:?} {table:?}"), time - at, text);
                            }
                        }
                        (false, true) if p.ctrl.read_sb.is_none() && p.ctrl.write_sb.is_none() => {
                            note("WAR", format!("{:?} {} -> {}", r.reg.file(), name(p), name(&inst)), time - at, text);
                        }
                        _ => {}
                    }
                }
            }
        }
        if let Some((p, at)) = block.last() {
            note(
                "NEXT",
                format!("{} -> {}", name(p), name(&inst)),
                time - at,
                sass::text::print(p, 0, &sass::text::NoLabels),
            );
        }
        let stall = if inst.ctrl.stall == 0 { 16 } else { inst.ctrl.stall as u32 };
        let ends = inst.form().effects.flow;
        block.push((inst, time));
        time += stall;
        if ends {
            block.clear();
        }
    }
    for (key, (distance, count, text)) in seen {
        println!("{key}: {distance} ({count}) {text}");
    }
}
