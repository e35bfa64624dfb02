//! Which values are live at block boundaries, as sorted lists: the size of the answer is the sum of the live values, not
//! blocks times values.

mod flow;
mod parts;

pub use parts::parts;

use super::{Func, Vreg};
use crate::cfg::{Cfg, NONE};
use crate::groups::Groups;
use sass::reg::File;

/// Live values at the boundaries of each block, in ascending order.
///
/// A block's parameters are defined by the block: they are not in its `live_in`. Arguments of edges are read at the end
/// of the block they leave: an argument that is needed for nothing else is not in `live_out`.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    /// Live at the start.
    pub live_in: Lists,
    /// Live into some successor.
    pub live_out: Lists,
}

/// A list of values for each block, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// Where each begins, and where the last one ends.
    from: Vec<u32>,
    values: Vec<Vreg>,
}

impl Lists {
    /// The values of each of `n` blocks, in their order.
    fn new(n: usize, list: &[(u32, Vreg)]) -> Lists {
        let mut from = vec![0u32; n + 1];
        list.iter().for_each(|x| from[x.0 as usize + 1] += 1);
        (0..n).for_each(|b| from[b + 1] += from[b]);
        let mut at = from.clone();
        let mut values = vec![Vreg::NONE; list.len()];
        for &(b, v) in list {
            let at = &mut at[b as usize];
            values[*at as usize] = v;
            *at += 1;
        }
        Lists { from, values }
    }

    /// Those of the blocks in order.
    pub fn iter(&self) -> impl Iterator<Item = &[Vreg]> {
        self.from.windows(2).map(|w| &self.values[w[0] as usize..w[1] as usize])
    }

    /// Changes them.
    fn change(&mut self, how: impl FnOnce(&mut [Vec<Vreg>])) {
        let mut lists: Vec<Vec<Vreg>> = self.iter().map(<[Vreg]>::to_vec).collect();
        how(&mut lists);
        let mut end = 0;
        self.from = std::iter::once(0)
            .chain(lists.iter().map(|l| {
                end += l.len() as u32;
                end
            }))
            .collect();
        self.values = lists.concat();
    }
}

impl std::ops::Index<usize> for Lists {
    type Output = [Vreg];
    #[inline]
    fn index(&self, block: usize) -> &[Vreg] {
        &self.values[self.from[block] as usize..self.from[block + 1] as usize]
    }
}

impl Liveness {
    /// Of all values; needs SSA form. By sets of bits (`flow`) or, where these would be large, by walks up from each use to the definition.
    pub fn new(f: &Func, cfg: &Cfg) -> Liveness {
        Liveness::of(f, cfg, |_| true)
    }

    /// As [`Liveness::new`], of the values that are `asked` for alone.
    pub fn of(f: &Func, cfg: &Cfg, asked: impl Fn(Vreg) -> bool) -> Liveness {
        let n = f.blocks.len();
        let uniform = |v: Vreg| matches!(f.vregs[v.index()], File::Ugpr | File::Upred);
        const NONE: u32 = u32::MAX;
        let mut def_block = vec![NONE; f.vregs.len()];
        for &(v, _) in &f.live_in {
            def_block[v.index()] = 0;
        }
        // Blocks that use each value from outside: what a block makes itself it makes before it reads it.
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let mut seen = vec![NONE; f.vregs.len()];
        // Blocks in which a warp may be divided, and that write uniform registers.
        let mut writes = vec![false; n];
        for &b in &cfg.rpo {
            let block = &f.blocks[b as usize];
            block.params.iter().for_each(|p| def_block[p.index()] = b);
            let mut note = |v: Vreg, def_block: &[u32]| {
                if def_block[v.index()] != b && seen[v.index()] != b && asked(v) {
                    seen[v.index()] = b;
                    pairs.push((v.0, b));
                }
            };
            let mut written = false;
            for inst in &block.insts {
                f.uses(&inst.op, |v| note(v, &def_block));
                f.defs(&inst.op, |v| {
                    def_block[v.index()] = b;
                    written |= uniform(v);
                });
            }
            writes[b as usize] = written && block.divergent;
            f.term_uses(&block.term, |v| note(v, &def_block));
            for e in block.term.edges() {
                e.args.iter().for_each(|&v| note(v, &def_block));
            }
        }
        let mut live = flow::run(cfg, &def_block, &pairs).unwrap_or_else(|| walk(cfg, &def_block, &pairs));
        keep_uniform(f, cfg, &def_block, &writes, &mut live);
        live
    }
}

/// What is alive between blocks, where these values are read in these blocks and made in others; by value `made` says in which. Goes up from each read.
fn walk(cfg: &Cfg, made: &[u32], reads: &[(u32, u32)]) -> Liveness {
    let n = cfg.len();
    // What is alive where, in the order of the values, and the last value that was found so at each block.
    let (mut ins, mut outs) = (Vec::new(), Vec::new());
    let mut last = vec![[Vreg::NONE; 2]; n];
    let mut work = Vec::new();
    for (v, b) in Groups::new(made.len(), reads).pairs() {
        let v = Vreg(v);
        let home = made[v.index()];
        if std::mem::replace(&mut last[b as usize][0], v) == v {
            continue;
        }
        ins.push((b, v));
        work.push(b);
        while let Some(b) = work.pop() {
            for &p in &cfg.preds[b as usize] {
                let [last_in, last_out] = &mut last[p as usize];
                // Whose end has been seen, its start has, too.
                if std::mem::replace(last_out, v) == v {
                    continue;
                }
                outs.push((p, v));
                if p != home && std::mem::replace(last_in, v) != v {
                    ins.push((p, v));
                    work.push(p);
                }
            }
        }
    }
    Liveness { live_in: Lists::new(n, &ins), live_out: Lists::new(n, &outs) }
}

/// Where a branch divides a warp, its sides take turns: what one side writes to a uniform register, the other then finds there. So
/// in parts of the graph where threads may be apart and uniform registers are written, every uniform value from
/// outside that is read anywhere in the part lives everywhere in it, to the ends of its blocks. `writes`: blocks where threads may be apart, and that write
/// uniform registers.
fn keep_uniform(f: &Func, cfg: &Cfg, def_block: &[u32], writes: &[bool], live: &mut Liveness) {
    let uniform = |v: Vreg| matches!(f.vregs[v.index()], File::Ugpr | File::Upred);
    if !writes.contains(&true) {
        return;
    }
    let part = parts(f, cfg);
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); f.blocks.len()];
    let mut written = vec![false; f.blocks.len()];
    for &b in cfg.rpo.iter().filter(|&&b| part[b as usize] != NONE) {
        let r = part[b as usize] as usize;
        members[r].push(b);
        written[r] |= writes[b as usize];
    }
    let Liveness { live_in, live_out } = live;
    live_in.change(|ins| {
        live_out.change(|outs| {
            for r in (0..members.len()).filter(|&r| written[r]) {
                let list = std::mem::take(&mut members[r]);
                let mut sorted = list.clone();
                sorted.sort_unstable();
                let inside = |b: u32| b != u32::MAX && sorted.binary_search(&b).is_ok();
                let mut values: Vec<Vreg> = list
                    .iter()
                    .flat_map(|&b| &ins[b as usize])
                    .copied()
                    .filter(|&v| uniform(v) && !inside(def_block[v.index()]))
                    .collect();
                values.sort_unstable();
                values.dedup();
                if values.is_empty() {
                    continue;
                }
                let add = |to: &mut Vec<Vreg>| {
                    to.extend(&values);
                    to.sort_unstable();
                    to.dedup();
                };
                for &b in &list {
                    add(&mut ins[b as usize]);
                    add(&mut outs[b as usize]);
                    cfg.preds[b as usize].iter().for_each(|&p| add(&mut outs[p as usize]));
                }
            }
        })
    });
}
