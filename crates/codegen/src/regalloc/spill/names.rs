//! Names: a value that is reloaded has a new one, and parameters join those; what joins one name only goes again.

use super::Spiller;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Inst, Op, Term, Vreg};
use sass::inst::{Operand, Value};
use sass::reg::Reg;
use smallvec::SmallVec;

impl Spiller<'_> {
    pub(super) fn rename(&mut self, o: &mut Operand, width: u8) {
        let Value::Reg(reg) = o.value else { return };
        if !reg.is_virtual() || reg.file() != self.file {
            return;
        }
        if width == 1 {
            o.value = Value::Reg(self.f.reg(self.name[reg.index() as usize]));
            return;
        }
        let list = &self.f.vecs[reg.index() as usize];
        if list.iter().any(|v| self.name[v.index()] != *v) {
            let new: SmallVec<[Vreg; 4]> = list.iter().map(|v| self.name[v.index()]).collect();
            o.value = Value::Reg(self.f.vector(&new));
        }
    }

    pub(super) fn rename_inst(&mut self, inst: &mut Inst) {
        match &mut inst.op {
            Op::Sass(s) => {
                let mut places: SmallVec<[Place; 8]> = SmallVec::new();
                sass_uses(s, |p| places.push(p));
                for p in places {
                    match p.slot {
                        Some(n) => self.rename(&mut s.operands[n as usize], p.width),
                        None => self.rename(&mut s.guard, 1),
                    }
                }
            }
            Op::Copy(pairs) => {
                for (_, s) in pairs {
                    if s.is_virtual() && s.file() == self.file {
                        *s = self.f.reg(self.name[s.index() as usize]);
                    }
                }
            }
            Op::Call(c) => {
                for a in &mut c.args {
                    if self.f.vregs[a.0.index()] == self.file {
                        a.0 = self.name[a.0.index()];
                    }
                }
                for v in c.target.values_mut() {
                    if self.f.vregs[v.index()] == self.file {
                        *v = self.name[v.index()];
                    }
                }
            }
            Op::Hold { ends, .. } => {
                ends.iter_mut().filter(|v| self.f.vregs[v.index()] == self.file).for_each(|v| *v = self.name[v.index()])
            }
            Op::LoadIncoming { .. } => {}
        }
    }

    /// Takes out the parameters made here whose arguments are all one value.
    pub(super) fn drop_single_joins(&mut self) {
        let n = self.f.vregs.len();
        let mut is: Vec<Vreg> = (0..n as u32).map(Vreg).collect();
        fn find(is: &mut [Vreg], v: Vreg) -> Vreg {
            let mut x = v;
            while is[x.index()] != x {
                is[x.index()] = is[is[x.index()].index()];
                x = is[x.index()];
            }
            x
        }
        let mut made = vec![false; n];
        for list in &self.entry {
            list.iter().filter_map(|x| x.1).for_each(|p| made[p.index()] = true);
        }
        let mut dropped = false;
        loop {
            let mut changed = false;
            // One value, seen over all edges into a block, for each parameter.
            let mut seen: Vec<Vec<Option<Vreg>>> = self.f.blocks.iter().map(|b| vec![None; b.params.len()]).collect();
            let mut mixed: Vec<Vec<bool>> = self.f.blocks.iter().map(|b| vec![false; b.params.len()]).collect();
            for b in 0..self.f.blocks.len() {
                if !self.cfg.reachable(b as u32) {
                    continue;
                }
                for e in self.f.blocks[b].term.edges() {
                    let s = e.block.0 as usize;
                    for (k, &a) in e.args.iter().enumerate() {
                        let p = self.f.blocks[s].params[k];
                        if !made[p.index()] {
                            continue;
                        }
                        let a = find(&mut is, a);
                        if a == p {
                            continue;
                        }
                        match seen[s][k] {
                            None => seen[s][k] = Some(a),
                            Some(x) if x == a => {}
                            _ => mixed[s][k] = true,
                        }
                    }
                }
            }
            let mut drop_at: Vec<Vec<usize>> = vec![Vec::new(); self.f.blocks.len()];
            for s in 0..self.f.blocks.len() {
                for k in (0..seen[s].len()).rev() {
                    let p = self.f.blocks[s].params[k];
                    if let Some(a) = seen[s][k]
                        && made[p.index()]
                        && !mixed[s][k]
                    {
                        let a = find(&mut is, a);
                        if a == p {
                            continue;
                        }
                        is[p.index()] = a;
                        drop_at[s].push(k);
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
            dropped = true;
            for (block, drop) in self.f.blocks.iter_mut().zip(&drop_at) {
                for &k in drop {
                    block.params.remove(k);
                }
            }
            for b in 0..self.f.blocks.len() {
                if self.cfg.reachable(b as u32) {
                    for e in self.f.blocks[b].term.edges_mut() {
                        for &k in &drop_at[e.block.0 as usize] {
                            e.args.remove(k);
                        }
                    }
                }
            }
        }
        if !dropped {
            return;
        }
        for list in &mut self.f.vecs {
            list.iter_mut().for_each(|v| *v = find(&mut is, *v));
        }
        for b in &mut self.f.blocks {
            for inst in &mut b.insts {
                substitute(&mut inst.op, &mut |v| find(&mut is, v));
            }
            match &mut b.term {
                Term::CondBr { cond: Operand { value: Value::Reg(r), .. }, .. } if r.is_virtual() => {
                    *r = Reg::virt(r.file(), find(&mut is, Vreg(r.index())).0);
                }
                Term::Ret(values) => values.iter_mut().for_each(|v| v.0 = find(&mut is, v.0)),
                _ => {}
            }
            for e in b.term.edges_mut() {
                e.args.iter_mut().for_each(|v| *v = find(&mut is, *v));
            }
        }
    }
}

/// Renames the scalars that stand in operands directly (not in the pool of vectors).
fn substitute(op: &mut Op, to: &mut impl FnMut(Vreg) -> Vreg) {
    match op {
        Op::Sass(s) => {
            let mut places: SmallVec<[Place; 8]> = SmallVec::new();
            sass_uses(s, |p| places.push(p));
            sass_defs(s, |p| places.push(p));
            for p in places.into_iter().filter(|p| p.width == 1 && p.reg.is_virtual()) {
                let r = Value::Reg(Reg::virt(p.reg.file(), to(Vreg(p.reg.index())).0));
                match p.slot {
                    Some(n) => s.operands[n as usize].value = r,
                    None => s.guard.value = r,
                }
            }
        }
        Op::Copy(pairs) => {
            for (_, s) in pairs.iter_mut().filter(|p| p.1.is_virtual()) {
                *s = Reg::virt(s.file(), to(Vreg(s.index())).0);
            }
        }
        Op::Call(c) => {
            c.args.iter_mut().for_each(|a| a.0 = to(a.0));
            c.target.values_mut().into_iter().for_each(|v| *v = to(*v));
        }
        Op::Hold { ends, .. } => ends.iter_mut().for_each(|v| *v = to(*v)),
        Op::LoadIncoming { .. } => {}
    }
}
