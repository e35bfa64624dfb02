//! Atomics and reductions.

use super::Sel;
use super::memory::store_sem;
use super::operand::ZERO;
use crate::chips;
use crate::ir::{AtomOp, Attr, Fmt, InstId, MemSpace, Op, Value};
use crate::mir::Vreg;
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::Reg;

impl Sel<'_> {
    pub(super) fn atomic(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (mem, attr, addr, offset) = (inst.mem, inst.attr, inst.args[0], inst.imm);
        let args = inst.operands()[1..].to_vec();
        let results = inst.results.to_vec();
        let wanted = results.iter().any(|r| self.regs[r.index()].is_some());
        let dst = if wanted {
            let words: Vec<Vreg> = (0..results.len()).flat_map(|n| self.result_words(id, n)).collect();
            Operand::reg(self.m.vector(&words))
        } else {
            ZERO
        };
        let cas = attr.sub == AtomOp::Cas as u8;
        // What is compared with, then what is stored.
        let (first, second) = args.split_at(if cas { args.len() / 2 } else { args.len() });
        if mem.space == MemSpace::Shared && !wanted && mem.bytes == 4 && self.counts_one(attr, first) {
            let at = self.narrow_address(mem.space, addr, offset);
            self.push(Sass::new(F::ATOMS_POPC_INC).with(S::Ra, at.base).with(S::Imm, Operand::imm(at.offset)));
            return Some(());
        }
        let data = self.data(first);
        let swap = self.data(second);
        if mem.space == MemSpace::Shared {
            if attr.fmt != Fmt::None {
                return None;
            }
            let at = self.narrow_address(mem.space, addr, offset);
            let m = Sass::new(if cas { F::ATOMS_CAS } else { F::ATOMS })
                .with(S::Ra, at.base)
                .with(S::Imm, Operand::imm(at.offset))
                .with(S::Rd, dst)
                .with(S::Rb, data);
            let m = if cas {
                m.with(S::Rc, swap).with_mod(M::Type, cas_type(mem.bytes))
            } else {
                let ty = match (mem.bytes, attr.signed) {
                    (16, _) => enums::atomstype::B128,
                    (8, _) => enums::atomstype::B64,
                    (_, true) => enums::atomstype::S32,
                    _ => enums::atomstype::U32,
                };
                m.with_mod(M::Op, atom_code(attr.sub)).with_mod(M::Type, ty)
            };
            self.push(m);
            return Some(());
        }
        let at = self.wide_address(addr, offset);
        let global = mem.space == MemSpace::Global;
        let base =
            |m: Sass| m.with(S::Ra, at.base).with(S::Imm, Operand::imm(at.offset)).with_mod(M::Sem, store_sem(mem));
        if cas {
            let m = base(Sass::new(if global { F::ATOMG_CAS } else { F::ATOM_CAS }));
            self.push(m.with(S::Rd, dst).with(S::Rb, data).with(S::Rc, swap).with_mod(M::Type, cas_type(mem.bytes)));
            return Some(());
        }
        if attr.fmt != Fmt::None {
            let ty = float_type(attr.fmt, args.len())?;
            let op = match attr.sub {
                s if s == AtomOp::Min as u8 => enums::atomfop::MIN,
                s if s == AtomOp::Max as u8 => enums::atomfop::MAX,
                _ => enums::atomfop::ADD,
            };
            let m = match (global, wanted) {
                (true, false) => Sass::new(F::REDG_F),
                (true, true) => Sass::new(F::ATOMG_F).with(S::Rd, dst),
                (false, _) => return None,
            };
            let descriptor = self.descriptor(id);
            self.push(base(m).with(S::URc, descriptor).with(S::Rb, data).with_mod(M::Type, ty).with_mod(M::Op, op));
            return Some(());
        }
        let exchange = attr.sub == AtomOp::Exch as u8;
        let m = if global && inst.op == Op::Red || global && !wanted && !exchange {
            Sass::new(F::REDG).with_mod(M::Op, red_code(attr.sub))
        } else {
            let form = if global { F::ATOMG } else { F::ATOM };
            Sass::new(form).with_mod(M::Op, atom_code(attr.sub)).with(S::Rd, dst)
        };
        let descriptor = self.descriptor(id);
        self.push(base(m).with(S::URc, descriptor).with(S::Rb, data).with_mod(M::Type, integer_type(attr, mem.bytes)));
        Some(())
    }

    /// It adds one, for which there may be an instruction that adds what the threads of a warp count together.
    fn counts_one(&self, attr: Attr, args: &[Value]) -> bool {
        let number = args.first().and_then(|&v| self.constant(v));
        let adds = attr.sub == AtomOp::Add as u8 && number == Some(1);
        let wraps = attr.sub == AtomOp::Inc as u8 && number == Some(u32::MAX.into());
        chips::counts_together(self.layout.sm) && attr.fmt == Fmt::None && (adds || wraps)
    }

    pub(super) fn load_reduce(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (mem, attr, addr, offset, n) = (inst.mem, inst.attr, inst.args[0], inst.imm, inst.results.len());
        let at = self.wide_address(addr, offset);
        let words: Vec<Vreg> = (0..n).flat_map(|n| self.result_words(id, n)).collect();
        let d = self.m.vector(&words);
        let is = |op: AtomOp| attr.sub == op as u8;
        let m = if attr.fmt == Fmt::None {
            use enums::ldgmc_m87 as op;
            let codes = [op::ADD, op::MIN, op::MAX, op::ADD, op::ADD, op::AND, op::OR, op::XOR];
            let signed = attr.signed && (is(AtomOp::Min) || is(AtomOp::Max));
            let ty = (mem.bytes == 8) as u8 * 2 + signed as u8;
            Sass::new(F::LDGMC_RA).with_mod(M::M87, *codes.get(attr.sub as usize)?).with_mod(M::M73, ty)
        } else {
            use enums::{ldgmc_m88 as op, ldgmc_m732 as t};
            let types = match attr.fmt {
                Fmt::F16x2 => [t::F16X2, t::F16X4, t::F16X8],
                Fmt::BF16x2 => [t::BF16X2, t::BF16X4, t::BF16X8],
                Fmt::F32 => [t::F32, t::F32X2, t::F32X4],
                Fmt::F64 => [t::F64; 3],
                _ => return None,
            };
            let ty = types[[1, 2, 4].iter().position(|&count| count == n)?];
            let code = match () {
                () if is(AtomOp::Min) => op::MIN,
                () if is(AtomOp::Max) => op::MAX,
                () if attr.sat => op::F32ADD,
                () => op::ADD,
            };
            Sass::new(F::LDGMC_RA_2).with_mod(M::M88, code).with_mod(M::M73, ty)
        };
        let m = m.with_mod(M::M70, enums::ldgsts_m70::_64).with(S::URc, Reg::URZ);
        self.push(m.with(S::Rd, d).with(S::Ra, at.base).with(S::ImmAt40, Operand::imm(at.offset)));
        Some(())
    }

    /// Values as one operand: RZ where all are zero.
    fn data(&mut self, values: &[Value]) -> Operand {
        let words: Vec<Operand> = values.iter().flat_map(|&v| self.words(v)).collect();
        if words.iter().all(|&w| w == ZERO) { ZERO } else { self.vector_of(&words) }
    }
}

fn cas_type(bytes: u8) -> u8 {
    match bytes {
        16 => enums::castype::B128,
        8 => enums::castype::B64,
        _ => 0,
    }
}

/// Sign matters to minimum and maximum only.
fn integer_type(attr: Attr, bytes: u8) -> u8 {
    let signed = attr.signed && (attr.sub == AtomOp::Min as u8 || attr.sub == AtomOp::Max as u8);
    match (bytes, signed) {
        (16, _) => enums::atomtype::B128,
        (8, false) => enums::atomtype::B64,
        (8, true) => enums::atomtype::S64,
        (_, true) => enums::atomtype::S32,
        _ => enums::atomtype::U32,
    }
}

/// The type of so many values of a format; pairs of halves are one value.
fn float_type(fmt: Fmt, values: usize) -> Option<u8> {
    use enums::atomftype as t;
    let list = match fmt {
        Fmt::F16x2 => [t::F16X2_RN, t::F16X4_RN, t::F16X8_RN],
        Fmt::BF16x2 => [t::BF16X2_RN, t::BF16X4_RN, t::BF16X8_RN],
        Fmt::F32 => [t::F32_FTZ_RN, t::F32X2_FTZ_RN, t::F32X4_FTZ_RN],
        Fmt::F64 if values == 1 => return Some(t::F64_RN),
        _ => return None,
    };
    match values {
        1 => Some(list[0]),
        2 => Some(list[1]),
        4 => Some(list[2]),
        _ => None,
    }
}

fn atom_code(sub: u8) -> u8 {
    use enums::atom as a;
    [a::ADD, a::MIN, a::MAX, a::INC, a::DEC, a::AND, a::OR, a::XOR, a::EXCH][sub as usize % 9]
}

fn red_code(sub: u8) -> u8 {
    use enums::red as r;
    [r::ADD, r::MIN, r::MAX, r::INC, r::DEC, r::AND, r::OR, r::XOR][sub as usize % 8]
}
