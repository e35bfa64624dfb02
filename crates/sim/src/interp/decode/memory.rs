//! Operands in memory, atomics, asynchronous copies of threads.

use super::*;

impl Decoder<'_> {
    pub(super) fn addr(&mut self, op: &Operand) -> Result<Addr> {
        let Operand::Mem(address) = op else { return gap("this kind of address") };
        let offset = address.offset();
        let zero = self.constant(0);
        let plain = Addr { base: zero, offset, frame: false, mask: u64::MAX };
        Ok(match address.base() {
            AddressBase::Reg(r) if !self.is_value(r, None) => return gap("this kind of address"),
            AddressBase::Reg(r) => Addr { base: self.reg(r, None), mask: mask(self.regs[r.index()].1), ..plain },
            AddressBase::None => plain,
            AddressBase::Var(v) => match self.l.places[v.index()] {
                Place::Frame(off) => Addr { offset: offset + off as i64, frame: true, ..plain },
                Place::None => return gap("an address of this variable"),
                _ => Addr { base: self.src(&Operand::Var { var: v, offset: 0 }, T::U64)?, ..plain },
            },
        })
    }

    /// The state space of an access, with what the address tells about parameters.
    pub(super) fn space(&self, inst: &Inst, addr: &Operand) -> Result<Space> {
        let in_frame = || match addr {
            Operand::Mem(a) => match a.base() {
                AddressBase::Var(v) => matches!(self.l.places[v.index()], Place::Frame(_)),
                _ => self.func.0 != self.p.entry,
            },
            _ => self.func.0 != self.p.entry,
        };
        // The name of a variable says where it lies, whatever the instruction says of generic addresses.
        let named = match addr {
            Operand::Mem(a) => match a.base() {
                AddressBase::Var(v) => Some(self.m.vars[v.index()].space),
                _ => None,
            },
            _ => None,
        };
        Ok(match inst.space() {
            PSpace::Generic => match named {
                Some(PSpace::Shared) => Space::Shared,
                Some(PSpace::Local) => Space::Local,
                _ => Space::Generic,
            },
            PSpace::Global => Space::Global,
            PSpace::Shared | PSpace::SharedCluster => Space::Shared,
            PSpace::Local => Space::Local,
            PSpace::Const => Space::Const,
            PSpace::ParamEntry => Space::Param,
            PSpace::ParamFunc => Space::Local,
            PSpace::Param => {
                if in_frame() {
                    Space::Local
                } else {
                    Space::Param
                }
            }
            _ => return gap("this state space"),
        })
    }

    pub(super) fn atom(&mut self, inst: &Inst) -> Result<Exec> {
        let t = inst.ty();
        let red = inst.op != Op::Atom;
        if t.bits() == 128 {
            return self.atom_wide(inst);
        }
        if inst.has(Mod::Async) {
            return self.async_store(inst);
        }
        let at = if red { 0 } else { 1 };
        let arg = |i: usize| inst.operands.get(i).ok_or_else(|| "an operand is missing".to_string());
        let operand = arg(at)?;
        let (space, addr) = (self.space(inst, operand)?, self.addr(operand)?);
        let op = inst.atom_op().ok_or("no operation")?;
        let n = inst.vector() as usize;
        let all = |o: &Operand| -> Vec<Operand> { self.elements(o).into_vec() };
        let (to, from) = (if red { Vec::new() } else { all(arg(0)?) }, all(arg(at + 1)?));
        if from.len() != n || !red && to.len() != n {
            return gap("the vector does not fit the operand");
        }
        let size = element(t)?;
        let order = Order { strong: true, ..order(inst) };
        let mut list = Vec::new();
        for (i, b) in from.iter().enumerate() {
            let d = if red { Slot::NONE } else { self.dst(&to[i])? };
            let b = self.src(b, t)?;
            let c = match inst.operands.get(at + 2) {
                Some(c) if op == AtomOp::Cas => self.src(c, t)?,
                _ => b,
            };
            let (f, shared) = atom_fn(op, t)?;
            let addr = Addr { offset: addr.offset + (i * size as usize) as i64, ..addr };
            // The whole vector is aligned.
            let align = if i == 0 { n as u8 * size } else { size };
            list.push(Atomic { space, addr, size, align, d, b, c, f, shared, order });
        }
        Ok(Exec::Atom(list.into()))
    }

    pub(super) fn copy(&mut self, inst: &Inst) -> Result<Exec> {
        if inst.has(Mod::Bulk) {
            return self.bulk(inst);
        }
        if inst.has(Mod::Mbarrier) {
            return self.mbarrier(inst);
        }
        if !inst.has(Mod::Async) {
            return gap("");
        }
        let ops = &inst.operands;
        if inst.has(Mod::CommitGroup) {
            return Ok(Exec::CopyGroup(CopyGroup::Commit));
        }
        if inst.has(Mod::WaitAll) {
            return Ok(Exec::CopyGroup(CopyGroup::WaitAll));
        }
        if inst.has(Mod::WaitGroup) {
            let Some(Operand::Int(n)) = ops.first() else { return gap("the number of groups") };
            return Ok(Exec::CopyGroup(CopyGroup::Wait(*n as u32)));
        }
        let Some(Operand::Int(size @ (4 | 8 | 16))) = ops.get(2) else { return gap("this size") };
        let mut ignore = PRef { slot: 0, neg: true };
        let read = match ops.get(3) {
            None => self.constant(*size as u64),
            Some(o @ (Operand::Reg { reg, .. } | Operand::NotReg(reg))) if self.is_pred(*reg) => {
                ignore = self.psrc(o)?;
                self.constant(*size as u64)
            }
            Some(_) if inst.has(Mod::L2CacheHint) && ops.len() == 4 => self.constant(*size as u64),
            Some(n) => self.src(n, T::U32)?,
        };
        let (to, from) = (self.addr(&ops[0])?, self.addr(&ops[1])?);
        Ok(Exec::Copy(Box::new(AsyncCopy { to, from, size: *size as u8, read, ignore })))
    }
}

/// How an access is ordered; an atomic without a word is relaxed.
pub(super) fn order(inst: &Inst) -> Order {
    let has = |list: &[Mod]| list.iter().any(|&m| inst.has(m));
    Order {
        strong: has(&[Mod::Volatile, Mod::Relaxed, Mod::Acquire, Mod::Release, Mod::AcqRel, Mod::Mmio]),
        acquire: has(&[Mod::Acquire, Mod::AcqRel, Mod::Volatile]),
        release: has(&[Mod::Release, Mod::AcqRel]),
    }
}

/// Bytes of an element in memory.
pub(super) fn element(t: T) -> Result<u8> {
    match t.bits() {
        8 | 16 | 32 | 64 => Ok(t.bytes() as u8),
        _ => gap("this type in memory"),
    }
}

pub(super) fn atom_fn(op: AtomOp, t: T) -> Result<(AtomFn, Option<AtomFn>)> {
    let bits = t.bits();
    let m = mask(bits);
    let add32 = |ftz: bool| -> AtomFn { Box::new(move |o, b, _| fp::add32(o as u32, b as u32, Round::Rn, ftz) as u64) };
    let pair = |h: fp::Half| -> AtomFn {
        Box::new(move |o, b, _| {
            let high = h.add((o >> 16) as u16, (b >> 16) as u16) as u64;
            h.add(o as u16, b as u16) as u64 | high << 16
        })
    };
    let half = |bf16| fp::Half { bf16, ..fp::Half::default() };
    let f: AtomFn = match (op, t) {
        // In global memory denormals are flushed, in shared memory they are not.
        (AtomOp::Add, T::F32) => return Ok((add32(true), Some(add32(false)))),
        (AtomOp::Add, T::F64) => Box::new(|o, b, _| fp::add64(o, b, Round::Rn)),
        (AtomOp::Add, T::F16) => Box::new(move |o, b, _| half(false).add(o as u16, b as u16) as u64),
        (AtomOp::Add, T::BF16) => Box::new(move |o, b, _| half(true).add(o as u16, b as u16) as u64),
        (AtomOp::Add, T::F16x2) => pair(half(false)),
        (AtomOp::Add, T::BF16x2) => pair(half(true)),
        (AtomOp::Exch, _) => Box::new(move |_, b, _| b & m),
        (AtomOp::Cas, _) => Box::new(move |o, b, c| if o == b & m { c & m } else { o }),
        (AtomOp::Min | AtomOp::Max, T::F16 | T::BF16 | T::F16x2 | T::BF16x2) => {
            let h = half(matches!(t, T::BF16 | T::BF16x2));
            let max = op == AtomOp::Max;
            let pairs = t.bits() / 16;
            Box::new(move |o, b, _| {
                (0..pairs).fold(0, |r, i| {
                    let one = h.min_max(max, false, (o >> (16 * i)) as u16, (b >> (16 * i)) as u16);
                    r | (one as u64) << (16 * i)
                })
            })
        }
        (_, t) if t.is_float() => return gap("this type"),
        (AtomOp::And, _) => Box::new(move |o, b, _| o & b & m),
        (AtomOp::Or, _) => Box::new(move |o, b, _| (o | b) & m),
        (AtomOp::Xor, _) => Box::new(move |o, b, _| (o ^ b) & m),
        (AtomOp::Add, _) => Box::new(move |o, b, _| o.wrapping_add(b) & m),
        (AtomOp::Inc, _) => Box::new(move |o, b, _| if o >= b & m { 0 } else { o + 1 }),
        (AtomOp::Dec, _) => Box::new(move |o, b, _| if o == 0 || o > b & m { b & m } else { o - 1 }),
        (AtomOp::Min, t) if t.is_signed() => Box::new(move |o, b, _| sx(o, bits).min(sx(b, bits)) as u64 & m),
        (AtomOp::Max, t) if t.is_signed() => Box::new(move |o, b, _| sx(o, bits).max(sx(b, bits)) as u64 & m),
        (AtomOp::Min, _) => Box::new(move |o, b, _| o.min(b & m)),
        (AtomOp::Max, _) => Box::new(move |o, b, _| o.max(b & m)),
    };
    Ok((f, None))
}
