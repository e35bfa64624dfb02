//! The verifier: says where a function breaks the rules of the representation.

use super::{Block, Def, Func, Inst, Op, Term, Ty, Value};
use crate::bitset::BitSet;

/// Checks a function; the error names the block or value and the rule.
pub fn verify(f: &Func) -> Result<(), String> {
    let err = |b: usize, what: String| Err(format!("{}: blk{b}: {what}", f.name));
    if f.blocks.is_empty() {
        return Err(format!("{}: no blocks", f.name));
    }
    let cfg = f.cfg_checked()?;
    if !cfg.preds[0].is_empty() {
        return err(0, "the entry has a predecessor".into());
    }
    let dom = cfg.dominators();
    // Where each value is defined: block and position (0 = parameter).
    let mut place = vec![(u32::MAX, 0usize); f.values.len()];
    let mut seen = BitSet::new(f.insts.len());
    for (b, block) in f.blocks.iter().enumerate() {
        for (n, &p) in block.params.iter().enumerate() {
            if f.def(p) != Def::Param(Block(b as u32), n as u32) {
                return err(b, format!("parameter v{} is recorded elsewhere", p.0));
            }
            place[p.index()] = (b as u32, 0);
        }
        for (i, &id) in block.insts.iter().enumerate() {
            if !seen.insert(id.0 as usize) {
                return err(b, format!("instruction {} stands twice", id.0));
            }
            for (n, &r) in f.inst(id).results.iter().enumerate() {
                if f.def(r) != Def::Inst(id, n as u8) {
                    return err(b, format!("v{} is recorded elsewhere", r.0));
                }
                place[r.index()] = (b as u32, i + 1);
            }
        }
    }
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        let check = |v: Value, at: usize| {
            let (db, di) = place[v.index()];
            let ok = db != u32::MAX && if db == b { di < at } else { dom.dominates(db, b) };
            if ok { Ok(()) } else { Err(format!("{}: blk{b}: v{} is used before its definition", f.name, v.0)) }
        };
        for (i, &id) in block.insts.iter().enumerate() {
            let inst = f.inst(id);
            for &a in &inst.args {
                check(a, i + 1)?;
            }
            if let Err(what) = types(f, inst) {
                return err(b as usize, format!("{what}: {}", super::text::print_inst(f, inst)));
            }
        }
        let mut bad = Ok(());
        block.term.visit(|v| {
            if bad.is_ok() {
                bad = check(v, usize::MAX);
            }
        });
        bad?;
        for e in block.term.edges() {
            let params = &f.blocks[e.block.index()].params;
            if params.len() != e.args.len() || params.iter().zip(&e.args).any(|(&p, &a)| f.ty(p) != f.ty(a)) {
                return err(b as usize, format!("arguments do not fit blk{}", e.block.0));
            }
        }
        match &block.term {
            Term::CondBr { cond, .. } if f.ty(*cond) != Ty::P => return err(b as usize, "condition is not p".into()),
            Term::Switch { targets, .. }
                if targets.is_empty() || targets.iter().any(|t| !f.blocks[t.index()].params.is_empty()) =>
            {
                return err(b as usize, "a switch target has parameters, or there is none".into());
            }
            Term::Ret(values) if values.iter().map(|&v| f.ty(v)).ne(f.returns.iter().copied()) => {
                return err(b as usize, "returned values do not fit".into());
            }
            _ => {}
        }
    }
    Ok(())
}

impl Func {
    /// The graph, after checking that every target exists.
    fn cfg_checked(&self) -> Result<crate::cfg::Cfg, String> {
        for (b, block) in self.blocks.iter().enumerate() {
            if let Some(t) = block.term.successors().iter().find(|t| t.index() >= self.blocks.len()) {
                return Err(format!("{}: blk{b}: no block blk{}", self.name, t.0));
            }
        }
        Ok(self.cfg())
    }
}

/// Number and types of arguments and results, by operation.
fn types(f: &Func, inst: &Inst) -> Result<(), String> {
    let a: Vec<Ty> = inst.operands().iter().map(|&v| f.ty(v)).collect();
    if inst.policy().is_some_and(|p| f.ty(p) != Ty::B64) {
        return Err("the cache policy has no 64 bits".into());
    }
    let r: Vec<Ty> = inst.results.iter().map(|&v| f.ty(v)).collect();
    let arity = inst.op.arity();
    if arity >= 0 && a.len() != arity as usize {
        return Err(format!("takes {arity} arguments"));
    }
    let double = |t: Ty| match t {
        Ty::B16 => Ty::B32,
        _ => Ty::B64,
    };
    let ok = match inst.op {
        Op::IAdd | Op::ISub | Op::IMul | Op::IMulHi | Op::IDiv | Op::IRem | Op::IMin | Op::IMax => {
            r == [a[0]] && a[0] == a[1] && a[0] != Ty::P
        }
        Op::And | Op::Or | Op::Xor => r == [a[0]] && a[0] == a[1],
        Op::AddC | Op::SubC => a[0] == a[1] && a[2] == Ty::P && r == [a[0], Ty::P] && a[0] != Ty::P,
        Op::IMad => r == [a[0]] && a[0] == a[1] && a[1] == a[2],
        Op::IMulWide => a[0] == a[1] && r == [double(a[0])] && a[0] != Ty::B64,
        Op::IMadWide => a[0] == a[1] && a[2] == double(a[0]) && r == [a[2]],
        Op::IMadWideC => a == [Ty::B32, Ty::B32, Ty::B64, Ty::P] && r == [Ty::B64, Ty::P],
        Op::Not | Op::INeg | Op::IAbs | Op::Brev | Op::FNeg | Op::FAbs | Op::FRound | Op::FSat => r == [a[0]],
        Op::Shl | Op::Shr => r == [a[0]] && a[1] == Ty::B32,
        Op::Lop3 => (a == [Ty::B32; 3] || a == [Ty::B64; 3]) && r == [a[0]],
        Op::Shf | Op::Prmt | Op::Dp4a | Op::Dp2a => a == [Ty::B32; 3] && r == [Ty::B32],
        Op::ICmp | Op::FCmp => a[0] == a[1] && r == [Ty::P],
        Op::FCheck => a == [Ty::B32; 2] && r == [Ty::P],
        Op::Select => a[2] == Ty::P && a[0] == a[1] && r == [a[0]],
        Op::Popc | Op::Clz | Op::Bfind => r == [Ty::B32],
        Op::Bfe => r == [a[0]] && a[1..] == [Ty::B32, Ty::B32],
        Op::Bfi => r == [a[0]] && a[0] == a[1] && a[2..] == [Ty::B32, Ty::B32],
        Op::Zext | Op::Sext => r.len() == 1 && r[0] > a[0],
        Op::Trunc => r.len() == 1 && r[0] < a[0],
        Op::Hi => r.len() == 1 && double(r[0]) == a[0] && r[0] != Ty::P,
        Op::Pack => a[0] == a[1] && r == [double(a[0])] && a[0] < Ty::B64,
        Op::FAdd | Op::FMul | Op::FMin | Op::FMax | Op::FDiv => r == [a[0]] && a[0] == a[1],
        Op::FFma => r == [a[0]] && a[0] == a[1] && a[1] == a[2],
        Op::Load => !r.is_empty() && a == [address(inst)],
        Op::Store => a.len() > 1 && r.is_empty() && a[0] == address(inst),
        Op::Atom => a.len() > 1 && !r.is_empty() && a[0] == address(inst),
        Op::Red => a.len() > 1 && r.is_empty() && a[0] == address(inst),
        Op::Const | Op::Param | Op::Sreg | Op::SregVolatile => r.len() == 1,
        Op::GlobalAddr | Op::FuncAddr | Op::WindowBase => r == [Ty::B64],
        Op::SharedAddr | Op::LocalAddr | Op::ConstAddr | Op::Handle => r == [Ty::B32],
        Op::Shfl => r == [Ty::B32, Ty::P] && a == [Ty::B32; 4],
        _ => true,
    };
    if ok { Ok(()) } else { Err("types do not fit".into()) }
}

/// The type of a memory operation's address.
fn address(inst: &Inst) -> Ty {
    match inst.mem.space {
        super::MemSpace::Generic | super::MemSpace::Global => Ty::B64,
        _ => Ty::B32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text::parse;

    fn verdict(body: &str) -> Result<(), String> {
        verify(&parse(&format!("func k returns() {{\n{body}\n}}")).unwrap()[0])
    }

    #[test]
    fn good_functions_pass() {
        verdict("blk0():\nv0:b32 = const\nv1:b32 = iadd v0, v0\nbr blk1(v1)\nblk1(v2:b32):\nexit").unwrap();
    }

    #[test]
    fn broken_functions_are_named() {
        let bad = |body: &str, what: &str| {
            let e = verdict(body).unwrap_err();
            assert!(e.contains(what), "{e}");
        };
        bad("blk0():\nv1:b32 = not v0\nv0:b32 = const\nexit", "before its definition");
        bad("blk0():\nv0:b32 = const\nv1:b64 = iadd v0, v0\nexit", "types do not fit");
        bad("blk0():\nv0:b32 = const\nbr blk1(v0)\nblk1():\nexit", "do not fit blk1");
        bad("blk0():\nbr blk7()", "no block blk7");
        bad("blk0():\nv0:b32 = const\nbrif v0, blk1(), blk1()\nblk1():\nexit", "condition is not p");
        bad("blk0():\nbr blk0()", "entry has a predecessor");
        bad(
            "blk0():\nv0:p = const\nbrif v0, blk1(), blk2()\nblk1():\nv1:b32 = const\nbr blk2()\nblk2():\nv2:b32 = not v1\nexit",
            "before its definition",
        );
    }
}
