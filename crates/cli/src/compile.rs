//! The compiler as the command line calls it: a checked module in, the bytes of a cubin and what is to be said of it out.

use arch::Target;
use diag::Diagnostic;
use ptx::module::Module;

/// The vendor's release that output and messages follow.
pub const RELEASE: &str = "13.5";
/// The same, in full.
pub const RELEASE_FULL: &str = "13.5.37";

/// What to compile, and how.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "read by what joins the passes, which is not there yet")]
pub struct Request {
    /// The GPU.
    pub target: Target,
    /// Contract multiplications and additions.
    pub fmad: bool,
    /// Check after every pass.
    pub verify: bool,
    /// Keep the text of functions after this pass.
    pub print_after: Option<String>,
    /// Limit of registers a thread.
    pub max_registers: Option<u32>,
    /// Entries to compile; all if empty.
    pub entries: Vec<String>,
    /// Options for the note.
    pub options: String,
}

/// What an entry needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Its name.
    pub name: String,
    /// Registers a thread.
    pub registers: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Bytes of its own stack frame.
    pub frame: u32,
    /// Bytes of stack over the deepest chain of calls; none where it is unknown.
    pub stack: Option<u32>,
    /// Bytes of its own shared memory.
    pub shared: u32,
    /// Bytes of stores and loads of spilled registers.
    pub spill_stores: u32,
    /// Loads.
    pub spill_loads: u32,
    /// Device functions with their stack frames.
    pub functions: Vec<(String, u32)>,
}

/// A compiled module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The file.
    pub cubin: Vec<u8>,
    /// What is to be said though nothing failed.
    pub warnings: Vec<Diagnostic>,
    /// Bytes of variables in global memory.
    pub global_bytes: u64,
    /// The entries, in the order of the PTX.
    pub stats: Vec<Stats>,
    /// Texts asked for.
    pub printed: Vec<String>,
}

/// Compiles a checked module.
///
/// # Errors
/// What the compiler does not support, with its place.
pub fn compile(_module: &Module, request: &Request) -> Result<Output, Vec<Diagnostic>> {
    // The passes are there; what joins them into one call is not.
    Err(vec![Diagnostic::error(format!("Code generation for '{}' is not supported yet", request.target))])
}
