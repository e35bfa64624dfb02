//! Narrows: of 64-bit numbers of which only the low word is read only the low word is computed.
//!
//! Sums, products and bitwise operations pass the low word on without looking at the high one. Addresses in shared memory are
//! the usual case: a front end that counts them in 64 bits reads 32 of them in the end.

use super::{identity, substitute};
use crate::cfg::Cfg;
use crate::ir::{Block, Builder, Def, Func, Inst, Op, Term, Ty, Value};

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
    let cfg = f.cfg();
    let whole = read_whole(f, &cfg);
    // The low word of a value, once it is there.
    let mut low: Vec<Option<Value>> = vec![None; f.values.len()];
    let mut replaced = identity(f);
    let params = word_params(f, &cfg.rpo, &whole, &mut low);
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
        if params {
            pass_words(f, b, &low);
        }
    }
    replaced.extend((replaced.len() as u32..f.values.len() as u32).map(Value));
    substitute(f, &mut replaced);
}

/// By value: whether more than its low word is read. What passes low words on is read as its own readers are read: operations,
/// and parameters of blocks, around loops, too.
fn read_whole(f: &Func, cfg: &Cfg) -> Vec<bool> {
    let mut whole = vec![false; f.values.len()];
    let mut stack: Vec<Value> = Vec::new();
    let read = |v: Value, whole: &mut Vec<bool>, stack: &mut Vec<Value>| {
        if f.ty(v) == Ty::B64 && !std::mem::replace(&mut whole[v.index()], true) {
            stack.push(v);
        }
    };
    // What calls the function fills in the first block's.
    f.blocks[0].params.iter().for_each(|&v| whole[v.index()] = true);
    for &b in &cfg.rpo {
        for &id in &f.blocks[b as usize].insts {
            let inst = f.inst(id);
            if !(cut(f, inst) || wide(f, inst) && passes(f, inst)) {
                inst.args.iter().for_each(|&v| read(v, &mut whole, &mut stack));
            }
        }
        if let Term::Ret(values) = &f.blocks[b as usize].term {
            values.iter().for_each(|&v| read(v, &mut whole, &mut stack));
        }
    }
    while let Some(v) = stack.pop() {
        match f.def(v) {
            Def::Inst(id, _) if passes(f, f.inst(id)) => {
                f.inst(id).args.iter().for_each(|&a| read(a, &mut whole, &mut stack));
            }
            Def::Inst(..) => {}
            Def::Param(block, n) => {
                for &p in &cfg.preds[block.index()] {
                    for e in f.blocks[p as usize].term.edges() {
                        if e.block == block {
                            read(e.args[n as usize], &mut whole, &mut stack);
                        }
                    }
                }
            }
        }
    }
    whole
}

/// Makes words of the parameters of which only the low word is read; says whether there was one.
fn word_params(f: &mut Func, rpo: &[u32], whole: &[bool], low: &mut [Option<Value>]) -> bool {
    let mut any = false;
    for &b in rpo {
        for n in 0..f.blocks[b as usize].params.len() {
            let p = f.blocks[b as usize].params[n];
            if f.ty(p) == Ty::B64 && !whole[p.index()] {
                let w = f.new_value(Ty::B32, Def::Param(Block(b), n as u32));
                f.blocks[b as usize].params[n] = w;
                low[p.index()] = Some(w);
                any = true;
            }
        }
    }
    any
}

/// Passes words to the parameters that block `b` jumps to, where they are words now.
fn pass_words(f: &mut Func, b: u32, low: &[Option<Value>]) {
    let mut term = std::mem::replace(&mut f.blocks[b as usize].term, Term::Unreachable);
    for e in term.edges_mut() {
        for n in 0..e.args.len() {
            let (to, a) = (f.blocks[e.block.index()].params[n], e.args[n]);
            if f.ty(to) == Ty::B32 && f.ty(a) == Ty::B64 {
                e.args[n] = word(f, b, u32::MAX, a, low);
            }
        }
    }
    f.blocks[b as usize].term = term;
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

    fn around_a_loop(read: &str) -> String {
        narrowed(&format!(
            " v0:b64 = const {{imm=16}}\n v1:b64 = const {{imm=8}}\n v2:b32 = const {{imm=64}}\n br blk1(v0)\nblk1(v3:b64):\n v4:b32 = trunc v3\n \
             v5:b64 = iadd v3, v1\n v6:p = icmp v4, v2 {{cmp=lt}}\n brif v6, blk1(v5), blk2()\nblk2():\n {read} ret v4\n"
        ))
    }

    #[test]
    fn what_goes_around_a_loop_is_a_word() {
        let t = around_a_loop("");
        assert!(!t.contains(":b64 = iadd") && !t.contains("(v3:b64)") && t.contains(":b32 = iadd"), "{t}");
        let t = around_a_loop("store v3, v4 {bytes=4}\n");
        assert!(t.contains(":b64 = iadd") && !t.contains(":b32 = i"), "{t}");
    }

    #[test]
    fn what_is_read_whole_stays() {
        let t = narrowed(&format!("{SUM} store v5, v6 {{bytes=4}}\n ret v6\n"));
        assert!(t.contains(":b64 = iadd") && !t.contains(":b32 = i"), "{t}");
    }
}
