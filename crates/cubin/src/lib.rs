//! Containers of compiled code: cubin ELF, attributes, relocations.
//!
//! Three layers: [`elf`] and [`attr`] are the bytes as values, read and written without loss; [`image`] is what a compiler
//! knows about its output, and its `emit` makes the file of it; [`load`] is what a machine needs to run a file.
//! [`lines`] reads line tables, [`diff`] tells two files apart.
#![deny(missing_docs)]

pub mod attr;
pub mod diff;
pub mod elf;
pub mod image;
pub mod lines;
pub mod load;
