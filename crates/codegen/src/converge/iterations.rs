//! Meetings inside an iteration of a loop that some threads leave from within a branch.
//!
//! All ways from such a branch meet behind the loop alone, as its post-dominator stands there: without more, threads that stay in the loop
//! would take each of its iterations in smaller groups. Here they meet as if nobody left: the ways that leave the loop, or go round it,
//! are taken out of the graph, and whoever goes one of them gives the barrier up (`BREAK`), in a block of its own on that edge.
//!
//! For speed alone: the blocks of such a loop are marked divergent whether threads meet in it or not.

use super::{Nest, Region, divergent_branch, living_graph, one_way_in, only_exits, region};
use crate::bitset::BitSet;
use crate::cfg::{Blocks, Cfg, Loops, NONE};
use crate::ir::{Block, Edge, Func, Term};

/// Most of these regions in a function, as each takes an analysis of the graph of its own.
const MOST: usize = 32;
/// Most places that are looked at for them, as each takes a walk over its loop.
const TRIES: usize = 4 * MOST;

/// Puts join blocks for those of the divergent `branches` that meet behind a loop around them; with each the block where it meets
/// by a barrier that is there, whatever loop that is in, or [`NONE`].
pub(super) fn place(f: &mut Func, uniform: &[bool], mut branches: Vec<(u32, u32)>) -> Vec<Region> {
    let mut out: Vec<Region> = Vec::new();
    let mut tries = TRIES;
    while !branches.is_empty() && out.len() < MOST {
        let cfg = living_graph(f);
        let dom = cfg.dominators();
        let loops = cfg.loops(&dom);
        branches.retain(|&(d, _)| divergent_branch(f, &cfg, uniform, d));
        let nest = Nest::new(&loops);
        let left: Vec<u32> = out.iter().flat_map(|r| r.leaves.iter().copied()).collect();
        match next(&cfg, &loops, &nest, &dom.idom, &left, &mut branches, &mut tries) {
            Some(meeting) => out.push(cut(f, &cfg, &meeting)),
            None => break,
        }
    }
    out
}

/// Threads that are at `start` together meet at `join`, or leave.
struct Meeting {
    start: u32,
    join: u32,
    inside: Vec<u32>,
}

/// The innermost loop in which some of `branches` meet, and where; what is found, or has no place, is taken out of `branches`.
/// `given_up`: blocks where threads give barriers up; `tries`: how many places may still be looked at.
fn next(
    cfg: &Cfg,
    loops: &Loops,
    nest: &Nest,
    idom: &[u32],
    given_up: &[u32],
    branches: &mut Vec<(u32, u32)>,
    tries: &mut usize,
) -> Option<Meeting> {
    let mut left = vec![false; cfg.len()];
    branches.iter().for_each(|&(d, _)| left[d as usize] = true);
    for (header, members) in loops.members.iter().rev() {
        if !members.iter().any(|&b| left[b as usize]) {
            continue;
        }
        let iteration = Iteration::new(cfg, *header, members);
        // What meets inside this loop, behind another one, has its barrier.
        let outer = |join: u32| join == NONE || !nest.holds(*header, join);
        while let Some((join, group)) = iteration.group(given_up, branches.iter().filter(|b| outer(b.1)).map(|b| b.0)) {
            *tries = tries.checked_sub(1)?;
            group.iter().for_each(|&d| left[d as usize] = false);
            branches.retain(|&(d, _)| left[d as usize]);
            if let Some(found) = iteration.enclose(nest, idom, &group, join) {
                return Some(found);
            }
        }
    }
    None
}

/// One iteration of a loop as a graph: block 0 is the header, and the last one stands for the end, from where the next begins.
struct Iteration<'a> {
    header: u32,
    members: &'a [u32],
    /// By block of the function: its number here.
    local: Vec<u32>,
    graph: Cfg,
    dom: crate::cfg::DomTree,
    post: crate::cfg::DomTree,
}

impl<'a> Iteration<'a> {
    fn new(cfg: &Cfg, header: u32, members: &'a [u32]) -> Iteration<'a> {
        debug_assert_eq!(members.first(), Some(&header));
        let end = members.len() as u32;
        let mut local = vec![NONE; cfg.len()];
        for (i, &b) in members.iter().enumerate() {
            local[b as usize] = i as u32;
        }
        let inner = |&s: &u32| if s == header { Some(end) } else { Some(local[s as usize]).filter(|&l| l != NONE) };
        let mut succs: Vec<Blocks> =
            members.iter().map(|&b| cfg.succs[b as usize].iter().filter_map(inner).collect()).collect();
        succs.push(Blocks::new());
        let graph = Cfg::new(succs);
        let (dom, post) = (graph.dominators(), graph.postdominators());
        Iteration { header, members, local, graph, dom, post }
    }

    fn end(&self) -> u32 {
        self.members.len() as u32
    }

    /// Those of `branches` that divide threads here and meet at one place, and the place: one behind those of `given_up`, as who waited before such a block
    /// would wait inside the region whose barrier is given up there.
    fn group(&self, given_up: &[u32], branches: impl Iterator<Item = u32> + Clone) -> Option<(u32, Vec<u32>)> {
        let gives_up = |l: u32| self.members.get(l as usize).is_some_and(|b| given_up.contains(b));
        let meets = |d: u32| {
            let l = self.local[d as usize];
            let mut ways = self.graph.succs.get(l as usize)?.iter();
            let first = ways.next()?;
            let mut join = self.post.idom[l as usize];
            while gives_up(join) {
                join = self.post.idom[join as usize];
            }
            (ways.any(|s| s != first) && join <= self.end()).then_some(join)
        };
        let join = branches.clone().find_map(meets)?;
        Some((join, branches.filter(|&d| meets(d) == Some(join)).collect()))
    }

    /// The nearest place before all of `group` where every way to the meeting begins, and the blocks between.
    fn enclose(&self, nest: &Nest, idom: &[u32], group: &[u32], join: u32) -> Option<Meeting> {
        let locals = group.iter().map(|&d| self.local[d as usize]);
        let mut start = locals.reduce(|a, b| self.dom.common(a, b))?;
        loop {
            // Out of loops inside this one that the meeting is not in.
            let block = *self.members.get(start as usize)?;
            let h = nest.header[block as usize];
            let holds = |h: u32| join != self.end() && nest.holds(h, self.members[join as usize]);
            if h != self.header && !holds(h) {
                start = *self.local.get(*idom.get(h as usize)? as usize)?;
                continue;
            }
            let inside = region(&self.graph, start, join);
            let common = inside.list().iter().fold(start, |c, &b| if c == NONE { c } else { self.dom.common(c, b) });
            if common == NONE || inside.contains(start) || !self.post.dominates(join, start) {
                return None;
            }
            if common != start {
                start = common;
                continue;
            }
            if !one_way_in(&self.graph, start, &inside) {
                return None;
            }
            let global = |&l: &u32| self.members.get(l as usize).copied();
            let join = global(&join).unwrap_or(self.header);
            return Some(Meeting { start: block, join, inside: inside.list().iter().filter_map(global).collect() });
        }
    }
}

/// Routes the ways to the meeting through a join block, and those that leave through blocks of their own.
fn cut(f: &mut Func, cfg: &Cfg, m: &Meeting) -> Region {
    let mut within = BitSet::new(f.blocks.len());
    m.inside.iter().for_each(|&b| {
        within.insert(b as usize);
    });
    let mut leaves = Vec::new();
    for &b in m.inside.iter().chain(std::iter::once(&m.start)) {
        let mut term = f.blocks[b as usize].term.clone();
        let stays = |f: &Func, s: u32| within.contains(s as usize) || s == m.join || only_exits(f, s);
        for e in term.edges_mut() {
            if !stays(f, e.block.0) {
                let new = f.new_block();
                let old = std::mem::replace(e, Edge { block: new, args: vec![] });
                f.blocks[new.index()].term = Term::Br(old);
                leaves.push(new.0);
            }
        }
        if let Term::Switch { targets, .. } = &mut term {
            let mut made: Vec<(Block, Block)> = Vec::new();
            for t in targets {
                if stays(f, t.0) {
                    continue;
                }
                let known = made.iter().find(|x| x.0 == *t).map(|x| x.1);
                *t = known.unwrap_or_else(|| {
                    let new = f.new_block();
                    f.blocks[new.index()].term = Term::Br(Edge { block: *t, args: vec![] });
                    made.push((*t, new));
                    leaves.push(new.0);
                    new
                });
            }
        }
        f.blocks[b as usize].term = term;
    }
    let region = super::split(f, cfg, m.start, m.join, &m.inside);
    Region { leaves, ..region }
}

#[cfg(test)]
mod tests {
    use crate::converge::{Convergence, run};
    use crate::ir::{Block, Func, Term, text, verify};

    fn analyse(body: &str) -> (Func, Convergence) {
        let head = "blk0():\nv0:b32 = sreg\nv1:b32 = const {imm=3}\nv2:p = icmp v0, v1 {cmp=lt}\nbr blk1(v1)\n";
        let mut f = text::parse(&format!("func k entry returns() {{\n{head}{body}\n}}")).unwrap().remove(0);
        verify::verify(&f).unwrap();
        let c = run(&mut f);
        verify::verify(&f).unwrap();
        (f, c)
    }

    #[test]
    fn threads_that_stay_meet_and_those_that_leave_give_up() {
        // A side of the branch in the loop ends the loop for some threads.
        let (f, c) = analyse(
            "blk1(v3:b32):\nv4:p = icmp v3, v0 {cmp=eq}\nbrif v4, blk2(), blk3(v1)\nblk2():\nv5:p = icmp v0, v3 {cmp=lt}\nbrif v5, blk4(), blk3(v3)\n\
             blk3(v6:b32):\nv7:b32 = iadd v3, v6\nv8:p = icmp v7, v0 {cmp=lt}\nbrif v8, blk1(v7), blk4()\nblk4():\nv9:b32 = not v1\nexit",
        );
        let barrier = c.open[1].first().expect("the branch sets a barrier").0;
        let join = (0..f.blocks.len()).find(|&b| c.close[b] == Some(barrier)).expect("it is waited for");
        assert_eq!(f.blocks[join].term.successors().len(), 1);
        let ways: Vec<usize> = (0..f.blocks.len()).filter(|&b| c.leave[b].is_some()).collect();
        let [way] = ways[..] else { panic!("{ways:?}") };
        assert_eq!((c.leave[way], c.divergent[way]), (Some(barrier), true));
        // From there threads go to where the loop's own barrier is waited for.
        let outer = c.open[0].first().expect("the loop has a barrier").0;
        assert_ne!(outer, barrier);
        assert_eq!(c.close[f.blocks[way].term.successors()[0].index()], Some(outer));
    }

    #[test]
    fn who_calls_a_function_is_not_waited_for_by_those_who_may_leave() {
        let given_up = |inside: &str| {
            let (_, c) = analyse(&format!(
                "blk1(v3:b32):\nv4:p = icmp v3, v0 {{cmp=eq}}\nbrif v4, blk2(), blk3(v1)\nblk2():\nv5:p = icmp v0, v3 {{cmp=lt}}\n{inside}\n\
                 brif v5, blk4(), blk3(v3)\nblk3(v7:b32):\nv8:b32 = iadd v3, v7\nv9:p = icmp v8, v0 {{cmp=lt}}\nbrif v9, blk1(v8), blk4()\n\
                 blk4():\nv10:b32 = not v1\nexit"
            ));
            c.leave.iter().flatten().count()
        };
        // What it saves of the barrier would still name those that give it up meanwhile.
        assert_eq!((given_up("v6:b32 = not v3"), given_up("v6:b32 = call v3")), (1, 0));
    }

    #[test]
    fn ways_round_the_loop_meet_before_its_header() {
        // Both sides go round by themselves, and both may leave.
        let (f, c) = analyse(
            "blk1(v3:b32):\nv4:p = icmp v3, v0 {cmp=eq}\nbrif v4, blk2(), blk3()\nblk2():\nv5:b32 = iadd v3, v0\nv6:p = icmp v5, v0 {cmp=lt}\nbrif v6, blk4(), blk1(v5)\n\
             blk3():\nv7:b32 = iadd v3, v1\nv8:p = icmp v7, v0 {cmp=lt}\nbrif v8, blk1(v7), blk4()\nblk4():\nv9:b32 = not v1\nexit",
        );
        let barrier = c.open[1].first().expect("the branch sets a barrier").0;
        let join = (0..f.blocks.len()).find(|&b| c.close[b] == Some(barrier)).expect("it is waited for");
        assert_eq!(f.blocks[join].term.successors()[0].index(), 1);
        assert_eq!(c.leave.iter().flatten().count(), 2);
    }

    #[test]
    fn who_goes_on_with_an_outer_loop_meets_behind_where_the_inner_one_is_given_up() {
        // From the inner loop some threads go round the outer one, by one way.
        let (f, c) = analyse(
            "blk1(v3:b32):\nbr blk2(v3)\nblk2(v4:b32):\nv5:p = icmp v4, v0 {cmp=eq}\nbrif v5, blk3(), blk4()\n\
             blk3():\nv6:p = icmp v4, v0 {cmp=lt}\nbrif v6, blk4(), blk5()\nblk4():\nv7:p = icmp v4, v0 {cmp=gt}\nbrif v7, blk2(v0), blk6()\n\
             blk5():\nv8:p = icmp v4, v0 {cmp=ne}\nbrif v8, blk2(v1), blk1(v4)\nblk6():\nv9:b32 = not v1\nexit",
        );
        crate::converge::check::run(&f, &c).unwrap();
        let barrier = c.open[1].first().expect("the outer loop's iterations meet").0;
        let join = (0..f.blocks.len()).find(|&b| c.close[b] == Some(barrier)).expect("it is waited for");
        assert_eq!(f.blocks[join].term.successors()[..], [Block(1)]);
        let way =
            (0..f.blocks.len()).find(|&b| f.blocks[b].term.successors().iter().any(|s| s.index() == join)).unwrap();
        assert!(c.leave[way].is_some_and(|b| b != barrier), "the inner barrier is given up before");
    }

    #[test]
    fn what_meets_behind_an_inner_loop_has_one_barrier() {
        // Threads leave the inner loop one after the other; the outer one goes on with all of them.
        let (f, c) = analyse(
            "blk1(v3:b32):\nbr blk2(v0)\nblk2(v4:b32):\nv5:b32 = isub v4, v1\nv6:p = icmp v5, v0 {cmp=lt}\nbrif v6, blk2(v5), blk3()\n\
             blk3():\nv7:b32 = iadd v3, v1\nv8:p = icmp v7, v1 {cmp=lt}\nbrif v8, blk1(v7), blk4()\nblk4():\nv9:b32 = not v1\nexit",
        );
        assert_eq!(c.open.iter().map(Vec::len).sum::<usize>(), 1, "{}", text::print(&f));
        assert!(c.leave.iter().all(Option::is_none));
    }

    #[test]
    fn one_way_on_is_no_meeting() {
        let (f, c) = analyse(
            "blk1(v3:b32):\nv4:p = icmp v3, v0 {cmp=eq}\nbrif v4, blk3(), blk2()\nblk2():\nv5:b32 = iadd v3, v0\nv6:p = icmp v5, v0 {cmp=lt}\nbrif v6, blk1(v5), blk3()\n\
             blk3():\nv7:b32 = not v1\nexit",
        );
        assert!(c.leave.iter().all(Option::is_none));
        assert!(f.blocks.iter().all(|b| !matches!(b.term, Term::Unreachable)));
    }
}
