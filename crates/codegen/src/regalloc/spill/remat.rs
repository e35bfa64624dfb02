//! Rematerialization: a value that has to come back is computed again where everything that it is computed from is in registers.
//!
//! One instruction of arithmetic instead of a load, and no store if it comes back so everywhere. What it reads must be alive there
//! anyway, so that no other value has to stay for it.

use super::super::Note;
use super::{FAR, NONE, Spiller};
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Inst, Op, Vreg};
use sass::inst::{Operand, Value};
use sass::latency::Class;
use sass::reg::Reg;
use smallvec::SmallVec;

/// True for an instruction of arithmetic on single registers that always happens and gives one virtual register.
pub(super) fn simple(inst: &Inst) -> bool {
    let Op::Sass(s) = &inst.op else { return false };
    if !matches!(s.form().class, Class::Alu | Class::Fma | Class::FmaInt | Class::Half)
        || s.guard != Operand::reg(Reg::PT)
        || !crate::sched::order::movable(s)
    {
        return false;
    }
    let (mut defs, mut single) = (0, true);
    sass_defs(s, |p| {
        defs += p.reg.is_virtual() as u32;
        single &= p.width == 1;
    });
    sass_uses(s, |p| single &= p.width == 1);
    single && defs == 1
}

impl Spiller<'_> {
    /// Computes a value again, if what it is computed from is alive and in registers here; gives its new name.
    pub(super) fn remat(&mut self, v: Vreg) -> Option<Vreg> {
        let (block, place) = self.made_at[v.index()];
        if block == NONE {
            return None;
        }
        let list = if block == self.at { &self.out } else { &self.f.blocks[block as usize].insts };
        let Op::Sass(s) = &list.get(place as usize)?.op else { return None };
        let mut s = s.clone();
        let mut reads: SmallVec<[Place; 8]> = SmallVec::new();
        sass_uses(&s, |p| reads.push(p));
        for p in reads.into_iter().filter(|p| p.reg.is_virtual()) {
            let value = self.value_of[p.reg.index() as usize];
            let name = if self.mine(value) {
                (self.in_w[value.index()] != 0).then(|| self.name[value.index()])?
            } else {
                // Of another file: it must live here anyway, or others there might be too many.
                let lives = self.lives_in.get(value.index()) == Some(&self.at) && self.next[value.index()] != FAR;
                lives.then_some(value)?
            };
            s.operands[p.slot? as usize].value = Value::Reg(self.f.reg(name));
        }
        let mut made = None;
        sass_defs(&s, |p| made = p.slot.filter(|_| p.reg.is_virtual()));
        let made = made? as usize;
        let name = self.name_of(v);
        s.operands[made].value = Value::Reg(self.f.reg(name));
        self.emit(s, Note::Anew(v));
        Some(name)
    }
}
