//! Barriers in shared memory, and the copies and stores that complete on them.

use super::*;
use crate::machine::chip::Chip;

impl Decoder<'_> {
    /// An address of shared memory: a register, a uniform register, a distance.
    pub(super) fn shared_addr(&mut self, inst: &Seen<'_>) -> Result<Addr> {
        let mut addr = self.addr(inst, S::Ra, S::Imm, false)?;
        if inst.slot(S::URc).is_some() {
            addr.uniform = Some(self.src(inst, S::URc)?);
        }
        Ok(addr)
    }

    pub(super) fn syncs(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        let (one, none, register) = (Count::One, Count::None, Count::Register);
        // Without operation there is neither mask nor "no result".
        let op = if name == "SYNCS_ARRIVE" { inst.modifier(M::Op) } else { 0 };
        let what = match name {
            "SYNCS_EXCH" => SyncsOp::Exchange,
            "SYNCS_CCTL_IV" => SyncsOp::Invalidate,
            "SYNCS_PHASECHK" => {
                inst.modifier(M::Trywait);
                SyncsOp::Check
            }
            "ARRIVES_LDGSTSBAR" => match inst.modifier(M::Mode) {
                1 => SyncsOp::Copies { arrives: true },
                0 if Chip::of(self.image.sm).is_some_and(|c| c.plain_barriers) => SyncsOp::PlainCopies,
                2 => SyncsOp::Copies { arrives: false },
                _ => return gap("this mode"),
            },
            _ => {
                let (count, bytes) = match inst.modifier(M::Arrive) {
                    0 => (one, register),
                    1 => (one, none),
                    2 => (none, one),
                    3 => (none, register),
                    4 => (none, Count::Negative),
                    5 => (register, none),
                    _ => return gap("this kind of arrival"),
                };
                SyncsOp::Arrive { count, bytes, drop: inst.modifier(M::Optout) != 0 }
            }
        };
        let d = Self::dst(inst, S::Rd);
        let b = match name {
            "SYNCS_EXCH" => [self.word(inst, S::Rb, 0)?, self.word(inst, S::Rb, 1)?],
            _ => [self.word(inst, S::Rb, 0)?, self.k(0)],
        };
        let addr = if name == "SYNCS_EXCH" { self.addr(inst, S::Ra, S::Imm, false)? } else { self.shared_addr(inst)? };
        let p = Self::p(inst, S::Pu);
        Ok(Exec::Syncs(Box::new(Syncs { what, addr, d, p, b, mask: op == 1, once: name == "SYNCS_CCTL_IV" })))
    }

    pub(super) fn bulk(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        let reduces = name.starts_with("UBLKRED");
        let pair = |d: &mut Self, slot| -> Result<[Src; 2]> { Ok([d.word(inst, slot, 0)?, d.word(inst, slot, 1)?]) };
        let (to, from) = (pair(self, S::UR)?, pair(self, S::URa)?);
        let to_shared = inst.modifier(M::M73) == 1;
        let from_shared = reduces || inst.modifier(M::M74) == 1;
        let reduce = if !reduces {
            None
        } else {
            let (t, op) = (inst.modifier(M::M81), inst.modifier(M::M87));
            Some(match t {
                0..=3 => {
                    let bits = if t > 1 { 64 } else { 32 };
                    (integer_atom(op, bits, t % 2 == 1)?, bits / 8)
                }
                _ => return gap("this type"),
            })
        };
        let multicast = inst.modifier(M::Multicast) != 0;
        let size = self.src(inst, S::URc)?;
        Ok(Exec::Bulk(Box::new(BulkCopy { to, from, size, to_shared, from_shared, multicast, reduce })))
    }

    pub(super) fn async_store(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        let reduces = name.starts_with("REDAS_AR");
        let to = [self.word(inst, S::Ra, 0)?, self.word(inst, S::Ra, 1)?];
        if self.src(inst, S::URc)? != self.k(0) {
            return gap("a uniform register in the address");
        }
        // The address is marked as the pair that it is.
        if inst.modifier(if reduces { M::M72 } else { M::M90 }) == 0 {
            return gap("an address without a barrier");
        }
        let (size, reduce) = if reduces {
            let t = inst.modifier(M::M73);
            let bits = if t > 1 { 64 } else { 32 };
            (bits / 8, Some(integer_atom(inst.modifier(M::M87), bits, t % 2 == 1)?))
        } else {
            (4 << inst.modifier(M::M73), None)
        };
        let s = (0..size as u32 / 4).map(|n| self.word(inst, S::Rb, n)).collect::<Result<_>>()?;
        let offset = Self::imm(inst, S::ImmAt40).unwrap_or(0);
        Ok(Exec::AsyncStore(Box::new(AsyncStore { to, offset, size, s, reduce })))
    }
}
