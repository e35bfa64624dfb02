//! The same operation on both halves of a word, one after the other, becomes one operation on the pair.
//!
//! Triton takes words of two halves apart, computes with each half, and puts the results together again. A word that is put together of two results of one
//! kind of operation is one operation on words, where what the halves read comes of words in the same way: the two halves of one, the results of such
//! operations, twice the same half, constants, or halves that are put together once more, if that is no more than was to be done before. Nobody else may read
//! the halves. Linear.

use crate::ir::{Attr, Block, Builder, Def, Fmt, Func, InstId, Op, Ty, Value};
use smallvec::SmallVec;

/// How many operations deep a pair is looked at.
const DEEP: u32 = 16;

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f.insts.iter().any(|i| i.op == Op::Pack && i.args.iter().all(|&a| f.def_inst(a).is_some_and(|d| pairs(d.op)))) {
        return;
    }
    let mut uses = vec![0u32; f.values.len()];
    let mut home = vec![u32::MAX; f.values.len()];
    for (n, b) in (0..).zip(&f.blocks) {
        b.params.iter().for_each(|p| home[p.index()] = n);
        for &i in &b.insts {
            f.inst(i).args.iter().for_each(|a| uses[a.index()] += 1);
            f.inst(i).results.iter().for_each(|r| home[r.index()] = n);
        }
        b.term.visit(|v| uses[v.index()] += 1);
    }
    let mut pass = Pass { uses, home, twice: Vec::new() };
    for b in 0..f.blocks.len() {
        let old = std::mem::take(&mut f.blocks[b].insts);
        f.blocks[b].insts.reserve(old.len());
        for id in old {
            pass.put(f, b, id);
            f.blocks[b].insts.push(id);
        }
    }
}

/// Operations of which there are some on pairs.
fn pairs(op: Op) -> bool {
    matches!(op, Op::FAdd | Op::FMul | Op::FFma | Op::FNeg | Op::FAbs | Op::FMin | Op::FMax)
}

/// What two halves are together.
enum Pair {
    /// A word that is there.
    Word(Value),
    /// What this operation gives for two words.
    Operation(Op, Attr),
    /// A constant.
    Constant(u64),
    /// Twice the same.
    Twice,
    /// Two results of conversions, which one instruction converts and puts together.
    Converted,
    /// They must be put together.
    Apart,
}

struct Pass {
    uses: Vec<u32>,
    /// By value: the block that makes it.
    home: Vec<u32>,
    /// Halves of which words with twice the same have been made in their own blocks.
    twice: Vec<(Value, Value)>,
}

impl Pass {
    fn pair(&self, f: &Func, b: usize, lo: Value, hi: Value) -> Pair {
        if let (Some(x), Some(y)) = (f.constant(lo), f.constant(hi)) {
            return Pair::Constant(x & 0xffff | (y & 0xffff) << 16);
        }
        if lo == hi {
            return Pair::Twice;
        }
        let (Some(x), Some(y)) = (f.def_inst(lo), f.def_inst(hi)) else { return Pair::Apart };
        if (x.op, y.op) == (Op::Trunc, Op::Hi) && x.args[0] == y.args[0] && f.ty(x.args[0]) == Ty::B32 {
            return Pair::Word(x.args[0]);
        }
        let alone = |v: Value| self.uses.get(v.index()) == Some(&1) && self.home[v.index()] == b as u32;
        if x.op != y.op || x.attr != y.attr || !alone(lo) || !alone(hi) {
            return Pair::Apart;
        }
        let fmt = match x.attr.fmt {
            Fmt::F16 => Fmt::F16x2,
            Fmt::BF16 => Fmt::BF16x2,
            _ => return Pair::Apart,
        };
        match x.op {
            op if pairs(op) && x.args.len() == y.args.len() => Pair::Operation(op, Attr { fmt, ..x.attr }),
            Op::F2F if x.attr.fmt2 == Fmt::F32 => Pair::Converted,
            _ => Pair::Apart,
        }
    }

    /// Operations on pairs that there would be, and words that would have to be put together.
    fn count(&self, f: &Func, b: usize, lo: Value, hi: Value, deep: u32) -> (u32, u32) {
        match self.pair(f, b, lo, hi) {
            Pair::Operation(..) if deep > 0 => {
                let mut sum = (1, 0);
                for (x, y) in arguments(f, lo, hi) {
                    let (operations, words) = self.count(f, b, x, y, deep - 1);
                    sum = (sum.0 + operations, sum.1 + words);
                }
                sum
            }
            Pair::Word(_) | Pair::Constant(_) | Pair::Converted => (0, 0),
            Pair::Operation(..) | Pair::Twice | Pair::Apart => (0, 1),
        }
    }

    /// Makes an operation on pairs of an instruction that puts a word together, if it can; what that reads is added to the block.
    fn put(&mut self, f: &mut Func, b: usize, id: InstId) {
        let inst = f.inst(id);
        if inst.op != Op::Pack || f.ty(inst.args[0]) != Ty::B16 {
            return;
        }
        let (lo, hi, loc) = (inst.args[0], inst.args[1], inst.loc);
        let Pair::Operation(op, attr) = self.pair(f, b, lo, hi) else { return };
        let (operations, words) = self.count(f, b, lo, hi, DEEP);
        if words > operations {
            return;
        }
        let args: SmallVec<[Value; 3]> =
            arguments(f, lo, hi).into_iter().map(|(x, y)| self.word(f, b, x, y, DEEP - 1, loc)).collect();
        let inst = &mut f.insts[id.0 as usize];
        (inst.op, inst.attr, inst.args) = (op, attr, args);
    }

    /// The word of two halves.
    fn word(&mut self, f: &mut Func, b: usize, lo: Value, hi: Value, deep: u32, loc: u32) -> Value {
        let pair = self.pair(f, b, lo, hi);
        let at = |f: &mut Func, block: usize, op: Op, attr: Attr, args: &[Value]| {
            let mut at = Builder::new(f, Block(block as u32));
            at.loc = loc;
            at.one(op, attr, args, Ty::B32)
        };
        match pair {
            Pair::Word(w) => w,
            Pair::Operation(op, attr) if deep > 0 => {
                let args: SmallVec<[Value; 3]> =
                    arguments(f, lo, hi).into_iter().map(|(x, y)| self.word(f, b, x, y, deep - 1, loc)).collect();
                at(f, b, op, attr, &args)
            }
            Pair::Constant(k) => Builder::new(f, Block(b as u32)).constant(Ty::B32, k),
            // Once, where the half is made: outside of the loop at hand, it may be.
            Pair::Twice if self.home.get(lo.index()).is_some_and(|&h| h != u32::MAX && h != b as u32) => {
                if let Some(&(_, w)) = self.twice.iter().find(|t| t.0 == lo) {
                    return w;
                }
                let w = at(f, self.home[lo.index()] as usize, Op::Pack, Attr::default(), &[lo, lo]);
                self.twice.push((lo, w));
                w
            }
            Pair::Operation(..) | Pair::Twice | Pair::Converted | Pair::Apart => {
                at(f, b, Op::Pack, Attr::default(), &[lo, hi])
            }
        }
    }
}

/// What two instructions of a kind read, in pairs.
fn arguments(f: &Func, lo: Value, hi: Value) -> SmallVec<[(Value, Value); 3]> {
    let (Def::Inst(x, _), Def::Inst(y, _)) = (f.def(lo), f.def(hi)) else { return SmallVec::new() };
    f.inst(x).args.iter().copied().zip(f.inst(y).args.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    /// A function of two words, taken apart, and a half.
    fn paired(body: &str) -> String {
        let head = " v0:b32 = param {bytes=4}
 v1:b32 = param {bytes=4 imm=4}
 v2:b16 = trunc v0
 v3:b16 = hi v0
 v4:b16 = trunc v1
 v5:b16 = hi v1
 v6:b32 = param {bytes=4 imm=8}
 v7:b16 = trunc v6
";
        let mut f = text::parse(&format!("func k returns(b32) {{\nblk0():\n{head}{body}}}")).unwrap().remove(0);
        run(&mut f);
        super::super::dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn operations_on_halves_of_words_become_one() {
        let t = paired(
            " v8:b16 = fmul v2, v4 {fmt=bf16}
 v9:b16 = fmul v3, v5 {fmt=bf16}
 v10:b16 = fneg v8 {fmt=bf16}
 v11:b16 = fneg v9 {fmt=bf16}
 v12:b32 = pack v10, v11
 ret v12\n",
        );
        assert!(t.contains(":b32 = fmul v0, v1 {fmt=bf16x2") && t.contains("fneg") && !t.contains("pack"), "{t}");
    }

    #[test]
    fn one_half_for_both_is_put_beside_itself() {
        let t = paired(
            " v8:b16 = fmul v2, v7 {fmt=f16}
 v9:b16 = fmul v3, v7 {fmt=f16}
 v10:b32 = pack v8, v9
 ret v10\n",
        );
        assert!(t.contains("pack v7, v7") && t.matches("fmul").count() == 1 && t.contains("f16x2"), "{t}");
    }

    #[test]
    fn what_is_read_twice_or_differs_stays() {
        let stays = |body: &str| {
            let t = paired(body);
            assert!(!t.contains("x2"), "{t}");
        };
        stays(
            " v8:b16 = fadd v2, v4 {fmt=f16}
 v9:b16 = fadd v3, v5 {fmt=f16}
 v10:b32 = pack v8, v9
 v11:b32 = pack v8, v8
 v12:b32 = xor v10, v11
 ret v12\n",
        );
        stays(
            " v8:b16 = fadd v2, v4 {fmt=f16}
 v9:b16 = fadd v3, v5 {fmt=f16 ftz}
 v10:b32 = pack v8, v9
 ret v10\n",
        );
        // Both words would have to be put together.
        stays(
            " v8:b16 = fadd v2, v5 {fmt=f16}
 v9:b16 = fadd v5, v2 {fmt=f16}
 v10:b32 = pack v8, v9
 ret v10\n",
        );
    }
}
