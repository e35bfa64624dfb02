//! What a relocatable function refers to by name, and how its operands say so until emission.
//!
//! The number of a reference stands in the operand, biased beyond every real immediate or offset; emission puts the addend in its
//! place and lists the relocation. The numbers of relocations and where they go were observed in what the vendor's tool writes
//! for sm_90 with `-c`.

use sass::inst::{Operand, Value};

/// The 32-bit address of a shared variable, in an immediate.
pub const ABS32: u32 = 0x37;
/// The low half of an address, in an immediate.
pub const ABS32_LO: u32 = 0x38;
/// The high half of an address, in an immediate.
pub const ABS32_HI: u32 = 0x39;
/// The offset of a constant in its bank, in an immediate.
pub const ABS16: u32 = 0x3b;
/// The offset of a constant in its bank, as the operand has it.
pub const CONST_FIELD: u32 = 0x42;
/// The target of a call.
pub const CALL: u32 = 0x4b;
/// The low half of the address of a function, in an immediate.
pub const FUNCTION_LO: u32 = 0x70;
/// The high half of the address of a function, in an immediate.
pub const FUNCTION_HI: u32 = 0x71;
/// On a call through a register.
pub const CALL_REGISTER: u32 = 0x72;

/// The target of a call, before sm_90.
pub const CALL_OLD: u32 = 0x3a;

/// The relocation that stands for one of sm_90 on chip `sm`; none where nothing is to be filled in: before sm_90 there are no
/// unified functions, so that addresses of functions are like others. Observed in what the vendor's tool writes for sm_75 and sm_80.
pub fn on_chip(kind: u32, sm: u16) -> Option<u32> {
    match kind {
        _ if arch::files(sm).unified_functions => Some(kind),
        CALL => Some(CALL_OLD),
        FUNCTION_LO => Some(ABS32_LO),
        FUNCTION_HI => Some(ABS32_HI),
        CALL_REGISTER => None,
        _ => Some(kind),
    }
}

/// What a reference is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A variable, by its number in the module.
    Variable(u32),
    /// A function, by its number in the module.
    Function(u32),
    /// A function of the system that fetches texels, by its number in [`Layout::fetches`](crate::layout::Layout::fetches).
    Fetch(u32),
    /// The function that the code is of.
    Own,
    /// Its tables in constant bank 2.
    Tables,
    /// The table of unified functions.
    Unified,
}

/// A reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ref {
    /// What it is to.
    pub symbol: Symbol,
    /// Number of the relocation.
    pub kind: u32,
    /// What is added to the address.
    pub addend: i64,
}

/// A relocation of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloc {
    /// Byte offset of the instruction.
    pub offset: u32,
    /// What goes there.
    pub to: Ref,
}

/// Bias of references in immediates.
const IMMEDIATE: i64 = 1 << 41;
/// Bias of references in offsets of constants.
const CONSTANT: i32 = 1 << 28;

/// Immediates that emission makes return addresses.
pub const RETURN: [i64; 2] = [(1 << 42) + 1, (1 << 42) + 2];

/// The immediate that is reference `n`.
pub fn immediate(n: usize) -> Operand {
    Operand::imm(IMMEDIATE + n as i64)
}

/// The constant operand of a bank whose offset is reference `n`.
pub fn constant(bank: u8, n: usize) -> Operand {
    Operand::cbank(bank, CONSTANT + n as i32)
}

/// The reference that an operand is, and the value it has in the code.
pub fn reference(value: Value) -> Option<(usize, Value)> {
    match value {
        Value::Imm(n) if (IMMEDIATE..RETURN[0]).contains(&n.get()) => {
            Some(((n.get() - IMMEDIATE) as usize, Value::imm(0)))
        }
        Value::Const { bank, offset } if offset >= CONSTANT => {
            Some(((offset - CONSTANT) as usize, Value::Const { bank, offset: 0 }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_chips_know_no_unified_functions() {
        let kinds = [CALL, CALL_REGISTER, FUNCTION_LO, FUNCTION_HI, ABS16, CONST_FIELD];
        assert_eq!(kinds.map(|k| on_chip(k, 90)), kinds.map(Some));
        let old = [Some(CALL_OLD), None, Some(ABS32_LO), Some(ABS32_HI), Some(ABS16), Some(CONST_FIELD)];
        assert_eq!(kinds.map(|k| on_chip(k, 86)), old);
    }
}
