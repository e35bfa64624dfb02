//! Textures and surfaces: arrays of texels, what a sampler does with coordinates, and the objects that name them. Data of
//! the world, read by both engines.
//!
//! The texels of an array lie in global memory, where no address of the kernel leads: first level first; in a level layer
//! (face) by layer, sample by sample, plane by plane, row by row without gaps. So what surfaces write is seen as other memory is.
//!
//! Filtering is that of the CUDA programming guide (appendix on texture fetching): coordinates of texels lie in their middles,
//! fractions have 8 bits behind the point, rounded to nearest. Weighted sums are made in double precision and rounded once to
//! single precision. What the guide leaves open is decided here: missing components read as 0, 0, 1; the faces of a cube
//! are filtered each by itself, with clamped edges; there is no anisotropic filtering; gradients choose the level by the base-2
//! logarithm of the longer one.
//!
//! A handle of an object is 64 bits: bits 0 to 19 number the texture or surface (from 1), bits 20 to 31 the sampler (from 1).
//! A texture object has both, a texture of the independent mode and a surface only the first, a sampler only the second.

use crate::fault::{FaultKind, MemFault};
use crate::memory::{Global, get, put};
use crate::num::soft::{F16, Round, from_f64, to_f64};
use crate::view::Memory;

/// Format of a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // bits and kind
pub enum Format {
    Unorm8,
    Unorm16,
    Snorm8,
    Snorm16,
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    #[default]
    F32,
}

impl Format {
    /// All, with their names in a launch file and their numbers of `channel_data_type` (those of OpenCL, as section 5.3 of the
    /// PTX ISA lists them).
    pub const ALL: [(Format, &'static str, u32); 12] = [
        (Format::Unorm8, "unorm8", 0x10d2),
        (Format::Unorm16, "unorm16", 0x10d3),
        (Format::Snorm8, "snorm8", 0x10d0),
        (Format::Snorm16, "snorm16", 0x10d1),
        (Format::U8, "u8", 0x10da),
        (Format::U16, "u16", 0x10db),
        (Format::U32, "u32", 0x10dc),
        (Format::S8, "s8", 0x10d7),
        (Format::S16, "s16", 0x10d8),
        (Format::S32, "s32", 0x10d9),
        (Format::F16, "f16", 0x10dd),
        (Format::F32, "f32", 0x10de),
    ];

    /// Bytes of a component.
    pub fn bytes(self) -> u32 {
        match self {
            Format::Unorm8 | Format::Snorm8 | Format::U8 | Format::S8 => 1,
            Format::U32 | Format::S32 | Format::F32 => 4,
            _ => 2,
        }
    }

    /// Reads as integers.
    pub fn is_integer(self) -> bool {
        matches!(self, Format::U8 | Format::U16 | Format::U32 | Format::S8 | Format::S16 | Format::S32)
    }

    /// The value of a component's bits; integers as they are.
    pub fn value(self, bits: u64) -> f64 {
        let signed = |n: u32| ((bits << (64 - n)) as i64 >> (64 - n)) as f64;
        match self {
            Format::Unorm8 => bits as f64 / 255.0,
            Format::Unorm16 => bits as f64 / 65535.0,
            Format::Snorm8 => (signed(8) / 127.0).max(-1.0),
            Format::Snorm16 => (signed(16) / 32767.0).max(-1.0),
            Format::U8 | Format::U16 | Format::U32 => bits as f64,
            Format::S8 => signed(8),
            Format::S16 => signed(16),
            Format::S32 => signed(32),
            Format::F16 => to_f64(&F16, bits),
            Format::F32 => f32::from_bits(bits as u32) as f64,
        }
    }

    /// The bits of a component that a formatted store of a 32-bit word leaves: floats are converted and saturated, integers
    /// are saturated.
    pub fn stored(self, word: u32) -> u64 {
        let f = f32::from_bits(word) as f64;
        let norm = |low: f64, max: f64| if f.is_nan() { 0 } else { (f.clamp(low, 1.0) * max).round_ties_even() as i64 };
        match self {
            Format::Unorm8 => norm(0.0, 255.0) as u64,
            Format::Unorm16 => norm(0.0, 65535.0) as u64,
            Format::Snorm8 => norm(-1.0, 127.0) as u64 & 0xff,
            Format::Snorm16 => norm(-1.0, 32767.0) as u64 & 0xffff,
            Format::U8 => word.min(0xff) as u64,
            Format::U16 => word.min(0xffff) as u64,
            Format::S8 => (word as i32).clamp(-128, 127) as u64 & 0xff,
            Format::S16 => (word as i32).clamp(-32768, 32767) as u64 & 0xffff,
            Format::F16 => from_f64(&F16, f, Round::Rn),
            Format::U32 | Format::S32 | Format::F32 => word as u64,
        }
    }
}

/// An array of texels, as a launch file gives it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Array {
    /// Its name.
    pub name: String,
    /// Width, height, depth; 0 for dimensions that it lacks.
    pub size: [u32; 3],
    /// Layers; `None` for an array without layers. A cube has six faces in each layer.
    pub layers: Option<u32>,
    /// The six faces of a cube.
    pub cube: bool,
    /// Levels of detail, each half as large as the one before.
    pub levels: u32,
    /// Samples of a texel.
    pub samples: u32,
    /// Components of a texel: 1, 2 or 4.
    pub channels: u32,
    /// Their format.
    pub format: Format,
    /// The texels.
    pub data: Vec<u8>,
    /// Where the texels after the launch shall be written.
    pub out: Option<String>,
}

impl Array {
    /// Size of a level.
    pub fn level(&self, n: u32) -> [u32; 3] {
        self.size.map(|s| if s == 0 { 0 } else { (s >> n.min(31)).max(1) })
    }

    /// Dimensions: 1, 2 or 3.
    pub fn dims(&self) -> usize {
        self.size.iter().filter(|&&s| s > 0).count().max(1)
    }

    /// Layers and faces.
    pub fn slices(&self) -> u32 {
        self.layers.unwrap_or(1) * if self.cube { 6 } else { 1 }
    }

    /// Bytes of a texel.
    pub fn texel(&self) -> u32 {
        self.channels * self.format.bytes()
    }

    /// Bytes of a level.
    pub fn level_bytes(&self, n: u32) -> u64 {
        let texels: u64 = self.level(n).iter().map(|&s| s.max(1) as u64).product();
        texels * self.slices() as u64 * self.samples as u64 * self.texel() as u64
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        (0..self.levels).map(|n| self.level_bytes(n)).sum()
    }

    /// Checks what no texture can be.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let [w, h, d] = self.size;
        let largest = self.size.into_iter().max().unwrap_or(0);
        if w == 0 || (h == 0 && d > 0) || largest > 1 << 17 {
            return Err(format!("an array of {w} x {h} x {d} texels"));
        }
        if self.cube && (w != h || d > 0) || self.layers.is_some() && d > 0 {
            return Err("a cube has square faces, and neither a cube nor an array with layers has a depth".into());
        }
        if self.layers.is_some_and(|n| n == 0 || n > 2048) {
            return Err("an array with layers has 1 to 2048 of them".into());
        }
        if ![1, 2, 4].contains(&self.channels) {
            return Err(format!("{} components a texel; 1, 2 and 4 are possible", self.channels));
        }
        if self.levels == 0 || self.levels > largest.ilog2() + 1 {
            return Err(format!("{} levels; 1 to {} are possible", self.levels, largest.ilog2() + 1));
        }
        if self.samples == 0 || self.samples > 16 || self.samples > 1 && (self.dims() != 2 || self.levels > 1) {
            return Err("1 to 16 samples are possible, more than one in two dimensions and one level only".into());
        }
        let bytes = self.bytes();
        if bytes > 1 << 30 {
            return Err(format!("an array of {bytes} bytes; at most 1 GiB are possible"));
        }
        if self.data.len() as u64 != bytes {
            return Err(format!("{} bytes of texels where the array has {bytes}", self.data.len()));
        }
        Ok(())
    }
}

/// What becomes of coordinates beyond an edge. The number is that of `addr_mode_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Edge {
    /// The array is repeated.
    Wrap = 0,
    /// It is repeated in mirror image.
    Mirror = 1,
    /// The nearest texel, halfway to the border's colour: treated as [`Edge::Clamp`].
    ClampOgl = 2,
    /// The nearest texel.
    #[default]
    Clamp = 3,
    /// The colour of the border.
    Border = 4,
}

/// How coordinates become texels.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sampler {
    /// By dimension.
    pub edge: [Edge; 3],
    /// Weighted sums of neighbours instead of the nearest.
    pub linear: bool,
    /// The same between levels.
    pub linear_levels: bool,
    /// Coordinates are from 0 to 1.
    pub normalized: bool,
    /// Colour beyond the border.
    pub border: [f32; 4],
    /// Added to the level.
    pub bias: f32,
    /// Lowest and highest level, where given.
    pub levels: Option<[f32; 2]>,
}

/// What a parameter or a reference names: arrays by their number in the launch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Object {
    /// A texture with its sampler.
    Texture(usize, Sampler),
    /// A surface.
    Surface(usize),
    /// A sampler of its own.
    Sampler(Sampler),
}

/// Bits of a handle that number the texture.
const TEXTURE_BITS: u32 = 20;

/// An array that lies in memory.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// Without its data.
    pub array: Array,
    /// Address of each level.
    pub levels: Vec<u64>,
    /// Address of the first level, where an allocation begins.
    pub base: u64,
}

/// All arrays and objects of a launch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Textures {
    pub arrays: Vec<Placed>,
    textures: Vec<usize>,
    samplers: Vec<Sampler>,
}

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
}

/// What `tex` and `tld4` give: 32 bits a component, floats or integers as the format says.
pub(crate) type Texel = [u32; 4];

/// What surfaces do beyond their edges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beyond {
    /// A fault.
    Trap,
    /// The nearest texel.
    Clamp,
    /// Loads give zero, stores do nothing.
    Zero,
}

/// A query of `txq`, `suq`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // named as in PTX
pub(crate) enum Query {
    Width,
    Height,
    Depth,
    ChannelType,
    ChannelOrder,
    Normalized,
    ForceUnnormalized,
    ArraySize,
    Levels,
    Samples,
    Filter,
    Edge(usize),
    MemoryLayout,
}

fn bad(message: impl Into<String>) -> MemFault {
    MemFault::new(FaultKind::OutOfBounds, message)
}

impl Textures {
    /// Puts arrays into memory.
    pub fn place(arrays: &[Array], global: &mut Global) -> Textures {
        let placed = arrays.iter().map(|a| {
            let base = global.alloc(a.data.clone(), 256, format!("array '{}'", a.name));
            let levels = (0..a.levels).map(|n| base + (0..n).map(|k| a.level_bytes(k)).sum::<u64>()).collect();
            Placed { array: Array { data: Vec::new(), ..a.clone() }, levels, base }
        });
        Textures { arrays: placed.collect(), ..Textures::default() }
    }

    /// The handle of an object.
    ///
    /// # Errors
    /// It names an array that there is not.
    pub fn handle(&mut self, o: &Object) -> Result<u64, String> {
        let (array, sampler) = match o {
            Object::Texture(a, s) => (Some(*a), Some(*s)),
            Object::Surface(a) => (Some(*a), None),
            Object::Sampler(s) => (None, Some(*s)),
        };
        let mut handle = 0;
        if let Some(a) = array {
            let array = &self.arrays.get(a).ok_or("an object names an array that there is not")?.array;
            if let Some(s) = &sampler
                && s.linear
                && array.format.is_integer()
            {
                return Err(format!("linear filtering of the integers of array '{}'", array.name));
            }
            self.textures.push(a);
            handle = self.textures.len() as u64;
        }
        if let Some(s) = sampler {
            self.samplers.push(s);
            handle |= (self.samplers.len() as u64) << TEXTURE_BITS;
        }
        Ok(handle)
    }

    /// The array of a texture or surface.
    ///
    /// # Errors
    /// It is no handle of one.
    pub fn array(&self, handle: u64) -> Result<&Placed, MemFault> {
        let n = handle & ((1 << TEXTURE_BITS) - 1);
        let array = (n as usize).checked_sub(1).and_then(|n| self.textures.get(n));
        match array {
            Some(&a) if handle >> 32 == 0 => Ok(&self.arrays[a]),
            _ => Err(bad(format!("{handle:#x} is no handle of a texture or surface"))),
        }
    }

    /// The sampler of a texture object or sampler.
    ///
    /// # Errors
    /// It is no handle of one.
    pub fn sampler(&self, handle: u64) -> Result<&Sampler, MemFault> {
        let n = (handle & 0xffff_ffff) >> TEXTURE_BITS;
        let sampler = (n as usize).checked_sub(1).and_then(|n| self.samplers.get(n));
        sampler.ok_or_else(|| bad(format!("{handle:#x} is no handle of a sampler")))
    }

    /// Answers a query about a handle; `level` for sizes.
    ///
    /// # Errors
    /// It is no handle of what is asked for.
    pub fn query(&self, handle: u64, query: Query, level: u32) -> Result<u32, MemFault> {
        if handle & ((1 << TEXTURE_BITS) - 1) == 0
            && matches!(query, Query::Filter | Query::Edge(_) | Query::ForceUnnormalized)
        {
            let s = self.sampler(handle)?;
            return Ok(match query {
                Query::Filter => s.linear as u32,
                Query::Edge(i) => s.edge[i] as u32,
                _ => !s.normalized as u32,
            });
        }
        let a = &self.array(handle)?.array;
        let size = a.level(level.min(a.levels - 1));
        Ok(match query {
            Query::Width => size[0],
            Query::Height => size[1],
            Query::Depth => size[2],
            Query::ChannelType => Format::ALL.iter().find(|f| f.0 == a.format).map_or(0, |f| f.2),
            Query::ChannelOrder => match a.channels {
                1 => 0x10b0,
                2 => 0x10b2,
                _ => 0x10b5,
            },
            Query::ArraySize => a.layers.unwrap_or(0),
            Query::Levels => a.levels,
            Query::Samples => a.samples,
            Query::MemoryLayout => 0,
            Query::Normalized => self.sampler(handle)?.normalized as u32,
            Query::ForceUnnormalized => !self.sampler(handle)?.normalized as u32,
            Query::Filter => self.sampler(handle)?.linear as u32,
            Query::Edge(i) => self.sampler(handle)?.edge[i] as u32,
        })
    }
}

impl Placed {
    /// Address of a texel that is inside.
    fn address(&self, level: u32, slice: u32, sample: u32, at: [i64; 3]) -> u64 {
        let [w, h, d] = self.array.level(level).map(|s| s.max(1) as u64);
        let plane = (slice * self.array.samples + sample) as u64;
        let n = ((plane * d + at[2] as u64) * h + at[1] as u64) * w + at[0] as u64;
        self.levels[level as usize] + n * self.array.texel() as u64
    }

    /// Does the instruction look at the array as it is?
    fn fits(&self, dims: usize, cube: bool, layered: bool, sampled: bool) -> Result<(), MemFault> {
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
            let v = self.edged(mem, s, f.cube, (0, slice, 0), [first[0] + x, first[1] + y, 0])?;
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
            At::Texel(n) => return self.edged(mem, s, f.cube, (level, slice, sample), moved(n)),
            At::Point(p) => p,
        };
        let scale = |i: usize| p[i] as f64 * if s.normalized || f.cube { size[i].max(1) as f64 } else { 1.0 };
        if !s.linear {
            let n = moved(std::array::from_fn(|i| whole(scale(i))));
            return self.edged(mem, s, f.cube, (level, slice, sample), n);
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
                let v = self.edged(mem, s, f.cube, (level, slice, sample), moved(at))?;
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
        cube: bool,
        (level, slice, sample): (u32, u32, u32),
        mut at: [i64; 3],
    ) -> Result<[f64; 4], MemFault> {
        let size = self.array.level(level);
        for i in 0..3 {
            let n = size[i].max(1) as i64;
            let edge = match s.edge[i] {
                _ if cube => Edge::Clamp,
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
                    let color = s.border.map(|x| x as f64);
                    return Ok(color);
                }
                _ => at[i].clamp(0, n - 1),
            };
        }
        self.components(mem, level, slice, sample, at)
    }

    /// Address of what a surface instruction accesses: `x` counts bytes if `bytes` is the size of the access, texels otherwise.
    /// `None` where nothing is to be accessed.
    ///
    /// # Errors
    /// Beyond the edges with [`Beyond::Trap`]; not aligned; another geometry.
    pub fn surface(
        &self,
        (dims, layer): (usize, Option<i64>),
        at: [i64; 3],
        bytes: Option<u32>,
        beyond: Beyond,
    ) -> Result<Option<u64>, MemFault> {
        let a = &self.array;
        // A cube is a surface with six layers.
        self.fits(dims, a.cube, layer.is_some() && (!a.cube || a.layers.is_some()), false)?;
        let texel = a.texel() as i64;
        let (mut at, mut layer) = (at, layer.unwrap_or(0));
        let within = bytes.map_or(0, |_| at[0].rem_euclid(texel));
        if let Some(n) = bytes {
            if at[0] % n as i64 != 0 {
                let message = format!("surface coordinate {} is not aligned to the {n} bytes of the access", at[0]);
                return Err(MemFault::new(FaultKind::Misaligned, message));
            }
            at[0] = at[0].div_euclid(texel);
        }
        let size: [i64; 3] = a.size.map(|s| s.max(1) as i64);
        let last = bytes.map_or(0, |n| (within + n as i64 - 1) / texel);
        let inside = (0..3).all(|i| at[i] >= 0 && at[i] < size[i]) && at[0] + last < size[0];
        let layers = a.slices() as i64;
        if !inside || layer < 0 || layer >= layers {
            match beyond {
                Beyond::Trap => {
                    let [x, y, z] = at;
                    return Err(bad(format!(
                        "texel ({x}, {y}, {z}), layer {layer} of the surface '{}' is outside",
                        a.name
                    )));
                }
                Beyond::Zero => return Ok(None),
                Beyond::Clamp => {
                    (0..3).for_each(|i| at[i] = at[i].clamp(0, size[i] - 1));
                    at[0] = at[0].min(size[0] - 1 - last);
                    layer = layer.clamp(0, layers - 1);
                }
            }
        }
        Ok(Some(self.address(0, layer as u32, 0, at) + within as u64))
    }

    /// `sust.p`: a texel of 32-bit words is converted to the format and stored; missing words are zero.
    ///
    /// # Errors
    /// None that a placed texel could cause.
    pub fn put_texel(&self, mem: &mut Memory, at: u64, words: &[u32]) -> Result<(), MemFault> {
        let each = self.array.format.bytes();
        let mut bytes = [0; 16];
        for i in 0..self.array.channels as usize {
            put(&mut bytes, i * each as usize, each, self.array.format.stored(words.get(i).copied().unwrap_or(0)));
        }
        mem.write(at, &bytes[..self.array.texel() as usize])
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

#[cfg(test)]
mod tests {
    use super::*;

    fn world(a: Array) -> (Textures, Memory) {
        a.check().unwrap();
        let mut g = Global::new();
        let t = Textures::place(&[a], &mut g);
        (t, Memory::Whole(g, 0))
    }

    fn floats(size: [u32; 3], n: u32) -> Array {
        let data = (0..n).flat_map(|x| (x as f32).to_le_bytes()).collect();
        Array { name: "a".into(), size, levels: 1, samples: 1, channels: 1, data, ..Array::default() }
    }

    fn at(x: f32, y: f32) -> Fetch {
        let at = At::Point([x, y, 0.0]);
        Fetch { dims: 2, cube: false, layer: None, sample: None, at, lod: Lod::Base, offset: [0; 3] }
    }

    /// 4 x 2 texels of values 0 to 7.
    #[test]
    fn nearest_and_linear() {
        let (t, mut m) = world(floats([4, 2, 0], 8));
        let a = &t.arrays[0];
        let mut get = |s: &Sampler, f: Fetch| f32::from_bits(a.fetch(&mut m, s, &f).unwrap()[0]);
        let near = Sampler::default();
        assert_eq!(get(&near, at(2.9, 1.5)), 6.0);
        assert_eq!(get(&near, at(-3.0, 9.0)), 4.0);
        let wrap = Sampler { normalized: true, edge: [Edge::Wrap; 3], ..near };
        assert_eq!(get(&wrap, at(1.3, -0.4)), 5.0);
        let mirror = Sampler { normalized: true, edge: [Edge::Mirror; 3], ..near };
        assert_eq!(get(&mirror, at(1.1, 0.0)), 3.0);
        let linear = Sampler { linear: true, edge: [Edge::Border; 3], border: [100.0; 4], ..near };
        // Halfway between 1, 2, 5, 6; then a quarter outside of the left edge: 3/4 of 0 and 1/4 of the border.
        assert_eq!(get(&linear, at(2.0, 1.0)), 3.5);
        assert_eq!(get(&linear, at(0.25, 0.5)), 25.0);
        // The fraction 1/512 is half a unit of 1/256 and rounds up.
        assert_eq!(get(&linear, at(1.5 + 1.0 / 512.0, 0.5)), 1.0 + 1.0 / 256.0);
        let moved = Fetch { offset: [1, -1, 0], ..at(1.5, 1.5) };
        assert_eq!(get(&near, moved), 2.0);
    }

    #[test]
    fn gathers_counter_clockwise() {
        let (t, mut m) = world(floats([4, 2, 0], 8));
        let got = t.arrays[0].gather(&mut m, &Sampler::default(), &at(2.0, 1.0), 0).unwrap();
        assert_eq!(got.map(f32::from_bits), [5.0, 6.0, 2.0, 1.0]);
    }

    #[test]
    fn levels() {
        // 4 + 2 + 1 texels of one row.
        let (t, mut m) = world(Array { levels: 3, ..floats([4, 0, 0], 7) });
        let a = &t.arrays[0];
        let mut get = |s: &Sampler, lod: Lod| {
            let f = Fetch { dims: 1, lod, ..at(0.6, 0.0) };
            f32::from_bits(a.fetch(&mut m, s, &f).unwrap()[0])
        };
        let near = Sampler { normalized: true, ..Sampler::default() };
        assert_eq!(get(&near, Lod::Base), 2.0);
        assert_eq!(get(&near, Lod::Level(0.6)), 5.0);
        assert_eq!(get(&near, Lod::Level(9.0)), 6.0);
        let both = Sampler { linear_levels: true, ..near };
        assert_eq!(get(&both, Lod::Level(1.25)), 5.25);
        // Two texels of the first level from one pixel to the next.
        assert_eq!(get(&near, Lod::Grad([[0.5, 0.0, 0.0], [0.1, 0.0, 0.0]])), 5.0);
    }

    #[test]
    fn cubes_and_layers() {
        let (t, mut m) = world(Array { cube: true, ..floats([1, 1, 0], 6) });
        let a = &t.arrays[0];
        for (n, p) in
            [[2., 1., 1.], [-2., 1., 1.], [1., 2., 1.], [1., -2., 1.], [1., 1., 2.], [1., 1., -2.]].iter().enumerate()
        {
            let f = Fetch { dims: 3, cube: true, at: At::Point(*p), ..at(0.0, 0.0) };
            let got = a.fetch(&mut m, &Sampler::default(), &f).unwrap()[0];
            assert_eq!(f32::from_bits(got), n as f32);
        }
        let (t, mut m) = world(Array { layers: Some(3), ..floats([2, 0, 0], 6) });
        for (layer, want) in [(0, 1.0), (2, 5.0), (7, 5.0)] {
            let f = Fetch { dims: 1, layer: Some(layer), at: At::Texel([1, 0, 0]), ..at(0.0, 0.0) };
            let got = t.arrays[0].fetch(&mut m, &Sampler::default(), &f).unwrap();
            assert_eq!(f32::from_bits(got[0]), want);
        }
        assert!(t.arrays[0].fetch(&mut m, &Sampler::default(), &at(0.0, 0.0)).is_err());
    }

    #[test]
    fn formats() {
        for (f, bits, value) in [
            (Format::Unorm8, 255, 1.0),
            (Format::Snorm8, 0x80, -1.0),
            (Format::Snorm16, 0x8001, -1.0),
            (Format::S8, 0xff, -1.0),
            (Format::U16, 0xffff, 65535.0),
            (Format::F16, 0x3e00, 1.5),
        ] {
            assert_eq!(f.value(bits), value, "{f:?}");
        }
        for (f, word, bits) in [
            (Format::Unorm8, 0.5f32.to_bits(), 128),
            (Format::Snorm8, (-2.0f32).to_bits(), 0x81),
            (Format::U8, 300, 255),
            (Format::S16, -40000i32 as u32, 0x8000),
            (Format::F16, 1.5f32.to_bits(), 0x3e00),
        ] {
            assert_eq!(f.stored(word), bits, "{f:?}");
        }
    }

    #[test]
    fn surfaces_and_handles() {
        let (mut t, mut m) = world(floats([4, 2, 0], 8));
        let h = t.handle(&Object::Surface(0)).unwrap();
        let a = t.array(h).unwrap().clone();
        let s = |x: i64, y: i64, bytes, beyond| a.surface((2, None), [x, y, 0], bytes, beyond);
        assert_eq!(s(8, 1, Some(4), Beyond::Trap), Ok(Some(a.base + 24)));
        assert_eq!(s(2, 1, None, Beyond::Trap), Ok(Some(a.base + 24)));
        assert_eq!(s(8, 1, Some(8), Beyond::Trap), Ok(Some(a.base + 24)));
        assert!(s(6, 0, Some(4), Beyond::Trap).is_err() && s(16, 0, Some(4), Beyond::Trap).is_err());
        assert_eq!(s(16, 0, Some(4), Beyond::Zero), Ok(None));
        assert_eq!(s(16, -1, Some(4), Beyond::Clamp), Ok(Some(a.base + 12)));
        a.put_texel(&mut m, a.base, &[2.5f32.to_bits()]).unwrap();
        assert_eq!(m.load(a.base, 4), Ok(2.5f32.to_bits() as u64));
        assert!(t.array(0).is_err() && t.array(9).is_err() && t.sampler(h).is_err());
        let s = Sampler { linear: true, ..Sampler::default() };
        let h = t.handle(&Object::Texture(0, s)).unwrap();
        assert_eq!(t.sampler(h), Ok(&s));
        assert_eq!(t.query(h, Query::Width, 0), Ok(4));
        assert_eq!(t.query(h, Query::Filter, 0), Ok(1));
    }
}
