//! What threads ask for while they wait is made ready before they begin to.
//!
//! A loop that asks a barrier in shared memory again and again until its phase is over is one block. Selection puts beside the question what it is asked
//! with: the address in a uniform register, which takes longer to get there than the answer to come, and the phase. Runs on SSA form; what such a
//! loop computes of values from before it moves to the end of the block that leads into it.

use crate::cfg::Cfg;
use crate::guards::shared;
use crate::mir::{Func, Inst, Op, Term};
use crate::sched::order::movable;
use sass::forms as F;
use sass::inst::Operand;
use sass::reg::Reg;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let asks = |i: &Inst| matches!(&i.op, Op::Sass(s) if s.form == F::SYNCS_PHASECHK);
    if !f.blocks.iter().any(|b| b.insts.iter().any(asks)) {
        return;
    }
    let cfg = f.cfg();
    for b in 0..f.blocks.len() {
        if let Some(before) = entry(f, &cfg, b)
            && f.blocks[b].insts.iter().all(|i| asks(i) || ready(i))
        {
            let mut inside = vec![false; f.vregs.len()];
            f.blocks[b].params.iter().for_each(|p| inside[p.index()] = true);
            let (mut stay, mut go) = (Vec::new(), Vec::new());
            for inst in std::mem::take(&mut f.blocks[b].insts) {
                let mut here = asks(&inst);
                f.uses(&inst.op, |v| here |= inside[v.index()]);
                if here {
                    f.defs(&inst.op, |v| inside[v.index()] = true);
                }
                if here { stay.push(inst) } else { go.push(inst) }
            }
            f.blocks[b].insts = stay;
            f.blocks[before].insts.extend(go);
        }
    }
}

/// The block that alone leads into `b`, and to nothing else, if `b` is a loop.
fn entry(f: &Func, cfg: &Cfg, b: usize) -> Option<usize> {
    let preds = &cfg.preds[b];
    if preds.len() != 2 || !preds.contains(&(b as u32)) || !matches!(f.blocks[b].term, Term::CondBr { .. }) {
        return None;
    }
    let before = preds.iter().copied().find(|&p| p as usize != b)? as usize;
    let straight = matches!(f.blocks[before].term, Term::Br(_));
    // Threads that are apart leave the loop one after the other, and the first that is left may be another.
    (straight && !f.blocks[before].divergent && !f.blocks[b].divergent).then_some(before)
}

/// True for what may be computed before the loop, too.
fn ready(i: &Inst) -> bool {
    let Op::Sass(s) = &i.op else { return false };
    let free = s.guard == Operand::reg(Reg::PT) || s.guard == Operand::reg(Reg::UPT);
    free && (s.form == F::R2UR || movable(s) || shared(s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    #[test]
    fn what_is_asked_with_is_made_before_the_loop() {
        let after = |last: &str| {
            let text = format!(
                "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    br blk1(%r0)\n\
                 blk1(%r5): depth=1\n    R2UR Rd=%ur1 Ra=%r0\n    IADD3_RIR Rd=%r2 Ra=%r5 Rb=1\n    SYNCS_PHASECHK Pu=%p3 Ra=RZ URc=%ur1 Rb=%r2\n    {last}\
                 brif %p3, blk2(), blk1(%r2)\nblk2(): depth=0\n    exit\n}}\n"
            );
            let mut f = text::parse(&text).unwrap().remove(0);
            verify::ssa(&f).unwrap();
            run(&mut f);
            verify::ssa(&f).unwrap();
            f.blocks[0].insts.len()
        };
        assert_eq!(after(""), 2);
        // More than waiting goes on.
        assert_eq!(after("STS Ra=RZ Rb=%r0\n    "), 1);
    }
}
