//! Products of warpgroups that may be under way where something else is: a call would wait for them.

use crate::cfg::Cfg;
use crate::ir::{Func, Inst, Op};
use crate::lower::warpgroup::order;

/// Nothing is under way.
pub(super) const NONE: u8 = 0;
/// Products that belong to no group yet.
const OPEN: u8 = 1;
/// Groups of products.
const GROUPS: u8 = 2;

/// What is under way behind an instruction, where `flying` is before it.
pub(super) fn behind(flying: u8, inst: &Inst) -> u8 {
    match inst.op {
        Op::Wgmma => flying | OPEN,
        Op::WgmmaOrder if inst.attr.sub == order::COMMIT && flying & OPEN != 0 => GROUPS,
        Op::WgmmaOrder if inst.attr.sub == order::WAIT && inst.imm == 0 => flying & !GROUPS,
        _ => flying,
    }
}

/// What may be under way where each block begins; none of a function without products.
pub(super) fn blocks(f: &Func, cfg: &Cfg) -> Option<Vec<u8>> {
    if !f.insts.iter().any(|i| i.op == Op::Wgmma) {
        return None;
    }
    let mut out = vec![NONE; f.blocks.len()];
    let mut work: Vec<u32> = cfg.rpo.iter().rev().copied().collect();
    while let Some(b) = work.pop() {
        let end = f.blocks[b as usize].insts.iter().fold(out[b as usize], |flying, &i| behind(flying, f.inst(i)));
        for &s in &cfg.succs[b as usize] {
            if out[s as usize] | end != out[s as usize] {
                out[s as usize] |= end;
                work.push(s);
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text;

    #[test]
    fn groups_are_under_way_until_they_are_waited_for() {
        let source = "func k entry returns() {\nblk0():\nv0:b64 = param {bytes=8}\nv1:p = const {imm=0}\nv2:b32 = sreg\nv3:p = icmp v2, v2\nbr blk1()\n\
                      blk1():\nwgmma v0, v0, v1\nwgmma.order {sub=1}\nbrif v3, blk1(), blk2()\nblk2():\nwgmma.order {sub=2 imm=1}\nbr blk3()\nblk3():\n\
                      wgmma.order {sub=2}\nbr blk4()\nblk4():\nwgmma v0, v0, v1\nwgmma.order {sub=2}\nbr blk5()\nblk5():\nexit\n}";
        let f = text::parse(source).unwrap().remove(0);
        let found = blocks(&f, &f.cfg()).unwrap();
        assert_eq!(found, [NONE, GROUPS, GROUPS, GROUPS, NONE, OPEN]);
    }

    #[test]
    fn without_products_there_is_nothing_to_know() {
        let f = text::parse("func k entry returns() {\nblk0():\nexit\n}").unwrap().remove(0);
        assert_eq!(blocks(&f, &f.cfg()), None);
    }
}
