//! How many registers stay free where there are too few: none, but in blocks where something else needs one for a moment.
//!
//! What lives on the stack on both sides of an edge and moves there goes through a register, and vectors may find no place where everything is full.
//! Either is known only when it has happened: then the blocks in question get one more, and what lives in registers is chosen again.

use super::{Banks, Note, SPARE, Stats, Tightness, Unfit, assign, pressures, spill};
use crate::cfg::Cfg;
use crate::mir::Func;
use crate::mir::liveness::Liveness;
use sass::reg::File;

/// A function that has more values alive than registers, and what is known of it.
pub(super) struct Before {
    pub cfg: Cfg,
    pub live: Liveness,
    pub symbols: spill::Symbols,
    pub notes: Vec<Vec<Note>>,
    pub stats: Stats,
    pub tight: Tightness,
}

/// A function whose registers are assigned.
pub(super) struct Assigned {
    pub cfg: Cfg,
    pub symbols: spill::Symbols,
    pub notes: Vec<Vec<Note>>,
    pub stats: Stats,
}

/// How many times single blocks get more; then all do.
const ROUNDS: u32 = 3;

/// Spills, and assigns registers.
///
/// # Errors
/// Where there are too few for an instruction, or uniform registers do not fit.
pub(super) fn run(f: &mut Func, b: Before) -> Result<Assigned, Unfit> {
    let banks = Banks::of(f);
    let there = banks.count(File::Gpr);
    // Where threads change how many they have, that is not so exact.
    let least = if crate::registers::owned(f, &b.cfg).is_empty() { 0 } else { SPARE };
    let mut spare = vec![least; f.blocks.len()];
    if let Tightness::Apart(more) = b.tight {
        assign::products(f).for_each(|n| spare[n] = spare[n].max(more as usize));
    }
    let mut round = 0;
    loop {
        let (mut g, mut symbols, mut notes, mut stats) = (f.clone(), b.symbols.clone(), b.notes.clone(), b.stats);
        spill::run(&mut g, &b.cfg, &b.live, File::Gpr, &banks, &spare, &mut symbols, &mut notes, &mut stats)?;
        let last = spare.iter().all(|&n| n >= SPARE);
        let cfg = g.cfg();
        let live = Liveness::new(&g, &cfg);
        let (need, by_block) = pressures(&g, &cfg, &live);
        if need.max[File::Gpr as usize] <= there || last {
            let slot = (stats.spilled > 0).then(|| behind(f, &g));
            let means = assign::Means { banks, pressure: need.max, tight: b.tight, slot };
            match assign::run(&mut g, &cfg, &live, means, &mut notes) {
                Err(unfit) if last || unfit.uniform => return Err(unfit),
                Err(_) => round = ROUNDS,
                Ok(assign::Made { through_slot: through, .. }) => {
                    if through > 0 {
                        g.frame.fixed += 4;
                        stats.spill_stores += 4 * through;
                        stats.spill_loads += 4 * through;
                    }
                    *f = g;
                    return Ok(Assigned { cfg, symbols, notes, stats });
                }
            }
        }
        round += 1;
        if round > ROUNDS {
            let most = spare.iter().copied().max().unwrap_or(0);
            spare.fill((most + 1).min(SPARE));
            continue;
        }
        let before = spare.clone();
        for (n, need) in by_block.iter().enumerate() {
            let over = need[File::Gpr as usize].saturating_sub(there) as usize;
            if over > 0 {
                let next = f.blocks[n].term.successors();
                let beside = b.cfg.preds[n].iter().copied().chain(next.iter().map(|s| s.0));
                for n in beside.chain([n as u32]) {
                    let room = &mut spare[n as usize];
                    *room = (*room).max((before[n as usize] + over).min(SPARE));
                }
            }
        }
    }
}

/// The slot behind those of what was spilled, of a function that was `before`.
fn behind(before: &Func, f: &Func) -> assign::Slot {
    let (begin, end) = (before.frame.fixed.next_multiple_of(4), f.frame.fixed);
    assign::Slot { number: (end - begin) / 4, at: i64::from(end) }
}

#[cfg(test)]
mod tests {
    use super::super::{Stats, Tightness};
    use crate::mir::text;
    use std::fmt::Write;

    /// Allocates with `max` registers, R1 among them; the checker proves what comes out.
    fn allocate(max: u32, body: &str) -> Stats {
        let text = format!("func k entry max={max} outgoing=0 fixed=0 size=0 align=8 {{\n{body}}}\n");
        let mut f = text::parse(&text).unwrap().remove(0);
        super::super::run(&mut f, true, Tightness::Tight).unwrap()
    }

    /// `n` values are loaded, and stored the other way round.
    fn stack(n: usize) -> String {
        let mut out = String::from("blk0(): depth=0\n");
        (0..n).for_each(|i| writeln!(out, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap());
        (0..n).rev().for_each(|i| writeln!(out, "    STS Ra=RZ Rb=%r{i} Imm={:#x}", 4 * i).unwrap());
        out + "    exit\n"
    }

    #[test]
    fn one_value_too_many_is_one_value_spilled() {
        for max in [18, 24, 32] {
            let there = max as usize - 1;
            assert_eq!(allocate(max, &stack(there)).spilled, 0);
            for more in 1..4 {
                let s = allocate(max, &stack(there + more));
                assert_eq!((s.spilled, s.spill_stores, s.spill_loads), (more as u32, 4 * more as u32, 4 * more as u32));
            }
        }
    }

    /// Around products so many registers stay free as are asked for, where they would not anyway.
    #[test]
    fn registers_stay_free_around_products() {
        let run = |values: usize, tight: Tightness| {
            let (mut loads, mut stores) = (String::new(), String::new());
            for i in 0..values {
                writeln!(loads, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap();
                writeln!(stores, "    STS Ra=RZ Rb=%r{i} Imm={:#x}", 4 * i).unwrap();
            }
            let uniform: String = (0..4).map(|k| format!("    UMOV_I Rd=%ur{}\n", 90 + k)).collect();
            let t = format!(
                "func k entry max=64 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{loads}    br blk1()\nblk1(): depth=0\n{uniform}    WARPGROUP\n\
                 \x20   HGMMA_RUR_OPEN Rd={{%r100,%r101,%r102,%r103}} URa={{%ur90,%ur91,%ur92,%ur93}} Rc=RZ Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n\
                 \x20   STS.Size=6 Ra=RZ Rb={{%r100,%r101,%r102,%r103}}\n    br blk2()\nblk2(): depth=0\n{stores}    exit\n}}\n"
            );
            let mut f = text::parse(&t).unwrap().remove(0);
            super::super::run(&mut f, true, tight).map(|s| s.spilled)
        };
        assert_eq!(run(56, Tightness::Loose).unwrap(), 0);
        assert!(run(48, Tightness::Apart(8)).is_err());
        assert!(run(56, Tightness::Apart(8)).unwrap() >= 4);
    }

    /// Values go round in a loop that has more of them than registers: some go from slot to slot, through a register that the blocks there keep free.
    #[test]
    fn what_moves_from_slot_to_slot_has_a_register() {
        for (max, n) in [(18, 24), (18, 40), (24, 30), (32, 36), (32, 60)] {
            let list = |from: usize| (0..n).map(|i| format!("%r{}", from + i)).collect::<Vec<_>>();
            let (first, mut round) = (list(0), list(100));
            let mut body = String::from("blk0(): depth=0\n");
            (0..n).for_each(|i| writeln!(body, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap());
            writeln!(body, "    br blk1({})\nblk1({}): depth=1", first.join(", "), round.join(", ")).unwrap();
            writeln!(body, "    STS Ra=RZ Rb=%r100\n    ISETP_RI.Cmp=1 Pu=%p99 Ra=%r100 Rb=0x3").unwrap();
            round.rotate_left(1);
            writeln!(body, "    brif %p99, blk1({}), blk2()\nblk2(): depth=0", round.join(", ")).unwrap();
            (0..n).for_each(|i| writeln!(body, "    STS Ra=RZ Rb=%r{} Imm={:#x}", 100 + i, 4 * i).unwrap());
            let s = allocate(max, &(body + "    exit\n"));
            assert!(s.spilled >= (n - max as usize + 1) as u32, "{max} {n}: {s:?}");
        }
    }

    /// One of two ways loads more values than there are registers, and the other has none of them, but one of its own: that one stays where it is.
    #[test]
    fn values_that_nobody_made_take_no_more_registers_than_there_are() {
        let list = |from: usize| (0..40).map(|i| format!("%r{}", from + i)).collect::<Vec<_>>().join(", ");
        let mut body = String::from(
            "blk0(): depth=0\n    S2R Rd=%r90 Sr=0x21\n    ISETP_RI.Cmp=1 Pu=%p91 Ra=%r90 Rb=0x5\n    brif %p91, blk1(), blk2()\n",
        );
        body += "blk1(): depth=0\n";
        (100..140).for_each(|v| writeln!(body, "    LDS Rd=%r{v} Ra=%r90 Imm={:#x}", 4 * v).unwrap());
        writeln!(body, "    br blk3({})\nblk2(): depth=0", list(100)).unwrap();
        (200..240).filter(|&v| v != 207).for_each(|v| writeln!(body, "    CS2R.W=0 Rd=%r{v} Sr=0xff").unwrap());
        writeln!(body, "    S2R Rd=%r207 Sr=0x22\n    br blk3({})\nblk3({}): depth=0", list(200), list(300)).unwrap();
        (300..340).for_each(|v| writeln!(body, "    STS Ra=%r90 Rb=%r{v} Imm={:#x}", 4 * v).unwrap());
        for max in [18, 24, 32] {
            let s = allocate(max, &(body.clone() + "    exit\n"));
            // Those that come from the first way, to the stack and back.
            assert!(s.spill_stores < 4 * 50 && s.spill_loads < 4 * 50, "{max}: {s:?}");
        }
    }

    /// Of a constant and a value from memory, the constant goes though it is needed sooner.
    #[test]
    fn constants_go_first() {
        let mut body = stack(17).replace("    STS Ra=RZ Rb=%r0 ", "    STS Ra=RZ Rb=%r50\n    STS Ra=RZ Rb=%r0 ");
        body = body.replacen("depth=0\n", "depth=0\n    MOV_I Rd=%r50 Rb=0x123\n", 1);
        let s = allocate(18, &body);
        assert_eq!((s.spilled, s.spill_stores, s.spill_loads), (0, 0, 0));
    }

    /// What an instruction makes of a constant goes first, too, and is made again.
    #[test]
    fn what_constants_make_goes_first() {
        for (make, spilled) in [("IADD3_RIR Rd=%r51 Ra=%r50 Rb=0x7", 0), ("LDS Rd=%r51 Ra=%r50", 1)] {
            let mut body = stack(17).replace("    STS Ra=RZ Rb=%r0 ", "    STS Ra=RZ Rb=%r51\n    STS Ra=RZ Rb=%r0 ");
            body = body.replacen("depth=0\n", &format!("depth=0\n    LDC Rd=%r50 Const=c[0][536]\n    {make}\n"), 1);
            assert_eq!(allocate(18, &body).spilled, spilled, "{make}");
        }
    }

    /// A selection is not computed again where its predicate is no longer needed: the other way out of the block before reads it, and all seven
    /// predicates are taken here.
    #[test]
    fn what_is_computed_again_keeps_no_predicate_alive() {
        let mut body = String::from("blk0(): depth=0\n    LDS Rd=%r90 Ra=RZ\n    LDS Rd=%r91 Ra=RZ Imm=4\n");
        let compare = |p: usize| format!("    ISETP_RI.Cmp=1 Pu=%p{} Ra=%r90 Rb={p:#x}\n", 200 + p);
        let store = |r: usize| format!("    STS Ra=RZ Rb=%r{r}\n");
        (0..7).for_each(|p| body += &compare(p));
        body += "    SEL_RR Rd=%r92 Ra=%r90 Rb=%r91 Pp=%p200\n    brif %p206, blk1(), blk2()\nblk1(): depth=0\n";
        body += &stack(17).replace("blk0(): depth=0\n", "").replace("    exit\n", "");
        body += &(store(90) + &store(91) + &compare(7) + &compare(8) + &store(92) + &store(90) + &store(91));
        for p in [1, 2, 3, 4, 5, 7, 8] {
            body += &format!("    SEL_RI Rd=%r{0} Ra=RZ Rb=0x1 Pp=%p{0}\n", 200 + p).replacen("%r2", "%r3", 1);
            body += &store(300 + p);
        }
        body += "    br blk3()\nblk2(): depth=0\n    SEL_RI Rd=%r400 Ra=RZ Rb=0x1 Pp=%p200\n";
        body += &(store(400) + "    br blk3()\nblk3(): depth=0\n    exit\n");
        assert!(allocate(18, &body).spilled > 0);
    }

    /// Three ways meet, and two of them need all registers: what these have put away is loaded behind, once.
    #[test]
    fn what_most_ways_lack_is_loaded_behind_them() {
        let mut body = String::from("blk0(): depth=0\n    S2R Rd=%r99 Sr=0x21\n");
        (0..8).for_each(|i| writeln!(body, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap());
        body += "    ISETP_RI.Cmp=1 Pu=%p98 Ra=%r99 Rb=0x3\n    ISETP_RI.Cmp=1 Pu=%p97 Ra=%r99 Rb=0x7\n    brif %p98, blk1(), blk2()\n";
        let crowd = |from: usize| {
            stack(17).replace("%r", &format!("%r{from}")).replace("blk0(): depth=0\n", "").replace("    exit\n", "")
        };
        writeln!(body, "blk1(): depth=0\n{}    br blk5()\nblk2(): depth=0\n    brif %p97, blk3(), blk4()", crowd(2))
            .unwrap();
        writeln!(body, "blk3(): depth=0\n{}    br blk5()\nblk4(): depth=0\n    br blk5()\nblk5(): depth=0", crowd(3))
            .unwrap();
        (0..8).for_each(|i| writeln!(body, "    STS Ra=RZ Rb=%r{i} Imm={:#x}", 4 * i).unwrap());
        let s = allocate(18, &(body + "    exit\n"));
        assert_eq!((s.spill_stores, s.spill_loads), (32, 32));
    }
}
