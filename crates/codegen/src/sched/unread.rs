//! Moves to uniform registers that nobody reads.
//!
//! A product of a warpgroup whose A lies in registers has a descriptor of four words all the same, two of which describe nothing: the machine reads
//! the other two alone. (The vendor's compiler leaves those two as they are, in functions that write them nowhere too: 21 products of 502 in 160 public modules,
//! CUDA 13, sm_90a.) Runs on a function after register allocation: backward over its blocks, which uniform registers are wanted; moves of constants to
//! others go. Linear, times the depth of loops.

use super::held;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Block, Func, Inst, Op, Term};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::Inst as Sass;

/// The uniform registers of a place, a bit each, without the first `skip` of them.
fn registers(p: Place, skip: usize) -> u64 {
    held::registers(p).skip(skip).fold(0, |all, r| all | 1 << r)
}

/// The words of the descriptor that a product does not read, if it is such a product, and where that is.
fn described(s: &Sass) -> Option<usize> {
    if matches!(s.form, F::HGMMA_RRUR | F::HGMMA_RRUR_OPEN) { s.slot(S::UR) } else { None }
}

/// What is wanted before an instruction, of what is behind it.
fn step(inst: &Inst, wanted: &mut u64) {
    let Op::Sass(s) = &inst.op else {
        *wanted = u64::MAX;
        return;
    };
    // What is written under a condition may stay as it was.
    if s.guard.as_reg().is_some_and(|r| r.is_const()) {
        sass_defs(s, |p| *wanted &= !registers(p, 0));
    }
    let at = described(s);
    sass_uses(s, |p| *wanted |= registers(p, if at.is_some() && p.slot.map(usize::from) == at { 2 } else { 0 }));
}

/// What is wanted behind the last instruction of a block, of what the blocks behind it want.
fn behind(block: &Block, before: &[u64]) -> u64 {
    match &block.term {
        Term::Exit => 0,
        Term::Br(_) | Term::CondBr { .. } => {
            block.term.successors().iter().fold(0, |all, s| all | before[s.0 as usize])
        }
        // Tables of targets, and who is returned to.
        _ => u64::MAX,
    }
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    let any = f.blocks.iter().flat_map(|b| &b.insts).any(|i| matches!(&i.op, Op::Sass(s) if described(s).is_some()));
    if !any {
        return;
    }
    let cfg = f.cfg();
    let mut before = vec![0u64; f.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for &b in cfg.rpo.iter().rev() {
            let block = &f.blocks[b as usize];
            let mut wanted = behind(block, &before);
            block.insts.iter().rev().for_each(|i| step(i, &mut wanted));
            changed |= wanted != before[b as usize];
            before[b as usize] = wanted;
        }
    }
    for &b in &cfg.rpo {
        let mut wanted = behind(&f.blocks[b as usize], &before);
        let insts = &mut f.blocks[b as usize].insts;
        let mut stays = vec![true; insts.len()];
        for (at, inst) in insts.iter().enumerate().rev() {
            let to = if let Op::Sass(s) = &inst.op { held::constant(s) } else { None };
            if to.is_some_and(|(r, _)| r.index() < 64 && wanted >> r.index() & 1 == 0) {
                stays[at] = false;
                continue;
            }
            step(inst, &mut wanted);
        }
        let mut at = stays.into_iter();
        insts.retain(|_| at.next().unwrap_or(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    /// The registers that constants are still moved to, of those that a product in a loop has in its descriptor, with A in registers or not; `rest` stands
    /// behind the loop.
    fn left(held: bool, rest: &str) -> Vec<u32> {
        let moves: String = (8..12).map(|r| format!("    UMOV_I Rd=UR{r} Mask={r}\n")).collect();
        let product = match held {
            true => "HGMMA_RRUR_OPEN.M75=1 Rd=R24 Ra=R20 UR=UR8 Rc=R24",
            false => "HGMMA_RUR_OPEN.M75=1 Rd=R24 URa=UR8 Rc=R24",
        };
        let t = format!(
            "func k entry max=64 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{moves}    br blk1()\nblk1(): depth=1\n    {product} Pp=!UPT\n\
             \x20   HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n    brif P0, blk1(), blk2()\nblk2(): depth=0\n{rest}    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        if !held {
            // Such functions are not looked at unless there is another product.
            let other = text::parse(&t.replace(product, "HGMMA_RRUR_OPEN.M75=1 Rd=R24 Ra=R20 UR=UR12 Rc=R24"))
                .unwrap()
                .remove(0);
            let put = other.blocks[1].insts[0].clone();
            f.blocks[1].insts.insert(0, put);
        }
        run(&mut f);
        let to = |i: &Inst| if let Op::Sass(s) = &i.op { held::constant(s).map(|c| c.0.index()) } else { None };
        f.blocks.iter().flat_map(|b| &b.insts).filter_map(to).collect()
    }

    #[test]
    fn what_describes_nothing_is_not_moved() {
        assert_eq!(left(true, ""), [10, 11]);
        assert_eq!(left(false, ""), [8, 9, 10, 11]);
    }

    #[test]
    fn what_something_else_reads_is() {
        assert_eq!(left(true, "    IADD3_RUR Rd=R2 Ra=RZ Rb=UR9 Rc=RZ\n    STS Ra=RZ Rb=R2\n"), [9, 10, 11]);
        assert_eq!(left(true, "    @P1 UMOV_I Rd=UR8 Mask=0x5\n    IADD3_RUR Rd=R2 Ra=RZ Rb=UR8 Rc=RZ\n"), [8, 10, 11]);
    }
}
