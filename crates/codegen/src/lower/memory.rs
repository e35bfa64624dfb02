//! Loads, stores, atomics, fences.

use super::{Lower, Res, unsupported};
use crate::ir::{Attr, LineHint, Mem, MemSpace, Op, Scope, Sem, Ty, Value};
use ptx::access::CacheOp;
use ptx::isa::{Mod, Op as P};
use ptx::module::{Address, AddressBase, FuncKind, Inst, Operand, VarId};
use ptx::types::{ScalarType as T, Space};

impl Lower<'_, '_> {
    pub(super) fn memory(&mut self, x: &Inst) -> Res {
        match x.op {
            P::Ld | P::Ldu => self.load(x),
            P::St => self.store(x),
            P::Atom | P::Red => self.atomic(x),
            P::Membar | P::Fence => self.fence(x),
            _ => self.hint(x),
        }
    }

    /// The memory attributes that the modifiers say.
    pub(super) fn mem(&self, x: &Inst, space: MemSpace, bytes: u32) -> Mem {
        let sem = match (x.sem(), x.cache()) {
            (Some(ptx::access::Sem::Relaxed), _) => Sem::Relaxed,
            (Some(ptx::access::Sem::Acquire), _) => Sem::Acquire,
            (Some(ptx::access::Sem::Release), _) => Sem::Release,
            (Some(ptx::access::Sem::AcqRel), _) => Sem::AcqRel,
            (Some(ptx::access::Sem::Volatile), _) | (None, Some(CacheOp::Cv | CacheOp::Wt)) => Sem::Volatile,
            (Some(ptx::access::Sem::Mmio), _) => Sem::Mmio,
            (None, Some(CacheOp::Cg)) => Sem::Relaxed,
            _ => Sem::Weak,
        };
        let scope = match x.scope() {
            Some(ptx::access::Scope::Cta) => Scope::Cta,
            Some(ptx::access::Scope::Cluster) => Scope::Cluster,
            Some(ptx::access::Scope::Gpu) => Scope::Gpu,
            Some(ptx::access::Scope::Sys) => Scope::Sys,
            None if x.cache() == Some(CacheOp::Cg) => Scope::Gpu,
            None if matches!(sem, Sem::Volatile | Sem::Mmio) => Scope::Sys,
            None => Scope::None,
        };
        let evict = [
            (Mod::L1EvictFirst, 1),
            (Mod::L1EvictLast, 2),
            (Mod::L1NoAllocate, 3),
            (Mod::L1EvictUnchanged, 4),
            (Mod::Cs, 1),
            (Mod::Lu, 5),
        ];
        let prefetch = [(Mod::L264B, 1), (Mod::L2128B, 2), (Mod::L2256B, 3)];
        let pick = |list: &[(Mod, u8)]| list.iter().find(|(m, _)| x.has(*m)).map_or(0, |(_, v)| *v);
        let nc = x.has(Mod::Nc);
        let (evict, prefetch) = (pick(&evict), pick(&prefetch));
        Mem { space, bytes: bytes as u8, sem, scope, nc, evict, prefetch, policy: false }
    }

    /// The cache policy of an access, which `mem` then says is there; memory of the CTA and constants have none.
    pub(super) fn policy_of(&mut self, x: &Inst, mem: &mut Mem) -> Res<Option<Value>> {
        let policy = self.policy(x)?;
        mem.policy = policy.is_some() && matches!(mem.space, MemSpace::Global | MemSpace::Generic);
        Ok(policy.filter(|_| mem.policy))
    }

    /// Space, base value and offset of an address operand. The base has the width that the space wants.
    pub(super) fn address(&mut self, x: &Inst, a: Address, space: Space) -> Res<(MemSpace, Value, i64)> {
        let mut space = space;
        if let AddressBase::Var(v) = a.base() {
            // A variable says its space itself; in a generic access it stands for its address in that space.
            space = self.m.vars[v.index()].space;
        }
        let mem = match space {
            Space::Global => MemSpace::Global,
            Space::Shared => MemSpace::Shared,
            Space::Local => MemSpace::Local,
            Space::Const => MemSpace::Const,
            Space::Generic => MemSpace::Generic,
            // What a function takes the address of lies in its frame.
            Space::Param | Space::ParamFunc
                if self.pf.kind == FuncKind::Func && matches!(a.base(), AddressBase::Reg(_)) =>
            {
                MemSpace::Local
            }
            Space::Param | Space::ParamEntry => MemSpace::Param,
            Space::SharedCluster => {
                let v = match a.base() {
                    AddressBase::Reg(r) => self.read_reg(r, None),
                    _ => self.konst(Ty::B32, 0),
                };
                return Ok((MemSpace::Generic, self.cluster_address(v), a.offset()));
            }
            _ => return unsupported(format!("state space '.{}' here", space.name()), x.span),
        };
        let wide = matches!(mem, MemSpace::Generic | MemSpace::Global);
        let ty = if wide { Ty::B64 } else { Ty::B32 };
        let (base, offset) = match a.base() {
            AddressBase::Reg(r) => {
                let v = self.read_reg(r, None);
                if self.f.ty(v) < ty {
                    return unsupported("a 32-bit address of global memory", x.span);
                }
                (self.b().resize(v, ty, false), a.offset())
            }
            AddressBase::None => (self.konst(ty, 0), a.offset()),
            AddressBase::Var(v) => match mem {
                MemSpace::Global => {
                    let (base, away) = self.global_address(v);
                    (base, away + a.offset())
                }
                MemSpace::Shared => (self.shared_address(v, a.offset(), x.span)?, 0),
                MemSpace::Local => {
                    let at = self.local_offset(v, x.span)?;
                    (self.with_imm(Op::LocalAddr, at + a.offset(), Ty::B32), 0)
                }
                MemSpace::Const => (self.const_address(v, a.offset(), x.span)?, 0),
                _ => (self.konst(Ty::B32, 0), self.kernel_param(v) + a.offset()),
            },
        };
        Ok((mem, base, offset))
    }

    /// Element type as loaded: the IR type and the bytes of one element.
    fn element(&self, x: &Inst, t: T) -> Res<(Ty, u32)> {
        match t.bits() {
            8 | 16 | 32 => Ok((Ty::B32, t.bits() / 8)),
            // Two words of a register of 128 bits.
            64 | 128 => Ok((Ty::B64, 8)),
            _ => unsupported(format!("'{}' of type .{}", x.op.name(), t.name()), x.span),
        }
    }

    pub(super) fn mem_operand(&self, x: &Inst, n: usize) -> Res<Address> {
        match x.operands.get(n) {
            Some(Operand::Mem(a)) => Ok(*a),
            _ => unsupported("this address operand", x.span),
        }
    }

    pub(super) fn load(&mut self, x: &Inst) -> Res {
        let t = x.ty();
        let a = self.mem_operand(x, 1)?;
        let dsts = self.vector_operands(&x.operands[0]);
        let dsts = if t.bits() == 128 { self.halves_of(&dsts, x)? } else { dsts };
        let (ty, bytes) = self.element(x, t)?;
        let space = x.space();
        if let AddressBase::Var(v) = a.base()
            && matches!(space, Space::Param | Space::ParamFunc)
            && (self.pf.kind == FuncKind::Func || !self.pf.params.contains(&v))
        {
            return self.load_call_param(x, v, a.offset(), &dsts, t);
        }
        let signed = t.is_signed();
        let (mem_space, base, offset) = self.address(x, a, space)?;
        let signed_attr = Attr { signed, ..Attr::default() };
        let mut mem = self.mem(x, mem_space, bytes);
        // Kernel parameters at a fixed place are constants.
        if mem_space == MemSpace::Param && self.f.constant(base).is_some() {
            let at = self.f.constant(base).unwrap_or(0) as i64 + offset;
            for (i, d) in dsts.iter().enumerate() {
                let at = at + i as i64 * bytes as i64;
                let id = self.b().push(Op::Param, signed_attr, mem, at, &[], &[ty]);
                let v = self.f.inst(id).results[0];
                self.write(d, v, signed)?;
            }
            return Ok(());
        }
        let acquire = mem.sem == Sem::Acquire;
        if acquire {
            mem.sem = Sem::Relaxed;
        }
        let types = vec![ty; dsts.len()];
        let mut args = vec![base];
        args.extend(self.policy_of(x, &mut mem)?);
        let id = self.b().push(Op::Load, signed_attr, mem, offset, &args, &types);
        let results = self.f.inst(id).results.clone();
        if acquire {
            self.push_fence(mem.scope, 2);
        }
        for (d, v) in dsts.iter().zip(results) {
            self.write(d, v, signed)?;
        }
        Ok(())
    }

    /// The scalar operands of a vector operand, or the operand itself.
    pub(super) fn vector_operands(&self, op: &Operand) -> Vec<Operand> {
        match op {
            Operand::Vector(list) => list.to_vec(),
            other => self.pf.elements_of(other).unwrap_or_else(|| vec![other.clone()]),
        }
    }

    /// The value of a store or atomic operand as memory wants it: 32 bits for narrow elements.
    fn stored(&mut self, op: &Operand, t: T, ty: Ty, x: &Inst) -> Res<Value> {
        let reg_ty = match op {
            Operand::Reg { reg, .. } => self.reg_ty(*reg),
            _ => ty,
        };
        let v = self.src(op, reg_ty, x.span)?;
        let _ = t;
        Ok(self.b().resize(v, ty, false))
    }

    pub(super) fn store(&mut self, x: &Inst) -> Res {
        let t = x.ty();
        let a = self.mem_operand(x, 0)?;
        let srcs = self.vector_operands(&x.operands[1]);
        let srcs = if t.bits() == 128 { self.halves_of(&srcs, x)? } else { srcs };
        let (ty, bytes) = self.element(x, t)?;
        if srcs.contains(&Operand::Sink) {
            return self.store_some(x, a, &srcs, bytes, ty);
        }
        let mut values = Vec::new();
        for s in &srcs {
            values.push(self.stored(s, t, ty, x)?);
        }
        let space = if x.op == P::Multimem { Space::Global } else { x.space() };
        if let AddressBase::Var(v) = a.base()
            && matches!(space, Space::Param | Space::ParamFunc)
        {
            return self.store_call_param(x, v, a.offset(), &values, bytes);
        }
        let (mem_space, base, offset) = self.address(x, a, space)?;
        let mut mem = self.mem(x, mem_space, bytes);
        if mem.sem == Sem::Release {
            self.push_fence(mem.scope, 0);
            mem.sem = Sem::Relaxed;
        }
        let mut args = vec![base];
        args.extend(values);
        args.extend(self.policy_of(x, &mut mem)?);
        self.b().push(Op::Store, Attr::default(), mem, offset, &args, &[]);
        Ok(())
    }

    /// A store of the elements of a vector that are not `_`: as many at once as lie where a store of so many may.
    fn store_some(&mut self, x: &Inst, a: Address, srcs: &[Operand], bytes: u32, ty: Ty) -> Res {
        let (space, base, offset) = self.address(x, a, x.space())?;
        let mut mem = self.mem(x, space, bytes);
        if mem.sem == Sem::Release {
            self.push_fence(mem.scope, 0);
            mem.sem = Sem::Relaxed;
        }
        let policy = self.policy_of(x, &mut mem)?;
        let most = (16 / bytes) as usize;
        let mut at = 0;
        while at < srcs.len() {
            let fits = |n: usize| at % n == 0 && srcs.get(at..at + n).is_some_and(|s| !s.contains(&Operand::Sink));
            let Some(n) = [4, 2, 1].into_iter().find(|&n| n <= most && fits(n)) else {
                at += 1;
                continue;
            };
            let mut args = vec![base];
            for s in &srcs[at..at + n] {
                args.push(self.stored(s, x.ty(), ty, x)?);
            }
            args.extend(policy);
            self.b().push(Op::Store, Attr::default(), mem, offset + at as i64 * i64::from(bytes), &args, &[]);
            at += n;
        }
        Ok(())
    }

    /// A fence; `kind` 0: acquire and release, 1: sequentially consistent, 2: acquire only.
    pub(super) fn push_fence(&mut self, scope: Scope, kind: u8) {
        let mem = Mem { scope, ..Mem::default() };
        self.b().push(Op::Fence, Attr { sub: kind, ..Attr::default() }, mem, 0, &[], &[]);
    }

    fn fence(&mut self, x: &Inst) -> Res {
        let scope = match x.scope() {
            Some(ptx::access::Scope::Cta) => Scope::Cta,
            Some(ptx::access::Scope::Cluster | ptx::access::Scope::Gpu) => Scope::Gpu,
            Some(ptx::access::Scope::Sys) => Scope::Sys,
            None => return self.unsupported(x),
        };
        let kind = match x.sem() {
            Some(ptx::access::Sem::AcqRel) => 0,
            Some(ptx::access::Sem::Sc) | None => 1,
            _ => return self.unsupported(x),
        };
        if x.mods.iter().any(|m| m.name().starts_with("proxy") || m.name().starts_with("mbarrier")) {
            return self.unsupported(x);
        }
        self.push_fence(scope, kind);
        Ok(())
    }

    /// `prefetch`, `prefetchu`, `applypriority`, `discard`: what they say of a line of the caches.
    fn hint(&mut self, x: &Inst) -> Res {
        let a = self.mem_operand(x, 0)?;
        let (space, base, offset) = self.address(x, a, x.space())?;
        if space == MemSpace::Shared && x.space() == Space::Generic {
            // There are no lines of it in the caches.
            return Ok(());
        }
        if !matches!(space, MemSpace::Generic | MemSpace::Global | MemSpace::Local) {
            return self.unsupported(x);
        }
        let kind = match x.op {
            P::Applypriority => LineHint::Demote,
            P::Discard => LineHint::Discard,
            _ if x.has(Mod::L1) => LineHint::L1,
            _ if x.has(Mod::L2EvictLast) => LineHint::L2Last,
            P::Prefetch => LineHint::L2,
            _ => return self.unsupported(x),
        };
        let mem = Mem { space, ..Mem::default() };
        self.b().push(Op::Prefetch, Attr { sub: kind as u8, ..Attr::default() }, mem, offset, &[base], &[]);
        Ok(())
    }

    pub(super) fn variable_name(&self, v: VarId) -> &str {
        &self.m.vars[v.index()].name
    }
}
