//! Special registers. Section 10 of the PTX ISA.

use super::{Lower, Res, unsupported};
use crate::ir::{Attr, Op, Sreg, Ty, Value};
use diag::Span;
use ptx::types::{Dim, SpecialReg, SpecialVector};

/// What the first 1024 bytes of shared memory are kept for on sm_90: `%reserved_smem_offset_cap`.
const SHARED_RESERVED: u64 = 0x400;

/// The register so many after `first`, which has its family behind it.
fn nth(first: Sreg, n: u8) -> Option<Sreg> {
    Sreg::from_sub(first as u8 + n)
}

/// A component of a three-component register; there is no fourth.
fn component(first: Sreg, d: Dim) -> Option<Sreg> {
    match d {
        Dim::X => Some(first),
        Dim::Y => nth(first, 1),
        Dim::Z => nth(first, 2),
        Dim::W => None,
    }
}

impl Lower<'_, '_> {
    /// A special register.
    pub(super) fn special(&mut self, s: SpecialReg, span: Span) -> Res<Value> {
        use SpecialReg as S;
        self.f.asks_shared |= matches!(s, S::DynamicSmemSize | S::TotalSmemSize | S::AggrSmemSize);
        let (reg, ty, volatile) = match s {
            S::Tid(d) => (component(Sreg::TidX, d), Ty::B32, false),
            S::Ntid(d) => (component(Sreg::NtidX, d), Ty::B32, false),
            S::Ctaid(d) => (component(Sreg::CtaidX, d), Ty::B32, false),
            S::Nctaid(d) => (component(Sreg::NctaidX, d), Ty::B32, false),
            S::Nclusterid(d) => (component(Sreg::NclusteridX, d), Ty::B32, false),
            S::ClusterNctaid(d) => (component(Sreg::ClusterNctaidX, d), Ty::B32, false),
            // Which cluster, and which CTA of it: a division that the machine leaves to us.
            S::Clusterid(d) | S::ClusterCtaid(d) => {
                let (Some(cta), Some(size)) = (component(Sreg::CtaidX, d), component(Sreg::ClusterNctaidX, d)) else {
                    return Ok(self.konst(Ty::B32, 0));
                };
                let (cta, size) = (self.sreg(cta, Ty::B32), self.sreg(size, Ty::B32));
                let op = if matches!(s, S::Clusterid(_)) { Op::IDiv } else { Op::IRem };
                return Ok(self.op(op, &[cta, size], Ty::B32));
            }
            S::Laneid => (Some(Sreg::Laneid), Ty::B32, false),
            S::Warpid => (Some(Sreg::Warpid), Ty::B32, true),
            S::Nwarpid => (Some(Sreg::Nwarpid), Ty::B32, false),
            S::Smid => (Some(Sreg::Smid), Ty::B32, true),
            S::Nsmid => (Some(Sreg::Nsmid), Ty::B32, false),
            S::Gridid => (Some(Sreg::Gridid), Ty::B64, false),
            S::LanemaskEq => (Some(Sreg::LanemaskEq), Ty::B32, false),
            S::LanemaskLt => (Some(Sreg::LanemaskLt), Ty::B32, false),
            S::LanemaskLe => (Some(Sreg::LanemaskLe), Ty::B32, false),
            S::LanemaskGt => (Some(Sreg::LanemaskGt), Ty::B32, false),
            S::LanemaskGe => (Some(Sreg::LanemaskGe), Ty::B32, false),
            S::Clock => (Some(Sreg::Clock), Ty::B32, true),
            S::ClockHi => (Some(Sreg::ClockHi), Ty::B32, true),
            S::Clock64 => (Some(Sreg::Clock64), Ty::B64, true),
            S::Globaltimer => (Some(Sreg::Globaltimer), Ty::B64, true),
            S::GlobaltimerLo => (Some(Sreg::GlobaltimerLo), Ty::B32, true),
            S::GlobaltimerHi => (Some(Sreg::GlobaltimerHi), Ty::B32, true),
            S::Pm(n) => (nth(Sreg::Pm0, n), Ty::B32, true),
            S::Pm64(n) => (nth(Sreg::Pm0, n), Ty::B64, true),
            S::Envreg(n) => (nth(Sreg::Envreg0, n), Ty::B32, false),
            S::DynamicSmemSize => (Some(Sreg::DynamicSmem), Ty::B32, false),
            // Nothing of it is the system's on the first chips.
            S::TotalSmemSize if arch::bank0(self.cx.layout.sm).is_none_or(|b| b.smem_taken.is_none()) => {
                (Some(Sreg::SmemSize), Ty::B32, false)
            }
            S::TotalSmemSize => {
                let (all, taken) = (self.sreg(Sreg::SmemSize, Ty::B32), self.sreg(Sreg::SmemTaken, Ty::B32));
                return Ok(self.same(Op::ISub, &[all, taken]));
            }
            S::AggrSmemSize => {
                // As the vendor's compiler has it: the smaller of the two.
                let (all, aggr) = (self.sreg(Sreg::SmemSize, Ty::B32), self.sreg(Sreg::AggrSmem, Ty::B32));
                return Ok(self.same(Op::IMin, &[aggr, all]));
            }
            S::ReservedSmemOffsetBegin | S::ReservedSmemOffset(0) => return Ok(self.konst(Ty::B32, 0)),
            S::ReservedSmemOffsetCap => return Ok(self.konst(Ty::B32, SHARED_RESERVED)),
            S::ReservedSmemOffsetEnd => (Some(Sreg::ReservedSmemEnd), Ty::B32, false),
            S::ReservedSmemOffset(_) => (Some(Sreg::ReservedSmem1), Ty::B32, false),
            S::CurrentGraphExec => (Some(Sreg::CurrentGraphExec), Ty::B64, false),
            S::IsExplicitCluster => {
                let (v, one) = (self.sreg(Sreg::ExplicitCluster, Ty::B32), self.konst(Ty::B32, 1));
                return Ok(self.b().icmp(crate::ir::Cmp::Eq, false, v, one));
            }
            S::ClusterCtarank => (Some(Sreg::ClusterCtarank), Ty::B32, false),
            S::ClusterNctarank => (Some(Sreg::ClusterNctarank), Ty::B32, false),
            S::Whole(_) => return unsupported(format!("the whole of '{}' here", s.name()), span),
        };
        let Some(reg) = reg else {
            return Ok(self.konst(Ty::B32, 0)); // the w component of a three-component register
        };
        if volatile {
            return Ok(self.one(Op::SregVolatile, Attr { sub: reg as u8, ..Attr::default() }, &[], ty));
        }
        Ok(self.sreg(reg, ty))
    }

    /// A special register that does not change.
    pub(super) fn sreg(&mut self, reg: Sreg, ty: Ty) -> Value {
        self.one(Op::Sreg, Attr { sub: reg as u8, ..Attr::default() }, &[], ty)
    }

    /// The `n` components of a special register that is a vector.
    pub(super) fn special_vector(&mut self, v: SpecialVector, n: usize, span: Span) -> Res<Vec<Value>> {
        use SpecialVector as V;
        let make = match v {
            V::Tid => SpecialReg::Tid,
            V::Ntid => SpecialReg::Ntid,
            V::Ctaid => SpecialReg::Ctaid,
            V::Nctaid => SpecialReg::Nctaid,
            V::Clusterid => SpecialReg::Clusterid,
            V::Nclusterid => SpecialReg::Nclusterid,
            V::ClusterCtaid => SpecialReg::ClusterCtaid,
            V::ClusterNctaid => SpecialReg::ClusterNctaid,
        };
        [Dim::X, Dim::Y, Dim::Z, Dim::W].into_iter().take(n).map(|d| self.special(make(d), span)).collect()
    }
}
