//! Shifts, sums and moves on the pipe of multiplications.
//!
//! Integer operations go two pipes, each of which takes an instruction every second cycle: what shifts, adds two numbers or moves one goes the first, and a
//! multiplication that does the same the second. The vendor's code mixes them (`IMAD.SHL`, `IMAD.IADD`, `IMAD.MOV`, `VIADD`). The last order of a block
//! takes the second where the first is busy ([`super::postpass`]).

use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::Reg;

/// What does the same as an instruction of the first pipe on the second, on chip `sm`.
pub fn other(s: &Sass, sm: u16) -> Option<Sass> {
    let plain = |name: S| s.get(name).copied().filter(|o| !o.neg && !o.abs && !o.inv);
    let zero = |name: S| s.get(name).and_then(Operand::as_reg).is_none_or(Reg::is_const);
    let number = |name: S| match s.get(name)?.value {
        // What a linker fills in stays where it is.
        Value::Imm(bits) => {
            let bits = bits.get();
            (bits == bits as i32 as i64 || bits == bits as u32 as i64).then_some(bits as u32 as i32)
        }
        _ => None,
    };
    let none = Operand::reg(Reg::RZ);
    // Which sign a low half is of does not matter; these are as the vendor's.
    let product = |form, a: Operand, b: Operand, c: Operand| {
        let signed = b.as_reg().is_none_or(|r| r != Reg::RZ) && c.as_reg().is_none_or(|r| r != Reg::RZ);
        Sass::new(form).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c).with_mod(M::Sign, signed.into())
    };
    let new = match s.form {
        F::SHF_RIR if s.mods.iter().zip(s.form().mods).all(|(&m, field)| m == field.default) && zero(S::Rc) => {
            let by = number(S::Rb).filter(|n| (0..32).contains(n))?;
            product(F::IMAD_RIR, plain(S::Ra)?, Operand::imm((1u32 << by) as i32 as i64), none)
        }
        F::MOV_R => product(F::IMAD_RRR, none, none, plain(S::Rb)?),
        F::MOV_U => product(F::IMAD_RRU, none, none, plain(S::Rb)?),
        F::MOV_I => product(F::IMAD_RRI, none, none, Operand::imm(number(S::Rb)?.into())),
        F::IADD3_RRR if zero(S::Rc) && zero(S::Pu) && zero(S::Pv) => {
            let (a, b) = (*s.get(S::Ra)?, *s.get(S::Rb)?);
            let (a, b) = if a.neg { (b, a) } else { (a, b) };
            if a.neg {
                return None;
            }
            product(F::IMAD_RIR, a, Operand::imm(1), b)
        }
        F::IADD3_RIR if zero(S::Rc) && zero(S::Pu) && zero(S::Pv) && F::VIADD_RI.get().on(sm) => {
            let n = number(S::Rb).filter(|_| s.get(S::Rb).is_some_and(|o| !o.neg))?;
            Sass::new(F::VIADD_RI).with(S::Ra, plain(S::Ra)?).with(S::Rb, Operand::imm((n as u32).into()))
        }
        F::LEA_RR if zero(S::Pu) => {
            let by = number(S::Shift).filter(|n| (0..32).contains(n))?;
            product(F::IMAD_RIR, plain(S::Ra)?, Operand::imm((1u32 << by) as i32 as i64), *s.get(S::Rb)?)
        }
        _ => return None,
    };
    let to = s.get(S::Rd)?.as_reg()?;
    (new.form.get().on(sm) && !to.is_const()).then(|| new.with(S::Rd, to).guarded(s.guard))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sass::text::{NoLabels, parse_on, print};

    fn of(line: &str, sm: u16) -> Option<String> {
        let s = parse_on(line, 0, &NoLabels, Some(sm)).unwrap();
        other(&s, sm).map(|s| print(&s, 0, &NoLabels))
    }

    #[test]
    fn what_has_a_form_there_takes_it() {
        let same = |line, to: &str| assert_eq!(of(line, 90).as_deref(), Some(to), "{line}");
        same("SHF.L.U32 R4, R5, 0x3, RZ", "IMAD.SHL.U32 R4, R5, 0x8, RZ");
        same("@!P1 MOV R4, R5", "@!P1 IMAD.MOV.U32 R4, RZ, RZ, R5");
        same("MOV R4, UR5", "IMAD.U32 R4, RZ, RZ, UR5");
        same("MOV R4, 0x7", "IMAD.MOV.U32 R4, RZ, RZ, 0x7");
        same("IADD3 R4, R5, R6, RZ", "IMAD.IADD R4, R5, 0x1, R6");
        same("IADD3 R4, -R5, R6, RZ", "IMAD.IADD R4, R6, 0x1, -R5");
        same("IADD3 R4, R5, -0x8, RZ", "VIADD R4, R5, 0xfffffff8");
        same("LEA R4, R5, R6, 0x2", "IMAD R4, R5, 0x4, R6");
    }

    #[test]
    fn what_has_none_stays() {
        for line in [
            "SHF.R.U32.HI R4, RZ, 0x3, R5",
            "SHF.L.U32 R4, R5, R6, RZ",
            "SHF.L.U64.HI R4, R5, 0x3, R6",
            "IADD3 R4, P0, R5, R6, RZ",
            "IADD3 R4, R5, R6, R7",
            "IADD3 R4, -R5, -R6, RZ",
            "LEA.HI R4, R5, R6, RZ, 0x2",
            "LOP3.LUT R4, R5, R6, RZ, 0xc0, !PT",
        ] {
            assert_eq!(of(line, 90), None, "{line}");
        }
        assert_eq!(of("IADD3 R4, R5, -0x8, RZ", 80), None);
    }
}
