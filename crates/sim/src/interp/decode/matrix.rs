//! Matrix products of a warp.

use super::*;
use crate::interp::matrix::{Element, Mma};

impl Decoder<'_> {
    pub(super) fn mma(&mut self, inst: &Inst) -> Result<Exec> {
        let word = |m: &Mod| m.name().strip_prefix('m').and_then(shape);
        let Some([m, n, k]) = inst.mods.iter().find_map(word) else { return gap("no shape") };
        let special = [Mod::Sp, Mod::SpOrderedMetadata, Mod::BlockScale];
        let types = inst.types();
        let [dt, at, bt, ct] = types.as_slice() else { return gap("these types") };
        if special.iter().any(|&s| inst.has(s)) || inst.mods.iter().any(|m| m.name().starts_with("kind::")) {
            return gap("");
        }
        if n != 8 || ![8, 16].contains(&m) || (m, k, *at) == (8, 4, T::F16) {
            return gap("this shape");
        }
        let element = |t: T| Element::of(t).ok_or_else(|| "this type".to_string());
        let mma = Mma {
            m,
            k,
            a: element(*at)?,
            b: element(*bt)?,
            c: *ct,
            d: *dt,
            satfinite: inst.has(Mod::Satfinite),
            and: inst.has(Mod::And),
            round: float::round(inst),
        };
        let [d, a, b, c, ..] = inst.operands else { return gap("operands are missing") };
        let d: SmallVec<[Slot; 8]> = elements(d).iter().map(|o| self.dst(o)).collect::<Result<_>>()?;
        let mut source = |o: &Operand, t: T| -> Result<SmallVec<[Slot; 8]>> {
            let wide = if t == T::F64 { T::B64 } else { T::B32 };
            elements(o).iter().map(|o| self.src(o, if t == T::F32 { T::F32 } else { wide })).collect()
        };
        let (a, b, c) = (source(a, *at)?, source(b, *bt)?, source(c, *ct)?);
        let counts = mma.registers();
        if [d.len(), a.len(), b.len(), c.len()] != counts {
            return gap("the fragments do not fit the shape");
        }
        self.matrix_op(inst, Collective::Mma(Box::new(MmaOp { mma, d, a, b, c })))
    }

    pub(super) fn movmatrix(&mut self, inst: &Inst) -> Result<Exec> {
        let [d, a] = inst.operands else { return gap("operands are missing") };
        let op = Collective::MovMatrix { d: self.dst(d)?, a: self.src(a, T::B32)? };
        self.matrix_op(inst, op)
    }

    fn matrix_op(&mut self, inst: &Inst, op: Collective) -> Result<Exec> {
        let mask = self.constant(0xffff_ffff);
        let key = self.key(inst);
        Ok(Exec::Collective { mask, key, op })
    }
}

/// `16n8k16` as three numbers.
fn shape(text: &str) -> Option<[u32; 3]> {
    let (m, rest) = text.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}
