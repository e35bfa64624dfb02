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

/// What keeps a module from being compiled to a whole program: functions that are declared and defined nowhere, external
/// arrays without a size, unified functions, `.target debug` without debugging sections. A compilation whose output is linked
/// afterwards may have them. Gives fatal messages, in the order of the module; none for a whole program.
pub fn unresolved(m: &Module) -> Vec<Diagnostic> {
    let mut used: FxHashSet<FuncId> = FxHashSet::default();
    let mut out = Vec::new();
    for f in &m.funcs {
        let body = f.body.as_ref().filter(|b| b.may_name_functions()).map(Body::unpacked);
        for inst in body.iter().flat_map(|b| b.insts()) {
            used.extend(inst.operands.iter().filter_map(|o| match o {
                Operand::Func(id) => Some(*id),
                _ => None,
            }));
        }
        for t in &f.tables {
            if let Table::Call { targets, .. } = t {
                used.extend(targets);
            }
        }
    }
    let stored = m.vars.iter().flat_map(|v| v.init.iter().flatten()).filter_map(|i| match i {
        InitValue::Func(id) => Some(*id),
        _ => None,
    });
    used.extend(stored);
    let aliased: FxHashSet<FuncId> = m
        .items
        .iter()
        .filter_map(|i| match i {
            Item::Alias { alias, .. } => Some(*alias),
            _ => None,
        })
        .collect();
    let fatal = |message: String| Diagnostic::new(Severity::Fatal, message);
    for (i, f) in m.funcs.iter().enumerate() {
        let id = FuncId(i as u32);
        let outside = SYSTEM.contains(&f.name.as_str());
        let wanted = f.linkage != Linkage::Extern || used.contains(&id);
        if f.body.is_none() && wanted && !aliased.contains(&id) && !outside {
            out.push(fatal(format!("Unresolved extern function '{}'", f.name)).at(f.span));
        }
    }
    let unified = |list: &[String]| list.iter().any(|a| a.starts_with(".unified"));
    let alone = "Feature 'unified Functions' requires command line option '--compile-only'.";
    for f in m.funcs.iter().filter(|f| unified(&f.attributes)) {
        out.push(fatal(alone.to_string()).at(f.span));
    }
    for v in &m.vars {
        let open = v.dims.iter().any(Option::is_none);
        if v.linkage == Linkage::Extern && open && matches!(v.space, Space::Global | Space::Const) {
            out.push(fatal(format!("Unresolved extern variable '{}'", v.name)).at(v.span));
        }
        if unified(&v.attributes) {
            out.push(fatal(alone.to_string()).at(v.span));
        }
    }
    let debugged = |i: &Item| matches!(i, Item::Section { name, .. } if name.starts_with(".debug"));
    if m.target.iter().any(|t| t == "debug") && !m.items.iter().any(debugged) {
        out.push(fatal("Debug information not found in presence of .target debug".to_string()));
    }
    out
}
