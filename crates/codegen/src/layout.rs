//! Where the variables of a module lie: constant bank 3, the address table in bank 4, global memory, shared memory.
//!
//! Orders and alignments are those of the vendor's compiler, as observed (visible variables before static ones, larger
//! alignment first in global memory, declaration order in constant memory).

use ptx::module::{Linkage, Module, VarId, Variable};
use ptx::types::Space;

/// Not placed.
pub const NONE: u32 = u32::MAX;

/// Module-wide placement, shared by all kernels.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Offset in constant bank 3 of each variable, [`NONE`] for others; indexed by [`VarId`].
    pub constant: Vec<u32>,
    /// Size of constant bank 3.
    pub constant_size: u32,
    /// Slot (8 bytes each) in constant bank 4 of each global variable.
    pub slot: Vec<u32>,
    /// Global variables by slot.
    pub slots: Vec<VarId>,
}

fn align_to(n: u64, align: u64) -> u64 {
    n.div_ceil(align.max(1)) * align.max(1)
}

impl Layout {
    /// Places the module-scope variables (and the constant and global ones of function scope).
    pub fn new(m: &Module) -> Layout {
        let n = m.vars.len();
        let mut out = Layout { constant: vec![NONE; n], constant_size: 0, slot: vec![NONE; n], slots: Vec::new() };
        let of = |space: Space, visible: bool| {
            m.vars
                .iter()
                .enumerate()
                .filter(move |(_, v)| v.space == space && (v.linkage != Linkage::Internal) == visible)
        };
        let mut end = 0u64;
        for (i, v) in of(Space::Const, true).chain(of(Space::Const, false)) {
            end = align_to(end, v.align as u64);
            out.constant[i] = end as u32;
            end += v.size();
        }
        out.constant_size = end as u32;
        for (i, _) in of(Space::Global, true).chain(of(Space::Global, false)) {
            out.slot[i] = out.slots.len() as u32;
            out.slots.push(VarId(i as u32));
        }
        out
    }
}

/// Shared memory of one kernel.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Offset of each variable in the CTA's shared memory, [`NONE`] for others; indexed by [`VarId`].
    pub offset: Vec<u32>,
    /// Bytes of static shared memory; dynamic shared memory begins here.
    pub size: u32,
    /// Largest alignment.
    pub align: u32,
    /// True if the kernel reads or writes dynamic shared memory.
    pub dynamic: bool,
}

impl Shared {
    /// Places the given shared variables: function scope first, then module scope, each in declaration order; unsized
    /// (dynamic) ones at the aligned end.
    pub fn new(m: &Module, used: &[VarId]) -> Shared {
        let mut out = Shared { offset: vec![NONE; m.vars.len()], size: 0, align: 1, dynamic: false };
        let mut used: Vec<VarId> = used.to_vec();
        used.sort_unstable();
        used.dedup();
        let var = |v: VarId| -> &Variable { &m.vars[v.index()] };
        let unsized_ = |v: VarId| var(v).size() == 0;
        let mut end = 0u64;
        for local in [true, false] {
            for &v in used.iter().filter(|&&v| var(v).scope.is_some() == local && !unsized_(v)) {
                end = align_to(end, var(v).align as u64);
                out.offset[v.index()] = end as u32;
                out.align = out.align.max(var(v).align);
                end += var(v).size();
            }
        }
        let dynamic = used.iter().copied().filter(|&v| unsized_(v)).collect::<Vec<_>>();
        if let Some(align) = dynamic.iter().map(|&v| var(v).align).max() {
            end = align_to(end, align as u64);
            out.align = out.align.max(align);
            out.dynamic = true;
        }
        for v in dynamic {
            out.offset[v.index()] = end as u32;
        }
        out.size = end.min(u32::MAX as u64) as u32;
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx::module::FuncId;
    use ptx::types::ScalarType;

    fn var(space: Space, linkage: Linkage, align: u32, dims: &[Option<u64>], scope: Option<FuncId>) -> Variable {
        Variable {
            name: String::new(),
            span: Default::default(),
            space,
            linkage,
            align,
            align_written: true,
            ty: ScalarType::B8,
            vector: 1,
            dims: dims.to_vec(),
            init: None,
            ptr: None,
            attributes: vec![],
            scope,
        }
    }

    #[test]
    fn visible_constants_come_first() {
        let vars = vec![
            var(Space::Const, Linkage::Internal, 4, &[Some(5)], None),
            var(Space::Const, Linkage::Visible, 8, &[Some(3)], None),
            var(Space::Global, Linkage::Internal, 4, &[Some(4)], None),
        ];
        let l = Layout::new(&Module { vars, ..Module::default() });
        assert_eq!((l.constant[1], l.constant[0], l.constant_size, l.slot[2]), (0, 4, 9, 0));
    }

    #[test]
    fn dynamic_shared_memory_starts_at_the_aligned_end() {
        let vars = vec![
            var(Space::Shared, Linkage::Extern, 16, &[None], None),
            var(Space::Shared, Linkage::Internal, 4, &[Some(20)], None),
            var(Space::Shared, Linkage::Internal, 8, &[Some(40)], Some(FuncId(0))),
        ];
        let s = Shared::new(&Module { vars, ..Module::default() }, &[VarId(0), VarId(1), VarId(2)]);
        assert_eq!((s.offset[2], s.offset[1], s.offset[0], s.size, s.dynamic), (0, 40, 64, 64, true));
    }
}
