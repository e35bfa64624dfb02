//! Addresses of copies into shared memory: the instruction has room for an offset of 12 bits.

use super::Lower;
use crate::ir::{Op, Ty, Value};

/// Offsets that the instruction has room for.
pub(crate) const OFFSETS: std::ops::Range<i64> = -0x800..0x800;

impl Lower<'_, '_> {
    /// An address as a base and an offset that the instruction has room for. What lies further from its base is counted from
    /// the nearest multiple of twice that room: copies from places beside each other share it, and need no addresses of their own.
    pub(super) fn near_base(&mut self, address: Value) -> (Value, i64) {
        let (mut base, mut offset) = (address, 0i64);
        while let Some(sum) = self.f.def_inst(base).filter(|d| d.op == Op::IAdd)
            && let Some(more) = self.f.constant(sum.args[1])
        {
            (base, offset) = (sum.args[0], offset.wrapping_add(more as i64));
        }
        let near = offset.wrapping_add(OFFSETS.end) & -(2 * OFFSETS.end);
        (self.far_from(base, near), offset.wrapping_sub(near))
    }

    /// An address so many bytes on.
    pub(super) fn far_from(&mut self, base: Value, bytes: i64) -> Value {
        if bytes == 0 {
            return base;
        }
        let bytes = self.konst(Ty::B64, bytes as u64);
        self.same(Op::IAdd, &[base, bytes])
    }
}
