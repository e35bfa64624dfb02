//! The compiler as the command line calls it.

use arch::Target;
use codegen::compile::{File, Output};
pub use codegen::pipeline::Kind;
use codegen::pipeline::{Options, REGISTER_LEVEL};
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
    /// What comes out.
    pub kind: Kind,
    /// Contract multiplications and additions.
    pub fmad: bool,
    /// Check after every pass.
    pub verify: bool,
    /// Keep the text of functions after this pass.
    pub print_after: Option<String>,
    /// Limit of registers a thread.
    pub max_registers: Option<u32>,
    /// Launch bounds of entries that have none of their own, or of all.
    pub bounds: Bounds,
    /// Entries to compile; none for all.
    pub entries: Vec<String>,
    /// Wait before exits for errors of memory.
    pub errors_at_exit: bool,
    /// Trap where the stack ends.
    pub check_stack: bool,
    /// Trap where arrays on the stack were written beyond.
    pub protect_stack: bool,
    /// One thread adds for those that add the same number of floating point.
    pub gather_atomics: bool,
    /// With [`Kind::Relocatable`]: entries have copies of functions that only the module knows.
    pub copy_functions: bool,
    /// Notes of the compiler in the file.
    pub annotate: bool,
    /// Tables of indexed branches in a constant bank.
    pub constant_tables: bool,
    /// How freely registers are used, 0 to 10.
    pub register_level: u8,
    /// Threads to compile with; 0 for one a core.
    pub threads: usize,
    /// Who counts the threads of several programs.
    pub permits: Option<Arc<dyn codegen::parallel::Permits>>,
    /// The PTX text, where lines are wanted.
    pub line_info: Option<Arc<[u8]>>,
    /// The debugging sections of the PTX are carried over.
    pub debug: bool,
    /// Work that goes into the code, 0 to [`codegen::opt::MOST_EFFORT`].
    pub effort: u8,
    /// Limit of registers of a device function, with [`Kind::Relocatable`].
    pub max_function_registers: Option<u32>,
    /// Options for the note.
    pub options: String,
}

impl Request {
    /// A request as without options.
    pub fn new(target: Target, kind: Kind) -> Request {
        Request {
            target,
            kind,
            fmad: true,
            verify: false,
            print_after: None,
            max_registers: None,
            bounds: Bounds::default(),
            entries: Vec::new(),
            errors_at_exit: false,
            check_stack: false,
            protect_stack: false,
            gather_atomics: false,
            copy_functions: false,
            annotate: false,
            constant_tables: true,
            register_level: REGISTER_LEVEL,
            threads: 0,
            permits: None,
            line_info: None,
            debug: false,
            effort: codegen::opt::MOST_EFFORT,
            max_function_registers: None,
            options: format!("-arch {target} "),
        }
    }
}

/// Launch bounds from the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// `.maxntid`.
    pub max_threads: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub min_ctas: Option<u32>,
    /// They, and the limit of registers, go before what the PTX says.
    pub first: bool,
}

/// Compiles a checked module.
///
/// # Errors
/// Those of the compiler.
pub fn compile(module: &Module, request: &Request) -> Result<Output, Vec<Diagnostic>> {
    codegen::compile::compile(module, &options(request))
}

/// As [`compile`], with the file in parts.
///
/// # Errors
/// As [`compile`].
pub fn in_parts(module: &Module, request: &Request) -> Result<(File, Output), Vec<Diagnostic>> {
    codegen::compile::in_parts(module, &options(request))
}

/// Warnings of launch bounds of the module or the request that do not fit the machine.
pub fn bounds(module: &Module, request: &Request) -> Vec<Diagnostic> {
    codegen::bounds::warnings(module, &options(request))
}

fn options(request: &Request) -> Options {
    let tool = Tool { options: request.options.clone(), ..codegen::compile::default_tool() };
    Options {
        target: request.target,
        kind: request.kind,
        tool,
        fmad: request.fmad,
        verify: request.verify,
        print_after: request.print_after.clone(),
        max_registers: request.max_registers,
        max_threads: request.bounds.max_threads,
        min_ctas: request.bounds.min_ctas,
        override_directives: request.bounds.first,
        entries: request.entries.clone(),
        errors_at_exit: request.errors_at_exit,
        check_stack: request.check_stack,
        protect_stack: request.protect_stack,
        gather_atomics: request.gather_atomics,
        copy_functions: request.copy_functions,
        annotate: request.annotate,
        constant_tables: request.constant_tables,
        register_level: request.register_level,
        threads: request.threads,
        permits: request.permits.clone(),
        line_info: request.line_info.clone(),
        debug: request.debug,
        effort: request.effort,
        max_function_registers: request.max_function_registers,
        cancel: None,
    }
}
