//! Global value numbering with simplification: one walk over the dominator tree.
//!
//! Pure instructions with equal operation, attributes and arguments become the first of them that dominates; each
//! instruction is simplified first.

use super::simplify::{Simpler, simplify};
use super::{identity, resolve, substitute};
use crate::ir::{Attr, Effect, Func, Inst, InstId, Mem, Op, Ty, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

#[derive(PartialEq, Eq, Hash, Clone)]
struct Key {
    op: Op,
    attr: Attr,
    mem: Mem,
    imm: i64,
    args: SmallVec<[Value; 3]>,
    ty: Ty,
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    let cfg = f.cfg();
    let dom = cfg.dominators();
    let mut replaced = identity(f);
    let mut table: FxHashMap<Key, InstId> = FxHashMap::default();
    // Keys that a block added, to be taken out when its subtree is done; (key, what stood there before).
    let mut undo: Vec<Vec<(Key, Option<InstId>)>> = Vec::new();
    let mut stack: Vec<(u32, usize)> = if f.blocks.is_empty() { vec![] } else { vec![(0, 0)] };
    while let Some(depth) = stack.len().checked_sub(1) {
        let (b, next) = (stack[depth].0, &mut stack[depth].1);
        if undo.len() == depth {
            let mut added = Vec::new();
            block(f, b as usize, &mut table, &mut added, &mut replaced);
            undo.push(added);
        }
        match dom.children[b as usize].get(*next) {
            Some(&c) => {
                *next += 1;
                stack.push((c, 0));
            }
            None => {
                stack.pop();
                for (key, old) in undo.pop().unwrap_or_default().into_iter().rev() {
                    match old {
                        Some(o) => table.insert(key, o),
                        None => table.remove(&key),
                    };
                }
            }
        }
    }
    substitute(f, &mut replaced);
}

fn block(
    f: &mut Func,
    b: usize,
    table: &mut FxHashMap<Key, InstId>,
    added: &mut Vec<(Key, Option<InstId>)>,
    replaced: &mut [Value],
) {
    let insts = std::mem::take(&mut f.blocks[b].insts);
    let mut kept = Vec::with_capacity(insts.len());
    'next: for id in insts {
        for n in 0..f.inst(id).args.len() {
            let a = resolve(replaced, f.inst(id).args[n]);
            f.insts[id.0 as usize].args[n] = a;
        }
        for _ in 0..8 {
            match simplify(f, f.inst(id)) {
                Some(Simpler::Value(v)) => {
                    let r = f.inst(id).results[0];
                    replaced[r.index()] = resolve(replaced, v);
                    continue 'next;
                }
                Some(Simpler::Const(bits)) => {
                    let i = &mut f.insts[id.0 as usize];
                    i.op = Op::Const;
                    i.attr = Attr::default();
                    i.mem = Mem::default();
                    i.imm = bits as i64;
                    i.args.clear();
                    break;
                }
                Some(Simpler::Inst(new)) => f.insts[id.0 as usize] = new,
                None => break,
            }
        }
        let inst: &Inst = f.inst(id);
        if inst.op.effect() == Effect::Pure && !inst.results.is_empty() && inst.op != Op::Undef {
            let mut args = inst.args.clone();
            let commutes = matches!(
                inst.op,
                Op::IAdd | Op::IMul | Op::IMulWide | Op::IMulHi | Op::And | Op::Or | Op::Xor | Op::FAdd | Op::FMul
            );
            if commutes && args[0] > args[1] {
                args.swap(0, 1);
            }
            let key =
                Key { op: inst.op, attr: inst.attr, mem: inst.mem, imm: inst.imm, args, ty: f.ty(inst.results[0]) };
            if let Some(&first) = table.get(&key) {
                for n in 0..inst.results.len() {
                    let (mine, its) = (f.inst(id).results[n], f.inst(first).results[n]);
                    replaced[mine.index()] = its;
                }
                continue;
            }
            let old = table.insert(key.clone(), id);
            added.push((key, old));
        }
        kept.push(id);
    }
    f.blocks[b].insts = kept;
    let mut term = std::mem::replace(&mut f.blocks[b].term, crate::ir::Term::Unreachable);
    term.map(|v| resolve(replaced, v));
    f.blocks[b].term = term;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn after(body: &str) -> String {
        let mut f = text::parse(&format!("func k returns(b32) {{\n{body}\n}}")).unwrap().remove(0);
        run(&mut f);
        super::super::dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn equal_values_are_computed_once() {
        let t = after(
            "blk0():\nv0:b32 = sreg\nv1:b32 = iadd v0, v0\nbr blk1()\nblk1():\nv2:b32 = iadd v0, v0\nv3:b32 = imul v2, v1\nret v3",
        );
        assert!(t.contains("imul v1, v1") && t.matches("iadd").count() == 1, "{t}");
    }

    #[test]
    fn branches_do_not_share_with_each_other() {
        let t = after(
            "blk0():\nv0:b32 = sreg\nv1:p = sreg.volatile\nbrif v1, blk1(), blk2()\nblk1():\nv2:b32 = not v0\nret v2\nblk2():\nv3:b32 = not v0\nret v3",
        );
        assert_eq!(t.matches("not v0").count(), 2, "{t}");
    }

    #[test]
    fn constants_fold() {
        let t = after("blk0():\nv0:b32 = const {imm=6}\nv1:b32 = const {imm=7}\nv2:b32 = imul v0, v1\nret v2");
        assert!(t.contains("const {imm=42}") && !t.contains("imul"), "{t}");
    }
}
