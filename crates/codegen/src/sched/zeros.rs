//! Clears registers two at a time: `CS2R` of the register that reads as zero writes an even pair.
//!
//! Runs on a function after register allocation. The second of two moves joins the first if nothing between them reads or
//! writes its register.

use crate::mir::{Func, Inst, Op};
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::{File, Reg};

/// Runs the pass.
pub fn run(f: &mut Func) {
    for b in &mut f.blocks {
        block(&mut b.insts);
    }
}

/// The general register that the instruction clears, whatever else is the case.
fn cleared(i: &Inst) -> Option<usize> {
    let Op::Sass(s) = &i.op else { return None };
    let zero = s.form == F::MOV_R
        && s.get(S::Rb).and_then(Operand::as_reg) == Some(Reg::RZ)
        && s.guard == Operand::reg(Reg::PT);
    let r = s.get(S::Rd).and_then(Operand::as_reg).filter(|r| zero && r.file() == File::Gpr && !r.is_const())?;
    Some(r.index() as usize)
}

fn block(insts: &mut Vec<Inst>) {
    // By general register: when it was read or written last, from 1; and when it was cleared by a move of its own.
    let mut touched = [0u32; 256];
    let mut zeroed = [0u32; 256];
    let mut barrier = 0u32;
    let mut gone = vec![false; insts.len()];
    for i in 0..insts.len() {
        let now = i as u32 + 1;
        if let Some(r) = cleared(&insts[i]) {
            let (mate, low) = (r ^ 1, r & !1);
            let at = zeroed[mate];
            if at > barrier && touched[r] < at && low + 1 < 255 {
                let wide = Sass::new(F::CS2R)
                    .with(S::Rd, Reg::r(low as u8))
                    .with(S::Sr, Operand::imm(enums::sr::SRZ as i64))
                    .with_mod(M::W, enums::cs2rw::B64);
                insts[at as usize - 1].op = Op::Sass(wide);
                gone[i] = true;
                zeroed[mate] = 0;
                continue;
            }
            touched[r] = now;
            zeroed[r] = now;
            continue;
        }
        match &insts[i].op {
            Op::Sass(s) => {
                let mut mark = |u: usize, _: Option<u8>| {
                    if u < 256 {
                        touched[u] = now;
                        zeroed[u] = 0;
                    }
                };
                super::reads(s, &mut mark);
                super::writes(s, &mut mark);
                if s.form().effects.flow {
                    barrier = now;
                }
            }
            _ => barrier = now,
        }
    }
    let mut n = 0;
    insts.retain(|_| {
        n += 1;
        !gone[n - 1]
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    fn after(body: &str) -> String {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n";
        let mut f = text::parse(&format!("{head}{body}\n    exit\n}}\n")).unwrap().remove(0);
        run(&mut f);
        text::print(&f)
    }

    #[test]
    fn neighbours_are_cleared_together() {
        let t = after("    MOV_R Rd=R4 Rb=RZ\n    MOV_R Rd=R8 Rb=RZ\n    MOV_R Rd=R5 Rb=RZ");
        assert!(t.contains("CS2R") && t.matches("MOV_R").count() == 1, "{t}");
    }

    #[test]
    fn a_pair_begins_at_an_even_register() {
        let t = after("    MOV_R Rd=R5 Rb=RZ\n    MOV_R Rd=R6 Rb=RZ");
        assert!(!t.contains("CS2R"), "{t}");
    }

    #[test]
    fn what_is_read_in_between_keeps_its_place() {
        let t = after("    MOV_R Rd=R4 Rb=RZ\n    IADD3_RRR Rd=R6 Ra=R5 Rb=R5 Rc=RZ\n    MOV_R Rd=R5 Rb=RZ");
        assert!(!t.contains("CS2R"), "{t}");
        let t = after("    MOV_R Rd=R4 Rb=RZ\n    IADD3_RRR Rd=R4 Ra=R7 Rb=R7 Rc=RZ\n    MOV_R Rd=R5 Rb=RZ");
        assert!(!t.contains("CS2R"), "{t}");
    }
}
