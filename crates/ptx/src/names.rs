//! Names -> dense ids, and what each id means in the scope at hand.

use crate::module::{FuncId, LabelId, RegId, TableId, VarId};

/// An interned name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameId(u32);

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Nothing,
    Reg(RegId),
    Label(LabelId),
    Var(VarId),
    Func(FuncId),
    Table(TableId),
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    start: u32,
    len: u32,
    meaning: Meaning,
    depth: u32,
}

/// The names of a module: an interner whose entries hold their present meaning, and the log that closes scopes.
pub(crate) struct Names {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    slots: Vec<u32>,
    log: Vec<(NameId, Meaning, u32)>,
    marks: Vec<usize>,
}

fn hash(name: &[u8]) -> u32 {
    let mut h: u64 = name.len() as u64;
    let mut chunks = name.chunks_exact(8);
    let mut mix = |v: u64| h = (h.rotate_left(5) ^ v).wrapping_mul(0x517c_c1b7_2722_0a95);
    for c in &mut chunks {
        mix(u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]));
    }
    let mut last = 0u64;
    for &b in chunks.remainder() {
        last = last << 8 | u64::from(b);
    }
    mix(last);
    (h >> 32) as u32
}

impl Names {
    pub fn new() -> Self {
        Names { bytes: Vec::new(), entries: Vec::new(), slots: vec![0; 1 << 10], log: Vec::new(), marks: Vec::new() }
    }

    /// The id of a name, new or known.
    pub fn intern(&mut self, name: &[u8]) -> NameId {
        let h = hash(name);
        let mask = self.slots.len() - 1;
        let mut at = h as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let e = &self.entries[slot as usize - 1];
            if e.hash == h && &self.bytes[e.start as usize..(e.start + e.len) as usize] == name {
                return NameId(slot - 1);
            }
            at = (at + 1) & mask;
        }
        let id = self.entries.len() as u32;
        let entry = Entry {
            hash: h,
            start: self.bytes.len() as u32,
            len: name.len() as u32,
            meaning: Meaning::Nothing,
            depth: 0,
        };
        self.bytes.extend_from_slice(name);
        self.entries.push(entry);
        self.slots[at] = id + 1;
        if self.entries.len() * 2 > self.slots.len() {
            self.grow();
        }
        NameId(id)
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        let mut slots = vec![0; mask + 1];
        for (i, e) in self.entries.iter().enumerate() {
            let mut at = e.hash as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = i as u32 + 1;
        }
        self.slots = slots;
    }

    /// The text of a name.
    pub fn text(&self, id: NameId) -> String {
        let e = &self.entries[id.0 as usize];
        String::from_utf8_lossy(&self.bytes[e.start as usize..(e.start + e.len) as usize]).into_owned()
    }

    /// What the name means now.
    pub fn meaning(&self, id: NameId) -> Meaning {
        self.entries[id.0 as usize].meaning
    }

    /// True where the name is defined in the innermost scope.
    pub fn is_here(&self, id: NameId) -> bool {
        let e = &self.entries[id.0 as usize];
        e.meaning != Meaning::Nothing && e.depth as usize == self.marks.len()
    }

    /// Gives the name a meaning until the innermost scope closes.
    pub fn bind(&mut self, id: NameId, meaning: Meaning) {
        let depth = self.marks.len() as u32;
        let e = &mut self.entries[id.0 as usize];
        self.log.push((id, e.meaning, e.depth));
        e.meaning = meaning;
        e.depth = depth;
    }

    /// Gives the name a meaning in the outermost scope, unless an inner one has another for it.
    pub fn bind_outermost(&mut self, id: NameId, meaning: Meaning) {
        // The log entries of open scopes come after it: put it below all of them.
        let e = &mut self.entries[id.0 as usize];
        let first = self.marks.first().copied().unwrap_or(self.log.len());
        if let Some(i) = (first..self.log.len()).find(|&i| self.log[i].0 == id) {
            self.log[i].1 = meaning;
            self.log[i].2 = 0;
        } else {
            e.meaning = meaning;
            e.depth = 0;
        }
    }

    /// Closes every open scope.
    pub fn close_all(&mut self) {
        while !self.marks.is_empty() {
            self.close();
        }
    }

    /// Opens a scope.
    pub fn open(&mut self) {
        self.marks.push(self.log.len());
    }

    /// Closes the innermost scope: names mean again what they meant before it.
    pub fn close(&mut self) {
        let mark = self.marks.pop().unwrap_or(0);
        while self.log.len() > mark {
            if let Some((id, meaning, depth)) = self.log.pop() {
                let e = &mut self.entries[id.0 as usize];
                e.meaning = meaning;
                e.depth = depth;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_shadow_and_give_back() {
        let mut n = Names::new();
        let a = n.intern(b"a");
        n.bind(a, Meaning::Var(VarId(1)));
        n.open();
        assert!(!n.is_here(a));
        n.bind(a, Meaning::Reg(RegId(2)));
        assert!(n.is_here(a));
        assert_eq!(n.meaning(a), Meaning::Reg(RegId(2)));
        n.close();
        assert_eq!(n.meaning(a), Meaning::Var(VarId(1)));
        for i in 0..5000 {
            let name = format!("%r{i}");
            let id = n.intern(name.as_bytes());
            assert_eq!(n.intern(name.as_bytes()), id);
            assert_eq!(n.text(id), name);
        }
        assert_eq!(n.intern(b"a"), a);
    }
}
