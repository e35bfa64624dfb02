//! What a kernel does with its parameters, from the text alone: which bytes are addresses, what lies behind them, and which
//! parameters are tensor maps. A guess: whoever launches the kernel sees whether it holds.
//!
//! The values of registers are followed without regard to the order of the code, until nothing changes: those that are a
//! parameter (or were loaded through one), moved by so many bytes; those that were loaded as they are; those that are computed of
//! what was loaded.

use ptx::isa::{Mod, Op};
use ptx::module::{AddressBase, FuncId, Inst, Module, Operand, RegId, VarId};
use ptx::types::{Dim, ScalarType, Space, SpecialReg};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What numbers a memory holds, as far as the instructions tell that read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub enum Kind {
    /// Nobody tells.
    #[default]
    Unknown,
    /// Integers.
    Int,
    F64,
    F32,
    BF16,
    F16,
    /// Integers that addresses are computed of.
    Index,
}

/// Bytes of a parameter, or of memory that an address leads to, that are loaded at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Where the bytes lie.
    pub place: Place,
    /// The first of them.
    pub at: u64,
    /// How many.
    pub bytes: u32,
    /// Their numbers.
    pub kind: Kind,
    /// Whether they are an address of global memory.
    pub address: bool,
    /// What lies there, if they are.
    pub content: Kind,
    /// Bytes of an element there.
    pub width: u32,
    /// There are more of them behind, as in an array.
    pub many: bool,
    depth: u32,
}

/// A parameter, or the memory that the address in a slot leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    Param(VarId),
    Behind(usize),
}

/// How a parameter is used as a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Map {
    /// Dimensions.
    pub rank: usize,
    /// Copies load through it.
    pub loads: bool,
    /// Bytes that a barrier is told to expect of such a copy, if nobody else takes part in it; 0 where nothing tells.
    pub moved: u64,
}

/// What a texture or surface is fetched as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Texels {
    /// Dimensions without layers.
    pub rank: usize,
    pub layers: bool,
    pub cube: bool,
    pub surface: bool,
    pub floats: bool,
}

/// What is found out about a kernel.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub slots: Vec<Slot>,
    pub maps: BTreeMap<VarId, Map>,
    /// Slots that hold handles.
    pub texels: BTreeMap<usize, Texels>,
    /// Dimensions of blocks, and of the grid, that are asked for: 1 to 3.
    pub dims: [usize; 2],
    /// What numbers the kernel computes with most.
    pub usual: Kind,
    /// The kinds of floats that instructions name.
    pub floats: BTreeSet<Kind>,
    /// Its results are not defined to the bit.
    pub approximate: bool,
    /// It reads a clock, or what else is of no launch.
    pub clock: bool,
    /// There is shared memory whose size the launch says.
    pub dynamic: bool,
    /// Bytes of other shared memory, and what aligning it may take.
    pub shared: u64,
}

/// Bytes behind the beginning of something, where they are always the same.
type Shift = Option<i64>;
/// Slots, and which values are these.
const MOST: usize = 12;
const SLOTS: usize = 600;
const DEPTH: u32 = 3;
const ROUNDS: usize = 8;

#[derive(Clone, Debug, Default, PartialEq)]
struct Facts {
    /// The value of a slot, moved.
    value: BTreeMap<usize, Shift>,
    /// The address of a parameter, moved.
    param: BTreeMap<VarId, Shift>,
    /// Loaded through the address in a slot.
    loaded: BTreeSet<usize>,
    /// Computed of something that was.
    derived: BTreeSet<usize>,
}

impl Facts {
    fn merge(&mut self, other: &Facts) -> bool {
        fn moved<K: Ord + Copy>(to: &mut BTreeMap<K, Shift>, from: &BTreeMap<K, Shift>) -> bool {
            let mut changed = false;
            for (&k, &v) in from {
                match to.get(&k).copied() {
                    None if to.len() < MOST => changed |= to.insert(k, v).is_none(),
                    Some(Some(old)) if v != Some(old) => changed |= to.insert(k, None).is_some(),
                    _ => {}
                }
            }
            changed
        }
        let sets = |to: &mut BTreeSet<usize>, from: &BTreeSet<usize>| {
            from.iter().fold(false, |c, &x| (to.len() < MOST && to.insert(x)) | c)
        };
        moved(&mut self.value, &other.value)
            | moved(&mut self.param, &other.param)
            | sets(&mut self.loaded, &other.loaded)
            | sets(&mut self.derived, &other.derived)
    }

    /// The same value with something added.
    fn moved(&self, by: Shift) -> Facts {
        let add = |s: &Shift| Some(s.as_ref()?.wrapping_add(by?));
        Facts {
            value: self.value.iter().map(|(&k, s)| (k, add(s))).collect(),
            param: self.param.iter().map(|(&k, s)| (k, add(s))).collect(),
            ..Facts::default()
        }
    }

    /// What is computed of it.
    fn computed(&self) -> Facts {
        Facts { derived: &self.derived | &self.loaded, ..Facts::default() }
    }
}

struct Walk<'m> {
    m: &'m Module,
    entry: FuncId,
    flow: Flow,
    regs: HashMap<(FuncId, RegId), Facts>,
    /// Parameters of functions, by byte.
    vars: HashMap<VarId, BTreeMap<u64, Facts>>,
    /// The slots that a base of an access may come from.
    bases: BTreeSet<Vec<usize>>,
    changed: bool,
}

/// Follows the parameters of a kernel through it and the functions that it may call.
pub fn flow(m: &Module, entry: FuncId) -> Flow {
    let mut w = Walk {
        m,
        entry,
        flow: Flow::default(),
        regs: HashMap::new(),
        vars: HashMap::new(),
        bases: BTreeSet::new(),
        changed: false,
    };
    let mut funcs = vec![entry];
    let mut at = 0;
    while let Some(&f) = funcs.get(at) {
        at += 1;
        for o in m.funcs[f.index()].body.iter().flat_map(|b| b.operands()) {
            if let Operand::Func(g) = o
                && !funcs.contains(g)
            {
                funcs.push(*g);
            }
        }
    }
    for _ in 0..ROUNDS {
        w.changed = false;
        for &f in &funcs {
            for inst in m.funcs[f.index()].body.iter().flat_map(|b| b.insts()) {
                w.inst(f, &inst);
            }
        }
        if !w.changed {
            break;
        }
    }
    w.tell_addresses();
    funcs.iter().for_each(|&f| w.tell_moved(f));
    w.look_around(&funcs);
    w.flow
}

/// Whether a tensor copy goes to shared memory: its destination stands first.
fn loads(inst: &Inst<'_>) -> bool {
    !matches!(inst.operands.first(), Some(Operand::TexMem(_)))
}

/// The registers of an operand.
fn registers(o: &Operand, out: &mut Vec<RegId>) {
    match o {
        Operand::Reg { reg, .. } | Operand::NotReg(reg) | Operand::NegReg(reg) | Operand::Part { reg, .. } => {
            out.push(*reg);
        }
        Operand::Pair(p) => [&p.0, &p.1].into_iter().for_each(|o| registers(o, out)),
        Operand::Vector(list) | Operand::List(list) | Operand::TexMem(list) => {
            list.iter().for_each(|o| registers(o, out));
        }
        _ => {}
    }
}

/// The variables of an operand.
fn variables(o: &Operand, out: &mut BTreeSet<VarId>) {
    match o {
        Operand::Var { var, .. } => {
            out.insert(*var);
        }
        Operand::Mem(a) => {
            if let AddressBase::Var(v) = a.base() {
                out.insert(v);
            }
        }
        Operand::Pair(p) => [&p.0, &p.1].into_iter().for_each(|o| variables(o, out)),
        Operand::Vector(list) | Operand::List(list) | Operand::TexMem(list) => {
            list.iter().for_each(|o| variables(o, out));
        }
        _ => {}
    }
}

fn listed(o: &Operand) -> Vec<RegId> {
    let mut out = Vec::new();
    registers(o, &mut out);
    out
}

/// What two runs of a program need not read alike.
fn timed(s: SpecialReg) -> bool {
    let name = format!("{s:?}");
    ["Clock", "Globaltimer", "Gridid", "Pm"].iter().any(|w| name.starts_with(w))
}

/// The kind of numbers that a type of an instruction means.
fn kind_of(ty: ScalarType) -> Kind {
    match ty {
        ScalarType::F16 | ScalarType::F16x2 => Kind::F16,
        ScalarType::BF16 | ScalarType::BF16x2 => Kind::BF16,
        ScalarType::F32 | ScalarType::F32x2 | ScalarType::TF32 => Kind::F32,
        ScalarType::F64 => Kind::F64,
        t if t.is_int() => Kind::Int,
        _ => Kind::Unknown,
    }
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

    fn inst(&mut self, f: FuncId, inst: &Inst<'_>) {
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
    fn mapped(&self, f: FuncId, base: Option<&Operand>) -> Vec<VarId> {
        match base {
            Some(Operand::Reg { reg, .. }) => self.facts(f, *reg).param.into_keys().collect(),
            Some(Operand::Var { var, .. }) => vec![*var],
            _ => Vec::new(),
        }
    }

    /// What each copy through a tensor map moves: the copies behind an expectation share it.
    fn tell_moved(&mut self, f: FuncId) {
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
    fn tell_addresses(&mut self) {
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
    fn look_around(&mut self, funcs: &[FuncId]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str, params: &str) -> (Module, Flow) {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k({params})\n{{\n.reg .b64 %rd<20>;\n.reg .b32 %r<20>;\n.reg .f32 %f<9>;\n{body}\nret;\n}}\n"
        );
        let (m, errors) = ptx::parse(&text);
        assert!(errors.is_empty(), "{errors:?}");
        let flow = flow(&m, FuncId(0));
        (m, flow)
    }

    fn slot(m: &Module, flow: &Flow, name: &str, at: u64) -> Slot {
        let place = |s: &&Slot| matches!(s.place, Place::Param(v) if m.vars[v.index()].name == name) && s.at == at;
        flow.slots.iter().find(place).expect(name).clone()
    }

    #[test]
    fn addresses_are_told_from_numbers() {
        let (m, flow) = of(
            "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [n];\nld.param.u64 %rd9, [i];\ncvta.to.global.u64 %rd3, %rd1;\n\
             add.s64 %rd4, %rd3, %rd2;\nld.global.f32 %f1, [%rd4];\ncvta.to.global.u64 %rd10, %rd9;\nld.global.u32 %r1, [%rd10];\n\
             mul.wide.s32 %rd5, %r1, 4;\nadd.s64 %rd6, %rd3, %rd5;\nst.global.f32 [%rd6], %f1;\nst.global.f32 [%rd3], %f1;",
            ".param .u64 a, .param .u64 n, .param .u64 i",
        );
        let [a, n, i] = ["a", "n", "i"].map(|p| slot(&m, &flow, p, 0));
        assert!(a.address && !n.address && i.address);
        assert_eq!((a.content, a.width, i.content, i.width), (Kind::F32, 4, Kind::Index, 4));
    }

    #[test]
    fn fields_and_what_they_lead_to() {
        let (m, flow) = of(
            "ld.param.u64 %rd1, [s+8];\nld.param.u32 %r2, [s];\nld.global.u64 %rd2, [%rd1+16];\nld.global.f32 %f1, [%rd2];\n\
             mov.b64 %rd5, s;\nadd.s64 %rd6, %rd5, 24;\nld.param.f32 %f3, [%rd6];",
            ".param .align 8 .b8 s[32]",
        );
        let s = slot(&m, &flow, "s", 8);
        assert!(s.address && !slot(&m, &flow, "s", 0).address);
        assert_eq!(slot(&m, &flow, "s", 24).kind, Kind::F32);
        let behind = flow.slots.iter().find(|s| matches!(s.place, Place::Behind(_))).expect("memory");
        assert!(behind.address && behind.at == 16 && behind.content == Kind::F32);
    }
}
