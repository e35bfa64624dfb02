//! Atomics that the memory system does not do: loops of compare-and-swap, and a branch on the kind of a generic address.

use super::{Cx, Step};
use crate::ir::{AtomOp, Attr, Block, Builder, Cmp, Edge, Fmt, Inst, Mem, MemSpace, Op, Term, Ty, Value};

pub(super) fn expand(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let (mem, attr) = (inst.mem, inst.attr);
    let op = attr.sub;
    let swaps = op == AtomOp::Cas as u8 || op == AtomOp::Exch as u8;
    if mem.bytes == 2 {
        return narrow_loop(cx);
    }
    match mem.space {
        // Shared memory does 32-bit integers, and 64-bit swaps.
        MemSpace::Shared if attr.fmt != Fmt::None || (mem.bytes == 8 && op != AtomOp::Cas as u8) => swap_loop(cx),
        MemSpace::Shared => Step::Keep,
        // Vectors are of global memory alone.
        MemSpace::Generic if mem.bytes < 16 && op != AtomOp::Cas as u8 && inst.operands().len() > 2 => {
            let mem = Mem { space: MemSpace::Global, ..mem };
            let types: Vec<Ty> = inst.results.iter().map(|&r| cx.f.ty(r)).collect();
            let (args, imm, what) = (inst.args.to_vec(), inst.imm, inst.op);
            let id = cx.b().push(what, attr, mem, imm, &args, &types);
            Step::Values(cx.f.inst(id).results.to_vec())
        }
        // A generic address may be shared.
        MemSpace::Generic if attr.fmt != Fmt::None || (mem.bytes == 8 && !swaps) => by_space(cx),
        _ => Step::Keep,
    }
}

/// The instruction without a cache policy: loops do not take one along.
fn without_policy(inst: &Inst) -> Inst {
    let mut out = inst.clone();
    out.args.truncate(inst.operands().len());
    out.mem.policy = false;
    out
}

/// `old = load; do { got = cas(old, f(old)); done = got == old; old = got } while !done`
fn swap_loop(cx: &mut Cx) -> Step {
    let inst = without_policy(cx.inst);
    let loc = inst.loc;
    let addr = inst.args[0];
    let operand = inst.args[1];
    let f = &mut *cx.f;
    let ty = f.ty(operand);
    let (body, done) = (f.new_block(), f.new_block());
    let term = std::mem::replace(&mut f.blocks[cx.block.index()].term, Term::Unreachable);
    f.blocks[done.index()].term = term;
    let load = Mem { sem: crate::ir::Sem::Weak, scope: crate::ir::Scope::None, ..inst.mem };
    let first = {
        let mut b = Builder::new(f, cx.block);
        b.loc = loc;
        let id = b.push(Op::Load, Attr::default(), load, inst.imm, &[addr], &[ty]);
        b.func.inst(id).results[0]
    };
    f.blocks[cx.block.index()].term = Term::Br(Edge { block: body, args: vec![first] });
    let old = f.add_param(body, ty);
    let new = next_value(f, body, &inst, old, operand);
    let mut b = Builder::new(f, body);
    b.loc = loc;
    let cas = Attr { sub: AtomOp::Cas as u8, ..Attr::default() };
    let id = b.push(Op::Atom, cas, inst.mem, inst.imm, &[addr, old, new], &[ty]);
    let got = b.func.inst(id).results[0];
    let same = b.icmp(Cmp::Eq, false, got, old);
    f.blocks[body.index()].term = Term::CondBr {
        cond: same,
        uniform: false,
        then: Edge { block: done, args: vec![] },
        els: Edge { block: body, args: vec![got] },
    };
    Step::Split(done, if inst.op == Op::Atom { vec![got] } else { vec![] })
}

/// Halves: the aligned word around one is swapped with its half replaced.
fn narrow_loop(cx: &mut Cx) -> Step {
    let inst = without_policy(cx.inst);
    let mut addr = inst.args[0];
    let ty = cx.ty(addr);
    if inst.imm != 0 {
        let offset = cx.k(ty, inst.imm as u64);
        addr = cx.op(Op::IAdd, &[addr, offset], ty);
    }
    let mask = cx.k(ty, !3);
    let word = cx.op(Op::And, &[addr, mask], ty);
    let low = if ty == Ty::B64 { cx.op(Op::Trunc, &[addr], Ty::B32) } else { addr };
    let (two, three) = (cx.k(Ty::B32, 2), cx.k(Ty::B32, 3));
    let half = cx.op(Op::And, &[low, two], Ty::B32);
    let at = cx.op(Op::Shl, &[half, three], Ty::B32);
    let mem = Mem { bytes: 4, ..inst.mem };
    let load = Mem { sem: crate::ir::Sem::Weak, scope: crate::ir::Scope::None, ..mem };
    let id = cx.b().push(Op::Load, Attr::default(), load, 0, &[word], &[Ty::B32]);
    let first = cx.f.inst(id).results[0];
    let f = &mut *cx.f;
    let (body, done) = (f.new_block(), f.new_block());
    let term = std::mem::replace(&mut f.blocks[cx.block.index()].term, Term::Unreachable);
    f.blocks[done.index()].term = term;
    f.blocks[cx.block.index()].term = Term::Br(Edge { block: body, args: vec![first] });
    let old = f.add_param(body, Ty::B32);
    let mut b = Builder::new(f, body);
    b.loc = inst.loc;
    let moved = b.op(Op::Shr, &[old, at], Ty::B32);
    let current = b.op(Op::Trunc, &[moved], Ty::B16);
    let new = if inst.attr.sub == AtomOp::Cas as u8 {
        // The word is swapped for itself where the half is another: what was read is then what was there.
        let (a, c) = (b.op(Op::Zext, &[current], Ty::B32), b.op(Op::Zext, &[inst.args[1]], Ty::B32));
        let same = b.icmp(Cmp::Eq, false, a, c);
        b.op(Op::Select, &[inst.args[2], current, same], Ty::B16)
    } else {
        next_value(f, body, &inst, current, inst.args[1])
    };
    let mut b = Builder::new(f, body);
    b.loc = inst.loc;
    let new = b.op(Op::Zext, &[new], Ty::B32);
    let ones = b.constant(Ty::B32, 0xffff);
    let field = b.op(Op::Shl, &[ones, at], Ty::B32);
    let placed = b.op(Op::Shl, &[new, at], Ty::B32);
    // 0xe2: the new half (a = f0) where the field (b = cc) is, else the old word (c = aa).
    let next = b.one(Op::Lop3, Attr { sub: 0xe2, ..Attr::default() }, &[placed, field, old], Ty::B32);
    let cas = Attr { sub: AtomOp::Cas as u8, ..Attr::default() };
    let id = b.push(Op::Atom, cas, mem, 0, &[word, old, next], &[Ty::B32]);
    let got = b.func.inst(id).results[0];
    let same = b.icmp(Cmp::Eq, false, got, old);
    f.blocks[body.index()].term = Term::CondBr {
        cond: same,
        uniform: false,
        then: Edge { block: done, args: vec![] },
        els: Edge { block: body, args: vec![got] },
    };
    Step::Split(done, if inst.op == Op::Atom { vec![current] } else { vec![] })
}

/// What the operation makes of the old value.
fn next_value(f: &mut crate::ir::Func, block: Block, inst: &Inst, old: Value, operand: Value) -> Value {
    let ty = f.ty(operand);
    let attr = inst.attr;
    let mut b = Builder::new(f, block);
    b.loc = inst.loc;
    let signed = Attr { signed: attr.signed, ..Attr::default() };
    let float = Attr { fmt: attr.fmt, ..Attr::default() };
    let is = |o: AtomOp| attr.sub == o as u8;
    if attr.fmt != Fmt::None {
        let op = if is(AtomOp::Min) {
            Op::FMin
        } else if is(AtomOp::Max) {
            Op::FMax
        } else {
            Op::FAdd
        };
        return b.one(op, float, &[old, operand], ty);
    }
    if is(AtomOp::Exch) {
        return operand;
    }
    if is(AtomOp::Inc) || is(AtomOp::Dec) {
        // inc: old >= limit ? 0 : old + 1; dec: old == 0 || old > limit ? limit : old - 1.
        let (zero, one) = (b.constant(ty, 0), b.constant(ty, 1));
        if is(AtomOp::Inc) {
            let wraps = b.icmp(Cmp::Ge, false, old, operand);
            let next = b.same(Op::IAdd, &[old, one]);
            return b.op(Op::Select, &[zero, next, wraps], ty);
        }
        let none = b.icmp(Cmp::Eq, false, old, zero);
        let over = b.icmp(Cmp::Gt, false, old, operand);
        let wraps = b.same(Op::Or, &[none, over]);
        let next = b.same(Op::ISub, &[old, one]);
        return b.op(Op::Select, &[operand, next, wraps], ty);
    }
    let op = if is(AtomOp::Add) {
        Op::IAdd
    } else if is(AtomOp::Min) {
        Op::IMin
    } else if is(AtomOp::Max) {
        Op::IMax
    } else if is(AtomOp::And) {
        Op::And
    } else if is(AtomOp::Or) {
        Op::Or
    } else {
        Op::Xor
    };
    b.one(op, signed, &[old, operand], ty)
}

/// Shared or not: each side has the operation in its own space.
fn by_space(cx: &mut Cx) -> Step {
    let inst = cx.inst.clone();
    let f = &mut *cx.f;
    let addr = inst.args[0];
    let (shared, global, done) = (f.new_block(), f.new_block(), f.new_block());
    let term = std::mem::replace(&mut f.blocks[cx.block.index()].term, Term::Unreachable);
    f.blocks[done.index()].term = term;
    let is_shared = {
        let mut b = Builder::new(f, cx.block);
        b.loc = inst.loc;
        let mem = Mem { space: MemSpace::Shared, ..Mem::default() };
        let id = b.push(Op::IsSpace, Attr::default(), mem, 0, &[addr], &[Ty::P]);
        b.func.inst(id).results[0]
    };
    f.blocks[cx.block.index()].term = Term::CondBr {
        cond: is_shared,
        uniform: false,
        then: Edge { block: shared, args: vec![] },
        els: Edge { block: global, args: vec![] },
    };
    let types: Vec<Ty> = inst.results.iter().map(|&r| f.ty(r)).collect();
    for (block, space) in [(shared, MemSpace::Shared), (global, MemSpace::Global)] {
        let mut b = Builder::new(f, block);
        b.loc = inst.loc;
        let mut args = inst.args.to_vec();
        let mut mem = Mem { space, ..inst.mem };
        if space == MemSpace::Shared {
            args.truncate(inst.operands().len());
            mem.policy = false;
            args[0] = b.op(Op::Trunc, &[addr], Ty::B32);
        }
        let id = b.push(inst.op, inst.attr, mem, inst.imm, &args, &types);
        let results = b.func.inst(id).results.to_vec();
        f.blocks[block.index()].term = Term::Br(Edge { block: done, args: results });
    }
    let out = types.iter().map(|&t| f.add_param(done, t)).collect();
    Step::Split(done, out)
}
