//! What machine operations read and write, scalar by scalar.

use super::{Func, Op, Term, Vreg};
use sass::inst::{Inst, Operand, Value};
use sass::reg::Reg;
use smallvec::SmallVec;

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

/// True if the instruction writes registers to memory, and leaves them as they are.
pub fn is_store(inst: &Inst) -> bool {
    matches!(inst.form().mnemonic, "ST" | "STG" | "STL" | "STS")
}

/// Calls `f` with each register operand that is read, guard first; constants (RZ, PT) included.
pub fn sass_uses(inst: &Inst, mut f: impl FnMut(Place)) {
    if let Value::Reg(reg) = inst.guard.value {
        f(Place { slot: None, reg, width: 1 });
    }
    let registers = inst.registers();
    places(inst, registers.reads, registers.single, &mut f);
}

/// Calls `f` with each register operand that is written; constants included.
pub fn sass_defs(inst: &Inst, mut f: impl FnMut(Place)) {
    let registers = inst.registers();
    places(inst, registers.writes, registers.single, &mut f);
}

/// Calls `f` with each register operand, read or written, once; constants included, the guard not.
pub fn sass_operands(inst: &Inst, mut f: impl FnMut(Place)) {
    let registers = inst.registers();
    places(inst, registers.reads | registers.writes, registers.single, &mut f);
}

/// The registers in these slots. Most are one register wide: then the table of slots is not looked at.
#[inline(always)]
fn places(inst: &Inst, mut slots: u16, single: u16, f: &mut impl FnMut(Place)) {
    let operands = &inst.operands[..];
    while slots != 0 {
        let i = slots.trailing_zeros() as usize;
        slots &= slots - 1;
        if let Value::Reg(reg) = operands[i].value {
            let one = single >> i & 1 != 0 || reg.is_virtual() && !reg.is_pooled();
            let width = if one { 1 } else { width(inst, i) };
            f(Place { slot: Some(i as u8), reg, width });
        }
    }
}

/// Calls `f` with the guard and each register that is read, whatever its width; constants included.
#[inline(always)]
pub fn each_read(inst: &Inst, mut f: impl FnMut(Reg)) {
    if let Value::Reg(reg) = inst.guard.value {
        f(reg);
    }
    let operands = &inst.operands[..];
    let mut slots = inst.registers().reads;
    while slots != 0 {
        let i = slots.trailing_zeros() as usize;
        slots &= slots - 1;
        if let Value::Reg(reg) = operands[i].value {
            f(reg);
        }
    }
}

/// True if one of these slots, or the guard where `guard`, is a register that is neither virtual nor constant.
pub fn names_physical(inst: &Inst, mut slots: u16, guard: bool) -> bool {
    let operands = &inst.operands[..];
    let physical = |value: Value| matches!(value, Value::Reg(r) if !r.is_virtual() && !r.is_const());
    let mut found = guard && physical(inst.guard.value);
    while slots != 0 && !found {
        let i = slots.trailing_zeros() as usize;
        slots &= slots - 1;
        found = physical(operands[i].value);
    }
    found
}

/// The width of a slot. Not inlined: what is not needed most often shall not make the loops around it long.
#[inline(never)]
fn width(inst: &Inst, slot: usize) -> u8 {
    inst.slot_width(slot)
}

impl Func {
    /// Calls `f` with each scalar of a virtual register operand; with none of a physical one.
    pub fn each_scalar(&self, reg: Reg, mut f: impl FnMut(Vreg)) {
        if reg.is_pooled() {
            self.vecs[reg.index() as usize].iter().copied().for_each(f);
        } else if reg.is_virtual() {
            f(Vreg(reg.index()));
        }
    }

    /// The values in these slots. Passes ask for them more often than for anything else.
    #[inline(always)]
    fn scalars_in(&self, inst: &Inst, mut slots: u16, f: &mut impl FnMut(Vreg)) {
        let operands = &inst.operands[..];
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            if let Value::Reg(reg) = operands[i].value
                && reg.is_virtual()
            {
                if reg.is_pooled() {
                    self.pooled(reg).iter().copied().for_each(&mut *f);
                } else {
                    f(Vreg(reg.index()));
                }
            }
        }
    }

    /// The values of an entry of the pool. Not inlined, as [`width`].
    #[inline(never)]
    fn pooled(&self, reg: Reg) -> &[Vreg] {
        &self.vecs[reg.index() as usize]
    }

    /// Calls `f` with each value that `op` reads, in order, with repetitions.
    #[inline(always)]
    pub fn uses(&self, op: &Op, f: impl FnMut(Vreg)) {
        let Op::Sass(inst) = op else {
            return uses_of_others(op).into_iter().for_each(f);
        };
        self.sass_reads(inst, f);
    }

    /// Calls `f` with each value that an instruction reads, guard first.
    #[inline(always)]
    pub fn sass_reads(&self, inst: &Inst, mut f: impl FnMut(Vreg)) {
        if let Value::Reg(reg) = inst.guard.value
            && reg.is_virtual()
        {
            f(Vreg(reg.index()));
        }
        let registers = inst.registers();
        self.scalars_in(inst, registers.reads, &mut f);
    }

    /// Calls `f` with each value that `op` defines, in order.
    #[inline(always)]
    pub fn defs(&self, op: &Op, f: impl FnMut(Vreg)) {
        let Op::Sass(inst) = op else {
            return defs_of_others(op).into_iter().for_each(f);
        };
        self.sass_writes(inst, f);
    }

    /// Calls `f` with each value that an instruction writes.
    #[inline(always)]
    pub fn sass_writes(&self, inst: &Inst, mut f: impl FnMut(Vreg)) {
        let registers = inst.registers();
        self.scalars_in(inst, registers.writes, &mut f);
    }

    /// Calls `f` with each value that the terminator itself reads: not the arguments of edges.
    pub fn term_uses(&self, term: &Term, mut f: impl FnMut(Vreg)) {
        match term {
            Term::CondBr { cond: Operand { value: Value::Reg(reg), .. }, .. } => self.each_scalar(*reg, f),
            Term::Switch { index, .. } if *index != Vreg::NONE => f(*index),
            Term::Ret(values) => values.iter().for_each(|v| f(v.0)),
            _ => {}
        }
    }
}

/// What an operation that is no SASS instruction reads.
#[inline(never)]
fn uses_of_others(op: &Op) -> SmallVec<[Vreg; 8]> {
    match op {
        Op::Copy(pairs) => scalars(pairs.iter().map(|p| p.1)),
        Op::Call(call) => call.args.iter().map(|a| a.0).chain(call.target.values()).collect(),
        Op::Hold { ends, .. } => ends.as_slice().into(),
        Op::Sass(_) | Op::LoadIncoming { .. } => SmallVec::new(),
    }
}

/// What an operation that is no SASS instruction defines.
#[inline(never)]
fn defs_of_others(op: &Op) -> SmallVec<[Vreg; 8]> {
    match op {
        Op::Copy(pairs) => scalars(pairs.iter().map(|p| p.0)),
        Op::Call(call) => call.rets.iter().map(|r| r.0).collect(),
        Op::LoadIncoming { dst, .. } => dst.as_slice().into(),
        Op::Hold { begins, .. } => begins.as_slice().into(),
        Op::Sass(_) => SmallVec::new(),
    }
}

/// The virtual ones of registers, each one value.
fn scalars(regs: impl Iterator<Item = Reg>) -> SmallVec<[Vreg; 8]> {
    regs.filter(|r| r.is_virtual()).map(|r| Vreg(r.index())).collect()
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
