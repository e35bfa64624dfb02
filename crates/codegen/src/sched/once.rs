//! What a block computes twice it computes once.
//!
//! Blocks that each computed the same for themselves, as none of them leads to another, are one block after [`crate::guards`]: sixteen copies under one
//! condition each with the predicate that says whether they copy or clear. Runs on SSA form; arithmetic with one result, one register wide. Linear.

use super::order::movable;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Op, Vreg};
use rustc_hash::{FxHashMap, FxHasher};
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::Reg;
use smallvec::SmallVec;
use std::hash::Hasher;

/// Finds what these blocks compute twice: `to` says of each value what it is, that of a second computation then is the first one's. What reads it is
/// left to the caller, and so is what is no longer read ([`super::dead`]).
pub fn find(f: &mut Func, blocks: &[u32], to: &mut [Vreg]) {
    for &b in blocks {
        // By what tells most instructions apart: which they are.
        let mut known: FxHashMap<u64, SmallVec<[u32; 1]>> = FxHashMap::default();
        let mut insts = std::mem::take(&mut f.blocks[b as usize].insts);
        for at in 0..insts.len() {
            let Op::Sass(s) = &mut insts[at].op else { continue };
            renew(f, s, to);
            let Some((slot, made)) = result(s) else { continue };
            let s = s.clone();
            let equal = known.entry(hash(&s, slot)).or_default();
            let first = equal.iter().find_map(|&k| match &insts[k as usize].op {
                Op::Sass(first) if alike(first, &s, slot) => first.operands[slot].as_reg(),
                _ => None,
            });
            match first {
                Some(first) => to[made.index()] = Vreg(first.index()),
                None => equal.push(at as u32),
            }
        }
        f.blocks[b as usize].insts = insts;
    }
}

/// The slot and the value of the only result, of what may be computed once for all.
fn result(s: &Sass) -> Option<(usize, Vreg)> {
    if s.guard != Operand::reg(Reg::PT) || !movable(s) {
        return None;
    }
    // Constants are made where they are wanted: for sums that begin with them each has its own.
    let mut reads = false;
    sass_uses(s, |p| reads |= p.reg.is_virtual());
    let (mut made, mut one) = (None, reads);
    sass_defs(s, |p| {
        if p.reg.is_virtual() {
            one &= p.width == 1 && made.is_none();
            made = p.slot.map(|n| (n as usize, Vreg(p.reg.index())));
        }
    });
    made.filter(|_| one)
}

/// Reads of single values become reads of what these are by now; lists of several are seldom equal.
fn renew(f: &Func, s: &mut Sass, to: &[Vreg]) {
    let mut places: SmallVec<[Place; 8]> = SmallVec::new();
    sass_uses(s, |p| places.push(p));
    for p in places.into_iter().filter(|p| p.width == 1 && p.reg.is_virtual()) {
        let mut v = Vreg(p.reg.index());
        while to[v.index()] != v {
            v = to[v.index()];
        }
        let value = p.slot.map_or(&mut s.guard.value, |n| &mut s.operands[n as usize].value);
        *value = Value::Reg(Reg::virt(f.vregs[v.index()], v.0));
    }
}

/// True if two instructions do the same, whatever register their results are in.
fn alike(first: &Sass, second: &Sass, result: usize) -> bool {
    let mut one = second.clone();
    one.operands[result] = first.operands[result];
    one == *first
}

/// A number of an instruction without its result.
fn hash(s: &Sass, result: usize) -> u64 {
    let mut h = FxHasher::default();
    h.write_u16(s.form.0);
    for (n, o) in s.operands.iter().enumerate().filter(|x| x.0 != result) {
        match o.value {
            Value::Reg(r) => h.write_u32(r.index() << 4 ^ n as u32),
            Value::Imm(k) => h.write_u64(k.get() as u64),
            Value::Const { offset, .. } => h.write_u32(offset as u32),
            Value::Target(_) => {}
        }
    }
    h.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    fn after(body: &str) -> String {
        let t =
            format!("func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{body}    exit\n}}\n");
        let mut f = text::parse(&t).unwrap().remove(0);
        let mut to: Vec<Vreg> = (0..f.vregs.len() as u32).map(Vreg).collect();
        find(&mut f, &[0], &mut to);
        crate::sched::sink::rename(&mut f, 0, &mut |_, v| to[v.index()]);
        crate::sched::dead::run(&mut f);
        text::print(&f)
    }

    const STORE: &str = "    STS Ra=RZ Rb=%r3\n    STS Ra=RZ Rb=%r4 Imm=0x4\n";

    #[test]
    fn equal_sums_of_equal_values_are_one() {
        let t = after(&format!(
            "    LDS Rd=%r0 Ra=RZ Imm=0x0\n    IADD3_RIR Rd=%r1 Ra=%r0 Rb=1\n    IADD3_RIR Rd=%r2 Ra=%r0 Rb=1\n\
             IADD3_RIR Rd=%r3 Ra=%r1 Rb=2\n    IADD3_RIR Rd=%r4 Ra=%r2 Rb=2\n{STORE}"
        ));
        assert!(t.matches("IADD3").count() == 2 && t.matches("Rb=%r3").count() == 2, "{t}");
    }

    #[test]
    fn what_differs_or_reads_memory_stays() {
        let loads = "    LDS Rd=%r3 Ra=RZ Imm=0x0\n    LDS Rd=%r4 Ra=RZ Imm=0x0\n";
        assert_eq!(after(&format!("{loads}{STORE}")).matches("LDS").count(), 2);
        let sums = "    LDS Rd=%r0 Ra=RZ Imm=0x0\n    IADD3_RIR Rd=%r3 Ra=%r0 Rb=1\n    IADD3_RIR Rd=%r4 Ra=%r0 Rb=2\n";
        assert_eq!(after(&format!("{sums}{STORE}")).matches("IADD3").count(), 2);
    }
}
