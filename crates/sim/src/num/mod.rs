//! Exact arithmetic that both engines stand on: IEEE 754 in any format and rounding, and its PTX rules for NaN, flushing
//! and saturation. Approximations are not here: each engine has its own.

pub mod fp;
pub mod soft;
