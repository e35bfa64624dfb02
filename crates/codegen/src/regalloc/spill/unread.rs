//! What was brought back and nobody reads: a value was to be in a register where a block begins, and had to leave it before it was needed.
//!
//! That is known when all blocks have been walked. The names in question go, with what loads or computes them, and with them the stores into slots that nobody loads any
//! more. Loops need it most: each iteration would bring back again what lives through the loop but does not fit into it.

use super::super::Note;
use super::Spiller;
use crate::groups::Groups;
use crate::mir::Vreg;
use sass::reg::File;

/// What gives a name.
#[derive(Clone, Copy)]
enum Made {
    /// An instruction that is there in any case, or nothing.
    Anyway,
    /// The edges into a block: its parameter of this number.
    Param(u32, u32),
    /// An instruction of a block that brings a value back.
    Inst(u32, u32),
}

/// Names that are read, and those of them whose sources are still to be looked at.
struct Read {
    is: Vec<bool>,
    todo: Vec<Vreg>,
}

impl Read {
    fn note(&mut self, v: Vreg) {
        if !std::mem::replace(&mut self.is[v.index()], true) {
            self.todo.push(v);
        }
    }
}

/// True for an instruction that does nothing but give a name to a value.
fn brings(note: Note) -> bool {
    matches!(note, Note::Load(_) | Note::Again(_) | Note::Anew(_) | Note::Decode)
}

impl Spiller<'_> {
    /// Takes out what nobody reads. Values that need no store any more are no longer among the spilled ones.
    pub(super) fn drop_unread(&mut self, notes: &mut [Vec<Note>]) {
        let names = self.f.vregs.len();
        let reachable = |b: &usize| self.cfg.reachable(*b as u32);
        let blocks: Vec<usize> = (0..self.f.blocks.len()).filter(reachable).collect();
        let mut made = vec![Made::Anyway; names];
        let mut read = Read { is: vec![false; names], todo: Vec::new() };
        // What is stored into each slot: on edges, and values where they are defined. Without a stack a carrier is the slot of one value.
        let mut stored: Vec<(u32, u32)> = Vec::new();
        let stack = self.file == File::Gpr;
        for &b in &blocks {
            let block = &self.f.blocks[b];
            for (k, p) in block.params.iter().enumerate() {
                made[p.index()] = Made::Param(b as u32, k as u32);
                // Parameters of other files are as they were.
                if self.f.vregs[p.index()] != self.file && p.index() < self.home.len() {
                    read.note(*p);
                }
            }
            for (i, (inst, &note)) in block.insts.iter().zip(&notes[b]).enumerate() {
                match note {
                    Note::Store(slot) => self.f.uses(&inst.op, |v| stored.push((slot, v.0))),
                    _ if brings(note) => self.f.defs(&inst.op, |v| made[v.index()] = Made::Inst(b as u32, i as u32)),
                    _ => self.f.uses(&inst.op, |v| read.note(v)),
                }
            }
            self.f.term_uses(&block.term, |v| read.note(v));
        }
        stored.extend(self.spilled.iter().map(|v| (self.home[v.index()], v.0)));
        let homes = if stack { self.slots as usize } else { names };
        let stored = Groups::new(homes, &stored);
        let mut loaded = vec![false; homes];
        while let Some(v) = read.todo.pop() {
            let mut home = if stack { None } else { Some(v.0) };
            match made[v.index()] {
                Made::Anyway => {}
                Made::Param(b, k) => {
                    for &p in &self.cfg.preds[b as usize] {
                        let edges = self.f.blocks[p as usize].term.edges();
                        edges.iter().filter(|e| e.block.0 == b).for_each(|e| read.note(e.args[k as usize]));
                    }
                }
                Made::Inst(b, i) => {
                    if let Note::Load(slot) = notes[b as usize][i as usize] {
                        home = Some(slot);
                    }
                    self.f.uses(&self.f.blocks[b as usize].insts[i as usize].op, |v| read.note(v));
                }
            }
            if let Some(home) = home
                && !std::mem::replace(&mut loaded[home as usize], true)
            {
                stored.of(home).iter().for_each(|&v| read.note(Vreg(v)));
            }
        }
        self.spilled.retain(|v| loaded[self.home[v.index()] as usize]);
        let kept: Vec<Vec<bool>> =
            self.f.blocks.iter().map(|b| b.params.iter().map(|p| read.is[p.index()]).collect()).collect();
        (self.loads, self.copied) = (0, 0);
        for &b in &blocks {
            let mut keep: Vec<bool> = Vec::with_capacity(notes[b].len());
            for (inst, &note) in self.f.blocks[b].insts.iter().zip(&notes[b]) {
                let mut stays = true;
                match note {
                    Note::Store(slot) => stays = loaded[slot as usize],
                    _ if brings(note) => self.f.defs(&inst.op, |v| stays = read.is[v.index()]),
                    _ => {}
                }
                self.copied += u32::from(stays && matches!(note, Note::Store(_)));
                self.loads += u32::from(stays && matches!(note, Note::Load(_)));
                keep.push(stays);
            }
            let block = &mut self.f.blocks[b];
            if keep.contains(&false) {
                let mut stays = keep.iter();
                block.insts.retain(|_| *stays.next().unwrap_or(&true));
                let mut stays = keep.iter();
                notes[b].retain(|_| *stays.next().unwrap_or(&true));
            }
            let mut stays = kept[b].iter();
            block.params.retain(|_| *stays.next().unwrap_or(&true));
            for e in block.term.edges_mut() {
                let mut stays = kept[e.block.0 as usize].iter();
                e.args.retain(|_| *stays.next().unwrap_or(&true));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Stats, Tightness, run};
    use crate::mir::text;
    use std::fmt::Write;

    /// Allocates with 17 registers; the checker proves what comes out.
    fn allocate(body: &str) -> Stats {
        let text = format!("func k entry max=18 outgoing=0 fixed=0 size=0 align=8 {{\n{body}    exit\n}}\n");
        let mut f = text::parse(&text).unwrap().remove(0);
        run(&mut f, true, Tightness::Tight).unwrap()
    }

    /// Loads `n` values, and stores them the other way round: what else there is has to go.
    fn crowd(n: usize, from: usize) -> String {
        let mut out = String::new();
        (from..from + n).for_each(|i| writeln!(out, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap());
        (from..from + n).rev().for_each(|i| writeln!(out, "    STS Ra=RZ Rb=%r{i} Imm={:#x}", 4 * i).unwrap());
        out
    }

    /// Eight values, put away before a loop.
    fn before() -> String {
        let mut body = String::from("blk0(): depth=0\n");
        (0..8).for_each(|i| writeln!(body, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap());
        body + &crowd(17, 20) + "    S2R Rd=%r10 Sr=0x21\n    br blk1(%r10)\nblk1(%r11): depth=1\n"
    }

    const NEXT: &str = "    IADD3_RIR Rd=%r12 Ra=%r11 Rb=0x1\n    ISETP_RI.Cmp=1 Pu=%p13 Ra=%r12 Rb=0x9\n    brif %p13, blk1(%r12), blk2()\nblk2(): depth=0\n";

    fn used() -> String {
        (0..8).map(|i| format!("    STS Ra=RZ Rb=%r{i} Imm={:#x}\n", 4 * i)).collect()
    }

    /// The loop uses the values behind a crowded place: they are loaded there, not before the loop, too. The counter goes and comes with them.
    #[test]
    fn what_must_go_before_it_is_needed_does_not_come() {
        let s = allocate(&(before() + &crowd(16, 40) + &used() + NEXT));
        assert_eq!((s.spill_stores, s.spill_loads), (36, 36));
    }

    /// Between two crowded places there is a loop with room for the values, which does not need them.
    #[test]
    fn what_only_lives_through_a_loop_does_not_come_for_it() {
        let s = allocate(&(before() + NEXT + &crowd(17, 40) + &used()));
        assert_eq!((s.spill_stores, s.spill_loads), (32, 32));
    }

    /// A loop uses 22 values one after the other: each of those for which there is no register is loaded once.
    #[test]
    fn a_loop_does_not_load_again_what_it_begins_with() {
        let mut body = String::from("blk0(): depth=0\n");
        (100..122).for_each(|i| writeln!(body, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap());
        body += "    S2R Rd=%r10 Sr=0x21\n    br blk1(%r10)\nblk1(%r11): depth=1\n";
        (100..122).for_each(|i| writeln!(body, "    STS Ra=RZ Rb=%r{i} Imm={:#x}", 4 * i).unwrap());
        let s = allocate(&(body + NEXT));
        assert_eq!((s.spill_stores, s.spill_loads), (28, 28));
    }
}
