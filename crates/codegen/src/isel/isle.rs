//! What the rules call: the bridge between the generated decision tree and [`Sel`].

use super::asm::{Flags, HalfOp};
use super::operand::{TRUE, ZERO, immediate};
use super::{Regs, Sel};
use crate::ir::{Attr, Cmp, Fmt, InstId, MemSpace, Op, Rnd, Ty, Value};
use crate::link::{self, Symbol};
use crate::lower::narrow::{RELU, SATFINITE};
use crate::mir::Vreg;
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value as V};
use sass::reg::{File, Reg};

/// A machine operand.
pub type Opn = Operand;
/// Stands where an operation has fewer arguments than a rule names.
const NO_VALUE: Value = Value(u32::MAX);

/// Two operands made together.
pub type Two = (Operand, Operand);

#[allow(dead_code, unreachable_code, unreachable_patterns, unused_imports, unused_variables, unused_mut)]
#[allow(clippy::all, missing_docs, irrefutable_let_patterns, non_snake_case, non_camel_case_types)]
mod generated {
    extern crate alloc;
    use super::*;
    include!(concat!(env!("OUT_DIR"), "/isle.rs"));
}
pub use generated::constructor_select;

impl Sel<'_> {
    fn vreg_of(&self, o: Operand) -> Option<Vreg> {
        match o.value {
            V::Reg(r) if r.is_virtual() && !o.neg && !o.abs && !o.inv => Some(Vreg(r.index())),
            _ => None,
        }
    }

    /// A product that was made before the loop at hand, of two numbers that all threads have alike: what would swallow it could read only one
    /// of them from a uniform register. Or one of numbers that nothing else reads: they would both live through the loop in its place.
    fn stays_outside(&self, id: InstId) -> bool {
        let inst = self.f.inst(id);
        let before = || self.place.get(id.0 as usize).is_some_and(|&b| self.depth[b as usize] < self.depth[self.block]);
        let all = |is: &dyn Fn(usize) -> bool| inst.args.iter().all(|a| self.constant(*a).is_none() && is(a.index()));
        inst.op == Op::IMul && before() && (all(&|a| self.conv.uniform[a]) || all(&|a| self.uses[a] == 1))
    }

    /// An operand as a result: a register that this instruction defines, or a copy.
    fn as_result(&mut self, o: Operand) -> Vreg {
        match self.vreg_of(o) {
            Some(v) => v,
            None => {
                let o = self.move_to_new(o);
                self.vreg_of(o).unwrap_or(Vreg(0))
            }
        }
    }

    /// A new register with the operand's value.
    fn move_to_new(&mut self, o: Operand) -> Operand {
        let v = self.m.new_vreg(File::Gpr);
        let d = self.m.reg(v);
        match o.value {
            V::Imm(bits) => self.mov_imm(v, bits.get() as u32),
            V::Reg(r) if r == Reg::RZ => self.mov_imm(v, 0),
            V::Reg(r) => self.push_op(crate::mir::Op::Copy(vec![(d, r)])),
            _ => self.push(Sass::new(F::MOV_R).with(S::Rd, d)),
        }
        Operand::reg(d)
    }
}

impl generated::Context for Sel<'_> {
    fn op_of(&mut self, id: InstId) -> (Op, Ty, Value, Value, Value, Value) {
        let inst = self.f.inst(id);
        let ty = inst.results.first().map_or(Ty::P, |&r| self.f.ty(r));
        let arg = |n: usize| inst.args.get(n).copied().unwrap_or(NO_VALUE);
        (inst.op, ty, arg(0), arg(1), arg(2), arg(3))
    }
    fn vty(&mut self, v: Value) -> Ty {
        if v == NO_VALUE { Ty::P } else { self.f.ty(v) }
    }
    fn single(&mut self, v: Value) -> Option<InstId> {
        if self.uses[v.index()] != 1 || self.regs[v.index()].is_some() {
            return None;
        }
        self.def(v).filter(|&i| !self.stays_outside(i))
    }
    fn def(&mut self, v: Value) -> Option<InstId> {
        match self.f.def(v) {
            crate::ir::Def::Inst(i, 0) => Some(i),
            _ => None,
        }
    }
    fn k(&mut self, v: Value) -> Option<u64> {
        self.constant(v)
    }
    fn kzx(&mut self, v: Value) -> Option<u32> {
        self.constant(v).and_then(|c| u32::try_from(c).ok())
    }
    fn ksx(&mut self, v: Value) -> Option<u32> {
        self.constant(v).and_then(|c| i32::try_from(c as i64).ok()).map(|c| c as u32)
    }
    fn wide_mul(&mut self, v: Value) -> Option<(bool, Value, Value)> {
        let product = self.f.def_inst(v).filter(|d| d.op == Op::IMul && self.f.ty(v) == Ty::B64)?;
        let (a, b) = (product.args[0], product.args[1]);
        let word = |v: Value, op: Op| {
            self.f.def_inst(v).filter(|d| d.op == op && self.f.ty(d.args[0]) == Ty::B32).map(|d| d.args[0])
        };
        let factors = |op: Op, fits: bool| {
            let a = word(a, op)?;
            if fits { Some(b) } else { word(b, op) }.map(|b| (op == Op::Sext, a, b))
        };
        let (signed, unsigned) = (self.ksx(b).is_some(), self.kzx(b).is_some());
        factors(Op::Sext, signed).or_else(|| factors(Op::Zext, unsigned))
    }
    fn k16(&mut self, v: Value) -> Option<u8> {
        self.constant(v).filter(|c| (1..=16).contains(c)).map(|c| c as u8)
    }
    fn khalf(&mut self, v: Value) -> Option<u32> {
        self.constant(v).filter(|&c| c < 1 << 16).map(|c| c as u32)
    }
    fn k32(&mut self, v: Value) -> Option<u8> {
        self.constant(v).filter(|&c| c < 32).map(|c| c as u8)
    }
    fn k64(&mut self, v: Value) -> Option<u8> {
        self.constant(v).filter(|&c| (32..64).contains(&c)).map(|c| (c - 32) as u8)
    }
    fn attr(&mut self, id: InstId) -> Attr {
        self.f.inst(id).attr
    }
    fn imm_of(&mut self, id: InstId) -> u64 {
        self.f.inst(id).imm as u64
    }
    fn bit(&mut self, id: InstId) -> bool {
        self.f.inst(id).imm & 1 != 0
    }
    fn low_bits(&mut self, id: InstId) -> u32 {
        self.f.inst(id).imm as u32
    }
    fn high_bits(&mut self, id: InstId) -> u32 {
        (self.f.inst(id).imm >> 32) as u32
    }
    fn is_ne(&mut self, a: Attr) -> bool {
        a.cmp == Cmp::Ne
    }
    fn byte_field(&mut self, signed: bool, at: u8, bits: u8) -> Option<u32> {
        bytes(signed, at.into(), bits.into())
    }
    fn packing(&mut self, lo: InstId, hi: InstId) -> Option<Attr> {
        let (a, b) = (self.f.inst(lo).attr, self.f.inst(hi).attr);
        let fmt = match a.fmt {
            Fmt::F16 => Fmt::F16x2,
            Fmt::BF16 => Fmt::BF16x2,
            _ => return None,
        };
        let plain = a == b && a.rnd == Rnd::Rn && a.fmt2 == Fmt::F32;
        (plain && self.has(F::F2FP_PACK_RR)).then_some(Attr { fmt, ..a })
    }
    fn has_three(&mut self, a: Attr, b: Attr) -> Option<bool> {
        (a.signed == b.signed && self.has(F::VIMNMX3_RRR)).then_some(true)
    }
    fn lop3_test(&mut self, lut: u8, a: Opn, b: Opn, c: Opn, op: u8, p: Opn) -> Opn {
        Sel::lop3_test(self, lut, a, b, c, op, p)
    }
    fn minmax3(&mut self, signed: bool, max: bool, a: Opn, b: Opn, c: Opn) -> Opn {
        Sel::vimnmx3(self, signed, max, a, b, c)
    }
    fn add_carry(&mut self, a: Opn, p: Opn) -> Opn {
        Sel::iaddx(self, a, ZERO, p, false).0
    }
    fn signed_bit(&mut self, a: Attr) -> bool {
        a.signed
    }
    fn sub_of(&mut self, a: Attr) -> u8 {
        a.sub
    }
    fn has_sub(&mut self, a: Attr) -> u8 {
        a.sub
    }
    fn fmt_of(&mut self, a: Attr) -> Fmt {
        a.fmt
    }
    fn fmt2_of(&mut self, a: Attr) -> Fmt {
        a.fmt2
    }
    fn cmp_of(&mut self, a: Attr) -> Cmp {
        a.cmp
    }
    fn rnd_of(&mut self, a: Attr) -> Rnd {
        a.rnd
    }
    fn flags_of(&mut self, a: Attr) -> Flags {
        Flags { rnd: a.rnd, ftz: a.ftz, sat: a.sat }
    }
    fn ftz_of(&mut self, a: Attr) -> bool {
        a.ftz
    }
    fn half_of(&mut self, a: Attr) -> HalfOp {
        HalfOp {
            bf16: matches!(a.fmt, Fmt::BF16 | Fmt::BF16x2),
            single: matches!(a.fmt, Fmt::F16 | Fmt::BF16),
            ftz: a.ftz,
            sat: a.sat,
            sub: a.sub,
        }
    }
    fn half_sat(&mut self, a: Attr) -> HalfOp {
        HalfOp { sat: true, ..self.half_of(a) }
    }
    fn shift_amount(&mut self, a: Attr) -> bool {
        a.sub & 1 != 0
    }
    fn saturating(&mut self, a: Attr) -> Flags {
        Flags { rnd: Rnd::Rn, ftz: a.ftz, sat: true }
    }
    fn plain_single(&mut self) -> Attr {
        Attr { fmt: Fmt::F32, ..Attr::default() }
    }
    fn cmp_lt(&mut self) -> Cmp {
        Cmp::Lt
    }
    fn cmp_gt(&mut self) -> Cmp {
        Cmp::Gt
    }

    // ---- operands ---------------------------------------------------------------------------------------------------
    fn lo(&mut self, v: Value) -> Opn {
        Sel::lo(self, v)
    }
    fn hi(&mut self, v: Value) -> Opn {
        Sel::hi(self, v)
    }
    fn pair(&mut self, v: Value) -> Opn {
        Sel::pair(self, v)
    }
    fn pred(&mut self, v: Value) -> Opn {
        Sel::pred(self, v)
    }
    fn fsrc_of(&mut self, a: Attr, v: Value) -> Opn {
        Sel::fsrc(self, v, a.fmt, a.ftz)
    }
    fn msrc_of(&mut self, a: Attr, v: Value) -> Opn {
        // `.xorsign.abs` looks at the sign, which a folded negation or magnitude would hide.
        if a.sub & 2 != 0 { Sel::lo(self, v) } else { Sel::fsrc(self, v, a.fmt, a.ftz) }
    }
    fn osrc_of(&mut self, a: Attr, v: Value) -> Opn {
        // `.oob` looks at all bits, which a folded negation or magnitude would hide.
        if a.sub & 4 != 0 { Sel::lo(self, v) } else { Sel::fsrc(self, v, a.fmt, a.ftz) }
    }
    fn dsrc(&mut self, v: Value) -> Opn {
        Sel::dsrc(self, v)
    }
    fn zero(&mut self) -> Opn {
        ZERO
    }
    fn pt(&mut self) -> Opn {
        TRUE
    }
    fn pf(&mut self) -> Opn {
        TRUE.inverted()
    }
    fn int(&mut self, bits: u32) -> Opn {
        immediate(bits)
    }
    fn amount(&mut self, bits: u8) -> Opn {
        immediate(bits as u32)
    }
    fn neg(&mut self, o: Opn) -> Opn {
        o.negated()
    }
    fn inv(&mut self, o: Opn) -> Opn {
        o.inverted()
    }
    fn fabs(&mut self, o: Opn) -> Opn {
        Operand { abs: true, neg: false, ..o }
    }
    fn zx16(&mut self, v: Value) -> Opn {
        match self.constant(v) {
            Some(c) => immediate(c as u16 as u32),
            None if self.upper_half_is_zero(v) => Sel::lo(self, v),
            None => {
                let a = Sel::lo(self, v);
                Sel::lop3(self, 0xc0, a, Operand::imm(0xffff), ZERO)
            }
        }
    }
    fn sx16(&mut self, v: Value) -> Opn {
        match self.constant(v) {
            Some(c) => immediate(c as u16 as i16 as i32 as u32),
            None if self.extends_half(v) => Sel::lo(self, v),
            None => {
                let a = Sel::lo(self, v);
                Sel::prmt(self, 0, a, Operand::imm(0x9910), ZERO)
            }
        }
    }
    fn ext16(&mut self, signed: bool, v: Value) -> Opn {
        if signed { self.sx16(v) } else { self.zx16(v) }
    }

    // ---- results ----------------------------------------------------------------------------------------------------
    fn r1(&mut self, o: Opn) -> Regs {
        Regs { lo: self.as_result(o), hi: None }
    }
    fn r2(&mut self, lo: Opn, hi: Opn) -> Regs {
        let lo = self.as_result(lo);
        Regs { lo, hi: Some(self.as_result(hi)) }
    }
    fn rlo(&mut self, r: Regs) -> Opn {
        Operand::reg(self.m.reg(r.lo))
    }
    fn rhi(&mut self, r: Regs) -> Opn {
        r.hi.map_or(ZERO, |h| Operand::reg(self.m.reg(h)))
    }
    fn rpair(&mut self, r: Regs) -> Opn {
        Operand::reg(self.m.vector(&[r.lo, r.hi.unwrap_or(r.lo)]))
    }
    fn fst(&mut self, t: Two) -> Opn {
        t.0
    }
    fn snd(&mut self, t: Two) -> Opn {
        t.1
    }

    // ---- machine code -----------------------------------------------------------------------------------------------
    fn mov(&mut self, o: Opn) -> Opn {
        self.move_to_new(o)
    }
    fn iadd3(&mut self, a: Opn, b: Opn, c: Opn) -> Opn {
        Sel::iadd3(self, a, b, c)
    }
    fn add64(&mut self, al: Opn, ah: Opn, bl: Opn, bh: Opn) -> Regs {
        let (lo, carry) = self.iadd_carry(al, bl);
        let (hi, _) = self.iaddx(ah, bh, carry, false);
        self.r2(lo, hi)
    }
    fn sub64(&mut self, al: Opn, ah: Opn, bl: Opn, bh: Opn) -> Regs {
        let (lo, carry) = self.isub_carry(al, bl);
        let (hi, _) = self.iaddx(ah, bh.inverted(), carry, false);
        self.r2(lo, hi)
    }
    fn imad(&mut self, a: Opn, b: Opn, c: Opn) -> Opn {
        Sel::imad(self, a, b, c)
    }
    fn imad_onto(&mut self, a: Opn, b: Opn, c: Opn) -> Opn {
        if a == ZERO || b == ZERO { c } else { Sel::imad(self, a, b, c) }
    }
    fn imad_hi(&mut self, signed: bool, a: Opn, b: Opn) -> Opn {
        Sel::imad_hi(self, signed, a, b)
    }
    fn imad_wide(&mut self, signed: bool, a: Opn, b: Opn, c: Opn) -> Regs {
        Sel::imad_wide(self, signed, a, b, c)
    }
    fn lop3(&mut self, lut: u8, a: Opn, b: Opn, c: Opn) -> Opn {
        Sel::lop3(self, lut, a, b, c)
    }
    fn prmt(&mut self, mode: u8, a: Opn, sel: Opn, b: Opn) -> Opn {
        Sel::prmt(self, mode, a, sel, b)
    }
    fn shl(&mut self, a: Opn, n: Opn) -> Opn {
        if n == ZERO {
            return self.move_to_new(a);
        }
        Sel::shf(self, false, false, enums::shftype::U32, false, a, n, ZERO)
    }
    fn shr(&mut self, signed: bool, a: Opn, n: Opn) -> Opn {
        if n == ZERO {
            return self.move_to_new(a);
        }
        let ty = if signed { enums::shftype::S32 } else { enums::shftype::U32 };
        Sel::shf(self, true, false, ty, true, ZERO, n, a)
    }
    fn shl64(&mut self, lo: Opn, hi: Opn, n: Opn) -> Regs {
        let h = Sel::shf(self, false, false, enums::shftype::U64, true, lo, n, hi);
        let l = self.shl(lo, n);
        self.r2(l, h)
    }
    fn shr64(&mut self, signed: bool, lo: Opn, hi: Opn, n: Opn) -> Regs {
        let ty = if signed { enums::shftype::S64 } else { enums::shftype::U64 };
        let l = Sel::shf(self, true, false, ty, false, lo, n, hi);
        let h = self.shr(signed, hi, n);
        self.r2(l, h)
    }
    fn funnel(&mut self, mode: u8, lo: Opn, hi: Opn, n: Opn) -> Opn {
        // PTX: {b, a} shifted by c; left takes the upper word, right the lower one.
        let (right, wrap) = (mode >= 2, mode & 1 == 0);
        Sel::shf(self, right, wrap, enums::shftype::U32, !right, lo, n, hi)
    }
    fn to_the_left(&mut self, shift: Attr, n: u8) -> Option<u8> {
        // Nothing and everything is no shift to fold; to the right by some is to the left by what they leave of a word.
        let n = Some(n).filter(|n| (1..32).contains(n))?;
        Some(if shift.sub >= 2 { 32 - n } else { n })
    }
    fn lea_hi(&mut self, low: Opn, high: Opn, b: Opn, shift: u8) -> Opn {
        Sel::lea_hi(self, low, high, b, shift)
    }
    fn lea(&mut self, a: Opn, b: Opn, shift: u8) -> Opn {
        Sel::lea(self, a, b, shift)
    }
    fn lea64(&mut self, al: Opn, ah: Opn, bl: Opn, bh: Opn, shift: u8) -> Regs {
        Sel::lea64(self, al, Some(ah), bl, bh, shift)
    }
    fn add64_sx(&mut self, a: Opn, bl: Opn, bh: Opn) -> Regs {
        let (lo, carry) = self.iadd_carry(a, bl);
        let hi = self.carry_onto_signed(a, bh, carry);
        self.r2(lo, hi)
    }
    fn lea64_sx(&mut self, a: Opn, bl: Opn, bh: Opn, shift: u8) -> Regs {
        Sel::lea64(self, a, None, bl, bh, shift)
    }
    fn minmax(&mut self, signed: bool, max: bool, a: Opn, b: Opn) -> Opn {
        self.vimnmx(signed, max, false, a, b)
    }
    fn minmax_relu(&mut self, max: bool, a: Opn, b: Opn) -> Opn {
        self.vimnmx(true, max, true, a, b)
    }
    fn sgxt(&mut self, signed: bool, a: Opn, n: Opn) -> Opn {
        Sel::sgxt(self, signed, a, n)
    }
    fn sel(&mut self, a: Opn, b: Opn, p: Opn) -> Opn {
        Sel::sel(self, a, b, p)
    }
    fn isetp(&mut self, c: Cmp, signed: bool, op: u8, a: Opn, b: Opn, p: Opn) -> Opn {
        Sel::isetp(self, c, signed, op, a, b, p)
    }
    fn isetp64_of(&mut self, c: Cmp, signed: bool, op: u8, a: Value, b: Value, p: Opn) -> Opn {
        // Where the low word of the bound cannot decide.
        let edge = match c {
            Cmp::Lt | Cmp::Ge => Some(0),
            Cmp::Le | Cmp::Gt => Some(u32::MAX),
            _ => None,
        };
        if let Some(k) = self.constant(b)
            && edge == Some(k as u32)
        {
            let hi = Sel::hi(self, a);
            return Sel::isetp(self, c, signed, op, hi, immediate((k >> 32) as u32), p);
        }
        let a = (Sel::lo(self, a), Sel::hi(self, a));
        let b = (Sel::lo(self, b), Sel::hi(self, b));
        Sel::isetp64(self, c, signed, op, a, b, p)
    }
    fn plop3(&mut self, lut: u8, a: Opn, b: Opn, c: Opn) -> Opn {
        Sel::plop3(self, lut, a, b, c)
    }
    fn set_predicate(&mut self, value: bool) -> Opn {
        Sel::plop3(self, if value { 0xff } else { 0 }, TRUE, TRUE, TRUE)
    }
    fn popc(&mut self, a: Opn) -> Opn {
        self.unary(F::POPC_R, a)
    }
    fn brev(&mut self, a: Opn) -> Opn {
        self.unary(F::BREV_R, a)
    }
    fn iabs(&mut self, a: Opn) -> Opn {
        self.unary(F::IABS_R, a)
    }
    fn flo(&mut self, signed: bool, shift: bool, a: Opn) -> Opn {
        Sel::flo(self, signed, shift, a)
    }
    fn idp4a(&mut self, sub: u8, a: Opn, b: Opn, c: Opn) -> Opn {
        Sel::idp4a(self, sub, a, b, c)
    }
    fn idp2a(&mut self, sub: u8, a: Opn, b: Opn, c: Opn) -> Opn {
        Sel::idp2a(self, sub, a, b, c)
    }
    fn fadd(&mut self, a: Opn, b: Opn, f: Flags) -> Opn {
        Sel::fadd(self, a, b, f)
    }
    fn fmul(&mut self, a: Opn, b: Opn, f: Flags) -> Opn {
        Sel::fmul(self, a, b, f)
    }
    fn ffma(&mut self, a: Opn, b: Opn, c: Opn, f: Flags) -> Opn {
        Sel::ffma(self, a, b, c, f)
    }
    fn fmnmx(&mut self, max: bool, sub: u8, ftz: bool, a: Opn, b: Opn) -> Opn {
        Sel::fmnmx(self, max, sub, ftz, a, b)
    }
    fn fsetp(&mut self, c: Cmp, ftz: bool, op: u8, a: Opn, b: Opn, p: Opn) -> Opn {
        Sel::fsetp(self, c, ftz, op, a, b, p)
    }
    fn fchk(&mut self, a: Opn, b: Opn) -> Opn {
        Sel::fchk(self, a, b)
    }
    fn dsetp(&mut self, c: Cmp, op: u8, a: Opn, b: Opn, p: Opn) -> Opn {
        Sel::dsetp(self, c, op, a, b, p)
    }
    fn hsetp(&mut self, h: HalfOp, c: Cmp, a: Opn, b: Opn, p: Opn) -> Opn {
        self.hsetp2(h.bf16, c, h.ftz, a, b, p)
    }
    fn mufu_of(&mut self, op: &Op, a: Opn) -> Opn {
        Sel::mufu(self, mufu_function(*op), a)
    }
    fn mufu64h(&mut self, op: &Op, a: Opn) -> Opn {
        let func = if *op == Op::FRcp { enums::mufu::RCP64H } else { enums::mufu::RSQ64H };
        Sel::mufu(self, func, a)
    }
    fn dadd(&mut self, a: Opn, b: Opn, r: Rnd) -> Regs {
        Sel::dadd(self, a, b, r)
    }
    fn dmul(&mut self, a: Opn, b: Opn, r: Rnd) -> Regs {
        Sel::dmul(self, a, b, r)
    }
    fn dfma(&mut self, a: Opn, b: Opn, c: Opn, r: Rnd) -> Regs {
        Sel::dfma(self, a, b, c, r)
    }
    fn hadd2(&mut self, h: HalfOp, a: Opn, b: Opn) -> Opn {
        Sel::hadd2(self, h, a, b)
    }
    fn hmul2(&mut self, h: HalfOp, a: Opn, b: Opn) -> Opn {
        Sel::hmul2(self, h, a, b)
    }
    fn hfma2(&mut self, h: HalfOp, a: Opn, b: Opn, c: Opn) -> Opn {
        Sel::hfma2(self, h, a, b, c)
    }
    fn hmnmx2(&mut self, h: HalfOp, max: bool, a: Opn, b: Opn) -> Opn {
        Sel::hmnmx2(self, h, max, a, b)
    }
    fn convert(&mut self, id: InstId, v: Value) -> Regs {
        self.conversion(id, v)
    }
    fn cvt_pack(&mut self, a: Attr, hi: Opn, lo: Opn) -> Opn {
        let (hi, lo) = (self.gpr(hi), self.gpr(lo));
        let d = self.m.new_vreg(File::Gpr);
        let d = Operand::reg(self.m.reg(d));
        let inst = Sass::new(F::F2FP_PACK_RR)
            .with(S::Rd, d)
            .with(S::Ra, hi)
            .with(S::Rb, lo)
            .with_mod(M::Dst, matches!(a.fmt, Fmt::BF16x2) as u8)
            .with_mod(M::Rnd, if a.rnd == Rnd::Rz { enums::rnrz::RZ } else { 0 })
            .with_mod(M::Relu, a.sub & RELU)
            .with_mod(M::Satfinite, (a.sub & SATFINITE != 0) as u8);
        self.push(inst);
        d
    }
    fn half_to_float(&mut self, v: Value) -> Opn {
        // The upper half of a word is read where it is.
        let upper = self.f.def_inst(v).filter(|d| d.op == Op::Hi && self.f.ty(d.args[0]) == Ty::B32).map(|d| d.args[0]);
        let upper = upper.filter(|_| self.regs[v.index()].is_none());
        let half = if upper.is_some() { enums::hswz::H1_H1 } else { enums::hswz::H0_H0 };
        let a = Sel::lo(self, upper.unwrap_or(v));
        let a = self.gpr(a);
        let d = self.m.new_vreg(File::Gpr);
        let d = Operand::reg(self.m.reg(d));
        let inst = Sass::new(F::HADD2_F32_RR)
            .with(S::Rd, d)
            .with(S::Ra, ZERO.negated())
            .with(S::Rb, a)
            .with_mod(M::HalfB, half);
        self.push(inst);
        d
    }
    fn param(&mut self, id: InstId) -> Regs {
        self.parameter(id)
    }
    fn address(&mut self, id: InstId) -> Regs {
        let inst = self.f.inst(id);
        let imm = inst.imm;
        match inst.op {
            Op::GlobalAddr if self.layout.relocatable => {
                let symbol = Symbol::Variable(imm as u32);
                self.address_of(symbol, [link::ABS32_LO, link::ABS32_HI])
            }
            Op::FuncAddr => self.address_of(Symbol::Function(imm as u32), [link::FUNCTION_LO, link::FUNCTION_HI]),
            Op::GlobalAddr => {
                let slot = self.layout.slot[imm as usize];
                self.load_const(4, slot as i32 * 8, true)
            }
            Op::SharedAddr => self.shared_base(imm),
            Op::LocalAddr => {
                let at = imm + self.m.frame.outgoing as i64;
                let o = Sel::iadd3(self, Operand::reg(Reg::r(1)), immediate(at as u32), ZERO);
                self.r1(o)
            }
            Op::ConstAddr if self.layout.relocatable => {
                let n = self.m.refer(Symbol::Variable(imm as u32), link::ABS16, 0);
                let lo = self.m.new_vreg(File::Gpr);
                self.mov_operand(lo, link::immediate(n));
                Regs { lo, hi: None }
            }
            Op::ConstAddr => {
                let o = self.move_to_new(immediate(imm as u32));
                self.r1(o)
            }
            _ => match inst.mem.space {
                // Words of constant bank 0 on sm_90: generic bases of the local window and of bank 3.
                MemSpace::Local => self.load_const(0, self.bank0.local_window as i32, true),
                MemSpace::Param => self.param_window(),
                _ => self.load_const(0, self.bank0.const_window as i32, true),
            },
        }
    }
}

/// Rounding as every form of the conversion unit encodes it (floor, ceil and trunc where the result is integral).
pub(super) fn rnd_code(r: Rnd) -> u8 {
    match r {
        Rnd::Rn => 0,
        Rnd::Rm => 1,
        Rnd::Rp => 2,
        Rnd::Rz => 3,
    }
}

/// The function of the special unit for an operation.
pub(super) fn mufu_function(op: Op) -> u8 {
    match op {
        Op::FRcp => enums::mufu::RCP,
        Op::FSqrt => enums::mufu::SQRT,
        Op::FRsqrt => enums::mufu::RSQ,
        Op::FEx2 => enums::mufu::EX2,
        Op::FLg2 => enums::mufu::LG2,
        Op::FSin => enums::mufu::SIN,
        Op::FCos => enums::mufu::COS,
        _ => enums::mufu::TANH,
    }
}

impl Sel<'_> {
    /// `LDC` from a constant bank.
    pub(super) fn load_const(&mut self, bank: u8, offset: i32, wide: bool) -> Regs {
        let inst = Sass::new(F::LDC).with(S::Const, Operand::cbank(bank, offset));
        if wide {
            let (r, d) = self.new_pair();
            self.push(inst.with(S::Rd, d).with_mod(M::Size, enums::constsize::B64));
            r
        } else {
            let lo = self.m.new_vreg(File::Gpr);
            let d = self.m.reg(lo);
            self.push(inst.with(S::Rd, d));
            Regs { lo, hi: None }
        }
    }

    /// The generic address of the parameters: a word of the bank, or counted from the bank's own.
    fn param_window(&mut self) -> Regs {
        if let Some(at) = self.bank0.param_address {
            return self.load_const(0, at as i32, true);
        }
        let bank = self.load_const(0, self.bank0.self_address.unwrap_or_default() as i32, true);
        let words = [Some(bank.lo), bank.hi].map(|v| v.map_or(ZERO, |v| Operand::reg(self.m.reg(v))));
        generated::Context::add64(self, words[0], words[1], immediate(self.bank0.params as u32), ZERO)
    }

    fn parameter(&mut self, id: InstId) -> Regs {
        let inst = self.f.inst(id);
        let at = self.bank0.params as i32 + inst.imm as i32;
        if self.in_uniform[inst.results[0].index()] {
            let lo = self.m.new_vreg(File::Ugpr);
            let d = self.m.reg(lo);
            self.push(Sass::new(F::ULDC).with(S::Rd, d).with(S::Const, Operand::cbank(0, at)));
            return Regs { lo, hi: None };
        }
        match inst.mem.bytes {
            8 if at % 8 == 0 => self.load_const(0, at, true),
            8 => {
                let lo = self.load_const(0, at, false);
                let hi = self.load_const(0, at + 4, false);
                Regs { lo: lo.lo, hi: Some(hi.lo) }
            }
            4 => self.load_const(0, at, false),
            n => {
                let size = match (n, inst.attr.signed) {
                    (1, false) => enums::constsize::U8,
                    (1, true) => enums::constsize::S8,
                    (_, false) => enums::constsize::U16,
                    (_, true) => enums::constsize::S16,
                };
                let lo = self.m.new_vreg(File::Gpr);
                let d = self.m.reg(lo);
                let inst = Sass::new(F::LDC).with(S::Const, Operand::cbank(0, at)).with(S::Rd, d);
                self.push(inst.with_mod(M::Size, size));
                Regs { lo, hi: None }
            }
        }
    }

    fn mov_operand(&mut self, to: Vreg, from: Operand) {
        let d = self.m.reg(to);
        self.push(Sass::new(F::MOV_I).with(S::Rd, d).with(S::Rb, from));
    }

    /// The two halves of an address that the linker knows.
    fn address_of(&mut self, symbol: Symbol, kinds: [u32; 2]) -> Regs {
        let (lo, hi) = (self.m.new_vreg(File::Gpr), self.m.new_vreg(File::Gpr));
        for (to, kind) in [lo, hi].into_iter().zip(kinds) {
            let n = self.m.refer(symbol, kind, 0);
            self.mov_operand(to, link::immediate(n));
        }
        Regs { lo, hi: Some(hi) }
    }

    /// The shared address of byte `offset`: the system's own bytes are in front, and where there are clusters the CTA's rank is in bits
    /// 31:24.
    fn shared_base(&mut self, offset: i64) -> Regs {
        let reserved = arch::files(self.layout.sm).reserved_shared as i64;
        if reserved == 0 {
            let lo = self.m.new_vreg(File::Gpr);
            if self.layout.relocatable {
                let n = self.m.refer(Symbol::Variable(offset as u32), link::ABS32, 0);
                self.mov_operand(lo, link::immediate(n));
            } else {
                self.mov_imm(lo, offset as u32);
            }
            return Regs { lo, hi: None };
        }
        let rank = self.m.new_vreg(File::Gpr);
        let d = self.m.reg(rank);
        self.push(Sass::new(F::S2R).with(S::Rd, d).with(S::Sr, Operand::imm(enums::sr::CGACTAID as i64)));
        let base = if self.layout.relocatable {
            // The number of a variable; the linker adds the reserved bytes.
            let n = self.m.refer(Symbol::Variable(offset as u32), link::ABS32, reserved);
            let base = self.m.new_vreg(File::Gpr);
            self.mov_operand(base, link::immediate(n));
            Operand::reg(self.m.reg(base))
        } else {
            self.move_to_new(immediate((reserved + offset) as u32))
        };
        let o = self.lea(Operand::reg(d), base, 24);
        Regs { lo: self.as_result(o), hi: None }
    }

    /// Conversions that the conversion unit does.
    fn conversion(&mut self, id: InstId, v: Value) -> Regs {
        let inst = self.f.inst(id);
        let (op, a) = (inst.op, inst.attr);
        let result = inst.results[0];
        let wide_src = self.f.ty(v) == Ty::B64;
        let wide_dst = self.f.ty(result) == Ty::B64;
        let wide = wide_src || wide_dst;
        let float_src = op != Op::I2F;
        let src_fmt = if op == Op::F2F { a.fmt2 } else { a.fmt };
        // The upper half of a word is read where it is.
        let half = self.f.def_inst(v).filter(|d| d.op == Op::Hi && float_src && !wide && self.f.ty(v) == Ty::B16);
        let upper = half.map(|d| d.args[0]);
        let src = if wide_src {
            if float_src {
                let o = Sel::dsrc(self, v);
                self.dreg(o)
            } else {
                Sel::pair(self, v)
            }
        } else if let Some(w) = upper {
            let o = Sel::lo(self, w);
            self.gpr(o)
        } else if float_src {
            let o = Sel::fsrc(self, v, src_fmt, false);
            self.gpr(o)
        } else {
            let o = Sel::lo(self, v);
            self.gpr(o)
        };
        let float_code = |f: Fmt| match f {
            Fmt::F16 => 1,
            Fmt::F64 => 3,
            Fmt::BF16 => 4,
            _ => 2,
        };
        let mut m = match (op, wide) {
            (Op::F2I, false) => Sass::new(F::F2I_R),
            (Op::F2I, true) => Sass::new(F::F2I_64_R),
            (Op::I2F, false) if self.has(F::I2FP_R) && a.fmt == Fmt::F32 && matches!(a.rnd, Rnd::Rn | Rnd::Rz) => {
                Sass::new(F::I2FP_R)
            }
            (Op::I2F, false) => Sass::new(F::I2F_R),
            (Op::I2F, true) => Sass::new(F::I2F_64_R),
            (Op::FRound, false) => Sass::new(F::FRND_R),
            (Op::FRound, true) => Sass::new(F::FRND_64_R),
            // A packed conversion is a plain one into the lower half.
            (_, false)
                if a.rnd == Rnd::Rn
                    && matches!(a.fmt, Fmt::F16 | Fmt::BF16)
                    && a.fmt2 == Fmt::F32
                    && (self.has(F::F2FP_PACK_RR) || a.sub != 0) =>
            {
                let fmt = if a.fmt == Fmt::F16 { Fmt::F16x2 } else { Fmt::BF16x2 };
                // It reads no signs.
                let src = Sel::lo(self, v);
                let o = generated::Context::cvt_pack(self, Attr { fmt, ..a }, ZERO, src);
                return Regs { lo: self.as_result(o), hi: None };
            }
            (_, false) => Sass::new(F::F2F_R),
            (_, true) => Sass::new(F::F2F_64_R),
        };
        // Integer types in the order of the field: 8, 16, 32, 64 bits, unsigned before signed.
        let int_code = (a.sub.max(8).trailing_zeros() as u8 - 3) * 2 + a.signed as u8;
        m = m.with(S::Rb, src);
        if upper.is_some() {
            m = m.with_mod(M::Half, 1);
        }
        m = match op {
            Op::F2I => {
                m = m.with_mod(M::Dst, int_code).with_mod(M::Src, float_code(a.fmt)).with_mod(M::Rnd, rnd_code(a.rnd));
                m = m.with_mod(M::Ftz, a.ftz as u8);
                // Narrow float to 32 bits: the fast form that the vendor's compiler uses.
                if wide { m } else { m.with_mod(M::Ntz, 1) }
            }
            Op::I2F => {
                m = m.with_mod(M::Dst, float_code(a.fmt)).with_mod(M::Src, int_code);
                m.with_mod(M::Rnd, rnd_code(a.rnd))
            }
            Op::FRound => {
                let fmt = float_code(a.fmt);
                m.with_mod(M::Fmt, fmt << 3 | fmt).with_mod(M::Rnd, rnd_code(a.rnd)).with_mod(M::Ftz, a.ftz as u8)
            }
            _ => m
                .with_mod(M::Dst, float_code(a.fmt))
                .with_mod(M::Src, float_code(a.fmt2))
                .with_mod(M::Rnd, rnd_code(a.rnd))
                .with_mod(M::Ftz, a.ftz as u8),
        };
        if wide_dst {
            let (r, d) = self.new_pair();
            self.push(m.with(S::Rd, d));
            r
        } else {
            let lo = self.m.new_vreg(File::Gpr);
            let d = self.m.reg(lo);
            self.push(m.with(S::Rd, d));
            Regs { lo, hi: None }
        }
    }
}

/// What `PRMT` takes of a word and zero to get a field of one or two whole bytes that does not begin at the lowest one.
fn bytes(signed: bool, at: u32, bits: u32) -> Option<u32> {
    if !at.is_multiple_of(8) || !matches!(bits, 8 | 16) || at == 0 || at + bits > 32 {
        return None;
    }
    let first = at / 8;
    let last = first + bits / 8 - 1;
    // A byte of the second word, which is zero, or the sign of the last one, again and again.
    let rest = if signed { 8 | last } else { 7 };
    Some((0..4).map(|n| if first + n <= last { (first + n) << (4 * n) } else { rest << (4 * n) }).sum())
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn fields_of_whole_bytes() {
        assert_eq!(bytes(false, 8, 8), Some(0x7771));
        assert_eq!(bytes(true, 16, 16), Some(0xbb32));
        // Nothing else, wherever it begins and however long it is.
        for (at, bits) in [(0, 1), (0, 8), (4, 8), (8, 12), (24, 16), (248, 8), (255, 255)] {
            assert_eq!(bytes(false, at, bits), None);
        }
    }
}
