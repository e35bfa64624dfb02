//! Parallel copies as sequences of moves.

use super::Note;
use crate::mir::operands::{copy_inst, plop3};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst, Operand};
use sass::reg::{File, Reg};

/// What an emitted instruction does, for the checker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// `dst = src`
    Move(Reg, Reg),
    /// The last of the instructions that exchange two registers (the ones before it have no note).
    Swap(Reg, Reg),
    /// The register goes to the slot on the stack, ...
    Store(Reg),
    /// ... and what is in the slot to the register.
    Load(Reg),
}

/// From so many registers on, a cycle goes through a slot on the stack if no register is free: a store, a load, and one move less than there are registers, for three
/// exclusive-ors each but the last.
const LONG: usize = 4;

/// The note of an instruction; `slot` is the number of the one on the stack.
pub fn note(step: Option<Step>, slot: u32) -> Note {
    match step {
        Some(Step::Move(d, s)) => Note::Move(d, s),
        Some(Step::Swap(a, b)) => Note::Swap(a, b),
        Some(Step::Store(_)) => Note::Store(slot),
        Some(Step::Load(_)) => Note::Load(slot),
        None => Note::Part,
    }
}

/// Emits moves that have the effect of the parallel copy `pairs` (physical registers; no destination twice).
///
/// `scratch` gives a register of the file that is free when all but cycles is done, if there is one: cycles go through it; else registers
/// are exchanged by three exclusive-ors. `out` gets each instruction; `Some` with the last one of a step.
pub fn sequence(pairs: &[(Reg, Reg)], scratch: impl FnMut(File) -> Option<Reg>, out: impl FnMut(Inst, Option<Step>)) {
    through(pairs, scratch, None, out);
}

/// As [`sequence`]; `slot` is the distance from R1 of a word on the stack that long cycles of general registers may go through.
pub fn through(
    pairs: &[(Reg, Reg)],
    mut scratch: impl FnMut(File) -> Option<Reg>,
    slot: Option<i64>,
    mut out: impl FnMut(Inst, Option<Step>),
) {
    let mut todo: Vec<(Reg, Reg)> = pairs.iter().copied().filter(|(d, s)| d != s).collect();
    debug_assert!((1..todo.len()).all(|i| todo[..i].iter().all(|p| p.0 != todo[i].0)), "destination twice");
    while !todo.is_empty() {
        // A destination that nobody still reads can be written.
        let ready = (0..todo.len()).find(|&i| todo.iter().all(|&(_, s)| s != todo[i].0));
        if let Some(i) = ready {
            let (d, s) = todo.remove(i);
            out(copy_inst(d, s), Some(Step::Move(d, s)));
            continue;
        }
        // Only cycles are left, each register read once and written once.
        let (d, s) = todo[0];
        if let Some(t) = scratch(d.file()) {
            out(copy_inst(t, d), Some(Step::Move(t, d)));
            todo.iter_mut().filter(|p| p.1 == d).for_each(|p| p.1 = t);
        } else if let Some(slot) = slot.filter(|_| d.file() == File::Gpr && cycle(&todo) >= LONG) {
            let at = Operand::imm(slot);
            let stack = Inst::new(F::STL).with(S::Ra, Reg::r(1)).with(S::Imm, at).with(S::Rb, d);
            out(stack, Some(Step::Store(d)));
            // The one that reads it comes last.
            let mut last = d;
            let mut from = d;
            while let Some(i) = todo.iter().position(|p| p.0 == from) {
                let (to, source) = todo.swap_remove(i);
                last = to;
                if source == d {
                    break;
                }
                out(copy_inst(to, source), Some(Step::Move(to, source)));
                from = source;
            }
            let back = Inst::new(F::LDL).with(S::Rd, last).with(S::Ra, Reg::r(1)).with(S::Imm, at);
            out(back, Some(Step::Load(last)));
        } else {
            swap(d, s, &mut out);
            todo.remove(0);
            // What was in d is now in s.
            todo.iter_mut().filter(|p| p.1 == d).for_each(|p| p.1 = s);
            todo.retain(|(d, s)| d != s);
        }
    }
}

/// Registers of the cycle that the first copy is part of, where nothing but cycles is left.
fn cycle(todo: &[(Reg, Reg)]) -> usize {
    let (first, mut at) = todo[0];
    let mut n = 1;
    while at != first
        && let Some(p) = todo.iter().find(|p| p.0 == at)
    {
        at = p.1;
        n += 1;
    }
    n
}

fn swap(a: Reg, b: Reg, out: &mut impl FnMut(Inst, Option<Step>)) {
    const XOR: i64 = 0x3c;
    let xor = |d: Reg, x: Reg, y: Reg| match a.file() {
        File::Gpr => {
            Inst::new(F::LOP3_RRR).with(S::Rd, d).with(S::Ra, x).with(S::Rb, y).with(S::Lut, Operand::imm(XOR))
        }
        File::Ugpr => {
            Inst::new(F::ULOP3_UUU).with(S::Rd, d).with(S::Ra, x).with(S::Rb, y).with(S::Lut, Operand::imm(XOR))
        }
        File::Pred => plop3(F::PLOP3, d, x, y, XOR),
        _ => plop3(F::UPLOP3, d, x, y, XOR),
    };
    out(xor(a, a, b), None);
    out(xor(b, a, b), None);
    out(xor(a, a, b), Some(Step::Swap(a, b)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the steps on a small machine and compares with the parallel meaning, for every mapping of four registers.
    #[test]
    fn every_copy_of_four_registers() {
        for code in 0..5u32.pow(4) {
            let from: Vec<u32> = (0..4).map(|i| code / 5u32.pow(i) % 5).collect();
            // Source 4: not written.
            let pairs: Vec<(Reg, Reg)> = (0..4u8)
                .filter(|&i| from[i as usize] < 4)
                .map(|i| (Reg::r(i), Reg::r(from[i as usize] as u8)))
                .collect();
            for (scratch, slot) in [(None, None), (Some(Reg::r(9)), None), (None, Some(16))] {
                let mut state: Vec<u32> = (0..10).collect();
                let mut stack = 99;
                through(
                    &pairs,
                    |_| scratch,
                    slot,
                    |_, step| match step {
                        Some(Step::Move(d, s)) => state[d.index() as usize] = state[s.index() as usize],
                        Some(Step::Swap(a, b)) => state.swap(a.index() as usize, b.index() as usize),
                        Some(Step::Store(r)) => stack = state[r.index() as usize],
                        Some(Step::Load(r)) => state[r.index() as usize] = stack,
                        None => {}
                    },
                );
                for i in 0..4 {
                    let want = if from[i] < 4 { from[i] } else { i as u32 };
                    assert_eq!(state[i], want, "{from:?} register {i}");
                }
            }
        }
    }

    #[test]
    fn long_cycles_go_through_the_stack() {
        let names = |n: u8, slot: Option<i64>| {
            let pairs: Vec<(Reg, Reg)> = (0..n).map(|i| (Reg::r(i), Reg::r((i + 1) % n))).collect();
            let mut out = Vec::new();
            through(&pairs, |_| None, slot, |s, _| out.push(s.form().mnemonic));
            out
        };
        assert_eq!(names(4, Some(0)), ["STL", "MOV", "MOV", "MOV", "LDL"]);
        assert_eq!(names(3, Some(0)), ["LOP3"; 6]);
        assert_eq!(names(4, None), ["LOP3"; 9]);
    }
}
