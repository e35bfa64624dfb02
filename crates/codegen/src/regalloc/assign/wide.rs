//! Wide vectors, as the sums of a warpgroup's products: they keep their places, and what is in the way of them.

use super::{Assign, FREE, HELD};
use crate::bitset::BitSet;
use crate::mir::{Func, Inst, Vreg, alignment};
use sass::reg::File;
use smallvec::SmallVec;

/// Vectors of so many registers keep their place through the whole function.
pub(super) const WIDE: usize = 16;

/// The lowest place that is given before others are: what all blocks need lies below.
const LOWEST: usize = 8;

/// The place of a wide vector.
pub(super) struct Wide {
    pub(super) vec: u32,
    pub(super) base: usize,
    pub(super) end: usize,
    /// Values that belong there live where the block at hand begins.
    pub(super) begins: bool,
    /// The instructions of the block at hand that make such values; numbers from 1.
    pub(super) makers: Vec<u32>,
    /// The blocks where such values live.
    pub(super) home: BitSet,
    /// Blocks from which control comes to one of these.
    pub(super) ahead: BitSet,
}

impl Assign<'_> {
    /// The blocks where values live, or are made, that belong into `vec`, and block `also`.
    pub(super) fn home(&self, vec: u32, also: Option<u32>) -> BitSet {
        let (f, live, hint) = (&*self.f, self.live, &self.vec_hint);
        let mine = |v: &Vreg| hint[v.index()].0 == vec;
        let mut found = BitSet::new(f.blocks.len());
        for &b in &self.cfg.rpo {
            let block = &f.blocks[b as usize];
            let mut here = Some(b) == also;
            here |= live.live_in[b as usize].iter().chain(&live.live_out[b as usize]).chain(&block.params).any(mine);
            here |= block.insts.iter().any(|i| makes(f, i, mine));
            if here {
                found.insert(b as usize);
            }
        }
        found
    }

    /// As [`Assign::home`], of all these vectors.
    fn homes(&self, vecs: &[u32]) -> Vec<BitSet> {
        let (f, live) = (&*self.f, self.live);
        // By vector: its place in the list.
        let mut of = vec![FREE; f.vecs.len()];
        (0..).zip(vecs).for_each(|(n, &vec)| of[vec as usize] = n);
        let mut found = vec![BitSet::new(f.blocks.len()); vecs.len()];
        for &b in &self.cfg.rpo {
            let block = &f.blocks[b as usize];
            let mut here = |v: Vreg| {
                let vec = self.vec_hint[v.index()].0;
                if vec != FREE && of[vec as usize] != FREE {
                    found[of[vec as usize] as usize].insert(b as usize);
                }
            };
            live.live_in[b as usize].iter().chain(&live.live_out[b as usize]).for_each(|&v| here(v));
            block.params.iter().for_each(|&v| here(v));
            block.insts.iter().for_each(|i| f.defs(&i.op, &mut here));
        }
        found
    }

    /// The blocks from which control comes to one of these, those themselves too.
    pub(super) fn ahead(&self, home: BitSet) -> BitSet {
        let mut found = home;
        let mut work: Vec<u32> = self.cfg.rpo.iter().copied().filter(|&b| found.contains(b as usize)).collect();
        while let Some(b) = work.pop() {
            work.extend(self.cfg.preds[b as usize].iter().copied().filter(|&p| found.insert(p as usize)));
        }
        found
    }

    /// Registers that hold what comes into one of these blocks on a way that does not lead through the block at hand: what blocks done have
    /// left in them for later ones.
    pub(super) fn waiting(&self, home: &BitSet, file: usize) -> [bool; 256] {
        let mut read = vec![false; self.f.vregs.len()];
        for &b in self.cfg.rpo.iter().filter(|&&b| home.contains(b as usize)) {
            self.live.live_in[b as usize].iter().for_each(|v| read[v.index()] = true);
        }
        let mut out = [false; 256];
        let done = self.cfg.rpo_index[self.current as usize];
        for &b in &self.cfg.rpo[..done as usize] {
            let later = |s: u32| self.cfg.rpo_index[s as usize] > done;
            if !self.cfg.succs[b as usize].iter().any(|&s| later(s)) {
                continue;
            }
            for (&v, &r) in self.live.live_out[b as usize].iter().zip(&self.exit_loc[b as usize]) {
                out[r as usize] |= read[v.index()] && self.file(v) == file;
            }
        }
        out
    }

    /// The wide vectors that values want.
    fn wanted(&self) -> Vec<u32> {
        let mut vecs: Vec<u32> = Vec::new();
        for (&(vec, _), &file) in self.vec_hint.iter().zip(&self.f.vregs) {
            if vec != FREE && file == File::Gpr && self.f.vecs[vec as usize].len() >= WIDE && !vecs.contains(&vec) {
                vecs.push(vec);
            }
        }
        vecs
    }

    /// Wide vectors of one size become one if values of both should meet, as the sums of a loop and of what goes on with them behind it, or those of one are
    /// made of the other's one by one, as sums that are scaled before more is added to them, and components that belong to one register are never there at once.
    pub(super) fn join_wide(&mut self) {
        let vecs = self.wanted();
        if vecs.len() < 2 {
            return;
        }
        // Of each web: the first vector that one of its values wants.
        let mut of_web: Vec<(u32, u8)> = vec![(FREE, 0); self.vec_hint.len()];
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for v in 0..self.vec_hint.len() {
            let (vec, nth) = self.vec_hint[v];
            if vec == FREE || !vecs.contains(&vec) {
                continue;
            }
            let rep = self.rep(Vreg(v as u32));
            let (first, place) = of_web[rep];
            if first == FREE {
                of_web[rep] = (vec, nth);
            } else if first != vec && place == nth && !pairs.contains(&(first, vec)) {
                pairs.push((first, vec));
            }
        }
        for inst in self.f.blocks.iter().flat_map(|b| &b.insts) {
            let mut to = (FREE, 0);
            self.f.defs(&inst.op, |v| to = self.vec_hint[v.index()]);
            if to.0 == FREE || !vecs.contains(&to.0) {
                continue;
            }
            self.f.uses(&inst.op, |v| {
                let (vec, nth) = self.vec_hint[v.index()];
                if vec != FREE && nth == to.1 && vec != to.0 && vecs.contains(&vec) && !pairs.contains(&(vec, to.0)) {
                    pairs.push((vec, to.0));
                }
            });
        }
        let mut now: Vec<(u32, u32)> = vecs.iter().map(|&v| (v, v)).collect();
        for (a, b) in pairs {
            let root = |x: u32| now.iter().find(|n| n.0 == x).map_or(x, |n| n.1);
            let (a, b) = (root(a), root(b));
            if a == b || self.f.vecs[a as usize].len() != self.f.vecs[b as usize].len() || self.at_once(a, b) {
                continue;
            }
            self.vec_hint.iter_mut().filter(|h| h.0 == b).for_each(|h| h.0 = a);
            now.iter_mut().filter(|n| n.1 == b).for_each(|n| n.1 = a);
        }
    }

    /// True if a component of one vector is alive somewhere together with the same one of the other.
    fn at_once(&self, a: u32, b: u32) -> bool {
        let (f, live) = (&*self.f, self.live);
        let which = |v: Vreg| {
            let (vec, nth) = self.vec_hint[v.index()];
            if vec == a { Some((0, nth as usize)) } else { (vec == b).then_some((1, nth as usize)) }
        };
        // Of each value: the block where it is alive.
        let mut alive = vec![FREE; f.vregs.len()];
        for &block in &self.cfg.rpo {
            let mut count = vec![[0u32; 2]; f.vecs[a as usize].len()];
            let block_of = &f.blocks[block as usize];
            let mut met = false;
            let mut enter = |v: Vreg, count: &mut Vec<[u32; 2]>| {
                if let Some((k, n)) = which(v)
                    && std::mem::replace(&mut alive[v.index()], block) != block
                {
                    count[n][k] += 1;
                    met |= count[n][1 - k] > 0;
                }
            };
            live.live_out[block as usize].iter().for_each(|&v| enter(v, &mut count));
            f.term_uses(&block_of.term, |v| enter(v, &mut count));
            block_of.term.edges().iter().for_each(|e| e.args.iter().for_each(|&v| enter(v, &mut count)));
            for inst in block_of.insts.iter().rev() {
                let mut made = SmallVec::<[Vreg; 4]>::new();
                f.defs(&inst.op, |v| made.push(v));
                for v in made {
                    if let Some((k, n)) = which(v) {
                        met |= count[n][1 - k] > 0;
                        count[n][k] -= (std::mem::replace(&mut alive[v.index()], FREE) == block) as u32;
                    }
                }
                let mut enter = |v: Vreg| {
                    if let Some((k, n)) = which(v)
                        && std::mem::replace(&mut alive[v.index()], block) != block
                    {
                        count[n][k] += 1;
                        met |= count[n][1 - k] > 0;
                    }
                };
                f.uses(&inst.op, &mut enter);
                if met {
                    return true;
                }
            }
            for &p in &block_of.params {
                if let Some((k, n)) = which(p) {
                    met |= count[n][1 - k] > 0;
                }
            }
            if met {
                return true;
            }
        }
        false
    }

    /// Gives wide vectors their places before anything else has one, at the upper end of as many registers as values are alive at once:
    /// below, everything else finds its place. Where threads change the number of their registers they begin behind those that threads have everywhere.
    /// Where the function has calls, places are looked for when the first value wants one ([`Assign::window`]).
    pub(super) fn place_wide(&mut self) {
        if self.has_calls || !self.f.entry {
            return;
        }
        let vecs = self.wanted();
        if vecs.is_empty() {
            return;
        }
        let found = self.homes(&vecs);
        let mut bases = self.bases(&vecs, &found, false);
        if bases.contains(&None) {
            // Side by side there is room for more of them, in more registers if need be.
            let close = self.bases(&vecs, &found, true);
            let missing = |bases: &[Option<usize>]| bases.iter().filter(|b| b.is_none()).count();
            if missing(&close) < missing(&bases) {
                bases = close;
            }
        }
        for ((vec, home), base) in vecs.into_iter().zip(found).zip(bases) {
            let Some(base) = base else { continue };
            let end = base + self.f.vecs[vec as usize].len();
            let bank = &mut self.banks[File::Gpr as usize];
            bank.limit = bank.limit.max(end);
            bank.most = bank.most.max(end);
            self.vec_base[vec as usize] = base as u8;
            let ahead = self.ahead(home.clone());
            self.wide.push(Wide { vec, base, end, begins: false, makers: Vec::new(), home, ahead });
        }
    }

    /// Where wide vectors may lie that have values in these blocks, apart from each other where they meet: at the upper end of the registers, or, `close`, side
    /// by side, from below in as many as may be assigned at all, or from above where threads change the number of their registers.
    fn bases(&self, vecs: &[u32], found: &[BitSet], close: bool) -> Vec<Option<usize>> {
        let bank = &self.banks[File::Gpr as usize];
        let all = bank.usable.iter().rposition(|&u| u).map_or(0, |r| r + 1);
        let (top, limit) = (bank.budget.min(bank.limit), if close { all } else { bank.limit });
        let low = self.bounds.iter().min().copied();
        let mut homes: Vec<(&BitSet, std::ops::Range<usize>)> = Vec::new();
        let mut out = Vec::new();
        for (&vec, home) in vecs.iter().zip(found) {
            let size = self.f.vecs[vec as usize].len();
            let meets = |other: &BitSet| (0..self.f.blocks.len()).any(|b| other.contains(b) && home.contains(b));
            let met: Vec<_> = homes.iter().filter(|h| meets(h.0)).map(|h| h.1.clone()).collect();
            let apart = |base: usize| met.iter().all(|m| m.end <= base || base + size <= m.start);
            let align = alignment(size);
            let bases = |top: usize| {
                let all = (LOWEST.div_ceil(align)..).map(|n| n * align).take_while(move |base| base + size <= top);
                all.filter(|&base| apart(base))
            };
            let owned = self.owned(vec).min(limit);
            let base = match low {
                Some(_) if close => bases(owned).last(),
                Some(low) => bases(owned).find(|&base| base >= low).or_else(|| bases(owned).last()),
                None if close => bases(limit).next(),
                // Where hardly more is alive than the vector itself, a few registers more than that are there for it.
                None => bases(top).last().or_else(|| bases(limit).next()),
            };
            homes.extend(base.map(|base| (home, base..base + size)));
            out.push(base);
        }
        out
    }

    /// The bound of the registers that threads have wherever values that belong into `vec` come into a block.
    fn owned(&self, vec: u32) -> usize {
        let mine = |v: &Vreg| self.vec_hint[v.index()].0 == vec;
        let comes = |b: &u32| self.live.live_in[*b as usize].iter().chain(&self.f.blocks[*b as usize].params).any(mine);
        let bound = |b: &u32| self.starts.get(*b as usize).copied().unwrap_or(usize::MAX);
        self.cfg.rpo.iter().filter(|b| comes(b)).map(bound).min().unwrap_or(usize::MAX)
    }

    /// Finds out from where on wide vectors have values in the block.
    pub(super) fn look_for_wide(&mut self, b: usize, insts: &[Inst]) {
        let (f, live, hint) = (&*self.f, self.live, &self.vec_hint);
        let block = &f.blocks[b];
        for w in &mut self.wide {
            let mine = |v: &Vreg| hint[v.index()].0 == w.vec;
            w.begins = live.live_in[b].iter().chain(&block.params).any(mine);
            w.makers.clear();
        }
        for (at, inst) in (1..).zip(insts) {
            f.defs(&inst.op, |v| {
                let vec = hint[v.index()].0;
                if vec == FREE {
                    return;
                }
                for w in self.wide.iter_mut().filter(|w| w.vec == vec && w.makers.last() != Some(&at)) {
                    w.makers.push(at);
                }
            });
        }
    }

    /// True if a value from the instruction at hand to `end` may not lie in a wide vector's place: values that belong there are made
    /// meanwhile, or some are alive where it lives on. (A free place of a vector that is alive in part is of no use to it: it is whole
    /// only after others have been made.)
    pub(super) fn near(&self, w: &Wide, end: u32) -> bool {
        let bank = &self.banks[File::Gpr as usize];
        let next = w.makers.get(w.makers.partition_point(|&m| m < bank.now));
        let mine = |r: usize| bank.occ[r] < HELD && self.vec_hint[bank.occ[r] as usize].0 == w.vec;
        next.is_some_and(|&m| m <= end) || w.begins && bank.now == 0 || end == u32::MAX && (w.base..w.end).any(mine)
    }

    /// As `near`; also where it would be in the way in a block that comes later.
    pub(super) fn meets(&self, w: &Wide, end: u32) -> bool {
        let ahead = || self.cfg.succs[self.current as usize].iter().any(|&s| w.ahead.contains(s as usize));
        self.near(w, end) || end == u32::MAX && ahead()
    }

    /// True if general register `r` is in the place of a wide vector that value `v`, which is not part of it, would be in the way of there.
    pub(super) fn in_way(&self, v: Vreg, r: usize) -> bool {
        let (vec, end) = (self.vec_hint[v.index()].0, self.end[v.index()]);
        self.wide.iter().any(|w| w.vec != vec && (w.base..w.end).contains(&r) && self.meets(w, end))
    }

    /// Where in the block at hand the last component of a vector is read last; `u32::MAX` where it lives on, or is made elsewhere, or
    /// is read by a product that nothing in the block waits for.
    pub(super) fn vector_end(&self, vec: u32) -> u32 {
        let here = |v: &Vreg| self.made[v.index()].0 == self.current;
        let end = |v: &Vreg| match self.held.get(v.index()) {
            Some(true) => self.end[v.index()].max(self.until[v.index()]),
            _ => self.end[v.index()],
        };
        let ends = self.f.vecs[vec as usize].iter().map(|v| if here(v) { end(v) } else { u32::MAX });
        ends.max().unwrap_or(u32::MAX)
    }
}

/// True if the instruction writes one of these values.
fn makes(f: &Func, inst: &Inst, mine: impl Fn(&Vreg) -> bool) -> bool {
    let mut found = false;
    f.defs(&inst.op, |v| found |= mine(&v));
    found
}

#[cfg(test)]
mod tests {
    use crate::mir::{Op, text};
    use crate::regalloc::{self, Tightness};

    /// Sixteen sums begin at a multiple of sixteen: not at R0, as R1 among the first sixteen is where the stack begins.
    #[test]
    fn the_stack_is_not_among_sums() {
        let list = |first: usize| (first..first + 16).map(|n| format!("%r{n}")).collect::<Vec<_>>().join(", ");
        let zeros: String = (1000..1016).map(|n| format!("    MOV_R Rd=%r{n}\n")).collect();
        let uniform: String = (0..4).map(|n| format!("    UMOV_I Rd=%ur{} Mask=0\n", 900 + n)).collect();
        let (to, from) = (list(1400).replace(' ', ""), list(1200).replace(' ', ""));
        let stored: String = (1400..1416).map(|n| format!("    STG.Size=4 Ra=RZ Rb=%r{n} URc=UR4\n")).collect();
        let t = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{uniform}{zeros}    br blk1({})\nblk1({}): depth=1\n    WARPGROUP\n\
             \x20   HGMMA_RUR_OPEN.M53=3.M75=1 Rd={{{to}}} URa={{%ur900,%ur901,%ur902,%ur903}} Rc={{{from}}}\n    HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n\
             \x20   ISETP_RI.Cmp=1 Pu=%p4 Ra=RZ Rb=9\n    brif %p4, blk2(), blk3()\nblk2(): depth=1\n    br blk1({})\nblk3(): depth=0\n{stored}    exit\n}}\n",
            list(1000),
            list(1200),
            list(1400),
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
    }

    /// Two products of 64 sums each stay in place through a loop, though hardly more values are alive than these.
    #[test]
    fn sums_that_fill_nearly_all_registers_lie_side_by_side() {
        let list = |first: usize| (first..first + 64).map(|n| format!("%r{n}")).collect::<Vec<_>>().join(", ");
        let zeros: String = (1000..1128).map(|n| format!("    MOV_R Rd=%r{n}\n")).collect();
        let uniform: String = (0..4).map(|n| format!("    UMOV_I Rd=%ur{} Mask=0\n", 900 + n)).collect();
        let product = |to: usize, from: usize| {
            let (to, from) = (list(to).replace(' ', ""), list(from).replace(' ', ""));
            format!("    HGMMA_RUR_OPEN.M53=15.M75=1 Rd={{{to}}} URa={{%ur900,%ur901,%ur902,%ur903}} Rc={{{from}}}\n")
        };
        let stored: String = (1400..1528).map(|n| format!("    STG.Size=4 Ra=RZ Rb=%r{n} URc=UR4\n")).collect();
        let t = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{uniform}{zeros}    MOV_R Rd=%r1\n    br blk1(%r1, {}, {})\n\
             blk1(%r2, {}, {}): depth=1\n    WARPGROUP\n{}{}    HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n    IADD3_RIR Rd=%r3 Ra=%r2 Rb=1\n\
             \x20   ISETP_RI.Cmp=1 Pu=%p4 Ra=%r3 Rb=9\n    brif %p4, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r3, {}, {})\nblk3(): depth=0\n{stored}    exit\n}}\n",
            list(1000),
            list(1064),
            list(1200),
            list(1264),
            product(1400, 1200),
            product(1464, 1264),
            list(1400),
            list(1464),
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        let inside = f.blocks[1].insts.iter().chain(&f.blocks[2].insts);
        let moved = inside.filter(|i| matches!(&i.op, Op::Sass(s) if s.form().mnemonic == "MOV")).count();
        assert!(moved < 4, "{moved} moves:\n{}", text::print(&f));
    }

    /// More values than lie below the place of a loop's sums wait before it; what goes on into the loop leaves that place on the way.
    #[test]
    fn what_comes_into_a_loop_is_not_in_the_way_of_its_sums() {
        let each = |n: std::ops::Range<usize>, what: &dyn Fn(usize) -> String| n.map(what).collect::<String>();
        let list = |from: usize, n: usize| (from..from + n).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(",");
        let text = format!(
            "func k entry max=96 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{}{}    br blk1({})\n\
             blk1({}): depth=1\n    WARPGROUP.M79=1\n    HGMMA_RUR_OPEN.M53=7.M75=1 Rd={{{}}} URa={{%ur10,%ur11,%ur12,%ur13}} Pp=!UPT\n\
             \x20   HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n{}{}    ISETP_RI.Cmp=1 Pu=%p9 Ra=%r200 Rb=9\n    brif %p9, blk2(), blk3()\n\
             blk2(): depth=1\n    br blk1({})\nblk3(): depth=0\n    exit\n}}\n",
            each(10..14, &|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n"))
                + &each(100..160, &|k| format!("    LDS Rd=%r{k} Ra=RZ Imm={:#x}\n", 4 * k)),
            each(100..140, &|k| format!("    STS Ra=RZ Rb=%r{k} Imm={:#x}\n", 4 * k)),
            list(140, 20),
            list(200, 20),
            list(300, 32),
            each(300..332, &|k| format!("    STS Ra=RZ Rb=%r{k} Imm={:#x}\n", 4 * (k - 300))),
            each(200..220, &|k| format!("    STS Ra=RZ Rb=%r{k} Imm={:#x}\n", 4 * k)),
            list(200, 20),
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        let moves = |b: &crate::mir::Block| {
            b.insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == sass::forms::MOV_R)).count()
        };
        let moved: Vec<usize> = f.blocks.iter().map(moves).collect();
        assert!(moved[0] > 0 && moved[1..].iter().all(|&n| n == 0), "{moved:?} {}", text::print(&f));
    }

    /// Values wait from where threads have few registers until behind two products of 64 sums; those that lie where sums belong move before the first product,
    /// not the sums before each one.
    #[test]
    fn what_is_in_the_way_of_sums_that_begin_moves_once() {
        let each = |n: std::ops::Range<usize>, what: &dyn Fn(usize) -> String| n.map(what).collect::<String>();
        let list = |from: usize| (from..from + 64).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(",");
        let product = |to: usize, from: Option<usize>| {
            let rest = from.map_or("Pp=!UPT".into(), |f| format!("Rc={{{}}}", list(f)));
            format!("    HGMMA_RUR_OPEN.M53=15.M75=1 Rd={{{}}} URa={{%ur10,%ur11,%ur12,%ur13}} {rest}\n", list(to))
        };
        let store = |k: usize| format!("    STS Ra=RZ Rb=%r{k} Imm={:#x}\n", 4 * k);
        let text = format!(
            "func k entry max=230 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r1 Sr=0x21\n    ISETP_RI Pu=%p2 Ra=%r1 Rb=5\n    \
             brif %p2, blk1(), blk2()\nblk1(): depth=0\n    USETMAXREG_DEALLOC ImmAt32=40\n    STS Ra=RZ Rb=%r1\n    exit\nblk2(): depth=0\n{}{}    br blk3()\n\
             blk3(): depth=0\n    USETMAXREG_TRY_ALLOC Pu=UP0 ImmAt32=232\n    brif UP0, blk4(), blk3()\nblk4(): depth=0\n    WARPGROUP.M79=1\n{}{}{}{}    HGMMA_RUR Pp=!UPT\n    \
             WARPGROUP_I\n{}{}    exit\n}}\n",
            each(10..14, &|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n")),
            each(100..160, &|k| format!("    LDS Rd=%r{k} Ra=RZ Imm={:#x}\n", 4 * k)),
            product(200, None),
            product(300, None),
            product(400, Some(200)),
            product(500, Some(300)),
            each(400..464, &store) + &each(500..564, &store),
            each(100..160, &store),
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        f.at_entry = 168;
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        let at = |form| {
            let found = f.blocks[4].insts.iter().enumerate();
            found
                .filter(move |(_, i)| matches!(&i.op, Op::Sass(s) if s.form == form))
                .map(|(n, _)| n)
                .collect::<Vec<_>>()
        };
        let (products, moves) = (at(sass::forms::HGMMA_RUR_OPEN), at(sass::forms::MOV_R));
        assert!(!moves.is_empty() && moves.iter().all(|&m| m < products[1]), "{moves:?} {products:?}");
    }
}
