//! What the instructions of a part of a block read and write, of general registers and predicates, by dense numbers.

use crate::mir::{Func, Inst, Op, Vreg};
use crate::regalloc;
use sass::reg::File;

const NONE: u32 = u32::MAX;

/// What an instruction does to the values of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effect {
    /// Results that somebody reads.
    pub made: u32,
    /// All results.
    pub written: u32,
    /// What it reads and what it writes are counted apart.
    pub apart: bool,
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// It is read behind the part.
    pub behind: bool,
    /// 0 for a general register, 1 for a predicate.
    pub kind: u8,
}

/// The part.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// By instruction, and behind the last one: where its list begins in `reads`, and in `writes`.
    pub from: Vec<(u32, u32)>,
    /// Each value once for an instruction.
    pub reads: Vec<u32>,
    /// Results that somebody reads.
    pub writes: Vec<u32>,
    /// All values that are read or written.
    pub values: Vec<Known>,
    /// By instruction: what it does to general registers, and to predicates.
    pub effects: Vec<[Effect; 2]>,
    /// General registers and predicates alive at the start.
    pub alive: [u32; 2],
}

/// The numbers of values, while a part is looked at.
#[derive(Default)]
pub struct Names {
    of: Vec<u32>,
    list: Vec<Vreg>,
}

impl Traffic {
    /// Of these instructions, before which `left` reads of each value are left, behind the part, too, and so many registers are alive.
    pub fn new(f: &Func, part: &[Inst], left: &[u32], alive: [u32; 2], names: &mut Names) -> Traffic {
        let mut t = Traffic { alive, ..Traffic::default() };
        t.from.reserve(part.len() + 1);
        t.effects.reserve(part.len());
        names.of.resize(f.vregs.len(), NONE);
        let kind = |v: Vreg| match f.vregs[v.index()] {
            File::Gpr => Some(0),
            File::Pred => Some(1),
            _ => None,
        };
        let mut count: Vec<u32> = Vec::new();
        let mut name = |v: Vreg, kind: u8, count: &mut Vec<u32>, values: &mut Vec<Known>| {
            let k = &mut names.of[v.index()];
            if *k == NONE {
                *k = names.list.len() as u32;
                names.list.push(v);
                count.push(0);
                values.push(Known { behind: false, kind });
            }
            *k
        };
        for inst in part {
            let (r, w) = (t.reads.len(), t.writes.len());
            t.from.push((r as u32, w as u32));
            f.uses(&inst.op, |v| {
                if let Some(kind) = kind(v) {
                    let k = name(v, kind, &mut count, &mut t.values);
                    count[k as usize] += 1;
                    if !t.reads[r..].contains(&k) {
                        t.reads.push(k);
                    }
                }
            });
            let apart = matches!(&inst.op, Op::Sass(s) if regalloc::apart(s));
            let mut effects = [Effect { apart, ..Effect::default() }; 2];
            f.defs(&inst.op, |v| {
                if let Some(kind) = kind(v) {
                    let e = &mut effects[kind as usize];
                    e.written += 1;
                    if left[v.index()] > 0 {
                        e.made += 1;
                        t.writes.push(name(v, kind, &mut count, &mut t.values));
                    }
                }
            });
            t.effects.push(effects);
        }
        t.from.push((t.reads.len() as u32, t.writes.len() as u32));
        for (k, v) in names.list.drain(..).enumerate() {
            t.values[k].behind = left[v.index()] > count[k];
            names.of[v.index()] = NONE;
        }
        t
    }

    /// How many instructions there are.
    pub fn len(&self) -> usize {
        self.effects.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// The values that an instruction reads.
    pub fn reads(&self, i: usize) -> &[u32] {
        &self.reads[self.from[i].0 as usize..self.from[i + 1].0 as usize]
    }

    /// The results of an instruction that somebody reads.
    pub fn writes(&self, i: usize) -> &[u32] {
        &self.writes[self.from[i].1 as usize..self.from[i + 1].1 as usize]
    }

    /// How many general registers and predicates each instruction needs in an order.
    pub fn needs(&self, order: impl ExactSizeIterator<Item = u32>, mut need: impl FnMut([i32; 2])) {
        let mut left: Vec<u32> = vec![0; self.values.len()];
        self.reads.iter().for_each(|&v| left[v as usize] += 1);
        let mut now = self.alive.map(|n| n as i32);
        for i in order {
            let mut dying = [0i32; 2];
            for &v in self.reads(i as usize) {
                left[v as usize] -= 1;
                let known = self.values[v as usize];
                dying[known.kind as usize] += (left[v as usize] == 0 && !known.behind) as i32;
            }
            let effects = &self.effects[i as usize];
            need([0, 1].map(|k| {
                let e = effects[k];
                let written = e.written as i32;
                now[k] + if e.apart { written } else { (written - dying[k]).max(0) }
            }));
            (0..2).for_each(|k| now[k] += effects[k].made as i32 - dying[k]);
        }
    }

    /// The most that any instruction needs.
    pub fn peaks(&self, order: impl ExactSizeIterator<Item = u32>) -> [u32; 2] {
        let mut most = self.alive;
        self.needs(order, |n| (0..2).for_each(|k| most[k] = most[k].max(n[k].max(0) as u32)));
        most
    }

    /// By value: which instruction reads it last, and how many do.
    fn last(&self) -> Vec<(u32, u32)> {
        let mut last = vec![(NONE, 0); self.values.len()];
        for i in 0..self.len() {
            self.reads(i).iter().for_each(|&v| last[v as usize] = (i as u32, last[v as usize].1 + 1));
        }
        last
    }

    /// By instruction: the only one that reads the one predicate that it makes, if nobody reads that behind the part; else `u32::MAX`. And the only one that reads
    /// all general registers that it makes, if it makes no predicate.
    pub fn only(&self) -> (Vec<u32>, Vec<u32>) {
        let last = self.last();
        let reader = |v: u32| match last[v as usize] {
            (i, 1) if !self.values[v as usize].behind => i,
            _ => NONE,
        };
        let heeded = |i: usize| {
            let made = self.writes(i).iter().find(|v| self.values[**v as usize].kind == 1);
            made.filter(|_| self.effects[i][1].made == 1).map_or(NONE, |&v| reader(v))
        };
        let fed = |i: usize| match self.writes(i) {
            [first, rest @ ..] if self.effects[i][1].made == 0 && rest.iter().all(|&v| reader(v) == reader(*first)) => {
                reader(*first)
            }
            _ => NONE,
        };
        ((0..self.len()).map(heeded).collect(), (0..self.len()).map(fed).collect())
    }

    /// By value: which instructions read it, in order; where each list begins, and all lists.
    pub fn readers(&self) -> (Vec<u32>, Vec<u32>) {
        let mut first = vec![0u32; self.values.len() + 1];
        self.reads.iter().for_each(|&v| first[v as usize + 1] += 1);
        (0..self.values.len()).for_each(|v| first[v + 1] += first[v]);
        let mut readers = vec![0u32; self.reads.len()];
        let mut at = first.clone();
        for i in 0..self.len() {
            for &v in self.reads(i) {
                readers[at[v as usize] as usize] = i as u32;
                at[v as usize] += 1;
            }
        }
        (first, readers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    #[test]
    fn what_a_part_needs_depends_on_its_order() {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n";
        let body = "    S2R Rd=%r0 Sr=0x21\n    IADD3_RIR Rd=%r1 Ra=%r0 Rb=1\n    IADD3_RIR Rd=%r2 Ra=%r0 Rb=2\n    STG.Size=4 Ra=RZ Rb=%r1 URc=UR4\n    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    exit\n}\n";
        let f = text::parse(&format!("{head}{body}")).unwrap().remove(0);
        let t = Traffic::new(&f, &f.blocks[0].insts, &[2, 1, 1], [0, 0], &mut Names::default());
        assert_eq!((t.values.len(), t.reads(3), t.writes(0)), (3, &[1][..], &[0][..]));
        assert!(t.values.iter().all(|v| !v.behind));
        assert_eq!(t.peaks([0, 1, 2, 3, 4].into_iter()), [2, 0]);
        let t = Traffic::new(&f, &f.blocks[0].insts, &[3, 1, 1], [4, 1], &mut Names::default());
        assert_eq!(t.peaks([0, 1, 2, 3, 4].into_iter()), [7, 1]);
        assert_eq!(t.peaks([0, 1, 3, 2, 4].into_iter()), [6, 1]);
    }
}
