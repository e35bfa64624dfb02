//! Registers for a function, assigned with more and more of them until no product of a warpgroup has to be waited for, and as long as fewer moves are worth them.

use super::Failure;
use crate::mir::operands::sass_defs;
use crate::mir::{Func, Op};
use crate::regalloc::{self, Stats, Tightness, Unfit, assign, frame};
use crate::sched::prepass::DEEPER;
use crate::sched::warpgroup::losses::{Cause, Loss};
use crate::sched::{heads, held, select, unread, warpgroup, zeros};
use crate::{guards, ifconvert};
use diag::{Diagnostic, Severity};
use sass::forms as F;
use sass::reg::File;
use std::cmp::Ordering;

/// Cycles that a product takes that is waited for, roughly: 64 sums of a thread, four steps deep.
const WAIT: u64 = 96;
/// What an access to the stack costs, in instructions.
const STACK: u64 = 4;
/// Where less than this part of what a function costs is moves between registers, more registers are not tried.
const MOVES: u64 = 64;
/// Fewer registers than these are worth nothing.
const FEW: u64 = 24;

/// Where products have to be waited for though all registers are taken, so many more are kept free around them each time, ...
const APART: u32 = 4;
/// ... and at most so many.
const MOST_APART: u32 = 28;

/// Fewer waits may cost such a part more than more of them: how long one takes is known only roughly.
const DEARER: u64 = 16;

/// Of as many waits, what costs less by no more than such a part is not worth more values on the stack.
const NOTICED: u64 = 64;

/// How registers are assigned.
pub struct Search {
    /// The chip.
    pub sm: u16,
    /// Check what comes out.
    pub verify: bool,
    /// How few there may be at first.
    pub tight: Tightness,
    /// In the order of the program, at the least effort.
    pub quickly: bool,
    /// Straighten the code behind it.
    pub polish: bool,
    /// So many values are in uniform registers that need not be.
    pub uniform: u32,
    /// Where the constant bank says where the stack begins.
    pub stack: u16,
    /// Where the descriptor of memory is, if it is loaded once.
    pub once: Option<u16>,
}

/// A function with registers.
pub struct Trial {
    /// The function.
    pub f: Func,
    /// What is on the stack.
    pub stats: Stats,
    /// Where products are waited for.
    pub lost: Vec<Loss>,
}

impl Trial {
    /// What the function costs, to compare with another way to assign its registers ([`cost`]).
    pub fn cost(&self) -> u64 {
        cost(&self.f)
    }

    /// True if it is better than what another order of the function has become: with as many waits what costs less, and noticeably so if more of it is on the
    /// stack; with more or fewer of them the one with fewer, as long as that does not cost much more.
    pub fn replaces(&self, other: &Trial) -> bool {
        let (mine, its) = (self.cost(), other.cost());
        match self.lost.len().cmp(&other.lost.len()) {
            Ordering::Less => mine <= its + its / DEARER,
            Ordering::Equal if self.stats.spilled > other.stats.spilled => mine + mine / NOTICED < its,
            Ordering::Equal if self.stats.spilled < other.stats.spilled => mine <= its + its / NOTICED,
            Ordering::Equal => mine < its,
            Ordering::Greater => its > mine + mine / DEARER,
        }
    }

    /// True if it is better than another way to assign the registers: fewer waits, then what costs less, the square of that as much as registers.
    fn beats(&self, other: &Trial) -> bool {
        let weight = |t: &Trial| u128::from(t.cost()).pow(2) * u128::from(registers(&t.f).max(FEW));
        let key = |t: &Trial| (t.lost.len(), weight(t));
        key(self) < key(other)
    }
}

/// What a function costs: instructions, more for those that wait, as often as loops around them are taken to run.
fn cost(f: &Func) -> u64 {
    let one = |op: &Op| match op {
        Op::Sass(s) if s.form == F::WARPGROUP_I => WAIT,
        Op::Sass(s) if matches!(s.form().mnemonic, "LDL" | "STL") => STACK,
        _ => 1,
    };
    let block = |b: &crate::mir::Block| b.insts.iter().map(|i| one(&i.op)).sum::<u64>() << (DEEPER * b.depth.min(4));
    f.blocks.iter().map(block).sum()
}

/// One more than the highest general register that a function writes.
fn registers(f: &Func) -> u64 {
    let mut most = 0;
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        if let Op::Sass(s) = &inst.op {
            sass_defs(s, |p| {
                if p.reg.file() == File::Gpr && !p.reg.is_const() {
                    most = most.max(u64::from(p.reg.index()) + u64::from(p.width));
                }
            });
        }
    }
    most
}

/// Says what a pass has made, and checks it.
type After<'a> = &'a mut dyn FnMut(&str, &Func, bool) -> Result<(), Diagnostic>;

impl Search {
    /// Assigns the registers of a function: with the fewest waits, and of as many with the fewest registers, but where more of them spare moves enough.
    /// `choose` is called before.
    ///
    /// # Errors
    /// Where more registers or fewer uniform ones may do, and where nothing will.
    pub fn run(&self, mut f: Func, choose: &mut dyn FnMut(&mut Func), after: After) -> Result<Trial, Failure> {
        let mut tight = self.tight;
        // Only what comes from here on is done again.
        let before = (tight != Tightness::Free).then(|| f.clone());
        let products = assign::has_products(&f);
        let mut best: Option<Trial> = None;
        loop {
            let again = before.as_ref().filter(|_| tight != Tightness::Free);
            let assigned = if self.quickly {
                regalloc::run_quickly(&mut f, self.verify, &mut *choose)
            } else {
                choose(&mut f);
                regalloc::run(&mut f, self.verify, tight)
            };
            match assigned {
                Ok(stats) => {
                    if f.entry {
                        regalloc::shared::begin(&mut f, self.sm);
                        frame::begin_entry(&mut f, self.stack, self.once);
                    }
                    after("regalloc", &f, false)?;
                    guards::clear(&mut f);
                    if self.polish {
                        ifconvert::run(&mut f);
                        select::run(&mut f);
                        heads::run(&mut f);
                        zeros::run(&mut f);
                        unread::run(&mut f);
                        held::run(&mut f);
                    }
                    after("ifconvert", &f, false)?;
                    let lost = warpgroup::run(&mut f);
                    let trial = Trial { f: std::mem::take(&mut f), stats, lost };
                    // With more registers less may be in the way of vectors.
                    let done = trial.lost.is_empty() && stats.moved <= trial.cost() / MOVES;
                    if best.as_ref().is_none_or(|old| trial.beats(old)) {
                        best = Some(trial);
                    }
                    if done {
                        break;
                    }
                }
                Err(Unfit { why, .. }) if why.severity == Severity::Fatal => return Err(why.into()),
                // The numbers of general registers decide nothing there.
                Err(Unfit { uniform: true, .. }) if best.is_none() && self.uniform > 0 && !self.quickly => {
                    return Err(Failure::Uniform);
                }
                Err(_) if best.is_some() || again.is_some() && products => {}
                Err(_) if tight != Tightness::Free => return Err(Failure::Tight),
                Err(_) if self.quickly => return Err(Failure::Hurried),
                Err(_) if self.uniform > 0 => return Err(Failure::Uniform),
                Err(Unfit { why, .. }) => return Err(why.into()),
            }
            let next = match tight {
                // What spills has all registers in either way (where threads gave some up, nearly).
                Tightness::Tight if best.as_ref().is_some_and(|b| b.stats.spilled > 0) => Some(Tightness::Free),
                Tightness::Tight | Tightness::Loose => Some(tight.looser()),
                // What is on the stack is in nobody's way.
                Tightness::Free | Tightness::Apart(_) => {
                    let lost = best.as_ref().is_some_and(|b| b.lost.iter().any(|l| l.cause == Cause::Registers));
                    let more = if let Tightness::Apart(n) = tight { n + APART } else { APART };
                    (lost && more <= MOST_APART).then_some(Tightness::Apart(more))
                }
            };
            let (Some(next), Some(before)) = (next, &before) else { break };
            f = before.clone();
            tight = next;
        }
        best.ok_or_else(|| Diagnostic::error("internal error: no attempt to assign registers was kept").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    /// A wait costs more than a few values on the stack, and less than many; in a loop, more of either.
    #[test]
    fn waits_and_the_stack_are_weighed() {
        let cost = |waits: usize, stack: usize, depth: u32| {
            let lines = "    WARPGROUP_I\n".repeat(waits) + &"    STL Ra=R1 Rb=R4\n".repeat(stack);
            let t = format!(
                "func k entry max=32 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth={depth}\n{lines}    exit\n}}\n"
            );
            let f = text::parse(&t).unwrap().remove(0);
            Trial { f, stats: Stats::default(), lost: Vec::new() }.cost()
        };
        assert!(cost(1, 0, 0) > cost(0, 20, 0) && cost(1, 0, 0) < cost(0, 30, 0));
        assert_eq!(cost(1, 1, 1), 8 * cost(1, 1, 0));
    }

    /// Of two orders the one with fewer waits is taken if it does not cost much more, and of as many waits the one with less on the stack if that costs hardly
    /// more.
    #[test]
    fn an_order_is_replaced_for_fewer_waits_and_for_less_on_the_stack() {
        let trial = |lost: usize, spilled: u32, insts: usize| {
            let lines = "    MOV_R Rd=R4 Rb=RZ\n".repeat(insts);
            let t = format!(
                "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{lines}    exit\n}}\n"
            );
            let f = text::parse(&t).unwrap().remove(0);
            let lost = vec![Loss { cause: Cause::Registers, loc: 0 }; lost];
            Trial { f, stats: Stats { spilled, ..Stats::default() }, lost }
        };
        assert!(trial(0, 40, 1030).replaces(&trial(1, 0, 1000)) && !trial(1, 0, 1000).replaces(&trial(0, 40, 1030)));
        assert!(!trial(0, 40, 1100).replaces(&trial(1, 0, 1000)) && trial(1, 0, 1000).replaces(&trial(0, 40, 1100)));
        assert!(trial(0, 3, 1010).replaces(&trial(0, 17, 1000)) && !trial(0, 17, 1000).replaces(&trial(0, 3, 1010)));
        assert!(!trial(0, 3, 1020).replaces(&trial(0, 17, 1000)) && trial(0, 17, 1000).replaces(&trial(0, 3, 1020)));
        assert!(trial(0, 0, 999).replaces(&trial(0, 0, 1000)) && !trial(0, 0, 1000).replaces(&trial(0, 0, 1000)));
    }

    /// Registers are worth the square of what fewer instructions save, as long as they are not few.
    #[test]
    fn more_registers_are_taken_for_fewer_instructions() {
        let trial = |insts: usize, registers: usize| {
            let lines = format!("    MOV_R Rd=R{} Rb=RZ\n", registers - 1).repeat(insts);
            let t = format!(
                "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{lines}    exit\n}}\n"
            );
            Trial { f: text::parse(&t).unwrap().remove(0), stats: Stats::default(), lost: Vec::new() }
        };
        assert!(!trial(90, 40).beats(&trial(100, 30)) && trial(80, 40).beats(&trial(100, 30)));
        assert!(trial(99, 24).beats(&trial(100, 12)) && trial(100, 30).beats(&trial(100, 32)));
    }
}
