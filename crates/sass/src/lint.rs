//! The static hazard checker: over all paths through a function, does every instruction wait for what it needs?
//!
//! What it proves, with the numbers of [`latency`]:
//! - a register is read only after its producer's latency: cumulative stall counts on every path for fixed latencies, a
//!   wait for the producer's scoreboard for the others;
//! - a register is overwritten only after earlier writes to it have landed (WAW) and earlier reads of it are done (WAR);
//! - a scoreboard is waited for no sooner than [`latency::SCOREBOARD_SET`] cycles after it was set;
//! - what a product of a warpgroup (HGMMA and its kin) adds up is read or overwritten, and its operand in registers overwritten, only after
//!   a WARPGROUP.DEPBAR that waits for its group. Products among themselves stay in order;
//! - a register that such a product takes is handed over by a WARPGROUP.ARRIVE after it was written.
//!
//! Results of one queue (shared memory and shuffles, decoupled arithmetic) return in order, so one without a scoreboard
//! counts as done when a later one of the same queue is waited for, as the vendor's code relies on. Calls within the function's text are followed by call site.
//! Lanes that a guard sends elsewhere are left out where the same predicate, not written in between, guards both
//! instructions with opposite sense.

mod arrive;
mod facts;
mod stated;

pub use stated::{Stated, check_stated};

use crate::codec::{Decoded, decode};
use crate::control::Control;
use crate::form::{Form, Role, SlotKind, SlotName};
use crate::forms;
use crate::inst::{Inst, Value};
use crate::latency::queue::{in_order, queue, read_in_order};
use crate::latency::{self, Class, Latency};
use crate::reg::{File, Reg};
use crate::text::{NoLabels, print};
use facts::{
    ALWAYS, Fact, MANY_GROUPS, MANY_LATER, NO_GROUP, NO_SB, OLD, ends_group, groups_left, oldest, unit, unit_name,
    unite,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// What the words alone do not say about the flow.
#[derive(Clone, Debug, Default)]
pub struct CfgHints {
    /// Byte offsets where execution may begin; offset 0 is always one.
    pub entries: Vec<u64>,
    /// For the byte offset of a BRX or BRXU: the byte offsets it may go to.
    pub indirect: Vec<(u64, Vec<u64>)>,
    /// Byte offsets of instructions that a linker fills in, in ascending order: calls and branches there go to other code.
    pub elsewhere: Vec<u64>,
}

/// What is wrong between two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Read too soon after a write of fixed latency.
    ReadTooSoon,
    /// Read without waiting for the scoreboard of the write.
    ReadWithoutWait,
    /// Overwritten before an earlier write has landed.
    OverwriteOfWrite,
    /// Overwritten while an earlier instruction may still read it.
    OverwriteOfRead,
    /// A scoreboard waited for in the cycle after it was set.
    WaitTooSoon,
    /// A register that a product of a warpgroup takes, written without a WARPGROUP.ARRIVE in between.
    NotHandedOver,
    /// A word that is no known instruction.
    Unknown,
    /// A reuse flag that the instruction may not have.
    Reuse,
    /// A register beyond those that the file states.
    Registers,
    /// A barrier beyond those that the file states.
    Barriers,
}

/// A hazard that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Byte offset of the instruction that does not wait.
    pub offset: u64,
    /// Byte offset of the one that it should have waited for.
    pub first: u64,
    /// What kind it is.
    pub kind: Kind,
    /// A sentence that names both instructions and the register.
    pub message: String,
}

impl std::fmt::Display for Hazard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#06x}: {}", self.offset, self.message)
    }
}

struct Checker<'a> {
    code: Vec<Option<Inst>>,
    sm: u16,
    hints: &'a CfgHints,
    /// BSSY targets by barrier register.
    bssy: FxHashMap<u32, Vec<usize>>,
    found: Vec<Hazard>,
    seen: FxHashSet<(u32, u32, Kind)>,
}

/// Where control goes after an instruction.
enum Next {
    Fall,
    To(Vec<usize>),
    Call { callee: usize, back: usize, falls: bool },
    Return { falls: bool },
}

impl Checker<'_> {
    fn next(&self, at: usize, inst: &Inst) -> Next {
        let target = || {
            inst.operands.iter().find_map(|op| match op.value {
                Value::Target(d) => usize::try_from(at as i64 + 1 + d.get().div_euclid(16)).ok(),
                _ => None,
            })
        };
        // Taken by every lane: no guard, no condition, no mask.
        let plain = |o: &crate::inst::Operand| !o.inv && o.as_reg().is_some_and(Reg::is_const);
        let condition = |(slot, o): (&&crate::form::Slot, &crate::inst::Operand)| match slot.kind {
            SlotKind::Reg(File::Pred | File::Upred) => plain(o),
            // A branch that goes by a mask in a uniform register, or by what all lanes do.
            SlotKind::Reg(File::Ugpr) => inst.form().mnemonic != "BRA",
            _ => true,
        };
        let always = plain(&inst.guard)
            && inst.form().slots.iter().zip(&inst.operands).all(condition)
            && !inst.asks_lanes()
            && !matches!(inst.form, forms::BRA_U_ANY | forms::BRA_DIV | forms::BRA_CONV);
        let with_fall = |mut list: Vec<usize>| {
            if !always {
                list.push(at + 1);
            }
            Next::To(list)
        };
        let linked = || self.hints.elsewhere.binary_search(&(at as u64 * 16)).is_ok();
        match inst.form().mnemonic {
            "BRA" | "JMP" if linked() => with_fall(Vec::new()),
            "CALL" if linked() => Next::Fall,
            "BRA" | "JMP" => with_fall(target().into_iter().collect()),
            "BRX" | "BRXU" | "JMX" | "JMXU" => {
                let known = self.hints.indirect.iter().find(|(offset, _)| *offset == at as u64 * 16);
                with_fall(known.map_or(Vec::new(), |(_, to)| to.iter().map(|t| (t / 16) as usize).collect()))
            }
            "EXIT" | "KILL" => with_fall(Vec::new()),
            "RET" => Next::Return { falls: !always },
            // A call through a register goes where nobody knows.
            "CALL" if inst.get(SlotName::Ra).is_none() => match target() {
                Some(callee) => Next::Call { callee, back: at + 1, falls: !always },
                None => Next::Fall,
            },
            "BSYNC" => {
                let barrier = inst.operands.iter().filter_map(|o| o.as_reg()).find(|r| r.file() == File::Bar);
                let targets = barrier.and_then(|b| self.bssy.get(&b.index())).cloned().unwrap_or_default();
                if !targets.is_empty() && !targets.contains(&(at + 1)) {
                    return with_fall(targets);
                }
                Next::Fall
            }
            _ => Next::Fall,
        }
    }

    fn report(&mut self, first: &Fact, second: usize, kind: Kind, detail: String) {
        if !self.seen.insert((first.by, second as u32, kind)) {
            return;
        }
        let text = |n: usize| match self.code.get(n) {
            Some(Some(inst)) => print(inst, n as u64 * 16, &NoLabels),
            _ => "?".into(),
        };
        let message = format!(
            "`{}` {detail} `{}` at {:#06x} ({})",
            text(second),
            text(first.by as usize),
            first.by as u64 * 16,
            unit_name(first.unit)
        );
        self.found.push(Hazard { offset: second as u64 * 16, first: first.by as u64 * 16, kind, message });
    }

    /// Takes the facts over one instruction, reporting what is wrong.
    fn step(&mut self, at: usize, facts: &mut Vec<Fact>, touches: &mut Vec<(u16, u8, u8, bool)>) {
        let Some(inst) = self.code[at].take() else { return };
        let ctrl: Control = inst.ctrl;
        let form: &'static Form = inst.form();
        // 1. Waits.
        let mut waited = ctrl.wait & 63;
        if form.mnemonic == "DEPBAR" {
            if latency::immediate(&inst, SlotName::Pending) == Some(0) {
                waited |= 1 << (latency::immediate(&inst, SlotName::Sb).unwrap_or(0) & 7);
            }
            waited |= latency::immediate(&inst, SlotName::Waits).unwrap_or(0) as u8 & 63;
            // As many may be left as it says; what comes back in order is done if as many have set the scoreboard after it.
            if let (Some(left), Some(sb)) =
                (latency::immediate(&inst, SlotName::Pending), latency::immediate(&inst, SlotName::Sb))
            {
                facts.retain(|f| i64::from(f.own) != sb || i64::from(f.later) < left);
            }
        }
        if waited != 0 {
            for fact in facts.iter().filter(|f| f.own != NO_SB && ctrl.wait >> f.own & 1 != 0) {
                if fact.age < latency::SCOREBOARD_SET {
                    self.code[at] = Some(inst.clone());
                    self.report(
                        fact,
                        at,
                        Kind::WaitTooSoon,
                        "waits for a scoreboard in the cycle after it is set by".into(),
                    );
                    self.code[at].take();
                }
            }
            facts.retain(|f| f.scoreboards & waited == 0);
        }
        if let Some(left) = groups_left(&inst) {
            facts.retain(|f| f.groups == NO_GROUP || f.groups <= left);
        }
        // 2. What it reads and writes: (unit, slot, word, written).
        touches.clear();
        for r in inst.regs() {
            if r.reg.is_const() || r.reg.file() == File::Bar || r.reg.is_virtual() {
                continue;
            }
            for word in 0..r.width {
                touches.push((unit(r.reg.offset(word as u32)), r.slot.unwrap_or(255), word, r.def));
            }
        }
        let guard_reg = inst.guard.as_reg().filter(|r| !r.is_const());
        let guard = guard_reg.map_or(ALWAYS, |r| (unit(r), inst.guard.inv));
        let mut problems: Vec<(Fact, Kind, String)> = Vec::new();
        for fact in facts.iter() {
            // The guard itself is read whatever it says; other operands only where it holds.
            let apart = fact.guard != ALWAYS && fact.guard.0 == guard.0 && fact.guard.1 != guard.1;
            for &(touched, slot, word, def) in touches.iter() {
                if touched != fact.unit || (apart && slot != 255) {
                    continue;
                }
                let Some(Some(first)) = self.code.get(fact.by as usize).map(|c| c.as_ref().or(Some(&inst))) else {
                    continue;
                };
                if fact.groups != NO_GROUP {
                    // Sums go from product to product; an operand in registers is read like any other register.
                    let sum = form.class == Class::Gmma
                        && form.slots.get(slot as usize).is_none_or(|s| s.name != SlotName::Ra);
                    let (kind, what) = match (fact.write, def) {
                        (true, false) => (Kind::ReadWithoutWait, "reads a sum"),
                        (true, true) => (Kind::OverwriteOfWrite, "overwrites a sum"),
                        (false, true) => (Kind::OverwriteOfRead, "overwrites an operand"),
                        (false, false) => continue,
                    };
                    if !sum {
                        problems.push((*fact, kind, format!("{what}, without waiting for gsb0, of")));
                    }
                    continue;
                }
                let used = if slot == 255 { None } else { Some(slot) };
                let first_slot = if fact.slot == 255 { None } else { Some(fact.slot) };
                // One queue: neither result nor read of the later one overtakes the earlier.
                let queued = |order: fn(u8, u8) -> bool| order(queue(first, self.sm), queue(&inst, self.sm));
                if def && (if fact.write { queued(in_order) } else { queued(read_in_order) }) {
                    continue;
                }
                let (latency, early, unwaited, what) = match (fact.write, def) {
                    (true, false) => (
                        latency::raw_word(first, fact.slot, fact.word as u32, &inst, used, word as u32, self.sm),
                        Kind::ReadTooSoon,
                        Kind::ReadWithoutWait,
                        "reads a result",
                    ),
                    (true, true) => (
                        latency::waw(first, fact.slot, &inst, slot, self.sm),
                        Kind::OverwriteOfWrite,
                        Kind::OverwriteOfWrite,
                        "overwrites a result",
                    ),
                    (false, true) => (
                        latency::war(first, first_slot, &inst, slot, self.sm),
                        Kind::OverwriteOfRead,
                        Kind::OverwriteOfRead,
                        "overwrites a source",
                    ),
                    (false, false) => continue,
                };
                match latency {
                    Latency::Fixed(n) if fact.age >= n => {}
                    Latency::Fixed(n) => {
                        problems.push((*fact, early, format!("{what} {} cycles after, not {n}, of", fact.age)));
                    }
                    Latency::Scoreboard => {
                        let how = match fact.own {
                            NO_SB => "that no scoreboard tells of,".to_string(),
                            sb => format!("without waiting for SB{sb},"),
                        };
                        problems.push((*fact, unwaited, format!("{what}, {how} of")));
                    }
                }
            }
        }
        self.code[at] = Some(inst);
        for (fact, kind, detail) in problems {
            self.report(&fact, at, kind, detail);
        }
        let Some(inst) = self.code[at].take() else { return };
        // 3. What this instruction ends: earlier facts of registers that it writes in every lane.
        let everywhere = guard == ALWAYS;
        if everywhere {
            facts.retain(|f| !touches.iter().any(|t| t.3 && t.0 == f.unit));
        }
        // A predicate that is written no longer tells which lanes a fact concerns.
        for fact in facts.iter_mut() {
            if fact.guard != ALWAYS && touches.iter().any(|t| t.3 && t.0 == fact.guard.0) {
                fact.guard = ALWAYS;
            }
        }
        if latency::drains_reads(&inst, self.sm) {
            let code = &self.code;
            let memory = |f: &Fact| code[f.by as usize].as_ref().is_some_and(|i| (2..=4).contains(&queue(i, self.sm)));
            facts.retain(|f| f.write || !memory(f));
        }
        // 4. Results of a queue return in order, and sources are read in order: this one's scoreboards tell of earlier ones.
        let bit = |sb: Option<u8>| sb.map_or(0, |n| 1u8 << n);
        let (write_bit, read_bit) = (bit(ctrl.write_sb), bit(ctrl.read_sb));
        let mine = queue(&inst, self.sm);
        if mine != 0 && write_bit | read_bit != 0 {
            for fact in facts.iter_mut() {
                let Some(Some(earlier)) = self.code.get(fact.by as usize) else { continue };
                let theirs = queue(earlier, self.sm);
                if in_order(theirs, mine) && fact.own < 6 && (write_bit | read_bit) >> fact.own & 1 != 0 {
                    fact.later = (fact.later + 1).min(MANY_LATER);
                }
                if fact.write && in_order(theirs, mine) {
                    fact.scoreboards |= write_bit;
                } else if !fact.write && read_in_order(theirs, mine) {
                    fact.scoreboards |= write_bit | read_bit;
                }
            }
        }
        // 5. What this instruction begins.
        for &(touched, slot, word, def) in touches.iter() {
            let fixed = form.class.is_fixed(self.sm);
            let mut fact = Fact {
                unit: touched,
                by: at as u32,
                slot,
                word,
                write: def,
                scoreboards: 0,
                own: NO_SB,
                guard,
                groups: if form.class == Class::Gmma && touched >> 8 == File::Gpr as u16 { 0 } else { NO_GROUP },
                later: 0,
                age: 0,
            };
            if def {
                // A predicate result that its own guard depends on says nothing about lanes any more.
                if touched == guard.0 {
                    fact.guard = ALWAYS;
                }
                if !fixed {
                    fact.scoreboards = write_bit;
                    fact.own = ctrl.write_sb.unwrap_or(NO_SB);
                    // Whether a generic atomic was done in global memory is known when its sources have been read.
                    if inst.form().mnemonic == "ATOM" && touched >> 8 == File::Pred as u16 {
                        fact.scoreboards |= read_bit;
                    }
                }
                facts.push(fact);
            } else if slot != 255 && form.slots[slot as usize].role != Role::Def {
                if !fixed {
                    fact.scoreboards = write_bit | read_bit;
                    fact.own = ctrl.read_sb.or(ctrl.write_sb).unwrap_or(NO_SB);
                }
                // Overwritten by the instruction itself: its own result tells.
                let own = touches.iter().any(|t| t.3 && t.0 == touched) && everywhere;
                if !own {
                    facts.push(fact);
                }
            }
        }
        if ends_group(&inst) {
            for fact in facts.iter_mut().filter(|f| f.groups < MANY_GROUPS) {
                fact.groups += 1;
            }
        }
        // 6. Time.
        if ctrl.stall == 0 {
            // Waits until everything is done but products: the vendor's unoptimized code has nothing else.
            facts.retain(|f| f.groups != NO_GROUP);
        }
        for fact in facts.iter_mut() {
            fact.age = (fact.age + ctrl.stall).min(OLD);
        }
        let (code, sm) = (&self.code, self.sm);
        let done = |f: &Fact| {
            let class = match code.get(f.by as usize) {
                Some(Some(first)) => first.form().class,
                _ => form.class,
            };
            if f.write {
                class.is_fixed(sm) && f.age >= oldest(class)
            } else {
                // Reads by a scoreboard last until it; the others are over soon.
                let lasting = !class.is_fixed(sm)
                    && f.unit >> 8 == File::Gpr as u16
                    && !matches!(class, Class::Branch | Class::Convergence);
                !lasting && f.age >= 3
            }
        };
        facts.retain(|f| f.groups != NO_GROUP || !done(f));
        self.code[at] = Some(inst);
    }
}

/// Checks the code of one function (one `.text` section): `words` from its first instruction on.
///
/// # Returns
/// Every hazard found, by offset; empty where all is well. Paths that leave the text (calls elsewhere, returns of the
/// function itself) end there.
pub fn check(words: &[u128], sm: u16, hints: &CfgHints) -> Vec<Hazard> {
    let mut found = Vec::new();
    let code: Vec<Option<Inst>> = words
        .iter()
        .enumerate()
        .map(|(n, &word)| match decode(word, sm) {
            Decoded::Known(inst) => Some(inst),
            Decoded::Unknown(word) => {
                let offset = n as u64 * 16;
                let message = format!("no known instruction: {word:#034x}");
                found.push(Hazard { offset, first: offset, kind: Kind::Unknown, message });
                None
            }
        })
        .collect();
    let mut bssy: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
    for (at, inst) in code.iter().enumerate() {
        let Some(inst) = inst.as_ref().filter(|i| i.form().mnemonic == "BSSY") else { continue };
        let barrier = inst.operands.iter().filter_map(|o| o.as_reg()).find(|r| r.file() == File::Bar);
        let target = inst.operands.iter().find_map(|o| match o.value {
            Value::Target(distance) => Some(distance.get()),
            _ => None,
        });
        let (Some(barrier), Some(distance)) = (barrier, target) else { continue };
        if let Ok(target) = usize::try_from(at as i64 + 1 + distance.div_euclid(16)) {
            bssy.entry(barrier.index()).or_default().push(target);
        }
    }
    let count = code.len();
    let mut checker = Checker { code, sm, hints, bssy, found, seen: FxHashSet::default() };

    // States stand before an instruction where paths meet or a context begins: (instruction, call site + 1 or 0).
    let mut leaders = vec![false; count];
    for at in 0..count {
        let Some(inst) = &checker.code[at] else { continue };
        let mut lead = |n: usize| {
            if n < count {
                leaders[n] = true;
            }
        };
        match checker.next(at, inst) {
            Next::Fall => {}
            Next::To(list) => {
                list.into_iter().for_each(&mut lead);
                lead(at + 1);
            }
            Next::Call { callee, back, .. } => {
                lead(callee);
                lead(back);
            }
            Next::Return { .. } => lead(at + 1),
        }
    }
    let mut states: FxHashMap<(usize, usize), Vec<Fact>> = FxHashMap::default();
    let mut work: Vec<(usize, usize)> = Vec::new();
    // For each call site: the contexts it was reached in, and what came out of the callee for it.
    let mut parents: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    let mut returned: FxHashMap<usize, Vec<Fact>> = FxHashMap::default();
    let enter = |states: &mut FxHashMap<(usize, usize), Vec<Fact>>,
                 work: &mut Vec<(usize, usize)>,
                 key: (usize, usize),
                 facts: &[Fact]| {
        if key.0 >= count {
            return;
        }
        match states.entry(key) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                let mut sorted = Vec::new();
                unite(&mut sorted, facts);
                entry.insert(sorted);
                work.push(key);
            }
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                if unite(entry.get_mut(), facts) {
                    work.push(key);
                }
            }
        }
    };
    enter(&mut states, &mut work, (0, 0), &[]);
    for &entry in &hints.entries {
        enter(&mut states, &mut work, ((entry / 16) as usize, 0), &[]);
    }
    let mut touches = Vec::new();
    while let Some((start, context)) = work.pop() {
        let mut facts = states[&(start, context)].clone();
        let mut at = start;
        loop {
            if checker.code[at].is_none() {
                break;
            }
            checker.step(at, &mut facts, &mut touches);
            let next = match &checker.code[at] {
                Some(inst) => checker.next(at, inst),
                None => break,
            };
            match next {
                Next::Fall => {
                    at += 1;
                    if at >= count {
                        break;
                    }
                    if leaders[at] {
                        enter(&mut states, &mut work, (at, context), &facts);
                        break;
                    }
                }
                Next::To(list) => {
                    for to in list {
                        enter(&mut states, &mut work, (to, context), &facts);
                    }
                    break;
                }
                Next::Call { callee, back, falls } => {
                    let site = at + 1;
                    let known = parents.entry(site).or_default();
                    if !known.contains(&context) {
                        known.push(context);
                        if let Some(out) = returned.get(&site) {
                            enter(&mut states, &mut work, (back, context), &out.clone());
                        }
                    }
                    enter(&mut states, &mut work, (callee, site), &facts);
                    if falls {
                        enter(&mut states, &mut work, (back, context), &facts);
                    }
                    break;
                }
                Next::Return { falls } => {
                    if context != 0 {
                        let out = returned.entry(context).or_default();
                        unite(out, &{
                            let mut sorted = Vec::new();
                            unite(&mut sorted, &facts);
                            sorted
                        });
                        let out = out.clone();
                        for &parent in parents.get(&context).into_iter().flatten() {
                            enter(&mut states, &mut work, (context, parent), &out);
                        }
                    }
                    if falls {
                        enter(&mut states, &mut work, (at + 1, context), &facts);
                    }
                    break;
                }
            }
        }
    }
    arrive::check(&mut checker, &leaders);
    checker.found.sort_by_key(|h| (h.offset, h.first, h.kind));
    checker.found
}
