//! Containers of compiled code: cubin ELF, attributes, relocations.
//!
//! Three layers: [`elf`] and [`attr`] are the bytes as values, read and written without loss; [`image`] is what a compiler
//! knows about its output, and its `emit` makes the file of it; [`load`] is what a machine needs to run a file.
//! [`lines`] reads line tables, [`diff`] tells two files apart. [`view`] sees any ELF file without copying it; [`fatbin`] and
//! [`archive`] are the files that hold others.
#![deny(missing_docs)]

pub mod archive;
pub mod attr;
pub mod diff;
pub mod elf;
pub mod fatbin;
pub mod image;
pub mod lines;
pub mod load;
pub mod view;
