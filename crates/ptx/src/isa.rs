//! The instruction set as data: opcode words, modifier words, legal forms.
//!
//! Everything here is made from `isa/*.ptxi` by the build script.

use crate::types::{ScalarType, Space};
use arch::{Target, Variant};

/// The first PTX version and the first SM that have something; (0, 0) and 0 where every one has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// First PTX version.
    pub ptx: (u16, u16),
    /// First SM; 0 where every one has it, or where only those of `only` do.
    pub sm: u16,
    /// Chips (`sm_90a`) and families (`sm_100f`: it and later members, with an `a` or `f`) that have it besides.
    pub only: &'static [Target],
}

impl Since {
    /// From a PTX version and an SM on.
    pub const fn new(ptx: (u16, u16), sm: u16) -> Since {
        Since { ptx, sm, only: &[] }
    }

    /// May PTX for this target use it, whatever its version?
    pub fn has(&self, target: Target) -> bool {
        // sm_101 is the old name of sm_110.
        let number = |t: Target| if t.sm == 101 { 110 } else { t.sm };
        if self.only.is_empty() {
            return target.sm >= self.sm;
        }
        self.sm != 0 && target.sm >= self.sm
            || self.only.iter().any(|t| match t.variant {
                Variant::A => target.variant == Variant::A && number(*t) == number(target),
                _ => target.variant != Variant::Plain && t.family() == target.family() && number(target) >= number(*t),
            })
    }
}

/// A type that operands refer to: the first, second, third, fourth type modifier of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// First.
    T,
    /// Second.
    U,
    /// Third.
    V,
    /// Fourth.
    X,
    /// Fifth.
    Y,
    /// No type: the group only keeps its place among those with one.
    Order,
}

/// One modifier word of a group.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word.
    pub word: Mod,
    /// Since when it may be written here.
    pub since: Since,
}

/// Modifiers of which one is written.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The name of the type that the group gives.
    pub slot: Option<Slot>,
    /// True where none of them may be written.
    pub optional: bool,
    /// The alternatives.
    pub words: &'static [Word],
}

/// What an operand may be; `isa/README.md` describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OperandKind {
    Dest,
    DestPred,
    DestAndPred,
    DestBoth,
    Source,
    Pred,
    ConvDest,
    ConvSource,
    MoveDest,
    MoveSource,
    LoadDest,
    StoreSource,
    Memory,
    Constant(Values),
    Label,
    Any,
    DestVec(Count),
    SourceVec(Count),
    ConstantVec(Count),
    Tensor(Count),
    Texture,
    TexelDest(Count),
    Register,
    Multiple(Values),
    Sink,
    Word,
    Offset,
    Gradient,
    Handle,
    Part,
}

/// What a constant operand may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Anything.
    Any,
    /// From the first to the second.
    Range(i64, i64),
    /// One of these.
    OneOf(&'static [i64]),
    /// A multiple of this.
    MultipleOf(i64),
    /// A power of two.
    PowerOfTwo,
    /// More than nothing.
    Positive,
    /// Nothing or more.
    Natural,
    /// A number of columns of tensor memory: a power of two from 32 to 512.
    Columns,
}

/// How many elements a vector operand has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many.
    Fixed(u8),
    /// The columns of the shape (`m64n16k8`: 16) over this.
    Columns(u8),
    /// The repetition (`.x4`) times this.
    Repeat(u8),
    /// The coordinates of the geometry (`.3d`: 3, `.tile::gather4`: 5).
    Geometry,
    /// The offsets of an im2col access: two less than the coordinates, or two.
    Offsets,
    /// `.v2`, `.v4`, `.v8`; 1 is a plain register.
    Vector,
    /// The coordinates of a texture or surface: 1, 2 or 4.
    Coordinates,
    /// The words of the mask of `.cta_group::1` (4) or `.cta_group::2` (8).
    Lanes,
}

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandType {
    /// That of a type modifier.
    Slot(Slot),
    /// Twice as wide as the first type modifier.
    Twice,
    /// An address: 32 or 64 bits.
    Address,
    /// Always this one.
    Fixed(ScalarType),
    /// An address in this space.
    Space(Space),
    /// An address in tensor memory: 32 bits.
    TensorMemory,
}

/// An operand of a form.
#[derive(Clone, Copy, Debug)]
pub struct OperandForm {
    /// What it may be.
    pub kind: OperandKind,
    /// Its type.
    pub ty: OperandType,
    /// True where it may be left out.
    pub optional: bool,
    /// The modifier that calls for it: it is there exactly if that is written.
    pub when: Option<Mod>,
}

/// A legal shape of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Opcode word.
    pub op: Op,
    /// The words that belong to the name (`cp.async.bulk`): they stand right behind the opcode, in this order.
    pub name: &'static [Mod],
    /// Modifiers.
    pub groups: &'static [Group],
    /// Operands in order.
    pub operands: &'static [OperandForm],
    /// Since when.
    pub since: Since,
}

include!(concat!(env!("OUT_DIR"), "/isa.rs"));

/// The hash of the name tables; `build.rs` has the same function.
fn hash(name: &[u8]) -> u32 {
    let mut h: u32 = 0x811c_9dc5;
    for &b in name {
        h = (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
    }
    h ^ (h >> 15)
}

fn find(name: &str, slots: &[u16], names: &[&str]) -> Option<usize> {
    let mut at = hash(name.as_bytes()) as usize & (slots.len() - 1);
    loop {
        let slot = slots[at] as usize;
        if slot == 0 {
            return None;
        }
        if names[slot - 1] == name {
            return Some(slot - 1);
        }
        at = (at + 1) & (slots.len() - 1);
    }
}

impl Mod {
    /// One bit of 64 for the modifier, which it shares with others.
    pub fn bit(self) -> u64 {
        1 << (self as usize % 64)
    }
}

impl Op {
    /// The word as written: `add`.
    pub fn name(self) -> &'static str {
        OP_NAMES[self as usize]
    }

    /// The opcode of a word, if there is one.
    pub fn from_name(name: &str) -> Option<Op> {
        find(name, &OP_SLOTS, &OP_NAMES).map(|i| Op::ALL[i])
    }
}

/// The name that a misspelt one is nearest to, if one is near: at most two letters wrong, and fewer than half of them.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    if name.len() < 2 || name.len() > 40 {
        return None;
    }
    let limit = 2.min(name.len() / 2);
    let near = names.iter().filter(|n| n.len().abs_diff(name.len()) <= limit);
    near.map(|n| (distance(name.as_bytes(), n.as_bytes()), *n)).filter(|(d, _)| *d <= limit).min().map(|(_, n)| n)
}

/// Letters to insert, delete, change or swap with the next (Damerau and Levenshtein).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

impl Op {
    /// The opcode word that a misspelt one is nearest to, if one is near.
    pub fn nearest(name: &str) -> Option<&'static str> {
        nearest(name, &OP_NAMES)
    }
}

impl Mod {
    /// The modifier word (without its dot) that a misspelt one is nearest to, if one is near.
    pub fn nearest(name: &str) -> Option<&'static str> {
        nearest(name, &MOD_NAMES)
    }
}

impl Op {
    /// The forms of the opcode; none for one that is known by name only.
    pub fn forms(self) -> &'static [Form] {
        let (from, to) = FORM_RANGES[self as usize];
        &FORMS[from as usize..to as usize]
    }

    /// The forms of the opcode that know modifiers with all of these bits (sums of [`Mod::bit`]): others fit none that have them. What the
    /// forms know lies by itself, so that those that do not matter are not read.
    pub fn forms_with(self, bits: u64) -> impl Iterator<Item = &'static Form> {
        let (from, to) = FORM_RANGES[self as usize];
        (from as usize..to as usize).filter(move |&n| bits & !KNOWN[n] == 0).map(|n| &FORMS[n])
    }
}

impl Mod {
    /// The word as written, without its leading dot: `shared::cta`.
    pub fn name(self) -> &'static str {
        MOD_NAMES[self as usize]
    }

    /// The modifier of a word written without its leading dot, if there is one.
    pub fn from_name(name: &str) -> Option<Mod> {
        find(name, &MOD_SLOTS, &MOD_NAMES).map(|i| Mod::ALL[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_know_their_words() {
        for (form, known) in FORMS.iter().zip(KNOWN) {
            let words = form.groups.iter().flat_map(|g| g.words).map(|w| w.word);
            let all = form.name.iter().copied().chain(words).fold(0, |bits, m| bits | m.bit());
            assert_eq!(known, all, "{:?}", form.op);
        }
        let with = |bits| Op::Add.forms_with(bits).count();
        assert_eq!((with(0), with(u64::MAX)), (Op::Add.forms().len(), 0));
        assert!((1..with(0)).contains(&with(Mod::Ftz.bit())));
    }

    #[test]
    fn every_name_finds_its_word() {
        for op in Op::ALL {
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        for m in Mod::ALL {
            assert_eq!(Mod::from_name(m.name()), Some(m));
        }
        assert_eq!(
            (Op::nearest("setq"), Op::nearest("brra"), Op::nearest("frobnicate")),
            (Some("set"), Some("bra"), None)
        );
        assert_eq!(
            (Mod::nearest("glboal"), Mod::nearest("f23"), Mod::nearest("zqj")),
            (Some("global"), Some("f32"), None)
        );
        assert_eq!(Op::from_name("frobnicate"), None);
        assert_eq!(Mod::from_name(""), None);
        assert_eq!(Mod::from_name("shared::cta"), Some(Mod::SharedCta));
    }
}
