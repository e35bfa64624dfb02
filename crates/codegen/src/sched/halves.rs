//! Instructions on halves read the half where it is.
//!
//! A half that lies in the upper part of a word is moved down by selection, as other instructions know lower halves alone. What
//! computes with halves (`HADD2`, `HFMA2`, comparisons, ...) says of each register which half it takes, so it reads the word itself, and
//! so do permutations of bytes. The word stays alive a little longer, and the move goes where nobody else reads it
//! ([`super::dead`]).

use crate::mir::{Func, Op, Vreg};
use sass::enums::{hswz, shftype};
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};

/// The slots of an instruction on halves, and the modifier that says which half of each is taken.
const READ: [(S, M); 3] = [(S::Ra, M::HalfA), (S::Rb, M::HalfB), (S::Rc, M::HalfC)];

/// Where the low half of a register comes from: a register, and whether it is the upper half of it.
type Origin = Option<(Vreg, bool)>;

/// Where the halves of registers come from.
#[derive(Default)]
struct Origins {
    low: Vec<Origin>,
    /// Of registers that have the same half twice.
    twice: Vec<Origin>,
}

/// Runs the pass, on SSA form.
pub fn run(f: &mut Func) {
    let mut origins = Origins::default();
    let cfg = f.cfg();
    // A definition comes before its readers in this order.
    for &b in &cfg.rpo {
        for i in 0..f.blocks[b as usize].insts.len() {
            let Op::Sass(sass) = &mut f.blocks[b as usize].insts[i].op else { continue };
            if let Some((d, from)) = moved(sass) {
                if origins.low.is_empty() {
                    origins.low = vec![None; f.vregs.len()];
                }
                // Moved twice: the first place.
                let (v, upper) = from;
                let first = if upper { None } else { origins.low[v.index()] };
                origins.low[d.index()] = Some(first.unwrap_or(from));
            }
            if !(origins.low.is_empty() && origins.twice.is_empty()) {
                read(sass, &origins);
            }
            if let Some((d, from)) = doubled(sass) {
                if origins.twice.is_empty() {
                    origins.twice = vec![None; f.vregs.len()];
                }
                origins.twice[d.index()] = Some(from);
            }
        }
    }
}

/// The general register of an operand, if it is one that is read as it is.
fn register(sass: &Sass, slot: S) -> Option<Reg> {
    let r = sass.get(slot).filter(|o| !o.neg && !o.abs && !o.inv)?.as_reg()?;
    (r.is_virtual() && r.file() == File::Gpr).then_some(r)
}

/// The number in a slot.
fn number(sass: &Sass, slot: S) -> Option<u32> {
    match sass.get(slot)?.value {
        Value::Imm(bits) => Some(bits.get() as u32),
        _ => None,
    }
}

/// For an instruction whose result has half of a register as its low half: the result, the register, and whether it is the
/// upper half.
fn moved(sass: &Sass) -> Option<(Vreg, (Vreg, bool))> {
    if sass.guard != Operand::reg(Reg::PT) {
        return None;
    }
    let (slot, upper) = match sass.form {
        F::PRMT_RIR if sass.modifier(M::Mode) == 0 => match number(sass, S::Rb)? & 0xff {
            0x10 => (S::Ra, false),
            0x32 => (S::Ra, true),
            0x54 => (S::Rc, false),
            0x76 => (S::Rc, true),
            _ => return None,
        },
        F::SHF_RIR if number(sass, S::Rb)? == 16 => {
            let word = matches!(sass.modifier(M::Type), shftype::U32 | shftype::S32);
            if !word || sass.modifier(M::Dir) != 1 || sass.modifier(M::Hi) != 1 {
                return None;
            }
            (S::Rc, true)
        }
        F::LOP3_RIR if number(sass, S::Lut)? == 0xc0 && number(sass, S::Rb)? & 0xffff == 0xffff => (S::Ra, false),
        F::SGXT_RI if (16..=32).contains(&number(sass, S::Rb)?) => (S::Ra, false),
        _ => return None,
    };
    let d = register(sass, S::Rd)?;
    Some((Vreg(d.index()), (Vreg(register(sass, slot)?.index()), upper)))
}

/// For an instruction whose result has half of a register as both of its halves: the result, the register, and whether it is the
/// upper half.
fn doubled(sass: &Sass) -> Option<(Vreg, (Vreg, bool))> {
    if sass.form != F::PRMT_RIR || sass.modifier(M::Mode) != 0 || sass.guard != Operand::reg(Reg::PT) {
        return None;
    }
    let selector = number(sass, S::Rb)?;
    let half = |bytes: u32| match bytes & 0xff {
        0x10 => Some((register(sass, S::Ra)?, false)),
        0x32 => Some((register(sass, S::Ra)?, true)),
        0x54 => Some((register(sass, S::Rc)?, false)),
        0x76 => Some((register(sass, S::Rc)?, true)),
        _ => None,
    };
    let (r, upper) = half(selector).filter(|&lower| half(selector >> 8) == Some(lower))?;
    Some((Vreg(register(sass, S::Rd)?.index()), (Vreg(r.index()), upper)))
}

/// True for what computes with two halves, or compares them, and says of each register which half it takes for which.
fn computes(sass: &Sass) -> bool {
    !matches!(sass.form, F::HADD2_F32_RR | F::HADD2_F32_RC | F::HADD2_F32_RU)
        && sass.form().mods.iter().any(|m| m.name == M::HalfA)
}

/// Lets an instruction read what the halves that it reads come from.
fn read(sass: &mut Sass, origins: &Origins) {
    let at = |list: &[Origin], r: Reg| list.get(r.index() as usize).copied().flatten();
    let origin = |r: Reg| at(&origins.low, r);
    if sass.form == F::PRMT_RIR && sass.modifier(M::Mode) == 0 {
        return permuted(sass, &origin);
    }
    let mut computing = None;
    for (slot, half) in READ {
        let Some(&o) = sass.get(slot) else { continue };
        let Some(r) = o.as_reg().filter(|r| r.is_virtual() && r.file() == File::Gpr) else { continue };
        let (v, upper) = match sass.modifier(half) {
            hswz::H0_H0 => match origin(r) {
                Some(found) => found,
                None => continue,
            },
            hswz::H1_H0 => match at(&origins.twice, r) {
                Some(found) if *computing.get_or_insert_with(|| computes(sass)) => found,
                _ => continue,
            },
            _ => continue,
        };
        sass.set(slot, Operand { value: Value::Reg(Reg::virt(File::Gpr, v.0)), ..o });
        sass.set_mod(half, if upper { hswz::H1_H1 } else { hswz::H0_H0 });
    }
}

/// The same for a permutation: the bytes that it takes of a register must all be of its low half.
fn permuted(sass: &mut Sass, origin: &dyn Fn(Reg) -> Origin) {
    for (slot, of_c) in [(S::Ra, 0), (S::Rc, 4)] {
        let Some(mut selector) = number(sass, S::Rb) else { return };
        let Some((v, upper)) = register(sass, slot).and_then(origin) else { continue };
        let places = [0, 4, 8, 12].into_iter().filter(|at| selector >> at & 4 == of_c);
        if places.clone().any(|at| selector >> at & 2 != 0) {
            continue;
        }
        if upper {
            selector = places.fold(selector, |selector, at| selector | 2 << at);
            sass.set(S::Rb, Operand::imm(selector as i64));
        }
        sass.set(slot, Operand::reg(Reg::virt(File::Gpr, v.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    fn after(body: &str) -> String {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let tail = "    STG.Size=4 Ra=RZ Rb=%r9 URc=UR4\n    exit\n}\n";
        let mut f =
            text::parse(&format!("{head}blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n{body}{tail}")).unwrap().remove(0);
        run(&mut f);
        super::super::dead::run(&mut f);
        verify::ssa(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn a_product_takes_the_upper_half() {
        let t =
            after("    PRMT_RIR Rd=%r1 Ra=%r0 Rb=0x7732 Rc=RZ\n    HMUL2_RR.HalfA=2.HalfB=2 Rd=%r9 Ra=%r1 Rb=%r0\n");
        assert!(!t.contains("PRMT") && t.contains("HalfA=3") && t.contains("Ra=%r0 Rb=%r0"), "{t}");
    }

    #[test]
    fn both_halves_keep_the_move() {
        let t = after("    PRMT_RIR Rd=%r1 Ra=%r0 Rb=0x7732 Rc=RZ\n    HMUL2_RR Rd=%r9 Ra=%r1 Rb=%r0\n");
        assert!(t.contains("PRMT") && t.contains("Ra=%r1"), "{t}");
    }

    #[test]
    fn masks_and_shifts_before_a_permutation() {
        let t = after(
            "    SHF_RIR.Dir=1.Type=3.Hi=1 Rd=%r1 Ra=RZ Rb=0x10 Rc=%r0\n    LOP3_RIR Rd=%r2 Ra=%r0 Rb=0xffff Rc=RZ Pp=!PT Lut=0xc0\n    PRMT_RIR Rd=%r9 Ra=%r1 Rb=0x5410 Rc=%r2\n",
        );
        assert!(!t.contains("SHF") && !t.contains("LOP3") && t.contains("Ra=%r0 Rb=0x5432 Rc=%r0"), "{t}");
    }

    #[test]
    fn a_half_for_both_is_read_where_it_is() {
        let t = after(
            "    PRMT_RIR Rd=%r1 Ra=%r0 Rb=0x7732 Rc=RZ\n    PRMT_RIR Rd=%r2 Ra=%r1 Rb=0x5410 Rc=%r1\n    HFMA2_RRR Rd=%r3 Ra=%r2 Rb=%r0 Rc=%r0\n    HMUL2_RR Rd=%r9 Ra=%r3 Rb=-%r2\n",
        );
        assert!(!t.contains("PRMT") && t.contains("HFMA2_RRR.HalfA=3 Rd=%r3 Ra=%r0") && t.contains("Rb=-%r0"), "{t}");
    }

    #[test]
    fn a_byte_above_the_half_keeps_the_move() {
        let t = after(
            "    LOP3_RIR Rd=%r1 Ra=%r0 Rb=0xffff Rc=RZ Pp=!PT Lut=0xc0\n    PRMT_RIR Rd=%r9 Ra=%r1 Rb=0x3210 Rc=RZ\n",
        );
        assert!(t.contains("LOP3") && t.contains("Ra=%r1"), "{t}");
    }
}
