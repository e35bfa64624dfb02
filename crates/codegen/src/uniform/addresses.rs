//! The uniform part of an address in shared memory is added where it is read.

use super::forms::SHARED;
use crate::mir::{Func, Op};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::Reg;

/// Puts the uniform part of addresses in shared memory into the accesses: `R1 + UR2` is computed where it is read.
pub(super) fn fold(f: &mut Func) {
    // By sum: its general and its uniform part.
    let mut sums: Vec<Option<(Reg, Reg)>> = Vec::new();
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        let Op::Sass(s) = &inst.op else { continue };
        let plain = |name| s.get(name).filter(|o| !o.neg && !o.inv).and_then(Operand::as_reg);
        if s.form == F::IADD3_RUR
            && s.guard == Operand::reg(Reg::PT)
            && plain(S::Rc) == Some(Reg::RZ)
            && [S::Pu, S::Pv].into_iter().all(|p| s.get(p).and_then(Operand::as_reg).is_none_or(Reg::is_const))
            && let (Some(d), Some(a), Some(b)) = (plain(S::Rd), plain(S::Ra), plain(S::Rb))
            && d.is_virtual()
            && a.is_virtual()
        {
            sums.resize(f.vregs.len(), None);
            sums[d.index() as usize] = Some((a, b));
        }
    }
    if sums.is_empty() {
        return;
    }
    let base = |s: &Sass| {
        let known = SHARED.iter().any(|x| x.0 == s.form);
        s.get(S::Ra).filter(|_| known).and_then(Operand::as_reg).filter(|r| r.is_virtual()).map(|r| r.index() as usize)
    };
    // Only where every reader takes both parts.
    let mut others = vec![false; f.vregs.len()];
    for b in 0..f.blocks.len() {
        for inst in &f.blocks[b].insts {
            let mine = if let Op::Sass(s) = &inst.op { base(s) } else { None };
            let mut seen = 0;
            f.uses(&inst.op, |v| {
                seen += (Some(v.index()) == mine) as u32;
                others[v.index()] |= Some(v.index()) != mine || seen > 1;
            });
        }
        f.term_uses(&f.blocks[b].term, |v| others[v.index()] = true);
        for e in f.blocks[b].term.edges() {
            e.args.iter().for_each(|v| others[v.index()] = true);
        }
    }
    let folded = |v: usize| sums[v].filter(|_| !others[v]);
    let mut gone = false;
    for inst in f.blocks.iter_mut().flat_map(|b| &mut b.insts) {
        let Op::Sass(s) = &mut inst.op else { continue };
        if let Some((a, b)) = base(s).and_then(folded)
            && let Some(&(_, to, slot)) = SHARED.iter().find(|x| x.0 == s.form)
        {
            let mut new = Sass::new(to).guarded(s.guard);
            for (o, place) in s.operands.iter().zip(s.form().slots) {
                new.set(place.name, *o);
            }
            for (&m, field) in s.mods.iter().zip(s.form().mods) {
                new.set_mod(field.name, m);
            }
            *s = new.with(S::Ra, a).with(slot, b);
            gone = true;
        }
    }
    if gone {
        for block in &mut f.blocks {
            block.insts.retain(|i| match &i.op {
                Op::Sass(s) if s.form == F::IADD3_RUR => {
                    let d = s.get(S::Rd).and_then(Operand::as_reg).filter(|r| r.is_virtual());
                    d.is_none_or(|d| folded(d.index() as usize).is_none())
                }
                _ => true,
            });
        }
    }
}
