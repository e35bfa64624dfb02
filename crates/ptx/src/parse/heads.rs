//! The heads (opcode and modifiers) that a text has had so far, by their spelling.

use crate::isa::{Mod, Op};
use crate::module::Head;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A spelling, as [`Key::words`], and its head.
struct Spelling {
    words: [u64; LONGEST],
    hash: u32,
    head: u32,
}

/// The heads of a text.
pub(super) struct Heads {
    known: Vec<Head>,
    by_words: FxHashMap<(Op, SmallVec<[Mod; 6]>), u32>,
    spellings: Vec<Spelling>,
    /// One more than an index into the spellings, or 0; twice as many as those at least, a power of two.
    slots: Vec<u16>,
}

/// Spellings that are kept: texts have far fewer.
const KEPT: usize = 1 << 12;

/// Slots of a new table: most texts have a dozen spellings, and clearing a large table takes longer than parsing those.
const FIRST: usize = 1 << 7;

const ONES: u64 = 0x0101_0101_0101_0101;

/// Eight bytes of a text as a little-endian number; none near its end.
#[inline(always)]
fn word(src: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*src.get(at..)?.first_chunk::<8>()?))
}

/// Words of the longest head that is looked up.
const LONGEST: usize = 8;

/// The bytes of a head as little-endian numbers, with zeros behind them: equal ones have the same bytes.
pub(super) struct Key {
    words: [u64; LONGEST],
    used: usize,
    hash: u32,
}

/// The text that begins at `start` up to the first blank, control character or `;`, and its end. Heads end so; what else ends so is
/// none that has been kept. None for a longer one, and near the end of the text.
#[inline(always)]
pub(super) fn spelling(src: &[u8], start: usize) -> Option<(Key, usize)> {
    let mut key = Key { words: [0; LONGEST], used: 0, hash: 0 };
    let mut hash = 0u64;
    let mut at = start;
    for i in 0..LONGEST {
        let w = word(src, at)?;
        // The high bit of the first byte below '!', or of the first that is ';', and maybe of some behind it.
        let semicolon = w ^ (ONES * 0x3b);
        let ends = (w.wrapping_sub(ONES * 0x21) & !w | semicolon.wrapping_sub(ONES) & !semicolon) & (ONES << 7);
        let bits = ends.trailing_zeros() & !7;
        let kept = w & !(!0u64).checked_shl(bits).unwrap_or(0);
        key.words[i] = kept;
        hash = (hash.rotate_left(5) ^ kept).wrapping_mul(0x517c_c1b7_2722_0a95);
        at += (bits / 8) as usize;
        if ends != 0 {
            (key.used, key.hash) = (i + 1, (hash >> 32) as u32);
            return Some((key, at));
        }
    }
    None
}

impl Heads {
    pub fn new() -> Heads {
        Heads { known: Vec::new(), by_words: FxHashMap::default(), spellings: Vec::new(), slots: vec![0; FIRST] }
    }

    /// The head of a spelling that has been [kept](Heads::keep).
    #[inline]
    pub fn find(&self, key: &Key) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = key.hash as usize & mask;
        loop {
            let s = self.spellings.get((self.slots[at] as usize).checked_sub(1)?)?;
            if s.words[0] == key.words[0] && s.words[1] == key.words[1] && s.words[..key.used] == key.words[..key.used]
            {
                return Some(s.head);
            }
            at = (at + 1) & mask;
        }
    }

    /// Keeps what a spelling says.
    pub fn keep(&mut self, key: &Key, head: u32) {
        if self.spellings.len() == KEPT || self.find(key).is_some() {
            return;
        }
        self.spellings.push(Spelling { words: key.words, hash: key.hash, head });
        let count = self.spellings.len();
        if count * 2 > self.slots.len() {
            self.slots = vec![0; self.slots.len() * 2];
            (0..count).for_each(|n| self.enter(n));
        } else {
            self.enter(count - 1);
        }
    }

    /// Gives a spelling a slot.
    fn enter(&mut self, n: usize) {
        let mask = self.slots.len() - 1;
        let mut at = self.spellings[n].hash as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = n as u16 + 1;
    }

    /// The head of these words, new or known.
    pub fn head(&mut self, op: Op, mods: SmallVec<[Mod; 6]>) -> u32 {
        let next = self.known.len() as u32;
        let head = *self.by_words.entry((op, mods.clone())).or_insert(next);
        if head == next {
            self.known.push(Head { op, mods });
        }
        head
    }

    /// The opcode of a head.
    #[inline]
    pub fn op(&self, head: u32) -> Op {
        self.known[head as usize].op
    }

    /// The modifiers of a head.
    pub fn mods(&self, head: u32) -> &[Mod] {
        &self.known[head as usize].mods
    }

    /// All heads, each at its number.
    pub fn all(&mut self) -> Vec<Head> {
        std::mem::take(&mut self.known)
    }
}
