//! Several values that a block moves to uniform registers, computed of a few: the few are moved, and the rest is computed there.
//!
//! Descriptors of products in a loop over a pipeline of buffers are sums of the buffer's number, which is in a general register where anything else reads
//! it, and constants. Each was moved on its own, and each product waited for its moves. What the general registers hold stays as it is: nothing that reads
//! them changes. Where the number of a loop's iteration is such a value, it is moved in every iteration; what the loop only reads is moved before it.

use super::forms::uniform_form;
use super::same::same;
use super::{MOST_PREDICATES, Pass};
use crate::cfg::{Cfg, DomTree, NONE};
use crate::mir::liveness::Liveness;
use crate::mir::operands::{names_physical, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op, Vreg};
use crate::regalloc::pressures;
use rustc_hash::{FxHashMap, FxHashSet};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// So deep is looked into what a value is computed of.
const DEEP: u32 = 12;
/// So many of the last that were computed are looked at for one that is the same.
const NEAR: usize = 256;

/// Runs the pass for chip `sm`, with at most `most` uniform registers alive at once. True if anything changed.
pub(super) fn run(f: &mut Func, cfg: &Cfg, sm: u16, most: u32) -> bool {
    let moves = |b: &&u32| {
        let block = &f.blocks[**b as usize];
        !block.divergent && block.insts.iter().filter(|i| moved(&i.op).is_some()).nth(1).is_some()
    };
    let blocks: Vec<u32> = cfg.rpo.iter().filter(moves).copied().collect();
    if blocks.is_empty() {
        return false;
    }
    let same = same(f, cfg);
    let dom = cfg.dominators();
    let before = f.clone();
    let mut of = vec![NONE; f.vregs.len()];
    for &b in &cfg.rpo {
        f.blocks[b as usize].params.iter().for_each(|p| of[p.index()] = b);
        f.blocks[b as usize].insts.iter().for_each(|i| f.defs(&i.op, |v| of[v.index()] = b));
    }
    let mut grower = Grower {
        f,
        sm,
        same: &same,
        dom: &dom,
        of: &of,
        made: vec![false; of.len()],
        leaf: Vec::new(),
        hoisted: FxHashMap::default(),
        before: Vec::new(),
    };
    let mut any = false;
    for b in blocks {
        any |= grower.block(b);
    }
    let Grower { made, leaf, before: first, .. } = grower;
    if !any {
        return false;
    }
    for (at, inst) in first {
        f.blocks[at as usize].insts.push(inst);
    }
    if finish(f, cfg, sm, most, made, leaf) {
        return true;
    }
    *f = before;
    false
}

/// Puts what was made into uniform forms; false where there is none for something, or too few registers.
fn finish(f: &mut Func, cfg: &Cfg, sm: u16, most: u32, made: Vec<bool>, leaf: Vec<Vreg>) -> bool {
    let n = f.vregs.len();
    let uniform = |file: &File| matches!(file, File::Ugpr | File::Upred);
    let old: Vec<bool> = f.vregs.iter().map(uniform).collect();
    let kept = (0..n).map(|v| old[v] || made.get(v) == Some(&true)).collect();
    let mut leaves = vec![false; n];
    leaf.iter().for_each(|v| leaves[v.index()] = true);
    let mut pass = Pass {
        f,
        cfg,
        sm,
        kept,
        concerned: Vec::new(),
        old,
        weight: Vec::new(),
        wanted: Vec::new(),
        copies: Vec::new(),
        ahead: Vec::new(),
        chooses: true,
        copied: Vec::new(),
        moves: Vec::new(),
        leaf: leaves,
    };
    for inst in pass.f.blocks.iter().flat_map(|b| &b.insts) {
        let mut mine = false;
        pass.f.defs(&inst.op, |v| mine |= made.get(v.index()) == Some(&true));
        if mine && !matches!(&inst.op, Op::Sass(s) if pass.fitted(s).is_some()) {
            return false;
        }
    }
    pass.rewrite();
    let live = Liveness::new(f, cfg);
    let need = pressures(f, cfg, &live).0;
    need.max[File::Ugpr as usize] <= most && need.max[File::Upred as usize] <= MOST_PREDICATES
}

/// What a move to a uniform register reads, where all threads are there to do it.
fn moved(op: &Op) -> Option<Vreg> {
    let Op::Sass(s) = op else { return None };
    let read = s.get(S::Ra).filter(|_| s.form == F::R2UR && s.guard == Operand::reg(Reg::PT))?.as_reg()?;
    read.is_virtual().then(|| Vreg(read.index()))
}

/// What is computed a second time in a block.
struct Tree<'a> {
    block: u32,
    insts: &'a [Inst],
    /// By value: which instruction makes it.
    makers: &'a FxHashMap<Vreg, usize>,
    /// By value, and by what computes it: the same in uniform registers.
    twin: FxHashMap<Vreg, Vreg>,
    known: Vec<(Sass, SmallVec<[Vreg; 2]>)>,
    /// The block as it will be.
    out: Vec<Inst>,
}

struct Grower<'a> {
    f: &'a mut Func,
    sm: u16,
    same: &'a [bool],
    dom: &'a DomTree,
    /// By value: the block that it comes from.
    of: &'a [u32],
    /// Values that will be in uniform registers.
    made: Vec<bool>,
    /// Those that are moved there.
    leaf: Vec<Vreg>,
    /// By value and block: what it is moved to at the end of the block.
    hoisted: FxHashMap<(Vreg, u32), Vreg>,
    /// The moves there.
    before: Vec<(u32, Inst)>,
}

impl Grower<'_> {
    /// Looks at one block; true if its moves read anything else now.
    fn block(&mut self, b: u32) -> bool {
        let insts = std::mem::take(&mut self.f.blocks[b as usize].insts);
        // By value: what makes it in this block.
        let mut makers: FxHashMap<Vreg, usize> = FxHashMap::default();
        for (i, inst) in insts.iter().enumerate() {
            if self.computes(&inst.op) {
                self.f.defs(&inst.op, |v| {
                    makers.insert(v, i);
                });
            }
        }
        let mut leaves: SmallVec<[Vreg; 8]> = SmallVec::new();
        // The moves that can read something else.
        let mut can: Vec<usize> = Vec::new();
        for (i, inst) in insts.iter().enumerate() {
            let (mut mine, mut seen) = (SmallVec::<[Vreg; 8]>::new(), FxHashSet::default());
            if let Some(v) = moved(&inst.op)
                && makers.contains_key(&v)
                && self.look(v, &insts, &makers, &mut mine, &mut seen, DEEP)
            {
                can.push(i);
                mine.retain(|l| !leaves.contains(l));
                leaves.extend(mine);
            }
        }
        // Those that each iteration moves.
        let own = leaves.iter().filter(|&&l| self.place(l, b).is_none()).count();
        if can.len() < 2 || own + 1 >= can.len() || leaves.len() > can.len() {
            self.f.blocks[b as usize].insts = insts;
            return false;
        }
        self.grow(b, insts, &makers, &can);
        true
    }

    /// True for what has a uniform form and may be computed a second time.
    fn computes(&self, op: &Op) -> bool {
        let Op::Sass(s) = op else { return false };
        if uniform_form(s).is_none_or(|to| !to.get().on(self.sm)) || names_physical(s, s.registers().reads, true) {
            return false;
        }
        let mut single = true;
        sass_defs(s, |p| single &= p.width == 1);
        sass_uses(s, |p| single &= p.width == 1 || !p.reg.is_virtual());
        single
    }

    /// Finds what a value is computed of in this block, as far as there are uniform forms; false where that cannot be moved.
    fn look(
        &self,
        v: Vreg,
        insts: &[Inst],
        makers: &FxHashMap<Vreg, usize>,
        leaves: &mut SmallVec<[Vreg; 8]>,
        seen: &mut FxHashSet<Vreg>,
        deep: u32,
    ) -> bool {
        // What was looked into before would have ended it.
        if matches!(self.f.vregs[v.index()], File::Ugpr | File::Upred) || !seen.insert(v) {
            return true;
        }
        let Some(&i) = makers.get(&v) else {
            let may = self.f.vregs[v.index()] == File::Gpr && self.same.get(v.index()) == Some(&true);
            leaves.extend(Some(v).filter(|_| may));
            return may;
        };
        if deep == 0 {
            return false;
        }
        let mut all = true;
        self.f.uses(&insts[i].op, |u| all = all && self.look(u, insts, makers, leaves, seen, deep - 1));
        all
    }

    /// The block before a loop where a value may be moved that the loop only reads.
    fn place(&self, v: Vreg, b: u32) -> Option<u32> {
        let depth = |b: u32| self.f.blocks[b as usize].depth;
        let def = self.of[v.index()];
        if def == NONE || depth(b) <= depth(def) {
            return None;
        }
        let mut at = b;
        while at != def && depth(at) > depth(def) {
            at = self.dom.idom[at as usize];
        }
        (!self.f.blocks[at as usize].divergent).then_some(at)
    }

    /// Gives these moves of a block what they read.
    fn grow(&mut self, b: u32, insts: Vec<Inst>, makers: &FxHashMap<Vreg, usize>, moves: &[usize]) {
        let out = Vec::with_capacity(insts.len() + 8);
        let mut tree = Tree { block: b, insts: &insts, makers, twin: FxHashMap::default(), known: Vec::new(), out };
        let mut moves = moves.iter().copied().peekable();
        for (i, mut inst) in insts.iter().cloned().enumerate() {
            if moves.next_if_eq(&i).is_some()
                && let Some(v) = moved(&inst.op)
                && let Op::Sass(s) = &mut inst.op
            {
                let made = self.twin(v, &mut tree);
                *s = s.clone().with(S::Ra, Reg::virt(File::Gpr, made.0));
            }
            tree.out.push(inst);
        }
        self.f.blocks[b as usize].insts = tree.out;
    }

    fn fresh(&mut self, file: File) -> Vreg {
        let v = self.f.new_vreg(file);
        self.made.resize(self.f.vregs.len(), false);
        self.made[v.index()] = true;
        v
    }

    /// The value that is `v` in a uniform register, computed in the tree's block if it is not yet.
    fn twin(&mut self, v: Vreg, tree: &mut Tree) -> Vreg {
        let file = self.f.vregs[v.index()];
        if matches!(file, File::Ugpr | File::Upred) {
            return v;
        }
        if let Some(&t) = tree.twin.get(&v) {
            return t;
        }
        let Some(&i) = tree.makers.get(&v) else {
            let loc = self.f.blocks[tree.block as usize].loc;
            let t = match self.place(v, tree.block) {
                Some(at) => match self.hoisted.get(&(v, at)) {
                    Some(&t) => t,
                    None => {
                        let t = self.leaf(v);
                        self.hoisted.insert((v, at), t.0);
                        self.before.push((at, Inst::new(Op::Sass(t.1), loc)));
                        t.0
                    }
                },
                None => {
                    let t = self.leaf(v);
                    tree.out.push(Inst::new(Op::Sass(t.1), loc));
                    t.0
                }
            };
            tree.twin.insert(v, t);
            return t;
        };
        let Op::Sass(s) = &tree.insts[i].op else { return v };
        let mut new = s.clone();
        let mut places: SmallVec<[(Option<u8>, Reg); 8]> = SmallVec::new();
        sass_uses(s, |p| places.extend(p.reg.is_virtual().then_some((p.slot, p.reg))));
        for (slot, reg) in places {
            let t = self.twin(Vreg(reg.index()), tree);
            if let Some(n) = slot {
                new.operands[n as usize].value = Value::Reg(Reg::virt(reg.file(), t.0));
            }
        }
        let mut defs: SmallVec<[(Option<u8>, Reg); 2]> = SmallVec::new();
        sass_defs(s, |p| defs.extend(p.reg.is_virtual().then_some((p.slot, p.reg))));
        // As it is apart from what it makes.
        let mut key = new.clone();
        for &(slot, _) in &defs {
            if let Some(n) = slot {
                key.operands[n as usize].value = Value::Reg(Reg::RZ);
            }
        }
        if let Some((_, list)) = tree.known.iter().rev().take(NEAR).find(|k| k.0 == key) {
            defs.iter().zip(list).for_each(|(d, &t)| {
                tree.twin.insert(Vreg(d.1.index()), t);
            });
            return tree.twin[&v];
        }
        let mut list: SmallVec<[Vreg; 2]> = SmallVec::new();
        for &(slot, reg) in &defs {
            let t = self.fresh(reg.file());
            tree.twin.insert(Vreg(reg.index()), t);
            list.push(t);
            if let Some(n) = slot {
                new.operands[n as usize].value = Value::Reg(Reg::virt(reg.file(), t.0));
            }
        }
        tree.known.push((key, list));
        tree.out.push(Inst::new(Op::Sass(new), tree.insts[i].loc));
        tree.twin[&v]
    }

    /// A value that `v` is moved to, and the move.
    fn leaf(&mut self, v: Vreg) -> (Vreg, Sass) {
        let t = self.fresh(File::Gpr);
        self.leaf.push(t);
        let r = |v: Vreg| Reg::virt(File::Gpr, v.0);
        (t, Sass::new(F::MOV_R).with(S::Rd, r(t)).with(S::Rb, r(v)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    /// The names of the instructions of a block after the pass.
    fn after(body: &str, most: u32) -> Vec<Vec<String>> {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        verify::ssa(&f).unwrap();
        let cfg = f.cfg();
        run(&mut f, &cfg, 90, most);
        verify::ssa(&f).unwrap();
        let name = |i: &Inst| if let Op::Sass(s) = &i.op { s.form().name.to_string() } else { "copy".into() };
        f.blocks.iter().map(|b| b.insts.iter().map(name).collect()).collect()
    }

    /// Three sums of one value that all threads share, in general registers, are moved.
    const SUMS: &str = "blk0(): depth=0\n    LDC Rd=%r0 Const=c[0x0][0x210] Ra=RZ\n    POPC_R Rd=%r1 Rb=%r0\n    IADD3_RIR Rd=%r2 Ra=%r1 Rb=2\n    \
         IADD3_RIR Rd=%r3 Ra=%r1 Rb=4\n    IADD3_RIR Rd=%r4 Ra=%r2 Rb=8\n    R2UR Rd=%ur10 Ra=%r2\n    R2UR Rd=%ur11 Ra=%r3\n    R2UR Rd=%ur12 Ra=%r4\n    \
         STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    exit\n";

    #[test]
    fn what_is_computed_of_a_few_values_is_computed_in_uniform_registers() {
        let sums = ["LDC", "POPC_R", "IADD3_RIR", "IADD3_RIR", "IADD3_RIR"];
        let uniform = ["R2UR", "UIADD3_UIU", "copy", "UIADD3_UIU", "copy", "UIADD3_UIU", "copy", "STG"];
        assert_eq!(after(SUMS, super::super::MOST), [[&sums[..], &uniform].concat()]);
    }

    #[test]
    fn what_does_not_fit_or_differs_between_threads_is_moved_as_it_is() {
        let sums = ["LDC", "POPC_R", "IADD3_RIR", "IADD3_RIR", "IADD3_RIR", "R2UR", "R2UR", "R2UR", "STG"];
        assert_eq!(after(SUMS, 1), [sums]);
        let apart = SUMS.replace("LDC Rd=%r0 Const=c[0x0][0x210] Ra=RZ", "S2R Rd=%r0 Sr=0x21");
        assert_eq!(after(&apart, super::super::MOST)[0][5..8], ["R2UR", "R2UR", "R2UR"]);
        let divergent = SUMS.replace("depth=0", "depth=0 divergent");
        assert_eq!(after(&divergent, super::super::MOST)[0][5..8], ["R2UR", "R2UR", "R2UR"]);
    }

    #[test]
    fn what_a_loop_only_reads_is_moved_before_it() {
        let t = "blk0(): depth=0\n    LDC Rd=%r0 Const=c[0x0][0x210] Ra=RZ\n    POPC_R Rd=%r1 Rb=%r0\n    br blk1(%r0)\nblk1(%r5): depth=1\n    \
                 IADD3_RRR Rd=%r2 Ra=%r1 Rb=%r5\n    IADD3_RIR Rd=%r3 Ra=%r2 Rb=4\n    IADD3_RIR Rd=%r4 Ra=%r2 Rb=8\n    R2UR Rd=%ur10 Ra=%r2\n    \
                 R2UR Rd=%ur11 Ra=%r3\n    R2UR Rd=%ur12 Ra=%r4\n    POPC_R Rd=%r6 Rb=%r4\n    ISETP_RI Pu=%p7 Ra=%r6 Rb=3\n    brif %p7, blk1(%r6), blk2()\n\
                 blk2(): depth=0\n    exit\n";
        let moves = |names: &[String]| names.iter().filter(|n| *n == "R2UR").count();
        let out = after(t, super::super::MOST);
        assert_eq!((moves(&out[0]), moves(&out[1])), (1, 1), "{out:?}");
    }
}
