//! Textures and surfaces: what [`Op::Texture`](super::Op::Texture) and [`Op::Surface`](super::Op::Surface) do, packed into the
//! bits of their `imm`.

/// Which instruction of the machine reads a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Fetch {
    /// Through the sampler: `TEX`.
    #[default]
    Sample = 0,
    /// A texel by its integer place: `TLD`.
    Texel = 1,
    /// With gradients: `TXD`.
    Gradients = 2,
    /// One component of four texels: `TLD4`.
    Gather = 3,
    /// The size: `TXQ`.
    Size = 4,
}

/// The shape of an array, as the machine numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
#[allow(missing_docs)] // the names are PTX's
pub enum Shape {
    #[default]
    D1 = 0,
    D2 = 1,
    D3 = 2,
    Cube = 3,
    A1 = 4,
    A2 = 5,
    ACube = 7,
}

impl Shape {
    /// Coordinates, without the layer.
    pub fn dims(self) -> usize {
        match self {
            Shape::D1 | Shape::A1 => 1,
            Shape::D2 | Shape::A2 => 2,
            _ => 3,
        }
    }

    /// True for arrays of layers.
    pub fn layered(self) -> bool {
        matches!(self, Shape::A1 | Shape::A2 | Shape::ACube)
    }

    fn from_bits(bits: u8) -> Shape {
        [Shape::D1, Shape::D2, Shape::D3, Shape::Cube, Shape::A1, Shape::A2, Shape::A2, Shape::ACube][bits as usize & 7]
    }
}

/// A read of a texture. Arguments: the handle, the sampler's where it is apart, `first` words (layer, coordinates; for gradients
/// the word of layer and offsets behind them), `second` words (level, offsets, sample, depth; or the gradients by coordinate).
/// Results: four words, and true where texels are missing if `missing`; of a size one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Texel {
    /// What is read.
    pub fetch: Fetch,
    /// The shape of the texture.
    pub shape: Shape,
    /// The sampler has a handle of its own.
    pub apart: bool,
    /// A level is given; else the first one is meant.
    pub level: bool,
    /// Offsets are given.
    pub offset: bool,
    /// A sample is given.
    pub sample: bool,
    /// A value for comparison is given.
    pub depth: bool,
    /// There is a result that says whether texels are missing.
    pub missing: bool,
    /// The component that is gathered; the bit of the size that is asked for.
    pub component: u8,
    /// Words of the first group.
    pub first: u8,
    /// Words of the second group.
    pub second: u8,
}

impl Texel {
    /// Number of handles among the arguments.
    pub fn handles(self) -> usize {
        1 + self.apart as usize
    }

    /// As the `imm` of an operation.
    pub fn pack(self) -> i64 {
        let flags = [self.apart, self.level, self.offset, self.sample, self.depth, self.missing];
        let flags = flags.iter().rev().fold(0, |word, &f| word << 1 | f as i64);
        self.fetch as i64
            | (self.shape as i64) << 8
            | flags << 16
            | (self.component as i64) << 24
            | (self.first as i64) << 32
            | (self.second as i64) << 40
    }

    /// From the `imm` of an operation.
    pub fn unpack(imm: i64) -> Texel {
        let byte = |n: u32| (imm >> n) as u8;
        let flag = |n: u32| imm >> (16 + n) & 1 != 0;
        Texel {
            fetch: match byte(0) {
                0 => Fetch::Sample,
                1 => Fetch::Texel,
                2 => Fetch::Gradients,
                3 => Fetch::Gather,
                _ => Fetch::Size,
            },
            shape: Shape::from_bits(byte(8)),
            apart: flag(0),
            level: flag(1),
            offset: flag(2),
            sample: flag(3),
            depth: flag(4),
            missing: flag(5),
            component: byte(24),
            first: byte(32),
            second: byte(40),
        }
    }
}

/// What is done with a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Access {
    /// `suld`
    #[default]
    Load = 0,
    /// `sust`
    Store = 1,
    /// `sured`
    Reduce = 2,
}

/// An access to a surface. Arguments: the handle, `place` words (coordinates, layer), then the words that are stored. Results:
/// the words that are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Image {
    /// What is done.
    pub access: Access,
    /// The shape of the surface.
    pub shape: Shape,
    /// What happens beyond its edge: 0 nothing (zeros are read), 1 the nearest is taken, 2 a trap.
    pub beyond: u8,
    /// Elements go through the format of the surface.
    pub formatted: bool,
    /// How the caches take it: 0 normal, 1 evicted first, 2 not kept in the first level.
    pub cache: u8,
    /// Number of the operation of a reduction.
    pub op: u8,
    /// Number of the type of a reduction, as the machine has it.
    pub ty: u8,
    /// Bytes of an access.
    pub bytes: u8,
    /// Words of coordinates and layer.
    pub place: u8,
}

impl Image {
    /// As the `imm` of an operation.
    pub fn pack(self) -> i64 {
        self.access as i64
            | (self.shape as i64) << 4
            | (self.beyond as i64) << 8
            | (self.formatted as i64) << 10
            | (self.cache as i64) << 12
            | (self.op as i64) << 16
            | (self.ty as i64) << 24
            | (self.bytes as i64) << 32
            | (self.place as i64) << 40
    }

    /// From the `imm` of an operation.
    pub fn unpack(imm: i64) -> Image {
        let byte = |n: u32| (imm >> n) as u8;
        Image {
            access: [Access::Load, Access::Store, Access::Reduce, Access::Reduce][imm as usize & 3],
            shape: Shape::from_bits(byte(4) & 7),
            beyond: byte(8) & 3,
            formatted: imm >> 10 & 1 != 0,
            cache: byte(12) & 3,
            op: byte(16),
            ty: byte(24),
            bytes: byte(32),
            place: byte(40),
        }
    }
}

/// Tables of what is known of objects: `imm` of [`Op::EntrySize`](super::Op::EntrySize).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Table {
    /// Textures with their samplers.
    Unified = 0,
    /// Textures alone.
    Textures = 1,
    /// Samplers.
    Samplers = 2,
    /// Surfaces.
    Surfaces = 3,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 4] = [Table::Unified, Table::Textures, Table::Samplers, Table::Surfaces];

    /// The symbol that the system replaces by the size of an entry.
    pub fn symbol(self) -> &'static str {
        match self {
            Table::Unified => ".nv.unified.texrefDescSize",
            Table::Textures => ".nv.independent.texrefDescSize",
            Table::Samplers => ".nv.independent.samplerrefDescSize",
            Table::Surfaces => ".nv.surfrefDescSize",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        let t =
            Texel { fetch: Fetch::Gather, shape: Shape::ACube, apart: true, first: 4, second: 3, ..Texel::default() };
        assert_eq!(Texel::unpack(t.pack()), t);
        let t = Texel { level: true, sample: true, missing: true, component: 3, ..t };
        assert_eq!(Texel::unpack(t.pack()), t);
        let i = Image {
            access: Access::Reduce,
            shape: Shape::D3,
            beyond: 2,
            formatted: true,
            cache: 1,
            ..Image::default()
        };
        assert_eq!(Image::unpack(i.pack()), i);
        let i = Image { op: 7, ty: 6, bytes: 16, place: 3, ..i };
        assert_eq!(Image::unpack(i.pack()), i);
    }
}
