//! The instruction set as data: opcode words, modifier words, legal forms.
//!
//! Everything here is made from `isa/*.ptxi` by the build script.

use crate::types::ScalarType;

/// The first PTX version and the first SM that have something; (0, 0) and 0 where every one has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// First PTX version.
    pub ptx: (u16, u16),
    /// First SM.
    pub sm: u16,
}

/// A type that operands refer to: the first, second, third, fourth type modifier of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// First.
    T,
    /// Second.
    U,
    /// Third.
    V,
    /// Fourth.
    X,
}

/// One modifier word of a group.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word.
    pub word: Mod,
    /// Since when it may be written here.
    pub since: Since,
}

/// Modifiers of which one is written.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The name of the type that the group gives.
    pub slot: Option<Slot>,
    /// True where none of them may be written.
    pub optional: bool,
    /// The alternatives.
    pub words: &'static [Word],
}

/// What an operand may be; `isa/README.md` describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OperandKind {
    Dest,
    DestPred,
    DestAndPred,
    DestBoth,
    Source,
    Pred,
    ConvDest,
    ConvSource,
    MoveDest,
    MoveSource,
    LoadDest,
    StoreSource,
    Memory,
    Constant,
    Label,
    Any,
}

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandType {
    /// That of a type modifier.
    Slot(Slot),
    /// Twice as wide as the first type modifier.
    Twice,
    /// An address: 32 or 64 bits.
    Address,
    /// Always this one.
    Fixed(ScalarType),
}

/// An operand of a form.
#[derive(Clone, Copy, Debug)]
pub struct OperandForm {
    /// What it may be.
    pub kind: OperandKind,
    /// Its type.
    pub ty: OperandType,
    /// True where it may be left out.
    pub optional: bool,
}

/// A legal shape of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Opcode word.
    pub op: Op,
    /// Modifiers.
    pub groups: &'static [Group],
    /// Operands in order.
    pub operands: &'static [OperandForm],
    /// Since when.
    pub since: Since,
}

include!(concat!(env!("OUT_DIR"), "/isa.rs"));

/// The hash of the name tables; `build.rs` has the same function.
fn hash(name: &[u8]) -> u32 {
    let mut h: u32 = 0x811c_9dc5;
    for &b in name {
        h = (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
    }
    h ^ (h >> 15)
}

fn find(name: &str, slots: &[u16], names: &[&str]) -> Option<usize> {
    let mut at = hash(name.as_bytes()) as usize & (slots.len() - 1);
    loop {
        let slot = slots[at] as usize;
        if slot == 0 {
            return None;
        }
        if names[slot - 1] == name {
            return Some(slot - 1);
        }
        at = (at + 1) & (slots.len() - 1);
    }
}

impl Op {
    /// The word as written: `add`.
    pub fn name(self) -> &'static str {
        OP_NAMES[self as usize]
    }

    /// The opcode of a word, if there is one.
    pub fn from_name(name: &str) -> Option<Op> {
        find(name, &OP_SLOTS, &OP_NAMES).map(|i| Op::ALL[i])
    }
}

impl Op {
    /// The forms of the opcode; none for one that is known by name only.
    pub fn forms(self) -> &'static [Form] {
        let (from, to) = FORM_RANGES[self as usize];
        &FORMS[from as usize..to as usize]
    }
}

impl Mod {
    /// The word as written, without its leading dot: `shared::cta`.
    pub fn name(self) -> &'static str {
        MOD_NAMES[self as usize]
    }

    /// The modifier of a word written without its leading dot, if there is one.
    pub fn from_name(name: &str) -> Option<Mod> {
        find(name, &MOD_SLOTS, &MOD_NAMES).map(|i| Mod::ALL[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_finds_its_word() {
        for op in Op::ALL {
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        for m in Mod::ALL {
            assert_eq!(Mod::from_name(m.name()), Some(m));
        }
        assert_eq!(Op::from_name("frobnicate"), None);
        assert_eq!(Mod::from_name(""), None);
        assert_eq!(Mod::from_name("shared::cta"), Some(Mod::SharedCta));
    }
}
