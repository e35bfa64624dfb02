//! The SASS simulator: machine code as the hardware reads it.

mod alu;
mod byname;
mod decode;
mod grid;
mod hazard;
mod image;
mod init;
mod mufu;
mod program;
mod seen;
mod tensor;
mod warp;

pub use grid::run_sass;
