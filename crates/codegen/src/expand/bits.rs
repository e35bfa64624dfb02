//! Integer division, 64-bit products, fields and leading bits.

use super::builtins::Routine;
use super::{Cx, Step};
use crate::ir::{Attr, Cmp, Func, NONZERO, Op, Sreg, Ty, Value};

/// True for a divisor that is known not to be 0.
fn nonzero(f: &Func, v: Value, depth: u32) -> bool {
    if let Some(n) = f.constant(v) {
        return n != 0;
    }
    let Some(inst) = f.def_inst(v).filter(|_| depth < 4) else { return false };
    let known = |&a: &Value| nonzero(f, a, depth + 1);
    match inst.op {
        Op::Or => inst.args.iter().any(known),
        Op::Zext | Op::Sext | Op::IAbs | Op::INeg => known(&inst.args[0]),
        Op::Select => inst.args[..2].iter().all(known),
        Op::Sreg => Sreg::from_sub(inst.attr.sub).is_some_and(Sreg::is_size),
        _ => false,
    }
}

/// Quotient and remainder. 16-bit ones are done in 32 bits; signed ones on magnitudes.
///
/// By 0 both are all ones: PTX leaves that open, but it is what the vendor's code gives, for every type (ptxas 13.5, sm_75 to sm_120).
pub(super) fn division(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let ty = cx.result_ty();
    let signed = inst.attr.signed;
    let (a, b) = (inst.args[0], inst.args[1]);
    if ty == Ty::B16 {
        let ext = if signed { Op::Sext } else { Op::Zext };
        let (a, b) = (cx.op(ext, &[a], Ty::B32), cx.op(ext, &[b], Ty::B32));
        let v = cx.one(inst.op, Attr { signed, sub: inst.attr.sub, ..Attr::default() }, &[a, b], Ty::B32);
        let v = cx.op(Op::Trunc, &[v], Ty::B16);
        // The 32-bit division just written is expanded when its block is come to again.
        return again(cx, v);
    }
    let called = ty == Ty::B64 && cx.seldom.as_ref().is_some_and(|s| s.wants(Routine::UDiv64));
    // Routines of 64 bits that are called ask themselves.
    if !called && inst.attr.sub != NONZERO && !nonzero(cx.f, b, 0) {
        let v = cx.one(inst.op, Attr { signed, sub: NONZERO, ..Attr::default() }, &[a, b], ty);
        let (zero, ones) = (cx.k(ty, 0), cx.k(ty, if ty == Ty::B64 { u64::MAX } else { u32::MAX.into() }));
        let some = cx.b().icmp(Cmp::Ne, false, b, zero);
        let v = cx.op(Op::Select, &[v, ones, some], ty);
        return again(cx, v);
    }
    if ty == Ty::B32 && !signed {
        let r = if inst.op == Op::IDiv { Routine::UDiv32 } else { Routine::URem32 };
        return Step::Call(r, vec![a, b]);
    }
    if called {
        let routine = match (inst.op, signed) {
            (Op::IDiv, false) => Routine::UDiv64,
            (Op::IDiv, true) => Routine::Div64(0),
            (_, false) => Routine::Div64(1),
            (_, true) => Routine::Div64(2),
        };
        return Step::Call(routine, vec![a, b]);
    }
    if ty == Ty::B64 && !signed && inst.op == Op::IDiv {
        return Step::Call(Routine::UDiv64Known, vec![a, b]);
    }
    let unsigned = Attr { sub: NONZERO, ..Attr::default() };
    if !signed {
        let q = cx.one(Op::IDiv, unsigned, &[a, b], ty);
        let p = cx.op(Op::IMul, &[q, b], ty);
        let v = cx.op(Op::ISub, &[a, p], ty);
        return again(cx, v);
    }
    let (ma, mb) = (cx.op(Op::IAbs, &[a], ty), cx.op(Op::IAbs, &[b], ty));
    let m = cx.one(inst.op, unsigned, &[ma, mb], ty);
    // The quotient is negative where the signs differ, the remainder where the dividend is.
    let s = if inst.op == Op::IDiv { cx.op(Op::Xor, &[a, b], ty) } else { a };
    let zero = cx.k(ty, 0);
    let negative = cx.b().icmp(Cmp::Lt, true, s, zero);
    let n = cx.op(Op::INeg, &[m], ty);
    let v = cx.op(Op::Select, &[n, m, negative], ty);
    again(cx, v)
}

/// The sequence holds operations that are to be expanded themselves: everything written so far moves to a block of its
/// own, which is come to later.
pub(super) fn again(cx: &mut Cx, v: Value) -> Step {
    let f = &mut *cx.f;
    let next = f.new_block();
    let insts = std::mem::take(&mut f.blocks[cx.block.index()].insts);
    let term = std::mem::replace(
        &mut f.blocks[cx.block.index()].term,
        crate::ir::Term::Br(crate::ir::Edge { block: next, args: vec![] }),
    );
    // Instructions that were there before the sequence have been looked at: looking again changes nothing.
    f.blocks[next.index()].insts = insts;
    f.blocks[next.index()].term = term;
    Step::Split(next, vec![v])
}

/// High half of a 64-bit product, from four 32-bit ones; signed from unsigned by subtracting the other factor where one
/// is negative.
pub(super) fn multiply_high(cx: &mut Cx) -> Step {
    let (a, b) = (cx.inst.args[0], cx.inst.args[1]);
    let mut v = match (is_word(cx, a), is_word(cx, b)) {
        (true, true) => cx.k(Ty::B64, 0),
        (false, true) => high_of_word(cx, a, b),
        (true, false) => high_of_word(cx, b, a),
        (false, false) => high_unsigned(cx, a, b),
    };
    if cx.inst.attr.signed {
        for (x, y) in [(a, b), (b, a)] {
            let n = cx.k(Ty::B32, 63);
            let sign = cx.one(Op::Shr, Attr { signed: true, ..Attr::default() }, &[x, n], Ty::B64);
            let part = cx.op(Op::And, &[sign, y], Ty::B64);
            v = cx.op(Op::ISub, &[v, part], Ty::B64);
        }
    }
    Step::Values(vec![v])
}

/// Whether the upper half of `v` is known to be zero.
fn is_word(cx: &Cx, v: Value) -> bool {
    match cx.f.constant(v) {
        Some(c) => c >> 32 == 0,
        None => cx.f.def_inst(v).is_some_and(|d| d.op == Op::Zext),
    }
}

/// High half of the unsigned product of `a` and the word `b`.
fn high_of_word(cx: &mut Cx, a: Value, b: Value) -> Value {
    let (al, ah) = cx.b().halves(a);
    let b = cx.op(Op::Trunc, &[b], Ty::B32);
    let low = cx.op(Op::IMulWide, &[al, b], Ty::B64);
    let carry = cx.op(Op::Hi, &[low], Ty::B32);
    let carry = cx.op(Op::Zext, &[carry], Ty::B64);
    let top = cx.op(Op::IMadWide, &[ah, b, carry], Ty::B64);
    let top = cx.op(Op::Hi, &[top], Ty::B32);
    cx.op(Op::Zext, &[top], Ty::B64)
}

/// High half of the unsigned product of `a` and `b`: the two products in the middle are one sum with a carry, so that no word has to be
/// widened to a pair of registers but the sum's upper one, with that carry.
fn high_unsigned(cx: &mut Cx, a: Value, b: Value) -> Value {
    let (al, ah) = cx.b().halves(a);
    let (bl, bh) = cx.b().halves(b);
    let none = cx.k(Ty::P, 0);
    let two = |cx: &mut Cx, op: Op, args: &[Value], ty: Ty| {
        let id = cx.b().push(op, Attr::default(), Default::default(), 0, args, &[ty, Ty::P]);
        (cx.f.inst(id).results[0], cx.f.inst(id).results[1])
    };
    let low = cx.op(Op::IMulWide, &[al, bl], Ty::B64);
    let low = cx.op(Op::Hi, &[low], Ty::B32);
    let mid = cx.op(Op::IMulWide, &[ah, bl], Ty::B64);
    let (mid, above) = two(cx, Op::IMadWideC, &[al, bh, mid, none], Ty::B64);
    let (ml, mh) = cx.b().halves(mid);
    let (_, carry) = two(cx, Op::AddC, &[low, ml, none], Ty::B32);
    let (zero, one) = (cx.k(Ty::B32, 0), cx.k(Ty::B32, 1));
    let above = cx.op(Op::Select, &[one, zero, above], Ty::B32);
    let onto = cx.op(Op::Pack, &[mh, above], Ty::B64);
    two(cx, Op::IMadWideC, &[ah, bh, onto, carry], Ty::B64).0
}

/// Leading zeros, or the highest significant bit, of 64 bits.
pub(super) fn leading(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let a = inst.args[0];
    let (lo, hi) = cx.b().halves(a);
    let zero = cx.k(Ty::B32, 0);
    if inst.op == Op::Clz {
        let none = cx.b().icmp(Cmp::Eq, false, hi, zero);
        let word = cx.op(Op::Select, &[lo, hi, none], Ty::B32);
        let n = cx.op(Op::Clz, &[word], Ty::B32);
        let c = cx.k(Ty::B32, 32);
        let more = cx.op(Op::IAdd, &[n, c], Ty::B32);
        return Step::Values(vec![cx.op(Op::Select, &[more, n, none], Ty::B32)]);
    }
    // Bits that differ from the sign, for the signed form.
    let (lo, hi) = if inst.attr.signed {
        let n = cx.k(Ty::B32, 31);
        let s = cx.one(Op::Shr, Attr { signed: true, ..Attr::default() }, &[hi, n], Ty::B32);
        (cx.op(Op::Xor, &[lo, s], Ty::B32), cx.op(Op::Xor, &[hi, s], Ty::B32))
    } else {
        (lo, hi)
    };
    let none = cx.b().icmp(Cmp::Eq, false, hi, zero);
    let word = cx.op(Op::Select, &[lo, hi, none], Ty::B32);
    let n = cx.op(Op::Bfind, &[word], Ty::B32);
    let c = cx.k(Ty::B32, 32);
    let more = cx.op(Op::IAdd, &[n, c], Ty::B32);
    let at = cx.op(Op::Select, &[n, more, none], Ty::B32);
    if inst.attr.sub & 1 == 0 {
        return Step::Values(vec![at]);
    }
    // Counted from the top; nothing found stays -1.
    let top = cx.k(Ty::B32, 63);
    let from_top = cx.op(Op::ISub, &[top, at], Ty::B32);
    let minus = cx.k(Ty::B32, u32::MAX as u64);
    let missing = cx.b().icmp(Cmp::Eq, false, at, minus);
    Step::Values(vec![cx.op(Op::Select, &[minus, from_top, missing], Ty::B32)])
}

/// A position or length operand: the low byte.
fn byte(cx: &mut Cx, v: Value) -> Value {
    let m = cx.k(Ty::B32, 0xff);
    cx.op(Op::And, &[v, m], Ty::B32)
}

/// A field of a 64-bit value: shifted to the top, then down again with its sign.
pub(super) fn extract64(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let signed = inst.attr.signed;
    let a = inst.args[0];
    let (pos, len) = (byte(cx, inst.args[1]), byte(cx, inst.args[2]));
    let ones = cx.k(Ty::B64, u64::MAX);
    let shifted = cx.one(Op::Shr, Attr { signed, ..Attr::default() }, &[a, pos], Ty::B64);
    let above = cx.op(Op::Shl, &[ones, len], Ty::B64);
    let inside = cx.op(Op::Not, &[above], Ty::B64);
    let field = cx.op(Op::And, &[shifted, inside], Ty::B64);
    if !signed {
        return Step::Values(vec![field]);
    }
    // The sign is the field's top bit, or the value's where the field leaves it; an empty field is 0.
    let zero = cx.k(Ty::B32, 0);
    let (one, top) = (cx.k(Ty::B32, 1), cx.k(Ty::B32, 63));
    let end = cx.op(Op::IAdd, &[pos, len], Ty::B32);
    let last = cx.op(Op::ISub, &[end, one], Ty::B32);
    let last = cx.op(Op::IMin, &[last, top], Ty::B32);
    let bit = cx.op(Op::Shr, &[a, last], Ty::B64);
    let bit = cx.op(Op::Trunc, &[bit], Ty::B32);
    let bit = cx.op(Op::And, &[bit, one], Ty::B32);
    let negative = cx.b().icmp(Cmp::Ne, false, bit, zero);
    let filled = cx.op(Op::Or, &[field, above], Ty::B64);
    let v = cx.op(Op::Select, &[filled, field, negative], Ty::B64);
    let empty = cx.b().icmp(Cmp::Eq, false, len, zero);
    let none = cx.k(Ty::B64, 0);
    Step::Values(vec![cx.op(Op::Select, &[none, v, empty], Ty::B64)])
}

/// a put into b: a mask of the field, then (a << pos) where the mask is, b elsewhere.
pub(super) fn insert(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let ty = cx.result_ty();
    let (a, b) = (inst.args[0], inst.args[1]);
    let (pos, len) = (byte(cx, inst.args[2]), byte(cx, inst.args[3]));
    let ones = cx.k(ty, u64::MAX);
    let above = cx.op(Op::Shl, &[ones, len], ty);
    let field = cx.op(Op::Not, &[above], ty);
    let mask = cx.op(Op::Shl, &[field, pos], ty);
    let moved = cx.op(Op::Shl, &[a, pos], ty);
    if ty == Ty::B32 {
        // 0xe2: moved (a = f0) where the mask (b = cc) is, else the old value (c = aa).
        let v = cx.one(Op::Lop3, Attr { sub: 0xe2, ..Attr::default() }, &[moved, mask, b], ty);
        return Step::Values(vec![v]);
    }
    let keep = cx.op(Op::Not, &[mask], ty);
    let (x, y) = (cx.op(Op::And, &[moved, mask], ty), cx.op(Op::And, &[b, keep], ty));
    Step::Values(vec![cx.op(Op::Or, &[x, y], ty)])
}
