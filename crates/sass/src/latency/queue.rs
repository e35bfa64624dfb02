//! Queues: units whose results come back, or whose operands are read, in the order of issue.

use super::Class;
use crate::inst::Inst;

/// A number for the queue of the unit that executes an instruction on chip `sm`; 0 where it has none of its own.
pub fn queue(inst: &Inst, sm: u16) -> u8 {
    match inst.form().class {
        Class::Xu => 1,
        Class::Global => 2,
        Class::Shared | Class::Shuffle => 3,
        Class::Local => 4,
        Class::Const => 5,
        Class::Match => 6,
        Class::SpecialReg if inst.form().mnemonic == "S2UR" => 15,
        Class::SpecialReg => 7,
        class @ Class::Double if !class.is_fixed(sm) => 8,
        Class::Movm => 9,
        class @ (Class::Hmma | Class::Imma) if !class.is_fixed(sm) => 10,
        Class::Dmma => 12,
        Class::Mbarrier if inst.form().mnemonic == "LDTM" => 11,
        Class::Texture if inst.form().mnemonic == "TXQ" => 13,
        Class::Texture if inst.form().mnemonic == "SULD" => 14,
        _ => 0,
    }
}

/// True if `later`, the number of a queue, once done, proves that what went into `earlier` before is done. The vendor leaves scoreboards out by this rule for the
/// decoupled arithmetic, for shared memory with shuffles, for REDUX and MATCH, for TXQ and for S2UR (releases 13.0 and 13.5 at `-O1`, of
/// `tests/kernels/features/tensor_im2col.ptx`), and it counts loads from surfaces by it; never global or local loads.
pub fn in_order(earlier: u8, later: u8) -> bool {
    earlier == later && matches!(earlier, 1 | 3 | 6 | 8..=15)
}

/// True if the sources of `earlier` have been read when those of `later` have.
pub fn read_in_order(earlier: u8, later: u8) -> bool {
    earlier != 0 && (earlier == later || (2..=4).contains(&earlier) && (2..=4).contains(&later))
}
