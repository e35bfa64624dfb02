//! What consumers ask of an instruction: its modifiers by meaning.

use crate::isa::{Mod, Op};
use crate::module::{Head, Inst, Module};
use crate::types::*;
use smallvec::SmallVec;
use std::sync::Arc;

macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $($word:ident)|+),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // the variants are the modifier words
        pub enum $name { $($variant),* }
        impl $name {
            /// The meaning of a modifier word, if it has one here.
            pub fn from_mod(word: Mod) -> Option<Self> {
                match word {
                    $($(Mod::$word)|+ => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

word_enum!(
    /// Rounding of a result: to nearest even, zero, minus infinity, plus infinity, nearest away; the `i` forms round to
    /// an integral value; `Rs` is stochastic.
    Rounding { Rn = Rn, Rz = Rz, Rm = Rm, Rp = Rp, Rna = Rna, Rni = Rni, Rzi = Rzi, Rmi = Rmi, Rpi = Rpi, Rs = Rs }
);
word_enum!(
    /// Comparison of `setp`, `set`, `vset`. `Lo Ls Hi Hs` are unsigned, the `u` forms are true for NaN operands.
    CmpOp {
        Eq = Eq, Ne = Ne, Lt = Lt, Le = Le, Gt = Gt, Ge = Ge, Lo = Lo, Ls = Ls, Hi = Hi, Hs = Hs,
        Equ = Equ, Neu = Neu, Ltu = Ltu, Leu = Leu, Gtu = Gtu, Geu = Geu, Num = Num, Nan = Nan,
    }
);
word_enum!(
    /// Boolean operator that combines a comparison with a predicate.
    BoolOp { And = And, Or = Or, Xor = Xor }
);
word_enum!(
    /// Which half of a product is kept, or the whole of it.
    MulMode { Lo = Lo, Hi = Hi, Wide = Wide }
);
word_enum!(
    /// The set of threads that a memory operation is ordered with; `membar.gl` is [`Scope::Gpu`].
    Scope { Cta = Cta, Cluster = Cluster, Gpu = Gpu | Gl, Sys = Sys }
);
word_enum!(
    /// Memory ordering.
    Sem {
        Weak = Weak, Relaxed = Relaxed, Acquire = Acquire, Release = Release, AcqRel = AcqRel, Volatile = Volatile,
        Sc = Sc, Mmio = Mmio,
    }
);
word_enum!(
    /// Operation of `atom`, `red`, `redux`, `multimem`.
    AtomOp {
        And = And, Or = Or, Xor = Xor, Cas = Cas, Exch = Exch, Add = Add, Inc = Inc, Dec = Dec, Min = Min, Max = Max,
    }
);
word_enum!(
    /// Direction of `shf` (left, right) or mode of `shfl` (up, down, butterfly, indexed).
    ShiftMode { Left = L, Right = R, Up = Up, Down = Down, Bfly = Bfly, Idx = Idx }
);
word_enum!(
    /// Cache operator of `ld`, `st`, `cp.async`.
    CacheOp { Ca = Ca, Cg = Cg, Cs = Cs, Lu = Lu, Cv = Cv, Wb = Wb, Wt = Wt }
);

/// A cache operator for the loads or the stores of a module that have none, or for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheDefault {
    /// The modifier of a [`CacheOp`].
    pub word: Mod,
    /// Also in the place of one that is written.
    pub force: bool,
}

impl Module {
    /// Gives cache operators to loads (`ld`) and stores (`st`) of global and generic memory: plain ones, without an ordering or
    /// an eviction priority of their own and not of the read-only kind, for which an operator may stand.
    pub fn set_cache_operators(&mut self, load: Option<CacheDefault>, store: Option<CacheDefault>) {
        let change = |head: &Head| -> Head {
            let mut head = head.clone();
            let default = match head.op {
                Op::Ld => load,
                Op::St => store,
                _ => None,
            };
            let space = head.mods.iter().find_map(|&m| Space::from_mod(m)).unwrap_or(Space::Generic);
            let ordered = head.mods.iter().any(|&m| {
                let ordering = Sem::from_mod(m).is_some_and(|s| s != Sem::Weak);
                ordering
                    || m == Mod::Mmio
                    || m == Mod::Nc
                    || m.name().contains("evict")
                    || m.name().contains("allocate")
            });
            let written = head.mods.iter().position(|&m| CacheOp::from_mod(m).is_some());
            if let Some(CacheDefault { word, force }) = default
                && matches!(space, Space::Global | Space::Generic)
                && !ordered
                && (force || written.is_none())
            {
                match written {
                    Some(i) => head.mods[i] = word,
                    None => head.mods.insert(0, word),
                }
            }
            head
        };
        // All bodies of a module share their heads.
        let Some(heads) = self.funcs.iter().find_map(|f| f.body.as_ref()).map(|b| &b.heads) else { return };
        let heads: Arc<[Head]> = heads.iter().map(change).collect();
        self.funcs.iter_mut().filter_map(|f| f.body.as_mut()).for_each(|b| b.heads = heads.clone());
    }
}

impl Head {
    /// The same operation, as those do it that know subnormal numbers of f32 as zeros alone: with `.ftz` where it may stand.
    pub(crate) fn flushing(&self) -> Head {
        const FLOAT: &[Op] = &[
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::Mad,
            Op::Fma,
            Op::Min,
            Op::Max,
            Op::Abs,
            Op::Neg,
            Op::Div,
            Op::Rcp,
            Op::Sqrt,
            Op::Rsqrt,
            Op::Ex2,
            Op::Lg2,
            Op::Sin,
            Op::Cos,
            Op::Setp,
            Op::Set,
            Op::Slct,
            Op::Cvt,
        ];
        let is_type = |m: &&Mod| ScalarType::from_mod(**m).is_some();
        // What is computed with is the last type that is named.
        let of_words = self.mods.iter().rfind(is_type) == Some(&Mod::F32);
        let mut head = self.clone();
        if FLOAT.contains(&self.op) && of_words && !head.mods.contains(&Mod::Ftz) {
            let at = head.mods.iter().position(|m| is_type(&m)).unwrap_or(0);
            head.mods.insert(at, Mod::Ftz);
        }
        head
    }
}

impl Inst<'_> {
    fn first<T>(&self, f: impl Fn(Mod) -> Option<T>) -> Option<T> {
        self.mods.iter().find_map(|&m| f(m))
    }

    /// True where the modifier is written.
    pub fn has(&self, word: Mod) -> bool {
        self.mods.contains(&word)
    }

    /// The type modifiers in the order written: `[F32]` for `add.f32`, `[F32, S32]` for `cvt.rn.f32.s32`.
    pub fn types(&self) -> SmallVec<[ScalarType; 4]> {
        self.mods.iter().filter_map(|&m| ScalarType::from_mod(m)).collect()
    }

    /// The first type modifier; [`ScalarType::B32`] for an instruction without any (`bar.sync`, `activemask` has one).
    pub fn ty(&self) -> ScalarType {
        self.first(ScalarType::from_mod).unwrap_or(ScalarType::B32)
    }

    /// The first state space written; [`Space::Generic`] where none is.
    pub fn space(&self) -> Space {
        self.first(Space::from_mod).unwrap_or(Space::Generic)
    }

    /// Vector length: 1, 2, 4 or 8.
    pub fn vector(&self) -> u8 {
        self.first(|m| match m {
            Mod::V2 => Some(2),
            Mod::V4 => Some(4),
            Mod::V8 => Some(8),
            _ => None,
        })
        .unwrap_or(1)
    }

    /// The rounding modifier.
    pub fn rounding(&self) -> Option<Rounding> {
        self.first(Rounding::from_mod)
    }

    /// `.ftz`: subnormal inputs and results become zero.
    pub fn ftz(&self) -> bool {
        self.has(Mod::Ftz)
    }

    /// `.sat`
    pub fn sat(&self) -> bool {
        self.has(Mod::Sat)
    }

    /// `.approx`
    pub fn approx(&self) -> bool {
        self.has(Mod::Approx)
    }

    /// The comparison of `setp`, `set` and `vset*`; none for other instructions.
    pub fn cmp(&self) -> Option<CmpOp> {
        match self.op {
            Op::Setp | Op::Set | Op::Vset | Op::Vset2 | Op::Vset4 => self.first(CmpOp::from_mod),
            _ => None,
        }
    }

    /// The Boolean operator of `setp`, `set`, `lop3`; none for other instructions.
    pub fn bool_op(&self) -> Option<BoolOp> {
        match self.op {
            Op::Setp | Op::Set | Op::Lop3 => self.first(BoolOp::from_mod),
            _ => None,
        }
    }

    /// `.lo`, `.hi` or `.wide` of `mul`, `mad`, `madc`, `mul24`, `mad24`, `dp2a`; none for other instructions.
    pub fn mul_mode(&self) -> Option<MulMode> {
        match self.op {
            Op::Mul | Op::Mad | Op::Madc | Op::Mul24 | Op::Mad24 | Op::Dp2a => self.first(MulMode::from_mod),
            _ => None,
        }
    }

    /// The scope of a memory operation. The last one counts: `barrier.cluster` and the like name a unit first.
    pub fn scope(&self) -> Option<Scope> {
        self.mods.iter().rev().find_map(|&m| Scope::from_mod(m))
    }

    /// The memory ordering written.
    pub fn sem(&self) -> Option<Sem> {
        self.first(Sem::from_mod)
    }

    /// The operation of `atom`, `red`, `redux`, `multimem`; none for other instructions.
    pub fn atom_op(&self) -> Option<AtomOp> {
        match self.op {
            Op::Atom | Op::Red | Op::Redux | Op::Multimem => self.first(AtomOp::from_mod),
            _ => None,
        }
    }

    /// The direction of `shf` or the mode of `shfl`; none for other instructions.
    pub fn shift_mode(&self) -> Option<ShiftMode> {
        match self.op {
            Op::Shf | Op::Shfl => self.first(ShiftMode::from_mod),
            _ => None,
        }
    }

    /// `.wrap` of `shf`, `szext`, `bmsk`: the amount is taken modulo 32; without it these clamp.
    pub fn wrap(&self) -> bool {
        self.has(Mod::Wrap)
    }

    /// The cache operator.
    pub fn cache(&self) -> Option<CacheOp> {
        self.first(CacheOp::from_mod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diag::Span;

    fn inst(op: Op, words: &str) -> Inst<'static> {
        let mods: Vec<Mod> = words.split('.').filter(|w| !w.is_empty()).map(|w| Mod::from_name(w).expect(w)).collect();
        Inst { guard: None, op, mods: mods.leak(), operands: &[], span: Span::default(), head: 0 }
    }

    #[test]
    fn old_targets_flush_subnormal_words() {
        let text = |target: &str| {
            format!(
                ".version 2.0\n.target {target}\n.entry k () {{ .reg .f32 a; .reg .f64 d; .reg .pred p; .reg .u32 r; add.f32 a, a, a;\n\
                 setp.lt.f32 p, a, a; cvt.rpi.s32.f32 r, a; cvt.rn.f32.s32 a, r; set.lt.u32.f32 r, a, a; mov.f32 a, a; add.u32 r, r, r; exit; }}\n"
            )
        };
        let flushed = |target: &str| {
            let (module, said) = crate::parse(&text(target));
            assert!(said.is_empty() && crate::check(&module, None).is_empty(), "{said:?}");
            module.funcs[0].body.as_ref().unwrap().insts().map(|i| i.ftz()).collect::<Vec<bool>>()
        };
        assert_eq!(flushed("sm_13"), [true, true, true, false, true, false, false, false]);
        assert_eq!(flushed("sm_20"), [false; 8]);
    }

    #[test]
    fn modifiers_by_meaning() {
        let cvt = inst(Op::Cvt, ".rn.ftz.f32.s32");
        assert_eq!(cvt.types().as_slice(), [ScalarType::F32, ScalarType::S32]);
        assert_eq!((cvt.ty(), cvt.rounding(), cvt.ftz()), (ScalarType::F32, Some(Rounding::Rn), true));
        let setp = inst(Op::Setp, ".lo.and.u32");
        assert_eq!((setp.cmp(), setp.bool_op(), setp.mul_mode()), (Some(CmpOp::Lo), Some(BoolOp::And), None));
        let mul = inst(Op::Mul, ".lo.u32");
        assert_eq!((mul.cmp(), mul.mul_mode()), (None, Some(MulMode::Lo)));
        let ld = inst(Op::Ld, ".acquire.gpu.global.L1::evict_last.v4.f32");
        assert_eq!((ld.space(), ld.vector(), ld.sem()), (Space::Global, 4, Some(Sem::Acquire)));
        assert_eq!((ld.scope(), ld.has(Mod::L1EvictLast)), (Some(Scope::Gpu), true));
        let atom = inst(Op::Atom, ".shared::cta.add.u32");
        assert_eq!((atom.space(), atom.atom_op()), (Space::Shared, Some(AtomOp::Add)));
        assert_eq!(inst(Op::Shfl, ".sync.bfly.b32").shift_mode(), Some(ShiftMode::Bfly));
        assert_eq!(inst(Op::Ld, ".u32").space(), Space::Generic);
    }
}
