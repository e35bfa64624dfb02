//! The compiler as the command line calls it.

use arch::Target;
use codegen::compile::Output;
use codegen::pipeline::Options;
use cubin::image::Tool;
use diag::Diagnostic;
use ptx::module::Module;
use std::sync::Arc;

/// The vendor's release that output and messages follow.
pub const RELEASE: &str = "13.5";
/// The same, in full.
pub const RELEASE_FULL: &str = "13.5.37";

/// What to compile for, and how.
#[derive(Clone, Debug)]
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
    /// The PTX text, where lines are wanted.
    pub line_info: Option<Arc<[u8]>>,
    /// Options for the note.
    pub options: String,
}

/// Compiles a checked module.
///
/// # Errors
/// Those of the compiler.
pub fn compile(module: &Module, request: &Request) -> Result<Output, Vec<Diagnostic>> {
    let tool = Tool { options: request.options.clone(), ..codegen::compile::default_tool() };
    let options = Options {
        target: request.target,
        tool,
        fmad: request.fmad,
        verify: request.verify,
        print_after: request.print_after.clone(),
        max_registers: request.max_registers,
        line_info: request.line_info.clone(),
    };
    codegen::compile::compile(module, &options)
}
