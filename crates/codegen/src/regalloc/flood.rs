//! Kernels that live in memory: many times as many values are alive as a thread can have registers.
//!
//! Whatever number of registers their threads have, most of what they compute with comes from memory, and what hides its latency is other
//! warps. So threads get a quarter of the registers, and an SM four times the warps: stores and loads of spilled values, of which there are 1.4 to 2.4 times as
//! many then, wait side by side.

use super::Pressure;
use crate::cfg::Cfg;
use crate::mir::{Func, Op};
use sass::latency::Class;

/// As many values as registers, times this.
const FLOOD: u32 = 3;

/// Bound of the general registers that are given then (64 as they are counted for the driver), and how many times as many warps an SM holds as with
/// the most there can be.
const FEW: u32 = 62;
const WARPS: u32 = 4;

/// Registers of one operand that are too many then.
const WIDE: usize = 8;

/// The most there can be.
const MOST: u32 = 253;

/// Takes registers away from a kernel whose threads may have the most there are, and need far more. True if it did.
pub(super) fn run(f: &mut Func, cfg: &Cfg, need: &Pressure) -> bool {
    let crowded = f.entry && f.max_gprs == MOST && need.max[0] > FLOOD * MOST;
    // Whose threads change how many they have knows best.
    if !crowded || f.at_entry > 0 || !crate::registers::owned(f, cfg).is_empty() || needs_many(f) {
        return false;
    }
    f.max_gprs = FEW;
    f.room = f.room.and_then(|r| r.among(WARPS));
    true
}

/// True where products of matrices keep their sums in registers, in loops mostly, an instruction has more registers than others find place beside, or
/// routines for seldom cases have theirs already (`super::light`), behind what lives across their calls.
fn needs_many(f: &Func) -> bool {
    let does = |op: &Op| match op {
        Op::Sass(s) => matches!(s.form().class, Class::Hmma | Class::Imma | Class::Dmma | Class::Gmma),
        Op::Call(c) => c.keeps.light(),
        _ => false,
    };
    f.vecs.iter().any(|v| v.len() > WIDE) || f.blocks.iter().flat_map(|b| &b.insts).any(|i| does(&i.op))
}

#[cfg(test)]
mod tests {
    use super::super::shared::Room;
    use super::*;
    use crate::mir::text;
    use std::fmt::Write;

    /// Registers given to a kernel that loads `n` values and stores them the other way round, and words of each thread in shared memory.
    fn given(head: &str, n: usize, more: &str) -> (u32, Option<u32>) {
        let mut body = format!("func k entry {head} outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n");
        (0..n).for_each(|i| writeln!(body, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap());
        body += more;
        (0..n).rev().for_each(|i| writeln!(body, "    STS Ra=RZ Rb=%r{i} Imm={:#x}", 4 * i).unwrap());
        let mut f = text::parse(&(body + "    exit\n}\n")).unwrap().remove(0);
        f.room = Some(Room { start: 0, words: 48, threads: 256, shape: None });
        let cfg = f.cfg();
        let live = crate::mir::liveness::Liveness::new(&f, &cfg);
        let need = super::super::pressure(&f, &cfg, &live);
        run(&mut f, &cfg, &need);
        (f.max_gprs, f.room.map(|r| r.words))
    }

    #[test]
    fn what_lives_in_memory_gets_few_registers() {
        assert_eq!(given("max=253", 800, ""), (62, Some(12)));
        assert_eq!(given("max=253", 700, ""), (253, Some(48)));
        // Launch bounds have said how many.
        assert_eq!(given("max=126", 800, ""), (126, Some(48)));
        // Sums of products stay in registers.
        let product = "    HMMA_RRRR_5 Rd={%r2000,%r2001,%r2002,%r2003} Ra={%r0,%r1,%r2,%r3} Rb={%r4,%r5} Rc=RZ\n";
        assert_eq!(given("max=253", 800, product), (253, Some(48)));
        // A routine has its registers already.
        let routine = "    call light=200+12 f1 (%r0=R200) -> (%r2000=R200)\n";
        assert_eq!(given("max=253", 800, routine), (253, Some(48)));
    }
}
