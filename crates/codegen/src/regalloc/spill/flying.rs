//! Sums of products of warpgroups that are under way: they are where they are until the program waits.
//!
//! A product writes its sums some time after it was issued. What is put on the stack before a wait for its group waits for it at once
//! ([`crate::sched::warpgroup`]), and frees no register before: so other values go, and sums that go later are stored behind the wait.

use crate::cfg::Cfg;
use crate::isel::warpgroup::{end_of_group, left_by};
use crate::mir::{Func, Inst, Op, Vreg};
use crate::sched::holds::{Flight, note};
use rustc_hash::FxHashSet;
use sass::latency::Class;

/// Follows an instruction.
pub(super) fn step(f: &Func, inst: &Inst, sums: &mut Flight) {
    let Op::Sass(s) = &inst.op else { return };
    if let Some(left) = left_by(s) {
        sums.retain(|x| i64::from(x.1) <= left);
    } else if *s == end_of_group() {
        sums.iter_mut().for_each(|x| x.1 = x.1.saturating_add(1));
    } else if s.form().class == Class::Gmma {
        f.defs(&inst.op, |v| note(sums, v, 0));
    }
}

/// What is under way where each block begins; nothing at all where no product is.
pub(super) fn entries(f: &Func, cfg: &Cfg) -> Vec<Flight> {
    let gmma = |i: &Inst| matches!(&i.op, Op::Sass(s) if s.form().class == Class::Gmma);
    if !f.blocks.iter().flat_map(|b| &b.insts).any(gmma) {
        return Vec::new();
    }
    let mut entry = vec![Flight::new(); f.blocks.len()];
    let mut exit = entry.clone();
    // What is under way only grows from round to round.
    let mut again = true;
    while again {
        again = false;
        for &b in &cfg.rpo {
            let mut now = Flight::new();
            for &p in &cfg.preds[b as usize] {
                let before = &exit[p as usize];
                before.iter().for_each(|&(v, age)| note(&mut now, v, age));
                for e in f.blocks[p as usize].term.edges().iter().filter(|e| e.block.0 == b && !before.is_empty()) {
                    for (&param, arg) in f.blocks[b as usize].params.iter().zip(&e.args) {
                        if let Ok(at) = before.binary_search_by_key(arg, |x| x.0) {
                            note(&mut now, param, before[at].1);
                        }
                    }
                }
            }
            entry[b as usize].clone_from(&now);
            f.blocks[b as usize].insts.iter().for_each(|i| step(f, i, &mut now));
            again |= now != exit[b as usize];
            exit[b as usize] = now;
        }
    }
    entry
}

/// Which of the sums made in a block, or under way where it begins, land in it.
pub(super) fn landing(f: &Func, insts: &[Inst], entry: &Flight) -> FxHashSet<Vreg> {
    let mut now = entry.clone();
    let mut landed = FxHashSet::default();
    for inst in insts {
        if let Op::Sass(s) = &inst.op
            && let Some(left) = left_by(s)
        {
            landed.extend(now.iter().filter(|x| i64::from(x.1) > left).map(|x| x.0));
        }
        step(f, inst, &mut now);
    }
    landed
}

#[cfg(test)]
mod tests {
    use crate::mir::text;
    use crate::regalloc::{self, Stats, Tightness};
    use crate::sched::warpgroup;
    use std::fmt::Write;

    /// Values, a product of sixteen sums, `between` values more, a wait, then all of it is stored, the sums last: with so many registers.
    fn allocate(between: usize, max: u32) -> (Stats, usize) {
        let mut t = format!("func k entry max={max} outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n");
        (110..114).for_each(|k| writeln!(t, "    UMOV_I Rd=%ur{k} Mask=0").unwrap());
        let values = |from: usize, n: usize, t: &mut String| {
            (from..from + n).for_each(|k| writeln!(t, "    LDS Rd=%r{k} Ra=RZ Imm={:#x}", 4 * k).unwrap());
        };
        let stores = |from: usize, n: usize, t: &mut String| {
            (from..from + n).for_each(|k| writeln!(t, "    STS Ra=RZ Rb=%r{k} Imm={:#x}", 4 * k).unwrap());
        };
        values(200, 16, &mut t);
        t += "    WARPGROUP\n";
        let sums = (120..136).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(",");
        writeln!(t, "    HGMMA_RUR_OPEN.M53=3 Rd={{{sums}}} URa={{%ur110,%ur111,%ur112,%ur113}} Pp=!UPT").unwrap();
        t += "    HGMMA_RUR Pp=!UPT\n";
        values(300, between, &mut t);
        t += "    WARPGROUP_I\n";
        values(400, 8, &mut t);
        stores(400, 8, &mut t);
        stores(300, between, &mut t);
        stores(200, 16, &mut t);
        stores(120, 16, &mut t);
        let mut f = text::parse(&(t + "    exit\n}\n")).unwrap().remove(0);
        let stats = regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        (stats, warpgroup::run(&mut f).len())
    }

    /// The sums are wanted last, but free nothing while they are under way; behind the wait they do.
    #[test]
    fn sums_under_way_stay_where_they_are() {
        let (stats, waits) = allocate(8, 36);
        assert!(stats.spilled >= 5, "{stats:?}");
        assert_eq!(waits, 0);
        let (stats, waits) = allocate(0, 36);
        assert!(stats.spilled >= 5, "{stats:?}");
        assert_eq!(waits, 0);
    }
}
