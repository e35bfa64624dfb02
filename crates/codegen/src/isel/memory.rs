//! Loads, stores, atomics, fences.

use super::operand::ZERO;
use super::{Regs, Sel};
use crate::ir::{InstId, Mem, MemSpace, Op, Scope, Sem, Ty, Value};
use crate::link::{self, Symbol};
use crate::mir::Vreg;
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value as V};
use sass::reg::{File, Reg};

/// The memory descriptor: loaded once a kernel by the prologue.
pub(super) const DESCRIPTOR: Reg = Reg::ur(4);

/// Furthest immediate offset of an address, both ways (24 bits, signed).
const REACH: i64 = 0x7f_ffff;

/// Most policies that stay in uniform registers through a kernel, two each, which are not spilled; others are computed beside their accesses.
const MOST_POLICIES: usize = 4;

/// An address in a register and a byte offset.
pub(super) struct At {
    pub base: Operand,
    pub offset: i64,
}

impl Sel<'_> {
    pub(super) fn memory(&mut self, id: InstId) -> Option<()> {
        let Mem { space, sem, .. } = self.f.inst(id).mem;
        self.m.lanes_tell |= space == MemSpace::Shared && sem != Sem::Weak;
        match self.f.inst(id).op {
            Op::Load => self.load(id),
            Op::Store => self.store(id),
            Op::Atom | Op::Red => self.atomic(id),
            Op::Fence => self.fence(id),
            Op::LdMatrix | Op::StMatrix => self.matrix(id),
            Op::IsSpace => self.is_space(id),
            _ => self.prefetch(id),
        }
    }

    /// The descriptor of an access of global memory: the usual one, or its cache policy, as the first thread that is here has it.
    pub(super) fn descriptor(&mut self, id: InstId) -> Operand {
        match self.f.inst(id).policy() {
            None => Operand::reg(DESCRIPTOR),
            Some(policy) => {
                if let Some(words) = self.constant(policy).and_then(|bits| self.known_policy(bits)) {
                    return Operand::reg(self.m.vector(&words));
                }
                let words = self.words(policy);
                self.uniform_words(&words)
            }
        }
    }

    /// The registers of a policy that is known: an access under a condition is one instruction then, with nothing to be computed under it.
    fn known_policy(&mut self, bits: u64) -> Option<[Vreg; 2]> {
        let list = self.policies.as_mut()?;
        if let Some(known) = list.iter().find(|p| p.0 == bits) {
            return Some(known.1);
        }
        if list.len() == MOST_POLICIES {
            return None;
        }
        let words = [self.m.new_vreg(File::Ugpr), self.m.new_vreg(File::Ugpr)];
        list.push((bits, words));
        Some(words)
    }

    /// Computes the policies that are known, where the kernel begins.
    pub(super) fn begin_policies(&mut self) {
        for (bits, words) in self.policies.take().unwrap_or_default() {
            for (word, v) in [bits as u32, (bits >> 32) as u32].into_iter().zip(words) {
                let to = self.m.reg(v);
                self.push(Sass::new(F::UMOV_I).with(S::Rd, to).with(S::Mask, Operand::imm(i64::from(word))));
            }
        }
    }

    /// Splits constant additions off an address, as far as the offset field reaches.
    pub(super) fn peel(&self, addr: Value, offset: i64) -> (Value, i64) {
        self.peel_within(addr, offset, -REACH..REACH + 1)
    }

    /// The same, as far as the sum lies in `reach`.
    pub(super) fn peel_within(&self, addr: Value, mut offset: i64, reach: std::ops::Range<i64>) -> (Value, i64) {
        let mut v = addr;
        while let Some(inst) = self.f.def_inst(v) {
            // The low word of a sum.
            if inst.op == Op::Trunc
                && self.f.ty(v) == crate::ir::Ty::B32
                && self.f.ty(inst.args[0]) == crate::ir::Ty::B64
            {
                v = inst.args[0];
                continue;
            }
            if inst.op != Op::IAdd {
                break;
            }
            let Some(c) = self.f.constant(inst.args[1]) else { break };
            let c = if self.f.ty(v) == crate::ir::Ty::B64 { c as i64 } else { c as u32 as i32 as i64 };
            let sum = offset + c;
            if !reach.contains(&sum) {
                break;
            }
            offset = sum;
            v = inst.args[0];
        }
        (v, offset)
    }

    /// A 64-bit address.
    pub(super) fn wide_address(&mut self, addr: Value, offset: i64) -> At {
        let (v, offset) = self.peel(addr, offset);
        if offset.abs() <= REACH {
            return At { base: self.pair_register(v), offset };
        }
        // Too far for the field: add it up.
        let (lo, hi) = (self.lo(v), self.hi(v));
        let bits = offset as u64;
        let (l, c) = self.iadd_carry(lo, super::operand::immediate(bits as u32));
        let (h, _) = self.iaddx(hi, super::operand::immediate((bits >> 32) as u32), c, false);
        At { base: self.vector_of(&[l, h]), offset: 0 }
    }

    /// A value as a register pair that is not RZ only by accident: constants are materialised, except zero.
    fn pair_register(&mut self, v: Value) -> Operand {
        self.pair(v)
    }

    /// A 32-bit address.
    pub(super) fn narrow_address(&mut self, space: MemSpace, addr: Value, offset: i64) -> At {
        let (v, mut offset) = self.peel(addr, offset);
        if let Some(inst) = self.f.def_inst(v)
            && inst.op == Op::LocalAddr
            && space == MemSpace::Local
        {
            let at = inst.imm + self.m.frame.outgoing as i64 + offset;
            return At { base: Operand::reg(Reg::r(1)), offset: at };
        }
        if let Some(c) = self.constant(v) {
            offset += c as u32 as i64;
            if offset.abs() <= REACH {
                return At { base: ZERO, offset };
            }
            return At { base: self.gpr(super::operand::immediate(offset as u32)), offset: 0 };
        }
        if offset.abs() > REACH {
            let a = self.lo(v);
            let base = self.iadd3(a, super::operand::immediate(offset as u32), ZERO);
            return At { base, offset: 0 };
        }
        At { base: self.lo(v), offset }
    }

    fn load(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (mem, addr, offset) = (inst.mem, inst.args[0], inst.imm);
        let n = inst.results.len();
        if mem.space == MemSpace::Stack {
            let r = self.regs_of(inst.results[0]);
            self.push_op(crate::mir::Op::LoadIncoming { dst: smallvec::smallvec![r.lo], offset: offset as u32 });
            return Some(());
        }
        let words: Vec<Vreg> = (0..n).flat_map(|i| self.result_words(id, i)).collect();
        let total = mem.bytes as usize * n;
        let size = size_code(total, inst.attr.signed)?;
        // Narrow elements are one a load; wider vectors of them were taken apart before selection.
        if total.div_ceil(4) != words.len() {
            return None;
        }
        let to = (S::Rd, Operand::reg(self.m.vector(&words)));
        let m = match mem.space {
            MemSpace::Global | MemSpace::Generic => {
                let at = self.wide_address(addr, offset);
                let form = if mem.space == MemSpace::Global { F::LDG } else { F::LD };
                let descriptor = self.descriptor(id);
                let how = [(M::Sem, load_sem(mem)), (M::Cache, evict(mem)), (M::Ltc, mem.prefetch), (M::Size, size)];
                Sass::of(form, &[(S::Ra, at.base), (S::Imm, Operand::imm(at.offset)), (S::UR, descriptor), to], &how)
            }
            MemSpace::Shared => {
                let at = self.narrow_address(mem.space, addr, offset);
                let from = [(S::Ra, at.base), (S::Imm, Operand::imm(at.offset)), to];
                Sass::of(F::LDS, &from, &[(M::Size, size)])
            }
            MemSpace::Local => {
                let at = self.narrow_address(mem.space, addr, offset);
                let from = [(S::Ra, at.base), (S::Imm, Operand::imm(at.offset)), to];
                Sass::of(F::LDL, &from, &[(M::Size, size), (M::Cache, evict(mem))])
            }
            MemSpace::Const | MemSpace::Param => {
                if total > 8 {
                    // LDC loads at most eight bytes: two of them.
                    return self.load_constant_quad(mem, addr, offset, &words);
                }
                let (bank, base) = self.const_bank(mem.space);
                let at = self.const_address(addr, offset + base);
                let from = [(S::Const, Operand::cbank(bank, at.offset as i32)), (S::Ra, at.base), to];
                Sass::of(F::LDC, &from, &[(M::Size, size)])
            }
            MemSpace::Stack => return None,
        };
        self.push(m);
        Some(())
    }

    fn const_bank(&self, space: MemSpace) -> (u8, i64) {
        if space == MemSpace::Const { (3, 0) } else { (0, self.bank0.params as i64) }
    }

    /// An address in a constant bank; the offset must fit its 16 bits.
    fn const_address(&mut self, addr: Value, offset: i64) -> At {
        if self.layout.relocatable
            && let Some(at) = self.const_by_name(addr, offset)
        {
            return at;
        }
        let mut at = match self.f.def_inst(addr) {
            Some(inst) if inst.op == Op::ConstAddr && !self.layout.relocatable => {
                At { base: ZERO, offset: offset + inst.imm }
            }
            _ => {
                let (v, offset) = self.peel(addr, offset);
                match self.f.def_inst(v) {
                    // A number: a field of a parameter, by the parameter's address.
                    Some(inst) if inst.op == Op::Const => At { base: ZERO, offset: offset + inst.imm as u32 as i64 },
                    _ if self.layout.relocatable => At { base: self.lo(v), offset },
                    Some(inst) if inst.op == Op::ConstAddr => At { base: ZERO, offset: offset + inst.imm },
                    _ => self.const_sum(v, offset),
                }
            }
        };
        if !(0..0x8000).contains(&at.offset) {
            let sum = self.iadd3(at.base, super::operand::immediate(at.offset as u32), ZERO);
            at = At { base: sum, offset: 0 };
        }
        at
    }

    /// An address that is the place of a variable, or that and a value: the linker fills in where the variable lies.
    fn const_by_name(&mut self, addr: Value, offset: i64) -> Option<At> {
        let (v, offset) = self.peel(addr, offset);
        let variable = |s: &Self, v: Value| s.f.def_inst(v).filter(|i| i.op == Op::ConstAddr).map(|i| i.imm as u32);
        let (variable, rest, offset) = if let Some(n) = variable(self, v) {
            (n, None, offset)
        } else {
            let sum = self.f.def_inst(v).filter(|i| i.op == Op::IAdd)?;
            let (a, b) = (sum.args[0], sum.args[1]);
            let (n, x) = variable(self, a).map(|n| (n, b)).or_else(|| variable(self, b).map(|n| (n, a)))?;
            let (x, offset) = self.peel(x, offset);
            (n, Some(x), offset)
        };
        if !(0..0x8000).contains(&offset) {
            return None;
        }
        let base = rest.map_or(ZERO, |x| self.lo(x));
        let n = self.m.refer(Symbol::Variable(variable), link::CONST_FIELD, offset);
        let V::Const { offset, .. } = link::constant(0, n).value else { return None };
        Some(At { base, offset: offset as i64 })
    }

    /// x + (address of a constant) reads `c[3][x + offset]`.
    fn const_sum(&mut self, v: Value, offset: i64) -> At {
        if let Some(inst) = self.f.def_inst(v)
            && inst.op == Op::IAdd
        {
            for (a, b) in [(0, 1), (1, 0)] {
                if let Some(c) = self.f.def_inst(inst.args[a])
                    && c.op == Op::ConstAddr
                {
                    let offset = offset + c.imm;
                    let (x, offset) = self.peel(inst.args[b], offset);
                    return At { base: self.lo(x), offset };
                }
            }
        }
        At { base: self.lo(v), offset }
    }

    fn load_constant_quad(&mut self, mem: Mem, addr: Value, offset: i64, words: &[Vreg]) -> Option<()> {
        let (bank, base) = self.const_bank(mem.space);
        for (i, two) in words.chunks(2).enumerate() {
            let at = self.const_address(addr, offset + base + 8 * i as i64);
            let dst = Operand::reg(self.m.vector(two));
            let m = Sass::new(F::LDC).with(S::Const, Operand::cbank(bank, at.offset as i32)).with(S::Ra, at.base);
            self.push(m.with(S::Rd, dst).with_mod(M::Size, enums::constsize::B64));
        }
        Some(())
    }

    /// The registers of result `n`: those that users named, or new ones nobody reads.
    pub(super) fn result_words(&mut self, id: InstId, n: usize) -> Vec<Vreg> {
        let v = self.f.inst(id).results[n];
        let Regs { lo, hi } = self.regs_of(v);
        match hi {
            Some(h) => vec![lo, h],
            None => vec![lo],
        }
    }

    /// What has the same low half: nothing is extended that is cut again.
    fn low_half(&self, v: Value) -> Value {
        match self.f.def_inst(v) {
            Some(d) if matches!(d.op, Op::Zext | Op::Sext) && self.f.ty(d.args[0]) == Ty::B16 => d.args[0],
            Some(d) if d.op == Op::And && self.constant(d.args[1]).is_some_and(|c| c & 0xffff == 0xffff) => {
                self.low_half(d.args[0])
            }
            _ => v,
        }
    }

    fn store(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (mem, addr, offset) = (inst.mem, inst.args[0], inst.imm);
        let mut values = inst.operands()[1..].to_vec();
        let total = mem.bytes as usize * values.len();
        let size = size_code(total, false)?;
        if let [v] = &mut values[..]
            && total <= 2
        {
            *v = self.low_half(*v);
        }
        let words: Vec<Operand> = values.iter().flat_map(|&v| self.words(v)).collect();
        if total.div_ceil(4) != words.len() {
            return None;
        }
        // A vector of zeros is RZ; a single zero too.
        let data = if words.iter().all(|&w| w == ZERO) { ZERO } else { self.vector_of(&words) };
        let (from, wide) = ((S::Rb, data), (M::Size, size));
        let m = match mem.space {
            MemSpace::Global | MemSpace::Generic => {
                let at = self.wide_address(addr, offset);
                let form = if mem.space == MemSpace::Global { F::STG } else { F::ST };
                let descriptor = self.descriptor(id);
                let how = [(M::Sem, store_sem(mem)), (M::Cache, evict(mem)), wide];
                Sass::of(form, &[(S::Ra, at.base), (S::Imm, Operand::imm(at.offset)), (S::URc, descriptor), from], &how)
            }
            MemSpace::Shared => {
                let at = self.narrow_address(mem.space, addr, offset);
                Sass::of(F::STS, &[(S::Ra, at.base), (S::Imm, Operand::imm(at.offset)), from], &[wide])
            }
            MemSpace::Local => {
                let at = self.narrow_address(mem.space, addr, offset);
                let to = [(S::Ra, at.base), (S::Imm, Operand::imm(at.offset)), from];
                Sass::of(F::STL, &to, &[(M::Cache, evict(mem)), wide])
            }
            MemSpace::Stack => {
                let to = [(S::Ra, Operand::reg(Reg::r(1))), (S::Imm, Operand::imm(offset)), from];
                Sass::of(F::STL, &to, &[wide])
            }
            _ => return None,
        };
        self.push(m);
        Some(())
    }

    /// `sub` 0: acquire and release, 1: sequentially consistent, 2: acquire only. Sequences as observed on sm_90.
    fn fence(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (scope, kind) = (inst.mem.scope, inst.attr.sub);
        let wide = !matches!(scope, Scope::Cta);
        if kind != 2 {
            let code = match scope {
                Scope::Cta => enums::memscope::CTA,
                Scope::Sys => enums::memscope::SYS,
                _ => enums::memscope::GPU,
            };
            let sem = if kind == 1 { enums::memsem::SC } else { enums::memsem::ALL };
            self.push(Sass::new(F::MEMBAR).with_mod(M::Sem, sem).with_mod(M::Scope, code));
            if wide {
                self.push(Sass::new(F::ERRBAR));
                self.push(Sass::new(F::CGAERRBAR));
            }
        }
        if wide {
            self.push(Sass::new(F::CCTL_IVALL));
        }
        Some(())
    }

    fn matrix(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (attr, addr, offset) = (inst.attr, inst.args[0], inst.imm);
        let load = inst.op == Op::LdMatrix;
        let n = if load { inst.results.len() } else { inst.args.len() - 1 };
        let args = inst.args[1..].to_vec();
        let at = self.narrow_address(MemSpace::Shared, addr, offset);
        let count = match n {
            1 => 0,
            2 => 1,
            4 => 2,
            _ => return None,
        };
        let form = if load { F::LDSM } else { F::STSM };
        let m = Sass::new(form)
            .with(S::Ra, at.base)
            .with(S::Imm, Operand::imm(at.offset))
            .with_mod(M::Trans, attr.sub)
            .with_mod(M::Count, count);
        let m = if load {
            let words: Vec<Vreg> = (0..n).flat_map(|i| self.result_words(id, i)).collect();
            m.with(S::Rd, Operand::reg(self.m.vector(&words)))
        } else {
            let words: Vec<Operand> = args.iter().map(|&v| self.lo(v)).collect();
            m.with(S::Rb, self.vector_of(&words))
        };
        self.push(m);
        Some(())
    }

    fn is_space(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let code = match inst.mem.space {
            MemSpace::Global => enums::qspc::G,
            MemSpace::Local => enums::qspc::L,
            MemSpace::Shared if inst.attr.sub == 1 => enums::qspc::D,
            MemSpace::Shared => enums::qspc::S,
            _ => return None,
        };
        let at = self.wide_address(inst.args[0], 0);
        let p = self.m.new_vreg(File::Pred);
        let d = self.m.reg(p);
        self.push(Sass::new(F::QSPC).with(S::Pu, d).with(S::Ra, at.base).with_mod(M::Space, code));
        self.define(id, 0, Regs { lo: p, hi: None });
        Some(())
    }

    fn prefetch(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (space, offset, addr) = (inst.mem.space, inst.imm, inst.args[0]);
        let code = match inst.attr.sub {
            1 => enums::cctlop::PF1,
            2 => enums::cctlop::PF2,
            3 => enums::cctlop::PML2,
            4 => enums::cctlop::DML2,
            _ => enums::cctlop::RML2,
        };
        let m = if space == MemSpace::Local {
            let at = self.narrow_address(space, addr, offset);
            Sass::new(F::CCTLL_A).with(S::Ra, at.base).with(S::ImmAt40, Operand::imm(at.offset))
        } else {
            let at = self.wide_address(addr, offset);
            Sass::new(F::CCTL).with(S::Ra, at.base).with(S::Imm, Operand::imm(at.offset)).with_mod(M::Op, code)
        };
        self.push(m);
        Some(())
    }
}

fn size_code(bytes: usize, signed: bool) -> Option<u8> {
    Some(match (bytes, signed) {
        (1, false) => enums::memsize::U8,
        (1, true) => enums::memsize::S8,
        (2, false) => enums::memsize::U16,
        (2, true) => enums::memsize::S16,
        (4, _) => enums::memsize::B32,
        (8, _) => enums::memsize::B64,
        (16, _) => enums::memsize::B128,
        _ => return None,
    })
}

fn evict(mem: Mem) -> u8 {
    match mem.evict {
        1 => enums::cache::EF,
        2 => enums::cache::EL,
        3 => enums::cache::NA,
        4 => enums::cache::EU,
        5 => enums::cache::LU,
        _ => enums::cache::DEF,
    }
}

fn load_sem(mem: Mem) -> u8 {
    match (mem.sem, mem.scope) {
        (Sem::Weak, _) if mem.nc => enums::loadsem::CONSTANT,
        (Sem::Weak, _) => enums::loadsem::WEAK,
        (Sem::Mmio, _) => enums::loadsem::MMIO_SYS,
        (_, Scope::Cta) => enums::loadsem::STRONG_SM,
        (_, Scope::Gpu | Scope::Cluster) => enums::loadsem::STRONG_GPU,
        _ => enums::loadsem::STRONG_SYS,
    }
}

pub(super) fn store_sem(mem: Mem) -> u8 {
    match (mem.sem, mem.scope) {
        (Sem::Weak, _) => enums::storesem::WEAK,
        (Sem::Mmio, _) => enums::storesem::MMIO_SYS,
        (_, Scope::Cta) => enums::storesem::STRONG_SM,
        (_, Scope::Gpu | Scope::Cluster) => enums::storesem::STRONG_GPU,
        _ => enums::storesem::STRONG_SYS,
    }
}
