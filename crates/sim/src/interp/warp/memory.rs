//! Accesses to memory: loads, stores, atomics, asynchronous copies.

use super::*;
use crate::copies::Piece;
use crate::memory::{CONST, LOCAL, PARAM, SHARED, shared};
use crate::shadow::Access;

/// Where and how a lane accesses memory.
#[derive(Clone, Copy)]
pub(super) struct At {
    /// Call depth of the lane.
    pub depth: usize,
    /// Lane.
    pub lane: usize,
    /// Instruction.
    pub pc: u32,
    /// Bytes that the address must be a multiple of.
    pub align: u32,
    /// Strong: see [`Access`].
    pub strong: bool,
}

impl Warp {
    pub(super) fn address(&self, env: &Env<'_>, depth: usize, pc: u32, a: &Addr, m: u32) -> Res<Lanes> {
        self.need(env, depth, &[a.base], m, pc)?;
        let base = self.values(env.p, depth, a.base);
        if a.frame {
            let start = &self.frames[depth].base;
            return Ok(std::array::from_fn(|i| base[i].wrapping_add(start[i] as u64).wrapping_add(a.offset as u64)));
        }
        Ok(std::array::from_fn(|i| base[i].wrapping_add(a.offset as u64) & a.mask))
    }

    pub(super) fn load(
        &mut self,
        env: &mut Env<'_>,
        depth: usize,
        pc: u32,
        (order, x): (Order, &Operands<'_>),
        m: u32,
    ) -> Res<()> {
        let at = self.address(env, depth, pc, x.addr, m)?;
        let size = x.size as u32;
        let whole = size * x.slots.len() as u32;
        let mut out = [[0; 32]; 8];
        for lane in lanes(m) {
            let (sp, a) = resolve(x.space, at[lane]);
            for (k, out) in out[..x.slots.len()].iter_mut().enumerate() {
                let how = At { depth, lane, pc, align: if k == 0 { whole } else { size }, strong: order.strong };
                let v = self
                    .load_lane(env, (sp, a.wrapping_add(k as u64 * size as u64)), size, how)
                    .map_err(|e| memory(e, lane, pc))?;
                out[lane] = match x.sign {
                    Some(width) => sx(v, size * 8) as u64 & bits_mask(width),
                    None => v,
                };
            }
        }
        for (k, &slot) in x.slots.iter().enumerate() {
            self.put(depth, slot, m, &out[k]);
        }
        if order.acquire {
            env.shadow.take(self.id(env));
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        env: &mut Env<'_>,
        depth: usize,
        pc: u32,
        (order, x): (Order, &Operands<'_>),
        m: u32,
    ) -> Res<()> {
        self.need(env, depth, x.slots, m, pc)?;
        let at = self.address(env, depth, pc, x.addr, m)?;
        if order.release {
            env.shadow.fence(self.id(env));
        }
        let size = x.size as u32;
        let whole = size * x.slots.len() as u32;
        for lane in lanes(m) {
            let (sp, a) = resolve(x.space, at[lane]);
            for (k, &slot) in x.slots.iter().enumerate() {
                // `_` in a vector.
                if slot == Slot::NONE {
                    continue;
                }
                let how = At { depth, lane, pc, align: if k == 0 { whole } else { size }, strong: order.strong };
                let v = self.values(env.p, depth, slot)[lane];
                self.store_lane(env, (sp, a.wrapping_add(k as u64 * size as u64)), size, how, v)
                    .map_err(|e| memory(e, lane, pc))?;
            }
        }
        Ok(())
    }

    pub(super) fn atom(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &Atomic, m: u32) -> Res<()> {
        self.need(env, depth, &[x.b, x.c], m, pc)?;
        let at = self.address(env, depth, pc, &x.addr, m)?;
        if x.order.release {
            env.shadow.fence(self.id(env));
        }
        let (b, c) = (*self.values(env.p, depth, x.b), *self.values(env.p, depth, x.c));
        let mut out = [0; 32];
        let size = x.size as u32;
        for lane in lanes(m) {
            let (sp, a) = resolve(x.space, at[lane]);
            let fault = |e| memory(e, lane, pc);
            let how = At { depth, lane, pc, align: x.align as u32, strong: true };
            let old = self.load_lane(env, (sp, a), size, how).map_err(fault)?;
            let f = if sp == Space::Shared { x.shared.as_ref().unwrap_or(&x.f) } else { &x.f };
            self.store_lane(env, (sp, a), size, how, f(old, b[lane], c[lane])).map_err(fault)?;
            out[lane] = old;
        }
        self.put(depth, x.d, m, &out);
        if x.order.acquire {
            env.shadow.take(self.id(env));
        }
        Ok(())
    }

    /// `atom.exch.b128`, `atom.cas.b128`
    pub(super) fn atom_wide(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &WideAtomic, m: u32) -> Res<()> {
        self.need(env, depth, &x.b, m, pc)?;
        self.need(env, depth, x.c.as_ref().map_or(&[], |c| &c[..]), m, pc)?;
        let at = self.address(env, depth, pc, &x.addr, m)?;
        if x.order.release {
            env.shadow.fence(self.id(env));
        }
        let mut out = [[0; 32]; 2];
        for lane in lanes(m) {
            let (sp, a) = resolve(x.space, at[lane]);
            let fault = |e| memory(e, lane, pc);
            let how = At { depth, lane, pc, align: 8, strong: true };
            check_aligned(a, 16, name(sp)).map_err(fault)?;
            for (i, out) in out.iter_mut().enumerate() {
                out[lane] = self.load_lane(env, (sp, a + 8 * i as u64), 8, how).map_err(fault)?;
            }
            let value = |w: &Warp, s: [Slot; 2]| s.map(|s| w.values(env.p, depth, s)[lane]);
            let old = [out[0][lane], out[1][lane]];
            let b = value(self, x.b);
            let new = match x.c {
                None => b,
                Some(c) if old == b => value(self, c),
                Some(_) => old,
            };
            for (i, v) in new.into_iter().enumerate() {
                self.store_lane(env, (sp, a + 8 * i as u64), 8, how, v).map_err(fault)?;
            }
        }
        (0..2).for_each(|i| self.put(depth, x.d[i], m, &out[i]));
        if x.order.acquire {
            env.shadow.take(self.id(env));
        }
        Ok(())
    }

    /// `cp.async`: the bytes are copied at once, but count as under way until they are waited for.
    pub(super) fn copy(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &AsyncCopy, m: u32) -> Res<()> {
        self.need_pred(env, depth, x.ignore, m, pc)?;
        let ignore = self.pred(depth, x.ignore);
        let (dst, src) = (self.address(env, depth, pc, &x.to, m)?, self.address(env, depth, pc, &x.from, m)?);
        self.need(env, depth, &[x.read], m, pc)?;
        let read = *self.values(env.p, depth, x.read);
        let size = x.size as u32;
        for lane in lanes(m) {
            let fault = |e| memory(e, lane, pc);
            check_aligned(dst[lane], size, "shared").map_err(fault)?;
            check_aligned(src[lane], size, "global").map_err(fault)?;
            let mut data = [0u8; 16];
            let how = At { depth, lane, pc, align: 1, strong: false };
            let wanted = if ignore >> lane & 1 != 0 { 0 } else { read[lane].min(size as u64) };
            for k in 0..wanted {
                let from = resolve(Space::Generic, src[lane] + k);
                data[k as usize] = self.load_lane(env, from, 1, how).map_err(fault)? as u8;
            }
            let (_, to) = resolve(Space::Shared, dst[lane]);
            let (rank, off) = shared(env.shared, to).map_err(fault)?;
            let at = env.shared[rank].find(off, size, "shared").map_err(fault)?;
            env.shared[rank].data[at..at + size as usize].copy_from_slice(&data[..size as usize]);
            let who = self.who(env, lane, pc);
            self.copies[lane].start(env.shadow, Piece { place: (rank, at), size, who }).map_err(fault)?;
        }
        Ok(())
    }

    /// `cp.async.commit_group`, `.wait_group`, `.wait_all`.
    pub(super) fn copy_group(&mut self, env: &mut Env<'_>, pc: u32, what: CopyGroup, m: u32) -> Res<()> {
        for lane in lanes(m) {
            let c = &mut self.copies[lane];
            match what {
                CopyGroup::Commit => c.commit(),
                CopyGroup::Wait(n) => c.wait(env.shadow, n as usize).map_err(|e| memory(e, lane, pc))?,
                CopyGroup::WaitAll => c.wait_all(env.shadow).map_err(|e| memory(e, lane, pc))?,
            }
        }
        Ok(())
    }

    /// `alloca`, `stacksave`, `stackrestore`: the frame of the running function grows and shrinks.
    pub(super) fn stack(&mut self, env: &Env<'_>, depth: usize, pc: u32, d: Slot, how: Stack, m: u32) -> Res<()> {
        let mut out = [0; 32];
        for lane in lanes(m) {
            let top = self.frames[depth].top[lane];
            let (start, end) = match how {
                Stack::Save => (top as u64, top as u64),
                Stack::Alloca(size, align) => {
                    self.need(env, depth, &[size], 1 << lane, pc)?;
                    let start = (top as u64).next_multiple_of(align.max(1) as u64);
                    (start, start.saturating_add(self.values(env.p, depth, size)[lane]))
                }
                Stack::Restore(to) => {
                    self.need(env, depth, &[to], 1 << lane, pc)?;
                    let to = self.values(env.p, depth, to)[lane];
                    let first = self.frames[depth].base[lane] as u64;
                    if to < first || to > top as u64 {
                        let message = format!("the stack ends at {top:#x} and cannot be restored to {to:#x}");
                        return Err(stop(FaultKind::OutOfBounds, message, lane, pc));
                    }
                    (to, to)
                }
            };
            if end > LOCAL_SIZE as u64 {
                let message = format!("the stack of the thread is larger than {LOCAL_SIZE} bytes");
                return Err(stop(FaultKind::StackOverflow, message, lane, pc));
            }
            if self.local[lane].data.len() < end as usize {
                self.local[lane].data.resize(end as usize, 0);
            }
            self.frames[depth].top[lane] = end as u32;
            out[lane] = start;
        }
        self.put(depth, d, m, &out);
        Ok(())
    }

    /// The warp's number in the cluster.
    pub(super) fn id(&self, env: &Env<'_>) -> u32 {
        (env.rank * env.warps + self.number) as u32
    }

    pub(super) fn who(&self, env: &Env<'_>, lane: usize, pc: u32) -> Who {
        Who { warp: self.id(env), lane: lane as u32, pc }
    }

    #[inline]
    pub(super) fn load_lane(
        &self,
        env: &mut Env<'_>,
        (space, a): (Space, u64),
        size: u32,
        at: At,
    ) -> Result<u64, MemFault> {
        check_aligned(a, at.align, name(space))?;
        match space {
            Space::Global | Space::Generic => env.global.load(a, size),
            Space::Shared => {
                let (w, off) = shared(env.shared, a)?;
                let i = env.shared[w].find(off, size, "shared")?;
                let how = Access::READ.strong(at.strong);
                env.shadow.access((w, i), size, how, false, self.who(env, at.lane, at.pc))?;
                Ok(get(&env.shared[w].data, i, size))
            }
            Space::Local => {
                self.in_frame(at.depth, a, size, at.lane)?;
                self.local[at.lane].load(a, size, "local")
            }
            Space::Const => env.constant.load(a, size, "constant"),
            Space::Param => env.param.load(a, size, "parameter"),
        }
    }

    #[inline]
    pub(super) fn store_lane(
        &mut self,
        env: &mut Env<'_>,
        (space, a): (Space, u64),
        size: u32,
        at: At,
        value: u64,
    ) -> Result<(), MemFault> {
        check_aligned(a, at.align, name(space))?;
        match space {
            Space::Global | Space::Generic => env.global.store(a, size, value),
            Space::Shared => {
                let (w, off) = shared(env.shared, a)?;
                let i = env.shared[w].find(off, size, "shared")?;
                let data = &mut env.shared[w].data;
                let same = get(data, i, size) == value & bits_mask(8 * size);
                put(data, i, size, value);
                let how = Access::WRITE.strong(at.strong);
                env.shadow.access((w, i), size, how, same, self.who(env, at.lane, at.pc))
            }
            Space::Local => {
                self.in_frame(at.depth, a, size, at.lane)?;
                self.local[at.lane].store(a, size, value, "local")
            }
            Space::Const | Space::Param => {
                let message = format!("a store to {} memory at {a:#x}", name(space));
                Err(MemFault::new(FaultKind::ReadOnly, message))
            }
        }
    }

    /// Local memory ends with the frame of the running function.
    fn in_frame(&self, depth: usize, a: u64, size: u32, lane: usize) -> Result<(), MemFault> {
        let top = self.frames[depth].top[lane] as u64;
        if a.saturating_add(size as u64) <= top {
            return Ok(());
        }
        let message =
            format!("local address {a:#x} for an access of {size} bytes; the stack of the thread ends at {top:#x}");
        Err(MemFault::new(FaultKind::OutOfBounds, message))
    }
}

pub(super) fn resolve(space: Space, a: u64) -> (Space, u64) {
    if space != Space::Generic {
        return (space, a);
    }
    let low = a & 0xffff_ffff;
    match a & !0xffff_ffff {
        SHARED => (Space::Shared, low),
        LOCAL => (Space::Local, low),
        CONST => (Space::Const, low),
        PARAM => (Space::Param, low),
        _ => (Space::Global, a),
    }
}

pub(super) fn name(space: Space) -> &'static str {
    match space {
        Space::Generic | Space::Global => "global",
        Space::Shared => "shared",
        Space::Local => "local",
        Space::Const => "constant",
        Space::Param => "parameter",
    }
}
