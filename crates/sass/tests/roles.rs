//! Roles and widths of operands against the vendor's nvdisasm: what its life ranges say that an instruction of each form reads
//! and writes. And that the latency class of each form is deliberate.

use sass::codec::{Decoded, decode, encode};
use sass::form::{FormId, Role, SlotKind};
use sass::inst::{Inst, Operand, Value};
use sass::latency::Class;
use sass::reg::{File, Reg};
use sass::text::{NoLabels, print};
use std::collections::{BTreeMap, BTreeSet};
use testkit::isa::{disassemble, meant, number, registers};
use testkit::{Random, Scratch, oracle};

/// An instruction of the form with registers that do not overlap, and random modifiers; None if chance has found none.
fn example(id: FormId, sm: u16, random: &mut Random) -> Option<u128> {
    let variant = id.get().variant_on(sm)?;
    let form = id.get().variant(variant);
    for tries in 0..60 {
        let mut inst = Inst::new(id);
        inst.variant = variant;
        inst.mods = form.modifiers();
        for (field, value) in form.mods.iter().zip(&mut inst.mods) {
            let legal: Vec<u8> =
                (0..field.values.len()).filter(|&n| field.values[n].is_some()).map(|n| n as u8).collect();
            if tries > 5 || random.bits() & 1 == 0 {
                *value = legal[random.index(legal.len())];
            }
        }
        let mut next = BTreeMap::from([(File::Gpr, 8u8), (File::Ugpr, 4), (File::Pred, 0), (File::Upred, 0)]);
        inst.operands = form.operands();
        for (n, slot) in form.slots.iter().enumerate() {
            if slot.bits.is_empty() {
                continue;
            }
            let width: u8 = slot.bits.iter().map(|b| b.1).sum();
            inst.operands[n] = match slot.kind {
                SlotKind::Reg(file) => {
                    let Some(at) = next.get_mut(&file) else { continue };
                    let take = match file {
                        File::Gpr => inst.slot_width(n).max(8),
                        File::Ugpr => 4,
                        _ => 1,
                    };
                    let index = (*at).min(if width < 8 { (1 << width) - 2 } else { 248 });
                    *at = (*at).saturating_add(take);
                    Operand::reg(Reg::phys(file, index))
                }
                SlotKind::Imm { shift, .. } if width < 16 => {
                    Operand::imm((random.bits() as i64 & ((1 << width.min(7)) - 1) >> 1) << shift)
                }
                SlotKind::Imm { shift, .. } => Operand::imm(((random.bits() & 0xf) as i64) << shift),
                SlotKind::Const => Operand { value: Value::Const { bank: 0, offset: 16 }, ..slot.default() },
                SlotKind::Target => slot.default(),
            };
        }
        inst.ctrl = sass::codec::decode_control(0x7f2 << 105);
        let Ok(word) = encode(&inst, sm) else { continue };
        if matches!(decode(word, sm), Decoded::Known(back) if back.form == id && back.variant == variant) {
            return Some(word);
        }
    }
    None
}

/// Predicates that say whether an access is made at all: the vendor's tool takes them to be written, too.
const GUARDED: [&str; 3] = ["LD", "LDG", "LDGSTS"];

/// Of register operands, the share whose width must be what the vendor says, in thousandths. Where the two differ, ours is the
/// number that the instruction names: it leaves out registers that a mask does not name, or a texture coordinate that the
/// modifiers take away.
const WIDTHS: usize = 960;

#[test]
fn forms_read_and_write_what_the_vendor_says() {
    let Some(oracle) = oracle::latest() else { return };
    let mut wrong = Vec::new();
    for target in ["80", "90a", "100a", "120a"] {
        let sm = number(target);
        let mut random = Random(1);
        let scratch = Scratch::new("roles");
        let mut words: Vec<u128> = Vec::new();
        for n in 0..sass::tables::FORMS.len() {
            let id = FormId(n as u16);
            if !id.get().effects.flow {
                words.extend((0..2).filter_map(|_| example(id, sm, &mut random)));
            }
        }
        words.sort_unstable();
        words.dedup();
        let texts = disassemble(&oracle, &scratch, &format!("SM{target}"), &words);
        let legal = |n: usize, word: u128| {
            let text = texts[n].as_deref().filter(|t| meant(t))?;
            let Decoded::Known(inst) = decode(word, sm) else { return None };
            (print(&inst, n as u64 * 16, &NoLabels) == text).then_some((word, inst))
        };
        let list: Vec<(u128, Inst)> = words.iter().enumerate().filter_map(|(n, &word)| legal(n, word)).collect();
        let words: Vec<u128> = list.iter().map(|l| l.0).collect();
        let theirs = registers(&oracle, &scratch, target, &words);
        let (mut slots, mut widths) = (0, 0);
        for ((_, inst), theirs) in list.iter().zip(&theirs) {
            for (n, (slot, operand)) in inst.form().slots.iter().zip(&inst.operands).enumerate() {
                let Some(reg) = operand.as_reg() else { continue };
                let width = inst.slot_width(n) as u32;
                let twice = inst.operands.iter().filter(|o| o.as_reg() == Some(reg)).count() > 1;
                let file = match reg.file() {
                    File::Gpr => "GPR",
                    File::Pred => "PRED",
                    File::Ugpr => "UGPR",
                    File::Upred => "UPRED",
                    File::Bar => continue,
                };
                // Registers that stand for all predicates have no bits; a width of 0 is that of a mask that names none.
                if slot.bits.is_empty() || reg.is_const() || twice || width == 0 {
                    continue;
                }
                let at = |n: u32| (file.to_string(), reg.index() + n);
                let ours = (slot.role != Role::Def, slot.role != Role::Use);
                let mut told = (theirs.reads.contains(&at(0)), theirs.writes.contains(&at(0)));
                if file == "PRED" && GUARDED.contains(&inst.form().mnemonic) && told == (true, true) {
                    told.1 = ours.1;
                }
                if ours != told {
                    let text = print(inst, 0, &NoLabels);
                    wrong.push(format!(
                        "sm_{target} {} `{text}`: {} is (read, written) {told:?}, we say {ours:?}",
                        inst.form().name,
                        slot.name.name()
                    ));
                }
                let set = if told.0 { &theirs.reads } else { &theirs.writes };
                slots += 1;
                let next = Some(reg.offset(width));
                let ends = inst.operands.iter().any(|o| o.as_reg() == next) || !set.contains(&at(width));
                widths += usize::from((0..width).all(|n| set.contains(&at(n))) && ends);
            }
        }
        eprintln!("sm_{target}: {} words, {widths} of {slots} operands as wide", list.len());
        assert!(slots > 1000, "sm_{target}: only {slots} operands");
        assert!(
            widths * 1000 >= slots * WIDTHS,
            "sm_{target}: {widths} of {slots} operands are as wide as the vendor says"
        );
    }
    assert!(wrong.is_empty(), "{} operands differ: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

/// What may be of the class Control: instructions without a unit, those that set up a launch, and moves of the address that
/// a call returns to (the vendor's code guards what they read by no scoreboard).
const CONTROL: [&str; 14] = [
    "ACQSHMINIT",
    "BPT",
    "GETLMEMBASE",
    "KILL",
    "LEPC",
    "NANOSLEEP",
    "NOP",
    "PMTRIG",
    "RPCMOV",
    "SETCTAID",
    "SETLMEMBASE",
    "USETSHMSZ",
    "__HIR0X1E0",
    "__HIR0X1F0",
];

/// Mnemonics that several units run: wide products, products on the matrix pipe, and minima that moved to another unit.
const SEVERAL: [&str; 3] = ["HFMA2", "HMNMX2", "IMAD"];

#[test]
fn classes_are_deliberate() {
    let mut classes: BTreeMap<&str, BTreeSet<Class>> = BTreeMap::new();
    for form in sass::tables::FORMS.iter().flat_map(|f| std::iter::once(f).chain(f.variants)) {
        classes.entry(form.mnemonic).or_default().insert(form.class);
    }
    for (mnemonic, classes) in classes {
        assert_eq!(classes.contains(&Class::Control), CONTROL.contains(&mnemonic), "{mnemonic} is {classes:?}");
        assert!(classes.len() == 1 || SEVERAL.contains(&mnemonic), "{mnemonic} is {classes:?}");
    }
}
