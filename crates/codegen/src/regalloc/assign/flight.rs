//! Registers that products of warpgroups still read.
//!
//! A product reads A some time after it was issued, until a wait for its group. What is written there before must wait
//! ([`crate::sched::warpgroup`]), and with it everything behind it: as long as there are others, such registers are left alone.

use super::Assign;
use crate::bitset::BitSet;
use crate::cfg::Cfg;
use crate::isel::warpgroup::{end_of_group, left_by};
use crate::mir::liveness::Liveness;
use crate::mir::operands::Place;
use crate::mir::{Func, Inst, Op, Vreg};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Value};
use sass::latency::Class;
use sass::reg::File;
use smallvec::SmallVec;

/// By register: 0, or one more than the number of groups that were ended since a product that reads it.
pub(super) type Flight = [u8; 256];

/// By value: a product of a warpgroup reads it as part of A, longer than it lives.
pub(super) fn held(f: &Func) -> Vec<bool> {
    let mut out = Vec::new();
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        if let Op::Sass(s) = &inst.op
            && s.form().class == Class::Gmma
            && let Some(at) = s.slot(S::Ra)
            && s.slot_width(at) > 1
            && let Some(r) = s.operands[at].as_reg().filter(|r| r.is_virtual())
        {
            out.resize(f.vregs.len(), false);
            f.each_scalar(r, |v| out[v.index()] = true);
        }
    }
    out
}

/// The most registers that products read between two waits of a block.
pub(super) fn longest(f: &Func) -> usize {
    let mut most = 0;
    for block in &f.blocks {
        let mut now = 0;
        for inst in &block.insts {
            let Op::Sass(s) = &inst.op else { continue };
            if s.form == F::WARPGROUP_I {
                now = 0;
            } else if s.form().class == Class::Gmma
                && let Some(at) = s.slot(S::Ra)
                && matches!(s.operands[at].value, Value::Reg(r) if r.file() == File::Gpr && !r.is_const())
            {
                now += usize::from(s.slot_width(at));
                most = most.max(now);
            }
        }
    }
    most
}

/// How many registers are alive, or read by products under way, at once; of blocks with products.
pub(super) fn need(f: &Func, cfg: &Cfg, live: &Liveness) -> u32 {
    if longest(f) == 0 {
        return 0;
    }
    let mut most = 0;
    // By value: behind which wait a product read it last.
    let mut flew = vec![0u32; f.vregs.len()];
    let mut waits = 1;
    // By value: where it is read last in the block at hand.
    let mut last: Vec<(u32, u32)> = vec![(u32::MAX, 0); f.vregs.len()];
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        let reads = |s: &Sass| {
            let at = s.slot(S::Ra).filter(|_| s.form().class == Class::Gmma)?;
            s.operands[at].as_reg().filter(|r| r.is_virtual() && r.file() == File::Gpr).map(|r| (r, s.slot_width(at)))
        };
        if !block.insts.iter().any(|i| matches!(&i.op, Op::Sass(s) if reads(s).is_some())) {
            continue;
        }
        let n = block.insts.len();
        let general = |v: Vreg| f.vregs[v.index()] == File::Gpr;
        let note = |v: Vreg, at: usize, last: &mut Vec<(u32, u32)>| {
            if general(v) && (last[v.index()].0 != b || last[v.index()].1 < at as u32) {
                last[v.index()] = (b, at as u32);
            }
        };
        for (i, inst) in block.insts.iter().enumerate() {
            f.uses(&inst.op, |v| note(v, i, &mut last));
        }
        live.live_out[b as usize].iter().for_each(|&v| note(v, n, &mut last));
        f.term_uses(&block.term, |v| note(v, n, &mut last));
        block.term.edges().iter().flat_map(|e| &e.args).for_each(|&v| note(v, n, &mut last));
        // What changes before each instruction: values made before it, ended before it; the same of what is under way though it has ended.
        let mut steps = vec![0i32; n + 2];
        let add = |from: usize, to: usize, steps: &mut Vec<i32>| {
            if from < to {
                steps[from] += 1;
                steps[to] -= 1;
            }
        };
        let ends = |v: Vreg| if last[v.index()].0 == b { last[v.index()].1 as usize + 1 } else { 0 };
        let mut start: Vec<Vreg> = live.live_in[b as usize].to_vec();
        start.extend(&block.params);
        start.iter().filter(|v| general(**v)).for_each(|&v| add(0, ends(v), &mut steps));
        let mut flying: Vec<Vreg> = Vec::new();
        for (i, inst) in block.insts.iter().enumerate() {
            f.defs(&inst.op, |v| {
                if general(v) {
                    add(i + 1, ends(v), &mut steps);
                }
            });
            let Op::Sass(s) = &inst.op else { continue };
            if s.form == F::WARPGROUP_I {
                flying.drain(..).for_each(|v| add(ends(v), i + 1, &mut steps));
                waits += 1;
            } else if let Some((r, _)) = reads(s) {
                f.each_scalar(r, |v| {
                    if std::mem::replace(&mut flew[v.index()], waits) != waits {
                        flying.push(v);
                    }
                });
            }
        }
        flying.into_iter().for_each(|v| add(ends(v), n + 1, &mut steps));
        waits += 1;
        let mut now = 0;
        for step in steps {
            now += step;
            most = most.max(now);
        }
    }
    most as u32
}

/// Finds out which instruction of a block, from 1, waits for the products that read a value: for what is `held`, in `until`.
pub(super) fn waits(f: &Func, insts: &[Inst], held: &[bool], until: &mut [u32]) {
    // Values that products under way read, with the number of groups that were ended since.
    let mut flying: Vec<(Vreg, i64)> = Vec::new();
    for (i, inst) in insts.iter().enumerate().filter(|_| !held.is_empty()) {
        let Op::Sass(s) = &inst.op else { continue };
        if let Some(left) = left_by(s) {
            flying.iter().filter(|x| x.1 > left).for_each(|x| until[x.0.index()] = i as u32 + 1);
            flying.retain(|x| x.1 <= left);
        } else if s.form().class == Class::Gmma && *s == end_of_group() {
            flying.iter_mut().for_each(|x| x.1 += 1);
        } else if s.form().class == Class::Gmma {
            f.uses(&inst.op, |v| {
                if held.get(v.index()) == Some(&true) {
                    until[v.index()] = u32::MAX;
                    flying.push((v, 0));
                }
            });
        }
    }
}

/// Where the loops begin in which products read what is `held`.
pub(super) fn loops(f: &Func, cfg: &Cfg, held: &[bool]) -> Vec<u32> {
    if held.is_empty() {
        return Vec::new();
    }
    let reads = |b: u32| {
        let mut found = false;
        for inst in
            f.blocks[b as usize].insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form().class == Class::Gmma))
        {
            f.uses(&inst.op, |v| found |= held.get(v.index()) == Some(&true));
        }
        found
    };
    let loops = cfg.loops(&cfg.dominators());
    loops.members.iter().filter(|(_, members)| members.iter().any(|&b| reads(b))).map(|l| l.0).collect()
}

impl Assign<'_> {
    /// Begins a block, and notes whether a loop does: what is written before its first wait is what a product of the iteration before must not read.
    pub(super) fn enter_loop(&mut self, b: u32) {
        let goes_on = std::mem::take(&mut self.unawaited);
        self.enter(b);
        let begins = self.loops.contains(&b);
        if begins {
            self.early = [false; 256];
        }
        self.unawaited = goes_on || begins;
    }

    /// What is under way where a block begins: what is at the end of any block before it that has been seen.
    pub(super) fn begin_flight(&mut self, b: u32) {
        let mut now = [None, None];
        for &p in &self.cfg.preds[b as usize] {
            for (now, before) in now.iter_mut().zip(&self.flights[p as usize]) {
                let Some(before) = before else { continue };
                match now {
                    None => *now = Some(before.clone()),
                    Some(now) => {
                        for (n, &o) in now.iter_mut().zip(before.iter()) {
                            *n = if *n == 0 || o == 0 { (*n).max(o) } else { (*n).min(o) };
                        }
                    }
                }
            }
        }
        let bank = &mut self.banks[File::Gpr as usize];
        [bank.busy, bank.sums] = now;
    }

    /// The blocks to which control comes from the one at hand without a wait in between, those that begin with what comes before one.
    pub(super) fn unawaited_blocks(&self) -> BitSet {
        let wait = |i: &Inst| matches!(&i.op, Op::Sass(s) if s.form == F::WARPGROUP_I);
        let mut found = BitSet::new(self.f.blocks.len());
        let mut work = vec![self.current];
        while let Some(b) = work.pop() {
            // The instructions of the block at hand are elsewhere; behind the product none of them waits.
            if b == self.current || !self.f.blocks[b as usize].insts.iter().any(wait) {
                work.extend(self.cfg.succs[b as usize].iter().copied().filter(|&s| found.insert(s as usize)));
            }
        }
        found
    }

    /// Remembers what is under way at the end of a block.
    pub(super) fn end_flight(&mut self, b: usize) {
        let bank = &mut self.banks[File::Gpr as usize];
        self.flights[b] = [bank.busy.take(), bank.sums.take()];
    }

    /// Sums that nobody reads are written all the same, some time later.
    pub(super) fn spare_unread(&mut self, at: u32, sums: &[Place]) {
        let mut unread: SmallVec<[u8; 8]> = SmallVec::new();
        for p in sums.iter().filter(|p| p.reg.file() == File::Gpr) {
            self.f
                .each_scalar(p.reg, |v| unread.extend(Some(self.loc[v.index()]).filter(|_| self.end[v.index()] == at)));
        }
        if !unread.is_empty() {
            let now = self.banks[File::Gpr as usize].busy.get_or_insert_with(|| Box::new([0; 256]));
            unread.iter().for_each(|&r| now[r as usize] = 1);
        }
    }

    /// Follows an instruction whose registers are assigned.
    pub(super) fn fly(&mut self, s: &Sass) {
        self.unawaited &= s.form != F::WARPGROUP_I;
        let bank = &mut self.banks[File::Gpr as usize];
        let flights = [&mut bank.busy, &mut bank.sums];
        if let Some(left) = left_by(s) {
            for flight in flights {
                if let Some(now) = flight {
                    now.iter_mut().filter(|n| **n > 1 && i64::from(**n) - 1 > left).for_each(|n| *n = 0);
                    if now.iter().all(|&n| n == 0) {
                        *flight = None;
                    }
                }
            }
        } else if s.form().class == Class::Gmma {
            if s.form == F::HGMMA_RUR && *s == end_of_group() {
                let ages = flights.into_iter().flatten().flat_map(|f| f.iter_mut());
                ages.filter(|n| **n > 0).for_each(|n| *n = n.saturating_add(1));
                return;
            }
            for (flight, slot) in flights.into_iter().zip([S::Ra, S::Rd]) {
                if let Some(at) = s.slot(slot)
                    && let Value::Reg(r) = s.operands[at].value
                    && r.file() == File::Gpr
                    && !r.is_const()
                {
                    let now = flight.get_or_insert_with(|| Box::new([0; 256]));
                    let first = r.index() as usize;
                    now[first..first + s.slot_width(at) as usize].fill(1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    /// A product that reads four registers last, then so many values that are made and stored, a wait and as many again.
    fn needs(before: usize, behind: usize) -> u32 {
        let mut t = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n".to_string();
        for (k, name) in ["%r100", "%r101", "%r102", "%r103"].into_iter().enumerate() {
            t += &format!("    MOV_I Rd={name} Rb={k}\n");
        }
        (110..114).for_each(|k| t += &format!("    UMOV_I Rd=%ur{k} Mask=0\n"));
        t += "    WARPGROUP\n    HGMMA_RRUR_OPEN.M53=7 Rd={%r120,%r121,%r122,%r123} Ra={%r100,%r101,%r102,%r103} \
              UR={%ur110,%ur111,%ur112,%ur113} Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n";
        let others = |from: usize, n: usize, t: &mut String| {
            (from..from + n).for_each(|k| *t += &format!("    MOV_I Rd=%r{k} Rb={k}\n"));
            (from..from + n).for_each(|k| *t += &format!("    STG.Size=4 Ra=RZ Rb=%r{k} URc=UR4\n"));
        };
        others(200, before, &mut t);
        t += "    WARPGROUP_I\n";
        others(300, behind, &mut t);
        (120..124).for_each(|k| t += &format!("    STG.Size=4 Ra=RZ Rb=%r{k} URc=UR4\n"));
        t += "    exit\n}\n";
        let f = text::parse(&t).unwrap().remove(0);
        let cfg = f.cfg();
        let live = Liveness::new(&f, &cfg);
        need(&f, &cfg, &live)
    }

    #[test]
    fn what_products_read_is_counted_until_the_wait() {
        // Four sums, and until the wait the four that the product reads.
        assert_eq!(needs(0, 0), 8);
        assert_eq!(needs(3, 0), 11);
        assert_eq!(needs(3, 6), 11);
        assert_eq!(needs(3, 20), 24);
    }

    /// A product that reads registers, one that reads none, and waits that leave a group under way and none.
    #[test]
    fn products_read_until_their_group_is_waited_for() {
        let wait_for = |lines: &str| {
            let mut t = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n".to_string();
            (100..104).for_each(|k| t += &format!("    MOV_I Rd=%r{k} Rb={k}\n"));
            (110..114).for_each(|k| t += &format!("    UMOV_I Rd=%ur{k} Mask=0\n"));
            for line in lines.chars() {
                t += match line {
                    'A' => {
                        "    HGMMA_RRUR_OPEN.M53=7 Rd={%r120,%r121,%r122,%r123} Ra={%r100,%r101,%r102,%r103} \
                         UR={%ur110,%ur111,%ur112,%ur113} Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n"
                    }
                    'B' => {
                        "    HGMMA_RUR_OPEN.M53=7.M75=1 Rd={%r130,%r131,%r132,%r133} URa={%ur110,%ur111,%ur112,%ur113} \
                         Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n"
                    }
                    '1' => "    WARPGROUP_I ImmAt72=1\n",
                    _ => "    WARPGROUP_I\n",
                };
            }
            let f = text::parse(&(t + "    exit\n}\n")).unwrap().remove(0);
            let held = held(&f);
            let mut until = vec![0; held.len()];
            waits(&f, &f.blocks[0].insts, &held, &mut until);
            until[100]
        };
        // Eight instructions, two for each product.
        assert_eq!(wait_for("A1B0"), 14);
        assert_eq!(wait_for("AB10"), 13);
        assert_eq!(wait_for("A0B"), 11);
        assert_eq!(wait_for("AB"), u32::MAX);
        assert_eq!(wait_for("A1"), u32::MAX);
    }

    /// A loop waits in a loop of its own, then for the product of the iteration before, and ends with the next one. What it writes before it waits for the
    /// product lies elsewhere than what that reads.
    #[test]
    fn a_product_reads_nothing_that_the_next_iteration_writes_before_it_waits() {
        let temporaries: String = (10..22)
            .map(|k| format!("    IADD3_RIR Rd=%r{k} Ra=%r2 Rb={k}\n    STG.Size=4 Ra=RZ Rb=%r{k} URc=UR4\n"))
            .collect();
        let uniform: String = (110..114).map(|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n")).collect();
        let a: String = (100..104).map(|k| format!("    IADD3_RIR Rd=%r{k} Ra=%r2 Rb={k}\n")).collect();
        let stored: String = (120..124).map(|k| format!("    STG.Size=4 Ra=RZ Rb=%r{k} URc=UR4\n")).collect();
        let t = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{uniform}    MOV_R Rd=%r1\n    br blk1(%r1)\n\
             blk1(%r2): depth=1\n    br blk2()\n\
             blk2(): depth=2\n    LDS Rd=%r5 Ra=RZ\n    ISETP_RI.Cmp=1 Pu=%p6 Ra=%r5 Rb=9\n    brif %p6, blk3(), blk4()\nblk3(): depth=2\n    br blk2()\n\
             blk4(): depth=1\n{temporaries}    WARPGROUP_I\n{a}    WARPGROUP\n    HGMMA_RRUR_OPEN.M53=7 Rd={{%r120,%r121,%r122,%r123}} \
             Ra={{%r100,%r101,%r102,%r103}} UR={{%ur110,%ur111,%ur112,%ur113}} Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n    IADD3_RIR Rd=%r3 Ra=%r2 Rb=1\n\
             \x20   ISETP_RI.Cmp=1 Pu=%p4 Ra=%r3 Rb=9\n    brif %p4, blk5(), blk6()\nblk5(): depth=1\n    br blk1(%r3)\n\
             blk6(): depth=0\n    WARPGROUP_I\n{stored}    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        crate::regalloc::run(&mut f, true, crate::regalloc::Tightness::Free).unwrap();
        let mut written = [false; 256];
        for inst in &f.blocks[4].insts {
            let Op::Sass(s) = &inst.op else { continue };
            if s.form == F::WARPGROUP_I {
                break;
            }
            crate::mir::operands::sass_defs(s, |p| written[p.reg.index() as usize & 255] |= p.reg.file() == File::Gpr);
        }
        let product = f.blocks[4].insts.iter().find_map(|i| match &i.op {
            Op::Sass(s) if s.form().class == Class::Gmma => s.get(S::Ra).and_then(|o| o.as_reg()),
            _ => None,
        });
        let first = product.unwrap().index() as usize;
        assert!(
            written.iter().filter(|&&w| w).count() > 1 && !(first..first + 4).any(|r| written[r]),
            "{}",
            text::print(&f)
        );
    }
}
