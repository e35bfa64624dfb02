//! What is under way at a point of a program, and what is known of it where paths meet.

use crate::form::Piece;
use crate::forms;
use crate::inst::{Inst, Value};
use crate::latency::Class;
use crate::reg::{File, Reg};

pub(super) const NO_SB: u8 = 7;
/// Ages beyond this are all the same: no fixed latency is longer.
pub(super) const OLD: u8 = 32;

/// The age at which every reader may come for a result of fixed latency.
pub(super) fn oldest(class: Class) -> u8 {
    match class {
        Class::Hmma | Class::Imma => OLD,
        _ => 16,
    }
}

/// Something that is under way at a point of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Fact {
    /// The register: file in the high byte, index in the low one.
    pub(super) unit: u16,
    /// Index of the instruction.
    pub(super) by: u32,
    /// Its slot (255: the guard) and which word of it.
    pub(super) slot: u8,
    pub(super) word: u8,
    /// A pending write, or a pending read.
    pub(super) write: bool,
    /// Scoreboards that tell of its end, a bit each: its own, and those of later instructions of the same queue.
    pub(super) scoreboards: u8,
    /// Its own scoreboard, for the message.
    pub(super) own: u8,
    /// The guard under which it happens: predicate unit, inverted; `u16::MAX` for none or unknown.
    pub(super) guard: (u16, bool),
    /// Of a product of a warpgroup: how many groups have ended since, its own among them; [`NO_GROUP`] of others.
    pub(super) groups: u8,
    /// How many instructions of the same queue have set its scoreboard since, at least; at most [`MANY_LATER`].
    pub(super) later: u8,
    /// Cycles since issue, on the shortest path; at most [`OLD`].
    pub(super) age: u8,
}

pub(super) const NO_GROUP: u8 = u8::MAX;
/// More groups than this are not told apart: a wait leaves at most 7 under way.
pub(super) const MANY_GROUPS: u8 = 16;
/// More than `DEPBAR.LE` can leave.
pub(super) const MANY_LATER: u8 = 64;

/// True if the instruction ends a group of products, as its text says by `gsb0`.
pub(super) fn ends_group(inst: &Inst) -> bool {
    let form = inst.form();
    form.class == Class::Gmma && form.syntax.iter().any(|p| matches!(p, Piece::Text(text) if text.contains("gsb0")))
}

/// How many groups of products may still be under way after the instruction, if it waits for them.
pub(super) fn groups_left(inst: &Inst) -> Option<u8> {
    let waits = inst.form == forms::WARPGROUP_I;
    let count = || {
        inst.operands.iter().find_map(|o| if let Value::Imm(n) = o.value { u8::try_from(n.get()).ok() } else { None })
    };
    if waits { count() } else { None }
}

pub(super) const ALWAYS: (u16, bool) = (u16::MAX, false);

impl Fact {
    pub(super) fn key(&self) -> Fact {
        Fact { age: 0, later: 0, groups: if self.groups == NO_GROUP { NO_GROUP } else { 0 }, ..*self }
    }
}

pub(super) fn unit(reg: Reg) -> u16 {
    (reg.file() as u16) << 8 | (reg.index() & 255) as u16
}

pub(super) fn unit_name(unit: u16) -> String {
    let file = [File::Gpr, File::Ugpr, File::Pred, File::Upred, File::Bar][(unit >> 8) as usize % 5];
    Reg::phys(file, (unit & 255) as u8).to_string()
}

/// Unites `new` into `old`; true if `old` changed. Ages take the shorter path, groups and what came later that with fewer.
pub(super) fn unite(old: &mut Vec<Fact>, new: &[Fact]) -> bool {
    let mut changed = false;
    for fact in new {
        match old.binary_search_by_key(&fact.key(), Fact::key) {
            Ok(i) => {
                if fact.age < old[i].age || fact.groups < old[i].groups || fact.later < old[i].later {
                    old[i].age = fact.age.min(old[i].age);
                    old[i].groups = fact.groups.min(old[i].groups);
                    old[i].later = fact.later.min(old[i].later);
                    changed = true;
                }
            }
            Err(i) => {
                old.insert(i, *fact);
                changed = true;
            }
        }
    }
    changed
}
