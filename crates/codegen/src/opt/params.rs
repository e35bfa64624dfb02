//! Removes block parameters that always carry one value (what SSA construction leaves, Braun et al. 2013), and those
//! that nobody reads.

use super::{identity, resolve, substitute};
use crate::ir::{Def, Func, Op, Value};
use smallvec::SmallVec;

/// Runs the pass.
pub fn run(f: &mut Func) {
    if f.blocks.iter().skip(1).all(|b| b.params.is_empty()) {
        return;
    }
    let cfg = f.cfg();
    let mut replaced = identity(f);
    type Args = SmallVec<[Value; 4]>;
    let mut args: Vec<Vec<Args>> = f.blocks.iter().map(|b| vec![Args::new(); b.params.len()]).collect();
    let mut users: Vec<SmallVec<[(u32, u32); 2]>> = f.values.iter().map(|_| SmallVec::new()).collect();
    for &b in &cfg.rpo {
        for e in f.blocks[b as usize].term.edges() {
            for (n, &a) in e.args.iter().enumerate() {
                args[e.block.index()][n].push(a);
                users[a.index()].push((e.block.0, n as u32));
            }
        }
    }
    let mut work: Vec<(u32, u32)> = Vec::new();
    for &b in &cfg.rpo {
        for n in 0..f.blocks[b as usize].params.len() {
            work.push((b, n as u32));
        }
    }
    work.reverse();
    let mut replaces = false;
    while let Some((b, n)) = work.pop() {
        let p = f.blocks[b as usize].params[n as usize];
        if b == 0 || resolve(&mut replaced, p) != p {
            continue;
        }
        // One value other than the parameter itself; a value never written gives way to any other.
        let mut only: Option<Value> = None;
        let mut undef: Option<Value> = None;
        let mut many = false;
        for &a in &args[b as usize][n as usize] {
            let a = resolve(&mut replaced, a);
            if a == p {
                continue;
            }
            if f.def_inst(a).is_some_and(|d| d.op == Op::Undef) {
                undef = Some(a);
            } else if only.is_some_and(|o| o != a) {
                many = true;
                break;
            } else {
                only = Some(a);
            }
        }
        // A value that stands in for "never written" must be known wherever the parameter is: constants are not
        // enough of a guarantee, so only a parameter with no undefined argument, or nothing but them, goes.
        let target = match (only, undef, many) {
            (_, _, true) | (Some(_), Some(_), _) | (None, None, _) => continue,
            (Some(v), None, _) | (None, Some(v), _) => v,
        };
        replaced[p.index()] = target;
        replaces = true;
        let again = std::mem::take(&mut users[p.index()]);
        work.extend_from_slice(&again);
        users[target.index()].extend(again);
    }
    // Parameters still read by something, through edges of parameters that are read.
    if replaces {
        substitute(f, &mut replaced);
    }
    // Other values are not asked about.
    let mut live = vec![true; f.values.len()];
    f.blocks.iter().skip(1).flat_map(|b| &b.params).for_each(|p| live[p.index()] = false);
    let mut stack: Vec<Value> = Vec::new();
    let mark = |v: Value, live: &mut Vec<bool>, stack: &mut Vec<Value>| {
        if !std::mem::replace(&mut live[v.index()], true) {
            stack.push(v);
        }
    };
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        for &i in &block.insts {
            for &a in &f.inst(i).args {
                mark(a, &mut live, &mut stack);
            }
        }
        block.term.visit_own(|v| mark(v, &mut live, &mut stack));
    }
    while let Some(v) = stack.pop() {
        if let Def::Param(b, n) = f.def(v) {
            for &a in &args[b.index()][n as usize] {
                let a = resolve(&mut replaced, a);
                mark(a, &mut live, &mut stack);
            }
        }
    }
    let keep: Vec<Vec<bool>> = f
        .blocks
        .iter()
        .enumerate()
        .map(|(b, block)| {
            block.params.iter().map(|&p| b == 0 || (live[p.index()] && replaced[p.index()] == p)).collect()
        })
        .collect();
    remove(f, &keep);
}

/// Drops the parameters that `keep` does not keep, with their arguments.
pub(crate) fn remove(f: &mut Func, keep: &[Vec<bool>]) {
    for b in 0..f.blocks.len() {
        if keep[b].iter().any(|k| !k) {
            let mut n = 0;
            f.blocks[b].params.retain(|_| {
                n += 1;
                keep[b][n - 1]
            });
            for (n, p) in f.blocks[b].params.clone().into_iter().enumerate() {
                f.values[p.index()].def = Def::Param(crate::ir::Block(b as u32), n as u32);
            }
        }
        for e in f.blocks[b].term.edges_mut() {
            let kept = &keep[e.block.index()];
            let mut n = 0;
            e.args.retain(|_| {
                n += 1;
                kept.get(n - 1).copied().unwrap_or(false)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    #[test]
    fn a_parameter_with_one_value_goes() {
        let mut f = text::parse(
            "func k returns() {\nblk0():\n v0:b32 = const {imm=1}\n v1:p = const {imm=0}\n br blk1(v0, v0)\nblk1(v2:b32, v3:b32):\n v4:b32 = iadd v2, v2\n brif v1, blk1(v2, v4), blk2()\nblk2():\n ret\n}",
        )
        .unwrap()
        .remove(0);
        run(&mut f);
        verify::verify(&f).unwrap();
        assert!(f.blocks[1].params.is_empty(), "{}", text::print(&f));
        assert!(text::print(&f).contains("iadd v0, v0"));
    }
}
