//! What is only compared with constants, and more than once, is extended to a word once.
//!
//! The machine compares words: each comparison of 16 bits first extends what it compares. A switch over a short value, which became a tree of
//! comparisons, extends it again in each block. Where nothing else reads the value it dies where it is extended, and no register more is
//! alive.

use super::uses;
use crate::ir::{Attr, Cmp, Def, Func, Inst, InstId, Mem, Op, Ty, Value};

/// How the comparisons of a value with constants look at it.
#[derive(Clone, Copy, Default)]
struct Compared {
    times: u32,
    signed: bool,
    unsigned: bool,
    /// What the last one says that only asks whether both are the same.
    equal_signed: bool,
}

impl Compared {
    /// The extension that suits all.
    fn as_signed(self) -> bool {
        self.signed || !self.unsigned && self.equal_signed
    }
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    let mut seen: Vec<Compared> = Vec::new();
    for b in &f.blocks {
        for &i in &b.insts {
            let inst = f.inst(i);
            let Some(v) = compares(f, inst) else { continue };
            seen.resize(f.values.len(), Compared::default());
            let at = &mut seen[v.index()];
            at.times += 1;
            match inst.attr.cmp {
                Cmp::Eq | Cmp::Ne => at.equal_signed = inst.attr.signed,
                _ if inst.attr.signed => at.signed = true,
                _ => at.unsigned = true,
            }
        }
    }
    if !seen.iter().any(|s| s.times > 1) {
        return;
    }
    let uses = uses(f);
    let extended = |v: usize| seen[v].times > 1 && seen[v].times == uses[v] && !(seen[v].signed && seen[v].unsigned);
    let mut words: Vec<Option<Value>> = vec![None; seen.len()];
    for b in 0..f.blocks.len() {
        let old = std::mem::take(&mut f.blocks[b].insts);
        let mut new: Vec<InstId> = Vec::with_capacity(old.len() + 2);
        let params = f.blocks[b].params.clone();
        let mut widen = |f: &mut Func, new: &mut Vec<InstId>, v: Value| {
            if v.index() < seen.len() && extended(v.index()) {
                let attr = Attr { signed: seen[v.index()].as_signed(), ..Attr::default() };
                let op = if attr.signed { Op::Sext } else { Op::Zext };
                let loc = if let Def::Inst(i, _) = f.def(v) { f.inst(i).loc } else { u32::MAX };
                let inst = Inst {
                    op,
                    attr: Attr::default(),
                    mem: Mem::default(),
                    imm: 0,
                    args: [v].as_slice().into(),
                    results: Default::default(),
                    loc,
                };
                let id = f.new_inst(inst, &[Ty::B32]);
                words[v.index()] = Some(f.inst(id).results[0]);
                new.push(id);
            }
        };
        params.into_iter().for_each(|v| widen(f, &mut new, v));
        for id in old {
            new.push(id);
            for v in f.inst(id).results.clone() {
                widen(f, &mut new, v);
            }
        }
        f.blocks[b].insts = new;
    }
    for b in 0..f.blocks.len() {
        let old = std::mem::take(&mut f.blocks[b].insts);
        let mut new = Vec::with_capacity(old.len());
        for id in old {
            if let Some(v) = compares(f, f.inst(id))
                && let Some(word) = words[v.index()]
            {
                let inst = f.inst(id).clone();
                let bits = f.constant(inst.args[1]).unwrap_or(0) as u16;
                let signed = seen[v.index()].as_signed();
                let imm = if signed { i64::from(bits as i16 as i32 as u32) } else { i64::from(bits) };
                let constant = Inst {
                    op: Op::Const,
                    attr: Attr::default(),
                    mem: Mem::default(),
                    imm,
                    args: Default::default(),
                    results: Default::default(),
                    loc: inst.loc,
                };
                let k = f.new_inst(constant, &[Ty::B32]);
                new.push(k);
                let k = f.inst(k).results[0];
                let compare = &mut f.insts[id.0 as usize];
                compare.args = [word, k].as_slice().into();
            }
            new.push(id);
        }
        f.blocks[b].insts = new;
    }
}

/// The value of 16 bits that is compared with a constant here. What is loaded stands extended in its register as it is.
fn compares(f: &Func, inst: &Inst) -> Option<Value> {
    let [v, k] = *inst.args.as_slice() else { return None };
    let constant = |v: Value| f.constant(v).is_some();
    let extended = |v: Value| f.def_inst(v).is_some_and(|d| d.op == Op::Load);
    (inst.op == Op::ICmp && f.ty(v) == Ty::B16 && constant(k) && !constant(v) && !extended(v)).then_some(v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    /// Extensions, and comparisons of words, that two comparisons of one value become.
    fn made(first: &str, second: &str, more: &str) -> (usize, usize) {
        let source = format!(
            "func k entry returns() {{\nblk0():\nv0:b64 = param\nv6:b32 = sreg\nv1:b16 = trunc v6\nv2:b16 = const {{imm=65535}}\n\
             v3:b16 = const {{imm=2}}\nv4:p = icmp v1, v2 {{{first}}}\nbrif v4, blk1(), blk2()\nblk1():\nv5:p = icmp v1, v3 {{{second}}}\n\
             brif v5, blk3(), blk2()\nblk2():\n{more}\nbr blk3()\nblk3():\nexit\n}}"
        );
        let mut f = text::parse(&source).unwrap().remove(0);
        run(&mut f);
        verify::verify(&f).unwrap();
        let all: Vec<&Inst> = f.blocks.iter().flat_map(|b| &b.insts).map(|&i| f.inst(i)).collect();
        let words: Vec<&&Inst> = all.iter().filter(|i| i.op == Op::ICmp && f.ty(i.args[0]) == Ty::B32).collect();
        let minus = all.iter().any(|i| i.op == Op::Sext);
        for i in &words {
            let k = f.constant(i.args[1]).unwrap() as u32;
            assert!(k == 2 || k == if minus { u32::MAX } else { 0xffff }, "{k:#x}");
        }
        (all.iter().filter(|i| matches!(i.op, Op::Sext | Op::Zext)).count(), words.len())
    }

    #[test]
    fn two_comparisons_share_an_extension() {
        assert_eq!(made("cmp=eq", "cmp=eq signed", ""), (1, 2));
        assert_eq!(made("cmp=gt signed", "cmp=eq", ""), (1, 2));
        assert_eq!(made("cmp=lt", "cmp=ne", ""), (1, 2));
    }

    #[test]
    fn what_is_seen_in_two_ways_or_read_otherwise_stays() {
        assert_eq!(made("cmp=gt signed", "cmp=lt", ""), (0, 0));
        assert_eq!(made("cmp=eq", "cmp=eq", "store v0, v1 {space=global bytes=2}"), (0, 0));
    }
}
