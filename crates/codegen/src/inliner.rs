//! Which calls of device functions are replaced by the functions themselves.
//!
//! A function that calls nothing and needs no stack takes the place of its calls if it is small, or if it is called once, not
//! through pointers, and not in a loop where it is long. Functions that lose their calls this way may follow. The vendor's compiler leaves all this to the front end.

use crate::inline::inline;
use crate::ir::{Block, CallSite, Func, MemSpace, Op};
use rustc_hash::FxHashMap;

/// Operations of a function that is worth no call wherever it is called: about what passing arguments, calling and returning cost,
/// and what the code around it gains when both are optimized together.
const SMALL: usize = 40;
/// Operations of one that is called once, in a loop: registers of what lives across the loop and those of the function get into each other's way.
const ONCE: usize = 400;
/// Operations that a function may grow to by this.
const MOST: usize = 20_000;
/// Rounds: how deep chains of calls melt together.
const ROUNDS: usize = 8;

/// Inlines within the functions of one kernel, the first of them, and leaves out those that nobody calls any more. `table`
/// lists functions that are called through pointers. Gives what is left by its old numbers.
pub fn run(funcs: &mut Vec<Func>, table: &mut [u32]) -> Vec<usize> {
    for _ in 0..ROUNDS {
        let mut calls = vec![0u32; funcs.len()];
        let mut looped = vec![false; funcs.len()];
        for f in funcs.iter() {
            let list = sites(f);
            let depth = if list.is_empty() { Vec::new() } else { depths(f) };
            for (block, _, callee) in list {
                calls[callee] += 1;
                looped[callee] |= depth[block as usize] > 0;
            }
        }
        let wanted: Vec<bool> = (0..funcs.len())
            .map(|n| {
                let limit = match calls[n] == 1 && !table.contains(&(n as u32)) {
                    true if looped[n] => ONCE,
                    true => MOST,
                    false => SMALL,
                };
                n > 0 && calls[n] > 0 && simple(&funcs[n]) && size(&funcs[n]) <= limit
            })
            .collect();
        let mut changed = false;
        for n in 0..funcs.len() {
            if wanted[n] {
                continue;
            }
            // From the end of each block on: what stands before keeps its place.
            let mut f = std::mem::take(&mut funcs[n]);
            let mut list = sites(&f);
            list.reverse();
            let mut grown = size(&f);
            for (block, at, callee) in list {
                if wanted[callee] && grown + size(&funcs[callee]) <= MOST {
                    grown += size(&funcs[callee]);
                    inline(&mut f, Block(block), at, &funcs[callee], true);
                    changed = true;
                }
            }
            funcs[n] = f;
        }
        if !changed {
            break;
        }
    }
    drop_unused(funcs, table)
}

/// Copies functions into a function of a relocatable module that calls them by name; `own` gives those that only the module knows,
/// by what calls say. They must be as simple as those of one kernel, and small or called but once here.
pub fn copies(f: &mut Func, own: &dyn Fn(u32) -> Option<Func>) {
    copies_in(f, own, ROUNDS);
}

fn copies_in(f: &mut Func, own: &dyn Fn(u32) -> Option<Func>, depth: usize) {
    let mut list = sites(f);
    let mut callees: FxHashMap<usize, Option<Func>> = FxHashMap::default();
    for &(_, _, callee) in &list {
        let calls = list.iter().filter(|s| s.2 == callee).count();
        callees.entry(callee).or_insert_with(|| {
            let mut g = own(callee as u32).filter(|_| depth > 0)?;
            copies_in(&mut g, own, depth - 1);
            let limit = if calls == 1 { ONCE } else { SMALL };
            (simple(&g) && size(&g) <= limit).then_some(g)
        });
    }
    // From the end of each block on: what stands before keeps its place.
    list.reverse();
    let mut grown = size(f);
    for (block, at, callee) in list {
        if let Some(Some(g)) = callees.get(&callee)
            && grown + size(g) <= MOST
        {
            grown += size(g);
            inline(f, Block(block), at, g, true);
        }
    }
}

/// Calls by number: block, place in it, callee.
fn sites(f: &Func) -> Vec<(u32, usize, usize)> {
    let mut out = Vec::new();
    for (b, block) in f.blocks.iter().enumerate() {
        for (at, &i) in block.insts.iter().enumerate() {
            let inst = f.inst(i);
            if inst.op == Op::Call
                && let Some(site) = f.calls.get(inst.imm as usize)
                && site.far.is_none()
                && let Some(callee) = site.callee
            {
                out.push((b as u32, at, callee as usize));
            }
        }
    }
    out
}

/// In how many loops each block lies.
fn depths(f: &Func) -> Vec<u32> {
    let cfg = f.cfg();
    cfg.loops(&cfg.dominators()).depth
}

fn size(f: &Func) -> usize {
    let costs = |op: Op| !matches!(op, Op::Const | Op::Pack | Op::Trunc | Op::Hi);
    f.blocks.iter().flat_map(|b| &b.insts).filter(|&&i| costs(f.inst(i).op)).count()
}

/// It calls nothing and uses neither its own nor its caller's stack.
fn simple(f: &Func) -> bool {
    f.local_size == 0
        && f.signature.stack == 0
        && f.blocks.iter().flat_map(|b| &b.insts).all(|&i| {
            let inst = f.inst(i);
            !matches!(inst.op, Op::Call | Op::CallIndirect | Op::LocalAddr) && inst.mem.space != MemSpace::Stack
        })
}

/// Leaves out functions that neither the kernel nor what it calls can reach.
fn drop_unused(funcs: &mut Vec<Func>, table: &mut [u32]) -> Vec<usize> {
    let mut used = vec![false; funcs.len()];
    let mut work = vec![0usize];
    while let Some(n) = work.pop() {
        if std::mem::replace(&mut used[n], true) {
            continue;
        }
        work.extend(sites(&funcs[n]).into_iter().map(|s| s.2));
        let indirect = |f: &Func| f.blocks.iter().flat_map(|b| &b.insts).any(|&i| f.inst(i).op == Op::CallIndirect);
        if indirect(&funcs[n]) {
            work.extend(table.iter().map(|&t| t as usize).filter(|&t| t < used.len()));
        }
    }
    let kept: Vec<usize> = (0..funcs.len()).filter(|&n| used[n]).collect();
    let number = |old: u32| kept.iter().position(|&k| k == old as usize).map_or(u32::MAX, |n| n as u32);
    for t in table.iter_mut() {
        *t = number(*t);
    }
    let mut old = std::mem::take(funcs);
    *funcs = kept.iter().map(|&n| std::mem::take(&mut old[n])).collect();
    for f in funcs.iter_mut() {
        forget(f);
        for c in f.calls.iter_mut().filter(|c| c.far.is_none()) {
            c.callee = c.callee.map(number);
        }
    }
    kept
}

/// Leaves nothing of calls that stand nowhere any more: neither stack nor registers are kept for their arguments.
fn forget(f: &mut Func) {
    let mut stands = vec![false; f.calls.len()];
    for &i in f.blocks.iter().flat_map(|b| &b.insts) {
        let inst = f.inst(i);
        if matches!(inst.op, Op::Call | Op::CallIndirect)
            && let Some(s) = stands.get_mut(inst.imm as usize)
        {
            *s = true;
        }
    }
    f.calls.iter_mut().zip(stands).filter(|(_, stands)| !stands).for_each(|(c, _)| *c = CallSite::default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn functions(text: &str, callees: &[&[u32]]) -> Vec<Func> {
        let mut funcs = text::parse(text).unwrap();
        for (f, list) in funcs.iter_mut().zip(callees) {
            f.calls = list.iter().map(|&n| CallSite { callee: Some(n), ..CallSite::default() }).collect();
        }
        funcs
    }

    const CHAIN: &str = "func k entry returns() {\nblk0():\nv0:b32 = sreg\nv1:b32 = call v0 {imm=0}\nexit\n}\n\
        func g returns(b32) {\nblk0(v0:b32):\nv1:b32 = call v0 {imm=0}\nret v1\n}\n\
        func h returns(b32) {\nblk0(v0:b32):\nv1:b32 = not v0\nret v1\n}";

    #[test]
    fn a_chain_of_calls_melts_into_the_kernel() {
        let mut funcs = functions(CHAIN, &[&[1], &[2]]);
        let kept = run(&mut funcs, &mut []);
        assert_eq!((kept, funcs.len()), (vec![0], 1));
        verify::verify(&funcs[0]).unwrap();
        assert!(sites(&funcs[0]).is_empty());
    }

    /// Nothing asks for the registers and the stack of calls that stand nowhere any more.
    #[test]
    fn what_was_passed_to_copied_functions_is_forgotten() {
        let mut funcs = functions(CHAIN, &[&[1], &[2]]);
        funcs[0].calls[0] = CallSite { callee: Some(1), args: vec![33], stack: 64, ..CallSite::default() };
        run(&mut funcs, &mut []);
        assert!(funcs[0].calls.iter().all(|c| *c == CallSite::default()), "{:?}", funcs[0].calls);
        // What stands is as it was.
        let mut funcs = functions(CHAIN, &[&[1], &[1]]);
        funcs[0].calls[0].args = vec![33];
        run(&mut funcs, &mut []);
        assert_eq!(funcs[0].calls[0], CallSite { callee: Some(1), args: vec![33], ..CallSite::default() });
    }

    /// A long function that is called once stands there, but not in a loop.
    #[test]
    fn what_is_called_once_outside_of_loops_may_be_long() {
        let long: String = (1..=500).map(|n| format!("v{n}:b32 = not v{}\n", n - 1)).collect();
        let once = format!(
            "func k entry returns() {{\nblk0():\nv0:b32 = sreg\nv1:b32 = call v0 {{imm=0}}\nexit\n}}\n\
             func h returns(b32) {{\nblk0(v0:b32):\n{long}ret v500\n}}"
        );
        assert_eq!(run(&mut functions(&once, &[&[1]]), &mut []), vec![0]);
        let looped = once.replace("v1:b32 = call", "v2:p = const\nbr blk1()\nblk1():\nv1:b32 = call").replacen(
            "exit",
            "brif v2, blk1(), blk2()\nblk2():\nexit",
            1,
        );
        assert_eq!(run(&mut functions(&looped, &[&[1]]), &mut []), vec![0, 1]);
    }

    #[test]
    fn what_calls_itself_stays() {
        let mut funcs = functions(CHAIN, &[&[1], &[1]]);
        let kept = run(&mut funcs, &mut []);
        assert_eq!(kept, vec![0, 1]);
        assert_eq!(sites(&funcs[0]).len(), 1);
    }
}
