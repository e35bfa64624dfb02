//! The registers of a CTA that its warpgroups hand to each other by `setmaxnreg`.
//!
//! A warp that asks for more goes on at once: whether others have given them up is seen when the CTA ends, so that it does not
//! matter who of them comes first. What is never given up is what the hardware would wait for without end.

use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    /// What each warp has.
    held: BTreeMap<usize, u32>,
    /// By warpgroup: what its warps have set, in order.
    asked: BTreeMap<usize, Vec<(bool, u32)>>,
    /// How many of those each warp has executed.
    count: BTreeMap<usize, usize>,
    /// Registers that are free; the instruction and the warp that first took more than there were.
    free: i64,
    first: Option<(u32, usize)>,
}

impl Registers {
    /// A warp sets its registers: to more or to fewer, and how many. `start`: what a thread has at first, where the kernel tells.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn set(&mut self, warp: usize, what: (bool, u32), start: Option<u32>, pc: u32) -> Result<(), String> {
        let (more, n) = what;
        let asked = self.asked.entry(warp / 4).or_default();
        let count = self.count.entry(warp).or_default();
        match asked.get(*count) {
            None => asked.push(what),
            Some(other) if *other == what => {}
            Some((_, other)) => {
                return Err(format!(
                    "the warps of a warpgroup do not agree: {n} registers here, {other} in another warp"
                ));
            }
        }
        *count += 1;
        // Without a number to start from the instruction is ignored.
        let Some(start) = start else { return Ok(()) };
        let held = self.held.entry(warp).or_insert(start);
        if more && n < *held || !more && n > *held {
            let way = if more { "more" } else { "fewer" };
            return Err(format!("to {way} registers, {n}, where the warp has {held}"));
        }
        self.free += *held as i64 - n as i64;
        *held = n;
        if self.free >= 0 {
            self.first = None;
        } else if more {
            self.first.get_or_insert((pc, warp));
        }
        Ok(())
    }

    /// The instruction and the warp that would wait for registers without end, when all have ended.
    pub fn missing(&self) -> Option<(u32, usize)> {
        self.first
    }
}
