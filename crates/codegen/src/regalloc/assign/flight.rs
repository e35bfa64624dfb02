//! Registers that products of warpgroups still read.
//!
//! A product reads A some time after it was issued, until a wait for its group. What is written there before must wait
//! ([`crate::sched::warpgroup`]), and with it everything behind it: as long as there are others, such registers are left alone.

use super::Assign;
use crate::isel::warpgroup::end_of_group;
use crate::mir::{Func, Op};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Value};
use sass::latency::Class;
use sass::reg::File;

/// By register: 0, or one more than the number of groups that were ended since a product that reads it.
pub(super) type Flight = [u8; 256];

/// By value: a product of a warpgroup reads it as part of A, longer than it lives.
pub(super) fn held(f: &Func) -> Vec<bool> {
    let mut out = Vec::new();
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        if let Op::Sass(s) = &inst.op
            && s.form().class == Class::Gmma
            && let Some(at) = s.slot(S::Ra)
            && s.slot_width(at) > 1
            && let Some(r) = s.operands[at].as_reg().filter(|r| r.is_virtual())
        {
            out.resize(f.vregs.len(), false);
            f.each_scalar(r, s.slot_width(at), |v| out[v.index()] = true);
        }
    }
    out
}

/// The most registers that products read between two waits of a block.
pub(super) fn longest(f: &Func) -> usize {
    let mut most = 0;
    for block in &f.blocks {
        let mut now = 0;
        for inst in &block.insts {
            let Op::Sass(s) = &inst.op else { continue };
            if s.form == F::WARPGROUP_I {
                now = 0;
            } else if s.form().class == Class::Gmma
                && let Some(at) = s.slot(S::Ra)
                && matches!(s.operands[at].value, Value::Reg(r) if r.file() == File::Gpr && !r.is_const())
            {
                now += usize::from(s.slot_width(at));
                most = most.max(now);
            }
        }
    }
    most
}

impl Assign<'_> {
    /// What is under way where a block begins: what is at the end of any block before it that has been seen.
    pub(super) fn begin_flight(&mut self, b: u32) {
        let busy = &mut self.banks[File::Gpr as usize].busy;
        *busy = None;
        for &p in &self.cfg.preds[b as usize] {
            let Some(before) = &self.flights[p as usize] else { continue };
            match busy {
                None => *busy = Some(before.clone()),
                Some(now) => {
                    for (n, &o) in now.iter_mut().zip(before.iter()) {
                        *n = if *n == 0 || o == 0 { (*n).max(o) } else { (*n).min(o) };
                    }
                }
            }
        }
    }

    /// Remembers what is under way at the end of a block.
    pub(super) fn end_flight(&mut self, b: usize) {
        self.flights[b] = self.banks[File::Gpr as usize].busy.take();
    }

    /// Follows an instruction whose registers are assigned.
    pub(super) fn fly(&mut self, s: &Sass) {
        let busy = &mut self.banks[File::Gpr as usize].busy;
        if s.form == F::WARPGROUP_I {
            let left = match s.get(S::ImmAt72).map(|o| o.value) {
                Some(Value::Imm(n)) => n.get(),
                _ => 0,
            };
            if let Some(now) = busy {
                now.iter_mut().filter(|n| **n > 1 && i64::from(**n) - 1 > left).for_each(|n| *n = 0);
                if now.iter().all(|&n| n == 0) {
                    *busy = None;
                }
            }
        } else if s.form().class == Class::Gmma {
            if s.form == F::HGMMA_RUR && *s == end_of_group() {
                busy.iter_mut().flat_map(|b| b.iter_mut()).filter(|n| **n > 0).for_each(|n| *n = n.saturating_add(1));
            } else if let Some(at) = s.slot(S::Ra)
                && let Value::Reg(r) = s.operands[at].value
                && r.file() == File::Gpr
                && !r.is_const()
            {
                let now = busy.get_or_insert_with(|| Box::new([0; 256]));
                let first = r.index() as usize;
                now[first..first + s.slot_width(at) as usize].fill(1);
            }
        }
    }
}
