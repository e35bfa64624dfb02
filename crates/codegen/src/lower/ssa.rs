//! SSA construction while lowering, after Braun et al. (CC 2013), without recursion.
//!
//! A read in a block that does not write the variable looks up the chain of single predecessors; at a block with several
//! (or not yet known) predecessors it makes a block parameter, whose arguments are filled in when the whole function is
//! lowered. Parameters that turn out to be one value are removed by [`crate::opt::params`]. Most reads make none: a variable
//! that nothing writes between a join and the block that dominates it is what it was there ([`Ssa::join`]). No walk is made where the block
//! that a variable was read or written in last while lowering lies above: what lies between was lowered behind it, and does not write it.

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
    /// By register (scalars, and the first element of vectors): most instructions ask for what one of the same block wrote.
    last: Vec<Last>,
    /// By block, where it gets variables that it does not define.
    above: Vec<Above>,
    /// All is lowered: `last` stays as it is.
    lowered: bool,
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
}

/// The block that a register was read or written in last, and the value there; and that which it was written in last.
#[derive(Clone, Copy)]
struct Last {
    at: u32,
    value: Value,
    written: u32,
    wrote: Value,
}

/// Where a block gets what it does not define.
#[derive(Clone, Copy)]
struct Above {
    /// Its only predecessor, for the join after a guarded instruction the block before it, for other joins the block that dominates them; the block
    /// itself where that is not known, and at the entry.
    parent: u32,
    /// Some block further above, by which any above is found in few steps.
    jump: u32,
    /// Blocks above.
    depth: u32,
    /// The PTX block whose `between` says what does not come from there.
    join: u32,
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
    /// The value of a variable at the end of a block, where that is noted.
    fn known(&self, block: Block, var: u32) -> Option<Value> {
        match self.last.get((var / ELEMENTS) as usize) {
            Some(l) if l.at == block.0 && var.is_multiple_of(ELEMENTS) => Some(l.value),
            _ => self.defs.get(&(block.0, var)).copied(),
        }
    }

    /// The value that a variable had last, or was given last, if that was in this block or one above; of two such blocks the nearer one says it (the
    /// old value of what a guarded instruction writes is read behind the new one).
    fn above(&self, block: Block, var: u32) -> Option<Value> {
        let last = self.last.get((var / ELEMENTS) as usize).filter(|_| var.is_multiple_of(ELEMENTS))?;
        let is = |at: u32| at != NOWHERE && self.is_above(at, block.0);
        let wrote = || is(last.written).then_some(last.wrote);
        match is(last.at) {
            true if last.written != last.at && self.is_above(last.at, last.written) => wrote().or(Some(last.value)),
            true => Some(last.value),
            false => wrote(),
        }
    }

    /// Notes the value of a variable at the end of a block, which it is `written` in.
    fn note(&mut self, block: Block, var: u32, value: Value, written: bool) {
        if !var.is_multiple_of(ELEMENTS) || self.lowered {
            self.defs.insert((block.0, var), value);
            return;
        }
        let register = (var / ELEMENTS) as usize;
        if self.last.len() <= register {
            let none = Last { at: NOWHERE, value, written: NOWHERE, wrote: value };
            self.last.resize((register + 1).next_power_of_two(), none);
        }
        let last = &mut self.last[register];
        let old = *last;
        (last.at, last.value) = (block.0, value);
        if written {
            (last.written, last.wrote) = (block.0, value);
        }
        if old.at != block.0 && old.at != NOWHERE {
            self.defs.insert((old.at, var), old.value);
        }
    }

    /// Says that `block` gets what it does not define from `from`.
    pub fn set_through(&mut self, block: Block, from: Block) {
        self.hang(block, from, NOWHERE);
    }

    fn hang(&mut self, block: Block, from: Block, join: u32) {
        let more = self.above.len() as u32..=block.0.max(from.0);
        self.above.extend(more.map(|b| Above { parent: b, jump: b, depth: 0, join: NOWHERE }));
        let up = self.above[from.index()];
        let far = self.above[up.jump as usize];
        let even = up.depth - far.depth == far.depth - self.above[far.jump as usize].depth;
        let jump = if even { far.jump } else { from.0 };
        self.above[block.index()] = Above { parent: from.0, jump, depth: up.depth + 1, join };
    }

    /// Is one block another, or above it?
    fn is_above(&self, upper: u32, block: u32) -> bool {
        let depth = self.above.get(upper as usize).map_or(0, |a| a.depth);
        let mut b = block;
        while let Some(at) = self.above.get(b as usize).filter(|a| a.depth > depth) {
            b = if self.above[at.jump as usize].depth >= depth { at.jump } else { at.parent };
        }
        b == upper
    }

    /// Where a block gets a variable that it does not define, if that is one place.
    fn through(&self, block: Block, var: u32) -> Option<Block> {
        let above = self.above.get(block.index()).filter(|a| a.parent != block.0)?;
        if above.join != NOWHERE {
            let (_, written) = self.between[above.join as usize].as_ref()?;
            if written.binary_search(&var).is_ok() {
                return None;
            }
        }
        Some(Block(above.parent))
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
        self.hang(block, from, join);
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
        self.ssa.note(self.cur, var, value, true);
        if let Some(list) = self.ssa.written.get_mut(self.ssa.at) {
            list.push(var);
        }
    }

    pub(super) fn read_var(&mut self, var: u32) -> Value {
        self.read_at(self.cur, var)
    }

    /// The value of `var` at the end of `block` as far as it is lowered.
    pub(super) fn read_at(&mut self, block: Block, var: u32) -> Value {
        if let Some(v) = self.ssa.above(block, var) {
            return v;
        }
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
                self.ssa.note(b, var, value, false);
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
        self.ssa.lowered = true;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Chains and trees of blocks, and what is above by walking up one block at a time.
    #[test]
    fn what_is_above_is_found_by_jumps() {
        let mut seed = 1u32;
        for wide in [1, 2, 5, 400] {
            let mut ssa = Ssa::default();
            let mut parents = vec![0u32];
            for b in 1..400u32 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Some blocks hang nowhere.
                let parent = if seed.is_multiple_of(97) { b } else { b - 1 - (seed >> 8) % b.min(wide) };
                if parent != b {
                    ssa.set_through(Block(b), Block(parent));
                }
                parents.push(parent);
            }
            for b in 0..400 {
                let mut up = vec![b];
                while let Some(&last) = up.last().filter(|&&l| parents[l as usize] != l) {
                    up.push(parents[last as usize]);
                }
                for a in 0..400 {
                    assert_eq!(ssa.is_above(a, b), up.contains(&a), "{wide}: {a} {b}");
                }
            }
        }
    }

    /// What is written last is known below without a note, and not beside.
    #[test]
    fn what_is_written_is_known_below() {
        let mut ssa = Ssa::default();
        (1..50).for_each(|b| ssa.set_through(Block(b), Block(b - 1)));
        ssa.set_through(Block(50), Block(3));
        let var = 5 * ELEMENTS;
        assert_eq!(ssa.above(Block(49), var), None);
        ssa.note(Block(10), var, Value(7), true);
        assert_eq!([49, 10, 9, 50].map(|b| ssa.above(Block(b), var)), [Some(Value(7)), Some(Value(7)), None, None]);
        // Reading it elsewhere changes nothing, writing does.
        ssa.note(Block(50), var, Value(9), false);
        assert_eq!([15, 50].map(|b| ssa.above(Block(b), var)), [7, 9].map(|v| Some(Value(v))));
        ssa.note(Block(30), var, Value(7), false);
        ssa.note(Block(40), var, Value(8), true);
        assert_eq!([49, 39].map(|b| ssa.above(Block(b), var)), [Some(Value(8)), None]);
        assert_eq!([10, 30, 40].map(|b| ssa.known(Block(b), var)), [7, 7, 8].map(|v| Some(Value(v))));
        // What stood there before a write is read behind it: the write counts below.
        ssa.note(Block(30), var, Value(7), false);
        assert_eq!([30, 39, 40, 49].map(|b| ssa.above(Block(b), var)), [7, 7, 8, 8].map(|v| Some(Value(v))));
    }
}
