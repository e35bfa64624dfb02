//! Special registers: words of constant bank 0, and registers that `S2R` and `CS2R` read.

use super::operand::{ZERO, immediate};
use super::{Regs, Sel};
use crate::ir::{InstId, Sreg, Ty};
use crate::mir;
use sass::enums;
use sass::enums::sr;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};

/// The number `n` of a register in a family that begins with `first`.
fn in_family(reg: Sreg, first: Sreg, count: u8) -> Option<i32> {
    let n = (reg as u8).checked_sub(first as u8)?;
    (n < count).then_some(n as i32)
}

/// The byte of constant bank 0 that holds a register, if one does, and whether it lies so much lower as the size of clusters says ([`arch::Bank0::scaled`]).
fn bank0(b: &arch::Bank0, reg: Sreg) -> Option<(i32, bool)> {
    let family = |first: Sreg, count: u8, base: Option<u16>| {
        let n = in_family(reg, first, count)?;
        Some(i32::from(base?) + 4 * n)
    };
    let fixed = match reg {
        Sreg::Nsmid => Some(b.nsmid),
        Sreg::Gridid => Some(b.gridid),
        Sreg::SmemTaken => b.smem_taken,
        Sreg::CurrentGraphExec => Some(b.current_graph_exec),
        Sreg::ExplicitCluster => b.is_explicit_cluster,
        Sreg::ParamAddress => b.param_address,
        Sreg::SharedWindowHi => b.shared_window.map(|at| at + 4),
        Sreg::ParamEnd => b.param_end,
        _ => None,
    };
    let fixed = (fixed.map(i32::from))
        .or_else(|| family(Sreg::NtidX, 3, Some(b.ntid)))
        .or_else(|| family(Sreg::NctaidX, 3, Some(b.nctaid)))
        .or_else(|| family(Sreg::Envreg16, 16, Some(b.envreg16)));
    let scaled = || {
        let one = match reg {
            Sreg::DynamicSmem => b.dynamic_smem_size,
            Sreg::AggrSmem => b.aggr_smem_size,
            Sreg::ReservedSmemEnd => b.reserved_smem_end,
            Sreg::ReservedSmem1 => b.reserved_smem_end.map(|at| at + 4),
            Sreg::ClusterNctarank => b.cluster_nctarank,
            _ => None,
        };
        (one.map(i32::from))
            .or_else(|| family(Sreg::ClusterNctaidX, 3, b.cluster_nctaid))
            .or_else(|| family(Sreg::NclusteridX, 3, b.nclusterid))
            .or_else(|| family(Sreg::Envreg0, 16, Some(b.envreg)))
    };
    fixed.map(|at| (at, false)).or_else(|| scaled().map(|at| (at, b.scaled)))
}

impl Sel<'_> {
    /// A word of constant bank 0 that lies lower the larger clusters are, as the vendor's compiler reads it.
    fn load_scaled(&mut self, at: i32) -> Regs {
        let size = self.new_word();
        let d = self.m.reg(size.lo);
        let read = Sass::new(F::CS2R).with_mod(M::W, enums::cs2rw::B32).with(S::Rd, d);
        self.push(read.with(S::Sr, Operand::imm(i64::from(enums::sr100::CGASIZE))));
        let below = self.imad(Operand::reg(d), immediate(-arch::CGA_STEP as u32), ZERO);
        let r = self.new_word();
        let load = Sass::new(F::LDC).with(S::Const, Operand::cbank(0, at)).with(S::Ra, below);
        let d = self.m.reg(r.lo);
        self.push(load.with(S::Rd, d));
        r
    }

    pub(super) fn special(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let reg = Sreg::from_sub(inst.attr.sub)?;
        let wide = self.f.ty(inst.results[0]) == Ty::B64;
        if let Some((at, scaled)) = bank0(self.bank0, reg) {
            let r = if scaled { self.load_scaled(at) } else { self.load_const(0, at, wide) };
            self.define(id, 0, r);
            return Some(());
        }
        let code = match reg {
            Sreg::TidX => sr::TID_X,
            Sreg::TidY => sr::TID_Y,
            Sreg::TidZ => sr::TID_Z,
            Sreg::CtaidX => sr::CTAID_X,
            Sreg::CtaidY => sr::CTAID_Y,
            Sreg::CtaidZ => sr::CTAID_Z,
            Sreg::Laneid => sr::LANEID,
            Sreg::Warpid => sr::VIRTID,
            Sreg::Nwarpid => sr::VIRTCFG,
            Sreg::Smid => sr::VIRTUALSMID,
            Sreg::LanemaskEq => sr::EQMASK,
            Sreg::LanemaskLt => sr::LTMASK,
            Sreg::LanemaskLe => sr::LEMASK,
            Sreg::LanemaskGt => sr::GTMASK,
            Sreg::LanemaskGe => sr::GEMASK,
            Sreg::ClusterCtarank => sr::CGACTAID,
            Sreg::SharedWindowHi => sr::SWINHI,
            Sreg::SmemSize => sr::SMEMSZ,
            Sreg::Clock | Sreg::Clock64 => sr::CLOCKLO,
            Sreg::ClockHi => sr::CLOCKHI,
            Sreg::Globaltimer | Sreg::GlobaltimerLo => sr::GLOBALTIMERLO,
            Sreg::GlobaltimerHi => sr::GLOBALTIMERHI,
            // A low and a high word each.
            _ => sr::PM0 + 2 * in_family(reg, Sreg::Pm0, 8)? as u8,
        };
        let counter = matches!(
            reg,
            Sreg::Clock | Sreg::Clock64 | Sreg::ClockHi | Sreg::Globaltimer | Sreg::GlobaltimerLo | Sreg::GlobaltimerHi
        ) || in_family(reg, Sreg::Pm0, 8).is_some();
        let sr = Operand::imm(code as i64);
        let r = if wide {
            let (r, d) = self.new_pair();
            self.push(Sass::new(F::CS2R).with(S::Rd, d).with(S::Sr, sr).with_mod(M::W, enums::cs2rw::B64));
            r
        } else {
            let r = self.new_word();
            let d = self.m.reg(r.lo);
            let m = if counter { Sass::new(F::CS2R).with_mod(M::W, enums::cs2rw::B32) } else { Sass::new(F::S2R) };
            self.push(m.with(S::Rd, d).with(S::Sr, sr));
            r
        };
        // Fields of packed registers: the warp's number is bits 14:8 of VIRTID, their count bits 15:8 of VIRTCFG.
        let r = match reg {
            Sreg::Warpid | Sreg::Nwarpid => {
                let v = Operand::reg(self.m.reg(r.lo));
                let v = self.shf(true, false, enums::shftype::U32, true, ZERO, Operand::imm(8), v);
                let bits = if reg == Sreg::Warpid { 7 } else { 8 };
                let v = self.sgxt(false, v, Operand::imm(bits));
                Regs { lo: mir::Vreg(v.as_reg()?.index()), hi: None }
            }
            _ => r,
        };
        self.define(id, 0, r);
        Some(())
    }
}
