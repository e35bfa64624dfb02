//! Scalar types, state spaces, special registers.

/// A fundamental type of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names are the types: `.u8` is U8
pub enum ScalarType {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    BF16,
    BF16x2,
    F32,
    F32x2,
    F64,
    TF32,
    E4M3,
    E5M2,
    E4M3x2,
    E5M2x2,
    E2M3,
    E3M2,
    E2M1,
    E2M3x2,
    E3M2x2,
    E2M1x2,
    UE8M0,
    UE8M0x2,
    B1,
    B4,
    U4,
    S4,
    U2,
    S2,
    U16x2,
    S16x2,
    U8x4,
    S8x4,
    E4M3x4,
    E5M2x4,
    E2M3x4,
    E3M2x4,
    E2M1x4,
    B4x16,
    B4x16P64,
    B6x16P32,
    B6P2x16,
    TexRef,
    SamplerRef,
    SurfRef,
    Pred,
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.reg`
    Reg,
    /// `.sreg`
    Sreg,
    /// `.const`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param` (of a function or a kernel; the variable tells which)
    Param,
    /// `.param::entry`
    ParamEntry,
    /// `.param::func`
    ParamFunc,
    /// `.shared`, `.shared::cta`
    Shared,
    /// `.shared::cluster`
    SharedCluster,
    /// `.tex`
    Tex,
    /// No space written: a generic address.
    Generic,
}

/// A component of a vector special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// `.x`
    X,
    /// `.y`
    Y,
    /// `.z`
    Z,
    /// `.w`
    W,
}
