//! Additions of one number to one place by many threads, done by one of them (`--optimize-float-atomics`): it adds the number as
//! often as there are threads. The sum is rounded less often than theirs would be.
//!
//! Runs after lowering, before the other expansions. Only additions of single numbers whose result nobody wants, where address and
//! number are the same for all threads.

use crate::ir::{AtomOp, Attr, Block, Builder, Cmp, Edge, Fmt, Func, InstId, Mem, MemSpace, Op, Sreg, Term, Ty};
use crate::opt::unroll::same_for_all;

/// Gathers the additions of a function.
pub fn run(f: &mut Func) {
    let mut b = 0;
    // What follows an addition is a block behind all others then.
    while b < f.blocks.len() {
        let at = f.blocks[b].insts.iter().position(|&i| gathers(f, i));
        if let Some(at) = at {
            gather(f, Block(b as u32), at);
        }
        b += 1;
    }
}

fn gathers(f: &Func, id: InstId) -> bool {
    let i = f.inst(id);
    i.op == Op::Red
        && i.attr.sub == AtomOp::Add as u8
        && i.attr.fmt == Fmt::F32
        && i.mem.bytes == 4
        && !i.mem.policy
        && matches!(i.mem.space, MemSpace::Global | MemSpace::Generic)
        && i.args.len() == 2
        && i.args.iter().all(|&v| same_for_all(f, v))
}

/// `here = threads; if this is the first of them { red(place, number * count(here)) }`
fn gather(f: &mut Func, block: Block, at: usize) {
    let id = f.blocks[block.index()].insts[at];
    let red = f.inst(id).clone();
    let (one, rest) = (f.new_block(), f.new_block());
    let tail = f.blocks[block.index()].insts.split_off(at + 1);
    f.blocks[block.index()].insts.pop();
    f.blocks[rest.index()].insts = tail;
    f.blocks[rest.index()].term = std::mem::replace(&mut f.blocks[block.index()].term, Term::Unreachable);
    let mut b = Builder::new(f, block);
    b.loc = red.loc;
    let here = b.op(Op::ActiveMask, &[], Ty::B32);
    let lower = Attr { sub: Sreg::LanemaskLt as u8, ..Attr::default() };
    let lower = b.one(Op::Sreg, lower, &[], Ty::B32);
    let before = b.op(Op::And, &[here, lower], Ty::B32);
    let none = b.constant(Ty::B32, 0);
    let cond = b.icmp(Cmp::Eq, false, before, none);
    let count = b.op(Op::Popc, &[here], Ty::B32);
    let attr = Attr { fmt: Fmt::F32, sub: 32, ..Attr::default() };
    let count = b.one(Op::I2F, attr, &[count], Ty::B32);
    // Additions in memory take numbers next to zero for zero.
    let attr = Attr { fmt: Fmt::F32, ftz: true, ..Attr::default() };
    let sum = b.one(Op::FMul, attr, &[red.args[1], count], Ty::B32);
    let edge = |block| Edge { block, args: vec![] };
    f.blocks[block.index()].term = Term::CondBr { cond, uniform: false, then: edge(one), els: edge(rest) };
    let mut b = Builder::new(f, one);
    b.loc = red.loc;
    b.push(Op::Red, red.attr, Mem { ..red.mem }, red.imm, &[red.args[0], sum], &[]);
    f.blocks[one.index()].term = Term::Br(edge(rest));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    #[test]
    fn only_what_is_the_same_for_all_is_gathered() {
        let function = |number: &str| {
            format!(
                "func k returns() {{\nblk0():\n v0:b64 = param {{bytes=8}}\n v1:b32 = {number} {{imm=8 bytes=4}}\n \
                 red v0, v1 {{fmt=f32 space=global bytes=4}}\n exit\n}}"
            )
        };
        for (number, blocks) in [("param", 3), ("sreg", 1)] {
            let mut f = text::parse(&function(number)).unwrap().remove(0);
            run(&mut f);
            verify::verify(&f).unwrap();
            assert_eq!(f.blocks.len(), blocks, "{}", text::print(&f));
        }
    }
}
