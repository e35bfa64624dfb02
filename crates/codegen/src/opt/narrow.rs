//! Narrows: of 64-bit numbers of which only the low word is read only the low word is computed.
//!
//! Sums, products and bitwise operations pass the low word on without looking at the high one. Addresses in shared memory are
//! the usual case: a front end that counts them in 64 bits reads 32 of them in the end.

use super::{identity, substitute};
use crate::ir::{Block, Builder, Func, Inst, Op, Ty, Value};

/// Operations whose low word depends on low words alone; of a product of words, on both words; of a shift, when the amount is known and small.
fn passes(f: &Func, inst: &Inst) -> bool {
    match inst.op {
        Op::IAdd | Op::ISub | Op::IMul | Op::IMad | Op::INeg | Op::And | Op::Or | Op::Xor | Op::Not => true,
        Op::Shl => f.constant(inst.args[1]).is_some_and(|n| n < 32),
        Op::IMulWide => f.ty(inst.args[0]) == Ty::B32,
        _ => false,
    }
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f.insts.iter().any(|i| cut(f, i)) {
        return;
    }
    // Values of which only the low word is read: those that no one reads whole.
    let cfg = f.cfg();
    let mut whole = vec![false; f.values.len()];
    for &b in cfg.rpo.iter().rev() {
        f.blocks[b as usize].term.visit(|v| whole[v.index()] = true);
        for &id in f.blocks[b as usize].insts.iter().rev() {
            let inst = f.inst(id);
            let low = cut(f, inst) || wide(f, inst) && passes(f, inst) && !whole[inst.results[0].index()];
            if !low {
                inst.args.iter().for_each(|v| whole[v.index()] = true);
            }
        }
    }
    // The low word of a value, once it is there.
    let mut low: Vec<Option<Value>> = vec![None; f.values.len()];
    let mut replaced = identity(f);
    for &b in &cfg.rpo {
        let insts = std::mem::take(&mut f.blocks[b as usize].insts);
        for id in insts {
            let inst = f.inst(id);
            if cut(f, inst)
                && let Some(word) = low.get(inst.args[0].index()).copied().flatten()
            {
                let result = inst.results[0];
                if f.ty(result) == Ty::B32 {
                    replaced[result.index()] = word;
                    continue;
                }
                f.insts[id.0 as usize].args[0] = word;
            } else if wide(f, inst) && passes(f, inst) && !whole[inst.results[0].index()] {
                let inst = inst.clone();
                let mut arg = |a: Value| if f.ty(a) == Ty::B32 { a } else { word(f, b, inst.loc, a, &low) };
                let args: Vec<Value> = inst.args.iter().map(|&a| arg(a)).collect();
                let op = if inst.op == Op::IMulWide { Op::IMul } else { inst.op };
                let mut to = Builder::new(f, Block(b));
                to.loc = inst.loc;
                low[inst.results[0].index()] = Some(to.op(op, &args, Ty::B32));
                // Nobody reads the whole; the low words of those before it are not read by it.
                continue;
            }
            f.blocks[b as usize].insts.push(id);
        }
    }
    replaced.extend((replaced.len() as u32..f.values.len() as u32).map(Value));
    substitute(f, &mut replaced);
}

/// Takes the low part of a 64-bit value.
fn cut(f: &Func, inst: &Inst) -> bool {
    inst.op == Op::Trunc && f.ty(inst.args[0]) == Ty::B64
}

/// Gives one 64-bit value.
fn wide(f: &Func, inst: &Inst) -> bool {
    matches!(inst.results.as_slice(), &[r] if f.ty(r) == Ty::B64)
}

/// The low word of `v`, made at the end of block `b` if it is not there.
pub(super) fn word(f: &mut Func, b: u32, loc: u32, v: Value, low: &[Option<Value>]) -> Value {
    if let Some(word) = low.get(v.index()).copied().flatten() {
        return word;
    }
    if let Some(d) = f.def_inst(v)
        && matches!(d.op, Op::Sext | Op::Zext)
        && f.ty(d.args[0]) == Ty::B32
    {
        return d.args[0];
    }
    let constant = f.constant(v);
    let mut to = Builder::new(f, Block(b));
    to.loc = loc;
    match constant {
        Some(c) => to.constant(Ty::B32, c as u32 as u64),
        None => to.op(Op::Trunc, &[v], Ty::B32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn narrowed(body: &str) -> String {
        let mut f = text::parse(&format!("func k returns(b32) {{\nblk0():\n{body}}}")).unwrap().remove(0);
        run(&mut f);
        super::super::dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    const SUM: &str = " v0:b32 = sreg {imm=33}
 v1:b64 = sext v0
 v2:b64 = const {imm=4}
 v3:b64 = imul v1, v2
 v4:b64 = zext v0
 v5:b64 = iadd v3, v4
 v6:b32 = trunc v5
";

    #[test]
    fn low_words_alone() {
        let t = narrowed(&format!("{SUM} ret v6\n"));
        assert!(!t.contains(":b64 = i") && !t.contains("sext") && t.contains(":b32 = iadd"), "{t}");
    }

    #[test]
    fn what_is_read_whole_stays() {
        let t = narrowed(&format!("{SUM} store v5, v6 {{bytes=4}}\n ret v6\n"));
        assert!(t.contains(":b64 = iadd") && !t.contains(":b32 = i"), "{t}");
    }
}
