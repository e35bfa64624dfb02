//! Which values are live at block boundaries, as sorted lists: the size of the answer is the sum of the live values, not
//! blocks times values.

use super::{Func, Vreg};
use crate::cfg::Cfg;

/// Live values at the boundaries of each block, in ascending order.
///
/// A block's parameters are defined by the block: they are not in its `live_in`. Arguments of edges are read at the end
/// of the block they leave: an argument that is needed for nothing else is not in `live_out`.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    /// Live at the start.
    pub live_in: Vec<Vec<Vreg>>,
    /// Live into some successor.
    pub live_out: Vec<Vec<Vreg>>,
}

impl Liveness {
    /// Walks up from each use to the definition; needs SSA form.
    pub fn new(f: &Func, cfg: &Cfg) -> Liveness {
        let n = f.blocks.len();
        const NONE: u32 = u32::MAX;
        let mut def_block = vec![NONE; f.vregs.len()];
        for &(v, _) in &f.live_in {
            def_block[v.index()] = 0;
        }
        for (b, block) in f.blocks.iter().enumerate() {
            block.params.iter().for_each(|p| def_block[p.index()] = b as u32);
            for inst in &block.insts {
                f.defs(&inst.op, |v| def_block[v.index()] = b as u32);
            }
        }
        // Blocks that use each value from outside, as one list sorted by value.
        let mut pairs: Vec<(Vreg, u32)> = Vec::new();
        let mut seen = vec![NONE; f.vregs.len()];
        for &b in &cfg.rpo {
            let block = &f.blocks[b as usize];
            let mut note = |v: Vreg| {
                if def_block[v.index()] != b && seen[v.index()] != b {
                    seen[v.index()] = b;
                    pairs.push((v, b));
                }
            };
            for inst in &block.insts {
                f.uses(&inst.op, &mut note);
            }
            f.term_uses(&block.term, &mut note);
            for e in block.term.edges() {
                e.args.iter().copied().for_each(&mut note);
            }
        }
        pairs.sort_unstable();
        let mut live = Liveness { live_in: vec![Vec::new(); n], live_out: vec![Vec::new(); n] };
        let mut work = Vec::new();
        for (v, b) in pairs {
            work.push(b);
            while let Some(b) = work.pop() {
                let list = &mut live.live_in[b as usize];
                if list.last() == Some(&v) || def_block[v.index()] == b {
                    continue;
                }
                list.push(v);
                for &p in &cfg.preds[b as usize] {
                    let out = &mut live.live_out[p as usize];
                    if out.last() != Some(&v) {
                        out.push(v);
                    }
                    work.push(p);
                }
            }
        }
        live
    }
}
