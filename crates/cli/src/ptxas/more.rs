//! Options that change the module or say something about it before it is compiled.

use crate::compile::Bounds;
use crate::options::Parsed;
use codegen::opt::{LEAST_EFFORT, MORE_EFFORT, MOST_EFFORT, NO_EFFORT, SOME_EFFORT};
use diag::{Diagnostic, Severity};
use ptx::access::{CacheDefault, CacheOp};
use ptx::isa::{Mod, Op};
use ptx::module::{Body, Module};
use ptx::types::ScalarType;

/// Cache operators of loads and of stores.
pub type Caches = [Option<CacheDefault>; 2];

/// Those of `--def-load-cache` and its like, with warnings of what contradicts itself; or what is no operator.
pub fn caches(parsed: &Parsed) -> Result<(Caches, Vec<String>), String> {
    let mut out = [None; 2];
    let mut warnings = Vec::new();
    let words = [&["ca", "cg", "cs", "lu", "cv"][..], &["wb", "cg", "cs", "wt"]];
    for ((place, kind), words) in out.iter_mut().zip(["load", "store"]).zip(words) {
        let given = |how: &str| -> Result<Option<Mod>, String> {
            let Some(text) = parsed.get(&format!("{how}-{kind}-cache")) else { return Ok(None) };
            let word = Mod::from_name(text).filter(|&m| words.contains(&text) && CacheOp::from_mod(m).is_some());
            word.map(Some).ok_or(format!("Invalid default cache modifier on {kind} specified: {text}"))
        };
        let (default, forced) = (given("def")?, given("force")?);
        if default.is_some() && forced.is_some() {
            warnings.push(format!(
                "Conflicting options force-{kind}-cache and def-{kind}-cache specified, ignoring def-{kind}-cache option"
            ));
        }
        *place = forced.or(default).map(|word| CacheDefault { word, force: forced.is_some() });
    }
    Ok((out, warnings))
}

/// How much work goes into the code: `--opt-level`, and how much less `--Ofast-compile` and
/// `--allow-expensive-optimizations=false` want. From level 2 on the vendor's levels make the same code, and so do ours.
pub fn effort(parsed: &Parsed) -> u8 {
    let level = match parsed.get("opt-level").and_then(|n| n.parse::<u32>().ok()) {
        Some(0) => NO_EFFORT,
        Some(1) => SOME_EFFORT,
        _ => MOST_EFFORT,
    };
    let fast = match parsed.get("Ofast-compile") {
        Some("max") => LEAST_EFFORT,
        Some("mid") => SOME_EFFORT,
        Some("min") => MORE_EFFORT,
        _ => MOST_EFFORT,
    };
    let cheap = if parsed.is("allow-expensive-optimizations", true) { MOST_EFFORT } else { MORE_EFFORT };
    level.min(fast).min(cheap)
}

/// Gives them to the module.
pub fn cache_operators(m: &mut Module, [load, store]: Caches) {
    if load.is_some() || store.is_some() {
        m.set_cache_operators(load, store);
    }
}

/// `--maxntid`, `--minnctapersm`, `--override-directive-values`. A bound of 0, as the vendor's tool reads what is no number, is
/// none; beside `--maxrregcount` there are no bounds.
pub fn bounds(parsed: &Parsed) -> Bounds {
    let first = parsed.has("override-directive-values");
    if parsed.has("maxrregcount") {
        return Bounds { first, ..Bounds::default() };
    }
    let sizes: Vec<u32> = parsed.values.get("maxntid").into_iter().flatten().map(|n| n.parse().unwrap_or(0)).collect();
    let max_threads = (!sizes.is_empty() && sizes.len() <= 3 && sizes[0] > 0)
        .then(|| [0, 1, 2].map(|i| sizes.get(i).copied().unwrap_or(1).max(1)));
    let min_ctas = parsed.get("minnctapersm").and_then(|n| n.parse().ok()).filter(|&n| n > 0);
    Bounds { max_threads, min_ctas, first }
}

/// `--warn-on-double-precision-use`: a warning for each instruction that has such a type; two where it has several types,
/// unless they are errors.
pub fn double_precision(m: &Module, strict: bool) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    let bodies = m.funcs.iter().filter_map(|f| f.body.as_ref());
    for body in bodies.map(Body::unpacked) {
        for inst in body.insts() {
            let types = inst.types();
            if types.contains(&ScalarType::F64) {
                for _ in 0..types.len().min(if strict { 1 } else { 2 }) {
                    let message = "Program is doing double precision computations.";
                    out.push(Diagnostic::new(Severity::Warning, message).at(inst.span));
                }
            }
        }
    }
    out
}

/// Targets on which copies to several CTAs are meant to be used, as the vendor's tool lists them.
const MULTICAST: &str = "sm_90a/sm_100a/sm_100f/sm_103a/sm_103f/sm_107a/sm_107f/sm_110a/sm_110f";

/// Advice on instructions that later chips may do slowly, as of ptxas 13.5: a warning for each copy to several CTAs in a module for another
/// target than those above, and a remark on each sparse `mma` without ordered metadata; unless options suppress them.
pub fn advice(m: &Module, parsed: &Parsed) -> Vec<Diagnostic> {
    let target = m.target.first().map_or("", String::as_str);
    let copies =
        !parsed.has("suppress-async-bulk-multicast-advisory-warning") && !MULTICAST.split('/').any(|t| t == target);
    let sparse = !parsed.has("suppress-sparse-mma-advisory-info");
    let slow = "as this feature is expected to have substantially reduced performance on some future architectures";
    let mut out = Vec::new();
    let wanted = |op: Op| matches!(op, Op::Cp | Op::Mma);
    let bodies = m.funcs.iter().filter_map(|f| f.body.as_ref()).filter(|b| b.module_has(wanted));
    for body in bodies.map(Body::unpacked) {
        for inst in body.insts() {
            if copies && inst.op == Op::Cp && inst.has(Mod::MulticastCluster) {
                let message = format!(
                    "Advisory: '.multicast::cluster' modifier on instruction 'cp.async.bulk{{.tensor}}' should be used on .target \
                 '{MULTICAST}' instead of .target '{target}' {slow}"
                );
                out.push(Diagnostic::new(Severity::Warning, message).at(inst.span));
            }
            if sparse && inst.op == Op::Mma && inst.has(Mod::Sp) {
                let message = format!(
                    "Advisory: Modifier '.sp::ordered_metadata' should be used on instruction 'mma' instead of modifier '.sp' {}",
                    slow.replace("this feature", "it")
                );
                out.push(Diagnostic::new(Severity::Info, message).at(inst.span));
            }
        }
    }
    out
}
