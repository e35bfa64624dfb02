//! Instruction forms: the shape of the tables that the build step makes from `isa/*.isa`.

use crate::inst::{Inst, Operand, Value};
use crate::latency::Class;
use crate::reg::{File, Reg};
use crate::short::Short;
use crate::tables::{MAX_MODS, MAX_OPERANDS};

pub use crate::tables::{ModName, SlotName};

/// A form: index into the table of all forms. The build step names one constant for each (`forms::FFMA_RRR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FormId(pub u16);

impl FormId {
    /// The description.
    #[inline]
    pub fn get(self) -> &'static Form {
        &crate::tables::FORMS[self.0 as usize]
    }
}

/// One operand shape of one opcode.
#[derive(Debug)]
pub struct Form {
    /// Name in the `.isa` file, e.g. `FFMA_RRR`.
    pub name: &'static str,
    /// What is printed first, e.g. `FFMA`.
    pub mnemonic: &'static str,
    /// The SM numbers that have it: ranges, both ends included.
    pub sms: &'static [(u16, u16)],
    /// Bits that are the same in every word of the form that we make.
    pub fixed: u128,
    /// Which bits of `fixed` tell the form from others. The machine's disassembler ignores the rest; what a word has
    /// there is kept in [`Inst::extra`].
    pub need: u128,
    /// Bits that belong to no slot, modifier, guard or control field, and are not in `need`, on chips before sm_100.
    pub free: u128,
    /// Bits of `need` and `free` into which the fields of uniform registers grow on sm_100 and later.
    pub wide: u128,
    /// Guarded by a uniform predicate.
    pub uniform_guard: bool,
    /// Which slots hold registers.
    pub registers: Registers,
    /// Some bit of a modifier's field is also another field's, so that the two may contradict each other.
    pub shared: bool,
    /// Operand slots, in the order of the assembly text.
    pub slots: &'static [&'static Slot],
    /// Modifier fields.
    pub mods: &'static [&'static ModField],
    /// How the text is put together.
    pub syntax: &'static [Piece],
    /// Latency class.
    pub class: Class,
    /// Effects that registers do not show.
    pub effects: Effects,
    /// The same form as other chips have it, where bits, modifiers or operands differ.
    pub variants: &'static [Form],
}

/// Which slots of a form hold registers, one bit a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(8))]
pub struct Registers {
    /// Those that are read.
    pub reads: u16,
    /// Those that are written.
    pub writes: u16,
    /// Those that are one register wide, whatever the modifiers say; slots of no register, too.
    pub single: u16,
    /// Those that have no place in the word: all predicates at once, of which a mask names some.
    pub implied: u16,
}

impl Registers {
    /// No register operand may be wider than one register.
    #[inline(always)]
    pub fn all_single(self) -> bool {
        (self.reads | self.writes) & !self.single == 0
    }
}

impl Form {
    /// The operands of a new instruction.
    pub fn operands(&self) -> Short<Operand, MAX_OPERANDS> {
        Short::from_fn(Operand::imm(0), self.slots.len(), |n| self.slots[n].blank)
    }

    /// The modifiers of a new instruction.
    pub fn modifiers(&self) -> Short<u8, MAX_MODS> {
        Short::from_fn(0, self.mods.len(), |n| self.mods[n].default)
    }

    /// True for what tells the lanes of a warp of each other's values, and what waits for them: what containers list. Products of
    /// matrices, and loads and stores of them, are not among these, nor are elections.
    pub fn collective(&self) -> bool {
        const NAMES: [&str; 5] = ["SHFL", "VOTE", "MATCH", "REDUX", "CREDUX"];
        self.effects.cross_lane && NAMES.contains(&self.mnemonic) || self.mnemonic.starts_with("WARPSYNC")
    }

    /// True if the chip has the form as it stands here (a variant may still be on the chip).
    pub fn on(&self, sm: u16) -> bool {
        self.sms.iter().any(|&(first, last)| first <= sm && sm <= last)
    }

    /// The form as chip `sm` has it: 0 for this one, n for `variants[n - 1]`; None if the chip lacks it.
    pub fn variant_on(&self, sm: u16) -> Option<u8> {
        if self.on(sm) {
            return Some(0);
        }
        self.variants.iter().position(|v| v.on(sm)).map(|n| n as u8 + 1)
    }

    /// This form for 0, `variants[n - 1]` for n.
    #[inline]
    pub fn variant(&self, n: u8) -> &Form {
        match n {
            0 => self,
            n => &self.variants[n as usize - 1],
        }
    }
}

/// Effects of an instruction beyond its register operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Effects {
    /// Reads memory.
    pub load: bool,
    /// Writes memory.
    pub store: bool,
    /// Barrier, fence, warp synchronisation, or otherwise not to be moved against memory operations or each other.
    pub sync: bool,
    /// Ends a basic block or changes the flow (BRA, EXIT, CALL, RET, BRX, BSYNC, BREAK, ...).
    pub flow: bool,
    /// Result depends on other lanes of the warp (SHFL, VOTE, MATCH, REDUX): not to be moved across divergence.
    pub cross_lane: bool,
}

/// What a slot can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// A register of this file.
    Reg(File),
    /// An immediate of `bits` bits, sign-extended if `signed`, stored divided by `1 << shift`.
    Imm {
        /// Width of the value in bits.
        bits: u8,
        /// Two's complement.
        signed: bool,
        /// Low bits that are not stored.
        shift: u8,
        /// How it is printed.
        print: ImmPrint,
    },
    /// `c[bank][offset]`.
    Const,
    /// A branch target, relative to the next instruction, in bytes.
    Target,
}

/// How an immediate is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImmPrint {
    /// `0x1f`, `-0x10`.
    Hex,
    /// An offset into a constant bank whose descriptor the slot `UR` names: `cx[UR4][0x10]`.
    Bindless,
    /// Decimal.
    Decimal,
    /// 32-bit float.
    F32,
    /// High half of a 64-bit float.
    F64High,
    /// Two 16-bit floats.
    F16x2,
    /// One 16-bit float.
    F16,
    /// One 16-bit float with the exponent of 32 bits.
    Bf16,
    /// Special-register name.
    SpecialReg,
    /// As [`ImmPrint::SpecialReg`], where a chip has other names for some, by number.
    SpecialRegOf(&'static [Option<&'static str>]),
    /// One letter a quad lane, `P` (plus) or `N` (minus): the operand of FSWZADD.
    Swizzle,
    /// `SB0`.
    Scoreboard,
    /// A mask of scoreboards: `{3,2,1}`.
    Set,
    /// `gsb0`.
    GroupScoreboard,
}

/// Reads, writes, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read.
    Use,
    /// Written.
    Def,
    /// Read and written.
    UseDef,
}

/// How many registers a slot covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Always so many.
    Fixed(u8),
    /// By the value of a modifier: `counts[value]`.
    By(ModName, &'static [u8]),
    /// By the values of two modifiers: `counts[first * line + second]`, with lines of 4 counts, of 8 in tables
    /// of more than 32, of 64 in those of more than 64.
    ByTwo(ModName, ModName, &'static [u8]),
    /// The sum of what each of several modifiers adds.
    Sum(&'static [Term]),
    /// What a fetch from a texture reads, in two operands: as with [`Width::Sum`] while a modifier is 0. Otherwise the words of both
    /// are dealt out to two pairs: one, one and one, two and one, two and two.
    Dealt {
        /// The modifier: `.SCR`.
        by: ModName,
        /// What this operand has.
        own: &'static [Term],
        /// What the other one has.
        other: &'static [Term],
        /// This one is the second.
        second: bool,
    },
    /// As many as a mask names.
    Named {
        /// The slot of the mask.
        mask: SlotName,
        /// A modifier that is not 0 where two results share a register.
        halves: Option<ModName>,
        /// Those beyond the first two (beyond the first, where two share a register).
        others: bool,
    },
}

/// What modifiers add to the width of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// So many.
    Always(u8),
    /// `counts[value]`.
    One(ModName, &'static [u8]),
    /// `counts[first * 8 + second]`.
    Two(ModName, ModName, &'static [u8]),
}

fn sum(terms: &[Term], inst: &Inst) -> u8 {
    let count = |term: &Term| match *term {
        Term::Always(n) => Some(n),
        Term::One(name, counts) => counts.get(inst.modifier(name) as usize).copied(),
        Term::Two(first, second, counts) => {
            counts.get(inst.modifier(first) as usize * 8 + inst.modifier(second) as usize).copied()
        }
    };
    terms.iter().filter_map(count).fold(0, u8::saturating_add)
}

impl Width {
    /// The width in this instruction.
    #[inline]
    pub fn of(self, inst: &Inst) -> u8 {
        match self {
            Width::Fixed(n) => n,
            other => other.by_modifiers(inst),
        }
    }

    fn by_modifiers(self, inst: &Inst) -> u8 {
        match self {
            Width::Fixed(n) => n,
            Width::By(name, counts) => counts.get(inst.modifier(name) as usize).copied().unwrap_or(1),
            Width::ByTwo(first, second, counts) => {
                let line = match counts.len() {
                    0..=32 => 4,
                    33..=64 => 8,
                    _ => 64,
                };
                let at = inst.modifier(first) as usize * line + inst.modifier(second) as usize;
                counts.get(at).copied().unwrap_or(1)
            }
            Width::Sum(terms) => sum(terms, inst).max(1),
            Width::Dealt { by, own, .. } if inst.modifier(by) == 0 => sum(own, inst).max(1),
            Width::Dealt { own, other, second, .. } => {
                let words = sum(own, inst) + sum(other, inst);
                1 + u8::from(if second { words == 4 } else { words > 2 })
            }
            Width::Named { mask, halves, others } => {
                let named = match inst.get(mask).map(|o| o.value) {
                    Some(Value::Imm(mask)) => mask.get().count_ones() as u8,
                    _ => 4,
                };
                let (named, first) = match halves {
                    Some(name) if inst.modifier(name) != 0 => (named.div_ceil(2), 1),
                    _ => (named, 2),
                };
                if others { named.saturating_sub(first) } else { named.min(first) }
            }
        }
    }
}

/// A field of the word: runs of bits, low part first; `(first bit, number of bits)`.
pub type Bits = &'static [(u8, u8)];

/// An operand slot.
#[derive(Debug)]
pub struct Slot {
    /// Name in the `.isa` file.
    pub name: SlotName,
    /// What it holds.
    pub kind: SlotKind,
    /// Read or written.
    pub role: Role,
    /// Where it lies in the word.
    pub bits: Bits,
    /// How many registers.
    pub width: Width,
    /// Bit of arithmetic negation.
    pub neg: Option<u8>,
    /// Bit of absolute value.
    pub abs: Option<u8>,
    /// Bit of complement.
    pub inv: Option<u8>,
    /// Index of its reuse flag in [`Control::reuse`](crate::control::Control::reuse).
    pub reuse: Option<u8>,
    /// A new instruction has this operand complemented (`!PT`: a carry that is not there).
    pub default_inv: bool,
    /// The operand of a new instruction ([`blank`]).
    pub blank: Operand,
    /// The immediate of a new instruction where it is not 0, or the register where it is not RZ, URZ, PT, UPT or B0. A slot without bits always holds it:
    /// all predicates at once (`PR`).
    pub default_reg: Option<u8>,
    /// Low bits of a constant offset or a branch target that are not stored.
    pub shift: u8,
    /// The number of a predicate is stored with these bits complemented.
    pub xor: u8,
    /// A constant is printed as `c[0x0] [0x160]`.
    pub spaced: bool,
}

impl Slot {
    /// RZ, URZ, PT, UPT, B0, 0 or `c[0][0]`.
    #[inline(always)]
    pub fn default(&self) -> Operand {
        self.blank
    }
}

/// What a new instruction has in a slot of this kind: RZ, URZ, PT, UPT, B0, 0 or `c[0][0]`, where it is not the register or the immediate of this
/// number; complemented or not.
pub const fn blank(kind: SlotKind, number: Option<u8>, inv: bool) -> Operand {
    let value = match (kind, number) {
        (SlotKind::Reg(file), Some(n)) => Value::Reg(Reg::phys(file, n)),
        (SlotKind::Reg(File::Gpr), None) => Value::Reg(Reg::RZ),
        (SlotKind::Reg(File::Ugpr), None) => Value::Reg(Reg::URZ),
        (SlotKind::Reg(File::Pred), None) => Value::Reg(Reg::PT),
        (SlotKind::Reg(File::Upred), None) => Value::Reg(Reg::UPT),
        (SlotKind::Reg(File::Bar), None) => Value::Reg(Reg::b(0)),
        (SlotKind::Imm { .. }, Some(n)) => Value::imm(n as i64),
        (SlotKind::Imm { .. }, None) => Value::imm(0),
        (SlotKind::Const, _) => Value::Const { bank: 0, offset: 0 },
        (SlotKind::Target, _) => Value::target(0),
    };
    Operand { value, neg: false, abs: false, inv }
}

/// A modifier field.
#[derive(Debug)]
pub struct ModField {
    /// Name in the `.isa` file.
    pub name: ModName,
    /// Where it lies in the word.
    pub bits: Bits,
    /// What each value prints (`""`: nothing; `None`: not a legal value).
    pub values: &'static [Option<&'static str>],
    /// The value of a new instruction.
    pub default: u8,
}

/// A piece of the text of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Literal text.
    Text(&'static str),
    /// The text of modifier field n.
    Mod(u8),
    /// Operand slot n, with its source modifiers and `.reuse`.
    Slot(u8),
    /// Operand slot n with a suffix that belongs inside (`R2.64`); and everything that a plain slot has.
    SlotSuffix(u8, &'static str),
    /// Operand slot n with the text of modifier field m inside of it (`|R2.H0_H0|`).
    SlotMod(u8, u8),
    /// Text that depends on several fields, of these slots.
    Alias(Alias, &'static [u8]),
    /// An address in brackets without the brackets: the slots of a register, perhaps a uniform register, a distance; the
    /// text after the register, or the modifier with it; whether the uniform register is left
    /// out where it is URZ.
    Address(&'static [u8], Suffix, HideZero),
    /// Left out when slot n holds its default; up to the matching [`Piece::End`].
    If(u8),
    /// End of an optional part.
    End,
}

/// Whether URZ is left out of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HideZero {
    /// It is printed.
    Never,
    /// It is left out.
    Always,
    /// It is left out of addresses of 64 bits.
    Wide,
}

/// What follows the register of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suffix {
    /// This text.
    Text(&'static str),
    /// The text of modifier field n.
    Mod(u8),
}

/// Text that depends on several fields at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    /// `P0, P1, `: the predicate results Pu and Pv, left out where nothing is kept.
    PuPv,
    /// `.MOV`, `.SHL`, `.IADD`: what IMAD with a special operand is called.
    Imad,
    /// `c[bank][Rx+offset]`: constant slot and index register slot.
    Indexed,
    /// The register of the slot before once more.
    Twin,
    /// The register after that of the slot.
    Next,
    /// The register behind the pair that begins with that of the slot.
    NextPair,
    /// Operand Rb, with the half of it where its type has 16 bits.
    HalfPart,
    /// Operand Rb with the part of it that an integer type takes: `.B1`, `.H1`.
    IntPart,
}

/// No effect beyond the operands.
pub const NO_EFFECTS: Effects = Effects { load: false, store: false, sync: false, flow: false, cross_lane: false };

/// What decoding needs of a form or variant, in few bytes. The build step makes it from the same description; anything
/// unusual is left to that ([`Candidate::others`], [`Candidate::split`]). Places in the word are bit numbers; a run of
/// bits lies in one half of the word. Bit 128 stands for one that is not there.
#[derive(Debug)]
pub struct Candidate {
    /// Bits that tell the form from others: low and high half of the word.
    pub need: [u64; 2],
    /// Their values.
    pub fixed: [u64; 2],
    /// Bits that mean nothing.
    pub free: [u64; 2],
    /// What they are in words that we make.
    pub rest: [u64; 2],
    /// Number of the form.
    pub form: u16,
    /// Number of the variant.
    pub variant: u8,
    /// The file of the guard as its number.
    pub guard: u8,
    /// How many operands.
    pub operands: u8,
    /// Registers without source modifiers.
    pub plain: &'static [RegRead],
    /// Registers with source modifiers.
    pub marked: &'static [(RegRead, [u8; 3])],
    /// Immediates.
    pub numbers: &'static [NumberRead],
    /// Constants in a bank.
    pub constants: &'static [ConstRead],
    /// Slots that are read by the description.
    pub others: &'static [u8],
    /// First bit and mask of each modifier; of those that are not one run of bits the mask is 0.
    pub mods: &'static [(u8, u8)],
    /// Modifiers that are read by the description.
    pub split: &'static [u8],
    /// Modifiers that lack some values: number of the modifier and the set of its values; all ones ask the description.
    pub checks: &'static [(u8, u64)],
}

/// How a register is read. With source modifiers: the bits of arithmetic negation, absolute value and complement.
#[derive(Clone, Copy, Debug)]
pub struct RegRead {
    /// The bits of the first register of the file.
    pub file: u32,
    /// The operand that it is.
    pub to: u8,
    /// First bit.
    pub from: u8,
    /// The bits, moved down.
    pub mask: u8,
    /// Bits of a predicate's number that are stored complemented.
    pub xor: u8,
    /// The number that is URZ, which is known as 255.
    pub top: u8,
}

/// How an immediate without source modifiers is read.
#[derive(Clone, Copy, Debug)]
pub struct NumberRead {
    /// The operand that it is.
    pub to: u8,
    /// First bit.
    pub from: u8,
    /// Number of bits.
    pub count: u8,
    /// In two's complement.
    pub signed: bool,
    /// Low bits that are not stored.
    pub shift: u8,
}

/// How a constant is read: the offset, in two's complement, above it the bank.
#[derive(Clone, Copy, Debug)]
pub struct ConstRead {
    /// The operand that it is.
    pub to: u8,
    /// First bit.
    pub from: u8,
    /// Number of bits of the offset.
    pub count: u8,
    /// Number of bits of the bank.
    pub bank: u8,
    /// Low bits that are not stored.
    pub shift: u8,
    /// The bits of arithmetic negation, absolute value and complement.
    pub marks: [u8; 3],
}
