//! What the container says of barriers in shared memory: which instructions ask them, and where each finds its barrier.
//!
//! Tools that watch barriers read it (`MBARRIER_INSTR_OFFSETS`, `NUM_MBARRIERS`); a kernel that has none of these instructions has
//! neither attribute. The vendor's tool lists neither arrivals that say how many bytes will come nor copies of the bulk engine, and
//! nor do we. Where a copy of threads arrives, and where a barrier's place differs among threads, it lists an empty instruction
//! ahead of the sequence; ours is the instruction that does it.

use cubin::attr::{self, Attr};
use ptx::isa::Op;
use ptx::module::{Body, Module};
use sass::enums::{syncsarrive, syncsop};
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst, Value};

/// What an instruction does to a barrier, as the attribute numbers it.
mod kind {
    pub const INIT: u32 = 0;
    pub const ARRIVE: u32 = 1;
    pub const ARRIVE_NO_COMPLETE: u32 = 2;
    pub const DROP: u32 = 3;
    pub const DROP_NO_COMPLETE: u32 = 4;
    pub const TEST: u32 = 5;
    pub const TEST_PARITY: u32 = 6;
    pub const COPIES: u32 = 7;
    pub const INVAL: u32 = 8;
    pub const TRY: u32 = 9;
    pub const TRY_PARITY: u32 = 10;
    pub const EXPECT: u32 = 11;
    pub const COMPLETE: u32 = 12;
}

/// An instruction that asks a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MBarrier {
    /// Where it stands in the text of the kernel.
    pub offset: u32,
    /// What it does.
    kind: u32,
    /// The registers whose sum is the address, as words name them, and what is added.
    registers: [u32; 2],
    add: u32,
    /// Byte offset of the PTX statement; `u32::MAX` where there is none.
    loc: u32,
}

/// What the attribute says of an instruction; nothing if it asks no barrier.
pub(crate) fn of(s: &Inst, offset: u32, loc: u32, sm: u16) -> Option<MBarrier> {
    let is = |m: M, v: u8| s.modifier(m) == v;
    let kind = match s.form {
        F::SYNCS_EXCH => kind::INIT,
        F::SYNCS_CCTL_IV => kind::INVAL,
        F::ARRIVES_LDGSTSBAR => kind::COPIES,
        // By parity until the statement says otherwise ([`attributes`]).
        F::SYNCS_PHASECHK if is(M::Trywait, 1) => kind::TRY_PARITY,
        F::SYNCS_PHASECHK => kind::TEST_PARITY,
        F::SYNCS_ARRIVE => match s.modifier(M::Arrive) {
            syncsarrive::A0TR => kind::EXPECT,
            syncsarrive::A0TX => kind::COMPLETE,
            syncsarrive::A1T0 | syncsarrive::ART0 => match (is(M::Optout, 1), is(M::Op, syncsop::TMASK)) {
                (false, false) => kind::ARRIVE,
                (false, true) => kind::ARRIVE_NO_COMPLETE,
                (true, false) => kind::DROP,
                (true, true) => kind::DROP_NO_COMPLETE,
            },
            _ => return None,
        },
        _ => return None,
    };
    let register = |slot: S| s.get(slot).and_then(|o| o.as_reg()).filter(|r| !r.is_const()).map(|r| r.index());
    // The numbers of RZ and URZ are where there is none.
    let (none, no_uniform) = (255, crate::chips::uniform_zero(sm));
    let registers = match s.form {
        F::SYNCS_EXCH => [none, register(S::Ra).unwrap_or(no_uniform)],
        _ => [register(S::Ra).unwrap_or(none), register(S::URc).unwrap_or(no_uniform)],
    };
    let add = match s.get(S::Imm).map(|o| o.value) {
        Some(Value::Imm(n)) => n.get() as u32,
        _ => 0,
    };
    Some(MBarrier { offset, kind, registers, add, loc })
}

/// The attributes of code with these instructions.
pub(crate) fn attributes(m: &Module, list: &[MBarrier]) -> Vec<Attr> {
    if list.is_empty() {
        return Vec::new();
    }
    let by_state = waits_by_state(m);
    let words = list.iter().flat_map(|b| {
        let kind = match b.kind {
            kind::TEST_PARITY if by_state.contains(&b.loc) => kind::TEST,
            kind::TRY_PARITY if by_state.contains(&b.loc) => kind::TRY,
            k => k,
        };
        // The machine adds the register times the bits 7:4, here once; the byte above is always 1.
        [b.offset, b.registers[0], b.add, kind | 1 << 8 | b.registers[1] << 16]
    });
    let inits = list.iter().filter(|b| b.kind == kind::INIT).count();
    vec![Attr::words(attr::MBARRIER_INSTR_OFFSETS, words), Attr::half(attr::NUM_MBARRIERS, inits as u16)]
}

/// Where statements stand that wait for the phase of a state: the machine's instruction is that of a parity.
fn waits_by_state(m: &Module) -> Vec<u32> {
    let waits = |op: Op, mods: &[ptx::isa::Mod]| {
        let has = |name: &str| mods.iter().any(|m| m.name() == name);
        op == Op::Mbarrier && (has("test_wait") || has("try_wait")) && !has("parity")
    };
    let bodies = m.funcs.iter().filter_map(|f| f.body.as_ref());
    let bodies: Vec<_> = bodies.filter(|b| b.module_has_form(waits)).map(Body::unpacked).collect();
    bodies.iter().flat_map(|b| b.insts()).filter(|x| waits(x.op, x.mods)).map(|x| x.span.start).collect()
}
