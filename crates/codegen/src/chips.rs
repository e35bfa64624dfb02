//! What code can be made for.

use sass::forms as F;

/// True for chips that the compiler makes code for.
pub fn supported(sm: u16) -> bool {
    matches!(sm, 75 | 80 | 86..=90 | 100 | 103 | 120 | 121)
}

/// True where all threads that read a texture together have the same handle, in uniform registers; before sm_90 each has its own, in a
/// register.
pub fn one_handle(sm: u16) -> bool {
    F::TXD_RRRR.get().variant_on(sm).is_none()
}

/// True where a product of bits counts those that differ; from sm_90 on only those that both have.
pub fn counts_differences(sm: u16) -> bool {
    F::BMMA_RRRR_4.get().variant_on(sm).is_none()
}
