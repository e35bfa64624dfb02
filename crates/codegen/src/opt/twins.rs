//! Parameters of blocks that are always equal.
//!
//! A loop over a tile that a mask cuts short carries the same sum many times over: each begins with the same word, and each iteration does the same to all.
//! Value numbering sees that they begin alike, not that they stay so. Here parameters of one block are taken to be equal where what comes to them looks
//! alike, and taken apart where it proves to be different, until nothing changes: what is left is equal on every way, whatever way was taken before.

use super::{identity, substitute};
use crate::ir::{Def, Effect, Func, Inst, Op, Value};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// Rounds after which nothing is known.
const ROUNDS: usize = 16;
/// Operations behind one another that are looked through.
const DEPTH: u32 = 64;

/// Parameters that are taken to be equal, of one block: which they are among its parameters.
struct Group {
    block: u32,
    members: Vec<u32>,
}

/// Runs the pass; true if anything changed.
pub fn run(f: &mut Func) -> bool {
    if f.blocks.iter().skip(1).all(|b| b.params.len() < 2) {
        return false;
    }
    let mut edges: Vec<Vec<&[Value]>> = vec![Vec::new(); f.blocks.len()];
    for &b in &f.cfg().rpo {
        f.blocks[b as usize].term.edges().iter().for_each(|e| edges[e.block.index()].push(&e.args));
    }
    let mut groups = begin(f, &edges);
    // What a parameter is taken for: the first of those that are equal.
    let mut class: Vec<Value> = identity(f);
    for _ in 0..ROUNDS {
        for g in &groups {
            let params = &f.blocks[g.block as usize].params;
            g.members.iter().for_each(|&m| class[params[m as usize].index()] = params[g.members[0] as usize]);
        }
        if groups.is_empty() {
            return false;
        }
        let mut seen = Seen { f, class: &class, known: FxHashMap::default() };
        let mut apart = Vec::new();
        for g in &mut groups {
            let first = g.members[0] as usize;
            let ways = &edges[g.block as usize];
            let equal = |&m: &u32| ways.iter().all(|args| seen.equal(args[first], args[m as usize], DEPTH));
            let (stay, go): (Vec<u32>, Vec<u32>) = g.members.iter().copied().partition(equal);
            g.members = stay;
            if !go.is_empty() {
                apart.push(Group { block: g.block, members: go });
            }
        }
        if apart.is_empty() {
            return merge(f, &groups);
        }
        groups.extend(apart);
        // Who is alone stands for itself.
        for g in groups.iter().filter(|g| g.members.len() == 1) {
            let p = f.blocks[g.block as usize].params[g.members[0] as usize];
            class[p.index()] = p;
        }
        groups.retain(|g| g.members.len() > 1);
    }
    false
}

/// Groups of parameters to which something of one look comes on every way.
fn begin(f: &Func, edges: &[Vec<&[Value]>]) -> Vec<Group> {
    let mut groups = Vec::new();
    for (b, block) in f.blocks.iter().enumerate().skip(1).filter(|(b, x)| x.params.len() > 1 && !edges[*b].is_empty()) {
        let mut of: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
        for (n, &p) in block.params.iter().enumerate() {
            let mut h = FxHasher::default();
            f.ty(p).hash(&mut h);
            for args in &edges[b] {
                match f.def(args[n]) {
                    Def::Param(block, _) => (block.0, 1u8).hash(&mut h),
                    Def::Inst(id, _) => {
                        let i = f.inst(id);
                        (i.op, i.imm, i.attr.sub, 0u8).hash(&mut h);
                    }
                }
            }
            of.entry(h.finish()).or_default().push(n as u32);
        }
        let mut found: Vec<Vec<u32>> = of.into_values().filter(|m| m.len() > 1).collect();
        found.sort_unstable();
        groups.extend(found.into_iter().map(|members| Group { block: b as u32, members }));
    }
    groups
}

/// Puts the first of each group in place of the others.
fn merge(f: &mut Func, groups: &[Group]) -> bool {
    let mut replaced = identity(f);
    for g in groups {
        let params = &f.blocks[g.block as usize].params;
        g.members[1..].iter().for_each(|&m| replaced[params[m as usize].index()] = params[g.members[0] as usize]);
    }
    substitute(f, &mut replaced);
    groups.iter().any(|g| g.members.len() > 1)
}

/// Which values are equal if parameters of one class are.
struct Seen<'a> {
    f: &'a Func,
    class: &'a [Value],
    known: FxHashMap<(Value, Value), bool>,
}

impl Seen<'_> {
    fn equal(&mut self, a: Value, b: Value, depth: u32) -> bool {
        let (a, b) = (self.class[a.index()], self.class[b.index()]);
        if a == b {
            return true;
        }
        let (Def::Inst(x, 0), Def::Inst(y, 0)) = (self.f.def(a), self.f.def(b)) else { return false };
        let (x, y) = (self.f.inst(x), self.f.inst(y));
        if depth == 0 || !same_but_for_arguments(x, y) || self.f.ty(a) != self.f.ty(b) {
            return false;
        }
        if let Some(&known) = self.known.get(&(a, b)) {
            return known;
        }
        let equal = x.args.iter().zip(&y.args).all(|(&a, &b)| self.equal(a, b, depth - 1));
        self.known.insert((a, b), equal);
        equal
    }
}

/// True for what gives the same of the same arguments.
fn same_but_for_arguments(x: &Inst, y: &Inst) -> bool {
    x.op == y.op
        && x.op.effect() == Effect::Pure
        && x.op != Op::Undef
        && (x.attr, x.mem, x.imm) == (y.attr, y.mem, y.imm)
        && x.args.len() == y.args.len()
        && x.results.len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::{dce, gvn};

    /// Two sums of a loop: where each begins, what is added to each.
    fn sums(begin: [&str; 2], add: [&str; 2]) -> usize {
        let text = format!(
            "func k entry returns() {{\nblk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = const {{imm=0}}\nv2:b32 = const {{imm=5}}\nv3:b32 = const {{imm=9}}\n\
             br blk1(v1, {}, {})\nblk1(v4:b32, v5:b32, v6:b32):\nv7:b32 = iadd v4, v2\nv8:b32 = imul v5, v3\nv9:b32 = iadd v8, {}\nv10:b32 = imul v6, v3\n\
             v11:b32 = iadd v10, {}\nv12:p = icmp v7, v3 {{cmp=lt}}\nbrif v12, blk1(v7, v9, v11), blk2()\nblk2():\nstore v0, v9 {{space=global bytes=4}}\n\
             store v0, v11 {{space=global bytes=4 imm=4}}\nexit\n}}",
            begin[0], begin[1], add[0], add[1]
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        let changed = run(&mut f);
        verify::verify(&f).unwrap();
        gvn::run(&mut f);
        dce::run(&mut f);
        let products = f.blocks[1].insts.iter().filter(|&&i| f.inst(i).op == Op::IMul).count();
        assert_eq!(changed, products == 1);
        products
    }

    #[test]
    fn what_begins_alike_and_goes_on_alike_is_one() {
        assert_eq!(sums(["v1", "v1"], ["v2", "v2"]), 1);
        // One by way of the other.
        assert_eq!(sums(["v1", "v1"], ["v5", "v6"]), 1);
        assert_eq!(sums(["v1", "v1"], ["v6", "v5"]), 1);
        assert_eq!(sums(["v1", "v2"], ["v2", "v2"]), 2);
        assert_eq!(sums(["v1", "v1"], ["v2", "v3"]), 2);
        assert_eq!(sums(["v1", "v1"], ["v4", "v6"]), 2);
    }
}
