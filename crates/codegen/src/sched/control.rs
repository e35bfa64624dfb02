//! The control fields: scoreboards, waits, stall counts, bit 109, reuse flags.
//!
//! Needs the final order of a function's instructions, with physical registers. Two walks over the blocks as they lie:
//!
//! 1. Scoreboards. An instruction whose results come at no fixed time gets a write scoreboard; its first user waits for
//!    it, wherever that is: scoreboards stay set over forward edges. One whose sources may be overwritten while it still
//!    reads them gets a read scoreboard, but only when an overwriting instruction is found. Before a branch backward
//!    everything that the loop could meet again is waited for, but for registers that copies into shared memory read: where there
//!    are such, a second walk lets each loop begin with those of its last iteration under way.
//! 2. Stall counts: the exact distances of the latency tables inside a block, the longest of any user over its end.
//!
//! Calls, returns and indexed branches wait for everything. `sass::lint` must have nothing to say about the result.

use super::branches::LinearBlock;
use super::units::Units;
use super::writes;
use crate::mir::Op;
use sass::control::Control;
use sass::forms as F;
use sass::inst::Inst as Sass;
use sass::latency::{self, Class, Latency};

const NONE: u32 = u32::MAX;
/// Reads under way that no scoreboard tells of yet, at most.
const LAZY: usize = 64;

#[derive(Clone)]
struct State {
    /// Scoreboards that tell when writes of each unit are done.
    write: Vec<u8>,
    /// The same for reads.
    read: Vec<u8>,
    /// Reads by instructions that have no read scoreboard yet: unit, instruction.
    lazy: Vec<(u16, u32)>,
    /// When each scoreboard was set last (0: idle), and by which class.
    set: [(u32, Option<Class>); 6],
}

impl State {
    fn new(units: &Units) -> State {
        let none = || vec![0; units.count()];
        State { write: none(), read: none(), lazy: Vec::new(), set: [(0, None); 6] }
    }

    fn join(&mut self, o: &State) {
        self.write.iter_mut().zip(&o.write).for_each(|(a, b)| *a |= b);
        self.read.iter_mut().zip(&o.read).for_each(|(a, b)| *a |= b);
        for l in &o.lazy {
            if !self.lazy.contains(l) {
                self.lazy.push(*l);
            }
        }
        for (a, b) in self.set.iter_mut().zip(&o.set) {
            if b.0 > a.0 {
                *a = *b;
            }
        }
    }

    fn busy(&self) -> u8 {
        (0..6).filter(|&s| self.set[s].0 != 0).fold(0, |m, s| m | 1 << s)
    }
}

/// Fills in the control fields of a function.
pub fn run(blocks: &mut [LinearBlock], sm: u16) {
    let mut code: Vec<Sass> = Vec::with_capacity(blocks.iter().map(|b| b.insts.len()).sum());
    let mut start = vec![0usize];
    for b in blocks.iter() {
        code.extend(b.insts.iter().filter_map(|i| match &i.op {
            Op::Sass(s) => Some(s.clone()),
            _ => None,
        }));
        start.push(code.len());
    }
    code.iter_mut().for_each(|s| s.ctrl = Control::default());
    let units = Units::new(code.iter());
    Boards::new(sm, &code, blocks, &start, &units).run(&mut code);
    let long = stalls(&mut code, blocks, &start, &units, sm);
    for b in 0..blocks.len() {
        reuse(&mut code[start[b]..start[b + 1]]);
    }
    let mut done = code.into_iter();
    for inst in blocks.iter_mut().flat_map(|b| &mut b.insts) {
        if let (Op::Sass(s), Some(new)) = (&mut inst.op, done.next()) {
            *s = new;
        }
    }
    pad(blocks, &start, &long);
}

/// Longest stall count of one instruction.
const LONGEST: u32 = 15;

/// Puts `NOP`s before the instructions that come more cycles after the one before than its stall count can say:
/// number of the instruction, cycles.
fn pad(blocks: &mut [LinearBlock], start: &[usize], long: &[(usize, u32)]) {
    for &(at, cycles) in long.iter().rev() {
        let b = start.partition_point(|&s| s <= at).saturating_sub(1).min(blocks.len() - 1);
        let at = at - start[b];
        let loc = blocks[b].insts.get(at).map_or(u32::MAX, |i| i.loc);
        let mut left = cycles;
        while left > 0 {
            let stall = left.min(LONGEST);
            left -= stall;
            let mut nop = Sass::new(F::NOP);
            nop.ctrl.stall = stall as u8;
            nop.ctrl.bit109 = stall < 12;
            blocks[b].insts.insert(at, crate::mir::Inst::new(Op::Sass(nop), loc));
        }
    }
}

/// Leaves the function, or goes where anything may happen: everything must be done before.
fn drains(s: &Sass) -> bool {
    matches!(s.form().mnemonic, "CALL" | "RET" | "BRX" | "BRXU")
}

/// Goes to an engine that reads its uniform registers later.
fn engine(s: &Sass) -> bool {
    let name = s.form().mnemonic;
    s.form != F::UTMACMDFLUSH && (name.starts_with("UTMA") || name.starts_with("UBLK") || s.form == F::SYNCS_EXCH)
}

/// Copies into shared memory read their registers late, when the copy is done.
fn late(s: &Sass) -> bool {
    s.form().mnemonic == "LDGSTS"
}

/// Reads under way where a loop begins again: by unit the scoreboards that tell of them, and the class that set each.
#[derive(Clone)]
struct Again {
    read: Vec<u8>,
    class: [Option<Class>; 6],
}

/// Where a branch backward may come to, as numbers of instructions.
#[derive(Clone, Copy)]
struct Back {
    /// The block, if there is only one.
    to: Option<usize>,
    /// The first one that may run before the reads of this round are done.
    from: usize,
    /// The first one of the loops around this one that end behind it.
    around: Option<usize>,
}

struct Boards<'a> {
    sm: u16,
    blocks: &'a [LinearBlock],
    start: &'a [usize],
    units: &'a Units,
    /// Where each unit is written last, as the code lies, plus one.
    written: Vec<u32>,
    /// The last call or the like, behind which anything may be written, plus one.
    left: u32,
    /// Scoreboards that may be used.
    first: u8,
    /// When each scoreboard was waited for last, in this block.
    waited: [u32; 6],
    clock: u32,
    block_start: u32,
    /// Scoreboards of reads at the ends of inner loops, whose registers are written in loops around those.
    carried: u8,
    /// By block: what is under way when a branch backward comes to it. Found by a first walk, and used by a second one.
    again: Vec<Option<Again>>,
    second: bool,
    read_sb: Vec<u8>,
    write_sb: Vec<u8>,
}

impl<'a> Boards<'a> {
    fn new(sm: u16, code: &[Sass], blocks: &'a [LinearBlock], start: &'a [usize], units: &'a Units) -> Boards<'a> {
        let mut written = vec![0u32; units.count()];
        for (i, s) in code.iter().enumerate() {
            units.writes(s, |u, _| written[u] = i as u32 + 1);
        }
        let left = code.iter().rposition(drains).map_or(0, |i| i as u32 + 1);
        // Groups of asynchronous copies are counted by SB0.
        let counts = [F::LDGDEPBAR, F::UTMACMDFLUSH, F::DEPBAR_LE];
        let first = code.iter().any(|s| counts.contains(&s.form)) as u8;
        let n = code.len();
        Boards {
            sm,
            blocks,
            start,
            units,
            written,
            left,
            first,
            waited: [0; 6],
            clock: 0,
            block_start: 0,
            carried: 0,
            again: vec![None; blocks.len()],
            second: false,
            read_sb: vec![7; n],
            write_sb: vec![7; n],
        }
    }

    fn run(mut self, code: &mut [Sass]) {
        self.walk(code);
        if self.again.iter().any(Option::is_some) {
            let again = std::mem::take(&mut self.again);
            self = Boards { again, second: true, ..Boards::new(self.sm, code, self.blocks, self.start, self.units) };
            self.walk(code);
        }
        for (i, s) in code.iter_mut().enumerate() {
            s.ctrl.read_sb = (self.read_sb[i] < 6).then_some(self.read_sb[i]);
            s.ctrl.write_sb = (self.write_sb[i] < 6).then_some(self.write_sb[i]);
        }
    }

    fn walk(&mut self, code: &mut [Sass]) {
        let n = self.blocks.len();
        let mut entry: Vec<Option<State>> = vec![None; n];
        let mut preds_left = vec![0u32; n];
        for (p, b) in self.blocks.iter().enumerate() {
            b.succs.iter().filter(|&&s| s as usize > p).for_each(|&s| preds_left[s as usize] += 1);
        }
        let backward = |(b, block): (usize, &'a LinearBlock)| {
            block.succs.iter().map(move |&s| (b, s as usize)).filter(|(b, s)| s <= b)
        };
        let edges: Vec<(usize, usize)> = self.blocks.iter().enumerate().flat_map(backward).collect();
        for b in 0..n {
            let mut st = entry[b].take().unwrap_or_else(|| State::new(self.units));
            self.waited = [0; 6];
            self.block_start = self.start[b] as u32;
            if let Some(again) = self.again[b].as_ref().filter(|_| self.second) {
                st.read.iter_mut().zip(&again.read).for_each(|(r, a)| *r |= a);
                for (set, class) in st.set.iter_mut().zip(again.class).filter(|x| x.1.is_some()) {
                    *set = (set.0.max(1), class);
                }
            }
            let back = self.back(b, &edges);
            let range = self.start[b]..self.start[b + 1];
            for i in range.clone() {
                let last = i + 1 == range.end;
                self.inst(i, code, &mut st, back.filter(|_| last));
            }
            for &s in &self.blocks[b].succs {
                if s as usize > b {
                    match &mut entry[s as usize] {
                        Some(e) => e.join(&st),
                        e => *e = Some(st.clone()),
                    }
                }
            }
        }
    }

    /// Where the end of block `b` may branch backward to; `edges` are all such branches, from block to block.
    fn back(&self, b: usize, edges: &[(usize, usize)]) -> Option<Back> {
        let own = edges.iter().filter(|e| e.0 == b).map(|e| e.1).min()?;
        // A branch from within this loop to the start of one around it was passed before.
        let inside = edges.iter().filter(|e| (own..=b).contains(&e.0)).map(|e| e.1).min().unwrap_or(own);
        let around = edges.iter().filter(|e| e.0 > b && e.1 <= b).map(|e| self.start[e.1]).min();
        let mut to = edges.iter().filter(|e| e.0 == b).map(|e| e.1);
        let to = to.next().filter(|_| to.next().is_none());
        Some(Back { to, from: self.start[inside.min(own)], around })
    }

    /// A scoreboard for an instruction of this class: an idle one, else that of the last of its kind, else the one set
    /// longest ago.
    fn choose(&self, st: &State, class: Class, late: bool) -> u8 {
        let all = self.first..6;
        let idle = all.clone().find(|&s| st.set[s as usize].0 == 0);
        let kin = || all.clone().filter(|&s| st.set[s as usize].1 == Some(class)).max_by_key(|&s| st.set[s as usize].0);
        let oldest = || all.clone().min_by_key(|&s| st.set[s as usize].0);
        // Copies begin together, and are done together.
        let first = if late { kin().or(idle) } else { idle.or_else(kin) };
        first.or_else(oldest).unwrap_or(5)
    }

    /// Gives the reads of instruction `i` a scoreboard. Returns what must be waited for: nothing, if it was waited for
    /// in the meantime.
    fn attach(&mut self, i: u32, code: &[Sass], st: &mut State) -> u8 {
        let (class, late) = (code[i as usize].form().class, late(&code[i as usize]));
        let mut mask = 0;
        if self.read_sb[i as usize] == 7 {
            let since = |s: u8| i >= self.block_start && self.waited[s as usize] > i + 1;
            let s = match (self.first..6).find(|&s| since(s)) {
                Some(s) => {
                    self.read_sb[i as usize] = s;
                    st.lazy.retain(|l| l.1 != i);
                    return 0;
                }
                None => self.choose(st, class, late),
            };
            self.read_sb[i as usize] = s;
        }
        let s = self.read_sb[i as usize];
        mask |= 1 << s;
        self.clock += 1;
        st.set[s as usize] = (self.clock, Some(class));
        for l in st.lazy.extract_if(.., |l| l.1 == i) {
            st.read[l.0 as usize] |= 1 << s;
        }
        mask
    }

    fn wait(&mut self, i: usize, mask: u8, st: &mut State) {
        st.write.iter_mut().for_each(|m| *m &= !mask);
        st.read.iter_mut().for_each(|m| *m &= !mask);
        let (rs, ws) = (&self.read_sb, &self.write_sb);
        let on = |s: u8| s < 6 && mask >> s & 1 != 0;
        st.lazy.retain(|l| !on(rs[l.1 as usize]) && !on(ws[l.1 as usize]));
        for s in (0..6).filter(|s| mask >> s & 1 != 0) {
            st.set[s] = (0, None);
            self.waited[s] = i as u32 + 1;
        }
    }

    /// Scoreboards that need not be waited for before a branch backward to a block, as what begins there knows of all reads that they tell of;
    /// on the first walk none, but what it will know is remembered.
    fn passes(&mut self, to: usize, needed: u8, code: &[Sass], st: &State) -> u8 {
        if !self.second {
            let mut boards = 0u8;
            for (i, s) in code.iter().enumerate().filter(|(i, s)| self.read_sb[*i] < 6 && late(s)) {
                let board = self.read_sb[i];
                if st.set[board as usize].1 == Some(s.form().class) {
                    boards |= 1 << board;
                }
            }
            if st.read.iter().any(|r| r & boards != 0) {
                let read = st.read.iter().map(|r| r & boards).collect();
                let class = [0, 1, 2, 3, 4, 5].map(|s| st.set[s].1.filter(|_| boards >> s & 1 != 0));
                let again = Again { read, class };
                match &mut self.again[to] {
                    None => self.again[to] = Some(again),
                    Some(a) => {
                        a.read.iter_mut().zip(again.read).for_each(|(a, r)| *a |= r);
                        a.class.iter_mut().zip(again.class).for_each(|(a, c)| *a = a.or(c));
                    }
                }
            }
            return 0;
        }
        let Some(again) = &self.again[to] else { return 0 };
        let known = st.read.iter().zip(&again.read).fold(0, |m, (r, a)| m | r & a);
        let unknown = st.read.iter().zip(&again.read).fold(0, |m, (r, a)| m | r & !a);
        let written = st.write.iter().fold(0, |m, w| m | w);
        known & !unknown & !written & !needed
    }

    fn inst(&mut self, i: usize, code: &mut [Sass], st: &mut State, back: Option<Back>) {
        let units = self.units;
        let s = &code[i];
        let class = s.form().class;
        let mut mask = 0u8;
        // The vendor's compiler lets nothing begin before registers have been given up.
        if i > 0 && code[i - 1].form == F::USETMAXREG_DEALLOC && self.write_sb[i - 1] < 6 {
            mask |= 1 << self.write_sb[i - 1];
        }
        units.reads(s, |u, _| mask |= st.write[u]);
        let mut overwritten: Vec<u32> = Vec::new();
        units.writes(s, |u, _| {
            mask |= st.write[u] | st.read[u];
            overwritten.extend(st.lazy.iter().filter(|l| l.0 as usize == u).map(|l| l.1));
        });
        // What the instruction itself needs.
        let needed = mask;
        let everything = drains(s) || back.is_some();
        if everything {
            mask |= st.busy() | self.carried;
            // Reads of registers that are written before the loop only cannot be overwritten.
            let from = back.filter(|_| !drains(s)).map_or(0, |b| b.from) as u32;
            let may = |u: u16| self.written[u as usize].max(self.left) > from;
            overwritten.extend(st.lazy.iter().filter(|l| may(l.0)).map(|l| l.1));
        }
        overwritten.sort_unstable();
        overwritten.dedup();
        for o in overwritten {
            mask |= self.attach(o, code, st);
        }
        if let Some(to) = back.filter(|_| !drains(s)).and_then(|b| b.to) {
            mask &= !self.passes(to, needed, code, st);
        }
        if mask != 0 {
            self.wait(i, mask, st);
        }
        if let Some(b) = back {
            // What a loop around this one writes need only be waited for at its end.
            if b.around.is_none() {
                self.carried = 0;
            }
            if let Some(around) = b.around {
                let may = |u: u16| self.written[u as usize].max(self.left) > around as u32;
                let mut reads: Vec<u32> = st.lazy.iter().filter(|l| may(l.0)).map(|l| l.1).collect();
                reads.sort_unstable();
                reads.dedup();
                for o in reads {
                    self.carried |= self.attach(o, code, st);
                }
            }
        }
        let s = &mut code[i];
        s.ctrl.wait = mask;
        units.writes(s, |u, _| {
            st.write[u] = 0;
            st.read[u] = 0;
        });
        if s.form == F::LDGDEPBAR {
            self.write_sb[i] = 0;
        }
        if s.form == F::UTMACMDFLUSH {
            self.read_sb[i] = 0;
        }
        if latency::needs_write_sb(s, self.sm) || s.form == F::USETMAXREG_DEALLOC {
            let sb = self.choose(st, class, false);
            self.write_sb[i] = sb;
            self.clock += 1;
            st.set[sb as usize] = (self.clock, Some(class));
            units.writes(s, |u, _| st.write[u] |= 1 << sb);
        }
        let engine = engine(s);
        if engine || latency::may_need_read_sb(s, self.sm) {
            let end = units.general(engine);
            units.reads(s, |u, slot| {
                if slot.is_some() && u < end && !st.lazy.contains(&(u as u16, i as u32)) {
                    st.lazy.push((u as u16, i as u32));
                }
            });
            while st.lazy.len() > LAZY {
                let oldest = st.lazy[0].1;
                self.attach(oldest, code, st);
            }
        }
    }
}

/// What is under way in the walk that counts cycles.
struct Clock<'a> {
    sm: u16,
    units: &'a Units,
    /// Last writer in this block: instruction, slot.
    writer: Vec<(u32, u8)>,
    /// The one before it, where the last one writes under a guard: other lanes still read what this one gives.
    under: Vec<(u32, u8)>,
    /// Last readers in this block: instruction, slot.
    reader: Vec<(u32, Option<u8>)>,
    /// When the units written in earlier blocks, or before `under`, are done, counted from the start of the block.
    carried: Vec<u32>,
}

impl<'a> Clock<'a> {
    fn new(units: &'a Units, sm: u16) -> Clock<'a> {
        let n = units.count();
        let none = || vec![(NONE, 0); n];
        Clock { sm, units, writer: none(), under: none(), reader: vec![(NONE, None); n], carried: vec![0; n] }
    }

    /// Forgets what this block has done.
    fn clear(&mut self) {
        self.writer.fill((NONE, 0));
        self.under.fill((NONE, 0));
        self.reader.fill((NONE, None));
        self.carried.fill(0);
    }

    /// The writers in this block that a later instruction may meet, as instruction and slot.
    fn writers(&self, u: usize) -> impl Iterator<Item = (u32, u8)> + use<> {
        [self.writer[u], self.under[u]].into_iter().filter(|w| w.0 != NONE)
    }

    /// The longest that any reader or later writer of unit `u` may have to wait for `s`, which writes it by slot `def`.
    fn worst(&self, s: &Sass, def: u8, u: usize) -> u32 {
        let word = s.operands[def as usize].as_reg().map_or(0, |r| u.saturating_sub(self.units.of(r)) as u32);
        latency::ready(s, def, word, self.sm).map_or(0, |r| r.1 as u32)
    }

    /// When everything that was written to a unit is done, for any reader or later writer.
    fn done(&self, u: usize, code: &[Sass], issue: &[u32]) -> u32 {
        let own = self.writers(u).map(|(w, def)| issue[w as usize] + self.worst(&code[w as usize], def, u));
        own.fold(self.carried[u], u32::max)
    }

    /// Instruction `i` writes the unit by its slot.
    fn write(&mut self, u: usize, (i, slot): (u32, u8), code: &[Sass], issue: &[u32]) {
        if code[i as usize].guard.as_reg().is_none_or(|g| g.is_const()) {
            (self.under[u], self.carried[u]) = ((NONE, 0), 0);
        } else {
            let (w, def) = self.under[u];
            if w != NONE {
                let done = issue[w as usize] + self.worst(&code[w as usize], def, u);
                self.carried[u] = self.carried[u].max(done);
            }
            self.under[u] = self.writer[u];
        }
        self.writer[u] = (i, slot);
    }
}

/// Sets the stall counts. Gives the instructions before which they do not suffice, with the cycles that are missing.
fn stalls(code: &mut [Sass], blocks: &[LinearBlock], start: &[usize], units: &Units, sm: u16) -> Vec<(usize, u32)> {
    let n = blocks.len();
    let mut long = Vec::new();
    let mut entry: Vec<Option<(Vec<u8>, [u8; 6])>> = vec![None; n];
    let mut issue = vec![0u32; code.len()];
    let mut c = Clock::new(units, sm);
    for b in 0..n {
        c.clear();
        let mut sb_set: [u32; 6] = [0; 6];
        if let Some((carried, sb)) = entry[b].take() {
            c.carried.iter_mut().zip(carried).for_each(|(to, from)| *to = from.into());
            sb_set = sb.map(|x| x as u32);
        }
        let range = start[b]..start[b + 1];
        for i in range.clone() {
            let first = i == range.start;
            // The earliest cycle, from the start of the block, at which `i` may issue.
            let mut at = 0u32;
            let need = |from: u32, l: Latency| match l {
                Latency::Fixed(n) => from + n as u32,
                Latency::Scoreboard => 0,
            };
            let s = &code[i];
            units.reads(s, |u, slot| {
                at = at.max(c.carried[u]);
                for (w, def) in c.writers(u) {
                    at = at.max(need(issue[w as usize], latency::raw(&code[w as usize], def, s, slot, sm)));
                }
            });
            units.writes(s, |u, slot| {
                at = at.max(c.carried[u]);
                let slot = slot.unwrap_or(0);
                for (w, def) in c.writers(u) {
                    at = at.max(need(issue[w as usize], latency::waw(&code[w as usize], def, s, slot, sm)));
                }
                let (r, used) = c.reader[u];
                if r != NONE {
                    at = at.max(need(issue[r as usize], latency::war(&code[r as usize], used, s, slot, sm)));
                }
            });
            for sb in (0..6).filter(|sb| s.ctrl.wait >> sb & 1 != 0) {
                at = at.max(sb_set[sb]);
            }
            if first {
                issue[i] = 0;
                // What does not fit the start of the block was seen to at the end of the blocks before.
            } else {
                let before = issue[i - 1];
                let prev = &code[i - 1];
                let mut stall = at.saturating_sub(before).max(1);
                stall = stall.max(latency::min_stall(prev, sm) as u32);
                stall = stall.max(latency::issue_interval(prev, s, sm) as u32);
                if drains(prev) {
                    stall = stall.max(latest(&code[..i], &c, &issue, before));
                }
                set_stall(code, i - 1, stall, Some(i), sm);
                if stall > LONGEST {
                    long.push((i, stall - LONGEST));
                }
                issue[i] = before + stall;
                if drains(&code[i - 1]) {
                    c.clear();
                }
            }
            let s = &code[i];
            let t = issue[i];
            units.reads(s, |u, slot| c.reader[u] = (i as u32, slot));
            units.writes(s, |u, slot| c.write(u, (i as u32, slot.unwrap_or(0)), code, &issue));
            for sb in [s.ctrl.read_sb, s.ctrl.write_sb].into_iter().flatten() {
                sb_set[sb as usize] = t + latency::SCOREBOARD_SET as u32;
            }
        }
        // The end of the block.
        let Some(last) = range.clone().last() else {
            let state = (c.carried.iter().map(|&x| x as u8).collect(), sb_set.map(|x| x.min(15) as u8));
            pass_on(&mut entry, blocks, b, &state, false);
            continue;
        };
        let before = issue[last];
        let s = &code[last];
        let mut stall = (latency::min_stall(s, sm) as u32).max(1);
        let back = blocks[b].succs.iter().any(|&x| x as usize <= b);
        if !s.form().effects.flow {
            stall = stall.max(2);
        }
        if back || drains(s) {
            stall = stall.max(latest(code, &c, &issue, before));
        }
        // The first instruction of the next block may need more than the blocks know: see below.
        let mut carried = vec![0u8; units.count()];
        for (u, carried) in carried.iter_mut().enumerate() {
            *carried = c.done(u, code, &issue).saturating_sub(before + stall) as u8;
        }
        // A block that begins with a user of what this one ends with: the wait must be here.
        let mut more = 0;
        for &x in &blocks[b].succs {
            let Some(first) = first_inst(blocks, start, x as usize) else { continue };
            let f = &code[first];
            units.reads(f, |u, _| more = more.max(carried[u] as u32));
            units.writes(f, |u, _| more = more.max(carried[u] as u32));
            for sb in (0..6).filter(|sb| f.ctrl.wait >> sb & 1 != 0) {
                more = more.max(sb_set[sb].saturating_sub(before + stall));
            }
        }
        stall += more;
        carried.iter_mut().for_each(|x| *x = x.saturating_sub(more as u8));
        set_stall(code, last, stall, None, sm);
        if stall > LONGEST {
            // Before a branch, which ends the block.
            let at = last + !code[last].form().effects.flow as usize;
            long.push((at, stall - LONGEST));
        }
        let sb = sb_set.map(|x| x.saturating_sub(before + stall) as u8);
        pass_on(&mut entry, blocks, b, &(carried, sb), true);
    }
    long
}

/// The first instruction that runs in block `b` or, if it has none, in those that follow.
fn first_inst(blocks: &[LinearBlock], start: &[usize], b: usize) -> Option<usize> {
    let mut b = b;
    for _ in 0..blocks.len() {
        if start[b] < start[b + 1] {
            return Some(start[b]);
        }
        b = *blocks[b].succs.first()? as usize;
    }
    None
}

fn pass_on(
    entry: &mut [Option<(Vec<u8>, [u8; 6])>],
    blocks: &[LinearBlock],
    b: usize,
    state: &(Vec<u8>, [u8; 6]),
    _end: bool,
) {
    for &x in blocks[b].succs.iter().filter(|&&x| x as usize > b) {
        match &mut entry[x as usize] {
            Some((carried, sb)) => {
                carried.iter_mut().zip(&state.0).for_each(|(a, b)| *a = (*a).max(*b));
                sb.iter_mut().zip(&state.1).for_each(|(a, b)| *a = (*a).max(*b));
            }
            e => *e = Some(state.clone()),
        }
    }
}

/// Cycles after `before` until everything of fixed latency is done.
fn latest(code: &[Sass], c: &Clock, issue: &[u32], before: u32) -> u32 {
    let mut out = 0;
    for u in 0..c.units.count() {
        out = out.max(c.done(u, code, issue).saturating_sub(before));
    }
    out
}

fn set_stall(code: &mut [Sass], i: usize, stall: u32, next: Option<usize>, sm: u16) {
    let stall = stall.min(15) as u8;
    let s = &code[i];
    let alu = s.form().class.is_fixed(sm) && !matches!(s.form().class, Class::Control);
    let own = next.map_or(1, |n| latency::issue_interval(s, &code[n], sm));
    let ctrl = &mut code[i].ctrl;
    ctrl.stall = stall;
    ctrl.bit109 = stall <= 1 || stall < 12 && !(alu && stall > own);
}

/// Sets reuse flags: the next instruction reads the same register in the same place.
fn reuse(code: &mut [Sass]) {
    for i in 1..code.len() {
        let (before, after) = code.split_at_mut(i);
        let (a, b) = (&mut before[i - 1], &after[0]);
        if !a.ctrl.bit109 || a.ctrl.stall > 2 {
            continue;
        }
        let math =
            |s: &Sass| matches!(s.form().class, Class::Alu | Class::Fma | Class::FmaInt | Class::FmaWide | Class::Half);
        if !math(a) || !math(b) {
            continue;
        }
        let mut flags = 0u8;
        for (n, slot) in a.form().slots.iter().enumerate() {
            let (Some(index), Some(r)) = (slot.reuse, a.operands[n].as_reg()) else { continue };
            if r.is_const() || r.file() != sass::reg::File::Gpr {
                continue;
            }
            let same = b.form().slots.iter().enumerate().any(|(m, t)| {
                t.reuse == Some(index) && b.operands[m].as_reg() == Some(r) && a.slot_width(n) == b.slot_width(m)
            });
            let mut overwritten = false;
            let first = super::unit(r);
            writes(a, |u, _| overwritten |= (first..first + a.slot_width(n) as usize).contains(&u));
            if same && !overwritten {
                flags |= 1 << index;
            }
        }
        a.ctrl.reuse = flags;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::Inst;
    use crate::sched::branches::LinearBlock;
    use sass::control::Control;

    /// Cycles from the first instruction to the last one.
    fn cycles(lines: &[&str]) -> u32 {
        let insts: Vec<Inst> = lines
            .iter()
            .map(|l| Inst::new(Op::Sass(sass::text::parse_on(l, 0, &sass::text::NoLabels, Some(90)).unwrap()), 0))
            .collect();
        let mut blocks = [LinearBlock { id: 0, insts, succs: Vec::new(), table: Vec::new() }];
        run(&mut blocks, 90);
        let stall = |i: &Inst| match &i.op {
            Op::Sass(Sass { ctrl: Control { stall, .. }, .. }) => u32::from(*stall),
            _ => 0,
        };
        blocks[0].insts[..lines.len() - 1].iter().map(stall).sum()
    }

    /// The control fields of blocks of these lines, each with the blocks that follow it.
    fn controls(blocks: &[(&[&str], &[u32])]) -> Vec<Vec<Control>> {
        let mut blocks: Vec<LinearBlock> = blocks
            .iter()
            .enumerate()
            .map(|(id, (lines, succs))| {
                let inst = |l: &&str| sass::text::parse_on(l, 0, &sass::text::NoLabels, Some(90)).unwrap();
                let insts = lines.iter().map(|l| Inst::new(Op::Sass(inst(l)), 0)).collect();
                LinearBlock { id: id as u32, insts, succs: succs.to_vec(), table: Vec::new() }
            })
            .collect();
        run(&mut blocks, 90);
        let control = |i: &Inst| match &i.op {
            Op::Sass(s) => s.ctrl,
            _ => Control::default(),
        };
        blocks.iter().map(|b| b.insts.iter().map(control).collect()).collect()
    }

    #[test]
    fn loops_wait_for_reads_at_the_ends_of_loops_within() {
        // The inner loop is left before its store, which reads what the outer loop writes again.
        let c = controls(&[
            (&["IADD3 R13, R2, R3, RZ"], &[1]),
            (&["ISETP.NE.U32.AND P1, PT, R2, RZ, PT", "@P1 BRA 0x50"], &[2, 3]),
            (&["STG.E desc[UR4][R8.64], R13", "BRA 0x10"], &[1]),
            (&["BRA 0x0"], &[0]),
        ]);
        let board = c[2][0].read_sb.expect("the read is told of");
        assert_eq!((c[2][1].wait >> board & 1, c[3][0].wait >> board & 1), (0, 1));
        // Written in the inner loop, it is waited for there.
        let c = controls(&[
            (&["IADD3 R2, R2, R3, RZ"], &[1]),
            (&["IADD3 R13, R2, R3, RZ", "ISETP.NE.U32.AND P1, PT, R2, RZ, PT", "@P1 BRA 0x60"], &[2, 3]),
            (&["STG.E desc[UR4][R8.64], R13", "BRA 0x10"], &[1]),
            (&["BRA 0x0"], &[0]),
        ]);
        let board = c[2][0].read_sb.expect("the read is told of");
        assert_eq!(c[2][1].wait >> board & 1, 1);
    }

    #[test]
    fn copies_into_shared_memory_may_be_under_way_when_a_loop_begins_again() {
        let copy = "LDGSTS.E [R8], desc[UR4][R4.64]";
        let c = controls(&[
            (&["IADD3 R13, R2, R3, RZ"], &[1]),
            (&["IADD3 R2, R2, R3, RZ", "IADD3 R4, R2, R3, RZ", copy, "ISETP.NE.U32.AND P1, PT, R2, RZ, PT"], &[2]),
            (&["@P1 BRA 0x10"], &[1, 3]),
            (&["IADD3 R8, R2, R3, RZ", "EXIT"], &[]),
        ]);
        let board = c[1][2].read_sb.expect("the read is told of");
        let waits = |b: usize, i: usize| c[b][i].wait >> board & 1;
        // What writes the address waits, neither the branch nor what writes other registers.
        assert_eq!([waits(1, 0), waits(1, 1), waits(2, 0)], [0, 1, 0]);
        // So does what is written behind the loop.
        assert_eq!(waits(3, 0), 1);
    }

    #[test]
    fn what_a_guarded_instruction_leaves_is_waited_for() {
        let product = "IMMA.8816.S8.S8 R4, R37.ROW, R52.COL, R64";
        let alone = cycles(&[product, "IADD3 R6, R4, R47, RZ"]);
        let over =
            |guard: &str| cycles(&[product, &format!("{guard}PRMT R4, R0, 0x7770, RZ"), "IADD3 R6, R4, R47, RZ"]);
        // Lanes in which the guard is false read the product.
        assert_eq!(over("@!P1 "), alone);
        assert!(over("") < alone);
        let twice = [product, "@!P1 PRMT R4, R0, 0x7770, RZ", "@!P2 PRMT R4, R1, 0x7770, RZ", "IADD3 R6, R4, R47, RZ"];
        assert!(cycles(&twice) >= alone);
    }
}
