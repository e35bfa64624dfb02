//! Whether the upper half of a 64-bit number is zero is asked of upper words.
//!
//! LLVM divides 64-bit numbers as words where both fit, and asks of `(a | b) & 0xffffffff00000000` whether they do, before each division. Of the
//! words alone it is seen that all threads agree, as they do of what a CTA's place and a parameter make, and that the next division asks the same.

use super::uses;
use crate::ir::{Block, Builder, Cmp, Func, InstId, Op, Ty, Value};

/// How many operations, one upon the other, are taken apart.
const DEEP: u32 = 4;

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f.insts.iter().any(|i| i.op == Op::And && f.ty(i.results[0]) == Ty::B64) {
        return;
    }
    let uses = uses(f);
    let mut changed = false;
    for b in 0..f.blocks.len() {
        if !f.blocks[b].insts.iter().any(|&id| asked(f, id).is_some()) {
            continue;
        }
        changed = true;
        for id in std::mem::take(&mut f.blocks[b].insts) {
            if let Some((whole, mask)) = asked(f, id) {
                let loc = f.inst(id).loc;
                let mut at = Builder::new(f, Block(b as u32));
                at.loc = loc;
                let word = match upper(&mut at, whole, &uses, DEEP) {
                    Some(word) if mask == u32::MAX => word,
                    Some(word) => {
                        let mask = at.constant(Ty::B32, mask.into());
                        at.op(Op::And, &[word, mask], Ty::B32)
                    }
                    None => at.constant(Ty::B32, 0),
                };
                let zero = at.constant(Ty::B32, 0);
                f.insts[id.0 as usize].args = [word, zero].into_iter().collect();
            }
            f.blocks[b].insts.push(id);
        }
    }
    if changed {
        super::dce::run(f);
    }
}

/// The number of whose upper half this comparison asks whether it is zero, and of which bits of that half.
fn asked(f: &Func, id: InstId) -> Option<(Value, u32)> {
    let inst = f.inst(id);
    if inst.op != Op::ICmp || !matches!(inst.attr.cmp, Cmp::Eq | Cmp::Ne) || f.constant(inst.args[1]) != Some(0) {
        return None;
    }
    let and = f.def_inst(inst.args[0]).filter(|d| d.op == Op::And && f.ty(d.args[0]) == Ty::B64)?;
    let mask = f.constant(and.args[1]).filter(|&m| m as u32 == 0)?;
    Some((and.args[0], (mask >> 32) as u32))
}

/// The upper word of a number; nothing where it is zero.
fn upper(at: &mut Builder, v: Value, uses: &[u32], deep: u32) -> Option<Value> {
    let Some(def) = at.func.def_inst(v) else { return Some(at.op(Op::Hi, &[v], Ty::B32)) };
    let (op, args) = (def.op, def.args.clone());
    match op {
        Op::Zext => None,
        Op::Const => match at.func.constant(v).unwrap_or(0) >> 32 {
            0 => None,
            word => Some(at.constant(Ty::B32, word)),
        },
        Op::Pack if at.func.ty(args[1]) == Ty::B32 => Some(args[1]),
        // What others read is there as a whole, unless a side leaves it as it is.
        Op::And | Op::Or | Op::Xor
            if deep > 0 && (uses.get(v.index()) == Some(&1) || args.iter().any(|&a| empty(at.func, a))) =>
        {
            match (upper(at, args[0], uses, deep - 1), upper(at, args[1], uses, deep - 1)) {
                (Some(a), Some(b)) => Some(at.op(op, &[a, b], Ty::B32)),
                (one, other) if op != Op::And => one.or(other),
                _ => None,
            }
        }
        _ => Some(at.op(Op::Hi, &[v], Ty::B32)),
    }
}

/// True where a number is a word.
fn empty(f: &Func, v: Value) -> bool {
    f.def_inst(v).is_some_and(|d| d.op == Op::Zext) || f.constant(v).is_some_and(|c| c >> 32 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::gvn;

    fn after(body: &str) -> String {
        let head = "v0:b64 = param {bytes=8}\nv1:b64 = param {bytes=8 imm=8}\nv2:b32 = sreg\nv3:b64 = zext v2\nv4:b64 = const {imm=-4294967296}\nv5:b64 = const {imm=0}";
        let mut f =
            text::parse(&format!("func k entry returns() {{\nblk0():\n{head}\n{body}\nexit\n}}")).unwrap().remove(0);
        run(&mut f);
        gvn::run(&mut f);
        super::super::dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    /// Two divisions of numbers that differ in the lower word alone ask the same, which the threads' places are no part of.
    #[test]
    fn what_the_lower_word_makes_is_not_asked() {
        let ask = |first: u32, with: &str| {
            let n: Vec<u32> = (first..first + 6).collect();
            format!(
                "v{}:b64 = or v0, {with}\nv{}:b64 = or v{}, v1\nv{}:b64 = and v{}, v4\nv{}:p = icmp v{}, v5 {{cmp=ne}}\nv{}:b32 = zext v{}\nstore v{}, v{} {{space=global bytes=4}}\n",
                n[0], n[1], n[0], n[2], n[1], n[3], n[2], n[4], n[3], n[0], n[4]
            )
        };
        let t = after(&format!(
            "{}v11:b32 = const {{imm=128}}\nv12:b32 = or v2, v11\nv13:b64 = zext v12\n{}",
            ask(6, "v3"),
            ask(14, "v13")
        ));
        assert_eq!((t.matches("icmp").count(), t.matches("hi v").count()), (1, 2), "{t}");
        assert!(t.contains(":b32 = or"), "{t}");
    }

    #[test]
    fn a_word_has_no_upper_half() {
        let t = after(
            "v6:b64 = and v3, v4\nv7:p = icmp v6, v5 {cmp=eq}\nv8:b32 = zext v7\nstore v0, v8 {space=global bytes=4}",
        );
        assert!(!t.contains("icmp"), "{t}");
    }

    /// Some bits of the half, and a number that is read as a whole.
    #[test]
    fn bits_of_the_half_are_asked_of_it() {
        let t = after(
            "v6:b64 = xor v0, v1\nv7:b64 = const {imm=1095216660480}\nv8:b64 = and v6, v7\nv9:p = icmp v8, v5 {cmp=ne}\nv10:b32 = zext v9\nstore v6, v10 {space=global bytes=4}",
        );
        assert!(t.contains("hi v6") && t.contains("imm=255") && t.contains("b32 = and"), "{t}");
    }
}
