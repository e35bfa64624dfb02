//! Branches that the threads of a warp take together, as PTX says: what has `.aligned` must be executed by all of them, and "in conditionally executed code
//! it should only be used if it is known that all threads in the warp evaluate the condition identically, otherwise behavior is undefined".
//!
//! A branch is promised to be alike for all threads where whoever takes one of its sides comes to such an operation before the sides meet,
//! and whoever takes another side does not. Nothing is said of threads that leave the kernel on one side: programs end threads early before a barrier. What a
//! warpgroup does as a whole does say so: none of its threads can have left before.
//! The vendor's compiler goes by that, too: behind `bar.sync`, and not behind `barrier.sync`, it takes the warp to be together.

use super::graphs::Graphs;
use super::only_exits;
use crate::cfg::{Cfg, DomTree, NONE};
use crate::ir::{Func, Inst, Op, Term};

/// Blocks without a choice that are looked through on the way to where the sides meet.
const HOPS: usize = 4;

/// True for what all threads of a warp execute together.
fn aligned(inst: &Inst) -> bool {
    match inst.op {
        Op::Bar => inst.imm != 0,
        Op::Mma | Op::LdMatrix | Op::StMatrix | Op::MovMatrix => true,
        _ => false,
    }
}

/// True for what all threads of a warpgroup execute together.
fn whole(inst: &Inst) -> bool {
    matches!(inst.op, Op::Wgmma | Op::WgmmaOrder | Op::SetMaxReg)
}

/// True for what a whole warp executes at once wherever it is executed.
pub fn by_whole_warps(inst: &Inst) -> bool {
    aligned(inst) || whole(inst)
}

/// By block: the first marked block that whoever is here comes to in any case, itself counted.
fn nexts(post: &DomTree, marked: &[bool], n: u32) -> Vec<u32> {
    let mut next = vec![NONE; marked.len()];
    let mut work: Vec<u32> = Vec::new();
    for b in 0..n {
        if post.idom[b as usize] == NONE || post.idom[b as usize] >= n {
            work.push(b);
        }
    }
    while let Some(b) = work.pop() {
        let above = post.idom[b as usize];
        next[b as usize] = match marked[b as usize] {
            true => b,
            false if above < n => next[above as usize],
            false => NONE,
        };
        work.extend(&post.children[b as usize]);
    }
    next
}

/// Marks them.
pub(super) fn run(f: &mut Func, graphs: &Graphs) {
    let marks = |of: &dyn Fn(&Inst) -> bool| -> Vec<bool> {
        f.blocks.iter().map(|b| b.insts.iter().any(|&i| of(f.inst(i)))).collect()
    };
    let marked = [marks(&by_whole_warps), marks(&whole)];
    if !marked[0].contains(&true) {
        return;
    }
    let (cfg, post, dom) = (&graphs.living, graphs.post(f), graphs.dom());
    let n = cfg.len() as u32;
    let next = [0, 1].map(|k| nexts(post, &marked[k], n));
    for d in 0..n {
        let join = post.idom[d as usize];
        let succs = &cfg.succs[d as usize];
        if succs.len() < 2 {
            continue;
        }
        // Threads may leave on the way.
        let leaves = join >= n || only_exits(f, join);
        let (marked, next) = (&marked[usize::from(leaves)], &next[usize::from(leaves)]);
        let promised = succs.iter().any(|&s| {
            let at = next[s as usize];
            // Before the sides meet.
            at != NONE && at != join && (join >= n || post.dominates(join, at)) && {
                let alone = cfg.preds[s as usize].len() == 1 && dom.dominates(s, at);
                alone || join < n && succs.iter().all(|&o| o == s || leads(cfg, marked, o, join))
            }
        });
        if promised && let Term::CondBr { uniform, .. } | Term::Switch { uniform, .. } = &mut f.blocks[d as usize].term
        {
            *uniform = true;
        }
    }
}

/// True if `from` is where the sides meet, or goes on to it alone without anything aligned.
fn leads(cfg: &Cfg, marked: &[bool], from: u32, join: u32) -> bool {
    let mut at = from;
    for _ in 0..HOPS {
        if at == join {
            return true;
        }
        match cfg.succs[at as usize].as_slice() {
            &[next] if !marked[at as usize] => at = next,
            _ => return false,
        }
    }
    at == join
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::ir::{Term, text, verify};

    /// Whether the branch at the end of the first block that has one is promised.
    fn promised(body: &str) -> bool {
        let head =
            "blk0():\nv0:b32 = sreg\nv1:b32 = const {imm=3}\nv2:p = icmp v0, v1 {cmp=lt}\nv3:b64 = param {bytes=8}\n";
        let mut f = text::parse(&format!("func k entry returns() {{\n{head}{body}\n}}")).unwrap().remove(0);
        verify::verify(&f).unwrap();
        let graphs = super::Graphs::of(&f);
        run(&mut f, &graphs);
        verify::verify(&f).unwrap();
        let found = f.blocks.iter().find_map(|b| match b.term {
            Term::CondBr { uniform, .. } => Some(uniform),
            _ => None,
        });
        found.unwrap()
    }

    const STORE: &str = "store v3, v0 {space=global bytes=4}\n";

    #[test]
    fn a_side_with_an_aligned_barrier_is_taken_by_the_whole_warp() {
        let side = |bar: &str| format!("brif v2, blk1(), blk2()\nblk1():\n{bar}\nbr blk2()\nblk2():\n{STORE}exit");
        assert!(promised(&side("bar v1 {imm=1}")));
        assert!(!promised(&side("bar v1")), "`barrier.sync` waits for threads one by one");
        assert!(!promised(&side("v4:b32 = iadd v0, v1")));
    }

    #[test]
    fn a_loop_with_an_aligned_barrier_is_left_by_the_whole_warp() {
        let body = |bar: &str| format!("br blk1()\nblk1():\n{bar}\nbrif v2, blk1(), blk2()\nblk2():\n{STORE}exit");
        assert!(promised(&body("bar v1 {imm=1}")));
        assert!(!promised(&body("bar v1")));
    }

    #[test]
    fn threads_that_end_before_a_barrier_promise_nothing() {
        assert!(!promised("brif v2, blk1(), blk2()\nblk1():\nbar v1 {imm=1}\nbr blk2()\nblk2():\nexit"));
        let sides = |inst: &str| {
            format!("brif v2, blk1(), blk3()\nblk1():\n{inst}\nbr blk2()\nblk2():\nexit\nblk3():\n{STORE}br blk2()")
        };
        assert!(!promised(&sides("bar v1 {imm=1}")));
        assert!(promised(&sides("setmaxreg {imm=24}")), "a warpgroup is whole");
        let early = format!("brif v2, blk1(), blk2()\nblk1():\n{STORE}exit\nblk2():\nbar v1 {{imm=1}}\n{STORE}exit");
        assert!(!promised(&early));
    }

    #[test]
    fn a_barrier_that_both_sides_may_come_to_promises_nothing() {
        let either = format!(
            "brif v2, blk2(), blk1()\nblk1():\nv4:p = icmp v0, v1 {{cmp=gt}}\nbrif v4, blk2(), blk3()\nblk2():\nbar v1 {{imm=1}}\nbr blk3()\nblk3():\n{STORE}exit"
        );
        assert!(!promised(&either));
        // Nor does one that only some of those come to that take the side.
        let deeper = format!(
            "brif v2, blk1(), blk3()\nblk1():\nv4:p = icmp v0, v1 {{cmp=gt}}\nbrif v4, blk2(), blk3()\nblk2():\nbar v1 {{imm=1}}\nbr blk3()\nblk3():\n{STORE}exit"
        );
        assert!(!promised(&deeper));
    }
}
