//! Logic of 64 bits over an extended word happens in the low word.
//!
//! Triton adds the index in a tile, a word, to the place of the tile by OR in 64 bits. As an operation on words it takes part in nests of three inputs
//! ([`super::lop3`]): `tile | (lane | 1024)` is one instruction then, and the high word is what it was. Only what another logic operation makes for
//! nothing else is worth that.

use crate::ir::{Block, Builder, Func, InstId, Op, Ty, Value};

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f.insts.iter().any(|i| i.op == Op::Zext) {
        return;
    }
    let mut uses = super::uses(f);
    let mut changed = false;
    for b in 0..f.blocks.len() {
        if !f.blocks[b].insts.iter().any(|&id| parts(f, id, &uses).is_some()) {
            continue;
        }
        changed = true;
        for id in std::mem::take(&mut f.blocks[b].insts) {
            if let Some((whole, word)) = parts(f, id, &uses) {
                let (op, loc) = (f.inst(id).op, f.inst(id).loc);
                let halves = f.def_inst(whole).filter(|d| d.op == Op::Pack).map(|d| (d.args[0], d.args[1]));
                let mut at = Builder::new(f, Block(b as u32));
                at.loc = loc;
                let (low, high) = match halves {
                    Some((low, high)) => (low, Some(high)),
                    None => (at.op(Op::Trunc, &[whole], Ty::B32), None),
                };
                let low = at.op(op, &[low, word], Ty::B32);
                let (op, args) = if op == Op::And {
                    (Op::Zext, vec![low])
                } else {
                    let high = high.unwrap_or_else(|| at.op(Op::Hi, &[whole], Ty::B32));
                    (Op::Pack, vec![low, high])
                };
                let inst = &mut f.insts[id.0 as usize];
                inst.op = op;
                inst.args = args.into_iter().collect();
                uses.resize(f.values.len(), 1);
            }
            f.blocks[b].insts.push(id);
        }
    }
    if changed {
        // What extended the words reads them no longer.
        super::dce::run(f);
    }
}

/// The side that is whole, and the word that is extended on the other, of what becomes cheaper.
fn parts(f: &Func, id: InstId, uses: &[u32]) -> Option<(Value, Value)> {
    let inst = f.inst(id);
    let logic = |op: Op| matches!(op, Op::And | Op::Or | Op::Xor);
    if !logic(inst.op) || f.ty(inst.results[0]) != Ty::B64 {
        return None;
    }
    let word = |v: Value| {
        let d = f.def_inst(v).filter(|d| d.op == Op::Zext && uses[v.index()] == 1)?;
        let w = d.args[0];
        let made = f.def_inst(w)?;
        (f.ty(w) == Ty::B32 && uses[w.index()] == 1 && logic(made.op)).then_some(w)
    };
    (0..2).find_map(|k| Some((inst.args[1 - k], word(inst.args[k])?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::{dce, lop3};

    fn after(op: &str, more: &str) -> String {
        let body = format!(
            "v0:b64 = param {{bytes=8}}\nv1:b32 = sreg\nv2:b32 = const {{imm=1024}}\nv3:b32 = or v1, v2\nv4:b64 = zext v3\nv5:b64 = {op} v4, v0\n{more}store v5, v1 {{space=global bytes=4}}\nexit"
        );
        let mut f = text::parse(&format!("func k entry returns() {{\nblk0():\n{body}\n}}")).unwrap().remove(0);
        run(&mut f);
        lop3::run(&mut f);
        dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn a_word_over_a_whole_is_one_operation() {
        for op in ["or", "xor"] {
            let t = after(op, "");
            assert!(t.contains("lop3") && t.contains("pack") && !t.contains("zext") && !t.contains(" or "), "{t}");
        }
        let t = after("and", "");
        assert!(t.contains("lop3") && t.contains("zext") && !t.contains("pack"), "{t}");
    }

    #[test]
    fn a_word_that_others_read_stays() {
        assert!(after("or", "store v0, v3 {space=global bytes=4}\n").contains("zext"));
    }
}
