//! What stands before copies from global to shared memory.
//!
//! On sm_90 the vendor's compiler puts three loads from shared memory that never execute before the first `LDGSTS` of a
//! block. Why is not known; they cost nothing next to the copy, so they stand here, too.

use crate::mir::{Func, Inst, Op};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::Reg;

/// Puts them; needs the final order of instructions.
pub fn run(f: &mut Func) {
    for b in &mut f.blocks {
        let first = b.insts.iter().position(|i| matches!(&i.op, Op::Sass(s) if s.form == F::LDGSTS));
        let Some(at) = first else { continue };
        let loc = b.insts[at].loc;
        let never = Operand::reg(Reg::PT).inverted();
        let load = Sass::new(F::LDS).with(S::Rd, Reg::RZ).with(S::Ra, Reg::RZ).guarded(never);
        b.insts.splice(at..at, (0..3).map(|_| Inst::new(Op::Sass(load.clone()), loc)));
    }
}
