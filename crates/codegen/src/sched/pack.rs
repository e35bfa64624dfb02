//! Predicates that wait for other blocks become bits of registers where there are too few of both.
//!
//! There are seven predicates. One more waits in a general register of its own (`regalloc::spill`), and a program that asks a hundred questions
//! first and heeds them later takes a hundred registers. So where more values are alive than fit, what a block asks for others is shifted into
//! words, as each answer is known: `IADD3.X` doubles a word and adds a predicate. Each block that reads one takes its bit, which costs as much as it
//! would to compare the register with zero. So they are where a block waits for far memory more than once: with one predicate too many nothing moves before what makes
//! another one ([`super::prepass`]), so that each guarded load would be waited for before the next. Runs on SSA form, before scheduling.

use super::sink::{each_use, rename};
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::{Func, Inst, Op, Vreg};
use rustc_hash::FxHashMap;
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// Bits of a word that are used: the constant that takes one out has a sign.
const BITS: usize = 31;
/// As many predicates at least take words instead of registers.
const FEWEST: usize = 8;
/// So many loads from far memory in a block are worth that predicates are taken from words for them.
const LOADS: usize = 4;
const NONE: u32 = u32::MAX;

/// Runs the pass. `pressure`: how many values of each file are alive at most in each block; `limits`: how many general registers and
/// predicates there are. True if anything changed.
pub fn run(f: &mut Func, cfg: &Cfg, live: &Liveness, pressure: &[[u32; 4]], limits: [u32; 2]) -> bool {
    let waiting = |p: &[u32; 4]| p[File::Pred as usize].saturating_sub(limits[1]);
    let crowded = |b: u32| {
        let p = &pressure[b as usize];
        let full = waiting(p) as usize >= FEWEST && p[File::Gpr as usize] + waiting(p) > limits[0];
        full || waiting(p) > 0 && far(&f.blocks[b as usize].insts)
    };
    if !cfg.rpo.iter().any(|&b| crowded(b)) {
        return false;
    }
    // Predicates that live into crowded blocks. What comes of values that live there, too, is made again instead (`super::remat`).
    let reads = operands(f, cfg);
    let mut wait = vec![false; f.vregs.len()];
    for &b in cfg.rpo.iter().filter(|&&b| crowded(b)) {
        let live = &live.live_in[b as usize];
        let there = |v: &Vreg| live.binary_search(v).is_ok();
        for v in live.iter().filter(|v| f.vregs[v.index()] == File::Pred) {
            wait[v.index()] |= !reads[v.index()].iter().all(there);
        }
    }
    // By predicate: its word and its bit.
    let mut place: Vec<(Vreg, u32)> = vec![(Vreg::NONE, NONE); f.vregs.len()];
    let mut home = vec![NONE; f.vregs.len()];
    let mut any = false;
    for &b in &cfg.rpo {
        let made = made(f, b as usize, &wait);
        if made.len() < FEWEST {
            continue;
        }
        made.iter().for_each(|v| home[v.index()] = b);
        for list in made.chunks(BITS) {
            fill(f, b as usize, list, &mut place);
        }
        any = true;
    }
    if any {
        let readers: Vec<u32> = cfg.rpo.clone();
        readers.into_iter().for_each(|b| take_out(f, b, &home, &place));
    }
    any
}

/// True if there are several loads from far memory: where there are too few predicates they would be waited for one after the other, as nothing moves
/// before what needs one more.
fn far(insts: &[Inst]) -> bool {
    let far = |i: &&Inst| matches!(&i.op, Op::Sass(s) if matches!(s.form().mnemonic, "LDG" | "LD"));
    insts.iter().filter(far).nth(LOADS - 1).is_some()
}

/// Of each predicate what the instruction reads that makes it.
fn operands(f: &Func, cfg: &Cfg) -> Vec<SmallVec<[Vreg; 2]>> {
    let mut out = vec![SmallVec::new(); f.vregs.len()];
    for inst in cfg.rpo.iter().flat_map(|&b| &f.blocks[b as usize].insts) {
        f.defs(&inst.op, |v| {
            if f.vregs[v.index()] == File::Pred {
                f.uses(&inst.op, |u| out[v.index()].push(u));
            }
        });
    }
    out
}

/// The predicates that a block makes for others, in the order in which it makes them.
fn made(f: &Func, b: usize, wait: &[bool]) -> Vec<Vreg> {
    let mut out = Vec::new();
    for inst in &f.blocks[b].insts {
        if matches!(&inst.op, Op::Sass(s) if s.guard == Operand::reg(Reg::PT)) {
            f.defs(&inst.op, |v| out.extend(Some(v).filter(|v| wait[v.index()])));
        }
    }
    out
}

/// Shifts predicates into a word, each behind the instruction that makes it.
fn fill(f: &mut Func, b: usize, list: &[Vreg], place: &mut Vec<(Vreg, u32)>) {
    let insts = std::mem::take(&mut f.blocks[b].insts);
    let mut out = Vec::with_capacity(insts.len() + list.len());
    let mut left = list.iter().copied().peekable();
    let mut word: Option<Vreg> = None;
    for inst in insts {
        let mut given = 0;
        f.defs(&inst.op, |v| given += list.contains(&v) as usize);
        let loc = inst.loc;
        out.push(inst);
        for v in left.by_ref().take(given) {
            let next = f.new_vreg(File::Gpr);
            let old = word.map_or(Operand::reg(Reg::RZ), |w| Operand::reg(f.reg(w)));
            let s = Sass::new(F::IADD3X_RRR).with(S::Rd, f.reg(next)).with(S::Ra, old).with(S::Rb, old);
            out.push(Inst::new(Op::Sass(s.with(S::Pp, f.reg(v))), loc));
            word = Some(next);
        }
    }
    f.blocks[b].insts = out;
    place.resize(f.vregs.len(), (Vreg::NONE, NONE));
    for (n, v) in list.iter().enumerate() {
        place[v.index()] = (word.unwrap_or(Vreg::NONE), (list.len() - 1 - n) as u32);
    }
}

/// Has a block take the bits that it reads out of words that others have filled, each before the first reader.
fn take_out(f: &mut Func, b: u32, home: &[u32], place: &[(Vreg, u32)]) {
    let mut read: Vec<Vreg> = Vec::new();
    let mut names: FxHashMap<Vreg, Vreg> = FxHashMap::default();
    each_use(f, b as usize, |v| {
        if home.get(v.index()).is_some_and(|&h| h != NONE && h != b) && names.insert(v, v).is_none() {
            read.push(v);
        }
    });
    let mut waiting: FxHashMap<Vreg, Inst> = FxHashMap::default();
    let mut order = Vec::with_capacity(read.len());
    for v in read {
        let (word, bit) = place[v.index()];
        let name = f.new_vreg(File::Pred);
        let s = Sass::new(F::LOP3_RIR).with(S::Pu, f.reg(name)).with(S::Ra, f.reg(word));
        let s = s.with(S::Rb, Operand::imm(1 << bit)).with(S::Lut, Operand::imm(0xc0));
        names.insert(v, name);
        waiting.insert(name, Inst::new(Op::Sass(s), f.blocks[b as usize].loc));
        order.push(name);
    }
    if order.is_empty() {
        return;
    }
    rename(f, b as usize, &mut |_, v| names.get(&v).copied().unwrap_or(v));
    let insts = std::mem::take(&mut f.blocks[b as usize].insts);
    let mut out = Vec::with_capacity(insts.len() + order.len());
    for inst in insts {
        f.uses(&inst.op, |v| out.extend(waiting.remove(&v)));
        out.push(inst);
    }
    // What the end of the block reads.
    out.extend(order.iter().filter_map(|v| waiting.remove(v)));
    f.blocks[b as usize].insts = out;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};
    use crate::regalloc;
    use std::fmt::Write;

    /// A block asks `n` questions of words that nobody else reads, or of one word that all read; each is heeded in a block of its own, in a function of
    /// so many registers. Gives how many words are filled, how many bits are taken out of them, and the function.
    fn packed(n: usize, gprs: u32, of_one: bool) -> (usize, usize, Func) {
        let mut t = format!(
            "func k entry max={gprs} outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n"
        );
        for k in 1..=n {
            let word = if of_one { 0 } else { k };
            if !of_one {
                writeln!(t, "    LDS Rd=%r{k} Ra=%r0 Imm={:#x}", 4 * k).unwrap();
            }
            writeln!(t, "    ISETP_RI.Cmp=1 Pu=%p{} Ra=%r{word} Rb={k:#x}", 200 + k).unwrap();
        }
        writeln!(t, "    br blk1()").unwrap();
        for k in 1..=n {
            let (ask, act) = (2 * k - 1, 2 * k);
            writeln!(t, "blk{ask}(): depth=0\n    brif %p{}, blk{act}(), blk{}()", 200 + k, act + 1).unwrap();
            writeln!(t, "blk{act}(): depth=0\n    STS Ra=%r0 Rb=%r0 Imm={:#x}\n    br blk{}()", 4 * k, act + 1)
                .unwrap();
        }
        writeln!(t, "blk{}(): depth=0\n    exit\n}}", 2 * n + 1).unwrap();
        let mut f = text::parse(&t).unwrap().remove(0);
        let cfg = f.cfg();
        let live = Liveness::new(&f, &cfg);
        let by_block = regalloc::pressures(&f, &cfg, &live).1;
        let changed = run(&mut f, &cfg, &live, &by_block, [gprs - 1, 7]);
        verify::ssa(&f).unwrap();
        let all = f.blocks.iter().flat_map(|b| &b.insts);
        let count = |form| all.clone().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == form)).count();
        let (filled, taken) = (count(F::IADD3X_RRR), count(F::LOP3_RIR));
        assert_eq!(changed, filled > 0);
        (filled, taken, f)
    }

    #[test]
    fn what_fits_stays() {
        assert_eq!(packed(7, 24, false).0, 0);
        assert_eq!(packed(40, 200, false).0, 0);
    }

    #[test]
    fn what_waits_becomes_bits() {
        let (filled, taken, mut f) = packed(40, 24, false);
        assert_eq!((filled, taken), (40, 40));
        // The last of the first word has its lowest bit, the first its highest; so has the first of the second, of nine.
        let bit = |b: usize| match &f.blocks[b].insts[0].op {
            Op::Sass(s) => s.get(S::Rb).copied(),
            _ => None,
        };
        let at = |k: usize| bit(2 * k - 1);
        assert_eq!([at(1), at(31), at(32), at(40)], [1 << 30, 1, 1 << 8, 1].map(|n| Some(Operand::imm(n))));
        let stats = regalloc::run(&mut f, true, regalloc::Tightness::Free).unwrap();
        assert_eq!(stats.spilled, 0);
    }

    /// The comparison can be made again where it is heeded.
    #[test]
    fn what_comes_of_what_is_there_is_left_alone() {
        assert_eq!(packed(40, 24, true).0, 0);
    }

    /// Ten questions that a loop heeds, where there are registers enough: they are bits where the loop loads from far memory under them.
    #[test]
    fn loads_want_predicates() {
        let taken = |load: &str| {
            let (load, rest) = load.split_once(' ').unwrap_or((load, ""));
            let mut t =
                "func k entry max=200 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n"
                    .to_string();
            for k in 1..=10 {
                writeln!(t, "    LDS Rd=%r{k} Ra=%r0 Imm={:#x}", 4 * k).unwrap();
                writeln!(t, "    ISETP_RI.Cmp=1 Pu=%p{} Ra=%r{k} Rb={k:#x}", 200 + k).unwrap();
            }
            t += "    br blk1()\nblk1(): depth=1\n";
            for k in 1..=10 {
                writeln!(t, "    @%p{} {load} Rd=%r{} {rest} Ra=RZ Imm={:#x}", 200 + k, 20 + k, 4 * k).unwrap();
                writeln!(t, "    STS Ra=%r0 Rb=%r{} Imm={:#x}", 20 + k, 4 * k).unwrap();
            }
            t += "    ISETP_RI.Cmp=1 Pu=%p99 Ra=%r0 Rb=0x7\n    brif %p99, blk1(), blk2()\nblk2(): depth=0\n    exit\n}\n";
            let mut f = text::parse(&t).unwrap().remove(0);
            let cfg = f.cfg();
            let live = Liveness::new(&f, &cfg);
            let by_block = regalloc::pressures(&f, &cfg, &live).1;
            run(&mut f, &cfg, &live, &by_block, [199, 7]);
            f.blocks[1].insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == F::LOP3_RIR)).count()
        };
        assert_eq!(taken("LDG UR=UR4"), 10);
        assert_eq!(taken("LDS"), 0);
    }
}
