//! Special registers: names, types, first PTX version, first SM.
//!
//! Source: PTX ISA reference, section 10.

use crate::types::{Dim, ScalarType};

/// A special register that is a vector when written without a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecialVector {
    /// `%tid`
    Tid,
    /// `%ntid`
    Ntid,
    /// `%ctaid`
    Ctaid,
    /// `%nctaid`
    Nctaid,
    /// `%clusterid`
    Clusterid,
    /// `%nclusterid`
    Nclusterid,
    /// `%cluster_ctaid`
    ClusterCtaid,
    /// `%cluster_nctaid`
    ClusterNctaid,
}

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecialReg {
    /// `%tid.x`: thread index in the CTA.
    Tid(Dim),
    /// `%ntid.x`: threads of the CTA.
    Ntid(Dim),
    /// `%ctaid.x`: CTA index in the grid.
    Ctaid(Dim),
    /// `%nctaid.x`: CTAs of the grid.
    Nctaid(Dim),
    /// `%clusterid.x`: cluster index in the grid.
    Clusterid(Dim),
    /// `%nclusterid.x`: clusters of the grid.
    Nclusterid(Dim),
    /// `%cluster_ctaid.x`: CTA index in the cluster.
    ClusterCtaid(Dim),
    /// `%cluster_nctaid.x`: CTAs of the cluster.
    ClusterNctaid(Dim),
    /// A whole vector (`mov.v4.u32 %v, %tid`).
    Whole(SpecialVector),
    /// `%laneid`
    Laneid,
    /// `%warpid`
    Warpid,
    /// `%nwarpid`
    Nwarpid,
    /// `%smid`
    Smid,
    /// `%nsmid`
    Nsmid,
    /// `%gridid`
    Gridid,
    /// `%is_explicit_cluster`
    IsExplicitCluster,
    /// `%cluster_ctarank`
    ClusterCtarank,
    /// `%cluster_nctarank`
    ClusterNctarank,
    /// `%lanemask_eq`
    LanemaskEq,
    /// `%lanemask_le`
    LanemaskLe,
    /// `%lanemask_lt`
    LanemaskLt,
    /// `%lanemask_ge`
    LanemaskGe,
    /// `%lanemask_gt`
    LanemaskGt,
    /// `%clock`
    Clock,
    /// `%clock_hi`
    ClockHi,
    /// `%clock64`
    Clock64,
    /// `%pm0` to `%pm7`
    Pm(u8),
    /// `%pm0_64` to `%pm7_64`
    Pm64(u8),
    /// `%envreg0` to `%envreg31`
    Envreg(u8),
    /// `%globaltimer`
    Globaltimer,
    /// `%globaltimer_lo`
    GlobaltimerLo,
    /// `%globaltimer_hi`
    GlobaltimerHi,
    /// `%reserved_smem_offset_begin`
    ReservedSmemOffsetBegin,
    /// `%reserved_smem_offset_end`
    ReservedSmemOffsetEnd,
    /// `%reserved_smem_offset_cap`
    ReservedSmemOffsetCap,
    /// `%reserved_smem_offset_0` and `%reserved_smem_offset_1`
    ReservedSmemOffset(u8),
    /// `%total_smem_size`
    TotalSmemSize,
    /// `%aggr_smem_size`
    AggrSmemSize,
    /// `%dynamic_smem_size`
    DynamicSmemSize,
    /// `%current_graph_exec`
    CurrentGraphExec,
}

use ScalarType::{B32, Pred, U32, U64};
use SpecialReg as S;
use SpecialVector as V;

/// One line a vector register: base name, its whole, its component, first PTX version, first SM.
#[allow(clippy::type_complexity)]
static VECTORS: [(&str, V, fn(Dim) -> S, (u16, u16), u16); 8] = [
    ("%tid", V::Tid, S::Tid, (1, 0), 0),
    ("%ntid", V::Ntid, S::Ntid, (1, 0), 0),
    ("%ctaid", V::Ctaid, S::Ctaid, (1, 0), 0),
    ("%nctaid", V::Nctaid, S::Nctaid, (1, 0), 0),
    ("%clusterid", V::Clusterid, S::Clusterid, (7, 8), 90),
    ("%nclusterid", V::Nclusterid, S::Nclusterid, (7, 8), 90),
    ("%cluster_ctaid", V::ClusterCtaid, S::ClusterCtaid, (7, 8), 90),
    ("%cluster_nctaid", V::ClusterNctaid, S::ClusterNctaid, (7, 8), 90),
];

/// One line a scalar register: name, register, type, first PTX version, first SM.
#[allow(clippy::type_complexity)]
static SCALARS: [(&str, S, ScalarType, (u16, u16), u16); 29] = [
    ("%laneid", S::Laneid, U32, (1, 3), 0),
    ("%warpid", S::Warpid, U32, (1, 3), 0),
    ("%nwarpid", S::Nwarpid, U32, (2, 0), 20),
    ("%smid", S::Smid, U32, (1, 3), 0),
    ("%nsmid", S::Nsmid, U32, (2, 0), 20),
    ("%gridid", S::Gridid, U64, (1, 0), 0),
    ("%is_explicit_cluster", S::IsExplicitCluster, Pred, (7, 8), 90),
    ("%cluster_ctarank", S::ClusterCtarank, U32, (7, 8), 90),
    ("%cluster_nctarank", S::ClusterNctarank, U32, (7, 8), 90),
    ("%lanemask_eq", S::LanemaskEq, U32, (2, 0), 20),
    ("%lanemask_le", S::LanemaskLe, U32, (2, 0), 20),
    ("%lanemask_lt", S::LanemaskLt, U32, (2, 0), 20),
    ("%lanemask_ge", S::LanemaskGe, U32, (2, 0), 20),
    ("%lanemask_gt", S::LanemaskGt, U32, (2, 0), 20),
    ("%clock", S::Clock, U32, (1, 0), 0),
    ("%clock_hi", S::ClockHi, U32, (5, 0), 20),
    ("%clock64", S::Clock64, U64, (2, 0), 20),
    ("%globaltimer", S::Globaltimer, U64, (3, 1), 30),
    ("%globaltimer_lo", S::GlobaltimerLo, U32, (3, 1), 30),
    ("%globaltimer_hi", S::GlobaltimerHi, U32, (3, 1), 30),
    ("%reserved_smem_offset_begin", S::ReservedSmemOffsetBegin, B32, (7, 6), 80),
    ("%reserved_smem_offset_end", S::ReservedSmemOffsetEnd, B32, (7, 6), 80),
    ("%reserved_smem_offset_cap", S::ReservedSmemOffsetCap, B32, (7, 6), 80),
    ("%reserved_smem_offset_0", S::ReservedSmemOffset(0), B32, (7, 6), 80),
    ("%reserved_smem_offset_1", S::ReservedSmemOffset(1), B32, (7, 6), 80),
    ("%total_smem_size", S::TotalSmemSize, U32, (4, 1), 20),
    ("%aggr_smem_size", S::AggrSmemSize, U32, (8, 1), 90),
    ("%dynamic_smem_size", S::DynamicSmemSize, U32, (4, 1), 20),
    ("%current_graph_exec", S::CurrentGraphExec, U64, (8, 0), 50),
];

fn numbered(name: &str, prefix: &str, suffix: &str, count: u8) -> Option<u8> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    if digits.is_empty() || digits.len() > 2 || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    digits.parse().ok().filter(|&n| n < count)
}

impl SpecialReg {
    /// The register of a name with its percent sign and, for vectors, its component (`%tid.x`); none for an unknown name.
    pub fn from_name(name: &str) -> Option<SpecialReg> {
        let (base, component) = match name.split_once('.') {
            Some((b, c)) => (b, Some(c)),
            None => (name, None),
        };
        if let Some(v) = VECTORS.iter().find(|v| v.0 == base) {
            return match component {
                None => Some(S::Whole(v.1)),
                Some(c) => Dim::from_name(c).map(v.2),
            };
        }
        if component.is_some() {
            return None;
        }
        if let Some(s) = SCALARS.iter().find(|s| s.0 == base) {
            return Some(s.1);
        }
        (numbered(base, "%pm", "", 8).map(S::Pm))
            .or_else(|| numbered(base, "%pm", "_64", 8).map(S::Pm64))
            .or_else(|| numbered(base, "%envreg", "", 32).map(S::Envreg))
    }

    fn vector(self) -> Option<(usize, Option<Dim>)> {
        let (v, d) = match self {
            S::Tid(d) => (V::Tid, Some(d)),
            S::Ntid(d) => (V::Ntid, Some(d)),
            S::Ctaid(d) => (V::Ctaid, Some(d)),
            S::Nctaid(d) => (V::Nctaid, Some(d)),
            S::Clusterid(d) => (V::Clusterid, Some(d)),
            S::Nclusterid(d) => (V::Nclusterid, Some(d)),
            S::ClusterCtaid(d) => (V::ClusterCtaid, Some(d)),
            S::ClusterNctaid(d) => (V::ClusterNctaid, Some(d)),
            S::Whole(v) => (v, None),
            _ => return None,
        };
        VECTORS.iter().position(|l| l.1 == v).map(|i| (i, d))
    }

    /// The name as written: `%tid.x`.
    pub fn name(self) -> String {
        if let Some((i, d)) = self.vector() {
            return match d {
                Some(d) => format!("{}.{}", VECTORS[i].0, d.name()),
                None => VECTORS[i].0.to_string(),
            };
        }
        match self {
            S::Pm(n) => format!("%pm{n}"),
            S::Pm64(n) => format!("%pm{n}_64"),
            S::Envreg(n) => format!("%envreg{n}"),
            _ => SCALARS.iter().find(|s| s.1 == self).map_or(String::new(), |s| s.0.to_string()),
        }
    }

    /// The type of the register, of one component for a vector.
    pub fn ty(self) -> ScalarType {
        match self {
            S::Pm64(_) => U64,
            S::Envreg(_) => B32,
            _ => SCALARS.iter().find(|s| s.1 == self).map_or(U32, |s| s.2),
        }
    }

    /// True for a vector register written without a component.
    pub fn is_vector(self) -> bool {
        matches!(self, S::Whole(_))
    }

    /// The first PTX version and the first SM that have it.
    pub fn since(self) -> ((u16, u16), u16) {
        if let Some((i, _)) = self.vector() {
            return (VECTORS[i].3, VECTORS[i].4);
        }
        match self {
            S::Pm(n) => (if n < 4 { (1, 3) } else { (3, 0) }, 0),
            S::Pm64(_) => ((4, 0), 50),
            S::Envreg(_) => ((2, 1), 0),
            _ => SCALARS.iter().find(|s| s.1 == self).map_or(((1, 0), 0), |s| (s.3, s.4)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for v in &VECTORS {
            assert_eq!(SpecialReg::from_name(v.0).map(SpecialReg::name).as_deref(), Some(v.0));
            let x = format!("{}.x", v.0);
            assert_eq!(SpecialReg::from_name(&x), Some(v.2(Dim::X)));
            assert_eq!(v.2(Dim::X).name(), x);
        }
        for s in &SCALARS {
            assert_eq!(SpecialReg::from_name(s.0), Some(s.1));
            assert_eq!(s.1.name(), s.0);
        }
        for (name, reg) in [("%pm3", S::Pm(3)), ("%pm7_64", S::Pm64(7)), ("%envreg31", S::Envreg(31))] {
            assert_eq!(SpecialReg::from_name(name), Some(reg));
            assert_eq!(reg.name(), name);
        }
        for bad in ["%pm8", "%envreg32", "%tid.q", "%laneid.x", "tid", "%pm", "%pm01"] {
            assert_eq!(SpecialReg::from_name(bad), None, "{bad}");
        }
    }
}
