//! Replaces a call by the body of the callee.

use crate::ir::{Block, BlockData, Def, Edge, Func, Inst, InstId, Term, Value};

/// Puts a copy of `callee` in the place of instruction number `at` of block `block`, whose arguments become the callee's
/// parameters and whose results become what it returns. The block is split; the rest of it ends up in the returned block. With
/// `own_places` the copy keeps its places in the text; otherwise it has the call's.
pub fn inline(f: &mut Func, block: Block, at: usize, callee: &Func, own_places: bool) -> Block {
    let id = f.blocks[block.index()].insts[at];
    let call = f.inst(id).clone();
    let rest = f.new_block();
    // The list goes with its longer part, which is what comes behind where a block has many calls.
    let mut tail = std::mem::take(&mut f.blocks[block.index()].insts);
    f.blocks[block.index()].insts = tail[..at].to_vec();
    tail.drain(..=at);
    let term = std::mem::replace(&mut f.blocks[block.index()].term, Term::Unreachable);
    f.blocks[rest.index()].insts = tail;
    f.blocks[rest.index()].term = term;
    // The call's results are the parameters of what follows.
    for (n, &r) in call.results.iter().enumerate() {
        f.values[r.index()].def = Def::Param(rest, n as u32);
        f.blocks[rest.index()].params.push(r);
    }
    let base = f.blocks.len() as u32;
    let mut values: Vec<Option<Value>> = vec![None; callee.values.len()];
    for (b, data) in callee.blocks.iter().enumerate() {
        f.blocks.push(BlockData { rolled: data.rolled, ..BlockData::empty() });
        for &p in &data.params {
            values[p.index()] = Some(f.add_param(Block(base + b as u32), callee.ty(p)));
        }
    }
    for (b, data) in callee.blocks.iter().enumerate() {
        for &i in &data.insts {
            let inst = callee.inst(i);
            let new_id = InstId(f.insts.len() as u32);
            let mut results = smallvec::SmallVec::new();
            for (n, &r) in inst.results.iter().enumerate() {
                let v = f.new_value(callee.ty(r), Def::Inst(new_id, n as u8));
                values[r.index()] = Some(v);
                results.push(v);
            }
            // Arguments are filled in below: a use may stand before its definition in block order.
            let loc = if own_places { inst.loc } else { call.loc };
            f.insts.push(Inst { results, loc, ..inst.clone() });
            f.blocks[base as usize + b].insts.push(new_id);
        }
    }
    let map = |v: Value| values[v.index()].unwrap_or(v);
    for (b, data) in callee.blocks.iter().enumerate() {
        for n in 0..data.insts.len() {
            let new = f.blocks[base as usize + b].insts[n];
            for a in &mut f.insts[new.0 as usize].args {
                *a = map(*a);
            }
        }
        let mut term = data.term.clone();
        term.map(map);
        term.retarget(|t| Block(base + t.0));
        f.blocks[base as usize + b].term = match term {
            Term::Ret(args) => Term::Br(Edge { block: rest, args }),
            other => other,
        };
    }
    f.blocks[block.index()].term = Term::Br(Edge { block: Block(base), args: call.args.to_vec() });
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    #[test]
    fn a_body_takes_the_place_of_a_call() {
        let funcs = text::parse(
            "func k returns(b32) {\nblk0():\nv0:b32 = sreg\nv1:b32 = call v0\nv2:b32 = iadd v1, v0\nret v2\n}\n\
             func g returns(b32) {\nblk0(v0:b32):\nv1:p = icmp v0, v0 {cmp=lt}\nbrif v1, blk1(), blk2()\nblk1():\nret v0\nblk2():\nv2:b32 = not v0\nret v2\n}",
        )
        .unwrap();
        let mut f = funcs[0].clone();
        let rest = inline(&mut f, Block(0), 1, &funcs[1], false);
        verify::verify(&f).unwrap();
        assert_eq!(f.blocks[rest.index()].params.len(), 1);
        assert_eq!(f.blocks.len(), 5);
    }
}
