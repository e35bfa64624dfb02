//! Scoreboards: which instructions set which, and who waits for them.
//!
//! A walk over the blocks as they lie. It estimates when each instruction issues and when what is under way is done, and `choice` decides
//! by that who shares a scoreboard with whom.

use super::choice::{self, Board};
use super::{NONE, drains};
use crate::sched::branches::LinearBlock;
use crate::sched::prepass::FAR;
use crate::sched::units::Units;
use sass::forms as F;
use sass::inst::Inst as Sass;
use sass::latency::{self, Class};

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
    /// What is under way on each scoreboard.
    set: [Board; 6],
    /// Scoreboards that tell of loads from far away, which are not waited for before a loop begins again.
    far: u8,
    /// Cycles since the function began, estimated.
    time: u32,
}

impl State {
    fn new(units: &Units) -> State {
        let none = || vec![0; units.count()];
        State { write: none(), read: none(), lazy: Vec::new(), set: [Board::IDLE; 6], far: 0, time: 0 }
    }

    fn join(&mut self, o: &State) {
        self.write.iter_mut().zip(&o.write).for_each(|(a, b)| *a |= b);
        self.read.iter_mut().zip(&o.read).for_each(|(a, b)| *a |= b);
        for l in &o.lazy {
            if !self.lazy.contains(l) {
                self.lazy.push(*l);
            }
        }
        self.set.iter_mut().zip(&o.set).for_each(|(a, b)| a.add(b));
        self.far |= o.far;
        self.time = self.time.max(o.time);
    }

    fn busy(&self) -> u8 {
        (0..6).filter(|&s| self.set[s].busy).fold(0, |m, s| m | 1 << s)
    }
}

/// Goes to an engine that reads its uniform registers later.
pub fn engine(s: &Sass) -> bool {
    let name = s.form().mnemonic;
    s.form != F::UTMACMDFLUSH && (name.starts_with("UTMA") || name.starts_with("UBLK") || s.form == F::SYNCS_EXCH)
}

/// Copies into shared memory read their registers late, when the copy is done.
pub fn late(s: &Sass) -> bool {
    s.form().mnemonic == "LDGSTS"
}

/// A scoreboard for reads.
struct Read {
    board: u8,
    /// When who waits for it goes on, estimated.
    time: u32,
    /// Somebody in this block has waited for it since.
    before: bool,
}

/// What is under way where a loop begins again: reads by copies into shared memory, and loads whose results the next iteration reads.
#[derive(Clone)]
struct Again {
    /// By unit the scoreboards that tell of reads and of writes.
    read: Vec<u8>,
    write: Vec<u8>,
    /// All scoreboards that tell of these reads, and when those that tell of these writes are clear, in cycles from the branch.
    boards: u8,
    ready: [u32; 6],
}

/// Where a branch backward may come to, as numbers of instructions.
#[derive(Clone, Copy)]
struct Back {
    /// The block that it ends.
    block: usize,
    /// The block, if there is only one.
    to: Option<usize>,
    /// The first one that may run before the reads of this round are done.
    from: usize,
    /// The first one of the loops around this one that end behind it.
    around: Option<usize>,
}

/// The walk that gives instructions their scoreboards.
pub struct Boards<'a> {
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
    /// By instruction: who needs first what it writes, and who overwrites first what it reads, as the code lies.
    due: Vec<(u32, u32)>,
    /// By instruction: when it issues, estimated.
    issue: Vec<u32>,
    /// By unit: when what was written to it is there, where that takes a fixed time; estimated.
    done: Vec<u32>,
    /// What was waited for: instruction, scoreboards.
    waits: Vec<(u32, u8)>,
    block_start: u32,
    /// Scoreboards of reads at the ends of inner loops, whose registers are written in loops around those.
    carried: u8,
    /// By block: what is under way when a branch backward comes to it. Found by a first walk, and used by a second one.
    again: Vec<Option<Again>>,
    second: bool,
    /// At a branch backward: scoreboards of loads that shall be under way when the loop begins again.
    flying: u8,
    /// Loads that were under way when a loop began again on the first walk, and their scoreboards: the same on the second one.
    kept: Vec<(u32, u8)>,
    read_sb: Vec<u8>,
    write_sb: Vec<u8>,
}

impl<'a> Boards<'a> {
    /// For the code of some blocks, the first instructions of which are `start`.
    pub fn new(
        sm: u16,
        code: &[&mut Sass],
        blocks: &'a [LinearBlock],
        start: &'a [usize],
        units: &'a Units,
    ) -> Boards<'a> {
        let (written, due) = uses(sm, code, blocks, start, units);
        let left = code.iter().rposition(|s| drains(s)).map_or(0, |i| i as u32 + 1);
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
            due,
            issue: vec![0; n],
            done: vec![0; units.count()],
            waits: Vec::new(),
            block_start: 0,
            carried: 0,
            again: vec![None; blocks.len()],
            second: false,
            flying: 0,
            kept: Vec::new(),
            read_sb: vec![7; n],
            write_sb: vec![7; n],
        }
    }

    /// Sets scoreboards and waits.
    pub fn run(mut self, code: &mut [&mut Sass]) {
        self.walk(code);
        if self.again.iter().any(Option::is_some) {
            (self.second, self.carried) = (true, 0);
            self.kept.sort_unstable();
            self.done.fill(0);
            self.waits.clear();
            self.read_sb.fill(7);
            self.write_sb.fill(7);
            self.walk(code);
        }
        for (i, s) in code.iter_mut().enumerate() {
            s.ctrl.read_sb = (self.read_sb[i] < 6).then_some(self.read_sb[i]);
            s.ctrl.write_sb = (self.write_sb[i] < 6).then_some(self.write_sb[i]);
        }
    }

    fn walk(&mut self, code: &mut [&mut Sass]) {
        let n = self.blocks.len();
        let mut entry: Vec<Option<State>> = vec![None; n];
        let backward = |(b, block): (usize, &'a LinearBlock)| {
            block.succs.iter().map(move |&s| (b, s as usize)).filter(|(b, s)| s <= b)
        };
        let edges: Vec<(usize, usize)> = self.blocks.iter().enumerate().flat_map(backward).collect();
        for b in 0..n {
            let mut st = entry[b].take().unwrap_or_else(|| State::new(self.units));
            self.block_start = self.start[b] as u32;
            self.refresh(code, &mut st);
            if let Some(again) = self.again[b].as_ref().filter(|_| self.second) {
                st.read.iter_mut().zip(&again.read).for_each(|(r, a)| *r |= a);
                st.write.iter_mut().zip(&again.write).for_each(|(w, a)| *w |= a);
                let copy = Board { busy: true, late: true, ready: st.time + choice::COPY, due: NONE };
                (0..6).filter(|s| again.boards >> s & 1 != 0).for_each(|s| st.set[s].add(&copy));
                for (s, &ready) in again.ready.iter().enumerate().filter(|x| *x.1 > 0) {
                    st.set[s].add(&Board { busy: true, late: false, ready: st.time + ready, due: self.block_start });
                    st.far |= 1 << s;
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
        Some(Back { block: b, to, from: self.start[inside.min(own)], around })
    }

    /// Sees to it that the reads of instruction `i` are waited for, now and with the scoreboards `with`, or later. Returns what must be
    /// waited for: nothing, if somebody waits since. What it loads is not waited for instead where its scoreboard is not among these.
    fn attach(&mut self, i: u32, with: Option<u8>, code: &[&mut Sass], st: &mut State) -> u8 {
        if self.read_sb[i as usize] == 7 {
            let choice = self.choose_read(i, with.unwrap_or(0), code, st);
            // Its results come after its reads.
            let result = self.write_sb[i as usize];
            let waits = with.is_some() && result < 6 && self.flying >> result & 1 == 0;
            if waits && st.set[result as usize].ready <= choice.time {
                return 1 << result;
            }
            self.read_sb[i as usize] = choice.board;
            if choice.before {
                st.lazy.retain(|l| l.1 != i);
                return 0;
            }
        }
        let s = self.tells(i, code, st);
        for l in st.lazy.extract_if(.., |l| l.1 == i) {
            st.read[l.0 as usize] |= 1 << s;
        }
        1 << s
    }

    /// A scoreboard for the reads of instruction `i` that are waited for now, with the scoreboards `with`: where least is lost. Those who
    /// have waited for it since the instruction wait for these reads, too; in this block one of them may be all that is needed.
    fn choose_read(&self, i: u32, with: u8, code: &[&mut Sass], st: &State) -> Read {
        let late = late(code[i as usize]);
        let done = self.issue[i as usize] + if late { choice::COPY } else { choice::OPERANDS };
        let here = i >= self.block_start;
        // By scoreboard: when it was waited for first.
        let mut then = [NONE; 6];
        for &(w, boards) in self.waits.iter().rev().take_while(|w| w.0 > i) {
            (0..6).filter(|s| boards >> s & 1 != 0).for_each(|s| then[s] = self.issue[w as usize]);
        }
        let now = (0..6).filter(|s| with >> s & 1 != 0).fold(st.time, |t, s| t.max(st.set[s].ready));
        let of = |s: u8| {
            let b = &st.set[s as usize];
            let lost = done.saturating_sub(then[s as usize]);
            if here && then[s as usize] != NONE {
                return (lost, 0, Read { board: s, time: now + lost, before: true });
            }
            // What is as late is waited for together; then what is idle.
            let rank = match b.busy {
                true if with >> s & 1 != 0 => 0,
                true if late && b.late => 1,
                false => 2,
                true => 3,
            };
            let lost = lost.max(b.ready.max(done).saturating_sub(now));
            (lost, rank, Read { board: s, time: now + lost, before: false })
        };
        let best = (self.first..6).filter(|s| self.flying >> s & 1 == 0).map(of).min_by_key(|r| (r.0, r.1));
        best.map_or(Read { board: 5, time: now, before: false }, |r| r.2)
    }

    /// The scoreboard that tells of the reads of instruction `i`, which are under way.
    fn tells(&self, i: u32, code: &[&mut Sass], st: &mut State) -> u8 {
        let (s, late) = (self.read_sb[i as usize], late(code[i as usize]));
        let ready = self.issue[i as usize] + if late { choice::COPY } else { choice::OPERANDS };
        st.set[s as usize].add(&Board { busy: true, late, ready, due: self.due[i as usize].1 });
        s
    }

    /// What got a scoreboard for its reads on another way here has it on this one, too.
    fn refresh(&self, code: &[&mut Sass], st: &mut State) {
        let mut lazy = std::mem::take(&mut st.lazy);
        lazy.retain(|&(unit, i)| {
            let known = self.read_sb[i as usize] < 6;
            if known {
                st.read[unit as usize] |= 1 << self.tells(i, code, st);
            }
            !known
        });
        st.lazy = lazy;
    }

    fn wait(&mut self, i: usize, mask: u8, st: &mut State) {
        st.write.iter_mut().for_each(|m| *m &= !mask);
        st.read.iter_mut().for_each(|m| *m &= !mask);
        let (rs, ws) = (&self.read_sb, &self.write_sb);
        let on = |s: u8| s < 6 && mask >> s & 1 != 0;
        st.lazy.retain(|l| !on(rs[l.1 as usize]) && !on(ws[l.1 as usize]));
        for s in (0..6).filter(|s| mask >> s & 1 != 0) {
            st.time = st.time.max(st.set[s].ready);
            st.set[s] = Board::IDLE;
        }
        st.far &= !mask;
        self.waits.push((i as u32, mask));
    }

    /// Scoreboards that tell of nothing but loads from far away, which what begins at a block may find under way.
    fn flying(&self, to: usize, st: &State) -> u8 {
        let read = st.read.iter().fold(0, |m, r| m | r);
        let late = (0..6).filter(|&s| st.set[s].late).fold(0, |m, s| m | 1u8 << s);
        let unknown = match &self.again[to] {
            _ if !self.second => 0,
            Some(again) => st.write.iter().zip(&again.write).fold(0, |m, (w, a)| m | w & !a),
            None => u8::MAX,
        };
        st.far & !read & !late & !unknown
    }

    /// Scoreboards that need not be waited for before a branch backward to a block, as what begins there knows of everything that they tell of;
    /// on the first walk none, but what it will know is remembered.
    fn passes(&mut self, b: usize, to: usize, needed: u8, st: &State) -> u8 {
        if !self.second {
            let on =
                |late: bool| (0..6).filter(|&s| st.set[s].busy && st.set[s].late == late).fold(0, |m, s| m | 1u8 << s);
            let boards = on(true);
            // Loads from far away that the loop itself starts; others are there soon.
            let (mut loads, far) = (0, st.far & on(false));
            for i in self.start[to]..self.start[b + 1] {
                let board = self.write_sb[i];
                if board < 6 && far >> board & 1 != 0 {
                    let mut under_way = false;
                    self.units.writes(i).for_each(|(u, _)| under_way |= st.write[u] >> board & 1 != 0);
                    if under_way {
                        loads |= 1 << board;
                        self.kept.push((i as u32, board));
                    }
                }
            }
            let any = |list: &[u8], boards: u8| list.iter().any(|b| b & boards != 0);
            if any(&st.read, boards) || any(&st.write, loads) {
                let again = self.again[to].get_or_insert_with(|| Again {
                    read: vec![0; st.read.len()],
                    write: vec![0; st.write.len()],
                    boards: 0,
                    ready: [0; 6],
                });
                again.read.iter_mut().zip(&st.read).for_each(|(a, r)| *a |= r & boards);
                again.write.iter_mut().zip(&st.write).for_each(|(a, w)| *a |= w & loads);
                again.boards |= boards;
                for s in (0..6).filter(|s| loads >> s & 1 != 0) {
                    again.ready[s] = again.ready[s].max(st.set[s].ready.saturating_sub(st.time)).max(1);
                }
            }
            return 0;
        }
        let Some(again) = &self.again[to] else { return 0 };
        let reads = st.read.iter().zip(&again.read);
        let (read, unread) = reads.fold((0, 0), |(known, unknown), (r, a)| (known | r & a, unknown | r & !a));
        // What else is loaded is waited for, and may have been instead of what it reads.
        let loads = st.write.iter().fold(0, |m, w| m | w);
        (read & !loads | loads & self.flying) & !unread & !needed
    }

    fn inst(&mut self, i: usize, code: &mut [&mut Sass], st: &mut State, back: Option<Back>) {
        let units = self.units;
        let s = &code[i];
        let mut mask = 0u8;
        // The vendor's compiler lets nothing begin before registers have been given up.
        if i > 0 && code[i - 1].form == F::USETMAXREG_DEALLOC && self.write_sb[i - 1] < 6 {
            mask |= 1 << self.write_sb[i - 1];
        }
        units.reads(i).for_each(|(u, _)| {
            mask |= st.write[u];
            st.time = st.time.max(self.done[u]);
        });
        let mut overwritten: Vec<u32> = Vec::new();
        units.writes(i).for_each(|(u, _)| {
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
        self.flying = match back.filter(|_| !drains(s)).and_then(|b| b.to) {
            Some(to) => self.flying(to, st) & !needed,
            None => 0,
        };
        for o in overwritten {
            mask |= self.attach(o, Some(mask & !self.flying), code, st);
        }
        if let Some((b, to)) = back.filter(|_| !drains(s)).and_then(|b| b.to.map(|to| (b.block, to))) {
            mask &= !self.passes(b, to, needed, st);
        }
        self.flying = 0;
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
                    self.carried |= self.attach(o, None, code, st);
                }
            }
        }
        self.issue[i] = st.time;
        code[i].ctrl.wait = mask;
        let s = &code[i];
        let done = st.time + choice::FIXED;
        units.writes(i).for_each(|(u, _)| {
            st.write[u] = 0;
            st.read[u] = 0;
            self.done[u] = done;
        });
        if s.form == F::LDGDEPBAR {
            self.write_sb[i] = 0;
        }
        if s.form == F::UTMACMDFLUSH {
            self.read_sb[i] = 0;
        }
        // The stack pointer where nobody has a stack.
        let unread = self.due[i].0 == NONE && s.form().class == Class::Const;
        if latency::needs_write_sb(s, self.sm) && !unread || s.form == F::USETMAXREG_DEALLOC {
            let ready = st.time + u32::from(latency::expected(s, self.sm));
            let new = Board { busy: true, late: false, ready, due: self.due[i].0 };
            let kept = self.kept.binary_search_by_key(&(i as u32), |k| k.0).ok().filter(|_| self.second);
            let sb = match kept {
                Some(k) => self.kept[k].1,
                None => choice::choose(&st.set, &new, self.first, (i as u32, st.time)),
            };
            self.write_sb[i] = sb;
            st.set[sb as usize].add(&new);
            st.far |= ((latency::expected(s, self.sm) >= FAR) as u8) << sb;
            units.writes(i).for_each(|(u, _)| st.write[u] |= 1 << sb);
        }
        st.time += match code.get(i + 1) {
            Some(next) => u32::from(latency::issue_interval(s, next, self.sm)),
            None => 1,
        };
        let engine = engine(s);
        if engine || latency::may_need_read_sb(s, self.sm) {
            let end = units.general(engine);
            units.reads(i).for_each(|(u, slot)| {
                if slot.is_some() && u < end && !st.lazy.contains(&(u as u16, i as u32)) {
                    st.lazy.push((u as u16, i as u32));
                }
            });
            while st.lazy.len() > LAZY {
                let oldest = st.lazy[0].1;
                self.attach(oldest, None, code, st);
            }
        }
    }
}

/// By unit where it is written last, as the code lies, plus one; and by instruction who is the first to touch what it writes, and to
/// write what it reads, or waits for everything.
fn uses(
    sm: u16,
    code: &[&mut Sass],
    blocks: &[LinearBlock],
    start: &[usize],
    units: &Units,
) -> (Vec<u32>, Vec<(u32, u32)>) {
    let mut last = vec![0u32; units.count()];
    // By unit: who touches it next, and who writes it next.
    let mut next = vec![(NONE, NONE); units.count()];
    let mut due = vec![(NONE, NONE); code.len()];
    let mut everything = NONE;
    for (b, block) in blocks.iter().enumerate().rev() {
        if block.succs.iter().any(|&s| s as usize <= b) {
            everything = start[b + 1].saturating_sub(1) as u32;
        }
        for i in (start[b]..start[b + 1]).rev() {
            let s = &code[i];
            if drains(s) {
                everything = i as u32;
            }
            let mut due_at = (everything, everything);
            if latency::needs_write_sb(s, sm) {
                units.writes(i).for_each(|(u, _)| due_at.0 = due_at.0.min(next[u].0));
            }
            units.reads(i).for_each(|(u, _)| {
                due_at.1 = due_at.1.min(next[u].1);
                next[u].0 = i as u32;
            });
            units.writes(i).for_each(|(u, _)| {
                next[u] = (i as u32, i as u32);
                last[u] = last[u].max(i as u32 + 1);
            });
            due[i] = due_at;
        }
    }
    (last, due)
}
