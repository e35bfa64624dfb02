//! The heads (opcode and modifiers) that a text has had so far, by their spelling.

use crate::isa::{Mod, Op};
use crate::module::Head;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A spelling: what it hashes to, where it stands in the text, and the head.
#[derive(Clone, Copy)]
struct Spelling {
    hash: u32,
    start: u32,
    len: u32,
    head: u32,
}

/// The heads of a text.
pub(super) struct Heads {
    known: Vec<Head>,
    by_words: FxHashMap<(Op, SmallVec<[Mod; 6]>), u32>,
    spellings: Vec<Spelling>,
    /// One more than an index into the spellings, or 0; twice as many as those at least.
    slots: Vec<u16>,
}

/// Spellings that are kept: texts have far fewer.
const KEPT: usize = 1 << 12;

const MASK: usize = KEPT * 2 - 1;

/// Hashes the text that begins at `start` while its bytes may be of a head (names, dots and colons): that and its end.
pub(super) fn spelling(src: &[u8], start: usize) -> (u32, usize) {
    let rest = src.get(start..).unwrap_or_default();
    let len = rest.iter().position(|&b| !crate::lex::is(b, crate::lex::HEAD)).unwrap_or(rest.len());
    (crate::names::hash(&rest[..len]), start + len)
}

impl Heads {
    pub fn new() -> Heads {
        Heads { known: Vec::new(), by_words: FxHashMap::default(), spellings: Vec::new(), slots: vec![0; MASK + 1] }
    }

    /// The head of a spelling that has been [kept](Heads::keep).
    #[inline]
    pub fn find(&self, src: &[u8], hash: u32, start: usize, end: usize) -> Option<u32> {
        let mut at = hash as usize & MASK;
        loop {
            let s = self.spellings.get((self.slots[at] as usize).checked_sub(1)?)?;
            if s.hash == hash && src[s.start as usize..(s.start + s.len) as usize] == src[start..end] {
                return Some(s.head);
            }
            at = (at + 1) & MASK;
        }
    }

    /// Keeps what the text from `start` to `end` says.
    pub fn keep(&mut self, hash: u32, start: usize, end: usize, head: u32) {
        if self.spellings.len() == KEPT {
            return;
        }
        self.spellings.push(Spelling { hash, start: start as u32, len: (end - start) as u32, head });
        let mut at = hash as usize & MASK;
        while self.slots[at] != 0 {
            at = (at + 1) & MASK;
        }
        self.slots[at] = self.spellings.len() as u16;
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

    /// All heads, each at its number.
    pub fn all(&mut self) -> Vec<Head> {
        std::mem::take(&mut self.known)
    }
}
