//! Barriers, shuffles, votes, matches, matrix moves, traps.

use super::{Lower, Res};
use crate::ir::{Attr, BarKind, Mem, MemSpace, Op, Ty, Value};
use ptx::access::ShiftMode;
use ptx::isa::{Mod, Op as P};
use ptx::module::{AddressBase, Inst, Operand};

impl Lower<'_, '_> {
    pub(super) fn warp(&mut self, x: &Inst) -> Res {
        match x.op {
            P::Bar | P::Barrier => self.bar(x),
            P::Shfl => self.shfl(x),
            P::Vote => self.vote(x),
            P::Match => self.matching(x),
            P::Redux => self.redux(x),
            P::Activemask => {
                let v = self.op(Op::ActiveMask, &[], Ty::B32);
                self.dst(x, v, false)
            }
            P::Ldmatrix | P::Stmatrix => self.matrix(x),
            P::Nanosleep => {
                let n = self.arg(x, 0, Ty::B32)?;
                self.effect(Op::Nanosleep, 0, &[n]);
                Ok(())
            }
            P::Elect => {
                let mask = self.arg(x, 1, Ty::B32)?;
                let p = self.op(Op::Elect, &[mask], Ty::P);
                let Some(Operand::Pair(pair)) = x.operands.first().cloned() else { return self.unsupported(x) };
                if pair.0 != Operand::Sink {
                    // The chosen lane: the only one that votes.
                    let vote = self.one(Op::Vote, Attr { sub: 3, ..Attr::default() }, &[p, mask], Ty::B32);
                    let lane = self.op(Op::Bfind, &[vote], Ty::B32);
                    self.write(&pair.0, lane, false)?;
                }
                self.write(&pair.1, p, false)
            }
            P::Griddepcontrol => {
                self.effect(Op::GridDep, x.has(Mod::LaunchDependents) as u8, &[]);
                Ok(())
            }
            P::Pmevent => {
                let Some(Operand::Int(n)) = x.operands.first() else { return self.unsupported(x) };
                let mask = if x.has(Mod::Mask) { *n & 0xffff } else { 1 << (*n & 15) };
                self.b().push(Op::PmEvent, Attr::default(), Mem::default(), mask, &[], &[]);
                Ok(())
            }
            P::Trap | P::Brkpt => {
                self.effect(Op::Trap, (x.op == P::Brkpt) as u8, &[]);
                Ok(())
            }
            _ => self.unsupported(x),
        }
    }

    /// An instruction for its effect only.
    pub(super) fn effect(&mut self, op: Op, sub: u8, args: &[Value]) {
        self.b().push(op, Attr { sub, ..Attr::default() }, Mem::default(), 0, args, &[]);
    }

    fn bar(&mut self, x: &Inst) -> Res {
        if x.has(Mod::Warp) {
            let m = self.arg(x, 0, Ty::B32)?;
            self.effect(Op::WarpSync, 0, &[m]);
            return Ok(());
        }
        if x.has(Mod::Cluster) {
            return self.unsupported(x);
        }
        let kind = if x.has(Mod::Arrive) {
            BarKind::Arrive
        } else if x.has(Mod::Popc) {
            BarKind::RedPopc
        } else if x.has(Mod::Red) && x.has(Mod::And) {
            BarKind::RedAnd
        } else if x.has(Mod::Red) {
            BarKind::RedOr
        } else {
            BarKind::Sync
        };
        let reduces = matches!(kind, BarKind::RedPopc | BarKind::RedAnd | BarKind::RedOr);
        let first = reduces as usize;
        let last = x.operands.len() - reduces as usize;
        let mut args = Vec::new();
        for i in first..last {
            args.push(self.arg(x, i, Ty::B32)?);
        }
        let attr = Attr { sub: kind as u8, ..Attr::default() };
        let aligned = i64::from(x.op == P::Bar || x.has(Mod::Aligned));
        let ty = if kind == BarKind::RedPopc { Ty::B32 } else { Ty::P };
        if reduces {
            args.push(self.arg(x, last, Ty::P)?);
        }
        let results = if reduces { &[ty][..] } else { &[] };
        let id = self.b().push(Op::Bar, attr, Mem::default(), aligned, &args, results);
        match self.f.inst(id).results.first() {
            Some(&v) => self.dst(x, v, false),
            None => Ok(()),
        }
    }

    fn shfl(&mut self, x: &Inst) -> Res {
        let sub = match x.shift_mode() {
            Some(ShiftMode::Up) => 0,
            Some(ShiftMode::Down) => 1,
            Some(ShiftMode::Bfly) => 2,
            _ => 3,
        };
        let mut args = Vec::new();
        for i in 1..4 {
            args.push(self.arg(x, i, Ty::B32)?);
        }
        let mask = if x.has(Mod::Sync) { self.arg(x, 4, Ty::B32)? } else { self.op(Op::ActiveMask, &[], Ty::B32) };
        args.push(mask);
        let attr = Attr { sub, ..Attr::default() };
        let id = self.b().push(Op::Shfl, attr, Mem::default(), 0, &args, &[Ty::B32, Ty::P]);
        let (v, p) = (self.f.inst(id).results[0], self.f.inst(id).results[1]);
        self.pair(x, v, p)
    }

    /// Writes `d` or `d|p`.
    fn pair(&mut self, x: &Inst, v: Value, p: Value) -> Res {
        match x.operands.first().cloned() {
            Some(Operand::Pair(pair)) => {
                self.write(&pair.0, v, false)?;
                self.write(&pair.1, p, false)
            }
            _ => self.dst(x, v, false),
        }
    }

    fn vote(&mut self, x: &Inst) -> Res {
        let sub = if x.has(Mod::All) {
            0
        } else if x.has(Mod::Any) {
            1
        } else if x.has(Mod::Uni) {
            2
        } else {
            3
        };
        let p = self.arg(x, 1, Ty::P)?;
        let mask = if x.has(Mod::Sync) { self.arg(x, 2, Ty::B32)? } else { self.op(Op::ActiveMask, &[], Ty::B32) };
        let ty = if sub == 3 { Ty::B32 } else { Ty::P };
        let v = self.one(Op::Vote, Attr { sub, ..Attr::default() }, &[p, mask], ty);
        self.dst(x, v, false)
    }

    fn matching(&mut self, x: &Inst) -> Res {
        let ty = self.ty(x.ty(), x)?;
        let (a, mask) = (self.arg(x, 1, ty)?, self.arg(x, 2, Ty::B32)?);
        if x.has(Mod::Any) {
            let v = self.op(Op::Match, &[a, mask], Ty::B32);
            return self.dst(x, v, false);
        }
        let attr = Attr { sub: 1, ..Attr::default() };
        let id = self.b().push(Op::Match, attr, Mem::default(), 0, &[a, mask], &[Ty::B32, Ty::P]);
        let (v, p) = (self.f.inst(id).results[0], self.f.inst(id).results[1]);
        self.pair(x, v, p)
    }

    fn redux(&mut self, x: &Inst) -> Res {
        use ptx::access::AtomOp as A;
        let t = x.ty();
        let sub = match x.atom_op() {
            Some(A::Add) => 0,
            Some(A::Min) => 1,
            Some(A::Max) => 2,
            Some(A::And) => 3,
            Some(A::Or) => 4,
            Some(A::Xor) => 5,
            _ => return self.unsupported(x),
        };
        if t.is_float() {
            return self.unsupported(x);
        }
        let (a, mask) = (self.arg(x, 1, Ty::B32)?, self.arg(x, 2, Ty::B32)?);
        let attr = Attr { sub, signed: t.is_signed(), ..Attr::default() };
        let v = self.one(Op::Redux, attr, &[a, mask], Ty::B32);
        self.dst(x, v, false)
    }

    fn matrix(&mut self, x: &Inst) -> Res {
        if !x.has(Mod::M8n8) || x.ty().bits() != 16 {
            return self.unsupported(x);
        }
        let load = x.op == P::Ldmatrix;
        let Some(Operand::Mem(a)) = x.operands.get(load as usize).cloned() else { return self.unsupported(x) };
        let base = match a.base() {
            AddressBase::Reg(r) => {
                let v = self.read_reg(r, None);
                self.b().resize(v, Ty::B32, false)
            }
            AddressBase::Var(v) => self.shared_address(v, 0, x.span)?,
            AddressBase::None => self.konst(Ty::B32, 0),
        };
        let attr = Attr { sub: x.has(Mod::Trans) as u8, ..Attr::default() };
        let mem = Mem { space: MemSpace::Shared, bytes: 16, ..Mem::default() };
        let regs = self.vector_operands(&x.operands[!load as usize]);
        if load {
            let types = vec![Ty::B32; regs.len()];
            let id = self.b().push(Op::LdMatrix, attr, mem, a.offset(), &[base], &types);
            for (d, v) in regs.iter().zip(self.f.inst(id).results.clone()) {
                self.write(d, v, false)?;
            }
        } else {
            let mut args = vec![base];
            for r in &regs {
                args.push(self.src(r, Ty::B32, x.span)?);
            }
            self.b().push(Op::StMatrix, attr, mem, a.offset(), &args, &[]);
        }
        Ok(())
    }
}
