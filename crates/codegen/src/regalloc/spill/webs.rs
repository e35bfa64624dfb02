//! Which values may share a stack slot: parameters of blocks, and what edges give them, where no two of them are ever needed at once. What is on
//! the stack at both ends of an edge is not moved there then.
//!
//! Values in SSA form are needed at once only where one of them is needed just behind the definition of the other. A slot is written where a value
//! is defined, and, for a parameter, on the edges into its block, so that nobody who shares it is needed at either place.

use super::NONE;
use crate::cfg::Cfg;
use crate::groups::Groups;
use crate::mir::liveness::Liveness;
use crate::mir::{Func, Vreg};
use sass::reg::File;

/// Values that share a slot, at most: each is compared with each that joins them.
const MOST: usize = 16;

/// Where values are defined and read, in places that are counted through all blocks.
struct Places<'a> {
    live: &'a Liveness,
    /// Block and place of each definition; none for values that nobody defines.
    def: Vec<(u32, u32)>,
    /// The first place of each block, in which its parameters are defined; behind the last instruction's comes the terminator's.
    start: Vec<u32>,
    /// Of each value, in ascending order.
    uses: Groups,
}

impl<'a> Places<'a> {
    fn new(f: &Func, cfg: &Cfg, live: &'a Liveness) -> Places<'a> {
        let mut def = vec![(NONE, 0); f.vregs.len()];
        let mut start = Vec::with_capacity(f.blocks.len());
        let mut uses = Vec::new();
        let mut at = 0;
        for (b, block) in (0..).zip(&f.blocks) {
            start.push(at);
            block.params.iter().for_each(|p| def[p.index()] = (b, at));
            if b == 0 {
                f.live_in.iter().for_each(|l| def[l.0.index()] = (b, at));
            }
            // What the only edge into a block gives is read in the block, behind the stores of its parameters, where the block before has other ways out.
            if let [before] = cfg.preds[b as usize][..]
                && f.blocks[before as usize].term.successors().len() > 1
            {
                let edges = f.blocks[before as usize].term.edges();
                let args = edges.iter().filter(|e| e.block.0 == b).flat_map(|e| &e.args);
                args.for_each(|v| uses.push((v.0, at + 1)));
            }
            for inst in &block.insts {
                at += 1;
                f.defs(&inst.op, |v| def[v.index()] = (b, at));
                f.uses(&inst.op, |v| uses.push((v.0, at)));
            }
            at += 1;
            f.term_uses(&block.term, |v| uses.push((v.0, at)));
            block.term.edges().iter().flat_map(|e| &e.args).for_each(|v| uses.push((v.0, at)));
            at += 1;
        }
        let uses = Groups::new(f.vregs.len(), &uses);
        Places { live, def, start, uses }
    }

    /// Is `v` needed just behind the definition of `w`, or defined there, too?
    fn needed_at(&self, v: Vreg, w: Vreg) -> bool {
        let ((b, at), (own, defined)) = (self.def[w.index()], self.def[v.index()]);
        if own == b && defined >= at {
            return defined == at;
        }
        if self.live.live_out[b as usize].binary_search(&v).is_ok() {
            return true;
        }
        let end = self.start.get(b as usize + 1).copied().unwrap_or(NONE);
        let uses = self.uses.of(v.0);
        uses.get(uses.partition_point(|&u| u <= at)).is_some_and(|&u| u < end)
    }

    fn apart(&self, v: Vreg, w: Vreg) -> bool {
        let known = |v: Vreg| self.def[v.index()].0 != NONE;
        known(v) && known(w) && !self.needed_at(v, w) && !self.needed_at(w, v)
    }
}

/// For each value the one whose slot it shares, itself as a rule; `takes` says which values may share any.
pub(super) fn find(f: &Func, cfg: &Cfg, live: &Liveness, takes: &dyn Fn(Vreg) -> bool) -> Vec<Vreg> {
    let mut head: Vec<Vreg> = (0..f.vregs.len() as u32).map(Vreg).collect();
    let places = Places::new(f, cfg, live);
    let mut members: Vec<Vec<Vreg>> = vec![Vec::new(); f.vregs.len()];
    let mine = |v: Vreg| f.vregs[v.index()] == File::Gpr && takes(v);
    for &b in &cfg.rpo {
        for e in f.blocks[b as usize].term.edges() {
            for (&p, &a) in f.blocks[e.block.0 as usize].params.iter().zip(&e.args) {
                let (x, y) = (head[p.index()], head[a.index()]);
                if x == y || !mine(p) || !mine(a) {
                    continue;
                }
                for v in [x, y] {
                    if members[v.index()].is_empty() {
                        members[v.index()].push(v);
                    }
                }
                let (few, many) = (&members[y.index()], &members[x.index()]);
                let fit = few.len() + many.len() <= MOST;
                if fit && few.iter().all(|&v| many.iter().all(|&w| places.apart(v, w))) {
                    let moved = std::mem::take(&mut members[y.index()]);
                    moved.iter().for_each(|v| head[v.index()] = x);
                    members[x.index()].extend(moved);
                }
            }
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    /// The loop hands on %r1 as %r3. `%r4` is what it becomes; `last` reads something in the end.
    fn shares(last: &str) -> bool {
        let text = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    S2R Rd=%r1 Sr=0x22\n    br blk1(%r1)\n\
             blk1(%r3): depth=1\n    IADD3_RRR Rd=%r4 Ra=%r3 Rb=%r0 Rc=RZ\n    STG.Size=4 Ra=RZ Rb={last} URc=UR4\n    ISETP_RI.Cmp=4 Pu=%p5 Ra=%r4 Rb=0x3\n\
             brif %p5, blk1(%r4), blk2()\nblk2(): depth=0\n    exit\n}}\n"
        );
        let f = text::parse(&text).unwrap().remove(0);
        let cfg = f.cfg();
        let heads = find(&f, &cfg, &Liveness::new(&f, &cfg), &|_| true);
        assert_eq!(heads[1], heads[3], "{text}");
        assert_ne!(heads[0], heads[3]);
        heads[4] == heads[3]
    }

    #[test]
    fn what_a_loop_hands_on_shares_the_slot_unless_both_are_needed() {
        assert!(shares("%r4"));
        assert!(!shares("%r3"));
    }

    /// The copy from the slot of %r1 to that of %r2 stands in the second block, where %r3 may have been stored before.
    #[test]
    fn what_is_read_behind_an_edge_shares_nothing_there() {
        let text = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    S2R Rd=%r1 Sr=0x22\n    \
                    ISETP_RI.Cmp=4 Pu=%p5 Ra=%r0 Rb=0x3\n    brif %p5, blk1(%r1, %r0), blk2()\nblk1(%r2, %r3): depth=0\n    \
                    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    exit\nblk2(): depth=0\n    exit\n}\n";
        let f = text::parse(text).unwrap().remove(0);
        let cfg = f.cfg();
        let heads = find(&f, &cfg, &Liveness::new(&f, &cfg), &|_| true);
        assert!((0..4).all(|v| heads[v] == Vreg(v as u32)), "{heads:?}");
    }

    #[test]
    fn who_takes_none_shares_none() {
        let text = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    br blk1(%r0)\nblk1(%r1): depth=0\n    \
                    STG.Size=4 Ra=RZ Rb=%r1 URc=UR4\n    exit\n}\n";
        let f = text::parse(text).unwrap().remove(0);
        let cfg = f.cfg();
        let live = Liveness::new(&f, &cfg);
        assert_eq!(find(&f, &cfg, &live, &|_| true)[0], Vreg(1));
        assert_eq!(find(&f, &cfg, &live, &|v| v.0 != 0)[0], Vreg(0));
    }
}
