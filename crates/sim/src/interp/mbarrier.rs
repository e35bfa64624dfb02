//! The barrier object in shared memory (`mbarrier`), written from section 9.7.13.15 of the PTX ISA.
//!
//! PTX keeps the format of the object to itself. Here its 64 bits are: pending arrivals (20 bits), expected arrivals (20),
//! pending transactions (21, of two's complement), a mark (2) that tells a valid object, and the parity of the phase.

/// The parts of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Arrivals that are missing in this phase.
    pub pending: u32,
    /// Arrivals of the next phase.
    pub expected: u32,
    /// Bytes that are missing in this phase.
    pub bytes: i32,
    /// Parity of this phase.
    pub phase: bool,
}

/// Most arrivals, and most bytes.
pub const MOST: u32 = (1 << 20) - 1;
const MARK: u64 = 0b10 << 61;

impl Object {
    /// The object that a word holds, if it does.
    pub fn read(word: u64) -> Option<Object> {
        (word & 0b11 << 61 == MARK).then_some(Object {
            pending: word as u32 & MOST,
            expected: (word >> 20) as u32 & MOST,
            bytes: ((word >> 40) as i32) << 11 >> 11,
            phase: word >> 63 != 0,
        })
    }

    /// Its word.
    pub fn word(self) -> u64 {
        let bytes = self.bytes as u64 & 0x1f_ffff;
        self.pending as u64 | (self.expected as u64) << 20 | bytes << 40 | MARK | (self.phase as u64) << 63
    }

    /// Ends the phase if nothing is missing; true if so.
    pub fn settle(&mut self) -> bool {
        let done = self.pending == 0 && self.bytes == 0;
        if done {
            self.pending = self.expected;
            self.phase = !self.phase;
        }
        done
    }
}

/// `mbarrier.pending_count`: the missing arrivals of the state that an arrival returned.
pub fn pending_of(state: u64) -> u64 {
    state & MOST as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_objects() {
        for bytes in [0, 1, -1, MOST as i32, -(MOST as i32)] {
            let o = Object { pending: 7, expected: MOST, bytes, phase: true };
            assert_eq!(Object::read(o.word()), Some(o));
        }
        assert_eq!(Object::read(0), None);
        assert_eq!(Object::read(u64::MAX), None);
    }

    #[test]
    fn phases_end_when_nothing_is_missing() {
        let mut o = Object { pending: 0, expected: 3, bytes: 4, phase: false };
        assert!(!o.settle());
        o.bytes = 0;
        assert!(o.settle());
        assert_eq!(o, Object { pending: 3, expected: 3, bytes: 0, phase: true });
    }
}
