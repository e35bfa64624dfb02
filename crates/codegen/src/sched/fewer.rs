//! Fewer values alive at once, at the least effort: instructions are put into an order that needs few registers, and that is all of scheduling.
//!
//! Where more values are alive than there are registers, spilling takes longer than this, and so do all stages behind it for the code that it adds.

use super::{again, prepass, remat};
use crate::mir::Func;
use crate::mir::liveness::Liveness;
use crate::regalloc::{self, Banks};
use sass::reg::File;

/// Orders every block of `f`; computes values again where too many are alive.
pub fn run(f: &mut Func, sm: u16) {
    let cfg = f.cfg();
    let (mut live, steps) = prepass::order(f, &cfg);
    let mut by_block = regalloc::pressures(f, &cfg, &live).1;
    let banks = Banks::of(f);
    let there = banks.count(File::Gpr);
    if remat::run(f, &cfg, &live, &by_block, [there, banks.count(File::Pred)]) {
        // What is made again stands before its readers, and blocks that are still too full are put in order anew.
        live = Liveness::new(f, &cfg);
        by_block = regalloc::pressures(f, &cfg, &live).1;
    }
    let mut values = prepass::Values::of(f);
    let task = again::Task { cfg: &cfg, live: &live, steps: &steps, sm };
    for &b in cfg.rpo.iter().filter(|&&b| by_block[b as usize][0] > there) {
        task.lessen(f, b, &mut values, Some(there));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;
    use std::fmt::Write;

    /// 1400 values are loaded, then stored: in another order one register does.
    #[test]
    fn what_does_not_fit_is_put_in_order() {
        let mut body = String::from("blk0(): depth=0\n");
        (0..1400).for_each(|i| writeln!(body, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap());
        (0..1400).for_each(|i| writeln!(body, "    STG URc=UR4 Rb=%r{i} Imm={:#x}", 4 * i).unwrap());
        let text = format!("func k entry max=255 outgoing=0 fixed=0 size=0 align=8 {{\n{body}    exit\n}}\n");
        let mut f = text::parse(&text).unwrap().remove(0);
        assert!(regalloc::crowded(&f));
        run(&mut f, 90);
        assert!(!regalloc::crowded(&f));
        assert_eq!(f.blocks[0].insts.len(), 2800);
    }
}
