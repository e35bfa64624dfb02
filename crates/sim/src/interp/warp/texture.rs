//! Textures and surfaces.

use super::*;
use crate::interp::program::{LodFrom, SurfaceMove, SurfaceOp, TexelAddress, TextureOp};
use crate::num::soft::{F16, Round, from_f64};
use crate::texture::{At, Fetch, Format, Lod, Query, Sampler};
use ptx::types::ScalarType as T;

/// Coordinates of a lane: those of texels, layer, sample.
struct Place {
    at: [u64; 3],
    layer: Option<u32>,
    sample: Option<u32>,
}

impl Warp {
    fn place_of(&self, env: &Env<'_>, depth: usize, a: &TexelAddress, lane: usize) -> Place {
        let g = a.geometry;
        let mut c = a.coordinates.iter().map(|&s| self.values(env.p, depth, s)[lane]);
        let sample = g.samples.then(|| c.next().unwrap_or(0) as u32);
        let layer = g.layers.then(|| c.next().unwrap_or(0) as u32);
        Place { at: std::array::from_fn(|i| if i < g.dims { c.next().unwrap_or(0) } else { 0 }), layer, sample }
    }

    fn need_address(&self, env: &Env<'_>, depth: usize, pc: u32, a: &TexelAddress, m: u32) -> Res<()> {
        self.need(env, depth, &[a.object, a.sampler.unwrap_or(Slot(Slot::CONST))], m, pc)?;
        self.need(env, depth, &a.coordinates, m, pc)
    }

    /// `tex`, `tld4`
    pub(super) fn texture(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &TextureOp, m: u32) -> Res<()> {
        self.need_address(env, depth, pc, &x.at, m)?;
        self.need(env, depth, &x.offset, m, pc)?;
        self.need(env, depth, x.compare.as_slice(), m, pc)?;
        match &x.lod {
            LodFrom::Base => {}
            LodFrom::Level(s, _) => self.need(env, depth, &[*s], m, pc)?,
            LodFrom::Grad(a, b) => {
                self.need(env, depth, a, m, pc)?;
                self.need(env, depth, b, m, pc)?;
            }
        }
        let textures = env.textures;
        let mut out = [[0u64; 32]; 4];
        for lane in lanes(m) {
            let fault = |e| memory(e, lane, pc);
            let value = |s: Slot| self.values(env.p, depth, s)[lane];
            let float = |s: Slot| f32::from_bits(value(s) as u32);
            let object = value(x.at.object);
            let array = textures.array(object).map_err(fault)?;
            // Whole coordinates need no sampler: numbers of texels, the nearest at the edges.
            let plain = Sampler::default();
            let sampler = match x.at.sampler {
                Some(s) => textures.sampler(value(s)).map_err(fault)?,
                None if x.whole => textures.sampler(object).unwrap_or(&plain),
                None => textures.sampler(object).map_err(fault)?,
            };
            let integers = array.array.format.is_integer();
            let wants = matches!(x.ty, T::U32 | T::S32);
            if integers != wants {
                let message = format!(
                    "the texels of '{}' are {}, and the instruction reads .{:?}",
                    array.array.name,
                    if integers { "integers" } else { "floats" },
                    x.ty
                );
                return Err(stop(FaultKind::Launch, message, lane, pc));
            }
            let p = self.place_of(env, depth, &x.at, lane);
            let vector =
                |list: &[Slot]| -> [f32; 3] { std::array::from_fn(|i| list.get(i).map_or(0.0, |&s| float(s))) };
            let f = Fetch {
                dims: x.at.geometry.dims,
                cube: x.at.geometry.cube,
                layer: p.layer,
                sample: p.sample,
                at: match x.whole {
                    true => At::Texel(p.at.map(|n| n as u32 as i32 as i64)),
                    false => At::Point(p.at.map(|n| f32::from_bits(n as u32))),
                },
                lod: match &x.lod {
                    LodFrom::Base => Lod::Base,
                    LodFrom::Level(s, true) => Lod::Level(float(*s)),
                    LodFrom::Level(s, false) => Lod::Level(value(*s) as u32 as i32 as f32),
                    LodFrom::Grad(a, b) => Lod::Grad([vector(a), vector(b)]),
                },
                offset: std::array::from_fn(|i| x.offset.get(i).map_or(0, |&s| value(s) as u32 as i32)),
                compare: x.compare.map(float),
            };
            let texel = match x.gather {
                None => array.fetch(env.global, sampler, &f),
                Some(c) => array.gather(env.global, sampler, &f, c),
            }
            .map_err(fault)?;
            let half = |i: usize| from_f64(&F16, f32::from_bits(texel[i]) as f64, Round::Rn) & 0xffff;
            for (i, out) in out.iter_mut().enumerate().take(x.d.len()) {
                out[lane] = match x.ty {
                    T::F16 => half(i),
                    T::F16x2 => half(2 * i) | half(2 * i + 1) << 16,
                    _ => texel[i] as u64,
                };
            }
        }
        for (&slot, out) in x.d.iter().zip(&out) {
            self.put(depth, slot, m, out);
        }
        // All texels are there.
        self.put_pred(depth, x.p, m, u32::MAX);
        Ok(())
    }

    /// `suld`, `sust`, `sured`
    pub(super) fn surface(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &SurfaceOp, m: u32) -> Res<()> {
        self.need_address(env, depth, pc, &x.at, m)?;
        let n = match &x.what {
            SurfaceMove::Load(d) => d.len(),
            SurfaceMove::Store(s) | SurfaceMove::Reduce(s, _) => {
                self.need(env, depth, s, m, pc)?;
                s.len()
            }
        } as u32;
        let size = x.size as u32;
        let textures = env.textures;
        let mut out = [[0u64; 32]; 4];
        for lane in lanes(m) {
            let fault = |e| memory(e, lane, pc);
            let array = textures.array(self.values(env.p, depth, x.at.object)[lane]).map_err(fault)?;
            let p = self.place_of(env, depth, &x.at, lane);
            let g = x.at.geometry;
            let layer = p.layer.map(|l| l as i32 as i64);
            let at = p.at.map(|c| c as u32 as i32 as i64);
            // Reductions address whole words, formatted accesses texels.
            let bytes = (!x.formatted).then_some(size * n);
            let Some(a) = array.surface((g.dims, layer), at, bytes, x.beyond).map_err(fault)? else { continue };
            match &x.what {
                SurfaceMove::Load(_) => {
                    for (i, out) in out.iter_mut().enumerate().take(n as usize) {
                        out[lane] = env.global.load(a + (i as u32 * size) as u64, size).map_err(fault)?;
                    }
                }
                SurfaceMove::Store(s) if x.formatted => {
                    let words: SmallVec<[u32; 4]> =
                        s.iter().map(|&s| self.values(env.p, depth, s)[lane] as u32).collect();
                    array.put_texel(env.global, a, &words).map_err(fault)?;
                }
                SurfaceMove::Store(s) => {
                    for (i, &s) in s.iter().enumerate() {
                        let v = self.values(env.p, depth, s)[lane];
                        env.global.store(a + (i as u32 * size) as u64, size, v).map_err(fault)?;
                    }
                }
                SurfaceMove::Reduce(s, f) => {
                    let old = env.global.load(a, size).map_err(fault)?;
                    // Bit-sized operands are of the kind of the surface's texels.
                    let signed = matches!(array.array.format, Format::S8 | Format::S16 | Format::S32);
                    let new = f[signed as usize](old, self.values(env.p, depth, s[0])[lane], 0);
                    env.global.store(a, size, new).map_err(fault)?;
                }
            }
        }
        if let SurfaceMove::Load(d) = &x.what {
            for (&slot, out) in d.iter().zip(&out) {
                self.put(depth, slot, m, out);
            }
        }
        Ok(())
    }

    /// `txq`, `suq`
    pub(super) fn texture_query(
        &mut self,
        env: &Env<'_>,
        (depth, pc): (usize, u32),
        (d, object, level, query): (Slot, Slot, Slot, Query),
        m: u32,
    ) -> Res<()> {
        self.need(env, depth, &[object, level], m, pc)?;
        let mut out = [0; 32];
        for lane in lanes(m) {
            let value = |s: Slot| self.values(env.p, depth, s)[lane];
            let answer = env.textures.query(value(object), query, value(level) as u32);
            out[lane] = answer.map_err(|e| memory(e, lane, pc))? as u64;
        }
        self.put(depth, d, m, &out);
        Ok(())
    }
}
