//! What containers say of a kernel by the statements that it has, whatever machine code they become.

use cubin::attr::{self, Attr};
use ptx::isa::Op;
use ptx::module::{Body, FuncId, FuncKind, Module};

/// An address that stands for places of several devices is asked.
const MANY_READ: u16 = 4;
/// It is written.
const MANY_WRITTEN: u16 = 8;
/// As `cubin::image::Image::tensor_maps`: fields of a map are written.
const FIELDS: u8 = 2;

/// What a kernel uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses {
    /// `wmma`.
    wmma: bool,
    /// Addresses of several devices.
    grid: u16,
    /// As `cubin::image::Image::isa_class`, of the statements; 0 if they ask for nothing.
    pub isa_class: u8,
    /// As `cubin::image::Image::tensor_maps`, of the statements.
    pub tensor_maps: u8,
}

impl Uses {
    /// Of a kernel and of the module's functions, which it may call.
    pub fn of(m: &Module, entry: FuncId) -> Uses {
        let told = |op: Op| matches!(op, Op::Wmma | Op::Multimem | Op::Tensormap);
        let reached = m.funcs.iter().enumerate().filter(|(n, f)| *n == entry.index() || f.kind == FuncKind::Func);
        let bodies = reached.filter_map(|(_, f)| f.body.as_ref()).filter(|b| b.module_has(told));
        let mut uses = Uses::default();
        for body in bodies.map(Body::unpacked) {
            for x in body.insts() {
                let has = |name: &str| x.mods.iter().any(|m| m.name() == name);
                match x.op {
                    Op::Wmma => uses.wmma = true,
                    Op::Multimem if has("ld_reduce") => uses.grid |= MANY_READ,
                    Op::Multimem => uses.grid |= MANY_READ | MANY_WRITTEN,
                    Op::Tensormap if has("replace") => uses.tensor_maps |= FIELDS,
                    Op::Tensormap => uses.isa_class = 2,
                    _ => {}
                }
            }
        }
        uses
    }

    /// The attributes that say so.
    pub fn attributes(self) -> impl Iterator<Item = Attr> {
        let wmma = self.wmma.then(|| Attr::none(attr::WMMA_USED));
        let grid = (self.grid != 0).then(|| Attr::half(attr::GRID_ATTRIBUTES, self.grid));
        wmma.into_iter().chain(grid)
    }
}
