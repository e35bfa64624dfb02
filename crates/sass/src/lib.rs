//! The SASS machine language: one declarative ISA, and what is made from it.
//!
//! From `isa/*.isa` a build step makes static tables; encoder, decoder, text parser, printer, operand roles and latency
//! classes all read them. An [`inst::Inst`] is at once the decoded instruction, what the assembler builds, and (with
//! virtual registers in its slots) the compiler's machine representation.
#![deny(missing_docs)]

pub mod codec;
pub mod control;
pub mod form;
pub mod inst;
pub mod latency;
pub mod lint;
pub mod reg;
pub mod short;
pub mod text;

/// The tables that the build step makes from `isa/*.isa`.
pub mod tables {
    use crate::form::{
        Alias, Candidate, ConstRead, Effects, Form, HideZero, ImmPrint, ModField, NO_EFFECTS, NumberRead, Piece,
        RegRead, Registers, Role, Slot, SlotKind, Suffix, Term, Width, blank,
    };
    use crate::latency::Class;
    use crate::reg::File;
    include!(concat!(env!("OUT_DIR"), "/tables.rs"));

    /// Bytes as the text that they are.
    const fn text(bytes: &'static [u8]) -> &'static str {
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => panic!("a mnemonic is a text"),
        }
    }
}

/// One constant a form: `forms::FFMA_RRR`.
pub mod forms {
    use crate::form::FormId;
    include!(concat!(env!("OUT_DIR"), "/forms.rs"));
}

/// One module of constants an enumeration of modifier values: `enums::icmp::LT`.
pub mod enums {
    include!(concat!(env!("OUT_DIR"), "/enums.rs"));
}
pub use enums::*;
