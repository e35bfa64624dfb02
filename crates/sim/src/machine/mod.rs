//! The SASS simulator: machine code as the hardware reads it.

mod alu;
mod byname;
mod chip;
mod conversions;
mod decode;
mod gmma;
mod grid;
mod hazard;
mod image;
mod init;
mod lines;
mod mufu;
mod named;
mod program;
mod quadpair;
mod seen;
mod sparse;
mod tensor;
pub mod timing;
mod uniform;
mod warp;
mod wide;

pub use decode::unmodelled;
pub use grid::{Step, run_sass, time_sass, trace_sass};
