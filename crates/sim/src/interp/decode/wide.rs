//! Values of 128 bits, which lie in two slots, the low half first; vectors; and `multimem`.

use super::memory::order;
use super::*;

impl Decoder<'_> {
    /// The halves of a register of 128 bits, or of a constant.
    pub(super) fn halves(&mut self, op: &Operand) -> Result<[Slot; 2]> {
        match op {
            Operand::Reg { reg, elem: None } if self.is_wide(*reg) => {
                let low = self.regs[reg.index()].0;
                Ok([Slot(low), Slot(low + 1)])
            }
            Operand::Int(n) => Ok([self.constant(*n as u64), self.constant((n >> 63) as u64)]),
            Operand::Sink => Ok([Slot::NONE; 2]),
            _ => gap("this kind of operand"),
        }
    }

    fn is_wide(&self, reg: RegId) -> bool {
        let r = &self.m.funcs[self.func.index()].regs[reg.index()];
        r.ty.bits() == 128 && r.vector <= 1
    }

    /// `mov.b128`: of a register, to and from pairs of halves or four words.
    pub(super) fn mov_wide(&mut self, to: &Operand, from: &Operand) -> Result<Exec> {
        match (to, from) {
            (Operand::Vector(list), _) => {
                let s = self.halves(from)?;
                let d = list.iter().map(|o| self.dst(o)).collect::<Result<SmallVec<[Slot; 4]>>>()?;
                match d.as_slice() {
                    [low, high] => Ok(Exec::MovList { d: smallvec![*low, *high], s: s.into_iter().collect() }),
                    [a, b, c, d] => Ok(Exec::UnpackWide { d: [*a, *b, *c, *d], s }),
                    _ => gap("this many parts"),
                }
            }
            (_, Operand::Vector(list)) => {
                let d = self.halves(to)?;
                let part = if list.len() == 4 { T::B32 } else { T::B64 };
                let s = list.iter().map(|o| self.src(o, part)).collect::<Result<SmallVec<[Slot; 4]>>>()?;
                match s.as_slice() {
                    [low, high] => Ok(Exec::MovList { d: d.into_iter().collect(), s: smallvec![*low, *high] }),
                    [a, b, c, e] => Ok(Exec::PackWide { d, s: [*a, *b, *c, *e] }),
                    _ => gap("this many parts"),
                }
            }
            _ => {
                let (d, s) = (self.halves(to)?, self.halves(from)?);
                Ok(Exec::MovList { d: d.into_iter().collect(), s: s.into_iter().collect() })
            }
        }
    }

    /// `mov.v2`, `mov.v4`: of vectors or vector registers.
    pub(super) fn mov_vector(&mut self, to: &Operand, from: &Operand, n: u8, t: T) -> Result<Exec> {
        let part = |op: &Operand, i: u8| -> Result<Operand> {
            match op {
                Operand::Vector(list) => list.get(i as usize).cloned().ok_or_else(|| "a part is missing".to_string()),
                Operand::Reg { reg, elem: None } => Ok(Operand::Reg { reg: *reg, elem: Some(i) }),
                _ => gap("this kind of operand"),
            }
        };
        let (mut d, mut s) = (SmallVec::new(), SmallVec::new());
        for i in 0..n {
            d.push(self.dst(&part(to, i)?)?);
            s.push(self.src(&part(from, i)?, t)?);
        }
        Ok(Exec::MovList { d, s })
    }

    /// `ld.b128`
    pub(super) fn load_wide(&mut self, inst: &Inst, to: &Operand, at: &Operand) -> Result<Exec> {
        if inst.vector() != 1 {
            return gap("a vector of 128-bit values");
        }
        let (space, addr) = (self.space(inst, at)?, self.addr(at)?);
        let d = self.halves(to)?.into_iter().collect();
        Ok(Exec::Load { order: order(inst), space, addr, size: 8, d, sign: None })
    }

    /// `st.b128`
    pub(super) fn store_wide(&mut self, inst: &Inst, at: &Operand, from: &Operand) -> Result<Exec> {
        if inst.vector() != 1 {
            return gap("a vector of 128-bit values");
        }
        let (space, addr) = (self.space(inst, at)?, self.addr(at)?);
        let s = self.halves(from)?.into_iter().collect();
        Ok(Exec::Store { order: order(inst), space, addr, size: 8, s })
    }

    /// `atom.exch.b128`, `atom.cas.b128`
    pub(super) fn atom_wide(&mut self, inst: &Inst) -> Result<Exec> {
        let arg = |i: usize| inst.operands.get(i).ok_or_else(|| "an operand is missing".to_string());
        let (space, addr) = (self.space(inst, arg(1)?)?, self.addr(arg(1)?)?);
        let order = Order { strong: true, ..order(inst) };
        let (d, b) = (self.halves(arg(0)?)?, self.halves(arg(2)?)?);
        let c = match inst.atom_op() {
            Some(AtomOp::Exch) => None,
            Some(AtomOp::Cas) => Some(self.halves(arg(3)?)?),
            _ => return gap("this operation"),
        };
        Ok(Exec::AtomWide(Box::new(WideAtomic { space, addr, d, b, c, order })))
    }

    /// `multimem`: what a multicast address means for a team of one device, which is all that a launch has: its own memory.
    pub(super) fn multimem(&mut self, inst: &Inst) -> Result<Exec> {
        let arg = |i: usize| inst.operands.get(i).ok_or_else(|| "an operand is missing".to_string());
        let t = inst.ty();
        let order = Order { strong: true, ..order(inst) };
        if inst.has(Mod::Bulk) {
            return self.bulk(inst);
        }
        if inst.has(Mod::LdReduce) {
            let addr = self.addr(arg(1)?)?;
            let d = self.elements(arg(0)?).iter().map(|o| self.dst(o)).collect::<Result<_>>()?;
            return Ok(Exec::Load { order, space: Space::Global, addr, size: element(t)?, d, sign: None });
        }
        if inst.has(Mod::Red) {
            return self.atom(inst);
        }
        let addr = self.addr(arg(0)?)?;
        let s = self.elements(arg(1)?).iter().map(|o| self.src(o, t)).collect::<Result<_>>()?;
        Ok(Exec::Store { order, space: Space::Global, addr, size: element(t)?, s })
    }
}
