//! The PTX interpreter: the reference semantics of a kernel.

mod approx;
mod cta;
mod cvt;
mod decode;
mod float;
mod grid;
mod int;
mod lanes;
mod layout;
mod matrix;
mod mbarrier;
mod program;
mod registers;
mod sparse;
mod warp;
mod wgmma;

pub use grid::run_ptx;
