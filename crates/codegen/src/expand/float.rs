//! Division, roots and the approximate functions beyond what the special unit computes.
//!
//! The unit flushes subnormal inputs and results; forms without `.ftz` scale around that, as the vendor's code does.

use super::builtins::Routine;
use super::{Cx, Step};
use crate::ir::{Attr, Cmp, Edge, Fmt, Func, Inst, InstId, Op, Rnd, Term, Ty, Value};
use crate::opt::contract;

const F32: Attr =
    Attr { fmt: Fmt::F32, fmt2: Fmt::None, rnd: Rnd::Rn, cmp: Cmp::Eq, ftz: false, sat: false, signed: false, sub: 0 };
const APPROX: u8 = 1;
const FULL: u8 = 2;

fn bits(v: f32) -> u64 {
    v.to_bits() as u64
}

impl Cx<'_> {
    fn f32op(&mut self, op: Op, args: &[Value]) -> Value {
        self.one(op, F32, args, Ty::B32)
    }

    /// The operation as the special unit does it.
    fn unit(&mut self, op: Op, a: Value) -> Value {
        self.one(op, Attr { ftz: true, sub: APPROX, ..F32 }, &[a], Ty::B32)
    }

    /// |a| cmp c.
    fn magnitude(&mut self, cmp: Cmp, a: Value, c: f32) -> Value {
        let m = self.f32op(Op::FAbs, &[a]);
        let c = self.k(Ty::B32, bits(c));
        self.one(Op::FCmp, Attr { cmp, ..F32 }, &[m, c], Ty::P)
    }

    /// a * c where p, else a.
    fn scale_if(&mut self, p: Value, a: Value, c: f32) -> Value {
        let c = self.k(Ty::B32, bits(c));
        let s = self.f32op(Op::FMul, &[a, c]);
        self.op(Op::Select, &[s, a, p], Ty::B32)
    }

    /// The input with subnormals flushed, for correctly rounded forms with `.ftz`.
    fn flushed(&mut self, a: Value) -> Value {
        let minus_zero = self.k(Ty::B32, 0x8000_0000);
        self.one(Op::FAdd, Attr { ftz: true, ..F32 }, &[a, minus_zero], Ty::B32)
    }
}

const SMALLEST: f32 = f32::MIN_POSITIVE;

/// So many quotients beside each other have two conditions each: they are done sooner so. (Eight in Triton's `gelu`: 0.82 of the static cycles of the other form.)
const FEW: usize = 12;
/// So many instructions behind the first are looked through for others: farther away they do not stand beside it.
const NEAR: usize = 4096;

/// A quotient of the full range, in single precision.
pub(super) fn full_quotient(inst: &Inst) -> bool {
    inst.op == Op::FDiv && inst.attr.fmt == Fmt::F32 && inst.attr.sub & 3 == FULL
}

/// True if there are more quotients of the full range, by different divisors, than have room beside each other: this one, and others among what follows it.
pub(super) fn many_quotients(f: &Func, first: &Inst, rest: &[InstId]) -> bool {
    let mut last = first.args[1];
    let others = rest.iter().take(NEAR).map(|&i| f.inst(i)).filter(|i| full_quotient(i));
    others.filter(|i| std::mem::replace(&mut last, i.args[1]) != i.args[1]).nth(FEW - 1).is_some()
}

/// Single precision.
pub(super) fn single(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let attr = inst.attr;
    let a = inst.args[0];
    let approx = attr.sub & 3 == APPROX;
    let unit_only = attr.ftz;
    match inst.op {
        Op::FDiv if attr.sub & 3 == APPROX || attr.sub & 3 == FULL => {
            let (mut x, mut y) = (a, inst.args[1]);
            // It ends with a product that names no rounding, as PTX has none for these quotients: a sum may take it in, as in the vendor's code.
            let product = Attr { ftz: attr.ftz, sub: contract::MAY_FUSE, ..F32 };
            if let Some(c) = reciprocal(cx, y) {
                let r = cx.k(Ty::B32, c);
                return Step::Values(vec![cx.one(Op::FMul, product, &[x, r], Ty::B32)]);
            }
            // Full range: a large divisor is scaled down, a subnormal one up; the quick form only does the latter. No divisor is both: both questions
            // are asked of the one that there is, unless there are many quotients beside each other, where one condition each leaves more predicates.
            let mut small = (!unit_only && !cx.many).then(|| cx.magnitude(Cmp::Lt, y, SMALLEST));
            if attr.sub & 3 == FULL {
                let large = cx.magnitude(Cmp::Gt, y, 8.507_059e37);
                (x, y) = (cx.scale_if(large, x, 0.25), cx.scale_if(large, y, 0.25));
            }
            if !unit_only && cx.many {
                small = Some(cx.magnitude(Cmp::Lt, y, SMALLEST));
            }
            if let Some(small) = small {
                (x, y) = (cx.scale_if(small, x, 16777216.0), cx.scale_if(small, y, 16777216.0));
            }
            let r = cx.unit(Op::FRcp, y);
            Step::Values(vec![cx.one(Op::FMul, product, &[r, x], Ty::B32)])
        }
        Op::FDiv | Op::FSqrt | Op::FRcp if !approx => {
            // The reciprocal of a power of two is no less exact than the number.
            if inst.op == Op::FDiv
                && let Some(c) = reciprocal(cx, inst.args[1]).filter(|c| c & 0x007f_ffff == 0)
            {
                let r = cx.k(Ty::B32, c);
                let attr = Attr { ftz: attr.ftz, rnd: attr.rnd, ..F32 };
                return Step::Values(vec![cx.one(Op::FMul, attr, &[a, r], Ty::B32)]);
            }
            let routine = match inst.op {
                Op::FDiv => Routine::FDiv(attr.rnd),
                Op::FRcp => Routine::FRcp(attr.rnd),
                _ => Routine::FSqrt(attr.rnd),
            };
            if !attr.ftz && routine == Routine::FDiv(Rnd::Rn) {
                return quotient(cx);
            }
            if !attr.ftz {
                return Step::Call(routine, inst.args.to_vec());
            }
            let args: Vec<Value> = inst.args.iter().map(|&v| cx.flushed(v)).collect();
            let exact = cx.one(inst.op, Attr { ftz: false, ..attr }, &args, Ty::B32);
            let v = cx.flushed(exact);
            super::bits::again(cx, v)
        }
        Op::FRcp if approx && let Some(c) = reciprocal(cx, a) => Step::Values(vec![cx.k(Ty::B32, c)]),
        Op::FRcp if !unit_only => {
            // Scaled so that neither the input nor the result is subnormal: up by 2^24 if small, down by 4 if large.
            let small = cx.magnitude(Cmp::Lt, a, SMALLEST);
            let large = cx.magnitude(Cmp::Gt, a, 8.507_059e37);
            let (up, down, one) =
                (cx.k(Ty::B32, bits(16777216.0)), cx.k(Ty::B32, bits(0.25)), cx.k(Ty::B32, bits(1.0)));
            let s = cx.op(Op::Select, &[up, one, small], Ty::B32);
            let s = cx.op(Op::Select, &[down, s, large], Ty::B32);
            let x = cx.f32op(Op::FMul, &[a, s]);
            let r = cx.unit(Op::FRcp, x);
            Step::Values(vec![cx.f32op(Op::FMul, &[s, r])])
        }
        Op::FSqrt | Op::FRsqrt | Op::FLg2 if !unit_only => {
            let small = cx.magnitude(Cmp::Lt, a, SMALLEST);
            let x = cx.scale_if(small, a, 16777216.0);
            let r = cx.unit(inst.op, x);
            let v = match inst.op {
                Op::FSqrt => cx.scale_if(small, r, 1.0 / 4096.0),
                Op::FRsqrt => cx.scale_if(small, r, 4096.0),
                _ => {
                    let c = cx.k(Ty::B32, bits(-24.0));
                    let less = cx.f32op(Op::FAdd, &[r, c]);
                    cx.op(Op::Select, &[less, r, small], Ty::B32)
                }
            };
            Step::Values(vec![v])
        }
        Op::FEx2 if !unit_only && cx.absorbed.is_some_and(|s| s.contains(inst.results[0].index())) => {
            Step::Values(vec![cx.unit(Op::FEx2, a)])
        }
        Op::FEx2 if !unit_only => {
            // 2^x = (2^(x/2))^2 where the result is subnormal.
            let c = cx.k(Ty::B32, bits(-126.0));
            let small = cx.one(Op::FCmp, Attr { cmp: Cmp::Lt, ..F32 }, &[a, c], Ty::P);
            let x = cx.scale_if(small, a, 0.5);
            let r = cx.unit(Op::FEx2, x);
            let square = cx.f32op(Op::FMul, &[r, r]);
            Step::Values(vec![cx.op(Op::Select, &[square, r, small], Ty::B32)])
        }
        Op::FSin | Op::FCos if attr.sub & 4 == 0 => {
            // The unit takes turns, not radians. Bit 2 of `sub` says that this has been done.
            let c = cx.k(Ty::B32, 0x3e22_f983);
            let turns = cx.one(Op::FMul, Attr { rnd: Rnd::Rz, ..F32 }, &[a, c], Ty::B32);
            let v = cx.one(inst.op, Attr { sub: APPROX | 4, ftz: true, ..F32 }, &[turns], Ty::B32);
            Step::Values(vec![v])
        }
        _ => Step::Keep,
    }
}

/// The bits of the reciprocal, rounded to nearest, of a constant, where both are normal numbers: ptxas gives the same wherever an approximation may stand
/// (seen with 199 random divisors).
fn reciprocal(cx: &Cx, v: Value) -> Option<u64> {
    let x = f32::from_bits(cx.f.constant(v)? as u32);
    let r = 1.0 / x;
    (x.is_normal() && r.is_normal()).then(|| bits(r))
}

/// The bits of the reciprocal of a constant power of two of double precision, where both are normal numbers.
fn power(cx: &Cx, v: Value) -> Option<u64> {
    let x = f64::from_bits(cx.f.constant(v)?);
    let r = 1.0 / x;
    (x.is_normal() && r.is_normal() && x.to_bits() & ((1 << 52) - 1) == 0).then(|| r.to_bits())
}

/// a / b, rounded to nearest: the reciprocal, one step of Newton's, the quotient and a correction, which the machine's own check
/// (`FCHK`) is made for, as in the vendor's code; where it says that they do not do, the routine for everything.
fn quotient(cx: &mut Cx) -> Step {
    let (a, b) = (cx.inst.args[0], cx.inst.args[1]);
    let check = cx.one(Op::FCheck, F32, &[a, b], Ty::P);
    let one = cx.k(Ty::B32, bits(1.0));
    let minus = cx.f32op(Op::FNeg, &[b]);
    // Of a constant, it is known, and so is what the step gives.
    let first = match reciprocal(cx, b) {
        Some(c) => cx.k(Ty::B32, c),
        None => cx.unit(Op::FRcp, b),
    };
    let rest = cx.f32op(Op::FFma, &[minus, first, one]);
    let reciprocal = cx.f32op(Op::FFma, &[first, rest, first]);
    let q = cx.f32op(Op::FMul, &[a, reciprocal]);
    let rest = cx.f32op(Op::FFma, &[minus, q, a]);
    let q = cx.f32op(Op::FFma, &[rest, reciprocal, q]);
    let block = cx.block;
    let [slow, done] = [(); 2].map(|()| cx.f.new_block());
    let edge = |block, args| Edge { block, args };
    let branch = Term::CondBr { cond: check, uniform: false, then: edge(slow, Vec::new()), els: edge(done, vec![q]) };
    let term = std::mem::replace(&mut cx.f.blocks[block.index()].term, branch);
    cx.f.blocks[done.index()].term = term;
    let other = super::call_words(cx.f, slow, cx.inst.loc, &[a, b], Ty::B32);
    cx.f.blocks[slow.index()].term = Term::Br(edge(done, vec![other]));
    match cx.seldom.as_deref_mut().filter(|s| s.wants(Routine::FDiv(Rnd::Rn))) {
        Some(list) => {
            let site = list.site(cx.f, Routine::FDivSlow(Rnd::Rn));
            if let Some(&call) = cx.f.blocks[slow.index()].insts.last() {
                let call = &mut cx.f.insts[call.0 as usize];
                (call.op, call.imm) = (Op::Routine, site);
            }
        }
        None => {
            super::inline_last_call(cx.f, slow, Routine::FDivSlow(Rnd::Rn), None);
        }
    }
    cx.block = block;
    let result = cx.f.add_param(done, Ty::B32);
    Step::Split(done, vec![result])
}

/// Double precision.
pub(super) fn double(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let attr = inst.attr;
    let approx = attr.sub & 3 == APPROX;
    match inst.op {
        Op::FDiv if let Some(c) = power(cx, inst.args[1]) => {
            let r = cx.k(Ty::B64, c);
            let attr = Attr { fmt: Fmt::F64, rnd: attr.rnd, ..Attr::default() };
            Step::Values(vec![cx.one(Op::FMul, attr, &[inst.args[0], r], Ty::B64)])
        }
        Op::FDiv => Step::Call(Routine::DDiv(attr.rnd), inst.args.to_vec()),
        Op::FRcp if !approx => {
            if attr.rnd == Rnd::Rn {
                return Step::Call(Routine::DRcp, inst.args.to_vec());
            }
            let one = cx.k(Ty::B64, f64::to_bits(1.0));
            Step::Call(Routine::DDiv(attr.rnd), vec![one, inst.args[0]])
        }
        Op::FSqrt => Step::Call(Routine::DSqrt(attr.rnd), inst.args.to_vec()),
        Op::FMin | Op::FMax => minmax(cx),
        Op::FRsqrt if !attr.ftz => reciprocal_root(cx),
        Op::FSat => {
            let (zero, one) = (cx.k(Ty::B64, 0), cx.k(Ty::B64, f64::to_bits(1.0)));
            let d = Attr { fmt: Fmt::F64, ..Attr::default() };
            let a = inst.args[0];
            // NaN compares false and becomes zero.
            let positive = cx.one(Op::FCmp, Attr { cmp: Cmp::Gt, ..d }, &[a, zero], Ty::P);
            let v = cx.op(Op::Select, &[a, zero, positive], Ty::B64);
            let large = cx.one(Op::FCmp, Attr { cmp: Cmp::Gt, ..d }, &[v, one], Ty::P);
            Step::Values(vec![cx.op(Op::Select, &[one, v, large], Ty::B64)])
        }
        _ => Step::Keep,
    }
}

/// `rsqrt.approx.f64`: the unit's 20 bits and one step of third order; subnormal numbers are scaled by 2^54.
fn reciprocal_root(cx: &mut Cx) -> Step {
    let a = cx.inst.args[0];
    let d = Attr { fmt: Fmt::F64, ..Attr::default() };
    let double = |cx: &mut Cx, v: f64| cx.k(Ty::B64, v.to_bits());
    let (zero, infinity) = (double(cx, 0.0), double(cx, f64::INFINITY));
    let magnitude = cx.one(Op::FAbs, d, &[a], Ty::B64);
    let smallest = double(cx, f64::MIN_POSITIVE);
    let small = cx.one(Op::FCmp, Attr { cmp: Cmp::Lt, ..d }, &[magnitude, smallest], Ty::P);
    let up = double(cx, (1u64 << 54) as f64);
    let scaled = cx.one(Op::FMul, d, &[a, up], Ty::B64);
    let x = cx.op(Op::Select, &[scaled, a, small], Ty::B64);
    let r = cx.one(Op::FRsqrt, Attr { ftz: true, sub: APPROX, ..d }, &[x], Ty::B64);
    // e = 1 - x r^2; r (1 + e/2 + 3/8 e^2)
    let square = cx.one(Op::FMul, d, &[r, r], Ty::B64);
    let minus = cx.one(Op::FNeg, d, &[square], Ty::B64);
    let one = double(cx, 1.0);
    let e = cx.one(Op::FFma, d, &[x, minus, one], Ty::B64);
    let (c, half) = (double(cx, 0.375), double(cx, 0.5));
    let p = cx.one(Op::FFma, d, &[e, c, half], Ty::B64);
    let re = cx.one(Op::FMul, d, &[r, e], Ty::B64);
    let better = cx.one(Op::FFma, d, &[p, re, r], Ty::B64);
    // Zero, infinity, NaN and negative numbers are right as the unit has them.
    let positive = cx.one(Op::FCmp, Attr { cmp: Cmp::Gt, ..d }, &[x, zero], Ty::P);
    let finite = cx.one(Op::FCmp, Attr { cmp: Cmp::Lt, ..d }, &[x, infinity], Ty::P);
    let number = cx.op(Op::And, &[positive, finite], Ty::P);
    let v = cx.op(Op::Select, &[better, r, number], Ty::B64);
    let down = double(cx, (1u64 << 27) as f64);
    let back = cx.one(Op::FMul, d, &[v, down], Ty::B64);
    Step::Values(vec![cx.op(Op::Select, &[back, v, small], Ty::B64)])
}

/// The smaller or larger of two doubles: a number wins over NaN, -0 is smaller than +0, two NaN give the canonical one.
fn minmax(cx: &mut Cx) -> Step {
    let inst = cx.inst;
    let (a, b) = (inst.args[0], inst.args[1]);
    let d = Attr { fmt: Fmt::F64, ..Attr::default() };
    let max = inst.op == Op::FMax;
    let first = cx.one(Op::FCmp, Attr { cmp: if max { Cmp::Gt } else { Cmp::Lt }, ..d }, &[a, b], Ty::P);
    let v = cx.op(Op::Select, &[a, b, first], Ty::B64);
    // Equal numbers differ at most in the sign of zero.
    let equal = cx.one(Op::FCmp, Attr { cmp: Cmp::Eq, ..d }, &[a, b], Ty::P);
    let signs = cx.op(if max { Op::And } else { Op::Or }, &[a, b], Ty::B64);
    let v = cx.op(Op::Select, &[signs, v, equal], Ty::B64);
    let b_nan = cx.one(Op::FCmp, Attr { cmp: Cmp::Nan, ..d }, &[b, b], Ty::P);
    let v = cx.op(Op::Select, &[a, v, b_nan], Ty::B64);
    let a_nan = cx.one(Op::FCmp, Attr { cmp: Cmp::Nan, ..d }, &[a, a], Ty::P);
    let both = cx.op(Op::And, &[a_nan, b_nan], Ty::P);
    let nan = cx.k(Ty::B64, 0x7ff8_0000_0000_0000);
    Step::Values(vec![cx.op(Op::Select, &[nan, v, both], Ty::B64)])
}
