//! Moves out of uniform registers stand right behind what is moved.
//!
//! Some instructions write a uniform register whatever reads it (`REDUX`), and selection moves the result to a general register at once. An order that keeps
//! few general registers alive puts such moves off; there are 64 general registers for a uniform one's 16, and general ones alone can be spilled. So where
//! uniform registers did not suffice, moves go back to where they were. Runs before register assignment.

use crate::mir::liveness::Liveness;
use crate::mir::{Func, Op, Vreg, reorder};
use crate::regalloc::{self, Banks};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::Operand;
use sass::reg::{File, Reg};

const NONE: u32 = u32::MAX;

/// So many moves that may stand elsewhere are too few to be in the way.
const FEW: usize = 16;

/// True if more uniform registers are alive at once than there are, and moves out of them may be why.
pub fn needed(f: &Func) -> bool {
    let moves = f.blocks.iter().flat_map(|b| &b.insts).filter(|i| moved(&i.op).is_some()).count();
    let there = Banks::of(f).count(File::Ugpr);
    // All that there are need not be alive at once.
    let all = f.vregs.iter().filter(|&&file| file == File::Ugpr).count();
    if moves <= FEW || all <= there as usize {
        return false;
    }
    let cfg = f.cfg();
    let need = regalloc::pressure(f, &cfg, &Liveness::new(f, &cfg));
    need.max[File::Ugpr as usize] > there
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    // By value: the last instruction of the block at hand that makes it.
    let mut made = vec![NONE; f.vregs.len()];
    for b in 0..f.blocks.len() {
        let insts = &f.blocks[b].insts;
        let mut behind: Vec<(u32, u32)> = Vec::new();
        for (i, inst) in (0..).zip(insts) {
            if let Some(v) = moved(&inst.op)
                && made[v.index()] != NONE
            {
                behind.push((made[v.index()], i));
                continue;
            }
            f.defs(&inst.op, |v| made[v.index()] = if f.vregs[v.index()] == File::Ugpr { i } else { NONE });
        }
        insts.iter().for_each(|inst| f.defs(&inst.op, |v| made[v.index()] = NONE));
        if behind.is_empty() {
            continue;
        }
        let mut goes = vec![false; insts.len()];
        behind.iter().for_each(|&(_, i)| goes[i as usize] = true);
        behind.sort_unstable();
        let mut next = behind.iter().peekable();
        let mut order = Vec::with_capacity(insts.len());
        for i in (0..insts.len() as u32).filter(|&i| !goes[i as usize]) {
            order.push(i);
            while let Some((_, m)) = next.next_if(|(at, _)| *at == i) {
                order.push(*m);
            }
        }
        let insts = std::mem::take(&mut f.blocks[b].insts);
        f.blocks[b].insts = reorder(insts, &order);
    }
}

/// The uniform register that an instruction moves to a general one.
fn moved(op: &Op) -> Option<Vreg> {
    let Op::Sass(s) = op else { return None };
    let plain = s.form == F::MOV_U && s.guard == Operand::reg(Reg::PT);
    let from = s.get(S::Rb).and_then(Operand::as_reg).filter(|r| plain && r.is_virtual())?;
    Some(Vreg(from.index()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Results of `n` reductions are moved behind the last of them.
    #[test]
    fn it_is_known_before_whether_moves_are_in_the_way() {
        let many = |n: usize| {
            let mut t = String::from(
                "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n",
            );
            (1..=n).for_each(|i| writeln!(t, "    R2UR Rd=%ur{i} Ra=%r0").unwrap());
            (1..=n).for_each(|i| writeln!(t, "    MOV_U Rd=%r{} Rb=%ur{i}", 100 + i).unwrap());
            (1..=n).for_each(|i| writeln!(t, "    STS Ra=RZ Rb=%r{}", 100 + i).unwrap());
            crate::mir::text::parse(&(t + "    exit\n}\n")).unwrap().remove(0)
        };
        assert!(!needed(&many(50)));
        let mut f = many(60);
        assert!(needed(&f));
        run(&mut f);
        assert!(!needed(&f));
    }
    use crate::mir::{text, verify};

    #[test]
    fn results_of_a_warp_are_moved_at_once() {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n";
        let lines = [
            "S2R Rd=%r0 Sr=0x21",
            "REDUX Rd=%ur1 Ra=%r0",
            "REDUX.Op=1 Rd=%ur2 Ra=%r0",
            "MOV_U Rd=%r3 Rb=%ur2",
            "STG URc=UR4 Rb=%r3",
            "MOV_U Rd=%r4 Rb=%ur1",
            "STG URc=UR4 Rb=%r4",
        ];
        let mut f = text::parse(&format!("{head}    {}\n    exit\n}}\n", lines.join("\n    "))).unwrap().remove(0);
        run(&mut f);
        verify::ssa(&f).unwrap();
        let t = text::print(&f);
        let order: Vec<usize> = lines.iter().map(|l| t.find(l).unwrap_or_else(|| panic!("{l}: {t}"))).collect();
        assert!(order[1] < order[5] && order[5] < order[2] && order[2] < order[3] && order[3] < order[4], "{t}");
    }
}
