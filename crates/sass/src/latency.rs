//! How long results take, what needs a scoreboard, how close instructions may follow each other: tables and questions.
//!
//! The numbers are those of `chip.rs`, which says where they are from: the distances that the vendor's assembler leaves
//! between dependent instructions. A number must never be above what the vendor leaves (`lint` over the vendor's code shows
//! that none is), and for our own code never below what it was seen to need.
//!
//! Distances are counted from issue to issue, so a stall count of 4 is a distance of 4.

mod chip;
mod class;
pub mod queue;

pub use class::Class;

use crate::form::{ModName, SlotKind, SlotName};
use crate::inst::{Inst, Value};
use crate::reg::{File, Reg};
use chip::{Chip, Consumer, Producer};

/// How an instruction must wait for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// So many cycles from issue to issue.
    Fixed(u8),
    /// By a scoreboard that the first one sets and the second one waits for.
    Scoreboard,
}

/// An instruction that waits for a scoreboard comes at least so many cycles after the one that sets it.
/// (Measured: the stall of the setter is at least 2 wherever the next instruction waits for it.)
pub const SCOREBOARD_SET: u8 = 2;

/// The sides of the ALU where they are units of their own (sm_120: 4 cycles within one, 5 from one to another).
fn side(inst: &Inst) -> Side {
    match inst.form().mnemonic {
        "IADD" | "MOV" | "SEL" => Side::Move,
        "ISETP" | "FSETP" | "FSEL" | "FSET" | "FMNMX" | "FMNMX3" | "IMNMX" | "VIMNMX" | "VIMNMX3" | "VOTE" => {
            Side::Pick
        }
        _ => Side::Plain,
    }
}

enum Side {
    Plain,
    Move,
    Pick,
}

fn producer(inst: &Inst, part: u32, chip: &Chip) -> Producer {
    let class = inst.form().class;
    match class {
        Class::Fma | Class::FmaInt => Producer::Fma,
        // IMAD.HI gives the high word alone.
        Class::FmaWide if part == 0 && inst.slot(SlotName::Rd).is_some_and(|s| inst.slot_width(s) == 2) => {
            Producer::WideLow
        }
        Class::FmaWide => Producer::WideHigh,
        Class::Clmad => Producer::Clmad,
        Class::Half => Producer::Half,
        Class::HalfMma => Producer::HalfMma,
        Class::Imma if chip.mma_by_type => Producer::Mma1,
        Class::Hmma if chip.mma_by_type => Producer::Mma4,
        Class::Hmma | Class::Imma => match inst.slot(SlotName::Ra).map_or(4, |s| inst.slot_width(s)) {
            1 => Producer::Mma1,
            2 => Producer::Mma2,
            _ => Producer::Mma4,
        },
        Class::Double => Producer::Double,
        // CS2R.32 is a move.
        Class::Cs2r if inst.slot(SlotName::Rd).is_none_or(|s| inst.slot_width(s) == 2) => Producer::Cs2r,
        _ if !chip.split_alu => Producer::Alu,
        _ => match side(inst) {
            Side::Plain => Producer::Alu,
            Side::Move => Producer::AluMove,
            Side::Pick => Producer::AluPick,
        },
    }
}

fn consumer(inst: &Inst, slot: u8, part: u32, chip: &Chip) -> Consumer {
    match inst.form().class {
        Class::Fma | Class::FmaInt => Consumer::Fma,
        Class::FmaWide if inst.form().slots[slot as usize].name != SlotName::Rc => Consumer::WideFactor,
        Class::FmaWide if part == 0 => Consumer::WideLow,
        Class::FmaWide => Consumer::WideHigh,
        Class::Half => Consumer::Half,
        Class::HalfMma => Consumer::HalfMma,
        Class::Hmma | Class::Imma | Class::Dmma | Class::Clmad => Consumer::Mma,
        Class::Double => Consumer::Double,
        Class::Alu | Class::Pack | Class::Vote | Class::Cs2r if !chip.split_alu => Consumer::Alu,
        Class::Alu | Class::Pack | Class::Vote | Class::Cs2r => match side(inst) {
            Side::Plain => Consumer::Alu,
            Side::Move => Consumer::AluMove,
            Side::Pick => Consumer::AluPick,
        },
        Class::R2Ur if chip.r2ur_queue => Consumer::Queue,
        c if c.is_queue() => Consumer::Queue,
        _ => Consumer::Decoupled,
    }
}

/// Which words of two operands are the same register: pairs of (word of the first, word of the second).
fn shared_words(a: Reg, a_width: u8, b: Reg, b_width: u8) -> impl Iterator<Item = (u32, u32)> {
    let same = a.is_virtual() == b.is_virtual() && a.file() == b.file();
    // An entry of the vector pool and a single value have different numbers though they may share a word: then every
    // pair of words counts.
    let unknown = same && a.is_virtual() && a_width != b_width;
    let (a, b) = (a.index(), b.index());
    (0..a_width as u32).flat_map(move |i| {
        let all = 0..b_width as u32;
        let one = (a + i).checked_sub(b).filter(|j| same && all.contains(j));
        let partners = if unknown { all } else { one.map_or(0..0, |j| j..j + 1) };
        partners.map(move |j| (i, j))
    })
}

fn reg_of(inst: &Inst, slot: Option<u8>) -> Option<(Reg, u8)> {
    match slot {
        None => inst.guard.as_reg().map(|r| (r, 1)),
        Some(s) => inst.operands[s as usize].as_reg().map(|r| (r, inst.slot_width(s as usize))),
    }
}

/// From the issue of `first`, which writes slot `def`, to that of `second`, which reads it in slot `used` (None: as its
/// guard).
///
/// With registers assigned, the words that both have in common count; with virtual registers the longest of those that
/// could be. Guards wait longer than operands: 13 cycles for a predicate.
pub fn raw(first: &Inst, def: u8, second: &Inst, used: Option<u8>, sm: u16) -> Latency {
    let (Some((reg, width)), Some((other, other_width))) = (reg_of(first, Some(def)), reg_of(second, used)) else {
        return Latency::Fixed(1);
    };
    if reg.file() != File::Gpr {
        return raw_word(first, def, 0, second, used, 0, sm);
    }
    let mut longest = Latency::Fixed(1);
    let mut words = shared_words(reg, width, other, other_width);
    let class = first.form().class;
    // The same for all words, of which products of warpgroups have up to 128.
    if class == Class::Gmma {
        return longest;
    }
    if !class.is_fixed(sm) {
        return if words.next().is_some() { Latency::Scoreboard } else { longest };
    }
    for (i, j) in words {
        match (raw_word(first, def, i, second, used, j, sm), longest) {
            (Latency::Fixed(n), Latency::Fixed(m)) if n <= m => {}
            (latency, _) => longest = latency,
        }
    }
    longest
}

/// As [`raw`], for one register: word `i` of what `first` writes, which is word `j` of what `second` reads.
pub fn raw_word(first: &Inst, def: u8, i: u32, second: &Inst, used: Option<u8>, j: u32, sm: u16) -> Latency {
    let class = first.form().class;
    if !class.is_fixed(sm) {
        return Latency::Scoreboard;
    }
    if class == Class::Gmma {
        return Latency::Fixed(1);
    }
    let file = match first.form().slots[def as usize].kind {
        SlotKind::Reg(file) => file,
        _ => return Latency::Fixed(1),
    };
    let reader = second.form().class;
    let cycles = match file {
        File::Gpr => match used {
            Some(slot) => {
                let chip = chip::of(sm);
                let producer = producer(first, i, chip);
                let cycles = chip.gpr[consumer(second, slot, j, chip) as usize][producer as usize];
                // ptxas leaves 4 between two that compare and between two that compute, and 5 between one and the other
                // (13.5, sm_80 to sm_100), as to and from the ALU.
                let apart = class == Class::Half && reader == Class::Half && compares(first) != compares(second);
                let cycles = if apart { chip.gpr[Consumer::Half as usize][Producer::Alu as usize] } else { cycles };
                let wide = |i: &Inst| {
                    matches!(side(i), Side::Pick) && i.slot(SlotName::Ra).is_some_and(|s| i.slot_width(s) == 2)
                };
                let sooner = chip.wide_pick < cycles && wide(first) && wide(second);
                let cycles = if sooner { chip.wide_pick } else { cycles };
                let low = reader == Class::R2Ur && producer == Producer::WideLow;
                let cycles = if low { cycles - chip.r2ur_wide_low } else { cycles };
                let high = reader == Class::Clmad && j == 1 && second.form().slots[slot as usize].name == SlotName::Rc;
                if high { cycles - chip.clmad_high } else { cycles }
            }
            None => 1,
        },
        File::Pred => predicate_raw(first, second, used.is_none(), sm),
        File::Ugpr => match (class, reader) {
            (Class::R2Ur, Class::UniformConst) => 15,
            (Class::R2Ur, _) => 13,
            (Class::UniformMove | Class::UniformConst, Class::UniformConst) => 5,
            (Class::UniformMove | Class::UniformConst, Class::Branch) => 3,
            (Class::UniformMove | Class::UniformConst, _) => 2,
            (Class::Elect, _) => 2,
            (_, Class::Uniform) => 4,
            (_, Class::UniformMove) => 7,
            (_, Class::UniformConst) => 12,
            (_, Class::Branch | Class::Convergence) => chip::of(sm).uniform_branch,
            (_, r) if !r.is_fixed(sm) => 9,
            _ => 6,
        },
        File::Upred => match (class, reader) {
            // VOTEU: the vendor lets PLOP3 read the very next cycle, and a guard of the uniform datapath after five.
            (Class::UniformMove, Class::Uniform | Class::Alu) if used.is_some() => 1,
            (Class::UniformMove, _) if used.is_some() => 2,
            (Class::UniformMove, _) => 5,
            (_, _) if used.is_none() => 11,
            (_, Class::Uniform) => 4,
            (_, Class::Branch) => 9,
            (_, Class::UniformConst) => 11,
            _ => 6,
        },
        File::Bar => 1,
    };
    Latency::Fixed(cycles)
}

/// The soonest and the latest cycle, counted from the issue of `inst`, at which a reader may come for word `word` of
/// what it writes into slot `def`; None where only a scoreboard tells, or the slot is no register of the tables.
pub fn ready(inst: &Inst, def: u8, word: u32, sm: u16) -> Option<(u8, u8)> {
    let class = inst.form().class;
    let SlotKind::Reg(file) = inst.form().slots.get(def as usize)?.kind else { return None };
    if !class.is_fixed(sm) {
        return None;
    }
    let range = |list: &[u8]| Some((*list.iter().min()?, *list.iter().max()?));
    match file {
        File::Gpr => {
            let chip = chip::of(sm);
            let column = producer(inst, word, chip) as usize;
            Some(chip.range[column])
        }
        File::Pred => {
            let chip = chip::of(sm);
            range(&[coupled_predicate(inst, None, chip), guard_predicate(class, chip)])
        }
        File::Ugpr => match class {
            Class::R2Ur => Some((13, 15)),
            Class::UniformMove | Class::UniformConst => Some((2, 5)),
            Class::Elect => Some((2, 2)),
            _ => Some((4, 12)),
        },
        File::Upred => match class {
            Class::UniformMove => Some((1, 11)),
            _ => Some((4, 11)),
        },
        File::Bar => None,
    }
}

/// The later of the two cycles of [`ready`]; 0 where there are none.
pub fn slowest(inst: &Inst, def: u8, word: u32, sm: u16) -> u8 {
    let form = inst.form();
    match form.slots.get(def as usize).map(|s| s.kind) {
        Some(SlotKind::Reg(File::Gpr)) if form.class.is_fixed(sm) => {
            let chip = chip::of(sm);
            let column = producer(inst, word, chip) as usize;
            chip.range[column].1
        }
        _ => ready(inst, def, word, sm).map_or(0, |r| r.1),
    }
}

/// True for packed 16-bit comparisons and minima, which run beside the other packed instructions.
fn compares(inst: &Inst) -> bool {
    matches!(inst.form().mnemonic, "HMNMX2" | "HSETP2" | "HSET2")
}

/// From a predicate to a guard, or to a reader that is not coupled to the ALU.
fn guard_predicate(class: Class, chip: &Chip) -> u8 {
    match class {
        Class::Double => chip.guard + 1,
        _ => chip.guard,
    }
}

/// From a predicate to an operand of a coupled reader; without one, the soonest.
fn coupled_predicate(first: &Inst, second: Option<&Inst>, chip: &Chip) -> u8 {
    use Class::*;
    let reader = second.map_or(Alu, |i| i.form().class);
    match first.form().class {
        Double => 6,
        Half => chip.half_predicate,
        R2Ur => 8,
        Elect => chip.elect,
        Fma | FmaInt | FmaWide if !matches!(reader, Alu | Cs2r) => 4,
        Fma | FmaInt | FmaWide => 5,
        // Where the ALU has sides, only its plain one hands predicates on in 4 cycles.
        _ if chip.split_alu => match (side(first), second.map(side)) {
            (Side::Plain, None | Some(Side::Plain)) => 4,
            (_, None) => 4,
            _ => 5,
        },
        _ if reader == Alu => 4,
        _ => 5,
    }
}

fn predicate_raw(first: &Inst, second: &Inst, guard: bool, sm: u16) -> u8 {
    use Class::*;
    let chip = chip::of(sm);
    let (class, reader) = (first.form().class, second.form().class);
    let coupled = matches!(reader, Alu | Pack | Fma | FmaInt | FmaWide | Cs2r)
        || chip.half_takes_predicates && matches!(reader, Half);
    match class {
        Double if !guard && (coupled || reader == Double) => 6,
        _ if guard || !(coupled || reader == HalfMma) => guard_predicate(class, chip),
        _ => coupled_predicate(first, Some(second), chip),
    }
}

/// From the issue of `first`, which writes slot `def`, to that of `second`, which writes (part of) the same in slot
/// `again`: the later write must be the last.
pub fn waw(first: &Inst, def: u8, second: &Inst, again: u8, sm: u16) -> Latency {
    let class = first.form().class;
    if !class.is_fixed(sm) {
        return Latency::Scoreboard;
    }
    let _ = again;
    let Some((reg, _)) = reg_of(first, Some(def)) else { return Latency::Fixed(1) };
    let later = second.form().class;
    use Class::*;
    let chip = chip::of(sm);
    // Where a double sets a scoreboard, its pipe is still one of the coupled ones on some chips.
    let coupled = later.is_fixed(sm) || later == Double && !chip.waw_double;
    Latency::Fixed(match reg.file() {
        File::Gpr => match class {
            Double | HalfMma if later == class => 1,
            Double | HalfMma if coupled => 6,
            Double | HalfMma => 10,
            Gmma => 1,
            Hmma | Imma => mma_waw(first, later, chip),
            Cs2r if coupled && later != Cs2r => chip.cs2r_waw,
            _ if !coupled => chip.waw_decoupled,
            // A guarded HFMA2.MMA follows HMUL2 after one cycle (ptxas 13.5, sm_90).
            Half if !matches!(later, Half | HalfMma) => chip.waw_half,
            Alu if later == Cs2r => chip.waw_cs2r,
            Fma | FmaInt if later == Cs2r => 2,
            _ => 1,
        },
        File::Pred => match class {
            _ if !coupled => 12,
            Double if later != Double => 6,
            // ptxas 13.5 leaves 2 for sm_90 (`HSETP2.BF16_V2 P3; PLOP3 P3`).
            Half if later != Half => 2,
            _ => 1,
        },
        File::Ugpr | File::Upred => match (class, later) {
            (Uniform, UniformConst | UniformMove) => 7,
            (Uniform, Uniform) => 1,
            (Uniform, R2Ur) => 4,
            (Uniform, l) if !l.is_fixed(sm) => 6,
            (R2Ur, R2Ur) => 2,
            (R2Ur, Uniform) => chip.waw_r2ur,
            (R2Ur, UniformMove) => chip.r2ur_umov,
            (R2Ur, _) => 13,
            (UniformMove | UniformConst, l) if !l.is_fixed(sm) => 5,
            (Elect, _) => 3,
            // `ULDC.64 UR4, c[0x0][0x228]; ULDC UR4, c[0x0][0x230]`, or `UMOV UR4, UR6` (13.5, sm_90 at -O1 and -O3).
            (UniformConst, UniformConst | UniformMove) => 1,
            (UniformMove, UniformMove | Uniform) => chip.umov_waw,
            _ => 2,
        },
        File::Bar => 1,
    })
}

/// From a matrix product to another write of its result: products of one kind stay in order, others come when it is done.
fn mma_waw(first: &Inst, later: Class, chip: &Chip) -> u8 {
    let done = chip.gpr[Consumer::Decoupled as usize][producer(first, 0, chip) as usize];
    if later == first.form().class { 1 } else { done.saturating_sub(4) }
}

/// From the issue of `first`, which reads in slot `used` (None: its guard), to that of `second`, which overwrites it in
/// slot `def`. [`Latency::Scoreboard`] where the reads of `first` are only known to be done by its read (or write)
/// scoreboard.
pub fn war(first: &Inst, used: Option<u8>, second: &Inst, def: u8, sm: u16) -> Latency {
    let _ = def;
    let class = first.form().class;
    // Predicates, guards and branch conditions are read at issue.
    let file = reg_of(first, used).map(|r| r.0.file());
    if !class.is_fixed(sm) && matches!(file, Some(File::Gpr | File::Ugpr)) && keeps_reading(first, used) {
        return Latency::Scoreboard;
    }
    let later = second.form().class;
    Latency::Fixed(match (class, later) {
        // Where doubles set scoreboards, their pipe keeps them in order.
        (Class::Double, Class::Double) if class.is_fixed(sm) => 2,
        (Class::Double | Class::Hmma | Class::Imma, _) | (_, Class::Double) => 1,
        (Class::Uniform, Class::UniformConst | Class::UniformMove) => 3,
        (c, l) if c.is_fixed(sm) && !l.is_fixed(sm) && file == Some(File::Gpr) => 2,
        _ => 1,
    })
}

/// True if `inst` waits until memory instructions before it have read their sources, as barriers do on some chips.
pub fn drains_reads(inst: &Inst, sm: u16) -> bool {
    chip::of(sm).barrier_drains && inst.form().mnemonic == "BAR"
}

/// True where the operand is read after issue, at a time that only a scoreboard tells.
fn keeps_reading(inst: &Inst, used: Option<u8>) -> bool {
    match inst.form().class {
        // Branch targets in registers are read at issue.
        Class::Branch | Class::Convergence => false,
        // A descriptor or a uniform register of the address is read at issue: the vendor overwrites it one cycle later.
        _ => used.is_some() && reg_of(inst, used).is_some_and(|r| r.0.file() == File::Gpr),
    }
}

fn writes_any(inst: &Inst) -> bool {
    let slots = inst.registers();
    if slots.implied & slots.writes != 0 {
        return inst.regs().iter().any(|r| r.def && !r.reg.is_const() && r.reg.file() != File::Bar);
    }
    inst.in_slots(slots.writes).any(|r| !r.is_const() && r.file() != File::Bar)
}

/// True if the results of `inst` are only known to be there by its write scoreboard.
pub fn needs_write_sb(inst: &Inst, sm: u16) -> bool {
    !inst.form().class.is_fixed(sm) && writes_any(inst)
}

/// True if a register that `inst` reads may still be read after the next instruction has issued, so that overwriting it
/// needs the read scoreboard (or the write scoreboard, which comes later).
pub fn may_need_read_sb(inst: &Inst, sm: u16) -> bool {
    let class = inst.form().class;
    // Branch targets in registers are read at issue, and so are a descriptor or a uniform register of the address: the vendor overwrites it one cycle later.
    !class.is_fixed(sm)
        && !matches!(class, Class::Branch | Class::Convergence)
        && inst.in_slots(inst.registers().reads).any(|r| !r.is_const() && r.file() == File::Gpr)
}

/// What issues at once with nothing else: cycles from `prev` to `next` below which the hardware would only make `next`
/// wait (no rule of correctness). The vendor keeps these where the two are independent.
pub fn issue_interval(prev: &Inst, next: &Inst, sm: u16) -> u8 {
    use Class::*;
    let _ = sm;
    let group = |c: Class| match c {
        Local | Global | Shared | Shuffle => Global,
        c => c,
    };
    let (a, b) = (group(prev.form().class), group(next.form().class));
    match (a, b) {
        (Global, Global) => 4,
        (Const, Const) | (Xu, Xu) | (Match, Match) => 8,
        (FmaWide, FmaWide) => 4,
        (FmaWide, FmaInt) => 4,
        (Alu, Alu) | (FmaInt, FmaInt) | (Half, Half) | (HalfMma, HalfMma) | (Double, Double) => 2,
        (Uniform, Uniform) | (R2Ur, R2Ur) | (Cs2r, Cs2r) | (Vote, Alu) | (Alu, Vote) => 2,
        (Bmov, _) => 5,
        _ => 1,
    }
}

/// The stall count that the vendor never goes below after `inst`, whatever follows (measured; `BRA` 5, `BAR` 1).
pub fn min_stall(inst: &Inst, sm: u16) -> u8 {
    let _ = sm;
    match inst.form().mnemonic {
        "BRA" | "EXIT" | "CALL" | "BSYNC" | "RET" | "BRX" | "BRXU" | "BREAK" | "YIELD" | "WARPSYNC" | "BMOV"
        | "NANOSLEEP" => 5,
        "MEMBAR" | "CGAERRBAR" => 6,
        "BAR" => 6,
        "DEPBAR" => 4,
        "CCTL" => 4,
        "BPT" | "PMTRIG" | "PREEXIT" | "ACQBULK" => 3,
        "LEPC" => 7,
        _ => 1,
    }
}

/// How long the result of an instruction with a scoreboard may be expected to take, in cycles: for schedulers, which
/// want to know how early to start it. Guesses from published microbenchmarks, not bounds.
pub fn expected(inst: &Inst, sm: u16) -> u16 {
    let _ = sm;
    match inst.form().class {
        // By its text: sm_75 counts otherwise.
        Class::Global if inst.modifier_text(ModName::Sem).is_some_and(|t| !matches!(t, "" | ".CONSTANT")) => 500,
        Class::Global => 300,
        Class::Texture if writes_any(inst) => 400,
        Class::Local => 60,
        Class::Shared => 30,
        Class::Const => 40,
        Class::Shuffle => 25,
        Class::Xu => 20,
        Class::SpecialReg => 25,
        Class::Match => 25,
        Class::Double => 8,
        _ => 10,
    }
}

/// The immediate of a slot, if it is one: for users that read counts (`DEPBAR.LE SB0, n`).
pub fn immediate(inst: &Inst, slot: SlotName) -> Option<i64> {
    match inst.get(slot)?.value {
        Value::Imm(value) => Some(value.get()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;

    fn raw_of(first: &str, second: &str, slot: SlotName) -> Latency {
        let (first, second) = (parse(first).expect(first), parse(second).expect(second));
        let def = first.regs().iter().find(|r| r.def && !r.reg.is_const()).and_then(|r| r.slot).expect("a result");
        raw(&first, def, &second, second.slot(slot).map(|s| s as u8), 90)
    }

    #[test]
    fn what_the_vendor_was_seen_to_leave() {
        use SlotName::*;
        let cases = [
            ("IADD3 R0, R1, R2, RZ", "LOP3.LUT R3, R0, R4, RZ, 0xc0, !PT", Ra, 4),
            ("FFMA R0, R1, R2, R3", "FFMA R4, R0, R5, R6", Ra, 4),
            ("FFMA R0, R1, R2, R3", "FMNMX R4, R0, R5, PT", Ra, 5),
            ("LOP3.LUT R0, R1, R2, RZ, 0xc0, !PT", "IMAD R4, R0, R5, R6", Ra, 5),
            ("VIADD R0, R1, 0x1", "IADD3 R2, R0, R3, RZ", Ra, 5),
            ("IADD3 R0, R1, R2, RZ", "STG.E desc[UR4][R6.64], R0", Rb, 5),
            ("DFMA R0, R2, R4, R6", "DFMA R8, R0, R4, R6", Ra, 8),
            ("DFMA R0, R2, R4, R6", "IADD3 R8, R0, R4, R6", Ra, 10),
            ("HFMA2.MMA R0, R1, R2, R3", "IADD3 R8, R0, R4, R6", Ra, 10),
            ("IMAD.WIDE R0, R2, R3, R4", "IADD3 R6, R0, R7, RZ", Ra, 3),
            ("IMAD.WIDE R0, R2, R3, R4", "IADD3 R6, R1, R7, RZ", Ra, 5),
            ("IMAD.WIDE R0, R2, R3, R4", "LDG.E R6, desc[UR4][R0.64]", Ra, 5),
            ("IMAD.WIDE R0, R2, R3, R4", "R2UR UR6, R0", Ra, 3),
            ("IMAD.WIDE R0, R2, R3, R4", "R2UR UR6, R1", Ra, 4),
            ("ISETP.GE.AND P0, PT, R0, R1, PT", "SEL R2, R3, R4, P0", Pp, 4),
            ("ISETP.GE.AND P0, PT, R0, R1, PT", "VOTE.ANY P1, P0", Pp, 13),
            ("ULDC.64 UR4, c[0x0][0x208]", "LDG.E R6, desc[UR4][R0.64]", UR, 2),
            ("R2UR UR4, R0", "LDG.E R6, desc[UR4][R0.64]", UR, 13),
            ("UIADD3 UR4, UR5, 0x1, URZ", "IADD3 R2, R3, UR4, RZ", Rb, 6),
            ("UIADD3 UR4, UR5, 0x1, URZ", "UIADD3 UR6, UR4, 0x1, URZ", Ra, 4),
        ];
        for (first, second, slot, cycles) in cases {
            assert_eq!(raw_of(first, second, slot), Latency::Fixed(cycles), "{first} -> {second}");
        }
        assert_eq!(raw_of("LDG.E R0, desc[UR4][R2.64]", "IADD3 R1, R0, R2, RZ", Ra), Latency::Scoreboard);
        assert_eq!(raw_of("MUFU.RCP R0, R1", "FADD R1, R0, R2", Ra), Latency::Scoreboard);
    }

    #[test]
    fn the_address_of_a_tensor_map_is_read_soon() {
        let wide = parse("IMAD.WIDE R0, R2, R3, R4").expect("text");
        let moved = parse("R2UR UR6, R0").expect("text");
        let slot = moved.slot(SlotName::Ra).expect("a slot") as u8;
        // What ptxas 13.5 leaves on sm_90 and sm_100a.
        assert_eq!([90, 100].map(|sm| raw(&wide, 0, &moved, Some(slot), sm)), [Latency::Fixed(3); 2]);
    }

    #[test]
    fn a_guard_waits_longer() {
        let setp = parse("ISETP.GE.AND P0, PT, R0, R1, PT").expect("text");
        let guarded = parse("@P0 IADD3 R0, R1, R2, RZ").expect("text");
        assert_eq!(raw(&setp, 0, &guarded, None, 90), Latency::Fixed(13));
    }

    #[test]
    fn scoreboards() {
        let yes = [
            "LDG.E R0, desc[UR4][R2.64]",
            "MUFU.RCP R0, R1",
            "S2R R0, SR_TID.X",
            "POPC R0, R1",
            "SHFL.IDX PT, R0, R1, R2, R3",
        ];
        let no = [
            "FADD R0, R1, R2",
            "DADD R0, R2, R4",
            "STG.E desc[UR4][R2.64], R0",
            "ULDC UR4, c[0x0][0x28]",
            "BAR.SYNC 0x0",
        ];
        assert!(yes.iter().all(|t| needs_write_sb(&parse(t).expect(t), 90)));
        assert!(!no.iter().any(|t| needs_write_sb(&parse(t).expect(t), 90)));
        assert!(may_need_read_sb(&parse("STG.E desc[UR4][R2.64], R0").expect("text"), 90));
        assert!(!may_need_read_sb(&parse("DADD R0, R2, R4").expect("text"), 90));
        assert!(!may_need_read_sb(&parse("S2R R0, SR_TID.X").expect("text"), 90));
    }

    #[test]
    fn virtual_registers_take_the_longest() {
        use crate::{forms, inst::Inst};
        let pair = Reg::virt(File::Gpr, 9);
        let wide = Inst::new(forms::IMAD_WIDE_RRR).with(SlotName::Rd, pair);
        let low = Inst::new(forms::IADD3_RRR).with(SlotName::Ra, Reg::virt(File::Gpr, 1));
        // Which word of the pair the single value is, only the pool knows.
        assert_eq!(raw(&wide, 0, &low, Some(low.slot(SlotName::Ra).expect("a slot") as u8), 90), Latency::Fixed(5));
    }
}
