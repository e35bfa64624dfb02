//! Takes out what nothing reads, and what stands in blocks that nothing reaches.
//!
//! Selection gives a 64-bit value both of its words, whoever reads them. Runs on SSA form, first of all; what a removed instruction
//! read is looked at after it, so one walk does, but for values that go around loops.

use super::order::movable;
use crate::mir::{Func, Op, Term, Vreg};
use sass::reg::Reg;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let cfg = f.cfg();
    for (b, block) in f.blocks.iter_mut().enumerate().filter(|x| !cfg.reachable(x.0 as u32)) {
        debug_assert!(b != 0, "a function begins in its first block");
        block.insts.clear();
        block.term = Term::Unreachable;
    }
    let mut reads = vec![0u32; f.vregs.len()];
    for b in &f.blocks {
        for inst in &b.insts {
            f.uses(&inst.op, |v| reads[v.index()] += 1);
        }
        f.term_uses(&b.term, |v| reads[v.index()] += 1);
        for e in b.term.edges() {
            e.args.iter().for_each(|v| reads[v.index()] += 1);
        }
    }
    for &b in cfg.rpo.iter().rev() {
        let mut insts = std::mem::take(&mut f.blocks[b as usize].insts);
        let mut kept = vec![true; insts.len()];
        for (i, inst) in insts.iter_mut().enumerate().rev() {
            if let Op::Copy(pairs) = &mut inst.op {
                let wanted = |r: &Reg| !r.is_virtual() || reads[r.index() as usize] > 0;
                if !pairs.iter().all(|(d, _)| wanted(d)) {
                    let (stay, go): (Vec<_>, Vec<_>) = pairs.drain(..).partition(|(d, _)| wanted(d));
                    go.iter().filter(|(_, s)| s.is_virtual()).for_each(|(_, s)| reads[s.index() as usize] -= 1);
                    kept[i] = !stay.is_empty();
                    *pairs = stay;
                }
                continue;
            }
            let Op::Sass(s) = &inst.op else { continue };
            if !movable(s) {
                continue;
            }
            let (mut any, mut read) = (false, false);
            f.defs(&inst.op, |v: Vreg| {
                any = true;
                read |= reads[v.index()] != 0;
            });
            if any && !read {
                f.uses(&inst.op, |v| reads[v.index()] -= 1);
                kept[i] = false;
            }
        }
        if kept.contains(&false) {
            let mut n = 0;
            insts.retain(|_| {
                n += 1;
                kept[n - 1]
            });
        }
        f.blocks[b as usize].insts = insts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    #[test]
    fn chains_that_end_nowhere_go() {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let body = "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    IADD3_RRR Rd=%r1 Ra=%r0 Rb=%r0\n    LOP3_RRR Rd=%r2 Ra=%r1 Rb=%r0\n    STG.Size=4 Ra=RZ Rb=%r0 URc=UR4\n    exit\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        run(&mut f);
        verify::ssa(&f).unwrap();
        assert_eq!(f.blocks[0].insts.len(), 2);
    }

    #[test]
    fn what_nothing_reaches_goes() {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let body = "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    STG.Size=4 Ra=RZ Rb=%r0 URc=UR4\n    exit\nblk1(): depth=0\n    STG.Size=4 Ra=RZ Rb=%r0 URc=UR4\n    br blk2(%r0)\nblk2(%r1): depth=0\n    exit\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        run(&mut f);
        verify::ssa(&f).unwrap();
        assert!(f.blocks[1].insts.is_empty() && f.blocks[1].term == Term::Unreachable);
    }
}
