//! Control-flow analyses over plain successor lists, shared by both representations: predecessors, reverse postorder,
//! dominators, post-dominators, natural loops.

use smallvec::SmallVec;

/// A few blocks: most have no more neighbours than lie in place.
pub type Blocks = SmallVec<[u32; 4]>;

/// "No block": unreachable, or the root's parent.
pub const NONE: u32 = u32::MAX;

/// The graph of a function: block numbers are dense, block 0 is the entry.
#[derive(Clone, Debug, Default)]
pub struct Cfg {
    /// Successors of each block, in terminator order, with repetitions.
    pub succs: Vec<Blocks>,
    /// Predecessors of each block, one entry an edge, in block order; edges from unreachable blocks are left out.
    pub preds: Vec<Blocks>,
    /// Reachable blocks in reverse postorder.
    pub rpo: Vec<u32>,
    /// Position of each block in `rpo`; [`NONE`] where unreachable.
    pub rpo_index: Vec<u32>,
}

impl Cfg {
    /// Builds the graph from successor lists.
    pub fn new(succs: Vec<Blocks>) -> Cfg {
        let n = succs.len();
        let mut rpo = Vec::with_capacity(n);
        let mut state = vec![0u32; n]; // 0 unseen, otherwise 1 + next successor to visit
        let mut stack = Vec::with_capacity(n);
        if n > 0 {
            stack.push(0u32);
            state[0] = 1;
        }
        while let Some(&b) = stack.last() {
            let next = state[b as usize] as usize - 1;
            // Successors are visited last to first, so that the first successor comes first in reverse postorder.
            let list = &succs[b as usize];
            if next < list.len() {
                state[b as usize] += 1;
                let s = list[list.len() - 1 - next];
                if state[s as usize] == 0 {
                    state[s as usize] = 1;
                    stack.push(s);
                }
            } else {
                rpo.push(b);
                stack.pop();
            }
        }
        rpo.reverse();
        let mut rpo_index = vec![NONE; n];
        for (i, &b) in rpo.iter().enumerate() {
            rpo_index[b as usize] = i as u32;
        }
        let mut preds: Vec<Blocks> = succs.iter().map(|_| Blocks::new()).collect();
        for (b, list) in succs.iter().enumerate() {
            if rpo_index[b] != NONE {
                for &s in list {
                    preds[s as usize].push(b as u32);
                }
            }
        }
        Cfg { succs, preds, rpo, rpo_index }
    }

    /// True if control can reach the block.
    pub fn reachable(&self, b: u32) -> bool {
        self.rpo_index[b as usize] != NONE
    }

    /// Number of blocks, unreachable ones included.
    pub fn len(&self) -> usize {
        self.succs.len()
    }

    /// True for a function without blocks.
    pub fn is_empty(&self) -> bool {
        self.succs.is_empty()
    }

    /// The dominator tree.
    pub fn dominators(&self) -> DomTree {
        DomTree::new(self.len(), &self.rpo, &self.rpo_index, |b| &self.preds[b as usize])
    }

    /// The post-dominator tree. Blocks without successors hang under a virtual exit, whose number is `self.len()`;
    /// blocks that never reach an exit (endless loops) have no immediate post-dominator.
    pub fn postdominators(&self) -> DomTree {
        let n = self.len();
        let exit = n as u32;
        // The reversed graph: successors become predecessors, plus the virtual exit.
        let ends = |b: u32| self.reachable(b) && self.succs[b as usize].is_empty();
        let last: Blocks = (0..exit).filter(|&b| ends(b)).collect();
        let behind = |b: u32| self.preds.get(b as usize).unwrap_or(&last).as_slice();
        let before = |b: u32| match self.succs.get(b as usize) {
            Some(_) if ends(b) => std::slice::from_ref(&exit),
            Some(list) => list.as_slice(),
            None => &[],
        };
        let mut order = Vec::with_capacity(n + 1);
        let mut next = vec![0u32; n + 1];
        let mut seen = vec![false; n + 1];
        let mut stack = Vec::with_capacity(n + 1);
        stack.push(exit);
        seen[n] = true;
        while let Some(&b) = stack.last() {
            let i = next[b as usize] as usize;
            if let Some(&s) = behind(b).get(i) {
                next[b as usize] += 1;
                if !seen[s as usize] {
                    seen[s as usize] = true;
                    stack.push(s);
                }
            } else {
                order.push(b);
                stack.pop();
            }
        }
        order.reverse();
        let mut index = vec![NONE; n + 1];
        for (i, &b) in order.iter().enumerate() {
            index[b as usize] = i as u32;
        }
        DomTree::new(n + 1, &order, &index, before)
    }

    /// True if an edge leads back in reverse postorder: without one there is no loop to look for.
    pub fn goes_back(&self) -> bool {
        let back =
            |b: u32| self.succs[b as usize].iter().any(|&s| self.rpo_index[s as usize] <= self.rpo_index[b as usize]);
        self.rpo.iter().any(|&b| back(b))
    }

    /// Natural loops: nesting depth of each block and the innermost header.
    pub fn loops(&self, dom: &DomTree) -> Loops {
        let n = self.len();
        let mut depth = vec![0u32; n];
        let mut header = vec![NONE; n];
        let mut members = Vec::new();
        let mut parent = vec![NONE; n];
        // By block, the header of the last loop that it was found in.
        let mut seen = vec![NONE; n];
        // Inner loops have later headers in reverse postorder, so outer ones are entered first.
        for &h in &self.rpo {
            let latches: Vec<u32> = self.preds[h as usize].iter().copied().filter(|&p| dom.dominates(h, p)).collect();
            if latches.is_empty() {
                continue;
            }
            let mut inside = vec![h];
            parent[h as usize] = header[h as usize];
            seen[h as usize] = h;
            let mut work = latches;
            while let Some(b) = work.pop() {
                if std::mem::replace(&mut seen[b as usize], h) != h {
                    inside.push(b);
                    work.extend(&self.preds[b as usize]);
                }
            }
            for &b in &inside {
                depth[b as usize] += 1;
                header[b as usize] = h;
            }
            inside.sort_unstable_by_key(|&b| self.rpo_index[b as usize]);
            members.push((h, inside));
        }
        Loops { depth, header, parent, members }
    }
}

/// Natural loops of a function.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    /// How many loops each block lies in.
    pub depth: Vec<u32>,
    /// Header of the innermost loop of each block, [`NONE`] outside.
    pub header: Vec<u32>,
    /// By header, that of the loop around its loop; [`NONE`] where there is none, and for other blocks.
    pub parent: Vec<u32>,
    /// Header and blocks (in reverse postorder) of each loop, outer loops first.
    pub members: Vec<(u32, Vec<u32>)>,
}

/// A dominator tree with constant-time queries.
#[derive(Clone, Debug)]
pub struct DomTree {
    /// Immediate dominator, [`NONE`] for the root and for unreachable blocks.
    pub idom: Vec<u32>,
    /// Children in the tree.
    pub children: Vec<Blocks>,
    /// The place of each block in a walk over the tree, from 1; 0 where unreachable.
    pre: Vec<u32>,
    /// How many blocks each dominates, itself included.
    size: Vec<u32>,
}

impl DomTree {
    /// Cooper, Harvey and Kennedy's algorithm over a reverse postorder; `order[0]` is the root.
    fn new<'a>(n: usize, order: &[u32], index: &[u32], preds: impl Fn(u32) -> &'a [u32]) -> DomTree {
        let mut idom = vec![NONE; n];
        let Some((&root, others)) = order.split_first() else {
            return DomTree { idom, children: vec![Blocks::new(); n], pre: vec![0; n], size: vec![0; n] };
        };
        idom[root as usize] = root;
        // The nearest block that dominates those before `b` that have one, and whether there are others.
        let nearest = |idom: &[u32], b: u32| {
            let (mut new, mut early) = (NONE, false);
            for &p in preds(b) {
                if index[p as usize] == NONE {
                    continue;
                }
                if idom[p as usize] == NONE {
                    early = true;
                } else {
                    new = if new == NONE { p } else { intersect(idom, index, p, new) };
                }
            }
            (new, early)
        };
        // Blocks that are come to from behind, where nothing is known yet.
        let mut early: Blocks = Blocks::new();
        for &b in others {
            let (new, more) = nearest(&idom, b);
            idom[b as usize] = new;
            if more {
                early.push(b);
            }
        }
        // Loops that have one way in change nothing.
        let mut changed = early.iter().any(|&b| nearest(&idom, b).0 != idom[b as usize]);
        while std::mem::take(&mut changed) {
            for &b in others {
                let new = nearest(&idom, b).0;
                if new != NONE && idom[b as usize] != new {
                    idom[b as usize] = new;
                    changed = true;
                }
            }
        }
        idom[root as usize] = NONE;
        // Blocks stand behind what dominates them: how many each dominates is known from the last one to the first, and their places the other way round.
        let mut size = vec![1u32; n];
        for &b in others.iter().rev() {
            let own = size[b as usize];
            if let Some(above) = size.get_mut(idom[b as usize] as usize) {
                *above += own;
            }
        }
        let mut children: Vec<Blocks> = (0..n).map(|_| Blocks::new()).collect();
        let (mut pre, mut next) = (vec![0u32; n], vec![0u32; n]);
        (pre[root as usize], next[root as usize]) = (1, 2);
        for &b in others {
            let above = idom[b as usize] as usize;
            if let Some(children) = children.get_mut(above) {
                children.push(b);
                let place = next[above];
                next[above] += size[b as usize];
                (pre[b as usize], next[b as usize]) = (place, place + 1);
            }
        }
        DomTree { idom, children, pre, size }
    }

    /// True if every path from the root to `b` goes through `a` (a block dominates itself). False for unreachable `b`.
    pub fn dominates(&self, a: u32, b: u32) -> bool {
        let (a, b) = (a as usize, b as usize);
        self.pre[a] != 0 && self.pre[a] <= self.pre[b] && self.pre[b] < self.pre[a] + self.size[a]
    }

    /// The nearest block that dominates both; both reachable.
    pub fn common(&self, a: u32, b: u32) -> u32 {
        let mut a = a;
        while a != NONE && !self.dominates(a, b) {
            a = self.idom[a as usize];
        }
        a
    }
}

fn intersect(idom: &[u32], index: &[u32], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        while index[a as usize] > index[b as usize] {
            a = idom[a as usize];
        }
        while index[b as usize] > index[a as usize] {
            b = idom[b as usize];
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(succs: &[&[u32]]) -> Cfg {
        Cfg::new(succs.iter().map(|&list| list.into()).collect())
    }

    fn diamond_loop() -> Cfg {
        // 0 -> 1; 1 -> 2 | 3; 2 -> 4; 3 -> 4; 4 -> 1 | 5; 6 unreachable
        graph(&[&[1], &[2, 3], &[4], &[4], &[1, 5], &[], &[4]])
    }

    #[test]
    fn dominators_of_a_diamond_in_a_loop() {
        let cfg = diamond_loop();
        let dom = cfg.dominators();
        assert_eq!(dom.idom, vec![NONE, 0, 1, 1, 1, 4, NONE]);
        assert!(dom.dominates(1, 5) && !dom.dominates(2, 4) && !dom.dominates(0, 6));
        assert_eq!(dom.common(2, 3), 1);
        assert!(!cfg.reachable(6));
        assert_eq!(cfg.preds[4][..], [2, 3]);
    }

    #[test]
    fn postdominators_of_a_diamond_in_a_loop() {
        let cfg = diamond_loop();
        let post = cfg.postdominators();
        assert_eq!(post.idom[1], 4);
        assert_eq!(post.idom[2], 4);
        assert_eq!(post.idom[4], 5);
        assert_eq!(post.idom[5], 7); // the virtual exit
    }

    #[test]
    fn loops_count_their_depth() {
        let cfg = diamond_loop();
        let loops = cfg.loops(&cfg.dominators());
        assert_eq!(loops.depth, vec![0, 1, 1, 1, 1, 0, 0]);
        assert_eq!(loops.header[3], 1);
        assert_eq!(loops.members, vec![(1, vec![1, 2, 3, 4])]);
        assert_eq!(loops.parent, vec![NONE; 7]);
    }

    /// A block dominates another if nothing leads to that without it; in graphs whose loops have several ways in, too.
    #[test]
    fn dominators_are_what_cannot_be_passed_by() {
        let mut seed = 7u32;
        let mut below = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % n
        };
        for _ in 0..400 {
            let n = 2 + below(12);
            let succs: Vec<Blocks> = (0..n).map(|_| (0..below(4)).map(|_| below(n)).collect()).collect();
            let cfg = Cfg::new(succs.clone());
            let dom = cfg.dominators();
            for without in 0..n {
                let mut seen = vec![false; n as usize];
                let mut work = if without == 0 { vec![] } else { vec![0u32] };
                while let Some(b) = work.pop() {
                    if b != without && !std::mem::replace(&mut seen[b as usize], true) {
                        work.extend(&succs[b as usize]);
                    }
                }
                for b in 0..n {
                    let needs = cfg.reachable(b) && !seen[b as usize];
                    assert_eq!(dom.dominates(without, b), needs && cfg.reachable(without), "{succs:?} {without} {b}");
                }
            }
            let listed =
                |b: u32| dom.idom[b as usize] == NONE || dom.children[dom.idom[b as usize] as usize].contains(&b);
            assert!((0..n).all(listed), "{succs:?}");
        }
    }

    #[test]
    fn first_successor_comes_first() {
        assert_eq!(graph(&[&[1, 2], &[], &[]]).rpo, vec![0, 1, 2]);
    }
}
