//! What threads ask for while they wait is made ready before they begin to.
//!
//! A loop that asks a barrier in shared memory again and again until its phase is over is one block. Selection puts beside the question what it is asked
//! with: the address in a uniform register, which takes longer to get there than the answer to come, and the phase. Runs on SSA form; what such a
//! loop computes of values from before it moves to the end of the block that leads into it. So does what the first product of a warpgroup behind the loop is asked
//! with, its descriptors above all: the tensor cores have nothing to do until it is there.

use crate::cfg::Cfg;
use crate::guards::shared;
use crate::mir::liveness::Liveness;
use crate::mir::{Func, Inst, Op, Term};
use crate::regalloc::{self, assign};
use crate::registers;
use crate::sched::order::movable;
use sass::forms as F;
use sass::inst::Operand;
use sass::reg::{File, Reg};

/// So many uniform registers may be alive where a product's descriptors wait for it: with more, others may find none.
const MOST: u32 = 44;
/// Where fewer general registers than these are free, nothing is moved: what waits for products may lose its place.
const SPARE: u32 = 12;

/// Runs the pass; `products`: for what products are asked with, too. Gives true if there was such.
pub fn run(f: &mut Func, products: bool) -> bool {
    let asks = |i: &Inst| matches!(&i.op, Op::Sass(s) if s.form == F::SYNCS_PHASECHK);
    if !f.blocks.iter().any(|b| b.insts.iter().any(asks)) {
        return false;
    }
    let mut early = false;
    let cfg = f.cfg();
    let products = products && assign::has_products(f);
    let by_block = if products { regalloc::pressures(f, &cfg, &Liveness::new(f, &cfg)).1 } else { Vec::new() };
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
            if products {
                let made = product(f, &cfg, (before, b), &by_block);
                early |= !made.is_empty();
                f.blocks[before].insts.extend(made);
            }
        }
    }
    early
}

/// Takes out of the block behind loop `b` what can be computed before that, if nothing else leads there and it is for the first product of the block.
fn product(f: &mut Func, cfg: &Cfg, (before, b): (usize, usize), by_block: &[[u32; 4]]) -> Vec<Inst> {
    let behind = cfg.succs[b].iter().map(|&s| s as usize).find(|&s| s != b);
    let alone = |&n: &usize| cfg.preds[n][..] == [b as u32] && !f.blocks[n].divergent;
    let Some(n) = behind.filter(alone) else { return Vec::new() };
    let Some(end) = f.blocks[n].insts.iter().position(assign::product) else { return Vec::new() };
    // What is not there before the loop.
    let mut later = vec![false; f.vregs.len()];
    f.blocks[b].params.iter().chain(&f.blocks[n].params).for_each(|p| later[p.index()] = true);
    f.blocks[b].insts.iter().for_each(|i| f.defs(&i.op, |v| later[v.index()] = true));
    let insts = &f.blocks[n].insts[..end];
    let mut goes: Vec<bool> = Vec::with_capacity(end);
    for inst in insts {
        let mut here = !ready(inst);
        f.uses(&inst.op, |v| here |= later[v.index()]);
        if here {
            f.defs(&inst.op, |v| later[v.index()] = true);
        }
        goes.push(!here);
    }
    let mut wanted = vec![false; f.vregs.len()];
    f.uses(&f.blocks[n].insts[end].op, |v| wanted[v.index()] = true);
    for (inst, goes) in insts.iter().zip(&mut goes).rev() {
        let mut any = false;
        f.defs(&inst.op, |v| any |= wanted[v.index()]);
        *goes &= any;
        if any {
            f.uses(&inst.op, |v| wanted[v.index()] = true);
        }
    }
    let mut more = 0;
    for (inst, _) in insts.iter().zip(&goes).filter(|x| *x.1) {
        f.defs(&inst.op, |v| more += (f.vregs[v.index()] == File::Ugpr) as u32);
    }
    let owned = registers::owned(f, cfg);
    let tight = |n: usize| {
        let there = owned.get(n).map_or(f.max_gprs, |&own| own as u32);
        by_block[n][File::Gpr as usize] + SPARE > there || by_block[n][File::Ugpr as usize] + more > MOST
    };
    if more == 0 || [before, b, n].into_iter().any(tight) {
        return Vec::new();
    }
    let mut insts = std::mem::take(&mut f.blocks[n].insts);
    let rest = insts.split_off(end);
    let (mut made, mut stay) = (Vec::new(), Vec::with_capacity(end + rest.len()));
    for (inst, goes) in insts.into_iter().zip(goes) {
        if goes { made.push(inst) } else { stay.push(inst) }
    }
    stay.extend(rest);
    f.blocks[n].insts = stay;
    made
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

    /// What the first product behind the loop needs is made before it, but for what the loop or a load gives.
    #[test]
    fn descriptors_are_made_before_the_loop() {
        let sums: String = (100..104).map(|k| format!("    MOV_R Rd=%r{k}\n")).collect();
        let text = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    UMOV_I Rd=%ur1\n    S2R Rd=%r0 Sr=0x21\n{sums}    br blk1()\n\
             blk1(): depth=1\n    SYNCS_PHASECHK Pu=%p3 Ra=RZ URc=%ur1 Rb=%r0\n    brif %p3, blk2(), blk1()\n\
             blk2(): depth=0\n    WARPGROUP_I\n    UMOV_I Rd=%ur10\n    IADD3_RIR Rd=%r20 Ra=%r0 Rb=1\n    R2UR Rd=%ur11 Ra=%r20\n    LDS Rd=%r21 Ra=%r0\n\
             \x20   R2UR Rd=%ur12 Ra=%r21\n    UMOV_I Rd=%ur13 Mask=0\n    IADD3_RIR Rd=%r22 Ra=%r0 Rb=2\n    WARPGROUP\n\
             \x20   HGMMA_RUR_OPEN.M75=1 Rd={{%r110,%r111,%r112,%r113}} URa={{%ur10,%ur11,%ur12,%ur13}} Rc={{%r100,%r101,%r102,%r103}}\n    HGMMA_RUR Pp=!UPT\n\
             \x20   WARPGROUP_I\n    STS Ra=RZ Rb=%r110\n    STS Ra=RZ Rb=%r22\n    exit\n}}\n"
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        verify::ssa(&f).unwrap();
        run(&mut f, true);
        verify::ssa(&f).unwrap();
        let name = |i: &Inst| if let Op::Sass(s) = &i.op { s.form().mnemonic } else { "copy" };
        let moved: Vec<&str> = f.blocks[0].insts[6..].iter().map(name).collect();
        assert_eq!(moved, ["UMOV", "IADD3", "R2UR", "UMOV"]);
        assert_eq!(f.blocks[2].insts.len(), 10);
    }

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
            run(&mut f, true);
            verify::ssa(&f).unwrap();
            f.blocks[0].insts.len()
        };
        assert_eq!(after(""), 2);
        // More than waiting goes on.
        assert_eq!(after("STS Ra=RZ Rb=%r0\n    "), 1);
    }
}
