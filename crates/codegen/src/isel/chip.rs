//! What a chip lacks, said by what it has. Selection speaks of the forms of sm_90; here each becomes what the target has for it.

use super::Sel;
use super::direct;
use super::isle::rnd_code;
use super::memory::DESCRIPTOR;
use super::operand::ZERO;
use crate::ir::Rnd;
use crate::mir;
use diag::{Diagnostic, Span};
use sass::codec;
use sass::enums::ftype_any32::{F16, F32};
use sass::form::{FormId, ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::{File, Reg};
use sass::text;

/// Selects the lower halves of two words.
const LOWER_HALVES: i64 = 0x5410;

/// From sm_80 to sm_89 the usual descriptor is not shown: accesses that show one take a cache policy. A form with a descriptor,
/// the one without, the slot of the descriptor.
const IMPLICIT: [(FormId, FormId, S); 9] = [
    (F::LDG, F::LDG_RA_6, S::UR),
    (F::LD, F::LD_RA_5, S::UR),
    (F::STG, F::STG_AR_2, S::URc),
    (F::ST, F::ST_AR_3, S::URc),
    (F::ATOMG, F::ATOMG_RAR_4, S::URc),
    (F::ATOM, F::ATOM_RAR_4, S::URc),
    (F::LDGSTS, F::LDGSTS_AA, S::URc),
    (F::RED_UAR, F::RED_AR_4, S::URc),
    (F::RED_UAR, F::RED_AR_6, S::URc),
];

/// A form and the one that stands for it on chips that lack it: operands and modifiers have the same names and values.
const OTHERS: [(FormId, FormId); 7] = [
    (F::HMMA_RRRR_5, F::HMMA_RRRR_4),
    (F::HMMA_RRRRRI_2, F::HMMA_RRRRRI),
    (F::DMMA_RRRR_3, F::DMMA_RRRR_2),
    (F::DMMA_RRRR_3, F::DMMA_RRRR),
    (F::IMMA_RRRR_3, F::IMMA_RRRR_2),
    (F::IMMA_RRRRRI_2, F::IMMA_RRRRRI),
    (F::I2IP_RRR, F::I2IP_RRRR_3),
];

/// Instructions of sm_90 that have another name elsewhere: their forms, and the forms that stand for them.
const RENAMED: [(FormId, FormId); 5] = [
    (F::ULDC, F::LDCU_UC),
    (F::ULDC, F::LDCU_UC_2),
    (F::VIMNMX_RR, F::VIMNMX_RRR),
    (F::VIMNMX_RI, F::VIMNMX_RRI),
    (F::VIMNMX_RU, F::VIMNMX_RRU),
];

/// Gives every instruction the shape that its form has on chip `sm`.
///
/// # Errors
/// For an instruction that the chip lacks.
pub fn on_chip(insts: &mut [mir::Inst], sm: u16) -> Result<(), Diagnostic> {
    for inst in insts {
        let mir::Op::Sass(s) = &mut inst.op else { continue };
        let broken = |e: sass::codec::EncodeError| Diagnostic::error(format!("internal error: {}", e.message));
        if let Some(&(_, to, slot)) = IMPLICIT.iter().find(|x| x.0 == s.form && has(x.1, sm))
            && s.get(slot).and_then(Operand::as_reg) == Some(DESCRIPTOR)
        {
            let plain = s.clone().with(slot, Reg::URZ);
            let short = codec::as_form(&plain, to, sm).map_err(broken)?;
            *s = short.with(S::Desc, DESCRIPTOR);
        } else if let Some(access) = direct::access(s, sm) {
            *s = access.map_err(|_| lacks(s.form, sm, inst.loc))?;
        } else if !s.form().on(sm) {
            let renamed = RENAMED.iter().find(|r| r.0 == s.form && has(r.1, sm));
            let named = renamed.map_or_else(|| codec::on_chip(s, sm), |r| renamed_form(s, r.1, sm));
            *s = named.ok().or_else(|| by_text(s, sm)).ok_or_else(|| lacks(s.form, sm, inst.loc))?;
        }
    }
    Ok(())
}

/// An instruction in the form of [`RENAMED`]. From sm_120 on the type of a minimum is always shown; its first values are those of before.
fn renamed_form(s: &Sass, to: FormId, sm: u16) -> Result<Sass, codec::EncodeError> {
    if s.form == F::ULDC {
        return codec::as_form(s, to, sm);
    }
    let kind = s.modifier(M::Type);
    Ok(codec::as_form(&s.clone().with_mod(M::Type, 0), to, sm)?.with_mod(M::M72, kind))
}

/// The instruction of chip `sm` that has the same text.
fn by_text(s: &Sass, sm: u16) -> Option<Sass> {
    let mut text = text::print(s, 0, &text::NoLabels);
    if s.get(S::UregAt40).is_some() && s.get(S::ImmAt46).is_some_and(|n| n.value == Operand::imm(0).value) {
        text = without_number(&text, sm).unwrap_or(text);
    }
    let mut other = text::parse_on(&text, 0, &text::NoLabels, Some(sm)).ok()?;
    other.ctrl = s.ctrl;
    (other.form().on(sm) && text::print(&other, 0, &text::NoLabels) == text).then_some(other)
}

/// The text of an access of a texture or surface without the number behind its handle, where the chip shows none: from sm_100 on.
fn without_number(text: &str, sm: u16) -> Option<String> {
    let short = text.replacen(", 0x0", "", 1);
    text::parse_on(&short, 0, &text::NoLabels, Some(sm)).ok().filter(|i| i.form().on(sm)).map(|_| short)
}

/// There is nothing on chip `sm` for a form.
fn lacks(form: FormId, sm: u16, loc: u32) -> Diagnostic {
    let d = Diagnostic::error(format!("no machine code for '{}' on sm_{sm} yet", form.get().mnemonic));
    if loc == u32::MAX { d } else { d.at(Span::new(loc, loc)) }
}

/// True if chip `sm` has the form, in whatever shape.
fn has(form: FormId, sm: u16) -> bool {
    form.get().variant_on(sm).is_some()
}

impl Sel<'_> {
    /// True if the target has the form.
    pub(super) fn has(&self, form: FormId) -> bool {
        has(form, self.layout.sm)
    }

    /// True if [`Self::push`] changes nothing about an instruction.
    pub(super) fn stands(&self, inst: &Sass) -> bool {
        !matches!(inst.form, F::REDG | F::REDG_F | F::ATOMG_F) && inst.form().on(self.layout.sm)
    }

    /// Emits an instruction as the target has it.
    pub(super) fn push(&mut self, inst: Sass) {
        let implicit = || IMPLICIT.iter().any(|i| i.0 == F::RED_UAR && self.has(i.1));
        // What adds floats to memory is told by the type before sm_90, not by the instruction.
        let other = match inst.form {
            F::REDG | F::REDG_F if implicit() => Some(F::RED_UAR),
            F::ATOMG_F if implicit() => Some(F::ATOMG),
            _ => None,
        };
        if let Some(to) = other {
            return self.push_as(&inst, to);
        }
        if inst.form().on(self.layout.sm) {
            self.push_op(mir::Op::Sass(inst));
            return;
        }
        // Between two packings before sm_90 and one with a rounding since; on sm_89 one field has the formats of all.
        match inst.form {
            F::F2FP_PACK_RR => return self.pack_halves(&inst),
            F::F2FP_FP8 | F::F2FP_FP8_F16 if self.has(inst.form) => return self.pack_bytes(&inst),
            _ => {}
        }
        if self.has(inst.form) {
            // Passes know the form as sm_90 has it; `on_chip` gives it the target's shape behind them.
            self.push_op(mir::Op::Sass(inst));
            return;
        }
        match inst.form {
            // Errors of other CTAs of a cluster: there are none.
            F::CGAERRBAR => {}
            F::WARPSYNC_ALL => self.push(Sass::new(F::WARPSYNC_I).with(S::Mask, Operand::imm(0xffff_ffff))),
            form if RENAMED.iter().any(|r| r.0 == form && self.has(r.1)) => self.push_op(mir::Op::Sass(inst)),
            F::VIMNMX_RR => self.minmax(&inst, F::IMNMX_RR),
            F::VIMNMX_RI => self.minmax(&inst, F::IMNMX_RI),
            F::VIMNMX_RU => self.minmax(&inst, F::IMNMX_RU),
            // Before sm_90 there are two operations on bits, of which AND is the second.
            F::BMMA_RRRR_4 => {
                match codec::as_form(&inst, self.first(&[F::BMMA_RRRR_3, F::BMMA_RRRR_2]), self.layout.sm) {
                    Ok(m) => self.push_op(mir::Op::Sass(m.with_mod(M::M78, 1))),
                    Err(_) => self.lacks(inst.form),
                }
            }
            F::HADD2_F32_RR => match Sass::new_on(F::HADD2_RR, self.layout.sm) {
                Some(m) => {
                    let m = m.with_mod(M::F32, 1).with_mod(M::HalfB, inst.modifier(M::HalfB));
                    let m = [S::Rd, S::Ra, S::Rb].iter().fold(m, |m, &s| match inst.get(s) {
                        Some(o) => m.with(s, *o),
                        None => m,
                    });
                    self.push(m);
                }
                None => self.lacks(inst.form),
            },
            form => match OTHERS.iter().find(|o| o.0 == form && self.has(o.1)) {
                Some(&(_, other)) => self.push_as(&inst, other),
                // So, too.
                None => self.push_op(mir::Op::Sass(inst)),
            },
        }
    }

    /// The first of these forms that the target has, or the last.
    pub(super) fn first(&self, forms: &[FormId]) -> FormId {
        forms.iter().copied().find(|&f| self.has(f)).unwrap_or(forms[forms.len() - 1])
    }

    /// Emits an instruction in another form.
    fn push_as(&mut self, inst: &Sass, to: FormId) {
        match codec::as_form(inst, to, self.layout.sm) {
            Ok(m) => self.push_op(mir::Op::Sass(m)),
            Err(_) => self.lacks(inst.form),
        }
    }

    /// Two floats to a pair of halves. Rounding to zero is a form of its own.
    fn pack_halves(&mut self, inst: &Sass) {
        let zero = inst.modifier(M::Rnd) != 0;
        if !self.has(F::F2FP_PACK_RR) {
            return self.convert_halves(inst);
        }
        let form = match (zero, self.has(F::F2FP_RRR_6)) {
            (false, _) => F::F2FP_PACK_RR,
            (true, true) => F::F2FP_RRR_6,
            (true, false) => F::F2FP_RRR,
        };
        self.same_fields(inst, form, inst.modifier(M::Dst));
    }

    /// The same where nothing packs: each half by the unit for conversions.
    fn convert_halves(&mut self, inst: &Sass) {
        let others = [M::Dst, M::Relu, M::Satfinite];
        let (Some(&d), Some(&high), Some(&low)) = (inst.get(S::Rd), inst.get(S::Ra), inst.get(S::Rb)) else {
            return self.lacks(inst.form);
        };
        if others.iter().any(|&m| inst.modifier(m) != 0) {
            return self.lacks(inst.form);
        }
        let rnd = if inst.modifier(M::Rnd) != 0 { Rnd::Rz } else { Rnd::Rn };
        let mut half = |x: Operand, to: Option<Operand>| {
            if x == ZERO && to.is_none() {
                return x;
            }
            let h = to.unwrap_or_else(|| Operand::reg(self.new_register()));
            let m = Sass::new(F::F2F_R).with(S::Rd, h).with(S::Rb, x).with_mod(M::Rnd, rnd_code(rnd));
            self.push(m.with_mod(M::Src, F32).with_mod(M::Dst, F16));
            h
        };
        if high == ZERO {
            half(low, Some(d));
            return;
        }
        let (low, high) = (half(low, None), half(high, None));
        let m = Sass::new(F::PRMT_RIR).with(S::Rd, d).with(S::Ra, low).with(S::Rb, Operand::imm(LOWER_HALVES));
        self.push(m.with(S::Rc, high));
    }

    /// Two floats, or a pair of halves, to two bytes. Chips number the formats differently; their names are the same.
    fn pack_bytes(&mut self, inst: &Sass) {
        let format =
            |f: &'static sass::form::Form| f.mods.iter().find(|m| matches!(m.name, M::Dst | M::M76)).map(|m| m.values);
        let name = format(inst.form()).and_then(|v| v.get(inst.modifier(M::Dst) as usize).copied().flatten());
        let on = Sass::new_on(inst.form, self.layout.sm).and_then(|m| format(m.form()));
        match on.and_then(|v| v.iter().position(|&v| v.is_some() && v == name)) {
            Some(dst) => self.same_fields(inst, inst.form, dst as u8),
            None => self.lacks(inst.form),
        }
    }

    /// The packing `form` as the target has it, of the operands of `inst`, to format `dst`.
    fn same_fields(&mut self, inst: &Sass, form: FormId, dst: u8) {
        let Some(mut m) = Sass::new_on(form, self.layout.sm) else { return self.lacks(inst.form) };
        for (slot, operand) in inst.form().slots.iter().zip(&inst.operands) {
            if m.slot(slot.name).is_some() {
                m = m.with(slot.name, *operand);
            }
        }
        let bytes = dst > 1;
        let fields = [
            (M::Relu, inst.modifier(M::Relu)),
            (M::Satfinite, if bytes { 1 } else { inst.modifier(M::Satfinite) }),
            (M::Dst, dst),
            (M::M76, dst),
        ];
        for (name, value) in fields {
            if m.form().mods.iter().any(|f| f.name == name) {
                m = m.with_mod(name, value);
            }
        }
        self.push_op(mir::Op::Sass(m));
    }

    /// Says that the target has nothing for a form.
    fn lacks(&mut self, form: FormId) {
        self.error.get_or_insert(lacks(form, self.layout.sm, self.loc));
    }

    /// The smaller or larger of two words; not below zero in a second step.
    fn minmax(&mut self, inst: &Sass, form: FormId) {
        let (kind, relu) = (inst.modifier(M::Type), inst.modifier(M::Relu) != 0);
        let (Some(&d), Some(&a), Some(&b), Some(&p)) =
            (inst.get(S::Rd), inst.get(S::Ra), inst.get(S::Rb), inst.get(S::Pp))
        else {
            return self.lacks(inst.form);
        };
        if kind > 1 {
            return self.lacks(inst.form);
        }
        let first = if relu { Operand::reg(self.new_register()) } else { d };
        let m = Sass::new(form).with_mod(M::Sign, kind);
        self.push(m.with(S::Rd, first).with(S::Ra, a).with(S::Rb, b).with(S::Pp, p));
        if relu {
            let m = Sass::new(F::IMNMX_RR).with_mod(M::Sign, 1).with(S::Rd, d).with(S::Ra, first);
            self.push(m.with(S::Rb, ZERO).with(S::Pp, super::operand::TRUE.inverted()));
        }
    }

    fn new_register(&mut self) -> Reg {
        let v = self.m.new_vreg(File::Gpr);
        self.m.reg(v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sass::enums::atomtype;
    use sass::inst::Value;

    fn on(s: Sass, sm: u16) -> Sass {
        let mut list = [mir::Inst::new(mir::Op::Sass(s), 0)];
        on_chip(&mut list, sm).expect("the chip has it");
        let [mir::Inst { op: mir::Op::Sass(s), .. }] = list else { unreachable!("an instruction stays one") };
        s
    }

    fn load(descriptor: Reg) -> Sass {
        let m = Sass::new(F::LDG).with(S::Rd, Reg::r(2)).with(S::Ra, Reg::r(4)).with(S::UR, descriptor);
        m.with(S::Imm, Operand::imm(16))
    }

    #[test]
    fn only_policies_are_shown_before_sm_90() {
        let usual = on(load(DESCRIPTOR), 80);
        assert_eq!((usual.form, usual.get(S::Desc).map(|o| o.value)), (F::LDG_RA_6, Some(Value::Reg(DESCRIPTOR))));
        assert_eq!(on(load(Reg::ur(6)), 80).form, F::LDG);
        assert_eq!(on(load(DESCRIPTOR), 90).form, F::LDG);
        assert!([usual, on(load(Reg::ur(6)), 86)].iter().all(|s| codec::encode(s, 86).is_ok()));
    }

    #[test]
    fn newer_chips_have_the_instruction_of_the_same_text() {
        let text =
            |line: &str, sm: u16| text::print(&on(text::parse(line).expect("an instruction"), sm), 0, &text::NoLabels);
        let same =
            ["SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R9+URZ], R4", "MEMBAR.SC.GPU", "HMMA.16816.F32 R4, R8, R12, R16"];
        for line in same {
            assert_eq!([100, 120].map(|sm| text(line, sm)), [line, line]);
        }
        // Nothing stands behind a handle.
        let fetch = "TEX.LL R14, R12, R12, R24, UR4, 0x0, 2D";
        let bare = "TEX.LL R14, R12, R12, R24, UR4, 2D";
        assert_eq!([90, 100, 120].map(|sm| text(fetch, sm)), [fetch, bare, bare]);
        let load = "ULDC.64 UR4, c[0x0][0x358]";
        assert_eq!(
            [90, 100, 120].map(|sm| text(load, sm)),
            [load, "LDCU.64 UR4, c[0x0][0x358]", "LDCU.64 UR4, c[0x0][0x358]"]
        );
        // From sm_120 on a minimum shows its type.
        let less = Sass::new(F::VIMNMX_RR).with(S::Rd, Reg::r(2)).with(S::Ra, Reg::r(3)).with(S::Rb, Reg::r(4));
        let kinds = [0, 1].map(|k| text::print(&on(less.clone().with_mod(M::Type, k), 120), 0, &text::NoLabels));
        assert_eq!(kinds, ["VIMNMX.U32 R2, R3, R4, PT", "VIMNMX.S32 R2, R3, R4, PT"]);
        let mut other = [mir::Inst::new(mir::Op::Sass(Sass::new(F::BMMA_RRRR_4)), 7)];
        let refused = on_chip(&mut other, 100).expect_err("products of bits are gone");
        assert!(refused.message.contains("'BMMA' on sm_100"), "{}", refused.message);
    }

    #[test]
    fn types_of_atomics_go_by_their_names() {
        let m = Sass::new(F::ATOMG).with(S::URc, DESCRIPTOR).with_mod(M::Type, atomtype::S64);
        let (old, new) = (on(m.clone(), 80), on(m, 90));
        let text = |s: &Sass| {
            let n = s.form().mods.iter().position(|m| m.name == M::Type).expect("a type");
            s.form().mods[n].values[s.mods[n] as usize]
        };
        assert_eq!((text(&old), text(&new)), (Some(".S64"), Some(".S64")));
        assert_ne!(old.modifier(M::Type), new.modifier(M::Type));
    }
}
