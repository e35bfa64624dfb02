//! How many registers the values of a function would take at once, in the order in which its instructions stand.
//!
//! An estimate: selection folds constants and parts of addresses into other instructions, and instructions are ordered anew. What is
//! made again wherever it is read (constants, parameters) takes none, nor do conditions. A routine for seldom cases takes its registers
//! behind all that lives across its call.

use crate::abi::Keeps;
use crate::cfg::Cfg;
use crate::groups::Groups;
use crate::ir::{Func, Op, Ty, Value};

/// 32-bit registers that a value takes; none if it is made again wherever it is read, or is a condition.
pub fn words(f: &Func, v: Value) -> i64 {
    let again = f.def_inst(v).is_some_and(|d| d.op.arity() == 0);
    match f.ty(v) {
        _ if again => 0,
        Ty::P => 0,
        Ty::B16 | Ty::B32 => 1,
        Ty::B64 => 2,
    }
}

/// The most words alive at once in each block; 0 where nothing comes by.
pub fn peaks(f: &Func, cfg: &Cfg) -> Vec<i64> {
    const NONE: u32 = u32::MAX;
    let n = f.blocks.len();
    let mut home = vec![NONE; f.values.len()];
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        block.params.iter().for_each(|p| home[p.index()] = b);
        block.insts.iter().flat_map(|&i| &f.inst(i).results).for_each(|r| home[r.index()] = b);
    }
    // Blocks that read each value from outside.
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut seen = vec![NONE; f.values.len()];
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        let mut note = |v: Value| {
            if home[v.index()] != b && std::mem::replace(&mut seen[v.index()], b) != b && words(f, v) > 0 {
                pairs.push((v.index() as u32, b));
            }
        };
        block.insts.iter().flat_map(|&i| &f.inst(i).args).for_each(|&a| note(a));
        block.term.visit(&mut note);
    }
    // Values alive at the ends of blocks: block, value.
    let mut outs: Vec<(u32, u32)> = Vec::new();
    let (mut last_in, mut last_out) = (vec![NONE; n], vec![NONE; n]);
    let mut work = Vec::new();
    for (v, b) in Groups::new(f.values.len(), &pairs).pairs() {
        work.push(b);
        while let Some(b) = work.pop() {
            if home[v as usize] == b || std::mem::replace(&mut last_in[b as usize], v) == v {
                continue;
            }
            for &p in &cfg.preds[b as usize] {
                if std::mem::replace(&mut last_out[p as usize], v) != v {
                    outs.push((p, v));
                }
                work.push(p);
            }
        }
    }
    let outs = Groups::new(n, &outs);
    let mut peaks = vec![0; n];
    // The block in which each value was last found to be read later.
    let mut alive = seen;
    alive.fill(NONE);
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        let mut now = 0;
        for &v in outs.of(b) {
            alive[v as usize] = b;
            now += words(f, Value(v));
        }
        let mut take = |v: Value, now: &mut i64| {
            if std::mem::replace(&mut alive[v.index()], b) != b {
                *now += words(f, v);
            }
        };
        block.term.visit(|v| take(v, &mut now));
        let mut peak = now;
        for &i in block.insts.iter().rev() {
            let inst = f.inst(i);
            // A result that nobody reads takes its register for a moment.
            inst.results.iter().for_each(|&r| take(r, &mut now));
            peak = peak.max(now);
            now -= inst.results.iter().map(|&r| words(f, r)).sum::<i64>();
            if inst.op == Op::Routine
                && let Keeps::But(_, own) = f.calls[inst.imm as usize].convention.keeps
            {
                peak = peak.max(now + i64::from(own));
            }
            inst.args.iter().for_each(|&a| take(a, &mut now));
            peak = peak.max(now);
        }
        block.params.iter().for_each(|&p| take(p, &mut now));
        peaks[b as usize] = peak.max(now);
    }
    peaks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::text;

    #[test]
    fn what_is_alive_through_a_loop_counts_in_it() {
        // v1 (two words) lives through the loop, which holds v3, v4 and for a moment v5; nothing reads v0 behind the first block.
        let f = &text::parse(
            "func k returns() {\nblk0():\nv0:b32 = sreg\nv1:b64 = zext v0\nv2:b32 = imul v0, v0\nbr blk1(v2)\nblk1(v3:b32):\nv4:b32 = not v3\n\
             v5:b32 = imul v3, v4\nv6:p = icmp v5, v4 {cmp=lt}\nbrif v6, blk1(v4), blk2()\nblk2():\nstore v1, v3 {space=global bytes=4}\nret\n}",
        )
        .unwrap()[0];
        // In the loop v3 lives on, as the block behind it reads it: v1, v3, v4, v5.
        assert_eq!(peaks(f, &f.cfg()), [3, 5, 3]);
    }

    #[test]
    fn constants_take_no_register() {
        let f = &text::parse("func k returns() {\nblk0():\nv0:b64 = param {bytes=8}\nv1:b32 = const {imm=7}\nstore v0, v1 {space=global bytes=4}\nret\n}")
            .unwrap()[0];
        assert_eq!(peaks(f, &f.cfg()), [0]);
    }
}
