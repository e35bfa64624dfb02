//! Which modifiers lowering gives a meaning.
//!
//! The PTX table knows more than lowering does. A modifier that is not listed here for its opcode is refused, so that
//! none is ever dropped in silence. Types and state spaces are not listed: lowering reads them wherever they matter and
//! refuses what it does not know.

use ptx::isa::{Mod, Op};
use ptx::module::Inst;
use ptx::types::{ScalarType, Space};

/// Where and how a memory access is ordered and cached. Eviction priorities and prefetch sizes are hints: those that
/// have no place in an instruction are left out of it.
const ORDER: &[Mod] = &[
    Mod::Weak,
    Mod::Relaxed,
    Mod::Acquire,
    Mod::Release,
    Mod::AcqRel,
    Mod::Volatile,
    Mod::Mmio,
    Mod::Cta,
    Mod::Cluster,
    Mod::Gpu,
    Mod::Sys,
    Mod::L1EvictFirst,
    Mod::L1EvictLast,
    Mod::L1EvictNormal,
    Mod::L1EvictUnchanged,
    Mod::L1NoAllocate,
    Mod::L2EvictFirst,
    Mod::L2EvictLast,
    Mod::L2EvictNormal,
    Mod::L264B,
    Mod::L2128B,
    Mod::L2256B,
    Mod::L2CacheHint,
    Mod::V2,
    Mod::V4,
    Mod::V8,
];
const FLOAT: &[Mod] = &[Mod::Rn, Mod::Rz, Mod::Rm, Mod::Rp, Mod::Ftz, Mod::Sat];
const HALVES: &[Mod] = &[Mod::Lo, Mod::Hi, Mod::Wide, Mod::Cc];
const COMPARISON: &[Mod] = &[
    Mod::Eq,
    Mod::Ne,
    Mod::Lt,
    Mod::Le,
    Mod::Gt,
    Mod::Ge,
    Mod::Lo,
    Mod::Ls,
    Mod::Hi,
    Mod::Hs,
    Mod::Equ,
    Mod::Neu,
    Mod::Ltu,
    Mod::Leu,
    Mod::Gtu,
    Mod::Geu,
    Mod::Num,
    Mod::Nan,
    Mod::And,
    Mod::Or,
    Mod::Xor,
    Mod::Ftz,
];
const ATOMIC: &[Mod] = &[
    Mod::And,
    Mod::Or,
    Mod::Xor,
    Mod::Add,
    Mod::Min,
    Mod::Max,
    Mod::Inc,
    Mod::Dec,
    Mod::Exch,
    Mod::Cas,
    Mod::Relaxed,
    Mod::Acquire,
    Mod::Release,
    Mod::AcqRel,
    Mod::Cta,
    Mod::Cluster,
    Mod::Gpu,
    Mod::Sys,
    Mod::Noftz,
    Mod::L2CacheHint,
    Mod::V2,
    Mod::V4,
    Mod::V8,
];
const VIDEO: &[Mod] = &[
    Mod::Sat,
    Mod::Add,
    Mod::Min,
    Mod::Max,
    Mod::Wrap,
    Mod::Clamp,
    Mod::Po,
    Mod::Shr7,
    Mod::Shr15,
    Mod::Eq,
    Mod::Ne,
    Mod::Lt,
    Mod::Le,
    Mod::Gt,
    Mod::Ge,
];
const MATRIX: &[Mod] = &[Mod::Sync, Mod::Aligned, Mod::M8n8, Mod::X1, Mod::X2, Mod::X4, Mod::Trans];

/// The modifiers of an opcode that lowering knows, besides types and state spaces, in up to two lists.
fn known(op: Op) -> [&'static [Mod]; 2] {
    let one = match op {
        Op::Add | Op::Sub => return [FLOAT, &[Mod::Cc]],
        Op::Mul | Op::Mad => return [FLOAT, HALVES],
        Op::Fma => return [FLOAT, &[Mod::Relu, Mod::Oob]],
        Op::Div => return [FLOAT, &[Mod::Approx, Mod::Full]],
        Op::Rcp | Op::Sqrt | Op::Rsqrt | Op::Sin | Op::Cos | Op::Ex2 | Op::Lg2 | Op::Tanh => {
            return [FLOAT, &[Mod::Approx]];
        }
        Op::Addc | Op::Subc => &[Mod::Cc],
        Op::Madc | Op::Mul24 => HALVES,
        Op::Mad24 => return [HALVES, &[Mod::Sat]],
        Op::Min | Op::Max => &[Mod::Ftz, Mod::NaN, Mod::Xorsign, Mod::Abs, Mod::Relu],
        Op::Abs | Op::Neg | Op::Slct => &[Mod::Ftz],
        Op::Testp => &[Mod::Finite, Mod::Infinite, Mod::Number, Mod::Notanumber, Mod::Normal, Mod::Subnormal],
        Op::Set | Op::Setp => COMPARISON,
        Op::Shf | Op::Bmsk | Op::Szext => &[Mod::L, Mod::R, Mod::Clamp, Mod::Wrap],
        Op::Bfind => &[Mod::Shiftamt],
        Op::Prmt => &[Mod::F4e, Mod::B4e, Mod::Rc8, Mod::Ecl, Mod::Ecr, Mod::Rc16],
        Op::Dp2a => &[Mod::Lo, Mod::Hi],
        Op::Lop3 => &[Mod::And, Mod::Or, Mod::Xor],
        Op::Mov => &[Mod::V2, Mod::V4],
        Op::Cvt => {
            let more = &[Mod::Rni, Mod::Rzi, Mod::Rmi, Mod::Rpi, Mod::Rna, Mod::Relu, Mod::Satfinite, Mod::Pack];
            return [FLOAT, more];
        }
        Op::Cvta => &[Mod::To],
        Op::Ld | Op::Ldu => return [ORDER, &[Mod::Ca, Mod::Cg, Mod::Cs, Mod::Lu, Mod::Cv, Mod::Nc]],
        Op::St => return [ORDER, &[Mod::Wb, Mod::Cg, Mod::Cs, Mod::Wt]],
        Op::Atom | Op::Red => ATOMIC,
        Op::Createpolicy => {
            let priorities = &[Mod::L2EvictLast, Mod::L2EvictNormal, Mod::L2EvictFirst, Mod::L2EvictUnchanged, Mod::L2];
            return [priorities, &[Mod::Range, Mod::Fractional, Mod::Cvt]];
        }
        Op::Membar | Op::Fence => &[Mod::Cta, Mod::Cluster, Mod::Gpu, Mod::Gl, Mod::Sys, Mod::Sc, Mod::AcqRel],
        Op::Prefetch | Op::Prefetchu => &[Mod::L1, Mod::L2, Mod::L2EvictLast, Mod::L2EvictNormal],
        Op::Applypriority => &[Mod::L2EvictNormal],
        Op::Discard => &[Mod::L2],
        Op::Elect => &[Mod::Sync],
        Op::Griddepcontrol => &[Mod::Wait, Mod::LaunchDependents],
        Op::Pmevent => &[Mod::Mask],
        Op::Bra | Op::Call | Op::Ret => &[Mod::Uni],
        Op::Brx => &[Mod::Idx, Mod::Uni],
        Op::Bar | Op::Barrier => {
            let kinds = &[Mod::Sync, Mod::Arrive, Mod::Red, Mod::Popc, Mod::And, Mod::Or];
            return [kinds, &[Mod::Cta, Mod::Warp, Mod::Aligned]];
        }
        Op::Shfl => &[Mod::Sync, Mod::Up, Mod::Down, Mod::Bfly, Mod::Idx],
        Op::Vote | Op::Match => &[Mod::Sync, Mod::All, Mod::Any, Mod::Uni, Mod::Ballot],
        Op::Redux => &[Mod::Sync, Mod::Add, Mod::Min, Mod::Max, Mod::And, Mod::Or, Mod::Xor],
        Op::Ldmatrix | Op::Stmatrix => MATRIX,
        op if op.name().starts_with('v') => VIDEO,
        _ => &[],
    };
    [one, &[]]
}

/// The first modifier that lowering has no meaning for.
pub(super) fn unknown_modifier(x: &Inst) -> Option<Mod> {
    // Their lowering looks at every modifier itself: the table says which may stand together.
    if matches!(x.op, Op::Mma | Op::Movmatrix | Op::Multimem | Op::Tensormap | Op::Setmaxnreg | Op::Wgmma | Op::Wmma)
        || super::asynchronous::is_ours(x)
        || super::texture::is_ours(x)
    {
        return None;
    }
    // Most are types and state spaces, which are told at once.
    let typed = |m: Mod| ScalarType::from_mod(m).is_some() || Space::from_mod(m).is_some();
    let mut others = x.mods.iter().copied().filter(|m| !typed(*m)).peekable();
    others.peek()?;
    let known = known(x.op);
    others.find(|m| !known.iter().any(|list| list.contains(m)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<&'static str> {
        let text = format!(".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {{\n{text}\n}}");
        let (m, errors) = ptx::parse(&text);
        assert!(errors.is_empty(), "{errors:?}");
        let body = m.funcs[0].body.as_ref().unwrap();
        body.insts().find_map(|x| unknown_modifier(&x)).map(Mod::name)
    }

    #[test]
    fn what_has_no_meaning_is_named() {
        assert_eq!(refused(".reg .b32 r; min.relu.s32 r, r, r;"), None);
        assert_eq!(refused(".reg .f32 f; fma.rn.ftz.sat.f32 f, f, f, f; ex2.approx.ftz.f32 f, f;"), None);
        assert_eq!(refused(".reg .b64 a; .reg .b32 r; ld.global.cg.u32 r, [a]; st.shared.u32 [a], r;"), None);
    }
}
