//! Questions one behind the other that lead to one place are one question.
//!
//! ```text
//! a: p; brif p, x, b             a: p; ...; q; brif p or q, x, y
//! b: ...; q; brif q, x, y
//! ```
//!
//! C's `&&` and `||` are such branches wherever the front end does not compute what stands between them in any case. Each branch that threads of a warp
//! answer differently takes its own turns, a barrier where they meet again, and the time until its condition is known; a few operations without effects are less, and
//! what the branch guards can stand under the condition then ([`crate::guards`]). Only where nothing else leads to the second question.
//!
//! So is a question around others whose answer is handed on instead of asked: `brif p, x(true), b` with `b: ...; br x(q)` is `br x(p or q)`. Linear.

use crate::ir::{Block, BlockData, Builder, Edge, Effect, Fmt, Func, Inst, Op, Term, Ty, Value};

/// What may be computed needlessly before the second question, in instructions of the machine.
const COST: u32 = 5;

/// The same, of all questions that become one.
const WHOLE: u32 = 16;

/// Values that are chosen because the two ways to the common place hand on others.
const CHOICES: usize = 2;

/// Runs the pass; true if anything changed.
pub fn run(f: &mut Func) -> bool {
    let asks = |b: &BlockData| matches!(b.term, Term::CondBr { .. });
    if !f.blocks.iter().any(asks) {
        return false;
    }
    let cfg = f.cfg();
    let mut ways: Vec<usize> = cfg.preds.iter().map(|p| p.len()).collect();
    ways[0] += 1;
    let mut changed = false;
    for &a in &cfg.rpo {
        // A chain of questions becomes one from its beginning on.
        let mut whole = 0;
        while let Some((second, cost)) = second(f, a as usize, &ways).filter(|s| whole + s.1 <= WHOLE) {
            whole += cost;
            ways[second.place.index()] -= 1;
            unite(f, a as usize, &second);
            changed = true;
        }
    }
    changed
}

/// The second question behind a block's.
struct Second {
    /// Where it is asked, or answered.
    block: Block,
    /// Where both lead.
    place: Block,
    /// The number of the edge to the common place among the first question's.
    nth: usize,
    /// And among the second's; none where the answer is handed on.
    of_second: Option<usize>,
}

/// The two edges of a question.
fn edges(term: &Term) -> Option<[&Edge; 2]> {
    match term {
        Term::CondBr { then, els, .. } if then.block != els.block => Some([then, els]),
        _ => None,
    }
}

/// The question behind that of block `a` which can be asked with it, and what that costs.
fn second(f: &Func, a: usize, ways: &[usize]) -> Option<(Second, u32)> {
    let first = edges(&f.blocks[a].term)?;
    (0..2).find_map(|n| {
        let block = first[1 - n].block;
        let b = &f.blocks[block.index()];
        if ways[block.index()] != 1 || block.index() == a || !b.params.is_empty() {
            return None;
        }
        let (to, of_second) = match &b.term {
            Term::Br(e) => (e, None),
            _ => {
                let both = edges(&b.term)?;
                // Who comes back to where the second question is asked comes by the first.
                if both.iter().any(|e| e.block == block) {
                    return None;
                }
                let m = (0..2).find(|&m| both[m].block == first[n].block)?;
                (both[m], Some(m))
            }
        };
        if to.block != first[n].block {
            return None;
        }
        let (mut choices, mut answers, mut sum) = (0, 0, 0);
        for (&x, &y) in first[n].args.iter().zip(&to.args).filter(|(x, y)| x != y) {
            match f.ty(x) {
                // What one of them is known to be makes it one operation.
                Ty::P if of_second.is_none() && (f.constant(x).is_some() || f.constant(y).is_some()) => answers += 1,
                Ty::P => return None,
                ty => (choices, sum) = (choices + 1, sum + 1 + u32::from(ty == Ty::B64)),
            }
        }
        // Where no answer is handed on, nothing is asked any more.
        if choices > CHOICES || of_second.is_none() && answers == 0 {
            return None;
        }
        let cost = b.insts.iter().try_fold(sum, |sum, &i| Some(sum + cost(f, f.inst(i))?))?;
        (cost <= COST).then_some((Second { block, place: to.block, nth: n, of_second }, cost))
    })
}

/// What an instruction costs those who do not want it; none if it may not, or should not, be computed for nothing.
fn cost(f: &Func, inst: &Inst) -> Option<u32> {
    if inst.op.effect() != Effect::Pure || matches!(inst.attr.fmt, Fmt::F64) {
        return None;
    }
    let wide = inst.args.iter().chain(&inst.results).any(|&v| f.ty(v) == Ty::B64);
    match inst.op {
        Op::Const | Op::Undef | Op::Param | Op::Zext | Op::Trunc | Op::Hi | Op::Pack | Op::Not => Some(0),
        Op::ICmp
        | Op::FCmp
        | Op::And
        | Op::Or
        | Op::Xor
        | Op::Lop3
        | Op::IAdd
        | Op::ISub
        | Op::INeg
        | Op::IMin
        | Op::IMax
        | Op::Shl
        | Op::Shr
        | Op::Select
        | Op::Sext
        | Op::Bfe
        | Op::Prmt
        | Op::FAdd
        | Op::FMul
        | Op::FFma
        | Op::FNeg
        | Op::FAbs
        | Op::FMin
        | Op::FMax => Some(1 + u32::from(wide)),
        Op::IMul | Op::IMad if !wide => Some(1),
        _ => None,
    }
}

/// Makes the two questions one.
fn unite(f: &mut Func, a: usize, second: &Second) {
    let b = std::mem::replace(&mut f.blocks[second.block.index()], BlockData::empty());
    let term = std::mem::replace(&mut f.blocks[a].term, Term::Unreachable);
    let Term::CondBr { cond: p, uniform, then, els } = term else { return };
    f.blocks[a].insts.extend(b.insts);
    let mut at = Builder { func: f, block: Block(a as u32), loc: b.loc };
    let first = second.nth == 0;
    let mut common = if first { then } else { els };
    let term = match (b.term, second.of_second) {
        (Term::CondBr { cond: q, uniform: alike, then, els }, Some(m)) => {
            let (same, rest) = if m == 0 { (then, els) } else { (els, then) };
            choose(&mut at, &mut common.args, &same.args, p, first);
            let uniform = uniform && alike;
            if !first && m == 1 {
                // No condition is turned around: the other place is where both lead.
                Term::CondBr { cond: at.same(Op::And, &[p, q]), uniform, then: rest, els: common }
            } else {
                let both = [turned(&mut at, p, !first), turned(&mut at, q, m == 1)];
                Term::CondBr { cond: at.same(Op::Or, &both), uniform, then: common, els: rest }
            }
        }
        (Term::Br(same), None) => {
            choose(&mut at, &mut common.args, &same.args, p, first);
            Term::Br(common)
        }
        (other, _) => other,
    };
    f.blocks[a].term = term;
}

/// A condition, or what it is not.
fn turned(at: &mut Builder, v: Value, not: bool) -> Value {
    if not { at.same(Op::Not, &[v]) } else { v }
}

/// What the common place is given: `args` where the first question, of `p`, answers `holds`, `others` where it does not.
fn choose(at: &mut Builder, args: &mut [Value], others: &[Value], p: Value, holds: bool) {
    for (x, &y) in args.iter_mut().zip(others) {
        let ty = at.func.ty(*x);
        let known = |at: &Builder, v: Value| at.func.constant(v).map(|k| k & 1 != 0);
        *x = match (ty, known(at, *x), known(at, y)) {
            _ if *x == y => y,
            // `p or y`, `not p and y`, and with the answers the other way round.
            (Ty::P, Some(k), _) => {
                let p = turned(at, p, holds != k);
                at.same(if k { Op::Or } else { Op::And }, &[p, y])
            }
            (Ty::P, _, Some(k)) => {
                let p = turned(at, p, holds == k);
                at.same(if k { Op::Or } else { Op::And }, &[p, *x])
            }
            _ if holds => at.op(Op::Select, &[*x, y, p], ty),
            _ => at.op(Op::Select, &[y, *x, p], ty),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn united(body: &str) -> (bool, String) {
        let mut f = text::parse(&format!("func k entry returns() {{\n{HEAD}{body}}}")).unwrap().remove(0);
        verify::verify(&f).unwrap();
        let done = run(&mut f);
        crate::opt::blocks::run(&mut f);
        verify::verify(&f).unwrap();
        (done, text::print(&f))
    }

    const HEAD: &str = "blk0():
 v0:b32 = sreg
 v1:b32 = const {imm=7}
 v2:b64 = param {space=param bytes=8}
 v3:p = icmp v0, v1 {cmp=lt}
 v4:p = const {imm=1}
";

    /// `brif {first}` to the common place or to `{mid}`, which asks `{second}`. The middle makes values from v6 on, so many.
    fn twice(first: &str, mid: (&str, u32), second: &str) -> String {
        let (mid, given) = (mid.0, 6 + mid.1);
        format!(
            " brif v3, {first}\nblk1():\n v5:p = icmp v0, v1 {{cmp=gt}}\n{mid} brif v5, {second}\n\
             blk2(v{given}:b32):\n store v2, v{given} {{space=global bytes=4}}\n br blk3()\n\
             blk3():\n store v2, v1 {{space=global bytes=4 imm=4}}\n exit\n"
        )
    }

    #[test]
    fn either_leads_to_the_common_place() {
        let (done, t) = united(&twice("blk2(v0), blk1()", ("", 0), "blk2(v0), blk3()"));
        assert!(done && t.contains("v7:p = or v3, v5\n    brif v7, blk1(v0), blk2()"), "{t}");
        // What is asked of the second question is turned around.
        let (_, t) = united(&twice("blk2(v0), blk1()", ("", 0), "blk3(), blk2(v0)"));
        assert!(t.contains("v7:p = not v5\n    v8:p = or v3, v7\n    brif v8, blk1(v0), blk2()"), "{t}");
    }

    #[test]
    fn both_lead_past_the_common_place() {
        let (_, t) = united(&twice("blk1(), blk2(v0)", ("", 0), "blk3(), blk2(v0)"));
        assert!(t.contains("v7:p = and v3, v5\n    brif v7, blk2(), blk1(v0)"), "{t}");
    }

    #[test]
    fn what_the_ways_hand_on_is_chosen() {
        let (_, t) = united(&twice("blk1(), blk2(v0)", ("", 0), "blk2(v1), blk3()"));
        assert!(t.contains("select v1, v0, v3"), "{t}");
        let (_, t) = united(&twice("blk2(v0), blk1()", ("", 0), "blk2(v1), blk3()"));
        assert!(t.contains("select v0, v1, v3"), "{t}");
    }

    #[test]
    fn what_has_effects_or_is_long_stays_under_its_question() {
        let load = " v6:b32 = load v2 {space=global bytes=4}\n";
        assert!(!united(&twice("blk2(v0), blk1()", (load, 1), "blk2(v0), blk3()")).0);
        let adds = |n: u32| (0..n).map(|k| format!(" v{}:b32 = iadd v0, v1\n", 6 + k)).collect::<String>();
        assert!(united(&twice("blk2(v0), blk1()", (&adds(4), 4), "blk2(v0), blk3()")).0);
        assert!(!united(&twice("blk2(v0), blk1()", (&adds(5), 5), "blk2(v0), blk3()")).0);
        assert!(!united(&twice("blk2(v0), blk1()", (" v6:b32 = idiv v1, v0\n", 1), "blk2(v0), blk3()")).0);
    }

    #[test]
    fn a_chain_becomes_one_question() {
        let link = |n: u32| {
            format!("blk{n}():\n v{}:p = icmp v0, v1 {{cmp=eq}}\n brif v{}, blk9(), blk{}()\n", n + 4, n + 4, n + 1)
        };
        let chain: String = (1..8).map(link).collect();
        let ends = "blk8():\n store v2, v1 {space=global bytes=4 imm=4}\n exit\nblk9():\n exit\n";
        let (_, t) = united(&format!(" brif v3, blk9(), blk1()\n{chain}{ends}"));
        assert_eq!(t.matches("brif").count(), 1, "{t}");
    }

    #[test]
    fn answers_that_are_handed_on_are_computed() {
        let meets = |first: &str, given: &str| {
            format!(
                " brif v3, {first}\nblk1():\n v5:p = icmp v0, v1 {{cmp=gt}}\n br blk2({given})\n\
                 blk2(v6:p):\n brif v6, blk3(), blk4()\nblk3():\n store v2, v1 {{space=global bytes=4}}\n br blk4()\nblk4():\n exit\n"
            )
        };
        let (_, t) = united(&meets("blk2(v4), blk1()", "v5"));
        assert!(t.contains("or v3, v5"), "{t}");
        let (_, t) = united(&meets("blk1(), blk2(v4)", "v5"));
        assert!(t.contains("v7:p = not v3\n    v8:p = or v7, v5"), "{t}");
        // The answer behind the first question is known.
        let (_, t) = united(&meets("blk1(), blk2(v3)", "v4"));
        assert!(t.contains("or v3, v3"), "{t}");
    }
}
