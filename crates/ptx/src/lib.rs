//! The PTX language: text <-> [`module::Module`], and its laws.
//!
//! `parse(text) -> (Module, Vec<Diagnostic>)` never fails and never panics; a module without error diagnostics is
//! *checked*: the compiler and the interpreter may rely on everything stated in [`module`].
#![deny(missing_docs)]

pub mod access;
mod check;
pub mod isa;
mod lex;
pub mod module;
mod names;
mod parse;
mod print;
mod special;
pub mod types;

pub use check::{Compilation, Linking, SHARED_SPILLS, SYSTEM, check, outside, pragmas, unresolved, without_abi};
pub use parse::{parse, parse_bytes, parse_packed};
pub use print::{print, print_inst};
