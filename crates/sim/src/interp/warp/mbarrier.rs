//! Barriers in shared memory and the copies that complete on them.

use super::memory::At;
use super::*;
use crate::copies::Piece;
use crate::interp::mbarrier::{MOST, Object};
use crate::memory::SHARED;
use crate::shadow::Access;

/// Where an object lies: rank of the CTA, offset in its memory.
type PlaceOf = (usize, usize);

fn misuse(message: impl Into<String>, lane: usize, pc: u32) -> Stop {
    stop(FaultKind::BarrierMisuse, message, lane, pc)
}

impl Warp {
    /// The object at an address, with its place.
    fn object(&self, env: &mut Env<'_>, at: u64, lane: usize, pc: u32) -> Res<(PlaceOf, Option<Object>)> {
        let fault = |e| memory(e, lane, pc);
        let (_, a) = resolve(Space::Generic, at);
        check_aligned(a, 8, "shared").map_err(fault)?;
        let (rank, off) = crate::memory::shared(env.shared, a).map_err(fault)?;
        let i = env.shared[rank].find(off, 8, "shared").map_err(fault)?;
        Ok(((rank, i), Object::read(get(&env.shared[rank].data, i, 8))))
    }

    /// Changes an object; gives its word before. A phase that ends makes what completed on it known to those who wait.
    pub(super) fn change(
        &self,
        env: &mut Env<'_>,
        (at, lane, pc): (u64, usize, u32),
        f: impl FnOnce(&mut Object) -> Result<(), String>,
    ) -> Res<u64> {
        let (place, object) = self.object(env, at, lane, pc)?;
        let how = Access::ATOMIC;
        env.shadow.access(place, 8, how, false, self.who(env, lane, pc)).map_err(|e| memory(e, lane, pc))?;
        let Some(mut o) = object else { return Err(misuse("there is no initialised mbarrier here", lane, pc)) };
        let before = o.word();
        f(&mut o).map_err(|m| misuse(m, lane, pc))?;
        if o.settle() {
            env.shadow.phase_ends(place);
        }
        put(&mut env.shared[place.0].data, place.1, 8, o.word());
        Ok(before)
    }

    pub(super) fn mbarrier(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &Mbarrier, m: u32) -> Res<()> {
        let at = self.address(env, depth, pc, &x.addr, m)?;
        self.need(env, depth, &[x.a], m, pc)?;
        let a = *self.values(env.p, depth, x.a);
        let (mut out, mut yes) = ([0; 32], 0);
        for lane in lanes(m) {
            let here = (at[lane], lane, pc);
            let n = a[lane] as u32;
            match x.what {
                MbarrierOp::Init => {
                    let (place, _) = self.object(env, at[lane], lane, pc)?;
                    if n == 0 || n > MOST {
                        return Err(misuse(
                            format!("an mbarrier for {n} arrivals; 1 to {MOST} are possible"),
                            lane,
                            pc,
                        ));
                    }
                    let o = Object { pending: n, expected: n, bytes: 0, phase: false };
                    put(&mut env.shared[place.0].data, place.1, 8, o.word());
                    let who = self.who(env, lane, pc);
                    env.shadow.access(place, 8, Access::WRITE, false, who).map_err(|e| memory(e, lane, pc))?;
                }
                MbarrierOp::Inval => {
                    self.change(env, here, |_| Ok(()))?;
                    let (place, _) = self.object(env, at[lane], lane, pc)?;
                    put(&mut env.shared[place.0].data, place.1, 8, 0);
                }
                MbarrierOp::Arrive { drop, expect, no_complete } => {
                    let (place, _) = self.object(env, at[lane], lane, pc)?;
                    if x.order.release {
                        env.shadow.arrive(place, self.id(env));
                    }
                    let count = if expect { 1 } else { n };
                    out[lane] = self.change(env, here, |o| {
                        if expect {
                            transactions(o, n as i64)?;
                        }
                        arrive(o, count, drop)?;
                        match no_complete && o.pending == 0 && o.bytes == 0 {
                            true => Err("arrive.noComplete completes the phase".into()),
                            false => Ok(()),
                        }
                    })?;
                }
                MbarrierOp::Transactions { complete } => {
                    let bytes = if complete { -(n as i64) } else { n as i64 };
                    self.change(env, here, |o| transactions(o, bytes))?;
                }
                MbarrierOp::Wait { parity } => {
                    let (place, object) = self.object(env, at[lane], lane, pc)?;
                    let who = self.who(env, lane, pc);
                    let how = Access::READ.strong(true);
                    env.shadow.access(place, 8, how, false, who).map_err(|e| memory(e, lane, pc))?;
                    let Some(o) = object else { return Err(misuse("there is no initialised mbarrier here", lane, pc)) };
                    let waited_for = if parity { n & 1 != 0 } else { a[lane] >> 63 != 0 };
                    if o.phase != waited_for {
                        yes |= 1 << lane;
                        env.shadow.pass(place, self.id(env)).map_err(|e| memory(e, lane, pc))?;
                    }
                }
                MbarrierOp::CopyArrive { noinc } => {
                    let (place, _) = self.object(env, at[lane], lane, pc)?;
                    for piece in self.copies[lane].take() {
                        env.shadow.complete_on(place, piece);
                    }
                    env.shadow.arrive(place, self.id(env));
                    self.change(env, here, |o| {
                        if !noinc {
                            o.pending = (o.pending + 1).min(MOST);
                        }
                        arrive(o, 1, false)
                    })?;
                }
            }
        }
        self.put(depth, x.d, m, &out);
        self.put_pred(depth, x.p, m, yes);
        Ok(())
    }

    /// `cp.async.bulk`: the bytes are copied at once, but count as under way until the phase of its mbarrier ends.
    pub(super) fn bulk(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &Bulk, m: u32) -> Res<()> {
        let (to, from) = (self.address(env, depth, pc, &x.to.1, m)?, self.address(env, depth, pc, &x.from.1, m)?);
        self.need(env, depth, &[x.size], m, pc)?;
        let sizes = *self.values(env.p, depth, x.size);
        let done = x.done.map(|a| self.address(env, depth, pc, &a, m)).transpose()?;
        for lane in lanes(m) {
            let fault = |e| memory(e, lane, pc);
            let size = sizes[lane] as u32;
            let how = At { depth, lane, pc, align: 16, strong: false };
            if !size.is_multiple_of(16) {
                let message = format!("a bulk copy of {size} bytes, which is no multiple of 16");
                return Err(stop(FaultKind::Misaligned, message, lane, pc));
            }
            let (fs, fa) = resolve(x.from.0, from[lane]);
            let (ts, ta) = resolve(x.to.0, to[lane]);
            check_aligned(fa, 16, memory::name(fs)).map_err(fault)?;
            check_aligned(ta, 16, memory::name(ts)).map_err(fault)?;
            let mut data = Vec::with_capacity(size as usize);
            if fs == Space::Shared && size > 0 {
                let (rank, off) = crate::memory::shared(env.shared, fa).map_err(fault)?;
                let i = env.shared[rank].find(off, size, "shared").map_err(fault)?;
                env.shadow.proxy_reads((rank, i), size, self.id(env)).map_err(fault)?;
            }
            for k in (0..size as u64).step_by(8) {
                let v = self.load_lane(env, (fs, fa + k), 8, At { align: 8, ..how }).map_err(fault)?;
                data.extend_from_slice(&v.to_le_bytes());
            }
            if fs == Space::Shared && done.is_none() && size > 0 {
                let (rank, off) = crate::memory::shared(env.shared, fa).map_err(fault)?;
                let i = env.shared[rank].find(off, size, "shared").map_err(fault)?;
                self.reads(lane, (rank, i), &data);
            }
            if let Some((f, bytes)) = &x.reduce {
                let bytes = *bytes as u32;
                for (k, new) in data.chunks(bytes as usize).enumerate() {
                    let place = (ts, ta + (k * bytes as usize) as u64);
                    let how = At { align: bytes, strong: true, ..how };
                    let old = self.load_lane(env, place, bytes, how).map_err(fault)?;
                    let new = f(old, get(new, 0, bytes), 0);
                    self.store_lane(env, place, bytes, how, new).map_err(fault)?;
                }
            } else if ts != Space::Shared {
                for (k, bytes) in data.chunks(8).enumerate() {
                    let v = get(bytes, 0, 8);
                    self.store_lane(env, (ts, ta + 8 * k as u64), 8, At { align: 8, ..how }, v).map_err(fault)?;
                }
            } else if let Some(mask) = x.multicast {
                self.need(env, depth, &[mask], 1 << lane, pc)?;
                let mask = self.values(env.p, depth, mask)[lane];
                let object = done.as_ref().map_or(0, |done| resolve(Space::Shared, done[lane]).1);
                for rank in (0..16u64).filter(|rank| mask >> rank & 1 != 0) {
                    let of = |a: u64| a & 0xff_ffff | rank << 24;
                    self.copy_in(env, (of(ta), Some(of(object))), &data, (lane, pc))?;
                    self.change(env, (SHARED | of(object), lane, pc), |o| transactions(o, -(size as i64)))?;
                }
                continue;
            } else if size > 0 {
                self.copy_in(env, (ta, done.as_ref().map(|d| d[lane])), &data, (lane, pc))?;
            }
            if let Some(done) = &done {
                self.change(env, (done[lane], lane, pc), |o| transactions(o, -(size as i64)))?;
            }
        }
        Ok(())
    }
}

impl Warp {
    /// Bytes come to shared memory; they count as under way until the phase of the barrier ends.
    pub(super) fn copy_in(
        &self,
        env: &mut Env<'_>,
        (to, done): (u64, Option<u64>),
        data: &[u8],
        (lane, pc): (usize, u32),
    ) -> Res<()> {
        let fault = |e| memory(e, lane, pc);
        let size = data.len() as u32;
        let (rank, off) = crate::memory::shared(env.shared, to).map_err(fault)?;
        let i = env.shared[rank].find(off, size, "shared").map_err(fault)?;
        env.shared[rank].data[i..i + data.len()].copy_from_slice(data);
        let piece = Piece { place: (rank, i), size, who: self.who(env, lane, pc) };
        env.shadow.start(piece.place, size, piece.who).map_err(fault)?;
        env.shadow.started_by_proxy(piece.place, size);
        if let Some(done) = done {
            let done = if done >> 32 == 0 { SHARED | done } else { done };
            let (place, _) = self.object(env, done, lane, pc)?;
            env.shadow.complete_on(place, piece);
        }
        Ok(())
    }

    /// `st.async`, `red.async`: a store counts as under way until the phase of its barrier ends.
    pub(super) fn async_store(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &AsyncStore, m: u32) -> Res<()> {
        self.need(env, depth, &x.s, m, pc)?;
        let (to, done) = (self.address(env, depth, pc, &x.addr, m)?, self.address(env, depth, pc, &x.done, m)?);
        let size = x.size as u32;
        let whole = size * x.s.len() as u32;
        for lane in lanes(m) {
            let fault = |e| memory(e, lane, pc);
            let (_, a) = resolve(Space::Generic, to[lane]);
            check_aligned(a, whole, "shared").map_err(fault)?;
            let (rank, off) = crate::memory::shared(env.shared, a).map_err(fault)?;
            let i = env.shared[rank].find(off, whole, "shared").map_err(fault)?;
            let who = self.who(env, lane, pc);
            for (k, &s) in x.s.iter().enumerate() {
                let v = self.values(env.p, depth, s)[lane];
                let at = i + k * size as usize;
                if let Some(f) = &x.f {
                    env.shadow.access((rank, at), size, Access::ATOMIC, false, who).map_err(fault)?;
                    let old = get(&env.shared[rank].data, at, size);
                    put(&mut env.shared[rank].data, at, size, f(old, v, 0));
                } else {
                    put(&mut env.shared[rank].data, at, size, v);
                }
            }
            if x.f.is_none() {
                let piece = Piece { place: (rank, i), size: whole, who };
                env.shadow.start(piece.place, whole, who).map_err(fault)?;
                env.shadow.started_by_proxy(piece.place, whole);
                let (place, _) = self.object(env, done[lane], lane, pc)?;
                env.shadow.complete_on(place, piece);
            }
            self.change(env, (done[lane], lane, pc), |o| transactions(o, -(whole as i64)))?;
        }
        Ok(())
    }
}

pub(super) fn transactions(o: &mut Object, bytes: i64) -> Result<(), String> {
    let sum = o.bytes as i64 + bytes;
    if sum.abs() > MOST as i64 {
        return Err(format!("{sum} bytes pending at an mbarrier, which holds {MOST} at most"));
    }
    o.bytes = sum as i32;
    Ok(())
}

fn arrive(o: &mut Object, n: u32, drop: bool) -> Result<(), String> {
    if n == 0 || n > o.pending {
        return Err(format!("{n} arrivals at an mbarrier that waits for {}", o.pending));
    }
    o.pending -= n;
    if drop {
        o.expected = o.expected.saturating_sub(n);
    }
    Ok(())
}
