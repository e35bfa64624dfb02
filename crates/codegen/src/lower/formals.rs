//! Parameters and results of a device function: words of the ABI, and what stands for them in the function.
//!
//! A `.param` is a row of words, each a variable of the construction of SSA; where its address is taken it lies in the frame as well, as it may
//! not be written. A `.reg` is a register; a vector of them lies in words as it would in memory,
//! and so does one of 128 bits.

use super::{Lower, Res, unsupported};
use crate::ir::{Attr, Mem, MemSpace, Op, Ty, Value};
use ptx::isa::Op as P;
use ptx::module::{FuncKind, Operand, RegId, VarId};
use ptx::types::Space;

impl Lower<'_, '_> {
    /// Parameter `v` gets its words.
    pub(super) fn set_formal(&mut self, v: VarId, words: &[Value]) -> Res {
        if self.m.vars[v.index()].space == Space::Param {
            let (first, _) = self.words_of(v);
            for (w, &value) in words.iter().enumerate() {
                self.write_var(first + w as u32, value);
            }
            if let Some(&at) = self.locals.get(&v) {
                let base = self.with_imm(Op::LocalAddr, at.into(), Ty::B32);
                let mem = Mem { space: MemSpace::Local, bytes: 4, ..Mem::default() };
                for (w, &value) in words.iter().enumerate() {
                    self.b().push(Op::Store, Attr::default(), mem, 4 * w as i64, &[base, value], &[]);
                }
            }
            return Ok(());
        }
        let register = self.register_named(v)?;
        if self.parts_of(&register).is_some() {
            return self.write_parts(&register, words);
        }
        let value = match *words {
            [lo, hi] => self.pack(lo, hi),
            [one] => one,
            _ => return unsupported("a register parameter of this size", self.m.vars[v.index()].span),
        };
        let Operand::Reg { reg, .. } = register else { return Ok(()) };
        if self.reg_ty(reg) == Ty::P {
            let zero = self.konst(Ty::B32, 0);
            let value = self.b().icmp(crate::ir::Cmp::Ne, false, value, zero);
            return self.write(&register, value, false);
        }
        self.write(&register, value, false)
    }

    /// The words of a parameter, of a result, or of a variable for a call, read.
    pub(super) fn formal_words(&mut self, v: VarId) -> Res<Vec<Value>> {
        if self.m.vars[v.index()].space == Space::Param {
            let (first, n) = self.words_of(v);
            return Ok((first..first + n).map(|w| self.read_var(w)).collect());
        }
        let register = self.register_named(v)?;
        if self.parts_of(&register).is_some() {
            return Ok(self.parts_words(&register));
        }
        let Operand::Reg { reg, .. } = register else { return Ok(Vec::new()) };
        let value = self.read_reg(reg, None);
        Ok(self.value_words(value))
    }

    /// The register that stands for a `.reg` parameter.
    fn register_named(&self, v: VarId) -> Res<Operand> {
        let name = &self.m.vars[v.index()].name;
        match (0..self.pf.regs.len() as u32).map(RegId).find(|&r| &self.pf.reg_name(r) == name) {
            Some(reg) => Ok(Operand::Reg { reg, elem: None }),
            None => unsupported(format!("register parameter '{name}'"), self.m.vars[v.index()].span),
        }
    }

    pub(super) fn value_words(&mut self, v: Value) -> Vec<Value> {
        match self.f.ty(v) {
            Ty::B64 => {
                let (lo, hi) = self.b().halves(v);
                vec![lo, hi]
            }
            Ty::P => {
                let (one, zero) = (self.konst(Ty::B32, 1), self.konst(Ty::B32, 0));
                vec![self.op(Op::Select, &[one, zero, v], Ty::B32)]
            }
            _ => vec![self.b().resize(v, Ty::B32, false)],
        }
    }

    /// The elements of a vector register, or the halves of one of 128 bits, and the bytes of each; none for other operands.
    pub(super) fn parts_of(&self, operand: &Operand) -> Option<(Vec<Operand>, u32)> {
        let Operand::Reg { reg, elem: None } = *operand else { return None };
        match self.pf.regs[reg.index()].ty.bytes() {
            16 => Some(([0, 1].map(|e| Operand::Reg { reg, elem: Some(e) }).to_vec(), 8)),
            bytes => Some((self.pf.elements_of(operand)?, bytes)),
        }
    }

    /// Writes words to such a register.
    pub(super) fn write_parts(&mut self, operand: &Operand, words: &[Value]) -> Res {
        let (parts, bytes) = self.parts_of(operand).unwrap_or_default();
        let values = self.elements_in(words, bytes, parts.len());
        parts.iter().zip(values).try_for_each(|(part, value)| self.write(part, value, false))
    }

    /// The words that such a register is.
    pub(super) fn parts_words(&mut self, operand: &Operand) -> Vec<Value> {
        let (parts, bytes) = self.parts_of(operand).unwrap_or_default();
        let mut words: Vec<Value> = Vec::new();
        for (n, part) in (0..).zip(parts) {
            let Operand::Reg { reg, elem } = part else { continue };
            let value = self.read_reg(reg, elem);
            let at = n * bytes % 4;
            match words.last_mut() {
                Some(&mut word) if at != 0 => {
                    let value = self.b().resize(value, Ty::B32, false);
                    let (at, width) =
                        (self.konst(Ty::B32, u64::from(at) * 8), self.konst(Ty::B32, u64::from(bytes) * 8));
                    let word = self.op(Op::Bfi, &[value, word, at, width], Ty::B32);
                    words.pop();
                    words.push(word);
                }
                _ => words.extend(self.value_words(value)),
            }
        }
        words
    }

    /// The first `n` elements of so many bytes in these words.
    fn elements_in(&mut self, words: &[Value], bytes: u32, n: usize) -> Vec<Value> {
        let element = |at: usize| match (bytes, words.get(at / 4), words.get(at / 4 + 1)) {
            (8, Some(&lo), Some(&hi)) => Some(self.pack(lo, hi)),
            (4, Some(&word), _) => Some(word),
            (_, Some(&word), _) => {
                let at = self.konst(Ty::B32, at as u64 % 4 * 8);
                let width = self.konst(Ty::B32, u64::from(bytes) * 8);
                Some(self.op(Op::Bfe, &[word, at, width], Ty::B32))
            }
            _ => None,
        };
        (0..n).map(|n| n * bytes as usize).filter_map(element).collect()
    }

    /// Parameters whose address the function takes; not one without a size, which stands on the caller's stack.
    pub(super) fn addressed(&self) -> Vec<VarId> {
        let of_ours = |o: &Operand| match o {
            Operand::Var { var, .. } if self.pf.params.contains(var) => {
                (!self.m.vars[var.index()].dims.contains(&None)).then_some(*var)
            }
            _ => None,
        };
        if self.pf.kind != FuncKind::Func
            || !self.pf.params.iter().any(|p| self.m.vars[p.index()].space == Space::Param)
        {
            return Vec::new();
        }
        let moves = self.body.iter().flat_map(|b| b.insts()).filter(|x| x.op != P::Call);
        let mut all: Vec<VarId> =
            moves.flat_map(|x| x.operands.iter().filter_map(of_ours).collect::<Vec<_>>()).collect();
        all.sort_unstable_by_key(|v| v.index());
        all.dedup();
        all
    }
}
