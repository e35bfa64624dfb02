//! Which mates become words: what hangs together saves instructions or costs some.

use super::{Halves, Made, NONE, on_half, ways};
use crate::cfg::Cfg;
use crate::ir::{Fmt, Func, Op, Value};

/// By pair: the group of those that become words or stay together, and whether it becomes words.
pub(super) struct Live {
    groups: Vec<u32>,
    /// By group.
    live: Vec<bool>,
}

impl Live {
    /// True if a pair becomes a word.
    pub(super) fn becomes(&self, pair: u32) -> bool {
        self.groups.get(pair as usize).is_some_and(|&g| self.live[g as usize])
    }

    /// A pair stays, with all of its group.
    pub(super) fn drop(&mut self, pair: u32) {
        self.live[self.groups[pair as usize] as usize] = false;
    }

    /// True if nothing becomes a word.
    pub(super) fn none(&self) -> bool {
        !self.live.contains(&true)
    }
}

/// The number of a group, by that of one of its pairs.
fn find(groups: &mut [u32], mut n: u32) -> u32 {
    while groups[n as usize] != n {
        groups[n as usize] = groups[groups[n as usize] as usize];
        n = groups[n as usize];
    }
    n
}

/// Weighs all groups.
pub(super) fn run(f: &Func, cfg: &Cfg, halves: &Halves) -> Live {
    let mut groups: Vec<u32> = (0..halves.pairs.len() as u32).collect();
    let mut join = |n: u32, lo: Value, hi: Value| {
        if let Some(m) = halves.both(lo, hi).filter(|&m| !matches!(halves.pairs[m as usize].made, Made::Word(_))) {
            let (a, b) = (find(&mut groups, n), find(&mut groups, m));
            groups[a as usize] = b;
        }
    };
    for (n, pair) in (0..).zip(&halves.pairs) {
        match pair.made {
            Made::Operations(x, y) => {
                f.inst(x).args.iter().zip(&f.inst(y).args).for_each(|(&a, &b)| join(n, a, b));
            }
            made => ways(f, cfg, made).into_iter().for_each(|(_, a, b)| join(n, a, b)),
        }
    }
    for n in 0..groups.len() as u32 {
        groups[n as usize] = find(&mut groups, n);
    }
    let gain = gains(f, cfg, halves, &groups);
    let live = gain.into_iter().map(|g| g > 0).collect();
    Live { groups, live }
}

/// By group: instructions that are saved, less those that are added.
fn gains(f: &Func, cfg: &Cfg, halves: &Halves, groups: &[u32]) -> Vec<i64> {
    let loops = cfg.loops(&cfg.dominators());
    let weight = |b: u32| 1i64 << (3 * loops.depth[b as usize].min(4));
    let mut gain = vec![0i64; halves.pairs.len()];
    for (pair, &g) in halves.pairs.iter().zip(groups) {
        match pair.made {
            Made::Word(_) => {}
            Made::Operations(x, y) => {
                let home = halves.home[pair.lo.index()];
                let (inst, weight) = (f.inst(x), weight(home));
                // A change of sign is mostly part of what reads it.
                if !matches!(inst.op, Op::FNeg | Op::FAbs) {
                    gain[g as usize] += weight;
                }
                let converted =
                    inst.args.iter().zip(&f.inst(y).args).filter(|&(&a, &b)| halves.converted(f, a, b, home));
                gain[g as usize] += weight * converted.count() as i64;
            }
            made => {
                for (b, x, y) in ways(f, cfg, made) {
                    let constants = f.constant(x).is_some() && f.constant(y).is_some();
                    if !constants && halves.both(x, y).is_none() {
                        gain[g as usize] -= weight(b);
                    }
                }
            }
        }
    }
    // The group of a value that would be an upper half which is not there yet.
    let upper = |v: Value| {
        let n = halves.mates[v.index()];
        let p = halves.pairs.get(n as usize)?;
        (p.hi == v && !matches!(p.made, Made::Word(_))).then(|| groups[n as usize] as usize)
    };
    // By value: the block for which it was last taken out of its word.
    let mut taken = vec![NONE; f.values.len()];
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        let mut take = |v: Value, gain: &mut Vec<i64>| {
            if let Some(g) = upper(v)
                && std::mem::replace(&mut taken[v.index()], b) != b
            {
                gain[g] -= weight(b);
            }
        };
        for &id in &block.insts {
            let inst = f.inst(id);
            match inst.op {
                // These read a half where it is.
                _ if on_half(inst) => {}
                Op::FCmp if matches!(inst.attr.fmt, Fmt::F16 | Fmt::BF16) => {}
                Op::F2F if inst.attr.fmt2 == Fmt::F16 && inst.attr.fmt == Fmt::F32 => {}
                Op::Pack => {
                    if let Some(g) = upper(inst.args[1]).filter(|_| halves.both(inst.args[0], inst.args[1]).is_some()) {
                        gain[g] += weight(b);
                    }
                }
                _ => inst.args.iter().for_each(|&a| take(a, &mut gain)),
            }
        }
        block.term.visit_own(|v| take(v, &mut gain));
        for e in block.term.edges() {
            let params = &f.blocks[e.block.index()].params;
            for (&a, &p) in e.args.iter().zip(params) {
                // What parameters that are mates need is counted there.
                let carried = halves.pair(p).is_some_and(|p| matches!(p.made, Made::Params(..)));
                if !carried {
                    take(a, &mut gain);
                }
            }
        }
    }
    gain
}
