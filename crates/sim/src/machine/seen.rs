//! An instruction that remembers what of it was looked at while it was decoded, so that nothing of it is ignored by
//! mistake: a modifier that prints something, a source that holds something, a negation.

use sass::form::{Form, ModName as M, Piece, Role, SlotKind, SlotName};
use sass::inst::{Inst, Operand};
use sass::reg::File;
use std::cell::Cell;

/// Modifiers that change where values are cached or how an access is ordered, not what is computed.
const HINTS: [M; 7] = [M::Defer, M::Cache, M::Ltc, M::Bypass, M::Sem, M::Noinc, M::Nodec];

/// See the module.
pub struct Seen<'a> {
    inst: &'a Inst,
    mods: Cell<u32>,
    slots: Cell<u32>,
    flags: Cell<u32>,
}

fn mark(cell: &Cell<u32>, n: usize) {
    cell.set(cell.get() | 1u32.checked_shl(n as u32).unwrap_or(0));
}

fn marked(cell: &Cell<u32>, n: usize) -> bool {
    n > 31 || cell.get() >> n & 1 != 0
}

impl<'a> Seen<'a> {
    /// Nothing was looked at.
    pub fn new(inst: &'a Inst) -> Seen<'a> {
        Seen { inst, mods: Cell::new(0), slots: Cell::new(0), flags: Cell::new(0) }
    }

    /// The instruction itself.
    pub fn inst(&self) -> &'a Inst {
        self.inst
    }

    /// Its form.
    pub fn form(&self) -> &'static Form {
        self.inst.form()
    }

    /// The value of a modifier; 0 if the form does not have it.
    pub fn modifier(&self, name: M) -> u8 {
        match self.form().mods.iter().position(|m| m.name == name) {
            Some(i) => {
                mark(&self.mods, i);
                self.inst.mods[i]
            }
            None => 0,
        }
    }

    /// True if the form has a modifier of this name.
    pub fn has(&self, name: M) -> bool {
        self.form().mods.iter().any(|m| m.name == name)
    }

    /// What a modifier prints; `None` if the form does not have it.
    pub fn text(&self, name: M) -> Option<&'static str> {
        self.modifier(name);
        self.inst.modifier_text(name)
    }

    /// The number of a slot.
    pub fn slot(&self, name: SlotName) -> Option<usize> {
        let i = self.inst.slot(name)?;
        mark(&self.slots, i);
        Some(i)
    }

    /// The operand in a slot.
    pub fn get(&self, name: SlotName) -> Option<&'a Operand> {
        self.slot(name).map(|i| &self.inst.operands[i])
    }

    /// The operand in a slot, whose negation and absolute value are taken into account.
    pub fn with_flags(&self, name: SlotName) -> Option<&'a Operand> {
        let i = self.slot(name)?;
        mark(&self.flags, i);
        Some(&self.inst.operands[i])
    }

    /// All of it is taken into account, or does not matter.
    pub fn all(&self) {
        self.mods.set(u32::MAX);
        self.slots.set(u32::MAX);
        self.flags.set(u32::MAX);
    }

    /// What is printed right behind the operand in a slot: `.H0_H0`.
    pub fn suffix(&self, name: SlotName) -> &'static str {
        let form = self.form();
        let mut pieces = form.syntax.iter();
        let found = pieces.find_map(|p| match p {
            Piece::SlotMod(slot, m) if form.slots[*slot as usize].name == name => Some(*m as usize),
            _ => None,
        });
        let Some(m) = found else { return "" };
        mark(&self.mods, m);
        form.mods[m].values.get(self.inst.mods[m] as usize).copied().flatten().unwrap_or_default()
    }

    /// What a modifier prints, `.F16`; none if it prints nothing.
    pub fn modifier_text(&self, name: M) -> Option<&'static str> {
        self.modifier(name);
        self.inst.modifier_text(name)
    }

    /// All modifiers are taken into account.
    pub fn modifiers(&self) {
        self.mods.set(u32::MAX);
    }

    /// Text of the name that no modifier field prints: `F2FP.F16.UNPACK_B` of `F2FP{Relu}.F16{Src}.UNPACK_B Rd, Rb`.
    pub fn literal(&self) -> String {
        let mut text = String::new();
        for piece in self.form().syntax {
            match piece {
                Piece::Text(t) => {
                    let (name, rest) = t.split_once(' ').map_or((*t, false), |(name, _)| (name, true));
                    text += name;
                    if rest {
                        break;
                    }
                }
                Piece::Mod(_) => {}
                _ => break,
            }
        }
        text
    }

    /// What was not looked at and is not nothing.
    pub fn missed(&self) -> Option<String> {
        let form = self.form();
        for (i, m) in form.mods.iter().enumerate() {
            let text = m.values.get(self.inst.mods[i] as usize).copied().flatten().unwrap_or_default();
            if !marked(&self.mods, i) && !text.is_empty() && !HINTS.contains(&m.name) {
                return Some(format!("{:?}{text}", m.name));
            }
        }
        for (i, (slot, o)) in form.slots.iter().zip(&self.inst.operands).enumerate() {
            let r = o.as_reg();
            let predicate = r.is_some_and(|r| matches!(r.file(), File::Pred | File::Upred));
            // A memory descriptor is a pair of uniform registers that says nothing here.
            let descriptor = r.is_some_and(|r| r.file() == File::Ugpr)
                && (form.effects.load || form.effects.store)
                && self.inst.slot_width(i) > 1;
            if slot.role != Role::Def && !marked(&self.slots, i) && !descriptor {
                let nothing = match r {
                    Some(_) if predicate => *o == slot.default(),
                    Some(r) => r.is_const(),
                    None => !matches!(slot.kind, SlotKind::Const) && o.value == slot.default().value,
                };
                if !nothing {
                    return Some(format!("its operand {:?}", slot.name));
                }
            }
            if !predicate && (o.neg || o.abs || o.inv) && !marked(&self.flags, i) {
                return Some(format!("the sign of {:?}", slot.name));
            }
        }
        None
    }
}
