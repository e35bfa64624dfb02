//! Operations without a machine instruction of their own, in terms of ones that have: short sequences here, routines in
//! PTX (`builtins/*.ptx`) through [`builtins`].
//!
//! Runs after lowering; keeps the verifier content. What it leaves is what selection has rules for.

mod absorbed;
mod atomics;
mod bits;
pub mod builtins;
mod flight;
mod float;
pub mod gather;
pub mod handles;
pub mod masks;
pub mod shared;
pub mod switches;
mod vectors;

use crate::bitset::BitSet;
use crate::inline::inline;
use crate::ir::{Attr, Block, Builder, Fmt, Func, Inst, Mem, Op, Ty, Value};

/// What becomes of an instruction.
enum Step {
    /// It stays.
    Keep,
    /// It was replaced: its results are these values, made by instructions already written before it.
    Values(Vec<Value>),
    /// It becomes a call of this routine with these arguments; one result.
    Call(builtins::Routine, Vec<Value>),
    /// It becomes a loop or branch: the rest of the block goes on in the given block, results are these values.
    Split(Block, Vec<Value>),
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    with(f, None);
}

/// Runs the pass. What routines do in seldom cases stays in `seldom`, and calls of it in `f`.
pub fn with(f: &mut Func, mut seldom: Option<&mut builtins::Seldom>) {
    if let Some(list) = &mut seldom {
        list.look(f);
    }
    let absorbed = absorbed::find(f);
    let mut aliases = Vec::new();
    let mut b = 0;
    while b < f.blocks.len() {
        expand_block(f, Block(b as u32), &mut aliases, &mut seldom, absorbed.as_ref());
        b += 1;
    }
    if aliases.is_empty() {
        return;
    }
    let mut replaced = crate::opt::identity(f);
    for (old, new) in aliases {
        replaced[Value::index(old)] = new;
    }
    crate::opt::substitute(f, &mut replaced);
}

/// Expands the instructions of one block. When the block is split, its rest is a block with a higher number, which the
/// caller comes to.
fn expand_block(
    f: &mut Func,
    block: Block,
    aliases: &mut Vec<(Value, Value)>,
    seldom: &mut Option<&mut builtins::Seldom>,
    absorbed: Option<&BitSet>,
) {
    let insts = std::mem::take(&mut f.blocks[block.index()].insts);
    let mut iter = insts.into_iter();
    let mut quotients = None;
    while let Some(id) = iter.next() {
        if !concerns(f.inst(id).op) {
            f.blocks[block.index()].insts.push(id);
            continue;
        }
        let inst = f.inst(id).clone();
        let many = float::full_quotient(&inst)
            && *quotients.get_or_insert_with(|| float::many_quotients(f, &inst, iter.as_slice()));
        let step = expand(&mut Cx { f, block, inst: &inst, seldom: seldom.as_deref_mut(), absorbed, many });
        match step {
            Step::Keep => f.blocks[block.index()].insts.push(id),
            Step::Values(values) => aliases.extend(inst.results.iter().copied().zip(values)),
            Step::Call(routine, args) => {
                let ty = f.ty(inst.results[0]);
                let words = call_words(f, block, inst.loc, &args, ty);
                aliases.push((inst.results[0], words));
                // The call is the last instruction but for those that put its result together: take it apart.
                let Some(behind) = inline_last_call(f, block, routine, seldom.as_deref_mut()) else { continue };
                // The list of what follows is handed on as it is: there can be thousands of calls in a block.
                let first = std::mem::replace(&mut f.blocks[behind.index()].insts, iter.collect());
                f.blocks[behind.index()].insts.splice(0..0, first);
                return;
            }
            Step::Split(rest, values) => {
                aliases.extend(inst.results.iter().copied().zip(values));
                f.blocks[rest.index()].insts.extend(iter);
                return;
            }
        }
    }
}

/// Writes a call of a builtin: words in, words out.
fn call_words(f: &mut Func, block: Block, loc: u32, args: &[Value], ty: Ty) -> Value {
    let mut b = Builder::new(f, block);
    b.loc = loc;
    let mut words = Vec::new();
    for &a in args {
        if b.func.ty(a) == Ty::B64 {
            let (lo, hi) = b.halves(a);
            words.extend([lo, hi]);
        } else {
            words.push(a);
        }
    }
    let types = if ty == Ty::B64 { vec![Ty::B32; 2] } else { vec![Ty::B32] };
    let id = b.push(Op::Call, Attr::default(), Mem::default(), -1, &words, &types);
    let results = b.func.inst(id).results.clone();
    if ty == Ty::B64 { b.op(Op::Pack, &results, Ty::B64) } else { results[0] }
}

/// Inlines the call that stands last in the block (or before a `pack` of its results); gives the block behind it, or nothing where the call stays and the block
/// goes on.
fn inline_last_call(
    f: &mut Func,
    block: Block,
    routine: builtins::Routine,
    seldom: Option<&mut builtins::Seldom>,
) -> Option<Block> {
    let insts = &f.blocks[block.index()].insts;
    let at = insts.iter().rposition(|&i| f.inst(i).op == Op::Call && f.inst(i).imm == -1)?;
    match seldom {
        Some(list) => list.inline(f, block, at, routine),
        None => Some(inline(f, block, at, builtins::body(routine), false)),
    }
}

/// An instruction being expanded: where to write and what it says.
struct Cx<'a> {
    f: &'a mut Func,
    block: Block,
    inst: &'a Inst,
    /// The routines for seldom cases, where they are called.
    seldom: Option<&'a mut builtins::Seldom>,
    /// As [`absorbed::find`] says.
    absorbed: Option<&'a BitSet>,
    /// The first of [`float::many_quotients`], or one behind it in its block.
    many: bool,
}

impl Cx<'_> {
    fn b(&mut self) -> Builder<'_> {
        let mut b = Builder::new(self.f, self.block);
        b.loc = self.inst.loc;
        b
    }
    fn k(&mut self, ty: Ty, bits: u64) -> Value {
        self.b().constant(ty, bits)
    }
    fn op(&mut self, op: Op, args: &[Value], ty: Ty) -> Value {
        self.b().op(op, args, ty)
    }
    fn one(&mut self, op: Op, attr: Attr, args: &[Value], ty: Ty) -> Value {
        self.b().one(op, attr, args, ty)
    }
    fn ty(&self, v: Value) -> Ty {
        self.f.ty(v)
    }
    fn result_ty(&self) -> Ty {
        self.f.ty(self.inst.results[0])
    }
}

/// True for the operations that [`expand`] looks at.
fn concerns(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        IDiv | IRem
            | IMulHi
            | Clz
            | Bfind
            | Bfe
            | Bfi
            | Fns
            | FDiv
            | FRcp
            | FSqrt
            | FRsqrt
            | FEx2
            | FLg2
            | FSin
            | FCos
            | FMin
            | FMax
            | FSat
            | Load
            | Store
            | Atom
            | Red
            | Vote
            | Match
    )
}

/// The result of an operation on constants.
fn known(cx: &Cx) -> Option<u64> {
    let inst = cx.inst;
    let args: Option<Vec<u64>> = inst.args.iter().map(|&v| cx.f.constant(v)).collect();
    crate::opt::eval::eval(inst.op, inst.attr, &[], &args?, cx.result_ty())
}

fn expand(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let fmt = inst.attr.fmt;
    match inst.op {
        Op::IDiv | Op::IRem => bits::division(cx),
        Op::IMulHi if cx.result_ty() == Ty::B64 => bits::multiply_high(cx),
        Op::Clz | Op::Bfind if cx.ty(inst.args[0]) == Ty::B64 => bits::leading(cx),
        Op::Bfe if cx.result_ty() == Ty::B64 => bits::extract64(cx),
        Op::Bfi => bits::insert(cx),
        Op::Fns => Step::Call(builtins::Routine::Fns, inst.args.to_vec()),
        Op::Brev | Op::Popc | Op::Clz if cx.ty(inst.args[0]) == Ty::B16 => Step::Keep,
        Op::FDiv | Op::FRcp | Op::FSqrt if let Some(bits) = known(cx) => {
            let ty = cx.result_ty();
            Step::Values(vec![cx.k(ty, bits)])
        }
        Op::FDiv | Op::FRcp | Op::FSqrt | Op::FRsqrt | Op::FEx2 | Op::FLg2 | Op::FSin | Op::FCos if fmt == Fmt::F32 => {
            float::single(cx)
        }
        Op::FDiv | Op::FRcp | Op::FSqrt | Op::FRsqrt | Op::FMin | Op::FMax | Op::FSat if fmt == Fmt::F64 => {
            float::double(cx)
        }
        Op::Load | Op::Store => vectors::memory(cx),
        Op::Atom | Op::Red => atomics::expand(cx),
        Op::Vote | Op::Match => masks::expand(cx),
        _ => Step::Keep,
    }
}
