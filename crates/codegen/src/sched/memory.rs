//! Which accesses to memory keep their order.
//!
//! Loads may pass loads. Stores keep their order, and none passes a load before it: it has nothing to win by that. A load passes those stores before it that write other bytes
//! behind the same address; of different addresses nothing is known. What is not an ordinary access of its thread (PTX's `volatile`, `relaxed` and so on, atomics,
//! barriers, fences) is passed by none.

use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Value};
use sass::latency::Class;
use smallvec::SmallVec;

/// The space of shared memory, as [`memory`] numbers them: loads of it may be volatile, where lanes tell each other something, and pass none then.
const SHARED: usize = 1;
/// How many stores a load looks back over, at most.
const BACK: usize = 64;
/// Where places behind an address are: beyond, the number stands for something that is filled in later.
const REACH: i64 = 1 << 24;

/// What sort of memory an instruction touches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Bits: global 1, shared 2, local 4.
    pub spaces: u8,
    /// Keeps its order with everything else in those spaces.
    pub ordered: bool,
}

/// Reads the clock.
fn reads_clock(s: &Sass) -> bool {
    use enums::sr;
    let clocks = [sr::CLOCK, sr::CLOCKLO, sr::CLOCKHI, sr::GLOBALTIMERLO, sr::GLOBALTIMERHI];
    match s.get(S::Sr).map(|o| o.value) {
        Some(Value::Imm(n)) => clocks.iter().any(|&c| c as i64 == n.get()) || (sr::PM0 as i64..132).contains(&n.get()),
        _ => false,
    }
}

/// How an instruction takes part in the order of memory accesses.
pub fn memory(s: &Sass) -> Memory {
    const ALL: u8 = 7;
    let form = s.form();
    let effects = form.effects;
    if effects.sync || reads_clock(s) {
        return Memory { spaces: ALL, ordered: true };
    }
    if !effects.load && !effects.store || matches!(form.class, Class::Const | Class::UniformConst) {
        return Memory::default();
    }
    let generic = matches!(form.mnemonic, "LD" | "ST" | "ATOM");
    let spaces = match form.class {
        _ if s.form == F::LDGSTS => 3,
        Class::Global if generic => ALL,
        Class::Global => 1,
        Class::Shared => 2,
        Class::Local => 4,
        _ => ALL,
    };
    let sem = s.modifier(M::Sem);
    let constant = !effects.store && sem == enums::loadsem::CONSTANT;
    let strong = sem != enums::loadsem::WEAK && !constant;
    if constant { Memory::default() } else { Memory { spaces, ordered: effects.store || strong } }
}

/// Some bytes behind an address, of an ordinary access: what registers the address is in, by number and by what wrote them, and from where to where.
#[derive(Clone, Debug, PartialEq)]
pub struct Bytes {
    generic: bool,
    /// The slots of the address.
    slots: [Option<u8>; 2],
    base: SmallVec<[(u32, u32); 3]>,
    from: i64,
    to: i64,
}

impl Bytes {
    /// Says that `slot` reads a register: its number, and a number for what wrote it. Slots that are not the address do not count.
    pub fn from(&mut self, slot: Option<u8>, register: (u32, u32)) {
        if slot.is_some() && self.slots.contains(&slot) {
            self.base.push(register);
        }
    }

    /// True if no byte of one is one of the other.
    fn apart(&self, other: &Bytes) -> bool {
        (self.generic, &self.base) == (other.generic, &other.base) && (self.to <= other.from || other.to <= self.from)
    }
}

/// Which bytes an ordinary load or store accesses, before anything is known of the registers of its address ([`Bytes::from`]).
pub fn address(s: &Sass) -> Option<Bytes> {
    let form = s.form();
    let small = match form.mnemonic {
        "LDS" | "STS" | "LDL" | "STL" => true,
        "LDG" | "STG" | "LD" | "ST" if s.modifier(M::Sem) == 0 => false,
        _ => return None,
    };
    let place = |name: S| form.slots.iter().position(|slot| slot.name == name).map(|k| k as u8);
    let bytes = match form.mods.iter().any(|m| m.name == M::Size).then(|| s.modifier(M::Size))? {
        enums::memsize::U8 | enums::memsize::S8 => 1,
        enums::memsize::U16 | enums::memsize::S16 => 2,
        enums::memsize::B32 => 4,
        enums::memsize::B64 => 8,
        enums::memsize::B128 => 16,
        _ => return None,
    };
    let from = match s.get(S::Imm).map(|o| o.value) {
        Some(Value::Imm(n)) if (-REACH..REACH).contains(&n.get()) => n.get(),
        None => 0,
        _ => return None,
    };
    // Beside an address of 64 bits a uniform register says what sort of memory it is in; beside one of 32 bits it is added.
    let uniform = small.then(|| place(S::UR).or_else(|| place(S::URc))).flatten();
    let slots = [Some(place(S::Ra)?), uniform];
    Some(Bytes { generic: matches!(form.mnemonic, "LD" | "ST"), slots, base: SmallVec::new(), from, to: from + bytes })
}

/// The order that memory asks for, while walking forward.
pub struct MemoryOrder {
    /// Bytes say nothing (`mir::Func::lanes_tell`).
    strict: bool,
    /// By space: what keeps its order, and which bytes it writes if that is all it does.
    ordered: [Vec<(u32, Option<Bytes>)>; 3],
    loads: [Vec<u32>; 3],
}

impl MemoryOrder {
    /// Of a part of a function; `lanes_tell`: see [`Func`](crate::mir::Func::lanes_tell).
    pub fn new(lanes_tell: bool) -> MemoryOrder {
        MemoryOrder { strict: lanes_tell, ordered: Default::default(), loads: Default::default() }
    }

    /// Calls `edge` with each earlier instruction that `n` must follow, which accesses these bytes, if they are known.
    pub fn add(&mut self, n: u32, m: Memory, bytes: Option<Bytes>, mut edge: impl FnMut(u32)) {
        let bytes = bytes.filter(|_| !self.strict);
        for k in (0..3).filter(|k| m.spaces >> k & 1 != 0) {
            let before = &mut self.ordered[k];
            if m.ordered {
                before.last().iter().for_each(|x| edge(x.0));
                self.loads[k].drain(..).for_each(&mut edge);
                if bytes.is_none() {
                    before.clear();
                }
                before.push((n, bytes.clone()));
                continue;
            }
            let apart = |x: &(u32, Option<Bytes>)| match (&x.1, &bytes) {
                (Some(x), Some(bytes)) => x.apart(bytes),
                _ => false,
            };
            let far = before.len().saturating_sub(BACK + 1);
            // What is farther back than the last that may be the same comes before that.
            let found = before.iter().enumerate().skip(far).rev().find(|(i, x)| !apart(x) || *i == far && far > 0);
            found.iter().for_each(|x| edge(x.1.0));
            if self.strict && k == SHARED {
                self.loads[k].last().iter().for_each(|&&x| edge(x));
            }
            self.loads[k].push(n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sass::inst::Operand;
    use sass::reg::Reg;

    fn known(s: &Sass, version: u32) -> Option<Bytes> {
        let mut bytes = address(s);
        crate::sched::reads(s, |u, slot| bytes.iter_mut().for_each(|b| b.from(slot, (u as u32, version))));
        bytes
    }

    fn access(form: sass::form::FormId, base: u8, at: i64) -> Sass {
        let s = Sass::new(form).with(S::Ra, Reg::r(base)).with(S::Imm, Operand::imm(at));
        let s = s.with_mod(M::Size, enums::memsize::B32);
        if s.form().effects.store { s.with(S::Rb, Reg::r(9)) } else { s.with(S::Rd, Reg::r(10)) }
    }

    /// Which earlier ones each of these must follow; each with a number for what wrote its address.
    fn edges(list: &[(Sass, u32)]) -> Vec<(u32, u32)> {
        let mut order = MemoryOrder::new(false);
        let mut edges = Vec::new();
        for (n, (s, version)) in (0..).zip(list) {
            order.add(n, memory(s), known(s, *version), |before| edges.push((before, n)));
        }
        edges
    }

    #[test]
    fn loads_pass_stores_of_other_bytes() {
        let list = [
            (access(F::LDG, 2, 0), 0),
            (access(F::STG, 2, 0), 0),
            // The next word, half of either, the same, and behind another address.
            (access(F::LDG, 2, 4), 0),
            (access(F::LDG, 2, 2), 0),
            (access(F::LDG, 2, 0), 0),
            (access(F::LDG, 4, 4), 0),
            // The same register, written in between.
            (access(F::LDG, 2, 4), 1),
            // Other memory.
            (access(F::LDS, 2, 0), 0),
        ];
        assert_eq!(edges(&list), [(0, 1), (1, 3), (1, 4), (1, 5), (1, 6)]);
    }

    #[test]
    fn stores_keep_their_order_and_are_looked_back_over() {
        let list = [(F::STS, 0), (F::STS, 4), (F::STS, 8), (F::LDS, 4), (F::LDS, 12), (F::STS, 16)];
        let list = list.map(|(form, at)| (access(form, 2, at), 0));
        // The last one follows the loads before it, too.
        assert_eq!(edges(&list), [(0, 1), (1, 2), (1, 3), (2, 5), (3, 5), (4, 5)]);
        let mut long: Vec<(Sass, u32)> = (0..200).map(|i| (access(F::STS, 2, 4 * i), 0)).collect();
        long.push((access(F::LDS, 2, 4000), 0));
        assert_eq!(edges(&long).last(), Some(&(135, 200)));
    }

    #[test]
    fn nothing_passes_what_is_no_ordinary_access() {
        let strong = |form, at| access(form, 2, at).with_mod(M::Sem, enums::loadsem::STRONG_GPU);
        let barrier = Sass::new(F::MEMBAR);
        for middle in [strong(F::STG, 8), strong(F::LDG, 8), barrier] {
            let list = [(access(F::STG, 2, 4), 0), (middle, 0), (access(F::LDG, 2, 0), 0)];
            assert_eq!(edges(&list), [(0, 1), (1, 2)]);
        }
        let mut order = MemoryOrder::new(true);
        let mut last = None;
        for (n, s) in (0..).zip([access(F::STS, 2, 4), access(F::LDS, 2, 0)]) {
            order.add(n, memory(&s), known(&s, 0), |before| last = Some((before, n)));
        }
        assert_eq!(last, Some((0, 1)));
        order.add(2, memory(&access(F::LDS, 2, 8)), None, |before| last = Some((before, 2)));
        assert_eq!(last, Some((1, 2)), "volatile loads keep their order");
        // A store of either kind of address may write what the other names.
        let list = [(access(F::STG, 2, 4), 0), (access(F::LD, 2, 0), 0)];
        assert_eq!(edges(&list), [(0, 1)]);
    }
}
