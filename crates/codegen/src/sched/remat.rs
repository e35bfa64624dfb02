//! Rematerialization: where there are too few registers, what one cheap instruction makes is made again where it is read.
//!
//! PTX from LLVM computes ahead whatever a loop does not change: sixteen numbers beside one base, sixteen comparisons of one register. Each
//! waits in a register of its own, though its readers could compute it from the base, which is alive anyway or is one
//! register for all of them. So where more values are alive than fit, and only there, such instructions are repeated in the blocks that read them:
//! first what is read least often, until the rest fits. Predicates are counted like registers: one more than there are waits in a
//! general register, and each reader compares that with zero. A block that is crowded itself wins the places before the first and behind the last of its
//! readers ([`Places`]): in a loop of one block, all that it reads waits otherwise through the whole of it. The two words of an address are made again
//! together: by one instruction, or by two of which the second alone reads the carry of the first. Runs on SSA form, before scheduling.

use super::cheap::{Cheap, again, candidates};
use super::sink::rename;
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_uses};
use crate::mir::{Func, Inst, Op, Vreg};
use rustc_hash::{FxHashMap, FxHashSet};
use sass::inst::Value;
use sass::reg::File;
use smallvec::SmallVec;

/// Registers and predicates that are left to what blocks do themselves.
pub(super) const SPARE: [u32; 2] = [5, 2];
/// Of the registers that threads set the number of themselves, those that are left: R1 and two.
const OWN: u32 = 3;

const NONE: u32 = u32::MAX;

/// Runs the pass. `pressure`: how many values of each file are alive at most in each block; `limits`: how many general registers and
/// predicates there are, of which threads that gave registers up (`setmaxnreg`) have fewer. True if anything changed.
pub fn run(f: &mut Func, cfg: &Cfg, live: &Liveness, pressure: &[[u32; 4]], limits: [u32; 2]) -> bool {
    if f.blocks.len() < 2 || !crowded(pressure, &limits_of(f, cfg, limits)) {
        return false;
    }
    let list = candidates(f, cfg, live);
    let list: Vec<&Cheap> = list.iter().collect();
    let chosen = choose(f, cfg, live, pressure, limits, &list);
    if chosen.is_empty() {
        return false;
    }
    repeat_all(f, &list, &chosen);
    true
}

/// Some block has more values alive than it may.
fn crowded(pressure: &[[u32; 4]], limits: &[[u32; 2]]) -> bool {
    pressure.iter().zip(limits).any(|(p, most)| (0..2).any(|k| p[index(FILES[k])] > most[k]))
}

/// Which of the `list` to make again, that no more than so many values are alive: what [`run`] does without changing the function.
pub(super) fn choose(
    f: &Func,
    cfg: &Cfg,
    live: &Liveness,
    pressure: &[[u32; 4]],
    limits: [u32; 2],
    list: &[&Cheap],
) -> Vec<usize> {
    let limits = limits_of(f, cfg, limits);
    if list.is_empty() || !crowded(pressure, &limits) {
        return Vec::new();
    }
    let mut plan = Plan {
        f,
        live,
        pressure: pressure.to_vec(),
        limits,
        alive: FxHashSet::default(),
        number: vec![NONE; f.vregs.len()],
        through: Vec::new(),
        settled: FxHashMap::default(),
        places: Vec::new(),
    };
    plan.note_places(list, cfg);
    let mut seen = vec![NONE; f.vregs.len()];
    plan.places = (0..f.blocks.len() as u32).map(|b| plan.crowd(b, &mut seen)).collect();
    plan.choose(list)
}

/// Makes the `chosen` ones of a list again where they are read.
pub(super) fn repeat_all(f: &mut Func, list: &[&Cheap], chosen: &[usize]) {
    let mut by_block: Vec<Vec<u32>> = vec![Vec::new(); f.blocks.len()];
    for &n in chosen {
        list[n].readers.iter().for_each(|&b| by_block[b as usize].push(n as u32));
    }
    for (b, of) in by_block.into_iter().enumerate().filter(|x| !x.1.is_empty()) {
        repeat(f, b, of.into_iter().map(|n| list[n as usize]));
    }
    // The first ones, where nobody reads them any more.
    super::dead::run(f);
}

const FILES: [File; 2] = [File::Gpr, File::Pred];

/// By block: how many general registers and predicates may be full there.
fn limits_of(f: &Func, cfg: &Cfg, limits: [u32; 2]) -> Vec<[u32; 2]> {
    let [gprs, predicates] = [0, 1].map(|k| limits[k].saturating_sub(SPARE[k]));
    let mut all = vec![[gprs, predicates]; f.blocks.len()];
    for (most, own) in all.iter_mut().zip(crate::registers::owned(f, cfg)) {
        most[0] = gprs.min((own as u32).saturating_sub(OWN));
    }
    all
}

fn index(file: File) -> usize {
    file as usize
}

/// How many general registers a crowded block needs, part by part, and where it reads what may be repeated.
struct Places {
    /// The most alive at once in each part of so many instructions.
    most: Vec<u32>,
    each: u32,
    /// By candidate: the first and, of what is alive at the end, the last reader; the end stands behind all instructions.
    reads: FxHashMap<u32, (u32, u32)>,
}

/// What has become of a value.
enum Settled {
    /// It is repeated: it is not there but where it was read.
    Repeated,
    /// Repeated instructions read it in these blocks, where it must be.
    ReadIn(SmallVec<[u32; 4]>),
}

/// Into so many parts a crowded block is divided.
const PARTS: u32 = 64;

impl Places {
    fn note(&mut self, alive: u32, at: u32) {
        let most = &mut self.most[(at / self.each) as usize];
        *most = alive.max(*most);
    }

    /// The parts before the first and behind the last reader of a value, in which it is alive.
    fn outside(&self, c: u32) -> impl Iterator<Item = usize> + use<> {
        let (n, each) = (self.most.len(), self.each);
        let (first, last) = self.reads.get(&c).map_or((n, n), |r| ((r.0 / each) as usize, (r.1 / each) as usize + 1));
        (0..first.min(n)).chain(last.min(n)..n)
    }
}

struct Plan<'a> {
    f: &'a Func,
    live: &'a Liveness,
    pressure: Vec<[u32; 4]>,
    /// By block.
    limits: Vec<[u32; 2]>,
    /// Values that live longer than they did, and where.
    alive: FxHashSet<(Vreg, u32)>,
    /// By value: which candidate it is.
    number: Vec<u32>,
    /// Blocks at whose start each candidate is alive.
    through: Vec<Vec<u32>>,
    /// Values that are repeated, and those that repeated instructions read.
    settled: FxHashMap<Vreg, Settled>,
    /// By block, of those that are crowded.
    places: Vec<Option<Places>>,
}

impl Plan<'_> {
    /// What a crowded block needs at each of its places, and where it reads what may be repeated. `seen` says of each value in which block it was found alive last.
    fn crowd(&self, b: u32, seen: &mut [u32]) -> Option<Places> {
        if self.pressure[b as usize][index(File::Gpr)] <= self.limits[b as usize][0] {
            return None;
        }
        let (f, block) = (self.f, &self.f.blocks[b as usize]);
        let n = block.insts.len() as u32;
        let each = (n + 1).div_ceil(PARTS);
        let mut places = Places { most: vec![0; (n / each + 1) as usize], each, reads: FxHashMap::default() };
        let mut now = 0u32;
        let general = |v: Vreg| f.vregs[v.index()] == File::Gpr;
        let enter = |v: Vreg, seen: &mut [u32], now: &mut u32| {
            *now += (general(v) && std::mem::replace(&mut seen[v.index()], b) != b) as u32;
        };
        let read = |v: Vreg, at: u32, places: &mut Places| {
            let c = self.number[v.index()];
            if c != NONE && general(v) {
                let last = || if self.live.live_out[b as usize].binary_search(&v).is_ok() { at } else { n };
                places.reads.entry(c).or_insert_with(|| (at, last())).0 = at;
            }
        };
        self.live.live_out[b as usize].iter().for_each(|&v| enter(v, seen, &mut now));
        let mut end = |v: Vreg| {
            enter(v, seen, &mut now);
            read(v, n, &mut places);
        };
        f.term_uses(&block.term, &mut end);
        block.term.edges().iter().flat_map(|e| &e.args).for_each(|&v| end(v));
        places.note(now, n);
        for (at, inst) in (0..n).zip(&block.insts).rev() {
            f.defs(&inst.op, |v| {
                if general(v) && seen[v.index()] == b {
                    seen[v.index()] = NONE;
                    now -= 1;
                }
            });
            f.uses(&inst.op, |v| {
                enter(v, seen, &mut now);
                read(v, at, &mut places);
            });
            places.note(now, at);
        }
        Some(places)
    }

    fn note_places(&mut self, list: &[&Cheap], cfg: &Cfg) {
        for (n, c) in (0..).zip(list) {
            c.values.iter().for_each(|v| self.number[v.index()] = n);
        }
        self.through.resize(list.len(), Vec::new());
        for &b in &cfg.rpo {
            for v in &self.live.live_in[b as usize] {
                if let Some(blocks) = self.through.get_mut(self.number[v.index()] as usize)
                    && blocks.last() != Some(&b)
                {
                    blocks.push(b);
                }
            }
        }
    }

    /// Which to repeat: while there is a block with too many values that one only lives through.
    fn choose(&mut self, list: &[&Cheap]) -> Vec<usize> {
        let mut chosen = Vec::new();
        let mut left: Vec<usize> = Vec::new();
        for (n, c) in list.iter().enumerate() {
            if self.may(c, list) {
                if self.missing(c).is_empty() {
                    self.take(c);
                    chosen.push(n);
                } else {
                    left.push(n);
                }
            }
        }
        // What lives longer, for several values or for a predicate.
        let mut shares: FxHashMap<Vreg, u32> = FxHashMap::default();
        for &n in &left {
            let missing = self.missing(list[n]);
            if missing.len() <= list[n].values.len() {
                missing.into_iter().for_each(|v| *shares.entry(v).or_insert(0) += 1);
            }
        }
        for n in left {
            let c = list[n];
            let missing = self.missing(c);
            let predicate = c.file(self.f) == File::Pred;
            let pays = missing.len() <= c.values.len()
                && missing.iter().all(|v| {
                    self.f.vregs[v.index()] == File::Gpr && (predicate || shares.get(v).is_some_and(|&n| n > 1))
                });
            if pays && self.may(c, list) {
                self.take(c);
                chosen.push(n);
            }
        }
        chosen
    }

    /// True if it may be repeated and helps. What it reads of what is repeated, too, must be there wherever it is repeated: the next of a row of sums, each
    /// of which is the one before and a step, is made of that one again.
    fn may(&self, c: &Cheap, list: &[&Cheap]) -> bool {
        let mut there = c.values.iter().all(|v| match self.settled.get(v) {
            None => true,
            Some(Settled::Repeated) => false,
            Some(Settled::ReadIn(blocks)) => blocks.iter().all(|b| c.readers.contains(b)),
        });
        c.each_read(self.f, |v| {
            if let Some(Settled::Repeated) = self.settled.get(&v) {
                let of = list[self.number[v.index()] as usize];
                there &= c.readers.iter().all(|b| of.readers.contains(b));
            }
        });
        there && self.crowded(c)
    }

    fn number(&self, c: &Cheap) -> u32 {
        self.number[c.values[0].index()]
    }

    /// True if somewhere too many values of its kind are alive, this one among them, and it is not read there, or before or behind its readers.
    fn crowded(&self, c: &Cheap) -> bool {
        let (file, number) = (c.file(self.f), self.number(c));
        self.through[number as usize].iter().any(|&b| {
            let limit = self.limits[b as usize][(file == File::Pred) as usize];
            let wins = |p: &Places| file == File::Gpr && p.outside(number).any(|n| p.most[n] > limit);
            let crowded = self.pressure[b as usize][index(file)] > limit;
            crowded && (!c.readers.contains(&b) || self.places[b as usize].as_ref().is_some_and(wins))
        })
    }

    fn is_alive(&self, v: Vreg, b: u32) -> bool {
        self.live.live_in[b as usize].binary_search(&v).is_ok() || self.alive.contains(&(v, b))
    }

    /// What it reads that would have to live longer.
    fn missing(&self, c: &Cheap) -> SmallVec<[Vreg; 4]> {
        let mut out: SmallVec<[Vreg; 4]> = SmallVec::new();
        c.each_read(self.f, |v| {
            if !out.contains(&v) && !c.readers.iter().all(|&b| self.is_alive(v, b)) && !c.values.contains(&v) {
                out.push(v);
            }
        });
        out
    }

    /// Counts the value out where it is not read, and in what it reads.
    fn take(&mut self, c: &Cheap) {
        let (file, number, count) = (c.file(self.f), self.number(c), c.values.len() as u32);
        c.values.iter().for_each(|&v| {
            self.settled.insert(v, Settled::Repeated);
        });
        c.each_read(self.f, |v| {
            if let Settled::ReadIn(blocks) = self.settled.entry(v).or_insert_with(|| Settled::ReadIn(SmallVec::new())) {
                blocks.extend(c.readers.iter().copied());
            }
        });
        let blocks = std::mem::take(&mut self.through[number as usize]);
        for v in self.missing(c) {
            for &b in &blocks {
                if !self.is_alive(v, b) {
                    self.alive.insert((v, b));
                    self.pressure[b as usize][index(self.f.vregs[v.index()])] += 1;
                    if self.f.vregs[v.index()] == File::Gpr {
                        self.places[b as usize].iter_mut().flat_map(|p| &mut p.most).for_each(|m| *m += 1);
                    }
                }
            }
        }
        for &b in &blocks {
            let n = &mut self.pressure[b as usize][index(file)];
            match &mut self.places[b as usize] {
                // What it is made of may be alive for longer there: as it is read by others, that is seldom far.
                Some(p) if file == File::Gpr => {
                    p.outside(number).for_each(|part| p.most[part] = p.most[part].saturating_sub(count));
                    *n = p.most.iter().copied().max().unwrap_or(*n);
                }
                _ if !c.readers.contains(&b) => *n = n.saturating_sub(count),
                _ => {}
            }
        }
    }
}

/// Repeats instructions in a block that reads what they make, each before the first reader, and before that what it reads of the others.
fn repeat<'a>(f: &mut Func, b: usize, list: impl Iterator<Item = &'a Cheap>) {
    let mut names: FxHashMap<Vreg, Vreg> = FxHashMap::default();
    // By new name: which of the candidates makes it.
    let mut makes: FxHashMap<Vreg, usize> = FxHashMap::default();
    let mut waiting: Vec<SmallVec<[Inst; 2]>> = Vec::new();
    for c in list {
        for &v in &c.values {
            let name = f.new_vreg(f.vregs[v.index()]);
            names.insert(v, name);
            makes.insert(name, waiting.len());
        }
        waiting.push(again(f, c, &names));
    }
    let mut waiting: Vec<Waiting> = waiting.into_iter().map(|insts| Waiting::new(f, insts, &names, &makes)).collect();
    rename(f, b, &mut |_, v| names.get(&v).copied().unwrap_or(v));
    let insts = std::mem::take(&mut f.blocks[b].insts);
    let mut out = Vec::with_capacity(insts.len() + waiting.len());
    for inst in insts {
        f.uses(&inst.op, |v| {
            if let Some(&n) = makes.get(&v) {
                put(&mut waiting, n, &mut out);
            }
        });
        out.push(inst);
    }
    // What the end of the block reads.
    (0..waiting.len()).for_each(|n| put(&mut waiting, n, &mut out));
    f.blocks[b].insts = out;
}

/// What waits for its first reader.
struct Waiting {
    insts: SmallVec<[Inst; 2]>,
    /// Others that it reads.
    of: SmallVec<[usize; 2]>,
}

impl Waiting {
    /// What it reads of the others has their names in this block.
    fn new(
        f: &mut Func,
        mut insts: SmallVec<[Inst; 2]>,
        names: &FxHashMap<Vreg, Vreg>,
        makes: &FxHashMap<Vreg, usize>,
    ) -> Waiting {
        let mut of = SmallVec::new();
        for inst in &mut insts {
            let Op::Sass(s) = &mut inst.op else { continue };
            let mut places: SmallVec<[Place; 8]> = SmallVec::new();
            sass_uses(s, |p| places.push(p));
            for p in places.into_iter().filter(|p| p.reg.is_virtual()) {
                let old = f.scalars(p.reg);
                let new: SmallVec<[Vreg; 4]> = old.iter().map(|v| names.get(v).copied().unwrap_or(*v)).collect();
                if let (Some(n), false) = (p.slot, new[..] == old[..]) {
                    s.operands[n as usize].value = Value::Reg(f.vector(&new));
                    of.extend(new.iter().filter_map(|v| makes.get(v).copied()));
                }
            }
        }
        Waiting { insts, of }
    }
}

/// Puts what waits behind `out`, and before it what it reads of the others. Linear: each is looked at once.
fn put(waiting: &mut [Waiting], n: usize, out: &mut Vec<Inst>) {
    let mut open: SmallVec<[(usize, SmallVec<[usize; 2]>); 8]> = SmallVec::new();
    open.push((n, std::mem::take(&mut waiting[n].of)));
    while let Some((n, of)) = open.last_mut() {
        match of.pop() {
            Some(m) if !waiting[m].insts.is_empty() => open.push((m, std::mem::take(&mut waiting[m].of))),
            Some(_) => {}
            None => {
                out.extend(std::mem::take(&mut waiting[*n].insts));
                open.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};
    use crate::regalloc;
    use sass::latency::Class;

    /// `n` results of one register before a loop that reads all of them, in a function of so many registers; how many are computed in the loop.
    fn repeated(n: usize, gprs: u32, make: &str, read: &str) -> usize {
        let mut t = format!(
            "func k entry max={gprs} outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n"
        );
        for k in 1..=n {
            t += &format!("    {}\n", make.replace('#', &k.to_string()));
        }
        t += "    br blk1()\nblk1(): depth=1\n    ISETP_RI.Cmp=1 Pu=%p99 Ra=%r0 Rb=0x7\n    brif %p99, blk2(), blk3()\nblk2(): depth=1\n";
        for k in 1..=n {
            t += &format!("    {}\n", read.replace('#', &k.to_string()));
        }
        t += "    br blk1()\nblk3(): depth=0\n    exit\n}\n";
        let mut f = text::parse(&t).unwrap().remove(0);
        let cfg = f.cfg();
        let live = Liveness::new(&f, &cfg);
        let by_block = regalloc::pressures(&f, &cfg, &live).1;
        run(&mut f, &cfg, &live, &by_block, [gprs - 1, 7]);
        verify::ssa(&f).unwrap();
        let made = make.split('_').next().unwrap();
        let is = |i: &&Inst| matches!(&i.op, Op::Sass(s) if s.form().mnemonic == made);
        f.blocks[2].insts.iter().filter(is).count()
    }

    const COMPARE: (&str, &str) = ("ISETP_RI.Cmp=1 Pu=%p# Ra=%r0 Rb=#", "@%p# STG.Size=4 Ra=RZ Rb=%r0 URc=UR4");
    const ADD: (&str, &str) = ("IADD3_RIR Rd=%r# Ra=%r0 Rb=#", "STG.Size=4 Ra=RZ Rb=%r# URc=UR4");

    /// As [`repeated`] with additions, where threads give up all registers but 24 before the loop.
    #[test]
    fn threads_that_gave_registers_up_compute_again() {
        let part = |line: &str| -> String {
            (1..=30).map(|k: u32| format!("    {}\n", line.replace('#', &k.to_string()))).collect()
        };
        let (made, read) = (part(ADD.0), part(ADD.1));
        for (gives, most) in [("", 31), ("    USETMAXREG_DEALLOC ImmAt32=0x18\n", 18)] {
            let t = format!(
                "func k entry max=168 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n{made}{gives}    br blk1()\n\
                 blk1(): depth=1\n    ISETP_RI.Cmp=1 Pu=%p99 Ra=%r0 Rb=0x7\n    brif %p99, blk2(), blk3()\nblk2(): depth=1\n{read}\
                 \x20   br blk1()\nblk3(): depth=0\n    exit\n}}\n"
            );
            let mut f = text::parse(&t).unwrap().remove(0);
            let cfg = f.cfg();
            let live = Liveness::new(&f, &cfg);
            let by_block = regalloc::pressures(&f, &cfg, &live).1;
            run(&mut f, &cfg, &live, &by_block, [167, 7]);
            verify::ssa(&f).unwrap();
            let after = regalloc::pressures(&f, &cfg, &Liveness::new(&f, &cfg)).1;
            assert_eq!(after[1][0], most, "{gives}");
        }
    }

    /// A row of `n` sums, each made of the one before by `make`, that a block of a loop reads in the order of `reads`, in a function of twenty registers; what is alive in
    /// each block behind the pass.
    fn row_of_sums(n: u32, make: &dyn Fn(u32) -> String, reads: &mut dyn Iterator<Item = u32>) -> Vec<[u32; 4]> {
        let row: String = (1..=n).map(|k| format!("    {}\n", make(k))).collect();
        let read: String = reads.map(|k| format!("    {}\n", ADD.1.replace('#', &k.to_string()))).collect();
        let t = format!(
            "func k entry max=20 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n{row}    br blk1()\n\
             blk1(): depth=1\n    ISETP_RI.Cmp=1 Pu=%p99 Ra=%r0 Rb=0x7\n    brif %p99, blk2(), blk3()\nblk2(): depth=1\n{read}\
             \x20   br blk1()\nblk3(): depth=0\n    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        let cfg = f.cfg();
        let live = Liveness::new(&f, &cfg);
        let by_block = regalloc::pressures(&f, &cfg, &live).1;
        run(&mut f, &cfg, &live, &by_block, [19, 7]);
        verify::ssa(&f).unwrap();
        regalloc::pressures(&f, &cfg, &Liveness::new(&f, &cfg)).1
    }

    /// Sixty sums, each twice the one before: what is read twice is looked at once.
    #[test]
    fn what_is_read_twice_is_made_once() {
        let twice = |k: u32| format!("IADD3_RRR Rd=%r{k} Ra=%r{0} Rb=%r{0}", k - 1);
        let after = row_of_sums(60, &twice, &mut (1..=60).rev());
        assert!(after[1][0] <= 14, "{after:?}");
    }

    /// Thirty sums, each the one before and a step, that a block of a loop reads: they are made again of each other there.
    #[test]
    fn a_row_of_sums_is_made_again() {
        let step = |k: u32| format!("IADD3_RIR Rd=%r{k} Ra=%r{} Rb=8", k - 1);
        let after = row_of_sums(30, &step, &mut (1..=30));
        assert!(after[1][0] <= 14 && after[2][0] <= 16, "{after:?}");
    }

    #[test]
    fn what_fits_stays() {
        assert_eq!(repeated(4, 200, COMPARE.0, COMPARE.1), 0);
        assert_eq!(repeated(20, 200, ADD.0, ADD.1), 0);
    }

    #[test]
    fn what_does_not_fit_is_made_again() {
        assert_eq!(repeated(9, 200, COMPARE.0, COMPARE.1), 5);
        // One more than the block before needs: where one is made the others wait.
        assert_eq!(repeated(30, 24, ADD.0, ADD.1), 14);
    }

    /// A loop of one block reads thirty values that were made before it: those that do not fit are made where they are read.
    #[test]
    fn what_a_crowded_loop_reads_is_made_in_it() {
        let part = |line: &str| -> String {
            (1..=30).map(|k: u32| format!("    {}\n", line.replace('#', &k.to_string()))).collect()
        };
        let head = "func k entry max=24 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n";
        let (made, read) = (part(ADD.0), part(ADD.1));
        let t = format!(
            "{head}{made}    br blk1()\nblk1(): depth=1\n{read}    ISETP_RI.Cmp=1 Pu=%p99 Ra=%r0 Rb=0x7\n    brif %p99, blk1(), blk2()\n\
             blk2(): depth=0\n    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        let cfg = f.cfg();
        let live = Liveness::new(&f, &cfg);
        let by_block = regalloc::pressures(&f, &cfg, &live).1;
        assert!(by_block[1][0] > 30);
        assert!(run(&mut f, &cfg, &live, &by_block, [23, 7]));
        verify::ssa(&f).unwrap();
        let most = regalloc::pressures(&f, &cfg, &Liveness::new(&f, &cfg)).1[1][0];
        assert!((17..=19).contains(&most), "{most}");
    }

    /// Fifteen addresses of two words, made before a loop of one block that reads them: how many values are then alive in it at most, and how many
    /// instructions make them again there.
    fn addresses(make: &str, words: bool) -> (u32, usize) {
        let part = |line: &str| -> String {
            let name = |k: u32| line.replace("#c", &(200 + k).to_string()).replace("#h", &(100 + k).to_string());
            (2..17).map(|k| format!("    {}\n", name(k).replace('#', &k.to_string()))).collect()
        };
        let (made, read) = (part(make), part("STG.Size=4 Ra={%r#,%r#h} Rb=%r0 URc=UR4"));
        let t = format!(
            "func k entry max=24 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    S2R Rd=%r1 Sr=0x22\n{made}    br blk1()\n\
             blk1(): depth=1\n{read}    STG.Size=4 Ra={{%r0,%r1}} Rb=%r0 URc=UR4\n    ISETP_RI.Cmp=1 Pu=%p299 Ra=%r0 Rb=0x7\n    brif %p299, blk1(), blk2()\n\
             blk2(): depth=0\n    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        let cfg = f.cfg();
        let live = Liveness::new(&f, &cfg);
        let by_block = regalloc::pressures(&f, &cfg, &live).1;
        let list = candidates(&f, &cfg, &live);
        let list: Vec<&Cheap> = list.iter().filter(|c| words || c.values.len() == 1).collect();
        let chosen = choose(&f, &cfg, &live, &by_block, [23, 7], &list);
        repeat_all(&mut f, &list, &chosen);
        verify::ssa(&f).unwrap();
        let most = regalloc::pressures(&f, &cfg, &Liveness::new(&f, &cfg)).1[1][0];
        let again = |i: &&Inst| matches!(&i.op, Op::Sass(s) if matches!(s.form().class, Class::Alu | Class::FmaWide) && !s.form().mnemonic.starts_with("ISETP"));
        (most, f.blocks[1].insts.iter().filter(again).count())
    }

    #[test]
    fn both_words_of_an_address_are_made_again() {
        let wide = "IMAD_WIDE_RIR Rd={%r#,%r#h} Ra=%r0 Rb=# Rc={%r0,%r1}";
        assert_eq!(addresses(wide, false), (32, 0));
        let (most, again) = addresses(wide, true);
        assert!((17..=20).contains(&most) && again >= 7, "{most} {again}");
    }

    /// With the carry between them, each time one of its own.
    #[test]
    fn words_with_a_carry_are_made_again_together() {
        let sum = "IADD3_RIR Rd=%r# Pu=%p#c Ra=%r0 Rb=#\n    IADD3X_RIR Rd=%r#h Ra=%r1 Rb=0x1 Pp=%p#c";
        assert_eq!(addresses(sum, false), (32, 0));
        let (most, again) = addresses(sum, true);
        assert!((17..=20).contains(&most) && again >= 14 && again % 2 == 0, "{most} {again}");
    }

    /// A carry that two read stays where it is, and so does what makes it.
    #[test]
    fn a_carry_of_two_readers_stays() {
        let sum = "IADD3_RIR Rd=%r# Pu=%p#c Ra=%r0 Rb=#\n    IADD3X_RIR Rd=%r#h Ra=%r1 Rb=0x1 Pp=%p#c\n    IADD3X_RIR Rd=%r3#h Ra=%r1 Rb=0x2 Pp=%p#c";
        assert_eq!(addresses(sum, true).1, 0);
    }
}
