//! Where the vectors of one instruction go, and what must move out of their way.

use super::HELD;
use super::bank::Bank;
use crate::mir::{Vreg, alignment};
use smallvec::SmallVec;

/// What it costs to write what a product under way reads, or to move what it writes, in moves: it is waited for.
const BUSY: usize = 16;

/// What it is worth, in moves, that what a product reads lies where the next iteration leaves it alone.
const HOME: usize = 32;

/// A vector of an instruction that is being placed.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) list: SmallVec<[Vreg; 4]>,
    pub(super) base: Option<usize>,
    /// Number among the vectors that the instruction defines.
    pub(super) def: Option<usize>,
    /// Read, and some component is needed later.
    pub(super) live: bool,
    /// Defined over the vector of these values: a warpgroup's product works in place.
    pub(super) over: Option<SmallVec<[Vreg; 4]>>,
    /// Where it had better be.
    pub(super) home: Option<usize>,
}

/// Where the vector lies that a group is defined over.
fn base_over(groups: &[Group], g: &Group) -> Option<usize> {
    let over = g.over.as_ref()?;
    groups.iter().find(|x| x.def.is_none() && x.list == *over)?.base
}

/// Where values go.
pub(super) struct Plan {
    pub(super) moves: Vec<(Vreg, usize)>,
    pub(super) bases: Vec<(usize, usize)>,
}

/// Leaves vectors that are in place, puts the others where the least is in the way: rather values that stand alone than those of another vector that is in
/// place, in `whole` registers, which would have to be put together again. What lies in registers that are `fixed` stays there, and nothing else moves where
/// it would be in the way of sums that are made later, to registers that are `shunned`, as long as there are others.
pub(super) fn plan_near(
    bank: &Bank,
    groups: &mut [Group],
    dying: &[Vreg],
    whole: &[bool; 256],
    [fixed, shunned]: [&[bool; 256]; 2],
) -> Option<Plan> {
    let mut pinned = [false; 256]; // read there
    let mut pinned_live = [false; 256]; // and needed later
    let mut reserved = [false; 256]; // defined there
    let mut mark = |g: &Group, base: usize| {
        for r in base..base + g.list.len() {
            match g.def {
                Some(_) => reserved[r] = true,
                None => {
                    pinned[r] = true;
                    pinned_live[r] |= g.live;
                }
            }
        }
        (pinned, pinned_live, reserved)
    };
    let (mut p, mut pl, mut rs) = ([false; 256], [false; 256], [false; 256]);
    for g in groups.iter() {
        if let Some(base) = g.base {
            (p, pl, rs) = mark(g, base);
        }
    }
    let lives = |v: u32| v < HELD && !dying.contains(&Vreg(v));
    let busy = |r: usize| if bank.idle(r) && bank.landed(r) { 0 } else { BUSY };
    let apart = |r: usize| usize::from(whole[r]);
    for pass in [false, true] {
        for n in 0..groups.len() {
            if groups[n].base.is_some() || groups[n].def.is_some() != pass {
                continue;
            }
            let in_place = base_over(groups, &groups[n]);
            let g = &mut groups[n];
            let (size, align) = (g.list.len(), alignment(g.list.len()));
            if let Some(base) = in_place {
                g.base = Some(base);
                (p, pl, rs) = mark(g, base);
                continue;
            }
            let mut best: Option<(usize, usize)> = None;
            for base in (0..bank.limit).step_by(align) {
                let range = base..base + size;
                let legal = range.end <= bank.limit
                    && range.clone().all(|r| {
                        // What is needed later is not put where something is made, that has its place already.
                        bank.usable[r] && if pass { !pl[r] && !rs[r] } else { !(p[r] || g.live && rs[r]) }
                    })
                    && range.clone().zip(&g.list).all(|(r, v)| !fixed[r] || !pass && bank.occ[r] == v.0);
                if !legal {
                    continue;
                }
                let cost: usize = range
                    .enumerate()
                    .map(|(n, r)| {
                        let o = bank.occ[r];
                        match pass {
                            false if o == g.list[n].0 => 0,
                            false if o < HELD && !g.list.contains(&Vreg(o)) => 3 + apart(r) + busy(r),
                            false => 1 + busy(r),
                            true if lives(o) => 2 + apart(r) + busy(r),
                            true => busy(r),
                        }
                    })
                    .sum();
                let cost = if g.home.is_some_and(|home| home != base) { cost + HOME } else { cost };
                if best.is_none_or(|b| cost < b.0) {
                    best = Some((cost, base));
                }
            }
            let base = best?.1;
            g.base = Some(base);
            (p, pl, rs) = mark(g, base);
        }
    }
    finish(bank, groups, dying, [&p, &rs], [fixed, shunned])
}

/// Places all vectors anew, apart from each other, the widest first: no holes. `fixed` and `shunned` as in [`plan_near`].
pub(super) fn plan_fresh(
    bank: &Bank,
    groups: &mut [Group],
    dying: &[Vreg],
    [fixed, shunned]: [&[bool; 256]; 2],
) -> Option<Plan> {
    let mut taken = [false; 256];
    // What is defined over another vector comes after it.
    groups.iter_mut().for_each(|g| g.base = None);
    groups.sort_by_key(|g| g.over.is_some());
    for n in 0..groups.len() {
        if let Some(base) = base_over(groups, &groups[n]) {
            groups[n].base = Some(base);
            continue;
        }
        let g = &mut groups[n];
        let (size, align) = (g.list.len(), alignment(g.list.len()));
        let base = (0..bank.limit).step_by(align).find(|&base| {
            let free = |(k, r): (usize, usize)| {
                let stays = fixed[r] && (g.def.is_some() || bank.occ[r] != g.list[k].0);
                bank.usable[r] && !taken[r] && !stays
            };
            base + size <= bank.limit && (base..base + size).enumerate().all(free)
        })?;
        taken[base..base + size].fill(true);
        g.base = Some(base);
    }
    finish(bank, groups, dying, [&taken, &taken], [fixed, shunned])
}

/// Finds homes for everything that is in the way: not where vectors are read; values needed later not where vectors are
/// defined either. Nothing if what is `fixed` would have to move.
fn finish(
    bank: &Bank,
    groups: &[Group],
    dying: &[Vreg],
    [read, defined]: [&[bool; 256]; 2],
    [fixed, shunned]: [&[bool; 256]; 2],
) -> Option<Plan> {
    let mut moves: Vec<(Vreg, usize)> = Vec::new();
    let mut bases = Vec::new();
    let mut target_taken = [false; 256];
    let mut grouped: SmallVec<[Vreg; 16]> = SmallVec::new();
    for g in groups {
        let base = g.base?;
        if let Some(n) = g.def {
            bases.push((n, base));
            continue;
        }
        for (k, &v) in g.list.iter().enumerate() {
            target_taken[base + k] = true;
            grouped.push(v);
            if bank.occ[base + k] != v.0 {
                moves.push((v, base + k));
            }
        }
    }
    let mut homeless = Vec::new();
    for (r, &o) in bank.occ.iter().enumerate() {
        let v = Vreg(o);
        if o >= HELD || grouped.contains(&v) {
            continue;
        }
        let lives = !dying.contains(&v);
        if read[r] && target_taken[r] || (lives && defined[r]) {
            homeless.push((v, lives));
        } else {
            target_taken[r] = true;
        }
    }
    for (v, lives) in homeless {
        let may = |r: &usize| bank.usable[*r] && !target_taken[*r] && !(lives && defined[*r]);
        let all = || (0..bank.limit).filter(may);
        let to = all()
            .find(|&r| bank.spare(r) && !shunned[r])
            .or_else(|| all().find(|&r| bank.spare(r)))
            .or_else(|| all().find(|&r| bank.idle(r)))
            .or_else(|| all().next())?;
        target_taken[to] = true;
        moves.push((v, to));
    }
    let stays = |v: Vreg| fixed.iter().zip(&bank.occ).any(|(&f, &o)| f && o == v.0);
    if moves.iter().any(|m| stays(m.0)) {
        return None;
    }
    Some(Plan { moves, bases })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regalloc::assign::FREE;
    use sass::reg::File;

    /// A vector of two whose elements lie apart, in registers of which a product under way reads some: where it goes, and what moves.
    fn planned(busy: std::ops::Range<usize>) -> (Vec<(usize, usize)>, Vec<usize>) {
        let mut bank = Bank::new(File::Gpr, [true; 256], 12, 12);
        let mut flight = Box::new([0; 256]);
        flight[busy].fill(1);
        bank.busy = Some(flight);
        bank.put(0, 100);
        bank.put(3, 101);
        bank.put(1, 7);
        assert!(bank.occ[2] == FREE);
        let list: SmallVec<[Vreg; 4]> = SmallVec::from_slice(&[Vreg(100), Vreg(101)]);
        let mut groups = [Group { list, base: None, def: None, live: true, over: None, home: None }];
        let plan = plan_near(&bank, &mut groups, &[], &[false; 256], [&[false; 256]; 2]).unwrap();
        (plan.bases, plan.moves.iter().map(|m| m.1).collect())
    }

    /// What is read and needed later is put together elsewhere than where the instruction's result has its place already; what is read last may lie there.
    #[test]
    fn what_lives_on_keeps_clear_of_what_is_made() {
        let mut bank = Bank::new(File::Gpr, [true; 256], 12, 12);
        (0..4).for_each(|r| bank.put(r, 7 + r as u32));
        bank.put(11, 100);
        bank.put(10, 101);
        let group = |values: [u32; 2], base, def, live| {
            let list: SmallVec<[Vreg; 4]> = SmallVec::from_slice(&values.map(Vreg));
            Group { list, base, def, live, over: None, home: None }
        };
        for (live, to) in [(true, 6), (false, 4)] {
            let mut groups = [group([100, 101], None, None, live), group([200, 201], Some(4), Some(0), false)];
            let dying: &[Vreg] = if live { &[] } else { &[Vreg(100), Vreg(101)] };
            let plan = plan_near(&bank, &mut groups, dying, &[false; 256], [&[false; 256]; 2]).unwrap();
            assert_eq!(plan.bases, [(0, 4)]);
            assert_eq!(plan.moves, [(Vreg(100), to), (Vreg(101), to + 1)]);
        }
    }

    /// Sums of eight, of which the place is looked for among twice as many registers: values stand in one half, fewer in the other, which are under way.
    #[test]
    fn sums_under_way_stay_where_others_can_move() {
        for (flying, shunned, base) in [(false, false, 8), (true, false, 0), (false, true, 8)] {
            let mut bank = Bank::new(File::Gpr, [true; 256], 32, 32);
            (0..5).for_each(|r| bank.put(r, 7 + r as u32));
            (8..11).for_each(|r| bank.put(r, 7 + r as u32));
            (19..24).chain(27..32).for_each(|r| bank.put(r, 7 + r as u32));
            let mut sums = Box::new([0; 256]);
            sums[8..11].fill(u8::from(flying));
            sums[19..32].fill(u8::from(flying));
            bank.sums = Some(sums);
            let mut away = [false; 256];
            away[5..8].fill(shunned);
            let list: SmallVec<[Vreg; 4]> = (100..108).map(Vreg).collect();
            let mut groups = [Group { list, base: None, def: Some(0), live: false, over: None, home: None }];
            let plan = plan_near(&bank, &mut groups, &[], &[false; 256], [&[false; 256], &away]).unwrap();
            assert_eq!(plan.bases, [(0, base)]);
            // What makes room goes to where no later sums will be.
            assert!(!shunned || plan.moves.iter().all(|m| m.1 >= 16), "{:?}", plan.moves);
            assert!(shunned || flying || plan.moves.iter().all(|m| m.1 < 8), "{:?}", plan.moves);
        }
    }

    #[test]
    fn vectors_keep_clear_of_what_a_product_reads() {
        assert_eq!(planned(0..0).1, [2]);
        assert_eq!(planned(2..4).1, [4, 5]);
        // Nowhere else to go.
        assert_eq!(planned(0..12).1.len(), 1);
    }
}
