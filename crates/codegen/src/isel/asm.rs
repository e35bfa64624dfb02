//! The assembler that the rules call: one method a machine instruction, operands legalised to a form that exists.

use super::isle::rnd_code;
use super::operand::{TRUE, ZERO};
use super::{Regs, Sel};
use crate::ir::ops::swap_cmp as swap;
use crate::ir::{Cmp, Rnd};
use crate::mir;
use crate::mir::Vreg;
use sass::enums;
use sass::form::{FormId, ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst, Operand, Value as V};
use sass::reg::{File, Reg};

/// The shapes of a three-source operation: where the immediate may stand.
#[derive(Clone, Copy)]
pub struct Shapes3 {
    rrr: FormId,
    rri: Option<FormId>,
    rir: FormId,
    rru: Option<FormId>,
    rur: FormId,
}

/// The shapes of a two-source operation.
#[derive(Clone, Copy)]
pub struct Shapes2 {
    rr: FormId,
    ri: FormId,
    ru: FormId,
}

macro_rules! shapes {
    ($($name:ident: $rrr:ident $rri:tt $rir:ident $rru:tt $rur:ident;)*) => {
        $(pub const $name: Shapes3 = Shapes3 {
            rrr: F::$rrr,
            rri: shapes!(@ $rri),
            rir: F::$rir,
            rru: shapes!(@ $rru),
            rur: F::$rur,
        };)*
    };
    (@ _) => { None };
    (@ $f:ident) => { Some(F::$f) };
}
shapes! {
    IADD3: IADD3_RRR _ IADD3_RIR _ IADD3_RUR;
    IADD3X: IADD3X_RRR _ IADD3X_RIR _ IADD3X_RUR;
    IMAD: IMAD_RRR IMAD_RRI IMAD_RIR IMAD_RRU IMAD_RUR;
    IMAD_HI: IMAD_HI_RRR _ IMAD_HI_RIR _ IMAD_HI_RUR;
    IMAD_WIDE: IMAD_WIDE_RRR _ IMAD_WIDE_RIR _ IMAD_WIDE_RUR;
    IMAD_WIDEX: IMAD_WIDEX_RRR _ IMAD_WIDEX_RIR _ IMAD_WIDEX_RUR;
    LEA_HI: LEA_HI_RRR _ LEA_HI_RIR _ LEA_HI_RUR;
    LEA_HIX: LEA_HIX_RRR _ LEA_HIX_RIR _ LEA_HIX_RUR;
    LOP3: LOP3_RRR _ LOP3_RIR _ LOP3_RUR;
    VIMNMX3: VIMNMX3_RRR _ VIMNMX3_RIR _ VIMNMX3_RUR;
    PRMT: PRMT_RRR PRMT_RRI PRMT_RIR PRMT_RRU PRMT_RUR;
    SHF: SHF_RRR SHF_RRI SHF_RIR SHF_RRU SHF_RUR;
    FFMA: FFMA_RRR FFMA_RRI FFMA_RIR FFMA_RRU FFMA_RUR;
    DFMA: DFMA_RRR DFMA_RRI DFMA_RIR DFMA_RRU DFMA_RUR;
    HFMA2: HFMA2_RRR HFMA2_RRI HFMA2_RIR HFMA2_RRU HFMA2_RUR;
    HFMA2_RELU: HFMA2_RELU_RRR HFMA2_RELU_RRI HFMA2_RELU_RIR HFMA2_RELU_RRU HFMA2_RELU_RUR;
}
macro_rules! shapes2 {
    ($($name:ident: $rr:ident $ri:ident $ru:ident;)*) => {
        $(pub const $name: Shapes2 = Shapes2 { rr: F::$rr, ri: F::$ri, ru: F::$ru };)*
    };
}
shapes2! {
    FADD: FADD_RR FADD_RI FADD_RU;
    FMUL: FMUL_RR FMUL_RI FMUL_RU;
    FMNMX: FMNMX_RR FMNMX_RI FMNMX_RU;
    SEL: SEL_RR SEL_RI SEL_RU;
    ISETP: ISETP_RR ISETP_RI ISETP_RU;
    ISETPX: ISETPX_RR ISETPX_RI ISETPX_RU;
    FSETP: FSETP_RR FSETP_RI FSETP_RU;
    DSETP: DSETP_RR DSETP_RI DSETP_RU;
    DADD: DADD_RR DADD_RI DADD_RU;
    DMUL: DMUL_RR DMUL_RI DMUL_RU;
    VIMNMX: VIMNMX_RR VIMNMX_RI VIMNMX_RU;
    SGXT: SGXT_RR SGXT_RI SGXT_RU;
    LEA: LEA_RR LEA_RI LEA_RU;
    LEA_HIX_SX32: LEA_HIX_SX32_RR LEA_HIX_SX32_RI LEA_HIX_SX32_RU;
    HADD2: HADD2_RR HADD2_RI HADD2_RU;
    HMUL2: HMUL2_RR HMUL2_RI HMUL2_RU;
    HSETP2: HSETP2_RR HSETP2_RI HSETP2_RU;
    HMNMX2: HMNMX2_RR HMNMX2_RI HMNMX2_RU;
}

/// Folds source modifiers of an immediate into its bits, as the operation reads them.
#[derive(Clone, Copy, PartialEq)]
pub enum Fold {
    /// Two's complement negation, bitwise complement.
    Int,
    /// Sign bit 31 (32-bit floats, high words of doubles).
    Float,
    /// Sign bits 15 and 31.
    Half,
}

pub(super) fn fold(o: Operand, how: Fold) -> Operand {
    let V::Imm(bits) = o.value else { return o };
    let bits = bits.get();
    let mut bits = bits as u32;
    match how {
        Fold::Int => {
            if o.neg {
                bits = bits.wrapping_neg();
            }
            if o.inv {
                bits = !bits;
            }
        }
        Fold::Float | Fold::Half => {
            let sign = if how == Fold::Float { 0x8000_0000 } else { 0x8000_8000 };
            if o.abs {
                bits &= !sign;
            }
            if o.neg {
                bits ^= sign;
            }
        }
    }
    Operand::imm(bits as i64)
}

/// How an immediate is stored in a slot: signed ones sign-extended.
fn fit(form: FormId, slot: S, o: Operand) -> Operand {
    let V::Imm(bits) = o.value else { return o };
    let bits = bits.get();
    let signed = form
        .get()
        .slots
        .iter()
        .any(|s| s.name == slot && matches!(s.kind, sass::form::SlotKind::Imm { signed: true, bits: 32, .. }));
    Operand::imm(if signed { bits as i32 as i64 } else { bits as u32 as i64 })
}

/// The instruction that stands last in what is selected, and has to be filled: where it stands, as moving it takes longer. Nothing else is
/// selected before it is finished.
struct New<'s, 'a> {
    sel: &'s mut Sel<'a>,
}

impl New<'_, '_> {
    fn set(&mut self, set: impl FnOnce(&mut Inst)) {
        if let Some(mir::Inst { op: mir::Op::Sass(inst), .. }) = self.sel.out.last_mut() {
            set(inst);
        }
    }

    #[inline(always)]
    fn with(mut self, name: S, operand: impl Into<Operand>) -> Self {
        let operand = operand.into();
        self.set(|inst| inst.set(name, operand));
        self
    }

    #[inline(always)]
    fn with_mod(mut self, name: M, value: u8) -> Self {
        self.set(|inst| inst.set_mod(name, value));
        self
    }

    /// Takes it out again, for a place behind what comes next.
    fn take(self) -> Inst {
        match self.sel.out.pop() {
            Some(mir::Inst { op: mir::Op::Sass(inst), .. }) => inst,
            _ => Inst::blank(),
        }
    }

    /// Gives it a new register to write; that is the result.
    fn finish(self) -> Operand {
        let (_, d) = self.sel.new_gpr();
        self.with(S::Rd, d).sel.settle();
        d
    }

    /// The same with a predicate.
    fn finish_pred(self) -> Operand {
        let (_, d) = self.sel.new_pred();
        self.with(S::Pu, d).sel.settle();
        d
    }

    /// The same with a pair of registers.
    fn finish_pair(self) -> Regs {
        let (r, d) = self.sel.new_pair();
        self.with(S::Rd, d).sel.settle();
        r
    }
}

impl<'a> Sel<'a> {
    fn begin(&mut self, form: FormId) -> New<'_, 'a> {
        const PLACE: mir::Inst = mir::Inst { op: mir::Op::Sass(Inst::blank()), loc: u32::MAX, other: None };
        self.out.push(PLACE);
        if let Some(mir::Inst { op: mir::Op::Sass(inst), loc, .. }) = self.out.last_mut() {
            inst.begin(form);
            *loc = self.loc;
        }
        New { sel: self }
    }

    /// Says the last instruction by what the target has.
    fn settle(&mut self) {
        if let Some(mir::Inst { op: mir::Op::Sass(inst), .. }) = self.out.last()
            && !self.stands(inst)
            && let Some(mir::Inst { op: mir::Op::Sass(inst), .. }) = self.out.pop()
        {
            self.push(inst);
        }
    }

    fn new_gpr(&mut self) -> (Vreg, Operand) {
        let v = self.m.new_vreg(File::Gpr);
        (v, Operand::reg(self.m.reg(v)))
    }

    fn new_pred(&mut self) -> (Vreg, Operand) {
        let v = self.m.new_vreg(File::Pred);
        (v, Operand::reg(self.m.reg(v)))
    }

    /// A new pair, as scalars and as the vector operand that names both.
    pub(super) fn new_pair(&mut self) -> (Regs, Operand) {
        let (lo, hi) = (self.m.new_vreg(File::Gpr), self.m.new_vreg(File::Gpr));
        (Regs { lo, hi: Some(hi) }, Operand::reg(self.m.vector(&[lo, hi])))
    }

    pub(super) fn mov_imm(&mut self, d: Vreg, bits: u32) {
        let d = self.m.reg(d);
        let (form, b) = if bits == 0 { (F::MOV_R, ZERO) } else { (F::MOV_I, Operand::imm(bits as i64)) };
        self.begin(form).with(S::Rd, d).with(S::Rb, b).sel.settle();
    }

    /// Puts three sources into a form that exists: at most one immediate, in B or C; A is a register.
    fn shape3(&mut self, sh: Shapes3, how: Fold, a: Operand, b: Operand, c: Operand) -> New<'_, 'a> {
        let (mut a, mut b, mut c) = (fold(a, how), fold(b, how), fold(c, how));
        let imm = |o: &Operand| matches!(o.value, V::Imm(_));
        let other = |o: &Operand| imm(o) || uniform(o);
        if other(&a) {
            a = self.gpr(a);
        }
        // One operand that is no general register, in B or C.
        let here = if imm(&c) { sh.rri } else { sh.rru };
        if other(&c) && (here.is_none() || other(&b)) {
            c = self.gpr(c);
        }
        if uniform(&b) {
            return self.begin(sh.rur).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c);
        }
        if let (true, Some(rru)) = (uniform(&c), sh.rru) {
            return self.begin(rru).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c);
        }
        if imm(&b) {
            b = fit(sh.rir, S::Rb, b);
            return self.begin(sh.rir).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c);
        }
        if let (true, Some(rri)) = (imm(&c), sh.rri) {
            c = fit(rri, S::Rc, c);
            return self.begin(rri).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c);
        }
        self.begin(sh.rrr).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c)
    }

    fn shape2(&mut self, sh: Shapes2, how: Fold, a: Operand, b: Operand) -> New<'_, 'a> {
        let (mut a, mut b) = (fold(a, how), fold(b, how));
        if soft(&a) {
            a = self.gpr(a);
        }
        if uniform(&b) {
            return self.begin(sh.ru).with(S::Ra, a).with(S::Rb, b);
        }
        if matches!(b.value, V::Imm(_)) {
            b = fit(sh.ri, S::Rb, b);
            return self.begin(sh.ri).with(S::Ra, a).with(S::Rb, b);
        }
        self.begin(sh.rr).with(S::Ra, a).with(S::Rb, b)
    }

    // ---- integer --------------------------------------------------------------------------------------------------

    /// a + b + c; at most one immediate. Immediates go to B.
    pub(super) fn iadd3(&mut self, a: Operand, b: Operand, c: Operand) -> Operand {
        let (a, b, c) = order_add(a, b, c);
        self.shape3(IADD3, Fold::Int, a, b, c).finish()
    }

    /// a + b with carry out.
    pub(super) fn iadd_carry(&mut self, a: Operand, b: Operand) -> (Operand, Operand) {
        let (a, b, c) = order_add(a, b, ZERO);
        let inst = self.shape3(IADD3, Fold::Int, a, b, c);
        let (_, p) = inst.sel.new_pred();
        (inst.with(S::Pu, p).finish(), p)
    }

    /// What a + b carries; the sum goes nowhere.
    pub(super) fn carry_alone(&mut self, a: Operand, b: Operand) -> Operand {
        let (a, b, c) = order_add(a, b, ZERO);
        self.shape3(IADD3, Fold::Int, a, b, c).with(S::Rd, ZERO).finish_pred()
    }

    /// a - b with carry out (no borrow). The complement form: a + ~b + 1 carries where -b would lose b = 0.
    pub(super) fn isub_carry(&mut self, a: Operand, b: Operand) -> (Operand, Operand) {
        if matches!(b.value, V::Imm(_)) || b == ZERO {
            return self.iaddx(a, b.inverted(), TRUE, true);
        }
        let a = self.gpr(a);
        let inst = self.begin(F::IADD3_RRR).with(S::Ra, a).with(S::Rb, b.negated());
        let (_, p) = inst.sel.new_pred();
        (inst.with(S::Pu, p).finish(), p)
    }

    /// a + b + carry; the carry out is made only if asked for.
    pub(super) fn iaddx(&mut self, a: Operand, b: Operand, carry: Operand, out: bool) -> (Operand, Operand) {
        let (a, b, c) = order_add(a, b, ZERO);
        let mut inst = self.shape3(IADD3X, Fold::Int, a, b, c).with(S::Pp, carry);
        let mut p = TRUE;
        if out {
            p = inst.sel.new_pred().1;
            inst = inst.with(S::Pu, p);
        }
        (inst.finish(), p)
    }

    pub(super) fn imad(&mut self, a: Operand, b: Operand, c: Operand) -> Operand {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        self.shape3(IMAD, Fold::Int, a, b, c).finish()
    }

    pub(super) fn imad_hi(&mut self, signed: bool, a: Operand, b: Operand) -> Operand {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        self.shape3(IMAD_HI, Fold::Int, a, b, ZERO).with_mod(M::Sign, signed as u8).finish()
    }

    /// a * b + c, 64 bits; `c` is a pair or RZ.
    pub(super) fn imad_wide(&mut self, signed: bool, a: Operand, b: Operand, c: Operand) -> Regs {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        self.shape3(IMAD_WIDE, Fold::Int, a, b, c).with_mod(M::Sign, signed as u8).finish_pair()
    }

    /// a * b + c + carry of unsigned words, 64 bits; the carry out is made only if asked for.
    pub(super) fn imad_wide_carry(
        &mut self,
        [a, b, c]: [Operand; 3],
        carry: Option<Operand>,
        out: bool,
    ) -> (Regs, Operand) {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        let mut inst = match carry {
            Some(p) => self.shape3(IMAD_WIDEX, Fold::Int, a, b, c).with(S::Pp, p),
            None => self.shape3(IMAD_WIDE, Fold::Int, a, b, c),
        };
        let mut p = TRUE;
        if out {
            p = inst.sel.new_pred().1;
            inst = inst.with(S::Pu, p);
        }
        (inst.with_mod(M::Sign, 0).finish_pair(), p)
    }

    pub(super) fn lop3(&mut self, lut: u8, a: Operand, b: Operand, c: Operand) -> Operand {
        if let Some(o) = logic_of_known(lut, a, b) {
            return o;
        }
        self.logic(lut, a, b, c).finish()
    }

    fn logic(&mut self, lut: u8, a: Operand, b: Operand, c: Operand) -> New<'_, 'a> {
        // Inputs that the table does not look at are not read; a constant stands second, where there is a place for it.
        let unread = |shift: u32, mask: u8| (lut ^ lut >> shift) & mask == 0;
        let a = if unread(4, 0x0f) { ZERO } else { a };
        let b = if unread(2, 0x33) { ZERO } else { b };
        let c = if unread(1, 0x55) { ZERO } else { c };
        let swap = soft(&a) && !soft(&b);
        let (a, b) = if swap { (b, a) } else { (a, b) };
        let lut = if swap { lut & 0xc3 | (lut & 0x0c) << 2 | (lut & 0x30) >> 2 } else { lut };
        let swap = soft(&c) && !soft(&b);
        let (b, c) = if swap { (c, b) } else { (b, c) };
        let lut = if swap { lut & 0x99 | (lut & 0x22) << 1 | (lut & 0x44) >> 1 } else { lut };
        self.shape3(LOP3, Fold::Int, a, b, c).with(S::Lut, Operand::imm(lut as i64))
    }

    /// Is the outcome of a logic operation not zero? Combined with `p` as comparisons are: 0 and, 1 or, 2 xor.
    #[allow(clippy::too_many_arguments)] // as many as the instruction has fields
    pub(super) fn lop3_test(&mut self, lut: u8, a: Operand, b: Operand, c: Operand, op: u8, p: Operand) -> Operand {
        let combined = matches!(op, enums::bop::AND | enums::bop::OR);
        if logic_of_known(lut, a, b).is_some() || !combined {
            let r = self.lop3(lut, a, b, c);
            return self.isetp(Cmp::Ne, false, op, r, ZERO, p);
        }
        // The predicate is "not zero, or Pp", or with `Pand` "not zero, and Pp".
        let alone = op == enums::bop::AND && p == TRUE;
        let (and, p) = if alone { (false, TRUE.inverted()) } else { (op == enums::bop::AND, p) };
        let inst = self.logic(lut, a, b, c).with(S::Rd, Reg::RZ).with(S::Pp, p);
        if and { inst.with_mod(M::Pand, 1) } else { inst }.finish_pred()
    }

    pub(super) fn prmt(&mut self, mode: u8, a: Operand, sel: Operand, b: Operand) -> Operand {
        self.shape3(PRMT, Fold::Int, a, sel, b).with_mod(M::Mode, mode).finish()
    }

    /// Funnel shift of {c, a} by b. `ty` is one of `shftype`, `hi`: the high word of the result.
    #[allow(clippy::too_many_arguments)] // as many as the instruction has fields
    pub(super) fn shf(
        &mut self,
        right: bool,
        wrap: bool,
        ty: u8,
        hi: bool,
        a: Operand,
        b: Operand,
        c: Operand,
    ) -> Operand {
        self.shape3(SHF, Fold::Int, a, b, c)
            .with_mod(M::Dir, right as u8)
            .with_mod(M::W, wrap as u8)
            .with_mod(M::Type, ty)
            .with_mod(M::Hi, hi as u8)
            .finish()
    }

    pub(super) fn lea(&mut self, a: Operand, b: Operand, shift: u8) -> Operand {
        self.shape2(LEA, Fold::Int, a, b).with(S::Shift, Operand::imm(shift as i64)).finish()
    }

    /// The upper word of {high, low} << shift, plus b.
    pub(super) fn lea_hi(&mut self, low: Operand, high: Operand, b: Operand, shift: u8) -> Operand {
        let low = self.gpr(low);
        self.shape3(LEA_HI, Fold::Int, low, b, high).with(S::Shift, Operand::imm(shift as i64)).finish()
    }

    /// (a << shift) + b, 64 bits; without a high word `a` is signed.
    pub(super) fn lea64(&mut self, al: Operand, ah: Option<Operand>, bl: Operand, bh: Operand, shift: u8) -> Regs {
        let al = self.gpr(al);
        let shift = Operand::imm(shift as i64);
        let (_, carry) = self.new_pred();
        let low = self.shape2(LEA, Fold::Int, al, bl).with(S::Shift, shift).with(S::Pu, carry).take();
        let high = match ah {
            Some(ah) => self.shape3(LEA_HIX, Fold::Int, al, bh, ah),
            None => self.shape2(LEA_HIX_SX32, Fold::Int, al, bh),
        };
        let high = high.with(S::Shift, shift).with(S::Pp, carry).take();
        let (lo, lo_reg) = self.new_gpr();
        let (hi, hi_reg) = self.new_gpr();
        self.push(low.with(S::Rd, lo_reg));
        self.push(high.with(S::Rd, hi_reg));
        Regs { lo, hi: Some(hi) }
    }

    /// The upper word of a + b, where `a` is a signed word and `carry` what the lower words carried: LEA extends it.
    pub(super) fn carry_onto_signed(&mut self, a: Operand, b: Operand, carry: Operand) -> Operand {
        let a = self.gpr(a);
        self.shape2(LEA_HIX_SX32, Fold::Int, a, b).with(S::Shift, Operand::imm(1)).with(S::Pp, carry).finish()
    }

    /// The smaller or larger; `relu`: not below zero.
    pub(super) fn vimnmx(&mut self, signed: bool, max: bool, relu: bool, a: Operand, b: Operand) -> Operand {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        let p = if max { TRUE.inverted() } else { TRUE };
        let inst = self.shape2(VIMNMX, Fold::Int, a, b).with_mod(M::Type, signed as u8).with(S::Pp, p);
        if relu { inst.with_mod(M::Relu, 1) } else { inst }.finish()
    }

    /// The smallest or largest of three.
    pub(super) fn vimnmx3(&mut self, signed: bool, max: bool, a: Operand, b: Operand, c: Operand) -> Operand {
        // A constant stands second.
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        let (b, c) = if soft(&c) && !soft(&b) { (c, b) } else { (b, c) };
        let p = if max { TRUE.inverted() } else { TRUE };
        self.shape3(VIMNMX3, Fold::Int, a, b, c).with_mod(M::Type, signed as u8).with(S::Pp, p).finish()
    }

    pub(super) fn sgxt(&mut self, signed: bool, a: Operand, bits: Operand) -> Operand {
        self.shape2(SGXT, Fold::Int, a, bits).with_mod(M::Sign, signed as u8).finish()
    }

    pub(super) fn unary(&mut self, form: FormId, a: Operand) -> Operand {
        let a = self.gpr(a);
        self.begin(form).with(S::Rb, a).finish()
    }

    pub(super) fn flo(&mut self, signed: bool, shift: bool, a: Operand) -> Operand {
        let a = self.gpr(a);
        let inst = self.begin(F::FLO_R).with(S::Rb, a).with_mod(M::Sign, signed as u8);
        inst.with_mod(M::Sh, shift as u8).finish()
    }

    pub(super) fn idp4a(&mut self, sub: u8, a: Operand, b: Operand, c: Operand) -> Operand {
        let (a, b, c) = (self.gpr(a), self.gpr(b), self.gpr(c));
        let inst = self.begin(F::IDP_4A_RRR).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c);
        inst.with_mod(M::TypeA, sub & 1).with_mod(M::TypeB, sub >> 1 & 1).finish()
    }

    pub(super) fn idp2a(&mut self, sub: u8, a: Operand, b: Operand, c: Operand) -> Operand {
        let (a, b, c) = (self.gpr(a), self.gpr(b), self.gpr(c));
        let inst = self.begin(F::IDP_2A_RRR).with(S::Ra, a).with(S::Rb, b).with(S::Rc, c);
        let inst = inst.with_mod(M::TypeA, sub & 1).with_mod(M::TypeB, sub >> 1 & 1);
        inst.with_mod(M::Half, sub >> 2 & 1).finish()
    }

    /// b if the predicate is false, else a.
    pub(super) fn sel(&mut self, a: Operand, b: Operand, p: Operand) -> Operand {
        let (a, b, p) = if matches!(a.value, V::Imm(_)) && !matches!(b.value, V::Imm(_)) {
            (b, a, p.inverted())
        } else {
            (a, b, p)
        };
        self.shape2(SEL, Fold::Int, a, b).with(S::Pp, p).finish()
    }

    // ---- predicates -----------------------------------------------------------------------------------------------

    /// (a cmp b) combined with `p` by `bool_op`.
    pub(super) fn isetp(&mut self, cmp: Cmp, signed: bool, bool_op: u8, a: Operand, b: Operand, p: Operand) -> Operand {
        let (a, b, cmp) = if soft(&a) || a == ZERO { (b, a, swap(cmp)) } else { (a, b, cmp) };
        self.shape2(ISETP, Fold::Int, a, b)
            .with_mod(M::Cmp, icmp(cmp))
            .with_mod(M::Sign, signed as u8)
            .with_mod(M::Bool, bool_op)
            .with(S::Pp, p)
            .finish_pred()
    }

    /// 64-bit comparison, in two steps.
    pub(super) fn isetp64(
        &mut self,
        cmp: Cmp,
        signed: bool,
        bool_op: u8,
        a: (Operand, Operand),
        b: (Operand, Operand),
        p: Operand,
    ) -> Operand {
        if a.0 == b.0 {
            return self.isetp(cmp, signed, bool_op, a.1, b.1, p);
        }
        let low = self.isetp(cmp, false, enums::bop::AND, a.0, b.0, TRUE);
        let (x, y) = (self.gpr(a.1), b.1);
        self.shape2(ISETPX, Fold::Int, x, y)
            .with_mod(M::Cmp, icmp(cmp))
            .with_mod(M::Sign, signed as u8)
            .with_mod(M::Bool, bool_op)
            .with(S::Pp, p)
            .with(S::Pr, low)
            .finish_pred()
    }

    pub(super) fn fsetp(&mut self, cmp: Cmp, ftz: bool, bool_op: u8, a: Operand, b: Operand, p: Operand) -> Operand {
        let (a, b, cmp) = if soft(&a) { (b, a, swap(cmp)) } else { (a, b, cmp) };
        self.shape2(FSETP, Fold::Float, a, b)
            .with_mod(M::Cmp, fcmp(cmp))
            .with_mod(M::Ftz, ftz as u8)
            .with_mod(M::Bool, bool_op)
            .with(S::Pp, p)
            .finish_pred()
    }

    /// True where the quick steps of a / b are not good enough.
    pub(super) fn fchk(&mut self, a: Operand, b: Operand) -> Operand {
        let (a, b) = (self.gpr(fold(a, Fold::Float)), self.gpr(fold(b, Fold::Float)));
        self.begin(F::FCHK_RR).with(S::Ra, a).with(S::Rb, b).finish_pred()
    }

    pub(super) fn dsetp(&mut self, cmp: Cmp, bool_op: u8, a: Operand, b: Operand, p: Operand) -> Operand {
        let a = self.dreg(a);
        self.shape2(DSETP, Fold::Float, a, b)
            .with_mod(M::Cmp, fcmp(cmp))
            .with_mod(M::Bool, bool_op)
            .with(S::Pp, p)
            .finish_pred()
    }

    pub(super) fn hsetp2(&mut self, bf16: bool, cmp: Cmp, ftz: bool, a: Operand, b: Operand, p: Operand) -> Operand {
        let h = HalfOp { bf16, single: true, ftz, sat: false, sub: 0 };
        let a = self.gpr(a);
        let inst = match b.value {
            V::Imm(_) => self.begin(HSETP2.ri).with(S::Ra, a).with(S::Rb, h.constant(fold(b, Fold::Half))),
            _ => {
                let b = self.gpr(b);
                self.begin(HSETP2.rr).with(S::Ra, a).with(S::Rb, b).with_mod(M::HalfB, enums::hswz::H0_H0)
            }
        };
        h.set(inst, M::Ftz).with_mod(M::Cmp, fcmp(cmp)).with(S::Pp, p).finish_pred()
    }

    /// Any function of three predicates.
    pub(super) fn plop3(&mut self, lut: u8, a: Operand, b: Operand, c: Operand) -> Operand {
        let inst = self.begin(F::PLOP3).with(S::Pp, a).with(S::Pq, b).with(S::Pr, c);
        inst.with(S::Lut, Operand::imm(lut as i64)).finish_pred()
    }

    // ---- float ----------------------------------------------------------------------------------------------------

    pub(super) fn fadd(&mut self, a: Operand, b: Operand, fl: Flags) -> Operand {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        self.shape2(FADD, Fold::Float, a, b)
            .with_mod(M::Rnd, rnd_code(fl.rnd))
            .with_mod(M::Ftz, fl.ftz as u8)
            .with_mod(M::Sat, fl.sat as u8)
            .finish()
    }

    pub(super) fn fmul(&mut self, a: Operand, b: Operand, fl: Flags) -> Operand {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        self.shape2(FMUL, Fold::Float, a, b)
            .with_mod(M::Rnd, rnd_code(fl.rnd))
            .with_mod(M::Fz, fl.ftz as u8)
            .with_mod(M::Sat, fl.sat as u8)
            .finish()
    }

    pub(super) fn ffma(&mut self, a: Operand, b: Operand, c: Operand, fl: Flags) -> Operand {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        self.shape3(FFMA, Fold::Float, a, b, c)
            .with_mod(M::Rnd, rnd_code(fl.rnd))
            .with_mod(M::Fz, fl.ftz as u8)
            .with_mod(M::Sat, fl.sat as u8)
            .finish()
    }

    /// `sub` as of the operation: bit 0 NaN wins, bit 1 magnitudes with the product of the signs.
    pub(super) fn fmnmx(&mut self, max: bool, sub: u8, ftz: bool, a: Operand, b: Operand) -> Operand {
        let xorsign = sub >> 1 & 1;
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        let p = if max { TRUE.inverted() } else { TRUE };
        let (a, b) = if xorsign != 0 { (magnitude(self.gpr(a)), magnitude(self.gpr(b))) } else { (a, b) };
        self.shape2(FMNMX, Fold::Float, a, b)
            .with_mod(M::Xorsign, xorsign)
            .with_mod(M::Nan, sub & 1)
            .with_mod(M::Ftz, ftz as u8)
            .with(S::Pp, p)
            .finish()
    }

    pub(super) fn mufu(&mut self, func: u8, a: Operand) -> Operand {
        let a = self.gpr(fold(a, Fold::Float));
        self.begin(F::MUFU_R).with(S::Rb, a).with_mod(M::Func, func).finish()
    }

    // ---- double ---------------------------------------------------------------------------------------------------

    /// A double operand that must be a register pair: an immediate high word is made one.
    pub(super) fn dreg(&mut self, o: Operand) -> Operand {
        let V::Imm(_) = o.value else { return o };
        let V::Imm(bits) = fold(o, Fold::Float).value else { return o };
        let bits = bits.get();
        let (r, d) = self.new_pair();
        self.mov_imm(r.lo, 0);
        if let Some(h) = r.hi {
            self.mov_imm(h, bits as u32);
        }
        d
    }

    pub(super) fn dadd(&mut self, a: Operand, b: Operand, rnd: Rnd) -> Regs {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        let a = self.dreg(a);
        self.shape2(DADD, Fold::Float, a, b).with_mod(M::Rnd, rnd_code(rnd)).finish_pair()
    }

    pub(super) fn dmul(&mut self, a: Operand, b: Operand, rnd: Rnd) -> Regs {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        let a = self.dreg(a);
        self.shape2(DMUL, Fold::Float, a, b).with_mod(M::Rnd, rnd_code(rnd)).finish_pair()
    }

    pub(super) fn dfma(&mut self, a: Operand, b: Operand, c: Operand, rnd: Rnd) -> Regs {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        let a = self.dreg(a);
        let c = if matches!(b.value, V::Imm(_)) { self.dreg(c) } else { c };
        self.shape3(DFMA, Fold::Float, a, b, c).with_mod(M::Rnd, rnd_code(rnd)).finish_pair()
    }

    // ---- half -----------------------------------------------------------------------------------------------------

    /// A sum, product, least or greatest: a constant stands in the instruction. `ftz`: the modifier that flushes.
    fn half2(&mut self, sh: Shapes2, h: HalfOp, a: Operand, b: Operand, ftz: M) -> New<'_, 'a> {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        let (a, b) = (self.gpr(fold(a, Fold::Half)), fold(b, Fold::Half));
        if matches!(b.value, V::Imm(_)) {
            return h.set(self.begin(sh.ri).with(S::Ra, a).with(S::Rb, h.constant(b)), ftz);
        }
        let b = self.gpr(b);
        let halves = h.single || sh.rr == HADD2.rr && b.as_reg() == Some(Reg::RZ);
        let inst = h.set(self.begin(sh.rr).with(S::Ra, a).with(S::Rb, b), ftz);
        if halves { inst.with_mod(M::HalfB, enums::hswz::H0_H0) } else { inst }
    }

    pub(super) fn hadd2(&mut self, h: HalfOp, a: Operand, b: Operand) -> Operand {
        // Negations and magnitudes of bf16 where nothing adds them: -0 * 0 + a.
        if h.bf16 && b == ZERO.negated() && !arch::units(self.layout.sm).adds_bf16 {
            return self.hfma2(h, b, ZERO, a);
        }
        self.half2(HADD2, h, a, b, M::Ftz).finish()
    }

    pub(super) fn hmul2(&mut self, h: HalfOp, a: Operand, b: Operand) -> Operand {
        self.half2(HMUL2, h, a, b, M::Fz).finish()
    }

    pub(super) fn hfma2(&mut self, h: HalfOp, a: Operand, b: Operand, c: Operand) -> Operand {
        let (a, b) = if soft(&a) { (b, a) } else { (a, b) };
        let (a, b, c) = (self.gpr(fold(a, Fold::Half)), fold(b, Fold::Half), fold(c, Fold::Half));
        let sh = if h.sub & 2 != 0 { HFMA2_RELU } else { HFMA2 };
        let constant = |o: &Operand| matches!(o.value, V::Imm(_));
        let (b, c) = (if uniform(&b) { self.gpr(b) } else { b }, if uniform(&c) { self.gpr(c) } else { c });
        let c = if constant(&b) { self.gpr(c) } else { c };
        let form = match sh.rri {
            _ if constant(&b) => sh.rir,
            Some(rri) if constant(&c) => rri,
            _ => sh.rrr,
        };
        let registers = [(M::HalfB, !constant(&b)), (M::HalfC, !constant(&c))];
        let operands = self.begin(form).with(S::Ra, a).with(S::Rb, h.constant(b)).with(S::Rc, h.constant(c));
        let mut inst = h.set(operands, M::Fz);
        if h.sub & 4 != 0 {
            inst = inst.with_mod(M::Fz, enums::hfz::OOB);
        }
        for (half, _) in registers.into_iter().filter(|&(_, register)| h.single && register) {
            inst = inst.with_mod(half, enums::hswz::H0_H0);
        }
        inst.finish()
    }

    pub(super) fn hmnmx2(&mut self, h: HalfOp, max: bool, a: Operand, b: Operand) -> Operand {
        let xorsign = h.sub >> 1 & 1;
        // The sign of a constant counts: its magnitude is taken in the instruction. Before sm_89 constants lie in registers: the simulator
        // does not know the other form there.
        let (a, b) = if xorsign != 0 || self.layout.sm < 89 {
            let (a, b) = (self.gpr(fold(a, Fold::Half)), self.gpr(fold(b, Fold::Half)));
            if xorsign != 0 { (magnitude(a), magnitude(b)) } else { (a, b) }
        } else {
            (a, b)
        };
        let p = if max { TRUE.inverted() } else { TRUE };
        let inst = self.half2(HMNMX2, h, a, b, M::Ftz);
        inst.with_mod(M::Nan, h.sub & 1).with_mod(M::Xorsign, xorsign).with(S::Pp, p).finish()
    }
}

/// Rounding, flushing and saturation of a 32-bit float operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flags {
    /// Rounding.
    pub rnd: Rnd,
    /// Flush denormals.
    pub ftz: bool,
    /// Clamp to [0, 1].
    pub sat: bool,
}

/// What a half operation works on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HalfOp {
    /// bfloat16 instead of half.
    pub bf16: bool,
    /// One half (the lower), not two.
    pub single: bool,
    /// Flush denormals.
    pub ftz: bool,
    /// Clamp to [0, 1].
    pub sat: bool,
    /// What the operation's line says.
    pub sub: u8,
}

/// The operand that `.xorsign.abs` takes: its magnitude, with the signs as they are going into the result.
fn magnitude(o: Operand) -> Operand {
    Operand { abs: true, ..o }
}

impl HalfOp {
    fn set<'s, 'a>(self, inst: New<'s, 'a>, ftz: M) -> New<'s, 'a> {
        let mut inst = inst.with_mod(M::Fmt, self.bf16 as u8).with_mod(ftz, self.ftz as u8);
        if self.sat {
            inst = inst.with_mod(M::Sat, 1);
        }
        if self.single {
            inst = inst.with_mod(M::HalfA, enums::hswz::H0_H0);
        }
        inst
    }

    /// A constant as an instruction holds it: one half is there twice.
    fn constant(self, o: Operand) -> Operand {
        let V::Imm(bits) = o.value else { return o };
        let bits = bits.get();
        if !self.single {
            return o;
        }
        let half = bits as u32 & 0xffff;
        Operand::imm((half << 16 | half) as i64)
    }
}

/// True for a uniform register.
fn uniform(o: &Operand) -> bool {
    o.as_reg().is_some_and(|r| r.file() == File::Ugpr)
}

/// True for what cannot stand in A: immediates and uniform registers.
fn soft(o: &Operand) -> bool {
    matches!(o.value, V::Imm(_)) || uniform(o)
}

/// Puts the immediate or uniform register (if any) into B and a register into A.
fn order_add(a: Operand, b: Operand, c: Operand) -> (Operand, Operand, Operand) {
    let imm = soft;
    if imm(&a) {
        (b, a, c)
    } else if imm(&c) {
        (a, c, b)
    } else {
        (a, b, c)
    }
}

fn icmp(c: Cmp) -> u8 {
    match c {
        Cmp::Lt => enums::icmp::LT,
        Cmp::Le => enums::icmp::LE,
        Cmp::Gt => enums::icmp::GT,
        Cmp::Ge => enums::icmp::GE,
        Cmp::Ne => enums::icmp::NE,
        _ => enums::icmp::EQ,
    }
}

pub(super) fn fcmp(c: Cmp) -> u8 {
    use enums::fcmp as f;
    match c {
        Cmp::Eq => f::EQ,
        Cmp::Ne => f::NE,
        Cmp::Lt => f::LT,
        Cmp::Le => f::LE,
        Cmp::Gt => f::GT,
        Cmp::Ge => f::GE,
        Cmp::Equ => f::EQU,
        Cmp::Neu => f::NEU,
        Cmp::Ltu => f::LTU,
        Cmp::Leu => f::LEU,
        Cmp::Gtu => f::GTU,
        Cmp::Geu => f::GEU,
        Cmp::Num => f::NUM,
        Cmp::Nan => f::NAN,
    }
}

/// What AND, OR, XOR of two operands is, where one of them is RZ or has all bits set, as the upper word of `-4` has, or both are constants.
fn logic_of_known(lut: u8, a: Operand, b: Operand) -> Option<Operand> {
    let bits = |o: &Operand| match o.value {
        V::Imm(n) if !o.inv && !o.neg => Some(n.get() as u32),
        _ if *o == ZERO => Some(0),
        _ => None,
    };
    let plain = |o: &Operand| matches!(o.value, V::Reg(r) if r.file() == File::Gpr) && !o.inv && !o.neg && !o.abs;
    if let (Some(x), Some(y)) = (bits(&a), bits(&b)) {
        let value = match lut {
            0xc0 => x & y,
            0xfc => x | y,
            0x3c => x ^ y,
            _ => return None,
        };
        return Some(super::operand::immediate(value));
    }
    let all = |o: &Operand| bits(o) == Some(u32::MAX);
    match lut {
        0xc0 if all(&b) && plain(&a) => Some(a),
        0xc0 if all(&a) && plain(&b) => Some(b),
        0xfc if all(&a) || all(&b) => Some(super::operand::immediate(u32::MAX)),
        0xc0 if a == ZERO || b == ZERO => Some(ZERO),
        0xfc | 0x3c if b == ZERO && plain(&a) => Some(a),
        0xfc | 0x3c if a == ZERO && plain(&b) => Some(b),
        _ => None,
    }
}
