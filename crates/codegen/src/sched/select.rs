//! Guards instead of selections: an operation whose result is taken under a condition, in the place of one of its sources or of
//! another value, is executed under that condition, into the register of the other value.
//!
//! Runs on a function after register allocation, which gives a selection the register of the value that stays, where it can. In
//!
//! ```text
//! FMUL R1, R2, R3        ->
//! SEL R4, R1, R4, P0         @P0 FMUL R4, R2, R3
//! ```
//!
//! nothing else may read R1, and R2 and R3 must still hold what they held. Linear: each selection looks back over a few
//! instructions.

use crate::cfg::Cfg;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op};
use crate::registers::{Set, live_out, step};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// How far a selection looks back for the operation.
const FAR: usize = 48;

/// Runs the pass.
pub fn run(f: &mut Func) {
    // Registers that calls and returns read are not in the instructions.
    let calls = f.blocks.iter().flat_map(|b| &b.insts).any(|i| matches!(&i.op, Op::Call(c) if !c.keeps.light()));
    if !f.entry || calls {
        return;
    }
    let any = f.blocks.iter().flat_map(|b| &b.insts).any(|i| matches!(&i.op, Op::Sass(s) if chosen(s).is_some()));
    if !any {
        return;
    }
    let cfg: Cfg = f.cfg();
    let out = live_out(f, &cfg);
    for &b in &cfg.rpo {
        block(&mut f.blocks[b as usize].insts, out[b as usize]);
    }
}

/// A selection that leaves one value where it is: the register of the other, and the condition of taking it.
fn chosen(s: &Sass) -> Option<(Reg, Operand)> {
    if s.form != F::SEL_RR || s.guard != Operand::reg(Reg::PT) {
        return None;
    }
    let plain = |name| s.get(name).filter(|o| !o.neg && !o.abs && !o.inv).and_then(Operand::as_reg);
    let (d, a, b) = (plain(S::Rd)?, plain(S::Ra)?, plain(S::Rb)?);
    let p = *s.get(S::Pp)?;
    let real = |r: Reg| !r.is_const() && r != d;
    if d.is_const() || p.as_reg().is_none_or(Reg::is_const) {
        None
    } else if b == d && real(a) {
        Some((a, p))
    } else if a == d && real(b) {
        Some((b, p.inverted()))
    } else {
        None
    }
}

/// True if an instruction reads or writes this register, which is no constant one.
fn touches(s: &Sass, r: Reg) -> bool {
    let mut found = false;
    let mut look = |p: Place| {
        let n = r.index().wrapping_sub(p.reg.index());
        found |= n < u32::from(p.width) && p.reg.file() == r.file() && !p.reg.is_const();
    };
    sass_uses(s, &mut look);
    sass_defs(s, &mut look);
    found
}

fn block(insts: &mut Vec<Inst>, out: Set) {
    let mut gone = vec![false; insts.len()];
    let mut live = out;
    let mut changed = false;
    for j in (0..insts.len()).rev() {
        if gone[j] {
            continue;
        }
        if let Op::Sass(s) = &insts[j].op
            && let Some((t, condition)) = chosen(s)
            && live[t.index() as usize / 64] >> (t.index() % 64) & 1 == 0
            && let Some(d) = s.get(S::Rd).and_then(Operand::as_reg)
            && let Some(i) = operation(insts, j, t, &gone)
            && let Op::Sass(op) = &insts[i].op
        {
            let new = op.clone().with(S::Rd, d).guarded(condition);
            insts[j].op = Op::Sass(new);
            gone[i] = true;
            changed = true;
        }
        step(&insts[j], &mut live);
    }
    if changed {
        let mut n = 0;
        insts.retain(|_| {
            n += 1;
            !gone[n - 1]
        });
    }
}

/// The instruction before `j` that computes `t` alone, if it could as well stand at `j` under a guard.
fn operation(insts: &[Inst], j: usize, t: Reg, gone: &[bool]) -> Option<usize> {
    let first = j.saturating_sub(FAR);
    let i = (first..j).rev().find(|&i| {
        let mut touched = matches!(insts[i].op, Op::Call(_) | Op::Copy(_) | Op::LoadIncoming { .. } | Op::Hold { .. });
        if let Op::Sass(s) = &insts[i].op {
            touched |= touches(s, t);
        }
        touched && !gone[i]
    })?;
    let Op::Sass(s) = &insts[i].op else { return None };
    let mut defs = 0;
    let mut alone = true;
    sass_defs(s, |p| {
        if !p.reg.is_const() {
            defs += 1;
            alone &= p.reg == t && p.width == 1;
        }
    });
    let rd = s.get(S::Rd).and_then(Operand::as_reg) == Some(t);
    let free = s.guard == Operand::reg(Reg::PT) && !s.form().uniform_guard && t.file() == File::Gpr;
    if !(defs == 1 && alone && rd && free && movable_fixed(s)) {
        return None;
    }
    let mut read: SmallVec<[Place; 8]> = SmallVec::new();
    sass_uses(s, |p| {
        if !p.reg.is_const() {
            read.push(p);
        }
    });
    let common = |p: &Place, q: &Place| {
        let (a, b) = (p.reg.index(), q.reg.index());
        p.reg.file() == q.reg.file() && a < b + u32::from(q.width) && b < a + u32::from(p.width)
    };
    let own = read.iter().any(|p| common(p, &Place { slot: None, reg: t, width: 1 }));
    // What it reads is not written on the way; it does not read its own result.
    let kept = insts[i + 1..j].iter().zip(&gone[i + 1..j]).all(|(inst, &gone)| match &inst.op {
        _ if gone => true,
        Op::Sass(s) => {
            let mut ok = true;
            sass_defs(s, |q| ok &= q.reg.is_const() || !read.iter().any(|p| common(p, &q)));
            ok && !s.form().effects.flow
        }
        _ => false,
    });
    (kept && !own).then_some(i)
}

/// Nothing else happens than what its registers show, and it is no more than one result.
fn movable_fixed(s: &Sass) -> bool {
    use sass::latency::Class;
    let e = s.form().effects;
    matches!(s.form().class, Class::Alu | Class::Fma | Class::FmaInt | Class::Half)
        && !e.flow
        && !e.sync
        && !e.cross_lane
        && !e.load
        && !e.store
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    fn after(body: &str) -> Vec<String> {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n";
        let mut f = text::parse(&format!("{head}{body}    exit\n}}\n")).unwrap().remove(0);
        run(&mut f);
        verify::physical(&f).unwrap();
        f.blocks[0]
            .insts
            .iter()
            .map(|i| {
                if let Op::Sass(s) = &i.op {
                    format!("{} {}", s.guard.as_reg().unwrap(), s.form().name)
                } else {
                    String::new()
                }
            })
            .collect()
    }

    const STORE: &str = "    STG.Size=4 Ra=R8 Rb=R4 URc=UR4\n";

    #[test]
    fn a_product_under_a_condition_is_guarded() {
        let list = after(&format!(
            "    FMUL_RR Rd=R1 Ra=R2 Rb=R3\n    MOV_I Rd=R9 Rb=1\n    SEL_RR Rd=R4 Ra=R1 Rb=R4 Pp=P0\n{STORE}"
        ));
        assert_eq!(list, ["PT MOV_I", "P0 FMUL_RR", "PT STG"]);
    }

    #[test]
    fn what_others_read_stays() {
        let kept = |middle: &str, end: &str| {
            let n = after(&format!(
                "    FMUL_RR Rd=R1 Ra=R2 Rb=R3\n{middle}    SEL_RR Rd=R4 Ra=R1 Rb=R4 Pp=P0\n{end}{STORE}"
            ))
            .len();
            n == 3 + !middle.is_empty() as usize + !end.is_empty() as usize
        };
        assert!(!kept("", ""));
        assert!(kept("    MOV_R Rd=R9 Rb=R1\n", ""), "read before");
        assert!(kept("", "    MOV_R Rd=R4 Rb=R1\n"), "read behind");
        assert!(kept("    MOV_I Rd=R2 Rb=1\n", ""), "a source is overwritten");
    }
}
