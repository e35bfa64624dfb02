//! What a module leaves to a linker.

use crate::module::*;
use crate::types::Space;
use diag::{Diagnostic, Severity};
use rustc_hash::FxHashSet;

/// Functions that the system brings with it: a whole program may call them without a definition. Those that the vendor's compiler
/// was seen to take.
pub const SYSTEM: [&str; 10] = [
    "vprintf",
    "malloc",
    "free",
    "__assertfail",
    "cudaGraphLaunch",
    "cudaGraphSetConditional",
    "cudaGraphKernelNodeSetEnabled",
    "cudaGraphKernelNodeSetGridDim",
    "cudaGraphKernelNodeSetParam",
    "cudaGraphKernelNodeUpdatesApply",
];

/// How a module is compiled, as far as what it leaves open matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linking {
    /// The output is for a linker (`-c`).
    pub relocatable: bool,
    /// It is a whole program that others may extend (`-ewp`).
    pub extensible: bool,
    /// Code for a debugger was asked for (`-g`), also where `.target debug` is missing.
    pub debug: bool,
}

/// Functions that a function names, in the order of its text.
pub(super) fn named(f: &Function) -> impl Iterator<Item = FuncId> {
    let mut out = Vec::new();
    if let Some(body) = f.body.as_ref().filter(|b| b.may_name_functions()).map(Body::unpacked) {
        for inst in body.insts() {
            out.extend(inst.operands.iter().filter_map(|o| match o {
                Operand::Func(id) => Some(*id),
                _ => None,
            }));
        }
    }
    for t in &f.tables {
        if let Table::Call { targets, .. } = t {
            out.extend(targets);
        }
    }
    out.into_iter()
}

/// What keeps a checked module from being compiled, of what it leaves open to others or to a debugger, with warnings, in the vendor's
/// order. They come in steps: after a step with an error, also a warning that counts as one, nothing is said.
pub fn outside(m: &Module, how: Linking) -> Vec<Vec<Diagnostic>> {
    let meant = m.target.iter().any(|t| t == "debug");
    let debugged = |i: &Item| matches!(i, Item::Section { name, .. } if name.starts_with(".debug"));
    if meant && !m.items.iter().any(debugged) {
        return vec![vec![Diagnostic::error("Debug information not found in presence of .target debug")]];
    }
    let mut steps = vec![conventions(m, how, meant)];
    let how = Linking { extensible: how.extensible && !without_abi(m), ..how };
    let (mut variables, mut open) = variables(m, how);
    if open.is_empty() {
        open = functions(m, how);
    }
    // The first that is missing is the last word.
    open.truncate(1);
    variables.extend(open);
    steps.push(variables);
    steps
}

/// True where a function has several results, which the calling convention does not have: nobody can extend such a program.
pub fn without_abi(m: &Module) -> bool {
    m.funcs.iter().any(|f| f.returns.len() > 1)
}

/// What keeps a module from being compiled to a whole program: the errors of the first step of [`outside`] that has any.
pub fn unresolved(m: &Module) -> Vec<Diagnostic> {
    let steps = outside(m, Linking::default());
    steps.into_iter().find(|s| s.iter().any(Diagnostic::is_error)).unwrap_or_default()
}

fn fatal(message: String) -> Diagnostic {
    Diagnostic::new(Severity::Fatal, message)
}

/// Unified functions and variables, and functions that no calling convention knows.
fn conventions(m: &Module, how: Linking, meant: bool) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let unified = |list: &[String]| list.iter().any(|a| a.starts_with(".unified"));
    let first = m.funcs.iter().find(|f| unified(&f.attributes)).map(|f| f.span);
    let first = first.or_else(|| m.vars.iter().find(|v| unified(&v.attributes)).map(|v| v.span));
    if let Some(span) = first.filter(|_| !how.relocatable) {
        let alone = "Feature 'unified Functions' requires command line option '--compile-only'.";
        out.push(Diagnostic::error(alone).label(span, ""));
    }
    let Some(f) = m.funcs.iter().find(|f| f.returns.len() > 1) else { return out };
    let warning = |text: String| Diagnostic::new(Severity::Warning, text);
    if how.extensible {
        let what = "'--extensible-whole-program' not supported for 'compilation without ABI'";
        out.push(warning(format!("Command line option {what}, will be ignored")));
    }
    if how.debug {
        out.push(Diagnostic::error("Function with multiple return values is not allowed with ABI").label(f.span, ""));
    } else {
        let text = format!("Function '{}' with multiple return values found, disabling ABI", f.name);
        out.push(warning(text).label(f.span, ""));
        if meant {
            out.push(warning("Program compiled without abi might not work properly under debugger".to_string()));
        }
    }
    if how.relocatable {
        out.push(fatal("'Compile only(-c)' requires ABI".to_string()).label(f.span, ""));
    }
    out
}

/// Variables of other modules: warnings of those that become this module's own, and fatal messages of arrays without a size.
fn variables(m: &Module, how: Linking) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
    let (mut own, mut open) = (Vec::new(), Vec::new());
    let outside = |v: &&Variable| v.linkage == Linkage::Extern && matches!(v.space, Space::Global | Space::Const);
    for v in m.vars.iter().filter(outside).filter(|_| !how.relocatable) {
        if v.dims.iter().any(Option::is_none) {
            open.push(fatal(format!("Unresolved extern variable '{}'", v.name)).label(v.span, ""));
        } else if !how.extensible && open.is_empty() {
            let rest = "in whole program compilation, ignoring extern qualifier";
            let message = format!("Unresolved extern variable '{}' {rest}", v.name);
            own.push(Diagnostic::new(Severity::Warning, message).label(v.span, ""));
        }
    }
    (own, open)
}

/// Functions that nobody defines: those that are named, in the order of their names in the text, then declared ones. What a linker
/// finds is declared `.extern`.
fn functions(m: &Module, how: Linking) -> Vec<Diagnostic> {
    let linked = how.relocatable || how.extensible;
    let aliased: FxHashSet<FuncId> = m
        .items
        .iter()
        .filter_map(|i| match i {
            Item::Alias { alias, .. } => Some(*alias),
            _ => None,
        })
        .collect();
    let missing = |id: &FuncId| {
        let f = &m.funcs[id.index()];
        let elsewhere = linked && f.linkage == Linkage::Extern;
        f.body.is_none() && !aliased.contains(id) && !SYSTEM.contains(&f.name.as_str()) && !elsewhere
    };
    let declared: Vec<FuncId> = (0..m.funcs.len() as u32).map(FuncId).filter(missing).collect();
    if declared.is_empty() {
        return Vec::new();
    }
    let stored = m.vars.iter().flat_map(|v| v.init.iter().flatten()).filter_map(InitValue::function);
    let used: Vec<FuncId> = m.funcs.iter().flat_map(named).chain(stored).filter(missing).collect();
    let wanted = declared.into_iter().filter(|id| m.funcs[id.index()].linkage != Linkage::Extern);
    let mut seen = FxHashSet::default();
    used.into_iter()
        .chain(wanted)
        .filter(|id| seen.insert(*id))
        .map(|id| &m.funcs[id.index()])
        .map(|f| fatal(format!("Unresolved extern function '{}'", f.name)).label(f.span, ""))
        .collect()
}
