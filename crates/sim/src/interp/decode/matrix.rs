//! Matrix products of a warp.

use super::*;
use crate::interp::matrix::{Element, Fragment, Mma};
use crate::interp::sparse::Sparse;

impl Decoder<'_> {
    pub(super) fn mma(&mut self, inst: &Inst) -> Result<Exec> {
        let word = |m: &Mod| m.name().strip_prefix('m').and_then(shape);
        let Some([m, n, k]) = inst.mods.iter().find_map(word) else { return gap("no shape") };
        let types = inst.types();
        let [dt, at, bt, ct] = types.as_slice() else { return gap("these types") };
        let sparse = inst.has(Mod::Sp) || inst.has(Mod::SpOrderedMetadata);
        if inst.has(Mod::BlockScale) || inst.mods.iter().any(|m| m.name().starts_with("kind::")) {
            return gap("");
        }
        if n != 8 || ![8, 16].contains(&m) {
            return gap("this shape");
        }
        let element = |t: T| Element::of(t).ok_or_else(|| "this type".to_string());
        let mma = Mma {
            wmma: false,
            m,
            n,
            k,
            a: element(*at)?,
            b: element(*bt)?,
            c: *ct,
            d: *dt,
            satfinite: inst.has(Mod::Satfinite),
            and: inst.has(Mod::And),
            round: float::round(inst),
            sparse: match (sparse, inst.operands.get(5)) {
                (true, Some(Operand::Int(selector))) => {
                    let bits = 32 / element(*at)?.packed();
                    Some(Sparse::new(bits, k, *selector as u32, inst.has(Mod::SpOrderedMetadata))?)
                }
                (true, _) => return gap("the sparsity selector"),
                _ => None,
            },
            quads: ((m, k, *at) == (8, 4, T::F16)).then(|| {
                let mut layouts = inst.mods.iter().filter(|m| matches!(m, Mod::Row | Mod::Col));
                let a = layouts.next() == Some(&Mod::Col);
                (a, layouts.next() == Some(&Mod::Col))
            }),
        };
        let meta = match inst.operands.get(4) {
            Some(m) if sparse => self.src(m, T::B32)?,
            _ => Slot::NONE,
        };
        let [d, a, b, c, ..] = inst.operands else { return gap("operands are missing") };
        let d: SmallVec<[Slot; 8]> = self.elements(d).iter().map(|o| self.dst(o)).collect::<Result<_>>()?;
        let mut source = |o: &Operand, t: T| -> Result<SmallVec<[Slot; 8]>> {
            let wide = if t == T::F64 { T::B64 } else { T::B32 };
            self.elements(o).iter().map(|o| self.src(o, if t == T::F32 { T::F32 } else { wide })).collect()
        };
        let (a, b, c) = (source(a, *at)?, source(b, *bt)?, source(c, *ct)?);
        let counts = mma.registers();
        if [d.len(), a.len(), b.len(), c.len()] != counts {
            return gap("the fragments do not fit the shape");
        }
        self.matrix_op(inst, Collective::Mma(Box::new(MmaOp { mma, d, a, b, c, meta })))
    }

    /// `wmma.load`, `.store` and `.mma`.
    pub(super) fn wmma(&mut self, inst: &Inst) -> Result<Exec> {
        let word = |m: &Mod| m.name().strip_prefix('m').and_then(shape);
        let Some([m, n, k]) = inst.mods.iter().find_map(word) else { return gap("no shape") };
        let types = inst.types();
        let arg = |i: usize| inst.operands.get(i).ok_or_else(|| "an operand is missing".to_string());
        let regs = |d: &mut Self, o: &Operand, to: bool| -> Result<SmallVec<[Slot; 8]>> {
            let wide = if types.first() == Some(&T::F64) { T::B64 } else { T::B32 };
            d.elements(o).iter().map(|o| if to { d.dst(o) } else { d.src(o, wide) }).collect()
        };
        if inst.has(Mod::Load) || inst.has(Mod::Store) {
            let load = inst.has(Mod::Load);
            let t = inst.ty();
            let (rows, columns) = if inst.has(Mod::A) {
                (m, k)
            } else if inst.has(Mod::B) {
                (k, n)
            } else {
                (m, n)
            };
            let sums = !inst.has(Mod::A) && !inst.has(Mod::B);
            let bits = match t {
                T::TF32 => 32,
                T::S4 | T::U4 => 4,
                T::B1 => 1,
                t => t.bits(),
            };
            // A row of A and a column of B begin at whole bytes; single bits of a sum do not occur.
            if bits < 8 && sums {
                return gap("this type");
            }
            let fragment = Fragment { rows, columns, bits, held: bits, by_columns: inst.has(Mod::Col) };
            let (r, at) = if load { (arg(0)?, arg(1)?) } else { (arg(1)?, arg(0)?) };
            let r = regs(self, r, load)?;
            if (r.len() as u32 * 32.max(bits)) < fragment.each() * bits {
                return gap("the fragment does not fit the shape");
            }
            let stride = match inst.operands.get(2) {
                Some(s) => self.src(s, T::U32)?,
                None => Slot::NONE,
            };
            let (space, addr) = (self.space(inst, at)?, self.addr(at)?);
            let op = FragmentOp { load, fragment, space, addr, stride, r };
            return self.matrix_op(inst, Collective::Fragment(Box::new(op)));
        }
        // Types as written: D and C of f16 matrices, all four of the others.
        let (at, bt, ct, dt) = match types.as_slice() {
            [d, c] => (T::F16, T::F16, *c, *d),
            [d, a, b, c] => (*a, *b, *c, *d),
            _ => return gap("these types"),
        };
        let element = |t: T| Element::of(t).ok_or_else(|| "this type".to_string());
        let mma = Mma {
            wmma: true,
            m,
            n,
            k,
            a: element(at)?,
            b: element(bt)?,
            c: ct,
            d: dt,
            satfinite: inst.has(Mod::Satfinite),
            and: inst.has(Mod::And),
            round: float::round(inst),
            sparse: None,
            quads: None,
        };
        let (d, a) = (regs(self, arg(0)?, true)?, regs(self, arg(1)?, false)?);
        let (b, c) = (regs(self, arg(2)?, false)?, regs(self, arg(3)?, false)?);
        let [nd, na, nb, nc] = mma.registers();
        if d.len() != nd || c.len() != nc || a.len() < na.max(1) || b.len() < nb.max(1) {
            return gap("the fragments do not fit the shape");
        }
        self.matrix_op(inst, Collective::Mma(Box::new(MmaOp { mma, d, a, b, c, meta: Slot::NONE })))
    }

    pub(super) fn movmatrix(&mut self, inst: &Inst) -> Result<Exec> {
        let [d, a] = inst.operands else { return gap("operands are missing") };
        let op = Collective::MovMatrix { d: self.dst(d)?, a: self.src(a, T::B32)? };
        self.matrix_op(inst, op)
    }

    pub(super) fn matrix_op(&mut self, inst: &Inst, op: Collective) -> Result<Exec> {
        let mask = self.constant(0xffff_ffff);
        let key = self.key(inst);
        Ok(Exec::Collective { mask, key, op })
    }
}

/// `16n8k16` as three numbers.
pub(super) fn shape(text: &str) -> Option<[u32; 3]> {
    let (m, rest) = text.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}
