//! Handles of textures and surfaces that may differ between the threads of a warp.
//!
//! The machine takes one handle for all threads that are there. Where it is not known that they agree, groups of threads with the
//! same handle take turns: in a loop the handle of one thread is chosen, those that have the same go on to the access, and leave the loop
//! after it. Runs when the optimizer is done, before threads are made to meet again.

use crate::converge;
use crate::ir::texel::Texel;
use crate::ir::{Attr, Block, Builder, Edge, Func, InstId, Mem, Op, Term, Value};
use rustc_hash::FxHashSet;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let any = |b: &crate::ir::BlockData| b.insts.iter().any(|&i| handles(f, i) > 0);
    if !f.blocks.iter().any(any) {
        return;
    }
    let uniform = converge::uniform(f);
    let mut done = FxHashSet::default();
    let mut b = 0;
    while b < f.blocks.len() {
        let block = Block(b as u32);
        let differs = |f: &Func, i: InstId| -> Vec<Value> {
            if done.contains(&i) {
                return Vec::new();
            }
            let args = &f.inst(i).args[..handles(f, i)];
            args.iter().copied().filter(|v| uniform.get(v.index()) != Some(&true)).collect()
        };
        let at = f.blocks[b].insts.iter().position(|&i| !differs(f, i).is_empty());
        if let Some(at) = at {
            let id = f.blocks[b].insts[at];
            let list = differs(f, id);
            done.insert(id);
            // The rest of the block is a block with a higher number.
            take_turns(f, block, at, &list);
        }
        b += 1;
    }
}

/// How many of the first arguments are handles.
fn handles(f: &Func, i: InstId) -> usize {
    let inst = f.inst(i);
    match inst.op {
        Op::Texture => Texel::unpack(inst.imm).handles(),
        Op::Surface => 1,
        _ => 0,
    }
}

/// Puts the instruction at `at` into a loop for each of the handles, one inside the other.
fn take_turns(f: &mut Func, block: Block, at: usize, handles: &[Value]) {
    let tail = f.blocks[block.index()].insts.split_off(at + 1);
    let id = f.blocks[block.index()].insts.pop();
    let Some(id) = id else { return };
    let loc = f.inst(id).loc;
    let old: Vec<Value> = f.inst(id).results.to_vec();
    let term = std::mem::replace(&mut f.blocks[block.index()].term, Term::Unreachable);
    let end_loc = f.blocks[block.index()].loc;
    // From outside to inside: before, header, latch; the innermost body has the instruction.
    let types: Vec<_> = old.iter().map(|&v| f.ty(v)).collect();
    let mut from = block;
    let mut latches: Vec<(Block, Block, Value, Vec<Value>)> = Vec::new();
    for &handle in handles {
        let mut build = Builder::new(f, from);
        build.loc = loc;
        let nothing: Vec<Value> = types.iter().map(|&t| build.op(Op::Undef, &[], t)).collect();
        let [header, body, latch] = [(); 3].map(|()| f.new_block());
        f.blocks[from.index()].term = Term::Br(Edge { block: header, args: vec![] });
        let mut build = Builder::new(f, header);
        build.loc = loc;
        let id = build.push(Op::SameAsOne, Attr::default(), Mem::default(), 0, &[handle], &[crate::ir::Ty::P]);
        let same = f.inst(id).results[0];
        let params: Vec<Value> = types.iter().map(|&t| f.add_param(latch, t)).collect();
        f.blocks[header.index()].term = Term::CondBr {
            cond: same,
            uniform: false,
            then: Edge { block: body, args: vec![] },
            els: Edge { block: latch, args: nothing },
        };
        latches.push((header, latch, same, params));
        from = body;
    }
    f.blocks[from.index()].insts.push(id);
    let mut results = old.clone();
    for (header, latch, same, params) in latches.into_iter().rev() {
        f.blocks[from.index()].term = Term::Br(Edge { block: latch, args: results });
        let after = f.new_block();
        f.blocks[latch.index()].term = Term::CondBr {
            cond: same,
            uniform: false,
            then: Edge { block: after, args: vec![] },
            els: Edge { block: header, args: vec![] },
        };
        results = params;
        from = after;
    }
    f.blocks[from.index()].insts = tail;
    f.blocks[from.index()].term = term;
    f.blocks[from.index()].loc = end_loc;
    // Everywhere but on the way to the latch the values are those that leave the loop.
    let mut replaced = crate::opt::identity(f);
    for (&o, &n) in old.iter().zip(&results) {
        replaced[o.index()] = n;
    }
    let innermost = f.blocks.iter().position(|b| b.insts.contains(&id));
    let kept = innermost.map(|b| (b, f.blocks[b].term.clone()));
    crate::opt::substitute(f, &mut replaced);
    if let Some((b, term)) = kept {
        f.blocks[b].term = term;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::texel::{Fetch, Shape};
    use crate::ir::{Ty, text, verify};

    /// A read of a texture whose handle is what `of` gives, and a use of its results.
    fn function(of: Op, apart: bool) -> Func {
        let mut f = Func { entry: true, ..Func::default() };
        let block = f.new_block();
        let mut b = Builder::new(&mut f, block);
        let handle = b.op(of, &[], Ty::B32);
        let x = b.constant(Ty::B32, 3);
        let t = Texel { fetch: Fetch::Texel, shape: Shape::D1, first: 1, apart, ..Texel::default() };
        let list = [handle, handle, x];
        let args = &list[!apart as usize..];
        let id = b.push(Op::Texture, Attr::default(), Mem::default(), t.pack(), args, &[Ty::B32; 4]);
        let r = b.func.inst(id).results.clone();
        let sum = b.same(Op::IAdd, &[r[0], r[3]]);
        let at = b.constant(Ty::B64, 64);
        let mem = Mem { space: crate::ir::MemSpace::Global, bytes: 4, ..Mem::default() };
        b.push(Op::Store, Attr::default(), mem, 0, &[at, sum], &[]);
        f.blocks[0].term = Term::Exit;
        f
    }

    #[test]
    fn only_handles_that_may_differ_are_put_into_a_loop() {
        for (of, apart, blocks) in [(Op::Param, false, 1), (Op::Sreg, false, 5), (Op::Sreg, true, 9)] {
            let mut f = function(of, apart);
            run(&mut f);
            verify::verify(&f).unwrap();
            assert_eq!(f.blocks.len(), blocks, "{}", text::print(&f));
        }
    }
}
