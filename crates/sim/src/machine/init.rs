//! Registers that were never written.
//!
//! Optimised code computes with such registers where the result is not used (a load moved above its condition, the
//! unused half of a pair), so a result that comes from one is unwritten, too, and only uses that matter are faults:
//! addresses, guards and conditions of branches, and what is stored to global memory. Words that are loaded from shared
//! memory that was never written count as unwritten, too.

use super::hazard::{COUNT, UNIFORM_PREDICATES, name, uniform};
use super::program::Ins;

/// By register of a warp: the lanes for which it holds a value.
pub struct Init {
    written: Box<[u32; COUNT]>,
}

impl Init {
    /// Nothing is written but the registers that are constant.
    #[allow(clippy::new_without_default)] // there is one place that makes them
    pub fn new() -> Init {
        let mut written = Box::new([0; COUNT]);
        for constant in [255, UNIFORM_PREDICATES as usize - 9, UNIFORM_PREDICATES as usize - 1, COUNT - 1] {
            written[constant] = u32::MAX;
        }
        Init { written }
    }

    /// These lanes of a register do not hold a value after all: they come from memory that was never written.
    pub fn forget(&mut self, reg: u8, lanes: u32) {
        if reg != 255 {
            self.written[reg as usize] &= !lanes;
        }
    }

    /// These lanes of a register hold a value: a function of the system has left it there.
    pub fn filled(&mut self, reg: u8, lanes: u32) {
        self.written[reg as usize] |= lanes;
    }

    /// An instruction issues for the lanes `group`, of which `active` execute it.
    ///
    /// # Errors
    /// The lanes for which it uses what was never written, with a message.
    pub fn issue(&mut self, ins: &Ins, group: u32, active: u32) -> Result<(), (u32, String)> {
        let mut tainted = 0;
        for u in ins.uses.iter() {
            let lanes = if u.slot.is_none() { group } else { active };
            let missing = lanes & !self.written[u.reg as usize];
            if missing != 0 {
                if u.must {
                    return Err((missing, format!("{} was never written", name(u.reg))));
                }
                tainted |= missing;
            }
        }
        for d in ins.defs.iter() {
            let w = &mut self.written[d.reg as usize];
            *w = match uniform(d.reg) {
                true if active == 0 => *w,
                true if ins.selects => u32::MAX,
                true => {
                    if tainted == 0 {
                        u32::MAX
                    } else {
                        0
                    }
                }
                false if ins.selects => *w | active,
                false => (*w & !active) | (active & !tainted),
            };
        }
        Ok(())
    }
}
