//! What code can be made for.

/// True for chips that the compiler makes code for.
pub fn supported(sm: u16) -> bool {
    matches!(sm, 75 | 80 | 86..=90 | 100 | 103 | 120 | 121)
}

/// True where all threads that read a texture together have the same handle, in uniform registers; before sm_90 each has its own, in a
/// register.
pub fn one_handle(sm: u16) -> bool {
    arch::units(sm).one_handle
}

/// True where threads of a warp that count by one in shared memory are counted together (`ATOMS.POPC.INC`); ptxas 13.5 takes it from sm_80 on.
pub fn counts_together(sm: u16) -> bool {
    sm >= 80
}

/// The number of the uniform register that is always zero, as containers have it: where there are 64 of them, and 256.
pub fn uniform_zero(sm: u16) -> u32 {
    if sm < 100 { 63 } else { 255 }
}

/// True where a product of bits counts those that differ; from sm_90 on only those that both have.
pub fn counts_differences(sm: u16) -> bool {
    arch::units(sm).counts_differences
}
