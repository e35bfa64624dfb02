//! Matrix products, barriers of a CTA, special registers.

use super::*;

impl Decoder<'_> {
    pub(super) fn matrix(&mut self, inst: &Seen<'_>) -> Result<Exec> {
        if pp_matters(inst) {
            return gap("its predicate");
        }
        for slot in [S::Ra, S::Rb, S::Rc] {
            self.src(inst, slot)?;
        }
        let text = sass::text::print(inst.inst(), 0, &sass::text::NoLabels);
        let name = text.split_whitespace().find(|w| !w.starts_with('@')).unwrap_or_default();
        inst.form().mods.iter().for_each(|m| {
            inst.modifier(m.name);
        });
        let r = [S::Rd, S::Ra, S::Rb, S::Rc].map(|slot| Self::gpr(inst, slot));
        if name.starts_with("HMMA.884.") {
            let sides = (inst.suffix(S::Ra), inst.suffix(S::Rb));
            let Some(op) = crate::machine::quadpair::parse(name, sides, self.image.sm) else { return gap(name) };
            return Ok(Exec::Mma884 { op: Box::new(op), r });
        }
        let Some(mut op) = crate::machine::tensor::parse(name, self.image.sm) else { return gap(name) };
        let floats = matches!(op.b, MatrixType::Float(..) | MatrixType::Double);
        for slot in [S::Ra, S::Rb, S::Rc].into_iter().filter(|_| floats) {
            match inst.with_flags(slot) {
                Some(o) if o.abs || o.inv => return gap("this sign"),
                Some(o) if o.neg && slot == S::Rc => op.negated_c = true,
                Some(o) => op.negated ^= o.neg,
                None => {}
            }
        }
        let mut meta = None;
        if op.sparse {
            // Metadata and selector are the operands behind C.
            let mut slots = inst.form().slots.iter().filter(|s| s.role == Role::Use);
            let known = [S::Ra, S::Rb, S::Rc];
            let register = slots.find(|s| matches!(s.kind, SlotKind::Reg(File::Gpr)) && !known.contains(&s.name));
            let selector = inst.form().slots.iter().find(|s| matches!(s.kind, SlotKind::Imm { .. }));
            let (Some(register), Some(selector)) = (register, selector) else { return gap("no metadata") };
            let selector = Self::imm(inst, selector.name).unwrap_or(0) as u8;
            meta = Some((self.src(inst, register.name)?, selector));
        }
        Ok(Exec::Mma { op: Box::new(op), r, meta })
    }

    pub(super) fn barrier(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        // The vendor's code packs number and count into one register where both are variable.
        let packed = name.ends_with("_RR");
        let (id, in_register) = match Self::imm(inst, S::Bar) {
            Some(n) => (self.k(n as u32), false),
            None => (self.src(inst, S::Rb)?, true),
        };
        let count = match Self::imm(inst, S::Count) {
            Some(0) => None,
            Some(n) => Some(self.k(n as u32)),
            None if !in_register && inst.slot(S::Rb).is_some() => Some(self.src(inst, S::Rb)?),
            None => None,
        };
        let red = name.starts_with("BAR_RED").then(|| (inst.modifier(M::Op), Self::p(inst, S::Pp)));
        Ok(Exec::Bar { id, packed, count, wait: !name.starts_with("BAR_ARV"), red })
    }

    pub(super) fn special(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        let d = Self::dst(inst, S::Rd);
        let wide = matches!(name, "CS2R" | "CS2UR") && inst.modifier(M::W) == 1;
        let sr = Self::imm(inst, S::Sr).ok_or("no special register")? as u8;
        use sass::enums::sr;
        match sr {
            sr::CLOCKLO | sr::GLOBALTIMERLO => return Ok(Exec::Clock { d, high: false, wide }),
            sr::CLOCKHI | sr::GLOBALTIMERHI => return Ok(Exec::Clock { d, high: true, wide }),
            _ => {}
        }
        let index = self.p.specials.iter().position(|&x| x == sr).unwrap_or_else(|| {
            self.p.specials.push(sr);
            self.p.specials.len() - 1
        });
        Ok(Exec::Special { d, index, wide })
    }
}
