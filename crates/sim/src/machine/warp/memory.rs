//! Accesses to memory: addresses, bytes, loads, stores, atomics, copies, matrices.

use super::*;
use crate::copies::Piece;
use crate::memory::{CONST, LOCAL, PARAM, SHARED, check_aligned, shared};
use crate::shadow::Access;

impl Warp {
    pub(super) fn load(&mut self, env: &mut Env<'_>, pc: u32, x: &Load, m: u32) -> Res<()> {
        let at = self.address(env.p, &x.addr);
        let size = x.size as u32;
        let words = size.div_ceil(4) as usize;
        let mut out = [[0u32; 32]; 4];
        for i in lanes(m) {
            let fault = |e| memory(e, i, pc);
            let object = self.plain_object(env, (x.space, at[i]));
            let how = Access::READ.strong(x.strong || object.is_some());
            if x.poll
                && let Ok((rank, off)) = shared(env.shared, at[i])
                && let Ok(from) = env.shared[rank].find(off, size, "shared")
            {
                env.shadow.poll((rank, from), env.id);
            }
            let found = self.note(env, (x.space, at[i]), size, how, None, (i, pc)).map_err(fault)?;
            if let Some((rank, from)) = found
                && let Some(init) = &mut self.init
                && !env.shadow.written((rank, from), size)
            {
                for k in 0..words {
                    if !env.shadow.written((rank, from + 4 * k), size.min(4)) {
                        init.forget(x.d.saturating_add(k as u8), 1 << i);
                    }
                }
            }
            if let Some(place) = object {
                env.shadow.pass(place, env.id).map_err(fault)?;
            }
            let mut bytes = [0; 16];
            self.read(env, x.space, at[i], &mut bytes[..size as usize], i).map_err(fault)?;
            if size < 4 {
                let v = get(&bytes, 0, size) as u32;
                let unused = 32 - 8 * size;
                out[0][i] = if x.sign { ((v << unused) as i32 >> unused) as u32 } else { v };
            } else {
                for (k, out) in out[..words].iter_mut().enumerate() {
                    out[i] = get(&bytes, 4 * k, 4) as u32;
                }
            }
        }
        for (k, out) in out[..words].iter().enumerate() {
            self.put(gpr(x.d, k), m, out);
        }
        Ok(())
    }

    pub(super) fn store(&mut self, env: &mut Env<'_>, pc: u32, x: &Store, m: u32) -> Res<()> {
        let at = self.address(env.p, &x.addr);
        let size = x.size as usize;
        for i in lanes(m) {
            let fault = |e| memory(e, i, pc);
            let mut data = [0u8; 16];
            for (k, &s) in x.s.iter().enumerate() {
                data[4 * k..4 * k + 4].copy_from_slice(&self.src(env.p, s)[i].to_le_bytes());
            }
            let data = &data[..size];
            self.note(env, (x.space, at[i]), size as u32, Access::WRITE, Some(data), (i, pc)).map_err(fault)?;
            self.write(env, x.space, at[i], data, i).map_err(fault)?;
        }
        Ok(())
    }

    pub(super) fn atom(&mut self, env: &mut Env<'_>, pc: u32, x: &Atom, m: u32) -> Res<()> {
        let at = self.address(env.p, &x.addr);
        let size = x.size as u32;
        let wide =
            |w: &Warp, s: [Src; 2], i: usize| w.src(env.p, s[0])[i] as u64 | (w.src(env.p, s[1])[i] as u64) << 32;
        let mask = if size == 8 { u64::MAX } else { u32::MAX as u64 };
        let operands: [(u64, u64); 32] =
            std::array::from_fn(|i| (wide(self, x.b, i) & mask, wide(self, x.c, i) & mask));
        let mut out = [[0u32; 32]; 2];
        let mut global = 0;
        for i in lanes(m) {
            let (b, c) = operands[i];
            let fault = |e| memory(e, i, pc);
            // A generic addition in place works on global memory alone; the predicate tells if it did.
            let (sp, a) = resolve(x.space, at[i]);
            global |= ((sp == Space::Global) as u32) << i;
            self.note(env, (sp, a), size, Access::ATOMIC, None, (i, pc)).map_err(fault)?;
            let mut bytes = [0; 8];
            let bytes = &mut bytes[..size as usize];
            self.read(env, sp, a, bytes, i).map_err(fault)?;
            let old = get(bytes, 0, size);
            put(bytes, 0, size, (x.f)(old, b, c));
            self.write(env, sp, a, bytes, i).map_err(fault)?;
            let r = match x.result {
                AtomResult::Old => old,
                AtomResult::Success => (old == b) as u64,
            };
            if x.result == AtomResult::Success {
                global = global & !(1 << i) | ((old == b) as u32) << i;
            }
            (out[0][i], out[1][i]) = (r as u32, (r >> 32) as u32);
        }
        self.put(gpr(x.d, 0), m, &out[0]);
        if size == 8 {
            self.put(gpr(x.d, 1), m, &out[1]);
        }
        self.put_pred(x.p, m, global);
        Ok(())
    }

    /// `LDGSTS`: the bytes are copied at once, but count as under way until they are waited for.
    pub(super) fn copy(&mut self, env: &mut Env<'_>, pc: u32, x: &AsyncCopy, m: u32) -> Res<()> {
        let (dst, src) = (self.address(env.p, &x.to), self.address(env.p, &x.from));
        let read = self.pred(x.p);
        let size = x.size as usize;
        for i in lanes(m) {
            let fault = |e| memory(e, i, pc);
            let mut data = [0u8; 16];
            let data = &mut data[..size];
            if read >> i & 1 != 0 {
                let missing = if x.partial { src[i] & (size as u64 - 1) } else { 0 };
                let start = src[i] - missing;
                check_aligned(start, size as u32, "global").map_err(fault)?;
                let kept = size - missing as usize;
                env.global.read(start, &mut data[..kept]).map_err(fault)?;
            }
            self.write(env, Space::Shared, dst[i], data, i).map_err(fault)?;
            let (rank, off) = shared(env.shared, dst[i]).map_err(fault)?;
            let at = env.shared[rank].find(off, size as u32, "shared").map_err(fault)?;
            let who = Who { warp: env.id, lane: i as u32, pc };
            self.copies.start(env.shadow, Piece { place: (rank, at), size: size as u32, who }).map_err(fault)?;
        }
        Ok(())
    }

    /// An exchange of 16 bytes, with `c` only where the old value is `b`.
    pub(super) fn exchange(
        &mut self,
        env: &mut Env<'_>,
        pc: u32,
        (space, addr): (Space, &Addr),
        (d, b, c): (u8, &[Src; 4], Option<&[Src; 4]>),
        m: u32,
    ) -> Res<()> {
        let at = self.address(env.p, addr);
        let value =
            |w: &Warp, s: &[Src; 4], i: usize| s.iter().rev().fold(0u128, |v, &s| v << 32 | w.src(env.p, s)[i] as u128);
        let operands: [_; 32] = std::array::from_fn(|i| (value(self, b, i), c.map(|c| value(self, c, i))));
        let mut out = [[0u32; 32]; 4];
        for i in lanes(m) {
            let fault = |e| memory(e, i, pc);
            let (sp, a) = resolve(space, at[i]);
            self.note(env, (sp, a), 16, Access::ATOMIC, None, (i, pc)).map_err(fault)?;
            let mut bytes = [0; 16];
            self.read(env, sp, a, &mut bytes, i).map_err(fault)?;
            let old = u128::from_le_bytes(bytes);
            let new = match operands[i] {
                (b, Some(c)) => {
                    if old == b {
                        c
                    } else {
                        old
                    }
                }
                (b, None) => b,
            };
            self.write(env, sp, a, &new.to_le_bytes(), i).map_err(fault)?;
            for (k, out) in out.iter_mut().enumerate() {
                out[i] = (old >> (32 * k)) as u32;
            }
        }
        for (k, out) in out.iter().enumerate() {
            self.put(gpr(d, k), m, out);
        }
        Ok(())
    }

    /// The barrier before sm_90 that a load looks at, if it does.
    fn plain_object(&self, env: &Env<'_>, (space, a): (Space, u64)) -> Option<(usize, usize)> {
        if !env.p.plain_barriers || space != Space::Shared {
            return None;
        }
        let (rank, off) = shared(env.shared, a).ok()?;
        let at = env.shared[rank].find(off, 4, "shared").ok()?;
        Some((rank, at & !7)).filter(|place| env.objects.contains(place))
    }

    /// Tells the shadow of shared memory about an access; `data` is what a store writes. Gives the CTA and offset of shared
    /// memory.
    #[inline]
    fn note(
        &self,
        env: &mut Env<'_>,
        (space, a): (Space, u64),
        size: u32,
        how: Access,
        data: Option<&[u8]>,
        (lane, pc): (usize, u32),
    ) -> Result<Option<(usize, usize)>, MemFault> {
        if !matches!(space, Space::Shared | Space::Generic) {
            return Ok(None);
        }
        let (Place::Shared, a) = place(space, a)? else { return Ok(None) };
        check_aligned(a, size, "shared")?;
        let (rank, off) = shared(env.shared, a)?;
        let at = env.shared[rank].find(off, size, "shared")?;
        let same = data.is_some_and(|d| &env.shared[rank].data[at..at + d.len()] == d);
        env.shadow.access((rank, at), size, how, same, Who { warp: env.id, lane: lane as u32, pc })?;
        Ok(Some((rank, at)))
    }

    pub(super) fn address(&self, p: &Program, a: &Addr) -> [u64; 32] {
        let low = self.src(p, a.low);
        let u = a.uniform.map(|u| self.src(p, u));
        if let Some([base, high]) = a.wide {
            let (base, high) = (self.src(p, base), self.src(p, high));
            let whole = |i: usize| base[i] as u64 | (high[i] as u64) << 32;
            let upper = a.high.map(|h| self.src(p, h));
            let own = |i: usize| low[i] as u64 | upper.map_or(0, |h| (h[i] as u64) << 32);
            return std::array::from_fn(|i| whole(i).wrapping_add(own(i)).wrapping_add(a.offset as u64));
        }
        match a.high {
            Some(high) => {
                let high = self.src(p, high);
                std::array::from_fn(|i| (low[i] as u64 | (high[i] as u64) << 32).wrapping_add(a.offset as u64))
            }
            None => {
                let add = a.offset as u32;
                std::array::from_fn(|i| {
                    low[i].wrapping_mul(a.scale).wrapping_add(u.map_or(0, |u| u[i])).wrapping_add(add) as u64
                })
            }
        }
    }

    pub(super) fn read(
        &mut self,
        env: &mut Env<'_>,
        space: Space,
        a: u64,
        to: &mut [u8],
        lane: usize,
    ) -> Result<(), MemFault> {
        let (space, a) = place(space, a)?;
        let size = to.len() as u32;
        check_aligned(a, size, space.name())?;
        let from: &[u8] = match space {
            Place::Global => return env.global.read(a, to),
            Place::Shared => {
                let (w, off) = shared(env.shared, a)?;
                &env.shared[w].data[env.shared[w].find(off, size, "shared")?..]
            }
            Place::Local => self.local(a, size, lane)?,
            Place::Const => &env.constant.data[env.constant.find(a, size, "constant")?..],
            Place::Param => &env.param.data[env.param.find(a, size, "parameter")?..],
        };
        to.copy_from_slice(&from[..to.len()]);
        Ok(())
    }

    fn write(&mut self, env: &mut Env<'_>, space: Space, a: u64, from: &[u8], lane: usize) -> Result<(), MemFault> {
        let (space, a) = place(space, a)?;
        let size = from.len() as u32;
        check_aligned(a, size, space.name())?;
        let to: &mut [u8] = match space {
            Place::Global => return env.global.write(a, from),
            Place::Shared => {
                let (w, off) = shared(env.shared, a)?;
                let at = env.shared[w].find(off, size, "shared")?;
                &mut env.shared[w].data[at..]
            }
            Place::Local => self.local(a, size, lane)?,
            Place::Const | Place::Param => {
                let message = format!("a store to {} memory at {a:#x}", space.name());
                return Err(MemFault::new(FaultKind::ReadOnly, message));
            }
        };
        to[..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn local(&mut self, a: u64, size: u32, lane: usize) -> Result<&mut [u8], MemFault> {
        if a + size as u64 > STACK_TOP as u64 {
            let message = format!(
                "local address {a:#x} for an access of {size} bytes; the thread has {STACK_TOP:#x} bytes of local memory"
            );
            return Err(MemFault::new(FaultKind::OutOfBounds, message));
        }
        let memory = &mut self.local[lane];
        if memory.is_empty() {
            memory.resize(STACK_TOP as usize, 0);
        }
        Ok(&mut memory[a as usize..a as usize + size as usize])
    }

    /// `LDSM`, `STSM`: see the PTX instructions `ldmatrix`, `stmatrix`.
    pub(super) fn matrix(
        &mut self,
        env: &mut Env<'_>,
        pc: u32,
        (load, trans, r, count): (bool, bool, u8, u8),
        addr: &Addr,
        m: u32,
    ) -> Res<()> {
        self.whole(m, pc)?;
        let at = self.address(env.p, addr);
        for j in 0..count as usize {
            let mut regs = if load || r == 255 { [0; 32] } else { self.r.0[r as usize + j] };
            for lane in 0..32 {
                for half in 0..2 {
                    let (a, b) = (lane / 4, 2 * (lane % 4) + half);
                    let (row, column) = if trans { (b, a) } else { (a, b) };
                    let from = 8 * j + row;
                    let fault = |e| memory(e, from, pc);
                    check_aligned(at[from], 16, "shared").map_err(fault)?;
                    let place = at[from] + 2 * column as u64;
                    let how = if load { Access::READ } else { Access::WRITE };
                    let value = (regs[lane] >> (16 * half)) as u16;
                    let data = (!load).then_some(value.to_le_bytes());
                    let data = data.as_ref().map(|d| &d[..]);
                    self.note(env, (Space::Shared, place), 2, how, data, (from, pc)).map_err(fault)?;
                    if load {
                        let mut b = [0; 2];
                        self.read(env, Space::Shared, place, &mut b, from).map_err(fault)?;
                        regs[lane] |= (u16::from_le_bytes(b) as u32) << (16 * half);
                    } else {
                        self.write(env, Space::Shared, place, &value.to_le_bytes(), from).map_err(fault)?;
                    }
                }
            }
            if load {
                self.put(gpr(r, j), m, &regs);
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Global,
    Shared,
    Local,
    Const,
    Param,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Global => "global",
            Place::Shared => "shared",
            Place::Local => "local",
            Place::Const => "constant",
            Place::Param => "parameter",
        }
    }
}

pub(super) fn resolve(space: Space, a: u64) -> (Space, u64) {
    match (space, a & !0xffff_ffff) {
        (Space::Generic, SHARED) => (Space::Shared, a & 0xffff_ffff),
        (Space::Generic, LOCAL) => (Space::Local, a & 0xffff_ffff),
        (Space::Generic, CONST | PARAM) => (Space::Generic, a),
        (Space::Generic, _) => (Space::Global, a),
        other => (other.0, a),
    }
}

pub(super) fn place(space: Space, a: u64) -> Result<(Place, u64), MemFault> {
    Ok(match resolve(space, a) {
        (Space::Global, a) => (Place::Global, a),
        (Space::Shared, a) => (Place::Shared, a),
        (Space::Local, a) => (Place::Local, a),
        (Space::Generic, a) if a & !0xffff_ffff == CONST => (Place::Const, a & 0xffff_ffff),
        (Space::Generic, a) => (Place::Param, a & 0xffff_ffff),
    })
}
