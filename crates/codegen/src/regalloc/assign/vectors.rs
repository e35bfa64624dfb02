//! Places of vectors: where their components should be from the start, and moves where they are not.

use super::bank::{Bank, find_window};
use super::plan::{Group, plan_fresh, plan_near};
use super::wide::{WIDE, Wide};
use super::{APART, Assign, FREE, HELD, NOWHERE};
use crate::mir::{Vreg, alignment};
use crate::sched::prepass::DEEPER;
use sass::form::SlotName as S;
use sass::inst::Inst as Sass;
use sass::latency::Class;
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// Of so many sums one value may be in the way without the others going elsewhere.
const SEVERAL: usize = 2;

impl Assign<'_> {
    /// An aligned free window for the vector `vec`, kept for its other components.
    pub(super) fn window(&mut self, file: usize, vec: usize, size: usize) -> Option<usize> {
        let known = self.vec_base[vec];
        if known != NOWHERE {
            return Some(known as usize);
        }
        let base = if file == File::Ugpr as usize {
            let base = self.uniform_window(vec)?;
            self.promised.push((file, vec as u32, base, size));
            base
        } else {
            let promised = &self.promised;
            let taken = |r: usize| promised.iter().any(|p| p.0 == file && (p.2..p.2 + p.3).contains(&r));
            let end = if size >= WIDE { u32::MAX } else { self.vector_end(vec as u32) };
            let met = self.wide.iter().filter(|w| size >= WIDE || self.meets(w, end));
            let wide: SmallVec<[(usize, usize); 2]> = met.map(|w| (w.base, w.end)).collect();
            let exposed = if file == File::Gpr as usize { self.exposed(vec as u32) } else { SmallVec::new() };
            let wider = |r: usize| wide.iter().any(|w| (w.0..w.1).contains(&r));
            let wide_place = (size >= WIDE).then(|| {
                let home = self.home(vec as u32, Some(self.current));
                (self.waiting(&home, file), self.ahead(home.clone()), home)
            });
            // What a product reads last needs its place no longer than until something waits for that.
            let held = size < WIDE && self.f.vecs[vec].iter().any(|v| self.held.get(v.index()) == Some(&true));
            let flown = || self.f.vecs[vec].iter().all(|v| self.flown.get(v.index()) == Some(&true));
            let soon = (held && end == u32::MAX && flown()).then(|| {
                let soon = self.unawaited_blocks();
                let met = |w: &&Wide| self.near(w, end) || w.home.iter().any(|b| soon.contains(b));
                self.wide.iter().filter(met).map(|w| (w.base, w.end)).collect::<SmallVec<[(usize, usize); 2]>>()
            });
            let bank = &mut self.banks[file];
            if let Some((elsewhere, ahead, home)) = wide_place {
                // The lowest place, before or behind the budget, that is free on the other ways to come, too.
                let end = bank.limit;
                // Behind the registers that threads have everywhere, where they change their number: those are for the rest.
                let low = self.bounds.iter().min().map_or(0, |&b| b.next_multiple_of(alignment(size)));
                let find = |from: usize, elsewhere: &[bool; 256]| {
                    (from..end).step_by(alignment(size)).find(|&b| {
                        let free = b + size <= end && bank.window_free(b, size);
                        free && !(b..b + size).any(|r| elsewhere[r] || taken(r) || wider(r))
                    })
                };
                let base = find(low, &elsewhere).or_else(|| find(0, &elsewhere)).or_else(|| find(0, &[false; 256]))?;
                self.wide.push(Wide {
                    home,
                    vec: vec as u32,
                    base,
                    end: base + size,
                    begins: true,
                    makers: Vec::new(),
                    ahead,
                });
                base
            } else {
                let exposed = |r: usize| exposed.get(r).copied().unwrap_or(false);
                let early = |r: usize| held && self.early.get(r) == Some(&true);
                let soon = |r: usize| soon.as_ref().is_none_or(|s| s.iter().any(|w| (w.0..w.1).contains(&r)));
                let base = find_window(bank, size, true, |r| taken(r) || wider(r) || exposed(r) || early(r))
                    .or_else(|| find_window(bank, size, true, |r| taken(r) || soon(r) || exposed(r) || early(r)))
                    .or_else(|| find_window(bank, size, true, |r| taken(r) || wider(r) || exposed(r)))
                    .or_else(|| find_window(bank, size, true, |r| taken(r) || wider(r)))
                    // What a product reads is put together before it rather than in the way of sums that are waited for with it.
                    .or_else(|| {
                        find_window(bank, size, true, taken).filter(|_| !self.apart || !held || end == u32::MAX)
                    })?;
                self.promised.push((file, vec as u32, base, size));
                base
            }
        };
        self.vec_base[vec] = base as u8;
        Some(base)
    }

    /// Gives a vector the place of values that are read last where its components are made, one after the other: what is computed
    /// of a vector element by element lies where that lay.
    pub(super) fn window_over(&mut self, vec: u32, nth: usize) {
        let list = &self.f.vecs[vec as usize];
        let bank = &self.banks[File::Gpr as usize];
        let held = list.iter().any(|v| self.held.get(v.index()) == Some(&true));
        let end = if held { self.vector_end(vec) } else { u32::MAX };
        for &u in &self.near {
            let Some(base) = (self.loc[u.index()] as usize).checked_sub(nth) else { continue };
            let fits = |(k, v): (usize, &Vreg)| {
                let r = base + k;
                if r >= bank.limit
                    || !bank.usable[r]
                    || !bank.rested(r)
                    || self.kept(File::Gpr as usize, r, vec as usize)
                    || held && self.early[r]
                {
                    return false;
                }
                let (block, at) = self.made[v.index()];
                let held = bank.occ[r];
                held == FREE || held < HELD && block == self.current && self.end[held as usize] <= at
            };
            let same = self.f.vregs[u.index()] == File::Gpr && base.is_multiple_of(alignment(list.len()));
            if same
                && !self.wide.iter().any(|w| w.base < base + list.len() && base < w.end && self.meets(w, end))
                && list.iter().enumerate().all(fits)
            {
                let size = list.len();
                self.vec_base[vec as usize] = base as u8;
                self.promised.push((File::Gpr as usize, vec, base, size));
                return;
            }
        }
    }

    /// True for a register that is promised to another vector than `vec`.
    pub(super) fn kept(&self, file: usize, r: usize, vec: usize) -> bool {
        self.promised.iter().any(|p| p.0 == file && p.1 as usize != vec && (p.2..p.2 + p.3).contains(&r))
    }

    pub(super) fn in_place(&self, vec: u32) -> bool {
        let list = &self.f.vecs[vec as usize];
        let base = self.loc[list[0].index()] as usize;
        let bank = &self.banks[self.f.vregs[list[0].index()] as usize];
        base.is_multiple_of(alignment(list.len()))
            && list
                .iter()
                .enumerate()
                .all(|(n, v)| self.loc[v.index()] as usize == base + n && bank.occ[base + n] == v.0)
    }

    /// Registers of values that lie where the vectors lie whole that they will be read in.
    pub(super) fn whole(&self, file: usize) -> [bool; 256] {
        let bank = &self.banks[file];
        let mut out = [false; 256];
        for (r, &v) in bank.occ.iter().enumerate().take(bank.limit).filter(|x| *x.1 < HELD) {
            let (vec, nth) = self.vec_hint[v as usize];
            if vec != FREE && nth == 0 {
                let list = &self.f.vecs[vec as usize];
                let placed = |(k, v): (usize, &Vreg)| bank.occ.get(r + k) == Some(&v.0);
                if r.is_multiple_of(alignment(list.len())) && list.iter().enumerate().all(placed) {
                    out[r..r + list.len()].fill(true);
                }
            }
        }
        out
    }

    /// Registers of a file whose values must stay: where part of a warp may be away, uniform values that come from elsewhere, which the other part finds
    /// where they were. What the block itself has made only this part reads.
    fn fixed(&self, file: usize) -> [bool; 256] {
        let mut out = [false; 256];
        if self.divergent && matches!(self.banks[file].file, File::Ugpr | File::Upred) {
            let own = |v: u32| v >= HELD || self.made[v as usize].0 == self.current && self.end[v as usize] != u32::MAX;
            out.iter_mut().zip(&self.banks[file].occ).for_each(|(f, &v)| *f = !own(v));
        }
        out
    }

    /// Registers in the places of wide vectors that the rest of the block makes values of: what moves there has to move once more.
    fn summed_later(&self, file: usize) -> [bool; 256] {
        let mut out = [false; 256];
        if file == File::Gpr as usize {
            let now = self.banks[file].now;
            let later = self.wide.iter().filter(|w| w.makers.last().is_some_and(|&m| m > now));
            later.for_each(|w| out[w.base..w.end].fill(true));
        }
        out
    }

    pub(super) fn bank_of(&mut self, vec: u32) -> &mut Bank {
        let file = self.file(self.f.vecs[vec as usize][0]);
        &mut self.banks[file]
    }

    /// The window of the sums that a warpgroup's product adds to, if they are free now: it works in place.
    pub(super) fn sums_window(&mut self, s: &Sass, vec: u32) -> Option<usize> {
        if s.form().class != Class::Gmma {
            return None;
        }
        let reg = s.get(S::Rc)?.as_reg().filter(|r| r.is_virtual())?;
        let first = self.f.vecs[reg.index() as usize][0];
        let size = self.f.vecs[vec as usize].len();
        let base = self.loc[first.index()] as usize;
        self.bank_of(vec).window_free(base, size).then_some(base)
    }

    /// The place that sums keep through the function, where a few values are in the way of them that the product does not read: they had better move than all
    /// sums later.
    pub(super) fn obstructed(&self, vec: u32, uses: &[u32]) -> Option<usize> {
        let gpr = File::Gpr as usize;
        let list = &self.f.vecs[vec as usize];
        let (hint, nth) = self.vec_hint[list[0].index()];
        let place = self.wide.iter().find(|w| w.vec == hint && nth == 0 && w.end - w.base == list.len())?;
        let bank = &self.banks[gpr];
        let reads = uses.iter().any(|&u| self.file(self.f.vecs[u as usize][0]) == gpr);
        if reads || place.end > bank.limit {
            return None;
        }
        let there = bank.occ[place.base..place.end].iter().filter(|&&o| o != FREE);
        let strange = |o: u32| o < HELD && self.vec_hint[o as usize].0 != hint;
        let (count, all) = there.fold((0, true), |(count, all), &o| (count + 1, all && strange(o)));
        (all && (1..=list.len() / SEVERAL).contains(&count)).then_some(place.base)
    }

    /// A free window for a vector that an instruction defines: where its components will be wanted, if possible.
    pub(super) fn def_window(&mut self, vec: u32) -> Option<usize> {
        let first = self.f.vecs[vec as usize][0];
        let size = self.f.vecs[vec as usize].len();
        let align = alignment(size);
        let file = self.file(first);
        let rep = self.rep(first);
        let (wanted, nth) = self.vec_hint[first.index()];
        let mut tries: SmallVec<[usize; 3]> = SmallVec::new();
        if wanted != FREE {
            let wide = self.f.vecs[wanted as usize].len();
            if let Some(base) = self.window(file, wanted as usize, wide) {
                tries.push(base + nth as usize);
            }
        }
        if self.web_reg[rep] != NOWHERE {
            tries.push(self.web_reg[rep] as usize);
        }
        for base in tries {
            if base.is_multiple_of(align) && base + size <= 256 && self.banks[file].window_free(base, size) {
                return Some(base);
            }
        }
        let end = self.f.vecs[vec as usize].iter().map(|v| self.end[v.index()]).max().unwrap_or(u32::MAX);
        let near = self.wide.iter().filter(|w| self.near(w, end));
        let wide: SmallVec<[(usize, usize); 2]> = near.map(|w| (w.base, w.end)).collect();
        let exposed = if file == File::Gpr as usize { self.exposed(vec) } else { SmallVec::new() };
        let promised = &self.promised;
        let taken = |r: usize| {
            exposed.get(r).copied().unwrap_or(false)
                || promised.iter().any(|p| p.0 == file && (p.2..p.2 + p.3).contains(&r))
                || file == File::Gpr as usize && wide.iter().any(|w| (w.0..w.1).contains(&r))
        };
        find_window(&mut self.banks[file], size, false, taken)
            .or_else(|| find_window(&mut self.banks[file], size, false, |_| false))
    }

    /// Moves values so that all vectors of an instruction are in place and there is room for the vectors it defines.
    /// Values that are read last here are those that may be overwritten, and those that should not be. Returns where the vectors that are defined begin.
    pub(super) fn shuffle(
        &mut self,
        uses: &[u32],
        defs: &[u32],
        [dying, late]: [&[Vreg]; 2],
        over: Option<SmallVec<[Vreg; 4]>>,
        product: bool,
        loc: u32,
    ) -> SmallVec<[usize; 4]> {
        let mut bases: SmallVec<[usize; 4]> = SmallVec::from_elem(0, defs.len());
        let mut files: SmallVec<[usize; 2]> = SmallVec::new();
        for &vec in uses.iter().chain(defs) {
            let file = self.file(self.f.vecs[vec as usize][0]);
            if !files.contains(&file) {
                files.push(file);
            }
        }
        let mut pairs = Vec::new();
        for file in files {
            let of = |vec: &u32, a: &Self| a.file(a.f.vecs[*vec as usize][0]) == file;
            let mut groups: Vec<Group> = Vec::new();
            for vec in uses.iter().filter(|v| of(v, self)) {
                let list = self.f.vecs[*vec as usize].clone();
                if groups.iter().all(|g| g.list != list) {
                    let live = list.iter().any(|v| !dying.contains(v));
                    let home = self.away(*vec).filter(|_| product);
                    let base = (home.is_none() && self.in_place(*vec)).then(|| self.loc[list[0].index()] as usize);
                    groups.push(Group { list, base, def: None, live, over: None, home });
                }
            }
            let here: SmallVec<[(usize, u32); 4]> =
                defs.iter().copied().enumerate().filter(|(_, v)| of(v, self)).collect();
            for (n, vec) in here {
                let list = self.f.vecs[vec as usize].clone();
                // Sums that begin here get the place that they keep.
                let begins = list.len() >= WIDE && over.is_none();
                let home = if begins && product { self.obstructed(vec, uses) } else { None };
                let base = home.or_else(|| if begins { self.def_window(vec) } else { None });
                groups.push(Group { list, base, def: Some(n), live: false, over: over.clone(), home: None });
            }
            groups.sort_by_key(|g| std::cmp::Reverse(alignment(g.list.len())));
            let whole = self.whole(file);
            let (fixed, shunned) = (self.fixed(file), self.summed_later(file));
            let apart = [&fixed, &shunned];
            let mut plan = plan_near(&self.banks[file], &mut groups.clone(), dying, &whole, apart)
                .or_else(|| plan_fresh(&self.banks[file], &mut groups, dying, apart));
            if plan.is_none() && !late.is_empty() {
                let dying: SmallVec<[Vreg; 8]> = dying.iter().chain(late).copied().collect();
                for g in &mut groups {
                    let here = |v: &Vreg| self.loc[v.index()];
                    let base = here(&g.list[0]) as usize;
                    let still = g.def.is_none() && g.list.iter().enumerate().all(|(k, v)| here(v) as usize == base + k);
                    g.base = (still && base.is_multiple_of(alignment(g.list.len()))).then_some(base);
                    g.live &= g.list.iter().any(|v| !dying.contains(v));
                }
                plan = plan_near(&self.banks[file], &mut groups.clone(), &dying, &whole, apart)
                    .or_else(|| plan_fresh(&self.banks[file], &mut groups, &dying, apart));
            }
            let Some(plan) = plan else {
                if fixed.contains(&true) {
                    self.fail_uniform(APART);
                } else {
                    self.fail("too few registers for the vectors of an instruction: the register limit is too small");
                }
                continue;
            };
            let kind = self.banks[file].file;
            let bank = &mut self.banks[file];
            if kind == File::Gpr && bank.most < bank.usable.iter().rposition(|&u| u).unwrap_or(0) {
                let depth = self.f.blocks[self.current as usize].depth.min(4);
                self.done.moved += (plan.moves.len() as u64) << (DEEPER * depth);
            }
            for &(v, to) in &plan.moves {
                let from = self.loc[v.index()];
                pairs.push((Reg::phys(kind, to as u8), Reg::phys(kind, from)));
                bank.put(from as usize, FREE);
            }
            for (n, base) in plan.bases {
                bases[n] = base;
            }
            for &(v, to) in &plan.moves {
                self.occupy(v, to);
            }
        }
        self.moves(&pairs, loc);
        bases
    }
}

#[cfg(test)]
mod tests {
    use crate::mir::text;
    use crate::regalloc::{self, Tightness};

    /// Assigns registers where part of a warp reads two pairs, as they are and the other way round: `own`, if that part has made them.
    fn turned(own: bool) -> Result<String, regalloc::Unfit> {
        let made = |k: usize| format!("    UMOV_I Rd=%ur{k} Mask={k}\n");
        let load = |a: usize, b: usize| {
            format!(
                "    UTMALDG_AAU_2.M79=2 UR={{%ur10,%ur11,%ur12,%ur13,%ur14}} URa={{%ur{a},%ur{b}}} UregAt40={{%ur20,%ur21}}\n"
            )
        };
        let rest: String = (10..15).chain(20..22).map(made).collect();
        let pair = made(1) + &made(2);
        let (outside, inside) = if own { (String::new(), pair) } else { (pair, String::new()) };
        let text = format!(
            "func k entry max=32 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    ISETP_RI Pu=%p3 Ra=%r0 Rb=5\n{outside}    \
             brif %p3, blk2(), blk1()\nblk1(): depth=0 divergent\n{inside}{rest}{}{}    br blk2()\nblk2(): depth=0\n    exit\n}}\n",
            load(1, 2),
            load(2, 1),
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Tight)?;
        Ok(text::print(&f))
    }

    /// Where part of a warp is away, what this part has made moves; what the other part may look for does not.
    #[test]
    fn parts_of_a_warp_move_what_they_have_made() {
        let t = turned(true).unwrap();
        assert!(t.matches("UMOV_U").count() >= 2, "{t}");
        let why = turned(false).unwrap_err();
        assert!(why.uniform && format!("{why:?}").contains(super::APART), "{why:?}");
    }
}
