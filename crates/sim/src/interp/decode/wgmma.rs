//! Matrix products of a warpgroup.

use super::matrix::shape;
use super::*;
use crate::interp::matrix::Element;
use crate::interp::sparse::Sparse;
use crate::interp::wgmma::Wgmma;

impl Decoder<'_> {
    pub(super) fn wgmma(&mut self, inst: &Inst) -> Result<Exec> {
        self.p.warpgroups = true;
        let op = if inst.has(Mod::MmaAsync) {
            return self.wgmma_product(inst);
        } else if inst.has(Mod::Fence) {
            WgmmaOp::Fence
        } else if inst.has(Mod::CommitGroup) {
            WgmmaOp::Commit
        } else if inst.has(Mod::WaitGroup) {
            let Some(Operand::Int(n)) = inst.operands.first() else { return gap("the number of groups") };
            WgmmaOp::Wait((*n).clamp(0, u32::MAX as i64) as u32)
        } else {
            return gap("");
        };
        self.matrix_op(inst, Collective::Wgmma(Box::new(op)))
    }

    /// `setmaxnreg`
    pub(super) fn registers(&mut self, inst: &Inst) -> Result<Exec> {
        let Some(Operand::Int(n)) = inst.operands.first() else { return gap("the number of registers") };
        let op = WgmmaOp::Registers(inst.has(Mod::Inc), (*n).clamp(0, 256) as u32);
        self.matrix_op(inst, Collective::Wgmma(Box::new(op)))
    }

    fn wgmma_product(&mut self, inst: &Inst) -> Result<Exec> {
        let word = |m: &Mod| m.name().strip_prefix('m').and_then(shape);
        let Some([_, n, k]) = inst.mods.iter().find_map(word) else { return gap("no shape") };
        let types = inst.types();
        let [dt, at, bt] = types.as_slice() else { return gap("these types") };
        let element = |t: T| Element::of(t).ok_or_else(|| "this type".to_string());
        let (a, b) = (element(*at)?, element(*bt)?);
        let mut rest = inst.operands.iter();
        let mut next = || rest.next().ok_or_else(|| "an operand is missing".to_string());
        let d = self.elements(next()?).iter().map(|o| self.dst(o)).collect::<Result<_>>()?;
        let from = match next()? {
            v @ Operand::Vector(_) => {
                MatrixA::Held(self.elements(v).iter().map(|o| self.src(o, T::B32)).collect::<Result<_>>()?)
            }
            o => MatrixA::Shared(self.src(o, T::B64)?),
        };
        let right = self.src(next()?, T::B64)?;
        let (mut sparse, mut meta) = (None, Slot::NONE);
        if inst.has(Mod::Sp) {
            meta = self.src(next()?, T::B32)?;
            let Operand::Int(selector) = next()? else { return gap("the sparsity selector") };
            sparse = Some(Sparse::new(32 / a.packed(), k, *selector as u32, false)?);
        }
        let scale = match next()? {
            Operand::Int(n) => PRef { slot: 0, neg: *n == 0 },
            o => self.psrc(o)?,
        };
        let mut immediate = || match next() {
            Ok(Operand::Int(n)) => Ok(Some(*n)),
            Ok(_) => gap("this kind of operand"),
            Err(_) => Ok(None),
        };
        let (scale_a, scale_b) = (immediate()?, immediate()?);
        let held = matches!(from, MatrixA::Held(_));
        let trans_a = if held { None } else { immediate()? };
        let trans_b = immediate()?;
        let x = Wgmma {
            n,
            k,
            a,
            b,
            d: *dt,
            satfinite: inst.has(Mod::Satfinite),
            negate_a: scale_a == Some(-1),
            negate_b: scale_b == Some(-1),
            trans_a: trans_a == Some(1),
            trans_b: trans_b == Some(1),
            sparse,
        };
        let op = WgmmaProduct { x, d, a: from, b: right, scale, meta };
        if op.d.len() != x.registers() || matches!(&op.a, MatrixA::Held(r) if r.len() != 4) {
            return gap("the fragments do not fit the shape");
        }
        self.matrix_op(inst, Collective::Wgmma(Box::new(WgmmaOp::Product(op))))
    }
}
