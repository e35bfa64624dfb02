//! Products by a warpgroup.

use super::Sel;
use super::operand::ZERO;
use crate::ir::{InstId, Op};
use crate::lower::warpgroup::{Group, order};
use crate::mir::Vreg;
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};

/// A product of nothing that ends a group: what the vendor emits for a group without products.
pub fn end_of_group() -> Sass {
    Sass::new(F::HGMMA_RUR)
        .with(S::Rd, Reg::RZ)
        .with(S::URa, Reg::URZ)
        .with(S::Rc, Reg::RZ)
        .with(S::Pp, Operand::reg(Reg::UPT).inverted())
}

/// Lets products see what registers hold.
pub fn arrive() -> Sass {
    Sass::new(F::WARPGROUP).with_mod(M::M79, enums::warpgroup_m79::ARRIVE)
}

/// Waits until no more than `left` groups are under way.
pub fn wait(left: i64) -> Sass {
    Sass::new(F::WARPGROUP_I).with(S::ImmAt72, Operand::imm(left))
}

/// So many groups may stay under way behind a wait; nothing for other instructions.
pub fn left_by(s: &Sass) -> Option<i64> {
    (s.form == F::WARPGROUP_I).then(|| match s.get(S::ImmAt72).map(|o| o.value) {
        Some(Value::Imm(left)) => left.get(),
        _ => 0,
    })
}

impl Sel<'_> {
    pub(super) fn warpgroup(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        if inst.op == Op::WgmmaOrder {
            let m = match inst.attr.sub {
                order::FENCE => arrive(),
                order::COMMIT => end_of_group(),
                _ => wait(inst.imm),
            };
            self.all_together();
            self.push(m);
            return Some(());
        }
        let g = Group::unpack(inst.imm);
        let args = inst.args.to_vec();
        let na = if g.held { 4 } else { 1 };
        let (a, rest) = args.split_at_checked(na)?;
        let (&b, &add, c) = match rest {
            [b, add, c @ ..] => (b, add, c),
            _ => return None,
        };
        self.all_together();
        let (meta, c) = match (g.sparse, c) {
            (None, c) => (None, c),
            (Some(_), [meta, c @ ..]) => (Some(*meta), c),
            _ => return None,
        };
        let form = match (g.kind, g.held) {
            (0..=2, false) if g.sparse.is_some() => F::HGMMA_RURRI_OPEN,
            (0..=2, true) if g.sparse.is_some() => F::HGMMA_RRURRI_OPEN,
            (3, false) if g.sparse.is_some() => F::QGMMA_RURR_OPEN,
            (3, true) if g.sparse.is_some() && g.negative[1] => F::QGMMA_XRRURPR_OPEN,
            (3, true) if g.sparse.is_some() => F::QGMMA_XRRURPR_2_OPEN,
            (4, false) if g.sparse.is_some() => F::IGMMA_RURR_OPEN,
            (4, true) if g.sparse.is_some() => F::IGMMA_XRRURPR_OPEN,
            (5, _) if g.sparse.is_some() => return None,
            (0..=2, false) => F::HGMMA_RUR_OPEN,
            (0..=2, true) => F::HGMMA_RRUR_OPEN,
            (3, false) => F::QGMMA_RUR_OPEN,
            (3, true) if g.negative[1] => F::QGMMA_XRRURP_2_OPEN,
            (3, true) => F::QGMMA_XRRURP_OPEN,
            (4, false) => F::IGMMA_RUR_OPEN,
            (4, true) => F::IGMMA_RRUR_OPEN,
            (5, false) => F::BGMMA_RUR_OPEN,
            (5, true) => F::BGMMA_RRUR_OPEN,
            _ => return None,
        };
        // Sizes that integers have: 8, 16, 24, then multiples of 16.
        let step = (g.n / 8) as u8;
        let few = || match g.n {
            8 | 16 | 24 => Some(step - 1),
            n if n % 16 == 0 => Some((n / 16) as u8 + 1),
            _ => None,
        };
        let shape = match g.kind {
            0 | 1 if g.sparse.is_some() => 32 + step - 1,
            2 if g.sparse.is_none() => 32 + step - 1,
            0..=3 => step - 1,
            4 => 3 * few()? + g.sparse.is_some() as u8,
            _ => few()?,
        };
        let mut m = Sass::new(form).with_mod(M::M53, shape);
        match g.kind {
            0..=2 => {
                m = m.with_mod(M::M75, g.wide as u8).with_mod(M::M76, g.kind);
                m = m.with_mod(M::M62, g.transposed[1] as u8).with_mod(M::M63, g.negative[1] as u8);
                if !g.held {
                    m = m.with_mod(M::M61, g.transposed[0] as u8).with_mod(M::M72, g.negative[0] as u8);
                }
            }
            3 => {
                m = m.with_mod(M::M75, g.wide as u8).with_mod(M::M76, g.a as u8).with_mod(M::M77, g.b as u8);
                if !g.held {
                    m = m.with_mod(M::M63, g.negative[1] as u8).with_mod(M::M72, g.negative[0] as u8);
                }
            }
            4 => {
                let sat = if g.held && g.sparse.is_some() { M::M75 } else { M::Sat };
                m = m.with_mod(M::M76, g.a as u8).with_mod(M::M82, g.b as u8).with_mod(sat, g.sat as u8);
            }
            _ => {}
        }
        if let (Some(meta), Some(selector)) = (meta, g.sparse) {
            let meta = self.lo(meta);
            let meta = self.gpr(meta);
            m = m.with(S::RegAt40, meta).with(S::ImmAt48, Operand::imm(selector as i64));
        }
        let b_words = self.words(b);
        let (descriptors, slot) = if g.held {
            let words: Vec<Operand> = a.iter().map(|&v| self.lo(v)).collect();
            let mut regs = self.vector_of(&words);
            regs.neg = g.negative[0];
            m = m.with(S::Ra, regs);
            ([vec![ZERO, ZERO], b_words].concat(), S::UR)
        } else {
            ([self.words(a[0]), b_words].concat(), S::URa)
        };
        let descriptors = self.uniform_words(&descriptors);
        m = m.with(slot, descriptors);
        let c_words: Vec<Operand> = c.iter().flat_map(|&v| self.words(v)).collect();
        let nothing = c_words.iter().all(|&w| w == ZERO);
        match self.constant(add) {
            c if nothing || c == Some(0) => m = m.with(S::Rc, Reg::RZ).with(S::Pp, Operand::reg(Reg::UPT).inverted()),
            Some(_) => m = m.with(S::Rc, self.vector_of(&c_words)),
            None => {
                let p = self.pred(add);
                let up = self.m.new_vreg(File::Upred);
                let up = Operand::reg(self.m.reg(up));
                self.push(Sass::new(F::VOTEU).with(S::Pu, up).with(S::Pp, p).with_mod(M::Mode, enums::vote::ANY));
                let c = self.vector_of(&c_words);
                m = m.with(S::Rc, c).with(S::Pp, up);
            }
        }
        let results: Vec<Vreg> = (0..self.f.inst(id).results.len()).flat_map(|n| self.result_words(id, n)).collect();
        let d = self.m.vector(&results);
        self.push(m.with(S::Rd, d));
        Some(())
    }
}
