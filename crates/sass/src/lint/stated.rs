//! What a file states about its code: registers, barriers; and where operands may be kept.

use super::{Hazard, Kind};
use crate::codec::{Decoded, decode};
use crate::form::SlotName;
use crate::latency::{self, Class};
use crate::reg::File;
use crate::text::{NoLabels, print};

/// What a file states about the code of a function, in its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// Registers a thread (`REGCOUNT`): two more than the code may name.
    pub registers: Option<u32>,
    /// Named barriers (`NUM_BARRIERS`; none of them where the attribute is missing).
    pub barriers: Option<u32>,
}

/// Registers of those stated that the machine keeps for itself. (The vendor states the highest one that the code names,
/// plus 3, for all of the corpus.)
const KEPT_BY_MACHINE: u32 = 2;

/// Compares the code of a function with what its file states: registers and barriers within what is stated; reuse flags
/// only where the vendor sets them, on operands in registers of an instruction with bit 109 set and a stall of 1 to 11, and on fetches
/// that go together.
///
/// # Returns
/// Every contradiction, by offset.
pub fn check_stated(words: &[u128], sm: u16, stated: &Stated) -> Vec<Hazard> {
    let mut found = Vec::new();
    for (n, &word) in words.iter().enumerate() {
        let Decoded::Known(inst) = decode(word, sm) else { continue };
        let offset = n as u64 * 16;
        let mut say = |kind: Kind, what: String| {
            let message = format!("`{}` {what}", print(&inst, offset, &NoLabels));
            found.push(Hazard { offset, first: offset, kind, message });
        };
        let named = inst.regs().iter().filter(|r| r.reg.file() == File::Gpr && !r.reg.is_const()).fold(0, |most, r| {
            // The last of the registers that it names.
            most.max(r.reg.index() + r.width as u32)
        });
        if let Some(count) = stated.registers.filter(|c| named + KEPT_BY_MACHINE > *c) {
            let most = count.saturating_sub(KEPT_BY_MACHINE);
            say(
                Kind::Registers,
                format!("names R{}; the file states {count} registers, which leave {most}", named - 1),
            );
        }
        if let Some(count) = stated.barriers
            && inst.form().class == Class::Barrier
            && let Some(barrier) = latency::immediate(&inst, SlotName::Bar)
            && barrier >= count as i64
        {
            say(Kind::Barriers, format!("uses barrier {barrier}; the file states {count}"));
        }
        let ctrl = inst.ctrl;
        // Fetches have the bits where several go together (ptxas 13.5 -c: one TXQ behind the other, bit 109 clear).
        let together = inst.form().class == Class::Texture && !ctrl.bit109;
        if ctrl.reuse & 7 != 0 && !together {
            let registers = inst.form().slots.iter().zip(&inst.operands).fold(0u8, |mask, (slot, op)| {
                let register = op.as_reg().is_some_and(|r| r.file() == File::Gpr);
                mask | slot.reuse.filter(|_| register).map_or(0, |n| 1 << n)
            });
            if !ctrl.bit109 || !(1..=11).contains(&ctrl.stall) {
                let clear = if ctrl.bit109 { "set" } else { "clear" };
                say(Kind::Reuse, format!("keeps an operand with a stall of {} and bit 109 {clear}", ctrl.stall));
            } else if ctrl.reuse & 7 & !registers != 0 {
                say(Kind::Reuse, "keeps an operand that is no register".into());
            }
        }
    }
    found
}
