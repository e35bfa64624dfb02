//! What code can be made for.

use sass::forms as F;

/// True for chips that the compiler makes code for.
pub fn supported(sm: u16) -> bool {
    matches!(sm, 80 | 86..=90 | 100 | 103 | 120 | 121)
}

/// True where textures are read as on sm_90: before it coordinates lie in other registers, and a texture and its sampler have one
/// handle.
pub fn reads_textures(sm: u16) -> bool {
    F::SULD_RAUI.get().variant_on(sm).is_some()
}

/// True where code can tell the copying engine to forget a tensor map: from sm_100 on the uniform loads of constants have to forget it, too.
pub fn forgets_maps(sm: u16) -> bool {
    sm < 100
}

/// True where bulk copies go to the shared memory of any CTA of a cluster; from sm_120 on only to that of their own, and for another one the
/// vendor's code calls a routine of the system.
pub fn copies_to_clusters(sm: u16) -> bool {
    sm < 120
}
