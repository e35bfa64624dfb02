//! Copies by tensor maps, and changes of tensor maps.

use super::memory::atom_fn;
use super::*;
use crate::tensormap::{Field, Type};

impl Decoder<'_> {
    /// `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`, `cp.async.bulk.prefetch.tensor`
    pub(super) fn tensor_copy(&mut self, inst: &Inst) -> Result<Exec> {
        let ops = &inst.operands;
        let odd = [Mod::TileGather4, Mod::TileScatter4, Mod::Im2colW, Mod::Im2colW128];
        if let Some(m) = odd.iter().find(|&&m| inst.has(m)) {
            return gap(format!(".{}", m.name()));
        }
        let arg = |i: usize| ops.get(i).ok_or_else(|| "an operand is missing".to_string());
        let at = ops.iter().position(|o| matches!(o, Operand::TexMem(_))).ok_or("a tensor map is missing")?;
        let Operand::TexMem(parts) = &ops[at] else { return gap("") };
        let [map, coordinates] = parts.as_slice() else { return gap("this kind of address") };
        let map = self.map_address(map)?;
        let coordinates = self.elements(coordinates).iter().map(|o| self.src(o, T::S32)).collect::<Result<_>>()?;
        let mut x = TensorCopy {
            map,
            coordinates,
            offsets: (inst.has(Mod::Im2col) || inst.has(Mod::Im2colNoOffs)).then(SmallVec::new),
            what: TensorMove::Prefetch,
        };
        let mut rest = at + 1;
        if inst.has(Mod::BulkGroup) {
            let from = self.addr(arg(1)?)?;
            let reduce = match inst.has(Mod::Reduce) {
                false => None,
                true => {
                    let op = inst.mods.iter().find_map(|&m| AtomOp::from_mod(m)).ok_or("no operation")?;
                    Some(Type::ALL.iter().map(|t| reduction(op, t.0)).collect())
                }
            };
            x.what = TensorMove::Store { from, reduce };
            rest = 2;
        } else if !inst.has(Mod::Prefetch) {
            let (to, done) = (self.addr(arg(0)?)?, self.addr(arg(2)?)?);
            rest = 3;
            x.what = TensorMove::Load { to, done, multicast: None };
        }
        if inst.has(Mod::Im2col)
            && let Some(list) = &mut x.offsets
        {
            *list = self.elements(arg(rest)?).iter().map(|o| self.src(o, T::U16)).collect::<Result<_>>()?;
            rest += 1;
        }
        if inst.has(Mod::MulticastCluster) {
            let mask = self.src(arg(rest)?, T::U16)?;
            if let TensorMove::Load { multicast, .. } = &mut x.what {
                *multicast = Some(mask);
            }
        }
        Ok(Exec::TensorCopy(Box::new(x)))
    }

    /// The generic address of a map.
    fn map_address(&mut self, op: &Operand) -> Result<Slot> {
        if let Operand::Var { var, offset } = op {
            match self.l.places[var.index()] {
                Place::Param(off) => return Ok(self.constant(PARAM + off as u64 + *offset as u64)),
                Place::Const(off) => return Ok(self.constant(CONST + off as u64 + *offset as u64)),
                Place::Global(_) => {}
                _ => return gap("a tensor map of this state space"),
            }
        }
        self.src(op, T::U64)
    }

    /// `tensormap.replace` and `.cp_fenceproxy`
    pub(super) fn tensormap(&mut self, inst: &Inst) -> Result<Exec> {
        let ops = &inst.operands;
        let arg = |i: usize| ops.get(i).ok_or_else(|| "an operand is missing".to_string());
        if inst.has(Mod::CpFenceproxy) {
            let op = Collective::MapCopy { to: self.addr(arg(0)?)?, from: self.addr(arg(1)?)? };
            return self.matrix_op(inst, op);
        }
        let (space, addr) = (self.space(inst, arg(0)?)?, self.addr(arg(0)?)?);
        let ordinal = || match arg(1) {
            Ok(Operand::Int(n)) => Ok(*n as usize),
            _ => gap("the number of a dimension"),
        };
        type Make = fn(usize) -> Field;
        let table: [(Mod, bool, Make); 10] = [
            (Mod::GlobalAddress, false, |_| Field::Address),
            (Mod::Rank, false, |_| Field::Rank),
            (Mod::BoxDim, true, Field::Box),
            (Mod::GlobalDim, true, Field::Dim),
            (Mod::GlobalStride, true, Field::Stride),
            (Mod::ElementStride, true, Field::Step),
            (Mod::Elemtype, false, |_| Field::Type),
            (Mod::InterleaveLayout, false, |_| Field::Interleave),
            (Mod::SwizzleMode, false, |_| Field::Swizzle),
            (Mod::FillMode, false, |_| Field::Fill),
        ];
        let Some((m, numbered, make)) = table.iter().find(|t| inst.has(t.0)) else { return gap("this field") };
        let n = if *numbered { ordinal()? } else { 0 };
        if n > if *m == Mod::GlobalStride { 3 } else { 4 } {
            return gap(format!("dimension {n}"));
        }
        let value = self.src(arg(1 + *numbered as usize)?, inst.ty())?;
        Ok(Exec::MapReplace(Box::new(MapReplace { space, addr, field: make(n), value })))
    }
}

/// What a reduction does with elements of a type, if it is defined for them.
fn reduction(op: AtomOp, t: Type) -> Option<AtomFn> {
    let ty = match t {
        Type::U32 => T::U32,
        Type::S32 => T::S32,
        Type::U64 => T::U64,
        Type::S64 => T::S64,
        Type::F16 => T::F16,
        Type::BF16 => T::BF16,
        Type::F32 | Type::F32Ftz => T::F32,
        Type::F64 => T::F64,
        _ => return None,
    };
    let fits = match op {
        AtomOp::Inc | AtomOp::Dec => t == Type::U32,
        AtomOp::Add => true,
        AtomOp::Min | AtomOp::Max => !matches!(ty, T::F32 | T::F64),
        AtomOp::And | AtomOp::Or | AtomOp::Xor => ty.is_int(),
        _ => false,
    };
    if fits { atom_fn(op, ty).ok().map(|f| f.0) } else { None }
}
