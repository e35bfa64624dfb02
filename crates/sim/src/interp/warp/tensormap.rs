//! Copies by tensor maps, and changes of tensor maps.

use super::mbarrier::transactions;
use super::memory::At;
use super::*;
use crate::interp::program::{MapReplace, TensorCopy, TensorMove};
use crate::memory::SHARED;
use crate::tensormap::{self, Run, TensorMap};

impl Warp {
    /// The map at a generic address.
    fn map(&self, env: &mut Env<'_>, at: u64, how: At) -> Res<TensorMap> {
        let fault = |e| memory(e, how.lane, how.pc);
        let (space, a) = resolve(Space::Generic, at);
        if !matches!(space, Space::Global | Space::Const | Space::Param) {
            let message = format!("a tensor map in {} memory", memory::name(space));
            return Err(stop(FaultKind::Unsupported, message, how.lane, how.pc));
        }
        check_aligned(a, tensormap::ALIGN, "tensor map").map_err(fault)?;
        if space == Space::Global {
            let id = self.id(env);
            env.shadow.map_used(a, id).map_err(fault)?;
        }
        let mut object = [0; tensormap::SIZE];
        for i in (0..tensormap::SIZE).step_by(8) {
            let v = self.load_lane(env, (space, a + i as u64), 8, At { align: 8, ..how }).map_err(fault)?;
            object[i..i + 8].copy_from_slice(&v.to_le_bytes());
        }
        TensorMap::read(&object).map_err(|m| stop(FaultKind::OutOfBounds, m, how.lane, how.pc))
    }

    pub(super) fn tensor_copy(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &TensorCopy, m: u32) -> Res<()> {
        self.need(env, depth, &[x.map], m, pc)?;
        self.need(env, depth, &x.coordinates, m, pc)?;
        self.need(env, depth, x.offsets.as_deref().unwrap_or_default(), m, pc)?;
        for lane in lanes(m) {
            let value = |w: &Warp, s: Slot| w.values(env.p, depth, s)[lane];
            let at: SmallVec<[i32; 5]> = x.coordinates.iter().map(|&s| value(self, s) as i32).collect();
            let offsets: Option<SmallVec<[u32; 3]>> =
                x.offsets.as_ref().map(|o| o.iter().map(|&s| value(self, s) as u32 & 0xffff).collect());
            let address = value(self, x.map);
            let how = At { depth, lane, pc, align: 1, strong: false };
            let map = self.map(env, address, how)?;
            let runs = map.runs(&at, offsets.as_deref()).map_err(|m| stop(FaultKind::Launch, m, lane, pc))?;
            match &x.what {
                TensorMove::Prefetch => {}
                TensorMove::Load { to, done, multicast } => {
                    let bit = 1 << lane;
                    let to = self.address(env, depth, pc, to, bit)?[lane];
                    let done = self.address(env, depth, pc, done, bit)?[lane];
                    let (to, done) = (resolve(Space::Generic, to).1, resolve(Space::Generic, done).1);
                    let mut targets: SmallVec<[(u64, u64); 16]> = smallvec![(to, done)];
                    if let Some(mask) = multicast {
                        self.need(env, depth, &[*mask], bit, pc)?;
                        let mask = self.values(env.p, depth, *mask)[lane];
                        let of = |a: u64, rank: u64| a & 0xff_ffff | rank << 24;
                        let ranks = (0..16).filter(|rank| mask >> rank & 1 != 0);
                        targets = ranks.map(|rank| (of(to, rank), of(done, rank))).collect();
                    }
                    self.tensor_load(env, how, &map, &runs, &targets)?;
                }
                TensorMove::Store { from, reduce } => {
                    let from = self.address(env, depth, pc, from, 1 << lane)?[lane];
                    let f = match reduce {
                        None => None,
                        Some(list) => match &list[map.ty as usize] {
                            Some(f) => Some(f),
                            None => {
                                let message = format!("this reduction of elements of the type {:?}", map.ty);
                                return Err(stop(FaultKind::Unsupported, message, lane, pc));
                            }
                        },
                    };
                    self.tensor_store(env, how, (&map, &runs), resolve(Space::Generic, from).1, f)?;
                }
            }
        }
        Ok(())
    }

    /// Where the box begins in shared memory: a multiple of 128.
    fn box_start(env: &Env<'_>, a: u64) -> Result<(usize, u64), MemFault> {
        check_aligned(a, 128, "shared")?;
        crate::memory::shared(env.shared, a)
    }

    fn tensor_load(
        &mut self,
        env: &mut Env<'_>,
        how: At,
        map: &TensorMap,
        runs: &[Run],
        targets: &[(u64, u64)],
    ) -> Res<()> {
        let (lane, pc) = (how.lane, how.pc);
        let fault = |e| memory(e, lane, pc);
        let size = map.ty.bytes();
        let mut content = Vec::with_capacity(runs.len());
        for r in runs {
            let mut bytes = [0u8; 16];
            match r.global {
                Some(a) => env.global.read(a, &mut bytes[..r.bytes as usize]).map_err(fault)?,
                None if map.nan => {
                    (0..r.bytes).step_by(size as usize).for_each(|i| put(&mut bytes, i as usize, size, map.ty.nan()));
                }
                None => {}
            }
            for i in (0..r.bytes as usize).step_by(size as usize) {
                let v = map.ty.loaded(get(&bytes, i, size));
                put(&mut bytes, i, size, v);
            }
            content.push(bytes);
        }
        for &(to, done) in targets {
            let (rank, start) = Self::box_start(env, to).map_err(fault)?;
            // In the order of addresses, what lies together at once.
            let place = |r: &Run| map.swizzle.place(start + r.shared);
            let mut order: Vec<usize> = (0..runs.len()).collect();
            order.sort_unstable_by_key(|&i| place(&runs[i]));
            let mut at = 0;
            while at < order.len() {
                let first = place(&runs[order[at]]);
                let mut data = Vec::new();
                while at < order.len() && place(&runs[order[at]]) == first + data.len() as u64 {
                    data.extend_from_slice(&content[order[at]][..runs[order[at]].bytes as usize]);
                    at += 1;
                }
                let to = first | (rank as u64) << 24;
                self.copy_in(env, (to, Some(done)), &data, (lane, pc))?;
            }
            let bytes = map.bytes() as i64;
            self.change(env, (SHARED | done, lane, pc), |o| transactions(o, -bytes))?;
        }
        Ok(())
    }

    fn tensor_store(
        &mut self,
        env: &mut Env<'_>,
        how: At,
        (map, runs): (&TensorMap, &[Run]),
        from: u64,
        f: Option<&AtomFn>,
    ) -> Res<()> {
        let (lane, pc) = (how.lane, how.pc);
        let fault = |e| memory(e, lane, pc);
        let (rank, start) = Self::box_start(env, from).map_err(fault)?;
        let size = map.ty.bytes();
        for r in runs {
            let Some(a) = r.global else { continue };
            let i = env.shared[rank].find(map.swizzle.place(start + r.shared), r.bytes, "shared").map_err(fault)?;
            env.shadow.proxy_reads((rank, i), r.bytes, self.id(env)).map_err(fault)?;
            env.shadow
                .access((rank, i), r.bytes, crate::shadow::Access::READ, false, self.who(env, lane, pc))
                .map_err(fault)?;
            let bytes = &env.shared[rank].data[i..i + r.bytes as usize];
            self.reads(lane, (rank, i), bytes);
            let Some(f) = f else {
                env.global.write(a, bytes).map_err(fault)?;
                continue;
            };
            for k in (0..r.bytes).step_by(size as usize) {
                let new = get(bytes, k as usize, size);
                let old = env.global.load(a + k as u64, size).map_err(fault)?;
                env.global.store(a + k as u64, size, f(old, new, 0)).map_err(fault)?;
            }
        }
        Ok(())
    }

    /// `tensormap.replace`: only the words that hold the field are touched.
    pub(super) fn map_replace(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &MapReplace, m: u32) -> Res<()> {
        self.need(env, depth, &[x.value], m, pc)?;
        let at = self.address(env, depth, pc, &x.addr, m)?;
        for lane in lanes(m) {
            let fault = |e| memory(e, lane, pc);
            let value = self.values(env.p, depth, x.value)[lane];
            let (mut zeros, mut ones) = ([0; tensormap::SIZE], [0xff; tensormap::SIZE]);
            for object in [&mut zeros, &mut ones] {
                tensormap::replace(object, x.field, value).map_err(|m| stop(FaultKind::OutOfBounds, m, lane, pc))?;
            }
            let (space, a) = resolve(x.space, at[lane]);
            check_aligned(a, tensormap::ALIGN, "tensor map").map_err(fault)?;
            let how = At { depth, lane, pc, align: 4, strong: false };
            if space == Space::Global {
                let who = self.who(env, lane, pc);
                env.shadow.map_changed(a, who, false);
            }
            for i in (0..tensormap::SIZE).step_by(4) {
                let (zero, one) = (get(&zeros, i, 4), get(&ones, i, 4));
                let kept = zero ^ one;
                if kept == 0xffff_ffff {
                    continue;
                }
                let place = (space, a + i as u64);
                let old = if kept != 0 { self.load_lane(env, place, 4, how).map_err(fault)? } else { 0 };
                self.store_lane(env, place, 4, how, old & kept | zero & !kept).map_err(fault)?;
            }
        }
        Ok(())
    }

    /// `tensormap.cp_fenceproxy`: the threads of a warp copy an object from shared to global memory.
    pub(super) fn map_copy(&mut self, env: &mut Env<'_>, first: usize, to: &Addr, from: &Addr) -> Res<()> {
        let (depth, pc) = self.together(first)?;
        let fault = |e| memory(e, first, pc);
        let to = self.address(env, depth, pc, to, u32::MAX)?;
        let from = self.address(env, depth, pc, from, u32::MAX)?;
        if let Some(lane) = (1..32).find(|&i| (to[i], from[i]) != (to[0], from[0])) {
            let message = "the threads of a warp give different addresses";
            return Err(stop(FaultKind::BarrierMisuse, message, lane, pc));
        }
        let how = At { depth, lane: first, pc, align: 8, strong: true };
        let ((ts, ta), (fs, fa)) = (resolve(Space::Generic, to[first]), resolve(Space::Shared, from[first]));
        check_aligned(ta, 128, "global").and(check_aligned(fa, 128, "shared")).map_err(fault)?;
        // It is a release.
        let who = self.who(env, first, pc);
        env.shadow.map_changed(ta, who, true);
        for i in (0..tensormap::SIZE as u64).step_by(8) {
            let v = self.load_lane(env, (fs, fa + i), 8, how).map_err(fault)?;
            self.store_lane(env, (ts, ta + i), 8, how, v).map_err(fault)?;
        }
        Ok(())
    }
}
