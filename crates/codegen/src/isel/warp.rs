//! Barriers, shuffles, votes, special registers: what involves other threads or the machine's state.

use super::operand::{TRUE, ZERO};
use super::{Regs, Sel};
use crate::ir::{BarKind, InstId, Op, Sreg, Ty, Value};
use crate::opt::lone;
use crate::regalloc::frame;
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value as V};
use sass::reg::{File, Reg};

/// Bits of the number of a lane.
const LANE_BITS: u64 = 5;

impl Sel<'_> {
    pub(super) fn warp(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        match inst.op {
            Op::Sreg | Op::SregVolatile => self.special(id),
            Op::Bar => self.bar(id),
            Op::WarpSync => {
                self.m.lanes_tell = true;
                self.converge(inst.args[0]);
                Some(())
            }
            Op::Shfl => self.shfl(id),
            Op::Vote => self.vote(id),
            Op::Match => self.matching(id),
            Op::Redux => self.redux(id),
            Op::ActiveMask => {
                let r = self.new_word();
                let d = self.m.reg(r.lo);
                let m = Sass::new(F::VOTE).with(S::Rd, d).with(S::Pp, TRUE).with_mod(M::Mode, enums::vote::ANY);
                self.push(m);
                self.define(id, 0, r);
                Some(())
            }
            Op::Nanosleep => {
                let a = self.lo(inst.args[0]);
                match a.value {
                    V::Imm(_) => self.push(Sass::new(F::NANOSLEEP_I).with(S::Mask, a)),
                    _ => self.push(Sass::new(F::NANOSLEEP_R).with(S::Rb, a)),
                }
                Some(())
            }
            Op::Elect => {
                self.converge(inst.args[0]);
                let p = self.m.new_vreg(File::Pred);
                let d = self.m.reg(p);
                self.push(Sass::new(F::ELECT).with(S::Pu, d).with(S::Pp, TRUE));
                self.define(id, 0, Regs { lo: p, hi: None });
                Some(())
            }
            Op::GridDep => {
                self.push(Sass::new(if inst.attr.sub == 0 { F::ACQBULK } else { F::PREEXIT }));
                Some(())
            }
            Op::SetMaxReg => {
                self.push(Sass::new(F::WARPSYNC_ALL));
                let count = Operand::imm(inst.imm);
                if inst.results.is_empty() {
                    self.push(Sass::new(F::USETMAXREG_DEALLOC).with(S::ImmAt32, count));
                    return Some(());
                }
                let up = self.m.new_vreg(File::Upred);
                let up = self.m.reg(up);
                self.push(Sass::new(F::USETMAXREG_TRY_ALLOC).with(S::Pu, up).with(S::ImmAt32, count));
                let p = self.m.new_vreg(File::Pred);
                let d = self.m.reg(p);
                let granted = Sass::new(F::PLOP3_U).with(S::Pu, d).with(S::Pp, TRUE).with(S::Pq, TRUE).with(S::Pr, up);
                self.push(granted.with(S::Lut, Operand::imm(0x80)));
                self.define(id, 0, Regs { lo: p, hi: None });
                Some(())
            }
            Op::PmEvent => {
                self.push(Sass::new(F::PMTRIG).with(S::Event, Operand::imm(inst.imm)));
                Some(())
            }
            Op::Trap => {
                self.push(Sass::new(F::BPT).with(S::Trap, Operand::imm(1)));
                Some(())
            }
            Op::CheckStack => {
                if self.checks.stack {
                    let end = self.lo(inst.args[0]);
                    let end = self.gpr(end);
                    let (low, fits) = (self.m.new_vreg(File::Gpr), self.m.new_vreg(File::Pred));
                    let (low, fits) = (self.m.reg(low), self.m.reg(fits));
                    frame::check_stack(end, low, fits).into_iter().for_each(|s| self.push(s));
                }
                Some(())
            }
            _ => None,
        }
    }

    pub(super) fn new_word(&mut self) -> Regs {
        Regs { lo: self.m.new_vreg(File::Gpr), hi: None }
    }

    /// Makes the named threads meet, unless all are known to be together. Threads outside the mask do not matter: results
    /// are cut to the mask ([`crate::expand::masks`]). Where all are together nothing is done for part of them either:
    /// waiting by parts would take them apart.
    fn converge(&mut self, mask: Value) {
        if !self.conv.divergent[self.block] {
            return;
        }
        if self.constant(mask) == Some(0xffff_ffff) {
            self.push(Sass::new(F::WARPSYNC_ALL));
            return;
        }
        let m = self.lo(mask);
        let m = self.gpr(m);
        self.push(Sass::new(F::WARPSYNC).with(S::Ra, m));
    }

    fn bar(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let kind = inst.attr.sub;
        let reduces = kind >= BarKind::RedPopc as u8;
        let n = inst.args.len() - reduces as usize;
        let args = inst.args.to_vec();
        if self.conv.divergent[self.block] {
            self.push(Sass::new(F::WARPSYNC_ALL));
        }
        let number = self.lo(args[0]);
        let count = if n > 1 { Some(self.lo(args[1])) } else { None };
        let small = |o: &Operand| match o.value {
            V::Imm(i) => Some(i.get()),
            V::Reg(r) if r == Reg::RZ => Some(0),
            _ => None,
        };
        if let (Some(b), Some(c)) = (small(&number), count.map_or(Some(0), |c| small(&c))) {
            let m = match kind {
                1 => Sass::new(F::BAR_ARV_I),
                k if k >= 2 => {
                    let p = self.pred(*args.last()?);
                    Sass::new(F::BAR_RED_I).with(S::Pp, p).with_mod(M::Op, k - 2)
                }
                _ => Sass::new(F::BAR_SYNC_I),
            };
            self.push(m.with(S::Bar, Operand::imm(b)).with(S::Count, Operand::imm(c)));
        } else if let (None, false) = (count, kind == BarKind::Arrive as u8) {
            let r = self.gpr(number);
            let m = if reduces {
                let p = self.pred(*args.last()?);
                Sass::new(F::BAR_RED_R).with(S::Pp, p).with_mod(M::Op, kind - 2)
            } else {
                Sass::new(F::BAR_SYNC_R)
            };
            self.push(m.with(S::Rb, r));
        } else {
            // Number in bits 3:0, count in bits 31:16 of one register.
            let c = count.unwrap_or(ZERO);
            let c = self.gpr(c);
            let high = self.shf(false, false, enums::shftype::U32, false, c, Operand::imm(16), ZERO);
            let both = self.lop3(0xf8, high, Operand::imm(15), number);
            let m = if reduces {
                let p = self.pred(*args.last()?);
                Sass::new(F::BAR_RED_RR).with(S::Pp, p).with_mod(M::Op, kind - 2)
            } else {
                Sass::new(if kind == BarKind::Arrive as u8 { F::BAR_ARV_RR } else { F::BAR_SYNC_RR })
            };
            self.push(m.with(S::Rb, both));
        }
        if reduces {
            let v = self.f.inst(id).results[0];
            if self.f.ty(v) == Ty::P {
                let p = self.m.new_vreg(File::Pred);
                let d = self.m.reg(p);
                self.push(Sass::new(F::B2R_RESULT).with(S::Pu, d));
                self.define(id, 0, Regs { lo: p, hi: None });
            } else {
                let r = self.new_word();
                let d = self.m.reg(r.lo);
                self.push(Sass::new(F::B2R_RESULT).with(S::Rd, d));
                self.define(id, 0, r);
            }
        }
        Some(())
    }

    fn shfl(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let mode =
            [enums::shfl::UP, enums::shfl::DOWN, enums::shfl::BFLY, enums::shfl::IDX][inst.attr.sub as usize & 3];
        let args = inst.args.to_vec();
        let results = inst.results.clone();
        self.converge(args[3]);
        let a = self.lo(args[0]);
        // The number of a warp, which all its lanes know: what is computed of it is most often wanted in uniform registers.
        let first = crate::converge::told(self.f, inst).is_some_and(|lane| self.constant(lane) == Some(0));
        let number = |d: &crate::ir::Inst| {
            let shifted = |&v: &Value| {
                let of = self.f.def_inst(v).filter(|s| s.op == Op::Sreg);
                of.is_some_and(|s| Sreg::from_sub(s.attr.sub) == Some(Sreg::TidX))
            };
            d.op == Op::Shr
                && d.args.first().is_some_and(shifted)
                && self.f.constant(d.args[1]).is_some_and(|n| n >= LANE_BITS)
        };
        let warps = lone::filled(self.f) && self.f.def_inst(args[0]).is_some_and(number);
        if first && warps && !self.conv.divergent[self.block] && self.regs[results[1].index()].is_none() {
            let shared = self.uniform_word(a);
            let r = self.new_word();
            self.push(Sass::new(F::MOV_U).with(S::Rd, self.m.reg(r.lo)).with(S::Rb, self.m.reg(shared)));
            self.define(id, 0, r);
            return Some(());
        }
        let a = self.gpr(a);
        let lane = self.constant(args[1]).map(|c| Operand::imm((c & 31) as i64));
        let clamp = self.constant(args[2]).map(|c| Operand::imm((c & 0x1fff) as i64));
        let form = match (lane.is_some(), clamp.is_some()) {
            (true, true) => F::SHFL_II,
            (true, false) => F::SHFL_IR,
            (false, true) => F::SHFL_RI,
            (false, false) => F::SHFL_RR,
        };
        let b = lane.unwrap_or_else(|| self.lo(args[1]));
        let c = clamp.unwrap_or_else(|| self.lo(args[2]));
        let r = self.new_word();
        let d = self.m.reg(r.lo);
        let mut m = Sass::new(form).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c).with(S::Rd, d);
        m = m.with_mod(M::Mode, mode);
        let p = if self.regs[results[1].index()].is_some() {
            let p = self.m.new_vreg(File::Pred);
            m = m.with(S::Pu, self.m.reg(p));
            Some(p)
        } else {
            None
        };
        self.push(m);
        self.define(id, 0, r);
        if let Some(p) = p {
            self.define(id, 1, Regs { lo: p, hi: None });
        }
        Some(())
    }

    fn vote(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (sub, p, mask) = (inst.attr.sub & 3, inst.args[0], inst.args[1]);
        self.converge(mask);
        let p = self.pred(p);
        let mode = [enums::vote::ALL, enums::vote::ANY, enums::vote::EQ, enums::vote::ANY][sub as usize & 3];
        let m = Sass::new(F::VOTE).with(S::Pp, p).with_mod(M::Mode, mode);
        if sub == 3 {
            let r = self.new_word();
            let d = self.m.reg(r.lo);
            self.push(m.with(S::Rd, d));
            self.define(id, 0, r);
        } else {
            let q = self.m.new_vreg(File::Pred);
            let d = self.m.reg(q);
            self.push(m.with(S::Pu, d));
            self.define(id, 0, Regs { lo: q, hi: None });
        }
        Some(())
    }

    fn matching(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (all, a, mask) = (inst.attr.sub == 1, inst.args[0], inst.args[1]);
        let results = inst.results.clone();
        self.converge(mask);
        let wide = self.f.ty(a) == Ty::B64;
        let src = if wide {
            let w = self.words(a);
            self.vector_of(&w)
        } else {
            let o = self.lo(a);
            self.gpr(o)
        };
        let r = self.new_word();
        let d = self.m.reg(r.lo);
        let form = if all { F::MATCH_ALL } else { F::MATCH_ANY };
        let mut m = Sass::new(form).with(S::Rd, d).with(S::Ra, src).with_mod(M::U64, wide as u8);
        let mut p = None;
        if all && self.regs[results[1].index()].is_some() {
            let q = self.m.new_vreg(File::Pred);
            m = m.with(S::Pu, self.m.reg(q));
            p = Some(q);
        }
        self.push(m);
        self.define(id, 0, r);
        if let Some(q) = p {
            self.define(id, 1, Regs { lo: q, hi: None });
        }
        Some(())
    }

    /// `REDUX` writes a uniform register: threads that are not together take turns ([`crate::converge`] made the block).
    fn redux(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (sub, signed, a, mask) = (inst.attr.sub, inst.attr.signed, inst.args[0], inst.args[1]);
        let together = self.constant(mask) == Some(0xffff_ffff) && !self.conv.divergent[self.block];
        if !together {
            let m = self.lo(mask);
            let m = self.gpr(m);
            self.push(Sass::new(F::WARPSYNC_EXCLUSIVE).with(S::Ra, m));
        }
        let op = [
            enums::redux::SUM,
            enums::redux::MIN,
            enums::redux::MAX,
            enums::redux::AND,
            enums::redux::OR,
            enums::redux::XOR,
        ][sub as usize % 6];
        let src = self.lo(a);
        let src = self.gpr(src);
        let u = self.m.new_vreg(File::Ugpr);
        let ud = self.m.reg(u);
        // The sign is written for sums and comparisons, as the vendor's compiler does; bits do not have one.
        let s32 = (signed && sub < 3) as u8;
        self.push(Sass::new(F::REDUX).with(S::Rd, ud).with(S::Ra, src).with_mod(M::Op, op).with_mod(M::S32, s32));
        let r = self.new_word();
        let d = self.m.reg(r.lo);
        self.push(Sass::new(F::MOV_U).with(S::Rd, d).with(S::Rb, ud));
        self.define(id, 0, r);
        Some(())
    }
}
