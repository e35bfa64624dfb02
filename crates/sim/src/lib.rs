//! Runs PTX and SASS on a CPU.
//!
//! Two engines that share memory, launch description and exact IEEE arithmetic, and nothing else:
//! the PTX interpreter ([`run_ptx`]) is the reference semantics, written from the PTX ISA document;
//! the SASS simulator executes machine code as the hardware would read it, and stops at hazards.
//!
//! Both are deterministic: CTAs run one after the other in the order of their number (x fastest), warps of a CTA in
//! turns, and lanes in ascending order, so that a launch leaves the same memory every time.

pub mod fault;
pub mod launch;
pub mod memory;
pub mod num;
