//! What holds for a kernel as a whole, when all values have been followed.

use super::operands::{kind_of, loads, timed, variables};
use super::walk::Walk;
use super::{Kind, Place, Slot};
use ptx::isa::{Mod, Op};
use ptx::module::{FuncId, Operand, RegId, VarId};
use ptx::types::{Dim, Space, SpecialReg};
use std::collections::{BTreeMap, BTreeSet, HashMap};

impl Walk<'_> {
    /// What each copy through a tensor map moves: the copies behind an expectation share it.
    pub fn tell_moved(&mut self, f: FuncId) {
        let Some(body) = &self.m.funcs[f.index()].body else { return };
        let mut known: HashMap<RegId, Option<i64>> = HashMap::new();
        for inst in body.insts().filter(|i| i.op == Op::Mov) {
            if let [Operand::Reg { reg, .. }, from] = inst.operands {
                let value = match from {
                    Operand::Int(n) => Some(*n),
                    _ => None,
                };
                known.entry(*reg).and_modify(|v| *v = None).or_insert(value);
            }
        }
        let mut groups: Vec<(u64, Vec<VarId>)> = Vec::new();
        for inst in body.insts() {
            if inst.op == Op::Mbarrier && inst.has(Mod::ExpectTx) {
                let bytes = match inst.operands.last() {
                    Some(Operand::Int(n)) => Some(*n),
                    Some(Operand::Reg { reg, .. }) => known.get(reg).copied().flatten(),
                    _ => None,
                };
                groups.push((bytes.unwrap_or(0) as u64, Vec::new()));
            } else if inst.op == Op::Cp && inst.has(Mod::Tensor) && loads(&inst) {
                let map = inst.operands.iter().find_map(|o| match o {
                    Operand::TexMem(list) => list.first(),
                    _ => None,
                });
                let vars = self.mapped(f, map);
                if let Some(g) = groups.last_mut() {
                    g.1.extend(vars);
                }
            }
        }
        for (bytes, vars) in groups {
            for v in &vars {
                if let Some(map) = self.flow.maps.get_mut(v).filter(|m| m.moved == 0) {
                    map.moved = bytes / vars.len() as u64;
                }
            }
        }
    }

    /// Which slots are addresses: what alone is the base of an access; of several, those known to be so, or the first.
    pub fn tell_addresses(&mut self) {
        let params = &self.m.funcs[self.entry.index()].params;
        let pointer = |v: &VarId| self.m.vars[v.index()].ptr.is_some();
        let told = params.iter().any(pointer);
        let may = |s: &Slot| match s.place {
            Place::Param(v) => s.bytes == 8 && (pointer(&v) || !told || self.m.vars[v.index()].size() != 8),
            Place::Behind(_) => s.bytes == 8,
        };
        let mut sure: BTreeSet<usize> = BTreeSet::new();
        let bases: Vec<Vec<usize>> = self
            .bases
            .iter()
            .map(|b| b.iter().copied().filter(|&s| may(&self.flow.slots[s])).collect::<Vec<_>>())
            .filter(|b| !b.is_empty())
            .collect();
        sure.extend(bases.iter().filter(|b| b.len() == 1).map(|b| b[0]));
        sure.extend(
            (0..self.flow.slots.len()).filter(|&s| matches!(self.flow.slots[s].place, Place::Param(v) if pointer(&v))),
        );
        for b in &bases {
            if !b.iter().any(|s| sure.contains(s)) {
                sure.insert(b[0]);
            }
        }
        for s in sure {
            self.flow.slots[s].address = true;
        }
    }

    /// What holds for the kernel as a whole.
    pub fn look_around(&mut self, funcs: &[FuncId]) {
        let mut count: BTreeMap<Kind, usize> = BTreeMap::new();
        let mut named: BTreeSet<VarId> = BTreeSet::new();
        for &f in funcs {
            for inst in self.m.funcs[f.index()].body.iter().flat_map(|b| b.insts()) {
                for o in inst.operands {
                    variables(o, &mut named);
                    let (which, d) = match o {
                        Operand::Special(SpecialReg::Tid(d)) => (0, d),
                        Operand::Special(SpecialReg::Ctaid(d)) => (1, d),
                        _ => continue,
                    };
                    let n = [Dim::X, Dim::Y, Dim::Z].iter().position(|x| x == d).unwrap_or(0) + 1;
                    self.flow.dims[which] = self.flow.dims[which].max(n);
                }
                self.flow.clock |= inst.operands.iter().any(|o| matches!(o, Operand::Special(s) if timed(*s)));
                let rough = [Op::Ex2, Op::Lg2, Op::Sin, Op::Cos, Op::Tanh, Op::Rsqrt].contains(&inst.op);
                let types = inst.types();
                let floats = types.iter().any(|t| t.is_float());
                let ordered = matches!(inst.op, Op::Atom | Op::Red) || inst.op == Op::Cp && inst.has(Mod::Reduce);
                let matrix = matches!(inst.op, Op::Mma | Op::Wgmma | Op::Wmma);
                // PTX leaves the order of some sums open.
                let sums = (ordered || matrix) && floats;
                self.flow.approximate |= rough || inst.approx() || inst.has(Mod::Full) || sums || inst.op == Op::Tex;
                // A product of matrices says more than much else.
                let weight = if matrix { 10_000 } else { 1 };
                let ty = if weight > 1 { types.get(1) } else { types.first() };
                let kind = ty.map_or(Kind::Unknown, |&t| kind_of(t));
                types.iter().for_each(|&t| *count.entry(kind_of(t)).or_default() += 0);
                *count.entry(kind).or_default() += if kind > Kind::Int { weight } else { 0 };
            }
        }
        self.flow.floats = count.keys().copied().filter(|&k| k > Kind::Int).collect();
        self.flow.usual = count.into_iter().filter(|c| c.1 > 0).max_by_key(|c| c.1).map_or(Kind::Int, |c| c.0);
        for var in named {
            let v = &self.m.vars[var.index()];
            match (v.space, v.dims.first()) {
                (Space::Shared, Some(None)) => self.flow.dynamic = true,
                (Space::Shared, _) => self.flow.shared += v.size() + u64::from(v.align),
                _ => {}
            }
        }
    }
}
