//! Life ranges: which registers live at which instruction, as the vendor's tool prints them with `-plr`.
//!
//! A register is in use at an instruction if it lives before it, or the instruction reads or writes it.

use super::code::{Columns, Options, Row, columns, head, pad, statement};
use super::{Function, Listing};
use crate::codec::Decoded;
use crate::form::{Slot, SlotName, Width};
use crate::inst::{Inst, Operand, Value};
use crate::latency;
use crate::reg::{File, Reg};
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// How life ranges are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ranges {
    /// A column of its own for each register.
    #[default]
    Wide,
    /// One character a register.
    Narrow,
    /// Only how many.
    Count,
}

/// The register files with their titles, first bit in [`Set`] and how many are shown: the vendor's tool has no uniform
/// registers beyond UR62 in its tables, which sm_100 and later do have.
const FILES: [(File, &str, usize, usize); 4] = [
    (File::Gpr, "GPR", 0, 255),
    (File::Pred, "PRED", 256, 7),
    (File::Ugpr, "UGPR", 264, 63),
    (File::Upred, "UPRED", 392, 7),
];

/// What the vendor's tool takes a call to overwrite, whoever is called (read off its tables).
const CLOBBERED: &[(File, RangeInclusive<usize>)] = &[
    (File::Gpr, 0..=0),
    (File::Gpr, 3..=15),
    (File::Gpr, 32..=35),
    (File::Gpr, 40..=43),
    (File::Gpr, 48..=51),
    (File::Gpr, 56..=59),
    (File::Gpr, 64..=67),
    (File::Gpr, 72..=75),
    (File::Gpr, 80..=83),
    (File::Gpr, 88..=91),
    (File::Gpr, 96..=99),
    (File::Pred, 0..=6),
    (File::Ugpr, 4..=35),
    (File::Upred, 0..=6),
];

/// Chips on which it takes the second result of a fetch from a texture for one register, whatever the mask, and the second source,
/// whatever lies in it (seen for 100 to 121).
const ONE_OF_OTHERS: RangeInclusive<u16> = 100..=121;

/// What it takes to live where a function returns.
const KEPT: &[(File, RangeInclusive<usize>)] = &[
    (File::Gpr, 2..=2),
    (File::Gpr, 16..=31),
    (File::Gpr, 36..=39),
    (File::Gpr, 44..=47),
    (File::Gpr, 52..=55),
    (File::Gpr, 60..=63),
];

/// A set of registers of all files.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Set([u64; 7]);

impl Set {
    fn insert(&mut self, n: usize) {
        self.0[n / 64] |= 1 << (n % 64);
    }

    fn has(&self, n: usize) -> bool {
        self.0[n / 64] >> (n % 64) & 1 != 0
    }

    fn or(mut self, other: &Set) -> Set {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
        self
    }

    fn without(mut self, other: &Set) -> Set {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= !b);
        self
    }

    fn of(list: &[(File, RangeInclusive<usize>)]) -> Set {
        let mut out = Set::default();
        for (file, range) in list {
            let Some(base) = FILES.iter().find(|f| f.0 == *file).map(|f| f.2) else { continue };
            range.clone().for_each(|n| out.insert(base + n));
        }
        out
    }

    /// Of these registers those up to the highest of each file in this set.
    fn upto(&self, list: &[(File, RangeInclusive<usize>)]) -> Set {
        let mut out = Set::default();
        for (file, range) in list {
            let Some((_, _, base, limit)) = FILES.iter().find(|f| f.0 == *file) else { continue };
            let Some(last) = (0..*limit).rev().find(|n| self.has(base + n)) else { continue };
            range.clone().filter(|&n| n <= last).for_each(|n| out.insert(base + n));
        }
        out
    }

    /// Those of one file.
    fn of_file(&self, file: File) -> Set {
        let mut out = Set::default();
        let range = FILES.iter().find(|f| f.0 == file).map_or(0..0, |f| f.2..f.2 + f.3);
        range.filter(|&n| self.has(n)).for_each(|n| out.insert(n));
        out
    }

    /// How many registers of a file are in it.
    pub(super) fn count(&self, file: File) -> usize {
        FILES.iter().find(|f| f.0 == file).map_or(0, |f| (f.2..f.2 + f.3).filter(|&n| self.has(n)).count())
    }
}

fn bit(reg: Reg) -> Option<usize> {
    if reg.is_const() || reg.is_virtual() {
        return None;
    }
    let (_, _, base, limit) = FILES.iter().find(|f| f.0 == reg.file())?;
    (reg.index() < *limit as u32).then(|| base + reg.index() as usize)
}

/// What an instruction reads and writes.
#[derive(Clone, Copy, Default)]
pub(super) struct Effect {
    pub uses: Set,
    pub defs: Set,
    /// What it certainly overwrites.
    kills: Set,
}

/// True of the second result and the second source of a fetch from a texture.
fn second_of_fetch(inst: &Inst, slot: &Slot) -> bool {
    let fetch = matches!(inst.form().mnemonic, "TEX" | "TLD" | "TLD4");
    matches!(slot.width, Width::Named { others: true, .. }) || fetch && slot.name == SlotName::Rb
}

impl Effect {
    fn of(inst: &Inst, sm: u16) -> Effect {
        let mut out = Effect::default();
        let always = !guarded(inst);
        for r in inst.regs() {
            if r.reg.is_const() {
                continue;
            }
            // Reading all predicates at once does not count, nor writing all uniform ones.
            let implied = r.slot.is_some_and(|s| inst.form().slots[s as usize].bits.is_empty());
            let counted = !implied || r.def && r.reg.file() == File::Pred;
            let second = r.slot.is_some_and(|s| second_of_fetch(inst, inst.form().slots[s as usize]));
            let width = if second && ONE_OF_OTHERS.contains(&sm) { 1 } else { r.width as u32 };
            for n in 0..if counted { width } else { 0 } {
                let Some(bit) = bit(r.reg).map(|b| b + n as usize) else { continue };
                if bit >= 7 * 64 {
                    continue;
                }
                match r.def {
                    true => {
                        out.defs.insert(bit);
                        if always {
                            out.kills.insert(bit);
                        }
                    }
                    // The vendor's tool takes the predicate of LDGSTS for one of its results, too.
                    false if r.reg.file() == File::Pred && r.slot.is_some() && inst.form().mnemonic == "LDGSTS" => {
                        out.uses.insert(bit);
                        out.defs.insert(bit);
                    }
                    false => out.uses.insert(bit),
                }
            }
        }
        out
    }
}

/// How control leaves an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Flow {
    /// Goes on with the next instruction.
    pub next: bool,
    /// Goes to these instructions.
    pub to: Vec<usize>,
    /// Returns from a function.
    pub returns: bool,
    /// Calls a function.
    pub call: bool,
    /// The function that it calls, if the instruction says so.
    pub callee: Option<usize>,
    /// Ends a block, though it may go on with the next instruction.
    pub ends: bool,
    /// Where a call goes that finds no function there: to graphs and JSON a branch, to life ranges a call.
    pub jump: Option<usize>,
}

impl Listing<'_> {
    /// True for a call to a place where no function begins: in graphs and JSON the vendor's tool takes it for a branch.
    pub(super) fn jumps(&self, n: usize, at: usize, inst: &Inst) -> bool {
        let offset = at as u64 * 16;
        let target =
            inst.operands.iter().find_map(|o| if let Value::Target(d) = o.value { Some(d.get()) } else { None });
        let through = inst.operands.iter().any(|o| o.as_reg().is_some_and(|r| r.file() != File::Pred));
        let Some(target) = target.filter(|_| inst.form().mnemonic.starts_with("CALL") && !through) else {
            return false;
        };
        let Ok(target) = u64::try_from(offset as i64 + 16 + target) else { return false };
        let section = &self.file.sections[n];
        target < section.words.len() as u64 * 16
            && super::labels::function_at(self.file, n, target).is_none()
            && !section.relocations.iter().any(|r| r.offset == offset)
    }

    /// Where each instruction of a section goes to.
    pub(super) fn flows(&self, n: usize) -> Vec<Flow> {
        let (section, code) = (&self.file.sections[n], &self.code[n]);
        let mut out = Vec::with_capacity(code.len());
        for (at, decoded) in code.iter().enumerate() {
            let Some(inst) = decoded.known() else {
                out.push(Flow { next: true, ..Flow::default() });
                continue;
            };
            let target = inst.operands.iter().find_map(|o| match o.value {
                Value::Target(d) => usize::try_from(at as i64 + 1 + d.get() / 16).ok().filter(|t| *t < code.len()),
                _ => None,
            });
            let mnemonic = inst.form().mnemonic;
            let base = mnemonic.split('.').next().unwrap_or(mnemonic);
            let always = unconditional(inst);
            out.push(match base {
                "EXIT" | "KILL" => Flow { next: !always, ends: true, ..Flow::default() },
                "BRA" => Flow { next: !always, ends: true, to: target.into_iter().collect(), ..Flow::default() },
                "BRX" | "BRXU" | "JMX" | "JMXU" => {
                    let targets = section.branches.iter().find(|b| b.0 == at as u64 * 16);
                    let targets = targets.map(|t| t.1.iter().map(|t| (t / 16) as usize).collect());
                    let to: Vec<usize> = targets.unwrap_or_default();
                    Flow { next: !always, to: to.into_iter().filter(|&t| t < code.len()).collect(), ..Flow::default() }
                }
                "RET" => Flow { next: !always, returns: true, ends: true, ..Flow::default() },
                "CALL" => {
                    // Where the next function begins behind it, who is called does not return.
                    let next = !always || super::labels::function_at(self.file, n, 16 * (at as u64 + 1)).is_none();
                    let indirect = inst.operands.iter().any(|o| o.as_reg().is_some_and(|r| r.file() != File::Pred));
                    let jumps = self.jumps(n, at, inst);
                    let callee = target.filter(|_| !indirect && !jumps);
                    Flow { next, call: true, callee, jump: target.filter(|_| jumps), ..Flow::default() }
                }
                _ => Flow { next: true, ..Flow::default() },
            });
        }
        out
    }

    /// What the instructions of a section do, but for what calls overwrite; and what lives where its functions return.
    fn effects(&self, n: usize, flows: &[Flow]) -> (Vec<Effect>, Set) {
        let of = |d: &Decoded| d.known().map_or(Effect::default(), |i| Effect::of(i, self.file.sm));
        let mut effects: Vec<Effect> = self.code[n].iter().map(of).collect();
        for (_, e) in flows.iter().zip(&mut effects).filter(|(f, _)| f.call) {
            e.uses = e.uses.or(&Set::of(&[(File::Gpr, 0..=1)]));
        }
        if !flows.iter().any(|f| f.returns) {
            return (effects, Set::default());
        }
        // Up to as many registers as the file says the function has.
        let count = self.file.sections[n].registers as usize;
        let all = match count {
            0 => effects.iter().fold(Set::default(), |s, e| s.or(&e.uses).or(&e.defs)),
            count => Set::of(&[(File::Gpr, count.min(255) - 1..=count.min(255) - 1)]),
        };
        (effects, all.upto(KEPT))
    }

    /// What lives before each instruction, and what each one does, of every section.
    pub(super) fn live(&self, flows: &[Vec<Flow>]) -> Vec<(Vec<Set>, Vec<Effect>)> {
        let mut effects: Vec<(Vec<Effect>, Set)> = flows.iter().enumerate().map(|(n, f)| self.effects(n, f)).collect();
        let mut seen = Set::default();
        for (list, kept) in &effects {
            seen = list.iter().fold(seen.or(kept), |s, e| s.or(&e.uses).or(&e.defs));
        }
        let clobbered = seen.upto(CLOBBERED);
        for (n, ((list, _), flows)) in effects.iter_mut().zip(flows).enumerate() {
            let mut clobbered = clobbered;
            if let Some(last) = self.file.sections[n].last_register {
                // Of general registers only those that the function itself has.
                let beyond = Set::of(&[(File::Gpr, last as usize + 1..=254)]);
                clobbered = clobbered.without(&beyond);
            }
            for ((_, e), code) in flows.iter().zip(list).zip(&self.code[n]).filter(|((f, _), _)| f.call) {
                e.defs = e.defs.or(&clobbered);
                if code.known().is_some_and(|i| !guarded(i)) {
                    e.kills = e.kills.or(&clobbered);
                }
            }
        }
        let starts = |n: usize| {
            let mut starts = leaders(&flows[n], flows[n].len(), |i| self.label(n, i as u64 * 16).is_some());
            // Behind a conditional branch a run goes on, unless something goes there.
            let mut entered = vec![false; starts.len()];
            flows[n].iter().flat_map(|f| &f.to).for_each(|&t| entered[t] = true);
            for i in 1..starts.len() {
                starts[i] &= entered[i] || !flows[n][i - 1].next || self.place(n, i as u64 * 16).is_some();
            }
            starts
        };
        let all = effects.into_iter().zip(flows).enumerate();
        all.map(|(n, ((mut list, kept), flows))| {
            let live = lives(flows, &list, &kept, &starts(n));
            // A uniform register that the very first instruction reads is none of the function's: kernels for sm_87 begin with a look at
            // UR2, which they set when all else is set up.
            let foreign = list.first().map(|e| e.uses.of_file(File::Ugpr)).unwrap_or_default();
            if foreign == Set::default() {
                return (live, list);
            }
            for e in &mut list {
                (e.uses, e.defs, e.kills) =
                    (e.uses.without(&foreign), e.defs.without(&foreign), e.kills.without(&foreign));
            }
            (lives(flows, &list, &kept, &starts(n)), list)
        })
        .collect()
    }

    /// Every section of code with its table of life ranges.
    pub fn life_ranges(&self, ranges: Ranges, options: Options) -> Vec<String> {
        let lines: Vec<_> = (0..self.code.len()).map(|n| self.lines(n, options)).collect();
        let columns = columns(&lines);
        let mut widest = 0;
        for n in 0..lines.len() {
            let count = self.code_end(n);
            for row in self.rows(n, count) {
                match row {
                    Row::Function(f, end) => {
                        widest = head(f, end).iter().map(String::len).max().unwrap_or(0).max(widest);
                    }
                    Row::Inst(_) => {}
                    Row::Section => widest = widest.max(self.file.sections[n].name.len() + 1),
                    Row::Label(l) => widest = widest.max(l.len() + 1),
                }
            }
        }
        // Notes widen all lines, those of functions and labels too as far as they are longer than a line with its note.
        let noted =
            lines.iter().flatten().filter_map(|l| Some(l.width() + l.note.as_ref()?.len() + 9)).max().unwrap_or(0);
        let notes = columns.words_at - 2 - columns.notes_at;
        let at = columns.notes_at + notes + widest.saturating_sub(noted.max(columns.notes_at)) + 6;
        let at = at + if options.hex { 48 } else { 0 };
        let flows: Vec<Vec<Flow>> = (0..lines.len()).map(|n| self.flows(n)).collect();
        let live = self.live(&flows);
        let table = Table::new(live.iter().flat_map(|l| l.0.iter().zip(&l.1)), ranges);
        let page = Page { table, at, columns, options };
        (0..lines.len()).map(|n| self.ranges(n, &lines[n], &flows[n], &live[n], &page)).collect()
    }

    fn assembly(&self, out: &mut String, n: usize, line: &super::code::Line, columns: Columns, options: Options) {
        let from = out.len();
        statement(out, line, columns, options);
        if options.hex && !options.raw {
            let word = self.file.sections[n].words[line.offset as usize / 16];
            pad(out, from, columns.words_at);
            let _ = write!(
                out,
                "/* {:#018x} */\n{:w$}/* {:#018x} */",
                word as u64,
                "",
                (word >> 64) as u64,
                w = columns.words_at
            );
        }
    }

    /// How many instructions a section has without the NOPs that fill it up.
    pub(super) fn code_end(&self, n: usize) -> usize {
        let nop = |d: &Decoded| d.known().is_some_and(|i| i.form().mnemonic == "NOP");
        self.code[n].iter().rposition(|d| !nop(d)).map_or(0, |p| p + 1)
    }

    /// Instructions that nothing leads to and that have no name: tables of life ranges leave them out.
    fn unreached(&self, n: usize, flows: &[Flow]) -> Vec<bool> {
        let mut entered: Vec<bool> = (0..flows.len()).map(|i| self.place(n, i as u64 * 16).is_some()).collect();
        flows.iter().flat_map(|f| &f.to).for_each(|&t| entered[t] = true);
        let mut dead = vec![false; flows.len()];
        for i in 1..flows.len() {
            dead[i] = !entered[i] && (dead[i - 1] || !flows[i - 1].next);
        }
        dead
    }

    fn ranges(
        &self,
        n: usize,
        lines: &[super::code::Line],
        flows: &[Flow],
        (live, effects): &(Vec<Set>, Vec<Effect>),
        page: &Page,
    ) -> String {
        let Page { table, at, columns, options } = page;
        let (at, columns, options) = (*at, *columns, *options);
        let count = self.code_end(n);
        let mut out = self.title(n, options.raw);
        let beside = |out: &mut String, text: &str, row: &str| {
            let _ = writeln!(out, "{text:at$}// {row}");
        };
        for row in table.heading() {
            beside(&mut out, "", &row);
        }
        let leaders = leaders(flows, count, |i| self.label(n, i as u64 * 16).is_some());
        let dead = self.unreached(n, flows);
        let dotted = |i: usize| {
            let ends = |i: usize| !flows[i].next && !flows[i].call || dead[i];
            let asks = self.code[n][i].known().is_some_and(|inst| inst.asks_lanes());
            let single = leaders[i] && (i + 1 >= count || leaders[i + 1]) && !asks;
            if single { ends(i) } else { i > 0 && ends(i - 1) }
        };
        let mut next = 0;
        for row in self.rows(n, count) {
            match row {
                Row::Function(f, end) => {
                    let first: &Function = f;
                    for (k, line) in head(f, end).iter().enumerate() {
                        let border = k == 0 && first.offset > 0 && dotted((first.offset / 16) as usize);
                        let row = if border { table.border('.') } else { table.blank() };
                        beside(&mut out, line, &row);
                    }
                }
                Row::Section => {
                    beside(&mut out, &format!("{}:", self.file.sections[n].name), &table.blank());
                }
                Row::Label(label) => {
                    let row = match dotted(next) {
                        true => table.border('.'),
                        false => table.row(&live[next].or(&effects[next].defs), &Effect::default()),
                    };
                    beside(&mut out, &format!("{label}:"), &row);
                }
                Row::Inst(i) if dead[i] => next = i + 1,
                Row::Inst(i) => {
                    let mut text = String::new();
                    self.assembly(&mut text, n, &lines[i], columns, options);
                    let row = table.row(&live[i].or(&effects[i].defs), &effects[i]);
                    match text.split_once('\n') {
                        Some((first, second)) => {
                            beside(&mut out, first, &table.blank());
                            beside(&mut out, second, &row);
                        }
                        None => beside(&mut out, &text, &row),
                    }
                    next = i + 1;
                }
            }
        }
        if let Some(label) = self.label(n, lines.len() as u64 * 16) {
            beside(&mut out, &format!("{label}:"), &table.border('-'));
        }
        out.push('\n');
        for line in LEGEND {
            beside(&mut out, "", line);
        }
        out.push('\n');
        out
    }
}

/// What lives before each instruction, as the vendor's tool has it. It looks at runs of code that only their begin is
/// entered at, which a conditional branch does not end. Between them, a register that is written anywhere in a run, under
/// whatever guard, needs no value from before, unless it is read there before it is certainly written; within a run only an unguarded
/// write ends what lives before.
fn lives(flows: &[Flow], effects: &[Effect], kept: &Set, starts: &[bool]) -> Vec<Set> {
    // The stack pointer lives wherever code is left.
    let stack = Set::of(&[(File::Gpr, 1..=1)]);
    let mut runs: Vec<Run> = Vec::new();
    let mut run_of = vec![0; flows.len() + 1];
    for (at, effect) in effects.iter().enumerate() {
        if starts[at] || runs.is_empty() {
            runs.push(Run { from: at, to: at, ..Run::default() });
        }
        run_of[at] = runs.len() - 1;
        let Some(run) = runs.last_mut() else { continue };
        run.to = at + 1;
        run.reads = run.reads.or(&effect.uses.without(&run.kills));
        run.kills = run.kills.or(&effect.kills);
        run.writes = run.writes.or(&effect.defs);
        if !flows[at].to.is_empty() || flows[at].returns {
            run.exits.push((at, run.writes));
        }
    }
    // What lives where an instruction goes to, but for the next one.
    let away = |runs: &[Run], at: usize| {
        let out = match &flows[at] {
            f if f.returns => stack.or(kept),
            f if f.ends || !f.next || !f.to.is_empty() => stack,
            _ => Set::default(),
        };
        flows[at].to.iter().fold(out, |out, &t| out.or(&runs[run_of[t]].live))
    };
    let behind = |runs: &[Run], run: &Run| {
        let next = flows[run.to - 1].next && run.to < flows.len();
        if next { stack.or(&runs[run_of[run.to]].live) } else { stack }
    };
    let mut from: Vec<Vec<usize>> = vec![Vec::new(); runs.len()];
    for (n, run) in runs.iter().enumerate() {
        let next = (flows[run.to - 1].next && run.to < flows.len()).then_some(&run.to);
        for &t in run.exits.iter().flat_map(|e| &flows[e.0].to).chain(next) {
            from[run_of[t]].push(n);
        }
    }
    let mut waiting = vec![true; runs.len()];
    let mut work: Vec<usize> = (0..runs.len()).collect();
    while let Some(n) = work.pop() {
        waiting[n] = false;
        let run = &runs[n];
        let mut before = behind(&runs, run).without(&run.writes).or(&run.reads);
        for (at, writes) in &run.exits {
            before = before.or(&away(&runs, *at).without(writes));
        }
        if before != run.live {
            runs[n].live = before;
            for &p in &from[n] {
                if !std::mem::replace(&mut waiting[p], true) {
                    work.push(p);
                }
            }
        }
    }
    let mut live = vec![Set::default(); flows.len()];
    for run in &runs {
        let mut now = behind(&runs, run);
        for at in (run.from..run.to).rev() {
            now = now.or(&away(&runs, at)).without(&effects[at].kills).or(&effects[at].uses);
            live[at] = now;
        }
    }
    live
}

/// Code that only its begin is entered at, for [`lives`].
#[derive(Default)]
struct Run {
    from: usize,
    to: usize,
    /// Read before it is certainly written in the run.
    reads: Set,
    kills: Set,
    writes: Set,
    /// Instructions that go elsewhere, with what is written up to them.
    exits: Vec<(usize, Set)>,
    /// Lives at its begin, for those before it.
    live: Set,
}

const LEGEND: [&str; 7] = [
    "Legend:",
    "    ^       : Register assignment",
    "    v       : Register usage",
    "    x       : Register usage and reassignment",
    "    :       : Register in use",
    "    <space> : Register not in use",
    "    #       : Number of occupied registers",
];

/// True if a predicate decides whether an instruction takes effect; to the vendor's tool guards of the uniform datapath are none.
fn guarded(inst: &Inst) -> bool {
    inst.guard.as_reg().is_some_and(|r| r.file() == File::Pred && (!r.is_const() || inst.guard.inv))
}

/// True where nothing lets an instruction be skipped: no guard, no predicate among its operands.
pub(super) fn unconditional(inst: &Inst) -> bool {
    let free = inst.guard.as_reg().is_none_or(Reg::is_const) && !inst.guard.inv;
    let mnemonic = inst.form().mnemonic;
    let conditional = inst.operands.iter().enumerate().any(|(n, o)| match o.as_reg() {
        Some(r) if matches!(r.file(), File::Pred | File::Upred) => {
            !r.is_const() && inst.form().slots[n].role == crate::form::Role::Use || o.inv
        }
        _ => false,
    });
    // `BRA.DIV UR4`: where the lanes of the mask are not together.
    let masked = |o: &Operand| o.as_reg().is_some_and(|r| r.file() == File::Ugpr && (!r.is_const() || o.inv));
    let asked = mnemonic.starts_with("BRA") && inst.operands.iter().any(masked);
    free && !conditional && !asked && !inst.asks_lanes()
}

/// Which instructions begin a basic block.
pub(super) fn leaders(flows: &[Flow], count: usize, labelled: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut out = vec![false; count + 1];
    for (i, f) in flows.iter().enumerate().take(count) {
        if i == 0 || labelled(i) {
            out[i] = true;
        }
        if !f.next || !f.to.is_empty() || f.ends {
            out[i + 1] = true;
        }
        for &t in f.to.iter().filter(|t| **t < count) {
            out[t] = true;
        }
    }
    out
}

/// What is the same for all sections of a file.
struct Page {
    table: Table,
    /// Where the table begins.
    at: usize,
    columns: Columns,
    options: Options,
}

/// One table: for each file that is used, its registers.
struct Table {
    files: Vec<Column>,
    ranges: Ranges,
}

struct Column {
    title: &'static str,
    file: File,
    base: usize,
    /// Registers 0 to this are shown.
    registers: usize,
    /// Digits of how many they are.
    digits: usize,
}

impl Table {
    fn new<'s>(rows: impl Iterator<Item = (&'s Set, &'s Effect)>, ranges: Ranges) -> Table {
        let mut all = Set::default();
        for (live, e) in rows {
            all = all.or(live).or(&e.defs).or(&e.uses);
        }
        let mut files = Vec::new();
        for (file, title, base, limit) in FILES {
            let Some(last) = (0..limit).rev().find(|&n| all.has(base + n)) else { continue };
            files.push(Column { title, file, base, registers: last + 1, digits: (last + 1).to_string().len() });
        }
        Table { files, ranges }
    }

    fn join(&self, each: impl Fn(&Column) -> String) -> String {
        let mut out = String::from("|");
        for c in &self.files {
            let _ = write!(out, "{:w$}|", center(&each(c), self.inner(c)), w = self.inner(c));
        }
        out
    }

    /// Width of a column between its borders.
    fn inner(&self, c: &Column) -> usize {
        (self.content(c) + 3).max(c.title.len() + 4)
    }

    /// Width of what stands in a column.
    fn content(&self, c: &Column) -> usize {
        match self.ranges {
            Ranges::Count => c.digits,
            Ranges::Narrow => c.digits + 1 + c.registers,
            Ranges::Wide => c.digits + (0..c.registers).map(|n| 1 + n.to_string().len()).sum::<usize>(),
        }
    }

    fn border(&self, with: char) -> String {
        let mut out = String::from("+");
        for c in &self.files {
            out.extend(std::iter::repeat_n(with, self.inner(c)));
            out.push('+');
        }
        out
    }

    fn blank(&self) -> String {
        self.join(|_| String::new())
    }

    fn heading(&self) -> Vec<String> {
        let mut title = String::from("|");
        for c in &self.files {
            let inner = self.inner(c);
            let left = (inner - 2 - c.title.len()).div_ceil(2);
            let _ = write!(title, "{:inner$}|", format!("{}{}", " ".repeat(left), c.title));
        }
        let mut out = vec![self.border('-'), title];
        match self.ranges {
            Ranges::Count => out.push(self.join(|c| format!("{:>1$}", "#", c.digits))),
            Ranges::Wide => out.push(self.join(|c| {
                let mut s = format!("{:>1$}", "#", c.digits);
                (0..c.registers).for_each(|n| _ = write!(s, " {n}"));
                s
            })),
            Ranges::Narrow => {
                for power in [100, 10, 1] {
                    out.push(self.join(|c| {
                        let mut s = format!("{:>1$} ", if power == 1 { "#" } else { "" }, c.digits);
                        let shown = power == 1 || c.registers >= power;
                        (0..c.registers).for_each(|n| match shown {
                            true => s.push((b'0' + (n / power % 10) as u8) as char),
                            false => s.push(' '),
                        });
                        s
                    }));
                }
            }
        }
        out.push(self.border('-'));
        out
    }

    fn row(&self, live: &Set, effect: &Effect) -> String {
        self.join(|c| {
            let count = live.count(c.file);
            // Beside nothing else a number is as wide as that of the last register: of ten registers it has one digit.
            let digits = match self.ranges {
                Ranges::Count => (c.registers - 1).to_string().len(),
                Ranges::Narrow | Ranges::Wide => c.digits,
            };
            let mut s = match count {
                0 => " ".repeat(digits),
                n => format!("{n:>digits$}"),
            };
            if self.ranges == Ranges::Narrow {
                s.push(' ');
            }
            if self.ranges != Ranges::Count {
                for n in 0..c.registers {
                    let bit = c.base + n;
                    let mark = match (effect.uses.has(bit), effect.defs.has(bit)) {
                        (true, true) => 'x',
                        (true, false) => 'v',
                        (false, true) => '^',
                        _ if live.has(bit) => ':',
                        _ => ' ',
                    };
                    match self.ranges {
                        Ranges::Wide => _ = write!(s, " {mark:>0$}", n.to_string().len()),
                        _ => s.push(mark),
                    }
                }
            }
            s
        })
    }
}

/// A text in the middle of so many columns; what cannot be halved is on the right.
fn center(text: &str, width: usize) -> String {
    let left = width.saturating_sub(text.len()) / 2;
    format!("{}{text}", " ".repeat(left))
}

/// When the results of an instruction are there: `// ready: R0 4-10`, cycles after its issue for the nearest and the
/// farthest reader, or the scoreboard that tells.
pub(super) fn latency_note(inst: &Inst, sm: u16) -> String {
    if !inst.regs().iter().any(|r| r.def && !r.reg.is_const()) {
        return String::new();
    }
    if latency::needs_write_sb(inst, sm) {
        return match inst.ctrl.write_sb {
            Some(sb) => format!("// ready: SB{sb}"),
            None => "// ready: by a later scoreboard".into(),
        };
    }
    let mut out = String::from("// ready:");
    for r in inst.regs().iter().filter(|r| r.def && !r.reg.is_const()) {
        let Some(slot) = r.slot else { continue };
        for word in 0..r.width as u32 {
            let Some((soon, late)) = latency::ready(inst, slot, word, sm) else { continue };
            let _ = write!(out, " {} {soon}", r.reg.offset(word));
            if late > soon {
                let _ = write!(out, "-{late}");
            }
        }
    }
    out
}
