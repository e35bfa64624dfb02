//! Follows values through instructions.

use super::facts::{Facts, Shift};
use super::operands::{kind_of, listed, loads};
use super::{Flow, Kind, Place, Slot, Texels};
use ptx::isa::{Mod, Op};
use ptx::module::{AddressBase, FuncId, Inst, Module, Operand, RegId, VarId};
use ptx::types::Space;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const SLOTS: usize = 600;
/// How far down addresses are followed.
const DEPTH: u32 = 3;

pub struct Walk<'m> {
    pub m: &'m Module,
    pub entry: FuncId,
    pub flow: Flow,
    pub regs: HashMap<(FuncId, RegId), Facts>,
    /// Parameters of functions, by byte.
    pub vars: HashMap<VarId, BTreeMap<u64, Facts>>,
    /// The slots that a base of an access may come from.
    pub bases: BTreeSet<Vec<usize>>,
    pub changed: bool,
}

impl Walk<'_> {
    fn facts(&self, f: FuncId, r: RegId) -> Facts {
        self.regs.get(&(f, r)).cloned().unwrap_or_default()
    }

    fn give(&mut self, f: FuncId, r: RegId, facts: &Facts) {
        if *facts != Facts::default() {
            self.changed |= self.regs.entry((f, r)).or_default().merge(facts);
        }
    }

    /// The number of a slot, which is new or not.
    fn slot(&mut self, place: Place, at: u64, bytes: u32, many: bool) -> Option<usize> {
        if let Some(n) = self.flow.slots.iter().position(|s| s.place == place && s.at == at && s.bytes == bytes) {
            self.flow.slots[n].many |= many;
            return Some(n);
        }
        let depth = match place {
            Place::Param(_) => 0,
            Place::Behind(n) => self.flow.slots[n].depth + 1,
        };
        if self.flow.slots.len() >= SLOTS || depth > DEPTH {
            return None;
        }
        self.changed = true;
        let (kind, content) = (Kind::Unknown, Kind::Unknown);
        self.flow.slots.push(Slot { place, at, bytes, kind, address: false, content, width: 0, many, depth });
        Some(self.flow.slots.len() - 1)
    }

    pub fn inst(&mut self, f: FuncId, inst: &Inst<'_>) {
        match inst.op {
            Op::Ld | Op::Ldu => return self.load(f, inst),
            Op::Call => return self.call(f, inst),
            Op::St if inst.space() == Space::Param => return self.pass(f, inst),
            _ => {}
        }
        for o in inst.operands {
            match o {
                Operand::Mem(a) => {
                    if let AddressBase::Reg(r) = a.base()
                        && !matches!(inst.space(), Space::Local | Space::Param)
                    {
                        self.access(f, r);
                    }
                }
                Operand::TexMem(list) if inst.has(Mod::Tensor) => self.map(f, inst, list.first()),
                Operand::TexMem(list) => self.texels(f, inst, list.first()),
                _ => {}
            }
        }
        let stores = matches!(inst.op, Op::St | Op::Red | Op::Bar | Op::Mbarrier | Op::Cp | Op::Bra | Op::Prefetch);
        let sources = if stores { inst.operands } else { inst.operands.get(1..).unwrap_or_default() };
        self.kinds(f, inst, sources);
        if let (false, Some(to)) = (stores, inst.operands.first()) {
            self.compute(f, inst, to, sources);
        }
    }

    /// What types say of the numbers that an instruction takes.
    fn kinds(&mut self, f: FuncId, inst: &Inst<'_>, sources: &[Operand]) {
        let types = inst.types();
        for (i, o) in sources.iter().enumerate() {
            let ty = match inst.op {
                Op::Cvt => types.last().copied(),
                // d, a, b, c.
                Op::Mma | Op::Wgmma if types.len() >= 3 => types.get(i + 1).copied(),
                Op::St | Op::Mov | Op::Selp | Op::Shfl => None,
                _ => types.first().copied(),
            };
            let kind = ty.map_or(Kind::Unknown, kind_of);
            for r in listed(o) {
                let facts = self.facts(f, r);
                for &s in &facts.loaded {
                    let old = &mut self.flow.slots[s].content;
                    *old = (*old).max(kind);
                }
                for s in facts.value.into_keys() {
                    let old = &mut self.flow.slots[s].kind;
                    *old = (*old).max(kind);
                }
            }
        }
    }

    fn compute(&mut self, f: FuncId, inst: &Inst<'_>, to: &Operand, sources: &[Operand]) {
        let one = |o: &Operand| match o {
            Operand::Reg { reg, .. } => self.facts(f, *reg),
            Operand::Var { var, offset } if self.m.vars[var.index()].space == Space::Param => {
                Facts { param: [(*var, Some(*offset))].into(), ..Facts::default() }
            }
            _ => Facts::default(),
        };
        let mut facts = Facts::default();
        for r in sources.iter().flat_map(listed) {
            facts.merge(&self.facts(f, r).computed());
        }
        let wide = inst.types().iter().any(|t| t.bytes() == 8);
        match (inst.op, sources) {
            (Op::Mov | Op::Cvta, [o]) => {
                facts.merge(&one(o));
                // Parts of a register, or one of parts.
                for r in listed(o) {
                    facts.loaded.extend(self.facts(f, r).loaded);
                }
            }
            // Triton widens the 32-bit address of a parameter.
            (Op::Cvt, [o]) => {
                let o = one(o);
                facts.merge(&Facts { param: o.param, ..Facts::default() });
            }
            (Op::Shfl | Op::Selp | Op::Prmt, _) => {
                for o in sources {
                    let o = one(o);
                    facts.loaded.extend(&o.loaded);
                    if wide {
                        facts.merge(&o);
                    }
                }
            }
            (Op::Add | Op::Sub | Op::Or | Op::And | Op::Min | Op::Max, [a, b]) if wide => {
                let by = |o: &Operand| match o {
                    Operand::Int(n) if inst.op == Op::Add => Some(*n),
                    _ => None,
                };
                facts.merge(&one(a).moved(by(b)));
                if inst.op != Op::Sub {
                    facts.merge(&one(b).moved(by(a)));
                }
            }
            (Op::Mad, [_, _, c]) if wide => {
                facts.merge(&one(c).moved(None));
            }
            _ => {}
        }
        for r in listed(to) {
            self.give(f, r, &facts);
        }
    }

    /// A register is the base of an access.
    fn access(&mut self, f: FuncId, r: RegId) {
        let facts = self.facts(f, r);
        if !facts.value.is_empty() {
            self.bases.insert(facts.value.into_keys().collect());
        }
        for s in facts.derived {
            self.flow.slots[s].content = Kind::Index;
        }
    }

    fn load(&mut self, f: FuncId, inst: &Inst<'_>) {
        let [to, Operand::Mem(address), ..] = inst.operands else { return };
        let bytes = inst.ty().bytes();
        let places: Vec<(VarId, Shift)> = match address.base() {
            AddressBase::Var(v) if self.m.vars[v.index()].space == Space::Param => vec![(v, Some(0))],
            AddressBase::Reg(r) => self.facts(f, r).param.into_iter().collect(),
            _ => Vec::new(),
        };
        for (i, r) in listed(to).into_iter().enumerate() {
            let at = address.offset() + i as i64 * i64::from(bytes);
            let mut facts = Facts::default();
            for &(v, shift) in &places {
                let many = shift.is_none();
                let at = shift.unwrap_or(0).wrapping_add(at) as u64;
                if self.m.vars[v.index()].scope == Some(self.entry)
                    && self.m.funcs[self.entry.index()].params.contains(&v)
                {
                    if let Some(s) = self.slot(Place::Param(v), at, bytes, many) {
                        let kind = kind_of(inst.ty());
                        self.flow.slots[s].kind = self.flow.slots[s].kind.max(kind);
                        facts.value.insert(s, Some(0));
                    }
                } else if let Some(known) = self.vars.get(&v).and_then(|v| v.get(&at)) {
                    facts.merge(known);
                }
            }
            if let (AddressBase::Reg(base), true) = (address.base(), places.is_empty())
                && !matches!(inst.space(), Space::Local | Space::Shared)
            {
                for (s, shift) in self.facts(f, base).value {
                    facts.loaded.insert(s);
                    let slot = &mut self.flow.slots[s];
                    slot.width = slot.width.max(bytes);
                    slot.content = slot.content.max(kind_of(inst.ty()));
                    let at = shift.unwrap_or(0).wrapping_add(at);
                    if bytes == 8
                        && (0..1 << 16).contains(&at)
                        && let Some(s) = self.slot(Place::Behind(s), at as u64, 8, shift.is_none())
                    {
                        facts.value.insert(s, Some(0));
                    }
                }
            }
            self.give(f, r, &facts);
        }
        if let (AddressBase::Reg(r), true) = (address.base(), places.is_empty())
            && inst.space() != Space::Local
        {
            self.access(f, r);
        }
    }

    /// `st.param`: what a call is going to pass.
    fn pass(&mut self, f: FuncId, inst: &Inst<'_>) {
        let [Operand::Mem(address), from, ..] = inst.operands else { return };
        let AddressBase::Var(v) = address.base() else { return };
        for (i, r) in listed(from).into_iter().enumerate() {
            let at = address.offset() as u64 + i as u64 * u64::from(inst.ty().bytes());
            let facts = self.facts(f, r);
            self.changed |= self.vars.entry(v).or_default().entry(at).or_default().merge(&facts);
        }
    }

    fn call(&mut self, f: FuncId, inst: &Inst<'_>) {
        let [Operand::List(returns), Operand::Func(callee), Operand::List(args), ..] = inst.operands else { return };
        let callee = &self.m.funcs[callee.index()];
        let pairs = args.iter().zip(&callee.params).map(|(a, &p)| (a, p, true));
        let pairs = pairs.chain(returns.iter().zip(&callee.returns).map(|(a, &p)| (a, p, false)));
        for (a, p, inwards) in pairs.collect::<Vec<_>>() {
            let known = |w: &Self, v: VarId| w.vars.get(&v).cloned().unwrap_or_default();
            match a {
                Operand::Var { var, .. } => {
                    let (from, to) = if inwards { (*var, p) } else { (p, *var) };
                    for (at, facts) in known(self, from) {
                        self.changed |= self.vars.entry(to).or_default().entry(at).or_default().merge(&facts);
                    }
                }
                Operand::Reg { reg, .. } if inwards => {
                    let facts = self.facts(f, *reg);
                    self.changed |= self.vars.entry(p).or_default().entry(0).or_default().merge(&facts);
                }
                Operand::Reg { reg, .. } => {
                    let facts = known(self, p).get(&0).cloned().unwrap_or_default();
                    self.give(f, *reg, &facts);
                }
                _ => {}
            }
        }
    }

    fn map(&mut self, f: FuncId, inst: &Inst<'_>, base: Option<&Operand>) {
        let ranks = [Mod::N1d, Mod::N2d, Mod::N3d, Mod::N4d, Mod::N5d];
        let Some(rank) = ranks.iter().position(|&m| inst.has(m)) else { return };
        for v in self.mapped(f, base) {
            let map = self.flow.maps.entry(v).or_default();
            map.rank = rank + 1;
            map.loads |= loads(inst);
        }
    }

    /// A handle is used.
    fn texels(&mut self, f: FuncId, inst: &Inst<'_>, handle: Option<&Operand>) {
        let Some(Operand::Reg { reg, .. }) = handle else { return };
        let is = |list: &[Mod]| list.iter().any(|&m| inst.has(m));
        let rank = match () {
            _ if is(&[Mod::N3d]) => 3,
            _ if is(&[Mod::N1d, Mod::A1d]) => 1,
            _ => 2,
        };
        let texels = Texels {
            rank,
            layers: is(&[Mod::A1d, Mod::A2d, Mod::Acube]),
            cube: is(&[Mod::Cube, Mod::Acube]),
            surface: !matches!(inst.op, Op::Tex | Op::Tld4 | Op::Txq),
            floats: inst.types().first().is_some_and(|t| t.is_float()),
        };
        for s in self.facts(f, *reg).value.into_keys() {
            self.flow.texels.insert(s, texels);
        }
    }

    /// The parameters that the address of a tensor map may be of.
    pub fn mapped(&self, f: FuncId, base: Option<&Operand>) -> Vec<VarId> {
        match base {
            Some(Operand::Reg { reg, .. }) => self.facts(f, *reg).param.into_keys().collect(),
            Some(Operand::Var { var, .. }) => vec![*var],
            _ => Vec::new(),
        }
    }
}
