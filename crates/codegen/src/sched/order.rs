//! The order that [`super::prepass`] begins with: values are made where they are first read, and a loop's counters are
//! stepped after their last read.
//!
//! An instruction without side effects moves down to the first instruction that reads its result, if what it reads lives
//! that long anyway, or is one value: such moves make the pressure smaller, as PTX often computes whole lists of constants
//! and addresses ahead. A value that becomes a block parameter over the edge at the end of the block, computed from that
//! parameter, moves behind the last read of the parameter, so that both can have one register. n log n.

use crate::mir::liveness::Liveness;
use crate::mir::{Func, Inst, Op, Term, Vreg, reorder};
use sass::inst::Inst as Sass;
use sass::latency::Class;
use sass::reg::File;
use smallvec::SmallVec;

const NONE: u32 = u32::MAX;

/// What the order was made for: pairs of a parameter and what steps it, for edges of the graph.
pub type Steps = Vec<(Vreg, Vreg)>;

/// Scratch memory over the values of a function.
pub struct Orderer {
    /// Place of the first and last read in the block at hand.
    first: Vec<(u32, u8, u32)>,
    last: Vec<(u32, u8, u32)>,
    /// Instruction that takes its registers: who reads it stands before that.
    bound: Vec<u32>,
    seen: Vec<u32>,
}

const END: (u32, u8, u32) = (u32::MAX, 0, 0);

impl Orderer {
    /// For `n` values.
    pub fn new(n: usize) -> Orderer {
        Orderer { first: vec![END; n], last: vec![(0, 0, 0); n], bound: vec![NONE; n], seen: vec![NONE; n] }
    }

    fn touch(&mut self, v: Vreg, b: u32) {
        if self.seen[v.index()] != b {
            self.seen[v.index()] = b;
            self.first[v.index()] = END;
            self.last[v.index()] = (0, 0, 0);
            self.bound[v.index()] = NONE;
        }
    }

    fn last(&self, v: Vreg, b: u32) -> (u32, u8, u32) {
        if self.seen[v.index()] == b { self.last[v.index()] } else { (0, 0, 0) }
    }

    fn bound(&self, v: Vreg, b: u32) -> u32 {
        if self.seen[v.index()] == b { self.bound[v.index()] } else { NONE }
    }

    fn read(&mut self, v: Vreg, b: u32, key: (u32, u8, u32)) {
        self.touch(v, b);
        self.first[v.index()] = self.first[v.index()].min(key);
        self.last[v.index()] = self.last[v.index()].max(key);
    }

    /// Orders the instructions of block `b` anew; `insts` are its instructions. Gives the steps found.
    /// `crowded`: there are too many predicates; `late`: too many values.
    pub fn run(
        &mut self,
        f: &Func,
        b: usize,
        live: &Liveness,
        insts: &mut Vec<Inst>,
        crowded: bool,
        late: bool,
    ) -> Steps {
        let n = insts.len() as u32;
        let block = b as u32;
        if n < 3 {
            return Steps::new();
        }
        let term = &f.blocks[b].term;
        for &v in &live.live_out[b] {
            self.read(v, block, END);
        }
        f.term_uses(term, |v| self.read(v, block, (n, 0, 0)));
        let mut steps = Steps::new();
        let mut stepped: Vec<(Vreg, Vreg)> = Vec::new();
        for e in term.edges() {
            let params = &f.blocks[e.block.0 as usize].params;
            for (&p, &a) in params.iter().zip(&e.args) {
                self.read(a, block, (n, 0, 0));
                stepped.push((a, p));
            }
            // Where critical edges are split, the values are handed on behind it.
            let passed = &f.blocks[e.block.0 as usize];
            if let Term::Br(on) = &passed.term
                && passed.insts.is_empty()
                && passed.params.is_empty()
            {
                stepped.extend(on.args.iter().copied().zip(f.blocks[on.block.0 as usize].params.iter().copied()));
            }
        }
        stepped.sort_unstable();
        // The same of the block's own parameters, wherever the edge back to it starts.
        let own = super::ahead::back(f, b).map_or(&f.blocks[b].term, |(from, _)| &f.blocks[from].term);
        let again = own.edges().into_iter().filter(|e| e.block.0 == block);
        let mut around: Vec<(Vreg, Vreg)> =
            again.flat_map(|e| e.args.iter().copied().zip(f.blocks[b].params.iter().copied())).collect();
        around.sort_unstable();
        let mut keys: Vec<(u32, u8, u32)> = (0..n).map(|i| (i, 0, i)).collect();
        let mut moved = false;
        let mut defs: SmallVec<[Vreg; 4]> = SmallVec::new();
        let mut uses: SmallVec<[Vreg; 8]> = SmallVec::new();
        for i in (0..n).rev() {
            let op = &insts[i as usize].op;
            defs.clear();
            uses.clear();
            f.defs(op, |v| defs.push(v));
            f.uses(op, |v| uses.push(v));
            let mut key = (i, 0, i);
            // A load for the next iteration takes the registers of the one before it, whose readers stay ahead.
            if let Op::Sass(s) = op
                && s.form().effects.load
                && !movable(s)
            {
                for &d in &defs {
                    let from = around.partition_point(|s| s.0 < d);
                    for &(_, p) in around[from..].iter().take_while(|s| s.0 == d) {
                        self.touch(p, block);
                        if self.last[p.index()] == (0, 0, 0) {
                            steps.push((p, d));
                            self.bound[p.index()] = i;
                        }
                    }
                }
            }
            if let Op::Sass(s) = op
                && (movable(s) || late && packs(s))
                && defs.iter().all(|d| self.seen[d.index()] == block)
            {
                let first = defs.iter().map(|d| self.first[d.index()]).min().unwrap_or((i, 0, i));
                let steps_of = |a: Vreg| {
                    let from = stepped.partition_point(|s| s.0 < a);
                    stepped[from..].iter().take_while(move |s| s.0 == a).map(|s| s.1)
                };
                let param = defs.first().and_then(|&d| steps_of(d).find(|p| uses.contains(p)).map(|p| (p, d)));
                if let Some((p, d)) = param {
                    self.touch(p, block);
                    let last = self.last[p.index()];
                    let behind = (last.0, last.1.saturating_add(1), i);
                    if behind < first && last.0 < n {
                        if last > key && uses.iter().all(|&v| v == p || self.bound(v, block) >= last.0) {
                            key = behind;
                            moved = true;
                        }
                        steps.push((p, d));
                    }
                } else if first > (i, 0, i)
                    && first != END
                    && first.0 < n
                    && uses.iter().all(|v| self.bound(*v, block) >= first.0)
                {
                    // One value less, or this one instead of the one value that it is computed from: others computed from
                    // that may then move, too.
                    let lasts = |v: &Vreg| self.seen[v.index()] == block && self.last[v.index()] >= first;
                    let longer = uses.iter().filter(|v| !lasts(v)).count();
                    // A predicate for a register is a good bargain only where predicates are scarce.
                    let shorter = defs.iter().filter(|d| crowded || f.vregs[d.index()] != File::Pred).count();
                    if longer <= shorter || uses.len() <= defs.len() {
                        // Before its reader: the same place, told apart by age.
                        key = (first.0, first.1, i);
                        moved |= first.0 != i;
                    } else if late {
                        // Then where the first of what it reads ends.
                        let end = uses.iter().map(|v| self.last(*v, block)).min().unwrap_or(key);
                        if end > key && end < first && uses.iter().all(|v| self.bound(*v, block) >= end.0) {
                            key = (end.0, end.1, i);
                            moved = true;
                        }
                    }
                }
            }
            keys[i as usize] = key;
            uses.iter().for_each(|&v| self.read(v, block, key));
        }
        if moved {
            let mut order: Vec<u32> = (0..n).collect();
            order.sort_by_key(|&i| keys[i as usize]);
            *insts = reorder(std::mem::take(insts), &order);
        }
        steps
    }
}

/// Writes virtual registers only, and nothing else happens.
pub fn movable(s: &Sass) -> bool {
    let class = matches!(
        s.form().class,
        Class::Alu | Class::Fma | Class::FmaInt | Class::FmaWide | Class::Half | Class::Const | Class::Double
    );
    class && quiet(s)
}

/// Packs numbers into one register, and nothing else happens.
fn packs(s: &Sass) -> bool {
    s.form().class == Class::Pack && quiet(s)
}

/// Nothing happens but that virtual registers are written.
fn quiet(s: &Sass) -> bool {
    let form = s.form();
    let e = form.effects;
    let reads = e.load && form.class != Class::Const;
    if e.flow || e.sync || e.cross_lane || reads || e.store {
        return false;
    }
    let registers = s.registers();
    !crate::mir::operands::names_physical(s, registers.reads | registers.writes, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    fn after(body: &str) -> (Func, Steps) {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        let live = Liveness::new(&f, &f.cfg());
        let last = f.blocks.len() - 2;
        let mut insts = std::mem::take(&mut f.blocks[last].insts);
        let steps = Orderer::new(f.vregs.len()).run(&f, last, &live, &mut insts, false, false);
        f.blocks[last].insts = insts;
        (f, steps)
    }

    fn names(f: &Func, b: usize) -> Vec<&'static str> {
        let name = |i: &Inst| if let Op::Sass(s) = &i.op { s.form().mnemonic } else { "" };
        f.blocks[b].insts.iter().map(name).collect()
    }

    #[test]
    fn constants_stand_before_their_reader() {
        let (f, _) = after(
            "blk0(): depth=0\n    MOV_I Rd=%r0 Rb=5\n    S2R Rd=%r1 Sr=0x21\n    IADD3_RRR Rd=%r2 Ra=%r1 Rb=%r1 Rc=RZ\n    IADD3_RRR Rd=%r3 Ra=%r2 Rb=%r0 Rc=RZ\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    br blk1()\nblk1(): depth=0\n    exit\n",
        );
        assert_eq!(names(&f, 0), ["S2R", "IADD3", "MOV", "IADD3", "STG"]);
    }

    #[test]
    fn counters_step_behind_their_last_read() {
        let (f, steps) = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    br blk1(%r0)\nblk1(%r1): depth=1\n    IADD3_RRR Rd=%r2 Ra=%r1 Rb=%r0 Rc=RZ\n    STG.Size=4 Ra=RZ Rb=%r1 URc=UR4\n    ISETP_RR Pu=%p3 Ra=%r2 Rb=RZ\n    brif %p3, blk1(%r2), blk2()\nblk2(): depth=0\n    exit\n",
        );
        assert_eq!(names(&f, 1), ["STG", "IADD3", "ISETP"]);
        assert_eq!(steps.len(), 1);
    }

    #[test]
    fn counters_step_behind_their_last_read_where_edges_are_split() {
        let body = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    br blk1(%r0)\nblk1(%r1): depth=1\n    IADD3_RRR Rd=%r2 Ra=%r1 Rb=%r0 Rc=RZ\n    STG.Size=4 Ra=RZ Rb=%r1 URc=UR4\n    ISETP_RR Pu=%p3 Ra=%r0 Rb=RZ\n    brif %p3, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r2)\nblk3(): depth=0\n    exit\n}\n";
        let mut f = text::parse(body).unwrap().remove(0);
        let live = Liveness::new(&f, &f.cfg());
        let mut insts = std::mem::take(&mut f.blocks[1].insts);
        let steps = Orderer::new(f.vregs.len()).run(&f, 1, &live, &mut insts, false, false);
        f.blocks[1].insts = insts;
        assert_eq!(names(&f, 1), ["STG", "IADD3", "ISETP"]);
        assert_eq!(steps, [(Vreg(1), Vreg(2))]);
    }

    /// What reads values that others read later waits for these, where too many are alive; across what nothing else passes, too.
    #[test]
    fn packs_wait_for_what_they_read_where_registers_are_short() {
        let body = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    MUFU_R.Func=2 Rd=%r1 Rb=%r0\n    \
                    MUFU_R.Func=3 Rd=%r2 Rb=%r0\n    F2FP_PACK_RR.Dst=1 Rd=%r3 Ra=%r1 Rb=%r2\n    WARPGROUP_I\n    FMUL_RR Rd=%r4 Ra=%r1 Rb=%r1\n    \
                    FADD_RR Rd=%r5 Ra=%r2 Rb=%r2\n    STG.Size=4 Ra=RZ Rb=%r4 URc=UR4\n    STG.Size=4 Ra=RZ Rb=%r5 URc=UR4\n    \
                    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    br blk1()\nblk1(): depth=0\n    exit\n}\n";
        let ordered = |late: bool| {
            let mut f = text::parse(body).unwrap().remove(0);
            let live = Liveness::new(&f, &f.cfg());
            let mut insts = std::mem::take(&mut f.blocks[0].insts);
            Orderer::new(f.vregs.len()).run(&f, 0, &live, &mut insts, false, late);
            f.blocks[0].insts = insts;
            names(&f, 0)
        };
        let all = |middle: [&'static str; 2]| {
            [&["S2R", "MUFU", "MUFU"][..], &middle, &["FMUL", "FADD", "STG", "STG", "STG"]].concat()
        };
        assert_eq!(ordered(false), all(["F2FP", "WARPGROUP"]));
        assert_eq!(ordered(true), all(["WARPGROUP", "F2FP"]));
    }

    #[test]
    fn readers_stay_ahead_of_the_load_that_takes_their_registers() {
        let body = "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    br blk1(%r0, %r0)\nblk1(%r1, %r9): depth=1\n    FADD_RI Rd=%r2 Ra=%r9 Rb=0x3f800000\n    LOAD Ra={%r1,%r0}\n    STG.Size=4 Ra=RZ Rb=%r1 URc=UR4\n    IADD3_RIR Rd=%r4 Ra=%r1 Rb=0x1\n    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    ISETP_RR Pu=%p5 Ra=%r4 Rb=RZ\n    brif %p5, blk1(%r4, %r3), blk2()\nblk2(): depth=0\n    exit\n";
        let (f, steps) = after(&body.replace("LOAD", "LDG UR=UR4 Rd=%r3"));
        assert_eq!(names(&f, 1)[..2], ["FADD", "LDG"]);
        assert!(steps.contains(&(Vreg(9), Vreg(3))));
        // Where the next iteration reads something else, it stands before its own reader.
        let (f, steps) = after(&body.replace("LOAD", "LDG UR=UR4 Rd=%r3").replace("blk1(%r4, %r3)", "blk1(%r4, %r4)"));
        assert_eq!(names(&f, 1)[..2], ["LDG", "STG"]);
        assert!(!steps.contains(&(Vreg(9), Vreg(3))));
    }
}
