//! The compiler: PTX module to cubin.
//!
//! ```text
//! ptx::Module -> lower -> ir (SSA) -> expand -> opt -> isel -> mir -> sched::prepass -> regalloc -> sched::postpass -> emit -> Cubin
//! ```

pub mod abi;
pub mod backend;
mod beyond;
pub mod bitset;
pub mod bounds;
mod callers;
pub mod cfg;
pub mod chips;
pub mod compile;
pub mod converge;
mod debug;
pub mod emit;
pub mod expand;
pub mod groups;
pub mod guards;
mod ifconvert;
pub mod inline;
pub mod inliner;
pub mod ir;
pub mod isel;
pub mod layout;
pub mod lines;
pub mod link;
pub mod lower;
pub mod mbarriers;
pub mod mir;
pub(crate) mod object;
pub mod opt;
mod own;
pub mod parallel;
pub mod pipeline;
pub mod regalloc;
pub mod registers;
mod room;
pub mod sched;
pub mod spins;
pub mod uniform;
mod uses;

pub use compile::{Log, Output, compile};
pub use pipeline::Options;
