//! Words: 64-bit numbers that fit in a word are computed as words.
//!
//! Front ends count in 64 bits what is small: indices of threads and CTAs, offsets in a tile. Bounds are found by one walk forward; where a result and
//! what it is computed of have no high word, the word is computed and extended by zeros, which costs nothing. Addresses stay as they are: they take a
//! product or a shift along in one instruction.

use super::narrow::word;
use crate::ir::{Attr, Block, Builder, Func, Inst, Op, Sreg, Ty, Value, mask};

/// The largest word.
const WORD: u64 = u32::MAX as u64;

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f.insts.iter().any(|i| extends(f, i)) {
        return;
    }
    let cfg = f.cfg();
    let mut most: Vec<u64> = f.values.iter().map(|v| mask(v.ty)).collect();
    for &b in &cfg.rpo {
        for &id in &f.blocks[b as usize].insts {
            let inst = f.inst(id);
            if let &[result] = inst.results.as_slice() {
                most[result.index()] = bound(f, inst, &most).unwrap_or(u64::MAX).min(mask(f.ty(result)));
            }
        }
    }
    let uses = Uses::of(f);
    let mut low: Vec<Option<Value>> = vec![None; f.values.len()];
    for &b in &cfg.rpo {
        let insts = std::mem::take(&mut f.blocks[b as usize].insts);
        for id in insts {
            if let Some(op) = short(f, f.inst(id), &most, &uses) {
                let inst = f.inst(id).clone();
                let mut arg = |v: Value| if f.ty(v) == Ty::B64 { word(f, b, inst.loc, v, &low) } else { v };
                let args: Vec<Value> = inst.args.iter().map(|&v| arg(v)).collect();
                if op == Op::ICmp {
                    let new = &mut f.insts[id.0 as usize];
                    new.args = args.into_iter().collect();
                    new.attr.signed = false;
                } else {
                    let value = if op == Op::Zext { args[0] } else { made(f, b, &inst, op, &args) };
                    let new = &mut f.insts[id.0 as usize];
                    (new.op, new.attr, new.args) = (Op::Zext, Attr::default(), [value].into_iter().collect());
                    low[inst.results[0].index()] = Some(value);
                }
            }
            f.blocks[b as usize].insts.push(id);
        }
    }
}

/// Computes the word.
fn made(f: &mut Func, b: u32, inst: &Inst, op: Op, args: &[Value]) -> Value {
    let mut to = Builder::new(f, Block(b));
    to.loc = inst.loc;
    to.one(op, Attr { signed: false, ..inst.attr }, args, Ty::B32)
}

/// Makes a 64-bit number of a word.
fn extends(f: &Func, inst: &Inst) -> bool {
    matches!(inst.op, Op::Zext | Op::Sext | Op::IMulWide | Op::IMadWide) && f.ty(inst.results[0]) == Ty::B64
}

/// Who reads the values.
struct Uses {
    /// How many.
    count: Vec<u32>,
    /// One of them is a sum of 64 bits, or takes it for an address.
    sums: Vec<bool>,
}

impl Uses {
    fn of(f: &Func) -> Uses {
        let mut uses = Uses { count: vec![0; f.values.len()], sums: vec![false; f.values.len()] };
        for block in &f.blocks {
            for &id in &block.insts {
                let inst = f.inst(id);
                let sums = match inst.results.first() {
                    Some(&r) => inst.op == Op::IAdd && f.ty(r) == Ty::B64 || inst.mem.bytes > 0,
                    None => true,
                };
                for v in &inst.args {
                    uses.count[v.index()] += 1;
                    uses.sums[v.index()] |= sums;
                }
            }
            block.term.visit(|v| uses.count[v.index()] += 1);
        }
        uses
    }

    /// An address is likely to take it along: with another number, it is computed for that alone.
    fn along(&self, v: Value) -> bool {
        self.sums[v.index()] && self.count[v.index()] == 1
    }
}

/// The operation on words that gives the low word of this one, whose high word is zero.
fn short(f: &Func, inst: &Inst, most: &[u64], uses: &Uses) -> Option<Op> {
    let &[result] = inst.results.as_slice() else { return None };
    let fits = |n: usize| most[inst.args[n].index()] <= WORD;
    let all = || (0..inst.args.len()).all(fits);
    let constant = |n: usize| f.constant(inst.args[n]);
    if inst.op == Op::ICmp {
        return (f.ty(inst.args[0]) == Ty::B64 && all()).then_some(Op::ICmp);
    }
    if f.ty(result) != Ty::B64 || most[result.index()] > WORD {
        return None;
    }
    match inst.op {
        Op::And => Some(Op::And),
        Op::Sext if f.ty(inst.args[0]) == Ty::B32 => Some(Op::Zext),
        Op::Or | Op::Xor | Op::IMul | Op::IMad | Op::IMin | Op::IMax if all() => Some(inst.op),
        Op::Select if fits(0) && fits(1) => Some(Op::Select),
        // A constant may become part of an address.
        Op::IAdd if all() && !(uses.sums[result.index()] && constant(1).or(constant(0)).is_some()) => Some(Op::IAdd),
        Op::Shr if fits(0) && constant(1).is_some_and(|n| n < 32) => Some(Op::Shr),
        Op::Shl if fits(0) && constant(1).is_some_and(|n| n < 32) && !uses.along(result) => Some(Op::Shl),
        // A product as wide as addresses takes one instruction, too.
        Op::IMulWide if f.ty(inst.args[0]) == Ty::B32 && !uses.sums[result.index()] => Some(Op::IMul),
        Op::IMadWide if f.ty(inst.args[0]) == Ty::B32 && fits(2) && !uses.sums[result.index()] => Some(Op::IMad),
        _ => None,
    }
}

/// The most that an operation gives, as an unsigned number, if that is less than its type holds; `most`: what its arguments are at most.
fn bound(f: &Func, inst: &Inst, most: &[u64]) -> Option<u64> {
    let at = |n: usize| most[inst.args[n].index()];
    let constant = |n: usize| f.constant(inst.args[n]);
    let &[result] = inst.results.as_slice() else { return None };
    let fit = |n: Option<u64>| n.filter(|&n| n <= mask(f.ty(result)));
    // Not negative, as numbers of the type of the arguments.
    let positive = |n: usize| at(n) <= mask(f.ty(inst.args[n])) >> 1;
    let plain = |n: usize| !inst.attr.signed || positive(n);
    let ones = |n: u64| n.checked_next_power_of_two().map_or(u64::MAX, |p| (p - 1) | n);
    match inst.op {
        Op::Const => f.constant(result),
        Op::Sreg => Some(special(Sreg::from_sub(inst.attr.sub)?)),
        Op::Param | Op::Load if inst.mem.bytes < 8 && !inst.attr.signed => Some((1u64 << (8 * inst.mem.bytes)) - 1),
        Op::Zext => Some(at(0)),
        Op::Sext if positive(0) => Some(at(0)),
        Op::Trunc if at(0) <= mask(f.ty(result)) => Some(at(0)),
        Op::And => Some(at(0).min(at(1))),
        Op::Or | Op::Xor => Some(ones(at(0).max(at(1)))),
        Op::Select => Some(at(0).max(at(1))),
        Op::Shr if plain(0) => Some(at(0).checked_shr(constant(1)?.min(64) as u32).unwrap_or(0)),
        Op::Shl => {
            let n = constant(1).filter(|&n| n < 64)?;
            fit(Some(at(0)).filter(|a| a.leading_zeros() as u64 >= n).map(|a| a << n))
        }
        Op::IAdd => fit(at(0).checked_add(at(1))),
        Op::IMul => fit(at(0).checked_mul(at(1))),
        Op::IMulWide if plain(0) && plain(1) => fit(at(0).checked_mul(at(1))),
        Op::IMad => fit(at(0).checked_mul(at(1))?.checked_add(at(2))),
        Op::IMadWide if plain(0) && plain(1) => fit(at(0).checked_mul(at(1))?.checked_add(at(2))),
        Op::IMin if plain(0) && plain(1) => Some(at(0).min(at(1))),
        Op::IMax if plain(0) && plain(1) => Some(at(0).max(at(1))),
        Op::Bfe if !inst.attr.signed => Some(mask_of(constant(2)? & 0xff)),
        Op::Popc | Op::Clz => Some(64),
        _ => None,
    }
}

/// That many ones.
fn mask_of(bits: u64) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The most that a special register holds: the limits of a launch (CUDA C++ Programming Guide, compute capabilities).
fn special(r: Sreg) -> u64 {
    match r {
        Sreg::TidX | Sreg::TidY => 1023,
        Sreg::TidZ => 63,
        Sreg::NtidX | Sreg::NtidY => 1024,
        Sreg::NtidZ => 64,
        Sreg::CtaidX | Sreg::NctaidX => i32::MAX as u64,
        Sreg::CtaidY | Sreg::CtaidZ | Sreg::NctaidY | Sreg::NctaidZ => 65535,
        Sreg::Laneid => 31,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn short(body: &str) -> String {
        let mut f = text::parse(&format!("func k returns(b64) {{\nblk0():\n{body}}}")).unwrap().remove(0);
        run(&mut f);
        super::super::dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    /// The CTA's number, extended; a quarter of it.
    const QUARTER: &str = " v0:b32 = sreg {sub=6}
 v1:b64 = zext v0
 v2:b32 = const {imm=2}
 v3:b64 = shr v1, v2
";

    #[test]
    fn what_fits_is_computed_as_a_word() {
        let t = short(&format!("{QUARTER} ret v3\n"));
        assert!(t.contains(":b32 = shr v0, v2") && t.contains("zext") && !t.contains(":b64 = shr"), "{t}");
        // 2^31 - 1 CTAs, four bytes each, do; sixteen do not.
        let t = short(&format!("{QUARTER} v4:b32 = const {{imm=4}}\n v5:b64 = shl v3, v4\n ret v5\n"));
        assert!(t.contains(":b64 = shl"), "{t}");
        let t = short(&format!("{QUARTER} v4:b64 = shl v3, v2\n ret v4\n"));
        assert!(t.contains(":b32 = shl"), "{t}");
    }

    #[test]
    fn signs_that_are_never_set_are_zeros() {
        let t = short(" v0:b32 = sreg\n v1:b64 = sext v0\n ret v1\n");
        assert!(t.contains("zext"), "{t}");
        let t =
            short(" v0:b64 = param {bytes=8}\n v1:b32 = load v0 {space=global bytes=4}\n v2:b64 = sext v1\n ret v2\n");
        assert!(t.contains("sext"), "{t}");
    }

    #[test]
    fn comparisons_of_what_fits() {
        let body =
            " v4:b64 = const {imm=7}\n v5:p = icmp v3, v4 {cmp=lt signed}\n v6:b64 = select v3, v4, v5\n ret v6\n";
        let t = short(&format!("{QUARTER}{body}"));
        assert!(!t.contains("signed") && t.contains(":b32 = select") && !t.contains(":b64 = select"), "{t}");
    }

    #[test]
    fn addresses_take_products_along() {
        let body = " v4:b32 = sreg\n v5:b64 = zext v4\n v6:b64 = shl v5, v2\n v7:b64 = param {bytes=8}\n v8:b64 = iadd v7, v6\n ret v8\n";
        let t = short(&format!("{QUARTER}{body}"));
        assert!(t.contains(":b64 = shl"), "{t}");
    }
}
