//! What a block has loaded from global memory is not loaded again.
//!
//! A tile that is spread over its rows loads each word once for each of them: from one address, with nothing in between. Stores, and whatever else may show
//! what another thread has stored, end what is known; so does a load that says how it is to be ordered for itself.

use super::{identity, substitute};
use crate::ir::{Effect, Func, Inst, InstId, MemSpace, Op, Sem, Value};
use rustc_hash::FxHashMap;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let mut replaced = identity(f);
    let mut any = false;
    let mut known: FxHashMap<(Value, i64), InstId> = FxHashMap::default();
    for b in 0..f.blocks.len() {
        known.clear();
        let mut insts = std::mem::take(&mut f.blocks[b].insts);
        insts.retain(|&id| {
            let inst = f.inst(id);
            if !plain(inst) {
                if ends(inst) {
                    known.clear();
                }
                return true;
            }
            let first = *known.entry((inst.args[0], inst.imm)).or_insert(id);
            if first == id || !same(f, f.inst(first), inst) {
                return true;
            }
            any = true;
            let results = inst.results.iter().zip(&f.inst(first).results);
            results.for_each(|(new, old)| replaced[new.index()] = *old);
            false
        });
        f.blocks[b].insts = insts;
    }
    if any {
        substitute(f, &mut replaced);
    }
}

/// A load that no other thread is waited for with.
fn plain(inst: &Inst) -> bool {
    inst.op == Op::Load && inst.mem.space == MemSpace::Global && inst.mem.sem == Sem::Weak
}

/// True if two loads of one address give the same, and say the same about caches.
fn same(f: &Func, a: &Inst, b: &Inst) -> bool {
    let types = a.results.iter().zip(&b.results).all(|(x, y)| f.ty(*x) == f.ty(*y));
    a.mem == b.mem && a.attr == b.attr && a.args == b.args && a.results.len() == b.results.len() && types
}

/// True if global memory may look different behind this instruction.
fn ends(inst: &Inst) -> bool {
    let mem = &inst.mem;
    match inst.op {
        Op::Store | Op::Load if mem.sem == Sem::Weak => {
            inst.op == Op::Store && matches!(mem.space, MemSpace::Global | MemSpace::Generic)
        }
        Op::Shfl | Op::Vote | Op::Redux | Op::Mma | Op::LdMatrix | Op::StMatrix | Op::MovMatrix => false,
        op => matches!(op.effect(), Effect::Write | Effect::Warp) || op.effect() == Effect::Read && op == Op::Load,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    /// How many loads are left of two with this between them.
    fn left(second: &str, between: &str) -> usize {
        let body = format!(
            "v0:b64 = param {{bytes=8}}\nv1:b32 = sreg\nv2:b32 = load v0 {{space=global bytes=4}}\n{between}v3:b32 = load v0 {second}\nv4:b32 = iadd v2, v3\nret v4"
        );
        let mut f = text::parse(&format!("func k returns(b32) {{\nblk0():\n{body}\n}}")).unwrap().remove(0);
        run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f).matches("= load").count()
    }

    #[test]
    fn the_same_is_loaded_once() {
        let again = "{space=global bytes=4}";
        assert_eq!(left(again, ""), 1);
        assert_eq!(left(again, "store v1, v1 {space=shared bytes=4}\n"), 1);
        // Another thread or this one may have stored there.
        assert_eq!(left(again, "store v0, v1 {space=global bytes=4}\n"), 2);
        assert_eq!(left(again, "bar v1\n"), 2);
        // Another place, or one that is read in an order.
        assert_eq!(left("{space=global bytes=4 imm=4}", ""), 2);
        assert_eq!(left("{space=global bytes=4 sem=relaxed}", ""), 2);
    }
}
