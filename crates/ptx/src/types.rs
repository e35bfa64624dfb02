//! Scalar types, state spaces, vector components, and what modifier words stand for.

use crate::isa::Mod;
pub use crate::special::{SpecialReg, SpecialVector};

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
    UE4M3,
    S2F6x2,
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Bits,
    Unsigned,
    Signed,
    Float,
    Opaque,
    Pred,
}

use Class::{Bits, Float, Opaque, Signed, Unsigned};
use ScalarType::*;

/// One line a type, in the order of the enum: type, modifier word, size in bits, class.
static TYPES: [(ScalarType, Mod, u16, Class); 58] = [
    (B8, Mod::B8, 8, Bits),
    (B16, Mod::B16, 16, Bits),
    (B32, Mod::B32, 32, Bits),
    (B64, Mod::B64, 64, Bits),
    (B128, Mod::B128, 128, Bits),
    (U8, Mod::U8, 8, Unsigned),
    (U16, Mod::U16, 16, Unsigned),
    (U32, Mod::U32, 32, Unsigned),
    (U64, Mod::U64, 64, Unsigned),
    (S8, Mod::S8, 8, Signed),
    (S16, Mod::S16, 16, Signed),
    (S32, Mod::S32, 32, Signed),
    (S64, Mod::S64, 64, Signed),
    (F16, Mod::F16, 16, Float),
    (F16x2, Mod::F16x2, 32, Float),
    (BF16, Mod::Bf16, 16, Float),
    (BF16x2, Mod::Bf16x2, 32, Float),
    (F32, Mod::F32, 32, Float),
    (F32x2, Mod::F32x2, 64, Float),
    (F64, Mod::F64, 64, Float),
    (TF32, Mod::Tf32, 32, Float),
    (E4M3, Mod::E4m3, 8, Float),
    (E5M2, Mod::E5m2, 8, Float),
    (E4M3x2, Mod::E4m3x2, 16, Float),
    (E5M2x2, Mod::E5m2x2, 16, Float),
    (E2M3, Mod::E2m3, 6, Float),
    (E3M2, Mod::E3m2, 6, Float),
    (E2M1, Mod::E2m1, 4, Float),
    (E2M3x2, Mod::E2m3x2, 16, Float),
    (E3M2x2, Mod::E3m2x2, 16, Float),
    (E2M1x2, Mod::E2m1x2, 8, Float),
    (UE8M0, Mod::Ue8m0, 8, Float),
    (UE8M0x2, Mod::Ue8m0x2, 16, Float),
    (B1, Mod::B1, 1, Bits),
    (B4, Mod::B4, 4, Bits),
    (U4, Mod::U4, 4, Unsigned),
    (S4, Mod::S4, 4, Signed),
    (U2, Mod::U2, 2, Unsigned),
    (S2, Mod::S2, 2, Signed),
    (U16x2, Mod::U16x2, 32, Unsigned),
    (S16x2, Mod::S16x2, 32, Signed),
    (U8x4, Mod::U8x4, 32, Unsigned),
    (S8x4, Mod::S8x4, 32, Signed),
    (E4M3x4, Mod::E4m3x4, 32, Float),
    (E5M2x4, Mod::E5m2x4, 32, Float),
    (E2M3x4, Mod::E2m3x4, 32, Float),
    (E3M2x4, Mod::E3m2x4, 32, Float),
    (E2M1x4, Mod::E2m1x4, 16, Float),
    (B4x16, Mod::B4x16, 64, Bits),
    (B4x16P64, Mod::B4x16P64, 128, Bits),
    (B6x16P32, Mod::B6x16P32, 128, Bits),
    (B6P2x16, Mod::B6p2x16, 128, Bits),
    (TexRef, Mod::Texref, 64, Opaque),
    (SamplerRef, Mod::Samplerref, 64, Opaque),
    (SurfRef, Mod::Surfref, 64, Opaque),
    (UE4M3, Mod::Ue4m3, 8, Float),
    (S2F6x2, Mod::S2f6x2, 16, Float),
    (Pred, Mod::Pred, 1, Class::Pred),
];

/// For each modifier word the index into `TYPES` plus one, 0 for a word that is no type.
static BY_MOD: [u8; Mod::ALL.len()] = {
    let mut out = [0; Mod::ALL.len()];
    let mut i = 0;
    while i < TYPES.len() {
        out[TYPES[i].1 as usize] = i as u8 + 1;
        i += 1;
    }
    out
};

impl ScalarType {
    fn line(self) -> &'static (ScalarType, Mod, u16, Class) {
        &TYPES[self as usize]
    }

    /// The type of a modifier word, if the word is a type.
    pub fn from_mod(word: Mod) -> Option<ScalarType> {
        match BY_MOD[word as usize] {
            0 => None,
            i => Some(TYPES[i as usize - 1].0),
        }
    }

    /// The modifier word of the type.
    pub fn to_mod(self) -> Mod {
        self.line().1
    }

    /// The name without its dot: `f32`.
    pub fn name(self) -> &'static str {
        self.to_mod().name()
    }

    /// Size in bits; 1 for predicates, 64 for opaque references (they are 64-bit handles).
    pub fn bits(self) -> u32 {
        u32::from(self.line().2)
    }

    /// Size in bytes, rounded up: a predicate and every sub-byte type take 1.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// True for `.u*` and `.s*`, packed ones included; `.b*` is no integer type.
    pub fn is_int(self) -> bool {
        matches!(self.line().3, Unsigned | Signed)
    }

    /// True for every floating-point format, packed ones included.
    pub fn is_float(self) -> bool {
        self.line().3 == Float
    }

    /// True for `.s*`.
    pub fn is_signed(self) -> bool {
        self.line().3 == Signed
    }

    /// True for the untyped `.b*`.
    pub fn is_bits(self) -> bool {
        self.line().3 == Bits
    }

    /// True for two values of a type in one register.
    pub fn is_packed(self) -> bool {
        use ScalarType::*;
        matches!(self, F16x2 | BF16x2 | U16x2 | S16x2 | F32x2)
    }

    /// True for `.texref`, `.samplerref`, `.surfref`.
    pub fn is_opaque(self) -> bool {
        self.line().3 == Opaque
    }
}

impl Space {
    /// The space of a modifier word, if the word is a state space.
    pub fn from_mod(word: Mod) -> Option<Space> {
        Some(match word {
            Mod::Reg => Space::Reg,
            Mod::Sreg => Space::Sreg,
            Mod::Const => Space::Const,
            Mod::Global => Space::Global,
            Mod::Local => Space::Local,
            Mod::Param => Space::Param,
            Mod::ParamEntry => Space::ParamEntry,
            Mod::ParamFunc => Space::ParamFunc,
            Mod::Shared | Mod::SharedCta => Space::Shared,
            Mod::SharedCluster => Space::SharedCluster,
            _ => return None,
        })
    }

    /// The name without its dot (`shared::cluster`); empty for [`Space::Generic`].
    pub fn name(self) -> &'static str {
        match self {
            Space::Reg => "reg",
            Space::Sreg => "sreg",
            Space::Const => "const",
            Space::Global => "global",
            Space::Local => "local",
            Space::Param => "param",
            Space::ParamEntry => "param::entry",
            Space::ParamFunc => "param::func",
            Space::Shared => "shared",
            Space::SharedCluster => "shared::cluster",
            Space::Tex => "tex",
            Space::Generic => "",
        }
    }
}

impl Dim {
    /// `x`, `y`, `z` or `w`.
    pub fn name(self) -> &'static str {
        ["x", "y", "z", "w"][self as usize]
    }

    /// The component of a name, without its dot; also the colour names `r`, `g`, `b`, `a`.
    pub fn from_name(name: &str) -> Option<Dim> {
        Some(match name {
            "x" | "r" => Dim::X,
            "y" | "g" => Dim::Y,
            "z" | "b" => Dim::Z,
            "w" | "a" => Dim::W,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_enum() {
        for (i, line) in TYPES.iter().enumerate() {
            assert_eq!(line.0 as usize, i, "{:?}", line.0);
            assert_eq!(ScalarType::from_mod(line.1), Some(line.0));
        }
        assert_eq!(ScalarType::from_mod(Mod::Ftz), None);
    }

    #[test]
    fn sizes_and_classes() {
        assert_eq!((F32.bytes(), F16x2.bits(), B128.bytes(), Pred.bits()), (4, 32, 16, 1));
        assert!(S32.is_int() && S32.is_signed() && !U32.is_signed() && !B32.is_int() && B32.is_bits());
        assert!(BF16.is_float() && TF32.is_float() && !BF16.is_bits() && UE8M0.is_float());
        assert_eq!((BF16x2.name(), B6P2x16.name(), UE8M0x2.name()), ("bf16x2", "b6p2x16", "ue8m0x2"));
    }
}
