//! The optimizer: small passes over the IR, each a file with one entry function.
//!
//! Every pass keeps the verifier content and needs nothing from the others; the order is [`run`]'s.

pub mod blocks;
pub mod contract;
pub mod dce;
pub mod eval;
pub mod gvn;
pub mod licm;
pub mod params;
pub mod simplify;

use crate::ir::{Func, Value};

/// Runs the passes in their order. `fmad`: multiplications and additions without explicit rounding may be fused.
/// `watch` is called after each pass with its name.
pub fn run(f: &mut Func, fmad: bool, watch: &mut dyn FnMut(&str, &Func)) {
    let mut step = |name: &str, f: &mut Func, pass: &dyn Fn(&mut Func)| {
        pass(f);
        watch(name, f);
    };
    step("params", f, &params::run);
    step("blocks", f, &blocks::run);
    step("gvn", f, &gvn::run);
    step("dce", f, &dce::run);
    if fmad {
        step("contract", f, &contract::run);
    }
    step("blocks", f, &blocks::run);
    step("params", f, &params::run);
    step("preheaders", f, &blocks::preheaders);
    step("licm", f, &licm::run);
    step("gvn", f, &gvn::run);
    step("dce", f, &dce::run);
}

/// Follows replacements to their end.
pub(crate) fn resolve(replaced: &mut [Value], v: Value) -> Value {
    let mut root = v;
    while replaced[root.index()] != root {
        root = replaced[root.index()];
    }
    let mut v = v;
    while replaced[v.index()] != root {
        v = std::mem::replace(&mut replaced[v.index()], root);
    }
    root
}

/// Rewrites every use by a replacement table.
pub(crate) fn substitute(f: &mut Func, replaced: &mut [Value]) {
    for b in 0..f.blocks.len() {
        for i in 0..f.blocks[b].insts.len() {
            let id = f.blocks[b].insts[i];
            for a in &mut f.insts[id.0 as usize].args {
                *a = resolve(replaced, *a);
            }
        }
        f.blocks[b].term.map(|v| resolve(replaced, v));
    }
}

/// The table in which every value stands for itself.
pub(crate) fn identity(f: &Func) -> Vec<Value> {
    (0..f.values.len() as u32).map(Value).collect()
}
