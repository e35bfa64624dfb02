//! Which kernels may spill to shared memory, and how much of it there is for that.

use crate::bounds::Bounds;
use crate::lower::Program;
use crate::pipeline::{Kind, Options};
use crate::regalloc::shared::Room;
use ptx::module::{FuncKind, Function};

/// Shared memory for the spills of a kernel whose threads may have so many registers. `.pragma "enable_smem_spilling"` asks for it. Without it, it is
/// taken where the launch bounds say how many threads share an SM, so that nothing else on it gets less.
pub(crate) fn room_for_spills(
    f: &Function,
    asked: bool,
    program: &Program,
    bounds: &Bounds,
    registers: u32,
    options: &Options,
) -> Option<Room> {
    let told = bounds.req_threads.or(bounds.max_threads);
    let alone = options.kind == Kind::Executable && !options.debug;
    if f.kind != FuncKind::Entry || !alone || options.effort == 0 || program.shared.dynamic || !asked && told.is_none()
    {
        return None;
    }
    // Who asks how much there is may know what there should be.
    if !asked && program.shared.asked {
        return None;
    }
    let sm = options.target.sm;
    let limits = arch::limits(sm)?;
    let fit = 32 * (1..=32).rev().find(|&warps| limits.ctas_by_registers(registers, warps) > 0)?;
    let threads =
        told.map_or(limits.threads_per_cta, |n| n.iter().fold(1u32, |all, &n| all.saturating_mul(n.max(1)))).min(fit);
    let shape = bounds.req_threads.map(|[x, y, _]| [x.max(1), y.max(1)]);
    Room::left(sm, program.shared.size, threads, registers, shape)
}
