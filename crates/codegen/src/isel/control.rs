//! Block ends, convergence barriers, calls, multi-word arithmetic with carries.

use super::{Regs, Sel};
use crate::converge::called;
use crate::ir::{self, InstId, Op, Term, Ty, Value};
use crate::link::{self, Symbol};
use crate::mir::{self, BlockId, Call, CallTarget, Vreg};
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value as V};
use sass::reg::{File, Reg};

impl Sel<'_> {
    /// The machine terminator of a block; what it needs is emitted into `out`.
    pub(super) fn terminator(&mut self, b: usize) -> mir::Term {
        let f = self.f;
        for &(barrier, join) in &self.conv.open[b] {
            let target = Operand { value: V::target(join.0 as i64), neg: false, abs: false, inv: false };
            self.push(Sass::new(F::BSSY).with(S::Bd, Reg::b(barrier)).with(S::TargetFar, target));
        }
        match &f.blocks[b].term {
            Term::Br(e) => mir::Term::Br(self.edge(e)),
            Term::CondBr { cond, then, els, .. } => {
                let cond = self.pred(*cond);
                if cond.as_reg().is_some_and(Reg::is_const) {
                    let taken = if cond.inv { els } else { then };
                    return mir::Term::Br(self.edge(taken));
                }
                mir::Term::CondBr { cond, then: self.edge(then), els: self.edge(els) }
            }
            Term::Switch { index, targets, .. } => {
                let o = self.lo(*index);
                let o = self.gpr(o);
                let index = self.scalar(o);
                mir::Term::Switch { index, targets: targets.iter().map(|t| BlockId(t.0)).collect() }
            }
            Term::Exit => {
                if self.checks.errors_at_exit {
                    self.push(Sass::new(F::ERRBAR));
                    self.push(Sass::new(F::CGAERRBAR));
                }
                mir::Term::Exit
            }
            Term::Ret(values) => {
                let regs = f.signature.rets.clone();
                let mut out = Vec::new();
                for (&v, r) in values.iter().zip(regs) {
                    let o = self.lo(v);
                    let o = self.gpr(o);
                    out.push((self.scalar(o), Reg::r(r)));
                }
                for (barrier, v) in self.saved.clone() {
                    let v = self.m.reg(v);
                    self.push(Sass::new(F::BMOV_BR).with(S::Bd, Reg::b(barrier)).with(S::Rb, v));
                }
                mir::Term::Ret(out)
            }
            Term::Unreachable => mir::Term::Unreachable,
        }
    }

    /// A register operand as a scalar; RZ gets a register of its own.
    pub(super) fn scalar(&mut self, o: Operand) -> Vreg {
        match o.value {
            V::Reg(r) if r.is_virtual() => Vreg(r.index()),
            _ => {
                let v = self.m.new_vreg(File::Gpr);
                self.mov_imm(v, 0);
                v
            }
        }
    }

    /// An edge: arguments of every parameter, word by word. Parameters that nobody reads are dropped at the end.
    fn edge(&mut self, e: &ir::Edge) -> mir::Edge {
        let params = &self.f.blocks[e.block.index()].params;
        let mut args = Vec::with_capacity(params.len());
        for (&p, &a) in params.iter().zip(&e.args) {
            // A parameter of a block that was selected before is wanted by now or never; one of a loop header is
            // not known yet and is passed.
            let header = !self.done[e.block.index()];
            if self.regs[p.index()].is_none() && !header {
                continue;
            }
            self.regs_of(p);
            // Whatever a register holds: nothing is said by a zero.
            if self.f.ty(p) != Ty::P && self.f.def_inst(a).is_some_and(|i| i.op == ir::Op::Undef) {
                let words = if self.f.ty(p) == Ty::B64 { 2 } else { 1 };
                (0..words).for_each(|_| args.push(self.undefined()));
                continue;
            }
            match self.f.ty(a) {
                Ty::P => {
                    let o = self.pred(a);
                    args.push(self.predicate_scalar(o));
                }
                Ty::B64 => {
                    let (lo, hi) = (self.lo(a), self.hi(a));
                    args.push(self.argument(lo));
                    args.push(self.argument(hi));
                }
                _ => {
                    let lo = self.lo(a);
                    args.push(self.argument(lo));
                }
            }
        }
        mir::Edge { block: BlockId(e.block.0), args }
    }

    /// A register that holds whatever it may.
    fn undefined(&mut self) -> Vreg {
        let v = self.m.new_vreg(File::Gpr);
        let zero = crate::regalloc::undefined::zero(self.m.reg(v));
        self.push(zero);
        v
    }

    fn argument(&mut self, o: Operand) -> Vreg {
        let o = self.gpr(o);
        self.scalar(o)
    }

    /// A predicate operand as a register: complements and constants are made.
    fn predicate_scalar(&mut self, o: Operand) -> Vreg {
        match o.value {
            V::Reg(r) if r.is_virtual() && !o.inv => Vreg(r.index()),
            _ => {
                let d = self.plop3(0xf0, o, super::operand::TRUE, super::operand::TRUE);
                Vreg(d.as_reg().map_or(0, |r| r.index()))
            }
        }
    }

    /// What stands at the start of a block, and its parameters.
    pub(super) fn begin_block(&mut self, b: usize) {
        self.loc = u32::MAX;
        for (barrier, v) in if b == 0 { self.saved.clone() } else { Vec::new() } {
            let v = self.m.reg(v);
            self.push(Sass::new(F::BMOV_RB).with(S::Rd, v).with(S::Bb, Reg::b(barrier)).with_mod(M::Clear, 1));
        }
        if b == 0 {
            self.begin_policies();
        }
        self.begin_handles();
        if let Some(barrier) = self.conv.close[b] {
            self.push(Sass::new(F::BSYNC).with(S::Bb, Reg::b(barrier)));
        }
        if let Some(barrier) = self.conv.leave[b] {
            self.push(Sass::new(F::BREAK).with(S::Bb, Reg::b(barrier)));
        }
        self.done[b] = true;
    }

    /// Block parameters, now that it is known which are read.
    pub(super) fn finish_params(&mut self) {
        for b in 1..self.f.blocks.len() {
            for &p in &self.f.blocks[b].params {
                if let Some(Regs { lo, hi }) = self.regs[p.index()] {
                    self.m.blocks[b].params.push(lo);
                    self.m.blocks[b].params.extend(hi);
                }
            }
        }
    }

    /// The convergence barriers that a function keeps and yet uses, each with the register that holds it meanwhile.
    pub(super) fn keep_barriers(&mut self) {
        if self.f.entry {
            return;
        }
        let mut used: Vec<u8> = self.conv.open.iter().flatten().map(|o| o.0).collect();
        // What functions that it calls do not keep, and it does.
        let first = self.f.signature.convention.kept_barrier();
        for b in self.f.blocks.iter().flat_map(|b| &b.insts).filter_map(|&i| called(self.f, i)) {
            used.extend((first..b.kept_barrier()).map(|b| b as u8));
        }
        used.retain(|&b| usize::from(b) >= first);
        used.sort_unstable();
        used.dedup();
        self.saved = used.into_iter().map(|b| (b, self.m.new_vreg(File::Gpr))).collect();
    }

    /// Device functions hold their return address in a value that arrives in a pair of registers and leaves there again.
    pub(super) fn return_address(&mut self) {
        if self.f.entry {
            return;
        }
        let (lo, hi) = (self.m.new_vreg(File::Gpr), self.m.new_vreg(File::Gpr));
        let pair = Reg::r(self.m.keeps.return_pair());
        self.m.live_in.push((lo, pair));
        self.m.live_in.push((hi, pair.offset(1)));
        for b in &mut self.m.blocks {
            if let mir::Term::Ret(values) = &mut b.term {
                values.push((lo, pair));
                values.push((hi, pair.offset(1)));
            }
        }
    }

    pub(super) fn call(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let site = self.f.calls[inst.imm as usize].clone();
        let indirect = inst.op == Op::CallIndirect;
        let f_linkable = self.layout.relocatable;
        let values: Vec<Value> = inst.args.to_vec();
        let rets: Vec<Value> = inst.results.to_vec();
        let target = match (site.callee, site.far) {
            (Some(n), _) if f_linkable => CallTarget::Symbol(self.m.refer(Symbol::Function(n), link::CALL, 0) as u32),
            (None, Some(n)) if f_linkable => CallTarget::Symbol(self.m.refer(Symbol::Fetch(n), link::CALL, 0) as u32),
            (None, None) if f_linkable => {
                let (lo, hi) = (self.lo(values[0]), self.hi(values[0]));
                CallTarget::Address(self.argument(lo), self.argument(hi))
            }
            (Some(n), _) => CallTarget::Func(n),
            (None, Some(slot)) => {
                let v = self.m.new_vreg(File::Gpr);
                self.mov_imm(v, 8 * slot);
                CallTarget::Indirect(v)
            }
            (None, None) => {
                // The pointer is an offset into the function table at the start of bank 2.
                let pointer = self.lo(values[0]);
                let pointer = self.gpr(pointer);
                let v = self.m.new_vreg(File::Gpr);
                let d = self.m.reg(v);
                self.push(Sass::new(F::LDC).with(S::Rd, d).with(S::Const, Operand::cbank(2, 0)).with(S::Ra, pointer));
                CallTarget::Indirect(v)
            }
        };
        let mut args = Vec::new();
        for (&v, &r) in values[indirect as usize..].iter().zip(&site.args) {
            let o = self.lo(v);
            args.push((self.argument(o), Reg::r(r)));
        }
        let mut out = Vec::new();
        for (&v, &r) in rets.iter().zip(&site.rets) {
            let regs = self.regs_of(v);
            out.push((regs.lo, Reg::r(r)));
        }
        self.push_op(mir::Op::Call(Box::new(Call {
            target,
            far: site.far.is_some() && !f_linkable,
            keeps: site.convention.keeps,
            top: site.top,
            ends: site.ends,
            args,
            rets: out,
        })));
        // Threads may come back one after the other.
        if !site.ends && !self.conv.divergent[self.block] {
            self.push(Sass::new(F::WARPSYNC_ALL));
        }
        Some(())
    }

    /// A product of words onto two words, with carry in and out.
    pub(super) fn wide_carry(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (a, b, c, carry) = (inst.args[0], inst.args[1], inst.args[2], inst.args[3]);
        let out = self.regs[inst.results[1].index()].is_some();
        let operands = [self.lo(a), self.lo(b), self.pair(c)];
        let carry = if self.constant(carry).is_some_and(|c| c & 1 == 0) { None } else { Some(self.pred(carry)) };
        let (sum, p) = self.imad_wide_carry(operands, carry, out);
        self.define(id, 0, sum);
        if out {
            self.define(id, 1, Regs { lo: Vreg(p.as_reg()?.index()), hi: None });
        }
        Some(())
    }

    /// Addition and subtraction with carry in and out.
    pub(super) fn carry(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (a, b, c) = (inst.args[0], inst.args[1], inst.args[2]);
        let sub = inst.op == Op::SubC;
        let results = inst.results.clone();
        let out = self.regs[results[1].index()].is_some();
        let ty = self.f.ty(a);
        let start = self.constant(c).map(|c| c & 1 != 0) == Some(sub);
        let (al, bl) = (self.lo(a), self.lo(b));
        let step = |s: &mut Self, a: Operand, b: Operand, carry: Operand, out: bool| {
            s.iaddx(a, if sub { b.inverted() } else { b }, carry, out)
        };
        if ty == Ty::B16 {
            return None;
        }
        let first_out = out || ty == Ty::B64;
        if start && out && !sub && ty == Ty::B32 && self.regs[results[0].index()].is_none() {
            let carry = self.carry_alone(al, bl);
            self.define(id, 1, Regs { lo: Vreg(carry.as_reg()?.index()), hi: None });
            return Some(());
        }
        let (lo, mut carry) = if start && first_out {
            if sub { self.isub_carry(al, bl) } else { self.iadd_carry(al, bl) }
        } else if start {
            (self.iadd3(al, if sub { bl.negated() } else { bl }, super::operand::ZERO), super::operand::TRUE)
        } else {
            let p = self.pred(c);
            step(self, al, bl, p, first_out)
        };
        let mut regs = Regs { lo: Vreg(lo.as_reg()?.index()), hi: None };
        if ty == Ty::B64 {
            let (ah, bh) = (self.hi(a), self.hi(b));
            let (hi, c) = step(self, ah, bh, carry, out);
            regs.hi = Some(Vreg(hi.as_reg()?.index()));
            carry = c;
        }
        self.define(id, 0, regs);
        if out {
            self.define(id, 1, Regs { lo: Vreg(carry.as_reg()?.index()), hi: None });
        }
        Some(())
    }
}
