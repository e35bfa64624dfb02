//! What a kernel does with its parameters, from the text alone: which bytes are addresses, what lies behind them, and which
//! parameters are tensor maps. A guess: whoever launches the kernel sees whether it holds.
//!
//! The values of registers are followed without regard to the order of the code, until nothing changes: those that are a
//! parameter (or were loaded through one), moved by so many bytes; those that were loaded as they are; those that are computed of
//! what was loaded.

mod facts;
mod operands;
mod walk;
mod whole;

use ptx::module::{FuncId, Module, Operand, VarId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use walk::Walk;

/// What numbers a memory holds, as far as the instructions tell that read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub enum Kind {
    /// Nobody tells.
    #[default]
    Unknown,
    /// Integers.
    Int,
    F64,
    F32,
    BF16,
    F16,
    /// Integers that addresses are computed of.
    Index,
}

/// Bytes of a parameter, or of memory that an address leads to, that are loaded at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Where the bytes lie.
    pub place: Place,
    /// The first of them.
    pub at: u64,
    /// How many.
    pub bytes: u32,
    /// Their numbers.
    pub kind: Kind,
    /// Whether they are an address of global memory.
    pub address: bool,
    /// What lies there, if they are.
    pub content: Kind,
    /// Bytes of an element there.
    pub width: u32,
    /// There are more of them behind, as in an array.
    pub many: bool,
    pub depth: u32,
}

/// A parameter, or the memory that the address in a slot leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    Param(VarId),
    Behind(usize),
}

/// How a parameter is used as a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Map {
    /// Dimensions.
    pub rank: usize,
    /// Copies load through it.
    pub loads: bool,
    /// Bytes that a barrier is told to expect of such a copy, if nobody else takes part in it; 0 where nothing tells.
    pub moved: u64,
}

/// What a texture or surface is fetched as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Texels {
    /// Dimensions without layers.
    pub rank: usize,
    pub layers: bool,
    pub cube: bool,
    pub surface: bool,
    pub floats: bool,
}

/// What is found out about a kernel.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub slots: Vec<Slot>,
    pub maps: BTreeMap<VarId, Map>,
    /// Slots that hold handles.
    pub texels: BTreeMap<usize, Texels>,
    /// Dimensions of blocks, and of the grid, that are asked for: 1 to 3.
    pub dims: [usize; 2],
    /// What numbers the kernel computes with most.
    pub usual: Kind,
    /// The kinds of floats that instructions name.
    pub floats: BTreeSet<Kind>,
    /// Its results are not defined to the bit.
    pub approximate: bool,
    /// It reads a clock, or what else is of no launch.
    pub clock: bool,
    /// There is shared memory whose size the launch says.
    pub dynamic: bool,
    /// Bytes of other shared memory, and what aligning it may take.
    pub shared: u64,
}
/// How often the code is gone through at most.
const ROUNDS: usize = 8;

/// Follows the parameters of a kernel through it and the functions that it may call.
pub fn flow(m: &Module, entry: FuncId) -> Flow {
    let mut w = Walk {
        m,
        entry,
        flow: Flow::default(),
        regs: HashMap::new(),
        vars: HashMap::new(),
        bases: BTreeSet::new(),
        changed: false,
    };
    let mut funcs = vec![entry];
    let mut at = 0;
    while let Some(&f) = funcs.get(at) {
        at += 1;
        for o in m.funcs[f.index()].body.iter().flat_map(|b| b.operands()) {
            if let Operand::Func(g) = o
                && !funcs.contains(g)
            {
                funcs.push(*g);
            }
        }
    }
    for _ in 0..ROUNDS {
        w.changed = false;
        for &f in &funcs {
            for inst in m.funcs[f.index()].body.iter().flat_map(|b| b.insts()) {
                w.inst(f, &inst);
            }
        }
        if !w.changed {
            break;
        }
    }
    w.tell_addresses();
    funcs.iter().for_each(|&f| w.tell_moved(f));
    w.look_around(&funcs);
    w.flow
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str, params: &str) -> (Module, Flow) {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k({params})\n{{\n.reg .b64 %rd<20>;\n.reg .b32 %r<20>;\n.reg .f32 %f<9>;\n{body}\nret;\n}}\n"
        );
        let (m, errors) = ptx::parse(&text);
        assert!(errors.is_empty(), "{errors:?}");
        let flow = flow(&m, FuncId(0));
        (m, flow)
    }

    fn slot(m: &Module, flow: &Flow, name: &str, at: u64) -> Slot {
        let place = |s: &&Slot| matches!(s.place, Place::Param(v) if m.vars[v.index()].name == name) && s.at == at;
        flow.slots.iter().find(place).expect(name).clone()
    }

    #[test]
    fn addresses_are_told_from_numbers() {
        let (m, flow) = of(
            "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [n];\nld.param.u64 %rd9, [i];\ncvta.to.global.u64 %rd3, %rd1;\n\
             add.s64 %rd4, %rd3, %rd2;\nld.global.f32 %f1, [%rd4];\ncvta.to.global.u64 %rd10, %rd9;\nld.global.u32 %r1, [%rd10];\n\
             mul.wide.s32 %rd5, %r1, 4;\nadd.s64 %rd6, %rd3, %rd5;\nst.global.f32 [%rd6], %f1;\nst.global.f32 [%rd3], %f1;",
            ".param .u64 a, .param .u64 n, .param .u64 i",
        );
        let [a, n, i] = ["a", "n", "i"].map(|p| slot(&m, &flow, p, 0));
        assert!(a.address && !n.address && i.address);
        assert_eq!((a.content, a.width, i.content, i.width), (Kind::F32, 4, Kind::Index, 4));
    }

    #[test]
    fn fields_and_what_they_lead_to() {
        let (m, flow) = of(
            "ld.param.u64 %rd1, [s+8];\nld.param.u32 %r2, [s];\nld.global.u64 %rd2, [%rd1+16];\nld.global.f32 %f1, [%rd2];\n\
             mov.b64 %rd5, s;\nadd.s64 %rd6, %rd5, 24;\nld.param.f32 %f3, [%rd6];",
            ".param .align 8 .b8 s[32]",
        );
        let s = slot(&m, &flow, "s", 8);
        assert!(s.address && !slot(&m, &flow, "s", 0).address);
        assert_eq!(slot(&m, &flow, "s", 24).kind, Kind::F32);
        let behind = flow.slots.iter().find(|s| matches!(s.place, Place::Behind(_))).expect("memory");
        assert!(behind.address && behind.at == 16 && behind.content == Kind::F32);
    }
}
