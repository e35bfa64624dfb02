//! Brings a function into the shape that allocation needs, still in SSA form:
//!
//! - block 0 has no predecessors (the prologue goes there);
//! - no critical edges: an edge leaves a block with one successor or enters a block with one predecessor;
//! - indexed branches are code: scaled index, load from the table in bank 2, `BRX`;
//! - no scalar is asked to be at two different places of vector operands of one instruction.

use crate::cfg::Cfg;
use crate::mir::operands::{Place, sass_uses};
use crate::mir::{Block, BlockId, Edge, Func, Inst, Op, Term, Vreg};
use rustc_hash::FxHashMap;
use sass::form::{ModName as M, SlotName as S};
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use sass::{enums, forms as F};
use smallvec::SmallVec;

/// The offset that stands in a table load until the table's place in bank 2 is known: table `n` of the function.
pub fn table_placeholder(n: usize) -> i32 {
    -1 - n as i32
}

/// Prepares `f`; gives its graph.
pub fn run(f: &mut Func) -> Cfg {
    free_entry(f);
    lower_switches(f);
    let cfg = split_critical_edges(f);
    separate_vectors(f);
    cfg
}

fn free_entry(f: &mut Func) {
    let back = f.blocks.iter().any(|b| b.term.successors().contains(&BlockId(0)));
    if !back {
        return;
    }
    let moved = BlockId(f.blocks.len() as u32);
    for b in &mut f.blocks {
        b.term.retarget(|t| if t == BlockId(0) { moved } else { t });
        for inst in &mut b.insts {
            if let Op::Sass(s) = &mut inst.op {
                for o in &mut s.operands {
                    if o.value == Value::target(0) {
                        o.value = Value::target(moved.0 as i64);
                    }
                }
            }
        }
    }
    let first = Block {
        params: Vec::new(),
        insts: Vec::new(),
        term: Term::Br(Edge { block: moved, args: Vec::new() }),
        loc: u32::MAX,
        depth: 0,
        divergent: f.blocks[0].divergent,
    };
    let old = std::mem::replace(&mut f.blocks[0], first);
    f.blocks.push(old);
}

fn lower_switches(f: &mut Func) {
    let mut tables = 0;
    for b in 0..f.blocks.len() {
        let Term::Switch { index, .. } = f.blocks[b].term else { continue };
        if index == Vreg::NONE {
            continue;
        }
        if let Term::Switch { targets, .. } = &f.blocks[b].term
            && let [only] = targets[..]
        {
            f.blocks[b].term = Term::Br(Edge { block: only, args: Vec::new() });
            continue;
        }
        let [scaled, lo, hi] = [(); 3].map(|()| f.new_vreg(File::Gpr));
        let pair = f.vector(&[lo, hi]);
        let loc = f.blocks[b].insts.last().map_or(u32::MAX, |i| i.loc);
        let code = [
            Sass::new(F::IMAD_RIR)
                .with(S::Rd, f.reg(scaled))
                .with(S::Ra, f.reg(index))
                .with(S::Rb, Operand::imm(4))
                .with_mod(M::Sign, enums::sign::U32),
            Sass::new(F::LDC)
                .with(S::Rd, f.reg(lo))
                .with(S::Const, Operand::cbank(2, table_placeholder(tables)))
                .with(S::Ra, f.reg(scaled)),
            Sass::new(F::SHF_RIR)
                .with(S::Rd, f.reg(hi))
                .with(S::Ra, Reg::RZ)
                .with(S::Rb, Operand::imm(31))
                .with(S::Rc, f.reg(lo))
                .with_mod(M::Dir, enums::shfdir::R)
                .with_mod(M::Type, enums::shftype::S32)
                .with_mod(M::Hi, 1),
            Sass::new(F::BRX).with(S::Ra, pair),
        ];
        tables += 1;
        f.blocks[b].insts.extend(code.map(|s| Inst::new(Op::Sass(s), loc)));
        if let Term::Switch { index, .. } = &mut f.blocks[b].term {
            *index = Vreg::NONE;
        }
    }
}

fn split_critical_edges(f: &mut Func) -> Cfg {
    let cfg = f.cfg();
    let before = f.blocks.len();
    for b in 0..cfg.len() {
        if cfg.succs[b].len() < 2 || !cfg.reachable(b as u32) {
            continue;
        }
        let mut new: Vec<Block> = Vec::new();
        let first = f.blocks.len() as u32;
        let divergent: Vec<bool> = cfg.succs[b].iter().map(|&s| f.blocks[s as usize].divergent).collect();
        let depth: Vec<u32> = cfg.succs[b].iter().map(|&s| f.blocks[s as usize].depth).collect();
        let block = &mut f.blocks[b];
        let (from_divergent, from_depth) = (block.divergent, block.depth);
        let mut nth = 0;
        let mut split = |target: BlockId, args: Vec<Vreg>| -> Option<BlockId> {
            let i = nth;
            nth += 1;
            if cfg.preds[target.0 as usize].len() < 2 {
                return None;
            }
            new.push(Block {
                params: Vec::new(),
                insts: Vec::new(),
                term: Term::Br(Edge { block: target, args }),
                loc: u32::MAX,
                depth: depth[i].min(from_depth),
                divergent: from_divergent || divergent[i],
            });
            Some(BlockId(first + new.len() as u32 - 1))
        };
        match &mut block.term {
            Term::Switch { targets, .. } => {
                for t in targets {
                    if let Some(n) = split(*t, Vec::new()) {
                        *t = n;
                    }
                }
            }
            term => {
                for e in term.edges_mut() {
                    if let Some(n) = split(e.block, e.args.clone()) {
                        *e = Edge { block: n, args: Vec::new() };
                    }
                }
            }
        }
        f.blocks.extend(new);
    }
    if f.blocks.len() == before { cfg } else { f.cfg() }
}

/// Copies scalars that two vector operands of one instruction want at different places.
fn separate_vectors(f: &mut Func) {
    for b in 0..f.blocks.len() {
        // What goes in before which instruction.
        let mut put: Vec<(usize, Inst)> = Vec::new();
        for i in 0..f.blocks[b].insts.len() {
            let mut vectors: SmallVec<[Place; 4]> = SmallVec::new();
            if let Op::Sass(inst) = &f.blocks[b].insts[i].op
                && !inst.registers().all_single()
            {
                sass_uses(inst, |p| {
                    if p.reg.is_virtual() && p.width > 1 {
                        vectors.push(p);
                    }
                });
            }
            if vectors.is_empty() {
                continue;
            }
            let copies = conflicts(f, b, i, &vectors);
            if !copies.is_empty() {
                let loc = f.blocks[b].insts[i].loc;
                let pairs = copies.iter().map(|&(new, old)| (f.reg(new), f.reg(old))).collect();
                put.push((i, Inst::new(Op::Copy(pairs), loc)));
            }
        }
        if put.is_empty() {
            continue;
        }
        let insts = std::mem::take(&mut f.blocks[b].insts);
        let mut all = Vec::with_capacity(insts.len() + put.len());
        let mut put = put.into_iter().peekable();
        for (i, inst) in insts.into_iter().enumerate() {
            all.extend(put.next_if(|p| p.0 == i).map(|p| p.1));
            all.push(inst);
        }
        f.blocks[b].insts = all;
    }
}

/// Up to so many scalars each is compared with each.
const FEW: usize = 24;

/// True if these vectors have few scalars, all of which differ.
fn distinct(f: &Func, vectors: &[Place]) -> bool {
    let mut seen: SmallVec<[Vreg; FEW]> = SmallVec::new();
    for p in vectors {
        for v in &f.vecs[p.reg.index() as usize] {
            if seen.len() == FEW || seen.contains(v) {
                return false;
            }
            seen.push(*v);
        }
    }
    true
}

fn conflicts(f: &mut Func, b: usize, i: usize, vectors: &[Place]) -> Vec<(Vreg, Vreg)> {
    let mut copies = Vec::new();
    if distinct(f, vectors) {
        return copies;
    }
    let mut at: FxHashMap<Vreg, (usize, usize)> = FxHashMap::default();
    let mut kept: Vec<Vec<Vreg>> = Vec::new();
    for p in vectors {
        let list = f.vecs[p.reg.index() as usize].to_vec();
        // The same list of scalars twice is one place.
        if kept.contains(&list) {
            continue;
        }
        let mut changed = list.clone();
        for (n, &v) in list.iter().enumerate() {
            if at.contains_key(&v) {
                let file = f.vregs[v.index()];
                let new = f.new_vreg(file);
                copies.push((new, v));
                changed[n] = new;
            }
            at.insert(changed[n], (kept.len(), n));
        }
        if changed != list {
            let reg = f.vector(&changed);
            if let Op::Sass(inst) = &mut f.blocks[b].insts[i].op
                && let Some(slot) = p.slot
            {
                inst.operands[slot as usize].value = Value::Reg(reg);
            }
        }
        kept.push(changed);
    }
    copies
}

/// True if the instruction has a vector operand.
pub fn has_vectors(inst: &Sass) -> bool {
    let registers = inst.registers();
    let mut slots = (registers.reads | registers.writes) & !registers.single;
    while slots != 0 {
        let i = slots.trailing_zeros() as usize;
        slots &= slots - 1;
        if inst.operands[i].as_reg().is_some_and(Reg::is_virtual) && inst.slot_width(i) > 1 {
            return true;
        }
    }
    false
}

/// Where control flow meets: blocks in reverse postorder whose predecessors all come earlier have only forward edges.
pub fn has_back_edge(cfg: &Cfg, b: u32) -> bool {
    cfg.preds[b as usize].iter().any(|&p| cfg.rpo_index[p as usize] >= cfg.rpo_index[b as usize])
}
