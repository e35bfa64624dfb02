//! `setmaxnreg`: registers that warpgroups hand to each other while a kernel runs.
//!
//! Two steps. [`expand`] makes what lowering left either nothing, where it is not known how many registers a thread has at entry
//! (the vendor's compiler ignores the instruction then), or what the machine has: giving up is an instruction, taking more is a
//! loop around one that may fail. [`misfit`] then looks at the code with its registers assigned: at no point may a register live, or
//! be written, beyond those that a thread has there. Of those it is told two are the machine's own.

use crate::ir::{self, Attr, BlockData, Builder, Def, Edge, Mem, Op as I, Term, Ty};
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::Value;
use sass::reg::{File, Reg};

/// `sub` of [`ir::Op::SetMaxReg`].
pub mod kind {
    /// Gives up registers.
    pub const LESS: u8 = 0;
    /// Takes registers; without a result it waits until there are enough.
    pub const MORE: u8 = 1;
}

/// Registers that are counted and not named by code.
pub const RESERVED: u32 = 2;
/// Registers are given to threads in multiples of this many (`arch::limits`: 256 for a warp).
pub const UNIT: u32 = 8;

/// The numbers of registers that a function's threads set themselves.
pub fn counts(f: &ir::Func) -> Vec<u32> {
    let all = f.blocks.iter().flat_map(|b| &b.insts).map(|&i| f.inst(i));
    all.filter(|i| i.op == I::SetMaxReg).map(|i| i.imm as u32).collect()
}

/// Makes loops of what takes registers; without `keep` everything of the kind goes.
pub fn expand(f: &mut ir::Func, keep: bool) {
    let mut block = 0;
    while block < f.blocks.len() {
        let at = f.blocks[block].insts.iter().position(|&i| {
            let inst = f.inst(i);
            inst.op == I::SetMaxReg && inst.results.is_empty() && (!keep || inst.attr.sub == kind::MORE)
        });
        let Some(at) = at else {
            block += 1;
            continue;
        };
        let id = f.blocks[block].insts.remove(at);
        if !keep {
            continue;
        }
        let (imm, loc) = (f.inst(id).imm, f.inst(id).loc);
        let (turn, rest) = (f.new_block(), f.new_block());
        let tail = f.blocks[block].insts.split_off(at);
        let term = std::mem::replace(&mut f.blocks[block].term, Term::Br(Edge { block: turn, args: Vec::new() }));
        let end = f.blocks[block].loc;
        f.blocks[rest.index()] = BlockData { insts: tail, term, loc: end, ..f.blocks[rest.index()].clone() };
        let attr = Attr { sub: kind::MORE, ..Attr::default() };
        let mut b = Builder::new(f, turn);
        b.loc = loc;
        let granted = b.push(I::SetMaxReg, attr, Mem::default(), imm, &[], &[Ty::P]);
        let cond = f.inst(granted).results[0];
        debug_assert!(matches!(f.values[cond.index()].def, Def::Inst(..)));
        let to = |block| Edge { block, args: Vec::new() };
        f.blocks[turn.index()].term = Term::CondBr { cond, uniform: true, then: to(rest), els: to(turn) };
        block += 1;
    }
}

/// A set of general registers.
pub(crate) type Set = [u64; 4];

fn highest(s: &Set) -> Option<u32> {
    (0..4).rev().find(|&i| s[i] != 0).map(|i| i as u32 * 64 + 63 - s[i].leading_zeros())
}

/// Puts the general registers of an operand into a set.
pub(crate) fn put(s: &mut Set, p: Place) {
    if p.reg.file() == File::Gpr && !p.reg.is_const() {
        (p.reg.index()..p.reg.index() + p.width as u32).for_each(|r| s[r as usize / 64 % 4] |= 1 << (r % 64));
    }
}

fn each(inst: &Inst, uses: &mut Set, defs: &mut Set) {
    if let Op::Sass(s) = &inst.op {
        sass_uses(s, |p| put(uses, p));
        sass_defs(s, |p| put(defs, p));
    }
    // Of other calls nobody asks here.
    if let Op::Call(c) = &inst.op
        && c.keeps.light()
    {
        let mut reads = |r: u32| uses[r as usize / 64 % 4] |= 1 << (r % 64);
        c.args.iter().filter(|a| a.1.file() == File::Gpr).for_each(|a| reads(a.1.index()));
        // Behind register assignment these are numbers of registers.
        c.target.values().iter().for_each(|t| reads(t.0));
        (0..253u32).filter(|&r| !c.keeps.keeps(r)).for_each(|r| defs[r as usize / 64] |= 1 << (r % 64));
    }
}

/// The number that an instruction sets.
fn sets(inst: &Inst) -> Option<u32> {
    let Op::Sass(s) = &inst.op else { return None };
    set_by(s)
}

fn set_by(s: &sass::inst::Inst) -> Option<u32> {
    if !matches!(s.form, F::USETMAXREG_DEALLOC | F::USETMAXREG_TRY_ALLOC) {
        return None;
    }
    match s.get(S::ImmAt32).map(|o| o.value) {
        Some(Value::Imm(n)) => Some(n.get() as u32),
        _ => None,
    }
}

/// For each block the bound of the general registers that should be taken first, so that the function fits: what its threads have
/// there, or have to do with later. Empty where they never change it.
pub fn bounds(f: &Func, cfg: &crate::cfg::Cfg) -> Vec<usize> {
    let found = amounts(f, cfg).into_iter().flat_map(|(have, later)| have.into_iter().zip(later));
    found.map(|(have, later)| have.min(later).saturating_sub(RESERVED) as usize).collect()
}

/// For each block the bound of the general registers that its threads have all through it. Empty where they never change it.
pub fn owned(f: &Func, cfg: &crate::cfg::Cfg) -> Vec<usize> {
    let Some((have, _)) = amounts(f, cfg) else { return Vec::new() };
    let least = |b: usize| f.blocks[b].insts.iter().filter_map(sets).fold(have[b], u32::min);
    (0..have.len()).map(|b| least(b).saturating_sub(RESERVED) as usize).collect()
}

/// For each block the bound of the general registers that its threads have at its start. Empty where they never change it.
pub fn starts(f: &Func, cfg: &crate::cfg::Cfg) -> Vec<usize> {
    let have = amounts(f, cfg).map(|a| a.0).unwrap_or_default();
    have.into_iter().map(|n| n.saturating_sub(RESERVED) as usize).collect()
}

/// The bound of the general registers that threads have behind an instruction that sets their number.
pub fn after(s: &sass::inst::Inst) -> Option<usize> {
    set_by(s).map(|n| n.saturating_sub(RESERVED) as usize)
}

/// For each block how many registers threads have at its start, and the least that they have from there on; the largest number
/// where they never changed it and it is not known how many they begin with.
fn amounts(f: &Func, cfg: &crate::cfg::Cfg) -> Option<(Vec<u32>, Vec<u32>)> {
    let n = f.blocks.len();
    let all = |b: u32| f.blocks[b as usize].insts.iter().filter_map(sets);
    if !cfg.rpo.iter().any(|&b| all(b).next().is_some()) {
        return None;
    }
    let mut have = vec![u32::MAX; n];
    let mut later = vec![u32::MAX; n];
    if f.at_entry > 0 {
        have[0] = f.at_entry;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for &b in &cfg.rpo {
            let Some(out) = Some(all(b).next_back().unwrap_or(have[b as usize])).filter(|&o| o != u32::MAX) else {
                continue;
            };
            for &s in &cfg.succs[b as usize] {
                changed |= out < have[s as usize];
                have[s as usize] = have[s as usize].min(out);
            }
        }
        for &b in cfg.rpo.iter().rev() {
            let next = cfg.succs[b as usize].iter().map(|&s| later[s as usize]).min().unwrap_or(u32::MAX);
            let least = all(b).fold(next, u32::min);
            changed |= least < later[b as usize];
            later[b as usize] = later[b as usize].min(least);
        }
    }
    Some((have, later))
}

/// A register that is wanted where threads have too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its number.
    pub register: u32,
    /// How many registers the threads have there, as the driver counts them.
    pub have: u32,
}

/// Where a function with assigned registers, whose threads have `entry` registers at first, needs more than they have, if anywhere.
/// Other functions need `others` at most wherever they are called.
pub fn misfit(f: &Func, entry: u32, others: u32) -> Option<Misfit> {
    let cfg = f.cfg();
    let n = f.blocks.len();
    // What threads have at least where a block begins.
    let mut have = vec![u32::MAX; n];
    have[0] = entry;
    let mut work = vec![0u32];
    let mut least = entry;
    while let Some(b) = work.pop() {
        let out = f.blocks[b as usize].insts.iter().filter_map(sets).next_back().unwrap_or(have[b as usize]);
        for &s in &cfg.succs[b as usize] {
            if out < have[s as usize] {
                have[s as usize] = out;
                work.push(s);
            }
        }
    }
    let outs = live_out(f, &cfg);
    let ins = written(f, &cfg);
    for &b in &cfg.rpo {
        let insts = &f.blocks[b as usize].insts;
        let mut counts = vec![have[b as usize]; insts.len() + 1];
        // By instruction: what something may have been written to, behind it.
        let mut made = vec![ins[b as usize]; insts.len() + 1];
        for (i, inst) in insts.iter().enumerate() {
            counts[i + 1] = sets(inst).unwrap_or(counts[i]);
            made[i + 1] = made[i];
            each(inst, &mut Set::default(), &mut made[i + 1]);
        }
        least = counts.iter().copied().fold(least, u32::min);
        let mut live = outs[b as usize];
        for (i, inst) in insts.iter().enumerate().rev() {
            let (mut uses, mut defs) = (Set::default(), Set::default());
            each(inst, &mut uses, &mut defs);
            let after = counts[i + 1].min(counts[i]);
            // What is read later and has not been written yet is no value.
            let holds = std::array::from_fn(|k| live[k] & made[i + 1][k]);
            for (set, have) in [(&holds, after), (&defs, counts[i]), (&uses, counts[i])] {
                if let Some(register) = highest(set).filter(|r| r + RESERVED >= have) {
                    return Some(Misfit { register, have });
                }
            }
            step(inst, &mut live);
        }
    }
    (others > 0 && others + RESERVED > least).then(|| Misfit { register: others - 1, have: least })
}

/// The general registers that may have been written where each block begins.
fn written(f: &Func, cfg: &crate::cfg::Cfg) -> Vec<Set> {
    let mut made = vec![Set::default(); f.blocks.len()];
    for &b in &cfg.rpo {
        let insts = &f.blocks[b as usize].insts;
        insts.iter().for_each(|i| each(i, &mut Set::default(), &mut made[b as usize]));
    }
    let mut ins = vec![Set::default(); f.blocks.len()];
    let mut work: Vec<u32> = cfg.rpo.iter().rev().copied().collect();
    while let Some(b) = work.pop() {
        let out: Set = std::array::from_fn(|k| ins[b as usize][k] | made[b as usize][k]);
        for &s in &cfg.succs[b as usize] {
            let to = &mut ins[s as usize];
            let more: Set = std::array::from_fn(|k| to[k] | out[k]);
            if more != *to {
                *to = more;
                work.push(s);
            }
        }
    }
    ins
}

/// The general registers that are read behind each block, of a function with its registers assigned.
pub(crate) fn live_out(f: &Func, cfg: &crate::cfg::Cfg) -> Vec<Set> {
    let n = f.blocks.len();
    let mut live_in = vec![Set::default(); n];
    let mut out = vec![Set::default(); n];
    // What each block reads before it writes it for certain, and what it does not write for certain: its instructions are looked at once.
    let mut reads = vec![Set::default(); n];
    let mut keeps = vec![[u64::MAX; 4]; n];
    for &b in &cfg.rpo {
        for inst in f.blocks[b as usize].insts.iter().rev() {
            step(inst, &mut reads[b as usize]);
            over(inst, &mut keeps[b as usize]);
        }
    }
    let mut changed = true;
    while changed {
        changed = false;
        for &b in cfg.rpo.iter().rev() {
            let mut live = Set::default();
            for &s in &cfg.succs[b as usize] {
                (0..4).for_each(|i| live[i] |= live_in[s as usize][i]);
            }
            out[b as usize] = live;
            (0..4).for_each(|i| live[i] = live[i] & keeps[b as usize][i] | reads[b as usize][i]);
            if live != live_in[b as usize] {
                live_in[b as usize] = live;
                changed = true;
            }
        }
    }
    out
}

/// What is alive before an instruction, from what is alive behind it.
pub(crate) fn step(inst: &Inst, live: &mut Set) {
    over(inst, live);
    match &inst.op {
        Op::Sass(s) => sass_uses(s, |p| put(live, p)),
        _ => each(inst, live, &mut Set::default()),
    }
}

/// Takes out what an instruction writes in all lanes.
fn over(inst: &Inst, live: &mut Set) {
    if let Op::Sass(s) = &inst.op
        && (s.guard.as_reg() == Some(Reg::PT) || s.form().uniform_guard)
    {
        sass_defs(s, |p| {
            if p.reg.file() == File::Gpr && !p.reg.is_const() {
                (p.reg.index()..p.reg.index() + p.width as u32)
                    .for_each(|r| live[r as usize / 64 % 4] &= !(1 << (r % 64)));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    /// Registers that nothing has written yet hold no value, whatever reads them later: a product that begins its sums may read what they were.
    #[test]
    fn what_nothing_has_written_fits_everywhere() {
        let of = |first: &str, bottom: &str| {
            let text = format!(
                "func k entry max=230 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    MOV_I Rd=R2 Rb=1\n{first}    ISETP_RR.Cmp=5 Pu=P0 Ra=R2\n    br blk1()\n\
                 blk1(): depth=0\n    USETMAXREG_TRY_ALLOC Pu=UP0 ImmAt32=232\n    brif UP0, blk2(), blk1()\n\
                 blk2(): depth=1\n    STG URc=UR4 Ra=RZ Rb=R200\n    MOV_I Rd=R200 Rb=2\n    brif P0, blk2(), blk3()\nblk3(): depth=0\n{bottom}    exit\n}}\n"
            );
            misfit(&text::parse(&text).unwrap().remove(0), 168, 0)
        };
        assert_eq!(of("", ""), None);
        assert_eq!(of("    MOV_I Rd=R200 Rb=1\n", ""), Some(Misfit { register: 200, have: 168 }));
        let fewer = "    USETMAXREG_DEALLOC ImmAt32=40\n    STG URc=UR4 Ra=RZ Rb=R200\n";
        assert_eq!(of("", fewer), Some(Misfit { register: 200, have: 40 }));
    }
}
