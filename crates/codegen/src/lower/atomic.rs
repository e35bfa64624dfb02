//! Atomics, reductions, and what a multicast address does.

use super::arith::{fmt, rnd};
use super::{Lower, Res};
use crate::ir::{AtomOp, Attr, Fmt, MemSpace, Op, Scope, Sem, Ty, Value};
use ptx::access::AtomOp as A;
use ptx::module::{Inst, Operand};
use ptx::types::{ScalarType as T, Space};

fn operation(op: A) -> AtomOp {
    match op {
        A::Add => AtomOp::Add,
        A::Min => AtomOp::Min,
        A::Max => AtomOp::Max,
        A::Inc => AtomOp::Inc,
        A::Dec => AtomOp::Dec,
        A::And => AtomOp::And,
        A::Or => AtomOp::Or,
        A::Xor => AtomOp::Xor,
        A::Exch => AtomOp::Exch,
        A::Cas => AtomOp::Cas,
    }
}

/// The format of what an atomic works on: halves in a row are pairs of them.
fn format(t: T, vector: bool) -> Fmt {
    match fmt(t) {
        Fmt::F16 if vector => Fmt::F16x2,
        Fmt::BF16 if vector => Fmt::BF16x2,
        f => f,
    }
}

impl Lower<'_, '_> {
    pub(super) fn atomic(&mut self, x: &Inst) -> Res {
        let t = x.ty();
        let result = matches!(x.op, ptx::isa::Op::Atom);
        let first = result as usize;
        let a = self.mem_operand(x, first)?;
        let Some(op) = x.atom_op() else { return self.unsupported(x) };
        let vector = x.vector() > 1;
        let attr_fmt = format(t, vector);
        let known = match op {
            A::Min | A::Max if t.is_float() => !matches!(attr_fmt, Fmt::F32 | Fmt::F64),
            A::Add => true,
            A::Cas | A::Exch => !t.is_float(),
            _ => !t.is_float(),
        };
        if !known || (t.bits() == 16 && !t.is_float() && op != A::Cas) || matches!(t.bits(), 8) {
            return self.unsupported(x);
        }
        // All of the devices that a multicast address stands for, unless it says less.
        let many = x.op == ptx::isa::Op::Multimem;
        let (space, base, offset) = self.address(x, a, if many { Space::Global } else { x.space() })?;
        if !matches!(space, MemSpace::Global | MemSpace::Shared | MemSpace::Generic) {
            return self.unsupported(x);
        }
        let mut args = vec![base];
        let values = if op == A::Cas { 2 } else { 1 };
        let mut ty = Ty::B32;
        for i in 0..values {
            let Some(o) = x.operands.get(first + 1 + i).cloned() else { return self.unsupported(x) };
            for v in self.atomic_words(x, &o, t, vector)? {
                ty = self.f.ty(v);
                args.push(v);
            }
        }
        let words = (args.len() - 1) / values;
        let bytes = if t.bits() == 128 { 16 } else { ty.bits() / 8 };
        let mut mem = self.mem(x, space, bytes);
        if mem.scope == Scope::None {
            mem.scope = if many { Scope::Sys } else { Scope::Gpu };
        }
        let sem = mem.sem;
        mem.sem = Sem::Relaxed;
        args.extend(self.policy_of(x, &mut mem)?);
        if matches!(sem, Sem::Release | Sem::AcqRel) {
            self.push_fence(mem.scope, 0);
        }
        let attr =
            Attr { fmt: attr_fmt, rnd: rnd(x), signed: t.is_signed(), sub: operation(op) as u8, ..Attr::default() };
        let results: Vec<Value> = if result {
            let id = self.b().push(Op::Atom, attr, mem, offset, &args, &vec![ty; words]);
            self.f.inst(id).results.to_vec()
        } else {
            self.b().push(Op::Red, attr, mem, offset, &args, &[]);
            Vec::new()
        };
        if matches!(sem, Sem::Acquire | Sem::AcqRel) {
            self.push_fence(mem.scope, 2);
        }
        if !result {
            return Ok(());
        }
        self.atomic_results(x, t, vector, &results)
    }

    /// The words of an operand of an atomic: halves in a row two by two, a register of 128 bits as two of 64.
    fn atomic_words(&mut self, x: &Inst, o: &Operand, t: T, vector: bool) -> Res<Vec<Value>> {
        let list = self.vector_operands(o);
        if t.bits() == 128 {
            let list = self.halves_of(&list, x)?;
            return list.iter().map(|o| self.src(o, Ty::B64, x.span)).collect();
        }
        let ty = self.ty(t, x)?;
        let values = list.iter().map(|o| self.src(o, ty, x.span)).collect::<Res<Vec<Value>>>()?;
        if !(vector && ty == Ty::B16) {
            return Ok(values);
        }
        Ok(values.chunks(2).map(|c| if let [a, b] = c { self.pack(*a, *b) } else { c[0] }).collect())
    }

    fn atomic_results(&mut self, x: &Inst, t: T, vector: bool, results: &[Value]) -> Res {
        let dsts = self.vector_operands(&x.operands[0]);
        let dsts = if t.bits() == 128 { self.halves_of(&dsts, x)? } else { dsts };
        let mut values = Vec::new();
        for &v in results {
            if vector && t.bits() == 16 {
                let (lo, hi) = self.b().halves(v);
                values.extend([lo, hi]);
            } else {
                values.push(v);
            }
        }
        for (d, v) in dsts.iter().zip(values) {
            self.write(d, v, false)?;
        }
        Ok(())
    }

    /// The two words of registers of 128 bits, low first.
    pub(super) fn halves_of(&self, list: &[Operand], x: &Inst) -> Res<Vec<Operand>> {
        let mut out = Vec::new();
        for o in list {
            match o {
                Operand::Reg { reg, elem: None } => {
                    out.extend([0, 1].map(|e| Operand::Reg { reg: *reg, elem: Some(e) }));
                }
                Operand::Sink => out.extend([Operand::Sink, Operand::Sink]),
                Operand::Int(n) => out.extend([*n, if *n < 0 { -1 } else { 0 }].map(Operand::Int)),
                _ => return super::unsupported("this operand of 128 bits", x.span),
            }
        }
        Ok(out)
    }
}
