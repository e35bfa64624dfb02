//! The control fields at little cost, for `--Ofast-compile max`: one walk over the code as it lies, one look at each operand.
//!
//! Needs what [`super`] needs, and keeps the same promises, with longer waits:
//!
//! - Results that come at no fixed time get the scoreboards in turn. What reads registers late is told of by one scoreboard that all share, and copies from
//!   global into shared memory, which read them last, by another one.
//! - For each register and scoreboard is kept by which instruction it was set last, for each scoreboard at which instruction it was waited for last on every way
//!   here: what was set before has landed. Where ways meet that is the earlier one, so that a few numbers are all that goes along an edge. At the end of a
//!   loop, before a call and the like everything is waited for.
//! - Copies into shared memory may go on when a loop begins again: what writes a register that any of them reads waits for them.
//! - A result of fixed latency is taken to be there when its slowest reader could have it, and all of them are there when a block is left but for the next one.

use super::boards::{engine, late};
use super::{LONGEST, drains};
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Inst, Op};
use crate::sched::branches::LinearBlock;
use sass::control::Control;
use sass::forms as F;
use sass::inst::Inst as Sass;
use sass::latency::{self, Class};
use sass::reg::File;
use smallvec::SmallVec;

/// The scoreboard of reads, ...
const READS: usize = 5;
/// ... that of reads by copies into shared memory, where there are such, ...
const LATE: usize = 4;
/// ... and that which groups of copies are counted by, where there are such.
const GROUPS: usize = 0;

const FILES: usize = File::Bar as usize + 1;

/// The registers that an instruction names, without constant ones.
#[derive(Default)]
struct Names {
    reads: SmallVec<[Place; 12]>,
    writes: SmallVec<[Place; 8]>,
}

/// True for a register that is read late: no guard; `uniform`: those of the uniform datapath, too.
fn is_late(p: &Place, uniform: bool) -> bool {
    let file = p.reg.file();
    p.slot.is_some() && (file == File::Gpr || uniform && file == File::Ugpr)
}

/// A register.
#[derive(Clone, Copy, Default)]
struct Unit {
    /// By scoreboard the last instruction, from 1, that set it for a write of this register.
    written: [u32; 6],
    /// The last instruction, from 1, that reads it late.
    read: u32,
    /// Scoreboards that were ever set for it.
    boards: u8,
    /// A copy into shared memory reads it, anywhere.
    late: bool,
    /// When the slowest reader could have it.
    ready: u32,
    /// When whatever reads it at a fixed time has done so.
    free: u32,
}

/// The walk.
struct Walk {
    sm: u16,
    /// By file, of as many registers as were named.
    units: [Vec<Unit>; FILES],
    /// By scoreboard: what was set before this instruction, from 1, has landed.
    done: [u32; 6],
    /// By scoreboard the last instruction, from 1, that set it.
    set: [u32; 6],
    /// By scoreboard the first cycle in which it may be waited for.
    settled: [u32; 6],
    /// Those for results.
    first: usize,
    count: usize,
    turn: usize,
    copies: bool,
    /// Cycles since the function began, along the code as it lies.
    time: u32,
    /// When everything of fixed latency is there.
    ready: u32,
    /// The scoreboard of an instruction just before that gives up registers.
    gives_up: Option<usize>,
}

/// Fills in the control fields of a function.
pub fn run(blocks: &mut [LinearBlock], sm: u16) {
    let mut w = Walk::new(blocks, sm);
    let n = blocks.len();
    // What has landed where a block begins, from the branches forward to it.
    let mut entry: Vec<Option<[u32; 6]>> = vec![None; n];
    let mut at = 0u32;
    // The instruction before, what it needs behind it, and whether it is of the ALU.
    let mut before: Option<(usize, usize, u32, bool)> = None;
    let mut names = Names::default();
    for b in 0..n {
        w.done = entry[b].unwrap_or([at; 6]);
        let mut long: Vec<(usize, u32)> = Vec::new();
        let count = blocks[b].insts.len();
        let (back, leaves) = {
            let succs = &blocks[b].succs;
            (succs.iter().any(|&s| s as usize <= b), succs.iter().any(|&s| s as usize != b + 1))
        };
        for i in 0..count {
            let Op::Sass(s) = &blocks[b].insts[i].op else { continue };
            let class = s.form().class;
            let fixed = class.is_fixed(sm);
            let leaving = !class.is_plain() && drains(s);
            w.name(s, &mut names);
            let (wait, issue) = w.needs(&names, (leaving, leaving || back && i + 1 == count));
            if let Some((pb, pi, least, alu)) = before {
                let from = w.time;
                let stall = issue.saturating_sub(from).max(least);
                w.time += stall;
                if let Op::Sass(p) = &mut blocks[pb].insts[pi].op {
                    stall_for(p, stall, alu);
                }
                if stall > LONGEST {
                    long.push((if pb == b { i } else { 0 }, stall - LONGEST));
                }
            }
            let Op::Sass(s) = &mut blocks[b].insts[i].op else { continue };
            s.ctrl = Control { wait, ..Control::default() };
            at += 1;
            w.wait(wait, at - 1);
            w.issue(s, &names, fixed, at);
            let mut least = if class.is_plain() { 1 } else { u32::from(latency::min_stall(s, sm)) };
            if s.ctrl.read_sb.is_some() || s.ctrl.write_sb.is_some() || i + 1 == count && !s.form().effects.flow {
                least = least.max(u32::from(latency::SCOREBOARD_SET));
            }
            // Nothing of fixed latency is under way where control comes to.
            if leaving || leaves && i + 1 == count {
                least = least.max(w.ready.saturating_sub(w.time));
                if least > LONGEST {
                    // Before a branch, which ends the block.
                    long.push((i + !s.form().effects.flow as usize, least - LONGEST));
                }
            }
            let alu = fixed && class != Class::Control;
            stall_for(s, least, alu);
            before = Some((b, i, least, alu));
        }
        for &x in blocks[b].succs.iter().filter(|&&x| x as usize > b) {
            let e = entry[x as usize].get_or_insert(w.done);
            e.iter_mut().zip(w.done).for_each(|(a, d)| *a = (*a).min(d));
        }
        pad(&mut blocks[b].insts, &long);
        if !long.is_empty() {
            // The last instruction lies elsewhere now.
            let last = blocks[b].insts.len() - 1;
            before = before.map(|(_, _, least, alu)| (b, last, least, alu));
        }
    }
}

/// Puts `NOP`s before these instructions, for so many cycles.
fn pad(insts: &mut Vec<Inst>, long: &[(usize, u32)]) {
    for &(at, cycles) in long.iter().rev() {
        let loc = insts.get(at).map_or(u32::MAX, |i| i.loc);
        super::nops(cycles).for_each(|nop| insts.insert(at, Inst::new(Op::Sass(nop), loc)));
    }
}

/// Sets the stall count; what is missing beyond the longest is padded.
fn stall_for(s: &mut Sass, stall: u32, alu: bool) {
    s.ctrl.stall = stall.min(LONGEST) as u8;
    s.ctrl.bit109 = stall <= 1 || stall < 12 && !alu;
}

impl Walk {
    fn new(blocks: &[LinearBlock], sm: u16) -> Walk {
        let mut w = Walk {
            sm,
            units: std::array::from_fn(|_| Vec::new()),
            done: [0; 6],
            set: [0; 6],
            settled: [0; 6],
            first: 0,
            count: READS,
            turn: 0,
            copies: false,
            time: 0,
            ready: 0,
            gives_up: None,
        };
        let mut names = Names::default();
        for s in
            blocks.iter().flat_map(|b| &b.insts).filter_map(|i| if let Op::Sass(s) = &i.op { Some(s) } else { None })
        {
            if matches!(s.form, F::LDGDEPBAR | F::UTMACMDFLUSH | F::DEPBAR_LE) {
                w.first = GROUPS + 1;
            }
            if s.form().class == Class::Global && late(s) {
                w.copies = true;
                w.name(s, &mut names);
                for p in names.reads.iter().filter(|p| is_late(p, false)) {
                    w.units(p).iter_mut().for_each(|u| u.late = true);
                }
            }
        }
        w.count = if w.copies { LATE } else { READS } - w.first;
        w
    }

    /// Lists the registers that an instruction names, and makes place for what is kept of them.
    fn name(&mut self, s: &Sass, names: &mut Names) {
        names.reads.clear();
        names.writes.clear();
        let units = &mut self.units;
        let mut known = |p: Place| {
            let list = &mut units[p.reg.file() as usize];
            let end = p.reg.index() as usize + usize::from(p.width);
            if end > list.len() {
                list.resize(end + 15, Unit::default());
            }
        };
        sass_uses(s, |p| {
            if !p.reg.is_const() {
                known(p);
                names.reads.push(p);
            }
        });
        sass_defs(s, |p| {
            if !p.reg.is_const() {
                known(p);
                names.writes.push(p);
            }
        });
    }

    /// What is kept of the registers of an operand.
    #[inline(always)]
    fn units(&mut self, p: &Place) -> &mut [Unit] {
        let first = p.reg.index() as usize;
        &mut self.units[p.reg.file() as usize][first..first + usize::from(p.width)]
    }

    /// What an instruction must wait for, and when it may issue: where it leaves the function, and where everything has to be waited for.
    fn needs(&mut self, names: &Names, (leaves, all): (bool, bool)) -> (u8, u32) {
        let (done, mut wait, mut issue) = (self.done, 0u8, self.time);
        // The vendor's compiler lets nothing begin before registers have been given up.
        if let Some(board) = self.gives_up.take() {
            wait |= 1 << board;
        }
        let mut written = |u: &Unit, wait: &mut u8| {
            issue = issue.max(u.ready);
            let mut boards = u.boards;
            while boards != 0 {
                let b = boards.trailing_zeros() as usize;
                boards &= boards - 1;
                if u.written[b] > done[b] {
                    *wait |= 1 << b;
                }
            }
        };
        for p in &names.reads {
            self.units(p).iter().for_each(|u| written(u, &mut wait));
        }
        let mut free = 0;
        for p in &names.writes {
            for u in self.units(p) {
                written(u, &mut wait);
                free = free.max(u.free);
                wait |= ((u.read > done[READS]) as u8) << READS | (u.late as u8) << LATE;
            }
        }
        issue = issue.max(free);
        if all {
            (0..6).filter(|&b| self.set[b] > done[b]).for_each(|b| wait |= 1 << b);
            wait |= ((leaves && self.copies) as u8) << LATE;
        }
        let mut boards = wait;
        while boards != 0 {
            issue = issue.max(self.settled[boards.trailing_zeros() as usize]);
            boards &= boards - 1;
        }
        (wait, issue)
    }

    /// Instruction `at`, from 1, comes after the wait.
    fn wait(&mut self, boards: u8, before: u32) {
        (0..6).filter(|b| boards >> b & 1 != 0).for_each(|b| self.done[b] = before);
    }

    /// A scoreboard for results: one that is idle, if there is one.
    fn board(&mut self) -> usize {
        let nth = |n: usize| self.first + n % self.count;
        let idle = (self.turn..self.turn + self.count).find(|&n| self.set[nth(n)] <= self.done[nth(n)]);
        let n = idle.unwrap_or(self.turn);
        self.turn = (n + 1) % self.count;
        nth(n)
    }

    /// Instruction `at`, from 1, issues now.
    fn issue(&mut self, s: &mut Sass, names: &Names, fixed: bool, at: u32) {
        let (sm, time, class) = (self.sm, self.time, s.form().class);
        if fixed {
            // As long as the uniform datapath and others may read before they are overtaken.
            let uniform = class == Class::Uniform;
            let until = time + if uniform { 3 } else { 2 };
            for p in names.reads.iter().filter(|p| uniform || p.reg.file() == File::Gpr) {
                self.units(p).iter_mut().for_each(|u| u.free = u.free.max(until));
            }
            let mut latest = self.ready;
            for p in &names.writes {
                let Some(slot) = p.slot else { continue };
                let least = if p.reg.file() == File::Ugpr { 3 } else { 0 };
                let mut cycles = 0;
                for (word, u) in (0..).zip(self.units(p)) {
                    // Only there the words come at different times.
                    if word == 0 || class == Class::FmaWide {
                        cycles = u32::from(latency::slowest(s, slot, word, sm)).max(least);
                    }
                    u.ready = u.ready.max(time + cycles);
                    latest = latest.max(u.ready);
                }
            }
            self.ready = latest;
        } else if !matches!(class, Class::Branch | Class::Convergence) {
            let uniform = !class.is_plain() && engine(s);
            if class == Class::Global && late(s) {
                if names.reads.iter().any(|p| is_late(p, false)) {
                    s.ctrl.read_sb = Some(LATE as u8);
                    self.settled[LATE] = time + u32::from(latency::SCOREBOARD_SET);
                }
            } else {
                let mut any = false;
                for p in names.reads.iter().filter(|p| is_late(p, uniform)) {
                    any = true;
                    self.units(p).iter_mut().for_each(|u| u.read = at);
                }
                if any {
                    s.ctrl.read_sb = Some(READS as u8);
                    self.sets(READS, at);
                }
            }
        }
        let writes = !fixed && names.writes.iter().any(|p| p.reg.file() != File::Bar);
        let gives_up = s.form == F::USETMAXREG_DEALLOC;
        if writes || gives_up {
            let board = self.board();
            s.ctrl.write_sb = Some(board as u8);
            self.sets(board, at);
            for p in &names.writes {
                for u in self.units(p) {
                    u.boards |= 1 << board;
                    u.written[board] = at;
                }
            }
            self.gives_up = gives_up.then_some(board);
        }
        match s.form {
            F::LDGDEPBAR => s.ctrl.write_sb = Some(GROUPS as u8),
            F::UTMACMDFLUSH => s.ctrl.read_sb = Some(GROUPS as u8),
            _ => {}
        }
    }

    fn sets(&mut self, board: usize, at: u32) {
        self.set[board] = at;
        self.settled[board] = self.time + u32::from(latency::SCOREBOARD_SET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controls(blocks: &[(&[&str], &[u32])]) -> Vec<Vec<Control>> {
        super::super::tests::controls_by(run, blocks)
    }

    #[test]
    fn plain_classes_have_no_stalls_of_their_own() {
        for n in 0..sass::tables::FORMS.len() {
            let s = Sass::new(sass::form::FormId(n as u16));
            if s.form().class.is_plain() {
                assert!(latency::min_stall(&s, 90) == 1 && !engine(&s) && !drains(&s), "{}", s.form().name);
            }
        }
    }

    #[test]
    fn only_wide_products_give_their_words_at_different_times() {
        for (n, form) in sass::tables::FORMS.iter().enumerate().filter(|(_, f)| f.class != Class::FmaWide) {
            let s = Sass::new(sass::form::FormId(n as u16));
            for slot in 0..form.slots.len() as u8 {
                for sm in [75, 80, 90, 100, 110, 120] {
                    let slowest = |word| latency::slowest(&s, slot, word, sm);
                    assert_eq!(slowest(0), slowest(1), "{} on sm_{sm}", form.name);
                }
            }
        }
    }

    #[test]
    fn results_are_waited_for_where_they_are_read() {
        let c = controls(&[(
            &[
                "LDG.E R8, desc[UR4][R2.64]",
                "LDG.E R9, desc[UR4][R2.64+0x4]",
                "IADD3 R10, R9, R4, RZ",
                "IADD3 R11, R8, R10, RZ",
                "EXIT",
            ],
            &[],
        )]);
        let (first, second) = (c[0][0].write_sb.unwrap(), c[0][1].write_sb.unwrap());
        assert_ne!(first, second);
        assert_eq!((c[0][2].wait, c[0][3].wait), (1 << second, 1 << first));
        // The sum is read as late as the slowest reader could.
        assert!(c[0][2].stall >= 4 && c[0][0].stall >= 2);
    }

    #[test]
    fn a_wait_on_one_way_is_none_on_the_other() {
        let c = controls(&[
            (&["LDG.E R8, desc[UR4][R2.64]", "@P1 BRA 0x30"], &[1, 2]),
            (&["IADD3 R9, R8, R4, RZ"], &[2]),
            (&["IADD3 R10, R8, R4, RZ", "EXIT"], &[]),
        ]);
        let board = 1 << c[0][0].write_sb.unwrap();
        assert_eq!((c[0][1].wait, c[1][0].wait, c[2][0].wait), (0, board, board));
        // Where both have waited nobody waits again.
        let c = controls(&[
            (&["LDG.E R8, desc[UR4][R2.64]", "@P1 BRA 0x40"], &[1, 2]),
            (&["IADD3 R9, R8, R4, RZ", "BRA 0x50"], &[3]),
            (&["IADD3 R9, R8, R5, RZ"], &[3]),
            (&["IADD3 R10, R8, R4, RZ", "EXIT"], &[]),
        ]);
        assert_eq!((c[1][0].wait, c[2][0].wait, c[3][0].wait), (board, board, 0));
        // What another write of the register on one way was set for does not hide the one before it on the other.
        let c = controls(&[
            (&["LDG.E R8, desc[UR4][R2.64]", "@P1 BRA 0x40"], &[1, 2]),
            (&["LDS R8, [R4]", "IADD3 R9, R8, R5, RZ"], &[2]),
            (&["IADD3 R10, R8, R4, RZ", "EXIT"], &[]),
        ]);
        let (far, near) = (c[0][0].write_sb.unwrap(), c[1][0].write_sb.unwrap());
        assert_ne!(far, near);
        assert_eq!((c[1][0].wait, c[2][0].wait >> far & 1), (1 << far, 1));
    }

    #[test]
    fn loops_begin_with_nothing_under_way() {
        let c = controls(&[
            (&["IADD3 R13, R2, R3, RZ"], &[1]),
            (&["LDG.E R8, desc[UR4][R2.64]", "STG.E desc[UR4][R6.64], R13", "@P1 BRA 0x10"], &[1, 2]),
            (&["EXIT"], &[]),
        ]);
        let boards = [c[1][0].write_sb, c[1][0].read_sb, c[1][1].read_sb].map(Option::unwrap);
        assert_eq!(c[1][2].wait, boards.iter().fold(0, |m, b| m | 1 << b));
    }

    #[test]
    fn what_is_read_late_is_not_overwritten_before() {
        let c = controls(&[(&["STS [R4], R5", "IADD3 R6, R5, R7, RZ", "IADD3 R5, R6, R7, RZ", "EXIT"], &[])]);
        let board = c[0][0].read_sb.unwrap();
        assert_eq!((c[0][1].wait, c[0][2].wait), (0, 1 << board));
    }

    #[test]
    fn copies_into_shared_memory_go_on_when_a_loop_begins_again() {
        let copy = "LDGSTS.E [R8], desc[UR4][R4.64]";
        let c = controls(&[
            (&["IADD3 R13, R2, R3, RZ"], &[1]),
            (&["IADD3 R2, R2, R3, RZ", "IADD3 R4, R2, R3, RZ", copy, "@P1 BRA 0x10"], &[1, 2]),
            (&["IADD3 R8, R2, R3, RZ", "EXIT"], &[]),
        ]);
        let board = c[1][2].read_sb.unwrap();
        let waits = |b: usize, i: usize| c[b][i].wait >> board & 1;
        assert_eq!([waits(1, 0), waits(1, 1), waits(1, 3), waits(2, 0)], [0, 1, 0, 1]);
    }

    #[test]
    fn fixed_results_are_there_where_a_block_is_left() {
        let c = controls(&[
            (&["ISETP.NE.U32.AND P1, PT, R2, RZ, PT", "BRA 0x30"], &[2]),
            (&["EXIT"], &[]),
            (&["@P1 IADD3 R8, R2, R3, RZ", "EXIT"], &[]),
        ]);
        assert!(c[0][0].stall + c[0][1].stall >= 13);
        // On the way on to the next block the stall before its first instruction does it.
        let c =
            controls(&[(&["ISETP.NE.U32.AND P1, PT, R2, RZ, PT"], &[1]), (&["@P1 IADD3 R8, R2, R3, RZ", "EXIT"], &[])]);
        assert!(c[0][0].stall >= 13);
    }

    #[test]
    fn what_takes_longer_than_a_stall_is_padded() {
        let product = "IMMA.16832.S8.S8 R4, R36.ROW, R52.COL, R64";
        let c = controls(&[(&[product, "IADD3 R8, R4, R3, RZ", "EXIT"], &[])]);
        let cycles: u32 = c[0][..c[0].len() - 2].iter().map(|c| u32::from(c.stall)).sum();
        assert!(c[0].len() > 3 && cycles > LONGEST, "{c:?}");
    }
}
