//! Asynchronous copies, barriers in shared memory, proxies, clusters.
//!
//! Copies by the bulk engine are instructions of the warp with operands in uniform registers, while PTX gives each thread
//! its own: threads take turns in a loop, one elected at a time, as the vendor's code does.

use super::{Lower, Res, unsupported};
use crate::ir::{Attr, Mem, MemSpace, Op, Scope, Sreg, Term, Ty, Value};
use ptx::isa::{Mod, Op as P};
use ptx::module::{Address, AddressBase, Inst, Operand};
use ptx::types::{ScalarType as T, Space};

/// What [`Op::MBarrier`] does, in its `sub`; `sat`: the thread leaves the barrier (`arrive_drop`), `signed`: the barrier
/// may be in another CTA of the cluster, so that there is no result.
pub mod barrier {
    /// Address, count.
    pub const INIT: u8 = 0;
    /// Address.
    pub const INVAL: u8 = 1;
    /// Address.
    pub const ARRIVE: u8 = 2;
    /// Address, count.
    pub const ARRIVE_COUNT: u8 = 3;
    /// Address, bytes.
    pub const ARRIVE_BYTES: u8 = 4;
    /// Address, bytes.
    pub const EXPECT: u8 = 5;
    /// Address, bytes.
    pub const COMPLETE: u8 = 6;
    /// Address, phase in the top bit; result P.
    pub const TEST: u8 = 7;
    /// The same, maybe waiting.
    pub const TRY: u8 = 8;
    /// Address: arrives when the copies of the thread are done; the barrier counts one more.
    pub const COPIES: u8 = 9;
    /// The same; the barrier does not count one more.
    pub const COPIES_NOINC: u8 = 10;
}

/// Groups of copies and fences between proxies: `sub` of [`Op::AsyncOrder`].
pub mod order {
    /// `cp.async.commit_group`
    pub const COMMIT: u8 = 0;
    /// `cp.async.wait_group`; `imm` groups may be left.
    pub const WAIT: u8 = 1;
    /// `cp.async.bulk.commit_group`
    pub const BULK_COMMIT: u8 = 2;
    /// `cp.async.bulk.wait_group`
    pub const BULK_WAIT: u8 = 3;
    /// `.read`
    pub const BULK_WAIT_READ: u8 = 4;
    /// `fence.proxy.async` of everything.
    pub const FENCE_ASYNC: u8 = 5;
    /// `.global`
    pub const FENCE_ASYNC_GLOBAL: u8 = 6;
    /// `.shared::cta`
    pub const FENCE_ASYNC_SHARED: u8 = 7;
    /// `fence.proxy.alias`
    pub const FENCE_ALIAS: u8 = 8;
    /// `fence.proxy.tensormap` release; `imm` 1: to the system.
    pub const FENCE_MAP_RELEASE: u8 = 9;
    /// Nothing but a place that other accesses keep: `fence.mbarrier_init`, acquire of shared memory alone.
    pub const FENCE_NONE: u8 = 10;
    /// `barrier.cluster.arrive` (the fence before it is an operation of its own)
    pub const CLUSTER_ARRIVE: u8 = 11;
    /// `barrier.cluster.wait`
    pub const CLUSTER_WAIT: u8 = 12;
}

/// What [`Op::Bulk`] does: the bits of its `imm`. Arguments are words: the first group, the second, then the third operand
/// and the two words of a cache policy where there are such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bulk {
    /// One of the constants below.
    pub kind: u8,
    /// Words of the first group.
    pub first: u8,
    /// Words of the second group.
    pub second: u8,
    /// There is a third operand.
    pub third: bool,
    /// There is a cache policy.
    pub policy: bool,
    /// Dimensions of a tensor, less one.
    pub dims: u8,
    /// To several CTAs of the cluster.
    pub multicast: bool,
    /// Addresses of the im2col mode.
    pub im2col: bool,
    /// The address stands for places of several devices (`multimem`).
    pub multimem: bool,
    /// Number of the reduction.
    pub reduce: u8,
    /// Number of the type of the reduction.
    pub ty: u8,
}

impl Bulk {
    /// Memory to shared memory: {destination, barrier}, source (64 bits), size and mask.
    pub const LOAD: u8 = 0;
    /// Shared memory to memory: destination (64 bits), source, size.
    pub const STORE: u8 = 1;
    /// Shared memory to that of the cluster: {destination, barrier}, source, size.
    pub const SEND: u8 = 2;
    /// As STORE, reducing.
    pub const REDUCE: u8 = 3;
    /// As SEND, reducing.
    pub const REDUCE_SEND: u8 = 4;
    /// Address, size.
    pub const PREFETCH: u8 = 5;
    /// {destination, barrier, coordinates}, map.
    pub const TENSOR_LOAD: u8 = 6;
    /// {source, coordinates}, map.
    pub const TENSOR_STORE: u8 = 7;
    /// As TENSOR_STORE, reducing.
    pub const TENSOR_REDUCE: u8 = 8;
    /// Coordinates, map.
    pub const TENSOR_PREFETCH: u8 = 9;
    /// Fetches the map itself: nothing, map.
    pub const MAP_PREFETCH: u8 = 10;
    /// Forgets what is cached of the map: nothing, map.
    pub const MAP_FORGET: u8 = 11;

    /// As the `imm` of an operation.
    pub fn pack(self) -> i64 {
        let flags = [self.third, self.policy, self.multicast, self.im2col, self.multimem];
        let flags = flags.into_iter().enumerate().fold(0, |all, (n, flag)| all | (flag as i64) << n);
        self.kind as i64
            | (self.first as i64) << 8
            | (self.second as i64) << 16
            | (self.dims as i64) << 24
            | (self.reduce as i64) << 32
            | (self.ty as i64) << 40
            | flags << 48
    }

    /// From the `imm` of an operation.
    pub fn unpack(imm: i64) -> Bulk {
        let byte = |n: u32| (imm >> n) as u8;
        let flag = |n: u32| imm >> (48 + n) & 1 != 0;
        Bulk {
            kind: byte(0),
            first: byte(8),
            second: byte(16),
            dims: byte(24),
            reduce: byte(32),
            ty: byte(40),
            third: flag(0),
            policy: flag(1),
            multicast: flag(2),
            im2col: flag(3),
            multimem: flag(4),
        }
    }
}

fn has(x: &Inst, name: &str) -> bool {
    x.mods.iter().any(|m| m.name() == name)
}

fn starts(x: &Inst, name: &str) -> bool {
    x.mods.iter().any(|m| m.name().starts_with(name))
}

/// True for the opcodes and forms that are lowered here.
pub(super) fn is_ours(x: &Inst) -> bool {
    match x.op {
        P::Mbarrier | P::Cp | P::Mapa | P::Getctarank => true,
        P::Fence => x.mods.iter().any(|m| {
            let n = m.name();
            n.starts_with("proxy")
                || n.starts_with("mbarrier")
                || n.starts_with("sync_restrict")
                || *m == Mod::Acquire
                || *m == Mod::Release
        }),
        P::Membar => starts(x, "proxy"),
        P::Barrier => has(x, "cluster"),
        P::St | P::Red => has(x, "async"),
        P::Prefetch => has(x, "tensormap"),
        _ => false,
    }
}

impl Lower<'_, '_> {
    pub(super) fn asynchronous(&mut self, x: &Inst) -> Res {
        match x.op {
            P::Mbarrier => self.mbarrier(x),
            P::Cp if starts(x, "mbarrier::") || has(x, "bulk") => self.bulk(x),
            P::Cp if has(x, "mbarrier") => {
                let a = self.shared32(x, 0)?;
                let kind = if has(x, "noinc") { barrier::COPIES_NOINC } else { barrier::COPIES };
                self.barrier_op(kind, false, false, &[a], &[]);
                Ok(())
            }
            P::Cp if has(x, "commit_group") => self.order_op(order::COMMIT, 0),
            P::Cp if has(x, "wait_all") => {
                self.order_op(order::COMMIT, 0)?;
                self.order_op(order::WAIT, 0)
            }
            P::Cp if has(x, "wait_group") => self.wait_group(x, order::WAIT),
            P::Cp => self.cp_async(x),
            P::Fence | P::Membar => self.proxy_fence(x),
            P::Barrier => self.cluster_barrier(x),
            P::Mapa => self.mapa(x),
            P::Getctarank => {
                let a = self.shared32(x, 1)?;
                let n = self.konst(Ty::B32, 24);
                let v = self.same(Op::Shr, &[a, n]);
                self.dst(x, v, false)
            }
            P::St | P::Red => self.remote_store(x),
            P::Prefetch => {
                let mut map = self.generic(x, 0)?;
                // A register holds an address of the named space.
                let held = matches!(self.address_of(x, 0)?.base(), AddressBase::Reg(_));
                if held && let Some(space) = x.mods.iter().find_map(|&m| Space::from_mod(m)) {
                    let space = if space == Space::Const { MemSpace::Const } else { MemSpace::Param };
                    let base = self.window_base(space);
                    map = self.same(Op::IAdd, &[base, map]);
                }
                self.bulk_op(Bulk { kind: Bulk::MAP_PREFETCH, second: 2, ..Bulk::default() }, &[map], false)
            }
            _ => self.unsupported(x),
        }
    }

    // ---- addresses --------------------------------------------------------------------------------------------------

    fn address_of(&self, x: &Inst, n: usize) -> Res<Address> {
        let made = |base: AddressBase, offset: i64| match Address::new(base, offset) {
            Some(a) => Ok(a),
            None => super::unsupported("this offset of an address", x.span),
        };
        match x.operands.get(n) {
            Some(Operand::TexMem(list)) => match list.first() {
                Some(Operand::Reg { reg, .. }) => made(AddressBase::Reg(*reg), 0),
                Some(Operand::Var { var, offset }) => made(AddressBase::Var(*var), *offset),
                Some(Operand::Mem(a)) => Ok(*a),
                _ => super::unsupported("this address operand", x.span),
            },
            Some(Operand::Reg { reg, .. }) => made(AddressBase::Reg(*reg), 0),
            Some(Operand::Var { var, offset }) => made(AddressBase::Var(*var), *offset),
            _ => self.mem_operand(x, n),
        }
    }

    /// An address in shared memory (of the cluster too): its 32 bits, also of a generic one.
    fn shared32(&mut self, x: &Inst, n: usize) -> Res<Value> {
        let a = self.address_of(x, n)?;
        let base = match a.base() {
            AddressBase::Reg(r) => {
                let v = self.read_reg(r, None);
                self.b().resize(v, Ty::B32, false)
            }
            AddressBase::Var(v) => return self.shared_address(v, a.offset(), x.span),
            AddressBase::None => self.konst(Ty::B32, 0),
        };
        Ok(self.add_offset(base, a.offset()))
    }

    /// An address of memory, global or generic: 64 bits.
    fn generic(&mut self, x: &Inst, n: usize) -> Res<Value> {
        let a = self.address_of(x, n)?;
        if let AddressBase::Var(v) = a.base() {
            return match self.m.vars[v.index()].space {
                Space::Param => {
                    let base = self.window_base(MemSpace::Param);
                    let at = self.kernel_param(v) + a.offset();
                    Ok(self.add_offset(base, at))
                }
                Space::Global => {
                    let (base, away) = self.global_address(v);
                    Ok(self.add_offset(base, away + a.offset()))
                }
                Space::Const => {
                    let base = self.window_base(MemSpace::Const);
                    let at = self.const_address(v, a.offset(), x.span)?;
                    let at = self.b().resize(at, Ty::B64, false);
                    Ok(self.op(Op::IAdd, &[base, at], Ty::B64))
                }
                _ => super::unsupported("this address operand", x.span),
            };
        }
        let (_, base, offset) = self.address(x, a, Space::Generic)?;
        Ok(self.add_offset(base, offset))
    }

    /// A shared address of the cluster as a generic one.
    pub(super) fn cluster_address(&mut self, a: Value) -> Value {
        let lo = self.b().resize(a, Ty::B32, false);
        let sub = Sreg::SharedWindowHi as u8;
        let hi = self.one(Op::Sreg, Attr { sub, ..Attr::default() }, &[], Ty::B32);
        self.op(Op::Pack, &[lo, hi], Ty::B64)
    }

    // ---- barriers in memory -----------------------------------------------------------------------------------------

    fn barrier_op(&mut self, sub: u8, drop: bool, remote: bool, args: &[Value], results: &[Ty]) -> Option<Value> {
        let attr = Attr { sub, sat: drop, signed: remote, ..Attr::default() };
        let id = self.b().push(Op::MBarrier, attr, Mem::default(), 0, args, results);
        self.f.inst(id).results.first().copied()
    }

    fn mbarrier(&mut self, x: &Inst) -> Res {
        if has(x, "pending_count") {
            // The phase word counts up to 2^20; so many less are missing.
            let state = self.arg(x, 1, Ty::B64)?;
            let hi = self.op(Op::Hi, &[state], Ty::B32);
            let (n, mask, full) =
                (self.konst(Ty::B32, 11), self.konst(Ty::B32, 0xf_ffff), self.konst(Ty::B32, 0x10_0000));
            let v = self.same(Op::Shr, &[hi, n]);
            let v = self.same(Op::And, &[v, mask]);
            let v = self.same(Op::ISub, &[full, v]);
            return self.dst(x, v, false);
        }
        let wide = x.has(Mod::Cluster) && !x.has(Mod::Relaxed);
        let waits = has(x, "test_wait") || has(x, "try_wait");
        let arrives = has(x, "arrive") || has(x, "arrive_drop");
        let at = (waits || arrives) as usize;
        let a = self.shared32(x, at)?;
        if has(x, "init") {
            let count = self.arg(x, 1, Ty::B32)?;
            return self.each_thread(|s| {
                s.barrier_op(barrier::INIT, false, false, &[a, count], &[]);
            });
        }
        if has(x, "inval") {
            self.barrier_op(barrier::INVAL, false, false, &[a], &[]);
            return Ok(());
        }
        if waits {
            let phase = if has(x, "parity") {
                let p = self.arg(x, 2, Ty::B32)?;
                let n = self.konst(Ty::B32, 31);
                self.same(Op::Shl, &[p, n])
            } else {
                let state = self.arg(x, 2, Ty::B64)?;
                self.op(Op::Hi, &[state], Ty::B32)
            };
            // How long the thread may sleep is for the machine to say: the hint is not used.
            let kind = if has(x, "try_wait") { barrier::TRY } else { barrier::TEST };
            let done = self.barrier_op(kind, false, false, &[a, phase], &[Ty::P]);
            if wide {
                self.push_fence(Scope::Gpu, 2);
            }
            return done.map_or(Ok(()), |v| self.dst(x, v, false));
        }
        let remote = has(x, "shared::cluster");
        if wide {
            self.push_fence(Scope::Gpu, 0);
        }
        let count = match x.operands.get(at + 1) {
            Some(_) => Some(self.arg(x, at + 1, Ty::B32)?),
            None => None,
        };
        let kind = if !arrives {
            if has(x, "expect_tx") { barrier::EXPECT } else { barrier::COMPLETE }
        } else if has(x, "expect_tx") {
            barrier::ARRIVE_BYTES
        } else if count.is_some() {
            barrier::ARRIVE_COUNT
        } else {
            barrier::ARRIVE
        };
        let mut args = vec![a];
        args.extend(count);
        let results: &[Ty] = if arrives && !remote { &[Ty::B64] } else { &[] };
        match self.barrier_op(kind, has(x, "arrive_drop"), remote, &args, results) {
            Some(v) => self.dst(x, v, false),
            None => Ok(()),
        }
    }

    /// Lets the threads do something one after the other.
    fn each_thread(&mut self, what: impl FnOnce(&mut Self)) -> Res {
        let before = self.cur;
        let [header, body, latch, after] = [(); 4].map(|()| self.f.new_block());
        for b in [header, body, latch, after] {
            self.ssa.set_through(b, before);
        }
        let enter = self.edge(header);
        self.f.blocks[before.index()].term = Term::Br(enter);
        self.cur = header;
        let chosen = self.op(Op::Leader, &[], Ty::P);
        let (then, els) = (self.edge(body), self.edge(latch));
        self.f.blocks[header.index()].term = Term::CondBr { cond: chosen, uniform: false, then, els };
        self.cur = body;
        what(self);
        let to = self.edge(latch);
        self.f.blocks[self.cur.index()].term = Term::Br(to);
        let (then, els) = (self.edge(after), self.edge(header));
        self.f.blocks[latch.index()].term = Term::CondBr { cond: chosen, uniform: false, then, els };
        self.cur = after;
        Ok(())
    }

    // ---- copies of a thread -----------------------------------------------------------------------------------------

    fn order_op(&mut self, sub: u8, imm: i64) -> Res {
        self.b().push(Op::AsyncOrder, Attr { sub, ..Attr::default() }, Mem::default(), imm, &[], &[]);
        Ok(())
    }

    fn wait_group(&mut self, x: &Inst, sub: u8) -> Res {
        match x.operands.first() {
            // The machine counts to 63: waiting for more is right, too.
            Some(Operand::Int(n)) => self.order_op(sub, (*n).clamp(0, 63)),
            _ => self.unsupported(x),
        }
    }

    fn cp_async(&mut self, x: &Inst) -> Res {
        let d = self.shared32(x, 0)?;
        let s = self.generic(x, 1)?;
        let (s, offset) = self.near_base(s);
        let bytes = match x.operands.get(2) {
            Some(Operand::Int(n)) if matches!(*n, 4 | 8 | 16) => *n as u64,
            _ => return self.unsupported(x),
        };
        let hint = has(x, "L2::cache_hint") as usize;
        let policy = self.policy(x)?;
        let more = x.operands.get(3).filter(|_| x.operands.len() > 3 + hint).cloned();
        let mut args = vec![d, s];
        let mut zfill = false;
        match more {
            None => {}
            Some(o) => {
                let pred = match &o {
                    Operand::Reg { reg, .. } | Operand::NotReg(reg) => self.reg_ty(*reg) == Ty::P,
                    _ => false,
                };
                if pred {
                    let p = self.src(&o, Ty::P, x.span)?;
                    let keep = self.same(Op::Not, &[p]);
                    args.push(keep);
                } else {
                    // So many bytes are read as are left up to the next boundary: the address is moved.
                    zfill = true;
                    let n = self.src(&o, Ty::B32, x.span)?;
                    let (full, mask, zero) =
                        (self.konst(Ty::B32, bytes), self.konst(Ty::B32, bytes - 1), self.konst(Ty::B32, 0));
                    let left = self.same(Op::ISub, &[full, n]);
                    let left = self.same(Op::And, &[left, mask]);
                    let left = self.op(Op::Zext, &[left], Ty::B64);
                    args[1] = self.same(Op::IAdd, &[s, left]);
                    let some = self.b().icmp(crate::ir::Cmp::Ne, false, n, zero);
                    args.push(some);
                }
            }
        }
        args[1] = self.far_from(args[1], offset);
        let prefetch = [(Mod::L264B, 1), (Mod::L2128B, 2), (Mod::L2256B, 3)];
        let prefetch = prefetch.iter().find(|(m, _)| x.has(*m)).map_or(0, |p| p.1);
        let policy_there = policy.is_some();
        args.extend(policy);
        let mem = Mem { space: MemSpace::Global, bytes: bytes as u8, prefetch, policy: policy_there, ..Mem::default() };
        let attr = Attr { sub: has(x, "cg") as u8, sat: zfill, ..Attr::default() };
        self.b().push(Op::CopyAsync, attr, mem, 0, &args, &[]);
        Ok(())
    }

    // ---- copies by the bulk engine ----------------------------------------------------------------------------------

    fn bulk_op(&mut self, b: Bulk, args: &[Value], turns: bool) -> Res {
        let push = |s: &mut Self| {
            s.b().push(Op::Bulk, Attr::default(), Mem::default(), b.pack(), args, &[]);
        };
        if turns {
            return self.each_thread(push);
        }
        push(self);
        Ok(())
    }

    /// Sixteenths of the size below, the CTAs of a multicast above.
    fn size_word(&mut self, x: &Inst, n: usize, mask: Option<usize>) -> Res<Value> {
        let size = self.arg(x, n, Ty::B32)?;
        let four = self.konst(Ty::B32, 4);
        let size = self.same(Op::Shr, &[size, four]);
        self.low_high(x, size, mask)
    }

    fn low_high(&mut self, x: &Inst, low: Value, high: Option<usize>) -> Res<Value> {
        let mask = self.konst(Ty::B32, 0xffff);
        let low = self.same(Op::And, &[low, mask]);
        match high {
            None => Ok(low),
            Some(n) => {
                let m = self.arg(x, n, Ty::B32)?;
                let sixteen = self.konst(Ty::B32, 16);
                let m = self.same(Op::Shl, &[m, sixteen]);
                Ok(self.same(Op::Or, &[low, m]))
            }
        }
    }

    pub(super) fn bulk(&mut self, x: &Inst) -> Res {
        let multimem = x.op == P::Multimem;
        if x.op != P::Cp && !multimem {
            return self.unsupported(x);
        }
        if has(x, "commit_group") {
            return self.order_op(order::BULK_COMMIT, 0);
        }
        if has(x, "wait_group") {
            return self.wait_group(x, if has(x, "read") { order::BULK_WAIT_READ } else { order::BULK_WAIT });
        }
        if starts(x, "cta_group") || starts(x, "tile::") || starts(x, "im2col::") || has(x, "cp_mask") {
            return self.unsupported(x);
        }
        let sm = self.cx.layout.sm;
        if !arch::units(sm).copies_to_clusters
            && x.mods.iter().find(|m| Space::from_mod(**m).is_some()).is_some_and(|m| m.name() == "shared::cluster")
        {
            return unsupported(format!("a bulk copy to '.shared::cluster' on sm_{sm}"), x.span);
        }
        let tensor = has(x, "tensor");
        let reduce = has(x, "reduce");
        let multicast = has(x, "multicast::cluster");
        let policy = has(x, "L2::cache_hint");
        let prefetch = has(x, "prefetch");
        let im2col = has(x, "im2col") || has(x, "im2col_no_offs");
        let spaces: Vec<Space> = x.mods.iter().filter_map(|&m| Space::from_mod(m)).collect();
        let mut b = Bulk { multicast, policy, im2col, multimem, ..Bulk::default() };
        if reduce {
            let names = ["add", "min", "max", "inc", "dec", "and", "or", "xor"];
            let Some(n) = names.iter().position(|n| has(x, n)) else { return self.unsupported(x) };
            b.reduce = n as u8;
            b.ty = match x.ty() {
                T::S32 => 1,
                T::U64 | T::B64 => 2,
                T::S64 => 3,
                T::F16 => 4,
                T::F32 if has(x, "noftz") => 5,
                T::F32 => 6,
                T::F64 => 7,
                T::BF16 => 8,
                _ => 0,
            };
        }
        let mut args: Vec<Value> = Vec::new();
        let mut next;
        if tensor {
            let n = spaces.first() == Some(&Space::Global);
            let loads = !n;
            let map_at = loads as usize;
            let Some(Operand::TexMem(list)) = x.operands.get(map_at).cloned() else { return self.unsupported(x) };
            let coords = match list.get(1) {
                Some(Operand::Vector(v)) => v.to_vec(),
                Some(_) => list[1..].to_vec(),
                None => return self.unsupported(x),
            };
            let map = self.generic(x, map_at)?;
            next = map_at + 1;
            if loads {
                args.push(self.shared32(x, 0)?);
                args.push(self.shared32(x, next)?);
                next += 1;
                b.kind = Bulk::TENSOR_LOAD;
            } else if prefetch {
                b.kind = Bulk::TENSOR_PREFETCH;
            } else {
                args.push(self.shared32(x, next)?);
                next += 1;
                b.kind = if reduce { Bulk::TENSOR_REDUCE } else { Bulk::TENSOR_STORE };
            }
            for c in &coords {
                args.push(self.src(c, Ty::B32, x.span)?);
            }
            b.dims = coords.len() as u8 - 1;
            b.first = args.len() as u8;
            b.second = 2;
            args.push(map);
            let offsets = has(x, "im2col");
            if offsets || multicast {
                let mut word = self.konst(Ty::B32, 0);
                if offsets {
                    let list = match x.operands.get(next) {
                        Some(o) => self.vector_operands(o),
                        None => return self.unsupported(x),
                    };
                    next += 1;
                    // One offset has all 16 bits, two have 8 each, three 5 each.
                    let each = 16 / list.len().max(1) as u64;
                    for (i, o) in list.iter().enumerate() {
                        let v = self.src(o, Ty::B32, x.span)?;
                        let mask = self.konst(Ty::B32, (1 << each) - 1);
                        let v = self.same(Op::And, &[v, mask]);
                        let shift = self.konst(Ty::B32, i as u64 * each);
                        let v = self.same(Op::Shl, &[v, shift]);
                        word = self.same(Op::Or, &[word, v]);
                    }
                }
                let at = multicast.then_some(next);
                next += multicast as usize;
                let word = self.low_high(x, word, at)?;
                args.push(word);
                b.third = true;
            }
        } else if prefetch {
            args.push(self.generic(x, 0)?);
            b.second = 2;
            b.kind = Bulk::PREFETCH;
            args.push(self.size_word(x, 1, None)?);
            b.third = true;
            next = 2;
        } else {
            b.third = true;
            let to_global = spaces.first() == Some(&Space::Global);
            if to_global {
                args.push(self.generic(x, 0)?);
                args.push(self.shared32(x, 1)?);
                (b.first, b.second) = (2, 1);
                b.kind = if reduce { Bulk::REDUCE } else { Bulk::STORE };
                args.push(self.size_word(x, 2, None)?);
                next = 3;
            } else {
                args.push(self.shared32(x, 0)?);
                args.push(self.shared32(x, 3)?);
                b.first = 2;
                next = 4;
                if spaces.get(1) == Some(&Space::Global) {
                    args.push(self.generic(x, 1)?);
                    b.second = 2;
                    b.kind = Bulk::LOAD;
                    args.push(self.size_word(x, 2, multicast.then_some(4))?);
                    next += multicast as usize;
                } else {
                    args.push(self.shared32(x, 1)?);
                    b.second = 1;
                    b.kind = if reduce { Bulk::REDUCE_SEND } else { Bulk::SEND };
                    args.push(self.size_word(x, 2, None)?);
                }
            }
        }
        if policy {
            args.push(self.arg(x, next, Ty::B64)?);
        }
        self.bulk_op(b, &args, true)
    }

    // ---- fences, clusters -------------------------------------------------------------------------------------------

    fn proxy_fence(&mut self, x: &Inst) -> Res {
        if has(x, "proxy.async") || has(x, "proxy::async") || has(x, "async") {
            return match x.space() {
                Space::Global => self.order_op(order::FENCE_ASYNC_GLOBAL, 0),
                Space::Shared => self.order_op(order::FENCE_ASYNC_SHARED, 0),
                _ => self.order_op(order::FENCE_ASYNC, 0),
            };
        }
        let restricted = starts(x, "sync_restrict");
        if has(x, "mbarrier_init") || (restricted && x.has(Mod::Acquire)) {
            return self.order_op(order::FENCE_NONE, 0);
        }
        if restricted {
            return self.order_op(order::FENCE_ASYNC_SHARED, 0);
        }
        if has(x, "alias") {
            return self.order_op(order::FENCE_ALIAS, 0);
        }
        if starts(x, "tensormap") {
            if x.has(Mod::Release) {
                let system = x.scope() == Some(ptx::access::Scope::Sys);
                return self.order_op(order::FENCE_MAP_RELEASE, system as i64);
            }
            let sm = self.cx.layout.sm;
            if !arch::units(sm).maps_in_engine_alone {
                return unsupported(format!("'fence.proxy.tensormap' with '.acquire' on sm_{sm}"), x.span);
            }
            let map = self.generic(x, 0)?;
            return self.bulk_op(Bulk { kind: Bulk::MAP_FORGET, second: 2, ..Bulk::default() }, &[map], true);
        }
        if starts(x, "proxy") {
            return self.unsupported(x);
        }
        let scope = match x.scope() {
            Some(ptx::access::Scope::Cta) => Scope::Cta,
            Some(ptx::access::Scope::Sys) => Scope::Sys,
            _ => Scope::Gpu,
        };
        self.push_fence(scope, if x.has(Mod::Acquire) { 2 } else { 0 });
        Ok(())
    }

    fn cluster_barrier(&mut self, x: &Inst) -> Res {
        if has(x, "wait") {
            self.order_op(order::CLUSTER_WAIT, 0)?;
            self.push_fence(Scope::Gpu, 2);
            return Ok(());
        }
        if !x.has(Mod::Relaxed) {
            self.push_fence(Scope::Gpu, 0);
        }
        self.order_op(order::CLUSTER_ARRIVE, 0)
    }

    fn mapa(&mut self, x: &Inst) -> Res {
        let ty = self.ty(x.ty(), x)?;
        let a = match x.operands.get(1) {
            Some(Operand::Var { var, offset }) => self.var_address(*var, *offset, x.span)?,
            _ => self.arg(x, 1, ty)?,
        };
        let rank = self.arg(x, 2, Ty::B32)?;
        let generic = x.space() == Space::Generic;
        let lo = self.b().resize(a, Ty::B32, false);
        let choose = self.konst(Ty::B32, 0x654);
        let lo = self.op(Op::Prmt, &[rank, lo, choose], Ty::B32);
        let v = if ty == Ty::B32 {
            lo
        } else {
            let hi = if generic && self.f.ty(a) == Ty::B64 {
                self.op(Op::Hi, &[a], Ty::B32)
            } else {
                self.konst(Ty::B32, 0)
            };
            self.op(Op::Pack, &[lo, hi], Ty::B64)
        };
        self.dst(x, v, false)
    }

    fn remote_store(&mut self, x: &Inst) -> Res {
        let a = self.shared32(x, 0)?;
        let bar = self.shared32(x, 2)?;
        let both = self.op(Op::Pack, &[a, bar], Ty::B64);
        let mut args = vec![both];
        args.extend(self.values(x, 1)?);
        let t = x.ty();
        let sub = match (x.op, x.atom_op()) {
            (P::St, _) => 0xff,
            (_, Some(op)) => {
                use ptx::access::AtomOp as A;
                [A::Add, A::Min, A::Max, A::Inc, A::Dec, A::And, A::Or, A::Xor]
                    .iter()
                    .position(|&o| o == op)
                    .unwrap_or(0) as u8
            }
            _ => return self.unsupported(x),
        };
        let mem = Mem { space: MemSpace::Shared, bytes: (t.bits() / 8) as u8, ..Mem::default() };
        let attr = Attr { sub, signed: t.is_signed(), ..Attr::default() };
        self.b().push(Op::RemoteStore, attr, mem, 0, &args, &[]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        let b = Bulk { kind: 9, first: 7, second: 2, third: true, dims: 4, im2col: true, ty: 8, ..Bulk::default() };
        assert_eq!(Bulk::unpack(b.pack()), b);
        let b = Bulk { policy: true, multicast: true, multimem: true, reduce: 7, ..Bulk::default() };
        assert_eq!(Bulk::unpack(b.pack()), b);
    }
}
