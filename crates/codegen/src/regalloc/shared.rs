//! Spilled values in shared memory, where a kernel leaves room for them.
//!
//! Each thread has a word of each slot. The words of a slot lie in the order of the threads, so those of a warp lie in all 32 banks, and the slots lie
//! one behind the other. Where a thread's first word is stays in a register of its own, computed when the kernel begins: the last one there is, which
//! nothing else is assigned. What is used most goes there as far as there is room, the rest stays on the stack.

use super::Note;
use crate::mir::{Func, Inst, Op};
use sass::form::SlotName as S;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::Reg;
use sass::{enums, forms as F};
use std::cmp::Reverse;

/// Shared memory that a kernel may take for what it spills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Where it begins: bytes from the CTA's first variable. A multiple of 4.
    pub start: u32,
    /// Words that each thread may have.
    pub words: u32,
    /// Threads of a CTA, at most.
    pub threads: u32,
    /// Each CTA has so many in x and y, where that is known.
    pub shape: Option<[u32; 2]>,
}

impl Room {
    /// What an SM has left, if as many CTAs shall be on it as its registers, warps and the limit of CTAs allow. A kernel has `taken` bytes of its own.
    /// None where there is nothing left.
    pub fn left(sm: u16, taken: u32, threads: u32, registers: u32, shape: Option<[u32; 2]>) -> Option<Room> {
        let l = arch::limits(sm)?;
        let warps = threads.div_ceil(32).max(1);
        let ctas = l.ctas(registers, warps).max(1);
        let start = taken.next_multiple_of(16);
        let each = (l.shared_per_sm / ctas) & !127;
        let most = each.saturating_sub(l.shared_reserved_per_cta).min(l.shared_static_per_cta);
        let words = most.saturating_sub(start) / (128 * warps);
        (words > 0).then_some(Room { start, words, threads: 32 * warps, shape })
    }

    /// What is left where an SM shall hold `times` as many CTAs. None where that is nothing.
    pub fn among(self, times: u32) -> Option<Room> {
        let each = (self.start + self.bytes(self.words)) / times.max(1);
        let words = each.saturating_sub(self.start) / self.bytes(1);
        (words > 0).then_some(Room { words, ..self })
    }

    /// Bytes that so many words of each thread take.
    pub fn bytes(&self, words: u32) -> u32 {
        4 * self.threads * words
    }
}

/// What was taken of a [`Room`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// See [`Room::start`].
    pub start: u32,
    /// Bytes of each CTA.
    pub size: u32,
}

/// Registers more than there are that a function must need for its spills to go to shared memory: the address takes one.
const WORTH: u32 = 8;

/// Takes the register for the address away from a function that needs so many registers at once, if there is room for its spills and
/// that is worth it.
pub(super) fn reserve(f: &mut Func, need: u32, have: u32) {
    // A function that is called knows nothing of the register.
    let calls = || f.blocks.iter().flat_map(|b| &b.insts).any(|i| matches!(i.op, Op::Call(_)));
    if f.room.is_some() && (!f.entry || need < have + WORTH || calls()) {
        f.room = None;
    }
    f.max_gprs -= u32::from(f.room.is_some());
}

/// Moves slots from the stack to shared memory after registers are assigned; `fixed` is where spill slots begin, `notes` say which instruction
/// accesses one.
pub(super) fn run(f: &mut Func, fixed: u32, notes: &[Vec<Note>]) {
    let Some(room) = f.room else { return };
    f.max_gprs += 1;
    let base = Reg::r((f.max_gprs - 1) as u8);
    let begin = fixed.next_multiple_of(4);
    let count = (f.frame.fixed.saturating_sub(begin) / 4) as usize;
    let mut weights = vec![0u64; count];
    for (block, notes) in f.blocks.iter().zip(notes) {
        for note in notes {
            if let Note::Store(n) | Note::Load(n) = *note {
                weights[n as usize] += 10u64.pow(block.depth.min(8));
            }
        }
    }
    let mut order: Vec<usize> = (0..count).filter(|&n| weights[n] > 0).collect();
    order.sort_by_key(|&n| (Reverse(weights[n]), n));
    let moved = order.len().min(room.words as usize);
    // By slot: its word in shared memory, or its new place on the stack.
    let mut places = vec![(false, 0u32); count];
    for (n, &slot) in order.iter().enumerate() {
        places[slot] = if n < moved { (true, room.bytes(n as u32)) } else { (false, begin + 4 * (n - moved) as u32) };
    }
    for (block, notes) in f.blocks.iter_mut().zip(notes) {
        for (inst, note) in block.insts.iter_mut().zip(notes) {
            let (Note::Store(n) | Note::Load(n), Op::Sass(s)) = (*note, &mut inst.op) else { continue };
            let (shared, at) = places[n as usize];
            *s = access(s, if shared { Some(base) } else { None }, at);
        }
    }
    f.frame.fixed = begin + 4 * (order.len() - moved) as u32;
    f.shared_spills = (moved > 0).then(|| Taken { start: room.start, size: room.bytes(moved as u32) });
}

/// The access to a slot of the stack at another place: behind `base` in shared memory, or on the stack.
fn access(old: &Sass, base: Option<Reg>, at: u32) -> Sass {
    let (form, data) = match (old.form == F::STL, base.is_some()) {
        (true, true) => (F::STS, S::Rb),
        (true, false) => (F::STL, S::Rb),
        (false, true) => (F::LDS, S::Rd),
        (false, false) => (F::LDL, S::Rd),
    };
    let new = Sass::new(form).with(S::Ra, base.unwrap_or(Reg::r(1))).with(S::Imm, Operand::imm(i64::from(at)));
    old.get(data).map_or(new.clone(), |d| new.with(data, *d))
}

/// What a kernel begins with that has spills in shared memory: each thread's address.
pub fn begin(f: &mut Func, sm: u16) {
    let (Some(room), Some(_), Some(bank0)) = (f.room, f.shared_spills, arch::bank0(sm)) else { return };
    // Nothing lies in registers when a kernel begins.
    let (base, a, b) = (Reg::r((f.max_gprs - 1) as u8), Reg::r(0), Reg::r(2));
    let read = |d: Reg, which: u8| Sass::new(F::S2R).with(S::Rd, d).with(S::Sr, Operand::imm(i64::from(which)));
    let mov = |d: Reg, n: u32| Sass::new(F::MOV_I).with(S::Rd, d).with(S::Rb, Operand::imm(i64::from(n)));
    let lea = |d: Reg, n: Reg, plus: Reg, shift: i64| {
        Sass::new(F::LEA_RR).with(S::Rd, d).with(S::Ra, n).with(S::Rb, plus).with(S::Shift, Operand::imm(shift))
    };
    // x + y * (threads in x) + z * (threads in x) * (threads in y)
    let mut code = vec![read(base, enums::sr::TID_X)];
    let row = room.shape.is_some_and(|[x, _]| x >= room.threads);
    if !row {
        let count = |dim: usize| match room.shape {
            Some(n) => mov(b, n[dim]),
            None => Sass::new(F::LDC)
                .with(S::Rd, b)
                .with(S::Const, Operand::cbank(0, i32::from(bank0.ntid) + 4 * dim as i32)),
        };
        let add =
            |d: Reg, plus: Reg| Sass::new(F::IMAD_RRR).with(S::Rd, d).with(S::Ra, a).with(S::Rb, b).with(S::Rc, plus);
        let y = Reg::r(3);
        code.extend([
            read(a, enums::sr::TID_Z),
            count(1),
            read(y, enums::sr::TID_Y),
            add(a, y),
            count(0),
            add(base, base),
        ]);
    }
    let reserved = arch::files(sm).reserved_shared;
    code.push(mov(b, room.start + reserved));
    if reserved > 0 {
        code.extend([read(a, enums::sr::CGACTAID), lea(b, a, b, 24)]);
    }
    code.push(lea(base, base, b, 2));
    f.blocks[0].insts.splice(0..0, code.into_iter().map(|s| Inst::new(Op::Sass(s), u32::MAX)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    #[test]
    fn what_is_taken_leaves_as_many_ctas_as_the_registers_do() {
        // 8 warps with all registers: one CTA, which may have what a kernel may declare.
        let all = Room::left(90, 0, 256, 255, None).unwrap();
        assert_eq!((all.words, all.bytes(all.words)), (48, 48 * 1024));
        // 32 CTAs of two warps share 228 KB, of which the system takes 1 KB each.
        let few = Room::left(90, 0, 64, 32, None).unwrap();
        assert_eq!((few.words, few.threads), (24, 64));
        assert!(
            32 * (few.bytes(few.words) + 1024) <= 228 * 1024 && 32 * (few.bytes(few.words + 1) + 1024) > 228 * 1024
        );
        // Behind variables of the kernel, which may take it all.
        let behind = Room::left(90, 1001, 64, 32, None).unwrap();
        assert_eq!((behind.start, behind.words), (1008, 20));
        assert_eq!(Room::left(90, 40 << 10, 1024, 64, None).map(|r| r.words), Some(2));
        assert_eq!(Room::left(90, 48 << 10, 256, 255, None), None);
        assert_eq!(Room::left(1, 0, 256, 255, None), None);
    }

    #[test]
    fn the_address_takes_a_register_only_where_it_is_worth_it() {
        let mut f =
            text::parse("func k entry max=30 shared_start=0 shared_words=4 shared_threads=32 {\nblk0():\nexit\n}")
                .unwrap()
                .remove(0);
        reserve(&mut f, 30 + WORTH, 29);
        assert_eq!((f.max_gprs, f.room.is_some()), (29, true));
        f.max_gprs = 30;
        reserve(&mut f, 28 + WORTH, 29);
        assert_eq!((f.max_gprs, f.room), (30, None));
    }

    #[test]
    fn threads_are_counted_by_what_is_known_of_them() {
        let code = |shape: Option<[u32; 2]>, sm: u16| {
            let mut f =
                text::parse("func k entry max=30 shared_start=64 shared_words=4 shared_threads=32 {\nblk0():\nexit\n}")
                    .unwrap()
                    .remove(0);
            f.room = f.room.map(|r| Room { shape, ..r });
            f.shared_spills = Some(Taken { start: 64, size: 128 });
            begin(&mut f, sm);
            let text = text::print(&f);
            text.lines().skip(2).map(|l| l.split_whitespace().next().unwrap_or("").to_string()).collect::<Vec<_>>()
        };
        assert_eq!(code(Some([32, 1]), 75), ["S2R", "MOV_I", "LEA_RR", "exit", "}"]);
        assert_eq!(code(Some([32, 1]), 90), ["S2R", "MOV_I", "S2R", "LEA_RR", "LEA_RR", "exit", "}"]);
        assert_eq!(code(None, 75).iter().filter(|n| *n == "LDC").count(), 2);
        assert_eq!(code(Some([8, 2]), 75).iter().filter(|n| *n == "LDC").count(), 0);
    }
}
