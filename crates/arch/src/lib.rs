//! SM targets, families, versions, limits.
#![deny(missing_docs)]
