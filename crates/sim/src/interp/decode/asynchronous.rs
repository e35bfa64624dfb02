//! Barriers in shared memory, and bulk copies.

use super::memory::{atom_fn, order};
use super::*;

impl Decoder<'_> {
    pub(super) fn mbarrier(&mut self, inst: &Inst) -> Result<Exec> {
        let ops = &inst.operands;
        let arg = |i: usize| ops.get(i).ok_or_else(|| "an operand is missing".to_string());
        if inst.has(Mod::PendingCount) {
            let f = l1(super::super::mbarrier::pending_of);
            return self.alu(inst, (1, f));
        }
        let one = self.constant(1);
        let none = Slot::NONE;
        let mut x = Mbarrier {
            what: MbarrierOp::Inval,
            addr: self.addr_at(inst)?,
            d: none,
            p: None,
            a: one,
            order: order(inst),
        };
        if inst.op == Op::Cp {
            x.what = MbarrierOp::CopyArrive { noinc: inst.has(Mod::Noinc) };
        } else if inst.has(Mod::Init) {
            (x.what, x.a) = (MbarrierOp::Init, self.src(arg(1)?, T::U32)?);
        } else if inst.has(Mod::Inval) {
        } else if inst.has(Mod::Arrive) || inst.has(Mod::ArriveDrop) {
            x.what = MbarrierOp::Arrive {
                drop: inst.has(Mod::ArriveDrop),
                expect: inst.has(Mod::ExpectTx),
                no_complete: inst.has(Mod::NoComplete),
            };
            x.d = self.dst(arg(0)?)?;
            if let Some(n) = ops.get(2) {
                x.a = self.src(n, T::U32)?;
            }
            x.order.release = !inst.has(Mod::Relaxed);
        } else if inst.has(Mod::ExpectTx) || inst.has(Mod::CompleteTx) {
            x.what = MbarrierOp::Transactions { complete: inst.has(Mod::CompleteTx) };
            x.a = self.src(arg(1)?, T::U32)?;
        } else if inst.has(Mod::TestWait) || inst.has(Mod::TryWait) {
            let parity = inst.has(Mod::Parity);
            x.what = MbarrierOp::Wait { parity };
            x.p = self.pdst(arg(0)?)?;
            x.a = self.src(arg(2)?, if parity { T::U32 } else { T::B64 })?;
            x.order.acquire = !inst.has(Mod::Relaxed);
        } else {
            return gap("");
        }
        Ok(Exec::Mbarrier(Box::new(x)))
    }

    /// The barrier's address: the first operand that is one.
    fn addr_at(&mut self, inst: &Inst) -> Result<Addr> {
        let at = inst.operands.iter().find(|o| matches!(o, Operand::Mem(_))).ok_or("an address is missing")?;
        self.addr(at)
    }

    /// `cp.async.bulk` without a tensor map.
    pub(super) fn bulk(&mut self, inst: &Inst) -> Result<Exec> {
        let ops = &inst.operands;
        if inst.has(Mod::Tensor) {
            return self.tensor_copy(inst);
        }
        if inst.has(Mod::CpMask) {
            return gap("");
        }
        if inst.has(Mod::Prefetch) {
            return Ok(Exec::Nop);
        }
        if inst.has(Mod::CommitGroup) {
            return Ok(Exec::BulkGroup(CopyGroup::Commit));
        }
        if inst.has(Mod::WaitGroup) {
            let Some(Operand::Int(n)) = ops.first() else { return gap("the number of groups") };
            return Ok(Exec::BulkGroup(CopyGroup::Wait((*n).clamp(0, u32::MAX as i64) as u32)));
        }
        let arg = |i: usize| ops.get(i).ok_or_else(|| "an operand is missing".to_string());
        let spaces: Vec<PSpace> = inst.mods.iter().filter_map(|&m| PSpace::from_mod(m)).collect();
        let space = |s: Option<&PSpace>| match s {
            Some(PSpace::Global) => Ok(Space::Global),
            Some(PSpace::Shared | PSpace::SharedCluster) => Ok(Space::Shared),
            _ => gap("these state spaces"),
        };
        let (to_space, from_space) = (space(spaces.first())?, space(spaces.get(1))?);
        let done = match inst.has(Mod::BulkGroup) {
            true => None,
            false => Some(self.addr(arg(3)?)?),
        };
        let multicast = match inst.has(Mod::MulticastCluster) {
            true => Some(self.src(arg(4)?, T::U16)?),
            false => None,
        };
        Ok(Exec::Bulk(Box::new(Bulk {
            multicast,
            to: (to_space, self.addr(arg(0)?)?),
            from: (from_space, self.addr(arg(1)?)?),
            size: self.src(arg(2)?, T::U32)?,
            reduce: match inst.has(Mod::Reduce) {
                false => None,
                true => {
                    let op = inst.mods.iter().find_map(|&m| AtomOp::from_mod(m)).ok_or("no operation")?;
                    let (flushing, other) = atom_fn(op, inst.ty())?;
                    let f = other.filter(|_| inst.has(Mod::Noftz)).unwrap_or(flushing);
                    Some((f, element(inst.ty())?))
                }
            },
            done,
        })))
    }

    /// `st.async` and `red.async` that complete on a barrier.
    pub(super) fn async_store(&mut self, inst: &Inst) -> Result<Exec> {
        let [at, value, done] = inst.operands else { return gap("without a barrier") };
        let t = inst.ty();
        let f = match inst.op {
            Op::Red => {
                let op = inst.mods.iter().find_map(|&m| AtomOp::from_mod(m)).ok_or("no operation")?;
                Some(atom_fn(op, t)?.0)
            }
            _ => None,
        };
        let s = self.elements(value).iter().map(|o| self.src(o, t)).collect::<Result<_>>()?;
        let (addr, done) = (self.addr(at)?, self.addr(done)?);
        Ok(Exec::AsyncStore(Box::new(AsyncStore { addr, size: element(t)?, s, f, done })))
    }
}
