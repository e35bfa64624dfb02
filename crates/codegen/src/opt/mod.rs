//! The optimizer: small passes over the IR, each a file with one entry function.
//!
//! Every pass keeps the verifier content and needs nothing from the others; the order is [`run`]'s.

pub mod alike;
pub mod blocks;
mod bytes;
pub mod carried;
mod chains;
mod conditions;
pub mod contract;
pub mod dce;
pub mod elected;
pub mod eval;
mod floors;
pub mod funnel;
pub mod gvn;
pub mod halves;
pub mod idle;
pub mod join;
mod ladder;
pub mod licm;
pub mod lone;
pub mod lop3;
pub mod low;
pub mod masked;
pub mod narrow;
pub mod pairs;
pub mod params;
pub mod pressure;
mod products;
pub mod regroup;
pub mod reread;
pub mod rotate;
pub mod simplify;
mod stale;
pub mod strides;
pub mod sums;
mod threading;
pub mod twins;
pub mod unroll;
mod upper;
mod whole;
pub mod wider;
pub mod words;

use crate::ir::{Func, Value};

/// Next to nothing is optimized.
pub const NO_EFFORT: u8 = 0;
/// What makes code short, and nothing that takes long: `--Ofast-compile max`.
pub const LEAST_EFFORT: u8 = 1;
/// One round of value numbering: `-O1`, `--Ofast-compile mid`.
pub const SOME_EFFORT: u8 = 2;
/// No motion of loop invariants: `--Ofast-compile min`.
pub const MORE_EFFORT: u8 = 3;
/// All passes.
pub const MOST_EFFORT: u8 = 4;

/// A pass: its name, the least effort that runs it, itself.
type Pass = (&'static str, u8, fn(&mut Func));

/// The passes in their order. Contraction changes results, within what PTX allows: it is there at every effort, so that they
/// do not depend on it.
const PASSES: [Pass; 44] = [
    ("params", NO_EFFORT, params::run),
    ("blocks", LEAST_EFFORT, blocks::run),
    ("rotate", MOST_EFFORT, |f| {
        if rotate::run(f) {
            params::run(f);
        }
    }),
    ("words", SOME_EFFORT, words::run),
    ("narrow", SOME_EFFORT, narrow::run),
    ("upper", SOME_EFFORT, upper::run),
    ("regroup", SOME_EFFORT, regroup::run),
    ("ladder", SOME_EFFORT, |f| {
        if ladder::run(f) {
            dce::run(f);
        }
    }),
    ("gvn", LEAST_EFFORT, gvn::run),
    ("reread", SOME_EFFORT, reread::run),
    ("whole", SOME_EFFORT, whole::run),
    ("sums", SOME_EFFORT, sums::run),
    ("dce", NO_EFFORT, dce::run),
    (CONTRACT, NO_EFFORT, contract::run),
    ("lone", LEAST_EFFORT, lone::run),
    ("idle", SOME_EFFORT, |f| {
        if idle::run(f) {
            blocks::run(f);
            dce::run(f);
        }
    }),
    ("stale", SOME_EFFORT, stale::run),
    ("masked", SOME_EFFORT, masked::run),
    ("threading", MORE_EFFORT, threads),
    ("blocks", SOME_EFFORT, blocks::run),
    ("params", SOME_EFFORT, params::run),
    ("conditions", SOME_EFFORT, |f| {
        if conditions::run(f) {
            blocks::run(f);
        }
    }),
    ("carried", MORE_EFFORT, |f| {
        if carried::run(f) {
            params::run(f);
            dce::run(f);
        }
    }),
    ("twins", MORE_EFFORT, |f| {
        if twins::run(f) {
            params::run(f);
            gvn::run(f);
            dce::run(f);
        }
    }),
    ("halves", SOME_EFFORT, |f| {
        if halves::run(f) {
            // First what parameters were given that nobody reads now: it would stand for halves taken out behind a loop.
            params::run(f);
            dce::run(f);
            gvn::run(f);
            dce::run(f);
        }
    }),
    ("preheaders", MOST_EFFORT, blocks::preheaders),
    ("licm", MOST_EFFORT, licm::run),
    ("unroll", MOST_EFFORT, unroll::run),
    ("threading", MORE_EFFORT, threads),
    ("pairs", MORE_EFFORT, pairs::run),
    ("gvn", MORE_EFFORT, gvn::run),
    ("reread", MORE_EFFORT, reread::run),
    ("alike", MORE_EFFORT, |f| {
        if alike::run(f) {
            gvn::run(f);
        }
    }),
    ("wider", MORE_EFFORT, wider::run),
    ("strides", MOST_EFFORT, strides::run),
    ("products", SOME_EFFORT, products::run),
    ("chains", SOME_EFFORT, chains::run),
    ("dce", SOME_EFFORT, dce::run),
    ("join", MOST_EFFORT, join::run),
    ("funnel", SOME_EFFORT, funnel::run),
    ("low", SOME_EFFORT, low::run),
    ("bytes", SOME_EFFORT, bytes::run),
    ("lop3", LEAST_EFFORT, lop3::run),
    ("dce", SOME_EFFORT, dce::run),
];

const CONTRACT: &str = "contract";

/// Leads ways past questions that are answered, and tidies up behind that.
fn threads(f: &mut Func) {
    if threading::run(f) {
        params::run(f);
        blocks::run(f);
        params::run(f);
        gvn::run(f);
        dce::run(f);
    }
}

/// Runs the passes that `effort` (0 to [`MOST_EFFORT`]) allows, in their order. `fmad`: multiplications and additions without
/// explicit rounding may be fused. `watch` is called after each pass with its name, and ends the work by `false`.
pub fn run(f: &mut Func, effort: u8, fmad: bool, watch: &mut dyn FnMut(&str, &Func) -> bool) {
    for (name, least, pass) in PASSES {
        if effort >= least && (fmad || name != CONTRACT) {
            pass(f);
            if !watch(name, f) {
                return;
            }
        }
    }
}

/// Follows replacements to their end.
#[inline]
pub(crate) fn resolve(replaced: &mut [Value], v: Value) -> Value {
    // Most values stay.
    let next = replaced[v.index()];
    if next == v { v } else { resolve_from(replaced, v, next) }
}

/// The same for a value that is replaced by `root`, which may be replaced, too.
fn resolve_from(replaced: &mut [Value], v: Value, mut root: Value) -> Value {
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
        let block = &mut f.blocks[b];
        for &id in &block.insts {
            for a in &mut f.insts[id.0 as usize].args {
                *a = resolve(replaced, *a);
            }
        }
        block.term.map(|v| resolve(replaced, v));
    }
}

/// By value: how often instructions and the ends of blocks read it.
pub(crate) fn uses(f: &Func) -> Vec<u32> {
    let mut uses = vec![0u32; f.values.len()];
    for b in &f.blocks {
        for &i in &b.insts {
            f.inst(i).args.iter().for_each(|a| uses[a.index()] += 1);
        }
        b.term.visit(|v| uses[v.index()] += 1);
    }
    uses
}

/// The table in which every value stands for itself.
pub(crate) fn identity(f: &Func) -> Vec<Value> {
    (0..f.values.len() as u32).map(Value).collect()
}
