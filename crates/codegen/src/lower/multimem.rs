//! Addresses that stand for the same place in the memory of several devices.
//!
//! A load combines what lies at all of them, which the memory system does; a store goes to all; a reduction is done at each. The
//! last two are the instructions that other addresses have, and so is a bulk copy; a bulk reduction says that it is for the system.

use super::arith::fmt;
use super::{Lower, Res};
use crate::ir::{AtomOp, Attr, Fmt, Op, Scope, Sem, Ty, Value};
use ptx::access::AtomOp as A;
use ptx::isa::Mod;
use ptx::module::Inst;
use ptx::types::{ScalarType as T, Space};

impl Lower<'_, '_> {
    pub(super) fn multimem(&mut self, x: &Inst) -> Res {
        if x.has(Mod::Bulk) {
            return self.bulk(x);
        }
        if x.has(Mod::LdReduce) {
            return self.load_reduce(x);
        }
        if x.has(Mod::Red) { self.atomic(x) } else { self.store(x) }
    }

    fn load_reduce(&mut self, x: &Inst) -> Res {
        let t = x.ty();
        let a = self.mem_operand(x, 1)?;
        let (_, base, offset) = self.address(x, a, Space::Global)?;
        let to = self.vector_operands(&x.operands[0]);
        let halves = matches!(t, T::F16 | T::BF16);
        let fmt = match fmt(t) {
            Fmt::F16 => Fmt::F16x2,
            Fmt::BF16 => Fmt::BF16x2,
            f => f,
        };
        let words = if halves { to.len() / 2 } else { to.len() };
        let ty = if t.bits() == 64 { Ty::B64 } else { Ty::B32 };
        let sub = match x.atom_op() {
            Some(A::Add) => AtomOp::Add,
            Some(A::Min) => AtomOp::Min,
            Some(A::Max) => AtomOp::Max,
            Some(A::And) => AtomOp::And,
            Some(A::Or) => AtomOp::Or,
            Some(A::Xor) => AtomOp::Xor,
            _ => return self.unsupported(x),
        };
        let wide = x.mods.iter().any(|m| m.name() == "acc::f32");
        let attr = Attr { fmt, sub: sub as u8, sat: wide, signed: t.is_signed(), ..Attr::default() };
        let mut mem = self.mem(x, crate::ir::MemSpace::Global, ty.bits() / 8);
        let acquires = mem.sem == Sem::Acquire;
        mem.sem = Sem::Relaxed;
        let id = self.b().push(Op::LoadReduce, attr, mem, offset, &[base], &vec![ty; words]);
        let results = self.f.inst(id).results.to_vec();
        if acquires {
            let scope = if mem.scope == Scope::None { Scope::Sys } else { mem.scope };
            self.push_fence(scope, 2);
        }
        let values: Vec<Value> = match halves {
            true => results.iter().flat_map(|&w| <[Value; 2]>::from(self.b().halves(w))).collect(),
            false => results,
        };
        for (o, v) in to.iter().zip(values) {
            self.write(o, v, false)?;
        }
        Ok(())
    }
}
