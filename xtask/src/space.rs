//! Words of every opcode there could be: `cargo xtask mine-isa --space N`.
//!
//! What ptxas emits for the corpus, and words near it, say nothing of opcodes that ptxas never emits. Here each of the 8,192 opcodes (bits
//! 11:0 and bit 91) gets N bodies: nothing at all, all registers zero registers, the bodies of forms that are known for the chip (those of
//! the same low nine bits, that is of the same family, more often) and random ones.

use sass::form::Form;
use testkit::Random;

/// The bits of the opcode.
const OPCODE: u128 = 0xfff | 1 << 91;
/// The bits of the guard and of the control field, and what stands there: no guard, a stall of one, no waits.
const OUTER: u128 = 0xf << 12 | 0x1f_ffff << 105;
const PLAIN: u128 = 7 << 12 | 0x7f2 << 105;

/// `each` words of every opcode for a chip.
pub fn words(sm: u16, each: usize, random: &mut Random) -> Vec<u128> {
    let forms: Vec<&Form> = sass::tables::FORMS.iter().filter_map(|f| f.variant_on(sm).map(|v| f.variant(v))).collect();
    let mut families: Vec<Vec<&Form>> = vec![Vec::new(); 512];
    for form in &forms {
        families[(form.fixed & 0x1ff) as usize].push(form);
    }
    let mut out = Vec::with_capacity(8192 * each);
    for opcode in 0..8192u128 {
        let family = &families[(opcode & 0x1ff) as usize];
        let code = opcode & 0xfff | (opcode >> 12) << 91;
        for n in 0..each {
            let body = match n {
                0 => 0,
                1 => 0xff_ffff << 16 | 0xff << 32 | 0xff << 64 | 7 << 81 | 7 << 84 | 7 << 87,
                _ if n % 8 == 7 => random.word(),
                _ if n % 2 == 0 && !family.is_empty() => body(family[random.index(family.len())], random),
                _ => body(forms[random.index(forms.len())], random),
            };
            out.push(body & !(OPCODE | OUTER) | code | PLAIN);
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// A word of a form: its operands any registers, zero registers or zero, its modifiers any values.
fn body(form: &Form, random: &mut Random) -> u128 {
    let kept = form.need | form.free;
    let mut word = random.word() & !kept | form.fixed & kept;
    for slot in form.slots {
        let bits = slot.bits.iter().fold(0u128, |m, &(from, n)| m | ((1u128 << n) - 1) << from);
        match random.bits() & 3 {
            0 => word |= bits,
            1 => word &= !bits,
            // A number of a register that pairs and fours may begin with.
            2 => word &= !(7 * (bits & bits.wrapping_neg())),
            _ => {}
        }
    }
    // Half of the words have the plainest modifiers.
    if random.bits() & 1 == 0 {
        for field in form.mods {
            let bits = field.bits.iter().fold(0u128, |m, &(from, n)| m | ((1u128 << n) - 1) << from);
            word &= !(bits & !form.need);
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_is_asked_for() {
        let words = words(90, 3, &mut Random(1));
        let mut opcodes: Vec<u128> = words.iter().map(|w| w & OPCODE).collect();
        opcodes.sort_unstable();
        opcodes.dedup();
        assert_eq!(opcodes.len(), 8192);
        assert!(words.iter().all(|w| w & OUTER == PLAIN));
    }
}
