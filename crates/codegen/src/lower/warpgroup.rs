//! `wgmma`: products by a group of four warps, and `setmaxnreg`.
//!
//! The sums are ordinary values here; that the machine is still at work on their registers is seen to after register
//! assignment ([`crate::sched::warpgroup`]).

use super::matrix::shape;
use super::{Lower, Res};
use crate::ir::{Attr, Mem, Op, Ty};
use ptx::isa::Mod;
use ptx::module::{Inst, Operand};
use ptx::types::ScalarType as T;

/// What a product of a warpgroup is: the bits of the `imm` of [`Op::Wgmma`]. The arguments are the words of A (four
/// registers, or the two of its descriptor), the descriptor of B (two words), whether C is added (P), the metadata of a
/// sparse A, and C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// 0 halves, 1 bfloat16, 2 tf32, 3 8-bit floats, 4 bytes, 5 bits.
    pub kind: u8,
    /// Columns of B.
    pub n: u16,
    /// Sums of 32 bits.
    pub wide: bool,
    /// A is in registers.
    pub held: bool,
    /// Bytes: A is signed; 8-bit floats: A is e5m2.
    pub a: bool,
    /// The same of B.
    pub b: bool,
    /// Integer sums saturate.
    pub sat: bool,
    /// A, then B are negated.
    pub negative: [bool; 2],
    /// A, then B are stored with the other dimension first.
    pub transposed: [bool; 2],
    /// A is sparse: the selector of the threads that hold the metadata.
    pub sparse: Option<u8>,
}

impl Group {
    /// As the `imm` of an operation.
    pub fn pack(self) -> i64 {
        let bits = [
            self.wide,
            self.held,
            self.a,
            self.b,
            self.sat,
            self.negative[0],
            self.negative[1],
            self.transposed[0],
            self.transposed[1],
            self.sparse.is_some(),
            self.sparse == Some(1),
        ];
        let flags = bits.iter().enumerate().fold(0, |m, (i, &b)| m | (b as i64) << i);
        self.kind as i64 | (self.n as i64) << 8 | flags << 32
    }

    /// From the `imm` of an operation.
    pub fn unpack(imm: i64) -> Group {
        let flag = |i: u32| imm >> (32 + i) & 1 != 0;
        Group {
            kind: imm as u8,
            n: (imm >> 8) as u16,
            wide: flag(0),
            held: flag(1),
            a: flag(2),
            b: flag(3),
            sat: flag(4),
            negative: [flag(5), flag(6)],
            transposed: [flag(7), flag(8)],
            sparse: flag(9).then_some(flag(10) as u8),
        }
    }
}

/// `sub` of [`Op::WgmmaOrder`].
pub mod order {
    /// `wgmma.fence`
    pub const FENCE: u8 = 0;
    /// `wgmma.commit_group`
    pub const COMMIT: u8 = 1;
    /// `wgmma.wait_group`: `imm` groups may be left.
    pub const WAIT: u8 = 2;
}

impl Lower<'_, '_> {
    pub(super) fn set_max_registers(&mut self, x: &Inst) -> Res {
        use crate::registers::kind;
        let Some(Operand::Int(n)) = x.operands.first() else { return self.unsupported(x) };
        let sub = if x.mods.iter().any(|m| m.name() == "inc") { kind::MORE } else { kind::LESS };
        self.b().push(Op::SetMaxReg, Attr { sub, ..Attr::default() }, Mem::default(), *n, &[], &[]);
        Ok(())
    }

    pub(super) fn wgmma(&mut self, x: &Inst) -> Res {
        let is = |name: &str| x.mods.iter().any(|m| m.name() == name);
        let order = |s: &mut Self, sub: u8, imm: i64| {
            s.b().push(Op::WgmmaOrder, Attr { sub, ..Attr::default() }, Mem::default(), imm, &[], &[]);
            Ok(())
        };
        if is("fence") {
            return order(self, order::FENCE, 0);
        }
        if is("commit_group") {
            return order(self, order::COMMIT, 0);
        }
        if is("wait_group") {
            let Some(Operand::Int(n)) = x.operands.first() else { return self.unsupported(x) };
            return order(self, order::WAIT, (*n).clamp(0, 7));
        }
        let t = x.types();
        let (Some(s), &[d, a, b]) = (shape(x), &t[..]) else { return self.unsupported(x) };
        // Metadata and selector stand before whether C is added.
        let sparse = is("sp");
        let after = 3 + 2 * sparse as usize;
        let kind = match a {
            T::F16 => 0,
            T::BF16 => 1,
            T::TF32 => 2,
            T::E4M3 | T::E5M2 => 3,
            T::S8 | T::U8 => 4,
            T::B1 => 5,
            _ => return self.unsupported(x),
        };
        let held = matches!(x.operands.get(1), Some(Operand::Vector(_)));
        let second = |t: T| matches!(t, T::S8 | T::E5M2);
        let small = |n: usize| match x.operands.get(n) {
            Some(Operand::Int(i)) => *i,
            _ => 0,
        };
        let (negative, transposed) = match kind {
            0 | 1 if held => ([small(after + 1) < 0, small(after + 2) < 0], [false, small(after + 3) != 0]),
            0 | 1 => ([small(after + 1) < 0, small(after + 2) < 0], [small(after + 3) != 0, small(after + 4) != 0]),
            2 | 3 => ([small(after + 1) < 0, small(after + 2) < 0], [false; 2]),
            _ => ([false; 2], [false; 2]),
        };
        let group = Group {
            kind,
            n: s.n as u16,
            wide: d != T::F16,
            held,
            a: second(a),
            b: second(b),
            sat: x.has(Mod::Satfinite),
            negative,
            transposed,
            sparse: sparse.then(|| small(4) as u8 & 1),
        };
        let mut args = if held { self.values(x, 1)? } else { vec![self.arg(x, 1, Ty::B64)?] };
        args.push(self.arg(x, 2, Ty::B64)?);
        args.push(self.arg(x, after, Ty::P)?);
        if sparse {
            args.push(self.arg(x, 3, Ty::B32)?);
        }
        let sums = self.values(x, 0)?;
        let types: Vec<Ty> = sums.iter().map(|&v| self.f.ty(v)).collect();
        args.extend(sums);
        let id = self.b().push(Op::Wgmma, Attr::default(), Mem::default(), group.pack(), &args, &types);
        let results = self.f.inst(id).results.to_vec();
        self.write_all(x, 0, &results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        for i in 0..9 {
            let bit = |k: usize| i == k;
            let g = Group {
                kind: (i % 6) as u8,
                n: 8 * (1 + i as u16 * 3),
                wide: bit(0),
                held: bit(1),
                a: bit(2),
                b: bit(3),
                sat: bit(4),
                negative: [bit(5), bit(6)],
                transposed: [bit(7), bit(8)],
                sparse: [None, Some(0), Some(1)][i % 3],
            };
            assert_eq!(Group::unpack(g.pack()), g);
        }
    }
}
