//! Barriers in shared memory (`SYNCS`, `ARRIVES`) and the copies and stores that complete on them (`UBLKCP`, `UBLKRED`,
//! `STAS`, `REDAS`).
//!
//! The object is as the vendor's code builds and reads it: bits 20:1 hold 2^20 minus the arrivals of a phase, bits 62:43
//! 2^20 minus those that are missing in this phase, bit 63 is the parity of the phase. The bytes that are missing are in
//! bits 42:22 here, in two's complement; no code of the vendor looks at them.

use super::*;
use crate::copies::Piece;
use crate::memory::shared;
use crate::shadow::Access;

/// Most arrivals, and most bytes.
const MOST: u32 = (1 << 20) - 1;

/// The parts of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object {
    pending: u32,
    expected: u32,
    bytes: i32,
    phase: bool,
}

impl Object {
    fn read(word: u64) -> Object {
        let missing = |at: u32| (1 << 20) - ((word >> at) as u32 & MOST);
        Object {
            // All bits of a count clear: none is missing, not 2^20.
            pending: missing(43) & MOST,
            expected: missing(1) & MOST,
            bytes: ((word >> 22) as i32) << 11 >> 11,
            phase: word >> 63 != 0,
        }
    }

    fn word(self) -> u64 {
        let count = |n: u32, at: u32| ((((1u32 << 20) - n) & MOST) as u64) << at;
        let bytes = (self.bytes as u64 & 0x1f_ffff) << 22;
        count(self.expected, 1) | bytes | count(self.pending, 43) | (self.phase as u64) << 63
    }

    fn arrive(&mut self, n: u32, drop: bool) -> Result<(), String> {
        if n == 0 || n > self.pending {
            return Err(format!("{n} arrivals at a barrier in memory that waits for {}", self.pending));
        }
        self.pending -= n;
        self.expected -= if drop { n.min(self.expected) } else { 0 };
        Ok(())
    }

    pub(super) fn expect(&mut self, bytes: i64) -> Result<(), String> {
        let sum = self.bytes as i64 + bytes;
        if sum.abs() > MOST as i64 {
            return Err(format!("{sum} bytes pending at a barrier in memory, which holds {MOST} at most"));
        }
        self.bytes = sum as i32;
        Ok(())
    }

    /// Ends the phase if nothing is missing.
    fn settle(&mut self) -> bool {
        let done = self.pending == 0 && self.bytes == 0;
        if done {
            (self.pending, self.phase) = (self.expected, !self.phase);
        }
        done
    }
}

impl Warp {
    pub(super) fn here(&self, env: &Env<'_>, a: u64, size: u32) -> Result<(usize, usize), MemFault> {
        let (sp, a) = resolve(Space::Generic, if a >> 32 == 0 { crate::memory::SHARED | a } else { a });
        if sp != Space::Shared {
            let message = format!("{a:#x} is no address of shared memory");
            return Err(MemFault::new(FaultKind::OutOfBounds, message));
        }
        check_aligned(a, size.min(16), "shared")?;
        let (rank, off) = shared(env.shared, a)?;
        Ok((rank, env.shared[rank].find(off, size, "shared")?))
    }

    /// Changes the object at an address; gives its word before.
    pub(super) fn change(
        &self,
        env: &mut Env<'_>,
        (a, lane, pc): (u64, usize, u32),
        f: impl FnOnce(&mut Object) -> Result<(), String>,
    ) -> Res<u64> {
        let misuse = |m: String| stop(FaultKind::BarrierMisuse, m, 1 << lane, pc);
        let fault = |e| memory(e, lane, pc);
        let place = self.here(env, a, 8).map_err(fault)?;
        env.shadow
            .access(place, 8, Access::ATOMIC, false, Who { warp: env.id, lane: lane as u32, pc })
            .map_err(fault)?;
        if !env.objects.contains(&place) {
            return Err(misuse("there is no initialised barrier here".into()));
        }
        let before = get(&env.shared[place.0].data, place.1, 8);
        let mut o = Object::read(before);
        f(&mut o).map_err(misuse)?;
        if o.settle() {
            env.shadow.phase_ends(place);
        }
        put(&mut env.shared[place.0].data, place.1, 8, o.word());
        Ok(before)
    }

    pub(super) fn syncs(&mut self, env: &mut Env<'_>, pc: u32, x: &Syncs, m: u32) -> Res<()> {
        let at = self.address(env.p, &x.addr);
        let (low, high) = (*self.src(env.p, x.b[0]), *self.src(env.p, x.b[1]));
        let mut out = [[0u32; 32]; 2];
        let mut yes = 0;
        if matches!(x.what, SyncsOp::Plain | SyncsOp::PlainCopies) {
            return self.plain_arrival(env, pc, x, m);
        }
        // A uniform destination means that the warp does it once.
        let once = 1u32 << m.trailing_zeros();
        let m = if matches!(x.what, SyncsOp::Exchange) || x.once { once } else { m };
        for i in lanes(m) {
            let fault = |e| memory(e, i, pc);
            let place = self.here(env, at[i], 8).map_err(fault)?;
            let here = (at[i], i, pc);
            let before = match x.what {
                SyncsOp::Exchange => {
                    let new = low[i] as u64 | (high[i] as u64) << 32;
                    let o = Object::read(new);
                    if o.pending == 0 || o.pending != o.expected || o.bytes != 0 || o.phase || o.word() != new {
                        let message = format!("{new:#x} is put into shared memory as a barrier, which it is not");
                        return Err(stop(FaultKind::BarrierMisuse, message, 1 << i, pc));
                    }
                    let who = Who { warp: env.id, lane: i as u32, pc };
                    env.shadow.access(place, 8, Access::WRITE, false, who).map_err(fault)?;
                    env.objects.insert(place);
                    let before = get(&env.shared[place.0].data, place.1, 8);
                    put(&mut env.shared[place.0].data, place.1, 8, new);
                    before
                }
                SyncsOp::Plain | SyncsOp::PlainCopies => 0,
                SyncsOp::Invalidate => {
                    if !env.objects.remove(&place) {
                        let message = "there is no initialised barrier here";
                        return Err(stop(FaultKind::BarrierMisuse, message, 1 << i, pc));
                    }
                    0
                }
                SyncsOp::Arrive { count, bytes, drop } => {
                    let n = |c: Count| match c {
                        Count::None => 0,
                        Count::One => 1,
                        Count::Register => low[i] as i64,
                        Count::Negative => -(low[i] as i64),
                    };
                    let (count, bytes) = (n(count), n(bytes));
                    if count != 0 {
                        env.shadow.arrive(place, env.id);
                    }
                    self.change(env, here, |o| {
                        o.expect(bytes)?;
                        if count != 0 { o.arrive(count as u32, drop) } else { Ok(()) }
                    })?
                }
                SyncsOp::Check => {
                    let who = Who { warp: env.id, lane: i as u32, pc };
                    env.shadow.access(place, 8, Access::READ.strong(true), false, who).map_err(fault)?;
                    if !env.objects.contains(&place) {
                        let message = "there is no initialised barrier here";
                        return Err(stop(FaultKind::BarrierMisuse, message, 1 << i, pc));
                    }
                    let phase = get(&env.shared[place.0].data, place.1, 8);
                    if phase >> 63 != (low[i] >> 31) as u64 {
                        yes |= 1 << i;
                        env.shadow.pass(place, env.id).map_err(fault)?;
                    }
                    phase
                }
                SyncsOp::Copies { arrives } => {
                    for piece in self.copies.take() {
                        env.shadow.complete_on(place, piece);
                    }
                    env.shadow.arrive(place, env.id);
                    self.change(env, here, |o| if arrives { o.arrive(1, false) } else { o.expect(-1) })?
                }
            };
            (out[0][i], out[1][i]) = (before as u32, (before >> 32) as u32);
        }
        if let SyncsOp::Arrive { .. } = x.what
            && x.mask
        {
            // The lanes that arrived at one object, and its state before the first.
            let state = out[1];
            for i in lanes(m) {
                let same = lanes(m).filter(|&j| at[j] == at[i]).fold(0u32, |r, j| r | 1 << j);
                (out[0][i], out[1][i]) = (same, state[same.trailing_zeros() as usize]);
            }
        }
        if let SyncsOp::Check = x.what {
            self.put_pred(x.p, m, yes);
        } else {
            self.put(x.d, m, &out[0]);
            self.put(x.d.next(1), m, &out[1]);
        }
        Ok(())
    }

    /// Before sm_90 plain stores make an object, and plain loads look at it: bits 29:0 hold 2^30 minus the arrivals of a phase,
    /// bits 62:32 2^31 minus those that are missing, bit 63 is the parity of the phase, into which the last arrival carries.
    fn plain_arrival(&mut self, env: &mut Env<'_>, pc: u32, x: &Syncs, m: u32) -> Res<()> {
        let at = self.address(env.p, &x.addr);
        let mut out = [[0u32; 32]; 2];
        for i in lanes(m) {
            let fault = |e| memory(e, i, pc);
            let place = self.here(env, at[i], 8).map_err(fault)?;
            let who = Who { warp: env.id, lane: i as u32, pc };
            env.shadow.access(place, 8, Access::ATOMIC, false, who).map_err(fault)?;
            env.objects.insert(place);
            let copies = x.what == SyncsOp::PlainCopies;
            // The warp's copies are those of all its lanes: they complete with the last of them that arrives.
            if copies && i == 31 - m.leading_zeros() as usize {
                for piece in self.copies.take() {
                    env.shadow.complete_on(place, piece);
                }
            }
            env.shadow.arrive(place, env.id);
            let before = get(&env.shared[place.0].data, place.1, 8);
            let (low, mut high) = (before as u32, (before >> 32) as u32);
            if high & 0x7fff_ffff == 0 || low >> 30 != 0 {
                return Err(stop(FaultKind::BarrierMisuse, "there is no initialised barrier here", 1 << i, pc));
            }
            high = high.wrapping_add(1);
            if high & 0x7fff_ffff == 0 {
                high |= 0x4000_0000 + (low & 0x3fff_ffff);
                env.shadow.phase_ends(place);
            }
            put(&mut env.shared[place.0].data, place.1, 8, low as u64 | (high as u64) << 32);
            (out[0][i], out[1][i]) = (before as u32, (before >> 32) as u32);
        }
        self.put(x.d, m, &out[0]);
        self.put(x.d.next(1), m, &out[1]);
        Ok(())
    }

    /// `UBLKCP`, `UBLKRED`: the bytes are copied at once, but those to shared memory count as under way until the phase of
    /// their barrier ends.
    pub(super) fn bulk(&mut self, env: &mut Env<'_>, pc: u32, x: &BulkCopy, m: u32) -> Res<()> {
        let i = m.trailing_zeros() as usize;
        let word = |w: &Warp, s: Src| w.src(env.p, s)[i];
        let [to, done] = x.to.map(|s| word(self, s));
        let [from, from_high] = x.from.map(|s| word(self, s));
        let size = word(self, x.size);
        let (size, mask) = ((size & 0xffff) * 16, size >> 16);
        let fault = |e| memory(e, i, pc);
        let mut data = vec![0u8; size as usize];
        if size == 0 {
            return Ok(());
        }
        if x.from_shared {
            let place = self.here(env, from as u64, size).map_err(fault)?;
            env.shadow.proxy_reads(place, size, env.id).map_err(fault)?;
            data.copy_from_slice(&env.shared[place.0].data[place.1..][..size as usize]);
        } else {
            let a = from as u64 | (from_high as u64) << 32;
            check_aligned(a, 16, "global").map_err(fault)?;
            env.global.read(a, &mut data).map_err(fault)?;
        }
        if !x.to_shared {
            let a = to as u64 | (done as u64) << 32;
            check_aligned(a, 16, "global").map_err(fault)?;
            if let Some((f, bytes)) = &x.reduce {
                let mut old = vec![0u8; size as usize];
                env.global.read(a, &mut old).map_err(fault)?;
                combine(&mut old, &data, f, *bytes as usize);
                data = old;
            }
            return env.global.write(a, &data).map_err(fault);
        }
        let targets: Vec<(u32, u32)> = match x.multicast {
            true => (0..16)
                .filter(|r| mask >> r & 1 != 0)
                .map(|r| ((to & 0xff_ffff) | r << 24, (done & 0xff_ffff) | r << 24))
                .collect(),
            false => vec![(to, done)],
        };
        for (to, done) in targets {
            let place = self.here(env, to as u64, size).map_err(fault)?;
            let object = self.here(env, done as u64, 8).map_err(fault)?;
            let who = Who { warp: env.id, lane: i as u32, pc };
            let target = &mut env.shared[place.0].data[place.1..][..size as usize];
            if let Some((f, bytes)) = &x.reduce {
                combine(target, &data, f, *bytes as usize);
            } else {
                target.copy_from_slice(&data);
                env.shadow.start(place, size, who).map_err(fault)?;
                env.shadow.started_by_proxy(place, size);
                env.shadow.complete_on(object, Piece { place, size, who });
            }
            self.change(env, (done as u64, i, pc), |o| o.expect(-(size as i64)))?;
        }
        Ok(())
    }

    /// `STAS`, `REDAS`: the register behind the address is the barrier.
    pub(super) fn async_store(&mut self, env: &mut Env<'_>, pc: u32, x: &AsyncStore, m: u32) -> Res<()> {
        let (to, done) = (*self.src(env.p, x.to[0]), *self.src(env.p, x.to[1]));
        let size = x.size as u32;
        for i in lanes(m) {
            let fault = |e| memory(e, i, pc);
            let place = self.here(env, to[i].wrapping_add(x.offset as u32) as u64, size).map_err(fault)?;
            let who = Who { warp: env.id, lane: i as u32, pc };
            let mut data = [0u8; 16];
            for (k, &s) in x.s.iter().enumerate() {
                data[4 * k..4 * k + 4].copy_from_slice(&self.src(env.p, s)[i].to_le_bytes());
            }
            let data = &data[..size as usize];
            let target = place.1..place.1 + size as usize;
            if let Some(f) = &x.reduce {
                env.shadow.access(place, size, Access::ATOMIC, false, who).map_err(fault)?;
                combine(&mut env.shared[place.0].data[target], data, f, size as usize);
            } else {
                env.shared[place.0].data[target].copy_from_slice(data);
                env.shadow.start(place, size, who).map_err(fault)?;
                env.shadow.started_by_proxy(place, size);
                let object = self.here(env, done[i] as u64, 8).map_err(fault)?;
                env.shadow.complete_on(object, Piece { place, size, who });
            }
            self.change(env, (done[i] as u64, i, pc), |o| o.expect(-(size as i64)))?;
        }
        Ok(())
    }
}

pub(super) fn combine(to: &mut [u8], from: &[u8], f: &AtomFn, bytes: usize) {
    for (to, from) in to.chunks_mut(bytes).zip(from.chunks(bytes)) {
        let new = f(get(to, 0, bytes as u32), get(from, 0, bytes as u32), 0);
        put(to, 0, bytes as u32, new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_as_the_vendors_code_makes_them() {
        // What its code for mbarrier.init with a count of 5 puts into memory.
        let half = 0x100000u64 - 5;
        let word = half << 1 | half << 11 << 32;
        let mut o = Object { pending: 5, expected: 5, bytes: 0, phase: false };
        assert_eq!((o.word(), Object::read(word)), (word, o));
        o.arrive(2, true).unwrap();
        o.expect(-64).unwrap();
        assert_eq!(Object::read(o.word()), Object { pending: 3, expected: 3, bytes: -64, phase: false });
        // And what it computes for mbarrier.pending_count from the upper half of a state.
        assert_eq!(0x100000 - ((o.word() >> 32) as u32 >> 11 & 0xfffff), 3);
        o.arrive(3, false).unwrap();
        assert!(!o.settle() && o.arrive(1, false).is_err());
        o.expect(64).unwrap();
        assert!(o.settle());
        assert_eq!(o, Object { pending: 3, expected: 3, bytes: 0, phase: true });
    }
}
