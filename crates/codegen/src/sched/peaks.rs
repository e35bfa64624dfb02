//! Fewer registers by computing again what is cheap, where that costs little.
//!
//! [`remat`] makes values fit that do not. Here they do, but what one instruction makes waits in a register through the block that has the most values
//! alive, and with it decides how many registers the function takes. Such values are made again for the readers behind that block where the function
//! takes a part fewer registers for it, and a much smaller part more instructions. Runs on SSA form, before scheduling.

use super::cheap::{Cheap, candidates};
use super::prepass::DEEPER;
use super::remat;
use crate::cfg::Cfg;
use crate::mir::Func;
use crate::mir::liveness::Liveness;
use crate::regalloc::pressures;
use sass::reg::File;

/// Registers that shall be spared: one of so many. (To try a tenth, too, where a quarter does not pay makes registers 0.15 % fewer, of 683 modules of public code, and
/// takes 1 % of compiling.)
const PART: u32 = 4;
/// Of threads with more registers an SM holds few: each that addresses wait in is worth twice as much.
const MANY: u32 = 128;

/// What is made again, and when.
struct Way {
    /// What is made of two words, too.
    words: bool,
    /// Where no more registers are taken than these, one less is worth nothing.
    few: u32,
    /// A part of the instructions is worth so many times that part of the registers.
    worth: u64,
    /// At least one of so many registers must be spared.
    least: u32,
    /// What is made again may be made of what could be, too.
    rounds: usize,
}

/// Addresses take longer to make, and what reads them waits for them: that must spare more.
const WAYS: [Way; 2] = [
    Way { words: false, few: 24, worth: 3, least: u32::MAX, rounds: 2 },
    Way { words: true, few: 40, worth: 6, least: 8, rounds: 5 },
];

/// Runs the pass; gives what is alive then, if anything changed. `pressure`: how many values of each file are alive at most in each block.
pub fn run(f: &mut Func, cfg: &Cfg, live: &Liveness, pressure: &[[u32; 4]]) -> Option<Liveness> {
    if f.blocks.len() < 2 {
        return None;
    }
    let mut own: Option<(Liveness, Vec<[u32; 4]>)> = None;
    // Of the function as it is.
    let mut list: Option<Vec<Cheap>> = None;
    for way in WAYS {
        for _ in 0..way.rounds {
            let (live, pressure) = own.as_ref().map_or((live, pressure), |o| (&o.0, &o.1));
            let Some((made, live, pressure)) = spare(f, cfg, live, pressure, &way, &mut list) else { break };
            *f = made;
            list = None;
            own = Some((live, pressure));
        }
    }
    own.map(|o| o.0)
}

/// A function, where its values are alive, and how many at most in each block.
type Made = (Func, Liveness, Vec<[u32; 4]>);

/// The function with fewer registers, if that pays. `list`: what may be made again, if that was looked for already.
fn spare(
    f: &Func,
    cfg: &Cfg,
    live: &Liveness,
    pressure: &[[u32; 4]],
    way: &Way,
    list: &mut Option<Vec<Cheap>>,
) -> Option<Made> {
    let most = highest(pressure);
    if most <= way.few {
        return None;
    }
    let list = list.get_or_insert_with(|| candidates(f, cfg, live));
    let list: Vec<&Cheap> = list.iter().filter(|c| way.words || c.values.len() == 1).collect();
    let before = cost(f);
    let limit = most - most / PART + remat::SPARE[0];
    let chosen = remat::choose(f, cfg, live, pressure, [limit, u32::MAX], &list);
    if chosen.is_empty() {
        return None;
    }
    let mut g = f.clone();
    remat::repeat_all(&mut g, &list, &chosen);
    let live = Liveness::new(&g, cfg);
    let pressure = pressures(&g, cfg, &live).1;
    let now = highest(&pressure);
    if now >= most || now > most - most / way.least {
        return None;
    }
    // Parts of a million.
    let spared = 1_000_000 * i64::from(most - now) / i64::from(most);
    let more = (i128::from(cost(&g)) - i128::from(before)) * 1_000_000 / i128::from(before.max(1));
    let worth = if way.words && most > MANY { way.worth.div_ceil(2) } else { way.worth };
    (spared > (worth as i128 * more.max(0)).min(1 << 40) as i64).then_some((g, live, pressure))
}

/// The most general registers that any block needs.
fn highest(pressure: &[[u32; 4]]) -> u32 {
    pressure.iter().map(|p| p[File::Gpr as usize]).max().unwrap_or(0)
}

/// Instructions, as often as loops around them are taken to run.
fn cost(f: &Func) -> u64 {
    f.blocks.iter().map(|b| (b.insts.len() as u64 + 1) << (DEEPER * b.depth.min(4))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{Op, text, verify};

    /// Thirty values alive at once in one block, eight sums that are read behind it, in `depth` loops, and so many instructions more there.
    fn sums(depth: u32, more: usize) -> (u32, u32, usize) {
        let part = |line: &str, list: std::ops::Range<usize>| -> String {
            list.map(|k| format!("    {}\n", line.replace('#', &k.to_string()))).collect()
        };
        let head =
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n";
        let made = part("IADD3_RIR Rd=%r# Ra=%r0 Rb=#", 1..9);
        let crowd = part("LDS Rd=%r# Ra=%r0", 10..40) + &part("STS Ra=%r0 Rb=%r#", 10..40);
        let read = part("STS Ra=%r0 Rb=%r#", 1..9) + &"    STS Ra=%r0 Rb=%r0\n".repeat(more);
        let t = format!(
            "{head}{made}    br blk1()\nblk1(): depth=0\n{crowd}    br blk2()\nblk2(): depth={depth}\n{read}    ISETP_RI.Cmp=1 Pu=%p99 Ra=%r0 Rb=0x7\n    \
             brif %p99, blk2(), blk3()\nblk3(): depth=0\n    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        let cfg = f.cfg();
        let live = Liveness::new(&f, &cfg);
        let pressure = pressures(&f, &cfg, &live).1;
        run(&mut f, &cfg, &live, &pressure);
        verify::ssa(&f).unwrap();
        let after = highest(&pressures(&f, &cfg, &Liveness::new(&f, &cfg)).1);
        let again = |i: &&crate::mir::Inst| matches!(&i.op, Op::Sass(s) if s.form().mnemonic == "IADD3");
        (highest(&pressure), after, f.blocks[2].insts.iter().filter(again).count())
    }

    #[test]
    fn what_waits_through_the_most_crowded_block_is_made_behind_it() {
        assert_eq!(sums(0, 0), (39, 31, 8));
    }

    /// In a loop they are made as often as it runs: that pays where they are a small part of it.
    #[test]
    fn not_where_it_costs_more_than_registers_are_worth() {
        assert_eq!(sums(1, 0), (39, 39, 0));
        assert_eq!(sums(1, 1000), (39, 31, 8));
    }
}
