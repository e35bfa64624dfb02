//! Two shifts that fill one value from two sides are funnel shifts: rotations, and numbers that are put together of the ends of two.
//!
//! `x << n` and `y >> (bits - n)` have no bit in common, so that `or`, `xor` and a sum of them are the same. PTX has no rotation of 64 bits; LLVM writes the
//! three operations, the last one as a sum. Of 64 bits each word is one funnel shift, where the operations on their own are four shifts, one of them by a carry
//! from word to word, and two sums.

use crate::ir::{Attr, Func, Inst, InstId, Mem, Op, Ty, Value};
use rustc_hash::FxHashMap;

/// Runs the pass. What the shifts gave may be read elsewhere; they stay.
pub fn run(f: &mut Func) {
    for b in 0..f.blocks.len() {
        if !f.blocks[b].insts.iter().any(|&i| ends(f, f.inst(i)).is_some()) {
            continue;
        }
        let old = std::mem::take(&mut f.blocks[b].insts);
        let mut made = Made { f, list: Vec::with_capacity(old.len() + 8), words: FxHashMap::default() };
        for id in old {
            if let Some(ends) = ends(made.f, made.f.inst(id)) {
                made.join(id, ends);
            }
            made.list.push(id);
        }
        let list = made.list;
        f.blocks[b].insts = list;
    }
}

/// `upper << by` and `lower >> (bits - by)`.
#[derive(Clone, Copy)]
struct Ends {
    upper: Value,
    lower: Value,
    by: u32,
}

/// The shifts that an instruction joins to one value.
fn ends(f: &Func, inst: &Inst) -> Option<Ends> {
    if !matches!(inst.op, Op::Or | Op::Xor | Op::IAdd) || inst.attr.sat {
        return None;
    }
    let [a, b] = *inst.args.as_slice() else { return None };
    let bits = match f.ty(*inst.results.first()?) {
        Ty::B32 => 32,
        Ty::B64 => 64,
        _ => return None,
    };
    let shift = |v: Value, op: Op| {
        let d = f.def_inst(v).filter(|d| d.op == op && !(op == Op::Shr && d.attr.signed))?;
        let by = f.constant(d.args[1])?;
        (1..bits).contains(&by).then(|| (d.args[0], by as u32))
    };
    let (left, right) = match (shift(a, Op::Shl), shift(b, Op::Shr)) {
        (Some(left), Some(right)) => (left, right),
        _ => (shift(b, Op::Shl)?, shift(a, Op::Shr)?),
    };
    (u64::from(left.1 + right.1) == bits).then_some(Ends { upper: left.0, lower: right.0, by: left.1 })
}

/// A block under way.
struct Made<'a> {
    f: &'a mut Func,
    list: Vec<InstId>,
    /// The words of values, low first.
    words: FxHashMap<Value, [Value; 2]>,
}

impl Made<'_> {
    fn add(&mut self, op: Op, imm: i64, args: &[Value], loc: u32) -> Value {
        let inst = Inst {
            op,
            attr: Attr::default(),
            mem: Mem::default(),
            imm,
            args: args.into(),
            results: Default::default(),
            loc,
        };
        let id = self.f.new_inst(inst, &[Ty::B32]);
        self.list.push(id);
        self.f.inst(id).results[0]
    }

    fn halves(&mut self, v: Value, loc: u32) -> [Value; 2] {
        if let Some(&words) = self.words.get(&v) {
            return words;
        }
        let words = [self.add(Op::Trunc, 0, &[v], loc), self.add(Op::Hi, 0, &[v], loc)];
        self.words.insert(v, words);
        words
    }

    /// Lets instruction `id` join the ends as words.
    fn join(&mut self, id: InstId, Ends { upper, lower, by }: Ends) {
        let (loc, result) = (self.f.inst(id).loc, self.f.inst(id).results[0]);
        if self.f.ty(result) == Ty::B32 {
            let n = self.add(Op::Const, i64::from(by), &[], loc);
            return self.turn(id, Op::Shf, &[lower, upper, n]);
        }
        let (x, y) = (self.halves(upper, loc), self.halves(lower, loc));
        // The four words from which 64 bits are taken, `by` of them from the last one or two.
        let [low, high] = match by {
            32 => [y[1], x[0]],
            _ => {
                let n = self.add(Op::Const, i64::from(by % 32), &[], loc);
                let [a, b, c] = if by < 32 { [y[1], x[0], x[1]] } else { [y[0], y[1], x[0]] };
                [self.add(Op::Shf, 0, &[a, b, n], loc), self.add(Op::Shf, 0, &[b, c, n], loc)]
            }
        };
        self.turn(id, Op::Pack, &[low, high]);
    }

    fn turn(&mut self, id: InstId, op: Op, args: &[Value]) {
        let inst = &mut self.f.insts[id.0 as usize];
        inst.op = op;
        inst.attr = Attr::default();
        inst.imm = 0;
        inst.args = args.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::{dce, eval};

    /// What joins `v1 << left` and `v2 >> right`, and what it gives of these numbers; none where it stays.
    fn joined(bits: u32, join: &str, left: u32, right: u32, signed: bool, numbers: [u64; 2]) -> Option<u64> {
        let ty = format!("b{bits}");
        let signed = if signed { " {signed}" } else { "" };
        let source = format!(
            "func k entry returns() {{\nblk0():\nv0:b64 = param\nv1:{ty} = param {{bytes={0} imm=8}}\nv2:{ty} = param {{bytes={0} imm=16}}\n\
             v3:b32 = const {{imm={left}}}\nv4:b32 = const {{imm={right}}}\nv5:{ty} = shl v1, v3\nv6:{ty} = shr v2, v4{signed}\n\
             v7:{ty} = {join} v6, v5\nstore v0, v7 {{space=global bytes={0}}}\nexit\n}}",
            bits / 8
        );
        let mut f = text::parse(&source).unwrap().remove(0);
        run(&mut f);
        dce::run(&mut f);
        verify::verify(&f).unwrap();
        let mut values: FxHashMap<Value, u64> = FxHashMap::default();
        let mut given = std::iter::once(0).chain(numbers);
        let mut shifts = 0;
        for &i in &f.blocks[0].insts {
            let inst = f.inst(i);
            match inst.op {
                Op::Param => {
                    values.insert(inst.results[0], given.next().unwrap());
                }
                Op::Store => return (shifts == 0).then(|| values[&inst.args[1]]),
                Op::Const => {
                    values.insert(inst.results[0], inst.imm as u64);
                }
                op => {
                    shifts += usize::from(matches!(op, Op::Shl | Op::Shr));
                    let args: Vec<u64> = inst.args.iter().map(|a| values[a]).collect();
                    let types: Vec<Ty> = inst.args.iter().map(|&a| f.ty(a)).collect();
                    let v = match op {
                        Op::Trunc => args[0] & 0xffff_ffff,
                        Op::Hi => args[0] >> 32,
                        Op::Pack => args[0] | args[1] << 32,
                        _ => eval::eval(op, inst.attr, &types, &args, f.ty(inst.results[0])).unwrap(),
                    };
                    values.insert(inst.results[0], v);
                }
            }
        }
        None
    }

    #[test]
    fn ends_are_joined_by_funnel_shifts() {
        let (a, b) = (0x0123_4567_89ab_cdefu64, 0xfedc_ba98_7654_3210u64);
        for join in ["or", "xor", "iadd"] {
            for by in 1..64 {
                assert_eq!(joined(64, join, by, 64 - by, false, [a, b]), Some(a << by | b >> (64 - by)), "{by}");
            }
            for by in 1..32 {
                let (a, b) = (a as u32, b as u32);
                let whole = u64::from(a << by | b >> (32 - by));
                assert_eq!(joined(32, join, by, 32 - by, false, [a.into(), b.into()]), Some(whole), "{by}");
            }
        }
    }

    #[test]
    fn what_does_not_fill_the_value_or_overlaps_stays() {
        assert_eq!(joined(64, "or", 20, 43, false, [1, 1]), None);
        assert_eq!(joined(64, "iadd", 20, 45, false, [1, 1]), None);
        assert_eq!(joined(32, "or", 20, 12, true, [1, 1]), None);
        assert_eq!(joined(32, "and", 20, 12, false, [1, 1]), None);
    }
}
