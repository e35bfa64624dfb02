//! SSA construction while lowering, after Braun et al. (CC 2013), without recursion.
//!
//! A read in a block that does not write the variable looks up the chain of single predecessors; at a block with several
//! (or not yet known) predecessors it makes a block parameter, whose arguments are filled in when the whole function is
//! lowered. Parameters that turn out to be one value are removed by [`crate::opt::params`]. Most reads make none: a variable
//! that nothing writes between a join and the block that dominates it is what it was there ([`Ssa::join`]).

use super::Lower;
use crate::cfg::Cfg;
use crate::ir::{Block, Mem, Op, Ty, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// State of the construction.
#[derive(Default)]
pub struct Ssa {
    /// Value of a variable at the end of a block, where known and not in `last`.
    defs: FxHashMap<(u32, u32), Value>,
    /// By register (scalars, and the first element of vectors), the block that it was read or written in last, and the value
    /// there: most instructions ask for what one of the same block wrote.
    last: Vec<(u32, Value)>,
    /// Where a block gets variables that it does not define: its only predecessor, or for the join after a guarded
    /// instruction the block before it. Indexed by block; `None` for joins and the entry.
    through: Vec<Option<Block>>,
    /// Parameters whose arguments are missing: block, variable, parameter.
    open: Vec<(Block, u32, Value)>,
    undef: FxHashMap<Ty, Value>,
    /// Last IR block of each PTX block, by its first IR block.
    ends: FxHashMap<u32, Block>,
    /// The PTX block at hand, and the variables that each writes.
    at: usize,
    written: Vec<Vec<u32>>,
    /// By PTX block, where that is known of a join: its immediate dominator, and the variables written between them, sorted.
    between: Vec<Option<(u32, Vec<u32>)>>,
    /// The joins of `between` by their first IR block, with the last IR block of the dominator.
    joins: FxHashMap<u32, (u32, Block)>,
}

/// Elements of a register, which are variables of their own with numbers beside each other.
const ELEMENTS: u32 = 4;

/// What was found by a walk over blocks is noted at one in so many of them, so that no walk is long and few notes are made.
const APART: usize = 4;

/// No block.
const NOWHERE: u32 = u32::MAX;

/// PTX blocks that are looked at, at most, to know what is written in front of a join.
const REGION: usize = 64;

impl Ssa {
    /// The value of a variable at the end of a block, where known.
    fn known(&self, block: Block, var: u32) -> Option<Value> {
        match self.last.get((var / ELEMENTS) as usize) {
            Some(&(at, value)) if at == block.0 && var.is_multiple_of(ELEMENTS) => Some(value),
            _ => self.defs.get(&(block.0, var)).copied(),
        }
    }

    /// Notes the value of a variable at the end of a block.
    fn note(&mut self, block: Block, var: u32, value: Value) {
        if !var.is_multiple_of(ELEMENTS) {
            self.defs.insert((block.0, var), value);
            return;
        }
        let register = (var / ELEMENTS) as usize;
        if self.last.len() <= register {
            self.last.resize((register + 1).next_power_of_two(), (NOWHERE, value));
        }
        let (at, old) = std::mem::replace(&mut self.last[register], (block.0, value));
        if at != block.0 && at != NOWHERE {
            self.defs.insert((at, var), old);
        }
    }

    /// Says that `block` gets what it does not define from `from`.
    pub fn set_through(&mut self, block: Block, from: Block) {
        if self.through.len() <= block.index() {
            self.through.resize(block.index() + 1, None);
        }
        self.through[block.index()] = Some(from);
    }

    /// Where a block gets a variable that it does not define, if that is one place.
    fn through(&self, block: Block, var: u32) -> Option<Block> {
        if let Some(&(join, from)) = self.joins.get(&block.0) {
            let (_, written) = self.between[join as usize].as_ref()?;
            return written.binary_search(&var).is_err().then_some(from);
        }
        self.through.get(block.index()).copied().flatten()
    }

    /// Says that PTX block `at` is lowered next, of `blocks`.
    pub fn begin(&mut self, at: u32, blocks: usize) {
        self.at = at as usize;
        self.written.resize(blocks, Vec::new());
        self.between.resize(blocks, None);
    }

    /// Finds out what is written between a PTX block with several predecessors and `dominator`, if all of it is lowered and
    /// it is not much. `block` is the first IR block of the join, `from` the last one of its dominator.
    pub fn join(&mut self, cfg: &Cfg, join: u32, dominator: u32, block: Block, from: Block) {
        let before = |b: u32| cfg.rpo_index[b as usize] < cfg.rpo_index[join as usize];
        let mut region: SmallVec<[u32; REGION]> = SmallVec::new();
        let mut written = Vec::new();
        let add = |b: u32, region: &mut SmallVec<[u32; REGION]>| {
            let known = b == dominator || region.contains(&b);
            if !known {
                region.push(b);
            }
            before(b) && region.len() <= REGION
        };
        if !cfg.preds[join as usize].iter().all(|&p| add(p, &mut region)) {
            return;
        }
        let mut next = 0;
        while let Some(&b) = region.get(next) {
            next += 1;
            written.extend_from_slice(&self.written[b as usize]);
            let go_on = match &self.between[b as usize] {
                Some((up, list)) => {
                    written.extend_from_slice(list);
                    add(*up, &mut region)
                }
                None => cfg.preds[b as usize].iter().all(|&p| add(p, &mut region)),
            };
            if !go_on {
                return;
            }
        }
        written.sort_unstable();
        written.dedup();
        self.between[join as usize] = Some((dominator, written));
        self.joins.insert(block.0, (join, from));
    }
}

impl Lower<'_, '_> {
    /// Notes that the PTX block which began with `first` ends in the current block.
    pub(super) fn set_block_end(&mut self, first: Block) {
        self.ssa.ends.insert(first.0, self.cur);
    }

    /// The block in which the PTX block that began with `first` ends.
    pub(super) fn block_end(&self, first: Block) -> Block {
        self.ssa.ends.get(&first.0).copied().unwrap_or(first)
    }

    pub(super) fn write_var(&mut self, var: u32, value: Value) {
        debug_assert_eq!(self.f.ty(value), self.var_ty[var as usize]);
        self.ssa.note(self.cur, var, value);
        if let Some(list) = self.ssa.written.get_mut(self.ssa.at) {
            list.push(var);
        }
    }

    pub(super) fn read_var(&mut self, var: u32) -> Value {
        self.read_at(self.cur, var)
    }

    /// The value of `var` at the end of `block` as far as it is lowered.
    pub(super) fn read_at(&mut self, block: Block, var: u32) -> Value {
        let mut path: SmallVec<[Block; 8]> = SmallVec::new();
        let mut b = block;
        // Where a walk ends by making the value, that must be known.
        let mut made = true;
        let value = loop {
            if let Some(v) = self.ssa.known(b, var) {
                made = false;
                break v;
            }
            path.push(b);
            if let Some(p) = self.ssa.through(b, var) {
                b = p;
            } else if b == self.undef_block {
                break self.undef(self.var_ty[var as usize]);
            } else {
                let v = self.f.add_param(b, self.var_ty[var as usize]);
                self.ssa.open.push((b, var, v));
                break v;
            }
        };
        // The block at hand last: it is asked about again.
        for (n, &b) in path.iter().enumerate().rev() {
            if n.is_multiple_of(APART) || made && n + 1 == path.len() {
                self.ssa.note(b, var, value);
            }
        }
        value
    }

    fn undef(&mut self, ty: Ty) -> Value {
        if let Some(&v) = self.ssa.undef.get(&ty) {
            return v;
        }
        let inst = crate::ir::Inst {
            op: Op::Undef,
            attr: Default::default(),
            mem: Mem::default(),
            imm: 0,
            args: Default::default(),
            results: Default::default(),
            loc: u32::MAX,
        };
        let id = self.f.new_inst(inst, &[ty]);
        let entry = self.undef_block.index();
        self.f.blocks[entry].insts.insert(0, id);
        let v = self.f.inst(id).results[0];
        self.ssa.undef.insert(ty, v);
        v
    }

    /// Fills in the arguments of every parameter made by reads.
    pub(super) fn finish_ssa(&mut self) {
        let cfg = self.f.cfg();
        while let Some((block, var, param)) = self.ssa.open.pop() {
            // A predecessor with two edges to this block is listed twice; both of its edges are filled below.
            let mut preds = cfg.preds[block.index()].clone();
            preds.sort_unstable();
            preds.dedup();
            let mut values = Vec::with_capacity(preds.len());
            for p in preds {
                values.push((p, self.read_at(Block(p), var)));
            }
            // Parameters were made in another order than this one: the position says where the argument goes.
            let position = match self.f.def(param) {
                crate::ir::Def::Param(_, n) => n as usize,
                crate::ir::Def::Inst(..) => unreachable!("an open variable is a parameter"),
            };
            for (p, value) in values {
                for e in self.f.blocks[p as usize].term.edges_mut() {
                    if e.block == block {
                        if e.args.len() <= position {
                            e.args.resize(position + 1, Value(u32::MAX));
                        }
                        e.args[position] = value;
                    }
                }
            }
        }
        // Blocks that cannot be reached have no arguments to give; they are not kept.
        for b in 0..self.f.blocks.len() {
            if !cfg.reachable(b as u32) {
                self.f.blocks[b].insts.clear();
                self.f.blocks[b].params.clear();
                self.f.blocks[b].term = crate::ir::Term::Unreachable;
            }
        }
    }
}
