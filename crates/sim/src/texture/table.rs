//! Tables in memory from which machine code answers `txq` and `suq`.

use super::{Query, Textures};
use crate::memory::put;

/// What is known of objects, as machine code finds it: see [`Textures::table`]. The places of the words in an entry are what
/// the vendor's code for `txq` and `suq` loads; how long an entry is, it asks by a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    /// Textures with their samplers.
    Unified,
    /// Textures of the independent mode.
    Textures,
    /// Samplers.
    Samplers,
    /// Surfaces.
    Surfaces,
}

impl Table {
    /// Bytes of an entry.
    pub const ENTRY: u32 = 64;

    fn words(self) -> &'static [(usize, Query)] {
        match self {
            Table::Unified => &[
                (0x0, Query::Width),
                (0x4, Query::Height),
                (0x8, Query::Depth),
                (0xc, Query::Edge(0)),
                (0x10, Query::Edge(1)),
                (0x14, Query::Edge(2)),
                (0x18, Query::Filter),
                (0x1c, Query::Normalized),
                (0x20, Query::ChannelType),
                (0x24, Query::ChannelOrder),
                (0x28, Query::ArraySize),
                (0x2c, Query::Levels),
                (0x30, Query::Samples),
            ],
            Table::Textures => &[
                (0x0, Query::Width),
                (0x4, Query::Height),
                (0x8, Query::Depth),
                (0xc, Query::Normalized),
                (0x10, Query::ChannelType),
                (0x14, Query::ChannelOrder),
                (0x18, Query::ArraySize),
                (0x1c, Query::Levels),
                (0x20, Query::Samples),
            ],
            Table::Samplers => &[
                (0x0, Query::Edge(0)),
                (0x4, Query::Edge(1)),
                (0x8, Query::Edge(2)),
                (0xc, Query::Filter),
                (0x10, Query::ForceUnnormalized),
            ],
            Table::Surfaces => &[
                (0x0, Query::Width),
                (0x4, Query::Height),
                (0x8, Query::Depth),
                (0xc, Query::ChannelType),
                (0x10, Query::ChannelOrder),
                (0x14, Query::MemoryLayout),
                (0x1c, Query::ArraySize),
            ],
        }
    }
}

impl Textures {
    /// The table in memory where machine code finds what is known of textures, samplers or surfaces: an entry of
    /// [`Table::ENTRY`] bytes for each number, the first unused.
    pub fn table(&self, table: Table) -> Vec<u8> {
        let count = if table == Table::Samplers { self.samplers.len() } else { self.textures.len() };
        let mut out = vec![0; (count + 1) * Table::ENTRY as usize];
        for n in 1..=count {
            for &(at, query) in table.words() {
                let sampler = match table {
                    Table::Samplers => Some(n),
                    _ => self.textures[n - 1].1,
                };
                let answer = match query {
                    Query::Normalized | Query::ForceUnnormalized | Query::Filter | Query::Edge(_) => {
                        sampler.map_or(0, |s| self.samplers[s - 1].answer(query))
                    }
                    _ => self.arrays[self.textures[n - 1].0].array.answer(query, 0),
                };
                put(&mut out, n * Table::ENTRY as usize + at, 4, answer as u64);
            }
        }
        out
    }
}
