//! The SASS machine language: one declarative ISA, and what is made from it.
//!
//! From `isa/*.isa` a build step makes static tables; encoder, decoder, text parser, printer, operand roles and latency
//! classes all read them. An [`inst::Inst`] is at once the decoded instruction, what the assembler builds, and (with
//! virtual registers in its slots) the compiler's machine representation.
#![deny(missing_docs)]

pub mod control;
pub mod inst;
pub mod reg;
