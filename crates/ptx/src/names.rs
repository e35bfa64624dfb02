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
    /// Of `%r12`: one more than the id of `%r`; 0 for a name that no range can hold.
    base: u32,
    /// Of `%r12`: 12.
    number: u32,
    /// Of `%r`: one more than the index of the innermost range that it begins.
    range: u32,
    /// Of `%r`: a name that a range of it could hold has had a meaning of its own.
    mixed: bool,
}

/// The registers `first..first + count`, named by a base and their number: `%r<10>`.
#[derive(Clone, Copy)]
struct Range {
    first: u32,
    count: u32,
    depth: u32,
    base: NameId,
    /// The range of the same base that this one hides, as [`Entry::range`], and how many there are.
    outer: u32,
    hidden: u32,
}

/// The names of a module: an interner whose entries hold their present meaning, and the log that closes scopes.
///
/// A range of registers is not spelled out: `%r<1000>` is one entry, and a name of it is found by its base and number.
pub(crate) struct Names {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    slots: Vec<u32>,
    log: Vec<(NameId, Meaning, u32)>,
    ranges: Vec<Range>,
    /// Lengths of the log and of the ranges where the open scopes began.
    marks: Vec<(usize, usize)>,
    /// Ranges looked up lately, valid until a range or a scope of ranges ends or begins.
    recent: [Recent; RECENT],
}

/// The innermost range of a base of at most 8 bytes, which no name hides.
#[derive(Clone, Copy, Default)]
struct Recent {
    /// The bytes of the base as a number; 0 for none.
    base: u64,
    first: u32,
    count: u32,
}

const RECENT: usize = 16;

/// Ranges of one base that may be open at once: looking a name up goes through them.
const NESTED: u32 = 8;

/// `%r12` -> the length of `%r`, and 12; none for what no range holds (`%r012`, `12`, `%r`).
fn split(name: &[u8]) -> Option<(usize, u32)> {
    let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let at = name.len() - digits;
    if digits == 0 || digits > 9 || at == 0 || digits > 1 && name[at] == b'0' {
        return None;
    }
    Some((at, name[at..].iter().fold(0, |n, b| n * 10 + u32::from(b - b'0'))))
}

/// A hash of a short text.
#[inline]
pub(crate) fn hash(name: &[u8]) -> u32 {
    let mut h: u64 = name.len() as u64;
    let mut mix = |v: u64| h = (h.rotate_left(5) ^ v).wrapping_mul(0x517c_c1b7_2722_0a95);
    let (chunks, rest) = name.as_chunks::<8>();
    for &c in chunks {
        mix(u64::from_le_bytes(c));
    }
    // The bytes behind them, or in a longer text its last eight.
    mix(match (name.last_chunk::<8>(), rest) {
        (Some(&last), _) => u64::from_le_bytes(last),
        (None, &[a, b, c, d, ..]) => {
            let last = name.last_chunk::<4>().map_or(0, |&l| u32::from_le_bytes(l));
            u64::from(u32::from_le_bytes([a, b, c, d])) | u64::from(last) << 32
        }
        (None, rest) => rest.iter().fold(0, |n, &b| n << 8 | u64::from(b)),
    });
    (h >> 32) as u32
}

impl Names {
    pub fn new() -> Self {
        Names {
            bytes: Vec::new(),
            entries: Vec::new(),
            slots: vec![0; 1 << 8],
            log: Vec::new(),
            ranges: Vec::new(),
            marks: Vec::new(),
            recent: [Recent::default(); RECENT],
        }
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
            base: 0,
            number: 0,
            range: 0,
            mixed: false,
        };
        self.bytes.extend_from_slice(name);
        self.entries.push(entry);
        self.slots[at] = id + 1;
        if self.entries.len() * 2 > self.slots.len() {
            self.grow();
        }
        if let Some((len, number)) = split(name) {
            // A base ends with no digit, so it has none itself.
            let base = self.intern(&name[..len]).0 + 1;
            let e = &mut self.entries[id as usize];
            (e.base, e.number) = (base, number);
        }
        NameId(id)
    }

    /// The register that a name means whose base (of at most 8 bytes, as a little-endian number) and number are these, where
    /// the innermost range of the base holds it and nothing hides it. None says nothing: [`Names::intern`] knows the rest.
    #[inline(always)]
    pub fn in_range(&mut self, base: u64, number: u32) -> Option<RegId> {
        let at = (base.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % RECENT;
        if self.recent[at].base != base {
            self.recent[at] = self.innermost(base);
        }
        let r = &self.recent[at];
        (number < r.count).then_some(RegId(r.first.wrapping_add(number)))
    }

    #[cold]
    fn innermost(&mut self, key: u64) -> Recent {
        let none = Recent { base: key, first: 0, count: 0 };
        let bytes = key.to_le_bytes();
        let name = &bytes[..8 - (key.leading_zeros() / 8) as usize];
        if !name[1..].iter().all(|&b| crate::lex::is(b, crate::lex::WORD)) {
            return none;
        }
        let base = self.intern(name);
        let e = self.entries[base.0 as usize];
        match (e.range as usize).checked_sub(1).filter(|_| !e.mixed) {
            Some(i) => Recent { base: key, first: self.ranges[i].first, count: self.ranges[i].count },
            None => none,
        }
    }

    fn forget(&mut self) {
        self.recent = [Recent::default(); RECENT];
    }

    /// The innermost range from `range` outwards that holds a number: the register, and the depth of its scope.
    fn covering(&self, mut range: u32, number: u32) -> Option<(RegId, u32)> {
        while range != 0 {
            let r = &self.ranges[range as usize - 1];
            if number < r.count {
                return Some((RegId(r.first + number), r.depth));
            }
            range = r.outer;
        }
        None
    }

    /// The register and scope of a name that stands in a range.
    fn ranged(&self, e: &Entry) -> Option<(RegId, u32)> {
        let base = self.entries.get((e.base as usize).checked_sub(1)?)?;
        self.covering(base.range, e.number)
    }

    /// Gives the names `base0` to `base<count - 1>` the registers from `first` on, until the innermost scope closes.
    /// Gives the numbers of those that have a meaning in this scope already, which is an error.
    ///
    /// None where the names have to be bound one by one: the base ends with a digit, or has too many ranges.
    pub fn bind_range(&mut self, base: NameId, first: RegId, count: u32) -> Option<Vec<u32>> {
        let depth = self.marks.len() as u32;
        let e = self.entries[base.0 as usize];
        let hidden = (e.range as usize).checked_sub(1).map_or(0, |i| self.ranges[i].hidden + 1);
        if hidden >= NESTED || self.bytes[(e.start + e.len - 1) as usize].is_ascii_digit() {
            return None;
        }
        let mut taken = Vec::new();
        let mut below = e.range;
        while let Some(r) = (below as usize).checked_sub(1).map(|i| self.ranges[i]).filter(|r| r.depth == depth) {
            taken.extend(0..r.count.min(count));
            below = r.outer;
        }
        if e.mixed {
            let text = self.text(base);
            for i in 0..count {
                let id = self.intern(format!("{text}{i}").as_bytes());
                let own = &self.entries[id.0 as usize];
                if own.meaning != Meaning::Nothing && own.depth == depth {
                    taken.push(i);
                }
            }
        }
        taken.sort_unstable();
        taken.dedup();
        self.forget();
        self.ranges.push(Range { first: first.0, count, depth, base, outer: e.range, hidden });
        self.entries[base.0 as usize].range = self.ranges.len() as u32;
        Some(taken)
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
        crate::parse::text(&self.bytes[e.start as usize..(e.start + e.len) as usize]).into_owned()
    }

    /// What the name means now.
    pub fn meaning(&self, id: NameId) -> Meaning {
        let e = &self.entries[id.0 as usize];
        match self.ranged(e) {
            Some((reg, depth)) if e.meaning == Meaning::Nothing || depth > e.depth => Meaning::Reg(reg),
            _ => e.meaning,
        }
    }

    /// True where the name is defined in the innermost scope.
    pub fn is_here(&self, id: NameId) -> bool {
        let e = &self.entries[id.0 as usize];
        let depth = self.marks.len() as u32;
        e.meaning != Meaning::Nothing && e.depth == depth || self.ranged(e).is_some_and(|(_, d)| d == depth)
    }

    /// A name that a range could hold gets a meaning of its own.
    fn mix(&mut self, id: NameId) {
        let base = self.entries[id.0 as usize].base;
        if base != 0 && !self.entries[base as usize - 1].mixed {
            self.entries[base as usize - 1].mixed = true;
            self.forget();
        }
    }

    /// Gives the name a meaning until the innermost scope closes.
    pub fn bind(&mut self, id: NameId, meaning: Meaning) {
        self.mix(id);
        let depth = self.marks.len() as u32;
        let e = &mut self.entries[id.0 as usize];
        self.log.push((id, e.meaning, e.depth));
        e.meaning = meaning;
        e.depth = depth;
    }

    /// Gives the name a meaning in the outermost scope, unless an inner one has another for it.
    pub fn bind_outermost(&mut self, id: NameId, meaning: Meaning) {
        // The log entries of open scopes come after it: put it below all of them.
        self.mix(id);
        let e = &mut self.entries[id.0 as usize];
        let first = self.marks.first().map_or(self.log.len(), |m| m.0);
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

    /// How many names there are: [`Names::shrink`] goes back to them.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Forgets the names that came after the first `count`; none of them may have a meaning.
    pub fn shrink(&mut self, count: usize) {
        let mask = self.slots.len() - 1;
        while self.entries.len() > count {
            // The last one in is the last of its chain: no other is found through its slot.
            let Some(e) = self.entries.pop() else { return };
            let id = self.entries.len() as u32 + 1;
            let mut at = e.hash as usize & mask;
            while self.slots[at] != id {
                at = (at + 1) & mask;
            }
            self.slots[at] = 0;
            self.bytes.truncate(e.start as usize);
        }
        self.forget();
    }

    /// Opens a scope.
    pub fn open(&mut self) {
        self.marks.push((self.log.len(), self.ranges.len()));
    }

    /// Closes the innermost scope: names mean again what they meant before it.
    pub fn close(&mut self) {
        let (log, ranges) = self.marks.pop().unwrap_or((0, 0));
        if self.ranges.len() > ranges {
            self.forget();
        }
        while self.ranges.len() > ranges {
            if let Some(r) = self.ranges.pop() {
                self.entries[r.base.0 as usize].range = r.outer;
            }
        }
        while self.log.len() > log {
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

    #[test]
    fn ranges_hold_what_they_would_spell_out() {
        const R: u64 = 0x7225;
        let mut n = Names::new();
        let base = n.intern(b"%r");
        n.open();
        assert_eq!(n.in_range(R, 0), None);
        assert_eq!(n.bind_range(base, RegId(10), 5), Some(vec![]));
        let three = n.intern(b"%r3");
        assert_eq!((n.meaning(three), n.is_here(three)), (Meaning::Reg(RegId(13)), true));
        assert_eq!((n.in_range(R, 4), n.in_range(R, 5)), (Some(RegId(14)), None));
        for no in ["%r5", "%r03", "%r", "%r3a", "%r4294967299"] {
            let id = n.intern(no.as_bytes());
            assert_eq!(n.meaning(id), Meaning::Nothing, "{no}");
        }
        // An inner range hides the names that it holds, and no others.
        n.open();
        assert!(!n.is_here(three));
        assert_eq!(n.bind_range(base, RegId(20), 2), Some(vec![]));
        assert_eq!((n.in_range(R, 1), n.in_range(R, 3)), (Some(RegId(21)), None));
        assert_eq!(n.bind_range(base, RegId(30), 4), Some(vec![0, 1]));
        // A name of its own hides that of a range further out, and is hidden by one further in.
        n.open();
        n.bind(three, Meaning::Label(LabelId(7)));
        assert_eq!((n.in_range(R, 3), n.meaning(three)), (None, Meaning::Label(LabelId(7))));
        assert_eq!(n.bind_range(base, RegId(40), 9), Some(vec![3]));
        n.open();
        n.bind_range(base, RegId(50), 4);
        assert_eq!(n.meaning(three), Meaning::Reg(RegId(53)));
        n.close();
        assert_eq!(n.meaning(three), Meaning::Label(LabelId(7)));
        n.close();
        n.close();
        assert_eq!(n.meaning(three), Meaning::Reg(RegId(13)));
        n.close();
        assert_eq!(n.meaning(three), Meaning::Nothing);
    }

    #[test]
    fn names_that_are_forgotten() {
        let mut n = Names::new();
        let kept: Vec<_> = (0..300).map(|i| n.intern(format!("kept_{i}x").as_bytes())).collect();
        for round in 0..3 {
            let count = n.count();
            // More than the table has room for: it grows between.
            for i in 0..2000 {
                n.intern(format!("gone_{round}_{i}").as_bytes());
            }
            n.shrink(count);
            assert_eq!(n.count(), count);
            for (i, id) in kept.iter().enumerate() {
                assert_eq!(n.intern(format!("kept_{i}x").as_bytes()), *id);
            }
            let again = n.intern(b"gone_0_7");
            assert_eq!((again.0 as usize, n.text(again)), (count, "gone_0_7".to_string()));
            n.shrink(count);
        }
    }

    #[test]
    fn ranges_that_are_spelled_out() {
        let mut n = Names::new();
        let (base, digit) = (n.intern(b"%r"), n.intern(b"%r1"));
        assert_eq!(n.bind_range(digit, RegId(0), 5), None);
        for i in 0..NESTED {
            n.open();
            assert!(n.bind_range(base, RegId(i), 1).is_some());
        }
        n.open();
        assert_eq!(n.bind_range(base, RegId(100), 1), None);
    }
}
