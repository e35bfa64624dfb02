//! Vector loads and stores of narrow elements: whole words move, bytes and halves are taken out of them. Those of 256 bits become two of 128: PTX says of a vector
//! access that it is one of each element, in no order.

use super::{Cx, Step};
use crate::ir::{Attr, MemSpace, Op, Ty, Value};

/// Bytes of the widest access.
const WIDEST: usize = 16;

/// An access of `n` elements as two accesses, of half of them each.
fn halves(cx: &mut Cx, n: usize) -> Step {
    let inst = cx.inst;
    let mut values = Vec::with_capacity(n);
    for half in 0..2 {
        let (from, to) = (half * (n / 2), if half == 0 { n / 2 } else { n });
        let mut args = vec![inst.args[0]];
        let mut types = Vec::new();
        if inst.op == Op::Load {
            types.extend(inst.results[from..to].iter().map(|&r| cx.ty(r)));
        } else {
            args.extend_from_slice(&inst.operands()[1 + from..1 + to]);
        }
        args.extend(inst.policy());
        let imm = inst.imm + (from * inst.mem.bytes as usize) as i64;
        let id = cx.b().push(inst.op, inst.attr, inst.mem, imm, &args, &types);
        values.extend(cx.f.inst(id).results.iter().copied());
    }
    Step::Values(values)
}

/// Loads and stores that are wider in number than in words.
pub(super) fn memory(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let n = if inst.op == Op::Load { inst.results.len() } else { inst.operands().len() - 1 };
    let bytes = inst.mem.bytes as usize;
    if n * bytes > WIDEST && inst.mem.space != MemSpace::Stack {
        return halves(cx, n);
    }
    if n < 2 || bytes >= 4 || inst.mem.space == MemSpace::Stack {
        return Step::Keep;
    }
    let total = n * bytes;
    let word_bytes = total.min(4);
    let words = total.div_ceil(4);
    let per_word = word_bytes / bytes;
    let mut mem = inst.mem;
    mem.bytes = word_bytes as u8;
    let width = bytes as u64 * 8;
    if inst.op == Op::Load {
        let types = vec![Ty::B32; words];
        let (imm, args) = (inst.imm, inst.args.to_vec());
        let id = cx.b().push(Op::Load, Attr::default(), mem, imm, &args, &types);
        let loaded = cx.f.inst(id).results.clone();
        let mut out = Vec::with_capacity(n);
        for i in 0..n {
            let at = cx.k(Ty::B32, (i % per_word) as u64 * width);
            let len = cx.k(Ty::B32, width);
            let attr = Attr { signed: inst.attr.signed, ..Attr::default() };
            out.push(cx.one(Op::Bfe, attr, &[loaded[i / per_word], at, len], Ty::B32));
        }
        return Step::Values(out);
    }
    let mut args = vec![inst.args[0]];
    for w in 0..words {
        let part: Vec<Value> = inst.operands()[1..].iter().copied().skip(w * per_word).take(per_word).collect();
        args.push(join(cx, &part, width));
    }
    args.extend(inst.policy());
    cx.b().push(Op::Store, Attr::default(), mem, inst.imm, &args, &[]);
    Step::Values(vec![])
}

/// Packs values of `width` bits (8 or 16) into a word, low first.
fn join(cx: &mut Cx, part: &[Value], width: u64) -> Value {
    let select = |cx: &mut Cx, a: Value, b: Value, s: u64| {
        let s = cx.k(Ty::B32, s);
        cx.op(Op::Prmt, &[a, b, s], Ty::B32)
    };
    match (part, width) {
        ([a, b], 16) => {
            let (a, b) = (cx.op(Op::Trunc, &[*a], Ty::B16), cx.op(Op::Trunc, &[*b], Ty::B16));
            cx.op(Op::Pack, &[a, b], Ty::B32)
        }
        ([a, b], _) => select(cx, *a, *b, 0x5540),
        ([a, b, c, d], _) => {
            let lo = select(cx, *a, *b, 0x5540);
            let hi = select(cx, *c, *d, 0x5540);
            select(cx, lo, hi, 0x5410)
        }
        (list, _) => list[0],
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::{text, verify};

    #[test]
    fn what_is_wider_than_an_access_is_two() {
        let body = "func k entry returns() {\nblk0():\nv0:b64 = param {space=param bytes=8}\nv1:b64, v2:b64, v3:b64, v4:b64 = load v0 {space=global bytes=8 imm=64}\n\
                    store v0, v4, v3, v2, v1 {space=global bytes=8 imm=96}\nexit\n}\n";
        let mut f = text::parse(body).unwrap().remove(0);
        crate::expand::run(&mut f);
        verify::verify(&f).unwrap();
        let t = text::print(&f);
        assert!(t.matches(" load v0 ").count() == 2 && t.matches(" store v0, ").count() == 2, "{t}");
        assert!([64, 80, 96, 112].iter().all(|at| t.contains(&format!("imm={at}"))), "{t}");
    }
}
