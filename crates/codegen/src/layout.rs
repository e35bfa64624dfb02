//! Where the variables of a module lie: constant bank 3, the address table in bank 4, global memory, shared memory.
//!
//! Where constants and globals lie is the image's to say ([`cubin::image::Layout`]); shared memory is each kernel's own.

use crate::lower::call;
use cubin::image;
use diag::Diagnostic;
use ptx::isa::Op;
use ptx::module::{Body, FuncId, FuncKind, InitValue, Linkage, Module, Operand, VarId, Variable};
use ptx::types::Space;
use rustc_hash::FxHashMap;

/// Not placed.
pub const NONE: u32 = u32::MAX;

/// Module-wide placement, shared by all kernels.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Offset in constant bank 3 of each variable, [`NONE`] for others; indexed by [`VarId`].
    pub constant: Vec<u32>,
    /// Size of constant bank 3.
    pub constant_size: u32,
    /// Slot (8 bytes each) in constant bank 4 of each global variable; [`NONE`] for those in [`Layout::away`].
    pub slot: Vec<u32>,
    /// Global variables without a slot, where there are more than slots: the variable that each is counted from, and how far it is.
    pub away: FxHashMap<VarId, (VarId, i64)>,
    /// Functions of the system that the module calls: the first slots of constant bank 4.
    pub externs: Vec<FuncId>,
    /// Functions of the system that do fetches of textures: the slots behind those. A relocatable module calls them by name.
    pub fetches: Vec<String>,
    /// Functions whose address is taken, sorted: a pointer to the one at place `i` is `8 * (i + 1)`.
    pub taken: Vec<FuncId>,
    /// The module has an array of shared memory whose size the launch says.
    pub dynamic: bool,
    /// Nothing is placed: code refers to variables and functions by name, and a linker places them.
    pub relocatable: bool,
    /// The chip that code is made for, as `90`.
    pub sm: u16,
}

/// Bytes of constant bank 3, of which a module that is not linked may have any.
const MOST_CONSTANTS: u32 = 1 << 16;

/// The functions of the system that a module calls, in the order of the calls.
fn system_calls(m: &Module) -> Vec<FuncId> {
    let mut out = Vec::new();
    let calls = |b: &&Body| b.may_name_functions() && b.module_has(|op| op == Op::Call);
    for body in m.funcs.iter().filter_map(|f| f.body.as_ref()).filter(calls) {
        for x in body.unpacked().insts() {
            if x.op == Op::Call
                && let Some(Operand::Func(f)) = x.operands.get(1)
                && m.funcs[f.index()].body.is_none()
                && ptx::SYSTEM.contains(&m.funcs[f.index()].name.as_str())
                && !out.contains(f)
            {
                out.push(*f);
            }
        }
    }
    out
}

/// True for a module whose samplers are apart from its textures.
pub fn independent_textures(m: &Module) -> bool {
    m.target.iter().any(|w| w == "texmode_independent")
}

/// Fetches of textures that the system does.
fn system_fetches(m: &Module) -> Vec<String> {
    let mut out = Vec::new();
    let independent = crate::layout::independent_textures(m);
    for f in &m.funcs {
        let body = f.body.as_ref().filter(|b| b.module_has(|op| op == Op::Tex)).map(Body::unpacked);
        for x in body.iter().flat_map(|b| b.insts()) {
            if let Some(name) = crate::lower::texture::system_function(&x, f, independent)
                && !out.contains(&name)
            {
                out.push(name);
            }
        }
    }
    out
}

fn align_to(n: u64, align: u64) -> u64 {
    n.div_ceil(align.max(1)) * align.max(1)
}

impl Layout {
    /// The layout of a relocatable module: a linker's.
    pub fn relocatable(m: &Module, sm: u16) -> Layout {
        let n = m.vars.len();
        let constant_size = m.vars.iter().any(|v| v.space == Space::Const) as u32 * MOST_CONSTANTS;
        let (constant, slot) = (vec![NONE; n], vec![NONE; n]);
        let (dynamic, fetches) = (dynamic(m), system_fetches(m));
        Layout { constant, constant_size, slot, fetches, dynamic, relocatable: true, sm, ..Layout::default() }
    }

    /// Places the variables of constant and global memory, of any scope: where the image puts them.
    pub fn new(m: &Module, sm: u16) -> Layout {
        let n = m.vars.len();
        let externs = system_calls(m);
        let fetches = system_fetches(m);
        let (constant, slot, taken) = (vec![NONE; n], vec![NONE; n], call::address_taken(m));
        let mut out = Layout { constant, slot, externs, fetches, taken, dynamic: dynamic(m), sm, ..Layout::default() };
        let listed = listed(m);
        let variables: Vec<image::Variable> = listed.iter().map(|&v| plain_variable(m, v)).collect();
        let placed = image::Layout::of(&variables);
        let mut anchors: FxHashMap<&str, usize> = FxHashMap::default();
        for i in (0..listed.len()).filter(|&i| placed.slots[i].is_some()) {
            anchors.entry(variables[i].section()).or_insert(i);
        }
        for (i, v) in listed.iter().enumerate() {
            match placed.slots[i] {
                None if variables[i].space == image::Space::Global => {
                    let from = anchors[variables[i].section()];
                    out.away.insert(*v, (listed[from], placed.offsets[i] as i64 - placed.offsets[from] as i64));
                }
                Some(at) => out.slot[v.index()] = at / 8 + (out.externs.len() + out.fetches.len()) as u32,
                None => {
                    let at = placed.offsets[i] as u32;
                    out.constant[v.index()] = at;
                    out.constant_size = out.constant_size.max(at + variables[i].size as u32);
                }
            }
        }
        out
    }

    /// The variable with a slot of its own that a global variable is counted from, and how far it is: most are their own.
    pub fn from(&self, v: VarId) -> (VarId, i64) {
        self.away.get(&v).copied().unwrap_or((v, 0))
    }

    /// The value that a pointer to a function has in this module.
    pub fn pointer(&self, f: FuncId) -> Option<u64> {
        self.taken.binary_search(&f).ok().map(|i| 8 * (i as u64 + 1))
    }
}

/// True for a module with an array of shared memory without a size.
fn dynamic(m: &Module) -> bool {
    m.vars.iter().any(|v| v.space == Space::Shared && v.size() == 0)
}

/// The variables that the image names, in the order of the PTX.
fn listed(m: &Module) -> Vec<VarId> {
    (0..m.vars.len() as u32)
        .map(VarId)
        .filter(|v| matches!(m.vars[v.index()].space, Space::Global | Space::Const))
        .filter(|v| !m.vars[v.index()].ty.is_opaque())
        .collect()
}

/// A variable without its content, which says in what section it lies by having one.
fn plain_variable(m: &Module, v: VarId) -> image::Variable {
    let var = &m.vars[v.index()];
    image::Variable {
        name: var.name.clone(),
        binding: match var.linkage {
            Linkage::Internal => image::Binding::Local,
            Linkage::Weak | Linkage::Common => image::Binding::Weak,
            _ => image::Binding::Global,
        },
        space: if var.space == Space::Const { image::Space::Constant } else { image::Space::Global },
        align: var.align as u64,
        size: var.size(),
        managed: var.attributes.iter().any(|a| a.contains("managed")),
        init: var.init.is_some().then(Vec::new),
        ..image::Variable::default()
    }
}

/// The variables of a module with their content, for the image.
///
/// # Errors
/// An initialiser that the image cannot hold, with its place.
pub fn image_variables(m: &Module, layout: &Layout) -> Result<Vec<image::Variable>, Diagnostic> {
    let name = |v: VarId| m.vars[v.index()].name.clone();
    listed(m).into_iter().map(|v| content(m, v, Some(layout), &name)).collect()
}

/// A variable of a relocatable module with its content, in which functions and variables stand by name.
///
/// # Errors
/// As [`image_variables`].
pub fn content_by_name(m: &Module, v: VarId, name: &dyn Fn(VarId) -> String) -> Result<image::Variable, Diagnostic> {
    content(m, v, None, name)
}

/// `placed` says where constants lie and what pointers to functions are; where it is none, both stand by name.
fn content(
    m: &Module,
    v: VarId,
    placed: Option<&Layout>,
    name: &dyn Fn(VarId) -> String,
) -> Result<image::Variable, Diagnostic> {
    let var = &m.vars[v.index()];
    let mut out = plain_variable(m, v);
    let Some(init) = &var.init else { return Ok(out) };
    let width = var.ty.bytes() as usize;
    let mut bytes = Vec::with_capacity(init.len() * width);
    for value in init {
        let bits = match value {
            InitValue::Bits(b) => *b,
            InitValue::Func(f) => match (placed, m.funcs[f.index()].kind == FuncKind::Entry) {
                (Some(layout), false) => {
                    out.resolved = true;
                    layout.pointer(call::target(m, *f)).unwrap_or(0)
                }
                // The driver alone knows where a kernel's descriptor lies.
                (_, entry) if width == 8 => {
                    let kind = if entry { image::DataRelocKind::Descriptor64 } else { image::DataRelocKind::Address64 };
                    let symbol = m.funcs[f.index()].name.clone();
                    out.relocs.push(image::DataReloc { offset: bytes.len() as u64, kind, symbol, addend: 0 });
                    0
                }
                _ => return Err(initialiser(var, "the address of a function in elements of this size")),
            },
            InitValue::FuncByte(f, mask) => {
                let (byte, entry) = (ptx::module::masked_byte(*mask), m.funcs[f.index()].kind == FuncKind::Entry);
                match placed {
                    Some(layout) if !entry => {
                        out.resolved = true;
                        layout.pointer(call::target(m, *f)).unwrap_or(0) >> (8 * byte)
                    }
                    _ => {
                        let kind = match entry {
                            true => image::DataRelocKind::DescriptorByte(byte as u8),
                            false => image::DataRelocKind::AddressByte(byte as u8),
                        };
                        let symbol = m.funcs[f.index()].name.clone();
                        out.relocs.push(image::DataReloc { offset: bytes.len() as u64, kind, symbol, addend: 0 });
                        0
                    }
                }
            }
            InitValue::Var { var: target, offset, mask: Some(mask), generic }
                if width == 1 && (*generic || m.vars[target.index()].space == Space::Global) =>
            {
                let kind = image::DataRelocKind::GenericByte(ptx::module::masked_byte(*mask) as u8);
                let (offset, addend) = (bytes.len() as u64, *offset);
                out.relocs.push(image::DataReloc { offset, kind, symbol: name(*target), addend });
                0
            }
            InitValue::Var { var: target, offset: addend, generic, mask } => {
                let space = m.vars[target.index()].space;
                // The name of a constant alone is its place in the bank, also in data of global memory. (ptxas 13.5. With `-c` it
                // writes 64 bits for elements of 32, and what stands behind them into the addend.)
                let in_bank = space == Space::Const && !generic;
                let kind = match (width, in_bank) {
                    (8, false) => image::DataRelocKind::Generic64,
                    (4, false) => image::DataRelocKind::Generic32,
                    (8, true) => image::DataRelocKind::Address64,
                    (4, true) => image::DataRelocKind::Low32,
                    _ => return Err(initialiser(var, "an address in elements of this size")),
                };
                if mask.is_some() || !matches!(space, Space::Global | Space::Const) {
                    return Err(initialiser(var, "a part of an address, or an address in shared or local memory,"));
                }
                match placed.filter(|_| in_bank) {
                    Some(layout) => u64::from(layout.constant[target.index()]).wrapping_add_signed(*addend),
                    None => {
                        let (offset, symbol) = (bytes.len() as u64, name(*target));
                        out.relocs.push(image::DataReloc { offset, kind, symbol, addend: *addend });
                        0
                    }
                }
            }
        };
        bytes.extend(&bits.to_le_bytes()[..width.min(8)]);
        bytes.resize(bytes.len() + width.saturating_sub(8), 0);
    }
    out.init = Some(bytes);
    Ok(out)
}

fn initialiser(var: &Variable, what: &str) -> Diagnostic {
    Diagnostic::error(format!("{what} in the initialiser of '{}' is not supported yet", var.name)).at(var.span)
}

/// Shared memory of one kernel.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Offset of each variable that is used in the CTA's shared memory, in the order of their numbers.
    pub offset: Vec<(VarId, u32)>,
    /// Bytes of static shared memory; dynamic shared memory begins here.
    pub size: u32,
    /// Largest alignment.
    pub align: u32,
    /// True if the kernel reads or writes dynamic shared memory.
    pub dynamic: bool,
    /// True if its code asks how much shared memory there is.
    pub asked: bool,
}

impl Shared {
    /// Places the given shared variables: function scope first, then module scope, each in declaration order; unsized
    /// (dynamic) ones at the aligned end.
    pub fn new(m: &Module, used: &[VarId]) -> Shared {
        let mut out = Shared { offset: Vec::new(), size: 0, align: 1, dynamic: false, asked: false };
        let mut used: Vec<VarId> = used.to_vec();
        used.sort_unstable();
        used.dedup();
        let var = |v: VarId| -> &Variable { &m.vars[v.index()] };
        let unsized_ = |v: VarId| var(v).size() == 0;
        let mut end = 0u64;
        for local in [true, false] {
            for &v in used.iter().filter(|&&v| var(v).scope.is_some() == local && !unsized_(v)) {
                end = align_to(end, var(v).align as u64);
                out.offset.push((v, end as u32));
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
            out.offset.push((v, end as u32));
        }
        out.offset.sort_unstable();
        out.size = end.min(u32::MAX as u64) as u32;
        out
    }

    /// The offset of a variable; none where the kernel does not use it.
    pub fn at(&self, v: VarId) -> Option<u32> {
        self.offset.binary_search_by_key(&v, |o| o.0).ok().map(|i| self.offset[i].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            fields: vec![],
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
        let l = Layout::new(&Module { vars, ..Module::default() }, 90);
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
        assert_eq!([2, 1, 0, 3].map(|v| s.at(VarId(v))), [Some(0), Some(40), Some(64), None]);
        assert_eq!((s.size, s.dynamic), (64, true));
    }
}
