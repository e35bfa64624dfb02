//! What `tex` and `tld4` read: coordinates to texels, edges, filters, levels, faces of cubes.

use super::{Edge, Placed, Sampler, bad};
use crate::fault::MemFault;
use crate::memory::get;
use crate::view::Memory;

/// Where a fetch looks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At {
    /// Numbers of texels.
    Texel([i64; 3]),
    /// Coordinates; of a cube a direction.
    Point([f32; 3]),
}

/// How a fetch chooses the level.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lod {
    /// The first.
    Base,
    /// This one.
    Level(f32),
    /// By two gradients.
    Grad([[f32; 3]; 2]),
}

/// One fetch of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    /// Dimensions of the instruction: 1, 2, 3.
    pub dims: usize,
    /// It is for cubes; then `at` is a direction.
    pub cube: bool,
    /// The layer.
    pub layer: Option<u32>,
    /// The sample.
    pub sample: Option<u32>,
    /// Coordinates.
    pub at: At,
    /// Level.
    pub lod: Lod,
    /// Added to the texels' numbers.
    pub offset: [i32; 3],
    /// What every component is compared with.
    pub compare: Option<f32>,
}

/// What `tex` and `tld4` give: 32 bits a component, floats or integers as the format says.
pub(crate) type Texel = [u32; 4];

impl Placed {
    /// Address of a texel that is inside.
    pub(super) fn address(&self, level: u32, slice: u32, sample: u32, at: [i64; 3]) -> u64 {
        let [w, h, d] = self.array.level(level).map(|s| s.max(1) as u64);
        let plane = (slice * self.array.samples + sample) as u64;
        let n = ((plane * d + at[2] as u64) * h + at[1] as u64) * w + at[0] as u64;
        self.levels[level as usize] + n * self.array.texel() as u64
    }

    /// Does the instruction look at the array as it is?
    pub(super) fn fits(&self, dims: usize, cube: bool, layered: bool, sampled: bool) -> Result<(), MemFault> {
        let a = &self.array;
        let sides = if cube { 2 } else { dims };
        if a.dims() == sides && a.cube == cube && a.layers.is_some() == layered && (a.samples > 1) == sampled {
            return Ok(());
        }
        let name = |n: usize, cube: bool, layered: bool| {
            format!("{}{}", if layered { "a" } else { "" }, if cube { "cube".into() } else { format!("{n}d") })
        };
        Err(bad(format!(
            "the array '{}' is .{}, and the instruction is for .{}",
            a.name,
            name(a.dims(), a.cube, a.layers.is_some()),
            name(dims, cube, layered)
        )))
    }

    /// The components of a texel; those that the array lacks are 0, 0, 1.
    fn components(
        &self,
        mem: &mut Memory,
        level: u32,
        slice: u32,
        sample: u32,
        at: [i64; 3],
    ) -> Result<[f64; 4], MemFault> {
        let a = &self.array;
        let mut bytes = [0u8; 16];
        mem.read(self.address(level, slice, sample, at), &mut bytes[..a.texel() as usize])?;
        let each = a.format.bytes();
        let mut out = [0.0, 0.0, 0.0, 1.0];
        for (i, x) in out.iter_mut().enumerate().take(a.channels as usize) {
            *x = a.format.value(get(&bytes, i * each as usize, each));
        }
        Ok(out)
    }

    /// `tex`
    ///
    /// # Errors
    /// The array is not of the instruction's geometry.
    pub fn fetch(&self, mem: &mut Memory, s: &Sampler, f: &Fetch) -> Result<Texel, MemFault> {
        self.fits(f.dims, f.cube, f.layer.is_some(), f.sample.is_some())?;
        let (slice, at) = self.slice(f);
        let top = (self.array.levels - 1) as f32;
        let lod = match f.lod {
            Lod::Base => 0.0,
            Lod::Level(n) => n + s.bias,
            Lod::Grad(g) => {
                let size = self.array.level(0);
                let length = |v: [f32; 3]| {
                    let scaled = |i: usize| v[i] as f64 * if s.normalized { size[i].max(1) as f64 } else { 1.0 };
                    (0..f.dims).map(|i| scaled(i) * scaled(i)).sum::<f64>().sqrt()
                };
                libm::log2(length(g[0]).max(length(g[1]))) as f32 + s.bias
            }
        };
        let [low, high] = s.levels.unwrap_or([0.0, top]);
        let lod = if lod.is_nan() { 0.0 } else { lod.max(low).min(high).max(0.0).min(top) };
        let sample = f.sample.unwrap_or(0).min(self.array.samples - 1);
        let mut one = |level: f32| self.filtered(mem, s, f, (level as u32, slice, sample), at);
        let sum = if s.linear_levels {
            let part = fixed(lod.fract() as f64);
            let (a, b) = (one(lod.floor())?, if part > 0.0 { one(lod.floor() + 1.0)? } else { [0.0; 4] });
            std::array::from_fn(|i| if part > 0.0 { (1.0 - part) * a[i] + part * b[i] } else { a[i] })
        } else {
            one((lod + 0.5).floor().min(top))?
        };
        Ok(self.words(sum))
    }

    /// `tld4`: component `c` of the four texels that a linear filter would weigh: lower left, lower right, upper right, upper
    /// left (where y grows downward).
    ///
    /// # Errors
    /// As [`Placed::fetch`].
    pub fn gather(&self, mem: &mut Memory, s: &Sampler, f: &Fetch, c: usize) -> Result<Texel, MemFault> {
        self.fits(f.dims, f.cube, f.layer.is_some(), f.sample.is_some())?;
        let (slice, at) = self.slice(f);
        let At::Point(p) = at else { return Err(bad("tld4 with whole coordinates")) };
        let size = self.array.level(0);
        let first: [i64; 3] = std::array::from_fn(|i| {
            let x = p[i] as f64 * if s.normalized || f.cube { size[i].max(1) as f64 } else { 1.0 };
            whole(x - 0.5) + f.offset[i] as i64
        });
        let mut out = [0; 4];
        for (k, (x, y)) in [(0, 1), (1, 1), (1, 0), (0, 0)].into_iter().enumerate() {
            let v = self.edged(mem, s, f, (0, slice, 0), [first[0] + x, first[1] + y, 0])?;
            out[k] = self.words(v)[c];
        }
        Ok(out)
    }

    /// Layer and face as one number, and the coordinates in it.
    fn slice(&self, f: &Fetch) -> (u32, At) {
        let layer = f.layer.unwrap_or(0).min(self.array.layers.unwrap_or(1) - 1);
        match (f.cube, f.at) {
            (true, At::Point(p)) => {
                let (face, [x, y]) = face(p);
                (6 * layer + face, At::Point([x, y, 0.0]))
            }
            (_, at) => (layer, at),
        }
    }

    fn words(&self, sum: [f64; 4]) -> Texel {
        sum.map(|x| match self.array.format {
            f if f.is_integer() => x as i64 as u32,
            _ => crate::num::fp::canon32(x as f32),
        })
    }

    /// The value at coordinates in one level.
    fn filtered(
        &self,
        mem: &mut Memory,
        s: &Sampler,
        f: &Fetch,
        (level, slice, sample): (u32, u32, u32),
        at: At,
    ) -> Result<[f64; 4], MemFault> {
        let size = self.array.level(level);
        let sides = if f.cube { 2 } else { f.dims };
        let moved = |n: [i64; 3]| -> [i64; 3] {
            std::array::from_fn(|i| if i < sides { n[i] + f.offset[i] as i64 } else { 0 })
        };
        let p = match at {
            At::Texel(n) => return self.edged(mem, s, f, (level, slice, sample), moved(n)),
            At::Point(p) => p,
        };
        let scale = |i: usize| p[i] as f64 * if s.normalized || f.cube { size[i].max(1) as f64 } else { 1.0 };
        if !s.linear {
            let n = moved(std::array::from_fn(|i| whole(scale(i))));
            return self.edged(mem, s, f, (level, slice, sample), n);
        }
        let (mut first, mut part) = ([0i64; 3], [0f64; 3]);
        for i in 0..sides {
            let x = scale(i) - 0.5;
            first[i] = whole(x);
            part[i] = fixed((x - x.floor()).max(0.0));
        }
        let mut sum = [0.0; 4];
        for corner in 0..1i64 << sides {
            let at: [i64; 3] = std::array::from_fn(|i| first[i] + (corner >> i & 1));
            let weight: f64 = (0..sides).map(|i| if corner >> i & 1 != 0 { part[i] } else { 1.0 - part[i] }).product();
            if weight > 0.0 {
                let v = self.edged(mem, s, f, (level, slice, sample), moved(at))?;
                (0..4).for_each(|c| sum[c] += weight * v[c]);
            }
        }
        Ok(sum)
    }

    /// The texel of a number that may be beyond the edges.
    fn edged(
        &self,
        mem: &mut Memory,
        s: &Sampler,
        f: &Fetch,
        (level, slice, sample): (u32, u32, u32),
        mut at: [i64; 3],
    ) -> Result<[f64; 4], MemFault> {
        let size = self.array.level(level);
        for i in 0..3 {
            let n = size[i].max(1) as i64;
            let edge = match s.edge[i] {
                _ if f.cube => Edge::Clamp,
                // Repetition is for normalised coordinates only.
                Edge::Wrap | Edge::Mirror if !s.normalized => Edge::Clamp,
                e => e,
            };
            at[i] = match edge {
                Edge::Wrap => at[i].rem_euclid(n),
                Edge::Mirror => {
                    let k = at[i].rem_euclid(2 * n);
                    if k < n { k } else { 2 * n - 1 - k }
                }
                Edge::Border if at[i] < 0 || at[i] >= n => {
                    return Ok(self.compared(s, f, s.border.map(|x| x as f64)));
                }
                _ => at[i].clamp(0, n - 1),
            };
        }
        Ok(self.compared(s, f, self.components(mem, level, slice, sample, at)?))
    }

    /// What comes of comparing components, where the fetch does.
    fn compared(&self, s: &Sampler, f: &Fetch, mut texel: [f64; 4]) -> [f64; 4] {
        if let Some(depth) = f.compare {
            for x in &mut texel[..self.array.channels as usize] {
                *x = s.compare.holds(depth as f64, *x) as u32 as f64;
            }
        }
        texel
    }
}

/// The whole part, far numbers cut.
fn whole(x: f64) -> i64 {
    // A NaN counts as 0.
    x.floor().clamp(-1e15, 1e15) as i64
}

/// A fraction in 1.8 fixed point.
fn fixed(x: f64) -> f64 {
    (x * 256.0 + 0.5).floor() / 256.0
}

/// Face of a cube that a direction meets, and the place on it, as the table of the CUDA programming guide has it.
fn face([x, y, z]: [f32; 3]) -> (u32, [f32; 2]) {
    let (a, b, c) = (x.abs(), y.abs(), z.abs());
    let (face, m, s, t) = if a >= b && a >= c {
        if x >= 0.0 { (0, x, -z, -y) } else { (1, -x, z, -y) }
    } else if b >= c {
        if y >= 0.0 { (2, y, x, z) } else { (3, -y, x, -z) }
    } else if z >= 0.0 {
        (4, z, x, -y)
    } else {
        (5, -z, -x, -y)
    };
    let on = |v: f32| if m == 0.0 { 0.5 } else { (v / m + 1.0) / 2.0 };
    (face, [on(s), on(t)])
}
