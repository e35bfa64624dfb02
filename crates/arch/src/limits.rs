//! What one SM and one CTA may hold.
//!
//! Source: the table of technical specifications per compute capability in the CUDA C++ Programming Guide; 88 and 107
//! are not in it and are taken as 86 and 103. Where `ptxas` tells a limit (static shared memory, barriers, registers) it agrees.

/// Limits of an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Registers that one thread can name, RZ not counted.
    pub max_regs_per_thread: u32,
    /// 32-bit registers of an SM.
    pub regs_per_sm: u32,
    /// 32-bit registers that one CTA can have.
    pub regs_per_cta: u32,
    /// Registers are given out to warps in multiples of this many.
    pub reg_alloc_unit: u32,
    /// Warps are given registers in groups of this many.
    pub warp_alloc_unit: u32,
    /// Bytes of shared memory that a kernel may declare statically.
    pub shared_static_per_cta: u32,
    /// Bytes of shared memory that a launch may ask for (opt-in).
    pub shared_optin_per_cta: u32,
    /// Bytes of shared memory of an SM.
    pub shared_per_sm: u32,
    /// Bytes of shared memory that the system takes from each CTA.
    pub shared_reserved_per_cta: u32,
    /// Warps that an SM can hold.
    pub warps_per_sm: u32,
    /// CTAs that an SM can hold.
    pub ctas_per_sm: u32,
    /// Threads of a CTA.
    pub threads_per_cta: u32,
    /// Named barriers of a CTA.
    pub barriers_per_cta: u32,
    /// Bytes of kernel parameters.
    pub param_bytes: u32,
    /// Bytes of a constant bank.
    pub const_bytes: u32,
    /// Bytes of local memory of a thread.
    pub local_bytes: u32,
}

impl Limits {
    /// CTAs of so many warps that an SM holds by the registers of their threads, as the driver counts them.
    pub fn ctas_by_registers(&self, registers: u32, warps: u32) -> u32 {
        let each = (registers.max(1) * 32).next_multiple_of(self.reg_alloc_unit.max(1));
        // Warps share a register file by fours.
        self.regs_per_sm / each / self.warp_alloc_unit.max(1) * self.warp_alloc_unit.max(1) / warps.max(1)
    }

    /// As [`Limits::ctas_by_registers`], by their warps and by the limit of CTAs, too.
    pub fn ctas(&self, registers: u32, warps: u32) -> u32 {
        self.ctas_by_registers(registers, warps).min(self.warps_per_sm / warps.max(1)).min(self.ctas_per_sm)
    }
}

const KB: u32 = 1024;

/// One line an SM: number, shared memory of an SM and of a CTA (opt-in) in KB, warps, CTAs.
static LINES: [(u16, u32, u32, u32, u32); 13] = [
    (75, 64, 64, 32, 16),
    (80, 164, 163, 64, 32),
    (86, 100, 99, 48, 16),
    (87, 164, 163, 48, 16),
    (88, 100, 99, 48, 16),
    (89, 100, 99, 48, 24),
    (90, 228, 227, 64, 32),
    (100, 228, 227, 64, 32),
    (103, 228, 227, 64, 32),
    (107, 228, 227, 64, 32),
    (110, 228, 227, 48, 24),
    (120, 100, 99, 48, 24),
    (121, 100, 99, 48, 24),
];

/// The limits of an SM; none for one that code cannot be made for.
pub fn limits(sm: u16) -> Option<Limits> {
    let &(_, shared_sm, shared_cta, warps, ctas) = LINES.iter().find(|l| l.0 == sm)?;
    Some(Limits {
        max_regs_per_thread: 255,
        regs_per_sm: 65536,
        regs_per_cta: 65536,
        reg_alloc_unit: 256,
        warp_alloc_unit: 4,
        shared_static_per_cta: 48 * KB,
        shared_optin_per_cta: shared_cta * KB,
        shared_per_sm: shared_sm * KB,
        shared_reserved_per_cta: if sm >= 80 { KB } else { 0 },
        warps_per_sm: warps,
        ctas_per_sm: ctas,
        threads_per_cta: 1024,
        barriers_per_cta: 16,
        param_bytes: 32764,
        const_bytes: 64 * KB,
        local_bytes: 512 * KB,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_limits() {
        for t in crate::TARGETS {
            let l = limits(t.sm).expect("a line for every target");
            assert!(l.shared_optin_per_cta <= l.shared_per_sm && l.shared_static_per_cta <= l.shared_optin_per_cta);
        }
        assert_eq!(limits(50), None);
        assert_eq!(limits(90).map(|l| (l.warps_per_sm, l.shared_optin_per_cta)), Some((64, 232_448)));
    }
}
