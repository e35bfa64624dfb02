//! Containers of compiled code: cubin ELF, attributes, relocations.
#![deny(missing_docs)]
