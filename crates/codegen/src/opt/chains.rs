//! A product of two words that is added to two others with one carry through both is one instruction.
//!
//! Integers of many words are multiplied by rows of `mad.lo.cc` and `madc.hi.cc`: the lower half of a product is added to one word, the upper half, with
//! the carry of that sum, to the next one. Where nobody else reads the halves and that carry, the machine has it as one multiplication that adds
//! two words and takes and gives a carry. What was there before is dead then.

use super::{identity, resolve, substitute, uses};
use crate::ir::{Attr, Block, Builder, Def, Func, InstId, Op, Ty, Value};

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f.insts.iter().any(|i| i.op == Op::AddC) || !f.insts.iter().any(|i| i.op == Op::IMulWide) {
        return;
    }
    let all = f.values.len();
    let mut pass = Pass { uses: uses(f), made: vec![0; all], read: vec![u32::MAX; all], half: vec![0; all], count: 0 };
    let mut replaced = identity(f);
    for b in 0..f.blocks.len() {
        let found = pass.block(f, b);
        if found.is_empty() {
            continue;
        }
        let mut found = found.into_iter().peekable();
        for (n, id) in (0..).zip(std::mem::take(&mut f.blocks[b].insts)) {
            while let Some(chain) = found.next_if(|c| c.at == n) {
                put(f, b, &chain, &mut replaced);
            }
            f.blocks[b].insts.push(id);
        }
    }
    if pass.count > 0 {
        substitute(f, &mut replaced);
    }
}

/// What is multiplied.
enum Factors {
    Words(Value, Value),
    /// A word that is added as it is.
    Once(Value),
    /// Nothing: only the carry is added.
    None,
}

/// Two sums that become one product.
struct Chain {
    /// Before which instruction of the block.
    at: u32,
    low: InstId,
    high: InstId,
    factors: Factors,
    /// What is added to the lower and to the upper half.
    onto: [Value; 2],
}

struct Pass {
    /// By value: how often it is read.
    uses: Vec<u32>,
    /// By value: where in the block it is made, counted from 1; 0 if not there.
    made: Vec<u32>,
    /// By value: where it is first read in the block.
    read: Vec<u32>,
    /// By value: 2n the lower half of the n-th chain's sum, 2n + 1 the upper one.
    half: Vec<u32>,
    /// Chains so far.
    count: u32,
}

impl Pass {
    /// All chains of a block, in the order of their places.
    fn block(&mut self, f: &Func, b: usize) -> Vec<Chain> {
        let insts = &f.blocks[b].insts;
        let mut found: Vec<Chain> = Vec::new();
        if !insts.iter().any(|&i| f.inst(i).op == Op::AddC) {
            return found;
        }
        for (n, &id) in (0..).zip(insts) {
            let inst = f.inst(id);
            inst.args.iter().for_each(|a| self.read[a.index()] = self.read[a.index()].min(n));
            inst.results.iter().for_each(|r| self.made[r.index()] = n + 1);
        }
        for (n, &id) in (0..).zip(insts) {
            if let Some(c) = self.chain(f, n, id) {
                self.count += 1;
                let [low, high] = [c.low, c.high].map(|i| f.inst(i).results[0].index());
                // The lower sum is there only from here on.
                self.made[low] = self.made[low].max(c.at + 1);
                (self.half[low], self.half[high]) = (2 * self.count, 2 * self.count + 1);
                found.push(c);
            }
        }
        for &id in insts {
            f.inst(id).args.iter().for_each(|a| self.read[a.index()] = u32::MAX);
            f.inst(id).results.iter().for_each(|r| self.made[r.index()] = 0);
        }
        found.sort_by_key(|c| c.at);
        found
    }

    /// The chain whose second sum is `high`, the `n`-th instruction of its block.
    fn chain(&self, f: &Func, n: u32, high: InstId) -> Option<Chain> {
        let second = f.inst(high);
        if second.op != Op::AddC || f.ty(second.results[0]) != Ty::B32 {
            return None;
        }
        let carry = second.args[2];
        let Def::Inst(low, 1) = f.def(carry) else { return None };
        let first = f.inst(low);
        let (sum, begins) = (first.results[0], self.made[carry.index()]);
        if first.op != Op::AddC
            || f.ty(sum) != Ty::B32
            || self.uses[carry.index()] != 1
            || begins == 0
            || self.half[sum.index()] != 0
        {
            return None;
        }
        for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let onto = [first.args[1 - i], second.args[1 - j]];
            let Some(factors) = self.factors(f, [first.args[i], second.args[j]], onto) else { continue };
            // Where the second sum is, if the first one's is not needed before; or where the first one is, if all is there.
            let ready = |v: Value| self.made[v.index()] < begins || f.constant(v).is_some();
            let at = match self.read[sum.index()] > n {
                true => n,
                false if ready(onto[1]) => begins - 1,
                false => return None,
            };
            return Some(Chain { at, low, high, factors, onto });
        }
        None
    }

    /// What two words are the halves of, that are added to others.
    fn factors(&self, f: &Func, [l, h]: [Value; 2], onto: [Value; 2]) -> Option<Factors> {
        // A pair that is there takes a word as it takes a product.
        if f.constant(h) == Some(0) {
            let [x, y] = onto.map(|v| self.half[v.index()]);
            let whole = x != 0 && x % 2 == 0 && y == x + 1;
            return whole.then(|| if f.constant(l) == Some(0) { Factors::None } else { Factors::Once(l) });
        }
        let half =
            |v: Value, op: Op| f.def_inst(v).filter(|d| d.op == op && self.uses[v.index()] == 1).map(|d| d.args[0]);
        let product = half(l, Op::Trunc).filter(|&p| self.uses[p.index()] == 2 && half(h, Op::Hi) == Some(p))?;
        let d = f.def_inst(product).filter(|d| d.op == Op::IMulWide && !d.attr.signed)?;
        (f.ty(d.args[0]) == Ty::B32).then(|| Factors::Words(d.args[0], d.args[1]))
    }
}

/// Puts the product at the end of block `b`.
fn put(f: &mut Func, b: usize, chain: &Chain, replaced: &mut Vec<Value>) {
    let (first, second) = (f.inst(chain.low), f.inst(chain.high));
    let (loc, carry, old) = (second.loc, first.args[2], [first.results[0], second.results[0], second.results[1]]);
    let [x, y] = chain.onto.map(|v| resolve(replaced, v));
    let whole = match (f.def_inst(x), f.def_inst(y)) {
        (Some(l), Some(h)) if l.op == Op::Trunc && h.op == Op::Hi && l.args[0] == h.args[0] => Some(l.args[0]),
        _ => None,
    };
    let constants = [x, y].map(|v| f.constant(v));
    let mut at = Builder::new(f, Block(b as u32));
    at.loc = loc;
    let onto = match (whole, constants) {
        (Some(v), _) => v,
        (None, [Some(x), Some(y)]) => at.constant(Ty::B64, y << 32 | x & 0xffff_ffff),
        (None, [_, upper]) => {
            // A constant may stand further down.
            let upper = upper.map_or(y, |bits| at.constant(Ty::B32, bits));
            at.op(Op::Pack, &[x, upper], Ty::B64)
        }
    };
    let [p, q] = match chain.factors {
        Factors::Words(p, q) => [p, q],
        Factors::Once(v) => [v, at.constant(Ty::B32, 1)],
        Factors::None => [at.constant(Ty::B32, 0); 2],
    };
    let args = [p, q, onto, carry];
    let id = at.push(Op::IMadWideC, Attr::default(), Default::default(), 0, &args, &[Ty::B64, Ty::P]);
    let (sum, out) = (at.func.inst(id).results[0], at.func.inst(id).results[1]);
    let (low, high) = at.halves(sum);
    replaced.extend((replaced.len()..f.values.len()).map(|v| Value(v as u32)));
    for (old, new) in old.into_iter().zip([low, high, out]) {
        replaced[old.index()] = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn after(body: &str) -> String {
        let head = "func k returns(b32) {\nblk0():\nv0:b32 = sreg\nv1:b32 = sreg {imm=1}\nv2:b32 = sreg {imm=2}\nv3:b32 = sreg {imm=3}\n\
                    v4:p = const {imm=0}\nv5:b64 = imulwide v0, v1\nv6:b32 = trunc v5\nv7:b32 = hi v5\n";
        let mut f = text::parse(&format!("{head}{body}}}")).unwrap().remove(0);
        verify::verify(&f).unwrap();
        run(&mut f);
        crate::opt::dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn both_halves_with_their_carry_are_one_product() {
        let t = after(
            "v8:b32, v9:p = addc v6, v2, v4\nv10:b32, v11:p = addc v3, v7, v9\nv12:b32 = xor v8, v10\nv13:b32 = select v12, v0, v11\nret v13\n",
        );
        assert!(t.contains("imadwidec v0, v1") && t.contains("pack v2, v3"), "{t}");
        assert!(!t.contains("addc") && !t.contains("imulwide"), "{t}");
    }

    #[test]
    fn a_sum_that_is_read_at_once_takes_the_product_with_it() {
        let t = after(
            "v8:b32, v9:p = addc v6, v2, v4\nv12:b32 = not v8\nv10:b32, v11:p = addc v3, v7, v9\nv13:b32 = xor v12, v10\nret v13\n",
        );
        assert!(t.find("imadwidec").unwrap() < t.find("not").unwrap(), "{t}");
        assert!(!t.contains("addc"), "{t}");
    }

    #[test]
    fn a_constant_that_stands_further_down_is_made_again() {
        let t = after(
            "v8:b32, v9:p = addc v6, v2, v4\nv10:b32 = not v8\nv11:b32 = const {imm=7}\nv12:b32, v13:p = addc v7, v11, v9\nv14:b32 = xor v10, v12\nret v14\n",
        );
        assert!(t.find("imm=7").unwrap() < t.find("imadwidec").unwrap() && !t.contains("addc"), "{t}");
    }

    #[test]
    fn a_second_row_adds_to_the_pair_of_the_first() {
        let t = after(
            "v8:b32, v9:p = addc v6, v2, v4\nv10:b32, v11:p = addc v7, v3, v9\nv12:b64 = imulwide v2, v3\nv13:b32 = trunc v12\nv14:b32 = hi v12\n\
             v15:b32, v16:p = addc v13, v8, v11\nv17:b32, v18:p = addc v14, v10, v16\nv19:b32 = xor v15, v17\nret v19\n",
        );
        assert_eq!(t.matches("imadwidec").count(), 2, "{t}");
        assert_eq!(t.matches("pack").count(), 1, "{t}");
    }

    #[test]
    fn a_pair_takes_a_word_or_a_carry_as_it_takes_a_product() {
        for (word, factor) in [("v0", 1), ("v12", 0)] {
            let t = after(&format!(
                "v8:b32, v9:p = addc v6, v2, v4\nv10:b32, v11:p = addc v7, v3, v9\nv12:b32 = const\n\
                 v13:b32, v14:p = addc {word}, v8, v11\nv15:b32, v16:p = addc v12, v10, v14\nv17:b32 = xor v13, v15\nret v17\n"
            ));
            assert_eq!(t.matches("imadwidec").count(), 2, "{t}");
            assert!(!t.contains("addc") && (factor == 0 || t.contains("const {imm=1}")), "{t}");
        }
    }

    #[test]
    fn a_carry_half_or_sum_that_is_read_elsewhere_leaves_them_apart() {
        for body in [
            // The carry between the halves.
            "v8:b32, v9:p = addc v6, v2, v4\nv10:b32, v11:p = addc v7, v3, v9\nv12:b32 = select v8, v10, v9\nret v12\n",
            // A half.
            "v8:b32, v9:p = addc v6, v2, v4\nv10:b32, v11:p = addc v7, v3, v9\nv12:b32 = xor v8, v10\nv13:b32 = xor v12, v7\nret v13\n",
            // What is added to the upper half comes of the lower sum.
            "v8:b32, v9:p = addc v6, v2, v4\nv10:b32, v11:p = addc v7, v8, v9\nret v10\n",
            // Not the upper half.
            "v8:b32, v9:p = addc v6, v2, v4\nv10:b32, v11:p = addc v0, v3, v9\nv12:b32 = xor v8, v10\nv13:b32 = xor v12, v7\nret v13\n",
        ] {
            let t = after(body);
            assert!(!t.contains("imadwidec"), "{t}");
        }
    }
}
