//! Prints random legal instructions: `random COUNT [SEED]`: for each form COUNT words, hexadecimal, with the form's name.

use sass::codec::{decode, encode};
use sass::form::FormId;

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let (count, seed) = (args.next().unwrap_or(10), args.next().unwrap_or(1));
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = || {
        let mut word = 0u128;
        for _ in 0..2 {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            word = word << 64 | (z ^ z >> 31) as u128;
        }
        word
    };
    for (n, form) in sass::tables::FORMS.iter().enumerate() {
        let mut done = 0;
        for _ in 0..count * 1000 {
            // Bits between the fields are the form's, the rest is random; the control field is a quiet one.
            let control = 0x1f_ffffu128 << 105;
            let mut word = random() & !form.mask & !control | form.fixed | 0x7f2u128 << 105;
            if random() & 1 == 0 {
                word = word & !(0xf << 12) | 7 << 12;
            }
            // Zero registers and zero immediates more often than chance brings them.
            for slot in form.slots {
                let bits = slot.bits.iter().fold(0u128, |m, &(from, n)| m | ((1 << n) - 1) << from);
                match random() & 7 {
                    0 => word |= bits,
                    1 => word &= !bits,
                    _ => {}
                }
            }
            let decoded = decode(word, 90);
            let Some(inst) = decoded.known() else { continue };
            if inst.form == FormId(n as u16) && encode(inst, 90) == Ok(word) {
                println!("{word:032x} {}", form.name);
                done += 1;
                if done == count {
                    break;
                }
            }
        }
    }
}
