//! Edges: values come to the place where the next block expects them, in a register or on the stack.

use super::super::Note;
use super::Spiller;
use crate::mir::{Op, Term, Vreg};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::{File, Reg};

impl Spiller<'_> {
    pub(super) fn edges(&mut self, notes: &mut [Vec<Note>]) {
        let blocks = self.f.blocks.len();
        for bi in (0..blocks).filter(|&b| self.cfg.reachable(b as u32)) {
            let mut term = std::mem::replace(&mut self.f.blocks[bi].term, Term::Unreachable);
            let single = term.successors().len() == 1;
            let begun = self.begun(bi).filter(|_| single).cloned().unwrap_or_default();
            for e in term.edges_mut() {
                let si = e.block.0 as usize;
                let mut args = Vec::new();
                let old = std::mem::take(&mut e.args);
                let mut stack: Vec<(u32, Vreg)> = Vec::new();
                for (n, &a) in old.iter().enumerate() {
                    if self.in_memory[si][n] && self.undefined.get(a.index()) != Some(&true) {
                        let p = self.f.blocks[si].params[n];
                        stack.push((self.home[p.index()], a));
                    }
                }
                let joins: Vec<Vreg> = self.entry[si].iter().filter(|x| x.1.is_some()).map(|x| x.0).collect();
                let mut carried = Vec::new();
                let mut waiting = Vec::new();
                if self.file == File::Gpr {
                    // Stores first, while nothing has been reloaded for the next block; but what a reload still reads
                    // is written after it, by way of a slot of its own. Who has no slot yet may get one that others have.
                    let slot = |v: Vreg| self.shared[self.shares[v.index()].index()];
                    let mut read: Vec<u32> = joins.iter().map(|&v| slot(v)).collect();
                    let in_register = |n: &usize| !self.in_memory[si][*n];
                    read.extend((0..old.len()).filter(in_register).map(|n| slot(old[n])));
                    for (slot, a) in &mut stack {
                        if read.contains(slot) && self.home[a.index()] != *slot {
                            self.slots += 1;
                            waiting.push((*slot, self.slots - 1));
                            *slot = self.slots - 1;
                        }
                    }
                    self.stack_copies(bi, stack);
                } else {
                    carried.extend(stack.into_iter().map(|(_, a)| Vreg(self.home(a))));
                }
                for (n, &a) in old.iter().enumerate() {
                    let p = self.f.blocks[si].params[n];
                    if !self.mine(p) {
                        args.push(a);
                    } else if !self.in_memory[si][n] {
                        let v = if begun.contains(&a) { a } else { self.on_edge(bi, a) };
                        args.push(v);
                    }
                }
                for v in joins {
                    let v = self.on_edge(bi, v);
                    args.push(v);
                }
                self.edge_names.clear();
                for (slot, from) in waiting {
                    let n = self.load_slot(from);
                    let (store, note) = self.store(n, slot);
                    self.emit(store, note);
                }
                args.extend(carried);
                e.args = args;
                let (code, new) = (std::mem::take(&mut self.out), std::mem::take(&mut self.notes));
                // What begins there does so behind it, where it has a register in the next block.
                if !begun.is_empty()
                    && let Some(list) = self.begun(bi)
                {
                    list.retain(|v| e.args.contains(v));
                }
                let end = self.f.blocks[bi].insts.len() - usize::from(!begun.is_empty());
                let (home, at) = if single { (bi, end) } else { (si, 0) };
                self.f.blocks[home].insts.splice(at..at, code);
                notes[home].splice(at..at, new);
            }
            self.f.blocks[bi].term = term;
        }
        // The parameters, in the order of the arguments above.
        for bi in 0..blocks {
            if !self.cfg.reachable(bi as u32) {
                continue;
            }
            let mut params = Vec::new();
            let mut carriers = Vec::new();
            for (n, &p) in self.f.blocks[bi].params.iter().enumerate() {
                match self.in_memory[bi].get(n) {
                    Some(true) if self.file == File::Gpr => {}
                    Some(true) => carriers.push(Vreg(self.home[p.index()])),
                    _ => params.push(p),
                }
            }
            params.extend(self.entry[bi].iter().filter_map(|x| x.1));
            params.extend(carriers);
            self.f.blocks[bi].params = params;
        }
    }

    /// What begins at the end of a block without the program making it (`Spiller::begins_at_edge`): the code of the edge goes before it, that of predicates, too.
    fn begun(&mut self, b: usize) -> Option<&mut Vec<Vreg>> {
        match &mut self.f.blocks[b].insts.last_mut()?.op {
            Op::Hold { ends, begins } if ends.is_empty() => Some(begins),
            _ => None,
        }
    }

    /// The name of a value at the end of a block, reloaded there if need be.
    pub(super) fn on_edge(&mut self, b: usize, v: Vreg) -> Vreg {
        match self.exit[b].binary_search_by_key(&v, |x| x.0) {
            Ok(i) => self.exit[b][i].1,
            Err(_) => match self.edge_names.iter().find(|x| x.0 == v) {
                Some(x) => x.1,
                None => {
                    let n = self.reload(v);
                    self.edge_names.push((v, n));
                    n
                }
            },
        }
    }

    /// Emits a load of a stack slot.
    pub(super) fn load_slot(&mut self, slot: u32) -> Vreg {
        let n = self.new_name(File::Gpr, 0);
        let at = Operand::imm(self.slot_offset(slot));
        let load = Sass::new(F::LDL).with(S::Rd, self.f.reg(n)).with(S::Ra, Reg::r(1)).with(S::Imm, at);
        self.emit(load, Note::Load(slot));
        n
    }

    /// Stores the arguments of parameters that live on the stack, all at once.
    pub(super) fn stack_copies(&mut self, b: usize, list: Vec<(u32, Vreg)>) {
        #[derive(Clone, Copy, PartialEq)]
        enum From {
            Name(Vreg),
            Again(Vreg),
            Slot(u32),
        }
        let mut todo: Vec<(u32, From)> = Vec::new();
        for (slot, a) in list {
            // What is stored there where it is defined needs no other store.
            if self.home[a.index()] == slot {
                continue;
            }
            let from = match self.exit[b].binary_search_by_key(&a, |x| x.0) {
                Ok(i) => From::Name(self.exit[b][i].1),
                Err(_) if self.again[a.index()].is_some() => From::Again(a),
                Err(_) => From::Slot(self.home(a)),
            };
            if from != From::Slot(slot) {
                todo.push((slot, from));
            }
        }
        while !todo.is_empty() {
            let ready = (0..todo.len()).find(|&i| todo.iter().all(|t| t.1 != From::Slot(todo[i].0)));
            let Some(i) = ready else {
                // A cycle: one value waits in a register.
                let slot = todo[0].0;
                let n = self.load_slot(slot);
                todo.iter_mut().filter(|t| t.1 == From::Slot(slot)).for_each(|t| t.1 = From::Name(n));
                continue;
            };
            let (slot, from) = todo.remove(i);
            let name = match from {
                From::Name(n) => n,
                From::Again(a) => self.reload(a),
                From::Slot(from) => self.load_slot(from),
            };
            let (store, note) = self.store(name, slot);
            self.emit(store, note);
        }
    }
}
