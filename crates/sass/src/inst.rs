//! The instruction value: a form, its operands, its modifiers, its control field.

use crate::control::Control;
use crate::form::{Form, FormId, ModName, Piece, Registers, Role, SlotName};
use crate::reg::Reg;
use crate::short::Short;
use crate::tables::{MAX_MODS, MAX_OPERANDS, REGISTERS};
use smallvec::SmallVec;

/// What an operand slot holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A register (the first of several where the slot is wider).
    Reg(Reg),
    /// An immediate: the field's bits, sign- or zero-extended as the slot says. Floats are their bits.
    Imm(Wide),
    /// `c[bank][offset]`, offset in bytes. An index register is a slot of its own.
    Const {
        /// Constant bank.
        bank: u8,
        /// Byte offset.
        offset: i32,
    },
    /// A branch target: byte offset from the next instruction once encoded; while code is still being laid out, the
    /// compiler keeps block numbers here and resolves them before encoding.
    Target(Wide),
}

/// A number of 64 bits that lies at any multiple of 4, so that an operand takes 16 bytes: passes move many of them.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct Wide(i64);

impl Wide {
    /// This number.
    pub const fn new(number: i64) -> Wide {
        Wide(number)
    }

    /// The number.
    #[inline(always)]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl std::fmt::Debug for Wide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

impl Value {
    /// An immediate.
    pub const fn imm(bits: i64) -> Value {
        Value::Imm(Wide::new(bits))
    }

    /// A branch target.
    pub const fn target(to: i64) -> Value {
        Value::Target(Wide::new(to))
    }
}

// Most of the time of some passes is moving instructions.
const _: () = assert!(size_of::<Operand>() == 16 && size_of::<Inst>() <= 200);

/// An operand with its source modifiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// What is read or written.
    pub value: Value,
    /// Arithmetic negation (`-R1`).
    pub neg: bool,
    /// Absolute value (`|R1|`).
    pub abs: bool,
    /// Bitwise or logical complement (`~R1`, `!P0`).
    pub inv: bool,
}

impl Operand {
    /// A plain register.
    pub const fn reg(reg: Reg) -> Operand {
        Operand { value: Value::Reg(reg), neg: false, abs: false, inv: false }
    }

    /// An immediate.
    pub const fn imm(bits: i64) -> Operand {
        Operand { value: Value::imm(bits), neg: false, abs: false, inv: false }
    }

    /// `c[bank][offset]`.
    pub const fn cbank(bank: u8, offset: i32) -> Operand {
        Operand { value: Value::Const { bank, offset }, neg: false, abs: false, inv: false }
    }

    /// The same, negated once more.
    pub const fn negated(mut self) -> Operand {
        self.neg = !self.neg;
        self
    }

    /// The same, complemented once more.
    pub const fn inverted(mut self) -> Operand {
        self.inv = !self.inv;
        self
    }

    /// The register, if it is one.
    pub const fn as_reg(&self) -> Option<Reg> {
        match self.value {
            Value::Reg(r) => Some(r),
            _ => None,
        }
    }
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::reg(reg)
    }
}

/// One SASS instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// Which form of which opcode.
    pub form: FormId,
    /// Which variant of the form (0: the form itself): what it is on the chip that the word was read for.
    pub variant: u8,
    /// `@P0` / `@!P0`; PT, not negated, where there is none. Uniform instructions are guarded by UP.
    pub guard: Operand,
    /// One operand for each slot of the form, in the form's order.
    pub operands: Short<Operand, MAX_OPERANDS>,
    /// One value for each modifier field of the form, in the form's order.
    pub mods: Short<u8, MAX_MODS>,
    /// Scheduling control.
    pub ctrl: Control,
    /// Bits that mean nothing in this form, where they differ from what the form fixes: none but in odd words.
    pub extra: Option<Box<u128>>,
}

/// A register read or written by an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegRef {
    /// Slot number in the form, or `None` for the guard.
    pub slot: Option<u8>,
    /// First register.
    pub reg: Reg,
    /// How many consecutive registers (1 for predicates).
    pub width: u8,
    /// Read or written (a slot that is both appears twice).
    pub def: bool,
}

impl Inst {
    /// An instruction of `form` with every slot at its default (RZ, URZ, PT, 0), every modifier 0, guard PT.
    #[inline]
    pub fn new(form: FormId) -> Inst {
        let mut inst = Inst::blank();
        inst.form = form;
        if form.get().uniform_guard {
            inst.guard = Operand::reg(Reg::UPT);
        }
        inst.fields(form.get());
        inst
    }

    /// Makes it what [`Inst::new`] gives, where it stands.
    pub fn begin(&mut self, form: FormId) {
        let f = form.get();
        (self.form, self.variant, self.extra) = (form, 0, None);
        self.guard = Operand::reg(if f.uniform_guard { Reg::UPT } else { Reg::PT });
        self.ctrl = Control::default();
        self.fields(f);
    }

    /// As [`Inst::new`], of the form as chip `sm` has it, which may have other slots and modifiers; none if it lacks the form.
    pub fn new_on(form: FormId, sm: u16) -> Option<Inst> {
        let mut inst = Inst::blank();
        (inst.form, inst.variant) = (form, form.get().variant_on(sm)?);
        inst.fields(form.get().variant(inst.variant));
        if form.get().uniform_guard {
            inst.guard = Operand::reg(Reg::UPT);
        }
        Some(inst)
    }

    /// Puts the operands and modifiers that a new instruction of a form has into the places.
    pub(crate) fn fields(&mut self, f: &Form) {
        self.operands.resize(f.slots.len());
        self.operands.iter_mut().zip(f.slots).for_each(|(o, slot)| *o = slot.blank);
        self.mods.resize(f.mods.len());
        self.mods.iter_mut().zip(f.mods).for_each(|(value, field)| *value = field.default);
    }

    /// A place for an instruction.
    pub const fn blank() -> Inst {
        Inst {
            form: FormId(0),
            variant: 0,
            extra: None,
            guard: Operand::reg(Reg::PT),
            operands: Short::new(Operand::imm(0)),
            mods: Short::new(0),
            ctrl: Control { stall: 1, bit109: true, write_sb: None, read_sb: None, wait: 0, reuse: 0 },
        }
    }

    /// Its form.
    #[inline]
    pub fn form(&self) -> &'static Form {
        self.form.get().variant(self.variant)
    }

    /// Which of its slots hold registers.
    #[inline(always)]
    pub fn registers(&self) -> Registers {
        match self.variant {
            0 => REGISTERS[self.form.0 as usize],
            _ => self.form().registers,
        }
    }

    /// The registers, constant ones included, in these slots (one bit each).
    #[inline]
    pub fn in_slots(&self, slots: u16) -> impl Iterator<Item = Reg> {
        let operands = self.operands.iter().enumerate();
        operands.filter(move |(i, _)| slots >> i & 1 != 0).filter_map(|(_, o)| o.as_reg())
    }

    /// The slot number of `name` in this form.
    #[inline]
    pub fn slot(&self, name: SlotName) -> Option<usize> {
        self.form().slots.iter().position(|s| s.name == name)
    }

    /// The operand in the slot `name`, if the form has that slot.
    #[inline]
    pub fn get(&self, name: SlotName) -> Option<&Operand> {
        self.slot(name).map(|i| &self.operands[i])
    }

    /// Puts an operand into the slot `name`.
    ///
    /// # Panics
    /// If the form has no such slot: a bug of the caller, not of an input.
    pub fn set(&mut self, name: SlotName, operand: Operand) {
        let i = self.slot(name).unwrap_or_else(|| panic!("{} has no slot {name:?}", self.form().name));
        self.operands[i] = operand;
    }

    /// A new instruction with these operands and modifiers, as by [`Inst::set`] and [`Inst::set_mod`]: built where it will lie.
    ///
    /// # Panics
    /// As [`Inst::set`].
    pub fn of(form: FormId, operands: &[(SlotName, Operand)], mods: &[(ModName, u8)]) -> Inst {
        let mut inst = Inst::new(form);
        operands.iter().for_each(|&(name, operand)| inst.set(name, operand));
        mods.iter().for_each(|&(name, value)| inst.set_mod(name, value));
        inst
    }

    /// Builder: as [`Inst::set`].
    // Inlined, so that the instruction is not moved from one place to the next.
    #[inline(always)]
    pub fn with(mut self, name: SlotName, operand: impl Into<Operand>) -> Inst {
        self.set(name, operand.into());
        self
    }

    /// The value of modifier field `name`; 0 if the form does not have it.
    #[inline]
    pub fn modifier(&self, name: ModName) -> u8 {
        self.form().mods.iter().position(|m| m.name == name).map_or(0, |i| self.mods[i])
    }

    /// What modifier field `name` prints, `.SYS`; none if the form does not have it, or its value has no meaning.
    pub fn modifier_text(&self, name: ModName) -> Option<&'static str> {
        let field = self.form().mods.iter().find(|m| m.name == name)?;
        field.values.get(self.modifier(name) as usize).copied().flatten()
    }

    /// True for a branch that asks whether the lanes of the warp are together (`.DIV`, `.CONV`), in a form that names no mask of them.
    pub(crate) fn asks_lanes(&self) -> bool {
        self.form().mnemonic == "BRA" && self.modifier(ModName::M32) > 1
    }

    /// Sets modifier field `name`.
    ///
    /// # Panics
    /// If the form has no such field: a bug of the caller, not of an input.
    pub fn set_mod(&mut self, name: ModName, value: u8) {
        let i = self.form().mods.iter().position(|m| m.name == name);
        let i = i.unwrap_or_else(|| panic!("{} has no modifier {name:?}", self.form().name));
        self.mods[i] = value;
    }

    /// Builder: as [`Inst::set_mod`].
    #[inline(always)]
    pub fn with_mod(mut self, name: ModName, value: u8) -> Inst {
        self.set_mod(name, value);
        self
    }

    /// Builder: sets the guard.
    #[inline(always)]
    pub fn guarded(mut self, guard: impl Into<Operand>) -> Inst {
        self.guard = guard.into();
        self
    }

    /// How many registers the operand in slot `slot` covers (from the modifiers where it depends on them).
    #[inline]
    pub fn slot_width(&self, slot: usize) -> u8 {
        self.form().slots[slot].width.of(self)
    }

    /// Takes over from `read`, an instruction of the same form, what the assembly text does not show: the control field,
    /// bits that mean nothing, operands without a place in the text (the descriptor of `LDG.E R0, [R2.64]` on sm_80).
    pub fn take_unprinted(&mut self, read: &Inst) {
        (self.ctrl, self.extra) = (read.ctrl, read.extra.clone());
        if self.form != read.form || self.variant != read.variant {
            return;
        }
        let form = self.form();
        for (i, operand) in self.operands.iter_mut().enumerate() {
            let shown = form.syntax.iter().any(|piece| match piece {
                Piece::Slot(n) | Piece::SlotSuffix(n, _) | Piece::SlotMod(n, _) | Piece::If(n) => *n as usize == i,
                Piece::Alias(_, slots) | Piece::Address(slots, ..) => slots.contains(&(i as u8)),
                Piece::Text(_) | Piece::Mod(_) | Piece::End => false,
            });
            if !shown && let Some(other) = read.operands.get(i) {
                *operand = *other;
            }
        }
    }

    /// Every register read or written, guard included, constants (RZ, PT, ...) included; uses before definitions.
    pub fn regs(&self) -> SmallVec<[RegRef; 8]> {
        let mut out = SmallVec::new();
        if let Some(reg) = self.guard.as_reg() {
            out.push(RegRef { slot: None, reg, width: 1, def: false });
        }
        for def in [false, true] {
            for (i, slot) in self.form().slots.iter().enumerate() {
                let takes = if def { slot.role != Role::Use } else { slot.role != Role::Def };
                if takes && slot.bits.is_empty() {
                    // All predicates at once: those that the mask names.
                    let mask = match self.get(SlotName::Mask).map(|o| o.value) {
                        Some(Value::Imm(mask)) => mask.get(),
                        _ => -1,
                    };
                    let first = slot.default().as_reg().unwrap_or(Reg::PT);
                    let named = (0..self.slot_width(i) as u32).filter(|n| mask >> n & 1 != 0);
                    out.extend(named.map(|n| RegRef { slot: Some(i as u8), reg: first.offset(n), width: 1, def }));
                    continue;
                }
                if let (true, Some(reg)) = (takes, self.operands[i].as_reg()) {
                    out.push(RegRef { slot: Some(i as u8), reg, width: self.slot_width(i), def });
                }
            }
        }
        out
    }
}
