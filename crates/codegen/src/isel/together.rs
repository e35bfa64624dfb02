//! Threads of a warp that have met stay together in a block without branches: they meet once.
//!
//! Selection makes all threads of a warp meet before each operation of the whole warp where they may be apart ([`crate::converge`]). What follows in the
//! same block is executed together until something lets threads go on one after the other (a call, a wait, a barrier of convergence).

use crate::mir::{Inst, Op};
use sass::forms as F;
use sass::inst::Inst as Sass;

/// Drops what makes all threads of the warp meet where they have met before in this block.
pub(super) fn thin(insts: &mut Vec<Inst>) {
    let mut met = false;
    insts.retain(|i| match &i.op {
        Op::Sass(s) if meets(s) => !std::mem::replace(&mut met, true),
        Op::Sass(s) => {
            met &= keeps(s);
            true
        }
        Op::Copy(_) => true,
        _ => {
            met = false;
            true
        }
    });
}

/// All threads of the warp wait for each other.
fn meets(s: &Sass) -> bool {
    s.form == F::WARPSYNC_ALL
}

/// Threads that are together are so behind the instruction.
fn keeps(s: &Sass) -> bool {
    let apart = ["BSSY", "BSYNC", "BREAK", "BMOV", "NANOSLEEP", "YIELD", "WARPSYNC", "ENDCOLLECTIVE"];
    !s.form().effects.flow && !apart.contains(&s.form().mnemonic)
}

#[cfg(test)]
mod tests {
    use super::thin;
    use crate::mir::text;

    #[test]
    fn threads_meet_once_until_they_may_part() {
        let left = |body: &str| {
            let mut f =
                text::parse(&format!("func k entry {{\nblk0(): depth=0\n{body}    exit\n}}\n")).unwrap().remove(0);
            thin(&mut f.blocks[0].insts);
            text::print(&f).matches("WARPSYNC_ALL").count()
        };
        let shuffle = "    WARPSYNC_ALL\n    SHFL_II Rd=%r1 Ra=%r0 Rb=0x1 Rc=0x1f\n";
        let body =
            |between: &str| format!("    S2R Rd=%r0 Sr=0x21\n{shuffle}{between}{}", shuffle.replace("%r1", "%r2"));
        assert_eq!(left(&body("")), 1);
        assert_eq!(left(&body("    IADD3_RRR Rd=%r3 Ra=%r0 Rb=%r1 Rc=RZ\n    BAR_SYNC_I\n")), 1);
        assert_eq!(left(&body("    NANOSLEEP_I Mask=0x1\n")), 2);
        assert_eq!(left(&body("    WARPSYNC Ra=%r0\n")), 2);
    }
}
