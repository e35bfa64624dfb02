//! Textures and surfaces.

use super::*;
use crate::num::soft::{F16, from_f64};
use crate::texture::{At, Fetch, Format, Lod, Query, Sampler};
use smallvec::SmallVec;

/// Offsets with a sign, of so many bits, so many apart.
fn offsets(word: u32, bits: u32, apart: u32) -> [i32; 3] {
    let unused = 32 - bits;
    std::array::from_fn(|i| (word >> (i as u32 * apart) << unused) as i32 >> unused)
}

impl Warp {
    fn register(&self, r: u8, lane: usize) -> u32 {
        if r == 255 { 0 } else { self.r.0[r as usize][lane] }
    }

    /// The words of the handle that a lane uses.
    fn handle(&self, p: &Program, from: HandleFrom, lane: usize) -> [u32; 2] {
        match from {
            HandleFrom::Words(words) => words.map(|s| self.src(p, s)[lane]),
            HandleFrom::Register(r) => [self.register(r, lane), 0],
        }
    }

    pub(super) fn texture(&mut self, env: &mut Env<'_>, pc: u32, x: &TextureOp, m: u32) -> Res<()> {
        if x.what == TextureWhat::Sizes {
            return self.texture_sizes(env, pc, x, m);
        }
        let whole = x.what == TextureWhat::Load;
        let mut out = [[0u32; 32]; 4];
        for lane in lanes(m) {
            let fault = |e| memory(e, lane, pc);
            let float = |r: u8, lane: usize| f32::from_bits(self.register(r, lane));
            let words = self.handle(env.p, x.handle, lane);
            let (array, sampler) = env.textures.named(words).map_err(fault)?;
            let plain = Sampler::default();
            let sampler = match sampler {
                Some(s) => s,
                None if whole => &plain,
                None => {
                    let e = MemFault::new(
                        FaultKind::OutOfBounds,
                        format!("{:#x} is no handle of a texture with a sampler", words[0]),
                    );
                    return Err(fault(e));
                }
            };
            let point = |lane: usize| -> [f32; 3] { x.coordinates.map(|r| float(r, lane)) };
            // A row is also fetched as the first row of a plane.
            let row = x.dims == 2 && array.array.dims() == 1 && !whole;
            let lod = match x.level {
                _ if x.what == TextureWhat::Gradients => Lod::Grad(x.slopes.map(|s| s.map(|r| float(r, lane)))),
                LevelFrom::Zero => Lod::Base,
                LevelFrom::Register(r) if whole => Lod::Level(self.register(r, lane) as i32 as f32),
                LevelFrom::Register(r) => Lod::Level(float(r, lane)),
                LevelFrom::Quad => {
                    // The first lane of a quad, the one beside it and the one below it.
                    let first = lane & !3;
                    if m >> first & 7 != 7 {
                        let message = "the level is chosen by a quad of lanes of which not all run";
                        return Err(stop(FaultKind::BarrierMisuse, message, 1 << lane, pc));
                    }
                    let [o, a, b] = [0, 1, 2].map(|k| point(first + k));
                    Lod::Grad([a, b].map(|p| std::array::from_fn(|i| p[i] - o[i])))
                }
            };
            let offset = match (x.offset, x.what) {
                (None, _) => [0; 3],
                (Some(r), TextureWhat::Gather(_)) => offsets(self.register(r, lane), 6, 8),
                (Some(r), TextureWhat::Gradients) => offsets(self.register(r, lane) >> 16, 4, 4),
                (Some(r), _) => offsets(self.register(r, lane), 4, 4),
            };
            let f = Fetch {
                dims: if row { 1 } else { x.dims },
                cube: x.cube,
                layer: x.layer.map(|r| self.register(r, lane) & 0xffff),
                sample: x.sample.map(|r| self.register(r, lane)),
                at: match whole {
                    true => At::Texel(x.coordinates.map(|r| self.register(r, lane) as i32 as i64)),
                    false => At::Point(point(lane)),
                },
                lod,
                offset,
                compare: x.compare.map(|r| float(r, lane)),
            };
            let got = match x.what {
                TextureWhat::Gather(c) => array.gather(env.global, sampler, &f, c),
                _ => array.fetch(env.global, sampler, &f),
            }
            .map_err(fault)?;
            let wanted: SmallVec<[u32; 4]> = (0..4).filter(|c| x.mask >> c & 1 != 0).map(|c| got[c]).collect();
            for (k, &value) in wanted.iter().enumerate() {
                match x.half {
                    None => out[k][lane] = value,
                    Some(round) => {
                        let half = from_f64(&F16, f32::from_bits(value) as f64, round) as u32 & 0xffff;
                        // Two in a register.
                        out[2 * (k / 2)][lane] |= half << (16 * (k % 2));
                    }
                }
            }
        }
        let count = x.mask.count_ones() as usize;
        for k in (0..count).filter(|k| x.half.is_none() || k % 2 == 0) {
            self.put(gpr(x.d[k / 2], k % 2), m, &out[k]);
        }
        // The predicate tells of texels that are not there.
        self.put_pred(x.p, m, 0);
        Ok(())
    }

    /// `TXQ.TEX_HEADER_DIMENSION`: width, height, depth of a level, and how many levels there are.
    fn texture_sizes(&mut self, env: &mut Env<'_>, pc: u32, x: &TextureOp, m: u32) -> Res<()> {
        let LevelFrom::Register(level) = x.level else { return Ok(()) };
        let mut out = [[0u32; 32]; 4];
        for lane in lanes(m) {
            let words = self.handle(env.p, x.handle, lane);
            let (array, _) = env.textures.named(words).map_err(|e| memory(e, lane, pc))?;
            let level = self.register(level, lane);
            let all = [Query::Width, Query::Height, Query::Depth, Query::Levels];
            let wanted = (0..4).filter(|c| x.mask >> c & 1 != 0).map(|c| array.array.answer(all[c], level));
            wanted.enumerate().for_each(|(k, v)| out[k][lane] = v);
        }
        for k in 0..x.mask.count_ones() as usize {
            self.put(gpr(x.d[k / 2], k % 2), m, &out[k]);
        }
        Ok(())
    }

    pub(super) fn surface(&mut self, env: &mut Env<'_>, pc: u32, x: &SurfaceOp, m: u32) -> Res<()> {
        let size = x.size as u32;
        let count = size.div_ceil(4) as usize;
        let mut out = [[0u32; 32]; 4];
        for lane in lanes(m) {
            let fault = |e| memory(e, lane, pc);
            let handle = self.src(env.p, x.handle)[lane];
            let (array, _) = env.textures.named([handle, 0]).map_err(fault)?;
            let word = |k: usize| self.register(x.a.saturating_add(k as u8), lane) as i32 as i64;
            let at = std::array::from_fn(|i| if i < x.dims { word(i) } else { 0 });
            let layer = x.layered.then(|| word(x.dims));
            let bytes = x.by_bytes.then_some(size);
            let Some(a) = array.surface((x.dims, layer), at, bytes, x.beyond).map_err(fault)? else { continue };
            match &x.what {
                SurfaceWhat::Load { sign, .. } => {
                    let mut data = [0u8; 16];
                    env.global.read(a, &mut data[..size as usize]).map_err(fault)?;
                    for (k, out) in out[..count].iter_mut().enumerate() {
                        let v = get(&data, 4 * k, size.min(4)) as u32;
                        let unused = 32 - 8 * size.min(4);
                        out[lane] = if *sign { ((v << unused) as i32 >> unused) as u32 } else { v };
                    }
                }
                SurfaceWhat::Store { s } => {
                    let words: SmallVec<[u32; 4]> = s.iter().map(|&s| self.src(env.p, s)[lane]).collect();
                    if x.formatted {
                        array.put_texel(env.global, a, &words).map_err(fault)?;
                    } else {
                        let mut data = [0u8; 16];
                        words.iter().enumerate().for_each(|(k, &w)| put(&mut data, 4 * k, 4, w as u64));
                        env.global.write(a, &data[..size as usize]).map_err(fault)?;
                    }
                }
                SurfaceWhat::Reduce { s, f } => {
                    let [low, high] = s.map(|s| self.src(env.p, s)[lane] as u64);
                    let old = env.global.load(a, size).map_err(fault)?;
                    let signed = matches!(array.array.format, Format::S8 | Format::S16 | Format::S32);
                    let new = f[signed as usize](old, low | high << 32, 0);
                    env.global.store(a, size, new).map_err(fault)?;
                }
            }
        }
        if let SurfaceWhat::Load { d, .. } = x.what {
            for (k, out) in out[..count].iter().enumerate() {
                self.put(gpr(d, k), m, out);
            }
        }
        Ok(())
    }
}
