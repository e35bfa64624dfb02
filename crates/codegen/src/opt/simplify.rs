//! Algebraic rules on one instruction, asked by [`super::gvn`] when it meets the instruction.
//!
//! A rule gives an older value that is the same, a constant, or a cheaper instruction in its place; it never adds one.

use super::eval::eval;
use crate::ir::{Attr, Cmp, Effect, Func, Inst, Op, Ty, Value, mask};

/// What is left of a sum of two when one of them is taken away again, or whose low word is left of its low word: a generic address that was made of one in a window,
/// and is turned back.
fn rest(f: &Func, sum: Value, less: Value) -> Option<Value> {
    let whole = |v: Value| f.def_inst(v).filter(|d| d.op == Op::Trunc).map(|d| d.args[0]);
    let of = |sum: Value, less: Value| {
        let d = f.def_inst(sum).filter(|d| d.op == Op::IAdd)?;
        if d.args[1] == less { Some(d.args[0]) } else { (d.args[0] == less).then(|| d.args[1]) }
    };
    of(sum, less).or_else(|| of(whole(sum)?, whole(less)?))
}

/// What an instruction may be replaced by.
#[derive(Debug, PartialEq)]
pub enum Simpler {
    /// Its only result is this value.
    Value(Value),
    /// Its only result has these bits.
    Const(u64),
    /// Another instruction with the same results.
    Inst(Inst),
}

/// Asks the rules; `None` where the instruction is as simple as they know.
pub fn simplify(f: &Func, inst: &Inst) -> Option<Simpler> {
    let [result] = inst.results.as_slice() else { return None };
    let ty = f.ty(*result);
    let args = &inst.args;
    let k = |i: usize| args.get(i).and_then(|&v| f.constant(v));
    if !args.is_empty() && (0..args.len()).all(|i| k(i).is_some()) {
        let tys: Vec<Ty> = args.iter().map(|&v| f.ty(v)).collect();
        let bits: Vec<u64> = (0..args.len()).filter_map(k).collect();
        if let Some(v) = eval(inst.op, inst.attr, &tys, &bits, ty) {
            return Some(Simpler::Const(v));
        }
    }
    let same = |i: usize| Some(Simpler::Value(args[i]));
    let with = |op: Op, attr: Attr, list: &[Value]| {
        let mut new = inst.clone();
        new.op = op;
        new.attr = attr;
        new.args = list.iter().copied().collect();
        Some(Simpler::Inst(new))
    };
    let def = |i: usize| f.def_inst(args[i]);
    let all = mask(ty);
    // Constants on the right of what commutes.
    let commutes = matches!(
        inst.op,
        Op::IAdd | Op::IMul | Op::IMulHi | Op::IMulWide | Op::IMin | Op::IMax | Op::And | Op::Or | Op::Xor
    );
    if commutes && k(0).is_some() && k(1).is_none() {
        return with(inst.op, inst.attr, &[args[1], args[0]]);
    }
    // Selection makes one instruction of a comparison and what it is combined with: of two, the one that is known last.
    if ty == Ty::P && matches!(inst.op, Op::And | Op::Or | Op::Xor) && args[0] != args[1] {
        let compares = |i: usize| def(i).is_some_and(|d| matches!(d.op, Op::ICmp | Op::FCmp));
        if compares(0) && compares(1) && loaded(f, args[1], LOADED_DEPTH) && !loaded(f, args[0], LOADED_DEPTH) {
            return with(inst.op, inst.attr, &[args[1], args[0]]);
        }
    }
    match inst.op {
        Op::IAdd | Op::ISub | Op::Or | Op::Xor | Op::Shl | Op::Shr if k(1) == Some(0) => same(0),
        Op::ISub | Op::Xor if args[0] == args[1] => Some(Simpler::Const(0)),
        Op::ISub if rest(f, args[0], args[1]).is_some() => {
            let left = rest(f, args[0], args[1])?;
            if f.ty(left) == ty { Some(Simpler::Value(left)) } else { with(Op::Trunc, Attr::default(), &[left]) }
        }
        Op::And | Op::Or | Op::IMin | Op::IMax if args[0] == args[1] => same(0),
        Op::And if k(1) == Some(0) => Some(Simpler::Const(0)),
        Op::And if k(1) == Some(all) => same(0),
        // A mask over bits that are zero anyway, or over nothing else.
        Op::And if k(1).is_some() => {
            let (kept, zeros) = (k(1)? & all, known_zeros(f, args[0], ZEROS_DEPTH));
            if kept & !zeros == 0 {
                return Some(Simpler::Const(0));
            }
            if all & !kept & !zeros == 0 { same(0) } else { None }
        }
        Op::Or if k(1) == Some(all) => Some(Simpler::Const(all)),
        Op::Xor if k(1) == Some(all) => with(Op::Not, Attr::default(), &[args[0]]),
        Op::Not if def(0)?.op == Op::Not => Some(Simpler::Value(def(0)?.args[0])),
        Op::IMul | Op::IMulHi | Op::IMulWide if k(1) == Some(0) => Some(Simpler::Const(0)),
        Op::IMulHi if k(1) == Some(1) && !inst.attr.signed => Some(Simpler::Const(0)),
        Op::IMul if k(1) == Some(1) => same(0),
        Op::IMad if k(0) == Some(0) || k(1) == Some(0) => same(2),
        Op::IMad if k(2) == Some(0) => with(Op::IMul, Attr::default(), &[args[0], args[1]]),
        Op::IMad if k(1) == Some(1) => with(Op::IAdd, Attr::default(), &[args[0], args[2]]),
        Op::IMad if k(0) == Some(1) => with(Op::IAdd, Attr::default(), &[args[1], args[2]]),
        Op::IMad if k(0).is_some() && k(1).is_none() => with(Op::IMad, inst.attr, &[args[1], args[0], args[2]]),
        Op::Shl | Op::Shr if k(1).is_some_and(|n| n >= ty.bits() as u64) && !inst.attr.signed => {
            Some(Simpler::Const(0))
        }
        // Funnel shifts of two words by nothing, or by a word: one of the two.
        Op::Shf if k(2).is_some_and(|n| if inst.attr.sub & 1 == 0 { n & 31 == 0 } else { n == 0 || n >= 32 }) => {
            let (left, by_nothing) = (inst.attr.sub < 2, inst.attr.sub & 1 == 0 || k(2) == Some(0));
            same(usize::from(left == by_nothing))
        }
        Op::Select if args[0] == args[1] => same(0),
        Op::Select if k(2).is_some() => same(if k(2) == Some(0) { 1 } else { 0 }),
        // A register that was never written may hold anything.
        Op::Select if def(1).is_some_and(|d| d.op == Op::Undef) => same(0),
        Op::Select if def(0).is_some_and(|d| d.op == Op::Undef) => same(1),
        // What is chosen under the same condition again.
        Op::Select if def(0).is_some_and(|d| d.op == Op::Select && d.args[2] == args[2]) => {
            with(Op::Select, inst.attr, &[def(0)?.args[0], args[1], args[2]])
        }
        Op::Select if def(1).is_some_and(|d| d.op == Op::Select && d.args[2] == args[2]) => {
            with(Op::Select, inst.attr, &[args[0], def(1)?.args[1], args[2]])
        }
        Op::Select if def(2).is_some_and(|d| d.op == Op::Not) => {
            let p = def(2)?.args[0];
            with(Op::Select, inst.attr, &[args[1], args[0], p])
        }
        Op::Select if ty == Ty::P && k(0) == Some(1) && k(1) == Some(0) => same(2),
        Op::ICmp if args[0] == args[1] => {
            Some(Simpler::Const(matches!(inst.attr.cmp, Cmp::Eq | Cmp::Le | Cmp::Ge) as u64))
        }
        Op::ICmp if k(0).is_some() && k(1).is_none() => {
            let cmp = crate::ir::ops::swap_cmp(inst.attr.cmp);
            with(Op::ICmp, Attr { cmp, ..inst.attr }, &[args[1], args[0]])
        }
        Op::ICmp if k(1).is_some() && def(0)?.op == Op::Select => {
            let outer = def(0)?;
            let q = outer.args[2];
            match (compared(f, inst, outer.args[0])?, compared(f, inst, outer.args[1])?) {
                (Truth::Known(a), Truth::Known(b)) if a == b => Some(Simpler::Const(a as u64)),
                (Truth::Known(true), Truth::Known(false)) => Some(Simpler::Value(q)),
                (Truth::Known(false), Truth::Known(true)) => with(Op::Not, Attr::default(), &[q]),
                (Truth::As(p), Truth::Known(false)) => with(Op::And, Attr::default(), &[p, q]),
                (Truth::Known(true), Truth::As(p)) => with(Op::Or, Attr::default(), &[p, q]),
                _ => None,
            }
        }
        Op::FCmp => super::floors::compared(f, inst).map(|b| Simpler::Const(b.into())),
        Op::Trunc => {
            let d = def(0)?;
            match d.op {
                Op::Zext | Op::Sext if f.ty(d.args[0]) == ty => Some(Simpler::Value(d.args[0])),
                Op::Zext | Op::Sext if f.ty(d.args[0]) > ty => with(Op::Trunc, Attr::default(), &[d.args[0]]),
                Op::Zext | Op::Sext => with(d.op, Attr::default(), &[d.args[0]]),
                Op::Trunc => with(Op::Trunc, Attr::default(), &[d.args[0]]),
                Op::Pack if f.ty(d.args[0]) == ty => Some(Simpler::Value(d.args[0])),
                Op::Pack if f.ty(d.args[0]) > ty => with(Op::Trunc, Attr::default(), &[d.args[0]]),
                // A half of a word that was taken out as a field, or shifted down.
                Op::Bfe if ty == Ty::B16 && f.ty(d.args[0]) == Ty::B32 && f.constant(d.args[2])? & 0xff >= 16 => {
                    match f.constant(d.args[1])? & 0xff {
                        0 => with(Op::Trunc, Attr::default(), &[d.args[0]]),
                        16 => with(Op::Hi, Attr::default(), &[d.args[0]]),
                        _ => None,
                    }
                }
                Op::Shr if ty == Ty::B16 && f.ty(d.args[0]) == Ty::B32 && f.constant(d.args[1]) == Some(16) => {
                    with(Op::Hi, Attr::default(), &[d.args[0]])
                }
                _ => None,
            }
        }
        Op::Hi => {
            let d = def(0)?;
            match d.op {
                Op::Pack => Some(Simpler::Value(d.args[1])),
                Op::Zext if f.ty(d.args[0]) <= ty => Some(Simpler::Const(0)),
                _ => None,
            }
        }
        Op::Pack => {
            let (lo, hi) = (def(0)?, def(1)?);
            let whole = lo.op == Op::Trunc && hi.op == Op::Hi && lo.args[0] == hi.args[0] && f.ty(lo.args[0]) == ty;
            if whole { Some(Simpler::Value(lo.args[0])) } else { None }
        }
        Op::Zext | Op::Sext => {
            let d = def(0)?;
            let x = d.args.first().copied()?;
            // Cut to 16 bits and extended again.
            if d.op == Op::Trunc && f.ty(x) == ty && f.ty(args[0]) == Ty::B16 {
                let (bits, signed) = extended(f, x)?;
                if bits < 16 && !signed || (bits <= 16 && signed == (inst.op == Op::Sext)) {
                    return Some(Simpler::Value(x));
                }
            }
            if d.op == inst.op || (d.op == Op::Zext && inst.op == Op::Sext) {
                return with(d.op, Attr::default(), &[x]);
            }
            None
        }
        Op::Bfe if k(1) == Some(0) && k(2).is_some_and(|n| n & 0xff >= ty.bits() as u64) => same(0),
        Op::Bfe if k(1) == Some(0) && !inst.attr.signed && k(2).is_some_and(|n| known_bits(f, args[0]) as u64 <= n) => {
            same(0)
        }
        // What it was cut from before it was extended.
        Op::Bfe if k(1) == Some(0) && k(2).is_some_and(|n| n & 0xff <= 16) && cut_before(f, args[0], ty).is_some() => {
            with(Op::Bfe, inst.attr, &[cut_before(f, args[0], ty)?, args[1], args[2]])
        }
        // A field of a field, or of what was shifted down.
        Op::Bfe if k(1) == Some(0) && ty == Ty::B32 && inner_field(f, args[0], k(2)?).is_some() => {
            let (x, at) = inner_field(f, args[0], k(2)?)?;
            with(Op::Bfe, inst.attr, &[x, at, args[2]])
        }
        Op::Bfe if k(1) == Some(0) && inst.attr.signed => {
            let (bits, signed) = extended(f, args[0])?;
            let n = k(2)?;
            if signed && bits as u64 <= n || !signed && (bits as u64) < n { same(0) } else { None }
        }
        Op::FNeg
            if def(0)?.op == Op::FNeg && !inst.attr.ftz && !def(0)?.attr.ftz && def(0)?.attr.fmt == inst.attr.fmt =>
        {
            Some(Simpler::Value(def(0)?.args[0]))
        }
        _ => None,
    }
}

/// The word whose field this is, and where that begins, if it is a field of `bits` or more, from a constant place on.
fn inner_field(f: &Func, v: Value, bits: u64) -> Option<(Value, Value)> {
    let d = f.def_inst(v)?;
    let bits = bits & 0xff;
    let at = f.constant(*d.args.get(1)?)?;
    let has = match d.op {
        Op::Bfe => f.constant(d.args[2])? & 0xff,
        Op::Shr if at < 32 => 32 - at,
        _ => return None,
    };
    (f.ty(d.args[0]) == Ty::B32 && f.ty(v) == Ty::B32 && bits <= has && (at & 0xff) + bits <= 32)
        .then_some((d.args[0], d.args[1]))
}

/// What a comparison gives.
enum Truth {
    Known(bool),
    /// What this predicate is.
    As(Value),
}

/// What comparison `inst` with a constant gives for `v` on its left: a constant, or one of two that a predicate chooses.
fn compared(f: &Func, inst: &Inst, v: Value) -> Option<Truth> {
    let ty = f.ty(v);
    let of = |v: Value| {
        let bits = [f.constant(v)?, f.constant(inst.args[1])?];
        eval(Op::ICmp, inst.attr, &[ty; 2], &bits, Ty::P).map(|r| r != 0)
    };
    if f.constant(v).is_some() {
        return of(v).map(Truth::Known);
    }
    let d = f.def_inst(v).filter(|d| d.op == Op::Select)?;
    match (of(d.args[0])?, of(d.args[1])?) {
        (true, false) => Some(Truth::As(d.args[2])),
        (a, b) => (a == b).then_some(Truth::Known(a)),
    }
}

/// How many operations are looked through for a load.
const LOADED_DEPTH: u32 = 3;

/// True if a value is known to be computed from what a load gives, within `depth` operations.
fn loaded(f: &Func, v: Value, depth: u32) -> bool {
    f.def_inst(v)
        .is_some_and(|d| d.op.effect() == Effect::Read || depth > 0 && d.args.iter().any(|&a| loaded(f, a, depth - 1)))
}

/// The value of type `ty` of which `v` extends the low 16 bits.
fn cut_before(f: &Func, v: Value, ty: Ty) -> Option<Value> {
    let wide = f.def_inst(v).filter(|d| matches!(d.op, Op::Zext | Op::Sext) && f.ty(d.args[0]) == Ty::B16)?;
    let cut = f.def_inst(wide.args[0]).filter(|d| d.op == Op::Trunc)?;
    (f.ty(cut.args[0]) == ty).then_some(cut.args[0])
}

/// Bits and signedness of what gives this value, if those are fewer than a word's and it extends them: a narrow load, a field.
pub(crate) fn extended(f: &Func, v: Value) -> Option<(u32, bool)> {
    let d = f.def_inst(v)?;
    let bits = match d.op {
        Op::Load | Op::Param if d.mem.bytes < 4 && d.results.len() == 1 => d.mem.bytes as u32 * 8,
        Op::Bfe => (f.constant(d.args[2])? & 0xff) as u32,
        _ => return None,
    };
    (1..32).contains(&bits).then_some((bits, d.attr.signed))
}

/// An upper bound on the number of significant low bits of an unsigned value.
fn known_bits(f: &Func, v: Value) -> u32 {
    let Some(d) = f.def_inst(v) else { return f.ty(v).bits() };
    match d.op {
        Op::Load | Op::Param if d.results.len() == 1 && d.mem.bytes < 4 && !d.attr.signed => d.mem.bytes as u32 * 8,
        Op::Zext => f.ty(d.args[0]).bits(),
        Op::And => d.args.iter().filter_map(|&a| f.constant(a)).map(|c| 64 - c.leading_zeros()).min().unwrap_or(64),
        Op::Shr if !d.attr.signed => match f.constant(d.args[1]) {
            Some(n) => f.ty(v).bits().saturating_sub(n as u32),
            None => f.ty(v).bits(),
        },
        Op::Bfe if !d.attr.signed => f.constant(d.args[2]).map_or(64, |n| n as u32 & 0xff),
        _ => f.ty(v).bits(),
    }
}

/// How many operations are looked through for bits that are zero.
const ZEROS_DEPTH: u32 = 4;

/// Bits of a value that are zero whatever its inputs are, found by looking through `depth` operations.
fn known_zeros(f: &Func, v: Value, depth: u32) -> u64 {
    let all = mask(f.ty(v));
    if let Some(c) = f.constant(v) {
        return !c & all;
    }
    let Some(d) = f.def_inst(v).filter(|d| depth > 0 && d.results.len() == 1) else { return 0 };
    let of = |n: usize| known_zeros(f, d.args[n], depth - 1);
    // Zeros below the lowest bit that may be one.
    let trailing = |zeros: u64| (!zeros).trailing_zeros();
    let low = |n: u32| if n >= 64 { all } else { ((1u64 << n) - 1) & all };
    match d.op {
        Op::And => of(0) | of(1),
        Op::Or | Op::Xor => of(0) & of(1),
        Op::Select => of(0) & of(1),
        Op::IAdd | Op::ISub => low(trailing(of(0)).min(trailing(of(1)))),
        Op::IMul => low(trailing(of(0)) + trailing(of(1))),
        Op::Zext => of(0) | all & !mask(f.ty(d.args[0])),
        Op::Shl => match f.constant(d.args[1]) {
            Some(n) if n < 64 => (of(0) << n | ((1u64 << n) - 1)) & all,
            _ => 0,
        },
        Op::Shr if !d.attr.signed => match f.constant(d.args[1]) {
            Some(n) if n < f.ty(v).bits() as u64 => of(0) >> n | all & !(all >> n),
            _ => 0,
        },
        Op::Load | Op::Param | Op::Bfe => all & !low(known_bits(f, v)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text;

    /// The last instruction of a block, simplified.
    fn last(body: &str) -> Option<Simpler> {
        let f = text::parse(&format!("func k returns() {{\nblk0():\n{body}\nret\n}}")).unwrap().remove(0);
        let id = *f.blocks[0].insts.last().unwrap();
        simplify(&f, f.inst(id))
    }

    #[test]
    fn identities() {
        let k = "v0:b32 = sreg\nv1:b32 = const {imm=0}\nv2:b32 = const {imm=-1}\n";
        assert_eq!(last(&format!("{k}v3:b32 = iadd v0, v1")), Some(Simpler::Value(Value(0))));
        assert_eq!(last(&format!("{k}v3:b32 = and v0, v1")), Some(Simpler::Const(0)));
        assert_eq!(last(&format!("{k}v3:b32 = and v0, v2")), Some(Simpler::Value(Value(0))));
        assert_eq!(last(&format!("{k}v3:b32 = xor v0, v0")), Some(Simpler::Const(0)));
        assert!(matches!(last(&format!("{k}v3:b32 = iadd v1, v0")), Some(Simpler::Inst(_))));
        assert_eq!(last(&format!("{k}v3:b32 = iadd v0, v2")), None);
    }

    #[test]
    fn what_was_added_is_taken_away() {
        let pair = "v0:b64 = param {bytes=8}\nv1:b64 = window {space=local}\nv2:b64 = iadd v0, v1\n";
        assert_eq!(last(&format!("{pair}v3:b64 = isub v2, v1")), Some(Simpler::Value(Value(0))));
        assert_eq!(last(&format!("{pair}v3:b64 = isub v2, v0")), Some(Simpler::Value(Value(1))));
        assert_eq!(last(&format!("{pair}v3:b64 = isub v1, v2")), None);
        let low = format!("{pair}v3:b32 = trunc v2\nv4:b32 = trunc v1\nv5:b32 = isub v3, v4");
        let Some(Simpler::Inst(left)) = last(&low) else { panic!("no other instruction") };
        assert_eq!((left.op, left.args.as_slice()), (Op::Trunc, &[Value(0)][..]));
    }

    #[test]
    fn funnel_shifts_by_whole_words_are_words() {
        let word = |sub: u8, n: u32| {
            let body = format!(
                "v0:b32 = sreg\nv1:b32 = sreg {{imm=1}}\nv2:b32 = const {{imm={n}}}\nv3:b32 = shf v0, v1, v2 {{sub={sub}}}"
            );
            match last(&body) {
                Some(Simpler::Value(Value(v))) => {
                    // The evaluator, which says what PTX does, agrees.
                    let attr = Attr { sub, ..Attr::default() };
                    let of = eval(Op::Shf, attr, &[Ty::B32; 3], &[100, 101, u64::from(n)], Ty::B32);
                    assert_eq!(of, Some(u64::from(100 + v)), "{sub} {n}");
                    Some(v)
                }
                _ => None,
            }
        };
        let of = |sub: u8| [0, 1, 31, 32, 33, 64].map(|n| word(sub, n));
        // Left and right, the number of bits wrapped and clamped.
        assert_eq!(of(0), [Some(1), None, None, Some(1), None, Some(1)]);
        assert_eq!(of(1), [Some(1), None, None, Some(0), Some(0), Some(0)]);
        assert_eq!(of(2), [Some(0), None, None, Some(0), None, Some(0)]);
        assert_eq!(of(3), [Some(0), None, None, Some(1), Some(1), Some(1)]);
    }

    #[test]
    fn a_choice_under_the_condition_of_another() {
        let k = "v0:p = param {bytes=4}\nv1:b32 = sreg\nv2:b32 = const {imm=16}\nv3:b32 = const {imm=0}\n";
        let Some(Simpler::Inst(new)) = last(&format!("{k}v4:b32 = select v1, v2, v0\nv5:b32 = select v4, v3, v0\n"))
        else {
            panic!("it stays")
        };
        assert_eq!(new.args.as_slice(), [Value(1), Value(3), Value(0)]);
        let Some(Simpler::Inst(new)) = last(&format!("{k}v4:b32 = select v1, v2, v0\nv5:b32 = select v3, v4, v0\n"))
        else {
            panic!("it stays")
        };
        assert_eq!(new.args.as_slice(), [Value(3), Value(2), Value(0)]);
    }

    #[test]
    fn comparisons_of_chosen_constants() {
        let k = "v0:p = param {bytes=4}\nv1:p = param {bytes=4 imm=4}\nv2:b32 = const {imm=16}\nv3:b32 = const {imm=0}\nv4:b32 = select v2, v3, v0\n";
        let of = |rest: &str| last(&format!("{k}{rest}"));
        assert_eq!(of("v5:p = icmp v4, v3 {cmp=ne}"), Some(Simpler::Value(Value(0))));
        assert_eq!(of("v5:p = icmp v4, v3 {cmp=ge}"), Some(Simpler::Const(1)));
        let op = |rest: &str| match of(rest) {
            Some(Simpler::Inst(new)) => Some((new.op, new.args.to_vec())),
            _ => None,
        };
        assert_eq!(op("v5:p = icmp v4, v3 {cmp=eq}"), Some((Op::Not, vec![Value(0)])));
        let outer = "v5:b32 = select v4, v3, v1\n";
        assert_eq!(op(&format!("{outer}v6:p = icmp v5, v3 {{cmp=ne}}")), Some((Op::And, vec![Value(0), Value(1)])));
        assert_eq!(op(&format!("{outer}v6:p = icmp v5, v3 {{cmp=eq}}")), None);
        let outer = "v5:b32 = select v2, v4, v1\n";
        assert_eq!(op(&format!("{outer}v6:p = icmp v5, v3 {{cmp=ne}}")), Some((Op::Or, vec![Value(0), Value(1)])));
    }

    #[test]
    fn halves_of_words() {
        let k = "v0:b32 = sreg\nv1:b32 = const {imm=16}\nv2:b32 = bfe v0, v1, v1\n";
        let Some(Simpler::Inst(new)) = last(&format!("{k}v3:b16 = trunc v2")) else { panic!("it stays") };
        assert_eq!((new.op, new.args.as_slice()), (Op::Hi, [Value(0)].as_slice()));
    }

    #[test]
    fn masks_over_zeros() {
        let k = "v0:p = param {bytes=4}\nv1:b32 = const {imm=16}\nv2:b32 = const {imm=0}\nv3:b32 = const {imm=15}\n";
        let select = format!("{k}v4:b32 = select v1, v2, v0\nv5:b32 = isub v1, v4\n");
        assert_eq!(last(&format!("{select}v6:b32 = and v5, v3")), Some(Simpler::Const(0)));
        assert_eq!(last(&format!("{select}v6:b32 = and v5, v1")), None);
        let k = "v0:b32 = sreg\nv1:b32 = const {imm=3}\nv2:b32 = const {imm=-8}\nv3:b32 = shl v0, v1\n";
        assert_eq!(last(&format!("{k}v4:b32 = and v3, v2")), Some(Simpler::Value(Value(3))));
    }

    #[test]
    fn the_comparison_that_is_known_last_stands_first() {
        let k = "v0:b64 = param {bytes=8}\nv1:b32 = sreg\nv2:b32 = load v0 {space=global bytes=4}\nv3:p = icmp v1, v1 {cmp=lt}\n\
                 v4:p = icmp v2, v1 {cmp=lt}\n";
        let Some(Simpler::Inst(new)) = last(&format!("{k}v5:p = xor v3, v4")) else { panic!("it stays") };
        assert_eq!(new.args.as_slice(), [Value(4), Value(3)]);
        assert_eq!(last(&format!("{k}v5:p = xor v4, v3")), None);
    }

    #[test]
    fn halves_and_wholes() {
        let k = "v0:b64 = param {bytes=8}\nv1:b32 = trunc v0\nv2:b32 = hi v0\n";
        assert_eq!(last(&format!("{k}v3:b64 = pack v1, v2")), Some(Simpler::Value(Value(0))));
        let k = "v0:b32 = sreg\nv1:b64 = zext v0\n";
        assert_eq!(last(&format!("{k}v2:b32 = trunc v1")), Some(Simpler::Value(Value(0))));
        assert_eq!(last(&format!("{k}v2:b32 = hi v1")), Some(Simpler::Const(0)));
    }
}
