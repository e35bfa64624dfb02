//! SM targets, their families, the PTX versions that know them, their limits and abilities, the conventions of their files, and the words of constant bank 0.
//!
//! Pure data; nothing here depends on another crate.
#![deny(missing_docs)]

mod bank0;
mod files;
mod limits;
mod target;
mod units;

pub use bank0::{Bank0, CGA_STEP, bank0};
pub use files::{Files, files};
pub use limits::{Limits, limits};
pub use target::{GpuKind, GpuName, PTX_VERSIONS, TARGETS, Target, Variant, gpu_names, is_ptx_version};
pub use units::{Units, units};

/// The newest PTX version that is understood.
pub const LATEST_PTX: (u16, u16) = (9, 5);
