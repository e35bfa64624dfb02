//! What is alive between blocks, as sets of bits: of the values that are read in other blocks than those that make them, which are few.

use super::{Lists, Liveness};
use crate::cfg::Cfg;
use crate::mir::Vreg;

/// Words of a set over all blocks, at most: above, lists of what lives take less.
const MOST: usize = 1 << 17;

const NONE: u32 = u32::MAX;

/// A set of numbers for each block.
struct Sets {
    /// Words of a set.
    words: usize,
    bits: Vec<u64>,
}

impl Sets {
    fn new(blocks: usize, words: usize) -> Sets {
        Sets { words, bits: vec![0; blocks * words] }
    }

    fn add(&mut self, block: u32, n: u32) {
        self.bits[block as usize * self.words + n as usize / 64] |= 1 << (n % 64);
    }

    /// The values of these numbers, as lists.
    fn lists(&self, values: &[Vreg]) -> Lists {
        let total = self.bits.iter().map(|w| w.count_ones() as usize).sum();
        let mut out =
            Lists { from: Vec::with_capacity(self.bits.len() / self.words + 1), values: Vec::with_capacity(total) };
        out.from.push(0);
        for set in self.bits.chunks_exact(self.words) {
            for (word, values) in set.iter().zip(values.chunks(64)) {
                let mut word = *word;
                while word != 0 {
                    out.values.push(values[word.trailing_zeros() as usize]);
                    word &= word - 1;
                }
            }
            out.from.push(out.values.len() as u32);
        }
        out
    }
}

/// What is alive between blocks, where these values are read in these blocks and made in others; by value `made` says in which, or [`NONE`].
/// `None` where the sets would be too large.
pub(super) fn run(cfg: &Cfg, made: &[u32], reads: &[(u32, u32)]) -> Option<Liveness> {
    // The values in their order, and their numbers.
    let mut number = vec![NONE; made.len()];
    reads.iter().for_each(|r| number[r.0 as usize] = 0);
    let mut values: Vec<Vreg> = Vec::new();
    for (v, n) in (0..).zip(&mut number) {
        if *n == 0 {
            *n = values.len() as u32;
            values.push(Vreg(v));
        }
    }
    let (blocks, words) = (cfg.len(), values.len().div_ceil(64));
    if words == 0 {
        let none = || Lists { from: vec![0; blocks + 1], values: Vec::new() };
        return Some(Liveness { live_in: none(), live_out: none() });
    }
    if blocks * words > MOST {
        return None;
    }
    let [mut ins, mut outs, mut kills] = [(); 3].map(|()| Sets::new(blocks, words));
    reads.iter().for_each(|&(v, b)| ins.add(b, number[v as usize]));
    for (n, v) in (0..).zip(&values) {
        let home = made[v.index()];
        if home != NONE {
            kills.add(home, n);
        }
    }
    let mut stale = vec![true; blocks];
    let mut again = true;
    while std::mem::take(&mut again) {
        for &b in cfg.rpo.iter().rev() {
            if !std::mem::take(&mut stale[b as usize]) {
                continue;
            }
            let at = b as usize * words;
            let mut changed = false;
            for k in 0..words {
                let out = cfg.succs[b as usize].iter().fold(0, |w, &s| w | ins.bits[s as usize * words + k]);
                outs.bits[at + k] = out;
                let new = ins.bits[at + k] | out & !kills.bits[at + k];
                changed |= new != ins.bits[at + k];
                ins.bits[at + k] = new;
            }
            if changed {
                for &p in &cfg.preds[b as usize] {
                    stale[p as usize] = true;
                    // Whose turn has been has another one.
                    again |= cfg.rpo_index[p as usize] >= cfg.rpo_index[b as usize];
                }
            }
        }
    }
    Some(Liveness { live_in: ins.lists(&values), live_out: outs.lists(&values) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::Blocks;

    /// Both ways to find what is alive say the same of graphs with loops, branches and blocks that nothing reaches.
    #[test]
    fn sets_and_walks_agree() {
        let mut seed = 1u32;
        let mut below = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % n
        };
        for round in 0..300 {
            let (blocks, values) = (1 + below(14), below(if round % 3 == 0 { 150 } else { 20 }));
            let succs = (0..blocks).map(|_| (0..below(3)).map(|_| below(blocks)).collect::<Blocks>()).collect();
            let cfg = Cfg::new(succs);
            let made: Vec<u32> = (0..values).map(|_| if below(9) == 0 { NONE } else { below(blocks) }).collect();
            let mut reads = Vec::new();
            for &b in &cfg.rpo {
                let here = (0..values).filter(|&v| made[v as usize] != b && below(5) == 0);
                reads.extend(here.map(|v| (v, b)).collect::<Vec<_>>());
            }
            let (sets, walks) = (run(&cfg, &made, &reads).unwrap(), super::super::walk(&cfg, &made, &reads));
            let same = |a: &Lists, b: &Lists| a.iter().eq(b.iter());
            assert!(same(&sets.live_in, &walks.live_in) && same(&sets.live_out, &walks.live_out), "round {round}");
            assert_eq!(sets.live_in.iter().count(), blocks as usize);
        }
    }
}
