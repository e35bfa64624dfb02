//! The instruction set as data: opcode words, modifier words, legal forms.
//!
//! Everything here is made from `isa/*.ptxi` by the build script.

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
    fn every_name_finds_its_word() {
        for op in Op::ALL {
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        for m in Mod::ALL {
            assert_eq!(Mod::from_name(m.name()), Some(m));
        }
        assert_eq!(Op::from_name("frobnicate"), None);
        assert_eq!(Mod::from_name(""), None);
        assert_eq!(Mod::from_name("shared::cta"), Some(Mod::SharedCta));
    }
}
