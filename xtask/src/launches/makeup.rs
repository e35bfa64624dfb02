//! Makes up a launch from the declaration of a kernel and what it does with its parameters. What the numbers mean nobody knows
//! here: a [`Guess`] says which to take, and the caller tries several.

use super::flow::{Flow, Kind, Map, Place, Texels};
use ptx::module::{Directive, FuncId, Function, Module, VarId, Variable};
use sim::launch::{Memory, Pointer};
use sim::tensormap::{Swizzle, TensorMap, Type};
use sim::texture::{Array, Format, Object, Sampler};
use sim::{Arg, Launch};
use testkit::Random;

/// Bytes of a buffer: room for what small sizes and strides reach.
const BUFFER: usize = 2 << 20;
/// The same where that was too little.
const LARGE: usize = 16 << 20;
/// Shared memory of a CTA; how much of it a launch asks for at most.
const SHARED: u64 = 227 << 10;
/// Bytes in which an array of addresses is filled with them.
const ADDRESSES: u64 = 4096;

/// What to take for what is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// Which of the possible blocks.
    pub block: usize,
    /// Sizes and strides.
    pub ints: Ints,
    /// Numbers in memory.
    pub content: Content,
    /// How often the bytes that a barrier expects are more than a tensor copy moves.
    pub parts: u64,
    /// CTAs.
    pub grid: u32,
    /// More room in memory.
    pub large: bool,
}

/// Integer parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ints {
    /// All the same.
    All(u64),
    /// Powers of two up to this one, at random.
    UpTo(u64),
}

/// Numbers in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// Of the kind that the instructions tell.
    Told,
    /// Small integers everywhere.
    Small,
    Zero,
}

/// The guesses, in the order in which they are tried.
pub fn guesses(flow: &Flow, blocks: usize) -> Vec<Guess> {
    use Content::{Small, Told, Zero};
    let first = Guess { block: 0, ints: Ints::All(64), content: Told, parts: 1, grid: 2, large: false };
    let ints = [Ints::All(64), Ints::All(128), Ints::All(16), Ints::UpTo(256), Ints::All(1), Ints::All(512)];
    let parts: &[u64] = if flow.maps.is_empty() { &[1] } else { &[1, 2, 3, 4, 6, 8] };
    let mut out = Vec::new();
    for &ints in &ints {
        out.extend(parts.iter().map(|&parts| Guess { ints, parts, ..first }));
    }
    for block in 1..blocks {
        out.extend([Ints::All(64), Ints::All(16)].map(|ints| Guess { block, ints, ..first }));
    }
    for (ints, content) in [(64, Small), (16, Small), (1, Small), (64, Zero), (1, Zero), (0, Zero)] {
        out.push(Guess { ints: Ints::All(ints), content, ..first });
    }
    out.extend([32, 1024, 64].map(|n| Guess { ints: Ints::UpTo(n), ..first }));
    out.push(Guess { grid: 1, ..first });
    out
}

/// The blocks that a kernel may be launched with, the likeliest first. `dims` is what it asks of the numbers of its threads.
pub fn blocks(f: &Function, dims: usize) -> Vec<[u32; 3]> {
    let mut most = None;
    for d in &f.directives {
        match d {
            Directive::ReqNtid(n) => return vec![*n],
            Directive::MaxNtid(n) => most = Some(n.iter().product::<u32>().min(1024)),
            _ => {}
        }
    }
    let usual: &[[u32; 3]] = match dims {
        3 => &[[8, 8, 4], [32, 2, 2], [128, 1, 1]],
        2 => &[[16, 16, 1], [32, 4, 1], [32, 8, 1], [32, 32, 1], [8, 8, 1], [128, 1, 1]],
        _ => &[[128, 1, 1], [32, 1, 1], [256, 1, 1], [64, 1, 1], [512, 1, 1]],
    };
    let usual = usual.iter().copied();
    match most {
        None => usual.collect(),
        Some(n) => {
            let mut list = vec![if dims > 1 && n > 32 { [32, n / 32, 1] } else { [n, 1, 1] }];
            list.extend(usual.filter(|b| b.iter().product::<u32>() < n));
            list
        }
    }
}

fn cluster(f: &Function) -> Option<[u32; 3]> {
    let mut found = None;
    for d in &f.directives {
        match d {
            Directive::ReqNctaPerCluster(n) => found = Some(*n),
            Directive::ExplicitCluster | Directive::BlocksAreClusters => {
                found = found.or(Some([1; 3]));
            }
            _ => {}
        }
    }
    found
}

/// A launch of an entry.
///
/// # Errors
/// What of it cannot be made up.
pub fn launch(m: &Module, entry: FuncId, flow: &Flow, guess: Guess, seed: u64) -> Result<Launch, String> {
    let f = &m.funcs[entry.index()];
    let blocks = blocks(f, flow.dims[0]);
    let cluster = cluster(f);
    let mut grid = cluster.unwrap_or([1; 3]);
    grid.iter_mut().take(flow.dims[1].max(1)).for_each(|n| *n *= guess.grid);
    let shared = if flow.dynamic { SHARED.saturating_sub(1024 + flow.shared) as u32 & !127 } else { 0 };
    let launch = Launch {
        kernel: f.name.clone(),
        grid,
        block: blocks[guess.block % blocks.len()],
        cluster,
        shared,
        ..Launch::default()
    };
    let mut maker = Maker { m, flow, guess, random: Random(seed), launch, maps: Vec::new() };
    for &p in &f.params {
        let arg = maker.arg(p)?;
        maker.launch.args.push(arg);
    }
    maker.behind(&f.params);
    maker.place_maps();
    Ok(maker.launch)
}

struct Maker<'a> {
    m: &'a Module,
    flow: &'a Flow,
    guess: Guess,
    random: Random,
    launch: Launch,
    /// Arguments that are tensor maps: their memory is named when all arguments are there.
    maps: Vec<usize>,
}

impl Maker<'_> {
    /// Bytes of a buffer.
    fn room(&self) -> usize {
        if self.guess.large { LARGE } else { BUFFER }
    }

    fn int(&mut self) -> u64 {
        match self.guess.ints {
            Ints::All(n) => n,
            Ints::UpTo(n) => 1 << self.random.index(n.ilog2() as usize + 1),
        }
    }

    fn float(&mut self) -> f64 {
        [0.5, 1.0, 0.125, 2.0, 0.75][self.random.index(5)]
    }

    fn arg(&mut self, p: VarId) -> Result<Arg, String> {
        let v = &self.m.vars[p.index()];
        if v.ty.is_opaque() {
            return Err("a texture, surface or sampler".into());
        }
        if let Some(map) = self.flow.maps.get(&p)
            && v.size() == 128
        {
            self.maps.push(self.launch.args.len());
            return Ok(Arg::TensorMap { map: self.map(*map, 0)?, buffer: 0 });
        }
        let slot = self.flow.slots.iter().find(|s| s.place == Place::Param(p) && s.at == 0 && s.bytes == 8);
        let address = slot.is_some_and(|s| s.address);
        let handle = self.flow.slots.iter().position(|s| s.place == Place::Param(p) && s.at == 0 && s.bytes == 8);
        if let Some(&texels) = handle.and_then(|n| self.flow.texels.get(&n))
            && v.size() == 8
        {
            return Ok(Arg::Object(self.object(texels)?));
        }
        if v.size() == 8 && v.dims.is_empty() && (address || v.ptr.is_some()) {
            let (kind, width) = slot.map_or((Kind::Unknown, 4), |s| (s.content, s.width));
            return Ok(Arg::Buffer { data: self.content(kind, width), out: None });
        }
        Ok(Arg::Value(self.value(p, v)))
    }

    /// A texture or surface of a small array.
    fn object(&mut self, t: Texels) -> Result<Object, String> {
        let mut a = Array {
            name: format!("x{}", self.launch.arrays.len()),
            size: [64, if t.rank > 1 { 64 } else { 0 }, if t.rank > 2 { 8 } else { 0 }],
            layers: t.layers.then_some(4),
            cube: t.cube,
            levels: 1,
            samples: 1,
            channels: 4,
            format: if t.floats { Format::F32 } else { Format::U8 },
            ..Array::default()
        };
        let data = self.content(if t.floats { Kind::F32 } else { Kind::Int }, 1);
        a.data = data[..a.bytes() as usize].to_vec();
        a.check()?;
        self.launch.arrays.push(a);
        let n = self.launch.arrays.len() - 1;
        Ok(if t.surface { Object::Surface(n) } else { Object::Texture(n, Sampler::default()) })
    }

    /// The bytes of a parameter by value, without the addresses in it.
    fn value(&mut self, p: VarId, v: &Variable) -> Vec<u8> {
        let size = v.size() as usize;
        let mut bytes = vec![0; size];
        let whole = v.dims.is_empty();
        let float = whole && v.ty.is_float();
        match (float, size) {
            (true, 8) => bytes.copy_from_slice(&self.float().to_le_bytes()),
            (true, 4) => bytes.copy_from_slice(&(self.float() as f32).to_le_bytes()),
            _ => {
                for part in bytes.chunks_mut(if whole { size } else { 4 }) {
                    let n = if part.len() == 1 { 1 } else { self.int() };
                    part.copy_from_slice(&n.to_le_bytes()[..part.len()]);
                }
            }
        }
        for s in self.flow.slots.iter().filter(|s| s.place == Place::Param(p)) {
            let n = match (s.kind, s.bytes) {
                (Kind::F32, 4) => u64::from((self.float() as f32).to_bits()),
                (Kind::F64, 8) => self.float().to_bits(),
                (_, 8) => self.int(),
                (_, 1) => 1,
                _ => continue,
            };
            if let Some(to) = bytes.get_mut(s.at as usize..(s.at + u64::from(s.bytes)) as usize) {
                to.copy_from_slice(&n.to_le_bytes()[..s.bytes as usize]);
            }
        }
        bytes
    }

    /// Memory that addresses in parameters by value and in other memory lead to.
    fn behind(&mut self, params: &[VarId]) {
        // Memory by slot; those that are further down come later in the list.
        let mut places: Vec<Option<usize>> = vec![None; self.flow.slots.len()];
        for (i, s) in self.flow.slots.iter().enumerate().filter(|(_, s)| s.address) {
            let arg = match s.place {
                Place::Param(v) => params.iter().position(|&p| p == v),
                Place::Behind(n) => places[n],
            };
            let Some(place) = arg else { continue };
            if matches!(s.place, Place::Param(_)) && !matches!(self.launch.args[place], Arg::Value(_)) {
                places[i] = matches!(self.launch.args[place], Arg::Buffer { .. }).then_some(place);
                continue;
            }
            let room = match self.launch.args.get(place) {
                Some(Arg::Value(bytes)) => bytes.len() as u64,
                _ => self.room() as u64,
            };
            if s.at + 8 > room || !s.at.is_multiple_of(8) {
                continue;
            }
            let to = self.launch.args.len() + self.launch.memory.len();
            let data = self.content(s.content, s.width);
            self.launch.memory.push(Memory { name: format!("m{i}"), data, out: None });
            places[i] = Some(to);
            let end = if s.many { room.min(ADDRESSES) } else { s.at + 8 };
            let mut at = s.at;
            while at + 8 <= end {
                if !self.launch.pointers.iter().any(|p| p.place == place && p.at == at as usize) {
                    self.launch.pointers.push(Pointer { place, at: at as usize, to });
                }
                at += 8;
            }
        }
    }

    /// A buffer full of numbers.
    fn content(&mut self, kind: Kind, width: u32) -> Vec<u8> {
        let kind = match (self.guess.content, kind) {
            (Content::Zero, _) => return vec![0; self.room()],
            (Content::Small, _) => Kind::Index,
            // A load of one number tells nothing of others, but it has its size.
            (Content::Told, Kind::Unknown) => match (self.flow.usual, width) {
                (Kind::F64, 1..8) | (Kind::F32, 1..4) | (_, 1) => Kind::Int,
                (usual, _) => usual,
            },
            (Content::Told, k) => k,
        };
        let mut out = Vec::with_capacity(self.room());
        while out.len() < self.room() {
            let bits = self.random.bits();
            // From -2 to 2.
            let x = (bits >> 12) as f64 / (1u64 << 50) as f64 - 2.0;
            match kind {
                Kind::F64 => out.extend(x.to_le_bytes()),
                Kind::F32 => out.extend((x as f32).to_le_bytes()),
                Kind::BF16 => out.extend(&(x as f32).to_le_bytes()[2..]),
                Kind::F16 => {
                    // An exponent from -8 to 0.
                    let half = (bits & 0x83ff) as u16 | ((7 + (bits >> 20) % 9) << 10) as u16;
                    out.extend(half.to_le_bytes());
                }
                // No zeros: what a division by one gives is nobody's.
                Kind::Int if width == 1 => out.extend((bits | 0x0101_0101_0101_0101).to_le_bytes()),
                Kind::Int => out.extend(&(1 + bits % 127).to_le_bytes()[..width.clamp(1, 8) as usize]),
                _ => out.extend(&(bits & 7).to_le_bytes()[..width.clamp(1, 8) as usize]),
            }
        }
        out.truncate(self.room());
        out
    }

    /// A tensor of rows, whose box has rows of 128 bytes, swizzled as matrix products want them.
    fn map(&mut self, map: Map, offset: u64) -> Result<TensorMap, String> {
        let (ty, bytes) = match self.flow.usual {
            Kind::F32 => (Type::F32, 4),
            Kind::BF16 => (Type::BF16, 2),
            Kind::F16 => (Type::F16, 2),
            _ => (Type::U8, 1),
        };
        // Whatever is stored has been written, if it is little.
        let moved = match map.loads {
            true if map.moved > 0 => map.moved / self.guess.parts,
            true => 16384 / self.guess.parts,
            false => 1024,
        };
        let row = if moved.is_multiple_of(128) { 128 } else { 64 };
        let mut rows = (moved / row).max(1);
        let mut t = TensorMap { address: offset, ty, rank: map.rank, swizzle: Swizzle::B128, ..TensorMap::default() };
        t.box_dims[0] = (row / bytes) as u32;
        for d in &mut t.box_dims[1..map.rank] {
            *d = rows.min(256) as u32;
            rows = rows.div_ceil(256);
        }
        if map.rank == 1 {
            t.box_dims[0] = (moved / bytes).clamp(16, 256) as u32;
            t.swizzle = Swizzle::None;
        }
        let sizes = [512, 512, 4, 2, 1];
        let mut stride = bytes;
        for (i, &size) in sizes.iter().enumerate().take(map.rank) {
            t.dims[i] = size;
            stride *= size;
            if i + 1 < map.rank {
                t.strides[i] = stride;
            }
        }
        t.check()?;
        Ok(t)
    }

    /// Gives each tensor map memory of its own.
    fn place_maps(&mut self) {
        for n in std::mem::take(&mut self.maps) {
            let to = self.launch.args.len() + self.launch.memory.len();
            let mut data = self.content(self.flow.usual, 2);
            data.extend_from_within(..);
            self.launch.memory.push(Memory { name: format!("t{n}"), data, out: None });
            if let Arg::TensorMap { buffer, .. } = &mut self.launch.args[n] {
                *buffer = to;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 8.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 s[];\n\
        .visible .entry k(.param .u64 .ptr .global .align 1 a, .param .u32 n, .param .f32 x, .param .align 8 .b8 t[24])\n\
        .reqntid 96\n.reqnctapercluster 2\n{\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n.reg .b32 %r<9>;\nld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [t+8];\n\
        ld.global.f32 %f1, [%rd1];\nadd.f32 %f1, %f1, %f1;\nst.global.f32 [%rd2], %f1;\nmov.b32 %r1, s;\nret;\n}\n";

    #[test]
    fn a_launch_fits_the_declaration() {
        let (m, errors) = ptx::parse(TEXT);
        assert!(errors.is_empty(), "{errors:?}");
        let flow = crate::launches::flow::flow(&m, FuncId(0));
        let guess = guesses(&flow, 1)[0];
        let l = launch(&m, FuncId(0), &flow, guess, 1).unwrap();
        assert_eq!((l.grid, l.block, l.cluster), ([4, 1, 1], [96, 1, 1], Some([2, 1, 1])));
        assert!(l.shared > 200 << 10);
        let Arg::Buffer { data, .. } = &l.args[0] else { panic!("{:?}", l.args[0]) };
        let numbers = data.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        assert!(numbers.clone().all(|x| x.abs() <= 2.0) && numbers.clone().any(|x| x.abs() > 1.0));
        assert_eq!(l.args[1], Arg::Value(vec![64, 0, 0, 0]));
        assert!(matches!(&l.args[3], Arg::Value(b) if b.len() == 24));
        assert_eq!(l.pointers, [Pointer { place: 3, at: 8, to: 4 }]);
        // It runs as made, and what is stored is there.
        let config = sim::Config::default();
        let left = sim::run_ptx(&m, &l, &config).unwrap();
        assert_eq!(left.buffers.len(), 2);
        assert_ne!(left.buffers[1], l.memory[0].data);
    }
}
