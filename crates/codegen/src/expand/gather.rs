//! Atomics of one number at one place by many threads, done by one of them: it adds the number as often as there are threads, or does
//! once what is the same done again. Where they want what was there before, it tells them, and each counts those before it.
//!
//! Integers are gathered where all is computed ([`counters`]), where address and number are the same for all threads and more than one of
//! a warp may come. Floating-point numbers only where that is asked for (`--optimize-float-atomics`), after lowering, before
//! the other expansions, and only where nobody wants the result: the sum is rounded less often than theirs would be.

use crate::ir::{
    AtomOp, Attr, Block, Builder, Cmp, Edge, Fmt, Func, InstId, Mem, MemSpace, Op, Sem, Sreg, Term, Ty, Value,
};
use crate::opt::unroll::same_for_all;
use crate::opt::{lone, uses};

/// A CTA as most programs have them: where one thread of a warp comes then, gathering is not worth it.
const ROW: Option<[u32; 3]> = Some([1024, 1, 1]);

/// What the threads that come to a block have in common.
#[derive(Clone, Copy)]
struct Crowd {
    /// A bit for each of them.
    here: Value,
    /// The lane of the one that works for all, and whether a thread is it.
    lane: Value,
    leads: Value,
    count: Value,
    /// How many are before a thread, once that was asked.
    before: Option<Value>,
}

/// Gathers the atomics on integers of a kernel.
pub fn counters(f: &mut Func) {
    let atomic = |f: &Func, i: InstId| matches!(f.inst(i).op, Op::Red | Op::Atom);
    if !f.entry || !f.blocks.iter().flat_map(|b| &b.insts).any(|&i| atomic(f, i)) {
        return;
    }
    let (cfg, uses) = (f.cfg(), uses(f));
    let dom = cfg.dominators();
    for &b in &cfg.rpo {
        let list: Vec<InstId> =
            f.blocks[b as usize].insts.iter().copied().filter(|&i| atomic(f, i) && counts(f, i, &uses)).collect();
        if list.is_empty() || lone::alone(f, &cfg, &dom, b, ROW) {
            continue;
        }
        let (mut block, mut crowd) = (Block(b), None);
        for id in list {
            block = count(f, block, id, &mut crowd, &uses);
        }
    }
}

/// True if nobody wants what was there before.
fn unwanted(f: &Func, id: InstId, uses: &[u32]) -> bool {
    f.inst(id).results.iter().all(|r| uses[r.index()] == 0)
}

/// True if one thread can do it for all.
fn counts(f: &Func, id: InstId, uses: &[u32]) -> bool {
    let i = f.inst(id);
    let is = |list: &[AtomOp]| list.iter().any(|&op| i.attr.sub == op as u8);
    let unwanted = unwanted(f, id, uses);
    // There the memory counts itself.
    let counted =
        i.mem.space == MemSpace::Shared && unwanted && f.constant(*i.args.last().unwrap_or(&i.args[0])) == Some(1);
    i.attr.fmt == Fmt::None
        && i.args.len() == 2
        && i.results.len() < 2
        && !i.mem.policy
        && matches!(i.mem.sem, Sem::Weak | Sem::Relaxed)
        && (i.mem.space == MemSpace::Global && matches!(i.mem.bytes, 4 | 8)
            || i.mem.space == MemSpace::Shared && i.mem.bytes == 4)
        && (is(&[AtomOp::Add]) && !counted
            || unwanted && is(&[AtomOp::Min, AtomOp::Max, AtomOp::And, AtomOp::Or, AtomOp::Exch]))
        && i.args.iter().all(|&v| same_for_all(f, v))
}

/// `if (this thread leads) old = atomic(place, number * count); old = the leader's + number * those before`: gives the block behind it.
fn count(f: &mut Func, block: Block, id: InstId, crowd: &mut Option<Crowd>, uses: &[u32]) -> Block {
    let atomic = f.inst(id).clone();
    let (number, adds, wanted) = (atomic.args[1], atomic.attr.sub == AtomOp::Add as u8, !unwanted(f, id, uses));
    let ty = f.ty(number);
    let (one, rest) = split(f, block, id);
    let mut b = Builder::new(f, block);
    b.loc = atomic.loc;
    let crowd = crowd.get_or_insert_with(|| {
        let here = b.op(Op::ActiveMask, &[], Ty::B32);
        let lane = b.op(Op::Bfind, &[here], Ty::B32);
        let own = b.one(Op::Sreg, Attr { sub: Sreg::Laneid as u8, ..Attr::default() }, &[], Ty::B32);
        let leads = b.icmp(Cmp::Eq, false, own, lane);
        let count = b.op(Op::Popc, &[here], Ty::B32);
        Crowd { here, lane, leads, count, before: None }
    });
    let Crowd { here, lane, leads, count, .. } = *crowd;
    let sum = if adds { times(&mut b, number, count) } else { number };
    let nothing = wanted.then(|| b.constant(ty, 0));
    let edge = |block, args: &[Value]| Edge { block, args: args.to_vec() };
    let around = edge(rest, nothing.as_slice());
    f.blocks[block.index()].term = Term::CondBr { cond: leads, uniform: false, then: edge(one, &[]), els: around };
    let mut b = Builder::new(f, one);
    b.loc = atomic.loc;
    let (op, types): (Op, &[Ty]) = if wanted { (Op::Atom, &[ty]) } else { (atomic.op, &[]) };
    let types = if atomic.op == Op::Red || wanted { types } else { &[ty] };
    let new = b.push(op, atomic.attr, atomic.mem, atomic.imm, &[atomic.args[0], sum], types);
    let old = f.inst(new).results.first().copied().filter(|_| wanted);
    f.blocks[one.index()].term = Term::Br(edge(rest, old.as_slice()));
    if wanted {
        let first = f.add_param(rest, ty);
        let tail = std::mem::take(&mut f.blocks[rest.index()].insts);
        let mut b = Builder::new(f, rest);
        b.loc = atomic.loc;
        let first = told(&mut b, first, lane, here);
        let before = *crowd.before.get_or_insert_with(|| {
            let lower = b.one(Op::Sreg, Attr { sub: Sreg::LanemaskLt as u8, ..Attr::default() }, &[], Ty::B32);
            let before = b.op(Op::And, &[here, lower], Ty::B32);
            b.op(Op::Popc, &[before], Ty::B32)
        });
        let before = times(&mut b, number, before);
        // In the place of the result that there was.
        let i = &mut f.insts[id.0 as usize];
        (i.op, i.attr, i.mem, i.imm) = (Op::IAdd, Attr::default(), Mem::default(), 0);
        i.args = [first, before].into_iter().collect();
        f.blocks[rest.index()].insts.push(id);
        f.blocks[rest.index()].insts.extend(tail);
    }
    rest
}

/// `number` as often as `n`, a word, says.
fn times(b: &mut Builder, number: Value, n: Value) -> Value {
    let ty = b.func.ty(number);
    let n = b.resize(n, ty, false);
    if b.func.constant(number) == Some(1) { n } else { b.op(Op::IMul, &[n, number], ty) }
}

/// What `v` is in lane `lane`, for the threads in `here`.
fn told(b: &mut Builder, v: Value, lane: Value, here: Value) -> Value {
    const BY_NUMBER: u8 = 3;
    let any = b.constant(Ty::B32, 0x1f);
    let word = |b: &mut Builder, v: Value| {
        let attr = Attr { sub: BY_NUMBER, ..Attr::default() };
        let id = b.push(Op::Shfl, attr, Mem::default(), 0, &[v, lane, any, here], &[Ty::B32, Ty::P]);
        b.func.inst(id).results[0]
    };
    if b.func.ty(v) == Ty::B32 {
        return word(b, v);
    }
    let (lo, hi) = b.halves(v);
    let (lo, hi) = (word(b, lo), word(b, hi));
    b.op(Op::Pack, &[lo, hi], Ty::B64)
}

/// Takes instruction `id` out of its block and the block apart there: a block for the leader and one for what follows.
fn split(f: &mut Func, block: Block, id: InstId) -> (Block, Block) {
    let (one, rest) = (f.new_block(), f.new_block());
    let insts = &mut f.blocks[block.index()].insts;
    let at = insts.iter().position(|&i| i == id).unwrap_or(insts.len());
    let tail = insts.split_off((at + 1).min(insts.len()));
    insts.truncate(at);
    f.blocks[rest.index()].insts = tail;
    f.blocks[rest.index()].term = std::mem::replace(&mut f.blocks[block.index()].term, Term::Unreachable);
    (one, rest)
}

/// Gathers the additions of floating-point numbers of a function.
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
    let (one, rest) = split(f, block, id);
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

    /// A kernel that does something to v0 (a parameter) with v1 where v2 holds; and what is left of it.
    fn gathered(cond: &str, atomic: &str, number: &str) -> String {
        let body = format!(
            "func k entry returns() {{\nblk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = {number}\nv2:b32 = sreg {{sub={}}}\nv3:b32 = const {{imm=5}}\n\
             v4:p = icmp v2, v3 {{cmp={cond}}}\nbrif v4, blk1(), blk2()\nblk1():\n{atomic}\nbr blk2()\nblk2():\nexit\n}}",
            Sreg::TidX as u8
        );
        let mut f = text::parse(&body).unwrap().remove(0);
        counters(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn one_thread_counts_for_all() {
        let one = "const {imm=1}";
        let t = gathered("lt", "red v0, v1 {space=global bytes=4}", one);
        assert!(t.contains("activemask") && t.contains("popc") && !t.contains("imul") && !t.contains("shfl"), "{t}");
        // Of one thread of a warp nothing is gathered; nor what threads have of their own.
        let t = gathered("eq", "red v0, v1 {space=global bytes=4}", one);
        assert!(!t.contains("activemask"), "{t}");
        let t = gathered("lt", "red v0, v2 {space=global bytes=4}", one);
        assert!(!t.contains("activemask"), "{t}");
        let t = gathered("lt", "red v0, v1 {sem=release space=global bytes=4}", one);
        assert!(!t.contains("activemask"), "{t}");
        // A largest number is as large when it comes again.
        let t = gathered("lt", "red v0, v1 {sub=2 space=global bytes=4}", "param {bytes=4 imm=8}");
        assert!(t.contains("activemask") && !t.contains("imul"), "{t}");
        let t = gathered("lt", "red v0, v1 {sub=7 space=global bytes=4}", "param {bytes=4 imm=8}");
        assert!(!t.contains("activemask"), "{t}");
    }

    #[test]
    fn each_thread_is_told_what_was_there() {
        let store = "store v0, v5 {space=global bytes=4 imm=8}";
        let t =
            gathered("lt", &format!("v5:b32 = atom v0, v1 {{space=global bytes=4}}\n{store}"), "param {bytes=4 imm=8}");
        assert!(t.matches("shfl").count() == 1 && t.matches("imul").count() == 2 && t.contains("v5:b32 = iadd"), "{t}");
        let two = "v5:b32 = atom v0, v1 {space=global bytes=4}\nv6:b32 = atom v0, v1 {space=global bytes=4 imm=4}";
        let t = gathered("lt", &format!("{two}\n{store}"), "const {imm=1}");
        assert_eq!((t.matches("activemask").count(), t.matches("shfl").count()), (1, 1), "{t}");
    }

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
