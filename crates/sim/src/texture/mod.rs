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
//! logarithm of the longer one; a fetch that compares depths compares every component of a texel before they are filtered, and
//! gives 1 where it holds, in the sense of the sampler's `compare` (operand first), which PTX leaves to who sets the sampler.
//!
//! A handle of an object is 64 bits; how they are laid out is the engine's matter, see [`Handles`].

mod fetch;
mod format;
mod surface;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use fetch::{At, Fetch, Lod};
pub use format::Format;
pub(crate) use surface::Beyond;
pub(crate) use table::Table;

use crate::fault::{FaultKind, MemFault};
use crate::memory::Global;

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
    /// How a depth is compared.
    pub compare: Compare,
}

/// Comparison of the operand of a fetch (left) with a component of a texel (right).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // as named
pub enum Compare {
    Never,
    Less,
    Equal,
    #[default]
    LessEqual,
    Greater,
    NotEqual,
    GreaterEqual,
    Always,
}

impl Compare {
    /// All, with their names in a launch file.
    pub const ALL: [(&'static str, Compare); 8] = [
        ("never", Compare::Never),
        ("less", Compare::Less),
        ("equal", Compare::Equal),
        ("less_equal", Compare::LessEqual),
        ("greater", Compare::Greater),
        ("not_equal", Compare::NotEqual),
        ("greater_equal", Compare::GreaterEqual),
        ("always", Compare::Always),
    ];

    /// Does it hold?
    pub fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Compare::Never => false,
            Compare::Less => a < b,
            Compare::Equal => a == b,
            Compare::LessEqual => a <= b,
            Compare::Greater => a > b,
            Compare::NotEqual => a != b,
            Compare::GreaterEqual => a >= b,
            Compare::Always => true,
        }
    }
}

impl Sampler {
    /// The sampler that a module describes: edges by number and the filter, where it tells; it takes normalised coordinates
    /// unless they are forced not to be.
    pub(crate) fn described(edges: [Option<u8>; 3], linear: Option<bool>, unnormalized: bool) -> Sampler {
        let of = |n: Option<u8>| match n {
            Some(0) => Edge::Wrap,
            Some(1) => Edge::Mirror,
            Some(2) => Edge::ClampOgl,
            Some(4) => Edge::Border,
            _ => Edge::Clamp,
        };
        Sampler {
            edge: edges.map(of),
            linear: linear.unwrap_or(false),
            normalized: !unnormalized,
            ..Sampler::default()
        }
    }
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

/// How handles are laid out. Textures and surfaces are numbered together, from 1, and so are samplers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Handles {
    /// Bits 0 to 19 are the texture or surface, bits 20 to 31 the sampler: a texture object has both, a surface only the
    /// first, a sampler only the second. So one kind is never taken for another. For the PTX interpreter.
    #[default]
    Marked,
    /// A texture object and a surface as above, a sampler by its number. What the vendor's code before sm_90 computes with.
    Packed,
    /// Numbers alone; the sampler of a texture object is found by its number. What the vendor's code for sm_90 computes with.
    Apart,
}

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
    /// Textures and surfaces: array, and the number of the sampler.
    textures: Vec<(usize, Option<usize>)>,
    samplers: Vec<Sampler>,
    handles: Handles,
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
    pub fn place(arrays: &[Array], handles: Handles, global: &mut Global) -> Textures {
        let placed = arrays.iter().map(|a| {
            let base = global.alloc(a.data.clone(), 256, format!("array '{}'", a.name));
            let levels = (0..a.levels).map(|n| base + (0..n).map(|k| a.level_bytes(k)).sum::<u64>()).collect();
            Placed { array: Array { data: Vec::new(), ..a.clone() }, levels, base }
        });
        Textures { arrays: placed.collect(), handles, ..Textures::default() }
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
            self.textures.push((a, sampler.map(|_| self.samplers.len() + 1)));
            handle = self.textures.len() as u64;
        }
        if let Some(s) = sampler {
            self.samplers.push(s);
            let n = self.samplers.len() as u64;
            handle |= match (self.handles, array) {
                (Handles::Marked, _) | (Handles::Packed, Some(_)) => n << TEXTURE_BITS,
                (Handles::Packed, None) => n,
                (Handles::Apart, None) => n,
                (Handles::Apart, Some(_)) => 0,
            };
        }
        Ok(handle)
    }

    /// The array and the sampler of what the two words of a handle name in machine code: textures, and samplers where one is
    /// needed.
    ///
    /// # Errors
    /// They name nothing.
    pub fn named(&self, [low, high]: [u32; 2]) -> Result<(&Placed, Option<&Sampler>), MemFault> {
        let (n, sampler) = match self.handles {
            // The top bit tells only that the handle was made from a reference.
            Handles::Marked | Handles::Packed => (low & ((1 << TEXTURE_BITS) - 1), low >> TEXTURE_BITS & 0x7ff),
            Handles::Apart => (low, high),
        };
        let found = (n as usize).checked_sub(1).and_then(|n| self.textures.get(n));
        let Some(&(array, own)) = found else {
            return Err(bad(format!("{low:#x} is no handle of a texture or surface")));
        };
        let own = if self.handles == Handles::Apart { own } else { None };
        let number = if sampler == 0 { own } else { Some(sampler as usize) };
        let sampler = match number {
            Some(n) => match self.samplers.get(n.wrapping_sub(1)) {
                Some(s) => Some(s),
                None => return Err(bad(format!("{n:#x} is no handle of a sampler"))),
            },
            None => None,
        };
        Ok((&self.arrays[array], sampler))
    }

    /// The array of a texture or surface.
    ///
    /// # Errors
    /// It is no handle of one.
    pub fn array(&self, handle: u64) -> Result<&Placed, MemFault> {
        let n = handle & ((1 << TEXTURE_BITS) - 1);
        let array = (n as usize).checked_sub(1).and_then(|n| self.textures.get(n));
        match array {
            Some(&(a, _)) if handle >> 32 == 0 => Ok(&self.arrays[a]),
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
        match query {
            Query::Normalized | Query::ForceUnnormalized | Query::Filter | Query::Edge(_) => {
                Ok(self.sampler(handle)?.answer(query))
            }
            _ => Ok(self.array(handle)?.array.answer(query, level)),
        }
    }
}

impl Sampler {
    /// Answers a query about it; 0 for what only an array knows.
    fn answer(&self, query: Query) -> u32 {
        match query {
            Query::Normalized => self.normalized as u32,
            Query::ForceUnnormalized => !self.normalized as u32,
            Query::Filter => self.linear as u32,
            Query::Edge(i) => self.edge[i] as u32,
            _ => 0,
        }
    }
}

impl Array {
    /// Answers a query about it, sizes for a level; 0 for what only a sampler knows.
    pub(crate) fn answer(&self, query: Query, level: u32) -> u32 {
        let a = self;
        let size = a.level(level.min(a.levels - 1));
        match query {
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
            _ => 0,
        }
    }
}
