//! Atomic operations, and addresses of their own kinds.

use super::*;

impl Decoder<'_> {
    pub(super) fn atom(&mut self, inst: &Seen<'_>, name: &str, size: u8, f: AtomFn) -> Result<Exec> {
        let shared = name.starts_with("ATOMS");
        let space = if shared {
            Space::Shared
        } else if name.starts_with("ATOM_") || name == "ATOM" {
            Space::Generic
        } else {
            Space::Global
        };
        let mut addr = self.addr(inst, S::Ra, S::Imm, !shared && extended(inst))?;
        if name == "ATOMS_U" {
            addr.uniform = Some(self.src(inst, S::URc)?);
        }
        let zero = self.k(0);
        let b = [self.word(inst, S::Rb, 0)?, if size == 8 { self.word(inst, S::Rb, 1)? } else { zero }];
        Ok(Exec::Atom(vec![Atom {
            space,
            addr,
            size,
            d: Self::gpr(inst, S::Rd),
            p: Self::p(inst, S::Pu),
            b,
            c: [zero; 2],
            f,
            result: AtomResult::Old,
        }]))
    }

    /// A 64-bit address: a pair of uniform registers, a register without sign, a distance.
    pub(super) fn uniform_addr(&mut self, inst: &Seen<'_>, uniform: S, offset: S) -> Result<Addr> {
        if !extended(inst) {
            return gap("an address of 32 bits");
        }
        let mut addr = self.addr(inst, S::Ra, offset, false)?;
        addr.wide = Some([self.word(inst, uniform, 0)?, self.word(inst, uniform, 1)?]);
        Ok(addr)
    }
}
