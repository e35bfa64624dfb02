//! What machine operations read and write, scalar by scalar.

use super::{Func, Op, Term, Vreg};
use sass::form::Form;
use sass::inst::{Inst, Operand, Value};
use sass::reg::Reg;

/// A register operand of a SASS instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Slot number, `None` for the guard.
    pub slot: Option<u8>,
    /// First register, or pool entry.
    pub reg: Reg,
    /// Registers it covers.
    pub width: u8,
}

/// Calls `f` with each register operand that is read, guard first; constants (RZ, PT) included.
pub fn sass_uses(inst: &Inst, mut f: impl FnMut(Place)) {
    if let Value::Reg(reg) = inst.guard.value {
        f(Place { slot: None, reg, width: 1 });
    }
    let form = inst.form();
    places(inst, form, form.reads, &mut f);
}

/// Calls `f` with each register operand that is written; constants included.
pub fn sass_defs(inst: &Inst, mut f: impl FnMut(Place)) {
    let form = inst.form();
    places(inst, form, form.writes, &mut f);
}

/// The width of a slot, which most often is one register: then the table of slots is not looked at.
#[inline(always)]
fn width(inst: &Inst, form: &Form, slot: usize) -> u8 {
    match form.single >> slot & 1 {
        1 => 1,
        _ => form.slots[slot].width.of(inst),
    }
}

/// The registers in these slots.
#[inline(always)]
fn places(inst: &Inst, form: &Form, mut slots: u16, f: &mut impl FnMut(Place)) {
    let operands = &inst.operands[..];
    while slots != 0 {
        let i = slots.trailing_zeros() as usize;
        slots &= slots - 1;
        if let Value::Reg(reg) = operands[i].value {
            f(Place { slot: Some(i as u8), reg, width: width(inst, form, i) });
        }
    }
}

impl Func {
    /// Calls `f` with each scalar of a virtual register operand; with none of a physical one.
    pub fn each_scalar(&self, reg: Reg, width: u8, mut f: impl FnMut(Vreg)) {
        if !reg.is_virtual() {
        } else if width == 1 {
            f(Vreg(reg.index()));
        } else {
            self.vecs[reg.index() as usize].iter().copied().for_each(f);
        }
    }

    /// The values in these slots. Passes ask for them more often than for anything else.
    #[inline(always)]
    fn scalars_in(&self, inst: &Inst, form: &Form, mut slots: u16, f: &mut impl FnMut(Vreg)) {
        let operands = &inst.operands[..];
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            if let Value::Reg(reg) = operands[i].value
                && reg.is_virtual()
            {
                match width(inst, form, i) {
                    1 => f(Vreg(reg.index())),
                    _ => self.vecs[reg.index() as usize].iter().copied().for_each(&mut *f),
                }
            }
        }
    }

    /// Calls `f` with each value that `op` reads, in order, with repetitions.
    pub fn uses(&self, op: &Op, mut f: impl FnMut(Vreg)) {
        match op {
            Op::Sass(inst) => {
                if let Value::Reg(reg) = inst.guard.value
                    && reg.is_virtual()
                {
                    f(Vreg(reg.index()));
                }
                let form = inst.form();
                self.scalars_in(inst, form, form.reads, &mut f);
            }
            Op::Copy(pairs) => pairs.iter().for_each(|&(_, s)| self.each_scalar(s, 1, &mut f)),
            Op::Call(call) => {
                call.args.iter().for_each(|a| f(a.0));
                call.target.values().into_iter().for_each(f);
            }
            Op::LoadIncoming { .. } => {}
        }
    }

    /// Calls `f` with each value that `op` defines, in order.
    pub fn defs(&self, op: &Op, mut f: impl FnMut(Vreg)) {
        match op {
            Op::Sass(inst) => {
                let form = inst.form();
                self.scalars_in(inst, form, form.writes, &mut f);
            }
            Op::Copy(pairs) => pairs.iter().for_each(|&(d, _)| self.each_scalar(d, 1, &mut f)),
            Op::Call(call) => call.rets.iter().for_each(|r| f(r.0)),
            Op::LoadIncoming { dst, .. } => dst.iter().copied().for_each(f),
        }
    }

    /// Calls `f` with each value that the terminator itself reads: not the arguments of edges.
    pub fn term_uses(&self, term: &Term, mut f: impl FnMut(Vreg)) {
        match term {
            Term::CondBr { cond: Operand { value: Value::Reg(reg), .. }, .. } => self.each_scalar(*reg, 1, f),
            Term::Switch { index, .. } if *index != Vreg::NONE => f(*index),
            Term::Ret(values) => values.iter().for_each(|v| f(v.0)),
            _ => {}
        }
    }
}

/// A plain move between two registers of one file, or GPR <- UGPR, or from RZ or PT.
pub fn copy_inst(dst: Reg, src: Reg) -> Inst {
    use sass::form::SlotName as S;
    use sass::forms as F;
    use sass::reg::File;
    match (dst.file(), src.file()) {
        (File::Gpr, File::Ugpr) => Inst::new(F::MOV_U).with(S::Rd, dst).with(S::Rb, src),
        (File::Gpr, _) => Inst::new(F::MOV_R).with(S::Rd, dst).with(S::Rb, src),
        (File::Ugpr, _) => Inst::new(F::UMOV_U).with(S::Rd, dst).with(S::Rb, src),
        (File::Pred, _) => plop3(F::PLOP3, dst, src, Reg::PT, 0x80),
        (File::Upred, _) => plop3(F::UPLOP3, dst, src, Reg::UPT, 0x80),
        (File::Bar, _) => Inst::new(F::NOP), // barriers are never virtual
    }
}

/// `dst = lut(a, b, true)`.
pub fn plop3(form: sass::form::FormId, dst: Reg, a: Reg, b: Reg, lut: i64) -> Inst {
    use sass::form::SlotName as S;
    let t = if dst.file() == sass::reg::File::Upred { Reg::UPT } else { Reg::PT };
    let inst = Inst::new(form).with(S::Pu, dst).with(S::Pp, a).with(S::Pq, b).with(S::Pr, t);
    inst.with(S::Lut, Operand::imm(lut))
}
