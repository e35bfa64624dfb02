//! Runs PTX and SASS on a CPU.
//!
//! Two engines that share memory, launch description and exact IEEE arithmetic, and nothing else:
//! the PTX interpreter ([`run_ptx`]) is the reference semantics, written from the PTX ISA document;
//! the SASS simulator executes machine code as the hardware would read it, and stops at hazards.
//!
//! Both are deterministic: CTAs run one after the other in the order of their number (x fastest), warps of a CTA in
//! turns, and lanes in ascending order, so that a launch leaves the same memory every time. Several processors change
//! nothing: clusters run beside each other on trial, and those that could have seen another's writes run again.
// A loop over the lanes of a warp reads several arrays at one index.
#![allow(clippy::needless_range_loop)]

mod copies;
pub mod fault;
pub mod launch;
pub mod memory;
pub mod num;
pub mod tensormap;

mod interp;
mod machine;
mod printf;
pub mod shadow;
mod shape;
pub mod texture;
mod view;
mod world;

pub use fault::{Fault, FaultKind, Other, Place, SourceLine};
pub use interp::run_ptx;
pub use launch::{Arg, Launch};
pub use machine::timing;
pub use machine::{Step, run_sass, time_sass, trace_sass, unmodelled};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Warp instructions that the launch may issue before the watchdog stops it.
    pub max_instructions: u64,
    /// Stop at reads of registers and of shared memory that were never written.
    pub check_uninitialized: bool,
    /// Stop at data races in shared memory.
    pub check_races: bool,
    /// SASS: stop where a result is read before its latency has passed.
    pub check_hazards: bool,
    /// Instructions that a warp issues before the next warp of its CTA does; at least 1. What comes of a program without races does not
    /// depend on it.
    pub turn: u32,
    /// Threads of this machine that run clusters; 0 for as many as it has processors.
    pub threads: usize,
    /// Where the run tells how far it is.
    pub progress: Option<Arc<Progress>>,
}

/// How far a launch is: counters that others may look at while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Clusters of the launch; 0 before it has begun.
    pub clusters: AtomicU64,
    /// Those that have ended.
    pub ended: AtomicU64,
    /// Warp instructions issued so far.
    pub instructions: AtomicU64,
}

impl Progress {
    fn tell(&self, ended: u64, instructions: u64) {
        self.ended.store(ended, Ordering::Relaxed);
        self.instructions.store(instructions, Ordering::Relaxed);
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            max_instructions: 2_000_000_000,
            check_uninitialized: true,
            check_races: true,
            check_hazards: true,
            turn: 4096,
            threads: 0,
            progress: None,
        }
    }
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Instructions issued, one a warp.
    pub warp_instructions: u64,
    /// Instructions executed, one a thread whose guard was true.
    pub thread_instructions: u64,
    /// SASS: estimated cycles of the longest warp; 0 for PTX.
    pub cycles: u64,
}

/// What a launch left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Final content of every buffer argument, in the order of the arguments, then of other memory and of every array: see
    /// [`Launch::outputs`].
    pub buffers: Vec<Vec<u8>>,
    /// What `printf` wrote, in the order of the clusters.
    pub printed: Vec<u8>,
    /// Counts.
    pub stats: Stats,
}
