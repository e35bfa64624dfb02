//! The control fields: scoreboards, waits, stall counts, bit 109, reuse flags.
//!
//! Needs the final order of a function's instructions, with physical registers. Two walks over the blocks as they lie:
//!
//! 1. Scoreboards. An instruction whose results come at no fixed time gets a write scoreboard; its first user waits for
//!    it, wherever that is: scoreboards stay set over forward edges. One whose sources may be overwritten while it still
//!    reads them gets a read scoreboard, but only when an overwriting instruction is found. Before a branch backward
//!    everything that the loop could meet again is waited for, but for registers that copies into shared memory read: where there
//!    are such, a second walk lets each loop begin with those of its last iteration under way.
//!    Who shares one of the six scoreboards with whom is decided by estimates of time (`choice`).
//! 2. Stall counts: the exact distances of the latency tables inside a block, the longest of any user over its end.
//!
//! Calls, returns and indexed branches wait for everything. `sass::lint` must have nothing to say about the result.

mod boards;
mod choice;
pub mod plain;

use self::boards::Boards;
use super::branches::LinearBlock;
use super::units::Units;
use super::writes;
use crate::mir::{Inst, Op};
use sass::control::Control;
use sass::forms as F;
use sass::inst::Inst as Sass;
use sass::latency::{self, Class, Latency};

const NONE: u32 = u32::MAX;

/// Fills in the control fields of a function.
pub fn run(blocks: &mut [LinearBlock], sm: u16) {
    let start: Vec<usize> = std::iter::once(0)
        .chain(blocks.iter().scan(0, |n, b| {
            *n += b.insts.iter().filter(|i| matches!(i.op, Op::Sass(_))).count();
            Some(*n)
        }))
        .collect();
    // A list of references: a copy of all instructions would be a good part of what a small compilation touches.
    let mut lists: Vec<Vec<Inst>> = blocks.iter_mut().map(|b| std::mem::take(&mut b.insts)).collect();
    let mut code: Vec<&mut Sass> = Vec::with_capacity(start[blocks.len()]);
    for i in lists.iter_mut().flatten() {
        if let Op::Sass(s) = &mut i.op {
            s.ctrl = Control::default();
            code.push(s);
        }
    }
    let units = Units::new(code.iter().map(|s| &**s));
    Boards::new(sm, &code, blocks, &start, &units).run(&mut code);
    let long = stalls(&mut code, blocks, &start, &units, sm);
    for b in 0..blocks.len() {
        reuse(&mut code[start[b]..start[b + 1]]);
    }
    drop(code);
    blocks.iter_mut().zip(lists).for_each(|(b, insts)| b.insts = insts);
    pad(blocks, &start, &long);
}

/// Longest stall count of one instruction.
const LONGEST: u32 = 15;

/// Puts `NOP`s before the instructions that come more cycles after the one before than its stall count can say:
/// number of the instruction, cycles.
fn pad(blocks: &mut [LinearBlock], start: &[usize], long: &[(usize, u32)]) {
    let block = |at: usize| start.partition_point(|&s| s <= at).saturating_sub(1).min(blocks.len() - 1);
    let groups: Vec<(usize, &[(usize, u32)])> =
        long.chunk_by(|x, y| block(x.0) == block(y.0)).map(|g| (block(g[0].0), g)).collect();
    for (b, group) in groups {
        let old = std::mem::take(&mut blocks[b].insts);
        let mut new = Vec::with_capacity(old.len() + 2 * group.len());
        let mut group = group.iter().peekable();
        for (i, inst) in old.into_iter().enumerate() {
            while let Some(&(_, cycles)) = group.next_if(|x| x.0 - start[b] == i) {
                // The shorter one first: of a row of them the one that was made last.
                let mut row: Vec<Sass> = nops(cycles).collect();
                row.reverse();
                new.extend(row.into_iter().map(|nop| Inst::new(Op::Sass(nop), inst.loc)));
            }
            new.push(inst);
        }
        for &(_, cycles) in group {
            nops(cycles).for_each(|nop| new.push(Inst::new(Op::Sass(nop), u32::MAX)));
        }
        blocks[b].insts = new;
    }
}

/// `NOP`s that take so many cycles together.
fn nops(cycles: u32) -> impl Iterator<Item = Sass> {
    (0..cycles.div_ceil(LONGEST)).map(move |n| {
        let stall = LONGEST.min(cycles - n * LONGEST);
        let mut nop = Sass::new(F::NOP);
        nop.ctrl.stall = stall as u8;
        nop.ctrl.bit109 = stall < 12;
        nop
    })
}

/// Leaves the function, or goes where anything may happen: everything must be done before.
fn drains(s: &Sass) -> bool {
    let form = s.form();
    !form.class.is_plain() && matches!(form.mnemonic, "CALL" | "RET" | "BRX" | "BRXU")
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
    fn done(&self, u: usize, code: &[&mut Sass], issue: &[u32]) -> u32 {
        let own = self.writers(u).map(|(w, def)| issue[w as usize] + self.worst(code[w as usize], def, u));
        own.fold(self.carried[u], u32::max)
    }

    /// Instruction `i` writes the unit by its slot.
    fn write(&mut self, u: usize, (i, slot): (u32, u8), code: &[&mut Sass], issue: &[u32]) {
        if code[i as usize].guard.as_reg().is_none_or(|g| g.is_const()) {
            (self.under[u], self.carried[u]) = ((NONE, 0), 0);
        } else {
            let (w, def) = self.under[u];
            if w != NONE {
                let done = issue[w as usize] + self.worst(code[w as usize], def, u);
                self.carried[u] = self.carried[u].max(done);
            }
            self.under[u] = self.writer[u];
        }
        self.writer[u] = (i, slot);
    }
}

/// Sets the stall counts. Gives the instructions before which they do not suffice, with the cycles that are missing.
fn stalls(
    code: &mut [&mut Sass],
    blocks: &[LinearBlock],
    start: &[usize],
    units: &Units,
    sm: u16,
) -> Vec<(usize, u32)> {
    let n = blocks.len();
    let mut long = Vec::new();
    let mut entry: Vec<Option<(Vec<u8>, [u8; 6])>> = vec![None; n];
    let mut issue = vec![0u32; code.len()];
    let mut c = Clock::new(units, sm);
    let uniform = units.general(false)..units.general(true);
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
            // What lies in several registers is asked about once.
            let mut asked = (NONE, 0, None);
            units.reads(i).for_each(|(u, slot)| {
                at = at.max(c.carried[u]);
                for (w, def) in c.writers(u) {
                    if asked != (w, def, slot) {
                        at = at.max(need(issue[w as usize], latency::raw(code[w as usize], def, s, slot, sm)));
                        asked = (w, def, slot);
                    }
                }
            });
            let mut asked = (NONE, 0, 0);
            let mut told = (NONE, None, 0);
            units.writes(i).for_each(|(u, slot)| {
                at = at.max(c.carried[u]);
                let slot = slot.unwrap_or(0);
                for (w, def) in c.writers(u) {
                    if asked != (w, def, slot) {
                        at = at.max(need(issue[w as usize], latency::waw(code[w as usize], def, s, slot, sm)));
                        asked = (w, def, slot);
                    }
                }
                let (r, used) = c.reader[u];
                if r != NONE && told != (r, used, slot) {
                    at = at.max(need(issue[r as usize], latency::war(code[r as usize], used, s, slot, sm)));
                    told = (r, used, slot);
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
                if !prev.form().class.is_plain() {
                    stall = stall.max(latency::min_stall(prev, sm) as u32);
                }
                stall = stall.max(latency::issue_interval(prev, s, sm) as u32);
                if drains(prev) {
                    stall = stall.max(latest(&code[..i], &c, &issue, before));
                }
                set_stall(code, i - 1, stall, Some(i), sm);
                if stall > LONGEST {
                    long.push((i, stall - LONGEST));
                }
                issue[i] = before + stall;
                if drains(code[i - 1]) {
                    c.clear();
                }
            }
            let s = &code[i];
            let t = issue[i];
            units.reads(i).for_each(|(u, slot)| {
                // The uniform datapath reads longer than others do, one of which may issue just behind it.
                let longer = |r: u32| {
                    let of_it = |s: &Sass| s.form().class == Class::Uniform;
                    uniform.contains(&u) && issue[r as usize] + 2 > t && of_it(code[r as usize]) && !of_it(s)
                };
                let r = c.reader[u].0;
                if r == NONE || !longer(r) {
                    c.reader[u] = (i as u32, slot);
                }
            });
            units.writes(i).for_each(|(u, slot)| c.write(u, (i as u32, slot.unwrap_or(0)), code, &issue));
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
            units.reads(first).for_each(|(u, _)| more = more.max(carried[u] as u32));
            units.writes(first).for_each(|(u, slot)| {
                more = more.max(carried[u] as u32);
                let (r, used) = c.reader[u];
                if r != NONE
                    && let Latency::Fixed(n) = latency::war(code[r as usize], used, f, slot.unwrap_or(0), sm)
                {
                    more = more.max((issue[r as usize] + n as u32).saturating_sub(before + stall));
                }
            });
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
fn latest(code: &[&mut Sass], c: &Clock, issue: &[u32], before: u32) -> u32 {
    let mut out = 0;
    for u in 0..c.units.count() {
        out = out.max(c.done(u, code, issue).saturating_sub(before));
    }
    out
}

fn set_stall(code: &mut [&mut Sass], i: usize, stall: u32, next: Option<usize>, sm: u16) {
    let stall = stall.min(15) as u8;
    let s = &code[i];
    let alu = s.form().class.is_fixed(sm) && !matches!(s.form().class, Class::Control);
    let own = next.map_or(1, |n| latency::issue_interval(s, code[n], sm));
    let ctrl = &mut code[i].ctrl;
    ctrl.stall = stall;
    ctrl.bit109 = stall <= 1 || stall < 12 && !(alu && stall > own);
}

/// Sets reuse flags: the next instruction reads the same register in the same place.
fn reuse(code: &mut [&mut Sass]) {
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
        controls_by(super::run, blocks)
    }

    /// As [`controls`], by one of the ways to set them.
    pub(super) fn controls_by(run: fn(&mut [LinearBlock], u16), blocks: &[(&[&str], &[u32])]) -> Vec<Vec<Control>> {
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
    fn what_the_uniform_datapath_reads_last_is_not_overwritten_too_soon_in_the_next_block() {
        let reader = "ULEA.HI.X UR8, UR8, UR23, UR9, 0x6, UP0";
        let last = |next: &'static str| controls(&[(&[reader], &[1]), (&[next, "EXIT"], &[])])[0][0].stall;
        assert_eq!((last("UMOV UR9, URZ"), last("ULDC UR9, c[0x0][0x210]"), last("UMOV UR10, URZ")), (3, 3, 2));
    }

    #[test]
    fn who_reads_just_behind_the_uniform_datapath_does_not_hide_that_it_still_reads() {
        let between = |read: &str| {
            let other = format!("IMAD.U32 R17, RZ, RZ, {read}");
            cycles(&["ULEA.HI.X UR8, UR8, UR23, UR9, 0x6, UP0", &other, "UMOV UR9, URZ"])
        };
        assert_eq!((between("UR9"), between("UR10")), (3, 3));
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
    fn loads_for_the_next_iteration_may_be_under_way_when_it_begins() {
        let load = "@P0 LDG.E R10, desc[UR4][R2.64]";
        let around = |first: &str| {
            controls(&[
                (&["LDG.E R10, desc[UR4][R2.64]"], &[1]),
                (&[first, "IADD3 R2, R2, R5, RZ", load, "ISETP.NE.U32.AND P1, PT, R5, RZ, PT"], &[2]),
                (&["@P1 BRA 0x10"], &[1, 3]),
                (&["IADD3 R12, R10, R5, RZ", "EXIT"], &[]),
            ])
        };
        let c = around("IADD3 R11, R10, R11, RZ");
        let board = |b: usize, i: usize| c[b][i].write_sb.expect("the load is told of");
        let waits = |b: usize, i: usize, board: u8| c[b][i].wait >> board & 1;
        // Who reads it waits for it, here and behind the loop, and for the one before the loop; the branch does not.
        assert_eq!((waits(1, 0, board(0, 0)), waits(1, 0, board(1, 2))), (1, 1));
        assert_eq!((waits(2, 0, board(1, 2)), waits(3, 0, board(1, 2))), (0, 1));
        // Its address is written again: the branch waits until that has been read.
        let read = c[1][2].read_sb.expect("the read is told of");
        assert_eq!((read == board(1, 2), waits(2, 0, read)), (false, 1));
        // Where nothing waits, the next load of the same register does.
        let c = around("IADD3 R11, R4, R11, RZ");
        assert!(
            c[1][2].wait >> c[1][2].write_sb.unwrap() & 1 == 1 || c[2][0].wait >> c[1][2].write_sb.unwrap() & 1 == 1
        );
    }

    #[test]
    fn short_reads_are_not_waited_for_with_copies() {
        let copy = |at: u32| format!("LDGSTS.E [R60+{at:#x}], desc[UR4][R62.64]");
        let lines = [
            "LDG.E R10, desc[UR4][R2.64]",
            "LDG.E R11, desc[UR4][R2.64+0x4]",
            "LDG.E R12, desc[UR4][R2.64+0x8]",
            "LDG.E R13, desc[UR4][R2.64+0xc]",
            "LDG.E R14, desc[UR4][R2.64+0x10]",
            "STS [R4], R5",
            &copy(0x10),
            &copy(0x20),
            "IADD3 R5, R6, R7, RZ",
            "IADD3 R62, R6, R7, RZ",
            "IADD3 R8, R10, R11, R12",
            "IADD3 R9, R13, R14, RZ",
            "EXIT",
        ];
        let c = &controls(&[(&lines, &[])])[0];
        let store = c[5].read_sb.expect("the read is told of");
        assert_eq!(c[8].wait, 1 << store);
        assert!(c[..5].iter().chain(&c[6..8]).all(|c| c.write_sb != Some(store) && c.read_sb != Some(store)));
    }

    #[test]
    fn nobody_waits_for_what_nobody_reads() {
        let stack = "LDC R1, c[0x0][0x28]";
        assert_eq!(controls(&[(&[stack, "IADD3 R2, R3, R4, RZ", "EXIT"], &[])])[0][0].write_sb, None);
        assert!(controls(&[(&[stack, "IADD3 R2, R1, R4, RZ", "EXIT"], &[])])[0][0].write_sb.is_some());
        // Who is called may read it.
        assert!(controls(&[(&[stack, "CALL.REL.NOINC 0x80", "EXIT"], &[])])[0][0].write_sb.is_some());
        let around: &[(&[&str], &[u32])] = &[
            (&["IADD3 R2, R1, R4, RZ"], &[1]),
            (&[stack, "ISETP.NE.U32.AND P1, PT, R2, RZ, PT", "@P1 BRA 0x0"], &[0, 2]),
            (&["EXIT"], &[]),
        ];
        assert!(controls(around)[1][0].write_sb.is_some());
    }

    #[test]
    fn reads_told_of_on_one_way_are_known_on_the_other() {
        // The store's read is told of where R5 is written first; behind the other way a load must not be on the same scoreboard.
        let c = controls(&[
            (&["STS [R4], R5", "ISETP.NE.U32.AND P1, PT, R2, RZ, PT", "@P1 BRA 0x40"], &[1, 2]),
            (&["IADD3 R5, R6, R7, RZ", "EXIT"], &[]),
            (&["LDG.E R8, desc[UR4][R2.64]", "IADD3 R5, R6, R7, RZ", "IADD3 R9, R8, R7, RZ", "EXIT"], &[]),
        ]);
        let store = c[0][0].read_sb.expect("the read is told of");
        assert_eq!((c[1][0].wait, c[2][1].wait), (1 << store, 1 << store));
        assert!(c[2][0].write_sb.is_some_and(|s| s != store));
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
