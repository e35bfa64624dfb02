//! One register for a constant, or what lies in a uniform register, that several instructions of a block read.
//!
//! Selection moves a constant into a register for each instruction that cannot have it as an operand. Where the readers stand close to each
//! other one move will do. Runs on SSA form, behind [`super::sink`].

use super::sink::rename;
use crate::mir::operands::sass_uses;
use crate::mir::{Func, Op, Vreg};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};

/// Instructions between two readers that share a register; what waits longer takes more than its move costs.
const NEAR: usize = 48;

/// In place of the block that reads a value.
const NOBODY: u32 = u32::MAX;
const OTHERS: u32 = u32::MAX - 1;

/// A constant in a register: its bits, the register, where it was made or read last.
type Kept = (i64, Vreg, usize);

/// Runs the pass.
pub fn run(f: &mut Func) {
    // Most functions have no constant twice in one block.
    let mut seen: Vec<i64> = Vec::new();
    let twice: Vec<usize> = (0..f.blocks.len())
        .filter(|&b| {
            seen.clear();
            seen.extend(f.blocks[b].insts.iter().filter_map(|i| constant(&i.op)).map(|c| c.0));
            seen.sort_unstable();
            seen.windows(2).any(|w| w[0] == w[1])
        })
        .collect();
    if twice.is_empty() {
        return;
    }
    let reader = readers(f);
    let mut of: Vec<Vreg> = (0..f.vregs.len() as u32).map(Vreg).collect();
    for b in twice {
        let mut changed = false;
        let mut kept: Vec<Kept> = Vec::new();
        let mut insts = std::mem::take(&mut f.blocks[b].insts);
        let mut n = 0;
        insts.retain(|inst| {
            n += 1;
            f.uses(&inst.op, |v| {
                let v = of[v.index()];
                if let Some(k) = kept.iter_mut().find(|k| k.1 == v) {
                    k.2 = n;
                }
            });
            let Some((bits, v)) = constant(&inst.op).filter(|c| reader[c.1.index()] == b as u32) else { return true };
            kept.retain(|k| n - k.2 <= NEAR);
            if let Some(k) = kept.iter().find(|k| k.0 == bits) {
                of[v.index()] = k.1;
                changed = true;
                return false;
            }
            kept.push((bits, v, n));
            true
        });
        f.blocks[b].insts = insts;
        if changed {
            rename(f, b, &mut |_, v| of.get(v.index()).copied().unwrap_or(v));
        }
    }
}

/// The bits and the register, if this moves a constant, or what is in a uniform register, into one of its own.
fn constant(op: &Op) -> Option<(i64, Vreg)> {
    let Op::Sass(s) = op else { return None };
    let plain = |s: &Sass| matches!(s.form, F::MOV_I | F::MOV_U) && s.guard == Operand::reg(Reg::PT);
    let d = s.get(S::Rd).and_then(Operand::as_reg).filter(|d| plain(s) && d.is_virtual() && d.file() == File::Gpr)?;
    match s.get(S::Rb)?.value {
        Value::Imm(bits) => Some((bits.get(), Vreg(d.index()))),
        // The number of a value that never changes.
        Value::Reg(r) if r.is_virtual() => Some((1 << 40 | r.index() as i64, Vreg(d.index()))),
        _ => None,
    }
}

/// By value: the block that reads it, if instructions of one block do, as a register of its own, and nothing else. As a part of a vector,
/// or where ways meet, it would have to be copied.
fn readers(f: &Func) -> Vec<u32> {
    let mut reader = vec![NOBODY; f.vregs.len()];
    for (b, block) in (0..).zip(&f.blocks) {
        for inst in &block.insts {
            match &inst.op {
                Op::Sass(s) => sass_uses(s, |p| {
                    let by = if p.width > 1 { OTHERS } else { b };
                    f.each_scalar(p.reg, p.width, |v| {
                        let r = &mut reader[v.index()];
                        *r = if *r == NOBODY || *r == by { by } else { OTHERS };
                    });
                }),
                op => f.uses(op, |v| reader[v.index()] = OTHERS),
            }
        }
        f.term_uses(&block.term, |v| reader[v.index()] = OTHERS);
        for e in block.term.edges() {
            e.args.iter().for_each(|v| reader[v.index()] = OTHERS);
        }
    }
    reader
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    /// How many moves of constants are left.
    fn moves(body: &str) -> usize {
        let head =
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n";
        let mut f = text::parse(&format!("{head}{body}    exit\n}}\n")).unwrap().remove(0);
        run(&mut f);
        verify::ssa(&f).unwrap();
        f.blocks.iter().flat_map(|b| &b.insts).filter(|i| constant(&i.op).is_some()).count()
    }

    fn reader(k: u32, bits: u32) -> String {
        let (m, d) = (10 + 2 * k, 11 + 2 * k);
        format!(
            "    MOV_I Rd=%r{m} Rb={bits}\n    SEL_RR Rd=%r{d} Ra=%r0 Rb=%r{m} Pp=PT\n    STG.Size=4 Ra=RZ Rb=%r{d} URc=UR4\n"
        )
    }

    #[test]
    fn readers_close_to_each_other_share_a_register() {
        assert_eq!(moves(&format!("{}{}{}", reader(0, 5), reader(1, 5), reader(2, 6))), 2);
    }

    #[test]
    fn what_lies_in_one_uniform_register_is_moved_once() {
        let uniform = |k, ur: &str| reader(k, 5).replace("MOV_I", "MOV_U").replace("Rb=5", ur);
        let made = "    S2UR Rd=%ur1 Sr=0x25\n    S2UR Rd=%ur2 Sr=0x26\n";
        assert_eq!(
            moves(&format!("{made}{}{}{}", uniform(0, "Rb=%ur1"), uniform(1, "Rb=%ur1"), uniform(2, "Rb=%ur2"))),
            2
        );
    }

    #[test]
    fn readers_far_from_each_other_do_not() {
        let between: String = (50..110).map(|n| format!("    IADD3_RIR Rd=%r{n} Ra=%r0 Rb={n} Rc=RZ\n")).collect();
        assert_eq!(moves(&format!("{}{between}{}", reader(0, 5), reader(1, 5))), 2);
    }

    #[test]
    fn parts_of_vectors_stay() {
        let two = "    MOV_I Rd=%r1 Rb=5\n    MOV_I Rd=%r2 Rb=5\n    STG.Size=5 Ra=RZ Rb={%r1,%r2} URc=UR4\n";
        assert_eq!(moves(two), 2);
    }
}
