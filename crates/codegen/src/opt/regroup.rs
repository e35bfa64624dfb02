//! Sums that are addresses, with their constants last: `(a + 4352) + b` becomes `(a + b) + 4352`.
//!
//! An access has room for a constant, so that places a constant apart share `a + b`: a program that computes ninety of them ahead keeps one register for
//! all, and each access is one instruction as before. Only where nobody but accesses and such sums reads what changes: nothing more is computed then. Constants are
//! where an access finds them or above it, never between the two.

use crate::ir::{Block, Builder, Func, Inst, MemSpace, Op, Ty, Value};

/// The furthest constant: with what the access itself adds it must fit there.
const REACH: i64 = 1 << 21;

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f
        .insts
        .iter()
        .any(|i| sum(i) && i.args.iter().any(|&a| f.def_inst(a).is_some_and(|d| constant(f, d).is_some())))
    {
        return;
    }
    let cfg = f.cfg();
    // What is read by others than accesses, and sums that only these read.
    let mut other = vec![false; f.values.len()];
    for &b in cfg.rpo.iter().rev() {
        f.blocks[b as usize].term.visit(|v| other[v.index()] = true);
        for &id in f.blocks[b as usize].insts.iter().rev() {
            let inst = f.inst(id);
            if sum(inst) && !other[inst.results[0].index()] {
                continue;
            }
            let kept = &inst.args[accesses(inst) as usize..];
            kept.iter().for_each(|v| other[v.index()] = true);
        }
    }
    // What each of these sums is: another value and a constant.
    let mut parts: Vec<Option<(Value, i64)>> = vec![None; f.values.len()];
    for &b in &cfg.rpo {
        let insts = std::mem::take(&mut f.blocks[b as usize].insts);
        for id in insts {
            let inst = f.inst(id);
            if sum(inst) && !other[inst.results[0].index()] {
                let result = inst.results[0];
                let split = |v: Value| parts.get(v.index()).copied().flatten().unwrap_or((v, 0));
                if let Some((of, more)) = constant(f, inst) {
                    let (of, before) = split(of);
                    parts[result.index()] = Some((of, before.wrapping_add(more)));
                } else {
                    let ((x, m), (y, n)) = (split(inst.args[0]), split(inst.args[1]));
                    let far = m.wrapping_add(n);
                    if far != 0 && (-REACH..REACH).contains(&far) {
                        let (loc, ty) = (inst.loc, f.ty(result));
                        let mut to = Builder::new(f, Block(b));
                        to.loc = loc;
                        let both = to.op(Op::IAdd, &[x, y], ty);
                        let far_by = to.constant(ty, far as u64);
                        f.insts[id.0 as usize].args = [both, far_by].into_iter().collect();
                        parts[result.index()] = Some((both, far));
                    }
                }
            }
            f.blocks[b as usize].insts.push(id);
        }
    }
}

fn sum(inst: &Inst) -> bool {
    inst.op == Op::IAdd
}

/// True if the first argument is an address with room for a constant beside it.
fn accesses(inst: &Inst) -> bool {
    let known = matches!(inst.op, Op::Load | Op::Store | Op::Atom | Op::Red | Op::LdMatrix | Op::StMatrix);
    known && matches!(inst.mem.space, MemSpace::Global | MemSpace::Generic | MemSpace::Shared | MemSpace::Local)
}

/// The sum of a value and a constant that is not too large.
fn constant(f: &Func, inst: &Inst) -> Option<(Value, i64)> {
    if !sum(inst) {
        return None;
    }
    let of = |v: Value, c: Value| {
        let c = f.constant(c)?;
        let c = if f.ty(v) == Ty::B64 { c as i64 } else { i64::from(c as u32 as i32) };
        (-REACH..REACH).contains(&c).then_some((v, c))
    };
    of(inst.args[0], inst.args[1]).or_else(|| of(inst.args[1], inst.args[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::{dce, gvn};

    fn after(body: &str) -> String {
        let mut f = text::parse(&format!("func k returns(b64) {{\nblk0():\n{body}\n}}")).unwrap().remove(0);
        run(&mut f);
        gvn::run(&mut f);
        dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    const PLACES: &str = "v0:b64 = param {space=param bytes=8 imm=16}\nv1:b64 = param {space=param bytes=8 imm=24}\nv2:b64 = const {imm=4352}\n\
        v3:b64 = const {imm=32}\nv4:b64 = iadd v0, v2\nv5:b64 = iadd v4, v3\nv6:b64 = iadd v4, v1\nv7:b64 = iadd v1, v5\n\
        v8:b64 = load v6 {space=global bytes=8}\nv9:b64 = load v7 {space=global bytes=8}\nv10:b64 = xor v8, v9\n";

    /// Two places share the sum of what is no constant.
    #[test]
    fn constants_come_last() {
        let t = after(&format!("{PLACES}ret v10"));
        assert!(t.matches("iadd").count() == 3 && t.contains("iadd v0, v1") && t.contains("imm=4384"), "{t}");
    }

    /// What others read as well stays as it is, and so does what is made of it.
    #[test]
    fn what_is_read_otherwise_stays() {
        let t = after(&format!("{PLACES}v11:b64 = xor v10, v4\nret v11"));
        assert!(t.contains("iadd v0, v2") && t.contains("v6:b64 = iadd v4, v1"), "{t}");
        let t = after(&format!("{PLACES}v11:b64 = xor v6, v7\nv12:b64 = xor v10, v11\nret v12"));
        assert!(!t.contains("iadd v0, v1"), "{t}");
    }

    /// A constant that an access has no room for stays where it is.
    #[test]
    fn far_places_stay() {
        let t = after(&format!("{PLACES}ret v10").replace("4352", "16777216"));
        assert!(!t.contains("iadd v0, v1"), "{t}");
    }
}
