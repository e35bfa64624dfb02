//! Loop-invariant code motion: pure instructions whose arguments come from outside a loop move before it.
//!
//! Only what cannot trap and is worth a register: everything pure but cheap constants stays cheap to move, since the
//! register allocator makes constants again where registers are short. What moves is alive through the loop: where as many values are
//! alive at once as anywhere in the function, each would take a thread one more register, and only what ends others moves.

use super::pressure::{self, words};
use crate::cfg::DomTree;
use crate::ir::{Def, Effect, Func, Inst, Op, Ty, Value};
use rustc_hash::FxHashMap;

/// So many words may be alive at once in a loop in any case: with 40 registers a thread three quarters of a multiprocessor's threads are there.
const ROOM: i64 = 36;
/// Of the registers that threads set the number of themselves (`setmaxnreg`), those that are left to what a loop does.
const OWN: i64 = 2;
/// Predicates alive through a loop up to which comparisons move. There are seven; one more waits in a general register and is compared
/// with zero at each reader, which costs what the comparison does.
const PREDICATES: i64 = 4;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let cfg = f.cfg();
    let dom = cfg.dominators();
    let loops = cfg.loops(&dom);
    let mut block_of = vec![u32::MAX; f.values.len()];
    for &b in &cfg.rpo {
        for &p in &f.blocks[b as usize].params {
            block_of[p.index()] = b;
        }
        for &i in &f.blocks[b as usize].insts {
            for &r in &f.inst(i).results {
                block_of[r.index()] = b;
            }
        }
    }
    if loops.members.is_empty() {
        return;
    }
    let mut peaks = pressure::peaks(f, &cfg);
    // Inner loops first: what leaves them may leave the outer ones too.
    for (header, members) in loops.members.iter().rev() {
        let Some(before) = preheader(f, &cfg, *header, members) else { continue };
        let mut inside = crate::bitset::BitSet::new(f.blocks.len());
        for &m in members {
            inside.insert(m as usize);
        }
        let outside = |v: Value, block_of: &[u32]| {
            let b = block_of[v.index()];
            b == u32::MAX || !inside.contains(b as usize)
        };
        let mut room = Room::new(f, *header, members, &|v| outside(v, &block_of));
        let within = members.iter().map(|&m| peaks[m as usize]).max().unwrap_or(0);
        let elsewhere = (0..peaks.len()).filter(|&b| !inside.contains(b)).map(|b| peaks[b]).max().unwrap_or(0);
        let given = given(f, &dom, *header).map_or(i64::MAX, |n| n - OWN);
        room.more = ROOM.max(elsewhere).min(given).max(within) - within;
        let free = room.more;
        for &m in members {
            let insts = std::mem::take(&mut f.blocks[m as usize].insts);
            let mut kept = Vec::with_capacity(insts.len());
            for id in insts {
                let inst = f.inst(id);
                let moves = inst.op.effect() == Effect::Pure
                    && !matches!(inst.op, Op::IDiv | Op::IRem)
                    && inst.args.iter().all(|&a| outside(a, &block_of))
                    && room.takes(f, inst);
                if moves {
                    for r in inst.results.clone() {
                        block_of[r.index()] = before;
                        debug_assert!(matches!(f.def(r), Def::Inst(..)));
                    }
                    f.blocks[before as usize].insts.push(id);
                } else {
                    kept.push(id);
                }
            }
            f.blocks[m as usize].insts = kept;
        }
        let taken = free - room.more;
        members.iter().for_each(|&m| peaks[m as usize] += taken);
    }
}

/// How many registers threads have in a block, where they set their number on every way to it: what the last block above says.
fn given(f: &Func, dom: &DomTree, block: u32) -> Option<i64> {
    let sets = |b: u32| {
        let mut insts = f.blocks[b as usize].insts.iter().rev().map(|&i| f.inst(i));
        insts.find(|i| i.op == Op::SetMaxReg).map(|i| i.imm)
    };
    let mut b = block;
    while b != 0 {
        b = dom.idom[b as usize];
        if let Some(n) = sets(b) {
            return Some(n);
        }
    }
    None
}

/// What may be alive through a loop.
struct Room {
    /// Reads in the loop, of each value that is read there.
    reads: FxHashMap<Value, u32>,
    /// Words that may be alive there beyond those that are.
    more: i64,
    /// Predicates that come from outside or are handed on by the iterations.
    predicates: i64,
}

impl Room {
    fn new(f: &Func, header: u32, members: &[u32], outside: &dyn Fn(Value) -> bool) -> Room {
        let mut reads: FxHashMap<Value, u32> = FxHashMap::default();
        let mut read = |v: Value| *reads.entry(v).or_insert(0) += 1;
        for &m in members {
            let block = &f.blocks[m as usize];
            block.insts.iter().flat_map(|&i| &f.inst(i).args).for_each(|&a| read(a));
            block.term.visit(&mut read);
        }
        let through = f.blocks[header as usize].params.iter().chain(reads.keys().filter(|&&v| outside(v)));
        let predicates = through.filter(|&&v| f.ty(v) == Ty::P).count() as i64;
        Room { more: 0, predicates, reads }
    }

    /// Takes an instruction out of the loop, if there is room for what it gives in the place of what it alone reads.
    fn takes(&mut self, f: &Func, inst: &Inst) -> bool {
        let reads = |v: &Value| self.reads.get(v).copied().unwrap_or(0);
        let gives: i64 = inst.results.iter().filter(|&r| reads(r) > 0).map(|&r| words(f, r)).sum();
        let ends = |v: Value| reads(&v) as usize == inst.args.iter().filter(|&&a| a == v).count();
        // A value that is read twice here counts once.
        let first = |n: usize| !inst.args[..n].contains(&inst.args[n]);
        let frees: i64 =
            (0..inst.args.len()).filter(|&n| first(n) && ends(inst.args[n])).map(|n| words(f, inst.args[n])).sum();
        let predicate = |v: Value| f.ty(v) == Ty::P;
        let made = inst.results.iter().filter(|&&r| predicate(r)).count() as i64;
        let ended =
            (0..inst.args.len()).filter(|&n| predicate(inst.args[n]) && first(n) && ends(inst.args[n])).count() as i64;
        if gives > frees && gives - frees > self.more {
            return false;
        }
        if made > ended && self.predicates + made - ended > PREDICATES && gives + made >= frees {
            return false;
        }
        self.more -= (gives - frees).max(0);
        self.predicates += made - ended;
        for a in &inst.args {
            if let Some(n) = self.reads.get_mut(a) {
                *n -= 1;
            }
        }
        true
    }
}

/// The block outside the loop that alone leads to its header and nowhere else.
fn preheader(f: &Func, cfg: &crate::cfg::Cfg, header: u32, members: &[u32]) -> Option<u32> {
    let mut outside = cfg.preds[header as usize].iter().filter(|p| !members.contains(p));
    let p = *outside.next()?;
    let alone = outside.next().is_none() && f.blocks[p as usize].term.successors().len() == 1;
    alone.then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    #[test]
    fn a_loop_keeps_registers_for_itself() {
        // Each value has an invariant of its own, that the loop reads beside the value.
        let n = 150;
        let mut text = String::from("func k returns() {\nblk0():\nv0:b64 = param {bytes=8}\n");
        let value = |k: usize| 2 * k + 1;
        for k in 0..n {
            text += &format!("v{}:b32 = load v0 {{space=global bytes=4 imm={}}}\n", value(k), 4 * k);
        }
        text += "br blk1()\nblk1():\n";
        for k in 0..n {
            text += &format!(
                "v{}:b32 = not v{}\nstore v0, v{}, v{} {{space=global bytes=4}}\n",
                value(k) + 1,
                value(k),
                value(k) + 1,
                value(k)
            );
        }
        text += &format!("v{0}:p = sreg.volatile\nbrif v{0}, blk1(), blk2()\nblk2():\nret\n}}", 2 * n + 1);
        let mut f = text::parse(&text).unwrap().remove(0);
        let moved = |f: &Func| f.blocks[0].insts.iter().filter(|&&i| f.inst(i).op == Op::Not).count() as i64;
        run(&mut f);
        verify::verify(&f).unwrap();
        assert_eq!(moved(&f), 0);
    }

    #[test]
    fn invariants_leave_the_loop() {
        let mut f = text::parse(
            "func k returns() {\nblk0():\nv0:b32 = sreg\nbr blk1(v0)\nblk1(v1:b32):\nv2:b32 = imul v0, v0\nv3:b32 = iadd v1, v2\nv4:p = icmp v3, v0 {cmp=lt}\nbrif v4, blk1(v3), blk2()\nblk2():\nret\n}",
        )
        .unwrap()
        .remove(0);
        run(&mut f);
        verify::verify(&f).unwrap();
        assert_eq!(f.blocks[0].insts.len(), 2);
        assert_eq!(f.blocks[1].insts.len(), 2);
    }
}
