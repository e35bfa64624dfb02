//! Which values shall be uniform even where a reader gets a copy for it: what moves to uniform registers, where the warp is whole, are
//! computed of, and what takes registers where there are fewest left.

use crate::cfg::Cfg;
use crate::groups::Groups;
use crate::mir::liveness::Liveness;
use crate::mir::{Func, Op, Vreg};
use crate::sched::prepass::DEEPER;
use sass::forms as F;
use sass::reg::File;

/// Blocks through which less than the most values live by no more than this part of them count as crowded.
const CROWD: usize = 8;

/// Where there are no loops and fewer values than this live through any block, registers are worth no copies.
const MANY: usize = 5;

/// Moves in loops that are followed to all that they are computed of.
const FOLLOWED: usize = 256;

/// How often a block so deep in loops is taken to run.
pub(super) fn runs(depth: u32) -> u32 {
    1 << (DEEPER * depth.min(4))
}

/// Those values, as far as they may be uniform: `kept`. And of each, moves to uniform registers in loops that are computed of it, as often as these are taken to run.
pub(super) fn wanted(f: &Func, cfg: &Cfg, kept: &[bool]) -> (Vec<bool>, Vec<u32>) {
    let mut out = vec![false; f.vregs.len()];
    let mut moves = vec![0u32; f.vregs.len()];
    let mut work: Vec<Vreg> = Vec::new();
    let mut inside: Vec<(Vreg, u32)> = Vec::new();
    for &b in cfg.rpo.iter().filter(|&&b| !f.blocks[b as usize].divergent) {
        let block = &f.blocks[b as usize];
        for inst in &block.insts {
            if matches!(&inst.op, Op::Sass(s) if s.form == F::R2UR) {
                f.uses(&inst.op, |v| {
                    work.push(v);
                    if block.depth > 0 && inside.len() < FOLLOWED {
                        inside.push((v, runs(block.depth)));
                    }
                });
            }
        }
    }
    spared(f, cfg, kept, &mut work);
    if work.is_empty() {
        return (out, moves);
    }
    // What each value is computed of.
    let mut sources: Vec<(u32, u32)> = Vec::new();
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        for inst in &block.insts {
            f.defs(&inst.op, |v| {
                if kept[v.index()] {
                    f.uses(&inst.op, |r| sources.push((v.0, r.0)));
                }
            });
        }
        for e in block.term.edges() {
            let params = &f.blocks[e.block.0 as usize].params;
            sources.extend(params.iter().zip(&e.args).filter(|x| kept[x.0.index()]).map(|(p, a)| (p.0, a.0)));
        }
    }
    let sources = Groups::new(f.vregs.len(), &sources);
    while let Some(v) = work.pop() {
        if kept[v.index()] && !std::mem::replace(&mut out[v.index()], true) {
            work.extend(sources.of(v.0).iter().map(|&s| Vreg(s)));
        }
    }
    let mut seen = vec![u32::MAX; f.vregs.len()];
    for (n, (v, times)) in (0..).zip(inside) {
        work.push(v);
        while let Some(v) = work.pop() {
            if kept[v.index()] && std::mem::replace(&mut seen[v.index()], n) != n {
                moves[v.index()] = moves[v.index()].saturating_add(times);
                work.extend(sources.of(v.0).iter().map(|&s| Vreg(s)));
            }
        }
    }
    (out, moves)
}

/// Adds the values that may be uniform and live into the blocks through which most values live.
fn spared(f: &Func, cfg: &Cfg, kept: &[bool], work: &mut Vec<Vreg>) {
    let live = Liveness::of(f, cfg, |v| f.vregs[v.index()] == File::Gpr);
    let general = |v: &&Vreg| f.vregs[v.index()] == File::Gpr;
    let into = |b: u32| live.live_in[b as usize].iter().chain(&f.blocks[b as usize].params).filter(general);
    let counts: Vec<usize> = cfg
        .rpo
        .iter()
        .map(|&b| into(b).count().max(live.live_out[b as usize].iter().filter(general).count()))
        .collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    if most < MANY && cfg.rpo.iter().all(|&b| f.blocks[b as usize].depth == 0) {
        return;
    }
    for (&b, _) in cfg.rpo.iter().zip(&counts).filter(|x| *x.1 >= most - most / CROWD) {
        work.extend(into(b).copied().filter(|v| kept[v.index()]));
    }
}
