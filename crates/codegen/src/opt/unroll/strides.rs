//! What changes by the same amount in every iteration of a loop: counters, and sums, differences and multiples of them.

use super::count;
use crate::cfg::DomTree;
use crate::ir::{Func, InstId, Op, Term, Ty, Value, mask};
use rustc_hash::FxHashMap;

/// Instructions that are executed in every iteration and whose result grows by the same amount.
pub type Strides = FxHashMap<InstId, Stride>;

/// How a result grows. Amounts are in the low bits of its type.
#[derive(Clone, Copy)]
pub struct Stride {
    /// What it is computed from in the first iteration: itself, or a value that it is a constant more than.
    pub base: Value,
    /// That constant.
    pub offset: u64,
    /// How much it grows in an iteration.
    pub by: u64,
}

/// Finds them, for the loop of `members` (in reverse postorder, the header first) that `latch` closes; `known` says of a value that
/// it comes from outside.
pub fn find(f: &Func, members: &[u32], latch: u32, dom: &DomTree, known: &dyn Fn(Value) -> bool) -> Strides {
    let header = members[0];
    let mut grows: FxHashMap<Value, u64> = FxHashMap::default();
    let term = &f.blocks[latch as usize].term;
    if let Some(back) = match term {
        Term::CondBr { then, els, .. } => [then, els].into_iter().find(|e| e.block.0 == header),
        _ => None,
    } {
        for (&p, &next) in f.blocks[header as usize].params.iter().zip(&back.args) {
            if let Some(step) = count::step(f, p, next).filter(|_| matches!(f.ty(p), Ty::B32 | Ty::B64)) {
                grows.insert(p, step);
            }
        }
    }
    let mut out = Strides::default();
    let mut bases: FxHashMap<Value, (Value, u64)> = FxHashMap::default();
    if grows.is_empty() {
        return out;
    }
    for &b in members {
        let always = dom.dominates(b, latch);
        for &id in &f.blocks[b as usize].insts {
            let inst = f.inst(id);
            let &[result] = inst.results.as_slice() else { continue };
            let of = |n: usize| {
                let v = inst.args[n];
                let still = known(v) || f.constant(v).is_some();
                if still { Some(0) } else { grows.get(&v).copied() }
            };
            let k = |n: usize| f.constant(inst.args[n]);
            let all = mask(f.ty(result));
            let by = match inst.op {
                Op::IAdd => of(0).zip(of(1)).map(|(a, b)| a.wrapping_add(b)),
                Op::ISub => of(0).zip(of(1)).map(|(a, b)| a.wrapping_sub(b)),
                Op::IMul => of(0).zip(k(1)).or(of(1).zip(k(0))).map(|(a, k)| a.wrapping_mul(k)),
                Op::IMad => {
                    of(0).zip(k(1)).or(of(1).zip(k(0))).zip(of(2)).map(|((a, k), c)| a.wrapping_mul(k).wrapping_add(c))
                }
                Op::Shl => of(0).zip(k(1)).filter(|&(_, n)| n < 32).map(|(a, n)| a << n),
                _ => None,
            };
            if let Some(by) = by.map(|by| by & all).filter(|&by| by != 0) {
                grows.insert(result, by);
                if always {
                    let (base, offset) = match (inst.op, k(1)) {
                        (Op::IAdd, Some(k)) => {
                            let (base, offset) = bases.get(&inst.args[0]).copied().unwrap_or((inst.args[0], 0));
                            (base, offset.wrapping_add(k))
                        }
                        _ => (result, 0),
                    };
                    bases.insert(result, (base, offset));
                    out.insert(id, Stride { base, offset, by });
                }
            }
        }
    }
    out
}
