//! The way of the data, on one screen: PTX to IR to machine code of one kernel.

use crate::chips;
use crate::layout::Layout;
use crate::lower::{self, Program};
use crate::parallel::Permits;
use crate::{beyond, converge, expand, inliner, ir, isel, mir, opt, own, registers};
use diag::{Diagnostic, Severity};
use ptx::module::{FuncId, FuncKind, Linkage, Module};
use sass::reg::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// An executable: what kernels reach is with them.
    #[default]
    Executable,
    /// A relocatable file: functions and variables by name, for a linker.
    Relocatable,
    /// As [`Kind::Relocatable`], but functions that no entry reaches are left out, and the file says that it is a whole program
    /// which a library extends.
    Extensible,
}

/// What [`Options::register_level`] is unless something else is asked for.
pub const REGISTER_LEVEL: u8 = 5;

/// How to compile.
#[derive(Clone, Debug)]
pub struct Options {
    /// The GPU.
    pub target: arch::Target,
    /// What comes out.
    pub kind: Kind,
    /// Who the file says made it.
    pub tool: cubin::image::Tool,
    /// Fuse multiplications and additions where PTX allows it.
    pub fmad: bool,
    /// Run every verifier after every pass, and the hazard checker on the result.
    pub verify: bool,
    /// Keep the text of functions after the pass of this name (`all`: after every pass).
    pub print_after: Option<String>,
    /// Largest number of registers a thread may have, from the command line.
    pub max_registers: Option<u32>,
    /// `.maxntid` of entries that have none of their own.
    pub max_threads: Option<[u32; 3]>,
    /// `.minnctapersm` of entries that have none of their own.
    pub min_ctas: Option<u32>,
    /// These three limits go before the directives of the PTX.
    pub override_directives: bool,
    /// Names of the entries to compile; all where there is none.
    pub entries: Vec<String>,
    /// Wait before every exit until errors of memory accesses have shown.
    pub errors_at_exit: bool,
    /// Trap where a function takes more of the stack than there is.
    pub check_stack: bool,
    /// Functions with arrays on the stack trap at their end where something has written beyond them.
    pub protect_stack: bool,
    /// Threads that add the same number of floating point to one place leave it to one of them, which rounds less often.
    pub gather_atomics: bool,
    /// In a relocatable file, functions that only this module knows are copied into the entries that call them, where they are
    /// small or called once.
    pub copy_functions: bool,
    /// The file notes how many instructions and registers each function has.
    pub annotate: bool,
    /// Indexed branches may find their targets in a table of a constant bank.
    pub constant_tables: bool,
    /// How freely instructions are ordered so that more values are alive at once: 0 not at all, 10 most.
    pub register_level: u8,
    /// Most threads that compile functions beside each other; 0 for what the machine has. The output is the same.
    pub threads: usize,
    /// Whom to ask for leave before each thread beside the first, where somebody counts them.
    pub permits: Option<Arc<dyn Permits>>,
    /// How much work goes into the code, 0 to [`opt::MOST_EFFORT`]: at 0 nothing is inlined and next to nothing optimized.
    pub effort: u8,
    /// Registers of a device function of a relocatable file, at most; it goes before `max_registers`.
    pub max_function_registers: Option<u32>,
    /// Set by whoever does not want the result any more: compilation ends at the next pass or function, with an error.
    pub cancel: Option<Arc<AtomicBool>>,
    /// The PTX text, where the output shall say which line each instruction comes from.
    pub line_info: Option<Arc<[u8]>>,
    /// Carry the debugging sections of the PTX over; `line_info` is there, too.
    pub debug: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            target: arch::Target { sm: 90, variant: arch::Variant::Plain },
            kind: Kind::Executable,
            tool: crate::compile::default_tool(),
            fmad: true,
            verify: false,
            print_after: None,
            max_registers: None,
            max_threads: None,
            min_ctas: None,
            override_directives: false,
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
            effort: opt::MOST_EFFORT,
            max_function_registers: None,
            cancel: None,
            line_info: None,
            debug: false,
        }
    }
}

impl Options {
    /// The error that ends a compilation that nobody wants any more.
    ///
    /// # Errors
    /// If it was cancelled.
    pub fn go_on(&self) -> Result<(), Diagnostic> {
        match &self.cancel {
            Some(c) if c.load(Ordering::Relaxed) => {
                Err(Diagnostic::new(Severity::Fatal, "the compilation was cancelled"))
            }
            _ => Ok(()),
        }
    }
}

/// What watches the passes: verifies, and keeps texts that were asked for.
pub struct Watch<'a> {
    options: &'a Options,
    /// Texts asked for, in order.
    pub printed: Vec<String>,
    /// The first broken rule: a bug of the compiler, said with the pass that made it.
    pub broken: Option<String>,
}

impl<'a> Watch<'a> {
    /// A watch for these options.
    pub fn new(options: &'a Options) -> Watch<'a> {
        Watch { options, printed: Vec::new(), broken: None }
    }

    /// True if the text after this pass was asked for.
    fn wants(&self, pass: &str) -> bool {
        self.options.print_after.as_deref().is_some_and(|p| p == pass || p == "all")
    }

    /// Looks at where the threads of a warp meet.
    pub fn meetings(&mut self, f: &ir::Func, found: &converge::Convergence) {
        self.ir("converge", f);
        if self.options.verify
            && self.broken.is_none()
            && let Err(e) = converge::check::run(f, found)
        {
            self.broken = Some(format!("in function '{}': {e}", f.name));
        }
    }

    /// Looks at IR after a pass.
    pub fn ir(&mut self, pass: &str, f: &ir::Func) {
        if self.wants(pass) {
            self.printed.push(format!("# after {pass}\n{}", ir::text::print(f)));
        }
        if self.options.verify
            && self.broken.is_none()
            && let Err(e) = ir::verify::verify(f)
        {
            self.broken = Some(format!("after {pass}: {e}"));
        }
    }
}

/// The machine code of a kernel's functions before register allocation, with what lowering found out.
pub struct Selected {
    /// The kernel, then its device functions.
    pub funcs: Vec<mir::Func>,
    /// Shared memory, parameters, tables.
    pub program: Program,
}

/// How the threads of a kernel have registers.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    /// What changes their number on the way is kept.
    pub kept: bool,
    /// Routines for seldom cases are called even where it is, and where products of warpgroups are under way.
    pub calls: bool,
}

/// Lowers, optimizes and selects one kernel.
///
/// # Errors
/// What is not supported, with its place; with `verify`, a broken rule of a representation.
pub fn select(
    m: &Module,
    entry: FuncId,
    layout: &Layout,
    options: &Options,
    max_gprs: u32,
    moving: Moving,
    watch: &mut Watch,
) -> Result<Selected, Vec<Diagnostic>> {
    let mut program = lower::lower(m, entry, layout)?;
    let mut funcs = Vec::new();
    let checks = isel::Checks {
        errors_at_exit: options.errors_at_exit,
        stack: options.check_stack,
        overflow: options.protect_stack,
    };
    let mut list = std::mem::take(&mut program.funcs);
    if options.effort > 0 && list.len() > 1 {
        let kept = inliner::run(&mut list, &mut program.table);
        program.ids = kept.into_iter().map(|n| program.ids[n]).collect();
        list.iter().for_each(|f| watch.ir("inline", f));
    }
    if options.effort > 0
        && options.copy_functions
        && layout.relocatable
        && m.funcs[entry.index()].kind == FuncKind::Entry
    {
        let own = |n: u32| {
            let g = &m.funcs[n as usize];
            let known_here = g.linkage == Linkage::Internal && g.body.is_some();
            known_here.then(|| lower::lower(m, FuncId(n), layout).ok()?.funcs.into_iter().next()).flatten()
        };
        list.iter_mut().for_each(|f| inliner::copies(f, &own));
        list.iter().for_each(|f| watch.ir("inline", f));
    }
    let lightly = calls_lightly(options, layout, max_gprs);
    // What looks after the stack takes registers that the ABI leaves to functions.
    let looked_after = options.check_stack || options.protect_stack;
    let products = list.iter().any(|f| f.insts.iter().any(|i| i.op == ir::Op::Wgmma));
    let moved = list.iter().any(|f| !registers::counts(f).is_empty());
    let own = lightly && !looked_after && !products && !moved && own::mark(&mut list, &program.table, max_gprs);
    if !own {
        beyond::to_stack(&mut list);
    }
    let seldom = || expand::builtins::Seldom::behind(list.len() as u32, moving.calls);
    let mut seldom = (lightly && (moving.calls || !moved)).then(seldom);
    let mut converged = Vec::new();
    for (n, f) in list.iter_mut().enumerate() {
        options.go_on().map_err(|e| vec![e])?;
        watch.ir("lower", f);
        registers::expand(f, moving.kept);
        // With the least effort what there is before expansion is seen to behind it.
        if options.effort != opt::LEAST_EFFORT {
            opt::params::run(f);
        }
        watch.ir("params", f);
        if !options.constant_tables {
            expand::switches::run(f);
        }
        if options.gather_atomics {
            expand::gather::run(f);
        }
        if options.effort > 0 && !layout.relocatable && arch::files(layout.sm).reserved_shared > 0 {
            expand::shared::run(f);
        }
        // A function that is called so calls nothing.
        expand::with(f, seldom.as_mut().filter(|_| n == 0 || !own));
        watch.ir("expand", f);
        opt::run(f, options.effort, options.fmad, &mut |pass, f| {
            watch.ir(pass, f);
            options.go_on().is_ok()
        });
        options.go_on().map_err(|e| vec![e])?;
        if options.effort >= opt::MOST_EFFORT {
            expand::gather::counters(f);
            watch.ir("gather", f);
        }
        if chips::one_handle(layout.sm) {
            expand::handles::run(f);
        }
        watch.ir("handles", f);
        if options.effort >= opt::SOME_EFFORT && opt::elected::run(f) {
            opt::blocks::run(f);
            watch.ir("elected", f);
        }
        let convergence = converge::run(f);
        watch.meetings(f, &convergence);
        if let Some(b) = &watch.broken {
            return Err(vec![internal(b)]);
        }
        converged.push(convergence);
    }
    let machine = |list: &[ir::Func], n: usize| {
        isel::select(&list[n], layout, &converged[n], max_gprs, checks).map_err(|e| vec![e])
    };
    if own {
        for n in 1..list.len() {
            funcs.push(machine(&list, n)?);
        }
        // What is called so leaves uniform registers as they are.
        if funcs.iter().any(writes_uniform) {
            own::unmark(&mut list);
            beyond::to_stack(&mut list);
            funcs.clear();
        }
    }
    if funcs.is_empty() {
        for n in 0..list.len() {
            funcs.push(machine(&list, n)?);
        }
    } else {
        funcs.insert(0, machine(&list, 0)?);
    }
    for mut f in seldom.iter().flat_map(|s| s.functions()) {
        let convergence = converge::run(&mut f);
        watch.meetings(&f, &convergence);
        if let Some(b) = &watch.broken {
            return Err(vec![internal(b)]);
        }
        funcs.push(isel::select(&f, layout, &convergence, max_gprs, isel::Checks::default()).map_err(|e| vec![e])?);
    }
    Ok(Selected { funcs, program })
}

/// Registers that there must be for a kernel to call routines for seldom cases: twelve or sixteen are the routine's.
const ROOM: u32 = 28;

/// May a kernel call what arithmetic does in seldom cases, and its own functions, so that few registers change?
fn calls_lightly(options: &Options, layout: &Layout, max_gprs: u32) -> bool {
    options.effort > 0 && !options.debug && !layout.relocatable && max_gprs >= ROOM
}

/// Does it write registers that a warp shares?
fn writes_uniform(f: &mir::Func) -> bool {
    f.vregs.iter().any(|file| matches!(file, File::Ugpr | File::Upred))
}

/// A diagnostic for a broken rule of the compiler itself.
pub fn internal(what: &str) -> Diagnostic {
    Diagnostic::new(Severity::Fatal, format!("Internal compiler error: {what}"))
}
