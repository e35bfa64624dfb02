//! The stack frame: its size, prologue and epilogues, and the accesses that depend on it.
//!
//! From R1 upward: outgoing arguments, locals, spill slots, what guards the rest, saved registers (and the caller's R1, where the frame is
//! aligned to more than 8 bytes).

use super::{INCOMING, Stats};
use crate::mir::operands::sass_defs;
use crate::mir::{Func, Inst, Op, Term};
use crate::sched::branches::uses_descriptor;
use sass::form::{ModName as M, SlotName as S};
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use sass::{enums, forms as F};

const R1: Reg = Reg::r(1);

fn local(store: bool, r: Reg, offset: u32) -> Sass {
    let at = Operand::imm(offset as i64);
    if store {
        Sass::new(F::STL).with(S::Ra, R1).with(S::Imm, at).with(S::Rb, r)
    } else {
        Sass::new(F::LDL).with(S::Ra, R1).with(S::Imm, at).with(S::Rd, r)
    }
}

fn add(d: Reg, a: Reg, n: i64) -> Sass {
    Sass::new(F::IADD3_RIR).with(S::Rd, d).with(S::Ra, a).with(S::Rb, Operand::imm(n))
}

/// Traps where `end`, below which nothing of the stack is used, is below the memory of the stack; `low` and `fits` are free
/// registers. As the vendor's code with `--sp-bounds-check`, which jumps around the trap.
pub(crate) fn check_stack(end: impl Into<Operand>, low: Reg, fits: Reg) -> [Sass; 3] {
    let limit = Sass::new(F::S2R).with(S::Rd, low).with(S::Sr, Operand::imm(i64::from(enums::sr::LMEMHIOFF)));
    let compare = Sass::new(F::ISETP_RR).with(S::Pu, fits).with(S::Ra, end).with(S::Rb, low);
    let compare = compare.with_mod(M::Cmp, enums::icmp::GE).with_mod(M::Sign, enums::sign::U32);
    let trap = Sass::new(F::BPT).with(S::Trap, Operand::imm(1)).guarded(Operand::reg(fits).inverted());
    [limit, compare, trap]
}

/// Where in constant bank 0 the driver puts eight bytes that nobody can guess, as the vendor's code reads them.
const GUARD: u16 = 0xc0;

/// The words of the guard at `slot` of the frame, with what is done with each: in R0 what the bank has.
fn guard_words(slot: u32) -> [(Sass, u32); 2] {
    let load = |at: u16| Sass::new(F::LDC).with(S::Rd, Reg::r(0)).with(S::Const, Operand::cbank(0, at.into()));
    [(load(GUARD), slot), (load(GUARD + 4), slot + 4)]
}

/// Puts the guard into its slot. R0 carries no argument.
fn set_guard(slot: u32) -> Vec<Sass> {
    guard_words(slot).into_iter().flat_map(|(load, at)| [load, local(true, Reg::r(0), at)]).collect()
}

/// Traps where the guard has changed. Neither R0, R3 nor predicates carry a result. The vendor's code jumps around the trap.
fn check_guard(slot: u32) -> Vec<Sass> {
    let (value, there, same) = (Reg::r(0), Reg::r(3), Reg::p(0));
    let mut out = Vec::new();
    for (n, (load, at)) in guard_words(slot).into_iter().enumerate() {
        let before = if n == 0 { Reg::PT } else { same };
        let compare = Sass::new(F::ISETP_RR).with(S::Pu, same).with(S::Ra, there).with(S::Rb, value);
        let compare = compare.with_mod(M::Cmp, enums::icmp::EQ).with_mod(M::Sign, enums::sign::U32);
        out.extend([local(false, there, at), load, compare.with(S::Pp, before)]);
    }
    out.push(Sass::new(F::BPT).with(S::Trap, Operand::imm(1)).guarded(Operand::reg(same).inverted()));
    out
}

/// Lays out the frame of an allocated function. Counts among spills what a routine for seldom cases saves as registers are short (`super::light`).
pub fn run(f: &mut Func, stats: &mut Stats) {
    let saved = if f.entry { Vec::new() } else { registers_to_save(f) };
    if let (Some(r), false) = (f.keeps.predicates(), f.entry) {
        keep_predicates(f, Reg::r(r));
    }
    if f.borrows > 0 {
        let ends = f.blocks.iter().filter(|b| matches!(b.term, Term::Ret(_))).count() as u32;
        stats.spill_stores += 4 * saved.len() as u32;
        stats.spill_loads += 4 * saved.len() as u32 * ends;
    }
    let over_aligned = f.frame.align > 8;
    let keep_r1 = over_aligned && !f.entry;
    let top = f.frame.fixed.next_multiple_of(4);
    let guard = f.frame.guarded.then(|| top.next_multiple_of(8));
    let top = guard.map_or(top, |at| at + 8);
    let r1_slot = top + 4 * saved.len() as u32;
    // The vendor's functions rely on a stack pointer that is a multiple of 16 where they are called (observed: 128-bit stores of
    // outgoing arguments without masking), so frames that lie under theirs keep it so.
    let least = if f.linkable { 16 } else { 8 };
    let size = (r1_slot + 4 * keep_r1 as u32).next_multiple_of(f.frame.align.max(least));
    f.frame.size = size;
    let wrap = |code: Vec<Sass>| code.into_iter().map(|s| Inst::new(Op::Sass(s), u32::MAX));
    let mut prologue = Vec::new();
    let mut epilogue = Vec::new();
    if size > 0 {
        if keep_r1 {
            // R0 carries no argument.
            prologue.push(Sass::new(F::MOV_R).with(S::Rd, Reg::r(0)).with(S::Rb, R1));
        }
        prologue.push(add(R1, R1, -(size as i64)));
        if over_aligned {
            let mask = !(f.frame.align as i64 - 1) as u32 as i32 as i64;
            let and = Operand::imm(0xc0);
            let s = Sass::new(F::LOP3_RIR).with(S::Rd, R1).with(S::Ra, R1).with(S::Lut, and);
            prologue.push(s.with(S::Rb, lop_immediate(mask)));
        }
        if f.frame.checked {
            // Neither predicates nor R3 carry an argument.
            prologue.extend(check_stack(Operand::reg(R1), Reg::r(3), Reg::p(0)));
        }
        if keep_r1 {
            prologue.push(local(true, Reg::r(0), r1_slot));
        }
        if let Some(slot) = guard {
            prologue.extend(set_guard(slot));
            epilogue.extend(check_guard(slot));
        }
        for (n, &r) in saved.iter().enumerate() {
            prologue.push(local(true, r, top + 4 * n as u32));
            epilogue.push(local(false, r, top + 4 * n as u32));
        }
        epilogue.push(if keep_r1 { local(false, R1, r1_slot) } else { add(R1, R1, size as i64) });
    }
    incoming(f, size, keep_r1.then_some(r1_slot));
    for b in &mut f.blocks {
        if matches!(b.term, Term::Ret(_)) {
            b.insts.extend(wrap(epilogue.clone()));
        } else if let (Term::Exit, Some(slot)) = (&b.term, guard) {
            b.insts.extend(wrap(check_guard(slot)));
        }
    }
    f.blocks[0].insts.splice(0..0, wrap(prologue));
}

/// The immediate as the slot of LOP3 stores it.
fn lop_immediate(bits: i64) -> Operand {
    let signed = F::LOP3_RIR
        .get()
        .slots
        .iter()
        .any(|s| s.name == S::Rb && matches!(s.kind, sass::form::SlotKind::Imm { signed: true, .. }));
    Operand::imm(if signed { bits } else { bits & 0xffff_ffff })
}

/// What every entry begins with: R1, and the memory descriptor in UR4:UR5 where something needs it.
pub fn begin_entry(f: &mut Func, stack: u16, descriptor: Option<u16>) {
    let mut code = vec![Sass::new(F::LDC).with(S::Rd, R1).with(S::Const, Operand::cbank(0, stack as i32))];
    code.extend(descriptor.map(descriptor_load));
    f.blocks[0].insts.splice(0..0, code.into_iter().map(|s| Inst::new(Op::Sass(s), u32::MAX)));
}

/// Loads the memory descriptor from its place in constant bank 0.
pub fn descriptor_load(offset: u16) -> Sass {
    let load = Sass::new(F::ULDC).with(S::Rd, Reg::ur(4)).with(S::Const, Operand::cbank(0, offset as i32));
    load.with_mod(M::Size, enums::constsize::B64)
}

/// Loads the memory descriptor anew wherever it may have been lost: at the start of a block, and behind what lets other threads
/// of the warp go on, which may be in other functions, or calls one. Uniform registers belong to the warp.
pub fn reload_descriptor(f: &mut Func, offset: u16) {
    for b in &mut f.blocks {
        let mut there = false;
        let mut at = 0;
        while at < b.insts.len() {
            let (uses, loses) = match &b.insts[at].op {
                Op::Sass(s) => (uses_descriptor(s), s.form().effects.sync || lets_others_go_on(s)),
                _ => (false, true),
            };
            if uses && !there {
                let loc = b.insts[at].loc;
                b.insts.insert(at, Inst::new(Op::Sass(descriptor_load(offset)), loc));
                at += 1;
            }
            there = (there || uses) && !loses;
            at += 1;
        }
    }
}

/// Waits for other threads, or lets them run.
fn lets_others_go_on(s: &Sass) -> bool {
    const NAMES: [&str; 7] = ["BAR", "WARPSYNC", "BSYNC", "YIELD", "NANOSLEEP", "UCGABAR", "ENDCOLLECTIVE"];
    let name = s.form().mnemonic;
    NAMES.iter().any(|n| name.starts_with(n))
}

/// Puts the predicates into the upper word of the return address, which is zero, and both back at the end.
fn keep_predicates(f: &mut Func, r: Reg) {
    let all = Operand::imm(0x7f);
    let save = Sass::new(F::P2R).with(S::Rd, r).with(S::Ra, Reg::RZ).with(S::Mask, all);
    let back = Sass::new(F::R2P).with(S::Ra, r).with(S::Mask, all);
    f.blocks[0].insts.insert(0, Inst::new(Op::Sass(save), u32::MAX));
    for b in &mut f.blocks {
        if matches!(b.term, Term::Ret(_)) {
            b.insts.push(Inst::new(Op::Sass(back.clone()), u32::MAX));
            let zero = Sass::new(F::MOV_R).with(S::Rd, r).with(S::Rb, Reg::RZ);
            b.insts.push(Inst::new(Op::Sass(zero), u32::MAX));
        }
    }
}

/// Registers of the caller that the function writes.
fn registers_to_save(f: &Func) -> Vec<Reg> {
    let mut written = [false; 256];
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        if let Op::Sass(s) = &inst.op {
            sass_defs(s, |p| {
                if p.reg.file() == File::Gpr && !p.reg.is_const() {
                    let first = p.reg.index() as usize;
                    written[first..first + p.width as usize].fill(true);
                }
            });
        }
        // What a function that it calls may change; no register behind R252 holds anything.
        if let Op::Call(c) = &inst.op {
            (0..253u32).filter(|&r| !c.keeps.preserves(r)).for_each(|r| written[r as usize] = true);
        }
    }
    let save = |r: &u32| written[*r as usize] && f.preserves(*r);
    (0..255u32).filter(save).map(|r| Reg::r(r as u8)).collect()
}

/// Resolves the accesses to incoming stack arguments.
fn incoming(f: &mut Func, size: u32, r1_slot: Option<u32>) {
    for b in &mut f.blocks {
        let mut at = 0;
        while at < b.insts.len() {
            let loc = b.insts[at].loc;
            if let Op::Sass(s) = &mut b.insts[at].op
                && s.form == F::LDL
                && let Some(i) = s.slot(S::Imm)
                && let Value::Imm(n) = s.operands[i].value
                && n.get() >= INCOMING
            {
                let offset = n.get() - INCOMING;
                let Some(slot) = r1_slot else {
                    s.operands[i] = Operand::imm(offset + size as i64);
                    at += 1;
                    continue;
                };
                let d = s.get(S::Rd).and_then(Operand::as_reg).unwrap_or(Reg::RZ);
                s.operands[i] = Operand::imm(offset);
                let base = s.slot(S::Ra);
                if let Some(base) = base {
                    s.operands[base] = Operand::reg(d);
                }
                b.insts.insert(at, Inst::new(Op::Sass(local(false, d, slot)), loc));
                at += 1;
            }
            at += 1;
        }
    }
}
