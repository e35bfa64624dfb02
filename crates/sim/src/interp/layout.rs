//! Where variables lie: addresses of globals and constants, offsets in shared memory, frames and parameters.

use crate::memory::{CONST, Global, SHARED_RESERVED};
use ptx::isa::Op;
use ptx::module::{AddressBase, FuncId, FuncKind, InitValue, Item, Module, Operand, VarId, Variable};
use ptx::types::Space;

/// Address of function `n` as a value: this plus `n`.
pub const FUNCTION: u64 = 0x7a00_0000_0000;

/// Where a variable lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Address in global memory.
    Global(u64),
    /// Offset in the module's constant memory.
    Const(u32),
    /// Offset in shared memory.
    Shared(u32),
    /// Offset in the frame of its function.
    Frame(u32),
    /// Offset in the parameters of the kernel.
    Param(u32),
    /// Has no place (a prototype's parameter, a texture reference, another kernel's parameter).
    None,
}

/// Places of all variables.
#[derive(Debug, Default)]
pub struct Layout {
    /// By variable.
    pub places: Vec<Place>,
    /// Bytes of the frame, by function.
    pub frames: Vec<u32>,
    /// Content of constant memory.
    pub constant: Vec<u8>,
    /// End of static shared memory, where dynamic shared memory starts.
    pub shared: u32,
    /// Bytes of the kernel's parameters.
    pub param_size: u32,
}

/// Bytes that a frame has for a parameter without a size, whatever a call passes.
pub const OPEN_ROOM: u32 = 4096;

fn up(n: u32, align: u32) -> u32 {
    n.next_multiple_of(align.max(1))
}

/// Which variables the code names that a launch of `entry` may run: it, and what it calls or might through an address. Shared
/// memory has room for these alone, as compilers give it.
fn named(m: &Module, entry: FuncId) -> Vec<bool> {
    fn look(o: &Operand, vars: &mut [bool], funcs: &mut Vec<FuncId>) {
        match o {
            Operand::Var { var, .. } => vars[var.index()] = true,
            Operand::Mem(a) => {
                if let AddressBase::Var(v) = a.base() {
                    vars[v.index()] = true;
                }
            }
            Operand::Func(f) if !funcs.contains(f) => funcs.push(*f),
            Operand::Pair(p) => {
                look(&p.0, vars, funcs);
                look(&p.1, vars, funcs);
            }
            Operand::Vector(list) | Operand::List(list) | Operand::TexMem(list) => {
                list.iter().for_each(|o| look(o, vars, funcs));
            }
            _ => {}
        }
    }
    let mut vars = vec![false; m.vars.len()];
    let mut funcs = vec![entry];
    for value in m.vars.iter().flat_map(|v| v.init.iter().flatten()) {
        match value {
            InitValue::Func(f) | InitValue::FuncByte(f, _) => funcs.push(*f),
            InitValue::Var { var, .. } => vars[var.index()] = true,
            InitValue::Bits(_) => {}
        }
    }
    for item in &m.items {
        if let Item::Alias { target, .. } = item {
            funcs.push(*target);
        }
    }
    let mut at = 0;
    while let Some(&f) = funcs.get(at) {
        at += 1;
        for o in m.funcs[f.index()].body.iter().flat_map(|b| b.operands()) {
            look(o, &mut vars, &mut funcs);
        }
    }
    vars
}

/// Where the last byte ends that `ld.param` and `st.param` name of each variable, from its begin: code may read a vector of four of twelve
/// bytes, and what it writes beyond a parameter must not change another.
fn touched(m: &Module) -> Vec<u32> {
    /// Bytes beyond which nobody is believed.
    const MOST: i64 = 1 << 16;
    let mut ends = vec![0; m.vars.len()];
    for f in &m.funcs {
        for i in f.body.iter().flat_map(|b| b.insts()) {
            let (a, v) = match (i.op, i.operands) {
                (Op::Ld, [v, Operand::Mem(a), ..]) | (Op::St, [Operand::Mem(a), v, ..]) => (a, v),
                _ => continue,
            };
            let AddressBase::Var(var) = a.base() else { continue };
            let count = match v {
                Operand::Vector(list) => list.len(),
                v => f.elements_of(v).map_or(1, |l| l.len()),
            };
            let end = a.offset().saturating_add(count as i64 * i64::from(i.ty().bytes()));
            if (1..=MOST).contains(&end) {
                ends[var.index()] = end.max(i64::from(ends[var.index()])) as u32;
            }
        }
    }
    ends
}

/// Lays out the variables of a module for a launch of `entry`, with globals in `global`.
pub fn layout(m: &Module, entry: FuncId, global: &mut Global) -> Layout {
    let mut l = Layout { places: vec![Place::None; m.vars.len()], frames: vec![0; m.funcs.len()], ..Layout::default() };
    let touched = touched(m);
    for (i, f) in m.funcs.iter().enumerate() {
        for &v in f.params.iter().chain(&f.returns) {
            let var = &m.vars[v.index()];
            let open = f.kind == FuncKind::Func && var.dims.contains(&None);
            let size = if open { OPEN_ROOM } else { var.size().min(u32::MAX as u64 / 4) as u32 };
            // Formals in registers are passed in the frame, too: see `decode`.
            if f.kind == FuncKind::Func {
                let at = up(l.frames[i], var.align);
                l.places[v.index()] = Place::Frame(at);
                l.frames[i] = at.saturating_add(size.max(touched[v.index()]));
            } else if i == entry.index() {
                let at = up(l.param_size, var.align);
                l.places[v.index()] = Place::Param(at);
                l.param_size = at + size;
            }
        }
    }
    l.shared = SHARED_RESERVED;
    let is_formal: Vec<bool> = {
        let mut formal = vec![false; m.vars.len()];
        for f in &m.funcs {
            for v in f.params.iter().chain(&f.returns) {
                formal[v.index()] = true;
            }
        }
        formal
    };
    let named = named(m, entry);
    let mut dynamic = Vec::new();
    let mut initial: Vec<(VarId, u64)> = Vec::new();
    for (i, v) in m.vars.iter().enumerate() {
        if is_formal[i] {
            continue;
        }
        let size = v.size() as u32;
        l.places[i] = match (v.space, v.scope) {
            (Space::Global, _) => {
                let at = global.alloc(vec![0; v.size() as usize], v.align as u64, format!("variable {}", v.name));
                initial.push((VarId(i as u32), at));
                Place::Global(at)
            }
            (Space::Const, _) => {
                let at = up(l.constant.len() as u32, v.align.max(8));
                l.constant.resize((at + size) as usize, 0);
                initial.push((VarId(i as u32), CONST + at as u64));
                Place::Const(at)
            }
            (Space::Shared | Space::SharedCluster, _) if v.dims.contains(&None) => {
                dynamic.push(i);
                Place::None
            }
            (Space::Shared | Space::SharedCluster, _) if !named[i] => Place::None,
            (Space::Shared | Space::SharedCluster, _) => {
                let at = up(l.shared, v.align);
                l.shared = at.saturating_add(size).min(u32::MAX / 2);
                Place::Shared(at)
            }
            (Space::Local | Space::Param | Space::ParamFunc, Some(f)) => {
                let at = up(l.frames[f.index()], v.align);
                let size = if v.space == Space::Local { size } else { size.max(touched[i]) };
                l.frames[f.index()] = at.saturating_add(size).min(u32::MAX / 2);
                Place::Frame(at)
            }
            _ => Place::None,
        };
    }
    let align = dynamic.iter().map(|&i| m.vars[i].align).max().unwrap_or(1).max(16);
    if !dynamic.is_empty() {
        l.shared = up(l.shared, align);
    }
    for i in dynamic {
        l.places[i] = Place::Shared(l.shared);
    }
    for f in &mut l.frames {
        *f = up(*f, 16);
    }
    for (v, at) in initial {
        let var = &m.vars[v.index()];
        let bytes = initial_bytes(&l, var);
        match l.places[v.index()] {
            Place::Const(off) => l.constant[off as usize..off as usize + bytes.len()].copy_from_slice(&bytes),
            _ if bytes.is_empty() => {}
            _ => {
                if let Ok((i, off)) = global.find(at, bytes.len() as u32, &mut 0) {
                    global.data_mut(i)[off..off + bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
    }
    l
}

fn initial_bytes(l: &Layout, var: &Variable) -> Vec<u8> {
    let mut bytes = Vec::new();
    let elem = var.ty.bytes() as usize;
    for value in var.init.iter().flatten() {
        let n = match *value {
            InitValue::Bits(n) => n,
            InitValue::Func(f) => FUNCTION + f.0 as u64,
            InitValue::FuncByte(f, mask) => (FUNCTION + f.0 as u64) >> (8 * ptx::module::masked_byte(mask)),
            InitValue::Var { var, offset, generic, mask } => {
                let base = match l.places[var.index()] {
                    Place::Global(a) => a,
                    Place::Const(off) if generic => CONST + off as u64,
                    Place::Const(off) | Place::Shared(off) => off as u64,
                    _ => 0,
                };
                let n = base.wrapping_add(offset as u64);
                match mask {
                    Some(m) if m != 0 => (n & m) >> m.trailing_zeros(),
                    _ => n,
                }
            }
        };
        bytes.extend_from_slice(&n.to_le_bytes()[..elem.min(8)]);
    }
    bytes.truncate(var.size() as usize);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_holds_what_the_kernel_names() {
        let text = ".version 8.0\n.target sm_90\n.address_size 64\n.shared .b8 a[160000];\n.shared .b8 b[150000];\n.shared .b32 c;\n\
            .func f() {\n.reg .b32 %r;\nld.shared.b32 %r, [c];\nret;\n}\n\
            .visible .entry k() {\n.reg .b32 %r;\nmov.b32 %r, a;\ncall f;\nret;\n}\n\
            .visible .entry l() {\n.reg .b32 %r;\nst.shared.v2.b32 [b], {%r, %r};\nret;\n}\n";
        let (m, errors) = ptx::parse(text);
        assert!(errors.is_empty(), "{errors:?}");
        let size = |f: u32| layout(&m, FuncId(f), &mut Global::new()).shared - SHARED_RESERVED;
        assert_eq!([size(1), size(2)], [160_004, 150_000]);
    }
}
