//! SSA construction while lowering, after Braun et al. (CC 2013), without recursion.
//!
//! A read in a block that does not write the variable looks up the chain of single predecessors; at a block with several
//! (or not yet known) predecessors it makes a block parameter, whose arguments are filled in when the whole function is
//! lowered. Parameters that turn out to be one value are removed by [`crate::opt::params`].

use super::Lower;
use crate::ir::{Block, Mem, Op, Ty, Value};
use rustc_hash::FxHashMap;

/// State of the construction.
#[derive(Default)]
pub struct Ssa {
    /// Value of a variable at the end of a block, where known.
    defs: FxHashMap<(u32, u32), Value>,
    /// Where a block gets variables that it does not define: its only predecessor, or for the join after a guarded
    /// instruction the block before it. Indexed by block; `None` for joins and the entry.
    through: Vec<Option<Block>>,
    /// Parameters whose arguments are missing: block, variable, parameter.
    open: Vec<(Block, u32, Value)>,
    undef: FxHashMap<Ty, Value>,
    /// Last IR block of each PTX block, by its first IR block.
    ends: FxHashMap<u32, Block>,
}

impl Ssa {
    /// Says that `block` gets what it does not define from `from`.
    pub fn set_through(&mut self, block: Block, from: Block) {
        if self.through.len() <= block.index() {
            self.through.resize(block.index() + 1, None);
        }
        self.through[block.index()] = Some(from);
    }

    fn through(&self, block: Block) -> Option<Block> {
        self.through.get(block.index()).copied().flatten()
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
        self.ssa.defs.insert((self.cur.0, var), value);
    }

    pub(super) fn read_var(&mut self, var: u32) -> Value {
        self.read_at(self.cur, var)
    }

    /// The value of `var` at the end of `block` as far as it is lowered.
    pub(super) fn read_at(&mut self, block: Block, var: u32) -> Value {
        let mut path = Vec::new();
        let mut b = block;
        let value = loop {
            if let Some(&v) = self.ssa.defs.get(&(b.0, var)) {
                break v;
            }
            path.push(b);
            if let Some(p) = self.ssa.through(b) {
                b = p;
            } else if b == self.undef_block {
                break self.undef(self.var_ty[var as usize]);
            } else {
                let v = self.f.add_param(b, self.var_ty[var as usize]);
                self.ssa.open.push((b, var, v));
                break v;
            }
        };
        for b in path {
            self.ssa.defs.insert((b.0, var), value);
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
