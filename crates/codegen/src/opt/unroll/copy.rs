//! Copies of a loop's blocks, one iteration after another.

use super::Loop;
use crate::ir::{Block, BlockData, Builder, Func, Op, Value};
use rustc_hash::FxHashMap;

/// Makes the copies, and knows what became of the loop's values in the last one.
pub struct Copier {
    /// What stands in the last copy for each value of the loop that has another name there.
    map: FxHashMap<Value, Value>,
    /// The same for the first iteration; none before that is copied.
    first: Option<FxHashMap<Value, Value>>,
}

impl Copier {
    /// The loop itself is the first iteration.
    pub fn after() -> Copier {
        Copier { first: Some(FxHashMap::default()), map: FxHashMap::default() }
    }

    /// The first copy is the first iteration.
    pub fn beside() -> Copier {
        Copier { first: None, map: FxHashMap::default() }
    }

    /// What stands for a value in the last copy.
    pub fn value(&self, v: Value) -> Value {
        self.map.get(&v).copied().unwrap_or(v)
    }

    /// The same for several.
    pub fn all(&self, list: &[Value]) -> Vec<Value> {
        list.iter().map(|&v| self.value(v)).collect()
    }

    /// Copies the loop for its iteration number `k`, counted from the first: its blocks in the order of the loop's members. They
    /// end as the originals do, with edges to the copies; but the caller says how the one ends that branches back.
    pub fn copy(&mut self, f: &mut Func, l: &Loop, k: u64) -> Vec<Block> {
        let base = f.blocks.len() as u32;
        let blocks: Vec<Block> = (base..base + l.members.len() as u32).map(Block).collect();
        for (&m, &b) in l.members.iter().zip(&blocks) {
            let BlockData { ref params, loc, .. } = f.blocks[m as usize];
            let params = params.clone();
            f.blocks.push(BlockData { loc, ..BlockData::empty() });
            for p in params {
                self.map.insert(p, f.add_param(b, f.ty(p)));
            }
        }
        // A block comes after those that dominate it.
        for (&m, &b) in l.members.iter().zip(&blocks) {
            for n in 0..f.blocks[m as usize].insts.len() {
                let id = f.blocks[m as usize].insts[n];
                // Its branch goes elsewhere.
                if l.test == Some(id) {
                    continue;
                }
                match (&self.first, l.strides.get(&id)) {
                    (Some(first), Some(&stride)) => {
                        let result = f.inst(id).results[0];
                        let (ty, loc) = (f.ty(result), f.inst(id).loc);
                        let base = first.get(&stride.base).copied().unwrap_or(stride.base);
                        let mut to = Builder::new(f, b);
                        to.loc = loc;
                        let more = to.constant(ty, stride.by.wrapping_mul(k).wrapping_add(stride.offset));
                        let sum = to.op(Op::IAdd, &[base, more], ty);
                        self.map.insert(result, sum);
                    }
                    _ => f.copy_inst(id, b, &mut self.map),
                }
            }
            let mut term = f.blocks[m as usize].term.clone();
            term.map(|v| self.value(v));
            term.retarget(|t| l.members.iter().position(|&m| m == t.0).map_or(t, |n| blocks[n]));
            f.blocks[b.index()].term = term;
        }
        if self.first.is_none() {
            self.first = Some(self.map.clone());
        }
        blocks
    }
}
