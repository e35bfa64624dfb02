//! Brings the readers of a predicate together where there are too many predicates.
//!
//! PTX masks a tile row by row, each row by the same comparisons: a predicate then lives from the first row to the last, and there
//! are seven. Selections that read one move up behind the first of them, with what they are computed from, if that
//! has no side effect and nothing that must stay in its place lies between. Runs on SSA form, before [`super::order`]. Linear.

use super::order::movable;
use crate::mir::operands::each_read;
use crate::mir::{Func, Op, Vreg, reorder};
use sass::inst::Inst as Sass;
use sass::reg::File;
use smallvec::SmallVec;

/// So many predicates at once do no harm.
const FEW: usize = 4;
/// How many operations move up with a selection, one computed from the other.
const DEPTH: u32 = 3;
const NONE: u32 = u32::MAX;

/// Scratch memory over the values of a function.
pub struct Cluster {
    /// Which instruction of the block at hand defines a value.
    def: Vec<u32>,
}

impl Cluster {
    /// For `n` values.
    pub fn new(n: usize) -> Cluster {
        Cluster { def: vec![NONE; n] }
    }

    /// Orders the instructions of block `b` anew, where it has too many predicates; true if so.
    pub fn run(&mut self, f: &mut Func, b: usize) -> bool {
        if crowd(f, b) <= FEW {
            return false;
        }
        let insts = std::mem::take(&mut f.blocks[b].insts);
        // Instructions that stay in their place part the block.
        let mut part = Vec::with_capacity(insts.len());
        let mut at = 0;
        let mut readers: Vec<SmallVec<[u32; 4]>> = Vec::new();
        let mut list_of: Vec<(Vreg, u32)> = Vec::new();
        for (i, inst) in insts.iter().enumerate() {
            let free = matches!(&inst.op, Op::Sass(s) if movable(s));
            at += !free as u32;
            part.push(if free { at } else { NONE });
            at += !free as u32;
            f.defs(&inst.op, |v| {
                self.def[v.index()] = i as u32;
                if f.vregs[v.index()] == File::Pred {
                    list_of.push((v, readers.len() as u32));
                    readers.push(SmallVec::new());
                }
            });
        }
        list_of.sort_unstable();
        let list = |v: Vreg| list_of.binary_search_by_key(&v, |x| x.0).ok().map(|n| list_of[n].1 as usize);
        for (i, inst) in insts.iter().enumerate() {
            if let Op::Sass(s) = &inst.op {
                predicates(s, |v| {
                    if let Some(n) = list(v) {
                        readers[n].push(i as u32);
                    }
                });
            }
        }
        let mut order =
            Order { f, def: &self.def, insts: &insts, part: &part, done: vec![false; insts.len()], out: Vec::new() };
        for i in 0..insts.len() as u32 {
            if order.done[i as usize] {
                continue;
            }
            order.put(i);
            let mut read: SmallVec<[usize; 2]> = SmallVec::new();
            if let Op::Sass(s) = &insts[i as usize].op
                && part[i as usize] != NONE
            {
                predicates(s, |v| read.extend(list(v)));
            }
            for n in read {
                for &r in readers[n].iter().filter(|&&r| r > i) {
                    let mut needed = SmallVec::new();
                    if !order.done[r as usize] && order.can(r, part[i as usize], DEPTH, &mut needed) {
                        needed.into_iter().for_each(|d| order.put(d));
                    }
                }
            }
        }
        let order = order.out;
        for inst in &insts {
            f.defs(&inst.op, |v| self.def[v.index()] = NONE);
        }
        f.blocks[b].insts = reorder(insts, &order);
        true
    }
}

struct Order<'a> {
    f: &'a Func,
    def: &'a [u32],
    insts: &'a [crate::mir::Inst],
    part: &'a [u32],
    done: Vec<bool>,
    out: Vec<u32>,
}

impl Order<'_> {
    fn put(&mut self, i: u32) {
        if !std::mem::replace(&mut self.done[i as usize], true) {
            self.out.push(i);
        }
    }

    /// True if instruction `i` may stand here; `needed` gets it behind what must come before it.
    fn can(&self, i: u32, part: u32, depth: u32, needed: &mut SmallVec<[u32; 8]>) -> bool {
        if self.part[i as usize] != part || depth == 0 {
            return false;
        }
        let mut ok = true;
        self.f.uses(&self.insts[i as usize].op, |v| {
            let d = self.def[v.index()];
            if ok && d != NONE && !self.done[d as usize] && !needed.contains(&d) {
                ok = self.can(d, part, depth - 1, needed);
            }
        });
        if ok {
            needed.push(i);
        }
        ok
    }
}

/// Every predicate that an instruction reads.
fn predicates(s: &Sass, mut f: impl FnMut(Vreg)) {
    each_read(s, |r| {
        if r.is_virtual() && r.file() == File::Pred {
            f(Vreg(r.index()));
        }
    });
}

/// How many predicates that a block defines are alive at once, in the order as it is.
fn crowd(f: &Func, b: usize) -> usize {
    let mut last: Vec<(Vreg, u32)> = Vec::new();
    let insts = &f.blocks[b].insts;
    let mut ends = vec![0u32; insts.len() + 1];
    for (i, inst) in insts.iter().enumerate() {
        if let Op::Sass(s) = &inst.op {
            predicates(s, |v| last.push((v, i as u32)));
        }
    }
    if last.len() <= FEW {
        return 0;
    }
    last.sort_unstable();
    let end_of = |v: Vreg| {
        let n = last.partition_point(|x| x.0 <= v);
        n.checked_sub(1).map(|n| last[n]).filter(|x| x.0 == v).map(|x| x.1)
    };
    let (mut now, mut most) = (0usize, 0usize);
    for (i, inst) in insts.iter().enumerate() {
        now -= ends[i] as usize;
        f.defs(&inst.op, |v| {
            if f.vregs[v.index()] == File::Pred
                && let Some(end) = end_of(v)
            {
                now += 1;
                ends[end as usize] += 1;
            }
        });
        most = most.max(now);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    #[test]
    fn the_second_row_moves_up_to_the_first() {
        let mut body = String::from("blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n");
        for n in 0..8 {
            body += &format!("    ISETP_RI Pu=%p{} Ra=%r0 Rb={}\n", 1 + n, n);
        }
        for row in 0..2 {
            for n in 0..8 {
                body += &format!("    SEL_RI Rd=%r{} Ra=%r0 Rb=7 Pp=%p{}\n", 9 + row * 8 + n, 1 + n);
            }
        }
        for n in 0..16 {
            body += &format!("    STG.Size=4 Ra=RZ Rb=%r{} URc=UR4\n", 9 + n);
        }
        body += "    exit\n";
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        verify::ssa(&f).unwrap();
        Cluster::new(f.vregs.len()).run(&mut f, 0);
        verify::ssa(&f).unwrap();
        let read = |i: usize| {
            let mut p = None;
            if let Op::Sass(s) = &f.blocks[0].insts[i].op {
                predicates(s, |v| p = Some(v));
            }
            p
        };
        for n in 0..8 {
            assert!(read(9 + 2 * n).is_some());
            assert_eq!(read(9 + 2 * n), read(10 + 2 * n));
        }
    }
}
